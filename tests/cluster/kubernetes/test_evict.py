"""Evictions: by the version that is served, within budgets, once, and never as a deletion."""

import asyncio
from typing import Any

import pytest
from aiohttp import web
from msgspec.structs import replace

from elasticd.base.clock import Clock, VirtualClock
from elasticd.cluster.kubernetes.session import Session
from elasticd.cluster.kubernetes.write.answers import NOT_LEADING
from elasticd.cluster.kubernetes.write.budget import Budget
from elasticd.cluster.kubernetes.write.pods import FRESH, JUDGED, OTHERS_NOT_READY, TRIES, PodWriter
from elasticd.model.actions import Answer, Evict, Ready
from elasticd.model.workload import Ref
from tests.cluster.kubernetes.fake import FakeApi, HurriedClock, Reply, Say, drop, page, status, until
from tests.cluster.kubernetes.writing import pod_writer

POD = "/api/v1/namespaces/shop/pods/web"
EVICTION = f"{POD}/eviction"
ACTION = Evict(Ref("shop", "Pod", "web", "v1"), "u", "n1", "is preempted for shop/x")
DONE = {"kind": "Status", "status": "Success"}
LOST = status(504, "Timeout", "slow")
PODS = {"name": "pods", "kind": "Pod", "namespaced": True}


def served(version: str) -> dict[str, Any]:
    """What discovery says of evictions."""
    line = {"name": "pods/eviction", "kind": "Eviction", "namespaced": True, "group": "policy", "version": version}
    return {"resources": [PODS, line]}


def found(uid: str = "u", **meta: Any) -> dict[str, Any]:
    """The pod as it is read."""
    named = {"name": "web", "namespace": "shop", "uid": uid, "resourceVersion": "7"}
    return {"metadata": {**named, **meta}, "spec": {"nodeName": "n1"}}


GOING = found(deletionTimestamp="2026-01-01T00:00:00Z")


@pytest.fixture
def budget(clock: HurriedClock) -> Budget:
    return Budget(clock, 1000, 10)


@pytest.fixture
def evictor(api: FakeApi, session: Session, clock: HurriedClock, budget: Budget) -> PodWriter:
    return evictor_on(clock, api, session, budget, judged=1000)  # hurried seconds


def evictor_on(
    clock: Clock, api: FakeApi, session: Session, budget: Budget | None = None, judged: float = JUDGED
) -> PodWriter:
    """One that finds the pod."""
    api.on("GET", "/api/v1", served("v1"))
    api.on("GET", POD, found())
    api.on("PATCH", f"{POD}/status", found())
    return pod_writer(session, clock, budget, judged)


def granted() -> None:
    """It may be written."""


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_eviction_uses_the_served_version_and_the_uid_as_precondition(
    api: FakeApi, evictor: PodWriter, version: str
) -> None:
    api.on("GET", "/api/v1", served(version))
    api.on("POST", EVICTION, DONE)
    assert await evictor.evict(ACTION, granted) == Answer("done", 201)
    (seen,) = api.asked("POST", EVICTION)
    assert seen.body == {
        "apiVersion": f"policy/{version}",
        "kind": "Eviction",
        "metadata": {"name": "web", "namespace": "shop"},
        "deleteOptions": {"preconditions": {"uid": "u", "resourceVersion": "7"}},
    }


@pytest.mark.parametrize(
    ("grace", "restore", "asked"),
    [
        pytest.param(0, True, {"gracePeriodSeconds": 1}, id="a bare pod without a grace period"),
        pytest.param(30, True, {}, id="with one"),
        pytest.param(0, False, {}, id="whose controller makes another under another name"),
    ],
)
async def test_a_pod_that_comes_again_ends_before_its_copy_begins(
    api: FakeApi, evictor: PodWriter, grace: int, restore: bool, asked: dict[str, int]
) -> None:
    pod = found()
    api.on("GET", POD, {**pod, "spec": {**pod["spec"], "terminationGracePeriodSeconds": grace}})
    api.on("POST", EVICTION, DONE)
    await evictor.evict(replace(ACTION, restore=restore), granted)
    (seen,) = api.asked("POST", EVICTION)
    assert seen.body is not None
    options = seen.body["deleteOptions"]
    assert {key: options[key] for key in options if key != "preconditions"} == asked


