"""The daemon's own metrics, in Prometheus' names and units, made from the journal's records.

Knows prometheus-client; knows nothing of how a decision is made. The series of a workload vanish with it.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import accumulate
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.utils import floatToGoString

from elasticd.model.moves import Underway
from elasticd.model.records import Decision, Outcome
from elasticd.model.workload import Ref
from elasticd.ports.source import Counts
from elasticd.sources.poller import SourceReport
from elasticd.telemetry.pool_metrics import PodMetrics

_WORKLOAD = ("policy", "namespace", "kind", "name")
_AGES = (1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 900.0)
_CHILDREN = 50
"""Series that one metric has for one workload at most. Plugins choose some of the labels, and might choose new ones for
ever: what is beyond is counted together, labelled `other`."""

Labels = tuple[str, ...]

Owner = tuple[Any, ...]
"""Of whom there are series: a policy's name and a Ref, which is soon looked up, or a few labels."""

_LAGS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)


class _Counts:
    """A counter with series for each owner (a workload, a policy), kept as plain numbers of which the series are made
    when they are asked for, as a decision counts several times: labels() and inc() cost ten times what this does."""

    def __init__(self, name: str, text: str, owner: tuple[str, ...], more: tuple[str, ...]) -> None:
        self._name, self._text, self._labels = f"elasticd_{name}", text, (*owner, *more)
        self._owners: dict[Owner, dict[Labels, int]] = {}

    def add(self, owner: Owner, *more: str) -> None:
        """One more, under the owner's labels and these further ones."""
        try:
            self._owners[owner][more] += 1
        except KeyError:
            self._begin(owner, more)

    def _begin(self, owner: Owner, more: Labels) -> None:
        """The first under these labels, or one too many."""
        counts = self._owners.setdefault(owner, {})
        if len(counts) >= _CHILDREN:
            more = ("other",) * len(more)
        counts[more] = counts.get(more, 0) + 1

    def keep(self, owners: AbstractSet[Owner]) -> None:
        """Drop the series of all others."""
        self._owners = {owner: counts for owner, counts in self._owners.items() if owner in owners}

    def collect(self) -> Iterator[CounterMetricFamily]:
        """The counter; called in another thread than the loop's."""
        family = CounterMetricFamily(self._name, self._text, labels=self._labels)
        for owner, counts in list(self._owners.items()):
            labels = _labels(*owner) if isinstance(owner[-1], Ref) else owner
            for more, count in list(counts.items()):
                family.add_metric((*labels, *map(str, more)), count)
        yield family


class _Ages:
    """A histogram by source, kept as plain numbers as _Counts are."""

    def __init__(self, name: str, text: str) -> None:
        self._name, self._text = f"elasticd_{name}", text
        self._counts: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}

    def observe(self, source: str, age: float) -> None:
        """One more age, in seconds."""
        if source not in self._counts:
            source = self._begin(source)
        self._counts[source][bisect_left(_AGES, age)] += 1
        self._sums[source] += age

    def _begin(self, source: str) -> str:
        """A new source's name, or that of all that are too many."""
        if len(self._counts) >= _CHILDREN:
            source = "other"
        self._counts.setdefault(source, [0] * (len(_AGES) + 1))
        self._sums.setdefault(source, 0.0)
        return source

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """The histogram; called in another thread than the loop's."""
        family = HistogramMetricFamily(self._name, self._text, labels=("source",))
        for source, counts in list(self._counts.items()):
            edges = map(floatToGoString, (*_AGES, float("inf")))
            family.add_metric((source,), list(zip(edges, accumulate(counts), strict=True)), self._sums[source])
        yield family


