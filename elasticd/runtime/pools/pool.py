"""A pool policy in force, with its state from one plan to the next."""

import logging
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Literal

import numpy as np

from elasticd.base.memo import Memo
from elasticd.base.news import LastReported
from elasticd.kit.node_table import NodeTable, NodeTableBuilder
from elasticd.kit.volume_view import VolumeView
from elasticd.model.actions import Evict
from elasticd.model.placement import PodDecision
from elasticd.model.policy import PoolPolicy
from elasticd.model.workload import Failure, Node, Pod
from elasticd.ports.cluster import Snapshot
from elasticd.registry import FailureCounter, Hooks
from elasticd.runtime.pools.usage_view import KnownUsage, WantedSeries

log = logging.getLogger(__name__)

OURSELVES = "elasticd"
"""The plugin that a failure names when no plugin failed."""

Asker = Literal["placing", "moving"]
"""The kinds of plans."""


class Pool:
    """A pool policy with its state from one plan to the next: its plugins and their failures, and its node table."""

    def __init__(self, policy: PoolPolicy) -> None:
        self.policy, self.hooks = policy, Hooks(policy.strategies)
        self._builder, self._around = NodeTableBuilder(), NodeTableBuilder()
        self.moves = any(map(self.hooks.implements, ("rebind_pods", "rebalance_nodes")))
        self._preempts = self.hooks.implements("select_victims")
        self.disturbs = self.moves or self._preempts
        """Whether its strategies make pods leave (`moves`: or go elsewhere): only then budgets are needed."""
        self.wants = WantedSeries(self.hooks.reads_of_nodes, self.hooks.reads or frozenset())
        self.nodes = Memo[str, tuple[Node, ...], tuple[Node, ...]](
            lambda _, nodes: tuple(node for node in nodes if policy.pool.holds(node))
        )
        self.outside = Memo[str, tuple[Node, ...], tuple[Node, ...]](
            lambda _, nodes: tuple(node for node in nodes if not policy.pool.holds(node))
        )
        self.failures = FailureCounter()
        self._failing: dict[Asker, frozenset[tuple[str, str]]] = {}
        self.waiting = LastReported(Counter[str]())
        self.measured = (0, 0)
        """At the last look: how many series of nodes were known, and how many were wanted (each series counts once for
        each node)."""
        self.blocked = ""
        """Where one of its plugins got stuck, so that none is called until reload; empty: nowhere."""
        self.mute = ""
        """Why a plugin is no longer asked for a person's report; empty: it is. Decisions go on without that."""

    def columns(self, snapshot: Snapshot, usage: KnownUsage, *, volumes: bool = False) -> NodeTable:
        """Build the table of its nodes, with the cluster's `volumes` if a pod needs them, or one that has claims might
        be preempted; and count the known series of nodes in `measured`."""
        nodes = self.nodes("", snapshot.nodes())
        pods, namespaces = snapshot.on_nodes(), snapshot.namespaces()
        table = self._builder.columns(nodes, pods, usage.use, usage.peaks, usage.measured, namespaces)
        if others := self.outside("", snapshot.nodes()):
            table.outside = self._around.columns(others, pods, namespaces=namespaces)
        volumes = volumes or (self._preempts and table.with_claims)
        table.volumes = VolumeView(snapshot.storage()) if volumes else None
        counts = [int(np.isfinite(table.use(series)).sum()) for series in self.wants.nodes]
        self.measured = (sum(counts), len(counts) * len(nodes))
        return table

    def needs_volumes(self, pods: Iterable[Pod]) -> bool:
        """Whether a plan for these pods depends on volumes: one of them has claims, or such may be moved."""
        return any(pod.volume_claims for pod in pods) or (self.moves and self.policy.moves.claims)

    def count_failure(self, asker: Asker, failures: Iterable[Failure], hooks_asked: Collection[str]) -> None:
        """Count failures in a row, for each kind of plan apart, because each asks other hooks. Log each change.

        A plugin works again when its hook is in `hooks_asked` (the hooks that a plan was seen to ask) and did not fail.
        """
        messages: dict[tuple[str, str], str] = {}
        for failure in failures:
            messages.setdefault((failure.plugin, failure.hook), failure.message)
        before = self._failing.get(asker, frozenset())
        self._failing[asker] = frozenset(messages) | {failure for failure in before if failure[1] not in hooks_asked}
        for name, hook in sorted(self._failing[asker] - before):
            prefix = "" if name == OURSELVES else f"plugin {name}: {hook} "
            log.warning("policy %s: %s%s", self.policy.name, prefix, messages[name, hook])
        if before and not self._failing[asker]:
            log.info("policy %s: its plugins work again", self.policy.name)
        for name in self.failures.count(asker, {name for name, _ in messages}) - {OURSELVES}:
            log.warning("policy %s: plugin %s is switched off until reload", self.policy.name, name)


def asked(decisions: Collection[PodDecision]) -> frozenset[str]:
    """The hooks that decisions about pods show to have been asked; select_victims is not, for a pod that fits."""
    is_asked = {
        "select_nodes": bool(decisions),
        "filter_nodes": bool(decisions),
        "score_nodes": any(decision.node for decision in decisions),
        "place_pods": any(decision.node for decision in decisions),
        "select_victims": any(isinstance(action, Evict) for decision in decisions for action in decision.actions),
    }
    return frozenset(hook for hook, evident in is_asked.items() if evident)


def measured(pools: Iterable[Pool]) -> tuple[int, int]:
    """How many series of nodes are known in all pools, and how many are wanted."""
    counts = [pool.measured for pool in pools]
    return sum(count for count, _ in counts), sum(total for _, total in counts)
