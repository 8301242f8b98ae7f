"""What is thought of pods that are not measured, or request nothing, in the columns of a plan and in the views."""

from math import inf, nan

import numpy as np
import pytest

from elasticd.kit.node_table import NodeTable, estimated, weighed
from elasticd.model.actions import Bind
from elasticd.model.placement import PodOutcome
from elasticd.model.policy import PoolPolicy, PoolSelect
from elasticd.model.workload import Readings, Sample
from elasticd.runtime.pools.usage_view import NEW, UsageView, WantedSeries
from tests.kit.pools import GIB, MIB, NOW, columns, node, pod


@pytest.mark.parametrize(
    ("resources", "series", "expected"),
    [
        pytest.param({"cpu": 2.0}, "cpu", 1.7, id="85 % of the cpu that it requests"),
        pytest.param({"memory": 100 * MIB}, "memory", 70 * MIB, id="70 % of the memory"),
        pytest.param({"cpu": 0.0}, "cpu", 0.1, id="requests no cpu: 100m"),
        pytest.param({"memory": 0.0}, "memory", 200 * MIB, id="requests no memory: 200 MiB"),
        pytest.param({"cpu": 2.0}, "image_pull_rate", 0.0, id="of other series nothing can be said"),
    ],
)
def test_a_pod_that_is_not_measured_is_estimated(resources: dict[str, float], series: str, expected: float) -> None:
    assert estimated(pod("p", resources=resources), series) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("resources", "resource", "expected"),
    [
        pytest.param({"cpu": 2.0}, "cpu", 2000, id="its request"),
        pytest.param({"cpu": 0.0}, "cpu", 100, id="none of cpu"),
        pytest.param({"memory": 0.0}, "memory", 200 * 2**20, id="none of memory"),
        pytest.param({}, "example.com/gpu", 0, id="none of another"),
        pytest.param({}, "pods", 1, id="itself"),
    ],
)
def test_a_pod_without_requests_has_a_default_weight(resources: dict[str, float], resource: str, expected: int) -> None:
    assert weighed(pod("p", resources=resources), resource) == expected


def view() -> NodeTable:
    use = {"cpu": {"a": 1.0, "b": 0.5}, "memory": {"a": GIB}}
    on = [pod("bare", cpu=0, memory=0, on="a"), pod("half", cpu=0.5, memory=GIB, on="b")]
    return columns([node("a"), node("b")], on, use)


def test_nodes_weigh_requests_and_default_weights_of_their_pods() -> None:
    seen = view()
    assert seen.requested("cpu").tolist() == [0, 500]
    assert seen.weighed("cpu").tolist() == [100, 500]
    assert seen.weighed("memory").tolist() == [200 * 2**20, 2**30]
    assert seen.weighed("pods").tolist() == [1, 1]
    assert columns([node("a")]).weighed("cpu").tolist() == [0]


def test_a_pods_weight_counts_only_while_the_plan_holds_it() -> None:
    seen, new = view(), pod("new", cpu=0, memory=0)
    seen.take(1, new)
    assert seen.weighed("cpu").tolist() == [100, 600]
    seen.release(1, new)
    assert seen.weighed("cpu").tolist() == [100, 500]


@pytest.mark.parametrize("asked_before", [True, False])
def test_a_placed_pod_counts_as_used_but_not_as_measured(asked_before: bool) -> None:
    seen = view()
    if asked_before:
        assert (seen.use("cpu").tolist(), seen.measured("cpu").tolist()) == ([1.0, 0.5], [1.0, 0.5])
    seen.take(1, pod("new", cpu=1))
    assert seen.use("cpu").tolist() == pytest.approx([1.0, 1.35])
    assert seen.measured("cpu").tolist() == [1.0, 0.5]
    seen.release(1, pod("new", cpu=1))
    assert seen.use("cpu").tolist() == pytest.approx([1.0, 0.5])
    assert seen.measured("cpu").tolist() == [1.0, 0.5]


def test_measured_and_used_amounts_may_differ() -> None:
    seen = columns([node("a")], use={"cpu": {"a": 3.0}}, measured={"cpu": {"a": 2.0}})
    assert (seen.use("cpu").tolist(), seen.measured("cpu").tolist()) == ([3.0], [2.0])
    assert np.isnan(seen.measured("memory")).all()


def test_a_plugin_cannot_change_what_is_measured_or_weighed() -> None:
    seen = view()
    for array in (seen.measured("cpu"), seen.weighed("cpu"), seen.weighed("pods")):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def bound(name: str, at: float, cpu: float) -> tuple[UsageView, PoolPolicy]:
    views, policy = UsageView(), PoolPolicy(name="pool", pool=PoolSelect(), strategies=())
    new = pod(name, cpu=cpu)
    outcome = PodOutcome("d", at, "pool", new.ref, new.ref, "bind", "a", "done")
    views.did(new, Bind(new.ref, new.uid, "a", ""), outcome)
    return views, policy


