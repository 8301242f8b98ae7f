"""Checks what sources answer: the number of samples in a read and, of a third-party source, every type and value.

Pure. Knows the shape of readings; knows nothing of how they were read.
"""

from collections.abc import Iterator, Mapping
from numbers import Real
from typing import Any

import msgspec
from msgspec.structs import replace

from elasticd.base.text import one_line, raised, shown
from elasticd.model.forecast import Forecast
from elasticd.model.workload import BulkLookup, Readings, Sample
from elasticd.ports.source import SampleTable

MOST_SAMPLES = 1_000_000
"""Samples of one read, if elasticd.toml says nothing else: cpu and memory of 150,000 pods of three containers."""

LONGEST_NAME = 1_000
"""Characters of the name of a series, a pod, a workload or a node. Kubernetes' own have 253 at most in each part."""

MOST_FAULTS = 1_000
"""Series of one read of which something may be wrong; more are left out."""

LARGEST_DETAILS = 1 << 16
"""Bytes of JSON that a source may say of itself."""

_FLOATS = [float, float, float, float]


class _AnswerRefusedError(ValueError):
    """What an answer must be, and what it is instead."""


def within(readings: Readings, most: int) -> Readings:
    """The readings, or an error if they have more samples: a part of them would look like all there are."""
    if readings.error or _count_samples(readings) <= most:
        return readings
    return Readings(readings.source, readings.received, error=_too_many(most))


def _count_samples(readings: Readings) -> int:
    """The number of samples. Bulk lookups are not counted: that would compute all of them."""
    tables = [subjects for table in (readings.pods, readings.workloads, readings.nodes) for subjects in table.values()]
    return sum(sum(map(len, subjects.values())) for subjects in tables if not isinstance(subjects, BulkLookup))


def _too_many(most: int) -> str:
    return f"too many samples: a read must have at most {most} (max_samples in elasticd.toml), has more"


def checked(answer: object, source: str, now: float, most: int) -> Readings:
    """A third-party source's answer, copied into plain values so that none of its own objects is left. A malformed
    series becomes a fault, an answer that cannot be read an error; texts are cut."""
    if not isinstance(answer, Readings):
        return Readings(source, now, error=f"must answer with Readings, did with {shown(answer)}")
    try:
        return _Check(most).readings(answer, source, now)
    except _AnswerRefusedError as refused:
        return Readings(source, now, error=one_line(str(refused)))
    except BaseException as error:  # a table of the source's own type may do anything when it is read
        return Readings(source, now, error=one_line(f"its answer cannot be read: {raised(error)}"))


class _Check:
    """Checks one answer, counting the samples that it may still have."""

    def __init__(self, most: int) -> None:
        self._most = self._remaining = most
        self._faults: dict[str, str] = {}

    def readings(self, answer: Readings, source: str, now: float) -> Readings:
        """The whole answer. Raises _AnswerRefusedError."""
        received = _number(answer.received, "received")
        if error := _text(answer.error, "error"):
            return Readings(source, received, error=error)
        pods, workloads, nodes = [
            self._table(table, of)
            for table, of in ((answer.pods, "pods"), (answer.workloads, "workloads"), (answer.nodes, "nodes"))
        ]
        forecasts = self._forecasts(answer.forecasts)
        for name, fault in _items(answer.faults, "faults"):
            if len(self._faults) >= MOST_FAULTS:
                break
            self._faults[_name(name, "faults")] = _text(fault, f"faults: {name}")
        newest = None if answer.newest is None else _number(answer.newest, "newest")
        doubts = self._doubts(answer.doubts, "doubts")
        doubted = self._doubts(answer.doubted_workloads, "doubted_workloads")
        counted = {_name(key, "counted"): int(_number(count, "counted")) for key, count in self._counts(answer)}
        return Readings(
            source,
            received,
            pods,
            workloads,
            nodes,
            faults=self._faults,
            newest=newest,
            forecasts=forecasts,
            doubts=doubts,
            learning=answer.learning is True,
            doubted_workloads=doubted,
            counted=counted,
        )

    def _counts(self, answer: Readings) -> Iterator[tuple[Any, Any]]:
        """Each counts as a sample, likewise."""
        for item in _items(answer.counted, "counted"):
            self._count(1)
            yield item

    def _doubts(self, doubts: object, of: str) -> dict[str, str]:
        """Each counts as a sample: one that was left out would let a count fall."""
        valid = {}
        for name, doubt in _items(doubts, of):
            self._count(1)
            valid[_name(name, of)] = _text(doubt, f"{of}: {name}")
        return valid

    def _table(self, table: object, of: str) -> SampleTable:
        """Series by subject, without the malformed ones, which become faults."""
        valid: SampleTable = {}
        for name, subjects in _items(table, of):
            series = _name(name, of)
            self._count(1)
            try:
                valid[series] = {
                    _name(key, of): self._samples(samples, of, key) for key, samples in _items(subjects, of)
                }
            except _AnswerRefusedError as refused:
                self._fault(series, refused)
        return valid

    def _samples(self, samples: Any, of: str, key: str) -> tuple[Sample, ...]:
        if not isinstance(samples, tuple | list):
            raise _AnswerRefusedError(f"{of}, {key}: must be a tuple of Samples, is {shown(samples)}")
        self._count(max(1, len(samples)))
        return tuple([_sample(sample, of, key) for sample in samples])

    def _forecasts(self, table: object) -> dict[str, dict[str, Forecast]]:
        valid: dict[str, dict[str, Forecast]] = {}
        for name, subjects in _items(table, "forecasts"):
            series = _name(name, "forecasts")
            self._count(1)
            try:
                valid[series] = {
                    _name(key, series): self._forecast(forecast) for key, forecast in _items(subjects, "forecasts")
                }
            except _AnswerRefusedError as refused:
                self._fault(series, refused)
        return valid

    def _forecast(self, forecast: Any) -> Forecast:
        if not isinstance(forecast, Forecast):
            raise _AnswerRefusedError(f"forecasts: must be Forecasts, one is {shown(forecast)}")
        self._count(1 + len(forecast.values) + len(forecast.lower) + len(forecast.upper))
        try:
            copy = msgspec.convert(msgspec.to_builtins(forecast), Forecast)
        except (msgspec.ValidationError, TypeError, ValueError, OverflowError) as error:
            raise _AnswerRefusedError(f"forecasts: must be Forecasts, one is not: {one_line(str(error))}") from None
        texts = (one_line(copy.method), one_line(copy.doubt), one_line(copy.untaught))
        return replace(copy, method=texts[0], doubt=texts[1], untaught=texts[2])

    def _count(self, samples: int) -> None:
        """Count samples. One too many spoils the whole answer, not only its series."""
        self._remaining -= samples
        if self._remaining < 0:
            raise _TooManyError(_too_many(self._most))

    def _fault(self, series: str, refused: _AnswerRefusedError) -> None:
        if isinstance(refused, _TooManyError):
            raise refused
        if len(self._faults) < MOST_FAULTS:
            self._faults[series] = one_line(str(refused))


