"""The MQTT source on a genuine Mosquitto: all that a broker and its sensors can do to it."""

import asyncio
import json
import os
import resource
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import aiomqtt
import pytest
import pytest_asyncio

from elasticd.base.clock import WallClock
from elasticd.model.workload import Readings, Sample
from elasticd.sources import mqtt
from elasticd.sources.mqtt import Listening, Mqtt
from elasticd.sources.mqtt.link import Link
from elasticd.sources.mqtt.topics import Topic
from elasticd.sources.tls import Tls
from elasticd.testing import site
from tests.cluster.kubernetes.fake import until
from tests.kube import pki
from tests.kube.broker import OPEN, Broker, denying_lines, password_lines, tls_lines
from tests.kube.processes import free_port

Protocol = Literal["5", "3.1.1"]
both = pytest.mark.parametrize("protocol", ["5", "3.1.1"])

CANARY = "canary-7f3a"
WEB = "shop/Deployment/web"


def topic(template: str = "sensors/{namespace}/{workload}/load", **options: Any) -> Topic:
    return Topic(**{"topic": template, "series": "load", "subject": "workload", **options})


TIMED = topic(payload="v", time="t", sequence="n", offline="sensors/{namespace}/{workload}/status")


class Source:
    """A source that is open, and what it has woken."""

    def __init__(self, reader: Listening, woken: list[tuple[str, str]]) -> None:
        self.reader, self.woken = reader, woken

    async def read(self) -> Readings:
        """What it says now."""
        return await self.reader.read(time.time())

    def sample(self, key: str = WEB, series: str = "load") -> Sample | None:
        """The sample of a workload."""
        _, workloads, _ = self.reader._views
        return workloads[series].get(key, (None,))[0]

    def value(self, key: str = WEB) -> float | None:
        """Its value."""
        found = self.sample(key)
        return None if found is None else found.value

    async def subscribed(self) -> None:
        """Return when it is connected and has subscribed."""
        await until(lambda: self.reader.subscribed, 20)


@asynccontextmanager
async def listening(broker: Broker, *topics: Topic, wait: bool = True, **options: Any) -> AsyncIterator[Source]:
    woken: list[tuple[str, str]] = []
    source = Mqtt(**{"host": broker.address, "port": broker.port, "topic": topics or (topic(),), **options})
    async with source.open(site(clock=WallClock(), wake=lambda *about: woken.append(about))) as reader:
        assert isinstance(reader, Listening)
        opened = Source(reader, woken)
        if wait:
            await opened.subscribed()
        yield opened


@pytest_asyncio.fixture(loop_scope="session")
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with Broker(tmp_path, OPEN) as running:
        yield running


async def publish_numbers(broker: Broker, rate: int, seconds: float, subjects: int) -> int:
    """Numbers to so many workloads in turn, from a process of its own; how many they were."""
    script = Path(__file__).with_name("publisher.py")
    words = [str(word) for word in (script, broker.port, rate, seconds, 1, 0, subjects)]
    process = await asyncio.create_subprocess_exec(sys.executable, *words, stdout=asyncio.subprocess.PIPE)
    return int(json.loads((await process.communicate())[0])["sent"])


def said(value: float, number: int, at: float | None = None) -> dict[str, float]:
    return {"v": value, "t": time.time() if at is None else at, "n": number}


@both
async def test_wildcards_bring_readings_and_wake_their_subjects(broker: Broker, protocol: Protocol) -> None:
    nodes = topic("nodes/{node}/#", series="heat", subject="node")
    async with listening(broker, topic(), nodes, protocol=protocol) as source:
        await broker.publish("sensors/shop/web/load", "0.5")
        await broker.publish("sensors/shop/api/load", b"7", qos=0)
        await broker.publish("sensors/shop/api/other", "9")
        await broker.publish("nodes/n1/core/0", "61")
        await until(lambda: len(source.woken) == 3)
        readings = await source.read()
    assert {key: one.value for key, (one,) in readings.workloads["load"].items()} == {
        WEB: 0.5,
        "shop/Deployment/api": 7,
    }
    assert readings.nodes["heat"]["n1"][0].value == 61
    assert readings.faults == {}
    assert sorted(source.woken) == [("node", "n1"), ("workload", "shop/Deployment/api"), ("workload", WEB)]


