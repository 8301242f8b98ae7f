"""Says in the log what has gone wrong, and that it is well again: a line for each change, not for each decision.

Knows the journal's records and logging; knows nothing of what is done about it.
"""

import logging
from collections.abc import Set as AbstractSet

from elasticd.journal import Key
from elasticd.records import Decision, Outcome

log = logging.getLogger(__name__)


class Troubles:
    """A listener of the loop."""

    def __init__(self) -> None:
        self._failing: dict[Key, tuple[str, ...]] = {}

    def decided(self, decision: Decision) -> None:
        """Tell of plugins that begin to fail, fail otherwise, or fail no more."""
        key = (decision.policy, decision.workload)
        now = tuple(f"{one.plugin}: {one.hook} {one.message}" for one in decision.failures)
        before = self._failing.get(key, ())
        if now == before:
            return
        for line in now:
            if line not in before:
                log.warning("policy %s: %s: plugin %s", decision.policy, decision.workload, line)
        if now:
            self._failing[key] = now
        else:
            del self._failing[key]
            log.info("policy %s: %s: its plugins work again", decision.policy, decision.workload)

    def acted(self, outcome: Outcome) -> None:
        """Tell of actions that failed."""
        if outcome.result == "failed":
            log.warning("policy %s: %s: %s", outcome.policy, outcome.workload, outcome.message)

    def ticked(self, lag: float, unchanged: int) -> None:
        """Nothing to tell."""

    def governed(self, keys: AbstractSet[Key]) -> None:
        """Forget those that are no longer governed."""
        self._failing = {key: lines for key, lines in self._failing.items() if key in keys}
