"""The lines that `run --decisions` prints about pods: one for each new decision, with its outcome.

Knows the records and which of them belong together; knows nothing of how a line is printed.
"""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from elasticd.model.moves import LEAVING, MoveDecision
from elasticd.model.placement import PodDecision, PodOutcome
from elasticd.ui import pods

MOST = 10_000
"""Decisions, and pods, that are remembered."""

Emit = Callable[[float, str, str], None]
"""Prints a line: when, of whom, and what."""

_Said = dict[tuple[object, ...], tuple[str, str]]


class _Open(Struct):
    """A decision whose outcomes are not complete yet: how many are expected, and those so far."""

    decision: PodDecision | MoveDecision
    wanted: int
    outcomes: list[PodOutcome]


class PodLines:
    """Prints a decision that acts only once its outcomes are known, so that no line says what was not done."""

    def __init__(self, emit: Emit, *, dry_run: bool = False) -> None:
        self._emit, self._dry_run = emit, dry_run
        self._open: dict[str, _Open] = {}
        self._failed: _Said = {}
        self._vain: dict[tuple[str, object], str] = {}

    def decided(self, decision: PodDecision | MoveDecision) -> None:
        """A new decision. That a pod is leaving was printed when it was evicted."""
        if isinstance(decision, MoveDecision) and decision.refusal == LEAVING:
            return
        if not decision.acts:
            self._line(decision, [])
            return
        if len(self._open) >= MOST:
            self._close(next(iter(self._open)))
        expected = len(decision.actions) if isinstance(decision, PodDecision) else 1
        self._open[decision.id] = _Open(decision, expected, [])

    def ended(self, outcome: PodOutcome) -> None:
        """An action of a decision ended."""
        opened = self._open.get(outcome.decision)
        if opened is None:
            self._emit_attempt(outcome)
            return
        # In a dry run the line has its mark already.
        unsaid = self._dry_run and outcome.result == "done"
        opened.outcomes.append(replace(outcome, message="") if unsaid else outcome)
        if outcome.result != "done" or len(opened.outcomes) >= opened.wanted:
            self._close(outcome.decision)
            self._is_news(outcome)

    def _close(self, key: str) -> None:
        opened = self._open.pop(key)
        self._line(opened.decision, opened.outcomes)

    def _emit_attempt(self, outcome: PodOutcome) -> None:
        """Print the outcome of a repeated attempt, whose decision was printed before, if the outcome is news."""
        if self._is_news(outcome) and not pods.on_the_way(outcome):
            text = f"{pods.mark('act', dry_run=self._dry_run)}{pods.outcome_line(outcome)}"
            self._emit(outcome.at, f"{outcome.about}", text)

    def _is_news(self, outcome: PodOutcome) -> bool:
        """Whether an outcome differs from the last one of the same action. A success is news only after a failure."""
        key = (outcome.policy, outcome.pod, outcome.about, outcome.action)
        before = self._failed.pop(key, None)
        if outcome.result == "done":
            return before is not None or outcome.action == "surge"
        if len(self._failed) >= MOST:
            del self._failed[next(iter(self._failed))]
        self._failed[key] = outcome.result, outcome.reason
        return before != self._failed[key]

    def _line(self, decision: PodDecision | MoveDecision, outcomes: list[PodOutcome]) -> None:
        if isinstance(decision, PodDecision):
            text = pods.placing_line(decision, outcomes)
        else:
            text = pods.moving_line(decision, outcomes[-1] if outcomes else None)
        if self._is_repeated(decision, outcomes, text):
            return
        subject = f"{decision.pod}" if decision.pod.name else decision.policy
        self._emit(decision.at, subject, f"{pods.mark(decision.mode, dry_run=self._dry_run)}{text}")

    def _is_repeated(self, decision: PodDecision | MoveDecision, outcomes: list[PodOutcome], text: str) -> bool:
        """Whether the same line was printed before, after an attempt that failed too."""
        key = decision.policy, decision.pod
        before = self._vain.pop(key, None)
        if all(outcome.result == "done" for outcome in outcomes):
            return False
        if len(self._vain) >= MOST:
            del self._vain[next(iter(self._vain))]
        self._vain[key] = text
        return text == before
