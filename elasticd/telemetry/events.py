"""The live stream of the status page, by server-sent events: what has changed, at most once a second.

Each message is rendered once, in a thread, for everybody who listens; who reads too slowly is dropped. Knows decisions
and the daemon's own summary of itself; knows nothing of HTTP.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from msgspec.structs import replace

from elasticd.base import shapes
from elasticd.base.news import LastReported
from elasticd.base.text import raised
from elasticd.model.listener import Governed, Notice, PodsWaiting, PoolsApplied
from elasticd.model.records import Decision, Outcome
from elasticd.model.workload import Ref
from elasticd.telemetry.summaries import WorkloadRow, brief, changes, data_age, point_of, refusal_of, row_of

EVERY = 1.0
"""Seconds between two messages. There always is one, so that a reader knows that the daemon is there."""

BEHIND = 20
"""Messages that wait for a reader, at most: one that is further behind is dropped, and may come again."""

ALIVE = b"event: alive\ndata: {}\n\n"
"""What a reader of a chart gets where it has no new point."""

STREAMS = 32
"""Streams at a time, at most."""

log = logging.getLogger("elasticd")

_Key = tuple[str, Ref]
_encode = msgspec.json.Encoder().encode


class TooManyStreamsError(Exception):
    """There are as many streams as there may be."""


class Stream:
    """One reader's messages: about all workloads, or with a `workload` the points of its chart alone."""

    def __init__(self, workload: str) -> None:
        self.workload = workload
        self._messages: asyncio.Queue[bytes | None] = asyncio.Queue(BEHIND + 1)
        self._dropped = False

    def send(self, message: bytes | None) -> None:
        """Queue a message; None ends the stream."""
        if self._messages.qsize() >= BEHIND:
            self._dropped, message = True, None
        if not self._messages.full():
            self._messages.put_nowait(message)

    async def messages(self) -> AsyncIterator[bytes]:
        """The messages, until the stream ends or its reader was dropped."""
        while not self._dropped and (message := await self._messages.get()) is not None:
            yield message


class Events:
    """A listener of the loops that tells the page's readers what has changed.

    `summary` gives what there is to say of the daemon as a whole, `decisions` the last ones about every workload. While
    nobody listens it does nothing.
    """

    def __init__(
        self,
        summary: Callable[[], object],
        decisions: Callable[[], Iterable[Decision]],
        every: float = EVERY,
        most: int = STREAMS,
    ) -> None:
        self._summary, self._decisions, self._every, self._most = summary, decisions, every, most
        self._streams: set[Stream] = set()
        self._new: set[Stream] = set()
        self._charted: frozenset[str] = frozenset()
        """The workloads whose charts somebody looks at: asked for each decision, so it is kept."""
        self._came = asyncio.Event()
        self._changed: dict[_Key, Decision] = {}
        self._outcomes: dict[_Key, Outcome] = {}
        self._governed: AbstractSet[_Key] | None = None
        self._waiting: dict[str, Mapping[str, int]] = {}
        self._points: list[Decision] = []
        self._board = _Board()
        self._failing = LastReported()

    def on(self, record: Notice) -> None:
        """Take in a record."""
        if isinstance(record, PodsWaiting):
            self._waiting[record.policy] = record.counts
        elif isinstance(record, PoolsApplied):
            self._waiting = {name: counts for name, counts in self._waiting.items() if name in record.names}
        elif not self._streams:
            return
        elif isinstance(record, Decision):
            self._changed[record.policy, record.workload] = record
            if self._charted and str(record.workload) in self._charted:
                self._points.append(record)
        elif isinstance(record, Outcome):
            self._outcomes[record.policy, record.workload] = record
        elif isinstance(record, Governed):
            self._governed = record.keys

    @asynccontextmanager
    async def opened(self, workload: str = "") -> AsyncIterator[Stream]:
        """A stream for as long as the block runs. Raises TooManyStreamsError."""
        if len(self._streams) >= self._most:
            raise TooManyStreamsError
        if not self._streams:  # nobody has listened: what is known of the workloads may be old
            self._board, self._governed = _Board(), None
            self._changed = {(decision.policy, decision.workload): decision for decision in self._decisions()}
        stream = Stream(workload)
        self._streams.add(stream)
        self._count_charts()
        self._new.add(stream)
        self._came.set()
        try:
            yield stream
        finally:
            self._streams.discard(stream)
            self._new.discard(stream)
            self._count_charts()

    def _count_charts(self) -> None:
        self._charted = frozenset(stream.workload for stream in self._streams if stream.workload)

    @property
    def readers(self) -> int:
        """How many streams there are."""
        return len(self._streams)

    def close(self) -> None:
        """End all streams."""
        for stream in self._streams:
            stream.send(None)

    async def run(self) -> None:
        """Send what has changed each second, and to those who have just come everything, until cancelled."""
        while True:
            if not self._streams:
                await self._came.wait()
            try:
                await self._send()
                self._failing.changed(None)
            except Exception as error:  # the daemon does its work also where nobody can look at it
                if self._failing.changed(raised(error)):
                    log.exception("the status page cannot be rendered")
            self._came.clear()
            await asyncio.sleep(self._every)

    async def _send(self) -> None:
        new, self._new = self._new, set()
        changed, self._changed = self._changed, {}
        outcomes, self._outcomes = self._outcomes, {}
        points, self._points = self._points, []
        board, governed, self._governed = self._board, self._governed, None
        state = {"daemon": self._summary(), "waiting": dict(self._waiting)}
        overview = any(not stream.workload for stream in new)
        message, everything, charts = await asyncio.to_thread(
            _render, board, state, (changed, outcomes, governed, points), everything=overview
        )
        for stream in self._streams - self._new:
            if stream.workload:
                stream.send(charts.get(stream.workload, ALIVE))
            else:
                stream.send(everything if stream in new else message)


