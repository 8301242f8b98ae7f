"""One episode: a cluster in which pods move and a workload scales, while what a plan says goes wrong.

Two daemons, one of which leads, place all pods, keep them off cordoned nodes and scale a Deployment with its load. In
the end everything is whole again, and the oracle looks at what was seen meanwhile.
"""

import asyncio
import contextlib
import json
import os
import signal
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec

from elasticd.journal import read
from elasticd.model.actions import Evict
from elasticd.model.records import Decision
from tests.faults import oracle
from tests.faults.features import GREATEST, HELD, LEAST, Feature, Seen, differs, meanwhile, opened
from tests.faults.injector import ApiInjector, Faults
from tests.faults.plan import DAEMONS, SECONDS, Blow, Fault, Trouble
from tests.kube.between import RESTORED
from tests.kube.client import JSON, TROUBLE, ApiError, NotReached, wait_until
from tests.kube.conftest import Kube
from tests.kube.moving import OURS, POLICY, USED, USER, Stage, stage
from tests.kube.running import ELASTICD, Running, running
from tests.kube.test_daemon import policy

NODES, PODS = "abc", 6
WITHIN, MOST = 6, 4
BUDGET = f"within = {WITHIN}\ntotal = {MOST}\nper_node = {MOST}\nper_namespace = {MOST}\n"
SHOPS = 3
"""Pods of a Deployment that nobody scales."""
EACH = 0.05
"""Cores for which there is to be one pod of the Deployment."""
MAX_AGE, PROVEN = 120.0, 120.0
"""Seconds for which samples are used where a policy names no other, and what the cluster proved."""
CONVERGES = 120.0
"""Seconds within which everything is whole again."""


class Report(NamedTuple):
    """What came of an episode."""

    violations: list[str]
    seconds: float
    evictions: int
    injected: Counter[str]
    features: list[str]


