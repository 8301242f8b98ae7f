"""The HPA controller's normalization, transcribed from its description and from nothing of ours.

Shares no arithmetic with the plugin, so that it is a second opinion.
"""

from math import ceil
from typing import Any, NamedTuple

from elasticd.api import Change, Past
from tests.kit.plugins.builders import NOW

READY, WITHIN = "ReadyForNewScale", "DesiredWithinRange"


class Normalized(NamedTuple):
    """A count, and the reasons of AbleToScale and ScalingLimited."""

    replicas: int
    able: str
    limited: str


class Controller(NamedTuple):
    """The HPA controller's normalization, step by step as it does them; the independent second opinion."""

    current: int
    bounds: tuple[int, int]
    past: Past
    old: bool
    now: float = NOW

    def legacy(self, wish: int) -> Normalized:
        stored = [run.replicas for run in self.past.runs if self.now - run.last <= 300]
        stable = max([wish, *stored])
        able = READY if stable == wish else "ScaleDownStabilized"
        (least, most), limit = self.bounds, max(2 * self.current, 4)
        if stable < least:
            return Normalized(least, able, "TooFewReplicas")
        if stable > min(most, limit):
            reason = "ScaleUpLimit" if limit < most else "TooManyReplicas"
            return Normalized(min(most, limit), able, reason)
        return Normalized(stable, able, WITHIN)

    def behaving(self, wish: int, behavior: Any) -> Normalized:
        up, down = behavior["scale_up"], behavior["scale_down"]
        windows = (up.get("stabilization_window", 0), down.get("stabilization_window", 300))
        stable = self._one_way(wish, windows) if self.old else self._two_way(wish, windows)
        way = "ScaleUpStabilized" if wish >= self.current else "ScaleDownStabilized"
        able = READY if stable == wish else way
        if stable > self.current:
            most, limit = self.bounds[1], max(self.current, self._up(behavior))
            if stable > min(most, limit):
                reason = "ScaleUpLimit" if most > limit else "TooManyReplicas"
                return Normalized(min(most, limit), able, reason)
        elif stable < self.current:
            least, limit = self.bounds[0], min(self.current, self._down(behavior))
            if stable < max(least, limit):
                reason = "ScaleDownLimit" if least < limit else "TooFewReplicas"
                return Normalized(max(least, limit), able, reason)
        return Normalized(stable, able, WITHIN)

    def _two_way(self, wish: int, windows: tuple[int, int]) -> int:
        low = min([wish, *self._stored(windows[0])])
        high = max([wish, *self._stored(windows[1])])
        return min(max(self.current, low), high)

    def _one_way(self, wish: int, windows: tuple[int, int]) -> int:
        if wish >= self.current:
            return min([wish, *self._stored(windows[0])])
        return max([wish, *self._stored(windows[1])])

    def _stored(self, window: int) -> list[int]:
        return [run.replicas for run in self.past.runs if self.now - run.last < window]

    def _events(self, behavior: Any) -> list[Change]:
        """The events of both directions, each stored in place of the last outdated one of its own, or appended."""
        stored: dict[str, list[Change]] = {"scale_up": [], "scale_down": []}
        for change in self.past.changes:
            way = "scale_up" if change.after > change.before else "scale_down"
            longest = max([policy["period"] for policy in behavior[way].get("policies", [{"period": 15}])])
            outdated = [index for index, event in enumerate(stored[way]) if event.at < change.at - longest]
            if outdated:
                stored[way][outdated[-1]] = change
            else:
                stored[way].append(change)
        return stored["scale_up"] + stored["scale_down"]

    def _period_start(self, behavior: Any, period: int, added_counts: bool, removed_counts: bool) -> int:
        young = [change for change in self._events(behavior) if self.now - change.at < period]
        added = sum(max(0, change.after - change.before) for change in young) if added_counts else 0
        removed = sum(max(0, change.before - change.after) for change in young) if removed_counts else 0
        return self.current - added + removed

    def _up(self, behavior: Any) -> int:
        rules = behavior["scale_up"]
        select = rules.get("select", "Max")
        if select == "Disabled":
            return self.current
        default = [{"type": "Pods", "value": 4, "period": 15}, {"type": "Percent", "value": 100, "period": 15}]
        reached: list[int] = []
        for each in rules.get("policies", default):
            start = self._period_start(behavior, each["period"], True, not self.old)
            pods, percent = start + each["value"], ceil(start * (1 + each["value"] / 100))
            reached.append(pods if each["type"] == "Pods" else percent)
        return max(reached) if select == "Max" else min(reached)

    def _down(self, behavior: Any) -> int:
        rules = behavior["scale_down"]
        select = rules.get("select", "Max")
        if select == "Disabled":
            return self.current
        reached: list[int] = []
        for each in rules.get("policies", [{"type": "Percent", "value": 100, "period": 15}]):
            start = self._period_start(behavior, each["period"], not self.old, True)
            pods, percent = start - each["value"], int(start * (1 - each["value"] / 100))
            reached.append(pods if each["type"] == "Pods" else percent)
        return min(reached) if select == "Max" else max(reached)
