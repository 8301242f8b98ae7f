"""What `run --decisions` prints, as it is decided.

Knows the records, a terminal and a thread; knows nothing of how anything is decided.
"""

import logging
import os
import queue
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime

from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from elasticd.base.news import LastReported
from elasticd.base.text import one_line
from elasticd.model.listener import Notice
from elasticd.model.moves import LEAVING, MoveDecision
from elasticd.model.placement import PodDecision, PodOutcome
from elasticd.model.records import Decision, Outcome
from elasticd.ui import decisions
from elasticd.ui.pods import mark, moving_line, on_the_way, outcome_line, placing_line
from elasticd.ui.terminal import Terminal

MOST = 10_000
"""Decisions, and pods, that are remembered, and records that wait to be printed."""

CLOSING = 1.0
"""Seconds to print what waits when the daemon ends."""

log = logging.getLogger(__name__)


class PrinterThread:
    """Prints from a thread of its own, so that a reader who stopped reading (a full pipe, Ctrl-S in a terminal) holds
    up nothing else: what does not fit in the backlog meanwhile is left out."""

    def __init__(self, printer: "Printer", backlog: int = MOST) -> None:
        self._printer, self._overflowing = printer, LastReported(first=False)
        self._records: queue.Queue[Notice | None] = queue.Queue(backlog)
        self._thread = threading.Thread(target=self._work, name="printer", daemon=True)
        self._thread.start()

    def on(self, record: Notice) -> None:
        """Have a record printed, if there is room for it."""
        full = False
        try:
            self._records.put_nowait(record)
        except queue.Full:
            full = True
        if self._overflowing.changed(full) and full:
            log.warning("--decisions: their reader does not keep up: some are left out, all else goes on")

    def _work(self) -> None:
        while (record := self._records.get()) is not None:
            self._printer.on(record)

    def close(self) -> bool:
        """Print what waits, for a second at most; return whether the thread has ended."""
        with suppress(queue.Full):
            self._records.put_nowait(None)
        self._thread.join(CLOSING)
        return not self._thread.is_alive()


