"""The command line: run, check, explain, status, sources, query, nodes, moves, rebalance, record, plugins.

Knows arguments, exit codes and the terminal; every command is a few lines on top of the parts it names.
"""

import argparse
import asyncio
import logging
import os
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from elasticd import daemon
from elasticd.base import shapes
from elasticd.base.errors import (
    EXIT_CONFIG,
    EXIT_UNAVAILABLE,
    ConfigError,
    ElasticdError,
    UnavailableError,
    near,
    nearest,
)
from elasticd.base.text import one_line, plain
from elasticd.config import Settings, load_settings
from elasticd.config.checking import checked
from elasticd.config.connecting import Finding, connect
from elasticd.registry import discover
from elasticd.runtime import control_file
from elasticd.sources.prometheus.history import Steps
from elasticd.sources.recorded.export import prometheus_of, takes_record, write_recording
from elasticd.telemetry import log as logs
from elasticd.ui import decisions as show
from elasticd.ui import installed as show_installed
from elasticd.ui import nodes as show_nodes
from elasticd.ui import pods as show_pods
from elasticd.ui import remote, telling
from elasticd.ui import sources as show_sources
from elasticd.ui import story as show_story
from elasticd.ui.named import no_samples, why_nothing, workload_of
from elasticd.ui.printer import Printer
from elasticd.ui.recent import latest, latest_of_all
from elasticd.ui.standing import remembered, standing
from elasticd.ui.terminal import Terminal