class _TooManyError(_AnswerRefusedError):
    pass


def _items(table: object, of: str) -> Iterator[tuple[Any, Any]]:
    if not isinstance(table, Mapping):
        raise _AnswerRefusedError(f"{of}: must be a table by name, is {shown(table)}")
    yield from table.items()


def _sample(sample: Any, of: str, key: str) -> Sample:
    """The sample itself if it is plain, as nearly always; else a copy of plain values."""
    if not isinstance(sample, Sample):
        raise _AnswerRefusedError(f"{of}, {key}: must be a tuple of Samples, has {shown(sample)}")
    numbers = (sample.value, sample.measured, sample.received, sample.window)
    if type(sample) is Sample and [*map(type, numbers)] == _FLOATS and _fits(sample.pod) and _fits(sample.container):
        return sample
    where = f"{of}, {key}"
    value, measured, received, window = [_number(number, where) for number in numbers]
    pod, container = [_name(text, where) if text != "" else "" for text in (sample.pod, sample.container)]
    return Sample(value, measured, received, window, pod, container)


def _fits(text: Any) -> bool:
    """Whether the text is a plain, printable name, or empty."""
    return type(text) is str and len(text) <= LONGEST_NAME and text.isprintable()


def _number(value: Any, where: str) -> float:
    """A double, whatever kind of number it is."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise _AnswerRefusedError(f"{where}: must be a number, is {shown(value)}")
    try:
        return float(value)
    except OverflowError:
        raise _AnswerRefusedError(f"{where}: must be a number that a double can hold, is {shown(value)}") from None


def _name(value: Any, where: str) -> str:
    name = str.__str__(value) if isinstance(value, str) else ""
    if not name or not _fits(name):
        shape = f"of 1 to {LONGEST_NAME} characters that can be printed"
        raise _AnswerRefusedError(f"{where}: must be a name {shape}, is {shown(value)}")
    return name


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise _AnswerRefusedError(f"{where}: must be text, is {shown(value)}")
    return one_line(value)


class Counted(dict[str, Any]):
    """The details that a source gives of itself, with its counters."""

    counted: Mapping[str, int]

    def counts(self) -> Mapping[str, int]:
        """Messages by what became of them."""
        return self.counted


def plain(details: Any, counts: Mapping[str, Any] | None) -> object:
    """What a source says of itself, and has counted, of plain values. Raises where it is no JSON, or too large."""
    encoded = msgspec.json.encode(details)
    if len(encoded) > LARGEST_DETAILS:
        raise ValueError(f"must be at most {LARGEST_DETAILS} bytes of JSON, is {len(encoded)}")
    decoded = msgspec.json.decode(encoded)
    if counts is None or not isinstance(decoded, dict):
        return decoded
    counted = Counted(decoded)
    counted.counted = {one_line(name, 60): int(count) for name, count in counts.items()}
    return counted
