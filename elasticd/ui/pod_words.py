"""What is decided about a pod, and what came of it, each in one line.

Knows the records; knows nothing of terminals or of where a record came from.
"""

from collections.abc import Sequence

from elasticd.base.text import one_line
from elasticd.kit.surge import BEGUN
from elasticd.model.moves import MoveDecision
from elasticd.model.placement import PodDecision, PodOutcome

DID = {"bind": "bind to", "evict": "evict from", "nominate": "note node", "surge": "make another first, for"}

UNANSWERED = "no answer is recorded"

_STEPS = frozenset({"Raise", "Raised", "Mark", "Ready", "Lower", "Evict", "Unmark", "TakeBack", "Waiting", "Leaving"})
"""Steps of a move by making another first that are not its end."""


def name(decision: PodDecision | MoveDecision) -> str:
    """NAMESPACE/NAME."""
    return one_line(f"{decision.pod.namespace}/{decision.pod.name}")


def mark(mode: str, *, dry_run: bool = False) -> str:
    """The prefix of a line about something that is not really done; empty in mode act."""
    return "(observe) " if mode == "observe" else "(dry run) " if dry_run else ""


def placing(decision: PodDecision, outcomes: Sequence[PodOutcome] = ()) -> str:
    """Where a pod goes, or why it waits, and how that ended where it did not simply work."""
    where = {"bind": f"bind to {decision.node}", "preempt": f"make room on {decision.node}"}
    verdict = where.get(decision.verdict, decision.verdict)
    text = f"{verdict}: {_why(decision.reason, decision.message)}"
    if not acts(decision):
        return one_line(text)
    failed = next((outcome for outcome in outcomes if outcome.result != "done"), None)
    last = failed or (outcomes[-1] if outcomes else None)
    return one_line("; ".join(filter(None, (text, result(last) if last else UNANSWERED))))


def acts(decision: PodDecision | MoveDecision) -> bool:
    """Whether a decision leads to an action, so that its outcome matters."""
    if isinstance(decision, MoveDecision):
        return decision.verdict == "move" and decision.mode == "act"
    return decision.verdict in ("bind", "preempt") and decision.mode == "act"


def moving(decision: MoveDecision, outcome: PodOutcome | None = None) -> str:
    """That a pod should leave its node, and what came of that."""
    where = f"{decision.node} for {decision.target}" if decision.target else decision.node
    why = _why(decision.reason, decision.message)
    if not decision.pod.name:
        return one_line(f"nobody is moved: {why}")
    if decision.verdict == "over":
        return one_line(f"no longer to leave {decision.node}: {why}")
    if decision.verdict == "refuse":
        stays = _why(decision.refusal, decision.message)
        return one_line(f"should leave {decision.node}: {decision.reason}; stays: {stays}")
    if not acts(decision):
        return one_line(f"would leave {where}: {why}")
    if left(outcome):
        return one_line(f"left {where}: {why}{_more(outcome)}")
    return one_line(f"should leave {where}: {why}; {result(outcome) if outcome else UNANSWERED}")


def left(outcome: PodOutcome | None) -> bool:
    """Whether the pod that was to be moved has left its node."""
    if outcome is None or outcome.result != "done":
        return False
    return outcome.reason == "Moved" if outcome.action == "surge" else outcome.message != BEGUN


def result(outcome: PodOutcome) -> str:
    """An outcome in a phrase, such as `refused: Blackout, ...`; empty if the action simply worked."""
    why = _why(outcome.reason, outcome.message)
    about = f" ({outcome.about.namespace}/{outcome.about.name})" if outcome.about != outcome.pod else ""
    if outcome.result == "done":
        return why
    return f"{outcome.result}{about}: {why}" if why else f"{outcome.result}{about}"


def answer(outcome: PodOutcome) -> str:
    """What came of an action, in one line."""
    if outcome.result == "done":
        deed = (
            f"evicted from {outcome.node}" if outcome.action == "evict" else f"{did(outcome)} {outcome.node}".rstrip()
        )
        return one_line(": ".join(filter(None, (deed, result(outcome)))))
    return one_line(f"could not {f'{did(outcome)} {outcome.node}'.rstrip()}: {result(outcome)}")


def did(outcome: PodOutcome) -> str:
    """The action as a phrase that a node's name may follow."""
    return "take the note of a node away" if outcome.action == "nominate" and not outcome.node else DID[outcome.action]


def on_the_way(outcome: PodOutcome) -> bool:
    """Whether an outcome is a successful step of a move, with others to come."""
    return outcome.action == "surge" and outcome.result == "done" and outcome.reason in _STEPS


def _more(outcome: PodOutcome | None) -> str:
    why = _why(outcome.reason, outcome.message) if outcome and outcome.action != "surge" else ""
    return f"; {why}" if why else ""


def _why(reason: str, message: str) -> str:
    return ", ".join(filter(None, (reason, message)))
