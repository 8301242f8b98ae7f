"""Whether a controller would recreate a pod that is moved, as it is read just before."""

from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.base.clock import VirtualClock
from elasticd.cluster.kubernetes.session import Session
from elasticd.cluster.kubernetes.watch.discovery import Discovery
from elasticd.cluster.kubernetes.watch.store import PodStore
from elasticd.cluster.kubernetes.write.controllers import RESOURCES, Controllers
from elasticd.model.controllers import BUILT_IN, JOB
from elasticd.model.workload import Pod
from tests.cluster.kubernetes.fake import FakeApi, Reply, page, status
from tests.kit.pools import NOW, pod

GONE = status(404, "NotFound")
DOWN = status(503, "Down", "down")


@pytest.fixture
def pods() -> PodStore:
    return PodStore()


@pytest.fixture
def controllers(session: Session, pods: PodStore) -> Controllers:
    return Controllers(session, Discovery(session), pods, VirtualClock(NOW))


def owned(name: str, owner: tuple[str, str, str]) -> Pod:
    """A running pod of this controller."""
    return pod(name, on="a", owner=owner, phase="Running")


def named(uid: str, **meta: Any) -> Any:
    """The controller of this name, as a kind has its selector."""

    def of_kind(kind: str) -> Reply:
        labels = {"app": "web"}
        selector: dict[str, Any] = labels if kind == "ReplicationController" else {"matchLabels": labels}
        return page({"metadata": {"name": "web", "uid": uid, **meta}, "spec": {"selector": selector}})

    return of_kind


@pytest.mark.parametrize("kind", sorted(BUILT_IN))
@pytest.mark.parametrize(
    ("wanted", "created", "there", "has"),
    [
        pytest.param(4, 4, 4, None, id="all are there"),
        pytest.param(4, 3, 4, 3, id="it counts one fewer"),
        pytest.param(4, 4, 3, 3, id="one is missing, but the controller has not counted"),
        pytest.param(4, 5, 4, None, id="it has yet to count one that is gone"),
        pytest.param(19, 18, 18, 18, id="one of nineteen"),
        pytest.param(20, 19, 19, None, id="one of twenty"),
        pytest.param(20, 18, 20, 18, id="two of twenty"),
        pytest.param(20, 20, 18, 18, id="two of twenty that it has not counted"),
        pytest.param(None, 0, 0, None, id="no count is wanted"),
        pytest.param(4, None, 4, None, id="it has never counted"),
        pytest.param(4, None, 3, 3, id="it has never counted, and one is missing"),
    ],
)
async def test_a_controller_that_lacks_pods_gives_no_ready_one(
    api: FakeApi,
    controllers: Controllers,
    pods: PodStore,
    kind: str,
    wanted: int | None,
    created: int | None,
    there: int,
    has: int | None,
) -> None:
    """It would not replace that one either, as where a quota refuses what it creates, or no controller runs."""
    (found,) = named("u")(kind)["items"]
    listed = page({**found, "spec": {**found["spec"], "replicas": wanted}, "status": {"replicas": created}})
    api.on("GET", RESOURCES[kind].path("shop"), listed)
    owner = (kind, "web", "u")
    gone = [replace(owned("gone", owner), deleted=True)] if kind != "StatefulSet" else []
    others = [*gone, replace(owned("done", owner), phase="Succeeded")]
    strangers = [owned("other", (kind, "other", "o")), replace(owned("far", owner), namespace="far")]
    for one in (*(owned(f"web-{number}", owner) for number in range(there)), *others, *strangers):
        pods.put(one, listed=True)
    asked = partial(controllers.why_not_recreated, "shop", owner, {"app": "web"})
    answer = await asked(ready=True)
    assert (answer.message if answer else None) == (
        None if has is None else f"{kind} web has {has} of {wanted} pods, and would not replace it either"
    )
    assert answer is None or (answer.result, answer.reason) == ("refused", "NotReplaced")
    assert await asked(ready=False) is None


