"""Which pods wait for a node, and which are on each, updated pod by pod.

Knows a pod's life as its node sees it; knows nothing of how pods come to be known, or of who asks.
"""

from collections.abc import Iterable, Mapping, Sequence

from elasticd.kit.evictability import fails
from elasticd.model.workload import Pod

Key = tuple[str, str]
"""Namespace and name."""

_OVER = ("Succeeded", "Failed")


def waits(pod: Pod) -> bool:
    """Whether it has yet to be put on a node."""
    return not pod.node and not pod.deleted and pod.phase not in _OVER


def takes_room(pod: Pod) -> bool:
    """Whether it takes room on a node. One that is being deleted does until it is gone."""
    return bool(pod.node) and pod.phase not in _OVER


def affects_placement(old: Pod | None, new: Pod | None) -> bool:
    """Whether a change may let another pod be placed, or needs one to be: a pod waits, has left a node, changed its
    requests, or has failed."""
    if new is not None and waits(new):
        return True
    if old is None or not takes_room(old):
        return False
    if new is None or not takes_room(new) or new.uid != old.uid or new.needs.requests != old.needs.requests:
        return True
    return fails(old, new)


class Places:
    """All pods that wait or take room."""

    def __init__(self, pods: Iterable[Pod] = ()) -> None:
        self._waiting: dict[Key, Pod] = {}
        self._pending: tuple[Pod, ...] | None = None
        self._on: dict[str, dict[Key, Pod]] = {}
        self._on_nodes: dict[str, Sequence[Pod]] = {}
        self._stale: set[str] = set()
        for pod in pods:
            self.change(None, pod)

    def change(self, old: Pod | None, new: Pod | None) -> None:
        """A pod came (no old one), changed or went (no new one)."""
        if old is not None:
            self._leave(old)
        if new is None:
            return
        key = (new.namespace, new.name)
        if takes_room(new):
            pods = self._on.get(new.node)
            if pods is None:
                pods = self._on[new.node] = {}
            pods[key] = new
            self._stale.add(new.node)
        elif waits(new):
            self._waiting[key], self._pending = new, None

    def _leave(self, pod: Pod) -> None:
        key = (pod.namespace, pod.name)
        if takes_room(pod):
            del self._on[pod.node][key]
            self._stale.add(pod.node)
        elif waits(pod):
            del self._waiting[key]
            self._pending = None

    def pending(self) -> tuple[Pod, ...]:
        """The pods that wait, by namespace and name; the same tuple while nothing changed."""
        if self._pending is None:
            self._pending = tuple(pod for _, pod in sorted(self._waiting.items()))
        return self._pending

    def on_nodes(self) -> Mapping[str, Sequence[Pod]]:
        """The pods on each node, by namespace and name; a node keeps the same sequence while nothing changed there. The
        mapping itself is always the same object."""
        for node in self._stale:
            if pods := self._on.get(node):
                self._on_nodes[node] = tuple([pods[key] for key in sorted(pods)])
            else:
                self._on.pop(node, None)
                self._on_nodes.pop(node, None)
        self._stale.clear()
        return self._on_nodes
