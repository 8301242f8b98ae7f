"""What was last said about each pending pod: whether a decision is news, and why each of them waits.

Knows decisions about pods and what came of them; knows no cluster and no time but that of the decisions.
"""

import re
from collections import Counter
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from elasticd.model.actions import Evict
from elasticd.model.placement import PodDecision

AGAIN = 10.0
"""Seconds after which it is told that a pod waits for something else than before, in other words."""

REPEAT = 60.0
"""Seconds after which what has changed but a little about a pod that waits, such as a count, is told again."""

OBSERVED = "Observed"
"""Why a pod waits that a policy in mode observe would place."""

UNASKED = "NotAskedYet"
"""Why a pod waits about which no strategy has been asked yet."""


class LastDecisions:
    """By the pods' UIDs."""

    def __init__(self) -> None:
        self._last: dict[str, PodDecision] = {}
        self._undone: dict[str, str] = {}

    def news(self, decision: PodDecision) -> bool:
        """Take in a decision; whether it says something else than the one before."""
        last, self._last[decision.uid] = self._last.get(decision.uid), decision
        self._undone.pop(decision.uid, None)
        if last is None or _matter(last) != _matter(decision):
            return True
        passed = decision.at - last.at
        changed = (last.message, last.mend) != (decision.message, decision.mend)
        news = changed and passed >= AGAIN and (passed >= REPEAT or _words(last) != _words(decision))
        if not news:
            self._last[decision.uid] = last
        return news

    def undone(self, uid: str, why: str) -> None:
        """What was decided could not be done: the next attempt is news again."""
        self._last.pop(uid, None)
        self._undone[uid] = why

    def keep(self, uids: AbstractSet[str]) -> None:
        """Forget all others."""
        self._last = {uid: one for uid, one in self._last.items() if uid in uids}
        self._undone = {uid: one for uid, one in self._undone.items() if uid in uids}

    def waiting(self, uids: Iterable[str]) -> Counter[str]:
        """How many of these, which are seen on no node, wait for which reason; those on their way to one do not."""
        return Counter(why for uid in uids if (why := self._why(uid)))

    def _why(self, uid: str) -> str:
        last = self._last.get(uid)
        if last is None:
            return self._undone.get(uid, UNASKED)
        if last.mode == "observe":
            return OBSERVED if last.verdict in ("bind", "preempt") else last.reason
        return "" if last.verdict == "bind" else last.reason


def _matter(decision: PodDecision) -> tuple[object, ...]:
    """What makes it another than the one before: also who is really evicted, one set after the other."""
    going = [one.uid for one in decision.actions if isinstance(one, Evict)] if decision.mode == "act" else []
    return (decision.policy, decision.mode, decision.verdict, decision.reason, decision.node, *going)


def _words(decision: PodDecision) -> list[str]:
    """What it says, whatever it counts, and in whatever order: where the most frequent is told first, other counts
    bring another order of the same clauses."""
    return sorted(_CLAUSES.split(_COUNTS.sub(r"\1", decision.message)))


_COUNTS = re.compile(r"\d+(?: (\w+?)s?\b)?")
"""A number, and what it counts, without the s of more than one."""

_CLAUSES = re.compile(r"[,;:.]+(?:\s+|$)")
