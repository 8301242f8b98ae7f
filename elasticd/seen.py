"""What was last evaluated of a workload, and when it is worth evaluating again.

Knows times and what makes two observations equal; knows nothing of what was decided.
"""

from math import inf

from msgspec import Struct

from elasticd.policy import Policy
from elasticd.shelf import SLACK


class Seen(Struct, frozen=True):
    """An observation that was evaluated at a time, and until when the clock alone changes nothing about it."""

    mark: tuple[object, ...]
    at: float
    until: float = inf

    def stands(self, mark: tuple[object, ...], policy: Policy, now: float) -> bool:
        """Whether nothing has moved since, and neither the policy's own interval has passed, as short as jitter and a
        shared tick make it, nor the time at which a strategy may say something else."""
        soonest = policy.interval * (1 - policy.jitter) - 2 * SLACK
        return self.mark == mark and now < min(self.at + soonest, self.until)
