"""The options of the source redis, and answers that none gives; what one answers is in tests/kube/test_queues.py."""

import asyncio
from typing import Any

import pytest

from elasticd.base.decode import convert
from elasticd.base.errors import ConfigError
from elasticd.sources.queues.redis import Redis, register_sources
from elasticd.testing import site

MAILS = {"name": "waiting", "key": "mails", "workload": "shop/Deployment/mailer"}


def source(**more: Any) -> Redis:
    return convert({"type": "redis", "host": "localhost", "series": [MAILS], **more}, Redis, "elasticd.toml")


def test_it_is_registered_under_its_name_in_toml() -> None:
    assert [kind.__struct_config__.tag for kind in register_sources()] == ["redis"]


def test_it_offers_its_series_of_workloads_alone() -> None:
    redis = source(series=[MAILS, {**MAILS, "key": "more", "workload": "shop/Deployment/other"}])
    assert (redis.offers(), redis.offers_of_nodes(), redis.complete) == (("waiting",), (), False)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        pytest.param({"host": "redis://x:secret@y"}, "without scheme, user and port", id="URL as host"),
        pytest.param({"username": "elasticd"}, "password_file: must be given", id="user without password"),
        pytest.param({"series": [MAILS | {"count": "lag"}]}, "group: must be given", id="lag of no group"),
        pytest.param({"series": [MAILS | {"group": "g"}]}, "group: must be given", id="group of a list"),
        pytest.param({"series": [MAILS, MAILS]}, "is twice", id="one series twice"),
        pytest.param({"tls": {"cert_file": "x"}}, "key_file: must be given", id="certificate without key"),
        pytest.param({"series": []}, "series", id="no series"),
    ],
)
def test_a_mistake_is_one_line_without_secrets(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        source(**options)
    assert problem in str(raised.value)
    assert "secret" not in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        pytest.param(b":7", "", id="a number"),
        pytest.param(b"$1\r\n0", "must be a whole number, is b'0'", id="a text"),
        pytest.param(b"+0", "must be a whole number, is b'0'", id="a status"),
        pytest.param(b"-ERR no", "no", id="an error"),
        pytest.param(b"_", "does not know", id="null"),
    ],
)
async def test_what_is_no_length_is_never_zero(answer: bytes, problem: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readline():
            words = [(await reader.readline(), await reader.readline())[1].strip() for _ in range(int(head[1:]))]
            writer.write((answer if words[0] == b"LLEN" else b"+OK") + b"\r\n")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with source(port=port, host="127.0.0.1").open(site()) as reader:
            while (readings := await reader.read(1000.0)).error == "no answer yet":
                pass
    told = readings.error or "".join(readings.faults.values())
    assert problem in told
    assert bool(readings.workloads) == (not problem)
