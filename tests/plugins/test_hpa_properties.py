"""What holds of the HPA whatever it sees; and its limits against the controller's own order of steps."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from elasticd import testing
from elasticd.api import Change, Container, Decision, Limit, Past, Pod, Quality, Run, Sample, Strategy
from elasticd.kit import Rate
from elasticd.kit.history import begin, carry, remember
from elasticd.limits.behavior import Cooldown, RateLimit, Stabilization
from elasticd.model.records import Outcome
from elasticd_plugins.hpa import Hpa
from tests.kit.plugins.builders import (
    NOW,
    OLD,
    WISHING,
    before,
    conditions,
    decode,
    ends,
    judge,
    pod,
    queueing,
    seen,
    series,
)
from tests.kit.plugins.controller import Controller, Normalized

COUNTS = some.integers(0, 60)
AGES = some.integers(0, 700).map(float)
METRICS: list[dict[str, Any]] = [
    {"type": "Resource", "resource": "cpu", "utilization": 50},
    {"type": "Resource", "resource": "cpu", "utilization": 150},
    {"type": "Resource", "resource": "cpu", "average_value": "200m"},
    {"type": "ContainerResource", "resource": "cpu", "container": "web", "utilization": 60},
    {"type": "Pods", "series": "cpu", "average_value": "0.3"},
    {"type": "Object", "series": "cpu", "value": 2},
    {"type": "Object", "series": "cpu", "average_value": "300m"},
    {"type": "External", "series": "cpu", "value": 2},
    {"type": "External", "series": "cpu", "average_value": "300m"},
]
RULES = some.sampled_from(["current", "1.20"])


@some.composite
def weird_pods(draw: some.DrawFn) -> list[Pod]:
    """Pods in any state that an API server can show."""
    requests = some.dictionaries(some.sampled_from(["cpu", "memory"]), some.sampled_from([0.0, 0.1, 0.25, 4.0, 1e9]))
    container = some.builds(Container, some.sampled_from(["web", "log"]), requests, some.booleans())
    return [
        pod(
            f"p{index}",
            phase=draw(some.sampled_from(["Running", "Pending", "Failed", "Succeeded", "Unknown"])),
            containers=tuple(draw(some.lists(container, max_size=3))),
            requests=draw(requests),
            started=draw(some.none() | AGES.map(lambda age: NOW - age)),
            ready=draw(some.sampled_from([True, False, None])),
            ready_changed=NOW - draw(AGES),
            deleted=draw(some.booleans()),
        )
        for index in range(draw(some.integers(0, 5)))
    ]


WEIRD_SAMPLES = some.lists(
    some.builds(
        Sample,
        some.floats(allow_nan=False, allow_infinity=False),
        AGES.map(lambda age: NOW - age),
        some.just(NOW),
        some.sampled_from([0.0, 15.0, 60.0]),
        some.sampled_from(["", "p0", "p1", "p2", "ghost"]),
        some.sampled_from(["", "web", "log"]),
    ),
    max_size=8,
)
POLICIES = some.lists(
    some.fixed_dictionaries(
        {
            "type": some.sampled_from(["Pods", "Percent"]),
            "value": some.integers(1, 200),
            "period": some.integers(1, 600),
        }
    ),
    min_size=1,
    max_size=3,
)
DIRECTIONS = some.fixed_dictionaries(
    {},
    optional={
        "stabilization_window": some.integers(0, 600),
        "policies": POLICIES,
        "select": some.sampled_from(["Max", "Min", "Disabled"]),
    },
)
BEHAVIORS = some.fixed_dictionaries({"scale_up": DIRECTIONS, "scale_down": DIRECTIONS})


@some.composite
def pasts(draw: some.DrawFn) -> Past:
    """Wishes and changes of the last minutes, oldest first."""
    wishes = sorted(draw(some.lists(some.tuples(AGES, COUNTS), max_size=6)), reverse=True)
    ages = sorted(draw(some.lists(AGES, max_size=5)), reverse=True)
    return before(wishes, [(age, draw(COUNTS), draw(COUNTS)) for age in ages])


@given(
    current=COUNTS,
    status=COUNTS,
    of=weird_pods(),
    samples=WEIRD_SAMPLES,
    quality=some.sampled_from(Quality),
    metrics=some.lists(some.sampled_from(METRICS), min_size=1, max_size=3),
    rules=RULES,
    behavior=some.none() | BEHAVIORS,
    past=pasts(),
    least=some.integers(0, 3),
)
def test_it_never_raises_and_never_leaves_the_bounds(
    current: int,
    status: int,
    of: list[Pod],
    samples: list[Sample],
    quality: Quality,
    metrics: list[dict[str, Any]],
    rules: str,
    behavior: Any,
    past: Past,
    least: int,
) -> None:
    hpa = decode(Hpa, metrics=metrics, rules=rules, behavior=behavior)
    observation = seen(current, of, series(samples, "cpu", quality), status=status)
    judged = judge(hpa, seen=observation, past=past, bounds=(least, 40))
    assert (current == 0 and least > 0) or least <= judged.replicas <= 40
    for said in judged.recommendations:
        assert said.reason
        assert said.replicas is None or 0 <= said.replicas < 2**31


@given(
    current=some.integers(1, 40),
    of=weird_pods(),
    samples=WEIRD_SAMPLES,
    quality=some.sampled_from([Quality.STALE, Quality.EMPTY, Quality.INVALID, Quality.ERROR]),
    metrics=some.lists(some.sampled_from(METRICS), min_size=1, max_size=3),
    behavior=some.none() | BEHAVIORS,
    past=pasts(),
    may_raise=some.booleans(),
)
def test_the_unknown_never_shrinks_anything(
    current: int,
    of: list[Pod],
    samples: list[Sample],
    quality: Quality,
    metrics: list[dict[str, Any]],
    behavior: Any,
    past: Past,
    may_raise: bool,
) -> None:
    hpa = decode(Hpa, metrics=metrics, behavior=behavior)
    unknown = series(samples, "cpu", quality, may_raise=may_raise)
    judged = judge(hpa, seen=seen(current, of, unknown), past=past, bounds=(1, 40))
    assert judged.replicas >= current
    for said in judged.recommendations:
        assert said.replicas is None or said.replicas >= current


@some.composite
def loaded_pods(draw: some.DrawFn) -> tuple[list[Pod], list[Sample]]:
    """Pods that are ready, pending or without a sample; at least one is ready."""
    kinds = ["ready", *draw(some.lists(some.sampled_from(["ready", "pending", "missing"]), max_size=9))]
    of = [
        pod(f"p{index}", 0.5, phase="Pending" if kind == "pending" else "Running") for index, kind in enumerate(kinds)
    ]
    samples = [
        Sample(draw(some.floats(0, 4)), NOW - 5, NOW, 0, f"p{index}", "web")
        for index, kind in enumerate(kinds)
        if kind == "ready"
    ]
    return of, samples


@given(loaded=loaded_pods(), metric=some.sampled_from(METRICS[:5]), factor=some.floats(1, 50), down=some.floats(0, 0.5))
def test_more_load_never_asks_for_less(
    loaded: tuple[list[Pod], list[Sample]], metric: dict[str, Any], factor: float, down: float
) -> None:
    """With as many pods as replicas; otherwise "stay at current" and "so many ready pods" differ."""
    of, samples = loaded
    hpa = decode(Hpa, metrics=[metric], behavior={"scale_down": {"tolerance": down}})
    more = [
        Sample(each.value * factor, each.measured, each.received, each.window, each.pod, each.container)
        for each in samples
    ]
    low, high = (seen(len(of), of, series(each)) for each in (samples, more))
    less = hpa.recommend_replicas(low.workload, low).replicas
    greater = hpa.recommend_replicas(high.workload, high).replicas
    assert less is not None
    assert greater is not None
    assert less <= greater


@given(value=some.floats(0, 1e6), factor=some.floats(1, 50), current=COUNTS, metric=some.sampled_from(METRICS[5:]))
def test_a_longer_queue_never_asks_for_less(value: float, factor: float, current: int, metric: dict[str, Any]) -> None:
    hpa = decode(Hpa, metrics=[metric])
    of = [pod(f"p{index}") for index in range(current)]
    counts = []
    for amount in (value, value * factor):
        observation = seen(current, of, series([Sample(amount, NOW, NOW)]))
        counts.append(hpa.recommend_replicas(observation.workload, observation).replicas or 0)
    assert counts[0] <= counts[1]


@some.composite
def within(draw: some.DrawFn) -> tuple[int, tuple[int, int]]:
    """A count, and bounds that it lies in."""
    least = draw(some.integers(0, 5))
    most = draw(some.integers(max(1, least), 60))
    return draw(some.integers(least, most)), (least, most)


def _decide(hpa: Hpa, current: int, wish: int, past: Past, bounds: tuple[int, int]) -> Decision:
    decision = judge(hpa, seen=queueing(current, wish), past=past, bounds=bounds)
    assert decision.wish == wish
    return decision


def _stages(decision: Decision) -> tuple[list[Limit], list[Limit]]:
    """What delays, and what shortens; the bounds are in neither."""
    limits = [limit for limit in decision.limits if limit.name != "bounds"]
    delays = [limit for limit in limits if limit.condition == "AbleToScale"]
    return delays, [limit for limit in limits if limit.condition == "ScalingLimited"]


def _intersection(limits: Iterable[Limit]) -> tuple[int, int]:
    """The ends of all intervals together; there is always something between them."""
    lowest = max((limit.lowest for limit in limits if limit.lowest is not None), default=0)
    highest = min((limit.highest for limit in limits if limit.highest is not None), default=2**31)
    assert lowest <= highest
    return lowest, highest


def _two_stages(decision: Decision, wish: int, bounds: tuple[int, int]) -> int:
    """The wish brought into all that delays, that into all that shortens, and that into the bounds."""
    for lowest, highest in (*map(_intersection, _stages(decision)), bounds):
        wish = max(lowest, min(highest, wish))
    return wish


OTHERS: list[Strategy] = [Stabilization(up=60), RateLimit(up=(Rate("Pods", 3, 60),)), Cooldown()]
HPAS = some.builds(
    lambda behavior, mode, rules: decode(Hpa, **WISHING, behavior=behavior, mode=mode, rules=rules),
    some.none() | BEHAVIORS,
    some.sampled_from(["kubernetes", "paper"]),
    RULES,
)


@given(at=within(), wish=COUNTS, past=pasts(), hpa=HPAS)
def test_every_limit_contains_the_current_count_except_some_windows(
    at: tuple[int, tuple[int, int]], wish: int, past: Past, hpa: Hpa
) -> None:
    """Without behavior a window can only raise it, in 1.20 only turn the wish round; a rate never forbids to stay."""
    current, bounds = at
    delays, paces = _stages(_decide(hpa, current, wish, past, bounds))
    assert all(limit.clamp(current) == current for limit in paces)
    for limit in delays:
        held = limit.clamp(current)
        if hpa.mode == "paper" or (hpa.behavior and hpa.rules == "current"):
            assert held == current
        elif hpa.behavior and wish >= current:
            assert held <= current
        else:
            assert held >= current


@given(at=within(), wish=COUNTS, past=pasts(), hpa=HPAS)
def test_the_answer_is_the_wish_after_delays_rates_and_bounds(
    at: tuple[int, tuple[int, int]], wish: int, past: Past, hpa: Hpa
) -> None:
    current, bounds = at
    decision = _decide(hpa, current, wish, past, bounds)
    assert ends(decision.limits[-1]) == bounds
    assert decision.replicas == _two_stages(decision, wish, bounds)
    assert all(decision.replicas in (ends(limit) or ()) for limit in decision.limits if limit.bound)


@given(at=within(), wish=COUNTS, past=pasts(), hpa=HPAS, data=some.data())
def test_the_order_of_the_hpa_and_limits_does_not_matter(
    at: tuple[int, tuple[int, int]], wish: int, past: Past, hpa: Hpa, data: some.DataObject
) -> None:
    """Also where a window that leaves the current count behind contradicts a cooldown, which holds."""
    current, bounds = at
    orders = OTHERS, data.draw(some.permutations(OTHERS))
    decision, other = (
        testing.judge(hpa, seen=queueing(current, wish), past=past, limits=order, bounds=bounds) for order in orders
    )
    assert decision == other
    if decision.reason == "LimitsContradict":
        assert decision.replicas == current
        assert any(limit.clamp(current) != current for limit in _stages(decision)[0])
    else:
        assert decision.replicas == _two_stages(decision, wish, bounds)


@given(current=COUNTS, wishes=some.tuples(COUNTS, COUNTS), past=pasts(), behavior=some.none() | BEHAVIORS, rules=RULES)
def test_intervals_ignore_the_wish_except_for_1_20_windows(
    current: int, wishes: tuple[int, int], past: Past, behavior: Any, rules: str
) -> None:
    hpa = decode(Hpa, **WISHING, behavior=behavior, rules=rules)
    one, other = (_stages(_decide(hpa, current, wish, past, (0, 60))) for wish in wishes)
    assert list(map(ends, one[1])) == list(map(ends, other[1]))
    one_way = behavior is not None and rules == "1.20"
    if not one_way or (wishes[0] >= current) == (wishes[1] >= current):
        assert list(map(ends, one[0])) == list(map(ends, other[0]))


@given(current=COUNTS, wish=COUNTS, past=pasts(), behavior=some.none() | BEHAVIORS, rules=RULES, bounds=some.data())
def test_limits_and_their_messages_do_not_depend_on_the_bounds(
    current: int, wish: int, past: Past, behavior: Any, rules: str, bounds: some.DataObject
) -> None:
    hpa = decode(Hpa, **WISHING, behavior=behavior, rules=rules)
    tight = bounds.draw(some.integers(0, current)), bounds.draw(some.integers(max(1, current), 60))
    told = [
        [replace(limit, bound=False) for limit in _decide(hpa, current, wish, past, each).limits[:-1]]
        for each in ((0, 1000), tight)
    ]
    assert told[0] == told[1]


def _agree(decision: Decision, expected: Normalized) -> None:
    """The count and the reasons are the controller's, and it acts where the controller does."""
    reasons = conditions(decision)
    assert (decision.replicas, reasons["AbleToScale"], reasons["ScalingLimited"]) == expected
    assert (decision.verdict == "scale") == (expected.replicas != decision.current)
    assert (decision.action is None) == (expected.replicas == decision.current)


