"""Binding and nominating: once, of the pod that was judged, whatever the server answers."""

from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.cluster.kubernetes.session import Session
from elasticd.cluster.kubernetes.write.answers import NOT_LEADING
from elasticd.cluster.kubernetes.write.budget import Budget
from elasticd.cluster.kubernetes.write.pods import PodWriter
from elasticd.model.actions import Answer, Bind, Nominate
from elasticd.model.workload import Ref
from tests.cluster.kubernetes.fake import FakeApi, HurriedClock, Reply, Say, drop, status
from tests.cluster.kubernetes.writing import pod_writer

POD = "/api/v1/namespaces/shop/pods/web"
BINDING, STATUS = f"{POD}/binding", f"{POD}/status"
ACTION = Bind(Ref("shop", "Pod", "web", "v1"), "u", "n1")
NOMINATION = Nominate(ACTION.workload, "u", "n1")
DONE = {"kind": "Status", "status": "Success"}
LOST = status(504, "Timeout", "slow")
LOGIN = Say(200, b"<html>sign in</html>")
ASSIGNED = status(409, "Conflict", 'pod web is already assigned to node "n9"')
OTHER_UID = status(409, "Conflict", "Precondition failed: UID in precondition: u, UID in object meta: v")


def found(node: str = "", uid: str = "u", **meta: Any) -> dict[str, Any]:
    """The pod as it is read back."""
    return {"metadata": {"name": "web", "namespace": "shop", "uid": uid, **meta}, "spec": {"nodeName": node}}


@pytest.fixture
def binder(session: Session, clock: HurriedClock) -> PodWriter:
    return pod_writer(session, clock)


def granted() -> None:
    """It may be written."""


async def bound(binder: PodWriter, api: FakeApi, *answers: Reply, now: Reply | None = None) -> tuple[Answer, int, int]:
    """What comes of these answers to bindings, and how often was written and read."""
    api.on("POST", BINDING, *answers)
    if now is not None:
        api.on("GET", POD, now)
    answer = await binder.bind(ACTION, granted)
    return answer, len(api.asked("POST", BINDING)), len(api.asked("GET", POD))


async def test_a_binding_names_the_node_and_the_pod_uid(api: FakeApi, binder: PodWriter) -> None:
    assert await bound(binder, api, DONE) == (Answer("done", 201), 1, 0)
    (seen,) = api.asked("POST", BINDING)
    assert seen.body == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "web", "namespace": "shop", "uid": "u"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }


@pytest.mark.parametrize(
    ("reply", "result", "reason"),
    [
        pytest.param(ASSIGNED, "conflict", "Conflict", id="another was quicker"),
        pytest.param(OTHER_UID, "conflict", "NotFound", id="another of that name"),
        pytest.param(status(404, "NotFound", "no such pod"), "conflict", "NotFound", id="gone"),
        pytest.param(status(403, "Forbidden", "may not"), "failed", "Forbidden", id="may not"),
        pytest.param(status(422, "Invalid", "gated"), "failed", "Invalid", id="not allowed"),
    ],
)
async def test_what_the_server_refuses_is_reported_at_once(
    api: FakeApi, binder: PodWriter, reply: Reply, result: str, reason: str
) -> None:
    answer, writes, reads = await bound(binder, api, reply)
    assert (answer.result, answer.reason, writes, reads) == (result, reason, 1, 0)


@pytest.mark.parametrize("lost", [LOST, drop, LOGIN], ids=["504", "reset", "a page"])
@pytest.mark.parametrize(
    ("now", "result", "reason"),
    [
        pytest.param(found("n1"), "done", "", id="it was carried out"),
        pytest.param(found("n2"), "conflict", "Conflict", id="another has it"),
        pytest.param(found(uid="v"), "conflict", "NotFound", id="another of that name"),
        pytest.param(found(deletionTimestamp="2026-01-01T00:00:00Z"), "conflict", "Conflict", id="being deleted"),
        pytest.param(status(404, "NotFound"), "conflict", "NotFound", id="gone"),
    ],
)
async def test_lost_reply_is_read_back_and_nothing_is_written_twice(
    api: FakeApi, binder: PodWriter, lost: Reply, now: Reply, result: str, reason: str
) -> None:
    answer, writes, reads = await bound(binder, api, lost, now=now)
    assert (answer.result, answer.reason, writes, reads) == (result, reason, 1, 1)


