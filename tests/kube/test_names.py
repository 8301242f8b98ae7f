"""Names that no longer have an address, on a genuine API server: a daemon that finds neither it nor its source holds
counts, answers, says so once, and goes on when names are back."""

import asyncio
import re
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from aiohttp import web

from elasticd.journal import read
from elasticd.model.records import Outcome
from tests.kit.sources.scripted import Scripted, vector
from tests.kube.between import kubeconfig_by
from tests.kube.client import wait_until
from tests.kube.conftest import Kube
from tests.kube.relay import Relay
from tests.kube.rights import shipped_rights
from tests.kube.running import Running, running
from tests.kube.test_daemon import scaled, workload
from tests.kube.test_rolling_restart import CONVERGED, SCALER

PROGRAM = """
import socket, sys, time
from pathlib import Path

state, known = Path(sys.argv.pop(1)), socket.getaddrinfo


def look_up(host, *arguments, **more):
    if host == "localhost" and (how := state.read_text()) != "there":
        time.sleep(5 if how == "silent" else 0)
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
    return known("127.0.0.1" if host == "localhost" else host, *arguments, **more)


socket.getaddrinfo = look_up
from elasticd.__main__ import main
sys.exit(main())
"""
"""elasticd, for which `localhost` has an address, has none, or nobody says, as a file has it."""
SOURCE = """
[[source]]
type = "prometheus"
url = "http://localhost:{port}"
every = 0.2
series = [{{ name = "queue_length", query = "queue" }}]
"""
CACHED = 10.0
"""Seconds for which an address that was found is used."""
LASTS = 6.0
"""Seconds for which there is none: longer than the Lease can go without a renewal."""


class Queue:
    """A queue that Prometheus knows the length of."""

    def __init__(self, namespace: str, length: int) -> None:
        self.length, self._labels = length, {"namespace": namespace, "deployment": "web"}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """How long it is, or when that was measured."""
        measured = str((await request.post())["query"]).startswith("timestamp(")
        return web.json_response(vector((self._labels, time.time() if measured else self.length), at=time.time()))


@pytest.mark.parametrize("how", ["absent", "silent"])
async def test_without_names_counts_are_held_and_pages_answer(
    kube: Kube, namespace: str, tmp_path: Path, how: str
) -> None:
    program, state = tmp_path / "program.py", tmp_path / "names"
    program.write_text(PROGRAM)
    state.write_text("there")
    await kube.client.apply(workload(), namespace)
    queue = Queue(namespace, 20)
    async with (
        Scripted() as server,
        shipped_rights(kube.plane, "elasticd", namespace),
        Relay(kube.plane.port) as api,
        Relay(server.port) as source,
    ):
        server.on("/api/v1/query", queue.answer)
        config = kubeconfig_by(kube.plane, f"https://localhost:{api.port}", "elasticd", tmp_path)
        policies = {"web": SCALER.format(namespace=namespace)}
        began = time.monotonic()
        async with running(
            tmp_path / "one", config, namespace, policies, SOURCE.format(port=source.port),
            cluster="request_timeout = 2", program=(sys.executable, str(program), str(state)),
        ) as daemon:  # fmt: skip
            await wait_until(daemon.leads, what="it leads")
            queue.length = 30
            await scaled(kube, namespace, 3)
            state.write_text(how)
            await asyncio.sleep(began + CACHED + 3 - time.monotonic())
            assert api.cut(kube.plane.port)
            assert source.cut(server.port)
            queue.length = 50
            await answers(daemon)
            await scaled(kube, namespace, 3)
            state.write_text("there")
            await scaled(kube, namespace, 5, within=CONVERGED)
            await wait_until(lambda: "source prometheus: all is well again" in daemon.program.log.read_text())
    outcomes = [one for one in read(daemon.folder / "state") if isinstance(one, Outcome)]
    assert [(one.before, one.after, one.result) for one in outcomes] == [(2, 3, "done"), (3, 5, "done")]
    log = daemon.program.log.read_text()
    assert len(re.findall("one no longer leads", log)) == 1
    told = Counter(re.findall(r" (WARNING .*?): ", log))
    assert {"WARNING source prometheus", f"WARNING lease {namespace}/elasticd"} <= told.keys()
    assert set(told.values()) == {1}, "each is told once"


async def answers(daemon: Running) -> None:
    """Its pages come at once for as long as there are no names."""
    end = time.monotonic() + LASTS
    while time.monotonic() < end:
        for page in ("/healthz", "/metrics", "/status"):
            async with asyncio.timeout(2):
                code, _ = await daemon.page(page)
            assert code == 200
        await asyncio.sleep(0.1)
    assert not await daemon.leads()
