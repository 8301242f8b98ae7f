"""descheduler's LowNodeUtilization after its published rules, as a baseline for tests and benchmarks.

Knows its thresholds, its order and when it stops; knows nothing of elasticd's strategies. Source: the plugin's README,
and its pkg/framework/plugins/nodeutilization. nodeFit and limits on evictions are off, as they are unless they are set.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from elasticd.model.workload import Pod
from tests.kit.uneven import CPU, EVERY, MEMORY, SERIES, Uneven

SIZE: Mapping[str, float] = {"cpu": CPU, "memory": MEMORY, "pods": 110.0}

Amounts = dict[str, float]


README = dict.fromkeys(SIZE, (20.0, 50.0))
"""The marks of the README's example."""


class LowNodeUtilization(Struct, frozen=True):
    """`marks` are percent of what nodes can allocate, by resource: under-used is a node below the first in all,
    over-used one above the second in any; one that is not named does not matter. With `deviation` they are so far from
    the mean, below and above. `by` is what counts as used."""

    marks: Mapping[str, tuple[float, float]]
    by: Literal["requests", "metrics"] = "requests"
    deviation: bool = False
    every: int = 10
    """Cycles from run to run: five minutes, its documentation's deschedulingInterval."""

    def __call__(self, pool: Uneven) -> list[Pod]:
        """The pods that it evicts now."""
        if pool.cycle % self.every:
            return []
        on, used = self._on(pool), self._used(pool)
        least, most = self._levels(used, 0), self._levels(used, 1)
        under = [node for node, use in used.items() if all(use[name] < least[name] for name in SIZE)]
        over = [node for node, use in used.items() if any(use[name] > most[name] for name in SIZE)]
        if not under or not over:
            return []
        free = {name: sum(most[name] - used[node][name] for node in under) for name in SIZE}
        gone: list[Pod] = []
        for node in sorted(over, key=lambda node: -(1000 * used[node]["cpu"] + used[node]["memory"])):
            for one in sorted(on[node], key=lambda one: (one.needs.priority, not one.needs.requests, one.name)):
                if all(used[node][name] <= most[name] for name in SIZE) or any(left <= 0 for left in free.values()):
                    break
                for name, amount in self._of(pool, one).items():
                    used[node][name] -= amount
                    free[name] -= amount
                gone.append(one)
        return gone

    def _levels(self, used: Mapping[str, Amounts], which: int) -> Amounts:
        """The lower (0) or the upper (1) marks as amounts. What has none is never over, and always under."""
        found = {name: size * 1.01 for name, size in SIZE.items()}
        for name, marks in self.marks.items():
            part, mean = marks[which] / 100, 0.0
            if self.deviation:
                mean = sum(use[name] for use in used.values()) / len(used) / SIZE[name]
                part = part if which else -part
            found[name] = min(max(mean + part, 0.0), 1.0) * SIZE[name]
        return found

    def _on(self, pool: Uneven) -> dict[str, list[Pod]]:
        """The pods on each node that it may evict: those that have run for a minute, so that their use is known."""
        found: dict[str, list[Pod]] = {node.name: [] for node in pool.nodes}
        for one in pool.pods():
            if one.started is not None and pool.at - one.started >= 2 * EVERY:
                found[one.node].append(one)
        return found

    def _used(self, pool: Uneven) -> dict[str, Amounts]:
        used: dict[str, Amounts] = {node.name: dict.fromkeys(SIZE, 0.0) for node in pool.nodes}
        for one in pool.pods():
            used[one.node]["pods"] += 1
            if self.by == "requests":
                for name in SERIES:
                    used[one.node][name] += one.needs.requests[name]
        if self.by == "metrics":
            for name in SERIES:
                for node, amount in pool.measured[0][name].items():
                    used[node][name] = amount
        return used

    def _of(self, pool: Uneven, one: Pod) -> Amounts:
        """What a pod counts for."""
        if self.by == "requests":
            return {**one.needs.requests, "pods": 1.0}
        return {
            **{name: pool.measured[1][name].get(f"{one.namespace}/{one.name}", 0.0) for name in SERIES},
            "pods": 1.0,
        }
