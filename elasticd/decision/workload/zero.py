"""Zero by decision and zero by a person: what tells them apart is written at the workload.

Pure. Knows the annotation that goes before a count of 0 and is taken away above it; knows nothing of why a count falls.
The cluster remembers it, so that a restart or another leader knows it too. HPA: ScaledToZero, Kubernetes 1.37.
"""

from elasticd.model.actions import Mark
from elasticd.model.history import Past
from elasticd.model.policy import Bounds
from elasticd.model.records import BY_HAND, DISABLED
from elasticd.model.workload import Workload

ZERO = "elasticd.io/scaled-to-zero"
"""The policy that decided on 0. Without it, a count of 0 is a person's."""


REVISION = "deployment.kubernetes.io/revision"
"""By which a Deployment's controller numbers what was rolled out."""


def own_zero(workload: Workload, past: Past) -> str | None:
    """The revision of a workload that is at 0 by decision (empty: it has none); None: it is above 0, or a person's 0.

    `kubectl rollout undo` puts the annotations of the older ReplicaSet in place of the Deployment's. So where the mark
    of the last decision is gone, the revision is another, and it was the last to write, it took the mark away. Who
    removes it otherwise, as `kubectl replace` does, made this zero.
    """
    if workload.replicas > 0:
        return None
    revision = workload.annotations.get(REVISION, "")
    if ZERO in workload.annotations:
        return revision
    is_another = workload.undone and (revision != past.zero or bool(workload.rollout))
    return past.zero if is_another else None


def paused(workload: Workload, bounds: Bounds, past: Past) -> tuple[str, str] | None:
    """Why a workload at 0 is left alone, as a reason and a sentence; None where a decision put it there. A policy whose
    min was raised since then brings it back to that (HPA 1.37)."""
    if workload.replicas > 0 or own_zero(workload, past) is not None:
        return None
    if bounds.min > 0:
        return DISABLED, "it was scaled to 0 by someone else, which pauses it"
    return BY_HAND, "it was scaled to 0 by someone else, and stays there until they scale it up"


def markings(policy: str, workload: Workload, after: int, past: Past) -> tuple[Mark, ...]:
    """What is written before the count becomes `after`, so that a decision's 0 and a person's are told apart. A mark
    that a rollback brought back is removed first: writing the same again would not make it ours."""
    brought_back = ZERO in workload.rolled_back
    removal = (_mark(workload, None, "came with a rollback"),) if brought_back else ()
    if workload.replicas == 0:  # the mark stays until it is seen to run: what wakes it may yet fail
        is_lost = ZERO not in workload.annotations and own_zero(workload, past) is not None
        again = (_mark(workload, policy, "is at 0 by decision"),) if is_lost else ()
        return removal or again
    if after == 0:
        is_marked = ZERO in workload.annotations
        return removal + (() if is_marked else (_mark(workload, policy, "goes to 0 by decision"),))
    if ZERO not in workload.annotations:
        return removal
    return (_mark(workload, None, "runs again"),)


def _mark(workload: Workload, policy: str | None, reason: str) -> Mark:
    # Only of the version that was seen: of one that has gone to 0 since, it would make a person's 0 a decision's.
    return Mark(workload.ref, workload.uid, {ZERO: policy}, reason=reason, version=workload.version)
