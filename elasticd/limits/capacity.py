"""Limit `capacity`: no growth that no node could carry.

Knows requests, and what nodes have left; knows nothing of taints, affinity or volumes, which only kube-scheduler does.
"""

from collections.abc import Mapping
from functools import cached_property, lru_cache
from math import floor, inf
from typing import Annotated, ClassVar

from elasticd.api import Limit, Meta, Observation, Pod, Ref, Room, Struct, field, hookimpl
from elasticd.kit import Memo
from elasticd.limits.behavior import Seriesless

Amounts = tuple[tuple[str, float], ...]
"""The amount of each resource, in order of their names, so that equal ones are one key."""

Labels = tuple[tuple[str, str], ...]

_HAIR = 1e-9
"""Part of a pod by which sums of requests may be off: 0.1 + 0.2 is more than 0.3."""


class _Pods(Struct, frozen=True, gc=False):
    """The next pod of a workload, estimated from its pods: its requests (None: there are no pods), also as text, and
    how many of the pods have a node."""

    requests: Amounts | None
    placed: int
    words: str = ""


class Capacity(Seriesless, tag="capacity", frozen=True):
    """Not more pods than fit on the nodes, beside those that still wait for one. Reasons NoCapacity, CapacityUnknown.

    What a node has left is what it can allocate less what the pods on it request, of all namespaces; the next pod
    requests what the newest does. Nodes that are not ready or are cordoned carry nothing. What keeps a pod off a node
    with room (taints, affinity, a nodeSelector: name its labels in `nodes`) is not seen, so that too much may be
    allowed. Without a pod to tell the requests, or without nodes, it does not limit, and says so: else it would keep a
    workload at 0 from ever coming back.
    """

    looks_at_nodes: ClassVar[bool] = True

    nodes: Annotated[
        dict[str, str], Meta(description="labels of the nodes that count, as in the pods' nodeSelector; none: all")
    ] = field(default_factory=dict)

    @hookimpl
    def limit(self, observation: Observation) -> Limit | None:
        """All counts up to what the nodes carry; the current one always."""
        workload, rooms = observation.workload, observation.rooms
        pods = _pods_of(workload.ref, observation.pods)
        if not rooms or pods.requests is None:
            missing = "no pod tells what one requests" if rooms else "no nodes are known"
            return Limit("CapacityUnknown", f"{missing}, so that it does not limit")
        fit = _fit((pods.requests, self._labels), rooms)
        return _room_for(fit, pods.words, max(0, workload.replicas - pods.placed), workload.replicas)

    @cached_property
    def _labels(self) -> Labels:
        return tuple(sorted(self.nodes.items()))


@lru_cache(maxsize=4096)
def _room_for(fit: int, words: str, waiting: int, current: int) -> Limit:
    message = f"room for {fit} more pods ({words}); {waiting} wait for a node"
    return Limit("NoCapacity", message, None, current + max(0, fit - waiting))


def _describe_pods(_: Ref, pods: tuple[Pod, ...]) -> _Pods:
    """What the newest pod requests. The newest is one that has not begun, else the one that began last."""
    live = [pod for pod in pods if pod.is_active]
    if not live:
        return _Pods(None, 0)
    newest = max(live, key=lambda pod: (inf if pod.started is None else pod.started, pod.name))
    requests = tuple(sorted((name, amount) for name, amount in newest.requested().items() if amount > 0))
    words = ", ".join(f"{name} {_size(amount)}" for name, amount in requests) or "which request nothing"
    return _Pods(requests, sum(1 for pod in live if pod.node), words)


def _size(amount: float) -> str:
    return f"{amount:g}" if amount < 1 << 20 else f"{amount / (1 << 20):.0f}Mi"


def _count_fitting(key: tuple[Amounts, Labels], rooms: tuple[Room, ...]) -> int:
    requests, labels = key
    wanted = set(labels)
    able = [room for room in rooms if room.node.ready and not room.node.unschedulable]
    return sum(_count_on_node(room.free, requests) for room in able if wanted <= room.node.labels.items())


def _count_on_node(free: Mapping[str, float], requests: Amounts) -> int:
    most = min([free.get("pods", 0.0), *(free.get(resource, 0.0) / amount for resource, amount in requests)])
    return max(0, floor(most + _HAIR))


_pods_of = Memo(_describe_pods)
_fit = Memo(_count_fitting)
