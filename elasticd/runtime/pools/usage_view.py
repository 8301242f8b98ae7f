"""What is known of a pool's nodes and pods beside the cluster itself: what they use, and what was done to them of late.

Knows readings and how long they can be trusted; knows no rule. What it remembers is lost with the process, and is found
again by looking: peaks begin with what is used now.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import isfinite

from msgspec import Struct
from msgspec.structs import replace

from elasticd.decision.pool.order import in_order
from elasticd.decision.quality import FUTURE
from elasticd.kit.node_table import ESTIMATE, estimated
from elasticd.model.actions import Bind, Evict, Nominate
from elasticd.model.moves import whose
from elasticd.model.placement import DisruptionBudget, PodDecision, PodOutcome
from elasticd.model.policy import Order, PoolPolicy
from elasticd.model.workload import Pod, Readings, Ref, Sample
from elasticd.ports.cluster import Stray

NEW = 60.0
"""Seconds after it was bound for which what a node is measured to use is not thought to hold a pod's share yet."""

KEPT = 1000
"""Of one controller's pods that were evicted, how many are remembered."""

HOUR = 3600.0
"""Seconds for which a controller may take to make a pod in place of one that was evicted."""

SHOWN = 30.0
"""Seconds after which what was done must have shown in what the cluster tells."""

SPARED = 60.0
"""Seconds for which a pod whose eviction was refused is not asked to go again."""

By = Mapping[str, Mapping[str, float]]


class KnownUsage(Struct, frozen=True, eq=False):
    """What nodes use (measured, with what new pods are thought to add), the most they used of late, what pods use, and
    what nodes were measured to use and nothing else; each by series."""

    use: By
    peaks: By
    pods: By
    measured: By


class WantedSeries(Struct, frozen=True):
    """The names of the series of nodes, and of pods, that a pool's strategies look at."""

    nodes: frozenset[str]
    pods: frozenset[str]


