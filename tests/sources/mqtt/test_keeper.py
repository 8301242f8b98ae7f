"""That what is wrong with a connection is told in one line."""

import asyncio
from typing import Self

import aiomqtt
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

from elasticd.base.errors import ConfigError
from elasticd.sources.mqtt.broker import BrokerOptions
from elasticd.sources.mqtt.keeper import Connection
from elasticd.sources.mqtt.link import Link


async def nothing(link: Link) -> None:
    """Nothing is done with a connection."""


def lost(cause: Exception) -> Exception:
    error = aiomqtt.MqttError("Disconnected during message iteration")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (
            lost(aiomqtt.MqttCodeError(ReasonCode(PacketTypes.DISCONNECT, identifier=0x8E))),
            'another client took over client_id "one"',
        ),
        (
            lost(aiomqtt.MqttCodeError(ReasonCode(PacketTypes.DISCONNECT, identifier=0x80))),
            "the connection was lost",
        ),
        (
            lost(aiomqtt.MqttCodeError(ReasonCode(PacketTypes.DISCONNECT, identifier=0x8B))),
            "[code:139] Server shutting down",
        ),
        (aiomqtt.MqttError("[Errno 111] Connection refused"), "[Errno 111] Connection refused"),
        (lost(BrokenPipeError(32, "Broken pipe")), "BrokenPipeError: [Errno 32] Broken pipe"),
        (ConfigError("", "/etc/secret", "must be readable, is not"), "/etc/secret: must be readable, is not"),
        (ValueError("some\nthing"), "ValueError: some thing"),
    ],
    ids=str,
)
async def test_the_reason_of_a_loss_is_reported_in_a_line(error: Exception, why: str) -> None:
    def fail(_: object) -> Link:
        raise error

    keeper = Connection("mqtt", BrokerOptions(client_id="one"), fail, nothing)
    before = keeper.trouble
    async with keeper.kept(), asyncio.timeout(30):
        while keeper.trouble == before:  # noqa: ASYNC110  # nobody sets an event for it
            await asyncio.sleep(0.001)
    assert keeper.trouble == f"broker localhost:1883: {why}"


class SlowToLeave(Link):
    """A connection that is lost at once, and whose end takes as long as the test says."""

    def __init__(self) -> None:
        self.leaving, self.leave = asyncio.Event(), asyncio.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.leaving.set()
        await self.leave.wait()

    async def abandon(self) -> None:
        """There is nothing to release."""


async def test_a_lost_connection_is_a_fault_before_its_reason_shows() -> None:
    link = SlowToLeave()
    keeper = Connection("mqtt", BrokerOptions(), lambda _: link, nothing)
    async with keeper.kept(), asyncio.timeout(30):
        await link.leaving.wait()
        assert (keeper.connected, keeper.trouble) == (False, "broker localhost:1883: the connection was lost")
        link.leave.set()
