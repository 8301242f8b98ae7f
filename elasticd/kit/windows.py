"""Windows, rates and cooldowns: the arithmetic of what restrains a change over time, and its sentences.

Shared by the built-in limits and by strategies that bring limits of their own; they take what a limit hook is
given. Knows counts, times (seconds) and a workload's past; knows nothing of metrics, pods or a policy's bounds.
Every interval contains the current count, so that several of them together always leave an answer.
"""

from functools import lru_cache
from itertools import repeat
from math import ceil
from operator import itemgetter
from typing import Annotated, Literal

from msgspec import Meta, Struct

from elasticd.base.text import counted
from elasticd.model.history import Past
from elasticd.model.workload import Limit, Observation

Pick = Annotated[
    Literal["Max", "Min", "Disabled"],
    Meta(description="of several rates: the one that allows most, or least; or no change"),
]


class Rate(Struct, frozen=True, forbid_unknown_fields=True, cache_hash=True):
    """At most `value` pods, or percent of the count when the period began, within `period` seconds."""

    type: Annotated[Literal["Pods", "Percent"], Meta(description="what value is: pods, or percent of the count")]
    value: Annotated[int, Meta(gt=0, description="pods, or percent, in one period")]
    period: Annotated[int, Meta(ge=1, le=1800, description="seconds")]


class Rates(Struct, frozen=True, forbid_unknown_fields=True, cache_hash=True):
    """The rates of one direction. `select` takes the largest change they allow, the smallest, or none at all.
    `one_way`: the start of a period is reckoned from the changes of the same direction only (HPA 1.20)."""

    rates: tuple[Rate, ...]
    select: Pick = "Max"
    one_way: bool = False


def stabilize(wish: int, observation: Observation, past: Past, *, up: float, down: float) -> Limit | None:
    """Not above the least wish of the last `up` seconds, nor below the greatest of the last `down` seconds. Two-way
    (HPA: Normalization with behavior, 1): wishes strictly younger than a window count. A window of 0 s does nothing.
    None: there is nothing to wait for. The wish only chooses which end is explained."""
    now, current = observation.at, observation.workload.replicas
    lows = past.wishes(now - up) if up > 0 else ()
    highs = past.wishes(now - down) if down > 0 else ()
    if not lows and not highs:
        return None
    highest = max(current, min(lows)) if lows else None
    lowest = min(current, max(highs)) if highs else None
    if lowest is not None and (wish < current or highest is None):
        return _stabilizing_limit(True, lowest, highest, down)
    return _stabilizing_limit(False, lowest, highest, up)


@lru_cache(maxsize=4096)
def _stabilizing_limit(falls: bool, lowest: int | None, highest: int | None, window: float) -> Limit:
    """The limit of stabilization windows. Cached, as it mostly is that of the look before."""
    reason = "ScaleDownStabilized" if falls else "ScaleUpStabilized"
    effect = f"at least {lowest} for now: the highest" if falls else f"at most {highest} for now: the lowest"
    message = f"{effect} recommendation of the last {window:g} s counts"
    return Limit(reason, message, lowest, highest, "AbleToScale")


def restrain(wish: int, observation: Observation, past: Past, up: Rates | None, down: Rates | None) -> Limit | None:
    """Not further than the rates of each direction allow; None for a direction: as far as it likes. HPA: Normalization
    with behavior, 2. Told even where it goes beyond the policy's bounds: which of them binds is for judgement to say.
    The wish only chooses which end is explained."""
    now, current = observation.at, observation.workload.replicas
    if not past.changes or past.changes[-1].at <= now - _longest_period(up, down):
        return _rate_limit(wish < current, current, up, None, down, None)
    tops = _starts(past, now, current, up, 1) if up else None
    bottoms = _starts(past, now, current, down, -1) if down else None
    return _rate_limit(wish < current, current, up, tops, down, bottoms)


@lru_cache(maxsize=4096)
def _longest_period(*directions: Rates | None) -> int:
    return max([rate.period for rates in directions if rates for rate in rates.rates], default=0)


_Starts = tuple[int, ...] | None
"""What the count was when the period of each rate began; None: for all of them what it is."""


