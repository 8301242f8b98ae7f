"""That payloads are read for what they say, and nothing else is made of them."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticd.sources.mqtt import payload as forms
from elasticd.sources.mqtt.payload import RefusedError, compile_path

NESTED = {"load": {"cpu": [{"value": 3.5}], "a b": 1}, "ts": 5}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("ts", 5),
        ("$.ts", 5),
        ("load.cpu[0].value", 3.5),
        ("load.a b", 1),
        ("$", NESTED),
        ("load.cpu[1].value", None),
        ("load.cpu.value", None),
        ("ts.value", None),
        ("ts[0]", None),
        ("nothing", None),
    ],
)
def test_a_path_leads_to_what_is_there(path: str, found: object) -> None:
    assert forms.dig(NESTED, compile_path(path)) == found


@pytest.mark.parametrize("path", ["", ".a", "a..b", "a.", "a[b]", "a[-1]", "a[0", "a]b", "[0]x"])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="must be a path like"):
        compile_path(path)


@pytest.mark.parametrize(
    ("payload", "value"), [(b"3.5", 3.5), (b" 12\n", 12.0), (b"-1", -1.0), (b"1e3", 1000.0), (b"inf", math.inf)]
)
def test_a_number_alone_is_read(payload: bytes, value: float) -> None:
    assert forms.number(payload) == value


def test_nan_is_passed_on_for_judgement_to_grade() -> None:
    assert math.isnan(forms.number(b"NaN"))


@pytest.mark.parametrize(
    "payload", [b"", b"1_000", b"12 %", b"0x10", b"{}", b"null", b"1,5", b"\xff\xfe", b"9" * 65, "٣".encode()]
)
def test_a_number_is_not_made_of_something_else(payload: bytes) -> None:
    with pytest.raises(RefusedError, match="value"):
        forms.number(payload)


@given(st.binary(max_size=80))
def test_no_bytes_do_worse_than_be_refused(payload: bytes) -> None:
    for form in (forms.number, forms.document):
        try:
            form(payload)
        except RefusedError as reason:
            assert str(reason) in {"value", "json"}  # noqa: PT017 - any of the two


@pytest.mark.parametrize(
    "payload", [b"", b"{", b'{"a": NaN}', b"[1,]", b'{"a": "\xff"}', b"[" * 100_000, b"1e999", b'{"a":1} x']
)
def test_what_is_no_json_is_refused(payload: bytes) -> None:
    with pytest.raises(RefusedError, match="json"):
        forms.document(payload)


@pytest.mark.parametrize("found", [None, True, "3.5", [], {}, 10**400])
def test_only_a_number_is_a_value(found: object) -> None:
    with pytest.raises(RefusedError, match="value"):
        forms.value_of(found)


@given(JSON)
def test_a_value_is_made_only_of_a_number(found: Any) -> None:
    number = type(found) in (int, float)
    try:
        value = forms.value_of(json.loads(json.dumps(found)))
    except RefusedError:
        assert not number or abs(found) > 1e308
    else:
        assert number
        assert value == pytest.approx(found)


@pytest.mark.parametrize(
    ("found", "seconds"),
    [
        (1_700_000_000, 1_700_000_000.0),
        (1_700_000_000.5, 1_700_000_000.5),
        (1_700_000_000_500, 1_700_000_000.5),
        ("2023-11-14T22:13:20Z", 1_700_000_000.0),
        ("2023-11-14T23:13:20.250+01:00", 1_700_000_000.25),
    ],
)
def test_times_are_seconds_milliseconds_or_rfc_3339(found: object, seconds: float) -> None:
    assert forms.time_of(found) == seconds


@pytest.mark.parametrize(
    "found",
    [None, True, 0, -1, 1e15, math.nan, math.inf, "yesterday", "2023-11-14T22:13:20", "2023-11-14", "", [1], 10**400],
)
def test_a_time_that_cannot_be_is_refused(found: object) -> None:
    with pytest.raises(RefusedError, match="time"):
        forms.time_of(found)


@pytest.mark.parametrize("found", [None, True, 1.0, "1"])
def test_a_sequence_is_a_whole_number(found: object) -> None:
    with pytest.raises(RefusedError, match="sequence"):
        forms.sequence_of(found)


def test_items_are_of_an_array_or_an_object() -> None:
    assert list(forms.items_of([1, 2])) == [("", 1), ("", 2)]
    assert list(forms.items_of({"web-1": 1})) == [("web-1", 1)]
    with pytest.raises(RefusedError, match="items"):
        forms.items_of("web-1")
