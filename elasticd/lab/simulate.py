"""Plays policies on a simulated cluster in virtual time, and notes at each step what was asked for and what was there.

Knows the loops and the simulated world; knows nothing of files, of figures or of what is printed.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from itertools import chain
from math import ceil, inf, isinf, isnan, nan
from typing import NamedTuple

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace
from numpy.typing import NDArray

from elasticd.base.clock import Clock, VirtualClock
from elasticd.cluster.simulated import WHOLE, Part, Simulated
from elasticd.cluster.simulated.cluster import SimulatedCluster
from elasticd.cluster.simulated.demand import Curve
from elasticd.cluster.simulated.jobs import SimulatedJobSet
from elasticd.cluster.simulated.options import ServiceTable
from elasticd.cluster.simulated.pods import Bare, SimulatedWorkload, make_workloads
from elasticd.config import ScenarioSettings
from elasticd.journal import Journal
from elasticd.lab.runs import Change, JobTrack, NodeTrack, Run, ServingPod, WorkloadTrack, share_equal
from elasticd.lab.service import Queue, Service
from elasticd.model.listener import Listener, Notice
from elasticd.model.placement import PodOutcome
from elasticd.model.policy import Policy, PoolPolicy
from elasticd.model.records import Decision, Outcome
from elasticd.model.workload import Node, Ref
from elasticd.ports.source import Source
from elasticd.runtime.loop import Loop
from elasticd.runtime.pools.mover import Mover
from elasticd.runtime.pools.placer import Placer
from elasticd.runtime.pools.surges import Surging
from elasticd.sources.poller import opened
from elasticd.ui.decisions import cause

PART = 5.0
"""Seconds, at most: demand is looked at so often within a step."""


class _Records:
    """A listener that keeps of a run what its steps do not show. Of decisions it keeps only why a count was changed."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._pending: dict[str, Decision] = {}
        """Decisions whose action has no outcome yet, by id."""

    def on(self, record: Notice) -> None:
        run = self._run
        if isinstance(record, Outcome):
            decision = self._pending.pop(record.decision, None)
            if record.result == "done" and record.after != record.before:
                why = cause(decision) if decision else ""
                change = Change(record.at, record.before, record.after, why)
                run.changes.setdefault(record.workload, []).append(change)
        elif isinstance(record, PodOutcome) and record.action in ("evict", "surge") and record.result == "done":
            run.evicted.append(record.about)
        elif isinstance(record, Decision):
            if record.action:
                self._pending[record.id] = record
            for failure in record.failures:
                what = f"{failure.plugin}: {failure.hook} {failure.message}"
                run.failures[what] = run.failures.get(what, 0) + 1


class SteppedClock(VirtualClock):
    """Virtual time that stops at the end of each step to be looked at."""

    def __init__(self, start: float, step: float, look: Callable[[float], None]) -> None:
        super().__init__(start)
        self._start, self._step, self._look, self._steps = start, step, look, 0

    async def sleep_until(self, when: float) -> None:
        before = self._steps
        while (end := self._start + self._step * (self._steps + 1)) <= when:
            self._steps += 1
            self._now = max(self._now, end)
            self._look(end)
        if self._steps > before:  # often enough for an interruption: nothing else goes on while time passes
            await super().sleep_until(when)
        else:
            self._now = max(self._now, when)


class _Demand(NamedTuple):
    """The demand in each part of a step, in cores; its mean and the highest, of what is known; and whether all is."""

    parts: NDArray[np.float64]
    mean: float
    peak: float
    whole: bool