class Episode:
    """The cluster, the daemons and what is seen of them."""

    def __init__(
        self,
        scene: Stage,
        daemons: Sequence[tuple[Running, ApiInjector]],
        features: Sequence[Feature],
        versions: Sequence[Sequence[str]],
        seed: int,
    ) -> None:
        self._scene, self._daemons, self._features, self._random = scene, daemons, features, Random(seed)
        self._versions = versions
        self._pods: dict[str, JSON] = {}
        self._stays: defaultdict[str, list[oracle.Stay]] = defaultdict(list)
        self._cordons: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
        self._counts: list[tuple[float, int]] = []
        self._unknown: list[tuple[float, float]] = []
        """When the load was not known."""
        self._violations: list[str] = []
        self._blind = 0.0
        """The longest time for which one of the troubles may have kept a daemon from seeing what changed."""
        self._journaled: set[str] = set()
        self._evicted: defaultdict[str, set[str]] = defaultdict(set)
        self._restarting, self._measuring = asyncio.Lock(), asyncio.Lock()
        self._killing = [asyncio.Lock() for _ in daemons]

    async def create(self) -> None:
        """Create what is there before anything goes wrong."""
        scene = self._scene
        scene.kube.loads.set_load(scene.namespace, "web", cpu=EACH)
        for name, count in (("shop", SHOPS), ("web", LEAST)):
            await scene.deploy(name, count)
        made = [await scene.pod(scene.name("batch")) for _ in range(PODS)]
        self._pods = {pod["metadata"]["name"]: pod for pod in made}
        for feature in self._features:
            await feature.create()

    async def run(self, troubles: Sequence[Trouble]) -> Report:
        """Let it all go wrong, wait until it is whole again, and judge. May be called again and again."""
        scene = self._scene
        for faults in self._ways:
            faults.begin([one for one in troubles if isinstance(one, Fault)])
        self._blind = max([self._blind, *(one.lasts for one in troubles)])
        begun = asyncio.get_running_loop().time()
        blows = [self._strike(one, begun) for one in troubles if isinstance(one, Blow)]
        features = self._features
        async with meanwhile(self._observe(), *(one.observe() for one in features)):
            async with meanwhile(self._cordon(), self._load(), *(one.live() for one in features)):
                await asyncio.gather(*blows, asyncio.sleep(SECONDS))
            for faults in self._ways:
                faults.begin(())
            ended = time.monotonic()
            await self._converge()
            seconds = time.monotonic() - ended
        done = oracle.evictions(scene.kube.plane.audit(), USER, scene.namespace)
        records = [record for one in self.daemons for record in read(one.folder / "state")]
        # Kept, as old segments of a journal go.
        self._journaled.update(name for record in records for name in _pods_of(record))
        decisions = [msgspec.to_builtins(record) for record in records if isinstance(record, Decision)]
        seen = Seen(done, [entry for _, proxy in self._daemons for entry in proxy.written], decisions)
        for name, uid in oracle.evicted_uids(seen.written):
            self._evicted[name].add(uid)
        violations = [*dict.fromkeys(self._violations + self._judge(seen))]
        injected: Counter[str] = Counter()
        for faults in self._ways:
            injected += faults.injected
            faults.injected.clear()
        for _, proxy in self._daemons:
            proxy.written.clear()
        return Report(violations, seconds, len(done), injected, [one.told(seen) for one in features])

    def _judge(self, seen: Seen) -> list[str]:
        scene, (done, written, decisions) = self._scene, seen
        logs = {str(one.program.log): one.program.log.read_text() for one, _ in self._daemons}
        records = {
            f"the journal in {one.folder}": "\n".join(map(repr, read(one.folder / "state"))) for one, _ in self._daemons
        }
        return [
            *oracle.over_budget(done, WITHIN, MOST),
            # A pod of a Deployment goes when another is ready, whatever became of its node meanwhile.
            *oracle.uncalled_for(
                [one for one in done if one.pod in self._pods], self._stays, self._cordons, self._blind
            ),
            *oracle.unconditional(written),
            *oracle.repeated(done, self._evicted),
            *oracle.shrunk(self._counts, self._unknown),
            *oracle.too_old(decisions, self._limits, PROVEN),
            # A surge may add one to a count, whatever a policy says.
            *oracle.out_of_bounds(written, LEAST, GREATEST + 1),
            *(f"{one.pod} was evicted, and no journal says so" for one in done if one.pod not in self._journaled),
            *oracle.leaked(scene.kube.plane.token(USER), logs | records),
            *(f"{log} has a traceback" for log, text in logs.items() if "Traceback" in text),
            *(violation for one in self._features for violation in one.judge(seen)),
        ]

    @property
    def _limits(self) -> dict[str, float]:
        """How old samples may be, by policy."""
        files = [path for one in self.daemons for path in (one.folder / "policies").glob("*.toml")]
        return {path.stem: tomllib.loads(path.read_text()).get("max_age", MAX_AGE) for path in files}

    @property
    def _ways(self) -> list[Faults]:
        """Between all daemons and all servers."""
        return [proxy.faults for _, proxy in self._daemons] + [way for one in self._features for way in one.ways]

    @property
    def daemons(self) -> Sequence[Running]:
        """Both, the leader and the other."""
        return [running for running, _ in self._daemons]

    @property
    def features(self) -> list[str]:
        """What the daemons do beside what they always do."""
        return [feature.title for feature in self._features]

    async def _observe(self) -> None:
        while True:
            with contextlib.suppress(*TROUBLE):
                web = await self._scene.kube.client.get(f"{self._scene.deployments}/web")
                self._counts.append((time.time(), web["spec"]["replicas"]))
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
        while True:
            node = self._random.choice((*self._scene.nodes, ""))
            with contextlib.suppress(*TROUBLE):
                await self._cordon_only(node)
            await asyncio.sleep(self._random.uniform(3, 10))

    async def _cordon_only(self, node: str) -> None:
        """Cordon this node, or none; what was cordoned before counts as cordoned until this is done."""
        before = [self._cordons[name] for name in self._scene.nodes if name != node]
        if node:
            self._cordons[node].append((time.time(), float("inf")))
        await self._scene.cordon(*filter(None, [node]))
        for spans in before:
            spans[:] = [(begin, min(end, time.time())) for begin, end in spans]

    async def _load(self) -> None:
        while True:
            if not self._measuring.locked():
                self._set_load(self._random.uniform(0.0, 0.6))
            await asyncio.sleep(self._random.uniform(2, 6))

    def _set_load(self, cores: float) -> None:
        self._scene.kube.loads.set_load(self._scene.namespace, "web", cpu=cores)

    async def _strike(self, blow: Blow, begun: float) -> None:
        await asyncio.sleep(begun + blow.begins - asyncio.get_running_loop().time())
        if about := [feature for feature in self._features if feature.blow == blow.kind]:
            await about[0].strike(blow)
        elif method := getattr(self, f"_{blow.kind.replace(' ', '_')}", None):
            await method(blow)

    async def _kill(self, blow: Blow) -> None:
        daemon = self._daemons[blow.target][0]
        program = daemon.program
        async with self._killing[blow.target]:  # or two would run in its place
            await program.kill()
            await asyncio.sleep(blow.lasts)
            at = program.command.index("run")
            # Of two versions the other one goes on with what this one has left.
            program.command[:at] = next((one for one in self._versions if [*one] != program.command[:at]), ELASTICD)
            await daemon.restart()

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

    async def _no_metrics(self, blow: Blow) -> None:
        """The metrics API says nothing that can be used."""
        async with self._measuring:
            metrics, over = self._scene.kube.metrics, asyncio.Event()
            self._set_load((GREATEST - 1.3) * EACH)
            await asyncio.sleep(HELD)
            begin = time.time()
            match blow.target:
                case 0:
                    metrics.failure = 503
                case 1:
                    metrics.held = over
                case 2:
                    metrics.twist = lambda answer: {**answer, "items": []}
                case _:
                    metrics.twist = _garbled
            await asyncio.sleep(blow.lasts - HELD)
            self._unknown.append((begin, time.time()))
            over.set()
            metrics.failure, metrics.held, metrics.twist = None, None, lambda answer: answer

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
        await wait_until(lambda: self._delete_waiting(lambda _: True), within=60, what="what does not start is deleted")

    async def _delete_waiting(self, chosen: Callable[[JSON], bool]) -> bool:
        """Delete pods that are on a node and do not run; False: the API server could not be asked."""
        try:
            for pod in await self._scene.kube.client.list(self._scene.pods):
                if pod["status"].get("phase") == "Pending" and pod["spec"].get("nodeName") and chosen(pod):
                    with contextlib.suppress(ApiError):
                        path = f"{self._scene.pods}/{pod['metadata']['name']}"
                        await self._scene.kube.client.delete(path, grace=0, uid=pod["metadata"]["uid"])
        except TROUBLE:
            return False
        return True

    async def _converge(self) -> None:
        wanted = self._random.randint(LEAST, GREATEST - 1)
        await self._cordon_only("")
        for feature in self._features:
            await feature.settle()
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
            found += differs(await scene.kube.client.get(f"{scene.deployments}/{name}"), count)
        return found + [one for feature in self._features for one in await feature.broken()]


