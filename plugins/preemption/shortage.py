"""Computes what a pod is short of on a node, and which pods' eviction provides it: amounts, ports, disks, claims, a
place away from certain pods, fewer pods where a spread constraint allows no more, and fewer volumes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from elasticd.api import Nodes, Pod, Struct
from elasticd.kit import counting_nodes, exclusive, needed, selected_by, spreading, surplus, uses


class Shortage(Struct, frozen=True, gc=False):
    """What a pod lacks on a node once all pods that are being deleted are gone: whole amounts by resource, and the UIDs
    of pods that clash with it (ports, disks, claims, anti-affinity). An amount may also be the number of pods that must
    leave for a spread constraint, or of volumes: then `counting` has how much of it goes with each pod, by its UID."""

    amounts: dict[str, int]
    clashing: frozenset[str]
    counting: Mapping[str, Mapping[str, int]] = {}

    def given_by(self, pod: Pod) -> Mapping[str, int]:
        """What the pod's eviction provides of any amount."""
        takes = needed(pod)
        if not self.counting:
            return takes
        return {**takes, **{name: amounts[pod.uid] for name, amounts in self.counting.items() if pod.uid in amounts}}


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
    needs = pod.needs
    alone = exclusive(pod, nodes.volumes) if pod.volume_claims else frozenset()
    picky = needs.ports or needs.disks or needs.repels or nodes.repels()
    clashing = [resident for resident in nodes.pods(node) if _clash(pod, resident, node, nodes)] if picky else []
    clashing += [resident for resident in nodes.claiming(node) if alone and uses(resident, alone)]
    crowded = dict(_crowded(pod, node, nodes)) if needs.spread else {}
    if pod.volume_claims:
        crowded |= {f"volumes of {driver}": (more, given) for driver, more, given in surplus(pod, node, nodes)}
    if not lacks and not clashing and not crowded:
        return None
    for name in lacks:
        lacks[name] -= sum(needed(leaver).get(name, 0) for leaver in leaving)
    staying = frozenset(resident.uid for resident in clashing if not resident.deleted)
    lacks |= {name: number for name, (number, _) in crowded.items()}
    counting = {name: given for name, (_, given) in crowded.items()}
    return Shortage({name: lack for name, lack in lacks.items() if lack > 0}, staying, counting)


def _crowded(pod: Pod, node: int, nodes: Nodes) -> Iterator[tuple[str, tuple[int, Mapping[str, int]]]]:
    """How many pods must leave the node for each hard spread constraint of the pod, and which count."""
    for index, (spread, counted) in enumerate(zip(pod.needs.spread, counting_nodes(pod.needs, nodes), strict=True)):
        rules = spread.selector(pod.labels)
        if not spread.hard or not rules:
            continue
        excess = int(spreading(pod, spread, nodes, counted).skew[node]) - spread.max_skew
        if excess > 0:
            counting = {
                resident.uid: 1
                for resident in nodes.pods(node)
                if resident.namespace == pod.namespace
                and not resident.deleted
                and all(rule.matches(resident.labels) for rule in rules)
            }
            yield f"spread {index}", (excess, counting)


def _clash(pod: Pod, resident: Pod, node: int, nodes: Nodes) -> bool:
    """Whether the two pods need the same port or disk, or the anti-affinity of one keeps the other off the node."""
    needs, theirs, labels = pod.needs, resident.needs, nodes.nodes[node].labels
    return (
        any(port.clashes(used) for port in needs.ports for used in theirs.ports)
        or any(rule.topology in labels and selected_by(resident.namespace, rule, nodes)(pod) for rule in theirs.repels)
        or any(rule.topology in labels and selected_by(pod.namespace, rule, nodes)(resident) for rule in needs.repels)
        or any(disk.clashes(used) for disk in needs.disks for used in theirs.disks)
    )


def helps(pod: Pod, short: Shortage) -> bool:
    """Whether the pod's eviction provides any of what is short."""
    takes = short.given_by(pod)
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
        lacking = {
            name: lack for name, amount in lacking.items() if (lack := amount - short.given_by(pod).get(name, 0)) > 0
        }
    return [] if lacking or clashing else chosen


def spared_from(order: Sequence[Pod], short: Shortage) -> list[Pod]:
    """All pods of the order but those that are not needed, of which the most important are spared first; none where all
    of them would not suffice."""
    requests = [short.given_by(pod) for pod in order]
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
