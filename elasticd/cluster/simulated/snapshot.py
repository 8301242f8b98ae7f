"""Snapshots of a simulated world.

Knows how pods, nodes and budgets are shown; knows nothing of what moves them. Everything is computed when it is first
asked for, and what did not change is the same record as before.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple

from elasticd.cluster.rooms import room
from elasticd.cluster.simulated.options import BudgetTable
from elasticd.cluster.simulated.pods import SimulatedWorkload
from elasticd.model.placement import DisruptionBudget
from elasticd.model.workload import Node, Pod, Ref, Room, Workload
from elasticd.ports.cluster import Kind

ENDED = ("Succeeded", "Failed")

OnNodes = Mapping[str, tuple[Pod, ...]]

_by_name = attrgetter("namespace", "name")


class WorkloadView(NamedTuple):
    """A workload and its pods."""

    workload: Workload
    pods: tuple[Pod, ...]


class WorldView:
    """The state of the world between two changes, and what is derived from it when first asked for."""

    def __init__(
        self,
        views: Mapping[Ref, WorkloadView],
        nodes: tuple[Node, ...],
        budgets: Sequence[BudgetTable],
        before: "WorldView | None" = None,
    ) -> None:
        self.views, self.nodes = views, nodes
        self._budgets = budgets
        # Of the one before only what is shared is kept, or all there ever were would be.
        self._earlier: OnNodes = {} if before is None else before.last_on_nodes

    @property
    def last_on_nodes(self) -> OnNodes:
        """The pods on each node, as they were last asked for."""
        on_nodes: OnNodes = vars(self).get("on_nodes", self._earlier)
        return on_nodes

    @cached_property
    def on_nodes(self) -> OnNodes:
        """The pods on each node; a node that did not change keeps the same tuple."""
        pods_by_node: dict[str, list[Pod]] = {}
        for pod in (pod for view in self.views.values() for pod in view.pods if pod.node):
            if pod.phase not in ENDED:
                pods_by_node.setdefault(pod.node, []).append(pod)
        fresh = {node: tuple(sorted(pods_by_node[node], key=_by_name)) for node in sorted(pods_by_node)}
        return {node: self._earlier[node] if pods == self._earlier.get(node) else pods for node, pods in fresh.items()}

    @cached_property
    def pending(self) -> tuple[Pod, ...]:
        """The pods that are on no node and not being deleted."""
        pods = (pod for view in self.views.values() for pod in view.pods)
        waiting = [pod for pod in pods if not (pod.node or pod.deleted or pod.phase in ENDED)]
        return tuple(sorted(waiting, key=_by_name))

    @cached_property
    def rooms(self) -> tuple[Room, ...]:
        return tuple(room(node, self.on_nodes.get(node.name, ())) for node in self.nodes)

    @cached_property
    def budgets(self) -> tuple[DisruptionBudget, ...]:
        """All budgets, with the pods that they match and how many of those may go."""
        budgets = [self._budget(table, name) for table in self._budgets for name in table.names()]
        return tuple(sorted(budgets, key=_by_name))

    def _budget(self, table: BudgetTable, name: str) -> DisruptionBudget:
        views = (view for ref, view in self.views.items() if ref.namespace == table.namespace)
        pods = [pod for view in views for pod in view.pods if table.selector.items() <= pod.labels.items()]
        live = [pod for pod in pods if not pod.deleted and pod.phase not in ENDED]
        healthy = sum(pod.ready is True for pod in live)
        allowed = max(0, healthy - table.min_available)
        sick_go = table.unhealthy_pod_eviction_policy == "AlwaysAllow" or healthy >= table.min_available > 0
        guarded = [pod for pod in live if pod.phase != "Pending" and (pod.ready is True or not sick_go)]
        return DisruptionBudget(table.namespace, name, frozenset(pod.uid for pod in guarded), allowed)


def look(workload: SimulatedWorkload) -> WorkloadView:
    """A workload as it is now."""
    pods = sorted(workload.pods.values(), key=lambda pod: pod.name)
    return WorkloadView(workload.look(), tuple(pod.look() for pod in pods))


class SimulatedSnapshot:
    """The cluster at one time. It stays as it was; what did not change is shared with later ones."""

    version = 1
    """Always the same: workloads are neither created nor deleted, and keep their labels."""

    def __init__(self, confirmed: float, kinds: frozenset[Kind], view: WorldView) -> None:
        self.confirmed = self.nodes_confirmed = confirmed
        self.kinds, self._view = kinds, view

    def confirmed_for(self, ref: Ref) -> float:
        return self.confirmed

    @cached_property
    def _workloads(self) -> tuple[Workload, ...]:
        views = self._view.views.values()
        return tuple(view.workload for view in views if self._asked(view.workload.ref))

    def workloads(self) -> Collection[Workload]:
        return self._workloads

    def workload(self, ref: Ref) -> Workload | None:
        view = self._view.views.get(ref)
        return view.workload if view and self._asked(ref) else None

    def pods(self, workload: Workload) -> tuple[Pod, ...]:
        view = self._view.views.get(workload.ref)
        return view.pods if view else ()

    def selector_fault(self, workload: Workload) -> str:
        """Always empty: a simulated workload owns its pods."""
        return ""

    def nodes(self) -> tuple[Node, ...]:
        return self._view.nodes

    def rooms(self) -> tuple[Room, ...]:
        return self._view.rooms

    def pending(self) -> tuple[Pod, ...]:
        return self._view.pending

    def on_nodes(self) -> OnNodes:
        return self._view.on_nodes

    def budgets(self) -> tuple[DisruptionBudget, ...]:
        return self._view.budgets

    def autoscaler(self, ref: Ref) -> str:
        """None: no other autoscaler scales a simulated workload."""
        return ""

    def _asked(self, ref: Ref) -> bool:
        return (ref.api_version, ref.kind) in self.kinds
