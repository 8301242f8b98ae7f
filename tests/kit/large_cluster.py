"""An API server of 5,000 nodes and 150,000 pods, in a process of its own, so that what it costs is nobody else's.

It shows what a genuine one does of a cluster where nothing goes wrong: lists in pages, watches, and metrics.k8s.io with
what each pod and node uses. One node in ten is overloaded. What is chance in a cluster, such as the name of a token's
volume, differs from pod to pod. Knows nothing of the daemon.
"""

import asyncio
import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from itertools import islice
from multiprocessing.connection import Connection
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from aiohttp import web

NODES, PODS_A_NODE, HOT, PAGE = 5000, 30, 10, 500
GIB = 2.0**30
CPU, MEMORY = 16.0, 64 * GIB
LEVEL, OVERLOADED = 0.5, 0.8
CHANGED = range(0, NODES * PODS_A_NODE, 100)
"""Pods that change when they are told to: one in a hundred."""

JSON = dict[str, Any]


def load(index: int) -> float:
    """Which part of itself a node uses."""
    return OVERLOADED if index % HOT == 0 else LEVEL - 0.05 * (index % 3)


def share(k: int) -> float:
    """Which part of that a pod uses: each the same, give or take a half."""
    return (0.5 + k / (PODS_A_NODE - 1)) / PODS_A_NODE


