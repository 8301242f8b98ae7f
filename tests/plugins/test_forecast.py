"""The strategy forecast: the checks AHPA-1 and Kap-1, each model, each option, and when it has no opinion."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from elasticd.api import MOST, Forecast, Observation, PerPod, Quality, Recommendation, Series
from elasticd.base.decode import convert
from elasticd.base.errors import ConfigError
from elasticd.testing import check_strategy, judge, observation
from elasticd_plugins.forecast import Ahead, linear, mm1, mmc, register_strategies
from elasticd_plugins.hpa import Hpa
from tests.kit.plugins.builders import NOW

VALUE = {"series": "load", "target": 10}


def made(**options: Any) -> Ahead:
    return convert({"type": "forecast", **VALUE, **options}, Ahead, "p.toml")


def path(*values: float, **changes: Any) -> Forecast:
    """One value a minute from a minute ago on; the upper bound is twice as much."""
    fields: dict[str, Any] = {
        "method": "fft",
        "fitted": NOW - 60,
        "expires": NOW + 600,
        "first": NOW - 60,
        "values": values,
        "lower": values,
        "upper": tuple(2 * value for value in values),
        "period": 86400.0,
        "skill": 0.25,
        "error": 1.5,
    }
    return Forecast(**(fields | changes))


def seen(forecast: Forecast | None, quality: Quality = Quality.FRESH, at: float = NOW) -> Observation:
    series = Series("load", "ahead", quality, forecast=forecast)
    return replace(observation([0.5, 0.5], at=at), series={"load": series})


def wanted(strategy: Ahead, forecast: Forecast | None, quality: Quality = Quality.FRESH, at: float = NOW) -> int | None:
    said = strategy.recommend_replicas(seen(forecast, quality, at))
    return said.replicas


def test_it_is_registered() -> None:
    assert register_strategies() == [Ahead]
    assert made().reads() == ("load",)


@pytest.mark.parametrize(
    ("load", "mu", "wait", "one_each", "one_queue"),
    [
        pytest.param(100.0, 10.0, 0.2, 20, 11, id="check AHPA-1"),
        pytest.param(0.0, 10.0, 0.2, 0, 0, id="no load"),
        pytest.param(5.0, 10.0, 0.2, 1, 1, id="exactly one: W = 1 / (10 - 5)"),
        pytest.param(5.01, 10.0, 0.2, 2, 2, id="a little more"),
        pytest.param(1000.0, 10.0, 0.11, 1100, 106, id="many pods: M/M/1 provisions ten times as much"),
        pytest.param(1e7, 10.0, 0.2, 2_000_000, 1_002_000, id="too many to count through"),
    ],
)
def test_check_ahpa_1_pods_for_a_mean_time_of_answer(
    load: float, mu: float, wait: float, one_each: int, one_queue: int
) -> None:
    assert (mm1(load, mu, wait), mmc(load, mu, wait)) == (one_each, one_queue)


def waited(load: float, mu: float, pods: int) -> float:
    """Mean time of answer of M/M/c, by Erlang's formula as it is printed."""
    offered, term, total = load / mu, 1.0, 0.0
    for k in range(pods):
        total += term
        term *= offered / (k + 1)
    chance = term * pods / (pods - offered)
    chance /= total + chance
    return chance / (pods * mu - load) + 1 / mu


def test_check_ahpa_1_eleven_and_twelve_pods_have_expected_waits() -> None:
    assert waited(100, 10, 11) == pytest.approx(0.1682, abs=5e-5)
    assert waited(100, 10, 12) == pytest.approx(0.1225, abs=5e-5)


@given(some.floats(0.1, 300), some.floats(0.5, 20), some.floats(1.05, 5))
def test_mmc_is_the_fewest_sufficient_pods_and_at_most_mm1(load: float, mu: float, slack: float) -> None:
    wait = slack / mu
    pods = mmc(load, mu, wait)
    assert pods > load / mu
    assert waited(load, mu, pods) <= wait * (1 + 1e-9)
    if pods - 1 > load / mu:
        assert waited(load, mu, pods - 1) > wait * (1 - 1e-9)
    assert pods <= mm1(load, mu, wait) + 1


