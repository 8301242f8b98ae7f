"""The table of the step-tolerance paper (SATA): as printed, and what its columns say of each other.

Source: Chen, Huang, Computer Systems & Applications 28(10), 2019, 213-218.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import nan
from statistics import fmean
from typing import NamedTuple

from elasticd.lab.papers import Claim

REQUESTS = 5_000_000
"""Of each run."""


class Row(NamedTuple):
    """A row of the paper's table: seconds, failed requests, requests a second, waiting and server's time in ms."""

    seconds: float
    failed: int
    rate: float
    waiting: float
    server: float


THEIRS: Mapping[int, Row] = {
    125: Row(852.34, 60, 5859.36, 21.32, 0.174),
    250: Row(535.52, 108, 9339.5, 26.58, 0.106),
    500: Row(413.68, 162, 12091.82, 41.16, 0.082),
    1000: Row(378.66, 342, 13189.4, 75.90, 0.076),
}
"""The built-in HPA, by clients."""

SATA: Mapping[int, Row] = {
    125: Row(858.4, 0, 5816.2, 21.48, 0.172),
    250: Row(502.14, 0, 9954, 24.12, 0.101),
    500: Row(403.28, 6, 13212.29, 39.32, 0.075),
    1000: Row(364.18, 17, 13404.23, 71.94, 0.075),
}


def fewer(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """By how many percent ours are fewer: the mean over the rows that have any. NaN: there are none."""
    each = [100 * (1 - our / their) for our, their in zip(ours, theirs, strict=True) if their]
    return fmean(each) if each else nan


FEWER, FASTER = 97.83, 4.54
"""Percent: the claims."""

TOGETHER = 96.58
"""Percent fewer failed requests in all rows together."""

ROUNDED = 0.02
"""Points by which the claims may differ from the means of rounded figures."""

PART = "the paper's own table, computed again"
NEAR = 0.01
"""Columns that differ by less fit together."""


def computed_again() -> Iterator[Claim]:
    """The claims and columns of the table, from its other columns."""
    failed, theirs = _column("failed", SATA), _column("failed", THEIRS)
    yield _claim("fewer failed, mean of the four rows", FEWER, fewer(failed, theirs))
    note = f"{sum(theirs):.0f} and {sum(failed):.0f} failed: the claim is the mean of the rows"
    yield _claim("fewer failed, all together", FEWER, fewer([sum(failed)], [sum(theirs)]), note)
    faster = fewer(_column("waiting", SATA), _column("waiting", THEIRS))
    yield _claim("response faster, mean of the four rows", FASTER, faster)
    note = "with as many clients all the time, waiting and duration must shrink alike"
    shorter = fewer(_column("seconds", SATA), _column("seconds", THEIRS))
    yield _claim("the same from the durations", FASTER, shorter, note)
    for name, rows in (("HPA", THEIRS), ("SATA", SATA)):
        for clients, given in rows.items():
            rate, what = REQUESTS / given.seconds, f"{name}, {clients} clients: requests/s from the duration"
            yield _column_claim(what, given.rate, rate, "")
    for name, rows in (("HPA", THEIRS), ("SATA", SATA)):
        for clients, given in rows.items():
            waiting = 1000 * clients * given.seconds / REQUESTS
            yield _column_claim(f"{name}, {clients} clients: waiting from the duration", given.waiting, waiting, "ms")


def _claim(what: str, percent: float, value: float, note: str = "") -> Claim:
    return _row(what, f"{percent} %", value, "%", holds=abs(value - percent) < ROUNDED, note=note)


def _column_claim(what: str, printed: float, value: float, unit: str) -> Claim:
    form = ".2f" if unit else ".0f"
    paper = f"{printed:{form}}{' ' if unit else ''}{unit}"
    holds = abs(value / printed - 1) < NEAR
    note = "" if holds else f"the printed figure is {100 * (printed / value - 1):+.1f} % from it"
    return _row(what, paper, value, unit, holds=holds, note=note)


def _row(what: str, paper: str, value: float, unit: str, *, holds: bool, note: str = "") -> Claim:
    form = ".2f" if unit else ".0f"
    return Claim(PART, what, paper, (value,), "confirmed" if holds else "not confirmed", unit, form, note)


def _column(name: str, rows: Mapping[int, Row]) -> list[float]:
    return [getattr(row, name) for row in rows.values()]
