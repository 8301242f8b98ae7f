"""Pods without a controller are evicted and recreated: exactly one is there in the end, whatever is lost or killed."""

import asyncio
import base64
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from aiohttp import web
from msgspec.structs import replace

from elasticd.base.backoff import Backoff
from elasticd.base.clock import VirtualClock
from elasticd.cluster.kubernetes.restore import steps
from elasticd.cluster.kubernetes.restore.copies import read_compared
from elasticd.cluster.kubernetes.session import Session
from elasticd.cluster.kubernetes.watch.store import NodeStore, PodStore
from elasticd.cluster.kubernetes.write.answers import NOT_LEADING
from elasticd.cluster.kubernetes.write.budget import Budget
from elasticd.cluster.kubernetes.write.pods import JUDGED
from elasticd.model.actions import Answer
from elasticd.model.moves import RESTORED
from tests.cluster.kubernetes.fake import FakeApi, HurriedClock, Say, Seen, drop, status, until
from tests.cluster.kubernetes.restoring import (
    ACTION,
    POD,
    PODS,
    RECORD,
    RECORDS,
    SECRET,
    SECRETS,
    Server,
    daemon,
    granted,
    running,
)


async def test_restore_runs_trial_record_eviction_and_creation_in_order(
    server: Server, session: Session, clock: HurriedClock
) -> None:
    async with daemon(session, clock) as one:
        assert await one.evict(ACTION, granted) == Answer("done", 201)
        await until(server.made_anew)
    assert [step for step in server.steps if not step.startswith("GET")] == [
        "POST pods dry",
        "POST pods dry",
        "POST configmaps",
        "POST eviction",
        "POST configmaps",  # once more, in case it was thought to be of no use
        "POST pods",
        "PATCH elasticd-restore-u",
        "DELETE elasticd-restore-u",
    ]
    unnamed, named = [seen.body for seen in server.api.asked("POST", PODS) if seen.query]
    assert "name" not in unnamed["metadata"]
    assert named == server.created[0]
    assert server.created[0]["metadata"]["labels"] == {"app": "batch"}


@pytest.mark.parametrize("turns", range(4))
async def test_a_bare_pod_that_would_wait_long_takes_no_turn(server: Server, session: Session, turns: int) -> None:
    """Not for a write before its eviction either: else many pods keep one another waiting, and few are ever moved."""
    clock = VirtualClock()
    budget = Budget(clock, rate=1 / (2 * JUDGED), burst=3)
    for _ in range(3 - turns):
        assert await budget.take(patience=0)
    async with daemon(session, clock, budget=budget, judged=JUDGED) as one:
        answer = await one.evict(ACTION, granted)
    assert (answer.result, answer.reason) == ("refused", "BudgetSpent")
    written = [step for step in server.steps if step.startswith("POST") and "secret" not in step]
    assert (written, budget.level(clock.now())) == (["POST pods dry", "POST pods dry", "POST configmaps"][:turns], 0)
    assert server.untouched()


async def test_a_trial_writes_nothing_but_a_dry_run(server: Server, session: Session, clock: HurriedClock) -> None:
    async with daemon(session, clock) as one:
        assert await one.try_out(ACTION, granted) == Answer("done")
        server.pod = None
        assert (await one.try_out(ACTION, granted)).result == "conflict"
    assert {step for step in server.steps if not step.startswith("GET")} == {"POST pods dry"}


STEPS = 26


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("step", range(STEPS))
async def test_daemon_killed_at_any_step_leaves_exactly_one_pod(
    server: Server, session: Session, clock: HurriedClock, step: int, moment: str
) -> None:
    server.fault = lambda number, _: f"killed {moment}" if number == step else ""
    async with daemon(session, clock) as first:
        task = asyncio.create_task(first.evict(ACTION, granted))
        await until(server.killed.is_set)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    async with daemon(session, clock, resumes=True):
        await until(lambda: server.made_anew() if server.evictions else server.untouched())
    assert server.evictions <= 1


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["lost", "undone"])
@pytest.mark.parametrize("step", range(STEPS))
async def test_lost_reply_at_any_step_ends_with_exactly_one_pod(
    server: Server, session: Session, clock: HurriedClock, step: int, fault: str
) -> None:
    server.fault = lambda number, _: fault if number == step else ""
    async with daemon(session, clock, resumes=True) as one:
        server.steps.clear()
        answer = await one.evict(ACTION, granted)
        await until(lambda: server.made_anew() if server.evictions else server.untouched())
    assert (answer.result == "done") == bool(server.evictions)
    assert server.evictions <= 1


