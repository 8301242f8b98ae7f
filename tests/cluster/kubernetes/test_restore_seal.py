"""Only records that elasticd wrote itself, just now and as they are, have a pod created."""

import asyncio
import base64
import json
import time
from typing import Any

import pytest

from elasticd.cluster.kubernetes.restore.records import WINDOW, Records, Restoration
from elasticd.cluster.kubernetes.restore.seal import seal_of
from elasticd.cluster.kubernetes.session import Session
from elasticd.model.actions import Announce
from elasticd.model.workload import Ref
from tests.cluster.kubernetes.fake import FakeApi, HurriedClock, until
from tests.cluster.kubernetes.restoring import (
    ACTION,
    COPY,
    KEY,
    NAME,
    RECORDS,
    Server,
    daemon,
    data,
    granted,
    record,
    seen,
)

PRIVILEGED = {
    **COPY,
    "metadata": {"name": "root", "namespace": "kube-system"},
    "spec": {"containers": [{"name": "main", "image": "i", "securityContext": {"privileged": True}}]},
}
OTHER = bytes(32)


def key_of(server: Server) -> bytes:
    """What the Secret holds."""
    assert server.secret is not None
    return base64.b64decode(server.secret["data"]["key"])


async def test_a_sealed_record_has_its_pod_created(server: Server, session: Session, clock: HurriedClock) -> None:
    server.pod = None
    server.record(record(data()))
    async with daemon(session, clock, resumes=True) as one:
        await until(lambda: server.created)
        assert (server.created, one.left_alone) == ([COPY], "")


async def test_a_newer_versions_record_counts_also_once_noted(
    server: Server, session: Session, clock: HurriedClock
) -> None:
    """While two versions are alive, the older one may go on with what the newer one has begun."""
    server.pod = None
    server.record(record(data(later="x")))
    async with daemon(session, clock, resumes=True):
        await until(lambda: server.records[NAME]["data"]["made"])
        said = server.records[NAME]["data"]
        assert (said["later"], said["seal"]) == ("x", seal_of(KEY, "home", NAME, said))
    assert server.created == [COPY]


BY_OTHERS = "somebody else wrote or changed it, or Secret elasticd-restore-key has another key than it was sealed with"


@pytest.mark.parametrize(
    ("forged", "ahead", "why"),
    [
        pytest.param({**record({}), "data": data()}, 0, BY_OTHERS, id="no seal"),
        pytest.param({"metadata": {"name": NAME}}, 0, BY_OTHERS, id="empty"),
        pytest.param(record(data(pod=json.dumps(PRIVILEGED)), key=OTHER), 0, BY_OTHERS, id="another key"),
        pytest.param(record(data(pod=json.dumps(PRIVILEGED)), key=b""), 0, BY_OTHERS, id="no key"),
        pytest.param(record(data(), pod=json.dumps(PRIVILEGED)), 0, BY_OTHERS, id="patched"),
        pytest.param(record(data(), more="x"), 0, BY_OTHERS, id="with more data"),
        pytest.param({**record(data()), "metadata": {"name": "elasticd-restore-v"}}, 0, BY_OTHERS, id="renamed"),
        pytest.param(record(data(), namespace="shop"), 0, BY_OTHERS, id="of another namespace"),
        pytest.param(record(data()), 3600, "s after the time in it: it is a copy, or", id="replayed an hour later"),
        pytest.param(record(data()), -3600, "s before the time in it: it is a copy, or", id="an hour early"),
        pytest.param(record(data(pod="{")), 0, "it has no manifest of a pod that can be read", id="sealed garbage"),
        pytest.param(record(data(), name="mine"), 0, "it has no manifest of a pod", id="sealed under another name"),
    ],
)
async def test_a_forged_record_is_reported_and_left_alone(
    server: Server, session: Session, clock: HurriedClock, forged: dict[str, Any], ahead: float, why: str
) -> None:
    server.pod, server.ahead = None, ahead
    name = server.record(forged)["metadata"]["name"]
    events = list[Announce]()
    async with daemon(session, clock, resumes=True, announce=events.append) as one:
        await until(lambda: one.left_alone)
        assert f"{name}: " in one.left_alone
        assert why in one.left_alone
        await asyncio.sleep(0.05)
        assert (one.underway, server.created, list(server.records)) == ([], [], [name])
    (event,) = events
    assert (event.workload, event.uid, event.reason) == (Ref("home", "ConfigMap", name, "v1"), "record-1", "NotGenuine")
    assert why in event.message
    assert not [step for step in server.steps if not step.startswith("GET")]


