"""The chaotic maps that spread the first eagles, and the repair without which they stop.

Knows numbers from 0 to 1. Chance comes in as numbers; knows no eagles and no pods.
"""

from collections.abc import Callable, Iterable, Iterator

Map = Callable[[float], float]

DEAD = frozenset({0.0, 0.25, 0.5, 0.75, 1.0})
"""From these both maps come to a number that they never leave."""


def tent(x: float) -> float:
    """The next of the Tent map (TBESK, 3.1.1, eq. 13)."""
    return 2 * x if x <= 0.5 else 2 * (1 - x)


def bernoulli(x: float) -> float:
    """The next of the Bernoulli shift (TBESK, eq. 14). The paper takes it for the Tent map; from 0.1 the two part at
    the fourth number, 0.4 and 0.6."""
    return (2 * x) % 1


def sequence(step: Map, start: float) -> Iterator[float]:
    """What follows `start`, for ever, by the map alone. In doubles that is 0 after some 53 numbers, as each shifts one
    bit out."""
    x = start
    while True:
        x = step(x)
        yield x


def repaired(step: Map, start: float, chance: Iterable[float], count: int) -> Iterator[float]:
    """So many numbers in [0, 1) after `start` that do not die out: to each a part of 1 / count is added, as large as
    the next of `chance` (0 to 1) says, and a number in DEAD is replaced by the next of `chance`."""
    x, draws = start, iter(chance)
    for _ in range(count):
        x = (step(x) + next(draws) / count) % 1
        while x in DEAD:
            x = next(draws)
        yield x
