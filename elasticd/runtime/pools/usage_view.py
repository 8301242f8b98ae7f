"""What is known of a pool's nodes and pods beside the cluster itself: their usage, and recent actions on them.

Knows readings and how long they can be trusted; knows no rule. What it remembers is lost with the process; after a
restart peaks begin with the present usage.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import isfinite

from msgspec import Struct
from msgspec.structs import replace

from elasticd.base.backoff import Backoff
from elasticd.decision.pool.order import in_order
from elasticd.decision.quality import FUTURE
from elasticd.kit.node_table import ESTIMATE, estimated
from elasticd.model.actions import OUTDATED, Bind, BindClaim, Evict, Nominate
from elasticd.model.moves import whose
from elasticd.model.placement import DisruptionBudget, PodOutcome
from elasticd.model.policy import Order, PoolPolicy
from elasticd.model.workload import Pod, Readings, Ref, Sample
from elasticd.ports.cluster import Stray

NEW = 60.0
"""Seconds after its binding during which a node's measured usage is not yet thought to contain a pod's share."""

KEPT = 1000
"""Evictions of one controller's pods that are remembered, at most."""

HOUR = 3600.0
"""Seconds that a controller may take to replace an evicted pod, and for which it counts that a node rejected one."""

MINUTE = 60.0
"""Seconds for which it counts that a webhook failed for a node."""

SHOWN = 30.0
"""Seconds after which the cluster must show the effect of an action."""

SPARED = 60.0
"""Seconds for which a pod whose eviction was refused is not evicted again, unless it is only judged anew."""

STANDING = frozenset({"NotRestorable", "CopyDiffers", "ResizeInfeasible", "Budgets"})
"""Refusals that nothing which is watched would show to be over: they are remembered for longer each time."""

BACKOFF = Backoff(SPARED, 600.0)
"""Before the eviction of a pod is tried again that such a refusal met."""

By = Mapping[str, Mapping[str, float]]
Sums = dict[str, tuple[float, float]]
"""By subject: the sum of its samples, and when the oldest was measured."""


class KnownUsage(Struct, frozen=True, eq=False):
    """Usage by series and name: of nodes as measured plus the estimated share of new pods (`use`), the nodes' recent
    peaks, of pods, and of nodes as measured alone."""

    use: By
    peaks: By
    pods: By
    measured: By


class WantedSeries(Struct, frozen=True):
    """The names of the series of nodes, and of pods, that a pool's strategies look at."""

    nodes: frozenset[str]
    pods: frozenset[str]


class _Refusal(Struct, frozen=True):
    """That the eviction of a pod was refused: when, why, and how often in a row for that reason."""

    pod: Ref
    at: float
    reason: str
    in_a_row: int

    @property
    def until(self) -> float:
        """Until when the pod is not evicted again."""
        return self.at + (BACKOFF.delay(self.in_a_row) if self.reason in STANDING else SPARED)

    @property
    def remembered_until(self) -> float:
        """Until when another refusal is the next in a row."""
        return self.at + 2 * BACKOFF.delay(self.in_a_row)

    def budget(self, uid: str) -> DisruptionBudget:
        """A budget that does not let the pod go."""
        why = "not let go when last tried" + (f" ({self.reason})" if self.reason else "")
        remedy = "[disruption] lets more pods go" if self.reason == "Disturbed" else ""
        return DisruptionBudget(self.pod.namespace, self.pod.name, frozenset({uid}), 0, why, remedy)