@pytest.mark.slow
async def test_a_forged_record_is_told_once_until_deleted(
    server: Server, session: Session, clock: HurriedClock, caplog: pytest.LogCaptureFixture
) -> None:
    server.record({**record({}), "data": data()})
    async with daemon(session, clock, resumes=True) as one:
        await until(lambda: len(server.api.asked("GET", RECORDS)) == 3)
        assert one.left_alone.endswith("Create by hand what is missing, then delete them")
        assert caplog.text.count("do not count as records of evicted pods") == 1
        server.records.clear()
        await until(lambda: not one.left_alone)


async def test_of_many_forged_records_a_few_are_named(server: Server, session: Session, clock: HurriedClock) -> None:
    for number in range(50):
        server.record({"metadata": {"name": f"forged-{number}"}})
    events = list[Announce]()
    async with daemon(session, clock, resumes=True, announce=events.append) as one:
        await until(lambda: one.left_alone)
        assert "; and 45 more. " in one.left_alone
        assert [event.workload.name for event in events] == [f"forged-{number}" for number in range(5)]


async def test_a_record_patched_during_its_move_creates_nothing(
    server: Server, session: Session, clock: HurriedClock
) -> None:
    def patched(step: int, what: str) -> str:
        if server.evictions and NAME in server.records:
            server.records[NAME]["data"]["pod"] = json.dumps(PRIVILEGED)
        return ""

    server.fault = patched
    async with daemon(session, clock) as one:
        assert (await one.evict(ACTION, granted)).result == "done"
        await until(lambda: one.fault)
        assert one.fault == (
            f"shop/Pod/batch has yet to be recreated, from ConfigMap home/{NAME}: "
            f"ConfigMap home/{NAME} does not count: {BY_OTHERS}"
        )
        assert (server.created, list(server.records)) == ([], [NAME])


async def test_a_forged_record_in_the_way_prevents_the_eviction(
    server: Server, session: Session, clock: HurriedClock
) -> None:
    server.record(record(data(pod=json.dumps(PRIVILEGED)), key=OTHER))
    async with daemon(session, clock) as one:
        answer = await one.evict(ACTION, granted)
    assert (answer.result, answer.reason) == ("refused", "NotRestorable")
    assert answer.message == f"it might not come back: ConfigMap home/{NAME} does not count: {BY_OTHERS}"
    assert (server.evictions, list(server.records)) == (0, [NAME])


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        pytest.param({"labels": {}}, "its label elasticd.io/restore was removed, as by a webhook", id="no label"),
        pytest.param(
            {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x"}]},
            "it was given an owner, as by a webhook, with which it would be deleted",
            id="an owner",
        ),
        pytest.param({"annotations": {"team": "a"}, "finalizers": ["a/b"]}, "", id="what does no harm"),
    ],
)
async def test_no_pod_goes_whose_record_would_not_be_found(
    server: Server, session: Session, clock: HurriedClock, changes: dict[str, Any], why: str
) -> None:
    def admitted(step: int, what: str) -> str:
        if not server.evictions and NAME in server.records:
            server.records[NAME]["metadata"] |= changes
        return ""

    server.fault = admitted
    async with daemon(session, clock) as one:
        answer = await one.evict(ACTION, granted)
        assert (answer.reason, server.evictions) == ("NotRestorable" if why else "", 0 if why else 1)
        assert answer.message == (f"it might not come back: ConfigMap home/{NAME} does not count: {why}" if why else "")
        assert why == "" or not server.records, "it is removed"


@pytest.mark.parametrize("ahead", [WINDOW + 100, -WINDOW - 100])
async def test_with_clocks_apart_no_bare_pod_is_evicted(
    server: Server, session: Session, clock: HurriedClock, ahead: float
) -> None:
    server.ahead = ahead
    async with daemon(session, clock) as one:
        answer = await one.evict(ACTION, granted)
    assert (answer.result, answer.reason) == ("refused", "NotRestorable")
    assert answer.message.endswith("it is a copy, or elasticd's clock and the API server's differ")
    assert server.untouched()


async def test_a_record_replayed_after_its_move_creates_nothing(
    server: Server, session: Session, clock: HurriedClock
) -> None:
    """Within the window, after the pod has run again and was deleted, which the server remembers for some minutes."""
    async with daemon(session, clock, resumes=True) as one:
        await one.evict(ACTION, granted)
        await until(lambda: seen(1)(server))
        copy = {**server.records[NAME], "data": {**server.records[NAME]["data"]}}
        await until(server.made_anew)
        server.take_away()
        server.record(copy)
        await until(lambda: not server.records and not one.underway)
        assert len(server.created) == 1


