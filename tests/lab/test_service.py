"""Requests of a service: how long they wait and which fail, against formulas and against a queue played one by one."""

import heapq
import random
from collections.abc import Callable, Iterator
from itertools import pairwise
from math import inf, isnan, nan
from statistics import fmean, stdev

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticd.lab.service import EDGES, Part, Queue, Service, erlang_c, in_balance, quantile

REQUESTS = 200_000
BATCHES = 10


def played(
    service: Service, rate: Callable[[float], float], pods: int, seconds: float, seed: int
) -> list[tuple[float, float]]:
    """The time at which each request came, and how long it waited; infinity: it gave up. One request after the other,
    with times drawn at random."""
    chance, time, highest = random.Random(seed), 0.0, max(map(rate, np.linspace(0, seconds, 1001).tolist()))
    free = [0.0] * (service.workers * pods)
    requests = list[tuple[float, float]]()
    while (time := time + chance.expovariate(highest)) < seconds:
        if chance.random() * highest > rate(time):
            continue
        wait = max(0.0, free[0] - time)
        if wait > service.patience:
            requests.append((time, inf))
            continue
        heapq.heapreplace(free, time + wait + chance.expovariate(1 / service.seconds))
        requests.append((time, wait))
    return requests


def erlang_c_by_its_sum(servers: int, load: float) -> float:
    """As Erlang gave it: the sum over the states of the queue."""
    offered, term, terms = load * servers, 1.0, [1.0]
    for number in range(1, servers + 1):
        term *= offered / number
        terms.append(term)
    last = terms[-1] / (1 - load)
    return last / (sum(terms[:-1]) + last)


@given(st.integers(1, 150), st.floats(0.01, 0.99))
def test_erlang_c_is_the_sum_over_the_states(servers: int, load: float) -> None:
    assert erlang_c(servers, load) == pytest.approx(erlang_c_by_its_sum(servers, load), rel=1e-9)


