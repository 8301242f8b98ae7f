"""Simulated job sets, alone and under the daemon's own loop in virtual time."""

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from elasticd.base.clock import VirtualClock
from elasticd.cluster.dry_run import DryRun
from elasticd.cluster.simulated import Simulated
from elasticd.cluster.simulated.cluster import SimulatedCluster
from elasticd.decision.workload.jobs import grow
from elasticd.model.actions import Answer, Remove, Scale
from elasticd.model.jobs import JOB_KIND
from elasticd.model.policy import Bounds, Policy
from elasticd.model.workload import Ref, Workload
from elasticd.sources.resource_metrics import ResourceMetrics
from elasticd.testing import simulate
from elasticd_plugins.jobs import Jobs, Queue
from tests.cluster.simulated.test_kit import BIG_NODE, START
from tests.kit.batches import SET, TRANSCODE
from tests.kit.loops import Told

KINDS = frozenset({JOB_KIND})


def simulated(node: dict[str, Any] = BIG_NODE, seed: int = 0, resolution: float = 1, **jobs: Any) -> Simulated:
    table = {"namespace": "media", "name": "transcode", "start_seconds": 2, "run_seconds": 10, **jobs}
    measured = {"resolution": resolution}
    made = {"type": "simulated", "nodes": [node], "jobs": [table], "seed": seed, "metrics": measured}
    return msgspec.convert(made, Simulated)


SEVEN: dict[str, Any] = {"arrivals": {"formula": "7"}}


class Play:
    """A simulated job set, and its clock. Times are seconds since its start."""

    def __init__(self, **options: Any) -> None:
        self.clock = VirtualClock(START)
        self.cluster: SimulatedCluster = simulated(**options).build(self.clock)

    async def look(self, t: float) -> Workload:
        await self.clock.sleep_until(START + t)
        found = (await self.cluster.observe(START + t, KINDS)).workload(TRANSCODE)
        assert found is not None
        return found

    async def phases(self, t: float) -> list[str]:
        found = await self.look(t)
        return [pod.phase for pod in (await self.cluster.observe(START + t, KINDS)).pods(found)]

    async def create(self, t: float, more: int) -> Answer:
        found = await self.look(t)
        return await self.cluster.act(grow(SET, found, found.replicas + more, "test", "decision"))

    async def queue(self, t: float) -> float | None:
        await self.look(t)
        said = (await self.cluster.usage(START + t)).workloads["queue_length"].get(str(TRANSCODE))
        return said[0].value if said else None


async def test_jobs_start_take_a_message_run_and_end() -> None:
    play = Play(**SEVEN)
    assert (await play.look(0)).replicas == 0
    assert (await play.create(0, 2)).result == "done"
    assert await play.phases(1) == ["Pending", "Pending"]
    assert await play.phases(3) == ["Running", "Running"]
    assert await play.queue(11) == 7
    found = await play.look(12)
    assert (found.replicas, [job.result for job in found.jobs]) == (0, ["Complete", "Complete"])
    assert [job.ended for job in found.jobs] == [START + 12] * 2
    assert await play.phases(12) == []
    assert await play.queue(13) == 5


async def test_messages_may_leave_the_queue_as_their_job_begins() -> None:
    play = Play(leave="begin", per_job=3, **SEVEN)
    await play.create(0, 2)
    assert [await play.queue(t) for t in (1, 3, 20)] == [7, 1, 1]


async def test_job_without_a_message_ends_at_once() -> None:
    play = Play(arrivals={"formula": "0"})
    await play.create(0, 1)
    assert (await play.look(1)).replicas == 1
    assert (await play.look(2)).replicas == 0


async def test_the_duration_of_a_job_is_random_but_reproducible() -> None:
    async def ends(seed: int) -> list[float]:
        play = Play(spread=0.5, seed=seed, **SEVEN)
        await play.create(0, 7)
        return [job.ended - START for job in (await play.look(100)).jobs]

    first = await ends(1)
    assert first == await ends(1) != await ends(2)
    assert all(2 + 5 <= end <= 2 + 15 for end in first)
    assert len(set(first)) == 7


async def test_jobs_wait_for_room_which_those_that_end_give_back() -> None:
    play = Play(node={"name": "small", "cpu": "0.4", "memory": "16Gi"}, **SEVEN)
    await play.create(0, 3)
    assert sorted(await play.phases(3)) == ["Pending", "Running", "Running"]
    assert await play.phases(15) == ["Running"]


async def test_the_same_action_again_creates_nothing_twice() -> None:
    play = Play(**SEVEN)
    action = grow(SET, await play.look(0), 3, "test", "decision")
    assert [(await play.cluster.act(action)).result for _ in range(2)] == ["done", "done"]
    assert (await play.look(1)).replicas == 3


async def test_jobs_are_deleted_by_uid_whether_ended_or_not() -> None:
    play = Play(**SEVEN)
    await play.create(0, 1)
    await play.look(12)
    await play.create(12, 3)
    found = await play.look(15)
    named = tuple((job.name, job.uid) for job in found.jobs)
    wrong = Remove(TRANSCODE, found.uid, 3, 3, "test", tuple((name, "other") for name, _ in named))
    assert (await play.cluster.act(wrong)).result == "done"
    assert len((await play.look(15)).jobs) == 4
    assert (await play.cluster.act(replace(wrong, jobs=named[:2]))).result == "done"
    assert ((await play.look(16)).replicas, await play.phases(16)) == (2, ["Running", "Running"])
    assert await play.queue(40) == 4
    await play.create(40, 1)
    assert await play.queue(60) == 3


