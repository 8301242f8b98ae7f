"""The daemon's own metrics, in Prometheus' names and units, made from the journal's records.

Knows prometheus-client; knows nothing of how a decision is made. The series of a workload vanish with it.
"""

from collections import Counter as Counted
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from elasticd.model.listener import Governed, MovesPlanned, Notice, PodsPlanned, PodsWaiting, PoolsApplied, Ticked
from elasticd.model.moves import MoveDecision, Underway
from elasticd.model.placement import PodDecision, PodOutcome
from elasticd.model.records import FOREIGN_OWNER, Decision, Outcome
from elasticd.model.workload import Ref
from elasticd.ports.cluster import LEFT_ALONE, OTHER_POLICIES, RECORDS, Kind
from elasticd.ports.source import Counts
from elasticd.sources.poller import SourceReport
from elasticd.telemetry.memory import memory

_WORKLOAD = ("policy", "namespace", "kind", "name")
_AGES = (1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 900.0)
_CHILDREN = 50
"""Series of one metric for one workload, at most. Plugins choose some labels, and might choose new ones for ever:
further ones are counted together, labelled `other`."""

F = TypeVar("F", CounterMetricFamily, GaugeMetricFamily)

Labels = tuple[str, ...]

Owner = tuple[Any, ...]
"""The owner of series: a policy's name and a Ref, which is cheap to look up, or a few labels."""

_LAGS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
_PLAN_TIMES = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30)


class _Counts:
    """A counter with series for each owner (a workload, a policy). It keeps plain numbers and makes the series at a
    scrape, because each decision counts several times: labels() and inc() cost ten times as much."""

    def __init__(self, name: str, text: str, owner: tuple[str, ...], further: tuple[str, ...]) -> None:
        self._name, self._text, self._labels = name, text, (*owner, *further)
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

    def collect(self) -> Iterator[Metric]:
        """The counter; called in another thread than the loop's."""
        rows = (
            ((*(_labels(*owner) if isinstance(owner[-1], Ref) else owner), *map(str, further)), count)
            for owner, counts in list(self._owners.items())
            for further, count in list(counts.items())
        )
        yield _family(CounterMetricFamily, self._name, self._text, self._labels, rows)


class _Collector(NamedTuple):
    """Makes families at a scrape, in another thread than the loop's: a scrape is rare, a decision is not."""

    collect: Callable[[], Iterable[Metric]]


class Described(NamedTuple):
    """A metric as the reference shows it; a counter's name as its series have it."""

    name: str
    kind: str
    labels: Labels
    text: str


def _family(kind: type[F], name: str, text: str, labels: Labels, rows: Iterable[tuple[Labels, float | None]]) -> F:
    family = kind(f"elasticd_{name}", text, labels=labels)
    for values, value in rows:
        if value is not None:
            family.add_metric(values, value)
    return family


def _collect_decisions(latest: Iterable[Decision]) -> Iterator[Metric]:

    def gauge(name: str, text: str, rows: Iterable[tuple[Labels, float | None]], *labels: str) -> Metric:
        return _family(GaugeMetricFamily, name, text, (*_WORKLOAD, *labels), rows)

    decisions = [(_labels(decision.policy, decision.workload), decision) for decision in latest]
    present = [(labels, decision) for labels, decision in decisions if decision.uid]  # others have not 0 replicas
    rows = [(labels, decision.current) for labels, decision in present]
    yield gauge("current_replicas", "Replicas the workload asks for.", rows)
    rows = [(labels, decision.replicas) for labels, decision in present]
    yield gauge("wanted_replicas", "Replicas decided on, after all limits.", rows)
    text = "1 where it is not known what the workload needs."
    yield gauge("blind", text, [(labels, decision.blind) for labels, decision in decisions])
    intervals = [(labels, decision.interval) for labels, decision in decisions]
    yield gauge("poll_interval_seconds", "Poll interval in force.", intervals)
    wishes = [(labels, wish) for labels, decision in decisions for wish in decision.recommendations]
    wanted = [((*labels, wish.strategy), wish.replicas) for labels, wish in wishes]
    yield gauge("recommended_replicas", "Replicas a strategy wants.", wanted, "strategy")
    sized = [(labels, container) for labels, decision in decisions for container in decision.sizing.resources]
    for resource, unit in (("cpu", "cores"), ("memory", "bytes")):
        name = f"{resource}_{unit}"
        has = [((*labels, container.container), container.present.get(resource)) for labels, container in sized]
        yield gauge(f"requested_{name}", "What a container requests.", has, "container")
        should = [((*labels, container.container), container.requests.get(resource)) for labels, container in sized]
        yield gauge(f"recommended_{name}", "What it should.", should, "container")


