"""What a pod asks of its node, from the wire to the model: what counts, and what is told of the rest."""

from typing import Any

import msgspec
import pytest

from elasticd.cluster.kubernetes.wire import convert
from elasticd.cluster.kubernetes.wire.convert import to_pod
from elasticd.cluster.kubernetes.wire.objects import Codec, WirePod
from elasticd.model.pod_spec import (
    Disk,
    Expression,
    Needs,
    NodePreference,
    PodClaim,
    PodPreference,
    PodTerm,
    Port,
    Term,
    Toleration,
    TopologySpread,
)
from elasticd.model.workload import Node, Pod, Room
from tests.kit.resized_pods import RESIZED, container, held


def pod_of(meta: dict[str, Any] | None = None, **spec: Any) -> Pod:
    """A pod of this spec."""
    wire = {"metadata": {"name": "p", "namespace": "shop", "uid": "u", **(meta or {})}, "spec": spec}
    return to_pod(msgspec.json.decode(msgspec.json.encode(wire), type=WirePod))


def volume(**kind: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "v", **kind}]}


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def nodes(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def pods(kind: str, *terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {kind: {REQUIRED: list(terms)}}}


APART = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "labelSelector": {}}


def spread(**fields: Any) -> dict[str, Any]:
    return {"topologySpreadConstraints": [{**SPREAD, "whenUnsatisfiable": "DoNotSchedule", **fields}]}


