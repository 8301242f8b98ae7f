"""What listening to MQTT costs: `PYTHONPATH=. python tests/bench/mqtt.py [SECONDS]`.

A genuine Mosquitto with its own defaults, a publisher in a process of its own, and the MQTT source in this one, at
10,000 QoS 1 messages a second; then several times as many as can be decoded; then as fast as the broker takes them,
small ones and batches of 5,000 readings. Every figure is printed with the machine it was measured on; nothing here
passes or fails.
"""

import asyncio
import gc
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import aiomqtt
from msgspec.structs import replace

from elasticd.base.clock import WallClock
from elasticd.daemon import tune_interpreter
from elasticd.ports.source import Subject
from elasticd.sources.mqtt import Described, Listening, Mqtt
from elasticd.sources.mqtt.topics import Topic
from elasticd.testing import site
from tests.cluster.kubernetes.fake import until
from tests.kit.measuring import machine, resident
from tests.kube.broker import OPEN, Broker

RATE = 10_000
TICK = 0.01
LONGER = ("max_inflight_messages 20000", "max_queued_messages 50000")
PUBLISHER = Path(__file__).resolve().parents[1] / "kube" / "publisher.py"

SENSORS = Topic(
    topic="sensors/{namespace}/{workload}/load",
    series="load",
    subject="workload",
    payload="value",
    time="at",
    sequence="n",
    offline="sensors/{namespace}/{workload}/status",
)
AGENTS = Topic(
    topic="agents/{node}/pods",
    series="queue",
    subject="pod",
    namespace="shop",
    payload="$",
    time="at",
    items="pods",
    names={"pod": "$key"},
)


class Load(NamedTuple):
    """What is published; a rate of 0 is as fast as it goes."""

    title: str
    rate: float
    seconds: float
    qos: int = 1
    batch: int = 0
    protocol: str = "5"
    subjects: int = 1000
    series: int = 1
    """That each message feeds."""
    lines: tuple[str, ...] = ()
    """Of the broker's configuration."""


class Run(NamedTuple):
    """What was measured: of this process alone."""

    sent: int
    described: Described
    dropped: int
    """By the broker, on the way to whoever listens."""
    cpu: float
    seconds: float
    lags: list[float]
    before: float
    most: float
    after: float
    newest: int
    """Subjects of which what was published last is what is known."""


async def _ticks(lags: list[float], sizes: list[float]) -> None:
    """How late the loop is, and how large the process, every now and then."""
    while True:
        sizes.append(resident())
        begun = time.perf_counter()
        await asyncio.sleep(TICK)
        lags.append(max(0.0, time.perf_counter() - begun - TICK))


async def _dropped(client: aiomqtt.Client, told: list[int]) -> None:
    """How many messages the broker says that it has dropped, whenever that changes."""
    async for message in client.messages:
        told.append(int(message.payload))  # noqa: PERF401 - it is never at its end


async def measure(load: Load, folder: Path) -> Run:
    """Publish, listen, and wait until nothing more comes."""
    news: set[tuple[Subject, str]] = set()
    stirred = asyncio.Event()

    def wake(subject: Subject, key: str) -> None:
        news.add((subject, key))  # as the daemon's loop does
        stirred.set()

    more = tuple(replace(SENSORS, series=f"load-{number}") for number in range(1, load.series))
    options: dict[str, Any] = {"host": "127.0.0.1", "topic": (SENSORS, *more, AGENTS), "protocol": load.protocol}
    async with (
        Broker(folder, [*OPEN, "sys_interval 1", *load.lines]) as broker,
        Mqtt(port=broker.port, **options).open(site(clock=WallClock(), wake=wake)) as reader,
        broker.client() as watcher,
    ):
        assert isinstance(reader, Listening)
        await watcher.subscribe("$SYS/broker/publish/messages/dropped")
        await until(lambda: reader.subscribed)
        words = [str(word) for word in (broker.port, load.rate, load.seconds, load.qos, load.batch, load.subjects)]
        lags: list[float] = []
        sizes: list[float] = []
        dropped: list[int] = []
        aside = [asyncio.create_task(_ticks(lags, sizes)), asyncio.create_task(_dropped(watcher, dropped))]
        before, cpu, begun = resident(), time.process_time(), time.perf_counter()
        command = [sys.executable, str(PUBLISHER), *words]
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        said, _ = await process.communicate()
        cpu, seconds = time.process_time() - cpu, time.perf_counter() - begun
        await _silence(reader)
        for task in aside:
            task.cancel()
        await asyncio.gather(*aside, return_exceptions=True)
        last, sent = dropped[-1] if dropped else 0, json.loads(said)["sent"]
        newest = await _newest(reader, sent, load.subjects)
        return Run(sent, reader.describe(), last, cpu, seconds, lags, before, max(sizes), resident(), newest)


