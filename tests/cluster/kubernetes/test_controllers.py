"""Whether a controller would recreate a pod that is moved, as it is read just before."""

from typing import Any

import pytest

from elasticd.cluster.kubernetes.session import Session
from elasticd.cluster.kubernetes.watch.discovery import Discovery
from elasticd.cluster.kubernetes.write.controllers import RESOURCES, Controllers
from elasticd.model.controllers import BUILT_IN
from tests.cluster.kubernetes.fake import FakeApi, Reply, page, status

GONE = status(404, "NotFound")
DOWN = status(503, "Down", "down")


@pytest.fixture
def controllers(session: Session) -> Controllers:
    return Controllers(session, Discovery(session))


def named(uid: str, **meta: Any) -> Reply:
    """A list with the one of this name."""
    return page({"metadata": {"name": "web", "namespace": "shop", "uid": uid, **meta}})


def test_every_controller_that_recreates_all_its_pods_is_asked() -> None:
    assert RESOURCES.keys() == BUILT_IN


@pytest.mark.parametrize("kind", RESOURCES)
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param(named("u"), None, id="there"),
        pytest.param(
            named("u", deletionTimestamp="2026-01-01T00:00:00Z"), ("refused", "NoController"), id="being deleted"
        ),
        pytest.param(page(), ("refused", "NoController"), id="gone"),
        pytest.param(named("other"), ("refused", "NoController"), id="another of its name"),
        pytest.param(status(403, "Forbidden", "no"), ("refused", "ControllersUnread"), id="that may not be read"),
        pytest.param(DOWN, ("failed", "ServerError"), id="that cannot be read"),
    ],
)
async def test_a_controller_that_leaves_recreates_nothing(
    api: FakeApi, controllers: Controllers, kind: str, answer: Reply, said: tuple[str, str] | None
) -> None:
    path = RESOURCES[kind].path("shop")
    api.on("GET", path, answer)
    found = await controllers.why_not_recreated("shop", (kind, "web", "u"))
    assert (found and (found.result, found.reason)) == said
    assert {seen.query["fieldSelector"] for seen in api.asked("GET", path)} == {"metadata.name=web"}


@pytest.mark.parametrize("kind", ["Job", ""], ids=["a Job", "no controller"])
async def test_of_what_runs_once_nothing_is_asked(api: FakeApi, controllers: Controllers, kind: str) -> None:
    assert await controllers.why_not_recreated("shop", (kind, "web", "u")) is None
    assert api.seen == []


CLONE_SETS = {"resources": [{"name": "clonesets", "kind": "CloneSet", "namespaced": True}]}
KRUISE = "/apis/apps.kruise.io"
VERSIONS = {"versions": [{"groupVersion": f"apps.kruise.io/{version}"} for version in ("v1beta1", "v1alpha1")]}


@pytest.mark.parametrize(
    ("group", "resources", "said"),
    [
        pytest.param(VERSIONS, CLONE_SETS, None, id="served, in another version"),
        pytest.param(VERSIONS, {"resources": []}, ("refused", "NoController"), id="its group serves others"),
        pytest.param(VERSIONS, GONE, ("refused", "NoController"), id="its versions are gone"),
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
    assert await controllers.why_not_recreated("shop", clone_set) is None
    answer = await controllers.why_not_recreated("shop", clone_set)
    assert (answer and (answer.result, answer.reason)) == said
