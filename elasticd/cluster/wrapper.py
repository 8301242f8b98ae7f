"""A cluster around another one: what it does not do itself, the inner one does."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from elasticd.model.actions import Action, Answer
from elasticd.model.moves import Underway
from elasticd.model.workload import Readings
from elasticd.ports.cluster import Cluster, Kind, Snapshot
from elasticd.ports.metrics_api import Followed, MetricQuery, Part, Pull


class ClusterWrapper(Cluster):
    """Passes everything on to the inner cluster."""

    def __init__(self, inner: Cluster) -> None:
        self._inner = inner

    @property
    def leading(self) -> bool:
        return self._inner.leading

    @property
    def taken_over(self) -> float | None:
        return self._inner.taken_over

    @property
    def honours_deletion_costs(self) -> bool:
        return self._inner.honours_deletion_costs

    def on_change(self, callback: Callable[[], None]) -> None:
        self._inner.on_change(callback)

    def restoring(self) -> Sequence[Underway]:
        return self._inner.restoring()

    def problems(self) -> Mapping[Kind, str]:
        return self._inner.problems()

    def describe(self) -> object:
        return self._inner.describe()

    async def observe(self, now: float, kinds: frozenset[Kind]) -> Snapshot:
        return await self._inner.observe(now, kinds)

    async def act(self, action: Action) -> Answer:
        return await self._inner.act(action)

    async def usage(self, now: float) -> Readings:
        return await self._inner.usage(now)

    async def node_usage(self, now: float) -> Readings:
        return await self._inner.node_usage(now)

    async def metrics(self, queries: Sequence[MetricQuery], now: float) -> Readings:
        return await self._inner.metrics(queries, now)

    async def summary(self, node: str, now: float, part: Part, within: float) -> Readings:
        return await self._inner.summary(node, now, part, within)

    def pulls(self, take: Callable[[Pull], None]) -> AbstractAsyncContextManager[Followed]:
        return self._inner.pulls(take)
