"""From the wire format to the model.

Knows what each field of a pod, node or workload means to judgement; knows nothing of HTTP or of what is watched.
Equal parts of equal pods (labels, containers, needs) become one object, so a pod costs half a kilobyte: each template
is read once, and its pods share the resulting records.
"""

import sys
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from math import isfinite, isnan, nan
from typing import Any, Literal, TypeVar, get_args

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from elasticd.base.units import amount, parse_time
from elasticd.cluster.kubernetes.wire import objects as wire
from elasticd.cluster.kubernetes.wire.selector import to_text
from elasticd.decision.workload.vetoes import OURSELVES
from elasticd.decision.workload.zero import REVISION, ZERO
from elasticd.kit.evictability import AUTOSCALER, KARPENTER
from elasticd.kit.handover import FENCE
from elasticd.kit.requests import VPA_UPDATES
from elasticd.kit.surge import SURGE
from elasticd.model import pod_spec
from elasticd.model import workload as model
from elasticd.model.controllers import controller_kind, sets_count
from elasticd.model.policy import MOST as MOST_REPLICAS
from elasticd.model.workload import COST

_OURS = "elasticd.io/"
_OTHERS = frozenset({COST, AUTOSCALER, KARPENTER, VPA_UPDATES})
"""Annotations of others that decisions use."""
MIRROR = "kubernetes.io/config.mirror"
"""Annotation of the API's picture of a pod that a kubelet runs from a file."""
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
MOST = 8192
"""Templates, controllers, labels and quantities that are known at once."""

Owner = tuple[str, str, str]
"""Kind, name and UID of a pod's controller."""

_NOBODY: Owner = ("", "", "")


