"""While a moved pod's replacement is not ready, no other of its controller goes, whoever leads next on a genuine API
server: neither by a move nor by a scale-in, nor by a rollout that begins meanwhile; nor where admission refuses the
replacement."""

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from operator import itemgetter
from pathlib import Path

import msgspec
import pytest

from elasticd.cluster.kubernetes.write.scale import KEPT
from elasticd.journal import read
from elasticd.kit.surge import Note
from elasticd.model.moves import STAYS
from elasticd.model.placement import PodOutcome
from tests.kube.admission import no_larger_sets
from tests.kube.between import SURGE
from tests.kube.client import JSON, ApiError, Objects, wait_until
from tests.kube.conftest import Kube
from tests.kube.moving import POLICY, QUEUE, Daemon, Stage, granted, stage
from tests.kube.pools import counting, stays_ready

SCALER = """
mode = "act"
interval = 0.5
jitter = 0
[select]
namespaces = ["{namespace}"]
kind = "StatefulSet"
[replicas]
min = 1
max = 9
[[strategy]]
type = "hpa"
metrics = [{{ type = "External", series = "queue_length", average_value = 10 }}]
[strategy.behavior.scale_down]
stabilization_window = 0
"""
NAME, COUNT = "db", 3
LABELS = {"app": NAME}
PATHS = {
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "ReplicationController": "/api/v1/namespaces/{}/replicationcontrollers",
}
# Of a StatefulSet whose pods are managed in parallel a scale-in removes a ready pod while another starts.
SPECS: JSON = {
    "Deployment": {"selector": {"matchLabels": LABELS}},
    "StatefulSet": {"podManagementPolicy": "Parallel", "serviceName": NAME, "selector": {"matchLabels": LABELS}},
    "ReplicationController": {"selector": LABELS},
}


class Controlled:
    """Three pods of a controller on one node."""

    def __init__(self, scene: Stage, kind: str) -> None:
        self.scene, self.kind, self._starts = scene, kind, True

    @property
    def path(self) -> str:
        """Of their controller."""
        return f"{PATHS[self.kind].format(self.scene.namespace)}/{NAME}"

    async def create(self, *, spread: bool = False) -> None:
        """Create them, and wait until they are ready: on one node, or spread over both."""
        template = {"metadata": {"labels": LABELS}, "spec": self.scene.spec()}
        spec = {**SPECS[self.kind], "replicas": COUNT, "template": template}
        await self.scene.cordon(*([] if spread else self.scene.nodes[1:]))
        path = self.path.removesuffix(f"/{NAME}")
        await self.scene.kube.client.create(path, {"metadata": {"name": NAME}, "spec": spec})
        await wait_until(partial(self.are_ready, COUNT), what="all are ready")

    async def are_ready(self, count: int) -> bool:
        """Whether there are so many, and all are ready."""
        pods = await self.scene.copies(NAME)
        return len(pods) == count and all(map(stays_ready, pods))

    async def roll_out(self) -> None:
        """Change their template, and wait until pods of the new one are there."""
        known = {pod["metadata"]["uid"] for pod in await self.scene.copies(NAME)}
        template = {"metadata": {"annotations": {"example.test/version": "2"}}}
        await self.scene.kube.client.patch(self.path, {"spec": {"template": template}}, "merge")

        async def has_begun() -> bool:
            return any(pod["metadata"]["uid"] not in known for pod in await self.scene.copies(NAME))

        await wait_until(has_begun, what="the rollout has begun", every=0.05)

    async def has(self, count: int) -> bool:
        """Whether there are so many."""
        return len(await self.scene.copies(NAME)) == count

    @asynccontextmanager
    async def never_fewer_ready(self) -> AsyncIterator[None]:
        """Create them; at no look are fewer ready from then on."""
        async with counting(self.scene.kube, self.scene.namespace) as counts:
            await self.create()
            await wait_until(lambda: counts[-1][NAME] == COUNT, what="all were counted")
            del counts[:-1]
            yield
            assert min(count[NAME] for count in counts) == COUNT

    async def is_whole(self) -> bool:
        """Whether all are ready, and no surge is left."""
        controller = await self.scene.read(self.path)
        is_clear = SURGE not in controller["metadata"].get("annotations", {})
        return is_clear and controller["spec"]["replicas"] == COUNT and await self.are_ready(COUNT)

    def set_load(self, count: int) -> None:
        """Let a StatefulSet need so many."""
        self.scene.kube.metrics.external[self.scene.namespace, "videos"] = 10 * count

    @contextmanager
    def starting(self) -> Iterator[None]:
        """No pod of them starts after `hold`."""
        nodes = self.scene.kube.nodes
        before, nodes.startup = nodes.startup, self._startup
        try:
            yield
        finally:
            nodes.startup = before

    def _startup(self, pod: JSON) -> float | None:
        is_ours = pod["metadata"]["namespace"] == self.scene.namespace
        return 0.2 if self._starts or not is_ours else None

    def hold(self) -> None:
        """From now on none starts."""
        self._starts = False

    async def release(self) -> None:
        """Those start after all that did not."""
        self._starts = True
        waiting: Objects = [pod for pod in await self.scene.copies(NAME) if not stays_ready(pod)]
        for pod in waiting:
            with suppress(ApiError):  # its controller may have removed it
                await self.scene.kube.client.delete(f"{self.scene.pods}/{pod['metadata']['name']}", grace=0)

    def is_held(self, daemon: Daemon) -> bool:
        """Whether a daemon would have moved and scaled them, again and again, and did not."""
        outcomes = [one for one in read(daemon.running.folder / "state") if isinstance(one, PodOutcome)]
        moves = [one for one in outcomes if one.reason == "NotReplaced"]
        scaling = daemon.running.explained(f"{self.scene.namespace}/StatefulSet/{NAME}")["outcome"] or {}
        is_scaling = self.kind == "ReplicationController" or scaling.get("reason") == "NotReplaced"
        return len(moves) >= 2 and is_scaling

    def disturbed(self) -> int:
        """How many went, or were to go."""
        return len(self.scene.written("pods", "eviction") + self.scene.written("statefulsets", "scale", "patch"))


