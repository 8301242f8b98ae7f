"""Records of evicted pods: who may write them, and which are left alone."""

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.cluster.kubernetes.session import Session
from elasticd.cluster.kubernetes.watch.store import NodeStore, PodStore
from elasticd.cluster.kubernetes.write.answers import NOT_LEADING
from elasticd.model.actions import Answer
from elasticd.model.moves import Underway
from elasticd.model.workload import Pod
from tests.cluster.kubernetes.fake import FakeApi, HurriedClock, Say, page, status, until
from tests.cluster.kubernetes.restoring import ACTION, RECORDS, SECRET, Server, daemon, data, granted, record


@pytest.mark.parametrize("name", [pytest.param("two", id="two names"), pytest.param("one", id="one name")])
async def test_only_the_daemon_that_owns_the_record_evicts(
    server: Server, session: Session, clock: HurriedClock, name: str
) -> None:
    async with daemon(session, clock) as one, daemon(session, clock, identity=name) as other:
        found = await asyncio.gather(one.evict(ACTION, granted), other.evict(ACTION, granted))
        assert sorted(answer.reason for answer in found) == ["", "UnderWay"]
        record = "its record is ConfigMap home/elasticd-restore-u"
        assert {answer.message for answer in found if answer.reason} == {f"another elasticd recreates it, {record}"}
        await until(server.made_anew)
    assert server.evictions == 1


async def test_daemon_that_lost_the_lead_writes_nothing_but_the_record(
    server: Server, session: Session, clock: HurriedClock
) -> None:
    leads = True
    async with daemon(session, clock, leads=lambda: leads) as one:
        server.fault = lambda number, what: "lost" if what == "POST eviction" else ""
        task = asyncio.create_task(one.evict(ACTION, granted))
        await until(lambda: server.evictions)
        leads = False
        await task
        await until(lambda: len([step for step in server.steps if step == "GET elasticd-restore-u"]) > 3)
        assert (server.created, list(server.records)) == ([], ["elasticd-restore-u"])
        server.steps.clear()
        server.records.clear()
        await until(lambda: not one.underway)


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(status(403, "Forbidden", "exceeded quota: q, requested: configmaps=1"), id="a quota"),
        pytest.param(status(500, "InternalError", "failed calling webhook"), id="a webhook that is away"),
    ],
)
async def test_a_record_that_used_up_its_quota_is_enough(
    server: Server, session: Session, clock: HurriedClock, refusal: Say
) -> None:
    """The server refuses to create it once more, rather than that it is there."""
    write = server.write_record

    def refuse() -> Any:
        return refusal if server.records else write()

    server.api.on("POST", RECORDS, server.step(refuse))
    async with daemon(session, clock) as one:
        assert (await one.evict(ACTION, granted)).result == "done"
        await until(server.made_anew)


async def test_a_record_that_another_daemon_has_written_since_stays(
    server: Server, session: Session, clock: HurriedClock
) -> None:
    """This one claimed the pod, stood still, and found on waking that it leads no more."""

    def stood_still() -> Answer:
        (record,) = server.records.values()
        record["metadata"]["uid"], record["data"]["by"] = "record-of-two", "two"
        return NOT_LEADING

    async with daemon(session, clock) as one:
        assert await one.evict(ACTION, lambda: stood_still() if server.records else None) == NOT_LEADING
    assert list(server.records) == ["elasticd-restore-u"]


@pytest.mark.parametrize("ran", [True, False], ids=["its copy ran", "before its pod was created"])
async def test_a_record_that_a_finalizer_keeps_is_deleted(
    server: Server, session: Session, clock: HurriedClock, caplog: pytest.LogCaptureFixture, *, ran: bool
) -> None:
    server.remembers = False
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        record = server.records["elasticd-restore-u"]
        if ran:
            await until(server.made_anew)
        record["metadata"]["deletionTimestamp"] = "2026-03-02T08:00:00Z"
        server.records["elasticd-restore-u"] = record
        if not ran:
            await until(lambda: not one.underway)
        server.take_away()
    looks = len(server.api.asked("GET", RECORDS))
    async with daemon(session, clock, resumes=True) as other:
        await until(lambda: len(server.api.asked("GET", RECORDS)) > looks + 3)
        assert (len(server.created), other.underway, other.left_alone) == (int(ran), [], "")
    assert "was recreated before" not in caplog.text


async def test_a_copy_that_ran_is_not_created_again(
    api: FakeApi, server: Server, session: Session, clock: HurriedClock
) -> None:
    """The record cannot be removed, and somebody deletes the copy meanwhile."""
    name = f"{RECORDS}/elasticd-restore-u"
    async with daemon(session, clock) as one:
        api.on("DELETE", name, status(403, "Forbidden", "may not"))
        await one.evict(ACTION, granted)
        record = "ConfigMap home/elasticd-restore-u: 403 Forbidden: may not"
        await until(lambda: one.fault == f"shop/Pod/batch needs its record no more, which is {record}")
        server.take_away()
        refused = len(api.asked("DELETE", name))
        await until(lambda: len(api.asked("DELETE", name)) > refused + 2)
        assert len(server.created) == 1
        assert [move.step for move in one.underway] == ["its record is removed"]


