"""How a source's pace is learnt from its timestamps, and when it is due."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticd.sources.pace import Pace


def watch(renewal: Pace, pace: float, phase: float, start: float, end: float, every: float) -> list[float]:
    """Look each `every` seconds at a source that renews at `phase` and each `pace` seconds on, and read it where it is
    due; gives when it was."""
    asked, now = [], start
    while (now := renewal.before(now, now + every)) <= end:
        if now >= renewal.due:
            asked.append(now)
            renewal.saw(now, phase + (now - phase) // pace * pace)
    return asked


def follow(renewal: Pace, renewals: Sequence[float], end: float, *, took: float = 0.0) -> tuple[list[float], int]:
    """Read whenever it wants to be read unasked, each read taking so long: how late each renewal was seen, and how many
    reads there were. Measured is the time of the renewal before it is published, to the second."""
    lags, reads, seen, now = list[float](), 0, 0, max(renewal.unasked, 0.0)
    while now < end:
        there = bisect_right(renewals, now)
        reads += 1
        lags += [now + took - came for came in renewals[seen:there]]
        seen = there
        renewal.saw(now, renewals[there - 1] if there else -math.inf, took)
        assert renewal.unasked > now, "time goes on"
        now = max(renewal.unasked, now + took)
    return lags, reads


def test_nothing_is_known_at_first_and_any_time_is_right() -> None:
    renewal = Pace()
    assert (renewal.resolution, renewal.due, renewal.before(7.0, 9.0)) == (None, -math.inf, 9.0)


def test_three_renewals_seen_closely_make_the_pace_known() -> None:
    renewal = Pace()
    watch(renewal, 15.0, 0.0, 0.0, 44.0, 1.0)
    assert renewal.resolution is None
    watch(renewal, 15.0, 0.0, 44.0, 61.0, 1.0)
    assert renewal.resolution == 15.0


def test_a_configured_pace_is_used_at_once_to_find_renewals() -> None:
    renewal = Pace(15.0)
    assert (renewal.due, renewal.before(0.0, 30.0)) == (-math.inf, 30.0)
    renewal.saw(100.0, 93.0)
    assert (renewal.resolution, renewal.due) == (15.0, 100.1)
    follow(renewal, [108.0], 115.0)
    assert 122.2 <= renewal.due <= 123.7, "the next after 108"


def test_who_looks_too_seldom_learns_nothing() -> None:
    renewal = Pace()
    watch(renewal, 15.0, 0.0, 0.0, 3600.0, 30.0)
    assert renewal.resolution is None


@pytest.mark.parametrize("every", [0.5, 1.0, 10.0], ids="looked at each {} s".format)
def test_a_known_pace_sets_how_often_the_source_is_read(every: float) -> None:
    renewal = Pace()
    watch(renewal, 15.0, 3.7, 0.0, 120.0, 1.0)
    asked = watch(renewal, 15.0, 3.7, 120.0, 120.0 + 15 * 80, every)
    assert 80 <= len(asked) <= 80 * 1.5
    behind = [late for at in asked if (late := (at - 3.7) % 15) < 7.5]
    assert sum(behind) / len(behind) < 1.0, "and just behind the renewal"


def test_news_that_stop_are_looked_for_once_each_pace() -> None:
    renewal = Pace()
    watch(renewal, 15.0, 0.0, 0.0, 120.0, 1.0)
    asked, now = 0, 120.0
    while (now := now + 1.0) < 1020.0:
        if now >= renewal.due:
            asked += 1
            renewal.saw(now, 120.0)
    assert asked < 900 / 15 + 50


@pytest.mark.parametrize(("before", "after"), [(15.0, 5.0), (60.0, 15.0), (15.0, 1.0), (5.0, 15.0)])
def test_a_source_that_becomes_faster_or_slower_is_followed(before: float, after: float) -> None:
    renewal = Pace()
    watch(renewal, before, 0.0, 0.0, 600.0, 0.25)
    assert renewal.resolution == before
    watch(renewal, after, 0.0, 600.0, 600.0 + 12 * 60.0, 0.25)
    assert renewal.resolution == pytest.approx(after)


def test_subjects_renewed_at_different_times_have_no_common_pace() -> None:
    """Two that are measured every 60 s, 5 s apart: whoever waited for one would miss the other."""
    renewal = Pace()
    for now in range(1200):
        renewal.saw(float(now), max(now // 60 * 60, (now - 5) // 60 * 60 + 5))
    assert (renewal.resolution, renewal.due) == (None, -math.inf)


def test_a_long_interval_is_shortened_to_just_after_a_renewal() -> None:
    renewal = Pace()
    watch(renewal, 15.0, 0.0, 0.0, 151.0, 1.0)
    for wait in (16.0, 30.0, 44.0):
        when = renewal.before(152.0, 152.0 + wait)
        assert 152.0 + wait - 15.0 <= when <= 152.0 + wait
        assert min(when % 15.0, 15.0 - when % 15.0) <= 1.0


@given(pace=st.floats(0.5, 120), looks=st.lists(st.floats(0.01, 50), min_size=1, max_size=60), known=st.booleans())
def test_no_look_is_postponed_and_reads_follow_within_two_paces(pace: float, looks: list[float], known: bool) -> None:
    renewal, now = Pace(pace if known else None), 0.0
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
    renewal = Pace(pace)
    for now in range(100):
        renewal.saw(float(now), measured)
        assert not math.isnan(renewal.due)
    assert renewal.resolution == pace


def test_outages_are_no_pace() -> None:
    """A source that renews each second, looked at each 2 s, with a gap now and then: only the gaps are seen closely."""
    renewal, now, newest = Pace(), 0.0, 0.0
    for outage in (20, 19, 21, 20, 20, 22):
        begun = now
        while now < begun + outage + 30:
            now += 2.0
            newest = newest if now < begun + outage else now
            if now >= renewal.due:
                renewal.saw(now, newest)
        assert renewal.resolution is None


def renewals(pace: float, count: int, jitter: float, *, drifting: bool = False) -> list[float]:
    """Each so much later than it should be, at most; drifting: than a pace after the one before."""
    chance, found = Random(f"{pace} {jitter}"), [3.7]
    for number in range(1, count):
        base = found[-1] + pace - jitter / 2 if drifting else 3.7 + number * pace
        found.append(base + chance.uniform(0, jitter))
    return found


@pytest.mark.parametrize(
    ("pace", "jitter", "drifting", "every"),
    [
        pytest.param(15.0, 0.0, False, 0.5, id="15 s, as a clock"),
        pytest.param(15.0, 0.3, False, 0.5, id="15 s, a scrape that takes 0.3 s longer at times"),
        pytest.param(15.0, 0.5, False, 0.0, id="15 s, 0.5 s"),
        pytest.param(15.0, 0.2, True, 0.5, id="15 s, each after the one before"),
        pytest.param(60.0, 0.5, False, 0.5, id="60 s"),
        pytest.param(10.0, 0.5, False, 0.5, id="10 s"),
        pytest.param(1.0, 0.1, False, 0.5, id="1 s, read twice a second at most"),
        pytest.param(1.0, 0.2, False, 0.25, id="1 s"),
        pytest.param(5.0, 0.4, False, 0.25, id="5 s"),
    ],
)
def test_a_renewal_is_seen_within_a_second_at_few_reads(
    pace: float, jitter: float, drifting: bool, every: float
) -> None:
    renewal, found = Pace(every=every), renewals(pace, 400, jitter, drifting=drifting)
    follow(renewal, found[:30], found[30] - 0.01)
    assert renewal.resolution == pytest.approx(pace, rel=0.1)
    lags, reads = follow(renewal, found, found[-1])
    late = sorted(lags[31:])  # those before were seen already
    assert late[len(late) // 2] <= 0.45
    assert late[int(len(late) * 0.98)] <= 1.0
    assert reads <= 1.35 * len(late), "reads for a renewal, on average"


@pytest.mark.parametrize("phase", [0.0, 0.1, 0.4, 0.7, 0.95], ids="{} s after a second".format)
def test_renewals_are_seen_at_once_when_the_pace_is_known(phase: float) -> None:
    """It is learnt by reads a second apart, and what they leave open is found out by the next renewal."""
    renewal, found = Pace(every=0.5), [30.0 + phase + 15 * number for number in range(12)]
    follow(renewal, found[:4], found[4] - 1.5)
    assert renewal.resolution == pytest.approx(15.0, abs=0.5)
    lags, _ = follow(renewal, found, found[-1])
    assert max(lags[4:]) <= 0.5


def test_a_read_that_takes_long_is_not_repeated_each_second() -> None:
    """1.3 s for a list of 55 MB: while the pace is learnt it is read each 5.2 s, then about once for each renewal."""
    renewal, found = Pace(), renewals(15.0, 200, 0.3)
    _, reads = follow(renewal, found[:8], found[8] - 0.1, took=1.3)
    assert reads <= 30
    assert renewal.resolution == pytest.approx(15.0, rel=0.05)
    lags, reads = follow(renewal, found, found[-1], took=1.3)
    assert reads <= 1.35 * 192
    late = sorted(lags[9:])
    assert late[len(late) // 2] <= 1.3 * 2.5, "what a read takes, and half the time between two"


@pytest.mark.parametrize(
    ("took", "each"), [(0.0, 1.0), (0.5, 5.5)], ids=["each second", "not half of the time and more"]
)
def test_a_source_without_pace_is_read_at_a_bounded_rate(took: float, each: float) -> None:
    chance, now, found = Random(7), 0.0, []
    while now < 4000:
        found.append(now := now + chance.choice((0.3, 2.0, 7.0)))
    renewal = Pace()
    follow(renewal, found, 400.0, took=took)
    _, reads = follow(renewal, found, 3400.0, took=took)
    assert renewal.resolution is None
    assert reads <= 3000 / each * 1.2


def test_an_unchanging_source_is_read_rarely_but_every_15_s() -> None:
    renewal = Pace()
    _, reads = follow(renewal, [], 3600.0)
    assert 3600 / 15 <= reads <= 3600 / 15 + 80
    lags, _ = follow(renewal, [4000.0], 4100.0)
    assert lags[0] <= 15.0


def test_a_pace_that_quickens_is_detected_by_an_early_read() -> None:
    renewal = Pace()
    slow, quick = renewals(15.0, 40, 0.2), [600.0 + second for second in range(1200)]
    follow(renewal, slow, 599.0)
    lags, _ = follow(renewal, quick, 1500.0)
    assert max(lags[-500:]) <= 1.0


def test_after_a_clock_jump_one_read_finds_the_renewals_again() -> None:
    renewal = Pace()
    found = renewals(15.0, 40, 0.1)
    follow(renewal, found, found[-1] + 1)
    later = 100_000.0
    assert renewal.unasked < later
    renewal.saw(later, later - 7.3)
    assert later < renewal.unasked <= later + 15
    lags, reads = follow(renewal, [later - 7.3 + 15 * number for number in range(1, 60)], later + 15 * 58)
    assert sum(lags[-40:]) / 40 <= 0.4
    assert reads <= 58 * 1.7
