"""What daemons do in an episode beside moving bare pods and scaling one Deployment: they preempt, create Jobs, resize
pods, and scale Deployments by a genuine Prometheus and a genuine broker, which fail too.

Knows what each of them is to come to, and its invariants; knows nothing of which faults meet it.
"""

import asyncio
import contextlib
import json
import os
import signal
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from pathlib import Path
from random import Random
from typing import Any, ClassVar, NamedTuple

import aiomqtt
import yaml

from tests.faults import oracle
from tests.faults.injector import Faults, HttpInjector, MqttInjector
from tests.faults.oracle import Eviction, Turn
from tests.faults.plan import DAEMONS, Blow, Server, features
from tests.kube.between import SURGE
from tests.kube.broker import OPEN, Broker
from tests.kube.client import JSON, TROUBLE, ApiError, wait_until
from tests.kube.hollow import LASTS
from tests.kube.moving import QUEUE, USAGE, Stage, granted, sized
from tests.kube.prometheus_server import PrometheusServer
from tests.kube.reports import NodeSpec

HELD = 10.0
"""Seconds for which the load is the same before it is not known any more: nothing is done because of an earlier one."""
MOST_VICTIMS = 2
MOST_JOBS = 3
SMALLEST, LARGEST = 0.06, 0.6
"""Cores between which pods may be resized."""
LEAST, GREATEST = 1, 8
MAX_AGE = 3.0
"""Seconds for which what a server said is used."""
PREEMPTION = """
mode = "act"
interval = 0.2
[pool]
scheduler = "elasticd-tight"
namespaces = ["{namespace}"]
nodes = {{ pool = "{namespace}-tight" }}
[[strategy]]
type = "filters"
[[strategy]]
type = "preemption"
min_run = 0
most_victims = {most}
"""
JOBS = """
mode = "act"
interval = 0.2
jitter = 0
job = {{ namespace = "{namespace}", name = "transcode", template_file = "transcode.yaml", successful_history = 2 }}
replicas = {{ max = {most} }}
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
cpu = {{ min = "{smallest}", max = "{largest}" }}
"""
SCALED = """
mode = "act"
interval = 0.5
jitter = 0
max_age = {max_age}
workload = {{ namespace = "{namespace}", name = "{name}" }}
replicas = {{ min = {least}, max = {most} }}
[[strategy]]
type = "hpa"
metrics = [{{ type = "External", series = "{name}_queue", average_value = 10 }}]
behavior = {{ scale_down = {{ stabilization_window = 3 }} }}
"""
PROMETHEUS = """
[[source]]
type = "prometheus"
url = "{url}"
every = 0.5
timeout = 2
series = [{{ name = "prometheus_queue", query = "queue" }}]
"""
BROKER = """
[[source]]
type = "mqtt"
host = "127.0.0.1"
port = {port}
keepalive = 5
[[source.topic]]
topic = "sensors/{{namespace}}/{{workload}}/queue"
series = "mqtt_queue"
subject = "workload"
payload = "value"
time = "at"
"""


class Seen(NamedTuple):
    """What an oracle may know at the end: evictions by the API server's log, what the daemons wrote, and the decisions
    about workloads in their journals."""

    evictions: Sequence[Eviction]
    written: Sequence[tuple[str, str, JSON]]
    decisions: Sequence[JSON]


class Feature:
    """Something that daemons do in an episode."""

    title: ClassVar[str]
    rights: ClassVar[tuple[str, ...]] = ()
    blow: ClassVar[str] = ""
    """The kind of blow that is about this feature alone."""

    def __init__(self, scene: Stage, seed: int) -> None:
        self.scene, self.seed, self.client = scene, seed, scene.kube.client
        self.random = Random(f"{self.title} {seed}")

    def opened(self, _: Path) -> AbstractAsyncContextManager[None]:
        """What it needs beside the cluster, in this folder, for as long as the episode lasts."""
        return nullcontext()

    def policies(self) -> dict[str, str]:
        """TOML by name."""
        return {}

    def files(self) -> dict[str, str]:
        """Further files beside the policies."""
        return {}

    def sources(self, _: int) -> str:
        """Tables of elasticd.toml of the daemon with this number."""
        return ""

    ways: Sequence[Faults] = ()
    """Between the daemons and what it has beside the cluster."""

    async def create(self) -> None:
        """Create what is there before anything goes wrong."""

    async def live(self) -> None:
        """Want something else again and again, while things go wrong."""

    async def observe(self) -> None:
        """Look, until everything is whole again."""

    async def strike(self, blow: Blow) -> None:
        """A blow to this feature alone."""

    async def settle(self) -> None:
        """Want what there is to be in the end."""

    async def broken(self) -> list[str]:
        """What is not yet as it is to be in the end."""
        return []

    def judge(self, _: Seen) -> list[str]:
        """What was violated."""
        return []

    @abstractmethod
    def told(self, seen: Seen) -> str:
        """How much of it there was."""


