"""The pages under attack: who opens many connections, or sends nothing, keeps nobody else out."""

import asyncio
import contextlib
import resource
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from elasticd.telemetry import connections
from elasticd.telemetry.connections import AT_WORK, MOST, Connections, most_connections
from tests.kit.daemons import command, daemon, policy, write

HOST = "127.0.0.1"
ASK = b"GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Peer:
    """Somebody's connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, page: bytes = b"healthz") -> int:
        """The status of an answer; 0: there is none."""
        self.writer.write(ASK % page)
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return 0
        length = next(line for line in head.lower().splitlines() if line.startswith(b"content-length"))
        await self.reader.readexactly(int(length.partition(b":")[2]))
        return int(head.split()[1])

    async def closed(self) -> bool:
        """Wait until the server has closed it."""
        with contextlib.suppress(ConnectionError):
            return await self.reader.read() == b""
        return True


class Server:
    """A server with a probe and a page that takes its time."""

    def __init__(self, port: int, stack: contextlib.AsyncExitStack) -> None:
        self.port, self._stack = port, stack
        self.arrived = asyncio.Semaphore(0)
        self.go = asyncio.Event()

    async def connect(self) -> Peer:
        """One more connection."""
        reader, writer = await asyncio.open_connection(HOST, self.port)
        self._stack.callback(writer.close)
        return Peer(reader, writer)

    async def slow(self, _: web.Request) -> web.Response:
        self.arrived.release()
        await self.go.wait()
        return web.Response(text="at last")

    async def busy(self, count: int) -> list[asyncio.Task[int]]:
        """So many requests for the slow page, once all are being answered."""
        peers = [await self.connect() for _ in range(count)]
        asking = [asyncio.create_task(peer.ask(b"slow")) for peer in peers]
        for _ in range(count):
            await self.arrived.acquire()
        return asking


@asynccontextmanager
async def serving(most: int, headers: float = 60.0) -> AsyncIterator[Server]:
    bounded = Connections(most, headers)
    async with contextlib.AsyncExitStack() as stack:
        app = web.Application(middlewares=[bounded.attend])
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        server = Server(0, stack)
        app.router.add_get("/slow", server.slow)

        async def probe(_: web.Request) -> web.Response:
            return web.Response(text="ok")

        app.router.add_get("/healthz", probe)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        assert runner.server is not None
        server.port = await stack.enter_async_context(bounded.accepted(runner.server, HOST, 0))
        yield server


async def test_who_has_waited_longest_goes_for_a_newcomer() -> None:
    async with serving(most=3) as server:
        first, second, third = [await server.connect() for _ in range(3)]
        assert await first.ask() == 200  # so it has waited less than the others
        assert await (await server.connect()).ask() == 200
        assert await second.closed()
        assert [await peer.ask() for peer in (first, third)] == [200, 200]


async def test_a_newcomer_is_refused_where_all_are_at_work() -> None:
    async with serving(most=3) as server:
        asking = await server.busy(3)
        assert await (await server.connect()).closed()
        server.go.set()
        assert await asyncio.gather(*asking) == [200, 200, 200]
        assert await (await server.connect()).ask() == 200


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nHost: local", id="half a head"),
    ],
)
async def test_who_sends_no_request_is_closed(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(connections, "SWEEP", 0.02)
    async with serving(most=3, headers=0.1) as server:
        peer = await server.connect()
        peer.writer.write(sent)
        assert await peer.closed()


CHUNKED = b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "begin",
    [
        pytest.param(CHUNKED + b"fffff\r\n", id="a chunk that is none"),
        pytest.param(CHUNKED + b"fffffff\r\n", id="a long chunk"),
        pytest.param(ASK % b"slow", id="more than was asked"),
        pytest.param(b"GET /" + b"x" * 100, id="an endless line"),
    ],
)
async def test_who_sends_more_than_a_request_needs_is_closed(begin: bytes) -> None:
    """aiohttp keeps what it cannot read."""
    async with serving(most=3) as server:
        peer = await server.connect()
        peer.writer.write(begin + b"a" * connections.MOST_SENT)
        assert await peer.closed()
        assert await (await server.connect()).ask() == 200


async def test_what_many_requests_send_together_is_not_limited() -> None:
    async with serving(most=3) as server:
        peer = await server.connect()
        for _ in range(2 * connections.MOST_SENT // len(ASK % b"healthz")):
            assert await peer.ask() == 200


async def test_a_request_may_take_longer_than_its_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SWEEP", 0.02)
    async with serving(most=3, headers=0.1) as server:
        (asking,) = await server.busy(1)
        assert await (await server.connect()).closed()  # which came later, and sent nothing
        server.go.set()
        assert await asking == 200


async def test_who_goes_before_the_answer_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(most=3) as server:
        peer = await server.connect()
        peer.writer.write(ASK % b"slow")
        await server.arrived.acquire()
        peer.writer.transport.abort()
        assert await (await server.connect()).ask() == 200  # by now the server has read that the first is gone
        server.go.set()
        assert await (await server.connect()).ask() == 200  # and by now, has tried to answer the first
    assert caplog.records == []


@pytest.mark.slow
async def test_probes_are_answered_beside_too_many_requests() -> None:
    async with serving(most=MOST) as server:
        asking = await server.busy(AT_WORK)
        assert [await (await server.connect()).ask(page) for page in (b"slow", b"healthz")] == [503, 200]
        refused = await server.connect()
        for _ in range(2 * connections.MOST_SENT // len(ASK % b"slow")):
            assert await refused.ask(b"slow") == 503, "what several requests sent together is not limited"
        server.go.set()
        assert set(await asyncio.gather(*asking)) == {200}
        assert await (await server.connect()).ask(b"slow") == 200


async def test_closed_connections_make_room() -> None:
    async with serving(most=2) as server:
        for _ in range(10):
            peer = await server.connect()
            assert await peer.ask() == 200
            peer.writer.close()
        kept = await server.connect()
        assert await kept.ask() == 200


@pytest.mark.parametrize(
    ("files", "most"),
    [(64, 16), (8, 4), (1024, 256), (1 << 20, MOST), (resource.RLIM_INFINITY, MOST)],
    ids=["few", "hardly any", "the usual", "many", "any number"],
)
def test_connections_leave_files_to_everything_else(monkeypatch: pytest.MonkeyPatch, files: int, most: int) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    assert most_connections() == most


@pytest.mark.slow
def test_a_daemon_with_few_files_survives_many_connections(tmp_path: Path) -> None:
    with daemon(tmp_path, files=64) as running, contextlib.ExitStack() as stack:
        port = int(running.address.rpartition(":")[2])
        for count in range(200):
            silent = stack.enter_context(contextlib.closing(socket.create_connection((HOST, port), timeout=5)))
            silent.sendall(b"GET /status HTTP/1.1\r\n" if count % 2 else b"\x16\x03\x01 no HTTP\r\n\r\n")
            if count % 50 == 0:
                assert running.get("/healthz") == "ok\n"
        running.replicas(4)
        assert running.process.poll() is None
        assert len(running.log) < 30_000, running.log[:2000]


@contextlib.contextmanager
def many_files() -> Iterator[None]:
    """This process may open as many files as the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def drips(port: int) -> None:
    """A connection on which a request comes a byte a second; another one whenever it is closed."""
    while True:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection(HOST, port)
            with contextlib.closing(writer):
                for byte in b"GET /status HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100:
                    writer.write(bytes([byte]))
                    await writer.drain()
                    await asyncio.sleep(1)
        await asyncio.sleep(0.5)


