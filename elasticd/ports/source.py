"""Where numbers come from: what every source can do, and what it may use of the daemon.

Knows the shape of a source; knows nothing of policies. Only a source knows a query, a topic or a path.
"""

from array import array
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

from msgspec import Meta, Struct

from elasticd.base.clock import Clock
from elasticd.model.policy import Seconds
from elasticd.model.workload import Readings, Ref
from elasticd.ports.cluster import Snapshot
from elasticd.ports.metrics_api import MetricsApi

JOURNAL = "journal"
"""What a source that is derived from the daemon's own journal says it derives from."""

Subject = Literal["pod", "workload", "node"]
"""What a sample is about: keyed "namespace/pod", "NAMESPACE/KIND/NAME" or the node's name."""


class Reader(Protocol):
    """A source that has been opened."""

    async def read(self, now: float) -> Readings:
        """All it knows now. Trouble is told in `Readings.error`, never raised."""


@runtime_checkable
class Describes(Protocol):
    """A reader that has more to say of itself, for `elasticd sources` and /sources."""

    def describe(self) -> Any:
        """Whatever JSON can hold: a record of a connection, of what was counted or refused."""


@runtime_checkable
class Counts(Protocol):
    """What a reader describes, where it has numbers that Prometheus should have too."""

    def counts(self) -> Mapping[str, int]:
        """Messages by what became of them, since the source was opened: they only grow."""


class TimeRange(NamedTuple):
    """A time of the past, ends included: seconds since the epoch, and how many seconds apart samples are wanted."""

    first: float
    last: float
    step: float


class Points(NamedTuple):
    """Samples of one subject, oldest first: times in seconds since the epoch, and values. Arrays of type d."""

    times: "array[float]"
    values: "array[float]"


class History(Protocol):
    """A source's past."""

    async def past(self, series: str, workloads: Collection[str], span: TimeRange) -> Mapping[str, Points]:
        """What it remembers of a series of workloads (NAMESPACE/KIND/NAME), for those of which there is something; or
        more of them. Raises UnavailableError, in one line, where it cannot be had."""


class Site(Struct, frozen=True):
    """What a source finds where it is opened.

    `wake` says that something new is known of a subject, so that who uses it is judged at once; a source that is only
    ever asked need not call it. `governed` are the workloads that policies are about, `snapshot` the cluster as last
    observed; None before that. `beside` are the sources that are opened there, by label; `journal` is the folder of the
    daemon's journal, None where it has none on disk.
    """

    metrics: MetricsApi
    clock: Clock
    wake: Callable[[Subject, str], None]
    governed: Callable[[], Collection[Ref]]
    snapshot: Callable[[], Snapshot | None]
    beside: "Mapping[str, Source]" = {}
    journal: Path | None = None


class Source(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """A source as written in TOML: its fields are its options.

    `every` is the shortest time between two reads, in seconds: policies that are due within it share one read.
    """

    pushes: ClassVar[bool] = False
    """Whether it learns of things by being told, so that reading it costs nothing and no read is too soon."""

    name: Annotated[str, Meta(max_length=63, description="in policies and reports; empty: its type")] = ""
    every: Annotated[float, Meta(ge=0, le=3600, description="seconds between reads, at least")] = 0.5
    resolution: Annotated[Seconds | None, Meta(description="of its renewals; left out: learnt from its timestamps")] = (
        None
    )

    complete: ClassVar[bool] = True
    """Whether it knows all that there is, so that what it leaves out can be taken for 0 where a policy says so; one
    that is told, or looks at some, knows only what it has heard."""

    usual: ClassVar[float | None] = None
    """Seconds between renewals as this kind of source usually comes, for advice; None: who knows."""

    usual_series: ClassVar[tuple[str, ...] | None] = None
    """What it usually has, for advice, where `offers` cannot say."""

    forecasts: ClassVar[bool] = False
    """Whether it makes forecasts."""

    remembers: ClassVar[bool] = False
    """Whether it has a past, so that others may be derived from it: `memory`."""

    @property
    def label(self) -> str:
        """What policies and reports call it."""
        return self.name or str(self.__struct_config__.tag)

    def offers(self) -> tuple[str, ...] | None:
        """The series it has, so that it is read only for those who want one of them; None: it cannot say."""
        return None

    def offers_of_nodes(self) -> tuple[str, ...] | None:
        """Which of them may be of nodes, for advice; None: it cannot say."""
        return self.offers()

    def draws(self) -> str | None:
        """The label of the source that it reads for itself; None: it stands alone."""
        return None

    def derives(self) -> str | None:
        """The label of the source of whose past it is made, JOURNAL for the daemon's own; None: it stands alone."""
        return None

    def memory(self, site: Site) -> AbstractAsyncContextManager[History]:
        """Its past, for as long as the daemon runs, if it `remembers`."""
        raise NotImplementedError

    def apart(self) -> "Source":
        """The same, opened for a moment beside a daemon that runs with it: it takes nothing from that one."""
        return self

    def examine(self) -> None:
        """Look at what only a person can mend, before anything is begun: a file that is not there, or not closed to
        others. Raises ConfigError, whose file and key may be left empty."""

    def open(self, site: Site) -> AbstractAsyncContextManager[Reader]:
        """Connect, for as long as the daemon runs. A source that is down is told in the readings, and never keeps the
        daemon from starting; what a person must mend (a file that is not there) raises ConfigError."""
        raise NotImplementedError
