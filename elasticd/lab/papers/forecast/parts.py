"""Series taken apart, and their periods: what RobustSTL, AHPA's detector and Crane's come to on series that are known.

Knows series and what they were made of; knows nothing of how they are taken apart.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from elasticd.lab.papers import Axis, Chart, Claim, Line, judged
from elasticd.lab.papers.forecast.loads import DAY, WEEK, Floats, make_load
from elasticd.sources.forecasting.arrays import lopsided
from elasticd.sources.forecasting.periods import acf_period, crane_period
from elasticd.sources.forecasting.robust_stl import Decomposition, StlSettings, taken_apart
from elasticd_plugins.forecast import linear, mm1, mmc

PERIOD, COUNT, SHIFT = 24, 480, 240
"""Of the series that is taken apart: samples of a period, of all, and where its level shifts."""

SPIKES = {100: 8.0, 300: -8.0}
NOISE = 0.316
TREND = np.where(np.arange(COUNT) < SHIFT, 10.0, 15.0)
SEASON = 3 * np.sin(2 * np.pi * np.arange(COUNT) / PERIOD)
SETTINGS = StlSettings(3, 1.0, 1.0, 10.0, 0.5, 2, 5, 2.0, 1.0, standardise=False)
"""Those of a public implementation, but for a season's weights that fade within two samples: 50 blurs it."""


class Parts(NamedTuple):
    """What came of one series: errors of trend and season (mean squares), by RobustSTL and by moving averages, how far
    from its place the greatest step of the trend is, the remainders at the spikes, and the periods that were found."""

    trend: float
    season: float
    classical_trend: float
    classical_season: float
    late: int
    spikes: tuple[float, ...]
    periods: dict[str, int]


def make_series(seed: int) -> Floats:
    """A level that shifts, a season, noise, and a spike up and one down."""
    values = TREND + SEASON + np.random.default_rng(seed).normal(0, NOISE, COUNT)
    for place, height in SPIKES.items():
        values[place] += height
    return np.asarray(values)


