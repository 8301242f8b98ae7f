"""Double threshold (DHPA): its worked example second by second, and its runs under low, medium and high load.

Knows the paper's numbers, and which of them are reconstructed. The strategies are those that are installed.

Source: Jiang, Wu, "A Fine-Grained Horizontal Scaling Method for Container-Based Cloud", Scientific Programming 2021,
article 6397786, doi 10.1155/2021/6397786.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import ceil, pi, sin
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from elasticd.lab.papers import Axis, Chart, Claim, Line, Reproduction, Verdict, Work, judged, paragraphs, summed_up
from elasticd.lab.papers.seconds import Curve, Second, Setting, apart, play, strategy_of
from elasticd.registry import Registry, discover

TARGET = 50.0
"""Percent that a pod should carry: the example admits 50 to 52.98."""

EXAMPLE = 180
"""Seconds of the worked example, which is also the run under low load."""


def low(t: float) -> float:
    """DHPA, eq. (7), reconstructed: percent of one pod's request."""
    return 200 * sin(pi * t / 180)


class Experiment(NamedTuple):
    """A run of section 4: its seconds, its pods at first, and the loads that fit what is known of it, by name."""

    seconds: int
    pods: int
    curves: Mapping[str, Curve]


EXPERIMENTS = {
    "low": Experiment(EXAMPLE, 1, {"the example's": low}),
    "medium": Experiment(
        360,
        10,
        {
            "A": lambda t: 1000 * abs(sin(pi * t / 180)),
            "B": lambda t: 1000 * sin(pi * t / 360),
            "C": lambda t: 500 * (1 + sin(pi * t / 180)),
        },
    ),
    "high": Experiment(
        360,
        15,
        {
            "A": lambda t: 2000 * abs(sin(pi * t / 180)),
            "B": lambda t: 2000 * sin(pi * t / 360),
            "C": lambda t: 1000 * (1 + sin(pi * t / 180)),
        },
    ),
}


class Way(NamedTuple):
    """A policy that is tried: its tables of a strategy and of limits, and the greatest error of its samples."""

    table: Mapping[str, Any]
    limits: tuple[Mapping[str, Any], ...] = ()
    noise: float = 0.0


def _hpa(target: float, **options: Any) -> dict[str, Any]:
    metrics = [{"type": "Resource", "resource": "cpu", "utilization": target}]
    return {"type": "hpa", "metrics": metrics, **options}


PAPER = {"type": "double-threshold", "mode": "paper", "low": 50, "target": TARGET}
READ, PRINTED, PRODUCT = "any growth, as the example needs", "growth above a, as the text says", 'mode "product"'
NOISE = 0.02
OLD_HPA = "HPA of the paper, target"
FAR = f"{OLD_HPA} 80 %"
WAYS: Mapping[str, Way] = {
    READ: Way(PAPER),
    PRINTED: Way({**PAPER, "rise": 0.028}),
    f"{READ}, error of {100 * NOISE:.0f} %": Way(PAPER, noise=NOISE),
    PRODUCT: Way({"type": "double-threshold"}),
    f"{PRODUCT}, error of {100 * NOISE:.0f} %": Way({"type": "double-threshold"}, noise=NOISE),
    **{f"{OLD_HPA} {target} %": Way(_hpa(target, mode="paper")) for target in (50, 65, 80)},
    "the same, 80 %, a scale-in delays no scale-out": Way(
        _hpa(80, period=30, downscale_stabilization=0), ({"type": "cooldown"},)
    ),
    "HPA of today, target 80 %": Way(_hpa(80, period=15)),
}
"""What is tried, by name. The HPA of the paper looks every 30 s, and rests 3 min after a scale-out and 5 min after a
scale-in."""


READINGS: Mapping[str, Mapping[str, Any]] = {
    READ: PAPER,
    PRINTED: WAYS[PRINTED].table,
    "any growth, and a scale-in at any fall": {**PAPER, "fall": 0.0},
}
"""The readings of the growth thresholds that the example is played with, by name."""


class Trial(NamedTuple):
    """What one way came to under one load with one seed, second by second."""

    seconds: Sequence[Second]

    @property
    def broken(self) -> int:
        """Seconds in which pods break: IsBreak."""
        return sum(second.breaks for second in self.seconds)

    @property
    def below(self) -> int:
        """Seconds with fewer pods than CalPod."""
        return sum(second.pods < calculated(second.load) for second in self.seconds)

    @property
    def above(self) -> int:
        """Seconds with more pods than CalPod."""
        return sum(second.pods > calculated(second.load) for second in self.seconds)

    @property
    def distance(self) -> float:
        """The mean distance of the pods from CalPod."""
        return fmean(abs(second.pods - calculated(second.load)) for second in self.seconds)


