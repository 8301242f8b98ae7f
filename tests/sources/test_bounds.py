"""What a stranger's source answers: what is right stays as it is, and what is wrong is told and bounded.

tests/test_rogues.py has a daemon with every kind of garbage."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elasticd.model.forecast import Forecast
from elasticd.model.workload import BulkLookup, Readings, Sample
from elasticd.sources.bounds import LARGEST_DETAILS, LONGEST_NAME, MOST_FAULTS, checked, plain, within

NOW = 1000.0
ONE = Sample(1.0, NOW, NOW)

names = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=20)
floats = st.floats(allow_nan=False)
samples = st.builds(Sample, floats, floats, floats, floats, st.just("") | names, st.just("") | names)
tables = st.dictionaries(names, st.dictionaries(names, st.tuples(samples) | st.tuples(samples, samples), max_size=3))
readings = st.builds(
    Readings,
    names,
    floats,
    tables,
    tables,
    tables,
    faults=st.dictionaries(names, names),
    newest=st.none() | floats,
    doubts=st.dictionaries(names, names),
    doubted_workloads=st.dictionaries(names, names),
    counted=st.dictionaries(names, st.integers(0, 9)),
)
garbage = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.just(ONE),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner),
)
wrong = st.builds(
    Readings,
    garbage,
    garbage,
    garbage,
    garbage,
    garbage,
    garbage,
    garbage,
    newest=garbage,
    forecasts=garbage,
    doubts=garbage,
    doubted_workloads=garbage,
    counted=garbage,
)


@pytest.mark.slow
@given(readings)
def test_what_is_right_stays_as_it_is(said: Readings) -> None:
    found = checked(said, said.source, NOW, 10_000)
    assert found == said
    for table, before in ((found.pods, said.pods), (found.nodes, said.nodes)):
        for series, subjects in table.items():
            for key, found_there in subjects.items():
                assert all(one is other for one, other in zip(found_there, before[series][key], strict=True))


@pytest.mark.slow
@given(wrong | garbage)
def test_checked_readings_never_raise_and_stay_plain(said: Any) -> None:
    found = checked(said, "mine", NOW, 1000)
    assert len(found.error) <= 500
    assert checked(found, "mine", NOW, 1000) == found or any(map(math.isnan, _numbers(found)))


def _numbers(said: Readings) -> list[float]:
    tables = (said.pods, said.workloads, said.nodes)
    samples = [one for table in tables for by in table.values() for given in by.values() for one in given]
    return [said.received, said.newest or 0.0, *[number for one in samples for number in one[:4]]]  # type: ignore[index]


class Name(str):
    """Text that is not what it seems."""

    def __str__(self) -> str:
        return "another"


class Number(float):
    """A number that cannot be compared."""

    def __lt__(self, other: object) -> bool:
        raise SystemExit


@pytest.mark.parametrize(
    ("value", "number"),
    [
        pytest.param(1, 1.0, id="a whole number"),
        pytest.param(np.float64(1.5), 1.5, id="numpy's double"),
        pytest.param(np.float32(1.5), 1.5, id="numpy's single"),
        pytest.param(np.int64(7), 7.0, id="numpy's whole number"),
        pytest.param(Number(2.5), 2.5, id="a number of its own"),
        pytest.param(math.inf, math.inf, id="infinity"),
    ],
)
def test_a_number_is_a_double_afterwards(value: Any, number: float) -> None:
    said = Readings("x", NOW, nodes={"load": {Name("n"): [Sample(value, NOW, NOW, 0, "", Name("c"))]}})  # type: ignore[dict-item]
    (key, (found,)) = next(iter(checked(said, "x", NOW, 10).nodes["load"].items()))
    assert (found.value, type(found.value)) == (number, float)
    assert (key, type(key), found.container, type(found.container)) == ("n", str, "c", str)


@pytest.mark.parametrize("value", [True, "1", None, 1j, 10**400, [1.0]], ids=str)
def test_a_value_that_is_no_number_faults_only_its_series(value: Any) -> None:
    said = Readings("x", NOW, pods={"good": {"a/b": (ONE,)}, "bad": {"a/b": (Sample(value, NOW, NOW),)}})
    found = checked(said, "x", NOW, 10)
    assert (found.error, found.pods, [*found.faults]) == ("", {"good": {"a/b": (ONE,)}}, ["bad"])
    assert found.faults["bad"].startswith("pods, a/b: must be a number")


@pytest.mark.parametrize(
    ("pods", "most", "told"),
    [
        pytest.param({"s": {"a": (ONE, ONE), "b": (ONE,)}}, 4, False, id="as many as may be"),
        pytest.param({"s": {"a": (ONE, ONE), "b": (ONE, ONE)}}, 4, True, id="one too many"),
        pytest.param({"s": {f"a{n}": () for n in range(5)}}, 4, True, id="subjects without any"),
        pytest.param({f"s{n}": {} for n in range(5)}, 4, True, id="series without any"),
    ],
)
def test_an_answer_with_too_many_samples_is_refused_entirely(pods: Any, most: int, told: bool) -> None:
    error = checked(Readings("x", NOW, pods=pods), "x", NOW, most).error
    assert error == (
        f"too many samples: a read must have at most {most} (max_samples in elasticd.toml), has more" if told else ""
    )


@pytest.mark.parametrize("table", ["pods", "workloads", "nodes"])
def test_the_ceiling_holds_for_every_source(table: str) -> None:
    said = replace(Readings("x", NOW), **{table: {"s": {"a": (ONE, ONE), "b": (ONE,)}}})
    assert within(said, 3) is said
    assert within(said, 2).error.startswith("too many samples: a read must have at most 2 ")
    assert within(Readings("x", NOW, error="down"), 0).error == "down"


def test_faults_are_bounded_in_number_and_length() -> None:
    bad = {f"s{n}": {"a/b": 7} for n in range(MOST_FAULTS)}
    said = Readings("x", NOW, pods=bad, faults={f"f{n}": "y" * 10_000 for n in range(MOST_FAULTS)})  # type: ignore[arg-type]
    found = checked(said, "x", NOW, 10**6).faults
    assert len(found) == MOST_FAULTS
    assert max(map(len, found.values())) <= 500
    only = checked(Readings("x", NOW, faults={"f": "y" * 10_000}), "x", NOW, 10).faults
    assert only == {"f": "y" * 497 + "..."}


@pytest.mark.parametrize("name", ["", "x" * (LONGEST_NAME + 1), "a\nb", "\x1b[31m", "\ud800", 7], ids=ascii)
def test_a_name_that_is_none_is_refused(name: Any) -> None:
    for said in (Readings("x", NOW, pods={name: {}}), Readings("x", NOW, faults={name: "f"})):
        assert "must be a name of 1 to 1000 characters" in checked(said, "x", NOW, 10).error
    for subjects in ({name: (ONE,)}, {"a/b": (Sample(1.0, NOW, NOW, 0.0, "", name or "\n"),)}):
        found = checked(Readings("x", NOW, pods={"s": subjects}), "x", NOW, 10)
        assert "must be a name of 1 to 1000 characters" in found.faults["s"]


FORECAST = Forecast("holt", NOW, NOW + 60, values=(1.0, 2.0), doubt="none")


@pytest.mark.parametrize(
    ("given", "most", "found"),
    [
        pytest.param(FORECAST, 10, FORECAST, id="right"),
        pytest.param(Forecast("holt", 1, 2), 10, Forecast("holt", 1.0, 2.0), id="whole numbers"),
        pytest.param(Forecast("holt", "1", 2.0), 10, None, id="text for a time"),  # type: ignore[arg-type]
        pytest.param(Forecast("holt", 1.0, 2.0, values=("a",)), 10, None, id="text for a value"),  # type: ignore[arg-type]
        pytest.param(ONE, 10, None, id="a sample"),
        pytest.param(FORECAST, 3, "too many", id="too long"),
    ],
)
def test_a_forecast_is_checked_too(given: Any, most: int, found: Any) -> None:
    said = checked(Readings("x", NOW, forecasts={"load": {"a/b/c": given}}), "x", NOW, most)
    if found == "too many":
        assert said.error.startswith(found)
    elif found is None:
        assert said.forecasts == {}
        assert said.faults["load"].startswith("forecasts: must be Forecasts, one is ")
    else:
        assert (said.forecasts, said.faults) == ({"load": {"a/b/c": found}}, {})


@pytest.mark.parametrize(
    ("said", "counts", "shown"),
    [
        pytest.param({"a": (1, 2)}, None, {"a": [1, 2]}, id="plain"),
        pytest.param({"a": 1}, {"read": 7}, {"a": 1}, id="counted"),
        pytest.param(["a"], {"read": 7}, ["a"], id="a list has no counts"),
    ],
)
def test_what_a_source_says_of_itself_is_plain(said: Any, counts: Mapping[str, int] | None, shown: Any) -> None:
    found = plain(said, counts)
    assert found == shown
    assert getattr(found, "counted", None) == (counts if isinstance(said, dict) and counts else None)


@pytest.mark.parametrize("said", [object(), "x" * LARGEST_DETAILS], ids=["no JSON", "too large"])
def test_what_cannot_be_shown_of_a_source_is_refused(said: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        plain(said, None)


class Computed(BulkLookup, dict[str, tuple[Sample, ...]]):
    """A table that computes its samples when they are looked up."""

    def values(self) -> Any:
        raise AssertionError("all of them were computed")


def test_lazily_computed_samples_are_not_counted() -> None:
    said = Readings("own", 5.0, pods={"cpu": Computed()})
    assert within(said, 0) is said
