"""A rollback by `kubectl` is told from its other writes by what the API server notes of who wrote what."""

import asyncio
import json

import msgspec
import pytest

from elasticd.cluster.kubernetes.wire.convert import to_workload
from elasticd.cluster.kubernetes.wire.objects import WireWorkload
from elasticd.decision.workload.zero import REVISION, ZERO
from elasticd.model.workload import Workload
from tests.kube.client import JSON, wait_until
from tests.kube.conftest import Kube
from tests.kube.fetch import find_program
from tests.kube.test_cluster import DEPLOYMENT, PATHS, manifest

KUBECTL = find_program("kubectl")
pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on this machine: python3 tests/kube/fetch.py")


class Web:
    """A Deployment that a person handles by kubectl, and elasticd scales to zero."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        self._client, self._path = kube.client, f"{PATHS[DEPLOYMENT].format(namespace)}/web"
        self._words = ("--kubeconfig", str(kube.plane.kubeconfig()), "--namespace", namespace)

    async def kubectl(self, *words: str, stdin: JSON = None) -> None:
        """Run it, in a later second than the last write."""
        await asyncio.sleep(1.1)
        pipe = asyncio.subprocess.PIPE
        assert KUBECTL is not None
        process = await asyncio.create_subprocess_exec(KUBECTL, *self._words, *words, stdin=pipe, stdout=pipe)
        said, _ = await process.communicate(json.dumps(stdin).encode())
        assert process.returncode == 0, said

    async def zero(self) -> None:
        """Let elasticd scale it to zero."""
        await self._client.patch(self._path, {"metadata": {"annotations": {ZERO: "p"}}}, fieldManager="elasticd")
        await self._client.patch(f"{self._path}/scale", {"spec": {"replicas": 0}}, fieldManager="elasticd")

    async def manifest(self, image: str) -> JSON:
        """What a person applies who knows of no mark: no replicas, of another image."""
        found = await self._client.get(self._path)
        template = found["spec"]["template"]
        template["spec"]["containers"][0]["image"] = image
        spec = {"replicas": 0, "selector": found["spec"]["selector"], "template": template}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}

    async def seen(self, revision: int) -> Workload:
        """It, as elasticd sees it once its controller has this revision."""

        async def there() -> JSON:
            wire = msgspec.json.decode(json.dumps(await self._client.get(self._path)), type=WireWorkload)
            workload = to_workload("apps/v1", "Deployment", wire)
            return workload if workload.annotations.get(REVISION) == str(revision) else None

        found: Workload = await wait_until(there, what=f"it has revision {revision}")
        return found


async def test_kubectl_rollbacks_are_told_from_other_writes(kube: Kube, namespace: str) -> None:
    web = Web(kube, namespace)
    await web.kubectl("apply", "-f", "-", stdin=manifest(DEPLOYMENT, replicas=1))
    await web.seen(1)
    await web.kubectl("set", "image", "deployment/web", "*=other:2")
    await web.seen(2)
    await web.zero()
    told = {}
    for revision, what, *words in (
        (3, "takes the mark away", "rollout", "undo", "deployment/web"),
        (4, "brings it back", "rollout", "undo", "deployment/web"),
        (5, "replaces it all", "replace", "-f", "-"),
        (6, "undoes that", "rollout", "undo", "deployment/web"),
        (7, "applies another", "apply", "--server-side", "--force-conflicts", "-f", "-"),
    ):
        stdin: JSON = await web.manifest(f"next:{revision}") if "-f" in words else None
        if "apply" in words:
            stdin["metadata"]["annotations"] = {ZERO: "p"}
        await web.kubectl(*words, stdin=stdin)
        seen = await web.seen(revision)
        told[what] = (seen.undone, ZERO in seen.annotations, ZERO in seen.rolled_back)
    assert told == {
        "takes the mark away": (True, False, False),
        "brings it back": (True, False, True),
        "replaces it all": (False, False, False),
        "undoes that": (True, False, True),
        "applies another": (False, True, False),
    }
