"""The command line: run, check, explain, history, status, sources, query, nodes, moves, rebalance, demo, examples,
record, plugins; simulate, backtest, tune, reproduce and replay, which lab has; import, compare, takeover, pause and
resume, which migration has.

Knows arguments, exit codes and the terminal; every command is a few lines on top of the parts it names.
"""

import argparse
import asyncio
import logging
import os
import shutil
import sys
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from functools import partial
from importlib.metadata import version
from math import inf
from pathlib import Path
from typing import Any

from rich.text import Text

from elasticd import daemon
from elasticd.base import shapes
from elasticd.base.errors import (
    EXIT_CHANGES,
    EXIT_CONFIG,
    EXIT_UNAVAILABLE,
    LIMITS_OF_THREADS,
    NO_THREAD,
    ConfigError,
    ElasticdError,
    UnavailableError,
    near,
    nearest,
)
from elasticd.base.shapes import moment
from elasticd.base.text import one_line, plain
from elasticd.config import DEFAULT_CONFIG, Settings, load_settings
from elasticd.config.checking import checked
from elasticd.config.connecting import Finding, connect
from elasticd.lab import commands as trials
from elasticd.migration import command as migration
from elasticd.model.reports import Preview
from elasticd.ports.source import TimeRange
from elasticd.registry import discover
from elasticd.runtime import control_file
from elasticd.sources.recorded.export import (
    Recorded,
    Selection,
    prometheus_of,
    takes_record,
    time_of_argument,
    write_journal,
    write_recording,
)
from elasticd.telemetry import log
from elasticd.ui import decisions as show_decisions
from elasticd.ui import installed as show_installed
from elasticd.ui import new_plugin, remote, reports
from elasticd.ui import nodes as show_nodes
from elasticd.ui import pods as show_pods
from elasticd.ui import sources as show_sources
from elasticd.ui.journaled import decided, history, latest, latest_of_all, workloads
from elasticd.ui.names import no_samples, pod_of, why_nothing, workload_of
from elasticd.ui.printer import printing
from elasticd.ui.shipped import write_demo, write_examples
from elasticd.ui.terminal import show


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. What its exit code means: base.errors.EXIT_CODES."""
    _open_closed_streams()
    arguments = parser().parse_args(_join_dashed(sys.argv[1:] if argv is None else argv))
    try:
        code = arguments.command(arguments)
        sys.stdout.flush()
    except ElasticdError as error:
        print(plain(str(error)), file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # the reader of our output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    except OSError as error:  # of our own output, for example on a full disk, which has no name
        what = f"{one_line(str(error.filename))}: must be usable" if error.filename else "output: must be writable"
        print(f"{what}, is not: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_UNAVAILABLE
    return int(code)


def _open_closed_streams() -> None:
    """Give each standard stream that was closed at the start, which Python has as None, the null device, so that what
    is printed goes nowhere. In this order each takes its own descriptor again, so that no other file does."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            null = Path(os.devnull).open(mode, encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
            setattr(sys, name, null)


