"""Simulated job sets: Jobs that take messages off a queue, run for a while and end.

Knows what a queue held at a time and how long a Job runs; knows nothing of when a pod begins, or of room on nodes.
"""

from bisect import bisect_right
from collections.abc import Iterator
from hashlib import blake2b
from math import isnan
from operator import itemgetter
from typing import Annotated, Literal

from msgspec import Meta, field
from msgspec.structs import replace

from elasticd.cluster.simulated.demand import Curve, Demand, remember
from elasticd.cluster.simulated.nodes import claim_of
from elasticd.cluster.simulated.options import (
    Delay,
    PodTable,
    Quantity,
    SimulatedSeries,
    WorkloadTable,
    amount,
    check_amounts,
    further,
)
from elasticd.cluster.simulated.pods import SimulatedPod, SimulatedWorkload, make_uid
from elasticd.model.actions import Create
from elasticd.model.jobs import JOB_KIND, Gone, Job
from elasticd.model.pod_spec import Restart
from elasticd.model.workload import Container, Ref, Workload


class JobsTable(PodTable, frozen=True, kw_only=True):
    """Job sets that are alike. `arrivals` is how many messages have come to the queue by t seconds after the start, in
    all; each Job takes up to `per_job` of them when its pod runs, and ends `run_seconds` later, or at once without any.

    The series `queue` is what is in the queue: messages leave it when their Job ends, or with `leave` "begin" when it
    takes them. By up to `spread` of `run_seconds` a Job runs longer or shorter, which is the same in every run.
    """

    namespace: str = "default"
    labels: dict[str, str] = field(default_factory=dict)
    cpu: Quantity = "200m"
    memory: Quantity = "256Mi"
    restart_policy: Restart = "Never"
    start_seconds: Delay = 5.0
    run_seconds: Delay = 30.0
    spread: Annotated[float, Meta(ge=0, le=1)] = 0.0
    arrivals: Demand
    per_job: Annotated[int, Meta(ge=1, le=2**31 - 1)] = 1
    queue: Annotated[str, Meta(min_length=1)] = "queue_length"
    leave: Literal["end", "begin"] = "end"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.restart_policy == "Always":
            raise ValueError("restart_policy: must be OnFailure or Never for Jobs, is Always")
        check_amounts(self, "cpu", "memory")
        SimulatedSeries(name=self.queue, demand=self.arrivals)

    def drawn(self, seed: int, name: str) -> float:
        uniform = int.from_bytes(blake2b(f"{seed}/{name}".encode(), digest_size=7).digest()) / 2**55
        return self.run_seconds * (1 + self.spread * (uniform - 1))


