"""The page of a report: valid, of its own, with every text escaped; and the sketch in a terminal."""

from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec.structs import replace

from elasticd.lab.ideal import IDEAL, ideal
from elasticd.lab.report import Asked, report
from elasticd.lab.runs import Change, Run, ServingPod, WorkloadTrack
from elasticd.lab.scenario import Scenario, load_scenario
from elasticd.lab.sketch import WIDTH, sketch
from elasticd.model.workload import Ref
from elasticd.registry import discover
from elasticd.ui.terminal import Terminal
from tests.kit.daemons import called

SHOP = Path("config/scenarios/shop/elasticd.toml")
WEB, API = Ref("shop", "Deployment", "<web>"), Ref("shop", "Deployment", "api")
HOSTILE = '<script src="http://example.com/x.js">'
VOID = {"meta", "br"}
NAMESPACES = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


class Page(HTMLParser):
    """The elements, attributes and texts of a page; an element that is not closed in its place is an error."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return load_scenario(SHOP, discover())


def played(scenario: Scenario, *refs: Ref) -> dict[str, list[Run]]:
    """Two candidates that are short at the start, and what these are compared with."""
    begun = scenario.table.start.timestamp()
    runs = {}
    for name, count in (("hpa", 3), ("<b>bold</b>", 5)):
        tracks = {
            ref: WorkloadTrack(
                [1.0] * 30, [1.0] * 30, [0.5, *[0.0] * 29], [60.0, *[0.0] * 29], [count] * 30, [count] * 30
            )
            for ref in refs
        }
        changes = {ref: [Change(begun + 90.0, 2, count, f"because of {HOSTILE}")] for ref in refs}
        runs[name] = [Run(begun, 60.0, tracks, changes=changes, failures={f"plugin: {HOSTILE}": 2})]
    return {**runs, IDEAL: [ideal(runs["hpa"][0], dict.fromkeys(refs, ServingPod(0.5, 0.0)))]}


def test_a_page_is_valid_and_needs_no_network(scenario: Scenario) -> None:
    html = report(Asked("simulate", HOSTILE, scenario, 0.001), played(scenario, WEB, API))
    page = Page(html)
    assert not {"script", "link", "img", "iframe", "image", "object"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name in ("src", "srcset", "action") or name.startswith("on")]
    assert all(value.startswith("#") for name, value in page.attributes if name in ("href", "xlink:href"))
    addresses = {value for _, value in page.attributes if "://" in value}
    assert addresses <= NAMESPACES
    assert "@import" not in html
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_a_page_shows_texts_as_they_are(scenario: Scenario) -> None:
    page = Page(report(Asked("simulate", HOSTILE, scenario, 0.001), played(scenario, WEB, API)))
    assert f"elasticd simulate: {HOSTILE}" in page.texts
    assert f"after the worst shortage began: because of {HOSTILE}" in page.texts
    assert f"hpa: 2 decisions: plugin: {HOSTILE}" in page.texts
    assert {"<b>bold</b>", "shop/Deployment/<web>", "2 \u2192 5", "0:01:30"} <= set(page.texts)


def test_a_page_answers_which_policy_to_take(scenario: Scenario) -> None:
    runs = played(scenario, WEB)
    assert "Take hpa." in Page(report(Asked("simulate", "x", scenario, 0.1), runs)).texts
    page = Page(report(Asked("simulate", "x", scenario, 0.001, price=0.04), runs))
    assert "No recommendation." in page.texts
    nearest = "No policy leaves at most 0.1% of the demand unserved: hpa comes nearest, with 1.7%."
    assert {nearest, "cost", "0.04 for a replica for an hour"} <= set(page.texts)


def test_workloads_that_are_short_have_pictures_of_their_own(scenario: Scenario) -> None:
    runs = played(scenario, WEB, API)
    labels = [
        value for name, value in Page(report(Asked("x", "x", scenario, 0.1), runs)).attributes if name == "aria-label"
    ]
    about = "Demand, replicas and unserved demand over time of "
    # Each twice: for a desktop and for a phone.
    assert labels == [f"{about}{each}" for each in ("all workloads", WEB, API) for _ in range(2)]


def test_a_simulation_writes_the_same_page_each_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("simulate", SHOP, "--hours", "0.2", "--jobs", "1", "--seeds", "2")
    for name in ("a.html", "b.html"):
        assert called(capsys, *command, "--report", tmp_path / name)[0] == 0
    pages = [(tmp_path / name).read_bytes() for name in ("a.html", "b.html")]
    assert pages[0] == pages[1]
    target = 'hpa: metrics = [{ type = "Resource", resource = "cpu", utilization = 60 }]'
    asked = {f"2 to 20 replicas; {target}", "2, from 0 on", "12 min from 2026-03-02 00:00:00+01:00, in steps of 60 s"}
    assert {*asked, "No count was changed."} <= set(Page(pages[0].decode()).texts)


def test_a_page_says_what_each_policy_sets(tmp_path: Path, scenario: Scenario) -> None:
    place = tmp_path / "forecast.toml"
    limit = '[[limit]]\ntype = "cooldown"\nafter_up = 60\n'
    place.write_text((SHOP.parent / "policies" / "hpa.toml").read_text() + limit)
    texts = Page(report(Asked("x", "x", load_scenario(SHOP, discover(), [place]), 0.1), played(scenario, WEB))).texts
    (said,) = (text for text in texts if text.startswith("2 to 20 replicas; hpa: "))
    assert said.endswith("; cooldown: after_up = 60")


def test_a_page_about_one_workload_names_it_once(scenario: Scenario) -> None:
    web = replace(WEB, name="web")  # the shop's
    page = Page(report(Asked("backtest", "week.csv", scenario, 0.1), played(scenario, web)))
    assert "workload" not in page.texts
    assert "week.csv, shop/Deployment/web, 0.5 core-hours" in page.texts
    assert "each serves up to 0.5 cores, and is ready 30 s after it is wanted; measured every 15 s" in page.texts


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        pytest.param(["--report", "x.pdf"], '--report: must end in .html, is "x.pdf"', id="another ending"),
        pytest.param(
            ["--report", "old.html"],
            "--report: must be a new file, old.html is there (--force)",
            id="a file that is there",
        ),
        pytest.param(
            ["--report", "no/x.html"], "--report: must be in a folder that is there, is no/x.html", id="no folder"
        ),
        pytest.param(["--unserved", "101"], "--unserved: must be from 0 to 100, is 101", id="no share"),
        pytest.param(["--unserved", "nan"], "--unserved: must be from 0 to 100, is nan", id="no number"),
    ],
)
def test_a_report_that_cannot_be_written_costs_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    problem: str,
) -> None:
    shop = SHOP.absolute()
    monkeypatch.chdir(tmp_path)
    Path("old.html").touch()
    assert called(capsys, "simulate", shop, *arguments) == (78, "", f"{problem}\n")


def test_a_sketch_draws_replicas_to_one_scale(scenario: Scenario, capsys: pytest.CaptureFixture[str]) -> None:
    for part in sketch(played(scenario, WEB)):
        Terminal().print(part)
    demand, hpa, bold, best = capsys.readouterr().out.splitlines()[2:]
    assert demand.split() == ["demand", "█" * WIDTH, *["1", "to", "1", "cores"]]
    assert hpa.split() == ["hpa", "▃" * 2 + "▅" * (WIDTH - 2), "2", "to", "3"]
    assert bold.split() == ["<b>bold</b>", "▃" * 2 + "█" * (WIDTH - 2), *["2", "to", "5"]]
    assert best.split() == [IDEAL, "▃" * WIDTH, *["2", "to", "2"]]


def test_runs_without_workloads_have_a_report_and_no_sketch(scenario: Scenario) -> None:
    runs = {"pool": [Run(scenario.table.start.timestamp(), 60.0)]}
    assert "No recommendation." in Page(report(Asked("simulate", "x", scenario, 0.1), runs)).texts
    assert list(sketch(runs)) == []


def test_a_pipe_gets_a_sketch_only_if_asked(capsys: pytest.CaptureFixture[str]) -> None:
    command = ("simulate", SHOP, "--hours", "0.1", "--jobs", "1")
    assert "over time" not in called(capsys, *command)[1]
    assert "over time" in called(capsys, *command, "--sketch")[1]