SPREADS = {**SPREAD, "whenUnsatisfiable": "DoNotSchedule"}
RULE = {"key": "disk", "operator": "In", "values": ["ssd", "nvme"]}
RESTARTS = {
    "containers": [{"name": "c", "restartPolicyRules": [{"action": "Restart"}]}],
    "initContainers": [{"name": "i", "restartPolicyRules": [{"action": "RestartAllContainers"}]}],
}
NAME = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
WEB = Expression("app", "In", ("web",))
HOST = "kubernetes.io/hostname"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, {}, id="nothing"),
        pytest.param({"schedulerName": "elasticd"}, {"scheduler": "elasticd"}, id="scheduler"),
        pytest.param({"restartPolicy": "OnFailure"}, {"restart": "OnFailure"}, id="restart policy"),
        pytest.param({"restartPolicy": "Sometimes"}, {"restart": "Always"}, id="restart policy of a later Kubernetes"),
        pytest.param(
            {"priority": 1000, "priorityClassName": "high", "preemptionPolicy": "PreemptLowerPriority"},
            {"priority": 1000, "priority_class": "high"},
            id="priority",
        ),
        pytest.param({"preemptionPolicy": "Never"}, {"preempts": False}, id="does not preempt"),
        pytest.param({"terminationGracePeriodSeconds": 0}, {"grace": 0.0}, id="no grace"),
        pytest.param({"terminationGracePeriodSeconds": 3600}, {"grace": 3600.0}, id="a long grace"),
        pytest.param({"nodeSelector": {"zone": "a"}}, {"selector": {"zone": "a"}}, id="node selector"),
        pytest.param({"nodeSelector": None, "tolerations": None, "volumes": None, "affinity": None}, {}, id="nulls"),
        pytest.param(
            nodes({"matchExpressions": [RULE]}, {"matchFields": [NAME]}),
            {
                "affinity": (
                    Term((Expression("disk", "In", ("ssd", "nvme")),)),
                    Term(fields=(Expression("metadata.name", "In", ("n1",)),)),
                )
            },
            id="required node affinity",
        ),
        pytest.param(nodes(), {"affinity": ()}, id="required terms of which none can hold"),
        pytest.param(
            {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 7, "preference": {"matchExpressions": [RULE]}}]}}},
            {"prefers_nodes": (NodePreference(Term((Expression("disk", "In", ("ssd", "nvme")),)), 7),)},
            id="preferred node affinity",
        ),
        pytest.param(
            pods("podAffinity", APART), {"attracts": (PodTerm(HOST, (WEB,)),)}, id="required affinity to pods"
        ),
        pytest.param(
            {
                "affinity": {
                    "podAffinity": {PREFERRED: [{"weight": 3, "podAffinityTerm": APART}]},
                    "podAntiAffinity": {PREFERRED: [{"weight": 5, "podAffinityTerm": APART}]},
                }
            },
            {"prefers": (PodPreference(PodTerm(HOST, (WEB,)), 3), PodPreference(PodTerm(HOST, (WEB,)), -5))},
            id="preferred affinity and anti-affinity to pods",
        ),
        pytest.param(
            spread(maxSkew=2), {"spread": (TopologySpread("zone", 2, ()),)}, id="topology spread with its defaults"
        ),
        pytest.param(
            spread(
                whenUnsatisfiable="ScheduleAnyway",
                minDomains=3,
                matchLabelKeys=["hash"],
                nodeAffinityPolicy="Ignore",
                nodeTaintsPolicy="Honor",
                labelSelector=APART["labelSelector"],
            ),
            {"spread": (TopologySpread("zone", 1, (WEB,), False, 3, ("hash",), False, True),)},
            id="topology spread with all it can have",
        ),
        pytest.param(
            {"containers": [{"name": "a", "image": "x"}], "initContainers": [{"name": "b", "image": "y"}]},
            {"images": ("x", "y")},
            id="images",
        ),
        pytest.param(
            {"tolerations": [{"operator": "Exists"}, {"key": "gpu", "value": "a", "effect": "NoSchedule"}]},
            {"tolerations": (Toleration(operator="Exists"), Toleration("gpu", "Equal", "a", "NoSchedule"))},
            id="tolerations",
        ),
        pytest.param(
            {"tolerations": [{"key": "old", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 12}]},
            {"tolerations": (Toleration("old", "Exists", "", "NoExecute", 12.0),)},
            id="toleration for a time",
        ),
        pytest.param(
            {"tolerations": [{"key": "level", "operator": "Gt", "value": "5"}]}, {}, id="toleration nobody here knows"
        ),
        pytest.param({"schedulingGates": [{"name": "g"}]}, {"gated": True}, id="scheduling gate"),
        pytest.param({"schedulingGates": []}, {}, id="no scheduling gate left"),
        pytest.param(volume(emptyDir={"medium": "Memory"}), {"local": True}, id="empty folder"),
        pytest.param(volume(hostPath={"path": "/x"}), {"local": True}, id="folder of the node"),
        pytest.param(volume(gitRepo={"repository": "x"}), {"local": True}, id="a folder with a repository"),
        pytest.param(
            volume(ephemeral={"volumeClaimTemplate": {}}), {"local": True, "claims": True}, id="goes with its pod"
        ),
        pytest.param(volume(configMap={"name": "x"}), {}, id="a volume that does not matter"),
        pytest.param(volume(csi={"driver": "lvm.example.com"}), {"local": True}, id="inline CSI volume"),
        pytest.param(
            volume(csi={"driver": "lvm.example.com", "readOnly": False}),
            {"local": True},
            id="writable inline CSI volume",
        ),
        pytest.param(
            volume(csi={"driver": "secrets-store.csi.k8s.io", "readOnly": True}), {}, id="inline CSI volume to read"
        ),
        pytest.param(
            volume(gcePersistentDisk={"pdName": "d", "readOnly": True}),
            {"disks": (Disk("GCE disk", "d", read_only=True, shareable=True),)},
            id="GCE disk",
        ),
        pytest.param(
            volume(awsElasticBlockStore={"volumeID": "d", "readOnly": True}),
            {"disks": (Disk("AWS disk", "d", read_only=True),)},
            id="AWS disk",
        ),
        pytest.param(
            volume(iscsi={"iqn": "d", "targetPortal": "x"}),
            {"disks": (Disk("iSCSI disk", "d", shareable=True),)},
            id="iSCSI disk",
        ),
        pytest.param(
            volume(rbd={"monitors": ["a", "b"], "image": "i"}),
            {"disks": (Disk("RBD image", "a/rbd/i", shareable=True), Disk("RBD image", "b/rbd/i", shareable=True))},
            id="RBD image, by each monitor",
        ),
        *(
            pytest.param(volume(**{field: {}}), {"disks": (Disk(kind, "v", read_only=True, shareable=True),)}, id=kind)
            for field, kind in (
                ("fc", "Fibre Channel disk"),
                ("flexVolume", "FlexVolume"),
                ("vsphereVolume", "vSphere disk"),
                ("portworxVolume", "Portworx volume"),
                ("photonPersistentDisk", "Photon disk"),
                ("scaleIO", "ScaleIO volume"),
                ("storageos", "StorageOS volume"),
            )
        ),
    ],
)
def test_what_a_pod_needs(spec: dict[str, Any], expected: dict[str, Any]) -> None:
    assert pod_of(**spec).needs == Needs(**expected)


