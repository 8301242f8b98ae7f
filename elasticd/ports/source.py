"""The port for sources of samples: what every source can do, and what it may use of the daemon.

Knows the shape of a source; knows nothing of policies. Only a source knows a query, a topic or a path.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from math import inf
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

from msgspec import Meta, Struct

from elasticd.base.clock import Clock
from elasticd.model.policy import Seconds
from elasticd.model.workload import Readings, Ref, Sample
from elasticd.ports.cluster import Snapshot
from elasticd.ports.metrics_api import MetricsApi

JOURNAL = "journal"
"""The name that `derives` gives for the daemon's own journal."""

Subject = Literal["pod", "workload", "node"]
"""What a sample is about; its key is "namespace/pod", "NAMESPACE/KIND/NAME" or the node's name."""


SampleTable = dict[str, dict[str, tuple[Sample, ...]]]
"""Samples by series and subject."""

Every = Annotated[float, Meta(ge=0, le=3600, description="seconds between reads, at least")]


class Reader(Protocol):
    """A source that has been opened."""

    async def read(self, now: float) -> Readings:
        """All its samples now. Trouble is in `Readings.error`, never raised."""


@runtime_checkable
class Describes(Protocol):
    """A reader that describes itself, for `elasticd sources` and /sources."""

    def describe(self) -> Any:
        """Anything that JSON can express: the state of a connection, counts, refusals."""


@runtime_checkable
class Counts(Protocol):
    """A description with counts that Prometheus should have too."""

    def counts(self) -> Mapping[str, int]:
        """Counts of messages by their result, since the source was opened: they only grow."""


class TimeRange(NamedTuple):
    """A range of past time, ends included, in seconds since the epoch; `step` is the seconds between samples."""

    first: float
    last: float
    step: float


class Points(NamedTuple):
    """Samples of one subject, oldest first: times in seconds since the epoch, and values. Arrays of type d."""

    times: "array[float]"
    values: "array[float]"

    def add(self, time: float, value: float) -> None:
        """Append a sample, unless it is no newer than the last."""
        if not self.times or time > self.times[-1]:
            self.times.append(time)
            self.values.append(value)

    def within(self, first: float, last: float = inf) -> "Points":
        """Those between two times, ends included."""
        start, end = bisect_left(self.times, first), bisect_right(self.times, last)
        return self if end - start == len(self.times) else Points(self.times[start:end], self.values[start:end])


class History(Protocol):
    """A source's history of samples."""

    async def past(self, series: str, workloads: Collection[str], span: TimeRange) -> Mapping[str, Points]:
        """The samples of a series, by workload (NAMESPACE/KIND/NAME). Workloads without samples are left out, and
        others may be added. Raises UnavailableError, in one line, where the history cannot be read."""


class Site(Struct, frozen=True):
    """What a source may use of the daemon that opens it.

    `wake` says that there is news of a subject, so that its workloads are judged at once; a source that is only polled
    need not call it. `governed` gives the workloads that policies govern, `snapshot` the cluster as last observed; None
    before that. `beside` are the other open sources, by label; `journal` is the folder of the daemon's journal, None
    where it has none on disk. `since` tells since when the daemon has led, and run without a pause: it
    read no source before, so that nobody here knows what became of a server then; minus infinity where nobody leads.
    """

    metrics: MetricsApi
    clock: Clock
    wake: Callable[[Subject, str], None]
    governed: Callable[[], Collection[Ref]]
    snapshot: Callable[[], Snapshot | None]
    beside: "Mapping[str, Source]" = {}
    journal: Path | None = None
    since: Callable[[], float] = lambda: -inf


class Source(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """A source as written in TOML: its fields are its options.

    `every` is the least time between two reads, in seconds: policies that are due within it share one read.
    """

    pushes: ClassVar[bool] = False
    """Whether samples are pushed to it, so that a read costs nothing and none is too early."""

    name: Annotated[str, Meta(max_length=63, description="in policies and reports; empty: its type")] = ""
    every: Every = 0.5
    resolution: Annotated[Seconds | None, Meta(description="of its renewals; left out: learnt from its timestamps")] = (
        None
    )

    complete: ClassVar[bool] = True
    """Whether it knows all subjects, so that a policy may take what it leaves out for 0. A source to which samples are
    pushed, or that watches only some subjects, does not."""

    usual: ClassVar[float | None] = None
    """Seconds between updates that are usual for this kind of source, for advice; None: not known."""

    usual_series: ClassVar[tuple[str, ...] | None] = None
    """The series that it usually has, for advice, where `offers` cannot say."""

    forecasts: ClassVar[bool] = False
    """Whether it makes forecasts."""

    remembers: ClassVar[bool] = False
    """Whether it has a history (`memory`), so that other sources may be derived from it."""

    @property
    def label(self) -> str:
        """The name by which policies and reports call it."""
        return self.name or str(self.__struct_config__.tag)

    def offers(self) -> tuple[str, ...] | None:
        """The series that it has, so that it is read only for policies that want one of them; None: it cannot say."""
        return None

    def offers_of_nodes(self) -> tuple[str, ...] | None:
        """The series that may be of nodes, for advice; None: it cannot say."""
        return self.offers()

    def draws(self) -> str | None:
        """The label of another source that it reads; None: it reads none."""
        return None

    def derives(self) -> str | None:
        """The label of the source whose history it uses, JOURNAL for the daemon's own; None: it uses none."""
        return None

    def memory(self, site: Site) -> AbstractAsyncContextManager[History]:
        """Open its history, for as long as the daemon runs, if it `remembers`."""
        raise NotImplementedError

    def apart(self) -> "Source":
        """A variant that can be opened for a moment beside a running daemon, without taking messages from it."""
        return self

    def examine(self) -> None:
        """Check before the start what only a person can put right: a file that is missing, or readable by others.
        Raises ConfigError, whose file and key may be left empty."""

    def open(self, site: Site) -> AbstractAsyncContextManager[Reader]:
        """Connect, for as long as the daemon runs. A source that is down says so in its readings, and never keeps the
        daemon from starting; what a person must put right (a missing file) raises ConfigError."""
        raise NotImplementedError
