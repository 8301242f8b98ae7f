"""Which ready pods stay as others of their workload, under way in a rollout, are not ready yet.

Knows workloads and their pods as a snapshot shows them; knows nothing of what anybody has moved.
"""

from collections.abc import Iterable, Iterator, Sequence

from elasticd.kit.rollout import is_wanted, rollout_left
from elasticd.model.disruption import Refused
from elasticd.model.policy import MOST
from elasticd.model.workload import REVISION, Pod, Workload
from elasticd.ports.cluster import Snapshot

YOUNG = 600.0
"""Seconds after its creation in which a pod that is not ready may be one that a rollout has replaced, and in which one
that ends is waited for: on a lost node it may never end."""


class Rollouts:
    """The pods that rollouts have replaced, of which nothing else says that they are under way."""

    def __init__(self) -> None:
        self._taken_back: dict[str, float] = {}
        """By UID, when StatefulSets were last seen to replace pods by an earlier template: once the last of them is
        created, their status is as if nothing had been."""
        self._ending: dict[str, float] = {}
        """Since when pods that end have been seen, by UID."""

    def see(self, snapshot: Snapshot, now: float) -> None:
        """Note what the status of a workload does not tell later."""
        self._taken_back = {uid: at for uid, at in self._taken_back.items() if now - at < YOUNG}
        before, self._ending = self._ending, {}
        for workload, pods in self._suspect(snapshot):
            if not workload.rollout and rollout_left(workload, pods):
                self._taken_back[workload.uid] = now
            self._ending |= {pod.uid: before.get(pod.uid, now) for pod in pods if pod.deleted}

    def awaited(self, snapshot: Snapshot, now: float) -> Iterator[tuple[str, Refused]]:
        """The ready pods, by UID, of each workload of which new ones are awaited."""
        self.see(snapshot, now)
        for workload, pods in self._suspect(snapshot):
            if workload.unfinished or workload.uid in self._taken_back:
                lasting = [pod for pod in pods if now - self._ending.get(pod.uid, now) < YOUNG]
                if why := _why_awaited(workload, lasting, now):
                    yield from ((pod.uid, why) for pod in pods if pod.ready)

    def _suspect(self, snapshot: Snapshot) -> Iterator[tuple[Workload, Sequence[Pod]]]:
        for workload in snapshot.workloads():  # nearly all are at rest
            if workload.unfinished or workload.new_revision or workload.uid in self._taken_back:
                yield workload, snapshot.pods(workload)


def _why_awaited(workload: Workload, pods: Iterable[Pod], now: float) -> Refused | None:
    lacking = [pod for pod in pods if not pod.has_ended and (pod.deleted or not pod.ready)]
    if workload.ref.kind != "Deployment":  # of which all count
        lacking = [pod for pod in lacking if _is_awaited(workload, pod, now)]
    if not lacking:
        return None
    lack = "has yet to end" if lacking[0].deleted else "is not ready"
    return "RollingOut", f"{workload.ref} is being rolled out: {lacking[0].name} {lack}"


def _is_awaited(workload: Workload, pod: Pod, now: float) -> bool:
    """Whether a StatefulSet's pod may have been replaced by its rollout. One of its newest template has been, and may
    never be ready; with OnDelete all may be of that for long, and one of another be what a stopped rollout had deleted:
    these count while they are young. One that has no node may be of a scale-out, and wait for room."""
    if not pod.node or not is_wanted(workload, pod):
        return False
    is_new = pod.labels.get(REVISION) == workload.new_revision and workload.replaces_from < MOST
    return pod.deleted or is_new or now - pod.created < YOUNG
