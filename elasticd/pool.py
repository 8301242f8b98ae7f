"""A pool policy in force, with what is kept of it from one plan to the next.

Knows its plugins and how they fare, and what is on its nodes; knows nothing of when it is looked at.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal

from elasticd.columns import Ledger
from elasticd.derived import Derived
from elasticd.model import Failure, Node
from elasticd.plugins import Hooks
from elasticd.policy import PoolPolicy
from elasticd.views import Wants

log = logging.getLogger(__name__)

STRIKES = 5
"""Plans in a row in which an implementation failed, after which it is switched off until reload."""


OURSELVES = "elasticd"
"""Who failed where it is no plugin."""

Part = Literal["placing", "moving"]


class Pool:
    """A pool policy with what is kept of it from one plan to the next: its plugins, and what is on its nodes."""

    def __init__(self, policy: PoolPolicy) -> None:
        self.policy, self.hooks, self.ledger = policy, Hooks(policy.strategies), Ledger()
        self.wants = Wants(self.hooks.reads_of_nodes, self.hooks.reads or frozenset())
        self.nodes = Derived[str, tuple[Node, ...], tuple[Node, ...]](
            lambda _, nodes: tuple(node for node in nodes if policy.pool.holds(node))
        )
        self._strikes: dict[tuple[Part, str], int] = {}
        self._failing: dict[Part, frozenset[tuple[str, str]]] = {}
        self.waiting: Counter[str] = Counter()
        self.blocked = ""
        """Where one of its plugins got stuck."""

    def off(self) -> frozenset[str]:
        """Its implementations that have failed too often."""
        return frozenset(name for (_, name), count in self._strikes.items() if count >= STRIKES)

    def strike(self, failures: Iterable[Failure], part: Part) -> None:
        """Count failures in a row, of plans of one part alone: what fails in moving may be well in placing. The log has
        a line for each change."""
        found: dict[tuple[str, str], str] = {}
        for failure in failures:
            found.setdefault((failure.plugin, failure.hook), failure.message)
        self._tell(found, part)
        off, failed = self.off(), {name for name, _ in found}
        for key in [key for key in self._strikes if key[0] == part and key[1] not in failed | off]:
            del self._strikes[key]
        for name in failed:
            count = self._strikes[part, name] = self._strikes.get((part, name), 0) + 1
            if count == STRIKES and name not in off and name != OURSELVES:
                log.warning("policy %s: plugin %s is switched off until reload", self.policy.name, name)

    def _tell(self, found: Mapping[tuple[str, str], str], part: Part) -> None:
        before, self._failing[part] = self._failing.get(part, frozenset()), frozenset(found)
        for name, hook in self._failing[part] - before:
            who = "" if name == OURSELVES else f"plugin {name}: {hook} "
            log.warning("policy %s: %s%s", self.policy.name, who, found[name, hook])
        if before and not found:
            log.info("policy %s: its plugins work again", self.policy.name)
