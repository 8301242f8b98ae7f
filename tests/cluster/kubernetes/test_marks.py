"""Marks: annotations on what was judged and nothing else, whatever the server answers."""

import pytest

from elasticd.cluster.kubernetes.session import Session
from elasticd.cluster.kubernetes.watch.discovery import Discovery
from elasticd.cluster.kubernetes.write.answers import NOT_LEADING
from elasticd.cluster.kubernetes.write.budget import Budget
from elasticd.cluster.kubernetes.write.patches import Patcher
from elasticd.model.actions import Answer, Mark
from elasticd.model.workload import Ref
from tests.cluster.kubernetes.fake import FakeApi, HurriedClock, Reply, drop, status

WEB = Ref("shop", "Deployment", "web")
ON_POD = Mark(WEB, "u", {"a": "1", "b": None}, "web-0")
ON_WEB = Mark(WEB, "v", {"a": "1"})
POD = "/api/v1/namespaces/shop/pods/web-0"
DEPLOYMENT = "/apis/apps/v1/namespaces/shop/deployments/web"
IMMUTABLE = 'Pod "web-0" is invalid: metadata.uid: Invalid value: "u": field is immutable'


@pytest.fixture
def marker(session: Session, clock: HurriedClock) -> Patcher:
    return Patcher(session, Discovery(session), Budget(clock, 1000, 10))


@pytest.mark.parametrize(
    ("mark", "path", "annotations"),
    [
        pytest.param(ON_POD, POD, {"a": "1", "b": None}, id="on a pod"),
        pytest.param(ON_WEB, DEPLOYMENT, {"a": "1"}, id="on the workload"),
    ],
)
async def test_annotations_are_patched_with_the_uid_as_precondition(
    api: FakeApi, marker: Patcher, mark: Mark, path: str, annotations: dict[str, str | None]
) -> None:
    api.on("PATCH", path, {})
    assert await marker.mark(mark, lambda: None) == Answer("done", 200)
    (seen,) = api.asked("PATCH", path)
    assert seen.body == {"metadata": {"uid": mark.uid, "annotations": annotations}}
    assert seen.headers["Content-Type"] == "application/merge-patch+json"
    assert seen.query == {"fieldManager": "elasticd"}, "whatever a proxy makes of the User-Agent"


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        pytest.param({"a": "1", "x": "2"}, "", id="it is there"),
        pytest.param({"x": "2"}, "admission, as a webhook, does not keep its annotation a", id="it is not"),
        pytest.param({"a": "0"}, "admission, as a webhook, does not keep its annotation a", id="it is another"),
    ],
)
async def test_a_mark_that_admission_drops_was_not_made(
    api: FakeApi, marker: Patcher, kept: dict[str, str], message: str
) -> None:
    """Nothing that needs it must follow."""
    api.on("PATCH", POD, {"metadata": {"name": "web-0", "uid": "u", "annotations": kept}})
    answer = await marker.mark(ON_POD, lambda: None)
    assert (answer.result, answer.message) == ("failed" if message else "done", message)


async def test_mark_of_one_version_has_that_version_as_a_precondition(api: FakeApi, marker: Patcher) -> None:
    api.on("PATCH", DEPLOYMENT, status(409, "Conflict", "the object has been modified"))
    answer = await marker.mark(Mark(WEB, "v", {"a": None}, version="7"), lambda: None)
    (seen,) = api.asked("PATCH", DEPLOYMENT)
    assert seen.body == {"metadata": {"uid": "v", "annotations": {"a": None}, "resourceVersion": "7"}}
    assert (answer.result, answer.code, answer.reason) == ("conflict", 409, "Conflict")


@pytest.mark.parametrize(
    ("reply", "result", "reason"),
    [
        pytest.param(status(404, "NotFound", "no such pod"), "conflict", "NotFound", id="gone"),
        pytest.param(status(409, "Conflict", "uid"), "conflict", "NotFound", id="another of that name"),
        pytest.param(status(422, "Invalid", IMMUTABLE), "conflict", "NotFound", id="another of that name, since 1.36"),
        pytest.param(status(422, "Invalid", "metadata.annotations: Invalid value"), "failed", "Invalid", id="invalid"),
        pytest.param(status(403, "Forbidden", "may not"), "failed", "Forbidden", id="may not"),
        pytest.param(status(500, "InternalError", "oh"), "failed", "ServerError", id="trouble"),
        pytest.param(drop, "failed", "NoReply", id="no reply"),
    ],
)
async def test_what_cannot_be_marked_is_reported(
    api: FakeApi, marker: Patcher, reply: Reply, result: str, reason: str
) -> None:
    api.on("PATCH", POD, reply)
    answer = await marker.mark(ON_POD, lambda: None)
    assert (answer.result, answer.reason) == (result, reason)


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(status(422, "Invalid", IMMUTABLE), id="since 1.36"),
        pytest.param(status(409, "Conflict", "Precondition failed: UID in precondition: v, UID in object meta: w"),
                     id="before"),
    ],
)  # fmt: skip
async def test_mark_on_a_replaced_object_is_reported_as_gone(api: FakeApi, marker: Patcher, reply: Reply) -> None:
    api.on("PATCH", DEPLOYMENT, reply)
    answer = await marker.mark(Mark(WEB, "v", {"a": None}, version="7"), lambda: None)
    assert (answer.result, answer.code, answer.reason) == ("conflict", 404, "NotFound")


async def test_unknown_kind_is_reported(marker: Patcher) -> None:
    answer = await marker.mark(Mark(Ref("shop", "DaemonSet", "web"), "v", {"a": "1"}), lambda: None)
    assert answer.reason == "UnknownKind"


async def test_nothing_is_marked_without_the_lead(api: FakeApi, marker: Patcher) -> None:
    assert await marker.mark(ON_POD, lambda: NOT_LEADING) == NOT_LEADING
    assert api.asked("PATCH", POD) == []


async def test_marks_are_paid_from_the_budget(api: FakeApi, session: Session, clock: HurriedClock) -> None:
    api.on("PATCH", POD, {})
    poor = Patcher(session, Discovery(session), Budget(clock, 0.001, 1))
    assert (await poor.mark(ON_POD, lambda: None)).result == "done"
    assert (await poor.mark(ON_POD, lambda: None)).reason == "BudgetSpent"
    assert len(api.asked("PATCH", POD)) == 1