@pytest.mark.slow
async def test_1100_slow_connections_silence_no_probe(tmp_path: Path) -> None:
    with many_files(), daemon(tmp_path, files=16384) as running:
        await asyncio.to_thread(running.replicas, 4)
        port = int(running.address.rpartition(":")[2])
        slow = [asyncio.create_task(drips(port)) for _ in range(1100)]
        begun = len(running.log)
        for _ in range(10):
            await asyncio.sleep(1)
            async with asyncio.timeout(5):
                assert await asyncio.to_thread(running.get, "/healthz") == "ok\n"
        assert not any(one.done() for one in slow), "they go on all the time"
        for one in slow:
            one.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        assert len(running.log) - begun < 30_000
        assert await asyncio.to_thread(running.stop) == 0


@pytest.mark.slow
def test_a_daemon_with_too_few_files_says_so(tmp_path: Path) -> None:
    run = command("run", "--config", write(tmp_path, web=policy()))
    limited = ["sh", "-c", 'ulimit -n 32; exec "$@"', "sh", *run]
    ended = subprocess.run(limited, check=False, capture_output=True, text=True)
    problem = "open files (ulimit -n, LimitNOFILE): must be >= 64, is 32\n"
    assert (ended.returncode, ended.stderr.partition(" ERROR ")[2]) == (69, problem)
