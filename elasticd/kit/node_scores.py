"""What strategies that score nodes have in common: options, and where the numbers come from.

Pure. Knows which requests, series and labels make which number; knows nothing of what a strategy does with it.
"""

from collections.abc import Callable
from math import isfinite, nan
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta, Struct

from elasticd.base.memo import Memo
from elasticd.kit.load_score import LEAST_USE, average, beside, load_score, swiftness
from elasticd.kit.node_table import estimated, weighed
from elasticd.model.placement import Column, Mask, Nodes, Whole
from elasticd.model.policy import PoolStrategy
from elasticd.model.workload import Node, Pod

Part = Annotated[float, Meta(ge=0, le=1, description="part of the score; the four add up to 1")]
Speed = Annotated[str, Meta(min_length=1, description="name of a series of nodes: a speed, not a load")]
Label = Annotated[
    str, Meta(description="label of nodes that says how large they are beside each other; none: what they can allocate")
]
Weight = Annotated[float, Meta(gt=0, le=1000, description="how much it counts beside other strategies' scores")]


class PartScored(PoolStrategy, frozen=True, kw_only=True):
    """Options of a score by the parts of nodes that are taken."""

    resources: Annotated[
        tuple[Annotated[str, Meta(min_length=1)], ...],
        Meta(min_length=1, description="names of resources; with `of` use, also of series of nodes"),
    ] = ("cpu", "memory")
    of: Annotated[Literal["requests", "use"], Meta(description="what is taken: what pods request, or really use")] = (
        "requests"
    )
    weight: Weight = 1.0

    def __post_init__(self) -> None:
        if len({*self.resources}) < len(self.resources):
            raise ValueError(f"resources: must name each once, is {', '.join(self.resources)}")

    def reads(self) -> tuple[str, ...]:
        return ()

    def reads_of_nodes(self) -> tuple[str, ...]:
        return self.resources if self.of == "use" else ()

    def parts(self, nodes: Nodes, pod: Pod) -> list[Column]:
        """Of each resource, which part of each node is taken with the pod there: N / S of equations (1) and (2) of
        TBESK, and above 1 where there is too little. 1 where a node has none of it, NaN where its use is not known.

        Pods that request no cpu, or no memory, count as kube-scheduler has them: 100m, 200 MiB.
        """
        return [self._part(nodes, pod, resource) for resource in self.resources]

    def _part(self, nodes: Nodes, pod: Pod, resource: str) -> Column:
        size = _size(resource, nodes.allocatable(resource))
        if self.of == "use":
            parts: Column = (nodes.use(resource) + estimated(pod, resource)) / size.capacity
        else:
            parts = (nodes.weighed(resource) + weighed(pod, resource)) / size.whole
        return np.where(size.none, 1.0, parts) if size.any_none else parts


Seen = Callable[[str], Column]
"""What each node uses of a series."""


