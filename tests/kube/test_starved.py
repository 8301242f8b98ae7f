"""A daemon that lacks something: a seat at a genuine API server, whose API Priority and Fairness rejects all that
it asks for, or files that it may open. It waits, says so, and goes on."""

import asyncio
import contextlib
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from tests.kube.between import Between
from tests.kube.client import JSON, ApiError, wait_until
from tests.kube.conftest import Kube
from tests.kube.moving import DISRUPTION, POLICY, QUEUE, USER, Daemon, Stage, granted, sized, stage
from tests.kube.running import ELASTICD, running
from tests.kube.test_rolling_restart import CONVERGED, SCALER, is_scaled, set_load

GROUP = "flowcontrol.apiserver.k8s.io"
CROWD = 20
"""Requests at a time that want the few seats of the level."""
LASTS = 6.0
"""Seconds for which there is no seat left: longer than the Lease can go without a renewal."""


def level(name: str, api: str) -> JSON:
    """A priority level with as few seats as there can be, and what has to wait for one rejected."""
    shares = {"assuredConcurrencyShares": 1} if api.endswith("beta1") else {"nominalConcurrencyShares": 1}
    limited = {**shares, "limitResponse": {"type": "Reject"}}
    if not api.endswith("beta1"):
        limited |= {"lendablePercent": 0, "borrowingLimitPercent": 0}
    spec = {"type": "Limited", "limited": limited}
    return {"apiVersion": api, "kind": "PriorityLevelConfiguration", "metadata": {"name": name}, "spec": spec}


def schema(name: str, api: str) -> JSON:
    """All that the user asks for is of this level."""
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
    rule = {
        "subjects": [{"kind": "User", "user": {"name": USER}}],
        "resourceRules": [everything],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }
    spec = {"priorityLevelConfiguration": {"name": name}, "matchingPrecedence": 2, "rules": [rule]}
    return {"apiVersion": api, "kind": "FlowSchema", "metadata": {"name": name}, "spec": spec}


class Crowd:
    """Other requests of the same level, which take up its seats for as long as they are there."""

    def __init__(self, scene: Stage) -> None:
        self._scene = scene
        self._tasks: list[asyncio.Task[None]] = []

    async def come(self) -> None:
        """Return once there is no seat left."""
        self._tasks = [asyncio.create_task(self._sit()) for _ in range(CROWD)]
        async with self._scene.kube.plane.client(USER) as client:

            async def is_rejected() -> bool:
                try:
                    await client.get(self._scene.pods)
                except ApiError as error:
                    return error.status == 429
                return False

            await wait_until(is_rejected, what="the user is rejected", every=0.02)

    async def go(self) -> None:
        """Free the seats."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _sit(self) -> None:
        """Ask for something, and never come to its end."""
        plane = self._scene.kube.plane
        headers = {"Authorization": f"Bearer {plane.token(USER)}", "Content-Type": "application/json"}
        path = f"/api/v1/namespaces/{self._scene.namespace}/configmaps"
        async with aiohttp.ClientSession(
            plane.server, headers=headers, connector=aiohttp.TCPConnector(ssl=plane.client().tls)
        ) as session:
            while True:
                with contextlib.suppress(aiohttp.ClientError):
                    async with session.post(path, data=_endless()) as answer:
                        await answer.read()
                await asyncio.sleep(0.02)


async def _endless() -> AsyncIterator[bytes]:
    yield b"{"
    await asyncio.Event().wait()


@asynccontextmanager
async def narrow(scene: Stage) -> AsyncIterator[Crowd]:
    """The user's requests have a level of few seats."""
    client, api = scene.kube.client, f"{GROUP}/v1"
    api = api if await client.serves(api) else f"{api}beta1"
    made = [level(scene.namespace, api), schema(scene.namespace, api)]
    await client.apply(made)
    crowd = Crowd(scene)
    try:
        yield crowd
    finally:
        await crowd.go()
        for one in reversed(made):
            await client.delete(await client.path_of(one))


def rejected(metrics: str) -> Counter[str]:
    """How often the daemon was answered 429, by what it asked for."""
    found = re.findall(r'elasticd_api_calls_total\{code="429",resource="([^"]*)",verb="(\w+)"\} (\d+)', metrics)
    return Counter({f"{verb} {resource}": int(count) for resource, verb, count in found})


async def is_forgotten(scene: Stage) -> bool:
    """Whether nothing is written down of the pod any more."""
    return not await scene.records()


