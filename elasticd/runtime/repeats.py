"""Leaves out evaluations that would come out as the last one did, in a run of which nobody reads each decision.

A decision comes out the same while the workload, its pods and all else but its samples are as they were, its samples
stay within their steady bands, no time has come at which a strategy may change its mind, and the limits let through
what they did. Knows what was last evaluated; knows nothing of when a workload is due.
"""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from elasticd.decision.decide import Case
from elasticd.decision.observe import series_of
from elasticd.decision.workload.combine import restrained
from elasticd.journal import Journal, Key
from elasticd.kit.history import GAP, point_of
from elasticd.model.policy import Policy
from elasticd.model.records import Decision
from elasticd.model.workload import Limit, Observation, Readings, Series
from elasticd.ports.cluster import Snapshot
from elasticd.runtime.cases import Scene, soonest
from elasticd.runtime.governed import PolicyIndex
from elasticd.runtime.screening import Screening


class Repeat(NamedTuple):
    """The last decision again: when to look next, and the series that are remembered, for how many seconds."""

    interval: float
    series: tuple[Series, ...]
    recall: float


class _Standing(Struct):
    """A decision that may come out again: the observation that it was made from, what it came to, for how long nobody
    decides again where nothing has changed, how long it is not forgotten, and when it last came out, from samples of
    which time, if it was one."""

    policy: Policy
    last: Observation
    wish: int
    limits: tuple[Limit, ...]
    repeat: Repeat
    soonest: float
    longest: float
    at: float
    measured: float | None


class Repeats:
    """The decisions that may come out again, of each workload the last one."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._standing: dict[Key, _Standing] = {}
        self._snapshot: Snapshot | None = None

    def look(self, snapshot: Snapshot, policy_index: PolicyIndex) -> None:
        """Forget the decisions about workloads that have changed since the last look, or whose pods have."""
        changed = None if self._snapshot is None else snapshot.changes_since(self._snapshot)
        self._snapshot = snapshot
        if changed is None:
            self._standing.clear()
        else:
            for key in [key for ref in changed for key in policy_index.keys(ref)]:
                self._standing.pop(key, None)

    def note(self, key: Key, case: Case, decision: Decision) -> None:
        """Take in a decision."""
        wish = decision.wish
        if wish is None or not self._is_seen(case.observation) or not _may_stand(case, decision):
            self._standing.pop(key, None)
            return
        repeat, last = Repeat(decision.interval, (), decision.recall), case.observation
        times = {series.measured for series in last.series.values()}
        measured = times.pop() if len(times) == 1 else None
        longest = max(GAP, 3 * decision.interval)
        self._standing[key] = _Standing(
            case.policy, last, wish, decision.limits, repeat, soonest(case.policy), longest, last.at, measured
        )

    def of(self, key: Key, scene: Scene, readings: Sequence[Readings], screening: Screening) -> Repeat | bool:
        """The last decision again; True where nothing has changed since, so that nobody would decide; False where it
        must be decided."""
        standing, evaluation, now = self._standing.get(key), scene.evaluations.get(key), scene.at
        if standing is None or evaluation is None or evaluation.last is not standing.last or now >= evaluation.until:
            return False
        sums = screening.sums(key, standing.policy, standing.last, readings, now)
        if sums is None or not sums.steady:
            return False
        if sums.measured == standing.measured and now - standing.at < standing.soonest:
            return True
        if not self._comes_out_again(key, scene, standing):
            return False
        standing.at, standing.measured = now, sums.measured
        return standing.repeat if not standing.repeat.recall else _with_series(standing, readings, now)

    def _is_seen(self, last: Observation) -> bool:
        """Whether a workload and its pods are in the last snapshot as they were observed."""
        snapshot, workload = self._snapshot, last.workload
        return (
            snapshot is not None
            and snapshot.workload(workload.ref) is workload
            and snapshot.pods(workload) is last.pods
        )

    def _comes_out_again(self, key: Key, scene: Scene, standing: _Standing) -> bool:
        """Whether the past and the limits say what they did, of a workload that is as it was."""
        last = standing.last
        if scene.at - standing.at > standing.longest or (standing.at == last.at and not self._remembers(key, standing)):
            return False
        return standing.wish == last.workload.replicas or self._is_held(key, scene, standing)

    def _remembers(self, key: Key, standing: _Standing) -> bool:
        """Whether nobody else changed the count of late, and the newest points that are remembered are of this
        observation: those that were taken of other pods say something else of the same samples."""
        last = standing.last
        past = self._journal.past(*key, last.at, last.workload.replicas)
        points, series = past.points, last.series.items() if standing.repeat.recall else ()
        return not past.foreign and all(points.get(name, ())[-1:] == (point_of(each),) for name, each in series)

    def _is_held(self, key: Key, scene: Scene, standing: _Standing) -> bool:
        """Whether the limits leave of a wish for another count what they left. Those that let a wish for this count
        pass need not be asked: they allow no less as time passes."""
        last, policy = standing.last, standing.policy
        past = self._journal.past(*key, scene.at, last.workload.replicas)
        case = Case(policy, replace(last, at=scene.at), past, scene.policy_index.hooks(policy))
        answers = case.ask("limit", wish=standing.wish)
        left = restrained(standing.wish, answers.given, policy.replicas, last.workload.replicas)
        return not answers.failures and not isinstance(left, str) and left.limits == standing.limits


def _with_series(standing: _Standing, readings: Sequence[Readings], now: float) -> Repeat:
    last = standing.last
    series = series_of(standing.policy, last.workload, last.pods, readings, frozenset(last.series), now)
    return standing.repeat._replace(series=tuple(series.values()))


def _may_stand(case: Case, decision: Decision) -> bool:
    """Whether only samples, the clock and limits can let the decision come out otherwise."""
    observation, hooks = case.observation, case.hooks
    if decision.verdict == "scale" or decision.action or decision.failures or case.off or not decision.interval_by:
        return False
    if decision.marks or decision.removals or decision.sizing.resizes or case.policy.job is not None:
        return False
    if observation.fault[0] or observation.autoscaler or observation.workload.annotations:
        return False
    return hooks.lasting and all(series.trusted for series in observation.series.values())
