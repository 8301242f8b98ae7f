"""From the wire to the model: which fields count and what their absence means."""

from typing import Any

import msgspec
import pytest

from elasticd.cluster.kubernetes.wire.convert import scaled_workload, to_node, to_pod, to_workload
from elasticd.cluster.kubernetes.wire.objects import Codec, Metadata, WireNode, WirePod, WireScale, WireWorkload
from elasticd.decision.workload.zero import REVISION, ZERO
from elasticd.kit.evictability import AUTOSCALER, KARPENTER
from elasticd.kit.handover import FENCE
from elasticd.kit.surge import SURGE
from elasticd.model.pod_spec import Needs, Taint
from elasticd.model.workload import Container, Node, Pod, Ref, Resized, Workload

CPU = {"requests": {"cpu": "250m", "memory": "1Gi"}, "limits": {"cpu": "9"}}
FULL: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web-1",
        "namespace": "shop",
        "uid": "u1",
        "resourceVersion": "5",
        "labels": {"app": "web"},
        "creationTimestamp": "1970-01-01T00:00:01Z",
        "managedFields": [{"manager": "x"}],
    },
    "spec": {
        "nodeName": "n1",
        "containers": [{"name": "main", "image": "i", "resources": CPU}, {"name": "bare"}],
        "initContainers": [
            {"name": "once", "resources": CPU},
            {"name": "mesh", "restartPolicy": "Always", "resources": {"requests": {"cpu": "50m"}}},
        ],
        "futureField": {"deep": [1, 2]},
    },
    "status": {
        "phase": "Running",
        "startTime": "1970-01-01T00:01:40Z",
        "conditions": [
            {"type": "Initialized", "status": "True", "lastTransitionTime": None},
            {"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:02:00Z"},
        ],
    },
}


def wire_pod(**changes: Any) -> WirePod:
    """A full pod with other parts, as it is read."""
    return msgspec.json.decode(msgspec.json.encode({**FULL, **changes}), type=WirePod)


def pod_of(**changes: Any) -> Pod:
    """The same in the model."""
    return to_pod(wire_pod(**changes))


def test_full_pod_keeps_what_judgement_needs() -> None:
    assert pod_of() == Pod(
        namespace="shop",
        name="web-1",
        uid="u1",
        phase="Running",
        node="n1",
        labels={"app": "web"},
        containers=(
            Container("main", {"cpu": 0.25, "memory": 2**30}, limits={"cpu": 9.0}),
            Container("bare"),
            Container("mesh", {"cpu": 0.05}, sidecar=True),
        ),
        started=100.0,
        ready=True,
        ready_changed=120.0,
        created=1.0,
        needs=Needs(requests={"cpu": 0.3, "memory": 2.0**30}, images=("i",)),
    )


def test_what_restarts_a_container_is_known() -> None:
    policies = [
        {"resourceName": "cpu", "restartPolicy": "NotRequired"},
        {"resourceName": "memory", "restartPolicy": "RestartContainer"},
    ]
    plain, restarting = ({"name": "main", "resources": CPU, **more} for more in ({}, {"resizePolicy": policies}))
    told = [pod_of(spec={"nodeName": "n1", "containers": [one]}).containers[0] for one in (plain, restarting)]
    assert [one.restarting for one in told] == [(), ("memory",)]


def test_no_field_of_a_pod_takes_another_s_place() -> None:
    """They are given by their order: each field has a value here that no other has."""
    meta = {
        **FULL["metadata"],
        "deletionTimestamp": "1970-01-01T00:00:09Z",
        "annotations": {"elasticd.io/a": "b", "kubernetes.io/config.mirror": "hash"},
        "ownerReferences": [CONTROLLER],
    }
    status = {
        "phase": "Failed",
        "startTime": "1970-01-01T00:01:40Z",
        "podIP": "10.0.0.7",
        "nominatedNodeName": "n7",
        "conditions": [
            {"type": "Ready", "status": "False", "lastTransitionTime": "1970-01-01T00:02:00Z"},
            {**UNBOUND, "lastTransitionTime": "1970-01-01T00:00:30Z"},
            {"type": "PodResizePending", "status": "True", "reason": "Infeasible"},
        ],
        "containerStatuses": [{"name": "main", "lastState": KILLED}],
    }
    spec = {"containers": [{"name": "main"}], "resources": {"requests": {"cpu": "2"}}}
    assert pod_of(metadata=meta, spec=spec, status=status) == Pod(
        namespace="shop",
        name="web-1",
        uid="u1",
        phase="Failed",
        node="",
        labels={"app": "web"},
        containers=(Container("main"),),
        requests={"cpu": 2.0},
        started=100.0,
        ready=False,
        ready_changed=120.0,
        deleted=True,
        address="10.0.0.7",
        annotations={"elasticd.io/a": "b"},
        waits=30.0,
        resize="Infeasible",
        killed={"main": 180.0},
        created=1.0,
        needs=Needs(requests={"cpu": 2.0}),
        owner=("ReplicaSet", "web-1", "r"),
        nominated="n7",
        static=True,
        overall={"cpu": 2.0},
    )


