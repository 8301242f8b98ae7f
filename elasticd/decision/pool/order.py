"""The order in which pending pods are placed."""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from elasticd.model.policy import Order
from elasticd.model.workload import Pod

RESUMED = "elasticd.io/resumed"
"""Annotation of a recreated pod: when the one before it was evicted, in seconds since the epoch."""

SKEW = 60.0
"""Seconds by which the daemon's clock may be ahead of the API server's."""


def in_order(
    pods: Sequence[Pod],
    by: Order,
    moved: Mapping[str, float],
    returned: Mapping[str, float] = MappingProxyType({}),
    promised: Collection[str] = (),
) -> tuple[Pod, ...]:
    """Pods in the order in which they are placed.

    Of equal priority those go first that others were already preempted for, or that have a `promised` place (their
    UIDs), then those that were evicted and have
    restartPolicy OnFailure, the last evicted first (each came to the head of the queue), then by age. Any other that
    was evicted is new again: it goes to the tail (thesis, 4.3 and 5.5.4). By "paper" priorities do not count, and one
    that found no place goes to the tail each time (4.2, 5.5.3). `moved`, `returned`: see PoolObservation.
    """

    def key(pod: Pod) -> tuple[int, bool, float, float, float, str, str]:
        at, back = _resumed(pod, moved), returned.get(pod.uid, 0.0) if by == "paper" else 0.0
        head = at if at is not None and at > back and pod.needs.restart == "OnFailure" else 0.0
        since = max(pod.created, at or 0.0)
        urgency = -pod.needs.priority if by == "priority" else 0
        has_place = bool(pod.nominated) or pod.uid in promised
        return (urgency, not has_place, -head, max(since, back), since, pod.namespace, pod.name)

    return tuple(sorted(pods, key=key))


def _resumed(pod: Pod, moved: Mapping[str, float]) -> float | None:
    """When the pod that this one replaces was evicted; None: it replaces none. A note of a time after its own creation,
    or of no time at all, was written by nobody who evicted a pod."""
    noted = pod.annotations.get(RESUMED)
    if noted is None:
        return moved.get(pod.uid)
    try:
        at = float(noted)
    except ValueError:
        return None
    return at if 0 < at <= pod.created + SKEW else None