@pytest.mark.parametrize(
    ("spec", "unsupported"),
    [
        pytest.param(
            spread(whenUnsatisfiable="Perhaps"), ("values of its topology spread constraints",), id="a kind of spread"
        ),
        pytest.param(
            spread(nodeTaintsPolicy="Mind"), ("values of its topology spread constraints",), id="a policy of spread"
        ),
        pytest.param(
            pods("podAffinity", {**APART, "labelSelector": {"matchExpressions": [{**RULE, "operator": "Near"}]}}),
            ("operators of its label selectors",),
            id="an operator of a selector",
        ),
        pytest.param(
            nodes({"matchExpressions": [{**RULE, "operator": "Near"}]}),
            ("operators of its node affinity",),
            id="an operator of a later Kubernetes",
        ),
        pytest.param({"topologySpreadConstraints": 64 * [SPREADS]}, (), id="many constraints"),
        pytest.param(
            {"topologySpreadConstraints": 65 * [SPREADS]},
            ("more than 64 topology spread constraints",),
            id="so many that they would take minutes",
        ),
        pytest.param({"resourceClaims": [{"name": "gpu"}]}, ("resource claims",), id="resource claims"),
        pytest.param(volume(azureDisk={}), ("volumes of a limited number",), id="volume with an attach limit"),
        pytest.param({"workloadRef": {"name": "g"}}, ("groups of pods that start together",), id="gang of 1.35"),
        pytest.param({"schedulingGroup": {"podGroupName": "g"}}, ("groups of pods that start together",), id="gang"),
        pytest.param(RESTARTS, ("features that nodes declare",), id="a container that restarts all"),
        pytest.param(
            {"hostNetwork": True, "hostUsers": False}, ("features that nodes declare",), id="users of its own on a host"
        ),
        pytest.param({"hostNetwork": True}, (), id="a host's network"),
        pytest.param(
            {"resourceClaims": [{"name": "gpu"}], **volume(cinder={})},
            ("resource claims", "volumes of a limited number"),
            id="several",
        ),
    ],
)
def test_what_elasticd_does_not_know_is_reported_in_words(spec: dict[str, Any], unsupported: tuple[str, ...]) -> None:
    assert pod_of(**spec).needs.unsupported == unsupported


@pytest.mark.parametrize(
    ("volumes", "claims"),
    [
        pytest.param([{"name": "v", "emptyDir": {}}], (), id="none"),
        pytest.param([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}], (PodClaim("c"),), id="one"),
        pytest.param([{"name": "v", "ephemeral": {}}], (PodClaim("p-v", own=True),), id="of an ephemeral volume"),
        pytest.param(
            [
                {"name": "v", "persistentVolumeClaim": {"claimName": "c"}},
                {"name": "w", "persistentVolumeClaim": {"claimName": "c"}},
                {"name": "x", "persistentVolumeClaim": {"claimName": "d"}},
            ],
            (PodClaim("c"), PodClaim("d")),
            id="one of them twice",
        ),
    ],
)
def test_claims_of_a_pod_are_told_once_each(volumes: list[Any], claims: tuple[PodClaim, ...]) -> None:
    found = pod_of(volumes=volumes)
    assert (found.volume_claims, found.needs.claims) == (claims, bool(claims))


def test_pods_with_claims_of_their_own_share_a_record() -> None:
    first, second = (pod_of(**volume(persistentVolumeClaim={"claimName": f"data-{index}"})) for index in range(2))
    assert first.needs is second.needs
    assert (first.volume_claims, second.volume_claims) == ((PodClaim("data-0"),), (PodClaim("data-1"),))


@pytest.mark.parametrize(
    ("spec", "requests"),
    [
        pytest.param({"containers": [container(cpu="100m"), container("b", cpu="1")]}, {"cpu": 1.1}, id="the sum"),
        pytest.param(
            {"containers": [container(cpu="1")], "initContainers": [container("i", cpu="3", memory="1Gi")]},
            {"cpu": 3.0, "memory": 2.0**30},
            id="an init container that takes more",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1")],
                "initContainers": [
                    {**container("s", cpu="500m"), "restartPolicy": "Always"},
                    container("i", cpu="2"),
                ],
            },
            {"cpu": 2.5},
            id="a sidecar beside an init container",
        ),
        pytest.param({"containers": [container(cpu="1")], "overhead": {"cpu": "250m"}}, {"cpu": 1.25}, id="overhead"),
        pytest.param(
            {"containers": [container(cpu="1", memory="1Gi")], "resources": {"requests": {"cpu": "4"}}},
            {"cpu": 4.0, "memory": 2.0**30},
            id="the pod as a whole",
        ),
        pytest.param({"containers": [container(cpu="much", memory="5")]}, {"memory": 5.0}, id="no quantity"),
        pytest.param({"containers": [{"name": "bare"}]}, {}, id="says nothing"),
    ],
)
def test_requests_are_counted_as_a_scheduler_does(spec: dict[str, Any], requests: dict[str, float]) -> None:
    pod = pod_of(**spec)
    assert pod.needs.requests == pytest.approx(requests)
    assert pod.counted == pytest.approx(requests)


