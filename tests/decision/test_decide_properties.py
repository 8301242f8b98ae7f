"""Judgement: what must hold for any strategies and limits."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elasticd.api import Limit, Measure, Recommendation, Strategy
from elasticd.decision.decide import Case, decide
from elasticd.model.records import Decision
from elasticd.model.workload import ConditionType
from tests.kit.deciding import Allows, Also, Forbids, Wants, case

# Properties. Answers are drawn with and without sense, voices with equal and different names.
COUNTS = st.integers(0, 14)
CONDITIONS: list[ConditionType] = ["AbleToScale", "ScalingLimited"]
TEXT = st.sampled_from(["a", "b", "c"])
RECOMMENDATIONS = st.builds(
    Recommendation, st.none() | COUNTS, TEXT, TEXT, st.lists(st.builds(Measure, TEXT), max_size=2).map(tuple)
)
ENDS = st.none() | COUNTS
LIMITS = st.builds(Limit, TEXT, TEXT, ENDS, ENDS, st.sampled_from(CONDITIONS))
VOICES = st.lists(
    st.builds(
        lambda kind, answer, every: kind(answer=answer, every=every),
        st.sampled_from([Wants, Also]),
        st.none() | RECOMMENDATIONS,
        st.sampled_from([None, 1, 5, 5.0, -1]),
    ),
    max_size=4,
)
RULES = st.lists(
    st.builds(lambda kind, answer: kind(answer=answer), st.sampled_from([Forbids, Allows]), st.none() | LIMITS),
    max_size=4,
)
BOUNDS = st.tuples(st.integers(0, 6), st.integers(6, 12))
CASES = st.builds(
    case, VOICES, RULES, COUNTS, BOUNDS, st.frozensets(st.sampled_from(["wants", "also#2", "allows"]), max_size=1)
)


@given(CASES)
def test_bounds_always_hold(given: Case) -> None:
    decision, bounds = decide(given), given.policy.replicas
    paused = decision.current == 0 and bounds.min > 0
    assert paused or bounds.min <= decision.replicas <= bounds.max
    assert (decision.verdict == "scale") == (decision.replicas != decision.current) == (decision.action is not None)


@given(CASES)
def test_what_cannot_be_known_never_shrinks(given: Case) -> None:
    decision = decide(given)
    in_doubt = any(one.replicas is None for one in decision.recommendations) or any(
        failure.hook == "recommend_replicas" for failure in decision.failures
    )
    if in_doubt or not decision.recommendations:
        assert decision.replicas >= min(decision.current, given.policy.replicas.max)


@given(CASES)
def test_a_decision_is_deterministic_and_leaves_its_input_unchanged(given: Case) -> None:
    before = msgspec.json.encode((given.observation, given.past))
    assert decide(given) == decide(given)
    assert msgspec.json.encode((given.observation, given.past)) == before


@given(CASES)
def test_a_decision_survives_a_round_trip_through_json(given: Case) -> None:
    decision = decide(given)
    assert msgspec.json.decode(msgspec.json.encode(decision), type=Decision) == decision


def nameless(decision: Decision) -> tuple[Any, ...]:
    """All but the names that go by the order of tables, and what only lists by name."""
    bare = replace(
        decision, recommendations=(), limits=(), failures=(), message="", interval_by="", conditions=(), action=None
    )
    return (
        bare,
        sorted(map(repr, (replace(one, strategy="") for one in decision.recommendations))),
        sorted(map(repr, (replace(one, name="") for one in decision.limits))),
        sorted(map(repr, (replace(one, plugin="") for one in decision.failures))),
        [(one.type, one.status, one.reason) for one in decision.conditions],
    )


@given(st.data(), VOICES, RULES, COUNTS, BOUNDS)
def test_the_order_of_tables_never_changes_a_decision(
    data: st.DataObject, voices: list[Strategy], rules: list[Strategy], current: int, bounds: tuple[int, int]
) -> None:
    others = data.draw(st.permutations(voices)), data.draw(st.permutations(rules))
    one, other = decide(case(voices, rules, current, bounds)), decide(case(*others, current, bounds))
    assert nameless(one) == nameless(other)
    if one.verdict != "hold":
        assert (one.message, one.conditions, one.action) == (other.message, other.conditions, other.action)


@given(st.data(), st.lists(RECOMMENDATIONS, max_size=2), st.lists(LIMITS, max_size=2), COUNTS, BOUNDS)
def test_decision_does_not_depend_on_order_if_names_are_distinct(
    data: st.DataObject, said: list[Recommendation], limits: list[Limit], current: int, bounds: tuple[int, int]
) -> None:
    voices = [kind(answer=answer) for kind, answer in zip([Wants, Also], said, strict=False)]
    rules = [kind(answer=answer) for kind, answer in zip([Forbids, Allows], limits, strict=False)]
    others = data.draw(st.permutations(voices)), data.draw(st.permutations(rules))
    assert decide(case(voices, rules, current, bounds)) == decide(case(*others, current, bounds))


@given(CASES)
def test_an_unfollowed_wish_is_explained_by_a_binding_limit(given: Case) -> None:
    """A wish that was followed, too, where something led away from it and something else back."""
    decision = decide(given)
    binding = [limit for limit in decision.limits if limit.bound]
    wish = decision.wish
    if len(decision.conditions) < 3 or wish is None:
        return
    assert all(decision.replicas in (limit.lowest, limit.highest) for limit in binding)
    if wish != decision.replicas:
        assert binding
    elif binding:
        assert any(limit.clamp(wish) != wish for limit in decision.limits)


@given(CASES)
def test_removing_the_only_binding_limit_changes_the_answer(given: Case) -> None:
    """Unless it is a delay, and a rate or the bounds end at the same count."""
    decision = decide(given)
    binding = [limit for limit in decision.limits if limit.bound]
    if len(decision.conditions) < 3 or len(binding) != 1 or binding[0].name == "bounds":
        return
    later = [limit for limit in decision.limits if limit.condition == "ScalingLimited"]
    if binding[0].condition == "AbleToScale" and any(decision.replicas in (one.lowest, one.highest) for one in later):
        return
    ordered = [rule for rule in given.policy.limits if isinstance(rule, Forbids) and rule.answer is not None]
    rest = [rule for rule in ordered if replace(rule.answer, name="") != replace(binding[0], name="", bound=False)]
    bounds = given.policy.replicas
    free = decide(case(given.policy.strategies, rest, decision.current, (bounds.min, bounds.max), given.off))
    assert free.replicas != decision.replicas
