"""One episode: a cluster in which pods move and a workload scales, while what a plan says goes wrong.

Two daemons, one of which leads, place all pods, keep them off cordoned nodes and scale a Deployment with its load. In
the end everything is whole again, and the oracle looks at what was seen meanwhile.
"""

import asyncio
import contextlib
import json
import signal
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from elasticd.journal import read
from tests.faults import oracle
from tests.faults.injector import Injector
from tests.faults.plan import SECONDS, Blow, Fault, Trouble
from tests.kube.between import RESTORED, SURGE
from tests.kube.client import JSON, TROUBLE, ApiError, NotReached, wait_until
from tests.kube.conftest import Kube
from tests.kube.moving import OURS, POLICY, USER, Stage, stage
from tests.kube.running import Running, running
from tests.kube.test_daemon import policy

NODES, PODS = "abc", 6
WITHIN, MOST = 6, 4
BUDGET = f"within = {WITHIN}\ntotal = {MOST}\nper_node = {MOST}\nper_namespace = {MOST}\n"
LEAST, GREATEST = 1, 8
SHOPS = 3
"""Pods of a Deployment that nobody scales."""
EACH = 0.05
"""Cores for which there is to be one pod of the Deployment."""
CONVERGES = 120.0
"""Seconds within which everything is whole again."""


class Report(NamedTuple):
    """What came of an episode."""

    violations: list[str]
    seconds: float
    evictions: int
    injected: dict[str, int]


