"""What `run --decisions` prints, as it is decided.

Knows the records and a terminal; knows nothing of how anything is decided.
"""

import logging
from contextlib import suppress
from datetime import datetime

from rich.console import Console
from rich.text import Text

from elasticd.base.text import one_line
from elasticd.model.listener import Notice
from elasticd.model.moves import MoveDecision
from elasticd.model.placement import PodDecision, PodOutcome
from elasticd.model.records import Decision, Outcome
from elasticd.ui import decisions
from elasticd.ui.pod_lines import PodLines
from elasticd.ui.pods import mark

log = logging.getLogger(__name__)


class Printer:
    """Prints decisions as they are made: changes, and every change of verdict, reason or poll rate; of pods, each that
    differs from the one before, with how it ended. What is only said and not done has a mark, and is printed once, not
    at every look. When nobody reads any more it prints nothing, and the daemon goes on."""

    def __init__(self, console: Console, *, dry_run: bool = False) -> None:
        self._console, self._dry_run = console, dry_run
        self._pods = PodLines(lambda at, pod, text: self._line(at, pod, f"{'':>11}  {text}"), dry_run=dry_run)
        self._last: dict[tuple[str, object], tuple[object, ...]] = {}
        self._resizes: dict[tuple[str, object], tuple[str, ...]] = {}
        """The resizes that were printed last, of policies that only observe."""

    def on(self, record: Notice) -> None:
        """Print a decision if it is news, and an outcome unless the action simply worked or was only observed."""
        match record:
            case Decision():
                self._note_decision(record)
            case Outcome() if record.result not in ("done", "observed"):
                self._line(record.at, f"{record.workload}", f"{'':>11}  {decisions.answer(record)}")
            case PodDecision() | MoveDecision():
                self._pods.decided(record)
            case PodOutcome():
                self._pods.ended(record)
            case _:
                pass

    def _note_decision(self, decision: Decision) -> None:
        """Print a decision if it is news: that a count is still right is not."""
        key = (decision.policy, decision.workload)
        does = decision.mode == "act"  # else it is decided again at every look, for nothing comes of it
        reason = decision.reason if decision.verdict == "hold" else ""
        news = (reason, decision.interval, None if does or decision.verdict != "scale" else decision.replicas)
        if (does and decision.verdict == "scale") or self._last.get(key) != news:
            poll = f"every {decision.interval:g} s"
            text = f"{mark(decision.mode, dry_run=self._dry_run)}{decisions.headline(decision)}"
            self._line(decision.at, f"{decision.workload}", f"{poll:>11}  {text}")
        self._last[key] = news
        resizes = tuple(map(decisions.resize, decision.sizing.resizes))
        printed = () if does else self._resizes.get(key, ())
        for resize in resizes:
            if resize not in printed:
                text = f"{mark(decision.mode, dry_run=self._dry_run)}{resize}"
                self._line(decision.at, f"{decision.workload}", f"{'':>11}  {text}")
        self._resizes[key] = resizes

    def _line(self, at: float, workload: str, text: str) -> None:
        workload = one_line(workload)
        clock = datetime.fromtimestamp(at).astimezone().strftime("%H:%M:%S")
        try:
            self._console.print(Text.assemble((clock, "dim"), "  ", (f"{workload:<28}", "bold"), text), soft_wrap=True)
        except BrokenPipeError:  # a listener must not raise, and the cluster needs its daemon whoever reads
            self._console.quiet = True
            log.warning("--decisions: nobody reads them any more: no more are printed, all else goes on")
        except OSError:  # a full disk costs the line; else more and more would be kept for when there is room again
            self._console.begin_capture()
            with suppress(OSError):
                self._console.end_capture()
