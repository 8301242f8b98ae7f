"""Simulated metrics: the samples of one update, computed when they are looked up.

Knows how demand is shared by the pods that serve it; knows nothing of what becomes of pods.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from hashlib import blake2b
from itertools import chain
from math import floor, inf, isnan, nan
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from elasticd.cluster.simulated.demand import Curve
from elasticd.cluster.simulated.options import MetricsOptions
from elasticd.cluster.simulated.pods import Bare, Parts, ServingPods, SimulatedWorkload
from elasticd.model.workload import BulkLookup, Readings, Sample, Samples, SumBounds, one_by_one

_WHOLE: Parts = (("", 1.0),)
_ITSELF: Parts = ()
"""Of a workload, which has no containers."""

_NOBODY = ServingPods()

_OF_CONTAINERS = ("cpu", "memory")
"""The series that have a sample of each container."""

_LESS, _MORE = 1.0 - 1e-9, 1.0 + 1e-9
"""What rounding can do to a sum, and far more."""

Loads = Mapping[str, Curve]
"""Curves by series."""


class _Times(NamedTuple):
    """When an update was measured and received, and over how many seconds."""

    measured: float
    received: float
    window: float


class Block(Struct, frozen=True, dict=True):
    """The samples of one workload's pods, or of the workload: the same number for each key, in the keys' order, and
    each pod's come to `value` but for their errors. They are made when they are asked for."""

    pods: ServingPods = _NOBODY
    value: float = 0.0
    series: str = ""
    parts: Parts = _WHOLE
    moment: "_Moment | None" = None

    @property
    def total(self) -> float:
        """The sum of the samples."""
        return sum(self._values)

    @cached_property
    def _values(self) -> list[float]:
        _, shares, texts = _parts_of(self.series, self.pods, self.parts)
        if self.moment is None or not self.moment.noise:
            return [self.value * share for share in shares]
        errors = self.moment.errors(texts)
        return [self.value * share * error for share, error in zip(shares, errors, strict=True)]

    @cached_property
    def samples(self) -> Samples:
        if self.moment is None:
            return ()
        measured, received, window = self.moment.times
        pairs = zip(self._values, _parts_of(self.series, self.pods, self.parts)[0], strict=True)
        return tuple([Sample(value, measured, received, window, pod, container) for value, (pod, container) in pairs])

    @cached_property
    def by_key(self) -> dict[str, Samples]:
        keys = self.pods.keys
        each = len(self.samples) // len(keys) if keys else 0
        return {key: self.samples[number * each : (number + 1) * each] for number, key in enumerate(keys)}


_NONE = Block()


class _Groups(NamedTuple):
    """The workloads of which as many pods serve and use the same, but for errors: by the keys of their pods the number
    of their group, and an example of each group."""

    places: Mapping[tuple[str, ...], int] = {}
    examples: Sequence[tuple[SimulatedWorkload, ServingPods]] = ()


class LazySamples(BulkLookup, Mapping[str, Samples]):
    """A series: samples by key. Counting or iterating computes all of them.

    `owner` says which workload a key belongs to, `make` makes a workload's block; `everyone` has a key of each.
    `bound` says what is known of the sums of pods.
    """

    def __init__(
        self,
        owner: Callable[[str], str],
        make: Callable[[str], Block],
        everyone: Iterable[str],
        bound: Callable[[], SumBounds | None] = lambda: None,
    ) -> None:
        self.blocks: dict[str, Block] = {}
        """Those that were looked at, by workload."""
        self._owner, self._make, self._bound = owner, make, bound
        self._everyone = everyone
        self._bounds: SumBounds | None = None

    def together(self, keys: tuple[str, ...]) -> Samples:
        """The samples of these keys. Nearly always they are all those of one workload, in its own order."""
        block = self._block_of(keys[0]) if keys else _NONE
        return block.samples if block.pods.keys == keys else one_by_one(self, keys)

    def bounds(self) -> SumBounds | None:
        if self._bounds is None:
            self._bounds = self._bound()
        return self._bounds

    def sum(self, keys: tuple[str, ...]) -> float:
        block = self._block_of(keys[0])
        return block.total if block.pods.keys == keys else super().sum(keys)

    def get(self, key: str, default: Any = None) -> Any:
        """The samples of a key. Mapping's own would raise and catch an error for each pod without any."""
        return self._block_of(key).by_key.get(key, default)

    def __getitem__(self, key: str) -> Samples:
        return self._block_of(key).by_key[key]

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._block_of(key).pods.keys for key in self._everyone)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _block_of(self, key: str) -> Block:
        owner = self._owner(key)
        block = self.blocks.get(owner)
        if block is None:
            block = self.blocks[owner] = self._make(owner)
        return block


