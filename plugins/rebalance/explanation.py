"""Explains the state of each node in text: its load beside its marks, and what it waits for.

Knows levels and how long they have lasted; knows nothing of pods.
"""

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

import numpy as np

from elasticd.api import Mask, NodeLevel, Nodes, PoolObservation, PoolPast, Stand, Struct

from .levels import Levels, excess, levels, lows, shifted, taking
from .memory import Heat, heat
from .options import Marks, Options


def explain(rule: Options, nodes: Nodes, observation: PoolObservation, past: PoolPast) -> list[NodeLevel]:
    """The state of every node, the most loaded first; nodes whose load is not known last."""
    now, takes = levels(rule, nodes, nodes.measured), taking(rule, nodes)
    then = heat(rule, nodes, observation.at, past, now)
    able = {} if rule.by == "score" else lows(rule, takes.parts, takes.means)
    marks = shifted(rule, now.means)
    may_take = nodes.matching("rebalance: open", lambda node: node.ready and not node.unschedulable)
    free = takes.low & takes.calm & may_take
    lists = _lists(now.parts), _lists(excess(rule, now)), _lists(able)
    hot = (then.hot | then.lasts).tolist()
    explainer = _Explainer(rule, nodes, now, then, marks, *lists, _states(now, then, free), hot, now.worst.tolist())
    places = np.arange(len(nodes.names))
    order = np.lexsort((places, -np.nan_to_num(now.worst, nan=-np.inf)))
    return [explainer.of(place) for place in order.tolist()]


def _states(now: Levels, then: Heat, free: Mask) -> list[Stand]:
    """The state of each node, the first that applies; `free` are the nodes that can take pods."""
    conditions: list[tuple[Mask, Stand]] = [
        (~np.isfinite(now.worst), "unknown"),
        (then.hot, "gives"),
        (now.above | then.lasts, "high"),
        (free, "takes"),
    ]
    states: list[Stand] = np.select(
        [mask for mask, _ in conditions], [state for _, state in conditions], "level"
    ).tolist()
    return states


def _lists(columns: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Columns as lists, which are faster to read one by one."""
    return {name: values.tolist() for name, values in columns.items()}


class _Explainer(Struct, frozen=True, eq=False):
    """All that the texts about a pool are made of."""

    rule: Options
    nodes: Nodes
    now: Levels
    then: Heat
    marks: Mapping[str, Marks]
    parts: Mapping[str, list[float]]
    over: Mapping[str, list[float]]
    able: Mapping[str, list[bool]]
    """By resource, who can take more of it."""
    state: list[Stand]
    hot: list[bool]
    """Which give pods, or will when they have rested."""
    worst: list[float]

    def of(self, place: int) -> NodeLevel:
        """The state of one node."""
        state = self.state[place]
        message = self._unknown(place) if state == "unknown" else self._use(place) + self._because(place, state)
        return NodeLevel(self.nodes.names[place], state, tuple(self._resources(place, state)), message)

    def _resources(self, place: int, state: Stand) -> Iterator[str]:
        if state in ("gives", "high"):
            yield from (name for name, amount in self.over.items() if amount[place] > 0)
        elif state == "takes":
            yield from (name for name, low in self.able.items() if low[place])

    def _use(self, place: int) -> str:
        """Text for its use: the score, or the resource that is nearest to its mark or farthest above it."""
        if self.rule.by == "score":
            parts = ", ".join(f"{name} {part[place]:.0%}" for name, part in self.parts.items())
            return f"score {-self.worst[place]:+.2f} ({parts})"
        name = max(self.marks, key=lambda name: self.parts[name][place] - self.marks[name].high)
        text = f"{name} {self.parts[name][place]:.0%}, the pool {self.now.means[name]:.0%}"
        return text if self.hot[place] else f"{text}, too loaded above {self.marks[name].high:.0%}"

    def _because(self, place: int, state: Stand) -> str:
        """Text for why it gives up pods, or does not."""
        rule = self.rule
        if self.hot[place]:
            rests = f"; {self._gave()}" if state == "high" else ""
            return "" if rule.mode == "paper" else f": calm again at {self._calm(place)}{rests}"
        mark = f", too loaded from {rule.lower:.2f} down" if rule.by == "score" else ""
        if state == "high":
            return f"{mark}: {self._waits(place)}"
        small = rule.by != "use" and self.worst[place] > (-rule.lower if rule.by == "score" else 0)
        return f"{mark}, but it uses less than {rule.least:.0%} of each" if small else mark

    def _calm(self, place: int) -> str:
        if self.rule.by == "score":
            return f"{self.rule.calm:.2f}"
        return ", ".join(f"{name} {self.marks[name].calm:.0%}" for name in self._resources(place, "gives"))

    def _waits(self, place: int) -> str:
        looks = f"in {self.then.times[place]} of {self.rule.observations} looks"
        return f"{looks}; {self._gave()}" if self.then.rests[place] else looks

    def _gave(self) -> str:
        return f"it gave up pods less than {self.rule.settle:g} s ago"

    def _unknown(self, place: int) -> str:
        lacking = [name for name, part in self.parts.items() if not isfinite(part[place])]
        return f"what it uses of {' and '.join(lacking) or 'its load'} is not known"