class _Latest:
    """Gauges of what was last decided, made when they are asked for: a scrape is rare, a decision is not."""

    def __init__(self) -> None:
        self.decisions: dict[tuple[str, Ref], Decision] = {}

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The gauges; called in another thread than the loop's."""
        gauges = [
            GaugeMetricFamily("elasticd_current_replicas", "Replicas the workload asks for.", labels=_WORKLOAD),
            GaugeMetricFamily("elasticd_wanted_replicas", "Replicas decided on, after all limits.", labels=_WORKLOAD),
            GaugeMetricFamily("elasticd_poll_interval_seconds", "Poll interval in force.", labels=_WORKLOAD),
        ]
        recommended = GaugeMetricFamily(
            "elasticd_recommended_replicas", "Replicas a strategy wants.", labels=(*_WORKLOAD, "strategy")
        )
        for one in list(self.decisions.values()):
            labels = _labels(one.policy, one.workload)
            values = (one.current, one.replicas, one.interval)
            for gauge, value in zip(gauges, values, strict=True):
                if one.uid or gauge is gauges[-1]:  # a workload that is not there has not 0 replicas
                    gauge.add_metric(labels, value)
            for said in one.recommendations:
                if said.replicas is not None:
                    recommended.add_metric((*labels, said.strategy), said.replicas)
        yield from (*gauges, recommended, *self._requests())

    def _requests(self) -> Iterator[GaugeMetricFamily]:
        """What containers request, and should."""
        for resource, unit in (("cpu", "cores"), ("memory", "bytes")):
            labels = (*_WORKLOAD, "container")
            has = GaugeMetricFamily(
                f"elasticd_requested_{resource}_{unit}", "What a container requests.", labels=labels
            )
            should = GaugeMetricFamily(f"elasticd_recommended_{resource}_{unit}", "What it should.", labels=labels)
            for one in list(self.decisions.values()):
                for asked in one.sizing.resources:
                    whose = (*_labels(one.policy, one.workload), asked.container)
                    for gauge, amounts in ((has, asked.present), (should, asked.requests)):
                        if resource in amounts:
                            gauge.add_metric(whose, amounts[resource])
            yield from (has, should)


class _Sources:
    """How the sources fare, as last reported."""

    def __init__(self) -> None:
        self.reports: Sequence[SourceReport] = ()

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """The series; called in another thread than the loop's."""
        up = GaugeMetricFamily("elasticd_source_up", "1 where a source's last read was good.", labels=("source",))
        age = GaugeMetricFamily("elasticd_source_age_seconds", "Age of its newest sample.", labels=("source",))
        pace = GaugeMetricFamily(
            "elasticd_source_resolution_seconds", "Time between its renewals, if known.", labels=("source",)
        )
        messages = CounterMetricFamily(
            "elasticd_source_messages", "Messages by what became of them.", labels=("source", "result")
        )
        for one in self.reports:
            up.add_metric((one.name,), float(one.health == "ok"))
            if one.age is not None:
                age.add_metric((one.name,), one.age)
            if one.resolution is not None:
                pace.add_metric((one.name,), one.resolution)
            if isinstance(one.details, Counts):
                for result, count in one.details.counts().items():
                    messages.add_metric((one.name, result), count)
        yield from (up, age, pace, messages)


