"""Judgement about job sets: which Jobs are created under which names, which are deleted, and that none is ended."""

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elasticd.api import Limit, Observation, Recommendation, Strategy, hookimpl
from elasticd.base.clock import VirtualClock
from elasticd.decision.decide import Case, decide, evaluate
from elasticd.decision.workload.jobs import AT_ONCE, Failing, failing, grow, tidy
from elasticd.journal import Journal
from elasticd.kit import Hours
from elasticd.kit.history import begin, carry
from elasticd.limits.timed import Blackout
from elasticd.model.actions import Action, Answer, Create, Remove, Scale
from elasticd.model.history import Past
from elasticd.model.jobs import Job
from elasticd.model.policy import Bounds, Policy
from elasticd.model.records import Decision, Outcome
from elasticd.ports.cluster import Kind, Snapshot
from elasticd.registry import Hooks
from elasticd.runtime.actions import STOPPED
from elasticd.runtime.execute import carry_out
from elasticd.runtime.loop import Loop
from elasticd.testing import NOW
from tests.kit.batches import HASH, MANIFEST, SET, TRANSCODE, ended, job, seen, workload
from tests.kit.clusters import Scripted, Shown
from tests.kit.loops import Told


class Wish(Strategy, tag="told", frozen=True):
    """Wishes for what it is told."""

    wish: int | None = 0

    def reads(self) -> tuple[str, ...]:
        return ()

    @hookimpl
    def recommend_replicas(self) -> Recommendation:
        return Recommendation(self.wish, "Told", "as told")


class Held(Strategy, tag="held", frozen=True):
    """A limit at the count that there is."""

    def reads(self) -> tuple[str, ...]:
        return ()

    @hookimpl
    def limit(self, observation: Observation) -> Limit:
        return Limit("Held", highest=observation.workload.replicas)


TEN = Bounds(10, 0)


def policy(wish: int | None = 0, *limits: Strategy, bounds: Bounds = TEN, **job_set: Any) -> Policy:
    return Policy(
        name="transcode",
        replicas=bounds,
        strategies=(Wish(wish=wish),),
        limits=limits,
        workload=SET.target,
        job=replace(SET, **job_set),
        mode="act",
    )


def judge(of: Policy, found: Observation, past: Past | None = None) -> Decision:
    hooks = Hooks((*of.strategies, *of.limits))
    return decide(Case(of, found, past or begin(NOW, found.workload.replicas), hooks))


def test_growth_creates_missing_jobs_under_the_next_free_numbers() -> None:
    decision = judge(policy(5), seen([job(3), job(4), ended(7)]))
    assert (decision.verdict, decision.current, decision.replicas) == ("scale", 2, 5)
    action = decision.action
    assert isinstance(action, Create)
    assert (action.before, action.after, action.template, action.decision) == (2, 5, HASH, decision.id)
    assert action.names() == tuple(f"transcode-{HASH}-{number}" for number in (8, 9, 10))


def test_the_same_decision_makes_the_same_names() -> None:
    """A reply was lost, and nothing that was created is seen yet: whoever decides again names the same Jobs."""
    one, other = judge(policy(5), seen([job(4)])), judge(policy(5), seen([job(4)], at=NOW + 9, confirmed=NOW + 9))
    assert isinstance(one.action, Create)
    assert isinstance(other.action, Create)
    assert one.action.names() == other.action.names()


@given(there=st.sets(st.integers(1, 12)), unseen=st.sets(st.integers(1, 12)), wish=st.integers(0, 12))
def test_jobs_not_yet_seen_get_the_same_names_again(there: set[int], unseen: set[int], wish: int) -> None:
    """Whatever is not seen of the newest Jobs, no more are there in the end than were wished for, or were before."""
    first = max(there, default=0) + 1
    lately = set(range(first, first + len(unseen)))  # created by a decision whose end is not known
    decision = judge(policy(wish, bounds=Bounds(100, 0)), seen([job(number) for number in there]))
    named = set() if not isinstance(decision.action, Create) else {
        int(name.rpartition("-")[2]) for name in decision.action.names()
    }  # fmt: skip
    assert len(there | lately | named) == max(wish, len(there) + len(lately))


def test_numbers_go_on_from_those_of_an_older_template() -> None:
    action = grow(SET, workload([job(4, template="ffffffff")]), 2, "", "")
    assert action.names() == (f"transcode-{HASH}-5",)