BY_BUDGET = status(429, "TooManyRequests", "no disruption budget")
BY_SEVERAL = status(500, "InternalError", "This pod has more than one PodDisruptionBudget, which is not supported")


@pytest.mark.parametrize(
    ("said", "message"),
    [
        pytest.param({}, "", id="it may go"),
        pytest.param(BY_BUDGET, "a PodDisruptionBudget forbids it: no disruption budget", id="a budget"),
        pytest.param(status(429, "TooManyRequests", "busy"), "", id="the server is busy"),
        pytest.param(status(500, "InternalError", "a webhook"), "500 InternalError: a webhook", id="nobody knows"),
        pytest.param(BY_SEVERAL, "", id="several select it"),
        pytest.param(status(403, "Forbidden", "no"), "", id="it may not be asked"),
    ],
)
async def test_budgets_are_asked_where_a_controller_removes_a_pod(
    api: FakeApi, evictor: PodWriter, said: Any, message: str
) -> None:
    """The server asks none of them when a count falls, and the watch of them may be late."""
    api.on("POST", EVICTION, said)
    stop = await evictor.why_budget_forbids(ACTION, granted)
    assert (stop.message if stop else "") == message
    asked = api.asked("POST", EVICTION)[0]
    assert (asked.query, (asked.body or {})["deleteOptions"]) == (
        {"dryRun": "All"},
        {"preconditions": {"uid": ACTION.uid}},
    )


async def test_a_trial_is_a_dry_run_of_the_eviction(api: FakeApi, evictor: PodWriter) -> None:
    api.on("POST", EVICTION, status(429, "TooManyRequests", VIOLATES))
    answer = await evictor.evict(ACTION, granted, dry_run=True)
    assert answer == Answer("refused", 429, VIOLATES, "Budget")
    assert [seen.query for seen in api.asked("POST", EVICTION)] == [{"dryRun": "All"}]
    assert api.asked("PATCH", f"{POD}/status") == []


VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."
SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        pytest.param(
            status(429, "TooManyRequests", VIOLATES), Answer("refused", 429, VIOLATES, "Budget"), id="a budget"
        ),
        pytest.param(
            status(429, "TooManyRequests", "no", causes=[{"reason": "DisruptionBudget"}]),
            Answer("refused", 429, "no", "Budget"),
            id="a budget, as a cause",
        ),
        pytest.param(
            status(429, "TooManyRequests", "The disruption budget a is still being processed", retryAfterSeconds=10),
            Answer("refused", 429, "The disruption budget a is still being processed", "Budget"),
            id="a budget that is new",
        ),
        pytest.param(
            status(500, "InternalError", SEVERAL), Answer("refused", 500, SEVERAL, "Budgets"), id="several budgets"
        ),
        pytest.param(
            status(404, "NotFound", "none"), Answer("done", 404, "it was gone already", "NotFound"), id="gone"
        ),
        pytest.param(
            status(409, "Conflict", "the UID in the precondition (u) does not match; UID in precondition: u"),
            Answer(
                "conflict",
                404,
                "it is gone: the UID in the precondition (u) does not match; UID in precondition: u",
                "NotFound",
            ),
            id="another of that name",
        ),
        pytest.param(
            status(403, "Forbidden", "may not"), Answer("failed", 403, "403 Forbidden: may not", "Forbidden"), id="403"
        ),
    ],
)
async def test_server_answer_is_reported_and_no_pod_is_deleted_instead(
    api: FakeApi, evictor: PodWriter, budget: Budget, reply: Reply, answer: Answer
) -> None:
    api.on("POST", EVICTION, reply)
    assert await evictor.evict(ACTION, granted) == answer
    asked = [(seen.method, seen.path) for seen in api.seen]
    assert asked == [("GET", "/api/v1"), ("GET", POD), ("POST", EVICTION), ("PATCH", f"{POD}/status")]
    assert budget.spare(), "other writes do not wait because a budget said no"


@pytest.mark.parametrize("lost", [LOST, drop], ids=["504", "reset"])
@pytest.mark.parametrize(
    "now",
    [
        pytest.param(GOING, id="being deleted"),
        pytest.param(found("v"), id="another of that name"),
        pytest.param(status(404, "NotFound"), id="gone"),
    ],
)
async def test_a_lost_reply_is_read_back(api: FakeApi, evictor: PodWriter, lost: Reply, now: Reply) -> None:
    api.on("POST", EVICTION, lost)
    api.on("GET", POD, found(), now)
    assert (await evictor.evict(ACTION, granted)).result == "done"
    assert len(api.asked("POST", EVICTION)) == 1


