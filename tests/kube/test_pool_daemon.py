"""The daemon as a scheduler: 200 pending pods, every filter, and what its commands then say."""

import json
import random
from collections import Counter
from pathlib import Path

from tests.kube.client import JSON, wait_until
from tests.kube.conftest import Kube
from tests.kube.pools import PODS, create, manifest
from tests.kube.reports import NodeSpec
from tests.kube.running import running

PENDING, SEED = 200, 5
ZONES, TAINT = ("a", "b", "c"), "elasticd.test/only"
POLICY = """
mode = "act"
[pool]
namespaces = ["{namespace}"]
nodes = {{ for = "{namespace}" }}
[[strategy]]
type = "filters"
[[strategy]]
type = "least-requested"
[[strategy]]
type = "balanced-allocation"
"""
REASONS = (
    "node(s) were unschedulable",
    "node(s) were not ready",
    "node(s) had untolerated taint",
    "node(s) didn't match Pod's node affinity/selector",
    "node(s) didn't have free ports",
    "Insufficient cpu",
    "Insufficient memory",
    "Insufficient elasticd.test/widget",
    "Too many pods",
    "node(s) had no available disk",
    "node(s) didn't satisfy existing pods anti-affinity rules",
)


def nodes(namespace: str) -> list[NodeSpec]:
    """Twelve nodes in three zones: two with a taint, two with widgets, one for two pods, one that is cordoned and one
    that is not ready."""
    made = []
    for number in range(12):
        labels = {"for": namespace, "zone": ZONES[number % 3], "rank": str(number)}
        taints = [{"key": TAINT, "value": "yes", "effect": "NoSchedule"}] if number in (2, 3) else []
        extended = {"elasticd.test/widget": "30"} if number in (4, 5) else {}
        pods = 2 if number == 6 else 110
        name = f"n{number:02d}-{namespace}"
        made.append(NodeSpec(name, cpu="8", memory="16Gi", pods=pods, labels=labels, taints=taints, extended=extended))
    return made


def asks(number: int, chance: random.Random) -> JSON:
    """What a pod asks for: each kind of question by turns."""
    zone = chance.choice(ZONES)
    rule = chance.choice(
        [
            {"key": "zone", "operator": "In", "values": [zone]},
            {"key": "zone", "operator": "NotIn", "values": [zone]},
            {"key": "rank", "operator": "Gt", "values": [str(chance.randrange(8))]},
            {"key": "rank", "operator": "Lt", "values": [str(chance.randrange(6, 12))]},
            {"key": "rank", "operator": "Exists"},
            {"key": "nothing", "operator": "DoesNotExist"},
        ]
    )
    terms = [{"matchExpressions": [rule]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    kinds: list[JSON] = [
        {},
        {"nodeSelector": {"zone": zone}},
        {"affinity": affinity},
        {"tolerations": [{"key": TAINT, "operator": "Exists"}], "nodeSelector": {"zone": ZONES[2]}},
    ]
    return kinds[number % 4]


def pod(number: int, chance: random.Random) -> JSON:
    """One of them. Every fortieth takes a port of its node, every tenth a widget."""
    made = manifest(f"p{number:03d}", f"{chance.randrange(50, 300)}m", "64Mi", **asks(number, chance))
    (container,) = made["spec"]["containers"]
    if number % 40 == 0:
        container["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    if number % 10 == 5:
        container["resources"]["requests"]["elasticd.test/widget"] = "1"
        container["resources"]["limits"] = {"elasticd.test/widget": "1"}
        made["spec"] = {key: value for key, value in made["spec"].items() if key not in ("affinity", "nodeSelector")}
    return made


def special(node: NodeSpec) -> list[JSON]:
    """Pods that ask for what is rarer: a node by its name, a disk that another has, and a place away from a pod that
    wants none of them near. The first two are there already."""
    by_name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node.name]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [by_name]}}}
    disk = [{"name": "d", "gcePersistentDisk": {"pdName": "one"}}]
    rule = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "loud"}}}
    alone = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}}
    loud = manifest("loud")
    loud["metadata"]["labels"] = {"app": "loud"}
    return [
        manifest("has-disk", volumes=disk, nodeName=node.name),
        manifest("quiet", affinity=alone, nodeName=node.name),
        manifest("by-name", affinity=affinity),
        manifest("wants-disk", volumes=disk),
        loud,
    ]


