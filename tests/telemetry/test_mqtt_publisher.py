"""What the outlet tells and what it leaves out, before any broker is there."""

import asyncio
from pathlib import Path
from typing import Any

import aiomqtt
import msgspec
import pytest
from msgspec.structs import replace

from elasticd.base.errors import ConfigError
from elasticd.config import load_settings
from elasticd.model.listener import Governed
from elasticd.model.records import Decision, Outcome
from elasticd.model.workload import Ref
from elasticd.registry import discover
from elasticd.sources.mqtt.link import Link
from elasticd.sources.tls import Tls
from elasticd.telemetry.mqtt_publisher import MqttPublisher, PublisherSettings
from elasticd.testing import judge, observation
from tests.kube.processes import free_port

WEB = Ref("shop", "Deployment", "web")
DECISION = replace(judge(seen=observation([0.5])), workload=WEB, verdict="keep", reason="", interval=30.0)


def outcome(number: int = 0) -> Outcome:
    return Outcome(str(number), 1.0, "checkout", WEB, "done", 1, 2)


def waiting(teller: MqttPublisher) -> list[Decision | Outcome]:
    return list(teller.waiting)


async def test_it_tells_changes_and_holds_and_poll_rates_once() -> None:
    told = [
        DECISION,
        replace(DECISION, id="again"),
        replace(DECISION, interval=10.0),
        replace(DECISION, interval=10.0, verdict="hold", reason="Stale"),
        replace(DECISION, interval=10.0, verdict="hold", reason="Stale", id="again"),
        replace(DECISION, interval=10.0, verdict="hold", reason="Empty"),
        replace(DECISION, interval=10.0, verdict="scale"),
        replace(DECISION, interval=10.0, verdict="scale", id="again"),
    ]
    teller, every = MqttPublisher(PublisherSettings()), MqttPublisher(PublisherSettings(all=True))
    for decision in told:
        teller.on(decision)
        every.on(decision)
    assert waiting(teller) == [told[index] for index in (0, 2, 3, 5, 6, 7)]
    assert waiting(every) == told


async def test_whoever_is_no_longer_governed_is_forgotten() -> None:
    teller = MqttPublisher(PublisherSettings())
    teller.on(DECISION)
    teller.on(Governed({(DECISION.policy, WEB)}))
    teller.on(DECISION)
    teller.on(Governed(set()))
    teller.on(DECISION)
    assert len(waiting(teller)) == 2


async def test_of_too_many_records_the_oldest_go_and_are_counted() -> None:
    teller = MqttPublisher(PublisherSettings(queue=3))
    for number in range(5):
        teller.on(outcome(number))
    assert waiting(teller) == [outcome(2), outcome(3), outcome(4)]
    assert (teller.describe().shed, teller.describe().waiting) == (2, 3)


@pytest.mark.parametrize(
    ("ref", "topic"),
    [
        (WEB, "here/decisions/shop/Deployment/web"),
        (Ref("a/b", "De+loyment", "#\0"), "here/decisions/a_b/De_loyment/__"),
        (Ref("a" * 70_000, "b", "c"), f"here/decisions/{'a' * 253}/b/c"),
    ],
    ids=str,
)
async def test_the_topic_names_the_workload(ref: Ref, topic: str) -> None:
    assert MqttPublisher(PublisherSettings(prefix="here")).topic(replace(DECISION, workload=ref)) == topic


async def test_a_record_that_no_connection_survives_is_let_go() -> None:
    class Picky(Link):
        async def publish(self, topic: str, *arguments: Any, **options: Any) -> None:
            told.append(topic)
            if topic.endswith("/bad"):
                raise aiomqtt.MqttError("the broker hung up")

    told: list[str] = []
    teller = MqttPublisher(PublisherSettings())
    teller.on(replace(outcome(), workload=replace(WEB, name="bad")))
    teller.on(outcome())
    link = Picky(hostname="localhost")
    for _ in range(3):
        with pytest.raises(aiomqtt.MqttError):
            await teller.publish(link)
    task = asyncio.create_task(teller.publish(link))
    while teller.waiting:  # noqa: ASYNC110  # nobody sets an event for it
        await asyncio.sleep(0)
    task.cancel()
    assert told == ["elasticd/outcomes/shop/Deployment/bad"] * 3 + ["elasticd/outcomes/shop/Deployment/web"]
    assert (teller.describe().shed, teller.describe().published) == (1, 1)


async def test_a_broker_that_is_away_keeps_nobody_waiting() -> None:
    async with PublisherSettings(host="127.0.0.1", port=free_port()).open() as teller:
        teller.on(outcome())
        assert not teller.describe().connected


async def test_a_missing_password_file_is_a_config_error_naming_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=str(tmp_path)):
        async with PublisherSettings(username="u", password_file=str(tmp_path / "missing")).open():
            pass


def load(folder: Path, lines: str) -> PublisherSettings | None:
    path = folder / "elasticd.toml"
    path.write_text(lines)
    return load_settings(path, discover()).outlet


def test_without_its_table_there_is_none(tmp_path: Path) -> None:
    assert load(tmp_path, "") is None
    assert load(tmp_path, "[outlet]") == PublisherSettings()


def test_files_are_relative_to_the_settings(tmp_path: Path) -> None:
    found = load(tmp_path, '[outlet]\nusername = "u"\npassword_file = "p"\ntls = { ca_file = "ca.crt" }')
    assert found == PublisherSettings(
        username="u", password_file=str(tmp_path / "p"), tls=Tls(ca_file=str(tmp_path / "ca.crt"))
    )


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ('password_file = "p"', "outlet.username: must be given with password_file, is empty"),
        ("queue = 0", "outlet.queue: must be >= 1, is 0"),
        ("quue = 5", 'outlet.quue: no such key, did you mean "queue"?'),
        ('prefix = "a/#"', "outlet.prefix: "),
    ],
)
def test_options_that_are_wrong_are_named(lines: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as told:
        load(tmp_path, f"[outlet]\n{lines}")
    assert problem in str(told.value)


def test_what_is_reported_is_the_journals_record() -> None:
    assert msgspec.json.decode(msgspec.json.encode(DECISION), type=Decision | Outcome) == DECISION
