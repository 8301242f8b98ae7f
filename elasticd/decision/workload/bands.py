"""The bands within which the series of a workload change nothing, as its strategies declare them.

Pure. Knows the hook that is asked and what stands for strategies that do not answer it; knows nothing of sources.
"""

from collections.abc import Mapping

from elasticd.decision.workload.asking import Case
from elasticd.model.workload import NEVER, Band, Observation

MOVED = 0.1
"""Part of its sum by which a series must move, for a strategy that declares no bands."""

_ANY = Band()

Bands = Mapping[str, Band]


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
