"""The room on nodes: which node takes a pod, least requested first.

Knows requests and what is left of each node; knows nothing of workloads or time.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from math import ceil

from msgspec import Struct

from elasticd.model import Node
from elasticd.units import milli

Need = tuple[int, int]
"""What a pod requests: thousandths of a core and bytes; whole, so that giving back leaves no remainder."""


class _Left(Struct):
    """What is left of a node."""

    cpu: int
    memory: int
    pods: int


class Room:
    """What is left of every node, kept in the order in which they are tried."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._names = [node.name for node in nodes]
        self._whole = [_whole(node) for node in nodes]
        self._left = [_whole(node) for node in nodes]
        self._index = {name: index for index, name in enumerate(self._names)}
        self._order = [(self._score(index), index) for index in range(len(nodes))]

    def take(self, need: Need) -> str:
        """Take room on the least requested node where the pod fits; its name, or "" when it fits nowhere."""
        for place, (_, index) in enumerate(self._order):
            left = self._left[index]
            if left.pods and left.cpu >= need[0] and left.memory >= need[1]:
                del self._order[place]
                self._change(index, need, -1)
                return self._names[index]
        return ""

    def give(self, node: str, need: Need, pods: int = 1) -> None:
        """Give back what a pod had taken."""
        index = self._index[node]
        del self._order[bisect_left(self._order, (self._score(index), index))]
        self._change(index, need, 1)
        self._left[index].pods += pods - 1

    def change(self, node: str, before: Need, after: Need) -> bool:
        """Exchange what a pod has taken, if there is room for it; whether there was."""
        left = self._left[self._index[node]]
        fits = left.cpu + before[0] >= after[0] and left.memory + before[1] >= after[1]
        if fits:
            self.give(node, (before[0] - after[0], before[1] - after[1]), pods=0)
        return fits

    def _change(self, index: int, need: Need, sign: int) -> None:
        left = self._left[index]
        left.cpu += sign * need[0]
        left.memory += sign * need[1]
        left.pods += sign
        insort(self._order, (self._score(index), index))

    def _score(self, index: int) -> float:
        """The mean fraction requested of cpu and memory, as kube-scheduler's LeastAllocated weighs them."""
        left, whole = self._left[index], self._whole[index]
        return 1 - (left.cpu / whole.cpu + left.memory / whole.memory) / 2


def _whole(node: Node) -> _Left:
    allocatable = node.allocatable
    return _Left(milli(allocatable["cpu"]), ceil(allocatable["memory"]), int(allocatable["pods"]))
