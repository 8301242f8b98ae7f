"""The source kafka against the Kafka protocol over TCP: librdkafka's mock of a cluster."""

import asyncio
from typing import Any

import confluent_kafka
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticd.base.clock import WallClock
from elasticd.base.decode import convert
from elasticd.base.errors import ConfigError
from elasticd.model.workload import Readings
from elasticd.sources.queues.kafka import NONE_COMMITTED, Kafka, KafkaTopic, register_sources, unread
from elasticd.sources.rounds import Fault
from elasticd.testing import site
from tests.kube.processes import free_port

EVENTS = {"name": "waiting", "topic": "events", "group": "billing", "workload": "shop/Deployment/billing"}
TOPIC = convert(EVENTS, KafkaTopic, "elasticd.toml")


class Cluster:
    """A mock of a cluster with one broker."""

    def __init__(self) -> None:
        self._producer = confluent_kafka.Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1})
        (broker,) = self._producer.list_topics(timeout=10).brokers.values()
        self.server = f"{broker.host}:{broker.port}"

    def produce(self, *, messages: int, partition: int) -> None:
        """Write so many messages to a partition of the topic."""
        for _ in range(messages):
            self._producer.produce("events", b"x", partition=partition)
        assert self._producer.flush(10) == 0

    def commit(self, *, offset: int, partition: int) -> None:
        """What the group has read of a partition."""
        consumer = confluent_kafka.Consumer({"bootstrap.servers": self.server, "group.id": "billing"})
        try:
            partitions = [confluent_kafka.TopicPartition("events", partition, offset)]
            consumer.commit(offsets=partitions, asynchronous=False)
        finally:
            consumer.close()


@pytest.fixture
async def cluster() -> Cluster:
    return await asyncio.to_thread(Cluster)


def source(server: str, **more: Any) -> Kafka:
    return convert(
        {"type": "kafka", "servers": [server], "series": [EVENTS], "timeout": 5, **more}, Kafka, "elasticd.toml"
    )


async def read(server: str, **more: Any) -> Readings:
    """A reading for which all answers were waited for."""
    clock = WallClock()
    async with source(server, **more).open(site(clock=clock)) as reader:
        readings = await reader.read(clock.now())
        for _ in range(10):
            if readings.error != "no answer yet":
                return readings
            readings = await reader.read(clock.now())
    raise AssertionError(f"no answer: {readings}")


def test_it_is_registered_under_its_name_in_toml() -> None:
    assert [kind.__struct_config__.tag for kind in register_sources()] == ["kafka"]


@pytest.mark.slow
async def test_the_lag_is_what_the_group_has_not_read(cluster: Cluster) -> None:
    for partition, (messages, offset) in enumerate([(5, 3), (7, 7), (4, 0), (2, 1)]):
        await asyncio.to_thread(cluster.produce, messages=messages, partition=partition)
        await asyncio.to_thread(cluster.commit, offset=offset, partition=partition)
    readings = await read(cluster.server)
    (sample,) = readings.workloads["waiting"]["shop/Deployment/billing"]
    assert (readings.error, sample.value) == ("", 2 + 0 + 4 + 1)


@pytest.mark.slow
@pytest.mark.parametrize(("uncommitted", "lag"), [("unknown", None), ("all", 5.0), ("none", 0.0)])
async def test_a_group_that_has_committed_nothing(cluster: Cluster, uncommitted: str, lag: float | None) -> None:
    await asyncio.to_thread(cluster.produce, messages=5, partition=0)
    readings = await read(cluster.server, series=[{**EVENTS, "uncommitted": uncommitted}])
    values = [sample.value for (sample,) in readings.workloads.get("waiting", {}).values()]
    assert values == ([] if lag is None else [lag])
    assert ("has committed nothing" in readings.error) == (lag is None)


@pytest.mark.slow
async def test_a_cluster_that_is_not_there_is_an_error() -> None:
    readings = await read(f"127.0.0.1:{free_port()}", timeout=1)
    assert "topic events" in readings.error
    assert not readings.workloads


@given(
    st.lists(
        st.tuples(st.integers(0, 100), st.integers(0, 100), st.integers(-1, 200)).map(
            lambda numbers: (numbers[2], (numbers[0], numbers[0] + numbers[1]))
        ),
        min_size=1,
    )
)
def test_a_lag_is_never_negative_nor_more_than_is_kept(partitions: list[tuple[int, tuple[int, int]]]) -> None:
    offsets = {number: offset for number, (offset, _) in enumerate(partitions)}
    bounds = {number: bound for number, (_, bound) in enumerate(partitions)}
    if NONE_COMMITTED in offsets.values():
        with pytest.raises(Fault, match="has committed"):
            unread(TOPIC, offsets, bounds)
        return
    if any(offset > end for offset, (_, end) in partitions):
        with pytest.raises(Fault, match="which ends at"):
            unread(TOPIC, offsets, bounds)
        return
    assert 0 <= unread(TOPIC, offsets, bounds) <= sum(end - first for first, end in bounds.values())


def test_an_offset_beyond_the_end_is_no_empty_queue() -> None:
    """As where the log was restored from a copy that is older than the offsets."""
    with pytest.raises(Fault, match="has committed 5001 of partition 0, which ends at 5000"):
        unread(TOPIC, {0: 5001, 1: 3}, {0: (0, 5000), 1: (0, 9)})
    assert unread(TOPIC, {0: 5000}, {0: (0, 5000)}) == 0


def test_messages_that_are_gone_are_not_waited_for() -> None:
    assert unread(TOPIC, {0: 10}, {0: (50, 60)}) == 10


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        pytest.param({"servers": ["kafka"]}, "servers[0]", id="no port"),
        pytest.param({"servers": ["x:secret@kafka:9092"]}, "servers[0]", id="password in the address"),
        pytest.param({"servers": []}, "servers", id="no server"),
        pytest.param({"username": "elasticd"}, "password_file: must be given", id="user without password"),
        pytest.param({"series": [{**EVENTS, "group": ""}]}, "series[0].group", id="no group"),
    ],
)
def test_a_mistake_names_its_key(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        convert({"type": "kafka", "servers": ["kafka:9092"], "series": [EVENTS], **options}, Kafka, "elasticd.toml")
    assert problem in str(raised.value)
