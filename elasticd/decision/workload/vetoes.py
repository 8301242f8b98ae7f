"""What holds a workload regardless of its policy's limits: a freeze, and another controller that scales it.

Pure. Knows a policy, a workload's annotations, and which changes of its count were not ours; knows nothing of metrics.
A person on call reaches for these, so they are always on and the last word but that of a view too old to act on.
"""

from collections.abc import Mapping, Sequence
from itertools import takewhile
from math import isnan

from msgspec import Struct
from msgspec.structs import replace

from elasticd.base.text import one_line, shown
from elasticd.base.units import parse_time
from elasticd.kit.handover import AUTOSCALER, FENCE, FENCED, HALF_STOPPED, UNREAD
from elasticd.kit.surge import MOVED, SURGE, is_changing, surged
from elasticd.model.history import Change, Past
from elasticd.model.jobs import JOB_KIND
from elasticd.model.policy import Foreign, Policy
from elasticd.model.records import FOREIGN_OWNER
from elasticd.model.workload import Limit, Observation, Ref, Workload

FREEZE = "elasticd.io/freeze"
"""The annotation of a workload that says which way its count may not move: up, down or both. `elasticd pause` adds
until when, who and why, as in "down; until 2026-03-02T08:00:00Z; by anna@ops; the sale". What stands after USER@HOST
is text, also where it begins with "until"."""

UNTIL, BY = "until ", "by "

OURSELVES = "elasticd"
"""The name under which the API server notes what this daemon writes."""

CLOCKS_APART = 60.0
"""Seconds by which the API server's clock may be behind elasticd's."""

_FROZEN = {"up": (False, True), "down": (True, False), "both": (True, True)}


class Veto(Struct, frozen=True):
    """A limit that lets the count be what it is. `trouble`: it is told even where nothing would have changed."""

    limit: Limit
    trouble: bool = False


def vetoes(policy: Policy, observation: Observation, past: Past, wanted: int | None = None) -> tuple[Veto, ...]:
    """The vetoes in force, nearly always none. Others who set the count matter only to a policy that acts. `wanted`:
    the count that would be asked for; None: it is not known."""
    workload, standing = observation.workload, []
    if policy.freeze != "none":
        message = f'the policy has freeze = "{policy.freeze}"'
        standing.append(Veto(_freeze(policy.freeze, message, workload.replicas)))
    if FREEZE in workload.annotations and (veto := _read_annotation(workload.annotations, observation)):
        standing.append(veto)
    if FENCE in workload.annotations:
        message = f"the workload is annotated {FENCE}: {one_line(workload.annotations[FENCE], 200)}"
        standing.append(Veto(_stand_still("Fenced", message, workload.replicas, FENCED)))
    if SURGE in workload.annotations and (note := surged(workload)) is not None:
        message = f"a pod of it is being moved, another being made first ({note})"
        # More pods that are needed come before the move, which is given up then; but while the move changes the count,
        # exactly one more could not be told from its own, and would be taken back with it.
        is_like_its_own = wanted == workload.replicas + 1 and is_changing(workload, observation.at)
        highest = workload.replicas if is_like_its_own else None
        standing.append(Veto(Limit(MOVED, message, workload.replicas, highest, "AbleToScale", "surge")))
    if policy.mode == "act" and (veto := _judge_others(policy.foreign, observation, past)):
        standing.append(veto)
    return tuple(standing)


def _judge_others(foreign: Foreign, observation: Observation, past: Past) -> Veto | None:
    """The veto for another controller that scales the workload, or may."""
    workload, autoscaler = observation.workload, observation.autoscaler
    current = workload.replicas
    if autoscaler and foreign.autoscalers == "yield":
        if autoscaler == UNREAD:
            message = f"{autoscaler} scales it"
            return Veto(Limit("AutoscalersUnread", message, current, current, "AbleToScale", AUTOSCALER))
        if autoscaler.endswith(HALF_STOPPED):
            message = _half_stopped(autoscaler, workload.ref)
            return Veto(Limit("HalfStopped", message, current, current, "AbleToScale", AUTOSCALER), trouble=True)
        message = f"{autoscaler} scales it too; take that or this policy away, or let this one only observe"
        return Veto(Limit(FOREIGN_OWNER, message, current, current, "AbleToScale", AUTOSCALER), trouble=True)
    # In a takeover it holds anyway, and the change may be that of the autoscaler; in a move the count is ours.
    if FENCE in workload.annotations or surged(workload) is not None:
        return None
    if message := _find_overwriter(foreign, observation, past):
        return Veto(Limit(FOREIGN_OWNER, message, current, current, "AbleToScale", "owner"), trouble=True)
    return None