async def test_all_steps_are_killed_and_lost_in_turn(server: Server, session: Session, clock: HurriedClock) -> None:
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        await until(server.made_anew)
    assert len(server.steps) == STEPS


async def test_two_daemons_that_both_go_on_make_one_pod(server: Server, session: Session, clock: HurriedClock) -> None:
    async with daemon(session, clock) as old, daemon(session, clock, resumes=True):
        assert (await old.evict(ACTION, granted)).result == "done"
        await until(server.made_anew)
        await asyncio.sleep(0.1)
    assert server.made_anew()


def put_back(server: Server, *, recorded: bool, phase: str) -> None:
    """Etcd, to a time before the pod was evicted, and perhaps before that was recorded."""
    server.pod = {**running(resourceVersion="3"), "status": {"phase": phase}}
    server.reads_left = 2
    if not recorded:
        server.records.clear()


PUT_BACK = pytest.mark.parametrize(
    ("recorded", "phase"),
    [
        pytest.param(True, "Running", id="its record is there"),
        pytest.param(False, "Running", id="its record is not"),
        pytest.param(False, "Failed", id="its kubelet has ended it"),
    ],
)


@PUT_BACK
async def test_a_leaving_pod_that_is_put_back_is_recreated(
    server: Server, session: Session, clock: HurriedClock, recorded: bool, phase: str
) -> None:
    """Its kubelet ends it, or has, and reports that it failed: etcd knows of no deletion."""
    server.reads_left = 1000
    async with daemon(session, clock) as one:
        assert (await one.evict(ACTION, granted)).result == "done"
        put_back(server, recorded=recorded, phase=phase)
        await until(server.made_anew)
    assert server.evictions == 2


@PUT_BACK
async def test_a_successor_evicts_again_what_was_put_back(
    server: Server, session: Session, clock: HurriedClock, recorded: bool, phase: str
) -> None:
    """Only who evicted the pod knows of it, and does not lead any more."""
    leads, server.reads_left = [True], 1000
    async with daemon(session, clock, leads=lambda: leads[-1]) as former, daemon(session, clock, resumes=True):
        assert (await former.evict(ACTION, granted)).result == "done"
        leads.append(False)
        put_back(server, recorded=recorded, phase=phase)
        await until(server.made_anew)
    assert server.evictions == 2


@pytest.mark.parametrize(
    "secret", [None, {"data": {"key": base64.b64encode(bytes(32)).decode()}}], ids=["none", "another"]
)
async def test_a_successor_can_check_what_is_recorded_after_a_restore(
    server: Server, session: Session, clock: HurriedClock, secret: dict[str, Any] | None
) -> None:
    """The backup is from before the first move, so that it has no key; somebody may have made one since."""
    leads, server.reads_left, server.secret = [True], 1000, None
    async with daemon(session, clock, leads=lambda: leads[-1]) as former, daemon(session, clock, resumes=True):
        assert (await former.evict(ACTION, granted)).result == "done"
        leads.append(False)
        server.secret = secret
        put_back(server, recorded=False, phase="Failed")
        await until(server.made_anew)
    assert server.evictions == 2


async def test_who_finds_it_made_anew_already_leaves_no_record_behind(
    server: Server, session: Session, clock: HurriedClock
) -> None:
    """It stood still after the eviction, and another daemon has done the rest."""

    def overtaken(step: int, what: str) -> str:
        if what == "GET batch" and server.evictions:
            server.records.clear()
            server.pod = running("new-1", annotations={"elasticd.io/restored-from": "u"})
        return ""

    server.fault = overtaken
    async with daemon(session, clock) as one:
        assert (await one.evict(ACTION, granted)).result == "done"
        await until(lambda: not one.underway)
    assert (server.steps.count("POST configmaps"), server.records, server.created) == (1, {}, [])


