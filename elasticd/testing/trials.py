"""Pools to try a strategy on that places pods, and what is wrong with its answers.

Knows plain pools and those in which much is missing; knows nothing of what an answer should be. See elasticd.testing.
"""

from collections.abc import Iterable, Iterator, Mapping
from math import nan
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from elasticd.decision.pool.asking import PoolCase
from elasticd.decision.pool.plan import plan
from elasticd.model.moves import NodeLevel
from elasticd.model.placement import Candidate, DisruptionBudget, EvictionOrder, Victims
from elasticd.model.pod_spec import (
    Disk,
    Expression,
    Needs,
    NodePreference,
    PodPreference,
    PodTerm,
    Port,
    Restart,
    Taint,
    Term,
    Toleration,
    TopologySpread,
)
from elasticd.model.policy import PoolPolicy, PoolSelect, Strategy
from elasticd.model.workload import Answers, Container, Node, Pod
from elasticd.registry import Hooks
from elasticd.testing.pools import GIB, node, node_table, pod, pool_observation

_BY_POD = ("filter_nodes", "select_nodes", "score_nodes")
_BY_POOL = ("rebind_pods", "rebalance_nodes", "explain_nodes")


class Trial(Struct, frozen=True, eq=False):
    """A pool with pods on its nodes and pods that wait, and what each node uses of every series: NaN, or None for
    nothing known."""

    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    used: float | None = 1.0

    def case(self, strategy: Strategy) -> PoolCase:
        """It as a strategy is asked about it. Each time everything is counted anew."""
        policy = PoolPolicy(name="test", pool=PoolSelect(), strategies=(strategy,), mode="act")
        running = [pod for pod in self.pods if pod.node]
        use = self._use(strategy.reads_of_nodes(), [node.name for node in self.nodes])
        observation = pool_observation(
            [pod for pod in self.pods if not pod.node],
            use=self._use(strategy.reads() or (), [f"{pod.namespace}/{pod.name}" for pod in self.pods]),
            budgets=(DisruptionBudget("shop", "on", frozenset(pod.uid for pod in running), 1),),
        )
        return PoolCase(policy, observation, node_table(self.nodes, running, use, use), Hooks((strategy,)))

    def _use(self, series: Iterable[str], names: Iterable[str]) -> dict[str, dict[str, float]]:
        if self.used is None:
            return {}
        scales = {"memory": GIB}
        return {name: dict.fromkeys(names, self.used * scales.get(name, 1.0)) for name in series}


def faults(strategy: Strategy) -> list[str]:
    """What it does that no strategy may, a line each: fail or answer nonsense, also where nodes, room or measurements
    are missing; change what it is shown; answer otherwise when it is asked again, or in another order."""
    return list(dict.fromkeys(fault for name, trial in trials().items() for fault in _of(strategy, name, trial)))


def _of(strategy: Strategy, name: str, trial: Trial) -> Iterator[str]:
    before = msgspec.json.encode(trial)
    case = trial.case(strategy)
    first = _answers(case, case.observation.pending)
    yield from (f"{name}: {failure.hook} {failure.message}" for heard in first.values() for failure in heard.failures)
    yield from (f"{name}: {fault}" for asked, heard in first.items() for fault in _misled(case, asked, heard))
    again = _answers(case, case.observation.pending)
    fresh = trial.case(strategy)
    backwards = _answers(fresh, fresh.observation.pending[::-1])
    told = {asked: _plain(heard.values) for asked, heard in first.items()}
    if any({asked: _plain(heard.values) for asked, heard in other.items()} != told for other in (again, backwards)):
        yield f"{name}: answered differently when asked again"
    plans = {msgspec.json.encode(plan(trial.case(strategy))) for _ in range(2)}
    if len(plans) > 1:
        yield f"{name}: the plan differed when it was made again"
    if msgspec.json.encode(trial) != before:
        yield f"{name}: changed what it was shown"


_FORCED: tuple[tuple[bool, Mapping[str, int]], ...] = ((False, {}), (True, {}), (False, {"cpu": 1, "memory": 0}))
"""Whether a pod's own binding asks that others be preempted, and what filters say is missing."""


def _answers(case: PoolCase, pods: tuple[Pod, ...]) -> dict[tuple[str, ...], Answers]:
    """What it answers about each of these pods, about all together, which should be preempted on which node, and which
    should leave; by what was asked."""
    waiting = case.observation.pending
    found: dict[tuple[str, ...], Answers] = {(hook,): case.ask(hook, movable=lambda _: True) for hook in _BY_POOL}
    for candidate in pods:
        everywhere = np.ones(len(case.columns.names), dtype=np.bool_)
        for hook in _BY_POD:
            found[hook, candidate.name] = case.ask(hook, pod=candidate, fits=everywhere)
        for index, name in enumerate(case.columns.names):
            for forced, missing in _FORCED:
                asked = ("select_victims", candidate.name, name, str(forced), str(missing))
                found[asked] = case.ask("select_victims", pod=candidate, node=index, forced=forced, missing=missing)
    for index, name in enumerate(case.columns.names):
        found["explain_victims", name] = case.ask("explain_victims", node=index)
    for which in ("any node", "no node"):
        nodes = np.full(len(case.columns.names), which == "any node", dtype=np.bool_)
        found["place_pods", which] = case.ask("place_pods", pods=[Candidate(pod, nodes) for pod in waiting])
    return found


