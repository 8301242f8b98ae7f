"""Pictures of charts: readable axes, the same bytes each time, and one line for a file that could not be written."""

import sys
from collections.abc import Sequence
from math import isnan, nan
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from elasticd.lab.charts import Axis, Chart, Line
from elasticd.lab.ideal import IDEAL, ideal
from elasticd.lab.over_time import POINTS, node_charts, plot_charts, point_seconds, run_charts
from elasticd.lab.plot import COLOURS, DARK, MOST_NAMES, draw, inline
from elasticd.lab.runs import Change, JobTrack, NodeTrack, Run, ServingPod, WorkloadTrack
from elasticd.model.workload import Ref
from tests.kit.daemons import called

WEB, API = Ref("shop", "Deployment", "web"), Ref("shop", "Deployment", "api")
BEGUN = 1_772_438_400.0
LINES = Chart(
    "replicas",
    "Replicas of $web$",
    "steps",
    Axis("time since the start", "h"),
    Axis("replicas"),
    (Line("_hpa", (0.0, 1.0, 2.0), (2.0, nan, 3.0)), Line("ideal", (0.0, 2.0), (1.0, 2.0), look="reference")),
)
BARS = Chart(
    "broken",
    "Time in which pods break",
    "bars",
    Axis("experiment"),
    Axis("time", "s"),
    (Line("one", ("first", "second"), (1.0, 2.0), (0.5, 2.0), (1.5, 2.5)), Line("two", ("second",), (3.0,))),
)


ROWS = Chart(
    "CPU requested",
    "CPU requested of each node",
    "rows",
    LINES.x,
    Axis("of the node", "%"),
    (Line("base-1", (0.0, 1.0, 2.0), (10.0, nan, nan)), Line("spot-1", (0.0, 1.0, 2.0), (120.0, 0.0, 0.0))),
)


