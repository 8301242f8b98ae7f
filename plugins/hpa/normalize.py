"""The HPA's limits: stabilization and rates.

Knows counts, times and the past; knows no metric. Each result is an interval that contains the current count, except
for the windows of 1.20 and those without behavior, which can carry the count further.
"""

from functools import lru_cache

from elasticd.api import Change, Limit, Observation, Past, Ref
from elasticd.kit import Memo, Rates, stabilize

UP_FACTOR = 2
UP_LEAST = 4


def stabilize_legacy(observation: Observation, past: Past, window: float) -> Limit | None:
    """Not below the highest wish of the window; a wish exactly that old still counts. HPA: Normalization without
    behavior, 1. It can raise the count, to an earlier wish that a rate has cut."""
    wishes = past.wishes(observation.at - window, inclusive=True) if window > 0 else ()
    return _at_least(max(wishes), window) if wishes else None


@lru_cache(maxsize=1024)
def limit_legacy(current: int) -> Limit:
    """At most twice the current count, or 4. HPA: Normalization without behavior, 2."""
    highest = max(UP_FACTOR * current, UP_LEAST)
    return Limit("ScaleUpLimit", f"at most twice {current}, or {UP_LEAST}, at once", None, highest, gives_way=True)


def stabilize_behavior(
    wish: int, observation: Observation, past: Past, windows: tuple[float, float], *, old: bool
) -> Limit | None:
    """The limits of both windows (up, down); `old` (1.20): only that of the wish's direction, even past the current
    count. HPA: Normalization with behavior, 1."""
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


def _find_kept(key: tuple[Ref, Rates, Rates], changes: tuple[Change, ...]) -> tuple[Change, ...]:
    """The changes that the controller still remembers, oldest first; mostly all, and then the same tuple. HPA:
    Normalization with behavior, 3.

    It stores the changes of each direction apart. A new change replaces the last one that is older than the longest
    period of its own direction, so a rate with a longer period in the other direction no longer sees that change.
    """
    _, up, down = key
    by_direction: dict[bool, list[Change]] = {True: [], False: []}
    for change in changes:
        grown = change.after > change.before
        remembered, longest = by_direction[grown], max(rate.period for rate in (up if grown else down).rates)
        old = [index for index, earlier in enumerate(remembered) if earlier.at < change.at - longest]
        if old:
            remembered[old[-1]] = change
        else:
            remembered.append(change)
    kept = (*by_direction[True], *by_direction[False])
    return changes if len(kept) == len(changes) else tuple(sorted(kept, key=lambda change: change.at))


still_kept = Memo(_find_kept)


@lru_cache(maxsize=1024)
def _at_least(lowest: int, window: float) -> Limit:
    message = f"at least {lowest} for now: the highest recommendation of the last {window:g} s counts"
    return Limit("ScaleDownStabilized", message, lowest, None, "AbleToScale")
