"""A workload second by second, in exact time: its pods start and stop as slowly as told, its load is a formula, of the
time or also of the pods that serve.

Drives whole decisions, as the daemon makes them. Knows nothing of the strategy, nor of what is made of it.
"""

from collections.abc import Callable, Mapping
from math import inf
from typing import Any, NamedTuple

import msgspec

from elasticd.decision.decide import Case, decide
from elasticd.kit.history import begin, carry, remember
from elasticd.model.policy import Bounds, Policy, Strategy, Target
from elasticd.model.records import Decision, Outcome
from elasticd.model.workload import Container, Observation, Pod, Quality, Ref, Sample, Series, Workload
from elasticd.registry import Hooks, Registry

Curve = Callable[[float], float]
"""What all pods together would use, in percent of one pod's request, at a second."""

Load = Callable[[float, int], float]
"""The same with so many ready pods: clients that wait for their answers send fewer requests if pods are few."""

REF = Ref("default", "Deployment", "web")


def apart(curve: Curve) -> Load:
    """A load that does not depend on the pods."""
    return lambda t, _ready: curve(t)


def strategy_of(registry: Registry, table: Mapping[str, Any]) -> Strategy:
    """The strategy of a table, as a policy has it."""
    strategy: Strategy = msgspec.convert(table, registry.strategies[table["type"]].type)
    return strategy


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


class Containers:
    """The pods of a workload; each takes `delay` seconds to start, and as many to stop."""

    def __init__(self, replicas: int, delay: int) -> None:
        self.replicas, self._delay = replicas, delay
        self._pods = [(-inf, inf)] * replicas

    def ready(self, at: int) -> int:
        """The pods that serve."""
        return sum(1 for start, end in self._pods if start <= at < end)

    def scale(self, at: int, replicas: int) -> None:
        """Start or stop pods now, the newest first."""
        while len(self._living()) < replicas:
            self._pods.append((at + self._delay, inf))
        for doomed in self._living()[replicas:]:
            self._pods[self._pods.index(doomed)] = (doomed[0], at + self._delay)
        self.replicas = replicas

    def _living(self) -> list[tuple[float, float]]:
        return [pod for pod in self._pods if pod[1] == inf]


class Setting(NamedTuple):
    """How a workload is played: for so many seconds, with so many pods at first. The strategy looks at second `first`,
    from when its intervals count; pods take `delay` seconds to start. `limits` are those of its policy, `most` its
    greatest number of pods."""

    seconds: int
    replicas: int
    first: int = 1
    delay: int = 5
    limits: tuple[Strategy, ...] = ()
    most: int = 1000


def play(strategy: Strategy, load: Load, setting: Setting, measured: Load | None = None) -> list[Second]:
    """Each second from 1 on. The first decision counts as made a second before it was, as in DHPA's example, which
    looks at 1, 30 and 31 s. `measured`: the load as the strategy sees it; None: as it is."""
    containers, told = Containers(setting.replicas, setting.delay), []
    past, hooks = begin(float(setting.first), setting.replicas), Hooks([strategy, *setting.limits])
    policy = Policy(
        name="paper",
        replicas=Bounds(min=1, max=setting.most),
        strategies=(strategy,),
        limits=setting.limits,
        workload=Target("default", "web"),
        mode="act",
    )
    due = float(setting.first)
    for at in range(1, setting.seconds + 1):
        count, decision = containers.ready(at), None
        if at >= due:
            shown = _observed(at, containers.replicas, count, (measured or load)(at, count))
            decision = decide(Case(policy, shown, past, hooks))
            past = remember(past, decision)
            due = (at - 1 if at == setting.first else at) + decision.interval
            if decision.action is not None:
                containers.scale(at, decision.replicas)
                past = carry(past, _done(decision))
        told.append(Second(at, load(at, count), count, decision))
    return told


def _observed(at: int, replicas: int, ready: int, load: float) -> Observation:
    """So many ready pods that request one core each and share the load."""
    names = [f"web-{index}" for index in range(ready)]
    now, container = float(at), (Container("web", {"cpu": 1.0}),)
    pods = tuple(
        Pod("default", name, name, "Running", containers=container, started=-3600.0, ready=True, ready_changed=-3580.0)
        for name in names
    )
    samples = tuple(Sample(max(0.0, load) / 100 / ready, now, now, 1.0, name) for name in names)
    series = {"cpu": Series("cpu", "paper", Quality.FRESH, samples, "", now)}
    workload = Workload(REF, "uid", "1", replicas, replicas, "app=web")
    return Observation(now, workload, pods, series, confirmed=now)


def _done(decision: Decision) -> Outcome:
    return Outcome(decision.id, decision.at, "paper", REF, "done", decision.current, decision.replicas)
