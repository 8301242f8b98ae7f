"""The source usage-histogram: percentiles of what containers have used, from decaying histograms.

Knows when another source is read, how samples of its pods become histograms of workloads, and the file that keeps these
over restarts. Knows nothing of what a container should request.
"""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta, Struct

from elasticd.api import hookimpl
from elasticd.base.clock import VirtualClock
from elasticd.base.errors import UNREADABLE, ConfigError, nearest
from elasticd.base.files import regular, replacing
from elasticd.base.tasks import cancel
from elasticd.base.text import raised
from elasticd.kit import histograms
from elasticd.kit.histograms import Content, Histogram, Weigh
from elasticd.model.workload import Node, Pod, Readings, Sample
from elasticd.ports.source import Every, Reader, SampleTable, Site, Source

logger = logging.getLogger(__name__)

RESOURCES = ("cpu", "memory")
SERIES = tuple(f"{resource}_{statistic}" for resource in RESOURCES for statistic in histograms.STATISTICS)
OLD, EARLY = 300.0, 60.0
"""Seconds: a sample that is older is of no use, nor one that is from further in the future."""

Key = tuple[str, str, str]
"""Workload (NAMESPACE/KIND/NAME), container and resource."""

LOOK = 1.0
"""Seconds between checks whether a round is due."""

HalfLife = Annotated[float, Meta(ge=60, le=31536000, description="seconds in which what a sample counts halves")]


class UsageHistogram(Source, frozen=True, kw_only=True, tag="usage-histogram"):
    """What containers of the governed workloads have used of cpu and memory, as series cpu_p95, memory_max and so on:
    mean, p50, p60, p90, p95, p98, p99, max, intermediate, lower and upper.

    Learnt from another source's samples, in histograms that decay; the strategy vertical reads it.
    Sources: Autopilot (EuroSys 2020) 3.2; the Vertical Pod Autoscaler's recommender.
    """

    pushes: ClassVar[bool] = True
    complete: ClassVar[bool] = False

    of: Annotated[str, Meta(min_length=1, description="name of the source whose cpu and memory of pods are learnt")] = (
        "resource-metrics"
    )
    each: Annotated[float, Meta(ge=1, le=3600, description="seconds between looks at that source")] = 60.0
    cpu_half_life: HalfLife = histograms.CPU_HALF_LIFE
    memory_half_life: HalfLife = histograms.MEMORY_HALF_LIFE
    memory_window: Annotated[
        float, Meta(ge=1, le=86400, description="seconds of which only the peak of memory counts")
    ] = 300.0
    weigh: Annotated[Weigh, Meta(description="percentiles of load (Autopilot) or of time (VPA)")] = "load"
    enough: Annotated[float, Meta(ge=0, le=8760, description="hours of samples before anything is said")] = 12.0
    history: Annotated[float, Meta(ge=1, le=366, description="days for which peaks and what is gone is kept")] = 8.0
    file: Annotated[str, Meta(description="where it is kept over a restart; empty: nowhere")] = ""
    save: Annotated[float, Meta(ge=1, le=86400, description="seconds between writes of the file")] = 600.0
    every: Every = 0.0

    def __post_init__(self) -> None:
        if self.of == self.label:
            raise ValueError(f'of: must be another source, is "{self.of}"')
        if self.enough > self.history * 24:
            raise ValueError(f"enough: must be <= history = {self.history * 24:g} hours, is {self.enough:g}")

    def offers(self) -> tuple[str, ...]:
        return SERIES

    def offers_of_nodes(self) -> tuple[str, ...]:
        return ()

    def draws(self) -> str:
        return self.of

    @asynccontextmanager
    async def open(self, site: Site) -> AsyncIterator[Reader]:
        """Load the histograms, open the other source, and run rounds (in virtual time by reads); save at the end."""
        source = site.beside.get(self.of)
        if source is None:
            raise ConfigError("", "of", f'must be another source, is "{self.of}"{nearest(self.of, site.beside)}')
        async with source.open(site) as reader:
            virtual = isinstance(site.clock, VirtualClock)
            keeper = _Keeper(self, reader, site, virtual=virtual)
            await keeper.begin()
            rounds = None if virtual else asyncio.create_task(keeper.run(), name=f"learn {self.label}")
            try:
                yield keeper
            finally:
                if rounds is not None:
                    await cancel(rounds)
                await keeper.save(site.clock.now())


def _read(path: Path) -> bytes:
    with open(path, "rb", opener=regular) as file:
        return file.read()


