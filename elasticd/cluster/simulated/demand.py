"""Demand over time: what a formula, a table or a recording says at t seconds after the start.

Knows curves and the files they are recorded in; knows nothing of pods, workloads or clocks.
"""

import heapq
import math
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Annotated, Literal

from msgspec import Meta, Struct
from simpleeval import InvalidExpression, SimpleEval  # type: ignore[import-untyped]

from elasticd.base.errors import ConfigError
from elasticd.base.text import shown
from elasticd.sources.recorded import Recording, Track, load
from elasticd.sources.recorded.files import FORMATS, check_needed, csv_lines, to_time, to_value, wrong

Curve = Callable[[float], float]
"""A value for every number of seconds since the start. NaN: it cannot be told, which is not zero."""

Interpolation = Literal["step", "linear"]

_FUNCTIONS = {
    "sin": math.sin, "cos": math.cos, "abs": abs, "min": min, "max": max, "exp": math.exp,
    "floor": math.floor, "sqrt": math.sqrt,
}  # fmt: skip
_TRIED = (0.0, 1.0, 7.3, 60.0, 600.0, 3600.0, 86400.0)


class Demand(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A curve as written in TOML: exactly one of `formula`, `table` and `recording`.

    A table or recording holds its first value before its first row and its last one after its last, unless it
    repeats every `repeat` seconds. A recording's first row is the start, so its times may be of any epoch. It is a CSV
    file with columns time and value; or, with `series` and `key`, any file that the source `recording` reads, whose
    subjects of such a key ("shop/web-*") are summed: each counts until its next row, at most `max_age` seconds.
    """

    formula: str | None = None
    table: Annotated[tuple[tuple[float, float], ...], Meta(min_length=1)] | None = None
    recording: str | None = None
    interpolate: Interpolation = "step"
    repeat: Annotated[float, Meta(gt=0, description="seconds")] | None = None
    series: str = ""
    key: Annotated[str, Meta(description="NAMESPACE/POD, NAMESPACE/KIND/NAME or NODE; * stands for any part")] = ""
    max_age: Annotated[float, Meta(gt=0, description="seconds")] = 120.0

    def __post_init__(self) -> None:
        keys = [name for name in ("formula", "table", "recording") if getattr(self, name) is not None]
        if len(keys) != 1:
            which = f"{' and '.join(keys)} are" if keys else "none is"
            raise ValueError(f"formula: must be given, or else table or recording, {which}")
        self._check_choice()
        if self.formula is not None:
            if self.repeat is not None or self.interpolate != "step":
                raise ValueError("formula: must stand without interpolate and repeat")
            _try_formula(self.formula)
        if self.table is not None:
            _check_rows(self.table)
            _check_repeat(self.repeat, self.table[-1][0])

    def _check_choice(self) -> None:
        """What is summed is chosen by series and key, and only in a recording."""
        if bool(self.series) != bool(self.key):
            given_key, missing_key = ("series", "key") if self.series else ("key", "series")
            raise ValueError(f"{given_key}: must be given together with {missing_key}, is alone")
        if self.series and self.recording is None:
            raise ValueError("series: must be left out without recording, is given")
        if self.series and Path(self.recording or "").suffix.lower() not in FORMATS:
            raise ValueError(f"recording: must end in one of {', '.join(FORMATS)}, is {self.recording}")

    def curve(self) -> Curve:
        """The values over time. Reads the recording: raises ConfigError naming its file and line."""
        if self.formula is not None:
            return remember(_formula(self.formula))
        rows = self.table if self.recording is None else self._recorded(Path(self.recording))
        assert rows is not None  # noqa: S101 - what __post_init__ has checked
        try:
            _check_repeat(self.repeat, rows[-1][0])
        except ValueError as problem:
            raise ConfigError(self.recording or "", "", str(problem)) from None
        return remember(_table(rows, self.interpolate, self.repeat))

    def _recorded(self, path: Path) -> list[tuple[float, float]]:
        """Its rows; times count from the first."""
        if self.series:
            rows = read_total(path, self.series, self.key, self.max_age)
        else:
            rows = read_curve(path)
        return [(time - rows[0][0], value) for time, value in rows]


def remember(curve: Curve) -> Curve:
    """The same curve, computed once for equal times in a row: workloads of one table share theirs."""
    return lru_cache(maxsize=1)(curve)


def _formula(text: str) -> Curve:
    """The formula. Where it has no finite value, the curve is NaN."""
    evaluate = _evaluator(text)

    def curve(t: float) -> float:
        try:
            return evaluate(t)
        except (ArithmeticError, InvalidExpression, TypeError, ValueError):
            return math.nan

    return curve


def _try_formula(text: str) -> None:
    for t in _TRIED:
        try:
            # A second statement or an assignment is only warned of; here it is as wrong as any other mistake.
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                _evaluator(text)(t)
        except Exception as problem:
            message = " ".join(str(problem).split())
            raise ValueError(f"formula: must have a finite value at t = {t:g}: {message}") from None


def _evaluator(text: str) -> Curve:
    """The formula, parsed once; it raises where it has no finite value."""
    names = {"t": 0.0, "pi": math.pi}
    evaluator = SimpleEval(functions=_FUNCTIONS, names=names)
    parsed = evaluator.parse(text)

    def evaluate(t: float) -> float:
        names["t"] = t
        value = evaluator.eval(text, parsed)
        if not isinstance(value, int | float):
            raise TypeError(f"a {type(value).__name__} is no number")
        if not math.isfinite(value):
            raise ValueError(f"is {value}")
        return float(value)

    return evaluate


def _table(rows: Sequence[tuple[float, float]], interpolate: Interpolation, repeat: float | None) -> Curve:
    times = [time for time, _ in rows]
    values = [value for _, value in rows]

    def curve(t: float) -> float:
        t = t % repeat if repeat else t
        after = bisect_right(times, t)
        if after == 0:
            return values[0]
        if interpolate == "step" or after == len(times):
            return values[after - 1]
        share = (t - times[after - 1]) / (times[after] - times[after - 1])
        return values[after - 1] + share * (values[after] - values[after - 1])

    return curve


def _check_rows(rows: Iterable[tuple[float, float]]) -> None:
    before = -math.inf
    for row, (time, value) in enumerate(rows):
        if not math.isfinite(time) or math.isinf(value):
            raise ValueError(f"table[{row}]: must be finite, is [{time}, {value}]")
        if time <= before:
            raise ValueError(f"table[{row}]: must be later than {before:g}, is at {time:g}")
        before = time


def _check_repeat(repeat: float | None, last: float) -> None:
    if repeat is not None and repeat < last:
        raise ValueError(f"repeat: must be >= {last:g}, the time of the last row, is {repeat:g}")


def read_curve(path: Path) -> list[tuple[float, float]]:
    """The rows of a CSV file with columns time and value; others are left alone. Raises ConfigError naming the file,
    the line and what is wrong with it."""
    rows: list[tuple[float, float]] = []
    lines = csv_lines(path)
    header = next(lines)[1]
    check_needed((path, 1), header, ("time", "value"))
    time_at, value_at = header.index("time"), header.index("value")
    for line, cells in lines:
        where = path, line
        time, value = to_time(where, cells[time_at]), to_value(where, cells[value_at])
        if not math.isfinite(value):
            raise wrong(where, f"value: must be finite, is {shown(cells[value_at])}")
        if rows and time <= rows[-1][0]:
            raise wrong(where, f"time: must be later than {rows[-1][0]:.10g}, is {time:.10g}")
        rows.append((time, value))
    if not rows:
        raise wrong((path, 2), "must be a row below the header, is missing")
    return rows


def read_total(path: Path, series: str, key: str, max_age: float) -> list[tuple[float, float]]:
    """The sum of the subjects of a recording whose key matches a pattern, in which `*` stands for any part of a name. A
    key has as many slashes as the pattern, which is thus about nodes, pods or workloads. Raises ConfigError as
    read_curve does, and where there are none."""
    return total(load(path, series=[series]), path, series, key, max_age)


def total(recording: Recording, path: Path, series: str, key: str, max_age: float) -> list[tuple[float, float]]:
    """The same of a recording that has been read, of this file."""
    by_series = (recording.nodes, recording.pods, recording.workloads)[min(key.count("/"), 2)]
    by_key = by_series.get(series, {})
    tracks = [track for name, tracks in by_key.items() if fnmatchcase(name, key) for track in tracks]
    if not tracks:
        raise ConfigError(str(path), "", f"must have samples of {shown(key)} in series {series}, has none")
    pods = by_series is recording.pods
    rows = _total(tracks, max_age, min(max_age, ENDED * _interval(tracks)) if pods else max_age, recording.last)
    for time, value in rows:
        if math.isinf(value):
            raise ConfigError(
                str(path), "", f"must have a finite sum of {shown(key)} in series {series}, has none at {time:.10g}"
            )
    return rows if rows[0][0] == recording.first else [(recording.first, math.nan), *rows]


ENDED = 1.25
"""Intervals between its rows for which a pod's last one counts: it would have another if the pod were still there."""


def _interval(tracks: Sequence[Track]) -> float:
    """Seconds from one row of a track to the next, the median of the first hundred of each; infinite: there is none."""
    gaps = [later - time for track in tracks for time, later in pairwise(track.times[:100])]
    return median(gaps) if gaps else math.inf


def _total(tracks: Iterable[Track], max_age: float, ended: float, last: float) -> list[tuple[float, float]]:
    """The sum at every time at which it changes. A row counts until the next one of its track, at most `max_age`
    seconds, and the last one of its track for `ended`; what counts at the `last` time counts for ever. NaN where no row
    counts, or one that is NaN, infinite or negative: the sum is then unknown."""
    deltas = heapq.merge(*(_deltas(track, max_age, ended, last) for track in tracks), key=itemgetter(0))
    rows: list[tuple[float, float]] = []
    counted, unknown, value = 0, 0, 0.0
    for time, at_once in groupby(deltas, key=itemgetter(0)):
        for _, counting, without, growth in at_once:
            counted, unknown, value = counted + counting, unknown + without, value + growth
        value = max(value, 0.0) if counted > unknown else 0.0  # what rounding has left
        rows.append((time, math.nan if unknown or not counted else value))
    return rows


def _deltas(track: Track, max_age: float, ended: float, last: float) -> Iterator[tuple[float, int, int, float]]:
    """Times, and how many tracks then begin to count (or, negative, cease to), how many of them with no usable value,
    and by how much the sum grows."""
    times, values = track.times, track.values
    for index, time in enumerate(times):
        end = time + ended if index + 1 == len(times) else min(time + max_age, times[index + 1])
        good = 0.0 <= values[index] < math.inf
        yield time, 1, 0 if good else 1, values[index] if good else 0.0
        if end <= last:
            yield end, -1, 0 if good else -1, -values[index] if good else 0.0
