"""Resizes: of the pod that was judged, as it was judged, where the server can; once, and within the budget."""

from typing import Any

import pytest

from elasticd.cluster.kubernetes.session import Session
from elasticd.cluster.kubernetes.watch.discovery import Discovery
from elasticd.cluster.kubernetes.write.answers import NOT_LEADING
from elasticd.cluster.kubernetes.write.budget import Budget
from elasticd.cluster.kubernetes.write.patches import RECOMMENDED_ONLY, Patcher, quantities
from elasticd.model.actions import Answer, Resize
from elasticd.model.workload import Ref
from tests.cluster.kubernetes.fake import FakeApi, HurriedClock, Reply, drop, status

WEB = Ref("shop", "Deployment", "web")
POD = "/api/v1/namespaces/shop/pods/web-0"
CHANGE = Resize(WEB, "u", "web-0", {"main": {"cpu": 0.1, "memory": 2e8}}, {"main": {"cpu": 0.25, "memory": 3e8}})
PODS = {"name": "pods", "kind": "Pod", "namespaced": True}
RESIZE = {"name": "pods/resize", "kind": "Pod", "namespaced": True}


def pod(uid: str = "u", **requests: str) -> dict[str, Any]:
    asked = {"cpu": "100m", "memory": "200M", "ephemeral-storage": "1Gi", **requests}
    container = {"name": "main", "resources": {"requests": asked}}
    sidecar = {"name": "mesh", "restartPolicy": "Always", "resources": {"requests": {"cpu": "50m"}}}
    spec = {"containers": [container], "initContainers": [sidecar]}
    meta = {"name": "web-0", "namespace": "shop", "uid": uid, "resourceVersion": "77"}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Running"}}


@pytest.fixture
def resizer(api: FakeApi, session: Session, clock: HurriedClock) -> Patcher:
    api.on("GET", "/api/v1", {"resources": [PODS, RESIZE]})
    api.on("GET", POD, pod())
    api.on("PATCH", f"{POD}/resize", {})
    return Patcher(session, Discovery(session), Budget(clock, 1000, 10))


async def test_requests_are_patched_with_uid_and_version_as_preconditions(api: FakeApi, resizer: Patcher) -> None:
    assert await resizer.resize(CHANGE, lambda: None) == Answer("done", 200)
    (seen,) = api.asked("PATCH", f"{POD}/resize")
    assert seen.body == {
        "metadata": {"uid": "u", "resourceVersion": "77"},
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "250m", "memory": "300000000"}}}]},
    }
    assert seen.headers["Content-Type"] == "application/strategic-merge-patch+json"
    assert seen.query == {"fieldManager": "elasticd"}, "by that others who resize it are told apart"


async def test_a_sidecar_is_changed_among_the_init_containers(api: FakeApi, resizer: Patcher) -> None:
    both = {"main": {"cpu": 0.1}, "mesh": {"cpu": 0.05}}, {"main": {"cpu": 0.2}, "mesh": {"cpu": 0.01}}
    assert (await resizer.resize(Resize(WEB, "u", "web-0", *both), lambda: None)).result == "done"
    (seen,) = api.asked("PATCH", f"{POD}/resize")
    assert {key: [one["name"] for one in value] for key, value in seen.body["spec"].items()} == {
        "containers": ["main"],
        "initContainers": ["mesh"],
    }


async def test_server_without_resize_subresource_is_asked_again_and_not_patched(api: FakeApi, resizer: Patcher) -> None:
    api.on("GET", "/api/v1", {"resources": [PODS]}, {"resources": [PODS, RESIZE]})
    assert await resizer.resize(CHANGE, lambda: None) == RECOMMENDED_ONLY
    assert (RECOMMENDED_ONLY.result, RECOMMENDED_ONLY.reason) == ("refused", "NoInPlaceResize")
    assert api.asked("PATCH", f"{POD}/resize") == []
    assert (await resizer.resize(CHANGE, lambda: None)).result == "done"  # it was upgraded
    assert (await resizer.resize(CHANGE, lambda: None)).result == "done"
    assert len(api.asked("GET", "/api/v1")) == 2