def test_numbers_go_on_from_a_name_that_is_taken() -> None:
    action = grow(SET, replace(workload([job(4)]), taken=6), 2, "", "")
    assert action.names() == (f"transcode-{HASH}-7",)


def test_numbers_begin_again_once_no_job_is_left() -> None:
    """As ttlSecondsAfterFinished leaves it: the names are free, and UIDs tell the Jobs apart."""
    assert grow(SET, workload([]), 1, "", "").names() == (f"transcode-{HASH}-1",)


async def test_the_manifest_is_given_only_to_who_acts(monkeypatch: pytest.MonkeyPatch) -> None:
    of, cluster, given = policy(1), Scripted(), list[Action]()

    async def act(action: Action) -> Answer:
        given.append(action)
        return Answer("done", 201)

    monkeypatch.setattr(cluster, "act", act)
    decision = judge(of, seen())
    assert MANIFEST not in msgspec.json.encode(decision).decode()
    assert [one.result async for one in carry_out(cluster, VirtualClock(NOW), decision, of.job)] == ["done"]
    (action,) = given
    assert isinstance(action, Create)
    assert action.manifest == MANIFEST


def test_a_decision_about_jobs_survives_a_journal_round_trip() -> None:
    decision = judge(policy(3, successful_history=0), seen([ended(1)]))
    assert decision.action
    assert decision.removals
    assert msgspec.json.decode(msgspec.json.encode(decision), type=Decision) == decision


@pytest.mark.parametrize(
    ("wish", "bounds", "reason"),
    [
        pytest.param(0, Bounds(10, 0), "JobsRunOn", id="a-strategy-that-wants-fewer"),
        pytest.param(9, Bounds(2, 0), "JobsRunOn", id="a-smaller-max"),
    ],
)
def test_jobs_in_flight_are_never_ended(wish: int, bounds: Bounds, reason: str) -> None:
    decision = judge(policy(wish, bounds=bounds), seen([job(1), job(2), job(3)]))
    assert (decision.verdict, decision.replicas, decision.reason) == ("hold", 3, reason)
    assert (decision.action, decision.removals) == (None, ())
    (limit,) = [one for one in decision.limits if one.name == "jobs"]
    assert (limit.lowest, limit.bound) == (3, True)


def broke(number: int, ago: float, **more: Any) -> Job:
    """A Job that failed so many seconds ago."""
    return ended(number, NOW - ago, "Failed", **more)


@pytest.mark.parametrize(
    ("jobs", "found"),
    [
        pytest.param([broke(1, 5), broke(2, 5)], None, id="two"),
        pytest.param([broke(n, 5) for n in (1, 2, 3)], Failing(3, 0, NOW + 5), id="three-at-once-10-s-after"),
        pytest.param([broke(n, 5) for n in range(50)], Failing(50, 0, NOW + 5), id="fifty-at-once-10-s-after"),
        pytest.param([broke(n, 5 + 20 * n) for n in range(3)], Failing(3, 40, NOW + 35), id="for-40-s-40-s-after"),
        pytest.param([broke(n, 5 + 400 * n) for n in range(3)], Failing(3, 800, NOW + 355), id="six-minutes-at-most"),
        pytest.param([broke(n, 9) for n in (1, 2, 3)] + [ended(4, NOW - 4)], None, id="one-completed-since"),
        pytest.param([broke(n, 9) for n in (1, 2, 3)] + [ended(4, NOW - 9)], None, id="one-completed-at-the-time"),
        pytest.param(
            [broke(n, 9) for n in (1, 2, 3)] + [ended(4, NOW - 30)], Failing(3, 0, NOW + 1), id="completed-before"
        ),
        pytest.param(
            [broke(n, 9) for n in (1, 2, 3)] + [ended(4, NOW - 4, template="feed")],
            Failing(3, 0, NOW + 1),
            id="completed-by-another-template",
        ),
        pytest.param([broke(n, 5, template="feed") for n in (1, 2, 3)], None, id="another-template"),
        pytest.param([job(n) for n in (1, 2, 3)], None, id="in-flight"),
        pytest.param([ended(n, NOW - 5, result="") for n in (1, 2, 3)], None, id="deleted-in-flight"),
    ],
)
@pytest.mark.parametrize("are_gone", [False, True], ids=["kept", "gone"])
def test_failed_jobs_delay_the_next_ones(jobs: list[Job], found: Failing | None, *, are_gone: bool) -> None:
    assert failing(SET, workload([], gone=jobs) if are_gone else workload(jobs)) == found