def texts(svg: bytes) -> set[str]:
    """What stands in a picture."""
    return {"".join(text.itertext()) for text in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")}


@pytest.mark.parametrize("form", ["png", "svg"])
def test_the_same_charts_give_the_same_bytes(form: str) -> None:
    assert draw([LINES, BARS, ROWS], form) == draw([LINES, BARS, ROWS], form)


def test_a_png_has_few_colours_and_names_no_maker() -> None:
    png = draw([LINES], "png")
    assert (png[12:16], png[25]) == (b"IHDR", 3)  # PNG (third edition), 11.2.1: colours by their number
    assert b"oftware" not in png
    assert b"tEXt" not in png


def test_rows_have_names_and_one_scale_beside_all_charts() -> None:
    shown = texts(draw([ROWS, LINES], "svg"))
    assert {"base-1", "spot-1", "of the node (%)", "100", "CPU requested of each node"} <= shown


def test_more_rows_than_fit_have_numbers() -> None:
    lines = tuple(replace(ROWS.lines[0], name=f"node-{number}") for number in range(MOST_NAMES + 1))
    shown = texts(draw([replace(ROWS, lines=lines)], "svg"))
    assert "number" in shown
    assert not {line.name for line in lines} & shown


def test_a_row_has_no_colour_of_series() -> None:
    drawn = draw([ROWS, replace(LINES, lines=LINES.lines[:1])], "svg").decode().partition("</style>")[2]
    assert [colour for colour in COLOURS if colour in drawn] == [COLOURS[0]]


def test_axes_have_titles_and_units() -> None:
    shown = texts(draw([LINES], "svg")) | texts(draw([BARS], "svg"))
    assert {"time since the start (h)", "replicas", "experiment", "time (s)", "first", "second", "one"} <= shown


@pytest.mark.parametrize("kind", [LINES, BARS], ids=["lines", "bars"])
@pytest.mark.parametrize("lengths", [[38] * 10, [6, 31, 32, 29, 29, 25], [17, 10, 28, 12, 21], [70, 70]])
def test_a_legend_stays_within_the_picture(kind: Chart, lengths: Sequence[int]) -> None:
    names = [chr(ord("a") + number) * length for number, length in enumerate(lengths)]
    series = tuple(Line(name, kind.lines[0].x[:1], (1.0,)) for name in names)
    svg = ElementTree.fromstring(draw([replace(kind, lines=series)], "svg"))
    width = float((svg.get("viewBox") or "").split()[2])
    shown = {"".join(text.itertext()): text for text in svg.iter("{http://www.w3.org/2000/svg}text")}
    assert max(_left(shown[name]) + LETTER * len(name) for name in names) < width


LETTER = 5.0
"""Points that a letter of the legend takes on average."""


def _left(text: ElementTree.Element) -> float:
    """Where a text of a picture begins."""
    if (x := text.get("x")) is not None:
        return float(x)
    return float((text.get("transform") or "").partition("translate(")[2].split()[0].rstrip(","))


def test_bars_of_one_colour_have_other_hatches() -> None:
    series = tuple(Line(f"policy {number}", ("first",), (1.0,)) for number in range(8))
    assert b"<pattern" in draw([replace(BARS, lines=series)], "svg")
    assert b"<pattern" not in draw([replace(BARS, lines=series[:6])], "svg")


def test_names_are_shown_as_they_are() -> None:
    assert {"Replicas of $web$", "\u200b_hpa"} <= texts(draw([LINES], "svg"))


def test_a_series_has_one_colour_in_all_charts() -> None:
    other = Chart("other", "", "lines", LINES.x, LINES.y, (Line("two", (0.0,), (1.0,)), Line("_hpa", (0.0,), (1.0,))))
    svg = draw([LINES, other], "svg").decode().partition("</style>")[2]
    assert [colour for colour in COLOURS if colour in svg] == list(COLOURS[:2])


def test_each_colour_has_one_for_a_dark_page() -> None:
    head, _, body = draw([LINES, BARS], "svg").decode().partition("</style>")
    assert "prefers-color-scheme:dark" in head
    assert all(f"fill: {light}" in head and dark in head for light, dark in DARK.items())
    used = {part.split('"')[0].split(";")[0] for part in body.replace("stroke: ", "fill: ").split("fill: ")[1:]}
    assert used <= {*DARK, "none"}


def test_ids_of_pictures_on_one_page_differ() -> None:
    pages = [ElementTree.fromstring(inline(draw([LINES], "svg"), name, '<"x">')) for name in ("a", "b")]
    ids = [{element.get("id") for element in page.iter()} - {None} for page in pages]
    assert ids[0]
    assert not ids[0] & ids[1]
    assert pages[0].get("aria-label") == '<"x">'
    uses = {value for element in pages[0].iter() for key, value in element.items() if key.endswith("href")}
    assert uses <= {f"#{each}" for each in ids[0]}


def track(demand: float, unserved: float, steps: int) -> WorkloadTrack:
    return WorkloadTrack(
        [demand] * steps, [demand] * steps, [unserved] * steps, [0.0] * steps, [3] * steps, [3] * steps
    )


def test_replicas_are_shown_when_they_change() -> None:
    run = Run(BEGUN, 60.0, {WEB: track(1.0, 0.5, 120)}, changes={WEB: [Change(BEGUN + 1800, 2, 3)]})
    demand, replicas, unserved = run_charts({"hpa": [run], IDEAL: [ideal(run, {WEB: ServingPod(0.5, 0.0)})]})
    assert (demand.title, demand.x.unit) == ("Demand of shop/Deployment/web", "h")
    assert replicas.lines[0] == Line("hpa", (0.0, 0.5, 2.0), (2.0, 3.0, 3.0))
    assert [(line.name, line.look) for line in replicas.lines] == [("hpa", "line"), (IDEAL, "reference")]
    assert [line.name for line in unserved.lines] == ["hpa"]
    assert unserved.lines[0].y[-1] == pytest.approx(1.0)


def test_workloads_are_added_up() -> None:
    run = Run(BEGUN, 60.0, {WEB: track(1.0, 0.0, 2), API: track(nan, nan, 2)})
    run.changes = {WEB: [Change(BEGUN + 60, 2, 3)], API: [Change(BEGUN + 60, 4, 3)]}
    together, alone = run_charts({"hpa": [run]}), run_charts({"hpa": [run]}, API)
    assert together[0].title == "Demand of all 2 workloads"
    assert together[0].lines[0].y == (1.0, 1.0, 1.0)
    assert together[1].lines[0].y[0] == together[1].lines[0].y[-1] == 6.0
    assert all(isnan(value) for value in alone[0].lines[0].y)
    assert alone[1].lines[0].y == (4.0, 3.0, 3.0)


def test_a_short_run_is_shown_in_minutes() -> None:
    demand, _, _ = run_charts({"hpa": [Run(BEGUN, 60.0, {WEB: track(1.0, 0.1, 12)})]})
    assert (demand.x.unit, demand.lines[0].x[-1]) == ("min", 12.0)


def test_a_long_run_is_shown_in_days_and_fewer_points() -> None:
    run = Run(BEGUN, 60.0, {WEB: track(1.0, 0.1, 7 * 1440)})
    demand, _, unserved = run_charts({"hpa": [run]})
    assert demand.x.unit == "d"
    assert len(demand.lines[0].x) <= POINTS + 1
    assert point_seconds(run) == 14 * 60
    assert unserved.lines[0].x[-1] == 7.0
    assert unserved.lines[0].y[-1] == pytest.approx(16.8)


def test_nothing_lost_is_drawn_to_a_scale_of_one() -> None:
    assert "1.0" in texts(draw([replace(LINES, kind="lines", lines=(Line("hpa", (0.0, 1.0), (0.0, 0.0)),))], "svg"))


def test_nodes_are_drawn_as_parts_of_what_they_have() -> None:
    run = Run(BEGUN, 60.0, waiting=[0, 2], evictions=[0, 1])
    run.nodes = {"a": NodeTrack([1, 1], [1.0, nan], [0.5, nan], [2.0, nan], cores=2.0, bytes=8.0)}
    cpu, memory, used, pods = node_charts({"drain": [run], IDEAL: [Run(BEGUN, 60.0)]})
    assert [chart.lines[0].y[0] for chart in (cpu, memory, used)] == [50.0, 25.0, 25.0]
    assert all(isnan(value) for value in cpu.lines[0].y[1:])
    assert [(line.name, line.y) for line in pods.lines] == [
        ("pods that wait for a node", (0.0, 2.0, 2.0)),
        ("evictions so far", (0.0, 1.0, 1.0)),
    ]
    assert (cpu.x.unit, cpu.title) == ("min", "CPU requested of each node")


def test_pods_that_never_wait_have_no_chart() -> None:
    calm = Run(BEGUN, 60.0, waiting=[0], evictions=[0])
    charts = node_charts({"a": [calm], "b": [calm]})
    assert [chart.title for chart in charts[:2]] == [
        "a: CPU requested of each node",
        "a: Memory requested of each node",
    ]
    assert len(charts) == 6


def test_jobs_are_drawn_with_their_queue() -> None:
    run = Run(BEGUN, 60.0, waiting=[0, 0], jobs={Ref("media", "Job", "transcode"): JobTrack([3.0, 1.0], [1, 2])})
    queue, jobs = plot_charts({"jobs": [run]})
    assert (queue.title, queue.lines[0].y) == ("Messages in the queue of media/Job/transcode", (3.0, 1.0, 1.0))
    assert (jobs.y, jobs.lines[0].y) == (Axis("Jobs"), (1.0, 2.0, 2.0))


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        pytest.param([], ["demand", "request"], id="the count stays"),
        pytest.param([Change(BEGUN + 60, 3, 4)], ["demand", "replicas", "unserved", "request"], id="the count changes"),
    ],
)
def test_requests_are_drawn_where_they_change(changes: list[Change], names: list[str]) -> None:
    resized = track(3.0, 0.0, 2)
    resized.pod_requests = [(0, 2.0), (1, 1.5)]
    charts = plot_charts({"vertical": [Run(BEGUN, 60.0, {WEB: resized}, changes={WEB: changes})]})
    assert [chart.name for chart in charts] == names
    assert [(line.name, line.y) for line in charts[-1].lines] == [
        ("requested", (2.0, 1.5, 1.5)),
        ("used", (1.0, 1.0, 1.0)),
    ]
    resized.pod_requests = [(0, 2.0)]
    assert len(plot_charts({"vertical": [Run(BEGUN, 60.0, {WEB: resized})]})) == 3