async def test_second_eviction_finding_no_pod_means_the_first_succeeded(api: FakeApi, evictor: PodWriter) -> None:
    """And have ended the pod before the second came."""
    api.on("POST", EVICTION, LOST, status(404, "NotFound", "none"))
    api.on("GET", POD, found(), found(), status(404, "NotFound"))
    answer = await evictor.evict(ACTION, granted)
    assert (answer.result, answer.reason) == ("done", "")


CHANGED = status(409, "Conflict", "the ResourceVersion in the precondition (7) does not match that in the record (8)")


async def test_pod_that_changed_at_the_last_moment_is_read_again(api: FakeApi, evictor: PodWriter) -> None:
    api.on("POST", EVICTION, CHANGED, DONE)
    api.on("GET", POD, found(), found(resourceVersion="8"))
    assert await evictor.evict(ACTION, granted) == Answer("done", 201)
    said = [seen.body["deleteOptions"]["preconditions"]["resourceVersion"] for seen in api.asked("POST", EVICTION)]
    assert said == ["7", "8"]


async def test_pod_that_somebody_evicted_meanwhile_is_not_evicted_again(api: FakeApi, evictor: PodWriter) -> None:
    api.on("POST", EVICTION, CHANGED)
    api.on("PATCH", f"{POD}/status", GOING)
    answer = await evictor.evict(ACTION, granted)
    assert ((answer.result, answer.reason), len(api.asked("POST", EVICTION))) == (("done", ""), 1)


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(CHANGED, id="conflict"),
        pytest.param(status(404, "NotFound"), id="gone"),
        pytest.param(status(409, "Conflict", "UID in precondition: u, UID in object meta: v"), id="uid"),
        pytest.param(status(429, "TooManyRequests", "it would violate its disruption budget"), id="pdb"),
        pytest.param(status(403, "Forbidden", "denied by a webhook"), id="webhook"),
        pytest.param(status(500, "InternalError", "trouble"), id="trouble"),
    ],
)
@pytest.mark.parametrize(
    ("now", "changed"),
    [
        pytest.param(GOING, GOING, id="being deleted"),
        pytest.param(found("v"), status(409, "Conflict", "UID in precondition: u"), id="another of that name"),
        pytest.param(
            found("v"), status(422, "Invalid", "metadata.uid: field is immutable"), id="another, as it is said"
        ),
        pytest.param(status(404, "NotFound"), status(404, "NotFound"), id="gone by now"),
    ],
)
@pytest.mark.parametrize("restore", [False, True], ids=["with a controller", "without"])
async def test_a_pod_refused_and_gone_was_evicted_by_us(
    api: FakeApi, evictor: PodWriter, reply: Reply, now: Reply, changed: Reply, *, restore: bool
) -> None:
    """A proxy may have sent the eviction twice, and given the second answer: it counts, and one that nobody else would
    create again is created."""
    api.on("POST", EVICTION, reply)
    api.on("GET", POD, found(), now)
    api.on("PATCH", f"{POD}/status", changed)
    answer = await evictor.evict(replace(ACTION, restore=restore), granted)
    assert ((answer.result, answer.reason), len(api.asked("POST", EVICTION))) == (("done", ""), 1)


@pytest.mark.parametrize(
    ("now", "result"),
    [
        pytest.param(found(), "refused", id="there"),
        pytest.param(GOING, "done", id="being deleted"),
        pytest.param(status(503, "Down", "down"), "refused", id="not to be read"),
    ],
)
async def test_without_the_right_to_change_pods_they_are_read(
    api: FakeApi, evictor: PodWriter, now: Reply, result: str
) -> None:
    """Those with a controller, of which a late eviction takes no more than their budgets allow."""
    api.on("POST", EVICTION, status(429, "TooManyRequests", VIOLATES))
    api.on("PATCH", f"{POD}/status", status(403, "Forbidden", "may not"))
    api.on("GET", POD, found(), now)
    assert (await evictor.evict(ACTION, granted)).result == result


