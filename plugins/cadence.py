"""Cadence: chooses the poll interval by how busy the pods are.

Knows samples, requests and the interval in force; recommends no count.
"""

from typing import Annotated, Literal

from elasticd.api import NEVER, Band, Meta, Observation, Past, Pod, Poll, Ref, Strategy, Struct, hookimpl
from elasticd.kit import Memo, band_around, request_of

Fraction = Annotated[float, Meta(gt=0, description="of the requests, 1 = all of them")]


class Cadence(Strategy, tag="cadence", frozen=True):
    """Polls every `slow` s up to utilisation `alpha`, every `medium` s above it, every `fast` s above `beta`.

    Utilisation is use / requests, summed over all pods that have both, as a fraction; `series` is the resource's name.
    A faster interval is left only when utilisation falls below its threshold minus `hysteresis`. Without trustworthy
    samples the interval in force stays, at first `medium`.

    In mode "paper" utilisation is the sum of the pods' utilisations (two pods at 60 % are 1.2), without hysteresis.
    Source: DHPA (Jiang, Wu 2021), the base thresholds alpha < beta; their values are reconstructed.
    """

    alpha: Fraction = 0.5
    beta: Fraction = 0.8
    hysteresis: Annotated[
        float, Meta(ge=0, description="a faster pace is left only so far below its threshold; as alpha")
    ] = 0.05
    slow: Poll = 30.0
    medium: Poll = 10.0
    fast: Poll = 1.0
    series: Annotated[str, Meta(min_length=1, description="name of a resource")] = "cpu"
    mode: Annotated[
        Literal["product", "paper"], Meta(description="paper: alpha and beta are of the sum of all pods")
    ] = "product"

    def __post_init__(self) -> None:
        if self.beta <= self.alpha:
            raise ValueError(f"beta: must be > alpha = {self.alpha:g}, is {self.beta:g}")
        if self.hysteresis >= self.alpha:
            raise ValueError(f"hysteresis: must be < alpha = {self.alpha:g}, is {self.hysteresis:g}")
        if not self.fast <= self.medium:
            raise ValueError(f"fast: must be <= medium = {self.medium:g}, is {self.fast:g}")
        if not self.medium <= self.slow:
            raise ValueError(f"medium: must be <= slow = {self.slow:g}, is {self.medium:g}")

    def reads(self) -> tuple[str, ...]:
        return (self.series,)

    def fastest(self) -> float:
        return self.fast

    @hookimpl
    def poll_interval(self, observation: Observation, past: Past) -> float:
        busy = self._utilisation(observation)
        if busy is None:
            return self.medium if past.interval is None else past.interval
        return self._pace(busy, past)

    def own_pace(self) -> bool:
        return self.mode == "paper"

    @hookimpl
    def steady_bands(self, observation: Observation, past: Past) -> dict[str, Band]:
        """The band in which the interval stays as it is."""
        series = observation.series.get(self.series)
        if series is None or not series.trusted:
            return {self.series: Band()}
        requested = _requested((observation.workload.ref, self.series), observation.pods).by_pod
        measured = {sample.pod for sample in series.samples}
        if measured.isdisjoint(requested):
            return {self.series: Band()}  # utilisation is not known
        if not measured <= requested.keys():
            return {self.series: NEVER}
        total = sum(sample.value for sample in series.samples)
        total_request = sum(requested[pod] for pod in measured)
        pace = self._pace(total / total_request, past)
        return {self.series: band_around(lambda used: self._pace(used / total_request, past) == pace, total)}

    def _pace(self, busy: float, past: Past) -> float:
        margin = 0.0 if self.mode == "paper" or past.interval is None else self.hysteresis
        before = self.slow if past.interval is None else past.interval
        if busy > self.beta or (margin and before <= self.fast and busy >= self.beta - margin):
            return self.fast
        if busy > self.alpha or (margin and before <= self.medium and busy >= self.alpha - margin):
            return self.medium
        return self.slow

    def _utilisation(self, observation: Observation) -> float | None:
        series = observation.series.get(self.series)
        if series is None or not series.trusted:
            return None
        requested = _requested((observation.workload.ref, self.series), observation.pods)
        samples, paper = series.samples, self.mode == "paper"
        in_order = [sample.pod for sample in samples] == requested.names  # one sample a pod, as they nearly always are
        if requested.names and not paper and in_order:
            total = 0.0
            for sample in samples:
                total += sample.value
            return total / requested.total
        used = dict.fromkeys([sample.pod for sample in samples], 0.0)
        for sample in samples:
            used[sample.pod] += sample.value
        measured = [name for name in requested.by_pod if name in used]
        if not measured:
            return None
        if paper:
            return sum([used[name] / requested.by_pod[name] for name in measured])
        return sum([used[name] for name in measured]) / sum([requested.by_pod[name] for name in measured])


class _Requests(Struct, frozen=True, gc=False):
    """The requests for one resource of the pods that have one, their sum, and the pods' names in order."""

    by_pod: dict[str, float]
    total: float
    names: list[str]


def _requests(key: tuple[Ref, str], pods: tuple[Pod, ...]) -> _Requests:
    by_pod = {pod.name: request for pod in pods if (request := request_of(pod, key[1])) > 0}
    return _Requests(by_pod, sum(by_pod.values()), list(by_pod))


_requested = Memo(_requests)


@hookimpl
def register_strategies() -> list[type[Strategy]]:
    return [Cadence]