def misrouted(server: Server, said: Say) -> Callable[[int, str], str]:
    """The first look for the record, once its pod was evicted, is answered so."""

    def fault(step: int, what: str) -> str:
        if what == "POST eviction":
            read = server.step(lambda: server.records["elasticd-restore-u"])
            server.api.on("GET", RECORD, said, read)
        return ""

    return fault


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(Say(404, b"<html>no such backend</html>"), id="a page"),
        pytest.param(
            Say(404, {"kind": "Status", "reason": "NotFound", "message": 'cluster "prod" not found', "details": None}),
            id="a Status of its own",
        ),
    ],
)
async def test_a_404_of_a_proxy_tells_nothing_of_a_record(
    server: Server, session: Session, clock: HurriedClock, said: Say
) -> None:
    """It answers so where it knows no way to the API server: the record is there, and the pod comes back."""
    server.fault = misrouted(server, said)
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        await until(server.made_anew)


async def test_a_record_that_is_found_later_counts(server: Server, session: Session, clock: HurriedClock) -> None:
    """That it was not found is no proof that its pod was brought back."""
    server.fault = misrouted(server, status(404, "NotFound", "none"))
    async with daemon(session, clock, resumes=True) as one:
        await one.evict(ACTION, granted)
        await until(server.made_anew)


async def test_record_removed_before_a_late_eviction_is_written_again(
    server: Server, session: Session, clock: HurriedClock
) -> None:
    """Another daemon took over, waited, and saw a pod that nobody evicted: then the eviction came all the same."""

    def taken_away(step: int, what: str) -> str:
        if what == "POST eviction":
            server.records.clear()
        return ""

    server.fault = taken_away
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        await until(server.made_anew)


@pytest.mark.parametrize(
    ("change", "evicted"),
    [
        pytest.param({"labels": {"app": "other"}}, 0, id="its labels"),
        pytest.param({"resourceVersion": "8"}, 1, id="what is not recorded"),
    ],
)
async def test_a_pod_that_changes_while_it_is_recorded_stays(
    server: Server, session: Session, clock: HurriedClock, change: dict[str, Any], evicted: int
) -> None:
    def changed(step: int, what: str) -> str:
        if what == "POST configmaps":
            server.pod = running(**change)
        return ""

    server.fault = changed
    async with daemon(session, clock) as one:
        answer = await one.evict(ACTION, granted)
        assert (answer.result, server.evictions) == ("done" if evicted else "conflict", evicted)
        assert bool(server.records) == bool(evicted)


async def test_a_record_that_stays_restores_after_a_late_eviction(
    api: FakeApi, server: Server, session: Session, clock: HurriedClock
) -> None:
    """Nobody has evicted the pod for long, and its record cannot be removed: then the eviction comes all the same."""
    api.on("DELETE", RECORD, status(503, "Down", "down"))
    api.on("POST", f"{POD}/eviction", drop, status(503, "Down", "down"))
    async with daemon(session, clock) as one:
        assert (await one.evict(ACTION, granted)).result == "failed"
        await until(lambda: api.asked("DELETE", RECORD))
        server.evict()
        await until(lambda: server.created)


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        pytest.param(None, "NotFound", id="gone"),
        pytest.param(running("v"), "NotFound", id="another of that name"),
        pytest.param(running(deletionTimestamp="2026-01-01T00:00:00Z"), "Conflict", id="being deleted"),
        pytest.param(
            running(ownerReferences=[{"kind": "Job", "name": "j", "uid": "j", "controller": True}]),
            "Conflict",
            id="a controller makes another",
        ),
        pytest.param(running(annotations={"kubernetes.io/config.mirror": "h"}), "Conflict", id="of a kubelet's file"),
        pytest.param({**running(), "status": {"phase": "Succeeded"}}, "Conflict", id="it has done its work"),
        pytest.param({**running(), "status": {"phase": "Failed"}}, "Conflict", id="it has failed"),
    ],
)
async def test_pod_that_differs_from_the_judged_one_is_left_alone(
    server: Server, session: Session, clock: HurriedClock, pod: dict[str, Any] | None, reason: str
) -> None:
    server.pod = pod
    async with daemon(session, clock) as one:
        answer = await one.evict(ACTION, granted)
    assert (answer.result, answer.reason) == ("conflict", reason)
    assert server.steps == ["GET batch"]