async def test_the_change_of_a_refused_pod_heeds_retry_after(api: FakeApi, session: Session) -> None:
    clock = VirtualClock()
    budget = Budget(clock, 50, 10)
    evictor = evictor_on(clock, api, session, budget)
    api.on("POST", EVICTION, status(429, "TooManyRequests", VIOLATES))
    busy = {"kind": "Status", "reason": "TooManyRequests", "message": "busy"}
    api.on("PATCH", f"{POD}/status", Say(429, busy, {"Retry-After": "20"}))
    await evictor.evict(ACTION, granted)
    assert budget.wait(clock.now()) >= 19


async def test_an_eviction_that_is_done_and_throttled_is_ours(api: FakeApi, session: Session) -> None:
    """A proxy throttles the second of two; the next try would come too late, and is not sent."""
    clock = VirtualClock()
    evictor = evictor_on(clock, api, session)
    api.on("POST", EVICTION, Say(429, b"slow down", {"Retry-After": "5"}))
    api.on("PATCH", f"{POD}/status", GOING)
    evicting = asyncio.create_task(evictor.evict(replace(ACTION, restore=True), granted))
    await until(lambda: api.asked("POST", EVICTION))
    await clock.sleep_until(clock.now() + 30)
    answer = await evicting
    assert ((answer.result, answer.reason), len(api.asked("POST", EVICTION))) == (("done", ""), 1)


@pytest.mark.parametrize(
    ("changed", "leads", "code"),
    [
        pytest.param(found(), True, 403, id="it is changed, so that none comes late"),
        pytest.param(status(403, "Forbidden", "may not"), True, 0, id="it cannot be changed"),
        pytest.param(found(), False, 0, id="it is another daemon's to change"),
    ],
)
async def test_a_bare_pod_that_is_refused_and_there_stays(
    api: FakeApi, evictor: PodWriter, changed: Reply, leads: bool, code: int
) -> None:
    """A proxy may have sent the eviction twice, and deliver one of the two late. With code 0 its record stays."""
    api.on("POST", EVICTION, status(403, "Forbidden", "denied by a webhook"))
    api.on("PATCH", f"{POD}/status", changed)
    answer = await evictor.evict(
        replace(ACTION, restore=True), lambda: NOT_LEADING if api.asked("POST", EVICTION) and not leads else None
    )
    assert ((answer.result, answer.code), len(api.asked("POST", EVICTION))) == (("failed", code), 1)
    assert len(api.asked("PATCH", f"{POD}/status")) == leads


async def test_a_pod_that_never_stops_changing_is_left_for_now(api: FakeApi, evictor: PodWriter) -> None:
    api.on("POST", EVICTION, CHANGED)
    assert (await evictor.evict(ACTION, granted)).result == "conflict"
    assert len(api.asked("POST", EVICTION)) == TRIES


@pytest.mark.parametrize(
    ("now", "answer"),
    [
        pytest.param(status(404, "NotFound"), ("done", "NotFound"), id="gone"),
        pytest.param(found("v"), ("conflict", "NotFound"), id="another of that name"),
        pytest.param(found(deletionTimestamp="2026-01-01T00:00:00Z"), ("done", "Terminating"), id="being deleted"),
        pytest.param(status(403, "Forbidden", "may not"), ("failed", "Forbidden"), id="not to be read"),
    ],
)
async def test_what_is_not_there_to_be_evicted_is_left_alone(
    api: FakeApi, evictor: PodWriter, now: Reply, answer: tuple[str, str]
) -> None:
    api.on("GET", POD, now)
    said = await evictor.evict(ACTION, granted)
    assert ((said.result, said.reason), api.asked("POST", EVICTION)) == (answer, [])


async def test_an_eviction_that_was_not_carried_out_is_sent_again(api: FakeApi, evictor: PodWriter) -> None:
    api.on("POST", EVICTION, LOST, DONE)
    api.on("GET", POD, found())
    assert await evictor.evict(ACTION, granted) == Answer("done", 201)


