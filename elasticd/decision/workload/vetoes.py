"""What holds a workload whatever its policy's limits say: a freeze, and somebody else who scales it.

Pure. Knows a policy, a workload's annotations, and which changes of its count were not ours; knows nothing of metrics.
A person on call reaches for these, so they are always on and the last word but that of a view too old to act on.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from elasticd.base.text import shown
from elasticd.kit.surge import MOVED, SURGE, surged
from elasticd.model.history import Change, Past
from elasticd.model.jobs import JOB_KIND
from elasticd.model.policy import Foreign, Policy
from elasticd.model.workload import Limit, Observation, Workload

FREEZE = "elasticd.io/freeze"
"""The annotation of a workload that says which way its count may not move: up, down or both."""

OURSELVES = "elasticd"
"""The name under which the API server notes what this daemon writes."""

_FROZEN = {"up": (False, True), "down": (True, False), "both": (True, True)}


class Veto(Struct, frozen=True):
    """A limit that always lets the count be what it is. `trouble`: somebody must look at it, so it is told even where
    nothing would have changed."""

    limit: Limit
    trouble: bool = False


def vetoes(policy: Policy, seen: Observation, past: Past) -> tuple[Veto, ...]:
    """Those in force, nearly always none. Others who set the count matter only to a policy that acts."""
    workload, found = seen.workload, []
    if policy.freeze != "none":
        said = f'the policy has freeze = "{policy.freeze}"'
        found.append(Veto(_frozen(policy.freeze, said, workload.replicas)))
    if FREEZE in workload.annotations:
        found.append(_annotated(workload.annotations, workload.replicas))
    if SURGE in workload.annotations and (note := surged(workload)) is not None:
        said = f"a pod of it is being moved, another being made first ({note})"
        limit = Limit(MOVED, said, workload.replicas, workload.replicas, "AbleToScale", "surge", standstill=True)
        return (*found, Veto(limit))  # and its count is ours, whoever seems to have set it
    if policy.mode == "act" and (owner := _owner(policy.foreign, seen, past)):
        limit = Limit("ForeignOwner", owner, workload.replicas, workload.replicas, "AbleToScale", "owner")
        found.append(Veto(limit, trouble=True))
    return tuple(found)


def _annotated(annotations: Mapping[str, str], current: int) -> Veto:
    """What nobody can read might have meant both ways."""
    way = annotations[FREEZE]
    if way in _FROZEN:
        return Veto(_frozen(way, f"the workload is annotated {FREEZE}: {way}", current))
    said = f"the annotation {FREEZE} must be up, down or both, is {shown(way)}; until then it is taken for both"
    return Veto(replace(_frozen("both", said, current), reason="FreezeUnreadable"), trouble=True)


def _frozen(way: str, message: str, current: int) -> Limit:
    down, up = _FROZEN[way]
    lowest, highest = current if down else None, current if up else None
    return Limit("Frozen", message, lowest, highest, "AbleToScale", "freeze", standstill=way == "both")


def _owner(foreign: Foreign, seen: Observation, past: Past) -> str:
    """Who else scales the workload, in a sentence; empty when nobody does."""
    if seen.autoscaler and foreign.autoscalers == "yield":
        return f"{seen.autoscaler} scales it too; take that or this policy away, or let this one only observe"
    others = past.others(seen.at, seen.workload.replicas)
    if not others or not foreign.strikes:
        return ""
    if (seen.workload.ref.api_version, seen.workload.ref.kind) == JOB_KIND:
        return ""  # of a job set the count falls by itself
    since = _yields_since(strikes(past.changes, others), foreign)
    if since is None or seen.at - since >= foreign.pause:
        return ""
    return (
        f"{_writer(seen.workload)} set another count after elasticd {foreign.strikes} times within "
        f"{foreign.within:g} s; it is left alone for {foreign.pause - (seen.at - since):.0f} s more"
    )


def strikes(ours: Sequence[Change], theirs: Sequence[Change]) -> list[float]:
    """When somebody else set another count over one of ours, oldest first. Of several such counts in a row the first is
    one: who is not answered does not fight."""
    found: list[float] = []
    previous = float("-inf")
    for one in theirs:
        if any(previous < mine.at <= one.at for mine in ours):
            found.append(one.at)
        previous = one.at
    return found


def _yields_since(found: list[float], foreign: Foreign) -> float | None:
    """The last time at which there were too many within the window."""
    last = foreign.strikes - 1
    full = [at for index, at in enumerate(found) if index >= last and at - found[index - last] < foreign.within]
    return full[-1] if full else None


def _writer(workload: Workload) -> str:
    return workload.writer if workload.writer not in ("", OURSELVES) else "somebody else"
