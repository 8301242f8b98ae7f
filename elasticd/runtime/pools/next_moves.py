"""What would move next in a pool, and in one line why, or why nothing does.

Pure. Knows the latest plan and where nodes stood in it; knows no rule of who should move.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from elasticd.base.text import counted
from elasticd.model.actions import GIVES_WAY
from elasticd.model.moves import LEAVING, TAKEN_BACK, MoveDecision, MovesPlan, NodeLevel, Underway
from elasticd.model.placement import PodOutcome
from elasticd.model.reports import Moving, NextMove


class LatestLook(NamedTuple):
    """What came of the latest look: its plan, what has come of its moves so far, which pods are on their way, and what
    was decided when they were told to go, by their UIDs."""

    plan: MovesPlan
    outcomes: Mapping[str, PodOutcome] = {}
    underway: Mapping[str, Underway] = {}
    going: Mapping[str, MoveDecision] = {}


Reasons = Callable[[str], Mapping[str, int]]
"""What keeps the pods of a node from being moved, and how many each; empty word: nothing."""


def moving(at: float, due: float, look: LatestLook, reasons: Reasons) -> Moving:
    """The latest look, in the order of its plan but those that go first."""
    plan = look.plan
    planned = [one for one in plan.decisions if not one.failures and _holds(one, look.underway.get(one.uid))]
    told, leave = {one.uid for one in planned}, {uid: one for uid, one in look.underway.items() if not one.stays}
    begun = [one for uid, one in look.going.items() if uid in leave and uid not in told and _holds(one, leave[uid])]
    about_pods = (*planned, *begun)
    found = [NextMove(one, look.outcomes.get(one.uid), look.underway.get(one.uid)) for one in about_pods]
    found.sort(key=lambda one: (not one.goes, one.begun))
    return Moving(at, due, _summary(plan, found, reasons), tuple(found), plan.failures)


def _holds(decision: MoveDecision, underway: Underway | None) -> bool:
    """Whether what was decided of a pod still is what becomes of it: not of one that left by another decision, as for a
    pod for which it gave way, whatever held it back before."""
    if underway is None or underway.stays:
        return True
    if underway.why.startswith(GIVES_WAY):
        return False
    moves = decision.verdict == "move" and decision.mode == "act" and underway.why in ("", decision.reason)
    return moves or decision.refusal == LEAVING


def _summary(plan: MovesPlan, moves: Sequence[NextMove], reasons: Reasons) -> str:
    failed = [one for one in plan.failures if one.hook != "explain_nodes"]
    if failed and not moves:
        return f"nothing moves: plugin {failed[0].plugin}: {failed[0].hook} {failed[0].message}"
    by_state: dict[str, list[NodeLevel]] = {}
    for one in plan.levels:
        by_state.setdefault(one.state, []).append(one)
    told = {one.decision.node for one in moves}
    stuck = [one for one in by_state.get("gives", ()) if one.node not in told]
    waits = by_state.get("high", [])
    hot = [_stuck(stuck, "takes" in by_state, reasons)] if stuck else []
    if moves:
        return "; ".join((_counted(moves), *hot, *_waiting(waits)))
    if stuck or waits:
        return (
            "; ".join((f"nothing moves: {hot[0]}", *_waiting(waits))) if stuck else f"nothing moves yet: {_list(waits)}"
        )
    known = [one for one in plan.levels if one.state != "unknown"]
    if known:
        return f"nothing moves, the nodes are level: most loaded is {_told(known[0])}"
    return "nothing moves: what nodes use is not known" if plan.levels else "nothing moves: no pod should"


def _waiting(high: Sequence[NodeLevel]) -> list[str]:
    """The nodes that have too much, and give nobody yet: beside others of which more is told."""
    return [f"not yet: {_list(high)}"] if high else []


def _list(levels: Sequence[NodeLevel]) -> str:
    """The most loaded of these, and how many others there are."""
    return f"{_told(levels[0])}{_others(levels)}"


def _others(levels: Sequence[NodeLevel]) -> str:
    return f" (and {counted(len(levels) - 1, 'other node')})" if len(levels) > 1 else ""


def _told(one: NodeLevel) -> str:
    return f"{one.node}: {one.message}" if one.message else one.node


def _stuck(levels: Sequence[NodeLevel], anyone: bool, reasons: Reasons) -> str:
    """The nodes that should give pods, and do not: the most loaded of them."""
    one = levels[0]
    found = Counter(reasons(one.node))
    free = found.pop("", 0)
    if not anyone:
        why = "no node takes any"
    elif not free and not found:
        why = "there is none on it"
    elif not free:
        why = f"all its {sum(found.values())} stay ({words(found)})"
    else:
        why = f"none of the {free} that could go is wanted: too new, not measured, worth too little, or just moved"
    return f"{one.node} should give pods, but {why}; {one.message}{_others(levels)}"


def _counted(moves: Sequence[NextMove]) -> str:
    """How many go, how many have begun to, and what keeps the others."""
    begun = [one for one in moves if one.begun]
    going = sum(one.goes for one in moves) - len(begun)
    stay = Counter(held(one)[0] for one in moves if not one.goes)
    parts = list[str]()
    if going:
        would = "would move, but mode is observe" if _observed(moves[0].decision) else "move" if going > 1 else "moves"
        parts.append(f"{counted(going, 'pod')} {would}")
    if begun:
        awaited = ": another is made first, and awaited" if any(one.awaited for one in begun) else ""
        pods = f"{len(begun)} more" if going else counted(len(begun), "pod")
        parts.append(f"{pods} {'is' if len(begun) == 1 else 'are'} on the way{awaited}")
    if stay:
        count = sum(stay.values())
        pods = f"{count} more" if parts else counted(count, "pod")
        should = f"{pods} should, and stay{'s' * (count == 1)}: {words(stay)}"
        parts.append(should if parts else f"nothing moves: {should}")
    return "; ".join(parts)


def _observed(decision: MoveDecision) -> bool:
    return decision.mode == "observe"


def held(move: NextMove) -> tuple[str, str]:
    """What keeps a pod that should move, in a word and a sentence; empty: nothing."""
    decision, outcome = move.decision, move.outcome
    if move.begun:
        return "", ""
    if move.taken_back:
        told = "another was made first, in vain"
        return TAKEN_BACK, f"{told}: {move.underway.step}" if move.underway else f"{told}; it is as it was before"
    if decision.verdict == "refuse":
        return decision.refusal, decision.message
    if outcome is not None and outcome.result != "done":
        return outcome.reason or outcome.result, outcome.message
    return "", ""


def words(counts: Mapping[str, int]) -> str:
    """So many of each, the most first; where all are one, that word."""
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return ", ".join(f"{count} {word}" for word, count in ordered) if len(ordered) > 1 else "".join(counts)
