"""The outlet on a genuine Mosquitto."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from msgspec.structs import replace

from elasticd.model.records import Decision, Outcome
from elasticd.model.workload import Ref
from elasticd.telemetry.mqtt_publisher import PublisherSettings
from elasticd.testing import judge, observation
from tests.cluster.kubernetes.fake import until
from tests.kube.broker import OPEN, Broker
from tests.kube.processes import Program

WEB = Ref("shop", "Deployment", "web")
DECISION = replace(judge(seen=observation([0.5])), workload=WEB, verdict="scale")
OUTCOME = Outcome(DECISION.id, 1.0, DECISION.policy, WEB, "done", 1, 2)


class Heard(dict[str, list[bytes]]):
    """All that was published, by topic; the last that is retained of each, by topic."""

    def records(self, topic: str) -> list[Decision | Outcome]:
        """The records of a topic."""
        return [msgspec.json.decode(payload, type=Decision | Outcome) for payload in self.get(topic, [])]


@pytest_asyncio.fixture(loop_scope="session")
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with Broker(tmp_path, OPEN) as running:
        yield running


@asynccontextmanager
async def hearing(broker: Broker) -> AsyncIterator[Heard]:
    """Whoever listens to everything."""
    heard = Heard()

    async def hear(client: Any) -> None:
        async for message in client.messages:
            heard.setdefault(str(message.topic), []).append(message.payload)

    async with broker.client() as client:
        await client.subscribe("#", qos=1)
        task = asyncio.create_task(hear(client))
        yield heard
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
async def test_decisions_and_outcomes_are_reported_as_the_journals_records(broker: Broker, protocol: Any) -> None:
    outlet = PublisherSettings(host=broker.address, port=broker.port, protocol=protocol, prefix="here/elasticd")
    async with hearing(broker) as heard, outlet.open() as teller:
        teller.on(DECISION)
        teller.on(OUTCOME)
        await until(lambda: len(heard) == 3)
        assert heard.records("here/elasticd/decisions/shop/Deployment/web") == [DECISION]
        assert heard.records("here/elasticd/outcomes/shop/Deployment/web") == [OUTCOME]
        assert heard["here/elasticd/status"] == [b"online"]
        await until(lambda: teller.describe().published == 2)


async def test_late_subscribers_see_whether_the_daemon_is_online(broker: Broker) -> None:
    async with PublisherSettings(host=broker.address, port=broker.port).open() as teller:
        await until(lambda: teller.describe().connected)
        async with hearing(broker) as heard:
            await until(lambda: heard == {"elasticd/status": [b"online"]})
    async with hearing(broker) as heard:
        await until(lambda: heard == {"elasticd/status": [b"offline"]})


async def test_what_still_waits_at_the_end_is_reported(broker: Broker) -> None:
    async with hearing(broker) as heard:
        async with PublisherSettings(host=broker.address, port=broker.port).open() as teller:
            await until(lambda: "elasticd/status" in heard)
            for number in range(100):
                teller.on(replace(OUTCOME, decision=str(number)))
        await until(lambda: heard["elasticd/status"] == [b"online", b"offline"])
        assert len(heard["elasticd/outcomes/shop/Deployment/web"]) == 100


async def test_a_process_that_is_killed_is_offline(broker: Broker, tmp_path: Path) -> None:
    script = Path(__file__).with_name("outlet_process.py")
    process = Program("outlet", [sys.executable, script, broker.address, str(broker.port)], tmp_path / "outlet.log")
    async with hearing(broker) as heard:
        process.start()
        await until(lambda: heard.get("elasticd/status") == [b"online"], 20)
        await process.kill()
        await until(lambda: heard["elasticd/status"] == [b"online", b"offline"])
    async with hearing(broker) as later:
        await until(lambda: later == {"elasticd/status": [b"offline"]})


async def test_decisions_made_while_the_broker_was_away_are_reported_later(broker: Broker) -> None:
    async with PublisherSettings(host=broker.address, port=broker.port, queue=10).open() as teller:
        await until(lambda: teller.describe().connected)
        await broker.kill()
        await until(lambda: not teller.describe().connected)
        for number in range(15):
            teller.on(replace(OUTCOME, decision=str(number)))
        await broker.start()
        async with hearing(broker) as heard:
            topic = "elasticd/outcomes/shop/Deployment/web"
            await until(lambda: teller.describe().waiting == 0, 20)
            teller.on(replace(OUTCOME, decision="last"))
            await until(lambda: heard.records(topic)[-1:] == [replace(OUTCOME, decision="last")])
        assert (teller.describe().shed, teller.describe().published) == (5, 11)
