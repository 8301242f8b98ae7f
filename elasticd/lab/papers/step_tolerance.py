"""Step tolerance (SATA): its experiment with ApacheBench, as clients that wait for their answers before pods that grow.

Knows the paper's numbers, and which of them are assumed. The strategies are those that are installed.

Source: Chen, Huang, Computer Systems & Applications 28(10), 2019, 213-218.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise, product
from math import inf, isnan, nan
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from elasticd.lab.charts import Axis, Chart, Line
from elasticd.lab.papers import Claim, Reproduction, Verdict, Work, judged, paragraphs, summed_up
from elasticd.lab.papers.closed import Balance, closed_queue
from elasticd.lab.papers.sata import FASTER, FEWER, REQUESTS, SATA, THEIRS, TOGETHER, Row, computed_again, fewer
from elasticd.lab.papers.seconds import Second, Setting, play, strategy_of
from elasticd.registry import Registry, discover

TARGET = 65
"""Percent."""

LEAST, MOST = 2, 16
"""Pods: SATA's least number, and as many as two nodes of four cores hold."""

CORES = 0.5
"""Of a pod, assumed: both requested and at most used."""

SEND = 13_400.0
"""Requests a second that ApacheBench sends at most, from the paper's rows of 1,000 clients."""

COST = CORES * MOST * TARGET / 100 / SEND
"""CPU seconds of a request, assumed: `SEND` needs all pods at the target. 0.39 ms."""

THINK = 0.02
"""Seconds from an answer to the same client's next request, from the paper's rows of 125 clients."""

ROOM = 129
"""Requests that a pod holds: one it works on, and a listen queue of 128."""

START = 6
"""Seconds that a pod takes to start."""

NOISE = 0.02
LONGEST = 2000
"""Seconds after which even the least number of pods has served all."""


_HPA = {"type": "hpa", "metrics": [{"type": "Resource", "resource": "cpu", "utilization": TARGET}]}
_PAPER = {"type": "step-tolerance", "mode": "paper", "target": TARGET}
READ, RATIO, PRODUCT = "any pod, 15 points", "any pod, 15 % of the target", 'mode "product"'
OLD_HPA, FAST_HPA, TODAY = "HPA of its time, every 30 s", "HPA of its time, every 15 s", "HPA of today"
WAYS: Mapping[str, Mapping[str, Any]] = {
    READ: _PAPER,
    RATIO: {**_PAPER, "tolerance": TARGET * 15 / 100},
    PRODUCT: {"type": "step-tolerance", "target": TARGET},
    OLD_HPA: {**_HPA, "mode": "paper"},
    FAST_HPA: {**_HPA, "mode": "paper", "period": 15},
    TODAY: {**_HPA, "period": 15},
}
"""What is tried, by name. The HPA of its time rests 3 min after a scale-out and 5 min after a scale-in."""

PAIRS = ((READ, OLD_HPA, True), (RATIO, OLD_HPA, True), (READ, FAST_HPA, True), (PRODUCT, TODAY, False))
"""Which is compared with which, and whether the paper claims it."""

AGAIN = (READ, OLD_HPA)
"""The ways that are run again with the pods that they left."""

LOST, REFUSED = "lost with pods that end", "refused by full pods"
READINGS: Mapping[str, float] = {LOST: inf, REFUSED: ROOM}
"""How a request may fail, and how many requests a pod holds then."""


class Trial(NamedTuple):
    """A run until all requests are through: how long it took, the pods in each second, and the failed requests."""

    clients: int
    seconds: float
    failed: float
    pods: tuple[int, ...]

    @property
    def waiting(self) -> float:
        """Milliseconds from one answer to the next for a client: ApacheBench's time per request, N/X."""
        return 1000 * self.clients * self.seconds / REQUESTS


Trials = Mapping[tuple[int, str, str, int], Trial]
"""By clients, way, reading and seed."""


@cache
def balance(clients: int, pods: int, room: float) -> Balance:
    """The queue with so many ready pods, of which each holds `room` requests."""
    return closed_queue(clients, THINK, pods, CORES / COST, send=SEND, room=room * pods)


