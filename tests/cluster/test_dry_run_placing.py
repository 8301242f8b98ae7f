"""A dry run of placing: pods are seen where they would have been put, and stay where they are."""

from typing import Any

import pytest

from elasticd.cluster.dry_run import DryRun, DryRunSnapshot, Pretence
from elasticd.journal import Journal
from elasticd.model.actions import Action, Answer, Bind, Evict, Nominate, TryEvict
from elasticd.model.workload import Pod, Ref
from elasticd.runtime.pools.placer import Placer
from tests.cluster.simulated.test_kit import START
from tests.cluster.simulated.test_placing import SMALL, Placed, bare, ours
from tests.kit.clusters import Shown
from tests.kit.placers import Heard, pool
from tests.kit.pools import pod

NODE = {"name": "n", "count": 2, "cpu": "1", "memory": "4Gi"}


class Dry:
    """A dry run over a simulated cluster of two nodes, n-1 and n-2."""

    def __init__(self, *workloads: dict[str, Any], **options: Any) -> None:
        self.real = Placed(*workloads, **{"nodes": [NODE], **options})
        self.cluster = DryRun(self.real.cluster)

    async def look(self, t: float) -> DryRunSnapshot:
        await self.real.clock.sleep_until(START + t)
        return await self.cluster.observe(START + t, frozenset())

    async def pod(self, t: float, name: str) -> Pod:
        snapshot = await self.look(t)
        pods = [*snapshot.pending(), *(pod for pods in snapshot.on_nodes().values() for pod in pods)]
        return next(pod for pod in pods if pod.name == name)

    async def act(self, t: float, kind: type[Bind | Evict | Nominate], name: str, node: str) -> Answer:
        pod = await self.pod(t, name)
        return await self.cluster.act(kind(pod.ref, pod.uid, node))

    async def waiting(self, t: float) -> list[str]:
        return [pod.name for pod in (await self.look(t)).pending()]

    async def on(self, t: float) -> dict[str, list[str]]:
        found = (await self.look(t)).on_nodes()
        return {node: [pod.name for pod in pods] for node, pods in found.items() if pods}


async def test_pod_bound_in_pretence_appears_on_its_node_but_waits() -> None:
    dry = Dry(ours(replicas=2))
    answer = await dry.act(5, Bind, "web-000001", "n-1")
    assert (answer.result, answer.message) == ("done", "dry run: not sent")
    assert (await dry.waiting(6), await dry.on(6)) == (["web-000002"], {"n-1": ["web-000001"]})
    assert (await dry.pod(6, "web-000001")).node == "n-1"
    assert await dry.real.waiting(6) == ["web-000001", "web-000002"]


async def test_pod_bound_in_pretence_counts_as_running_from_then_on() -> None:
    dry = Dry(ours(replicas=2))
    await dry.act(5, Bind, "web-000001", "n-1")
    there = await dry.pod(60, "web-000001")
    assert (there.phase, there.ready, there.started) == ("Running", True, START + 5)


async def test_pod_evicted_in_pretence_is_hidden_and_really_runs() -> None:
    dry = Dry(ours(replicas=2))
    for name in ("web-000001", "web-000002"):
        await dry.real.bind(0, name, "n-1")
    assert (await dry.act(5, Evict, "web-000001", "n-1")).result == "done"
    assert await dry.on(6) == {"n-1": ["web-000002"]}
    assert await dry.waiting(6) == [], "what would come instead is not invented"
    assert await dry.real.on(6) == {"n-1": ["web-000001", "web-000002"]}
    assert (await dry.act(7, Bind, "web-000002", "n-2")).result == "conflict", "it waits for no node"


async def test_rooms_are_what_would_be_left_of_the_nodes() -> None:
    dry = Dry(ours(replicas=3))
    await dry.real.bind(0, "web-000001", "n-1")
    real = await dry.look(1)
    assert real.rooms() is real.real.rooms()
    await dry.act(2, Bind, "web-000002", "n-2")
    await dry.act(2, Evict, "web-000001", "n-1")
    rooms = (await dry.look(3)).rooms()
    assert {room.node.name: round(room.free["cpu"], 6) for room in rooms} == {"n-1": 1.0, "n-2": 0.6}


