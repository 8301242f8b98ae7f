"""What placing costs on 5,000 nodes: pods decided a second, and victims found among 150,000 pods. `make bench`.

The strategies are those that a user would take: filters, two scores, preemption. Every figure is printed with the
machine it was measured on, in seconds of CPU; nothing here passes or fails.
"""

from collections.abc import Sequence
from math import inf
from time import process_time

from elasticd.base.decode import convert
from elasticd.decision.pool.asking import PoolCase
from elasticd.decision.pool.plan import plan
from elasticd.kit.node_table import NodeTable, NodeTableBuilder
from elasticd.model.placement import PodDecision, PoolObservation
from elasticd.model.policy import PoolPolicy, PoolSelect, Strategy
from elasticd.model.workload import Node, Pod
from elasticd.registry import Hooks, Installed, discover
from tests.kit.measuring import alone, machine
from tests.kit.pools import GIB, MIB, NOW, node, pod

NODES, PODS_A_NODE, PENDING, PREEMPTORS = 5000, 30, 2000, 50
ZONES = 10


def strategies(known: dict[str, Installed], *names: str) -> tuple[Strategy, ...]:
    """Strategies with their defaults."""
    return tuple(convert({"type": name}, known[name].type, "bench") for name in names)


def cluster() -> tuple[tuple[Node, ...], dict[str, list[Pod]]]:
    """Nodes with 30 pods each, all of their cpu taken on every node but one in ten."""
    nodes = tuple(node(f"n{i:04d}", cpu=16, memory=64 * GIB, labels={"zone": f"z{i % ZONES}"}) for i in range(NODES))
    more = {"owner": ("ReplicaSet", "web", "rs"), "started": NOW - 3600, "ready": True}
    pods = {
        one.name: [
            pod(f"{one.name}-{k}", cpu=0.4 if i % 10 == 0 else 0.53, memory=GIB, on=one.name, **more)
            for k in range(PODS_A_NODE)
        ]
        for i, one in enumerate(nodes)
    }
    return nodes, pods


def timed(chosen: Sequence[Strategy], view: NodeTable, pending: Sequence[Pod]) -> tuple[float, tuple[PodDecision, ...]]:
    """Seconds of CPU for a plan, and the plan."""
    policy = PoolPolicy(name="bench", pool=PoolSelect(), strategies=tuple(chosen), mode="act")
    case = PoolCase(policy, PoolObservation(NOW, tuple(pending), confirmed=NOW), view, Hooks(chosen))
    begun = process_time()
    decisions = plan(case)
    return process_time() - begun, decisions


USE = {series: {f"n{i:04d}": 1.0 + i % 7 for i in range(NODES)} for series in ("cpu", "memory")}


def one_question(known: dict[str, Installed], name: str, view: NodeTable) -> float:
    """Microseconds of CPU for what one strategy says of all nodes for a pod, the best of several rounds."""
    (strategy,) = strategies(known, name)
    hooks, hook = Hooks([strategy]), "filter_nodes" if name == "filters" else "score_nodes"
    one = pod("p", cpu=0.3, selector={"zone": "z3"})
    arguments = {"pod": one, "nodes": view, "observation": PoolObservation(NOW, (one,), confirmed=NOW)}
    found = inf
    for _ in range(7):
        begun = process_time()
        for _ in range(200):
            hooks.ask(hook, arguments)
        found = min(found, (process_time() - begun) / 200)
    return 1e6 * found


def main() -> None:
    """Print the machine and the figures."""
    print(machine())
    alone()
    known = discover().strategies
    nodes, pods = cluster()
    ledger = NodeTableBuilder()
    begun = process_time()
    ledger.columns(nodes, pods)
    print(f"columns of {NODES} nodes and {NODES * PODS_A_NODE} pods: {process_time() - begun:.2f} s, then", end=" ")
    begun = process_time()
    ledger.columns(nodes, pods)
    print(f"{1000 * (process_time() - begun):.1f} ms while nothing changed")

    scores = strategies(known, "filters", "least-requested", "balanced-allocation")
    same = [pod(f"p{i}", cpu=0.2, memory=128 * MIB) for i in range(PENDING)]
    sizes = [pod(f"p{i}", cpu=0.1 + i / 5000, memory=(64 + i) * MIB) for i in range(PENDING)]
    zones = [pod(f"p{i}", cpu=0.1 + i / 5000, selector={"zone": f"z{i % ZONES}"}) for i in range(PENDING)]
    for what, pending in (("alike", same), ("of all sizes", sizes), ("of all sizes, with selectors", zones)):
        seconds, decisions = timed(scores, ledger.columns(nodes, pods), pending)
        bound = sum(one.verdict == "bind" for one in decisions)
        print(f"pods {what}: {len(decisions) / seconds:.0f} decided a second, {bound} of {len(decisions)} bound")

    for name in ("filters", "least-requested", "balanced-allocation", "load-balance", "static", "topsis"):
        print(f"{name}: {one_question(known, name, ledger.columns(nodes, pods, USE)):.0f} us a pod")

    chosen = strategies(known, "filters", "least-requested", "preemption")
    important = [pod(f"v{i}", cpu=6, memory=GIB, priority=100) for i in range(PREEMPTORS)]
    seconds, decisions = timed(chosen, ledger.columns(nodes, pods), important)
    verdicts = sorted({one.verdict for one in decisions})
    print(f"preemption: {1000 * seconds / len(decisions):.1f} ms a pod ({', '.join(verdicts)})")


if __name__ == "__main__":
    main()
