"""What pods of one template have alike, from the wire format to the model: containers, requests and needs; and with
them what a kubelet has given to pods that were resized.

Knows what each field means to a scheduler; knows nothing of a pod's own name, node or state. Pods of one template are
read once, and share one record of each.
"""

import sys
from functools import lru_cache
from typing import TypeVar, get_args

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from elasticd.base.units import parse_quantity
from elasticd.cluster.kubernetes.wire.objects import (
    ContainerStatus,
    PodMetadata,
    PodSpec,
    PodStatus,
    WireAffinity,
    WireContainer,
    WirePod,
)
from elasticd.cluster.kubernetes.wire.pod_template import (
    UNREAD,
    Amount,
    Amounts,
    NodeAffinity,
    NodeTerm,
    OwnerReference,
    PodAffinity,
    PodSelector,
    PodTerm,
    ResourceRequirements,
    SpreadConstraint,
    WirePort,
    WireRequirement,
    WireToleration,
    WireVolume,
)
from elasticd.model import pod_spec as needs
from elasticd.model import workload as model

Owner = tuple[str, str, str]
"""Kind, name and UID of a pod's controller."""

_NOBODY: Owner = ("", "", "")
_MOST = 8192
"""Templates, controllers and quantities that are known at once."""


class Shape(Struct, frozen=True, gc=False):
    """What the model has of a template."""

    containers: tuple[model.Container, ...]
    requests: dict[str, float]
    needs: needs.Needs
    overall: dict[str, float]


_known: dict[bytes, Shape] = {}


def shape_of(pod: WirePod) -> Shape:
    """The same record for all pods of a template. Raises msgspec.ValidationError when a part of it is unreadable."""
    key = _key(pod)
    found = _known.get(key)
    if found is None:
        found = _shape(pod)
        if len(_known) >= _MOST:
            _known.clear()
        _known[key] = found
    return found


def _key(pod: WirePod) -> bytes:
    """All of a pod that its template decides. Every pod that is read goes through here: one text of it is made and
    compared sooner than its parts are. (No JSON: nothing stands for what is not there.)"""
    spec = pod.spec
    return _TEXT.encode(
        (
            spec.containers,
            spec.init_containers,
            spec.volumes,
            _affinity(pod) if spec.affinity is not None else None,
            spec.tolerations,
            spec.node_selector,
            spec.resources,
            spec.overhead,
            spec.topology_spread_constraints,
            spec.resource_claims,
            spec.scheduling_gates,
            spec.workload_ref,
            spec.scheduling_group,
            spec.scheduler_name,
            spec.restart_policy,
            spec.priority,
            spec.priority_class_name,
            spec.preemption_policy,
            spec.termination_grace_period_seconds,
            _given(pod.status),
        )
    )


_TEXT = msgspec.json.Encoder()


def _given(status: PodStatus) -> object:
    """What the pod was given, where its kubelet tells that: nearly always what its template says."""
    containers = [*(status.container_statuses or ()), *(status.init_container_statuses or ())]
    given = [(one.name, one.resources, one.allocated_resources) for one in containers if bytes(one.resources)]
    if not given and not bytes(status.resources):
        return None
    return given, status.resources, status.allocated_resources, is_infeasible(status)


def is_infeasible(status: PodStatus) -> bool:
    """Whether the pod's node can never give it what it requests."""
    return any(one.type == "PodResizePending" and one.reason == "Infeasible" for one in status.conditions or ())


def _affinity(pod: WirePod) -> WireAffinity:
    """A DaemonSet's pod names its node in its affinity, so that none would be like another: on it, that is left out."""
    found = pod.spec.affinity or WireAffinity()
    if pod.spec.node_name and found.node_affinity is not UNREAD and family_of(pod.metadata)[1][0] == "DaemonSet":
        return replace(found, node_affinity=UNREAD)
    return found


def family_of(meta: PodMetadata) -> tuple[dict[str, str], Owner]:
    """A pod's labels and controller. The pods of a controller have equal ones: one record serves them all. Raises
    msgspec.ValidationError."""
    return _family(b"\0".join((meta.labels, meta.owner_references)))


@lru_cache(maxsize=_MOST)
def _family(both: bytes) -> tuple[dict[str, str], Owner]:
    labels, _, owners = both.partition(b"\0")
    shared = {sys.intern(key): sys.intern(value) for key, value in _read(labels, dict[str, str], {}).items()}
    controller = next((one for one in _read(owners, list[OwnerReference], []) if one.controller), None)
    return shared, (sys.intern(controller.kind), controller.name, controller.uid) if controller else _NOBODY


