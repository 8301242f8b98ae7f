"""Job sets on a genuine API server with the genuine Job controller: created, run, ended, tidied up; nothing twice."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from elasticd.cluster.kubernetes.wire.jobs import SET
from elasticd.decision.workload.jobs import SHORTEST
from tests.kube.client import Objects, wait_until
from tests.kube.conftest import Kube
from tests.kube.hollow import LASTS
from tests.kube.moving import QUEUE
from tests.kube.rights import FOLDER, granted_from, shipped_rights
from tests.kube.running import Running, running
from tests.kube.test_hollow import status_of

POLICY = """
mode = "act"
interval = 0.5
jitter = 0
job = {{ namespace = "{namespace}", name = "transcode", template_file = "transcode.yaml", {more} }}
replicas = {{ max = {most} }}

[[strategy]]
type = "jobs"
strategy = "{strategy}"
queue = [{{ series = "queue_length" }}]
"""


def template(lasts: float = 3.0, image: str = "example.test/transcode:1") -> str:
    """A Job whose pod ends by itself."""
    container = {"name": "main", "image": image, "resources": {"requests": {"cpu": "50m"}}}
    spec = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0}
    pod = {"metadata": {"annotations": {LASTS: str(lasts)}}, "spec": spec}
    return yaml.safe_dump({"apiVersion": "batch/v1", "kind": "Job", "spec": {"backoffLimit": 0, "template": pod}})


class Scene:
    """A job set in a namespace: its queue, its Jobs and what was written about them."""

    def __init__(self, kube: Kube, namespace: str, folder: Path) -> None:
        self.kube, self.namespace, self.folder = kube, namespace, folder
        (folder / "policies").mkdir(parents=True)

    def send(self, messages: float) -> None:
        """The queue is so long."""
        self.kube.metrics.external[self.namespace, "videos"] = messages

    def write_template(self, **options: Any) -> None:
        """The template that the policy names."""
        (self.folder / "policies" / "transcode.yaml").write_text(template(**options))

    async def jobs(self) -> Objects:
        """The Jobs of the set, by name."""
        return await self.kube.client.list(f"/apis/batch/v1/namespaces/{self.namespace}/jobs", labelSelector=SET)

    async def in_flight(self) -> Objects:
        """Those that have not ended."""
        return [one for one in await self.jobs() if not one["status"].get("conditions")]

    def writes(self, verb: str) -> list[str]:
        """The names of the Jobs that the daemon has created or deleted, as the API server's own log has them."""
        mine = [one for one in self.kube.plane.audit() if one["user"]["username"] == "elasticd"]
        refs = [(one["verb"], one.get("objectRef", {}), one.get("responseStatus", {}).get("code", 0)) for one in mine]
        return [
            ref["name"]
            for done, ref, code in refs
            if (done, ref.get("resource"), ref.get("namespace")) == (verb, "jobs", self.namespace) and 200 <= code < 300
        ]

    @asynccontextmanager
    async def consumed(self, messages: int) -> AsyncIterator[None]:
        """A queue whose messages leave it once the pods of Jobs run: well before these end, so that no Job ends while
        its message still counts, however slow the machine is."""
        taken: set[str] = set()

        async def consume() -> None:
            while True:
                pods = await self.kube.client.list(f"/api/v1/namespaces/{self.namespace}/pods", labelSelector=SET)
                begun = [pod for pod in pods if pod["status"].get("phase") in ("Running", "Succeeded")]
                taken.update(pod["metadata"]["ownerReferences"][0]["uid"] for pod in begun)
                self.send(max(0, messages - len(taken)))
                await asyncio.sleep(0.1)

        self.send(messages)
        task = asyncio.create_task(consume())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @asynccontextmanager
    async def daemon(self, strategy: str = "default", most: int = 10, more: str = "") -> AsyncIterator[Running]:
        """A daemon that may do what the shipped roles allow."""
        policy = POLICY.format(namespace=self.namespace, strategy=strategy, most=most, more=more)
        kubeconfig = self.kube.plane.kubeconfig("elasticd")
        async with running(self.folder, kubeconfig, self.namespace, {"transcode": policy}, QUEUE) as daemon:
            await wait_until(daemon.leads, what="the daemon leads")
            yield daemon

    async def quiet(self) -> None:
        """All messages are done with, and nothing is in flight."""

        async def ended() -> bool:
            left = self.kube.metrics.external[self.namespace, "videos"]
            return left == 0 and not await self.in_flight() and bool(await self.jobs())

        await wait_until(ended, what="all Jobs have ended")


@asynccontextmanager
async def staged(kube: Kube, namespace: str, folder: Path) -> AsyncIterator[Scene]:
    """A job set and the shipped rights."""
    async with (
        shipped_rights(kube.plane, "elasticd", namespace),
        granted_from(kube.plane, FOLDER / "components/sources/rbac.yaml", "elasticd", namespace),
        granted_from(kube.plane, FOLDER / "components/jobs/rbac.yaml", "elasticd", namespace),
    ):
        scene = Scene(kube, namespace, folder)
        scene.write_template()
        scene.send(0)
        yield scene


def numbers(names: list[str]) -> list[int]:
    return sorted(int(name.rpartition("-")[2]) for name in names)


async def test_a_hollow_pod_ends_by_itself(kube: Kube, namespace: str) -> None:
    for name, lasts in (("well", "0.2"), ("ill", "-0.2")):
        spec = yaml.safe_load(template(0.2))["spec"]["template"]["spec"]
        meta = {"name": name, "annotations": {LASTS: lasts}}
        await kube.client.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}, namespace)
    for name, phase in (("well", "Succeeded"), ("ill", "Failed")):

        async def ended(name: str = name, phase: str = phase) -> bool:
            return (await status_of(kube, namespace, name))["phase"] == phase

        await wait_until(ended, what=f"{name} has {phase}")


