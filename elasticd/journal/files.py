"""The journal's files: numbered segments of JSON lines, and reading them back.

Whatever stands in a file, its other lines are read, and the log says what was passed over. Each segment can be read
without the others: a decision that only tells what is new since another stands in the same one. Knows nothing of how
they are written.
"""

import contextlib
import logging
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import msgspec

from elasticd.base.errors import UnavailableError
from elasticd.base.text import counted
from elasticd.journal.lines import Damaged, Record, decode, holds
from elasticd.journal.shortened import Expander, ShortenedDecision
from elasticd.model.records import Decision
from elasticd.model.workload import Ref

log = logging.getLogger("elasticd.journal")

LONGEST = 32 << 20
"""Bytes: what is longer than any record is read in pieces, so that no garbage takes all memory."""

_DECISION = b'{"type":"decision","id":'
"""How the line of a decision that stands in full begins."""


class JournalLine(NamedTuple):
    """A line of a segment: its number, from 1 on, the bytes before it, and itself with its end."""

    number: int
    offset: int
    text: bytes

    @property
    def ended(self) -> bool:
        """Whether all of it is there: a crash leaves one without an end, and so does a writer that is at it."""
        return self.text.endswith(b"\n") or len(self.text) == LONGEST


def segments(folder: Path) -> list[Path]:
    """The journal's files, oldest first."""
    return sorted((path for path in folder.iterdir() if number_of(path)), key=lambda path: (number_of(path), path.name))


def number_of(path: Path) -> int:
    """A segment's number, 0 for any other file."""
    name = path.name.removeprefix("journal-").removesuffix(".jsonl")
    return int(name) if path.name == f"journal-{name}.jsonl" and name.isdecimal() else 0


def segment(folder: Path, number: int) -> Path:
    """The segment of this number."""
    return folder / f"journal-{number:08d}.jsonl"


def newest(folder: Path) -> Path:
    """The last segment, or what the first will be called."""
    known = segments(folder)
    return known[-1] if known else segment(folder, 1)


def read(folder: Path) -> Iterator[Record]:
    """All records on disk, oldest first. Raises OSError for a folder that cannot be listed."""
    for path in segments(folder):
        restorer = Expander()
        with _losses(path) as losses:
            for line in _lines(path, losses):
                record = losses.decode(line)
                if isinstance(record, Decision):
                    restorer.saw(record)
                elif isinstance(record, ShortenedDecision):
                    record = losses.restored(restorer.restore(record), record)
                if record is not None:
                    yield record


def read_back(folder: Path, containing: bytes = b"") -> Iterator[Record]:
    """All records on disk whose line contains these bytes, newest first; no segment is read before it is needed.

    Raises UnavailableError for a folder, or a file, that may not be read.
    """
    try:
        for path in reversed(segments(folder)):
            with _losses(path) as losses:
                yield from _read_back(path, containing, losses)
    except OSError as error:
        raise UnavailableError(f"{folder}: the journal must be readable: {error.strerror}") from None


def _read_back(path: Path, containing: bytes, losses: "_Losses") -> Iterator[Record]:
    lines = [line for line in _lines(path, losses) if _worth(line, containing, losses)]
    if isinstance(losses.fault, PermissionError):
        raise losses.fault
    firsts = _Firsts([line.text for line in lines])
    for line in reversed(lines):
        record = losses.decode(line) if containing in line.text else None
        if isinstance(record, ShortenedDecision):
            record = losses.restored(firsts.restore(record), record)
        if record is not None:
            yield record


def _worth(line: JournalLine, containing: bytes, losses: "_Losses") -> bool:
    """Whether a line is looked at again. One with a wrong checksum is told, whatever it contains now."""
    if not line.ended and isinstance(decode(line.text), Damaged):  # it may be written just now
        return False
    if holds(line.text) is False:
        losses.decode(line)
        return False
    return containing in line.text or line.text.startswith(_DECISION)


