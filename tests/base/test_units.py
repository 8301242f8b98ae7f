"""Quantities and thousandths: every suffix, every edge, and arithmetic that agrees with exact decimals."""

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticd.base.units import format_milli, go_seconds, milli, parse_quantity, parse_time

EXPONENTS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("0", 0.0, id="zero"),
        pytest.param("2", 2.0, id="whole"),
        pytest.param("+2", 2.0, id="plus"),
        pytest.param("-2", -2.0, id="minus"),
        pytest.param("250m", 0.25, id="milli"),
        pytest.param("1.1k", 1100.0, id="kilo"),
        pytest.param("0.3u", 3e-7, id="micro-rounds-once"),
        pytest.param("1536Mi", 1.5 * 2**30, id="mebi"),
        pytest.param("1.5Gi", 1.5 * 2**30, id="fraction-of-gibi"),
        pytest.param("1E", 1e18, id="exa-not-exponent"),
        pytest.param("1E3", 1e3, id="exponent-not-exa"),
        pytest.param("1e-3", 1e-3, id="negative-exponent"),
        pytest.param(".5", 0.5, id="no-leading-digit"),
        pytest.param("5.", 5.0, id="no-trailing-digit"),
    ],
)
def test_a_quantity_is_read_in_its_base_unit(text: str, value: float) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "1 Gi",
        "1gi",
        "1K",
        "Gi",
        "1.2.3",
        "1e",
        "1e3Ki",
        "--1",
        "0x10",
        "1_000",
        "1\n",
        "\u0663",
        "nan",
        "inf",
        ".",
    ],
)
def test_what_is_no_quantity_is_refused_and_shown(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be a quantity such as 250m, 2 or 1\.5Gi, is "):
        parse_quantity(text)


@pytest.mark.parametrize("text", ["1e999", "9" * 400, "9" * 308 + "Ei"])
def test_a_quantity_that_no_double_holds_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be less than"):
        parse_quantity(text)


@given(number=st.integers(0, 10**25), suffix=st.sampled_from(sorted(EXPONENTS)), zeros=st.integers(0, 3))
def test_a_whole_quantity_is_the_nearest_double(number: int, suffix: str, zeros: int) -> None:
    assert parse_quantity(f"{'0' * zeros}{number}{suffix}") == float(Decimal(number).scaleb(EXPONENTS[suffix]))


@given(number=st.integers(0, 10**40), suffix=st.sampled_from(["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]))
def test_binary_quantity_equals_the_same_quantity_with_decimal_point(number: int, suffix: str) -> None:
    assert parse_quantity(f"{number}{suffix}") == parse_quantity(f"{number}.0{suffix}")


@given(number=st.decimals(0, 10**6, places=9), suffix=st.sampled_from(sorted(EXPONENTS)))
def test_a_decimal_quantity_is_the_nearest_double(number: Decimal, suffix: str) -> None:
    assert parse_quantity(f"{number:f}{suffix}") == float(number.scaleb(EXPONENTS[suffix]))


@pytest.mark.parametrize(
    ("value", "thousandths"),
    [
        pytest.param(0.0, 0, id="zero"),
        pytest.param(0.069, 69, id="binary-noise-is-not-rounded-up"),
        pytest.param(0.0690001, 70, id="a-real-rest-is-rounded-up"),
        pytest.param(1e-9, 1, id="one-nano"),
        pytest.param(1e30, 10**33 + 19884624838656000, id="beyond-integers-of-a-double"),
        pytest.param(-0.0015, -1, id="negative-rounds-up"),
    ],
)
def test_thousandths_are_rounded_up(value: float, thousandths: int) -> None:
    assert milli(value) == thousandths


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_thousandths_of_what_is_not_finite_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="must be finite, is "):
        milli(value)


@given(st.integers(-(10**9), 10**9))
def test_thousandths_survive_a_double(thousandths: int) -> None:
    assert milli(thousandths / 1000) == thousandths


@given(st.decimals(0, 10**5, places=9))
def test_a_quantity_in_thousandths_is_the_exact_ceiling(number: Decimal) -> None:
    assert milli(parse_quantity(f"{number:f}")) == math.ceil(number * 1000)


@pytest.mark.parametrize(
    ("thousandths", "text"),
    [(0, "0"), (1, "1m"), (1000, "1"), (1500, "1500m"), (-1500, "-1500m"), (-2000, "-2"), (10**18, "1" + "0" * 15)],
)
def test_thousandths_are_printed_as_kubernetes_prints_them(thousandths: int, text: str) -> None:
    assert format_milli(thousandths) == text


@given(st.integers(-(10**9), 10**9))
def test_printed_thousandths_are_read_back(thousandths: int) -> None:
    assert milli(parse_quantity(format_milli(thousandths))) == thousandths


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("1m0s", 60),
        ("1h2m3s", 3723),
        ("10.5s", 10.5),
        ("500ms", 0.5),
        ("1.5µs", 1.5e-6),
        ("0s", 0),
        ("", 0),
        ("soon", 0),
        ("5", 0),
    ],
)
def test_durations_are_those_of_go(text: str, seconds: float) -> None:
    assert go_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        pytest.param("1970-01-01T00:00:01Z", 1.0, id="in UTC"),
        pytest.param("1970-01-01T02:00:00.5+02:00", 0.5, id="with an offset"),
        pytest.param("1970-01-01T00:00:01", math.nan, id="without an offset"),
        pytest.param("yesterday", math.nan, id="no time"),
    ],
)
def test_a_written_time_is_seconds_since_the_epoch(text: str, seconds: float) -> None:
    assert parse_time(text) == pytest.approx(seconds, nan_ok=True)
