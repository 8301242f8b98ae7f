"""Histograms of what every container of the governed workloads has used, kept over restarts in a file.

Knows how samples of pods become histograms of workloads, and their file; knows nothing of where samples come from.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import isfinite
from pathlib import Path

import msgspec
from msgspec import Struct

from elasticd.base.errors import UNREADABLE
from elasticd.base.files import replacing
from elasticd.kit.histograms import CPU_BOUNDS, DAY, MEMORY_BOUNDS, STATISTICS, Content, Histogram, Weigh, after_kill
from elasticd.model.workload import Pod, Sample
from elasticd.ports.source import SampleTable

RESOURCES = ("cpu", "memory")
SERIES = tuple(f"{resource}_{statistic}" for resource in RESOURCES for statistic in STATISTICS)
OLD, EARLY = 300.0, 60.0
"""Seconds: a sample that is older is of no use, nor one that is from further in the future."""

Key = tuple[str, str, str]
"""Workload (NAMESPACE/KIND/NAME), container and resource."""


class Options(Struct, frozen=True):
    """How histograms are kept: half-lives and the window of memory's peaks in seconds, the history in days."""

    half_life: Mapping[str, float]
    window: float
    weigh: Weigh
    enough: float
    """Seconds between the first and the last sample before anything is said."""
    history: float


class Entry(Struct):
    """One histogram on disk."""

    key: Key
    content: Content


class Checkpoint(Struct):
    """All of them. `buckets` counts them, so that a file of another division is not taken for one of this."""

    version: int
    at: float
    buckets: tuple[int, int]
    entries: list[Entry]


_VERSION = 1
_BUCKETS = (len(CPU_BOUNDS), len(MEMORY_BOUNDS))
_decode = msgspec.json.Decoder(Checkpoint).decode


class _Peak(Struct):
    """The highest memory of one container of one pod in the window that lasts."""

    window: int
    value: float
    at: float