def parser() -> argparse.ArgumentParser:
    """The command line. The man page, docs/reference/commands.md and the completions are made from it too."""
    whole = argparse.ArgumentParser(prog="elasticd", description="Keeps a Kubernetes cluster elastic.")
    whole.add_argument("--version", action="version", version=f"elasticd {version('elasticd')}")
    commands = whole.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(name: str, function: Any, text: str) -> argparse.ArgumentParser:
        command_parser = commands.add_parser(name, help=text, description=text)
        command_parser.set_defaults(command=function)
        return command_parser

    run = command("run", _run, "Run the daemon in the foreground.")
    _add_run_arguments(run)
    checks = command("check", _check, "Check policies and settings: one line for each mistake, exit code 78.")
    _add_check_arguments(checks)
    explain = command("explain", _explain, "Explain the latest decision about a workload, or the one at a time.")
    _add_explain_arguments(explain)
    past = command("history", _history, "List what was decided about a workload, from the journal.")
    _add_history_arguments(past)
    status = command("status", _status, "Show the latest decision about every workload.")
    status.add_argument("--json", action="store_true", help="the whole records, for a machine")
    sources = command("sources", _sources, "Show how a running daemon's sources fare.")
    sources.add_argument("--json", action="store_true", help="for a machine")
    query = command("query", _query, "Show the samples that a running daemon's strategies would see.")
    query.add_argument("series", metavar="SERIES")
    _add_workload_arguments(query, "or KIND/NAME with -n, as deploy/web")
    nodes = command(
        "nodes", _nodes, "Show a running daemon's pools: load of nodes, which pods are preempted, what moves next."
    )
    nodes.add_argument("node", metavar="NODE", nargs="?", default="", help="this one, and its pods; default: all")
    nodes.add_argument("--json", action="store_true", help="for a machine")
    moves = command("moves", _moves, "Show a running daemon's moves in flight, and who is held back.")
    moves.add_argument("--json", action="store_true", help="for a machine")
    rebalance = command("rebalance", _rebalance, "Let a running daemon look at its pools now.")
    rebalance.add_argument("--now", action="store_true", required=True, help="and not when the next look is due")
    rebalance.add_argument("--state", type=Path, help="the daemon's state folder, instead of the config's")
    for asker in (sources, query, nodes, moves, rebalance):
        _add_config_argument(asker)
    plugins = command("plugins", _plugins, "List what is installed, show all of one, or begin a new one.")
    _add_plugins_arguments(plugins)
    _add_shipped(command)
    record = command("record", _record, "Write what Prometheus remembers, or the journal, into a recording.")
    _add_config_argument(record)
    takes_record(record)
    for name, function, text, takes in (*trials.COMMANDS, *migration.COMMANDS):
        takes(command(name, function, text))
    for reader in (explain, past, status):
        _add_config_argument(reader)
        reader.add_argument("--state", type=Path, help="the journal's folder, instead of the config's")
    return whole


def _add_shipped(command: Callable[[str, Any, str], argparse.ArgumentParser]) -> None:
    """The commands about the files that elasticd brings."""
    demo = command("demo", _demo, "Run on a simulated cluster; Ctrl-C stops it.")
    text = "of its settings, policies and journal, written at first; default: elasticd-demo"
    demo.add_argument("folder", type=Path, metavar="DIR", nargs="?", default=Path("elasticd-demo"), help=text)
    examples = command("examples", _examples, "Write examples: policies, sources, manifests, dashboards, alert rules.")
    examples.add_argument("folder", type=Path, metavar="DIR", help="a new folder")


def _add_explain_arguments(parser: argparse.ArgumentParser) -> None:
    _add_workload_arguments(parser, "or KIND/NAME with -n, as deploy/web; or pod NAMESPACE/NAME")
    parser.add_argument("--policy", help="of this policy, where several look at the workload")
    text = "the decision that was in force then: as 03:12, -2h, or 2026-03-02T08:00:00Z; default: now"
    parser.add_argument("--at", type=time_of_argument, metavar="TIME", help=text)


def _add_history_arguments(parser: argparse.ArgumentParser) -> None:
    _add_workload_arguments(parser, "or KIND/NAME with -n, as deploy/web")
    add = parser.add_argument
    add("--policy", help="by this policy, where several look at the workload")
    text = "as 03:12, -2h, or 2026-03-02T08:00:00Z; default: the oldest in the journal"
    add("--from", type=time_of_argument, metavar="TIME", dest="begin", default=-inf, help=text)
    add("--to", type=time_of_argument, metavar="TIME", dest="end", default=inf, help="default: now")


def _add_config_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, default=DEFAULT_CONFIG, help=f"default: {DEFAULT_CONFIG}")