def test_pod_level_requests_are_kept_beside_those_of_the_containers() -> None:
    pod = pod_of(spec={"containers": [{"name": "main"}], "resources": {"requests": {"cpu": "2"}}})
    assert pod.requests == {"cpu": 2.0}


def test_pod_being_deleted_is_marked() -> None:
    assert pod_of(metadata={**FULL["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}).deleted


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        pytest.param(None, None, id="no conditions"),
        pytest.param([{"type": "PodScheduled", "status": "True"}], None, id="no Ready condition"),
        pytest.param([{"type": "Ready", "status": "False"}], False, id="false"),
        pytest.param([{"type": "Ready", "status": "Unknown"}], False, id="unknown is not ready"),  # see to_pod
        pytest.param([{"type": "Ready", "status": "True"}], True, id="true"),
    ],
)
def test_readiness_has_three_values(conditions: list[dict[str, str]] | None, ready: bool | None) -> None:
    assert pod_of(status={"phase": "Pending", "conditions": conditions}).ready is ready


def test_pod_times_are_moved_to_the_daemon_clock_unless_missing() -> None:
    full = to_pod(wire_pod(), 3600.0)
    assert (full.started, full.ready_changed, full.created) == (3700.0, 3720.0, 3601.0)
    bare = to_pod(wire_pod(status={}, metadata={"name": "bare"}), 3600.0)
    assert (bare.started, bare.ready_changed, bare.created) == (None, 0.0, 0.0)


UNBOUND: dict[str, Any] = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
SINCE = {"lastTransitionTime": "1970-01-01T00:02:00Z"}


@pytest.mark.parametrize(
    ("condition", "node", "waits"),
    [
        pytest.param(UNBOUND | SINCE, "", 130.0, id="no node takes it"),
        pytest.param(UNBOUND, "", None, id="nobody says since when"),
        pytest.param(UNBOUND | SINCE | {"reason": "SchedulingGated"}, "", None, id="held back: no node was tried"),
        pytest.param({"type": "Ready", "status": "False", **SINCE}, "", None, id="not yet tried"),
        pytest.param(UNBOUND | SINCE, "n1", None, id="it has one"),
        pytest.param({"type": "PodScheduled", "status": "True", **SINCE}, "n1", None, id="and says so"),
    ],
)
def test_since_when_a_pod_waits_for_a_node(condition: dict[str, Any], node: str, waits: float | None) -> None:
    found = wire_pod(spec={"nodeName": node}, status={"phase": "Pending", "conditions": [condition]})
    assert to_pod(found, 10.0).waits == waits


def test_bare_pod_has_no_start_and_no_containers() -> None:
    pod = pod_of(spec={}, status={})
    assert (pod.started, pod.containers, pod.phase, pod.node) == (None, (), "", "")


def test_request_that_is_no_quantity_is_missing_and_not_zero() -> None:
    pod = pod_of(spec={"containers": [{"name": "main", "resources": {"requests": {"cpu": "much", "memory": 5}}}]})
    assert pod.containers[0].requests == {"memory": 5.0}


def test_equal_pods_share_their_labels_and_containers() -> None:
    one, two = pod_of(), pod_of(metadata={**FULL["metadata"], "name": "web-2"})
    assert one.labels is two.labels
    assert one.containers is two.containers
    assert one.needs is two.needs


CONTROLLER = {"kind": "ReplicaSet", "name": "web-1", "uid": "r", "controller": True, "apiVersion": "apps/v1"}


def other(part: str, value: Any, *others: Any) -> Any:
    """A row: what is instead in the metadata of the second pod."""
    return pytest.param({part: value}, id=" ".join([part, *others]))


@pytest.mark.parametrize(
    "meta",
    [
        other("labels", {"app": "api"}),
        other("labels", None, "null"),
        other("labels", {}, "empty"),
        other("labels", {"app": "web", "tier": "1"}, "one more"),
        other("ownerReferences", [{**CONTROLLER, "name": "web-2", "uid": "s"}]),
        other("ownerReferences", None, "null"),
        other("ownerReferences", [], "empty"),
    ],
)
def test_labels_and_owner_come_from_the_pod_itself(meta: dict[str, Any]) -> None:
    owned = {**FULL["metadata"], "ownerReferences": [CONTROLLER]}
    before, found = pod_of(metadata=owned), pod_of(metadata={**owned, **meta})
    assert (before.labels, before.owner) == ({"app": "web"}, ("ReplicaSet", "web-1", "r"))
    told = {**owned, **meta}
    owner = next((("ReplicaSet", one["name"], one["uid"]) for one in told["ownerReferences"] or ()), ("", "", ""))
    assert (found.labels, found.owner) == (told["labels"] or {}, owner)


@pytest.mark.parametrize(
    ("owners", "owner"),
    [
        pytest.param(None, ("", "", ""), id="none"),
        pytest.param([{**CONTROLLER, "controller": False}], ("", "", ""), id="no controller"),
        pytest.param(
            [{**CONTROLLER, "controller": None, "uid": "q"}, CONTROLLER], ("ReplicaSet", "web-1", "r"), id="one"
        ),
        pytest.param(
            [{**CONTROLLER, "apiVersion": "example.com/v1"}],
            ("example.com/v1/ReplicaSet", "web-1", "r"),
            id="a ReplicaSet of another group",
        ),
    ],
)
def test_owner_of_a_pod_is_its_controller(owners: Any, owner: tuple[str, str, str]) -> None:
    assert pod_of(metadata={**FULL["metadata"], "ownerReferences": owners}).owner == owner


def test_the_pods_that_own_a_pod_are_read() -> None:
    driver = {"apiVersion": "v1", "kind": "Pod", "name": "driver", "uid": "d"}
    others = [CONTROLLER, {**driver, "apiVersion": "example.com/v1"}, {**driver, "kind": "ConfigMap"}]
    owners = [driver, *others, {**driver, "name": "agent", "uid": "a", "controller": True}]
    pod = pod_of(metadata={**FULL["metadata"], "ownerReferences": owners})
    assert (pod.owner_pods, pod.owns) == ((("driver", "d"), ("agent", "a")), False)
    assert pod_of().owner_pods == ()


def test_annotations_that_ask_to_be_left_alone_are_read() -> None:
    annotations = {AUTOSCALER: "false", KARPENTER: "true", "elasticd.io/a": "b"}
    wire = {**FULL["metadata"], "annotations": {**annotations, "c": "d"}}
    assert pod_of(metadata=wire).annotations == annotations


def test_mirror_pod_is_static_and_its_nominated_node_is_read() -> None:
    meta = {**FULL["metadata"], "annotations": {"kubernetes.io/config.mirror": "hash", "elasticd.io/a": "b"}}
    pod = pod_of(metadata=meta, status={"phase": "Pending", "nominatedNodeName": "n7"})
    assert (pod.static, pod.nominated, pod.annotations) == (True, "n7", {"elasticd.io/a": "b"})
    assert not pod_of().static


def test_node_keeps_what_placement_needs() -> None:
    wire = {
        "metadata": {
            "name": "n1",
            "uid": "u",
            "labels": {"zone": "a"},
            "annotations": {"elasticd.io/a": "b", "c": "d"},
        },
        "spec": {
            "unschedulable": True,
            "taints": [{"key": "gpu", "value": "a", "effect": "NoSchedule"}, {"key": "x", "effect": "NoExecute"}],
        },
        "status": {
            "allocatable": {"cpu": "3920m", "memory": "16Gi", "pods": "110"},
            "capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    node = to_node(msgspec.convert(wire, WireNode))
    amounts = {"cpu": 3.92, "memory": 2.0**34, "pods": 110.0}
    assert node == Node(
        "n1",
        "u",
        ready=True,
        unschedulable=True,
        labels={"zone": "a"},
        allocatable=amounts,
        taints=(Taint("gpu", "NoSchedule", "a"), Taint("x", "NoExecute")),
        annotations={"elasticd.io/a": "b"},
        capacity={"cpu": 4.0, "memory": 2.0**34},
    )


def test_a_node_that_is_being_deleted_counts_as_cordoned() -> None:
    meta = {"name": "n", "deletionTimestamp": "2026-11-26T09:51:19Z", "finalizers": ["karpenter.sh/termination"]}
    assert to_node(msgspec.convert({"metadata": meta}, WireNode)).unschedulable


def test_node_without_conditions_is_not_ready() -> None:
    assert not to_node(msgspec.convert({"metadata": {"name": "n"}}, WireNode)).ready


WORKLOAD = {
    "metadata": {
        "name": "web",
        "namespace": "shop",
        "uid": "u",
        "resourceVersion": "9",
        "annotations": {"note": "x", "kubectl.kubernetes.io/last-applied-configuration": "{...}"},
    },
    "spec": {
        "replicas": 3,
        "selector": {
            "matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "canary", "operator": "DoesNotExist"}],
        },
    },
    "status": {"replicas": 2, "updatedReplicas": 2, "observedGeneration": 4},
}


def test_deployment_becomes_a_workload_with_its_selector_as_text() -> None:
    assert to_workload("apps/v1", "Deployment", msgspec.convert(WORKLOAD, WireWorkload)) == Workload(
        ref=Ref("shop", "Deployment", "web"),
        uid="u",
        version="9",
        replicas=3,
        status_replicas=2,
        selector="app=web,!canary",
        annotations={"note": "x"},
    )


@pytest.mark.parametrize(
    ("spec", "replicas"),
    [
        pytest.param({}, 1, id="absent is 1"),
        pytest.param({"replicas": None}, 1, id="null is 1"),
        pytest.param({"replicas": 0}, 0, id="zero is zero"),
    ],
)
def test_replicas_of_apps_have_their_default(spec: dict[str, Any], replicas: int) -> None:
    wire = msgspec.convert({"metadata": {"name": "web"}, "spec": spec}, WireWorkload)
    assert to_workload("apps/v1", "Deployment", wire).replicas == replicas


def test_a_scale_without_replicas_is_read_as_zero() -> None:
    scale = msgspec.convert({"metadata": {"resourceVersion": "8"}, "spec": {}, "status": {}}, WireScale)
    meta = Metadata(name="g", namespace="shop", uid="u", resource_version="7", labels={"a": "b"})
    assert scaled_workload("example.com/v1", "Gadget", meta, scale) == Workload(
        Ref("shop", "Gadget", "g", "example.com/v1"), "u", "8", 0, labels={"a": "b"}
    )


def test_page_gives_readable_objects_and_names_the_unreadable_one() -> None:
    bad = {"metadata": {"name": "bad", "namespace": "shop"}, "spec": {"containers": 3}}
    body = msgspec.json.encode(
        {"kind": "PodList", "metadata": {"resourceVersion": "4", "continue": "c"}, "items": [FULL, bad, 17]}
    )
    metadata, pods, faults = Codec(WirePod, to_pod).page(body)
    assert (metadata.resource_version, metadata.continue_, [pod.name for pod in pods]) == ("4", "c", ["web-1"])
    assert [(meta.namespace, meta.name) for meta, _ in faults] == [("shop", "bad"), ("", "")]


@pytest.mark.parametrize(
    "part",
    [
        pytest.param({"metadata": {"labels": 3}}, id="labels"),
        pytest.param({"metadata": {"labels": {"app": 3}}}, id="a label"),
        pytest.param({"metadata": {"ownerReferences": [{"name": "no kind"}]}}, id="owners"),
        pytest.param({"spec": {"tolerations": 3}}, id="tolerations"),
        pytest.param({"status": {"startTime": "soon"}}, id="start"),
        pytest.param({"status": {"containerStatuses": [{"state": 3}]}}, id="state of a container"),
    ],
)
def test_part_that_cannot_be_read_costs_its_pod_alone(part: dict[str, Any]) -> None:
    meta = {"name": "bad", "namespace": "shop", **part.get("metadata", {})}
    body = msgspec.json.encode({"kind": "PodList", "items": [FULL, {**part, "metadata": meta}, FULL]})
    _, pods, faults = Codec(WirePod, to_pod).page(body)
    assert ([pod.name for pod in pods], len(faults)) == (["web-1", "web-1"], 1)


def test_times_of_a_page_use_the_offset_at_its_reading() -> None:
    offsets = iter([10.0, 20.0, 30.0])
    codec = Codec(WirePod, to_pod, lambda: next(offsets))
    body = msgspec.json.encode({"kind": "PodList", "items": [FULL, FULL]})
    assert [[pod.created for pod in codec.page(body)[1]] for _ in range(2)] == [[11.0, 11.0], [21.0, 21.0]]
    assert codec.one(msgspec.json.encode(FULL))[1].created == 31.0


def test_list_whose_items_are_null_is_empty() -> None:
    assert Codec(WirePod, to_pod).page(b'{"kind":"PodList","items":null}')[1] == []


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        pytest.param([], ("", ""), id="none"),
        pytest.param([("Pending", "True", "Deferred")], ("Deferred", "Pending!"), id="deferred"),
        pytest.param([("Pending", "True", "Infeasible")], ("Infeasible", "Pending!"), id="infeasible"),
        pytest.param([("Pending", "True", "")], ("Deferred", "Pending!"), id="pending without a reason"),
        pytest.param([("Pending", "False", "Infeasible")], ("", ""), id="pending no more"),
        pytest.param([("InProgress", "True", "")], ("InProgress", "InProgress!"), id="in progress"),
        pytest.param([("InProgress", "False", "")], ("", ""), id="in progress no more"),
        pytest.param(
            [("InProgress", "True", ""), ("Pending", "True", "Infeasible")], ("Infeasible", "Pending!"), id="both"
        ),
    ],
)
def test_what_the_kubelet_says_of_a_resize_is_kept(
    conditions: list[tuple[str, str, str]], expected: tuple[str, str]
) -> None:
    told = [
        {"type": f"PodResize{kind}", "status": status, "reason": reason, "message": f"{kind}!"}
        for kind, status, reason in conditions
    ]
    found = pod_of(status={"phase": "Running", "conditions": told})
    assert (found.resize, found.resize_message) == expected


KILLED = {"terminated": {"reason": "OOMKilled", "finishedAt": "1970-01-01T00:03:00Z", "exitCode": 137}}


@pytest.mark.parametrize(
    ("status", "killed"),
    [
        pytest.param({"lastState": KILLED, "state": {"running": {"startedAt": "x"}}}, {"main": 180.0}, id="before"),
        pytest.param({"state": KILLED}, {"main": 180.0}, id="just now"),
        pytest.param({"state": {"waiting": {"reason": "CrashLoopBackOff"}}}, {}, id="waits"),
        pytest.param({"lastState": {"terminated": {"reason": "Error", "finishedAt": None}}}, {}, id="another end"),
        pytest.param({"lastState": {"terminated": {"reason": "OOMKilled"}}}, {}, id="nobody knows when"),
        pytest.param({}, {}, id="nothing is said"),
        pytest.param({"state": None, "lastState": {"terminated": None}}, {}, id="nulls"),
    ],
)
def test_kills_for_want_of_memory_are_kept(status: dict[str, Any], killed: dict[str, float]) -> None:
    statuses = [{"name": "main", **status}]
    assert pod_of(status={"phase": "Running", "containerStatuses": statuses}).killed == killed


def test_of_several_containers_each_kill_is_kept() -> None:
    statuses = [{"name": "a", "lastState": KILLED}, {"name": "b"}, {"name": "c", "state": KILLED}]
    assert pod_of(status={"phase": "Running", "containerStatuses": statuses}).killed == {"a": 180.0, "c": 180.0}


def test_limits_are_kept_beside_requests() -> None:
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "nonsense"}}
    (container,) = pod_of(spec={"containers": [{"name": "main", "resources": resources}]}).containers
    assert container == Container("main", {"cpu": 1.0}, limits={"cpu": 2.0})