@pytest.mark.parametrize(
    ("spec", "overall"),
    [
        pytest.param({"overhead": {"cpu": "250m"}}, {}, id="of the containers alone there is none"),
        pytest.param({"resources": {"requests": {"memory": "4"}}, "overhead": {"cpu": "250m", "memory": "1"}},
                     {"cpu": 1.25, "memory": 5.0}, id="once any is set, all with overhead"),
        pytest.param({"resources": {"requests": {"cpu": "3"}}}, {"cpu": 3.0}, id="it wins over the containers"),
    ],
)  # fmt: skip
def test_pod_level_requests_are_reported_as_a_whole(spec: dict[str, Any], overall: dict[str, float]) -> None:
    pod = pod_of(containers=[container(cpu="1")], **spec)
    assert pod.overall == overall


@pytest.mark.parametrize(("spec", "status", "cpu"), RESIZED)
def test_a_resized_pod_counts_as_kube_scheduler_counts_it(
    spec: dict[str, Any], status: dict[str, Any], cpu: float
) -> None:
    wire = {"metadata": {"name": "p", "namespace": "shop", "uid": "u"}, "status": status}
    wire["spec"] = {"nodeName": "n", "containers": [container(cpu="1")], **spec}
    pod = to_pod(msgspec.json.decode(msgspec.json.encode(wire), type=WirePod))
    assert pod.counted == pytest.approx({"cpu": cpu})
    node = Node("n", "u", ready=True, allocatable={"cpu": 10.0})
    assert Room.of(node, [pod]).free == pytest.approx({"cpu": 10 - cpu})


def test_pods_whose_kubelets_report_the_requested_resources_share_one_record() -> None:
    def told(name: str) -> Pod:
        status = {"containerStatuses": [held()], "podIP": name}
        wire = {"metadata": {"name": name, "uid": name}, "spec": {"containers": [container(cpu="1")]}, "status": status}
        return to_pod(msgspec.json.decode(msgspec.json.encode(wire), type=WirePod))

    assert told("a").needs is told("b").needs


