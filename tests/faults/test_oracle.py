"""The oracle tells each violation that it looks for, and nothing else."""

from typing import Any

import msgspec
import pytest

from elasticd.model.actions import Mark, Scale
from elasticd.model.records import Decision
from elasticd.model.workload import Quality, Ref, Sample, Series
from tests.faults import oracle
from tests.faults.oracle import Eviction, Stay, Turn, Window
from tests.kit.lateness import Late

CORDONS = {"a": [(10.0, 20.0)]}
STAYS = {"batch": [Stay(0.0, "a"), Stay(30.0, "b")]}


def entry(pod: str, at: int, **other: Any) -> Any:
    """An eviction in the audit log."""
    made = {
        "user": {"username": "elasticd"},
        "objectRef": {"namespace": "here", "name": pod, "subresource": "eviction"},
        "responseStatus": {"code": 201},
        "requestURI": "/eviction",
        "requestReceivedTimestamp": f"2026-01-01T00:00:{at:02}.5Z",
    }
    return made | other


OTHERS = [
    pytest.param({"user": {"username": "admin"}}, id="of another user"),
    pytest.param({"objectRef": {"namespace": "there", "name": "x", "subresource": "eviction"}}, id="elsewhere"),
    pytest.param({"objectRef": {"namespace": "here", "name": "x", "subresource": "binding"}}, id="a binding"),
    pytest.param({"responseStatus": {"code": 429}}, id="refused"),
    pytest.param({"requestURI": "/eviction?dryRun=All"}, id="dry run"),
]


@pytest.mark.parametrize("other", OTHERS)
def test_only_evictions_that_were_carried_out_count(other: dict[str, Any]) -> None:
    found = oracle.evictions([entry("later", 9), entry("x", 5, **other), entry("first", 1)], "elasticd", "here")
    assert [one.pod for one in found] == ["first", "later"]


@pytest.mark.parametrize(("times", "count"), [([0, 1, 9.4], 1), ([0, 1, 9.6], 0), ([0, 9], 0), ([0, 1, 2, 3], 2)])
def test_more_evictions_than_the_budget_allows_are_told(times: list[float], count: int) -> None:
    assert len(oracle.over_budget([Eviction("batch", at) for at in times], within=10, most=2)) == count


COUNTS = [
    pytest.param([4, 4, 3, 4], 0, id="a surge ends"),
    pytest.param([4, 5, 8], 0, id="it grows"),
    pytest.param([4, 4, 2, 4], 1, id="it falls"),
    pytest.param([], 0, id="nothing was seen"),
]


@pytest.mark.parametrize(("during", "violations"), COUNTS)
def test_a_count_that_falls_without_known_load_is_told(during: list[int], violations: int) -> None:
    counts = [(1.0, 9), *((10.0 + at, count) for at, count in enumerate(during)), (30.0, 1)]
    assert len(oracle.shrunk(counts, [(10.0, 20.0)])) == violations


MOVES = [
    pytest.param("batch", 15.0, 0, id="while it is cordoned"),
    pytest.param("batch", 22.0, 0, id="just after"),
    pytest.param("batch", 5.0, 1, id="before"),
    pytest.param("batch", 25.0, 1, id="long after"),
    pytest.param("batch", 35.0, 1, id="from another node"),
    pytest.param("unseen", 15.0, 1, id="of a pod that was not seen"),
]


@pytest.mark.parametrize(("pod", "at", "count"), MOVES)
def test_only_pods_on_cordoned_nodes_may_be_moved(pod: str, at: float, count: int) -> None:
    assert len(oracle.uncalled_for([Eviction(pod, at)], STAYS, CORDONS)) == count


@pytest.mark.parametrize(("at", "count"), [(25.0, 0), (28.1, 1)])
def test_what_a_daemon_could_not_see_may_delay_it(at: float, count: int) -> None:
    assert len(oracle.uncalled_for([Eviction("batch", at)], STAYS, CORDONS, blind=5.0)) == count


WRITES = [
    pytest.param("/pods/x/eviction", {"deleteOptions": {"preconditions": {"uid": "u"}}}, 0, id="eviction"),
    pytest.param("/pods/x/eviction", {"deleteOptions": None}, 1, id="eviction of any"),
    pytest.param("/deployments/x/scale", {"metadata": {"resourceVersion": "1"}}, 0, id="count"),
    pytest.param("/deployments/x/scale", {"spec": {}}, 1, id="count of any version"),
    pytest.param("/pods", {"metadata": {}}, 0, id="creation"),
]


@pytest.mark.parametrize(("path", "body", "count"), WRITES)
def test_a_write_without_its_precondition_is_told(path: str, body: Any, count: int) -> None:
    assert len(oracle.unconditional([("POST", path, body)])) == count


