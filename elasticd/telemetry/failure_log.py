"""Says in the log what has gone wrong, and that it is well again: a line for each change, not for each decision.

Knows the journal's records and logging; knows nothing of what is done about it.
"""

import logging
from collections.abc import Set as AbstractSet

from elasticd.journal import Key
from elasticd.model.records import Decision, Outcome

log = logging.getLogger(__name__)


def asked(decision: Decision) -> frozenset[str]:
    """The hooks that a decision shows to have been asked; "" for whatever blocked. What was not asked may fail still:
    in a hold that has another cause, or where the count does not fall."""
    judged, wished = bool(decision.interval_by), decision.wish is not None
    shown = {
        "poll_interval": judged,
        "recommend_replicas": wished or bool(decision.recommendations) or decision.reason == "NoRecommendation",
        "limit": wished,
        "rank_pods": decision.verdict == "scale" and decision.replicas < decision.current,
        "recommend_resources": bool(decision.sizing.resources),
        "": judged and (wished or bool(decision.sizing.resources)),
    }
    return frozenset(hook for hook, is_shown in shown.items() if is_shown)


class FailureLog:
    """A listener of the loop."""

    def __init__(self) -> None:
        self._failing: dict[Key, dict[tuple[str, str], str]] = {}

    def decided(self, decision: Decision) -> None:
        """Tell of plugins that begin to fail, fail otherwise, or fail no more."""
        key = (decision.policy, decision.workload)
        before = self._failing.get(key, {})
        if not before and not decision.failures:
            return
        now = {(one.plugin, one.hook): one.message for one in decision.failures}
        for (plugin, hook), message in now.items():
            if before.get((plugin, hook)) != message:
                log.warning("policy %s: %s: plugin %s: %s %s", *key, plugin, hook, message)
        again = asked(decision)
        failing = {one: message for one, message in before.items() if one[1] not in again} | now
        if failing:
            self._failing[key] = failing
        else:
            del self._failing[key]
            log.info("policy %s: %s: its plugins work again", *key)

    def acted(self, outcome: Outcome) -> None:
        """Tell of actions that failed."""
        if outcome.result == "failed":
            log.warning("policy %s: %s: %s", outcome.policy, outcome.workload, outcome.message)

    def ticked(self, lag: float, unchanged: int) -> None:
        """Nothing to tell."""

    def governed(self, keys: AbstractSet[Key]) -> None:
        """Forget those that are no longer governed."""
        self._failing = {key: lines for key, lines in self._failing.items() if key in keys}
