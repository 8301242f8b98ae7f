"""A cluster for tests of what asks it: it answers what the test says, and remembers what it was asked.

Knows the Cluster protocol; knows nothing of who asks.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from math import inf

from elasticd.model.actions import Action, Answer
from elasticd.model.moves import Promise, Underway
from elasticd.model.placement import DisruptionBudget
from elasticd.model.volumes import Storage
from elasticd.model.workload import Node, Pod, Readings, Ref, Room, Workload
from elasticd.ports.cluster import Kind, Snapshot, View
from elasticd.ports.metrics_api import Followed, MetricQuery, Part, Pull


class Following:
    """Something that is followed, and may be told to have a problem."""

    problem = ""


class Unasked:
    """All that a cluster says of metrics when nobody asks it for any."""

    async def usage(self, now: float) -> Readings:
        return Readings("cluster", now)

    async def node_usage(self, now: float) -> Readings:
        return Readings("cluster", now)

    async def metrics(self, queries: Sequence[MetricQuery], now: float) -> Readings:
        return Readings("cluster", now)

    async def summary(self, node: str, now: float, part: Part, within: float) -> Readings:
        return Readings("cluster", now)

    def pulls(self, take: Callable[[Pull], None]) -> AbstractAsyncContextManager[Followed]:
        return nullcontext(Following())

    def on_change(self, callback: Callable[[], None]) -> None:
        """Nothing happens here unseen."""


class Alone:
    """All that a snapshot says of nodes' rooms and of other autoscalers when there are none."""

    def rooms(self) -> tuple[Room, ...]:
        return ()

    nodes_confirmed = inf

    def autoscaler(self, ref: Ref) -> str:
        return ""

    def pending(self) -> tuple[Pod, ...]:
        return ()

    def on_nodes(self) -> Mapping[str, Sequence[Pod]]:
        return {}

    def budgets(self) -> tuple[DisruptionBudget, ...] | None:
        return ()

    def namespaces(self) -> Mapping[str, Mapping[str, str]]:
        return {}

    def storage(self) -> Storage:
        return Storage()


class Shown(Alone):
    """A snapshot of these workloads and their pods."""

    def __init__(self, *pods: tuple[Workload, tuple[Pod, ...]], nodes: tuple[Node, ...] = ()) -> None:
        self._pods = {workload.ref: shown for workload, shown in pods}
        self._workloads = {workload.ref: workload for workload, _ in pods}
        self._nodes = nodes
        self.confirmed = 0.0
        self.version = 1

    def confirmed_for(self, ref: Ref) -> float:
        return self.confirmed

    def workloads(self) -> Collection[Workload]:
        return self._workloads.values()

    def workload(self, ref: Ref) -> Workload | None:
        return self._workloads.get(ref)

    def pods(self, workload: Workload) -> tuple[Pod, ...]:
        return self._pods[workload.ref]

    def changes_since(self, earlier: object) -> None:
        return None

    def selector_fault(self, workload: Workload) -> str:
        return ""

    def nodes(self) -> tuple[Node, ...]:
        return self._nodes


async def nothing(node: str, now: float) -> Readings:
    """A kubelet that has no pods and no figures."""
    return Readings("cluster", now)


class Scripted(Unasked):
    """A cluster that answers as told."""

    leading = True
    taken_over: float | None = None
    lease = ""
    last_disruption = float("-inf")
    honours_deletion_costs = True

    def restoring(self) -> Sequence[Underway]:
        return ()

    async def promises(self) -> Sequence[Promise]:
        return ()

    def __init__(self) -> None:
        self.summaries: list[tuple[str, Part]] = []
        self.watched: Sequence[View] = ()
        self.answer_summary: Callable[[str, float], Awaitable[Readings]] = nothing
        self.pulled: Callable[[Pull], None] | None = None
        self.following = Following()
        self.asked: list[Sequence[MetricQuery]] = []
        self.answer_usage: Callable[[float], Readings] = lambda now: Readings("cluster", now)
        self.answer_nodes: Callable[[float], Readings] = lambda now: Readings("cluster", now)
        self.answer_metrics: Callable[[float], Readings] = lambda now: Readings("cluster", now)

    def problems(self) -> Mapping[Kind, str]:
        return {}

    def views(self) -> Sequence[View]:
        return self.watched

    def describe(self) -> object:
        return {}

    async def observe(self, now: float, kinds: frozenset[Kind]) -> Snapshot:
        return Shown()

    async def usage(self, now: float) -> Readings:
        return self.answer_usage(now)

    async def node_usage(self, now: float) -> Readings:
        return self.answer_nodes(now)

    async def metrics(self, queries: Sequence[MetricQuery], now: float) -> Readings:
        self.asked.append(queries)
        return self.answer_metrics(now)

    async def summary(self, node: str, now: float, part: Part, within: float) -> Readings:
        self.summaries.append((node, part))
        return await self.answer_summary(node, now)

    @asynccontextmanager
    async def pulls(self, take: Callable[[Pull], None]) -> AsyncIterator[Followed]:
        self.pulled = take
        try:
            yield self.following
        finally:
            self.pulled = None

    async def act(self, action: Action) -> Answer:
        return Answer("done")