@pytest.mark.parametrize(
    ("method", "path", "answer", "told"),
    [
        pytest.param("POST", PODS, status(403, "Forbidden", "may not create pods"), "create pods", id="no right"),
        pytest.param("POST", PODS, status(422, "Invalid", "priority"), "priority", id="it would not be created"),
        pytest.param("POST", RECORDS, status(403, "Forbidden", "create configmaps"), "configmaps", id="no record"),
        pytest.param("GET", SECRET, status(403, "Forbidden", "may not get the key"), "get the key", id="no key"),
        pytest.param("GET", SECRET, status(404, "NotFound", "none"), "may not create the key", id="no new key"),
        pytest.param(
            "GET",
            SECRET,
            {"data": {"key": "eA=="}},
            "Secret home/elasticd-restore-key: key: must be 32 bytes in base64: has 1 bytes",
            id="short key",
        ),
        pytest.param("GET", SECRET, {"data": {}}, "key: must be 32 bytes in base64: has 0 bytes", id="empty Secret"),
        pytest.param("GET", SECRET, {"data": {"key": "?"}}, "key: must be 32 bytes in base64: ", id="no base64"),
    ],
)
async def test_a_pod_that_might_not_come_back_is_not_evicted(
    api: FakeApi, server: Server, session: Session, clock: HurriedClock, method: str, path: str, answer: Any, told: str
) -> None:
    api.on("POST", SECRETS, status(403, "Forbidden", "may not create the key"))
    api.on(method, path, answer)
    async with daemon(session, clock) as one:
        refusal = await one.evict(ACTION, granted)
    assert (refusal.result, refusal.reason) == ("refused", "NotRestorable")
    assert told in refusal.message
    assert (server.evictions, server.untouched()) == (0, True)


async def test_a_pod_stays_whose_name_admission_refuses(server: Server, session: Session, clock: HurriedClock) -> None:
    server.retired = frozenset(("batch",))
    async with daemon(session, clock) as one:
        answer = await one.evict(ACTION, granted)
    why = "it might not come back: 422 Invalid: denied request: batch is retired"
    assert (answer.result, answer.reason, answer.message) == ("refused", "NotRestorable", why)
    assert (server.evictions, server.untouched()) == (0, True)


async def test_an_eviction_that_a_budget_refuses_leaves_nothing_behind(
    api: FakeApi, server: Server, session: Session, clock: HurriedClock
) -> None:
    api.on("POST", f"{POD}/eviction", status(429, "TooManyRequests", "the pod's disruption budget"))
    async with daemon(session, clock) as one:
        assert (await one.evict(ACTION, granted)).reason == "Budget"
        assert server.untouched()
        assert "DELETE elasticd-restore-u" in server.steps


@pytest.mark.parametrize("later", ["a budget", "the lease"])
async def test_unanswered_eviction_keeps_its_record_when_the_next_is_refused(
    api: FakeApi, server: Server, session: Session, clock: HurriedClock, later: str
) -> None:
    """The budget may be spent by the first one, which has yet to delete the pod."""
    sent: list[str] = []

    async def first(request: web.Request) -> web.StreamResponse:
        sent.append(request.path)
        return await drop(request)

    api.on("POST", f"{POD}/eviction", first, status(429, "TooManyRequests", "the pod's disruption budget"))
    async with daemon(session, clock) as one:
        answer = await one.evict(ACTION, lambda: NOT_LEADING if sent and later == "the lease" else None)
        assert (answer.result, answer.code, list(server.records)) == ("failed", 0, ["elasticd-restore-u"])
        server.evict()
        await until(server.made_anew)


