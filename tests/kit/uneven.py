"""A pool whose pods use what a formula says, unevenly: who moves pods is tried on it, cycle by cycle, without a clock.

Knows what a cluster does with evictions, and that what is measured is one cycle old; the numbers come from a seed.
Knows nothing of who moves pods, nor of who places them.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from math import pi, sin
from random import Random

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from elasticd.decision.pool.asking import PoolCase
from elasticd.decision.pool.moves import plan_moves
from elasticd.decision.pool.plan import plan
from elasticd.kit.node_table import NodeTable, NodeTableBuilder, estimated
from elasticd.model.moves import Look, Moved, MoveDecision, PoolPast
from elasticd.model.placement import PoolObservation
from elasticd.model.policy import MovesTable, PoolPolicy, PoolSelect, Strategy
from elasticd.model.workload import Node, Pod
from elasticd.registry import Hooks
from tests.kit.pools import GIB, NOW, node, pod

EVERY = 30.0
"""Seconds from cycle to cycle."""

CPU, MEMORY = 16.0, 64 * GIB
SERIES = ("cpu", "memory")

By = dict[str, dict[str, float]]
Mover = Callable[["Uneven"], Sequence[Pod]]
"""Which pods are evicted now."""


class Load(Struct, frozen=True):
    """Cores that a pod of a busy controller uses in the mean, and one of the others; by which part that swings, and in
    how many seconds at least; others take up to twelve times as long."""

    busy: float = 1.4
    idle: float = 0.4
    swing: float = 0.0
    period: float = 600.0


class Replica(Struct):
    """One of a controller's pods, whichever pod that is now: what it uses, and how that swings."""

    pod: Pod
    cpu: float
    memory: float
    swing: float
    period: float
    phase: float
    generation: int = 0

    def use(self, at: float) -> tuple[float, float]:
        """Cores and bytes."""
        wave = 1 + self.swing * sin(2 * pi * (at - NOW) / self.period + self.phase)
        return self.cpu * wave, self.memory


class Uneven:
    """Nodes with controllers' pods on them, placed by what they request, which says little of what they use."""

    def __init__(
        self,
        placing: Sequence[Strategy],
        *,
        nodes: int = 20,
        per_node: int = 10,
        load: Load | None = None,
        seed: int = 1,
    ) -> None:
        self.nodes: tuple[Node, ...] = tuple(node(f"n{i:03d}", CPU, MEMORY) for i in range(nodes))
        self.replicas = _replicas(nodes, per_node, load or Load(), seed)
        self.at, self.cycle = NOW, 0
        self.measured: tuple[By, By] = ({}, {})
        self.looks: list[Look] = []
        self.moved: list[Moved] = []
        self._placing, self._ledger = tuple(placing), NodeTableBuilder()
        self._hooks = Hooks(placing)
        self._bound: dict[str, float] = {}
        self.measure()

    def measure(self) -> None:
        """What nodes and pods use, as it will be known in the next cycle."""
        of_nodes: By = {series: dict.fromkeys((one.name for one in self.nodes), 0.0) for series in SERIES}
        of_pods: By = {series: {} for series in SERIES}
        for one in self.replicas:
            for series, used in zip(SERIES, one.use(self.at), strict=True):
                of_nodes[series][one.pod.node] += used
                of_pods[series][f"{one.pod.namespace}/{one.pod.name}"] = used
        self.measured = of_nodes, of_pods

    def use(self) -> By:
        """What nodes are known to use, with what those are thought to that came since."""
        found = {series: dict(by_node) for series, by_node in self.measured[0].items()}
        for one in self.replicas:
            if one.pod.node and f"{one.pod.namespace}/{one.pod.name}" not in self.measured[1]["cpu"]:
                for series in SERIES:
                    found[series][one.pod.node] += estimated(one.pod, series)
        return found

    def view(self, pods: Sequence[Pod]) -> NodeTable:
        """The nodes with these pods on them."""
        on: dict[str, list[Pod]] = {one.name: [] for one in self.nodes}
        for one in pods:
            on[one.node].append(one)
        return self._ledger.columns(self.nodes, on, self.use())

    def pods(self) -> list[Pod]:
        """All of them."""
        return [one.pod for one in self.replicas]

    def step(self, mover: Mover) -> int:
        """One cycle; how many pods were evicted."""
        evicted = {one.uid for one in mover(self)}
        pending = []
        for one in self.replicas:
            if one.pod.uid in evicted:
                self.moved.append(Moved(self.at, one.pod.owner[2], one.pod.node))
                one.generation += 1
                name = f"{one.pod.name.partition('.')[0]}.{one.generation}"
                one.pod = replace(one.pod, name=name, uid=f"uid-{name}", node="", ready=None, started=None)
                pending.append(one)
        self._place(pending)
        self.measure()
        self.at += EVERY
        self.cycle += 1
        return len(evicted)

    def _place(self, pending: Sequence[Replica]) -> None:
        view = self.view([one.pod for one in self.replicas if one.pod.node])
        policy = PoolPolicy(name="pool", pool=PoolSelect(), strategies=self._placing, mode="act")
        observation = PoolObservation(
            self.at, tuple(one.pod for one in pending), use=self.measured[1], confirmed=self.at
        )
        places = {one.uid: one.node for one in plan(PoolCase(policy, observation, view, self._hooks))}
        for one in pending:
            one.pod = replace(one.pod, node=places[one.pod.uid], started=self.at, ready=True)

    def loads(self) -> "np.ndarray[tuple[int, int], np.dtype[np.float64]]":
        """Which part of their cpu, and of their memory, nodes really use now."""
        used = {series: dict.fromkeys((one.name for one in self.nodes), 0.0) for series in SERIES}
        for one in self.replicas:
            for series, amount in zip(SERIES, one.use(self.at), strict=True):
                used[series][one.pod.node] += amount
        return np.array([list(used["cpu"].values()), list(used["memory"].values())]) / [[CPU], [MEMORY]]

    def spread(self) -> float:
        """The standard deviation of nodes' cpu, in percent of a node."""
        return float(100 * self.loads()[0].std())

    def worst(self) -> float:
        """How much of its cpu the most loaded node uses, in percent."""
        return float(100 * self.loads()[0].max())

    def moves_of_controllers(self, within: float) -> int:
        """The most pods of one controller that were moved within so many seconds."""
        most = 0
        for last in self.moved:
            late = Counter(one.whose for one in self.moved if last.at - within < one.at <= last.at)
            most = max(most, late[last.whose])
        return most


