"""Writes what policies came to as one page of HTML: an answer, pictures, figures, and the decisions that mattered.

The page needs no network and no script, and is light or dark as the reader prefers. Knows how the page looks; what
follows from the runs, and what the pictures show, it is told.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from html import escape
from itertools import count
from pathlib import Path
from typing import NamedTuple

from msgspec import NODEFAULT, Struct
from msgspec.json import encode
from msgspec.structs import fields

from elasticd.base.errors import ConfigError
from elasticd.base.text import counted, one_line
from elasticd.lab.advice import LARGEST, NamedChange, Shortage, advice, decisive, shortages
from elasticd.lab.figures import figures
from elasticd.lab.ideal import COMPARED, IDEAL, RECORDED
from elasticd.lab.over_time import point_seconds, run_charts
from elasticd.lab.plot import NARROW, draw, inline, load_matplotlib
from elasticd.lab.printed import cells, columns
from elasticd.lab.runs import Run, Runs
from elasticd.lab.scenario import Candidate, Scenario
from elasticd.lab.series import check_new
from elasticd.lab.simulate import serving
from elasticd.model.policy import Policy
from elasticd.model.workload import Ref
from elasticd.ui.terminal import seconds

ALONE = 3
"""Workloads that have pictures of their own, at most."""
RULE = (
    "The rule: the fewest replica-hours, on average over the seeds, among the policies that leave at most {} of the "
    "demand unserved with every seed. Where the cheapest differ by no more than 1%, it is the one that changes counts "
    "the least."
)
WORST = 3
"""Shortages of a candidate that are listed, at most."""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""What a browser may load for the page: nothing."""

_STYLE = """
:root{color-scheme:light dark;--ink:#1f2328;--grey:#59636e;--line:#d8dee4;--paper:#fff;--good:#009e73;--bad:#d55e00}
@media screen and (prefers-color-scheme:dark){
:root{--ink:#e6edf3;--grey:#9198a1;--line:#30363d;--paper:#0d1117;--good:#2fd09b;--bad:#ff8c42}}
body{margin:0 auto;max-width:62rem;padding:1rem;background:var(--paper);color:var(--ink)}
body{font:16px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}th,td{overflow-wrap:normal}
h1{font-size:1.5rem;line-height:1.25}h2{font-size:1.2rem;margin-top:2.5rem}h3{font-size:1rem;margin-bottom:.25rem}
.answer{border-left:.3rem solid var(--good);padding:.1rem 1rem}.answer.none{border-color:var(--bad)}
th:first-child,td:first-child{position:sticky;left:0;background:var(--paper)}
.answer strong{font-size:1.2rem}figure{margin:1rem 0}figcaption,.note{color:var(--grey);font-size:.875rem}
.scroll{overflow-x:auto}svg{display:block;width:100%;height:auto}
.narrow{display:none}@media screen and (max-width:40rem){.narrow{display:block}.wide{display:none}}
table{border-collapse:collapse;font-size:.875rem}th,td{padding:.3rem .8rem .3rem 0;text-align:left;vertical-align:top}
th{color:var(--grey);font-weight:normal;white-space:nowrap}tbody tr{border-top:1px solid var(--line)}
td.short{white-space:nowrap;font-variant-numeric:tabular-nums}td.long{min-width:18rem;overflow-wrap:anywhere}
@media screen and (max-width:40rem){td.short:first-child{white-space:normal}.why thead{display:none}
.why tr{display:flex;flex-wrap:wrap;padding:.3rem 0}.why td{padding-top:0;padding-bottom:0}
.why td.short:first-child{white-space:nowrap}.why td.long{flex-basis:100%;min-width:0}}
tr.taken{font-weight:bold}dt{color:var(--grey)}dd{margin:0 0 .5rem}
@media (min-width:40rem){dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1.5rem}dd{margin:0}}
""".replace("\n", "")

