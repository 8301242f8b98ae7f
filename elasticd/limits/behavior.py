"""Limits over time, for any strategy: stabilization, rates, cooldowns and rollouts; and what all limits share.

Knows which options each has; the arithmetic is in kit/windows.py. The cluster reports rollouts.
"""

from functools import cached_property
from typing import Annotated, Literal

from elasticd.api import Limit, LimitStrategy, Meta, Observation, Past, hookimpl
from elasticd.kit import Pick, Rate, Rates, cool_down, harmless_count, restrain, rollout_left, stabilize

Window = Annotated[float, Meta(ge=0, le=3600, description="seconds")]


class Seriesless(LimitStrategy, frozen=True):
    """A limit that looks at counts, pods, nodes or the calendar alone."""

    def reads(self) -> tuple[str, ...]:
        return ()

    def lasts(self) -> bool:
        """Changes and wishes only grow older, and windows of the calendar say when they open or close."""
        return not self.looks_at_nodes


class Stabilization(Seriesless, tag="stabilization", frozen=True):
    """Follow only what has been asked for throughout a window: `up` s to grow, `down` s to shrink.

    Reasons ScaleUpStabilized and ScaleDownStabilized. Source: HPA, Normalization with behavior, 1 (two-way).
    """

    up: Window = 0.0
    down: Window = 300.0

    @hookimpl
    def limit(self, wish: int, observation: Observation, past: Past) -> Limit | None:
        return stabilize(wish, observation, past, up=self.up, down=self.down)


class RateLimit(Seriesless, tag="rate", frozen=True):
    """At most so many pods, or percent, within so many seconds; without rates a direction is free.

    `select` chooses among several rates of one direction: the largest change (Max), the smallest (Min), or
    none at all (Disabled). Reasons ScaleUpLimit and ScaleDownLimit.
    Source: HPA, Normalization with behavior, 2.
    """

    up: tuple[Rate, ...] = ()
    down: tuple[Rate, ...] = ()
    select: Pick = "Max"

    def __post_init__(self) -> None:
        if not self.up and not self.down:
            raise ValueError("up: must have a rate unless down has one, is empty")

    @hookimpl
    def limit(self, wish: int, observation: Observation, past: Past) -> Limit | None:
        """How far the rates let the count go from here, both ways."""
        up, down = self._rates
        return restrain(wish, observation, past, up, down)

    @cached_property
    def _rates(self) -> tuple[Rates | None, Rates | None]:
        up, down = (Rates(rates, self.select) if rates else None for rates in (self.up, self.down))
        return up, down


class Cooldown(Seriesless, tag="cooldown", frozen=True):
    """No change within `after_up` s of a scale-out, and no scale-in within `after_down` s of a scale-in.

    In mode "paper" a scale-in forbids a scale-out too. Reasons BackoffBoth and BackoffDownscale, as older
    HPAs called them. Source: SATA, the note on cool-downs (3 and 5 min).
    """

    after_up: Window = 180.0
    after_down: Window = 300.0
    mode: Annotated[Literal["product", "paper"], Meta(description="paper: a scale-in forbids a scale-out too")] = (
        "product"
    )

    @hookimpl
    def limit(self, observation: Observation, past: Past) -> Limit | None:
        both = self.mode == "paper"
        return cool_down(observation, past, after_up=self.after_up, after_down=self.after_down, both=both)


class Rollout(Seriesless, tag="rollout", frozen=True):
    """No scale-in, or no change at all, while a rollout is in progress. Reason RolloutInProgress.

    A rollout is in progress while a Deployment or StatefulSet has pods of another template than its newest, also when a
    person paused it or takes it back, and until its controller has seen its newest spec: until then a Deployment's
    count may fall to as many pods as there are, as admission may refuse its ReplicaSet more. One that has missed its
    deadline (Deployment, progressDeadlineSeconds) is none any more, nor is one of a StatefulSet that goes no further by
    itself (a partition, OnDelete). ReplicaSets roll nothing out, and of other kinds it cannot be known: they are not
    limited.
    """

    forbids: Annotated[
        Literal["down", "both"], Meta(description="what must wait for its end: scale-in, or any change")
    ] = "down"

    @hookimpl
    def limit(self, observation: Observation) -> Limit | None:
        """All from the current count, or what takes no pod, and, unless both ways are forbidden, all above."""
        workload = observation.workload
        left = rollout_left(workload, observation.pods)
        if not left:
            return None
        highest = workload.replicas if self.forbids == "both" else None
        lowest = harmless_count(workload, observation.pods)
        return Limit("RolloutInProgress", left, lowest, highest, "AbleToScale")