class Preemption(Feature):
    """Pods of higher priority on a node that is full of others."""

    title = "preemption"

    def __init__(self, scene: Stage, seed: int) -> None:
        super().__init__(scene, seed)
        self._high = f"{scene.namespace}-high"
        self._turns: list[Turn] = []
        self._peer = ""

    def opened(self, _: Path) -> AbstractAsyncContextManager[None]:
        name = f"{self.scene.namespace}-tight"
        return self.scene.kube.nodes.having(NodeSpec(name, labels={"pool": name}))

    def policies(self) -> dict[str, str]:
        return {"tight": PREEMPTION.format(namespace=self.scene.namespace, most=MOST_VICTIMS)}

    def _spec(self, cores: float) -> JSON:
        return {"schedulerName": "elasticd-tight", **sized(cores)}

    async def create(self) -> None:
        await self.client.create(
            "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": self._high}, "value": 1000}
        )
        # The API server takes a moment to see the class.
        peer = await wait_until(lambda: self._pod("peer", 0.5), what="there is a pod of that priority")
        self._peer = peer["metadata"]["uid"]
        await self.scene.runs("peer")
        await self.scene.deploy("low", 3, **self._spec(1))

    async def _pod(self, name: str, cores: float) -> JSON:
        spec = self.scene.spec(priorityClassName=self._high, **self._spec(cores))
        meta = {"name": name, "labels": {"app": name.partition("-")[0]}}
        return await self.client.create(self.scene.pods, {"metadata": meta, "spec": spec})

    async def live(self) -> None:
        while True:
            with contextlib.suppress(*TROUBLE):
                await self._try()
            await asyncio.sleep(self.random.uniform(1, 3))

    async def _try(self) -> None:
        """One pod, until it runs or is not wanted any more."""
        leaders = set[str]()
        name, begin, patience = self.scene.name("high"), time.time(), self.random.uniform(3, 10)
        self._turns.append(Turn(begin, leaders))
        # Of those of 3 cores some would need more victims than are allowed.
        await self._pod(name, self.random.choice((1, 2, 2, 3)))
        while time.time() < begin + patience:
            with contextlib.suppress(*TROUBLE):
                leaders.add(await self._leader())
                pod = await self.scene.read(f"{self.scene.pods}/{name}")
                if pod is None or pod["status"].get("phase") == "Running":
                    break
            await asyncio.sleep(0.2)
        await self._delete_high()

    async def _leader(self) -> str:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.scene.namespace}/leases"
        return str([lease["spec"].get("acquireTime") for lease in await self.client.list(path)])

    async def _delete_high(self) -> None:
        for pod in await self.scene.copies("high"):
            with contextlib.suppress(ApiError):
                await self.client.delete(f"{self.scene.pods}/{pod['metadata']['name']}", grace=0)

    async def broken(self) -> list[str]:
        await self._delete_high()
        low = await self.client.get(f"{self.scene.deployments}/low")
        peer = await self.scene.read(f"{self.scene.pods}/peer")
        left = peer is not None and peer["metadata"]["uid"] == self._peer
        return [*differs(low, 3), *([] if left else ["a pod of equal priority is gone"])]

    def judge(self, seen: Seen) -> list[str]:
        return oracle.preempted(seen.evictions, self._turns, MOST_VICTIMS)

    def told(self, seen: Seen) -> str:
        return f"{sum(one.pod.startswith('low-') for one in seen.evictions)} preempted for {len(self._turns)}"


