"""Plans many pods batch by batch: each batch has its own search and starts from the nodes as the batches before left
them.

Knows the constraints on a plan: the capacity of each node for every resource, and the nodes that each pod may go to.
Knows how pods are counted; knows no options in TOML.
"""

from collections.abc import Iterator, Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from elasticd.api import Candidate, Mask, Nodes, Placement, Struct
from elasticd.kit import needed, weighed

from .fitness import WEIGHED, Batch, Pods, Scale, State, values
from .search import Habits, Quest, search

NOWHERE = -1


class Way(Struct, frozen=True, eq=False):
    """How a plan is made. `resources` are the weighed ones, in their order, and `series` those of their peak use, empty
    where requests count. `greedy`: the first eagle of each search is the plan that puts each pod in turn on the node
    with the highest S_N."""

    resources: tuple[str, ...]
    series: tuple[str, ...]
    scale: Scale
    habits: Habits
    size: int
    seed: int
    greedy: bool


def placements(candidates: Sequence[Candidate], nodes: Nodes, way: Way) -> Iterator[Placement]:
    """Placements in the order of the candidates, for each that fits on some node."""
    requests = [needed(candidate.pod) for candidate in candidates]
    requested = {resource for request in requests for resource in request}
    resources = (*way.resources, *sorted(requested.difference(way.resources)))
    needs = [[request.get(resource, 0) for resource in resources] for request in requests]
    counted = [[weighed(candidate.pod, resource) for resource in way.resources] for candidate in candidates]
    pods = Pods(np.array(needs, dtype=np.int64), np.array(counted, dtype=np.float64))
    state = _state(nodes, resources, way.series)
    for first in range(0, len(candidates), way.size):
        batch = slice(first, first + way.size)
        allowed = np.stack([candidate.nodes for candidate in candidates[batch]]) & state.fits(pods.only(batch))
        placeable = np.flatnonzero(allowed.any(axis=1))
        if len(placeable):
            chance = generator(way.seed, [candidates[first + int(index)].pod.uid for index in placeable])
            for index, node, value in _place(pods.only(first + placeable), allowed[placeable], state, way, chance):
                yield Placement(first + int(placeable[index]), node, value)


def _state(nodes: Nodes, resources: Sequence[str], series: Sequence[str]) -> State:
    capacity = np.stack([nodes.allocatable(resource) for resource in resources], axis=1)
    requested = np.stack([nodes.requested(resource) for resource in resources], axis=1)
    busy = np.stack([nodes.weighed(resource) for resource in resources[:WEIGHED]], axis=1).astype(np.float64)
    for column, (resource, name) in enumerate(zip(resources, series, strict=False)):
        if name:
            peak = nodes.peak(name) * (1000 if resource == "cpu" else 1)
            busy[:, column] = np.where(np.isnan(peak), busy[:, column], peak)
    return State(capacity, capacity - requested, busy)


def generator(seed: int, uids: Sequence[str]) -> np.random.Generator:
    """A random generator seeded by `seed` and the UIDs: the same in every process."""
    digest = blake2b("\n".join(uids).encode(), digest_size=8).digest()
    return np.random.Generator(np.random.PCG64([seed, int.from_bytes(digest, "big")]))


def _place(
    pods: Pods, allowed: Mask, state: State, way: Way, chance: np.random.Generator
) -> list[tuple[int, int, float]]:
    """Search a plan for one batch: (index of the pod, node, S_N) for each pod that fits. Updates `state`."""
    batch = Batch(pods, allowed, _numbering(state), state, way.scale)
    first = None
    if way.greedy:
        best = np.full(len(allowed), NOWHERE)
        for index, node, _ in _settle(None, pods, allowed, state.copy(), way.scale):
            best[index] = node
        first = batch.position(best)[None, :]
    low, high = np.zeros(len(allowed)), batch.counts.astype(np.float64)
    # The search runs to its end while a pod has no place: finding one is where it beats placing pod by pod.
    catch = search(Quest(batch.fitness, low, high, first, batch.enough), way.habits, chance)
    return _settle(batch.nodes(catch.position[None, :])[0], pods, allowed, state, way.scale)


def _numbering(state: State) -> NDArray[np.intp]:
    """Indices of nodes, those with the most room first, so that neighbouring numbers mean similar nodes."""
    most = np.maximum(state.capacity[:, :WEIGHED].max(axis=0), 1)
    return np.argsort(-(state.left[:, :WEIGHED] / most).sum(axis=1), kind="stable")


def _settle(
    wished: NDArray[np.intp] | None, pods: Pods, allowed: Mask, state: State, scale: Scale
) -> list[tuple[int, int, float]]:
    """Put each pod in turn on its wished node, or on the fitting node with the highest S_N where it has no wish or does
    not fit there. Leaves out pods that fit nowhere; updates `state`."""
    placed = []
    for index, allowed_nodes in enumerate(allowed):
        pod = pods.only(slice(index, index + 1))
        node = NOWHERE if wished is None else int(wished[index])
        if node == NOWHERE or not (allowed_nodes[node] and state.only(node).fits(pod).all()):
            node = _best(pod, allowed_nodes, state, scale)
        if node != NOWHERE:
            placed.append((index, node, float(values(pod, state.only(node), scale)[0, 0])))
            state.take(node, pod)
    return placed


def _best(pod: Pods, allowed: Mask, state: State, scale: Scale) -> int:
    """The allowed node with the highest S_N where the pod fits; the first of equal ones; NOWHERE if none."""
    fits = allowed & state.fits(pod)[0]
    return int(np.argmax(np.where(fits, values(pod, state, scale)[0], -np.inf))) if fits.any() else NOWHERE