def owner(manager: str, time: str, **fields: Any) -> dict[str, Any]:
    return {"manager": manager, "operation": "Update", "time": time, "fieldsV1": fields}


SPEC: dict[str, Any] = {"f:spec": {"f:replicas": {}}}
OTHER: dict[str, Any] = {"f:spec": {"f:paused": {}}, "f:status": {"f:replicas": {}}}
FIRST, SECOND, THIRD = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"


@pytest.mark.parametrize(
    ("managed", "writer", "since"),
    [
        pytest.param(None, "", 0.0, id="an old server"),
        pytest.param([], "", 0.0, id="nobody"),
        pytest.param([owner("kubectl", FIRST, **SPEC)], "kubectl", 1767225600.0, id="one"),
        pytest.param([owner("kcm", FIRST, **OTHER)], "", 0.0, id="other fields, and the status's count"),
        pytest.param(
            [owner("argocd", SECOND, **SPEC), owner("kubectl", FIRST, **SPEC)], "argocd", 1767312000.0, id="the last"
        ),
        pytest.param([owner("kubectl", "", **SPEC)], "kubectl", 0.0, id="one at no time"),
        pytest.param([{"manager": "odd"}], "", 0.0, id="one that owns nothing"),
    ],
)
def test_who_owns_the_count_and_since_when(managed: Any, writer: str, since: float) -> None:
    wire = {"metadata": {"name": "web", "managedFields": managed}, "spec": {"replicas": 3}}
    found = to_workload("apps/v1", "Deployment", msgspec.json.decode(msgspec.json.encode(wire), type=WireWorkload))
    assert (found.writer, found.writer_since) == (writer, since)


