"""Three stages and the bounds: which count they leave of a wish, what binds, and when limits contradict each other."""

from collections.abc import Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from elasticd.decision.workload.combine import Combined, combine, contradiction, restrained, within
from elasticd.model.policy import Bounds
from elasticd.model.workload import ConditionType, Limit


def delay(lowest: int | None, highest: int | None, reason: str = "Delay") -> Limit:
    return Limit(reason, "", lowest, highest, "AbleToScale", reason.lower())


def pace(lowest: int | None, highest: int | None, reason: str = "Pace") -> Limit:
    return Limit(reason, "", lowest, highest, "ScalingLimited", reason.lower())


def cut(lowest: int | None, highest: int | None, reason: str = "Cut") -> Limit:
    return Limit(reason, "", lowest, highest, "ScalingLimited", reason.lower(), of_wish=True)


def reasons(found: Combined) -> tuple[str, str]:
    """Those of AbleToScale and ScalingLimited; each status fits its reason."""
    said = {one.type: one for one in found.conditions}
    able, limited = said["AbleToScale"], said["ScalingLimited"]
    assert able.status
    assert limited.status == (limited.reason != "DesiredWithinRange")
    return able.reason, limited.reason


READY, WITHIN, MANY, FEW = "ReadyForNewScale", "DesiredWithinRange", "TooManyReplicas", "TooFewReplicas"


