"""Evictions: by the version that is served, within budgets, once, and never as a deletion."""

from typing import Any

import pytest

from elasticd.actions import Answer, Evict
from elasticd.cluster.kubernetes.answers import NOT_LEADING
from elasticd.cluster.kubernetes.budget import Budget
from elasticd.cluster.kubernetes.discovery import Discovery
from elasticd.cluster.kubernetes.evict import Evictor
from elasticd.cluster.kubernetes.once import Once
from elasticd.cluster.kubernetes.session import Session
from elasticd.model import Ref
from tests.cluster.kubernetes.fake import FakeApi, HurriedClock, Reply, drop, status

POD = "/api/v1/namespaces/shop/pods/web"
EVICTION = f"{POD}/eviction"
ACTION = Evict(Ref("shop", "Pod", "web", "v1"), "u", "n1", "gives way for shop/x")
DONE = {"kind": "Status", "status": "Success"}
LOST = status(504, "Timeout", "slow")
PODS = {"name": "pods", "kind": "Pod", "namespaced": True}


def served(version: str) -> dict[str, Any]:
    """What discovery says of evictions."""
    line = {"name": "pods/eviction", "kind": "Eviction", "namespaced": True, "group": "policy", "version": version}
    return {"resources": [PODS, line]}


def found(uid: str = "u", **meta: Any) -> dict[str, Any]:
    """The pod as it is read back."""
    return {"metadata": {"name": "web", "namespace": "shop", "uid": uid, **meta}, "spec": {"nodeName": "n1"}}


@pytest.fixture
def budget(clock: HurriedClock) -> Budget:
    return Budget(clock, 1000, 10)


@pytest.fixture
def evictor(api: FakeApi, session: Session, clock: HurriedClock, budget: Budget) -> Evictor:
    api.on("GET", "/api/v1", served("v1"))
    return Evictor(session, Discovery(session), Once(session, budget), clock)


def granted() -> None:
    """It may be written."""


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_an_eviction_is_written_in_the_served_version_with_the_uid_as_precondition(
    api: FakeApi, evictor: Evictor, version: str
) -> None:
    api.on("GET", "/api/v1", served(version))
    api.on("POST", EVICTION, DONE)
    assert await evictor.evict(ACTION, granted) == Answer("done", 201)
    (seen,) = api.asked("POST", EVICTION)
    assert seen.body == {
        "apiVersion": f"policy/{version}",
        "kind": "Eviction",
        "metadata": {"name": "web", "namespace": "shop"},
        "deleteOptions": {"preconditions": {"uid": "u"}},
    }


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
async def test_what_the_server_says_is_told_and_nothing_is_deleted_instead(
    api: FakeApi, evictor: Evictor, budget: Budget, reply: Reply, answer: Answer
) -> None:
    api.on("POST", EVICTION, reply)
    assert await evictor.evict(ACTION, granted) == answer
    assert [(seen.method, seen.path) for seen in api.seen] == [("GET", "/api/v1"), ("POST", EVICTION)]
    assert budget.spare(), "other writes do not wait because a budget said no"


@pytest.mark.parametrize("lost", [LOST, drop], ids=["504", "reset"])
@pytest.mark.parametrize(
    "now",
    [
        pytest.param(found(deletionTimestamp="2026-01-01T00:00:00Z"), id="being deleted"),
        pytest.param(found("v"), id="another of that name"),
        pytest.param(status(404, "NotFound"), id="gone"),
    ],
)
async def test_a_lost_reply_is_read_back(api: FakeApi, evictor: Evictor, lost: Reply, now: Reply) -> None:
    api.on("POST", EVICTION, lost)
    api.on("GET", POD, now)
    assert (await evictor.evict(ACTION, granted)).result == "done"
    assert len(api.asked("POST", EVICTION)) == 1


async def test_an_eviction_that_was_not_carried_out_is_sent_again(api: FakeApi, evictor: Evictor) -> None:
    api.on("POST", EVICTION, LOST, DONE)
    api.on("GET", POD, found())
    assert await evictor.evict(ACTION, granted) == Answer("done", 201)


async def test_an_eviction_that_cannot_be_read_back_is_not_sent_again(api: FakeApi, evictor: Evictor) -> None:
    api.on("POST", EVICTION, LOST)
    api.on("GET", POD, status(403, "Forbidden", "may not"))
    answer = await evictor.evict(ACTION, granted)
    assert (answer.result, len(api.asked("POST", EVICTION))) == ("failed", 1)


async def test_a_busy_server_is_asked_again(api: FakeApi, evictor: Evictor) -> None:
    api.on("POST", EVICTION, status(429, "TooManyRequests", "too many requests", retryAfterSeconds=1), DONE)
    assert await evictor.evict(ACTION, granted) == Answer("done", 201)


@pytest.mark.parametrize(
    ("discovery", "code"), [({"resources": [PODS]}, 404), (status(503, "Down", "down"), 503)], ids=["none", "trouble"]
)
async def test_without_evictions_nothing_is_done(api: FakeApi, evictor: Evictor, discovery: Reply, code: int) -> None:
    api.on("GET", "/api/v1", discovery)
    answer = await evictor.evict(ACTION, granted)
    assert (answer.result, answer.code) == ("failed", code)
    assert {seen.method for seen in api.seen} == {"GET"}


async def test_nothing_is_evicted_without_the_lead(api: FakeApi, evictor: Evictor) -> None:
    assert await evictor.evict(ACTION, lambda: NOT_LEADING) == NOT_LEADING
    assert api.asked("POST", EVICTION) == []