@lru_cache(maxsize=MOST)
def _shared_labels(pairs: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Pods of one template have equal labels: one dict serves them all."""
    return {sys.intern(key): sys.intern(value) for key, value in pairs}


def labels_of(meta: wire.Metadata) -> dict[str, str]:
    """The labels of a workload or node."""
    return _shared_labels(tuple(meta.labels.items())) if meta.labels else {}


def _resize(pending: wire.WireCondition | None, under_way: wire.WireCondition | None) -> tuple[str, str]:
    """How far the kubelet is with a change of requests, and what it says of that (KEP-1287, from 1.33 on)."""
    if pending is not None and pending.status == "True":
        return sys.intern(pending.reason or "Deferred"), pending.message
    if under_way is not None and under_way.status == "True":
        return "InProgress", under_way.message
    return "", ""


def _killed(statuses: list[wire.ContainerStatus] | None, offset: float) -> dict[str, float]:
    """When containers were last killed for want of memory; nearly always none."""
    killed_at = _NOTHING
    for status in statuses or ():
        for state in (status.last_state, status.state):
            if state is None or (ended := state.terminated) is None:
                continue
            if ended.reason == "OOMKilled" and ended.finished_at is not None:
                killed_at = {**killed_at, status.name: ended.finished_at.timestamp() + offset}
    return killed_at


_NOTHING: dict[str, Any] = {}
"""Shared by the many pods that have none of what few have. Must not be changed."""


def to_pod(pod: wire.WirePod, offset: float = 0.0) -> model.Pod:
    """A pod of the model, its times moved by `offset` seconds. Init containers count only while they run on, as
    sidecars.

    A Ready condition of status Unknown becomes "not ready". The HPA is of two minds: its start-up rules for CPU ask
    whether the status is False (Unknown then passes for ready), its count of ready pods for Object metrics whether it
    is True. `Pod.ready` cannot say both, and None stands for a pod without the condition, which to those rules is
    never ready. Not ready is the careful reading: load that such a pod might carry raises no count.
    """
    meta, spec, status = pod.metadata, pod.spec, pod.status
    (labels, owner, owner_pods), shape = _family_of(meta), _shape_of(pod)
    created, started = meta.creation_timestamp, status.start_time
    ready = scheduled = pending = under_way = None
    for condition in status.conditions or ():  # of very many pods: faster than a look-up by type
        match condition.type:
            case "Ready":
                ready = condition
            case "PodScheduled":
                scheduled = condition
            case "PodResizePending":
                pending = condition
            case "PodResizeInProgress":
                under_way = condition
            case _:  # says nothing that counts
                pass
    transitioned = ready.last_transition_time if ready else None
    resize, resize_message = _resize(pending, under_way) if pending or under_way else ("", "")
    return model.Pod(  # in the order of its fields, which is much faster than by name
        sys.intern(meta.namespace),
        meta.name,
        meta.uid,
        sys.intern(status.phase),
        sys.intern(spec.node_name),
        labels,
        shape.containers,
        shape.requests,
        started.timestamp() + offset if started else None,
        ready.status == "True" if ready else None,
        transitioned.timestamp() + offset if transitioned else 0.0,
        meta.deletion_timestamp is not None,
        status.pod_ip,
        _looked_at(meta.annotations),
        _waits(scheduled, offset) if not spec.node_name else None,
        resize,
        _killed(status.container_statuses, offset),
        created.timestamp() + offset if created else 0.0,
        shape.needs,
        owner,
        status.nominated_node_name,
        meta.annotations is not None and MIRROR in meta.annotations,
        resize_message,
        shape.overall,
        _claims_of(pod) if shape.needs.claims else (),
        owner_pods,
        _resized(meta.managed_fields, offset),
    )


def _resized(managed: Raw, offset: float) -> model.Resized | None:
    """Who resized a pod last, other than elasticd. Of nearly all pods nobody did: that is seen without decoding."""
    if b'"resize"' not in bytes(managed):
        return None
    others = [
        entry
        for entry in _read(managed, list[wire.ManagedFields])
        if entry.subresource == "resize" and entry.manager != OURSELVES
    ]
    last = max(others, key=lambda entry: entry.time, default=None)
    since = parse_time(last.time) if last else nan
    return None if last is None or isnan(since) else model.Resized(sys.intern(last.manager), since + offset)


def _claims_of(pod: wire.WirePod) -> tuple[pod_spec.PodClaim, ...]:
    """The claims of a pod, each once. The one of an ephemeral volume is named after the pod and the volume."""
    claims: dict[str, pod_spec.PodClaim] = {}
    for volume in pod.spec.volumes or ():
        if (use := volume.persistent_volume_claim) is not None:
            claims.setdefault(use.claim_name, pod_spec.PodClaim(use.claim_name))
        elif volume.ephemeral is not None:
            name = f"{pod.metadata.name}-{volume.name}"
            claims[name] = pod_spec.PodClaim(name, own=True)
    return tuple(claims.values())


def _waits(scheduled: wire.WireCondition | None, offset: float) -> float | None:
    """Since when a pod is unschedulable; None: it is not, or a scheduling gate holds it back."""
    if scheduled is None or (scheduled.status, scheduled.reason) != ("False", "Unschedulable"):
        return None
    since = scheduled.last_transition_time
    return since.timestamp() + offset if since else None


class _Shape(Struct, frozen=True, gc=False):
    """A pod template in the model: what all pods of the template share."""

    containers: tuple[model.Container, ...]
    requests: dict[str, float]
    needs: pod_spec.Needs
    overall: dict[str, float]


_shapes: dict[bytes, _Shape] = {}


def _shape_of(pod: wire.WirePod) -> _Shape:
    key = _key(pod)
    shape = _shapes.get(key)
    if shape is None:
        shape = _shape(pod)
        if len(_shapes) >= MOST:
            _shapes.clear()
        _shapes[key] = shape
    return shape


def _key(pod: wire.WirePod) -> bytes:
    """A cache key of everything that a pod's template decides: its spec apart from its node and the names of volumes
    and claims, and what is allocated. Every pod that is read passes here, and one encoded text is faster to build and
    compare than the parts. (It is no valid JSON: absent parts of a status leave no mark.)"""
    volumes = tuple([_nameless(volume) for volume in pod.spec.volumes or ()])
    spec = replace(pod.spec, node_name="", affinity=_affinity(pod), volumes=volumes)
    return _TEXT.encode((spec, _allocated(pod.status)))


def _nameless(volume: wire.WireVolume) -> wire.WireVolume:
    """A volume without what differs between pods of one template: the name of a token's volume is chance, and each pod
    of a StatefulSet has claims of its own."""
    claim = None if volume.persistent_volume_claim is None else _SOME_CLAIM
    return replace(volume, name="", persistent_volume_claim=claim)


_SOME_CLAIM = wire.WireClaimUse()


_TEXT = msgspec.json.Encoder()


def _allocated(status: wire.PodStatus) -> object:
    """What the kubelet reports as allocated, part of the key; None: nothing is reported."""
    reported = [*(status.container_statuses or ()), *(status.init_container_statuses or ())]
    resized = [each for each in reported if bytes(each.resources)]
    if not resized and not bytes(status.resources):
        return None
    per_container = [(each.name, each.resources, each.allocated_resources) for each in resized]
    return per_container, status.resources, status.allocated_resources, _is_infeasible(status)


def _is_infeasible(status: wire.PodStatus) -> bool:
    """Whether the pod's node can never give it what it requests."""
    conditions = [(condition.type, condition.reason) for condition in status.conditions or ()]
    return ("PodResizePending", "Infeasible") in conditions


def _affinity(pod: wire.WirePod) -> wire.WireAffinity | None:
    """A pod's affinity. A DaemonSet's pod names its own node there; once it is bound that is left out, so that the
    set's pods share one key."""
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is wire.UNREAD or not pod.spec.node_name:
        return affinity
    return replace(affinity, node_affinity=wire.UNREAD) if _family_of(pod.metadata)[1][0] == "DaemonSet" else affinity


_Family = tuple[dict[str, str], Owner, tuple[tuple[str, str], ...]]


def _family_of(meta: wire.PodMetadata) -> _Family:
    """A pod's labels, its controller, and the pods among its owners. The pods of a controller have equal ones: one
    record serves them all."""
    return _family(b"\0".join((meta.labels, meta.owner_references)))


@lru_cache(maxsize=MOST)
def _family(both: bytes) -> _Family:
    labels, _, owners = both.partition(b"\0")
    shared = {sys.intern(key): sys.intern(value) for key, value in _read(labels, dict[str, str]).items()}
    references = _read(owners, list[wire.OwnerReference])
    owner_pods = tuple([(owner.name, owner.uid) for owner in references if _is_pod(owner)])
    controller = next((owner for owner in references if owner.controller), None)
    if controller is None:
        return shared, _NOBODY, owner_pods
    kind = controller_kind(controller.api_version, controller.kind)
    return shared, (kind, controller.name, controller.uid), owner_pods


def pod_labels(meta: wire.PodMetadata) -> dict[str, str]:
    """A pod's labels."""
    return _family_of(meta)[0]


def controller_of(meta: wire.PodMetadata) -> Owner:
    """Kind, name and UID of a pod's controller; empty: it has none."""
    return _family_of(meta)[1]


def _is_pod(owner: wire.OwnerReference) -> bool:
    return (owner.api_version, owner.kind) == ("v1", "Pod")


def _shape(pod: wire.WirePod) -> _Shape:
    spec, status = pod.spec, pod.status
    ordinary = [_container(*_container_fields(each)) for each in spec.containers or ()]
    starting = [_container(*_container_fields(each), _sidecar(each)) for each in spec.init_containers or ()]
    pod_level = _amounts(_read(spec.resources, wire.ResourceRequirements).requests)
    reported = [*(status.init_container_statuses or ()), *(status.container_statuses or ())]
    statuses = {each.name: each for each in reported}
    overhead = _amounts(_read(spec.overhead, dict[str, wire.Amount]))
    infeasible = _is_infeasible(status)

    def counted(container: model.Container) -> dict[str, float]:
        return _counted(container.requests, statuses.get(container.name), infeasible)

    requests = pod_spec.effective(
        [counted(each) for each in ordinary],
        [(counted(each) if each.sidecar else each.requests, each.sidecar) for each in starting],
        _counted(pod_level, status, infeasible) if pod_level else {},
        overhead,
    )
    overall = dict[str, float]()
    if pod_level:
        init_requests = [(container.requests, container.sidecar) for container in starting]
        overall = pod_spec.effective([container.requests for container in ordinary], init_requests, pod_level, overhead)
    sidecars = [container for container in starting if container.sidecar]
    return _Shape((*ordinary, *sidecars), pod_level, _needs(pod, requests), overall)


def _counted(
    requests: dict[str, float], status: wire.ContainerStatus | wire.PodStatus | None, infeasible: bool
) -> dict[str, float]:
    """The requests that a scheduler counts for a container, or for a whole pod, during a resize: the greatest of what
    is requested, allocated and in use. An infeasible request does not count."""
    if status is None or bytes(status.resources) in (b"", b"null"):
        return requests
    has = _amounts(_read(status.resources, wire.ResourceRequirements).requests)
    set_aside = _amounts(_read(status.allocated_resources, dict[str, wire.Amount]))
    return pod_spec.greatest([has, set_aside] if infeasible else [requests, has, set_aside])


def _sidecar(container: wire.WireContainer) -> bool:
    return container.restart_policy == "Always"


def _restart(spec: wire.PodSpec) -> pod_spec.Restart:
    """The strictest restart policy of a pod's containers, which since Kubernetes 1.34 may have their own."""
    policies = {each.restart_policy or spec.restart_policy for each in spec.containers or ()} or {spec.restart_policy}
    return "Never" if "Never" in policies else "OnFailure" if "OnFailure" in policies else "Always"


def _needs(pod: wire.WirePod, requests: dict[str, float]) -> pod_spec.Needs:
    spec = pod.spec
    affinity = _affinity(pod) or wire.WireAffinity()
    nodes = _read(affinity.node_affinity, _NODE_AFFINITY)
    terms = None if nodes.required is None else tuple(map(term_of, nodes.required.node_selector_terms or ()))
    near, away = (_read(raw, _POD_AFFINITY) for raw in (affinity.pod_affinity, affinity.pod_anti_affinity))
    volumes = spec.volumes or ()
    grace = spec.termination_grace_period_seconds
    needs = pod_spec.Needs(
        scheduler=spec.scheduler_name or "default-scheduler",
        restart=_restart(spec),
        priority=spec.priority or 0,
        priority_class=spec.priority_class_name,
        preempts=spec.preemption_policy != "Never",
        requests=requests,
        selector=_read(spec.node_selector, dict[str, str]),
        affinity=terms,
        tolerations=tuple(filter(None, map(_toleration, _read(spec.tolerations, list[wire.WireToleration])))),
        ports=_ports(spec),
        disks=tuple(disk for volume in volumes for disk in _disks(volume)),
        gated=bool(_read(spec.scheduling_gates, list[Raw])),
        grace=30.0 if grace is None else float(grace),
        local=any(map(_local, volumes)),
        claims=any(map(_claims, volumes)),
        repels=tuple(map(_pod_term, away.required or ())),
        attracts=tuple(map(_pod_term, near.required or ())),
        prefers=(*_pod_preferences(near, 1), *_pod_preferences(away, -1)),
        prefers_nodes=tuple(
            pod_spec.NodePreference(term_of(each.preference), each.weight) for each in nodes.preferred or ()
        ),
        spread=tuple(map(_spread, _read(spec.topology_spread_constraints, list[wire.WireSpread])[:_MOST_SPREAD])),
        images=tuple(
            sys.intern(each.image) for each in (*(spec.containers or ()), *(spec.init_containers or ())) if each.image
        ),
    )
    return replace(needs, unsupported=tuple(_unsupported(spec, needs)))


_NODE_AFFINITY = wire.Affinity[wire.NodeTerms, wire.WireNodePreference]
_POD_AFFINITY = wire.Affinity[list[wire.WirePodTerm], wire.WirePodPreference]


T = TypeVar("T")


def _read(raw: Raw | bytes, shape: type[T]) -> T:
    """A part of a template, empty where it is not there."""
    body = bytes(raw)
    return shape() if body in (b"", b"null") else msgspec.json.decode(body, type=shape)


def _container_fields(container: wire.WireContainer) -> tuple[str, bytes, bytes]:
    return container.name, bytes(container.resources), bytes(container.resize_policy)


@lru_cache(maxsize=MOST)
def _container(name: str, resources: bytes, resize_policy: bytes, sidecar: bool = False) -> model.Container:
    requirements = _read(resources, wire.ResourceRequirements)
    requests, limits = _amounts(requirements.requests), _amounts(requirements.limits)
    policies = _read(resize_policy, list[wire.ResizePolicy])
    restarting = [sys.intern(each.resource_name) for each in policies if each.restart_policy == "RestartContainer"]
    return model.Container(sys.intern(name), requests, sidecar, limits, tuple(restarting))


_parse = lru_cache(maxsize=MOST)(amount)


def _amounts(quantities: wire.Amounts) -> dict[str, float]:
    """Quantities in base units. An unreadable one is left out: to judgement that is a missing request, never a zero."""
    parsed = {sys.intern(name): _parse(quantity) for name, quantity in (quantities or {}).items()}
    return {name: value for name, value in parsed.items() if isfinite(value)}


def term_of(term: wire.NodeTerm) -> pod_spec.Term:
    """A term of node affinity."""
    labels, fields = term.match_expressions or (), term.match_fields or ()
    return pod_spec.Term(tuple(map(_expression, labels)), tuple(map(_expression, fields)))


def _expression(rule: wire.WireRequirement) -> pod_spec.Expression:
    return pod_spec.Expression(rule.key, rule.operator, rule.values or ())  # type: ignore[arg-type]


def _toleration(toleration: wire.WireToleration) -> pod_spec.Toleration | None:
    """A toleration of the model; None for an unknown operator, which tolerates nothing."""
    operator = toleration.operator or "Equal"
    if operator not in ("Equal", "Exists"):
        return None
    seconds = toleration.toleration_seconds
    return pod_spec.Toleration(toleration.key, operator, toleration.value, toleration.effect, seconds)  # type: ignore[arg-type]


def _ports(spec: wire.PodSpec) -> tuple[pod_spec.Port, ...]:
    running = [*(spec.containers or ()), *filter(_sidecar, spec.init_containers or ())]
    ports = [port for container in running for port in _read(container.ports, list[wire.WirePort])]
    return tuple(
        pod_spec.Port(port.host_port, port.protocol or "TCP", port.host_ip) for port in ports if port.host_port > 0
    )


def _disks(volume: wire.WireVolume) -> list[pod_spec.Disk]:
    """Disks as kube-scheduler's NoDiskConflict tells them apart. An image in Ceph is the same if any of the monitors
    is: one disk for each of them."""
    if (gce := volume.gce_persistent_disk) is not None:
        return [pod_spec.Disk("GCE disk", gce.pd_name, gce.read_only, shareable=True)]
    if (aws := volume.aws_elastic_block_store) is not None:
        return [pod_spec.Disk("AWS disk", aws.volume_id, aws.read_only)]
    if (iscsi := volume.iscsi) is not None:
        return [pod_spec.Disk("iSCSI disk", iscsi.iqn, iscsi.read_only, shareable=True)]
    if (rbd := volume.rbd) is not None:
        names = [f"{monitor}/{rbd.pool}/{rbd.image}" for monitor in rbd.monitors]
        return [pod_spec.Disk("RBD image", name, rbd.read_only, shareable=True) for name in names]
    # Of these kube-scheduler tells no two apart, so none clashes.
    kinds = {
        "Fibre Channel disk": volume.fc,
        "FlexVolume": volume.flex_volume,
        "vSphere disk": volume.vsphere_volume,
        "Portworx volume": volume.portworx_volume,
        "Photon disk": volume.photon_persistent_disk,
        "ScaleIO volume": volume.scale_io,
        "StorageOS volume": volume.storageos,
    }
    return [
        pod_spec.Disk(kind, volume.name, read_only=True, shareable=True)
        for kind, present in kinds.items()
        if present is not None
    ]


def _local(volume: wire.WireVolume) -> bool:
    """Whether what it stores is lost with the pod: the claim of an ephemeral volume is deleted with its pod, and so is
    an inline CSI volume. One that is read only, as for secrets and certificates, has nothing of the pod's."""
    inline = volume.csi is not None and not volume.csi.read_only
    kinds = (volume.empty_dir, volume.host_path, volume.ephemeral, volume.git_repo)
    return inline or any(kind is not None for kind in kinds)


def _claims(volume: wire.WireVolume) -> bool:
    return volume.persistent_volume_claim is not None or volume.ephemeral is not None


_MOST_SPREAD = 64
"""Topology spread constraints of a pod: each is counted over all nodes and pods, and hundreds take minutes."""


def _unsupported(spec: wire.PodSpec, needs: pod_spec.Needs) -> list[str]:
    """The scheduling constraints of a pod that elasticd does not support, by name."""
    spread = _read(spec.topology_spread_constraints, list[wire.WireSpread])
    groups = [bytes(field) for field in (spec.workload_ref, spec.scheduling_group)]
    volumes = spec.volumes or ()
    unsupported = {
        "values of its topology spread constraints": not all(map(_is_known, spread)),
        f"more than {_MOST_SPREAD} topology spread constraints": len(spread) > _MOST_SPREAD,
        "operators of its node affinity": _has_unknown(_node_rules(needs), get_args(pod_spec.Operator)),
        "operators of its label selectors": _has_unknown(_pod_rules(needs), _SELECTING),
        "resource claims": bool(_read(spec.resource_claims, list[Raw])),
        "volumes of a limited number": any(volume.azure_disk or volume.cinder for volume in volumes),
        "groups of pods that start together": any(group not in (b"", b"null") for group in groups),
        "features that nodes declare": _needs_features(spec),
    }
    return [feature for feature, present in unsupported.items() if present]


def _needs_features(spec: wire.PodSpec) -> bool:
    """Whether only nodes run it that declare features. Source: component-helpers, nodedeclaredfeatures, of 1.36."""
    rules = [
        rule
        for container in (*(spec.containers or ()), *(spec.init_containers or ()))
        for rule in _read(container.restart_policy_rules, list[wire.RestartRule])
    ]
    apart = spec.host_network and spec.host_users is False
    return apart or any(rule.action == "RestartAllContainers" for rule in rules)


_SELECTING = ("In", "NotIn", "Exists", "DoesNotExist")
"""The operators of label selectors."""


def _has_unknown(rules: Iterable[pod_spec.Expression], known: Collection[str]) -> bool:
    return any(rule.operator not in known for rule in rules)


def _node_rules(needs: pod_spec.Needs) -> Iterator[pod_spec.Expression]:
    for term in (*(needs.affinity or ()), *(each.term for each in needs.prefers_nodes)):
        yield from (*term.labels, *term.fields)


def _pod_rules(needs: pod_spec.Needs) -> Iterator[pod_spec.Expression]:
    for term in (*needs.repels, *needs.attracts, *(each.term for each in needs.prefers)):
        yield from (*(term.labels or ()), *(term.among or ()))
    for spread in needs.spread:
        yield from spread.labels or ()


def _is_known(spread: wire.WireSpread) -> bool:
    """Whether all words of a constraint are known."""
    policies = (spread.node_affinity_policy, spread.node_taints_policy)
    return spread.when_unsatisfiable in _UNSATISFIABLE and all(each in (None, "Honor", "Ignore") for each in policies)


_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")


def _spread(spread: wire.WireSpread) -> pod_spec.TopologySpread:
    """A constraint of the model, with the defaults of the API."""
    return pod_spec.TopologySpread(
        topology=sys.intern(spread.topology_key),
        max_skew=spread.max_skew,
        labels=rules_of(spread.label_selector),
        hard=spread.when_unsatisfiable != "ScheduleAnyway",
        min_domains=1 if spread.min_domains is None else spread.min_domains,
        match_keys=spread.match_label_keys or (),
        honours_affinity=spread.node_affinity_policy != "Ignore",
        honours_taints=spread.node_taints_policy == "Honor",
    )


def rules_of(selector: wire.LabelSelector | None) -> tuple[pod_spec.Expression, ...] | None:
    """The rules of a selector; None: there is no selector, so it selects nothing."""
    if selector is None:
        return None
    pairs = [pod_spec.Expression(key, "In", (value,)) for key, value in (selector.match_labels or {}).items()]
    return (*pairs, *map(_expression, selector.match_expressions or ()))


def _pod_term(term: wire.WirePodTerm) -> pod_spec.PodTerm:
    """A term of inter-pod affinity. An empty selector of namespaces selects all."""
    among = rules_of(term.namespace_selector)
    namespaces = None if among == () else term.namespaces or ()
    return pod_spec.PodTerm(sys.intern(term.topology_key), rules_of(term.label_selector), namespaces, among or None)


def _pod_preferences(
    affinity: wire.Affinity[list[wire.WirePodTerm], wire.WirePodPreference], sign: int
) -> Iterator[pod_spec.PodPreference]:
    for each in affinity.preferred or ():
        yield pod_spec.PodPreference(_pod_term(each.pod_affinity_term), sign * each.weight)


_MEASURED = ("cpu", "memory")
"""The resources whose use is measured."""


def to_node(node: wire.WireNode) -> model.Node:
    """A node of the model."""
    ready = next((condition for condition in node.status.conditions or () if condition.type == "Ready"), None)
    return model.Node(
        name=sys.intern(node.metadata.name),
        uid=node.metadata.uid,
        ready=ready is not None and ready.status == "True",
        # Once its finalizers are gone so is the node, with its pods.
        unschedulable=node.spec.unschedulable or node.metadata.deletion_timestamp is not None,
        labels=labels_of(node.metadata),
        allocatable=_amounts(node.status.allocatable),
        # A taint of an unknown effect keeps pods off.
        taints=tuple(pod_spec.Taint(taint.key, taint.effect, taint.value) for taint in node.spec.taints or ()),  # type: ignore[arg-type]
        annotations=_looked_at(node.metadata.annotations),
        images=tuple([_image(bytes(image)) for image in node.status.images or ()]),
        capacity={name: had for name, had in _amounts(node.status.capacity).items() if name in _MEASURED},
    )


@lru_cache(maxsize=MOST)
def _image(body: bytes) -> model.Image:
    image = _read(body, wire.WireImage)
    return model.Image(image.names or (), image.size_bytes)


def _looked_at(annotations: wire.Labels) -> dict[str, str]:
    """The annotations of a pod or node that decisions use; nearly always none."""
    if not annotations:
        return _NOTHING
    return {key: value for key, value in annotations.items() if key.startswith(_OURS) or key in _OTHERS}


def annotations_of(meta: wire.Metadata) -> dict[str, str]:
    """A workload's annotations without kubectl's copy of the manifest, the largest part of most objects."""
    return {key: value for key, value in (meta.annotations or {}).items() if key != _LAST_APPLIED}


def _undone(meta: wire.WorkloadMetadata) -> bool:
    """Whether `kubectl rollout undo` was the last to write a Deployment, by times in whole seconds; in doubt not: what
    is applied by the server may have no time."""
    entries = [entry for entry in meta.managed_fields or () if not entry.subresource and entry.manager != OURSELVES]
    times = [entry.time for entry in entries if entry.is_undo and entry.has_template]
    return bool(times) and all("" < entry.time < times[0] for entry in entries if not entry.is_undo)


def rolled_back(meta: wire.WorkloadMetadata) -> tuple[str, ...]:
    """Annotations of elasticd that a rollback brought back from a ReplicaSet, which keeps a copy of each that its
    Deployment ever had: the mark of a zero, and the fence of a takeover."""
    annotations = meta.annotations or {}
    if REVISION not in annotations:  # only of a Deployment are annotations rolled back
        return ()
    marks: tuple[tuple[str, Literal["zero", "fence"]], ...] = ((ZERO, "zero"), (FENCE, "fence"))
    return tuple([
        annotation
        for annotation, name in marks
        if annotation in annotations
        and {entry.is_undo for entry in meta.managed_fields or () if entry.has(name)} == {True}
    ])  # fmt: skip


def annotations_that_count(meta: wire.WorkloadMetadata) -> dict[str, str]:
    """A workload's annotations without those that a rollback brought back."""
    return _without(annotations_of(meta), rolled_back(meta))


def _without(annotations: dict[str, str], others: Collection[str]) -> dict[str, str]:
    return {key: text for key, text in annotations.items() if key not in others} if others else annotations


def to_workload(api_version: str, kind: str, workload: wire.WireWorkload) -> model.Workload:
    """A workload of apps/v1. An absent spec.replicas is 1, as its API says."""
    writer, writer_since = _writer(workload.metadata.managed_fields)
    brought_back = rolled_back(workload.metadata)
    return model.Workload(
        ref=_ref_of(workload.metadata, api_version, kind),
        uid=workload.metadata.uid,
        version=workload.metadata.resource_version,
        replicas=1 if workload.spec.replicas is None else workload.spec.replicas,
        status_replicas=workload.status.replicas or 0,
        selector=to_text(workload.spec.selector),
        labels=labels_of(workload.metadata),
        annotations=_without(annotations_of(workload.metadata), brought_back),
        rolled_back=brought_back,
        undone=kind == "Deployment" and _undone(workload.metadata),
        rollout=rollout(kind, workload),
        unfinished=_unfinished(kind, workload),
        new_revision=_new_revision(kind, workload),
        replaces_from=_replaces_from(kind, workload),
        recreate=workload.spec.strategy is not None and workload.spec.strategy.type == "Recreate",
        min_ready=float(workload.spec.min_ready_seconds or 0),
        ordered=kind == "StatefulSet" and workload.spec.pod_management_policy != "Parallel",
        first_ordinal=workload.spec.ordinals.start if workload.spec.ordinals else 0,
        writer=writer,
        writer_since=writer_since,
        surge_writer=_surge_writer(workload.metadata),
        owner=owner_of(api_version, kind, workload.metadata),
    )


def owner_of(api_version: str, kind: str, meta: wire.Metadata) -> str:
    """The controller of a workload, where that sets its count; nearly always none."""
    if not meta.owner_references or not sets_count(api_version, kind):
        return ""
    owners = [f"{owner.kind}/{owner.name}" for owner in meta.owner_references if owner.controller]
    return sys.intern(owners[0]) if owners else ""


def _writer(managed: list[wire.ManagedFields] | None) -> tuple[str, float]:
    """The field manager that owns spec.replicas, and since when, in seconds since the epoch (0: unknown); of several,
    the last to have set it."""
    latest = ""
    writer = ""
    for entry in managed or ():
        fields = entry.fields_v1
        if fields and fields.spec and fields.spec.replicas is not None and entry.time >= latest:
            latest, writer = entry.time, entry.manager
    since = parse_time(latest)
    return sys.intern(writer), 0.0 if isnan(since) else since


def _surge_writer(meta: wire.WorkloadMetadata) -> str:
    """The field manager that owns the note of a surge, unless elasticd does. A write of what is there changes no owner,
    and who removes an annotation ends all ownership of it. Source: Server-Side Apply, field management of updates."""
    if SURGE not in (meta.annotations or ()):
        return ""
    managers = [entry.manager for entry in meta.managed_fields or () if entry.has("surge")]
    return "" if OURSELVES in managers else "".join(managers[:1])


def scaled_workload(api_version: str, kind: str, meta: wire.Metadata, scale: wire.WireScale) -> model.Workload:
    """Any other workload, of whose kind only the metadata and the scale subresource are known."""
    return model.Workload(
        ref=_ref_of(meta, api_version, kind),
        uid=scale.metadata.uid or meta.uid,
        version=scale.metadata.resource_version or meta.resource_version,
        replicas=scale.replicas,
        status_replicas=scale.status.replicas or 0,
        selector=scale.status.selector,
        labels=labels_of(meta),
        annotations=annotations_of(meta),
        owner=owner_of(api_version, kind, meta),
    )


def _ref_of(meta: wire.Metadata, api_version: str, kind: str) -> model.Ref:
    return model.Ref(sys.intern(meta.namespace), kind, meta.name, api_version)


def rollout(kind: str, workload: wire.WireWorkload) -> str:
    """What a rollout has left to do, in a few words; empty: nothing, or the kind has no rollouts.

    A change of the count alone is no rollout. Source: kubectl rollout status, without its wait for availability,
    because pods that a scale-out added are not available at first either.
    """
    if kind not in ("Deployment", "StatefulSet"):
        return ""
    left = _deployment_rollout(workload) if kind == "Deployment" else _stateful_rollout(workload)
    is_seen = (workload.status.observed_generation or 0) >= workload.metadata.generation
    return left or ("" if is_seen else model.UNSEEN)


_PROGRESSES = frozenset(("NewReplicaSetCreated", "FoundNewReplicaSet", "ReplicaSetUpdated", "DeploymentResumed"))
"""The reasons of a Deployment's condition Progressing until its new pods are available. A scale-out keeps the reason
NewReplicaSetAvailable. Source: syncRolloutStatus of the deployment controller."""


def _unfinished(kind: str, workload: wire.WireWorkload) -> bool:
    status = workload.status
    if kind == "StatefulSet":
        return status.current_revision != status.update_revision
    reasons = {condition.reason for condition in status.conditions or ()}
    return kind == "Deployment" and not _PROGRESSES.isdisjoint(reasons)


def _new_revision(kind: str, workload: wire.WireWorkload) -> str:
    """The revision of a StatefulSet's newest template, unless its controller says that all pods are of it and ready.
    Where the template was changed back, it says that from the start, and only counts fewer."""
    status = workload.status
    is_over = status.current_revision == status.update_revision
    is_whole = (status.updated_replicas or 0) >= (status.replicas or 0)
    return "" if kind != "StatefulSet" or (is_over and is_whole) else status.update_revision


def _replaces_from(kind: str, workload: wire.WireWorkload) -> int:
    strategy = workload.spec.update_strategy
    if kind != "StatefulSet" or strategy is None:
        return 0
    if strategy.type == "OnDelete":
        return MOST_REPLICAS
    return (strategy.rolling_update.partition or 0) if strategy.rolling_update else 0


def _deployment_rollout(workload: wire.WireWorkload) -> str:
    """Old pods are left. A rollout that has missed its deadline is not in progress, as the Deployment itself says."""
    status = workload.status
    total, updated = status.replicas or 0, status.updated_replicas or 0
    if total <= updated or any(condition.reason == "ProgressDeadlineExceeded" for condition in status.conditions or ()):
        return ""
    return f"{updated} of {total} pods are of the newest template"


def _stateful_rollout(workload: wire.WireWorkload) -> str:
    """Pods of the old revision are left that it will replace by itself."""
    status, strategy = workload.status, workload.spec.update_strategy
    if status.current_revision == status.update_revision or (strategy and strategy.type == "OnDelete"):
        return ""
    partition = strategy.rolling_update.partition if strategy and strategy.rolling_update else None
    replicas = 1 if workload.spec.replicas is None else workload.spec.replicas
    updated, expected = status.updated_replicas or 0, max(0, replicas - (partition or 0))
    return f"{updated} of {expected} pods are of the newest template" if updated < expected else ""