@both
async def test_what_was_retained_yesterday_is_of_yesterday(broker: Broker, protocol: Protocol) -> None:
    yesterday = time.time() - 86_400
    await broker.publish("sensors/shop/web/load", said(5, 1, yesterday), retain=True)
    await broker.publish("sensors/shop/api/plain", "5", retain=True)
    plain = topic("sensors/{namespace}/{workload}/plain", series="plain")
    async with listening(broker, TIMED, plain, protocol=protocol) as source:
        await until(lambda: len(source.woken) == 2)
        told, untold = source.sample(), source.sample("shop/Deployment/api", "plain")
    assert told is not None
    assert told.measured == pytest.approx(yesterday)
    assert untold is not None
    assert untold.measured == 0


async def test_a_last_will_leaves_a_sensor_unknown_until_it_reports(broker: Broker) -> None:
    will = aiomqtt.Will("sensors/shop/web/status", "offline", retain=True)
    async with listening(broker, TIMED) as source:
        sensor = broker.client(will=will)
        await sensor.__aenter__()
        await sensor.publish("sensors/shop/web/load", json.dumps(said(5, 1)), qos=1)
        await until(lambda: source.value() == 5)
        sensor._client._sock_close()  # as when its power fails
        await until(lambda: len(source.woken) == 2)
        gone = source.sample()
        assert gone is not None
        assert (gone.value, gone.measured) == (5, 0)
        await broker.publish("sensors/shop/web/load", said(6, 0))
        await until(lambda: source.value() == 6)


@both
async def test_after_a_restart_of_the_broker_it_listens_again(broker: Broker, protocol: Protocol) -> None:
    async with listening(broker, protocol=protocol) as source:
        await broker.publish("sensors/shop/web/load", "1")
        await until(lambda: source.value() == 1)
        await broker.kill()
        await until(lambda: not source.reader.keeper.connected)
        lost = await source.read()
        assert list(lost.faults) == ["load"]
        assert f"broker 127.0.0.1:{broker.port}" in lost.faults["load"]
        assert (lost.error, lost.workloads["load"][WEB][0].value) == ("", 1)
        await broker.start()
        await source.subscribed()
        await broker.publish("sensors/shop/web/load", "2")
        await until(lambda: source.value() == 2)
        assert (await source.read()).faults == {}
        assert source.reader.describe().reconnects == 1


@both
async def test_a_session_brings_what_came_meanwhile(broker: Broker, protocol: Protocol) -> None:
    options: dict[str, Any] = {"protocol": protocol, "client_id": "elasticd-1", "session_expiry": 600}
    async with listening(broker, TIMED, **options):
        pass
    async with broker.client() as sensor:
        for number in (1, 3, 2):
            await sensor.publish("sensors/shop/web/load", json.dumps(said(number, number)), qos=1)
    async with listening(broker, TIMED, **options) as source:
        await until(lambda: source.reader.describe().received == 3)
        assert source.value() == 3
        assert source.reader.describe().late == 1


async def test_without_a_session_nothing_old_comes(broker: Broker) -> None:
    async with listening(broker, TIMED, client_id="elasticd-1"):
        pass
    await broker.publish("sensors/shop/web/load", said(1, 1))
    async with listening(broker, TIMED, client_id="elasticd-1") as source:
        await broker.publish("sensors/shop/api/load", said(2, 1))
        await until(lambda: source.value("shop/Deployment/api") == 2)
        assert source.value() is None


@both
async def test_two_clients_with_one_id_reconnect_ever_more_slowly(broker: Broker, protocol: Protocol) -> None:
    options: dict[str, Any] = {"protocol": protocol, "client_id": "twin", "wait": False}
    async with listening(broker, **options) as one, listening(broker, **options) as other:
        keepers = [one.reader.keeper, other.reader.keeper]
        troubles: set[str] = set()

        def fought() -> bool:
            troubles.update(keeper.trouble for keeper in keepers)
            return sum(keeper.connections for keeper in keepers) >= 5

        began = time.monotonic()
        await until(fought, 30)
        assert time.monotonic() - began > 1  # without waiting longer each time it would be some hundred by now
    assert any("is client_id another's too?" in trouble for trouble in troubles)


