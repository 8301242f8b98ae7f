"""Reads the journal back from its segments, whether plain, compressed, or with shortened decisions.

What is damaged is skipped and logged; all else is read. Each segment can be read without the others: a shortened
decision refers to one in the same segment. Knows nothing of how they are written.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Self

from elasticd.base.errors import UnavailableError
from elasticd.base.text import counted
from elasticd.journal.lines import Damaged, Record, ShortenedDecision, decode, holds
from elasticd.journal.segments import DamagedBlock, number_of, open_lines, segments, unpack
from elasticd.model.records import Decision
from elasticd.model.workload import Ref

log = logging.getLogger("elasticd.journal")

LONGEST = 32 << 20
"""Bytes of a line, at most: longer garbage is read in pieces, so that it cannot take all memory."""

_FULL, _SHORTENED = b'{"type":"decision","id":', b'{"type":"decision-again",'
"""The beginnings of the lines of full and of shortened decisions."""


class JournalLine(NamedTuple):
    """A line of a segment: its number, from 1 on, its offset in bytes, and its text with the end of the line."""

    number: int
    offset: int
    text: bytes

    @property
    def ended(self) -> bool:
        """Whether the line is complete: a crash leaves one without an end, and so does a write in progress."""
        return self.text.endswith(b"\n") or len(self.text) == LONGEST


def read(folder: Path, last: int = 0) -> Iterator[Record]:
    """All records on disk, oldest first, or those of the last segments. Raises OSError for a folder that cannot be
    listed."""
    for path in segments(folder)[-last:]:
        with _Losses(path) as losses:
            for _, record in _restored(_lines(path, losses), losses):
                yield record


def misses_segments(folder: Path) -> bool:
    """Whether there once were older segments."""
    return any(number_of(path) > 1 for path in segments(folder)[:1])


def _restored(lines: Iterable[JournalLine], losses: "_Losses") -> Iterator[tuple[JournalLine, Record]]:
    """The records of a segment's lines, read from its beginning; shortened decisions are restored."""
    full: dict[tuple[str, Ref], Decision] = {}
    for line in lines:
        record = losses.decode(line)
        if isinstance(record, ShortenedDecision):
            record = losses.restored(record.restored(full.get((record.policy, record.workload))), record)
        elif isinstance(record, Decision):
            full[record.policy, record.workload] = record
        if record is not None:
            yield line, record


def read_back(folder: Path, containing: bytes = b"", enough: Callable[[], bool] = lambda: False) -> Iterator[Record]:
    """All records on disk whose line contains these bytes, newest first; no segment is read before it is needed,
    or once it is `enough`. Raises UnavailableError for a folder, or a file, that may not be read."""
    try:
        for path in reversed(segments(folder)):
            if enough():
                return
            with _Losses(path) as losses:
                yield from _read_back(path, containing, losses)
    except OSError as error:
        raise UnavailableError(f"{folder}: the journal must be readable: {error.strerror}") from None


def _read_back(path: Path, containing: bytes, losses: "_Losses") -> Iterator[Record]:
    lines = [line for line in _lines(path, losses) if _is_needed(line, containing, losses)]
    if isinstance(losses.fault, PermissionError):
        raise losses.fault
    if any(line.text.startswith(_SHORTENED) for line in lines):  # they refer to decisions before them
        yield from reversed([record for line, record in _restored(lines, losses) if containing in line.text])
        return
    for _, record in _restored((line for line in reversed(lines) if containing in line.text), losses):
        yield record


def _is_needed(line: JournalLine, containing: bytes, losses: "_Losses") -> bool:
    """Whether a line must be decoded. One with a wrong checksum is counted as lost, whatever it contains now."""
    if not line.ended and isinstance(decode(line.text), Damaged):  # it may be being written
        return False
    if holds(line.text) is False:
        losses.decode(line)
        return False
    return containing in line.text or line.text.startswith(_FULL)


