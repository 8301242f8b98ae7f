"""A workload second by second, in exact time: its pods start and stop as slowly as told, its load is a formula.

Drives whole decisions. Knows nothing of the strategy under test.
"""

from collections.abc import Callable
from typing import NamedTuple

from elasticd import testing
from elasticd.api import Decision, Past, Sample, Strategy
from elasticd.kit.history import begin, carry, remember
from elasticd.model.records import Outcome
from tests.kit.plugins.builders import REF, pod, seen, series

Load = Callable[[float], float]
"""What all pods together use, in percent of one pod's request, at a second."""


class Second(NamedTuple):
    """What was there at a time, and what was decided then, if anything."""

    at: int
    load: float
    pods: int
    decision: Decision | None

    @property
    def breaks(self) -> bool:
        """DHPA, IsBreak: each pod would have to use more than it has."""
        return self.load / self.pods > 100


class Workload:
    """So many pods; each takes `delay` seconds to start, and as many to stop."""

    def __init__(self, replicas: int, delay: int) -> None:
        self.replicas, self._delay = replicas, delay
        self._pods = [(-delay, float("inf"))] * replicas

    def ready(self, at: int) -> int:
        """The pods that serve."""
        return sum(1 for start, end in self._pods if start + self._delay <= at < end)

    def scale(self, at: int, replicas: int) -> None:
        """Start or stop pods now, the newest first."""
        while len(self._living()) < replicas:
            self._pods.append((at, float("inf")))
        for doomed in self._living()[replicas:]:
            self._pods[self._pods.index(doomed)] = (doomed[0], at + self._delay)
        self.replicas = replicas

    def _living(self) -> list[tuple[int, float]]:
        return [pod for pod in self._pods if pod[1] == float("inf")]


def play(
    strategy: Strategy, load: Load, seconds: int, *, replicas: int, delay: int = 5, first: int = 1
) -> list[Second]:
    """Each second from `first` on; decisions are due an interval after the last, the first counting as made at 0."""
    workload, told = Workload(replicas, delay), []
    past: Past = begin(float(first), replicas)
    last, interval = 0, 0.0
    for at in range(first, seconds + 1):
        count, decision = workload.ready(at), None
        if at - last >= interval:
            use = [Sample(load(at) / 100 / count, at, at, 1.0, f"p{index}") for index in range(count)]
            found = series(use, measured=float(at))
            shown = seen(workload.replicas, [pod(f"p{index}") for index in range(count)], found, at=float(at))
            decision = testing.judge(strategy, seen=shown, past=past, bounds=(1, 1000))
            past = remember(past, decision)
            last, interval = 0 if at == first else at, decision.interval
            if decision.action is not None:
                workload.scale(at, decision.replicas)
                past = carry(past, _done(decision))
        told.append(Second(at, load(at), count, decision))
    return told


def _done(decision: Decision) -> Outcome:
    return Outcome(decision.id, decision.at, "test", REF, "done", decision.current, decision.replicas)