def resize(manager: str, time: str, subresource: str = "resize") -> dict[str, Any]:
    amounts: dict[str, Any] = {"f:resources": {"f:requests": {"f:cpu": {}}}}
    fields = {"f:spec": {"f:containers": {'k:{"name":"main"}': amounts}}}
    return {**owner(manager, time, **fields), "subresource": subresource}


@pytest.mark.parametrize(
    ("managed", "expected"),
    [
        pytest.param(None, None, id="an old server"),
        pytest.param([], None, id="nobody"),
        pytest.param([owner("kcm", FIRST, **SPEC), resize("kubelet", FIRST, "status")], None, id="nobody did"),
        pytest.param([resize("elasticd", FIRST)], None, id="elasticd"),
        pytest.param([resize("updater", FIRST)], Resized("updater", 1767225600.0 + 5), id="a VPA"),
        pytest.param(
            [resize("elasticd", SECOND), resize("updater", FIRST)], Resized("updater", 1767225600.0 + 5), id="both"
        ),
        pytest.param(
            [resize("updater", FIRST), resize("kubectl-patch", SECOND)],
            Resized("kubectl-patch", 1767312000.0 + 5),
            id="two others",
        ),
        pytest.param([{**resize("argo", FIRST), "operation": "Apply"}], Resized("argo", 1767225600.0 + 5), id="ssa"),
        pytest.param([resize("updater", "")], None, id="at no time"),
        pytest.param([owner("resize", FIRST, **SPEC)], None, id="one of that name"),
    ],
)
def test_who_else_resized_a_pod_and_when(managed: Any, expected: Resized | None) -> None:
    wire = msgspec.json.decode(msgspec.json.encode({"metadata": {"name": "a", "managedFields": managed}}), type=WirePod)
    assert to_pod(wire, 5.0).resized == expected


