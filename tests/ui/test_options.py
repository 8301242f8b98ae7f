"""Options in words: kinds, bounds, defaults, units, nested tables."""

from typing import Annotated, Literal

import pytest
from msgspec import Meta, Struct, field

from elasticd.registry import discover
from elasticd.ui.options import Option, options, summary


class Inner(Struct, frozen=True):
    """A nested table."""

    depth: Annotated[int, Meta(ge=0, le=9)] = 3


class Tagged(Struct, frozen=True, tag="big"):
    """One of a union."""


class Other(Struct, frozen=True, tag="small"):
    """The other."""


class Everything(Struct, rename={"old": "new"}):
    """One field of each kind."""

    name: str
    count: int = 2
    share: Annotated[float, Meta(gt=0, lt=1, description="of all")] = 0.5
    on: bool = True
    mode: Literal["fast", "slow"] = "fast"
    level: Literal[1, 2] = 1
    labels: dict[str, str] = {}
    steps: tuple[int, ...] = (1, 2)
    words: list[str] = field(default_factory=list)
    wait: Annotated[float, Meta(gt=0, description="seconds")] | None = None
    inner: Inner = Inner()
    maybe: Inner | None = None
    many: tuple[Inner, ...] = ()
    either: Tagged | Other = Tagged()
    old: int = 0


EXPECTED = [
    Option("name", "string", "required"),
    Option("count", "integer", "2"),
    Option("share", "number > 0, < 1", "0.5", "of all"),
    Option("on", "boolean", "true"),
    Option("mode", '"fast" | "slow"', '"fast"'),
    Option("level", "1 | 2", "1"),
    Option("labels", "table", "{}"),
    Option("steps", "array of integer", "[1,2]"),
    Option("words", "array of string", "[]"),
    Option("wait", "number > 0", "unset", "seconds"),
    Option("inner", "table", '{"depth":3}', "A nested table"),
    Option("inner.depth", "integer >= 0, <= 9", "3"),
    Option("maybe", "table", "unset", "A nested table"),
    Option("maybe.depth", "integer >= 0, <= 9", "3"),
    Option("many", "array of table", "[]", "A nested table"),
    Option("many[].depth", "integer >= 0, <= 9", "3"),
    Option("either", 'table of type "big" | "small"', '{"type":"big"}'),
    Option("new", "integer", "0"),
]


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda option: option.name)
def test_an_option_shows_its_kind_bounds_default_and_unit(expected: Option) -> None:
    assert expected in options(Everything)


def test_options_come_in_the_order_they_are_declared() -> None:
    assert [option.name for option in options(Everything)] == [option.name for option in EXPECTED]


class Clear(Struct, frozen=True, tag="clear"):
    """Of one type. It has options."""

    depth: int


class Muddy(Struct, frozen=True, tag="muddy"):
    """Of another type."""

    grains: Annotated[int, Meta(ge=-2_000_000)] | str
    nothing: tuple[Inner | None, ...] = (None,)


class Waters(Struct, frozen=True):
    """A first sentence that goes
    on. And a second."""

    many: tuple[Clear | Muddy, ...] = ()
    one: Clear | Muddy | None = None


def test_options_of_union_tables_are_listed_by_type() -> None:
    assert [option.name for option in options(Waters)] == [
        "many",
        "many[clear].depth",
        "many[muddy].grains",
        "many[muddy].nothing",
        "many[muddy].nothing[].depth",
        "one",
        "one[clear].depth",
        "one[muddy].grains",
        "one[muddy].nothing",
        "one[muddy].nothing[].depth",
    ]


def test_an_undescribed_table_uses_its_types_first_sentence() -> None:
    assert summary(Waters) == "A first sentence that goes on."
    assert {option.name: option.description for option in options(Waters)}["many[muddy].nothing"] == "A nested table"
    assert summary(Inner) == "A nested table."


def test_a_large_bound_is_written_out() -> None:
    kinds = {option.name: option.kind for option in options(Waters)}
    assert kinds["many[muddy].grains"] == "integer >= -2000000 | string"


def test_what_is_no_record_has_no_options() -> None:
    assert options(int) == []


def test_every_option_of_everything_bundled_has_a_kind() -> None:
    registry = discover()
    for installed in (*registry.strategies.values(), *registry.sources.values()):
        assert all(option.kind for option in options(installed.type)), installed.name
