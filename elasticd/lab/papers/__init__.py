"""The papers that elasticd implements, measured again: what each claims, and what comes out here.

Records, without code that measures or prints: `elasticd reproduce` prints them, and charts are drawn from them.
"""

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Literal

from msgspec import Struct

from elasticd.lab.charts import Axis, Chart, Line

__all__ = [
    "Axis", "Chart", "Line",
    "Claim", "Progress", "Reproduce", "Reproduction", "Verdict", "judged", "paragraphs",
]  # fmt: skip

Verdict = Literal["confirmed", "in part", "not confirmed", "cannot be compared", "no claim"]
"""What a measurement says of a claim. `no claim`: the paper says nothing of it; it stands beside for comparison."""

Progress = Callable[[int, int], None]
"""Hears how many of how many parts of the work are done."""


class Claim(Struct, frozen=True):
    """A statement of a paper and what was measured, one value for each seed, or one alone where nothing is random.

    `part` groups claims into tables. `paper` is what the paper states, empty where it states nothing. `unit` is written
    behind a value, and `form` is its format, as for the built-in `format`.
    """

    part: str
    what: str
    paper: str
    measured: tuple[float, ...]
    verdict: Verdict
    unit: str = ""
    form: str = ".4g"
    note: str = ""

    @property
    def mean(self) -> float:
        return fmean(self.measured)

    @property
    def spread(self) -> tuple[float, float]:
        """The least and the greatest value over the seeds."""
        return min(self.measured), max(self.measured)


class Reproduction(Struct, frozen=True):
    """What came out for one paper. `setup` says what was run, `findings` what follows from the claims in a few
    sentences, `unknown` what cannot be known from the paper, and what is assumed instead. `scenario` is the command
    that plays it as a scenario which a user can copy; empty: it is none."""

    name: str
    title: str
    source: str
    setup: tuple[str, ...]
    claims: tuple[Claim, ...]
    findings: tuple[str, ...]
    unknown: tuple[str, ...]
    charts: tuple[Chart, ...] = ()
    scenario: str = ""


def judged(holds: Iterable[bool]) -> Verdict:
    """The verdict on a claim that holds, or does not, in each of several trials."""
    trials = list(holds)
    return "confirmed" if all(trials) else "in part" if any(trials) else "not confirmed"


def paragraphs(text: str) -> tuple[str, ...]:
    """The paragraphs of a text, each on one line."""
    return tuple(" ".join(part.split()) for part in text.strip().split("\n\n"))


Reproduce = Callable[[Sequence[int], Progress], Reproduction]
"""Measures a paper with each of these seeds."""
