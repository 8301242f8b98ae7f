"""Who leaves a node: in the order of the thesis's queues, or by what a pod releases for what moving it costs.

Knows pods, what they use and how much is to be released; knows no other nodes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from elasticd.api import Pod, Struct
from elasticd.kit import COST

GRAIN = 0.0025
"""Less than this part of a node is not worth a move, so that a node with no more too much is left as it is."""

SPARE = 5
"""Pods that are named beside those that suffice, for where one of these finds no place."""

ORDER = {"Never": 0, "OnFailure": 1, "Always": 2}
"""Which of two equal pods goes first, by restartPolicy."""


class Victim(Struct, frozen=True, gc=False):
    """A pod that may go, what it uses, by resource, and what moving it costs."""

    pod: Pod
    use: Mapping[str, float]
    cost: float


class Chosen(Struct, frozen=True, gc=False):
    """One that goes: what that releases, and by how many percent of its node it lowers what that has too much."""

    victim: Victim
    released: Mapping[str, float]
    benefit: float = 0.0


def disruption(pod: Pod) -> float:
    """What moving a pod costs: 0.25 for an ordinary one, from 0 to 2.5. A quarter of Karpenter's disruption cost, 1 +
    deletion cost / 2^27 + priority / 2^25 from 0 to 10, so that a pod is worth a quarter of a percent of its node. A
    deletion cost that is no number counts as none."""
    try:
        deletion = int(pod.annotations.get(COST, "0"))
    except ValueError:
        deletion = 0
    return min(max(1 + deletion / 2**27 + pod.needs.priority / 2**25, 0.0), 10.0) / 4


def by_queues(victims: Iterable[Victim], excess: Mapping[str, float]) -> list[Chosen]:
    """Of restartPolicy Never first, then OnFailure, each by memory request and cpu use, the largest first, until what
    they release covers the excess: 4.3 and 5.5.4 of the thesis. A pod releases the cpu that it uses and the memory that
    it requests."""
    queues = sorted((one for one in victims if one.pod.needs.restart != "Always"), key=_in_queue)
    found, left = list[Chosen](), dict(excess)
    for one in queues:
        if max(left.values()) <= 0:
            break
        released = {**one.use, "memory": one.pod.counted.get("memory", 0.0)}
        left = {name: amount - released.get(name, 0.0) for name, amount in left.items()}
        found.append(Chosen(one, released))
    return found


def _in_queue(one: Victim) -> tuple[int, float, float, str, str]:
    pod = one.pod
    memory = pod.counted.get("memory", 0.0)
    return ORDER[pod.needs.restart], -memory, -one.use.get("cpu", 0.0), pod.namespace, pod.name


def by_match(
    victims: Sequence[Victim], excess: Mapping[str, float], sizes: Mapping[str, float], take: Callable[[Pod], bool]
) -> list[Chosen]:
    """One after the other, each by what is left to release of what the node then has most too much of, until nothing is
    that is worth it. `take`: whether a pod may go, asked once it is its turn."""
    found, left, remaining = list[Chosen](), sorted(victims, key=_among_equals), dict(excess)
    while left:
        name = max(remaining, key=lambda name: remaining[name] / sizes[name])
        if remaining[name] < GRAIN * sizes[name]:
            break
        one = _chosen(left.pop(_first(left, name, remaining[name])), remaining, sizes)
        if one.benefit > 0 and take(one.victim.pod):
            found.append(one)
            remaining = {name: amount - one.released[name] for name, amount in remaining.items()}
    return found


def relief(one: Chosen, excess: Mapping[str, float], sizes: Mapping[str, float]) -> Iterator[float]:
    """Which part of what must go it takes, by resource. The last grain need not; without sizes, all must."""
    for name, amount in excess.items():
        due = amount - GRAIN * sizes.get(name, 0.0)
        yield one.released.get(name, 0.0) / due if due > 0 else 1.0


def others(
    victims: Iterable[Victim],
    needed: Iterable[Chosen],
    excess: Mapping[str, float],
    sizes: Mapping[str, float],
    free: Callable[[Pod], bool],
) -> list[Chosen]:
    """A few that could go instead."""
    gone = {one.victim.pod.uid for one in needed}
    name = max(excess, key=lambda name: excess[name] / sizes[name])
    left = [one for one in victims if one.pod.uid not in gone and one.use[name] > 0 and free(one.pod)]
    left.sort(key=lambda one: (*_order(one, name, excess[name]), *_among_equals(one)))
    return [_chosen(one, excess, sizes) for one in left[:SPARE]]


def _first(victims: Sequence[Victim], name: str, amount: float) -> int:
    """Whose turn it is, by index; of equal ones the first."""
    return min(range(len(victims)), key=lambda index: _order(victims[index], name, amount))


def _order(one: Victim, name: str, amount: float) -> tuple[bool, float]:
    """Those first that release no more than is to be, by what it brings for what it costs; then the smallest."""
    use = one.use[name]
    over = use > amount * (1 + 1e-9)
    return over, use * one.cost if over else -use / max(one.cost, 0.01)


def _among_equals(one: Victim) -> tuple[int, float, str, str]:
    pod = one.pod
    return ORDER[pod.needs.restart], -pod.counted.get("memory", 0.0), pod.namespace, pod.name


def _chosen(one: Victim, excess: Mapping[str, float], sizes: Mapping[str, float]) -> Chosen:
    benefit = max(min(one.use[name], max(amount, 0.0)) / sizes[name] for name, amount in excess.items())
    return Chosen(one, one.use, 100 * benefit)
