"""Stands in for a provisioner of volumes: makes a volume for each claim for which a node was selected.

Knows what the API server's own controllers wait for; knows not who selects nodes.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from elasticd.base.tasks import cancel
from tests.kube.client import JSON, TROUBLE, ApiError, Client

SELECTED = "volume.kubernetes.io/selected-node"
CLAIMS, VOLUMES = "/api/v1/persistentvolumeclaims", "/api/v1/persistentvolumes"


@asynccontextmanager
async def provisioning(client: Client, driver: str) -> AsyncIterator[None]:
    """Make volumes of a CSI driver for as long as the `async with` lasts."""
    task = asyncio.create_task(_provision(client, driver))
    try:
        yield
    finally:
        await cancel(task)


async def _provision(client: Client, driver: str) -> None:
    while True:
        try:
            for claim in await client.list(CLAIMS):
                selected = claim["metadata"].get("annotations", {}).get(SELECTED)
                if selected and not claim["spec"].get("volumeName"):
                    await _make(client, claim, driver, selected)
        except TROUBLE:
            pass
        await asyncio.sleep(0.3)


async def _make(client: Client, claim: JSON, driver: str, node: str) -> None:
    meta, spec = claim["metadata"], claim["spec"]
    host = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    body = {
        "metadata": {"name": f"pvc-{meta['uid']}", "annotations": {"pv.kubernetes.io/provisioned-by": driver}},
        "spec": {
            "storageClassName": spec["storageClassName"],
            "accessModes": spec["accessModes"],
            "volumeMode": spec.get("volumeMode", "Filesystem"),
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "claimRef": {key: meta[key] for key in ("namespace", "name", "uid")},
            "csi": {"driver": driver, "volumeHandle": meta["uid"]},
            "persistentVolumeReclaimPolicy": "Retain",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [host]}]}},
        },
    }
    try:
        await client.create(VOLUMES, body)
    except ApiError as error:
        if error.status != 409:
            raise
