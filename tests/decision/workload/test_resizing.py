"""What containers should request, and that pods are changed only when nothing is in the way."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.api import Limit, Observation, Past, Recommendation, Resources, Strategy, hookimpl
from elasticd.decision.decide import announcements, decide
from elasticd.decision.workload.asking import Case
from elasticd.decision.workload.resizing import AGAIN, largest
from elasticd.decision.workload.vetoes import FREEZE
from elasticd.kit.history import begin
from elasticd.kit.requests import VPA_UPDATES
from elasticd.model.actions import Resize
from elasticd.model.policy import Bounds, Foreign, Policy, Target
from elasticd.model.records import Decision, Sizing
from elasticd.model.workload import Container, Pod, Ref, Resized, Resizing
from elasticd.registry import Hooks
from elasticd.testing import NOW, observation

REF = Ref("default", "Deployment", "web")


class Sizes(Strategy, tag="sizes", frozen=True):
    """Says what it is told to."""

    answer: Any = None

    def reads(self) -> tuple[str, ...]:
        return ()

    @hookimpl
    def recommend_resources(self) -> Any:
        if isinstance(self.answer, str):
            raise RuntimeError(self.answer)
        return self.answer


class Counts(Strategy, tag="counts", frozen=True):
    """Wants so many."""

    replicas: int

    @hookimpl
    def recommend_replicas(self) -> Recommendation:
        return Recommendation(self.replicas, "Wanted")


class Still(Strategy, tag="still", frozen=True):
    """A limit that may forbid everything."""

    standstill: bool = True

    @hookimpl
    def limit(self, observation: Observation) -> Limit:
        return Limit("Frozen", "by a person", 2, 2, standstill=self.standstill)


def pod(name: str, **changes: Any) -> Pod:
    made = Pod("default", name, f"uid-{name}", "Running", containers=(Container("web", {"cpu": 1.0, "memory": 1e9}),))
    return replace(made, **changes)


SEEN = replace(observation([0.5, 0.5]), pods=(pod("a"), pod("b")))
GENERAL = Resources("web", {"cpu": 0.5}, {"cpu": 1.0}, reason="Histogram", message="p95")
CHANGE = Resources("web", {"cpu": 0.5}, pod="a", reason="TooMuch")
RESIZE = Resize(REF, "uid-a", "a", {"web": {"cpu": 1.0}}, {"web": {"cpu": 0.5}}, "TooMuch")


def test_pods_that_are_being_resized_are_reported_beside_the_wish() -> None:
    waiting = pod("a", resize="Deferred", resize_message="no room: cpu")
    found = decided(Sizes(answer=[GENERAL]), seen=replace(SEEN, pods=(waiting, pod("b")))).sizing
    assert found.resizing == (Resizing("a", "Deferred", "no room: cpu"),)


def decided(
    *strategies: Strategy,
    seen: Observation = SEEN,
    past: Past | None = None,
    limits: Sequence[Strategy] = (),
    **policy_keys: Any,
) -> Decision:
    target, keys = Target("default", "web"), {"mode": "act", **policy_keys}
    policy = Policy(name="p", replicas=Bounds(9), strategies=strategies, limits=tuple(limits), workload=target, **keys)
    return decide(Case(policy, seen, past or begin(NOW, 2), Hooks((*strategies, *limits))))


def test_hook_recommend_resources_is_shown_and_resizes_the_named_pods() -> None:
    found = decided(Sizes(answer=[GENERAL, CHANGE]))
    assert found.sizing == Sizing((replace(GENERAL, strategy="sizes"),), (RESIZE,))
    assert (found.verdict, found.reason, found.action) == ("keep", "CountLeftAlone", None)


def test_without_an_opinion_nothing_is_said_nor_held_against_anybody() -> None:
    found = decided(Sizes())
    assert (found.sizing, found.verdict, found.failures) == (Sizing(), "keep", ())


def test_a_policy_without_any_recommendation_is_held() -> None:
    assert decided().reason == "NoRecommendation"


@pytest.mark.parametrize(
    ("strategies", "limits", "past", "seen", "told"),
    [
        pytest.param([Counts(replicas=3)], [], {}, {}, "the count is changed first", id="while the count changes"),
        pytest.param([], [Still()], {}, {}, "Frozen: by a person", id="at a standstill"),
        pytest.param([], [Still(standstill=False)], {}, {}, "", id="a limit of the count alone"),
        pytest.param(
            [], [], {"recommends_since": NOW - AGAIN + 1}, {},
            "NoInPlaceResize: recommended only, the cluster cannot change what a running pod requests",
            id="a cluster that cannot",
        ),
        pytest.param([], [], {"recommends_since": NOW - AGAIN}, {}, "", id="a cluster that is asked again"),
    ],
)  # fmt: skip
def test_pods_are_not_resized_while_something_prevents_resizing(
    strategies: list[Strategy], limits: list[Strategy], past: dict[str, Any], seen: dict[str, Any], told: str
) -> None:
    remembered = replace(begin(NOW, 2), **past)
    found = decided(Sizes(answer=[GENERAL, CHANGE]), *strategies, limits=limits, past=remembered).sizing
    assert found.unresized == told
    assert bool(found.resizes) is not bool(told)
    assert found.resources == (replace(GENERAL, strategy="sizes"),)


@pytest.mark.parametrize(("way", "told"), [("both", "Frozen"), ("up", ""), ("down", ""), ("x", "FreezeUnreadable")])
def test_a_workload_that_is_frozen_both_ways_keeps_its_requests(way: str, told: str) -> None:
    frozen = replace(SEEN, workload=replace(SEEN.workload, annotations={FREEZE: way}))
    found = decided(Sizes(answer=[CHANGE]), seen=frozen).sizing
    assert found.unresized.partition(":")[0] == told
    assert bool(found.resizes) is not bool(told)


def resized(seconds_ago: float, by: str = "updater") -> dict[str, Any]:
    return {"resized": Resized(by, NOW - seconds_ago)}


VPA = {"annotations": {VPA_UPDATES: "Pod resources updated by theirs: container 0: cpu request"}}
LEFT_ALONE = "ForeignOwner: updater resized b; requests are left alone for 1790 s more"
OF_A_VPA = (
    "ForeignOwner: b is annotated vpaUpdates: Pod resources updated by theirs: container 0: cpu request; take that "
    "VerticalPodAutoscaler away and replace the pods, or let this policy only recommend"
)


@pytest.mark.parametrize(
    ("others", "foreign", "told"),
    [
        pytest.param({}, {}, "", id="nobody"),
        pytest.param(resized(10), {}, LEFT_ALONE, id="ten seconds ago"),
        pytest.param(resized(10, by=""), {}, LEFT_ALONE.replace("updater", "somebody else"), id="by nobody known"),
        pytest.param(resized(10, by="kubectl-edit"), {}, LEFT_ALONE.replace("updater", "kubectl-edit"), id="a person"),
        pytest.param(resized(1799), {}, LEFT_ALONE.replace("1790", "1"), id="just within the pause"),
        pytest.param(resized(1800), {}, "", id="after the pause"),
        pytest.param(resized(10), {"pause": 10.0}, "", id="after a shorter pause"),
        pytest.param(resized(10), {"strikes": 0}, "", id="never to a resize"),
        pytest.param(resized(10), {"autoscalers": "ignore"}, LEFT_ALONE, id="a resize, whatever autoscalers do"),
        pytest.param(resized(10) | {"deleted": True}, {}, LEFT_ALONE, id="of a pod that is going"),
        pytest.param(VPA, {}, OF_A_VPA, id="requests of a VPA"),
        pytest.param(VPA | {"phase": "Pending"}, {}, OF_A_VPA, id="requests of a VPA, pending"),
        pytest.param(VPA | {"deleted": True}, {}, "", id="requests of a VPA, going"),
        pytest.param(VPA | {"phase": "Failed"}, {}, "", id="requests of a VPA, failed"),
        pytest.param(VPA, {"autoscalers": "ignore"}, "", id="never to a VPA"),
        pytest.param(VPA, {"strikes": 0}, OF_A_VPA, id="to a VPA, though to no resize"),
        pytest.param(VPA | resized(10), {}, OF_A_VPA, id="both: that which lasts"),
    ],
)
def test_pods_are_left_to_who_else_resizes_them(others: dict[str, Any], foreign: dict[str, Any], told: str) -> None:
    seen = replace(SEEN, pods=(pod("a"), pod("b", **others)))
    made = decided(Sizes(answer=[GENERAL, CHANGE]), seen=seen, foreign=Foreign(**foreign))
    assert made.sizing.unresized == told
    assert made.sizing.foreign == told.removeprefix("ForeignOwner: ")
    assert made.sizing.resizes == (() if told else (RESIZE,))
    assert made.sizing.resources == (replace(GENERAL, strategy="sizes"),)


def test_the_last_of_several_foreign_resizes_counts() -> None:
    seen = replace(SEEN, pods=(pod("a", **resized(500, by="kubectl-patch")), pod("b", **resized(10))))
    assert decided(Sizes(answer=[CHANGE]), seen=seen).sizing.unresized == LEFT_ALONE


@pytest.mark.parametrize("others", [resized(10), VPA], ids=["resized", "of a VPA"])
def test_who_only_observes_says_what_it_would_resize(others: dict[str, Any]) -> None:
    found = decided(Sizes(answer=[CHANGE]), seen=replace(SEEN, pods=(pod("a", **others),)), mode="observe").sizing
    assert (found.resizes, found.foreign) == ((RESIZE,), "")


def test_without_a_wish_it_is_not_said_who_else_resizes() -> None:
    assert decided(Sizes(answer=[GENERAL]), seen=replace(SEEN, pods=(pod("a", **VPA),))).sizing.foreign == ""


def test_that_others_resize_is_announced_once() -> None:
    seen = replace(SEEN, pods=(pod("a"), pod("b", **resized(10))))
    found = decided(Sizes(answer=[CHANGE]), seen=seen)
    (told,) = announcements(found, decided(Sizes(answer=[CHANGE])))
    assert (told.workload, told.uid, told.reason, told.warning) == (REF, found.uid, "ForeignOwner", True)
    assert told.message == found.sizing.foreign
    assert announcements(found, found) == ()
    scaled = decided(Sizes(answer=[CHANGE]), Counts(replicas=3), seen=seen)
    assert (scaled.verdict, announcements(found, scaled)) == ("scale", ())
    (at_first,) = announcements(found, None)
    assert at_first == told
    held = replace(found, verdict="hold", reason="Frozen", conditions=())
    assert [each.reason for each in announcements(held, None)] == ["ForeignOwner"]


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param({"fault": ("InvalidSelector", "no")}, id="a selector that cannot be read"),
        pytest.param({"confirmed": NOW - 600}, id="an old view"),
    ],
)
def test_nobody_is_asked_about_what_cannot_be_acted_on(seen: dict[str, Any]) -> None:
    assert decided(Sizes(answer=[GENERAL, CHANGE]), seen=replace(SEEN, **seen)).sizing == Sizing()


@pytest.mark.parametrize(
    ("pods", "told"),
    [
        pytest.param([pod("a", phase="Pending")], "a is not running", id="pending"),
        pytest.param([pod("a", deleted=True)], "a is being deleted", id="going"),
        pytest.param([pod("b")], "", id="not there any more"),
        pytest.param([pod("a", containers=(Container("web", {"cpu": 0.5}),))], "", id="as it should be"),
    ],
)
def test_a_pod_that_cannot_be_changed_is_not(pods: list[Pod], told: str) -> None:
    found = decided(Sizes(answer=[GENERAL, CHANGE]), seen=replace(SEEN, pods=tuple(pods))).sizing
    assert (found.resizes, found.unresized) == ((), told)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        pytest.param("oh", "raised RuntimeError: oh", id="raises"),
        pytest.param(5, "must be a sequence of Resources", id="a number"),
        pytest.param([5], "must be a sequence of Resources", id="a list of numbers"),
        pytest.param([Resources("web", {"cpu": float("nan")})], "finite amounts >= 0", id="no number"),
        pytest.param([Resources("web", {"cpu": -1.0})], "finite amounts >= 0", id="less than nothing"),
        pytest.param([Resources("web", {}, {"cpu": float("inf")})], "finite amounts >= 0", id="without end"),
    ],
)
def test_nonsense_changes_nothing_and_is_reported_by_name(answer: Any, told: str) -> None:
    found = decided(Sizes(answer=answer))
    assert found.sizing == Sizing(unresized="a plugin failed")
    assert found.failures[0].plugin == "sizes"
    assert told in found.failures[0].message


def test_a_limit_that_fails_might_have_forbidden_it() -> None:
    class Fails(Strategy, tag="fails", frozen=True):
        @hookimpl
        def limit(self) -> Limit:
            raise RuntimeError("oh")

    found = decided(Sizes(answer=[CHANGE]), limits=[Fails()]).sizing
    assert (found.resizes, found.unresized) == ((), "fails: limit raised RuntimeError: oh")


def test_of_several_opinions_the_largest_counts_for_each_resource() -> None:
    more = Resources("web", {"cpu": 0.2, "memory": 5.0}, {"memory": 1.0}, strategy="b")
    less = Resources("web", {"cpu": 0.5, "memory": 4.0}, {"cpu": 1.0}, strategy="a")
    expected = [replace(less, requests={"cpu": 0.5, "memory": 5.0}, present={"cpu": 1.0, "memory": 1.0})]
    assert largest([more, less]) == largest([less, more]) == expected
