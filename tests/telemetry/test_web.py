"""The status pages: read-only, on a port of their own."""

import asyncio
import logging
import socket
import struct
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp.http_exceptions import BadStatusLine

from elasticd.base.errors import UnavailableError
from elasticd.telemetry.connections import RequestLog
from elasticd.telemetry.events import Events
from elasticd.telemetry.web import Pages, serve

HOST = "127.0.0.1"


class Told:
    """What the pages are told."""

    health, readiness = "", ""

    async def query(self, series: str, workload: str) -> object:
        return [series, workload]

    async def nodes(self, node: str) -> object:
        return await self.slow_nodes(node) if node == "slow" else [{"node": node or "all"}]

    async def slow_nodes(self, node: str) -> object:
        return node

    async def moves(self) -> object:
        return [{"step": "gone"}]

    async def pod(self, named: str) -> object:
        return [named]

    async def history(self, workload: str, policy: str, seconds: float) -> object:
        if workload.endswith("/none"):
            raise UnavailableError("the journal has nothing")
        return [workload, policy, str(seconds)]

    events = Events(lambda: {"leading": True}, list, every=0.01)

    def pages(self) -> Pages:
        return Pages(
            metrics=lambda: lambda: b"elasticd_leader 1.0\n",
            health=lambda: self.health,
            readiness=lambda: self.readiness,
            status=lambda: {"leading": True, "decisions": []},
            sources=lambda: [{"name": "cpu"}],
            query=self.query,
            nodes=self.nodes,
            moves=self.moves,
            pod=self.pod,
            history=self.history,
            explain=self.history,
            plugins=lambda: [{"name": "hpa"}],
            events=self.events,
        )


class Client:
    def __init__(self, told: Told, address: str, session: aiohttp.ClientSession) -> None:
        self.told, self.address, self.session = told, address, session

    async def __call__(self, path: str, method: str = "GET", **more: Any) -> tuple[int, str]:
        async with self.session.request(method, self.address + path, **more) as answer:
            return answer.status, await answer.text()


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    told = Told()
    async with serve(told.pages(), HOST, 0) as address, aiohttp.ClientSession() as session:
        yield Client(told, address, session)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/metrics", "elasticd_leader 1.0\n"),
        ("/healthz", "ok\n"),
        ("/readyz", "ok\n"),
        ("/status", '{"leading":true,"decisions":[]}'),
        ("/sources", '[{"name":"cpu"}]'),
        ("/nodes", '[{"node":"all"}]'),
        ("/nodes?node=a%2Fb", '[{"node":"a/b"}]'),
        ("/query?series=cpu&workload=shop%2FDeployment%2Fweb", '["cpu","shop/Deployment/web"]'),
        ("/query", '["",""]'),
        ("/pod?pod=shop%2Fweb", '["shop/web"]'),
        ("/pod", '[""]'),
        ("/plugins", '[{"name":"hpa"}]'),
        ("/history?workload=shop/Deployment/web&seconds=60", '["shop/Deployment/web","","60.0"]'),
        ("/explain?workload=shop/Deployment/web&policy=a", '["shop/Deployment/web","a","inf"]'),
        ("/status?pretty", '{"leading":true,"decisions":[]}'),
    ],
)
async def test_a_page_shows_the_record_it_was_given(client: Client, path: str, text: str) -> None:
    assert await client(path) == (200, text)


@pytest.mark.parametrize(("path", "what"), [("/healthz", "health"), ("/readyz", "readiness")])
async def test_what_is_wrong_is_said_with_503(client: Client, path: str, what: str) -> None:
    setattr(client.told, what, "no tick for 31 s")
    assert await client(path) == (503, "no tick for 31 s\n")
    setattr(client.told, what, "")
    assert (await client(path))[0] == 200


async def test_each_page_has_the_content_type_its_readers_expect(client: Client) -> None:
    async with client.session.get(client.address + "/metrics") as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    async with client.session.get(client.address + "/status") as answer:
        assert answer.headers["Content-Type"].startswith("application/json")


