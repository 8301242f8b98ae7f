"""Who gives way for a pod that fits nowhere.

Pure. Knows how candidates are compared and that no budget is overdrawn; knows no rule of who may be a victim.
"""

from collections.abc import Iterable

import numpy as np
from msgspec import Struct

from elasticd.actions import GIVES_WAY, Evict, Nominate
from elasticd.model import Failure, Pod
from elasticd.placements import Column, DisruptionBudget, Mask, PoolObservation
from elasticd.placing.ask import PoolCase

TRIED = 100
"""Of the nodes where others could give way, how many are asked about, the best by score first; kube-scheduler looks at
a tenth of the nodes and at least as many."""


class Room(Struct, frozen=True, eq=False):
    """A node and who gives way there."""

    node: int
    victims: tuple[Pod, ...]
    why: str = ""

    def actions(self, pod: Pod, name: str) -> tuple[Nominate | Evict, ...]:
        """What is to be done: note the node on the pod, then evict, in this order."""
        evictions = [
            Evict(
                victim.ref,
                victim.uid,
                name,
                f"{GIVES_WAY} {pod.namespace}/{pod.name}",
                restore=not victim.owner[0],
                first=victim.needs.restart == "OnFailure",
                owner=victim.owner[2],
            )
            for victim in self.victims
        ]
        return (Nominate(pod.ref, pod.uid, name), *evictions)


class Budgets:
    """What PodDisruptionBudgets still allow within one plan; nothing where they are not known."""

    def __init__(self, budgets: Iterable[DisruptionBudget], *, known: bool = True) -> None:
        self.known = known
        self._left = {(one.namespace, one.name): one for one in budgets}

    def now(self) -> tuple[DisruptionBudget, ...]:
        """As they are after what was planned."""
        return tuple(self._left.values())

    def spend(self, pod: Pod) -> None:
        """A pod will go."""
        for key, one in self._left.items():
            if pod.uid in one.pods:
                self._left[key] = DisruptionBudget(one.namespace, one.name, one.pods - {pod.uid}, one.allowed - 1)

    def bear(self, pods: Iterable[Pod]) -> bool:
        """Whether all of these may go."""
        gone = {pod.uid for pod in pods}
        return self.known and all(len(one.pods & gone) <= max(0, one.allowed) for one in self._left.values())


def make_room(
    case: PoolCase, pod: Pod, places: Mask, total: Column, budgets: Budgets, *, forced: bool
) -> tuple[Room | None, tuple[Failure, ...]]:
    """The node where it costs least that others give way, and who; None: nowhere."""
    seen = case.observation
    observation = PoolObservation(
        seen.at, seen.pending, seen.use, budgets.now(), seen.confirmed, seen.gave_way, seen.moved
    )
    best: tuple[tuple[float, ...], Room] | None = None
    failures: tuple[Failure, ...] = ()
    for index in _by_score(places, total)[:TRIED]:
        heard = case.ask("select_victims", pod=pod, node=index, observation=observation, forced=forced)
        failures += heard.failures
        for _, victims in heard.values:
            if not budgets.bear(victims.pods) or not victims.pods:
                continue
            if best is None or victims.cost < best[0]:
                best = victims.cost, Room(index, victims.pods, victims.why)
        if best is not None and not best[0]:
            break
    return (None if best is None else best[1]), failures


def _by_score(places: Mask, total: Column) -> list[int]:
    """The nodes in question, best first."""
    found = np.flatnonzero(places)
    order = np.argsort(-np.nan_to_num(total[found], nan=-np.inf), kind="stable")
    return [int(found[index]) for index in order]