async def test_an_eviction_that_comes_after_its_record_is_refused(
    api: FakeApi, server: Server, session: Session, clock: HurriedClock
) -> None:
    """The network may deliver it long after nobody waits for it, even after the death of who has sent it."""
    sent: list[Seen] = []

    def is_kept(step: int, what: str) -> str:
        sent.extend(api.seen[-1:] if what == "POST eviction" else ())
        return "undone" if what == "POST eviction" else ""

    server.fault = is_kept
    async with daemon(session, clock) as one:
        assert (await one.evict(ACTION, granted)).result == "failed"
        await until(server.untouched)
    assert server.steps[-3:] == ["PATCH status", "GET elasticd-restore-u", "DELETE elasticd-restore-u"]
    for late in sent:
        api.seen.append(late)
        assert server.evict().code == 409


async def test_a_late_deletion_of_a_record_takes_no_later_claim(
    api: FakeApi, server: Server, session: Session, clock: HurriedClock
) -> None:
    """The record was to be removed, as a budget refused the eviction; the next one is begun before that arrives."""
    held: list[Seen] = []

    def is_kept(step: int, what: str) -> str:
        held.extend(api.seen[-1:] if what.startswith("DELETE") and not held else ())
        return "undone" if what.startswith("DELETE") and not server.evictions else ""

    server.fault = is_kept
    api.on(
        "POST",
        f"{POD}/eviction",
        status(429, "TooManyRequests", "the pod's disruption budget"),
        server.step(server.evict),
    )
    async with daemon(session, clock) as one:
        assert (await one.evict(ACTION, granted)).reason == "Budget"
        assert (await one.evict(ACTION, granted)).result == "done"
        api.seen.append(held[0])
        assert server.forget().code == 409
        await until(server.made_anew)


async def test_a_record_stays_as_long_as_an_eviction_may_arrive(
    api: FakeApi, server: Server, session: Session, clock: HurriedClock
) -> None:
    server.fault = lambda step, what: "undone" if what == "POST eviction" else ""
    api.on("PATCH", f"{POD}/status", status(403, "Forbidden", "may not"))
    async with daemon(session, clock) as one:
        assert (await one.evict(ACTION, granted)).result == "failed"
        await until(lambda: "403 Forbidden: may not" in one.fault)
        assert list(server.records) == ["elasticd-restore-u"]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_pod_that_ends_during_recording_is_not_run_again(
    server: Server, session: Session, clock: HurriedClock, phase: str
) -> None:
    def ends(step: int, what: str) -> str:
        if what == "POST configmaps":
            server.pod = {**running(), "status": {"phase": phase}}
        return ""

    server.fault = ends
    async with daemon(session, clock) as one:
        assert (await one.evict(ACTION, granted)).message == "it has ended, and would run a second time"
    assert (server.evictions, server.records) == (0, {})


async def test_pod_that_succeeds_while_it_ends_comes_back(
    server: Server, session: Session, clock: HurriedClock
) -> None:
    """A service that answers its end with exit code 0 looks the same as one whose work is done."""

    def succeeds(step: int, what: str) -> str:
        if server.pod is not None and "deletionTimestamp" in server.pod["metadata"]:
            server.pod = {**server.pod, "status": {"phase": "Succeeded"}}
        return ""

    server.fault = succeeds
    async with daemon(session, clock) as one:
        assert await one.evict(ACTION, granted) == Answer("done", 201)
        await until(server.made_anew)


async def test_without_the_lead_nothing_is_written(server: Server, session: Session, clock: HurriedClock) -> None:
    async with daemon(session, clock) as one:
        assert await one.evict(ACTION, lambda: NOT_LEADING) == NOT_LEADING
    assert server.steps == ["GET batch", "GET namespaces"]


async def test_the_same_pod_is_not_evicted_twice_at_once(server: Server, session: Session, clock: HurriedClock) -> None:
    async with daemon(session, clock) as one:
        first, second = await asyncio.gather(one.evict(ACTION, granted), one.evict(ACTION, granted))
        assert (first.result, second.reason) == ("done", "UnderWay")
        assert (await one.evict(ACTION, granted)).reason == "UnderWay"
        await until(server.made_anew)


