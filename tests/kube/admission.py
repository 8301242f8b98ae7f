"""What a cluster's admission refuses, by its own policies (ValidatingAdmissionPolicy, not in 1.20).

Knows how policies are made; knows nothing of who is refused.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tests.kube.client import JSON, ApiError, wait_until
from tests.kube.conftest import Kube

POLICY = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"


@asynccontextmanager
async def refusing(kube: Kube, name: str, rule: JSON, unless: str, why: str) -> AsyncIterator[None]:
    """Admission refuses what the rule matches, unless this expression holds."""
    meta = {"metadata": {"name": name}}
    validations = [{"expression": unless, "message": why}]
    policy = {"matchConstraints": {"resourceRules": [rule]}, "validations": validations}
    await kube.client.create(f"{POLICY}ies", {**meta, "spec": policy})
    bound = {"policyName": name, "validationActions": ["Deny"]}
    await kube.client.create(f"{POLICY}ybindings", {**meta, "spec": bound})
    try:
        yield
    finally:
        await kube.client.delete(f"{POLICY}ybindings/{name}")
        await kube.client.delete(f"{POLICY}ies/{name}")


@asynccontextmanager
async def no_larger_sets(kube: Kube, namespace: str, most: int) -> AsyncIterator[None]:
    """The ReplicaSet of a namespace is given no more replicas than these, whatever its Deployment is to have."""
    sets = f"/apis/apps/v1/namespaces/{namespace}/replicasets"
    operations = {"operations": ["UPDATE"], "resources": ["replicasets"]}
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], **operations}
    few = f"request.namespace != '{namespace}' || object.spec.replicas <= {most}"

    async def holds() -> bool:
        (owned,) = await kube.client.list(sets)
        with suppress(ApiError):
            await kube.client.patch(f"{sets}/{owned['metadata']['name']}", {"spec": {"replicas": 99}}, dryRun="All")
            return False
        return True

    async with refusing(kube, namespace, rule, few, "too many"):
        await wait_until(holds, what="the policy holds")
        yield
