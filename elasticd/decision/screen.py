"""Finds the workloads to evaluate again, because new samples may change their decision: a series has left the band that
strategies declare for it.

Pure. Knows the last evaluation and the present samples; knows nothing of reading or deciding.
"""

from collections.abc import Hashable, Mapping
from math import inf, nan
from typing import Any, Generic, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from elasticd.decision.observe import sample_keys
from elasticd.decision.workload.asking import Case
from elasticd.model.workload import NEVER, Band, BulkLookup, Observation, Quality, Readings, Series, SumBounds

K = TypeVar("K", bound=Hashable)

Bands = Mapping[str, Band]

MOVED = 0.1
"""Part of its sum by which a series must move, for a strategy that declares no bands."""

_ANY = Band()
"""The band of a series that no strategy of the count reads."""


def bands_of(case: Case) -> Bands:
    """The band of each series that a strategy of the count reads: what is steady to all that read it."""
    by_strategy = dict(case.ask("steady_bands").values) if case.hooks.implements("steady_bands") else {}
    bands: dict[str, Band] = {}
    for name, reads in case.hooks.screened.items():
        own = by_strategy.get(name, {})
        for series in case.observation.series if reads is None else reads:
            band = own.get(series) or _near_sum(series, case.observation)
            bands[series] = bands.get(series, _ANY).within(band)
    return bands


def _near_sum(name: str, observation: Observation) -> Band:
    """The band of a tenth around the sum of a series; a sum of 0 must stay 0."""
    series = observation.series.get(name)
    if series is None:
        return NEVER
    total = sum([sample.value for sample in series.samples])
    return Band(total - MOVED * abs(total), total + MOVED * abs(total))


def steady(bands: Bands, before: Mapping[str, Series], now: Mapping[str, Series]) -> bool:
    """Whether no series has left its band, changed its quality, has other pods' samples, or is new."""
    for name, series in now.items():
        last = before.get(name)
        if last is None or (last is not series and _leaves_band(last, series, bands.get(name, _ANY))):
            return False
    return True


class Sums:
    """What one reading says of sums of samples, without looking at each sample. `table`: the bands of workloads that
    are compared with it at once."""

    def __init__(self, reading: Readings, table: "BandTable[Any] | None" = None) -> None:
        self.reading = reading
        flawed = reading.error or reading.faults or reading.forecasts or reading.parts
        flawed = flawed or reading.doubts or reading.doubted_workloads
        tables = {} if flawed else reading.pods
        self._tables = {name: table for name, table in tables.items() if isinstance(table, BulkLookup)}
        self._known: dict[str, tuple[BulkLookup, SumBounds] | None] = {}
        self.measured = None if table is None else table.compare(self)
        self._steady = [] if table is None else table.steady

    def of(self, series: str) -> tuple[BulkLookup, SumBounds] | None:
        """The table of a series, and what it knows of sums; None: nothing. It is asked once for all workloads."""
        if series not in self._known:
            table = self._tables.get(series)
            bounds = None if table is None else table.bounds()
            self._known[series] = None if table is None or bounds is None else (table, bounds)
        return self._known[series]

    def surely_steady(self, watched: "Watched") -> bool:
        """Whether a workload's sums were `measured` in the same moment, and must be in their bands."""
        return watched.row is not None and self._steady[watched.row]


class Watched(Struct):
    """A workload whose pods are as they were at its last evaluation: the bands of its series since then, and what is
    known of their sums in the reading (`table`) in which they were looked at last: when all series were measured, and
    whether all are in their bands. Without `measured` nothing is known, as where they were measured at several times.
    """

    last: Observation
    keys: tuple[str, ...]
    source: str
    """Of all series; empty where one was not good, so that sums say nothing of it."""
    series: tuple[tuple[str, float, Band | None], ...]
    """Of each its name, when it was measured, and its band; None: it is not known."""
    banded: bool
    """Whether bands are known."""
    row: int | None = None
    """Of its bands in a BandTable."""
    table: object = None
    measured: float | None = None
    steady: bool = False

    def look(self, sums: Sums) -> None:
        """Compare sums with their bands. Where nothing was measured since, no band is needed."""
        self.table, self.measured, self.steady = sums.reading.pods, None, True
        if sums.reading.source != self.source:
            return
        if sums.surely_steady(self):
            self.measured = sums.measured
            return
        measured = None
        for name, before, band in self.series:
            known = sums.of(name)
            ends = None if known is None else known[1].of(self.keys)
            if known is None or ends is None:
                return
            table, at = known[0], known[1].measured
            if measured is not None and at != measured:
                return
            measured = at
            if at != before:
                if band is None:
                    return
                if not (band.lowest <= ends[0] and ends[1] <= band.highest) and self.steady:
                    self.steady = band.lowest <= table.sum(self.keys) <= band.highest
        self.measured = measured


_ABSENT, _UNKNOWN = -1, -2
"""Places of workloads that do not have a series, which is thus in its band, and of which a reading knows nothing."""


