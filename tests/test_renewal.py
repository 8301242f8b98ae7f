"""How a source's pace is learnt from its timestamps, and when it is due."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticd.renewal import Renewal


def watch(renewal: Renewal, pace: float, phase: float, start: float, end: float, every: float) -> list[float]:
    """Look each `every` seconds at a source that renews at `phase` and each `pace` seconds on, and read it where it is
    due; gives when it was."""
    asked, now = [], start
    while (now := renewal.before(now, now + every)) <= end:
        if now >= renewal.due:
            asked.append(now)
            renewal.saw(now, phase + (now - phase) // pace * pace)
    return asked


def test_nothing_is_known_at_first_and_any_time_is_right() -> None:
    renewal = Renewal()
    assert (renewal.resolution, renewal.due, renewal.before(7.0, 9.0)) == (None, -math.inf, 9.0)


def test_three_renewals_seen_closely_make_the_pace_known() -> None:
    renewal = Renewal()
    watch(renewal, 15.0, 0.0, 0.0, 44.0, 1.0)
    assert renewal.resolution is None
    watch(renewal, 15.0, 0.0, 44.0, 61.0, 1.0)
    assert renewal.resolution == 15.0


def test_a_pace_that_was_given_is_known_at_once_but_not_when_it_began() -> None:
    renewal = Renewal(15.0)
    assert (renewal.due, renewal.before(0.0, 30.0)) == (-math.inf, 30.0)
    renewal.saw(100.0, 99.0)
    assert (renewal.resolution, renewal.due, renewal.before(100.0, 103.0)) == (15.0, 115.0, 103.0)


def test_who_looks_too_seldom_learns_nothing() -> None:
    renewal = Renewal()
    watch(renewal, 15.0, 0.0, 0.0, 3600.0, 30.0)
    assert renewal.resolution is None


@pytest.mark.parametrize("every", [0.5, 1.0, 10.0], ids="looked at each {} s".format)
def test_once_the_pace_is_known_the_source_is_asked_about_as_often_as_it_renews(every: float) -> None:
    renewal = Renewal()
    watch(renewal, 15.0, 3.7, 0.0, 120.0, 1.0)
    asked = watch(renewal, 15.0, 3.7, 120.0, 120.0 + 15 * 80, every)
    assert 80 <= len(asked) <= 80 * 1.5
    behind = [late for at in asked if (late := (at - 3.7) % 15) < 7.5]
    assert sum(behind) / len(behind) < 1.0, "and just behind the renewal"


def test_news_that_stop_are_looked_for_once_each_pace() -> None:
    renewal = Renewal()
    watch(renewal, 15.0, 0.0, 0.0, 120.0, 1.0)
    asked, now = 0, 120.0
    while (now := now + 1.0) < 1020.0:
        if now >= renewal.due:
            asked += 1
            renewal.saw(now, 120.0)
    assert asked < 900 / 15 + 50


@pytest.mark.parametrize(("before", "after"), [(15.0, 5.0), (60.0, 15.0), (15.0, 1.0), (5.0, 15.0)])
def test_a_source_that_becomes_faster_or_slower_is_followed(before: float, after: float) -> None:
    renewal = Renewal()
    watch(renewal, before, 0.0, 0.0, 600.0, 0.25)
    assert renewal.resolution == before
    watch(renewal, after, 0.0, 600.0, 600.0 + 12 * 60.0, 0.25)
    assert renewal.resolution == pytest.approx(after)


def test_subjects_that_are_renewed_at_times_of_their_own_have_no_common_pace() -> None:
    """Two that are measured every 60 s, 5 s apart: whoever waited for one would miss the other."""
    renewal = Renewal()
    for now in range(1200):
        renewal.saw(float(now), max(now // 60 * 60, (now - 5) // 60 * 60 + 5))
    assert (renewal.resolution, renewal.due) == (None, -math.inf)


def test_a_longer_interval_is_moved_to_just_behind_the_last_renewal_within_it() -> None:
    renewal = Renewal()
    watch(renewal, 15.0, 0.0, 0.0, 151.0, 1.0)
    for wait in (16.0, 30.0, 44.0):
        when = renewal.before(152.0, 152.0 + wait)
        assert 152.0 + wait - 15.0 <= when <= 152.0 + wait
        assert min(when % 15.0, 15.0 - when % 15.0) <= 1.0


@given(pace=st.floats(0.5, 120), looks=st.lists(st.floats(0.01, 50), min_size=1, max_size=60), known=st.booleans())
def test_no_look_is_put_off_and_a_read_is_due_again_within_two_paces(
    pace: float, looks: list[float], known: bool
) -> None:
    renewal, now = Renewal(pace if known else None), 0.0
    for wait in looks:
        following = renewal.before(now, now + wait)
        assert now <= following <= now + wait
        assert not math.isnan(renewal.due)
        resolution = renewal.resolution
        assert renewal.due <= now + (0.0 if resolution is None else 2 * resolution)
        now = following if following > now else now + wait
        if now >= renewal.due:
            renewal.saw(now, now // pace * pace)


@pytest.mark.parametrize("measured", [float("-inf"), 5.0], ids=["nothing", "the same for ever"])
@pytest.mark.parametrize("pace", [None, 15.0], ids=["unknown", "given"])
def test_reads_without_news_teach_nothing(measured: float, pace: float | None) -> None:
    renewal = Renewal(pace)
    for now in range(100):
        renewal.saw(float(now), measured)
        assert not math.isnan(renewal.due)
    assert renewal.resolution == pace


def test_outages_are_no_pace() -> None:
    """A source that renews each second, looked at each 2 s, with a gap now and then: only the gaps are seen closely."""
    renewal, now, newest = Renewal(), 0.0, 0.0
    for outage in (20, 19, 21, 20, 20, 22):
        begun = now
        while now < begun + outage + 30:
            now += 2.0
            newest = newest if now < begun + outage else now
            if now >= renewal.due:
                renewal.saw(now, newest)
        assert renewal.resolution is None
