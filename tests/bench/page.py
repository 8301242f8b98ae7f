"""What it costs the daemon that people look at its status page: `make bench`.

1,000 workloads of ten pods are decided about each second, in real time. Ten readers of the stream, in a process of
their own, come and go: what the loop's thread and the whole process take is compared between the seconds with and
without them, one after the other, so that whatever else the machine does is in both.
"""

import asyncio
import contextlib
import multiprocessing
import os
import socket
import tempfile
import time
from contextlib import AsyncExitStack
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import median

from msgspec.structs import replace

from elasticd.base.clock import WallClock
from elasticd.base.decode import convert
from elasticd.daemon import tune_interpreter
from elasticd.journal import Journal
from elasticd.model.policy import Bounds, Policy, Select, Strategy
from elasticd.registry import discover
from elasticd.runtime.loop import Loop
from elasticd.runtime.workers import DecisionWorker
from elasticd.sources.poller import opened
from elasticd.sources.resource_metrics import ResourceMetrics
from elasticd.telemetry.events import Events
from elasticd.telemetry.metrics import DaemonMetrics
from elasticd.telemetry.summaries import DaemonSummary
from elasticd.telemetry.web import serve
from elasticd.ui.past import Past
from tests.bench.steady import Count, cluster, hpa
from tests.kit.measuring import alone, machine
from tests.kit.sites import steady
from tests.telemetry.test_web import Told

READERS, SECONDS, ROUNDS = 10, 10.0, 6


def read(port: int, go: Event) -> None:
    """Ten readers, for as long as `go` is set, on another core than the daemon."""
    os.sched_setaffinity(0, {0})
    request = b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"
    while True:
        go.wait()
        sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(READERS)]
        for reader in sockets:
            reader.sendall(request)
            reader.settimeout(0.05)
        while go.is_set():
            for reader in sockets:
                with contextlib.suppress(TimeoutError):
                    reader.recv(1 << 20)
        for reader in sockets:
            reader.close()


def step_tolerance() -> Strategy:
    """A strategy whose message has the present load, so that every row changes each second."""
    kind = discover().strategies["step-tolerance"].type
    return convert({"target": 50}, kind, "bench")  # type: ignore[no-any-return]


def policy(strategy: Strategy) -> Policy:
    return Policy(
        name="bench",
        replicas=Bounds(min=1, max=100),
        strategies=(strategy,),
        select=Select(namespaces=("bench",)),
        mode="act",
        jitter=0.0,
        interval=1.0,
    )


async def measure(label: str, rule: Policy) -> None:
    """The daemon's path in real time, with readers and without."""
    tune_interpreter()
    clock, count = WallClock(), Count()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        simulated = await stack.enter_async_context(cluster().open(clock))
        journal = Journal(folder)
        stack.callback(journal.close)
        loop: Loop

        def summary() -> DaemonSummary:
            sources = tuple(loop.router.report(clock.now()))
            return DaemonSummary(clock.now(), True, "", False, "", clock.now(), (), (), "", "", (), sources, ())

        events = Events(summary, journal.decisions)
        loop = Loop(simulated, journal, clock, [DaemonMetrics(), events, count], DecisionWorker())
        loop.set_sources(await stack.enter_async_context(opened([ResourceMetrics(every=1.0)], loop.site)))
        loop.apply([rule])
        told = Told()
        told.events = events
        address = await stack.enter_async_context(serve(told.pages(), "127.0.0.1", 0))
        tasks = [asyncio.create_task(loop.run()), asyncio.create_task(events.run())]
        forked = multiprocessing.get_context("spawn")
        go = forked.Event()
        readers = forked.Process(target=read, args=(int(address.rpartition(":")[2]), go), daemon=True)
        readers.start()
        await asyncio.sleep(5)
        costs = await compared(go)
        readers.kill()
        await history(folder, str(journal.decisions()[0].workload), clock, count)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    print(f"1,000 workloads of 10 pods at 1 s, {label}, {count.decisions} decisions in all:")
    for index, what in enumerate(("the loop's thread", "the process")):
        without, with_ = (median(cost[index] for cost in costs[looked_at]) for looked_at in (False, True))
        pairs = [pair[1][index] - pair[0][index] for pair in zip(costs[False], costs[True], strict=True)]
        more = f"{median(pairs):+.2%} (median of {ROUNDS})"
        print(f"  {what}: {without:.1%} of a core, with {READERS} readers {with_:.1%}: {more}")


