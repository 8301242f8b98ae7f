"""The command `elasticd replay`: its arguments, and in which order the parts that it names are called."""

import argparse
from functools import partial
from math import inf
from pathlib import Path

from elasticd.base.errors import EXIT_CHANGES, ConfigError, UnavailableError
from elasticd.config import DEFAULT_CONFIG, load_policy, load_settings
from elasticd.journal import misses_segments, read
from elasticd.lab.replay.again import Replay, summary
from elasticd.lab.replay.printed import replayed, with_count
from elasticd.model.policy import PoolPolicy
from elasticd.registry import discover
from elasticd.sources.recorded.export import time_of_argument
from elasticd.ui.journaled import workloads
from elasticd.ui.names import workload_of
from elasticd.ui.terminal import show

REPLAY = (
    "Make the decisions of the journal again, as they were or by another policy, and show what comes out otherwise."
)


def takes_replay(parser: argparse.ArgumentParser) -> None:
    """The arguments of `elasticd replay`."""
    add = parser.add_argument
    add("workload", metavar="NAMESPACE/KIND/NAME", nargs="*", help="of this one, or KIND/NAME with -n; default: of all")
    add("-n", "--namespace", default="", help="where NAMESPACE is left out")
    text = "decide by this policy about the workloads that it governs, instead of as it was"
    add("--policy", type=Path, metavar="POLICY.toml", help=text)
    text = "decisions from then on: as 03:12, -2h, or 2026-03-02T08:00:00Z; default: the oldest in the journal"
    add("--from", type=time_of_argument, metavar="TIME", dest="begin", default=-inf, help=text)
    add("--to", type=time_of_argument, metavar="TIME", dest="end", default=inf, help="default: now")
    add("--all", action="store_true", help="show all that differ, not only the first twenty")
    add("--config", type=Path, default=DEFAULT_CONFIG, help=f"default: {DEFAULT_CONFIG}")
    add("--state", type=Path, help="the journal's folder, instead of the config's")
    add("--json", action="store_true", help="for a machine")


def replay(arguments: argparse.Namespace) -> int:
    """Make the decisions of the journal again. Returns the exit code: 1 where some come out otherwise, unless by
    another policy."""
    registry = discover()
    folder = arguments.state or load_settings(arguments.config, registry).state
    if not folder.is_dir():
        raise UnavailableError(f"{folder}: must be the daemon's state folder, is not there")
    instead = None if arguments.policy is None else load_policy(arguments.policy, registry)
    if isinstance(instead, PoolPolicy):
        raise ConfigError(str(arguments.policy), "", "must be a policy about workloads, is one about pods")
    wanted = ""
    if arguments.workload:
        known = partial(workloads, folder)
        wanted = workload_of(arguments.workload, arguments.namespace, known)
    again = Replay(registry, dropped=misses_segments(folder), instead=instead)
    made = (
        each
        for each in again.all(with_count(read(folder)), wanted)
        if arguments.begin <= each.decision.at <= arguments.end
    )
    found = summary(made)
    if not found.decisions:
        raise UnavailableError(f"{folder}: the journal has no such decision")
    show(arguments, found, *replayed(found, instead, everything=arguments.all))
    return EXIT_CHANGES if found.differences and instead is None else 0
