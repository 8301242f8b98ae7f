"""Simulated pods that wait for somebody to place them: how they are bound, evicted and noted, as on a real cluster."""

from typing import Any

import pytest

from elasticd.decision.pool.order import RESUMED
from elasticd.model.actions import Answer, Bind, Create, Evict, Nominate, Scale, TryEvict
from elasticd.model.placement import DisruptionBudget
from elasticd.model.pod_spec import Disk, Expression, PodTerm, Port, Term, Toleration, TopologySpread
from elasticd.model.workload import Pod, Ref
from elasticd.ports.cluster import Cluster, Snapshot
from tests.cluster.simulated.test_kit import START, Play, scale_to, web

SMALL = {"name": "n", "count": 2, "cpu": "1", "memory": "4Gi", "pods": 3}
OURS = {"scheduler": "elasticd", "cpu": "400m", "memory": "256Mi", "start_seconds": 2}


def ours(name: str = "web", **options: Any) -> dict[str, Any]:
    """A workload whose pods wait for elasticd."""
    return {"name": name, **OURS, **options}


def bare(name: str = "job", **options: Any) -> dict[str, Any]:
    """Pods without a controller."""
    return ours(name, bare=True, **options)


class Placed(Play):
    """A cluster of two small nodes, n-1 and n-2, unless it is said otherwise."""

    def __init__(self, *workloads: dict[str, Any], **options: Any) -> None:
        super().__init__(*workloads, **{"nodes": [SMALL], **options})

    async def pod(self, t: float, name: str) -> Pod:
        """A pod at a time, wherever it is."""
        snapshot = await self.look(t)
        return next(pod for pod in everyone(snapshot) if pod.name == name)

    async def waiting(self, t: float) -> list[str]:
        """The names of the pods that are on no node."""
        return [pod.name for pod in (await self.look(t)).pending()]

    async def on(self, t: float) -> dict[str, list[str]]:
        """The names of the pods on each node."""
        return {node: [pod.name for pod in pods] for node, pods in (await self.look(t)).on_nodes().items()}

    async def bind(self, t: float, name: str, node: str, **changes: Any) -> Answer:
        """Bind a pod at a time."""
        pod = await self.pod(t, name)
        return await self.cluster.act(Bind(**{"workload": pod.ref, "uid": pod.uid, "node": node, **changes}))

    async def evict(self, t: float, name: str, **changes: Any) -> Answer:
        """Evict a pod at a time."""
        pod = await self.pod(t, name)
        return await self.cluster.act(Evict(**{"workload": pod.ref, "uid": pod.uid, "node": pod.node, **changes}))


def everyone(snapshot: Snapshot) -> list[Pod]:
    """All pods that are pending or on a node, or were rejected."""
    rejected = [pod for workload in snapshot.workloads() for pod in snapshot.pods(workload)]
    return [*snapshot.pending(), *(pod for pods in snapshot.on_nodes().values() for pod in pods), *rejected]


async def test_pods_of_another_scheduler_stay_pending_until_somebody_binds_them() -> None:
    play = Placed(ours(replicas=2), {"name": "own", "cpu": "100m"})
    assert await play.waiting(600) == ["web-000001", "web-000002"]
    assert await play.on(600) == {"n-1": ["own-000001"]}
    answer = await play.bind(600, "web-000002", "n-2")
    assert (answer.result, answer.code) == ("done", 201)
    bound = await play.pod(600, "web-000002")
    assert (bound.node, bound.phase, bound.started, bound.waits) == ("n-2", "Pending", START + 600, None)
    assert (await play.pod(602, "web-000002")).ready is True
    assert await play.waiting(602) == ["web-000001"]


