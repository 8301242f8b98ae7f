"""Within which bounds the series of a workload leave what was said of it as it is, by its strategies' own word.

Pure. Knows the hook that is asked and what stands for strategies that do not answer it; knows nothing of sources.
"""

from collections.abc import Mapping

from elasticd.decision.workload.asking import Case
from elasticd.model.workload import NEVER, Band, Observation

MOVED = 0.1
"""Part of its sum by which a series has moved, for a strategy that does not say what it heeds."""

_ANY = Band()

Bands = Mapping[str, Band]


def bands_of(case: Case) -> Bands:
    """Of each series that somebody reads who says something of the workload, what is steady to all of them."""
    by_strategy = dict(case.ask("steady_bands").values) if case.hooks.implements("steady_bands") else {}
    bands: dict[str, Band] = {}
    for name, reads in case.hooks.screened.items():
        own = by_strategy.get(name, {})
        for series in case.observation.series if reads is None else reads:
            band = own.get(series) or _near_sum(series, case.observation)
            bands[series] = bands.get(series, _ANY).within(band)
    return bands


def _near_sum(name: str, observation: Observation) -> Band:
    """A tenth up and down; of 0, nothing else."""
    series = observation.series.get(name)
    if series is None:
        return NEVER
    total = sum([sample.value for sample in series.samples])
    return Band(total - MOVED * abs(total), total + MOVED * abs(total))