class _Moment:
    """What was used when a renewal was measured: `t` is that in seconds since the start. It knows no series that has
    it: a circle of references would keep all of them until Python's collector comes by."""

    def __init__(self, usage: "SimulatedUsage", number: int, t: float, measured: float, received: float) -> None:
        self.number, self.t, self.measured = number, t, measured
        self.noise, self.times = usage.metrics.noise, _Times(measured, received, usage.metrics.window)
        self._usage, self._begin = usage, f"{usage.seed}/{number}/".encode()

    def sample(self, value: float) -> Samples:
        """A sample of no pod. NaN is none."""
        return () if isnan(value) else (Sample(value, *self.times),)

    def of_pods(self, series: str, key: str) -> Block:
        """A block of an equal value for each pod, split over its containers; none for NaN."""
        workload = self._usage.workloads.get(key)
        pods = _NOBODY if workload is None else workload.serving_at(self.measured)
        if workload is None or not pods.keys:
            return _NONE
        value, parts = self._value(series, workload, pods), workload.parts if series in _OF_CONTAINERS else _WHOLE
        return _NONE if isnan(value) else Block(pods, value, series, parts, self)

    def bounds_of_pods(self, series: str) -> SumBounds:
        """Between which values the sum of each workload's samples is, but for sums that may be below 0."""
        groups = self._usage.groups_at(self.measured)
        ends = [self._bounds_of(series, workload, pods) for workload, pods in groups.examples]
        return SumBounds(self.measured, groups.places, ends)

    def _bounds_of(self, series: str, workload: SimulatedWorkload, pods: ServingPods) -> tuple[float, float] | None:
        if not pods.keys or not 0.0 <= (value := self._value(series, workload, pods)) < inf:
            return None
        whole = value * len(pods.keys)
        return whole * ((1.0 - self.noise) * _LESS), whole * ((1.0 + self.noise) * _MORE)

    def _value(self, series: str, workload: SimulatedWorkload, pods: ServingPods) -> float:
        """What one of these pods uses, but for errors; NaN: it is not known."""
        if series == "memory":
            return workload.memory
        if series == "cpu":
            # A NaN that comes first is what max and min give back.
            return min(max(workload.cpu(self.t), 0.0) / len(pods.keys), workload.most_cpu)
        return self._series_value(workload, series, "pod") / len(pods.keys)

    def of_workload(self, series: str, key: str) -> Block:
        workload = self._usage.workloads.get(key)
        value = nan if workload is None else self._series_value(workload, series, "workload")
        return _NONE if isnan(value) else Block(ServingPods((key,), ("",)), value, series, _ITSELF, self)

    def _series_value(self, workload: SimulatedWorkload, series: str, per: str) -> float:
        """The value of a further series of a workload now; NaN: it has no such series."""
        curves = [curve for table, curve in workload.series if (table.name, table.per) == (series, per)]
        return curves[-1](self.t) if curves else nan

    def errors(self, texts: Iterable[bytes]) -> list[float]:
        """A factor between 1 - noise and 1 + noise for each text. A hash: it does not depend on who looked before."""
        noise, begin, number = self.noise, self._begin, int.from_bytes
        return [1.0 + noise * (number(blake2b(begin + text, digest_size=7).digest()) / 2**55 - 1.0) for text in texts]


@lru_cache(maxsize=1 << 14)
def _parts_of(
    series: str, pods: ServingPods, parts: Parts
) -> tuple[tuple[tuple[str, str], ...], tuple[float, ...], tuple[bytes, ...]]:
    """Of each container of each pod its pod and its name, its part, and what its error is computed from. Each renewal
    needs that of every pod again."""
    if parts is _ITSELF:
        return (("", ""),), (1.0,), tuple(repr((series, key)).encode() for key in pods.keys)
    each = [(key, name, *of) for key, name in zip(pods.keys, pods.names, strict=True) for of in parts]
    texts = tuple(repr((series, key, container)).encode() for key, _, container, _ in each)
    whose = tuple((name, container) for _, name, container, _ in each)
    return whose, tuple(part for *_, part in each), texts


