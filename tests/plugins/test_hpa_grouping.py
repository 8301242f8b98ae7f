"""HPA: Grouping pods, and what a pod uses and asks for."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from elasticd.api import Container, Pod, Sample
from elasticd.kit import milli
from elasticd_plugins.hpa.grouping import (
    Groups,
    MetricError,
    Startup,
    group_pods,
    requests_by_pod,
    thousandths,
    total_at_a_glance,
    total_thousandths,
    usage_by_pod,
)
from elasticd_plugins.hpa.proposals import utilization
from tests.kit.plugins.builders import NOW, OLD, REF, pod, sample

STARTUP = Startup(NOW, 300, 30)
GROUPS = {
    "ready": Groups(1, [], [], []),
    "unready": Groups(0, ["p0"], [], []),
    "missing": Groups(0, [], ["p0"], []),
    "ignored": Groups(0, [], [], ["p0"]),
}
OLD_STARTED = {"started": OLD}
YOUNG: dict[str, Any] = {"started": NOW - 100, "ready": True, "ready_changed": NOW - 60}


@pytest.mark.parametrize(
    ("changes", "age", "group"),
    [
        pytest.param({}, 10, "ready", id="running and ready"),
        pytest.param({"deleted": True}, 10, "ignored", id="deleted"),
        pytest.param({"deleted": True, "phase": "Pending"}, 10, "ignored", id="deleted before pending"),
        pytest.param({"phase": "Failed"}, 10, "ignored", id="failed"),
        pytest.param({"phase": "Failed"}, None, "ignored", id="failed before missing"),
        pytest.param({"phase": "Pending"}, 10, "unready", id="pending though it has a sample"),
        pytest.param({"phase": "Pending"}, None, "unready", id="pending before missing"),
        pytest.param({"phase": "Succeeded"}, 10, "ready", id="succeeded is not excluded"),
        pytest.param({}, None, "missing", id="no sample"),
        pytest.param({"ready": None}, 10, "unready", id="no Ready condition"),
        pytest.param({"started": None}, 10, "unready", id="no start time"),
        pytest.param({"ready": None}, None, "missing", id="missing before not ready"),
        pytest.param(YOUNG | {"ready": False}, 10, "unready", id="starting: not ready"),
        pytest.param(YOUNG, 31, "unready", id="starting: sample before a whole window"),
        pytest.param(YOUNG, 30, "ready", id="starting: sample exactly one window after"),
        pytest.param(YOUNG | {"started": NOW - 300}, 59, "ready", id="started exactly the period ago"),
        pytest.param(YOUNG | {"started": NOW - 299}, 59, "unready", id="started just less than the period ago"),
        pytest.param({"ready": False, "ready_changed": OLD + 29}, 10, "unready", id="never ready"),
        pytest.param({"ready": False, "ready_changed": OLD + 30}, 10, "ready", id="exactly at the delay"),
        pytest.param({"ready": False, "ready_changed": OLD + 31}, 10, "ready", id="was ready once"),
        pytest.param({"ready_changed": NOW - 1}, 10, "ready", id="old and ready: no window needed"),
    ],
)
def test_a_pod_falls_into_the_first_group_that_holds(changes: dict[str, Any], age: float | None, group: str) -> None:
    samples = {} if age is None else {"p0": sample("p0", 1.0, age=age, window=30)}
    assert group_pods([pod("p0", **changes)], samples, STARTUP) == GROUPS[group]


STATES = some.fixed_dictionaries(
    {},
    optional={
        "phase": some.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
        "deleted": some.booleans(),
        "started": some.sampled_from([None, OLD, NOW - 301, NOW - 300, NOW - 299, NOW]),
        "ready": some.sampled_from([None, False, True]),
        "ready_changed": some.sampled_from([OLD + 20, NOW - 60, NOW]),
    },
)
MEASURED = some.tuples(some.sampled_from([0.0, 29.0, 30.0, 31.0, 60.0, 61.0]), some.sampled_from([0.0, 30.0, 31.0]))
"""Ages and windows of samples, about those that a pod believes that has been ready for 60 s."""


@given(
    some.lists(some.just({}) | some.just(YOUNG) | STATES, max_size=3),
    some.lists(some.tuples(some.sampled_from(["p0", "p1", "p2", "gone", ""]), MEASURED), max_size=5)
    | some.lists(MEASURED, min_size=3, max_size=3).map(lambda found: list(zip(["p0", "p1", "p2"], found, strict=True))),
    some.sampled_from([STARTUP, None]),
)
def test_a_glance_sees_the_same_use_of_the_same_pods(
    states: list[dict[str, Any]], measured: list[tuple[str, tuple[float, float]]], startup: Startup | None
) -> None:
    pods = tuple(pod(f"p{index}", **changes) for index, changes in enumerate(states))
    samples = [sample(name, 0.5, age=age, window=window) for name, (age, window) in measured]
    for _ in range(2):
        found = total_at_a_glance(REF, pods, samples, startup)
        if found is not None:
            usage = usage_by_pod(samples)
            assert found == sum(usage.values.values())
            assert usage.values.keys() == {pod.name for pod in pods}
            assert group_pods(pods, usage.samples, startup) == Groups(len(pods), [], [], [])


@pytest.mark.parametrize(
    ("samples", "total"),
    [
        pytest.param([sample("p0", 0.1), sample("p1", 0.2)], 300, id="one of each pod"),
        pytest.param([sample(p, 0.0101, c) for p in ("p0", "p1") for c in "xy"], 44, id="of each container"),
        pytest.param([sample("p1", 0.2), sample("p0", 0.1)], None, id="in another order"),
        pytest.param([sample("p0", 0.1)], None, id="one lacks"),
        pytest.param([sample("p0", 0.1), sample("p1", 0.2), sample("", 0.3)], None, id="one of no pod"),
        pytest.param([], None, id="none"),
        pytest.param([sample("p0", 0.1), sample("p1", 0.2, age=61)], None, id="one of before its start was over"),
    ],
)
def test_a_glance_is_enough_where_all_pods_are_measured(samples: list[Sample], total: int | None) -> None:
    young = {"started": NOW - 100, "ready_changed": NOW - 60}
    assert total_at_a_glance(REF, (pod("p0", **young), pod("p1", **young)), samples, STARTUP) == total


def test_without_pods_there_is_nothing_to_see() -> None:
    assert total_at_a_glance(REF, (), [], STARTUP) is None


@pytest.mark.parametrize("changes", [{"ready": None}, {"started": None}, YOUNG | {"ready": False}])
def test_only_cpu_has_start_up_rules(changes: dict[str, Any]) -> None:
    assert group_pods([pod("p0", **changes)], {"p0": sample("p0", 1.0)}, None) == GROUPS["ready"]


@pytest.mark.parametrize(
    ("samples", "container", "values"),
    [
        pytest.param([sample("a", 0.0101), sample("b", 2.0)], "", {"a": 11, "b": 2000}, id="rounded up"),
        pytest.param(
            [sample("a", 0.0101, "x"), sample("a", 0.0101, "y")],
            "",
            {"a": 22},
            id="each container on its own",
        ),
        pytest.param([sample("a", 0.1, "x"), sample("a", 0.2, "y")], "y", {"a": 200}, id="the named container"),
        pytest.param([sample("a", 0.1, "x"), sample("b", 0.2, "y")], "y", {"b": 200}, id="one pod lacks it"),
        pytest.param([sample("a", 0.1)], "y", {}, id="a whole pod is no container"),
        pytest.param([sample("", 0.1)], "", {}, id="of no pod"),
        pytest.param([], "", {}, id="none"),
    ],
)
def test_what_a_pod_uses(samples: list[Sample], container: str, values: dict[str, int]) -> None:
    assert usage_by_pod(samples, container).values == values


@pytest.mark.parametrize("ages", [(10, 40), (40, 10)])
def test_of_several_containers_the_oldest_sample_counts(ages: tuple[float, float]) -> None:
    samples = [sample("a", 1.0, f"c{age}", age=age) for age in ages]
    assert usage_by_pod(samples).samples["a"].measured == NOW - 40


def _pod(*containers: Container, **changes: Any) -> Pod:
    return pod("p0", containers=containers, **changes)


WEB, LOG = Container("web", {"cpu": 0.25}), Container("log", {"cpu": 0.0501})
SIDECAR, BARE = Container("mesh", {"cpu": 0.1}, sidecar=True), Container("bare")


OVERALL = {"requests": {"memory": 2.0}, "overall": {"cpu": 0.95, "memory": 2.5}}


@pytest.mark.parametrize(
    ("asked", "container", "old", "request_milli"),
    [
        pytest.param(_pod(WEB, LOG), "", False, 301, id="sum, each rounded up"),
        pytest.param(_pod(WEB, LOG), "log", False, 51, id="named container"),
        pytest.param(_pod(WEB, BARE), "web", False, 250, id="only the named one must ask"),
        pytest.param(_pod(WEB, SIDECAR), "", False, 350, id="sidecars count"),
        pytest.param(_pod(WEB, SIDECAR), "", True, 250, id="1.20: sidecars do not"),
        pytest.param(_pod(WEB, requests={"cpu": 2.0}), "", False, 2000, id="pod level wins"),
        pytest.param(_pod(BARE, requests={"cpu": 2.0}), "", False, 2000, id="pod level is enough"),
        pytest.param(_pod(WEB, requests={"cpu": 2.0}), "web", False, 250, id="pod level, but a container named"),
        pytest.param(_pod(WEB, requests={"memory": 2.0}), "", False, 250, id="pod level of another resource"),
        pytest.param(_pod(WEB, BARE, **OVERALL), "", False, 950, id="with overhead, and a container need not ask"),
        pytest.param(_pod(WEB, BARE, **OVERALL), "web", False, 250, id="with overhead, but a container named"),
        pytest.param(_pod(WEB, requests={"cpu": 2.0}), "", True, 250, id="1.20: no pod level"),
        pytest.param(_pod(WEB), "log", True, 0, id="1.20: a container that is not there asks for nothing"),
    ],
)
def test_what_a_pod_asks_for(asked: Pod, container: str, old: bool, request_milli: int) -> None:
    assert requests_by_pod([asked], "cpu", container, old=old) == {"p0": request_milli}


def test_requests_are_those_of_the_pods_at_hand() -> None:
    key, small, large = (REF, "cpu", "", False, 50), (pod("p0", 1.0), pod("p1", 2.0)), (pod("p0", 4.0),)
    for pods, total in ((small, 3000), (small, 3000), (large, 4000), (small, 3000)):
        assert utilization(key, pods).whole == total
        assert utilization(key, pods).requests == requests_by_pod(pods, "cpu", "", old=False)


@pytest.mark.parametrize(
    ("asked", "container", "message"),
    [
        pytest.param(_pod(WEB, BARE), "", "missing request for cpu in container bare of Pod p0", id="one of two"),
        pytest.param(_pod(WEB, BARE, deleted=True), "", "missing request for cpu in", id="of an ignored pod"),
        pytest.param(_pod(BARE, requests={"memory": 2.0}), "", "missing pod-level request for cpu in Pod", id="none"),
        pytest.param(_pod(WEB), "log", "container log not found in Pod p0", id="no such container"),
    ],
)
def test_a_missing_request_fails_the_metric(asked: Pod, container: str, message: str) -> None:
    with pytest.raises(MetricError, match=message):
        requests_by_pod([asked], "cpu", container, old=False)


VALUES = some.floats(0, 1e15) | some.decimals(0, 10_000, places=6).map(float) | some.integers(0, 10**9).map(float)


@given(VALUES)
def test_the_quick_thousandths_are_the_exact_ones(value: float) -> None:
    assert thousandths(value) == milli(value)


@given(some.lists(VALUES | some.floats(-10, 10) | some.floats(0, 2e-5) | some.just(1e308), min_size=1, max_size=12))
def test_a_sum_of_thousandths_is_of_each_rounded_up(values: list[float]) -> None:
    assert total_thousandths([sample("p0", value) for value in values]) == sum(milli(value) for value in values)


@pytest.mark.parametrize("worst", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_has_no_thousandths(worst: float) -> None:
    with pytest.raises(ValueError, match="must be finite"):
        total_thousandths([sample("p0", value) for value in (0.5, worst)])
