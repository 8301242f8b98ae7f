"""Which nodes a pod may be on by its claims, as kube-scheduler's VolumeBinding, VolumeZone, VolumeRestrictions and
NodeVolumeLimits decide.

Pure. Knows claims, volumes and the labels of nodes; knows nothing of how claims are bound.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from elasticd.base.memo import Memo
from elasticd.kit.node_selection import any_of, every_node
from elasticd.model.placement import Mask, Nodes, Whole
from elasticd.model.pod_spec import PodClaim, Term
from elasticd.model.volumes import (
    ONE_POD,
    SELECTED_NODE,
    SEVERAL_NODES,
    ClaimKey,
    StorageCapacity,
    Volume,
    VolumeClaim,
    Volumes,
)
from elasticd.model.workload import Node, Pod

Indices = NDArray[np.intp]
"""Of nodes."""

UNPROVISIONED = "kubernetes.io/no-provisioner"
"""The provisioner of classes whose volumes nobody makes on demand."""

_MIGRATED = frozenset(f"kubernetes.io/{name}" for name in ("aws-ebs", "gce-pd", "azure-disk", "cinder"))
"""Provisioners whose volumes count for a CSI driver only on nodes where they were migrated to it."""

_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
_PLACES = {
    "failure-domain.beta.kubernetes.io/zone": _ZONE,
    "failure-domain.beta.kubernetes.io/region": _REGION,
    _ZONE: _ZONE,
    _REGION: _REGION,
}
"""The labels that tie volumes to nodes, each with its present name."""


class Blocked(Struct, frozen=True):
    """Why a pod can be on no node: a clause, and what would have to change."""

    why: str
    mend: str


class Mounts(Struct, frozen=True, eq=False):
    """The volumes of a pod's bound claims, and its claims that wait for a pod."""

    bound: tuple[Volume, ...] = ()
    pending: tuple[VolumeClaim, ...] = ()


def mounts_of(pod: Pod, volumes: Volumes | None) -> Mounts | Blocked:
    """What the claims of a pod come to; or why it must wait, whatever the node. `volumes` None: they were not read."""
    if volumes is None:
        return Blocked("its volumes are not known", "")
    if volumes.unknown:
        resources = ", ".join(volumes.unknown)
        text = f"{resources} can be read (right to list and watch them)"
        return Blocked(f"its volumes are not known, as {resources} could not be read so far", text)
    bound, pending = list[Volume](), list[VolumeClaim]()
    for use in pod.volume_claims:
        match _resolve(pod, use, volumes):
            case Blocked() as blocked:
                return blocked
            case Volume() as volume:
                bound.append(volume)
            case VolumeClaim() as claim:
                pending.append(claim)
    return Mounts(tuple(bound), tuple(pending))


def _resolve(pod: Pod, use: PodClaim, volumes: Volumes) -> Volume | VolumeClaim | Blocked:
    """The volume of a claim, the claim if it waits for a pod, or why neither is of use."""
    claim = volumes.claim((pod.namespace, use.name))
    if claim is None:
        by = " by the controller of ephemeral volumes" if use.own else ""
        return Blocked(f"its claim {use.name} does not exist", f"claim {use.name} is created{by}")
    if why := _unusable(claim, pod.uid if use.own else claim.owner):
        return Blocked(f"its claim {use.name} {why}", f"claim {use.name} is created again")
    return _bound_volume(claim, volumes) if claim.bound else _unbound(claim, volumes)


def _unusable(claim: VolumeClaim, owner: str) -> str:
    """What is wrong with a claim that must be of this owner; empty: nothing."""
    if claim.lost:
        return f"has lost its volume {claim.volume}"
    if claim.deleted:
        return "is being deleted"
    return "" if claim.owner == owner else "was not made for it"


def _bound_volume(claim: VolumeClaim, volumes: Volumes) -> Volume | Blocked:
    volume, name = volumes.volume(claim.volume), claim.name
    if volume is None:
        text = f"the volume {claim.volume} of its claim {name} does not exist"
        return Blocked(text, f"claim {name} is bound to an existing volume")
    if volume.unsupported:
        return Blocked(f"elasticd does not know {volume.unsupported}, the type of volume {volume.name}", _LEAVE)
    return volume


