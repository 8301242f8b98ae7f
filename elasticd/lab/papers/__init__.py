"""The papers that elasticd implements, measured again: what each claims, and what comes out here.

Records, without code that measures or prints: `elasticd reproduce` prints them, and charts are drawn from them.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Literal

from msgspec import Struct

from elasticd.lab.charts import Axis, Chart, Line
from elasticd.lab.papers.work import Work

__all__ = [
    "Axis", "Chart", "Line",
    "Claim", "Main", "Reproduce", "Reproduction", "Rows", "Verdict", "Work", "judged", "paragraphs", "summed_up",
]  # fmt: skip

Verdict = Literal["confirmed", "in part", "not confirmed", "cannot be compared", "no claim"]
"""What a measurement says of a claim. `no claim`: the paper says nothing of it; it stands beside for comparison."""


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


class Main(Struct, frozen=True):
    """A row of the table of all papers: a claim of a paper in a few words, and the claims that it consists of."""

    what: str
    claims: tuple[Claim, ...]

    @property
    def verdict(self) -> Verdict:
        """That of all its claims, if it is the same."""
        verdicts = {claim.verdict for claim in self.claims}
        return verdicts.pop() if len(verdicts) == 1 else "in part"


Rows = Mapping[str, tuple[str, str]]
"""Of the table of all papers, by what stands there: the part of claims, or in what several begin, and in what `what`
begins."""


def summed_up(claims: Sequence[Claim], rows: Rows) -> tuple[Main, ...]:
    """The rows of a paper. What the paper says nothing of is left out."""
    claimed = [claim for claim in claims if claim.verdict != "no claim"]
    parts = {claim.part for claim in claimed}
    return tuple(Main(title, _row(claimed, parts, *row)) for title, row in rows.items())


def _row(claims: Sequence[Claim], parts: Container[str], part: str, what: str) -> tuple[Claim, ...]:
    chosen = [claim for claim in claims if claim.part == part or (part not in parts and claim.part.startswith(part))]
    return tuple(claim for claim in chosen if claim.what.startswith(what))


class Reproduction(Struct, frozen=True):
    """What came out for one paper. `setup` says what was run, `findings` what follows from the claims in a few
    sentences, `unknown` what cannot be known from the paper, and what is assumed instead. `main` are its rows in the
    table of all papers. `scenario` is the command that plays it as a scenario which a user can copy."""

    name: str
    title: str
    source: str
    setup: tuple[str, ...]
    claims: tuple[Claim, ...]
    findings: tuple[str, ...]
    unknown: tuple[str, ...]
    charts: tuple[Chart, ...] = ()
    scenario: str = ""
    main: tuple[Main, ...] = ()


def judged(holds: Iterable[bool]) -> Verdict:
    """The verdict on a claim that holds, or does not, in each of several trials."""
    trials = list(holds)
    return "confirmed" if all(trials) else "in part" if any(trials) else "not confirmed"


def paragraphs(text: str) -> tuple[str, ...]:
    """The paragraphs of a text, each on one line."""
    return tuple(" ".join(part.split()) for part in text.strip().split("\n\n"))


Reproduce = Callable[[Sequence[int], Work], Reproduction]
"""Measures a paper with each of these seeds."""
