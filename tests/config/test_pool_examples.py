"""The worked examples of policies about pods, each run on a small cluster by the clock of a simulation of plans."""

from pathlib import Path
from typing import Any

import pytest

from elasticd.kit.node_table import NodeTable
from elasticd.model.actions import Evict
from elasticd.model.placement import PodDecision
from elasticd.model.workload import Pod
from elasticd.registry import discover
from tests.kit.policies import load_pool
from tests.kit.pools import GIB, MIB, NOW, columns, node, planned, pod

EXAMPLES = Path(__file__).resolve().parents[2] / "config" / "policies"
REGISTRY = discover()


def run(example: str, view: NodeTable, *pods: Pod, **more: Any) -> dict[str, PodDecision]:
    """What the example decides about these pods, by name; none of its strategies may fail."""
    policy = load_pool(EXAMPLES / f"{example}.toml", REGISTRY)
    assert all(policy.pool.has(one) for one in pods)
    decisions = planned(policy.strategies, view, pods, pool=policy.pool, **more)
    assert [one.failures for one in decisions if one.failures] == []
    return {one.pod.name: one for one in decisions}


def redis(name: str, **more: Any) -> Pod:
    return pod(name, cpu=1, namespace="cache", labels={"app": "redis"}, **more)


def test_weak_binding_fills_the_fast_disks_before_other_nodes() -> None:
    view = columns([node("fast", cpu=2, labels={"example.com/disk": "nvme"}), node("slow", cpu=8)])
    found = run("binding-weak", view, *[redis(f"r{number}") for number in range(3)])
    assert [one.node for one in found.values()] == ["fast", "fast", "slow"]


def test_strong_binding_waits_where_no_node_matches() -> None:
    view = columns([node("old", labels={"example.com/certified": "pci", "example.com/generation": "3"}), node("any")])
    cards = pod("cards", namespace="payments", labels={"example.com/data": "cards"})
    found = run("binding-strong", view, cards, pod("other", namespace="payments"))
    assert (found["cards"].verdict, found["cards"].reason) == ("wait", "NoNodeMatches")
    assert found["other"].verdict == "bind"


def test_strong_binding_takes_its_room_from_lesser_pods() -> None:
    certified = {"example.com/certified": "pci", "example.com/generation": "4"}
    there = pod("there", cpu=1, on="vault", namespace="payments", started=NOW - 600, owner=("Job", "j", "u"))
    view = columns([node("vault", cpu=1, labels=certified), node("any")], [there])
    cards = pod("cards", cpu=1, namespace="payments", labels={"example.com/data": "cards"}, priority=10)
    found = run("binding-strong", view, cards)
    assert (found["cards"].verdict, found["cards"].node) == ("preempt", "vault")


def test_batch_preemption_evicts_the_least_important_and_no_more() -> None:
    more: dict[str, Any] = {"on": "a", "namespace": "research", "started": NOW - 600, "owner": ("Job", "j", "u")}
    there = [pod("small", cpu=1, restart="Never", **more), pod("kept", cpu=1, priority=5, **more)]
    found = run(
        "preemption", columns([node("a", cpu=2)], there), pod("urgent", cpu=1, namespace="research", priority=9)
    )
    evicted = [one.workload.name for one in found["urgent"].actions if isinstance(one, Evict)]
    assert (found["urgent"].verdict, evicted) == ("preempt", ["small"])


def test_load_balanced_placement_follows_usage_and_spreads_a_burst() -> None:
    general = {"example.com/pool": "general"}
    nodes = [node("busy", labels=general), node("idle", labels=general), node("idler", labels=general)]
    use = {"cpu": {"busy": 3.5, "idle": 0.5, "idler": 0.4}, "memory": dict.fromkeys(("busy", "idle", "idler"), GIB)}
    pods = [pod(f"p{number}", cpu=0.3, namespace="shop") for number in range(4)]
    found = run("load-balance", columns(nodes, use=use), *pods)
    assert found["p0"].node == "idler"
    assert {one.node for one in found.values()} == {"idle", "idler"}


def test_bald_eagle_placement_puts_a_batch_within_every_resource() -> None:
    render = {"example.com/pool": "render"}
    disk = {"ephemeral-storage": 100 * GIB, "elasticd.io/bandwidth": 10e9}
    nodes = [node(name, cpu=4, memory=8 * GIB, resources=disk, labels=render) for name in "abc"]
    asks = {"ephemeral-storage": 20 * GIB, "elasticd.io/bandwidth": 1e9}
    pods = [
        pod(f"p{number:02d}", cpu=0.5, memory=256 * MIB, namespace="render", resources=asks) for number in range(18)
    ]
    found = run("bald-eagle", columns(nodes), *pods)
    counts = [sum(one.node == name for one in found.values()) for name in "abc"]
    assert counts == [5, 5, 5]
    assert sum(one.verdict == "wait" for one in found.values()) == 3


@pytest.mark.parametrize(
    "example", sorted(path.stem for path in EXAMPLES.glob("*.toml") if "[pool]" in path.read_text())
)
def test_every_example_runs_on_a_pool_without_measurements(example: str) -> None:
    policy = load_pool(EXAMPLES / f"{example}.toml", REGISTRY)
    nodes = [node(name, labels=policy.pool.nodes) for name in "ab"]
    namespace = policy.pool.namespaces[0] if policy.pool.namespaces[0] != "*" else "shop"
    found = run(example, columns(nodes), pod("p", namespace=namespace, labels=policy.pool.labels))
    assert found["p"].verdict in ("bind", "wait")