class SimulatedUsage:
    """The metrics of all workloads over time. The samples of one update are the same until the next."""

    def __init__(
        self,
        metrics: MetricsOptions,
        seed: int,
        start: float,
        workloads: Iterable[SimulatedWorkload],
        loads: Mapping[str, Loads] | None = None,
    ) -> None:
        """`loads`: of each node, what is used on it beside pods, and its further series."""
        self.metrics, self.seed = metrics, seed
        self._start, self._loads = start, loads or {}
        self.workloads = {str(workload.ref): workload for workload in workloads}
        self._serving: list[ServingPods] = []
        """Of each workload, when the groups were last found."""
        self._groups = _Groups()
        self.leads = {
            f"{w.ref.namespace}/{w.ref.name}{'' if isinstance(w, Bare) and w.replicas == 1 else '-'}": key
            for key, w in self.workloads.items()
        }
        """By how the keys of its pods begin, each workload's key; a bare pod that is alone is its own."""
        tables = [table for workload in self.workloads.values() for table, _ in workload.series]
        self.pod_series = ("cpu", "memory", *dict.fromkeys(t.name for t in tables if t.per == "pod"))
        self.workload_series = tuple(dict.fromkeys(t.name for t in tables if t.per == "workload"))
        self._renewal: tuple[_Moment, Readings] | None = None
        self.owner_of = lru_cache(1 << 14)(self._owner_of)

    def _owner_of(self, pod: str) -> str:
        """The key of the workload of a pod, which is named after it, as web-000001 or web-0; empty if it has none."""
        return self.leads.get(f"{pod.rpartition('-')[0]}-") or self.leads.get(pod, "")

    def groups_at(self, at: float) -> _Groups:
        """The workloads by what their pods use. Those of one table use the same, if as many serve."""
        serving = [workload.serving_at(at) for workload in self.workloads.values()]
        if serving != self._serving:
            numbers: dict[tuple[int, int], int] = {}
            places: dict[tuple[str, ...], int] = {}
            examples: list[tuple[SimulatedWorkload, ServingPods]] = []
            for workload, pods in zip(self.workloads.values(), serving, strict=True):
                number = numbers.setdefault((id(workload.table), len(pods.keys)), len(examples))
                if number == len(examples):
                    examples.append((workload, pods))
                places[pods.keys] = number
            self._serving, self._groups = serving, _Groups(places, examples)
        return self._groups

    def read(self, now: float) -> Readings:
        """The samples at a time. Each sample's `received` is when its update was first read."""
        return replace(self._renew(now)[1], received=now)

    def read_nodes(self, now: float, nodes: Iterable[str], placed: Mapping[str, Sequence[str]]) -> Readings:
        """The usage of these nodes, and their further series; `placed`: the keys of the pods on each. A pod without
        samples adds nothing to its node, as it has not run there yet."""
        moment, of_pods = self._renew(now)
        usage = dict[str, dict[str, Samples]](cpu={}, memory={})
        for node in nodes:
            used = {series: curve(moment.t) for series, curve in self._loads.get(node, {}).items()}
            for series in ("cpu", "memory"):
                pods = (sample for key in placed.get(node, ()) for sample in of_pods.pods[series].get(key, ()))
                used[series] = used.get(series, 0.0) + sum(sample.value for sample in pods)
            for series, value in used.items():
                subjects = usage.setdefault(series, {})
                if samples := moment.sample(value):
                    subjects[node] = samples
        return Readings("resource-metrics", now, nodes=usage, newest=moment.measured)

    def _renew(self, now: float) -> tuple[_Moment, Readings]:
        number = floor((now - self._start) / self.metrics.resolution)
        if self._renewal is None or self._renewal[0].number != number:
            t = number * self.metrics.resolution
            # A sum may round up, and no sample is from the future.
            moment = _Moment(self, number, t, min(self._start + t, now), now)
            # Pods that serve use memory, so their time is known without computing all samples.
            served = any(workload.serving_at(moment.measured).keys for workload in self.workloads.values())
            of_pods, of_workload, owner_of = moment.of_pods, moment.of_workload, self.owner_of
            pods = {
                name: LazySamples(owner_of, partial(of_pods, name), self.leads, partial(moment.bounds_of_pods, name))
                for name in self.pod_series
            }
            workloads = {
                name: LazySamples(str, partial(of_workload, name), self.workloads) for name in self.workload_series
            }
            newest = moment.measured if served else None
            self._renewal = moment, Readings("resource-metrics", now, pods, workloads, newest=newest)
        return self._renewal