@both
async def test_a_denied_subscription_is_reported_and_harms_no_other(tmp_path: Path, protocol: Protocol) -> None:
    heat = topic("nodes/{node}/heat", series="heat", subject="node")
    async with (
        Broker(tmp_path, denying_lines(tmp_path, "nodes/+/heat")) as broker,
        listening(broker, topic(), heat, protocol=protocol) as source,
    ):
        await broker.publish("sensors/shop/web/load", "1")
        await until(lambda: source.value() == 1)
        faults = (await source.read()).faults
        assert list(faults) == ["heat"]
        assert faults["heat"].startswith("the broker denies SUBSCRIBE to nodes/+/heat: ")
        assert "nodes/+/heat" in source.reader.describe().trouble


async def test_a_subscription_that_was_denied_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mqtt, "AGAIN", 0.05)
    asked: list[str] = []

    class Counting(Link):
        async def subscribe(self, *arguments: Any, **options: Any) -> Any:
            asked.append(str(arguments[0]))
            return await super().subscribe(*arguments, **options)

    monkeypatch.setattr(mqtt, "Link", Counting)
    heat = topic("nodes/{node}/heat", series="heat", subject="node")
    async with (
        Broker(tmp_path, denying_lines(tmp_path, "nodes/+/heat")) as broker,
        listening(broker, topic(), heat) as source,
    ):
        await until(lambda: asked.count("nodes/+/heat") >= 3)
        assert asked.count("sensors/+/+/load") == 1
        assert source.reader.keeper.connections == 1


class Pki:
    """A broker's certificate, its authority, and a stranger's."""

    def __init__(self, folder: Path) -> None:
        self.authority = pki.make_authority(folder)
        self.server = pki.make_server_certificate(folder, "mosquitto", self.authority)
        (folder / "stranger").mkdir()
        self.stranger = pki.make_authority(folder / "stranger")


@both
async def test_over_tls_readings_come(tmp_path: Path, protocol: Protocol) -> None:
    made = Pki(tmp_path)
    own: dict[str, Any] = {"tls": Tls(ca_file=str(made.authority.certificate)), "protocol": protocol}
    async with Broker(tmp_path, tls_lines(made.server, made.authority)) as broker, listening(broker, **own) as source:
        context = aiomqtt.TLSParameters(ca_certs=str(made.authority.certificate))
        async with broker.client(tls_params=context) as sensor:
            for number in range(500):
                await sensor.publish("sensors/shop/web/load", str(number), qos=1)
        await until(lambda: source.value() == 499)
        assert source.reader.describe().received == 500


@pytest.mark.parametrize(
    ("address", "authority", "why"),
    [
        ("127.0.0.1", "stranger", "CERTIFICATE_VERIFY_FAILED"),
        ("127.0.0.1", "system", "CERTIFICATE_VERIFY_FAILED"),
        ("127.0.0.2", "authority", "IP address mismatch"),
    ],
)
async def test_a_broker_that_is_not_who_it_says_is_refused(
    tmp_path: Path, address: str, authority: str, why: str
) -> None:
    made = Pki(tmp_path)
    ca_file = "" if authority == "system" else str(getattr(made, authority).certificate)
    async with (
        Broker(tmp_path, tls_lines(made.server, made.authority), address=address) as broker,
        listening(broker, tls=Tls(ca_file=ca_file), wait=False) as source,
    ):
        await until(lambda: why in source.reader.keeper.trouble)
        assert source.reader.keeper.connections == 0


async def test_there_is_no_way_back_from_tls_to_plain(broker: Broker, tmp_path: Path) -> None:
    made = Pki(tmp_path)
    tls = Tls(ca_file=str(made.authority.certificate))
    async with listening(broker, tls=tls, wait=False) as source:
        await until(lambda: "not connected yet" not in source.reader.keeper.trouble, 20)
        assert source.reader.keeper.connections == 0


@both
async def test_the_password_is_read_when_needed_and_never_shown(
    tmp_path: Path, protocol: Protocol, caplog: pytest.LogCaptureFixture
) -> None:
    secret = tmp_path / "password"
    secret.write_text("wrong")
    secret.chmod(0o600)
    options: dict[str, Any] = {"username": "daemon", "password_file": str(secret), "protocol": protocol, "wait": False}
    lines = await password_lines(tmp_path, {"daemon": CANARY})
    async with Broker(tmp_path, lines) as broker, listening(broker, **options) as source:
        await until(lambda: "Not authorized" in source.reader.keeper.trouble)
        secret.write_text(CANARY + "\n")
        await source.subscribed()
        shown = [caplog.text, repr(await source.read()), repr(source.reader.describe())]
    assert CANARY not in "".join(shown)


