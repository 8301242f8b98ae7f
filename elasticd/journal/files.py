"""The journal's files: numbered segments of JSON lines, and reading them back.

A damaged line is skipped and logged; the others are read. Each segment can be read without the others: a shortened
decision refers to one in the same segment. Knows nothing of how they are written.
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
"""Bytes of a line, at most: longer garbage is read in pieces, so that it cannot take all memory."""

_DECISION = b'{"type":"decision","id":'
"""The beginning of the line of a full decision."""


class JournalLine(NamedTuple):
    """A line of a segment: its number, from 1 on, its offset in bytes, and its text with the end of the line."""

    number: int
    offset: int
    text: bytes

    @property
    def ended(self) -> bool:
        """Whether the line is complete: a crash leaves one without an end, and so does a write in progress."""
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
    """The path of the last segment, or of the first one to be written."""
    paths = segments(folder)
    return paths[-1] if paths else segment(folder, 1)


def read(folder: Path) -> Iterator[Record]:
    """All records on disk, oldest first. Raises OSError for a folder that cannot be listed."""
    for path in segments(folder):
        restorer = Expander()
        with _logged_losses(path) as losses:
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
            with _logged_losses(path) as losses:
                yield from _read_back(path, containing, losses)
    except OSError as error:
        raise UnavailableError(f"{folder}: the journal must be readable: {error.strerror}") from None


def _read_back(path: Path, containing: bytes, losses: "_Losses") -> Iterator[Record]:
    lines = [line for line in _lines(path, losses) if _is_needed(line, containing, losses)]
    if isinstance(losses.fault, PermissionError):
        raise losses.fault
    firsts = _FullDecisions([line.text for line in lines])
    for line in reversed(lines):
        record = losses.decode(line) if containing in line.text else None
        if isinstance(record, ShortenedDecision):
            record = losses.restored(firsts.restore(record), record)
        if record is not None:
            yield record


def _is_needed(line: JournalLine, containing: bytes, losses: "_Losses") -> bool:
    """Whether a line must be decoded. One with a wrong checksum is counted as lost, whatever it contains now."""
    if not line.ended and isinstance(decode(line.text), Damaged):  # it may be being written
        return False
    if holds(line.text) is False:
        losses.decode(line)
        return False
    return containing in line.text or line.text.startswith(_DECISION)


def lines_after(folder: Path, place: tuple[int, int] = (0, 0)) -> Iterator[tuple[tuple[int, int], bytes]]:
    """The lines after a place (a segment's number and an offset in it), oldest first, each with the place after it.

    Lines with a wrong checksum are left out. A last line without an end is left for the next call.
    """
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
    """A segment's lines, as far as it can be read; none where the daemon has dropped the segment meanwhile."""
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
    """The lines of a segment that could not be read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.fault: OSError | None = None
        self.read_to = 0
        self._damaged, self._foreign = _Lines("damaged"), _Lines("not of this version of elasticd")
        self._incomplete = 0
        self._last: ShortenedDecision | None = None

    def decode(self, line: JournalLine) -> Record | ShortenedDecision | None:
        """Decode a line; None, and noted, where it is damaged."""
        record = decode(line.text)
        if not isinstance(record, Damaged):
            return record
        (self._foreign if record.foreign else self._damaged).note(line, record.why)
        return None

    def restored(self, decision: Decision | None, shortened: ShortenedDecision) -> Decision | None:
        """Pass on a restored decision; note that it could not be restored where it is None."""
        if decision is None:
            self._incomplete += 1
            self._last = (
                shortened if self._last is None else max(self._last, shortened, key=lambda decision: decision.at)
            )
        return decision

    def tell(self) -> None:
        """Log what was skipped, and where."""
        for lines in (self._damaged, self._foreign):
            if lines.count:
                log.warning("%s: %s", self._path, lines)
        if self._last is not None:
            problem = (
                f"{counted(self._incomplete, 'decision')} cannot be read back: a line that is named there is missing"
            )
            last = f"policy {self._last.policy}'s about {self._last.workload} at {self._last.at:.3f}"
            log.warning("%s: %s; the newest is %s", self._path, problem, last)
        if self.fault is not None:
            why = self.fault.strerror or type(self.fault).__name__
            log.warning("%s: cannot be read from byte %d on, which is passed over: %s", self._path, self.read_to, why)


class _Lines:
    """Skipped lines: how many, and the first."""

    def __init__(self, fault: str) -> None:
        self._fault, self.count = fault, 0
        self._first = (0, 0, "")

    def note(self, line: JournalLine, why: str) -> None:
        """Count a skipped line."""
        place = line.number, line.offset, why
        self._first = min(self._first, place) if self.count else place
        self.count += 1

    def __str__(self) -> str:
        number, offset, why = self._first
        where = f"line {number}, at byte {offset}: {why}"
        if self.count == 1:
            return f"1 line is {self._fault} and passed over: {where}"
        return f"{self.count} lines are {self._fault} and passed over: the first is {where}"


@contextlib.contextmanager
def _logged_losses(path: Path) -> Iterator[_Losses]:
    """Log at the end what of a segment could not be read, however early its reader stops."""
    losses = _Losses(path)
    try:
        yield losses
    finally:
        losses.tell()


class _FullDecisions:
    """Finds the full decisions of a segment that is read from its end, when they are needed."""

    def __init__(self, lines: Sequence[bytes]) -> None:
        self._lines = lines
        self._full_decisions: dict[tuple[str, tuple[str, Ref], int], Decision | None] = {}

    @cached_property
    def _by_id(self) -> dict[bytes, list[bytes]]:
        """The lines of full decisions, by their ids in JSON."""
        lines: dict[bytes, list[bytes]] = {}
        for line in self._lines:
            if line.startswith(_DECISION):
                lines.setdefault(line[len(_DECISION) :].partition(b',"at":')[0], []).append(line)
        return lines

    def restore(self, shortened: ShortenedDecision) -> Decision | None:
        """The full decision of a shortened one; None where the one that it refers to was lost."""
        key = shortened.of, (shortened.policy, shortened.workload), shortened.current
        if key not in self._full_decisions:
            full = map(decode, reversed(self._by_id.get(msgspec.json.encode(shortened.of), ())))
            self._full_decisions[key] = next(
                (decision for decision in full if isinstance(decision, Decision) and shortened.agrees(decision)), None
            )
        first = self._full_decisions[key]
        return None if first is None else shortened.restored(first)