@asynccontextmanager
async def controlled(kube: Kube, folder: Path, kind: str) -> AsyncIterator[Controlled]:
    """The pods, before there are any."""
    async with stage(kube, folder) as scene, granted(kube, scene.namespace, ("components/sources/rbac.yaml",)):
        pods = Controlled(scene, kind)
        pods.set_load(COUNT)
        with pods.starting():
            yield pods


@pytest.mark.parametrize(
    ("kind", "leave", "back"),
    [
        pytest.param("StatefulSet", Daemon.kill, Daemon.start, id="StatefulSet, killed"),
        pytest.param("StatefulSet", Daemon.stop, Daemon.wake, id="StatefulSet, suspended"),
        pytest.param("ReplicationController", Daemon.kill, Daemon.start, id="ReplicationController, killed"),
    ],
)
async def test_a_successor_lets_no_second_pod_go(
    kube: Kube, tmp_path: Path, kind: str, leave: object, back: object
) -> None:
    """The leader goes right after the first eviction that there ever was."""
    assert callable(leave)
    assert callable(back)
    async with controlled(kube, tmp_path, kind) as pods:
        scene = pods.scene
        pool = POLICY.format(namespace=scene.namespace).replace("surge = true", "surge = false")
        policies = {"pool": pool, "scaler": SCALER.format(namespace=scene.namespace)}
        async with (
            scene.daemon("one", QUEUE, **policies) as one,
            scene.daemon("two", QUEUE, **policies) as two,
            counting(kube, scene.namespace) as counts,
        ):
            first = await scene.leader(one, two)
            successor = two if first is one else one
            await pods.create()
            await wait_until(lambda: counts[-1][NAME] == COUNT, what="all were counted")
            del counts[:-1]
            pods.hold()
            await scene.killed(partial(leave, first), first, ("evict", "after", 1), scene.nodes[0])
            pods.set_load(COUNT - 1)
            await wait_until(lambda: pods.disturbed() > 1 or pods.is_held(successor), what="it holds")
            assert pods.disturbed() == 1
            back(first)
            await pods.release()
            left = COUNT - 1 if kind == "StatefulSet" else COUNT
            await wait_until(partial(pods.are_ready, left), what="as many are ready as are needed")
            assert min(count[NAME] for count in counts) == COUNT - 1


@pytest.mark.parametrize("ends", [False, True], ids=["it gives it up", "it is stopped"])
async def test_a_late_scale_in_finds_the_workload_changed(kube: Kube, tmp_path: Path, ends: bool) -> None:
    """The network delivers it once elasticd has given it up: it would remove a pod that is needed again."""
    async with controlled(kube, tmp_path, "StatefulSet") as pods:
        scene = pods.scene
        scene.patience = 30 if ends else 2
        async with scene.daemon("one", QUEUE, scaler=SCALER.format(namespace=scene.namespace)) as one:
            await pods.create()
            one.proxy.cut("scale", "late", one.end if ends else None)
            pods.set_load(COUNT - 1)
            await wait_until(one.proxy.fired.is_set, what="it is to be scaled in")
            pods.set_load(COUNT)

            async def is_given_up() -> bool:
                return KEPT in ((await scene.read(pods.path))["metadata"].get("annotations") or {})

            await wait_until(is_given_up, what="it is given up")
            assert await one.proxy.deliver() == 409
            if ends:
                one.start()


