"""Preemption, Tables 6-9 to 6-11 and Figure 6-4 of the thesis: who gives way to whom, and how many of each run.

Knows the pods of the thesis; knows nothing of how victims are chosen.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Literal

import numpy as np
from msgspec.structs import replace

from elasticd.lab.papers import Axis, Chart, Claim, Line, judged
from elasticd.lab.papers.thesis.pool import (
    LONG_AGO,
    MIB,
    NOW,
    make_node,
    make_pod,
    placed,
    strategies_of,
    table_of,
)
from elasticd.model.actions import Bind, Evict, Nominate
from elasticd.model.pod_spec import Restart
from elasticd.model.policy import Strategy
from elasticd.model.workload import Pod
from elasticd.registry import Registry

KINDS: tuple[Restart, ...] = ("Always", "OnFailure", "Never")
MODES = ("paper", "product")

NODE2 = make_node("node2", 1.7, 3500 * MIB)
"""2 cores and 4 GB, of which the system has so much that the six pods leave the 200m and 500Mi of the thesis."""
CLASSES: tuple[Restart, ...] = ("Never", "OnFailure", "Always")
SIX = tuple(
    make_pod(f"pod{number}", cpu, memory * MIB, restart, node="node2")
    for number, ((cpu, memory), restart) in enumerate(product(((0.4, 800), (0.1, 200)), CLASSES), 1)
)

TABLE_6_11: Mapping[str, tuple[Restart, float, float, tuple[str, ...]]] = {
    "neverPod1": ("Never", 0.3, 1000, ()),
    "neverPod2": ("Never", 0.5, 2000, ()),
    "onfailurePod1": ("OnFailure", 0.3, 1000, ("pod1",)),
    "onfailurePod2": ("OnFailure", 0.5, 2000, ()),
    "alwaysPod1": ("Always", 0.3, 1000, ("pod1",)),
    "alwaysPod2": ("Always", 0.5, 2000, ("pod1", "pod4", "pod2")),
}
"""Each new pod: its class, the cores and MiB that it requests, and which pods go, in this order."""

ROOM = 150
"""Pods of 10m and 50Mi that node3 takes."""
MOST = 480
STEP = 30
FIGURE_6_4 = {
    150: (50, 50, 50),
    180: (60, 60, 30),
    210: (70, 70, 10),
    240: (80, 70, 0),
    300: (100, 50, 0),
    390: (130, 20, 0),
    450: (150, 0, 0),
    480: (150, 0, 0),
}
"""How many of each of KINDS run after so many were requested: derived from the thesis's rules for ROOM pods."""

Counts = tuple[int, int, int]
"""Of KINDS."""


def victims(strategies: Sequence[Strategy], name: str) -> tuple[str, ...]:
    """The names of the pods that are evicted for one of TABLE_6_11."""
    restart, cpu, memory, _ = TABLE_6_11[name]
    (decision,) = placed(strategies, table_of([NODE2], SIX), [make_pod(name, cpu, memory * MIB, restart)])
    return tuple(action.workload.name for action in decision.actions if isinstance(action, Evict))


class FilledNode:
    """One node with room for so many pods, to which batches are given until nothing moves any more."""

    def __init__(self, strategies: Sequence[Strategy], room: int = ROOM) -> None:
        self._strategies = tuple(strategies)
        self._node = make_node("node3", 4, room * 50 * MIB)
        self._on: list[Pod] = []
        self._waiting: list[Pod] = []
        self._made = 0

    def offer(self, batch: Sequence[Restart]) -> None:
        """A pod of each of these restartPolicies comes."""
        for kind in batch:
            self._queue(make_pod(f"p{self._made:04}", 0.01, 50 * MIB, kind))
        while self._step():
            pass

    @property
    def counts(self) -> Counts:
        """How many of each of KINDS run."""
        always, failure, never = ([pod.needs.restart for pod in self._on].count(kind) for kind in KINDS)
        return always, failure, never

    def _queue(self, pod: Pod) -> None:
        """It waits, newer than all others."""
        self._made += 1
        new = {"uid": f"uid-{self._made}", "created": NOW + self._made, "started": None, "ready": None}
        self._waiting.append(replace(pod, phase="Pending", node="", **new))

    def _step(self) -> bool:
        """Plan once, and do it all: those who are evicted wait anew."""
        decisions = placed(self._strategies, table_of([self._node], self._on), self._waiting)
        actions = [action for decision in decisions for action in decision.actions]
        bound = {action.uid for action in actions if isinstance(action, Bind)}
        gone = {action.uid for action in actions if isinstance(action, Evict)}
        noted = {action.uid: action.node for action in actions if isinstance(action, Nominate)}
        runs = {"phase": "Running", "node": self._node.name, "started": LONG_AGO, "ready": True}
        came = [replace(pod, **runs) for pod in self._waiting if pod.uid in bound]
        left = [pod for pod in self._on if pod.uid in gone]
        waiting = [pod for pod in self._waiting if pod.uid not in bound]
        self._waiting = [replace(pod, nominated=noted.get(pod.uid, pod.nominated)) for pod in waiting]
        self._on = [pod for pod in self._on if pod.uid not in gone] + came
        for pod in left:
            self._queue(pod)
        return bool(actions)