def reproduce(seeds: Sequence[int], work: Work) -> Reproduction:
    """Plays each run of the table with each way, both readings of a failure, and each seed."""
    trials, again = _played(seeds, work)
    claims = [*computed_again()]
    for ours, theirs, claimed in PAIRS:
        claims += _compared(f"{ours}, beside {theirs}", (ours, theirs), trials, seeds, claimed=claimed)
    part = f"{READ}, beside {OLD_HPA}, both run again with the pods that they left"
    claims += _compared(part, (READ, OLD_HPA), again, seeds, claimed=True)
    for clients in THEIRS:
        claims += [_waits(f"{clients} clients: waiting", way, way, clients, trials, seeds) for way in WAYS]
        claims += _failures(clients, trials, seeds)
    for clients, way in product(THEIRS, AGAIN):
        claims.append(_waits("run again: waiting", f"{clients} clients, {way}", way, clients, again, seeds))
    return Reproduction(
        "step-tolerance",
        "scale out at once, scale in by small steps, and rest within a band",
        "Chen, Huang, Computer Systems & Applications 28(10), 2019 (SATA)",
        SETUP,
        tuple(claims),
        FINDINGS,
        UNKNOWN,
        (*_pictures(trials, seeds[0]), _waiting_bars(trials, seeds), *_failed_bars(trials, seeds)),
        "elasticd simulate config/scenarios/step-tolerance/elasticd.toml",
        summed_up(claims, MAIN),
    )


def _played(seeds: Sequence[int], work: Work) -> tuple[Trials, Trials]:
    """Every run, and those of the paper's ways again, which then begin with the pods that the first left."""
    registry, later = discover(), list(product(THEIRS, AGAIN, READINGS, seeds))
    keys = product(THEIRS, WAYS, READINGS, seeds)
    trials = work.each(keys, lambda key: _play(registry, *key), Trial, then=len(later))
    starts = {key: (*key, trials[key].pods[-1]) for key in later}
    again = work.each(starts.values(), lambda key: _play(registry, *key), Trial)
    return trials, {key: again[start] for key, start in starts.items()}


def _play(registry: Registry, clients: int, way: str, reading: str, seed: int, pods: int = LEAST) -> Trial:
    """A seed decides when the first look is, in second 1 to 30, and what is measured; seed 0 looks at 1 s, exactly."""
    chance, room = np.random.default_rng(seed), READINGS[reading]
    first = int(chance.integers(1, 31)) if seed else 1

    def load(_t: float, ready: int) -> float:
        return 100 * balance(clients, ready, room).served * COST / CORES

    def measured(t: float, ready: int) -> float:
        return load(t, ready) * (1 + NOISE * chance.uniform(-1, 1) if seed else 1.0)

    setting = Setting(LONGEST, pods, first, START, most=MOST)
    return ended(clients, room, play(strategy_of(registry, WAYS[way]), load, setting, measured))


def ended(clients: int, room: float, seconds: Sequence[Second]) -> Trial:
    """The run up to the second in which the last request is through, refused ones among them."""
    left, refused, pods = float(REQUESTS), 0.0, []
    for second in seconds:
        queue = balance(clients, second.pods, room)
        part = min(1.0, left / (queue.served + queue.refused))
        left -= part * (queue.served + queue.refused)
        refused += part * queue.refused
        pods.append(second.pods)
        if part < 1 or left <= 0:
            break
    else:
        raise ValueError(f"{left:.0f} requests are left after {len(seconds)} s")
    failed = refused if room < inf else lost(clients, pods)
    return Trial(clients, len(pods) - 1 + part, failed, tuple(pods))


def lost(clients: int, pods: Sequence[int]) -> float:
    """The requests inside the pods that end, where each has as many as the others."""
    ends = ((before, before - now) for before, now in pairwise(pods) if now < before)
    return float(sum(balance(clients, before, inf).inside * gone / before for before, gone in ends))


def _compared(
    part: str, ways: tuple[str, str], trials: Trials, seeds: Sequence[int], *, claimed: bool
) -> Iterator[Claim]:
    """The claims, for a pair of ways."""
    for reading in READINGS:
        pairs = [[_figures("failed", trials, way, reading, seed) for way in ways] for seed in seeds]
        count = sum(any(pair[1][row] for pair in pairs) for row in range(len(THEIRS)))
        rows = tuple(fewer(*pair) for pair in pairs)
        pooled = tuple(fewer([sum(mine)], [sum(other)]) for mine, other in pairs)
        note = f"the {count} rows in which the HPA has any" if count < len(THEIRS) else ""
        yield _claim(part, f"fewer {reading}, mean of the rows", FEWER, rows, note, claimed=claimed)
        yield _claim(part, f"fewer {reading}, all together", TOGETHER, pooled, claimed=claimed)
    each = [[_figures("waiting", trials, way, LOST, seed) for way in ways] for seed in seeds]
    faster, note = tuple(fewer(*pair) for pair in each), "confirmed means: at least as much" if claimed else ""
    yield _claim(part, "response faster, mean of the rows", FASTER, faster, note, claimed=claimed)


