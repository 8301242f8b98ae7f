"""The source rabbitmq against a scripted server: what an answer is, and what is none."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from elasticd.base.clock import VirtualClock
from elasticd.base.decode import convert
from elasticd.base.errors import ConfigError
from elasticd.model.workload import Readings
from elasticd.sources.queues.rabbitmq import RabbitMq, RabbitQueue, count_in, register_sources
from elasticd.sources.rounds import Fault
from elasticd.testing import site
from tests.kit.sources.scripted import NOW, Say, Scripted, drop

WORKER = "shop/Deployment/worker"
FIGURES = {
    "name": "orders",
    "vhost": "/",
    "state": "running",
    "messages": 12,
    "messages_ready": 9,
    "messages_unacknowledged": 3,
    "message_stats": {"publish": 100, "publish_details": {"rate": 2.5}},
}
ORDERS = {"name": "orders", "vhost": "/"}
PATH = "/api/queues///orders"  # %2F, as aiohttp's server gives it back


@pytest.fixture
async def server() -> AsyncIterator[Scripted]:
    async with Scripted() as scripted:
        yield scripted


def source(server: Scripted, **more: Any) -> RabbitMq:
    table = {"name": "waiting", "queue": "orders", "workload": WORKER}
    return msgspec.convert({"type": "rabbitmq", "url": server.url, "series": [table], **more}, RabbitMq)


async def read(server: Scripted, **more: Any) -> Readings:
    async with source(server, **more).open(site(clock=VirtualClock(NOW))) as reader:
        return await reader.read(NOW)


def test_it_is_registered_under_its_name_in_toml() -> None:
    assert [kind.__struct_config__.tag for kind in register_sources()] == ["rabbitmq"]


@pytest.mark.parametrize(
    ("count", "value"), [("all", 12.0), ("ready", 9.0), ("unacknowledged", 3.0), ("publish_rate", 2.5)]
)
def test_a_queue_has_four_figures(count: Any, value: float) -> None:
    queue = RabbitQueue(name="waiting", workload=WORKER, queue="orders", count=count)
    assert count_in(msgspec.json.encode(FIGURES), queue) == value


@pytest.mark.parametrize(
    ("figures", "problem"),
    [
        pytest.param({**FIGURES, "state": "down"}, 'must be running, is "down"', id="down, with its last figures"),
        pytest.param({**FIGURES, "state": "minority"}, 'must be running, is "minority"', id="without a majority"),
        pytest.param(ORDERS, "must be running, is ", id="no state"),
        pytest.param({**ORDERS, "state": "running"}, "no figure of it yet", id="just declared"),
        pytest.param({**FIGURES, "messages": None}, "no figure of it yet", id="null"),
        pytest.param({**FIGURES, "messages": "12"}, "not what RabbitMQ says", id="text"),
        pytest.param({**FIGURES, "messages": 1.5}, "not what RabbitMQ says", id="half a message"),
        pytest.param({**FIGURES, "name": "mails"}, 'must be about it, is about "mails" of "/"', id="another queue"),
        pytest.param({**FIGURES, "vhost": "b"}, 'must be about it, is about "orders" of "b"', id="another host"),
        pytest.param([], "not what RabbitMQ says", id="a list"),
    ],
)
def test_what_is_no_figure_is_never_zero(figures: object, problem: str) -> None:
    queue = RabbitQueue(name="waiting", workload=WORKER, queue="orders")
    with pytest.raises(Fault, match=problem):
        count_in(msgspec.json.encode(figures), queue)


async def test_name_and_virtual_host_are_escaped_in_the_path(server: Scripted) -> None:
    await read(server, series=[{"name": "a", "queue": "or/ders?x", "vhost": "/", "workload": WORKER}])
    assert [seen.path for seen in server.seen] == ["/api/queues///or/ders?x"]


async def test_a_queue_is_read_with_the_user_s_password(server: Scripted, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("hidden\n")
    secret.chmod(0o600)
    server.on(PATH, FIGURES)
    readings = await read(server, username="elasticd", password_file=str(secret))
    assert {key: sample.value for key, (sample,) in readings.workloads["waiting"].items()} == {WORKER: 12.0}
    assert server.seen[0].headers["Authorization"].startswith("Basic ")


@pytest.mark.parametrize(
    ("options", "behind"),
    [
        pytest.param({}, 5.0, id="as RabbitMQ updates them"),
        pytest.param({"resolution": 1.0}, 1.0, id="as the source says"),
    ],
)
async def test_figures_count_as_old_as_they_may_be(server: Scripted, options: dict[str, float], behind: float) -> None:
    server.on(PATH, FIGURES)
    (sample,) = (await read(server, **options)).workloads["waiting"][WORKER]
    assert (sample.measured, sample.received) == (NOW - behind, NOW)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        pytest.param(Say(404, {"error": "Object Not Found"}), "404 Not Found: Object Not Found", id="no such queue"),
        pytest.param(Say(401, {"error": "not_authorised"}), "401 Unauthorized: not_authorised", id="not let in"),
        pytest.param(Say(200, b"<html>", {}, "text/html"), "answered with text/html", id="another page"),
        pytest.param(drop, "no answer", id="reset"),
        pytest.param(b'{"messages": 1', "not what RabbitMQ says", id="cut off"),
    ],
)
async def test_a_failure_is_an_error_without_samples(server: Scripted, answer: Any, problem: str) -> None:
    server.on(PATH, answer)
    readings = await read(server)
    assert problem in readings.error
    assert not readings.workloads


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        pytest.param({"workload": "worker"}, "series[0].workload", id="no workload"),
        pytest.param({"count": "some"}, "series[0].count", id="no count"),
        pytest.param({"queue": ""}, "series[0].queue", id="no queue"),
    ],
)
def test_a_mistake_names_its_key(server: Scripted, table: dict[str, str], problem: str) -> None:
    good = {"name": "waiting", "queue": "orders", "workload": WORKER}
    with pytest.raises(ConfigError) as raised:
        convert({"type": "rabbitmq", "url": "http://x:1", "series": [good | table]}, RabbitMq, "elasticd.toml")
    assert problem in str(raised.value)