async def test_a_pod_shows_its_needs_owner_and_creation_time() -> None:
    options = {
        "restart_policy": "OnFailure",
        "priority": 7,
        "priority_class": "high",
        "preemption_policy": "Never",
        "node_selector": {"pool": "batch"},
        "node_affinity": [{"labels": [{"key": "zone", "operator": "In", "values": ["a"]}]}],
        "topology_spread": [{"topology": "zone", "labels": {"app": "batch"}, "max_skew": 2, "hard": False}],
        "pod_affinity": [{"topology": "zone"}],
        "pod_anti_affinity": [{"topology": "rack", "labels": {"app": "batch"}}],
        "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "ports": [{"number": 80}, {"number": 53, "protocol": "UDP", "address": "10.0.0.1"}],
        "disks": [{"kind": "gce", "name": "d", "read_only": True, "shareable": True}],
        "annotations": {"elasticd.io/binding": "{}"},
        "resources": {"ephemeral-storage": "1Gi", "example.com/bandwidth": "5"},
        "labels": {"tier": "front"},
        "stop_seconds": 45,
    }
    play = Placed(ours("batch", kind="Batch", **options))
    (pod,) = (await play.look(0)).pending()
    needs = pod.needs
    assert (needs.scheduler, needs.restart, needs.priority, needs.priority_class) == (
        "elasticd",
        "OnFailure",
        7,
        "high",
    )
    assert (needs.preempts, needs.selector, needs.grace) == (False, {"pool": "batch"}, 45.0)
    assert needs.affinity == (Term((Expression("zone", "In", ("a",)),)),)
    batch = (Expression("app", "In", ("batch",)),)
    assert needs.spread == (TopologySpread("zone", 2, batch, hard=False),)
    assert (needs.attracts, needs.repels) == ((PodTerm("zone", ()),), (PodTerm("rack", batch),))
    assert needs.tolerations == (Toleration("gpu", "Exists", "", "NoSchedule"),)
    assert needs.ports == (Port(80), Port(53, "UDP", "10.0.0.1"))
    assert needs.disks == (Disk("gce", "d", read_only=True, shareable=True),)
    assert needs.requests == pod.counted == pod.requested()
    assert pod.counted == {
        "cpu": 0.4, "memory": 2.0**28, "ephemeral-storage": 2.0**30, "example.com/bandwidth": 5.0,
    }  # fmt: skip
    assert (pod.annotations, pod.created, pod.waits) == ({"elasticd.io/binding": "{}"}, START, None)
    assert pod.labels == {"tier": "front", "app": "batch"}
    assert pod.owner[:2] == ("apps/v1/Batch", "batch")


@pytest.mark.parametrize(
    ("table", "owner"),
    [
        pytest.param(ours(), ("ReplicaSet", "web-e4a7f364"), id="a Deployment's"),
        pytest.param(ours(kind="StatefulSet"), ("StatefulSet", "web"), id="a StatefulSet's"),
        pytest.param(bare("web"), ("", ""), id="bare"),
    ],
)
async def test_a_pod_names_its_controller(table: dict[str, Any], owner: tuple[str, str]) -> None:
    (pod,) = (await Placed(table).look(0)).pending()
    assert pod.owner[:2] == owner
    assert bool(pod.owner[2]) == bool(owner[0])


async def test_pods_of_one_table_share_what_they_need() -> None:
    first, second = (await Placed(ours(count=2)).look(0)).pending()
    assert first.needs is second.needs


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        pytest.param({"uid": "another"}, 409, "uid was another, is ", id="another pod of that name"),
        pytest.param({"workload": Ref("default", "Pod", "gone", "v1")}, 404, "there is no pod default/gone", id="none"),
    ],
)
@pytest.mark.parametrize("kind", [Bind, Evict, Nominate])
async def test_what_was_judged_on_another_pod_conflicts(
    kind: Any, change: dict[str, Any], code: int, message: str
) -> None:
    play = Placed(ours())
    pod = await play.pod(0, "web-000001")
    answer = await play.cluster.act(kind(**{"workload": pod.ref, "uid": pod.uid, "node": "n-1", **change}))
    assert (answer.result, answer.code) == ("conflict", code)
    assert answer.message.startswith(message)
    assert await play.pod(0, "web-000001") == pod


async def test_of_two_who_bind_a_pod_the_second_conflicts() -> None:
    play = Placed(ours())
    assert (await play.bind(0, "web-000001", "n-1")).result == "done"
    answer = await play.bind(0, "web-000001", "n-2")
    assert (answer.result, answer.code, answer.reason) == ("conflict", 409, "Conflict")
    assert 'already assigned to node "n-1"' in answer.message
    assert (await play.pod(0, "web-000001")).node == "n-1"


