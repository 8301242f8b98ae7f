"""Decoding tables: whatever is wrong is one line, with the key's whole path."""

from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct, field

from elasticd.base.decode import convert
from elasticd.base.errors import ConfigError


class Point(Struct, frozen=True, forbid_unknown_fields=True, tag="point"):
    """A point whose halves must agree."""

    x: int
    y: float = 0.0

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError(f"x: must be >= 0, is {self.x}")
        if self.y == 13:
            raise ValueError("must have better luck\nnext time")
        if self.y == 14:
            raise KeyError("oops")


class Line(Struct, frozen=True, forbid_unknown_fields=True, tag="line"):
    """A line."""

    ends: Annotated[tuple[Point, ...], Meta(min_length=1)]


class Sheet(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that can be nested."""

    shape: Point | Line | None = None
    shapes: list[Point | Line] = field(default_factory=list)
    labels: dict[str, int] = {}
    deep: dict[str, dict[str, list[int]]] = {}
    mode: Literal["fast", "slow"] = "fast"
    level: Literal[1, 2] = 1
    word: Annotated[str, Meta(min_length=1, max_length=4)] = "w"
    share: Annotated[float, Meta(gt=0, lt=1)] = 0.5
    either: int | str = 0


def line(x: Any) -> dict[str, Any]:
    return {"type": "line", "ends": [{"type": "point", "x": 1}, {"type": "point", "x": x}]}


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        pytest.param({"lables": 1}, 'lables: no such key, did you mean "labels"?', id="misspelt"),
        pytest.param({"qqqqqq": 1}, "qqqqqq: no such key", id="nothing-like-it"),
        pytest.param({"a\nb": 1}, "a b: no such key", id="a-key-of-two-lines"),
        pytest.param({"shape": {"x": 1}}, "shape.type: must be given, is missing", id="a-union-without-a-tag"),
        pytest.param(
            {"shape": {"type": "pont", "x": 1}},
            'shape.type: must be one of point, line, is "pont", did you mean "point"?',
            id="a-misspelt-tag",
        ),
        pytest.param({"shape": {"type": 5}}, "shape.type: must be a string, is 5", id="a-tag-that-is-no-string"),
        pytest.param({"shape": {"type": "point"}}, "shape.x: must be given, is missing", id="missing-in-a-union"),
        pytest.param(
            {"shape": {"type": "point", "x": 1, "yy": 1}}, 'shape.yy: no such key, did you mean "y"?', id="union"
        ),
        pytest.param({"shape": 5}, "shape: must be a table, is 5", id="null-is-not-offered"),
        pytest.param(
            {"shapes": {"type": "point"}}, "shapes: must be an array, is one table: write [[shapes]]", id="one"
        ),
        pytest.param({"shapes": [line(1), 3]}, "shapes[1]: must be a table, is 3", id="an-entry"),
        pytest.param({"shapes": [line("a")]}, 'shapes[0].ends[1].x: must be a whole number, is "a"', id="nested"),
        pytest.param({"shapes": [line(-1)]}, "shapes[0].ends[1].x: must be >= 0, is -1", id="a-nested-check"),
        pytest.param(
            {"shape": {"type": "point", "x": 1, "y": 13}},
            "shape: must have better luck next time",
            id="a-keyless-check",
        ),
        pytest.param(
            {"shape": {"type": "point", "x": 1, "y": 14}},
            "shape: must be something its type can check, raised KeyError: 'oops'",
            id="a-check-that-fails",
        ),
        pytest.param({"shape": {"type": "line", "ends": []}}, "shape.ends: must not be empty, is []", id="empty"),
        pytest.param(
            {"labels": {"a": 1, "b": "x"}}, 'labels.b: must be a whole number, is "x"', id="an-entry-of-a-table"
        ),
        pytest.param({"labels": {"a": [1]}}, "labels.a: must be a whole number, is [1]", id="an-array-in-a-table"),
        pytest.param({"labels": []}, "labels: must be a table, is []", id="an-array-for-a-table"),
        pytest.param({"labels": {"a": None}}, "labels.a: must be a whole number, is null", id="not-of-toml"),
        pytest.param({"deep": {"a": {}, "b": 5}}, "deep.b: must be a table, is 5", id="a-number-for-a-table"),
        pytest.param({"deep": {"a": {"b": 5}}}, "deep.a.b: must be an array, is 5", id="in-a-table-of-tables"),
        pytest.param(
            {"deep": {"a": {}, "b": {"c": [0], "d": [1, "x"]}}},
            'deep.b.d[1]: must be a whole number, is "x"',
            id="in-an-array-in-a-table-of-tables",
        ),
        pytest.param(
            {"mode": "fats"}, 'mode: must be one of fast, slow, is "fats", did you mean "fast"?', id="a-choice"
        ),
        pytest.param({"level": 3}, "level: must be one of 1, 2, is 3", id="a-number-of-a-few"),
        pytest.param({"word": ""}, 'word: must not be empty, is ""', id="an-empty-word"),
        pytest.param({"share": 0}, "share: must be > 0, is 0", id="exclusive-below"),
        pytest.param({"share": 1.0}, "share: must be < 1, is 1.0", id="exclusive-above"),
        pytest.param({"share": True}, "share: must be a number, is true", id="true-is-no-number"),
        pytest.param({"share": float("nan")}, "share: must be finite, is nan", id="nan"),
        pytest.param({"shapes": [{"y": float("-inf")}]}, "shapes[0].y: must be finite, is -inf", id="nested-infinity"),
        pytest.param({"either": 1.5}, "either: must be a whole number or a string, is 1.5", id="two-types"),
        pytest.param({"either": []}, "either: must be a whole number or a string, is []", id="neither"),
        pytest.param(
            {"mode": "x" * 99}, f'mode: must be one of fast, slow, is "{"x" * 56}...', id="long-values-are-cut"
        ),
        pytest.param({"mode": "\x1b[1m"}, "mode: must have no control characters, has \\x1b", id="an-escape"),
        pytest.param({"word": "a\u202eb"}, "word: must have no control characters, has \\u202e", id="a-direction"),
        pytest.param(
            {"labels": {"a\0": 1}}, "labels.a\\x00: must have no control characters in its name, has \\x00", id="a-key"
        ),
    ],
)
def test_what_is_wrong_is_one_line_with_its_path(table: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        convert(table, Sheet, "f.toml")
    assert str(caught.value) == f"f.toml: {problem}"
    assert caught.value.exit_code == 78


@pytest.mark.parametrize(
    ("table", "problems"),
    [
        pytest.param(
            {"level": 3, "word": "", "shapes": [{"type": "point", "x": "a", "zzz": 1}, 3]},
            [
                "level: must be one of 1, 2, is 3",
                'word: must not be empty, is ""',
                'shapes[0].x: must be a whole number, is "a"',
                "shapes[0].zzz: no such key",
                "shapes[1]: must be a table, is 3",
            ],
            id="in several tables, as they stand there",
        ),
        pytest.param(
            {"shape": {"type": "point", "xx": 1}},
            ['shape.xx: no such key, did you mean "x"?'],
            id="a misspelt key is not missing too",
        ),
        pytest.param(
            {"shape": {"type": "point", "zzz": 1}},
            ["shape.zzz: no such key", "shape.x: must be given, is missing"],
            id="a key that is none, and one that is missing",
        ),
        pytest.param(
            {"labels": {"a": "x", "b": 1, "c": "y"}},
            ['labels.a: must be a whole number, is "x"', 'labels.c: must be a whole number, is "y"'],
            id="entries of a table",
        ),
        pytest.param(
            {"shape": {"type": "point", "x": 1, "y": 13}, "level": 3},
            ["shape: must have better luck next time", "level: must be one of 1, 2, is 3"],
            id="a check of one, and a bound of another",
        ),
    ],
)
def test_all_mistakes_are_reported_at_once(table: dict[str, Any], problems: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        convert(table, Sheet, "f.toml")
    assert str(caught.value).split("\n") == [f"f.toml: {problem}" for problem in problems]
    assert [str(one) for one in caught.value.each] == str(caught.value).split("\n")


def test_a_path_goes_on_where_the_caller_stands() -> None:
    with pytest.raises(ConfigError, match=r"^f\.toml: strategy\[2\]\.ends\[0\]\.x: must be given, is missing$"):
        convert({"type": "line", "ends": [{"type": "point"}]}, Line, "f.toml", "strategy[2]")


def test_what_is_right_is_decoded() -> None:
    sheet = convert({"shape": line(2), "labels": {"a": 1}, "share": 0.25}, Sheet, "f.toml")
    assert sheet.shape == Line((Point(1), Point(2)))
    assert (sheet.labels, sheet.share) == ({"a": 1}, 0.25)


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.dates()
KEYS = st.sampled_from([*Sheet.__struct_fields__, "type", "ends", "x", "y", "point", "a"]) | st.text(max_size=3)
TREES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4))


@given(st.dictionaries(KEYS, TREES, max_size=4))
def test_any_table_is_decoded_or_refused_in_one_line(table: dict[str, Any]) -> None:
    told = "f.toml: "
    try:
        convert(table, Sheet, "f.toml")
    except ConfigError as error:
        told = str(error)
    for one in told.split("\n"):
        assert one.isprintable()
        assert one.startswith("f.toml: ")