MEANINGS: Mapping[str, str] = {
    "replica-hours": "the count that each workload should have, summed over time: what it costs",
    "most": "the largest count of a workload",
    "unserved": "the share of the demand that no ready pod could serve",
    "short for": "for how long some demand was not served, summed over workloads",
    "longest": "the longest time without a break for which that was so",
    "changes": "changes of a count",
    "flaps": "changes that took back the one before within 10 minutes",
    "evictions": "evictions of pods",
    "failed": "the share of the requests that failed",
    "wait": "half of the requests that were served waited no longer",
    "p99": "99 % of the requests that were served waited no longer",
    "core-hours requested": "what the pods that there should be request, summed over time",
    "without node": "for how long pods waited for a node, summed over pods",
    "apart": "how far apart the nodes are in the share of their CPU that is used: the standard deviation, over time",
    "fullest": "the highest share of a node's CPU that was used",
    "nodes": "how many nodes had pods, over time",
    "Job-hours": "Jobs that had not ended, summed over time",
    "most Jobs": "how many of them there were at most",
    "queue": "messages in the queue, over time",
    "longest queue": "messages in the queue at most",
    "cost": "replica-hours times the price",
}
"""What the columns of figures mean."""


class Asked(NamedTuple):
    """What was asked: by which command, of what file or query, with which limit of unserved demand as a share, and at
    which price of a replica for an hour; 0: none."""

    command: str
    of: str
    scenario: Scenario
    limit: float
    price: float = 0.0


def check_report(out: Path, *, force: bool) -> None:
    """Refuse a report that could not be written, before anything is played. Raises ConfigError."""
    if out.suffix not in (".html", ".htm"):
        raise ConfigError("", "--report", f'must end in .html, is "{out}"')
    load_matplotlib("--report")
    check_new(out, force=force, option="--report")


def report(asked: Asked, runs: Runs) -> str:
    """The page. The same runs give the same page."""
    answer = advice(runs, asked.limit)
    title = f"elasticd {asked.command}: {one_line(asked.of)}"
    head = f"Take {answer.take}" if answer.take else "No recommendation"
    kind = "answer" if answer.take else "answer none"
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="{kind}"><strong>{escape(head)}.</strong><br>{escape(answer.why)}</p>',
        _note(RULE.format(f"{asked.limit * 100:g}%")),
        *_section("What was asked", [_definitions(_asked(asked, runs))]),
        *_section("Over time", _pictures(runs)),
        *_section("Figures", _figures(asked, runs, answer.take)),
        *_section("When demand was not served", _shortages(asked, runs)),
        *_section("Decisions that mattered", _decisions(asked, runs)),
    ]  # fmt: skip
    return "\n".join([*_head(title), *body, "</main>", "</body>", "</html>", ""])


def _head(title: str) -> Iterator[str]:
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    yield f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>"


def _asked(asked: Asked, runs: Runs) -> Iterator[tuple[str, str]]:
    """Names and values of what was asked."""
    scenario, first = asked.scenario, next(iter(runs.values()))[0]
    table, total = scenario.table, figures(first)
    refs = list(first.workloads)
    of = str(refs[0]) if len(refs) == 1 else counted(len(refs), "workload")
    yield "Load", f"{one_line(asked.of)}, {of}, {total.demand:.3g} core-hours"
    lasted = f"{table.hours:.4g} h" if table.hours >= 1 else seconds(table.hours * 3600)
    yield "Time", f"{lasted} from {table.start.isoformat(' ', 'seconds')}, in steps of {table.step:g} s"
    if len(refs) == 1 and (pod := serving(scenario.cluster).get(refs[0])):
        ready = f"ready {seconds(pod.start_seconds)} after it is wanted" if pod.start_seconds else "ready at once"
        often = scenario.cluster.metrics.resolution
        yield "Pods", f"each serves up to {pod.capacity:g} cores, and is {ready}; measured every {often:g} s"
    yield "Seeds", f"{table.seeds}, from {scenario.cluster.seed} on"
    if asked.price:
        yield "Price", f"{asked.price:g} for a replica for an hour"
    for candidate in scenario.candidates:
        yield f"Policy {candidate.name}", "; ".join(_policies(candidate))
    for name, meaning in _COMPARED.items():
        if name in runs:
            yield name, meaning


