"""What a simulated metrics source says: samples of one renewal, computed when they are looked up.

Knows how demand is shared by the pods that serve it; knows nothing of what becomes of pods.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from math import floor, isnan
from typing import TypeVar, overload

from elasticd.cluster.simulated.bare import Bare
from elasticd.cluster.simulated.demand import Curve
from elasticd.cluster.simulated.options import Metrics
from elasticd.cluster.simulated.pods import Parts, Serving, SimulatedWorkload
from elasticd.model import Readings, Sample

Samples = tuple[Sample, ...]
_T = TypeVar("_T")
_WHOLE: Parts = (("", 1.0),)

Loads = Mapping[str, Curve]
"""Curves by series."""


class LazySamples(Mapping[str, Samples]):
    """A series: samples by key. A look at a key fills in its whole workload; counting or iterating, all."""

    def __init__(self, fill: Callable[[str, dict[str, Samples]], None], everyone: Iterable[str]) -> None:
        self.filled: dict[str, Samples] = {}
        self._fill = fill
        self._everyone = everyone

    def __getitem__(self, key: str) -> Samples:
        if key not in self.filled:
            self._fill(key, self.filled)
        return self.filled[key]

    @overload
    def get(self, key: str, default: None = None, /) -> Samples | None: ...
    @overload
    def get(self, key: str, default: Samples | _T, /) -> Samples | _T: ...
    def get(self, key: str, default: Samples | _T | None = None, /) -> Samples | _T | None:
        """The samples of a key, or the default. Mapping's own goes through an exception; pods are many."""
        found = self.filled.get(key)
        if found is None:
            self._fill(key, self.filled)
            found = self.filled.get(key)
        return default if found is None else found

    def __iter__(self) -> Iterator[str]:
        self._complete()
        return iter(self.filled)

    def __len__(self) -> int:
        self._complete()
        return len(self.filled)

    def _complete(self) -> None:
        for key in self._everyone:
            self._fill(key, self.filled)


class Renewal:
    """The samples of one renewal, by series. `t` is when they were measured, in seconds since the start; `newest` is
    the same as a time, where it is sure that there is a sample."""

    def __init__(self, usage: "Usage", number: int, t: float, measured: float, received: float) -> None:
        self.number, self.t, self.measured, self.received = number, t, measured, received
        # Whoever serves uses memory. Nobody need look through all samples, and have them computed, to know their time.
        served = any(workload.serving_at(measured) for workload in usage.workloads.values())
        self.newest = measured if served else None
        moment = _Moment(usage, number, t, measured, received)
        self.pods = {name: LazySamples(partial(moment.fill_owner, name), usage.leads) for name in usage.pod_series}
        self.workloads = {
            name: LazySamples(partial(moment.fill, name), usage.workloads) for name in usage.workload_series
        }

    def put(self, into: dict[str, Samples], subject: str, value: float, window: float) -> None:
        """A sample of this renewal. NaN is none."""
        if not isnan(value):
            into[subject] = (Sample(value, self.measured, self.received, window),)


