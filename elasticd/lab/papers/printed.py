"""What `elasticd reproduce` prints of a paper: as tables in a terminal, or as Markdown for docs/papers.md.

Knows records and the terminal; knows nothing of how they were measured.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import isnan
from textwrap import fill

from rich.console import RenderableType
from rich.progress import TaskID
from rich.text import Text

from elasticd.base.text import counted
from elasticd.lab.charts import Chart
from elasticd.lab.papers import Claim, Main, Reproduce, Reproduction, Work
from elasticd.lab.papers.pictures import pictures
from elasticd.lab.papers.work import Kept
from elasticd.lab.printed import progress_bar
from elasticd.ui.terminal import make_table

COLUMNS = ("the paper", "measured", "spread", "verdict", "why")
WIDTH = 140
"""Characters of a line of Markdown."""

UNRANDOM = "nothing is random"

STYLES = {"confirmed": "green", "in part": "yellow", "not confirmed": "red"}


def measured(
    papers: Sequence[tuple[str, Reproduce]], seeds: Sequence[int], kept: Kept | None = None, *, times: bool = False
) -> list[Reproduction]:
    """Measure each paper with each seed, with a bar for each. What was kept is not measured again."""
    with progress_bar() as progress:

        def measure(name: str, reproduce: Reproduce) -> Reproduction:
            bar = progress.add_task(name, total=None)

            def heard(done: int, total: int, bar: TaskID = bar) -> None:
                progress.update(bar, completed=done, total=total)

            return reproduce(seeds, Work(heard, name, kept, times=times))

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
        blocks.append("\n".join(_markdown_table((part, *COLUMNS), rows)))
    for title, sentences in (
        ("What follows:", paper.findings),
        ("What cannot be known from the paper:", paper.unknown),
    ):
        if sentences:
            blocks += [title, "\n".join(_wrapped(f"- {sentence}") for sentence in sentences)]
    blocks += [f"![{_title(charts)}](pictures/papers/{name}.svg)" for name, charts in pictures(paper).items()]
    if paper.scenario:
        blocks.append(f"Play and change it: `{paper.scenario}`")
    return "\n\n".join(blocks) + "\n"


SUMMARY = ("claim", "the paper", "measured", "verdict")


def all_papers(papers: Sequence[Reproduction]) -> RenderableType:
    """One table: a row for each of the papers' main claims."""
    rows: Iterator[list[str | Text]] = (
        [name, what, paper, found, Text(verdict, style=STYLES.get(verdict, ""))]
        for name, what, paper, found, verdict in _main_rows(papers)
    )
    return make_table("paper", *SUMMARY, rows=rows)


def all_papers_markdown(papers: Sequence[Reproduction]) -> str:
    """The same as Markdown."""
    return "\n".join(_markdown_table(("paper", *SUMMARY), _main_rows(papers, "`"))) + "\n"


def _main_rows(papers: Sequence[Reproduction], quote: str = "") -> Iterator[tuple[str, str, str, str, str]]:
    for paper in papers:
        for main in paper.main:
            stated, found = _main_cells(main)
            yield f"{quote}{paper.name}{quote}", main.what, stated, found, main.verdict


def _main_cells(main: Main) -> tuple[str, str]:
    """What the paper states, and what was measured: of several claims, how many are confirmed."""
    if len(main.claims) == 1:
        paper, mean, spread = _cells(main.claims[0])
        return paper, mean if spread in (UNRANDOM, "none") else f"{mean} ({spread})"
    held = sum(claim.verdict == "confirmed" for claim in main.claims)
    return f"{len(main.claims)} rows", f"{held} of {len(main.claims)} confirmed"


def _markdown_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(map(_escape, row))} |" for row in (titles, *rows)]
    return [lines[0], "|---" * len(titles) + "|", *lines[1:]]


def _title(charts: Sequence[Chart]) -> str:
    """What a picture shows, for who cannot see it."""
    return "; ".join(chart.title for chart in charts).replace("[", "(").replace("]", ")")


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
        spread = UNRANDOM
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
