"""The free capacity of each node: what it can allocate, less what its pods request.

Sums are computed again for the nodes whose pods changed: nothing drifts, as it would if amounts were added and taken
away.
"""

from collections.abc import Iterable

from elasticd.model.workload import Node, Pod, Room

_OVER = ("Succeeded", "Failed")


def room(node: Node, pods: Iterable[Pod]) -> Room:
    """The free capacity of a node with these pods. Pods that are being deleted count until they are gone."""
    free = dict(node.allocatable)
    for pod in pods:
        if "pods" in free:
            free["pods"] -= 1
        for resource, amount in pod.counted.items():
            if resource in free:
                free[resource] -= amount
    return Room(node, free)


class Loads:
    """The pods on each node, and each node's free capacity, summed again only where pods changed."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, Pod]] = {}
        self._rooms: dict[str, Room] = {}
        self._stale: set[str] = set()
        self._nodes: tuple[Node, ...] | None = None
        self._all: tuple[Room, ...] = ()

    def change(self, old: Pod | None, new: Pod | None) -> None:
        """A pod came (no old one), changed or went (no new one)."""
        if old is not None and new is not None and _same(old, new):
            return
        if old is not None and (pods := self._pods.get(old.node)) is not None and pods.pop(old.uid, None) is not None:
            self._stale.add(old.node)
            if not pods:
                del self._pods[old.node]
        if new is not None and new.node and new.phase not in _OVER:
            self._pods.setdefault(new.node, {})[new.uid] = new
            self._stale.add(new.node)

    def rooms(self, nodes: tuple[Node, ...]) -> tuple[Room, ...]:
        """The rooms of these nodes, in their order; the same tuple while neither they nor their pods changed."""
        if nodes is self._nodes and not self._stale:
            return self._all
        previous = self._rooms
        self._rooms = {
            node.name: cached
            if (cached := previous.get(node.name)) is not None and cached.node is node and node.name not in self._stale
            else room(node, self._pods.get(node.name, {}).values())
            for node in nodes
        }
        self._stale.clear()
        self._nodes, self._all = nodes, tuple(self._rooms.values())
        return self._all


def _same(old: Pod, new: Pod) -> bool:
    """Whether both take the same room on the same node. Equal containers share one record, so comparing is cheap."""
    return (old.uid, old.node, old.phase in _OVER, old.containers, old.requests, old.needs) == (
        new.uid,
        new.node,
        new.phase in _OVER,
        new.containers,
        new.requests,
        new.needs,
    )
