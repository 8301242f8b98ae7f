"""Snapshots of a simulated world.

Knows how pods, nodes and budgets are shown; knows nothing of what moves them. Everything is computed when it is first
asked for, and what did not change is the same record as before.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from elasticd.cluster.rooms import room
from elasticd.cluster.simulated.options import BudgetTable
from elasticd.cluster.simulated.pods import SimulatedWorkload
from elasticd.model.placement import DisruptionBudget
from elasticd.model.workload import Node, Pod, Ref, Room, Workload
from elasticd.ports.cluster import Kind

OVER = ("Succeeded", "Failed")

OnNodes = Mapping[str, tuple[Pod, ...]]


class View(NamedTuple):
    """A workload and its pods."""

    workload: Workload
    pods: tuple[Pod, ...]


class Sight:
    """The state of the world between two changes, and what is derived from it when first asked for."""

    def __init__(
        self,
        views: Mapping[Ref, View],
        nodes: tuple[Node, ...],
        budgets: Sequence[BudgetTable],
        before: "Sight | None" = None,
    ) -> None:
        self.views, self.nodes = views, nodes
        self._budgets = budgets
        # Of the one before only what is shared is kept, or all there ever were would be.
        self._earlier: OnNodes = {} if before is None else before.last_on_nodes
        self._on_nodes: OnNodes | None = None
        self._pending: tuple[Pod, ...] | None = None
        self._rooms: tuple[Room, ...] | None = None
        self._limits: tuple[DisruptionBudget, ...] | None = None

    @property
    def last_on_nodes(self) -> OnNodes:
        """The pods on each node as of the last call."""
        return self._earlier if self._on_nodes is None else self._on_nodes

    def on_nodes(self) -> OnNodes:
        """The pods on each node; a node that did not change keeps the same tuple."""
        if self._on_nodes is None:
            pods_by_node: dict[str, list[Pod]] = {}
            for pod in (pod for view in self.views.values() for pod in view.pods if pod.node):
                if pod.phase not in OVER:
                    pods_by_node.setdefault(pod.node, []).append(pod)
            self._on_nodes = {node: _same(self._earlier.get(node), pods_by_node[node]) for node in sorted(pods_by_node)}
        return self._on_nodes

    def pending(self) -> tuple[Pod, ...]:
        """The pods that are on no node and not being deleted."""
        if self._pending is None:
            pods = (pod for view in self.views.values() for pod in view.pods)
            waiting = [pod for pod in pods if not (pod.node or pod.deleted or pod.phase in OVER)]
            self._pending = tuple(sorted(waiting, key=_by_name))
        return self._pending

    def rooms(self) -> tuple[Room, ...]:
        """All nodes with their free capacity."""
        if self._rooms is None:
            pods = self.on_nodes()
            self._rooms = tuple(room(node, pods.get(node.name, ())) for node in self.nodes)
        return self._rooms

    def budgets(self) -> tuple[DisruptionBudget, ...]:
        """All budgets, with the pods that they match and how many of those may go."""
        if self._limits is None:
            limits = [self._limit(table, name) for table in self._budgets for name in table.names()]
            self._limits = tuple(sorted(limits, key=lambda budget: (budget.namespace, budget.name)))
        return self._limits

    def _limit(self, table: BudgetTable, name: str) -> DisruptionBudget:
        views = (view for ref, view in self.views.items() if ref.namespace == table.namespace)
        pods = [pod for view in views for pod in view.pods if table.selector.items() <= pod.labels.items()]
        live = [pod for pod in pods if not pod.deleted and pod.phase not in OVER]
        healthy = sum(pod.ready is True for pod in live)
        allowed = max(0, healthy - table.min_available)
        sick_go = table.unhealthy_pod_eviction_policy == "AlwaysAllow" or healthy >= table.min_available > 0
        guarded = [pod for pod in live if pod.phase != "Pending" and (pod.ready is True or not sick_go)]
        return DisruptionBudget(table.namespace, name, frozenset(pod.uid for pod in guarded), allowed)


def _same(before: tuple[Pod, ...] | None, pods: list[Pod]) -> tuple[Pod, ...]:
    pods.sort(key=_by_name)
    if before is not None and len(before) == len(pods) and all(a is b for a, b in zip(before, pods, strict=True)):
        return before
    return tuple(pods)


def _by_name(pod: Pod) -> tuple[str, str]:
    return (pod.namespace, pod.name)


def look(workload: SimulatedWorkload) -> View:
    """A workload as it is now."""
    pods = sorted(workload.pods.values(), key=lambda pod: pod.name)
    return View(workload.look(), tuple(pod.look() for pod in pods))


class SimulatedSnapshot:
    """The cluster at one time. It stays as it was; what did not change is shared with later ones."""

    def __init__(self, confirmed: float, kinds: frozenset[Kind], sight: Sight) -> None:
        self.confirmed = confirmed
        self.kinds, self._sight = kinds, sight
        self._workloads: tuple[Workload, ...] | None = None

    @property
    def nodes_confirmed(self) -> float:
        """When it was looked at: all of it was."""
        return self.confirmed

    def confirmed_for(self, ref: Ref) -> float:
        """When it was looked at: all of it was."""
        return self.confirmed

    @property
    def version(self) -> int:
        """Always the same: workloads neither come nor go, and keep their labels."""
        return 1

    def workloads(self) -> Collection[Workload]:
        """All workloads of the kinds that were asked for."""
        if self._workloads is None:
            views = self._sight.views.values()
            self._workloads = tuple(view.workload for view in views if self._asked(view.workload.ref))
        return self._workloads

    def workload(self, ref: Ref) -> Workload | None:
        """One workload, None when the cluster has no such or its kind was not asked for."""
        view = self._sight.views.get(ref)
        return view.workload if view and self._asked(ref) else None

    def pods(self, workload: Workload) -> tuple[Pod, ...]:
        """The pods its selector matches, ordered by name."""
        view = self._sight.views.get(workload.ref)
        return view.pods if view else ()

    def selector_fault(self, workload: Workload) -> str:
        """Always empty: a simulated workload owns its pods."""
        return ""

    def nodes(self) -> tuple[Node, ...]:
        """All nodes, ordered by name; the same tuple while none changed."""
        return self._sight.nodes

    def rooms(self) -> tuple[Room, ...]:
        """All nodes and what the pods on them leave; the same tuple while no workload or node changed."""
        return self._sight.rooms()

    def pending(self) -> tuple[Pod, ...]:
        """The pods that are on no node, by namespace and name; the same tuple while none changed."""
        return self._sight.pending()

    def on_nodes(self) -> OnNodes:
        """The pods on each node that take room there."""
        return self._sight.on_nodes()

    def budgets(self) -> tuple[DisruptionBudget, ...]:
        """All budgets, by namespace and name."""
        return self._sight.budgets()

    def autoscaler(self, ref: Ref) -> str:
        """None: nobody else scales a simulated workload."""
        return ""

    def _asked(self, ref: Ref) -> bool:
        return (ref.api_version, ref.kind) in self.kinds
