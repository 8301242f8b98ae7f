"""Computes what a pod is short of on a node, and which pods' eviction provides it: amounts, ports, disks, and a place
beside pods whose anti-affinity keeps it off."""

from collections.abc import Iterable, Mapping, Sequence

from elasticd.api import Nodes, Pod, Struct
from elasticd.kit import needed


class Shortage(Struct, frozen=True, gc=False):
    """What a pod lacks on a node once all pods that are being deleted are gone: whole amounts by resource, and the UIDs
    of pods that clash with it (ports, disks, anti-affinity)."""

    amounts: dict[str, int]
    clashing: frozenset[str]


def shortage_of(
    pod: Pod, node: int, nodes: Nodes, leaving: Iterable[Pod], missing: Mapping[str, int]
) -> Shortage | None:
    """What the pod is short of. None: it lacks nothing here now, so no eviction would help. `missing`: what filters say
    that it lacks, where they keep some of it free."""
    lacks = {
        name: lack
        for name, amount in needed(pod).items()
        if amount and (lack := int(nodes.requested(name)[node]) + amount - int(nodes.allocatable(name)[node])) > 0
    }
    lacks |= {name: lack for name, lack in missing.items() if lack > lacks.get(name, 0)}
    picky = pod.needs.ports or pod.needs.disks or nodes.repels()
    labels = nodes.nodes[node].labels
    clashing = [resident for resident in nodes.pods(node) if _clash(pod, resident, labels)] if picky else []
    if not lacks and not clashing:
        return None
    for name in lacks:
        lacks[name] -= sum(needed(leaver).get(name, 0) for leaver in leaving)
    staying = frozenset(resident.uid for resident in clashing if not resident.deleted)
    return Shortage({name: lack for name, lack in lacks.items() if lack > 0}, staying)


def _clash(pod: Pod, resident: Pod, labels: Mapping[str, str]) -> bool:
    """Whether the two pods need the same port or disk, or the resident's anti-affinity keeps the pod off a node of
    these labels."""
    needs, theirs = pod.needs, resident.needs
    return (
        any(port.clashes(used) for port in needs.ports for used in theirs.ports)
        or any(
            rule.topology in labels and rule.keeps_off(resident.namespace, pod.namespace, pod.labels)
            for rule in theirs.repels
        )
        or any(disk.clashes(used) for disk in needs.disks for used in theirs.disks)
    )


def helps(pod: Pod, short: Shortage) -> bool:
    """Whether the pod's eviction provides any of what is short."""
    takes = needed(pod)
    for name in short.amounts:  # a plain loop: this runs for each pod of each node
        if takes.get(name):
            return True
    return pod.uid in short.clashing


def until_it_fits(order: Iterable[Pod], short: Shortage) -> list[Pod]:
    """The first pods of the order until there is room; none where all of them would not suffice."""
    lacking, clashing, chosen = dict(short.amounts), set(short.clashing), list[Pod]()
    for pod in order:
        if not lacking and not clashing:
            break
        chosen.append(pod)
        clashing.discard(pod.uid)
        lacking = {name: lack for name, amount in lacking.items() if (lack := amount - needed(pod).get(name, 0)) > 0}
    return [] if lacking or clashing else chosen


def spared_from(order: Sequence[Pod], short: Shortage) -> list[Pod]:
    """All pods of the order but those that are not needed, of which the most important are spared first; none where all
    of them would not suffice."""
    requests = [needed(pod) for pod in order]
    over = {name: sum([takes.get(name, 0) for takes in requests]) - lack for name, lack in short.amounts.items()}
    if any(amount < 0 for amount in over.values()) or not short.clashing <= {pod.uid for pod in order}:
        return []
    chosen: list[Pod] = []
    for pod, takes in zip(reversed(order), reversed(requests), strict=True):
        if pod.uid in short.clashing or any(takes.get(name, 0) > amount for name, amount in over.items()):
            chosen.append(pod)
        else:
            over = {name: amount - takes.get(name, 0) for name, amount in over.items()}
    return chosen[::-1]