def _replicas(nodes: int, per_node: int, load: Load, seed: int) -> list[Replica]:
    """Controllers of ten pods that all request the same. Of five controllers one uses three to four times as much, and
    those came first, to the first nodes."""
    random = Random(seed)
    made: list[Replica] = []
    for index in range(nodes * per_node):
        controller = index // 10
        mean = load.busy if index < nodes * per_node / 5 else load.idle
        name, on = f"c{controller}-{index}", f"n{index // per_node:03d}"
        one = pod(name, 0.5, 2 * GIB, on, owner=("ReplicaSet", f"c{controller}", f"rs-{controller}"), ready=True)
        made.append(
            Replica(
                replace(one, started=NOW - 3600),
                mean * random.uniform(0.7, 1.3),
                2 * GIB * random.uniform(0.7, 1.3),
                load.swing,
                load.period * (1 + controller % 12),
                2 * pi * random.random(),
            )
        )
    return made


class ByStrategies:
    """Moves pods as a policy with these strategies does."""

    def __init__(self, strategies: Sequence[Strategy], **table: object) -> None:
        self._hooks, self._strategies = Hooks(strategies), tuple(strategies)
        self._table = MovesTable(**{"every": EVERY, **table})  # type: ignore[arg-type]
        self.decisions: tuple[MoveDecision, ...] = ()

    def __call__(self, pool: Uneven) -> list[Pod]:
        """The pods that its plan moves, in a pool that is remembered for as long as the strategies ask for."""
        view = pool.view(pool.pods())
        back = max(one.looks_back() for one in self._strategies)
        pool.looks.append(Look(pool.at, view.names, {series: np.array(view.use(series)) for series in SERIES}))
        del pool.looks[:-back]
        late = tuple(one for one in pool.moved if one.at > pool.at - 3600)
        policy = PoolPolicy(name="pool", pool=PoolSelect(), strategies=self._strategies, mode="act", moves=self._table)
        observation = PoolObservation(pool.at, use=pool.measured[1], confirmed=pool.at)
        past = PoolPast(tuple(pool.looks), late)
        self.decisions = plan_moves(PoolCase(policy, observation, view, self._hooks, past=past)).decisions
        gone = {one.uid for one in self.decisions if one.verdict == "move"}
        return [one for one in pool.pods() if one.uid in gone]