class UsageView:
    """All pools'."""

    def __init__(self) -> None:
        self.gave_way: dict[str, int] = {}
        self.returned: dict[str, float] = {}
        """When pending pods last found no place, by UID."""
        self._bound: dict[str, tuple[Pod, str, float]] = {}
        self._evicted: dict[str, deque[float]] = {}
        self._stand_for: dict[str, float] = {}
        self._leaving: dict[str, tuple[str, float]] = {}
        self._nominated: dict[str, tuple[str, float]] = {}
        self._spared: dict[str, tuple[Ref, float, str]] = {}
        self._doubtful: dict[str, tuple[str, float]] = {}
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
        """What sources say now; of pods that are seen elsewhere than they are, as if it had been measured there."""
        oldest = now - policy.max_age
        at = {name: _trusted([said.nodes.get(name, {}) for said in readings], oldest, now) for name in wants.nodes}
        self._bound = {uid: one for uid, one in self._bound.items() if now - one[2] <= NEW + policy.max_age}
        peaks = {name: self._peak(policy, name, found, now) for name, found in at.items()}
        pods = {name: _trusted([said.pods.get(name, {}) for said in readings], oldest, now) for name in wants.pods}
        used = {name: {pod: one[0] for pod, one in found.items()} for name, found in pods.items()}
        plain = {name: {node: value for node, (value, _) in found.items()} for name, found in at.items()}
        measured = _strayed(plain, used, strays) if strays else plain
        told = frozenset(stray.pod.uid for stray in strays)
        use = {name: self._estimate(name, measured[name], found, told) for name, found in at.items()}
        return KnownUsage(use, peaks, used, measured)

    def _estimate(
        self,
        series: str,
        measured: dict[str, float],
        at: Mapping[str, tuple[float, float]],
        told: Collection[str],
    ) -> Mapping[str, float]:
        """What is measured, with what those add that were bound too late to be in it, but for those that it is told of
        already."""
        if series not in ESTIMATE or not self._bound:
            return measured
        use = dict(measured)
        for pod, node, bound in self._bound.values():
            found = at.get(node)
            if found is not None and found[1] < bound + NEW and pod.uid not in told:
                known = self._used.get(whose(pod), ({}, 0.0))[0].get(series)
                use[node] += estimated(pod, series) if known is None else known
        return use

    def _peak(
        self, policy: PoolPolicy, series: str, found: Mapping[str, tuple[float, float]], now: float
    ) -> dict[str, float]:
        peaks: dict[str, float] = {}
        for node, (value, measured) in found.items():
            kept = self._peaks.setdefault((policy.name, series, node), deque())
            # The largest first, each smaller one behind only if it is newer: it is the peak when those before are old.
            if not kept or kept[-1][0] < measured:
                while kept and kept[-1][1] <= value:
                    kept.pop()
                kept.append((measured, value))
            while len(kept) > 1 and kept[0][0] < now - policy.pool.peak_window:
                kept.popleft()
            peaks[node] = kept[0][1]
        return peaks

    def in_order(self, pods: Sequence[Pod], by: Order) -> tuple[Pod, ...]:
        """Pending pods in the order in which they are placed."""
        return in_order(pods, by, self.moved(pods), self.returned)

    def decided(self, decision: PodDecision, now: float) -> None:
        """Something was decided about a pending pod."""
        if decision.verdict == "wait":
            self.returned[decision.uid] = now

    def did(self, pod: Pod, action: Bind | Evict | Nominate, outcome: PodOutcome) -> None:
        """Something was done for a pending pod, or was not."""
        done = outcome.result == "done"
        match action:
            case Bind() if done:
                self._bound[pod.uid] = pod, action.node, outcome.at
                self.gave_way.pop(pod.uid, None)
            case Bind() if outcome.result == "failed" and (outcome.code == 0 or outcome.code >= 500):
                self._doubtful[pod.uid] = action.node, outcome.at
            case Evict():
                if self.evicted(action, outcome):
                    self.gave_way[pod.uid] = self.gave_way.get(pod.uid, 0) + 1
            case Nominate() if done:
                self._nominated[pod.uid] = action.node, outcome.at

    def evicted(self, action: Evict, outcome: PodOutcome) -> bool:
        """A pod was evicted, or was not; whether it was, and by us: one may have left by itself."""
        if outcome.result == "refused":
            self._spared[action.uid] = action.workload, outcome.at, outcome.reason
        if outcome.result != "done":
            return False
        self._leaving[action.uid] = action.node, outcome.at
        self._bound.pop(action.uid, None)
        if not outcome.reason:
            self.replaced(action, outcome.at)
        return not outcome.reason

    def moved_with(self, pod: Pod, use: Mapping[str, float], at: float) -> None:
        """A pod is moved that used so much, by series: what comes in its place is thought to use that, too."""
        self._used[whose(pod)] = use, at

    def replaced(self, action: Evict, at: float) -> None:
        """Another is made first for a pod, which stays until that is ready."""
        if action.owner:
            self._evicted.setdefault(action.owner, deque(maxlen=KEPT)).append(at)

    def doubtful(self, pod: Pod) -> str:
        """The node to which a pending pod may have been bound, though it was not heard whether; empty: none."""
        return self._doubtful.get(pod.uid, ("", 0.0))[0]

    def forget(self, alive: Collection[str], now: float) -> None:
        """Let go of what is known of pods that wait no longer (`alive`: those that do, by UID), and of what is old."""
        self.gave_way = {uid: count for uid, count in self.gave_way.items() if uid in alive}
        self.returned = {uid: at for uid, at in self.returned.items() if uid in alive}
        self._stand_for = {uid: at for uid, at in self._stand_for.items() if uid in alive}
        self._nominated = {uid: one for uid, one in self._nominated.items() if uid in alive and now - one[1] <= SHOWN}
        self._leaving = {uid: one for uid, one in self._leaving.items() if now - one[1] <= SHOWN}
        self._doubtful = {uid: one for uid, one in self._doubtful.items() if uid in alive and now - one[1] <= SHOWN}
        self._spared = {uid: one for uid, one in self._spared.items() if now - one[1] <= SPARED}
        self._used = {key: one for key, one in self._used.items() if now - one[1] <= HOUR}
        self._evicted = {owner: times for owner, times in self._evicted.items() if now - times[-1] <= HOUR}

    def noted(self, pod: Pod) -> Pod:
        """A pending pod with the node that was noted on it, or taken away from it, though that is not seen yet."""
        node, _ = self._nominated.get(pod.uid, (pod.nominated, 0.0))
        return pod if node == pod.nominated else replace(pod, nominated=node)

    def leaving(self) -> dict[str, str]:
        """The nodes of pods that were evicted and may not be seen to leave yet, by the pods' UIDs."""
        return {uid: node for uid, (node, _) in self._leaving.items()}

    def spared(self) -> tuple[DisruptionBudget, ...]:
        """Pods whose eviction was refused of late, as budgets that let none of them go."""
        return tuple(_refused(uid, ref, why) for uid, (ref, _, why) in self._spared.items())

    def moved(self, pods: Iterable[Pod]) -> dict[str, float]:
        """When the pod that a pending one stands for was evicted, by UID: its controller lost one, and made this after
        that. An eviction is made up for once."""
        for pod in sorted(pods, key=lambda one: (one.created, one.name)) if self._evicted else ():
            times = self._evicted.get(pod.owner[2])
            # An API server tells creation in whole seconds.
            if times and pod.uid not in self._stand_for and times[0] <= pod.created + 1.0:
                self._stand_for[pod.uid] = times.popleft()
                if not times:
                    del self._evicted[pod.owner[2]]
        return dict(self._stand_for)


def _refused(uid: str, ref: Ref, reason: str) -> DisruptionBudget:
    told = "were not let go a moment ago" + (f" ({reason})" if reason else "")
    mend = "[disruption] lets more pods go" if reason == "Disturbed" else ""
    return DisruptionBudget(ref.namespace, ref.name, frozenset({uid}), 0, told, mend)


def _strayed(
    measured: Mapping[str, dict[str, float]], used: By, strays: Sequence[Stray]
) -> dict[str, dict[str, float]]:
    """What would be measured if pods were where they are seen: of one whose use is not known, what it is thought to
    use."""
    found = {series: dict(by_node) for series, by_node in measured.items()}
    for series, by_node in found.items():
        by_pod = used.get(series, {})
        for pod, really, seen in strays:
            amount = by_pod.get(f"{pod.namespace}/{pod.name}", estimated(pod, series))
            if really in by_node:
                by_node[really] = max(0.0, by_node[really] - amount)
            if seen in by_node:
                by_node[seen] += amount
    return found


def _trusted(
    said: Iterable[Mapping[str, Sequence[Sample]]], since: float, now: float
) -> dict[str, tuple[float, float]]:
    """The sum and time of each subject's samples, from the first source of which all are good."""
    found: dict[str, tuple[float, float]] = {}
    for subjects in said:
        for subject, samples in subjects.items():
            if subject in found or not samples:
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
                found[subject] = total, oldest
    return found
