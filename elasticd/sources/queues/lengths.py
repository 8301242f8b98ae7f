"""What sources of queues share: a queue is the series of one workload, and all are asked at once.

Knows when a length is an answer; knows no server.
"""

from collections.abc import Awaitable, Callable, Sequence
from importlib.util import find_spec
from typing import Annotated, ClassVar, Generic, TypeVar

from msgspec import Meta, Struct

from elasticd.base.clock import Clock
from elasticd.model.workload import Readings, Sample
from elasticd.ports.source import SampleTable, Source
from elasticd.sources.rounds import PATIENCE, Rounds

AT_ONCE = 16
"""Queues that are asked for at one time."""

Workload = Annotated[
    str, Meta(max_length=512, pattern="^[^/]+/[^/]+/[^/]+$", description="NAMESPACE/KIND/NAME whose series it is")
]
SeriesName = Annotated[str, Meta(min_length=1, max_length=253, description="in policies")]


class Queue(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A queue, and the series that its length becomes."""

    name: SeriesName
    workload: Workload


class QueueSource(Source, frozen=True, kw_only=True):
    """A source of queues, each of which is the series of one workload."""

    complete: ClassVar[bool] = False
    """It knows the workloads whose queues are named."""

    series: Annotated[tuple[Queue, ...], Meta(min_length=1, description="queues, each the series of a workload")]

    def offers(self) -> tuple[str, ...]:
        return names_of(self.series)

    def offers_of_nodes(self) -> tuple[str, ...]:
        return ()


def names_of(queues: Sequence[Queue]) -> tuple[str, ...]:
    """The series that they are, each once."""
    return tuple(dict.fromkeys(queue.name for queue in queues))


def check_queues(queues: Sequence[Queue]) -> None:
    """Require that no workload has two queues of one series. Raises ValueError."""
    keys = [(queue.name, queue.workload) for queue in queues]
    for name, workload in keys:
        if keys.count((name, workload)) > 1:
            raise ValueError(f'series: must be given once for each name and workload, "{name}" of {workload} is twice')


def check_library(module: str, extra: str) -> None:
    """Require the library of an extra. Raises ValueError."""
    if find_spec(module) is None:
        raise ValueError(f"type: must be with {module}, which is not installed: pip install elasticd[{extra}]")


Q = TypeVar("Q", bound=Queue)


class Lengths(Generic[Q]):
    """The reader of an open source of queues. `ask` gives a queue's length, or raises Fault. A length may be `behind`
    so many seconds, and counts as measured then: so it says nothing of what happened since."""

    def __init__(
        self, label: str, queues: Sequence[Q], ask: Callable[[Q], Awaitable[float]], clock: Clock, behind: float = 0.0
    ) -> None:
        self._label, self._ask, self._clock, self._behind = label, ask, clock, behind
        self._queues = {f"{queue.name} of {queue.workload}": queue for queue in queues}
        self.rounds = Rounds(self._sample, clock, AT_ONCE, PATIENCE)
        self.describe, self.aclose = self.rounds.describe, self.rounds.aclose

    async def _sample(self, key: str) -> Sample:
        value = await self._ask(self._queues[key])
        now = self._clock.now()
        return Sample(value, now - self._behind, now)

    async def read(self, now: float) -> Readings:
        """The length of each queue, as of when its server gave it."""
        samples, silent = await self.rounds.round(self._queues, now)
        if silent and not samples:
            return Readings(self._label, now, error=next(iter(silent.values())))
        workloads: SampleTable = {queue.name: {} for queue in self._queues.values()}
        for key, sample in samples.items():
            workloads[self._queues[key].name][self._queues[key].workload] = (sample,)
        faults = {self._queues[key].name: f"{self._queues[key].workload}: {why}" for key, why in silent.items()}
        return Readings(self._label, now, workloads=workloads, faults=faults)
