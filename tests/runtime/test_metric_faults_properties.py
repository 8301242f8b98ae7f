"""Random faults in a row, over random policies, in virtual time: nothing shrinks from what is not known (I2), no count
leaves its bounds (I3), and nothing ever raises."""

import asyncio
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as some

from elasticd.api import Bounds, Policy
from elasticd.model.policy import Trust
from elasticd.model.records import Decision
from elasticd.model.workload import Readings
from tests.kit.faults import (
    ABSURD,
    CPU,
    LOOK,
    MEAGRE,
    MOSTLY,
    NONSENSE,
    ORDERS,
    PARTLY,
    UNKNOWN,
    Fault,
    Pushed,
    Told,
    cluster,
    each,
    hpa,
    play,
    policy,
    times,
)

SERIES = ("cpu", "orders")
FAULTS: dict[str, Fault] = {**UNKNOWN, **PARTLY, **MOSTLY, **NONSENSE, **ABSURD, **MEAGRE}
BLINDING = {*UNKNOWN, *NONSENSE}
"""Faults while which a series is no reason to shrink. Others leave some pods that can be counted by, or few."""


class Step(NamedTuple):
    """How busy it is, and what is wrong with each series; empty: nothing."""

    load: float
    cpu: str
    orders: str

    def fault(self, series: str) -> Fault:
        """The load, and then the fault."""
        name: str = getattr(self, series)
        busy = each(times(self.load))

        def spoil(said: Readings, now: float) -> Readings:
            return FAULTS[name](busy(said, now), now) if name else busy(said, now)

        return spoil


WRONG = some.just("") | some.sampled_from(sorted(FAULTS))
WRONG_AS_A_WHOLE = some.just("") | some.sampled_from(sorted({*FAULTS} - {*PARTLY, *MOSTLY}))
LOADS = some.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0, 1.5, 4.0, 100.0])
STEPS = some.lists(some.builds(Step, LOADS, WRONG, WRONG_AS_A_WHOLE), min_size=4, max_size=40)
RATES = some.lists(
    some.fixed_dictionaries(
        {
            "type": some.sampled_from(["Pods", "Percent"]),
            "value": some.integers(1, 200),
            "period": some.sampled_from([15, 60, 150]),
        }
    ),
    min_size=1,
    max_size=2,
)
DIRECTION = some.fixed_dictionaries(
    {},
    optional={
        "stabilization_window": some.sampled_from([0, 15, 60, 300]),
        "policies": RATES,
        "select": some.sampled_from(["Max", "Min", "Disabled"]),
        "tolerance": some.sampled_from([0, 0.1, 0.5]),
    },
)
BEHAVIOR = some.none() | some.fixed_dictionaries({"scale_up": DIRECTION, "scale_down": DIRECTION})
AVERAGE = {"type": "Pods", "series": "cpu", "average_value": "200m"}
VALUE = {"type": "External", "series": "orders", "value": 40}

TRUST = some.builds(Trust, coverage=some.sampled_from([0.0, 0.5, 1.0])) | some.one_of(
    some.builds(Trust, unknown=some.just("up-only")),
    some.builds(Trust, unknown=some.just("floor"), replicas=some.integers(1, 30)),
    some.builds(
        Trust, unknown=some.just("fallback"), replicas=some.integers(1, 30), after=some.sampled_from([0.0, 60.0])
    ),
)


@some.composite
def hpas(draw: some.DrawFn) -> Any:
    """An HPA of one or more metrics. By the rules of 1.20 of one, since there a metric that fails keeps no other from
    lowering the count; and without behavior, for the sake of the expected failure below."""
    rules = draw(some.sampled_from(["current", "1.20"]))
    most = 1 if rules == "1.20" else 3
    metrics: list[dict[str, Any]] = draw(
        some.lists(some.sampled_from([CPU, AVERAGE, ORDERS, VALUE]), min_size=1, max_size=most, unique_by=str)
    )
    return hpa(
        *metrics,
        rules=rules,
        behavior=None if rules == "1.20" else draw(BEHAVIOR),
        mode=draw(some.sampled_from(["kubernetes", "kubernetes", "paper"])),
        downscale_stabilization=draw(some.sampled_from([0, 60, 300])),
        tolerance=draw(some.sampled_from([0, 0.1])),
        period=LOOK,
    )