@pytest.mark.parametrize(
    ("load", "slope", "intercept", "target", "expected"),
    [
        pytest.param(1000.0, 0.4, 5.0, 50.0, 9, id="check Kap-1: 400 / 45 = 8.9"),
        pytest.param(1000.0, 0.4, 5.0, 45.0, 10, id="exactly ten: what rounding adds is no pod"),
        pytest.param(0.0, 0.4, 5.0, 50.0, 0, id="no load"),
        pytest.param(1000.0, 0.4, 50.0, 50.0, None, id="none would be enough"),
        pytest.param(1000.0, 0.0, 5.0, 50.0, 0, id="use that does not depend on load"),
        pytest.param(1e300, 1e300, 5.0, 50.0, MOST, id="more than Kubernetes can count"),
    ],
)
def test_check_kap_1_pods_of_which_each_uses_little_enough(
    load: float, slope: float, intercept: float, target: float, expected: int | None
) -> None:
    assert linear(load, slope, intercept, target) == expected


@given(some.floats(0, 1e4), some.floats(0, 10), some.floats(0, 40), some.floats(41, 100))
def test_the_linear_model_finds_the_same_count_as_kapacity(
    load: float, slope: float, intercept: float, target: float
) -> None:
    pods = linear(load, slope, intercept, target)
    assert pods is not None
    assert pods == 0 or slope * load / pods + intercept <= target + 1e-6
    assert pods <= 1 or slope * load / (pods - 1) + intercept > target - 1e-6


@pytest.mark.parametrize(
    ("lead", "bound", "expected"),
    [
        pytest.param(0, "expected", 2, id="now"),
        pytest.param(60, "expected", 3, id="a minute ahead"),
        pytest.param(61, "expected", 9, id="and what comes right after"),
        pytest.param(180, "expected", 9, id="the highest, though it falls again"),
        pytest.param(180, "upper", 18, id="the upper bound of it"),
        pytest.param(6000, "expected", 9, id="as far as it reaches"),
    ],
)
def test_the_highest_load_of_the_window_counts(lead: float, bound: str, expected: int) -> None:
    assert wanted(made(lead=lead, bound=bound), path(99, 20, 30, 90, 10, 10)) == expected


def test_nothing_is_taken_away_before_its_load_has_passed() -> None:
    rising_then_falling = path(10, 10, 50, 90, 50, 10, 10, 10)
    strategy = made(lead=120, bound="expected")
    counts = [wanted(strategy, rising_then_falling, at=NOW + 60 * minute) for minute in range(5)]
    assert counts == [9, 9, 9, 5, 1]


@pytest.mark.parametrize(
    ("forecast", "quality"),
    [
        pytest.param(None, Quality.EMPTY, id="no forecast"),
        pytest.param(None, Quality.ERROR, id="the source is down"),
        pytest.param(None, Quality.FRESH, id="a series that is no forecast"),
        pytest.param(path(50, 50), Quality.STALE, id="stale"),
        pytest.param(path(50, 50), Quality.INVALID, id="not trusted"),
        pytest.param(path(50, 50, doubt="no skill"), Quality.FRESH, id="doubted"),
        pytest.param(path(50, 50, expires=NOW), Quality.FRESH, id="expired this moment"),
        pytest.param(path(50, 50, first=NOW - 600), Quality.FRESH, id="it ended before now"),
        pytest.param(path(50, 50, first=NOW + 60), Quality.FRESH, id="it begins after now"),
        pytest.param(path(), Quality.FRESH, id="without values"),
    ],
)
def test_it_has_no_opinion_and_holds_nothing(forecast: Forecast | None, quality: Quality) -> None:
    said = made().recommend_replicas(seen(forecast, quality))
    assert (said.replicas, said.abstains) == (None, True)
    assert said.message
    both = replace(seen(forecast, quality), series={**observation([0.1, 0.1]).series, **seen(forecast, quality).series})
    assert judge(Hpa(), made(), seen=replace(both, at=NOW, confirmed=NOW)).blind is False