class _Moment:
    """What was used when a renewal was measured. It knows no series that it filled: a circle of references would keep
    all of them until Python's collector comes by."""

    def __init__(self, usage: "Usage", number: int, t: float, measured: float, received: float) -> None:
        self.number = number
        self._usage, self._t, self._measured, self._received = usage, t, measured, received
        self._done: set[tuple[str, str]] = set()

    def fill_owner(self, series: str, key: str, into: dict[str, Samples]) -> None:
        """Fill in the samples of all pods of the workload that has this one."""
        # Every pod is named after its workload: web-000001, or web-0; or, where it is alone and has none, is its own.
        usage = self._usage
        self.fill(series, usage.owners.get(key.rpartition("-")[0]) or usage.alone.get(key, ""), into)

    def fill(self, series: str, key: str, into: dict[str, Samples]) -> None:
        """Fill in the samples of a workload, or of its pods."""
        workload = self._usage.workloads.get(key)
        if workload is None or (series, key) in self._done:
            return
        self._done.add((series, key))
        pods = workload.serving_at(self._measured)
        if series in ("cpu", "memory"):
            if pods:
                self._fill_pods(series, workload, pods, into)
            return
        for table, curve in workload.series:
            if table.name == series and table.per == "workload":
                self._put_workload(series, key, curve(self._t), into)
            elif table.name == series and pods:
                self._put(series, pods, curve(self._t) / len(pods), _WHOLE, into)

    def _fill_pods(self, series: str, workload: SimulatedWorkload, pods: Serving, into: dict[str, Samples]) -> None:
        if series == "memory":
            self._put(series, pods, workload.memory, workload.parts, into)
            return
        # A NaN that comes first is what max and min give back.
        cpu = max(workload.cpu(self._t), 0.0) / len(pods)
        self._put(series, pods, min(cpu, workload.most_cpu), workload.parts, into)

    def _put(self, series: str, pods: Serving, value: float, parts: Parts, into: dict[str, Samples]) -> None:
        """The same value for each pod, split over its containers. NaN is no sample."""
        if isnan(value):
            return
        noise = self._usage.metrics.noise
        measured, received, window = self._measured, self._received, self._usage.metrics.window
        if len(parts) == 1 and not noise:
            container = parts[0][0]
            into.update({key: (Sample(value, measured, received, window, name, container),) for key, name in pods})
            return
        for key, name in pods:
            into[key] = tuple(
                Sample(
                    value * part * self._error(series, key, container),
                    measured,
                    received,
                    window,
                    name,
                    container,
                )
                for container, part in parts
            )

    def _put_workload(self, series: str, key: str, value: float, into: dict[str, Samples]) -> None:
        if not isnan(value):
            value *= self._error(series, key)
            sample = Sample(value, self._measured, self._received, self._usage.metrics.window)
            into[key] = (sample,)

    def _error(self, *what: object) -> float:
        """A factor between 1 - noise and 1 + noise. A hash: it does not depend on who looked before."""
        noise = self._usage.metrics.noise
        if not noise:
            return 1.0
        text = f"{self._usage.seed}/{self.number}/{what}".encode()
        uniform = int.from_bytes(blake2b(text, digest_size=7).digest()) / 2**55
        return 1.0 + noise * (uniform - 1.0)


class Usage:
    """The metrics of all workloads over time. The samples of one renewal are the same until the next."""

    def __init__(
        self,
        metrics: Metrics,
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
        self._renewal: Renewal | None = None

    def read(self, now: float) -> Readings:
        """What the source says at a time. Each sample's `received` is when its renewal was first read."""
        renewal = self._renew(now)
        return Readings("resource-metrics", now, renewal.pods, renewal.workloads, newest=renewal.newest)

    def read_nodes(self, now: float, nodes: Iterable[str], placed: Mapping[str, Sequence[str]]) -> Readings:
        """What these nodes use, and their further series; `placed`: the keys of the pods on each. Who is on a node and
        not measured counts for nothing there, as a kubelet that measures the whole has not seen it run."""
        renewal = self._renew(now)
        found: dict[str, dict[str, Samples]] = {"cpu": {}, "memory": {}}
        for node in nodes:
            loads = dict(self._loads.get(node, ()))
            for series in ("cpu", "memory"):
                pods = (one for key in placed.get(node, ()) for one in renewal.pods[series].get(key, ()))
                total = loads.pop(series, _none)(renewal.t) + sum(sample.value for sample in pods)
                renewal.put(found[series], node, total, self.metrics.window)
            for series, curve in loads.items():
                renewal.put(found.setdefault(series, {}), node, curve(renewal.t), self.metrics.window)
        return Readings("resource-metrics", now, nodes=found, newest=renewal.measured)

    def _renew(self, now: float) -> Renewal:
        """The renewal that is in force at a time."""
        number = floor((now - self._start) / self.metrics.resolution)
        if self._renewal is None or self._renewal.number != number:
            t = number * self.metrics.resolution
            # A sum may round up, and no sample is from the future.
            self._renewal = Renewal(self, number, t, min(self._start + t, now), now)
        return self._renewal


def _none(_t: float) -> float:
    return 0.0