async def test_a_group_shares_the_messages(broker: Broker) -> None:
    async with listening(broker, share="daemons") as one, listening(broker, share="daemons") as other:
        async with broker.client() as sensor:
            for number in range(100):
                await sensor.publish(f"sensors/shop/w{number}/load", "1", qos=1)
        got = [one.reader, other.reader]
        await until(lambda: sum(reader.describe().received for reader in got) == 100)
        assert all(reader.describe().received > 20 for reader in got)
        theirs = (await other.read()).workloads["load"].keys()
        assert (await one.read()).workloads["load"].keys().isdisjoint(theirs)


async def test_a_last_will_reaches_everyone_in_a_group(broker: Broker) -> None:
    async with listening(broker, TIMED, share="daemons") as one, listening(broker, TIMED, share="daemons") as other:
        for number in range(10):
            await broker.publish(f"sensors/shop/w{number}/load", said(1, number))
            await broker.publish(f"sensors/shop/w{number}/status", "offline")
        slots = [source.reader._table.slot("workload", "load") for source in (one, other)]
        await until(lambda: all(len(slot.away) == 10 for slot in slots))
        assert {one.measured for slot in slots for (one,) in slot.samples.values()} == {0}


async def test_a_broker_that_hangs_is_noticed(broker: Broker) -> None:
    async with listening(broker, keepalive=5) as source:
        os.kill(broker.pid, signal.SIGSTOP)
        await until(lambda: not source.reader.keeper.connected, 20)
        assert list((await source.read()).faults) == ["load"]
        os.kill(broker.pid, signal.SIGCONT)
        await source.subscribed()


