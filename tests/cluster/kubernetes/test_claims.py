"""Claims are bound for a node by one write each, of what was judged and nothing else."""

from typing import Any

import pytest

from elasticd.cluster.kubernetes.session import Session
from elasticd.cluster.kubernetes.watch.storage import StorageStores
from elasticd.cluster.kubernetes.write.answers import NOT_LEADING
from elasticd.cluster.kubernetes.write.budget import Budget
from elasticd.cluster.kubernetes.write.claims import ClaimBinder
from elasticd.model.actions import Answer, BindClaim
from elasticd.model.workload import Ref
from tests.cluster.kubernetes.fake import FakeApi, HurriedClock, Reply, drop, status
from tests.kit.volumes import claim, volume

DATA = Ref("shop", "PersistentVolumeClaim", "data", "v1")
CLAIM = "/api/v1/namespaces/shop/persistentvolumeclaims/data"
VOLUME = "/api/v1/persistentvolumes/pv"
SELECT = BindClaim(DATA, "uid-data", "1", "n1")
KEEP = BindClaim(DATA, "uid-data", "1", "n1", "pv", "uid-pv")
REFERENCE = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "namespace": "shop",
    "name": "data",
    "uid": "uid-data",
}


class Scene:
    """A claim and a volume that are known, and who writes."""

    def __init__(self, session: Session, clock: HurriedClock) -> None:
        self.stores = StorageStores()
        self.stores.claims.put(claim("data"), listed=True)
        self.stores.volumes.put(volume("pv"), listed=True)
        self.binder = ClaimBinder(session, Budget(clock, 1000, 10), self.stores)

    async def bind(self, action: BindClaim) -> Answer:
        return await self.binder.bind(action, lambda: None)


@pytest.fixture
def scene(session: Session, clock: HurriedClock) -> Scene:
    return Scene(session, clock)


async def test_a_selected_node_is_noted_on_the_claim(api: FakeApi, scene: Scene) -> None:
    api.on("PATCH", CLAIM, {"metadata": {"name": "data", "resourceVersion": "2"}})
    assert await scene.bind(SELECT) == Answer("done", 200)
    (seen,) = api.asked("PATCH", CLAIM)
    noted = {"volume.kubernetes.io/selected-node": "n1"}
    assert seen.body == {"metadata": {"uid": "uid-data", "resourceVersion": "1", "annotations": noted}}
    assert scene.stores.storage().claims["shop", "data"] == claim("data", node="n1", version="2")


@pytest.mark.parametrize(
    ("action", "annotations"),
    [
        pytest.param(KEEP, {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}}, id="chosen here"),
        pytest.param(BindClaim(DATA, "uid-data", "1", "n1", "pv", "uid-pv", by_user=True), {}, id="chosen by a user"),
    ],
)
async def test_a_volume_is_kept_for_the_claim(
    api: FakeApi, scene: Scene, action: BindClaim, annotations: dict[str, Any]
) -> None:
    api.on("PATCH", VOLUME, {"metadata": {"name": "pv", "resourceVersion": "2"}})
    assert await scene.bind(action) == Answer("done", 200)
    (seen,) = api.asked("PATCH", VOLUME)
    judged = {"uid": "uid-pv", "resourceVersion": "1", **annotations}
    assert seen.body == {"metadata": judged, "spec": {"claimRef": REFERENCE}}
    assert scene.stores.storage().volumes["pv"].claim == ("shop", "data", "uid-data")


@pytest.mark.parametrize(
    ("reply", "result", "reason"),
    [
        pytest.param(status(404, "NotFound", "no such claim"), "conflict", "NotFound", id="gone"),
        pytest.param(status(409, "Conflict", "the object has been modified"), "conflict", "Conflict", id="changed"),
        pytest.param(status(422, "Invalid", "metadata.uid: immutable"), "conflict", "NotFound", id="another"),
        pytest.param(status(403, "Forbidden", "may not"), "failed", "Forbidden", id="may not"),
        pytest.param(drop, "failed", "NoReply", id="no reply"),
    ],
)
async def test_what_cannot_be_written_is_reported(
    api: FakeApi, scene: Scene, reply: Reply, result: str, reason: str
) -> None:
    api.on("PATCH", CLAIM, reply)
    answer = await scene.bind(SELECT)
    assert (answer.result, answer.reason, len(api.asked("PATCH", CLAIM))) == (result, reason, 1)
    assert scene.stores.storage().claims["shop", "data"].node == ""


async def test_who_does_not_lead_writes_nothing(api: FakeApi, scene: Scene) -> None:
    assert await scene.binder.bind(SELECT, lambda: NOT_LEADING) == NOT_LEADING
    assert api.asked("PATCH", CLAIM) == []


async def test_what_is_another_by_now_is_not_assumed(api: FakeApi, scene: Scene) -> None:
    scene.stores.claims.put(claim("data", uid="other", version="9"), listed=False)
    api.on("PATCH", CLAIM, {"metadata": {"name": "data", "resourceVersion": "2"}})
    await scene.bind(SELECT)
    assert scene.stores.storage().claims["shop", "data"].node == ""
