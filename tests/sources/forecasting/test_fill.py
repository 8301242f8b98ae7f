"""From samples as they came to a regular series: gaps, garbage, outliers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from elasticd.sources.forecasting.fit import Regular, filled, on_grid, without_outliers

NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    ("times", "values", "first", "expected"),
    [
        pytest.param([60, 120, 180], [1, 2, 3], 60, [1, 2, 3], id="on the steps"),
        pytest.param([61, 90, 120, 121], [1, 2, 3, 9], 120, [2, 9], id="the mean of a step, which ends at its time"),
        pytest.param([60, 240], [1, 4], 60, [1, NAN, NAN, 4], id="a gap is not known"),
        pytest.param([60, 120, 180], [1, NAN, 3], 60, [1, NAN, 3], id="NaN is no sample"),
        pytest.param([60, 120, 180], [1, INF, 3], 60, [1, NAN, 3], id="infinity is none"),
        pytest.param([60, 120, 180], [1, -2, 3], 60, [1, NAN, 3], id="nor is less than nothing"),
        pytest.param([60, NAN, 120], [1, 2, 3], 60, [1, 3], id="nor one without a time"),
        pytest.param([180, 60, 120], [3, 1, 2], 60, [1, 2, 3], id="in any order"),
        pytest.param([90], [5], 120, [5], id="one sample"),
        pytest.param([], [], 0, [], id="no sample"),
        pytest.param([60], [NAN], 0, [], id="none of use"),
    ],
)
def test_samples_become_steps(times: list[float], values: list[float], first: float, expected: list[float]) -> None:
    found = on_grid(np.array(times, float), np.array(values, float), 60.0)
    assert found.first == first
    assert found.values == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    ("values", "longest", "first", "expected"),
    [
        pytest.param([1, NAN, 3], 3600, 0, [1, 2, 3], id="a gap is bridged"),
        pytest.param([NAN, NAN, 1, 2], 3600, 120, [1, 2], id="it begins with the first sample"),
        pytest.param([1, 2, NAN, NAN], 3600, 0, [1, 2], id="and ends with the last"),
        pytest.param([1, NAN, NAN, 4, 5], 180, 0, [1, 2, 3, 4, 5], id="as long as may be"),
        pytest.param([1, NAN, NAN, 4, 5], 120, 180, [4, 5], id="longer: what is before is dropped"),
        pytest.param([1, NAN, NAN, 4, NAN, NAN, 7], 120, 360, [7], id="before the last such gap"),
        pytest.param([NAN, NAN], 3600, 0, [], id="nothing known"),
        pytest.param([], 3600, 0, [], id="nothing"),
    ],
)
def test_gaps_are_filled_or_cut(values: list[float], longest: float, first: float, expected: list[float]) -> None:
    found = filled(Regular(0.0, 60.0, np.array(values, float)), longest)
    assert (found.first, found.values.tolist()) == (first, expected)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([5.0] * 2000 + [900.0] + [5.0] * 10, [5.0] * 2011, id="a spike becomes what was before"),
        pytest.param([900.0] + [5.0] * 2000, [5.0] * 2001, id="the first takes the next good one"),
        pytest.param([5.0], [5.0], id="one"),
        pytest.param([], [], id="none"),
    ],
)
def test_outliers_take_the_value_before(values: list[float], expected: list[float]) -> None:
    assert without_outliers(np.array(values)).tolist() == expected


@given(some.lists(some.one_of(some.floats(0, 1e9), some.just(NAN)), max_size=60))
def test_filled_series_have_no_gaps_and_stay_within_observed_values(values: list[float]) -> None:
    series = np.array(values)
    found = filled(Regular(0.0, 60.0, series)).values
    assert not np.isnan(found).any()
    if len(found):
        assert np.nanmin(series) <= found.min() <= found.max() <= np.nanmax(series)
