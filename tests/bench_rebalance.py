"""What a plan of moves costs on 5,000 nodes with 150,000 pods, and the whole cycle that leads to one. `make bench`.

One node in ten is overloaded. The cycle is what a daemon does that begins: LIST bodies read in pages from files,
decoded, converted and stored, counted into columns, planned. Every figure is printed with the machine it was measured
on, in seconds of CPU; nothing here passes or fails.
"""

import asyncio
import gc
import logging
import os
import platform
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import process_time
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np

from elasticd.clock import WallClock
from elasticd.cluster.kubernetes.convert import to_node, to_pod
from elasticd.cluster.kubernetes.session import ApiError, Request
from elasticd.cluster.kubernetes.store import NodeStore, PodStore
from elasticd.cluster.kubernetes.watch import Reading, Reflector
from elasticd.cluster.kubernetes.wire import Codec, WireNode, WirePod
from elasticd.columns import Ledger
from elasticd.daemon import calm_collector
from elasticd.mend import convert
from elasticd.model import Node, Pod
from elasticd.moves import Look, MoveDecision, PoolPast
from elasticd.placements import PoolObservation
from elasticd.placing.ask import PoolCase
from elasticd.placing.moving import plan_moves
from elasticd.plugins import Hooks, discover
from elasticd.policy import MovesTable, PoolPolicy, PoolSelect, Strategy
from tests.pools import GIB, NOW, node, pod

NODES, PODS_A_NODE, HOT, PAGE = 5000, 30, 10, 500
CPU, MEMORY = 16.0, 64 * GIB
LEVEL, OVERLOADED = 0.5, 0.8

By = dict[str, dict[str, float]]


def load(index: int) -> float:
    """Which part of itself a node uses."""
    return OVERLOADED if index % HOT == 0 else LEVEL - 0.05 * (index % 3)


def use_of(nodes: Sequence[str]) -> tuple[By, By]:
    """What nodes use, and what their pods do: each the same part, give or take a half."""
    of_nodes: By = {"cpu": {}, "memory": {}}
    of_pods: By = {"cpu": {}, "memory": {}}
    shares = np.linspace(0.5, 1.5, PODS_A_NODE) / PODS_A_NODE
    for index, name in enumerate(nodes):
        for series, size in (("cpu", CPU), ("memory", MEMORY)):
            of_nodes[series][name] = load(index) * size
            found = of_pods[series]
            for k, share in enumerate(shares):
                found[f"shop/{name}-{k}"] = load(index) * size * float(share)
    return of_nodes, of_pods


def modelled() -> tuple[tuple[Node, ...], dict[str, list[Pod]]]:
    """The nodes and pods as records."""
    nodes = tuple(node(f"n{i:04d}", cpu=CPU, memory=MEMORY) for i in range(NODES))
    more = {"started": NOW - 3600, "ready": True}
    pods = {
        one.name: [
            pod(
                f"{one.name}-{k}",
                0.4,
                1.5 * GIB,
                one.name,
                owner=("ReplicaSet", f"web-{k}", f"rs-{i // 50}-{k}"),
                **more,
            )
            for k in range(PODS_A_NODE)
        ]
        for i, one in enumerate(nodes)
    }
    return nodes, pods


def strategies(*names: str) -> tuple[Strategy, ...]:
    """Strategies with their defaults."""
    known = discover().strategies
    return tuple(convert({"type": name}, known[name].type, "bench") for name in names)


def resident(*, peak: bool = False) -> float:
    """MiB of this process, now or at most since `forget_peak`."""
    word = "VmHWM:" if peak else "VmRSS:"
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(word)) / 1024


