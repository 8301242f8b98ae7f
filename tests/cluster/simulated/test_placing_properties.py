"""What holds for every simulated cluster, whoever binds, evicts and notes pods there, and whatever becomes of nodes."""

import asyncio
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from elasticd.kit.node_table import needed, whole
from elasticd.model.actions import Answer, Bind, Evict, Nominate
from elasticd.model.workload import Pod
from tests.cluster.simulated.test_kit import Play
from tests.cluster.simulated.test_placing import everyone

SECONDS = st.sampled_from([0.0, 1.0, 4.0, 30.0])
NAMES = ("n-1", "n-2", "m", "nowhere")
PODS = st.fixed_dictionaries(
    {
        "scheduler": st.sampled_from(["elasticd", "default-scheduler"]),
        "replicas": st.integers(0, 4),
        "cpu": st.sampled_from(["300m", "1"]),
        "memory": st.sampled_from(["100Mi", "1Gi"]),
        "ports": st.sampled_from([[], [{"number": 80}]]),
        "resources": st.sampled_from([{}, {"ephemeral-storage": "1Gi"}]),
        "start_seconds": SECONDS,
        "stop_seconds": SECONDS,
    }
)
KINDS = st.sampled_from([{}, {"kind": "StatefulSet"}, {"bare": True}, {"bare": True, "restart_policy": "Never"}])
CHANGES = st.lists(
    st.fixed_dictionaries(
        {"at": st.floats(0, 90)},
        optional={"ready": st.booleans(), "unschedulable": st.booleans(), "gone": st.booleans()},
    ),
    max_size=3,
)
STEPS = st.lists(
    st.tuples(
        SECONDS,
        st.sampled_from(["bind", "evict", "restore", "nominate"]),
        st.integers(0, 9),
        st.sampled_from(NAMES),
    ),
    max_size=12,
)
TABLES = st.tuples(PODS, KINDS, PODS, KINDS)


def cluster(tables: tuple[dict[str, Any], ...], changes: list[dict[str, Any]], least: int = 0) -> Play:
    """Two workloads on three nodes, one of which changes."""
    workloads = [{"name": "a", **tables[0], **tables[1]}, {"name": "b", **tables[2], **tables[3]}]
    node = {"cpu": "1", "memory": "3Gi", "pods": 3, "resources": {"ephemeral-storage": "2Gi"}}
    nodes = [{"name": "n", "count": 2, **node}, {"name": "m", **node, "changes": changes}]
    budgets = [{"name": "b", "selector": {"app": "b"}, "min_available": least}]
    return Play(*workloads, nodes=nodes, budgets=budgets)


async def step(play: Play, t: float, what: str, number: int, node: str) -> Answer | None:
    """Do it to one of the pods that there are."""
    pods = sorted({pod.uid: pod for pod in everyone(await play.look(t))}.values(), key=lambda pod: pod.name)
    if not pods:
        return None
    pod = pods[number % len(pods)]
    if what == "bind":
        return await play.cluster.act(Bind(pod.ref, pod.uid, node))
    if what == "nominate":
        return await play.cluster.act(Nominate(pod.ref, pod.uid, node))
    return await play.cluster.act(Evict(pod.ref, pod.uid, pod.node, restore=what == "restore" and not pod.owner[0]))


async def steps(play: Play, script: list[tuple[float, str, int, str]], looks: int = 1) -> list[Any]:
    """What is seen after each step, and long after the last."""
    t, seen = 0.0, []
    for wait, what, number, node in script:
        for part in range(looks):
            await play.look(t + wait * part / looks)
        t += wait
        await step(play, t, what, number, node)
        seen.append(await shown(play, t))
    return [*seen, await shown(play, t + 500)]


async def shown(play: Play, t: float) -> Any:
    snapshot = await play.look(t)
    free = {room.node.name: room.free for room in snapshot.rooms()}
    return snapshot.pending(), dict(snapshot.on_nodes()), snapshot.nodes(), free, snapshot.budgets()