@pytest.mark.parametrize(
    ("wish", "limits", "bounds", "expected", "binding"),
    [
        pytest.param(3, [delay(20, None), pace(None, 8)], (1, 99), (8, "Delay", "Pace"), "Pace", id="the-rate-is-last"),
        pytest.param(3, [delay(20, None), pace(None, 8)], (1, 8), (8, "Delay", MANY), MANY, id="rate-and-max-tie"),
        pytest.param(3, [delay(20, None), pace(None, 8)], (1, 7), (7, "Delay", MANY), MANY, id="max-after-the-rate"),
        pytest.param(3, [delay(20, None), pace(None, 20)], (1, 99), (20, "Delay", WITHIN), "Delay", id="to-the-rate"),
        pytest.param(3, [delay(20, None)], (1, 20), (20, "Delay", WITHIN), "Delay", id="as-far-as-max"),
        pytest.param(9, [delay(None, 3), pace(4, 10)], (1, 99), (4, "Delay", "Pace"), "Pace", id="turned-round-down"),
        pytest.param(9, [delay(None, 3), pace(4, 10)], (5, 99), (5, "Delay", FEW), FEW, id="turned-round-to-min"),
        pytest.param(8, [delay(20, None), pace(None, 8)], (1, 99), (8, "Delay", "Pace"), "Pace", id="away-and-back"),
        pytest.param(8, [delay(20, None)], (1, 8), (8, "Delay", MANY), MANY, id="away-and-back-by-max"),
        pytest.param(1, [pace(15, None)], (1, 10), (10, READY, MANY), MANY, id="a-rate-up-to-beyond-max"),
        pytest.param(1, [pace(15, None)], (3, 10), (10, READY, MANY), MANY, id="from-below-min-to-beyond-max"),
        pytest.param(50, [pace(None, 2)], (3, 40), (3, READY, FEW), FEW, id="from-above-max-to-below-min"),
        pytest.param(9, [delay(None, 6), pace(None, 6)], (1, 99), (6, "Delay", WITHIN), "Delay", id="both-stages-tie"),
        pytest.param(7, [delay(None, 5), pace(9, None)], (1, 5), (5, "Delay", WITHIN), MANY, id="max-undoes-a-rate"),
        pytest.param(9, [cut(None, 4)], (1, 99), (4, READY, "Cut"), "Cut", id="the-wish-is-cut"),
        pytest.param(1, [cut(4, None)], (1, 99), (4, READY, "Cut"), "Cut", id="or-raised"),
        pytest.param(9, [cut(None, 4), delay(8, None)], (1, 99), (8, "Delay", WITHIN), "Delay", id="a-cut-is-delayed"),
        pytest.param(9, [cut(None, 4), pace(6, None)], (1, 99), (6, READY, "Pace"), "Pace", id="a-cut-is-paced"),
        pytest.param(1, [cut(8, None), pace(None, 6)], (1, 99), (6, READY, "Pace"), "Pace", id="so-is-a-raise"),
        pytest.param(9, [cut(None, 7), delay(None, 5)], (1, 99), (5, "Delay", WITHIN), "Delay", id="delayed-beyond"),
        pytest.param(9, [cut(None, 4)], (6, 99), (6, READY, FEW), FEW, id="min-is-above-a-cut"),
        pytest.param(9, [cut(None, 7, "B"), cut(1, 4, "A")], (1, 99), (4, READY, "A"), "A", id="two-cuts"),
        pytest.param(5, [delay(4, 6), pace(3, 7)], (1, 99), (5, READY, WITHIN), None, id="nothing-to-do"),
        pytest.param(5, [], (1, 99), (5, READY, WITHIN), None, id="no-limits"),
        pytest.param(9, [delay(None, 7, "A"), delay(1, 6, "B")], (1, 99), (6, "B", WITHIN), "B", id="two-delays"),
        pytest.param(9, [delay(None, 6, "B"), delay(1, 6, "A")], (1, 99), (6, "A", WITHIN), "A", id="equals-by-reason"),
        pytest.param(9, [pace(None, 6, "B"), pace(1, 6, "A")], (1, 99), (6, READY, "A"), "A", id="equal-rates-too"),
    ],
)  # fmt: skip
def test_delays_apply_before_rates_and_rates_before_bounds(
    wish: int, limits: list[Limit], bounds: tuple[int, int], expected: tuple[int, str, str], binding: str | None
) -> None:
    for order in (limits, limits[::-1]):
        found = combine(wish, order, Bounds(bounds[1], bounds[0]), 5)
        assert (found.replicas, *reasons(found)) == expected
        assert (found.binding.reason if found.binding else None) == binding


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        pytest.param([delay(6, None, "A"), delay(None, 5, "B")], "a asks for at least 6, b for at most 5", id="delays"),
        pytest.param([pace(6, None, "A"), pace(None, 5, "B")], "a asks for at least 6, b for at most 5", id="rates"),
        pytest.param([delay(6, None), pace(None, 5)], "", id="of-two-stages"),
        pytest.param([delay(None, 4), pace(5, None)], "", id="of-two-stages-the-other-way"),
        pytest.param([delay(5, 5, "Wait"), pace(None, 2, "Budget")], "wait asks for at least 5, budget for at most 2",
                     id="of-two-stages-when-the-second-asks-for-another-count"),
        pytest.param([delay(5, 5, "Wait"), pace(8, None, "Floor")], "floor asks for at least 8, wait for at most 5",
                     id="and-the-other-way"),
        pytest.param([delay(6, None, "Up"), delay(None, 6, "Down")], "", id="touching"),
        pytest.param([delay(6, None, "Up"), delay(9, None, "More"), delay(None, 5, "Down"), delay(None, 3, "Less")],
                     "more asks for at least 9, less for at most 3", id="the-furthest-apart-are-told"),
        pytest.param([delay(9, None, "B"), delay(9, 9, "A"), delay(None, 5, "Down")],
                     "a asks for at least 9, down for at most 5", id="among-equals-by-reason"),
        pytest.param([pace(9, None, "P"), pace(None, 8, "Q"), delay(7, None, "D"), delay(None, 6, "E")],
                     "p asks for at least 9, e for at most 6", id="the-first-stage-is-told-with-what-joins-it"),
        pytest.param([cut(6, None, "A"), cut(None, 5, "B")], "a asks for at least 6, b for at most 5", id="cuts"),
        pytest.param([cut(None, 3), delay(5, None)], "", id="a-cut-and-a-delay"),
        pytest.param([cut(9, None), pace(None, 5)], "", id="a-cut-and-a-rate"),
        pytest.param([], "", id="none"),
    ],
)  # fmt: skip
def test_limits_contradict_within_a_stage_or_about_another_count(limits: list[Limit], problem: str) -> None:
    assert contradiction(limits, 5) == contradiction(limits[::-1], 5) == problem


