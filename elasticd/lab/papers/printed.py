"""What `elasticd reproduce` prints of a paper: as tables in a terminal, or as Markdown for docs/papers.md.

Knows records and the terminal; knows nothing of how they were measured.
"""

from collections.abc import Iterator, Sequence
from math import isnan
from textwrap import fill

from rich.console import RenderableType
from rich.progress import TaskID
from rich.text import Text

from elasticd.base.text import counted
from elasticd.lab.papers import Claim, Reproduce, Reproduction
from elasticd.lab.printed import progress_bar
from elasticd.ui.terminal import make_table

COLUMNS = ("the paper", "measured", "spread", "verdict", "why")
WIDTH = 140
"""Characters of a line of Markdown."""

STYLES = {"confirmed": "green", "in part": "yellow", "not confirmed": "red"}


def measured(papers: Sequence[tuple[str, Reproduce]], seeds: Sequence[int]) -> list[Reproduction]:
    """Measure each paper with each seed, with a bar for each."""
    with progress_bar() as progress:

        def measure(name: str, reproduce: Reproduce) -> Reproduction:
            bar = progress.add_task(name, total=None)

            def heard(done: int, total: int, bar: TaskID = bar) -> None:
                progress.update(bar, completed=done, total=total)

            return reproduce(seeds, heard)

        return [measure(*paper) for paper in papers]


def shown(paper: Reproduction, seeds: int) -> Iterator[RenderableType]:
    """A table for each part of the claims, and before and after it what was run and what is not known."""
    yield Text(f"{paper.name}: {paper.title}", style="bold")
    yield Text(f"{paper.source}; {counted(seeds, 'seed')}", style="dim")
    yield from map(Text, paper.setup)
    for part, claims in _parts(paper):
        yield Text()
        yield make_table(part, *COLUMNS, rows=map(_row, claims))
    for title, sentences in (("what follows", paper.findings), ("what cannot be known from the paper", paper.unknown)):
        if sentences:
            yield Text(f"\n{title}", style="bold")
            yield from (Text(f"- {sentence}") for sentence in sentences)
    if paper.scenario:
        yield Text(f"\nplay and change it: {paper.scenario}")


def markdown(paper: Reproduction, seeds: int) -> str:
    """The same as Markdown: a section that begins with a heading of the second level."""
    blocks = [f"## `{paper.name}`: {paper.title}", f"{paper.source}; {counted(seeds, 'seed')}."]
    blocks += map(_wrapped, paper.setup)
    for part, claims in _parts(paper):
        rows = [(claim.what, *_cells(claim), claim.verdict, claim.note) for claim in claims]
        lines = [f"| {' | '.join(map(_escape, row))} |" for row in ((part, *COLUMNS), *rows)]
        blocks.append("\n".join([lines[0], "|---" * (len(COLUMNS) + 1) + "|", *lines[1:]]))
    for title, sentences in (
        ("What follows:", paper.findings),
        ("What cannot be known from the paper:", paper.unknown),
    ):
        if sentences:
            blocks += [title, "\n".join(_wrapped(f"- {sentence}") for sentence in sentences)]
    if paper.scenario:
        blocks.append(f"Play and change it: `{paper.scenario}`")
    return "\n\n".join(blocks) + "\n"


def _wrapped(text: str) -> str:
    return fill(text, WIDTH, subsequent_indent="  " if text.startswith("- ") else "", break_on_hyphens=False)


def _parts(paper: Reproduction) -> Iterator[tuple[str, list[Claim]]]:
    """The claims of each part, parts in the order in which they first come."""
    for part in dict.fromkeys(claim.part for claim in paper.claims):
        yield part, [claim for claim in paper.claims if claim.part == part]


def _cells(claim: Claim) -> tuple[str, str, str]:
    """What the paper states, the mean over the seeds, and from where to where they are."""
    low, high = claim.spread
    if len(claim.measured) == 1:
        spread = "nothing is random"
    else:
        least, most = format(low, claim.form), _value(claim, high)
        spread = f"{least} to {most}" if least != format(high, claim.form) else "none"
    return claim.paper or "-", _value(claim, claim.mean), spread


def _value(claim: Claim, value: float) -> str:
    if isnan(value):
        return "-"
    return f"{value:{claim.form}}{' ' if claim.unit else ''}{claim.unit}"


def _row(claim: Claim) -> list[str | Text]:
    return [claim.what, *_cells(claim), Text(claim.verdict, style=STYLES.get(claim.verdict, "")), claim.note]


def _escape(cell: str) -> str:
    return cell.replace("|", "\\|")
