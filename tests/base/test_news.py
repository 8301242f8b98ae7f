"""What has changed since it was last reported."""

from elasticd.base.news import LastReported


def test_a_value_is_news_once() -> None:
    reported = LastReported()
    assert [reported.changed(value) for value in ("bad", "bad", "worse", "bad")] == [True, False, True, True]


def test_the_first_value_is_no_news_where_it_is_given() -> None:
    assert [LastReported(first).changed("") for first in (None, "")] == [True, False]


def test_each_key_has_its_own_news() -> None:
    reported = LastReported()
    assert [reported.changed("bad", key) for key in ("a", "b", "a")] == [True, True, False]


def test_a_key_that_is_not_kept_begins_anew() -> None:
    reported = LastReported()
    for key in ("a", "b"):
        reported.changed("bad", key)
    reported.keep({"b"})
    assert [reported.changed("bad", key) for key in ("a", "b")] == [True, False]


def test_none_is_forgotten_and_no_news_twice() -> None:
    reported = LastReported()
    assert [reported.changed(value) for value in (None, "bad", None, None, "bad")] == [False, True, True, False, True]


def test_of_too_many_keys_the_oldest_is_forgotten() -> None:
    reported = LastReported(most=2)
    assert [reported.changed("bad", key) for key in "abacab"] == [True, True, False, True, False, True]
