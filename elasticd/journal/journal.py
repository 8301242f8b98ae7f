"""Keeps records, on disk as JSON lines in numbered segments and in memory as each workload's Past.

Knows nothing of how they are made. It opens whatever its files contain.
"""

import contextlib
import errno
import fcntl
import io
import logging
import math
import os
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from elasticd.base.errors import UnavailableError
from elasticd.base.files import regular
from elasticd.base.text import counted
from elasticd.journal.known_series import LOST_WITHIN, KnownSeries
from elasticd.journal.lines import AHEAD, Record, write_line
from elasticd.journal.reading import read
from elasticd.journal.segments import (
    compress,
    newest,
    next_segment,
    number_of,
    plain,
    remove_unfinished,
    sizes,
    strangers,
)
from elasticd.journal.writer import WriterThread
from elasticd.kit import history
from elasticd.model.disruption import Disruption, NodesCounted, SeriesLost
from elasticd.model.history import Past
from elasticd.model.moves import MoveDecision
from elasticd.model.records import Decision, Outcome, Reopened
from elasticd.model.workload import Ref, Series

Key = tuple[str, Ref]
"""A policy's name and one of its workloads, or of the pods that it wants moved."""

REMEMBERED = 384 << 20
"""Bytes of lines that are read at the start, about: 180,000 decisions over ten pods, in some seconds."""

_COUNTS = 200
"""Counts of nodes that are remembered: one is written every five seconds at most, and matters for ten minutes."""

DAY = 86400.0

TRIES, BETWEEN = 4, 0.02
"""How often the lock of the folder is tried, and seconds in between."""

ANSWERS = 2.0
"""Seconds that a write may take before its disk counts as one that does not answer."""

OPENS = 5.0
"""Seconds that the folder may take to be opened before the log says so."""

HELD = 16 << 20
"""Bytes of lines that are held for a disk that does not answer."""

HANGS = "its disk does not answer"

log = logging.getLogger("elasticd.journal")


