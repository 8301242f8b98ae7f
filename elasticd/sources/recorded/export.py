"""Exports series from Prometheus, or from the journal, to a recording: a file of samples that can replace any source.

Knows the format of recordings (one row for each sample: time, series, subject, key, value, window, and a container
where there is one) and how to write a file atomically; knows nothing of HTTP or PromQL.
"""

import argparse
import csv
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec

from elasticd.base.errors import ConfigError, UnavailableError, nearest
from elasticd.base.files import replacing
from elasticd.base.units import parse_time
from elasticd.journal import read
from elasticd.model.records import Decision
from elasticd.ports.source import Source, TimeRange
from elasticd.sources.http import HttpFault
from elasticd.sources.prometheus import Prometheus
from elasticd.sources.prometheus.answers import QueryFault
from elasticd.sources.prometheus.history import PastSample, history, portions
from elasticd.sources.recorded.files import COLUMNS

ENDINGS = (".jsonl", ".csv")
_AGO = re.compile(r"-(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)?")
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?")
_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0, None: 1.0}


def seconds(text: str) -> float:
    """A step: 15s, 1m, 0.5 (seconds). Raises ValueError."""
    match = _SPAN.fullmatch(text)
    if not match or not 0.001 <= (step := float(match[1]) * _SECONDS[match[2]]) <= 604800:
        raise ValueError(f'must be seconds or as 15s or 1m, is "{text}"')
    return step


def moment(text: str, now: float) -> float:
    """A time: now, -7d, 03:12 (when it was last that late here), RFC 3339 with its offset, or seconds since the epoch.
    Raises ValueError."""
    if text == "now":
        return now
    if match := _CLOCK.fullmatch(text):
        here = datetime.fromtimestamp(now).astimezone()
        hour, minute, second = (int(part or 0) for part in match.groups())
        late = here.replace(hour=hour, minute=minute, second=second, microsecond=0)
        return (late if late <= here else late - timedelta(days=1)).timestamp()
    if match := _AGO.fullmatch(text):
        return now - float(match[1]) * _SECONDS[match[2]]
    if re.fullmatch(r"\d+(?:\.\d+)?", text):
        return float(text)
    if math.isnan(parsed := parse_time(text)):
        raise ValueError(f'must be now, as -7d, as 03:12, or as 2026-03-02T08:00:00Z, is "{text}"')
    return parsed


class Selection(NamedTuple):
    """What is exported: series, their steps, and a pattern of the keys of their rows, in which `*` stands for any
    part."""

    series: Sequence[str]
    steps: TimeRange
    key: str = "*"


class NoSampleError(UnavailableError):
    """There is no such sample: what was wrong with some, by series, and whether there are some with other keys."""

    def __init__(self, message: str, faults: Mapping[str, str], *, others: bool) -> None:
        super().__init__(message)
        self.faults, self.others = faults, others


class Recorded(NamedTuple):
    """The result of an export: rows by series, and what was wrong with some."""

    rows: dict[str, int]
    faults: dict[str, str]


def prometheus_of(sources: Sequence[Source], name: str) -> Prometheus:
    """The source of that name. Raises ConfigError if there is none, or if it has no past."""
    by_name = {source.label: source for source in sources}
    source = by_name.get(name)
    if source is None:
        raise ConfigError("", "--source", f'must be one of {", ".join(by_name)}, is "{name}"{nearest(name, by_name)}')
    if not isinstance(source, Prometheus):
        kind = source.__struct_config__.tag
        raise ConfigError("", "--source", f'must be of type "prometheus", which remembers, "{name}" is of "{kind}"')
    return source


async def write_recording(
    source: Prometheus, selection: Selection, out: Path, now: float, *, force: bool = False
) -> Recorded:
    """Write the past of these series into a file, which appears only once it is complete. Raises ConfigError for wrong
    arguments, UnavailableError for a failing server or disk, NoSampleError where there is nothing to write."""
    series, steps, key = selection
    if steps.first + steps.step > steps.last:
        raise ConfigError("", "--from", "must be a --step before --to, or more")
    counts, wanted, others = dict.fromkeys(series, 0), cache(lambda name: fnmatchcase(name, key)), False
    with _new_file(out, force=force) as file:
        try:
            async with history(source, series, now) as past:
                write = _writer(file, out.suffix, containers=any("container" in table.roles() for table in past.tables))
                async for rows in portions(past, steps):
                    for row in rows:
                        if wanted(row.key):
                            write(_row_of(row))
                            counts[row.table.name] += 1
                        else:
                            others = True
                faults = past.faults
        except KeyError as error:
            name, offered, troubles = error.args
            why = "".join(f"; {key}: {text}" for key, text in troubles.items())
            raise ConfigError("", "--series", f'no series "{name}"{nearest(name, offered)}{why}') from None
        except (QueryFault, HttpFault) as fault:
            raise UnavailableError(f"{source.label}: {fault}") from None
        if not any(counts.values()):
            of = f" of {key}" if others else ""
            reasons = "".join(f"; {key}: {text}" for key, text in faults.items())
            problem = f"{source.label}: there is no sample of {', '.join(series)}{of} in that time{reasons}"
            raise NoSampleError(problem, faults, others=others)
    return Recorded(counts, faults)