_LEAVE = "its schedulerName is that of kube-scheduler"


def _unbound(claim: VolumeClaim, volumes: Volumes) -> VolumeClaim | Blocked:
    """A claim that waits for a pod, and so is bound when that gets a node; or why it is not of use."""
    found, name = volumes.storage_class(claim.class_name), claim.name
    if found is None and claim.class_name:
        text = f"its claim {name} is not bound, and its storage class {claim.class_name} does not exist"
        return Blocked(text, f"storage class {claim.class_name} is created, or claim {name} is bound")
    if found is None or not found.waits or claim.volume:
        return Blocked(f"its claim {name} is not bound", f"claim {name} is bound")
    if found.provisioner in _MIGRATED:
        return Blocked(f"elasticd does not know {found.provisioner}, the provisioner of its claim {name}", _LEAVE)
    return claim


def within_reach(volumes: Iterable[Volume], nodes: Nodes) -> Mask:
    """The nodes that the node affinity of all these volumes allows."""
    mask = every_node(nodes)
    for volume in volumes:
        if volume.terms is not None:
            mask &= _mask(reach_of(volume, nodes), nodes)
    return mask


def _mask(indices: Indices, nodes: Nodes) -> Mask:
    mask = np.zeros(len(nodes.names), dtype=np.bool_)
    mask[indices] = True
    return mask


def reach_of(volume: Volume, nodes: Nodes) -> Indices:
    """The nodes that the node affinity of a volume allows, ascending."""
    return np.arange(len(nodes.names)) if volume.terms is None else _by_terms(volume.terms, nodes.nodes)


def _matching_terms(terms: tuple[Term, ...], nodes: tuple[Node, ...]) -> Indices:
    candidates = sorted({index for term in terms for index in _candidates(term, nodes)})
    fitting = [index for index in candidates if any(term.matches("", nodes[index].labels) for term in terms)]
    return np.array(fitting, dtype=np.intp)


_by_terms: Memo[tuple[Term, ...], tuple[Node, ...], Indices] = Memo(_matching_terms)


def _candidates(term: Term, nodes: tuple[Node, ...]) -> Iterable[int]:
    """Nodes that may match a term: those with the label values of its first rule of that kind, else all."""
    rule = next((rule for rule in term.labels if rule.operator == "In"), None)
    if rule is None:
        return range(len(nodes))
    by_value = _by_label(rule.key, nodes)
    return [index for value in rule.values for index in by_value.get(value, ())]


def _values(label: str, nodes: tuple[Node, ...]) -> dict[str, list[int]]:
    by_value: dict[str, list[int]] = {}
    for index, node in enumerate(nodes):
        if (value := node.labels.get(label)) is not None:
            by_value.setdefault(value, []).append(index)
    return by_value


_by_label: Memo[str, tuple[Node, ...], dict[str, list[int]]] = Memo(_values, most=64)


class Match(Struct, frozen=True, eq=False):
    """Where all claims that wait for a pod could be bound, and to what."""

    fits: Mask
    offers: tuple[tuple[VolumeClaim, tuple[Volume, ...], Whole], ...] = ()
    """For each claim the volumes that it might get, and for each node which of them it would get there: its index, -1
    if a volume is to be provisioned."""

    def at(self, index: int) -> list[tuple[VolumeClaim, Volume | None]]:
        """What each claim gets if the pod goes to a node; None: a volume that is provisioned."""
        return [
            (claim, None if chosen[index] < 0 else volumes[chosen[index]]) for claim, volumes, chosen in self.offers
        ]


