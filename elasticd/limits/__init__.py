"""The built-in limits, for any strategy. They use the API like any plugin; `timed` is one more."""

from elasticd.api import LimitStrategy, hookimpl
from elasticd.limits.behavior import Cooldown, RateLimit, Rollout, Stabilization
from elasticd.limits.capacity import Capacity
from elasticd.limits.staged import Staged


@hookimpl
def register_strategies() -> list[type[LimitStrategy]]:
    """The built-in limits but those that know the calendar."""
    return [Stabilization, RateLimit, Cooldown, Capacity, Rollout, Staged]
