"""The band around a sum in which something stays as it is, found by trying.

Pure. Knows numbers; knows nothing of what is tried.
"""

from collections.abc import Callable
from math import inf

from elasticd.model.workload import NEVER, Band

_FINE = 256
"""An edge is found to this part of the sum: inside of it, never outside."""

_LEAST, _MOST = 1e-9, 1e18


def band_around(same: Callable[[float], bool], at: float) -> Band:
    """The band of sums around this one for which `same` holds; those must be one interval of sums that are not
    negative. Each end that is sought comes out a little inside of it. NEVER: `same` does not hold here."""
    if not same(at):
        return NEVER
    return Band(-inf if same(0.0) else _edge(same, at, 0.0), _upper(same, at))


def _upper(same: Callable[[float], bool], at: float) -> float:
    good, step = at, max(at / 16, _LEAST)
    while same(at + step):
        good = at + step
        if good > _MOST:
            return inf
        step *= 4
    return _edge(same, good, at + step)


def _edge(same: Callable[[float], bool], good: float, bad: float) -> float:
    """Find the edge by bisection: a good sum near a bad one."""
    fine = max(abs(good), abs(bad), _LEAST) / _FINE  # of the smallest numbers there is nothing between two
    while abs(good - bad) > fine:
        middle = (good + bad) / 2
        good, bad = (middle, bad) if same(middle) else (good, middle)
    return good