SENT = [
    pytest.param([1], ["u"], 0, id="once"),
    pytest.param([1], ["u", "u"], 0, id="sent twice, and carried out once"),
    pytest.param([1, 2], ["u", "u"], 1, id="carried out twice"),
    pytest.param([1, 2], ["u", "v"], 0, id="of its copy"),
]


@pytest.mark.parametrize(("times", "uids", "count"), SENT)
def test_an_eviction_that_is_carried_out_twice_is_told(times: list[float], uids: list[str], count: int) -> None:
    written = [("POST", "/pods/x/eviction", {"deleteOptions": {"preconditions": {"uid": uid}}}) for uid in uids]
    sent = {"x": {uid for name, uid in oracle.evicted_uids([*written, ("POST", "/pods", {})]) if name == "x"}}
    assert len(oracle.repeated([Eviction("x", at) for at in times], sent)) == count


@pytest.mark.parametrize(("replicas", "count"), [(0, 1), (1, 0), (8, 0), (9, 1)])
def test_a_count_outside_of_its_bounds_is_told(replicas: int, count: int) -> None:
    written = [("PATCH", "/deployments/web/scale", {"spec": {"replicas": replicas}}), ("POST", "/pods", {})]
    assert len(oracle.out_of_bounds(written, 1, 8)) == count


def decision(at: float = 100.0, age: float = 0.0, value: float = 1.0, **more: Any) -> Any:
    """A decision as the journal has it, by one sample."""
    load = Series("load", "source", Quality.FRESH, (Sample(value, at - age, at),))
    web = Ref("shop", "Deployment", "web")
    made = Decision("id", at, "web", web, "act", 1, 1, "keep", "", "", series=(load,), confirmed=at)
    return msgspec.to_builtins(msgspec.structs.replace(made, **more))


LOAD = Series("load", "source", Quality.PARTIAL)
SCALED = Scale(Ref("shop", "Deployment", "web"), "uid", "1", 1, 2, "Wanted")
MARK = Mark(Ref("shop", "Deployment", "web"), "uid", {"example.test/mark": "yes"})
APART = msgspec.structs.replace(LOAD, apart=(Sample(1.0, 90.0, 90.0),))
AGES = [
    pytest.param(decision(age=3.0), 0, id="as old as allowed"),
    pytest.param(decision(age=3.1), 1, id="older"),
    pytest.param(decision(series=(APART,)), 1, id="older, of one container"),
    pytest.param(decision(series=(LOAD,)), 0, id="no sample"),
    pytest.param(decision(confirmed=79.0), 0, id="nothing is done by an old cluster"),
    pytest.param(decision(confirmed=79.0, action=SCALED), 1, id="scaled by an old cluster"),
    pytest.param(decision(confirmed=79.0, marks=(MARK,)), 1, id="marked by an old cluster"),
    pytest.param(decision(confirmed=80.0, action=SCALED), 0, id="scaled by a cluster of just before"),
    pytest.param(decision(confirmed=None), 0, id="nothing was asked"),
]


@pytest.mark.parametrize(("made", "count"), AGES)
def test_a_decision_by_what_is_too_old_is_told(made: Any, count: int) -> None:
    assert len(oracle.too_old([made], {"web": 3.0}, proven=20.0)) == count


VALUES = [
    pytest.param(decision(value=5.0), 0, id="true now"),
    pytest.param(decision(value=4.0), 0, id="true within the limit"),
    pytest.param(decision(value=3.0), 1, id="true before"),
    pytest.param(decision(value=3.0, at=90.0), 0, id="true then"),
    pytest.param(decision(value=7.0), 1, id="never true"),
    pytest.param(decision(value=5.0, at=97.0, age=-2.0), 0, id="true when it was measured, after it was due"),
    pytest.param(decision(value=5.0, at=97.0), 1, id="not true before that"),
    pytest.param(decision(value=3.0, age=-9.0), 1, id="true before, and said to be measured after"),
]


@pytest.mark.parametrize(("made", "count"), VALUES)
def test_a_value_that_was_true_too_long_ago_is_told(made: Any, count: int) -> None:
    told = [(89.0, 3.0), (90.0, 3.0), (97.0, 4.0), (99.0, 5.0)]
    assert len(oracle.untrue([made], "load", told, limit=3.0)) == count
    assert oracle.untrue([made], "another", told, limit=3.0) == []


QUIET, SPIKE = (0.0, 0.01, 0.02), (0.0, 0.9, 0.02)
LATE = [
    pytest.param(QUIET, QUIET, 0, id="nobody is"),
    pytest.param(QUIET, (0.0, 0.11, 0.0), 0, id="a little"),
    pytest.param(QUIET, (0.0, 0.13, 0.0), 1, id="one in each window"),
    pytest.param(SPIKE, SPIKE, 0, id="all are"),
    pytest.param(SPIKE, QUIET, 0, id="only without"),
    pytest.param(QUIET, (), 1, id="nothing is decided meanwhile"),
]


