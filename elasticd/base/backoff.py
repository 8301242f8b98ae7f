"""How long to wait before another attempt at what has failed. Pure: chance comes in as a number."""

from math import inf

from msgspec import Struct

_DOUBLINGS = 1000
"""A delay that has doubled more often than this is beyond a double."""


class Backoff(Struct, frozen=True):
    """A delay of `first` seconds after the first failure, which doubles with each further one in a row, up to
    `longest`. `jitter`: the least and the largest factor by which chance changes it."""

    first: float
    longest: float = inf
    jitter: tuple[float, float] = (1.0, 1.0)

    def delay(self, failures: int, chance: float = 0.0) -> float:
        """Seconds to wait after so many failures in a row; 0 after none. `chance`: a random number from 0 to 1."""
        if failures < 1:
            return 0.0
        least, largest = self.jitter
        delay = min(self.longest, self.first * 2.0 ** min(failures - 1, _DOUBLINGS))
        return delay * (least + (largest - least) * chance)