@pytest.mark.parametrize("lost", [LOST, LOGIN], ids=["504", "a page"])
async def test_binding_that_was_not_carried_out_is_sent_again(api: FakeApi, binder: PodWriter, lost: Reply) -> None:
    assert await bound(binder, api, lost, DONE, now=found()) == (Answer("done", 201), 2, 1)


async def test_the_first_binding_carried_out_late_counts_as_done(api: FakeApi, binder: PodWriter) -> None:
    api.on("POST", BINDING, LOST, ASSIGNED)
    api.on("GET", POD, found(), found("n1"))
    assert (await binder.bind(ACTION, granted)).result == "done"
    assert len(api.asked("POST", BINDING)) == 2


async def test_binding_that_cannot_be_read_back_is_not_retried(api: FakeApi, binder: PodWriter) -> None:
    answer, writes, reads = await bound(binder, api, LOST, now=status(503, "Down", "down"))
    assert (answer.result, writes, reads) == ("failed", 1, 3)
    assert "whether it was carried out cannot be read back" in answer.message


async def test_a_binding_is_retried_after_the_retry_after_pause(api: FakeApi, binder: PodWriter) -> None:
    busy = status(429, "TooManyRequests", "busy", retryAfterSeconds=2)
    assert await bound(binder, api, busy, DONE) == (Answer("done", 201), 2, 0)


async def test_a_binding_gives_up_after_four_lost_replies(api: FakeApi, binder: PodWriter) -> None:
    answer, writes, reads = await bound(binder, api, LOST, now=found())
    assert (answer.result, answer.reason, writes, reads) == ("failed", "ServerError", 4, 4)


async def test_nothing_is_bound_once_it_may_not_be(api: FakeApi, binder: PodWriter) -> None:
    assert await binder.bind(ACTION, lambda: NOT_LEADING) == NOT_LEADING
    assert api.seen == []


async def test_nothing_is_bound_beyond_the_budget(session: Session, clock: HurriedClock) -> None:
    budget = Budget(clock, 0.01, 2)
    budget.patience = 1.0
    for _ in range(2):
        await budget.take(1.0)
    assert (await pod_writer(session, clock, budget).bind(ACTION, granted)).reason == "BudgetSpent"


@pytest.mark.parametrize(("node", "noted"), [("n1", "n1"), ("", None)], ids=["noted", "taken away"])
async def test_a_nomination_is_noted_in_the_status_of_the_pod(
    api: FakeApi, binder: PodWriter, node: str, noted: str | None
) -> None:
    api.on("PATCH", STATUS, LOST, {})
    assert await binder.nominate(replace(NOMINATION, node=node), granted) == Answer("done", 201)
    first, second = api.asked("PATCH", STATUS)
    assert first.body == second.body == {"metadata": {"uid": "u"}, "status": {"nominatedNodeName": noted}}
    assert first.headers["Content-Type"] == "application/merge-patch+json"


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        pytest.param(OTHER_UID, "NotFound", id="precondition"),
        pytest.param(status(422, "Invalid", "metadata.uid: field is immutable"), "NotFound", id="immutable uid"),
        pytest.param(status(404, "NotFound", "none"), "NotFound", id="gone"),
        pytest.param(status(409, "Conflict", "changed"), "Conflict", id="changed"),
    ],
)
async def test_another_pod_of_the_name_is_not_nominated(
    api: FakeApi, binder: PodWriter, reply: Reply, reason: str
) -> None:
    api.on("PATCH", STATUS, reply)
    answer = await binder.nominate(NOMINATION, granted)
    assert (answer.result, answer.reason) == ("conflict", reason)
