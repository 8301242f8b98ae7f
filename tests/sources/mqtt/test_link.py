"""That what is overridden of aiomqtt is still there, and called as it was when it was written."""

import asyncio
import inspect

import aiomqtt
import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from elasticd.sources.mqtt.link import Link


@pytest.mark.parametrize(
    "name", ["_on_message", "_on_disconnect", "_on_socket_open", "_on_socket_register_write", "_misc_loop", "_wait_for"]
)
def test_what_is_overridden_or_used_of_aiomqtt_is_still_there(name: str) -> None:
    theirs, ours = getattr(aiomqtt.Client, name), getattr(Link, name)
    assert list(inspect.signature(theirs).parameters) == list(inspect.signature(ours).parameters)


def test_what_is_used_of_paho_is_still_there() -> None:
    for name in (
        "loop_read",
        "loop_write",
        "want_write",
        "socket",
        "disconnect",
        "_sock_close",
        "_sock_recv",
        "_packet_queue",
    ):
        assert callable(getattr(paho.Client, name))
    assert hasattr(paho.Client(CallbackAPIVersion.VERSION2), "_last_bytes_received")


async def test_state_of_aiomqtt_that_is_used_is_still_there() -> None:
    link = Link(hostname="127.0.0.1")
    for name in ("_client", "_disconnected", "_loop", "_misc_task"):
        assert hasattr(link, name)
    assert link._client.on_message == link._on_message


async def test_a_cancellation_that_comes_with_the_answer_is_honoured() -> None:
    link, answer = Link(hostname="127.0.0.1"), asyncio.get_running_loop().create_future()
    asking = asyncio.create_task(link._wait_for(answer, timeout=None))
    await asyncio.sleep(0)
    answer.set_result(1)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_an_answer_that_does_not_come_in_time_is_trouble() -> None:
    link, answer = Link(hostname="127.0.0.1"), asyncio.get_running_loop().create_future()
    with pytest.raises(aiomqtt.MqttError, match="Operation timed out"):
        await link._wait_for(answer, timeout=0.001)