BOTH_RULES = pytest.mark.parametrize("rules", ["current", "1.20"])


@BOTH_RULES
@given(at=within(), wish=COUNTS, past=pasts(), behavior=BEHAVIORS)
def test_behavior_equals_the_controllers_steps(
    rules: str, at: tuple[int, tuple[int, int]], wish: int, past: Past, behavior: Any
) -> None:
    current, bounds = at
    hpa = decode(Hpa, **WISHING, rules=rules, behavior=behavior)
    expected = Controller(current, bounds, past, rules == "1.20").behaving(wish, behavior)
    _agree(_decide(hpa, current, wish, past, bounds), expected)


@BOTH_RULES
@given(at=within(), wish=COUNTS, past=pasts())
def test_without_behavior_both_sets_of_rules_equal_the_controllers_steps(
    rules: str, at: tuple[int, tuple[int, int]], wish: int, past: Past
) -> None:
    current, bounds = at
    decision = _decide(decode(Hpa, **WISHING, rules=rules), current, wish, past, bounds)
    _agree(decision, Controller(current, bounds, past, rules == "1.20").legacy(wish))


@BOTH_RULES
@given(
    at=within(),
    wishes=some.lists(COUNTS, min_size=1, max_size=12),
    period=some.sampled_from([15, 50, 60, 150]),
    behavior=some.none() | BEHAVIORS,
)
def test_pass_after_pass_it_stays_with_the_controller(
    rules: str, at: tuple[int, tuple[int, int]], wishes: list[int], period: int, behavior: Any
) -> None:
    """Each keeps its own memory: the daemon's grows by decisions and outcomes, the controller's by lists."""
    current, bounds = at
    hpa = decode(Hpa, **WISHING, rules=rules, behavior=behavior)
    past = begin(NOW, current)
    stored, changes = [Run(NOW, NOW, current)], list[Change]()
    for index, wish in enumerate(wishes):
        now = NOW + index * period
        controller = Controller(current, bounds, Past(OLD, tuple(stored), tuple(changes)), rules == "1.20", now)
        expected = controller.legacy(wish) if behavior is None else controller.behaving(wish, behavior)
        decision = judge(hpa, seen=queueing(current, wish, now), past=past, bounds=bounds)
        _agree(decision, expected)
        past = remember(past, decision)
        stored.append(Run(now, now, wish))
        if expected.replicas != current:
            changes.append(Change(now, current, expected.replicas))
            outcome = Outcome(decision.id, now, "test", decision.workload, "done", current, expected.replicas)
            past, current = carry(past, outcome), expected.replicas