async def test_a_pod_that_is_being_deleted_is_not_bound() -> None:
    play = Placed(ours(replicas=2, stop_seconds=9))
    await play.bind(0, "web-000001", "n-1")
    await play.evict(5, "web-000001")
    answer = await play.bind(5, "web-000001", "n-2")
    assert (answer.code, "being deleted" in answer.message) == (409, True)


@pytest.mark.parametrize(
    ("node", "pod", "why"),
    [
        pytest.param({"cpu": "300m"}, {}, "OutOfcpu", id="cpu"),
        pytest.param({"memory": "100Mi"}, {}, "OutOfmemory", id="memory"),
        pytest.param({"resources": {"ephemeral-storage": "1Gi"}}, {"resources": {"ephemeral-storage": "2Gi"}},
                     "OutOfephemeral-storage", id="a further resource"),
        pytest.param({}, {"resources": {"example.com/gpu": 1}}, "", id="a resource that the node does not know"),
        pytest.param({}, {"node_selector": {"pool": "x"}}, "NodeAffinity", id="a selector"),
        pytest.param({"labels": {"pool": "x"}}, {"node_selector": {"pool": "x"}}, "", id="a selector that matches"),
        pytest.param({"taints": [{"key": "a", "effect": "NoExecute"}]}, {}, "TaintToleration", id="a taint NoExecute"),
        pytest.param({"taints": [{"key": "a", "effect": "NoSchedule"}]}, {}, "", id="a taint for schedulers"),
        pytest.param({"unschedulable": True}, {}, "", id="cordoned, which is for schedulers"),
    ],
)  # fmt: skip
async def test_kubelet_and_not_the_api_decides_if_a_pod_fits(
    node: dict[str, Any], pod: dict[str, Any], why: str
) -> None:
    play = Placed(bare("p", **pod), nodes=[{"name": "n", "cpu": 4, "memory": "8Gi", **node}])
    (waiting,) = (await play.look(0)).pending()
    assert (await play.cluster.act(Bind(waiting.ref, waiting.uid, "n"))).result == "done"
    snapshot = await play.look(10)
    assert snapshot.pending() == ()
    on = snapshot.on_nodes()
    assert [one.phase for one in on.get("n", ())] == ([] if why else ["Running"])
    found = play.cluster.world.pod("default", "p")
    assert found is not None
    assert (found.rejected, found.look().phase) == (why, "Failed" if why else "Running")
    free = snapshot.rooms()[0].free
    assert free["pods"] == (110.0 if why else 109.0), "one that was rejected takes no room"


async def test_port_of_a_node_is_exclusive_until_its_pod_leaves() -> None:
    play = Placed(bare("p", replicas=3, ports=[{"number": 80}]))
    for name in ("p-1", "p-2"):
        await play.bind(0, name, "n-1")
    assert await play.on(1) == {"n-1": ["p-1"]}
    await play.evict(2, "p-1")
    await play.bind(3, "p-3", "n-1")
    assert await play.on(4) == {"n-1": ["p-3"]}


async def test_a_deployment_makes_another_pod_for_one_that_was_rejected() -> None:
    play = Placed(ours(cpu="600m", replicas=2))
    await play.bind(0, "web-000001", "n-1")
    await play.bind(0, "web-000002", "n-1")
    assert await play.waiting(1) == ["web-000003"]
    pods = await play.pods(1)
    assert {name: pod.phase for name, pod in pods.items()} == {
        "web-000001": "Pending", "web-000002": "Failed", "web-000003": "Pending",
    }  # fmt: skip
    assert (await play.workload(1)).status_replicas == 2
    assert await play.on(1) == {"n-1": ["web-000001"]}


async def test_stateful_set_recreates_a_rejected_pod_under_its_name() -> None:
    play = Placed(ours(kind="StatefulSet", cpu="600m", replicas=2))
    before = await play.pod(0, "web-1")
    await play.bind(0, "web-0", "n-1")
    await play.bind(0, "web-1", "n-1")
    after = await play.pod(1, "web-1")
    assert (after.node, after.phase, after.uid == before.uid) == ("", "Pending", False)