# Properties, with names of their own for all limits.
COUNTS = st.integers(0, 14)
CONDITIONS: list[ConditionType] = ["AbleToScale", "ScalingLimited"]
ENDS = st.none() | COUNTS
DRAWN = st.builds(
    Limit, st.sampled_from("abc"), st.just(""), ENDS, ENDS, st.sampled_from(CONDITIONS), st.just(""), st.booleans()
).filter(lambda limit: limit.lowest is None or limit.highest is None or limit.lowest <= limit.highest)
LIMITS = st.lists(DRAWN, max_size=5).map(
    lambda drawn: [replace(limit, name=f"limit-{index}") for index, limit in enumerate(drawn)]
)
BOUNDS = st.builds(lambda least, more: Bounds(max(1, least + more), least), st.integers(0, 10), st.integers(0, 10))


def brought_into(wish: int, limits: Sequence[Limit], condition: ConditionType | None) -> int:
    """The wish brought into what all limits of a stage have in common; None: those of the wish itself."""
    stage = [limit for limit in limits if (None if limit.of_wish else limit.condition) == condition]
    wish = min([wish, *(limit.highest for limit in stage if limit.highest is not None)])
    return max([wish, *(limit.lowest for limit in stage if limit.lowest is not None)])


@given(COUNTS, LIMITS, BOUNDS)
def test_count_follows_from_cuts_delays_rates_and_bounds_in_order(
    wish: int, limits: list[Limit], bounds: Bounds
) -> None:
    assume(not contradiction(limits, 5))
    asked = brought_into(wish, limits, None)
    delayed = brought_into(asked, limits, "AbleToScale")
    paced = brought_into(delayed, limits, "ScalingLimited")
    found = combine(wish, limits, bounds, 5)
    assert found.replicas == within(paced, bounds)
    able, limited = reasons(found)
    assert (able == READY) == (delayed == asked)
    cut_to_it = found.binding is not None and found.binding.of_wish
    assert (limited == WITHIN) == (found.replicas == delayed and not cut_to_it)


@given(COUNTS, LIMITS, BOUNDS, COUNTS)
def test_what_restrains_a_wish_contradicts_itself_or_combines(
    wish: int, limits: list[Limit], bounds: Bounds, current: int
) -> None:
    problem = contradiction(limits, current)
    for _ in range(2):
        assert restrained(wish, tuple(limits), bounds, current) == (problem or combine(wish, limits, bounds, current))


@given(COUNTS, LIMITS, BOUNDS, st.data())
def test_limit_order_changes_no_result_and_is_kept_in_output(
    wish: int, limits: list[Limit], bounds: Bounds, data: st.DataObject
) -> None:
    other = data.draw(st.permutations(limits))
    assert contradiction(limits, 5) == contradiction(other, 5)
    assume(not contradiction(limits, 5))
    one, two = combine(wish, limits, bounds, 5), combine(wish, other, bounds, 5)
    assert [replace(limit, bound=False) for limit in one.limits[:-1]] == limits
    assert sorted(map(repr, one.limits)) == sorted(map(repr, two.limits))
    assert (one.replicas, one.conditions, one.binding) == (two.replicas, two.conditions, two.binding)


@given(COUNTS, LIMITS, BOUNDS)
def test_binding_limit_ends_at_the_count_and_excludes_the_bounds(
    wish: int, limits: list[Limit], bounds: Bounds
) -> None:
    assume(not contradiction(limits, 5))
    found = combine(wish, limits, bounds, 5)
    *told, edge = found.limits
    bound = [limit for limit in told if limit.bound]
    assert all(found.replicas in (limit.lowest, limit.highest) for limit in bound)
    assert not (edge.bound and bound)
    assert (found.binding is None) == (not edge.bound and not bound)
    assert found.binding is None or found.binding in found.limits
    assert edge == Limit(edge.reason, edge.message, bounds.min, bounds.max, name="bounds", bound=edge.bound)
    assert found.replicas == wish or found.binding
    if not edge.bound:
        assert edge.reason == WITHIN
    elif edge.reason == MANY:
        assert found.replicas == bounds.max
    else:
        assert (edge.reason, found.replicas) == (FEW, bounds.min)