@pytest.mark.parametrize("kind", sorted(BUILT_IN))
@pytest.mark.parametrize(
    ("seconds", "ages", "has"),
    [
        pytest.param(20, [600.0, 600.0, 600.0, 5.0], 3, id="one replaced another"),
        pytest.param(20, [600.0, 600.0, 600.0, 20.0], None, id="it has been ready for long enough"),
        pytest.param(20, [600.0, 600.0, 600.0, None], None, id="one fails, whoever did it"),
        pytest.param(20, [5.0] + 20 * [600.0], None, id="one of twenty and more"),
        pytest.param(0, [600.0, 600.0, 600.0, 5.0], None, id="ready is enough"),
        pytest.param(None, [600.0, 600.0, 600.0, 5.0], None, id="as by default"),
    ],
)
async def test_a_replacement_counts_once_available(
    api: FakeApi,
    controllers: Controllers,
    pods: PodStore,
    kind: str,
    seconds: int | None,
    ages: list[float | None],
    has: int | None,
) -> None:
    """Of a ReplicaSet without a Deployment, which nobody watches, too."""
    (found,) = named("u")(kind)["items"]
    spec = {**found["spec"], "replicas": len(ages), "minReadySeconds": seconds}
    api.on("GET", RESOURCES[kind].path("shop"), page({**found, "spec": spec}))
    owner = (kind, "web", "u")
    for number, age in enumerate(ages):
        changed = {"ready": age is not None, "ready_changed": NOW - (age or 0.0)}
        pods.put(replace(owned(f"web-{number}", owner), **changed), listed=True)
    asked = partial(controllers.why_not_recreated, "shop", owner, {"app": "web"})
    answer = await asked(ready=True)
    said = f"{has} of {len(ages)} pods of {kind} web are ready, for {seconds} s (minReadySeconds)"
    assert (answer.reason, answer.message) == ("NotReplaced", said) if answer else has is None
    assert await asked(ready=False) is None


@pytest.mark.parametrize("kind", sorted(BUILT_IN))
@pytest.mark.parametrize(
    ("counted", "shown", "waits"),
    [
        pytest.param({"replicas": 4, "readyReplicas": 4}, 4, False, id="both say that all are ready"),
        pytest.param({"replicas": 4, "readyReplicas": 3}, 4, True, id="it knows one that is not"),
        pytest.param({"replicas": 4}, 4, True, id="it knows none that is"),
        pytest.param({"replicas": 4, "readyReplicas": 3}, 3, False, id="one fails for long"),
        pytest.param({"replicas": 4, "readyReplicas": 4}, 3, False, id="it has yet to count one"),
        pytest.param({"replicas": 20, "readyReplicas": 19}, 20, False, id="one of twenty"),
        pytest.param({"replicas": 20, "readyReplicas": 18}, 20, True, id="two of twenty"),
        pytest.param({}, 4, False, id="it has never counted"),
    ],
)
async def test_a_controller_that_knows_of_unready_pods_gives_none(
    api: FakeApi,
    controllers: Controllers,
    pods: PodStore,
    kind: str,
    counted: dict[str, int],
    shown: int,
    waits: bool,
) -> None:
    """The watch of pods may have fallen silent while one was moved or failed."""
    (found,) = named("u")(kind)["items"]
    wanted = counted.get("replicas", shown)
    listed = page({**found, "spec": {**found["spec"], "replicas": wanted}, "status": counted})
    api.on("GET", RESOURCES[kind].path("shop"), listed)
    owner = (kind, "web", "u")
    for number in range(wanted):
        pods.put(replace(owned(f"web-{number}", owner), ready=number < shown), listed=True)
    asked = partial(controllers.why_not_recreated, "shop", owner, {"app": "web"})
    answer = await asked(ready=True)
    told = counted.get("readyReplicas", 0)
    said = f"{kind} web says that {told} of its pods are ready, the watch of pods {shown}: it is judged anew"
    assert (answer.reason, answer.message) == ("Outdated", said) if answer else not waits
    assert await asked(ready=False) is None


@pytest.mark.parametrize("kind", sorted(BUILT_IN))
async def test_a_controller_with_too_many_pods_gives_no_ready_one(
    api: FakeApi, controllers: Controllers, pods: PodStore, kind: str
) -> None:
    """It was scaled in and has yet to delete one, perhaps any: kube-controller-manager is late, or away. One that ends,
    for however long, as on a lost node, is deleted."""
    (found,) = named("u")(kind)["items"]
    api.on("GET", RESOURCES[kind].path("shop"), page({**found, "spec": {**found["spec"], "replicas": 4}}))
    owner = (kind, "web", "u")
    for number in range(5):
        pods.put(owned(f"web-{number}", owner), listed=True)
    asked = partial(controllers.why_not_recreated, "shop", owner, {"app": "web"})
    answer = await asked(ready=True)
    assert answer is not None
    assert (answer.result, answer.reason) == ("refused", "Scaling")
    assert answer.message == f"{kind} web has 5 pods, is to have 4, and has yet to delete the others"
    pods.put(replace(owned("web-4", owner), deleted=True), listed=True)
    assert await asked(ready=True) is None
    assert await asked(ready=False) is None


async def test_a_terminating_pod_of_a_stateful_set_is_there(
    api: FakeApi, controllers: Controllers, pods: PodStore
) -> None:
    """Its controller makes another once it has ended, which may be never: its node may be lost."""
    owner = ("StatefulSet", "web", "u")
    (found,) = named("u")(owner[0])["items"]
    api.on("GET", RESOURCES[owner[0]].path("shop"), page({**found, "spec": {**found["spec"], "replicas": 2}}))
    for one in (owned("web-0", owner), replace(owned("web-1", owner), deleted=True)):
        pods.put(one, listed=True)
    assert await controllers.why_not_recreated("shop", owner, {"app": "web"}, ready=True) is None


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
