"""The formula over triggers: what it means, what it refuses, and that no text does any harm."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from elasticd_plugins.event.formula import DEEPEST, LONGEST, read

VALUES = {"a": 6.0, "b": 4.0, "zero": 0.0, "gone": None}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("7", 7, id="a number"),
        pytest.param("1.5e1", 15, id="with an exponent"),
        pytest.param(".5", 0.5, id="without a whole"),
        pytest.param("a", 6, id="a trigger"),
        pytest.param("a + b * 2", 14, id="times before plus"),
        pytest.param("(a + b) * 2", 20, id="brackets before all"),
        pytest.param("a - b - 1", 1, id="from the left"),
        pytest.param("24 / a / 2", 2, id="division from the left"),
        pytest.param("a % b", 2, id="the rest"),
        pytest.param("-a + b", -2, id="a sign"),
        pytest.param("2--a", 8, id="a sign behind an operator"),
        pytest.param("min(a, b, 5)", 4, id="the least"),
        pytest.param("max(a, b)", 6, id="the greatest"),
        pytest.param("max(a)", 6, id="of one"),
        pytest.param("ceil(a / b) + floor(a / b) + abs(-1)", 4, id="rounding"),
        pytest.param("a > b", 1, id="a comparison that holds"),
        pytest.param("a == b", 0, id="one that does not"),
        pytest.param("(a >= 6) + (a <= 6) + (a != 6) + (b < a)", 3, id="all of them"),
        pytest.param("a > 5 ? 10 : 1", 10, id="a condition that holds"),
        pytest.param("a > 6 ? 10 : b > 3 ? 5 : 1", 5, id="conditions from the right"),
        pytest.param("a > 5 && b > 5", 0, id="both"),
        pytest.param("a > 5 || b > 5 && zero", 1, id="and before or"),
        pytest.param("!zero + 1", 2, id="not before plus"),
        pytest.param("!(a > b)", 0, id="not"),
        pytest.param("a ?? 8", 6, id="known"),
        pytest.param("gone ?? 8", 8, id="KEDA: the fallback of a formula"),
        pytest.param("gone ?? gone ?? 8", 8, id="KEDA: a ?? b ?? 8"),
        pytest.param("gone ?? b ?? 8", 4, id="KEDA: the first that is healthy"),
        pytest.param("gone ?? a + 1", 7, id="?? before plus"),
        pytest.param("-gone ?? a", -6, id="?? before a sign"),
        pytest.param("(gone + 1) ?? 3", 3, id="?? of what came to nothing"),
        pytest.param("(a / zero) ?? 3", 3, id="?? of what cannot be divided"),
        pytest.param("zero && gone", 0, id="what no longer matters"),
        pytest.param("a || gone", 1, id="nor here"),
        pytest.param("a > 5 ? 1 : gone", 1, id="nor in the other case"),
        pytest.param(" a\t+\nb ", 10, id="spaces"),
        pytest.param("(" * 30 + "a" + ")" * 30, 6, id="brackets in brackets"),
        pytest.param("+".join("a" * 200), 1200, id="a long one"),
    ],
)
def test_what_a_formula_comes_to(text: str, value: float) -> None:
    assert read(text).of(VALUES) == value


@pytest.mark.parametrize(
    "text",
    [
        "gone",
        "unheard_of",
        "gone + 1",
        "1 - gone",
        "-gone",
        "!gone",
        "min(a, gone)",
        "max(gone, 100)",
        "gone > 5",
        "gone == 0",
        "gone != 0",
        "gone ? 1 : 2",
        "gone && zero",
        "a && gone",
        "zero || gone",
        "gone ?? gone",
        "a / zero",
        "a % zero",
        "1e308 * 10",
        "1e308 * 10 - 1e308 * 10",
        "1e308 * 10 > 5",
        "floor(1e308 * 10)",
    ],
)
def test_what_is_not_known_or_not_finite_stays_unknown(text: str) -> None:
    assert read(text).of(VALUES) is None


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", 'must have a number, a name, "-", "!" or "(" at column 1, is the end'),
        ("a +", 'must have a number, a name, "-", "!" or "(" at column 4, is the end'),
        ("a b", "must end here or go on with an operator at column 3, is 'b'"),
        ("(a", 'must have ")" at column 3, is the end'),
        ("a)", "must end here or go on with an operator at column 2, is ')'"),
        ("a ? b", 'must have ":" at column 6, is the end'),
        ("a : b", "must end here or go on with an operator at column 3, is ':'"),
        ("1 < a < 3", "must have brackets around one of two comparisons at column 7, is '<'"),
        ("a = b", "must be made of numbers, names and operators, has '=' at column 3"),
        ("a; b", "must be made of numbers, names and operators, has ';' at column 2"),
        ("a['x']", "must be made of numbers, names and operators, has '[' at column 2"),
        ("a.b", "must be made of numbers, names and operators, has '.' at column 2"),
        ("a ** b", 'must have a number, a name, "-", "!" or "(" at column 4, is \'*\''),
        ("open(a)", "must use min, max, abs, ceil, floor alone, has open( at column 1"),
        ("max()", 'must have a number, a name, "-", "!" or "(" at column 5, is \')\''),
        ("max(a b)", 'must have "," or ")" at column 7, is \'b\''),
        ("abs(a, b)", "must have \")\" at column 6, is ','"),
        ("1e999", "must have finite numbers, has 1e999 at column 1"),
        ("ä", "must be made of numbers, names and operators, has 'ä' at column 1"),
        ("(" * 50, f"must be at most {DEEPEST} deep, is deeper at column 41"),
        ("!" * 50, f"must be at most {DEEPEST} deep, is deeper at column 41"),
        ("a" * 501, f"must have at most {LONGEST} characters, has 501"),
    ],
)
def test_an_invalid_formula_is_refused_saying_what_belongs_where(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=r"^must ") as caught:
        read(text)
    assert str(caught.value) == error


def test_names_are_those_of_triggers_and_not_of_functions() -> None:
    assert read("max(a, min) + (b ?? 2)").names == {"a", "min", "b"}


ALPHABET = [*"ab01.e+-*/%<>!=?:&|(), \t\n[]{}'\"\\;@$~äµ\0", "max(", "min(", "??", "&&", "||", "gone", "__import__"]
TEXTS = st.lists(st.sampled_from(ALPHABET), max_size=40).map("".join) | st.text(max_size=60)


@given(TEXTS, st.dictionaries(st.sampled_from(["a", "b", "gone"]), st.none() | st.floats()))
@example("\n", {})
@example("-" * 600, {})
@example("?" * 300, {})
@example("a?" * 200, {})
@example("1%" * 200 + "a", {"a": math.inf})
def test_any_text_is_a_formula_or_refused_in_one_line(text: str, values: dict[str, float | None]) -> None:
    refused, found = "", None
    try:
        found = read(text).of(values)
    except ValueError as error:
        refused = str(error)
    assert found is None or isinstance(found, float)
    assert not refused or (refused.startswith("must ") and refused.isprintable())


NUMBERS = st.floats(-100, 100).map(lambda value: round(value, 3))
OPERATORS = st.sampled_from(["+", "-", "*", "<", ">=", "=="])


@given(NUMBERS, NUMBERS, NUMBERS, OPERATORS, OPERATORS)
def test_with_brackets_it_is_the_arithmetic_that_everyone_knows(
    a: float, b: float, c: float, first: str, second: str
) -> None:
    text = f"(a {first} b) {second} c"
    assert read(text).of({"a": a, "b": b, "c": c}) == float(eval(text, {"a": a, "b": b, "c": c}))


@given(st.lists(st.none() | NUMBERS, min_size=1, max_size=6))
def test_a_chain_of_fallbacks_is_the_first_that_is_known(values: list[float | None]) -> None:
    named = {f"v{index}": value for index, value in enumerate(values)}
    known = [value for value in values if value is not None]
    assert read(" ?? ".join(named)).of(named) == (known[0] if known else None)
