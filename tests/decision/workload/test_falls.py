"""A count falls once fewer replicas have been wanted for a while."""

from itertools import pairwise
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elasticd.api import Limit, Recommendation
from elasticd.decision.decide import Case, evaluate
from elasticd.decision.workload.falls import Wait, wait
from elasticd.kit.history import begin, remember
from elasticd.model.disruption import PolicyCaps
from elasticd.model.history import Past, Run
from elasticd.model.policy import Bounds, Trust
from elasticd.model.records import Decision
from elasticd.registry import Hooks
from tests.kit.deciding import Forbids, Wants, case, verdict

NOW = 1000.0
CAPS = PolicyCaps(falls_after=3.0)


def judged(
    wanted: int | Recommendation, current: int, past: Past, at: float = NOW, caps: PolicyCaps | None = CAPS
) -> Case:
    made = case([Wants(answer=wanted)], current=current)
    observation = replace(made.observation, at=at, confirmed=at)
    return replace(made, observation=observation, past=past, caps=caps)


def runs(*since: tuple[float, int]) -> Past:
    """Wishes, each by the seconds since it was first wished for."""
    return Past(since=NOW - 3600, runs=tuple(Run(NOW - ago, NOW - ago, replicas) for ago, replicas in since))


@pytest.mark.parametrize(
    ("past", "wish", "expected"),
    [
        pytest.param(runs((60, 8)), 2, (8, 3.0), id="fewer are wanted only now"),
        pytest.param(runs((60, 8), (2, 2)), 2, (8, 1.0), id="for a shorter time"),
        pytest.param(runs((60, 8), (3, 2)), 2, None, id="for long enough"),
        pytest.param(runs((60, 8), (3, 2)), 1, (2, 3.0), id="still fewer only now"),
        pytest.param(runs((60, 8), (5, 2), (2, 6), (1, 2)), 2, (6, 2.0), id="more were wanted for a moment"),
        pytest.param(runs((60, 8), (5, 6), (2, 4), (1, 5)), 4, (6, 1.0), id="the highest counts"),
        pytest.param(runs((60, 20), (2, 2)), 2, (10, 1.0), id="no more than there are"),
        pytest.param(runs((1, 2)), 2, (10, 2.0), id="it is not known what was wanted before"),
        pytest.param(runs(), 2, (10, 3.0), id="nothing is known"),
        pytest.param(runs((60, 2)), 10, None, id="no fewer are wanted"),
        pytest.param(runs((60, 2)), 12, None, id="more are wanted"),
    ],
)
def test_a_wish_for_fewer_waits_for_the_higher_ones_before(
    past: Past, wish: int, expected: tuple[int, float] | None
) -> None:
    assert wait(judged(wish, 10, past), wish) == (expected and Wait(expected[0], NOW + expected[1]))


@pytest.mark.parametrize("caps", [None, PolicyCaps()], ids=["no caps", "no wait"])
def test_nothing_waits_where_nothing_is_set(caps: PolicyCaps | None) -> None:
    assert wait(judged(2, 10, runs(), caps=caps), 2) is None
    assert verdict(evaluate(judged(2, 10, runs(), caps=caps)).decision) == ("scale", 2, "Wanted")


def test_a_count_that_waits_says_until_when() -> None:
    waiting = evaluate(judged(2, 10, runs((60, 8), (2, 2))))
    assert verdict(waiting.decision) == ("scale", 8, "Wanted"), "as far as it may"
    (limit,) = [one for one in waiting.decision.limits if one.name == "breaker"]
    assert (limit.reason, limit.lowest, limit.highest, limit.bound) == ("ScaleDownStabilized", 8, None, True)
    assert limit.message == "at least 8 until fewer have been wanted for 3 s: by then it shows which series were lost"
    assert waiting.until == NOW + 1.0
    held = evaluate(judged(2, 10, runs((60, 10))))
    assert verdict(held.decision) == ("hold", 10, "ScaleDownStabilized")
    assert not any(one.name == "breaker" for one in evaluate(judged(12, 10, runs())).decision.limits)