def _collect_sources(reports: Iterable[SourceReport]) -> Iterator[Metric]:

    def gauge(name: str, text: str, values: Mapping[str, float | None]) -> Metric:
        rows = (((source,), value) for source, value in values.items())
        return _family(GaugeMetricFamily, f"source_{name}", text, ("source",), rows)

    told = [report for report in reports if not report.quiet]
    text = "1 where a source's last read was good; none while nobody reads it, or it is learning."
    yield gauge("up", text, {report.name: report.health == "ok" for report in told})
    text = "Age of its newest sample, likewise."
    yield gauge("age_seconds", text, {report.name: report.age for report in told})
    text = "Time between its renewals, if known."
    yield gauge("resolution_seconds", text, {report.name: report.resolution for report in reports})
    counts = [(report.name, report.details.counts()) for report in reports if isinstance(report.details, Counts)]
    messages = [((name, result), count) for name, results in counts for result, count in results.items()]
    text = "Messages by what became of them."
    yield _family(CounterMetricFamily, "source_messages", text, ("source", "result"), messages)


def _collect_views(ages: Mapping[str, float]) -> Iterator[Metric]:
    text = (
        "Time since the API server last proved current what is known of a kind that is watched, or since it is asked."
    )
    rows = [((kind,), age) for kind, age in ages.items()]
    yield _family(GaugeMetricFamily, "view_age_seconds", text, ("kind",), rows)


def _collect_memory() -> Iterator[Metric]:
    present = memory()
    for name, text, value in (
        ("memory_bytes", "Memory in use of the control group that limits it.", present and present.used),
        ("memory_limit_bytes", "The limit of that memory.", present and present.limit),
    ):
        yield _family(GaugeMetricFamily, name, text, (), [((), value)])


class _PodMetrics:
    """Counts what is decided and done about pods. Series are of policies, not of pods, which are short-lived."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._waiting: dict[str, Mapping[str, int]] = {}
        self._failing: dict[str, int] = {}
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
            case MovesPlanned(policy, seconds, failing):
                self._looks.labels(policy).observe(seconds)
                self._failing[policy] = failing
            case PodsWaiting(policy, counts):
                self._waiting[policy] = counts
            case PoolsApplied(names):
                self._keep(names)
            case _:
                pass

    def _keep(self, names: AbstractSet[str]) -> None:
        self._waiting = {name: counts for name, counts in self._waiting.items() if name in names}
        self._failing = {name: count for name, count in self._failing.items() if name in names}
        for metric in (self._decisions, self._moves, self._actions, self._plans, self._looks):
            for labels in list(metric._metrics):  # noqa: SLF001  # it has no other list of them
                if labels[0] not in names:
                    metric.remove(*labels)

    def collect(self) -> Iterator[Metric]:
        """Gauges of waiting pods and moves in flight; called in another thread than the loop's."""
        waiting = [
            ((policy, reason), count)
            for policy, counts in list(self._waiting.items())
            for reason, count in counts.items()
        ]
        yield _family(GaugeMetricFamily, "waiting_pods", "Pods without a node.", ("policy", "reason"), waiting)
        failing = [((policy,), count) for policy, count in list(self._failing.items())]
        text = "Pods whose evictions failed when they were last tried, as the API server did not do them."
        yield _family(GaugeMetricFamily, "moves_failing", text, ("policy",), failing)
        going = [move for move in self.moves if not move.over]
        stuck = [move for move in going if move.fault]
        for name, text, moves in (
            ("moves_in_flight", "Pods that are being moved.", going),
            ("moves_in_trouble", "Those of them that cannot go on.", stuck),
        ):
            rows = (((how,), count) for how, count in Counted(move.how for move in moves).items())
            yield _family(GaugeMetricFamily, name, text, ("how",), rows)


_PROBLEMS = {
    OTHER_POLICIES: ("leader_policies_differ", "1 while another daemon leads with other policies than this one's."),
    LEFT_ALONE: (
        "restore_records_left_alone",
        "1 while there are ConfigMaps that do not count as records of evicted pods.",
    ),
    RECORDS: (
        "restore_records_unread",
        "1 while records of evicted pods cannot be read, so that pods may not be recreated.",
    ),
}
"""Problems of the cluster that are a metric: its name and help."""


class ClusterHealth(NamedTuple):
    """The problems of a cluster, and how old, in seconds, what is known of each kind that is watched is."""

    problems: Mapping[Kind, str] = MappingProxyType({})
    view_ages: Mapping[str, float] = MappingProxyType({})


