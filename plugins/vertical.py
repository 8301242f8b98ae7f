"""Vertical: sets the requests of containers from what they have used.

Knows statistics of use, margins and bounds, and which pod is changed next; knows nothing of where statistics come from
(the source usage-histogram) nor of how a pod is changed.
"""

from collections.abc import Mapping
from math import ceil
from typing import Annotated, ClassVar, Literal, NamedTuple

from elasticd.api import (
    Container,
    Meta,
    Observation,
    Past,
    Pod,
    Resources,
    Sample,
    Series,
    Strategy,
    Struct,
    field,
    hookimpl,
)
from elasticd.kit import milli, parse_quantity, unfit

Statistic = Annotated[
    Literal["mean", "p50", "p60", "p90", "p95", "p98", "p99", "max", "intermediate"],
    Meta(description="of what was used; intermediate: the larger of p60 and half of max"),
]
Margin = Annotated[float, Meta(ge=0, le=10, description="part that is added to the statistic")]
Quantity = str | int | float
Least = Annotated[Quantity, Meta(description="of a pod, in equal parts for its containers")]
Resource = Literal["cpu", "memory"]

MEBIBYTE = 2**20
Sizes = dict[str, dict[str, float]]


def _amount(key: str, quantity: Quantity) -> float:
    try:
        value = parse_quantity(quantity) if isinstance(quantity, str) else float(quantity)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None
    if not 0 <= value < float("inf"):
        raise ValueError(f"{key}: must be finite and >= 0, is {quantity}")
    return value


class Rule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a request is computed from use."""

    statistic: Statistic = "p95"
    margin: Margin = 0.15
    least: Least = field(name="min", default=0)
    most: Annotated[Quantity | None, Meta(description="of a container; never more is recommended")] = field(
        name="max", default=None
    )

    def __post_init__(self) -> None:
        least = _amount("min", self.least)
        if self.most is not None and _amount("max", self.most) < least:
            raise ValueError(f"min: must be <= max = {self.most}, is {self.least}")

    def bounded(self, value: float, containers: int) -> float:
        """The value with the margin, cut to the bounds, in a pod of so many containers."""
        return min(max(value * (1 + self.margin), _amount("min", self.least) / containers), self.highest())

    def highest(self) -> float:
        return float("inf") if self.most is None else _amount("max", self.most)


class CpuRule(Rule, frozen=True, kw_only=True):
    """How a request of cores is computed from use."""

    least: Least = field(name="min", default="25m")


class MemoryRule(Rule, frozen=True, kw_only=True):
    """How a request of bytes is computed from use."""

    statistic: Statistic = "p98"
    least: Least = field(name="min", default="250M")


class _Aim(NamedTuple):
    """The recommended request of a container for one resource, and VPA's confidence bounds where these are used."""

    value: float
    lower: float | None = None
    upper: float | None = None


Aims = dict[str, dict[str, _Aim]]
"""By container, then resource."""

_Uses = dict[str, dict[str, list[Sample]]]
"""By pod, then resource."""