class Jobs(Feature):
    """Messages in a queue, each of which one Job takes just before it ends, as a worker acknowledges."""

    title = "Jobs"
    rights = ("components/jobs/rbac.yaml", "components/sources/rbac.yaml")

    def __init__(self, scene: Stage, seed: int) -> None:
        super().__init__(scene, seed)
        self._path = f"/apis/batch/v1/namespaces/{scene.namespace}/jobs"
        self._sent, self._most = 0, 0
        self._done: set[str] = set()
        """UIDs of the Jobs that have taken their messages."""

    def policies(self) -> dict[str, str]:
        return {"transcode": JOBS.format(namespace=self.scene.namespace, most=MOST_JOBS)}

    def files(self) -> dict[str, str]:
        pod = {"metadata": {"annotations": {LASTS: "1"}}, "spec": self.scene.spec(restartPolicy="Never")}
        job = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": pod}}
        return {"transcode.yaml": yaml.safe_dump(job)}

    def sources(self, _: int) -> str:
        return QUEUE

    async def create(self) -> None:
        # Not when the Job is seen to have ended: the daemon may see that first, and deletes Jobs that ended.
        self.scene.kube.nodes.ended = self._take
        self._tell()

    def _take(self, pod: JSON) -> None:
        owners = pod["metadata"].get("ownerReferences", ())
        if pod["metadata"]["namespace"] == self.scene.namespace:
            self._done |= {owner["uid"] for owner in owners if owner["kind"] == "Job"}
            self._tell()

    def _tell(self) -> None:
        self.scene.kube.metrics.external[self.scene.namespace, "videos"] = self._sent - len(self._done)

    async def live(self) -> None:
        while True:
            await asyncio.sleep(self.random.uniform(0.5, 4))
            self._sent += self._sent - len(self._done) < 2 * MOST_JOBS
            self._tell()

    async def observe(self) -> None:
        while True:
            with contextlib.suppress(*TROUBLE):
                await self._look()
            await asyncio.sleep(0.1)

    async def _look(self) -> None:
        jobs = await self.client.list(self._path)
        self._most = max(self._most, sum(not job["status"].get("conditions") for job in jobs))

    async def broken(self) -> list[str]:
        waiting = self._sent - len(self._done)
        return [f"{waiting} of {self._sent} messages wait"] if waiting else []

    def judge(self, _: Seen) -> list[str]:
        created = len(self.scene.written("jobs"))
        found = [f"{created} Jobs were created for {self._sent} messages"] if created > self._sent else []
        return found + ([f"{self._most} Jobs were active at a time"] if self._most > MOST_JOBS else [])

    def told(self, _: Seen) -> str:
        return f"{len(self._done)} Jobs for {self._sent} messages"


class Resizing(Feature):
    """A pod that is to request what its like have used."""

    title = "resizing"
    rights = ("components/vertical/rbac.yaml",)

    def policies(self) -> dict[str, str]:
        bounds = {"smallest": f"{SMALLEST * 1000:.0f}m", "largest": f"{LARGEST * 1000:.0f}m"}
        return {"sized": VERTICAL.format(namespace=self.scene.namespace, **bounds)}

    def sources(self, _: int) -> str:
        return USAGE

    async def create(self) -> None:
        self._use(0.1)
        await self.scene.deploy("sized", 1)

    def _use(self, cores: float) -> None:
        self.scene.kube.loads.set_load(self.scene.namespace, "sized", cpu=cores)

    async def live(self) -> None:
        while True:
            self._use(self.random.uniform(0.01, 1.2))
            await asyncio.sleep(self.random.uniform(2, 6))

    async def settle(self) -> None:
        self._use(0.4)

    async def broken(self) -> list[str]:
        pods = await self.scene.copies("sized")
        requests = [oracle.cores(one["spec"]["containers"][0]["resources"]["requests"]["cpu"]) for one in pods]
        if len(requests) == 1 and 0.4 <= requests[0] <= LARGEST:
            return []
        return [f"what uses 0.4 cores requests {requests}"]

    def judge(self, seen: Seen) -> list[str]:
        return oracle.resized_beyond(seen.written, SMALLEST, LARGEST)

    def told(self, _: Seen) -> str:
        return f"{len(self.scene.written('pods', 'resize', 'patch'))} resizes"