class UsageLedger:
    """The histograms, by workload, container and resource."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._histograms: dict[Key, Histogram] = {}
        self._measured: dict[tuple[str, str, str], float] = {}
        """By pod's uid, container and resource, when the last sample was measured."""
        self._peaks: dict[tuple[str, str], _Peak] = {}
        self._killed: dict[tuple[str, str], float] = {}

    def __len__(self) -> int:
        return len(self._histograms)

    def fold(
        self, workload: str, pods: Iterable[Pod], use: Mapping[str, Mapping[str, Sequence[Sample]]], now: float
    ) -> int:
        """Add what pods use, by series and "namespace/pod", each measurement once. Returns how many were new."""
        new = 0
        for pod in pods:
            if pod.phase != "Running" or pod.deleted:
                continue
            for resource in RESOURCES:
                for sample in use.get(resource, {}).get(f"{pod.namespace}/{pod.name}", ()):
                    container = _container_of(sample, pod)
                    if container and self._is_new(pod.uid, container, resource, sample, now):
                        self._take(workload, pod, container, resource, sample)
                        new += 1
            self._note_kills(workload, pod)
        return new

    def _is_new(self, uid: str, container: str, resource: str, sample: Sample, now: float) -> bool:
        key, measured = (uid, container, resource), sample.measured
        if not isfinite(sample.value) or sample.value < 0 or not now - OLD <= measured <= now + EARLY:
            return False
        if measured <= self._measured.get(key, 0.0):
            return False
        self._measured[key] = measured
        return True

    def _take(self, workload: str, pod: Pod, container: str, resource: str, sample: Sample) -> None:
        histogram = self._histogram((workload, container, resource))
        if resource == "cpu":
            histogram.add(sample.value, sample.measured)
        else:
            self._add_peak(histogram, (pod.uid, container), sample.value, sample.measured)

    def _add_peak(self, histogram: Histogram, key: tuple[str, str], value: float, at: float) -> None:
        """Add memory, of which only the peak of each window counts: a lower value in between saves no container."""
        window, previous = int(at // self._options.window), self._peaks.get(key)
        if previous is not None and previous.window == window:
            if value <= previous.value:
                return
            histogram.take(previous.value, previous.at)
        self._peaks[key] = _Peak(window, value, at)
        histogram.add(value, at)

    def _note_kills(self, workload: str, pod: Pod) -> None:
        """Record OOM kills: a killed container needed more memory than it had."""
        for container, at in pod.killed.items():
            if at <= self._killed.get((pod.uid, container), 0.0):
                continue
            self._killed[pod.uid, container] = at
            requested = next(
                (spec.requests.get("memory", 0.0) for spec in pod.containers if spec.name == container), 0.0
            )
            peak = self._peaks.get((pod.uid, container))
            histogram = self._histogram((workload, container, "memory"))
            if at > histogram.content.last - DAY:  # not a kill that a checkpoint has already counted
                self._add_peak(
                    histogram, (pod.uid, container), after_kill(max(requested, peak.value if peak else 0.0)), at
                )

    def _histogram(self, key: Key) -> Histogram:
        histogram = self._histograms.get(key)
        if histogram is None:
            histogram = self._histograms[key] = self._new_histogram(key, None)
        return histogram

    def _new_histogram(self, key: Key, content: Content | None) -> Histogram:
        bounds = CPU_BOUNDS if key[2] == "cpu" else MEMORY_BOUNDS
        return Histogram(bounds, self._options.half_life[key[2]], content)

    def retain(self, uids: Collection[str], now: float) -> None:
        """Forget pods that are gone, and histograms without a sample within the history."""
        self._measured = {key: at for key, at in self._measured.items() if key[0] in uids}
        self._peaks = {key: peak for key, peak in self._peaks.items() if key[0] in uids}
        self._killed = {key: at for key, at in self._killed.items() if key[0] in uids}
        before = now - self._options.history * DAY
        self._histograms = {
            key: histogram for key, histogram in self._histograms.items() if histogram.content.last > before
        }
        for histogram in self._histograms.values():
            histogram.forget(before)

    def say(self, received: float) -> tuple[SampleTable, int]:
        """Every statistic as a sample for each container of a workload, by series and workload; and how many histograms
        are too young for that. A sample is as old as the newest that went in."""
        by_series: SampleTable = {name: {} for name in SERIES}
        early = 0
        for (workload, container, resource), histogram in self._histograms.items():
            content = histogram.content
            if content.last - content.first < self._options.enough:
                early += 1
                continue
            for name, value in histogram.statistics(self._options.weigh).items():
                table = by_series[f"{resource}_{name}"]
                sample = Sample(value, content.last, received, 0.0, "", container)
                table[workload] = (*table.get(workload, ()), sample)
        return by_series, early

    def save(self, now: float) -> bytes:
        """All histograms, encoded for `load`."""
        entries = [Entry(key, histogram.content) for key, histogram in self._histograms.items()]
        return msgspec.json.encode(Checkpoint(_VERSION, now, _BUCKETS, entries))

    def load(self, body: bytes) -> None:
        """Replace the histograms by saved ones, or raise ValueError, in one line, for what is no checkpoint."""
        try:
            checkpoint = _decode(body)
        except UNREADABLE as error:
            raise ValueError(f"is no checkpoint: {error}") from None
        if (checkpoint.version, checkpoint.buckets) != (_VERSION, _BUCKETS):
            raise ValueError(f"must be of version {_VERSION}, is of {checkpoint.version}, or has other buckets")
        for entry in checkpoint.entries:
            weights, buckets = entry.content.weights, _BUCKETS[entry.key[2] != "cpu"]
            if entry.key[2] not in RESOURCES or any(
                not 0 <= key < buckets or value < 0 for key, value in weights.items()
            ):
                raise ValueError(f"is no checkpoint: {'/'.join(entry.key)} has a bucket that there is not")
        self._histograms = {entry.key: self._new_histogram(entry.key, entry.content) for entry in checkpoint.entries}


def _container_of(sample: Sample, pod: Pod) -> str:
    """The container of a sample; empty if a pod of several containers has it as a whole."""
    if sample.container:
        return sample.container
    return pod.containers[0].name if len(pod.containers) == 1 else ""


def write(path: Path, body: bytes) -> None:
    """Replace a file atomically. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, "wb") as file:
        file.write(body)