def _add_workload_arguments(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("workload", metavar="NAMESPACE/KIND/NAME", nargs="+", help=text)
    parser.add_argument("-n", "--namespace", default="", help="where NAMESPACE is left out")
    parser.add_argument("--json", action="store_true", help="the whole record, for a machine")


def _add_run_arguments(parser: argparse.ArgumentParser) -> None:
    _add_config_argument(parser)
    add = parser.add_argument
    add("--decisions", action="store_true", help="print every change, hold and new poll rate")
    text = "of the log, on stderr; under systemd, text has the journal's priorities instead of times; default: text"
    add("--log-format", choices=log.FORMATS, default="text", help=text)
    add("--log-level", choices=log.LEVELS, default="info", help="the least that is logged; default: info")


def _add_check_arguments(parser: argparse.ArgumentParser) -> None:
    text = "a folder of policies, or one with an elasticd.toml, or one policy's file; default: what --config says"
    add = parser.add_argument
    add("place", type=Path, metavar="DIR", nargs="?", help=text)
    add("--config", type=Path, help=f"default: DIR/elasticd.toml, or without DIR {DEFAULT_CONFIG}")
    add("--connect", action="store_true", help="also try the cluster, what it lets elasticd do, and each source once")
    add("--against", action="store_true", help="also show what these policies would change now; exit code 1: something")
    add("--json", action="store_true", help="for a machine")


def _add_plugins_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("name", metavar="NAME", nargs="?", default="", help="its options, defaults, bounds and file")
    add("new", metavar="new NAME", nargs="?", default="", help="write a package with a test into ./NAME")
    add("--kind", choices=new_plugin.KINDS, help="of the new one; default: strategy")
    add("--json", action="store_true", help="for a machine")


def _join_dashed(words: Sequence[str]) -> list[str]:
    """The same arguments, with `--from -7d` as `--from=-7d`: argparse takes what begins with a dash for an option."""
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] in ("--at", "--from", "--to") and word.startswith("-"):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _run(arguments: argparse.Namespace) -> int:
    log.set_up(sys.stderr, arguments.log_format, arguments.log_level)
    try:
        with ExitStack() as stack:
            listeners = []
            if arguments.decisions:
                listeners.append(stack.enter_context(printing(dry_run=_settings(arguments).dry_run)))
            asyncio.run(daemon.run(arguments.config, listeners))
    except ElasticdError as error:  # in the form that was asked for, a line each
        for line in plain(str(error)).split("\n"):
            logging.getLogger("elasticd").error("%s", line)
        return error.exit_code
    except RuntimeError as error:
        if str(error) != NO_THREAD:
            raise
        logging.getLogger("elasticd").error("%s", f"threads: must start, do not: {LIMITS_OF_THREADS}")
        return EXIT_UNAVAILABLE
    return 0


def _check(arguments: argparse.Namespace) -> int:
    report = checked(arguments.place, arguments.config, DEFAULT_CONFIG)
    findings: list[Finding] = []
    change: Preview | None = None
    for option in ("connect", "against"):
        if getattr(arguments, option) and not report.wrong and report.settings is None:
            raise ConfigError("", f"--{option}", "must be given beside an elasticd.toml: name it by --config FILE")
    logging.getLogger("elasticd").addHandler(logging.NullHandler())  # what is wrong is printed below
    if report.settings is not None and not report.wrong:
        if arguments.connect:
            findings = asyncio.run(connect(report.settings, report.policies))
        if arguments.against:
            decisions = asyncio.run(daemon.preview(report.settings, discover(), report.policies))
            change = reports.preview(decisions, report.settings.http)
    if arguments.json:
        against = {"against": change} if change else {}
        print(shapes.encode({**report.record(), "tried": findings, **against}).decode())
    else:
        for line in [*map(str, report.wrong)] or [*report.advice, *[finding.line for finding in findings], report.fine]:
            print(plain(line))
        if change:
            show(arguments, change, *show_decisions.preview(change))
    if report.wrong or any(finding.bad for finding in findings):
        return EXIT_CONFIG if report.wrong else EXIT_UNAVAILABLE
    return EXIT_CHANGES if change and change.changes else 0


def _settings(arguments: argparse.Namespace) -> Settings:
    return load_settings(arguments.config, discover())


def _journal_of(arguments: argparse.Namespace) -> tuple[Path, Settings | None]:
    """The daemon's state folder, and its settings, which are not read where --state names the folder."""
    settings = None if arguments.state else _settings(arguments)
    folder: Path = arguments.state if settings is None else settings.state
    if not folder.is_dir():
        raise UnavailableError(f"{folder}: must be the daemon's state folder, is not there")
    return folder, settings