def _shape(pod: WirePod) -> Shape:
    spec, status = pod.spec, pod.status
    ordinary = [_container(one) for one in spec.containers or ()]
    starting = [_container(one, sidecar=_sidecar(one)) for one in spec.init_containers or ()]
    whole = _amounts(_read(spec.resources, ResourceRequirements, ResourceRequirements()).requests)
    held = {one.name: one for one in (*(status.init_container_statuses or ()), *(status.container_statuses or ()))}
    overhead = _amounts(_read(spec.overhead, dict[str, Amount], {}))
    infeasible = is_infeasible(status)
    requests = needs.effective(
        [_held(one.requests, held.get(one.name), infeasible) for one in ordinary],
        [
            (_held(one.requests, held.get(one.name) if one.sidecar else None, infeasible), one.sidecar)
            for one in starting
        ],
        _held(whole, status, infeasible) if whole else {},
        overhead,
    )
    overall = dict[str, float]()
    if whole:
        asked = [(one.requests, one.sidecar) for one in starting]
        overall = needs.effective([one.requests for one in ordinary], asked, whole, overhead)
    return Shape((*ordinary, *[one for one in starting if one.sidecar]), whole, _needs(pod, requests), overall)


def _held(asked: dict[str, float], status: ContainerStatus | PodStatus | None, infeasible: bool) -> dict[str, float]:
    """What a scheduler counts of a container, or of a pod as a whole, while it is resized: the greatest of what it asks
    for, what its kubelet has set aside, and what it has. What it asks for in vain does not count."""
    if status is None or bytes(status.resources) in (b"", b"null"):
        return asked
    has = _amounts(_read(status.resources, ResourceRequirements, ResourceRequirements()).requests)
    set_aside = _amounts(_read(status.allocated_resources, dict[str, Amount], {}))
    return needs.greatest([has, set_aside] if infeasible else [asked, has, set_aside])


def _sidecar(container: WireContainer) -> bool:
    return container.restart_policy == "Always"


def _needs(pod: WirePod, requests: dict[str, float]) -> needs.Needs:
    spec = pod.spec
    affinity = _affinity(pod)
    nodes = _read(affinity.node_affinity, NodeAffinity, NodeAffinity()).required
    terms = None if nodes is None else tuple(_term(one) for one in nodes.node_selector_terms or ())
    repels = _read(affinity.pod_anti_affinity, PodAffinity, PodAffinity()).required or []
    volumes = spec.volumes or ()
    restart = spec.restart_policy if spec.restart_policy in get_args(needs.Restart) else "Always"
    grace = spec.termination_grace_period_seconds
    return needs.Needs(
        scheduler=spec.scheduler_name or "default-scheduler",
        restart=restart,  # type: ignore[arg-type]
        priority=spec.priority or 0,
        priority_class=spec.priority_class_name,
        preempts=spec.preemption_policy != "Never",
        requests=requests,
        selector=_read(spec.node_selector, dict[str, str], {}),
        affinity=terms,
        tolerations=tuple(filter(None, map(_toleration, _read(spec.tolerations, list[WireToleration], [])))),
        ports=_ports(spec),
        disks=tuple(disk for one in volumes for disk in _disks(one)),
        unsupported=tuple(_unsupported(spec, affinity, terms or ())),
        gated=bool(_read(spec.scheduling_gates, list[Raw], [])),
        grace=30.0 if grace is None else float(grace),
        local=any(one.empty_dir is not None or one.host_path is not None for one in volumes),
        claims=any(map(_claims, volumes)),
        repels=tuple(_repel(one) for one in repels),
    )


T = TypeVar("T")


def _read(raw: Raw | bytes, shape: type[T], default: T) -> T:
    found = bytes(raw)
    return default if found in (b"", b"null") else msgspec.json.decode(found, type=shape)


def _container(container: WireContainer, *, sidecar: bool = False) -> model.Container:
    return _shared_container(sys.intern(container.name), bytes(container.resources), sidecar)


@lru_cache(maxsize=_MOST)
def _shared_container(name: str, resources: bytes, sidecar: bool) -> model.Container:
    found = _read(resources, ResourceRequirements, ResourceRequirements())
    return model.Container(name, _amounts(found.requests), sidecar, _amounts(found.limits))


@lru_cache(maxsize=_MOST)
def _parse(quantity: Amount) -> float | None:
    try:
        return parse_quantity(quantity) if isinstance(quantity, str) else float(quantity)
    except ValueError:
        return None


