"""An HTTP service under load: how long requests wait, and which fail.

Pure. Knows queues; knows nothing of clusters, nor of what scales them.

Requests come at random (Poisson), each takes a pod's worker for a time that is random too (exponential), and the
pods' workers share one queue, as behind a balancer that sends each request where a worker is free. A client gives up
after `patience` seconds in the queue, which is also what bounds its length. So it is the queue M/M/c+D; in balance its
waiting times are those of Barrer, Queuing with Impatient Customers and Ordered Service, Operations Research 5 (1957),
and without a bound those of Erlang's C formula. While more comes than can be served, and until what has piled up is
served, the wait grows and falls as a fluid's does.
"""

from collections.abc import Sequence
from math import exp, inf, isnan, nan
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Histogram = NDArray[np.float64] | NDArray[np.float32]
"""Requests, by the bin of `EDGES` that their wait falls into."""

EDGES = np.concatenate([[0.0], np.geomspace(1e-3, 1e3, 241), [inf]])
"""Seconds between which waits are counted: the first bin is less than a millisecond, then 40 a decade, so
that a quantile is within 6 %."""

_NEARLY = 1e-9
"""Balance is where as much comes as is served, which no formula has a value for."""


class Service(NamedTuple):
    """What one pod serves: `workers` requests at a time, each for `seconds` on average. A client waits for `patience`
    seconds at most."""

    workers: int
    seconds: float
    patience: float


class Part(Struct):
    """What came of the requests of some time."""

    requests: float
    failed: float
    waits: Histogram
    """Of those that were served."""


class Queue:
    """The queue before the pods of one workload, from one part of time to the next."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._wait = 0.0
        """Seconds that a request would wait which comes now, for what has piled up."""
        self._pods = 0

    def serve(self, rate: float, pods: int, seconds: float) -> Part:
        """What comes of `rate` requests a second in the next `seconds` with so many ready pods. Where the rate is not
        known, nothing is."""
        if isnan(rate):
            return Part(nan, nan, np.zeros(len(EDGES) - 1))
        if pods == 0:  # nobody answers
            self._wait, self._pods = 0.0, 0
            return Part(rate * seconds, rate * seconds, np.zeros(len(EDGES) - 1))
        servers = pods * self._service.workers
        load = rate * self._service.seconds / servers
        wait = min(self._wait * self._pods / pods, self._service.patience)
        self._pods = pods
        piling = self._piling(wait, load, seconds)
        self._wait = min(max(0.0, wait + (load - 1) * piling), self._service.patience)
        if not piling:
            return in_balance(rate, servers, self._service, seconds)
        part = _piled(rate, load, wait, piling, self._service.patience)
        return _sum(part, in_balance(rate, servers, self._service, seconds - piling)) if piling < seconds else part

    def _piling(self, wait: float, load: float, seconds: float) -> float:
        """For how many of these seconds something has piled up."""
        if load > 1:
            return seconds
        return min(seconds, wait / (1 - load)) if wait else 0.0


def _sum(one: Part, other: Part) -> Part:
    return Part(one.requests + other.requests, one.failed + other.failed, one.waits + other.waits)


def _piled(rate: float, load: float, wait: float, seconds: float, patience: float) -> Part:
    """A fluid: the wait changes by load - 1 each second, up to the patience, and what comes beyond that fails."""
    full = 0.0
    if load > 1:
        full = max(0.0, seconds - (patience - wait) / (load - 1))
    moving = seconds - full
    last = min(max(0.0, wait + (load - 1) * moving), patience)
    waits = np.zeros(len(EDGES) - 1)
    if moving > 0:
        least, most = sorted((wait, last))
        waits += rate * moving * np.diff(_uniform(least, most))
    if full > 0:
        waits += rate * full / load * np.diff(_uniform(last, last))
    return Part(rate * seconds, rate * full * (1 - 1 / load) if full else 0.0, waits)


def _uniform(least: float, most: float) -> NDArray[np.float64]:
    """The shares of waits that are less than each edge."""
    if most - least < _NEARLY:
        return (most < EDGES).astype(np.float64)
    return np.clip((EDGES - least) / (most - least), 0.0, 1.0)


def in_balance(rate: float, servers: int, service: Service, seconds: float) -> Part:
    """What comes of requests of M/M/c+D in balance (Barrer 1957)."""
    requests, patience = rate * seconds, service.patience
    if not requests:
        return Part(0.0, 0.0, np.zeros(len(EDGES) - 1))
    load = rate * service.seconds / servers
    load += _NEARLY if abs(load - 1) < _NEARLY else 0.0
    delayed = erlang_c(servers, load)
    drain = servers / service.seconds * (1 - load)  # cμ - λ
    beyond = delayed * exp(-drain * patience)
    failed = (1 - load) * beyond / (1 - load * beyond)
    bounded = np.minimum(EDGES, patience)
    longer = delayed * (np.exp(-drain * bounded) - exp(-drain * patience)) / (1 - beyond)
    longer[0] = 1.0  # none is less than 0
    waits = requests * (1 - failed) * -np.diff(longer)
    return Part(requests, requests * failed, waits)


def erlang_c(servers: int, load: float) -> float:
    """The share of requests that wait, without a bound: Erlang's C formula of so many servers, each with this load.
    Beyond a load of 1 it is the same formula, and greater than 1."""
    offered, blocked = load * servers, 1.0
    for number in range(1, servers + 1):
        blocked = offered * blocked / (number + offered * blocked)
    return blocked / (1 - load * (1 - blocked))


def quantile(waits: Sequence[Histogram], share: float) -> float:
    """The wait that this share of requests stays below, in seconds; NaN without requests. Within a bin it goes by the
    logarithm."""
    total = np.zeros(len(EDGES) - 1)
    for each in waits:
        total += each
    below = np.concatenate([[0.0], np.cumsum(total)])
    if not below[-1] > 0:
        return nan
    wanted = share * below[-1]
    index = int(np.clip(np.searchsorted(below, wanted, side="left") - 1, 0, len(total) - 1))
    within = (wanted - below[index]) / total[index] if total[index] else 0.0
    if index == 0:
        return float(EDGES[1] * within) if share * below[-1] > 0 else 0.0
    if index == len(total) - 1:
        return float(EDGES[-2])
    low, high = float(EDGES[index]), float(EDGES[index + 1])
    return float(low * (high / low) ** within)
