"""Logs failures of plugins and actions, and knows which last: a line when a failure begins, changes or ends, not for
each decision.

Knows the journal's records and logging; knows nothing of what is done about it.
"""

import logging
from collections import Counter

from elasticd.journal import Key
from elasticd.model.listener import Governed, Notice
from elasticd.model.records import Decision, Outcome

log = logging.getLogger(__name__)

IN_A_ROW = 3
"""Conflicts or refusals that count as a failure: one by itself says that somebody else was first, or that it is not
the time."""


def asked(decision: Decision) -> frozenset[str]:
    """The hooks that a decision shows to have been asked; "" is that of a blocked plugin. A hook that was not asked may
    still be failing: in a hold for another cause, or where the count of replicas does not fall."""
    judged, wished = bool(decision.interval_by), decision.wish is not None
    is_asked = {
        "poll_interval": judged,
        "recommend_replicas": wished or bool(decision.recommendations) or decision.reason == "NoRecommendation",
        "limit": wished,
        "rank_pods": decision.verdict == "scale" and decision.replicas < decision.current,
        "recommend_resources": bool(decision.sizing.resources),
        "": judged and (wished or bool(decision.sizing.resources)),
    }
    return frozenset(hook for hook, evident in is_asked.items() if evident)


class FailureLog:
    """Listens to the loop, and logs changes of failures."""

    def __init__(self) -> None:
        self._failing: dict[Key, dict[tuple[str, str], str]] = {}
        self._undone: dict[tuple[Key, bool], Outcome] = {}
        """Failed outcomes, of each workload those of its count apart: other actions of a decision may be done."""
        self._in_a_row = Counter[tuple[Key, bool]]()
        """Conflicts and refusals."""

    @property
    def undone(self) -> tuple[Outcome, ...]:
        """The last outcome of each workload whose count could not be changed last."""
        return tuple([outcome for (_, about_count), outcome in self._undone.items() if about_count])

    def on(self, record: Notice) -> None:
        """Log changes of plugins' and actions' failures. Forget workloads that are no longer governed."""
        match record:
            case Decision():
                self._note_plugins(record)
            case Outcome():
                self._note_action(record)
            case Governed(keys):
                self._failing = {key: lines for key, lines in self._failing.items() if key in keys}
                self._undone = {what: outcome for what, outcome in self._undone.items() if what[0] in keys}
                self._in_a_row = Counter({what: many for what, many in self._in_a_row.items() if what[0] in keys})
            case _:
                pass

    def _note_action(self, outcome: Outcome) -> None:
        key = (outcome.policy, outcome.workload)
        what = (key, outcome.before != outcome.after)
        self._in_a_row[what] = self._in_a_row[what] + 1 if outcome.result in ("conflict", "refused") else 0
        if outcome.result == "failed" or self._in_a_row[what] >= IN_A_ROW:
            last, self._undone[what] = self._undone.get(what), outcome
            if last is None or _cause(last) != _cause(outcome):
                log.warning("policy %s: %s: %s", *key, outcome.message)
        elif self._undone.pop(what, None) is not None and outcome.result == "done":
            log.info("policy %s: %s: its actions are done again", *key)

    def _note_plugins(self, decision: Decision) -> None:
        key = (decision.policy, decision.workload)
        before = self._failing.get(key, {})
        if not before and not decision.failures:
            return
        now = {(failure.plugin, failure.hook): failure.message for failure in decision.failures}
        for (plugin, hook), message in now.items():
            if before.get((plugin, hook)) != message:
                log.warning("policy %s: %s: plugin %s: %s %s", *key, plugin, hook, message)
        hooks_asked = asked(decision)
        failing = {failed: message for failed, message in before.items() if failed[1] not in hooks_asked} | now
        if failing:
            self._failing[key] = failing
        else:
            del self._failing[key]
            log.info("policy %s: %s: its plugins work again", *key)


def _cause(outcome: Outcome) -> tuple[int, str]:
    """What tells one failure from another: a message may have counts in it."""
    return outcome.code, outcome.reason or outcome.message
