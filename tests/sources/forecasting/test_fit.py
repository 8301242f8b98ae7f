"""A past in, a forecast out: when it may be believed, and when it must not be."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from scipy import optimize

from elasticd.sources.forecasting.arrays import Floats
from elasticd.sources.forecasting.fit import answer
from elasticd.sources.forecasting.request import PackedSamples, Question, Wish
from elasticd.sources.forecasting.select import choose, periods_of
from tests.kit.waves import DAY, START, WEEK, ask, forecast, noise, track, wave

MINUTES = 14 * DAY


def weekly(weeks: int) -> Floats:
    """Weekends with a third of the load."""
    days = np.arange(weeks * WEEK) // DAY % 7
    return np.maximum(wave(7 * weeks, 2) * np.where(days < 5, 1.0, 0.3), 0)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["auto", "robust-stl", "fft", "crane", "crane-max"])
def test_a_daily_wave_is_forecast_and_believed(method: str) -> None:
    found = forecast(wave(7), method=method)
    assert (found.doubt, found.period) == ("", 86400.0)
    assert found.skill is not None
    assert found.skill > 0.2
    # The wave goes on from its zero upwards; what is cautious is higher than that by its margin.
    actual = 50 + 30 * np.sin(2 * np.pi * np.arange(1, 61) / DAY)
    off = np.array(found.values[1:61]) - actual
    assert off.mean() == pytest.approx(5 if method.startswith("crane") else 0, abs=6)


def test_the_naive_method_is_believed_when_better_than_persistence() -> None:
    """By itself it would have no skill, however good it is."""
    found = forecast(wave(7, 3), method="naive")
    assert (found.method, found.doubt) == ("naive", "")
    assert found.skill is not None
    assert 0.2 < found.skill < 1


@pytest.mark.parametrize(("horizon", "believed"), [(600.0, False), (1800.0, False), (14400.0, True)], ids=str)
def test_the_naive_method_is_doubted_when_no_better_than_persistence(horizon: float, believed: bool) -> None:
    """Every other day has a fifth more, which the day before does not tell; what is there now does."""
    unequal = wave(8, 0.5) * np.repeat([1.0, 1.2] * 4, DAY)
    doubt = forecast(unequal, method="naive", horizon=horizon).doubt
    assert doubt.partition(" (")[0] == (
        "" if believed else f"naive is no better than the load of {horizon:g} s before, or its mean"
    )


def test_a_horizon_longer_than_the_past_takes_its_first_value() -> None:
    assert forecast(wave(3), method="naive", horizon=604800.0).skill is not None


@pytest.mark.slow
def test_the_best_method_is_chosen_by_its_past_forecasts() -> None:
    by_method = {name: forecast(wave(7), method=name) for name in ("robust-stl", "fft")}
    best = forecast(wave(7))
    assert best == by_method[best.method]


def test_a_method_that_finds_no_solution_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = optimize.OptimizeResult(x=None, message="out of iterations")
    monkeypatch.setattr("scipy.optimize.linprog", lambda *_, **__: lost)
    assert forecast(wave(7)).method == "fft"
    assert "has no period, for robust-stl" in ask(wave(7), method="robust-stl").problem


@pytest.mark.slow
def test_a_week_wins_over_a_day_where_weekends_differ() -> None:
    found = forecast(weekly(3))
    assert (found.period, found.doubt) == (604800.0, "")


@pytest.mark.slow
def test_two_weeks_are_enough_for_a_week() -> None:
    assert forecast(weekly(2)).period == 604800.0


def test_only_expected_periods_are_looked_for() -> None:
    assert periods_of(wave(7), Wish()) == [DAY]
    assert periods_of(wave(7), Wish(periods=(604800.0,))) == []
    assert periods_of(np.tile(np.repeat([1.0, 5.0], 30), 60), Wish(periods=(3600.0,))) == [60]


@pytest.mark.slow
def test_the_interval_width_matches_the_configured_quantile() -> None:
    found = forecast(wave(14), quantile=0.8)
    width = found.upper[5] - found.values[5]
    assert width == pytest.approx(0.8416 * 5, rel=0.2)  # of the noise's deviation of 5
    assert found.lower[5] == pytest.approx(found.values[5] - width, rel=0.2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "method", "doubt"),
    [
        pytest.param(50 + noise(MINUTES, 5), "holt", "no better than", id="white noise has no period and no skill"),
        pytest.param(50 + noise(MINUTES, 5, 1), "holt", "no better than", id="nor has another"),
        pytest.param(wave(14, 60).clip(0), "", "on average, at most 30%", id="a wave that is mostly noise"),
        pytest.param(np.r_[wave(13), wave(1) * 0.02], "", "no better|on average", id="a day unlike all others"),
        pytest.param(
            np.r_[wave(14)[:-120], wave(14)[-120:] * 3], "", "are not as forecast", id="a new regime two hours ago"
        ),
        pytest.param(np.r_[wave(14)[:-180], np.zeros(180)], "", "are not as forecast", id="nobody has come for 3 h"),
    ],
)
def test_it_is_doubted(values: Floats, method: str, doubt: str) -> None:
    found = forecast(values)
    assert re.search(doubt, found.doubt), found.doubt
    assert method in found.method
    assert len(found.values) > 60  # and shown all the same


@pytest.mark.parametrize(
    ("values", "method", "last"),
    [
        pytest.param(np.full(MINUTES, 7.0), "holt", 7.0, id="a constant goes on"),
        pytest.param(np.zeros(MINUTES), "holt", 0.0, id="so does nothing, which was measured"),
        pytest.param(np.r_[np.full(7 * DAY, 10.0), np.full(7 * DAY, 50.0)], "holt", 50.0, id="a level shift"),
        pytest.param(np.tile(wave(1), 5), "naive", 49.87, id="exact repetition needs no skill"),
    ],
)
def test_what_hardly_errs_is_believed_without_skill(values: Floats, method: str, last: float) -> None:
    found = forecast(np.abs(values))
    assert (found.doubt, found.method) == ("", method)
    assert found.values[-90] == pytest.approx(last, abs=5)


def test_a_ramp_is_followed_by_holt() -> None:
    found = forecast(np.arange(3000.0))
    assert (found.method, found.doubt) == ("holt", "")
    assert found.values[60] > 2999


@pytest.mark.slow
def test_a_level_shift_days_ago_sets_the_forecast_level() -> None:
    values = wave(14) + np.where(np.arange(MINUTES) >= 11 * DAY, 40.0, 0.0)
    found = forecast(values)
    assert found.doubt == ""
    assert np.mean(found.values[1:31]) == pytest.approx(90, abs=5)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        pytest.param([], "no past", id="no history"),
        pytest.param([5.0], "no past", id="one sample"),
        pytest.param([5.0, 6.0, 7.0], "too short", id="three samples"),
        pytest.param([np.nan] * 100, "no past", id="all NaN"),
        pytest.param([-1.0] * 100, "no past", id="all negative"),
        pytest.param([5.0] * 2000 + [np.nan] * 100 + [5.0], "no past", id="all but one before a gap"),
        pytest.param([5.0] * 2000 + [np.nan] * 100 + [5.0] * 20, "too short", id="too little after a gap"),
    ],
)
def test_where_there_is_no_forecast_it_is_said_why(values: list[float], problem: str) -> None:
    reply = ask(np.array(values))
    assert reply.forecast is None
    assert problem in reply.problem


@pytest.mark.parametrize("method", ["robust-stl", "fft", "crane", "crane-max", "naive"])
def test_a_method_that_needs_a_period_says_so(method: str) -> None:
    reply = ask(50 + noise(3 * DAY, 5), method=method)
    assert reply.forecast is None
    assert f"has no period, for {method}" in reply.problem


def test_the_forecast_of_a_reset_counter_is_finite() -> None:
    found = forecast(np.tile(np.arange(1.0, 1000), 5))
    assert np.isfinite(found.values).all()


@pytest.mark.slow
def test_gaps_within_the_hour_change_little() -> None:
    holes = wave(7)
    holes[np.arange(len(holes)) % 50 < 20] = np.nan
    found, whole = forecast(holes), forecast(wave(7))
    assert found.doubt == ""
    assert np.array(found.values[1:]) == pytest.approx(np.array(whole.values[1:]), abs=8)


@pytest.mark.slow
def test_a_forecast_covers_the_horizon_until_it_expires() -> None:
    values = wave(7)
    found = forecast(values, horizon=7200.0, valid=1800.0)
    assert found.first == found.fitted == START + 60 * (len(values) - 1)
    assert found.expires == found.fitted + 1800
    assert found.values[0] == pytest.approx(values[-1], rel=1e-4)
    assert found.window(found.expires, found.expires + 7200) == range(30, 151)


def test_a_step_that_has_not_ended_is_not_known_yet() -> None:
    times = START + 20 + 60.0 * np.arange(3000)
    found = answer(Question(Wish(), PackedSamples(times.tobytes(), np.arange(3000.0).tobytes()))).forecast
    assert found is not None
    assert found.fitted <= times[-1] < found.fitted + 60


def test_values_are_never_below_nothing() -> None:
    found = forecast(np.maximum(3000 - np.arange(2950.0), 0), max_error=10.0)
    assert min(*found.values, *found.lower) >= 0


@pytest.mark.slow
def test_steps_of_five_minutes_are_as_good() -> None:
    found = forecast(wave(14, each=288), step=300.0)
    assert (found.doubt, found.period, found.step) == ("", 86400.0, 300.0)


@pytest.mark.slow
def test_it_learns_what_a_pod_uses_beside() -> None:
    load, pods = wave(3) * 10, np.full(3 * DAY, 10.0)
    found = forecast(load, used=4 * load / 10 + 50, replicas=pods)
    assert found.per_pod is not None
    assert (found.per_pod.slope, found.per_pod.intercept) == pytest.approx((0.4, 5.0), abs=1e-6)


@pytest.mark.slow
def test_what_it_could_not_learn_is_reported() -> None:
    found = forecast(wave(3), used=np.full(3 * DAY, 1.0), replicas=np.full(3 * DAY, np.nan))
    assert found.per_pod is None
    assert "must be known together" in found.untaught


@pytest.mark.slow
def test_use_of_another_time_is_no_use() -> None:
    early = np.arange(100) * 60.0
    other = PackedSamples(early.tobytes(), np.ones(100).tobytes())
    found = answer(Question(Wish(), track(wave(3)), other, other)).forecast
    assert found is not None
    assert found.per_pod is None


@pytest.mark.slow
@given(some.lists(some.floats(0, 1e9), min_size=1, max_size=40), some.sampled_from([0, 700, 2000]))
@settings(max_examples=25, deadline=None)
def test_whatever_the_past_all_that_is_said_is_finite(values: list[float], length: int) -> None:
    reply = ask(np.resize(np.array(values), length))
    assert (reply.forecast is None) == bool(reply.problem)
    if reply.forecast is not None:
        found = reply.forecast
        assert np.isfinite([*found.values, *found.lower, *found.upper, found.error]).all()
        bounds = zip(found.lower, found.values, found.upper, strict=True)
        assert all(low <= value <= high for low, value, high in bounds)


@pytest.mark.slow
def test_the_same_past_has_the_same_forecast() -> None:
    assert ask(wave(4)) == ask(wave(4))


def test_a_past_too_short_for_any_method_has_no_choice() -> None:
    assert choose(np.ones(100), Wish()) is None
