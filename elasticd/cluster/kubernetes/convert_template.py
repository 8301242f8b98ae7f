"""What pods of one template have alike, from the wire format to the model: containers, requests and needs.

Knows what each field means to a scheduler; knows nothing of a pod's own name, node or state. Pods of one template are
read once, and share one record of each.
"""

import sys
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar, get_args

import msgspec
from msgspec import Raw, Struct

from elasticd import model, needs
from elasticd.cluster.kubernetes.wire import UNREAD, PodSpec, WireAffinity, WireContainer, WirePod
from elasticd.cluster.kubernetes.wire_template import (
    Amount,
    Amounts,
    NodeAffinity,
    NodeTerm,
    PodAffinity,
    PodSelector,
    PodTerm,
    Resources,
    SpreadConstraint,
    WirePort,
    WireRequirement,
    WireToleration,
    WireVolume,
)
from elasticd.units import parse_quantity

ContainerKey = tuple[str, bytes, bytes, bool]
"""Name, resources and ports as they came, and whether it is a sidecar."""


class Template(NamedTuple):
    """All of a pod that its template decides, as it came, so that equal ones are found equal without reading them."""

    containers: tuple[ContainerKey, ...]
    starting: tuple[ContainerKey, ...]
    volumes: tuple[WireVolume, ...] | None
    selector: bytes
    tolerations: bytes
    affinity: tuple[bytes, bytes, bytes]
    rare: "Rare"
    scheduler: str
    restart: str
    priority: int | None
    priority_class: str
    preemption: str | None
    grace: int | None


class Rare(NamedTuple):
    """What few pods have."""

    resources: bytes
    overhead: bytes
    spread: bytes
    claims: bytes
    gates: bytes
    group: bytes


class Shape(Struct, frozen=True, gc=False):
    """What the model has of a template."""

    containers: tuple[model.Container, ...]
    requests: dict[str, float]
    needs: needs.Needs


def shape_of(pod: WirePod) -> Shape:
    """The same record for all pods of a template. Raises msgspec.ValidationError when a part of it is unreadable.

    Every pod that is read goes through here: the template is told by its place, not by name, which takes half as long.
    """
    spec = pod.spec
    return _shape(
        tuple([(one.name, bytes(one.resources), bytes(one.ports), False) for one in spec.containers or ()]),
        _starting(spec.init_containers) if spec.init_containers else (),
        spec.volumes,
        bytes(spec.node_selector),
        bytes(spec.tolerations),
        _affinity_key(pod, spec.affinity) if spec.affinity else _NONE,
        _NOTHING if _plain(spec) else _rare(spec),
        spec.scheduler_name,
        spec.restart_policy,
        spec.priority,
        spec.priority_class_name,
        spec.preemption_policy,
        spec.termination_grace_period_seconds,
    )


_NONE = (b"", b"", b"")
_NOTHING = Rare(b"", b"", b"", b"", b"", b"")


def _plain(spec: PodSpec) -> bool:
    return (
        spec.resources is UNREAD
        and spec.overhead is UNREAD
        and spec.topology_spread_constraints is UNREAD
        and spec.resource_claims is UNREAD
        and spec.scheduling_gates is UNREAD
        and spec.workload_ref is UNREAD
        and spec.scheduling_group is UNREAD
    )


def _rare(spec: PodSpec) -> Rare:
    return Rare(
        bytes(spec.resources),
        bytes(spec.overhead),
        bytes(spec.topology_spread_constraints),
        bytes(spec.resource_claims),
        bytes(spec.scheduling_gates),
        bytes(spec.workload_ref) + bytes(spec.scheduling_group),
    )


def _starting(containers: list[WireContainer]) -> tuple[ContainerKey, ...]:
    return tuple(
        (one.name, bytes(one.resources), bytes(one.ports), one.restart_policy == "Always") for one in containers
    )


def _affinity_key(pod: WirePod, affinity: WireAffinity) -> tuple[bytes, bytes, bytes]:
    """A DaemonSet's pod names its node in its affinity, so that none would be like another: on it, that is left out."""
    nodes = b""
    if affinity.node_affinity is not UNREAD and not (pod.spec.node_name and _of_daemon_set(pod)):
        nodes = bytes(affinity.node_affinity)
    return nodes, bytes(affinity.pod_affinity), bytes(affinity.pod_anti_affinity)


