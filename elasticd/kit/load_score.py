"""How loaded nodes are beside each other: the node score of ImprovedLoadBalancePriority, on columns of numbers.

Pure. Knows utilisations, speeds and coefficients; knows no node, pod or option.
Source: Tang Rui, master thesis, UESTC 2017, equations (5-8) to (5-19), (6-1) and (6-2).
"""

from collections.abc import Iterable
from functools import reduce
from math import isfinite, isnan, nan, sqrt

import numpy as np

from elasticd.model.placement import Column

LEAST_USE = 0.01
"""A node that uses less than this part of itself counts as one that uses so much: the score of an idle one would be
infinite, and if no node uses more, all are equal."""

MOST_RATIO = 1000.0
"""How far a node may be from the mean, as a factor, either way."""

LEVEL = 1e-6
"""A score nearer to 0 than this is 0: the difference from the mean is one of rounding."""


def average(values: Column, coefficients: Column) -> float:
    """The weighted mean of the values that are known: equations (5-8) to (5-11). NaN: none is."""
    total = float(np.dot(values, coefficients))
    if not isfinite(total):  # somewhere something is not known, which is rare
        finite = np.isfinite(values) & np.isfinite(coefficients)
        values, coefficients = values[finite], coefficients[finite]
        total = float(np.dot(values, coefficients))
    weight = float(coefficients.sum())
    return total / weight if weight > 0 else nan


def idleness(use: Column, coefficients: Column, expected: Column | None = None) -> Column:
    """cpuScore and memScore: the pool's mean utilisation over each node's own, equations (5-12) and (5-13).

    `use` is the part of each node that is used; coefficients say how large nodes are beside each other, in any unit.
    With `expected`, each node's own is this instead, and the mean stays. NaN where a node's own use is not known. The
    text beside the equations has the ratio upside down.
    """
    own = np.maximum(use, LEAST_USE)
    return beside(average(own, coefficients), own if expected is None else np.maximum(expected, LEAST_USE))


def beside(mean: float, own: Column) -> Column:
    """The pool's mean over each node's own part, which is LEAST_USE or more."""
    ratio = mean / own
    np.maximum(ratio, 1 / MOST_RATIO, out=ratio)
    return np.minimum(ratio, MOST_RATIO, out=ratio) if mean > MOST_RATIO * LEAST_USE else ratio


def swiftness(speed: Column) -> Column:
    """imgScore, dataScore: each node's speed over the mean, eqs (5-14), (5-15). NaN: not known; 1: all are 0."""
    mean = average(speed, np.ones_like(speed))
    return speed + 1 if mean == 0 else np.clip(speed / mean, 1 / MOST_RATIO, MOST_RATIO)


def load_score(loads: Iterable[tuple[float, Column]], speeds: Iterable[tuple[float, Column]] = ()) -> Column:
    """Each node's score, equations (5-16) to (5-18): ten times the sum of the logarithms of its ratios by weight, > 0
    where it is better than the mean, < 0 where it is worse.

    `loads` and `speeds` are weights with ratios, at least one of them. With 0.5 each for cpu and memory, a node 10.5 %
    busier than the mean in both has -1. A factor that is known of no node is left out, and the others share its weight.
    A node of which a load is not known, while it is of others, has NaN; one of which a speed is not known is taken to
    have the mean speed, for one that has nothing to fetch shows none.
    """
    factors = [(weight, ratio, False) for weight, ratio in loads] + [(weight, ratio, True) for weight, ratio in speeds]
    known_factors = [factor for factor in factors if _is_known(factor[1])]
    if not known_factors:
        return np.full_like(factors[0][1], nan)
    scale = 10 / sum(weight for weight, _, _ in known_factors)
    score = reduce(np.add, [_term(scale * weight, ratio, speed=speed) for weight, ratio, speed in known_factors])
    level = np.abs(score) < LEVEL
    if level.any():
        score[level] = 0.0
    return score


def _is_known(ratio: Column) -> bool:
    """Whether a ratio is known of any node; the first one nearly always shows it."""
    return len(ratio) > 0 and (not isnan(ratio[0]) or not np.isnan(ratio).all())


def _term(factor: float, ratio: Column, *, speed: bool) -> Column:
    term = np.log(ratio)
    term *= factor
    if speed:
        term[np.isnan(term)] = 0.0
    return term


def balance_score(*uses: Column) -> Column:
    """10 where a node's resources are used to the same part, less the farther apart they are: equation (5-19). Of more
    than two, the two farthest apart count. NaN where one is not known."""
    return 10 - 10 * (reduce(np.maximum, uses) - reduce(np.minimum, uses))


def average_score(scores: Column) -> float:
    """The mean of the scores that are known, equation (6-1). NaN: none is."""
    return average(scores, np.ones_like(scores))


def std_score(scores: Column) -> float:
    """The standard deviation, with 1/n, of the scores that are known, equation (6-2). NaN: none is."""
    return sqrt(average_score((scores - average_score(scores)) ** 2))
