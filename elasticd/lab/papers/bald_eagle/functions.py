"""The four functions that TBESK is measured on (its section 4.2), all to be made small, dimension 10.

The paper gives no bounds; these are the usual ones. Its Ackley lacks -0.2 and pi, and has no least value.
"""

from collections.abc import Callable
from math import e

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from elasticd_plugins.bald_eagle.search import Catch, Habits, Quest, search

Floats = NDArray[np.float64]
DIMENSION = 10
_NUMBERS = np.arange(1, DIMENSION + 1)


class Benchmark(Struct, frozen=True, eq=False):
    """A function of rows of positions, its bounds (both signs), the least value that doubles can have, and what the
    paper reports (Table 2): of TBESK and of BES best, worst and mean iterations, of others mean iterations."""

    function: Callable[[Floats, np.random.Generator], Floats]
    bound: float
    least: float
    tbesk: tuple[float, float, int]
    bes: tuple[float, float, int]
    others: dict[str, int]

    def run(self, habits: Habits, seed: int, moved: float = 0.0) -> Catch:
        """One run; the fitness is the function's negative. `moved`: its optimum, in parts of the bound; 0: at 0."""
        noise = np.random.Generator(np.random.PCG64([seed, 2]))
        bounds = np.full(DIMENSION, -self.bound), np.full(DIMENSION, self.bound)
        off = moved * self.bound
        quest = Quest(lambda rows: -self.function(rows - off, noise), *bounds, goal=-self.least)
        return search(quest, habits, np.random.Generator(np.random.PCG64([seed, 1])))


def quartic(rows: Floats, noise: np.random.Generator) -> Floats:
    """With noise from 0 to 1 in every call, which is most of what is left of it."""
    return (_NUMBERS * rows**4).sum(axis=1) + noise.random(len(rows))  # type: ignore[no-any-return]


def griewank(rows: Floats, _: np.random.Generator) -> Floats:
    """Least at 0."""
    return (rows**2).sum(axis=1) / 4000 - np.cos(rows / np.sqrt(_NUMBERS)).prod(axis=1) + 1  # type: ignore[no-any-return]


def ackley(rows: Floats, _: np.random.Generator) -> Floats:
    """Least at 0, where doubles have 2**-51 for it."""
    near, waves = np.sqrt((rows**2).mean(axis=1)), np.cos(2 * np.pi * rows).mean(axis=1)
    return -20 * np.exp(-0.2 * near) - np.exp(waves) + 20 + e  # type: ignore[no-any-return]


def sphere(rows: Floats, _: np.random.Generator) -> Floats:
    """Least at 0."""
    return (rows**2).sum(axis=1)  # type: ignore[no-any-return]


def _others(*iterations: int) -> dict[str, int]:
    return dict(zip(("tSSA", "tSBO", "tPSO"), iterations, strict=True))


_QUARTIC = (1.481e-6, 7.846e-5, 162), (1.719e-5, 1.225e-4, 208), _others(264, 280, 320)
_ACKLEY = (2**-51, 2**-51, 8), (2**-51, 2**-51, 10), _others(338, 170, 608)
BENCHMARKS = {
    "Quartic": Benchmark(quartic, 1.28, -np.inf, *_QUARTIC),
    "Griewank": Benchmark(griewank, 600, 0, (0, 0, 3), (0, 0, 5), _others(173, 63, 660)),
    "Ackley": Benchmark(ackley, 32, 2**-51, *_ACKLEY),
    "Sphere": Benchmark(sphere, 100, 0, (0, 0, 88), (0, 0, 102), _others(561, 243, 453)),
}
FLOCK = Habits(eagles=50, iterations=1000, patience=1000)


def iterations(catch: Catch) -> int:
    """After how many the best was found."""
    return int(np.argmax(np.array(catch.trail) >= catch.fitness))
