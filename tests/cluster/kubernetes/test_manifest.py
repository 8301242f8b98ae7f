"""The manifest of a pod that is recreated: what is kept, and what the server puts in by itself."""

from typing import Any

import pytest

from elasticd.cluster.kubernetes.wire.manifest import is_equivalent, recreation, trial_of

OF_THE_OLD = (
    "k8s.ovn.org/pod-networks",
    "k8s.v1.cni.cncf.io/network-status",
    "k8s.v1.cni.cncf.io/networks-status",
    "cni.projectcalico.org/containerID",
    "cni.projectcalico.org/podIP",
    "cni.projectcalico.org/podIPs",
    "elasticd.io/stays-since",
)
TOKENS = "/var/run/secrets/kubernetes.io/serviceaccount"


def container(name: str, *mounts: tuple[str, str]) -> dict[str, Any]:
    return {"name": name, "image": "i", "volumeMounts": [{"name": one, "mountPath": path} for one, path in mounts]}


def pod(token: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A pod as the API server shows it."""
    data = ("data", "/data")
    return {
        "metadata": {
            "name": "batch",
            "generateName": "batch-",
            "namespace": "shop",
            "uid": "u",
            "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "batch"},
            "annotations": {"note": "x", **dict.fromkeys(OF_THE_OLD, "10.244.1.7/24")},
            "ownerReferences": [{"kind": "ConfigMap", "name": "c", "uid": "c"}],
            "finalizers": ["example.com/keep"],
            "managedFields": [{"manager": "kubectl"}],
        },
        "spec": {
            "schedulerName": "elasticd",
            "restartPolicy": "OnFailure",
            "nodeName": "n1",
            "priority": 7,
            "priorityClassName": "low",
            "preemptionPolicy": "PreemptLowerPriority",
            "runtimeClassName": "gvisor",
            "overhead": {"cpu": "100m"},
            "ephemeralContainers": [container("debug")],
            "containers": [container("main", data, (token["name"], TOKENS))],
            "initContainers": [container("once", (token["name"], TOKENS))],
            "volumes": [{"name": "data", "emptyDir": {}}, token],
            **spec,
        },
        "status": {"phase": "Running"},
    }


PROJECTED = {"name": "kube-api-access-x7k2p", "projected": {"sources": []}}
SECRET = {"name": "default-token-abcde", "secret": {"secretName": "default-token-abcde"}}


@pytest.mark.parametrize("token", [PROJECTED, SECRET], ids=["since 1.21", "before"])
def test_what_the_server_put_in_is_left_out(token: dict[str, Any]) -> None:
    assert recreation(pod(token), 1234.5) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "batch",
            "namespace": "shop",
            "labels": {"app": "batch"},
            "annotations": {"note": "x", "elasticd.io/restored-from": "u", "elasticd.io/resumed": "1234.500"},
            "ownerReferences": [{"kind": "ConfigMap", "name": "c", "uid": "c"}],
        },
        "spec": {
            "schedulerName": "elasticd",
            "restartPolicy": "OnFailure",
            "priorityClassName": "low",
            "runtimeClassName": "gvisor",
            "containers": [container("main", ("data", "/data"))],
            "initContainers": [container("once")],
            "volumes": [{"name": "data", "emptyDir": {}}],
        },
    }


ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"


def written(*labels: str) -> dict[str, Any]:
    """Who set these labels."""
    fields: dict[str, Any] = {"f:metadata": {"f:labels": {".": {}, **{f"f:{one}": {} for one in labels}}}}
    return {"manager": "kubectl", "operation": "Update", "fieldsV1": fields}


@pytest.mark.parametrize(
    ("managed", "kept"),
    [
        pytest.param([written("app"), {"manager": "kubelet", "subresource": "status", "fieldsV1": {}}], ["app"],
                     id="put there by the server"),
        pytest.param([written("app", ZONE)], ["app", ZONE], id="the zone is the user's"),
        pytest.param([written("app"), written(ZONE, REGION)], ["app", ZONE, REGION], id="set by another"),
        pytest.param([{"manager": "kubectl"}], ["app"], id="by nobody who is known"),
        pytest.param(None, ["app", ZONE, REGION], id="it is not written down who set what"),
    ],
)  # fmt: skip
def test_zone_and_region_labels_are_dropped_unless_somebody_set_them(
    managed: list[dict[str, Any]] | None, kept: list[str]
) -> None:
    found = pod(PROJECTED)
    labels = {"app": "batch", ZONE: "a", REGION: "r"}
    found["metadata"] |= {"labels": labels, "managedFields": managed}
    assert recreation(found, 1.0)["metadata"]["labels"] == {key: labels[key] for key in kept}


@pytest.mark.parametrize(
    "volume",
    [
        pytest.param({"name": "my-token-store", "emptyDir": {}}, id="a folder"),
        pytest.param({"name": "tokens", "projected": {"sources": []}}, id="a projection of its own"),
    ],
)
def test_what_the_pod_itself_asks_for_is_kept(volume: dict[str, Any]) -> None:
    found = pod(volume)
    made = recreation(found, 0.0)
    assert [made["spec"][key] for key in ("volumes", "containers")] == [
        found["spec"][key] for key in ("volumes", "containers")
    ]


def test_a_recreated_pod_can_be_recreated_again() -> None:
    first = recreation(pod(SECRET), 1.0)
    second = {**first, "metadata": {**first["metadata"], "uid": "v"}}
    noted = recreation(second, 2.0)["metadata"]["annotations"]
    assert noted == {"note": "x", "elasticd.io/restored-from": "v", "elasticd.io/resumed": "2.000"}


def test_dry_run_manifest_differs_only_in_a_generated_name() -> None:
    manifest = recreation(pod(SECRET), 1.0)
    trial = trial_of(manifest)
    assert trial["metadata"].pop("generateName") == "batch-"
    assert {**trial, "metadata": {**trial["metadata"], "name": "batch"}} == manifest


@pytest.mark.parametrize(
    ("change", "same"),
    [
        pytest.param({}, True, id="the same"),
        pytest.param({"metadata": {"name": "batch", "labels": {"app": "other"}}}, False, id="other labels"),
        pytest.param({"spec": {"containers": [{"name": "main", "image": "i:2"}]}}, False, id="another image"),
        pytest.param({"spec": {"containers": [{"name": "main", "image": "i:1"}], "nodeName": "a"}}, True, id="a node"),
        pytest.param({"metadata": {"labels": {"app": "batch", ZONE: "b", REGION: "r"}}}, True, id="the node's zone"),
    ],
)
def test_pod_with_the_same_spec_and_labels_is_equivalent(change: dict[str, Any], same: bool) -> None:
    meta = {"name": "batch", "labels": {"app": "batch"}}
    manifest = {"metadata": meta, "spec": {"containers": [{"name": "main", "image": "i:1"}]}}
    assert is_equivalent(manifest, {**manifest, **change}) == same


def merged(*rules: tuple[str, str, list[str]], **keys: list[str]) -> dict[str, Any]:
    """A term with these rules in its selector."""
    expressions = [{"key": key, "operator": operator, "values": values} for key, operator, values in rules]
    return {
        "topologyKey": "zone",
        "labelSelector": {"matchLabels": {"a": "b"}, "matchExpressions": expressions},
        **keys,
    }


FORMER, OTHER = ("app", "In", ["former"]), ("tier", "In", ["batch"])
MATCHING = ("app", "In", ["batch"]), ("app", "NotIn", ["batch"])


@pytest.mark.parametrize(
    ("shown", "created"),
    [
        pytest.param(merged(MATCHING[0], matchLabelKeys=["app"]), merged(matchLabelKeys=["app"]), id="match"),
        pytest.param(merged(MATCHING[1], mismatchLabelKeys=["app"]), merged(mismatchLabelKeys=["app"]), id="mismatch"),
        pytest.param(merged(FORMER, matchLabelKeys=["app"]), merged(matchLabelKeys=["app"]), id="of a former label"),
        pytest.param(merged(OTHER, matchLabelKeys=["app"]), merged(OTHER, matchLabelKeys=["app"]), id="another key"),
        pytest.param(merged(MATCHING[0]), merged(MATCHING[0]), id="somebody's own"),
        pytest.param({"topologyKey": "zone", "matchLabelKeys": ["app"]}, ..., id="nothing was merged"),
    ],
)
def test_what_the_server_merged_from_label_keys_is_left_out(shown: dict[str, Any], created: Any) -> None:
    """It would refuse both, or have it twice."""
    created = shown if created is ... else created

    def terms(term: dict[str, Any]) -> dict[str, Any]:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}
        affinity = {"podAffinity": required, "podAntiAffinity": preferred, "nodeAffinity": {"x": 1}}
        return {"affinity": affinity, "topologySpreadConstraints": [term]}

    spec = recreation(pod(SECRET, **terms(shown)), 1.0)["spec"]
    assert {key: spec[key] for key in ("affinity", "topologySpreadConstraints")} == terms(created)
