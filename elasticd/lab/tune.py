"""Searches options of a policy over a recording for the least cost within limits.

The search is SciPy's differential evolution: it needs no gradient, takes whole numbers, plays a generation at once, and
repeats exactly with its seed. Bayesian optimisers such as Optuna need fewer runs, but a run takes seconds here, and
SciPy is there for forecasts already. Knows points and what they cost; knows nothing of what happens in a run.
"""

import contextlib
import importlib
import importlib.util
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from math import inf, isfinite, nan
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from elasticd.base.errors import ConfigError, UnavailableError
from elasticd.config.files import read_toml
from elasticd.config.policies import decode_policy
from elasticd.lab.figures import Figures, figures
from elasticd.lab.kept_lines import KeptLines
from elasticd.lab.scenario import Candidate, Scenario, play_all
from elasticd.registry import Registry

Point = tuple[float, ...]
"""A value of each option, in the order of the search."""


Play = Callable[[Sequence["Point"]], list["Trial"]]
"""Plays several points at once."""

_RANGE = re.compile(r"([\w.\[\]]+)=(-?\d+(?:\.\d+)?):(-?\d+(?:\.\d+)?)")
_STEP = re.compile(r"(\w+)|\[(\d+)\]")

IMPOSSIBLE = Figures(
    replica_hours=1e9, most=0, demand=0.0, unserved=1.0, short=0.0, lag=0.0, changes=0, flaps=0, evictions=0
)
"""Of options that the policy refuses together."""

AS_IT_IS, TUNED = "as it is", "tuned"

SEED = 1
GENERATION = 5
"""Points of a generation for each option."""


class SearchRange(NamedTuple):
    """An option of a policy by its path in the file, and between which values it is searched: whole numbers, if both
    are."""

    path: str
    least: float
    most: float
    whole: bool


class Limits(Struct, frozen=True):
    """What a policy must keep: the share of the demand that is not served, and changes of the count in a day."""

    unserved: float = 0.001
    changes: float = inf


class Trial(Struct, frozen=True):
    """A point that was played, and what it came to."""

    point: Point
    figures: Figures


def search_range(text: str) -> SearchRange:
    """What `--search PATH=LEAST:MOST` says. Raises ConfigError."""
    match = _RANGE.fullmatch(text)
    if match is None:
        raise ConfigError("", "--search", f'must be as strategy[0].target=40:90, is "{text}"')
    path, least, most = match[1], float(match[2]), float(match[3])
    if least >= most:
        raise ConfigError("", "--search", f"must go from the least to the most, is {text}")
    return SearchRange(path, least, most, "." not in match[2] + match[3])


def search_ranges(texts: Sequence[str]) -> list[SearchRange]:
    """What all of them say. Raises ConfigError, also for an option that is given twice."""
    ranges: dict[str, SearchRange] = {}
    for each in map(search_range, texts):
        if each.path in ranges:
            raise ConfigError("", "--search", f"must name an option once, names {each.path} again")
        ranges[each.path] = each
    return [*ranges.values()]


def with_options(tables: Mapping[str, Any], ranges: Sequence[SearchRange], point: Sequence[float]) -> dict[str, Any]:
    """The tables of a policy file with these values. Raises ConfigError for a path that there is not."""
    changed = deepcopy(dict(tables))
    for wanted, value in zip(ranges, point, strict=True):
        place: Any = changed
        *steps, last = [match[1] or int(match[2]) for match in _STEP.finditer(wanted.path)]
        try:
            for step in steps:
                place = place[step]
            place[last] = int(value) if wanted.whole else value
        except (KeyError, IndexError, TypeError):
            raise ConfigError("", "--search", f"must name a table of the policy, is {wanted.path}") from None
    return changed


class Player:
    """Plays a policy with other options on a part of a recording."""

    def __init__(
        self, policy: Path, registry: Registry, scenario: Scenario, ranges: Sequence[SearchRange], jobs: int | None
    ) -> None:
        """Raises ConfigError for a range that names no option, or nothing that the policy accepts."""
        self._path, self._registry, self._scenario, self._jobs = policy, registry, scenario, jobs
        self._tables, self._ranges = read_toml(policy), ranges
        try:
            self.candidate(tuple(wanted.least for wanted in ranges))
        except ConfigError as error:
            with contextlib.suppress(ConfigError):  # options may exclude each other at one end
                self.candidate(tuple(wanted.most for wanted in ranges))
                return
            raise error.each[0] from None

    def candidate(self, point: Point) -> Candidate:
        """The policy with these options. Raises ConfigError where it refuses them."""
        tables = with_options(self._tables, self._ranges, point)
        return Candidate(str(point), (decode_policy(self._path, tables, self._registry),))

    def play(self, points: Sequence[Point]) -> list[Trial]:
        """What came of each."""
        possible: dict[Point, Candidate] = {}
        for point in points:
            with contextlib.suppress(ConfigError):
                possible[point] = self.candidate(point)
        scenario = replace(self._scenario, candidates=tuple(possible.values()))
        runs = play_all(scenario, lambda name, seconds: None, self._jobs) if possible else {}
        return [Trial(point, figures(runs[str(point)][0]) if point in possible else IMPOSSIBLE) for point in points]

    def compared(self, point: Point, since: float) -> tuple[Figures, dict[str, Figures]]:
        """The policy as it is up to so many seconds after the start; and as it is and with these options from then
        on."""
        as_it_is = Candidate(AS_IT_IS, (decode_policy(self._path, dict(self._tables), self._registry),))
        tuned = Candidate(TUNED, self.candidate(point).policies)
        runs = play_all(replace(self._scenario, candidates=(as_it_is, tuned)), lambda name, seconds: None, self._jobs)
        (unchanged,) = runs[AS_IT_IS]
        before = figures(unchanged.until(unchanged.begun + since))
        return before, {name: figures(run.since(run.begun + since)) for name, (run,) in runs.items()}