def _render(
    board: "_Board",
    state: object,
    news: tuple[dict[_Key, Decision], dict[_Key, Outcome], AbstractSet[_Key] | None, list[Decision]],
    *,
    everything: bool,
) -> tuple[bytes, bytes, dict[str, bytes]]:
    """A message with what has changed, one with everything, and one for each workload whose chart somebody looks at."""
    changed, outcomes, governed, points = news
    update = board.update(changed, outcomes, governed)
    update["state"] = msgspec.Raw(shapes.encode(state))
    by_workload: dict[str, list[Decision]] = {}
    for decision in points:
        by_workload.setdefault(str(decision.workload), []).append(decision)
    charts = {name: _message("points", [_live_point(one) for one in made]) for name, made in by_workload.items()}
    whole = _message("all", {**board.everything(), "state": update["state"]}) if everything else b""
    return _message("changes", update), whole, charts


def _live_point(decision: Decision) -> dict[str, object]:
    return {
        "point": point_of(decision),
        "policy": decision.policy,
        "verdict": decision.verdict,
        "reason": brief(decision.reason),
        "message": brief(decision.message),
        "mode": decision.mode,
        "blind": decision.blind,
    }


def _message(event: str, content: object) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (event.encode(), _encode(content))


class _Board:
    """The rows as they were last sent, and when each was decided about. Only the rendering thread uses it."""

    def __init__(self) -> None:
        self._rows: dict[_Key, WorkloadRow] = {}
        self._times: dict[int, tuple[float, float | None]] = {}
        self._refused: dict[_Key, str] = {}
        self._next = 1

    def update(
        self, changed: dict[_Key, Decision], outcomes: dict[_Key, Outcome], governed: AbstractSet[_Key] | None
    ) -> dict[str, Any]:
        """Take in what was decided; returns the rows that differ from before, as far as they do, when each was looked
        at, and those that are gone."""
        rows, times = list[WorkloadRow | dict[str, object]](), list[float | None]()
        for key, outcome in outcomes.items():
            self._refused[key] = refused = refusal_of(outcome)
            known = self._rows.get(key)
            if key not in changed and known is not None and known.refused != refused:
                self._rows[key] = row = replace(known, refused=refused)
                rows.append(changes(known, row))
        for key, decision in changed.items():
            before = self._rows.get(key)
            number = self._number(before)
            row = row_of(number, decision, self._refused.get(key, ""))
            if row != before:
                self._rows[key] = row
                rows.append(row if before is None else changes(before, row))
            self._times[number] = time = round(decision.at, 1), data_age(decision)
            times += (number, *time)
        return {"rows": rows, "times": times, "gone": self._leave(governed)}

    def _number(self, row: WorkloadRow | None) -> int:
        if row is not None:
            return row.id
        self._next += 1
        return self._next - 1

    def _leave(self, governed: AbstractSet[_Key] | None) -> list[int]:
        """Drop the workloads that no policy governs any longer."""
        gone = [] if governed is None else [key for key in self._rows if key not in governed]
        numbers = [self._rows.pop(key).id for key in gone]
        for key, number in zip(gone, numbers, strict=True):
            self._times.pop(number, None)
            self._refused.pop(key, None)
        return numbers

    def everything(self) -> dict[str, Any]:
        times = [value for number, time in self._times.items() for value in (number, *time)]
        return {"rows": list(self._rows.values()), "times": times, "gone": []}
