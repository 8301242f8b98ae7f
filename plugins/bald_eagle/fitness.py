"""Computes how good a node is for a pod, and how good a whole plan is: TBESK's fitness, eqs (16)-(27).

Knows requests, capacity and use of four resources, and of all others only whether they suffice. Amounts are whole
numbers as elasticd counts them; arrays have the axes (pods, nodes, resources) or the first of these. Knows no search.

Source: TBESK (see the package), sections 3.2 and 3.3.
"""

import numpy as np
from numpy.typing import NDArray

from elasticd.api import Mask, Struct, Whole

Floats = NDArray[np.float64]

WEIGHED = 4
"""The resources that are weighed: the first of each array, in the order cpu, memory, bandwidth, disk."""

COMPRESSIBLE, BALANCED, INCOMPRESSIBLE = 0, 1, 2

MISFIT = -1000.0
"""What a pod that does not fit counts for, instead of its S_N; the paper only says that it must not be placed."""


class Scale(Struct, frozen=True, eq=False):
    """The weights of resources. `mu` has a row for each type of pod, in the order above; None: each resource counts by
    the fraction of the node that the pod requests. `load` is v and `critical` is T of eq. (26)."""

    mu: Floats | None
    load: Floats
    critical: Floats

    def shares(self, needs: Floats, capacity: Floats) -> Floats:
        """mu of eq. (21) for each pod on each node."""
        parts = _ratio(needs[:, None, :], capacity)
        if self.mu is not None:
            return self.mu[types(parts)]
        total = parts.sum(axis=2, keepdims=True)
        return np.where(total > 0, parts / np.where(total > 0, total, 1), 1 / WEIGHED)


def types(parts: Floats) -> NDArray[np.intp]:
    """Eq. (16): the type of a pod on a node, from the fractions C_r of the node's capacity that it requests. The same
    pod may have another type on another node. Equal fractions, which the paper leaves open, make it balanced."""
    first, second = np.sign(parts[..., 0] - parts[..., 1]), np.sign(parts[..., 2] - parts[..., 3])
    return np.where(first == second, 1 - first, BALANCED).astype(np.intp)


class Pods(Struct, frozen=True, eq=False):
    """What pods request. `needs` has a column for each resource, the weighed ones first. `asked` has only these, P of
    eqs (17)-(25): a pod without a request counts by elasticd's default for it, or any number of such pods would go to
    one node."""

    needs: Whole
    asked: Floats

    def only(self, rows: "slice | NDArray[np.intp]") -> "Pods":
        return Pods(self.needs[rows], self.asked[rows])


class State(Struct, eq=False):
    """The nodes while pods are placed. `capacity` and `left` have a column for each resource, the weighed ones first;
    `busy` has only these: use in the peak period, S' of eqs (22)-(25)."""

    capacity: Whole
    left: Whole
    busy: Floats

    def copy(self) -> "State":
        return State(self.capacity, self.left.copy(), self.busy.copy())

    def only(self, node: int) -> "State":
        row = slice(node, node + 1)
        return State(self.capacity[row], self.left[row], self.busy[row])

    def take(self, node: int, pods: Pods) -> None:
        self.left[node] -= pods.needs.sum(axis=0)
        self.busy[node] += pods.asked.sum(axis=0)

    def fits(self, pods: Pods) -> Mask:
        """Which nodes have room for each pod alone, (pods, nodes). What a pod does not request is not short."""
        needs = pods.needs[:, None, :]
        return ((needs <= self.left) | (needs == 0)).all(axis=2)  # type: ignore[no-any-return]


def values(pods: Pods, state: State, scale: Scale) -> Floats:
    """S_N of eq. (27) for each pod on each node, (pods, nodes), the higher the better; meaningless where the pod does
    not fit. A resource that a pod does not request counts R_r = 1, also on a node that has none of it; a default
    request takes no more than what is left."""
    requested, capacity = pods.asked[:, None, :], state.capacity[:, :WEIGHED].astype(np.float64)
    available = np.maximum(state.left[:, :WEIGHED], requested)
    remaining = (scale.shares(pods.asked, capacity) * (1 - _ratio(requested, available))).sum(axis=2)
    load = _ratio(requested + state.busy, capacity)
    return remaining + (scale.load * (scale.critical - load)).sum(axis=2)  # type: ignore[no-any-return]


