"""One line of the journal: a record as JSON, with a checksum.

The last key of a line is the CRC-32 of all bytes before it, so that a flipped bit never makes another record of it.
Lines of earlier versions have no checksum: of those, values that no daemon writes are refused. Knows nothing of files.
"""

import zlib
from typing import NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from elasticd.base.text import one_line, shown
from elasticd.model.disruption import Disruption, NodesCounted, SeriesLost
from elasticd.model.moves import MoveDecision
from elasticd.model.placement import PodDecision, PodOutcome
from elasticd.model.records import Basis, Decision, Outcome, Reopened
from elasticd.model.workload import Recommendation, Ref, Series

Record = (
    Decision
    | Outcome
    | PodDecision
    | PodOutcome
    | MoveDecision
    | Disruption
    | NodesCounted
    | SeriesLost
    | Basis
    | Reopened
)

DECISIONS = b'"type":"decision'
"""Bytes that the lines of all decisions contain."""

_KEY, _END = b',"crc32":"', b'"}'
_SUM = len(_KEY) + 8 + len(_END)
"""Bytes of the checksum with its key, and of the brace that closes the record."""

LATEST = 32503680000.0
"""The year 3000, in seconds since the epoch: every record is from before."""

AHEAD = 60.0
"""Seconds by which a clock may have been put back: a record from further ahead is from a clock that was wrong."""

MOST = 2**31 - 1
"""The greatest count of replicas in Kubernetes."""

_REASON = 120
"""Characters of a decoder's message that are shown."""


class ShortenedDecision(Struct, frozen=True, gc=False, tag="decision-again"):
    """A decision that earlier versions wrote as its difference from the one with id `of` before it in its segment: all
    but its id, time, series and recommendations (None: the same). Only read: docs/decisions/006."""

    id: str
    at: float
    policy: str
    workload: Ref
    of: str
    current: int
    series: tuple[Series, ...]
    recommendations: tuple[Recommendation, ...] | None = None

    def restored(self, first: Decision | None) -> Decision | None:
        """The full decision, by the last full one about the workload; None where that is not the one it refers to."""
        if first is None or (self.of, self.current) != (first.id, first.current):
            return None
        recommendations = first.recommendations if self.recommendations is None else self.recommendations
        return replace(first, id=self.id, at=self.at, series=self.series, recommendations=recommendations)


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Record | ShortenedDecision)


class Damaged(NamedTuple):
    """A line that is no record, and why. `foreign`: its checksum is right, so another version of elasticd wrote it."""

    why: str
    foreign: bool = False


def write_line(record: Record, lines: bytearray) -> None:
    """Append a record as a line. Raises TypeError or ValueError for values that JSON cannot express; the lines are then
    as before."""
    begin = len(lines)
    try:
        _encoder.encode_into(record, lines, begin)
    except Exception:
        del lines[begin:]
        raise
    checksum = zlib.crc32(memoryview(lines)[begin:-1])
    lines[-1:] = b"%b%08x%b\n" % (_KEY, checksum, _END)


def decode(line: bytes) -> Record | ShortenedDecision | Damaged | None:
    """Decode a line; None for a blank one. Raises nothing, whatever the line contains."""
    line = line.rstrip(b"\r\n")
    if not line:
        return None
    intact = holds(line)
    if intact is False:
        return Damaged("its checksum is wrong")
    try:
        record: Record | ShortenedDecision = _decoder.decode(line)
    except RecursionError:
        return Damaged("it is nested too deeply", foreign=intact is True)
    except ValueError as error:  # not UTF-8, not JSON, or not a record
        return Damaged(one_line(str(error), _REASON), foreign=intact is True)
    problem = "" if intact else _find_problem(record)
    return Damaged(problem) if problem else record


def holds(line: bytes) -> bool | None:
    """Whether a line's checksum is right; None: it has none."""
    line = line.rstrip(b"\r\n")
    body, end = line[:-_SUM], line[-_SUM:]
    if len(end) < _SUM or not (end.startswith(_KEY) and end.endswith(_END)):
        return None
    return end[len(_KEY) : -len(_END)] == b"%08x" % zlib.crc32(body)


def _find_problem(record: Record | ShortenedDecision) -> str:
    """The first value that no daemon writes and that would harm a history; empty where there is none."""
    if not 0.0 <= record.at < LATEST:
        return f"at: must be in [0, {LATEST:.0f}), is {record.at:g}"
    for name, count in _replica_counts(record).items():
        if count is not None and not 0 <= count <= MOST:
            return f"{name}: must be in [0, {MOST}], is {shown(count)}"
    if isinstance(record, Decision) and not (0.0 <= record.interval < LATEST and 0.0 <= record.recall < LATEST):
        return f"interval and recall: must be in [0, {LATEST:.0f}), are {record.interval:g} and {record.recall:g}"
    return ""


def _replica_counts(record: Record | ShortenedDecision) -> dict[str, int | None]:
    match record:
        case Decision(action=action):
            counts = {"current": record.current, "replicas": record.replicas, "wish": record.wish}
            return counts if action is None else {**counts, "before": action.before, "after": action.after}
        case Outcome():
            return {"before": record.before, "after": record.after}
        case ShortenedDecision():
            return {"current": record.current}
        case _:
            return {}
