"""Builds a workload's Past from the decisions and outcomes that the journal records.

Pure functions from one Past to the next; knows nothing of files.
"""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from elasticd.kit.handover import AUTOSCALER, FENCED
from elasticd.kit.surge import MOVED
from elasticd.model.history import Change, Past, Point, Run
from elasticd.model.jobs import JOB_KIND
from elasticd.model.records import Decision, Outcome
from elasticd.model.workload import Quality, Series

HORIZON = 3900.0
"""Seconds that are remembered: the longest window Kubernetes allows (an hour) and a slow poll more."""

GAP = 60.0
"""Seconds without a decision, or three polls if longer, after which the windows are opened afresh."""


def begin(at: float, replicas: int) -> Past:
    """The past at the first look: the count then found is remembered as a wish, so that nothing shrinks before a whole
    window has passed (HPA: one pass, step 2)."""
    return Past(since=at, runs=(Run(at, at, replicas),), until=at)


def resume(past: Past, at: float, replicas: int) -> Past:
    """The past as a decision at this time must see it. After a gap (a restart, another daemon's lead) the count then
    found is a wish again: what happened meanwhile is not known, so nothing shrinks before a whole window, and a count
    of 0 may be a person's."""
    gap = at - past.until
    if gap <= GAP or gap <= 3 * (past.interval or 0.0):
        return past
    runs = (*past.runs, Run(at, at, replicas))
    return replace(past, since=at, runs=runs, until=at, blind_since=None, count=None, zero=None)


def about(past: Past, uid: str) -> Past:
    """The past as a decision about the object of this UID must see it. What an earlier object of the name wanted is
    what the load asks for; its changes, and those that others made of it, are none of the new one, whose count when it
    was created is nobody's change. An empty UID is not known."""
    if not uid or past.uid in ("", uid):
        return past
    return replace(past, uid=uid, changes=(), foreign=(), count=None, bounds_from=None, asked=None, zero=None)


def settle(past: Past, replicas: int) -> Past:
    """The past, with the last change that was asked for where the count now found shows that it was made, although no
    answer says so: the daemon was killed before, or the answer was lost."""
    asked = past.asked
    if asked is None or past.count != asked.before or asked.before == asked.after or replicas != asked.after:
        return past
    return replace(past, changes=(*_recent(past, asked.at), asked), count=replicas)


def inherit(past: Past, former: Past) -> Past:
    """The past under a policy that acts, with all that belongs to the workload from the past under the policy that
    acted before: changes, and not wishes and series, of which each policy has its own."""
    return replace(
        past,
        changes=former.changes,
        foreign=former.foreign,
        count=former.count,
        bounds_from=former.bounds_from,
        asked=former.asked,
        resizes=former.resizes,
        recommends_since=former.recommends_since,
        uid=former.uid,
        zero=former.zero,
    )


def remember(past: Past, decision: Decision) -> Past:
    """The past after a decision: its wish before anything delayed or shortened it, and its poll interval. Windows stand
    still until one that knows nothing: nobody has asked for anything meanwhile."""
    runs, wish = past.runs, decision.asked
    if decision.blind and wish is None:
        runs = _standing_still(runs, decision.at - past.until)
    if wish is not None:
        last = runs[-1] if runs else None
        if last is not None and last.replicas == wish:
            runs = (*runs[:-1], Run(last.first, decision.at, last.replicas))
        else:
            runs = (*runs, Run(decision.at, decision.at, wish))
        cutoff = decision.at - HORIZON
        if runs[0].last < cutoff:
            runs = tuple(run for run in runs if run.last >= cutoff)
    blind_since = past.blind_since  # kept over what says nothing of knowledge, as a pause or an old view does
    if decision.blind:
        blind_since = decision.at if blind_since is None else blind_since
    elif decision.wish is not None:
        blind_since = None
    points = _add_points(past.points, decision.series, decision.at, decision.recall) if decision.recall else {}
    # While a pod is moved, the count is temporarily one that no policy wants.
    moving = MOVED in [limit.reason for limit in decision.limits]
    action = decision.action
    bounds_from = past.bounds_from  # kept over what says nothing of bounds, likewise
    if decision.wish is not None or decision.verdict == "keep":
        bounds_from = None
    elif bounds_from is None and any(limit.name == "bounds" and limit.bound for limit in decision.limits):
        bounds_from = decision.current
    # In the order of its fields, as after every decision.
    return Past(
        past.since, runs, past.changes, decision.interval, decision.at, blind_since, points,
        past.foreign if moving else _foreign_changes(past, decision), past.count if moving else decision.own_count,
        bounds_from, Change(decision.at, decision.own_count, action.after, decision.reason) if action else None,
        past.resizes, past.recommends_since, decision.uid or past.uid,
        decision.zero if isinstance(decision.zero, str) else None,
    )  # fmt: skip