@given(COUNTS, LIMITS, BOUNDS)
def test_count_changes_without_its_binding_limits_unless_another_binds_then(
    wish: int, limits: list[Limit], bounds: Bounds
) -> None:
    assume(not contradiction(limits, 5))
    found = combine(wish, limits, bounds, 5)
    marked = [limit for limit in found.limits if limit.bound]
    assume(marked)
    rest = [limit for limit in found.limits[:-1] if not limit.bound]
    free = combine(wish, rest, Bounds(2**31 - 1, 0) if found.limits[-1].bound else bounds, 5)
    if free.replicas == found.replicas:
        assert free.binding
        assert marked[0].condition == "AbleToScale" or marked[0].of_wish or marked[0].name == "bounds"


@given(COUNTS, LIMITS, BOUNDS)
def test_a_wish_that_nothing_touches_is_left_alone(wish: int, limits: list[Limit], bounds: Bounds) -> None:
    free = [limit for limit in limits if limit.clamp(wish) == wish]
    found = combine(wish, free, replace(bounds, min=min(wish, bounds.min), max=max(wish, bounds.max)), 5)
    assert (found.replicas, found.binding, *reasons(found)) == (wish, None, READY, WITHIN)
    assert not any(limit.bound for limit in found.limits)


def back(lowest: int | None, highest: int | None) -> Limit:
    return Limit("RolledBack", "", lowest, highest, name="back", takes_back=True)


def yielding(limit: Limit) -> Limit:
    return replace(limit, gives_way=True)


@pytest.mark.parametrize(
    ("wish", "limits", "replicas", "binding", "contradicts"),
    [
        pytest.param(3, [back(8, None)], 8, "RolledBack", False, id="up against the wish"),
        pytest.param(9, [back(None, 4)], 4, "RolledBack", False, id="down against the wish"),
        pytest.param(9, [back(8, None)], 9, None, False, id="the wish goes there anyway"),
        pytest.param(3, [back(8, None), yielding(pace(4, 6))], 8, "RolledBack", False, id="past a rate that gives way"),
        pytest.param(3, [back(8, None), delay(None, 5)], 8, "RolledBack", False, id="past every delay"),
        pytest.param(3, [back(8, None), delay(None, 4), delay(6, None)], 8, "RolledBack", False,
                     id="also past delays that contradict each other"),
        pytest.param(3, [back(8, None), yielding(pace(None, 4)), yielding(pace(6, None))], 8, "RolledBack", False,
                     id="and past rates that do"),
        pytest.param(3, [back(8, None), pace(4, 6)], 8, "RolledBack", True, id="never past another limit"),
        pytest.param(3, [back(8, None), pace(4, 9)], 8, "RolledBack", False, id="with one that allows it"),
        pytest.param(3, [back(8, None), cut(None, 6)], 8, "RolledBack", True, id="nor past a schedule's ceiling"),
        pytest.param(3, [back(8, None), back(None, 2)], 8, "RolledBack", True, id="two that go apart"),
        pytest.param(3, [back(20, None)], 10, "TooManyReplicas", False, id="within the bounds"),
    ],
)  # fmt: skip
def test_a_rollback_limit_overrides_only_delays_and_yielding_limits(
    wish: int, limits: list[Limit], replicas: int, binding: str | None, contradicts: bool
) -> None:
    assert bool(contradiction(limits, 5)) == contradicts
    if not contradicts:
        for order in (limits, limits[::-1]):
            found = combine(wish, order, Bounds(10, 1), 5)
            assert (found.replicas, found.binding and found.binding.reason) == (replicas, binding)
            assert [one.reason for one in found.limits if one.bound] == ([binding] if binding else [])
