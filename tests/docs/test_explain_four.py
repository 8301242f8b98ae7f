"""`elasticd explain` of a policy that uses four strategies at once: what each wanted, what won and what bound it.

Through the command line, on the journal of a simulated run of the demo's catalog.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.journal import Journal
from elasticd.model.records import Decision, Outcome
from elasticd.sources.forecasting import fit
from elasticd.sources.forecasting.request import Reply
from tests.kit.daemons import called
from tests.kit.demos import START, at_48, play
from tests.test_cli import terminal

CATALOG = "shop/Deployment/catalog"
ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^(?P<mark>[> ])  (?P<strategy>[a-z]+) +(?P<replicas>\d+|-|unknown)  +(?P<why>.*\S)", re.MULTILINE)
Explained = Callable[[float], str]


@pytest.fixture(scope="module")
def records() -> list[Decision | Outcome]:
    told = play(only="catalog", seconds=130)
    return sorted([*told.made, *told.outcomes], key=lambda one: one.at)


def journal(folder: Path, records: list[Decision | Outcome], until: float) -> Path:
    made = Journal(folder)
    for record in records:
        if record.at <= START + until:
            made.append(record)
    made.close()
    return folder


@pytest.fixture
def explained(
    records: list[Decision | Outcome],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Explained:
    """What explain prints a second after a time of the catalog's day."""

    def explain(until: float) -> str:
        monkeypatch.setattr("time.time", lambda: START + until + 1)
        code, out, err = called(capsys, "explain", CATALOG, "--state", journal(tmp_path / "state", records, until))
        assert (code, err) == (0, "")
        return out

    return explain


@pytest.mark.parametrize(
    ("second", "wants", "won", "headline"),
    [
        pytest.param(
            4.0,
            {"schedule": "3", "forecast": "2", "hpa": "2", "event": "0"},
            "schedule",
            "keep 3 replicas: ScheduledFloor, at least 3: opening",
            id="the schedule, at the beginning of its day",
        ),
        pytest.param(
            26.0,
            {"schedule": "-", "forecast": "2", "hpa": "2", "event": "3"},
            "event",
            "keep 3 replicas: TriggersActive, articles is 28",
            id="the event, when articles come",
        ),
        pytest.param(
            42.0,
            {"schedule": "-", "forecast": "6", "hpa": "2", "event": "0"},
            "forecast",
            "2 -> 5 replicas: ForecastAbove",
            id="the forecast, before the crowd",
        ),
    ],
)
def test_explain_shows_each_strategys_wish_and_marks_the_winner(
    explained: Explained, second: float, wants: dict[str, str], won: str, headline: str
) -> None:
    out = explained(second)
    rows = {row["strategy"]: row for row in ROW.finditer(out)}
    assert {name: row["replicas"] for name, row in rows.items()} == wants
    assert [name for name, row in rows.items() if row["mark"] == ">"] == [won]
    assert out.splitlines()[1].startswith(headline)


def test_what_bound_the_wish_is_told_with_its_interval(explained: Explained) -> None:
    out = explained(48.0)
    assert "hold 5 replicas (wanted 6): ScheduledBounds, 0 to 5: the database is busy" in out
    assert "\nWanted: 6 replicas\n" in out
    assert "\nLimits: 6 become 5\n" in out
    assert re.search(r"^scheduled-bounds +0 to 5 +yes  ", out, re.MULTILINE)
    assert len(re.findall(r" yes  ", out)) == 1


def test_a_strategy_without_an_opinion_says_why(explained: Explained) -> None:
    assert "schedule  -         NoFloor: no floor is in force; next opening, " in explained(48.0)


def test_a_valid_forecast_shows_its_skill_and_expiry(explained: Explained) -> None:
    out = explained(48.0)
    found = re.search(r"^requests_forecast: (\S+), period 120 s, skill (0\.\d\d), expires in \d+ s", out, re.MULTILINE)
    assert found is not None
    assert float(found[2]) > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        pytest.param({"expires": 0.0}, "the forecast expired ", id="expired"),
        pytest.param({"doubt": "the last 60 s are not as forecast"}, "not believed: the last 60 s", id="doubted"),
    ],
)
def test_an_unusable_forecast_says_why_in_place_of_its_wish(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, Any],
    why: str,
) -> None:
    found = fit.answer
    with monkeypatch.context() as patch:
        patch.setattr(fit, "answer", lambda question: spoilt(found(question), changes))
        told = play(only="catalog", seconds=50)
    state = journal(tmp_path / "state", [*told.made], 48.0)
    code, out, _ = called(capsys, "explain", CATALOG, "--state", state)
    assert code == 0
    rows = {row["strategy"]: row for row in ROW.finditer(out)}
    assert (rows["forecast"]["mark"], rows["forecast"]["replicas"]) == (" ", "-")
    assert f"NoForecast: {why}" in rows["forecast"]["why"]
    assert rows["hpa"]["mark"] == ">"  # which decides alone then
    assert re.search(r"^requests_forecast +forecast +(stale|invalid) ", out, re.MULTILINE)


def spoilt(reply: Reply, changes: dict[str, Any]) -> Reply:
    assert reply.forecast is not None
    return replace(reply, forecast=replace(reply.forecast, **changes))


def test_the_page_on_explain_shows_what_it_prints(records: list[Decision | Outcome]) -> None:
    printed = at_48(records)
    page = re.search(r"```text\n(.*?)\n```", (ROOT / "docs" / "explain.md").read_text(), re.DOTALL)
    assert page is not None
    assert masked(page[1]) == masked(printed)


def masked(text: str) -> str:
    """The last digits of a fit may be others on another machine."""
    return re.sub(r"\d+\.\d+", "#", text)


@pytest.mark.parametrize("columns", [80, 100, 140])
def test_terminal_output_breaks_no_name_and_exceeds_no_width(
    records: list[Decision | Outcome], tmp_path: Path, columns: int
) -> None:
    state = journal(tmp_path / "state", records, 48.0)
    seen = re.sub(r"\x1b\[[0-9;]*m", "", terminal("explain", CATALOG, "--state", state, columns=columns))
    assert max(map(len, seen.splitlines())) <= columns
    for name in ("requests_forecast  ", "scheduled-bounds  ", "resource-metrics  ", ">  forecast  "):
        assert name in seen
