"""Lists and watches of a genuine API server that expire, fall silent or lack an event: what the daemon's client knows
is right again afterwards, and nothing is done on what was wrong."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_asyncio
from aiohttp import web

from elasticd.base.clock import WallClock
from elasticd.cluster.kubernetes import Kubernetes, KubernetesCluster, LeaseSettings
from elasticd.cluster.kubernetes.watch import watch
from elasticd.model.actions import Evict
from elasticd.model.workload import Ref, Workload
from tests.kube.between import kubeconfig_by
from tests.kube.client import JSON, Client, wait_until
from tests.kube.control_plane import ControlPlane, NoControlPlane
from tests.kube.proxy import Proxy
from tests.kube.relay import Relay
from tests.kube.test_cluster import DEPLOYMENT, PATHS, manifest, scale_of

CONVERGED = 3 + 30
"""Seconds: three intervals, and the longest pause after failures."""
PODS = "/api/v1/namespaces/default/pods"
WEB = Ref("default", "Deployment", "web", "apps/v1")
ALL = ["a", "b", "c", "d"]
HOME = LeaseSettings(enabled=False, namespace="default")


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ControlPlane]:
    """An API server with its own etcd, and nobody else."""
    try:
        folder = tmp_path_factory.mktemp("watches")
        async with ControlPlane(folder / "kube", controllers=False, scheduler=False) as started:
            yield started
    except NoControlPlane as missing:
        pytest.skip(str(missing))


@pytest_asyncio.fixture(loop_scope="session")
async def client(plane: ControlPlane) -> AsyncIterator[Client]:
    """An admin, with four pods of which the first is to go; nothing is left afterwards."""
    async with plane.client() as admin:
        await admin.apply(manifest(DEPLOYMENT), "default")
        for name in ALL:
            await admin.create(PODS, pod(name))
        yield admin
        await admin.request("DELETE", PATHS[DEPLOYMENT].format("default"))
        for one in await admin.list(PODS):
            await admin.delete(f"{PODS}/{one['metadata']['name']}", grace=0)


def pod(name: str) -> JSON:
    spec = {"nodeName": "node-0", "containers": [{"name": "main", "image": "example.test/main:1"}]}
    return {"metadata": {"name": name}, "spec": {**spec, "terminationGracePeriodSeconds": 0}}


class Watched(NamedTuple):
    """The daemon's client, and what it knows."""

    cluster: KubernetesCluster

    def pods(self) -> list[str]:
        """The names of all pods."""
        snapshot = self.cluster.snapshot
        return sorted(one.name for one in (*snapshot.pending(), *snapshot.on_nodes().get("node-0", ())))

    def web(self) -> Workload:
        """The Deployment."""
        workload = self.cluster.snapshot.workload(WEB)
        assert workload is not None
        return workload


@asynccontextmanager
async def watching(kubeconfig: Path, **options: Any) -> AsyncIterator[Watched]:
    """The daemon's client, once it knows the cluster."""
    table = Kubernetes(kubeconfig=str(kubeconfig), lease=HOME, **options)
    async with table.open(WallClock()) as cluster:
        await cluster.observe(0.0, frozenset({DEPLOYMENT}))
        watched = Watched(cluster)
        await wait_until(watched.pods, what="pods are known")
        yield watched


class Spoiling(Proxy):
    """A proxy before the API server that notes how lists and watches of pods expire, can hold all requests back, and
    call somebody before the next page of a list; of watches it loses what is told of objects of these names."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        super().__init__(plane.server, plane.client().tls)
        self._plane, self._folder = plane, folder
        self.expired: list[str] = []
        self.before_page: Callable[[], Awaitable[None]] | None = None
        self.loses: set[str] = set()
        self.lost: list[str] = []
        self.passes = asyncio.Event()
        self.passes.set()
        self._watches: set[asyncio.Transport] = set()

    def kubeconfig(self) -> Path:
        """By which an admin comes this way."""
        return kubeconfig_by(self._plane, self.url, "admin", self._folder)

    def hold(self) -> None:
        """End all watches, and hold back what is asked until `passes` is set again."""
        self.passes.clear()
        for transport in self._watches:
            transport.abort()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        await self.passes.wait()
        if request.query.get("watch"):
            return await self._stream(request)
        body = await request.read()
        if request.query.get("continue") and self.before_page:
            before, self.before_page = self.before_page, None
            await before()
        code, answer, headers = await self._ask(request, body)
        if code == 410:
            self.expired.append("list")
        return web.Response(status=code, body=answer, headers=headers)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        self._watches.add(request.transport)  # before it is open, or `hold` would not end one that opens meanwhile
        async with self._open(request) as answer:
            response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
            await response.prepare(request)
            rest = b""
            async for chunk in answer.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                await response.write(b"".join(line + b"\n" for line in lines if self._is_passed(request, line)))
            return response

    def _is_passed(self, request: web.Request, line: bytes) -> bool:
        event = json.loads(line)
        if event["type"] == "ERROR" and event["object"]["code"] == 410 and request.path.endswith("/pods"):
            self.expired.append("watch")
        name = event["object"].get("metadata", {}).get("name", "")
        if name in self.loses:
            self.lost.append(event["type"])
        return name not in self.loses


@asynccontextmanager
async def spoiled(plane: ControlPlane, folder: Path, **options: Any) -> AsyncIterator[tuple[Spoiling, Watched]]:
    """The daemon's client, by way of the proxy."""
    async with Spoiling(plane, folder) as proxy, watching(proxy.kubeconfig(), **options) as watched:
        await wait_until(lambda: watched.pods() == ALL, what="it knows all")
        yield proxy, watched