@pytest.mark.parametrize(
    ("measured", "cpu", "use"),
    [
        pytest.param(NOW - 5, 2.0, 1.0 + 1.7, id="measured before it was bound"),
        pytest.param(NOW + NEW - 1, 2.0, 1.0 + 1.7, id="measured too soon after"),
        pytest.param(NOW + NEW, 2.0, 1.0, id="measured a minute after: it is in it"),
        pytest.param(NOW - 5, 0.0, 1.0 + 0.1, id="it requests nothing"),
    ],
)
def test_views_add_estimates_of_bound_pods_to_use_not_measurements(measured: float, cpu: float, use: float) -> None:
    views, policy = bound("p", NOW, cpu)
    said = Readings("test", NOW, nodes={"cpu": {"a": (Sample(1.0, measured, measured),)}, "x": {}})
    known = views.look(policy, WantedSeries(frozenset({"cpu", "x"}), frozenset()), [said], NOW + NEW)
    assert known.use["cpu"]["a"] == pytest.approx(use)
    assert known.measured == {"cpu": {"a": 1.0}, "x": {}}


def sample(value: float, ago: float) -> Sample:
    return Sample(value, NOW - ago, NOW)


@pytest.mark.parametrize(
    ("samples", "use"),
    [
        pytest.param([sample(1.0, 5)], 1.0, id="one"),
        pytest.param([sample(1.0, 5), sample(2.0, 9), sample(4.0, 1)], 7.0, id="of several containers the sum"),
        pytest.param([sample(0.0, 5)], 0.0, id="none is used"),
        pytest.param([], None, id="no sample"),
        pytest.param([sample(1.0, 121)], None, id="too old"),
        pytest.param([sample(1.0, 5), sample(1.0, 121)], None, id="one of them too old"),
        pytest.param([sample(1.0, 121), sample(1.0, 5)], None, id="the first of them too old"),
        pytest.param([sample(1.0, -3600)], None, id="from the future"),
        pytest.param([sample(1.0, 5), sample(1.0, -3600), sample(1.0, 5)], None, id="one of them from the future"),
        pytest.param([sample(nan, 5)], None, id="no number"),
        pytest.param([sample(1.0, 5), sample(nan, 5)], None, id="one of them no number"),
        pytest.param([sample(inf, 5)], None, id="without end"),
        pytest.param([sample(2.0, 5), sample(-1.0, 5)], None, id="one of them negative"),
    ],
)
def test_views_trust_a_pods_use_only_with_all_samples_trusted(samples: list[Sample], use: float | None) -> None:
    views, policy = UsageView(), PoolPolicy(name="pool", pool=PoolSelect(), strategies=())
    first = Readings("first", NOW, pods={"cpu": {"shop/p": tuple(samples)}})
    wants = WantedSeries(frozenset(), frozenset({"cpu"}))
    known = views.look(policy, wants, [first], NOW)
    assert known.pods == {"cpu": {} if use is None else {"shop/p": use}}
    second = Readings("second", NOW, pods={"cpu": {"shop/p": (sample(9.0, 5),)}})
    assert views.look(policy, wants, [first, second], NOW).pods == {"cpu": {"shop/p": 9.0 if use is None else use}}


@pytest.mark.parametrize("asked_before", [True, False])
def test_a_moved_pod_counts_with_its_former_use_without_estimate(asked_before: bool) -> None:
    seen, moved = view(), pod("new", cpu=1)
    if asked_before:
        seen.use("cpu")
    seen.take(1, moved, {"cpu": 3.0})
    assert seen.use("cpu").tolist() == [1.0, 3.5]
    assert seen.use("memory").tolist()[0] == GIB
    seen.release(1, moved)
    assert seen.use("cpu").tolist() == [1.0, 0.5]


@pytest.mark.parametrize(
    ("use", "ago", "expected"),
    [
        pytest.param({"cpu": 3.0}, 0, 1.0 + 3.0, id="what the one that was moved used"),
        pytest.param({"memory": 3.0}, 0, 1.0 + 1.7, id="of another series alone: by estimate"),
        pytest.param({"cpu": 3.0}, 3601, 1.0 + 1.7, id="more than an hour ago"),
    ],
)
def test_views_count_a_replacement_with_the_moved_pods_former_use(
    use: dict[str, float], ago: float, expected: float
) -> None:
    views, policy = bound("p", NOW, 2.0)
    views.moved_with(pod("p"), use, NOW - ago)
    views.forget((), NOW)
    said = Readings("test", NOW, nodes={"cpu": {"a": (Sample(1.0, NOW, NOW),)}})
    known = views.look(policy, WantedSeries(frozenset({"cpu"}), frozenset()), [said], NOW)
    assert known.use["cpu"]["a"] == pytest.approx(expected)