TOO_MUCH = {
    "cpu": manifest("too-much-cpu", "9", "64Mi"),
    "memory": manifest("too-much-memory", "100m", "17Gi"),
}


async def test_200_pods_are_bound_with_every_filter_and_explained(kube: Kube, namespace: str, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    specs = nodes(namespace)
    policies = {"batch": POLICY.format(namespace=namespace)}
    async with kube.nodes.having(*specs):
        await kube.client.patch(f"/api/v1/nodes/{specs[0].name}", {"spec": {"unschedulable": True}})
        await kube.nodes.set_ready(specs[1].name, False)
        # As in the moment before the taint of a node that is not ready has come.
        await kube.client.patch(f"/api/v1/nodes/{specs[1].name}", {"spec": {"taints": None}})
        more = special(specs[7])
        await create(kube, namespace, *more)
        async with running(tmp_path / "daemon", kube.plane.kubeconfig("admin"), namespace, policies) as daemon:
            await create(kube, namespace, *[pod(number, chance) for number in range(PENDING)])

            async def all_bound() -> list[JSON]:
                found = await kube.client.list(PODS.format(namespace), fieldSelector="spec.nodeName!=")
                return found if len(found) == PENDING + len(more) else []

            bound = await wait_until(all_bound, what="200 pods are bound", within=90, every=0.5)
            await create(kube, namespace, *TOO_MUCH.values())
            refusals: Counter[str] = Counter()

            async def all_told() -> bool:
                refusals.clear()
                names = [f"p{number:03d}" for number in range(PENDING)]
                for name in (*names, "too-much-cpu", "too-much-memory", "wants-disk", "loud", "by-name"):
                    refusals.update(told(daemon.folder / "state", namespace, name))
                return all(any(said.startswith(reason) for said in refusals) for reason in REASONS)

            await wait_until(all_told, what=f"each filter has refused a node; {refusals}", within=30, every=1)
            check([one for one in bound if one["metadata"]["name"].startswith("p")], specs)
            places = {one["metadata"]["name"]: one["spec"]["nodeName"] for one in bound}
            assert places["by-name"] == specs[7].name
            assert specs[7].name not in (places["wants-disk"], places["loud"])
            waits = daemon.elasticd("explain", "pod", f"{namespace}/too-much-cpu")
            assert "0/12 nodes are available" in waits
            assert "Insufficient cpu" in waits
            placed = daemon.elasticd("explain", "pod", f"{namespace}/p000")
            assert "least-requested" in placed
            assert "bind to" in placed
            shown = daemon.elasticd("nodes")
            assert len(shown.splitlines()) == 15  # the pool, two lines of heads, twelve nodes
            assert "cordoned" in shown
            assert "not ready" in shown
            metrics = (await daemon.page("/metrics"))[1]
            assert (
                f'elasticd_pod_actions_total{{action="bind",policy="batch",reason="",result="done"}} {PENDING + 3}.0'
                in metrics
            )


def told(state: Path, namespace: str, name: str) -> list[str]:
    """Why nodes were refused for a pod, by its decisions in the journal."""
    found: list[str] = []
    for path in state.glob("journal-*.jsonl"):
        for line in path.read_text().splitlines():
            if '"type":"placing"' in line and f'"name":"{name}"' in line:
                record = json.loads(line)
                if record["pod"]["namespace"] == namespace:
                    found += record.get("refusals", {})
    return found


def check(bound: list[JSON], specs: list[NodeSpec]) -> None:
    """Every pod is where it may be, as kube-scheduler would see it."""
    by_name = {spec.name: spec for spec in specs}
    ports: Counter[str] = Counter()
    counts = Counter(pod["spec"]["nodeName"] for pod in bound)
    assert counts.keys() <= {spec.name for spec in specs[2:]}
    assert all(count <= by_name[name].pods for name, count in counts.items())
    for one in bound:
        spec, node = one["spec"], by_name[one["spec"]["nodeName"]]
        assert all(node.labels.get(key) == value for key, value in spec.get("nodeSelector", {}).items())
        if node.taints:
            assert any(toleration.get("key") == TAINT for toleration in spec["tolerations"])
        (container,) = spec["containers"]
        ports[node.name] += any(port.get("hostPort") for port in container.get("ports", ()))
        if "elasticd.test/widget" in container["resources"]["requests"]:
            assert node.extended
    assert max(ports.values()) <= 1
