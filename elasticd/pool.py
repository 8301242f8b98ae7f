"""A pool policy in force, with what is kept of it from one plan to the next.

Knows its plugins and how they fare, and what is on its nodes; knows nothing of when it is looked at.
"""

from collections import Counter
from collections.abc import Iterable

from elasticd.columns import Ledger
from elasticd.derived import Derived
from elasticd.model import Failure, Node
from elasticd.plugins import Hooks
from elasticd.policy import PoolPolicy
from elasticd.views import Wants

STRIKES = 5
"""Plans in a row in which an implementation failed, after which it is switched off until reload."""


class Pool:
    """A pool policy with what is kept of it from one plan to the next: its plugins, and what is on its nodes."""

    def __init__(self, policy: PoolPolicy) -> None:
        self.policy, self.hooks, self.ledger = policy, Hooks(policy.strategies), Ledger()
        self.wants = Wants(self.hooks.reads_of_nodes, self.hooks.reads or frozenset())
        self.nodes = Derived[str, tuple[Node, ...], tuple[Node, ...]](
            lambda _, nodes: tuple(node for node in nodes if policy.pool.holds(node))
        )
        self._strikes: dict[str, int] = {}
        self.waiting: Counter[str] = Counter()
        self.blocked = ""
        """Where one of its plugins got stuck."""

    def off(self) -> frozenset[str]:
        """Its implementations that have failed too often."""
        return frozenset(name for name, count in self._strikes.items() if count >= STRIKES)

    def strike(self, failures: Iterable[Failure]) -> None:
        """Count failures in a row."""
        failed = {failure.plugin for failure in failures}
        off = self.off()
        self._strikes = {name: count for name, count in self._strikes.items() if name in failed or name in off}
        for name in failed:
            self._strikes[name] = self._strikes.get(name, 0) + 1
