"""Simulated metrics: the samples of one update, computed when they are looked up.

Knows how demand is shared by the pods that serve it; knows nothing of what becomes of pods.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from math import floor, isnan, nan
from typing import NamedTuple, TypeVar, overload

from elasticd.cluster.simulated.demand import Curve
from elasticd.cluster.simulated.options import MetricsOptions
from elasticd.cluster.simulated.pods import Bare, Parts, ServingPods, SimulatedWorkload
from elasticd.model.bulk_lookup import BulkLookup, Samples, one_by_one
from elasticd.model.workload import Readings, Sample

_T = TypeVar("_T")

_WHOLE: Parts = (("", 1.0),)

Loads = Mapping[str, Curve]
"""Curves by series."""


class Block(NamedTuple):
    """The samples of one workload's pods, or of the workload: the same number for each key, in the keys' order."""

    keys: tuple[str, ...] = ()
    samples: Samples = ()

    def by_key(self) -> Iterator[tuple[str, Samples]]:
        each = len(self.samples) // len(self.keys) if self.keys else 0
        for number, key in enumerate(self.keys):
            yield key, self.samples[number * each : (number + 1) * each]


class LazySamples(BulkLookup, Mapping[str, Samples]):
    """A series: samples by key. Counting or iterating computes all of them.

    `owner` says which workload a key belongs to, `make` makes a workload's block; `everyone` has a key of each.
    """

    def __init__(self, owner: Callable[[str], str], make: Callable[[str], Block], everyone: Iterable[str]) -> None:
        self.blocks: dict[str, Block] = {}
        """Those that were looked at, by workload."""
        self._by_key: dict[str, Samples] = {}
        self._spread: set[str] = set()
        self._owner, self._make = owner, make
        self._everyone = everyone

    def together(self, keys: tuple[str, ...]) -> Samples:
        """The samples of these keys. Nearly always they are all those of one workload, in its own order."""
        block = self._block(self._owner(keys[0])) if keys else Block()
        return block.samples if block.keys == keys else one_by_one(self, keys)

    def __getitem__(self, key: str) -> Samples:
        if key not in self._by_key:
            self._look_up(key)
        return self._by_key[key]

    @overload
    def get(self, key: str, default: None = None, /) -> Samples | None: ...
    @overload
    def get(self, key: str, default: Samples | _T, /) -> Samples | _T: ...
    def get(self, key: str, default: Samples | _T | None = None, /) -> Samples | _T | None:
        """The samples of a key, or the default. Mapping's own goes through an exception; pods are many."""
        if key not in self._by_key:
            self._look_up(key)
        return self._by_key.get(key, default)

    def __iter__(self) -> Iterator[str]:
        self._complete()
        return iter(self._by_key)

    def __len__(self) -> int:
        self._complete()
        return len(self._by_key)

    def _complete(self) -> None:
        for key in self._everyone:
            self._look_up(key)

    def _look_up(self, key: str) -> None:
        """Compute the samples of all pods of the workload that owns this key, unless they are there already."""
        owner = self._owner(key)
        if owner not in self._spread:
            self._spread.add(owner)
            self._by_key.update(self._block(owner).by_key())

    def _block(self, owner: str) -> Block:
        block = self.blocks.get(owner)
        if block is None:
            block = self.blocks[owner] = self._make(owner)
        return block


class UsageSnapshot:
    """The samples of one update, by series. `newest`: when they were measured, where it is sure that there are any."""

    def __init__(self, usage: "SimulatedUsage", moment: "_Moment") -> None:
        self.moment = moment
        # Pods that serve use memory, so their time is known without computing all samples.
        served = any(workload.serving_at(moment.measured).keys for workload in usage.workloads.values())
        self.newest = moment.measured if served else None
        self.pods = {
            name: LazySamples(usage.owner_of, partial(moment.of_pods, name), usage.leads) for name in usage.pod_series
        }
        self.workloads = {
            name: LazySamples(str, partial(moment.of_workload, name), usage.workloads) for name in usage.workload_series
        }


