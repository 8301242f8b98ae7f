"""What samples are worth: the grades, their boundaries, and that garbage never comes through."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticd.decision.quality import FUTURE, apart, cover, failed, grade
from elasticd.model.workload import Quality, Sample, Series

NOW, MAX_AGE = 10_000.0, 120.0
OLDEST, LATEST = NOW - MAX_AGE, NOW + FUTURE
INVALID_ONE = "1 of 1 samples are NaN, infinite, negative or of the future"


def sample(value: float = 1.0, measured: float = NOW, pod: str = "") -> Sample:
    return Sample(value, measured, NOW, pod=pod)


@pytest.mark.parametrize(
    ("one", "quality", "message"),
    [
        pytest.param(sample(), Quality.FRESH, "", id="fresh"),
        pytest.param(sample(0.0), Quality.FRESH, "", id="zero-is-a-number"),
        pytest.param(sample(-0.0), Quality.FRESH, "", id="negative-zero-is-zero"),
        pytest.param(sample(1e308), Quality.FRESH, "", id="huge"),
        pytest.param(sample(math.nan), Quality.INVALID, INVALID_ONE, id="nan"),
        pytest.param(sample(math.inf), Quality.INVALID, INVALID_ONE, id="infinite"),
        pytest.param(sample(-math.inf), Quality.INVALID, INVALID_ONE, id="minus-infinite"),
        pytest.param(sample(-1e-9), Quality.INVALID, INVALID_ONE, id="negative"),
        pytest.param(sample(measured=LATEST), Quality.FRESH, "", id="as-far-ahead-as-a-clock-may-be"),
        pytest.param(sample(measured=LATEST + 0.001), Quality.INVALID, INVALID_ONE, id="future"),
        pytest.param(sample(measured=math.nan), Quality.INVALID, INVALID_ONE, id="measured-at-nan"),
        pytest.param(sample(measured=OLDEST), Quality.FRESH, "", id="exactly-max-age"),
        pytest.param(
            sample(measured=OLDEST - 1), Quality.STALE, "1 of 1 samples are up to 121 s old, at most 120 s", id="stale"
        ),
        pytest.param(sample(math.nan, OLDEST - 1), Quality.INVALID, INVALID_ONE, id="garbage-is-told-before-age"),
    ],
)
def test_one_sample_is_graded(one: Sample, quality: Quality, message: str) -> None:
    series = grade("cpu", "test", [one], NOW, MAX_AGE)
    assert (series.quality, series.message) == (quality, message)
    assert series.samples == ((one,) if quality is Quality.FRESH else ())
    assert series.measured == (one.measured if series.samples else 0.0)


@pytest.mark.parametrize(
    ("heard", "pods", "quality", "message"),
    [
        pytest.param([], 2, Quality.EMPTY, "no sample", id="nobody"),
        pytest.param(["a"], 2, Quality.PARTIAL, "1 of 2 pods have a sample", id="one-of-two"),
        pytest.param(["a", "a"], 2, Quality.PARTIAL, "1 of 2 pods have a sample", id="two-containers-are-one-pod"),
        pytest.param(["a", "b"], 2, Quality.FRESH, "", id="all"),
        pytest.param(["a", "b", "c"], 2, Quality.FRESH, "", id="more-than-expected"),
        pytest.param(["a"], 1, Quality.FRESH, "", id="the-only-one"),
        pytest.param(["a", "x"], 2, Quality.PARTIAL, "1 of 2 pods have a sample", id="another-instead"),
        pytest.param([""], 0, Quality.FRESH, "", id="of-the-workload"),
    ],
)
def test_a_series_is_partial_when_pods_are_missing(heard: list[str], pods: int, quality: Quality, message: str) -> None:
    series = grade("cpu", "test", [sample(pod=pod) for pod in heard], NOW, MAX_AGE, set("abc"[:pods]))
    assert (series.quality, series.message) == (quality, message)
    assert series.trusted == (quality is not Quality.EMPTY)


def test_a_dropped_sample_spoils_the_series_but_not_its_neighbours() -> None:
    good, old, bad = sample(1, NOW - 5, "a"), sample(2, OLDEST - 60, "b"), sample(math.nan, NOW, "c")
    stale = grade("cpu", "test", [good, old], NOW, MAX_AGE)
    invalid = grade("cpu", "test", [good, old, bad], NOW, MAX_AGE)
    assert (stale.quality, stale.samples, stale.measured) == (Quality.STALE, (good,), NOW - 5)
    assert stale.message == "1 of 2 samples are up to 180 s old, at most 120 s"
    assert (invalid.quality, invalid.samples) == (Quality.INVALID, (good,))
    assert not stale.trusted
    assert not invalid.trusted


def test_useless_samples_count_as_missing_ones() -> None:
    good, old, bad = sample(1, NOW - 5, "a"), sample(2, OLDEST - 60, "b"), sample(math.nan, NOW, "c")
    series = grade("cpu", "test", [good, old, bad], NOW, MAX_AGE, {"a", "b", "c"})
    assert (series.quality, series.samples, series.measured) == (Quality.PARTIAL, (good,), NOW - 5)
    assert series.message == ("1 of 3 pods have a sample; 1 of 3 samples are NaN, infinite, negative or of the future")
    assert series.trusted


def test_pod_with_garbage_in_one_container_is_left_out_whole() -> None:
    good = Sample(1, NOW, NOW, pod="a", container="web")
    half = [Sample(math.nan, NOW, NOW, pod="b", container="web"), Sample(9, NOW, NOW, pod="b", container="log")]
    assert grade("cpu", "test", [good, *half], NOW, MAX_AGE, {"a", "b"}).samples == (good,)


@pytest.mark.parametrize(
    ("one", "quality"),
    [
        pytest.param(sample(math.nan, pod="a"), Quality.INVALID, id="garbage"),
        pytest.param(sample(1, OLDEST - 1, "a"), Quality.STALE, id="old"),
    ],
)
def test_series_without_a_usable_sample_is_graded_by_its_fault(one: Sample, quality: Quality) -> None:
    series = grade("cpu", "test", [one], NOW, MAX_AGE, {"a", "b"})
    assert (series.quality, series.samples, series.trusted) == (quality, (), False)


@pytest.mark.parametrize(
    ("heard", "settled", "coverage", "covered"),
    [
        pytest.param("ab", "abcd", 0.5, True, id="exactly"),
        pytest.param("a", "abcd", 0.5, False, id="too-few"),
        pytest.param("a", "a", 0.5, True, id="others-have-just-started"),
        pytest.param("", "", 1.0, True, id="all-have-just-started"),
        pytest.param("ax", "abcd", 0.5, False, id="those-that-are-not-expected-stand-for-nobody"),
        pytest.param("a", "abcd", 0.0, True, id="whoever-asks-for-nothing"),
        pytest.param("abc", "abcd", 1.0, False, id="whoever-asks-for-all"),
    ],
)
def test_partial_series_covers_when_enough_settled_pods_have_samples(
    heard: str, settled: str, coverage: float, covered: bool
) -> None:
    part = Series("cpu", "test", Quality.PARTIAL, tuple(sample(pod=pod) for pod in heard), "some")
    found = cover(part, set(settled), coverage)
    assert (found.covered, found.trusted, found.samples) == (covered, covered, part.samples)
    assert ("must" in found.message) is not covered


def test_a_sample_of_unknown_age_is_stale_and_told_so() -> None:
    series = grade("cpu", "test", [sample(measured=0.0)], 1.8e9, MAX_AGE)
    assert (series.quality, series.message) == (Quality.STALE, "1 of 1 samples are of unknown age, at most 120 s")


def test_samples_may_come_from_a_generator() -> None:
    assert grade("cpu", "test", (sample() for _ in range(2)), NOW, MAX_AGE).quality is Quality.FRESH


def test_an_unreadable_source_gives_a_series_with_the_reason() -> None:
    series = failed("cpu", "test", "connection refused")
    assert (series.quality, series.message, series.samples) == (Quality.ERROR, "connection refused", ())
    assert not series.trusted


FLOATS = st.floats(allow_nan=True, allow_infinity=True)


@given(st.lists(st.builds(Sample, FLOATS, FLOATS | st.floats(OLDEST - 9, LATEST + 9), st.just(NOW))))
def test_whatever_is_measured_only_usable_numbers_come_through(samples: list[Sample]) -> None:
    series = grade("cpu", "test", samples, NOW, MAX_AGE)
    assert all(0 <= one.value < math.inf and OLDEST <= one.measured <= LATEST for one in series.samples)
    assert series.trusted == (len(series.samples) == len(samples) > 0)


@pytest.mark.parametrize(
    ("halves", "settled", "kept"),
    [
        pytest.param([sample(pod="b")], "ab", "b", id="with it enough pods are heard of"),
        pytest.param([sample(pod="b")], "abcde", "", id="too few"),
        pytest.param([sample(1, OLDEST - 1, "b")], "ab", "", id="too old"),
        pytest.param([sample(math.nan, pod="b")], "ab", "", id="no number"),
        pytest.param([sample(-1, pod="b"), sample(pod="c")], "ac", "c", id="one of them is good"),
        pytest.param([sample(1, LATEST + 1, "b")], "ab", "", id="of the future"),
        pytest.param([sample(pod="b")], "", "b", id="all have just started"),
    ],
)
def test_usable_samples_of_pods_lacking_a_container_stand_apart(halves: list[Sample], settled: str, kept: str) -> None:
    whole = Series("cpu", "test", Quality.PARTIAL, (sample(pod="a"),))
    found = apart(whole, halves, set(settled), NOW, MAX_AGE, 0.5)
    assert ("".join(one.pod for one in found.apart), found.samples) == (kept, whole.samples)