@contextmanager
def printing(*, dry_run: bool) -> Iterator[PrinterThread]:
    """Print on a copy of stdout for as long as the block runs: a thread that is left behind with it holds no lock of
    stdout itself, which the process needs to end."""
    copy = os.dup(sys.stdout.fileno())
    file = os.fdopen(copy, "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors)
    printer = PrinterThread(Printer(Terminal(file), dry_run=dry_run))
    try:
        yield printer
    finally:
        if printer.close():
            with suppress(OSError):  # what could not be written has been told
                file.close()


class Printer:
    """Prints decisions as they are made: changes, and every change of verdict, reason or poll interval; about pods,
    each that differs from the one before, with its outcome. Decisions that are not carried out have a mark, and are
    printed once, not at every evaluation. When the reader closes the pipe, printing stops and the daemon continues."""

    def __init__(self, console: Console, *, dry_run: bool = False) -> None:
        self._console, self._dry_run = console, dry_run
        self._reported = LastReported()
        self._resizes: dict[tuple[str, object], tuple[str, ...]] = {}
        """The resizes that were printed last, of policies that only observe."""
        self._open: dict[str, tuple[PodDecision | MoveDecision, list[PodOutcome]]] = {}
        """Decisions about pods, by id, whose outcomes are not complete yet, and those so far."""
        self._failed, self._vain = LastReported(most=MOST), LastReported(most=MOST)

    def on(self, record: Notice) -> None:
        """Print a decision if it is news, and an outcome unless the action simply worked or was only observed."""
        match record:
            case Decision():
                self._note_decision(record)
            case Outcome() if record.result not in ("done", "observed"):
                self._line(record.at, f"{record.workload}", decisions.answer(record))
            case PodDecision() | MoveDecision():
                self._note_pod_decision(record)
            case PodOutcome():
                self._note_pod_outcome(record)
            case _:
                pass

    def _note_decision(self, decision: Decision) -> None:
        """Print a decision if it is news: that a count is still right is not."""
        key, subject = (decision.policy, decision.workload), f"{decision.workload}"
        prefix = mark(decision.mode, dry_run=self._dry_run)
        does = decision.mode == "act"  # else it is decided again at every look, for nothing comes of it
        reason = decision.reason if decision.verdict == "hold" else ""
        news = (reason, decision.interval, None if does or decision.verdict != "scale" else decision.replicas)
        is_news = self._reported.changed(news, key)
        if (does and decision.verdict == "scale") or is_news:
            poll = f"every {decision.interval:g} s"
            self._line(decision.at, subject, f"{prefix}{decisions.headline(decision)}", poll)
        resizes = tuple(map(decisions.resize, decision.sizing.resizes))
        printed = () if does else self._resizes.get(key, ())
        for resize in resizes:
            if resize not in printed:
                self._line(decision.at, subject, f"{prefix}{resize}")
        self._resizes[key] = resizes

    def _line(self, at: float, subject: str, text: str, poll: str = "") -> None:
        subject = one_line(subject)
        clock = datetime.fromtimestamp(at).astimezone().strftime("%H:%M:%S")
        line = Text.assemble((clock, "dim"), "  ", (f"{subject:<28}", "bold"), f"{poll:>11}  {text}")
        try:
            self._console.print(line, soft_wrap=True)
        except BrokenPipeError:  # a listener must not raise, and the cluster needs its daemon whoever reads
            self._console.quiet = True
            log.warning("--decisions: nobody reads them any more: no more are printed, all else goes on")
        except OSError:  # a full disk costs the line; else more and more would be kept for when there is room again
            self._console.begin_capture()
            with suppress(OSError):
                self._console.end_capture()

    def _note_pod_decision(self, decision: PodDecision | MoveDecision) -> None:
        """Print a decision about a pod; one that acts only once its outcomes are known, so that no line says what was
        not done. That a pod is leaving was printed when it was evicted."""
        if isinstance(decision, MoveDecision) and decision.refusal == LEAVING:
            return
        if not decision.acts:
            self._pod_line(decision, [])
            return
        if len(self._open) >= MOST:
            self._pod_line(*self._open.pop(next(iter(self._open))))
        self._open[decision.id] = decision, []

    def _note_pod_outcome(self, outcome: PodOutcome) -> None:
        """An action of a decision ended. Of a repeated attempt, whose decision was printed before, the outcome is
        printed if it is news."""
        if outcome.decision not in self._open:
            if self._is_news(outcome) and not on_the_way(outcome):
                self._line(
                    outcome.at, f"{outcome.about}", f"{mark('act', dry_run=self._dry_run)}{outcome_line(outcome)}"
                )
            return
        decision, outcomes = self._open[outcome.decision]
        # In a dry run the line has its mark already.
        unsaid = self._dry_run and outcome.result == "done"
        outcomes.append(replace(outcome, message="") if unsaid else outcome)
        expected = len(decision.actions) if isinstance(decision, PodDecision) else 1
        if outcome.result != "done" or len(outcomes) >= expected:
            del self._open[outcome.decision]
            self._pod_line(decision, outcomes)
            self._is_news(outcome)

    def _is_news(self, outcome: PodOutcome) -> bool:
        """Whether an outcome differs from the last one of the same action. A success is news only after a failure."""
        key = (outcome.policy, outcome.pod, outcome.about, outcome.action)
        if outcome.result == "done":
            return self._failed.changed(None, key) or outcome.action == "surge"
        return self._failed.changed((outcome.result, outcome.reason), key)

    def _pod_line(self, decision: PodDecision | MoveDecision, outcomes: list[PodOutcome]) -> None:
        if isinstance(decision, PodDecision):
            text = placing_line(decision, outcomes)
        else:
            text = moving_line(decision, outcomes[-1] if outcomes else None)
        in_vain = any(outcome.result != "done" for outcome in outcomes)
        is_news = self._vain.changed(text if in_vain else None, (decision.policy, decision.pod))
        if is_news or not in_vain:
            subject = f"{decision.pod}" if decision.pod.name else decision.policy
            self._line(decision.at, subject, f"{mark(decision.mode, dry_run=self._dry_run)}{text}")