class _Meter:
    """Looks at the simulated world at the end of each step."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._parts = ceil(run.step / PART)
        self._middles = (np.arange(self._parts) + 0.5) * run.step / self._parts
        self._demand: dict[int, _Demand] = {}
        """By curve: workloads of one table share theirs."""
        self._queues: dict[Ref, Queue] = {}
        self._pods: dict[Ref, _Pods] = {}
        self._node_numbers: dict[str, int] = {}
        """Of the nodes on which pods were, in the order in which they were seen first."""

    def look(self, cluster: SimulatedCluster, at: float) -> None:
        world, run = cluster.world, self._run
        world.advance(at)
        self._demand.clear()
        all_pods, used = list[_Pods](), list[float]()
        by_each: dict[tuple[int, int], float] = {}
        """By curve, which workloads of one table share, and nobody else, and how many serve."""
        for workload in world.workloads.values():
            pods = self._pods_of(workload)
            if isinstance(workload, SimulatedJobSet):
                self._note_jobs(workload, at)
            elif not isinstance(workload, Bare):
                self._note(workload, pods, at)
            all_pods.append(pods)
            alike = (id(workload.cpu), pods.serving)
            each = by_each.get(alike)
            if each is None:
                each = by_each[alike] = _used_by_each(workload, pods.serving, at - run.begun)
            used += [each if serves else 0.0 for serves in pods.serves]
        run.waiting.append(sum([pods.waiting for pods in all_pods]))
        run.evictions.append(len(run.evicted))
        self._note_nodes(world.nodes.nodes, self._held(all_pods, used))

    def _pods_of(self, workload: SimulatedWorkload) -> "_Pods":
        pods = self._pods.get(workload.ref)
        if pods is None or pods.changes != workload.changes:
            pods = self._pods[workload.ref] = _look_at_pods(workload, self._node_numbers)
        return pods

    def _held(self, all_pods: Sequence["_Pods"], used: Sequence[float]) -> dict[str, "_Held"]:
        """What the pods have of each node; `used`: the cores that each uses. Sums are in the order of the pods."""
        nodes = np.fromiter(chain.from_iterable([pods.nodes for pods in all_pods]), np.intp)
        cores = np.fromiter(chain.from_iterable([pods.cores for pods in all_pods]), np.float64)
        memory = np.fromiter(chain.from_iterable([pods.memory for pods in all_pods]), np.float64)
        count = len(self._node_numbers)
        sums = [np.bincount(nodes, weights, count).tolist() for weights in (None, cores, np.array(used), memory)]
        return {name: _Held(*held) for name, *held in zip(self._node_numbers, *sums, strict=True)}

    def _note_nodes(self, nodes: Sequence[Node], held: dict[str, "_Held"]) -> None:
        run, none = self._run, _Held()
        for node in nodes:
            track = run.nodes.get(node.name)
            if track is None:
                cores, memory = node.allocatable.get("cpu", nan), node.allocatable.get("memory", nan)
                track = run.nodes[node.name] = NodeTrack(cores=cores, bytes=memory)
                for _ in run.waiting[1:]:
                    _add_step(track, _GONE)
            _add_step(track, held.get(node.name, none))
        for name in run.nodes.keys() - {node.name for node in nodes}:
            _add_step(run.nodes[name], _GONE)

    def _note_jobs(self, jobs: SimulatedJobSet, at: float) -> None:
        track = self._run.jobs.setdefault(jobs.ref, JobTrack())
        track.queue.append(jobs.waiting(at - self._run.begun))
        track.in_flight.append(jobs.replicas)

    def _note(self, workload: SimulatedWorkload, pods: "_Pods", at: float) -> None:
        run = self._run
        track = run.workloads.get(workload.ref)
        if track is None:
            track = run.workloads[workload.ref] = WorkloadTrack()
        since = at - run.step
        demand = self._demand_of(workload.cpu, since - run.begun)
        capacity = self._capacity(workload, pods.capacity, since)
        track.demand.append(demand.mean)
        track.peak.append(demand.peak)
        if demand.whole and isinstance(capacity, float) and demand.peak <= capacity:  # nearly always
            track.unserved.append(0.0)
            track.short.append(0.0)
            track.lagging = 0.0
        else:
            self._note_shortage(track, demand.parts, capacity)
        track.replicas.append(workload.replicas)
        track.ready.append(len(workload.serving_at(at).keys))
        if workload.table.service:
            self._serve(workload, workload.table.service, demand.parts, since)
        _note_request(track, pods.request)

    def _note_shortage(
        self, track: WorkloadTrack, demand: NDArray[np.float64], capacity: NDArray[np.float64] | float
    ) -> None:
        missing = np.maximum(demand - capacity, 0.0)
        known, part = ~np.isnan(demand), self._run.step / self._parts
        track.unserved.append(float(missing[known].mean()) if known.any() else nan)
        short = missing > 1e-9 * (1.0 + demand)  # what rounding leaves is none; NaN is none
        track.short.append(part * int(short.sum()))
        for is_short in short.tolist() if short.any() else ():
            track.lagging = track.lagging + part if is_short else 0.0
            track.lag = max(track.lag, track.lagging)
        if not short.any():
            track.lagging = 0.0

    def _serve(
        self, workload: SimulatedWorkload, table: ServiceTable, demand: NDArray[np.float64], since: float
    ) -> None:
        """What comes of the requests of the step, part by part."""
        queue = self._queues.get(workload.ref)
        if queue is None:
            queue = self._queues[workload.ref] = Queue(service_of(table, capacity_of_pod(workload)))
        part, track = self._run.step / self._parts, self._run.workloads[workload.ref]
        served = [
            queue.serve(cores / table.seconds, len(workload.serving_at(since + middle).keys), part)
            for cores, middle in zip(demand.tolist(), self._middles.tolist(), strict=True)
        ]
        known = [each for each in served if not isnan(each.requests)]
        track.requests.append(sum(each.requests for each in known) if known else nan)
        track.failed.append(sum(each.failed for each in known) if known else nan)
        track.waits.append(np.sum([each.waits for each in served], axis=0, dtype=np.float32))

    def _demand_of(self, curve: Curve, since: float) -> "_Demand":
        demand = self._demand.get(id(curve))
        if demand is None:
            parts = np.maximum([curve(since + middle) for middle in self._middles.tolist()], 0.0)
            known = parts[~np.isnan(parts)]
            mean, peak = (float(known.sum() / known.size), float(known.max())) if known.size else (nan, nan)
            self._demand[id(curve)] = demand = _Demand(parts, mean, peak, known.size == parts.size)
        return demand

    def _capacity(self, workload: SimulatedWorkload, each: float, since: float) -> NDArray[np.float64] | float:
        """The cores that its serving pods have in each part of the step, of which each has so many."""
        if workload.served and workload.served[-1][0] <= since:
            return each * len(workload.served[-1][1].keys)
        counts = [len(workload.serving_at(since + middle).keys) for middle in self._middles.tolist()]
        return each * np.array(counts, dtype=np.float64)


def capacity_of_pod(workload: SimulatedWorkload) -> float:
    """The cores with which a pod serves demand: its limit, or what it requests, which is all that it is sure to get."""
    if not isinf(workload.most_cpu):
        return workload.most_cpu
    return sum(container.requests.get("cpu", 0.0) for container in workload.containers)


def service_of(table: ServiceTable, cores: float) -> Service:
    """What a pod of so many cores serves. Its workers share them, so that each takes as much longer for a request."""
    workers = table.workers or max(1, round(cores))
    seconds = workers * table.seconds / cores
    return Service(workers, seconds, min(table.timeout, table.queue * seconds / workers))


def serving(cluster: Simulated) -> dict[Ref, ServingPod]:
    """A pod of each workload that is scaled; empty where one has no demand that pods could serve."""
    tables = [table for table in cluster.workloads if not table.bare]
    workloads = [workload for table in tables for workload in make_workloads(table)]
    pods = {
        workload.ref: ServingPod(capacity_of_pod(workload), workload.table.start_seconds + workload.table.ready_seconds)
        for workload in workloads
    }
    whole = all(table.demand for table in tables) and all(pod.capacity > 0 for pod in pods.values())
    return pods if whole else {}


class _Held(Struct):
    """What pods have of one node: their count, cores that they request and use, and bytes that they request."""

    pods: int = 0
    requested: float = 0.0
    used: float = 0.0
    memory: float = 0.0


_GONE = _Held(0, nan, nan, nan)
"""Of a node that is not there."""


def _note_request(track: WorkloadTrack, request: float) -> None:
    """Note what a pod requests, if that is something else than before; without pods it is as before."""
    if not isnan(request) and (not track.pod_requests or track.pod_requests[-1][1] != request):
        track.pod_requests.append((len(track.demand) - 1, request))


def _add_step(track: NodeTrack, held: _Held) -> None:
    track.pods.append(held.pods)
    track.requested.append(held.requested)
    track.used.append(held.used)
    track.memory.append(held.memory)


class _Pods(Struct):
    """The pods of a workload, until something becomes of them: of each that has room on a node the node's number, the
    cores and bytes that it requests, and whether it serves; how many serve in all, and have no node yet; the cores that
    each requests, on average, NaN without any; and those with which one serves demand."""

    changes: int
    capacity: float
    serving: int
    nodes: list[int] = field(default_factory=list)
    cores: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    serves: list[bool] = field(default_factory=list)
    waiting: int = 0
    request: float = nan


def _look_at_pods(workload: SimulatedWorkload, node_numbers: dict[str, int]) -> _Pods:
    serving = sum([pod.serving for pod in workload.pods.values()])
    pods = _Pods(workload.changes, capacity_of_pod(workload), serving)
    for pod in workload.pods.values():
        if pod.held:
            requests = pod.claim.needs.requests
            pods.nodes.append(node_numbers.setdefault(pod.node, len(node_numbers)))
            pods.cores.append(requests.get("cpu", 0.0))
            pods.memory.append(requests.get("memory", 0.0))
            pods.serves.append(pod.serving)
        elif not (pod.node or pod.deleted or pod.rejected):
            pods.waiting += 1
    counts = Counter(pods.cores)
    if len(counts) == 1:
        (pods.request,) = counts  # and not three times 0.1 by three, which is another number
    elif counts:
        pods.request = sum(cores * count for cores, count in counts.items()) / len(pods.cores)
    return pods


def _used_by_each(workload: SimulatedWorkload, serving: int, t: float) -> float:
    """The cores that each of so many serving pods uses at t seconds after the start."""
    demand = workload.cpu(t) if serving else 0.0
    return 0.0 if isnan(demand) or not serving else min(max(0.0, demand) / serving, workload.most_cpu)


async def run(
    cluster: Simulated,
    policies: Sequence[Policy | PoolPolicy],
    scenario: ScenarioSettings,
    *,
    sources: Sequence[Source],
    progress: Callable[[float], None] = lambda seconds: None,
    part: Part = WHOLE,
) -> Run:
    """What these policies do on a simulated cluster, or a part of it, in the time of the scenario. All of them act,
    whatever their `mode` is. `progress` hears after each step how long it was, in seconds."""
    start, step = scenario.start.timestamp(), scenario.step
    result = Run(start, step)
    meter = _Meter(result)

    def look(at: float) -> None:
        meter.look(world, at)
        progress(step)

    clock = SteppedClock(start, step, look)
    world = cluster.build(clock, remembered=step, part=part)
    acting = [replace(policy, mode="act") for policy in policies if part == WHOLE or _is_about(policy, world)]
    end = start + scenario.hours * 3600
    await play(world, acting, end, None, sources=sources, listeners=[_Records(result)])
    share_equal(result.workloads.values())
    return result


def _is_about(policy: Policy | PoolPolicy, cluster: SimulatedCluster) -> bool:
    """Whether the policy may govern something here: it names no workload of another part."""
    target = policy.workload if isinstance(policy, Policy) else None
    return target is None or target.ref in cluster.world.workloads


async def play(
    cluster: SimulatedCluster,
    policies: Sequence[Policy | PoolPolicy],
    end: float,
    journal: Journal | None,
    *,
    sources: Sequence[Source],
    listeners: Sequence[Listener] = (),
) -> None:
    """Run policies on a simulated cluster until this time of its clock, and write what they do into the journal.
    None: nobody reads it, so that decisions that come out as the one before did, and change nothing, are left out."""
    clock, start, brief = cluster.clock, cluster.clock.now(), journal is None
    journal = journal or Journal()
    async with AsyncExitStack() as stack:
        loop = Loop(cluster, journal, clock, listeners, idle=inf)
        if brief:
            loop.leave_out_repeats()
        pollers = await stack.enter_async_context(opened(sources, loop.site))
        loop.set_sources(pollers, wait=None)
        placer = Placer(cluster, loop.look, journal, clock, listeners)
        placer.set_sources(pollers, wait=None)
        placer.apply([policy for policy in policies if isinstance(policy, PoolPolicy)])
        loop.apply([policy for policy in policies if isinstance(policy, Policy)], placer.also_observed)
        mover = Mover(cluster, placer, journal, clock, listeners)
        await loop.tick(start)
        if placer.pools:
            beside: list[Placer | Mover | Surging] = [placer]
            if any(pool.moves for pool in placer.pools):
                beside.append(mover)
            if any(pool.moves and pool.policy.moves.surge for pool in placer.pools):
                beside.append(mover.surging)
            await _together(loop, beside, cluster, clock, end)
        if not loop.governed():  # nothing would ever be due
            await clock.sleep_until(end)
        while clock.now() < end:
            await loop.step()
            await loop.actions.drain()


async def _together(
    loop: Loop, beside: Sequence[Placer | Mover | Surging], cluster: SimulatedCluster, clock: Clock, end: float
) -> None:
    """All loops, each at its times; and the cluster tells at once what happens in it, as an API server does."""
    due = [worker.due() for worker in beside]
    while (now := min(loop.due(), cluster.next, *due)) < end:
        await clock.sleep_until(now)
        await cluster.observe(now, frozenset())
        if loop.due() <= now:
            await loop.step()
            await loop.actions.drain()
        for index, worker in enumerate(beside):
            if due[index] <= now:
                await worker.turn()
                await worker.actions.drain()
                due[index] = worker.due()
        # What was done may have stirred the others; who waits for a time of its own does not wait anew.
        due = [min(known, worker.due()) for known, worker in zip(due, beside, strict=True)]
    await clock.sleep_until(end)
