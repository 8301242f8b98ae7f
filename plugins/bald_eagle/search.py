"""Bald eagle search (BES) and what TBESK adds to it, for any fitness of positions.

Own code, because mealpy (3.0.3) needs numpy <= 1.26 and brings pandas, scipy and matplotlib (102 MB of wheels), and has
no place for the mutation. Here all eagles move at once, as columns of numpy; a library that asks for the fitness of one
after the other could not be as fast. Chance comes in as a seeded generator; knows no pods.

Sources: Alsattar, Zaidan, Zaidan, "Novel meta-heuristic bald eagle search optimisation algorithm", Artif. Intell. Rev.
53(3), 2020 (BES); Geng, Wang, "Improved Bald Eagle Search Algorithm for Kubernetes Resource Scheduling Application",
Computer Systems & Applications 32(4), 2023 (TBESK), eqs (3)-(15).
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from elasticd.api import Struct

from .maps import repaired, tent

Floats = NDArray[np.float64]
Fitness = Callable[[Floats], Floats]
"""Of positions, one row for each eagle, how good each is; the highest is the best."""


class Habits(Struct, frozen=True):
    """How eagles move. `improved`: TBESK, with the Tent map first, t mutation and reflection; else BES as it was.

    `printed`: the swoop as TBESK prints it in eqs (11)-(12), with the mean for the best and circles for hyperbolas. Of
    the other numbers, `pull` is alpha of eq. (3) in [1.5, 2], `turns` a of eq. (6) in [5, 10], `reach` R of eq. (7) in
    [0.5, 2], `inward` C1 and C2 of eq. (12) in [1, 2]. It stops after `iterations`, or after `patience` of them in
    which the best, if it is good enough, became no better.
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
    """What is looked for: the highest fitness of positions between two bounds, a number each for every coordinate.

    `first` are rows that take the places of the first eagles. Below `enough` there is no end to patience, and at `goal`
    the search is over.
    """

    fitness: Fitness
    low: Floats
    high: Floats
    first: Floats | None = None
    enough: float = -np.inf
    goal: float = np.inf


class Catch(Struct, frozen=True, eq=False):
    """The best position, how good it is, and how good the best was at first and after each iteration."""

    position: Floats
    fitness: float
    trail: tuple[float, ...]


def search(quest: Quest, habits: Habits, chance: np.random.Generator) -> Catch:
    """The best position that was seen. Its fitness never falls from one iteration to the next, and equal generators
    give equal catches."""
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
    """The first positions: by one Tent sequence through all coordinates of all eagles, or, for BES, by chance."""
    shape = (habits.eagles, len(low))
    if not habits.improved:
        return low + (high - low) * chance.random(shape)
    count = habits.eagles * len(low)
    spread = np.fromiter(repaired(tent, chance.random(), _draws(chance, count), count), np.float64, count)
    return low + (high - low) * spread.reshape(shape)


def _draws(chance: np.random.Generator, count: int) -> Iterator[float]:
    while True:
        yield from chance.random(count).tolist()


class _Flock:
    """All eagles: their positions and how good those are. A step is taken only where it is better."""

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
        """Eq. (3), and for TBESK the t mutation of what came of it, eq. (15), with the iteration for its degrees of
        freedom: wild at first, normal later. The best of the three stays; the paper does not say which."""
        mean, rand = self._positions.mean(axis=0), self._chance.random(self._positions.shape)
        selected = self._within(self.best + self._habits.pull * rand * (mean - self._positions))
        self._take(selected)
        if self._habits.improved:
            self._take(self._within(selected * (1 + self._chance.standard_t(iteration, selected.shape))))

    def circle(self) -> None:
        """Search within the space that was selected, eqs (4)-(10). The next eagle is a random other one, as in BES."""
        mean, order = self._positions.mean(axis=0), self._chance.permutation(self._habits.eagles)
        following = np.empty_like(order)
        following[order] = np.roll(order, -1)
        theta = self._habits.turns * np.pi * self._chance.random((self._habits.eagles, 1))
        radius = theta + self._habits.reach * self._chance.random(theta.shape)
        x, y = self._spiral = _scale(radius * np.sin(theta)), _scale(radius * np.cos(theta))
        positions = self._positions
        self._take(self._within(positions + x * (positions - mean) + y * (positions - positions[following])))

    def swoop(self) -> None:
        """Onto the best, eqs (11)-(12). BES has hyperbolas there, and the best instead of the second mean; its
        programs part over theta, of which this is the form of eq. (4)."""
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
        """Back between the bounds. TBESK reflects first, as t mutation would leave many eagles right on a bound."""
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
    """So that the largest is 1 or -1."""
    most = np.abs(values).max()
    return values / most if most > 0 else values
