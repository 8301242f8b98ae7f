"""That what is overridden of aiomqtt is still there, and called as it was when it was written."""

import inspect

import aiomqtt
import paho.mqtt.client as paho
import pytest

from elasticd.mqtt.link import Link


@pytest.mark.parametrize(
    "name", ["_on_message", "_on_disconnect", "_on_socket_open", "_on_socket_register_write", "_misc_loop"]
)
def test_what_is_overridden_or_used_of_aiomqtt_is_still_there(name: str) -> None:
    theirs, ours = getattr(aiomqtt.Client, name), getattr(Link, name)
    assert list(inspect.signature(theirs).parameters) == list(inspect.signature(ours).parameters)


def test_what_is_used_of_paho_is_still_there() -> None:
    for name in ("loop_read", "loop_write", "want_write", "socket", "disconnect", "_sock_close"):
        assert callable(getattr(paho.Client, name))


async def test_state_of_aiomqtt_that_is_used_is_still_there() -> None:
    link = Link(hostname="127.0.0.1")
    for name in ("_client", "_disconnected", "_loop", "_misc_task"):
        assert hasattr(link, name)
    assert link._client.on_message == link._on_message
