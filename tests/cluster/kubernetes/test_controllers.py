"""Whether a controller would recreate a pod that is moved, as it is read just before."""

from functools import partial
from typing import Any

import pytest

from elasticd.cluster.kubernetes.session import Session
from elasticd.cluster.kubernetes.watch.discovery import Discovery
from elasticd.cluster.kubernetes.write.controllers import RESOURCES, Controllers
from elasticd.model.actions import Answer
from elasticd.model.controllers import BUILT_IN, JOB
from tests.cluster.kubernetes.fake import FakeApi, Reply, page, status

GONE = status(404, "NotFound")
DOWN = status(503, "Down", "down")


@pytest.fixture
def controllers(session: Session) -> Controllers:
    return Controllers(session, Discovery(session))


def named(uid: str, **meta: Any) -> Any:
    """The controller of this name, as a kind has its selector."""

    def of_kind(kind: str) -> Reply:
        labels = {"app": "web"}
        selector: dict[str, Any] = labels if kind == "ReplicationController" else {"matchLabels": labels}
        return page({"metadata": {"name": "web", "uid": uid, **meta}, "spec": {"selector": selector}})

    return of_kind


@pytest.mark.parametrize("kind", sorted(BUILT_IN))
@pytest.mark.parametrize(
    ("wanted", "created", "reason"),
    [
        pytest.param(4, 4, "", id="all are there"),
        pytest.param(4, 3, "NotReplaced", id="one is missing"),
        pytest.param(4, 5, "", id="one is too many"),
        pytest.param(19, 18, "NotReplaced", id="one of nineteen"),
        pytest.param(20, 19, "", id="one of twenty"),
        pytest.param(20, 18, "NotReplaced", id="two of twenty"),
        pytest.param(None, 0, "", id="no count is wanted"),
        pytest.param(4, None, "", id="the count is not known"),
    ],
)
async def test_a_controller_that_lacks_pods_gives_no_ready_one(
    api: FakeApi, controllers: Controllers, kind: str, wanted: int | None, created: int | None, reason: str
) -> None:
    """It would not replace that one either, as where a quota refuses what it creates."""
    (found,) = named("u")(kind)["items"]
    listed = page({**found, "spec": {**found["spec"], "replicas": wanted}, "status": {"replicas": created}})
    api.on("GET", RESOURCES[kind].path("shop"), listed)
    asked = partial(controllers.why_not_recreated, "shop", (kind, "web", "u"), {"app": "web"})
    answer = await asked(ready=True)
    assert (answer.reason if answer else "") == reason
    assert await asked(ready=False) is None
    if reason:
        assert answer == Answer(
            "refused",
            message=f"{kind} web has {created} of {wanted} pods, and would not replace it either",
            reason=reason,
        )


def test_every_controller_that_recreates_pods_is_asked() -> None:
    assert RESOURCES.keys() == {*BUILT_IN, JOB}


LEFT = "refused", "NoController"


@pytest.mark.parametrize("kind", RESOURCES)
@pytest.mark.parametrize(
    ("answer", "app", "said"),
    [
        pytest.param(named("u"), "web", None, id="there"),
        pytest.param(named("u"), "debug", LEFT, id="that does not select it any more"),
        pytest.param(named("u", deletionTimestamp="2026-01-01T00:00:00Z"), "web", LEFT, id="being deleted"),
        pytest.param(page(), "web", LEFT, id="gone"),
        pytest.param(page({"metadata": {"name": "web", "uid": "u"}}), "web", LEFT, id="without a selector"),
        pytest.param(
            page({"metadata": {"name": "web", "uid": "u"}, "spec": {"selector": 7}}), "web", LEFT, id="with garbage"
        ),
        pytest.param(named("other"), "web", LEFT, id="another of its name"),
        pytest.param(
            status(403, "Forbidden", "no"), "web", ("refused", "ControllersUnread"), id="that may not be read"
        ),
        pytest.param(DOWN, "web", ("failed", "ServerError"), id="that cannot be read"),
    ],
)
async def test_a_controller_that_leaves_recreates_nothing(
    api: FakeApi, controllers: Controllers, kind: str, answer: Any, app: str, said: tuple[str, str] | None
) -> None:
    path = RESOURCES[kind].path("shop")
    api.on("GET", path, answer(kind) if callable(answer) else answer)
    found = await controllers.why_not_recreated("shop", (kind, "web", "u"), {"app": app, "tier": "front"})
    assert (found and (found.result, found.reason)) == said
    assert {seen.query["fieldSelector"] for seen in api.asked("GET", path)} == {"metadata.name=web"}


@pytest.mark.parametrize(
    ("completions", "succeeded", "said"),
    [(None, 0, None), (None, 1, "NoController"), (3, 1, None)],
    ids=["none has succeeded", "one has", "three must"],
)
async def test_a_work_queue_that_has_succeeded_recreates_nothing(
    api: FakeApi, controllers: Controllers, completions: int | None, succeeded: int, said: str | None
) -> None:
    spec = {"selector": {"matchLabels": {"app": "web"}}, **({"completions": completions} if completions else {})}
    job = {"metadata": {"name": "web", "uid": "u"}, "spec": spec, "status": {"succeeded": succeeded}}
    api.on("GET", RESOURCES["Job"].path("shop"), page(job))
    found = await controllers.why_not_recreated("shop", ("Job", "web", "u"), {"app": "web"})
    assert (found and found.reason) == said


async def test_of_a_pod_without_a_controller_nothing_is_asked(api: FakeApi, controllers: Controllers) -> None:
    assert await controllers.why_not_recreated("shop", ("", "", ""), {}) is None
    assert api.seen == []


CLONE_SETS = {"resources": [{"name": "clonesets", "kind": "CloneSet", "namespaced": True}]}
KRUISE = "/apis/apps.kruise.io"
VERSIONS = {"versions": [{"groupVersion": f"apps.kruise.io/{version}"} for version in ("v1beta1", "v1alpha1")]}


@pytest.mark.parametrize(
    ("group", "resources", "said"),
    [
        pytest.param(VERSIONS, CLONE_SETS, None, id="served, in another version"),
        pytest.param(VERSIONS, {"resources": []}, ("refused", "NoController"), id="its group serves others"),
        pytest.param(VERSIONS, GONE, ("failed", "NoReply"), id="it serves none that it lists"),
        pytest.param(GONE, GONE, ("refused", "NoController"), id="its group is gone"),
        pytest.param(DOWN, GONE, ("failed", "ServerError"), id="that cannot be read"),
        pytest.param(VERSIONS, DOWN, ("failed", "ServerError"), id="nor its resources"),
    ],
)
async def test_a_controller_that_is_not_served_recreates_nothing(
    api: FakeApi, controllers: Controllers, group: Reply, resources: Reply, said: tuple[str, str] | None
) -> None:
    api.on("GET", "/apis", {"groups": []})
    api.on("GET", KRUISE, VERSIONS, group)
    api.on("GET", f"{KRUISE}/v1beta1", {"resources": []})
    api.on("GET", f"{KRUISE}/v1alpha1", CLONE_SETS, resources)
    clone_set = ("apps.kruise.io/v1/CloneSet", "web", "u")
    assert await controllers.why_not_recreated("shop", clone_set, {}) is None
    answer = await controllers.why_not_recreated("shop", clone_set, {})
    assert (answer and (answer.result, answer.reason)) == said
