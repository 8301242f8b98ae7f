"""The bald eagle search by itself: the paper's four functions, TBESK beside BES, and both with the optimum moved.

Knows the paper's Table 2; knows no pods.
"""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from msgspec.structs import replace

from elasticd.lab.papers import Axis, Chart, Claim, Line, Verdict, judged
from elasticd.lab.papers.bald_eagle.functions import BENCHMARKS, FLOCK, Benchmark, iterations

NIL = 1e-18
"""What is drawn is greater. Sphere falls below 1e-300."""

MOVED = 0.3
"""Where the optimum is in the second trial, in parts of the bound; in the first it is at 0."""

SEARCHES = {"TBESK": replace(FLOCK, improved=True), "BES": replace(FLOCK, improved=False)}


class Ten(NamedTuple):
    """Several runs of a search on a function: the least values that they found, after how many iterations each, and
    the best so far in each iteration of the first."""

    values: Sequence[float]
    iterations: Sequence[int]
    trail: Sequence[float]

    @property
    def best(self) -> float:
        return min(self.values)

    @property
    def worst(self) -> float:
        return max(self.values)

    @property
    def mean(self) -> float:
        return fmean(self.iterations)


Key = tuple[str, str, float, int]
"""Function, search, how far the optimum is moved, and seed."""


def keys(seeds: Sequence[int]) -> Iterator[Key]:
    """All that is run."""
    for function in BENCHMARKS:
        for search in SEARCHES:
            yield from ((function, search, moved, seed) for moved in (0.0, MOVED) for seed in seeds)


def run(key: Key, runs: int) -> Ten:
    """So many runs, with seeds of their own."""
    function, search, moved, seed = key
    catches = [BENCHMARKS[function].run(SEARCHES[search], seed * runs + index, moved) for index in range(runs)]
    trail = tuple(-fitness for fitness in catches[0].trail)
    return Ten([-catch.fitness for catch in catches], [iterations(catch) for catch in catches], trail)


def claims(found: Mapping[Key, Ten], seeds: Sequence[int]) -> Iterator[Claim]:
    """Table 2, function by function, and then the functions with their optimum moved."""
    for name, benchmark in BENCHMARKS.items():
        ours, theirs = ([found[name, search, 0.0, seed] for seed in seeds] for search in SEARCHES)
        yield from _table_2(name, benchmark, ours, theirs)
    part = f"optimum moved by {MOVED:.0%} of the bound".replace("%", " %")
    for name in BENCHMARKS:
        for search in SEARCHES:
            runs = [found[name, search, MOVED, seed] for seed in seeds]
            worst = tuple(ten.worst for ten in runs)
            yield Claim(part, f"{name}, {search}: worst of ten runs", "", worst, "no claim", form=".3g")


NOISE = "mostly the noise that the function adds"
SIZE = "bounds, eagles and what counts as an iteration are not known"
THEIRS = "by its own count in the paper; it is not measured here"


def _table_2(name: str, benchmark: Benchmark, ours: Sequence[Ten], theirs: Sequence[Ten]) -> Iterator[Claim]:
    part = f"{name}, dimension 10, ten runs"
    noise = NOISE if name == "Quartic" else ""

    def row(what: str, paper: float, values: tuple[float, ...], note: str = "") -> Claim:
        return Claim(part, what, f"{paper:.4g}", values, _at_most(paper, values), form=".4g", note=note)

    for search, tens, paper in (("TBESK", ours, benchmark.tbesk), ("BES", theirs, benchmark.bes)):
        yield row(f"{search}: best", paper[0], tuple(ten.best for ten in tens), noise)
        yield row(f"{search}: worst", paper[1], tuple(ten.worst for ten in tens), noise)
        yield row(f"{search}: mean iterations", paper[2], tuple(ten.mean for ten in tens), SIZE)
    saved = tuple(other.mean - ten.mean for ten, other in zip(ours, theirs, strict=True))
    fewer = judged(value > 0 for value in saved)
    claimed = benchmark.bes[2] - benchmark.tbesk[2]
    note = "confirmed means: fewer at all"
    yield Claim(part, "iterations fewer than BES", f"{claimed}", saved, fewer, form=".0f", note=note)
    for other, count in benchmark.others.items():
        saved = tuple(count - ten.mean for ten in ours)
        fewer = judged(value > 0 for value in saved)
        text = f"{count - benchmark.tbesk[2]}"
        yield Claim(part, f"iterations fewer than {other}", text, saved, fewer, form=".0f", note=THEIRS)


def _at_most(paper: float, values: Sequence[float]) -> Verdict:
    return judged(value <= paper for value in values)


def charts(found: Mapping[Key, Ten], seed: int) -> Iterator[Chart]:
    """How the best value falls in the first run, down to NIL: so the axis shows what is not next to nothing."""
    for name in BENCHMARKS:
        lines = []
        for moved, where in ((0.0, "at 0"), (MOVED, "moved")):
            for search in SEARCHES:
                trail = [
                    (float(at), value) for at, value in enumerate(found[name, search, moved, seed].trail) if value > NIL
                ]
                lines.append(Line(f"{search}, optimum {where}", *_columns(trail)))
        axes = Axis("iteration"), Axis("best value so far")
        title = f"{name}: the first run"
        picture = "bald-eagle-convergence"
        yield Chart(f"bald-eagle-{name.lower()}", title, "lines", *axes, tuple(lines), log=True, picture=picture)


def _columns(pairs: Sequence[tuple[float, float]]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return tuple(first for first, _ in pairs), tuple(second for _, second in pairs)
