"""Promised places: the node that was found for a pod that is moved, until its replacement is bound.

Knows which pod replaces which, and when a promise ends; knows no strategy, and nothing of how a place is kept. What it
remembers is lost with the process; of pods without a controller the records have it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from elasticd.model.moves import Promise
from elasticd.model.placement import PodOutcome
from elasticd.model.workload import Pod
from elasticd.ports.cluster import Snapshot

PROMISED = 30.0
"""Seconds for which a place is kept while nothing shows that a replacement comes."""

LAST = "StatefulSet"
"""The kind whose controllers make a replacement, of the same name, only when the pod is gone."""


class _Kept(Struct):
    """A promise, and what is known of its replacement. `at`: when the pod was told to leave; `since`: when something
    last showed that a replacement comes."""

    pod: Pod
    node: str
    at: float
    since: float
    use: Mapping[str, float]
    own: bool
    """elasticd places the replacement."""
    unsure: bool = False
    """Nobody answered the eviction."""
    recorded: bool = False
    replacement: Pod | None = None
    """While it waits for a node."""

    def is_replaced_by(self, pod: Pod) -> bool:
        """Whether a pod may be the replacement; an API server tells creation in whole seconds."""
        if pod.uid == self.pod.uid:
            return False
        controller, name = self.pod.owner[2], (self.pod.namespace, self.pod.name)
        if not controller or self.pod.owner[0].endswith(LAST):
            return (pod.namespace, pod.name) == name and pod.owner[2] == controller
        return pod.owner[2] == controller and pod.created + 1.0 >= self.at

    def resize(self, copy: Pod) -> None:
        """Keep as much as the copy will request, which may be more than the pod does."""
        if copy.needs.requests != self.pod.needs.requests:
            self.pod = replace(self.pod, needs=replace(self.pod.needs, requests=copy.needs.requests))

    def promise(self) -> Promise:
        pod = self.replacement or replace(
            self.pod,
            uid=f"in place of {self.pod.uid}",
            phase="Pending",
            node="",
            nominated="",
            started=None,
            ready=None,
            deleted=False,
            created=self.at,
        )
        return Promise(pod, self.node, self.pod.uid, self.pod.node, self.use)


class Promises:
    """All promises of all pools, by the UIDs of the pods that are moved."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}
        self._known: set[str] = set()
        """The UIDs of the pods with a promise, and of those with a record to which one was made before."""
        self._matched: set[str] = set()
        self._looked_at: dict[str, Sequence[Pod]] = {}
        """The pods of each node among which no replacement was found."""

    def make(self, pod: Pod, node: str, at: float, use: Mapping[str, float], *, own: bool) -> None:
        """Promise a node to the replacement of a pod that is told to leave. `own`: elasticd places it. `use`: what the
        pod uses, by series, as far as it is known."""
        self._kept[pod.uid] = _Kept(pod, node, at, at, use, own)
        self._known.add(pod.uid)

    def adopt(self, recorded: Iterable[Promise], snapshot: Snapshot, at: float, places: Callable[[Pod], bool]) -> None:
        """Make the promises again that another process made, or this one before it was restarted, as far as the records
        of evicted pods have them, and let those that are known be as large; `places`: whether elasticd places a
        pod."""
        recorded = list(recorded)
        for promise in recorded:
            if (kept := self._kept.get(promise.leaving)) is not None:
                kept.resize(promise.pod)
        fresh = {promise.leaving: promise for promise in recorded if promise.leaving not in self._known}
        on_nodes = snapshot.on_nodes() if fresh else {}
        for uid, promise in fresh.items():
            if any(pod.uid == uid and not pod.deleted for pod in on_nodes.get(promise.left, ())):
                continue  # it was not evicted, or not yet
            self.make(promise.pod, promise.node, at, promise.use, own=places(promise.pod))
            self._looked_at = {}

    def answered(self, uid: str, outcome: PodOutcome) -> None:
        """Take in the outcome of the eviction. One that failed without a clear answer may have been carried out."""
        if (kept := self._kept.get(uid)) is None:
            return
        if outcome.result == "failed" and (outcome.code == 0 or outcome.code >= 500):
            kept.unsure = True
        elif outcome.result != "done" or outcome.reason:
            del self._kept[uid]

    def update(self, snapshot: Snapshot, recorded: Collection[str], now: float) -> None:
        """Find the replacements, and end what is over. `recorded`: the UIDs of the pods that are being recreated."""
        self._known &= {*recorded, *self._kept}
        if not self._kept:
            if self._looked_at:
                self._matched, self._looked_at = set(), {}
            return
        on_nodes = snapshot.on_nodes()
        arrived = self._arrived(on_nodes.items())
        waiting = self._waiting(snapshot.pending())
        for uid, kept in list(self._kept.items()):
            old = next((pod for pod in on_nodes.get(kept.pod.node, ()) if pod.uid == uid), None)
            if self._match(kept, arrived):
                del self._kept[uid]
                continue
            if kept.replacement is not None:
                kept.replacement = waiting.get(kept.replacement.uid)
                kept.since = now
            if kept.own and kept.replacement is None and (found := self._match(kept, waiting.values())):
                kept.replacement = found
            if kept.replacement is None and _is_over(kept, old, kept.own and uid in recorded, now):
                del self._kept[uid]

    def _match(self, kept: _Kept, pods: Iterable[Pod]) -> Pod | None:
        """The first of these pods that replaces the moved one, and no other."""
        if kept.replacement is not None:
            return next((pod for pod in pods if pod.uid == kept.replacement.uid), None)
        found = next((pod for pod in pods if pod.uid not in self._matched and kept.is_replaced_by(pod)), None)
        if found is not None:
            self._matched.add(found.uid)
        return found

    def _may_replace(self) -> Callable[[Pod], bool]:
        """A quick test, as there are very many pods, that all replacements pass."""
        owners = {kept.pod.owner[2] for kept in self._kept.values()} - {""}
        names = {(kept.pod.namespace, kept.pod.name) for kept in self._kept.values()}
        return lambda pod: pod.owner[2] in owners or (pod.namespace, pod.name) in names

    def _waiting(self, pending: Iterable[Pod]) -> dict[str, Pod]:
        may_replace = self._may_replace()
        return {pod.uid: pod for pod in sorted(filter(may_replace, pending), key=lambda pod: (pod.created, pod.name))}

    def _arrived(self, on_nodes: Iterable[tuple[str, Sequence[Pod]]]) -> list[Pod]:
        """Pods on nodes that may be replacements, of those nodes whose pods changed since the last look."""
        may_replace, found = self._may_replace(), list[Pod]()
        for node, pods in on_nodes:
            if self._looked_at.get(node) is not pods:
                self._looked_at[node] = pods
                found += filter(may_replace, pods)
        return found

    def current(self, busy: Collection[str] = ()) -> tuple[Promise, ...]:
        """All promises, but those of replacements that are being bound (`busy`, their UIDs)."""
        return tuple(
            [
                kept.promise()
                for kept in self._kept.values()
                if kept.replacement is None or kept.replacement.uid not in busy
            ]
        )


def _is_over(kept: _Kept, old: Pod | None, recorded: bool, now: float) -> bool:
    """Whether a promise ends of which no replacement waits. `old` is the pod itself while it is on its node."""
    if kept.unsure and old is not None and not old.deleted:
        return True
    late = not kept.pod.owner[2] or kept.pod.owner[0].endswith(LAST)
    if late and old is not None and (old.deleted or now < kept.at + PROMISED):
        kept.since = now
    if recorded:
        kept.recorded = True
    elif kept.recorded:
        return True
    return not recorded and now >= kept.since + PROMISED