@pytest.mark.parametrize(
    "path",
    [
        "/page",
        "/page/",
        "/page/none.js",
        "/page/../web.py",
        "/page/%2e%2e%2fweb.py",
        "/metrics/",
        "/../../etc/passwd",
        "/%2e%2e/etc/passwd",
        "/status/x",
        "/" + "a" * 4000,
    ],
)
async def test_there_is_nothing_else(client: Client, path: str) -> None:
    assert (await client(path))[0] == 404


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        pytest.param("/history", 400, "workload: must be NAMESPACE/KIND/NAME\n", id="no workload"),
        pytest.param("/explain?workload=a/b/c&at=noon", 400, "at: must be a number of seconds\n", id="no time"),
        pytest.param("/history?workload=a/b/none", 503, "the journal has nothing\n", id="nothing known"),
    ],
)
async def test_a_question_that_has_no_answer_is_told_why(client: Client, path: str, status: int, text: str) -> None:
    assert await client(path) == (status, text)


async def test_who_asks_the_same_meanwhile_shares_the_answer(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, came, go = list[str](), asyncio.Event(), asyncio.Event()

    async def nodes(node: str) -> object:
        asked.append(node)
        came.set()
        await go.wait()
        return node

    monkeypatch.setattr(client.told, "slow_nodes", nodes)
    answers = [asyncio.create_task(client("/nodes?node=slow")) for _ in range(3)]
    await came.wait()
    await asyncio.sleep(0.05)
    go.set()
    assert {await answer for answer in answers} == {(200, '"slow"')}
    assert asked == ["slow"]


@pytest.mark.parametrize("path", ["/", "/page/main.js", "/page/page.css", "/status", "/metrics", "/nowhere"])
async def test_every_answer_forbids_what_the_page_needs_not(client: Client, path: str) -> None:
    async with client.session.get(client.address + path) as answer:
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self';")
        assert "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


async def test_a_browser_that_has_a_file_is_not_sent_it(client: Client) -> None:
    async with client.session.get(client.address + "/page/main.js") as answer:
        assert (answer.status, answer.content_type) == (200, "text/javascript")
        tag = answer.headers["ETag"]
    assert await client("/page/main.js", headers={"If-None-Match": tag}) == (304, "")
    assert (await client("/page/main.js", headers={"If-None-Match": '"another"'}))[0] == 200


async def test_a_reader_of_events_gets_everything_and_then_changes(client: Client) -> None:
    running = asyncio.create_task(client.told.events.run())
    async with asyncio.timeout(10), client.session.get(client.address + "/events") as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        lines = [line async for line in aiter_first(answer.content, 6)]
    running.cancel()
    assert [line for line in lines if line.startswith(b"event")] == [b"event: all\n", b"event: changes\n"]


async def aiter_first(content: aiohttp.StreamReader, count: int) -> AsyncIterator[bytes]:
    """The first lines of an answer that has no end."""
    for _ in range(count):
        yield await content.readline()


MALFORMED = {
    "version": b"GET / HTTP/9.9\r\n\r\n",
    "long URL": b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
    "long header": b"GET / HTTP/1.1\r\nA: " + b"a" * 20_000 + b"\r\n\r\n",
    "many headers": b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 500 + b"\r\n",
    "header": b"GET / HTTP/1.1\r\nA b\r\n\r\n",
    "length": b"POST / HTTP/1.1\r\nContent-Length: " + b"9" * 400 + b"\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "chunks": b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nno\r\n0\r\n\r\n",
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
}


async def test_malformed_requests_log_a_line_and_no_traceback(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    port = int(client.address.rpartition(":")[2])
    caplog.set_level(logging.INFO)
    for sent in MALFORMED.values():
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(sent)
        writer.write_eof()
        await reader.read()
        writer.close()
    (line,) = caplog.records
    assert (line.name, line.levelname, line.exc_info) == ("aiohttp.server", "WARNING", None)
    assert line.getMessage().startswith(f"malformed request from {HOST}: ")
    assert (await client("/healthz"))[0] == 200


def test_malformed_requests_are_counted_each_minute(caplog: pytest.LogCaptureFixture) -> None:
    times = iter([0.0, 1.0, 2.0, 60.0])
    requests = RequestLog(lambda: next(times))
    for _ in range(4):
        requests.exception("Error from %s", HOST, exc_info=BadStatusLine("a\nb"))
    messages = [record.getMessage() for record in caplog.records]
    assert messages[1] == f"{messages[0]} (2 more before it)"
    assert "\n" not in messages[0]


async def test_a_client_that_resets_its_connection_logs_nothing(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    port = int(client.address.rpartition(":")[2])
    caplog.set_level(logging.INFO)
    for _ in range(20):
        gone = socket.create_connection((HOST, port))
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        gone.sendall(b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n")
        gone.close()
        assert (await client("/healthz"))[0] == 200
    assert [record.getMessage() for record in caplog.records] == []


def test_an_error_of_a_page_keeps_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    error = RuntimeError("no")
    RequestLog().exception("Error from %s", HOST, exc_info=error)
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[1] is error


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", ["/", "/page/main.js", "/events", "/metrics", "/healthz", "/readyz", "/status"])
async def test_nothing_can_be_written(client: Client, method: str, path: str) -> None:
    assert (await client(path, method, data=b"x" * 1_000))[0] == 405


@pytest.mark.parametrize(
    ("host", "status"),
    [
        pytest.param("127.0.0.1:9464", 200, id="address"),
        pytest.param("localhost", 200, id="name of this machine"),
        pytest.param("[::1]:9464", 200, id="address of IPv6"),
        pytest.param("10.1.2.3", 200, id="another address"),
        pytest.param("evil.example", 421, id="another name"),
        pytest.param("localhost.evil.example:9464", 421, id="another name that begins alike"),
        pytest.param("", 421, id="none"),
    ],
)
async def test_on_loopback_no_other_host_name_is_answered(client: Client, host: str, status: int) -> None:
    assert (await client("/status", headers={"Host": host}))[0] == status


async def test_metrics_for_other_machines_are_read_by_any_name() -> None:
    async with serve(Told().pages(), "0.0.0.0", 0) as address, aiohttp.ClientSession() as session:
        url = f"http://{HOST}:{address.rpartition(':')[2]}/metrics"
        async with session.get(url, headers={"Host": "elasticd.elasticd.svc"}) as answer:
            assert answer.status == 200


async def test_a_port_in_use_is_reported_in_one_line() -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(
            UnavailableError, match=rf"^http: {HOST}:{port} must be free to listen on, is not: .*$"
        ) as told:
            async with serve(Told().pages(), HOST, port):
                pass
    assert "\n" not in str(told.value)
    assert told.value.exit_code == 69


async def test_a_foreign_host_to_listen_on_is_one_error_line() -> None:
    with pytest.raises(UnavailableError, match=r"^http: 192\.0\.2\.1:0 must be free to listen on"):
        async with serve(Told().pages(), "192.0.2.1", 0):
            pass


async def test_its_port_is_free_again_afterwards() -> None:
    async with serve(Told().pages(), HOST, 0) as address:
        port = int(address.rpartition(":")[2])
    async with serve(Told().pages(), HOST, port):
        pass


async def test_those_who_connect_and_say_nothing_keep_nobody_waiting(client: Client) -> None:
    port = int(client.address.rpartition(":")[2])
    silent = [await asyncio.open_connection(HOST, port) for _ in range(200)]
    for _, writer in silent:
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Slow: ")
    assert await client("/healthz") == (200, "ok\n")
    for _, writer in silent:
        writer.close()
        await writer.wait_closed()


async def test_those_who_stay_connected_do_not_hold_up_the_end() -> None:
    async with asyncio.timeout(5), aiohttp.ClientSession() as session:
        async with serve(Told().pages(), HOST, 0) as address:
            async with session.get(address + "/healthz") as answer:
                assert answer.status == 200
            _, writer = await asyncio.open_connection(HOST, int(address.rpartition(":")[2]))
        writer.close()