async def test_a_watch_whose_version_etcd_forgot_lists_anew(
    plane: ControlPlane, client: Client, tmp_path: Path
) -> None:
    async with spoiled(plane, tmp_path, request_timeout=60.0) as (proxy, watched):
        proxy.hold()
        await client.delete(f"{PODS}/a", grace=0)
        await client.create(PODS, pod("e"))
        await plane.compact()
        await plane.restart_apiserver()  # or its cache would know what etcd does not
        assert watched.pods() == ALL
        proxy.passes.set()
        await wait_until(
            lambda: watched.pods() == ["b", "c", "d", "e"], within=CONVERGED, what="it knows what there is"
        )
        assert "watch" in proxy.expired
        await client.delete(f"{PODS}/b", grace=0)
        await wait_until(lambda: watched.pods() == ["c", "d", "e"], what="it is told of what comes")


async def test_a_list_that_expires_between_pages_is_read_again(
    plane: ControlPlane, client: Client, tmp_path: Path
) -> None:
    """A pod that was on the first page is deleted meanwhile."""

    async def expire() -> None:
        await client.delete(f"{PODS}/a", grace=0)
        await plane.compact()
        await plane.restart_apiserver()

    async with Spoiling(plane, tmp_path) as proxy:
        proxy.before_page = expire
        async with watching(proxy.kubeconfig(), request_timeout=60.0, page=2) as watched:
            await wait_until(lambda: watched.pods() == ["b", "c", "d"], within=CONVERGED, what="it knows what there is")
        assert proxy.expired == ["list"]


async def test_a_watch_that_falls_silent_is_replaced(plane: ControlPlane, client: Client, tmp_path: Path) -> None:
    """A count that was changed meanwhile is not overwritten."""
    async with Relay(plane.port) as relay:
        config = kubeconfig_by(plane, relay.url, "admin", tmp_path)
        async with watching(config, request_timeout=2.0, watch_silence=6.0) as watched:
            await wait_until(lambda: watched.web().replicas == 2)
            assert relay.freeze()
            confirmed = watched.cluster.snapshot.confirmed
            await client.patch(f"{PATHS[DEPLOYMENT].format('default')}/web", {"spec": {"replicas": 6}})
            await client.delete(f"{PODS}/a", grace=0)
            answer = await watched.cluster.act(scale_of(watched.web(), 3))
            assert answer.result == "conflict"
            assert watched.cluster.snapshot.confirmed - confirmed < 1
            await wait_until(lambda: watched.web().replicas == 6, within=CONVERGED, what="it knows the count")
            await wait_until(lambda: watched.pods() == ["b", "c", "d"], what="it knows what there is")


async def test_a_pod_whose_deletion_nobody_told_is_not_made_again(
    plane: ControlPlane, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list that is read again from time to time finds it gone."""
    async with spoiled(plane, tmp_path, watch_silence=5.0) as (proxy, watched):
        proxy.loses.add("a")
        known = watched.cluster.snapshot.pod_store.get("default", "a")
        assert known is not None
        await client.delete(f"{PODS}/a", grace=0)
        await client.create(PODS, pod("e"))
        await wait_until(lambda: watched.pods() == [*ALL, "e"], what="it knows of one that is gone")
        assert proxy.lost[-1] == "DELETED"
        answer = await watched.cluster.act(Evict(known.ref, known.uid, "node-0", "Cordoned", restore=True))
        assert (answer.result, answer.message) == ("conflict", "it is gone")
        assert await client.list("/api/v1/namespaces/default/configmaps", labelSelector="elasticd.io/restore") == []
        monkeypatch.setattr(watch, "RELIST", 1.0)
        await wait_until(
            lambda: watched.pods() == ["b", "c", "d", "e"], within=CONVERGED, what="it knows what there is"
        )
        assert [one["metadata"]["name"] for one in await client.list(PODS)] == ["b", "c", "d", "e"]
