"""Options in words: kinds, bounds, defaults, units, nested tables."""

from typing import Annotated, Literal

import pytest
from msgspec import Meta, Struct, field

from elasticd.options import Option, options
from elasticd.plugins import discover


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
    Option("inner", "table", '{"depth":3}'),
    Option("inner.depth", "integer >= 0, <= 9", "3"),
    Option("maybe", "table", "unset"),
    Option("maybe.depth", "integer >= 0, <= 9", "3"),
    Option("many", "array of table", "[]"),
    Option("many[].depth", "integer >= 0, <= 9", "3"),
    Option("either", 'table of type "big" | table of type "small"', '{"type":"big"}'),
    Option("new", "integer", "0"),
]


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda option: option.name)
def test_an_option_is_told_with_its_kind_bounds_default_and_unit(expected: Option) -> None:
    assert expected in options(Everything)


def test_options_come_in_the_order_they_are_declared() -> None:
    assert [option.name for option in options(Everything)] == [option.name for option in EXPECTED]


def test_what_is_no_record_has_no_options() -> None:
    assert options(int) == []


def test_every_option_of_everything_bundled_has_a_kind() -> None:
    registry = discover()
    for installed in (*registry.strategies.values(), *registry.sources.values()):
        assert all(option.kind for option in options(installed.type)), installed.name