_COMPARED = {
    IDEAL: "the least counts that would have served all demand, for whoever knows it beforehand",
    RECORDED: "the counts that the recording shows",
}


def _policies(candidate: Candidate) -> Iterator[str]:
    for policy in candidate.policies:
        strategies = policy.strategies
        if isinstance(policy, Policy):
            yield f"{policy.replicas.min} to {policy.replicas.max} replicas"
            strategies += policy.limits
        for strategy in strategies:
            options = ", ".join(_options_set(strategy))
            yield f"{strategy.__struct_config__.tag}{options and ': '}{options}"


def _options_set(table: Struct) -> Iterator[str]:
    """The options of a table that are not at their default, as TOML has them."""
    for option in fields(table):
        value = getattr(table, option.name)
        default = option.default if option.default_factory is NODEFAULT else option.default_factory()
        if value != default:
            yield f"{option.encode_name} = {_toml(value)}"


def _toml(value: object) -> str:
    if isinstance(value, Struct):
        tag = value.__struct_config__.tag
        return f"{{ {', '.join([*([f'type = {_toml(tag)}'] if tag else []), *_options_set(value)])} }}"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{name} = {_toml(each)}' for name, each in value.items())} }}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_toml, value))}]"
    return f"{value:g}" if isinstance(value, float) else encode(value).decode()


def _pictures(runs: Runs) -> Iterator[str]:
    first = next(iter(runs.values()))[0]
    mean = point_seconds(first)
    joined = f" Each point of the demand is the mean of {seconds(mean)}." if mean > first.step else ""
    yield _picture(runs, None, "all", f"With the first seed.{joined}")
    if len(first.workloads) > 1:
        for place, ref in enumerate(_most_unserved(runs)):
            yield _picture(runs, ref, f"w{place}", f"{ref}, one of those with the most unserved demand.")


def _picture(runs: Runs, only: Ref | None, prefix: str, caption: str) -> str:
    label = f"Demand, replicas and unserved demand over time of {only or 'all workloads'}"
    charts = run_charts(runs, only)
    wide, narrow = inline(draw(charts, "svg"), prefix, label), inline(draw(charts, "svg", NARROW), f"{prefix}n", label)
    pictures = f'<div class="wide">{wide}</div><div class="narrow">{narrow}</div>'
    return f"<figure>{pictures}<figcaption>{escape(caption)}</figcaption></figure>"


def _most_unserved(runs: Runs) -> list[Ref]:
    """The workloads that are short the most, summed over all candidates; none that never is."""
    lost: dict[Ref, float] = {}
    for run in _tried(runs).values():
        for each in shortages(run):
            lost[each.workload] = lost.get(each.workload, 0.0) + each.unserved
    return sorted(lost, key=lambda ref: (-lost[ref], ref))[:ALONE]


def _tried(runs: Runs) -> dict[str, Run]:
    """The first run of each candidate."""
    return {name: by_seed[0] for name, by_seed in runs.items() if name not in COMPARED}


def _figures(asked: Asked, runs: Runs, taken: str | None) -> Iterator[str]:
    shown = columns(asked.scenario, runs, asked.price)
    titles = [title for title, _ in shown.values()]
    rows = {name: [name, *cells(shown, by_seed, asked.price)] for name, by_seed in runs.items()}
    yield _table(["policies", *titles], rows.values(), taken=list(rows).index(taken) if taken else None)
    if asked.scenario.table.seeds > 1:
        yield _note("The mean over the seeds and, in brackets, the least and the most.")
    for name, by_seed in runs.items():
        for failure, times in sorted(by_seed[0].failures.items()):
            yield _note(one_line(f"{name}: {counted(times, 'decision')}: {failure}"))
    yield f"<details><summary>What the columns mean</summary>{_definitions((t, MEANINGS[t]) for t in titles)}</details>"


