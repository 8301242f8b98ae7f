"""What is made of a hook's answers."""

from functools import cached_property

import pytest

from elasticd.api import Limit, Strategy, hookimpl
from elasticd.deciding.asking import _MOST, Case, _read_before
from elasticd.past import begin
from elasticd.plugins import Hooks
from elasticd.policy import Bounds, Policy
from elasticd.testing import NOW, observation

KEPT = Limit("Kept", lowest=2, highest=5)
"""One object, whoever gives it."""


class Keeps(Strategy, tag="keeps", frozen=True):
    number: int = 0

    @hookimpl
    def limit(self) -> Limit:
        return KEPT


class Fresh(Strategy, tag="fresh", frozen=True):
    @hookimpl
    def limit(self, wish: int) -> Limit:
        return Limit("Fresh", highest=wish)


class Wrong(Strategy, tag="wrong", frozen=True):
    @hookimpl
    def limit(self) -> Limit:
        return Limit("Kept", lowest=2.0, highest=5)  # type: ignore[arg-type]


class Works(Strategy, tag="works", frozen=True):
    options: int = 3

    @cached_property
    def worked_out(self) -> list[int]:
        return [self.options] * 2


def case(*voices: Strategy) -> Case:
    policy = Policy(name="p", replicas=Bounds(min=1, max=9), strategies=voices)
    return Case(policy, observation([0.5]), begin(NOW, 1), Hooks(voices))


def test_a_limit_that_two_give_has_the_name_of_each() -> None:
    for _ in range(2):
        said = case(Keeps(), Keeps(number=1)).ask("limit", wish=3)
        assert [(name, limit.name) for name, limit in said.values] == [("keeps", "keeps"), ("keeps#2", "keeps#2")]


def test_one_that_equals_a_limit_that_is_kept_and_makes_no_sense_is_refused_all_the_same() -> None:
    assert case(Keeps()).ask("limit", wish=3).failures == ()
    (failure,) = case(Wrong()).ask("limit", wish=3).failures
    assert (failure.plugin, failure.hook) == ("wrong", "limit")


def test_limits_that_are_always_new_are_not_kept_for_ever() -> None:
    asked = case(Fresh())
    for wish in range(_MOST + 10):
        assert asked.ask("limit", wish=wish).values[0][1].highest == wish
    assert len(_read_before) <= _MOST


def test_what_a_strategy_works_out_of_its_options_is_kept_and_is_no_option() -> None:
    one = Works()
    assert one.worked_out is one.worked_out
    assert one == Works()
    assert one.__struct_fields__ == ("options", "priority")


def test_options_can_still_not_be_changed() -> None:
    with pytest.raises(AttributeError):
        Works().options = 4  # type: ignore[misc]