def classical(values: Floats) -> Decomposition:
    """By a moving average over a period, and the mean of each phase: what robust methods are compared with."""
    weights = np.r_[0.5, np.ones(PERIOD - 1), 0.5] / PERIOD
    padded = np.pad(values, PERIOD // 2, mode="edge")
    trend = np.convolve(padded, weights, mode="valid")
    means = (values - trend).reshape(-1, PERIOD).mean(axis=0)
    season = np.tile(means - means.mean(), COUNT // PERIOD)
    return Decomposition(trend, season, values - trend - season)


def run(seed: int) -> Parts:
    """Take the series of this seed apart, and look for periods in several."""
    values = make_series(seed)
    robust, plain = taken_apart(values, PERIOD, SETTINGS), classical(values)
    return Parts(
        _error(robust.trend, TREND),
        _error(robust.season, SEASON),
        _error(plain.trend, TREND),
        _error(plain.season, SEASON),
        abs(int(np.argmax(np.diff(robust.trend))) - (SHIFT - 1)),
        tuple(float(robust.remainder[place]) for place in SPIKES),
        {name: find(seed) or 0 for name, find in PERIODS.items()},
    )


def _error(found: Floats, true: Floats) -> float:
    return float(((found - true) ** 2).mean())


MINUTES = 1440


def _day_wave(seed: int, days: int = 7) -> Floats:
    """A day's wave in minutes, with noise of a sixth of it."""
    minutes = np.arange(days * MINUTES)
    wave = 50 + 30 * np.sin(2 * np.pi * minutes / MINUTES)
    return np.asarray(wave + np.random.default_rng(seed).normal(0, 5, len(minutes)))


def _noise(seed: int) -> Floats:
    return np.asarray(50 + np.random.default_rng(seed).normal(0, 5, 7 * MINUTES))


def _walk(seed: int) -> Floats:
    return np.asarray(np.abs(np.cumsum(np.random.default_rng(seed).normal(0, 1, 7 * MINUTES))))


def _crane(values: Floats, day: int, hour: int) -> int | None:
    return crane_period(values, day, 7 * day, hour)


ACF, CRANE = "AHPA's detector", "Crane's"
PERIODS: Mapping[str, Callable[[int], int | None]] = {
    f"{ACF}: {PERIOD} samples, level shift and spikes": lambda seed: acf_period(make_series(seed)),
    f"{ACF}: a day of minutes, expected": lambda seed: acf_period(_day_wave(seed), MINUTES),
    f"{ACF}: a day of minutes, not expected": lambda seed: acf_period(_day_wave(seed)),
    f"{CRANE}: a day of minutes": lambda seed: _crane(_day_wave(seed), MINUTES, 60),
    f"{CRANE}: a week of half hours": lambda seed: _crane(make_load(seed).past, DAY, DAY // 24),
    f"{ACF}: white noise": lambda seed: acf_period(_noise(seed)),
    f"{CRANE}: white noise": lambda seed: _crane(_noise(seed), MINUTES, 60),
    f"{ACF}: a random walk, a day expected": lambda seed: acf_period(_walk(seed), MINUTES),
    f"{CRANE}: a random walk": lambda seed: _crane(_walk(seed), MINUTES, 60),
}
"""Series in which a period is looked for, by name: what finds it, in samples."""

TRUE = dict(zip(PERIODS, (PERIOD, MINUTES, MINUTES, MINUTES, WEEK, 0, 0, 0, 0), strict=True))
"""The periods that the series have, 0: none."""

WHY = {
    f"{ACF}: a day of minutes, not expected": "noise moves the peaks; elasticd tries expected periods only",
    f"{CRANE}: a random walk": "a chance hill; what has no skill on the last day is not believed",
}


def claims(found: Mapping[int, Parts]) -> Iterator[Claim]:
    """The errors of the parts, the periods, and the models from a load to pods."""
    parts = list(found.values())
    part = f"decomposition: period {PERIOD}, a level that shifts by 5, spikes of 8, noise of {NOISE}"
    trend, plain = tuple(one.trend for one in parts), tuple(one.classical_trend for one in parts)
    note = "confirmed means: less than a tenth of what moving averages leave; the paper's own series is not known"
    less = judged(own < other / 10 for own, other in zip(trend, plain, strict=True))
    yield Claim(part, "error of the trend, RobustSTL", "0.0530, STR 1.6761", trend, less, "", ".4f", note)
    yield Claim(part, "error of the trend, moving averages", "", plain, "no claim", "", ".4f")
    season, plain = tuple(one.season for one in parts), tuple(one.classical_season for one in parts)
    yield Claim(part, "error of the season, RobustSTL", "", season, "no claim", "", ".4f")
    yield Claim(part, "error of the season, moving averages", "", plain, "no claim", "", ".4f")
    late = tuple(float(one.late) for one in parts)
    note = "confirmed means: within 2 samples"
    yield Claim(
        part,
        "distance of the level shift from its place",
        "abrupt",
        late,
        judged(x <= 2 for x in late),
        "samples",
        ".0f",
        note,
    )
    for index, (place, height) in enumerate(SPIKES.items()):
        left = tuple(one.spikes[index] for one in parts)
        kept = judged(abs(value) > abs(height) / 2 for value in left)
        note = "confirmed means: more than half of it is in the remainder"
        yield Claim(part, f"remainder at the spike of {height:g} at {place}", "kept apart", left, kept, "", ".2f", note)
    for name, true in TRUE.items():
        values = tuple(float(one.periods[name]) for one in parts)
        paper = f"{true} samples" if true else "none"
        holds = judged(value == true for value in values)
        yield Claim(
            "periods, in samples; 0: none is found",
            name,
            paper,
            values,
            holds,
            "",
            ".0f",
            WHY.get(name, "") if holds != "confirmed" else "",
        )
    yield from _models()


def _models() -> Iterator[Claim]:
    """Worked examples, of which nothing is random."""
    part = "from a load to pods, and from an error to a choice"
    rows = (
        ("M/M/1: 100 requests/s, 10/s a pod, 0.2 s", 20, float(mm1(100, 10, 0.2)), "AHPA, for many pods"),
        ("M/M/c: the same", 11, float(mmc(100, 10, 0.2)), "AHPA, for few pods"),
        ("line: 0.4 x load + 5, 1,000 requests/s, target 50", 9, float(linear(1000, 0.4, 5, 50) or 0), "Kapacity"),
    )
    for what, paper, value, note in rows:
        yield Claim(part, what, f"{paper} pods", (value,), judged([value == paper]), "pods", ".0f", note)
    for low, stated in ((0.1, 0.4722), (0.5, 3.1063)):
        value = lopsided(np.array([1.0]), np.array([1 - low]))
        holds = judged([abs(value - stated) < 5e-5])
        yield Claim(
            part,
            f"error of a forecast that is {low:.0%} too low".replace("%", " %"),
            f"{stated}",
            (value,),
            holds,
            "",
            ".4f",
            "Crane",
        )


def charts(seed: int) -> Iterator[Chart]:
    """The series of this seed and its parts, by RobustSTL and by moving averages."""
    values = make_series(seed)
    robust, plain = taken_apart(values, PERIOD, SETTINGS), classical(values)
    x, axis, picture = tuple(map(float, range(COUNT))), Axis("sample"), "forecast-decomposition"

    def chart(name: str, title: str, *lines: Line) -> Chart:
        return Chart(f"forecast-{name}", title, "lines", axis, Axis("value"), lines, picture=picture)

    def line(name: str, y: Floats, **look: str) -> Line:
        return Line(name, x, tuple(y.tolist()), **look)  # type: ignore[arg-type]

    yield chart("series", "A series with a level shift and two spikes", line("series", values, look="reference"))
    yield chart("trend", "Trend", line("RobustSTL", robust.trend), line("moving averages", plain.trend))
    yield chart("season", "Season", line("RobustSTL", robust.season), line("moving averages", plain.season))
    yield chart("remainder", "Remainder", line("RobustSTL", robust.remainder), line("moving averages", plain.remainder))