def test_no_jobs_are_created_while_they_fail() -> None:
    observation = seen([broke(n, 4) for n in (1, 2, 3)] + [job(4)])
    case = Case(of := policy(3), observation, begin(NOW, 1), Hooks(of.strategies))
    evaluated = evaluate(case)
    decision = evaluated.decision
    assert (decision.verdict, decision.replicas, decision.wish, decision.action) == ("hold", 1, 3, None)
    assert decision.reason == "JobsFail"
    assert decision.message == "the last 3 Jobs failed; the next is created in 6 s"
    assert ("AbleToScale", False, "JobsFail") in [(one.type, one.status, one.reason) for one in decision.conditions]
    assert evaluated.until == NOW + 6
    later = decide(replace(case, observation=replace(observation, at=NOW + 6, confirmed=NOW + 6)))
    assert (later.verdict, later.replicas) == ("scale", 3)


def test_jobs_that_fail_for_ever_are_created_ever_more_seldom() -> None:
    """Three at a time fail within a second, for an hour."""
    jobs: list[Job] = []
    for second in range(3600):
        at = NOW + second
        found = failing(SET, workload(jobs))
        if found is None or at >= found.until:
            jobs += [ended(len(jobs) + n, at, "Failed") for n in (1, 2, 3)]
    assert len({one.ended for one in jobs}) == 16  # after 10, 20, 40, ... 640 s, then every 360 s


@pytest.mark.parametrize("current", range(5))
@pytest.mark.parametrize("wish", [None, 0, 3, 99])
@pytest.mark.parametrize("bounds", [Bounds(2, 0), Bounds(3, 2), Bounds(99, 0)], ids=["2", "2-3", "99"])
def test_no_decision_ends_a_job_or_goes_beyond_max(current: int, wish: int | None, bounds: Bounds) -> None:
    decision = judge(policy(wish, bounds=bounds), seen([job(number) for number in range(1, current + 1)]))
    assert decision.replicas >= current
    assert decision.replicas <= max(current, bounds.max)
    assert not isinstance(decision.action, Scale)
    if wish is None and current >= bounds.min:
        assert decision.action is None


def test_no_jobs_are_no_pause() -> None:
    """A Deployment at zero with min above it was put there by a person; a job set is there whenever all have ended."""
    decision = judge(policy(0, bounds=Bounds(5, 2)), seen([ended(1)]))
    assert (decision.verdict, decision.replicas, decision.reason) == ("scale", 2, "TooFewReplicas")


def test_limits_restrain_growth_as_any() -> None:
    decision = judge(policy(5, Held()), seen([job(1)]))
    assert (decision.verdict, decision.replicas, decision.reason, decision.action) == ("hold", 1, "Held", None)


def test_on_an_old_view_nothing_is_created_or_deleted() -> None:
    decision = judge(policy(5, successful_history=0), seen([ended(1)], confirmed=NOW - 121))
    assert (decision.reason, decision.action, decision.removals) == ("StaleCluster", None, ())


def names(removal: Remove) -> list[int]:
    return [int(name.rpartition("-")[2]) for name, _ in removal.jobs]


@pytest.mark.parametrize(
    ("jobs", "options", "removed"),
    [
        pytest.param([ended(1, 9), ended(2, 8), ended(3, 7)], {"successful_history": 2}, [3], id="the oldest end"),
        pytest.param([ended(2, 9), ended(1, 9)], {"successful_history": 1}, [1], id="within-a-second-by-number"),
        pytest.param([ended(1), ended(2)], {"successful_history": 2}, [], id="as-many-as-are-kept"),
        pytest.param([ended(1), job(2)], {"successful_history": 0}, [1], id="none-is-kept"),
        pytest.param([ended(1, deleted=True)], {"successful_history": 0}, [], id="being-deleted-already"),
        pytest.param([ended(1, 1, "Failed"), ended(2, 2)], {"failed_history": 0}, [1], id="failed-ones-have-their-own"),
        pytest.param(
            [ended(1, 3), ended(2, 2, "Failed"), ended(3, 1)],
            {"failed_history": 0, "successful_history": 0},
            [3, 2, 1],
            id="both-oldest-first",
        ),
        pytest.param(
            [ended(n) for n in range(1, 300)], {"successful_history": 0}, list(range(1, 101)), id="100-at-once"
        ),
    ],
)
def test_beyond_the_history_what_has_ended_is_deleted(
    jobs: list[Job], options: dict[str, int], removed: list[int]
) -> None:
    removals = tidy(replace(SET, **options), workload(jobs))
    assert [number for one in removals for number in names(one)] == removed
    assert {(one.reason, one.before - one.after) for one in removals} <= {("HistoryLimit", 0)}
    assert len(removed) <= AT_ONCE


