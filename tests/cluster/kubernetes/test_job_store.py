"""Jobs in memory: which are in flight, which pods are theirs, and when each has ended."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from elasticd.base.clock import WallClock
from elasticd.cluster.kubernetes import Kubernetes, LeaseSettings
from elasticd.cluster.kubernetes.watch.job_store import JobStore
from elasticd.cluster.kubernetes.wire.jobs import SET, PlacedJob, WireJob, to_job
from elasticd.model.jobs import JOB_KIND, REMEMBERED, Job
from elasticd.testing import NOW
from tests.cluster.kubernetes.fake import PODS, FakeApi, page, status, until, write_kubeconfig
from tests.cluster.kubernetes.test_jobs import NAME, wire
from tests.kit.batches import HASH, TRANSCODE, ended, job, pod_of

LISTED = "/apis/batch/v1/jobs"
CREATED = 1_767_225_600.0


def read(**more: Any) -> PlacedJob:
    return to_job(msgspec.json.decode(msgspec.json.encode(wire(**more)), type=WireJob), 10.0)


def condition(kind: str, status: str = "True") -> dict[str, Any]:
    return {"type": kind, "status": status, "lastTransitionTime": "2026-01-01T00:01:00Z"}


def test_job_is_read_with_its_set_template_number_and_times() -> None:
    assert read() == PlacedJob(TRANSCODE, Job(NAME, "u1", HASH, 1, CREATED + 10))


@pytest.mark.parametrize(
    ("spec", "status", "suspended"),
    [
        pytest.param({}, {}, False, id="nobody holds it"),
        pytest.param({"suspend": True}, {}, True, id="somebody does"),
        pytest.param({"suspend": True}, {"conditions": [condition("Failed")]}, False, id="it has ended"),
    ],
)
def test_a_job_that_somebody_holds_is_suspended(spec: dict[str, Any], status: dict[str, Any], suspended: bool) -> None:
    found = to_job(msgspec.json.decode(msgspec.json.encode({**wire(status=status), "spec": spec}), type=WireJob))
    assert found.job.suspended == suspended


@pytest.mark.parametrize(
    ("status", "result", "at"),
    [
        pytest.param({}, "", 0, id="not-begun"),
        pytest.param({"active": 1}, "", 0, id="running"),
        pytest.param({"conditions": [condition("Complete")]}, "Complete", 70, id="complete"),
        pytest.param(
            {"completionTime": "2026-01-01T00:00:30Z", "conditions": [condition("Complete")]},
            "Complete",
            40,
            id="complete-at-its-own-time",
        ),
        pytest.param({"conditions": [condition("Failed")]}, "Failed", 70, id="failed"),
        pytest.param({"conditions": [condition("Failed", "False")]}, "", 0, id="not-failed"),
        pytest.param({"conditions": [condition("FailureTarget")]}, "", 0, id="about-to-fail"),
        pytest.param(
            {"conditions": [condition("SuccessCriteriaMet"), condition("Suspended")]}, "", 0, id="about-to-end"
        ),
        pytest.param({"conditions": [{"type": "Failed", "status": "True"}]}, "Failed", 10, id="without-a-time"),
    ],
)
def test_a_job_has_ended_with_its_condition_and_not_before(status: dict[str, Any], result: str, at: float) -> None:
    found = read(status=status).job
    assert (found.result, found.ended - (CREATED if result else 0)) == (result, at)


@pytest.mark.parametrize(
    ("name", "number"),
    [("transcode-x-12", 12), ("transcode", 0), ("transcode-x-", 0), ("t-x-99999999999", 0), ("t-x-²", 0)],
)
def test_a_name_that_is_not_ours_has_no_number(name: str, number: int) -> None:
    assert read(name=name).job.number == number


def store(*jobs: Job) -> JobStore:
    made = JobStore(lambda: NOW)
    for one in jobs:
        made.put(PlacedJob(TRANSCODE, one), listed=True)
    return made


def test_a_set_is_there_before_it_has_jobs() -> None:
    found = JobStore(lambda: NOW).get(TRANSCODE)
    assert (found.replicas, found.jobs, found.selector) == (0, (), f"{SET}=transcode")


def test_replicas_are_the_jobs_in_flight() -> None:
    kept = store(job(1), ended(2), ended(3, result="Failed"), job(4, deleted=True))
    assert (kept.get(TRANSCODE).replicas, len(kept.get(TRANSCODE).jobs)) == (2, 4)
    assert kept.get(TRANSCODE) is kept.get(TRANSCODE)


def test_stale_event_revives_no_ended_job_but_a_list_does() -> None:
    kept = store(ended(1))
    kept.put(PlacedJob(TRANSCODE, job(1)), listed=False)
    assert kept.get(TRANSCODE).replicas == 0
    kept.put(PlacedJob(TRANSCODE, job(1, uid="another")), listed=False)
    assert kept.get(TRANSCODE).replicas == 1
    kept = store(ended(1))
    kept.put(PlacedJob(TRANSCODE, job(1)), listed=True)
    assert kept.get(TRANSCODE).replicas == 1


def test_what_is_gone_is_forgotten_by_uid() -> None:
    kept = store(job(1), job(2))
    kept.remove(PlacedJob(TRANSCODE, job(1, uid="another")))
    assert kept.get(TRANSCODE).replicas == 2
    kept.remove(PlacedJob(TRANSCODE, job(1)))
    kept.remove(PlacedJob(TRANSCODE, job(1)))
    assert kept.get(TRANSCODE).replicas == 1


def gone(kept: JobStore) -> list[tuple[int, float]]:
    """The Jobs that were there, by number, and until when."""
    return [(one.number, one.ended) for one in kept.get(TRANSCODE).gone]


def test_gone_jobs_are_remembered_for_a_while_with_their_end() -> None:
    clock = [NOW]
    kept = JobStore(lambda: clock[0])
    for one in (job(1), ended(2, NOW - 60), ended(3, NOW - REMEMBERED - 1), job(4), job(5)):
        kept.put(PlacedJob(TRANSCODE, one), listed=True)
    for one in (job(1), ended(2), ended(3)):
        kept.remove(PlacedJob(TRANSCODE, one))
    assert gone(kept) == [(1, NOW), (2, NOW - 60)]
    kept.retain("", {("media", job(5).name)})
    kept.put(PlacedJob(TRANSCODE, job(5, uid="another")), listed=True)
    assert gone(kept) == [(1, NOW), (2, NOW - 60), (4, NOW), (5, NOW)]
    clock[0] += REMEMBERED + 1
    kept.remove(PlacedJob(TRANSCODE, job(5, uid="another")))
    assert gone(kept) == [(5, NOW + REMEMBERED + 1)]


def test_job_that_reappears_or_changes_its_set_is_not_gone() -> None:
    kept = store(job(1), job(2))
    kept.remove(PlacedJob(TRANSCODE, job(1)))
    kept.put(PlacedJob(TRANSCODE, job(1)), listed=True)
    kept.put(PlacedJob(msgspec.structs.replace(TRANSCODE, name="other"), job(2)), listed=False)
    assert gone(kept) == []
    kept.clear()
    assert gone(kept) == []


@pytest.mark.parametrize(("namespace", "left"), [("", [2]), ("media", [2]), ("other", [1, 2])])
def test_what_a_list_does_not_have_is_gone(namespace: str, left: list[int]) -> None:
    kept = store(job(1), job(2))
    kept.retain(namespace, {("media", job(2).name)})
    assert [one.number for one in kept.get(TRANSCODE).jobs] == left


async def test_a_job_set_is_seen_once_its_jobs_were_read(api: FakeApi, tmp_path: Path) -> None:
    api.on("GET", PODS, page())
    api.on("GET", "/api/v1/nodes", page())
    api.on("GET", LISTED, page(wire(), wire("transcode-x-2", "u2", status={"conditions": [condition("Complete")]})))
    feed = {path: api.feed(path) for path in (PODS, "/api/v1/nodes", LISTED)}[LISTED]
    table = Kubernetes(kubeconfig=write_kubeconfig(tmp_path, api.url), lease=LeaseSettings(enabled=False))
    async with table.open(WallClock()) as cluster:
        snapshot = await cluster.observe(0.0, frozenset())
        assert snapshot.workload(TRANSCODE) is None
        await cluster.observe(0.0, frozenset({JOB_KIND}))
        found = snapshot.workload(TRANSCODE)
        assert found is not None
        assert (found.replicas, len(found.jobs), snapshot.pods(found)) == (1, 2, ())
        assert snapshot.confirmed_for(TRANSCODE) > 0
        assert {seen.query["labelSelector"] for seen in api.seen if seen.path == LISTED} == {SET}
        feed.push("MODIFIED", wire(status={"conditions": [condition("Failed")]}))
        await until(lambda: snapshot.workload(TRANSCODE).replicas == 0)  # type: ignore[union-attr]
        await cluster.observe(0.0, frozenset())
        left = cluster.snapshot.job_store.get(TRANSCODE)
        assert (snapshot.workload(TRANSCODE), left.jobs, left.gone) == (None, (), ())


async def test_forbidden_jobs_are_a_problem_in_one_line(api: FakeApi, tmp_path: Path) -> None:
    api.on("GET", PODS, page())
    api.on("GET", "/api/v1/nodes", page())
    api.on("GET", LISTED, status(403, "Forbidden", 'User "x" cannot list resource "jobs" in API group "batch"'))
    for path in (PODS, "/api/v1/nodes"):
        api.feed(path)
    table = Kubernetes(kubeconfig=write_kubeconfig(tmp_path, api.url), lease=LeaseSettings(enabled=False))
    async with table.open(WallClock()) as cluster:
        snapshot = await cluster.observe(0.0, frozenset({JOB_KIND}))
        assert snapshot.workload(TRANSCODE) is None
        assert cluster.problems() == {JOB_KIND: 'User "x" cannot list resource "jobs" in API group "batch"'}


def test_a_job_whose_label_changes_moves_to_the_other_set() -> None:
    kept = store(job(1))
    other = msgspec.structs.replace(TRANSCODE, name="other")
    kept.put(PlacedJob(other, job(1)), listed=False)
    assert (kept.get(TRANSCODE).replicas, kept.get(other).replicas) == (0, 1)


def test_pods_in_flight_are_cached_while_no_job_changes() -> None:
    kept = store(job(1), ended(2))
    pods = (pod_of(job(1)), pod_of(ended(2), "Succeeded"))
    found = kept.pods_in_flight(kept.get(TRANSCODE), pods)
    assert found == pods[:1]
    assert kept.pods_in_flight(kept.get(TRANSCODE), pods) is found
    assert kept.pods_in_flight(kept.get(TRANSCODE), (*pods,)[:]) is found
    kept.put(PlacedJob(TRANSCODE, ended(1)), listed=False)
    assert kept.pods_in_flight(kept.get(TRANSCODE), pods) == ()
