"""PodDisruptionBudgets: how many of which pods may go now, as the API server says.

Knows their wire format in both versions of policy, and which pods they are about; knows nothing of who shall go.
"""

import sys
from operator import attrgetter
from typing import Literal

from msgspec import Struct

from elasticd.cluster.kubernetes.watch.store import Key, PodStore, Store
from elasticd.cluster.kubernetes.wire.objects import LabelSelector, ObjectMeta, Wire
from elasticd.cluster.kubernetes.wire.selector import SelectorError, to_text
from elasticd.model.placement import DisruptionBudget
from elasticd.model.workload import Pod

Empty = Literal["all", "none"]

_UNASKED = ("Pending", "Succeeded", "Failed")
"""The phases in which a pod may be evicted whatever budgets say."""


class BudgetSpec(Wire, frozen=True):
    """The selected pods, and the policy for evicting unready ones; empty: as with IfHealthyBudget."""

    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str = ""


class BudgetStatus(Wire, frozen=True):
    """What its controller has counted; `disrupted_pods` are those whose eviction was allowed a moment ago."""

    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    observed_generation: int = 0
    disrupted_pods: dict[str, str] | None = None


class WireBudget(ObjectMeta, frozen=True):
    """A PodDisruptionBudget."""

    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()


class Budgeted(Struct, frozen=True, gc=False):
    """The fields of a budget that are used. `selector` empty: all pods of its namespace; None: none."""

    namespace: str
    name: str
    selector: str | None
    allowed: int
    disrupted: frozenset[str] = frozenset()
    sick_go: bool = False
    """Whether pods that are not ready may go, by policy or while enough are healthy, however few that are ready may."""


def to_budget(wire: WireBudget, empty: Empty) -> Budgeted:
    """Convert a budget. `empty` says what an empty selector selects. Until the controller has observed the newest
    generation, the budget allows nothing."""
    meta, status, spec = wire.metadata, wire.status, wire.spec
    text = to_text(spec.selector)
    enough = status.current_healthy >= status.desired_healthy > 0
    return Budgeted(
        namespace=sys.intern(meta.namespace),
        name=meta.name,
        selector=None if spec.selector is None or (not text and empty == "none") else text,
        allowed=status.disruptions_allowed if status.observed_generation >= meta.generation else 0,
        disrupted=frozenset(status.disrupted_pods or ()),
        sick_go=enough or spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
    )


def _guards(item: Budgeted, pod: Pod) -> bool:
    """Whether the eviction API asks a budget about a pod that it matches."""
    if pod.deleted or pod.name in item.disrupted or pod.phase in _UNASKED:
        return False
    return pod.ready is True or not item.sick_go


class BudgetStore(Store[Budgeted]):
    """All PodDisruptionBudgets, and the pods of each."""

    def __init__(self, pods: PodStore) -> None:
        super().__init__(attrgetter("namespace", "name"))
        self._pods = pods
        self._cache: dict[Key, tuple[Budgeted, tuple[Pod, ...], DisruptionBudget]] = {}

    def all(self) -> tuple[DisruptionBudget, ...]:
        """All of them, by namespace and name; a record is the same while nothing changed."""
        return tuple(self._budget_of(key) for key in sorted(self._items))

    def _budget_of(self, key: Key) -> DisruptionBudget:
        item = self._items[key]
        pods, allowed = self._select(item)
        cached = self._cache.get(key)
        if cached is not None and cached[0] is item and cached[1] == pods:
            return cached[2]
        uids = frozenset(pod.uid for pod in pods if _guards(item, pod))
        budget = DisruptionBudget(item.namespace, item.name, uids, allowed)
        self._cache[key] = item, pods, budget
        return budget

    def _select(self, item: Budgeted) -> tuple[tuple[Pod, ...], int]:
        """The selected pods, and how many may be evicted. An unreadable selector may match any pod, so none may be."""
        if item.selector is None:
            return (), item.allowed
        if not item.selector:
            return self._pods.all_of(item.namespace), item.allowed
        try:
            return self._pods.select(item.namespace, item.selector), item.allowed
        except SelectorError:
            return self._pods.all_of(item.namespace), 0

    def _changed(self, old: Budgeted | None, new: Budgeted | None) -> None:
        if old is not None:
            self._cache.pop((old.namespace, old.name), None)