Trials = Mapping[tuple[str, str, str, int], Trial]
"""By experiment, curve, way and seed."""


def calculated(load: float) -> int:
    """CalPod: the pods that a load needs."""
    return max(1, ceil(load / TARGET - 1e-9))


def reproduce(seeds: Sequence[int], work: Work) -> Reproduction:
    """Plays the example with each reading of the growth thresholds, and each run with each way, curve and seed."""
    registry = discover()
    keys = [
        (name, curve, way, seed)
        for name, experiment in EXPERIMENTS.items()
        for curve, way, seed in product(experiment.curves, WAYS, seeds)
    ]
    trials = work.each(keys, lambda key: _play(registry, *key))
    setting = Setting(EXAMPLE, 1)
    examples = {reading: play(strategy_of(registry, table), apart(low), setting) for reading, table in READINGS.items()}
    claims = [*_steps(examples)]
    for name in EXPERIMENTS:
        claims += [*_broken(name, trials, seeds), *_near(name, trials, seeds)]
    return Reproduction(
        "double-threshold",
        "scale out ahead of a climb, by two thresholds and growth",
        "Jiang, Wu, Scientific Programming 2021, 6397786 (DHPA)",
        SETUP,
        tuple(claims),
        FINDINGS,
        UNKNOWN,
        (_curve(examples[READ]), *_pictures(trials, seeds[0]), _bars(trials, seeds)),
        "elasticd simulate config/scenarios/double-threshold/elasticd.toml",
        summed_up(claims, MAIN),
    )


def _play(registry: Registry, name: str, curve: str, way: str, seed: int) -> Trial:
    """A seed decides when the first look is, in second 1 to 30, and the noise; with seed 0 it is the example's 1."""
    experiment, tried, chance = EXPERIMENTS[name], WAYS[way], np.random.default_rng(seed)
    first = int(chance.integers(1, 31)) if seed else 1
    load = apart(experiment.curves[curve])
    limits = tuple(strategy_of(registry, table) for table in tried.limits)
    setting = Setting(experiment.seconds, experiment.pods, first, limits=limits)
    return Trial(
        play(strategy_of(registry, tried.table), load, setting, lambda *now: load(*now) * _error(tried, chance))
    )


def _error(way: Way, chance: np.random.Generator) -> float:
    return 1 + way.noise * chance.uniform(-1, 1) if way.noise else 1.0


def _steps(examples: Mapping[str, Sequence[Second]]) -> Iterator[Claim]:
    """Section 3.3, step by step. Nothing in it is random."""
    told = {second.at: second for second in examples[READ]}
    part = "the worked example, section 3.3"

    def step(what: str, paper: str, value: float, unit: str, *, holds: bool, note: str = "") -> Claim:
        verdict: Verdict = "confirmed" if holds else "not confirmed"
        return Claim(part, what, paper, (value,), verdict, unit, ".5g", note)

    def interval(at: int) -> float:
        decision = told[at].decision
        return decision.interval if decision else -1.0

    def wanted(at: int) -> int:
        decision = told[at].decision
        return (decision.wish or 0) if decision else 0

    yield step("step 1, time to the next look at 1 s", "30 s", interval(1), "s", holds=interval(1) == 30)
    yield step("step 2, time to the next look at 30 s", "1 s", interval(30), "s", holds=interval(30) == 1)
    note = "The paper gives the growth as reason; what prevents it is 3.49 % in the queue, below alpha."
    yield step("step 3, pods wanted at 31 s", "1", wanted(31), "", holds=wanted(31) == 1, note=note)
    yield step("step 4, pods wanted at 32 s", "3", wanted(32), "", holds=wanted(32) == 3)
    yield step("step 5, three pods run at", "42 s", (three := _since(told, 32, 3)), "s", holds=three == 42)
    yield step("step 6, pods wanted at 150 s", "2", wanted(150), "", holds=wanted(150) == 2)
    for way, seconds in examples.items():
        two = _since({second.at: second for second in seconds}, 150, 2)
        before = next(second.pods for second in seconds if second.at == 149)
        note = f"{before} pods before, 5 s each to stop"
        yield step(f"step 7, two pods run at: {way}", "160 s", two, "s", holds=two == 160, note=note)
    broken = [second for second in told.values() if second.breaks]
    note = (
        f"From {broken[0].at} to {broken[-1].at} s one pod would use {broken[0].load:.0f} to {broken[-1].load:.0f} %: "
        "a look each 30 s and a start of 5 s cannot prevent it."
    )
    yield step("seconds in which pods break", "none named", len(broken), "s", holds=not broken, note=note)


