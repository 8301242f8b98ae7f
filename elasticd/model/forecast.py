"""A forecast of a load, from the fit to the strategies.

Knows times and numbers; knows nothing of how they were found.
"""

import math

from msgspec import Struct
from msgspec.structs import replace

SAME_TIME = 1e-6
"""Of a step: times as near as this are the same."""


class PerPod(Struct, frozen=True, gc=False):
    """What one pod uses at a load, as learnt: `slope` times its part of the load, plus `intercept` at no load.
    `correlation` is Pearson's, between learnt and measured on the part that was held out."""

    slope: float
    intercept: float
    correlation: float


class Forecast(Struct, frozen=True, gc=False):
    """What a load is expected to be, by a series' past.

    `values` are expected at `first`, `first + step` and so on. Of what happened on the part that was held out,
    `quantile` was not above `upper`, and as much not below `lower`. `fitted` is the time of the last sample that went
    in, and from `expires` on it counts for nothing. `period` is in seconds, 0 where there is none. `error` is the mean
    absolute error on the held-out part, in the load's unit, `skill` 1 minus its ratio to that of repeating the last
    period. `doubt` says why it must not be believed, and is empty when it may be. `per_pod` is what was learnt of pods,
    or None, and then `untaught` says why.
    """

    method: str
    fitted: float
    expires: float
    first: float = 0.0
    step: float = 60.0
    values: tuple[float, ...] = ()
    lower: tuple[float, ...] = ()
    upper: tuple[float, ...] = ()
    quantile: float = 0.95
    period: float = 0.0
    skill: float | None = None
    error: float = 0.0
    doubt: str = ""
    per_pod: PerPod | None = None
    untaught: str = ""

    def window(self, first: float, last: float) -> range | None:
        """The indices of the values from the one at or before `first` to the one at or after `last`, or as far as they
        reach; None where they do not reach `first`."""
        low = math.floor((first - self.first) / self.step + SAME_TIME)
        high = math.ceil((last - self.first) / self.step - SAME_TIME)
        return range(low, min(high + 1, len(self.values))) if 0 <= low < len(self.values) else None

    def summary(self) -> "Forecast":
        """A copy without its values, for records that are kept."""
        return replace(self, values=(), lower=(), upper=())
