"""What servers answer, damaged somewhere: nothing is raised, only what is damaged is lost, and no value is taken for
another. Other formats: tests/journal/test_damage.py, tests/config/test_config_fuzz.py, tests/sources/mqtt."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from elasticd.base.clock import ServerTime, VirtualClock
from elasticd.cluster.kubernetes.custom import AggregatedMetrics
from elasticd.cluster.kubernetes.kubelet import Kubelets
from elasticd.cluster.kubernetes.metrics import MetricsClient
from elasticd.cluster.kubernetes.session import Request, Session
from elasticd.cluster.kubernetes.watch.discovery import Discovery
from elasticd.model.workload import Readings
from elasticd.ports.metrics_api import MetricQuery
from elasticd.sources.prometheus.answers import QueryFault, answer_of, samples_in
from elasticd.sources.prometheus.tables import Labels, SeriesTable
from tests.kit.damage import JUNK, NO_JSON, Damage, damaged, put, torn

NOW = 1767225700.0
STAMP = "2026-01-01T00:00:00Z"

Values = dict[str, tuple[float, ...]]


class Answering:
    """A session in which every list is the same, and every group has one version."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    async def send(self, request: Request) -> bytes:
        group = request.path.removeprefix("/apis/")
        if "/" in group:
            return self.body
        version = {"groupVersion": f"{group}/v1beta1"}
        return msgspec.json.encode({"kind": "APIGroup", "versions": [version], "preferredVersion": version})


def _session(body: bytes) -> Session:
    return cast("Session", Answering(body))


def _times() -> ServerTime:
    return ServerTime(VirtualClock(NOW))


def _values(readings: Readings) -> Values | None:
    """By series and subject; None where the whole answer is an error."""
    if readings.error:
        return None
    tables = (readings.pods, readings.workloads, readings.nodes, readings.parts)
    return {
        f"{series} {key}": tuple(sample.value for sample in samples)
        for table in tables
        for series, by_key in table.items()
        for key, samples in by_key.items()
    }


async def _pod_metrics(body: bytes) -> Values | None:
    return _values(await MetricsClient(Discovery(_session(body)), _times(), ()).usage(NOW))


async def _node_metrics(body: bytes) -> Values | None:
    return _values(await MetricsClient(Discovery(_session(body)), _times(), ()).node_usage(NOW))


async def _custom_metrics(body: bytes) -> Values | None:
    query = MetricQuery("rps", "rate", "shop")
    return _values(await AggregatedMetrics(Discovery(_session(body)), _times(), 2.0).read([query], NOW))


async def _kubelet(body: bytes) -> Values | None:
    return _values(await Kubelets(_session(body), _times()).summary("n1", NOW, "all", 2.0))


async def _prometheus(body: bytes) -> Values | None:
    table = SeriesTable(name="rps", query="x", subject="pod", labels=Labels(container="container"))
    try:
        samples, _ = await samples_in(await answer_of(body, 1000), table, None, NOW, 0.0)
    except QueryFault:
        return None
    return {key: tuple(sample.value for sample in found) for key, found in samples.items()}


def _container(number: int) -> dict[str, Any]:
    return {"name": f"c{number}", "usage": {"cpu": f"{110 + number}m", "memory": f"{120 + number}Mi"}}


def _named(name: str) -> dict[str, Any]:
    return {"name": name, "namespace": "shop"}


def _figures(number: int) -> dict[str, Any]:
    return {
        "name": f"c{number}",
        "cpu": {"time": STAMP, "usageNanoCores": 130_000_000 + number},
        "memory": {"time": STAMP, "workingSetBytes": 140_000 + number},
    }


def _vector_item(number: int) -> dict[str, Any]:
    labels = {"__name__": "x", "namespace": "shop", "pod": f"web-{number}", "container": "main"}
    return {"metric": labels, "value": [NOW - 5, f"{150 + number}.25"]}


class Format(Struct, frozen=True):
    """A format: a document in it, the paths to its items and to a number in an item, and what is read from it."""

    document: Any
    items: tuple[str, ...]
    number: tuple[str | int, ...]
    read: Callable[[bytes], Awaitable[Values | None]]


