"""What a pod is short of on a node, and which pods' leaving makes up for it.

Knows amounts, ports, disks and who keeps others off; knows nothing of who may have to go.
"""

from collections.abc import Iterable, Mapping, Sequence

from elasticd.api import Nodes, Pod, Struct
from elasticd.kit import needed

from .there import There


class Short(Struct, frozen=True, gc=False):
    """What a pod lacks on a node once all who are leaving have left: whole amounts, and the UIDs of who has its ports
    and disks, or keeps it off (anti-affinity)."""

    amounts: dict[str, int]
    clashing: frozenset[str]


def short_of(pod: Pod, node: int, nodes: Nodes, groups: There, missing: Mapping[str, int]) -> Short | None:
    """None: it lacks nothing here now, so that nobody's leaving would help. `missing`: what filters say that it lacks,
    where they keep some of it."""
    shortfall = {
        name: lack
        for name, amount in needed(pod).items()
        if amount and (lack := int(nodes.requested(name)[node]) + amount - int(nodes.allocatable(name)[node])) > 0
    }
    short = {**shortfall, **{name: lack for name, lack in missing.items() if lack > shortfall.get(name, 0)}}
    picky = pod.needs.ports or pod.needs.disks or nodes.repels()
    labels = nodes.nodes[node].labels
    clashing = [resident for resident in nodes.pods(node) if _clash(pod, resident, labels)] if picky else []
    if not short and not clashing:
        return None
    for name in short:
        short[name] -= sum(_takes(leaver, name) for leaver in groups.leaving)
    staying = frozenset(resident.uid for resident in clashing if not resident.deleted)
    return Short({name: lack for name, lack in short.items() if lack > 0}, staying)


def _takes(pod: Pod, resource: str) -> int:
    return needed(pod).get(resource, 0)


def _clash(pod: Pod, resident: Pod, labels: Mapping[str, str]) -> bool:
    """Whether one node cannot give both what they ask for, or the other keeps it off a node of these labels."""
    needs, theirs = pod.needs, resident.needs
    if any(port.clashes(used) for port in needs.ports for used in theirs.ports):
        return True
    if any(
        rule.topology in labels and rule.keeps_off(resident.namespace, pod.namespace, pod.labels)
        for rule in theirs.repels
    ):
        return True
    return any(disk.clashes(used) for disk in needs.disks for used in theirs.disks)


def helps(pod: Pod, short: Short) -> bool:
    """Whether its leaving brings any of that."""
    takes = needed(pod)
    for name in short.amounts:  # a loop, as this is asked of each pod of each node
        if takes.get(name):
            return True
    return pod.uid in short.clashing


def until_it_fits(order: Iterable[Pod], short: Short) -> list[Pod]:
    """The first of these until there is room; nobody where all of them would not do."""
    lacking, clashing, chosen = dict(short.amounts), set(short.clashing), list[Pod]()
    for pod in order:
        if not lacking and not clashing:
            break
        chosen.append(pod)
        clashing.discard(pod.uid)
        lacking = {name: lack for name, amount in lacking.items() if (lack := amount - _takes(pod, name)) > 0}
    return [] if lacking or clashing else chosen


def spared_from(order: Sequence[Pod], short: Short) -> list[Pod]:
    """All of these but those that are not needed, of whom the most important are kept first; nobody where all of them
    would not do."""
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