def _standing_still(runs: tuple[Run, ...], seconds: float) -> tuple[Run, ...]:
    """The same wishes for a window that has stood still for so long."""
    return tuple([Run(run.first, run.last + seconds, run.replicas) for run in runs])


def repeat(past: Past, at: float, observed: Iterable[Series], recall: float) -> Past:
    """The past after the last decision came out again at this time, from these series."""
    last = past.runs[-1]
    return Past(
        past.since, (*past.runs[:-1], Run(last.first, at, last.replicas)), past.changes, past.interval, at,
        past.blind_since, _add_points(past.points, observed, at, recall) if recall else past.points, past.foreign,
        past.count, past.bounds_from, past.asked, past.resizes, past.recommends_since, past.uid, past.zero,
    )  # fmt: skip


def _foreign_changes(past: Past, decision: Decision) -> tuple[Change, ...]:
    """Recent changes by others, with one made since. None for a job set, as Jobs end by themselves. While the count is
    another's to set, or changes hands, a change takes nothing away from elasticd, and is none of them."""
    yields = any(limit.name in (AUTOSCALER, FENCED) for limit in decision.limits)
    foreign = past.foreign if yields else past.others(decision.at, decision.own_count)
    if foreign and (decision.workload.api_version, decision.workload.kind) == JOB_KIND:
        return ()
    if foreign and foreign[0].at < decision.at - HORIZON:
        foreign = tuple(change for change in foreign if change.at >= decision.at - HORIZON)
    return foreign


def point_of(series: Series) -> Point:
    """The sum of a series, when it was measured, and over how many pods."""
    total, pods = 0.0, set()
    for sample in series.samples:
        total += sample.value
        if sample.pod:
            pods.add(sample.pod)
    return Point(series.measured, total, len(pods), series.quality is not Quality.PARTIAL)


def timeline(series: Series, past: Past) -> tuple[Point, ...]:
    """The points of a series, oldest first, with one for its present samples where they are newer."""
    points = past.points.get(series.name, ())
    return points if points and points[-1].at >= series.measured else (*points, point_of(series))


def _add_points(
    points: Mapping[str, tuple[Point, ...]], observed: Iterable[Series], at: float, recall: float
) -> dict[str, tuple[Point, ...]]:
    """Add a point for each series that is new and trusted, and drop those that are older than `recall` seconds."""
    cutoff, noted = at - recall, dict(points)
    for series in observed:
        before = noted.get(series.name, ())
        if series.trusted and series.samples and (not before or series.measured > before[-1].at):
            before = (*before, point_of(series))
        start = next((index for index, point in enumerate(before) if point.at >= cutoff), len(before))
        noted[series.name] = before[start:]
    return noted


NO_RESIZE = "NoInPlaceResize"
"""The reason of a cluster that cannot change what a running pod requests."""


def carry(past: Past, outcome: Outcome) -> Past:
    """The past after an outcome: the change, if it was made, and the pods of which a resize was sent."""
    if outcome.reason == NO_RESIZE:
        past = replace(past, recommends_since=outcome.at)
    if outcome.resized:
        recent = {uid: at for uid, at in past.resizes.items() if at >= outcome.at - HORIZON}
        past = replace(past, resizes={**recent, outcome.resized: outcome.at}, recommends_since=None)
    asked = past.asked
    if outcome.result == "failed" and asked:  # perhaps it was made, at any time until now
        return replace(past, asked=replace(asked, at=outcome.at))
    if outcome.result != "done" or outcome.before == outcome.after:
        return past
    before = asked.before if asked and asked.after == outcome.after else outcome.before
    change = Change(outcome.at, before, outcome.after, asked.reason if asked else "")
    return replace(past, changes=(*_recent(past, outcome.at), change), count=outcome.after)


def _recent(past: Past, at: float) -> tuple[Change, ...]:
    """The changes that are remembered at this time."""
    cutoff = at - HORIZON
    return tuple(change for change in past.changes if change.at >= cutoff)
