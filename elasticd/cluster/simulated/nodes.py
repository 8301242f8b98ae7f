"""Simulated nodes as they change, and their free capacity: which takes a pod, least requested first; what it rejects.

Knows requests, what is left of each node and what keeps pods off it; knows nothing of workloads or time.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from elasticd.cluster.simulated.options import NodeChange, plain
from elasticd.kit.node_table import whole
from elasticd.model.pod_spec import Needs, Taint
from elasticd.model.workload import Container, Node


class Claim(Struct, frozen=True, eq=False):
    """What a pod asks of a node. Its amounts are whole, thousandths of a core and ones of all else, so that giving back
    leaves no remainder. Pods of one table share one."""

    needs: Needs
    amounts: Mapping[str, int]


def claim_of(needs: Needs, containers: Iterable[Container]) -> Claim:
    """What a pod of such needs and containers asks for."""
    amounts = Counter(pods=1)
    for container in containers:
        amounts.update({name: whole(name, amount) for name, amount in container.requests.items()})
    return Claim(needs, amounts)


class NodePool:
    """All nodes that ever exist, and the free capacity of each, in the order in which nodes are tried.

    `nodes` are those that exist now, by name: the same tuple until one changes.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = tuple(nodes)
        self._nodes, self._gone = list(nodes), set[str]()
        self._capacity = [{name: whole(name, have) for name, have in node.allocatable.items()} for node in nodes]
        self._free = [dict(capacity) for capacity in self._capacity]
        self._held: list[list[Needs]] = [[] for _ in nodes]
        self._index = {node.name: index for index, node in enumerate(nodes)}
        self._order = [(self._score(index), index) for index in range(len(nodes))]

    def __contains__(self, name: str) -> bool:
        return name in self._index and name not in self._gone

    def answers(self, name: str) -> bool:
        """Whether a node is there and its kubelet is alive."""
        return name in self and self._nodes[self._index[name]].ready

    def take(self, claim: Claim) -> str:
        """Take room on the least requested node where the pod fits; its name, or "" when it fits nowhere."""
        for _, index in self._order:
            if self._takes(index, claim):
                self._change(index, claim, -1)
                return self._nodes[index].name
        return ""

    def put(self, node: str, claim: Claim) -> str:
        """Take room on a node that somebody chose; why its kubelet rejects the pod, or "" when it is admitted.

        As the kubelet's admission does it: what a scheduler looks at beside that, such as taints of effect NoSchedule
        or whether the node is cordoned, does not count; nor does a resource that the node does not know.
        """
        index = self._index[node]
        free = self._free[index]
        lacking = (f"OutOf{name}" for name, amount in claim.amounts.items() if free.get(name, amount) < amount)
        why = next(lacking, "") or self._refuses(index, claim.needs)
        if not why:
            self._change(index, claim, -1)
        return why

    def give(self, node: str, claim: Claim) -> None:
        self._change(self._index[node], claim, 1)

    def resize(self, node: str, before: Claim, after: Claim) -> bool:
        """Exchange what a pod has taken, if there is room for it; whether there was."""
        index = self._index[node]
        free = {name: have + before.amounts.get(name, 0) for name, have in self._free[index].items()}
        fits = all(free.get(name, amount) >= amount for name, amount in after.amounts.items())
        if fits:
            self._change(index, before, 1)
            self._change(index, after, -1)
        return fits

    def change(self, name: str, change: NodeChange) -> None:
        index = self._index[name]
        before = self._nodes[index]
        labels = {key: value for key, value in before.labels.items() if key not in change.unlabel}
        self._nodes[index] = replace(
            before,
            labels={**labels, **change.labels},
            taints=before.taints if change.taints is None else plain(change.taints, tuple[Taint, ...]),
            unschedulable=before.unschedulable if change.unschedulable is None else change.unschedulable,
            ready=before.ready if change.ready is None else change.ready,
        )
        if change.gone is not None:
            (self._gone.add if change.gone else self._gone.discard)(name)
        self.nodes = tuple(node for node in self._nodes if node.name not in self._gone)

    def _takes(self, index: int, claim: Claim) -> bool:
        node, needs, free = self._nodes[index], claim.needs, self._free[index]
        if any(free.get(name, 0) < amount for name, amount in claim.amounts.items()):
            return False
        if not self.answers(node.name) or node.unschedulable or needs.tolerates(node.taints) is not None:
            return False
        return needs.wants(node.name, node.labels) and not self._clashes(index, needs)

    def _refuses(self, index: int, needs: Needs) -> str:
        node = self._nodes[index]
        if not needs.wants(node.name, node.labels):
            return "NodeAffinity"
        if needs.tolerates(taint for taint in node.taints if taint.effect == "NoExecute") is not None:
            return "TaintToleration"
        return "NodePorts" if self._clashes(index, needs) else ""

    def _clashes(self, index: int, needs: Needs) -> bool:
        return any(
            any(port.clashes(taken_port) for port in needs.ports for taken_port in occupant.ports)
            or any(disk.clashes(taken_disk) for disk in needs.disks for taken_disk in occupant.disks)
            for occupant in self._held[index]
        )

    def _change(self, index: int, claim: Claim, sign: int) -> None:
        """Give room back (1) or take it (-1), and put the node where it belongs in the order."""
        free, held = self._free[index], self._held[index]
        del self._order[bisect_left(self._order, (self._score(index), index))]
        for name in claim.amounts.keys() & free.keys():
            free[name] += sign * claim.amounts[name]
        if claim.needs.ports or claim.needs.disks:
            (held.remove if sign > 0 else held.append)(claim.needs)
        insort(self._order, (self._score(index), index))

    def _score(self, index: int) -> float:
        """The mean fraction requested of cpu and memory, as kube-scheduler's LeastAllocated weighs them."""
        free, capacity = self._free[index], self._capacity[index]
        return 1 - (free["cpu"] / capacity["cpu"] + free["memory"] / capacity["memory"]) / 2
