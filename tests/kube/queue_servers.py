"""RabbitMQ and Redis, Debian's, on loopback ports of their own.

Knows their configuration and when they are ready. It must not know who asks them.
"""

import asyncio
import json
import socket
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Self

import aiohttp
import pytest
from redis.asyncio import Redis, RedisError
from yarl import URL

from tests.kube.client import wait_until
from tests.kube.fetch import HOW_TO_GET, find_program
from tests.kube.processes import Program, free_port

_RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
"""The program itself: Debian's wrapper becomes another user, who may not look into a test's folder."""


class RedisServer:
    """A server without persistence."""

    def __init__(self, folder: Path, *options: str) -> None:
        path = find_program("redis-server")
        if path is None:
            pytest.skip(f"redis-server is not on this machine: {HOW_TO_GET}")
        self.port = free_port()
        words = ("--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder))
        self.program = Program("redis", [path, *words, *options], folder / "redis.log")

    async def __aenter__(self) -> Self:
        self.program.start()
        await self.until_ready()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.program.stop()

    async def until_ready(self) -> None:
        """Return once it answers."""

        async def ready() -> bool:
            self.program.check()
            async with self.client() as client:
                try:
                    return bool(await client.ping())
                except RedisError:
                    return False

        await wait_until(ready, what="Redis is ready")

    def client(self, **options: Any) -> Redis:
        """A client of it, as a worker is."""
        return Redis(host="127.0.0.1", port=self.port, **options)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class RabbitServer:
    """A node with the management API, and its own epmd, so that none is left behind."""

    def __init__(self, folder: Path) -> None:
        if not _RABBITMQ.exists():
            pytest.skip(f"rabbitmq-server is not on this machine: {HOW_TO_GET}")
        epmd = find_program("epmd")
        assert epmd is not None, "it comes with RabbitMQ"
        self._names, self.port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        (folder / "plugins").write_text("[rabbitmq_management].\n")
        settings = folder / "rabbitmq.conf"
        settings.write_text(
            f"listeners.tcp.1 = 127.0.0.1:{free_port()}\n"
            f"management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {self.port}\n"
            "collect_statistics_interval = 1000\nlog.console = true\nlog.file = false\n"
        )
        variables = {
            "HOME": str(folder),
            "ERL_EPMD_PORT": str(self._names),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"test{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_CONFIG_FILE": str(settings),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
        }
        given = [f"{name}={value}" for name, value in variables.items()]
        self._epmd = Program("epmd", [epmd, "-port", str(self._names), "-address", "127.0.0.1"], folder / "epmd.log")
        self.program = Program("rabbitmq", ["/usr/bin/env", *given, _RABBITMQ], folder / "rabbitmq.log")

    async def __aenter__(self) -> Self:
        self._epmd.start()
        try:
            # Else it starts another, which outlives it.
            await wait_until(partial(_listens, self._names), what="epmd listens")
            self.program.start()
            await wait_until(self._ready, what="RabbitMQ is ready", within=90)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.program.stop(grace=15)
        await self._epmd.stop()

    async def _ready(self) -> bool:
        self.program.check()
        return (await self.call("GET", "overview"))[0] == 200

    async def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> tuple[int, Any]:
        """A request to the management API: the status, and the answer's JSON."""
        guest = {"Authorization": aiohttp.encode_basic_auth("guest", "guest")}
        url = URL(f"{self.url}/api/{path}", encoded=True)
        async with (
            aiohttp.ClientSession(headers=guest) as session,
            session.request(method, url, json=body) as response,
        ):
            text = await response.text()
            return response.status, json.loads(text) if text else None

    async def publish(self, queue: str, messages: int) -> None:
        """Declare a queue and publish so many messages to it."""
        assert (await self.call("PUT", f"queues/%2F/{queue}", {"durable": True}))[0] in (201, 204)
        message = {"routing_key": queue, "payload": "x", "payload_encoding": "string", "properties": {}}
        calls = [self.call("POST", "exchanges/%2F/amq.default/publish", message) for _ in range(messages)]
        assert all(answer["routed"] for _, answer in await asyncio.gather(*calls))
