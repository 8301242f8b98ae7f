"""The nodes of a simulated world as they change: cordoned, silent, gone, relabelled.

Knows what a change makes of a node's record, and which node answers; knows nothing of pods or of when.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from elasticd.cluster.simulated.needs import plain
from elasticd.cluster.simulated.options import NodeChange
from elasticd.model.pod_spec import Taint
from elasticd.model.workload import Node


class Ground:
    """All nodes that ever exist. `nodes` are those that exist now, by name: the same tuple until one changes."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._records = {node.name: node for node in nodes}
        self._gone: set[str] = set()
        self.nodes = tuple(nodes)

    def __contains__(self, name: str) -> bool:
        """Whether a node is there."""
        return name in self._records and name not in self._gone

    def answers(self, name: str) -> bool:
        """Whether a node is there and its kubelet is alive."""
        return name in self and self._records[name].ready

    def change(self, name: str, change: NodeChange) -> Node:
        """What a node is from now on, whether it is there or not."""
        before = self._records[name]
        labels = {key: value for key, value in before.labels.items() if key not in change.unlabel}
        node = replace(
            before,
            labels={**labels, **change.labels},
            taints=before.taints if change.taints is None else plain(change.taints, tuple[Taint, ...]),
            unschedulable=before.unschedulable if change.unschedulable is None else change.unschedulable,
            ready=before.ready if change.ready is None else change.ready,
        )
        if change.gone is not None:
            (self._gone.add if change.gone else self._gone.discard)(name)
        self._records[name] = node
        self.nodes = tuple(node for key, node in self._records.items() if key not in self._gone)
        return node
