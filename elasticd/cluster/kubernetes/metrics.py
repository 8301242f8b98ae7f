"""The resource metrics API: what every pod and node uses.

Knows the wire format of metrics.k8s.io and that what it says comes from outside: a value that makes no sense stays
in sight as NaN, so that judgement can refuse it. Knows nothing of how use is judged.
"""

import asyncio
import logging
import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from elasticd.base.clock import ServerTime
from elasticd.base.errors import UNREADABLE
from elasticd.base.units import amount, go_seconds
from elasticd.cluster.kubernetes.session import ApiError
from elasticd.cluster.kubernetes.watch.discovery import Discovery
from elasticd.cluster.kubernetes.wire.objects import RAW_LIST, UsageMetrics
from elasticd.model.workload import Readings, Sample

logger = logging.getLogger(__name__)

SOURCE = "resource-metrics"
GROUP = "metrics.k8s.io"
SERIES = ("cpu", "memory")
_AT_ONCE = 2000
_USAGE, _USAGES = msgspec.json.Decoder(UsageMetrics), msgspec.json.Decoder(list[UsageMetrics])

Samples = dict[str, dict[str, tuple[Sample, ...]]]


class MetricsClient:
    """Asks the metrics API, in whichever version the server prefers."""

    def __init__(self, discovery: Discovery, times: ServerTime, namespaces: tuple[str, ...]) -> None:
        self._discovery, self._times, self._namespaces = discovery, times, namespaces
        self.skipped = 0

    async def usage(self, now: float) -> Readings:
        """The usage of all pods, one sample for each container. Never raises."""
        try:
            bodies = await self._pod_lists()
        except ApiError as error:
            return Readings(SOURCE, now, error=f"the metrics API: {error}")
        offset = self._times.offset()
        series, parts = ({name: dict[str, tuple[Sample, ...]]() for name in SERIES} for _ in range(2))
        try:
            for body in bodies:
                await self._take_pods(body, (series, parts), now, offset)
        except UNREADABLE as error:
            return Readings(SOURCE, now, error=f"the metrics API: its answer is no list: {error}")
        return Readings(SOURCE, now, pods=series, parts=parts)

    async def node_usage(self, now: float) -> Readings:
        """The usage of all nodes. Never raises."""
        try:
            items = RAW_LIST.decode(await self._list("/nodes", "nodes.metrics")).items or ()
        except ApiError as error:
            return Readings(SOURCE, now, error=f"the metrics API: {error}")
        except UNREADABLE as error:
            return Readings(SOURCE, now, error=f"the metrics API: its answer is no list: {error}")
        offset, nodes = self._times.offset(), {name: dict[str, tuple[Sample, ...]]() for name in SERIES}
        for usage in self._decode(items):
            measured, window = usage.timestamp.timestamp() + offset, go_seconds(usage.window)
            for name in SERIES:
                if usage.usage and name in usage.usage:
                    sample = Sample(_amount(usage.usage[name]), measured, now, window)
                    nodes[name][usage.metadata.name] = (sample,)
        return Readings(SOURCE, now, nodes=nodes)

    async def _pod_lists(self) -> list[bytes]:
        """The list of all pods' metrics, or one for each namespace. Pods of a namespace that fails have no samples."""
        if not self._namespaces:
            return [await self._list("/pods", "pods.metrics")]
        paths = [f"/namespaces/{namespace}/pods" for namespace in self._namespaces]
        answers = await asyncio.gather(*[self._list(path, "pods.metrics") for path in paths], return_exceptions=True)
        bodies = [answer for answer in answers if isinstance(answer, bytes)]
        for path, error in zip(paths, answers, strict=True):
            if isinstance(error, ApiError):
                logger.warning("metrics of %s: %s", path, error)
                if not bodies:
                    raise error
        return bodies

    async def _list(self, path: str, resource: str) -> bytes:
        return await self._discovery.list_of(GROUP, path, resource=resource)

    async def _take_pods(self, body: bytes, into: tuple[Samples, Samples], now: float, offset: float) -> None:
        """A list may hold 150,000 pods: it is decoded in parts, so that the loop is never held up for long."""
        items = RAW_LIST.decode(body).items or []
        for start in range(0, len(items), _AT_ONCE):
            for usage in self._decode(items[start : start + _AT_ONCE]):
                _take(usage, into, now, offset)
            await asyncio.sleep(0)

    def _decode(self, items: Sequence[Raw]) -> Iterable[UsageMetrics]:
        """The readable items: decoded all at once, or one by one where one of them is unreadable."""
        try:
            return _USAGES.decode(b"[%b]" % b",".join(items))
        except UNREADABLE:
            return self._readable(items)

    def _readable(self, items: Iterable[Raw]) -> Iterable[UsageMetrics]:
        for raw in items:
            try:
                yield _USAGE.decode(raw)
            except UNREADABLE:
                self.skipped += 1


def _take(usage: UsageMetrics, into: tuple[Samples, Samples], now: float, offset: float) -> None:
    """Add a pod's samples to `into`: (complete pods, incomplete pods). Where a container lacks a sample the pod is
    incomplete, for a partial sum is no sum."""
    pod, containers = usage.metadata.name, usage.containers or ()
    measured, window = usage.timestamp.timestamp() + offset, go_seconds(usage.window)
    for name in SERIES:
        samples = tuple(
            Sample(_amount(container.usage[name]), measured, now, window, pod, container.name)
            for container in containers
            if container.usage and name in container.usage
        )
        if samples:
            into[len(samples) < len(containers)][name][f"{usage.metadata.namespace}/{pod}"] = samples


def _amount(quantity: Any) -> float:
    """The amount in base units; NaN when it is none, is not finite or is negative."""
    value = amount(quantity)
    return value if value >= 0 else math.nan