class _Column:
    """One series in a BandTable: of each row the band, when the series was measured, and where in a reading's bounds
    its sum is."""

    def __init__(self, rows: int) -> None:
        self.lowest, self.highest, self.measured = np.full(rows, -inf), np.full(rows, inf), np.full(rows, nan)
        self.keys: list[tuple[str, ...] | None] = [None] * rows
        self.place: NDArray[np.intp] = np.full(rows, _ABSENT)
        self._places: Mapping[tuple[str, ...], int] = {}

    def put(self, row: int, keys: tuple[str, ...] | None, measured: float, band: Band) -> None:
        """Begin a row anew; `keys`: None: it does not have the series."""
        self.lowest[row], self.highest[row], self.measured[row] = band.lowest, band.highest, measured
        self.keys[row], self.place[row] = keys, self._find(keys)

    def _find(self, keys: tuple[str, ...] | None) -> int:
        return _ABSENT if keys is None else self._places.get(keys, _UNKNOWN)

    def is_steady(self, bounds: SumBounds | None) -> NDArray[np.bool_]:
        """Of each row whether the sum must be in its band, or was not measured since."""
        steady: NDArray[np.bool_] = self.place == _ABSENT
        if bounds is None:
            return steady
        if self._places is not bounds.places:
            self._places = bounds.places
            self.place = np.array([self._find(keys) for keys in self.keys], np.intp)
        ends = np.array([*[each or (nan, nan) for each in bounds.ends], (nan, nan), (0.0, 0.0)])
        lowest, highest = ends[self.place].T
        steady = (self.lowest <= lowest) & (highest <= self.highest)
        steady |= (self.measured == bounds.measured) & ~np.isnan(lowest)
        return steady


class BandTable(Generic[K]):
    """The bands of many workloads of one source beside each other, a row each, so that a reading is compared with all
    of them at once. It finds those whose sums must be in their bands; the others are left to `Watched.look`."""

    def __init__(self) -> None:
        self._rows: dict[K, int] = {}
        self._watched: list[Watched] = []
        self._columns: dict[str, _Column] = {}
        self._size = 0
        self._changed: set[int] = set()
        """Rows that columns do not have yet."""
        self.steady: list[bool] = []
        """Of each row, whether its sums in the last reading must be in their bands."""

    def put(self, key: K, watched: Watched) -> None:
        """Compare a workload from the next reading on, in the place of its last evaluation."""
        watched.row = row = self._rows.setdefault(key, len(self._watched))
        if row == len(self._watched):
            self._watched.append(watched)
            self.steady.append(False)
        self._watched[row], self.steady[row] = watched, False
        self._changed.add(row)

    def unsure(self) -> list[K]:
        """The keys of all that were not surely steady in the last reading."""
        return [key for key, steady in zip(self._rows, self.steady, strict=True) if not steady]

    def compare(self, sums: Sums) -> float | None:
        """Compare all with a reading. Returns when the series were measured; None: at several times, or never."""
        self._update()
        steady, times = np.ones(self._size, np.bool_), set()
        for name, column in self._columns.items():
            known = sums.of(name)
            steady &= column.is_steady(None if known is None else known[1])
            times |= set() if known is None else {known[1].measured}
        self.steady = steady[: len(self._watched)].tolist() if len(times) == 1 else [False] * len(self._watched)
        return times.pop() if len(times) == 1 else None

    def _update(self) -> None:
        if len(self._watched) > self._size:
            self._size = 2 * len(self._watched)
            self._columns, self._changed = {}, set(range(len(self._watched)))
        for row in self._changed:
            watched = self._watched[row]
            for column in self._columns.values():
                column.put(row, None, nan, _ANY)
            for name, measured, band in watched.series:
                column = self._columns.get(name) or self._columns.setdefault(name, _Column(self._size))
                column.put(row, watched.keys, measured, band or NEVER)
        self._changed.clear()


def watch(last: Observation, bands: Bands | None) -> Watched:
    """Begin to look at sums after an evaluation. `bands`: None: they are not known."""
    sources = {series.source if series.quality is Quality.FRESH else "" for series in last.series.values()}
    keys, _ = sample_keys(last.workload.ref, last.pods)
    series = tuple(
        (name, series.measured, None if bands is None else bands.get(name, _ANY))
        for name, series in last.series.items()
    )
    return Watched(last, keys, sources.pop() if len(sources) == 1 else "", series, bands is not None)


def stand(bands: Bands, before: Observation, last: Observation) -> bool:
    """Whether bands that were computed for one observation hold for a later one: all series are steady, and nothing
    else has changed."""
    same = last.pods is before.pods and last.workload == before.workload and last.series.keys() == before.series.keys()
    return same and steady(bands, before.series, last.series)


def _leaves_band(last: Series, now: Series, band: Band) -> bool:
    """Whether a series has changed so much that the decision may change. What is not a number is in no band."""
    if now.quality is not last.quality or now.source != last.source or now.trusted != last.trusted:
        return True
    if now.forecast is not last.forecast or now.presumed != last.presumed:
        return True
    new, old = now.samples, last.samples
    if now.measured == last.measured and [s.measured for s in new] == [s.measured for s in old]:
        return False  # nothing was measured since
    same = [sample.pod for sample in new] == [sample.pod for sample in old]
    return not (same and band.lowest <= sum([sample.value for sample in new]) <= band.highest)
