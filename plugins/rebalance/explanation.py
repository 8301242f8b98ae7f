"""Explains the state of each node in text: its load beside its marks, and what it waits for.

Knows levels and how long they have lasted; knows nothing of pods.
"""

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

import numpy as np

from elasticd.api import NodeLevel, Nodes, PoolObservation, PoolPast, Stand

from .levels import Levels, excess, levels, lows, shifted, taking
from .memory import Heat, heat
from .options import Options


def explain(rule: Options, nodes: Nodes, observation: PoolObservation, past: PoolPast) -> list[NodeLevel]:
    """The state of every node, the most loaded first; nodes whose load is not known last."""
    now = levels(rule, nodes, nodes.measured)
    explainer = _Explainer(rule, nodes, now, heat(rule, nodes, observation.at, past, now))
    order = np.lexsort((np.arange(len(nodes.names)), -np.nan_to_num(now.worst, nan=-np.inf)))
    return [explainer.of(place) for place in order.tolist()]


def _lists(columns: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Columns as lists, which are faster to read one by one."""
    return {name: values.tolist() for name, values in columns.items()}


class _Explainer:
    """All that the texts about a pool are made of."""

    def __init__(self, rule: Options, nodes: Nodes, now: Levels, then: Heat) -> None:
        self.rule, self.nodes, self.now, self.then, takes = rule, nodes, now, then, taking(rule, nodes)
        self.marks, self.worst = shifted(rule, now.means), now.worst.tolist()
        self.parts, self.over = _lists(now.parts), _lists(excess(rule, now))
        self.able = {} if rule.by == "score" else _lists(lows(rule, takes.parts, takes.means))
        """By resource, who can take more of it."""
        self.hot = (then.hot | then.lasts).tolist()
        """Which give pods, or will when they have rested."""
        may_take = nodes.matching("rebalance: open", lambda node: node.ready and not node.unschedulable)
        free = takes.low & takes.calm & may_take
        conditions = [~np.isfinite(now.worst), then.hot, now.above | then.lasts, free]
        self.states = np.select(conditions, ["unknown", "gives", "high", "takes"], "level").tolist()
        """The first that applies."""

    def of(self, place: int) -> NodeLevel:
        """The state of one node."""
        state = self.states[place]
        message = self._unknown(place) if state == "unknown" else self._use(place) + self._because(place, state)
        return NodeLevel(self.nodes.names[place], state, tuple(self._resources(place, state)), message)

    def _resources(self, place: int, state: Stand) -> Iterator[str]:
        if state in ("gives", "high"):
            yield from (name for name, amount in self.over.items() if amount[place] > 0)
        elif state == "takes":
            yield from (name for name, low in self.able.items() if low[place])

    def _use(self, place: int) -> str:
        if self.rule.by == "score":
            parts = ", ".join(f"{name} {part[place]:.0%}" for name, part in self.parts.items())
            return f"score {-self.worst[place]:+.2f} ({parts})"
        name = max(self.marks, key=lambda name: self.parts[name][place] - self.marks[name].high)
        text = f"{name} {self.parts[name][place]:.0%}, the pool {self.now.means[name]:.0%}"
        return text if self.hot[place] else f"{text}, too loaded above {self.marks[name].high:.0%}"

    def _because(self, place: int, state: Stand) -> str:
        rule, gave = self.rule, f"; it gave up pods less than {self.rule.settle:g} s ago"
        if self.hot[place]:
            marks = (f"{name} {self.marks[name].calm:.0%}" for name in self._resources(place, "gives"))
            calm = f"{rule.calm:.2f}" if rule.by == "score" else ", ".join(marks)
            return "" if rule.mode == "paper" else f": calm again at {calm}{gave if state == 'high' else ''}"
        mark = f", too loaded from {rule.lower:.2f} down" if rule.by == "score" else ""
        if state == "high":
            looks = f"in {self.then.times[place]} of {rule.observations} looks"
            return f"{mark}: {looks}{gave if self.then.rests[place] else ''}"
        small = rule.by != "use" and self.worst[place] > (-rule.lower if rule.by == "score" else 0)
        return f"{mark}, but it uses less than {rule.least:.0%} of each" if small else mark

    def _unknown(self, place: int) -> str:
        lacking = [name for name, part in self.parts.items() if not isfinite(part[place])]
        return f"what it uses of {' and '.join(lacking) or 'its load'} is not known"
