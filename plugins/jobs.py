"""Jobs: creates Jobs by the length of a queue, so that each message finds one Job and none finds two.

Knows messages, the Jobs of a set and whether they have begun; knows nothing of templates or of how Jobs are created.
"""

from collections.abc import Iterable, Sequence
from math import ceil, isfinite
from typing import Annotated, Literal

from elasticd.api import (
    MOST,
    NEVER,
    Band,
    Count,
    Job,
    Measure,
    Meta,
    Observation,
    Pod,
    Policy,
    Recommendation,
    Series,
    Strategy,
    Struct,
    hookimpl,
)

RESOLUTION = 1.0
"""Seconds. The API truncates times to whole seconds: an event may have happened this much later than its time says."""


class Queue(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A series that counts messages, and how many of them one Job takes."""

    series: Annotated[str, Meta(min_length=1, description="counts messages")]
    per_job: Annotated[float, Meta(gt=0, description="messages that one Job takes")] = 1.0
    activation: Annotated[float, Meta(ge=0, description="messages up to which the queue counts as empty")] = 0.0


class Jobs(Strategy, tag="jobs", frozen=True):
    """Creates Jobs for the messages of a queue, and lets them end by themselves.

    With `needed` = messages / per_job (rounded up), so many Jobs are created:

    - `default`, where messages stay in the queue until their Job is done: needed + spare - in flight
    - `accurate`, where a Job takes its message from the queue as it begins: needed - pending
    - `eager`: needed, whatever is in flight, up to the policy's max
    - `custom`: needed - deduction - running_percentage * in flight

    A Job is pending until one of its pods has reached `started`. What happened to Jobs after the queue was measured
    (created, ended, deleted) is left out, so no message is counted twice, however often one looks. A queue that is not
    known creates nothing; of several queues, with "max" or "sum", the others still count.

    Source: KEDA 2.17, ScaledJob specification and pkg/scaling/executor/scale_jobs.go. It differs where KEDA counts
    twice or leaves room unused: max limits what is in flight, not `needed` before the formulas; `eager` subtracts
    pending Jobs from the room once, not twice; with `accurate` pending Jobs are subtracted at the maximum too (as
    KEDA's own tests require since). `spare` is what KEDA's minReplicaCount means to `default`; the policy's min is a
    floor.
    """

    queue: Annotated[tuple[Queue, ...], Meta(min_length=1)]
    strategy: Annotated[
        Literal["default", "accurate", "eager", "custom"], Meta(description="how Jobs follow from the queue")
    ] = "default"
    calculation: Annotated[
        Literal["max", "min", "avg", "sum"], Meta(description="of several queues; min and avg: of those not empty")
    ] = "max"
    spare: Annotated[Count, Meta(description="Jobs that wait for the next message (default, custom)")] = 0
    deduction: Annotated[int, Meta(ge=-1_000_000, le=1_000_000, description="Jobs (custom)")] = 0
    running_percentage: Annotated[
        float, Meta(ge=0, le=1, description="of the Jobs in flight, 1 = all (custom; KEDA's word)")
    ] = 1.0
    started: Annotated[
        Literal["scheduled", "running", "ready"], Meta(description="when a Job is no longer pending (accurate)")
    ] = "running"

    lag: Annotated[
        float,
        Meta(ge=0, le=600, description="seconds by which a queue may be behind the time at which it was measured"),
    ] = 2.0

    def __post_init__(self) -> None:
        used = {"deduction": ("custom",), "running_percentage": ("custom",), "started": ("accurate",)}
        unset = {"deduction": 0, "running_percentage": 1.0, "started": "running"}
        for option, strategies in (used | {"spare": ("default", "custom")}).items():
            if self.strategy not in strategies and getattr(self, option) != unset.get(option, 0):
                raise ValueError(f'{option}: must be left out for strategy "{self.strategy}", is given')
        names = [queue.series for queue in self.queue]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise ValueError(f'queue[{index}].series: must be given once, is "{name}" again')

    def reads(self) -> tuple[str, ...]:
        return tuple(queue.series for queue in self.queue)

    def check(self, policy: Policy) -> str | None:
        """Refuse a policy for a workload, which has no Jobs."""
        table = "[select]" if policy.job is None and policy.select else "[workload]"
        return None if policy.job else f"type: must be for a policy with [job], is for one with {table}"

    @hookimpl
    def steady_bands(self) -> dict[str, Band]:
        """No band: every new measurement of a queue counts Jobs anew."""
        return dict.fromkeys(self.reads(), NEVER)

    @hookimpl
    def recommend_replicas(self, observation: Observation) -> Recommendation:
        """How many Jobs should be in flight; never fewer than are."""
        workload = observation.workload
        if workload.ref.kind != "Job":
            return Recommendation(None, "NotAJobSet", f"must be about a [job], is about a {workload.ref.kind}")
        readings = [_read(queue, observation.series.get(queue.series)) for queue in self.queue]
        measures = tuple(reading.measure for reading in readings)
        known_readings = [reading for reading in readings if reading.jobs is not None]
        if not known_readings or (len(known_readings) < len(readings) and self.calculation in ("min", "avg")):
            unknown = next(reading for reading in readings if reading.jobs is None)
            return Recommendation(None, "QueueUnknown", unknown.measure.message, measures)
        needed = min(ceil(self._combine([reading.jobs for reading in known_readings if reading.jobs])), MOST)
        measured = min(reading.at for reading in known_readings) - self.lag
        wish = min(workload.replicas + max(0, self._missing_jobs(needed, observation, measured)), MOST)
        message = f"{needed} Jobs needed, {workload.replicas} in flight"
        if suspended := sum(job.suspended for job in workload.jobs):
            message += f", {suspended} of them suspended by somebody"
        reason = "QueueWaits" if wish > workload.replicas else "JobsEnough" if needed else "QueueEmpty"
        if suspended and wish == workload.replicas and needed > workload.replicas - suspended:
            reason = "JobsSuspended"
        if ended := len(_ended((*workload.jobs, *workload.gone), measured)):
            message += f", {ended} ended too lately for the queue to know"
        return Recommendation(wish, reason, message, measures)

    def _combine(self, needs: Sequence[float]) -> float:
        """The Jobs needed for all queues that are not empty. KEDA: multipleScalersCalculation."""
        if not needs:
            return 0.0
        if self.calculation == "max":
            return max(needs)
        if self.calculation == "min":
            return min(needs)
        return sum(needs) / (len(needs) if self.calculation == "avg" else 1)

    def _missing_jobs(self, needed: int, observation: Observation, measured: float) -> int:
        """How many Jobs to create beside those in flight, as of when the queue was measured."""
        workload, in_flight = observation.workload, observation.workload.replicas
        jobs = (*workload.jobs, *workload.gone)
        unseen = {job.uid for job in jobs if job.created + RESOLUTION > measured}
        ended = _ended(jobs, measured)
        if self.strategy == "default":
            return needed + self.spare - in_flight - len(ended)
        if self.strategy == "accurate":
            return needed - self._waiting(observation, unseen | ended, measured)
        if self.strategy == "eager":
            return needed - len(unseen)
        older = in_flight - len(unseen & _in_flight(workload.jobs)) + len(ended - unseen)
        share = int(max(0, older - self.spare) * self.running_percentage)
        return max(needed - self.deduction - share - len(unseen), self.spare - in_flight)

    def _waiting(self, observation: Observation, doubtful: set[str], measured: float) -> int:
        """Jobs whose messages may still be queued: pending ones, those created or ended since the measurement."""
        begun = {pod.job for pod in observation.pods if self._has_begun(pod, measured)}
        in_flight = _in_flight(observation.workload.jobs)
        # A dry run counts Jobs as in flight that do not exist.
        pretended = observation.workload.replicas - len(in_flight)
        return len(in_flight - begun | doubtful) + max(0, pretended)

    def _has_begun(self, pod: Pod, measured: float) -> bool:
        """Whether the pod's Job had begun when the queue was measured, as far as the pod's readiness shows."""
        if pod.ready is True and pod.ready_changed + RESOLUTION > measured:
            return False
        if pod.phase == "Succeeded":
            return True
        if self.started == "scheduled":
            return bool(pod.node)
        return pod.phase == "Running" and (self.started == "running" or pod.ready is True)


def _in_flight(jobs: Iterable[Job]) -> set[str]:
    return {job.uid for job in jobs if not job.result}


def _ended(jobs: Iterable[Job], measured: float) -> set[str]:
    """UIDs of Jobs that ended, or were deleted, after the queue was measured."""
    return {job.uid for job in jobs if job.ended and job.ended + RESOLUTION > measured}


class _Read(Struct, frozen=True):
    """One queue: the Jobs that it needs (None: not known), when it was measured, and the row of `explain`."""

    jobs: float | None
    at: float
    measure: Measure


def _read(queue: Queue, series: Series | None) -> _Read:
    if series is None or not series.usable:
        message = series.message if series is not None else "it was not read"
        unknown = f'the queue "{queue.series}" is not known: {message}'
        return _Read(None, 0.0, Measure(queue.series, reason="QueueUnknown", message=unknown))
    length = sum(max(0.0, sample.value) for sample in series.samples)
    jobs = length / queue.per_job if length > queue.activation else 0.0
    if not isfinite(jobs):
        jobs = float(MOST)
    count = min(ceil(jobs), MOST)
    at = min((sample.measured for sample in series.samples), default=series.measured)
    return _Read(jobs, at, Measure(queue.series, f"{length:g}", f"{queue.per_job:g} for a Job", count))


@hookimpl
def register_strategies() -> list[type[Strategy]]:
    return [Jobs]