def _pods_of(record: Any) -> Iterator[str]:
    """The pods that a record of the journal is about: one that is moved or placed, and its victims."""
    if hasattr(record, "pod"):
        yield record.pod.name
        yield from (action.workload.name for action in getattr(record, "actions", ()) if isinstance(action, Evict))


def _garbled(answer: JSON) -> JSON:
    """A list of metrics with numbers that are none."""
    usage = {"cpu": "NaN", "memory": "-1Gi"}
    items = [
        {
            **item,
            **({"value": "NaN"} if "value" in item else {}),
            "containers": [{**container, "usage": usage} for container in item.get("containers", ())],
        }
        for item in answer.get("items", ())
    ]
    return {**answer, "items": items}


@contextlib.asynccontextmanager
async def episode(
    kube: Kube, folder: Path, seed: int, more: str = "", beside: Path | None = None
) -> AsyncIterator[Episode]:
    """An episode on a stage of its own; `more` goes at the head of the daemons' elasticd.toml. `beside`: a checkout of
    another version, of which the second daemon is; each is of the other version after it was killed."""
    async with AsyncExitStack() as stack:
        scene = await stack.enter_async_context(stage(kube, folder, NODES))
        features = await stack.enter_async_context(opened(scene, folder, seed))
        versions = [ELASTICD, *([version_in(beside)] if beside else [])]
        daemons = []
        for number in range(DAEMONS):
            proxy = await stack.enter_async_context(ApiInjector(kube.plane, number, seed))
            program = versions[number % len(versions)]
            sources = "".join(feature.sources(number) for feature in features)
            settings = more + (USED + sources if sources else "")
            started = daemon(folder / f"daemon-{number}", proxy, scene, features, settings, program)
            daemons.append((await stack.enter_async_context(started), proxy))
        created = Episode(scene, daemons, features, versions, seed)
        await created.create()
        yield created


def daemon(
    folder: Path, proxy: ApiInjector, scene: Stage, features: Sequence[Feature], settings: str, program: Sequence[str]
) -> contextlib.AbstractAsyncContextManager[Running]:
    """A daemon of all policies, behind this proxy; `settings` go at the head of its elasticd.toml."""
    (folder / "policies").mkdir(parents=True)
    policies = {"pool": POLICY.format(namespace=scene.namespace), **policy(scene.namespace)}
    for feature in features:
        policies |= feature.policies()
        for name, text in feature.files().items():
            (folder / "policies" / name).write_text(text)
    return running(
        folder,
        proxy.kubeconfig(USER, folder),
        scene.namespace,
        policies,
        settings,
        cluster="request_timeout = 2",
        disruption=BUDGET,
        program=program,
    )


def version_in(checkout: Path) -> Sequence[str]:
    """The daemon of another checkout, in which `make .venv/run` was run; it finds the plugins of this one's tests."""
    found = (checkout, checkout / ".venv" / "names", os.environ["PYTHONPATH"])
    paths = os.pathsep.join(map(str, found))
    return "env", f"PYTHONPATH={paths}", str(checkout / ".venv" / "bin" / "python"), "-P", "-m", "elasticd"
