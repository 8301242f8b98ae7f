"""The cluster's custom and external metrics APIs as sources: custom-metrics and external-metrics.

Knows which metric to query for which workload; knows nothing of how the cluster is asked.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Annotated, Any

from msgspec import Meta, Struct

from elasticd.api import hookimpl
from elasticd.model.workload import Readings
from elasticd.ports.metrics_api import MetricQuery
from elasticd.ports.source import Every, Reader, SampleTable, Site, Source
from elasticd.sources.rounds import PATIENCE, Rounds

Namespace = Annotated[str, Meta(max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]

AT_ONCE = 64
"""The cluster itself limits the calls; there are few metrics, as a person writes them."""


class Object(Struct, frozen=True, forbid_unknown_fields=True):
    """An object that a metric describes."""

    kind: Annotated[str, Meta(min_length=1, description="such as Ingress")]
    name: Annotated[str, Meta(max_length=253, pattern=r"^[^/%]*[^/%.][^/%]*$", description="its name")]
    api_version: Annotated[str, Meta(min_length=1, description="such as networking.k8s.io/v1")] = "v1"
    namespace: Annotated[str, Meta(max_length=63, description="empty: that of the workload")] = ""


class MetricSeries(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A metric of one of the two APIs, and the series it becomes."""

    name: Annotated[str, Meta(min_length=1, max_length=253, description="in policies")]
    metric: Annotated[
        str,
        Meta(
            max_length=253,
            pattern=r"^([^/%]*[^/%.][^/%]*)?$",
            description="its name in the API; empty: that of the series",
        ),
    ] = ""
    selector: Annotated[str, Meta(max_length=1024, description="label selector over the metric's own labels")] = ""
    namespaces: Annotated[
        tuple[Namespace, ...], Meta(description="where to ask; none: those of the workloads that policies govern")
    ] = ()
    workload: Annotated[str, Meta(max_length=512, description="NAMESPACE/KIND/NAME whose series it is")] = ""

    def __post_init__(self) -> None:
        if not self.metric and ("/" in self.name or "%" in self.name or not self.name.strip(".")):
            raise ValueError(f'metric: must be given where the name is none for a metric, name is "{self.name}"')
        if self.workload and (self.workload.count("/") != 2 or not all(self.workload.split("/"))):
            raise ValueError(f'workload: must be NAMESPACE/KIND/NAME, is "{self.workload}"')
        if self.workload and self.namespaces:
            raise ValueError("namespaces: must be left out where there is a workload, is given")

    def query(self, namespace: str, *about: Any) -> MetricQuery:
        """The query for this metric in a namespace."""
        return MetricQuery(self.name, self.metric or self.name, namespace, self.selector, *about)


class ExternalSeries(MetricSeries, frozen=True):
    """A metric of external.metrics.k8s.io, as the series of one workload, or of every governed one of its namespace."""

    def queries(self, governed: Callable[[], Sequence[tuple[str, str]]]) -> Iterable[MetricQuery]:
        """The queries for this metric. Those of one namespace share a call: only the workload differs."""
        owners = [(self.workload.partition("/")[0], self.workload)] if self.workload else governed()
        for namespace, workload in owners:
            if not self.namespaces or namespace in self.namespaces:
                yield self.query(namespace, True, None, workload)


class CustomSeries(MetricSeries, frozen=True):
    """A metric of custom.metrics.k8s.io: of every pod, or of one object as the series of one workload."""

    object: Object | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.object is None) != (not self.workload):
            present, missing = ("object", "workload") if self.object else ("workload", "object")
            raise ValueError(f"{missing}: must be given with {present}, is missing")

    def queries(self, governed: Callable[[], Sequence[tuple[str, str]]]) -> Iterable[MetricQuery]:
        """The queries for this metric, one for each namespace or for one object."""
        if self.object is None:
            for namespace in self.namespaces or dict.fromkeys(namespace for namespace, _ in governed()):
                yield self.query(namespace)
        else:
            described = (self.object.api_version, self.object.kind, self.object.name)
            namespace = self.object.namespace or self.workload.partition("/")[0]
            yield self.query(namespace, False, described, self.workload)


class _MetricsSource(Source, frozen=True, kw_only=True):
    """One of the two APIs."""

    series: Annotated[tuple[CustomSeries | ExternalSeries, ...], Meta(min_length=1, description="what to ask for")]
    every: Every = 5.0

    def offers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(series.name for series in self.series))

    def offers_of_nodes(self) -> tuple[str, ...]:
        return ()

    @asynccontextmanager
    async def open(self, site: Site) -> AsyncIterator[Reader]:
        """Ask this cluster; there is nothing to connect to."""
        asking = _Asking(site, self.series, self.label)
        async with aclosing(asking.rounds):
            yield asking


class CustomMetrics(_MetricsSource, frozen=True, kw_only=True, tag="custom-metrics"):
    """What the custom metrics API (custom.metrics.k8s.io) says of pods and objects, as the HPA reads it."""

    series: Annotated[tuple[CustomSeries, ...], Meta(min_length=1, description="what to ask for")]


class ExternalMetrics(_MetricsSource, frozen=True, kw_only=True, tag="external-metrics"):
    """What the external metrics API (external.metrics.k8s.io) says, as the HPA reads it."""

    series: Annotated[tuple[ExternalSeries, ...], Meta(min_length=1, description="what to ask for")]


class _Asking:
    """Asks for each metric on its own, so that one that hangs delays no other; series of one metric share its calls.
    The last answer for a metric counts, with its own timestamps, until there is another."""

    def __init__(self, site: Site, series: Sequence[CustomSeries | ExternalSeries], label: str) -> None:
        self._site, self._label = site, label
        self.rounds = Rounds(self._ask, site.clock, AT_ONCE, PATIENCE)
        self._by_metric: dict[str, list[CustomSeries | ExternalSeries]] = {}
        for entry in series:
            self._by_metric.setdefault(f"{entry.metric or entry.name} {entry.selector}", []).append(entry)

    async def _ask(self, metric: str) -> Readings:
        queries = [query for entry in self._by_metric[metric] for query in entry.queries(self._governed)]
        return await self._site.metrics.metrics(queries, self._site.clock.now())

    async def read(self, now: float) -> Readings:
        answers, silent = await self.rounds.round(self._by_metric, now)
        faults = {entry.name: silent[metric] for metric in silent for entry in self._by_metric[metric]}
        pods, workloads = SampleTable(), SampleTable()
        for readings in answers.values():
            faults.update(readings.faults)
            for merged, by_name in ((pods, readings.pods), (workloads, readings.workloads)):
                for name, subjects in by_name.items():
                    merged.setdefault(name, {}).update(subjects)
        errors = [*silent.values(), *[readings.error for readings in answers.values()]]
        if all(errors):
            return Readings(self._label, now, error=errors[0], faults=faults)
        return Readings(self._label, now, pods, workloads, faults=faults)

    def _governed(self) -> list[tuple[str, str]]:
        return sorted((ref.namespace, str(ref)) for ref in self._site.governed())


@hookimpl
def register_sources() -> Sequence[type[Source]]:
    return [CustomMetrics, ExternalMetrics]
