"""What placing costs on 5,000 nodes: pods decided a second, and victims found among 150,000 pods. `make bench`.

The strategies are those that a user would take: filters, two scores, preemption. Every figure is printed with the
machine it was measured on, in seconds of CPU; nothing here passes or fails. Memory comes first, as it is that of the
whole process.
"""

import json
from collections.abc import Sequence
from importlib import import_module
from math import inf
from time import process_time
from typing import Any

import numpy as np
from msgspec.structs import replace

from elasticd.base.decode import convert
from elasticd.cluster.kubernetes.watch.store import PodStore
from elasticd.cluster.kubernetes.wire.convert import to_pod
from elasticd.cluster.kubernetes.wire.objects import Codec, WirePod
from elasticd.daemon import tune_interpreter
from elasticd.decision.pool.asking import PoolCase
from elasticd.decision.pool.plan import plan
from elasticd.kit.mounts import UNPROVISIONED
from elasticd.kit.node_table import NodeTable, NodeTableBuilder
from elasticd.kit.volume_view import VolumeView
from elasticd.model.placement import PodDecision, PoolObservation
from elasticd.model.pod_spec import Expression, NodePreference, PodClaim, PodPreference, PodTerm, Term, TopologySpread
from elasticd.model.policy import PoolPolicy, PoolSelect, Strategy
from elasticd.model.volumes import StorageClass, Volume, VolumeClaim
from elasticd.model.workload import Node, Pod
from elasticd.registry import Hooks, Installed, discover
from tests.kit.measuring import alone, machine, resident
from tests.kit.pools import GIB, MIB, NOW, node, pod
from tests.kit.volumes import claim, claiming, storage, volume, within

NODES, PODS_A_NODE, PENDING, PREEMPTORS, CLAIMING = 5000, 30, 2000, 50, 300
ZONES = 10


def strategies(known: dict[str, Installed], *names: str) -> tuple[Strategy, ...]:
    """Strategies with their defaults."""
    return tuple(convert({"type": name}, known[name].type, "bench") for name in names)


def zoned() -> tuple[Node, ...]:
    """Nodes in zones."""
    labels = [{"zone": f"z{i % ZONES}", "kubernetes.io/hostname": f"n{i:04d}"} for i in range(NODES)]
    return tuple(node(f"n{i:04d}", cpu=16, memory=64 * GIB, labels=labels[i]) for i in range(NODES))


def running(nodes: tuple[Node, ...]) -> dict[str, list[Pod]]:
    """30 pods on each node, which take all of its cpu on every node but one in ten."""
    more = {"owner": ("ReplicaSet", "web", "rs"), "started": NOW - 3600, "ready": True}
    return {
        one.name: [
            pod(f"{one.name}-{k}", cpu=0.4 if i % 10 == 0 else 0.53, memory=GIB, on=one.name, **more)
            for k in range(PODS_A_NODE)
        ]
        for i, one in enumerate(nodes)
    }


TEMPLATES = 500
"""Deployments whose pods are on the nodes of the cluster of constrained pods."""


def constrained(name: str, app: str, **more: Any) -> Pod:
    """A pod of a Deployment that is spread over zones, with no two pods on a node."""
    rules = (Expression("app", "In", (app,)),)
    apart, even = PodTerm("kubernetes.io/hostname", rules), TopologySpread("zone", 1, rules)
    return pod(name, cpu=0.1, memory=64 * MIB, labels={"app": app}, repels=(apart,), spread=(even,), **more)


def of_templates(names: Sequence[str]) -> dict[str, tuple[Pod, ...]]:
    """On each node 30 pods, of as many of the Deployments, all with these constraints."""
    more = {"started": NOW - 3600, "ready": True}
    templates = [
        constrained("t", f"app-{k}", owner=("ReplicaSet", f"app-{k}", f"rs-{k}"), **more) for k in range(TEMPLATES)
    ]
    return {
        on: tuple(
            replace(templates[(PODS_A_NODE * i + k) % TEMPLATES], name=f"{on}-{k}", uid=f"{on}-{k}", node=on)
            for k in range(PODS_A_NODE)
        )
        for i, on in enumerate(names)
    }


