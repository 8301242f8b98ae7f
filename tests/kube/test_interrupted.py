"""Writes on a genuine API server that are interrupted: pods are bound and preempted, counts and Jobs changed and pods
resized by daemons that are killed or stopped at each write, and whose requests and answers are cut off. Each thing is
done once, and all is as it was wanted in the end. How pods are moved meanwhile is test_moves' and test_moves_surge's.

`pytest -m e2e -s tests/kube/test_interrupted.py` prints the times of which docs/measured.md has the longest.
"""

import asyncio
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio

from tests.kube.between import Moment
from tests.kube.client import JSON, Objects, wait_until
from tests.kube.conftest import Kube
from tests.kube.moving import QUEUE, USAGE, USED, Daemon, Stage, granted, returned, sized, stage, table
from tests.kube.test_daemon import policy
from tests.kube.test_jobs import template
from tests.kube.test_vertical import cores

POOL = """
mode = "act"
interval = 0.2
[pool]
namespaces = ["{namespace}"]
nodes = {{ pool = "{namespace}" }}
[[strategy]]
type = "filters"
[[strategy]]
type = "preemption"
min_run = 0
"""
JOBS = """
mode = "act"
interval = 0.2
jitter = 0
job = {{ namespace = "{namespace}", name = "transcode", template_file = "transcode.yaml", successful_history = 1 }}
replicas = {{ max = 3 }}
[[strategy]]
type = "jobs"
queue = [{{ series = "queue_length" }}]
"""
VERTICAL = """
mode = "act"
interval = 0.5
jitter = 0
workload = {{ namespace = "{namespace}", name = "sized" }}
replicas = {{ min = 1, max = 1 }}
[[strategy]]
type = "vertical"
resources = ["cpu"]
at_once = 1
cooldown = 1
"""
SOURCES = USED + QUEUE + USAGE
RIGHTS = ("components/jobs/rbac.yaml", "components/sources/rbac.yaml", "components/vertical/rbac.yaml")
STEPS = {
    "bind": ("bind",),
    "preempt": ("nominate", "evict", "bind"),
    "scale": ("scale",),
    "Job": ("create Job", "delete Job"),
    "resize": ("resize",),
}


class Work:
    """Something that a daemon does by writing, again and again."""

    def __init__(self, scene: Stage) -> None:
        self.scene, self.kube = scene, scene.kube

    async def prepare(self) -> None:
        """What must be there before the first time."""

    @abstractmethod
    async def begin(self) -> None:
        """Let it be wanted."""

    async def go_on(self) -> None:
        """What others do about it, whoever leads."""

    @abstractmethod
    async def done(self) -> int:
        """Wait until all is as wanted, and make ready for the next time; how often it was written."""

    async def running(self, app: str) -> Objects:
        """The pods of an application that run."""
        return [pod for pod in await self.scene.copies(app) if pod["status"].get("phase") == "Running"]


class Bind(Work):
    """A pod that waits for a node."""

    async def begin(self) -> None:
        self._name = self.scene.name("waiting")
        meta = {"name": self._name, "labels": {"app": self._name}}
        await self.kube.client.create(self.scene.pods, {"metadata": meta, "spec": self.scene.spec()})

    async def done(self) -> int:
        await self.scene.runs(self._name)
        await self.kube.client.delete(f"{self.scene.pods}/{self._name}", grace=0)
        return self.scene.written("pods", "binding").count(self._name)


class Preempt(Work):
    """A pod of higher priority, for which the pod of a Deployment must go."""

    async def prepare(self) -> None:
        self._class = f"{self.scene.namespace}-high"
        body = {"metadata": {"name": self._class}, "value": 1000}
        await self.kube.client.create("/apis/scheduling.k8s.io/v1/priorityclasses", body)
        await self.scene.deploy("low", 1, **self._large())

    def _large(self) -> JSON:
        """Of two such pods one has room on the last node."""
        return {**sized(3), "nodeSelector": {"kubernetes.io/hostname": self.scene.nodes[-1]}}

    async def begin(self) -> None:
        (self._victim,) = await wait_until(lambda: self.running("low"), within=60, what="the lower pod runs")
        self._name = self.scene.name("high")
        spec = self.scene.spec(priorityClassName=self._class, **self._large())
        meta = {"name": self._name, "labels": {"app": self._name}}
        await self.kube.client.create(self.scene.pods, {"metadata": meta, "spec": spec})

    async def done(self) -> int:
        await self.scene.runs(self._name)
        bound = self.scene.written("pods", "binding").count(self._name)
        assert bound == 1
        victim = self._victim["metadata"]["name"]
        others = [name for name in self.scene.written("pods", "eviction") if name.startswith("low-")]
        await self.kube.client.delete(f"{self.scene.pods}/{self._name}", grace=0)
        await wait_until(lambda: self.running("low"), within=60, what="there is room for a lower pod again")
        assert len(others) == len(set(others))
        return others.count(victim)


