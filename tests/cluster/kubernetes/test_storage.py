"""Claims, volumes, storage classes and CSINodes as the API server has them."""

from math import isnan
from typing import Any

import msgspec
import pytest

from elasticd.cluster.kubernetes.watch.storage import (
    CsiDriver,
    StorageStores,
    WireCapacity,
    WireClaim,
    WireCsiDriver,
    WireCsiNode,
    WirePersistentVolume,
    WireStorageClass,
    to_attachable,
    to_capacity,
    to_claim,
    to_csi_driver,
    to_storage_class,
    to_volume,
)
from elasticd.model.pod_spec import Expression, Term
from elasticd.model.volumes import StorageCapacity, StorageClass, Volume, VolumeClaim
from tests.kit.volumes import claim, volume

GIB = 2.0**30
META = {"name": "data", "namespace": "shop", "uid": "u", "resourceVersion": "7"}
BETA = {"volume.beta.kubernetes.io/storage-class": "old"}
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


def read(shape: type[Any], meta: dict[str, Any] | None = None, **rest: Any) -> Any:
    """An object as it comes from the server."""
    return msgspec.json.decode(msgspec.json.encode({"metadata": META | (meta or {}), **rest}), type=shape)


@pytest.mark.parametrize(
    ("meta", "spec", "phase", "expected"),
    [
        pytest.param({}, {}, "Pending", {}, id="nothing"),
        pytest.param(
            {},
            {
                "storageClassName": "fast", "accessModes": ["ReadWriteOnce"], "volumeMode": "Block",
                "resources": {"requests": {"storage": "2Gi"}}, "volumeAttributesClassName": "gold",
            },
            "Pending",
            {"class_name": "fast", "modes": ("ReadWriteOnce",), "kind": "Block", "size": 2 * GIB, "attributes": "gold"},
            id="what it asks for",
        ),
        pytest.param({"annotations": BETA}, {"storageClassName": "fast"}, "", {"class_name": "old"}, id="class"),
        pytest.param(
            {}, {"selector": {"matchLabels": {"a": "b"}}}, "", {"selector": (Expression("a", "In", ("b",)),)},
            id="a selector",
        ),
        pytest.param({"annotations": BOUND}, {"volumeName": "pv"}, "", {"volume": "pv", "bound": True}, id="bound"),
        pytest.param({}, {"volumeName": "pv"}, "Pending", {"volume": "pv"}, id="to be bound"),
        pytest.param({"annotations": BOUND}, {}, "Lost", {"lost": True}, id="lost"),
        pytest.param({"deletionTimestamp": "2026-01-01T00:00:00Z"}, {}, "", {"deleted": True}, id="deleted"),
        pytest.param(
            {"annotations": {"volume.kubernetes.io/selected-node": "n1"}}, {}, "", {"node": "n1"}, id="selected"
        ),
        pytest.param(
            {"ownerReferences": [{"kind": "Pod", "name": "w", "uid": "p", "controller": True}]}, {}, "",
            {"owner": "p"}, id="of a pod",
        ),
    ],
)  # fmt: skip
def test_a_claim(meta: dict[str, Any], spec: dict[str, Any], phase: str, expected: dict[str, Any]) -> None:
    found = to_claim(read(WireClaim, meta, spec=spec, status={"phase": phase}))
    assert found == VolumeClaim("shop", "data", "u", "7", **expected)