def constraints(known: dict[str, Installed], nodes: tuple[Node, ...]) -> None:
    """Print what placing costs where every pod has a hard spread constraint and an anti-affinity."""
    scores = strategies(known, "filters", "least-requested", "balanced-allocation", "topology-spread", "pod-affinity")
    there, builder = of_templates([one.name for one in nodes]), NodeTableBuilder()
    for apps in (1, 100):
        templates = [constrained("t", f"new-{k}") for k in range(apps)]
        pending = [replace(templates[i % apps], name=f"p{i}", uid=f"p{i}") for i in range(PENDING)]
        for turn in ("first", "next"):
            seconds, decisions = timed(scores, builder.columns(nodes, there), pending)
            bound = sum(one.verdict == "bind" for one in decisions)
            print(
                f"pods with a hard spread and an anti-affinity, of {apps} Deployments, {turn} plan: "
                f"{len(decisions) / seconds:.0f} decided a second, {bound} of {len(decisions)} bound"
            )


def body(app: str, on: str, number: int) -> bytes:
    """A pod that runs, as an API server tells it, with the constraints of `constrained`."""
    selector = {"matchLabels": {"app": app}}
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": f"rs-{app}", "controller": True}
    meta = {
        "name": f"{app}-{number:06d}",
        "namespace": "shop",
        "uid": f"{number:08x}-0000-4000-8000-1234567890ab",
        "resourceVersion": str(number),
        "labels": {"app": app, "pod-template-hash": "5d9f8c7b6"},
        "creationTimestamp": "2026-11-01T00:00:00Z",
        "ownerReferences": [owner],
    }
    requests = {"cpu": "400m", "memory": "1Gi"}
    spec = {
        "nodeName": on,
        "schedulerName": "elasticd",
        "containers": [{"name": "main", "image": "main:1", "resources": {"requests": requests}}],
        "topologySpreadConstraints": [spread],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}},
    }
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-01T00:00:05Z"}
    status = {"phase": "Running", "startTime": "2026-11-01T00:00:01Z", "conditions": [ready]}
    return json.dumps({"metadata": meta, "spec": spec, "status": status}).encode()


def memory(known: dict[str, Installed], nodes: tuple[Node, ...]) -> None:
    """Print the memory of this process, which has imported the daemon: once it has read the pods of all nodes, all of
    them constrained, and once it has planned for more."""
    tune_interpreter()
    import_module("elasticd.cluster.kubernetes.credentials")  # a daemon imports it when it connects
    begun, codec, store = resident(), Codec(WirePod, to_pod), PodStore()
    for i, each in enumerate(nodes):
        for number in range(PODS_A_NODE * i, PODS_A_NODE * (i + 1)):
            store.put(codec.one(body(f"app-{number % TEMPLATES}", each.name, number))[1], listed=True)
    read = resident()
    names = ("filters", "least-requested", "balanced-allocation", "topology-spread", "pod-affinity", "preemption")
    pending = [constrained(f"p{i}", f"app-{i % TEMPLATES}") for i in range(PENDING)]
    view = NodeTableBuilder().columns(nodes, store.places().on_nodes())
    _, decisions = timed(strategies(known, *names), view, pending)
    print(
        f"memory: {begun:.0f} MiB at first, {read:.0f} with {NODES * PODS_A_NODE} constrained pods, of {TEMPLATES} "
        f"Deployments, {resident():.0f} after a plan for {len(decisions)} more, {resident(peak=True):.0f} at most"
    )


def timed(chosen: Sequence[Strategy], view: NodeTable, pending: Sequence[Pod]) -> tuple[float, tuple[PodDecision, ...]]:
    """Seconds of CPU for a plan, and the plan."""
    policy = PoolPolicy(name="bench", pool=PoolSelect(), strategies=tuple(chosen), mode="act")
    case = PoolCase(policy, PoolObservation(NOW, tuple(pending), confirmed=NOW), view, Hooks(chosen))
    begun = process_time()
    decisions = plan(case)
    return process_time() - begun, decisions


