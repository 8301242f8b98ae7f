"""The aggregated metrics APIs custom.metrics.k8s.io and external.metrics.k8s.io.

Knows their paths and answers, in whichever version the server prefers, and that every value comes from outside.
Knows nothing of who asks, nor of how the answers are judged.
"""

import asyncio
import math
from collections.abc import Sequence
from contextlib import suppress
from urllib.parse import quote

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from elasticd.base.clock import ServerTime
from elasticd.base.errors import UNREADABLE
from elasticd.base.tasks import cancel
from elasticd.base.text import one_line
from elasticd.base.units import amount
from elasticd.cluster.kubernetes.session import ApiError
from elasticd.cluster.kubernetes.watch.discovery import Discovery, UnknownKindError
from elasticd.cluster.kubernetes.wire.objects import RAW_LIST, MetricValue
from elasticd.model.workload import Readings, Sample
from elasticd.ports.metrics_api import MetricQuery

SOURCE = "metrics-api"
CUSTOM, EXTERNAL = "custom.metrics.k8s.io", "external.metrics.k8s.io"
CALLS_AT_ONCE = 8
_ITEMS_AT_ONCE = 2000
LARGEST = 64 << 20
_PATIENCE_FACTOR = 3
_VALUE = msgspec.json.Decoder(MetricValue)

SeriesSamples = dict[str, dict[str, tuple[Sample, ...]]]


class _Answer(Struct):
    """The result of one request: (object name, sample) pairs in the server's order, and what is wrong."""

    samples: list[tuple[str, Sample]]
    fault: str = ""


class AggregatedMetrics:
    """Asks these APIs, a few calls at a time.

    All calls of one read together may take three times as long as one of the API server: those that are then unanswered
    are faults of their series, so that an adapter that hangs cannot hold up the rest for ever.
    """

    def __init__(self, discovery: Discovery, times: ServerTime, timeout: float) -> None:
        self._discovery, self._times = discovery, times
        self._patience = timeout * _PATIENCE_FACTOR
        self._turns = asyncio.Semaphore(CALLS_AT_ONCE)

    async def read(self, queries: Sequence[MetricQuery], now: float) -> Readings:
        """The answers to all queries. Never raises."""
        asks = list(dict.fromkeys(_request_of(query) for query in queries))
        answers = dict(zip(asks, await self._all(asks, now), strict=True))
        pods, workloads, faults = SeriesSamples(), SeriesSamples(), dict[str, str]()
        for query in queries:
            answer = answers[_request_of(query)]
            if query.object is None and not query.external:
                _put_pods(pods.setdefault(query.series, {}), query.namespace, answer)
            else:
                _put_workload(workloads.setdefault(query.series, {}), query, answer)
            if answer.fault:
                faults.setdefault(query.series, answer.fault)
        if answers and all(answer.fault and not answer.samples for answer in answers.values()):
            return Readings(SOURCE, now, error=next(iter(answers.values())).fault, faults=faults)
        return Readings(SOURCE, now, pods, workloads, faults=faults)

    async def _all(self, asks: Sequence[MetricQuery], now: float) -> list[_Answer]:
        if not asks:
            return []
        for group in {_group(ask) for ask in asks}:
            with suppress(ApiError, *UNREADABLE):  # each call says why it has none
                await self._discovery.version_of(group)
        tasks = [asyncio.create_task(self._one(ask, now)) for ask in asks]
        try:
            await asyncio.wait(tasks, timeout=self._patience)
        finally:
            ends = await cancel(*tasks)
        late = f"no answer within {self._patience:g} s"
        return [end if isinstance(end, _Answer) else _fault(ask, late) for ask, end in zip(asks, ends, strict=True)]

    async def _one(self, ask: MetricQuery, now: float) -> _Answer:
        async with self._turns:
            try:
                return await self._decoded(ask, await self._send(ask), now)
            except (ApiError, UnknownKindError) as error:
                return _fault(ask, str(error))
            except UNREADABLE as error:
                return _fault(ask, f"its answer is no list: {error}")

    async def _send(self, ask: MetricQuery) -> bytes:
        await self._discovery.version_of(_group(ask))  # where there is none, nothing else is asked
        params = {"labelSelector" if ask.external else "metricLabelSelector": ask.selector} if ask.selector else {}
        options = {"resource": _group(ask), "params": params, "largest": LARGEST}
        return await self._discovery.list_of(_group(ask), await self._path(ask), **options)

    async def _path(self, ask: MetricQuery) -> str:
        """The path that the HPA would use, but without a namespace for an object that has none."""
        space, metric = f"/namespaces/{quote(ask.namespace, safe='')}", quote(ask.metric, safe="")
        if ask.external:
            return f"{space}/{metric}"
        if ask.object is None:
            return f"{space}/pods/*/{metric}"
        version, kind, name = ask.object
        if (version, kind) == ("v1", "Namespace"):
            return f"/namespaces/{quote(name, safe='')}/metrics/{metric}"
        resource = await self._discovery.resource((version, kind))
        of_group = f"{resource.plural}.{version.partition('/')[0]}" if "/" in version else resource.plural
        return f"{space if resource.namespaced else ''}/{of_group}/{quote(name, safe='')}/{metric}"

    async def _decoded(self, ask: MetricQuery, body: bytes, now: float) -> _Answer:
        """A list may be long: it is decoded in parts, so that the loop is never held up for long."""
        items, offset, answer = RAW_LIST.decode(body).items or [], self._times.offset(), _Answer([])
        unreadable = strange = 0
        for index, raw in enumerate(items):
            if index % _ITEMS_AT_ONCE == _ITEMS_AT_ONCE - 1:
                await asyncio.sleep(0)
            try:
                value = _VALUE.decode(raw)
            except UNREADABLE:
                unreadable += 1
                continue
            if ask.object is None and value.described_object.namespace not in ("", ask.namespace):
                strange += 1
                continue
            answer.samples.append((value.described_object.name, _sample(value, now, offset)))
        if unreadable or strange:
            counts = f"{unreadable} unreadable, {strange} of another namespace"
            answer.fault = _fault(ask, f"of {len(items)} values: {counts}").fault
        return answer


def _request_of(query: MetricQuery) -> MetricQuery:
    """Queries that differ only in their series or workload share one request."""
    return replace(query, series="", workload="")


def _group(query: MetricQuery) -> str:
    return EXTERNAL if query.external else CUSTOM


def _fault(ask: MetricQuery, why: str) -> _Answer:
    return _Answer([], one_line(f"{_group(ask)}: {ask.metric} of {ask.namespace}: {why}"))


def _put_pods(series: dict[str, tuple[Sample, ...]], namespace: str, answer: _Answer) -> None:
    """Each pod's sample; of a pod that is named twice the last, as the HPA takes it."""
    for name, sample in answer.samples:
        if name:
            series[f"{namespace}/{name}"] = (replace(sample, pod=name),)


def _put_workload(series: dict[str, tuple[Sample, ...]], query: MetricQuery, answer: _Answer) -> None:
    """Of an object the first value, as the HPA takes it; of an external metric all, which the HPA adds up."""
    samples = tuple(sample for _, sample in answer.samples)
    if answer.fault and query.external:
        samples = ()  # a sum of some is no sum
    if samples:
        series[query.workload] = samples if query.external else samples[:1]


def _sample(value: MetricValue, now: float, offset: float) -> Sample:
    window = amount(value.window_seconds if value.window_seconds is not None else value.window or 0)
    return Sample(
        amount(value.value), value.timestamp.timestamp() + offset, now, window if math.isfinite(window) else 0.0
    )