def _half_stopped(autoscaler: str, ref: Ref) -> str:
    why = "both its directions are Disabled, and its bounds are not wide open, as where its manifest is applied again"
    what = f"{autoscaler} only moves the count into its bounds, and nothing else scales it"
    return f"{what}: {why} after a takeover; run `elasticd takeover {ref}` again, or with --back"


def _stand_still(reason: str, message: str, current: int, strategy: str) -> Limit:
    return Limit(reason, message, current, current, "AbleToScale", strategy, standstill=True)


def annotated_freeze(annotations: Mapping[str, str], at: float) -> str:
    """The way that a freeze annotation says: up, down or both; "?" where it cannot be read; empty where there is none,
    or its time is over."""
    if FREEZE not in annotations:
        return ""
    way, *notes = [part.strip() for part in annotations[FREEZE].split(";")]
    before_who = takewhile(lambda note: not _names_who(note), notes)
    times = [parse_time(note.removeprefix(UNTIL)) for note in before_who if note.startswith(UNTIL)]
    if way not in _FROZEN or any(isnan(time) for time in times):
        return "?"
    return "" if any(time <= at for time in times) else way


def _names_who(note: str) -> bool:
    """Whether a note of a freeze is what `elasticd pause` writes of who ran it, by USER@HOST. What follows is why."""
    words = note.removeprefix(BY).split()
    return note.startswith(BY) and len(words) == 1 and "@" in words[0]


def forbidden(annotations: Mapping[str, str], before: int, after: int, at: float) -> str:
    """Why the annotations of a workload forbid to change its count now; empty: they do not."""
    way = annotated_freeze(annotations, at)
    down, up = _FROZEN.get(way, (bool(way), bool(way)))
    mark = FENCE if FENCE in annotations else FREEZE if (down and after < before) or (up and after > before) else ""
    return mark and f"it is annotated {mark}: {one_line(annotations[mark], 200)}"


def _read_annotation(annotations: Mapping[str, str], observation: Observation) -> Veto | None:
    """The veto of a freeze annotation, a way and, after semicolons, what `elasticd pause` notes; None: its time is
    over. One that cannot be read might mean both ways, so it freezes both."""
    text, current, way = (
        annotations[FREEZE],
        observation.workload.replicas,
        annotated_freeze(annotations, observation.at),
    )
    if not way:
        return None
    if way in _FROZEN:
        return Veto(_freeze(way, f"the workload is annotated {FREEZE}: {one_line(text, 300)}", current))
    message = f"the annotation {FREEZE} must be up, down or both, is {shown(text)}; until then it is taken for both"
    return Veto(replace(_freeze("both", message, current), reason="FreezeUnreadable"), trouble=True)


def _freeze(way: str, message: str, current: int) -> Limit:
    down, up = _FROZEN[way]
    lowest, highest = current if down else None, current if up else None
    return Limit("Frozen", message, lowest, highest, "AbleToScale", "freeze", standstill=way == "both")


def _find_overwriter(foreign: Foreign, observation: Observation, past: Past) -> str:
    """Who overwrites what elasticd sets, in a sentence; empty: nobody."""
    changes = past.others(observation.at, observation.workload.replicas)
    if not changes or not foreign.strikes:
        return ""
    if (observation.workload.ref.api_version, observation.workload.ref.kind) == JOB_KIND:
        return ""  # of a job set the count falls by itself
    since = _find_pause_start(strikes(past.changes, changes), foreign)
    if since is None or observation.at - since >= foreign.pause:
        return ""
    who = _who(observation.workload, past.changes, since)
    return (
        f"{who} set another count after elasticd {foreign.strikes} times within "
        f"{foreign.within:g} s; it is left alone for {foreign.pause - (observation.at - since):.0f} s more"
    )


def _who(workload: Workload, ours: Sequence[Change], struck: float) -> str:
    """Who set the count over ours at this time, as far as the workload tells: whoever owns the field since before our
    own count, as before Kubernetes 1.22 does who created the workload, is not who changed it."""
    last = max((change.at for change in ours if change.at <= struck), default=0.0)
    known = workload.writer not in ("", OURSELVES) and workload.writer_since >= last - CLOCKS_APART
    return workload.writer if known else "somebody else"


def strikes(ours: Sequence[Change], theirs: Sequence[Change]) -> list[float]:
    """When somebody else set a count over one of ours, oldest first; of several in a row the first counts."""
    times: list[float] = []
    previous = float("-inf")
    for change in theirs:
        if any(previous < mine.at <= change.at for mine in ours):
            times.append(change.at)
        previous = change.at
    return times


def _find_pause_start(times: list[float], foreign: Foreign) -> float | None:
    """The last time at which there were too many overwritten counts within the window; None: never."""
    last = foreign.strikes - 1
    full = [at for index, at in enumerate(times) if index >= last and at - times[index - last] < foreign.within]
    return full[-1] if full else None