async def test_a_note_that_comes_late_changes_no_newer_record(
    api: FakeApi, server: Server, session: Session, clock: HurriedClock
) -> None:
    """It would keep its own time and lease, and have the seal of the former."""
    name = f"{RECORDS}/elasticd-restore-u"
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        await until(server.made_anew)
    notes = [seen.body for seen in api.asked("PATCH", name) if "data" in seen.body]
    assert [note["metadata"] for note in notes] == [{"uid": "record-1"}]


async def test_a_copy_that_runs_needs_no_note_in_its_record(
    api: FakeApi, server: Server, session: Session, clock: HurriedClock
) -> None:
    api.on("PATCH", f"{RECORDS}/elasticd-restore-u", status(422, "Invalid", "field is immutable"))
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        await until(server.made_anew)


async def test_records_that_cannot_be_listed_are_reported(
    api: FakeApi, server: Server, session: Session, clock: HurriedClock, caplog: pytest.LogCaptureFixture
) -> None:
    api.on("GET", RECORDS, status(403, "Forbidden", "may not"), b"[]", Say(200, {"message": "sign in"}), page())
    async with daemon(session, clock, resumes=True) as one:
        await until(lambda: one.unread == "what has yet to be recreated cannot be looked for: 403 Forbidden: may not")
        await until(lambda: not one.unread)
    assert caplog.text.count("cannot be looked for") == 1
    assert len(api.asked("GET", RECORDS)) == 4
    assert server.untouched()


@pytest.mark.parametrize(
    ("begun_by", "lease", "continues"),
    [
        pytest.param("ops/elasticd", "ops/elasticd", True, id="its own"),
        pytest.param("ops/elasticd", "ops/trial", False, id="of a trial"),
        pytest.param("ops/elasticd", "", False, id="of a daemon without one"),
        pytest.param("", "ops/trial", True, id="of an earlier version, which wrote none"),
    ],
)
async def test_only_daemons_of_its_lease_continue_a_record(
    server: Server, session: Session, clock: HurriedClock, begun_by: str, lease: str, *, continues: bool
) -> None:
    server.fault = lambda _, what: "killed after" if what == "POST eviction" else ""
    async with daemon(session, clock, lease=begun_by) as one:
        task = asyncio.create_task(one.evict(ACTION, granted))
        await until(server.killed.is_set)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    looks = len(server.api.asked("GET", RECORDS))
    server.steps.clear()
    async with daemon(session, clock, lease=lease, resumes=True) as other:
        if continues:
            await until(server.made_anew)
            return
        await until(lambda: len(server.api.asked("GET", RECORDS)) > looks + 1)
        (move,) = other.underway
        assert (move.uid, move.step, move.fault) == ("u", f"recorded by daemons of Lease {begun_by}", "")
    assert {*server.steps} <= {f"GET {path.rpartition('/')[2]}" for path in (RECORDS, SECRET)}


PRESENT = Pod("shop", "batch", "u", "Running")
COPIED = Pod("shop", "batch", "new-1", "Running", ready=True, annotations={"elasticd.io/restored-from": "u"})


@asynccontextmanager
async def beside_another_lease(
    server: Server, session: Session, clock: HurriedClock, pod: Pod | None
) -> AsyncIterator[Underway]:
    """The move of a record that another Lease's daemons wrote 10.5 minutes ago, where the watch shows that pod."""
    server.ahead = clock.now() - 630 - time.time()
    written = f"{datetime.fromtimestamp(clock.now() - 630, UTC):%Y-%m-%dT%H:%M:%SZ}"
    server.record(record(data(written=written, lease="ops/elasticd")))
    pods = PodStore()
    if pod is not None:
        pods.put(pod, listed=True)
    async with daemon(session, clock, lease="ops/trial", resumes=True, stores=(pods, NodeStore())) as other:
        await until(lambda: other.underway)
        (move,) = other.underway
        yield move


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(None, id="no pod"),
        pytest.param(replace(PRESENT, deleted=True), id="its pod ends"),
        pytest.param(replace(COPIED, ready=False), id="a copy that is not ready"),
        pytest.param(replace(COPIED, annotations={}), id="another pod of its name"),
    ],
)
async def test_a_record_that_another_lease_leaves_long_is_reported(
    server: Server, session: Session, clock: HurriedClock, pod: Pod | None
) -> None:
    async with beside_another_lease(server, session, clock, pod) as move:
        assert re.fullmatch(
            r"shop/Pod/batch was to be evicted and recreated 1\d min ago by daemons of Lease ops/elasticd: only they "
            "continue, its record is ConfigMap home/elasticd-restore-u; if none of them runs any more and the pod is "
            "missing, create it by hand, then delete the record",
            move.fault,
        )


@pytest.mark.parametrize("pod", [pytest.param(PRESENT, id="its pod"), pytest.param(COPIED, id="a ready copy")])
async def test_another_lease_s_record_whose_pod_runs_is_no_trouble(
    server: Server, session: Session, clock: HurriedClock, pod: Pod
) -> None:
    async with beside_another_lease(server, session, clock, pod) as move:
        assert move.fault == ""
        assert move.step == (
            "recorded by daemons of Lease ops/elasticd, and its pod is there: if none of them runs any more, delete "
            "ConfigMap home/elasticd-restore-u"
        )