async def test_a_late_eviction_finds_the_pod_changed(kube: Kube, tmp_path: Path) -> None:
    """Its node was uncordoned; the network delivers it once elasticd has given it up: another may have gone by then."""
    async with controlled(kube, tmp_path, "ReplicationController") as pods:
        scene = pods.scene
        pool = POLICY.format(namespace=scene.namespace).replace("surge = true", "surge = false")
        async with scene.daemon("one", QUEUE, pool=pool) as one:
            await pods.create()
            await scene.killed(scene.cordon, one, ("evict", "late", 1), scene.nodes[0])

            async def is_given_up() -> bool:
                return any(STAYS in (pod["metadata"].get("annotations") or {}) for pod in await scene.copies(NAME))

            await wait_until(is_given_up, what="it is given up")
            assert await one.proxy.deliver() == 409
            assert await pods.are_ready(COUNT)


@pytest.mark.parametrize("end", ["killed", "stopped", "killed, and its successor stopped"])
async def test_a_former_leaders_eviction_takes_no_second_pod(kube: Kube, tmp_path: Path, end: str) -> None:
    """The network delivers it once the next leader has moved another pod of the controller."""
    async with controlled(kube, tmp_path, "ReplicationController") as pods:
        scene = pods.scene
        pool = POLICY.format(namespace=scene.namespace).replace("surge = true", "surge = false")
        scene.patience = 30
        async with scene.daemon("one", QUEUE, pool=pool) as one, scene.daemon("two", QUEUE, pool=pool) as two:
            first = await scene.leader(one, two)
            successor = two if first is one else one
            await pods.create(spread=True)
            ending = first.end if end == "stopped" else first.kill
            await scene.killed(ending, first, ("evict", "late", 1), scene.nodes[0])
            await scene.cordon()
            await wait_until(successor.leads, what="the other leads")
            if end == "killed, and its successor stopped":
                first.start()
                await wait_until(first.follows, what="it is back, and follows")
                await successor.end()
                await wait_until(first.leads, what="it leads again")
            await scene.cordon(scene.nodes[1])
            await wait_until(lambda: scene.written("pods", "eviction"), what="it moves another")
            assert await first.proxy.deliver() == 409
            await scene.cordon()
            for daemon in (one, two):
                if daemon.running.program.code is not None:
                    daemon.start()


async def test_a_rollout_during_a_surge_takes_no_ready_pod(kube: Kube, tmp_path: Path) -> None:
    """Neither the replacement nor a new pod gets ready: to give the move up would lower the count, for which the
    Deployment's controller takes a ready pod of the larger ReplicaSet."""
    async with controlled(kube, tmp_path, "Deployment") as pods:
        scene = pods.scene
        pool = POLICY.format(namespace=scene.namespace).replace("surge = true", "surge = true\nsurge_within = 4")
        async with scene.daemon("one", QUEUE, pool=pool) as one, pods.never_fewer_ready():
            pods.hold()
            await scene.cordon(scene.nodes[0])
            await wait_until(partial(pods.has, COUNT + 1), what="the replacement is there")
            await pods.roll_out()
            await wait_until(partial(is_kept, one, "back"), what="the additional replica stays")
            await pods.release()
            await wait_until(pods.is_whole, within=60, what="the rollout and the move have ended")


async def test_a_surge_waiting_for_a_rollout_keeps_no_scale_in(kube: Kube, tmp_path: Path) -> None:
    """As where the rollout waits for the room of the pods that are to go."""
    async with controlled(kube, tmp_path, "Deployment") as pods:
        scene = pods.scene
        pool = POLICY.format(namespace=scene.namespace).replace("surge = true", "surge = true\nsurge_within = 4")
        scaler = SCALER.format(namespace=scene.namespace).replace("StatefulSet", "Deployment")

        async def is_lowered() -> bool:
            metadata, spec = itemgetter("metadata", "spec")(await scene.read(pods.path))
            return SURGE not in metadata["annotations"] and spec["replicas"] == 1

        async with scene.daemon("one", QUEUE, pool=pool, count=scaler) as one:
            await pods.create()
            pods.hold()
            await scene.cordon(scene.nodes[0])
            await wait_until(partial(pods.has, COUNT + 1), what="the replacement is there")
            await pods.roll_out()
            await wait_until(partial(is_kept, one, "back"), what="the additional replica stays")
            pods.set_load(1)
            await wait_until(is_lowered, what="it is scaled in, and no surge is left")
            assert any(map(stays_ready, await scene.copies(NAME)))
            await pods.release()
            await wait_until(partial(pods.are_ready, 1), what="the rollout has ended")


