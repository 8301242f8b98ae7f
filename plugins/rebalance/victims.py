"""Chooses the pods that leave a node: by the thesis's queues, or by what a pod releases relative to the cost of moving
it.

Knows pods, their use and how much is to be released; knows no other nodes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from elasticd.api import Pod, Struct
from elasticd.kit import COST

GRAIN = 0.0025
"""A fraction of a node that is not worth a move, so that a node with hardly any excess is left as it is."""

SPARE = 5
"""How many pods are named beside those that suffice, in case one of these finds no place."""

ORDER = {"Never": 0, "OnFailure": 1, "Always": 2}
"""Which of two equal pods leaves first, by restartPolicy."""


class Victim(Struct, frozen=True, gc=False):
    """A pod that may leave, its use by resource, and the cost of moving it."""

    pod: Pod
    use: Mapping[str, float]
    cost: float


class Chosen(Struct, frozen=True, gc=False):
    """A pod that leaves: the use it releases, and by how many percent of its node it lowers the excess."""

    victim: Victim
    released: Mapping[str, float]
    benefit: float = 0.0


def disruption(pod: Pod) -> float:
    """The cost of moving a pod: 0.25 for an ordinary one, from 0 to 2.5. A quarter of Karpenter's disruption cost, 1 +
    deletion cost / 2^27 + priority / 2^25, cut to 0 to 10, so that a pod is worth a quarter of a percent of its node. A
    deletion cost that is not a number counts as 0."""
    try:
        deletion = int(pod.annotations.get(COST, "0"))
    except ValueError:
        deletion = 0
    return min(max(1 + deletion / 2**27 + pod.needs.priority / 2**25, 0.0), 10.0) / 4


def by_queues(victims: Iterable[Victim], excess: Mapping[str, float]) -> list[Chosen]:
    """Pods of restartPolicy Never first, then OnFailure, each by memory request and cpu use, the largest first, until
    what they release covers the excess: 4.3 and 5.5.4 of the thesis. A pod releases the cpu that it uses and the memory
    that it requests."""
    ending = (victim for victim in victims if victim.pod.needs.restart != "Always")
    queues = sorted(ending, key=lambda victim: _among_equals(victim, victim.use.get("cpu", 0.0)))
    chosen, excess_left = list[Chosen](), dict(excess)
    for victim in queues:
        if max(excess_left.values()) <= 0:
            break
        released = {**victim.use, "memory": victim.pod.counted.get("memory", 0.0)}
        excess_left = {name: amount - released.get(name, 0.0) for name, amount in excess_left.items()}
        chosen.append(Chosen(victim, released))
    return chosen


def by_match(
    victims: Sequence[Victim], excess: Mapping[str, float], sizes: Mapping[str, float], take: Callable[[Pod], bool]
) -> list[Chosen]:
    """One pod after another, each chosen by the resource that then exceeds most, until the rest is not worth a move.
    `take` says whether a pod may leave; it is called once per pod, when the pod is chosen."""
    chosen, candidates, remaining = list[Chosen](), sorted(victims, key=_among_equals), dict(excess)
    while candidates:
        name = max(remaining, key=lambda name: remaining[name] / sizes[name])
        if remaining[name] < GRAIN * sizes[name]:
            break
        choice = _choose(candidates.pop(_first(candidates, name, remaining[name])), remaining, sizes)
        if choice.benefit > 0 and take(choice.victim.pod):
            chosen.append(choice)
            remaining = {name: amount - choice.released[name] for name, amount in remaining.items()}
    return chosen


def relief(chosen: Chosen, excess: Mapping[str, float], sizes: Mapping[str, float]) -> Iterator[float]:
    """The part of the excess that a pod releases, by resource, but for a last grain where sizes are given."""
    for name, amount in excess.items():
        due = amount - GRAIN * sizes.get(name, 0.0)
        yield chosen.released.get(name, 0.0) / due if due > 0 else 1.0


def others(
    victims: Iterable[Victim],
    needed: Iterable[Chosen],
    excess: Mapping[str, float],
    sizes: Mapping[str, float],
    free: Callable[[Pod], bool],
) -> list[Chosen]:
    """Up to SPARE pods that could leave instead."""
    needed_uids = {choice.victim.pod.uid for choice in needed}
    name = max(excess, key=lambda name: excess[name] / sizes[name])
    candidates = [
        victim for victim in victims if victim.pod.uid not in needed_uids and victim.use[name] > 0 and free(victim.pod)
    ]
    candidates.sort(key=lambda victim: (*_order(victim, name, excess[name]), *_among_equals(victim)))
    return [_choose(victim, excess, sizes) for victim in candidates[:SPARE]]


def _first(victims: Sequence[Victim], name: str, amount: float) -> int:
    """The index of the next pod to leave; of equal ones the first."""
    return min(range(len(victims)), key=lambda index: _order(victims[index], name, amount))


def _order(victim: Victim, name: str, amount: float) -> tuple[bool, float]:
    """Sort key: pods that release no more than `amount`, the most for their cost first; then the smallest."""
    use = victim.use[name]
    over = use > amount * (1 + 1e-9)
    return over, use * victim.cost if over else -use / max(victim.cost, 0.01)


def _among_equals(victim: Victim, cpu: float = 0.0) -> tuple[int, float, float, str, str]:
    pod = victim.pod
    return ORDER[pod.needs.restart], -pod.counted.get("memory", 0.0), -cpu, pod.namespace, pod.name


def _choose(victim: Victim, excess: Mapping[str, float], sizes: Mapping[str, float]) -> Chosen:
    benefit = max(min(victim.use[name], max(amount, 0.0)) / sizes[name] for name, amount in excess.items())
    return Chosen(victim, victim.use, 100 * benefit)
