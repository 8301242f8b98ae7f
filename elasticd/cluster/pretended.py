"""Where pods would be if the bindings, evictions and nominations of a dry run had been carried out.

It invents no replacements: a controller's next pod, or a recreated one, is not among the pending pods. Only a moved pod
is shown on its target node, as itself, so that no other pod is planned for that room.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from elasticd.cluster.rooms import room
from elasticd.model.actions import Answer, Bind, Evict, Nominate
from elasticd.model.placement import DisruptionBudget
from elasticd.model.workload import Pod, Room
from elasticd.ports.cluster import Snapshot, Stray

OnNodes = Mapping[str, Sequence[Pod]]
PodCache = dict[str, tuple[Sequence[Pod], tuple[Pod, ...], tuple[Pod, ...]]]
"""By node: its real pods, the pretended changes to them, and the pods that result."""


class Pretence(Struct, frozen=True):
    """What a dry run pretends, by pod UID: `bound` pods as they would be, running since then; `gone` pods as they were
    before their eviction; `moved` ones of those on their target nodes; and the `nominated` nodes of waiting pods."""

    bound: dict[str, Pod] = {}
    gone: dict[str, Pod] = {}
    moved: dict[str, Pod] = {}
    nominated: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self.bound or self.gone or self.nominated)

    def true_to(self, real: Snapshot) -> "Pretence":
        """Drop what the real cluster has overtaken: pods that no longer wait, or left, or whose node is gone."""
        if not self:
            return self
        waiting, nodes = {pod.uid for pod in real.pending()}, {node.name for node in real.nodes()}
        nodes_left, on = {pod.node for pod in self.gone.values()}, real.on_nodes()
        running = {pod.uid for node in nodes_left for pod in on.get(node, ())}
        return Pretence(
            {uid: pod for uid, pod in self.bound.items() if uid in waiting and pod.node in nodes},
            {uid: pod for uid, pod in self.gone.items() if uid in running},
            {uid: pod for uid, pod in self.moved.items() if uid in running and pod.node in nodes},
            {uid: node for uid, node in self.nominated.items() if uid in waiting},
        )


class PretendedPods:
    """A snapshot's pods with a pretence applied. `cache` is passed on to the next snapshot's, so that a node on which
    nothing changed keeps the same sequence."""

    def __init__(self, real: Snapshot, pretence: Pretence, cache: PodCache) -> None:
        self.pretence = pretence
        self.real, self._cache = real, cache
        self._waiting: dict[str, Pod] | None = None
        self._on_nodes: OnNodes | None = None
        self._rooms: tuple[Room, ...] | None = None

    def pending(self) -> tuple[Pod, ...]:
        pretence = self.pretence
        if not pretence.bound and not pretence.nominated:
            return self.real.pending()
        unbound = (pod for pod in self.real.pending() if pod.uid not in pretence.bound)
        noted = pretence.nominated
        return tuple(replace(pod, nominated=noted[pod.uid]) if pod.uid in noted else pod for pod in unbound)

    def on_nodes(self) -> OnNodes:
        if not self.pretence.bound and not self.pretence.gone:
            return self.real.on_nodes()
        if self._on_nodes is None:
            self._on_nodes = {**self.real.on_nodes(), **{node: self._pods_on(node) for node in self._touched_nodes()}}
        return self._on_nodes

    def rooms(self) -> tuple[Room, ...]:
        touched = self._touched_nodes()
        if not touched:
            return self.real.rooms()
        if self._rooms is None:
            on = self.on_nodes()
            self._rooms = tuple(
                room(real_room.node, on.get(real_room.node.name, ())) if real_room.node.name in touched else real_room
                for real_room in self.real.rooms()
            )
        return self._rooms

    def strays(self) -> tuple[Stray, ...]:
        """The pods whose pretended node differs from their real one."""
        pretence = self.pretence
        bound = [Stray(pod, "", pod.node) for pod in pretence.bound.values()]
        elsewhere = {uid: pod.node for uid, pod in pretence.moved.items()}
        return (*bound, *[Stray(pod, pod.node, elsewhere.get(uid, "")) for uid, pod in pretence.gone.items()])

    def budgets(self) -> tuple[DisruptionBudget, ...] | None:
        """What disruption budgets would still allow; None: they are not known."""
        real_budgets, gone = self.real.budgets(), self.pretence.gone.keys()
        if not real_budgets or not gone:
            return real_budgets
        away = gone - self.pretence.moved.keys()
        return tuple(
            DisruptionBudget(
                budget.namespace, budget.name, budget.pods - away, budget.allowed - len(budget.pods & gone)
            )
            for budget in real_budgets
        )

    def after(self, action: Bind | Evict | Nominate) -> "Pretence | Answer":
        """The pretence with this action added; or the answer that says why it could not be carried out."""
        match action:
            case Bind():
                return self._bind(action)
            case Evict():
                return self._evict(action)
            case Nominate():
                return self._nominate(action)

    def then(self, pretence: Pretence) -> "PretendedPods":
        successor = PretendedPods(self.real, pretence, self._cache)
        successor._waiting = self._waiting
        return successor

    def _bind(self, bind: Bind) -> "Pretence | Answer":
        pod, pretence = self._waiting_pod(bind.uid), self.pretence
        if pod is None or bind.uid in pretence.bound:
            return _conflict(f"{bind.workload} of uid {bind.uid} does not wait for a node")
        begun = {"phase": "Running", "started": self.real.confirmed, "ready": True}
        bound_pod = replace(pod, node=bind.node, nominated="", waits=None, **begun)
        nominated = {uid: node for uid, node in pretence.nominated.items() if uid != bind.uid}
        return replace(pretence, bound={**pretence.bound, bind.uid: bound_pod}, nominated=nominated)

    def _evict(self, evict: Evict) -> "Pretence | Answer":
        pretence = self.pretence
        if evict.uid in pretence.bound:
            return replace(pretence, bound={uid: pod for uid, pod in pretence.bound.items() if uid != evict.uid})
        if evict.uid in pretence.moved and pretence.moved[evict.uid].node == evict.node:
            return self._with_move(pretence, evict, pretence.moved[evict.uid])
        pod = next(
            (candidate for candidate in self.real.on_nodes().get(evict.node, ()) if candidate.uid == evict.uid), None
        )
        if pod is None:
            return _conflict(f"{evict.workload} of uid {evict.uid} is not on {evict.node}")
        return pretence if evict.uid in pretence.gone or pod.deleted else self._evict_running(pretence, evict, pod)

    def _evict_running(self, pretence: Pretence, evict: Evict, pod: Pod) -> "Pretence | Answer":
        """Pretend that the pod is gone, if its disruption budgets allow the eviction."""
        budgets = self.budgets()
        if budgets is None:
            return Answer("refused", 0, "dry run: budgets are not known", "Budget")
        if spent := [budget.name for budget in budgets if evict.uid in budget.pods and budget.allowed < 1]:
            return Answer("refused", 0, f"dry run: budget {spent[0]} allows none", "Budget")
        return self._with_move(replace(pretence, gone={**pretence.gone, evict.uid: pod}), evict, pod)

    def _with_move(self, pretence: Pretence, evict: Evict, pod: Pod) -> Pretence:
        """Pretend that an evicted pod has just started on its target node, if it has one."""
        moved = {uid: moved_pod for uid, moved_pod in pretence.moved.items() if uid != evict.uid}
        if evict.target:
            moved[evict.uid] = replace(pod, node=evict.target, started=self.real.confirmed)
        return replace(pretence, moved=moved)

    def _nominate(self, nominate: Nominate) -> "Pretence | Answer":
        if self._waiting_pod(nominate.uid) is None:
            return _conflict(f"{nominate.workload} of uid {nominate.uid} does not wait for a node")
        return replace(self.pretence, nominated={**self.pretence.nominated, nominate.uid: nominate.node})

    def _waiting_pod(self, uid: str) -> Pod | None:
        if self._waiting is None:
            self._waiting = {pod.uid: pod for pod in self.real.pending()}
        return self._waiting.get(uid)

    def _touched_nodes(self) -> frozenset[str]:
        pretence = self.pretence
        changed = (*pretence.bound.values(), *pretence.gone.values(), *pretence.moved.values())
        return frozenset(pod.node for pod in changed)

    def _pods_on(self, node: str) -> Sequence[Pod]:
        """A node's pods without those pretended gone, and with those pretended bound or moved there."""
        real, pretence = self.real.on_nodes().get(node, ()), self.pretence
        came = [pod for pods in (pretence.bound, pretence.moved) for pod in pods.values() if pod.node == node]
        changes = (*came, *(pod for pod in pretence.gone.values() if pod.node == node))
        cached = self._cache.get(node)
        if cached is not None and cached[0] is real and cached[1] == changes:
            return cached[2]
        pods = [*(pod for pod in real if pod.uid not in pretence.gone), *came]
        mixed = tuple(sorted(pods, key=lambda pod: (pod.namespace, pod.name)))
        self._cache[node] = (real, changes, mixed)
        return mixed


def _conflict(message: str) -> Answer:
    return Answer("conflict", 0, f"dry run: {message}", "Conflict")
