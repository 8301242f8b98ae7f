"""Which pods may never be moved or evicted, and which have failed.

Pure. Knows what makes a pod one that must not be disturbed; knows no policy.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from elasticd.model.workload import Pod

CRITICAL = 2_000_000_000
"""The least priority of system-critical pods."""

SPARE = "elasticd.io/do-not-disrupt"
"""Annotation of a pod that is to be left alone."""

AUTOSCALER = "cluster-autoscaler.kubernetes.io/safe-to-evict"
KARPENTER = "karpenter.sh/do-not-disrupt"
"""Annotations by which a pod asks the same of Cluster Autoscaler and of Karpenter."""

OWN = ("app.kubernetes.io/name", "elasticd")
"""The label of elasticd's own pods."""


AHEAD = 60.0
"""Seconds: a node's clock that is no more ahead is right before long."""


def has_run_for(pod: Pod, at: float) -> float | None:
    """For how many seconds a pod has run at this time; None: it has not started. It started by the clock of its node:
    where that was far ahead, it is as old as the API server says, which knows only when it was created."""
    if pod.started is None:
        return None
    begun = pod.created or at if pod.started > at + AHEAD else min(pod.started, at)
    return at - begun


def stationary(pod: Pod) -> bool:
    """Whether a pod belongs to its node: a kubelet runs it from a file, or a DaemonSet wants it there and ends it where
    it does not. Such a pod is never reported as one that stays."""
    return pod.static or pod.owner[0] in ("Node", "DaemonSet")


def fails(before: Pod | None, now: Pod | None) -> bool:
    """Whether a pod has failed between two looks: it was ready, nobody let it go, and it is ready no more; or it is
    gone, though it is one that does not end by itself."""
    if before is None or before.ready is not True or before.deleted:
        return False
    if now is None or now.uid != before.uid:
        return before.needs.restart == "Always"
    return not now.ready and not now.deleted


def one_failed(before: Sequence[Pod], now: Sequence[Pod]) -> bool:
    """Whether any of a node's pods has failed between two looks."""
    by_uid = {pod.uid: pod for pod in now}
    return any(fails(pod, by_uid.get(pod.uid)) for pod in before)


def rooted(pod: Pod) -> tuple[str, str] | None:
    """Why a pod can never be moved or preempted: one word and a sentence; None: it can."""
    if pod.static or pod.owner[0] == "Node":
        return "Static", "a kubelet runs it from a file"
    if pod.owner[0] == "DaemonSet":
        return "DaemonSet", "its DaemonSet wants it on this node"
    if pod.needs.priority >= CRITICAL:
        return "Critical", "it is of system-critical priority"
    if OWN in pod.labels.items():
        return "Own", "it is elasticd's own"
    if annotation := sparing_annotation(pod):
        return "DoNotDisrupt", f"its annotation {annotation} asks for it"
    why = "it has no controller, and Kubernetes would delete the pods that name it as their owner"
    return ("OwnsPods", why) if pod.owns and not pod.owner[0] else None


class HasAnnotations(Protocol):
    """A pod, or what of one was read."""

    @property
    def annotations(self) -> Mapping[str, str]: ...


def sparing_annotation(pod: HasAnnotations) -> str:
    """The annotation by which a pod asks to be left alone, with its value where that matters; empty: it has none."""
    annotations = pod.annotations
    if not annotations:
        return ""
    if annotations.get(SPARE, "false") != "false":
        return SPARE
    if annotations.get(AUTOSCALER) == "false":
        return f"{AUTOSCALER}: false"
    return f"{KARPENTER}: true" if annotations.get(KARPENTER) == "true" else ""