def _misled(case: PoolCase, asked: tuple[str, ...], heard: Answers) -> Iterator[str]:
    """The error in an answer that is valid by itself but does not fit the question."""
    for _, value in heard.values:
        if asked[0] in _BY_POOL:
            named = {level.node if isinstance(level, NodeLevel) else level.pod.node for level in value}
            if any(case.columns.index(name) is None for name in named):
                explains = asked[0] == "explain_nodes"
                yield f"{asked[0]} {'names a node that there is not' if explains else 'moves a pod that is on no node'}"
        elif asked[0] == "place_pods":
            if asked[1] == "no node" and value:
                yield "place_pods placed a pod on a node that may not take it"
            if any(one.pod >= len(case.observation.pending) for one in value):
                yield "place_pods placed a pod that is no candidate"
        elif isinstance(value, Victims | EvictionOrder):
            named_pods = value.pods if isinstance(value, Victims) else tuple([one.pod for one in value.turns])
            there = {pod.uid for pod in case.columns.pods(case.columns.names.index(asked[min(2, len(asked) - 1)]))}
            gone = [pod.uid for pod in named_pods]
            if not there.issuperset(gone) or len(set(gone)) < len(gone):
                yield f"{asked[0]} named a pod twice, or one of another node"


def _plain(value: Any) -> Any:
    """The same in what can be compared: arrays by their bytes, and NaN as equal to itself."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.tobytes()
    if isinstance(value, Struct):
        return [type(value).__name__, *(_plain(getattr(value, name)) for name in value.__struct_fields__)]
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    return [_plain(entry) for entry in value] if isinstance(value, list | tuple) else repr(value)


def trials() -> dict[str, Trial]:
    """Pools by name."""
    three = tuple(_node(f"node-{letter}", zone=letter) for letter in "abc")
    running, waiting = _running([node.name for node in three]), _waiting()
    bare = Node("bare", "uid-bare", True)
    odd = (
        bare,
        _node("cordoned", unschedulable=True),
        node("empty", 0.0, 0.0, 0, labels={"zone": "a"}),
        _node("failed", ready=False),
        _node("tainted", taints=(Taint("dedicated", "NoSchedule", "batch"), Taint("old", "PreferNoSchedule"))),
    )
    full = tuple(_pod(f"full-{node.name}", node.name, cpu=4.0, memory=8 * GIB) for node in three)
    return {
        "plain": Trial(three, running + waiting),
        "full": Trial(three, full + waiting),
        "odd nodes": Trial(odd, _running([node.name for node in odd]) + waiting),
        "one node": Trial(three[:1], _running(["node-a"]) + waiting),
        "no nodes": Trial((), waiting),
        "no pods": Trial(three, running),
        "unused": Trial(three, running + waiting, used=0.0),
        "unknown: NaN": Trial(three, running + waiting, used=nan),
        "unknown: nothing was read": Trial(three, running + waiting, used=None),
    }


def _node(name: str, zone: str = "a", **more: Any) -> Node:
    return node(name, resources={"example.com/gpu": 1.0}, labels={"zone": zone}, **more)


def _pod(name: str, on: str = "", cpu: float = 0.5, memory: float = GIB, **needs: Any) -> Pod:
    requests = {key: amount for key, amount in (("cpu", cpu), ("memory", memory)) if amount} | needs.pop("more", {})
    return pod(
        name,
        on=on,
        namespace="shop",
        labels={"app": name},
        containers=(Container("main", requests),),
        ready=None,
        needs=Needs(scheduler="elasticd", requests=requests, **needs),
    )


def _running(nodes: Iterable[str]) -> tuple[Pod, ...]:
    """On each node one of each restart policy, of which the last takes a port and a disk, and keeps others off."""
    restarts: tuple[Restart, ...] = ("Never", "OnFailure", "Always")
    app = PodTerm("zone", (Expression("app", "In", ("repelled",)),))
    own: dict[str, Any] = {"ports": (Port(8080),), "disks": (Disk("gce", "data"),), "repels": (app,)}
    return tuple(
        _pod(f"{restart.lower()}-{node}", node, restart=restart, **(own if restart == "Always" else {}))
        for node in nodes
        for restart in restarts
    )


def _waiting() -> tuple[Pod, ...]:
    zone = Term((Expression("zone", "NotIn", ("a",)),))
    return (
        _pod("plain"),
        _pod("nothing", cpu=0.0, memory=0.0),
        _pod("huge", cpu=64.0, memory=512 * GIB),
        _pod("accelerated", more={"example.com/gpu": 1.0}),
        _pod("absent", more={"example.com/none": 1.0}),
        _pod("port", ports=(Port(8080, "TCP", "127.0.0.1"),)),
        _pod("repelled"),
        _pod("disk", disks=(Disk("gce", "data"),)),
        _pod("selective", selector={"zone": "b"}, affinity=(zone,)),
        _pod("tolerant", tolerations=(Toleration(operator="Exists"),)),
        _pod("urgent", cpu=3.0, priority=1000),
        _pod("patient", cpu=3.0, priority=1000, preempts=False),
        _pod("batch", restart="Never"),
        _pod("spread", spread=(TopologySpread("zone", 1, ()), TopologySpread("rack", 1, (), hard=False))),
        _pod("together", attracts=(PodTerm("zone", ()),), prefers=(PodPreference(PodTerm("zone", ()), 10),)),
        _pod("apart", repels=(PodTerm("zone", (), (), (Expression("team", "Exists"),)),)),
        _pod("choosy", prefers_nodes=(NodePreference(zone, 5),), images=("app",)),
        _pod("worker", restart="OnFailure"),
    )
