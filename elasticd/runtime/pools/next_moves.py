"""Tells what would move next in a pool, and in one line why, or why nothing does.

Pure. Knows the latest plan and where nodes stood in it; knows no rule of who should move.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from elasticd.base.text import counted, tallied
from elasticd.model.actions import GIVES_WAY
from elasticd.model.moves import LEAVING, MoveDecision, MovesPlan, NodeLevel, Underway
from elasticd.model.reports import Moving, NextMove
from elasticd.runtime.pools.history import Latest

Reasons = Callable[[str], Mapping[str, int]]
"""For a node's name: how many of its pods stay for which reason; an empty reason counts those that could move."""


def moving(latest: Latest, underway: Mapping[str, Underway], reasons: Reasons) -> Moving:
    """Report the latest look: its moves in the order of the plan, those that go before those that stay. `underway` are
    the moves in flight, by the pods' UIDs."""
    plan = latest.plan
    planned = [
        decision
        for decision in plan.decisions
        if not decision.failures and _still_holds(decision, underway.get(decision.uid))
    ]
    planned_uids = {decision.uid for decision in planned}
    leaving = {uid: move for uid, move in underway.items() if not move.stays}
    begun = [
        decision
        for uid, decision in latest.going.items()
        if uid in leaving and uid not in planned_uids and _still_holds(decision, leaving[uid])
    ]
    moves = [
        NextMove(decision, latest.outcomes.get(decision.uid), underway.get(decision.uid))
        for decision in (*planned, *begun)
    ]
    moves.sort(key=lambda move: (not move.goes, move.begun))
    return Moving(latest.at, latest.due, _summary(plan, moves, reasons), tuple(moves), plan.failures)


def _still_holds(decision: MoveDecision, underway: Underway | None) -> bool:
    """Whether a decision still says what becomes of its pod: not if the pod leaves by another decision, for example
    because it is preempted for another pod."""
    if underway is None or underway.stays:
        return True
    if underway.why.startswith(GIVES_WAY):
        return False
    moves = decision.verdict == "move" and decision.mode == "act" and underway.why in ("", decision.reason)
    return moves or decision.refusal == LEAVING


def _summary(plan: MovesPlan, moves: Sequence[NextMove], reasons: Reasons) -> str:
    failures = [failure for failure in plan.failures if failure.hook != "explain_nodes"]
    if failures and not moves:
        return f"nothing moves: plugin {failures[0].plugin}: {failures[0].hook} {failures[0].message}"
    by_state: dict[str, list[NodeLevel]] = {}
    for level in plan.levels:
        by_state.setdefault(level.state, []).append(level)
    nodes_with_moves = {move.decision.node for move in moves}
    stuck = [level for level in by_state.get("gives", ()) if level.node not in nodes_with_moves]
    waits = by_state.get("high", [])
    if waits and not moves and not stuck:
        return f"nothing moves yet: {_list_levels(waits)}"
    clauses = [_count_text(moves)] if moves else []
    if stuck:
        clauses.append(f"{'' if moves else 'nothing moves: '}{_stuck_text(stuck, 'takes' in by_state, reasons)}")
    if waits:
        clauses.append(f"not yet: {_list_levels(waits)}")
    if clauses:
        return "; ".join(clauses)
    measured = [level for level in plan.levels if level.state != "unknown"]
    if measured:
        return f"nothing moves, the nodes are level: most loaded is {_describe(measured[0])}"
    return "nothing moves: what nodes use is not known" if plan.levels else "nothing moves: no pod should"


def _list_levels(levels: Sequence[NodeLevel]) -> str:
    return f"{_describe(levels[0])}{_others_text(levels)}"


def _others_text(levels: Sequence[NodeLevel]) -> str:
    return f" (and {counted(len(levels) - 1, 'other node')})" if len(levels) > 1 else ""


def _describe(level: NodeLevel) -> str:
    return f"{level.node}: {level.message}" if level.message else level.node


def _stuck_text(levels: Sequence[NodeLevel], anyone: bool, reasons: Reasons) -> str:
    """Why the most loaded of the nodes that should give pods gives none; `anyone`: some node would take pods."""
    level = levels[0]
    counts = Counter(reasons(level.node))
    free = counts.pop("", 0)
    if not anyone:
        why = "no node takes any"
    elif not free and not counts:
        why = "there is none on it"
    elif not free:
        why = f"all its {sum(counts.values())} stay ({tallied(counts)})"
    else:
        why = f"none of the {free} that could go is wanted: too new, not measured, worth too little, or just moved"
    return f"{level.node} should give pods, but {why}; {level.message}{_others_text(levels)}"


def _count_text(moves: Sequence[NextMove]) -> str:
    """How many pods move, how many have begun to, and what keeps the others."""
    begun = [move for move in moves if move.begun]
    going = sum(move.goes for move in moves) - len(begun)
    stay = Counter(move.held[0] for move in moves if not move.goes)
    parts = list[str]()
    if going:
        observed = moves[0].decision.mode == "observe"
        move = "would move, but mode is observe" if observed else "move" if going > 1 else "moves"
        parts.append(f"{counted(going, 'pod')} {move}")
    if begun:
        awaited = ": another is made first, and awaited" if any(move.awaited for move in begun) else ""
        pods = f"{len(begun)} more" if going else counted(len(begun), "pod")
        parts.append(f"{pods} {'is' if len(begun) == 1 else 'are'} on the way{awaited}")
    if stay:
        count = sum(stay.values())
        pods = f"{count} more" if parts else counted(count, "pod")
        should = f"{pods} should, and stay{'s' * (count == 1)}: {tallied(stay)}"
        parts.append(should if parts else f"nothing moves: {should}")
    return "; ".join(parts)