class Journal:
    """An append-only journal. Without a folder it is kept in memory alone, as a simulation wants it.

    `failures` counts the lines that could not be written (a full disk); they are still remembered. `writable` is
    whether the last write succeeded; if not, `fault` is why, and `lacks` the time from which on records are missing.

    All segments together take at most `segments` times `segment_bytes` on disk; the oldest go first. A full segment is
    compressed in a thread; one that cannot be stays as it is, and is tried again with the next.

    `swells` is why the journal exceeds its size limit, though nothing is missing: no new segment can be begun, or no
    old one dropped. The current segment may then grow to the limit of all segments, and all to twice that; further
    records are not written.

    Lines are written in a thread. While a disk does not answer, that is a `fault` too, and nothing waits for it: up to
    HELD bytes of lines are held until it does.
    """

    def __init__(
        self, folder: Path | None = None, segment_bytes: int = 16 << 20, segments: int = 4, now: float = math.inf
    ) -> None:
        """`now`: records on disk from later than that are not remembered."""
        self.folder, self._segment_bytes, self._limit = folder, segment_bytes, segment_bytes * segments
        self._pasts: dict[Key, Past] = {}
        self._repeated: dict[Key, float] = {}
        """When the last decision last came out again, where that is not in the workload's past yet."""
        self._acting: dict[Ref, str] = {}
        """The policy that last decided about a workload in mode act: its past has the workload's changes."""
        self._latest: dict[Key, Decision] = {}
        self.known_series = KnownSeries()
        self._moves: dict[Key, MoveDecision] = {}
        self._disruptions: deque[Disruption] = deque()
        self._nodes: deque[NodesCounted] = deque(maxlen=_COUNTS)
        self._newest = -math.inf
        self.last_disruption = -math.inf
        """When a pod was last made to go, or was about to be; -inf: never."""
        self.begun = now if folder is not None and now < math.inf else -math.inf
        """The time of the oldest record that is remembered; -inf: it misses none."""
        self._lines = bytearray()
        self._file: io.FileIO | None = None
        self._path = Path()
        self._lock: int | None = None
        self._compressor = ThreadPoolExecutor(1, "journal")
        self._uncompressed = ""
        """Why a segment could not be compressed; only the compressor's thread uses it."""
        self._writer: WriterThread | None = None
        self._write: Future[tuple[str, int]] | None = None
        """The write that has not been answered; until it is, only the writer's thread uses the file."""
        self._torn = False
        """Whether the file may end within a line, so that the next write must end that line first."""
        self.failures = 0
        self.writable, self.fault, self.lacks = True, "", 0.0
        self.swells = ""
        self._oldest = 0.0
        """The time of the oldest record in `_lines`, which are still to be written."""
        if folder is not None:
            with _told_if_slow(folder):
                self._open(folder, now)
            self._writer = WriterThread()

    def _open(self, folder: Path, now: float) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = _lock_folder(folder)
            for path, kind in strangers(folder):
                log.warning("%s: must be a file of the journal, is %s: passed over", path, kind)
            self._read_folder(folder, now)
            remove_unfinished(folder)
            try:
                self._continue(newest(folder))
            except OSError:  # perhaps of that file alone: then another can be begun
                self._continue(next_segment(folder))
            self._compress(folder)
        except OSError as error:
            raise UnavailableError(f"{folder}: the journal's folder must be writable: {error.strerror}") from None

    def _read_folder(self, folder: Path, now: float) -> None:
        """Remember the newest records on disk, but none from the future, which would count as recent until then. Only
        that a pod was made to go is: the clock was set back since, so that was before the record that was written
        next, or now."""
        ahead: list[float] = []
        undated: list[Disruption] = []
        for record in read(folder, last=math.ceil(REMEMBERED / self._segment_bytes)):
            if record.at <= now + AHEAD:
                self._remember_at(record.at, undated)
                self.begun = min(self.begun, record.at)
                self._take(record)
            else:
                ahead.append(record.at)
                undated += [record] if isinstance(record, Disruption) else []
        self._remember_at(now, undated)
        if LOST_WITHIN < now - self._newest < math.inf:  # what has ended since is not lost now
            self.known_series.clear()
        if ahead:
            lead = f"by {max(ahead) - now:.0f} s" if len(ahead) == 1 else f"by up to {max(ahead) - now:.0f} s"
            log.warning("%s: %s ahead of the clock, %s: not remembered", folder, counted(len(ahead), "record"), lead)

    def _remember_at(self, at: float, undated: list[Disruption]) -> None:
        for disruption in undated:
            self._remember(replace(disruption, at=at))
        undated.clear()

    def _continue(self, path: Path) -> None:
        """Write to this file from now on. The old one is closed only when the new one is open."""
        # Without a buffer, so that lines refused by a full disk are not written later, out of order.
        file = io.FileIO(path, "ab", True, regular)
        if self._file is not None:
            self._file.close()
        self._file, self._path, self._torn = file, path, file.seek(0, io.SEEK_END) > 0

    def append(self, record: Record) -> None:
        """Remember a record; it is on disk after the next flush. One that cannot be written, as a source may make it,
        raises TypeError or ValueError and is not remembered."""
        if self.folder is not None:
            self._oldest = self._oldest if self._lines else record.at
            write_line(record, self._lines)
        self._take(record)

    def _take(self, record: Record) -> None:
        self._newest = max(self._newest, record.at)
        if isinstance(record, Decision):
            self._take_decision(record)
        elif isinstance(record, Outcome):
            key = (record.policy, record.workload)
            if past := self._past(key):
                self._pasts[key] = history.carry(past, record)
        elif isinstance(record, MoveDecision):  # what is known of other pods is read from the cluster
            self._moves[record.policy, record.pod] = record
            if record.verdict == "over":
                del self._moves[record.policy, record.pod]
        elif isinstance(record, Disruption):
            self._remember(record)
        elif isinstance(record, NodesCounted):
            self._nodes.append(record)
        elif isinstance(record, SeriesLost):
            self.known_series.lost_together(record.at)
        elif isinstance(record, Reopened):
            pasts = {key: self._past(key) for key in self._pasts}
            self._pasts = {key: replace(past, until=float("-inf")) for key, past in pasts.items() if past}

    def _take_decision(self, record: Decision) -> None:
        key = (record.policy, record.workload)
        self._latest[key] = record
        self.known_series.take(record)
        if record.interval_by:  # else no strategy was asked, and it says nothing of what was wished for
            acts = record.mode == "act"
            past = self.past(*key, record.at, record.own_count, record.uid, acts=acts)
            self._pasts[key] = history.remember(past, record)
            if acts:
                self._acting[record.workload] = record.policy

    def _remember(self, disruption: Disruption) -> None:
        """Remember a disruption for a day, the longest that a budget may be about, unless it was taken back."""
        self.last_disruption = max(self.last_disruption, disruption.at)
        while self._disruptions and self._disruptions[0].at < disruption.at - DAY:
            self._disruptions.popleft()
        if disruption.undone:
            with contextlib.suppress(ValueError):
                self._disruptions.remove(replace(disruption, undone=False))
        else:
            self._disruptions.append(disruption)

    def disruptions(self) -> tuple[Disruption, ...]:
        """The pods that were made to leave their nodes within a day, the oldest first."""
        return tuple(self._disruptions)

    def node_counts(self) -> tuple[tuple[float, int], ...]:
        """How many nodes were ready until when, the oldest first; the last until the newest record."""
        until = [count.at for count in self._nodes][1:]
        return tuple([(at, count.ready) for at, count in zip([*until, self._newest], self._nodes, strict=False)])

    def past(self, policy: str, ref: Ref, at: float, replicas: int, uid: str = "", *, acts: bool = False) -> Past:
        """The history of a workload; for one without a recent history, one that begins with `replicas` now. A policy
        that `acts` knows all changes of the workload, also those that were made under another policy or name, but not
        those of an earlier object of the name (`uid`: of the present one; empty: it does not matter)."""
        past = self._past((policy, ref))
        past = history.begin(at, replicas) if past is None else history.resume(past, at, replicas)
        former = self._acting.get(ref, "") if acts else ""
        last = self._past((former, ref)) if former else None
        if last is None:
            return history.about(past, uid)
        last = history.resume(history.settle(history.about(last, uid), replicas), at, replicas)
        return last if former == policy else history.inherit(past, last)

    def repeat(self, policy: str, ref: Ref, at: float, observed: Iterable[Series], recall: float) -> None:
        """Remember that the last decision about a workload came out again, from these series; it is not written."""
        if recall:
            self._pasts[policy, ref] = history.repeat(self._pasts[policy, ref], at, observed, recall)
        else:
            self._repeated[policy, ref] = at

    def _past(self, key: Key) -> Past | None:
        """What is remembered of a workload, with the last repeat of its last decision."""
        past, at = self._pasts.get(key), self._repeated.pop(key, None)
        if past is None or at is None:
            return past
        past = self._pasts[key] = history.repeat(past, at, (), 0.0)
        return past

    def reopen(self, at: float) -> None:
        """Open every window afresh at the next look, because another daemon may have acted since."""
        self.append(Reopened(at))

    @property
    def stretch(self) -> tuple[int, int]:
        """Changes where a segment begins, and where lines were lost: from there on changes say nothing without the
        whole."""
        return number_of(self._path) if self._file else 0, self.failures

    def latest(self, policy: str, ref: Ref) -> Decision | None:
        return self._latest.get((policy, ref))

    def decisions(self) -> list[Decision]:
        """The last decision about every workload, by policy and workload."""
        return [self._latest[key] for key in sorted(self._latest)]

    def moves(self, policy: str) -> list[MoveDecision]:
        """The policy's last decision about each pod that it wanted moved and whose move has not ended."""
        return [decision for key, decision in self._moves.items() if key[0] == policy]

    def movers(self) -> frozenset[str]:
        """The policies with a move that has not ended."""
        return frozenset(policy for policy, _ in self._moves)

    def forget(self, keep: AbstractSet[Key], before: float) -> None:
        """Drop from memory what is not governed. A history goes only if it ended before the time `before`, so that a
        workload that the cluster does not show for a while keeps it, and not before another policy has taken over the
        workload's changes. On disk all stays until its segment is dropped."""
        self._latest = {key: decision for key, decision in self._latest.items() if key in keep}
        governed = {ref for _, ref in keep}
        self.known_series.keep(keep, self._newest)
        kept = {*keep, *[(policy, ref) for ref, policy in self._acting.items() if ref in governed]}
        pasts = {key: self._past(key) for key in self._pasts}
        self._pasts = {key: past for key, past in pasts.items() if past and (key in kept or past.until >= before)}
        self._acting = {ref: policy for ref, policy in self._acting.items() if (policy, ref) in self._pasts}

    def flush(self) -> None:
        """Write the lines, and begin a new segment when this one is full. After a failed write, without new lines, a
        blank line, which readers skip, tries whether writing works again. Waits ANSWERS seconds at most, and not at all
        while a write before has no answer."""
        if self._file is None or self._writer is None:
            return
        if self._write is not None and not self._settle_write(0.0):
            self._shed()
        elif self._lines or self.fault:
            lines, self._lines = self._lines, bytearray()
            self._write = self._writer.submit(partial(self._write_lines, self._file, lines))
            if not self._settle_write(ANSWERS):
                self._note_fault(HANGS)

    def _settle_write(self, patience: float) -> bool:
        """Whether the write that is under way has an answer within so many seconds; note what it is."""
        write = self._write
        if write is None:
            return False
        try:
            write.exception(patience)
        except TimeoutError:
            return False
        self._write = None
        fault, lost = write.result()
        self.failures += lost
        self._note_fault(fault)
        return True

    def _shed(self) -> None:
        """Drop the lines that are held, if they are too many."""
        if len(self._lines) > HELD:
            self.failures += self._lines.count(b"\n")
            self._lines.clear()

    def _write_lines(self, file: io.FileIO, lines: bytearray) -> tuple[str, int]:
        """Write lines, and begin a new segment when this one is full; returns why that failed (empty: it did not), and
        how many lines are lost."""
        unwritten, lost = memoryview(b"\n" + lines if self._torn or not lines else lines), 0
        try:
            file = self._make_room(file)
            while unwritten:
                unwritten = unwritten[file.write(unwritten) or 0 :]
            self._torn, fault = False, ""
        except OSError as error:
            self._torn = self._torn or bool(unwritten)
            lost = min(lines.count(b"\n"), bytes(unwritten).count(b"\n"))
            fault = error.strerror or type(error).__name__
        if self.swells or not fault:
            self._rotate_if_full()
        return fault, lost

    def _make_room(self, file: io.FileIO) -> io.FileIO:
        """The file to write to: a new segment if this one was removed, or its folder was replaced, because nobody could
        read it. Raises OSError where that fails, or where the journal is as large as it may be."""
        if not _is_at(file, self._path):
            self._rotate()
        if self.folder is not None and self.swells and self._overgrown(self.folder):
            with contextlib.suppress(OSError):
                self._drop(self.folder)
            if self._overgrown(self.folder):
                raise OSError(errno.EFBIG, f"{self.swells}, and the journal is as large as it may be")
        return self._file or file

    def _overgrown(self, folder: Path) -> bool:
        """Whether the newest segment has reached the size limit of all segments, or all have reached twice that."""
        taken = [size for _, size in sizes(folder)]
        return bool(taken) and (taken[-1] >= self._limit or sum(taken) >= 2 * self._limit)

    def _rotate_if_full(self) -> None:
        if self._file is None or self._file.tell() < self._segment_bytes:
            return
        try:
            self._rotate()
        except OSError as error:
            fault, begun = error.strerror or type(error).__name__, self._file.tell() < self._segment_bytes
            problem = "no old segment can be dropped" if begun else "no new segment can be begun"
            self._note_swelling(f"{problem}: {fault}")
        else:
            self._note_swelling("")

    def _note_swelling(self, why: str) -> None:
        """Note why the journal exceeds its size limit (empty: it does not), and log when that begins or ends."""
        before, self.swells = self.swells, why
        if why and not before:
            log.warning("the journal exceeds its size: %s: all records are written, in larger or more segments", why)
        elif before and not why:
            log.info("the journal keeps to its size again")

    def _note_fault(self, fault: str) -> None:
        """Note why the journal cannot be written (empty: it can), and log at once when that begins or ends."""
        before, self.fault, self.writable = self.writable, fault, not fault
        if self.writable == before:
            return
        if self.writable:
            log.info("the journal can be written again")
        else:
            self.lacks = self._oldest
            log.error(
                "the journal cannot be written: %s: what is decided is remembered, and gone at the next restart", fault
            )

    def _rotate(self) -> None:
        if self.folder is not None:
            self._continue(next_segment(self.folder, number_of(self._path)))
            self._compress(self.folder)
            self._drop(self.folder)

    def _compress(self, folder: Path) -> None:
        if paths := plain(folder, self._path):
            with contextlib.suppress(RuntimeError):  # without another thread they stay as they are until the next one
                self._compressor.submit(self._compress_all, paths)

    def _compress_all(self, paths: list[Path]) -> None:
        """Compress these segments, as far as they can be; log when that begins to fail, and when it succeeds again."""
        before, self._uncompressed = self._uncompressed, ""
        for path in paths:
            try:
                compress(path)
            except FileNotFoundError:
                continue  # dropped meanwhile
            except OSError as error:
                self._uncompressed = f"{path}: {error.strerror or type(error).__name__}"
        if self._uncompressed and not before:
            log.warning("a segment of the journal cannot be compressed, and stays as it is: %s", self._uncompressed)
        elif before and not self._uncompressed:
            log.info("segments of the journal can be compressed again")

    def _drop(self, folder: Path) -> None:
        """Remove the oldest segments, so that the current one may grow to its full size. The one before is not counted,
        as it is about to be compressed."""
        old = sizes(folder)[:-2]
        excess = sum(size for _, size in old) + self._segment_bytes - self._limit
        for path, size in old:
            if excess <= 0:
                return
            path.unlink(missing_ok=True)
            excess -= size

    def close(self) -> None:
        """Flush, wait for a segment that is being compressed, and close the file and the lock. A disk that does not
        answer is not waited for."""
        self.flush()
        self._compressor.shutdown(wait=self._write is None)
        if self._file is not None and self._writer is not None:
            closed = self._writer.submit(partial(_close, self._file))
            self._writer.end()
            wait([closed] if self._write is None else [])
            self._file = None
        if self._lock is not None:
            fcntl.flock(self._lock, fcntl.LOCK_UN)  # also for a process that a plugin forked, which has it too
            os.close(self._lock)
            self._lock = None


def _close(file: io.FileIO) -> None:
    with contextlib.suppress(OSError):
        file.close()


@contextlib.contextmanager
def _told_if_slow(folder: Path) -> Iterator[None]:
    """Log once that the folder is not open after OPENS seconds: whoever waits for a disk can say nothing."""
    text = "%s: is not open after %g s: its disk may not answer; the daemon waits for it"
    timer = threading.Timer(OPENS, log.warning, (text, folder, OPENS))
    timer.daemon = True
    with contextlib.suppress(RuntimeError):  # without another thread nobody says so
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _is_at(file: io.FileIO, path: Path) -> bool:
    """Whether a file is still found by its path: it was not removed, nor a folder above it replaced."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat(follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return False


def is_written(folder: Path) -> bool:
    """Whether a running daemon writes to this folder. Raises OSError for one that cannot be opened."""
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _lock_folder(folder: Path) -> int:
    """Lock the folder, until its descriptor is closed or the process ends: two daemons may not write one journal."""
    lock = os.open(folder, os.O_RDONLY)
    for _ in range(TRIES):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        time.sleep(BETWEEN)  # `is_written` holds it for no longer
    os.close(lock)
    raise UnavailableError(f"{folder}: must be one daemon's alone, another elasticd writes here")