@pytest.mark.parametrize(
    ("restore", "then", "changes"),
    [
        pytest.param(False, None, 1, id="it is changed"),
        pytest.param(False, Answer("refused", message="its node has changed"), 1, id="though it need not go any more"),
        pytest.param(False, NOT_LEADING, 0, id="by the leader alone"),
        pytest.param(True, None, 1, id="one that is recreated"),
    ],
)
async def test_a_lost_eviction_is_given_up_for_good(
    api: FakeApi, evictor: PodWriter, restore: bool, then: Answer | None, changes: int
) -> None:
    """Where the pod is still there: an eviction that comes late names an earlier version of it."""
    api.on("POST", EVICTION, LOST)
    api.on("GET", POD, found())
    api.on("PATCH", f"{POD}/status", found(resourceVersion="8"))

    def allowed() -> Answer | None:
        return then if api.asked("POST", EVICTION) else None

    assert (await evictor.evict(replace(ACTION, restore=restore), allowed)).result == "failed"
    changed = api.asked("PATCH", f"{POD}/status")
    assert [list(seen.body["metadata"]["annotations"]) for seen in changed] == [["elasticd.io/stays-since"]] * changes


async def test_eviction_that_cannot_be_read_back_is_not_repeated(api: FakeApi, evictor: PodWriter) -> None:
    api.on("POST", EVICTION, LOST)
    api.on("GET", POD, found(), status(403, "Forbidden", "may not"))
    answer = await evictor.evict(ACTION, granted)
    assert (answer.result, len(api.asked("POST", EVICTION))) == ("failed", 1)


async def test_a_conflicting_second_eviction_without_read_back_stays_uncertain(
    api: FakeApi, evictor: PodWriter
) -> None:
    api.on("POST", EVICTION, LOST, CHANGED)
    api.on("GET", POD, found(), found(), status(403, "Forbidden", "may not"))
    answer = await evictor.evict(ACTION, granted)
    assert (answer.result, answer.code) == ("failed", 0)


async def test_a_busy_server_is_asked_again(api: FakeApi, evictor: PodWriter) -> None:
    api.on("POST", EVICTION, status(429, "TooManyRequests", "too many requests", retryAfterSeconds=1), DONE)
    assert await evictor.evict(ACTION, granted) == Answer("done", 201)


@pytest.mark.parametrize(
    ("discovery", "code"), [({"resources": [PODS]}, 404), (status(503, "Down", "down"), 503)], ids=["none", "trouble"]
)
async def test_without_evictions_nothing_is_done(api: FakeApi, evictor: PodWriter, discovery: Reply, code: int) -> None:
    api.on("GET", "/api/v1", discovery)
    answer = await evictor.evict(ACTION, granted)
    assert (answer.result, answer.code) == ("failed", code)
    assert {seen.method for seen in api.seen} == {"GET"}


LIST = "/api/v1/namespaces/shop/pods"
OTHERS = replace(ACTION, others=Ready("app=web", frozenset({"a", "b"}), 2))
MOVED = replace(OTHERS, reason="elasticd.io/surge out")


def other(uid: str, ready: str = "True", **meta: Any) -> dict[str, Any]:
    """A pod of those that do its work."""
    named = {"name": uid, "namespace": "shop", "uid": uid, "resourceVersion": "1"}
    return {"metadata": {**named, **meta}, "status": {"conditions": [{"type": "Ready", "status": ready}]}}


GOING = other("b", deletionTimestamp="2026-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        pytest.param(page(other("a"), other("b"), other("c")), ("done", ""), id="ready"),
        pytest.param(page(other("a"), other("b", "False")), ("refused", OTHERS_NOT_READY), id="one is not"),
        pytest.param(page(other("a"), other("c")), ("refused", OTHERS_NOT_READY), id="another is, which was not seen"),
        pytest.param(page(other("a"), GOING), ("refused", OTHERS_NOT_READY), id="one is being deleted"),
        pytest.param(page(), ("refused", OTHERS_NOT_READY), id="none is there"),
        pytest.param(status(503, "Down", "down"), ("failed", "ServerError"), id="that cannot be read"),
    ],
)
async def test_a_pod_goes_only_while_its_others_are_ready(
    api: FakeApi, session: Session, listed: Reply, said: tuple[str, str]
) -> None:
    api.on("GET", LIST, listed)
    api.on("POST", EVICTION, DONE)
    answer = await evictor_on(VirtualClock(), api, session).evict(OTHERS, granted)
    assert (answer.result, answer.reason) == said
    assert len(api.asked("POST", EVICTION)) == (said[0] == "done")
    (seen,) = api.asked("GET", LIST)
    assert seen.query == {"labelSelector": "app=web"}


