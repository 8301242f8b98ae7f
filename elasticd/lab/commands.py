"""The commands that try policies before they are trusted: simulate, backtest, tune; and reproduce.

Knows their arguments, and in which order the parts that they name are called; knows nothing of how a run is played.
"""

import argparse
import logging
import sys
from functools import partial
from hashlib import sha256
from itertools import chain
from math import inf
from pathlib import Path

from msgspec.msgpack import encode
from msgspec.structs import replace
from rich.text import Text

from elasticd.base.errors import ConfigError, nearest
from elasticd.base.text import one_line
from elasticd.lab.backtest import Options, load_backtest, options_of
from elasticd.lab.ideal import IDEAL, RECORDED, ideal, recorded
from elasticd.lab.kept import study_file
from elasticd.lab.over_time import node_charts, plot_charts
from elasticd.lab.papers.named import PAPERS
from elasticd.lab.papers.pictures import check_folder, save_pictures
from elasticd.lab.papers.printed import all_papers, all_papers_markdown, markdown, measured, shown
from elasticd.lab.papers.work import Kept
from elasticd.lab.plot import check_plot, draw
from elasticd.lab.printed import compared, record, searching, tuned, tuned_record, with_bar
from elasticd.lab.queries import Queries, queries_of
from elasticd.lab.replay.command import REPLAY, replay, takes_replay
from elasticd.lab.report import Asked, check_report, report
from elasticd.lab.runs import Run
from elasticd.lab.scenario import Scenario, changed, decides_counts, load_scenario
from elasticd.lab.series import NODES, WORKLOADS, check_file, node_rows, save, workload_rows, write
from elasticd.lab.simulate import serving
from elasticd.lab.sketch import sketch
from elasticd.lab.tune import GENERATION, Limits, Player, Study, Tuned, cost, search, search_ranges
from elasticd.registry import discover
from elasticd.ui.terminal import show

SIMULATE = "Try policies on a simulated cluster, in virtual time, and compare what they come to."
TUNE = "Search options of a policy over a recording for the least cost within limits, and judge them on its end."
BACKTEST = "Try policies on recorded load, and compare them with what was and what was possible."
REPRODUCE = "Measure the results of the papers that elasticd implements again, and compare."

_JOBS = "runs at a time; default: as many as there are cores, or up to half as many again where one would be idle"


def takes_simulate(parser: argparse.ArgumentParser) -> None:
    """The arguments of `elasticd simulate`."""
    add = parser.add_argument
    add("scenario", type=Path, metavar="SCENARIO.toml", help="an elasticd.toml whose cluster is simulated")
    text = "folders or files of policies, each tried by itself; default: what [scenario] says, else its policies"
    add("--policies", type=Path, metavar="PATH", nargs="+", action="extend", default=[], help=text)
    add("--hours", type=float, help="of virtual time, instead of those of [scenario]")
    add("--seeds", type=int, help="how many runs of each, instead of those of [scenario]")
    add("--parts", type=int, help="of the cluster, played at the same time, instead of those of [scenario]")
    add("--workloads", action="store_true", help="also the figures of each workload")
    add("--out-nodes", type=Path, metavar="FILE", help="write each node over time; ends in .csv or .parquet")
    text = "draw requests and use of each node, pods that wait, evictions; ends in .png or .svg"
    add("--plot-nodes", type=Path, metavar="FILE", help=text)
    _takes_output(parser)


def takes_backtest(parser: argparse.ArgumentParser) -> None:
    """The arguments of `elasticd backtest`."""
    add = parser.add_argument
    add("policies", type=Path, metavar="POLICY.toml", nargs="+", help="policies of one workload, each tried by itself")
    _takes_recording(parser)
    add("--seeds", type=int, default=1, help="runs of each policy, with other noise; default: 1")
    _takes_output(parser)


