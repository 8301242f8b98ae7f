"""A Deployment whose pods are to be spread over zones and kept apart, placed by `elasticd run` with the shipped
rights on a genuine API server."""

from collections import Counter
from pathlib import Path
from typing import Any

from tests.kube.client import wait_until
from tests.kube.conftest import Kube
from tests.kube.pairs import REQUIRED
from tests.kube.pools import decided, deployment, places
from tests.kube.reports import NodeSpec
from tests.kube.rights import FOLDER, granted_from, shipped_rights
from tests.kube.running import running

USER = "elasticd"
POLICY = """
mode = "act"
[pool]
namespaces = ["{namespace}"]
nodes = {{ for = "{namespace}" }}
[[strategy]]
type = "filters"
[[strategy]]
type = "least-requested"
"""
ZONES = "abc"


def zoned(namespace: str) -> list[NodeSpec]:
    """Two nodes in each of three zones."""
    return [
        NodeSpec(f"{zone}{number}-{namespace}", cpu="8", memory="16Gi", labels={"for": namespace, "zone": zone})
        for zone in ZONES
        for number in (1, 2)
    ]


def spread_and_apart(app: str, **term: Any) -> dict[str, Any]:
    """At most one more pod in a zone than in another, and none on a node that has one."""
    selector = {"matchLabels": {"app": app}}
    rule = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector, **term}
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return {"topologySpreadConstraints": [constraint], "affinity": {"podAntiAffinity": {REQUIRED: [rule]}}}


async def test_a_deployment_is_spread_over_zones_and_nodes(kube: Kube, namespace: str, tmp_path: Path) -> None:
    by_labels = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    manifest = deployment("web", 7, **spread_and_apart("web", **by_labels))
    async with (
        shipped_rights(kube.plane, USER, namespace),
        granted_from(kube.plane, FOLDER / "components" / "placing" / "rbac.yaml", USER, namespace),
        kube.nodes.having(*zoned(namespace)),
        running(
            tmp_path / "daemon", kube.plane.kubeconfig(USER), namespace, {"web": POLICY.format(namespace=namespace)}
        ) as daemon,
    ):
        await kube.client.apply(manifest, namespace)

        async def six_are_placed() -> bool:
            return len([node for node in (await places(kube, namespace)).values() if node]) == 6

        await wait_until(six_are_placed, what="one pod is on each node", within=60)
        placed = await places(kube, namespace)
        nodes = [node for node in placed.values() if node]
        assert len({*nodes}) == 6
        assert Counter(node[0] for node in nodes) == dict.fromkeys(ZONES, 2)
        (waits,) = [name for name, node in placed.items() if not node]

        async def is_told_why() -> bool:
            decision = await decided(daemon, waits, "wait")
            return "node(s) didn't match pod anti-affinity rules" in decision.message

        await wait_until(is_told_why, what="the seventh is told why it waits")