async def test_a_daemon_without_a_seat_waits_and_goes_on(kube: Kube, tmp_path: Path) -> None:
    """All seats are taken when a pod has been evicted and is about to be created again, and the load rises."""
    async with (
        stage(kube, tmp_path) as scene,
        granted(kube, scene.namespace, ("components/sources/rbac.yaml",)),
        narrow(scene) as crowd,
    ):
        set_load(scene, 2)
        async with scene.daemon("one", QUEUE, web=SCALER.format(namespace=scene.namespace)) as daemon:
            await scene.deploy("web", 2, nodeName=scene.nodes[1])
            pod = await scene.pod("batch")
            await wait_until(lambda: is_scaled(scene, 2), what="it is as at first")
            await wait_until(daemon.leads, what="it leads")
            daemon.proxy.cut("create", "before", crowd.come)
            async with scene.never_lost("batch"):
                await scene.cordon(pod["spec"]["nodeName"])
                await wait_until(daemon.proxy.fired.is_set, what="it is to be created again")
                set_load(scene, 5)
                await asyncio.sleep(LASTS)
                await waits(scene, daemon)
                await crowd.go()
                async with asyncio.timeout(CONVERGED):
                    again = await scene.runs("batch", not_uid=pod["metadata"]["uid"])
                    await wait_until(lambda: is_scaled(scene, 5), what="the count is right")
                    await wait_until(lambda: is_forgotten(scene), what="the record is removed")
        assert {again["spec"]["nodeName"], pod["spec"]["nodeName"]} == {*scene.nodes}
        assert scene.written("pods", "eviction") == ["batch"]
        assert scene.written("pods") == ["batch"]
        assert scene.written("deployments", "scale", "patch") == ["web"]
    log = daemon.running.program.log.read_text()
    # Of a dozen renewals one may have found a seat, which is a change too.
    assert 1 <= len(re.findall(r"WARNING lease .*429", log)) <= 3
    assert len(re.findall("one no longer leads", log)) == 1
    assert len(re.findall("one leads", log)) == 2, "each change is told once"


async def waits(scene: Stage, daemon: Daemon) -> None:
    """The daemon has done nothing, says why, and has not asked again and again."""
    status = await daemon.running.status()
    problems = status["cluster"]["problems"]
    assert not status["leading"]
    assert "429" in problems["coordination.k8s.io/v1/Lease"]
    assert re.search("batch has yet to be recreated.* 429", problems["evicted pods"])
    assert await is_scaled(scene, 2)
    assert scene.written("pods") == []
    asked = rejected((await daemon.running.page("/metrics"))[1])
    assert asked.total() < 10 * LASTS


async def test_a_leader_that_sees_nothing_gives_way(kube: Kube, tmp_path: Path) -> None:
    """Its network lets its Lease and what it writes through, and nothing that it reads."""
    async with stage(kube, tmp_path) as scene, granted(kube, scene.namespace, ("components/sources/rbac.yaml",)):
        set_load(scene, 2)
        web = SCALER.format(namespace=scene.namespace)
        async with (
            scene.daemon("one", QUEUE, writes="watch_silence = 4", web=web) as one,
            scene.daemon("two", QUEUE, writes="watch_silence = 4", web=web) as two,
        ):
            await scene.deploy("web", 2, nodeName=scene.nodes[1])
            await wait_until(lambda: is_scaled(scene, 2), what="it is as at first")
            leader = await scene.leader(one, two)
            other = two if leader is one else one
            await leader.proxy.hide()
            set_load(scene, 5)
            await wait_until(lambda: is_scaled(scene, 5), what="the other scales")
            assert await other.leads()
            assert not await leader.leads()
            leader.proxy.show()
            await wait_until(leader.follows, what="the first one sees again, and stands by")
            assert await other.leads()
    assert "the API server does not answer about " in leader.running.program.log.read_text()


FEW_FILES = ("sh", "-c", 'ulimit -n 64; exec "$@"', "sh", *ELASTICD)


async def test_a_daemon_with_few_files_binds_many_pods(kube: Kube, tmp_path: Path) -> None:
    """Each binding that is under way has a connection of its own, and so has each watch and whoever probes it."""
    async with stage(kube, tmp_path) as scene, Between(kube.plane) as proxy:
        config = proxy.kubeconfig(USER, tmp_path)
        policies = {"pool": POLICY.format(namespace=scene.namespace)}
        async with running(
            tmp_path, config, scene.namespace, policies, disruption=DISRUPTION, program=FEW_FILES
        ) as daemon:
            await scene.deploy("web", 150, **sized("1m"))

            async def all_bound() -> bool:
                assert (await daemon.page("/healthz"))[0] == 200
                pods = await scene.copies("web")
                return len(pods) == 150 and all("nodeName" in pod["spec"] for pod in pods)

            await wait_until(all_bound, within=90, what="all pods have a node", every=0.2)
        assert "Too many open files" not in (tmp_path / "elasticd.log").read_text()