def _since(told: Mapping[int, Second], since: int, pods: int) -> int:
    """The first second, from this one on, at which so many pods run; 0: none."""
    return next((at for at in range(since, EXAMPLE + 1) if told[at].pods == pods), 0)


def _broken(name: str, trials: Trials, seeds: Sequence[int]) -> Iterator[Claim]:
    """For each way the seconds in which pods break, the mean over the curves."""
    experiment = EXPERIMENTS[name]
    part = f"{name} load: seconds of {experiment.seconds} in which pods break"
    for way in WAYS:
        each = {curve: [trials[name, curve, way, seed].broken for seed in seeds] for curve in experiment.curves}
        measured = tuple(fmean(values) for values in zip(*each.values(), strict=True))
        means = ", ".join(f"{curve} {fmean(values):.0f}" for curve, values in each.items()) if len(each) > 1 else ""
        claimed = name != "low" and way.startswith(OLD_HPA)
        verdict = judged(value > 0 for values in each.values() for value in values) if claimed else "no claim"
        yield Claim(part, way, "several times" if claimed else "", measured, verdict, "s", ".0f", means)


NEAR = {"low": "close after a short delay", "medium": "small gap", "high": ""}
SHORT = {"low": "", "medium": "", "high": "falls short while containers start"}
MOSTLY = {"low": "mostly", "medium": "", "high": "far below"}
LATE = {"low": "", "medium": "", "high": "lags when scaling in"}
"""What the paper says of how far the pods are from CalPod, by run; of the double threshold, of the HPA in MOSTLY."""


def _near(name: str, trials: Trials, seeds: Sequence[int]) -> Iterator[Claim]:
    """How far the pods are from CalPod, the mean over the curves."""
    experiment = EXPERIMENTS[name]
    part = f"{name} load: RealPod beside CalPod"

    def over(way: str, figure: str) -> tuple[float, ...]:
        return tuple(
            fmean(getattr(trials[name, curve, way, seed], figure) for curve in experiment.curves) for seed in seeds
        )

    ours, theirs, half = over(READ, "distance"), over(FAR, "distance"), experiment.seconds / 2
    below, far, above = over(READ, "below"), over(FAR, "below"), over(READ, "above")
    near = judged(own < other / 2 for own, other in zip(ours, theirs, strict=True)) if NEAR[name] else "no claim"
    note = "confirmed means: less than half of the HPA's" if NEAR[name] else ""
    yield Claim(part, f"mean distance: {READ}", NEAR[name], ours, near, "pods", ".1f", note)
    yield Claim(part, f"mean distance: {FAR}", "", theirs, "no claim", "pods", ".1f")
    short = judged(value > 0 for value in below) if name == "high" else "no claim"
    yield Claim(part, f"time below CalPod: {READ}", SHORT[name], below, short, "s", ".0f")
    mostly = judged(value > half for value in far) if MOSTLY[name] else "no claim"
    yield Claim(part, f"time below CalPod: {FAR}", MOSTLY[name], far, mostly, "s", ".0f")
    late = judged(value > 0 for value in above) if name == "high" else "no claim"
    yield Claim(part, f"time above CalPod: {READ}", LATE[name], above, late, "s", ".0f")


def _curve(seconds: Sequence[Second]) -> Chart:
    """The example's utilisation, second by second: of all pods, and of each."""
    x = tuple(float(second.at) for second in seconds)
    lines = (
        Line("BeforeUtil, all pods", x, tuple(second.load for second in seconds)),
        Line("AfterUtil, each pod", x, tuple(second.load / second.pods for second in seconds)),
    )
    axes = Axis("time", "s"), Axis("utilisation", "%")
    return Chart("double-threshold-example", "The worked example", "lines", *axes, lines)


DRAWN = (READ, PRINTED, f"{OLD_HPA} 50 %", FAR, "HPA of today, target 80 %")