async def test_nomination_is_seen_until_the_pod_is_bound_in_pretence() -> None:
    dry = Dry(ours())
    assert (await dry.act(1, Nominate, "web-000001", "n-2")).result == "done"
    assert [(await dry.pod(2, "web-000001")).nominated, (await dry.real.pod(2, "web-000001")).nominated] == ["n-2", ""]
    await dry.act(3, Bind, "web-000001", "n-2")
    assert (await dry.pod(4, "web-000001")).nominated == ""


async def test_a_dry_run_spends_what_a_budget_allows() -> None:
    budget = {"name": "web", "selector": {"app": "web"}, "min_available": 1}
    dry = Dry(ours(replicas=2), budgets=[budget])
    for name in ("web-000001", "web-000002"):
        await dry.real.bind(0, name, "n-1")
    assert [one.allowed for one in (await dry.look(5)).budgets() or ()] == [1]
    assert (await dry.act(5, Evict, "web-000001", "n-1")).result == "done"
    answer = await dry.act(5, Evict, "web-000002", "n-1")
    assert (answer.result, answer.reason) == ("refused", "Budget")
    (left,) = (await dry.look(6)).budgets() or ()
    assert (len(left.pods), left.allowed) == (1, 0)


async def test_a_trial_in_a_dry_run_answers_and_spends_nothing() -> None:
    dry = Dry(ours(replicas=2), budgets=[{"name": "web", "selector": {"app": "web"}, "min_available": 1}])
    for name in ("web-000001", "web-000002"):
        await dry.real.bind(0, name, "n-1")
    first, second = [await dry.pod(5, name) for name in ("web-000001", "web-000002")]
    trials = [TryEvict(Evict(one.ref, one.uid, "n-1")) for one in (first, second)]
    assert [(await dry.cluster.act(trial)).result for trial in trials] == ["done", "done"]
    await dry.cluster.act(trials[0].evict)
    assert [(await dry.cluster.act(trial)).reason for trial in trials] == ["", "Budget"]


async def test_where_budgets_are_not_known_nobody_would_have_been_evicted() -> None:
    class Blind(Shown):
        def on_nodes(self) -> dict[str, tuple[Pod, ...]]:
            return {"n": (lesser,)}

        def budgets(self) -> None:
            return None

    lesser = pod("lesser", on="n")
    pods = DryRunSnapshot(Blind(), {}, Pretence(), {})
    answer = pods.after(Evict(lesser.ref, lesser.uid, "n"))
    assert isinstance(answer, Answer)
    assert (answer.result, answer.reason) == ("refused", "Budget")
    assert pods.budgets() is None


async def test_pod_bound_and_then_evicted_in_pretence_waits_again() -> None:
    dry = Dry(ours())
    await dry.act(1, Bind, "web-000001", "n-1")
    assert (await dry.act(2, Evict, "web-000001", "n-1")).result == "done"
    assert (await dry.waiting(3), await dry.on(3)) == (["web-000001"], {})


async def test_repeated_eviction_is_pretended_once_and_a_real_one_never() -> None:
    dry = Dry(ours(stop_seconds=60))
    await dry.real.bind(0, "web-000001", "n-1")
    pod = await dry.pod(5, "web-000001")
    for _ in range(2):
        assert (await dry.cluster.act(Evict(pod.ref, pod.uid, "n-1"))).result == "done"
    assert await dry.on(6) == {}
    dry = Dry(ours(stop_seconds=60))
    await dry.real.bind(0, "web-000001", "n-1")
    await dry.real.evict(5, "web-000001")
    assert (await dry.act(6, Evict, "web-000001", "n-1")).result == "done"
    assert await dry.on(7) == {"n-1": ["web-000001"]}, "its room is taken until it is gone"


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        pytest.param(Bind(Ref("default", "Pod", "web-000001", "v1"), "another", "n-1"), "Conflict", id="bind"),
        pytest.param(Evict(Ref("default", "Pod", "web-000001", "v1"), "another", "n-1"), "Conflict", id="evict"),
        pytest.param(Nominate(Ref("default", "Pod", "web-000001", "v1"), "another", "n-1"), "Conflict", id="nominate"),
    ],
)
async def test_what_was_judged_on_another_pod_conflicts(action: Action, reason: str) -> None:
    dry = Dry(ours())
    assert (await dry.cluster.act(action)).reason == "NotFound", "before the first look"
    await dry.look(1)
    answer = await dry.cluster.act(action)
    assert (answer.result, answer.reason, answer.message[:9]) == ("conflict", reason, "dry run: ")
    assert await dry.waiting(2) == ["web-000001"]


