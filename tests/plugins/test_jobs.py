"""The strategy `jobs`: KEDA's four formulas, and that no message is counted twice."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticd.api import Recommendation
from elasticd.decision.quality import failed
from elasticd.decision.workload.combine import within
from elasticd.model.jobs import Job
from elasticd.model.policy import Bounds
from elasticd.model.workload import Quality, Series
from elasticd.testing import NOW, check_strategy, observation
from elasticd_plugins.jobs import Jobs
from tests.kit.batches import OLD, ended, job, pod_of, queue, seen


def jobs(strategy: str = "default", **options: Any) -> Jobs:
    return msgspec.convert(
        {"type": "jobs", "queue": [{"series": "queue_length"}], "strategy": strategy, **options}, Jobs
    )


def wanted(strategy: Jobs, *arguments: Any, **more: Any) -> int | None:
    return strategy.recommend_replicas(seen(*arguments, **more)).replicas


def flight(running: int, pending: int = 0) -> dict[str, Any]:
    """So many Jobs in flight, of which so many have a pod that is pending."""
    there = [job(number) for number in range(1, running + 1)]
    pods = [pod_of(one, "Pending" if one.number <= pending else "Running") for one in there]
    return {"jobs": there, "pods": pods}


# KEDA 2.17, ScaledJob specification, maxReplicaCount: queue, max, target, running, created.
@pytest.mark.parametrize(
    ("length", "most", "target", "running", "created"),
    [
        pytest.param(10, 3, 1, 0, 3, id="more-than-max"),
        pytest.param(10, 3, 2, 0, 3, id="two-messages-a-job"),
        pytest.param(10, 3, 1, 1, 2, id="one-runs"),
        pytest.param(10, 100, 1, 0, 10, id="room-for-all"),
        pytest.param(4, 3, 5, 0, 1, id="less-than-one-job-takes"),
    ],
)
def test_the_table_of_kedas_documentation(length: int, most: int, target: int, running: int, created: int) -> None:
    strategy = jobs(queue=[{"series": "queue_length", "per_job": target}])
    found = wanted(strategy, queues=float(length), **flight(running))
    assert found is not None
    assert within(found, Bounds(most, 0)) - running == created


# scale_jobs_test.go and the ScaledJob specification: needed, running (pending Jobs among them), pending, max, created.
FORMULAS = [
    pytest.param("default", {}, 3, 2, 0, 5, 1, id="default: 3 needed, 2 run"),
    pytest.param("default", {}, 2, 0, 0, 5, 2, id="default: 2 needed, none runs"),
    pytest.param("default", {}, 3, 3, 0, 5, 0, id="default: 3 messages, all in hand"),
    pytest.param("default", {}, 6, 3, 0, 9, 3, id="default: 3 more are submitted"),
    pytest.param("default", {}, 1, 4, 0, 9, 0, id="default: nothing is ended"),
    pytest.param("custom", {"deduction": 1, "running_percentage": 0.5}, 3, 2, 0, 5, 1, id="custom: 3 - 1 - 2/2"),
    pytest.param("custom", {"deduction": 1, "running_percentage": 0.5}, 10, 0, 0, 10, 9, id="custom: 10 - 1 - 0"),
    pytest.param(
        "custom", {"deduction": 2, "running_percentage": 0.0}, 3, 2, 0, 5, 1, id="custom: none of the running"
    ),
    pytest.param("custom", {"running_percentage": 0.5}, 3, 2, 0, 5, 2, id="custom: no deduction"),
    pytest.param("custom", {"running_percentage": 0.5}, 3, 3, 0, 9, 2, id="custom: half of 3 is 1"),
    pytest.param("accurate", {}, 3, 2, 0, 5, 3, id="accurate: all have begun"),
    pytest.param("accurate", {}, 5, 2, 0, 5, 3, id="accurate: as far as max"),
    pytest.param("accurate", {}, 3, 4, 2, 10, 1, id="accurate: 2 pending"),
    pytest.param("accurate", {}, 5, 4, 2, 5, 1, id="accurate: 2 pending, room for one"),
    pytest.param("accurate", {}, 3, 3, 3, 5, 0, id="accurate: all are pending"),
    pytest.param("accurate", {}, 15, 15, 15, 20, 0, id="accurate: 15 are pending"),
    pytest.param("accurate", {}, 10, 10, 10, 15, 0, id="accurate: 10 are pending"),
    pytest.param("accurate", {}, 20, 15, 10, 20, 5, id="accurate: some are pending"),
    pytest.param("eager", {}, 4, 3, 0, 10, 4, id="eager: 4 more"),
    pytest.param("eager", {}, 4, 7, 0, 10, 3, id="eager: what room there is"),
    pytest.param("eager", {}, 15, 0, 0, 10, 10, id="eager: all the room"),
    pytest.param("eager", {}, 0, 0, 0, 10, 0, id="eager: nothing for nothing"),
]


@pytest.mark.parametrize(("strategy", "options", "needed", "running", "pending", "most", "created"), FORMULAS)
def test_formula(
    strategy: str, options: dict[str, Any], needed: int, running: int, pending: int, most: int, created: int
) -> None:
    found = wanted(jobs(strategy, **options), queues=float(needed), **flight(running, pending))
    assert found is not None
    assert within(found, Bounds(most, 0)) - running == created


def keda(strategy: str, needed: int, running: int, pending: int, most: int) -> int:
    """KEDA 2.17: the Jobs that it creates. Pending Jobs are among the running."""
    scale = min(most, needed)
    if strategy == "default":
        return max(0, scale - running)
    if strategy == "eager":
        return max(0, min(most - running - pending, scale))
    if strategy == "accurate":
        return max(0, most - running if scale + running > most else scale - pending)
    return max(0, min(scale - 1 - int(running * 0.5), most))


@pytest.mark.parametrize(
    ("strategy", "needed", "running", "pending", "most", "theirs", "ours"),
    [
        pytest.param("eager", 4, 6, 3, 10, 1, 4, id="pending Jobs take up their room twice"),
        pytest.param("accurate", 3, 3, 3, 5, 2, 0, id="at the maximum, pending Jobs are forgotten"),
        pytest.param("custom", 30, 4, 0, 10, 7, 6, id="more is created than there is room for"),
        pytest.param("custom", 30, 8, 0, 10, 5, 2, id="and more"),
        pytest.param("custom", 12, 9, 0, 10, 5, 1, id="and again"),
    ],
)
def test_where_it_parts_from_keda(
    strategy: str, needed: int, running: int, pending: int, most: int, theirs: int, ours: int
) -> None:
    options = {"deduction": 1, "running_percentage": 0.5} if strategy == "custom" else {}
    found = wanted(jobs(strategy, **options), queues=float(needed), **flight(running, pending))
    assert found is not None
    assert (keda(strategy, needed, running, pending, most), within(found, Bounds(most, 0)) - running) == (theirs, ours)


@given(
    strategy=st.sampled_from(["default", "accurate", "eager", "custom"]),
    needed=st.integers(0, 40),
    running=st.integers(1, 30),
    pending=st.integers(0, 30),
    room=st.integers(0, 40),
)
def test_elsewhere_it_creates_what_keda_does(strategy: str, needed: int, running: int, pending: int, room: int) -> None:
    most, pending = running + room, min(pending, running)
    if strategy in ("eager", "accurate") and pending and needed + running > most - pending:
        return
    if strategy == "custom" and (needed > most or keda(strategy, needed, running, pending, most) > room):
        return
    options = {"deduction": 1, "running_percentage": 0.5} if strategy == "custom" else {}
    found = wanted(jobs(strategy, **options), queues=float(needed), **flight(running, pending))
    assert found is not None
    assert within(found, Bounds(most, 0)) - running == keda(strategy, needed, running, pending, most)


@given(
    strategy=st.sampled_from(["default", "accurate", "eager", "custom"]),
    length=st.floats(0, 1e12),
    running=st.integers(0, 20),
    pending=st.integers(0, 20),
    young=st.integers(0, 20),
)
def test_the_count_covers_running_jobs_and_never_exceeds_need(
    strategy: str, length: float, running: int, pending: int, young: int
) -> None:
    there = [job(number, created=NOW if number <= young else NOW - 600) for number in range(1, running + 1)]
    pods = [pod_of(one, "Pending" if one.number <= pending else "Running") for one in there]
    found = wanted(jobs(strategy), there, length, pods)
    assert found is not None
    assert running <= found <= min(2**31 - 1, running + length + 1)


@pytest.mark.parametrize("strategy", ["default", "accurate", "eager", "custom"])
def test_the_same_measurement_creates_its_jobs_once(strategy: str) -> None:
    """However often one looks: what was created for it is known, though no pod has begun and no message has gone."""
    made = [job(number, created=NOW + 1) for number in range(1, 8)]
    assert wanted(jobs(strategy), [], 7.0) == 7
    assert wanted(jobs(strategy), made, 7.0, []) == 7
    assert wanted(jobs(strategy), made, 7.0) == 7
    assert wanted(jobs(strategy), [ended(one.number, NOW + 2, created=NOW + 1) for one in made], 7.0) == 0


@pytest.mark.parametrize(
    ("strategy", "at", "wish"),
    [
        pytest.param("default", NOW - 5, 2, id="default: the message may have been counted"),
        pytest.param("default", NOW - 0.5, 2, id="default: in the same second it may too"),
        pytest.param("default", NOW + 2.5, 2, id="default: what a measurement says may be older than it is"),
        pytest.param("default", NOW + 3.5, 3, id="default: a later measurement knows"),
        pytest.param("custom", NOW - 5, 2, id="custom: the same"),
        pytest.param("custom", NOW + 3.5, 3, id="custom: and then it knows"),
        pytest.param("accurate", NOW - 5, 4, id="accurate: nobody knows any more when it took its message"),
        pytest.param("accurate", NOW + 3.5, 5, id="accurate: a later measurement knows that it did"),
        pytest.param("eager", NOW - 5, 5, id="eager: whatever has ended"),
    ],
)
@pytest.mark.parametrize("there", [True, False], ids=["it is there", "it is gone"])
def test_a_job_that_has_just_ended(strategy: str, at: float, wish: int, there: bool) -> None:
    """Of three messages two are in hand, and the third is the one that was done at NOW, or it is a new one. It is all
    one whether the Job is there still, or its time to live or the history was over at once."""
    done = ended(3, NOW)
    left = {"there": [job(1), job(2), done]} if there else {"there": [job(1), job(2)], "gone": [done]}
    assert wanted(jobs(strategy), left["there"], {"queue_length": queue(3, at)}, gone=left.get("gone", ())) == wish


@pytest.mark.parametrize(
    ("strategy", "created", "wish"),
    [
        pytest.param("default", OLD, 1, id="default"),
        pytest.param("accurate", OLD, 2, id="accurate"),
        pytest.param("custom", OLD, 1, id="custom"),
        pytest.param("eager", OLD, 3, id="eager: of the time before"),
        pytest.param("eager", NOW - 2, 2, id="eager: made for this measurement"),
        pytest.param("accurate", NOW - 2, 2, id="accurate: made for this measurement"),
        pytest.param("default", NOW - 2, 1, id="default: made for this measurement"),
    ],
)
def test_a_job_that_was_deleted_while_it_was_in_flight(strategy: str, created: float, wish: int) -> None:
    """Whether its message waits again only a later measurement tells: of two one is in hand."""
    deleted = job(2, created=created, ended=NOW - 1)
    assert wanted(jobs(strategy), [job(1)], {"queue_length": queue(2, NOW - 5)}, gone=[deleted]) == wish


@pytest.mark.parametrize(
    ("behind", "wish"), [pytest.param(0.0, 10, id="a figure of now"), pytest.param(5.0, 5, id="one of before")]
)
def test_jobs_that_began_after_the_measurement_are_not_made_twice(behind: float, wish: int) -> None:
    """All five run, and have taken the five messages that are counted or, if the figure is of now, others."""
    there = [job(number, created=NOW - 5) for number in range(1, 6)]
    assert wanted(jobs("accurate"), there, {"queue_length": queue(5, NOW - behind)}) == wish


@pytest.mark.parametrize(("lag", "wish"), [(0, 3), (0.4, 3), (0.6, 2), (60, 2)], ids=str)
def test_the_lag_says_how_long_ended_jobs_keep_their_message(lag: float, wish: int) -> None:
    there = [job(1), job(2), ended(3, NOW)]
    assert wanted(jobs(lag=lag), there, {"queue_length": queue(3, NOW + 1.5)}) == wish


def test_the_message_counts_jobs_that_ended_after_the_measurement() -> None:
    said = jobs().recommend_replicas(seen([job(1), ended(2, NOW)], {"queue_length": queue(2, NOW - 5)}))
    assert said.message == "2 Jobs needed, 1 in flight, 1 ended too lately for the queue to know"


def test_the_message_counts_suspended_jobs() -> None:
    held = [msgspec.structs.replace(job(number), suspended=number < 3) for number in range(1, 4)]
    said = jobs().recommend_replicas(seen(held, {"queue_length": queue(2, NOW - 5)}))
    assert said.message == "2 Jobs needed, 3 in flight, 2 of them suspended by somebody"


def test_eager_fills_all_the_room_measurement_by_measurement() -> None:
    there: list[Job] = []
    measured = NOW
    for _ in range(10):
        found = wanted(jobs("eager"), there, {"queue_length": queue(3, measured)})
        assert found is not None
        there += [job(number, created=measured + 1) for number in range(len(there) + 1, min(10, found) + 1)]
        measured += 5
    assert len(there) == 10


@pytest.mark.parametrize(
    ("started", "pod", "wish"),
    [
        pytest.param("scheduled", {"phase": "Pending", "node": "n1"}, 2, id="scheduled"),
        pytest.param("scheduled", {"phase": "Pending"}, 1, id="not-scheduled"),
        pytest.param("running", {"phase": "Running", "ready": False}, 2, id="running"),
        pytest.param("running", {"phase": "Pending", "node": "n1"}, 1, id="not-running"),
        pytest.param("ready", {"phase": "Running", "ready": True}, 2, id="ready"),
        pytest.param("ready", {"phase": "Running", "ready": False}, 1, id="not-ready"),
        pytest.param("running", {"phase": "Succeeded"}, 2, id="done"),
        pytest.param("running", {"phase": "Failed"}, 1, id="failed, and tried again"),
        pytest.param("ready", {"phase": "Unknown"}, 1, id="not-known"),
        pytest.param("running", None, 1, id="no-pod-yet"),
    ],
)
def test_a_job_is_pending_until_its_pod_has_begun(started: str, pod: dict[str, Any] | None, wish: int) -> None:
    one = job(1)
    pods = [pod_of(one, **pod)] if pod is not None else []
    assert wanted(jobs("accurate", started=started), [one], 1.0, pods) == wish


@pytest.mark.parametrize(
    ("since", "wish"), [(NOW - 4, 2), (NOW - 2.5, 1), (NOW + 3, 1)], ids=["before", "in-the-same-second", "after"]
)
def test_a_job_begun_after_the_queue_measurement_is_pending(since: float, wish: int) -> None:
    one = job(1)
    assert wanted(jobs("accurate"), [one], 1.0, [pod_of(one, ready_changed=since)]) == wish


def test_the_pod_of_another_job_says_nothing_of_this_one() -> None:
    """Names come again; UIDs do not."""
    one = job(1)
    before = pod_of(
        one, "Succeeded", labels={"batch.kubernetes.io/controller-uid": "before", "controller-uid": one.uid}
    )
    assert wanted(jobs("accurate"), [one], 1.0, [before]) == 1


TWO = [{"series": "a"}, {"series": "b", "per_job": 2}, {"series": "c"}]


@pytest.mark.parametrize(("calculation", "wish"), [("max", 6), ("min", 4), ("avg", 5), ("sum", 10)], ids=str)
def test_several_queues(calculation: str, wish: int) -> None:
    """One of 6, one of 7 messages for Jobs of two, and one that is empty and does not count."""
    strategy = jobs(calculation=calculation, queue=TWO)
    assert wanted(strategy, [], {"a": 6.0, "b": 7.0, "c": 0.0}) == wish
    assert wanted(strategy, [], {"a": 0.0, "b": 0.0, "c": 0.0}) == 0


@pytest.mark.parametrize(("calculation", "wish"), [("max", 6), ("sum", 6), ("min", None), ("avg", None)], ids=str)
def test_one_queue_of_several_that_is_not_known(calculation: str, wish: int | None) -> None:
    series = {"a": 6.0, "b": failed("b", "test", "the source is down"), "c": 0.0}
    assert wanted(jobs(calculation=calculation, queue=TWO), [], series) == wish


def stale() -> Series:
    return msgspec.structs.replace(queue(5), quality=Quality.STALE)


@pytest.mark.parametrize(
    "series",
    [
        pytest.param({}, id="not-read"),
        pytest.param({"queue_length": failed("queue_length", "test", "the source is down")}, id="unreadable"),
        pytest.param({"queue_length": queue(float("nan"))}, id="nan"),
        pytest.param({"queue_length": queue(float("inf"))}, id="infinite"),
        pytest.param({"queue_length": queue(-3)}, id="negative"),
        pytest.param({"queue_length": stale()}, id="stale"),
    ],
)
@pytest.mark.parametrize("strategy", ["default", "accurate", "eager", "custom"])
def test_for_a_queue_that_is_not_known_nothing_is_created(strategy: str, series: dict[str, Series]) -> None:
    said = jobs(strategy).recommend_replicas(seen([job(1)], series))
    assert (said.replicas, said.reason) == (None, "QueueUnknown")
    assert "queue_length" in said.message


@pytest.mark.parametrize(
    ("there", "length", "wish", "reason"),
    [
        pytest.param([], 0.0, 0, "QueueEmpty", id="no Jobs, no messages, no history"),
        pytest.param([], 0.4, 1, "QueueWaits", id="part of a message is one"),
        pytest.param([ended(1), ended(2, result="Failed")], 1.0, 1, "QueueWaits", id="only what has ended"),
        pytest.param([job(1)], 1.0, 1, "JobsEnough", id="one Job, one message"),
        pytest.param([job(1), job(2)], 0.0, 2, "QueueEmpty", id="an empty queue ends nothing"),
        pytest.param([job(1, suspended=True)], 1.0, 1, "JobsSuspended", id="one Job that is held, one message"),
        pytest.param([job(1, suspended=True), job(2)], 1.0, 2, "JobsEnough", id="one runs beside one that is held"),
        pytest.param([job(1, suspended=True)], 0.0, 1, "QueueEmpty", id="one Job that is held, no message"),
        pytest.param([job(1, suspended=True)], 2.0, 2, "QueueWaits", id="one Job that is held, two messages"),
        pytest.param([], 1e18, 2**31 - 1, "QueueWaits", id="absurd"),
    ],
)
def test_there_is_a_stated_answer(there: list[Any], length: float, wish: int, reason: str) -> None:
    said = jobs().recommend_replicas(seen(there, length))
    assert (said.replicas, said.reason) == (wish, reason)


@pytest.mark.parametrize(
    ("length", "wish"), [(0.0, 0), (5.0, 0), (5.1, 6), (6.0, 6)], ids=["empty", "at", "above", "well-above"]
)
def test_a_queue_counts_as_empty_up_to_its_activation(length: float, wish: int) -> None:
    strategy = jobs(queue=[{"series": "queue_length", "activation": 5}])
    assert wanted(strategy, [], length) == wish


@pytest.mark.parametrize(
    ("strategy", "running", "length", "wish"),
    [
        pytest.param("default", 0, 0.0, 2, id="two wait for the first message"),
        pytest.param("default", 2, 3.0, 5, id="keda: 2 spare and 3 new"),
        pytest.param("default", 5, 3.0, 5, id="enough"),
        pytest.param("custom", 0, 0.0, 2, id="custom: two wait"),
        pytest.param("custom", 2, 3.0, 5, id="custom: they are not of the running"),
    ],
)
def test_spare_jobs_wait_for_the_next_message(strategy: str, running: int, length: float, wish: int) -> None:
    assert wanted(jobs(strategy, spare=2), queues=length, **flight(running)) == wish


def test_an_overflowing_queue_asks_for_the_largest_possible_count() -> None:
    assert wanted(jobs(queue=[{"series": "queue_length", "per_job": 1e-300}]), [], 1e300) == 2**31 - 1


def test_a_dry_run_counts_pretended_jobs_as_pending() -> None:
    found = seen([], 3.0)
    pretended = msgspec.structs.replace(found, workload=msgspec.structs.replace(found.workload, replicas=2))
    assert jobs("accurate").recommend_replicas(pretended).replicas == 3


def test_what_is_no_job_set_is_left_alone() -> None:
    said = jobs().recommend_replicas(observation([0.5], series={"queue_length": 7}))
    assert said == Recommendation(None, "NotAJobSet", "must be about a [job], is about a Deployment")


def test_explain_shows_each_queue() -> None:
    said = jobs(queue=TWO).recommend_replicas(seen([], {"a": 6.0, "b": 7.0, "c": failed("c", "test", "down")}))
    rows = [(one.metric, one.current, one.target, one.replicas) for one in said.measures]
    assert rows == [("a", "6", "1 for a Job", 6), ("b", "7", "2 for a Job", 4), ("c", "", "", None)]
    assert said.message == "6 Jobs needed, 0 in flight"


@pytest.mark.parametrize("strategy", ["default", "accurate", "eager", "custom"])
def test_it_does_nothing_that_no_strategy_may(strategy: str) -> None:
    assert check_strategy(jobs(strategy)) == []


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        pytest.param({"queue": []}, "length >= 1", id="queue"),
        pytest.param({"queue": [{}]}, "missing required field `series`", id="queue.series"),
        pytest.param({"queue": [{"series": "a"}, {"series": "a"}]}, "queue[1].series: must be given once", id="twice"),
        pytest.param({"queue": [{"series": "a", "per_job": 0}]}, "> 0", id="per_job"),
        pytest.param({"queue": [{"series": "a", "activation": -1}]}, ">= 0", id="activation"),
        pytest.param({"strategy": "greedy"}, "Invalid enum value 'greedy'", id="strategy"),
        pytest.param({"calculation": "median"}, "Invalid enum value 'median'", id="calculation"),
        pytest.param({"spare": -1}, ">= 0", id="spare"),
        pytest.param(
            {"strategy": "eager", "spare": 1}, 'spare: must be left out for strategy "eager"', id="spare-eager"
        ),
        pytest.param({"strategy": "custom", "deduction": 1_000_001}, "<= 1000000", id="deduction"),
        pytest.param({"deduction": 1}, 'deduction: must be left out for strategy "default"', id="deduction-default"),
        pytest.param({"strategy": "custom", "running_percentage": 1.5}, "<= 1", id="running_percentage"),
        pytest.param({"running_percentage": 0.5}, "running_percentage: must be left out", id="percentage-default"),
        pytest.param({"strategy": "accurate", "started": "born"}, "Invalid enum value 'born'", id="started"),
        pytest.param({"started": "ready"}, 'started: must be left out for strategy "default"', id="started-default"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        jobs(**options)
    assert problem in str(caught.value)