def forget_peak() -> None:
    """Count the peak from here on."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def case(ledger: Ledger, nodes: tuple[Node, ...], pods: Any, known: tuple[By, By], per_look: int) -> PoolCase:
    """All that a plan depends on, after twenty looks alike."""
    chosen = strategies("filters", "load-balance", "rebalance")
    of_nodes, of_pods = known
    columns = ledger.columns(nodes, pods, of_nodes)
    use = {series: np.array(columns.use(series)) for series in of_nodes}
    looks = tuple(Look(NOW - 30 * back, columns.names, use) for back in reversed(range(20)))
    policy = PoolPolicy(
        name="bench", pool=PoolSelect(), strategies=chosen, mode="act", moves=MovesTable(per_look=per_look)
    )
    observation = PoolObservation(NOW, use=of_pods, confirmed=NOW)
    return PoolCase(policy, observation, columns, Hooks(chosen), past=PoolPast(looks))


def told(decisions: Sequence[MoveDecision]) -> str:
    """How many of what."""
    moved = sum(one.verdict == "move" for one in decisions)
    return f"{moved} pods move, {len(decisions) - moved} do not"


def plans() -> None:
    """Plans alone."""
    nodes, pods = modelled()
    known = use_of([one.name for one in nodes])
    ledger = Ledger()
    begun = process_time()
    ledger.columns(nodes, pods)
    print(f"{NODES} nodes, {NODES * PODS_A_NODE} pods, {NODES // HOT} nodes overloaded")
    print(f"columns: {process_time() - begun:.2f} s, while nothing changes", end=" ")
    begun = process_time()
    ledger.columns(nodes, pods)
    print(f"{1000 * (process_time() - begun):.0f} ms")
    for per_look in (5, 100, 1000):
        one = case(ledger, nodes, pods, known, per_look)
        forget_peak()
        before, begun = resident(), process_time()
        decisions = plan_moves(one).decisions
        seconds = process_time() - begun
        grown = resident(peak=True) - before
        print(
            f"plan of at most {per_look}: {1000 * seconds:.0f} ms, {grown:.0f} MiB more at its peak; {told(decisions)}"
        )


class Files:
    """A session whose lists are files: page after page of each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def send(self, request: Request) -> bytes:
        """The page that was asked for."""
        name = request.params.get("continue", "0")
        return (self._folder / request.resource / name).read_bytes()

    def stream(self, *_: object) -> Any:
        """Nothing changes: whoever watches is told that it cannot be."""
        raise ApiError(404, "NotFound", "there are lists alone")