async def test_seven_messages_are_seven_jobs_of_which_history_keeps_three(
    kube: Kube, namespace: str, tmp_path: Path
) -> None:
    async with (
        staged(kube, namespace, tmp_path / "one") as scene,
        scene.daemon(more="successful_history = 3") as daemon,
    ):
        async with scene.consumed(7):
            await scene.quiet()

            async def tidied() -> bool:
                return len(await scene.jobs()) == 3

            await wait_until(tidied, what="three Jobs are left")
        assert numbers(scene.writes("create")) == [1, 2, 3, 4, 5, 6, 7]
        assert len(scene.writes("delete")) == 4
        left = [one["metadata"]["name"] for one in await scene.jobs()]
        assert not set(left) & set(scene.writes("delete"))
        events = await kube.client.list(
            f"/api/v1/namespaces/{namespace}/events", fieldSelector="reason=SuccessfulRescale"
        )
        assert {one["involvedObject"]["name"] for one in events} == {"transcode"}

        async def empty() -> bool:  # in a thread, for here is who says how long the queue is
            return "QueueEmpty" in await asyncio.to_thread(daemon.elasticd, "explain", f"{namespace}/Job/transcode")

        await wait_until(empty, what="it says that the queue is empty")
        pods = await kube.client.list(f"/api/v1/namespaces/{namespace}/pods", labelSelector=SET)
        assert {pod["metadata"]["labels"][SET] for pod in pods} == {"transcode"}


async def test_no_more_are_in_flight_than_the_policy_allows(kube: Kube, namespace: str, tmp_path: Path) -> None:
    async with staged(kube, namespace, tmp_path / "one") as scene, scene.daemon("eager", most=3):
        most = 0
        async with scene.consumed(7):
            async with asyncio.timeout(120):
                while len(scene.writes("create")) < 7:
                    most = max(most, len(await scene.in_flight()))
            scene.send(0)
        assert most == 3


async def test_jobs_that_fail_are_not_created_again_at_once(kube: Kube, namespace: str, tmp_path: Path) -> None:
    async with staged(kube, namespace, tmp_path / "one") as scene:
        scene.write_template(lasts=-0.1)
        scene.send(3)
        async with scene.daemon():

            async def again() -> bool:
                return len(await scene.jobs()) > 3

            await wait_until(again, within=60, what="Jobs are created again")
            jobs = {int(job["metadata"]["name"].rpartition("-")[2]): job for job in await scene.jobs()}
            failed = max(job["status"]["conditions"][-1]["lastTransitionTime"] for job in (jobs[1], jobs[2], jobs[3]))
            begun = jobs[4]["metadata"]["creationTimestamp"]
            pause = datetime.fromisoformat(begun) - datetime.fromisoformat(failed)
            assert pause >= timedelta(seconds=SHORTEST)


async def test_a_daemon_that_is_killed_between_creates_nothing_twice(
    kube: Kube, namespace: str, tmp_path: Path
) -> None:
    async with staged(kube, namespace, tmp_path / "one") as scene:
        scene.write_template(lasts=15)
        async with scene.consumed(7):
            async with scene.daemon() as first:
                await wait_until(scene.jobs, every=0.001, what="the first Job is there")
                await first.program.kill()
                assert await scene.jobs()
            async with scene.daemon():

                async def all_there() -> list[str]:
                    names = [job["metadata"]["name"] for job in await scene.jobs()]
                    return names if len(names) >= 7 else []

                names = await wait_until(all_there, what="seven Jobs are there")
                await scene.quiet()
        # The server's log may have no success of a Job that it created for a daemon that had just died.
        created = scene.writes("create")
        assert numbers(sorted({*names, *created})) == [1, 2, 3, 4, 5, 6, 7]
        assert len(created) == len(set(created))


async def test_a_changed_template_replaces_the_jobs_in_flight(kube: Kube, namespace: str, tmp_path: Path) -> None:
    async with staged(kube, namespace, tmp_path / "one") as scene, scene.daemon(more='rollout = "default"'):
        scene.write_template(lasts=3600)

        async def images() -> list[str]:
            found = await scene.in_flight()
            return [one["spec"]["template"]["spec"]["containers"][0]["image"] for one in found]

        scene.send(2)

        async def begun() -> bool:
            return await images() == ["example.test/transcode:1"] * 2

        await wait_until(begun, what="two Jobs of the first template")
        scene.write_template(lasts=3600, image="example.test/transcode:2")

        async def replaced() -> bool:
            return await images() == ["example.test/transcode:2"] * 2

        await wait_until(replaced, what="two Jobs of the second template")


async def test_without_the_right_a_decision_says_so_in_one_line(kube: Kube, namespace: str, tmp_path: Path) -> None:
    async with (
        shipped_rights(kube.plane, "elasticd", namespace),
        granted_from(kube.plane, FOLDER / "components/sources/rbac.yaml", "elasticd", namespace),
    ):
        scene = Scene(kube, namespace, tmp_path / "one")
        scene.write_template()
        scene.send(3)
        async with scene.daemon() as daemon:

            def told() -> Any:
                decision = daemon.explained(f"{namespace}/Job/transcode")["decision"]
                return decision.get("message", "") if decision.get("verdict") == "hold" else ""

            message = await wait_until(told, what="it holds and says why")
    assert 'cannot list resource "jobs" in API group "batch"' in message
    assert "\n" not in message
