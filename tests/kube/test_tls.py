"""A daemon beside a genuine Prometheus and a genuine broker that cannot prove who they are: it changes nothing by what
they say, tells why in a line, speaks nothing but TLS, and reads them once they can."""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.kit import daemons
from tests.kube import pki
from tests.kube.broker import Broker, tls_lines
from tests.kube.pki import Certificate
from tests.kube.processes import free_port
from tests.kube.prometheus_server import PrometheusServer

PROMETHEUS = """
[[source]]
type = "prometheus"
url = "https://127.0.0.1:{port}"
ca_file = "{authority}"
every = 0.5
series = [{{ name = "queue", query = "queue" }}]
"""
MQTT = """
[[source]]
type = "mqtt"
host = "127.0.0.1"
port = {port}
tls = {{ ca_file = "{authority}" }}

[[source.topic]]
topic = "sensors/{{namespace}}/{{workload}}/queue"
series = "queue"
subject = "workload"
"""
FLAWS = [
    pytest.param(
        "stranger", "(self-signed certificate|unable to get local issuer|unable to get issuer)", id="authority"
    ),
    pytest.param("name", "mismatch", id="name"),
    pytest.param("expired", "certificate has expired", id="expired"),
]
HANDSHAKE = b"\x16"
"""The first byte of TLS: whoever sends it waits for the other to prove itself before anything else."""
Say = Callable[[int], None]
"""Lets the server say that so many messages wait."""


class Certificates:
    """An authority, and what servers have from it or from a stranger."""

    def __init__(self, folder: Path) -> None:
        (folder / "stranger").mkdir(parents=True)
        self._folder = folder
        self.authority, self._stranger = pki.make_authority(folder), pki.make_authority(folder / "stranger")

    def certificate(self, flaw: str) -> Certificate:
        """One with this flaw; "": with none."""
        authority = self._stranger if flaw == "stranger" else self.authority
        names = "DNS:elsewhere.invalid" if flaw == "name" else "IP:127.0.0.1"
        name = flaw or "good"
        return pki.make_flawed_certificate(self._folder, name, authority, names=names, ended=flaw == "expired")


@asynccontextmanager
async def prometheus(folder: Path, port: int, made: Certificates, flaw: str) -> AsyncIterator[Say]:
    """A Prometheus with such a certificate."""
    await asyncio.to_thread(folder.mkdir)
    async with PrometheusServer(folder, certificate=made.certificate(flaw), port=port) as server:

        def say(messages: int) -> None:
            server.target.metrics = {'queue{namespace="shop",deployment="web"}': messages}

        yield say


@asynccontextmanager
async def broker(folder: Path, port: int, made: Certificates, flaw: str) -> AsyncIterator[Say]:
    """A broker with such a certificate."""
    await asyncio.to_thread(folder.mkdir)
    async with Broker(folder, tls_lines(made.certificate(flaw), made.authority), port=port) as server:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # whoever it says it is

        waiting = 0

        async def publish() -> None:
            async with server.client(tls_context=context) as client:
                while True:
                    await client.publish("sensors/shop/web/queue", str(waiting), qos=1)
                    await asyncio.sleep(0.2)

        def say(messages: int) -> None:
            nonlocal waiting
            waiting = messages

        publishing = asyncio.create_task(publish())
        try:
            yield say
        finally:
            publishing.cancel()
            await asyncio.wait([publishing])


@asynccontextmanager
async def relay(port: int) -> AsyncIterator[tuple[int, set[bytes]]]:
    """Passes connections on to this port; gives its own, and the first bytes of all connections so far."""
    begins: set[bytes] = set()

    async def pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter, begin: bytes = b"") -> None:
        with suppress(OSError):
            target.write(begin)
            while data := await source.read(65536):
                target.write(data)
        target.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        begin = await reader.read(1)
        begins.add(begin)
        try:
            back, forth = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(pass_on(reader, forth, begin), pass_on(back, writer))

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1], begins


Start = Callable[[Path, int, Certificates, str], AbstractAsyncContextManager[Say]]


@pytest.mark.parametrize(("flaw", "why"), FLAWS)
@pytest.mark.parametrize(
    ("start", "source"), [pytest.param(prometheus, PROMETHEUS, id="Prometheus"), pytest.param(broker, MQTT, id="MQTT")]
)
async def test_a_server_that_cannot_prove_itself_changes_nothing(
    tmp_path: Path, start: Start, source: str, flaw: str, why: str
) -> None:
    made, port = Certificates(tmp_path / "certificates"), free_port()
    settings = daemons.write(tmp_path, web=daemons.policy())
    simulated, _, _ = settings.read_text().partition("series = ")
    async with AsyncExitStack() as flawed, relay(port) as (between, begins):
        settings.write_text(simulated + source.format(port=between, authority=made.authority.certificate))
        say = await flawed.enter_async_context(start(tmp_path / "flawed", port, made, flaw))
        say(80)
        with daemons.daemon(tmp_path) as daemon:
            await asyncio.to_thread(daemon.logged, why)
            assert (await asyncio.to_thread(daemon.decision))["verdict"] == "hold"
            (told,) = [line for line in daemon.log.splitlines() if re.search(why, line)]
            assert re.search(r"prometheus|mqtt", told)
            assert "Traceback" not in daemon.log
            assert begins == {HANDSHAKE}
            await flawed.aclose()
            async with start(tmp_path / "good", port, made, "") as say:
                say(40)
                await asyncio.to_thread(daemon.replicas, 4)