def written(folder: Path) -> float:
    """Write all lists; their MB."""
    (folder / "nodes").mkdir()
    (folder / "pods").mkdir()
    size = _pages(folder / "nodes", (wire_node(i) for i in range(NODES)), NODES)
    total = NODES * PODS_A_NODE
    return (
        size + _pages(folder / "pods", (wire_pod(i // PODS_A_NODE, i % PODS_A_NODE) for i in range(total)), total)
    ) / 1e6


def _pages(folder: Path, items: Iterator[dict[str, Any]], total: int) -> int:
    size = 0
    for start in range(0, total, PAGE):
        page = [next(items) for _ in range(min(PAGE, total - start))]
        more = str(start + PAGE) if start + PAGE < total else ""
        body = msgspec.json.encode({"metadata": {"resourceVersion": "1", "continue": more}, "items": page})
        size += (folder / str(start)).write_bytes(body)
    return size


STARTED = "1970-01-01T00:00:00Z"
TRUE = [
    {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": STARTED}
    for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
]


def wire_node(index: int) -> dict[str, Any]:
    """A node as the API shows it."""
    name = f"n{index:04d}"
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    size = {"cpu": f"{CPU:.0f}", "memory": f"{MEMORY / 2**10:.0f}Ki", "pods": "110", "ephemeral-storage": "95551679124"}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", "labels": labels},
        "spec": {"podCIDR": "10.0.0.0/24", "providerID": f"cloud://{name}"},
        "status": {"capacity": size, "allocatable": size, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def wire_pod(index: int, k: int) -> dict[str, Any]:
    """A pod of a Deployment as the API shows it, without managedFields."""
    name, on, app = f"n{index:04d}-{k}", f"n{index:04d}", f"web-{index // 50}-{k}"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": f"rs-{app}", "controller": True}
    token = {"name": "kube-api-access", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}
    main = {
        "name": "main",
        "image": f"registry.example.com/shop/{app}:1.2.3",
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": f"SETTING_{n}", "value": "a value of some length"} for n in range(4)],
        "resources": {"requests": {"cpu": "400m", "memory": "1536Mi"}, "limits": {"memory": "2Gi"}},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10},
        "volumeMounts": [token],
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }
    status = {
        "name": "main",
        "ready": True,
        "restartCount": 0,
        "image": f"registry.example.com/shop/{app}:1.2.3",
        "imageID": f"registry.example.com/shop/{app}@sha256:{'0' * 64}",
        "containerID": f"containerd://{'0' * 64}",
        "state": {"running": {"startedAt": STARTED}},
        "lastState": {},
    }
    return {
        "metadata": {
            "name": name,
            "generateName": f"{app}-",
            "namespace": "shop",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "creationTimestamp": STARTED,
            "labels": {"app": app, "pod-template-hash": "5d4f8c7b9"},
            "ownerReferences": [{**owner, "blockOwnerDeletion": True}],
        },
        "spec": {
            "volumes": [
                {"name": "kube-api-access", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
            ],
            "containers": [main],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "nodeName": on,
            "schedulerName": "elasticd",
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{key}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for key in ("not-ready", "unreachable")
            ],
            "priority": 0,
        },
        "status": {
            "phase": "Running",
            "conditions": TRUE,
            "hostIP": "10.1.2.3",
            "podIP": "10.0.0.7",
            "startTime": STARTED,
            "containerStatuses": [status],
            "qosClass": "Burstable",
        },
    }


async def _listed(folder: Path, pods: PodStore, nodes: NodeStore) -> None:
    """Mirror both, until the watch that follows the list is refused."""
    session: Any = Files(folder)
    for name, codec, sink in (
        ("pods", Codec(WirePod, to_pod), pods),
        ("nodes", Codec(WireNode, to_node), nodes),
    ):
        kind: Any = SimpleNamespace(codec=codec, sink=sink)
        reading = Reading(path=f"/api/v1/{name}", resource=name, page=PAGE)
        await Reflector(session, WallClock(), reading, kind.codec, kind.sink).run()


def cycle() -> None:
    """From the API's bodies to a plan; and again when one pod in a hundred has changed."""
    logging.disable()  # a watch that is refused is told
    with tempfile.TemporaryDirectory() as folder:
        size = written(Path(folder))
        known, ledger = use_of([f"n{i:04d}" for i in range(NODES)]), Ledger()
        pods, nodes = PodStore(), NodeStore()
        calm_collector()
        forget_peak()
        before, begun = resident(), process_time()
        asyncio.run(_listed(Path(folder), pods, nodes))
        read = process_time() - begun
        found = nodes.all(), pods.places().on_nodes()
        stored = process_time() - begun
        one = case(ledger, *found, known, 100)
        counted = process_time() - begun
        decisions = plan_moves(one).decisions
        planned = process_time() - begun
        grown = resident(peak=True) - before
    print(
        f"the whole cycle, from {size:.0f} MB of lists: {planned:.2f} s of one core, {grown:.0f} MiB; {told(decisions)}"
    )
    print(f"  read, decoded and converted {read:.2f} s, stored {stored - read:.2f} s,", end=" ")
    print(f"columns {counted - stored:.2f} s, plan {planned - counted:.2f} s")
    events = [msgspec.json.encode(changed(index)) for index in range(0, NODES * PODS_A_NODE, 100)]
    codec = Codec(WirePod, to_pod)
    begun = process_time()
    for event in events:
        pods.put(codec.one(event)[1], listed=False)
    decisions = plan_moves(case(ledger, nodes.all(), pods.places().on_nodes(), known, 100)).decisions
    seconds = process_time() - begun
    print(f"the next cycle, after {len(events)} events of a watch: {seconds:.2f} s; {told(decisions)}")


def changed(index: int) -> dict[str, Any]:
    """A pod that is not ready any more."""
    found = wire_pod(index // PODS_A_NODE, index % PODS_A_NODE)
    conditions = [{**one, "status": "False"} if one["type"] == "Ready" else one for one in TRUE]
    return {**found, "status": {**found["status"], "conditions": conditions}}


def main() -> None:
    """Print the machine and the figures."""
    print(f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}")
    plans()
    cycle()


if __name__ == "__main__":
    main()
