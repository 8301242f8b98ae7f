"""Finds the workloads to evaluate again, because new samples may change their decision: a series has left the band that
strategies declare for it.

Pure. Knows the last evaluation and the present samples; knows nothing of reading or deciding.
"""

from collections.abc import Mapping

from msgspec import Struct

from elasticd.decision.observe import sample_keys
from elasticd.decision.workload.asking import Case
from elasticd.model.workload import NEVER, Band, BulkLookup, Observation, Quality, Readings, Series, SumBounds

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
    """What one reading says of sums of samples, without looking at each sample."""

    def __init__(self, reading: Readings) -> None:
        self.reading = reading
        flawed = reading.error or reading.faults or reading.forecasts or reading.parts
        tables = {} if flawed else reading.pods
        self._tables = {name: table for name, table in tables.items() if isinstance(table, BulkLookup)}
        self._known: dict[str, tuple[BulkLookup, SumBounds] | None] = {}

    def of(self, series: str) -> tuple[BulkLookup, SumBounds] | None:
        """The table of a series, and what it knows of sums; None: nothing. It is asked once for all workloads."""
        if series not in self._known:
            table = self._tables.get(series)
            bounds = None if table is None else table.bounds()
            self._known[series] = None if table is None or bounds is None else (table, bounds)
        return self._known[series]


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
    table: object = None
    measured: float | None = None
    steady: bool = False

    def look(self, sums: Sums) -> None:
        """Compare sums with their bands. Where nothing was measured since, no band is needed."""
        self.table, self.measured, self.steady = sums.reading.pods, None, True
        if sums.reading.source != self.source:
            return
        measured = None
        for name, before, band in self.series:
            known = sums.of(name)
            ends = None if known is None else known[1].by_keys.get(self.keys)
            if known is None or ends is None:
                return
            table, (at, _) = known
            if measured is not None and at != measured:
                return
            measured = at
            if at != before:
                if band is None:
                    return
                if not (band.lowest <= ends[0] and ends[1] <= band.highest) and self.steady:
                    self.steady = band.lowest <= table.sum(self.keys) <= band.highest
        self.measured = measured


def watch(last: Observation, bands: Bands | None) -> Watched:
    """Begin to look at sums after an evaluation. `bands`: None: they are not known."""
    sources = {series.source if series.quality is Quality.FRESH else "" for series in last.series.values()}
    keys, _ = sample_keys(last.workload.ref, last.pods)
    series = tuple(
        (name, series.measured, None if bands is None else bands.get(name, _ANY))
        for name, series in last.series.items()
    )
    return Watched(last, keys, sources.pop() if len(sources) == 1 else "", series)


def stand(bands: Bands, before: Observation, last: Observation) -> bool:
    """Whether bands that were computed for one observation hold for a later one: all series are steady, and nothing
    else has changed."""
    same = last.pods is before.pods and last.workload == before.workload and last.series.keys() == before.series.keys()
    return same and steady(bands, before.series, last.series)


def _leaves_band(last: Series, now: Series, band: Band) -> bool:
    """Whether a series has changed so much that the decision may change. What is not a number is in no band."""
    if now.quality is not last.quality or now.source != last.source or now.trusted != last.trusted:
        return True
    if now.forecast is not last.forecast:
        return True
    new, old = now.samples, last.samples
    if now.measured == last.measured and [s.measured for s in new] == [s.measured for s in old]:
        return False  # nothing was measured since
    same = [sample.pod for sample in new] == [sample.pod for sample in old]
    return not (same and band.lowest <= sum([sample.value for sample in new]) <= band.highest)
