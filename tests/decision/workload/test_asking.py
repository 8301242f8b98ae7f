"""What is made of a hook's answers."""

from functools import cached_property

import pytest

from elasticd.api import LeftOut, Limit, Measure, Rank, Recommendation, Strategy, hookimpl
from elasticd.decision.workload.asking import CACHED, LARGEST, Case
from elasticd.kit.history import begin
from elasticd.model.policy import Bounds, Policy
from elasticd.registry import Hooks
from elasticd.testing import NOW, observation

KEPT = Limit("Kept", lowest=2, highest=5)
"""One object, whoever gives it."""


class Keeps(Strategy, tag="keeps", frozen=True):
    number: int = 0

    @hookimpl
    def limit(self) -> Limit:
        return KEPT


class Fresh(Strategy, tag="fresh", frozen=True):
    @hookimpl
    def limit(self, wish: int) -> Limit:
        return Limit("Fresh", highest=wish)


class Listed(Strategy, tag="listed", frozen=True):
    limits: tuple[Limit, ...]

    @hookimpl
    def limit(self, wish: int) -> Limit:
        return self.limits[wish]


class Wrong(Strategy, tag="wrong", frozen=True):
    @hookimpl
    def limit(self) -> Limit:
        return Limit("Kept", lowest=2.0, highest=5)  # type: ignore[arg-type]


class Works(Strategy, tag="works", frozen=True):
    options: int = 3

    @cached_property
    def worked_out(self) -> list[int]:
        return [self.options] * 2


def case(*voices: Strategy) -> Case:
    policy = Policy(name="p", replicas=Bounds(min=1, max=9), strategies=voices)
    return Case(policy, observation([0.5]), begin(NOW, 1), Hooks(voices))


def test_a_limit_that_two_give_has_the_name_of_each() -> None:
    for _ in range(2):
        said = case(Keeps(), Keeps(number=1)).ask("limit", wish=3)
        assert [(name, limit.name) for name, limit in said.values] == [("keeps", "keeps"), ("keeps#2", "keeps#2")]


def test_nonsense_equal_to_a_kept_valid_limit_is_refused() -> None:
    assert case(Keeps()).ask("limit", wish=3).failures == ()
    (failure,) = case(Wrong()).ask("limit", wish=3).failures
    assert (failure.plugin, failure.hook) == ("wrong", "limit")


def test_limits_that_are_always_new_are_not_kept_for_ever() -> None:
    asked = case(Fresh())
    for wish in range(CACHED + 10):
        assert asked.ask("limit", wish=wish).values[0][1].highest == wish


def test_at_most_so_many_limits_are_kept_by_identity() -> None:
    asked = case(Listed(tuple(Limit("", highest=wish) for wish in range(2 * CACHED))))
    wishes = range(2 * CACHED)
    first = [asked.ask("limit", wish=wish).values[0][1] for wish in wishes]
    again = [asked.ask("limit", wish=wish).values[0][1] for wish in reversed(wishes)][::-1]
    assert again == first
    assert sum(limit is kept for limit, kept in zip(again, first, strict=True)) <= CACHED


def test_value_derived_from_options_is_cached_and_no_option() -> None:
    one = Works()
    assert one.worked_out is one.worked_out
    assert one == Works()
    assert one.__struct_fields__ == ("options", "priority")


def test_options_can_still_not_be_changed() -> None:
    with pytest.raises(AttributeError):
        Works().options = 4  # type: ignore[misc]


LONG = "x" * 10_000_000
CUT = "x" * 497 + "..."


class Wordy(Strategy, tag="wordy", frozen=True):
    """Says far too much."""

    measures: int = 1

    @hookimpl
    def recommend_replicas(self) -> Recommendation:
        text = LONG if self.measures == 1 else LONG[:1000]
        return Recommendation(3, text, text, (Measure(text, "now", text, 3, text, text),) * self.measures)

    @hookimpl
    def limit(self) -> Limit:
        return Limit(LONG, LONG, lowest=1, name=LONG)

    @hookimpl
    def rank_pods(self) -> dict[str, Rank]:
        return {"web-0": Rank(1.0, LONG), "web-1": Rank(2.0, "short")}


@pytest.mark.slow
def test_what_a_strategy_says_at_length_is_cut() -> None:
    asked = case(Wordy())
    (said,) = asked.ask("recommend_replicas").given
    assert (said.replicas, said.reason, said.message) == (3, CUT, CUT)
    assert said.measures == (Measure(CUT, "now", CUT, 3, CUT, CUT),)
    (limit,) = asked.ask("limit", wish=3).given
    assert (limit.lowest, limit.reason, limit.message, limit.name) == (1, CUT, CUT, CUT)
    (ranks,) = asked.ask("rank_pods", replicas=1).given
    assert ranks == {"web-0": Rank(1.0, CUT), "web-1": Rank(2.0, "short")}


@pytest.mark.parametrize(
    ("measures", "kept", "told"),
    [
        pytest.param(7, 7, "", id="a few"),
        pytest.param(100, None, f"must be at most {LARGEST} bytes of JSON, is ", id="too many for one page"),
    ],
)
def test_answer_still_too_large_after_cutting_is_a_failure(measures: int, kept: int | None, told: str) -> None:
    said = case(Wordy(measures=measures)).ask("recommend_replicas")
    assert [len(one.measures) for one in said.given] == ([] if kept is None else [kept])
    assert [told in failure.message and len(failure.message) < 600 for failure in said.failures] == [True] * bool(told)


@pytest.mark.slow
def test_too_large_answer_loses_pod_names_but_keeps_their_number() -> None:
    class Crowded(Strategy, tag="crowded", frozen=True):
        @hookimpl
        def recommend_replicas(self) -> Recommendation:
            left_out = LeftOut(LONG, 9, tuple("p" * 250 for _ in range(9)))
            return Recommendation(3, "Wanted", "", (Measure("cpu", "now", left_out=(left_out,) * 9),))

    (said,) = case(Crowded()).ask("recommend_replicas").given
    assert said.measures == (Measure("cpu", "now", left_out=(LeftOut(CUT, 9),) * 5),)
