"""What taking in 150,000 samples from Prometheus costs, and for how long it holds up the loop.

Run it as `PYTHONPATH=. python tests/bench/prometheus.py`. The server is a process of its own, so that the CPU time is
that of reading alone: HTTP, decoding, samples. Knows nothing of the daemon.
"""

import asyncio
import multiprocessing
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import NamedTuple

import msgspec
from aiohttp import web

from elasticd.model.workload import Readings
from elasticd.sources.prometheus import Prometheus
from elasticd.testing import site
from tests.kit.sources.scripted import Stalls

SAMPLES = 150_000
ROUNDS = 5
CPU_GOAL, STALL_GOAL = 0.3, 0.1
"""Seconds of CPU for one answer, and of the loop being held up."""


class Cost(NamedTuple):
    """Of one read: the best of several, since others use the machine too. `stall` is the median."""

    name: str
    megabytes: float
    samples: int
    cpu: float
    stall: float


def _body(times: bool) -> bytes:
    now = time.time()
    parts = [
        b'{"metric":{"namespace":"team-%d","pod":"web-%06d-5d9c7b8f6-x2x4z","node":"node-%04d"},"value":[%.3f,"%s"]}'
        % (i % 200, i, i % 5000, now, b"%.3f" % (now - i % 60) if times else b"0.%09d" % i)
        for i in range(SAMPLES)
    ]
    return b'{"status":"success","data":{"resultType":"vector","result":[' + b",".join(parts) + b"]}}"


def _serve(pipe: Connection) -> None:
    bodies = {times: _body(times) for times in (False, True)}

    async def answer(request: web.Request) -> web.Response:
        form = await request.post()
        return web.Response(body=bodies[str(form["query"]).startswith("timestamp")], content_type="application/json")

    async def run() -> None:
        app = web.Application()
        app.router.add_post("/api/v1/query", answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        pipe.send((runner.addresses[0][1], len(bodies[False])))
        await asyncio.get_running_loop().run_in_executor(None, pipe.recv)
        await runner.cleanup()

    asyncio.run(run())


@contextmanager
def served() -> Iterator[tuple[int, int]]:
    """The port of a server in a process of its own, and the length of its answer."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield ours.recv()
        ours.send("enough")
        process.join(10)
    finally:
        process.kill()
        process.join()


async def _measure(name: str, query: str, port: int, length: int) -> Cost:
    table = {"name": "load", "query": query, "subject": "pod"}
    options = {"type": "prometheus", "url": f"http://127.0.0.1:{port}", "series": [table]}
    source = msgspec.convert(options, Prometheus)
    said = Readings("", 0)
    costs, stalls = [], []
    async with source.open(site()) as reader:
        for _ in range(ROUNDS):
            began = time.process_time()
            async with Stalls() as stall:
                said = await reader.read(time.time())
            costs.append(time.process_time() - began)
            stalls.append(stall.longest)
    found = len(said.pods.get("load", ()))
    assert found == SAMPLES, said.error
    return Cost(name, length / 1e6, found, min(costs), sorted(stalls)[ROUNDS // 2])


async def _all(port: int, length: int) -> list[Cost]:
    return [
        await _measure("an expression", "sum by (namespace, pod) (rate(load[1m]))", port, length),
        await _measure("a plain selector, with its times", "load", port, 2 * length),
    ]


def measure() -> list[Cost]:
    """Both ways to read them."""
    with served() as (port, length):
        return asyncio.run(_all(port, length))


def main() -> int:
    """Print the costs; 1 when the first misses a goal, else 0."""
    costs = measure()
    for cost in costs:
        print(
            f"{cost.name}: {cost.samples} samples, {cost.megabytes:.1f} MB: "
            f"{cost.cpu:.3f} s CPU, loop held up for {cost.stall * 1e3:.0f} ms at most"
        )
    met = costs[0].cpu <= CPU_GOAL and all(cost.stall <= STALL_GOAL for cost in costs)
    print(f"goal: {CPU_GOAL} s for the first, {STALL_GOAL * 1e3:.0f} ms for each: {'met' if met else 'missed'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
