"""How good a node is for a pod, and how good a whole plan is: TBESK's fitness, eqs (16)-(27).

Knows requests, capacity and use of four resources, and of all others only whether they suffice. Amounts are whole
numbers as elasticd counts them, arrays are (pods, nodes, resources) or less; knows no eagles.

Source: Geng, Wang, "Improved Bald Eagle Search Algorithm for Kubernetes Resource Scheduling Application", Computer
Systems & Applications 32(4), 2023 (TBESK), sections 3.2 and 3.3.
"""

import numpy as np
from numpy.typing import NDArray

from elasticd.api import Mask, Struct, Whole

Floats = NDArray[np.float64]

WEIGHED = 4
"""The resources that are weighed: the first of each array, in the order cpu, memory, bandwidth, disk."""

COMPRESSIBLE, BALANCED, INCOMPRESSIBLE = 0, 1, 2

MISFIT = -1000.0
"""What a pod counts for that does not fit, instead of its S_N; the paper only says that it must not be placed."""


class Scale(Struct, frozen=True, eq=False):
    """What is weighed how. `mu` has a row for each type of pod, in the order above, or is None where each resource
    counts by the part of the node that the pod asks for. `load` is v, `critical` T of eq. (26)."""

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
    """Eq. (16): what kind of pod it is on a node, by C_r, the part of the node's capacity that it asks for of each
    resource. It is the node that makes it so. Where two are equal, which the paper leaves open, it is balanced."""
    first, second = np.sign(parts[..., 0] - parts[..., 1]), np.sign(parts[..., 2] - parts[..., 3])
    return np.where(first == second, 1 - first, BALANCED).astype(np.intp)


class Pods(Struct, frozen=True, eq=False):
    """What pods take. `needs` has a column for each resource, the weighed ones first. `asked` has only those, P of eqs
    (17)-(25), where a pod that requests nothing counts for what elasticd assumes of it; else any number of such pods
    would go to one node."""

    needs: Whole
    asked: Floats

    def only(self, rows: "slice | NDArray[np.intp]") -> "Pods":
        """Some of them."""
        return Pods(self.needs[rows], self.asked[rows])


class State(Struct, eq=False):
    """Nodes while pods are put on them. `capacity` and `left` have a column for each resource, the weighed ones first;
    `busy` only those: what is in use at the peak period, S' of eqs (22)-(25)."""

    capacity: Whole
    left: Whole
    busy: Floats

    def copy(self) -> "State":
        """Another one, which does not change with this one."""
        return State(self.capacity, self.left.copy(), self.busy.copy())

    def only(self, node: int) -> "State":
        """A view of one node."""
        row = slice(node, node + 1)
        return State(self.capacity[row], self.left[row], self.busy[row])

    def take(self, node: int, pods: Pods) -> None:
        """Pods are put on a node."""
        self.left[node] -= pods.needs.sum(axis=0)
        self.busy[node] += pods.asked.sum(axis=0)

    def fits(self, pods: Pods) -> Mask:
        """Which nodes have room for each pod alone, (pods, nodes). What a pod does not ask for cannot lack."""
        needs = pods.needs[:, None, :]
        return ((needs <= self.left) | (needs == 0)).all(axis=2)  # type: ignore[no-any-return]


def values(pods: Pods, state: State, scale: Scale) -> Floats:
    """S_N of eq. (27), the higher the better, for each pod on each node, (pods, nodes); meaningless where it does not
    fit. A resource that a pod asks nothing of is not lacking, so that R_r is 1 also on a node that has none of it; and
    what is only assumed of a pod takes no more than is left."""
    requested, capacity = pods.asked[:, None, :], state.capacity[:, :WEIGHED].astype(np.float64)
    available = np.maximum(state.left[:, :WEIGHED], requested)
    remaining = (scale.shares(pods.asked, capacity) * (1 - _ratio(requested, available))).sum(axis=2)
    load = _ratio(requested + state.busy, capacity)
    return remaining + (scale.load * (scale.critical - load)).sum(axis=2)  # type: ignore[no-any-return]


class Batch:
    """Pods that are put on nodes together: the fitness of many plans at once.

    Of a plan each pod has a coordinate, from 0 to the count of nodes that may take it, and the whole part says which of
    those, in the given order. `allowed` is (pods, nodes), with at least one node for each pod.
    """

    def __init__(self, pods: Pods, allowed: Mask, order: NDArray[np.intp], state: State, scale: Scale) -> None:
        self.counts = np.count_nonzero(allowed, axis=1)
        ranked = np.argsort(~allowed[:, order], axis=1, kind="stable")[:, : int(self.counts.max())]
        self._nodes = order[ranked]
        self._pods = np.arange(len(allowed))
        self._starts, self._earlier = self._pods * len(order), np.tri(len(allowed), k=-1, dtype=np.bool_)
        capacity = state.capacity[:, :WEIGHED].astype(np.float64)
        costs = scale.shares(pods.asked, capacity) * pods.asked[:, None, :]
        # What of S_N does not depend on the pods of the batch, and what it falls by for each unit that those take.
        load = _ratio(pods.asked[:, None, :] + state.busy, capacity)
        self._fixed = (1 + (scale.load * (scale.critical - load)).sum(axis=2)).ravel()
        slopes = _ratio(np.broadcast_to(scale.load, capacity.shape), capacity)
        # Resources come first in these: numpy is twice as fast along what is long.
        needs = pods.needs.T.astype(np.float64)
        self._resources, self._takes = len(needs), np.concatenate([needs, pods.asked.T])
        self._must = np.where(needs > 0, needs, -np.inf)[:, None, :]
        self._least = np.maximum(pods.asked.T, 1)[:, None, :]
        self._left = np.ascontiguousarray(state.left.T, dtype=np.float64)
        self._costs = np.ascontiguousarray(costs.reshape(-1, WEIGHED).T)
        self._slopes = np.ascontiguousarray(slopes.T)

    @property
    def enough(self) -> float:
        """The fitness of a plan in which all pods fit is above this, and that of any other below."""
        return MISFIT / 2 / len(self._pods)

    def nodes(self, positions: Floats) -> NDArray[np.intp]:
        """The node of each pod, for plans in rows."""
        return self._nodes[self._pods, np.minimum(positions.astype(np.intp), self.counts - 1)]  # type: ignore[no-any-return]

    def position(self, nodes: NDArray[np.intp]) -> Floats:
        """The coordinates that mean these nodes; of one that the pod may not go to, those of its first."""
        return (self._nodes == nodes[:, None]).argmax(axis=1) + 0.5  # type: ignore[no-any-return]

    def fitness(self, positions: Floats) -> Floats:
        """The mean over the pods of S_N, each with those before it in place, for plans in rows. One that does not fit
        counts for MISFIT, and still weighs on those after it.

        Those before a pod on the same node are found by comparing all with all, so that no pod of a plan waits for
        another, and it costs the same however many nodes there are.
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
    """How much of a whole an amount is; 0 of nothing."""
    return np.where(whole > 0, amount / np.where(whole > 0, whole, 1), 0.0)