async def _newest(reader: Listening, sent: int, subjects: int) -> int:
    """Of how many subjects the last that was published is known: each tells the numbers of its messages."""
    known = (await reader.read(time.time())).workloads["load"]
    last = range(max(0, sent - subjects), sent)
    found = [known.get(f"shop/Deployment/w{number % subjects}", ()) for number in last]
    return sum(any(one.value == number for one in samples) for number, samples in zip(last, found, strict=True))


async def _silence(reader: Listening) -> None:
    """Return when nothing has come for two seconds, and all of it is dealt with; the broker tells what it dropped each
    second."""
    seen = -1
    while (now := reader.describe()).received != seen or now.decoded + now.shed < now.received:
        seen = now.received
        await asyncio.sleep(2)


def report(load: Load, run: Run) -> None:
    """Print what was measured."""
    got, lags = run.described, sorted(run.lags)
    with_ = f", with {', '.join(load.lines)}" if load.lines else ""
    print(f"\n{load.title}, MQTT {load.protocol}, QoS {load.qos}, for {load.seconds:g} s{with_}")
    print(f"  published   {run.sent} messages, {run.sent / run.seconds:.0f} a second")
    parts = f"{got.decoded} decoded + {got.shed} shed"
    print(f"  received    {got.received} = {parts}; {got.late} late, refused {got.refused}")
    print(f"  lost        {run.sent - got.received} (dropped by the broker: {run.dropped})")
    unknown = run.sent - got.decoded - got.shed - run.dropped
    print(f"  uncounted   {unknown} of what was published is neither decoded, nor shed, nor said to be dropped")
    each = run.cpu / max(1, got.received) * 1e6
    print(f"  CPU         {run.cpu / run.seconds:.0%} of one core, {each:.1f} us a message")
    print(f"  loop's lag  p50 {_part(lags, 0.5):.1f} ms, p99 {_part(lags, 0.99):.1f} ms, most {lags[-1] * 1e3:.1f} ms")
    memory = f"{run.before:.1f} MiB before, {run.most:.1f} at most, {run.after:.1f} after"
    print(f"  memory      {memory}; {got.subjects} readings")
    if not load.batch:
        print(f"  newest      known of {run.newest} of {load.subjects} topics")


def _part(lags: list[float], part: float) -> float:
    return lags[int(len(lags) * part)] * 1e3


def _floods(seconds: float) -> list[Load]:
    """Several times as many messages as can be decoded; with 3.1.1 also to a broker that may send far ahead."""
    kinds: list[tuple[int, str, tuple[str, ...]]] = [(1, "5", ()), (0, "5", ()), (1, "3.1.1", ()), (1, "3.1.1", LONGER)]
    return [
        Load(
            f"a flood of {subjects} topics, 4 series of each message",
            4 * RATE,
            seconds,
            qos=qos,
            protocol=protocol,
            subjects=subjects,
            series=4,
            lines=lines,
        )
        for subjects in (100, 5000)
        for qos, protocol, lines in kinds
    ]


def main(seconds: float = 60.0) -> list[Run]:
    """Measure and print everything; the first is the steady load."""
    tune_interpreter()
    print(machine())
    short = min(10.0, seconds)
    loads = [
        Load("10,000 messages a second", RATE, seconds),
        Load("10,000 messages a second", RATE, short, protocol="3.1.1"),
        *_floods(short),
        Load("as fast as it goes", 0, short),
        Load("as fast as it goes", 0, short, qos=0),
        Load("batches of 5,000 readings as fast as it goes", 0, short, qos=0, batch=5000),
    ]
    runs = []
    for load in loads:
        with tempfile.TemporaryDirectory() as folder:
            runs.append(asyncio.run(measure(load, Path(folder))))
        report(load, runs[-1])
        gc.collect()  # so that the next begins with what this one's memory was before
    return runs


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)
