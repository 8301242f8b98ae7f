"""Which papers can be measured again, by name.

Knows where each is; knows nothing of what they measure.
"""

from collections.abc import Mapping

from elasticd.lab.papers import Reproduce, bald_eagle, double_threshold, forecast, step_tolerance, thesis

PAPERS: Mapping[str, Reproduce] = {
    "double-threshold": double_threshold.reproduce,
    "step-tolerance": step_tolerance.reproduce,
    "bald-eagle": bald_eagle.reproduce,
    "thesis": thesis.reproduce,
    "forecast": forecast.reproduce,
}
"""What measures each paper, under the name of the strategy that implements it; `thesis` has several."""