def match_claims(pending: Iterable[VolumeClaim], nodes: Nodes) -> Match:
    """Choose volumes for claims: each gets the smallest that suits it, the smallest claim first; one without any is
    provisioned, if its class can do that for the node. A claim for which that has begun fits its node alone."""
    fits, offers = every_node(nodes), list[tuple[VolumeClaim, tuple[Volume, ...], Whole]]()
    for claim in sorted(pending, key=lambda claim: (not claim.node, claim.size)):
        volumes, chosen = ((), _nothing(nodes)) if claim.node else _choose(claim, offers, nodes)
        fits &= (chosen >= 0) | provisionable(claim, nodes)
        if claim.node:
            index = nodes.index(claim.node)
            fits &= _mask(np.array([] if index is None else [index], dtype=np.intp), nodes)
        offers.append((claim, volumes, chosen))
    return Match(fits, tuple(offers))


def stranded(pending: Iterable[VolumeClaim], nodes: Nodes) -> Blocked | None:
    """Why claims fit no node: a volume is to be made for one that does not exist, or is not among these; None: that is
    not so."""
    claim = next((claim for claim in pending if claim.node and nodes.index(claim.node) is None), None)
    if claim is None:
        return None
    annotation = f"annotation {SELECTED_NODE} of its claim {claim.name}"
    return Blocked(
        f"the {annotation} names {claim.node}, which is not a node of the pool",
        f"the {annotation} is removed, or names another node",
    )


def _nothing(nodes: Nodes) -> Whole:
    return np.full(len(nodes.names), -1, dtype=np.int64)


def _choose(
    claim: VolumeClaim, earlier: Iterable[tuple[VolumeClaim, tuple[Volume, ...], Whole]], nodes: Nodes
) -> tuple[tuple[Volume, ...], Whole]:
    """The volumes that a claim might get, and which of them it gets on each node. One that is kept for the claim is the
    only one; else none that an earlier claim has got there."""
    known, chosen = nodes.volumes, _nothing(nodes)
    if known is None:
        return (), chosen
    kept = known.kept(claim)
    volumes = (kept,) if kept else tuple([volume for volume in known.free(claim.class_name) if volume.suits(claim)])
    taken = [({volume.name: number for number, volume in enumerate(others)}, got) for _, others, got in earlier]
    served: set[tuple[Term, ...] | None] = set()
    for number, volume in enumerate(volumes):
        if volume.terms in served:
            continue  # all nodes that it reaches have a smaller one
        free = reach_of(volume, nodes)
        free = free[chosen[free] < 0]
        before = [(got, other) for numbers, got in taken if (other := numbers.get(volume.name)) is not None]
        for got, other in before:
            free = free[got[free] != other]
        chosen[free] = number
        if not before:
            served.add(volume.terms)
    return volumes, chosen


def provisionable(claim: VolumeClaim, nodes: Nodes) -> Mask:
    """The nodes for which a volume can be provisioned for a claim."""
    volumes = nodes.volumes
    found = None if volumes is None else volumes.storage_class(claim.class_name)
    if volumes is None or found is None or found.provisioner in ("", UNPROVISIONED):
        return ~every_node(nodes)
    able = every_node(nodes)
    if found.topologies is not None:
        able &= _mask(_by_terms(found.topologies, nodes.nodes), nodes)
    capacities = volumes.capacities_of(found)
    if capacities is not None:
        able &= any_of((_offered(each, nodes) for each in capacities if each.size >= claim.size), able)
    return able


def _offered(capacity: StorageCapacity, nodes: Nodes) -> Mask:
    """The nodes for which there is this storage."""
    if capacity.nodes is None:
        return ~every_node(nodes)
    terms = (Term(capacity.nodes),)
    return _mask(_by_terms(terms, nodes.nodes), nodes) if capacity.nodes else every_node(nodes)


def within_zones(volumes: Iterable[Volume], nodes: Nodes) -> Mask:
    """The nodes in the zones and regions that the labels of all these volumes name. A node without any such label is in
    all of them."""
    placed = [(label, zones) for volume in volumes for label in _PLACES if (zones := _zones(volume, label))]
    if not placed:
        return every_node(nodes)
    anywhere = ~nodes.matching("volumes: placed", lambda node: any(label in node.labels for label in _PLACES))
    return anywhere | reduce(np.logical_and, (_zoned(label, zones, nodes) for label, zones in placed))