def test_the_note_of_a_vpa_on_a_pod_is_read() -> None:
    annotations = {"vpaUpdates": "Pod resources updated by web", "vpaObservedContainers": "main"}
    assert pod_of(metadata={"name": "a", "annotations": annotations}).annotations == {
        "vpaUpdates": "Pod resources updated by web"
    }, "what VPAs that only recommend write too says nothing"


MARKS: dict[str, Any] = {"f:elasticd.io/scaled-to-zero": {}, "f:elasticd.io/fenced": {}}
MARKED: dict[str, Any] = {"f:metadata": {"f:annotations": {".": {}, **MARKS}}}


@pytest.mark.parametrize(
    ("managed", "counts"),
    [
        pytest.param(None, True, id="an old server"),
        pytest.param([owner("elasticd", FIRST, **MARKED)], True, id="elasticd wrote them"),
        pytest.param([owner("kubectl-annotate", FIRST, **MARKED)], True, id="a person did"),
        pytest.param([owner("kubectl", SECOND, **MARKED)], False, id="kubectl rollout undo did"),
        pytest.param([owner("kubectl", SECOND, **MARKED), owner("elasticd", FIRST, **MARKED)], True, id="both"),
        pytest.param([{**owner("kubectl", SECOND, **MARKED), "operation": "Apply"}], True, id="kubectl apply did"),
    ],
)
def test_marks_that_a_rollback_brought_back_do_not_count(managed: Any, *, counts: bool) -> None:
    annotations = {ZERO: "p", FENCE: "x", REVISION: "3"}
    workload = written("Deployment", managed, annotations)
    assert workload.annotations == (annotations if counts else {REVISION: "3"})
    assert workload.rolled_back == (() if counts else (ZERO, FENCE))