class Scale(Work):
    """A Deployment with two pods or six, as its load asks."""

    async def prepare(self) -> None:
        self._count = 2
        self._set_load()
        await self.scene.deploy("web", 2)
        await wait_until(self._scaled, within=60, what="it is there")

    def _set_load(self) -> None:
        self.kube.loads.set_load(self.scene.namespace, "web", cpu=(self._count - 0.3) * 0.05)

    async def _scaled(self) -> bool:
        found = await self.kube.client.get(f"{self.scene.deployments}/web")
        counts = found["spec"]["replicas"], found["status"].get("replicas"), found["status"].get("readyReplicas")
        return set(counts) == {self._count}

    def _writes(self) -> int:
        return self.scene.written("deployments", "scale", "patch").count("web")

    async def begin(self) -> None:
        await wait_until(self._scaled, within=60, what="it is as it was wanted before")
        self._before, self._count = self._writes(), 8 - self._count
        self._set_load()

    async def done(self) -> int:
        await wait_until(self._scaled, within=60, what="it is scaled")
        return self._writes() - self._before


class Job(Work):
    """A message in a queue, for which there is to be one Job; of those that have ended one is kept."""

    async def prepare(self) -> None:
        self._send(0)
        self._path = f"/apis/batch/v1/namespaces/{self.scene.namespace}/jobs"
        await self.begin()
        await self.go_on()

    def _send(self, messages: float) -> None:
        self.kube.metrics.external[self.scene.namespace, "videos"] = messages

    async def _names(self, *, ended: bool) -> set[str]:
        jobs = await self.kube.client.list(self._path)
        return {job["metadata"]["name"] for job in jobs if not ended or job["status"].get("succeeded")}

    async def begin(self) -> None:
        self._before, self._created = await self._names(ended=False), len(self.scene.written("jobs"))
        self._send(1)

    async def go_on(self) -> None:
        """The Job takes the message when it begins; in the end its pod ends."""

        async def begun() -> bool:
            return bool(await self._names(ended=False) - self._before)

        async def ended() -> bool:
            return bool(await self._names(ended=True) - self._before)

        await wait_until(begun, within=60, every=0.02, what="there is a Job")
        self._send(0)
        await wait_until(ended, within=60, what="it ends")

    async def done(self) -> int:
        await self.go_on()

        async def tidied() -> bool:
            return len(await self._names(ended=False)) == 1

        await wait_until(tidied, within=60, what="the one before is deleted")
        deleted = self.scene.written("jobs", verb="delete")
        assert len(deleted) == len(set(deleted))
        return len(self.scene.written("jobs")) - self._created


class Resize(Work):
    """A pod that requests less than its like have used."""

    async def prepare(self) -> None:
        self.kube.loads.set_load(self.scene.namespace, "sized", cpu=0.5)
        await self.scene.deploy("sized", 1)
        await wait_until(self._fits, within=60, what="it requests what it uses")

    async def _fits(self) -> Objects:
        return [pod for pod in await self.running("sized") if cores(pod, given=True) > 0.5]

    async def begin(self) -> None:
        for pod in await self.running("sized"):
            await self.kube.client.delete(f"{self.scene.pods}/{pod['metadata']['name']}", grace=0)

    async def done(self) -> int:
        (pod,) = await wait_until(self._fits, within=60, what="it requests what its like have used")
        return self.scene.written("pods", "resize", "patch").count(pod["metadata"]["name"])


WORKS: dict[str, type[Work]] = {"bind": Bind, "preempt": Preempt, "scale": Scale, "Job": Job, "resize": Resize}


