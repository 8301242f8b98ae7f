"""The whole daemon between a sensor and whoever listens to its outlet, on a genuine Mosquitto."""

import asyncio
import signal
import time
from pathlib import Path

import msgspec

from elasticd.model import Decision, Outcome
from tests import daemons
from tests.cluster.kubernetes.fake import until
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


async def test_what_a_sensor_says_scales_a_workload_and_is_told(tmp_path: Path) -> None:
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
            await until(lambda: says("hold", "queue"), 20)
            await client.publish("sensors/shop/web/queue", _now(40), qos=1)
            await until(lambda: any(isinstance(one, Outcome) and one.after == 4 for one in records("outcomes")), 20)
            await client.publish("sensors/shop/web/status", "offline", qos=1)
            await until(lambda: says("hold", "unknown age"), 20)
            assert heard["elasticd/status"] == [b"online"]
            told = msgspec.json.decode(await asyncio.to_thread(daemon.get, "/status"))["outlet"]
            assert (told["connected"], told["shed"], told["published"] > 0) == (True, 0, True)
            assert daemon.stop(signal.SIGKILL) == -signal.SIGKILL
            await until(lambda: heard["elasticd/status"] == [b"online", b"offline"])
        hearing.cancel()
        await asyncio.gather(hearing, return_exceptions=True)


def _now(length: int) -> bytes:
    return msgspec.json.encode({"length": length, "at": time.time()})
