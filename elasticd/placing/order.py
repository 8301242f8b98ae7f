"""Which pending pod is asked about first.

Knows priorities, ages and who was evicted; knows no nodes.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from elasticd.model import Pod

RESUMED = "elasticd.io/resumed"
"""Annotation of a pod that was made anew: when the one before it was evicted, in seconds since the epoch."""


def in_order(pods: Sequence[Pod], by: Literal["priority", "fifo"], moved: Mapping[str, float]) -> tuple[Pod, ...]:
    """Pods in the order in which they are placed.

    Of equal priority those that others already gave way for go first, then those that were evicted and may go on
    elsewhere (restartPolicy OnFailure, the last evicted first: the head of the queue), then by age. One of
    restartPolicy Never that was evicted is new again: it goes to the tail (thesis, 4.3 and 5.5.4).
    """

    def key(pod: Pod) -> tuple[int, bool, bool, float, float, str, str]:
        at = _resumed(pod, moved)
        ahead = at is not None and pod.needs.restart == "OnFailure"
        since = max(pod.created, at or 0.0)
        urgency = -pod.needs.priority if by == "priority" else 0
        return (urgency, not pod.nominated, not ahead, -(at or 0.0) if ahead else 0.0, since, pod.namespace, pod.name)

    return tuple(sorted(pods, key=key))


def _resumed(pod: Pod, moved: Mapping[str, float]) -> float | None:
    """When the pod that it stands for was evicted; None: it stands for none."""
    noted = pod.annotations.get(RESUMED)
    try:
        return moved.get(pod.uid) if noted is None else float(noted)
    except ValueError:
        return None
