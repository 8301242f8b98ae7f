"""The last decisions about each pending pod: whether a new one is news, and why each pod waits.

Knows decisions about pods and what came of them; knows no cluster and no time but that of the decisions.
"""

import re
from collections import Counter
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from elasticd.model.actions import Evict
from elasticd.model.placement import PodDecision, PodOutcome

AGAIN = 10.0
"""Seconds after which a message with other words is news."""

REPEAT = 60.0
"""Seconds after which a message with the same words and other counts is news."""

OBSERVED = "Observed"
"""The reason of a pod that a policy in mode observe would place."""

UNASKED = "NotAskedYet"
"""The reason of a pod about which no strategy has been asked yet."""


class LastDecisions:
    """By the pods' UIDs."""

    def __init__(self) -> None:
        self._latest: dict[str, PodDecision] = {}
        self._written: dict[str, PodDecision] = {}
        self._failures: dict[str, str] = {}
        self._outcomes: dict[str, PodOutcome] = {}

    def news(self, decision: PodDecision) -> bool:
        """Take in a decision; whether it differs enough from the last that was written down to be written down too."""
        self._latest[decision.uid] = decision
        self._failures.pop(decision.uid, None)
        last = self._written.get(decision.uid)
        if last is not None and not _is_news(last, decision):
            return False
        self._written[decision.uid] = decision
        return True

    def latest(self, uid: str) -> PodDecision | None:
        """The last decision about a pod that still waits, written down or not."""
        decision = self._latest.get(uid)
        return None if decision is None or decision.verdict == "bind" else decision

    def failed(self, uid: str, outcome: PodOutcome) -> None:
        """Take in the last action for a pod that was not done."""
        self._outcomes[uid] = outcome

    def standing(self, uid: str) -> tuple[PodDecision, PodOutcome | None] | None:
        """Where a pod without a node stands: the last decision about it, and what became of its action, or, while that
        of another binding has no answer, of the one before; None: nothing was decided."""
        decision, outcome = self._latest.get(uid), self._outcomes.get(uid)
        if decision is None:
            return None
        current = outcome is not None and (decision.verdict == "bind" or outcome.decision == decision.id)
        return decision, outcome if current else None

    def undone(self, uid: str, why: str) -> None:
        """Take in that a decision could not be carried out, so that the next attempt is news again."""
        self._written.pop(uid, None)
        self._failures[uid] = why

    def keep(self, uids: AbstractSet[str]) -> None:
        """Forget all other pods."""
        for by_uid in (self._latest, self._written, self._failures, self._outcomes):
            for uid in by_uid.keys() - uids:
                del by_uid[uid]

    def waiting(self, uids: Iterable[str]) -> Counter[str]:
        """How many of these pods without a node wait, by reason; those that are being bound are not counted."""
        return Counter(reason for uid in uids if (reason := self._waiting_reason(uid)))

    def _waiting_reason(self, uid: str) -> str:
        last = self._written.get(uid)
        if last is None:
            return self._failures.get(uid, UNASKED)
        if last.mode == "observe":
            return OBSERVED if last.verdict in ("bind", "preempt") else last.reason
        return "" if last.verdict == "bind" else last.reason


def _is_news(last: PodDecision, decision: PodDecision) -> bool:
    """Whether a decision differs enough from the last: in words alone, enough in so short a time."""
    if _substance(last) != _substance(decision):
        return True
    passed = decision.at - last.at
    if passed < AGAIN or (last.message, last.mend) == (decision.message, decision.mend):
        return False
    return passed >= REPEAT or _clauses(last) != _clauses(decision)


def _substance(decision: PodDecision) -> tuple[object, ...]:
    """What always makes a decision news when it changes; in mode act also which pods are evicted."""
    evicted = [action.uid for action in decision.actions if isinstance(action, Evict)] if decision.mode == "act" else []
    return (decision.policy, decision.mode, decision.verdict, decision.reason, decision.node, *evicted)


def _clauses(decision: PodDecision) -> list[str]:
    """The clauses of its message without their counts, sorted: the most frequent comes first, so other counts reorder
    the same clauses."""
    return sorted(_CLAUSE_END.split(_COUNT.sub(r"\1", decision.message)))


_COUNT = re.compile(r"\d+(?: (\w+?)s?\b)?")
"""A number and the noun it counts, without a plural s."""

_CLAUSE_END = re.compile(r"[,;:.]+(?:\s+|$)")
