"""Bindings a second, of elasticd and of kube-scheduler: `python tests/bench/bind.py [PODS] [NODES] [ROUNDS]`.

Of plain pods, and of pods that must be spread over zones with no two of an app on a node (50 pods an app).

Genuine parts: a Kubernetes control plane with its kube-scheduler, and the daemon as a process, both allowed 500
bindings a second and 1,000 at once (kube-scheduler's Events have an allowance of their own; elasticd writes none of a
pod that it binds). The kubelets are hollow: they write what kubelets write. The pods are there before whoever places
them is started, and the next turn begins when all of them run: kube-scheduler asks for a thousand bindings at once, so
most of its kubelets' writes come after its last binding, and must not fall into the next one's time. Times are from
the first binding that is asked for to the last that is done, and to the last pod that runs, as the API server's audit
log has them. elasticd's own CPU has its start in it. Nothing here passes or fails.
"""

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from datetime import datetime
from pathlib import Path

from tests.kit.measuring import machine
from tests.kube.client import JSON, Client, wait_until
from tests.kube.control_plane import ControlPlane
from tests.kube.hollow import HollowNodes
from tests.kube.processes import Program
from tests.kube.reports import NodeSpec
from tests.kube.running import running

PODS, NODES, ROUNDS = 3000, 500, 3
POLICY = """
mode = "act"
[pool]
scheduler = "elasticd"
[[strategy]]
type = "filters"
[[strategy]]
type = "least-requested"
[[strategy]]
type = "balanced-allocation"
"""
CLUSTER = "writes_per_second = 500\nburst = 1000"


ZONES, OF_AN_APP = 10, 50


def constraints(app: str) -> JSON:
    """A hard spread over zones, and an anti-affinity by host."""
    selector = {"matchLabels": {"app": app}}
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    apart = [{"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}]
    return {
        "topologySpreadConstraints": [spread],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart}},
    }


def manifest(number: int, scheduler: str, *, constrained: bool) -> JSON:
    """A pod of modest size."""
    name, app = f"p{number:05d}", f"app-{number // OF_AN_APP}"
    more = constraints(app) if constrained else {}
    resources = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    container = {"name": "main", "image": "registry.example/pause", "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"by": scheduler, "app": app}},
        "spec": {"schedulerName": scheduler, "automountServiceAccountToken": False, "containers": [container], **more},
    }


async def create(client: Client, namespace: str, pods: int, scheduler: str, *, constrained: bool) -> None:
    """A namespace full of pending pods."""
    await client.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    places = asyncio.Semaphore(32)

    async def one(number: int) -> None:
        async with places:
            body = manifest(number, scheduler, constrained=constrained)
            await client.create(f"/api/v1/namespaces/{namespace}/pods", body)

    await asyncio.gather(*[one(number) for number in range(pods)])


async def run(client: Client, namespace: str) -> int:
    """How many of its pods run."""
    return len(await client.list(f"/api/v1/namespaces/{namespace}/pods", fieldSelector="status.phase=Running"))


def seconds(plane: ControlPlane, namespace: str) -> tuple[float, float]:
    """From the first binding of a namespace that was asked for: until the last was done, and until the last pod ran."""

    def writes(subresource: str) -> list[JSON]:
        return [
            entry
            for entry in plane.audit()
            if entry["objectRef"].get("subresource") == subresource
            and entry["objectRef"].get("namespace") == namespace
            and entry["responseStatus"]["code"] in (200, 201)
        ]

    def at(entry: JSON, key: str) -> float:
        return datetime.fromisoformat(entry[key]).timestamp()

    bindings = writes("binding")
    first = min(at(entry, "requestReceivedTimestamp") for entry in bindings)
    bound, running = (max(at(entry, "stageTimestamp") for entry in found) for found in (bindings, writes("status")))
    return bound - first, running - first


async def whole(client: Client, namespace: str, pods: int) -> None:
    """Wait until all of its pods run."""

    async def done() -> bool:
        await asyncio.sleep(1)
        return await run(client, namespace) >= pods

    await wait_until(done, what=f"all pods of {namespace} run", within=300)


async def measure(folder: Path, pods: int, nodes: int, rounds: int) -> None:
    """Both in turn on one control plane, some times over."""
    async with AsyncExitStack() as stack:
        plane = await stack.enter_async_context(ControlPlane(folder))
        client = await stack.enter_async_context(plane.client())
        specs = [
            NodeSpec(f"node-{number:04d}", cpu="16", memory="64Gi", labels={"zone": f"z{number % ZONES}"})
            for number in range(nodes)
        ]
        await stack.enter_async_context(HollowNodes(client, specs))
        scheduler = plane.program("kube-scheduler")
        for turn in range(2 * rounds):
            kind = "constrained" if turn % 2 else "plain"
            with stopped(scheduler):
                await create(client, f"kube-{turn}", pods, "default-scheduler", constrained=bool(turn % 2))
                await create(client, f"ours-{turn}", pods, "elasticd", constrained=bool(turn % 2))
            before = cpu(scheduler.pid)
            await whole(client, f"kube-{turn}", pods)
            used = cpu(scheduler.pid) - before
            tell(plane, f"kube-{turn}", f"{kind}: kube-scheduler", pods, used, memory(scheduler.pid))
            own = folder / f"elasticd-{turn}"
            own.mkdir()
            with stopped(scheduler):
                config = plane.kubeconfig()
                async with running(own, config, "default", {"pool": POLICY}, cluster=CLUSTER, options=()) as daemon:
                    await whole(client, f"ours-{turn}", pods)
                    own_pid = daemon.program.pid
                    tell(plane, f"ours-{turn}", f"{kind}: elasticd", pods, cpu(own_pid), memory(own_pid))


@contextmanager
def stopped(program: Program) -> Iterator[None]:
    """It stands still meanwhile."""
    program.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        program.signal(signal.SIGCONT)


def cpu(pid: int) -> float:
    """Seconds of processor time that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> float:
    """The most that was resident of a process so far, in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def tell(plane: ControlPlane, namespace: str, who: str, pods: int, used: float, resident: float) -> None:
    """Print one line."""
    bound, running = seconds(plane, namespace)
    print(
        f"{who}: {pods} pods bound in {bound:.1f} s, {pods / bound:.0f} a second; all run after {running:.1f} s; "
        f"{1000 * used / pods:.2f} ms of its own CPU each, {resident:.0f} MiB at most",
        flush=True,
    )


def main(arguments: Sequence[str]) -> None:
    """Print the machine and both figures."""
    pods, nodes, rounds = (*map(int, arguments), *(PODS, NODES, ROUNDS)[len(arguments) :])
    print(f"{machine()}, {nodes} nodes")
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(Path(folder), pods, nodes, rounds))


if __name__ == "__main__":
    main(sys.argv[1:])