class _Keeper:
    """The reader, and its rounds: read the other source, learn its samples, compute the statistics, sometimes save."""

    def __init__(self, options: UsageHistogram, reader: Reader, site: Site, *, virtual: bool) -> None:
        self._options, self._reader, self._site, self._virtual = options, reader, site, virtual
        self._lock = threading.Lock()
        self._path = Path(options.file) if options.file else None
        self._ledger = UsageLedger(options)
        self._next, self._saved, self._early, self._trouble, self._file_trouble = 0.0, 0.0, 0, "", ""
        self._fed = site.clock.now()
        """When a round last had new samples, or no pod to have any of."""
        faults = dict.fromkeys(SERIES, "nothing was learnt yet")
        self._readings = Readings(options.label, 0.0, faults=faults, learning=True)

    async def begin(self) -> None:
        """Load the saved histograms. A damaged file is reported and set aside, and learning starts from nothing."""
        self._saved = self._site.clock.now()
        if self._path is None:
            return
        try:
            self._ledger.load(await asyncio.to_thread(_read, self._path))
        except FileNotFoundError:
            return
        except OSError as error:
            self._file_trouble = f"{self._path}: must be readable, is not: {error.strerror}"
        except ValueError as error:
            self._file_trouble = f"{self._path}: {error}; it was set aside, and learning starts over"
            await asyncio.to_thread(self._path.replace, self._path.with_name(f"{self._path.name}.damaged"))
        if self._file_trouble:
            logger.warning("source %s: %s", self._options.label, self._file_trouble)

    async def read(self, now: float) -> Readings:
        """The statistics, as of the last round."""
        if self._virtual and now >= self._next:
            await self._round(now)
        return self._readings

    async def run(self) -> None:
        """A round whenever one is due, until cancelled."""
        clock = self._site.clock
        while True:
            now = clock.now()
            try:
                if now >= self._next:
                    await self._round(now)
                if now - self._saved >= self._options.save:
                    await self.save(now)
            except Exception as error:  # an error of ours must not end the learning, nor go unseen
                self._readings = Readings(self._options.label, now, error=raised(error))
                logger.warning("source %s: %s", self._options.label, raised(error))
            await clock.sleep_until(clock.now() + LOOK)

    async def _round(self, now: float) -> None:
        """Read and learn. Whatever goes wrong is reported in the readings."""
        snapshot = self._site.snapshot()
        if snapshot is None:
            return
        self._next = now + self._options.each
        try:
            read = await self._reader.read(now)
        except Exception as error:
            read = Readings(self._options.of, now, error=raised(error))
        workloads = [(ref, snapshot.workload(ref)) for ref in sorted(self._site.governed())]
        pods = {str(ref): snapshot.pods(workload) if workload else () for ref, workload in workloads}
        nodes = {node.name: node for node in snapshot.nodes()}
        if self._virtual:
            statistics, self._early = self._learn(pods, nodes, read, now)
        else:
            statistics, self._early = await asyncio.to_thread(self._learn, pods, nodes, read, now)
        self._trouble = f"{self._options.of}: {read.error}" if read.error else ""
        why = self._trouble or self._why_silent(now)
        faults = {name: why for name, table in statistics.items() if not table or self._trouble}
        for resource, text in self._ledger.impossible.items():
            for name in (f"{resource}_{statistic}" for statistic in histograms.STATISTICS):
                faults[name] = "; ".join(filter(None, (faults.get(name), f"{self._options.of}: {text}")))
        young = bool(self._early) or not len(self._ledger)
        learning = young and not (self._trouble or self._ledger.impossible or self._starves(now))
        self._readings = Readings(self._options.label, now, workloads=statistics, faults=faults, learning=learning)

    def _starves(self, now: float) -> bool:
        """Whether pods run and no sample of them has come for long: then waiting for more is of no use."""
        return now - self._fed > max(OLD, 2 * self._options.each)

    def _why_silent(self, now: float) -> str:
        """Why a statistic has no sample though the other source answers."""
        if self._starves(now):
            return f"{self._options.of}: no sample of a governed pod for {now - self._fed:.0f} s"
        if self._early:
            return f"too early: {self._early} without {self._options.enough:g} h of samples"
        return "nothing was learnt yet"

    def _learn(
        self, pods: Mapping[str, Sequence[Pod]], nodes: Mapping[str, Node], read: Readings, now: float
    ) -> tuple[SampleTable, int]:
        """Learn from a reading. Runs in a thread, as it takes a tenth of a second for a thousand workloads."""
        with self._lock:
            self._ledger.impossible.clear()
            new = [self._ledger.fold(workload, members, read.pods, now, nodes) for workload, members in pods.items()]
            if any(new) or not any(map(_can_be_measured, chain.from_iterable(pods.values()))):
                self._fed = now
            self._ledger.retain({pod.uid for members in pods.values() for pod in members}, now)
            return self._ledger.say(now)

    def _write(self, path: Path, now: float) -> None:
        with self._lock:  # a round that was cancelled may still be learning
            body = self._ledger.save(now)
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, "wb") as file:
            file.write(body)

    async def save(self, now: float) -> None:
        """Save the histograms. A failing disk is logged once; data is lost only if the daemon restarts meanwhile."""
        self._saved = now
        if self._path is None or not len(self._ledger):
            return
        try:
            await asyncio.to_thread(self._write, self._path, now)
            self._file_trouble = ""
        except OSError as error:
            problem = f"{self._path}: must be writable, is not: {error.strerror}"
            if problem != self._file_trouble:
                logger.warning("source %s: %s", self._options.label, problem)
            self._file_trouble = problem

    def describe(self) -> object:
        """For the status page: how much is known, how much of it is too young, and what is wrong."""
        return {
            "histograms": len(self._ledger),
            "too_young": self._early,
            "reads": self._trouble or "ok",
            "file": self._file_trouble or str(self._path or "none"),
        }


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


