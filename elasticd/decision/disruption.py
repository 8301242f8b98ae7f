"""Says whether elasticd's own disruption budgets let evictions through.

Pure. The plan asks before it evicts, and the guard before each action; knows nothing of PodDisruptionBudgets.
"""

import math
from collections.abc import Callable, Sequence
from operator import itemgetter

from msgspec.structs import replace

from elasticd.base.text import counted
from elasticd.kit.surge import SURGE, noted
from elasticd.model.actions import BREAKER, GIVES_WAY, Action, Evict, Mark, Scale
from elasticd.model.disruption import Disruption, DisruptionMemory, DisruptionState, Refused

_NOTED_LATER = 1.0
"""Seconds by which a note in the cluster may be later than the journal's record, which is written first."""


def refusal(state: DisruptionState, actions: Sequence[Action]) -> Refused | None:
    """Why not all of these actions would be let through, if all were done at once; None: they would."""
    together = [disruption for action in actions if (disruption := disruption_of(action))]
    return next(filter(None, (_refusal_of(state, action, together) for action in actions)), None)


def eviction_of(action: Action | None) -> Evict | None:
    """The eviction that an action is, or comes to; None: it makes no pod go, or not a certain one."""
    return action.removes if isinstance(action, Scale) else action if isinstance(action, Evict) else None


def unknown(memory: DisruptionMemory, within: float, now: float) -> str:
    """Why it is not known which pods went within so many seconds; empty: it is. A journal that ends before what is
    noted in the cluster is an older copy."""
    causes = (
        (memory.taken_over, "another daemon led, or this one by another identity"),
        (memory.begun, "this journal had not begun"),
        (missed(memory), "the Lease tells of a later one than this journal, which is an older copy"),
    )
    since, why = max(causes, key=itemgetter(0))
    remaining = since + within - now
    if remaining <= 0:
        return ""
    spent = f"the budgets of [disruption] count as spent for another {remaining:.0f} s"
    return f"it is not known which pods went before, because {why}: {spent}"


def missed(memory: DisruptionMemory) -> float:
    """When the last pod went of which the cluster tells and the journal does not; -inf: it has all."""
    return memory.noted if memory.noted > memory.latest + _NOTED_LATER else -math.inf


def disruption_of(action: Action, at: float = 0.0) -> Disruption | None:
    """The pod that an action makes go, or begins to replace by a surge; None: it makes none go."""
    if evict := eviction_of(action):
        return Disruption(at, evict.node, evict.owner, evict.workload.namespace, evict.uid)
    if not isinstance(action, Mark) or (note := noted(action.annotations)) is None or note.phase != "up":
        return None
    return Disruption(at, note.node, action.uid, action.workload.namespace, note.uid, begins=True)


def ends_surge(action: Action) -> bool:
    """Whether the action makes a pod go that has counted since its surge began: it counts anew, and once."""
    evict = eviction_of(action)
    return evict is not None and evict.reason.startswith(SURGE)


def _refusal_of(state: DisruptionState, action: Action, together: Sequence[Disruption]) -> Refused | None:
    disruption = disruption_of(action)
    if disruption is None:
        return None
    if state.breaker:
        return BREAKER, state.breaker
    if state.blackout:
        return "Blackout", f"no pod is moved: {state.blackout}"
    if state.unknown:
        return "Disturbed", state.unknown
    if ends_surge(action):  # it counts for those that went: surges that begin do not keep others from their end
        others = tuple(other for other in state.recent if other.uid != disruption.uid and not other.begins)
        return _spent_budget(replace(state, recent=others), disruption, together)
    spent = _spent_budget(state, disruption, together)
    return spent or (_why_kept(state, action, together) if isinstance(action, Evict) else None)


def _why_kept(state: DisruptionState, evict: Evict, together: Sequence[Disruption]) -> Refused | None:
    """What its workload keeps a pod for. Who preempts names no node for the victim, as there need be none."""
    if busy := state.busy.get(evict.uid):
        return busy
    if not evict.reason.startswith(GIVES_WAY) and (rolling := state.rolling.get(evict.uid)):
        return rolling
    if not evict.target:
        return None
    return state.needed.get(evict.uid) or (None if evict.owner else _too_many_away(state, evict, together))


def _too_many_away(state: DisruptionState, evict: Evict, together: Sequence[Disruption]) -> Refused | None:
    """Why a pod without a controller waits for others that were moved: nobody but elasticd knows whether copies of
    them start, as where a registry is down."""
    namespace, most = evict.workload.namespace, state.most.get("per_controller", math.inf)
    going = {other.uid for other in together if other.namespace == namespace and not other.controller}
    away = sorted(name for uid, name in state.away.get(namespace, {}).items() if uid not in going)
    if not away or len(away) + len(going) <= most:
        return None
    others = f" and {len(away) - 1} more" * (len(away) > 1)
    pods = f"{away[0]}{others} of namespace {namespace}, moved without a controller,"
    return "NotReplaced", f"{pods} must run again first; {most} may be away (per_controller of [disruption])"


def _spent_budget(state: DisruptionState, pod: Disruption, together: Sequence[Disruption]) -> Refused | None:
    """The first budget that has too little left for all pods that must go `together` with this one."""
    scopes: dict[str, tuple[str, Callable[[Disruption], bool]]] = {
        "per_node": (f"node {pod.node}", lambda other: other.node == pod.node),
        "per_controller": ("its controller", lambda other: other.controller == pod.controller != ""),
        "per_namespace": (f"namespace {pod.namespace}", lambda other: other.namespace == pod.namespace),
        "total": ("the cluster", lambda _: True),
    }
    for key, most in state.most.items():
        scope, counts = scopes[key]
        gone, extra = sum(map(counts, state.recent)), sum(map(counts, together))
        if gone + extra > most:
            return "Disturbed", _over_budget(scope, key, (gone, extra, most), state.within)
    return None


def _over_budget(scope: str, key: str, pods: tuple[int, int, int], within: float) -> str:
    """Say which budget is too small; `pods` are the numbers evicted recently, to be evicted now, and allowed."""
    gone, extra, most = pods
    if extra > most:
        needed = f"{extra} pods of {scope} would have to go at once"
        return f"{needed}, and {most} may: {key} of [disruption] never lets more go"
    went = f"{counted(gone, 'pod')} of {scope} went within {within:g} s"
    return f"{went}, {extra} would have to go at once, and {most} may" if extra > 1 else f"{went}, and {most} may"