class DaemonMetrics:
    """A listener of the loop. All series stand in a registry of their own."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each, that nobody asks for
        self._registry = registry = CollectorRegistry()
        self._latest = _Latest()
        self._sources = _Sources()
        registry.register(self._latest)
        registry.register(self._sources)
        self._lost = 0

        def make(kind: type[Any], name: str, text: str, labels: tuple[str, ...] = (), **more: Any) -> Any:
            return kind(f"elasticd_{name}", text, labels, registry=registry, **more)

        def count(name: str, text: str, owner: tuple[str, ...], *more: str) -> _Counts:
            made = _Counts(name, text, owner, more)
            registry.register(made)
            return made

        self._decisions = count("decisions", "Decisions made.", _WORKLOAD, "verdict")
        self._limited = count("limited", "Decisions that a limit bound.", _WORKLOAD, "limit", "reason")
        self._actions = count("actions", "Actions by what came of them.", _WORKLOAD, "result", "reason", "code")
        self._holds = count("holds", "Decisions to hold, by reason.", _WORKLOAD, "reason")
        self._failures = count("plugin_failures", "Failures of plugins.", ("policy",), "plugin", "hook")
        self._worth = count("series", "Series that were judged, by what they were worth.", ("source",), "quality")
        self._ages = _Ages("sample_age_seconds", "Age of the newest sample when judged.")
        registry.register(self._ages)
        self._lag = make(Histogram, "loop_lag_seconds", "How late ticks began.", buckets=_LAGS)
        self._unchanged = make(Counter, "unchanged_total", "Polls whose samples had not moved.")
        self._calls = make(Counter, "api_calls_total", "Calls of the Kubernetes API.", ("verb", "resource", "code"))
        self._call_time = make(Histogram, "api_call_duration_seconds", "Time of those calls.", ("verb",))
        self._reads = make(Counter, "source_reads_total", "Reads of a source.", ("source", "result"))
        self._read_time = make(Histogram, "source_read_duration_seconds", "Time of those reads.", ("source",))
        self._leader = make(Gauge, "leader", "1 where this daemon may act.")
        self._journal = make(Counter, "journal_write_failures_total", "Records that could not be written to disk.")
        self._reloads = make(Counter, "config_reloads_total", "Reloads of the policies.", ("result",))
        self._policies = make(Gauge, "policies", "Policies in force.")
        self.pods = PodMetrics(registry)

    def decided(self, decision: Decision) -> None:
        """Count a decision, and show what it saw."""
        owner = decision.policy, decision.workload
        self._latest.decisions[owner] = decision
        self._decisions.add(owner, decision.verdict)
        for limit in decision.limits:
            if limit.bound:
                self._limited.add(owner, limit.name, limit.reason)
        if decision.verdict == "hold":
            self._holds.add(owner, decision.reason)
        for failure in decision.failures:
            self._failures.add((decision.policy,), failure.plugin, failure.hook)
        for one in decision.series:
            self._worth.add((one.source,), one.quality)
            if one.samples:
                self._ages.observe(one.source, max(0.0, decision.at - one.measured))

    def acted(self, outcome: Outcome) -> None:
        """Count an action, or a refusal."""
        owner = outcome.policy, outcome.workload
        self._actions.add(owner, outcome.result, outcome.reason, str(outcome.code))

    def ticked(self, lag: float, unchanged: int) -> None:
        """Note how late the loop is."""
        self._lag.observe(lag)
        self._unchanged.inc(unchanged)

    def called(self, verb: str, resource: str, code: int, seconds: float) -> None:
        """Count a call of the Kubernetes API; code 0: no answer."""
        self._calls.labels(verb, resource, str(code)).inc()
        self._call_time.labels(verb).observe(seconds)

    def read(self, source: str, seconds: float, ok: bool) -> None:
        """Count a read of a source."""
        self._reads.labels(source, "done" if ok else "failed").inc()
        self._read_time.labels(source).observe(seconds)

    def reloaded(self, policies: int, *, ok: bool) -> None:
        """Note that the policies were read again."""
        self._reloads.labels("done" if ok else "refused").inc()
        if ok:
            self._policies.set(policies)

    def governed(self, keys: AbstractSet[tuple[str, Ref]]) -> None:
        """Drop the series of workloads that are no longer governed, and of policies that are no longer in force."""
        self._latest.decisions = {key: one for key, one in self._latest.decisions.items() if key in keys}
        for one in (self._decisions, self._limited, self._actions, self._holds):
            one.keep(keys)
        self._failures.keep({(policy,) for policy, _ in keys})

    def render(
        self,
        *,
        leading: bool,
        journal_failures: int,
        sources: Sequence[SourceReport] = (),
        moves: Sequence[Underway] = (),
    ) -> bytes:
        """The exposition text. Takes milliseconds for thousands of workloads: call it outside the loop."""
        self._sources.reports, self.pods.moves = sources, moves
        self._leader.set(leading)
        self._journal.inc(max(0, journal_failures - self._lost))
        self._lost = max(self._lost, journal_failures)
        return generate_latest(self._registry)


def _labels(policy: str, ref: Ref) -> Labels:
    """The labels of a workload under a policy, in the order of their names."""
    return (policy, ref.namespace, ref.kind, ref.name)
