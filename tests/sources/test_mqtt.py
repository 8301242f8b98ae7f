"""The source's options, and what it does before any broker is there."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest
import tomli
from msgspec.structs import replace

from elasticd.base.errors import ConfigError
from elasticd.config import load_settings
from elasticd.registry import discover
from elasticd.sources.mqtt import Listening, Mqtt
from elasticd.sources.mqtt.broker import BrokerOptions
from elasticd.sources.mqtt.topics import Topic
from elasticd.sources.tls import Tls
from elasticd.testing import NOW, site
from tests.cluster.kubernetes.fake import until
from tests.kube.processes import free_port

EXAMPLE = Path(__file__).resolve().parents[2] / "config" / "sources" / "mqtt.toml"
CANARY = "canary-7f3a"
LOAD = Topic(topic="sensors/{namespace}/{workload}/load", series="load", subject="workload")


CONSECUTIVE = '{ topic = "{node}", series = "a", subject = "node", payload = "v", sequence = "n", consecutive = true }'


def names(record: type[Any]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(record)}


def test_the_example_names_every_option_at_its_default() -> None:
    (table,) = tomli.loads(EXAMPLE.read_text())["source"]
    assert (names(Mqtt) | {"type"}) - {"resolution"} == set(table)  # which is of every source
    assert names(Tls) == set(table["tls"])
    assert names(Topic) == set(table["topic"][0])
    (source,) = load_settings(EXAMPLE, discover()).sources
    assert isinstance(source, Mqtt)
    assert replace(source, host="localhost", tls=None) == Mqtt(topic=source.topic)
    chosen = {"topic", "series", "subject", "payload", "time", "sequence", "offline"}
    defaults = Topic(**{name: getattr(source.topic[0], name) for name in chosen})
    assert source.topic[0] == defaults


def test_it_offers_the_series_of_its_topics() -> None:
    (source,) = load_settings(EXAMPLE, discover()).sources
    assert source.offers() == ("load", "queue")


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("session_expiry = 60", "source[0].client_id: must be given with session_expiry > 0, is empty"),
        ('password_file = "secret"', "source[0].username: must be given with password_file, is empty"),
        ('protocol = "4"', 'source[0].protocol: must be one of 3.1.1, 5, is "4"'),
        ('tls = { cert_file = "a" }', "source[0].tls.key_file: must be given with cert_file, is empty"),
        ('share = "a/b"', "source[0].share: "),
        (
            f'share = "a"\ntopic = [{CONSECUTIVE}]',
            "source[0].share: must be empty where a topic is consecutive, is not",
        ),
        ("port = 70000", "source[0].port: must be <= 65535, is 70000"),
        ("topic = []", "source[0].topic: must not be empty, is []"),
        ("[[source.topic]]", "source[0].topic[0].topic: must be given, is missing"),
        ('[[source.topic]]\ntopic = "a"\nseries = "a"\nsubject = "node"', "source[0].topic[0].node: must be given"),
    ],
)
def test_options_that_are_wrong_are_named(lines: str, problem: str, tmp_path: Path) -> None:
    topic = '\n[[source.topic]]\ntopic = "{node}"\nseries = "a"\nsubject = "node"' if "topic" not in lines else ""
    path = tmp_path / "elasticd.toml"
    path.write_text(f'[[source]]\ntype = "mqtt"\n{lines}{topic}')
    with pytest.raises(ConfigError) as told:
        load_settings(path, discover())
    assert problem in str(told.value)


def test_files_are_made_absolute_and_credentials_stay(tmp_path: Path) -> None:
    path = tmp_path / "elasticd.toml"
    path.write_text(
        '[[source]]\ntype = "mqtt"\nusername = "u"\npassword_file = "p"\ntls = { ca_file = "ca.crt", cert_file = '
        '"credential:crt", key_file = "credential:key" }\n[[source.topic]]\ntopic = "{node}"\nseries = "a"\n'
        'subject = "node"'
    )
    (source,) = load_settings(path, discover()).sources
    assert isinstance(source, Mqtt)
    assert source.password_file == str(tmp_path / "p")
    assert source.tls == Tls(str(tmp_path / "ca.crt"), "credential:crt", "credential:key")


def files(folder: Path) -> dict[str, BrokerOptions]:
    """Brokers, each with a file that a person must mend."""
    (folder / "open").write_text(CANARY)
    (folder / "open").chmod(0o644)
    (folder / "closed").write_text(CANARY)
    (folder / "closed").chmod(0o600)
    at = {name: str(folder / name) for name in ("open", "closed", "missing")}
    return {
        "password, missing": BrokerOptions(username="u", password_file=at["missing"]),
        "password, open": BrokerOptions(username="u", password_file=at["open"]),
        "authority, missing": BrokerOptions(tls=Tls(ca_file=at["missing"])),
        "authority, no PEM": BrokerOptions(tls=Tls(ca_file=at["closed"])),
        "key, open": BrokerOptions(tls=Tls(cert_file=at["closed"], key_file=at["open"])),
        "key, no PEM": BrokerOptions(tls=Tls(cert_file=at["closed"], key_file=at["closed"])),
    }


@pytest.mark.parametrize(
    "which",
    [
        "authority, missing",
        "authority, no PEM",
        "key, no PEM",
        "key, open",
        "password, missing",
        "password, open",
    ],
)
async def test_an_unusable_broker_file_is_a_config_error_naming_it(which: str, tmp_path: Path) -> None:
    broker = files(tmp_path)[which]
    own = {name: getattr(broker, name) for name in BrokerOptions.__struct_fields__}
    with pytest.raises(ConfigError) as told:
        async with Mqtt(topic=(LOAD,), **own).open(site()):
            pass
    assert str(tmp_path) in str(told.value)
    assert CANARY not in str(told.value)


async def test_an_unreachable_broker_is_reported_and_delays_nobody(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    secret = tmp_path / "password"
    secret.write_text(CANARY)
    secret.chmod(0o600)
    port = free_port()
    source = Mqtt(host="127.0.0.1", port=port, username="u", password_file=str(secret), topic=(LOAD,))
    with caplog.at_level(logging.DEBUG):
        async with source.open(site()) as reader:
            assert isinstance(reader, Listening)
            assert (await reader.read(NOW)).faults == {"load": f"broker 127.0.0.1:{port}: not connected yet"}
            await until(lambda: "refused" in reader.keeper.trouble)
            said = await reader.read(NOW)
    assert (said.error, said.workloads) == ("", {"load": {}})
    assert said.faults == {"load": f"broker 127.0.0.1:{port}: [Errno 111] Connection refused"}
    assert len([one for one in caplog.records if one.name == "elasticd.mqtt"]) == 1
    for text in (caplog.text, repr(source), repr(said), repr(reader.describe())):
        assert CANARY not in text


async def test_a_host_that_has_no_address_is_reported() -> None:
    async with Mqtt(host="no.such.host.invalid", topic=(LOAD,)).open(site()) as reader:
        assert isinstance(reader, Listening)
        await until(lambda: "not connected yet" not in reader.keeper.trouble, 20)
        assert reader.describe().trouble.startswith("broker no.such.host.invalid:1883: ")
        assert not reader.describe().connected


async def test_it_ends_while_it_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elasticd.sources.mqtt.link.CONNECT", 0.5)
    come = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        come.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, asyncio.timeout(15), Mqtt(host="127.0.0.1", port=port, topic=(LOAD,)).open(site()):
        await come.wait()


@pytest.mark.parametrize("host", [f"user:{CANARY}@127.0.0.1", f"mqtt://{CANARY}", "127.0.0.1:1883", "a b", "h/x?y"])
def test_a_url_as_host_is_refused_without_repeating_it(host: str) -> None:
    with pytest.raises(ValueError, match="host: must be a name or an address") as told:
        Mqtt(topic=(LOAD,), host=host)
    assert host not in str(told.value)


@pytest.mark.parametrize("host", ["localhost", "mqtt.example.com", "10.0.0.1", "::1", "fe80::1%eth0", "broker_1"])
def test_a_host_may_be_any_name_or_address(host: str) -> None:
    assert Mqtt(topic=(LOAD,), host=host).broker.host == host