def test_only_of_a_deployment_are_annotations_rolled_back() -> None:
    workload = written("StatefulSet", [owner("kubectl", SECOND, **MARKED)], {ZERO: "p"})
    assert (workload.annotations, workload.rolled_back, workload.undone) == ({ZERO: "p"}, (), False)


def written(kind: str, managed: Any, annotations: dict[str, str]) -> Workload:
    meta = {"name": "web", "managedFields": managed, "annotations": annotations}
    return to_workload("apps/v1", kind, msgspec.json.decode(msgspec.json.encode({"metadata": meta}), type=WireWorkload))


TEMPLATE: dict[str, Any] = {"f:spec": {"f:template": {"f:spec": {"f:containers": {}}}}}
UNDID = owner("kubectl", SECOND, **TEMPLATE)
COUNTED = {**owner("kubectl", THIRD, **SPEC), "subresource": "scale"}
STATUS = {**owner("kube-controller-manager", THIRD, **OTHER), "subresource": "status"}


@pytest.mark.parametrize(
    ("managed", "undone"),
    [
        pytest.param(None, False, id="an old server"),
        pytest.param([UNDID], True, id="it did"),
        pytest.param([owner("kubectl-replace", FIRST, **TEMPLATE), UNDID], True, id="after another wrote"),
        pytest.param([UNDID, COUNTED, STATUS, owner("elasticd", THIRD, **MARKED)], True, id="what says nothing of it"),
        pytest.param([UNDID, owner("kubectl-replace", THIRD, **TEMPLATE)], False, id="before another wrote"),
        pytest.param([UNDID, owner("kubectl-replace", SECOND, **TEMPLATE)], False, id="in the same second"),
        pytest.param([UNDID, {**owner("argocd", "", **TEMPLATE), "operation": "Apply"}], False, id="nobody knows when"),
        pytest.param([{**UNDID, "operation": "Apply"}], False, id="kubectl apply did"),
        pytest.param([owner("kubectl", SECOND, **MARKED)], False, id="it wrote no template"),
        pytest.param([COUNTED], False, id="kubectl scale did"),
    ],
)
def test_whether_a_rollback_was_the_last_to_write(managed: Any, *, undone: bool) -> None:
    assert written("Deployment", managed, {REVISION: "3"}).undone == undone
    assert not written("StatefulSet", managed, {}).undone