@pytest.mark.since("1.22", "controllers heed deletion costs")
async def test_a_rollout_that_overtakes_a_surge_takes_no_ready_pod(kube: Kube, tmp_path: Path) -> None:
    """It begins while the lowering of the count is on its way, which is then refused by its version."""
    async with controlled(kube, tmp_path, "Deployment") as pods:
        scene = pods.scene
        async with scene.daemon("one", QUEUE) as one, pods.never_fewer_ready():

            async def roll_out() -> None:
                pods.hold()
                await pods.roll_out()

            await scene.killed(roll_out, one, ("scale", "overtaken", 2), scene.nodes[0])
            await wait_until(partial(is_kept, one, "down"), what="the additional replica stays")
            await pods.release()
            await wait_until(pods.is_whole, within=60, what="the rollout and the move have ended")


@pytest.mark.since("1.36", "1.20 knows no ValidatingAdmissionPolicy")
@pytest.mark.parametrize("rolls_out", [False, True], ids=["at rest", "changed meanwhile"])
async def test_a_surge_whose_replica_admission_refuses_is_taken_back(
    kube: Kube, tmp_path: Path, *, rolls_out: bool
) -> None:
    """It refuses the ReplicaSet one more, not the Deployment, whose controller then sees no newer spec of it."""
    async with controlled(kube, tmp_path, "Deployment") as pods:
        scene = pods.scene

        async def is_seen() -> bool:
            deployment = await scene.kube.client.get(pods.path)
            return bool(deployment["status"]["observedGeneration"] == deployment["metadata"]["generation"])

        pool = POLICY.format(namespace=scene.namespace).replace("surge = true", "surge = true\nsurge_within = 4")
        async with (
            scene.daemon("one", QUEUE, pool=pool) as one,
            pods.never_fewer_ready(),
            no_larger_sets(kube, scene.namespace, COUNT),
        ):
            await scene.cordon(scene.nodes[0])
            await wait_until(partial(is_kept, one, "back"), what="its controller sees no newer spec")
            if rolls_out:
                await pods.roll_out()
            await wait_until(pods.is_whole, what="the move is taken back")
            await wait_until(is_seen, what="its controller sees the newest spec")


ANNOTATIONS = 256 * 1024
"""Bytes of all annotations of an object."""


async def test_a_surge_whose_note_fits_no_replica_set_ends(kube: Kube, tmp_path: Path) -> None:
    """The Deployment's controller copies it to its ReplicaSet, which has two annotations more, in 80 bytes."""
    async with controlled(kube, tmp_path, "Deployment") as pods:
        scene = pods.scene
        pool = POLICY.format(namespace=scene.namespace).replace("surge = true", "surge = true\nsurge_within = 4")
        async with scene.daemon("one", QUEUE, pool=pool) as one, pods.never_fewer_ready():
            pod, *_ = await scene.copies(NAME)
            name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
            now, lease = time.time(), f"{scene.namespace}/elasticd"
            decision = f"pool:{scene.namespace}/Pod/{name}@{now:.3f}"
            note = Note(name, uid, scene.nodes[0], COUNT, "back", now, now, None, decision, lease)
            annotations = (await scene.read(pods.path))["metadata"]["annotations"]
            known = {**annotations, SURGE: msgspec.json.encode(note).decode(), "filler": ""}
            filler = "x" * (ANNOTATIONS - sum(len(key) + len(text) for key, text in known.items()) - 40)
            await kube.client.patch(pods.path, {"metadata": {"annotations": {"filler": filler}}})
            await scene.cordon(scene.nodes[0])
            await wait_until(partial(is_kept, one, "back"), what="its controller sees no newer spec")
            await wait_until(pods.is_whole, what="the move is taken back")


async def is_kept(daemon: Daemon, phase: str) -> bool:
    """Whether a daemon says that it lowers no count, as there is a rollout."""
    _, page = await daemon.running.page("/moves")
    return f"{phase}: " in page and "is being rolled out" in page
