"""Looks up a pod of the running daemon: where it is, and the last decision about it.

Knows the cluster as pools are shown it, and the plans that were made; decides nothing.
"""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import chain, islice

from msgspec.structs import replace

from elasticd.base.clock import Clock
from elasticd.base.errors import near
from elasticd.model.placement import PodDecision
from elasticd.model.policy import PoolPolicy
from elasticd.model.reports import PodFound, PodStatus, PoolAbout
from elasticd.model.workload import Pod
from elasticd.ports.cluster import Cluster, Pretending, Snapshot, Stray
from elasticd.runtime.pools.mover import Mover
from elasticd.runtime.pools.placer import Placer

COMPARED = 20_000
"""Names that are compared with a name that is not found, at most."""


class PodLookup:
    """Looks up the pods of one cluster."""

    def __init__(self, cluster: Cluster, placer: Placer, mover: Mover, clock: Clock) -> None:
        self._cluster, self._placer, self._mover, self._clock = cluster, placer, mover, clock

    async def find(self, full_name: str) -> PodStatus:
        """What is known of a pod, NAMESPACE/NAME; without a name, only which pools there are."""
        now = self._clock.now()
        snapshot = await self._placer.look(now)
        policies = [pool.policy for pool in self._placer.pools]
        status = PodStatus(
            at=now,
            confirmed=min(snapshot.confirmed, snapshot.nodes_confirmed),
            leading=self._cluster.leading,
            pools=tuple([pool_about(policy, self._mover.latest(policy.name).at or None) for policy in policies]),
        )
        namespace, _, name = full_name.partition("/")
        if not name:
            return status
        strays = {stray.pod.uid: stray for stray in snapshot.strays()} if isinstance(snapshot, Pretending) else {}
        pods = [pod for pod in _all_pods(snapshot, strays) if pod.namespace == namespace]
        pod = next((candidate for candidate in pods if candidate.name == name), None)
        if pod is not None:
            pod_found = found_pod(pod, policies, self._placer.decisions.latest(pod.uid), strays.get(pod.uid))
            return replace(status, found=pod_found, inhabited=True)
        names = [f"{pod.namespace}/{pod.name}" for pod in pods]
        candidates = names or sorted({pod.namespace for pod in _all_pods(snapshot, strays)})
        suggestion = await asyncio.to_thread(
            near, full_name if names else namespace, list(islice(candidates, COMPARED))
        )
        return replace(status, inhabited=bool(pods), near=suggestion)


def _all_pods(snapshot: Snapshot, strays: Mapping[str, Stray]) -> chain[Pod]:
    """All pods that wait or run, and those that left only in a dry run."""
    gone = (stray.pod for stray in strays.values() if not stray.seen)
    return chain(snapshot.pending(), *snapshot.on_nodes().values(), gone)


def pool_about(policy: PoolPolicy, looked: float | None) -> PoolAbout:
    """Which pods a policy is about."""
    pool = policy.pool
    return PoolAbout(policy.name, policy.mode, pool.scheduler, pool.namespaces, pool.labels, looked)


def found_pod(
    pod: Pod, policies: Sequence[PoolPolicy], latest: PodDecision | None, stray: Stray | None = None
) -> PodFound:
    """A pod, and which policies are about it; as a dry run has it, where that differs from the cluster."""
    mine = next((policy.name for policy in policies if policy.pool.has(pod)), "")
    all_of = tuple(
        [policy.name for policy in policies if policy.pool.has(pod) or (policy.moves.others and policy.pool.names(pod))]
    )
    pod_found = PodFound(pod.uid, pod.needs.scheduler, pod.node, pod.phase, pod.deleted, mine, latest, policies=all_of)
    if stray is None:
        return pod_found
    if not stray.really:
        return replace(pod_found, node="", phase="Pending", pretended="bound", seen=stray.seen)
    return replace(pod_found, node=stray.really, pretended="moved" if stray.seen else "evicted", seen=stray.seen)
