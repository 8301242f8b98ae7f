"""A memo computes once for each source, and never gives what was computed of another one."""

from weakref import WeakSet

from hypothesis import given
from hypothesis import strategies as st

from elasticd.base.memo import Memo


def test_it_is_computed_once_until_the_source_is_another_object() -> None:
    calls: list[tuple[str, tuple[int, ...]]] = []

    def total(key: str, source: tuple[int, ...]) -> int:
        calls.append((key, source))
        return sum(source)

    memo, one, other = Memo(total), (1, 2), (3, 4)
    assert [memo("a", one), memo("a", one), memo("a", other), memo("a", one)] == [3, 3, 7, 3]
    assert calls == [("a", one), ("a", other), ("a", one)]
    assert memo("b", one) == 3
    assert len(calls) == 4


def test_a_full_one_computes_a_changed_source_alone() -> None:
    computed: list[int] = []
    memo: Memo[int, tuple[int, ...], None] = Memo(lambda key, _: computed.append(key), most=3)
    for key in (1, 2, 3):
        memo(key, ())
    memo(2, (1,))
    for key in (1, 3):
        memo(key, ())
    assert computed == [1, 2, 3, 2]


def test_what_it_raises_is_raised_each_time() -> None:
    memo: Memo[str, tuple[int, ...], int] = Memo(lambda _, source: 1 // len(source))
    found = []
    for _ in range(2):
        try:
            memo("a", ())
        except ZeroDivisionError:
            found.append("raised")
    assert found == ["raised", "raised"]


class Value:
    """What was computed; it lives for as long as somebody holds it."""

    def __init__(self, key: int, number: int) -> None:
        self.of = (key, number)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), max_size=60), st.integers(1, 5))
def test_it_is_never_wrong_and_never_large(asked: list[tuple[int, int]], most: int) -> None:
    sources = [(number,) for number in range(3)]
    alive = WeakSet[Value]()

    def compute(key: int, source: tuple[int, ...]) -> Value:
        value = Value(key, source[0])
        alive.add(value)
        return value

    memo = Memo(compute, most)
    for key, number in asked:
        assert memo(key, sources[number]).of == (key, number)
        assert len(alive) <= most
