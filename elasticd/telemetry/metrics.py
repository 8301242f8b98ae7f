"""The daemon's own metrics, in Prometheus' names and units, made from the journal's records.

Knows prometheus-client; knows nothing of how a decision is made. The series of a workload vanish with it.
"""

from bisect import bisect_left
from collections import Counter as Counted
from collections.abc import Iterator, Mapping, Sequence
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

from elasticd.model.listener import Governed, MovesPlanned, Notice, PodsPlanned, PodsWaiting, PoolsApplied, Ticked
from elasticd.model.moves import MoveDecision, Underway
from elasticd.model.placement import PodDecision, PodOutcome
from elasticd.model.records import Decision, Outcome
from elasticd.model.workload import Ref
from elasticd.ports.source import Counts
from elasticd.sources.poller import SourceReport

_WORKLOAD = ("policy", "namespace", "kind", "name")
_AGES = (1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 900.0)
_CHILDREN = 50
"""Series of one metric for one workload, at most. Plugins choose some labels, and might choose new ones for ever:
further ones are counted together, labelled `other`."""

Labels = tuple[str, ...]

Owner = tuple[Any, ...]
"""The owner of series: a policy's name and a Ref, which is cheap to look up, or a few labels."""

_LAGS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
_PLAN_TIMES = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30)


class _Counts:
    """A counter with series for each owner (a workload, a policy). It keeps plain numbers and makes the series at a
    scrape, because each decision counts several times: labels() and inc() cost ten times as much."""

    def __init__(self, name: str, text: str, owner: tuple[str, ...], further: tuple[str, ...]) -> None:
        self._name, self._text, self._labels = f"elasticd_{name}", text, (*owner, *further)
        self._owners: dict[Owner, dict[Labels, int]] = {}

    def add(self, owner: Owner, *further: str) -> None:
        """Count one more under the owner's labels and these further ones."""
        try:
            self._owners[owner][further] += 1
        except KeyError:
            self._begin(owner, further)

    def _begin(self, owner: Owner, labels: Labels) -> None:
        """Count the first under these labels, or under `other` where the owner has too many."""
        counts = self._owners.setdefault(owner, {})
        if len(counts) >= _CHILDREN:
            labels = ("other",) * len(labels)
        counts[labels] = counts.get(labels, 0) + 1

    def keep(self, owners: AbstractSet[Owner]) -> None:
        """Drop the series of all other owners."""
        self._owners = {owner: counts for owner, counts in self._owners.items() if owner in owners}

    def collect(self) -> Iterator[CounterMetricFamily]:
        """The counter; called in another thread than the loop's."""
        family = CounterMetricFamily(self._name, self._text, labels=self._labels)
        for owner, counts in list(self._owners.items()):
            owner_labels = _labels(*owner) if isinstance(owner[-1], Ref) else owner
            for further, count in list(counts.items()):
                family.add_metric((*owner_labels, *map(str, further)), count)
        yield family


class _Ages:
    """A histogram by source, kept as plain numbers like _Counts."""

    def __init__(self, name: str, text: str) -> None:
        self._name, self._text = f"elasticd_{name}", text
        self._counts: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}

    def observe(self, source: str, age: float) -> None:
        """Count an age, in seconds."""
        if source not in self._counts:
            source = self._begin(source)
        self._counts[source][bisect_left(_AGES, age)] += 1
        self._sums[source] += age

    def _begin(self, source: str) -> str:
        """Begin a source's series; returns its label, `other` where there are too many sources."""
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
    """Gauges of the last decisions, made at a scrape: a scrape is rare, a decision is not."""

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
        for decision in list(self.decisions.values()):
            labels = _labels(decision.policy, decision.workload)
            values = (decision.current, decision.replicas, decision.interval)
            for gauge, value in zip(gauges, values, strict=True):
                if decision.uid or gauge is gauges[-1]:  # a workload that is not there has not 0 replicas
                    gauge.add_metric(labels, value)
            for recommendation in decision.recommendations:
                if recommendation.replicas is not None:
                    recommended.add_metric((*labels, recommendation.strategy), recommendation.replicas)
        yield from (*gauges, recommended, *self._request_gauges())

    def _request_gauges(self) -> Iterator[GaugeMetricFamily]:
        """Gauges of what containers request, and what they should request."""
        for resource, unit in (("cpu", "cores"), ("memory", "bytes")):
            labels = (*_WORKLOAD, "container")
            has = GaugeMetricFamily(
                f"elasticd_requested_{resource}_{unit}", "What a container requests.", labels=labels
            )
            should = GaugeMetricFamily(f"elasticd_recommended_{resource}_{unit}", "What it should.", labels=labels)
            for decision in list(self.decisions.values()):
                for container in decision.sizing.resources:
                    container_labels = (*_labels(decision.policy, decision.workload), container.container)
                    for gauge, amounts in ((has, container.present), (should, container.requests)):
                        if resource in amounts:
                            gauge.add_metric(container_labels, amounts[resource])
            yield from (has, should)


class _Sources:
    """Metrics of the sources, as last reported."""

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
        for report in self.reports:
            up.add_metric((report.name,), float(report.health == "ok"))
            if report.age is not None:
                age.add_metric((report.name,), report.age)
            if report.resolution is not None:
                pace.add_metric((report.name,), report.resolution)
            if isinstance(report.details, Counts):
                for result, count in report.details.counts().items():
                    messages.add_metric((report.name, result), count)
        yield from (up, age, pace, messages)