NOTED: dict[str, Any] = {"f:metadata": {"f:annotations": {".": {}, "f:elasticd.io/surge": {}}}}
ANNOTATED: dict[str, Any] = {"f:metadata": {"f:annotations": {"f:note": {}}, "f:labels": {"f:elasticd.io/surge": {}}}}
UNDO, OURS = owner("kubectl-rollout", SECOND, **NOTED), owner("elasticd", FIRST, **NOTED)


@pytest.mark.parametrize(
    ("managed", "writer"),
    [
        pytest.param(None, "", id="an old server"),
        pytest.param([OURS], "", id="elasticd"),
        pytest.param([UNDO], "kubectl-rollout", id="a rollback"),
        pytest.param([owner("elasticd", FIRST, **SPEC), UNDO], "kubectl-rollout", id="elasticd wrote the count"),
        pytest.param([UNDO, OURS], "", id="another applied what elasticd wrote"),
        pytest.param([owner("kubectl", FIRST, **ANNOTATED), owner("kcm", FIRST, **OTHER)], "", id="other fields"),
        pytest.param([{"manager": "odd"}], "", id="one that owns nothing"),
    ],
)
def test_a_note_that_elasticd_did_not_write_is_known(managed: Any, writer: str) -> None:
    meta = {"name": "web", "managedFields": managed, "annotations": {SURGE: "{}"}}
    wire = msgspec.json.decode(msgspec.json.encode({"metadata": meta}), type=WireWorkload)
    assert to_workload("apps/v1", "Deployment", wire).surge_writer == writer
    bare = msgspec.json.decode(msgspec.json.encode({"metadata": meta | {"annotations": None}}), type=WireWorkload)
    assert to_workload("apps/v1", "Deployment", bare).surge_writer == "", "there is no note"


def test_a_rollout_shows_in_the_workload() -> None:
    wire = {"metadata": {"name": "web"}, "status": {"replicas": 3, "updatedReplicas": 1}}
    found = msgspec.json.decode(msgspec.json.encode(wire), type=WireWorkload)
    assert to_workload("apps/v1", "Deployment", found).rollout == "1 of 3 pods are of the newest template"


@pytest.mark.parametrize(("strategy", "recreate"), [({"type": "Recreate"}, True), ({"type": "RollingUpdate"}, False)])
def test_a_deployment_with_recreate_strategy_is_recognized(strategy: dict[str, str], recreate: bool) -> None:
    wire = {"metadata": {"name": "web"}, "spec": {"strategy": strategy}}
    found = msgspec.json.decode(msgspec.json.encode(wire), type=WireWorkload)
    assert to_workload("apps/v1", "Deployment", found).recreate == recreate