class Episode:
    """The cluster, the daemons and what is seen of them."""

    def __init__(self, scene: Stage, daemons: Sequence[tuple[Running, Injector]], seed: int) -> None:
        self._scene, self._daemons, self._random = scene, daemons, Random(seed)
        self._pods: dict[str, JSON] = {}
        self._stays: defaultdict[str, list[oracle.Stay]] = defaultdict(list)
        self._cordons: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
        self._violations: list[str] = []
        self._restarting = asyncio.Lock()

    async def run(self, troubles: Sequence[Trouble]) -> Report:
        """Let it all go wrong, wait until it is whole again, and judge."""
        scene = self._scene
        for name, count in (("shop", SHOPS), ("web", LEAST)):
            await scene.kube.client.create(scene.deployments, self._deployment(name, count))
        made = [await scene.pod(scene.name("batch")) for _ in range(PODS)]
        self._pods = {pod["metadata"]["name"]: pod for pod in made}
        for _, proxy in self._daemons:
            proxy.begin([one for one in troubles if isinstance(one, Fault)])
        begun = asyncio.get_running_loop().time()
        blows = [self._strike(one, begun) for one in troubles if isinstance(one, Blow)]
        async with _meanwhile(self._observe()):
            async with _meanwhile(self._cordon(), self._load()):
                await asyncio.gather(*blows, asyncio.sleep(SECONDS))
            for _, proxy in self._daemons:
                proxy.begin(())
            ended = time.monotonic()
            await self._converge()
            seconds = time.monotonic() - ended
        done = oracle.evictions(scene.kube.plane.audit(), USER, scene.namespace)
        injected = {key: count for _, proxy in self._daemons for key, count in proxy.injected.items()}
        return Report([*dict.fromkeys(self._violations + self._judge(done))], seconds, len(done), injected)

    def _deployment(self, name: str, count: int) -> JSON:
        template = {"metadata": {"labels": {"app": name}}, "spec": self._scene.spec()}
        spec = {"replicas": count, "selector": {"matchLabels": {"app": name}}, "template": template}
        return {"metadata": {"name": name}, "spec": spec}

    def _judge(self, done: Sequence[oracle.Eviction]) -> list[str]:
        written = [entry for _, proxy in self._daemons for entry in proxy.written]
        journaled = {
            record.pod.name
            for one, _ in self._daemons
            for record in read(one.folder / "state")
            if hasattr(record, "pod")
        }
        logs = [one.program.log for one, _ in self._daemons]
        return [
            *oracle.over_budget(done, WITHIN, MOST),
            *oracle.uncalled_for([one for one in done if one.pod in self._stays], self._stays, self._cordons),
            *oracle.unconditional(written),
            # A surge may add one to a count, whatever a policy says.
            *oracle.out_of_bounds(written, LEAST, GREATEST + 1),
            *(f"{one.pod} was evicted, and no journal says so" for one in done if one.pod not in journaled),
            *(f"{log} has a traceback" for log in logs if "Traceback" in log.read_text()),
        ]

    async def _observe(self) -> None:
        while True:
            with contextlib.suppress(*TROUBLE):
                missing = oracle.lost(self._pods, await self._seen(), ())
                missing = missing and oracle.lost(self._pods, await self._seen(), await self._recorded())
                # It may have been created, and its record removed, between the two.
                if missing and (still := oracle.lost(self._pods, await self._seen(), await self._recorded())):
                    self._violations += still
            await asyncio.sleep(0.2)

    async def _seen(self) -> list[str]:
        pods = await self._scene.kube.client.list(self._scene.pods)
        for pod in pods:
            name, node = pod["metadata"]["name"], pod["spec"].get("nodeName", "")
            if node and (not self._stays[name] or self._stays[name][-1].node != node):
                self._stays[name].append(oracle.Stay(time.time(), node))
        return [pod["metadata"]["name"] for pod in pods]

    async def _recorded(self) -> list[str]:
        return [json.loads(record["data"]["pod"])["metadata"]["name"] for record in await self._scene.records()]

    async def _cordon(self) -> None:
        """Cordon one node after the other, or none."""
        try:
            while True:
                node = self._random.choice((*self._scene.nodes, ""))
                begin = time.time()
                with contextlib.suppress(*TROUBLE):
                    if node:
                        self._cordons[node].append((begin, float("inf")))
                    await self._scene.cordon(*([node] if node else []))
                    await asyncio.sleep(self._random.uniform(3, 10))
                self._uncordoned()
        finally:
            self._uncordoned()

    def _uncordoned(self) -> None:
        for spans in self._cordons.values():
            spans[:] = [(begin, min(end, time.time())) for begin, end in spans]

    async def _load(self) -> None:
        while True:
            self._set_load(self._random.uniform(0.0, 0.6))
            await asyncio.sleep(self._random.uniform(2, 6))

    def _set_load(self, cores: float) -> None:
        self._scene.kube.loads.set_load(self._scene.namespace, "web", cpu=cores)

    async def _strike(self, blow: Blow, begun: float) -> None:
        await asyncio.sleep(begun + blow.begins - asyncio.get_running_loop().time())
        await getattr(self, f"_{blow.kind.replace(' ', '_')}")(blow)

    async def _kill(self, blow: Blow) -> None:
        program = self._daemons[blow.target][0].program
        await program.kill()
        await asyncio.sleep(blow.lasts)
        program.start()

    async def _suspend(self, blow: Blow) -> None:
        program = self._daemons[blow.target][0].program
        with contextlib.suppress(AssertionError):  # it was killed meanwhile
            program.signal(signal.SIGSTOP)
            await asyncio.sleep(blow.lasts)
            program.signal(signal.SIGCONT)

    async def _unready(self, blow: Blow) -> None:
        nodes, name = self._scene.kube.nodes, self._scene.nodes[blow.target]
        await nodes.set_ready(name, False)
        await asyncio.sleep(blow.lasts)
        await nodes.set_ready(name, True)

    async def _restart(self, _: Blow) -> None:
        async with self._restarting:
            await self._scene.kube.plane.restart_apiserver()

    async def _sweep(self, blow: Blow) -> None:
        """Copies go before they run, as where the garbage collector takes them with their node."""
        end = asyncio.get_running_loop().time() + blow.lasts
        while asyncio.get_running_loop().time() < end:
            await self._delete_waiting(lambda pod: RESTORED in pod["metadata"].get("annotations", {}))
            await asyncio.sleep(0.1)

    async def _no_start(self, blow: Blow) -> None:
        nodes = self._scene.kube.nodes
        nodes.startup = lambda _: None
        await asyncio.sleep(blow.lasts)
        nodes.startup = lambda _: 0.2
        # A hollow node that has not started a pod never does: each is made again by whoever wants it.
        await self._delete_waiting(lambda _: True)

    async def _delete_waiting(self, chosen: Callable[[JSON], bool]) -> None:
        with contextlib.suppress(*TROUBLE):
            for pod in await self._scene.kube.client.list(self._scene.pods):
                if pod["status"].get("phase") == "Pending" and pod["spec"].get("nodeName") and chosen(pod):
                    with contextlib.suppress(ApiError):
                        path = f"{self._scene.pods}/{pod['metadata']['name']}"
                        await self._scene.kube.client.delete(path, grace=0, uid=pod["metadata"]["uid"])

    async def _converge(self) -> None:
        scene, wanted = self._scene, self._random.randint(LEAST, GREATEST - 1)
        await scene.cordon()
        # From wherever the count is, this load is beyond the tolerance of a tenth, and asks for so many.
        self._set_load((wanted - 0.3) * EACH)
        try:
            await wait_until(lambda: self._is_whole(wanted), within=CONVERGES, every=0.5, what="everything is whole")
        except NotReached:
            self._violations += await self._broken(wanted)

    async def _is_whole(self, wanted: int) -> bool:
        return not await self._broken(wanted)

    async def _broken(self, wanted: int) -> list[str]:
        """What is not as it was, of pods, records and the workload."""
        scene = self._scene
        copies = defaultdict(list)
        for pod in await scene.kube.client.list(scene.pods):
            copies[pod["metadata"]["name"]].append(pod)
        found = [f"a record of {name} is left" for name in await self._recorded()]
        for name, before in self._pods.items():
            now = copies[name]
            if len(now) != 1 or now[0]["status"].get("phase") != "Running" or "deletionTimestamp" in now[0]["metadata"]:
                found.append(f"of {name} there are {len(now)}: {[pod['status'].get('phase') for pod in now]}")
            else:
                found += oracle.changed(before, now[0], OURS)
        for name, count in (("web", wanted), ("shop", SHOPS)):
            found += _differs(await scene.kube.client.get(f"{scene.deployments}/{name}"), count)
        return found