class UsageView:
    """Usage and recent actions, shared by all pools."""

    def __init__(self) -> None:
        self.gave_way: dict[str, int] = {}
        self.returned: dict[str, float] = {}
        """When pending pods last found no place, by UID."""
        self._bound: dict[str, tuple[Pod, str, float]] = {}
        self._evicted: dict[str, deque[float]] = {}
        self._stands_for: dict[str, float] = {}
        self._leaving: dict[str, tuple[str, float]] = {}
        self._nominated: dict[str, tuple[str, float]] = {}
        self._spared: dict[str, _Refusal] = {}
        self._doubtful: dict[str, tuple[str, float]] = {}
        self._rejecting: dict[str, dict[str, float]] = {}
        """When the API server last refused to bind a pod, by whose it is, to which node."""
        self._webhook_failed: dict[str, tuple[str, float]] = {}
        """By whose pod it was, the node for which a webhook last failed to answer a binding, and when."""
        self._looked_at = 0.0
        self._used: dict[str, tuple[Mapping[str, float], float]] = {}
        self._peaks: dict[tuple[str, str, str], deque[tuple[float, float]]] = {}

    def look(
        self,
        policy: PoolPolicy,
        wants: WantedSeries,
        readings: Sequence[Readings],
        now: float,
        strays: Sequence[Stray] = (),
    ) -> KnownUsage:
        """Sum up the trusted readings. The use of strays is counted on the node where they are seen."""
        oldest = now - policy.max_age
        nodes = {
            name: _sum_trusted([reading.nodes.get(name, {}) for reading in readings], oldest, now)
            for name in wants.nodes
        }
        self._bound = {uid: bound for uid, bound in self._bound.items() if now - bound[2] <= NEW + policy.max_age}
        peaks = {name: self._update_peaks(policy, name, by_node, now) for name, by_node in nodes.items()}
        pods = {
            name: _sum_trusted([reading.pods.get(name, {}) for reading in readings], oldest, now) for name in wants.pods
        }
        pod_use = {name: {pod: value for pod, (value, _) in by_pod.items()} for name, by_pod in pods.items()}
        node_use = {name: {node: value for node, (value, _) in by_node.items()} for name, by_node in nodes.items()}
        measured = _move_strays(node_use, pod_use, strays) if strays else node_use
        stray_uids = frozenset(stray.pod.uid for stray in strays)
        use = {name: self._estimate(name, measured[name], by_node, stray_uids) for name, by_node in nodes.items()}
        return KnownUsage(use, peaks, pod_use, measured)

    def _estimate(
        self, series: str, measured: dict[str, float], by_node: Sums, stray_uids: Collection[str]
    ) -> Mapping[str, float]:
        """Add the estimated use of pods that were bound too late to be in the measurement, without strays, whose use is
        in `measured` already."""
        if series not in ESTIMATE or not self._bound:
            return measured
        use = dict(measured)
        for pod, node, bound_at in self._bound.values():
            sample = by_node.get(node)
            if sample is not None and sample[1] < bound_at + NEW and pod.uid not in stray_uids:
                pod_use = self._used.get(whose(pod), ({}, 0.0))[0].get(series)
                use[node] += estimated(pod, series) if pod_use is None else pod_use
        return use

    def _update_peaks(self, policy: PoolPolicy, series: str, by_node: Sums, now: float) -> dict[str, float]:
        peaks: dict[str, float] = {}
        for node, (value, measured) in by_node.items():
            window = self._peaks.setdefault((policy.name, series, node), deque())
            # The largest first, each smaller one behind only if it is newer: it is the peak when those before are old.
            if not window or window[-1][0] < measured:
                while window and window[-1][1] <= value:
                    window.pop()
                window.append((measured, value))
            while len(window) > 1 and window[0][0] < now - policy.pool.peak_window:
                window.popleft()
            peaks[node] = window[0][1]
        return peaks

    def in_order(self, pods: Sequence[Pod], by: Order) -> tuple[Pod, ...]:
        """Pending pods in the order in which they are placed."""
        return in_order(pods, by, self.moved(pods), self.returned)

    def did(self, pod: Pod, action: Bind | BindClaim | Evict | Nominate, outcome: PodOutcome) -> None:
        """Take in the outcome of an action for a pending pod."""
        is_done = outcome.result == "done"
        match action:
            case Bind() if is_done:
                self._bound[pod.uid] = pod, action.node, outcome.at
                self.gave_way.pop(pod.uid, None)
            case Bind() if outcome.result == "failed":
                self._not_bound(pod, action.node, outcome)
            case Evict():
                if self.evicted(action, outcome):
                    self.gave_way[pod.uid] = self.gave_way.get(pod.uid, 0) + 1
            case Nominate() if is_done:
                self._nominated[pod.uid] = action.node, outcome.at

    def _not_bound(self, pod: Pod, node: str, outcome: PodOutcome) -> None:
        """Take in that a binding failed. A webhook that fails for all nodes is no fault of any: only the node for which
        it failed last is avoided, so that the first two are tried in turn."""
        if _is_about_the_node(outcome):
            self._rejecting.setdefault(whose(pod), {})[node] = outcome.at
        elif outcome.code == 0 or outcome.code >= 500:
            self._doubtful[pod.uid] = node, outcome.at
            if outcome.code == 500 and "webhook" in outcome.message:
                self._webhook_failed[whose(pod)] = node, outcome.at

    def evicted(self, action: Evict, outcome: PodOutcome) -> bool:
        """Take in the outcome of an eviction; whether we evicted the pod: it may also have left by itself."""
        if outcome.result == "refused" and outcome.reason != OUTDATED:
            before = self._spared.get(action.uid)
            in_a_row = before.in_a_row if before is not None and before.reason == outcome.reason else 0
            self._spared[action.uid] = _Refusal(action.workload, outcome.at, outcome.reason, in_a_row + 1)
        if outcome.result != "done":
            return False
        self._leaving[action.uid] = action.node, outcome.at
        self._bound.pop(action.uid, None)
        if not outcome.reason:
            self.replaced(action, outcome.at)
        return not outcome.reason

    def moved_with(self, pod: Pod, use: Mapping[str, float], at: float) -> None:
        """Remember what a moved pod used, by series, as the estimate for its replacement."""
        self._used[whose(pod)] = use, at

    def replaced(self, action: Evict, at: float) -> None:
        """Count a replacement that the pod's controller is going to make."""
        if action.owner:
            self._evicted.setdefault(action.owner, deque(maxlen=KEPT)).append(at)

    def doubtful(self, pod: Pod) -> str:
        """The node of a binding that failed without a clear answer, so that the pod may be bound; empty: none."""
        return self._doubtful.get(pod.uid, ("", 0.0))[0]

    def rejected_by(self, pod: Pod) -> frozenset[str]:
        """The nodes to which the API server refused to bind the pod, or another of its controller, within an hour; and
        the last one for which a webhook failed, within a minute."""
        failed = self._webhook_failed.get(whose(pod))
        return frozenset((*self._rejecting.get(whose(pod), ()), *((failed[0],) if failed else ())))

    def forget(self, alive: Collection[str], now: float) -> None:
        """Forget pods that no longer wait (`alive` are the UIDs of those that do), and what is old."""
        self.gave_way = {uid: count for uid, count in self.gave_way.items() if uid in alive}
        self.returned = {uid: at for uid, at in self.returned.items() if uid in alive}
        self._stands_for = {uid: at for uid, at in self._stands_for.items() if uid in alive}
        self._nominated = {
            uid: nomination
            for uid, nomination in self._nominated.items()
            if uid in alive and now - nomination[1] <= SHOWN
        }
        self._leaving = {uid: departure for uid, departure in self._leaving.items() if now - departure[1] <= SHOWN}
        self._doubtful = {
            uid: doubt for uid, doubt in self._doubtful.items() if uid in alive and now - doubt[1] <= SHOWN
        }
        self._rejecting = {
            key: fresh
            for key, nodes in self._rejecting.items()
            if (fresh := {node: at for node, at in nodes.items() if now - at <= HOUR})
        }
        self._webhook_failed = {
            key: failure for key, failure in self._webhook_failed.items() if now - failure[1] <= MINUTE
        }
        self._spared = {uid: refusal for uid, refusal in self._spared.items() if now <= refusal.remembered_until}
        self._looked_at = now
        self._used = {key: use for key, use in self._used.items() if now - use[1] <= HOUR}
        self._evicted = {owner: times for owner, times in self._evicted.items() if now - times[-1] <= HOUR}

    def noted(self, pod: Pod) -> Pod:
        """A pending pod with its nomination as it was last written, which the cluster may not show yet."""
        node, _ = self._nominated.get(pod.uid, (pod.nominated, 0.0))
        return pod if node == pod.nominated else replace(pod, nominated=node)

    def leaving(self) -> dict[str, str]:
        """The nodes of recently evicted pods, by the pods' UIDs: the cluster may still show them as staying."""
        return {uid: node for uid, (node, _) in self._leaving.items()}

    def spared(self) -> tuple[DisruptionBudget, ...]:
        """A budget of zero for each pod whose eviction was refused recently."""
        return tuple([refusal.budget(uid) for uid, refusal in self._spared.items() if self._looked_at <= refusal.until])

    def moved(self, pods: Iterable[Pod]) -> dict[str, float]:
        """By a pending pod's UID, when the pod was evicted that it replaces: its controller made it after that. Each
        eviction is matched with one replacement."""
        for pod in sorted(pods, key=lambda pod: (pod.created, pod.name)) if self._evicted else ():
            times = self._evicted.get(pod.owner[2])
            # An API server tells creation in whole seconds.
            if times and pod.uid not in self._stands_for and times[0] <= pod.created + 1.0:
                self._stands_for[pod.uid] = times.popleft()
                if not times:
                    del self._evicted[pod.owner[2]]
        return dict(self._stands_for)