@both
async def test_what_is_delivered_again_is_counted_once(
    broker: Broker, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    links: list[Link] = []

    class Deaf(Link):
        """A link that at first never acknowledges."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            links.append(self)

        def _acknowledge(self, client: Any, acknowledged: list[bytes]) -> None:
            if self is not links[0]:
                super()._acknowledge(client, acknowledged)

    monkeypatch.setattr(mqtt, "Link", Deaf)
    options: dict[str, Any] = {"protocol": protocol, "client_id": "elasticd-1", "session_expiry": 600}
    async with listening(broker, TIMED, **options) as source:
        await broker.publish("sensors/shop/web/load", said(5, 1))
        await until(lambda: source.value() == 5)
        links[0]._client._sock_close()
        links[0]._broken(ConnectionResetError())
        await until(lambda: source.reader.describe().received == 2)
        described = source.reader.describe()
        assert (described.duplicates, described.late, described.refused) == (1, 0, {})
        assert len(source.woken) == 1


async def test_with_version_5_the_broker_withholds_oversized_messages(broker: Broker) -> None:
    async with listening(broker) as source:
        await broker.publish("sensors/shop/web/load", b"1" * 10_000_000)
        await broker.publish("sensors/shop/api/load", "1")
        await until(lambda: source.value("shop/Deployment/api") == 1)
        assert source.reader.describe().received == 1
        assert source.reader.describe().refused == {}


async def test_with_version_3_what_is_too_large_is_refused(broker: Broker) -> None:
    async with listening(broker, protocol="3.1.1") as source:
        await broker.publish("sensors/shop/web/load", b"1" * 10_000_000)
        await broker.publish("sensors/shop/api/load", "1")
        await until(lambda: source.value("shop/Deployment/api") == 1, 20)
        assert source.reader.describe().refused == {"size": 1}
        assert source.reader.keeper.connections == 1


async def test_garbage_and_hostile_topics_are_counted_and_change_nothing(broker: Broker) -> None:
    hostile = ["Shop/web", "shop/" + "w" * 300, '{"a"}/x', "../..", "shop/wéb", "shop/web\u202e", " / "]
    async with listening(broker, topic(payload="v")) as source:
        async with broker.client() as sensor:
            for name in hostile:
                await sensor.publish(f"sensors/{name}/load", '{"v": 1}', qos=1)
            for payload in (b"", b"\xff\xfe{", b'{"v": "1"}', b'{"v": NaN}', b"[" * 100_000):
                await sensor.publish("sensors/shop/web/load", payload, qos=1)
            await sensor.publish("sensors/shop/api/load", '{"v": 3}', qos=1)
        await until(lambda: source.value("shop/Deployment/api") == 3)
        described = source.reader.describe()
        assert described.refused == {"name": len(hostile), "json": 4, "value": 1}
        assert (described.subjects, described.connected) == (1, True)


async def test_a_flood_leaves_memory_bounded_and_the_loop_responsive(broker: Broker) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    batch = topic("agents/{node}", subject="pod", payload="$", items="pods", names={"namespace": "$key", "pod": "$key"})
    pods = {f"pod-{index}": index for index in range(5_000)}
    async with listening(broker, batch, queue=20) as source, AsyncExitStack() as stack:
        sensors = [await stack.enter_async_context(broker.client()) for _ in range(4)]

        async def flood(sensor: aiomqtt.Client, number: int) -> None:
            for turn in range(60):
                payload = json.dumps({"pods": dict.fromkeys(pods, turn)})
                await sensor.publish(f"agents/n{number}", payload, qos=1)

        # Of the process's own CPU time: on a busy machine others make it wait for longer.
        lags: list[float] = []
        flooding = [asyncio.create_task(flood(sensor, number)) for number, sensor in enumerate(sensors)]
        while not all(task.done() for task in flooding):
            began = time.process_time()
            await asyncio.sleep(0.005)
            lags.append(time.process_time() - began)
        await asyncio.gather(*flooding)
        await until(lambda: source.reader.describe().received >= 200 and not source.reader._inbox, 30)
        readings = await source.read()
        assert {one.value for (one,) in readings.pods["load"].values()} == {59}
        assert source.reader.describe().subjects == 5_000
    assert max(lags) < 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000


async def test_a_busy_second_of_the_daemon_loses_no_message(broker: Broker) -> None:
    async with listening(broker, topic(payload="value", time="at", sequence="n")) as source:
        publishing = asyncio.create_task(publish_numbers(broker, 5000, 2, 1000))
        await until(lambda: source.reader.describe().received > 1000)
        time.sleep(1)  # noqa: ASYNC251 - to keep the loop from everything else is the point
        sent = await publishing
        await until(lambda: source.reader.describe().decoded >= sent)
        described = source.reader.describe()
        assert (sent, described.received, described.late, described.duplicates) == (10_000, sent, 0, 0)


async def test_a_flood_sheds_and_counts_the_older_messages_per_topic(tmp_path: Path) -> None:
    """Each message feeds forty series, so that a tenth of them can be decoded."""
    topics = [topic(series=f"load-{number}", payload="value", time="at", sequence="n") for number in range(40)]
    async with (
        Broker(tmp_path, [*OPEN, "sys_interval 1"]) as broker,
        listening(broker, *topics, queue=1000) as source,
        broker.client() as watcher,
    ):
        sent = await publish_numbers(broker, 10_000, 3, 100)
        await until(lambda: source.reader.describe().received == sent, 30)
        await until(lambda: not source.reader._inbox, 30)
        described = source.reader.describe()
        assert described.shed > sent // 10
        assert described.decoded + described.shed == sent
        readings = await source.read()
        for series in ("load-0", "load-39"):
            values = {key: one.value for key, (one,) in readings.workloads[series].items()}
            assert values == {f"shop/Deployment/w{number % 100}": number for number in range(sent - 100, sent)}
        await watcher.subscribe("$SYS/broker/publish/messages/dropped")
        async for message in watcher.messages:
            assert int(message.payload) == 0
            break


async def test_what_a_broker_drops_is_missed_where_numbers_are_consecutive(tmp_path: Path) -> None:
    one = topic(payload="value", sequence="n", consecutive=True)
    async with (
        Broker(tmp_path, [*OPEN, "max_queued_messages 10", "max_inflight_messages 1"]) as broker,
        listening(broker, one, protocol="3.1.1") as source,
    ):
        sent = await publish_numbers(broker, 20_000, 0.5, 1)
        await broker.publish("sensors/shop/w0/load", {"value": sent, "n": sent})
        await until(lambda: source.value("shop/Deployment/w0") == sent)
        described = source.reader.describe()
        assert described.missed > 0
        assert described.shed == 0
        assert described.received + described.missed >= sent  # what came before the first is not known


async def test_a_broker_that_never_answers_is_given_up_and_told(tmp_path: Path) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    port = free_port()
    async with await asyncio.start_server(silent, "127.0.0.1", port):
        source = Mqtt(host="127.0.0.1", port=port, topic=(topic(),))
        async with source.open(site()) as reader:
            assert isinstance(reader, Listening)
            await until(lambda: "timed out" in reader.keeper.trouble, 20)
