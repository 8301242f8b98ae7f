"""Lets a pod request more only as far as its node has room for it beside what others were let have meanwhile.

A Cluster that wraps another. Decisions of one moment see the same free room; knows nothing of who makes them.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from math import ceil, inf

from msgspec import Struct
from msgspec.structs import replace

from elasticd.base.clock import Clock
from elasticd.base.units import format_amount, milli
from elasticd.cluster.wrapper import ClusterWrapper
from elasticd.model.actions import NO_ROOM, Action, Answer, Bind, Evict, Resize
from elasticd.model.moves import Promise
from elasticd.model.workload import Pod
from elasticd.ports.cluster import Cluster, Kind, Snapshot

Promised = Callable[[Snapshot, float], Iterable[Promise]]
"""The places that are promised to moved pods, by what the cluster shows, and now."""

SHOWN = 10.0
"""Seconds after which the cluster shows what a pod requests: what it was let have does not count beside that."""

_ROUNDING = 1e-6
"""The part of what is free by which it may be exceeded."""


class _Taken(Struct, frozen=True):
    """A resize or a binding that was let through, and what more its node gives by it, by resource. `at`: when it was
    answered; inf while it is under way."""

    action: Resize | Bind
    node: str
    more: Mapping[str, float]
    at: float = inf


class ResizeRoom(ClusterWrapper):
    """A Cluster that refuses to resize a pod beyond the free room of its node (`NoRoom`).

    What is `promised` to moved pods, or freed for one that preempts, is kept. What a resize has taken, and is not shown
    yet, neither a binding nor a moved pod gets; a pod that nobody else would create again leaves only for a node that
    still has room for it.

    A node that the cluster does not show has room for whatever is asked for, as it has for strategies.
    """

    def __init__(self, inner: Cluster, clock: Clock, promised: Promised = lambda snapshot, now: ()) -> None:
        super().__init__(inner)
        self._clock, self._promised = clock, promised
        self._snapshot: Snapshot | None = None
        self._taken: dict[str, _Taken] = {}
        """By the UID of the pod, until the cluster shows it."""

    async def observe(self, now: float, kinds: frozenset[Kind]) -> Snapshot:
        self._snapshot = await self._inner.observe(now, kinds)
        return self._snapshot

    async def act(self, action: Action) -> Answer:
        now, snapshot = self._clock.now(), self._snapshot
        self._taken = {uid: taken for uid, taken in self._taken.items() if not self._is_shown(taken, now)}
        taken, why = None, ""
        if snapshot is None:
            return await self._inner.act(action)
        if isinstance(action, Resize) and (pod := self._pod_of(action)) is not None:
            taken = _Taken(action, pod.node, _more(action))
            why = _why_too_little(snapshot, pod.node, taken.more, self._kept(snapshot, pod.node, now))
        elif isinstance(action, Bind):
            waiting = next((pod for pod in snapshot.pending() if pod.uid == action.uid), None)
            taken = _Taken(action, action.node, {} if waiting is None else waiting.counted)
            if resized := self._resized(action.node):
                why = _why_too_little(snapshot, action.node, taken.more, resized)
        elif isinstance(action, Evict):
            why = self._why_not_moved(action, snapshot, now)
        if why:
            return Answer("refused", message=why, reason=NO_ROOM)
        return await (self._inner.act(action) if taken is None else self._take(taken))

    async def _take(self, taken: _Taken) -> Answer:
        uid = taken.action.uid
        self._taken[uid] = taken
        try:
            answer = await self._inner.act(taken.action)
        finally:
            self._taken[uid] = replace(taken, at=self._clock.now())
        if answer.result in ("refused", "conflict") or (answer.result == "failed" and 400 <= answer.code < 500):
            self._taken.pop(uid, None)  # whatever else failed may have been carried out
        return answer

    def _why_not_moved(self, action: Evict, snapshot: Snapshot, now: float) -> str:
        """Why there is no room any more where a pod would go. Where no resize is to be shown yet, others find a node
        whatever has changed, and one that is to be restored has only this."""
        node = action.target
        if not node or not (self._resized(node) or action.restore):
            return ""
        promised = [promise for promise in self._promised(snapshot, now) if promise.node == node]
        own = next((promise.pod for promise in promised if promise.leaving == action.uid), None)
        pod = own or next((pod for pod in snapshot.on_nodes().get(action.node, ()) if pod.uid == action.uid), None)
        if pod is None:
            return ""
        given = [promise.pod.counted for promise in promised if promise.leaving != action.uid]
        return _why_too_little(snapshot, node, pod.counted, [*given, *(taken.more for taken in self._on(node))])

    def _kept(self, snapshot: Snapshot, node: str, now: float) -> list[Mapping[str, float]]:
        """What no resize may take of a node: what others are let have, are promised, or have preempted pods for."""
        coming = {promise.pod.uid: promise.pod for promise in self._promised(snapshot, now) if promise.node == node}
        coming |= {pod.uid: pod for pod in snapshot.pending() if pod.nominated == node}
        taken = {taken.action.uid: taken.more for taken in self._on(node)}
        return [*taken.values(), *(pod.counted for uid, pod in coming.items() if uid not in taken)]

    def _on(self, node: str) -> list[_Taken]:
        return [taken for taken in self._taken.values() if taken.node == node]

    def _resized(self, node: str) -> list[Mapping[str, float]]:
        return [taken.more for taken in self._on(node) if isinstance(taken.action, Resize)]

    def _is_shown(self, taken: _Taken, now: float) -> bool:
        """Whether a node's free room has it taken off, as far as it ever will."""
        if now >= taken.at + SHOWN:
            return True
        if isinstance(taken.action, Bind):
            return self._snapshot is None or all(pod.uid != taken.action.uid for pod in self._snapshot.pending())
        pod = self._pod_of(taken.action)
        return pod is None or all(
            _rounded(resource, container.requests.get(resource, 0.0)) == _rounded(resource, amount)
            for container in pod.containers
            for resource, amount in taken.action.after.get(container.name, {}).items()
        )

    def _pod_of(self, action: Resize) -> Pod | None:
        workload = self._snapshot.workload(action.workload) if self._snapshot is not None else None
        pods = self._snapshot.pods(workload) if self._snapshot is not None and workload is not None else ()
        return next((pod for pod in pods if pod.uid == action.uid), None)


def _why_too_little(
    snapshot: Snapshot, node: str, needed: Mapping[str, float], given: Iterable[Mapping[str, float]]
) -> str:
    """Why a node has not what is needed beside what is given to others; empty: it has."""
    free = next((room.free for room in snapshot.rooms() if room.node.name == node), {})
    given = list(given)
    for resource, amount in needed.items():
        taken = sum(each.get(resource, 0.0) for each in given)
        left = max(0.0, free.get(resource, inf) - taken)
        if amount > left * (1 + _ROUNDING):
            beside = " beside what moved pods, or others, are to have" * bool(taken)
            return f"{node} has {_told(resource, left)} {resource} left{beside}, it needs {_told(resource, amount)}"
    return ""


def _rounded(resource: str, amount: float) -> int:
    """As much as is asked for: thousandths of a core, and whole bytes."""
    return milli(amount) if resource == "cpu" else ceil(amount)


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
