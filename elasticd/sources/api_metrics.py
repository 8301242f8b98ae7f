"""The cluster's custom and external metrics APIs as sources: custom-metrics and external-metrics.

Knows which metric to query for which workload; knows nothing of how the cluster is asked.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Annotated

from msgspec import Meta, Struct

from elasticd.api import hookimpl
from elasticd.model.workload import Readings
from elasticd.ports.metrics_api import MetricQuery
from elasticd.ports.source import Every, Reader, SampleTable, Site, Source
from elasticd.sources.rounds import Limits, Rounds

Name = Annotated[str, Meta(min_length=1, max_length=253, description="in policies")]
Metric = Annotated[
    str,
    Meta(
        max_length=253, pattern=r"^([^/%]*[^/%.][^/%]*)?$", description="its name in the API; empty: that of the series"
    ),
]
Selector = Annotated[str, Meta(max_length=1024, description="label selector over the metric's own labels")]
Namespace = Annotated[str, Meta(max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
Namespaces = Annotated[
    tuple[Namespace, ...], Meta(description="where to ask; none: those of the workloads that policies govern")
]
Workload = Annotated[str, Meta(max_length=512, description="NAMESPACE/KIND/NAME whose series it is")]

LIMITS = Limits(at_once=64, patience=1.0, keep=float("inf"))
"""The cluster itself limits the calls; there are few metrics, as a person writes them."""


class Object(Struct, frozen=True, forbid_unknown_fields=True):
    """An object that a metric describes."""

    kind: Annotated[str, Meta(min_length=1, description="such as Ingress")]
    name: Annotated[str, Meta(max_length=253, pattern=r"^[^/%]*[^/%.][^/%]*$", description="its name")]
    api_version: Annotated[str, Meta(min_length=1, description="such as networking.k8s.io/v1")] = "v1"
    namespace: Annotated[str, Meta(max_length=63, description="empty: that of the workload")] = ""


class CustomSeries(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A metric of custom.metrics.k8s.io: of every pod, or of one object as the series of one workload."""

    name: Name
    metric: Metric = ""
    selector: Selector = ""
    namespaces: Namespaces = ()
    object: Object | None = None
    workload: Workload = ""

    def __post_init__(self) -> None:
        _check_metric(self.metric, self.name)
        if (self.object is None) != (not self.workload):
            present = "object" if self.object else "workload"
            missing = "workload" if self.object else "object"
            raise ValueError(f"{missing}: must be given with {present}, is missing")
        _check_workload(self.workload, self.namespaces)

    def queries(self, governed: Callable[[], Sequence[tuple[str, str]]]) -> Iterable[MetricQuery]:
        """The queries for this metric, one for each namespace or for one object."""
        metric = self.metric or self.name
        if self.object is None:
            for namespace in self.namespaces or dict.fromkeys(namespace for namespace, _ in governed()):
                yield MetricQuery(self.name, metric, namespace, self.selector)
        else:
            target = self.object
            namespace = target.namespace or self.workload.partition("/")[0]
            described = (target.api_version, target.kind, target.name)
            yield MetricQuery(self.name, metric, namespace, self.selector, False, described, self.workload)


class ExternalSeries(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A metric of external.metrics.k8s.io, as the series of one workload, or of every governed one of its namespace."""

    name: Name
    metric: Metric = ""
    selector: Selector = ""
    namespaces: Namespaces = ()
    workload: Workload = ""

    def __post_init__(self) -> None:
        _check_metric(self.metric, self.name)
        _check_workload(self.workload, self.namespaces)

    def queries(self, governed: Callable[[], Sequence[tuple[str, str]]]) -> Iterable[MetricQuery]:
        """The queries for this metric. Those of one namespace share a call: only the workload differs."""
        if self.workload:
            owners: Iterable[tuple[str, str]] = [(self.workload.partition("/")[0], self.workload)]
        else:
            owners = [owner for owner in governed() if not self.namespaces or owner[0] in self.namespaces]
        metric = self.metric or self.name
        for namespace, workload in owners:
            yield MetricQuery(self.name, metric, namespace, self.selector, True, None, workload)


def _check_metric(metric: str, name: str) -> None:
    if not metric and ("/" in name or "%" in name or not name.strip(".")):
        raise ValueError(f'metric: must be given where the name is none for a metric, name is "{name}"')


def _check_workload(workload: str, namespaces: Sequence[str]) -> None:
    if not workload:
        return
    parts = workload.split("/")
    if len(parts) != 3 or not all(parts):
        raise ValueError(f'workload: must be NAMESPACE/KIND/NAME, is "{workload}"')
    if namespaces:
        raise ValueError("namespaces: must be left out where there is a workload, is given")


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
        async with aclosing(Rounds(asking.ask, site.clock, LIMITS)) as asking.rounds:
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

    rounds: Rounds[Readings]

    def __init__(self, site: Site, series: Sequence[CustomSeries | ExternalSeries], label: str) -> None:
        self._site, self._label = site, label
        self._by_metric: dict[str, list[CustomSeries | ExternalSeries]] = {}
        for entry in series:
            self._by_metric.setdefault(f"{entry.metric or entry.name} {entry.selector}", []).append(entry)

    async def ask(self, metric: str) -> Readings:
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
