"""Where a pod is, as a running daemon sees it, and whose it is: what the journal alone cannot say.

Frozen records, and in words why nothing was decided about a pod. Pure. Knows which pods pools are about; knows nothing
of how the cluster is looked at.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from elasticd.base.errors import nearest
from elasticd.base.text import last_heard, one_line
from elasticd.model.placement import PodDecision
from elasticd.model.policy import PoolPolicy
from elasticd.model.workload import Pod

FRESH = 90.0
"""Seconds for which what was seen of the cluster is taken for how it is."""


class PoolAbout(Struct, frozen=True):
    """A pool policy in force: which pods it is about, and when it was last looked at for pods that should move."""

    policy: str
    mode: Literal["act", "observe"]
    scheduler: str
    namespaces: tuple[str, ...] = ("*",)
    labels: dict[str, str] = {}
    looked: float | None = None


class PodFound(Struct, frozen=True):
    """A pod as the cluster shows it. `policy` is the first, by name, that is about it, and `policies` all of them, with
    those that move it though another scheduler places it; `latest` what was last decided when it was planned for while
    it waited. `pretended`: what a dry run did to it, and `seen` the node where that put
    it, if it put it on one; all else is as it really is."""

    uid: str
    scheduler: str
    node: str = ""
    phase: str = ""
    deleted: bool = False
    policy: str = ""
    latest: PodDecision | None = None
    pretended: Literal["", "bound", "moved", "evicted"] = ""
    seen: str = ""
    policies: tuple[str, ...] = ()


class PodStatus(Struct, frozen=True):
    """What is known of a name. Where there is no such pod: whether its namespace has any, and the nearest name. `at` is
    when it was asked, `confirmed` when the cluster last proved current what it shows."""

    at: float
    confirmed: float
    leading: bool
    pools: tuple[PoolAbout, ...] = ()
    found: PodFound | None = None
    inhabited: bool = False
    near: str = ""

    @property
    def fresh(self) -> bool:
        """Whether what the cluster showed is recent enough to be true now."""
        return self.at - self.confirmed <= FRESH


def about(policy: PoolPolicy, looked: float | None) -> PoolAbout:
    """Which pods a policy is about."""
    pool = policy.pool
    return PoolAbout(policy.name, policy.mode, pool.scheduler, pool.namespaces, pool.labels, looked)


def found(pod: Pod, policies: Sequence[PoolPolicy], latest: PodDecision | None) -> PodFound:
    """A pod, and which policies are about it."""
    mine = next((policy.name for policy in policies if policy.pool.has(pod)), "")
    all_of = tuple(
        [policy.name for policy in policies if policy.pool.has(pod) or (policy.moves.others and policy.pool.names(pod))]
    )
    return PodFound(pod.uid, pod.needs.scheduler, pod.node, pod.phase, pod.deleted, mine, latest, policies=all_of)


def strayed(pod: PodFound, really: str, seen: str) -> PodFound:
    """The pod as a dry run has it, where that differs from the cluster."""
    if not really:
        return replace(pod, node="", phase="Pending", pretended="bound", seen=seen)
    return replace(pod, node=really, pretended="moved" if seen else "evicted", seen=seen)


def undecided(name: str, status: PodStatus) -> str:
    """Why nothing was decided about a pod, in a clause."""
    pod, namespace = status.found, name.split("/", maxsplit=1)[0]
    if not status.fresh:
        return _last_heard(status)
    if pod is None:
        problem = "no such pod waits or runs" if status.inhabited else f"no pod is seen in namespace {namespace}"
        return one_line(f"{problem}{status.near}")
    if not status.pools:
        return "no policy in force has a table [pool]"
    return one_line(
        _explain_claimed(pod, leading=status.leading)
        if pod.policy
        else _explain_unclaimed(namespace, pod, status.pools)
    )


def unclaimed(name: str, status: PodStatus) -> str:
    """Why no policy is about a pod that is there, in a clause; empty: one is, or it is not known."""
    pod = status.found
    return undecided(name, status) if status.fresh and pod is not None and not (pod.policy or pod.policies) else ""


def _explain_claimed(pod: PodFound, *, leading: bool) -> str:
    """Why nothing was decided about a pod of a pool."""
    if not leading:
        return f"policy {pod.policy} is about it, and another elasticd leads: ask there"
    if pod.node:
        return f"policy {pod.policy} is about it, and it runs on {pod.node}: nothing has been decided since"
    return f"policy {pod.policy} is about it, and has yet to look at it"


def _last_heard(status: PodStatus) -> str:
    return last_heard(status.at, status.confirmed)


def _explain_unclaimed(namespace: str, pod: PodFound, pools: Sequence[PoolAbout]) -> str:
    """Why no policy is about a pod."""
    same_scheduler = [pool for pool in pools if pool.scheduler == pod.scheduler]
    if not same_scheduler:
        schedulers = sorted({pool.scheduler for pool in pools})
        listed = " and ".join(f'"{scheduler}"' for scheduler in schedulers)
        hint = nearest(pod.scheduler, schedulers) or f", and policies are about pods of {listed}"
        return f'its schedulerName is "{pod.scheduler}"{hint}'
    same_namespace = [pool for pool in same_scheduler if namespace in pool.namespaces or "*" in pool.namespaces]
    if not same_namespace:
        namespaces = "; ".join(f"{pool.policy}: {', '.join(pool.namespaces)}" for pool in same_scheduler)
        return f"no policy is about namespace {namespace} ({namespaces})"
    labels = "; ".join(f"{pool.policy}: {_labels(pool.labels)}" for pool in same_namespace)
    return f"no policy is about pods with its labels ({labels})"


def _labels(labels: dict[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))


def now(status: PodStatus, uid: str) -> str:
    """Where the pod is now, in a clause; `uid` is that of the pod about which something was decided."""
    pod = status.found
    if not status.fresh:
        return f"it is not known where it is: {_last_heard(status)}"
    if pod is None:
        return "it is gone: no pod of this name waits or runs"
    another = "another pod of this name " if uid and pod.uid != uid else "it "
    if pod.pretended:
        really = f"still runs on {pod.node}" if pod.node else "still waits for a node"
        where = f" to {pod.seen}" if pod.seen else ""
        return f"in the dry run {another}was {pod.pretended}{where}; in the cluster it {really}"
    if pod.deleted:
        return f"{another}is being deleted{f' on {pod.node}' if pod.node else ''}"
    return f"{another}{f'is on {pod.node}' if pod.node else 'waits for a node'}"