def _explain(arguments: argparse.Namespace) -> int:
    pod = pod_of(arguments.workload, arguments.namespace)
    if pod and arguments.at is not None:
        raise ConfigError("", "--at", "must be left out for a pod, is given")
    folder, settings = _journal_of(arguments)
    if pod:
        _note_unready(settings)
        report = reports.pod(pod, folder, settings, arguments.config, arguments.policy)
        keys = ("decision", "outcomes", "moving", "moved", "gave_way", "seen")
        record = {key: getattr(report, key) for key in keys}
        return show(arguments, record, show_pods.explain(pod, report, time.time()))

    workload = _journaled_workload(arguments, folder)
    at = inf if arguments.at is None else arguments.at
    decision, outcome = latest(folder, workload.split("/"), arguments.policy, at)
    _note_unready(settings)
    if decision is None:
        raise UnavailableError(_missing(arguments, folder, workload, settings))
    text = show_decisions.explain(decision, outcome, time.time())
    return show(arguments, {"decision": decision, "outcome": outcome}, text)


def _history(arguments: argparse.Namespace) -> int:
    if pod := pod_of(arguments.workload, arguments.namespace):
        name = one_line(pod)
        problem = f"must be a workload, is pod {name}: `elasticd explain pod {name}` is about pods"
        raise ConfigError("", "WORKLOAD", problem)
    folder, settings = _journal_of(arguments)
    workload = _journaled_workload(arguments, folder)
    rows = history(folder, workload.split("/"), arguments.policy, arguments.begin, arguments.end)
    _note_unready(settings)
    if not rows:
        raise UnavailableError(_missing(arguments, folder, workload, settings))
    return show(arguments, rows, show_decisions.history(rows))


def _journaled_workload(arguments: argparse.Namespace, folder: Path) -> str:
    """The workload of the arguments, NAMESPACE/KIND/NAME, of those that the journal has decisions about."""
    return workload_of(arguments.workload, arguments.namespace, partial(workloads, folder))


def _missing(arguments: argparse.Namespace, folder: Path, workload: str, settings: Settings | None) -> str:
    """Say that there is no such decision, and why; and when there are some, if there are any at other times."""
    times = [decision.at for decision, _ in decided(folder, workload.split("/"), arguments.policy)]
    if times:
        subject = f"about {one_line(workload)} at that time: it has some from {moment(times[-1])} to {moment(times[0])}"
    else:
        subject = _describe_missing(folder, workload, arguments.policy, settings)
    return f"{folder}: the journal has no decision {subject}"


def _note_unready(settings: Settings | None) -> None:
    """Print why the daemon is not ready, if so: it may have decided something that the journal does not have."""
    if settings and (why := remote.unready(settings.http)):
        print(f"elasticd is not ready: {why}", file=sys.stderr)


def _describe_missing(folder: Path, workload: str, policy: str | None, settings: Settings | None) -> str:
    """Say of which workload and policy there is no decision, name the nearest that has one, and say why."""
    decisions, workload_name = latest_of_all(folder), one_line(workload)
    policies = sorted({decision.policy for decision in decisions if str(decision.workload) == workload})
    if policy is not None and policies:
        suggestion = nearest(policy, policies) or f"; there are some of {', '.join(policies)}"
        return f'of policy "{policy}" about {workload_name}{suggestion}'
    subject = f"about {workload_name}{near(workload, {str(decision.workload) for decision in decisions})}"
    return subject if settings is None else f"{subject}; {why_nothing(workload, settings)}"


def _status(arguments: argparse.Namespace) -> int:
    folder, settings = _journal_of(arguments)
    _note_unready(settings)
    report = reports.remembered(folder) if settings is None else reports.status(settings)
    return show(arguments, report, *show_decisions.status(report, time.time()))


def _sources(arguments: argparse.Namespace) -> int:
    sources = remote.sources(_settings(arguments).http)
    return show(arguments, sources, show_sources.sources(sources))


def _nodes(arguments: argparse.Namespace) -> int:
    http = _settings(arguments).http
    views = remote.node(http, node=arguments.node) if arguments.node else remote.pools(http)
    if not views and arguments.node:
        names = {node.node for pool in remote.pools(http) for node in pool.nodes}
        raise UnavailableError(f"no pool has a node {arguments.node}{nearest(arguments.node, names)}")
    text = show_nodes.shown(views, time.time()) if views else Text("no policy in force has a table [pool]")
    return show(arguments, views, text)