@pytest.mark.parametrize(
    ("meta", "spec", "phase", "expected"),
    [
        pytest.param({}, {}, "Pending", {}, id="nothing"),
        pytest.param(
            {"labels": {"zone": "a"}},
            {
                "storageClassName": "fast", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"},
                "csi": {"driver": "csi", "volumeHandle": "h"},
            },
            "Available",
            {
                "class_name": "fast", "modes": ("ReadWriteOnce",), "size": 2 * GIB, "labels": {"zone": "a"},
                "driver": "csi", "handle": "h", "available": True,
            },
            id="what it offers",
        ),
        pytest.param(
            {}, {"claimRef": {"namespace": "shop", "name": "data"}}, "Available",
            {"claim": ("shop", "data", ""), "available": True}, id="kept for a claim",
        ),
        pytest.param(
            {},
            {"nodeAffinity": {"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}, {}]}}},
            "", {"terms": (Term((Expression("zone", "In", ("a",)),)), Term())}, id="of some nodes",
        ),
        pytest.param({}, {"nodeAffinity": {}}, "", {}, id="of all nodes"),
        pytest.param({"annotations": BETA}, {}, "", {"class_name": "old"}, id="class, as it was written of old"),
        pytest.param({}, {"hostPath": {"path": "/data"}}, "", {"local": True}, id="a folder of the node"),
        pytest.param(
            {}, {"awsElasticBlockStore": {"volumeID": "v"}}, "", {"unsupported": "awsElasticBlockStore"}, id="a disk"
        ),
    ],
)  # fmt: skip
def test_a_volume(meta: dict[str, Any], spec: dict[str, Any], phase: str, expected: dict[str, Any]) -> None:
    found = to_volume(read(WirePersistentVolume, meta, spec=spec, status={"phase": phase}))
    assert found == Volume("data", "u", "7", **expected)


def test_an_unreadable_size_is_no_size() -> None:
    found = to_claim(read(WireClaim, spec={"resources": {"requests": {"storage": "much"}}}))
    assert isnan(found.size)
    assert not volume("pv").serves(found)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"provisioner": "p"}, StorageClass("data", "p"), id="no mode"),
        pytest.param({"volumeBindingMode": "Immediate"}, StorageClass("data"), id="immediate"),
        pytest.param({"volumeBindingMode": "WaitForFirstConsumer"}, StorageClass("data", waits=True), id="waits"),
        pytest.param(
            {"allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}]},
            StorageClass("data", topologies=(Term((Expression("zone", "In", ("a", "b")),)),)), id="of some zones",
        ),
        pytest.param({"allowedTopologies": []}, StorageClass("data"), id="no topologies are all"),
    ],
)  # fmt: skip
def test_a_storage_class(fields: dict[str, Any], expected: StorageClass) -> None:
    assert to_storage_class(read(WireStorageClass, **fields)) == expected


def test_a_driver_without_a_number_has_no_limit() -> None:
    drivers = [{"name": "a", "allocatable": {"count": 4}}, {"name": "b", "allocatable": {}}, {"name": "c"}]
    assert to_attachable(read(WireCsiNode, spec={"drivers": drivers})).limits == {"a": 4}


def test_a_driver_may_say_what_storage_it_has_left() -> None:
    drivers = [to_csi_driver(read(WireCsiDriver, spec=spec)) for spec in ({"storageCapacity": True}, {})]
    assert [driver.tracked for driver in drivers] == [True, False]


@pytest.mark.parametrize(
    ("fields", "size", "nodes"),
    [
        pytest.param({"capacity": "2Gi"}, 2 * GIB, None, id="for no node"),
        pytest.param({"capacity": "9Gi", "maximumVolumeSize": "1Gi", "nodeTopology": {}}, GIB, (), id="the largest"),
        pytest.param(
            {"capacity": 5, "nodeTopology": {"matchLabels": {"zone": "a"}}}, 5,
            (Expression("zone", "In", ("a",)),), id="for some nodes",
        ),
    ],
)  # fmt: skip
def test_the_storage_that_is_left(fields: dict[str, Any], size: float, nodes: tuple[Expression, ...] | None) -> None:
    found = to_capacity(read(WireCapacity, storageClassName="fast", **fields))
    assert found == StorageCapacity("shop", "data", "fast", size, nodes)
    assert isnan(to_capacity(read(WireCapacity)).size)


def test_drivers_are_not_asked_for_capacities_that_are_not_served() -> None:
    stores = StorageStores()
    stores.drivers.put(CsiDriver("csi", tracked=True), listed=True)
    assert stores.storage().tracked == {"csi"}
    other = StorageStores()
    other.drivers.put(CsiDriver("csi", tracked=True), listed=True)
    assert other.storage(capacities_served=False).tracked == frozenset()


def test_an_older_version_of_a_claim_changes_nothing() -> None:
    stores, told = StorageStores(), list[str]()
    stores.on_change(lambda: told.append("changed"))
    stores.claims.put(claim("data", version="7", node="n1"), listed=False)
    stores.claims.put(claim("data", version="6"), listed=False)
    assert stores.storage().claims["shop", "data"].node == "n1"
    stores.claims.put(claim("data", version="8"), listed=False)
    assert (stores.storage().claims["shop", "data"].node, len(told)) == ("", 2)


def test_what_is_known_stays_the_same_record_until_it_changes() -> None:
    stores = StorageStores()
    stores.volumes.put(volume("pv"), listed=True)
    first = stores.storage()
    assert stores.storage() is first
    stores.claims.put(claim("data"), listed=True)
    second = stores.storage()
    assert second.volumes is first.volumes
    assert second.claims is not first.claims
    assert stores.storage(("csinodes",)).unknown == ("csinodes",)