class SimulatedJobSet(SimulatedWorkload, eq=False, kw_only=True):
    """A job set. Its pods are those of the Jobs in flight, under the Jobs' names."""

    counted = False
    """Jobs are created one by one, and end by themselves."""

    jobs: dict[str, Job] = field(default_factory=dict)
    gone: Gone = field(default_factory=Gone)
    start: float
    seed: int
    arrivals: Curve
    options: JobsTable
    taken: int = 0
    left: list[tuple[float, int]] = field(default_factory=list)
    """What had left the queue, in all, from a time on."""

    def labels_of(self, pod: SimulatedPod) -> dict[str, str]:
        """The labels of a pod, by one of which its Job is known."""
        return {**self.pod_labels, "controller-uid": self.jobs[pod.name.removesuffix("-pod")].uid}

    def controller_of(self, pod: SimulatedPod) -> tuple[str, str, str]:
        job = self.jobs[pod.name.removesuffix("-pod")]
        return ("Job", job.name, job.uid)

    def serve(self, at: float, keep: float) -> None:
        """Jobs serve no demand; only forget when messages left the queue, if that is longer than `keep` seconds ago."""
        stale = bisect_right(self.left, at - keep, key=itemgetter(0)) - 1
        if stale > 0:
            del self.left[:stale]

    def create(self, action: Create, at: float) -> Iterator[SimulatedPod]:
        """The Jobs of an action, and their pods; one that is there already is left as it is."""
        for name in action.names():
            if name in self.jobs:
                continue
            self.serial += 1
            job = Job(name, make_uid(self.uid, self.serial), action.template, int(name.rpartition("-")[2]), at)
            self.jobs[name] = job
            self.replicas += 1
            yield SimulatedPod(self, f"{name}-pod", self.serial, make_uid(job.uid, "pod"))

    def begin(self, pod: SimulatedPod, at: float) -> float:
        """A Job's pod runs, and takes its messages; for how many seconds it will run."""
        waiting = max(0, int(self._arrived(at)) - self.taken)
        messages = min(self.options.per_job, waiting)
        self.taken += messages
        pod.messages = messages
        if self.options.leave == "begin":
            self._leave(messages, at)
        return self.options.drawn(self.seed, pod.name) if messages else 0.0

    def end(self, pod: SimulatedPod, at: float) -> None:
        name = pod.name.removesuffix("-pod")
        self.jobs[name] = replace(self.jobs[name], ended=at, result="Complete")
        self.replicas -= 1
        if self.options.leave == "end":
            self._leave(pod.messages, at)

    def comes_back(self, pod: SimulatedPod) -> bool:
        """A pod was evicted or rejected. Its messages are free again, and while its Job is in flight another comes."""
        job = self.jobs.get(pod.name.removesuffix("-pod"))
        if job is None or job.result:
            return False
        self.taken -= pod.messages
        return True

    def drop(self, name: str, uid: str, at: float) -> SimulatedPod | None:
        """Delete the Job of this name and UID and return its pod, if any. A Job in flight frees its messages."""
        job = self.jobs.get(name)
        if job is None or job.uid != uid:
            return None
        self.gone.add(self.jobs.pop(name), at)
        pod = self.pods.get(f"{name}-pod")
        if not job.result and pod is not None:
            self.replicas -= 1
            self.taken -= pod.messages
        return pod

    def waiting(self, t: float) -> float:
        """What is in the queue t seconds after the start."""
        at = bisect_right(self.left, self.start + t, key=itemgetter(0))
        return self._arrived(self.start + t) - (self.left[at - 1][1] if at else 0)

    def look(self) -> Workload:
        jobs = tuple(sorted(self.jobs.values(), key=lambda job: job.name))
        count, selector = self.replicas, f"app={self.ref.name}"
        return Workload(self.ref, self.uid, "", count, count, selector=selector, jobs=jobs, gone=self.gone.all())

    def _arrived(self, at: float) -> float:
        arrived = self.arrivals(at - self.start)
        return arrived if isnan(arrived) else max(0.0, float(int(arrived)))

    def _leave(self, messages: int, at: float) -> None:
        before = self.left[-1][1] if self.left else 0
        self.left.append((at, before + messages))


def make_job_sets(table: JobsTable, start: float, seed: int) -> Iterator[SimulatedJobSet]:
    """The job sets of one table."""
    api_version, kind = JOB_KIND
    cpu, memory = amount("cpu", table.cpu), amount("memory", table.memory)
    requests = {"cpu": cpu, "memory": memory, **further(table.resources)}
    claim = claim_of(table.needs(requests, 0.0), [Container(table.name, requests)])
    for name in table.names():
        ref = Ref(table.namespace, kind, name, api_version)
        pods = WorkloadTable(
            name=name, labels=table.labels, annotations=table.annotations, start_seconds=table.start_seconds
        )
        job_set = SimulatedJobSet(
            table=pods,
            ref=ref,
            replicas=0,
            containers=(Container(name, requests),),
            claim=claim,
            memory=memory,
            parts=((name, 1.0),),
            start=start,
            seed=seed,
            arrivals=remember(table.arrivals.curve()),
            options=table,
        )
        job_set.series = ((SimulatedSeries(name=table.queue, demand=table.arrivals), job_set.waiting),)
        yield job_set
