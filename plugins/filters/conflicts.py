"""What the pods on a node take from another pod: ports, disks, amounts, and by anti-affinity the whole node.

Knows pods and amounts; knows nothing of nodes' conditions and labels, except the topology labels of anti-affinity.
"""

from functools import lru_cache

import numpy as np

from elasticd.api import Disk, Mask, Node, Nodes, Port, Repel, Whole
from elasticd.kit import Memo, parse_quantity, whole


@lru_cache
def amount_of(resource: str, quantity: str) -> int:
    """A quantity as a whole number, in the unit that `needed` uses."""
    return whole(resource, parse_quantity(quantity))


def port_taken(port: Port, nodes: Nodes) -> Mask:
    """The nodes where a pod has this port or one that clashes with it."""
    return nodes.holding(("filters", port), lambda other: any(map(port.clashes, other.needs.ports)))


def disk_taken(disk: Disk, nodes: Nodes) -> Mask:
    """The nodes where a pod uses this disk in a way that excludes others."""
    return nodes.holding(("filters", disk), lambda other: any(map(disk.clashes, other.needs.disks)))


def nearby(home: str, rule: Repel, nodes: Nodes) -> tuple[Mask, Mask]:
    """The nodes that an anti-affinity rule of pods in `home` closes; and those that only their own pods close."""
    holding = nodes.holding(
        ("filters", home, rule), lambda other: other.namespace == home and rule in other.needs.repels
    )
    places = _places(rule.topology, nodes.nodes)
    holders = np.bincount(places[holding], minlength=len(places) + 1)
    holders[0] = 0
    around = holders[places]
    return around > 0, around == holding


def _values(label: str, nodes: tuple[Node, ...]) -> Whole:
    """A number for each value of a label, from 1 on; 0 for nodes without the label."""
    numbers: dict[str | None, int] = {None: 0}
    values = (node.labels.get(label) for node in nodes)
    return np.array([numbers.setdefault(value, len(numbers)) for value in values], dtype=np.int64)


_places = Memo(_values, most=64)


def _less(amount: tuple[str, int], of: Whole) -> Whole:
    return of - amount[1]


free_of = Memo(_less, most=16)
room_beside = Memo(_less, most=64)
"""What others may request beside an amount; cached, as many pods request the same amount."""
