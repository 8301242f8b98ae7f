"""Carries out what is decided about pods' places, and makes it known before the watch tells of it.

Knows what must still hold of a node when a pod's turn has come, and what follows from an answer; knows no wire format.
"""

from collections import Counter
from collections.abc import Awaitable, Callable

from elasticd.cluster.kubernetes.watch.store import NodeStore, PodStore
from elasticd.cluster.kubernetes.write.answers import conflict
from elasticd.cluster.kubernetes.write.budget import Allowed
from elasticd.cluster.kubernetes.write.pods import TERMINATING, PodWriter
from elasticd.kit.node_table import needed, whole
from elasticd.model.actions import GIVES_WAY, Announce, Answer, Bind, Evict, Nominate
from elasticd.model.pod_spec import Taint
from elasticd.model.workload import Node, Pod

CORDONED = Taint("node.kubernetes.io/unschedulable", "NoSchedule")
NOT_READY = Taint("node.kubernetes.io/not-ready", "NoSchedule")


class PodActions:
    """Binds, evicts and nominates; `allowed` is asked before each write, `tell` is given what is said of it."""

    def __init__(
        self,
        stores: tuple[PodStore, NodeStore],
        writer: PodWriter,
        restore: Callable[[Evict, Allowed], Awaitable[Answer]],
        allowed: Allowed,
        tell: Callable[[Announce], None],
    ) -> None:
        """`restore` evicts a pod that has no controller and shall come back."""
        (self._pods, self._nodes), self._writer, self._restore = stores, writer, restore
        self._allowed, self._tell = allowed, tell

    async def act(self, action: Bind | Evict | Nominate) -> Answer:
        """Do it, once, if what it was judged on still holds."""
        match action:
            case Bind():
                return await self._bind(action)
            case Evict():
                return await self._evict(action)
            case Nominate():
                answer = await self._writer.nominate(action, self._allowed)
                if answer.result == "done":
                    self._pods.assume(action.workload, action.uid, nominated=action.node)
                return answer

    async def _bind(self, action: Bind) -> Answer:
        answer = await self._writer.bind(action, lambda: self._allowed() or self._unfit(action))
        if answer.result == "done":
            self._pods.assume(action.workload, action.uid, node=action.node, waits=None)
        return answer

    def _unfit(self, action: Bind) -> Answer | None:
        """What a pod has waited through for its turn may have changed its node, and it may be another of its name by
        now: Kubernetes 1.20 ignores the UID of a binding."""
        node, pod = self._nodes.get(action.node), self._pods.get(action.workload.namespace, action.workload.name)
        if pod is None or pod.uid != action.uid:
            return conflict(404, "it is gone")
        if pod.node not in ("", action.node):
            return conflict(0, f"it is on {pod.node} already")
        why = f"{action.node} is gone" if node is None else self._why_closed(pod, node)
        return conflict(0, why) if why else None

    def _why_closed(self, pod: Pod, node: Node) -> str:
        """Why an existing node no longer accepts a pod; empty: it does."""
        if not node.ready and pod.needs.tolerates((NOT_READY,)):
            return f"{node.name} is not ready"
        if node.unschedulable and pod.needs.tolerates((CORDONED,)):
            return f"{node.name} is cordoned"
        if kept_off := pod.needs.tolerates(node.taints):
            return f"{node.name} has a taint by now that it does not tolerate, {kept_off}"
        lack = self._lacking_resource(pod, node)
        return f"{node.name} is full by now: too little {lack} is left" if lack else ""

    def _lacking_resource(self, pod: Pod, node: Node) -> str:
        """The first resource that a node has too little of for a pod, as its kubelet will count; empty: none."""
        used: Counter[str] = Counter()
        for occupant in self._pods.places().on_nodes().get(node.name, ()):
            used.update(needed(occupant) if occupant.uid != pod.uid else {})
        for resource, amount in needed(pod).items():
            if resource in node.allocatable and used[resource] + amount > whole(resource, node.allocatable[resource]):
                return resource
        return ""

    async def _evict(self, action: Evict) -> Answer:
        pod = self._pods.get(action.workload.namespace, action.workload.name)
        if pod is not None and pod.uid == action.uid and pod.deleted:
            return TERMINATING
        answer = await (self._restore if action.restore else self._writer.evict)(action, self._allowed)
        if answer.result == "done" and answer.reason == "":
            self._pods.assume(action.workload, action.uid, deleted=True)
            reason = "Preempted" if action.reason.startswith(GIVES_WAY) else "Evicted"
            self._tell(Announce(action.workload, action.uid, reason, f"{action.reason}, from {action.node}"))
        return answer
