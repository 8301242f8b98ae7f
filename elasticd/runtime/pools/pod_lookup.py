"""Says of a pod where it is, and what was last found when it was looked at, while the daemon runs.

Knows the cluster as pools are shown it, and the plans that were made; decides nothing, and what it remembers
is lost with the process.
"""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import chain, islice

from msgspec.structs import replace

from elasticd.base.clock import Clock
from elasticd.base.errors import near
from elasticd.decision.pool.asking import PoolCase
from elasticd.model.placement import PodDecision
from elasticd.model.pod_status import PodStatus, about, found, strayed
from elasticd.model.workload import Pod
from elasticd.ports.cluster import Cluster, Pretending, Snapshot, Stray
from elasticd.runtime.pools.mover import Mover
from elasticd.runtime.pools.placer import Placer, Planner

KEPT = 600.0
"""Seconds for which it is remembered when a pod was looked at: one that waits is, far more often."""

COMPARED = 20_000
"""Names with which one that is not there is compared."""


class Looks:
    """What was last planned for pods that wait, by UID; also what was no news, and so stands nowhere else."""

    def __init__(self) -> None:
        self.pods: dict[str, PodDecision] = {}
        self._swept = 0.0

    def placing(self, planner: Planner) -> Planner:
        """The planner, watched."""

        async def watched(cases: Sequence[PoolCase]) -> list[tuple[PodDecision, ...] | str]:
            made = await planner(cases)
            for plan in made:
                if not isinstance(plan, str):
                    self._note(plan)
            return made

        return watched

    def _note(self, plan: Sequence[PodDecision]) -> None:
        at = max([one.at for one in plan], default=0.0)
        if at - self._swept > KEPT:
            self._swept = at
            self.pods = {uid: one for uid, one in self.pods.items() if at - one.at <= KEPT}
        for one in plan:
            if one.verdict == "bind":  # it waits no longer, and there may be very many
                self.pods.pop(one.uid, None)
            else:
                self.pods[one.uid] = one


class PodLookup:
    """Answers for the pods of one cluster."""

    def __init__(self, cluster: Cluster, placer: Placer, mover: Mover, clock: Clock, looks: Looks) -> None:
        self._cluster, self._placer, self._mover, self._clock, self._looks = cluster, placer, mover, clock, looks

    async def find(self, named: str) -> PodStatus:
        """What is known of a pod, NAMESPACE/NAME; of none, only which pools there are."""
        now = self._clock.now()
        snapshot = await self._placer.look(now)
        policies = [pool.policy for pool in self._placer.pools]
        seen = PodStatus(
            at=now,
            confirmed=min(snapshot.confirmed, snapshot.nodes_confirmed),
            leading=self._cluster.leading,
            pools=tuple([about(one, self._mover.latest(one.name).at or None) for one in policies]),
        )
        namespace, _, name = named.partition("/")
        if not name:
            return seen
        strays = {one.pod.uid: one for one in snapshot.strays()} if isinstance(snapshot, Pretending) else {}
        pods = [pod for pod in _pods(snapshot, strays) if pod.namespace == namespace]
        pod = next((one for one in pods if one.name == name), None)
        if pod is not None:
            there = found(pod, policies, self._looks.pods.get(pod.uid))
            stray = strays.get(pod.uid)
            there = strayed(there, stray.really, stray.seen) if stray else there
            return replace(seen, found=there, inhabited=True)
        others = [f"{one.namespace}/{one.name}" for one in pods]
        known = others or sorted({pod.namespace for pod in _pods(snapshot, strays)})
        told = await asyncio.to_thread(near, named if others else namespace, list(islice(known, COMPARED)))
        return replace(seen, inhabited=bool(pods), near=told)


def _pods(snapshot: Snapshot, strays: Mapping[str, Stray]) -> chain[Pod]:
    """All that wait or run, and those that only in a dry run have gone."""
    gone = (one.pod for one in strays.values() if not one.seen)
    return chain(snapshot.pending(), *snapshot.on_nodes().values(), gone)