def _move_strays(
    measured: Mapping[str, dict[str, float]], used: By, strays: Sequence[Stray]
) -> dict[str, dict[str, float]]:
    """The usage of nodes as if strays ran where they are seen; their use is estimated where it was not measured."""
    corrected = {series: dict(by_node) for series, by_node in measured.items()}
    for series, by_node in corrected.items():
        by_pod = used.get(series, {})
        for pod, really_on, seen_on in strays:
            amount = by_pod.get(f"{pod.namespace}/{pod.name}", estimated(pod, series))
            if really_on in by_node:
                by_node[really_on] = max(0.0, by_node[really_on] - amount)
            if seen_on in by_node:
                by_node[seen_on] += amount
    return corrected


def _sum_trusted(readings: Iterable[Mapping[str, Sequence[Sample]]], since: float, now: float) -> Sums:
    """By the first source of which all samples of a subject are good."""
    trusted: Sums = {}
    for subjects in readings:
        for subject, samples in subjects.items():
            if subject in trusted or not samples:
                continue
            total, good = 0.0, True
            oldest = newest = samples[0].measured
            for sample in samples:  # by hand: there are very many subjects, nearly all with one sample
                total += sample.value
                if sample.measured < oldest:
                    oldest = sample.measured
                elif sample.measured > newest:
                    newest = sample.measured
                if not sample.value >= 0:
                    good = False
            if good and isfinite(total) and oldest >= since and newest <= now + FUTURE:
                trusted[subject] = total, oldest
    return trusted


def _is_about_the_node(outcome: PodOutcome) -> bool:
    """Whether a binding that failed may succeed on another node: the server refused what was asked for, not who asked
    (401, or 403 for a right that is lacking) or how often (429)."""
    if not 400 <= outcome.code < 500 or outcome.code in (401, 429):
        return False
    return outcome.code != 403 or " cannot " not in outcome.message
