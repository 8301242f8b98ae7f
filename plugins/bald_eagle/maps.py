"""Chaotic maps that spread the first positions of a search, and the repair that keeps them from converging to 0.

Knows numbers from 0 to 1. Random numbers come in as arguments; knows no search and no pods.
"""

from collections.abc import Callable, Iterable, Iterator

Map = Callable[[float], float]

DEAD = frozenset({0.0, 0.25, 0.5, 0.75, 1.0})
"""From these numbers both maps reach a fixed point."""


def tent(x: float) -> float:
    """The next number of the Tent map (TBESK, 3.1.1, eq. 13)."""
    return 2 * x if x <= 0.5 else 2 * (1 - x)


def bernoulli(x: float) -> float:
    """The next number of the Bernoulli shift (TBESK, eq. 14). The paper takes it for the Tent map, but from 0.1 the two
    differ at the fourth number: 0.4 and 0.6."""
    return (2 * x) % 1


def sequence(step: Map, start: float) -> Iterator[float]:
    """The endless sequence of the map after `start`. In doubles it is 0 after some 53 numbers, as each step shifts one
    bit out."""
    x = start
    while True:
        x = step(x)
        yield x


def repaired(step: Map, start: float, chance: Iterable[float], count: int) -> Iterator[float]:
    """`count` numbers in [0, 1) after `start` that do not converge to 0. Each step adds `chance` / count, with the next
    number of `chance` (0 to 1); a number in DEAD is replaced by the next of `chance`."""
    x, draws = start, iter(chance)
    for _ in range(count):
        x = (step(x) + next(draws) / count) % 1
        while x in DEAD:
            x = next(draws)
        yield x