class Show:
    """The stage, and the works that its API server has."""

    def __init__(self, scene: Stage) -> None:
        self.scene = scene
        resizes = scene.kube.plane.version >= (1, 33)
        self.works = {name: work(scene) for name, work in WORKS.items() if name != "resize" or resizes}
        texts = {"pool": POOL, "transcode": JOBS, **({"sized": VERTICAL} if resizes else {})}
        formatted = {name: text.format(namespace=scene.namespace) for name, text in texts.items()}
        self._policies = {**policy(scene.namespace), **formatted}

    @asynccontextmanager
    async def daemon(self, name: str) -> AsyncIterator[Daemon]:
        """A daemon of all these policies."""
        policies = self.scene.folder / name / "policies"
        policies.mkdir(parents=True)
        (policies / "transcode.yaml").write_text(template(lasts=0.5))
        async with self.scene.daemon(name, SOURCES, **self._policies) as daemon:
            yield daemon

    async def done(self, name: str, step: str, run: str, began: float) -> None:
        """Wait until it is done, once, and note it."""
        writes = await self.works[name].done()
        self.scene.note(name, step, run, 1, writes, began)
        assert writes == 1


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def show(kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Show]:
    """The stage of all tests."""
    async with stage(kube, tmp_path_factory.mktemp("interrupted"), "abc") as scene:
        async with granted(kube, scene.namespace, RIGHTS):
            yield Show(scene)
        print("\n" + table(scene.rows))


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def first(show: Show) -> AsyncIterator[Daemon]:
    """A daemon, when everything is there."""
    async with show.daemon("one") as one:
        await asyncio.gather(*(work.prepare() for work in show.works.values()))
        yield one


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def pair(show: Show, first: Daemon) -> AsyncIterator[tuple[Daemon, Daemon]]:
    """It, and another that waits to lead."""
    async with show.daemon("two") as other:
        yield first, other


NEW = pytest.mark.since("1.33", "before, the API server has no pods/resize")


def rows(*more: str) -> list[Any]:
    """Each step of each work, at each of these moments, if there are any."""
    return [
        pytest.param(name, step, *moment, id=" ".join((name, step, *moment)), marks=[NEW] if name == "resize" else [])
        for name, steps in STEPS.items()
        for step in steps
        for moment in (*((moment,) for moment in more), *([] if more else [()]))
    ]


@pytest.mark.parametrize(("name", "step"), rows())
async def test_undisturbed_each_write_is_made_once(show: Show, first: Daemon, name: str, step: str) -> None:
    first.proxy.passed.clear()
    began = time.monotonic()
    await show.works[name].begin()
    await show.done(name, "-", "undisturbed", began)
    assert step in first.proxy.passed


@pytest.mark.parametrize(("name", "step", "moment"), rows("before", "after"))
async def test_after_a_kill_and_a_restart_it_is_done_once(
    show: Show, first: Daemon, name: str, step: str, moment: Moment
) -> None:
    began = await interrupted(show, first, (name, step, moment), first.kill)
    first.start()
    await show.done(name, f"{moment} {step}", "killed, restart", began)


@pytest.mark.parametrize(("name", "step", "moment"), rows("lost", "undone"))
async def test_a_lost_request_or_answer_is_made_good(
    show: Show, first: Daemon, name: str, step: str, moment: Moment
) -> None:
    began = await interrupted(show, first, (name, step, moment), None)
    await show.done(name, step, "answer lost" if moment == "lost" else "request lost", began)


@pytest.mark.parametrize(("name", "step", "moment"), rows("before", "after"))
async def test_after_a_kill_and_a_takeover_it_is_done_once(
    show: Show, pair: tuple[Daemon, Daemon], name: str, step: str, moment: Moment
) -> None:
    victim = await show.scene.leader(*pair)
    began = await interrupted(show, victim, (name, step, moment), victim.kill)
    await show.done(name, f"{moment} {step}", "killed, take-over", began)
    victim.start()


async def away(show: Show, pair: tuple[Daemon, Daemon], at: tuple[str, str, Moment], how: str) -> None:
    """The leader is stopped, or cut off, at a write, and returns when another leads."""
    victim = await show.scene.leader(*pair)
    leave, back = (victim.stop, victim.wake) if how == "stopped" else (victim.part, victim.join)
    began = await interrupted(show, victim, at, leave)
    await asyncio.gather(returned(victim, pair, back), show.works[at[0]].go_on())
    await show.done(at[0], f"at {at[1]}", f"{how}, take-over, back", began)


@pytest.mark.parametrize(("name", "step"), rows())
async def test_a_stopped_leader_wakes_and_changes_nothing(
    show: Show, pair: tuple[Daemon, Daemon], name: str, step: str
) -> None:
    await away(show, pair, (name, step, "undone"), "stopped")


@pytest.mark.parametrize(("name", "step"), rows())
async def test_a_leader_cut_off_after_a_write_changes_nothing_later(
    show: Show, pair: tuple[Daemon, Daemon], name: str, step: str
) -> None:
    await away(show, pair, (name, step, "lost"), "cut off")


async def interrupted(
    show: Show, daemon: Daemon, at: tuple[str, str, Moment], end: Callable[[], Awaitable[None]] | None
) -> float:
    """Begin a work and cut in on its daemon at this step; gives when that was."""
    name, step, moment = at
    await wait_until(daemon.leads, what="it leads")
    daemon.proxy.cut(step, moment, end)
    await show.works[name].begin()
    await wait_until(daemon.proxy.fired.is_set, within=60, what=f"{step} is reached")
    return time.monotonic()
