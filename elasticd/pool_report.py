"""Gathers what people are shown of pools, from whoever places and moves their pods.

Knows where each part is found; knows nothing of what it says, nor of how it is shown.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain

from msgspec.structs import replace

from elasticd.clock import Clock
from elasticd.cluster import Cluster, Snapshot
from elasticd.model import Pod
from elasticd.mover import Mover, moves
from elasticd.next_moves import moving
from elasticd.node_report import Heaps, Restraint, asked_labels, report
from elasticd.placer import Placer
from elasticd.placing.ask import PoolCase
from elasticd.placing.moving import restraint
from elasticd.pool import Pool
from elasticd.reports import Moving, NodeView, PoolReport


class PoolReports:
    """All pools of a daemon."""

    def __init__(self, cluster: Cluster, placer: Placer, mover: Mover, clock: Clock) -> None:
        self._cluster, self._placer, self._mover, self._clock = cluster, placer, mover, clock

    async def nodes(self, node: str = "") -> Sequence[PoolReport | NodeView]:
        """Every pool; with a node's name, that node in each pool that has it."""
        now = self._clock.now()
        snapshot = await self._placer.look(now)
        cases = [(pool, await self._placer.shown(pool, snapshot, now)) for pool in self._placer.pools]
        if node:
            return [self._view(*one, snapshot, node) for one in cases if one[1].columns.index(node) is not None]
        return [self._report(pool, case) for pool, case in cases]

    def _report(self, pool: Pool, case: PoolCase) -> PoolReport:
        levels = self._mover.latest(pool.policy.name).plan.levels
        found = self._moving(pool, case, restraint(case))
        return PoolReport(
            pool.policy.name, pool.policy.mode, tuple(report(pool.policy.name, case.columns, levels)), found
        )

    def _moving(self, pool: Pool, case: PoolCase, why: Restraint) -> Moving | None:
        """The latest look for pods that should move; None where none is ever moved."""
        if not moves(pool):
            return None
        latest = self._mover.latest(pool.policy.name)
        if not self._cluster.leading:
            return Moving(0.0, 0.0, "this elasticd does not lead: another moves pods")
        if pool.blocked:
            return Moving(latest.at, 0.0, f"nothing moves: {pool.blocked}")
        if not latest.at:
            return Moving(0.0, latest.due, "not looked at yet: nodes, pods or a source are waited for")

        def reasons(node: str) -> Mapping[str, int]:
            index = case.columns.index(node)
            found = (why(pod) for pod in (() if index is None else case.columns.pods(index)))
            return Counter(one[0] if one else "" for one in found)

        return moving(latest.at, latest.due, latest.plan, latest.outcomes, reasons)

    def _view(self, pool: Pool, case: PoolCase, snapshot: Snapshot, name: str) -> NodeView:
        index, why = case.columns.index(name) or 0, restraint(case)
        levels = self._mover.latest(pool.policy.name).plan.levels
        (shown,) = (one for one in report(pool.policy.name, case.columns, levels) if one.node == name)
        node, pods = case.columns.nodes[index], case.columns.pods(index)
        heaps = Heaps(pods, case.observation.use, why)
        waiting = (pod for pod in snapshot.pending() if pool.policy.pool.has(pod))
        return NodeView(
            pool.policy.mode,
            shown,
            heaps.of("Never"),
            heaps.of("OnFailure"),
            heaps.of("Always"),
            heaps.rooted(),
            tuple(f"{one.key}{'=' * bool(one.value)}{one.value}:{one.effect}" for one in node.taints),
            asked_labels(node, pool.policy.pool.nodes, chain[Pod](pods, waiting)),
            _about(self._moving(pool, case, why), name),
        )


def _about(found: Moving | None, node: str) -> Moving | None:
    """Of the moves, those from a node or to it."""
    if found is None:
        return None
    mine = tuple(one for one in found.moves if node in (one.decision.node, one.decision.target))
    return replace(found, moves=mine)