@pytest.mark.parametrize(("undisturbed", "disturbed", "count"), LATE)
def test_decisions_that_others_delay_are_told(
    undisturbed: tuple[float, ...], disturbed: tuple[float, ...], count: int
) -> None:
    windows = [Window(10.0 * number, 10.0 * number + 10, number % 2 == 1) for number in range(6)]
    late = [
        Late(window.begin + at, seconds)
        for window in windows
        for at, seconds in enumerate(disturbed if window.disturbed else undisturbed)
    ]
    assert len(oracle.delayed(late, windows)) == count


def test_what_delays_a_decision_once_is_no_neighbour() -> None:
    windows = [Window(10.0 * number, 10.0 * number + 10, number % 2 == 1) for number in range(6)]
    late = [Late(10.0 * number + 5, 2.0 if number == 3 else 0.01) for number in range(6)]
    assert oracle.delayed(late, windows) == []


PREEMPTED = [
    pytest.param(["low-1", "low-2"], [], id="as many as allowed"),
    pytest.param(
        ["low-1", "low-2", "low-3"], ["3 pods were preempted for one, by 1 leaders; 2 are allowed"], id="more"
    ),
    pytest.param(["low-1", "peer"], ["peer was preempted for a pod of its own priority"], id="an equal"),
    pytest.param(["high-1"], ["high-1 was preempted for a pod of its own priority"], id="another preemptor"),
    pytest.param(["batch-1", "shop-2", "web-1"], [], id="what is moved"),
]


@pytest.mark.parametrize(("pods", "told"), PREEMPTED)
def test_who_must_not_be_preempted_is_told(pods: list[str], told: list[str]) -> None:
    done = [Eviction(pod, 12.0) for pod in pods]
    assert oracle.preempted(done, [Turn(10.0, {"a"}), Turn(20.0, {"a"})], most=2) == told


def test_victims_count_for_their_own_turn_and_leader() -> None:
    done = [Eviction(f"low-{number}", at) for number, at in enumerate((11, 12, 21, 22, 23))]
    assert oracle.preempted(done, [Turn(10.0, {"a"}), Turn(20.0, {"a", "b"})], most=2) == []
    assert oracle.preempted(done, [Turn(10.0, {"a"}), Turn(20.0, {"a"})], most=2) != []


NAMED = {"uid": "u", "resourceVersion": "1"}
RESIZES = [
    pytest.param("/pods/x/resize", NAMED, "60m", 0, id="the least"),
    pytest.param("/pods/x/resize", NAMED, "0.6", 0, id="the most"),
    pytest.param("/pods/x/resize", NAMED, "59m", 1, id="less"),
    pytest.param("/pods/x/resize", NAMED, "601m", 1, id="more"),
    pytest.param("/pods/x/resize", {"uid": "u"}, "100m", 1, id="of any version"),
    pytest.param("/pods/x/resize", {"resourceVersion": "1"}, "100m", 1, id="of any pod"),
    pytest.param("/pods/x/status", {}, "9", 0, id="no resize"),
]


@pytest.mark.parametrize(("path", "meta", "cpu", "count"), RESIZES)
def test_a_resize_beyond_its_bounds_is_told(path: str, meta: Any, cpu: str, count: int) -> None:
    body = {"metadata": meta, "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}}
    assert len(oracle.resized_beyond([("PATCH", path, body)], 0.06, 0.6)) == count


def test_a_pod_is_lost_without_a_record_of_it() -> None:
    assert oracle.lost(["a", "b", "c"], pods=["a"], records=["b"]) == ["neither c nor a record of it is there"]


def pod(node: str = "a", **meta: Any) -> Any:
    """A pod."""
    return {"metadata": {"name": "x", "labels": {"app": "x"}} | meta, "spec": {"nodeName": node, "priority": 1}}


COPIES = [
    pytest.param(pod("b"), 0, id="elsewhere"),
    pytest.param(pod(annotations={"ours": "1"}), 0, id="with our annotation"),
    pytest.param(pod(annotations={"other": "1"}), 1, id="with another annotation"),
    pytest.param(pod(labels={}), 1, id="without its label"),
    pytest.param(pod() | {"spec": {"priority": 2}}, 1, id="of another priority"),
]


@pytest.mark.parametrize(("copy", "count"), COPIES)
def test_a_copy_that_differs_from_its_pod_is_told(copy: Any, count: int) -> None:
    assert len(oracle.changed(pod(), copy, ["ours"])) == count


def test_a_token_that_was_written_down_is_told() -> None:
    texts = {"one.log": "403 Forbidden: not now, Bearer ***", "two.log": "not now, Bearer secret"}
    assert oracle.leaked("secret", texts) == ["two.log has the daemon's token"]