@pytest.mark.parametrize(
    ("highest", "until"),
    [
        pytest.param(10, inf, id="another window holds it as well"),
        pytest.param(12, inf, id="another window holds it"),
        pytest.param(6, NOW + 3.0, id="another holds it less"),
    ],
)
def test_no_look_comes_sooner_where_others_hold_it(highest: int, until: float) -> None:
    """Windows go by what was recommended at each look: one that comes sooner may find them over."""
    window = Forbids(answer=Limit("ScaleDownStabilized", "a window", min(10, highest), None, "AbleToScale"))
    waiting = replace(judged(2, 10, begin(NOW, 10)), hooks=Hooks((Wants(answer=2), window)))
    assert verdict(evaluate(waiting).decision) == ("hold", 10, "ScaleDownStabilized")
    assert evaluate(waiting).until == until


def test_bounds_and_a_fallback_lower_a_count_too() -> None:
    """A max says so itself; of a fallback it is wanted for as long as it is named."""
    beyond = judged(2, 10, runs((60, 10)))
    beyond = replace(beyond, policy=replace(beyond.policy, replicas=Bounds(max=5)))
    assert verdict(evaluate(beyond).decision) == ("scale", 5, "TooManyReplicas")
    policy = replace(
        beyond.policy, replicas=Bounds(max=20), trust=Trust(unknown="fallback", replicas=3, after=0.0, may_lower=True)
    )
    past, made = runs((60, 10)), list[Decision]()
    for second in range(5):
        blind = judged(Recommendation(None, "NoMetrics"), 10, past, NOW + second)
        made.append(evaluate(replace(blind, policy=policy)).decision)
        past = remember(past, made[-1])
    assert [one.replicas for one in made] == [10, 10, 10, 3, 3]


def test_a_floor_of_the_wish_is_all_that_was_wanted() -> None:
    """Of a calendar whose minimum is more than the load needs, for as long as it is in force."""
    floor = Forbids(answer=Limit("ScheduledBounds", "at least 8 now", 8, None, of_wish=True))
    held = evaluate(replace(judged(2, 10, begin(NOW, 10)), hooks=Hooks((Wants(answer=2), floor))))
    assert (verdict(held.decision)[:2], held.until) == (("hold", 10), NOW + 3.0)
    past = remember(begin(NOW, 10), held.decision)
    for at, current, verdicts in ((NOW + 3, 10, ("scale", 8)), (NOW + 33, 8, ("hold", 8))):
        made = evaluate(replace(judged(2, current, past, at), hooks=Hooks((Wants(answer=2), floor))))
        assert (verdict(made.decision)[:2], made.until) == (verdicts, inf)
        assert [limit.name for limit in made.decision.limits if limit.name == "breaker"] == []
        past = remember(past, made.decision)


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(1, 10)), min_size=1, max_size=40))
def test_no_count_falls_below_what_was_wanted_within_the_wait(steps: list[tuple[int, int]]) -> None:
    """Steps: eighths of a second until a look, and what is wanted then. It rises at once, and falls in the end."""
    at, current, past = NOW, 10, begin(NOW, 10)
    wanted = [(at, current)]
    for eighths, wish in [*steps, (1, 1), (30, 1)]:
        at += eighths / 8
        decision = evaluate(judged(wish, current, past, at)).decision
        wanted.append((at, wish))
        past = remember(past, decision)
        in_force = [before for (_, before), (end, _) in pairwise(wanted) if end > at - 3.0]
        lowest = min(current, max([wish, *in_force]))
        assert decision.replicas == (wish if wish >= current else lowest)
        current = decision.replicas
    assert current == 1


@given(st.floats(1.5e9, 2e9), st.floats(0.0, 3.0))
def test_a_wait_is_over_when_it_says_so(at: float, ago: float) -> None:
    """Whatever doubles make of the sum: a workload without a next look would wait for its interval."""
    past = Past(since=0.0, runs=(Run(at - 60, at - 60, 8), Run(at - ago, at - ago, 2)))
    waiting = wait(judged(2, 10, past, at), 2)
    assert waiting is None or (waiting.until > at and wait(judged(2, 10, past, waiting.until), 2) is None)