async def test_rejected_bare_pod_stays_failed_and_can_be_evicted() -> None:
    play = Placed(bare("p", cpu="2"))
    await play.bind(0, "p", "n-1")
    pod = play.cluster.world.pod("default", "p")
    assert pod is not None
    assert await play.waiting(99) == []
    answer = await play.cluster.act(Evict(pod.look().ref, pod.uid, "n-1", restore=True))
    assert answer.result == "done"
    assert await play.waiting(99) == ["p"]


async def test_pod_bound_to_a_missing_node_is_garbage_collected() -> None:
    play = Placed(ours())
    assert (await play.bind(10, "web-000001", "nowhere")).result == "done"
    assert (await play.pod(49.9, "web-000001")).node == "nowhere"
    assert await play.waiting(50) == ["web-000002"]


async def test_eviction_is_graceful_and_the_controller_replaces_the_pod_immediately() -> None:
    play = Placed(ours(stop_seconds=5))
    await play.bind(0, "web-000001", "n-1")
    answer = await play.evict(10, "web-000001")
    assert (answer.result, answer.code) == ("done", 201)
    assert (await play.pod(10, "web-000001")).deleted
    assert await play.waiting(10) == ["web-000002"]
    assert await play.on(14.9) == {"n-1": ["web-000001"]}
    assert await play.on(15) == {}
    assert (await play.pod(15, "web-000002")).annotations == {}


async def test_evicting_a_pod_twice_does_it_once() -> None:
    play = Placed(ours(stop_seconds=5))
    await play.bind(0, "web-000001", "n-1")
    assert [(await play.evict(10, "web-000001")).result for _ in range(2)] == ["done", "done"]
    assert await play.waiting(11) == ["web-000002"]


async def test_a_bare_pod_is_gone_when_it_was_evicted() -> None:
    play = Placed(bare("p"))
    await play.bind(0, "p", "n-1")
    await play.evict(10, "p")
    assert everyone(await play.look(11)) == []


async def test_restored_bare_pod_waits_again_and_notes_its_eviction_time() -> None:
    play = Placed(bare("p", stop_seconds=3, annotations={"a": "1"}, restart_policy="OnFailure"))
    before = await play.pod(0, "p")
    await play.bind(0, "p", "n-1")
    await play.evict(10, "p", restore=True)
    assert await play.waiting(12.9) == []
    after = await play.pod(13, "p")
    assert (after.node, after.created, after.phase) == ("", START + 13, "Pending")
    assert after.annotations == {"a": "1", RESUMED: str(START + 10)}
    assert after.uid != before.uid
    assert after.needs == before.needs


async def test_evicted_pod_of_a_job_returns_without_losing_messages() -> None:
    jobs = {"name": "j", "arrivals": {"formula": "4"}, "per_job": 4, "run_seconds": 50, **OURS}
    play = Placed(jobs=[jobs])
    set_ = next(iter(play.cluster.world.workloads.values()))
    await play.cluster.act(Create(set_.ref, set_.uid, 0, 1, "", "hash", 1))
    first = await play.pod(0, "j-hash-1-pod")
    assert first.owner[:2] == ("Job", "j-hash-1")
    assert first.needs.restart == "Never"
    await play.bind(0, first.name, "n-1")
    await play.evict(20, first.name)
    second = await play.pod(21, first.name)
    assert (second.node, second.uid == first.uid) == ("", False)
    await play.bind(30, first.name, "n-2")
    found = await play.cluster.usage(START + 90)
    assert [sample.value for sample in found.workloads["queue_length"]["default/Job/j"]] == [0.0]


@pytest.mark.parametrize(
    ("least", "result", "code"),
    [
        pytest.param(1, "done", 201, id="one more is ready than must be"),
        pytest.param(2, "refused", 429, id="as many are ready as must be"),
    ],
)
async def test_a_budget_refuses_an_eviction_that_would_overdraw_it(least: int, result: str, code: int) -> None:
    budget = {"name": "web", "selector": {"app": "web"}, "min_available": least}
    play = Placed(ours(replicas=2, stop_seconds=3), budgets=[budget])
    for name in ("web-000001", "web-000002"):
        await play.bind(0, name, "n-1")
    answer = await play.evict(5, "web-000001")
    assert (answer.result, answer.code) == (result, code)
    assert answer.reason == ("" if result == "done" else "Budget")
    assert (await play.pod(5, "web-000001")).deleted == (result == "done")


