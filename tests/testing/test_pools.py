"""What plugin authors build pools from: nodes, pods, tables of nodes, and whole plans."""

from collections.abc import Callable, Sequence

import numpy as np

from elasticd.api import Move, Nodes, Pod, PoolObservation, PoolPast, PoolStrategy, Refusal, hookimpl
from elasticd.testing import GIB, NOW, judge_moves, judge_pods, node, node_table, pod, pool_observation


class Fits(PoolStrategy, tag="fits", frozen=True):
    """Keeps pods off nodes with too little cpu left, and sends those away that run on a node that uses too much."""

    most: float = 3.0

    @hookimpl
    def filter_nodes(self, pod: Pod, nodes: Nodes) -> Sequence[Refusal]:
        wanted = round(pod.counted["cpu"] * 1000)
        return [Refusal("Insufficient cpu", nodes.requested("cpu") + wanted > nodes.allocatable("cpu"), curable=True)]

    @hookimpl
    def rebalance_nodes(self, nodes: Nodes, movable: Callable[[Pod], bool]) -> Sequence[Move]:
        loaded = np.flatnonzero(nodes.use("cpu") > self.most)
        return [Move(pod, "Loaded") for index in loaded for pod in nodes.pods(int(index)) if movable(pod)]


def test_a_node_has_what_it_is_given() -> None:
    made = node("a", cpu=2, resources={"example.com/gpu": 1.0}, labels={"zone": "x"}, unschedulable=True)
    assert made.allocatable == {"cpu": 2, "memory": 8 * GIB, "pods": 110.0, "example.com/gpu": 1.0}
    assert made.labels == {"kubernetes.io/hostname": "a", "zone": "x"}
    assert (made.ready, made.unschedulable) == (True, True)


def test_a_pod_waits_or_runs_on_a_node() -> None:
    waiting, running = pod("w", priority=5), pod("r", on="a", labels={"app": "r"})
    assert (waiting.phase, waiting.node, waiting.needs.priority, waiting.ready) == ("Pending", "", 5, None)
    assert (running.phase, running.node, running.labels, running.ready) == ("Running", "a", {"app": "r"}, True)


def test_a_node_table_has_sorted_nodes_with_pods_and_usage() -> None:
    table = node_table([node("b"), node("a")], [pod("w", cpu=1, on="b")], use={"cpu": {"b": 0.5}})
    assert table.names == ("a", "b")
    assert table.requested("cpu").tolist() == [0, 1000]
    assert [one.name for one in table.pods(1)] == ["w"]
    assert np.isnan(table.use("cpu")[0])
    assert table.use("cpu")[1] == 0.5


def test_an_observation_is_of_now() -> None:
    seen = pool_observation([pod("w")], use={"cpu": {"default/w": 0.5}})
    assert isinstance(seen, PoolObservation)
    assert (seen.at, seen.confirmed, [one.name for one in seen.pending]) == (NOW, NOW, ["w"])


def test_a_filter_is_judged_by_where_pods_go() -> None:
    nodes = node_table([node("full", cpu=1), node("free", cpu=2)], [pod("r", cpu=1, on="full")])
    first, second = judge_pods(Fits(), nodes=nodes, seen=pool_observation([pod("w", cpu=1.5), pod("x", cpu=1.5)]))
    assert (first.verdict, first.node) == ("bind", "free")
    assert second.verdict == "wait"


def test_judge_moves_says_which_pod_goes_where() -> None:
    nodes = node_table(
        [node("hot"), node("cold")], [pod("r", on="hot", owner=("ReplicaSet", "web", "u"))], {"cpu": {"hot": 3.9}}
    )
    (decision,) = judge_moves(Fits(), nodes=nodes, past=PoolPast(), single=True)
    assert (decision.verdict, decision.pod.name, decision.node, decision.target) == ("move", "r", "hot", "cold")
