"""A genuine Prometheus on loopback, and a target for it to scrape whose metrics the test writes.

Knows Prometheus' flags, its configuration and when it is ready. It must not know who asks it.
"""

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
from aiohttp import web

from tests.kube.client import wait_until
from tests.kube.fetch import HOW_TO_GET, find_program
from tests.kube.pki import Certificate
from tests.kube.processes import Program, free_port

_CONFIG = """
global: {{scrape_interval: {every}ms, scrape_timeout: {every}ms}}
scrape_configs:
- job_name: test
  honor_labels: true
  static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


class NoPrometheus(Exception):
    """The program is not on this machine; the message says how to get it."""


class Target:
    """Serves whatever lines of metrics the test has set, or nothing while it is dead."""

    def __init__(self) -> None:
        self.metrics: Mapping[str, float] = {}
        self.dead = False

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/metrics", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port: int = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if self.dead:
            assert request.transport is not None
            request.transport.abort()
        lines = [f"{series} {value}\n" for series, value in self.metrics.items()]
        return web.Response(text="".join(lines), content_type="text/plain")


class PrometheusServer:
    """The program, its data in a folder, and its target."""

    def __init__(self, folder: Path, every: int = 250, certificate: Certificate | None = None, port: int = 0) -> None:
        """`every`: milliseconds between its scrapes. With a certificate it speaks TLS alone. Port 0: a free one."""
        self._every = every
        path = find_program("prometheus")
        if path is None:
            raise NoPrometheus(f"no prometheus here: {HOW_TO_GET}")
        self.target = Target()
        self.port = port or free_port()
        self.url = f"{'https' if certificate else 'http'}://127.0.0.1:{self.port}"
        self._folder = folder
        words: dict[str, Path | str] = {
            "config.file": folder / "prometheus.yml",
            "storage.tsdb.path": folder / "data",
            "web.listen-address": f"127.0.0.1:{self.port}",
        }
        if certificate is not None:
            words["web.config.file"] = path_of_tls = folder / "web.yml"
            files = f"cert_file: {certificate.certificate}\n  key_file: {certificate.key}\n"
            path_of_tls.write_text(f"tls_server_config:\n  {files}")
        flags = [f"--{key}={value}" for key, value in words.items()]
        self.program = Program("prometheus", [path, *flags], folder / "prometheus.log")

    async def __aenter__(self) -> Self:
        await self.target.__aenter__()
        (self._folder / "prometheus.yml").write_text(_CONFIG.format(port=self.target.port, every=self._every))
        self.program.start()
        await self.until_ready()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.program.stop(grace=5)
        await self.target.__aexit__(kind, error, trace)

    async def until_ready(self) -> None:
        """Return once it answers queries."""

        async def ready() -> bool:
            self.program.check()
            # Whoever it says it is.
            async with aiohttp.ClientSession() as session, session.get(f"{self.url}/-/ready", ssl=False) as response:
                return response.status == 200

        await wait_until(ready, what="Prometheus is ready")

    async def value(self, query: str) -> list[Any]:
        """The answer to a query, as Prometheus gives it: independent of the client that is tested."""
        asked = {"query": query}
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{self.url}/api/v1/query", params=asked) as response,
        ):
            found: list[Any] = (await response.json())["data"]["result"]
            return found

    async def has(self, query: str) -> None:
        """Return once a query has an answer."""
        await wait_until(lambda: self.value(query), what=query)