async def test_others_ready_before_a_pause_do_not_count(api: FakeApi, session: Session) -> None:
    """As where the daemon is suspended while it reads them."""
    clock = VirtualClock()

    async def late(_: web.Request) -> web.StreamResponse:
        await clock.sleep_until(clock.now() + 2 * FRESH)
        return web.json_response(page(other("a"), other("b")))

    api.on("GET", LIST, late)
    answer = await evictor_on(clock, api, session).evict(MOVED, granted)
    assert (answer.result, answer.message) == ("conflict", "the others were ready up to 10.0 s ago")
    assert not api.asked("POST", EVICTION)


async def test_who_leads_no_longer_after_reading_evicts_nothing(api: FakeApi, session: Session) -> None:
    """As where the daemon is suspended meanwhile, and another leads by now."""
    leads = True

    async def suspended(_: web.Request) -> web.StreamResponse:
        nonlocal leads
        leads = False
        return web.json_response(page(other("a"), other("b")))

    api.on("GET", LIST, suspended)
    api.on("POST", EVICTION, DONE)
    answer = await evictor_on(VirtualClock(), api, session).evict(MOVED, lambda: None if leads else NOT_LEADING)
    assert (answer, api.asked("POST", EVICTION)) == (NOT_LEADING, [])


async def test_a_moved_pod_that_has_changed_is_judged_anew(api: FakeApi, session: Session) -> None:
    """And not evicted by what held before: it may be annotated, or its node be no longer drained."""
    api.on("GET", LIST, page(other("a"), other("b")))
    api.on("POST", EVICTION, CHANGED)
    answer = await evictor_on(VirtualClock(), api, session).evict(MOVED, granted)
    assert (answer.result, len(api.asked("POST", EVICTION))) == ("conflict", 1)


async def test_a_recorded_pod_whose_status_changed_is_evicted_again(api: FakeApi, evictor: PodWriter) -> None:
    """Its record, which stands for what was judged, says what must not have changed."""
    api.on("POST", EVICTION, CHANGED, DONE)
    api.on("PATCH", f"{POD}/status", found())
    answer = await evictor.evict(replace(ACTION, reason="is drained", restore=True), granted)
    assert (answer.result, len(api.asked("POST", EVICTION))) == ("done", 2)


@pytest.mark.parametrize("dry_run", [False, True], ids=["it", "a trial of it"])
async def test_an_eviction_that_waits_long_is_judged_anew(api: FakeApi, session: Session, *, dry_run: bool) -> None:
    clock = VirtualClock()

    async def late(_: web.Request) -> web.StreamResponse:
        await clock.sleep_until(clock.now() + 2 * JUDGED)
        return web.json_response(found())

    evictor = evictor_on(clock, api, session)
    api.on("GET", POD, late)
    answer = await evictor.evict(ACTION, granted, dry_run=dry_run)
    assert (answer.result, answer.reason) == ("refused", "Outdated")
    assert not api.asked("POST", EVICTION)


@pytest.mark.parametrize("dry_run", [False, True], ids=["it", "a trial of it"])
async def test_an_eviction_that_would_wait_long_takes_no_turn(api: FakeApi, session: Session, *, dry_run: bool) -> None:
    """Else many of them would keep one another waiting, and none would ever be sent."""
    clock = VirtualClock()
    budget = Budget(clock, rate=1 / (2 * JUDGED), burst=1)
    assert await budget.take(patience=0)
    before = budget.level(clock.now())
    answer = await evictor_on(clock, api, session, budget).evict(ACTION, granted, dry_run=dry_run)
    assert (answer.result, answer.reason, budget.level(clock.now())) == ("refused", "BudgetSpent", before)
    assert answer.message == "the write budget is spent for the next 4.0 s"
    assert not api.asked("POST", EVICTION)


@pytest.mark.parametrize(
    ("phase", "sent"), [("Running", 0), ("Failed", 1)], ids=["while it runs", "not where it has ended"]
)
async def test_a_pod_annotated_at_the_last_moment_stays(
    api: FakeApi, evictor: PodWriter, phase: str, sent: int
) -> None:
    annotated = found(annotations={"elasticd.io/do-not-disrupt": "true"})
    api.on("GET", POD, {**annotated, "status": {"phase": phase}})
    api.on("POST", EVICTION, DONE)
    answer = await evictor.evict(ACTION, granted)
    assert (answer.reason, len(api.asked("POST", EVICTION))) == ("" if sent else "DoNotDisrupt", sent)