def _zones(volume: Volume, label: str) -> frozenset[str]:
    """The values of a label of a volume, of which there may be several; empty: none, or they cannot be read."""
    values = frozenset(part.strip() for part in volume.labels.get(label, "").split("__"))
    return frozenset() if "" in values else values


def _zoned(label: str, zones: frozenset[str], nodes: Nodes) -> Mask:
    def obeys(node: Node) -> bool:
        return node.labels.get(label, node.labels.get(_PLACES[label])) in zones

    return nodes.matching(("volumes: zoned", label, zones), obeys)


def in_use(pod: Pod, nodes: Nodes) -> Mask:
    """The nodes with pods that use a claim of this pod's which only one pod may use (ReadWriteOncePod)."""
    alone = exclusive(pod, nodes.volumes)
    if not alone:
        return ~every_node(nodes)
    return nodes.holding(("claims", pod.uid, alone), lambda other: other.uid != pod.uid and uses(other, alone))


def in_use_outside(pod: Pod, nodes: Nodes) -> bool:
    """Whether a pod outside these nodes uses such a claim."""
    outside, alone = nodes.outside, exclusive(pod, nodes.volumes)
    if outside is None or not alone:
        return False
    return bool(outside.holding(("claims", pod.uid, alone), lambda other: uses(other, alone)).any())


def exclusive(pod: Pod, volumes: Volumes | None) -> frozenset[ClaimKey]:
    """The claims of a pod that only one pod may use."""
    claims = [] if volumes is None else [volumes.claim(key) for key in _keys(pod)]
    return frozenset(claim.key for claim in claims if claim is not None and ONE_POD in claim.modes)


def uses(pod: Pod, claims: frozenset[ClaimKey]) -> bool:
    """Whether a pod uses any of these claims."""
    return not claims.isdisjoint(_keys(pod))


def _keys(pod: Pod) -> list[ClaimKey]:
    return [(pod.namespace, use.name) for use in pod.volume_claims]


def shared_claim(
    pod: Pod, residents: Sequence[Pod], volumes: Volumes | None
) -> tuple[str, tuple[str, ...], Pod] | None:
    """A claim that ties a pod to its node, as another of the pods there (`residents`) uses it and stays: Kubernetes
    attaches its volume to no second node meanwhile. Its name, its access modes (empty: not known) and the other pod;
    None: there is no such claim."""
    if not pod.volume_claims:
        return None
    users = _users(pod.node, residents)
    for key in _keys(pod):
        other = next((user for user in users.get(key, ()) if user.uid != pod.uid), None)
        claim = None if volumes is None else volumes.claim(key)
        modes = () if claim is None else claim.modes
        if other is not None and SEVERAL_NODES.isdisjoint(modes):
            return key[1], modes, other
    return None


def local_claim(pod: Pod, volumes: Volumes | None, nodes: Nodes | None = None) -> tuple[str, str] | None:
    """A claim of a pod whose volume is a folder of its node, so that it would find another one elsewhere: the names of
    the claim and of the volume; None: none is known. With `nodes`, a volume counts unless its node affinity leaves one
    of them alone: then the pod comes back to where it was."""
    if volumes is None:
        return None
    for key in _keys(pod):
        claim = volumes.claim(key)
        volume = volumes.volume(claim.volume) if claim is not None and claim.volume else None
        if volume is None or not volume.local:
            continue
        if nodes is None or volume.terms is None or len(reach_of(volume, nodes)) > 1:
            return key[1], volume.name
    return None


_READ = frozenset({"persistentvolumeclaims", "persistentvolumes"})


def knows_volumes(pod: Pod, volumes: Volumes | None) -> bool:
    """Whether the volumes of all of a pod's claims are known."""
    if not pod.volume_claims:
        return True
    if volumes is None or not _READ.isdisjoint(volumes.unknown):
        return False
    claims = [volumes.claim(key) for key in _keys(pod)]
    return all(claim is not None and volumes.volume(claim.volume) is not None for claim in claims)


