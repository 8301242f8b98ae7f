"""Sketches what runs did over time in a terminal: a line of block characters for each series.

Knows charts and the terminal; knows nothing of how runs are played. For a real picture there is --plot.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import isnan, nan

from rich.console import RenderableType
from rich.text import Text

from elasticd.base.text import one_line
from elasticd.lab.charts import Line
from elasticd.lab.over_time import run_charts
from elasticd.lab.runs import Runs
from elasticd.ui.terminal import make_table

WIDTH = 40
"""Characters of a line: with names and values it fits into 80."""

BLOCKS = " ▁▂▃▄▅▆▇█"


def sketch(runs: Runs) -> Iterator[RenderableType]:
    """Demand and the replicas of each candidate, with the first seed: in each character the most of its time. Replicas
    are all drawn to one scale. Nothing without workloads."""
    if not next(iter(runs.values()))[0].workloads:
        return
    demand, replicas, _ = run_charts(runs)
    most = max((value for line in replicas.lines for value in line.y), default=0.0)
    yield Text()
    load = [Text("demand"), *_row(demand.lines[0], _most(demand.lines[0]), " cores")]
    rows = [[Text(one_line(line.name)), *_row(line, most)] for line in replicas.lines]
    yield make_table("replicas", "over time", "least to most", rows=[load, *rows])


def _most(line: Line) -> float:
    return max((value for value in line.y if not isnan(value)), default=0.0)


def _row(line: Line, most: float, unit: str = "") -> list[Text]:
    """A line of blocks, and between which values it is."""
    known = [value for value in line.y if not isnan(value)]
    spread = f"{min(known):.3g} to {max(known):.3g}{unit}" if known else "-"
    return [Text("".join(_block(value, most) for value in _columns(line))), Text(spread)]


def _columns(line: Line) -> list[float]:
    """The highest value in each of equal parts of the time; NaN where none is known."""
    times = [float(time) for time in line.x]
    edges = [times[0] + (times[-1] - times[0]) * place / WIDTH for place in range(WIDTH + 1)]
    return [_highest(times, line.y, since, until) for since, until in pairwise(edges)]


def _highest(times: Sequence[float], values: Sequence[float], since: float, until: float) -> float:
    """The highest value that holds between two times: from the one that holds at the first on."""
    first = max(0, bisect_right(times, since) - 1)
    held = [value for time, value in zip(times[first:], values[first:], strict=True) if time < until]
    return max((value for value in held if not isnan(value)), default=nan)


def _block(value: float, most: float) -> str:
    """Higher for more; what is more than nothing is seen."""
    if isnan(value):
        return "?"
    height = round(value / most * (len(BLOCKS) - 1)) if most else 0
    return BLOCKS[max(height, 1) if value > 0 else 0]