@pytest.mark.parametrize("option", ["--plot", "--plot-nodes"])
@pytest.mark.parametrize(
    ("file", "problem"),
    [
        pytest.param("x.pdf", 'must end in .png or .svg, is "x.pdf"', id="another ending"),
        pytest.param("x", 'must end in .png or .svg, is "x"', id="no ending"),
        pytest.param("old.png", "must be a new file, old.png is there (--force)", id="a file that is there"),
        pytest.param("none/x.svg", "must be in a folder that is there, is none/x.svg", id="no folder"),
    ],
)
def test_a_picture_that_cannot_be_written_costs_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    file: str,
    problem: str,
    option: str,
) -> None:
    shop = Path("config/scenarios/shop/elasticd.toml").absolute()
    monkeypatch.chdir(tmp_path)
    Path("old.png").touch()
    assert called(capsys, "simulate", shop, option, file) == (78, "", f"{option}: {problem}\n")


def test_a_picture_without_matplotlib_costs_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    arguments = ("simulate", "config/scenarios/shop/elasticd.toml", "--plot", tmp_path / "x.png")
    problem = "--plot: needs matplotlib, which is not installed: pip install elasticd[plot]\n"
    assert called(capsys, *arguments) == (78, "", problem)


def test_a_simulation_draws_the_same_picture_each_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("simulate", "config/scenarios/shop/elasticd.toml", "--hours", "0.2", "--jobs", "1")
    pictures = []
    for name in ("a.svg", "b.svg"):
        nodes = tmp_path / f"nodes-{name}"
        assert called(capsys, *command, "--plot", tmp_path / name, "--plot-nodes", nodes)[0] == 0
        pictures.append(((tmp_path / name).read_bytes(), nodes.read_bytes()))
    assert pictures[0] == pictures[1]
    assert {"hpa", "step-tolerance", "double-threshold", IDEAL} <= texts(pictures[0][0])
    assert {"hpa: CPU used of each node", "node-1"} <= texts(pictures[0][1])