@pytest.mark.parametrize(
    ("forecast", "quality", "kept"),
    [
        pytest.param(None, Quality.EMPTY, True, id="not there yet"),
        pytest.param(None, Quality.ERROR, False, id="the source cannot be read"),
        pytest.param(path(5, 5, doubt="too short"), Quality.INVALID, False, id="none could be made"),
        pytest.param(path(5, 5, expires=NOW), Quality.STALE, False, id="expired"),
        pytest.param(path(5, 5), Quality.FRESH, False, id="there"),
    ],
)
def test_only_a_forecast_still_to_come_delays_a_scale_in(
    forecast: Forecast | None, quality: Quality, kept: bool
) -> None:
    idle = replace(observation([0.1] * 3, at=NOW), confirmed=NOW)
    series = {**idle.series, **seen(forecast, quality).series}
    decision = judge(Hpa(downscale_stabilization=0), made(), seen=replace(idle, series=series))
    assert (decision.verdict, decision.replicas) == (("hold", 3) if kept else ("scale", 1))
    assert (decision.reason == "NoForecastYet", decision.blind) == (kept, False)


def test_without_the_series_it_has_no_opinion() -> None:
    said = made().recommend_replicas(observation([0.5]))
    assert (said.replicas, said.abstains, said.message) == (None, True, "load is no forecast")


@pytest.mark.parametrize(
    ("busy", "ahead", "wish"),
    [
        pytest.param(0.1, 50.0, 5, id="the forecast raises"),
        pytest.param(0.79, 10.0, 3, id="and never lowers"),
        pytest.param(2.0, 50.0, 8, id="where the live load wants more that counts"),
    ],
)
def test_with_a_reactive_strategy_the_larger_wins(busy: float, ahead: float, wish: int) -> None:
    reactive = observation([busy] * 3)
    both = {
        **reactive.series,
        "load": Series("load", "ahead", Quality.FRESH, forecast=shifted(path(ahead, ahead, ahead))),
    }
    decision = judge(Hpa(), made(bound="expected", lead=60), seen=replace(reactive, series=both))
    assert decision.wish == wish


def shifted(forecast: Forecast) -> Forecast:
    """The same around the time of elasticd.testing."""
    off = observation().at - NOW
    return replace(forecast, fitted=forecast.fitted + off, expires=forecast.expires + off, first=forecast.first + off)


def test_a_recommendation_tells_the_forecast_its_time_and_its_method() -> None:
    said = made(lead=180).recommend_replicas(seen(path(10, 20, 30, 90, 10)))
    assert isinstance(said, Recommendation)
    assert (said.replicas, said.reason, said.message) == (
        18,
        "ForecastAbove",
        "180 (95% of it) in 120 s, looking 180 s ahead",
    )
    assert said.expires == NOW + 600
    (measure,) = said.measures
    assert (measure.metric, measure.current, measure.target, measure.replicas) == ("load", "180", "10", 18)
    assert (measure.reason, measure.message) == ("value", "fft, period 86400 s, skill 0.25, error 1.5")


@pytest.mark.parametrize(
    ("options", "forecast", "expected"),
    [
        pytest.param({"target": 25}, path(50, 50, 50), 2, id="value"),
        pytest.param({"target": None, "model": "mm1", "mu": 10, "wait": 0.2}, path(100, 100, 100), 20, id="mm1"),
        pytest.param({"target": None, "model": "mmc", "mu": 10, "wait": 0.2}, path(100, 100, 100), 11, id="mmc"),
        pytest.param(
            {"target": 50, "model": "linear", "slope": 0.4, "intercept": 5}, path(1e3, 1e3, 1e3), 9, id="a given line"
        ),
        pytest.param(
            {"target": 50, "model": "linear"}, path(1e3, 1e3, 1e3, per_pod=PerPod(0.4, 5, 0.95)), 9, id="a learnt line"
        ),
        pytest.param({"target": 50, "model": "linear"}, path(1e3, 1e3, 1e3), None, id="a line not learnt: no opinion"),
        pytest.param(
            {"target": 50, "model": "linear"},
            path(1e3, 1e3, 1e3, per_pod=PerPod(0.4, 50, 0.95)),
            None,
            id="a line by which no count is enough: no opinion",
        ),
        pytest.param({"target": 10}, path(0, 0, 0), 0, id="no load expected: none, the policy's min applies"),
        pytest.param({"target": 1e-9}, path(1e300, 1e300), MOST, id="a load beyond all counting"),
    ],
)
def test_each_model_makes_pods_of_a_load(options: dict[str, Any], forecast: Forecast, expected: int | None) -> None:
    given_ = {name: value for name, value in {**VALUE, **options}.items() if value is not None}
    strategy = convert({"type": "forecast", "bound": "expected", "lead": 60, **given_}, Ahead, "p.toml")
    assert wanted(strategy, forecast) == expected