def test_host_ports_are_read_from_containers_and_sidecars() -> None:
    def with_ports(name: str, *ports: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {"name": name, "ports": list(ports), **more}

    http, dns = {"containerPort": 80, "hostPort": 8080}, {"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}
    found = pod_of(
        containers=[with_ports("a", http, {"containerPort": 90}), with_ports("b", dns)],
        initContainers=[
            with_ports("once", {"hostPort": 1}),
            with_ports("mesh", {"hostPort": 15}, restartPolicy="Always"),
        ],
    )
    assert found.needs.ports == (Port(8080), Port(53, "UDP", "10.0.0.1"), Port(15))


@pytest.mark.parametrize(
    ("term", "repel"),
    [
        pytest.param(APART, PodTerm(HOST, (WEB,)), id="its own namespace"),
        pytest.param({**APART, "namespaces": ["a", "b"]}, PodTerm(HOST, (WEB,), ("a", "b")), id="named namespaces"),
        pytest.param({**APART, "namespaceSelector": {}}, PodTerm(HOST, (WEB,), None), id="all namespaces"),
        pytest.param(
            {**APART, "namespaceSelector": {"matchLabels": {"a": "b"}}, "namespaces": ["c"]},
            PodTerm(HOST, (WEB,), ("c",), (Expression("a", "In", ("b",)),)),
            id="namespaces by name and by labels",
        ),
        pytest.param({"topologyKey": "zone"}, PodTerm("zone", None), id="selects none"),
        pytest.param({"topologyKey": "zone", "labelSelector": {}}, PodTerm("zone", ()), id="selects all"),
        pytest.param(
            {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}},
            PodTerm("zone", (Expression("app", "Exists"),)),
            id="by expression",
        ),
    ],
)
def test_pods_that_a_pod_keeps_away_are_known(term: dict[str, Any], repel: PodTerm) -> None:
    assert pod_of(**pods("podAntiAffinity", term)).needs.repels == (repel,)


DAEMON = {"ownerReferences": [{"kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}]}


def test_daemon_set_pods_on_their_nodes_share_one_record() -> None:
    def own(node: str, **more: Any) -> Pod:
        return pod_of(DAEMON, **nodes({"matchFields": [{**NAME, "values": [node]}]}), **more)

    assert own("n1", nodeName="n1").needs is own("n2", nodeName="n2").needs
    assert own("n1", nodeName="n1").needs.affinity is None
    pending = own("n1").needs.affinity
    assert pending == (Term(fields=(Expression("metadata.name", "In", ("n1",)),)),)


def test_random_name_of_a_token_volume_makes_no_new_record() -> None:
    def with_token(suffix: str) -> Needs:
        return pod_of(volumes=[{"name": f"kube-api-access-{suffix}", "projected": {"sources": []}}]).needs

    assert with_token("x7k2p") is with_token("q9z4m")


PORT = [{"containerPort": 80}]
PLAIN: dict[str, Any] = {
    "containers": [{**container("a", cpu="1"), "ports": PORT}],
    "initContainers": [container("b", cpu="2")],
}
# Each differs from all others, some only in where the same parts stand.
OTHERS: list[dict[str, Any]] = [
    {"containers": [{**container("c", cpu="1"), "ports": PORT}]},
    {"containers": [{**container("a", cpu="3"), "ports": PORT}]},
    {"containers": [container("a", cpu="1")]},
    {"containers": [{**container("a", cpu="1"), "ports": [{"hostPort": 80}]}]},
    {"containers": PLAIN["initContainers"], "initContainers": PLAIN["containers"]},
    {"containers": [*PLAIN["containers"], *PLAIN["initContainers"]], "initContainers": None},
    {"initContainers": None},
    {"initContainers": [{**container("b", cpu="2"), "restartPolicy": "Always"}]},
    {"nodeSelector": {"a": "b"}},
    {"tolerations": [{"key": "a", "operator": "Exists"}]},
    {"resources": {"requests": {"cpu": "9"}}},
    {"overhead": {"cpu": "1"}},
    {"topologySpreadConstraints": [{**SPREAD, "whenUnsatisfiable": "DoNotSchedule"}]},
    {"resourceClaims": [{"name": "gpu"}]},
    {"schedulingGates": [{"name": "g"}]},
    {"workloadRef": {"name": "g"}},
    nodes({"matchExpressions": [RULE]}),
    pods("podAffinity", APART),
    pods("podAntiAffinity", APART),
    volume(emptyDir={}),
    volume(persistentVolumeClaim={"claimName": "c"}),
    {"schedulerName": "elasticd"},
    {"restartPolicy": "Never"},
    {"priority": 1},
    {"priorityClassName": "high"},
    {"preemptionPolicy": "Never"},
    {"terminationGracePeriodSeconds": 0},
]


def test_pods_share_a_record_only_where_all_needs_are_equal() -> None:
    specs = [PLAIN, *[{**PLAIN, **one} for one in OTHERS]]
    found = [pod_of(**spec) for spec in specs]
    again = [pod_of(**spec, nodeName="n1", hostname=f"h{index}") for index, spec in enumerate(specs)]
    assert len({id(one.needs) for one in found}) == len(specs)
    assert [one.needs for one in again] == [one.needs for one in found]
    assert all(one.needs is two.needs for one, two in zip(found, again, strict=True))


def test_templates_are_let_go_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert, "MOST", 3)
    first = [pod_of(priority=number).needs for number in range(9)]
    assert [needs.priority for needs in first] == list(range(9))
    again = [pod_of(priority=number).needs for number in reversed(range(9))][::-1]
    assert again == first
    assert sum(needs is kept for needs, kept in zip(again, first, strict=True)) <= 3


def test_pod_whose_requests_are_unreadable_costs_only_itself() -> None:
    bad = {"metadata": {"name": "bad", "namespace": "shop"}, "spec": {"containers": [{"name": "a", "resources": 3}]}}
    good = {"metadata": {"name": "good", "namespace": "shop"}, "spec": {}}
    body = msgspec.json.encode({"kind": "PodList", "metadata": {"resourceVersion": "4"}, "items": [bad, good]})
    _, found, faults = Codec(WirePod, to_pod).page(body)
    assert ([one.name for one in found], [meta.name for meta, _ in faults]) == (["good"], ["bad"])