class _PodMetrics:
    """Counts what is decided and done about pods. Series are of policies, not of pods, which come and go."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._waiting: dict[str, Mapping[str, int]] = {}
        self.moves: Sequence[Underway] = ()
        """The moves in flight."""
        registry.register(self)

        def count(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"elasticd_{name}_total", text, ("policy", *labels), registry=registry)

        def time(name: str, text: str) -> Histogram:
            labels = ("policy",)
            return Histogram(f"elasticd_{name}_duration_seconds", text, labels, registry=registry, buckets=_PLAN_TIMES)

        text = "Decisions about pods that differ from the one before."
        self._decisions = count("pod_decisions", text, "verdict", "reason")
        text = "Decisions about pods that a strategy wants moved, which differ from the one before."
        self._moves = count("move_decisions", text, "verdict", "reason")
        text = (
            "Bindings, evictions, nominations and steps of moves by what came of them; a move that is not done, once."
        )
        self._actions = count("pod_actions", text, "action", "result", "reason")
        self._plans = time("pod_plan", "Time to plan for the pods of a pool.")
        self._looks = time("move_plan", "Time to plan at each look at a pool which pods leave their nodes.")

    def on(self, record: Notice) -> None:
        """Count a record. Drop the series of policies that are no longer in force."""
        match record:
            case PodDecision():
                self._decisions.labels(record.policy, record.verdict, record.reason).inc()
            case PodOutcome():
                self._actions.labels(record.policy, record.action, record.result, record.reason).inc()
            case MoveDecision():
                self._moves.labels(record.policy, record.verdict, record.refusal or record.reason).inc()
            case PodsPlanned(policy, seconds):
                self._plans.labels(policy).observe(seconds)
            case MovesPlanned(policy, seconds):
                self._looks.labels(policy).observe(seconds)
            case PodsWaiting(policy, counts):
                self._waiting[policy] = counts
            case PoolsApplied(names):
                self._keep(names)
            case _:
                pass

    def _keep(self, names: AbstractSet[str]) -> None:
        self._waiting = {name: counts for name, counts in self._waiting.items() if name in names}
        for metric in (self._decisions, self._moves, self._actions, self._plans, self._looks):
            for labels in list(metric._metrics):  # noqa: SLF001  # it has no other list of them
                if labels[0] not in names:
                    metric.remove(*labels)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Gauges of waiting pods and moves in flight; called in another thread than the loop's."""
        gauge = GaugeMetricFamily("elasticd_waiting_pods", "Pods without a node.", labels=("policy", "reason"))
        for policy, counts in list(self._waiting.items()):
            for reason, count in counts.items():
                gauge.add_metric((policy, reason), count)
        yield gauge
        stuck = [move for move in self.moves if move.fault]
        for name, text, moves in (
            ("elasticd_moves_in_flight", "Pods that are being moved.", self.moves),
            ("elasticd_moves_in_trouble", "Those of them that cannot go on.", stuck),
        ):
            gauge = GaugeMetricFamily(name, text, labels=("how",))
            for how, count in Counted(move.how for move in moves).items():
                gauge.add_metric((how,), count)
            yield gauge


class DaemonMetrics:
    """Listens to the loops, and counts. All series are in a registry of their own."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each, that nobody asks for
        self._registry = registry = CollectorRegistry()
        self._latest = _Latest()
        self._sources = _Sources()
        registry.register(self._latest)
        registry.register(self._sources)
        self._lost = 0

        def make(kind: type[Any], name: str, text: str, labels: tuple[str, ...] = (), **options: Any) -> Any:
            return kind(f"elasticd_{name}", text, labels, registry=registry, **options)

        def count(name: str, text: str, owner: tuple[str, ...], *further: str) -> _Counts:
            counts = _Counts(name, text, owner, further)
            registry.register(counts)
            return counts

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
        self._pods = _PodMetrics(registry)

    def on(self, record: Notice) -> None:
        """Count a record. Drop the series of workloads and policies that are no longer governed."""
        match record:
            case Decision():
                self._note_decision(record)
            case Outcome():
                self._actions.add((record.policy, record.workload), record.result, record.reason, str(record.code))
            case Ticked(lag, unchanged):
                self._lag.observe(lag)
                self._unchanged.inc(unchanged)
            case Governed(keys):
                self._keep(keys)
            case _:
                self._pods.on(record)

    def _note_decision(self, decision: Decision) -> None:
        """Count a decision, and the series that it saw."""
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
        for series in decision.series:
            self._worth.add((series.source,), series.quality)
            if series.samples:
                self._ages.observe(series.source, max(0.0, decision.at - series.measured))

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

    def _keep(self, keys: AbstractSet[tuple[str, Ref]]) -> None:
        self._latest.decisions = {key: decision for key, decision in self._latest.decisions.items() if key in keys}
        for counter in (self._decisions, self._limited, self._actions, self._holds):
            counter.keep(keys)
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
        self._sources.reports, self._pods.moves = sources, moves
        self._leader.set(leading)
        self._journal.inc(max(0, journal_failures - self._lost))
        self._lost = max(self._lost, journal_failures)
        return generate_latest(self._registry)


def _labels(policy: str, ref: Ref) -> Labels:
    """The labels of a workload under a policy, in the order of their names."""
    return (policy, ref.namespace, ref.kind, ref.name)