M_M_C = [
    pytest.param(0.5, 1, 1000.0, id="M/M/1"),
    pytest.param(0.8, 10, 1000.0, id="ten workers"),
    pytest.param(0.95, 4, 1000.0, id="nearly full"),
    pytest.param(0.9, 50, 1000.0, id="fifty workers"),
    pytest.param(1.0, 10, 1.0, id="just full, with a time-out"),
    pytest.param(1.3, 10, 0.5, id="more than is served, with a time-out"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("load", "workers", "patience"), M_M_C)
def test_the_queue_agrees_with_one_played_request_by_request(load: float, workers: int, patience: float) -> None:
    """Within four standard errors of ten batches, in which 997 of 1000 means lie (Student's t)."""
    service = Service(workers, 0.1, patience)
    rate = load * workers / 0.1
    part = in_balance(rate, workers, service, 1.0)
    requests = played(service, lambda _: rate, 1, REQUESTS / rate, seed=workers)[REQUESTS // 20 :]
    waits = np.array([wait for _, wait in requests])
    batches = np.array_split(waits, BATCHES)
    known = Part(1.0, part.failed / part.requests, part.waits / part.waits.sum())
    expected = {
        "failed": (known.failed, [float(np.isinf(batch).mean()) for batch in batches]),
        "waited": (1 - _below(known, 1e-3), [float((batch[np.isfinite(batch)] >= 1e-3).mean()) for batch in batches]),
        "waited long": (
            1 - _below(known, 0.1),
            [float((batch[np.isfinite(batch)] >= 0.1).mean()) for batch in batches],
        ),
    }
    for name, (formula, measured) in expected.items():
        error = stdev(measured) / BATCHES**0.5
        assert formula == pytest.approx(fmean(measured), abs=max(4 * error, 1e-4)), name


def _below(part: Part, seconds: float) -> float:
    """The share of waits below this edge."""
    return float(part.waits[: int(np.searchsorted(EDGES, seconds * (1 + 1e-9))) - 1].sum())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_rush_piles_up_as_when_played_request_by_request(seed: int) -> None:
    """Twice as much as is served for 20 s: the wait grows to 5 s, where clients give up, and falls again."""
    service = Service(4, 0.02, 5.0)

    def rate(time: float) -> float:
        return 800.0 if 30 <= time < 50 else 100.0

    queue, parts = Queue(service), list[Part]()
    for second in range(90):
        parts.append(queue.serve(rate(second), 2, 1.0))
    requests = played(service, rate, 2, 90.0, seed)
    failed = sum(wait == inf for _, wait in requests)
    assert sum(part.failed for part in parts) == pytest.approx(failed, rel=0.05)
    waits = [wait for _, wait in requests if wait < inf]
    for share in (0.5, 0.9, 0.99):
        found = quantile([part.waits for part in parts], share)
        assert found == pytest.approx(float(np.quantile(waits, share)), rel=0.1), share


def _parts(rates: list[float], pods: list[int], service: Service) -> Iterator[Part]:
    queue = Queue(service)
    for rate, count in zip(rates, pods, strict=True):
        yield queue.serve(rate, count, 5.0)


@given(
    st.lists(st.tuples(st.floats(0, 1e4), st.integers(0, 30)), min_size=1, max_size=8),
    st.integers(1, 20),
    st.floats(1e-3, 10),
    st.floats(0, 100),
)
def test_every_request_is_served_or_fails(
    steps: list[tuple[float, int]], workers: int, seconds: float, patience: float
) -> None:
    service = Service(workers, seconds, patience)
    rates, pods = [rate for rate, _ in steps], [count for _, count in steps]
    for part, rate in zip(_parts(rates, pods, service), rates, strict=True):
        assert part.requests == pytest.approx(5 * rate)
        assert 0 <= part.failed <= part.requests * (1 + 1e-9)
        assert np.all(part.waits >= -1e-6 * part.requests)
        assert part.waits.sum() + part.failed == pytest.approx(part.requests, rel=1e-6, abs=1e-9)
        if part.waits.sum() > 1e-6:
            assert quantile([part.waits], 1.0) <= max(patience, EDGES[1]) * 1.06


def test_without_a_ready_pod_every_request_fails() -> None:
    empty, full = _parts([10.0, 10.0], [0, 5], Service(4, 0.02, 5.0))
    assert (empty.requests, empty.failed, empty.waits.sum()) == (50.0, 50.0, 0.0)
    assert full.failed == pytest.approx(0.0, abs=1e-9)


def test_an_unknown_rate_is_no_request() -> None:
    (part,) = _parts([nan], [5], Service(4, 0.02, 5.0))
    assert (isnan(part.requests), isnan(part.failed), part.waits.sum()) == (True, True, 0.0)


def test_more_pods_serve_what_has_piled_up_faster() -> None:
    waits = [quantile([part.waits], 0.5) for part in _parts([800.0] + [300.0] * 3, [2, 2, 2, 2], Service(4, 0.02, 5.0))]
    faster = [
        quantile([part.waits], 0.5) for part in _parts([800.0] + [300.0] * 3, [2, 4, 4, 4], Service(4, 0.02, 5.0))
    ]
    assert all(more < less for less, more in zip(waits[1:], faster[1:], strict=True))
    assert all(earlier > later for earlier, later in pairwise(waits[1:]))


@pytest.mark.parametrize(
    ("waits", "share", "expected"),
    [
        pytest.param([], 0.5, nan, id="nothing"),
        pytest.param([0.0], 0.99, 1e-3, id="less than a millisecond"),
        pytest.param([0.02] * 9 + [3.0], 0.5, 0.02, id="the middle"),
        pytest.param([0.02] * 9 + [3.0], 0.99, 3.0, id="the end"),
        pytest.param([2000.0], 0.5, 1000.0, id="no more is told than 1000 s"),
    ],
)
def test_a_quantile_is_within_six_percent(waits: list[float], share: float, expected: float) -> None:
    counts = np.histogram(waits, EDGES)[0].astype(np.float64)
    assert quantile([counts], share) == pytest.approx(expected, rel=0.06, nan_ok=True)