class Scaled(Feature):
    """A Deployment that is scaled by what a server says, which fails in several ways."""

    name: ClassVar[str]
    server: ClassVar[Server]

    def __init__(self, scene: Stage, seed: int) -> None:
        super().__init__(scene, seed)
        self._counts: list[tuple[float, int]] = []
        self._unknown: list[tuple[float, float]] = []
        self._failing = asyncio.Lock()
        self._wanted = LEAST
        self.ways = [Faults(self.server, number, seed) for number in range(DAEMONS)]
        self.garbled = False
        self.messages = 0.0
        """What the server is to say."""
        self.told_values: list[tuple[float, float]] = []
        """What it was told, and when."""

    def policies(self) -> dict[str, str]:
        bounds = {"least": LEAST, "most": GREATEST, "max_age": MAX_AGE}
        return {self.name: SCALED.format(namespace=self.scene.namespace, name=self.name, **bounds)}

    async def create(self) -> None:
        self._ask(LEAST)
        await self.scene.deploy(self.name, LEAST)

    def _ask(self, count: float) -> None:
        # From whatever count, this is beyond the tolerance of a tenth.
        self.messages = max(0.0, (count - 0.3) * 10)

    async def live(self) -> None:
        while True:
            if not self._failing.locked():
                self._ask(self.random.uniform(0, GREATEST + 2))
            await asyncio.sleep(self.random.uniform(2, 6))

    async def observe(self) -> None:
        while True:
            with contextlib.suppress(*TROUBLE):
                found = await self.client.get(f"{self.scene.deployments}/{self.name}")
                self._counts.append((time.time(), found["spec"]["replicas"]))
            await asyncio.sleep(0.2)

    async def strike(self, blow: Blow) -> None:
        async with self._failing:
            self._ask(GREATEST - 1)
            await asyncio.sleep(HELD)
            begin = time.time()
            async with (self.stopped, self.crashed, self.silent, self._garbling)[blow.target]():
                self._ask(LEAST)  # nobody hears it
                await asyncio.sleep(blow.lasts - HELD)
                self._unknown.append((begin, time.time()))

    @abstractmethod
    def stopped(self) -> AbstractAsyncContextManager[None]:
        """The server stands still."""

    @abstractmethod
    def crashed(self) -> AbstractAsyncContextManager[None]:
        """The server is killed, and started again."""

    @abstractmethod
    def silent(self) -> AbstractAsyncContextManager[None]:
        """The server is told nothing."""

    @asynccontextmanager
    async def _garbling(self) -> AsyncIterator[None]:
        """What the server is told is no number."""
        self.garbled = True
        yield
        self.garbled = False

    async def settle(self) -> None:
        self._wanted = self.random.randint(LEAST, GREATEST - 1)
        self._ask(self._wanted)

    async def broken(self) -> list[str]:
        return differs(await self.client.get(f"{self.scene.deployments}/{self.name}"), self._wanted)

    def judge(self, seen: Seen) -> list[str]:
        untrue = oracle.untrue(seen.decisions, f"{self.name}_queue", self.told_values, MAX_AGE)
        return oracle.shrunk(self._counts, self._unknown) + untrue

    def tell(self) -> float:
        """What the server is told now."""
        self.told_values.append((time.time(), self.messages))
        return self.messages

    def told(self, _: Seen) -> str:
        return f"{self.scene.written('deployments', 'scale', 'patch').count(self.name)} counts by {self.title}"


class ByPrometheus(Scaled):
    """By a genuine Prometheus, which reads what it is to say from a target."""

    title = server = "Prometheus"
    name, blow = "prometheus", "no prometheus"

    @asynccontextmanager
    async def opened(self, folder: Path) -> AsyncIterator[None]:
        async with PrometheusServer(folder) as self._server, meanwhile(self._tell()), AsyncExitStack() as stack:
            made = [HttpInjector(self._server.url, way) for way in self.ways]
            self._proxies = [await stack.enter_async_context(proxy) for proxy in made]
            yield

    async def _tell(self) -> None:
        labels = f'namespace="{self.scene.namespace}",deployment="{self.name}"'
        while True:
            value = float("nan") if self.garbled else self.tell()
            self._server.target.metrics = {f"queue{{{labels}}}": value}
            await asyncio.sleep(0.1)
            self.told_values.append((time.time(), value))  # so it was until now, also if this process had no processor

    def sources(self, number: int) -> str:
        return PROMETHEUS.format(url=self._proxies[number].url)

    @asynccontextmanager
    async def stopped(self) -> AsyncIterator[None]:
        self._server.program.signal(signal.SIGSTOP)
        yield
        self._server.program.signal(signal.SIGCONT)

    @asynccontextmanager
    async def crashed(self) -> AsyncIterator[None]:
        await self._server.program.kill()
        yield
        self._server.program.start()
        await self._server.until_ready()

    @asynccontextmanager
    async def silent(self) -> AsyncIterator[None]:
        self._server.target.dead = True
        yield
        self._server.target.dead = False