def lines_after(folder: Path, place: tuple[int, int] = (0, 0)) -> Iterator[tuple[tuple[int, int], bytes]]:
    """The lines after a place (a segment's number, and bytes of it), each with the place behind it; oldest first.
    Those whose checksum is wrong are left out. A last line without an end is left for the next time."""
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
    """A segment's lines as far as it can be read; none of one that the daemon has dropped meanwhile."""
    offset, number = begin, 0
    try:
        with path.open("rb") as file:
            file.seek(begin)
            while text := file.readline(LONGEST):
                number += 1
                yield JournalLine(number, offset, text)
                offset += len(text)
    except FileNotFoundError:
        return
    except OSError as error:
        losses.fault, losses.read_to = error, offset


class _Losses:
    """What of a segment could not be read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.fault: OSError | None = None
        self.read_to = 0
        self._damaged, self._foreign = _Lines("damaged"), _Lines("not of this version of elasticd")
        self._incomplete = 0
        self._last: ShortenedDecision | None = None

    def decode(self, line: JournalLine) -> Record | ShortenedDecision | None:
        """What a line says; that it is damaged is noted."""
        record = decode(line.text)
        if not isinstance(record, Damaged):
            return record
        (self._foreign if record.foreign else self._damaged).note(line, record.why)
        return None

    def restored(self, decision: Decision | None, again: ShortenedDecision) -> Decision | None:
        """The same; that there is none is noted."""
        if decision is None:
            self._incomplete += 1
            self._last = again if self._last is None else max(self._last, again, key=lambda one: one.at)
        return decision

    def tell(self) -> None:
        """Say in the log what was passed over, and where."""
        for lines in (self._damaged, self._foreign):
            if lines.count:
                log.warning("%s: %s", self._path, lines)
        if self._last is not None:
            what = f"{counted(self._incomplete, 'decision')} cannot be read back: a line that is named there is missing"
            told = f"policy {self._last.policy}'s about {self._last.workload} at {self._last.at:.3f}"
            log.warning("%s: %s; the newest is %s", self._path, what, told)
        if self.fault is not None:
            why = self.fault.strerror or type(self.fault).__name__
            log.warning("%s: cannot be read from byte %d on, which is passed over: %s", self._path, self.read_to, why)


class _Lines:
    """Lines that are passed over: how many, and the first."""

    def __init__(self, what: str) -> None:
        self._what, self.count = what, 0
        self._first = (0, 0, "")

    def note(self, line: JournalLine, why: str) -> None:
        """Another one."""
        this = line.number, line.offset, why
        self._first = min(self._first, this) if self.count else this
        self.count += 1

    def __str__(self) -> str:
        number, offset, why = self._first
        where = f"line {number}, at byte {offset}: {why}"
        if self.count == 1:
            return f"1 line is {self._what} and passed over: {where}"
        return f"{self.count} lines are {self._what} and passed over: the first is {where}"


@contextlib.contextmanager
def _losses(path: Path) -> Iterator[_Losses]:
    """Say in the end what of a segment could not be read, however early its reader stops."""
    losses = _Losses(path)
    try:
        yield losses
    finally:
        losses.tell()


class _Firsts:
    """The decisions that stand in full in a segment, which is read from its end: looked for when they are needed."""

    def __init__(self, lines: Sequence[bytes]) -> None:
        self._lines = lines
        self._found: dict[tuple[str, tuple[str, Ref], int], Decision | None] = {}

    @cached_property
    def _by_id(self) -> dict[bytes, list[bytes]]:
        """Their lines, by their ids as they are written."""
        found: dict[bytes, list[bytes]] = {}
        for line in self._lines:
            if line.startswith(_DECISION):
                found.setdefault(line[len(_DECISION) :].partition(b',"at":')[0], []).append(line)
        return found

    def restore(self, again: ShortenedDecision) -> Decision | None:
        """The decision as it was; None where what it is like was lost."""
        key = again.of, (again.policy, again.workload), again.current
        if key not in self._found:
            full = map(decode, reversed(self._by_id.get(msgspec.json.encode(again.of), ())))
            self._found[key] = next((one for one in full if isinstance(one, Decision) and again.agrees(one)), None)
        first = self._found[key]
        return None if first is None else again.restored(first)
