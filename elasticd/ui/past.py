"""What the status page asks about the past: a workload's last hours, and why it was scaled at a time.

The journal on disk is read, in a thread, one question at a time and for a few seconds at most. Knows the journal's
records; knows nothing of charts.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from math import inf
from pathlib import Path
from typing import Literal, TypeVar

from msgspec import Struct

from elasticd.base.clock import Clock
from elasticd.base.errors import UnavailableError
from elasticd.base.text import one_line
from elasticd.model.records import Decision, Outcome, Verdict
from elasticd.model.reports import HistoryRow
from elasticd.telemetry.summaries import ChartPoint, point_of
from elasticd.ui.journaled import decided, in_rows

PATIENCE = 4.0
"""Seconds for which the journal is read for one question."""

POINTS = 720
"""Points of a chart, about: where nothing changes they are this part of the time apart."""

DECISIONS = 20_000
"""Decisions that are read for one chart, at most."""

ROWS = 2_000
"""Rows of decisions that a chart has, at most: the newest."""

T = TypeVar("T")


class PastDecision(Struct, frozen=True, gc=False):
    """Decisions in a row that say the same, in short: the first was made `at`, the last at `until`. `result` is what
    became of the action, and why, if there was one."""

    at: float
    until: float
    decisions: int
    policy: str
    mode: str
    verdict: Verdict
    current: int
    replicas: int
    reason: str
    message: str
    wish: int | None = None
    blind: bool = False
    result: str = ""


class Timeline(Struct, frozen=True):
    """A workload's past, oldest first: the points of its chart, and what was decided, in rows.

    It begins at `since`, the oldest decision that was read. `ends` says why it does not go back further: it is as long
    as was asked for, the journal has nothing older, or that would take too long to read.
    """

    workload: str
    since: float
    ends: Literal["asked", "journal", "patience"]
    points: tuple[ChartPoint, ...]
    decisions: tuple[PastDecision, ...]


class Past:
    """The past of a daemon's workloads, as its own journal has it."""

    def __init__(self, folder: Path | None, clock: Clock, patience: float = PATIENCE) -> None:
        self._folder, self._clock, self._patience = folder, clock, patience
        self._asking = asyncio.Lock()

    async def history(self, workload: str, policy: str, seconds: float) -> Timeline:
        """The last so many seconds of a workload, NAMESPACE/KIND/NAME. Raises UnavailableError."""
        begin = self._clock.now() - seconds
        return await self._ask(lambda folder, enough: _timeline(folder, workload, policy, begin, enough))

    async def explain(self, workload: str, policy: str, at: float) -> dict[str, Decision | Outcome | None]:
        """The decision about a workload that was in force at a time, with its outcome. Raises UnavailableError, also
        where there is none."""

        def find(folder: Path, enough: Callable[[], bool]) -> tuple[Decision, Outcome | None]:
            for decision, outcome in decided(folder, workload.split("/"), policy or None, enough):
                if decision.at <= at:
                    return decision, outcome
            why = "in the time that there is to read it" if enough() else "that is so old"
            raise UnavailableError(f"the journal has no decision about {workload} {why}")

        decision, outcome = await self._ask(find)
        return {"decision": decision, "outcome": outcome}

    async def _ask(self, question: Callable[[Path, Callable[[], bool]], T]) -> T:
        folder = self._folder
        if folder is None:
            raise UnavailableError("the journal is kept in memory alone: it has no past")
        async with self._asking:
            end = time.monotonic() + self._patience
            return await asyncio.to_thread(question, folder, lambda: time.monotonic() > end)


def _timeline(folder: Path, workload: str, policy: str, begin: float, enough: Callable[[], bool]) -> Timeline:
    pairs = list[tuple[Decision, Outcome | None]]()
    ends: Literal["asked", "journal", "patience"] = "journal"
    for pair in decided(folder, workload.split("/"), policy or None, enough):
        if pair[0].at < begin:
            ends = "asked"
            break
        pairs.append(pair)
        if enough() or len(pairs) >= DECISIONS:
            break
    if ends == "journal" and (enough() or len(pairs) >= DECISIONS):
        ends = "patience"
    newest_first = [decision for decision, _ in pairs]
    since = newest_first[-1].at if newest_first else 0.0
    return Timeline(workload, since, ends, tuple(_thinned(newest_first)), tuple(map(_brief, in_rows(pairs)[-ROWS:])))


def _brief(row: HistoryRow) -> PastDecision:
    decision, outcome = row.decision, row.outcome
    awaited = "" if decision.action is None else "..."
    result = awaited if outcome is None else ": ".join(filter(None, (outcome.result, outcome.reason)))
    return PastDecision(
        decision.at,
        row.until,
        row.decisions,
        decision.policy,
        decision.mode,
        decision.verdict,
        decision.current,
        decision.replicas,
        one_line(decision.reason),
        one_line(decision.message),
        decision.wish,
        decision.blind,
        result,
    )


def _thinned(newest_first: Sequence[Decision]) -> Iterator[ChartPoint]:
    """The points of decisions, oldest first: each change of a count, and others some time apart."""
    if not newest_first:
        return
    step, last, before = (newest_first[0].at - newest_first[-1].at) / POINTS, -inf, None
    for decision in reversed(newest_first):
        counts = decision.current, decision.replicas, decision.wish
        if counts != before or decision.at >= last + step or decision is newest_first[0]:
            yield point_of(decision)
            last, before = decision.at, counts
