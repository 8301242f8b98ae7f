"""The source usage-histogram: percentiles of what containers have used, from decaying histograms.

Knows when another source is read, and when the histograms are saved; usage_ledger.py knows histograms.
Knows nothing of what a container should request.
"""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, ClassVar

from msgspec import Meta

from elasticd.api import hookimpl
from elasticd.base.clock import VirtualClock
from elasticd.base.errors import ConfigError, nearest
from elasticd.base.files import regular
from elasticd.base.tasks import cancel
from elasticd.base.text import raised
from elasticd.kit.histograms import CPU_HALF_LIFE, MEMORY_HALF_LIFE, Weigh
from elasticd.model.workload import Pod, Readings
from elasticd.ports.source import Every, Reader, SampleTable, Site, Source
from elasticd.sources.usage_ledger import SERIES, Options, UsageLedger, write

logger = logging.getLogger(__name__)

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
    cpu_half_life: HalfLife = CPU_HALF_LIFE
    memory_half_life: HalfLife = MEMORY_HALF_LIFE
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
        half_life = {"cpu": options.cpu_half_life, "memory": options.memory_half_life}
        ledger_options = Options(
            half_life, options.memory_window, options.weigh, options.enough * 3600, options.history
        )
        self._ledger = UsageLedger(ledger_options)
        self._next, self._saved, self._early, self._trouble, self._file_trouble = 0.0, 0.0, 0, "", ""
        self._readings = Readings(options.label, 0.0, faults=dict.fromkeys(SERIES, "nothing was learnt yet"))

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
        if self._virtual:
            statistics, self._early = self._learn(pods, read, now)
        else:
            statistics, self._early = await asyncio.to_thread(self._learn, pods, read, now)
        self._trouble = f"{self._options.of}: {read.error}" if read.error else ""
        early = f"too early: {self._early} without {self._options.enough:g} h of samples"
        why = self._trouble or (early if self._early else "nothing was learnt yet")
        faults = {name: why for name, table in statistics.items() if not table or self._trouble}
        self._readings = Readings(self._options.label, now, workloads=statistics, faults=faults)

    def _learn(self, pods: Mapping[str, Sequence[Pod]], read: Readings, now: float) -> tuple[SampleTable, int]:
        """Learn from a reading. Runs in a thread, as it takes a tenth of a second for a thousand workloads."""
        with self._lock:
            for workload, members in pods.items():
                self._ledger.fold(workload, members, read.pods, now)
            self._ledger.retain({pod.uid for members in pods.values() for pod in members}, now)
            return self._ledger.say(now)

    def _write(self, path: Path, now: float) -> None:
        with self._lock:  # a round that was cancelled may still be learning
            body = self._ledger.save(now)
        write(path, body)

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


@hookimpl
def register_sources() -> Sequence[type[Source]]:
    return [UsageHistogram]
