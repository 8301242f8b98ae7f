"""The past: runs lose nothing that a window could see, gaps open windows afresh, and nothing grows for ever."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elasticd.journal import Journal
from elasticd.kit.history import GAP, HORIZON, begin, carry, remember, resume, timeline
from elasticd.model.actions import Result, Scale
from elasticd.model.history import Change, Past, Point, Run
from elasticd.model.records import Decision, Outcome
from elasticd.model.workload import Limit, Quality, Ref, Sample, Series

REF = Ref("shop", "Deployment", "web")


def decision(at: float, wish: int | None, interval: float = 10.0) -> Decision:
    return Decision(
        id="d",
        at=at,
        policy="p",
        workload=REF,
        mode="act",
        current=3,
        replicas=3,
        verdict="keep",
        reason="",
        message="",
        wish=wish,
        interval=interval,
    )


def outcome(at: float, before: int, after: int, result: Result = "done") -> Outcome:
    return Outcome("d", at, "p", REF, result, before, after)


def test_at_first_the_count_then_found_is_a_wish() -> None:
    past = begin(100.0, 7)
    assert past == Past(since=100.0, runs=(Run(100.0, 100.0, 7),), until=100.0)
    assert past.interval is None


def test_equal_wishes_in_a_row_are_one_run() -> None:
    past = begin(0.0, 3)
    for at, wish in ((10.0, 3), (20.0, 3), (30.0, 5), (40.0, None), (50.0, 5), (60.0, 3)):
        past = remember(past, decision(at, wish))
    assert past.runs == (Run(0, 20, 3), Run(30, 50, 5), Run(60, 60, 3))


def test_the_remembered_wish_is_the_one_cut_by_wish_limits() -> None:
    limits = (Limit("Rate", "", None, 5), Limit("Ceiling", "", 2, 7, of_wish=True), Limit("Least", "", 6, of_wish=True))
    past = begin(0.0, 3)
    for at, wish in ((10.0, 20), (20.0, 7), (30.0, 1)):
        made = replace(decision(at, wish), limits=limits)
        assert made.wish == wish
        past = remember(past, made)
    assert past.runs == (Run(0, 0, 3), Run(10, 20, 7), Run(30, 30, 6))
    assert replace(decision(40.0, None), limits=limits).asked is None


@pytest.mark.parametrize(
    ("blind", "runs"),
    [
        pytest.param(True, (Run(0, 20, 7), Run(10, 30, 5), Run(40, 40, 1)), id="it knows nothing"),
        pytest.param(False, (Run(0, 0, 7), Run(10, 10, 5), Run(40, 40, 1)), id="it has no wish for another reason"),
    ],
)
def test_windows_stand_still_while_nothing_is_known(*, blind: bool, runs: tuple[Run, ...]) -> None:
    past = remember(begin(0.0, 7), decision(10.0, 5))
    for at in (20.0, 30.0):
        past = remember(past, replace(decision(at, None), blind=blind))
    assert remember(past, decision(40.0, 1)).runs == runs


def test_a_fallback_is_remembered_as_what_it_asks_for() -> None:
    past = remember(begin(0.0, 3), replace(decision(10.0, 9), blind=True))
    assert past.runs == (Run(0, 0, 3), Run(10, 10, 9))


def test_a_decision_without_a_wish_leaves_only_time_and_interval() -> None:
    past = remember(begin(0.0, 3), decision(10.0, None, interval=1.0))
    assert past == Past(0.0, (Run(0, 0, 3),), (), 1.0, 10.0, count=3)


def series(measured: float, *values: float, quality: Quality = Quality.FRESH, pods: bool = True) -> Series:
    samples = tuple(Sample(value, measured, measured, pod=f"p{i}" * pods) for i, value in enumerate(values))
    return Series("cpu", "s", quality, samples, "", measured)


def recalled(*found: Series, recall: float = 60.0) -> tuple[Point, ...]:
    past = begin(0.0, 3)
    for one in found:
        past = remember(past, replace(decision(one.measured + 1, 3), series=(one,), recall=recall))
    return past.points.get("cpu", ())


@pytest.mark.parametrize(
    ("found", "points"),
    [
        pytest.param([series(5, 1.0, 2.0)], [Point(5, 3.0, 2)], id="the sum and the pods"),
        pytest.param([series(5, 4.0, pods=False)], [Point(5, 4.0, 0)], id="of the workload as a whole"),
        pytest.param([series(5, 1.0), series(15, 2.0)], [Point(5, 1.0, 1), Point(15, 2.0, 1)], id="oldest first"),
        pytest.param([series(5, 1.0), series(5, 1.0)], [Point(5, 1.0, 1)], id="a sample is noted once"),
        pytest.param([series(5, 1.0), series(4, 9.0)], [Point(5, 1.0, 1)], id="what comes late is not noted"),
        pytest.param([series(5, 1.0, quality=Quality.STALE)], [], id="what is not trusted is not noted"),
        pytest.param([series(5)], [], id="nothing is no zero"),
        pytest.param([series(5, 1.0), series(65, 2.0)], [Point(65, 2.0, 1)], id="what is too old is forgotten"),
        pytest.param([series(6, 1.0), series(65, 2.0)], [Point(6, 1.0, 1), Point(65, 2.0, 1)], id="just in time"),
    ],
)
def test_points_of_series_are_remembered_while_a_strategy_recalls_them(
    found: list[Series], points: list[Point]
) -> None:
    assert list(recalled(*found)) == points


def test_nothing_of_series_is_remembered_for_strategies_that_recall_nothing() -> None:
    assert recalled(series(5, 1.0), recall=0.0) == ()


def test_an_outcome_that_changed_no_count_is_no_change() -> None:
    assert carry(begin(0.0, 3), outcome(10.0, 3, 3)) == begin(0.0, 3)


def test_remembering_leaves_the_past_before_it_as_it_was() -> None:
    before = begin(0.0, 3)
    remember(before, decision(10.0, 5))
    carry(before, outcome(10.0, 3, 5))
    assert before == begin(0.0, 3)


Wishes = list[tuple[float, int]]
WISHES = st.lists(st.tuples(st.integers(0, 900), st.none() | st.integers(0, 4)), max_size=40)


@given(WISHES, st.integers(0, 3600), st.booleans())
def test_runs_show_any_window_the_wishes_of_a_full_list(
    steps: list[tuple[int, int | None]], window: int, inclusive: bool
) -> None:
    past, naive, at = begin(0.0, 2), [(0.0, 2)], 0.0
    for wait, wish in steps:
        at += wait
        past = remember(past, decision(at, wish))
        if wish is not None:
            naive.append((at, wish))
    after = at - window
    seen = [wish for time, wish in naive if time > after or (inclusive and time == after)]
    found = past.wishes(after, inclusive=inclusive)
    assert set(found) == set(seen)
    assert (max(found, default=None), min(found, default=None)) == (max(seen, default=None), min(seen, default=None))


def test_runs_that_no_window_can_see_are_dropped() -> None:
    past = remember(begin(0.0, 3), decision(HORIZON, 4))
    assert past.runs == (Run(0, 0, 3), Run(HORIZON, HORIZON, 4))
    past = remember(past, decision(HORIZON + 1, 4))
    assert past.runs == (Run(HORIZON, HORIZON + 1, 4),)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=300))
def test_the_past_never_outgrows_its_horizon(wishes: list[int]) -> None:
    past = begin(0.0, 0)
    for index, wish in enumerate(wishes):
        past = carry(remember(past, decision(index * 100.0, wish)), outcome(index * 100.0, wish, wish + 1))
    assert len(past.runs) <= HORIZON / 100 + 2
    assert len(past.changes) <= HORIZON / 100 + 2


@pytest.mark.parametrize(
    ("interval", "silence", "gap"),
    [
        pytest.param(None, GAP, False, id="a-minute-is-no-gap"),
        pytest.param(None, GAP + 0.1, True, id="more-than-a-minute"),
        pytest.param(1.0, GAP, False, id="a-fast-pace-has-the-same-minute"),
        pytest.param(30.0, 90.0, False, id="three-slow-polls"),
        pytest.param(30.0, 90.1, True, id="more-than-three-slow-polls"),
    ],
)
def test_after_a_gap_the_current_count_becomes_a_wish_again(interval: float | None, silence: float, gap: bool) -> None:
    past = replace(begin(0.0, 9), interval=interval)
    resumed = resume(past, silence, 4)
    expected = replace(past, since=silence, runs=(Run(0, 0, 9), Run(silence, silence, 4)), until=silence)
    assert resumed == (expected if gap else past)


def test_a_gap_forgets_no_wish_that_a_window_still_sees() -> None:
    past = resume(remember(begin(0.0, 9), decision(10.0, 9)), 200.0, 4)
    assert past.wishes(200.0 - 300) == [4, 9]


@pytest.mark.parametrize(
    ("result", "kept"),
    [("done", True), ("refused", False), ("conflict", False), ("failed", False), ("observed", False)],
)
def test_only_what_was_carried_out_is_a_change(result: Result, kept: bool) -> None:
    past = carry(begin(0.0, 3), outcome(10.0, 3, 5, result))
    assert past.changes == ((Change(10.0, 3, 5),) if kept else ())


def test_changes_are_read_newest_first_and_strictly_later() -> None:
    past = carry(carry(begin(0.0, 3), outcome(10.0, 3, 5)), outcome(20.0, 5, 4))
    assert past.changes_after(10.0) == [Change(20.0, 5, 4)]
    assert past.changes_after(9.0) == [Change(20.0, 5, 4), Change(10.0, 3, 5)]


def test_changes_that_no_window_can_see_are_dropped() -> None:
    past = carry(carry(begin(0.0, 3), outcome(0.0, 3, 5)), outcome(HORIZON + 1, 5, 4))
    assert past.changes == (Change(HORIZON + 1, 5, 4),)


@pytest.mark.parametrize(
    ("now", "points"),
    [
        pytest.param(series(20.0, 1, 2), [(10, 3, 2), (20, 3, 2)], id="newer"),
        pytest.param(series(10.0, 1, 2), [(10, 3, 2)], id="remembered already"),
        pytest.param(series(5.0, 9), [(10, 3, 2)], id="older"),
        pytest.param(series(20.0, 4, pods=False), [(10, 3, 2), (20, 4, 0)], id="of the workload as a whole"),
        pytest.param(replace(series(20.0, 7), name="memory"), [(20, 7, 1)], id="of which nothing is remembered"),
    ],
)
def test_the_timeline_ends_with_what_a_series_comes_to_now(now: Series, points: list[tuple[float, float, int]]) -> None:
    past = replace(begin(0.0, 3), points={"cpu": (Point(10, 3, 2),)})
    assert timeline(now, past) == tuple(Point(*point) for point in points)


def sent(at: float, uid: str, result: Result = "done", reason: str = "") -> Outcome:
    return replace(outcome(at, 3, 3, result), resized=uid, reason=reason)


def test_every_resize_sent_is_remembered_by_pod_whatever_its_outcome() -> None:
    past = begin(0.0, 3)
    for one in (sent(10.0, "a"), sent(20.0, "b", "failed"), sent(30.0, "a", "conflict")):
        past = carry(past, one)
    assert past.resizes == {"a": 30.0, "b": 20.0}
    assert past.changes == ()
    assert carry(past, sent(25.0 + HORIZON, "c")).resizes == {"a": 30.0, "c": 25.0 + HORIZON}


def test_a_cluster_that_cannot_resize_is_remembered_until_it_can() -> None:
    past = carry(begin(0.0, 3), sent(10.0, "", "refused", "NoInPlaceResize"))
    assert (past.recommends_since, past.resizes) == (10.0, {})
    assert carry(past, outcome(20.0, 3, 4)).recommends_since == 10.0
    assert carry(past, sent(30.0, "a")).recommends_since is None


def test_a_refused_resize_is_not_remembered_as_a_change() -> None:
    assert carry(begin(0.0, 3), sent(10.0, "", "refused", "BudgetSpent")) == begin(0.0, 3)


def counted(
    at: float, current: int, after: int | None = None, result: Result = "done"
) -> tuple[Decision, Outcome | None]:
    """A decision about so many replicas, and what came of going to `after`."""
    seen = replace(decision(at, after), current=current, reason="Why")
    if after is None:
        return seen, None
    acting = replace(seen, action=Scale(REF, "u", "1", current, after, "Why: because"))
    return acting, Outcome("d", at + 1, "p", REF, result, current, after)


@pytest.mark.parametrize(
    ("story", "foreign"),
    [
        pytest.param([counted(0, 3), counted(10, 3)], (), id="nobody changed it"),
        pytest.param([counted(0, 3), counted(10, 5)], (Change(10, 3, 5),), id="somebody did"),
        pytest.param([counted(0, 3, 6), counted(10, 6)], (), id="we did"),
        pytest.param([counted(0, 3, 6), counted(10, 5)], (Change(10, 6, 5),), id="somebody after us"),
        pytest.param([counted(0, 3, 6, "failed"), counted(10, 6)], (), id="we did, and the answer was lost"),
        pytest.param([counted(0, 3, 6, "conflict"), counted(10, 5)], (Change(10, 3, 5),), id="somebody before us"),
        pytest.param([counted(0, 3, 6, "observed"), counted(10, 3)], (), id="we only watched"),
        pytest.param([counted(0, 3), counted(10, 0)], (Change(10, 3, 0),), id="paused by a person"),
        pytest.param([counted(0, 3), counted(10, 5), counted(10 + HORIZON, 5)], (Change(10, 3, 5),), id="kept so long"),
        pytest.param([counted(0, 3), counted(10, 5), counted(11 + HORIZON, 5)], (), id="and no longer"),
    ],
)
def test_who_changed_the_count(story: list[tuple[Decision, Outcome | None]], foreign: tuple[Change, ...]) -> None:
    past = begin(0.0, 3)
    for one, outcome in story:
        past = remember(past, one)
        past = carry(past, outcome) if outcome else past
    assert past.foreign == foreign


def test_a_change_bears_the_reason_of_its_decision() -> None:
    one, outcome = counted(0, 3, 6)
    assert outcome is not None
    past = carry(remember(begin(0.0, 3), one), outcome)
    assert past.changes == (Change(1, 3, 6, "Why"),)


def test_after_a_gap_the_author_of_a_change_is_unknown() -> None:
    past = resume(remember(begin(0.0, 3), counted(0, 3)[0]), 500.0, 7)
    assert remember(past, counted(500, 7)[0]).foreign == ()


def test_a_job_set_that_shrinks_was_changed_by_nobody() -> None:
    past = begin(0.0, 3)
    for at, current in ((0.0, 3), (10.0, 1), (20.0, 0)):
        seen, _ = counted(at, current)
        past = remember(past, replace(seen, workload=Ref("shop", "Job", "mail", "batch/v1")))
    assert past.foreign == ()


def test_where_a_count_left_its_bounds_survives_a_restart(tmp_path: Path) -> None:
    outside = replace(
        decision(10.0, None),
        interval_by="p",
        verdict="scale",
        limits=(Limit("TooFewReplicas", name="bounds", bound=True),),
    )
    journal = Journal(tmp_path)
    for made in (replace(outside, current=1), replace(outside, at=20.0, current=11)):
        journal.append(made)
    journal.close()
    again = Journal(tmp_path)
    assert again.past("p", REF, 30.0, 22).bounds_from == 1
    again.append(replace(decision(40.0, 22), interval_by="p"))
    assert again.past("p", REF, 50.0, 22).bounds_from is None
    again.close()