def _of_daemon_set(pod: WirePod) -> bool:
    return any(one.kind == "DaemonSet" and one.controller for one in pod.metadata.owner_references or ())


@lru_cache(maxsize=8192)
def _shape(*parts: Any) -> Shape:
    template = Template(*parts)
    ordinary = [_container(key) for key in template.containers]
    starting = [_container(key) for key in template.starting]
    whole = _amounts(_read(template.rare.resources, Resources, Resources()).requests)
    requests = needs.effective(
        [one.requests for one in ordinary],
        [(one.requests, one.sidecar) for one in starting],
        whole,
        _amounts(_read(template.rare.overhead, dict[str, Amount], {})),
    )
    return Shape((*ordinary, *[one for one in starting if one.sidecar]), whole, _needs(template, requests))


def _needs(template: Template, requests: dict[str, float]) -> needs.Needs:
    nodes = _read(template.affinity[0], NodeAffinity, NodeAffinity()).required
    terms = None if nodes is None else tuple(_term(one) for one in nodes.node_selector_terms or ())
    repels = _read(template.affinity[2], PodAffinity, PodAffinity()).required or []
    volumes = template.volumes or ()
    restart = template.restart if template.restart in get_args(needs.Restart) else "Always"
    return needs.Needs(
        scheduler=template.scheduler or "default-scheduler",
        restart=restart,  # type: ignore[arg-type]
        priority=template.priority or 0,
        priority_class=template.priority_class,
        preempts=template.preemption != "Never",
        requests=requests,
        selector=_read(template.selector, dict[str, str], {}),
        affinity=terms,
        tolerations=tuple(filter(None, map(_toleration, _read(template.tolerations, list[WireToleration], [])))),
        ports=_ports(template),
        disks=tuple(disk for one in volumes for disk in _disks(one)),
        unsupported=tuple(_unsupported(template, terms or ())),
        gated=bool(_read(template.rare.gates, list[Raw], [])),
        grace=30.0 if template.grace is None else float(template.grace),
        local=any(one.empty_dir is not None or one.host_path is not None for one in volumes),
        claims=any(map(_claims, volumes)),
        repels=tuple(_repel(one) for one in repels),
    )


T = TypeVar("T")


def _read(raw: bytes, shape: type[T], default: T) -> T:
    return default if raw in (b"", b"null") else msgspec.json.decode(raw, type=shape)


def _container(key: ContainerKey) -> model.Container:
    name, resources, _, sidecar = key
    return _shared_container(sys.intern(name), resources, sidecar)


@lru_cache(maxsize=8192)
def _shared_container(name: str, resources: bytes, sidecar: bool) -> model.Container:
    found = _read(resources, Resources, Resources())
    return model.Container(name, _amounts(found.requests), sidecar, _amounts(found.limits))


@lru_cache(maxsize=8192)
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


def _ports(template: Template) -> tuple[needs.Port, ...]:
    """The ports of the node that it takes while it runs."""
    running = [*template.containers, *[one for one in template.starting if one[3]]]
    found = [port for _, _, raw, _ in running for port in _read(raw, list[WirePort], [])]
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


def _unsupported(template: Template, terms: tuple[needs.Term, ...]) -> list[str]:
    """What a scheduler must heed that elasticd does not know."""
    spread = _read(template.rare.spread, list[SpreadConstraint], [])
    near, apart = (_read(raw, PodAffinity, PodAffinity()).required for raw in template.affinity[1:])
    volumes = template.volumes or ()
    rules = [rule for term in terms for rule in (*term.labels, *term.fields)]
    asked = {
        "topology spread constraints": any(one.when_unsatisfiable != "ScheduleAnyway" for one in spread),
        "inter-pod affinity": bool(near),
        "inter-pod anti-affinity": bool(apart),
        "operators of its node affinity": any(one.operator not in get_args(needs.Operator) for one in rules),
        "resource claims": bool(_read(template.rare.claims, list[Raw], [])),
        "persistent volume claims": any(map(_claims, volumes)),
        "volumes of a limited number": any(one.azure_disk or one.cinder for one in volumes),
        "groups of pods that start together": template.rare.group not in (b"", b"null"),
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