def write_journal(
    folder: Path, series: Sequence[str], begin: float, end: float, out: Path, *, force: bool = False
) -> Recorded:
    """Write the samples by which was decided into a file, each once. Raises as `write_recording`."""
    counts, newest = dict.fromkeys(series, 0), dict[tuple[str, ...], float]()
    with _new_file(out, force=force) as file:
        write = _writer(file, out.suffix, containers=True)
        for row in _journaled(folder, frozenset(series)):
            if begin <= row.time <= end and newest.get(row.about, -math.inf) < row.time:
                write(row)
                counts[row.series] += 1
                newest[row.about] = row.time
        if not any(counts.values()):
            raise UnavailableError(f"{folder}: the journal has no sample of {', '.join(series)} in that time")
    return Recorded(counts, {name: "the journal has no sample of it" for name, rows in counts.items() if not rows})


def _journaled(folder: Path, names: frozenset[str]) -> Iterator["Row"]:
    """The samples of all decisions, oldest decision first."""
    for record in read(folder):
        if not isinstance(record, Decision):
            continue
        for series in record.series:
            for sample in series.samples if series.name in names else ():
                subject = "pod" if sample.pod else "workload"
                key = f"{record.workload.namespace}/{sample.pod}" if sample.pod else str(record.workload)
                yield Row(sample.measured, series.name, subject, key, sample.value, sample.window, sample.container)


class Row(NamedTuple):
    """A row of a recording."""

    time: float
    series: str
    subject: str
    key: str
    value: float
    window: float
    container: str

    @property
    def about(self) -> tuple[str, ...]:
        """What it is a sample of."""
        return self.series, self.key, self.container


def _row_of(sample: PastSample) -> Row:
    table = sample.table
    return Row(sample.time, table.name, table.subject, sample.key, sample.value, table.window, sample.container)


def _writer(file: IO[str], ending: str, *, containers: bool) -> Callable[[Row], object]:
    if ending == ".csv":
        table = csv.writer(file, lineterminator="\n")
        count = len(COLUMNS) if containers else len(COLUMNS) - 1
        table.writerow(COLUMNS[:count])
        return lambda row: table.writerow([*_fields(row).values()][:count])
    encode = msgspec.json.Encoder().encode

    def line(row: Row) -> None:
        fields = _fields(row)
        if not row.container:
            del fields["container"]
        file.write(encode(fields).decode() + "\n")  # NaN and infinities become null

    return line


def _fields(row: Row) -> dict[str, Any]:
    return {**row._asdict(), "time": round(row.time, 3)}


@contextmanager
def _new_file(out: Path, *, force: bool) -> Iterator[IO[str]]:
    """A file that takes its name only once all of it is on the disk; an incomplete one is deleted."""
    if out.suffix not in ENDINGS:
        raise ConfigError("", "--out", f'must end in {" or ".join(ENDINGS)}, is "{out}"')
    _refuse_existing(out, force=force)
    try:
        with replacing(out, "w", encoding="utf-8", newline="") as file:
            yield file
            _refuse_existing(out, force=force)
            Path(file.name).chmod(0o644)
    except OSError as error:
        raise UnavailableError(f"{out}: must be writable, is not: {error.strerror or error}") from None


def _refuse_existing(out: Path, *, force: bool) -> None:
    if not force and out.exists():
        raise ConfigError("", "--out", f"must be a new file, {out} is there (--force)")


def takes_record(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command, but for the settings."""
    add = parser.add_argument
    whence = parser.add_mutually_exclusive_group(required=True)
    whence.add_argument("--source", metavar="NAME", help='a source of the config, of type "prometheus"')
    text = "the samples by which the daemon has decided, from its journal: no Prometheus is needed"
    whence.add_argument("--journal", action="store_true", help=text)
    add("--state", type=Path, metavar="FOLDER", help="the journal's folder, instead of the config's")
    add("--series", required=True, metavar="NAME[,...]", help="series of it")
    add(
        "--from",
        required=True,
        metavar="TIME",
        type=time_of_argument,
        dest="begin",
        help="as -7d, or 2026-03-02T08:00:00Z",
    )
    add("--to", default="now", metavar="TIME", type=time_of_argument, dest="end", help="default: now")
    add("--step", default="15s", metavar="SECONDS", type=_step, help="of a --source, as 15s or 1m; default: 15s")
    add("--out", required=True, type=Path, metavar="FILE", help="ends in .jsonl or .csv")
    add("--force", action="store_true", help="write over a file that is there")


def time_of_argument(text: str) -> float:
    """A time as an argument of a command. Raises ArgumentTypeError."""
    try:
        return moment(text, time.time())
    except (ValueError, OverflowError) as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _step(text: str) -> float:
    try:
        return seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
