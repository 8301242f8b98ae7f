"""Counters that only grow, such as bytes received, made into rates.

Knows arithmetic; knows nothing of what the counters count.
"""

import math
from collections.abc import Collection

from msgspec import Struct

from elasticd.model.workload import Sample

LEAST, LONGEST = 0.5, 120.0


class _Last(Struct):
    """The value that the next one is compared with, and the rate up to it."""

    value: float
    measured: float
    rate: Sample | None = None


class CounterRates:
    """The rate of each counter between two reads, by their own timestamps.

    None, never a guess, if it is unknown: at the first read; after a counter reset (its value fell, so the increase is
    lost); after more than `longest` seconds without a read; and if a value is not a number. A counter that was reset
    and has passed its old value by the next read looks like one that was not. Reads less than `least` seconds apart
    count as one: over a short interval a few whole packets make a wild rate. A repeated read returns the previous rate.
    """

    def __init__(self, least: float = LEAST, longest: float = LONGEST) -> None:
        self._least, self._longest = least, longest
        self._last: dict[str, _Last] = {}

    def rate(self, key: str, look: Sample) -> Sample | None:
        """The rate per second since the look before; its `window` is the seconds in between."""
        last = self._last.get(key)
        if not math.isfinite(look.value) or look.value < 0:
            self._last.pop(key, None)
            return None
        if last is None or look.measured < last.measured - self._longest:  # its clock was set back
            self._last[key] = _Last(look.value, look.measured)
            return None
        passed = look.measured - last.measured
        if passed < self._least:
            if look.value < last.value and passed > 0:  # it was reset in between
                self._last[key] = _Last(look.value, look.measured)
                return None
            return last.rate
        rate = None
        if look.value >= last.value and passed <= self._longest:
            value = (look.value - last.value) / passed
            rate = Sample(value, look.measured, look.received, passed, look.pod, look.container)
        self._last[key] = _Last(look.value, look.measured, rate)
        return rate

    def retain(self, keys: Collection[str]) -> None:
        for key in self._last.keys() - set(keys):
            del self._last[key]
