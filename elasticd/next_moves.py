"""What would move next in a pool, and in one line why, or why nothing does.

Pure. Knows the latest plan and where nodes stood in it; knows no rule of who should move.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from elasticd.moves import MoveDecision, MovesPlan, NodeLevel
from elasticd.placements import PodOutcome
from elasticd.reports import Moving, NextMove

Reasons = Callable[[str], Mapping[str, int]]
"""What keeps the pods of a node from being moved, and how many each; empty word: nothing."""


def moving(at: float, due: float, plan: MovesPlan, outcomes: Mapping[str, PodOutcome], reasons: Reasons) -> Moving:
    """The latest look, in the order of its plan but those that go first."""
    about_pods = (one for one in plan.decisions if not one.failures)
    found = [NextMove(one, outcomes.get(one.uid)) for one in about_pods]
    found.sort(key=lambda one: not one.goes)
    return Moving(at, due, _summary(plan, found, reasons), tuple(found), plan.failures)


def _summary(plan: MovesPlan, moves: Sequence[NextMove], reasons: Reasons) -> str:
    if moves:
        return _counted(moves)
    if failed := [one for one in plan.failures if one.hook != "explain_nodes"]:
        return f"nothing moves: plugin {failed[0].plugin}: {failed[0].hook} {failed[0].message}"
    by_state: dict[str, list[NodeLevel]] = {}
    for one in plan.levels:
        by_state.setdefault(one.state, []).append(one)
    if "gives" in by_state:
        return _stuck(by_state["gives"][0], "takes" in by_state, reasons)
    if "high" in by_state:
        return f"nothing moves yet: {_told(by_state['high'][0])}"
    known = [one for one in plan.levels if one.state != "unknown"]
    if known:
        return f"nothing moves, the nodes are level: most loaded is {_told(known[0])}"
    return "nothing moves: what nodes use is not known" if plan.levels else "nothing moves: no pod should"


def _told(one: NodeLevel) -> str:
    return f"{one.node}: {one.message}" if one.message else one.node


def _stuck(one: NodeLevel, anyone: bool, reasons: Reasons) -> str:
    """A node that should give pods, and does not."""
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
    return f"nothing moves: {one.node} should give pods, but {why}; {one.message}"


def _counted(moves: Sequence[NextMove]) -> str:
    """How many go, and what keeps the others."""
    going = sum(one.goes for one in moves)
    stay = Counter(held(one)[0] for one in moves if not one.goes)
    would = "would move, but mode is observe" if _observed(moves[0].decision) else "move" if going > 1 else "moves"
    if not going:
        return f"nothing moves: {len(moves)} pod{'s' * (len(moves) > 1)} should, and stay: {words(stay)}"
    told = f"{going} pod{'s' * (going > 1)} {would}"
    return f"{told}; {sum(stay.values())} more should, and stay: {words(stay)}" if stay else told


def _observed(decision: MoveDecision) -> bool:
    return decision.mode == "observe"


def held(move: NextMove) -> tuple[str, str]:
    """What keeps a pod that should move, in a word and a sentence; empty: nothing."""
    decision, outcome = move.decision, move.outcome
    if decision.verdict == "refuse":
        return decision.refusal, decision.message
    if outcome is not None and outcome.result != "done":
        return outcome.reason or outcome.result, outcome.message
    return "", ""


def words(counts: Mapping[str, int]) -> str:
    """So many of each, the most first; where all are one, that word."""
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return ", ".join(f"{count} {word}" for word, count in ordered) if len(ordered) > 1 else "".join(counts)