@pytest.mark.parametrize(
    ("found", "reason", "told"),
    [
        pytest.param(pod("v"), "NotFound", "it was deleted and recreated", id="another of that name"),
        pytest.param(
            pod(cpu="150m"), "Conflict", "main requests cpu 150m, memory 200000000, not cpu 100m, memory 200000000",
            id="changed by somebody",
        ),
        pytest.param(status(404, "NotFound", "no such pod"), "NotFound", "it is gone or has changed", id="gone"),
    ],
)  # fmt: skip
async def test_pod_that_differs_from_the_judged_one_is_not_resized(
    api: FakeApi, resizer: Patcher, found: Reply, reason: str, told: str
) -> None:
    api.on("GET", POD, found)
    answer = await resizer.resize(CHANGE, lambda: None)
    assert (answer.result, answer.reason) == ("conflict", reason)
    assert answer.message.startswith(told)
    assert api.asked("PATCH", f"{POD}/resize") == []


@pytest.mark.parametrize(
    ("reply", "result", "reason"),
    [
        pytest.param(status(404, "NotFound", "no such pod"), "conflict", "NotFound", id="gone meanwhile"),
        pytest.param(status(409, "Conflict", "version"), "conflict", "Conflict", id="changed meanwhile"),
        pytest.param(status(403, "Forbidden", "may not"), "failed", "Forbidden", id="may not"),
        pytest.param(
            status(422, "Invalid", "metadata.uid: Invalid value: field is immutable"),
            "conflict",
            "NotFound",
            id="another of that name",
        ),
        pytest.param(status(422, "Invalid", "qos"), "failed", "Invalid", id="not allowed"),
        pytest.param(status(500, "InternalError", "oh"), "failed", "ServerError", id="trouble"),
        pytest.param(drop, "failed", "NoReply", id="no reply"),
    ],
)
async def test_what_is_not_done_is_reported_and_not_tried_again(
    api: FakeApi, resizer: Patcher, reply: Reply, result: str, reason: str
) -> None:
    api.on("PATCH", f"{POD}/resize", reply)
    answer = await resizer.resize(CHANGE, lambda: None)
    assert (answer.result, answer.reason) == (result, reason)
    assert len(api.asked("PATCH", f"{POD}/resize")) == 1


async def test_an_answer_that_is_no_pod_changes_nothing(api: FakeApi, resizer: Patcher) -> None:
    api.on("GET", POD, b"[]")
    assert (await resizer.resize(CHANGE, lambda: None)).reason == "NoReply"
    assert api.asked("PATCH", f"{POD}/resize") == []


async def test_nothing_is_changed_without_the_lead(api: FakeApi, resizer: Patcher) -> None:
    assert await resizer.resize(CHANGE, lambda: NOT_LEADING) == NOT_LEADING
    assert api.asked("PATCH", f"{POD}/resize") == []


async def test_who_leads_no_longer_after_reading_resizes_nothing(api: FakeApi, resizer: Patcher) -> None:
    """As where the daemon is suspended meanwhile, and another leads by now."""
    answer = await resizer.resize(CHANGE, lambda: NOT_LEADING if api.asked("GET", POD) else None)
    assert (answer, api.asked("PATCH", f"{POD}/resize")) == (NOT_LEADING, [])


async def test_changes_are_paid_from_the_budget(
    api: FakeApi, resizer: Patcher, session: Session, clock: HurriedClock
) -> None:
    poor = Patcher(session, Discovery(session), Budget(clock, 0.001, 1))
    assert (await poor.resize(CHANGE, lambda: None)).result == "done"
    assert (await poor.resize(CHANGE, lambda: None)).reason == "BudgetSpent"
    assert len(api.asked("PATCH", f"{POD}/resize")) == 1


def test_quantities_are_written_as_kubernetes_does() -> None:
    assert quantities({"cpu": 1.0, "memory": 1e8 + 0.5}) == {"cpu": "1", "memory": "100000001"}
    assert quantities({"cpu": 0.0015}) == {"cpu": "2m"}
