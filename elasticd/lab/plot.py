"""Draws charts with matplotlib, one above the other, as PNG or SVG: the same charts give the same bytes.

Knows how a picture looks; knows nothing of what it shows. A colour of a series is one of Okabe and Ito's eight, which
people with a colour vision deficiency can tell apart (Color Universal Design, 2008). A PNG is for a light page; an SVG
has a dark theme too.
"""

import importlib
import re
from collections.abc import Mapping, Sequence
from html import escape
from io import BytesIO
from itertools import cycle, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from elasticd.base.errors import ConfigError
from elasticd.lab.charts import Axis, Chart, Line
from elasticd.lab.series import check_new

ENDINGS = (".png", ".svg")
WIDTH, HEIGHT, HEAD = 9.0, 2.1, 0.9
"""Inches: of a picture, of each of its charts, and of the legend and the axis below them."""

NARROW = 4.4
"""Inches: the width of a picture for a phone, so that its text can be read there."""

ROW, ROOM = 0.2, 0.75
"""Inches: of a row, and of what is above and below the rows of a chart; at most as high as two other charts."""

MOST_NAMES = 24
"""More rows than so many have numbers instead of names."""

SHADES = "YlGnBu"
"""Of rows: from light to dark, also in grey, and told apart with a colour vision deficiency (ColorBrewer, 2003)."""

MOST_COLUMNS, CHARACTERS, BESIDE = 6, 128, 9
"""Of the legend: columns and characters of a line at most, and as how many characters a mark counts."""