def _figures(figure: str, trials: Trials, way: str, reading: str, seed: int) -> list[float]:
    """One for each number of clients."""
    return [getattr(trials[clients, way, reading, seed], figure) for clients in THEIRS]


def _claim(part: str, what: str, paper: float, values: tuple[float, ...], note: str = "", *, claimed: bool) -> Claim:
    """At least what the paper claims confirms it. Without a failure of the HPA nothing can be said."""
    stated = f"{paper} %" if claimed else ""
    if any(map(isnan, values)):
        verdict: Verdict = "cannot be compared" if claimed else "no claim"
        return Claim(part, what, stated, (nan,), verdict, "%", ".2f", "the HPA has no such failure")
    verdict = judged(value >= paper for value in values) if claimed else "no claim"
    return Claim(part, what, stated, values, verdict, "%", ".2f", note)


def _of_paper(clients: int, way: str) -> Row | None:
    return {READ: SATA, OLD_HPA: THEIRS}.get(way, {}).get(clients)


def _waits(part: str, what: str, way: str, clients: int, trials: Trials, seeds: Sequence[int]) -> Claim:
    """The waiting, and what it comes from. Within a tenth of the paper's is confirmed."""
    runs = [trials[clients, way, LOST, seed] for seed in seeds]
    given, values = _of_paper(clients, way), tuple(run.waiting for run in runs)
    verdict = judged(abs(value / given.waiting - 1) <= 0.1 for value in values) if given else "no claim"
    seconds, rate = fmean(run.seconds for run in runs), fmean(REQUESTS / run.seconds for run in runs)
    pods = sorted({run.pods[-1] for run in runs})
    last = " to ".join(dict.fromkeys(map(str, (pods[0], pods[-1]))))
    note = f"{seconds:.0f} s, {rate:.0f} requests/s, {last} pods at the end"
    note += f"; the paper {given.seconds:.0f} s, {given.rate:.0f} requests/s" if given else ""
    paper = f"{given.waiting:.2f} ms" if given else ""
    return Claim(part, what, paper, values, verdict, "ms", ".2f", note)


def _failures(clients: int, trials: Trials, seeds: Sequence[int]) -> Iterator[Claim]:
    """Both readings of a failure, side by side."""
    for way in WAYS:
        given = _of_paper(clients, way)
        values = tuple(trials[clients, way, REFUSED, seed].failed for seed in seeds)
        verdict: Verdict = "cannot be compared" if given else "no claim"
        note = f"{LOST}: {fmean(trials[clients, way, LOST, seed].failed for seed in seeds):.1f}"
        note += "; what failed in the paper is not known" if given else ""
        paper = f"{given.failed}" if given else ""
        yield Claim(f"{clients} clients: failed, {REFUSED}", way, paper, values, verdict, "", ".0f", note)


def _pictures(trials: Trials, seed: int) -> Iterator[Chart]:
    """The pods of each run over time, with the first seed."""
    for clients in THEIRS:
        lines = []
        for way in WAYS:
            pods = trials[clients, way, LOST, seed].pods
            lines.append(Line(way, tuple(float(at) for at in range(1, len(pods) + 1)), tuple(map(float, pods))))
        axes = Axis("time", "s"), Axis("pods that run")
        yield Chart(f"step-tolerance-{clients}", f"Pods for {clients} clients", "steps", *axes, tuple(lines))


def _bar(name: str, values: Sequence[Sequence[float]]) -> Line:
    """A series over the numbers of clients: the mean of each, and its range."""
    low, high = tuple(map(min, values)), tuple(map(max, values))
    return Line(name, tuple(map(str, THEIRS)), tuple(map(fmean, values)), low, high)


def _waiting_bars(trials: Trials, seeds: Sequence[int]) -> Chart:
    lines = [
        _bar(way, [[trials[clients, way, LOST, seed].waiting for seed in seeds] for clients in THEIRS]) for way in WAYS
    ]
    for name, rows in (("the paper's HPA", THEIRS), ("the paper's SATA", SATA)):
        lines.append(Line(name, tuple(map(str, rows)), tuple(row.waiting for row in rows.values()), look="reference"))
    name, axes = "step-tolerance-waiting", (Axis("clients"), Axis("waiting", "ms"))
    return Chart(name, "Waiting: from a client's answer to its next", "bars", *axes, tuple(lines), picture=name)


