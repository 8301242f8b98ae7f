"""Victims: ranks which pods go first when the count falls, by their load, their node's fullness, their age and their
pool.

Knows the weights of these terms; knows nothing of why the count falls, or how far.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal

from elasticd.api import Meta, Observation, Pod, Policy, Rank, Room, Series, Strategy, field, hookimpl
from elasticd.kit import Memo, request_of, unheeded

Weight = Annotated[float, Meta(ge=0, le=1000, description="how much it counts beside the others; 0: not at all")]

_PACKED = ("cpu", "memory")


class Victims(Strategy, tag="victims", frozen=True):
    """Ranks pods by the weighted mean of four terms, each from 0 (stays) to 1 (goes first): rank = -sum(w t) / sum(w).

    load: 1 - use / request, with use cut at the request; for a series that not all pods request, 1 - use / largest use.
    node: the fraction of the node that pods request, of cpu or memory whichever is larger; with `node_series` the
    fraction that is used. With `nodes` "emptiest" it is 1 minus that. age: 1 - age / oldest age; with `ages` "oldest"
    age / oldest age. pool: 1 on nodes that have `labels`.

    A term that is not known of a pod counts 0, as for a busy pod, so that no pod goes for lack of data: a pod without a
    sample (all pods, where the series is not trusted), without a start time, or on a node that is not known. "fullest"
    makes every scale-in a step towards balance; "emptiest" empties nodes, so that they can be removed.

    Source: Koordinator, ScaleDownBinPack (deletion costs that empty nodes); the order of its LowNodeLoad.
    """

    looks_at_nodes: ClassVar[bool] = True

    load: Weight = 1.0
    node: Weight = 1.0
    age: Weight = 0.0
    pool: Weight = 0.0
    series: Annotated[str, Meta(min_length=1, description="what a pod's own load is")] = "cpu"
    nodes: Annotated[Literal["fullest", "emptiest"], Meta(description="of which nodes pods go first")] = "fullest"
    node_series: Annotated[
        tuple[Literal["cpu", "memory"], ...],
        Meta(description="take what of each node is used, by these series of nodes; none: what pods request of it"),
    ] = ()
    ages: Annotated[Literal["youngest", "oldest"], Meta(description="which pods go first")] = "youngest"
    labels: Annotated[dict[str, str], Meta(description="labels of the nodes whose pods go first")] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        if not self.load + self.node + self.age + self.pool:
            raise ValueError("load: must be > 0 unless node, age or pool is, is 0")
        if self.pool and not self.labels:
            raise ValueError("labels: must be given where pool > 0, is empty")
        if self.labels and not self.pool:
            raise ValueError("pool: must be > 0 where labels are given, is 0")
        if self.node_series and not self.node:
            raise ValueError("node: must be > 0 where node_series are given, is 0")

    def reads(self) -> tuple[str, ...]:
        return (self.series,) if self.load else ()

    def reads_of_nodes(self) -> tuple[str, ...]:
        return self.node_series if self.node else ()

    def check(self, policy: Policy) -> str | None:
        """Refuse kinds whose controllers ignore the deletion cost."""
        return unheeded(policy)

    @hookimpl
    def rank_pods(self, observation: Observation) -> Mapping[str, Rank]:
        """A rank from -1 (goes first) to 0 (stays) for each pod, with the terms that count."""
        pods = [pod for pod in observation.pods if pod.is_active]
        weights = {"load": self.load, "node": self.node, "age": self.age, "pool": self.pool}
        terms = {
            "load": self._load_terms(pods, observation.series.get(self.series)) if self.load else {},
            "node": self._node_terms(pods, observation) if self.node else {},
            "age": self._age_terms(pods, observation.at) if self.age else {},
            "pool": self._pool_terms(pods, observation.rooms or ()) if self.pool else {},
        }
        counted = {name: weight for name, weight in weights.items() if weight}
        return {pod.name: _rank({name: terms[name].get(pod.name) for name in counted}, counted) for pod in pods}

    def _load_terms(self, pods: Sequence[Pod], series: Series | None) -> dict[str, float]:
        """How little each measured pod uses, from 0 to 1."""
        if series is None or not series.trusted:
            return {}
        used: dict[str, float] = {}
        for sample in series.samples:
            used[sample.pod] = used.get(sample.pod, 0.0) + sample.value
        requests = {pod.name: request_of(pod, self.series) for pod in pods}
        relative = all(requests.values())
        largest = max(used.values(), default=0.0) or 1.0
        return {
            name: 1 - min(1.0, max(0.0, used[name] / (request if relative else largest)))
            for name, request in requests.items()
            if name in used
        }

    def _node_terms(self, pods: Sequence[Pod], observation: Observation) -> dict[str, float]:
        """How full, or empty, the node of each pod is, from 0 to 1."""
        rooms, terms = _by_name("", observation.rooms or ()), dict[str, float]()
        for pod in pods:
            part = self._fullness(rooms[pod.node], observation.nodes) if pod.node in rooms else None
            if part is not None:
                terms[pod.name] = part if self.nodes == "fullest" else 1 - part
        return terms

    def _fullness(self, room: Room, use: Mapping[str, Mapping[str, float]]) -> float | None:
        """The largest used fraction of the node's resources, from 0 to 1; None where it is known of none."""
        allocatable, name = room.node.allocatable, room.node.name
        if self.node_series:
            used = {
                str(resource): use[resource][name] for resource in self.node_series if name in use.get(resource, {})
            }
        else:
            used = {
                resource: allocatable[resource] - room.free.get(resource, 0.0)
                for resource in _PACKED
                if resource in allocatable
            }
        parts = [amount / allocatable[resource] for resource, amount in used.items() if allocatable.get(resource)]
        return min(1.0, max(0.0, *parts)) if parts else None

    def _age_terms(self, pods: Sequence[Pod], at: float) -> dict[str, float]:
        """How young, or old, each pod is relative to the oldest, from 0 to 1."""
        ages = {pod.name: max(0.0, at - pod.started) for pod in pods if pod.started is not None}
        oldest = max(ages.values(), default=0.0) or 1.0
        return {name: age / oldest if self.ages == "oldest" else 1 - age / oldest for name, age in ages.items()}

    def _pool_terms(self, pods: Sequence[Pod], rooms: tuple[Room, ...]) -> dict[str, float]:
        rooms_by_name, labels = _by_name("", rooms), self.labels.items()
        on = ((pod.name, rooms_by_name.get(pod.node)) for pod in pods)
        return {name: float(labels <= room.node.labels.items()) for name, room in on if room is not None}


def _rank(terms: Mapping[str, float | None], weights: Mapping[str, float]) -> Rank:
    total = sum(weight * (terms[name] or 0.0) for name, weight in weights.items())
    why = ", ".join(f"{name} unknown" if term is None else f"{name} {term:.2f}" for name, term in terms.items())
    return Rank(-total / sum(weights.values()), why)


_by_name: Memo[str, tuple[Room, ...], dict[str, Room]] = Memo(lambda _, rooms: {room.node.name: room for room in rooms})


@hookimpl
def register_strategies() -> list[type[Strategy]]:
    return [Victims]