@contextlib.asynccontextmanager
async def _meanwhile(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Work as long as the block runs; what has failed is raised at its end."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome


def _differs(deployment: JSON, wanted: int) -> list[str]:
    meta, status = deployment["metadata"], deployment["status"]
    counts = deployment["spec"]["replicas"], status.get("replicas", 0), status.get("readyReplicas", 0)
    found = [] if set(counts) == {wanted} else [f"{meta['name']} has {counts} pods wanted, there, ready; not {wanted}"]
    return found + ([f"{meta['name']} has a surge under way"] if SURGE in meta.get("annotations", {}) else [])


@contextlib.asynccontextmanager
async def _daemons(scene: Stage, seed: int) -> AsyncIterator[list[tuple[Running, Injector]]]:
    policies = {"pool": POLICY.format(namespace=scene.namespace), **policy(scene.namespace)}
    async with AsyncExitStack() as stack:
        found = []
        for number in range(2):
            folder = scene.folder / f"daemon-{number}"
            folder.mkdir()
            proxy = await stack.enter_async_context(Injector(scene.kube.plane, number, seed))
            config = proxy.kubeconfig(USER, folder)
            started = running(
                folder, config, scene.namespace, policies, cluster="request_timeout = 2", disruption=BUDGET
            )
            found.append((await stack.enter_async_context(started), proxy))
        yield found


async def episode(kube: Kube, folder: Path, seed: int, troubles: Sequence[Trouble]) -> Report:
    """Run one on a stage of its own."""
    async with stage(kube, folder, NODES) as scene:
        kube.loads.set_load(scene.namespace, "web", cpu=EACH)
        async with _daemons(scene, seed) as daemons:
            return await Episode(scene, daemons, seed).run(troubles)
