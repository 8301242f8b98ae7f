"""What is expected when, how it is graded, and what is kept of it."""

import pytest

from elasticd.decision.decide import Case, decide
from elasticd.decision.observe import fingerprint, observe
from elasticd.kit.history import begin
from elasticd.model.forecast import Forecast, PerPod
from elasticd.model.policy import Bounds, Policy, Trust
from elasticd.model.workload import Quality, Readings, Ref, Sample
from elasticd.registry import Hooks
from tests.decision.test_observe import NOW, PODS, POLICY, REF, WORKLOAD, View

WAVE = Forecast(
    "fft",
    fitted=NOW - 60,
    expires=NOW + 600,
    first=NOW - 60,
    step=60.0,
    values=(1.0, 2.0, 3.0, 4.0),
    lower=(1.0, 1.0, 2.0, 3.0),
    upper=(1.0, 3.0, 4.0, 5.0),
    period=86400.0,
    skill=0.25,
)


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        pytest.param(NOW, NOW, range(1, 2), id="now"),
        pytest.param(NOW, NOW + 60, range(1, 3), id="a step"),
        pytest.param(NOW + 1, NOW + 61, range(1, 4), id="from before the first to after the last"),
        pytest.param(NOW, NOW + 59.9999999, range(1, 3), id="what rounding takes off"),
        pytest.param(NOW, NOW + 6000, range(1, 4), id="as far as it reaches"),
        pytest.param(NOW + 120, NOW + 120, range(3, 4), id="its last value"),
        pytest.param(NOW + 180, NOW + 180, None, id="behind its end"),
        pytest.param(NOW - 61, NOW, None, id="before its beginning"),
    ],
)
def test_a_window_covers_its_ends(first: float, last: float, expected: range | None) -> None:
    assert WAVE.window(first, last) == expected


def test_a_forecast_without_values_has_no_window() -> None:
    assert WAVE.summary().window(NOW, NOW) is None
    assert WAVE.summary() == Forecast("fft", NOW - 60, NOW + 600, NOW - 60, 60.0, period=86400.0, skill=0.25)


def said(forecast: Forecast | None, fault: str = "") -> Readings:
    known = {} if forecast is None else {str(REF): forecast}
    return Readings("ahead", NOW, forecasts={"load": known}, faults={"load": fault} if fault else {})


def doubted(why: str) -> Forecast:
    return Forecast("fft", NOW, NOW + 600, NOW, values=(1.0,), doubt=why)


@pytest.mark.parametrize(
    ("readings", "quality", "values", "message"),
    [
        pytest.param(said(WAVE), Quality.FRESH, [2.0], "fft, period 86400 s, skill 0.25", id="believed"),
        pytest.param(
            said(Forecast("holt", NOW, NOW + 1, NOW, values=(7.0,))), Quality.FRESH, [7.0], "holt", id="without period"
        ),
        pytest.param(said(doubted("no skill")), Quality.INVALID, [1.0], "no skill", id="doubted"),
        pytest.param(
            said(Forecast("fft", NOW - 900, NOW, NOW - 900, values=(1.0,))),
            Quality.STALE,
            [],
            "the forecast expired 0 s ago",
            id="expired, and at its end",
        ),
        pytest.param(said(None), Quality.EMPTY, [], "there is no forecast of it yet", id="not fitted yet"),
        pytest.param(said(None, "down"), Quality.EMPTY, [], "there is no forecast of it yet: down", id="why not"),
    ],
)
def test_a_forecast_is_graded(readings: Readings, quality: Quality, values: list[float], message: str) -> None:
    found = observe(POLICY, WORKLOAD, View(PODS), [readings], frozenset({"load"}), NOW).series["load"]
    assert (found.source, found.quality, found.message) == ("ahead", quality, message)
    assert [sample.value for sample in found.samples] == values
    assert found.trusted == (quality is Quality.FRESH)


def test_a_forecasts_sample_is_current_but_dated_by_its_fit() -> None:
    found = observe(POLICY, WORKLOAD, View(PODS), [said(WAVE)], frozenset({"load"}), NOW).series["load"]
    assert found.samples == (Sample(2.0, NOW - 60, NOW),)
    assert (found.measured, found.forecast) == (NOW - 60, WAVE)


@pytest.mark.parametrize("trust", [Trust(unknown="up-only"), Trust(zero_when_empty=("load",))], ids=["up-only", "zero"])
@pytest.mark.parametrize("forecast", [None, doubted("no skill")], ids=["none", "doubted"])
def test_a_forecast_never_holds_a_count_and_is_never_zero(trust: Trust, forecast: Forecast | None) -> None:
    policy = Policy(name="p", replicas=Bounds(10), strategies=(), trust=trust)
    found = observe(policy, WORKLOAD, View(PODS), [said(forecast)], frozenset({"load"}), NOW).series["load"]
    assert not found.may_raise
    assert 0.0 not in [sample.value for sample in found.samples]


def test_another_workloads_forecast_is_not_taken() -> None:
    other = Readings("ahead", NOW, forecasts={"load": {str(Ref("shop", "Deployment", "cart")): WAVE}})
    found = observe(POLICY, WORKLOAD, View(PODS), [other], frozenset({"load"}), NOW).series["load"]
    assert found.quality is Quality.EMPTY


def test_a_decision_keeps_a_forecasts_summary_and_not_its_values() -> None:
    learnt = Forecast(
        **{**{name: getattr(WAVE, name) for name in WAVE.__struct_fields__}, "per_pod": PerPod(1, 2, 0.9)}
    )
    seen = observe(POLICY, WORKLOAD, View(PODS), [said(learnt)], frozenset({"load"}), NOW)
    decision = decide(Case(POLICY, seen, begin(NOW, 2), Hooks(())))
    (kept,) = decision.series
    assert kept.forecast == learnt.summary()
    assert kept.samples == seen.series["load"].samples
    assert seen.series["load"].forecast == learnt


def test_a_fresh_fit_is_something_new() -> None:
    def mark(forecast: Forecast) -> object:
        return fingerprint(observe(POLICY, WORKLOAD, View(PODS), [said(forecast)], frozenset({"load"}), NOW))

    later = Forecast("fft", NOW, NOW + 600, NOW, values=(2.0,))
    assert mark(WAVE) == mark(WAVE)
    assert mark(WAVE) != mark(later)
