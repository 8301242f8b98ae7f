"""Which papers can be measured again, by name.

Knows where each is; knows nothing of what they measure.
"""

import importlib
from collections.abc import Mapping, Sequence
from typing import cast

from elasticd.base.errors import UnavailableError
from elasticd.lab.papers import Reproduce, Reproduction, Work, bald_eagle, double_threshold, step_tolerance, thesis
from elasticd.sources.forecast.fitter import lacking


def forecast(seeds: Sequence[int], work: Work) -> Reproduction:
    """Measures forecasts. Imported only now, as it needs SciPy, without which all other commands work. Raises
    UnavailableError where that is not installed."""
    if library := lacking():
        raise UnavailableError(f"forecast: needs {library}, which is not installed: pip install elasticd[forecast]")
    module = importlib.import_module("elasticd.lab.papers.forecast")
    return cast(Reproduction, module.reproduce(seeds, work))


PAPERS: Mapping[str, Reproduce] = {
    "double-threshold": double_threshold.reproduce,
    "step-tolerance": step_tolerance.reproduce,
    "bald-eagle": bald_eagle.reproduce,
    "thesis": thesis.reproduce,
    "forecast": forecast,
}
"""What measures each paper, under the name of the strategy that implements it; `thesis` has several."""