SETS = "/apis/apps/v1/namespaces/shop/replicasets"
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r", "controller": True}
OWNED = found(ownerReferences=[OWNER])
SELECTS_ALL: dict[str, Any] = {"selector": {"matchExpressions": [{"key": "isolated", "operator": "DoesNotExist"}]}}
STAYS: dict[str, Any] = {"metadata": {"name": "web", "uid": "r"}, "spec": SELECTS_ALL}
LEAVES = {**STAYS, "metadata": {"name": "web", "uid": "r", "deletionTimestamp": "2026-01-01T00:00:00Z"}}


@pytest.mark.parametrize(
    ("controller", "reason", "said"),
    [
        pytest.param(STAYS, "moves: Drain", "", id="moved, and recreated"),
        pytest.param(LEAVES, "moves: Drain", "NoController", id="moved, and not recreated"),
        pytest.param(LEAVES, ACTION.reason, "NoController", id="preempted, and not recreated"),
    ],
)
async def test_a_pod_stays_whose_controller_leaves(
    api: FakeApi, evictor: PodWriter, controller: dict[str, Any], reason: str, said: str
) -> None:
    api.on("GET", POD, OWNED)
    api.on("GET", SETS, page(controller))
    api.on("POST", EVICTION, DONE)
    assert (await evictor.evict(replace(ACTION, reason=reason), granted)).reason == said
    assert len(api.asked("POST", EVICTION)) == (said == "")


READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
LACKS = {**STAYS, "spec": {**SELECTS_ALL, "replicas": 4}, "status": {"replicas": 3}}


@pytest.mark.parametrize(
    ("pod", "target", "said"),
    [
        pytest.param(READY, "b", "NotReplaced", id="a ready pod is moved"),
        pytest.param({"phase": "Running"}, "b", "", id="one that is not ready"),
        pytest.param(READY, "", "", id="one is preempted"),
    ],
)
async def test_no_ready_pod_moves_while_its_controller_creates_none(
    api: FakeApi, evictor: PodWriter, pod: dict[str, Any], target: str, said: str
) -> None:
    """As where a quota is used up: whatever this daemon knows of pods that were moved before."""
    api.on("GET", POD, {**OWNED, "status": pod})
    api.on("GET", SETS, page(LACKS))
    api.on("POST", EVICTION, DONE)
    assert (await evictor.evict(replace(ACTION, target=target), granted)).reason == said
    assert len(api.asked("POST", EVICTION)) == (said == "")


async def test_a_trial_tells_that_nothing_would_recreate_the_pod(api: FakeApi, evictor: PodWriter) -> None:
    """Or others would be preempted before it, in vain."""
    api.on("GET", POD, OWNED)
    api.on("GET", SETS, page(LEAVES))
    api.on("POST", EVICTION, DONE)
    assert (await evictor.evict(ACTION, granted, dry_run=True)).reason == "NoController"


async def test_an_isolated_pod_stays_until_it_is_released(api: FakeApi, evictor: PodWriter) -> None:
    """Its controller still owns it, but would not recreate it."""
    api.on("GET", POD, found(ownerReferences=[OWNER], labels={"isolated": "true"}))
    api.on("GET", SETS, page(STAYS))
    answer = await evictor.evict(replace(ACTION, reason="moves: Drain"), granted)
    assert (answer.reason, api.asked("POST", EVICTION)) == ("NoController", [])


async def test_a_controller_is_asked_again_before_each_try(api: FakeApi, evictor: PodWriter) -> None:
    api.on("GET", POD, OWNED)
    api.on("GET", SETS, page(STAYS), page(LEAVES))
    api.on("POST", EVICTION, LOST)
    answer = await evictor.evict(replace(ACTION, reason="moves: Drain"), granted)
    assert answer.result == "failed"  # the first may be carried out yet
    assert "is being deleted" in answer.message
    assert len(api.asked("POST", EVICTION)) == 1


async def test_nothing_is_evicted_without_the_lead(api: FakeApi, evictor: PodWriter) -> None:
    assert await evictor.evict(ACTION, lambda: NOT_LEADING) == NOT_LEADING
    assert api.asked("POST", EVICTION) == []