def _shortages(asked: Asked, runs: Runs) -> Iterator[str]:
    found = {name: shortages(run) for name, run in _tried(runs).items()}
    rows = [_shortage_row(asked, name, each) for name, worst in found.items() for each in worst[:WORST]]
    if rows:
        yield _table(
            ["policies", "after", "for", "core-hours unserved", "from", "workload"], rows, several=_several(runs)
        )
        yield _note(
            f"The {WORST} worst of each with the first seed; in whole steps of {asked.scenario.table.step:g} s."
        )
    for name, worst in found.items():
        if len(worst) > WORST:
            yield _note(f"{name} was short {len(worst)} times.")
        if not worst:
            yield _note(f"{name} was never short, as far as the demand is known.")


def _shortage_row(asked: Asked, name: str, shortage: Shortage) -> list[str]:
    after, clock = _after(asked, shortage.begun), _clock(asked, shortage.begun)
    lasted = seconds(shortage.ended - shortage.begun)
    return [name, after, lasted, f"{shortage.unserved / 3600:.3g}", clock, str(shortage.workload)]


def _decisions(asked: Asked, runs: Runs) -> Iterator[str]:
    rule = "the last change before its worst shortage, the first one after that began, and then the largest changes"
    yield _note(f"Of each policy at most {LARGEST}, with the first seed: {rule}.")
    for name, run in _tried(runs).items():
        changes = decisive(run)
        yield f"<h3>{escape(one_line(name))}</h3>"
        rows = [_change_row(asked, each) for each in changes]
        titles = ["after", "at", "workload", "replicas", "why"]
        yield _table(titles, rows, several=_several(runs)) if rows else _note("No count was changed.")


def _change_row(asked: Asked, named: NamedChange) -> list[str]:
    change = named.change
    why = f"{named.named}: {change.why}" if named.named else change.why
    when = _after(asked, change.at), _clock(asked, change.at)
    return [*when, str(named.workload), f"{change.before} \u2192 {change.after}", why]


def _clock(asked: Asked, at: float) -> str:
    """A time as the scenario's clock shows it."""
    return f"{datetime.fromtimestamp(round(at), asked.scenario.table.start.tzinfo):%Y-%m-%d %H:%M:%S}"


def _after(asked: Asked, at: float) -> str:
    """How long after the start a time is."""
    return str(timedelta(seconds=round(at - asked.scenario.table.start.timestamp())))


def _section(title: str, parts: Iterable[str]) -> Iterator[str]:
    yield f"<h2>{escape(title)}</h2>"
    yield from parts


def _note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>'


def _definitions(rows: Iterable[tuple[str, str]]) -> str:
    items = "".join(f"<dt>{escape(one_line(name))}</dt><dd>{escape(text)}</dd>" for name, text in rows)
    return f"<dl>{items}</dl>"


def _several(runs: Runs) -> bool:
    """Whether there is more than one workload, so that it says something to name it in a row."""
    return len(next(iter(runs.values()))[0].workloads) > 1


def _table(
    titles: Sequence[str], rows: Iterable[Sequence[str]], *, taken: int | None = None, several: bool = True
) -> str:
    """A table that scrolls where it is too wide. A column called why is as wide as there is room, and on a phone below
    the others."""
    shown = [place for place, title in enumerate(titles) if several or title != "workload"]
    head = "".join(f'<th scope="col">{escape(titles[place])}</th>' for place in shown)
    starts = ('<tr class="taken">' if place == taken else "<tr>" for place in count())
    cells = ("".join(_cell(titles[place], row[place]) for place in shown) for row in rows)
    body = "".join(f"{start}{row}</tr>" for start, row in zip(starts, cells, strict=False))
    kind = ' class="why"' if "why" in titles else ""
    return f'<div class="scroll"><table{kind}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(title: str, text: str) -> str:
    """A cell. The spread of a figure stands below it."""
    if title == "why":
        return f'<td class="long">{escape(one_line(text))}</td>'
    figure, bracket, spread = one_line(text).partition(" (") if title in MEANINGS else (one_line(text), "", "")
    return f'<td class="short">{escape(figure)}{bracket and "<br>("}{escape(spread)}</td>'