def _moves(arguments: argparse.Namespace) -> int:
    settings = _settings(arguments)
    moves, now = reports.moves(settings), time.time()
    _note_unready(settings)
    record = {key: field for key, field in moves._asdict().items() if key != "note"}
    nothing = Text(moves.unread or "no move is in flight")
    for line in () if arguments.json else moves.stale:
        print(one_line(line), file=sys.stderr)
    in_flight = show_pods.moves(moves.in_flight, now) if moves.in_flight else nothing
    held_back = show_pods.held(moves.held_back, now) if moves.held_back else ()
    show(arguments, record, in_flight, *held_back)
    if not arguments.json:
        more = moves.unread if moves.in_flight else ""
        for line in filter(None, (more, moves.left_alone, moves.note)):
            print(one_line(line), file=sys.stderr)
    return 0


def _rebalance(arguments: argparse.Namespace) -> int:
    folder, _ = _journal_of(arguments)
    print(control_file.ask(folder))
    return 0


def _query(arguments: argparse.Namespace) -> int:
    settings = _settings(arguments)

    def known() -> Collection[str]:
        return remote.query(settings.http, series=arguments.series, workload="").workloads

    workload = workload_of(arguments.workload, arguments.namespace, known)
    answer = remote.query(settings.http, series=arguments.series, workload=workload)
    if not answer.found:
        problem = f"a policy is about {workload}, and the cluster has no such" if workload in answer.workloads else ""
        raise UnavailableError(problem or f"no policy is about {one_line(workload)}{near(workload, answer.workloads)}")
    show(arguments, answer, *(show_decisions.query(entry.policy, entry.series, time.time()) for entry in answer.found))
    if not arguments.json and not any(entry.series.samples or entry.series.forecast for entry in answer.found):
        print(no_samples(arguments.series, remote.sources(settings.http)))
    return 0


def _record(arguments: argparse.Namespace) -> int:
    series = list(dict.fromkeys(name for name in arguments.series.split(",") if name))
    if not series:
        raise ConfigError("", "--series", "must name a series, is empty")
    recording = _record_journal(arguments, series) if arguments.journal else _record_source(arguments, series)
    for name, fault in recording.faults.items():
        print(f"{name}: {fault}", file=sys.stderr)
    for name, rows in recording.rows.items():
        print(f"{arguments.out}: {rows} samples of {name}")
    return 0


def _record_journal(arguments: argparse.Namespace, series: list[str]) -> Recorded:
    folder, _ = _journal_of(arguments)
    return write_journal(folder, series, arguments.begin, arguments.end, arguments.out, force=arguments.force)


def _record_source(arguments: argparse.Namespace, series: list[str]) -> Recorded:
    source = prometheus_of(_settings(arguments).sources, arguments.source)
    selection = Selection(series, TimeRange(arguments.begin, arguments.end, arguments.step))
    return asyncio.run(write_recording(source, selection, arguments.out, time.time(), force=arguments.force))


def _demo(arguments: argparse.Namespace) -> int:
    folder: Path = arguments.folder
    if note := write_demo(folder):
        print(note, file=sys.stderr)
    program = shutil.which(sys.argv[0]) or str(Path(sys.executable).with_name("elasticd"))
    config = folder / "elasticd.toml"
    os.execvp("sh", ["sh", str(folder / "demo.sh"), program, str(config)])  # noqa: S606, S607  # it runs a broker too


def _examples(arguments: argparse.Namespace) -> int:
    print(f"{arguments.folder}: {write_examples(arguments.folder)} files")
    return 0


def _plugins(arguments: argparse.Namespace) -> int:
    if arguments.name == "new":
        if not arguments.new:
            raise ConfigError("", "NAME", "must be given after new, is missing")
        kind = arguments.kind or "strategy"
        place = new_plugin.write_plugin(arguments.new, kind, discover(), Path())
        print(f"{place}: a {kind}, with its test: python -m pytest {place}")
        return 0
    if arguments.new:
        raise ConfigError("", one_line(arguments.name), 'must be "new" before another name, is not')
    if arguments.kind:
        raise ConfigError("", "--kind", "must stand beside new NAME, does not")
    registry = discover()
    plugins = show_installed.called(registry, arguments.name) if arguments.name else show_installed.everything(registry)
    record = [show_installed.described(plugin, registry) for plugin in plugins]
    shown = (show_installed.shown(plugin, registry) for plugin in plugins)
    return show(arguments, record, *(shown if arguments.name else [show_installed.listed(registry)]))
