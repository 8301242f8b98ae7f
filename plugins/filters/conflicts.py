"""What the pods on a node take from another pod: ports, disks and amounts.

Knows pods and amounts; knows nothing of nodes' conditions and labels.
"""

from functools import lru_cache

from elasticd.api import Disk, Mask, Nodes, Port, Whole
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


def _less(amount: tuple[str, int], of: Whole) -> Whole:
    return of - amount[1]


free_of = Memo(_less, most=16)
room_beside = Memo(_less, most=64)
"""What others may request beside an amount; cached, as many pods request the same amount."""