async def readers_alone() -> None:
    """What ten readers cost a loop that does nothing else but hear of 1,000 decisions each second. Beside a daemon the
    difference between two phases is smaller than what else runs on a machine changes it by; here it is all there is."""
    clock, at = WallClock(), time.time()
    decisions = [steady(f"w-{number}", at) for number in range(1000)]

    def summary() -> DaemonSummary:
        return DaemonSummary(clock.now(), True, "", False, "", clock.now(), (), (), "", "", (), (), ())

    async with AsyncExitStack() as stack:
        told = Told()
        told.events = events = Events(summary, lambda: decisions)
        address = await stack.enter_async_context(serve(told.pages(), "127.0.0.1", 0))
        running = asyncio.create_task(events.run())
        forked = multiprocessing.get_context("spawn")
        go = forked.Event()
        readers = forked.Process(target=read, args=(int(address.rpartition(":")[2]), go), daemon=True)
        readers.start()
        costs: dict[bool, float] = {}
        for looked_at in (False, True):
            if looked_at:
                go.set()
                while events.readers < READERS:  # noqa: ASYNC110 - readers come from another process
                    await asyncio.sleep(0.1)
            begun = time.thread_time(), time.monotonic()
            while (wall := time.monotonic() - begun[1]) < 2 * SECONDS:
                for decision in decisions:
                    events.on(replace(decision, at=clock.now()) if looked_at else decision)
                await asyncio.sleep(1)
            costs[looked_at] = (time.thread_time() - begun[0]) / wall
        readers.kill()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    print(f"nothing but the page, told of 1,000 decisions a second: the loop's thread {costs[False]:.2%} of a core,")
    print(f"  with {READERS} readers {costs[True]:.2%}")


def exporter_alone() -> None:
    """What a second of 1,000 decisions costs the loop's thread for /metrics, and what a scrape costs a thread."""
    decisions, metrics = [steady(f"w-{number}", time.time()) for number in range(1000)], DaemonMetrics()
    heard, scraped, size = list[float](), list[float](), 0
    for _ in range(20):
        begun = time.thread_time()
        for decision in decisions:
            metrics.on(decision)
        heard.append(time.thread_time() - begun)
        begun = time.thread_time()
        size = len(metrics.render(leading=True, journal_failures=0))
        scraped.append(time.thread_time() - begun)
    print(f"the exporter: hears of 1,000 decisions in {median(heard) * 1e3:.1f} ms; a scrape takes {size >> 10} kB and")
    print(f"  {median(scraped) * 1e3:.0f} ms of a thread that is not the loop's")


async def compared(go: Event) -> dict[bool, list[tuple[float, float]]]:
    """What the loop's thread and the process took of a core without and with readers, in turn."""
    costs: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for turn in range(2 * ROUNDS):
        looked_at = turn % 2 == 1
        (go.set if looked_at else go.clear)()
        await asyncio.sleep(1.5)
        begun = time.thread_time(), time.process_time(), time.monotonic()
        await asyncio.sleep(SECONDS)
        wall = time.monotonic() - begun[2]
        costs[looked_at].append(((time.thread_time() - begun[0]) / wall, (time.process_time() - begun[1]) / wall))
    return costs


async def history(folder: Path, workload: str, clock: WallClock, count: Count) -> None:
    """What it takes to open a chart, from a journal that grows by 1,000 decisions a second."""
    count.lags = [0.0]
    began, cpu = time.monotonic(), time.process_time()
    found = await Past(folder, clock).history(workload, "", 3600.0)
    took, lag = time.monotonic() - began, max(count.lags)
    cpu = time.process_time() - cpu
    print(f"  a chart: {took:.1f} s, with all else {cpu:.1f} s of CPU, {len(found.points)} points, ends: {found.ends};")
    print(f"    of a journal of {journal_size(folder) >> 20} MB; ticks late by {lag * 1e3:.0f} ms at most meanwhile")


def journal_size(folder: Path) -> int:
    """Its bytes on disk."""
    return sum(path.stat().st_size for path in folder.iterdir())


if __name__ == "__main__":
    print(machine())
    alone()
    asyncio.run(readers_alone())
    exporter_alone()
    asyncio.run(measure("whose rows do not change", policy(hpa())))
    asyncio.run(measure("each of whose rows changes each second", policy(step_tolerance())))
