"""`elasticd reproduce forecast`: series taken apart, periods, weeks, and the scenario beside them."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from elasticd.lab.papers import Claim, named
from elasticd.lab.papers.forecast import FINDINGS, MAIN, UNKNOWN, parts, weeks
from elasticd.lab.papers.forecast.loads import ANOMALIES, DAY, HOLIDAY, PAST, WEEK, make_load
from elasticd.lab.scenario import load_scenario
from elasticd.registry import discover
from tests.kit.daemons import called
from tests.kit.papers import PAGE

SCENARIO = Path(__file__).resolve().parents[3] / "config" / "scenarios" / "forecast" / "elasticd.toml"
SEEDS = range(2)


def test_no_command_imports_scipy_unasked() -> None:
    """It is an extra: without it, all other commands and the daemon must start."""
    code = "import sys, elasticd.cli; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_forecasts_without_scipy_are_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(named, "lacking", lambda: "scipy")
    code, out, line = called(capsys, "reproduce", "forecast")
    assert (code != 0, out) == (True, "")
    assert line == "forecast: needs scipy, which is not installed: pip install elasticd[forecast]\n"


def test_the_same_seed_gives_the_same_load() -> None:
    assert (make_load(1).week == make_load(1).week).all()
    assert (make_load(1).week != make_load(2).week).any()


def test_a_week_has_a_holiday_and_anomalies() -> None:
    load = make_load(0)
    days = load.week.reshape(7, DAY)
    assert len(load.past) == PAST * WEEK
    noon = days[:, 24]
    assert noon[HOLIDAY] < noon[0] / 2
    assert noon[5] < noon[0] / 2
    normal = load.past[-WEEK:].reshape(7, DAY)[ANOMALIES]
    crowd, outage = load.crowd % DAY, load.outage % DAY
    assert days[ANOMALIES][crowd] > 1.5 * normal[crowd]
    assert days[ANOMALIES][outage] < 0.2 * normal[outage]


@pytest.mark.slow
def test_robust_parts_are_nearer_to_the_true_trend() -> None:
    claims = {claim.what: claim for claim in parts.claims({seed: parts.run(seed) for seed in SEEDS})}
    assert claims["error of the trend, RobustSTL"].mean < claims["error of the trend, moving averages"].mean / 10
    assert max(claims["distance of the level shift from its place"].measured) == 0
    verdicts = {what: claim.verdict for what, claim in claims.items()}
    day = "AHPA's detector: a day of minutes"
    assert (verdicts[f"{day}, expected"], verdicts[f"{day}, not expected"]) == ("confirmed", "not confirmed")
    assert verdicts["M/M/c: the same"] == "confirmed"


def week(unserved: float, hours: float, flaps: int = 0) -> weeks.Week:
    """A week of which each day is the same."""
    each = (1.0,) * (7 * DAY)
    return weeks.Week((hours,) * 7, (100.0,) * 7, (unserved,) * 7, 10, flaps, each, each)


def rows(found: Mapping[str, weeks.Week], part: str) -> dict[str, Claim]:
    by_key = {(way, seed): played for way, played in found.items() for seed in SEEDS}
    return {claim.what: claim for claim in weeks.claims(by_key, list(SEEDS)) if claim.part == part}


@pytest.mark.parametrize(
    ("unserved", "hours", "less", "saved"),
    [
        pytest.param(0.5, 90.0, "confirmed", "not confirmed", id="less unserved, somewhat cheaper"),
        pytest.param(1.5, 70.0, "not confirmed", "confirmed", id="more unserved, much cheaper"),
    ],
)
def test_a_forecast_is_judged_by_what_is_unserved_and_saved(
    unserved: float, hours: float, less: str, saved: str
) -> None:
    found = {weeks.REACTIVE: week(1.0, 80.0), weeks.RICH: week(0.5, 100.0), weeks.IDEAL: week(0.0, 60.0)}
    claims = rows({**found, weeks.BOTH: week(unserved, hours, 3)}, "the week")
    assert claims["less is unserved than with the hpa alone by"].verdict == less
    assert claims["replica-hours saved beside hpa, target 60 %"].verdict == saved
    assert claims["demand not served: forecast and hpa, target 80 %"].mean == pytest.approx(unserved)


@pytest.mark.slow
def test_every_row_of_forecasts_stands_on_the_page() -> None:
    """The figures of the weeks take minutes: `elasticd reproduce forecast --markdown` prints them."""
    made = {(way, seed): week(1.0, 80.0) for way in (*weeks.WAYS, weeks.IDEAL) for seed in range(5)}
    claims = [*parts.claims({seed: parts.run(seed) for seed in range(5)}), *weeks.claims(made, range(5))]
    page = " ".join(PAGE.split())
    assert [claim.what for claim in claims if f"| {claim.what} | {claim.paper or '-'} | " not in page] == []
    assert [text for text in (*FINDINGS, *UNKNOWN) if text not in page] == []
    assert set(MAIN) <= {cell.strip() for cell in PAGE.split("|")}


@pytest.mark.slow
def test_a_forecast_serves_a_working_morning_better() -> None:
    registry = discover()
    reactive, both = (weeks.run(registry, (way, 0)) for way in (weeks.REACTIVE, weeks.BOTH))
    assert reactive.unserved[1] > 0.01
    assert both.unserved[1] == 0
    assert sum(both.demand) == pytest.approx(sum(reactive.demand))


def test_the_scenario_is_the_week_of_the_first_seed() -> None:
    registry = discover()
    scenario, load = load_scenario(SCENARIO, registry), make_load(0)
    (web,) = scenario.cluster.workloads
    assert web.demand is not None
    curve = web.demand.curve()
    assert [curve(place * 1800.0) for place in range(WEEK)] == pytest.approx(load.week.tolist(), abs=1e-3)
    text = (SCENARIO.parent / "load.csv").read_text().splitlines()[1:]
    assert [float(line.rpartition(",")[2]) for line in text] == np.r_[load.past, load.week].round(3).tolist()
    policies = {candidate.name: candidate.policies[0] for candidate in scenario.candidates}
    ways = {"hpa-80": weeks.REACTIVE, "hpa-60": weeks.RICH, "forecast-and-hpa-80": weeks.BOTH}
    wanted = {name: weeks.policy(registry, way) for name, way in ways.items()}
    for name, policy in policies.items():
        assert policy.strategies == wanted[name].strategies
