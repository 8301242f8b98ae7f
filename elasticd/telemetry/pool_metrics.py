"""The daemon's own metrics of placing and moving pods.

Knows prometheus-client and the records of placements. Series are of policies, not of pods: pods come and go.
"""

from collections import Counter as Counted
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily

from elasticd.model.listener import MovesPlanned, Notice, PodsPlanned, PodsWaiting, PoolsApplied
from elasticd.model.moves import MoveDecision, Underway
from elasticd.model.placement import PodDecision, PodOutcome

_TIMES = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30)


class PodMetrics:
    """Listens to the placer and the mover, and counts."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._waiting: dict[str, dict[str, int]] = {}
        self.moves: Sequence[Underway] = ()
        """The moves in flight."""
        registry.register(self)
        self._decisions = Counter(
            "elasticd_pod_decisions_total",
            "Decisions about pods that differ from the one before.",
            ("policy", "verdict", "reason"),
            registry=registry,
        )
        self._moves = Counter(
            "elasticd_move_decisions_total",
            "Decisions about pods that a strategy wants moved, which differ from the one before.",
            ("policy", "verdict", "reason"),
            registry=registry,
        )
        self._actions = Counter(
            "elasticd_pod_actions_total",
            "Bindings, evictions, nominations and steps of moves by what came of them; a move that is not done, once.",
            ("policy", "action", "result", "reason"),
            registry=registry,
        )
        self._plans = Histogram(
            "elasticd_pod_plan_duration_seconds",
            "Time to plan for the pods of a pool.",
            ("policy",),
            registry=registry,
            buckets=_TIMES,
        )

        self._looks = Histogram(
            "elasticd_move_plan_duration_seconds",
            "Time to plan at each look at a pool which pods leave their nodes.",
            ("policy",),
            registry=registry,
            buckets=_TIMES,
        )

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Gauges of waiting pods and moves in flight; called in another thread than the loop's."""
        gauge = GaugeMetricFamily("elasticd_waiting_pods", "Pods without a node.", labels=("policy", "reason"))
        for policy, counts in list(self._waiting.items()):
            for reason, count in counts.items():
                gauge.add_metric((policy, reason), count)
        yield gauge
        for name, text, counted in (
            ("elasticd_moves_in_flight", "Pods that are being moved.", self.moves),
            (
                "elasticd_moves_in_trouble",
                "Those of them that cannot go on.",
                [move for move in self.moves if move.fault],
            ),
        ):
            gauge = GaugeMetricFamily(name, text, labels=("how",))
            for how, count in Counted(move.how for move in counted).items():
                gauge.add_metric((how,), count)
            yield gauge

    def on(self, record: Notice) -> None:
        """Count what is decided and done about pods, and note how long plans took and who waits."""
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
                self._waiting[policy] = dict(counts)
            case PoolsApplied(names):
                self._keep(names)
            case _:
                pass

    def _keep(self, names: AbstractSet[str]) -> None:
        """Drop the series of policies that are no longer in force."""
        self._waiting = {name: counts for name, counts in self._waiting.items() if name in names}
        for metric in (self._decisions, self._moves, self._actions, self._plans, self._looks):
            for labels in list(metric._metrics):  # noqa: SLF001  # it has no other list of them
                if labels[0] not in names:
                    metric.remove(*labels)