def going_claim(pod: Pod, volumes: Volumes | None) -> str:
    """The first claim of a pod that is being deleted, and so goes, with what it holds, as soon as the pod does; empty:
    none does, as far as is known."""
    claims = [volumes.claim(key) for key in _keys(pod)] if volumes is not None and pod.volume_claims else ()
    return next((claim.name for claim in claims if claim is not None and claim.deleted), "")


def _by_shared_claim(_: str, pods: Sequence[Pod]) -> Mapping[ClaimKey, Sequence[Pod]]:
    """The claims that several of these pods use that have not ended and stay, each with these pods."""
    users = defaultdict[ClaimKey, list[Pod]](list)
    for pod in pods:
        if pod.volume_claims and pod.is_active:
            for key in dict.fromkeys(_keys(pod)):
                users[key].append(pod)
    return {key: sharing for key, sharing in users.items() if len(sharing) > 1}


_users: Memo[str, Sequence[Pod], Mapping[ClaimKey, Sequence[Pod]]] = Memo(_by_shared_claim)
"""By the name and the pods of a node; memoized until one of these changes."""


Attachment = tuple[str, str]
"""A CSI driver, and a volume's name there."""


def attachments(pod: Pod, volumes: Volumes) -> Iterator[Attachment]:
    """The CSI volumes of a pod. One that is yet to be made has the name of its claim."""
    for key in _keys(pod):
        claim = volumes.claim(key)
        if claim is None:
            continue
        if claim.volume and (volume := volumes.volume(claim.volume)) is not None:
            if volume.driver and volume.handle:
                yield volume.driver, volume.handle
        elif (found := volumes.storage_class(claim.class_name)) is not None and found.provisioner not in _MIGRATED:
            yield found.provisioner, "\0".join(key)


def beyond_limits(pod: Pod, nodes: Nodes) -> tuple[Mask, Mask]:
    """The nodes that take fewer CSI volumes than they would have with the pod's; and those that would take its volumes
    alone."""
    full, able = ~every_node(nodes), every_node(nodes)
    volumes = nodes.volumes
    new = frozenset[Attachment]() if volumes is None else frozenset(attachments(pod, volumes))
    if volumes is None or not new:
        return full, able
    claims = nodes.total("claims", lambda other: len(other.volume_claims))
    for driver in {driver for driver, _ in new}:
        own, limits = _of_driver(driver, new), volumes.limits_of(driver, nodes.names)
        able &= len(own) <= limits
        for index in np.flatnonzero(claims + len(own) > limits):  # elsewhere even if no volume is shared there is room
            full[index] |= _total(own, driver, nodes.claiming(int(index)), volumes) > limits[index]
    return full, able


def _of_driver(driver: str, volumes: Iterable[Attachment]) -> frozenset[Attachment]:
    return frozenset(each for each in volumes if each[0] == driver)


def _total(new: frozenset[Attachment], driver: str, residents: Iterable[Pod], volumes: Volumes) -> int:
    """How many volumes of a driver these pods and some new ones have together; 0 where nothing is new."""
    there = _of_driver(driver, (each for other in residents for each in attachments(other, volumes)))
    return len(there | new) if new - there else 0


def surplus(pod: Pod, index: int, nodes: Nodes) -> Iterator[tuple[str, int, dict[str, int]]]:
    """Of each CSI driver whose limit a pod would exceed on a node: how many volumes too many there would be without
    pods that are being deleted, and how many fewer without each of the others, by its UID."""
    volumes = nodes.volumes
    if volumes is None:
        return
    residents, new = nodes.claiming(index), frozenset(attachments(pod, volumes))
    for driver in {driver for driver, _ in new}:
        own, limit = _of_driver(driver, new), int(volumes.limits_of(driver, nodes.names)[index])
        if _total(own, driver, residents, volumes) > limit:
            staying = [other for other in residents if not other.deleted]
            counts = Counter(each for other in staying for each in _of_driver(driver, attachments(other, volumes)))
            yield (
                driver,
                _total(own, driver, staying, volumes) - limit,
                {
                    other.uid: sum(counts[each] == 1 and each not in own for each in attachments(other, volumes))
                    for other in staying
                },
            )
