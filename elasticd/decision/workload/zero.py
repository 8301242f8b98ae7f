"""Zero by decision and zero by a person: what tells them apart is written at the workload.

Pure. Knows the annotation that goes before a count of 0 and is taken away above it; knows nothing of why a count falls.
The cluster remembers it, so that a restart or another leader knows it too. HPA: ScaledToZero, Kubernetes 1.37.
"""

from elasticd.model.actions import Mark
from elasticd.model.policy import Bounds
from elasticd.model.workload import Workload

ZERO = "elasticd.io/scaled-to-zero"
"""The policy that decided on 0. Without it, a count of 0 is a person's."""


def paused(workload: Workload, bounds: Bounds) -> tuple[str, str] | None:
    """Why a workload at 0 is left alone, as a reason and a sentence; None where a decision put it there. A policy whose
    min was raised since then brings it back to that (HPA 1.37)."""
    if workload.replicas > 0 or ZERO in workload.annotations:
        return None
    if bounds.min > 0:
        return "ScalingDisabled", "it was scaled to 0 by someone else, which pauses it"
    return "ScaledToZeroByHand", "it was scaled to 0 by someone else, and stays there until they scale it up"


def markings(policy: str, workload: Workload, after: int) -> tuple[Mark, ...]:
    """What is written before the count becomes `after`, so that a decision's 0 and a person's are told apart."""
    if workload.replicas == 0:  # the mark stays until it is seen to run: what wakes it may yet fail
        return ()
    if after == 0:
        return () if ZERO in workload.annotations else (_mark(workload, policy, "goes to 0 by decision"),)
    if ZERO not in workload.annotations:
        return ()
    # Only of the version that was seen to run: of one that has gone to 0 since, it would make a person's 0.
    return (_mark(workload, None, "runs again", workload.version),)


def _mark(workload: Workload, policy: str | None, reason: str, version: str = "") -> Mark:
    return Mark(workload.ref, workload.uid, {ZERO: policy}, reason=reason, version=version)
