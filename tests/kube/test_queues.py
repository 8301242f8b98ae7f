"""The sources rabbitmq and redis against genuine servers."""

import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from elasticd.base.clock import WallClock
from elasticd.base.decode import convert
from elasticd.model.workload import Readings
from elasticd.ports.source import Reader, Source
from elasticd.sources.queues.rabbitmq import RabbitMq
from elasticd.sources.queues.redis import Redis
from elasticd.testing import site
from tests.kube.client import wait_until
from tests.kube.pki import make_authority, make_flawed_certificate, make_server_certificate
from tests.kube.processes import free_port
from tests.kube.queue_servers import RabbitServer, RedisServer

WORKER = "shop/Deployment/worker"


@pytest_asyncio.fixture(loop_scope="session")
async def redis(tmp_path: Path) -> AsyncIterator[RedisServer]:
    async with RedisServer(tmp_path) as server:
        yield server


def redis_source(server: RedisServer, *queues: dict[str, str], **more: Any) -> Redis:
    tables = [{"name": queue["key"], "workload": WORKER, **queue} for queue in queues]
    table = {"type": "redis", "host": "127.0.0.1", "port": server.port, "series": tables, **more}
    return convert(table, Redis, "elasticd.toml")


async def value_or_fault(source: Source) -> dict[str, float | str]:
    """By series: its value, or why it has none."""
    clock = WallClock()
    async with source.open(site(clock=clock)) as reader:
        readings = await answered(reader, clock)
    values: dict[str, float | str] = {
        name: table[WORKER][0].value for name, table in readings.workloads.items() if table
    }
    return {**values, **readings.faults, **({"": readings.error} if readings.error else {})}


async def answered(reader: Reader, clock: WallClock) -> Readings:
    """A reading in which no answer is still waited for."""
    while True:
        readings = await reader.read(clock.now())
        if "no answer yet" not in [readings.error, *(why.rpartition(": ")[2] for why in readings.faults.values())]:
            return readings


async def test_redis_lists_and_streams_have_their_lengths(redis: RedisServer) -> None:
    async with redis.client() as client:
        await client.rpush("mails", "a", "b", "c")
        first, second, *_ = [await client.xadd("log", {"entry": number}) for number in range(5)]
        await client.xgroup_create("log", "audit", id="0")
        await client.xreadgroup("audit", "reader", {"log": ">"}, count=2)
        await client.xack("log", "audit", first)
    queues: list[dict[str, str]] = [
        {"key": "mails"},
        {"key": "gone"},
        {"name": "entries", "key": "log", "count": "stream"},
        {"name": "pending", "key": "log", "count": "pending", "group": "audit"},
        {"name": "lag", "key": "log", "count": "lag", "group": "audit"},
    ]
    values = await value_or_fault(redis_source(redis, *queues))
    assert values == {"mails": 3.0, "gone": 0.0, "entries": 5.0, "pending": 1.0, "lag": 3.0}
    async with redis.client() as client:
        await client.xdel("log", second)
        await client.xgroup_setid("log", "audit", first)
    assert "does not know how many" in str((await value_or_fault(redis_source(redis, *queues[4:])))[""])


async def test_what_redis_refuses_is_unknown(redis: RedisServer) -> None:
    async with redis.client() as client:
        await client.set("text", "x")
        await client.xadd("log", {"entry": 1})
        await client.xdel("emptied", await client.xadd("emptied", {"entry": 1}))
    faults = await value_or_fault(
        redis_source(
            redis,
            {"key": "text"},
            {"name": "no-group", "key": "log", "count": "lag", "group": "audit"},
            {"name": "no-stream", "key": "gone", "count": "pending", "group": "audit"},
            {"name": "no-entries", "key": "gone", "count": "stream"},
            {"name": "empty", "key": "emptied", "count": "stream"},
            {"key": "good"},
        )
    )
    assert "WRONGTYPE" in str(faults["text"])
    assert 'has no group "audit"' in str(faults["no-group"])
    assert "no such key" in str(faults["no-stream"])
    assert "no such stream" in str(faults["no-entries"])
    assert (faults["empty"], faults["good"]) == (0.0, 0.0)