class _Moment:
    """What was used when a renewal was measured: `t` is that in seconds since the start. It knows no series that has
    it: a circle of references would keep all of them until Python's collector comes by."""

    def __init__(self, usage: "SimulatedUsage", number: int, t: float, measured: float, received: float) -> None:
        self.number, self.t, self.measured = number, t, measured
        self._usage, self._received = usage, received

    def sample(self, value: float) -> Samples:
        """A sample of no pod. NaN is none."""
        window = self._usage.metrics.window
        return () if isnan(value) else (Sample(value, self.measured, self._received, window),)

    def of_pods(self, series: str, key: str) -> Block:
        workload = self._usage.workloads.get(key)
        pods = ServingPods() if workload is None else workload.serving_at(self.measured)
        if workload is None or not pods.keys:
            return Block()
        if series == "memory":
            return self._split_evenly(series, pods, workload.memory, workload.parts)
        if series == "cpu":
            # A NaN that comes first is what max and min give back.
            cpu = max(workload.cpu(self.t), 0.0) / len(pods.keys)
            return self._split_evenly(series, pods, min(cpu, workload.most_cpu), workload.parts)
        return self._split_evenly(series, pods, self._series_value(workload, series, "pod") / len(pods.keys), _WHOLE)

    def of_workload(self, series: str, key: str) -> Block:
        workload = self._usage.workloads.get(key)
        value = nan if workload is None else self._series_value(workload, series, "workload")
        return Block() if isnan(value) else Block((key,), self.sample(value * self._error(series, key)))

    def _series_value(self, workload: SimulatedWorkload, series: str, per: str) -> float:
        """The value of a further series of a workload now; NaN: it has no such series."""
        curves = [curve for table, curve in workload.series if (table.name, table.per) == (series, per)]
        return curves[-1](self.t) if curves else nan

    def _split_evenly(self, series: str, pods: ServingPods, value: float, parts: Parts) -> Block:
        """Samples of an equal value for each pod, split over its containers; none for NaN."""
        if isnan(value):
            return Block()
        measured, received, window = self.measured, self._received, self._usage.metrics.window
        if len(parts) == 1 and not self._usage.metrics.noise:
            container = parts[0][0]
            samples = [Sample(value, measured, received, window, name, container) for name in pods.names]
        else:
            samples = [
                Sample(value * part * self._error(series, key, container), measured, received, window, name, container)
                for key, name in zip(pods.keys, pods.names, strict=True)
                for container, part in parts
            ]
        return Block(pods.keys, tuple(samples))

    def _error(self, *what: object) -> float:
        """A factor between 1 - noise and 1 + noise. A hash: it does not depend on who looked before."""
        noise = self._usage.metrics.noise
        if not noise:
            return 1.0
        text = f"{self._usage.seed}/{self.number}/{what}".encode()
        uniform = int.from_bytes(blake2b(text, digest_size=7).digest()) / 2**55
        return 1.0 + noise * (uniform - 1.0)


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
        self.owners = {f"{w.ref.namespace}/{w.ref.name}": key for key, w in self.workloads.items()}
        self.alone = {
            f"{w.ref.namespace}/{w.ref.name}": key
            for key, w in self.workloads.items()
            if isinstance(w, Bare) and w.replicas == 1
        }
        for name in self.alone:
            del self.owners[name]
        self.leads = (*(f"{owner}-" for owner in self.owners), *self.alone)
        """A key of each workload by which its pods are found."""
        tables = [table for workload in self.workloads.values() for table, _ in workload.series]
        self.pod_series = ("cpu", "memory", *dict.fromkeys(t.name for t in tables if t.per == "pod"))
        self.workload_series = tuple(dict.fromkeys(t.name for t in tables if t.per == "workload"))
        self._renewal: UsageSnapshot | None = None

    def owner_of(self, pod: str) -> str:
        """The key of the workload of a pod; empty if it has none."""
        # Every pod is named after its workload: web-000001, or web-0; or, where it is alone and has none, is its own.
        return self.owners.get(pod.rpartition("-")[0]) or self.alone.get(pod, "")

    def read(self, now: float) -> Readings:
        """The samples at a time. Each sample's `received` is when its update was first read."""
        renewal = self._renew(now)
        return Readings("resource-metrics", now, renewal.pods, renewal.workloads, newest=renewal.newest)

    def read_nodes(self, now: float, nodes: Iterable[str], placed: Mapping[str, Sequence[str]]) -> Readings:
        """The usage of these nodes, and their further series; `placed`: the keys of the pods on each. A pod without
        samples adds nothing to its node, as it has not run there yet."""
        renewal = self._renew(now)
        moment, usage = renewal.moment, dict[str, dict[str, Samples]](cpu={}, memory={})
        for node in nodes:
            used = {series: curve(moment.t) for series, curve in self._loads.get(node, {}).items()}
            for series in ("cpu", "memory"):
                pods = (sample for key in placed.get(node, ()) for sample in renewal.pods[series].get(key, ()))
                used[series] = used.get(series, 0.0) + sum(sample.value for sample in pods)
            for series, value in used.items():
                subjects = usage.setdefault(series, {})
                if samples := moment.sample(value):
                    subjects[node] = samples
        return Readings("resource-metrics", now, nodes=usage, newest=moment.measured)

    def _renew(self, now: float) -> UsageSnapshot:
        number = floor((now - self._start) / self.metrics.resolution)
        if self._renewal is None or self._renewal.moment.number != number:
            t = number * self.metrics.resolution
            # A sum may round up, and no sample is from the future.
            self._renewal = UsageSnapshot(self, _Moment(self, number, t, min(self._start + t, now), now))
        return self._renewal
