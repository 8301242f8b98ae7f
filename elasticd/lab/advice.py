"""What follows from runs: which policy to take, when demand was not served, and which changes of a count mattered.

Pure: runs in, answers out. Knows nothing of how they are shown.
"""

from collections.abc import Iterator, Mapping
from itertools import groupby
from math import isnan
from typing import NamedTuple

from elasticd.lab.figures import Spread, figures, spreads
from elasticd.lab.ideal import COMPARED, RECORDED
from elasticd.lab.runs import Change, Run, Runs
from elasticd.model.workload import Ref

LARGEST = 10
"""Changes of a candidate that are named, at most."""


NEARLY = 0.01
"""Costs that differ by no more than this share are as good as the same."""


class Advice(NamedTuple):
    """The candidate to take, None if there is none, and why, in a few sentences."""

    take: str | None
    why: str


class Shortage(NamedTuple):
    """Steps without a break in which some demand of a workload was not served, in seconds since the epoch, and how much
    of it in core-seconds."""

    workload: Ref
    begun: float
    ended: float
    unserved: float


class NamedChange(NamedTuple):
    """A change of a workload's count, and why it is named."""

    workload: Ref
    change: Change
    named: str


def advice(runs: Runs, limit: float) -> Advice:
    """The candidate to take, by the rule: the fewest replica-hours, as a mean over the seeds, among those that leave at
    most the share `limit` of the demand unserved with every seed. Where the cheapest differ by no more than 1 %, it is
    the one that changes counts the least."""
    tried = {name: spreads([figures(run) for run in by_seed]) for name, by_seed in runs.items() if name not in COMPARED}
    if not any(spread["demand"].most > 0 for spread in tried.values()):
        return Advice(None, "No workload has a demand that is known, so there is nothing to judge by.")
    known = {name: spread for name, spread in tried.items() if not isnan(spread["unserved"].mean)}
    if not known:
        return Advice(None, "It is not known how much of the demand was not served, so there is nothing to judge by.")
    within = {name: spread for name, spread in known.items() if spread["unserved"].most <= limit}
    if not within:
        name = min(known, key=lambda name: (known[name]["unserved"].most, known[name]["replica_hours"].mean))
        nearest = f"{name} comes nearest, with {_share(known[name]['unserved'].most)}"
        return Advice(None, f"No policy leaves at most {_share(limit)} of the demand unserved: {nearest}.")
    least = min(spread["replica_hours"].mean for spread in within.values())
    near = [name for name, spread in within.items() if spread["replica_hours"].mean <= least * (1 + NEARLY)]
    best = min(near, key=lambda name: (within[name]["changes"].mean, within[name]["replica_hours"].mean))
    beyond = {name: spread for name, spread in known.items() if name not in within}
    taken = within[best]
    said = _reason(taken, least, len(within), len(near)), _saved(runs, taken), _cheaper(beyond, taken)
    return Advice(best, " ".join(filter(None, said)))


def _reason(spread: Mapping[str, Spread], least: float, within: int, near: int) -> str:
    """Why these figures were chosen, of so many policies that keep the limit and so many that cost about the least."""
    said = f"It leaves {_share(spread['unserved'].most)} of the demand unserved and needs {_hours(spread)}"
    if within == 1:
        return f"{said}. It is the only policy that keeps the limit."
    if near == 1:
        return f"{said}, the fewest of the {within} policies that keep the limit."
    same = f"Of the {near} policies that keep the limit and need at most 1% more than the least, {least:.1f}"
    return f"{said}. {same}, it changes counts the least: {spread['changes'].mean:g} times."


def _cheaper(beyond: Mapping[str, Mapping[str, Spread]], taken: Mapping[str, Spread]) -> str:
    """Which of those beyond the limit would have cost less, the one nearest to the limit first."""
    hours = taken["replica_hours"].mean
    less = {name: spread for name, spread in beyond.items() if spread["replica_hours"].mean < hours}
    if not less:
        return ""
    order = sorted(less, key=lambda name: (less[name]["unserved"].most, name))
    each = (f"{name} {_share(less[name]['unserved'].most)} ({_hours(less[name])})" for name in order)
    return f"What needs fewer leaves too much unserved: {', '.join(each)}."


def _saved(runs: Runs, taken: Mapping[str, Spread]) -> str:
    """What it costs beside what was, where that is known."""
    if RECORDED not in runs:
        return ""
    was, hours = figures(runs[RECORDED][0]).replica_hours, taken["replica_hours"].mean
    share = abs(1 - hours / was) if was > 0 else 0.0
    if share < NEARLY:
        return f"That is about what was, {was:.1f}."
    return f"That is {share * 100:.0f}% {'less' if hours < was else 'more'} than what was, {was:.1f}."


def _hours(spread: Mapping[str, Spread]) -> str:
    return f"{spread['replica_hours'].mean:.1f} replica-hours"


def _share(value: float) -> str:
    """A share in percent, to two digits."""
    percent = value * 100
    return "100%" if percent >= 99.5 else "less than 0.001%" if 0 < percent < 0.001 else f"{percent:.2g}%"


def shortages(run: Run) -> list[Shortage]:
    """When demand was not served, the worst first."""
    found = [each for ref in run.workloads for each in _shortages_of(run, ref)]
    return sorted(found, key=lambda each: (-each.unserved, each.begun, each.workload))


def _shortages_of(run: Run, ref: Ref) -> Iterator[Shortage]:
    track, step = run.workloads[ref], 0
    for is_short, group in groupby(track.short, key=lambda value: value > 0):
        steps = len(list(group))
        if is_short:
            lost = [value * run.step for value in track.unserved[step : step + steps] if not isnan(value)]
            yield Shortage(ref, run.begun + step * run.step, run.begun + (step + steps) * run.step, sum(lost))
        step += steps


def decisive(run: Run) -> list[NamedChange]:
    """The changes that mattered, in the order of time: the last one before the worst shortage of all, and the first one
    from its beginning on, of the workload that was short; then the largest ones, until there are ten."""
    every = [(ref, change) for ref, changes in run.changes.items() for change in changes]
    chosen: dict[tuple[Ref, Change], str] = {}
    for worst in shortages(run)[:1]:
        changes = run.changes.get(worst.workload, [])
        before = [change for change in changes if change.at < worst.begun][-1:]
        after = [change for change in changes if change.at >= worst.begun][:1]
        chosen |= {(worst.workload, change): "before the worst shortage" for change in before}
        chosen |= {(worst.workload, change): "after the worst shortage began" for change in after}
    for key in sorted(every, key=lambda each: (-abs(each[1].after - each[1].before), each[1].at, each[0])):
        if len(chosen) >= LARGEST:
            break
        chosen.setdefault(key, "")
    named = [NamedChange(ref, change, why) for (ref, change), why in chosen.items()]
    return sorted(named, key=lambda each: (each.change.at, each.workload))