INK, GREY, GRID, PAPER = "#1f2328", "#6e7781", "#d8dee4", "#ffffff"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Of series, in their order; then the same ones dashed, and dotted."""
DARK: Mapping[str, str] = {
    INK: "#e6edf3",
    GREY: "#9198a1",
    GRID: "#30363d",
    PAPER: "#0d1117",
    **dict(zip(COLOURS, ("#4aa8ff", "#ff8c42", "#2fd09b", "#e79ac4", "#f2c14e", "#a5d8ff"), strict=True)),
}
"""What each colour is in the dark theme."""

_SETTINGS: Mapping[str, object] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "elasticd",
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "sans-serif"],
    "font.size": 9.0,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": GREY,
    "axes.facecolor": PAPER,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.prop_cycle": f"cycler('color', ['{INK}'])",
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.formatter.useoffset": False,
    "figure.facecolor": PAPER,
    "grid.color": GRID,
    "hatch.color": PAPER,
    "grid.linewidth": 0.6,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "legend.labelcolor": INK,
}


def check_plot(out: Path, *, force: bool, option: str) -> None:
    """Refuse a picture that could not be written, before anything is played. Raises ConfigError."""
    if out.suffix not in ENDINGS:
        raise ConfigError("", option, f'must end in {" or ".join(ENDINGS)}, is "{out}"')
    load_matplotlib(option)
    check_new(out, force=force, option=option)


def draw(charts: Sequence[Chart], form: str, width: float = WIDTH) -> bytes:
    """Draw charts one above the other. `form`: png or svg; `width`: in inches. Charts of the same x axis share it, and
    a series has one colour in all of them. Raises ConfigError where matplotlib is not installed."""
    plt = load_matplotlib("matplotlib")
    with plt.base.rc_context(_SETTINGS):
        heights = [_height(chart) for chart in charts]
        figure = plt.figure.Figure(figsize=(width, sum(heights) + HEAD), layout="constrained")
        shared = len({chart.x for chart in charts}) == 1 and charts[0].kind != "bars"
        all_axes = figure.subplots(len(charts), 1, sharex=shared, squeeze=False, height_ratios=heights)[:, 0]
        styles = _styles(charts)
        for chart, axes in zip(charts, all_axes, strict=True):
            _draw_chart(plt, axes, chart, styles, ticks=round(12 * width / WIDTH))
        for axes in all_axes[:-1] if shared else ():
            axes.set_xlabel("")
        _add_legend(figure, all_axes, round(CHARACTERS * width / WIDTH))
        _add_scale(figure, charts, all_axes)
        return _saved(plt, figure, form)


def inline(svg: bytes, prefix: str, label: str) -> str:
    """An SVG as an element of a page: without the heads of a file, with ids that begin with `prefix`, and a label for
    who cannot see it."""
    text = svg.decode()
    text = text[text.index("<svg") :]
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{prefix}-", text)
    width = re.sub(r' (width|height)="[\d.]+pt"', "", text, count=2)
    return width.replace("<svg", f'<svg role="img" aria-label="{escape(label)}"', 1)


def dark_theme() -> str:
    """The rules by which pictures are dark where the reader prefers that: what knows no such rules shows them light."""
    rules = "".join(
        f'svg [style*="{part}: {light}"]{{{part}:{dark}!important}}'
        for light, dark in DARK.items()
        for part in ("fill", "stroke")
    )
    return f"@media screen and (prefers-color-scheme:dark){{{rules}}}"


def load_matplotlib(option: str) -> Any:
    """The parts that are used of matplotlib, and of Pillow, which it brings. Raises ConfigError where it is not
    installed."""
    try:
        parts = {name: importlib.import_module(f"matplotlib.{name}") for name in ("figure", "ticker")}
        base, image = (importlib.import_module(name) for name in ("matplotlib", "PIL.Image"))
        return SimpleNamespace(base=base, image=image, **parts)
    except ImportError:
        problem = "needs matplotlib, which is not installed: pip install elasticd[plot]"
        raise ConfigError("", option, problem) from None


def _height(chart: Chart) -> float:
    return min(2 * HEIGHT, ROW * len(chart.lines) + ROOM) if chart.kind == "rows" else HEIGHT


def _styles(charts: Sequence[Chart]) -> dict[str, dict[str, object]]:
    """The colour and the dashes of each series, by its name."""
    colours = [line for chart in charts if chart.kind != "rows" for line in chart.lines]
    names = dict.fromkeys(line.name for line in colours if line.look == "line")
    looks: list[dict[str, object]] = [
        {"color": colour, "linestyle": dashes} for dashes in ("-", "--", ":") for colour in COLOURS
    ]
    greys: list[dict[str, object]] = [{"color": GREY, "linestyle": dashes} for dashes in ("--", ":", "-.")]
    others = dict.fromkeys(line.name for line in colours if line.look == "reference")
    return {**dict(zip(names, cycle(looks), strict=False)), **dict(zip(others, cycle(greys), strict=False))}


def _draw_rows(plt: Any, axes: Any, chart: Chart) -> None:
    """A picture with a row of pixels for each series: they are equally long in time."""
    times = chart.lines[0].x
    extent = (times[0], times[-1], len(chart.lines) - 0.5, -0.5)
    values = [line.y[:-1] for line in chart.lines]
    axes.imshow(values, SHADES, vmin=0, vmax=100, aspect="auto", interpolation="nearest", extent=extent)
    axes.set(title=_literal(chart.title), xlabel=_axis_title(chart.x))
    if len(chart.lines) <= MOST_NAMES:
        axes.set_yticks(range(len(chart.lines)), [_literal(line.name) for line in chart.lines])
    else:
        axes.set_ylabel("number")
        axes.yaxis.set_major_locator(plt.ticker.MaxNLocator(integer=True))


def _add_scale(figure: Any, charts: Sequence[Chart], all_axes: Sequence[Any]) -> None:
    """What the colours of rows mean, once, beside all charts, which so stay of one width."""
    for chart, axes in zip(charts, all_axes, strict=True):
        if chart.kind == "rows":
            bar = figure.colorbar(axes.images[0], ax=list(all_axes), label=_axis_title(chart.y), aspect=40, pad=0.02)
            bar.outline.set_visible(False)
            return


def _draw_chart(plt: Any, axes: Any, chart: Chart, styles: Mapping[str, dict[str, object]], ticks: int) -> None:
    if chart.kind == "rows":
        _draw_rows(plt, axes, chart)
        return
    axes.grid(visible=True, axis="y" if chart.kind == "bars" else "both")
    axes.set(title=_literal(chart.title), xlabel=_axis_title(chart.x), ylabel=_axis_title(chart.y))
    if chart.log:
        axes.set_yscale("log")
    if chart.kind == "bars":
        _draw_bars(axes, chart, styles)
    else:
        for line in chart.lines:
            _draw_line(axes, line, chart.kind, styles)
        axes.margins(x=0.01)
        if chart.x.unit in _MULTIPLES:
            axes.xaxis.set_major_locator(plt.ticker.MaxNLocator(nbins=ticks, steps=_MULTIPLES[chart.x.unit]))
    if not chart.log and all(not value < 0 for line in chart.lines for value in (*line.y, *line.low)):
        nothing = not any(value > 0 for line in chart.lines for value in (*line.y, *line.high))
        axes.set_ylim(bottom=0, top=1 if nothing else None)
    if not chart.log and all(float(value).is_integer() for line in chart.lines for value in line.y):
        axes.yaxis.set_major_locator(plt.ticker.MaxNLocator(integer=True))


_MULTIPLES = {"h": [1, 2, 3, 6, 10]}
"""Between ticks of an axis, by its unit: these numbers and their multiples by 10."""


def _draw_line(axes: Any, line: Line, kind: str, styles: Mapping[str, dict[str, object]]) -> None:
    step = "post" if kind == "steps" else None
    if line.look == "area":
        axes.fill_between(line.x, line.y, step=step, color=GREY, alpha=0.35, linewidth=0)
        return
    style = styles[line.name]
    if line.low:
        axes.fill_between(line.x, line.low, line.high, step=step, color=style["color"], alpha=0.2, linewidth=0)
    where = {"drawstyle": "steps-post"} if step else {}
    below = {"zorder": 1.9} if line.look == "reference" else {}
    axes.plot(line.x, line.y, linewidth=1.5, label=_literal(line.name), **where, **below, **style)


def _draw_bars(axes: Any, chart: Chart, styles: Mapping[str, dict[str, object]]) -> None:
    names = list(dict.fromkeys(str(name) for line in chart.lines for name in line.x))
    width = 0.8 / len(chart.lines)
    for place, line in enumerate(chart.lines):
        middles = [names.index(str(name)) + width * (place - (len(chart.lines) - 1) / 2) for name in line.x]
        style = styles.get(line.name, {"color": GREY, "linestyle": "-"})
        ranges = zip(line.y, line.low, line.high, strict=True) if line.low else ()
        errors = [(max(0.0, y - low), max(0.0, high - y)) for y, low, high in ranges]
        error_bars = {"yerr": list(zip(*errors, strict=True)), "ecolor": INK, "capsize": 2} if errors else {}
        colour, hatch = style["color"], _HATCHES.get(str(style["linestyle"]))
        axes.bar(middles, line.y, 0.92 * width, color=colour, hatch=hatch, label=_literal(line.name), **error_bars)
    axes.set_xticks(range(len(names)), [_literal(name) for name in names])


_HATCHES = {"--": "//", ":": r"\\", "-.": "xx"}
"""Of bars, by the dashes that a line of the same series has."""


def _add_legend(figure: Any, all_axes: Sequence[Any], characters: int) -> None:
    """One legend above all charts, with each series once; none where there is nothing to tell apart."""
    handles: dict[str, Any] = {}
    for axes in all_axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if len(handles) > 1:
        columns = _columns([len(name) for name in handles], characters)
        figure.legend(handles.values(), handles.keys(), loc="outside upper left", ncols=columns)


def _columns(lengths: Sequence[int], characters: int) -> int:
    """Into how many columns names of such lengths fit, in a line of so many characters. They fill one after the other,
    the first ones by one name more where they are not equally long."""
    for columns in range(min(MOST_COLUMNS, len(lengths)), 1, -1):
        each, longer = divmod(len(lengths), columns)
        ends = [column * each + min(column, longer) for column in range(columns + 1)]
        widest = [max(lengths[first:last]) for first, last in pairwise(ends)]
        if sum(widest) + BESIDE * columns <= characters:
            return columns
    return 1


def _axis_title(axis: Axis) -> str:
    return _literal(f"{axis.title} ({axis.unit})" if axis.unit else axis.title)


def _literal(text: str) -> str:
    """A text that matplotlib takes as it is: no formula, and no series without a name in the legend."""
    return re.sub(r"^_", "\u200b_", text.replace("$", r"\$"))


def _saved(plt: Any, figure: Any, form: str) -> bytes:
    """The bytes of a picture: without a date, or what made it. A PNG has 256 colours, which makes it half as large."""
    file = BytesIO()
    if form == "png":
        figure.savefig(file, format="png", dpi=144)
        reduced = plt.image.open(file).convert("RGB").quantize(dither=plt.image.Dither.NONE)
        smaller = BytesIO()
        reduced.save(smaller, "png", optimize=True)
        return smaller.getvalue()
    figure.savefig(file, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return file.getvalue().replace(b"</style>", f"{dark_theme()}</style>".encode(), 1)
