"""Chooses the moves of one evaluation: for each node that must give up pods, which pods leave, in which order.

Knows the nodes' excess and their pods; knows nothing of how the excess arose.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from math import isfinite

import numpy as np

from elasticd.api import Mask, Move, Nodes, Pod, PoolObservation, PoolPast

from .levels import Levels, excess, fits
from .memory import Rests
from .options import Options
from .victims import Chosen, Victim, by_match, by_queues, disruption, others, relief

MOST = 1000
"""The most pods that one evaluation chooses; no policy moves more at a time."""


class Choice:
    """The choice for the levels `now`: those by which nodes give up pods (measured use), and those by which they take
    pods (with an estimate for pods that came since)."""

    def __init__(
        self,
        rule: Options,
        nodes: Nodes,
        observation: PoolObservation,
        past: PoolPast,
        movable: Callable[[Pod], bool],
        now: tuple[Levels, Levels],
    ) -> None:
        gives, takes = now
        self._paper, self._nodes, self._movable, self._now = rule.mode == "paper", nodes, movable, gives
        self._excess = excess(rule, gives)
        self._fits = cache(lambda due: fits(rule, takes, due))
        self._use = {name: observation.use.get(name, {}) for name in gives.parts}
        self._rests = Rests(0.0 if self._paper else rule.cooldown, observation.at, past.moved)

    def moves(self, hot: Mask) -> list[Move]:
        """The moves of all nodes that must give up pods, the most loaded node first; of equal ones by name."""
        places, now = np.flatnonzero(hot), self._now
        order = places[np.lexsort((places, -now.worst[places]))]
        moves: list[Move] = []
        count = 0
        for place in order.tolist():
            if count >= MOST:
                break
            due = {name: float(amount[place]) for name, amount in self._excess.items() if amount[place] > 0}
            if not due:
                continue
            sizes = {name: float(now.sizes[name][place]) for name in due}
            needed, spare = self._choose(place, due, sizes)
            count += len(needed)
            uses = [f"{name} {now.parts[name][place]:.0%}, the pool {mean:.0%}" for name, mean in now.means.items()]
            message = f"{self._nodes.names[place]} uses {'; '.join(uses)}"
            moves += [self._move(chosen, due, sizes, message) for chosen in (*needed, *spare)]
        return moves

    def _choose(
        self, place: int, due: Mapping[str, float], sizes: Mapping[str, float]
    ) -> tuple[list[Chosen], list[Chosen]]:
        victims = list(self._victims(place))
        if self._paper:
            return by_queues(victims, due), []
        needed = by_match(victims, due, sizes, self._take)
        return needed, others(victims, needed, due, sizes, lambda pod: self._rests.free(pod, self._nodes))

    def _victims(self, place: int) -> Iterator[Victim]:
        """The pods that may leave, with the use of each; a pod whose use is not known stays."""
        for pod in self._nodes.pods(place):
            key = f"{pod.namespace}/{pod.name}"
            use = {name: by_pod.get(key, -1.0) for name, by_pod in self._use.items()}
            if all(isfinite(amount) and amount >= 0 for amount in use.values()) and self._movable(pod):
                yield Victim(pod, use, disruption(pod))

    def _take(self, pod: Pod) -> bool:
        """Whether another pod of its controller may leave; if so, count it."""
        if not self._rests.free(pod, self._nodes):
            return False
        self._rests.choose(pod)
        return True

    def _move(self, chosen: Chosen, due: Mapping[str, float], sizes: Mapping[str, float], message: str) -> Move:
        pod = chosen.victim.pod
        if self._paper:
            return Move(pod, "Overloaded", message, "release", relief=tuple(relief(chosen, due, {})))
        return Move(
            pod,
            "Overloaded",
            message,
            benefit=chosen.benefit,
            disruption=chosen.victim.cost,
            not_to=self._rests.left(pod, self._nodes),
            use=chosen.victim.use,
            fits=self._fits(tuple(due)),
            relief=tuple(relief(chosen, due, sizes)),
        )
