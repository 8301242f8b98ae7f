"""The data of a picture: axes with units, and named series.

Records alone. Knows nothing of where the data come from, nor of how they are drawn.
"""

from typing import Literal

from msgspec import Struct


class Axis(Struct, frozen=True):
    """What an axis shows, and in what unit; empty: a plain number or a name."""

    title: str
    unit: str = ""


class Line(Struct, frozen=True):
    """A series of a chart; a NaN leaves a gap. `low` and `high` are the range of each y over the seeds; empty: there is
    none. `look`: a series to compare with is grey and has no colour of its own; an area is filled down to zero."""

    name: str
    x: tuple[float, ...] | tuple[str, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    look: Literal["line", "reference", "area"] = "line"


class Chart(Struct, frozen=True):
    """The data of a picture. `steps`: a y holds until the next x; `bars`: x are names, side by side for each series;
    `rows`: a row for each series, one under another, whose colour is y, from 0 to 100, and holds until the next x.
    Charts of one `picture` are drawn one above the other; empty: this one is not drawn unasked."""

    name: str
    title: str
    kind: Literal["lines", "steps", "bars", "rows"]
    x: Axis
    y: Axis
    lines: tuple[Line, ...]
    log: bool = False
    picture: str = ""
