"""A pool policy in force, with what is kept of it from one plan to the next.

Knows its plugins and how they fare, and what is on its nodes; knows nothing of when it is looked at.
"""

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Literal

import numpy as np

from elasticd.base.memo import Derived
from elasticd.kit.node_table import NodeTable, NodeTableBuilder
from elasticd.model.actions import Evict
from elasticd.model.moves import MoveDecision
from elasticd.model.placement import PodDecision
from elasticd.model.policy import PoolPolicy
from elasticd.model.workload import Failure, Node
from elasticd.ports.cluster import Snapshot
from elasticd.registry import Hooks
from elasticd.runtime.pools.usage_view import KnownUsage, WantedSeries

log = logging.getLogger(__name__)

OURSELVES = "elasticd"
"""Who failed where it is no plugin."""

Asker = Literal["placing", "moving"]
"""The kinds of plans."""

STRIKES = 5
"""Plans in a row in which an implementation failed, after which it is switched off until reload."""


class Pool:
    """A pool policy with what is kept of it from one plan to the next: its plugins, and what is on its nodes."""

    def __init__(self, policy: PoolPolicy) -> None:
        self.policy, self.hooks, self.ledger = policy, Hooks(policy.strategies), NodeTableBuilder()
        self.wants = WantedSeries(self.hooks.reads_of_nodes, self.hooks.reads or frozenset())
        self.nodes = Derived[str, tuple[Node, ...], tuple[Node, ...]](
            lambda _, nodes: tuple(node for node in nodes if policy.pool.holds(node))
        )
        self._strikes: dict[tuple[Asker, str], int] = {}
        self._failing: dict[Asker, frozenset[tuple[str, str]]] = {}
        self.waiting: Counter[str] = Counter()
        self.measured = (0, 0)
        """Of how many nodes what they use was known at the last look, once for each series, and of how many it was
        asked."""
        self.blocked = ""
        """Where one of its plugins got stuck."""
        self.mute = ""
        """That one does not answer which is asked for a person alone: nothing is decided by that, and so all else goes
        on."""

    def columns(self, snapshot: Snapshot, known: KnownUsage) -> NodeTable:
        """Its nodes as they are, and how much is known of what they use."""
        nodes = self.nodes("", snapshot.nodes())
        found = self.ledger.columns(nodes, snapshot.on_nodes(), known.use, known.peaks, known.measured)
        counts = [int(np.isfinite(found.use(series)).sum()) for series in self.wants.nodes]
        self.measured = (sum(counts), len(counts) * len(nodes))
        return found

    def off(self) -> frozenset[str]:
        """Its implementations that have failed too often."""
        return frozenset(name for (_, name), count in self._strikes.items() if count >= STRIKES)

    def count_failure(self, asker: Asker, failures: Iterable[Failure], asked: Collection[str]) -> None:
        """Count failures in a row, in each kind of plan for itself: what one asks the other does not. Each change is a
        line of the log; who failed works again when a plan shows that its hook was `asked` and did not."""
        found: dict[tuple[str, str], str] = {}
        for failure in failures:
            found.setdefault((failure.plugin, failure.hook), failure.message)
        self._tell(asker, found, asked)
        off, failed = self.off(), {name for name, _ in found}
        self._strikes = {
            (whose, name): count
            for (whose, name), count in self._strikes.items()
            if whose != asker or name in failed or name in off
        }
        for name in failed:
            count = self._strikes[asker, name] = self._strikes.get((asker, name), 0) + 1
            if count == STRIKES and name not in off and name != OURSELVES:
                log.warning("policy %s: plugin %s is switched off until reload", self.policy.name, name)

    def _tell(self, asker: Asker, found: Mapping[tuple[str, str], str], asked: Collection[str]) -> None:
        before = self._failing.get(asker, frozenset())
        self._failing[asker] = frozenset(found) | {one for one in before if one[1] not in asked}
        for name, hook in sorted(self._failing[asker] - before):
            who = "" if name == OURSELVES else f"plugin {name}: {hook} "
            log.warning("policy %s: %s%s", self.policy.name, who, found[name, hook])
        if before and not self._failing[asker]:
            log.info("policy %s: its plugins work again", self.policy.name)


def asked(decisions: Collection[PodDecision]) -> frozenset[str]:
    """The hooks that decisions about pods show to have been asked: who gives way is not, for a pod that fits."""
    shown = {
        "select_nodes": bool(decisions),
        "filter_nodes": bool(decisions),
        "score_nodes": any(one.node for one in decisions),
        "place_pods": any(one.node for one in decisions),
        "select_victims": any(isinstance(action, Evict) for one in decisions for action in one.actions),
    }
    return frozenset(hook for hook, is_shown in shown.items() if is_shown)


def asked_to_move(decisions: Collection[MoveDecision]) -> frozenset[str]:
    """The same of a plan of moves, which asks who should move in any case."""
    found = ("select_nodes", "filter_nodes", "score_nodes") if any(one.target for one in decisions) else ()
    return frozenset(("rebind_pods", "rebalance_nodes", *found))


def measured(pools: Iterable[Pool]) -> tuple[int, int]:
    """How many of the series of nodes are known in all pools, and of how many."""
    found = [pool.measured for pool in pools]
    return sum(known for known, _ in found), sum(asked for _, asked in found)