@some.composite
def plays(draw: some.DrawFn) -> tuple[Policy, int]:
    """A policy, and how many replicas there are at first."""
    least = draw(some.integers(1, 6))
    most = draw(some.integers(least, 20))
    strategies = draw(some.lists(hpas(), min_size=1, max_size=2, unique_by=str))
    trust = draw(TRUST)
    governing = policy(*strategies, replicas=Bounds(min=least, max=most), interval=LOOK, trust=trust)
    return governing, draw(some.integers(least, most))


def perform(governing: Policy, replicas: int, steps: list[Step]) -> list[Decision]:
    """What was decided at each step, which is what one look finds; the bounds are checked at every decision."""

    def source(series: str) -> Pushed:
        return Pushed(
            name=series, series=(series,), fault=lambda now: steps[min(int(now // LOOK), len(steps) - 1)].fault(series)
        )

    told = Told(governing.replicas.min, governing.replicas.max)
    world, seconds = cluster("1.5", "50", replicas), (len(steps) - 1) * LOOK
    asyncio.run(play(world, governing, *map(source, SERIES), seconds=seconds, told=told))
    return told.made


def step_of(decision: Decision, steps: list[Step]) -> Step:
    return steps[min(int(decision.at // LOOK), len(steps) - 1)]


@given(case=plays(), steps=STEPS)
def test_faulty_samples_never_shrink_a_workload_or_break_its_bounds(
    case: tuple[Policy, int], steps: list[Step]
) -> None:
    governing, replicas = case
    read = {series for strategy in governing.strategies for series in strategy.reads() or ()}
    made = perform(governing, replicas, steps)
    assert len(made) >= len(steps) - 1
    for decision in made:
        wrong = {series: getattr(step_of(decision, steps), series) for series in sorted(read)}
        blind = [name in BLINDING for name in wrong.values()]
        if decision.replicas < decision.current:
            assert not any(blind), (wrong, decision)
            assert all(one.trusted for one in decision.series), (wrong, decision)
        if all(blind) and governing.trust.unknown == "hold":
            assert decision.verdict == "hold", (wrong, decision)
        if not any(name in NONSENSE for name in wrong.values()):
            assert decision.failures == (), (wrong, decision)


@pytest.mark.slow
@given(case=plays(), steps=STEPS)
def test_the_same_faults_give_the_same_decisions(case: tuple[Policy, int], steps: list[Step]) -> None:
    assert perform(*case, steps) == perform(*case, steps)


@pytest.mark.slow
@given(case=plays(), steps=STEPS, wrong=some.sampled_from(sorted(UNKNOWN)))
def test_a_count_without_samples_changes_only_by_floor_or_fallback(
    case: tuple[Policy, int], steps: list[Step], wrong: str
) -> None:
    blind = [Step(1.0, wrong, wrong)] * 30
    made = [one.replicas for one in perform(*case, [*steps, *blind]) if one.at >= len(steps) * LOOK]
    assert made == sorted(made)
    assert len(set(made)) == 1 or case[0].trust.unknown in ("floor", "fallback")


@pytest.mark.parametrize(
    "trust",
    [Trust(unknown="fallback", replicas=4, after=15), Trust(unknown="up-only")],
    ids=["with a fallback", "only up"],
)
def test_the_1_20_rules_lower_no_count_during_unknown_series(trust: Trust) -> None:
    """First nobody wants anything, for less than the downward window; then nothing is known, so none may go. But the
    lowest wish of the upward window is none, and by these rules that counts even below what there is."""
    old = hpa(rules="1.20", behavior={"scale_up": {"stabilization_window": 60}}, tolerance=0, period=LOOK)
    steps = [Step(0.5, "", "")] * 6 + [Step(0.0, "", "")] * 2 + [Step(1.0, "NaN of all pods but one", "")] * 4
    made = perform(policy(old, replicas=Bounds(min=1, max=4), interval=LOOK, trust=trust), 3, steps)
    assert min(one.replicas for one in made) == 3
