"""What a workload's observation is cut from: pods, the first source that has samples, and faults."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from elasticd.decision.observe import fingerprint, observe, on_nodes, series_of
from elasticd.model.placement import DisruptionBudget
from elasticd.model.policy import Bounds, Policy, Trust
from elasticd.model.volumes import Storage
from elasticd.model.workload import (
    BulkLookup,
    Node,
    Pod,
    Quality,
    Readings,
    Ref,
    Room,
    Sample,
    Series,
    Workload,
    one_by_one,
)

NOW = 1000.0
REF = Ref("shop", "Deployment", "web")
WORKLOAD = Workload(REF, "uid", "1", 2)
POLICY = Policy(name="p", replicas=Bounds(10), strategies=())


class View(Struct):
    """A snapshot of one workload."""

    seen: tuple[Pod, ...] = ()
    fault: str = ""
    confirmed: float = NOW
    version: int = 1
    other: str = ""

    def pods(self, workload: Workload) -> tuple[Pod, ...]:
        return self.seen

    def confirmed_for(self, ref: Ref) -> float:
        return self.confirmed

    def changes_since(self, earlier: object) -> None:
        return None

    def selector_fault(self, workload: Workload) -> str:
        return self.fault

    def workloads(self) -> Collection[Workload]:
        return (WORKLOAD,)

    def workload(self, ref: Ref) -> Workload | None:
        return WORKLOAD

    def nodes(self) -> tuple[Node, ...]:
        return ()

    def rooms(self) -> tuple[Room, ...]:
        return ()

    def autoscaler(self, ref: Ref) -> str:
        return self.other

    nodes_confirmed: float = NOW

    def pending(self) -> tuple[Pod, ...]:
        return ()

    def on_nodes(self) -> Mapping[str, Sequence[Pod]]:
        return {}

    def budgets(self) -> tuple[DisruptionBudget, ...]:
        return ()

    def namespaces(self) -> Mapping[str, Mapping[str, str]]:
        return {}

    def storage(self) -> Storage:
        return Storage()


def pod(name: str, phase: str = "Running", deleted: bool = False) -> Pod:
    return Pod("shop", name, f"uid-{name}", phase, deleted=deleted)


def use(value: float, name: str = "") -> tuple[Sample, ...]:
    return (Sample(value, NOW, NOW, pod=name),)


PODS = (pod("a"), pod("b"))
BY_POD = Readings("first", NOW, pods={"cpu": {"shop/a": use(1, "a"), "shop/b": use(2, "b"), "else/a": use(9, "a")}})
BY_WORKLOAD = Readings("second", NOW, workloads={"cpu": {str(REF): use(5)}, "queue": {str(REF): use(7)}})
OF_OTHERS = Readings("others", NOW, pods={"cpu": {"else/a": use(9, "a")}}, workloads={"queue": {}})
STALE = Readings("stale", NOW, workloads={"cpu": {str(REF): (Sample(5, NOW - 500, NOW),)}})
FAULTY = Readings("faulty", NOW, workloads={"queue": {str(REF): use(3)}}, faults={"cpu": "bad query"})
ELSEWHERE = Readings("elsewhere", NOW, error="refused", offers=("queue",))
DOWN = Readings("down", NOW, error="connection refused")


@pytest.mark.parametrize(
    ("readings", "name", "source", "quality", "values"),
    [
        pytest.param([BY_POD], "cpu", "first", Quality.FRESH, [1, 2], id="of-its-own-pods"),
        pytest.param([BY_POD, BY_WORKLOAD], "cpu", "first", Quality.FRESH, [1, 2], id="the-first-source-wins"),
        pytest.param([BY_WORKLOAD, BY_POD], "cpu", "second", Quality.FRESH, [5], id="whichever-it-is"),
        pytest.param(
            [OF_OTHERS, BY_WORKLOAD], "cpu", "second", Quality.FRESH, [5], id="not-one-that-knows-only-others"
        ),
        pytest.param([STALE, BY_POD], "cpu", "first", Quality.FRESH, [1, 2], id="one-that-is-stale-is-passed-over"),
        pytest.param([STALE, DOWN], "cpu", "stale", Quality.STALE, [], id="stale-is-more-than-nothing"),
        pytest.param([FAULTY, BY_POD], "cpu", "first", Quality.FRESH, [1, 2], id="a-fault-of-this-series"),
        pytest.param([FAULTY], "cpu", "faulty", Quality.ERROR, [], id="told-when-nobody-else-has-it"),
        pytest.param([FAULTY], "queue", "faulty", Quality.FRESH, [3], id="a-fault-of-another-series"),
        pytest.param([OF_OTHERS], "queue", "others", Quality.EMPTY, [], id="known-but-not-of-this-workload"),
        pytest.param([DOWN, BY_POD], "cpu", "first", Quality.FRESH, [1, 2], id="a-source-in-trouble-is-passed-over"),
        pytest.param([DOWN, BY_POD], "queue", "down", Quality.ERROR, [], id="trouble-is-told-when-nobody-has-it"),
        pytest.param([BY_POD], "queue", "", Quality.ERROR, [], id="nobody-knows-it"),
    ],
)
def test_series_comes_from_the_first_source_with_samples(
    readings: list[Readings], name: str, source: str, quality: Quality, values: list[float]
) -> None:
    series = observe(POLICY, WORKLOAD, View(PODS), readings, frozenset({name}), NOW).series[name]
    assert (series.source, series.quality, [one.value for one in series.samples]) == (source, quality, values)


@pytest.mark.parametrize(
    ("readings", "message"),
    [
        pytest.param([BY_POD, DOWN], "", id="the-first-is-good"),
        pytest.param([DOWN, BY_POD], "not down error: connection refused", id="one-is-down"),
        pytest.param([ELSEWHERE, BY_POD], "", id="one-is-down-that-has-no-such-series"),
        pytest.param(
            [STALE, DOWN, BY_POD],
            "not stale stale: 1 of 1 samples are up to 500 s old, at most 120 s; down error: connection refused",
            id="two-are-passed-over",
        ),
        pytest.param(
            [OF_OTHERS, DOWN], "no sample; not down error: connection refused", id="none-is-good-and-all-are-told"
        ),
    ],
)
def test_series_tells_which_sources_were_skipped_and_why(readings: list[Readings], message: str) -> None:
    assert observe(POLICY, WORKLOAD, View(PODS), readings, frozenset({"cpu"}), NOW).series["cpu"].message == message


@pytest.mark.parametrize(
    ("readings", "quality", "values"),
    [
        pytest.param([OF_OTHERS], Quality.FRESH, [0.0], id="the-source-answered"),
        pytest.param([DOWN], Quality.ERROR, [], id="it-did-not"),
        pytest.param([STALE], Quality.ERROR, [], id="it-has-no-such-series"),
        pytest.param([replace(OF_OTHERS, faults={"queue": "timeout"})], Quality.EMPTY, [], id="its-answer-is-at-fault"),
        pytest.param([BY_WORKLOAD], Quality.FRESH, [7], id="there-is-one"),
    ],
)
def test_empty_is_zero_only_where_it_is_written(
    readings: list[Readings], quality: Quality, values: list[float]
) -> None:
    policy = replace(POLICY, trust=Trust(zero_when_empty=("queue",)))
    series = observe(policy, WORKLOAD, View(PODS), readings, frozenset({"queue"}), NOW).series["queue"]
    assert (series.quality, [one.value for one in series.samples]) == (quality, values)
    assert series.presumed is (values == [0.0])


def test_untrusted_series_may_scale_up_only_if_the_policy_allows() -> None:
    third = replace(pod("c"), started=NOW - 600)
    for trust, usable in ((Trust(coverage=1.0), False), (Trust(coverage=1.0, unknown="up-only"), True)):
        policy = replace(POLICY, trust=trust)
        series = observe(policy, WORKLOAD, View((*PODS, third)), [BY_POD], None, NOW).series["cpu"]
        assert (series.quality, series.trusted, series.usable) == (Quality.PARTIAL, False, usable)


DOUBTFUL = Readings(
    "doubtful", NOW, workloads={"cpu": {str(REF): use(5)}, "queue": {}}, doubts={"cpu": "was down", "queue": "was down"}
)


@pytest.mark.parametrize(
    ("readings", "name", "source", "quality", "usable"),
    [
        pytest.param([DOUBTFUL], "cpu", "doubtful", Quality.INVALID, True, id="it may raise a count"),
        pytest.param([replace(BY_POD, doubts={"cpu": "x"})], "cpu", "first", Quality.INVALID, True, id="one of pods"),
        pytest.param([replace(BY_POD, doubts={"queue": "x"})], "cpu", "first", Quality.FRESH, True, id="another is"),
        pytest.param(
            [replace(BY_WORKLOAD, doubted_workloads={str(REF): "low"})],
            "cpu",
            "second",
            Quality.INVALID,
            True,
            id="all of the workload",
        ),
        pytest.param(
            [replace(BY_POD, doubted_workloads={"shop/Deployment/other": "x"})],
            "cpu",
            "first",
            Quality.FRESH,
            True,
            id="all of another workload",
        ),
        pytest.param([DOUBTFUL, BY_POD], "cpu", "first", Quality.FRESH, True, id="another source is not"),
        pytest.param([DOUBTFUL], "queue", "doubtful", Quality.INVALID, False, id="none is not zero"),
        pytest.param([replace(DOWN, doubts={"cpu": "x"})], "cpu", "down", Quality.ERROR, False, id="it is down"),
    ],
)
def test_a_doubted_series_lowers_no_count(
    readings: list[Readings], name: str, source: str, quality: Quality, usable: bool
) -> None:
    policy = replace(POLICY, trust=Trust(zero_when_empty=("queue",)))
    series = observe(policy, WORKLOAD, View(PODS), readings, frozenset({name}), NOW).series[name]
    assert (series.source, series.quality, series.usable) == (source, quality, usable)
    assert series.trusted is (quality is Quality.FRESH)
    why = readings[0].doubts.get(name) or readings[0].doubted_workloads.get(str(REF), "")
    assert quality is not Quality.INVALID or (why and why in series.message)


@pytest.mark.parametrize(
    ("kind", "counted", "pods", "doubted"),
    [
        pytest.param("Deployment", 2, PODS, False, id="all are shown"),
        pytest.param("Deployment", 3, PODS, True, id="one is not"),
        pytest.param("StatefulSet", 3, PODS, True, id="one of a StatefulSet is not"),
        pytest.param("ReplicaSet", 3, PODS, True, id="one of a ReplicaSet is not"),
        pytest.param("Deployment", 1, PODS, False, id="it has yet to count one"),
        pytest.param("Deployment", 2, (*PODS, pod("c", deleted=True)), False, id="one terminates"),
        pytest.param("Deployment", 3, (*PODS, pod("c", deleted=True)), True, id="it counts none that terminates"),
        pytest.param("StatefulSet", 3, (*PODS, pod("c", deleted=True)), False, id="a StatefulSet counts those too"),
        pytest.param("Deployment", 3, (*PODS, pod("c", phase="Failed")), True, id="it counts none that has failed"),
        pytest.param("StatefulSet", 3, (*PODS, pod("c", phase="Failed")), False, id="a StatefulSet counts it"),
        pytest.param("Deployment", 20, (*PODS, *map(pod, "cdefghijklmnopqrs")), False, id="one of twenty is not"),
        pytest.param("Deployment", 20, (*PODS, *map(pod, "cdefghijklmnopqr")), True, id="two of twenty are not"),
        pytest.param("Rollout", 3, PODS, False, id="a kind of others, which may count something else"),
    ],
)
def test_pods_that_the_watch_lacks_lower_no_count(
    kind: str, counted: int, pods: tuple[Pod, ...], doubted: bool
) -> None:
    """The watch of pods may be silent while that of workloads is not. What is no series of pods needs none."""
    workload = replace(WORKLOAD, ref=replace(REF, kind=kind), replicas=counted, status_replicas=counted)
    table = {f"shop/{one.name}": use(1, one.name) for one in pods if one.phase == "Running" and not one.deleted}
    readings = [Readings("s", NOW, pods={"cpu": table}, workloads={"queue": {str(workload.ref): use(7)}})]
    series = observe(POLICY, workload, View(pods), readings, None, NOW).series
    assert (series["cpu"].trusted, series["cpu"].usable, series["cpu"].unseen) == (not doubted, True, doubted)
    told = f"of {counted} pods that its controller counts, the watch of pods shows "
    assert (told in series["cpu"].message) is doubted
    assert series["queue"].quality is Quality.FRESH


@pytest.mark.parametrize(("counted", "trusted"), [(16, False), (0, True)], ids=["none is shown", "there is none"])
def test_no_pod_that_is_shown_is_no_load_of_zero(counted: int, trusted: bool) -> None:
    """Of a workload that has just woken while the watch of pods is silent."""
    policy = replace(POLICY, trust=Trust(zero_when_empty=("rps",)))
    workload = replace(WORKLOAD, replicas=16, status_replicas=counted)
    readings = [Readings("s", NOW, pods={"rps": {"shop/a": use(9, "a")}})]
    series = observe(policy, workload, View(()), readings, None, NOW).series["rps"]
    assert (series.presumed, series.trusted) == (True, trusted)


@pytest.mark.parametrize(
    ("other", "partial"),
    [
        pytest.param(pod("x", phase="Failed"), True, id="one that was evicted by its kubelet, and stays"),
        pytest.param(pod("x", phase="Pending"), True, id="one under the name of the one before"),
        pytest.param(pod("x"), False, id="one that runs"),
    ],
)
def test_what_others_used_makes_up_for_no_pod(other: Pod, partial: bool) -> None:
    """There is no sample yet of a pod that has just replaced one."""
    of = (*PODS, other) if partial else (PODS[0], other)
    table = {f"shop/{name}": use(1, name) for name in ("a", "x")}
    series = observe(POLICY, WORKLOAD, View(of), [Readings("s", NOW, pods={"cpu": table})], None, NOW).series["cpu"]
    assert series.quality is (Quality.PARTIAL if partial else Quality.FRESH)
    assert [one.pod for one in series.samples] == (["a"] if other.phase == "Failed" else ["a", "x"])


@pytest.mark.parametrize(("then", "doubted"), [(4, True), (15, True), (16, False), (20, False)])
def test_a_value_from_before_a_growth_lowers_no_count(then: int, doubted: bool) -> None:
    """All watches have been silent until now, and the value was made of the pods that were known."""
    workload = replace(WORKLOAD, replicas=16, status_replicas=16)
    all_pods = tuple(pod(f"p{number}") for number in range(16))
    reading = Readings("s", NOW, workloads={"queue": {str(REF): use(7)}}, counted={str(REF): then})
    series = observe(POLICY, workload, View(all_pods), [reading], None, NOW).series["queue"]
    assert (series.trusted, series.unseen) == (not doubted, doubted)


def test_pods_that_two_do_not_see_are_told_once() -> None:
    """Their series is not lost for that."""
    workload = replace(WORKLOAD, replicas=3, status_replicas=3)
    table = {f"shop/{one.name}": use(1, one.name) for one in PODS}
    readings = [Readings("s", NOW, pods={"cpu": table}, doubted_workloads={str(REF): "it says so"})]
    series = observe(POLICY, workload, View(PODS), readings, None, NOW).series["cpu"]
    assert (series.trusted, series.unseen, series.message) == (False, True, "it says so")


def test_pods_that_are_to_go_are_not_missed() -> None:
    """The count has fallen, and its controller has yet to count those that are gone."""
    workload = replace(WORKLOAD, replicas=2, status_replicas=10)
    table = {f"shop/{one.name}": use(1, one.name) for one in PODS}
    series = observe(POLICY, workload, View(PODS), [Readings("s", NOW, pods={"cpu": table})], None, NOW).series
    assert series["cpu"].quality is Quality.FRESH


def test_just_started_pods_without_samples_do_not_reduce_trust() -> None:
    old = tuple(replace(one, started=NOW - 600) for one in PODS)
    new = tuple(replace(pod(name), started=NOW - 5) for name in "cdefg")
    series = observe(POLICY, WORKLOAD, View((*old, *new)), [BY_POD], None, NOW).series["cpu"]
    assert (series.quality, series.trusted) == (Quality.PARTIAL, True)
    late = tuple(replace(one, started=NOW - 600) for one in new)
    assert not observe(POLICY, WORKLOAD, View((*old, *late)), [BY_POD], None, NOW).series["cpu"].trusted


def test_samples_of_pods_lacking_a_container_are_kept_apart() -> None:
    """One of two pods is whole: for its pods the series is a part, for the container it is known of both."""
    parts = {"cpu": {"shop/b": (Sample(2.0, NOW, NOW, 0.0, "b", "web"),)}}
    said = Readings("first", NOW, pods={"cpu": {"shop/a": use(1, "a")}}, parts=parts)
    for coverage, trusted in ((0.5, True), (1.0, False)):
        policy = replace(POLICY, trust=Trust(coverage=coverage))
        settled = tuple(replace(one, started=NOW - 600) for one in PODS)
        series = observe(policy, WORKLOAD, View(settled), [said], None, NOW).series["cpu"]
        assert ([one.pod for one in series.samples], series.trusted) == (["a"], trusted)
        assert [one.pod for one in series.apart] == ["b"]
        alone = series.of_container("web")
        assert ([one.pod for one in alone.samples], alone.trusted) == (["a", "b"], True)
        assert series.of_container("log") is series


def test_garbage_from_a_just_started_pod_reduces_trust() -> None:
    """Somebody measured it, and nobody knows what."""
    new = tuple(replace(one, started=NOW - 5) for one in PODS)
    garbage = Readings("first", NOW, pods={"cpu": {"shop/a": use(1, "a"), "shop/b": use(float("nan"), "b")}})
    for coverage, trusted in ((0.5, True), (0.6, False)):
        policy = replace(POLICY, trust=Trust(coverage=coverage))
        assert observe(policy, WORKLOAD, View(new), [garbage], None, NOW).series["cpu"].trusted is trusted


def test_trouble_is_reported_in_the_sources_words() -> None:
    seen = observe(POLICY, WORKLOAD, View(PODS), [DOWN], frozenset({"cpu"}), NOW)
    assert seen.series["cpu"].message == "connection refused"
    nobody = observe(POLICY, WORKLOAD, View(PODS), [BY_POD], frozenset({"qps"}), NOW)
    assert nobody.series["qps"].message == 'no source has a series "qps"'


def test_only_requested_series_are_cut_out_or_all_by_default() -> None:
    readings = [BY_POD, BY_WORKLOAD]
    assert list(observe(POLICY, WORKLOAD, View(PODS), readings, frozenset(), NOW).series) == []
    assert list(observe(POLICY, WORKLOAD, View(PODS), readings, None, NOW).series) == ["cpu", "queue"]


@pytest.mark.parametrize(
    ("third", "quality"),
    [
        pytest.param(pod("c"), Quality.PARTIAL, id="running"),
        pytest.param(pod("c", "Pending"), Quality.FRESH, id="pending"),
        pytest.param(pod("c", "Succeeded"), Quality.FRESH, id="ended"),
        pytest.param(pod("c", deleted=True), Quality.FRESH, id="being-deleted"),
    ],
)
def test_a_sample_is_expected_of_every_running_pod(third: Pod, quality: Quality) -> None:
    seen = observe(POLICY, WORKLOAD, View((*PODS, third)), [BY_POD], None, NOW)
    assert seen.series["cpu"].quality is quality


def test_a_selector_that_cannot_be_read_is_a_fault() -> None:
    assert observe(POLICY, WORKLOAD, View(fault="bad"), [], None, NOW).fault == ("InvalidSelector", "bad")
    assert observe(POLICY, WORKLOAD, View(), [], None, NOW).fault == ("", "")


def test_time_and_confirmation_come_along() -> None:
    seen = observe(POLICY, WORKLOAD, View(PODS, confirmed=990.0), [], None, NOW)
    assert (seen.at, seen.confirmed, seen.pods) == (NOW, 990.0, PODS)


def test_fingerprint_changes_with_samples_and_objects_but_not_the_clock() -> None:
    seen = observe(POLICY, WORKLOAD, View(PODS), [BY_POD], None, NOW)
    mark = fingerprint(seen)
    later = tuple(replace(one, measured=NOW + 1) for one in seen.series["cpu"].samples)
    assert fingerprint(replace(seen, at=NOW + 30, confirmed=NOW + 30)) == mark
    newer = replace(seen.series["cpu"], samples=later, measured=NOW + 1)
    for moved in (
        replace(seen, series={"cpu": newer}),
        replace(seen, workload=replace(WORKLOAD, version="2")),
        replace(seen, pods=(*PODS, pod("c"))),
        replace(seen, fault=("InvalidSelector", "bad")),
    ):
        assert fingerprint(moved) != mark


def test_fingerprint_changes_when_only_an_older_sample_is_renewed() -> None:
    """Pods are measured one by one: the newest says nothing of the others."""
    seen = observe(POLICY, WORKLOAD, View(PODS), [BY_POD], None, NOW)
    (first, second), series = seen.series["cpu"].samples, seen.series["cpu"]
    lagging = replace(seen, series={"cpu": replace(series, samples=(replace(first, measured=NOW - 60), second))})
    caught_up = replace(seen, series={"cpu": replace(series, samples=(replace(first, measured=NOW - 1), second))})
    assert lagging.series["cpu"].measured == caught_up.series["cpu"].measured
    assert fingerprint(lagging) != fingerprint(caught_up)


def test_a_fingerprint_outlives_the_pods_it_was_taken_of() -> None:
    """An identity would not: a new tuple may come to lie where the old one was."""
    view = View((pod("a"), pod("b")))
    mark = fingerprint(observe(POLICY, WORKLOAD, view, [], None, NOW))
    for _ in range(100):
        view.seen = (pod("a"), pod("c"))
        assert fingerprint(observe(POLICY, WORKLOAD, view, [], None, NOW)) != mark


DEPLOYED = Readings("sensors", NOW, workloads={"queue": {"shop/Deployment/other": use(1)}}, complete=False)


@pytest.mark.parametrize(
    ("readings", "values"),
    [
        pytest.param([DEPLOYED], [], id="a-sensor-that-is-silent-does-not-measure-0"),
        pytest.param([DEPLOYED, BY_WORKLOAD], [7], id="while-another-source-knows-more"),
        pytest.param([DEPLOYED, OF_OTHERS], [0.0], id="when-one-that-knows-all-there-is-has-none-either"),
        pytest.param([OF_OTHERS, DOWN], [], id="while-another-cannot-be-asked"),
        pytest.param([replace(OF_OTHERS, received=NOW - 500)], [], id="when-it-was-answered-too-long-ago"),
    ],
)
def test_empty_is_zero_only_after_recent_answers_of_all_sources(readings: list[Readings], values: list[float]) -> None:
    policy = replace(POLICY, trust=Trust(zero_when_empty=("queue",)))
    series = observe(policy, WORKLOAD, View(PODS), readings, frozenset({"queue"}), NOW).series["queue"]
    assert [one.value for one in series.samples] == values


def test_pods_that_are_being_deleted_stand_for_nobody() -> None:
    """As in a rollout: two are heard of, and both are on their way out."""
    going = tuple(replace(one, deleted=True, started=NOW - 600) for one in PODS)
    staying = tuple(replace(pod(name), started=NOW - 600) for name in "cd")
    series = observe(POLICY, WORKLOAD, View((*going, *staying)), [BY_POD], None, NOW).series["cpu"]
    assert (series.samples, series.trusted) == ((), False)


def test_an_autoscaler_that_comes_is_something_new() -> None:
    views = [View(), View(other="HorizontalPodAutoscaler theirs")]
    before, after = (observe(POLICY, WORKLOAD, view, [], frozenset(), NOW) for view in views)
    assert (before.autoscaler, after.autoscaler) == ("", "HorizontalPodAutoscaler theirs")
    assert fingerprint(before) != fingerprint(after)


def test_room_that_comes_is_something_new() -> None:
    seen = observe(POLICY, WORKLOAD, View(), [], frozenset(), NOW)
    assert seen.rooms is None, "nobody has asked for it"
    node = Node("n", "n", True)
    full, free = (replace(seen, rooms=(Room(node, {"cpu": cpu}),)) for cpu in (0.0, 1.0))
    assert fingerprint(full) != fingerprint(free)


def of_node(value: float, age: float = 0.0) -> tuple[Sample, ...]:
    return (Sample(value, NOW - age, NOW),)


@pytest.mark.parametrize(
    ("said", "known"),
    [
        pytest.param([{"n1": of_node(2.0), "n9": of_node(7.0)}], {"n1": 2.0}, id="of the nodes that pods are on"),
        pytest.param([{"n1": of_node(0.0)}], {"n1": 0.0}, id="an idle one"),
        pytest.param([{}], {}, id="none"),
        pytest.param([{"n1": of_node(2.0, age=999)}], {}, id="a stale one is not known"),
        pytest.param([{"n1": of_node(float("nan"))}], {}, id="nor is NaN"),
        pytest.param([{"n1": of_node(2.0, age=999)}, {"n1": of_node(3.0)}], {"n1": 3.0}, id="the next source"),
        pytest.param(
            [{"n1": of_node(2.0)}, {"n1": of_node(3.0), "n2": of_node(4.0)}], {"n1": 2.0, "n2": 4.0}, id="each"
        ),
    ],
)
def test_node_series_cover_only_the_nodes_of_the_pods(
    said: list[dict[str, tuple[Sample, ...]]], known: dict[str, float]
) -> None:
    readings = [Readings(f"s{index}", NOW, nodes={"cpu": given}) for index, given in enumerate(said)]
    pods = (replace(pod("a"), node="n1"), replace(pod("b"), node="n2"), pod("c"))
    assert on_nodes(["cpu", "disk"], pods, readings, NOW, 120.0) == {"cpu": known, "disk": {}}


def test_a_doubted_series_of_nodes_is_not_known() -> None:
    doubtful = Readings("doubtful", NOW, nodes={"cpu": {"n1": of_node(2.0)}}, doubts={"cpu": "was down"})
    pods = (replace(pod("a"), node="n1"),)
    assert on_nodes(["cpu"], pods, [doubtful], NOW, 120.0) == {"cpu": {}}
    assert on_nodes(["cpu"], pods, [replace(doubtful, doubts={})], NOW, 120.0) == {"cpu": {"n1": 2.0}}


class Table(BulkLookup, dict[str, tuple[Sample, ...]]):
    """A table that counts how often samples were looked up in it."""

    lookups = 0

    def together(self, keys: tuple[str, ...]) -> tuple[Sample, ...]:
        self.lookups += 1
        return one_by_one(self, keys)


def _table(value: float = 0.5, pods: Sequence[str] = ("a", "b"), measured: float = NOW) -> Table:
    return Table({f"shop/{pod}": (Sample(value, measured, NOW, pod=pod),) for pod in pods})


def _cpu(table: Table, pods: tuple[Pod, ...] = PODS, at: float = NOW, policy: Policy = POLICY) -> Series:
    reading = Readings("metrics", NOW, pods={"cpu": table})
    return series_of(policy, WORKLOAD, pods, [reading], frozenset({"cpu"}), at)["cpu"]


def test_samples_of_one_table_are_graded_once() -> None:
    table = _table()
    first = _cpu(table)
    assert _cpu(table, at=NOW + 10) is first
    assert table.lookups == 1


@pytest.mark.parametrize(
    ("change", "quality"),
    [
        pytest.param({"at": NOW + POLICY.max_age + 1}, Quality.STALE, id="they are too old now"),
        pytest.param({"policy": replace(POLICY, max_age=5.0), "at": NOW + 6}, Quality.STALE, id="for another policy"),
        pytest.param({"pods": (*PODS, pod("c"))}, Quality.PARTIAL, id="there is another pod"),
        pytest.param({"at": NOW - 61}, Quality.INVALID, id="of the future"),
    ],
)
def test_samples_are_graded_again_where_that_matters(change: dict[str, Any], quality: Quality) -> None:
    table = _table()
    assert _cpu(table).quality is Quality.FRESH
    assert _cpu(table, **change).quality is quality


def test_another_table_is_another_reading() -> None:
    assert sum(sample.value for sample in _cpu(_table(0.5)).samples) == 1.0
    assert sum(sample.value for sample in _cpu(_table(0.7)).samples) == 1.4
