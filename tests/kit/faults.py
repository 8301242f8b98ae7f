"""Broken numbers to try decisions with: what a source may say instead of the truth, and a run in virtual time that
checks what must always hold."""

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

from elasticd.api import Bounds, Policy, Sample, Strategy
from elasticd.base.clock import VirtualClock
from elasticd.cluster.simulated import Simulated
from elasticd.journal import Journal
from elasticd.model.actions import Announce
from elasticd.model.listener import Notice
from elasticd.model.policy import Target
from elasticd.model.records import Decision, Outcome
from elasticd.model.workload import Readings
from elasticd.ports.source import Reader, Site, Source
from elasticd.runtime.loop import Loop
from elasticd.sources.poller import opened
from elasticd.telemetry.failure_log import FailureLog
from elasticd_plugins.hpa import Hpa

NAN, INF = math.nan, math.inf
WEB = "shop/Deployment/web"
LEAST, MOST = 2, 12
LOOK = 15.0
"""Seconds between two looks."""
BEGUN, ENDED = 420.0, 1020.0
"""When a fault begins and when it is over, in seconds: by then the HPA has let go of what was not needed at first."""
AGAIN = ENDED + 300 + 3 * LOOK
"""When all must be well again: a stabilization window and three looks after the end of a fault."""
OVER = AGAIN + 8 * LOOK
"""When a run is over."""

Fault = Callable[[Readings, float], Readings]
"""What a source says instead, at that time."""


def by_key(
    samples: Mapping[str, tuple[Sample, ...]], change: Callable[[Sample], Sample]
) -> dict[str, tuple[Sample, ...]]:
    return {key: tuple(change(sample) for sample in given) for key, given in samples.items()}


def each(change: Callable[[Sample, float], Sample]) -> Fault:
    """The fault of every sample."""

    def fault(said: Readings, now: float) -> Readings:
        pods = {name: by_key(given, lambda sample: change(sample, now)) for name, given in said.pods.items()}
        workloads = {name: by_key(given, lambda sample: change(sample, now)) for name, given in said.workloads.items()}
        return replace(said, pods=pods, workloads=workloads)

    return fault


def one(change: Callable[[Sample, float], Sample]) -> Fault:
    """The fault of the first pod's samples only."""

    def fault(said: Readings, now: float) -> Readings:
        pods = {}
        for name, given in said.pods.items():
            first = min(given)
            pods[name] = {**given, first: tuple(change(sample, now) for sample in given[first])}
        return replace(said, pods=pods)

    return fault


def most(change: Callable[[Sample, float], Sample]) -> Fault:
    """The fault of all pods' samples but the first one's."""

    def fault(said: Readings, now: float) -> Readings:
        every = each(change)(said, now).pods
        return replace(
            said, pods={name: {**given, min(given): said.pods[name][min(given)]} for name, given in every.items()}
        )

    return fault


def value(of: Any) -> Callable[[Sample, float], Sample]:
    return lambda sample, now: replace(sample, value=of)


def times(factor: float) -> Callable[[Sample, float], Sample]:
    return lambda sample, now: replace(sample, value=sample.value * factor)


def late(seconds: float) -> Callable[[Sample, float], Sample]:
    return lambda sample, now: replace(sample, measured=now - seconds)


def broken(said: Readings, now: float) -> Readings:
    raise ConnectionResetError("reset by peer")


def moved(said: Readings, now: float) -> Readings:
    """The right samples, of pods in another namespace."""
    return replace(said, pods={name: {f"other/{key}": of for key, of in given.items()} for name, given in said.pods.items()}, workloads={})  # fmt: skip  # noqa: E501


def emptied(said: Readings, now: float) -> Readings:
    """Its series are there, and nothing is in them."""
    return replace(said, pods={name: {} for name in said.pods}, workloads={name: {} for name in said.workloads})


UNKNOWN: dict[str, Fault] = {
    "NaN": each(value(NAN)),
    "+Inf": each(value(INF)),
    "-Inf": each(value(-INF)),
    "negative, as after a counter's reset": each(value(-0.4)),
    "ten minutes old": each(late(600)),
    "an hour ahead": each(late(-3600)),
    "an error": lambda said, now: Readings(said.source, now, error="503 Service Unavailable"),
    "no series": lambda said, now: Readings(said.source, now),
    "no sample": emptied,
    "another namespace": moved,
    "an exception": broken,
}  # fmt: skip
NONSENSE: dict[str, Fault] = {
    "text": each(value("many")),
    "nothing for a number": each(value(None)),
}
"""What no source may say; the daemon calls it a plugin that failed."""