def stamp(at: float) -> str:
    """A time as the API writes it."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def conditions(born: float, ready: str = "True") -> list[JSON]:
    """How a pod came to be what it is."""
    steps = (
        ("Initialized", 1, "True"),
        ("Ready", 9, ready),
        ("ContainersReady", 9, ready),
        ("PodScheduled", 0, "True"),
    )
    return [
        {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": stamp(born + after)}
        for kind, after, status in steps
    ]


def wire_node(index: int) -> JSON:
    """A node as the API shows it."""
    name = f"n{index:04d}"
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    size = {"cpu": f"{CPU:.0f}", "memory": f"{MEMORY / 2**10:.0f}Ki", "pods": "110", "ephemeral-storage": "95551679124"}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", "labels": labels},
        "spec": {"podCIDR": "10.0.0.0/24", "providerID": f"cloud://{name}"},
        "status": {"capacity": size, "allocatable": size, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def wire_pod(index: int, k: int, now: float) -> JSON:
    """A pod of a Deployment as the API shows it, without managedFields."""
    name, app, born = f"n{index:04d}-{k}", f"web-{index // 50}-{k}", int(now) - 3600 - 7 * index - k
    digest = sha256(name.encode()).hexdigest()  # of what is by chance in a cluster, and here the same in each run
    return {
        "metadata": {
            "name": name,
            "generateName": f"{app}-",
            "namespace": "shop",
            "uid": str(UUID(digest[:32])),
            "resourceVersion": str(1000 * index + k),
            "creationTimestamp": stamp(born),
            "labels": {"app": app, "pod-template-hash": "5d4f8c7b9"},
            "ownerReferences": [_owner(app)],
        },
        "spec": _spec(f"n{index:04d}", app, f"kube-api-access-{digest[:5]}"),
        "status": {
            "phase": "Running",
            "conditions": conditions(born),
            "hostIP": f"192.168.{index >> 8}.{index & 255}",
            "podIP": f"10.{index >> 8}.{index & 255}.{k + 1}",
            "podIPs": [{"ip": f"10.{index >> 8}.{index & 255}.{k + 1}"}],
            "startTime": stamp(born + 1),
            "containerStatuses": [_container_status(app, digest, born)],
            "qosClass": "Burstable",
        },
    }


def _owner(app: str) -> JSON:
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": app,
        "uid": f"rs-{app}",
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _container(app: str, volume: str) -> JSON:
    return {
        "name": app,
        "image": f"registry.example.com/shop/{app}:1.2.3",
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": f"SETTING_{n}", "value": "a value of some length"} for n in range(4)],
        "resources": {"requests": {"cpu": "400m", "memory": "1536Mi"}, "limits": {"memory": "2Gi"}},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10},
        "volumeMounts": [
            {"name": volume, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}
        ],
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }


def _spec(node: str, app: str, volume: str) -> JSON:
    tolerated = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in ("not-ready", "unreachable")
    ]
    return {
        "volumes": [{"name": volume, "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
        "containers": [_container(app, volume)],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "nodeName": node,
        "schedulerName": "elasticd",
        "tolerations": tolerated,
        "priority": 0,
    }


def _container_status(app: str, digest: str, born: float) -> JSON:
    return {
        "name": app,
        "ready": True,
        "restartCount": 0,
        "image": f"registry.example.com/shop/{app}:1.2.3",
        "imageID": f"registry.example.com/shop/{app}@sha256:{'0' * 64}",
        "containerID": f"containerd://{digest}",
        "state": {"running": {"startedAt": stamp(born + 8)}},
        "lastState": {},
    }


def _changed(number: int, now: float) -> JSON:
    """A pod that is not ready any more."""
    found = wire_pod(*divmod(number, PODS_A_NODE), now)
    return {**found, "status": {**found["status"], "conditions": conditions(now, "False")}}


def _used(part: float) -> JSON:
    return {"cpu": f"{part * CPU * 1e9:.0f}n", "memory": f"{part * MEMORY / 1024:.0f}Ki"}


def _measured(now: float, name: str, labels: JSON, more: JSON, **namespace: str) -> JSON:
    path = "".join(f"/namespaces/{one}/pods" for one in namespace.values()) or "/nodes"
    link = f"/apis/metrics.k8s.io/v1beta1{path}/{name}"
    meta = {"name": name, **namespace, "selfLink": link, "creationTimestamp": stamp(now), "labels": labels}
    return {"metadata": meta, "timestamp": stamp(now), "window": "15.342s", **more}


def node_metrics(now: float) -> JSON:
    """What nodes use."""
    names = [f"n{index:04d}" for index in range(NODES)]
    items = [
        _measured(now, name, {"kubernetes.io/hostname": name}, {"usage": _used(load(index))})
        for index, name in enumerate(names)
    ]
    return {"kind": "NodeMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items}


def pod_metrics(now: float) -> JSON:
    """What pods use."""
    items = []
    for index in range(NODES):
        for k in range(PODS_A_NODE):
            app = f"web-{index // 50}-{k}"
            containers = {"containers": [{"name": app, "usage": _used(load(index) * share(k))}]}
            labels = {"app": app, "pod-template-hash": "5d4f8c7b9"}
            items.append(_measured(now, f"n{index:04d}-{k}", labels, containers, namespace="shop"))
    return {"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items}


def _pages(items: Iterator[JSON], total: int) -> list[bytes]:
    pages = list[bytes]()
    for start in range(0, total, PAGE):
        more = str(len(pages) + 1) if start + PAGE < total else ""
        meta = {"resourceVersion": "1", "continue": more}
        pages.append(msgspec.json.encode({"kind": "List", "metadata": meta, "items": list(islice(items, PAGE))}))
    return pages


class Server:
    """What it serves."""

    def __init__(self) -> None:
        now = time.time()
        pods = (wire_pod(*divmod(number, PODS_A_NODE), now) for number in range(NODES * PODS_A_NODE))
        self._lists = {
            "/api/v1/pods": _pages(pods, NODES * PODS_A_NODE),
            "/api/v1/nodes": _pages(map(wire_node, range(NODES)), NODES),
            "/apis/policy/v1/poddisruptionbudgets": _pages(iter(()), 1),
        }
        events = [{"type": "MODIFIED", "object": _changed(number, now)} for number in CHANGED]
        self._events = b"\n".join([*map(msgspec.json.encode, events), b""])
        self._answers = {
            "/version": {"gitVersion": "v1.30.0"},
            "/apis/metrics.k8s.io": _group("metrics.k8s.io/v1beta1"),
            "/apis/policy": _group("policy/v1"),
            "/apis/policy/v1": {
                "kind": "APIResourceList",
                "resources": [{"name": "poddisruptionbudgets", "kind": "PodDisruptionBudget", "namespaced": True}],
            },
        }
        self._measured = {
            "/apis/metrics.k8s.io/v1beta1/pods": msgspec.json.encode(pod_metrics(now)),
            "/apis/metrics.k8s.io/v1beta1/nodes": msgspec.json.encode(node_metrics(now)),
        }
        self._then = stamp(now).encode()
        self.change = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Anything that is asked for."""
        path = request.path
        if path in self._measured:
            body = self._measured[path].replace(self._then, stamp(time.time()).encode())
        elif path in self._answers:
            body = msgspec.json.encode(self._answers[path])
        elif path not in self._lists:
            raise web.HTTPNotFound
        elif "watch" in request.query:
            return await self._watch(request)
        else:
            body = self._lists[path][int(request.query.get("continue", "0"))]
        return web.Response(body=body, content_type="application/json")

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await self.change.wait()
        if request.path.endswith("/pods"):
            await response.write(self._events)
        await asyncio.Event().wait()
        return response


def _group(version: str) -> JSON:
    return {"kind": "APIGroup", "preferredVersion": {"groupVersion": version}, "versions": [{"groupVersion": version}]}


def _serve(pipe: Connection, taken: frozenset[int]) -> None:
    if taken and (free := frozenset(range(os.cpu_count() or 1)) - taken):
        os.sched_setaffinity(0, free)

    async def run() -> None:
        server, app = Server(), web.Application()
        app.router.add_get("/{path:.*}", server.answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        pipe.send(runner.addresses[0][1])
        await asyncio.to_thread(pipe.recv)
        server.change.set()
        await asyncio.Event().wait()

    asyncio.run(run())


class Served(NamedTuple):
    """Where it is. The first word into `pipe` makes the pods change."""

    url: str
    pipe: Connection


@contextmanager
def served(taken: frozenset[int] = frozenset()) -> Iterator[Served]:
    """The server, until the block ends, on other cores than those that are `taken`, if there are any."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs, taken), daemon=True)
    process.start()
    theirs.close()
    try:
        yield Served(f"http://127.0.0.1:{ours.recv()}", ours)
    finally:
        process.kill()
        process.join()
