"""Lets a pod request more only as far as its node has room for it beside what others were let have meanwhile.

A Cluster that wraps another. Decisions of one moment see the same free room; knows nothing of who makes them.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from math import inf

from msgspec import Struct

from elasticd.base.clock import Clock
from elasticd.base.units import format_amount, milli
from elasticd.cluster.wrapper import ClusterWrapper
from elasticd.model.actions import Action, Answer, Evict, Resize
from elasticd.model.moves import Promise
from elasticd.model.workload import Pod
from elasticd.ports.cluster import Cluster, Kind, Snapshot

SHOWN = 10.0
"""Seconds after which the cluster shows what a pod requests: what it was let have does not count beside that."""

_ROUNDING = 1e-6
"""The part of what is free by which it may be exceeded."""


class _Taken(Struct, frozen=True):
    """A resize that was let through, and what more the pod requests by it, by resource."""

    action: Resize
    node: str
    more: Mapping[str, float]
    at: float


class ResizeRoom(ClusterWrapper):
    """A Cluster that refuses to resize a pod beyond the free room of its node (`NoRoom`).

    What is `promised` to moved pods is kept; and no pod moves to a node of which it is not shown yet what a resize has
    taken.

    A node that the cluster does not show has room for whatever is asked for, as it has for strategies.
    """

    def __init__(self, inner: Cluster, clock: Clock, promised: Callable[[], Iterable[Promise]] = tuple) -> None:
        super().__init__(inner)
        self._clock, self._promised = clock, promised
        self._snapshot: Snapshot | None = None
        self._taken: dict[str, _Taken] = {}
        """By the UID of the pod, until the cluster shows what it requests."""

    async def observe(self, now: float, kinds: frozenset[Kind]) -> Snapshot:
        self._snapshot = await self._inner.observe(now, kinds)
        return self._snapshot

    async def act(self, action: Action) -> Answer:
        now = self._clock.now()
        self._taken = {uid: taken for uid, taken in self._taken.items() if not self._is_shown(taken, now)}
        if isinstance(action, Resize):
            return await self._resize(action, now)
        if isinstance(action, Evict) and action.target in {taken.node for taken in self._taken.values()}:
            message = f"what pods of {action.target} request was just changed, and is not shown yet"
            return Answer("refused", message=message, reason="NoRoom")
        return await self._inner.act(action)

    async def _resize(self, action: Resize, now: float) -> Answer:
        pod, more = self._pod_of(action), _more(action)
        if pod is not None and (why := self._why_no_room(pod.node, more)):
            return Answer("refused", message=why, reason="NoRoom")
        self._taken[action.uid] = _Taken(action, "" if pod is None else pod.node, more, now)
        answer = await self._inner.act(action)
        if answer.result in ("refused", "conflict"):  # what failed may have been carried out
            self._taken.pop(action.uid, None)
        return answer

    def _why_no_room(self, node: str, more: Mapping[str, float]) -> str:
        rooms = self._snapshot.rooms() if self._snapshot is not None else ()
        free = next((room.free for room in rooms if room.node.name == node), {})
        promised = [promise.pod.counted for promise in self._promised() if promise.node == node]
        given = [*promised, *(taken.more for taken in self._taken.values() if taken.node == node)]
        for resource, amount in more.items():
            taken = sum(each.get(resource, 0.0) for each in given)
            left = max(0.0, free.get(resource, inf) - taken)
            if amount > left * (1 + _ROUNDING):
                beside = " beside what moved pods, or others, are to have" * bool(taken)
                return f"{node} has {_told(resource, left)} {resource} left{beside}, it needs {_told(resource, amount)}"
        return ""

    def _is_shown(self, taken: _Taken, now: float) -> bool:
        pod = self._pod_of(taken.action)
        return (
            now >= taken.at + SHOWN
            or pod is None
            or all(
                container.requests.get(resource) == amount
                for container in pod.containers
                for resource, amount in taken.action.after.get(container.name, {}).items()
            )
        )

    def _pod_of(self, action: Resize) -> Pod | None:
        workload = self._snapshot.workload(action.workload) if self._snapshot is not None else None
        pods = self._snapshot.pods(workload) if self._snapshot is not None and workload is not None else ()
        return next((pod for pod in pods if pod.uid == action.uid), None)


def _told(resource: str, amount: float) -> str:
    return format_amount(resource, milli(amount) if resource == "cpu" else round(amount), up=False)


def _more(action: Resize) -> dict[str, float]:
    """What a pod requests more by a resize, by resource; of what it requests less, nothing."""
    more = defaultdict[str, float](float)
    for container, requests in action.after.items():
        before = action.before.get(container, {})
        for resource, amount in requests.items():
            more[resource] += amount - before.get(resource, 0.0)
    return {resource: amount for resource, amount in more.items() if amount > 0}