INVALID = UNKNOWN["negative, as after a counter's reset"]
PARTLY: dict[str, Fault] = {
    "NaN of one pod": one(value(NAN)),
    "+Inf of one pod": one(value(INF)),
    "negative of one pod": one(value(-1.0)),
    "one pod ten minutes old": one(late(600)),
    "one pod an hour ahead": one(late(-3600)),
}
MOSTLY: dict[str, Fault] = {
    "NaN of all pods but one": most(value(NAN)),
    "all pods but one ten minutes old": most(late(600)),
}
ABSURD: dict[str, Fault] = {
    "1e308": each(value(1e308)),
    "1e308 of one pod": one(value(1e308)),
    "the largest double": each(value(1.7976931348623157e308)),
    "10,000 % of a node": each(value(6400.0)),
    "cores for thousandths": each(times(1000)),
}
MEAGRE: dict[str, Fault] = {
    "zero": each(value(0.0)),
    "the smallest double": each(value(5e-324)),
    "thousandths for cores": each(times(0.001)),
}


class Faulty(Source, frozen=True, kw_only=True, tag="faulty"):
    """What the cluster measures, spoiled. `fault` gives what happens at a time; None: nothing."""

    fault: Any
    series: tuple[str, ...] = ("cpu", "memory", "orders")

    def open(self, site: Site) -> AbstractAsyncContextManager[Reader]:
        return nullcontext(_Spoiled(self, site))


class Pushed(Faulty, frozen=True, kw_only=True, tag="pushed"):
    """The same, read at every look: its pace is not learnt from what it says."""

    pushes: ClassVar[bool] = True


class _Spoiled:
    def __init__(self, source: Faulty, site: Site) -> None:
        self._source, self._site = source, site

    async def read(self, now: float) -> Readings:
        said = await self._site.metrics.usage(now)
        mine = self._source.series
        said = Readings(
            self._source.label,
            now,
            {name: dict(said.pods[name]) for name in said.pods if name in mine},
            {name: dict(said.workloads[name]) for name in said.workloads if name in mine},
        )
        fault: Fault | None = self._source.fault(now)
        return said if fault is None else fault(said, now)


@dataclass
class Told:
    """A listener that keeps everything and checks what must always hold."""

    least: int = LEAST
    most: int = MOST
    made: list[Decision] = field(default_factory=list)
    scaled: list[tuple[float, int, int]] = field(default_factory=list)

    def on(self, record: Notice) -> None:
        if isinstance(record, Decision):
            assert self.least <= record.replicas <= self.most, record
            assert record.action is None or record.action.after == record.replicas
            self.made.append(record)
        elif isinstance(record, Outcome):
            self.acted(record)

    def acted(self, outcome: Outcome) -> None:
        """Take in the outcome of an action on a workload."""
        assert outcome.result == "done", outcome
        self.scaled.append((outcome.at, outcome.before, outcome.after))

    def counts(self, begin: float, end: float) -> set[int]:
        """The counts that were decided on in that time."""
        return {one.replicas for one in self.made if begin <= one.at < end}


def cluster(demand: str = "2", orders: str = "40", replicas: int = 8) -> Simulated:
    """Pods of half a core; at 50 % two cores are eight of them."""
    table: dict[str, Any] = {
        "type": "simulated",
        "nodes": [{"name": "n", "count": 2, "cpu": "64", "memory": "256Gi"}],
        "workloads": [
            {
                "name": "web",
                "namespace": "shop",
                "replicas": replicas,
                "cpu": "500m",
                "demand": {"formula": demand},
                "series": [{"name": "orders", "demand": {"formula": orders}}],
            }
        ],
    }
    return msgspec.convert(table, Simulated)


CPU = {"type": "Resource", "resource": "cpu", "utilization": 50}
ORDERS = {"type": "External", "series": "orders", "average_value": 10}


def hpa(*metrics: dict[str, Any], **options: Any) -> Hpa:
    return msgspec.convert({"type": "hpa", "metrics": metrics or [CPU], **options}, Hpa)


def policy(*strategies: Strategy, **changes: Any) -> Policy:
    fields: dict[str, Any] = {
        "name": "web",
        "replicas": Bounds(min=LEAST, max=MOST),
        "strategies": strategies or (hpa(),),
        "workload": Target("shop", "web"),
        "mode": "act",
        "interval": LOOK,
        "jitter": 0.0,
    }
    return Policy(**(fields | changes))


def between(fault: Fault) -> Callable[[float], Fault | None]:
    return lambda now: fault if BEGUN <= now < ENDED else None


@dataclass
class Run:
    """What a run has shown."""

    told: Told
    journal: Journal
    announced: list[Announce]


async def play(
    world: Simulated, governing: Policy, *sources: Source, seconds: float = OVER, told: Told | None = None
) -> Run:
    """A policy on a simulated cluster in virtual time, as elasticd.testing.simulate runs it."""
    clock, journal, found = VirtualClock(), Journal(), told or Told()
    built = world.build(clock)
    async with AsyncExitStack() as stack:
        loop = Loop(built, journal, clock, [found, FailureLog()], idle=math.inf)
        loop.set_sources(await stack.enter_async_context(opened(sources, loop.site)), wait=None)
        loop.apply([governing])
        await loop.tick(0.0)
        while clock.now() < seconds:
            await loop.step()
            await loop.actions.drain()
    return Run(found, journal, list(built.announcements))