async def test_redis_is_read_with_a_password_that_is_rotated(redis: RedisServer, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.touch(mode=0o600)
    secret.write_text("first\n")
    async with redis.client() as client:
        await client.acl_setuser("elasticd", enabled=True, passwords=["+first"], keys=["*"], commands=["+llen"])
        clock, options = WallClock(), {"username": "elasticd", "password_file": str(secret)}
        async with redis_source(redis, {"key": "mails"}, **options).open(site(clock=clock)) as reader:
            assert (await answered(reader, clock)).error == ""
            await client.acl_setuser("elasticd", enabled=True, passwords=["-first", "+second"])
            await client.client_kill_filter(user="elasticd")
            assert "invalid username-password" in (await answered(reader, clock)).error
            secret.write_text("second\n")
            assert (await answered(reader, clock)).error == ""
    faults = await value_or_fault(redis_source(redis, {"key": "log", "count": "stream"}, **options))
    assert "no permissions" in str(faults[""])


async def test_a_redis_that_hangs_is_unknown_until_it_answers(redis: RedisServer) -> None:
    clock = WallClock()
    async with redis_source(redis, {"key": "mails"}, timeout=0.5).open(site(clock=clock)) as reader:
        assert (await answered(reader, clock)).error == ""

        async def unknown() -> bool:
            return (await answered(reader, clock)).error != ""

        redis.program.signal(signal.SIGSTOP)
        await wait_until(unknown, what="it is not known")  # before that, the last answer grows older
        await redis.program.kill()
        assert "mails: " in (await answered(reader, clock)).error
        redis.program.start()
        await redis.until_ready()

        async def back() -> bool:
            return (await answered(reader, clock)).error == ""

        await wait_until(back, what="it is read again")


@pytest.mark.parametrize("flaw", ["", "name", "time", "authority"])
async def test_redis_over_tls_must_prove_who_it_is(tmp_path: Path, flaw: str) -> None:
    authority = make_authority(tmp_path)
    if flaw in ("name", "time"):
        names = "DNS:elsewhere" if flaw == "name" else "IP:127.0.0.1"
        certificate = make_flawed_certificate(tmp_path, "redis", authority, names=names, ended=flaw == "time")
    else:
        certificate = make_server_certificate(tmp_path, "redis", authority)
    (tmp_path / "other").mkdir()
    trusted = make_authority(tmp_path / "other") if flaw == "authority" else authority
    files = ("--tls-cert-file", str(certificate.certificate), "--tls-key-file", str(certificate.key))
    async with RedisServer(tmp_path, "--tls-port", "0", *files, "--tls-auth-clients", "no") as server:
        async with server.client() as client:
            await client.config_set("tls-port", (port := free_port()))
        options = {"port": port, "tls": {"ca_file": str(trusted.certificate)}}
        values = await value_or_fault(redis_source(server, {"key": "mails"}, **options))
    assert (values == {"mails": 0.0}) == (not flaw)


async def test_redis_is_read_by_an_authority_that_is_rotated(tmp_path: Path) -> None:
    authority = make_authority(tmp_path)
    certificate = make_server_certificate(tmp_path, "redis", authority)
    (tmp_path / "former").mkdir()
    trusted = tmp_path / "trusted.crt"
    trusted.write_bytes(make_authority(tmp_path / "former").certificate.read_bytes())
    files = ("--tls-cert-file", str(certificate.certificate), "--tls-key-file", str(certificate.key))
    async with RedisServer(tmp_path, "--tls-port", "0", *files, "--tls-auth-clients", "no") as server:
        async with server.client() as client:
            await client.config_set("tls-port", (port := free_port()))
        source = redis_source(server, {"key": "mails"}, port=port, tls={"ca_file": str(trusted)})
        clock = WallClock()
        async with source.open(site(clock=clock)) as reader:
            assert "CERTIFICATE_VERIFY_FAILED" in (await answered(reader, clock)).error
            trusted.write_bytes(authority.certificate.read_bytes())

            async def is_read() -> bool:
                return (await answered(reader, clock)).error == ""

            await wait_until(is_read, what="it is read by the new authority")


async def test_rabbitmq_says_how_many_messages_wait(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.touch(mode=0o600)
    secret.write_text("guest\n")
    async with RabbitServer(tmp_path) as server:
        await server.publish("orders", 12)
        tables = [
            {"name": "waiting", "queue": "orders", "workload": WORKER},
            {"name": "gone", "queue": "gone", "workload": WORKER},
        ]
        more = {"url": server.url, "username": "guest", "password_file": str(secret), "series": tables}
        source = convert({"type": "rabbitmq", **more}, RabbitMq, "elasticd.toml")

        async def counted() -> bool:
            return (await value_or_fault(source)).get("waiting") == 12.0

        await wait_until(counted, what="its statistics have the messages")
        assert "404" in str((await value_or_fault(source))["gone"])
        secret.write_text("wrong\n")
        assert "401" in str((await value_or_fault(source))[""])