def _pictures(trials: Trials, seed: int) -> Iterator[Chart]:
    """The load and the pods of each run over time, with the first seed; of medium and high load curve A is drawn."""
    for name, experiment in EXPERIMENTS.items():
        for index, (curve, load) in enumerate(experiment.curves.items()):
            times = range(1, experiment.seconds + 1)
            x = tuple(map(float, times))
            lines = [Line("CalPod", x, tuple(float(calculated(load(at))) for at in times), look="reference")]
            for way in DRAWN:
                seconds = trials[name, curve, way, seed].seconds
                lines.append(Line(way, x, tuple(float(second.pods) for second in seconds)))
            named = f"double-threshold-{name}" + (f"-{curve.lower()}" if len(experiment.curves) > 1 else "")
            suffix = f", curve {curve}" if len(experiment.curves) > 1 else ""
            picture = "" if index else f"double-threshold-{name}"
            asked = (Line("load", x, tuple(load(at) for at in times), look="area"),)
            title, time = f"{name.capitalize()} load{suffix}", Axis("time", "s")
            yield Chart(f"{named}-load", title, "lines", time, Axis("load", "% of a pod"), asked, picture=picture)
            title, pods = f"Pods under {name} load{suffix}", Axis("pods that run")
            yield Chart(named, title, "steps", time, pods, tuple(lines), picture=picture)


def _bars(trials: Trials, seeds: Sequence[int]) -> Chart:
    """The share of time in which pods break, by run."""
    lines = []
    for way in WAYS:
        each = [
            [fmean(trials[name, curve, way, seed].broken / run.seconds * 100 for curve in run.curves) for seed in seeds]
            for name, run in EXPERIMENTS.items()
        ]
        low, high = tuple(map(min, each)), tuple(map(max, each))
        lines.append(Line(way, tuple(EXPERIMENTS), tuple(map(fmean, each)), low, high))
    axes = Axis("load"), Axis("share of the time", "%")
    name = "double-threshold-broken"
    return Chart(name, "Time in which pods break", "bars", *axes, tuple(lines), picture=name)


MAIN = {
    "the worked example, in seven steps, the last one read in three ways": ("the worked example", "step"),
    "no pod of the worked example breaks": ("the worked example", "seconds in which"),
    "pods are close to CalPod under low and medium load": ("", f"mean distance: {READ}"),
    "pods of the HPA break several times under medium and high load": ("", OLD_HPA),
    "under high load pods are short while containers start, and leave late": ("high load: RealPod", "time"),
}


SETUP = paragraphs(
    """
The example has a load of 200 sin(pi t/180) percent of one pod, looks at 1, 30 and 31 s, and pods that take 5 s each
to start and to stop.

The runs last 180 s (low load) or 360 s (medium, high), and begin with 1, 10 and 15 pods. Seed 0 looks first at 1 s,
every other seed at a random second up to 30. What is given of medium and high load is the mean of three curves that
fit what is known of it: A 1000 |sin(pi t/180)|, B 1000 sin(pi t/360), C 500 (1 + sin(pi t/180)), for high load
twice that; the last column has each.

CalPod is the number of pods that the load needs at 50 % each, RealPod those that run. A pod breaks above 100 %.
"""
)
FINDINGS = paragraphs(
    """
The example fits the paper in all seven steps if a scale-out needs any growth at all. With the threshold a, of which
the text speaks, the last scale-in ends 5 s early, as it does if any fall is enough to scale in.

By the paper's own rule that a pod breaks above 100 %, its example breaks. The paper does not mention it.

With the threshold a, nothing is scaled out while the load climbs by less than 2.8 % a second. Under high load, pods
then break for minutes, so that can hardly be what the authors ran.

What the paper says of the HPA comes from its rests. In curves A and B, it looks once, shrinks, as the load has only
begun, and then does nothing for 5 minutes. If a scale-in delays no scale-out, little of that is left, and with the
HPA of today almost nothing: it scales out at once, and shrinks only after 5 minutes of less load.

An error of 2 % in what is measured makes little difference.

Mode "product", which is elasticd's default, keeps each pod between 40 and 80 %, so it has fewer pods than CalPod.
"""
)
UNKNOWN = paragraphs(
    """
Equations (1) to (10), Tables 2 to 7, and the values of alpha, beta, a, b, d and e. Here alpha is 50 %, beta 80 %, a
0.028, d 0.07, b -0.028, e -0.07, and a pod should carry 50 %.

Which curves medium and high load have.

The HPA's target. 80 % is the only figure for it in the text.

Whether a scale-in also delays a scale-out, and whether the HPA's pods start one after another. Here it does, except
where a row says otherwise, and they start at once.

What differed between the paper's ten repetitions. Here it is the second of the first look.

How many pods an emergency asks for (eqs. 3 and 6). Here as many as for the present load and its mean growth.
"""
)