def test_kedas_own_example_of_a_mixed_history() -> None:
    """scale_jobs_test.go, TestCleanUpMixedCaseWithSortByTime: 1 that succeeded and 2 that failed are kept."""
    jobs = [ended(1, 37), ended(2, 36), ended(3, 35)]
    jobs += [ended(4, 37, "Failed"), ended(5, 36, "Failed"), ended(6, 38, "Failed")]
    (removal,) = tidy(replace(SET, successful_history=1, failed_history=2), workload(jobs))
    assert sorted(names(removal)) == [2, 3, 5]


OLD_ONES = [
    job(1, template="ffffffff"),
    job(2),
    ended(3, template="ffffffff"),
    job(4, template="ffffffff", deleted=True),
]


@pytest.mark.parametrize(("rollout", "removed"), [("gradual", []), ("default", [1])])
def test_jobs_of_an_old_template_run_on_or_are_deleted(rollout: str, removed: list[int]) -> None:
    removals = tidy(replace(SET, rollout=rollout), workload(OLD_ONES))
    assert [number for one in removals for number in names(one)] == removed
    assert [(one.reason, one.before, one.after) for one in removals] == [("TemplateChanged", 3, 2)] * len(removed)


class Slow(Scripted):
    """A cluster that never answers."""

    async def act(self, action: Action) -> Answer:
        await asyncio.Event().wait()
        return Answer("done")

    async def observe(self, now: float, kinds: frozenset[Kind]) -> Snapshot:
        shown = Shown((workload([ended(1)]), ()))
        shown.confirmed = now
        return shown


async def test_a_stopping_daemon_begins_no_further_decided_action() -> None:
    clock, journal, told = VirtualClock(NOW), Journal(), Told()
    loop = Loop(Slow(), journal, clock, [told])
    loop.apply([policy(3, successful_history=0)])
    await loop.tick(NOW)
    await clock.sleep_until(NOW + 2)
    await loop.tick(NOW + 2)
    (decision,) = told.made
    assert decision.action
    assert decision.removals
    await loop.actions.drain(0.01)
    assert [(one.result, one.reason, one.after) for one in told.outcomes] == [("failed", STOPPED, 3)]


async def test_jobs_that_are_deleted_are_an_outcome_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    told, clock = Told(), VirtualClock(NOW)
    cluster = Slow()
    monkeypatch.setattr(cluster, "act", Scripted().act)
    loop = Loop(cluster, Journal(), clock, [told])
    loop.apply([policy(3, successful_history=0)])
    await loop.tick(NOW)
    await clock.sleep_until(NOW + 2)
    await loop.tick(NOW + 2)
    await loop.actions.drain()
    assert [(one.result, one.before, one.after) for one in told.outcomes] == [("done", 0, 3), ("done", 0, 0)]
    assert [one.condition is None for one in told.outcomes] == [False, True]


def test_what_is_deleted_is_named_with_its_uid() -> None:
    (removal,) = tidy(replace(SET, successful_history=0), workload([ended(1)]))
    assert (removal.workload, removal.jobs) == (TRANSCODE, ((f"transcode-{HASH}-1", "u1"),))


def test_deleting_what_has_ended_is_no_change_of_the_count() -> None:
    outcome = Outcome("d", NOW, "transcode", TRANSCODE, "done", before=2, after=2)
    assert carry(begin(NOW, 2), outcome).changes == ()
    assert len(carry(begin(NOW, 2), replace(outcome, after=1)).changes) == 1


@pytest.mark.parametrize("freeze", ["down", "both"])
def test_frozen_job_set_keeps_jobs_of_an_old_template(freeze: Any) -> None:
    frozen = replace(policy(0, rollout="default"), freeze=freeze)
    assert judge(frozen, seen([job(1, template="00000000")])).removals == ()


def test_a_blackout_keeps_what_runs_from_an_old_template() -> None:
    always = Blackout(windows=(Hours(start="0 0 * * *", duration=86400.0),))
    assert judge(policy(0, always, rollout="default"), seen([job(1, template="00000000")])).removals == ()