async def test_refused_creation_is_retried_and_reported_until_it_succeeds(
    api: FakeApi, server: Server, session: Session, clock: HurriedClock
) -> None:
    async with daemon(session, clock) as one:
        assert (await one.evict(ACTION, granted)).result == "done"
        api.on("POST", PODS, status(403, "Forbidden", "exceeded quota"))
        await until(lambda: one.fault)
        assert one.fault == (
            "shop/Pod/batch has yet to be recreated, from ConfigMap home/elasticd-restore-u: "
            "403 Forbidden: exceeded quota"
        )
        api.on("POST", PODS, server.step(server.create))
        await until(server.made_anew)
        await until(lambda: not one.fault)


async def test_no_other_pod_goes_while_one_cannot_be_created(
    api: FakeApi, server: Server, session: Session, clock: HurriedClock
) -> None:
    """A webhook may let each dry run pass, as it only looks at the real request."""
    others = [
        replace(ACTION, workload=replace(ACTION.workload, namespace=namespace, name="other"), uid="o")
        for namespace in ("shop", "far")
    ]
    async with daemon(session, clock) as one:
        assert (await one.evict(ACTION, granted)).result == "done"
        api.on("POST", PODS, status(403, "Forbidden", "exceeded quota"))
        await until(lambda: one.fault)
        refused, elsewhere = [await one.evict(other, granted) for other in others]
        assert (refused.result, refused.reason) == ("refused", "NotRestorable")
        assert refused.message == "batch was evicted before, and cannot be created: 403 Forbidden: exceeded quota"
        assert elsewhere.reason != "NotRestorable"
        api.on("POST", PODS, server.step(server.create))
        await until(server.made_anew)
        assert (await one.evict(others[0], granted)).reason != "NotRestorable"


@pytest.mark.parametrize(
    "code", [pytest.param(403, id="it denies"), pytest.param(500, id="it fails, as where its backend hangs")]
)
async def test_no_other_pod_goes_while_a_webhook_is_waited_for(
    api: FakeApi, server: Server, session: Session, clock: HurriedClock, code: int
) -> None:
    """The next try is under way then, and nothing says that it will succeed."""
    other = replace(ACTION, workload=replace(ACTION.workload, name="other"), uid="o")
    asked, answering = asyncio.Event(), asyncio.Event()

    async def webhook(request: web.Request) -> web.StreamResponse:
        if request.query.get("dryRun"):
            return web.json_response(await request.json())
        asked.set()
        await answering.wait()
        denied = status(code, "Denied", "no address is left")
        return web.json_response(denied.body, status=denied.code)

    async with daemon(session, clock) as one:
        assert (await one.evict(ACTION, granted)).result == "done"
        api.on("POST", PODS, webhook)
        await asked.wait()
        assert (await one.evict(other, granted)).reason != "NotRestorable", "the first try may succeed"
        answering.set()
        await until(lambda: one.fault)
        answering.clear()
        asked.clear()
        await asked.wait()
        refused = await one.evict(other, granted)
        assert (refused.result, refused.reason) == ("refused", "NotRestorable")
        assert refused.message == f"batch was evicted before, and cannot be created: {code} Denied: no address is left"
        answering.set()


async def test_restore_waits_and_reports_while_another_pod_has_the_name(
    server: Server, session: Session, clock: HurriedClock
) -> None:
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        server.pod = running("stranger", labels={"app": "other"})
        await until(lambda: one.fault)
        assert one.fault == (
            "shop/Pod/batch has yet to be recreated, from ConfigMap home/elasticd-restore-u: "
            "409 AlreadyExists: another pod has its name; if that replaces it, delete the record"
        )
        assert [(step.pod.name, step.how, step.step) for step in one.underway] == [
            ("batch", "anew", "its name is taken")
        ]
        server.pod = None
        await until(server.made_anew)
        await until(lambda: not one.underway)