async def test_a_record_restored_with_etcd_has_its_pod_made(
    server: Server, session: Session, clock: HurriedClock
) -> None:
    """A backup of etcd from between eviction and creation has the record, and no pod. Also where the versions that the
    backup has do not go back, and the daemon that brought the pod back runs on."""
    async with daemon(session, clock, resumes=True) as one:
        await one.evict(ACTION, granted)
        await until(lambda: seen(1)(server))
        copy = {**server.records[NAME], "data": {**server.records[NAME]["data"]}}
        await until(lambda: server.made_anew() and not one.underway)
        server.pod, server.remembers = None, False
        server.record(copy)
        await until(lambda: len(server.created) == 2)


async def test_the_next_daemon_removes_a_replayed_record_too(
    server: Server, session: Session, clock: HurriedClock
) -> None:
    """It asks the server, which remembers that the pod ran, for some minutes."""
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        await until(lambda: seen(1)(server))
        copy = {**server.records[NAME], "data": {**server.records[NAME]["data"]}}
        await until(server.made_anew)
        server.take_away()
    server.record(copy)
    async with daemon(session, clock, resumes=True):
        await until(lambda: not server.records)
    assert len(server.created) == 1


@pytest.mark.slow
async def test_a_key_that_is_gone_is_written_again(server: Server, session: Session, clock: HurriedClock) -> None:
    server.waits = 1000
    async with daemon(session, clock, resumes=True):
        await until(lambda: server.api.asked("GET", RECORDS))
    async with daemon(session, clock, resumes=True) as one:
        await one.evict(ACTION, granted)
        server.secret = None
        await until(lambda: server.secret)
        assert key_of(server) == KEY
        server.waits = 0
        await until(server.made_anew)


async def test_without_its_key_a_genuine_record_does_not_count(
    server: Server, session: Session, clock: HurriedClock
) -> None:
    server.pod, server.secret = None, None
    server.record(record(data()))
    async with daemon(session, clock, resumes=True) as one:
        await until(lambda: one.left_alone)
        assert BY_OTHERS in one.left_alone
        assert (server.secret, server.created, list(server.records)) == (None, [], [NAME])


async def test_the_first_eviction_creates_the_key(server: Server, session: Session, clock: HurriedClock) -> None:
    server.secret = None
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        await until(server.made_anew)
    assert len(key_of(server)) == 32


@pytest.mark.parametrize("fault", ["lost", "undone", "killed before", "killed after"])
async def test_a_failure_to_create_the_key_loses_nothing(
    server: Server, session: Session, clock: HurriedClock, fault: str
) -> None:
    server.secret = None
    server.fault = lambda step, what: fault if what == "POST secrets" else ""
    async with daemon(session, clock) as one:
        eviction = asyncio.create_task(one.evict(ACTION, granted))
        await until(lambda: eviction.done() or server.killed.is_set())
        eviction.cancel()
        await asyncio.gather(eviction, return_exceptions=True)
        assert server.untouched()
    server.fault = lambda step, what: ""
    async with daemon(session, clock) as other:
        assert (await other.evict(ACTION, granted)).result == "done"
        await until(server.made_anew)


async def test_of_two_keys_created_at_once_one_counts(server: Server, session: Session, clock: HurriedClock) -> None:
    server.secret = None

    def overtaken(step: int, what: str) -> str:
        if what == "POST secrets":
            server.secret = {"data": {"key": base64.b64encode(OTHER).decode()}}
        return ""

    server.fault = overtaken
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        sealed = server.records[NAME]["data"]
        assert sealed["seal"] == seal_of(OTHER, "home", NAME, sealed)
        await until(server.made_anew)


async def test_a_record_with_a_newer_key_is_read_again(server: Server, session: Session) -> None:
    """Another daemon wrote the key after this one had read it."""
    records = Records(session, "home", time.time)
    server.record(record(data(), key=OTHER))
    assert len((await records.all())[1]) == 1
    server.secret = {"data": {"key": base64.b64encode(OTHER).decode()}}
    restoration = Restoration(ACTION.workload, "u", "")
    assert (await records.read(restoration)) is not None


async def test_the_key_is_read_only_for_records(api: FakeApi, server: Server, session: Session) -> None:
    assert await Records(session, "home", time.time).all() == ([], [])
    assert [request.path for request in api.seen] == [RECORDS]
