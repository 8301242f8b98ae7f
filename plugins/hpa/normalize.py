"""The HPA's limits: stabilization, rates, and the fixed cooldowns of older versions.

Knows counts, times and the past; knows no metric. Each result is an interval that contains the current count, except
for the windows of 1.20 and those without behavior, which can carry the count further.
"""

from collections.abc import Sequence
from functools import lru_cache

from elasticd.api import Change, Limit, Observation, Past, Ref
from elasticd.kit import Memo, Rates, cool_down, stabilize

from .options import DOWN_POLICIES, UP_POLICIES, Behavior

UP_FACTOR = 2
UP_LEAST = 4
COOLDOWN_UP = 180.0
COOLDOWN_DOWN = 300.0


def back_off(observation: Observation, past: Past) -> Limit | None:
    """The HPA before stabilization, the double-threshold paper's baseline: cooldowns of 3 and 5 min both ways."""
    return cool_down(observation, past, after_up=COOLDOWN_UP, after_down=COOLDOWN_DOWN, both=True)


def stabilize_legacy(observation: Observation, past: Past, window: float) -> Limit | None:
    """Not below the highest wish of the window; a wish exactly that old still counts.

    HPA: Normalization without behavior, 1. It can raise the count, to an earlier wish that a rate has cut.
    """
    wishes = past.wishes(observation.at - window, inclusive=True) if window > 0 else ()
    return _at_least(max(wishes), window) if wishes else None


def limit_legacy(observation: Observation) -> Limit:
    """At most twice the current count, or 4. HPA: Normalization without behavior, 2."""
    return _at_most_twice(observation.workload.replicas)


@lru_cache(maxsize=1024)
def _at_most_twice(current: int) -> Limit:
    highest = max(UP_FACTOR * current, UP_LEAST)
    return Limit("ScaleUpLimit", f"at most twice {current}, or {UP_LEAST}, at once", None, highest, gives_way=True)


def stabilize_behavior(
    wish: int, observation: Observation, past: Past, windows: tuple[float, float], *, old: bool
) -> Limit | None:
    """The limits of both windows (up, down); `old` (1.20): only that of the wish's direction, even past the current
    count.

    HPA: Normalization with behavior, 1.
    """
    up, down = windows
    if not old:
        return stabilize(wish, observation, past, up=up, down=down)
    growing = wish >= observation.workload.replicas
    wishes = past.wishes(observation.at - (up if growing else down))
    if not wishes:
        return None
    if not growing:
        return _at_least(max(wishes), down)
    highest = min(wishes)
    message = f"at most {highest} for now: the lowest recommendation of the last {up:g} s counts"
    return Limit("ScaleUpStabilized", message, None, highest, "AbleToScale")


def rates_of(behavior: Behavior, *, old: bool) -> tuple[Rates, Rates]:
    """The rates of both directions, up and down, with the HPA's defaults. HPA: Normalization with behavior, 2.

    The interval is the same for every wish; the wish after stabilization decides which end is explained.
    """
    up, down = behavior.scale_up, behavior.scale_down
    ups = Rates(UP_POLICIES if up.policies is None else up.policies, up.select, old)
    return ups, Rates(DOWN_POLICIES if down.policies is None else down.policies, down.select, old)


def kept_of(changes: Sequence[Change], up: Rates, down: Rates) -> tuple[Change, ...]:
    """The changes that the controller still remembers, oldest first. HPA: Normalization with behavior, 3.

    It stores the changes of each direction apart. A new change replaces the last one that is older than the longest
    period of its own direction, so a rate with a longer period in the other direction no longer sees that change.
    """
    by_direction: dict[bool, list[Change]] = {True: [], False: []}
    for change in changes:
        grown = change.after > change.before
        remembered, longest = by_direction[grown], max(rate.period for rate in (up if grown else down).rates)
        old = [index for index, earlier in enumerate(remembered) if earlier.at < change.at - longest]
        if old:
            remembered[old[-1]] = change
        else:
            remembered.append(change)
    return tuple(sorted((*by_direction[True], *by_direction[False]), key=lambda change: change.at))


def _remaining_changes(key: tuple[Ref, Rates, Rates], changes: tuple[Change, ...]) -> tuple[Change, ...]:
    """kept_of(), but the same tuple where nothing was forgotten, as is usual."""
    _, up, down = key
    remaining = kept_of(changes, up, down)
    return changes if len(remaining) == len(changes) else remaining


still_kept: Memo[tuple[Ref, Rates, Rates], tuple[Change, ...], tuple[Change, ...]] = Memo(_remaining_changes)


@lru_cache(maxsize=1024)
def _at_least(lowest: int, window: float) -> Limit:
    message = f"at least {lowest} for now: the highest recommendation of the last {window:g} s counts"
    return Limit("ScaleDownStabilized", message, lowest, None, "AbleToScale")