class DaemonMetrics:
    """Listens to the loops, and counts. All series are in a registry of their own."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each, that nobody asks for
        self._registry = registry = CollectorRegistry()
        self._latest: dict[tuple[str, Ref], Decision] = {}
        self._sources: Sequence[SourceReport] = ()
        self._lost = 0
        self._age_by_source: dict[str, Histogram] = {}
        self._cluster = ClusterHealth()
        for collect in (
            lambda: _collect_decisions(list(self._latest.values())),
            lambda: _collect_sources(self._sources),
            lambda: _collect_views(self._cluster.view_ages),
            _collect_memory,
        ):
            registry.register(_Collector(collect))

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
        text = "Age of the newest sample when judged."
        self._ages = make(Histogram, "sample_age_seconds", text, ("source",), buckets=_AGES)
        self._ticks = make(Counter, "ticks_total", "Ticks that ended, also those in which nothing was due.")
        self._lag = make(Histogram, "loop_lag_seconds", "How late ticks began.", buckets=_LAGS)
        self._blockages = make(Counter, "loop_blockages_total", "Times that the event loop did not turn for 5 s.")
        self._unchanged = make(Counter, "unchanged_total", "Polls whose samples had not moved.")
        self._calls = make(Counter, "api_calls_total", "Calls of the Kubernetes API.", ("verb", "resource", "code"))
        self._call_time = make(Histogram, "api_call_duration_seconds", "Time of those calls.", ("verb",))
        self._reads = make(Counter, "source_reads_total", "Reads of a source.", ("source", "result"))
        self._read_time = make(Histogram, "source_read_duration_seconds", "Time of those reads.", ("source",))
        self._leader = make(Gauge, "leader", "1 where this daemon may act; 0 in a dry run.")
        self._problems = {kind: make(Gauge, name, text) for kind, (name, text) in _PROBLEMS.items()}
        self._journal = make(Counter, "journal_write_failures_total", "Records that could not be written to disk.")
        text = "0 while the journal cannot be written: its disk refuses a record, or does not answer."
        self._writable = make(Gauge, "journal_writable", text)
        self._reloads = make(Counter, "config_reloads_total", "Reloads of the policies.", ("result",))
        text = "1 unless the last reload was refused."
        self._valid = make(Gauge, "config_last_reload_successful", text)
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
                self._ticks.inc()
                self._unchanged.inc(unchanged)
                if lag is not None:
                    self._lag.observe(lag)
            case Governed(keys):
                self._keep(keys)
            case _:
                self._pods.on(record)

    def _note_decision(self, decision: Decision) -> None:
        owner = decision.policy, decision.workload
        self._latest[owner] = decision
        self._decisions.add(owner, decision.verdict)
        for limit in decision.limits:
            if limit.bound:
                self._limited.add(owner, limit.name, limit.reason)
        if decision.sizing.foreign:
            self._limited.add(owner, "requests", FOREIGN_OWNER)
        if decision.verdict == "hold":
            self._holds.add(owner, decision.reason)
        for failure in decision.failures:
            self._failures.add((decision.policy,), failure.plugin, failure.hook)
        for series in decision.series:
            self._worth.add((series.source,), series.quality)
            if series.samples:
                self._age_of(series.source).observe(max(0.0, decision.at - series.measured))

    def _age_of(self, source: str) -> Histogram:
        """The histogram of a source's ages; labels() takes longer than to observe one."""
        if source not in self._age_by_source:
            source = source if len(self._age_by_source) < _CHILDREN else "other"
            self._age_by_source[source] = self._ages.labels(source)
        return self._age_by_source[source]

    def called(self, verb: str, resource: str, code: int, seconds: float) -> None:
        """Count a call of the Kubernetes API; code 0: no answer."""
        self._calls.labels(verb, resource, str(code)).inc()
        self._call_time.labels(verb).observe(seconds)

    def read(self, source: str, seconds: float, ok: bool) -> None:
        self._reads.labels(source, "done" if ok else "failed").inc()
        self._read_time.labels(source).observe(seconds)

    def blocked(self) -> None:
        """Count a blockage of the event loop; called in the watchdog's thread."""
        self._blockages.inc()

    def reloaded(self, policies: int, *, ok: bool) -> None:
        self._reloads.labels("done" if ok else "refused").inc()
        self._valid.set(ok)
        if ok:
            self._policies.set(policies)

    def _keep(self, keys: AbstractSet[tuple[str, Ref]]) -> None:
        self._latest = {key: decision for key, decision in self._latest.items() if key in keys}
        for counter in (self._decisions, self._limited, self._actions, self._holds):
            counter.keep(keys)
        self._failures.keep({(policy,) for policy, _ in keys})

    def described(self) -> Iterator[Described]:
        """Every metric, whether it has a series or not."""
        for collector in self._registry._collector_to_names:  # noqa: SLF001  # it has no other list of them
            for family in collector.collect():
                owner: Any = family if hasattr(family, "_labelnames") else collector
                name = family.name + "_total" * (family.type == "counter")
                yield Described(name, family.type, tuple(owner._labelnames), family.documentation)  # noqa: SLF001

    def render(
        self,
        *,
        leading: bool,
        journal_failures: int,
        journal_writable: bool = True,
        sources: Sequence[SourceReport] = (),
        moves: Sequence[Underway] = (),
        cluster: ClusterHealth = ClusterHealth(),  # noqa: B008  # nothing changes it
    ) -> bytes:
        """The exposition text. Takes milliseconds for thousands of workloads: call it outside the loop."""
        self._sources, self._pods.moves, self._cluster = sources, moves, cluster
        self._leader.set(leading)
        for kind, gauge in self._problems.items():
            gauge.set(kind in cluster.problems)
        self._writable.set(journal_writable)
        self._journal.inc(max(0, journal_failures - self._lost))
        self._lost = max(self._lost, journal_failures)
        return generate_latest(self._registry)


def _labels(policy: str, ref: Ref) -> Labels:
    return (policy, ref.namespace, ref.kind, ref.name)