DEFAULT = "without preemption, as the default scheduler of the paper"
WAYS = (*(f'mode "{mode}"' for mode in MODES), DEFAULT)
Key = tuple[str, int]
"""A way and a seed."""


def strategies_for(registry: Registry, way: str) -> tuple[Strategy, ...]:
    """The strategies of a way."""
    own = [{"type": "preemption", "mode": mode} for mode in MODES if way == f'mode "{mode}"']
    return strategies_of(registry, [{"type": "filters"}, *own])


def run(registry: Registry, key: Key) -> dict[int, Counts]:
    """Figure 6-4: what runs by how many were requested. The seed shuffles each batch of thirty."""
    way, seed = key
    chance, node, found = np.random.default_rng(seed), FilledNode(strategies_for(registry, way)), {}
    for requested in range(STEP, MOST + 1, STEP):
        batch = list(KINDS) * (STEP // len(KINDS))
        chance.shuffle(batch)
        node.offer(batch)
        found[requested] = node.counts
    return found


def claims(registry: Registry, filled: Mapping[Key, Mapping[int, Counts]], seeds: Sequence[int]) -> Iterator[Claim]:
    """Table 6-11 in both modes, and Figure 6-4 for each way."""
    for mode in MODES:
        part = f'preemption, Table 6-11, mode "{mode}": pods evicted for a new one'
        strategies = strategies_for(registry, f'mode "{mode}"')
        for name, (*_, paper) in TABLE_6_11.items():
            found = victims(strategies, name)
            stated = f"{len(paper)}: {', '.join(paper)}" if paper else "0"
            spared = "; who is not needed is spared" if set(found) < set(paper) else ""
            yield Claim(part, name, stated, (len(found),), judged([found == paper]), note=", ".join(found) + spared)
    for way in WAYS:
        yield from _figure(way, [filled[way, seed] for seed in seeds])


def _figure(way: str, runs: Sequence[Mapping[int, Counts]]) -> Iterator[Claim]:
    part = f"preemption, Figure 6-4: pods that run on node3, {way}"
    for requested in FIGURE_6_4 if way == WAYS[0] else (240, MOST):
        expected = (50, 50, 50) if way == DEFAULT else FIGURE_6_4[requested]
        for index, kind in enumerate(KINDS):
            counts = tuple(float(found[requested][index]) for found in runs)
            holds = judged(count == expected[index] for count in counts)
            yield Claim(part, f"{requested} requested: {kind}", str(expected[index]), counts, holds, form=".0f")


def chart(filled: Mapping[Key, Mapping[int, Counts]], seed: int) -> Chart:
    """Figure 6-4 in mode "paper", and the default scheduler, with this seed."""
    lines = []
    looks: Sequence[tuple[str, str, Literal["line", "reference"]]] = (
        (WAYS[0], "", "line"),
        (DEFAULT, ", default scheduler", "reference"),
    )
    for way, suffix, look in looks:
        found = filled[way, seed]
        for index, kind in enumerate(KINDS):
            counts = tuple(float(counts[index]) for counts in found.values())
            lines.append(Line(f"{kind}{suffix}", tuple(map(float, found)), counts, look=look))
    axes = Axis("pods requested"), Axis("pods that run")
    name, title = "thesis-preemption", "Pods that run on node3, by restartPolicy, as Figure 6-4"
    return Chart(name, title, "lines", *axes, tuple(lines), picture=name)
