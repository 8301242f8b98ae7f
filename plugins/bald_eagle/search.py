"""Bald eagle search (BES) and TBESK's additions, for any fitness function of positions.

Own code, because mealpy (3.0.3) needs numpy <= 1.26, brings pandas, scipy and matplotlib (102 MB of wheels), and has no
hook for the mutation. Here all eagles move at once, as rows of numpy arrays; a library that computes the fitness of one
eagle after another cannot be as fast. Random numbers come from a seeded generator; knows no pods.

Sources: Alsattar, Zaidan, Zaidan, "Novel meta-heuristic bald eagle search optimisation algorithm", Artif. Intell. Rev.
53(3), 2020 (BES); TBESK (see the package), eqs (3)-(15).
"""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from elasticd.api import Struct

Floats = NDArray[np.float64]
Fitness = Callable[[Floats], Floats]
"""Maps positions, one row for each eagle, to their fitness; the highest is the best."""


class Habits(Struct, frozen=True):
    """The parameters of the search. `improved`: TBESK, with the Tent map, t mutation and reflection; else the original
    BES.

    `printed`: the swoop as TBESK prints it in eqs (11)-(12), with the mean instead of the best and circles instead of
    hyperbolas. `pull` is alpha of eq. (3) in [1.5, 2], `turns` is a of eq. (6) in [5, 10], `reach` is R of eq. (7) in
    [0.5, 2], `inward` is C1 and C2 of eq. (12) in [1, 2]. The search stops after `iterations`, or after `patience`
    iterations without an improvement if the best is good enough.
    """

    eagles: int = 30
    iterations: int = 60
    patience: int = 20
    improved: bool = True
    printed: bool = False
    pull: float = 2.0
    turns: float = 10.0
    reach: float = 1.5
    inward: float = 2.0


class Quest(Struct, frozen=True, eq=False):
    """A problem to search: the fitness function, and the lower and upper bound of each coordinate.

    `first` are rows that replace the positions of the first eagles. While the best is below `enough`, the search does
    not stop for lack of improvement; at `goal` it stops.
    """

    fitness: Fitness
    low: Floats
    high: Floats
    first: Floats | None = None
    enough: float = -np.inf
    goal: float = np.inf


class Catch(Struct, frozen=True, eq=False):
    """The best position, its fitness, and the best fitness at first and after each iteration."""

    position: Floats
    fitness: float
    trail: tuple[float, ...]


def search(quest: Quest, habits: Habits, chance: np.random.Generator) -> Catch:
    """The best position found. Its fitness never falls, and equal generators give equal results."""
    flock = _Flock(quest, habits, chance)
    trail, better = [flock.best_fitness], 0
    for iteration in range(1, habits.iterations + 1):
        tired = iteration - better > habits.patience and flock.best_fitness >= quest.enough
        if tired or flock.best_fitness >= quest.goal:
            break
        flock.select(iteration)
        flock.circle()
        flock.swoop()
        if flock.best_fitness > trail[-1]:
            better = iteration
        trail.append(flock.best_fitness)
    return Catch(flock.best, flock.best_fitness, tuple(trail))


def start(low: Floats, high: Floats, habits: Habits, chance: np.random.Generator) -> Floats:
    """The first positions: one Tent sequence through all coordinates of all eagles; for BES random ones."""
    shape = (habits.eagles, len(low))
    if not habits.improved:
        return low + (high - low) * chance.random(shape)
    count = habits.eagles * len(low)
    spread = np.fromiter(repaired_tent(chance.random(), _draws(chance, count), count), np.float64, count)
    return low + (high - low) * spread.reshape(shape)


DEAD = frozenset({0.0, 0.25, 0.5, 0.75, 1.0})
"""From these numbers the Tent map reaches a fixed point."""


def tent(x: float) -> float:
    """The next number of the Tent map (TBESK, 3.1.1, eq. 13). Not the Bernoulli shift of eq. 14, for which the paper
    takes it: from 0.1 the two differ at the fourth number, 0.4 and 0.6. In doubles it is dead, at 0, after 54 steps."""
    return 2 * x if x <= 0.5 else 2 * (1 - x)