def _failed_bars(trials: Trials, seeds: Sequence[int]) -> Iterator[Chart]:
    """A chart for each reading of a failure. The axis is logarithmic, so what is 0 has no bar."""
    for reading in READINGS:
        lines = [
            _bar(way, [[trials[clients, way, reading, seed].failed for seed in seeds] for clients in THEIRS])
            for way in WAYS
        ]
        for name, rows in (("the paper's HPA", THEIRS), ("the paper's SATA", SATA)):
            failed = tuple(float(row.failed) for row in rows.values())
            lines.append(Line(name, tuple(map(str, rows)), failed, look="reference"))
        axes, chart = (Axis("clients"), Axis("failed requests")), f"step-tolerance-failed-{reading.split()[0]}"
        title = f"Failed requests: {reading}"
        yield Chart(chart, title, "bars", *axes, tuple(lines), log=True, picture="step-tolerance-failed")


MAIN = {
    "the table's 97.83 % fewer failures follow from it": (
        "the paper's own table",
        "fewer failed, mean of the four rows",
    ),
    "the table's columns fit together": ("the paper's own table", ""),
    "97.83 % fewer requests fail than with the HPA of its time, mean of the rows": (
        f"{READ}, beside {OLD_HPA}",
        f"fewer {REFUSED}, mean",
    ),
    "answers are 4.54 % faster than with the HPA of its time": (f"{READ}, beside {OLD_HPA}", "response faster"),
}


SETUP = paragraphs(
    """
125 to 1,000 clients send 5,000,000 requests, each the next one 20 ms after its last answer, all together at most
13,400 a second. A request needs 0.39 ms of a core. Pods have 0.5 core, share one queue and take 6 s to start; there are
2 at first and 16 at most. In each second, the queue is in balance for the pods that run (M/M/c//N, solved exactly), so
fewer pods also get fewer requests. The target is 65 %.

A run ends when all requests are answered or refused. Waiting is ApacheBench's time per request, N/X: from a client's
answer to its next. Failures are counted in two ways: requests inside a pod when it ends are lost; or a pod holds 129
requests, one it works on and a listen queue of 128, and more are refused at once. Waiting and seconds are without
refusals.

"Run again" is the same run once more, which begins with the pods that the first left.

Seed 0 looks first at 1 s and measures exactly; every other seed looks at a random second up to 30, with an error of 2
%. The HPA of its time rests 3 min after a scale-out and 5 min after a scale-in. "15 % of the target" is a band of 55.25
to 74.75 %, "15 points" one of 50 to 80 %.
"""
)
FINDINGS = paragraphs(
    """
The paper's 97.83 % is the mean of the reductions of four rows; of all failures together, it is 96.58 %. 4.54 % is the
mean of the column of waiting. From the durations it is 2.97 %, though with as many clients all the time both must
shrink alike. The columns of the HPA fit together; those of SATA do not in three rows.

With step tolerance as in the paper, responses are faster than with the HPA of its time in all four rows, and by more
than the paper says. Both rest 3 minutes after each scale-out, and pods show no more than 100 %, so the two pods that it
adds each time count: with 500 clients it is at 6 and 12 pods when the HPA is at 4 and 7.

So the advantage comes from the rests. The HPA of today has none after a scale-out, and has faster responses than any
other way with 250 clients and more. Mode "product" is slower, as it rests 3 minutes by default: `after_up`.

Failures do not come out as in the paper in either reading. Pods end almost never while the clients send, and not once
with any HPA, so scale-in explains none of its 60 to 342 failures here. Full pods refuse none with up to 250 clients,
and more than a thousand times as many as in the paper with 500 and 1,000.

How wide the band is makes little difference here: load only climbs.

All of it depends on the pods that a run begins with, which the paper does not say. From two pods, runs with 500 and
1,000 clients take longer than in the paper. Run again with the pods that they left, all but those with 250 clients fit
within a tenth, but then both policies are equally fast and nothing fails: there is hardly anything left to scale.
"""
)
UNKNOWN = paragraphs(
    """
What failed. ApacheBench also counts answers of another length than the first, broken connections and time-outs.

How many pods a run begins with, how many there may be, what they request and may use, and what a request costs. The
cost here is what lets 16 pods of 0.5 core serve 13,400 requests a second at 65 %.

What ApacheBench and the network take. That it sends at most 13,400 requests a second is inferred from the rows of 1,000
clients, where both policies end at nearly the same throughput, so that not pods limit it, but the client or the nodes;
by its duration, SATA's is 13,729. 20 ms outside the service is inferred from the rows of 125 clients.

Whether a pod outside the band is enough, and whether 15 % are points or a part of the target. The mean and a part of
the target is mode "product", which also checks that a scale-in will last.

The built-in HPA's target, limits and poll interval. Here 65 %, the same pods, and 30 or 15 s.

How much pods differ. Here they share the load equally, so if one pod is outside the band, all are. If they differed,
one idle pod would be enough to scale in.

How old measurements are. Here they are of the second in which they are read.
"""
)