@given(TABLES, CHANGES, STEPS)
def test_no_node_is_overfull_and_no_pod_is_duplicated(tables: Any, changes: Any, script: Any) -> None:
    for pending, on, nodes, free, _ in asyncio.run(steps(cluster(tables, changes), script)):
        everywhere: list[Pod] = [*pending, *(pod for pods in on.values() for pod in pods)]
        assert max(Counter(pod.uid for pod in everywhere).values(), default=0) <= 1
        assert max(Counter((pod.namespace, pod.name) for pod in everywhere).values(), default=0) <= 1
        assert all(pod.node == node for node, pods in on.items() for pod in pods)
        assert not any(pod.node or pod.deleted for pod in pending)
        for node in nodes:
            admitted = [pod for pod in on.get(node.name, ()) if pod.started is not None]
            taken = Counter[str]()
            for pod in admitted:
                taken.update(needed(pod))
            assert all(amount <= whole(name, node.allocatable[name]) for name, amount in taken.items())
            assert sum(len(pod.needs.ports) for pod in admitted) <= 1
            assert free[node.name]["pods"] == 3 - len(on.get(node.name, ()))


@given(TABLES, CHANGES, STEPS)
def test_state_at_a_time_does_not_depend_on_earlier_looks(tables: Any, changes: Any, script: Any) -> None:
    once = asyncio.run(steps(cluster(tables, changes), script))
    assert once == asyncio.run(steps(cluster(tables, changes), script, looks=3))


@given(TABLES, CHANGES, STEPS)
def test_a_controller_has_as_many_pods_as_are_asked_for(tables: Any, changes: Any, script: Any) -> None:
    """At the end, when its nodes answer: before, a StatefulSet's pod that does not stop keeps its name."""

    async def run() -> None:
        play = cluster(tables, [*changes, {"at": 95.0, "ready": True, "gone": False}])
        await steps(play, script)
        for name, table, kind in (("a", tables[0], tables[1]), ("b", tables[2], tables[3])):
            if "bare" not in kind:
                live = [
                    pod for pod in (await play.pods(9999, name)).values() if not pod.deleted and pod.phase != "Failed"
                ]
                assert len(live) == table["replicas"]

    asyncio.run(run())


@given(TABLES, STEPS, st.integers(0, 3))
def test_evictions_leave_the_ready_pods_that_a_budget_requires(tables: Any, script: Any, least: int) -> None:
    """Where nothing but evictions and binds happens."""
    tables = (*tables[:2], {**tables[2], "replicas": 4, "scheduler": "default-scheduler"}, tables[3])

    async def run() -> None:
        play = cluster(tables, [], least)
        t = 0.0
        for wait, what, number, node in script:
            t += wait
            before = await ready(play, t)
            await step(play, t, what, number, node)
            after = await ready(play, t)
            assert after >= min(before, least)

    asyncio.run(run())


async def ready(play: Play, t: float) -> int:
    """How many pods of b are ready and stay."""
    pods = [pod for pods in (await play.look(t)).on_nodes().values() for pod in pods]
    return sum(pod.labels["app"] == "b" and pod.ready is True and not pod.deleted for pod in pods)


@given(TABLES, CHANGES, STEPS)
def test_a_bare_pod_that_is_restored_is_never_lost(tables: Any, changes: Any, script: Any) -> None:
    """With evictions that all restore, and a node that does not vanish, each is there at the end under its name."""
    script = [(wait, "restore" if what == "evict" else what, *more) for wait, what, *more in script]
    script = [entry for entry in script if entry[3] != "nowhere"]
    changes = [{key: value for key, value in change.items() if key not in ("gone", "ready")} for change in changes]

    async def run() -> None:
        play = cluster(tables, changes)
        await steps(play, script)
        expected = {
            pod_name
            for name, table, kind in (("a", tables[0], tables[1]), ("b", tables[2], tables[3]))
            if "bare" in kind
            for pod_name in (
                [name] if table["replicas"] == 1 else [f"{name}-{i + 1}" for i in range(table["replicas"])]
            )
        }
        there = {key[1] for key in play.cluster.world._pods}
        assert expected <= there

    asyncio.run(run())
