"""The proxies of the campaign spoil what a plan says, and pass all else on as it is."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.faults import injector
from tests.faults.injector import Faults, HttpInjector, MqttInjector, Order, packet
from tests.faults.plan import Fault, Server

PATH = "/api/v1/query"
BRIEF = 0.3
"""Seconds for which those faults last whose end is waited for."""
AGES = 600.0
"""Seconds for which the others do: longer than a test."""


def fault(kind: Any, server: Server, verb: str = "*", **more: Any) -> Fault:
    lasts = BRIEF if server == "MQTT" or kind in ("silent", "drip") else AGES
    return Fault(0, kind, verb, "*", 0.0, lasts, server=server, **more)


@asynccontextmanager
async def asked(*faults: Fault) -> AsyncIterator[Callable[[], Awaitable[tuple[int, str]]]]:
    """What a server says through the proxy: `1`, then `2`, and so on."""
    count = iter(range(1, 100))

    async def answer(_: web.Request) -> web.Response:
        return web.json_response(next(count))

    app = web.Application()
    app.router.add_post(PATH, answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    ways = Faults("Prometheus", 0, 1)
    async with (
        HttpInjector(f"http://127.0.0.1:{runner.addresses[0][1]}", ways) as proxy,
        aiohttp.ClientSession(proxy.url) as session,
    ):
        ways.begin(faults)

        async def ask() -> tuple[int, str]:
            # A POST, as queries are: aiohttp sends no second one by itself.
            async with session.post(PATH) as response:
                return response.status, await response.text()

        yield ask
    await runner.cleanup()


async def codes(ask: Callable[[], Awaitable[tuple[int, str]]], times: int) -> list[int | str]:
    """The texts of answers, a code that is not 200, or "none" for an answer that does not come, or not whole."""
    found: list[int | str] = []
    for _ in range(times):
        try:
            code, text = await ask()
        except aiohttp.ClientError:
            found.append("none")
        else:
            found.append(text if code == 200 else code)
    return found


HTTP = [
    pytest.param([], ["1", "2", "3", "4"], id="none"),
    pytest.param([fault("refused", "Prometheus", skipped=1, most=2)], ["1", "none", "none", "2"], id="refused"),
    pytest.param([fault("lost", "Prometheus", skipped=1, most=1)], ["1", "none", "3", "4"], id="lost"),
    pytest.param([fault("status", "Prometheus", code=422, most=1)], [422, "1", "2", "3"], id="422"),
    pytest.param([fault("expired", "Prometheus", skipped=1, most=1)], ["1", 410, "2", "3"], id="expired"),
    pytest.param([fault("truncated", "Prometheus", most=1)], ["none", "2", "3", "4"], id="truncated"),
    pytest.param([fault("drip", "Prometheus", most=1)], ["none", "2", "3", "4"], id="drip"),
    pytest.param([fault("silent", "Prometheus", most=1)], ["none", "1", "2", "3"], id="silent"),
    pytest.param([fault("old answer", "Prometheus", skipped=2, most=1)], ["1", "2", "1", "4"], id="old answer"),
    pytest.param([fault("late", "Prometheus", most=1, value=0.01)], ["1", "2", "3", "4"], id="late"),
    pytest.param([fault("refused", "MQTT")], ["1", "2", "3", "4"], id="of another server"),
]


@pytest.mark.parametrize(("faults", "answers"), HTTP)
def test_answers_are_spoilt_by_count(
    monkeypatch: pytest.MonkeyPatch, faults: list[Fault], answers: list[int | str]
) -> None:
    monkeypatch.setattr(injector, "DRIP", 0.0)

    async def run() -> list[int | str]:
        async with asked(*faults) as ask:
            return await codes(ask, len(answers))

    assert asyncio.run(run()) == answers


def event(uid: str, kind: str = "MODIFIED") -> bytes:
    return json.dumps({"type": kind, "object": {"metadata": {"uid": uid} if uid else {}}}).encode() + b"\n"


A, A_GONE, B, MARK = event("a"), event("a", "DELETED"), event("b"), event("", "BOOKMARK")


@pytest.mark.parametrize(
    ("come", "passed"),
    [
        pytest.param([(A, False), (B, False)], [A, B], id="nothing is reordered"),
        pytest.param([(A, True), (b"", True), (B, True), (A, False)], [b"", b"", B + A, A], id="of another object"),
        pytest.param([(A, True), (A_GONE, True)], [b"", A + A_GONE], id="of the same object"),
        pytest.param([(A, True), (b"", False)], [b"", A], id="nothing comes until it is over"),
        pytest.param([(A, True), (MARK, True)], [b"", A + MARK], id="a bookmark"),
        pytest.param([(MARK, True), (A, False)], [MARK, A], id="a bookmark before"),
        pytest.param([(A + B, True), (A[:9], True), (A[9:], True)], [A + B, A[:9], A[9:]], id="no single whole event"),
        pytest.param([(A, True), (B[:9], False), (B[9:], False)], [b"", A + B[:9], B[9:]], id="half of the next"),
    ],
)
def test_an_event_is_passed_by_one_of_another_object(come: list[tuple[bytes, bool]], passed: list[bytes]) -> None:
    order = Order()
    assert [order.passed(chunk, waits=waits) for chunk, waits in come] == passed


CONNECT, SUBSCRIBE, PUBLISH = b"\x10\x02co", b"\x82\x02su", b"\x32\x03pub"
LONG = b"\x30\x80\x01" + b"x" * 128
SENT = CONNECT + SUBSCRIBE + PUBLISH
MQTT = [
    pytest.param(None, SENT, id="none"),
    pytest.param(fault("refused", "MQTT", "SUBSCRIBE"), CONNECT, id="refused"),
    pytest.param(fault("truncated", "MQTT", "PUBLISH"), CONNECT + SUBSCRIBE + PUBLISH[:2], id="truncated"),
    pytest.param(fault("silent", "MQTT", "PUBLISH"), CONNECT + SUBSCRIBE, id="silent"),
    pytest.param(fault("twice", "MQTT", "PUBLISH"), SENT + b"\x3a\x03pub", id="twice"),
    pytest.param(fault("drip", "MQTT"), SENT, id="drip"),
    pytest.param(fault("late", "MQTT", value=0.01), SENT, id="late"),
]


@pytest.mark.parametrize(("spoilt", "arrives"), MQTT)
def test_packets_are_spoilt_by_kind(spoilt: Fault | None, arrives: bytes) -> None:
    received = asyncio.Queue[bytes]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(100):
                received.put_nowait(data)
        received.put_nowait(b"")
        writer.close()

    async def run() -> bytes:
        ways = Faults("MQTT", 0, 1)
        async with (
            await asyncio.start_server(serve, "127.0.0.1", 0) as server,
            MqttInjector(server.sockets[0].getsockname()[1], ways) as proxy,
        ):
            ways.begin([spoilt] if spoilt else [])
            _, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            writer.write(SENT)
            found = b""
            while len(found) < len(arrives):
                found += await received.get()
            writer.write_eof()
            while data := await received.get():
                found += data
            writer.close()
        return found

    assert asyncio.run(run()) == arrives


@pytest.mark.parametrize("data", [CONNECT, LONG, b"\xc0\x00"], ids=["short", "long", "empty"])
def test_a_packet_is_read_to_its_end(data: bytes) -> None:
    async def run() -> bytes:
        reader = asyncio.StreamReader()
        reader.feed_data(data + PUBLISH)
        return await packet(reader)

    assert asyncio.run(run()) == data