@pytest.mark.parametrize(("least", "result"), [(1, "done"), (2, "refused")])
async def test_a_trial_answers_as_the_eviction_would_and_evicts_nobody(least: int, result: str) -> None:
    budget = {"name": "web", "selector": {"app": "web"}, "min_available": least}
    play = Placed(ours(replicas=2), budgets=[budget])
    for name in ("web-000001", "web-000002"):
        await play.bind(0, name, "n-1")
    pod = await play.pod(5, "web-000001")
    assert (await play.cluster.act(TryEvict(Evict(pod.ref, pod.uid, "n-1")))).result == result
    assert await play.on(6) == {"n-1": ["web-000001", "web-000002"]}


async def test_a_stopping_pod_is_not_ready_for_a_budget() -> None:
    budget = {"name": "web", "selector": {"app": "web"}, "min_available": 1}
    play = Placed(ours(replicas=2, stop_seconds=30), budgets=[budget])
    for name in ("web-000001", "web-000002"):
        await play.bind(0, name, "n-1")
    assert [(await play.evict(5, name)).code for name in ("web-000001", "web-000002")] == [201, 429]
    (found,) = (await play.look(6)).budgets()
    assert (len(found.pods), found.allowed) == (1, 0), "the one that stays; the one that comes has not started"


@pytest.mark.parametrize(
    ("policy", "ready", "code"),
    [
        pytest.param("IfHealthyBudget", 1, 201, id="beside enough that are ready"),
        pytest.param("IfHealthyBudget", 0, 429, id="where too few are ready"),
        pytest.param("AlwaysAllow", 0, 201, id="always"),
    ],
)
async def test_unready_pod_is_evicted_according_to_its_budget_policy(policy: str, ready: int, code: int) -> None:
    budget = {"name": "all", "min_available": 1, "unhealthy_pod_eviction_policy": policy}
    play = Placed(ours("sick", ready_seconds=1000), bare("well", replicas=1), budgets=[budget])
    await play.bind(0, "sick-000001", "n-1")
    if ready:
        await play.bind(0, "well", "n-2")
    sick = await play.pod(5, "sick-000001")
    assert (sick.phase, sick.ready) == ("Running", False)
    assert (await play.evict(5, "sick-000001")).code == code


async def test_pod_with_two_budgets_cannot_be_evicted_unless_unbound() -> None:
    budgets = [{"name": name, "min_available": 0} for name in ("a", "b")]
    play = Placed(bare("p", replicas=2), budgets=budgets)
    await play.bind(0, "p-1", "n-1")
    answer = await play.evict(5, "p-1")
    assert (answer.result, answer.code, answer.reason) == ("refused", 500, "Budgets")
    assert (await play.evict(5, "p-2")).result == "done"


async def test_budgets_count_the_ready_pods_of_their_namespace_and_labels() -> None:
    budgets = [
        {"name": "all", "min_available": 1},
        {"name": "web", "selector": {"app": "web"}, "min_available": 1},
        {"name": "none", "namespace": "elsewhere", "min_available": 0},
    ]
    play = Placed(ours(replicas=2), bare("p"), budgets=budgets)
    await play.bind(0, "web-000001", "n-1")
    await play.bind(0, "p", "n-2")
    found = {one.name: (len(one.pods), one.allowed) for one in (await play.look(5)).budgets()}
    assert found == {"all": (2, 1), "web": (1, 0), "none": (0, 0)}, "one of the three has not started"
    assert all(isinstance(one, DisruptionBudget) for one in (await play.look(5)).budgets())


async def test_nomination_stays_on_the_pod_until_removed_or_bound() -> None:
    play = Placed(ours())
    pod = await play.pod(0, "web-000001")
    for node in ("n-1", "", "n-2"):
        assert (await play.cluster.act(Nominate(pod.ref, pod.uid, node))).result == "done"
        assert (await play.pod(0, "web-000001")).nominated == node
    await play.bind(1, "web-000001", "n-1")
    assert (await play.pod(1, "web-000001")).nominated == ""