@pytest.mark.parametrize(
    ("kind", "spec", "ordered"),
    [
        pytest.param("StatefulSet", {"podManagementPolicy": "OrderedReady"}, True, id="given"),
        pytest.param("StatefulSet", {}, True, id="the default"),
        pytest.param("StatefulSet", {"podManagementPolicy": "Parallel"}, False, id="parallel"),
        pytest.param("Deployment", {}, False, id="another kind"),
    ],
)
def test_a_stateful_set_says_whether_pods_wait_for_others(kind: str, spec: dict[str, Any], ordered: bool) -> None:
    found = msgspec.json.decode(msgspec.json.encode({"metadata": {"name": "web"}, "spec": spec}), type=WireWorkload)
    assert to_workload("apps/v1", kind, found).ordered == ordered


@pytest.mark.parametrize(("spec", "first"), [({"ordinals": {"start": 5}}, 5), ({"ordinals": {}}, 0), ({}, 0)])
def test_a_stateful_set_says_where_its_ordinals_begin(spec: dict[str, Any], first: int) -> None:
    found = msgspec.json.decode(msgspec.json.encode({"metadata": {"name": "web"}, "spec": spec}), type=WireWorkload)
    assert to_workload("apps/v1", "StatefulSet", found).first_ordinal == first


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet"])
@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        pytest.param({"minReadySeconds": 40}, 40.0, id="given"),
        pytest.param({"minReadySeconds": None}, 0.0, id="null"),
        pytest.param({}, 0.0, id="left out"),
    ],
)
def test_a_workload_says_how_long_a_pod_must_be_ready(kind: str, spec: dict[str, Any], seconds: float) -> None:
    found = msgspec.json.decode(msgspec.json.encode({"metadata": {"name": "web"}, "spec": spec}), type=WireWorkload)
    assert to_workload("apps/v1", kind, found).min_ready == seconds


@pytest.mark.parametrize(
    ("api_version", "kind", "owner", "sets_count"),
    [
        pytest.param("apps/v1", "ReplicaSet", ("apps/v1", "Deployment", True), True, id="of a Deployment"),
        pytest.param("apps/v1", "ReplicaSet", ("argoproj.io/v1alpha1", "Rollout", True), True, id="of a Rollout"),
        pytest.param("apps/v1", "ReplicaSet", ("apps/v1", "Deployment", False), False, id="of no controller"),
        pytest.param("apps/v1", "Deployment", ("example.com/v1", "App", True), False, id="Deployment of an operator"),
        pytest.param("apps/v1", "StatefulSet", ("example.com/v1", "Db", True), False, id="StatefulSet of an operator"),
        pytest.param("v1", "ReplicationController", ("apps.openshift.io/v1", "Config", True), True, id="controller"),
        pytest.param("example.com/v1", "ReplicaSet", ("apps/v1", "Deployment", True), False, id="of another group"),
    ],
)  # fmt: skip
def test_an_owner_that_sets_the_count_is_known(
    api_version: str, kind: str, owner: tuple[str, str, bool], sets_count: bool
) -> None:
    reference = {"apiVersion": owner[0], "kind": owner[1], "controller": owner[2], "name": "web", "uid": "d"}
    wire = msgspec.json.encode({"metadata": {"name": "web-1", "ownerReferences": [reference]}})
    expected = f"{owner[1]}/web" if sets_count else ""
    workload = msgspec.json.decode(wire, type=WireWorkload)
    assert to_workload(api_version, kind, workload).owner == expected
    assert scaled_workload(api_version, kind, workload.metadata, WireScale(workload.metadata)).owner == expected


@pytest.mark.parametrize(
    ("of_pod", "of_containers", "restart"),
    [
        pytest.param(None, [None], "Always", id="by default"),
        pytest.param("OnFailure", [None, None], "OnFailure", id="of the pod"),
        pytest.param("Always", [None, "Never"], "Never", id="one container runs once"),
        pytest.param("Always", ["OnFailure", None], "OnFailure", id="one container may end"),
        pytest.param("Never", ["Always"], "Always", id="its containers have their own"),
    ],
)
def test_the_strictest_restart_policy_of_a_container_counts(
    of_pod: str | None, of_containers: list[str | None], restart: str
) -> None:
    containers = [
        {"name": f"c{number}", **({"restartPolicy": policy} if policy else {})}
        for number, policy in enumerate(of_containers)
    ]
    spec = {"containers": containers, **({"restartPolicy": of_pod} if of_pod else {})}
    assert pod_of(spec=spec).needs.restart == restart