FORMATS = {
    "pod metrics": Format(
        {
            "kind": "List",
            "items": [
                {
                    "metadata": _named(f"web-{number}"),
                    "timestamp": STAMP,
                    "window": "15s",
                    "containers": [_container(10 * number), _container(10 * number + 1)],
                }
                for number in range(3)
            ],
        },
        ("items",),
        ("containers", 0, "usage", "cpu"),
        _pod_metrics,
    ),
    "node metrics": Format(
        {
            "kind": "List",
            "items": [
                {"metadata": {"name": f"n{number}"}, "timestamp": STAMP, "window": "15s", **_container(number)}
                for number in range(3)
            ],
        },
        ("items",),
        ("usage", "cpu"),
        _node_metrics,
    ),
    "custom metrics": Format(
        {
            "kind": "List",
            "items": [
                {
                    "describedObject": {"kind": "Pod", "apiVersion": "/v1", **_named(f"web-{number}")},
                    "timestamp": STAMP,
                    "windowSeconds": 30,
                    "value": f"{160 + number}m",
                }
                for number in range(3)
            ],
        },
        ("items",),
        ("value",),
        _custom_metrics,
    ),
    "kubelet": Format(
        {
            "node": {"nodeName": "n1", **_figures(9)},
            "pods": [
                {"podRef": _named(f"web-{number}"), "containers": [_figures(10 * number), _figures(10 * number + 1)]}
                for number in range(3)
            ],
        },
        ("pods",),
        ("containers", 0, "cpu", "usageNanoCores"),
        _kubelet,
    ),
    "prometheus": Format(
        {"status": "success", "data": {"resultType": "vector", "result": [_vector_item(n) for n in range(3)]}},
        ("data", "result"),
        ("value", 1),
        _prometheus,
    ),
}


def _read(form: Format, body: bytes) -> Values | None:
    return asyncio.run(_awaited(form.read(body)))


async def _awaited(reading: Awaitable[Values | None]) -> Values | None:
    return await reading


def _without(form: Format, item: int) -> Values:
    """What is read where this item is not there at all."""
    document = msgspec.json.decode(msgspec.json.encode(form.document))
    items = document
    for key in form.items:
        items = items[key]
    del items[item]
    values = _read(form, msgspec.json.encode(document))
    assert values
    return values


def _fake(form: Format, body: bytes, item: int, junk: bytes | None) -> set[float]:
    """The numbers that are read from a damaged item though it never had them."""
    whole, others, values = _read(form, msgspec.json.encode(form.document)), _without(form, item), _read(form, body)
    if values is None:
        assert junk in NO_JSON
        return set()
    assert whole is not None
    assert others.items() <= values.items()
    right = {number for key in whole.keys() - others.keys() for number in whole[key]}
    if junk is not None and (number := JUNK[junk]) is not None:
        right |= {number, number / 1e9}  # of nanocores
    read = {number for key in values.keys() - others.keys() for number in values[key]}
    return {number for number in read if math.isfinite(number)} - right


@pytest.mark.parametrize("junk", JUNK, ids=lambda junk: repr(junk[:30]))
@pytest.mark.parametrize("name", FORMATS)
def test_only_a_number_is_taken_for_one(name: str, junk: bytes) -> None:
    form = FORMATS[name]
    assert _fake(form, put(form.document, (*form.items, 0, *form.number), junk), 0, junk) == set()


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
@given(st.data())
def test_damage_costs_its_item_and_fakes_no_value(name: str, data: st.DataObject) -> None:
    form = FORMATS[name]
    damage: Damage = data.draw(damaged(form.document, *form.items))
    assert _fake(form, damage.body, damage.item, damage.junk) == set()


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
@given(st.data())
def test_torn_answers_raise_nothing(name: str, data: st.DataObject) -> None:
    form = FORMATS[name]
    values = _read(form, data.draw(torn(msgspec.json.encode(form.document))))
    assert values is None or len(values) <= 14