async def test_bare_pods_come_and_go_and_belong_to_no_workload() -> None:
    play = Placed(bare("p", replicas=3, at=10, every=20, run_seconds=5, restart_policy="Never"))
    assert [await play.waiting(t) for t in (9.9, 10, 30)] == [[], ["p-1"], ["p-1", "p-2"]]
    assert (await play.pod(30, "p-2")).created == START + 30
    await play.bind(30, "p-1", "n-1")
    assert [(await play.on(t)).get("n-1", []) for t in (36.9, 37)] == [["p-1"], []]
    snapshot = await play.cluster.observe(START + 40, frozenset({("v1", "Node"), ("apps/v1", "Deployment")}))
    assert list(snapshot.workloads()) == []


async def test_what_bare_pods_use_is_measured_alone_or_together() -> None:
    demand = {"formula": "1"}
    play = Placed(bare("one", demand=demand), bare("two", replicas=2, demand=demand))
    for name in ("one", "two-1", "two-2"):
        await play.bind(0, name, "n-1" if name == "one" else "n-2")
    cpu = (await play.cluster.usage(START + 10)).pods["cpu"]
    assert {key: samples[0].value for key, samples in cpu.items()} == {
        "default/one": 1.0, "default/two-1": 0.5, "default/two-2": 0.5,
    }  # fmt: skip
    assert cpu.get("default/one") == cpu["default/one"]
    nodes = (await play.cluster.node_usage(START + 10)).nodes["cpu"]
    assert {node: samples[0].value for node, samples in nodes.items()} == {"n-1": 1.0, "n-2": 1.0}


async def test_pods_on_a_node_are_one_sequence_until_they_change() -> None:
    play = Placed(ours(replicas=3))
    await play.bind(0, "web-000002", "n-1")
    await play.bind(0, "web-000001", "n-2")
    first = (await play.look(5)).on_nodes()
    assert (await play.look(6)).on_nodes() is first
    await play.bind(7, "web-000003", "n-2")
    second = (await play.look(8)).on_nodes()
    assert second["n-1"] is first["n-1"]
    assert [pod.name for pod in second["n-2"]] == ["web-000001", "web-000003"]
    assert [pod.name for pod in first["n-2"]] == ["web-000001"], "an older snapshot stays as it was"


async def test_pending_pods_are_sorted_and_exclude_those_being_deleted() -> None:
    play = Placed(ours("z"), ours("a", namespace="zoo"), ours("b"), bare("c", stop_seconds=9))
    await play.bind(0, "c", "n-1")
    assert await play.waiting(0) == ["b-000001", "z-000001", "a-000001"]
    first = (await play.look(3)).pending()
    assert (await play.look(4)).pending() is first


async def test_change_callback_hears_what_may_matter_to_pending_pods() -> None:
    play = Placed(ours(stop_seconds=3), bare("p", at=20), nodes=[{**SMALL, "changes": [{"at": 30}]}])
    cluster: Cluster = play.cluster
    heard: list[float] = []
    await play.look(0)
    cluster.on_change(lambda: heard.append(play.clock.now() - START))
    await play.bind(1, "web-000001", "n-1")
    for t in range(2, 10):
        await play.look(t)
    assert heard == []
    await play.evict(10, "web-000001")  # another comes at once, and after 3 s there is room
    for t in range(11, 40):
        await play.look(t)
    assert heard == [10, 13, 20, 30]


async def test_scaling_a_workload_of_another_scheduler_is_heard_too() -> None:
    play = Placed(ours())
    heard: list[float] = []
    workload = await play.workload(1)
    play.cluster.on_change(lambda: heard.append(play.clock.now() - START))
    scaled: Scale = scale_to(workload, 2)
    await play.cluster.act(scaled)
    assert heard == [1]


async def test_the_simulated_scheduler_places_the_more_important_pod_first() -> None:
    node = {"name": "n", "cpu": "1", "memory": "8Gi"}
    play = Play(web(cpu="1", replicas=2), {"name": "high", "cpu": "1", "priority": 9}, nodes=[node])
    (first,) = (await play.look(0)).on_nodes()["n"]
    assert first.name == "high-000001"
