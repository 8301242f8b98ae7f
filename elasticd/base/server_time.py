"""Converts times of day, as others write them, to the daemon's clock, which no step of the system's clock moves.

Knows both clocks; knows nothing of what is timed. Every time that is read from elsewhere and compared with another
goes through here, so that a pod's times and a sample's are of one kind.
"""

import time

from elasticd.base.clock import Clock

_STEP = 0.125
_TOLERANCE = 0.1


class ServerTime:
    """What to add to a time of day to get a time of the clock.

    The API writes whole seconds and judgement compares them for equality, so the difference is kept while it moves by
    no more than a tenth of a second, and is a multiple of 1/8 s: sums and differences of such times are exact.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset = 0.0

    def offset(self) -> float:
        """Seconds to add to a time of day that is received now, to get a time of the clock."""
        difference = self._clock.now() - time.time()
        if abs(difference - self._offset) > _TOLERANCE:
            self._offset = round(difference / _STEP) * _STEP
        return self._offset