def with_claims(known: dict[str, Installed], nodes: tuple[Node, ...], pods: dict[str, list[Pod]]) -> None:
    """Print what placing costs where every pod has a claim, and so have five pods of each node, whose driver takes 25
    volumes: claims that are bound in a zone, or for which a volume is made, or a local one is chosen."""
    there = {
        name: [
            replace(each, volume_claims=(PodClaim(each.name),)) if index < 5 else each
            for index, each in enumerate(residents)
        ]
        for name, residents in pods.items()
    }
    used = [each.name for residents in there.values() for each in residents if each.volume_claims]
    asked = [f"new-{index}" for index in range(CLAIMING)]
    wanted = [claim(name) for name in asked]
    local = [volume(f"local-{each.name}", terms=within("kubernetes.io/hostname", each.name)) for each in nodes]
    kinds: dict[str, list[Volume | VolumeClaim | StorageClass]] = {
        "bound": [
            thing
            for index, name in enumerate(asked)
            for thing in (
                claim(name, volume=name),
                volume(
                    name, terms=within("zone", f"z{index % ZONES}"), driver="csi", handle=name, claim=("shop", name, "")
                ),
            )
        ],
        "to be provisioned": [StorageClass("fast", "csi", waits=True), *wanted],
        "to be local": [StorageClass("fast", UNPROVISIONED, waits=True), *wanted, *local],
    }
    pending = [claiming(name, name, cpu=0.2, memory=128 * MIB) for name in asked]
    scores = strategies(known, "filters", "least-requested", "balanced-allocation")
    bound: list[Volume | VolumeClaim | StorageClass]
    bound = [
        thing
        for name in used
        for thing in (claim(name, volume=name), volume(name, driver="csi", handle=name, claim=("shop", name, "")))
    ]
    for kind, things in kinds.items():
        view = NodeTableBuilder().columns(nodes, there)
        limits = {each.name: {"csi": 25} for each in nodes}
        view.volumes = VolumeView(storage(*bound, *things, limits=limits))
        seconds, decisions = timed(scores, view, pending)
        found = sum(bool(each.node) for each in decisions)
        print(f"pods with a claim {kind}: {len(decisions) / seconds:.0f} decided a second, {found} have a node")


USE = {series: {f"n{i:04d}": 1.0 + i % 7 for i in range(NODES)} for series in ("cpu", "memory")}


PREFERENCES = ("topology-spread", "pod-affinity", "node-affinity", "taint-toleration")


def preferring() -> Pod:
    """A pod that has something for each score by preferences."""
    zone = PodTerm("zone", ())
    spread = (TopologySpread("zone", 1, (), hard=False),)
    nodes = (NodePreference(Term((Expression("zone", "In", ("z3",)),)), 5),)
    return pod("p", cpu=0.3, spread=spread, prefers=(PodPreference(zone, -5),), prefers_nodes=nodes)


def one_question(known: dict[str, Installed], name: str, view: NodeTable) -> float:
    """Microseconds of CPU for what one strategy says of all nodes for a pod, the best of several rounds."""
    (strategy,) = strategies(known, name)
    hooks, hook = Hooks([strategy]), "filter_nodes" if name == "filters" else "score_nodes"
    one = preferring() if name in PREFERENCES else pod("p", cpu=0.3, selector={"zone": "z3"})
    arguments: dict[str, Any] = {"pod": one, "nodes": view, "observation": PoolObservation(NOW, (one,), confirmed=NOW)}
    arguments["fits"] = np.ones(len(view.names), dtype=np.bool_)
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
    nodes = zoned()
    memory(known, nodes)
    pods, ledger = running(nodes), NodeTableBuilder()
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

    constraints(known, nodes)
    with_claims(known, nodes, pods)
    names = ("filters", "least-requested", "balanced-allocation", *PREFERENCES, "load-balance", "static", "topsis")
    for name in names:
        print(f"{name}: {one_question(known, name, ledger.columns(nodes, pods, USE)):.0f} us a pod")

    chosen = strategies(known, "filters", "least-requested", "preemption")
    important = [pod(f"v{i}", cpu=6, memory=GIB, priority=100) for i in range(PREEMPTORS)]
    seconds, decisions = timed(chosen, ledger.columns(nodes, pods), important)
    verdicts = sorted({one.verdict for one in decisions})
    print(f"preemption: {1000 * seconds / len(decisions):.1f} ms a pod ({', '.join(verdicts)})")


if __name__ == "__main__":
    main()