QUEUE = {"series": "load", "mu": 10, "wait": 0.2}
LINE = {**VALUE, "model": "linear"}


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        pytest.param({"target": 1}, "series: must be given, is missing", id="no series"),
        pytest.param({"series": "", "target": 1}, "series: ", id="an empty name"),
        pytest.param({**VALUE, "lead": -1}, "lead: must be >= 0, is -1", id="looks back"),
        pytest.param({**VALUE, "bound": "lower"}, "bound: must be one of", id="hopes"),
        pytest.param({**VALUE, "model": "magic"}, "model: must be one of", id="no such model"),
        pytest.param({"series": "load"}, 'target: must be given for model = "value", is missing', id="no target"),
        pytest.param({**VALUE, "target": 0}, "target: must be > 0, is 0", id="a target of nothing"),
        pytest.param({**VALUE, "mu": 10}, 'mu: must be left out for model = "value", is 10', id="mu of a value"),
        pytest.param({**QUEUE, "mu": 0, "model": "mm1"}, "mu: must be > 0, is 0", id="never served"),
        pytest.param(
            {**QUEUE, "model": "mm1", "wait": 0.1},
            "wait: must be > 1 / mu = 0.1, the time of service alone, is 0.1",
            id="no time to wait",
        ),
        pytest.param(
            {"series": "load", "model": "mmc", "mu": 10}, 'wait: must be given for model = "mmc"', id="no wait"
        ),
        pytest.param(
            {**QUEUE, "model": "mmc", "target": 3}, 'target: must be left out for model = "mmc"', id="target of a queue"
        ),
        pytest.param(
            {**VALUE, "slope": 1, "intercept": 1}, 'slope: must be left out for model = "value"', id="slope of a value"
        ),
        pytest.param({**LINE, "slope": 1}, "intercept: must be given with slope, or both be learnt", id="half a line"),
        pytest.param({**LINE, "intercept": 1}, "slope: must be given with intercept", id="the other half"),
        pytest.param({**LINE, "slope": -1, "intercept": 1}, "slope: must be >= 0", id="a falling line"),
        pytest.param({**LINE, "slope": 1, "intercept": -1}, "intercept: must be >= 0", id="negative use"),
        pytest.param(
            {**LINE, "slope": 1, "intercept": 10}, "target: must be > intercept = 10, is 10", id="never enough"
        ),
    ],
)
def test_an_option_that_cannot_be_is_one_line(table: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        convert({"type": "forecast", **table}, Ahead, "p.toml")
    assert f"p.toml: {problem}" in str(caught.value)


@pytest.mark.parametrize("model", ["value", "linear"])
def test_it_does_nothing_that_no_strategy_may(model: str) -> None:
    assert check_strategy(made(model=model)) == []
    assert check_strategy(msgspec.convert({"type": "forecast", **QUEUE, "model": "mmc"}, Ahead)) == []


@given(some.lists(some.floats(0, 1e12), min_size=2, max_size=40), some.floats(0, 3600), some.floats(-600, 4000))
def test_whatever_is_expected_the_answer_is_a_count_or_none(values: list[float], lead: float, later: float) -> None:
    strategy = made(lead=lead)
    said = strategy.recommend_replicas(seen(path(*values), at=NOW + later))
    assert said.abstains or 0 <= (said.replicas or 0) <= MOST
    assert strategy.recommend_replicas(seen(path(*values), at=NOW + later)) == said