def repaired_tent(start: float, chance: Iterable[float], count: int) -> Iterator[float]:
    """`count` numbers in [0, 1) after `start` that do not converge to 0. Each step adds `chance` / count, with the next
    number of `chance` (0 to 1); a number in DEAD is replaced by the next of `chance`."""
    x, draws = start, iter(chance)
    for _ in range(count):
        x = (tent(x) + next(draws) / count) % 1
        while x in DEAD:
            x = next(draws)
        yield x


def _draws(chance: np.random.Generator, count: int) -> Iterator[float]:
    while True:
        yield from chance.random(count).tolist()


class _Flock:
    """The positions of all eagles and their fitness. An eagle moves only where its fitness improves."""

    def __init__(self, quest: Quest, habits: Habits, chance: np.random.Generator) -> None:
        self._quest, self._habits, self._chance = quest, habits, chance
        positions = start(quest.low, quest.high, habits, chance)
        if quest.first is not None:
            positions[: len(quest.first)] = quest.first
        self._positions, self._fitness = positions, quest.fitness(positions)
        best = int(np.argmax(self._fitness))
        self.best, self.best_fitness = positions[best].copy(), float(self._fitness[best])
        self._spiral = (np.zeros((habits.eagles, 1)), np.zeros((habits.eagles, 1)))

    def select(self, iteration: int) -> None:
        """Eq. (3); for TBESK then the t mutation of the result, eq. (15), with the iteration as degrees of freedom:
        heavy tails at first, nearly normal later. The best of the three positions stays; the paper does not say
        which."""
        mean, rand = self._positions.mean(axis=0), self._chance.random(self._positions.shape)
        selected = self._within(self.best + self._habits.pull * rand * (mean - self._positions))
        self._take(selected)
        if self._habits.improved:
            self._take(self._within(selected * (1 + self._chance.standard_t(iteration, selected.shape))))

    def circle(self) -> None:
        """Search within the selected space, eqs (4)-(10). The next eagle is a random other one, as in BES."""
        mean, order = self._positions.mean(axis=0), self._chance.permutation(self._habits.eagles)
        following = np.empty_like(order)
        following[order] = np.roll(order, -1)
        theta = self._habits.turns * np.pi * self._chance.random((self._habits.eagles, 1))
        radius = theta + self._habits.reach * self._chance.random(theta.shape)
        x, y = self._spiral = _scale(radius * np.sin(theta)), _scale(radius * np.cos(theta))
        positions = self._positions
        self._take(self._within(positions + x * (positions - mean) + y * (positions - positions[following])))

    def swoop(self) -> None:
        """Move towards the best, eqs (11)-(12). BES has hyperbolas there, and the best instead of the second mean;
        BES's programs differ in theta, which here has the form of eq. (4)."""
        mean, inward, positions = self._positions.mean(axis=0), self._habits.inward, self._positions
        if self._habits.printed:
            x, y = self._spiral
            centre = mean
        else:
            theta = self._habits.turns * np.pi * self._chance.random((self._habits.eagles, 1))
            x, y = _scale(theta * np.sinh(theta)), _scale(theta * np.cosh(theta))
            centre = self.best
        rand = self._chance.random(positions.shape)
        self._take(self._within(rand * self.best + x * (positions - inward * mean) + y * (positions - inward * centre)))

    def _within(self, positions: Floats) -> Floats:
        """Positions between the bounds. TBESK reflects first: t mutation would leave many eagles on a bound."""
        low, high = self._quest.low, self._quest.high
        if self._habits.improved:
            positions = np.where(positions < low, 2 * low - positions, positions)
            positions = np.where(positions > high, 2 * high - positions, positions)
        return np.clip(positions, low, high)

    def _take(self, positions: Floats) -> None:
        fitness = self._quest.fitness(positions)
        better = fitness > self._fitness
        self._positions = np.where(better[:, None], positions, self._positions)
        self._fitness = np.where(better, fitness, self._fitness)
        best = int(np.argmax(self._fitness))
        if self._fitness[best] > self.best_fitness:
            self.best, self.best_fitness = self._positions[best].copy(), float(self._fitness[best])


def _scale(values: Floats) -> Floats:
    """The values divided so that the largest absolute value is 1."""
    most = np.abs(values).max()
    return values / most if most > 0 else values