def lines_after(folder: Path, place: tuple[int, int] = (0, 0)) -> Iterator[tuple[tuple[int, int], bytes]]:
    """The lines after a place (a segment's number and an offset in it), oldest first, each with the place after it.
    Lines with a wrong checksum are left out. A last line without an end is left for the next call."""
    for path in segments(folder):
        number = number_of(path)
        if number < place[0]:
            continue
        begin = place[1] if number == place[0] else 0
        for line in _lines(path, _Losses(path), begin):
            if not line.ended:
                break
            if holds(line.text) is not False:
                yield (number, line.offset + len(line.text)), line.text


def _lines(path: Path, losses: "_Losses", begin: int = 0) -> Iterator[JournalLine]:
    """A segment's lines, as far as it can be read; none where the daemon has dropped the segment meanwhile. Offsets are
    those of the plain text."""
    offset, number = 0, 0
    try:
        with open_lines(path) as file:
            compressed = str(file.name).endswith(".gz")
            offset = 0 if compressed else file.seek(begin)
            for block in unpack(file) if compressed else [file]:
                if isinstance(block, DamagedBlock):
                    losses.note_block(block)
                    offset += block.size
                    continue
                while text := block.readline(LONGEST):
                    number += 1
                    if offset >= begin:
                        yield JournalLine(number, offset, text)
                    offset += len(text)
    except FileNotFoundError:
        return
    except OSError as error:
        losses.fault, losses.read_to = error, offset


class _Losses:
    """The lines of a segment that could not be read. They are logged at the end, however early its reader stops."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.fault: OSError | None = None
        self.read_to = 0
        self._skipped: dict[tuple[str, str], tuple[int, tuple[int, str]]] = {}
        """By noun and fault, how many were skipped, and the first of them: its place, and that in words."""
        self._incomplete = 0
        self._last: ShortenedDecision | None = None

    def __enter__(self) -> Self:
        return self

    def decode(self, line: JournalLine) -> Record | ShortenedDecision | None:
        """Decode a line; None, and noted, where it is damaged."""
        record = decode(line.text)
        if not isinstance(record, Damaged):
            return record
        fault = "not of this version of elasticd" if record.foreign else "damaged"
        self._note("line", fault, line.number, f"line {line.number}, at byte {line.offset}: {record.why}")
        return None

    def note_block(self, block: DamagedBlock) -> None:
        self._note("compressed block", "damaged", block.offset, f"at byte {block.offset}: {block.why}")

    def _note(self, noun: str, fault: str, place: int, where: str) -> None:
        """Count a skipped line or block. They may come in any order of places."""
        count, first = self._skipped.get((noun, fault), (0, (place, where)))
        self._skipped[noun, fault] = count + 1, min(first, (place, where))

    def restored(self, decision: Decision | None, shortened: ShortenedDecision) -> Decision | None:
        """Pass on a restored decision; note that it could not be restored where it is None."""
        if decision is None:
            self._incomplete += 1
            self._last = max(self._last or shortened, shortened, key=lambda decision: decision.at)
        return decision

    def __exit__(self, *_: object) -> None:
        for noun, fault in sorted(self._skipped):
            count, first = self._skipped[noun, fault]
            are, where = ("is", first[1]) if count == 1 else ("are", f"the first is {first[1]}")
            log.warning("%s: %s %s %s and passed over: %s", self._path, counted(count, noun), are, fault, where)
        if self._last is not None:
            decisions, problem = counted(self._incomplete, "decision"), "a line that is named there is missing"
            last = f"policy {self._last.policy}'s about {self._last.workload} at {self._last.at:.3f}"
            log.warning("%s: %s cannot be read back: %s; the newest is %s", self._path, decisions, problem, last)
        if self.fault is not None:
            why = self.fault.strerror or type(self.fault).__name__
            log.warning("%s: cannot be read from byte %d on, which is passed over: %s", self._path, self.read_to, why)
