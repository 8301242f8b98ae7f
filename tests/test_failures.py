"""Plugins that fail in a row."""

from elasticd.registry import STRIKES, FailureCounter


def test_a_plugin_is_switched_off_once_and_for_good() -> None:
    counter = FailureCounter()
    switched_off = [counter.count("web", {"bad"}) for _ in range(STRIKES + 1)]
    counter.count("web", ())
    assert [number for number, names in enumerate(switched_off, 1) if names] == [STRIKES]
    assert counter.off == {"bad"}


def test_a_success_begins_the_count_anew_for_that_subject_alone() -> None:
    counter = FailureCounter()
    for _ in range(STRIKES - 1):
        counter.count("web", {"bad"})
        counter.count("db", {"bad", "worse"})
    counter.count("web", {"worse"})
    assert (counter.count("web", {"bad"}), counter.off) == (frozenset(), frozenset())
    assert counter.count("db", {"bad"}) == {"bad"}
