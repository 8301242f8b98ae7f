"""How long fewer replicas must have been wanted before a count falls.

What is wanted may be few because series were lost. By then other workloads have been decided that read the same, so
that the breaker of [disruption] knows how many were. Pure.
"""

from functools import lru_cache
from math import inf
from typing import NamedTuple

from elasticd.decision.workload.asking import Case
from elasticd.model.history import Past
from elasticd.model.workload import Limit

WAITS = "breaker"
"""The name of the limit."""


class Wait(NamedTuple):
    """At least `lowest` replicas stay `until` then (seconds since the epoch)."""

    lowest: int
    until: float


def wait(case: Case, wish: int) -> Wait | None:
    """What a wish for fewer replicas waits for; None: nothing."""
    current, seconds = case.observation.workload.replicas, case.caps.falls_after if case.caps else 0.0
    if not seconds or wish >= current:
        return None
    highest, until = _highest_in_force(case.past, case.observation.at, seconds, current)
    return Wait(min(current, highest), until) if highest > wish else None


def _highest_in_force(past: Past, now: float, seconds: float, current: int) -> tuple[int, float]:
    """The highest of the wishes that stood within so many seconds, each until the next one, and until when it counts.
    What was wished for before the oldest that is known, nobody knows: the current count."""
    highest, until, end = -1, -inf, now
    for run in reversed(past.runs):
        if end + seconds <= now:
            return highest, until
        if run.replicas > highest:
            highest, until = run.replicas, end + seconds
        end = run.first
    if end + seconds > now and current > highest:
        return current, end + seconds
    return highest, until


def fall_limit(case: Case, wish: int) -> Limit | None:
    """The limit of a wish for fewer replicas that has yet to wait; None: it has waited."""
    waiting = wait(case, wish)
    return None if waiting is None or case.caps is None else _limit(waiting.lowest, case.caps.falls_after)


@lru_cache(maxsize=1024)
def _limit(lowest: int, seconds: float) -> Limit:
    message = f"at least {lowest} until fewer have been wanted for {seconds:g} s"
    return Limit(
        "ScaleDownStabilized",
        f"{message}: by then it shows which series were lost",
        lowest,
        None,
        "AbleToScale",
        name=WAITS,
    )
