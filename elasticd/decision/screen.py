"""Finds the workloads to evaluate again, because new samples may change their decision: a series has left the band that
strategies declare for it.

Pure. Knows the last evaluation and the present samples; knows nothing of reading or deciding.
"""

from collections.abc import Mapping

from elasticd.decision.workload.asking import Case
from elasticd.model.workload import NEVER, Band, Observation, Series, Total

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


def keep_in_bands(bands: Bands, before: Mapping[str, Series], totals: Mapping[str, Total]) -> bool:
    """The same as `steady`, of series that differ from those before in no more than their sums and times."""
    for name, total in totals.items():
        if total.measured != before[name].measured:
            band = bands.get(name, _ANY)
            surely = band.lowest <= total.lowest and total.highest <= band.highest
            if not surely and not band.lowest <= total.exact() <= band.highest:
                return False
    return True


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