def _amounts(quantities: Amounts) -> dict[str, float]:
    """An unreadable quantity is left out: to judgement that is a missing request, never a zero."""
    parsed = {name: _parse(quantity) for name, quantity in (quantities or {}).items()}
    return {sys.intern(name): value for name, value in parsed.items() if value is not None}


def amounts(quantities: Amounts) -> dict[str, float]:
    """Quantities in base units, without those that are unreadable."""
    return _amounts(quantities)


def _term(term: NodeTerm) -> needs.Term:
    return needs.Term(
        tuple(map(_expression, term.match_expressions or ())), tuple(map(_expression, term.match_fields or ()))
    )


def _expression(rule: WireRequirement) -> needs.Expression:
    return needs.Expression(rule.key, rule.operator, rule.values or ())  # type: ignore[arg-type]


def _toleration(found: WireToleration) -> needs.Toleration | None:
    """An operator that is not known tolerates nothing."""
    operator = found.operator or "Equal"
    if operator not in ("Equal", "Exists"):
        return None
    return needs.Toleration(found.key, operator, found.value, found.effect)  # type: ignore[arg-type]


def _ports(spec: PodSpec) -> tuple[needs.Port, ...]:
    """The ports of the node that it takes while it runs."""
    running = [*(spec.containers or ()), *filter(_sidecar, spec.init_containers or ())]
    found = [port for one in running for port in _read(one.ports, list[WirePort], [])]
    return tuple(needs.Port(one.host_port, one.protocol or "TCP", one.host_ip) for one in found if one.host_port > 0)


def _disks(volume: WireVolume) -> list[needs.Disk]:
    """Disks as kube-scheduler's NoDiskConflict tells them apart. An image in Ceph is the same if any of the monitors
    is: one disk for each of them."""
    if (gce := volume.gce_persistent_disk) is not None:
        return [needs.Disk("GCE disk", gce.pd_name, gce.read_only, shareable=True)]
    if (aws := volume.aws_elastic_block_store) is not None:
        return [needs.Disk("AWS disk", aws.volume_id, aws.read_only)]
    if (iscsi := volume.iscsi) is not None:
        return [needs.Disk("iSCSI disk", iscsi.iqn, iscsi.read_only, shareable=True)]
    if (rbd := volume.rbd) is not None:
        names = [f"{monitor}/{rbd.pool}/{rbd.image}" for monitor in rbd.monitors]
        return [needs.Disk("RBD image", name, rbd.read_only, shareable=True) for name in names]
    return []


def _claims(volume: WireVolume) -> bool:
    return volume.persistent_volume_claim is not None or volume.ephemeral is not None


def _unsupported(spec: PodSpec, affinity: WireAffinity, terms: tuple[needs.Term, ...]) -> list[str]:
    """What a scheduler must heed that elasticd does not know."""
    spread = _read(spec.topology_spread_constraints, list[SpreadConstraint], [])
    near, apart = (
        _read(raw, PodAffinity, PodAffinity()).required for raw in (affinity.pod_affinity, affinity.pod_anti_affinity)
    )
    groups = [bytes(one) for one in (spec.workload_ref, spec.scheduling_group)]
    volumes = spec.volumes or ()
    rules = [rule for term in terms for rule in (*term.labels, *term.fields)]
    asked = {
        "topology spread constraints": any(one.when_unsatisfiable != "ScheduleAnyway" for one in spread),
        "inter-pod affinity": bool(near),
        "inter-pod anti-affinity": bool(apart),
        "operators of its node affinity": any(one.operator not in get_args(needs.Operator) for one in rules),
        "resource claims": bool(_read(spec.resource_claims, list[Raw], [])),
        "persistent volume claims": any(map(_claims, volumes)),
        "volumes of a limited number": any(one.azure_disk or one.cinder for one in volumes),
        "groups of pods that start together": any(one not in (b"", b"null") for one in groups),
    }
    return [words for words, true in asked.items() if true]


def _repel(term: PodTerm) -> needs.Repel:
    """Namespaces that are chosen by their labels, which are not read, count as all."""
    namespaces = None if term.namespace_selector is not None else term.namespaces or ()
    selector = term.label_selector
    return needs.Repel(term.topology_key, None if selector is None else _labels_wanted(selector), namespaces)


def _labels_wanted(selector: PodSelector) -> tuple[needs.Expression, ...]:
    pairs = [needs.Expression(key, "In", (value,)) for key, value in (selector.match_labels or {}).items()]
    return (*pairs, *map(_expression, selector.match_expressions or ()))
