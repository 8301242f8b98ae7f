"""A PodWriter as a test needs it."""

import math

from elasticd.base.clock import Clock
from elasticd.cluster.kubernetes.session import Session
from elasticd.cluster.kubernetes.watch.discovery import Discovery
from elasticd.cluster.kubernetes.watch.store import PodStore
from elasticd.cluster.kubernetes.write.budget import Budget
from elasticd.cluster.kubernetes.write.late_evictions import LateEvictions
from elasticd.cluster.kubernetes.write.pods import JUDGED, PodWriter


def pod_writer(
    session: Session,
    clock: Clock,
    budget: Budget | None = None,
    judged: float = JUDGED,
    late: LateEvictions | None = None,
) -> PodWriter:
    """One that leads first of all, or knows of these late evictions."""
    budget = budget or Budget(clock, 1000, 10)
    late = late or late_evictions(session, clock)
    writer = PodWriter(session, Discovery(session), budget, clock, late, PodStore())
    writer.judged = judged
    return writer


def late_evictions(
    session: Session,
    clock: Clock,
    pods: PodStore | None = None,
    abandoned: float = -math.inf,
    budget: Budget | None = None,
) -> LateEvictions:
    """Those of one that knows these pods, and whose leadership was taken so from another that did not release it."""
    budget = budget or Budget(clock, 1000, 10)
    return LateEvictions(session, budget, clock, PodStore() if pods is None else pods, lambda: abandoned)
