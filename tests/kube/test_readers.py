"""Whose token counts for the pages, on a genuine API server with the shipped rights."""

from elasticd.base.clock import WallClock
from elasticd.cluster.kubernetes import Kubernetes
from elasticd.cluster.kubernetes.lease import LeaseSettings
from tests.kube.client import wait_until
from tests.kube.conftest import Kube
from tests.kube.rights import FOLDER, granted_from, shipped_rights

READER = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: NAME}
rules: [{nonResourceURLs: [/status], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: NAME}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: NAME}
subjects: [{kind: ServiceAccount, name: reader, namespace: NAMESPACE}]
"""


async def test_a_service_account_reads_what_its_role_names(kube: Kube, namespace: str) -> None:
    named = READER.replace("NAMESPACE", namespace).replace("NAME", f"reads-{namespace}")
    await kube.client.apply(named, namespace)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    made = await kube.client.create(f"/api/v1/namespaces/{namespace}/serviceaccounts/reader/token", request)
    token = made["status"]["token"]
    async with shipped_rights(kube.plane, "elasticd", namespace) as rights:
        table = Kubernetes(kubeconfig=str(rights.kubeconfig), lease=LeaseSettings(enabled=False))
        async with table.open(WallClock()) as cluster:
            assert "tokenreviews.authentication.k8s.io is forbidden" in await cluster.may_read(token, "/status")
            async with granted_from(kube.plane, FOLDER / "components/readers/rbac.yaml", "elasticd", namespace):

                async def lets_in() -> bool:
                    return not await cluster.may_read(token, "/status")

                await wait_until(lets_in, what="the rights are in force")
                assert (await cluster.may_read(token, "/history")).endswith(":reader may not get /history")
                assert await cluster.may_read("nonsense", "/status") == "the API server does not know this token"