def _takes_recording(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    load = parser.add_mutually_exclusive_group(required=True)
    load.add_argument("--recording", type=Path, metavar="FILE", help="as elasticd record writes it")
    load.add_argument("--prometheus", metavar="URL", help="read the load from there instead: http://HOST:PORT")
    add("--query", default="", help="PromQL of the load in cores: of pods, of workloads, or one series")
    add("--replicas-query", default="", metavar="QUERY", help="PromQL of the count; default: of the pods of --query")
    add("--since", default="7d", metavar="AGE", help="of what Prometheus remembers, as 7d or 12h; default: 7d")
    text = "between samples of Prometheus, as 15s or 1m; default: 15s"
    add("--step", default="15s", metavar="SECONDS", dest="query_step", help=text)
    add("--cpu", required=True, metavar="QUANTITY", help="what a pod requests, as 500m")
    add("--cpu-limit", metavar="QUANTITY", help="what a pod can use; default: what it requests")
    add("--series", default="cpu", metavar="NAME", help="the load, of pods or of the workload; default: cpu")
    add("--start-seconds", type=float, default=30, metavar="SECONDS", help="until a new pod is ready; default: 30")
    add("--resolution", type=float, default=15, metavar="SECONDS", help="between measurements; default: 15")
    add("--max-age", type=float, default=120, metavar="SECONDS", help="of a row of the recording; default: 120")


def takes_tune(parser: argparse.ArgumentParser) -> None:
    """The arguments of `elasticd tune`."""
    add = parser.add_argument
    add("policy", type=Path, metavar="POLICY.toml", help="the policy whose options are searched")
    _takes_recording(parser)
    text = "an option and its range, as strategy[0].target=40:90; whole numbers, if both are; may be repeated"
    add("--search", required=True, action="append", type=str, metavar="PATH=LEAST:MOST", help=text)
    add("--unserved", type=float, default=0.1, metavar="PERCENT", help="of the demand, at most; default: 0.1")
    add("--changes", type=float, default=inf, metavar="COUNT", help="of the count in a day, at most; default: any")
    add("--held-out", type=float, default=1 / 3, metavar="SHARE", help="of the recording, at its end; default: a third")
    add("--generations", type=int, default=6, help="of the search, each of five points an option; default: 6")
    add("--study", type=Path, metavar="FOLDER", help="keep what was played here, and go on where it was interrupted")
    add("--jobs", type=int, help=_JOBS)
    add("--json", action="store_true", help="for a machine")


def _takes_output(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--jobs", type=int, help=_JOBS)
    add("--dask", default="", metavar="ADDRESS", help="of a Dask scheduler, whose workers play instead of --jobs")
    add("--study", type=Path, metavar="FOLDER", help="keep finished runs here, and go on where it was interrupted")
    add("--price", type=float, default=0, metavar="PRICE", help="of a replica for an hour: also show what it costs")
    add("--out", type=Path, metavar="FILE", help="write each workload over time; ends in .csv or .parquet")
    add("--plot", type=Path, metavar="FILE", help="draw demand, replicas and what was not served; ends in .png or .svg")
    text = "lines of demand and replicas in the terminal; default: where the output is one"
    add("--sketch", action=argparse.BooleanOptionalAction, help=text)
    add("--report", type=Path, metavar="FILE", help="write a page with the answer, pictures and reasons; ends in .html")
    text = "of the demand, at most, for a policy to be recommended; default: 0.1"
    add("--unserved", type=float, default=0.1, metavar="PERCENT", help=text)
    add("--force", action="store_true", help="write over files that are there")
    add("--json", action="store_true", help="for a machine")


def takes_reproduce(parser: argparse.ArgumentParser) -> None:
    """The arguments of `elasticd reproduce`."""
    add = parser.add_argument
    add("names", metavar="NAME", nargs="*", help=f"of {', '.join(PAPERS)}; default: all")
    add("--seeds", type=int, default=5, help="how often each random measurement is made, at least 5; default: 5")
    add("--study", type=Path, metavar="FOLDER", help="keep what was measured here, and go on where it was interrupted")
    add("--times", action="store_true", help="also measure how long things take, which differs from run to run")
    add("--plot", type=Path, metavar="FOLDER", help="draw the pictures of each paper there, as SVG")
    add("--png", action="store_true", help="as PNG instead")
    add("--force", action="store_true", help="write over pictures that are there")
    add("--markdown", action="store_true", help="as docs/papers.md has it")
    add("--json", action="store_true", help="for a machine, with the data of charts")


def simulate(arguments: argparse.Namespace) -> int:
    """Play a scenario with each of its policies. Returns the exit code."""
    scenario = load_scenario(arguments.scenario, discover(), arguments.policies)
    given = {"hours": arguments.hours, "seeds": arguments.seeds, "parts": arguments.parts}
    scenario = changed(scenario, {name: value for name, value in given.items() if value is not None})
    if arguments.out_nodes:
        check_file(arguments.out_nodes, force=arguments.force, option="--out-nodes")
    if arguments.plot_nodes:
        check_plot(arguments.plot_nodes, force=arguments.force, option="--plot-nodes")
    for note in scenario.notes:
        print(note, file=sys.stderr)
    runs = _played(arguments, scenario)
    if arguments.out_nodes:
        write(arguments.out_nodes, NODES, node_rows(runs, scenario.cluster.seed), "--out-nodes")
    if arguments.plot_nodes:
        save(arguments.plot_nodes, draw(node_charts(runs), arguments.plot_nodes.suffix[1:]))
    return _show_runs(arguments, _asked(arguments, "simulate", str(arguments.scenario), scenario), runs)


def backtest(arguments: argparse.Namespace) -> int:
    """Play the load of a recording with each policy. Returns the exit code."""
    loaded = load_backtest(_load_of(arguments), arguments.policies, discover(), _options(arguments))
    for note in loaded.scenario.notes:
        print(note, file=sys.stderr)
    runs = _played(arguments, loaded.scenario)
    if loaded.counts:
        runs[RECORDED] = [recorded(next(iter(runs.values()))[0], loaded.workload, loaded.counts)]
    # The URL of a server may have a password in it.
    load = str(arguments.recording or arguments.query)
    return _show_runs(arguments, _asked(arguments, "backtest", load, loaded.scenario), runs)


def _load_of(arguments: argparse.Namespace) -> Path | Queries:
    """The recording, or what a Prometheus is asked for."""
    if arguments.prometheus is not None:
        words = (arguments.query, arguments.replicas_query, arguments.since, arguments.query_step)
        return queries_of(arguments.prometheus, *words)
    for option in ("query", "replicas_query"):
        if getattr(arguments, option):
            raise ConfigError("", f"--{option.replace('_', '-')}", "must stand beside --prometheus, does not")
    recording: Path = arguments.recording
    return recording


def _options(arguments: argparse.Namespace) -> Options:
    given = {name: value for name, value in vars(arguments).items() if name in Options.__struct_fields__}
    return options_of({name: value for name, value in given.items() if value is not None})


_TUNE_BOUNDS = {
    "held_out": (0.05, 0.9),
    "unserved": (0.0, 100.0),
    "changes": (0.0, inf),
    "generations": (1, 1000),
    "jobs": (1, 1000),
}


def tune(arguments: argparse.Namespace) -> int:
    """Search options of a policy over a recording, and judge what was found on its end. Returns the exit code."""
    for name, (least, most) in _TUNE_BOUNDS.items():
        value = getattr(arguments, name)
        if value is not None and not least <= value <= most:
            bounds = f">= {least:g}" if most == inf else f"from {least:g} to {most:g}"
            raise ConfigError("", f"--{name.replace('_', '-')}", f"must be {bounds}, is {value:g}")
    registry, ranges, options = discover(), search_ranges(arguments.search), _options(arguments)
    scenario = load_backtest(_load_of(arguments), [arguments.policy], registry, options).scenario
    logging.getLogger("elasticd").addHandler(logging.NullHandler())  # its times would be virtual
    hours = scenario.table.hours * (1 - arguments.held_out)
    if hours * 3600 < options.step:
        name = "--since" if arguments.recording is None else str(arguments.recording)
        raise ConfigError(name, "", "must cover more, for a part to be searched on and a part to judge by")
    seen = replace(scenario, table=replace(scenario.table, hours=hours))
    player = Player(arguments.policy, registry, seen, ranges, arguments.jobs)
    limits = Limits(arguments.unserved / 100, arguments.changes)
    about = {"policy": arguments.policy.read_text(), "search": arguments.search, "hours": hours, "options": options}
    study = Study(
        study_file(arguments.study, "trials.jsonl"), {**about, "cluster": sha256(encode(scenario.cluster)).hexdigest()}
    )
    price = partial(cost, limits=limits, days=hours / 24)
    trials = searching(
        (arguments.generations + 1) * GENERATION * len(ranges),
        partial(study.play, player.play),
        partial(search, ranges, price, generations=arguments.generations),
    )
    best = min(trials, key=price)
    whole = Player(arguments.policy, registry, scenario, ranges, arguments.jobs)
    before, judged = whole.compared(best.point, hours * 3600)
    found = Tuned(tuple(ranges), tuple(trials), best, limits, hours / 24, before, judged)
    return show(arguments, tuned_record(found), *tuned(found))


def reproduce(arguments: argparse.Namespace) -> int:
    """Measure papers again. Returns the exit code."""
    if not 5 <= arguments.seeds <= 1000:
        raise ConfigError("", "--seeds", f"must be from 5 to 1000, is {arguments.seeds}")
    for name in arguments.names:
        if name not in PAPERS:
            raise ConfigError("", one_line(name), f"must be one of {', '.join(PAPERS)}, is not{nearest(name, PAPERS)}")
    names = list(dict.fromkeys(arguments.names)) or list(PAPERS)
    seeds = range(arguments.seeds)
    if arguments.plot:
        check_folder(arguments.plot, option="--plot")
    study = study_file(arguments.study, "papers.jsonl")
    papers = measured([(name, PAPERS[name]) for name in names], seeds, Kept(study), times=arguments.times)
    if arguments.plot:
        save_pictures(arguments.plot, papers, "png" if arguments.png else "svg", force=arguments.force)
    if arguments.markdown and not arguments.json:
        print("\n".join([all_papers_markdown(papers), *(markdown(paper, len(seeds)) for paper in papers)]), end="")
        return 0
    text = chain.from_iterable([*shown(paper, len(seeds)), Text()] for paper in papers)
    return show(arguments, papers, *text, all_papers(papers))


def _asked(arguments: argparse.Namespace, command: str, load: str, scenario: Scenario) -> Asked:
    return Asked(command, load, scenario, arguments.unserved / 100, arguments.price)


def _played(arguments: argparse.Namespace, scenario: Scenario) -> dict[str, list[Run]]:
    """What came of each candidate, and after them of the ideal one, where all workloads have a demand to go by."""
    if arguments.out:
        check_file(arguments.out, force=arguments.force, option="--out")
    if arguments.plot:
        check_plot(arguments.plot, force=arguments.force, option="--plot")
    if arguments.report:
        check_report(arguments.report, force=arguments.force)
    if not 0 <= arguments.unserved <= 100:
        raise ConfigError("", "--unserved", f"must be from 0 to 100, is {arguments.unserved:g}")
    if not 0 <= arguments.price < inf:
        raise ConfigError("", "--price", f"must be finite and >= 0, is {arguments.price:g}")
    if arguments.jobs is not None and arguments.jobs < 1:
        raise ConfigError("", "--jobs", f"must be >= 1, is {arguments.jobs}")
    logging.getLogger("elasticd").addHandler(logging.NullHandler())  # its times would be virtual
    runs = with_bar(scenario, arguments.jobs, arguments.dask, arguments.study)
    serving_pods = serving(scenario.cluster)
    if serving_pods and not scenario.cluster.jobs and decides_counts(scenario):
        runs[IDEAL] = [ideal(next(iter(runs.values()))[0], serving_pods)]
    return runs


def _show_runs(arguments: argparse.Namespace, asked: Asked, runs: dict[str, list[Run]]) -> int:
    """Write the files that were asked for, and print the figures. Returns the exit code."""
    seed = asked.scenario.cluster.seed
    if arguments.out:
        write(arguments.out, WORKLOADS, workload_rows(runs, seed), "--out")
    if arguments.plot:
        save(arguments.plot, draw(plot_charts(runs), arguments.plot.suffix[1:]))
    if arguments.report:
        save(arguments.report, report(asked, runs).encode())
    text = compared(asked.scenario, runs, each=getattr(arguments, "workloads", False), price=arguments.price)
    blocks = sys.stdout.isatty() and sys.stdout.encoding.lower().startswith("utf")
    drawn = blocks if arguments.sketch is None else arguments.sketch
    told = record(runs, seed) if arguments.json else []
    return show(arguments, told, *text, *(sketch(runs) if drawn else ()))


COMMANDS = (
    ("simulate", simulate, SIMULATE, takes_simulate),
    ("backtest", backtest, BACKTEST, takes_backtest),
    ("tune", tune, TUNE, takes_tune),
    ("replay", replay, REPLAY, takes_replay),
    ("reproduce", reproduce, REPRODUCE, takes_reproduce),
)
"""The name of each command, what runs it, what it does, and what adds its arguments."""
