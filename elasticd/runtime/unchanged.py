"""The last evaluation of a workload, and when it is worth evaluating again.

Knows times and observations; knows nothing of what was decided.
"""

from math import inf

from msgspec import Struct

from elasticd.decision.observe import fingerprint
from elasticd.model.policy import Policy
from elasticd.model.workload import Observation
from elasticd.sources.poller import SLACK


class LastEvaluation(Struct, frozen=True):
    """An observation that was evaluated, and until when the clock alone changes nothing about it."""

    last: Observation
    until: float = inf

    def stands(self, new: Observation, policy: Policy) -> bool:
        """Whether no sample has moved since, and neither the policy's interval has passed (at its shortest, by jitter
        and a shared tick), nor the time at which a strategy may change its mind by the clock alone."""
        soonest = policy.interval * (1 - policy.jitter) - 2 * SLACK
        due = new.at >= min(self.last.at + soonest, self.until)
        return not due and fingerprint(self.last) == fingerprint(new)
