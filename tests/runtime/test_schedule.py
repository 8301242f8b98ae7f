"""When each key is due, against the simplest model: a dictionary."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticd.runtime.schedule import Schedule, spread

KEYS = st.integers(0, 5)
TIMES = st.floats(0, 100, allow_nan=False)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), KEYS, TIMES),
        st.tuples(st.just("drop"), KEYS, TIMES),
        st.tuples(st.just("due"), KEYS, TIMES),
    ),
    max_size=60,
)


@given(STEPS)
def test_it_does_what_a_dictionary_of_times_would(steps: list[tuple[str, int, float]]) -> None:
    schedule, model = Schedule[int](), dict[int, float]()
    for what, key, when in steps:
        if what == "set":
            schedule.set(key, when)
            model[key] = when
        elif what == "drop":
            schedule.drop(key)
            model.pop(key, None)
        else:
            expected = {key: model.pop(key) for key in list(model) if model[key] <= when}
            found = schedule.due(when)
            assert sorted(found) == sorted(expected)
            assert [expected[key] for key in found] == sorted(expected.values())
        assert schedule.next() == min(model.values(), default=None)
        assert sorted(schedule) == sorted(model)
        assert all((key in schedule) == (key in model) for key in range(6))
        assert sorted(schedule.between(20, 60)) == sorted(key for key, at in model.items() if 20 < at < 60)


def test_an_overdue_key_is_due_once() -> None:
    schedule = Schedule[str]()
    schedule.set("web", 10.0)
    assert [schedule.due(1e9), schedule.due(2e9)] == [["web"], []]


def test_keys_due_together_come_in_insertion_order() -> None:
    schedule = Schedule[object]()
    keys = [object(), "b", 1, "a"]  # none of which can be compared
    for key in keys:
        schedule.set(key, 5.0)
    assert schedule.due(5.0) == keys


@pytest.mark.parametrize(("moved_to", "due_at_5"), [(3.0, ["web"]), (9.0, [])], ids=["sooner", "later"])
def test_a_key_that_is_set_again_is_moved(moved_to: float, due_at_5: list[str]) -> None:
    schedule = Schedule[str]()
    schedule.set("web", 5.5)
    schedule.set("web", moved_to)
    assert schedule.due(5.0) == due_at_5
    assert schedule.due(99.0) == ([] if due_at_5 else ["web"])


def test_a_dropped_key_is_never_due() -> None:
    schedule = Schedule[str]()
    schedule.set("web", 1.0)
    schedule.drop("web")
    schedule.drop("other")
    assert (schedule.next(), schedule.due(9.0), list(schedule)) == (None, [], [])


def test_a_key_may_be_dropped_while_all_are_gone_through() -> None:
    schedule = Schedule[int]()
    for key in range(9):
        schedule.set(key, 1.0)
    for key in schedule:
        schedule.drop(key)
    assert list(schedule) == []


def test_a_key_rescheduled_repeatedly_takes_no_more_room() -> None:
    schedule = Schedule[str]()
    schedule.set("other", 1e9)
    for turn in range(10_000):
        schedule.set("web", 1e6 + turn)
    assert len(schedule._heap) < 200
    assert schedule.due(1e7) == ["web"]


@given(st.text(), st.integers(0, 10**6))
def test_spread_is_deterministic_within_the_unit_interval(key: str, turn: int) -> None:
    assert 0 <= spread(key, turn) < 1
    assert spread(key, turn) == spread(key, turn)


def test_a_spread_is_even_over_many_keys() -> None:
    tenths = [0] * 10
    for index in range(10_000):
        tenths[int(spread(("policy", f"web-{index}")) * 10)] += 1
    assert min(tenths) > 800
    assert max(tenths) < 1200


def test_advance_never_postpones_or_adds_a_key() -> None:
    schedule: Schedule[str] = Schedule()
    schedule.set("a", 10.0)
    schedule.advance("a", 12.0)
    assert schedule.next() == 10.0
    schedule.advance("a", 7.0)
    assert schedule.next() == 7.0
    schedule.advance("b", 1.0)
    assert "b" not in schedule