async def test_a_name_is_free_once_its_record_is_deleted(server: Server, session: Session, clock: HurriedClock) -> None:
    """A person does as they are told: the newer version replaces it."""
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        server.pod = running("stranger", labels={"app": "other"})
        await until(lambda: one.fault)
        server.records.clear()
        await until(lambda: not one.underway)
        assert server.pod is not None


@pytest.mark.parametrize(
    ("annotations", "waits"),
    [
        pytest.param({}, True, id="a newer version of it, by whomever"),
        pytest.param({RESTORED: "u"}, False, id="its copy"),
    ],
)
async def test_one_record_at_a_time_is_kept_of_a_name(
    server: Server, session: Session, clock: HurriedClock, annotations: dict[str, str], *, waits: bool
) -> None:
    """Else a restart might create the older version."""
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        server.pod = running("newer", labels={"app": "other"}, annotations=annotations)
        refused = await one.evict(replace(ACTION, uid="newer"), granted)
    said = "an earlier pod of its name has yet to be recreated; if this one replaces it, delete ConfigMap home/"
    assert ((refused.reason, refused.message[: len(said)]) == ("UnderWay", said)) is waits


SET = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "batch", "uid": "s", "controller": True}
STATEFUL = {"statefulset.kubernetes.io/pod-name": "batch", "app": "old"}


@pytest.mark.parametrize(
    ("labels", "owner", "over"),
    [
        pytest.param(STATEFUL, SET, True, id="the set that had left it has it again"),
        pytest.param(STATEFUL, {**SET, "apiVersion": "apps.kruise.io/v1beta1"}, True, id="one of a custom kind"),
        pytest.param(STATEFUL, None, False, id="somebody's"),
        pytest.param(STATEFUL, {**SET, "kind": "ReplicaSet"}, False, id="another controller's"),
        pytest.param({"app": "old"}, SET, False, id="it was never a StatefulSet's"),
    ],
)
async def test_a_pod_that_its_stateful_set_made_again_is_over(
    server: Server, session: Session, clock: HurriedClock, labels: Any, owner: Any, over: bool
) -> None:
    """It was deleted without its pods, and is there again with another template: it makes all of its pods."""
    server.pod = running("u", labels=labels)
    async with daemon(session, clock) as one:
        assert (await one.evict(ACTION, granted)).result == "done"
        server.pod = running("again", labels={**labels, "app": "new"})
        server.pod["metadata"]["ownerReferences"] = [owner] if owner else []
        await until(lambda: one.fault or not one.underway)
        assert bool(one.underway) is not over


async def test_eviction_reason_is_passed_to_the_daemon_that_takes_over(
    server: Server, session: Session, clock: HurriedClock
) -> None:
    async with daemon(session, clock) as one:
        await one.evict(replace(ACTION, reason="is preempted for shop/high"), granted)
        assert [step.why for step in one.underway] == ["is preempted for shop/high"]
    async with daemon(session, clock, resumes=True, identity="two") as two:
        await until(lambda: two.underway)
        assert [step.why for step in two.underway] == ["is preempted for shop/high"]
        await until(server.made_anew)


async def test_a_pod_recreated_by_somebody_else_is_left_alone(
    server: Server, session: Session, clock: HurriedClock, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        async with daemon(session, clock) as one:
            await one.evict(ACTION, granted)
            server.pod = running("applied")
            await until(lambda: not server.records)
    assert server.pod == running("applied")
    assert "shop/Pod/batch was recreated by somebody else" in caplog.text


async def test_a_pod_is_recreated_once_the_watch_shows_it_gone(
    server: Server, session: Session, clock: HurriedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "PAUSES", Backoff(100_000.0, 100_000.0))
    pods = PodStore()
    there = read_compared(msgspec.json.encode(running()), "batch", "u").pod
    pods.put(there, listed=True)
    server.reads_left = 1_000_000
    async with daemon(session, clock, stores=(pods, NodeStore())) as one:
        await one.evict(ACTION, granted)
        await until(lambda: [step.step for step in one.underway] == ["leaving"])
        server.take_away()
        pods.remove(there)
        await until(lambda: server.created)
