"""What a run leaves: what each workload and node had at each step, and what was changed.

Records that are filled while a run is played. Knows nothing of how.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from math import nan
from typing import NamedTuple, TypeVar

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from elasticd.model.workload import Ref

K = TypeVar("K")
V = TypeVar("V")


class WorkloadTrack(Struct):
    """What one workload was asked for and had, an entry for each step.

    `demand` and `unserved` are means over the step, `peak` the highest demand in it, in cores; NaN: not known.
    `replicas` and `ready` are counts at its end: those that the workload should have, and the pods that serve. `short`
    is for how many seconds of it some demand was not served.
    """

    demand: list[float] = field(default_factory=list)
    peak: list[float] = field(default_factory=list)
    unserved: list[float] = field(default_factory=list)
    short: list[float] = field(default_factory=list)
    replicas: list[int] = field(default_factory=list)
    ready: list[int] = field(default_factory=list)
    requests: list[float] = field(default_factory=list)
    failed: list[float] = field(default_factory=list)
    """Requests of its service in the step, and those of them that failed; empty without a service."""
    waits: list[NDArray[np.float32]] = field(default_factory=list)
    """How long those that were served waited (lab/service.py)."""
    pod_requests: list[tuple[int, float]] = field(default_factory=list)
    """From which step on its pods with a node request so many cores each, on average: an entry where that changes."""
    lag: float = 0.0
    """The longest time without a break for which some demand was not served, in seconds."""
    lagging: float = 0.0
    """For how long that is so at the end."""


def share_equal(tracks: Iterable[WorkloadTrack]) -> None:
    """Let tracks that nobody adds to any more share the series in which they are equal, as demand is where it comes
    from one table: a run is sent from one process to another, and each series with it once."""
    known: dict[tuple[str, tuple[float, ...]], list[float]] = {}
    for track in tracks:
        for name in ("demand", "peak", "unserved", "short", "replicas", "ready"):
            series = getattr(track, name)
            setattr(track, name, known.setdefault((name, tuple(series)), series))


class ServingPod(NamedTuple):
    """The cores with which a pod serves demand, and the seconds from its creation until it does."""

    capacity: float
    start_seconds: float


class NodeTrack(Struct):
    """What one node had at the end of each step: pods, the cores that they request, those that they use, and the bytes
    of memory that they request; NaN while the node is gone. `cores` and `bytes` are what pods may request of it."""

    pods: list[int] = field(default_factory=list)
    requested: list[float] = field(default_factory=list)
    used: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    cores: float = nan
    bytes: float = nan


class JobTrack(Struct):
    """What one set of Jobs had at the end of each step: messages in its queue, and Jobs that have not ended."""

    queue: list[float] = field(default_factory=list)
    in_flight: list[int] = field(default_factory=list)


class Change(Struct, frozen=True):
    """A count that was changed. `why`: what the decision says that caused it, on one line."""

    at: float
    before: int
    after: int
    why: str = ""


class Run(Struct):
    """What policies did on a cluster from `begun` on, in steps of `step` seconds; and what they held, by reason."""

    begun: float
    step: float
    workloads: dict[Ref, WorkloadTrack] = field(default_factory=dict)
    nodes: dict[str, NodeTrack] = field(default_factory=dict)
    changes: dict[Ref, list[Change]] = field(default_factory=dict)
    evicted: list[Ref] = field(default_factory=list)
    """Pods, as often as each was evicted."""
    evictions: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    """At the end of each step: the evictions so far, and the pods that have no node."""
    jobs: dict[Ref, JobTrack] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    """Decisions in which a plugin failed, by what it said."""

    @property
    def steps(self) -> int:
        """How many steps were played."""
        return max((len(track.demand) for track in self.workloads.values()), default=len(self.waiting))

    @property
    def times(self) -> list[float]:
        """The end of each step."""
        return [self.begun + self.step * (number + 1) for number in range(self.steps)]

    def since(self, at: float) -> "Run":
        """The part of the run from this time on, in whole steps. The longest shortage is not known of a part."""
        return self._part(slice(round((at - self.begun) / self.step), self.steps))

    def until(self, at: float) -> "Run":
        """The part of the run up to this time, likewise."""
        return self._part(slice(0, round((at - self.begun) / self.step)))

    def _part(self, steps: slice) -> "Run":
        begun, ended = self.begun + steps.start * self.step, self.begun + steps.stop * self.step
        tracks = {
            ref: WorkloadTrack(
                track.demand[steps],
                track.peak[steps],
                track.unserved[steps],
                track.short[steps],
                track.replicas[steps],
                track.ready[steps],
                track.requests[steps],
                track.failed[steps],
                track.waits[steps],
                lag=nan,
            )
            for ref, track in self.workloads.items()
        }
        last = self.begun + self.steps * self.step
        changes = {
            ref: [change for change in made if begun <= change.at and (change.at < ended or ended >= last)]
            for ref, made in self.changes.items()
        }
        return Run(begun, self.step, tracks, changes=changes, failures=self.failures)


def joined(parts: Sequence[Run]) -> Run:
    """The run of a cluster whose parts were played each by itself; what has an order is in that of the whole."""
    first, *others = parts
    if not others:
        return first
    whole = Run(first.begun, first.step)
    whole.workloads = _in_turn([part.workloads for part in parts])
    whole.nodes = _in_turn([part.nodes for part in parts])
    whole.evictions = [sum(counts) for counts in zip(*(part.evictions for part in parts), strict=True)]
    whole.waiting = [sum(counts) for counts in zip(*(part.waiting for part in parts), strict=True)]
    for part in parts:
        whole.changes.update(part.changes)
        whole.evicted += part.evicted
        whole.jobs.update(part.jobs)
        for what, count in part.failures.items():
            whole.failures[what] = whole.failures.get(what, 0) + count
    return whole


def _in_turn(tracks: Sequence[Mapping[K, V]]) -> dict[K, V]:
    """The first of each, then the second of each, and so on."""
    rows = zip_longest(*[track.items() for track in tracks])
    return dict(item for row in rows for item in row if item is not None)


Runs = Mapping[str, Sequence[Run]]
"""By what was tried, a run for each seed."""