_NO_NODES: Mapping[str, Node] = {}

_VERSION = 1
_BUCKETS = (len(histograms.CPU_BOUNDS), len(histograms.MEMORY_BOUNDS))
_decode = msgspec.json.Decoder(Checkpoint).decode


class _Peak(Struct):
    """The highest memory of one container of one pod in the window that lasts."""

    window: int
    value: float
    at: float


class UsageLedger:
    """The histograms, by workload, container and resource."""

    def __init__(self, options: UsageHistogram) -> None:
        self._options = options
        self._histograms: dict[Key, Histogram] = {}
        self._measured: dict[tuple[str, str, str], float] = {}
        """By pod's uid, container and resource, when the last sample was measured."""
        self._peaks: dict[tuple[str, str], _Peak] = {}
        self._killed: dict[tuple[str, str], float] = {}
        self.impossible: dict[str, str] = {}
        """By resource, the last sample that was left out as more than its node has, in words."""

    def __len__(self) -> int:
        return len(self._histograms)

    def fold(
        self,
        workload: str,
        pods: Iterable[Pod],
        use: Mapping[str, Mapping[str, Sequence[Sample]]],
        now: float,
        nodes: Mapping[str, Node] = _NO_NODES,
    ) -> int:
        """Add what pods use, by series and "namespace/pod", each measurement once. Returns how many were new. What is
        more than a pod's node has, of those that are known, is no measurement."""
        new = 0
        for pod in pods:
            if not _can_be_measured(pod):
                continue
            for resource in RESOURCES:
                for sample in use.get(resource, {}).get(f"{pod.namespace}/{pod.name}", ()):
                    container = _container_of(sample, pod)
                    if not container or not self._is_new(pod.uid, container, resource, sample, now):
                        continue
                    node = nodes.get(pod.node)
                    if node is not None and not node.can_serve(resource, sample.value):
                        use_of = f"{sample.value:g} of {pod.namespace}/{pod.name}/{container}"
                        self.impossible[resource] = f"{resource}: {use_of} is left out, its node {node.name} has less"
                    else:
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
        window, previous = int(at // self._options.memory_window), self._peaks.get(key)
        if previous is not None and previous.window == window:
            if value <= previous.value:
                return
            histogram.take(previous.value, previous.at)
        self._peaks[key] = _Peak(window, value, at)
        histogram.add(value, at)

    def _note_kills(self, workload: str, pod: Pod) -> None:
        """Record OOM kills: a killed container needed more memory than it had."""
        for container, at in pod.killed.items():
            key = (pod.uid, container)
            if at <= self._killed.get(key, 0.0):
                continue
            self._killed[key] = at
            sizes = [spec.requests.get("memory", 0.0) for spec in pod.containers if spec.name == container]
            sizes += [self._peaks[key].value] if key in self._peaks else []
            histogram = self._histogram((workload, container, "memory"))
            if at > histogram.content.last - histograms.DAY:  # not a kill that a checkpoint has already counted
                self._add_peak(histogram, key, histograms.after_kill(max(sizes, default=0.0)), at)

    def _histogram(self, key: Key) -> Histogram:
        histogram = self._histograms.get(key)
        if histogram is None:
            histogram = self._histograms[key] = self._new_histogram(key, None)
        return histogram

    def _new_histogram(self, key: Key, content: Content | None) -> Histogram:
        if key[2] == "cpu":
            return Histogram(histograms.CPU_BOUNDS, self._options.cpu_half_life, content)
        return Histogram(histograms.MEMORY_BOUNDS, self._options.memory_half_life, content)

    def retain(self, uids: Collection[str], now: float) -> None:
        """Forget pods that are gone, and histograms without a sample within the history."""
        self._measured = {key: at for key, at in self._measured.items() if key[0] in uids}
        self._peaks = {key: peak for key, peak in self._peaks.items() if key[0] in uids}
        self._killed = {key: at for key, at in self._killed.items() if key[0] in uids}
        before = now - self._options.history * histograms.DAY
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
            if content.last - content.first < self._options.enough * 3600:
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


def _can_be_measured(pod: Pod) -> bool:
    return pod.phase == "Running" and not pod.deleted


def _container_of(sample: Sample, pod: Pod) -> str:
    """The container of a sample; empty if a pod of several containers has it as a whole."""
    if sample.container:
        return sample.container
    return pod.containers[0].name if len(pod.containers) == 1 else ""


@hookimpl
def register_sources() -> Sequence[type[Source]]:
    return [UsageHistogram]
