"""Which pods go first when a count falls, and that nothing is left behind."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elasticd.api import Mark, Observation, Recommendation, Strategy, hookimpl
from elasticd.decision.decide import decide
from elasticd.decision.workload.asking import Case
from elasticd.decision.workload.victims import VICTIM, Ranks, choice, chosen, leftover
from elasticd.kit.history import begin
from elasticd.model.policy import Bounds, Policy, Target
from elasticd.model.workload import COST, Pod, Rank, Ref, Workload
from elasticd.registry import Hooks
from elasticd.testing import observation

REF = Ref("default", "Deployment", "web")


def pod(name: str, **changes: Any) -> Pod:
    return replace(Pod("default", name, f"uid-{name}", "Running", node="n", ready=True), **changes)


def marked(name: str, cost: str = "-5", **changes: Any) -> Pod:
    return pod(name, annotations={COST: cost, VICTIM: "p"}, **changes)


def web(replicas: int, status: int | None = None, kind: str = "Deployment") -> Workload:
    return Workload(replace(REF, kind=kind), "uid", "1", replicas, replicas if status is None else status)


def ranked(*ranks: Mapping[str, float]) -> Ranks:
    """As judgement puts them together."""
    return {f"r{index}": {name: Rank(value) for name, value in rank.items()} for index, rank in enumerate(ranks)}


PODS = [pod("a"), pod("b"), pod("c"), pod("d")]


@pytest.mark.parametrize(
    ("pods", "ranks", "spare", "names"),
    [
        pytest.param(PODS, [], 2, "", id="nobody ranks"),
        pytest.param(PODS, [{}], 2, "ab", id="all alike go by name"),
        pytest.param(PODS, [{"a": 3, "b": 1, "c": 2, "d": 4}], 2, "bc", id="the lowest first"),
        pytest.param(PODS, [{"a": 1, "b": 1}, {"a": 5, "c": -1}], 3, "cdb", id="then the second"),
        pytest.param(PODS, [{"a": -1}], 9, "abcd", id="never more than there are"),
        pytest.param([pod("a"), pod("b", ready=False)], [{"a": -1}], 1, "b", id="not ready goes before any cost"),
        pytest.param([pod("a", ready=False), pod("b", phase="Pending")], [{"a": -1}], 1, "b", id="pending before that"),
        pytest.param([pod("a", phase="Pending"), pod("b", node="")], [{"a": -1}], 1, "b", id="unassigned before all"),
        pytest.param([pod("a", deleted=True), pod("b")], [{"a": -1}], 1, "b", id="one that goes already"),
        pytest.param([pod("a", phase="Failed"), pod("b")], [{"a": -1}], 1, "b", id="an evicted pod is none to spare"),
        pytest.param([pod("a", annotations={COST: "-9"}), pod("b")], [{}], 2, "b", id="not with a cost of another"),
        pytest.param([marked("a"), pod("b")], [{"b": -1}], 1, "b", id="one chosen before may be spared again"),
    ],
)
def test_the_pods_that_go_first(
    pods: Sequence[Pod], ranks: Sequence[Mapping[str, float]], spare: int, names: str
) -> None:
    assert "".join(one.name for one in chosen(web(4), pods, ranked(*ranks), spare)) == names


@pytest.mark.parametrize(("kind", "heeds"), [("Deployment", True), ("ReplicaSet", True), ("StatefulSet", False)])
def test_nothing_is_chosen_where_nobody_would_heed_it(kind: str, heeds: bool) -> None:
    assert bool(chosen(web(4, kind=kind), PODS, ranked({"a": 1.0}), 1)) is heeds


def test_first_victim_has_the_lowest_cost_of_all_pods() -> None:
    marks = choice(REF, "p", PODS[:2], PODS)
    costs = [int(mark.annotations[COST] or 0) for mark in marks]
    assert [mark.pod for mark in marks] == ["a", "b"]
    assert costs == sorted(costs)
    assert max(costs) < -100_000
    assert {mark.annotations[VICTIM] for mark in marks} == {"p"}
    assert [mark.uid for mark in marks] == ["uid-a", "uid-b"]


def test_correct_marks_are_not_rewritten_and_needless_ones_are_cleared() -> None:
    (first,) = choice(REF, "p", [PODS[0]], PODS)
    again = replace(PODS[0], annotations={key: value or "" for key, value in first.annotations.items()})
    assert choice(REF, "p", [again], [again, marked("b")]) == (
        Mark(REF, "uid-b", {COST: None, VICTIM: None}, "b", "need not go"),
    )


@pytest.mark.parametrize(
    ("workload", "pods", "cleared"),
    [
        pytest.param(web(2), (marked("a"), pod("b")), "a", id="a crash came between mark and scale"),
        pytest.param(web(1, status=2), (marked("a"), pod("b")), "", id="its controller has one to spare still"),
        pytest.param(web(1), (marked("a"), pod("b")), "", id="its controller has not counted yet"),
        pytest.param(web(1), (marked("a", deleted=True), pod("b")), "", id="it goes"),
        pytest.param(web(1), (pod("b"), marked("c", phase="Failed")), "c", id="what has ended is none to spare"),
        pytest.param(web(2), (pod("a", annotations={COST: "-9"}), pod("b")), "", id="somebody else's"),
        pytest.param(web(2), (pod("a"), pod("b")), "", id="nothing was marked"),
    ],
)
def test_costs_are_taken_away_when_nothing_is_to_spare(workload: Workload, pods: tuple[Pod, ...], cleared: str) -> None:
    assert "".join(mark.pod for mark in leftover(workload, pods)) == cleared


class Ranking(Strategy, tag="ranks", frozen=True):
    """Wants a count, and ranks pods."""

    replicas: int = 2
    answer: Any = None

    @hookimpl
    def recommend_replicas(self) -> Recommendation:
        return Recommendation(self.replicas, "Wanted")

    @hookimpl
    def rank_pods(self) -> Any:
        return self.answer


class Alike(Ranking, tag="alike", frozen=True):
    """Another, first by name."""


def case(*voices: Strategy, seen: Observation | None = None, most: int = 10) -> Case:
    shown = seen or replace(
        observation([0.5] * 4), workload=replace(observation([0.5] * 4).workload, status_replicas=4)
    )
    target = Target("default", "web")
    policy = Policy(name="p", replicas=Bounds(most), strategies=voices, workload=target, mode="act")
    return Case(policy, shown, begin(shown.at, 4), Hooks(voices))


def test_hook_rank_pods_marks_pods_that_go_first_before_scaling() -> None:
    decision = decide(case(Ranking(answer={"web-3": -1, "web-1": -2})))
    assert decision.action is not None
    assert [mark.pod for mark in decision.marks] == ["web-1", "web-3"]


def test_hook_rank_pods_may_give_reasons_that_explain_shows() -> None:
    why = Rank(-2.5, "idle")
    decision = decide(case(Ranking(answer={"web-3": why, "web-1": -3}), Alike(answer={"web-3": -1})))
    assert [(mark.pod, mark.reason) for mark in decision.marks] == [
        ("web-3", "goes as number 1: alike -1; ranks -2.5 (idle)"),
        ("web-1", "goes as number 2: alike 0; ranks -3"),
    ]


class Told(Strategy, tag="told", frozen=True):
    """Lets the pod go that has the number of the count it is told."""

    @hookimpl
    def rank_pods(self, replicas: int) -> Mapping[str, float]:
        return {f"web-{replicas}": -1}


def test_hook_rank_pods_knows_what_the_count_falls_to() -> None:
    assert [mark.pod for mark in decide(case(Ranking(replicas=3), Told())).marks] == ["web-3"]


def test_hook_rank_pods_of_the_highest_priority_goes_first() -> None:
    low, high = Ranking(answer={"web-0": -1}), Alike(answer={"web-2": -1}, priority=1)
    assert [mark.pod for mark in decide(case(low, high)).marks] == ["web-2", "web-0"]
    low, high = Ranking(answer={"web-0": -1}, priority=1), Alike(answer={"web-2": -1})
    assert [mark.pod for mark in decide(case(high, low)).marks] == ["web-0", "web-2"]


@pytest.mark.parametrize("wish", [4, 6])
def test_nobody_is_ranked_when_the_count_does_not_fall(wish: int) -> None:
    assert decide(case(Ranking(replicas=wish, answer=RuntimeError))).marks == ()


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"confirmed": 1.0}, id="the view is old"),
        pytest.param({"fault": ("AmbiguousSelector", "its pods are another's too")}, id="its pods may be another's"),
    ],
)
@pytest.mark.parametrize("most", [10, 3], ids=["nothing to spare", "one above the bounds"])
def test_no_pod_is_marked_when_the_view_allows_no_action(changes: dict[str, Any], most: int) -> None:
    seen = observation([0.5] * 4)
    first, *others = seen.pods
    left = replace(first, annotations={COST: "-1000000", VICTIM: "p"})
    seen = replace(seen, pods=(left, *others), **changes)
    assert decide(case(Ranking(answer={"web-3": -1}), seen=seen, most=most)).marks == ()


def test_two_falls_before_a_pod_has_gone_choose_for_both() -> None:
    seen = observation([0.5] * 4, replicas=3)  # its controller has not yet deleted the first
    first, *others = seen.pods
    seen = replace(seen, pods=(replace(first, annotations={COST: "-1000000", VICTIM: "p"}), *others))
    decision = decide(case(Ranking(answer={"web-0": -2, "web-3": -1}), seen=seen))
    assert (decision.current, decision.replicas) == (3, 2)
    assert [(mark.pod, mark.annotations[COST]) for mark in decision.marks] == [("web-3", "-999999")]


def test_surge_pods_of_a_rollout_are_not_spare_pods() -> None:
    seen = observation([0.5] * 4, replicas=3)
    assert [mark.pod for mark in decide(case(Ranking(answer={"web-3": -1}), seen=seen)).marks] == ["web-3"]


def test_pods_above_the_bounds_go_in_order_too() -> None:
    decision = decide(case(Ranking(answer={"web-2": -1}), most=3))
    assert (decision.replicas, [mark.pod for mark in decision.marks]) == (3, ["web-2"])


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(7, id="a-number"),
        pytest.param({"web-0": float("nan")}, id="NaN"),
        pytest.param({"web-0": float("inf")}, id="infinite"),
        pytest.param({"web-0": "first"}, id="a-word"),
        pytest.param({"web-0": True}, id="a-boolean"),
        pytest.param({5: 1.0}, id="a-pod-that-is-no-name"),
    ],
)
def test_invalid_rank_holds_the_count_and_marks_no_pods(answer: Any) -> None:
    decision = decide(case(Ranking(answer=answer)))
    assert (decision.verdict, decision.replicas, decision.reason) == ("hold", 4, "PluginFailed")
    assert decision.marks == ()
    assert decision.wish == 2
    assert "rank_pods" in decision.message


@given(
    st.lists(st.tuples(st.floats(-5, 5), st.booleans(), st.booleans()), max_size=8),
    st.integers(0, 8),
    st.integers(0, 3),
)
def test_whoever_is_spared_is_worth_no_less_than_whoever_goes(
    given_: list[tuple[float, bool, bool]], spare: int, replicas: int
) -> None:
    pods = [pod(f"p{index}", ready=ready, deleted=gone) for index, (_, ready, gone) in enumerate(given_)]
    rank = {f"p{index}": value for index, (value, _, _) in enumerate(given_)}
    first = chosen(web(replicas), pods, ranked(rank), spare)
    live = [one for one in pods if not one.deleted]
    assert len(first) == min(spare, len(live))
    worth = {one.name: (one.ready is True, rank[one.name]) for one in live}
    kept = [worth[one.name] for one in live if one not in first]
    if kept and first:
        assert max(worth[one.name] for one in first) <= min(kept)