@lru_cache(maxsize=4096)
def _rate_limit(
    falls: bool, current: int, up: Rates | None, tops: _Starts, down: Rates | None, bottoms: _Starts
) -> Limit | None:
    """The limit of the rates. Cached by the counts at which their periods began, as they mostly are the present one."""
    highest, added = _reach(current, up, tops, 1)
    lowest, removed = _reach(current, down, bottoms, -1)
    if highest is None and lowest is None:
        return None
    if lowest is not None and (falls or highest is None):
        return Limit("ScaleDownLimit", removed, lowest, highest, gives_way=True)
    return Limit("ScaleUpLimit", added, lowest, highest, gives_way=True)


def _reach(current: int, rates: Rates | None, starts: _Starts, sign: int) -> tuple[int | None, str]:
    """The count up to which the rates of a direction (+1 up, -1 down) allow to go, and a sentence; None: there are no
    rates."""
    if rates is None:
        return None, ""
    action = "added" if sign > 0 else "removed"
    if rates.select == "Disabled":
        return current, f"no pods may be {action}"
    reaches = [
        (_top(rate, start) if sign > 0 else _bottom(rate, start), start, rate)
        for rate, start in zip(rates.rates, starts or repeat(current), strict=False)
    ]
    furthest = max if (rates.select == "Max") == (sign > 0) else min
    replicas, start, rate = furthest(reaches, key=itemgetter(0))
    pods = counted(max(0, (current - start) * sign), "pod")
    most = f"{rate.value}" if rate.type == "Pods" else f"{rate.value} % of {start}"
    message = f"{pods} {action} in the last {rate.period} s; at most {most} in {rate.period} s"
    return (max if sign > 0 else min)(current, replicas), message


def _starts(past: Past, now: float, current: int, rates: Rates, sign: int) -> tuple[int, ...]:
    way = sign if rates.one_way else 0
    return tuple([_start(past, now - rate.period, current, way) for rate in rates.rates])


def _start(past: Past, since: float, current: int, sign: int) -> int:
    """The count at a time: the present one without what was added later, and with what was removed. `sign` 0: both."""
    start = current
    for change in past.changes_after(since):
        step = change.after - change.before
        if step * sign >= 0:
            start -= step
    return start


def _top(rate: Rate, start: int) -> int:
    return start + rate.value if rate.type == "Pods" else ceil(start * (1 + rate.value / 100))


def _bottom(rate: Rate, start: int) -> int:
    """Truncated, as the HPA does: at 10 % of 15 the count may fall to 13 (of 13.5)."""
    return max(0, start - rate.value if rate.type == "Pods" else int(start * (1 - rate.value / 100)))


def cool_down(
    observation: Observation, past: Past, *, after_up: float, after_down: float, both: bool = False
) -> Limit | None:
    """No change within `after_up` s of a scale-out, no scale-in within `after_down` s of a scale-in.

    SATA, section on cool-downs (3 and 5 min). With `both` a scale-in forbids a scale-out too, as the paper
    says: no decision is taken in the window. Else the windows' opening counts as a scale-in, because what another
    daemon did before it is not known. A change exactly as old as its window no longer counts.
    """
    now, current = observation.at, observation.workload.replicas
    out = _last_change(past, now - after_up, 1)
    if out is not None:
        return _cooldown_limit("BackoffBoth", "out", round(now - out), after_up, current)
    back = _last_change(past, now - after_down, -1)
    if back is not None:
        reason = "BackoffBoth" if both else "BackoffDownscale"
        return _cooldown_limit(reason, "in", round(now - back), after_down, current)
    if both or now - past.since >= after_down:
        return None
    message = f"what was done before {now - past.since:.0f} s ago is not known; no scale-in for {after_down:g} s after"
    return Limit("BackoffDownscale", message, current, None, "AbleToScale")


def _last_change(past: Past, after: float, sign: int) -> float | None:
    """When the count last changed this way, if that was later than a time."""
    for change in reversed(past.changes):
        if change.at <= after:
            return None
        if (change.after - change.before) * sign > 0:
            return change.at
    return None


@lru_cache(maxsize=4096)
def _cooldown_limit(reason: str, way: str, age: int, window: float, current: int) -> Limit:
    """The limit of a cooldown. Cached, as many workloads, or one again, are looked at within one second of age."""
    both = reason == "BackoffBoth"
    effect, highest = ("no change", current) if both else ("no scale-in", None)
    message = f"scaled {way} {age} s ago; {effect} for {window:g} s after that"
    return Limit(reason, message, current, highest, "AbleToScale")