class Loaded(PoolStrategy, frozen=True, kw_only=True):
    """Options of a load: four factors, `cpu`, `memory`, `image` and `data`, which add up to 1.

    cpu and memory are loads: the part of what a node can allocate that it uses, by the series of those names, the less
    the better. image and data are speeds, in bytes/s while a node fetches images or moves data, the more the better. A
    series of the traffic there is, such as network_receive of the source node-rates, is none: it would favour the
    busiest node.

    In the pool's mean a node counts by what it can allocate, or by the number in a label of it (`cpu_label`,
    `memory_label`); one without such a number counts for nothing there.
    """

    cpu: Part = 0.5
    memory: Part = 0.5
    image: Part = 0.0
    data: Part = 0.0
    image_series: Speed = "image_pull_rate"
    data_series: Speed = "data_rate"
    cpu_label: Label = ""
    memory_label: Label = ""
    mode: Annotated[
        Literal["product", "paper"], Meta(description="paper: by what was measured last, whatever was placed since")
    ] = "product"

    def __post_init__(self) -> None:
        total = self.cpu + self.memory + self.image + self.data
        if abs(total - 1) > 1e-6:
            raise ValueError(f"cpu: must add up to 1 with memory, image and data, is {self.cpu:g} of {total:g}")

    def reads(self) -> tuple[str, ...]:
        return ()

    def reads_of_nodes(self) -> tuple[str, ...]:
        parts = (self.cpu, self.memory, self.image, self.data)
        series = ("cpu", "memory", self.image_series, self.data_series)
        return tuple(name for name, part in zip(series, parts, strict=True) if part)

    def load(
        self, nodes: Nodes, pod: Pod | None = None, seen: Seen | None = None, mean_of: Seen | None = None
    ) -> Column:
        """Each node's score: see load_score. With a pod each node's own use is what it would be with it there, beside
        the pool's mean as it is; with `seen` nodes use what that says, and with `mean_of` the mean is taken of that.
        NaN: not known."""
        look = seen or self.seen(nodes)
        speeds = ((self.image, self.image_series), (self.data, self.data_series))
        return load_score(
            [(part, self._idleness(nodes, pod, resource, seen, mean_of)) for resource, part in self.loads().items()],
            [(part, swiftness(look(series))) for part, series in speeds if part],
        )

    def seen(self, nodes: Nodes) -> Seen:
        """What nodes use, as the mode has it."""
        return nodes.measured if self.mode == "paper" else nodes.use

    def loads(self) -> dict[str, float]:
        """The resources that count, and their parts."""
        return {resource: part for resource, part in (("cpu", self.cpu), ("memory", self.memory)) if part}

    def mean(self, nodes: Nodes, resource: str, seen: Seen | None = None) -> float:
        """The pool's mean use of a resource, as a part: equations (5-8) and (5-9). NaN: nothing is known."""
        size = _size(resource, nodes.allocatable(resource))
        own = _own(size, (seen or self.seen(nodes))(resource))
        label = {"cpu": self.cpu_label, "memory": self.memory_label}.get(resource, "")
        return average(own, _coefficients(label, nodes.nodes)) if label else _mean(size, own)

    def _idleness(
        self, nodes: Nodes, pod: Pod | None, resource: str, seen: Seen | None, mean_of: Seen | None
    ) -> Column:
        size, use = _size(resource, nodes.allocatable(resource)), (seen or self.seen(nodes))(resource)
        if pod is None:
            expected = _own(size, use)
        else:
            expected = _part(size, use) + _share((resource, estimated(pod, resource)), size.capacity)
            np.maximum(expected, LEAST_USE, out=expected)
        return beside(self.mean(nodes, resource, mean_of or seen), expected)


class LoadScored(Loaded, frozen=True, kw_only=True):
    """Options of a score by load."""

    weight: Weight = 1.0


class _Size(Struct, frozen=True, eq=False):
    """What each node can allocate, in whole amounts and in the unit of the series. NaN: nothing (`none`)."""

    whole: Column
    capacity: Column
    none: Mask
    any_none: bool


def _size_of(resource: str, allocatable: Whole) -> _Size:
    none = allocatable <= 0
    amounts = np.where(none, nan, allocatable)
    return _Size(amounts, amounts / 1000 if resource == "cpu" else amounts, none, bool(none.any()))


_size = Memo(_size_of)
"""Memoized: nodes stay as they are from pod to pod."""


def capacity(nodes: Nodes, resource: str) -> Column:
    """What each node can allocate of a resource, in the unit of its series. NaN where that is nothing."""
    return _size(resource, nodes.allocatable(resource)).capacity


_part: Memo[_Size, Column, Column] = Memo(lambda size, use: use / size.capacity, most=16)
_own: Memo[_Size, Column, Column] = Memo(lambda size, use: np.maximum(_part(size, use), LEAST_USE), most=16)
_mean: Memo[_Size, Column, float] = Memo(lambda size, own: average(own, size.capacity), most=16)
"""Memoized: one strategy after the other asks for these of nodes as they are."""

_share: Memo[tuple[str, float], Column, Column] = Memo(lambda amount, size: amount[1] / size, most=64)
"""The part of each node that an amount is. Memoized, as many pods request the same."""


def _numbers(label: str, nodes: tuple[Node, ...]) -> Column:
    return np.array([_number(node.labels.get(label, "")) for node in nodes], dtype=np.float64)


def _number(text: str) -> float:
    """The number that a label holds; NaN where it holds none above 0."""
    try:
        number = float(text)
    except ValueError:
        return nan
    return number if isfinite(number) and number > 0 else nan


_coefficients = Memo(_numbers)