async def test_the_second_of_two_binds_of_a_pod_conflicts() -> None:
    dry = Dry(ours())
    pod = await dry.pod(1, "web-000001")
    found = [(await dry.cluster.act(Bind(pod.ref, pod.uid, node))).result for node in ("n-1", "n-2")]
    assert found == ["done", "conflict"]
    assert await dry.on(2) == {"n-1": ["web-000001"]}


async def test_what_really_happened_is_pretended_no_longer() -> None:
    changes = [{"at": 50, "gone": True}]
    nodes = [SMALL, {"name": "m", "cpu": "1", "memory": "4Gi", "changes": changes}]
    dry = Dry(ours(replicas=3), bare("old"), nodes=nodes)
    await dry.real.bind(0, "old", "n-1")
    await dry.act(1, Bind, "web-000001", "n-1")
    await dry.act(1, Bind, "web-000002", "m")
    await dry.act(1, Nominate, "web-000003", "n-2")
    await dry.act(1, Evict, "old", "n-1")
    assert (await dry.on(2), await dry.waiting(2)) == (
        {"m": ["web-000002"], "n-1": ["web-000001"]},
        ["web-000003"],
    )
    await dry.real.bind(10, "web-000001", "n-2")
    await dry.real.bind(10, "web-000003", "n-1")
    assert await dry.on(11) == {"m": ["web-000002"], "n-1": ["web-000003"], "n-2": ["web-000001"]}
    assert (await dry.pod(11, "web-000003")).nominated == ""
    await dry.real.evict(20, "old")
    assert await dry.on(21) == await dry.real.on(21) | {"m": ["web-000002"]}
    assert await dry.waiting(50) == ["web-000002"], "its node is gone"
    assert await dry.waiting(51) == await dry.real.waiting(51)


async def test_snapshot_is_the_real_one_once_nothing_is_pretended() -> None:
    dry = Dry(ours(replicas=2))
    await dry.real.bind(0, "web-000001", "n-1")
    await dry.act(1, Evict, "web-000001", "n-1")
    await dry.act(1, Bind, "web-000002", "n-1")
    await dry.real.evict(2, "web-000001")
    await dry.real.bind(2, "web-000002", "n-2")
    seen = await dry.look(3)
    assert seen.on_nodes() is seen.real.on_nodes()
    assert seen.pending() is seen.real.pending()
    assert seen.rooms() is seen.real.rooms()


async def test_pods_on_an_unchanged_node_stay_the_same_sequence() -> None:
    dry = Dry(ours(replicas=3))
    await dry.real.bind(0, "web-000001", "n-2")
    await dry.act(5, Bind, "web-000002", "n-1")
    first = await dry.look(6)
    seen = first.on_nodes()
    await dry.act(7, Bind, "web-000003", "n-2")
    second = (await dry.look(8)).on_nodes()
    assert second["n-1"] is seen["n-1"]
    assert [pod.name for pod in second["n-2"]] == ["web-000001", "web-000003"]
    assert [pod.name for pod in first.on_nodes()["n-2"]] == ["web-000001"]
    assert [pod.name for pod in first.pending()] == ["web-000003"]


async def test_a_dry_run_makes_room_once_and_then_rests() -> None:
    """An important pod takes the place of two lesser ones, which are evicted once; another still waits."""
    dry = Dry(ours(replicas=5), ours("high", priority=9, cpu="1"))
    for number, node in enumerate(("n-1", "n-1", "n-2", "n-2"), 1):
        await dry.real.bind(0, f"web-00000{number}", node)
    heard, clock = Heard(), dry.real.clock

    async def look(now: float) -> DryRunSnapshot:
        return await dry.cluster.observe(now, frozenset())

    placer = Placer(dry.cluster, look, Journal(), clock, [heard])
    placer.apply([pool()])
    while clock.now() < START + 60:
        await placer.step()
        await placer.actions.drain()
    assert [(name, node) for _, name, node in heard.did("evict")] == [("web-000001", "n-1"), ("web-000002", "n-1")]
    assert [(name, node) for _, name, node in heard.did("bind")] == [("high-000001", "n-1")]
    assert await dry.on(60) == {"n-1": ["high-000001"], "n-2": ["web-000003", "web-000004"]}
    assert await dry.waiting(60) == ["web-000005"]
    running = {"n-1": ["web-000001", "web-000002"], "n-2": ["web-000003", "web-000004"]}
    assert await dry.real.on(60) == running