class Tuned(Struct, frozen=True):
    """What a search came to: all trials over so many days, the best of them, what the policy came to as it is over the
    same days, and how it did afterwards, as it is and with those options."""

    ranges: tuple[SearchRange, ...]
    trials: tuple[Trial, ...]
    best: Trial
    limits: Limits
    days: float
    before: Figures
    judged: dict[str, Figures]


def violation(came: Figures, limits: Limits, days: float) -> float:
    """By how much the limits are exceeded, as a share of them; 0: they are kept."""
    over = [(came.unserved, limits.unserved), (came.changes / days, limits.changes)]
    return sum(max(0.0, value - limit) / max(limit, 1e-6) for value, limit in over if isfinite(limit))


def cost(trial: Trial, limits: Limits, days: float) -> float:
    """Replica-hours, if the limits are kept; else more than any replica-hours, and the more the further."""
    over = violation(trial.figures, limits, days)
    return trial.figures.replica_hours if over == 0 else 1e12 * (1 + over)


def trade_off(trials: Sequence[Trial]) -> list[Trial]:
    """The trials that no other beats in both cost and unserved demand, the cheapest first."""
    front: list[Trial] = []
    for trial in sorted(trials, key=lambda trial: (trial.figures.replica_hours, trial.figures.unserved, trial.point)):
        if not front or trial.figures.unserved < front[-1].figures.unserved:
            front.append(trial)
    return front


def search(
    ranges: Sequence[SearchRange],
    price: Callable[[Trial], float],
    play: Callable[[Sequence[Point]], Sequence[Trial]],
    generations: int,
) -> list[Trial]:
    """All points that were played, in order. `play` plays several at once; `price` is to be the least."""
    optimize = _optimize()
    played: dict[Point, Trial] = {}

    def prices(columns: Any) -> list[float]:
        points = [_point(ranges, column) for column in columns.T]
        played.update({trial.point: trial for trial in play(list(dict.fromkeys(points)))})
        return [price(played[point]) for point in points]

    optimize.differential_evolution(
        prices,
        [(wanted.least, wanted.most) for wanted in ranges],
        integrality=[wanted.whole for wanted in ranges],
        popsize=GENERATION,
        maxiter=generations,
        polish=False,
        vectorized=True,
        updating="deferred",
        rng=SEED,
    )
    return [*played.values()]


def _point(ranges: Sequence[SearchRange], column: Sequence[float]) -> Point:
    """Values as a person would write them: three digits are enough."""
    values = zip(ranges, column, strict=True)
    return tuple(float(round(value)) if wanted.whole else float(f"{value:.3g}") for wanted, value in values)


def _optimize() -> Any:
    if importlib.util.find_spec("scipy") is None:
        raise UnavailableError("tune: needs SciPy, which is not installed: pip install elasticd[forecast]")
    return importlib.import_module("scipy.optimize")


def _trial(line: bytes) -> Trial:
    """A trial of a study. JSON has no NaN: a figure that is not known is null there. Raises DecodeError."""
    found = msgspec.json.decode(line, type=dict[str, Any])
    if isinstance(came := found.get("figures"), dict):
        found["figures"] = {name: nan if value is None else value for name, value in came.items()}
    return msgspec.convert(found, Trial)


class Study:
    """The trials of a search on disk, a line each, so that one that was interrupted goes on where it was."""

    def __init__(self, path: Path | None, about: Mapping[str, Any]) -> None:
        """`about`: what the trials depend on. Raises ConfigError for a file about something else."""
        self._path = path
        self._kept = KeptLines(path)
        lines, head = self._kept.lines, msgspec.json.encode({"about": about})
        if lines and lines[0] != head:
            raise ConfigError(str(path), "line 1", "must be of the same search, is of another one")
        self.trials: dict[Point, Trial] = {trial.point: trial for trial in self._trials(lines[1:])}
        if not lines:
            self._kept.add([head])

    def _trials(self, lines: Sequence[bytes]) -> Iterator[Trial]:
        for number, line in enumerate(lines, 2):
            try:
                yield _trial(line)
            except msgspec.DecodeError as error:
                raise ConfigError(str(self._path), f"line {number}", f"must be a trial, is not: {error}") from None

    def play(self, play: Play, points: Sequence[Point]) -> list[Trial]:
        """What came of each point; those that were not played before are played now, and kept."""
        fresh = [point for point in points if point not in self.trials]
        if fresh:
            self._keep(play(fresh))
        return [self.trials[point] for point in points]

    def _keep(self, trials: Sequence[Trial]) -> None:
        self.trials.update({trial.point: trial for trial in trials})
        self._kept.add(map(msgspec.json.encode, trials))