class Batch:
    """Computes the fitness of many plans for one batch of pods at once.

    A plan has a coordinate for each pod, from 0 to the number of nodes that may take it; its whole part picks one of
    these, in the given order. `allowed` is (pods, nodes), with at least one node for each pod.
    """

    def __init__(self, pods: Pods, allowed: Mask, order: NDArray[np.intp], state: State, scale: Scale) -> None:
        self.counts = np.count_nonzero(allowed, axis=1)
        ranked = np.argsort(~allowed[:, order], axis=1, kind="stable")[:, : int(self.counts.max())]
        self._nodes = order[ranked]
        self._pods = np.arange(len(allowed))
        self._starts, self._earlier = self._pods * len(order), np.tri(len(allowed), k=-1, dtype=np.bool_)
        capacity = state.capacity[:, :WEIGHED].astype(np.float64)
        costs = scale.shares(pods.asked, capacity) * pods.asked[:, None, :]
        # The part of S_N that does not depend on the batch, and how much S_N falls for each unit that the batch takes.
        load = _ratio(pods.asked[:, None, :] + state.busy, capacity)
        self._fixed = (1 + (scale.load * (scale.critical - load)).sum(axis=2)).ravel()
        slopes = _ratio(np.broadcast_to(scale.load, capacity.shape), capacity)
        # Resources are the first axis here: numpy is twice as fast along the long axes.
        needs = pods.needs.T.astype(np.float64)
        self._resources, self._takes = len(needs), np.concatenate([needs, pods.asked.T])
        self._must = np.where(needs > 0, needs, -np.inf)[:, None, :]
        self._least = np.maximum(pods.asked.T, 1)[:, None, :]
        self._left = np.ascontiguousarray(state.left.T, dtype=np.float64)
        self._costs = np.ascontiguousarray(costs.reshape(-1, WEIGHED).T)
        self._slopes = np.ascontiguousarray(slopes.T)

    @property
    def enough(self) -> float:
        """A threshold: the fitness of a plan in which all pods fit is above it, that of any other below."""
        return MISFIT / 2 / len(self._pods)

    def nodes(self, positions: Floats) -> NDArray[np.intp]:
        """The node of each pod, (plans, pods)."""
        return self._nodes[self._pods, np.minimum(positions.astype(np.intp), self.counts - 1)]  # type: ignore[no-any-return]

    def position(self, nodes: NDArray[np.intp]) -> Floats:
        """Coordinates that mean these nodes; for a node that the pod may not go to, those of its first allowed node."""
        return (self._nodes == nodes[:, None]).argmax(axis=1) + 0.5  # type: ignore[no-any-return]

    def fitness(self, positions: Floats) -> Floats:
        """The mean of S_N over the pods for each plan; `positions` is (plans, pods). Pods are placed in order: each
        sees those before it in place. A pod that does not fit counts MISFIT, and still takes room from those after it.

        Earlier pods on the same node are found by comparing all pods with all, so that pods need no loop and the cost
        does not depend on the number of nodes.
        """
        nodes = self.nodes(positions)
        short = nodes.astype(np.int32)
        before = (short[:, :, None] == short[:, None, :]) & self._earlier
        demand = (self._takes @ before.reshape(-1, len(self._pods)).astype(np.float64).T).reshape(-1, *nodes.shape)
        pairs, needs = nodes + self._starts, demand[: self._resources]
        remaining = self._left.take(nodes, axis=1) - needs
        lacking = (remaining < self._must).any(axis=0)
        lost = self._costs.take(pairs, axis=1) / np.maximum(remaining[:WEIGHED], self._least)
        lost += self._slopes.take(nodes, axis=1) * demand[self._resources :]
        scores = self._fixed.take(pairs) - lost.sum(axis=0)
        return np.where(lacking, MISFIT, scores).mean(axis=1)  # type: ignore[no-any-return]


def _ratio(amount: Floats, whole: Floats) -> Floats:
    """amount / whole; 0 where `whole` is 0."""
    return np.where(whole > 0, amount / np.where(whole > 0, whole, 1), 0.0)
