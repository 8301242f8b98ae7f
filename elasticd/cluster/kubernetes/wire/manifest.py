"""The manifest from which a pod without a controller is recreated.

Knows what the API server puts into a pod by itself, and refuses or puts in again when the pod is created; knows nothing
of HTTP or of why a pod is recreated.
"""

from typing import Any

from elasticd.model.moves import RESTORED, STAYS

RESUMED = "elasticd.io/resumed"
"""Annotation of a recreated pod: when the one before it was evicted, in seconds since the epoch."""

# No finalizers: whoever put them there knows the old pod, and may never release another.
_KEPT = ("name", "namespace", "annotations", "ownerReferences")
# Of a priority and of a runtime only the class: the server works out the rest, and refuses what differs.
_LEFT_OUT = frozenset(("nodeName", "priority", "preemptionPolicy", "overhead", "ephemeralContainers"))
# Since Kubernetes 1.35 the server copies these from a node to each pod that is bound to it.
_OF_NODE = frozenset(("topology.kubernetes.io/zone", "topology.kubernetes.io/region"))
# What network plugins write onto a pod that runs (OVN-Kubernetes, Multus, Calico): of the old pod, not of the next. As
# OpenShift's plugin for Velero does; what a person writes for them, such as a wanted address, has other names.
_OF_NETWORK = frozenset((
    "k8s.ovn.org/pod-networks",
    "k8s.v1.cni.cncf.io/network-status",
    "k8s.v1.cni.cncf.io/networks-status",
    "cni.projectcalico.org/containerID",
    "cni.projectcalico.org/podIP",
    "cni.projectcalico.org/podIPs",
))  # fmt: skip
_OF_THE_OLD = _OF_NETWORK | {STAYS}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_TOKENS = "/var/run/secrets/kubernetes.io/serviceaccount"


def recreation(pod: dict[str, Any], at: float) -> dict[str, Any]:
    """The manifest that recreates a pod without its node; `at`: when it was evicted, in seconds since the epoch."""
    old = pod["metadata"]
    meta = {key: old[key] for key in _KEPT if old.get(key)}
    meta["labels"] = _without_nodes(old)
    annotations = {key: value for key, value in meta.get("annotations", {}).items() if key not in _OF_THE_OLD}
    meta["annotations"] = {**annotations, RESTORED: old["uid"], RESUMED: f"{at:.3f}"}
    spec = {key: value for key, value in pod["spec"].items() if key not in _LEFT_OUT}
    spec = _without_merged_keys(_without_tokens(spec))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def is_equivalent(manifest: dict[str, Any], pod: dict[str, Any]) -> bool:
    """Whether a pod has the manifest's images and labels, apart from zone and region: then somebody else recreated it,
    maybe on another node."""

    def what(candidate: dict[str, Any]) -> object:
        containers = [
            (container["name"], container.get("image")) for container in candidate["spec"].get("containers") or ()
        ]
        labels = candidate["metadata"].get("labels") or {}
        return {key: value for key, value in labels.items() if key not in _OF_NODE}, containers

    return what(manifest) == what(pod)


def trial_of(manifest: dict[str, Any]) -> dict[str, Any]:
    """The manifest with a generated name instead of its own, to try whether the server would create it."""
    meta = {key: value for key, value in manifest["metadata"].items() if key != "name"}
    return {**manifest, "metadata": {**meta, "generateName": f"{manifest['metadata']['name'][:200]}-"}}


def _without_nodes(meta: dict[str, Any]) -> dict[str, str]:
    """The labels without a zone and region that the server copied from the node: no field manager owns those. Without
    managedFields all labels are kept, and the server overwrites them with the new node's."""
    written = meta.get("managedFields")
    if not written:
        return meta.get("labels") or {}
    fields = [(entry.get("fieldsV1") or {}).get("f:metadata") or {} for entry in written]
    somebodys = {key.removeprefix("f:") for owned in fields for key in owned.get("f:labels") or ()}
    return {key: value for key, value in (meta.get("labels") or {}).items() if key not in _OF_NODE - somebodys}


def _without_tokens(spec: dict[str, Any]) -> dict[str, Any]:
    """Without the volume of the service account's token, which the server adds by a name of its own to each pod."""
    names = {volume["name"] for volume in spec.get("volumes") or () if _is_token(volume)}
    if not names:
        return spec
    stripped = {**spec, "volumes": [volume for volume in spec["volumes"] if volume["name"] not in names]}
    for kind in ("containers", "initContainers"):
        if kind in spec:
            stripped[kind] = [_unmounted(container, names) for container in spec[kind]]
    return stripped


def _without_merged_keys(spec: dict[str, Any]) -> dict[str, Any]:
    """Without what the server has made of `matchLabelKeys` and `mismatchLabelKeys`: it writes that into the selectors
    when a pod is created (affinities since Kubernetes 1.31, spread constraints since 1.34), and then once more, or
    refuses both."""
    spread, affinity = spec.get("topologySpreadConstraints"), spec.get("affinity") or {}
    if spread:
        spec = {**spec, "topologySpreadConstraints": [_unmerged(term) for term in spread]}
    for kind in affinity.keys() & {"podAffinity", "podAntiAffinity"}:
        terms = dict(affinity[kind] or {})
        if required := terms.get(_REQUIRED):
            terms[_REQUIRED] = [_unmerged(term) for term in required]
        if preferred := terms.get(_PREFERRED):
            terms[_PREFERRED] = [{**each, "podAffinityTerm": _unmerged(each["podAffinityTerm"])} for each in preferred]
        affinity = {**affinity, kind: terms}
        spec = {**spec, "affinity": affinity}
    return spec


def _unmerged(term: dict[str, Any]) -> dict[str, Any]:
    """A term without such rules, whatever label the pod had then: the server lets nobody write any for these keys."""
    merged = {("In", key) for key in term.get("matchLabelKeys") or ()}
    merged |= {("NotIn", key) for key in term.get("mismatchLabelKeys") or ()}
    selector = term.get("labelSelector") or {}
    if not merged or not selector.get("matchExpressions"):
        return term
    own = [rule for rule in selector["matchExpressions"] if (rule["operator"], rule["key"]) not in merged]
    return {**term, "labelSelector": {**selector, "matchExpressions": own}}


def _is_token(volume: dict[str, Any]) -> bool:
    name = volume["name"]
    if name.startswith("kube-api-access-"):
        return "projected" in volume
    return "-token-" in name and "secret" in volume  # before Kubernetes 1.21


def _unmounted(container: dict[str, Any], names: set[str]) -> dict[str, Any]:
    mounts = [
        mount
        for mount in container.get("volumeMounts") or ()
        if mount["name"] not in names or mount.get("mountPath") != _TOKENS
    ]
    return {**container, "volumeMounts": mounts}