DEFAULT_CONFIG = Path("/etc/elasticd/elasticd.toml")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Exit codes: 0 done, 2 wrong arguments, 69 something needed is not there, 78 a mistake in a
    file a person wrote."""
    arguments = _parser().parse_args(_joined(sys.argv[1:] if argv is None else argv))
    try:
        code = arguments.command(arguments)
        sys.stdout.flush()
    except ElasticdError as error:
        print(plain(str(error)), file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    except OSError as error:  # of our own output: a full disk
        print(f"output: must be writable, is not: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_UNAVAILABLE
    return int(code)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="elasticd", description="Keeps a Kubernetes cluster elastic.")
    parser.add_argument("--version", action="version", version=f"elasticd {version('elasticd')}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(name: str, function: Any, text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text)
        made.set_defaults(command=function)
        return made

    run = command("run", _run, "Run the daemon in the foreground.")
    _takes_run(run)
    checks = command("check", _check, "Check policies and settings: one line for each mistake, exit code 78.")
    _takes_check(checks)
    explain = command("explain", _explain, "Explain the latest decision about a workload.")
    explain.add_argument("--policy", help="of this policy, where several look at the workload")
    status = command("status", _status, "Show the latest decision about every workload.")
    status.add_argument("--json", action="store_true", help="the whole records, for a machine")
    sources = command("sources", _sources, "Show how a running daemon's sources fare.")
    sources.add_argument("--json", action="store_true", help="for a machine")
    query = command("query", _query, "Show the samples that a running daemon's strategies would see.")
    _takes_workload(explain, "or KIND/NAME with -n, as deploy/web; or pod NAMESPACE/NAME")
    query.add_argument("series", metavar="SERIES")
    _takes_workload(query, "or KIND/NAME with -n, as deploy/web")
    nodes = command("nodes", _nodes, "Show a running daemon's pools: load of nodes, who gives way, what moves next.")
    nodes.add_argument("node", metavar="NODE", nargs="?", default="", help="this one, and its pods; default: all")
    nodes.add_argument("--json", action="store_true", help="for a machine")
    moves = command("moves", _moves, "Show a running daemon's moves in flight, and who is held back.")
    moves.add_argument("--json", action="store_true", help="for a machine")
    rebalance = command("rebalance", _rebalance, "Let a running daemon look at its pools now.")
    rebalance.add_argument("--now", action="store_true", required=True, help="and not when the next look is due")
    rebalance.add_argument("--state", type=Path, help="the daemon's state folder, instead of the config's")
    for asker in (sources, query, nodes, moves, rebalance):
        _takes_config(asker)
    plugins = command("plugins", _plugins, "List what is installed and what kind each is, or show all of one.")
    plugins.add_argument("name", metavar="NAME", nargs="?", default="", help="its options, defaults, bounds and file")
    plugins.add_argument("--json", action="store_true", help="for a machine")
    record = command("record", _record, "Write what Prometheus remembers into a recording.")
    _takes_config(record)
    takes_record(record)
    for reader in (explain, status):
        _takes_config(reader)
        reader.add_argument("--state", type=Path, help="the journal's folder, instead of the config's")
    return parser


def _takes_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, default=DEFAULT_CONFIG, help=f"default: {DEFAULT_CONFIG}")


def _takes_workload(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("workload", metavar="NAMESPACE/KIND/NAME", nargs="+", help=text)
    parser.add_argument("-n", "--namespace", default="", help="where NAMESPACE is left out")
    parser.add_argument("--json", action="store_true", help="the whole record, for a machine")


def _takes_run(parser: argparse.ArgumentParser) -> None:
    _takes_config(parser)
    add = parser.add_argument
    add("--decisions", action="store_true", help="print every change, hold and new poll rate")
    text = "of the log, on stderr; under systemd, text has the journal's priorities instead of times; default: text"
    add("--log-format", choices=logs.FORMATS, default="text", help=text)
    add("--log-level", choices=logs.LEVELS, default="info", help="the least that is logged; default: info")


def _takes_check(parser: argparse.ArgumentParser) -> None:
    text = "a folder of policies, or one with an elasticd.toml, or one policy's file; default: what --config says"
    add = parser.add_argument
    add("place", type=Path, metavar="DIR", nargs="?", help=text)
    add("--config", type=Path, help=f"default: DIR/elasticd.toml, or without DIR {DEFAULT_CONFIG}")
    add("--connect", action="store_true", help="also try the cluster, what it lets elasticd do, and each source once")
    add("--json", action="store_true", help="for a machine")


def _joined(words: Sequence[str]) -> list[str]:
    """The same, with `--from -7d` as `--from=-7d`: argparse takes what begins with a dash for an option."""
    found: list[str] = []
    for word in words:
        if found and found[-1] in ("--from", "--to") and word.startswith("-"):
            found[-1] += f"={word}"
        else:
            found.append(word)
    return found


def _run(arguments: argparse.Namespace) -> int:
    logs.set_up(sys.stderr, arguments.log_format, arguments.log_level)
    told = arguments.decisions
    try:
        listeners = [Printer(Terminal(), dry_run=load_settings(arguments.config, discover()).dry_run)] if told else []
        asyncio.run(daemon.run(arguments.config, listeners))
    except ElasticdError as error:  # in the form that was asked for, a line each
        for line in plain(str(error)).split("\n"):
            logging.getLogger("elasticd").error("%s", line)
        return error.exit_code
    return 0


def _check(arguments: argparse.Namespace) -> int:
    found = checked(arguments.place, arguments.config, DEFAULT_CONFIG)
    tried: list[Finding] = []
    if arguments.connect and not found.wrong:
        if found.settings is None:
            raise ConfigError("", "--connect", "must be given beside an elasticd.toml: name it by --config FILE")
        logging.getLogger("elasticd").addHandler(logging.NullHandler())  # what is wrong is told below
        tried = asyncio.run(connect(found.settings, found.policies))
    if arguments.json:
        print(shapes.encode({**found.record(), "tried": tried}).decode())
    else:
        for line in [*map(str, found.wrong)] or [*found.advice, *[one.line for one in tried], found.fine]:
            print(plain(line))
    return EXIT_CONFIG if found.wrong else EXIT_UNAVAILABLE if any(one.bad for one in tried) else 0


def _state(arguments: argparse.Namespace) -> Path:
    folder: Path = arguments.state or load_settings(arguments.config, discover()).state
    if not folder.is_dir():
        raise UnavailableError(f"{folder}: must be the daemon's state folder, is not there")
    return folder


def _explain(arguments: argparse.Namespace) -> int:
    if named := telling.pod_of(arguments.workload, arguments.namespace):
        return _explain_pod(arguments, named)
    folder = _state(arguments)
    workload = workload_of(arguments.workload, arguments.namespace, lambda: _known(folder))
    decision, outcome = latest(folder, workload.split("/"), arguments.policy)
    if not arguments.state:
        _note_unready(load_settings(arguments.config, discover()))
    if decision is None:
        raise UnavailableError(f"{folder}: the journal has no decision {_about(folder, workload, arguments)}")
    if arguments.json:
        print(shapes.encode({"decision": decision, "outcome": outcome}).decode())
    else:
        Terminal().print(show.explain(decision, outcome, time.time()))
    return 0


def _known(folder: Path) -> set[str]:
    return {str(one.workload) for one in latest_of_all(folder)}


def _explain_pod(arguments: argparse.Namespace, named: str) -> int:
    folder = _state(arguments)
    if not arguments.state:
        _note_unready(load_settings(arguments.config, discover()))
    told = telling.told_of(named, folder, arguments.config, arguments.policy)
    if arguments.json:
        print(shapes.encode(told.record()).decode())
    else:
        Terminal().print(show_story.explain(named, told.story, told.seen, time.time()))
    return 0


def _note_unready(settings: Settings) -> None:
    """Say that the daemon may have decided something else since, which the journal does not have, and why: it knows."""
    if why := remote.unready(settings.http):
        print(f"elasticd is not ready: {why}", file=sys.stderr)


def _about(folder: Path, workload: str, arguments: argparse.Namespace) -> str:
    """Which decision there is none of, the nearest that there is, and why."""
    known, named = latest_of_all(folder), one_line(workload)
    policies = sorted({one.policy for one in known if str(one.workload) == workload})
    if arguments.policy is not None and policies:
        theirs = nearest(arguments.policy, policies) or f"; there are some of {', '.join(policies)}"
        return f'of policy "{arguments.policy}" about {named}{theirs}'
    told = f"about {named}{near(workload, {str(one.workload) for one in known})}"
    if arguments.state:
        return told
    return f"{told}; {why_nothing(workload, load_settings(arguments.config, discover()))}"


def _status(arguments: argparse.Namespace) -> int:
    folder = _state(arguments)
    if arguments.state:
        report = remembered(folder)
    else:
        registry = discover()
        settings = load_settings(arguments.config, registry)
        _note_unready(settings)
        report = standing(settings, registry)
    if arguments.json:
        print(shapes.encode(report).decode())
    else:
        for part in show.status(report, time.time()):
            Terminal().print(part)
    return 0


def _sources(arguments: argparse.Namespace) -> int:
    found = remote.sources(load_settings(arguments.config, discover()).http)
    if arguments.json:
        print(shapes.encode(found).decode())
    else:
        Terminal().print(show_sources.sources(found))
    return 0


def _nodes(arguments: argparse.Namespace) -> int:
    http = load_settings(arguments.config, discover()).http
    found = remote.node(http, arguments.node) if arguments.node else remote.pools(http)
    if not found and arguments.node:
        names = {node.node for pool in remote.pools(http) for node in pool.nodes}
        raise UnavailableError(f"no pool has a node {arguments.node}{nearest(arguments.node, names)}")
    if arguments.json:
        print(shapes.encode(found).decode())
    elif found:
        Terminal().print(show_nodes.shown(found, time.time()))
    else:
        print("no policy in force has a table [pool]")
    return 0


def _moves(arguments: argparse.Namespace) -> int:
    settings = load_settings(arguments.config, discover())
    found, now = telling.moves(settings), time.time()
    _note_unready(settings)
    if arguments.json:
        print(shapes.encode({"in_flight": found.in_flight, "held_back": found.held_back}).decode())
        return 0
    if found.in_flight:
        Terminal().print(show_pods.moves(found.in_flight, now))
    else:
        print("no move is in flight")
    for part in show_story.held(found.held_back, now) if found.held_back else ():
        Terminal().print(part)
    if found.note:
        print(found.note, file=sys.stderr)
    return 0


def _rebalance(arguments: argparse.Namespace) -> int:
    print(control_file.ring(_state(arguments)))
    return 0


def _query(arguments: argparse.Namespace) -> int:
    settings = load_settings(arguments.config, discover())
    known = lambda: remote.query(settings.http, arguments.series, "").workloads  # noqa: E731
    workload = workload_of(arguments.workload, arguments.namespace, known)
    said = remote.query(settings.http, arguments.series, workload)
    if not said.found:
        there = f"a policy is about {workload}, and the cluster has no such" if workload in said.workloads else ""
        raise UnavailableError(there or f"no policy is about {one_line(workload)}{near(workload, said.workloads)}")
    if arguments.json:
        print(shapes.encode(said).decode())
        return 0
    for one in said.found:
        Terminal().print(show.query(one.policy, one.series, time.time()))
    if not any(one.series.samples or one.series.forecast for one in said.found):
        print(no_samples(arguments.series, remote.sources(settings.http)))
    return 0


def _record(arguments: argparse.Namespace) -> int:
    source = prometheus_of(load_settings(arguments.config, discover()).sources, arguments.source)
    series = list(dict.fromkeys(name for name in arguments.series.split(",") if name))
    if not series:
        raise ConfigError("", "--series", "must name a series, is empty")
    steps = Steps(arguments.begin, arguments.end, arguments.step)
    done = asyncio.run(write_recording(source, series, steps, arguments.out, time.time(), force=arguments.force))
    for name, fault in done.faults.items():
        print(f"{name}: {fault}", file=sys.stderr)
    for name, rows in done.rows.items():
        print(f"{arguments.out}: {rows} samples of {name}")
    return 0


def _plugins(arguments: argparse.Namespace) -> int:
    registry = discover()
    found = show_installed.called(registry, arguments.name) if arguments.name else show_installed.everything(registry)
    if arguments.json:
        print(shapes.encode([show_installed.described(one, registry) for one in found]).decode())
        return 0
    told = (
        [show_installed.shown(one, registry) for one in found] if arguments.name else [show_installed.listed(registry)]
    )
    for one in told:
        Terminal().print(one)
    return 0