class Vertical(Strategy, tag="vertical", frozen=True, kw_only=True):
    """Computes the requests of a workload's containers from decayed histograms of their use, and changes running pods.

    A request becomes statistic x (1 + margin), between `min` and `max`. In `mode` apply, pods whose requests are off by
    `smallest_change` are resized in place, those that request too little first, `at_once` at a time. No request goes
    below the pod's present use, nor down at all where that is not known; none goes above the container's limit or what
    its node has left, none is added where there was none, and the pod keeps its quality of service. A use of more than
    the node has is not known. It does not change the count: beside an HPA on the use of cpu or memory, whose measure
    is the request, let it recommend only.

    Source: Rzadca et al., Autopilot, EuroSys 2020, section 3.2 (statistics by use, margin of 10 to 15 %). Autopilot's
    highest recommendation of the last hour is left out; smallest_change and cooldown take its place. Kubernetes'
    Vertical Pod Autoscaler (minima of 25m and 250 MB a pod, bounds of confidence); Crane's percentile recommends p99
    without a margin.
    """

    cpu: Annotated[CpuRule, Meta(description="p95 and 15 % by default")] = CpuRule()
    memory: Annotated[MemoryRule, Meta(description="p98 and 15 % by default")] = MemoryRule()
    resources: Annotated[tuple[Resource, ...], Meta(min_length=1, description="those that it is about")] = (
        "cpu",
        "memory",
    )
    containers: Annotated[tuple[str, ...], Meta(description="those that it is about; none: all")] = ()
    mode: Annotated[Literal["apply", "recommend"], Meta(description="change running pods, or only say so")] = "apply"
    smallest_change: Annotated[float, Meta(ge=0, le=1, description="part of a request that is worth a change")] = 0.1
    confident: Annotated[bool, Meta(description="leave requests between the bounds of confidence, as VPA does")] = False
    cooldown: Annotated[float, Meta(ge=0, le=3600, description="seconds between two changes of one pod")] = 600.0
    at_once: Annotated[int, Meta(ge=1, le=100, description="pods changed by one decision")] = 1

    looks_at_nodes: ClassVar[bool] = True

    def reads(self) -> tuple[str, ...]:
        bounds = ("lower", "upper") if self.confident else ()
        statistics = [f"{name}_{part}" for name in self.resources for part in (self._rule(name).statistic, *bounds)]
        return (*self.resources, *statistics)

    def _rule(self, resource: str) -> Rule:
        return self.cpu if resource == "cpu" else self.memory

    @hookimpl
    def recommend_resources(self, observation: Observation, past: Past) -> list[Resources] | None:
        """The recommended requests of each container; and in mode apply the pods that are changed now."""
        pods = [pod for pod in observation.pods if pod.phase == "Running" and not pod.deleted]
        if not pods:
            return None
        kinds = {container.name: container for pod in pods for container in pod.containers}
        names = [name for name in sorted(kinds) if not self.containers or name in self.containers]
        aims: Aims = {name: {} for name in names}
        for resource in self.resources:
            for name in names:
                aim = self._aim(observation.series, resource, name, len(kinds))
                if aim is not None:
                    aims[name][resource] = aim
        uses, impossible = self._uses(pods, observation)
        general = [self._general(kinds[name], aims[name], observation.series, impossible) for name in names]
        if self.mode == "recommend":
            return general
        return general + self._changes(pods, aims, uses, observation, past)

    def _uses(self, pods: list[Pod], observation: Observation) -> tuple[_Uses, list[str]]:
        """What pods use now, without samples that are more than the pod's node has, and a line for each of those. Of a
        pod of which such a sample is not about one container nothing is known."""
        nodes = {room.node.name: room.node for room in observation.rooms or ()}
        uses, impossible = _Uses(), list[str]()
        for resource in self.resources:
            by_pod = _by_pod(observation.series.get(resource))
            for pod in pods:
                node, samples = nodes.get(pod.node), by_pod.get(pod.name, [])
                good = [sample for sample in samples if node is None or node.can_serve(resource, sample.value)]
                if node is not None and len(good) < len(samples):
                    worst = max(sample.value for sample in samples)
                    good = good if all(sample.container for sample in samples) else []
                    impossible.append(f"{resource} of {pod.name} is unknown: {worst:g} is more than {node.name} has")
                uses.setdefault(pod.name, {})[resource] = good
        return uses, impossible

    def _aim(self, series: Mapping[str, Series], resource: str, container: str, containers: int) -> _Aim | None:
        rule = self._rule(resource)
        value = _value_of(series.get(f"{resource}_{rule.statistic}"), container)
        if value is None:
            return None
        aim = _round_up(resource, rule.bounded(value, containers))
        if not self.confident:
            return _Aim(aim)
        lower, upper = (_value_of(series.get(f"{resource}_{side}"), container) for side in ("lower", "upper"))
        if lower is None or upper is None:
            return None
        return _Aim(aim, rule.bounded(lower, containers), rule.bounded(upper, containers))

    def _general(
        self, container: Container, aims: Mapping[str, _Aim], series: Mapping[str, Series], impossible: list[str]
    ) -> Resources:
        present = {name: value for name, value in container.requests.items() if name in set[str](self.resources)}
        lacking = [name for name in self.resources if name not in aims]
        parts = [f"{name} {self._rule(name).statistic} + {self._rule(name).margin:.0%}" for name in aims]
        parts += [f"{name} is not known: {self._why(name, series)}" for name in lacking]
        only_recommended = [name for name in aims if name in container.restarting]
        parts += [f"{name} is only recommended: its change restarts it (resizePolicy)" for name in only_recommended]
        parts += [*impossible[:1], *([f"so is that of {len(impossible) - 1} more"] if len(impossible) > 1 else [])]
        requests = {name: aim.value for name, aim in aims.items()}
        reason = "UsageHistogram" if requests else "NotKnown"
        return Resources(container.name, requests, present, reason=reason, message="; ".join(parts))

    def _why(self, resource: str, series: Mapping[str, Series]) -> str:
        statistics = series.get(f"{resource}_{self._rule(resource).statistic}")
        if statistics is None or statistics.trusted:
            return "no sample"
        return statistics.message or statistics.quality.value

    def _changes(
        self, pods: list[Pod], aims: Aims, uses: _Uses, observation: Observation, past: Past
    ) -> list[Resources]:
        """The pods that are changed now: those that request too little first, then by name. What one gets of the room
        of its node, the next has not."""
        free = {room.node.name: room.free for room in observation.rooms or ()}
        candidates: list[tuple[bool, str, Pod]] = []
        for pod in pods:
            if observation.at - past.resizes.get(pod.uid, float("-inf")) < self.cooldown or pod.resize == "InProgress":
                continue
            sizes = self._sizes_of_pod(pod, aims, uses, dict(free.get(pod.node, {})))
            if sizes and not unfit(pod, sizes):
                candidates.append((not _rises(pod, sizes), pod.name, pod))
        chosen = sorted(candidates, key=lambda candidate: candidate[:2])[: self.at_once]
        left = {pod.node: dict(free.get(pod.node, {})) for _, _, pod in chosen}
        return [
            Resources(container, requests, {}, name, "TooLittle" if not falls else "TooMuch")
            for falls, name, pod in chosen
            for container, requests in self._sizes_of_pod(pod, aims, uses, left[pod.node]).items()
        ]

    def _sizes_of_pod(self, pod: Pod, aims: Aims, uses: _Uses, left: dict[str, float]) -> Sizes:
        """The new requests of a pod, by container. `left`: what its node has left, of which they are taken."""
        sizes: Sizes = {}
        for container in pod.containers:
            if size := self._sizes(container, aims, uses[pod.name], left):
                sizes[container.name] = size
                for resource in left.keys() & size.keys():
                    left[resource] -= max(0.0, size[resource] - container.requests[resource])
        return sizes

    def _sizes(
        self, container: Container, aims: Aims, uses: Mapping[str, list[Sample]], free: Mapping[str, float]
    ) -> dict[str, float]:
        """The new requests of a pod's container, for each resource that differs enough. `uses` and `free`: what the pod
        uses and its node has left, by resource, as far as known."""
        sizes = {}
        for resource, aim in aims.get(container.name, {}).items():
            present = container.requests.get(resource)
            if resource in container.restarting:
                continue
            if present is None or (aim.lower is not None and aim.lower <= present <= (aim.upper or aim.lower)):
                continue
            used = _used(uses.get(resource, []), container.name)
            value = max(aim.value, present if used is None else _round_up(resource, used))
            room = present + max(0.0, free.get(resource, float("inf")))
            value = min(value, room, self._rule(resource).highest(), container.limits.get(resource, float("inf")))
            if used is not None and value < used:
                value = max(value, present)  # bounds may keep a request below use, but must not lower it further
            if value != present and abs(value - present) >= self.smallest_change * present:
                sizes[resource] = value
        return sizes


def _value_of(series: Series | None, container: str) -> float | None:
    if series is None or not series.trusted:
        return None
    return next((sample.value for sample in series.samples if sample.container == container), None)


def _by_pod(series: Series | None) -> dict[str, list[Sample]]:
    samples_by_pod: dict[str, list[Sample]] = {}
    for sample in series.samples if series is not None and series.trusted else ():
        samples_by_pod.setdefault(sample.pod, []).append(sample)
    return samples_by_pod


def _used(samples: list[Sample], container: str) -> float | None:
    """A container's present use. A sample of the whole pod is an upper bound for a single container."""
    for sample in samples:
        if sample.container == container or (not sample.container and len(samples) == 1):
            return sample.value
    return None


def _rises(pod: Pod, sizes: Sizes) -> bool:
    return any(
        value > container.requests[name]
        for container in pod.containers
        for name, value in sizes.get(container.name, {}).items()
    )


def _round_up(resource: str, value: float) -> float:
    """The value rounded up to thousandths of a core, or to mebibytes, as users of Kubernetes expect."""
    return milli(value) / 1000 if resource == "cpu" else float(ceil(value / MEBIBYTE) * MEBIBYTE)


@hookimpl
def register_strategies() -> list[type[Strategy]]:
    return [Vertical]