class ByMqtt(Scaled):
    """By what a sensor publishes to a genuine broker."""

    title = server = "MQTT"
    name, blow = "mqtt", "no broker"
    _silent = False

    @asynccontextmanager
    async def opened(self, folder: Path) -> AsyncIterator[None]:
        async with Broker(folder, OPEN) as self._broker, meanwhile(self._tell()), AsyncExitStack() as stack:
            made = [MqttInjector(self._broker.port, way) for way in self.ways]
            self._proxies = [await stack.enter_async_context(proxy) for proxy in made]
            yield

    async def _tell(self) -> None:
        while True:
            with contextlib.suppress(aiomqtt.MqttError):
                async with self._broker.client() as client:
                    await self._publish(client)
            await asyncio.sleep(0.2)

    async def _publish(self, client: aiomqtt.Client) -> None:
        while True:
            if not self._silent:
                reading = '{"value": "NaN"' if self.garbled else {"value": self.tell(), "at": time.time()}
                payload = reading if isinstance(reading, str) else json.dumps(reading)
                await client.publish(f"sensors/{self.scene.namespace}/{self.name}/queue", payload, qos=1)
            await asyncio.sleep(0.2)

    def sources(self, number: int) -> str:
        return BROKER.format(port=self._proxies[number].port)

    @asynccontextmanager
    async def stopped(self) -> AsyncIterator[None]:
        os.kill(self._broker.pid, signal.SIGSTOP)
        yield
        os.kill(self._broker.pid, signal.SIGCONT)

    @asynccontextmanager
    async def crashed(self) -> AsyncIterator[None]:
        await self._broker.kill()
        yield
        await self._broker.start()

    @asynccontextmanager
    async def silent(self) -> AsyncIterator[None]:
        self._silent = True
        yield
        self._silent = False


KINDS: Sequence[type[Feature]] = (Preemption, Jobs, Resizing, ByPrometheus, ByMqtt)


@asynccontextmanager
async def opened(scene: Stage, folder: Path, seed: int) -> AsyncIterator[Sequence[Feature]]:
    """The features of a seed that the API server has, with what they need."""
    drawn = [name for name in features(seed) if name != "resizing" or scene.kube.plane.version >= (1, 33)]
    async with AsyncExitStack() as stack:
        made = [kind(scene, seed) for kind in KINDS if kind.title in drawn]
        for one in made:
            place = folder / one.title
            place.mkdir()
            await stack.enter_async_context(one.opened(place))
            await stack.enter_async_context(granted(scene.kube, scene.namespace, one.rights))
        yield made


@asynccontextmanager
async def meanwhile(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Work as long as the block runs; what has failed is raised at its end."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        yield
    finally:
        # Until Python 3.12 what waits for something for a limited time may miss that it is cancelled.
        while going := [task for task in tasks if not task.done()]:
            for task in going:
                task.cancel()
            await asyncio.wait(going, timeout=0.1)
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome


def differs(found: JSON, wanted: int) -> list[str]:
    """Why a Deployment has not so many pods, with no surge under way."""
    meta, status = found["metadata"], found["status"]
    counts = found["spec"]["replicas"], status.get("replicas", 0), status.get("readyReplicas", 0)
    why = [] if set(counts) == {wanted} else [f"{meta['name']} has {counts} pods wanted, there, ready; not {wanted}"]
    return why + ([f"{meta['name']} has a surge under way"] if SURGE in meta.get("annotations", {}) else [])