async def test_what_does_not_fit_is_refused() -> None:
    play = Play(**SEVEN)
    found = await play.look(0)
    assert (await play.cluster.act(Scale(TRANSCODE, found.uid, "", 0, 3, ""))).reason == "UnknownKind"
    action = grow(SET, replace(found, uid="other"), 1, "", "")
    assert (await play.cluster.act(action)).result == "conflict"
    gone = replace(action, workload=Ref("media", "Job", "none", "batch/v1"))
    assert (await play.cluster.act(gone)).reason == "NotFound"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        pytest.param({}, "missing required field `arrivals`", id="no-arrivals"),
        pytest.param({**SEVEN, "spread": 2}, "<= 1", id="spread"),
        pytest.param({**SEVEN, "per_job": 0}, ">= 1", id="per_job"),
        pytest.param({**SEVEN, "leave": "never"}, "'never'", id="leave"),
        pytest.param({**SEVEN, "queue": "cpu"}, "must not be cpu", id="queue"),
        pytest.param({**SEVEN, "cpu": "x"}, "cpu: must be a quantity", id="cpu"),
        pytest.param({**SEVEN, "run_seconds": -1}, ">= 0", id="run_seconds"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=problem):
        simulated(**options)


def policy(strategy: str = "default", most: int = 10, **more: Any) -> Policy:
    """A look every 2 s."""
    made = Jobs(queue=(Queue(series="queue_length"),), strategy=strategy)  # type: ignore[arg-type]
    bounds, job = Bounds(most, 0), replace(SET, **more)
    return Policy(
        name="transcode",
        replicas=bounds,
        strategies=(made,),
        workload=SET.target,
        job=job,
        mode="act",
        interval=2,
        jitter=0,
    )


def played(cluster: Simulated, of: Policy, seconds: float = 200.0) -> Told:
    told = Told()
    asyncio.run(simulate(cluster, [of], seconds, sources=[ResourceMetrics()], listeners=[told]))
    return told


def created(told: Told) -> int:
    return sum(max(0, one.after - one.before) for one in told.outcomes if one.result == "done")


@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "leave"), [("default", "end"), ("accurate", "begin"), ("custom", "end")])
@given(
    messages=st.lists(st.integers(0, 5), min_size=1, max_size=5),
    run=st.integers(1, 30),
    most=st.integers(1, 8),
    start=st.sampled_from([0, 2, 20]),
    resolution=st.sampled_from([1, 5, 15]),
    history=st.sampled_from([0, 2, 100]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_message_gets_one_job_and_max_in_flight_holds(
    strategy: str, leave: str, messages: list[int], run: int, most: int, start: int, resolution: int, history: int
) -> None:
    """Bursts of messages every ten seconds, Jobs that begin within 0 to 20 s and run from 1 to 30 s, and a look every
    2 s at a queue that is measured every 1 to 15 s; of Jobs that have ended as many as are kept."""
    arrived = [[10 * index + 0.5, sum(messages[: index + 1])] for index in range(len(messages))]
    seconds = 10.0 * len(messages) + 90 + sum(messages) * (1.5 * run + start + resolution + 6) / most
    of: dict[str, Any] = {"run_seconds": run, "start_seconds": start, "resolution": resolution, "leave": leave}
    cluster = simulated(spread=0.5, arrivals={"table": [[0, 0], *arrived]}, **of)
    told = played(cluster, policy(strategy, most, successful_history=history), seconds)
    assert created(told) == sum(messages)
    assert max(one.current for one in told.made) <= most
    assert told.made[-1].current == 0
    assert {one.result for one in told.outcomes} <= {"done"}
    assert not any(one.failures for one in told.made)


def test_history_is_kept_and_no_more() -> None:
    cluster = simulated(**SEVEN)
    told = played(cluster, policy(successful_history=2))
    deleted = [name for one in told.made for removal in one.removals for name, _ in removal.jobs]
    assert (created(told), len(deleted)) == (7, 5)


def test_numbers_that_begin_again_do_no_harm() -> None:
    """Without a history nothing is left of the first Jobs when the second ones come, so they have the same names."""
    cluster = simulated(arrivals={"table": [[0, 2], [100, 4]]})
    told = played(cluster, policy(successful_history=0), 300.0)
    named = [one.action.names() for one in told.made if one.action is not None]  # type: ignore[union-attr]
    assert named == [("transcode-0123abcd-1", "transcode-0123abcd-2")] * 2
    assert {one.result for one in told.outcomes} == {"done"}


async def test_a_dry_run_creates_no_jobs_but_counts_them() -> None:
    play = Play(**SEVEN)
    cluster = DryRun(play.cluster)
    found = (await cluster.observe(START, KINDS)).workload(TRANSCODE)
    assert found is not None
    assert (await cluster.act(grow(SET, found, 3, "test", "decision"))).message == "dry run: not sent"
    found = (await cluster.observe(START, KINDS)).workload(TRANSCODE)
    assert found is not None
    assert (found.replicas, found.jobs) == (3, ())
    assert (await cluster.act(Remove(TRANSCODE, found.uid, 3, 3, "test", (("a", "b"),)))).result == "done"
    assert (await play.look(1)).replicas == 0
