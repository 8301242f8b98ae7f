"""The whole daemon between a sensor and whoever listens to its outlet, on a genuine Mosquitto."""

import asyncio
import json
import re
import signal
import sys
import time
from pathlib import Path

import msgspec

from elasticd.model.records import Decision, Outcome
from tests.cluster.kubernetes.fake import until
from tests.kit import daemons
from tests.kube.broker import OPEN, Broker

SETTINGS = """
[[source]]
type = "mqtt"
port = PORT
host = "127.0.0.1"

[[source.topic]]
topic = "sensors/{namespace}/{workload}/queue"
series = "queue"
subject = "workload"
payload = "length"
time = "at"
offline = "sensors/{namespace}/{workload}/status"

[outlet]
host = "127.0.0.1"
port = PORT
"""


async def test_what_a_sensor_says_scales_a_workload_and_is_reported(tmp_path: Path) -> None:
    heard: dict[str, list[bytes]] = {}

    def records(kind: str) -> list[Decision | Outcome]:
        told = heard.get(f"elasticd/{kind}/shop/Deployment/web", [])
        return [msgspec.json.decode(one, type=Decision | Outcome) for one in told]

    def says(verdict: str, message: str) -> bool:
        last = records("decisions")[-1:]
        return any(isinstance(one, Decision) and one.verdict == verdict and message in str(one.series) for one in last)

    async with Broker(tmp_path, OPEN) as broker, broker.client() as client:
        await client.subscribe("elasticd/#", qos=1)

        async def hear() -> None:
            async for message in client.messages:
                heard.setdefault(str(message.topic), []).append(bytes(message.payload))

        hearing = asyncio.create_task(hear())
        settings = daemons.write(tmp_path, web=daemons.policy())
        simulated, _, _ = settings.read_text().partition("series = ")
        settings.write_text(simulated + SETTINGS.replace("PORT", str(broker.port)))
        with daemons.daemon(tmp_path) as daemon:
            await until(lambda: says("hold", "queue"), daemons.PATIENCE)
            await client.publish("sensors/shop/web/queue", _now(40), qos=1)
            await until(
                lambda: any(isinstance(one, Outcome) and one.after == 4 for one in records("outcomes")),
                daemons.PATIENCE,
            )
            await client.publish("sensors/shop/web/status", "offline", qos=1)
            await until(lambda: says("hold", "unknown age"), daemons.PATIENCE)
            assert heard["elasticd/status"] == [b"online"]
            told = msgspec.json.decode(await asyncio.to_thread(daemon.get, "/status"))["outlet"]
            assert (told["connected"], told["shed"], told["published"] > 0) == (True, 0, True)
            assert daemon.stop(signal.SIGKILL) == -signal.SIGKILL
            await until(lambda: heard["elasticd/status"] == [b"online", b"offline"])
        hearing.cancel()
        await asyncio.gather(hearing, return_exceptions=True)


FLOODED = """
[[source.topic]]
topic = "sensors/{namespace}/{workload}/load"
series = "SERIES"
subject = "workload"
payload = "value"
time = "at"
sequence = "n"
"""


async def test_a_flood_shows_its_newest_reading_and_counts_the_rest(tmp_path: Path) -> None:
    script = Path(__file__).with_name("publisher.py")
    settings = daemons.write(tmp_path, web=daemons.policy().replace('name = "web"', 'name = "w7"'))
    simulated, _, _ = settings.read_text().replace('name = "web"', 'name = "w7"').partition("series = ")
    names = ["queue", *(f"series-{number}" for number in range(40))]
    async with Broker(tmp_path, OPEN) as broker:
        source = f'[[source]]\ntype = "mqtt"\nhost = "127.0.0.1"\nport = {broker.port}\nqueue = 1000\n'
        settings.write_text(simulated + source + "".join(FLOODED.replace("SERIES", name) for name in names))
        with daemons.daemon(tmp_path) as daemon:
            await until(lambda: daemon.decision()["verdict"] == "hold", daemons.PATIENCE)
            words = [str(word) for word in (script, broker.port, 10_000, 3, 1, 0, 100)]
            process = await asyncio.create_subprocess_exec(sys.executable, *words, stdout=asyncio.subprocess.PIPE)
            sent = json.loads((await process.communicate())[0])["sent"]
            last = next(number for number in range(sent - 1, 0, -1) if number % 100 == 7)
            await until(lambda: _seen(daemon) == last, daemons.PATIENCE)
            assert daemon.decision()["current"] == 8
            await until(lambda: _dealt_with(daemon) == sent)
            counted = _counted(daemon)
    assert counted["shed"] > 0
    assert counted["received"] == sent
    assert counted["refused"] == counted["late"] == counted["duplicates"] == 0


def _seen(daemon: daemons.Daemon) -> float:
    """The number that the last decision was made by."""
    return float(sum(sample["value"] for one in daemon.decision()["series"] for sample in one.get("samples", ())))


def _counted(daemon: daemons.Daemon) -> dict[str, float]:
    """What became of the messages, as its metrics say."""
    found = re.findall(r'elasticd_source_messages_total{result="(\w+)",source="mqtt"} (\S+)', daemon.get("/metrics"))
    return {result: float(count) for result, count in found}


def _dealt_with(daemon: daemons.Daemon) -> float:
    counted = _counted(daemon)
    return counted["decoded"] + counted["shed"]


def _now(length: int) -> bytes:
    return msgspec.json.encode({"length": length, "at": time.time()})
