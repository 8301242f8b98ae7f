"""Who may read the pages: this machine, and who has a token; probes are for everybody."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from msgspec.structs import replace

from elasticd.base.errors import EXIT_CONFIG, EXIT_UNAVAILABLE, ConfigError
from elasticd.config.settings import HttpSettings, examine
from elasticd.sources import settled
from elasticd.telemetry import access as access_module
from elasticd.telemetry.access import UNASKED, Access
from elasticd.telemetry.web import serve
from tests.kit.policies import settings_of
from tests.telemetry.test_web import Told

TOKEN = "correct-horse-battery"
DATA = ("/status", "/events", "/history?workload=a/b/c", "/plugins", "/query")
OPEN = ("/", "/page/main.js", "/healthz", "/readyz")


class Reviews:
    """An API server that knows one token."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    async def __call__(self, token: str, path: str) -> str:
        self.asked.append((token, path))
        return "" if token == "of-a-person" else "the API server does not know this token"


class Caller:
    """Asks for pages, and keeps the status of the answer."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url, self._session = url, session

    async def __call__(self, path: str, token: str = "", **headers: str) -> int:
        headers |= {"Authorization": token} if token else {}
        async with self._session.get(self._url + path, headers=headers) as answer:
            return answer.status


@asynccontextmanager
async def served(access: Access, host: str = "0.0.0.0") -> AsyncIterator[Caller]:
    async with serve(Told().pages(), host, 0, access) as address, aiohttp.ClientSession() as session:
        yield Caller(f"http://127.0.0.1:{address.rpartition(':')[2]}", session)


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])
async def test_with_a_token_everybody_needs_it_but_for_probes(host: str) -> None:
    async with served(Access(lambda: TOKEN), host) as ask:
        assert {path: await ask(path) for path in DATA} == dict.fromkeys(DATA, 401)
        assert {path: await ask(path) for path in (*OPEN, "/metrics")} == dict.fromkeys((*OPEN, "/metrics"), 200)
        assert await ask("/status", f"Bearer {TOKEN}") == 200


@pytest.mark.parametrize(
    "token",
    [
        pytest.param("Bearer correct-horse-batter", id="part of it"),
        pytest.param("Bearer correct-horse-battery2", id="more than it"),
        pytest.param(f"Basic {TOKEN}", id="another scheme"),
        pytest.param(TOKEN, id="no scheme"),
        pytest.param("Bearer ", id="empty"),
        pytest.param("Bearer \u00e9" * 3, id="not ASCII"),
    ],
)
async def test_another_token_does_not_count(token: str) -> None:
    async with served(Access(lambda: TOKEN)) as ask:
        assert await ask("/status", token) == 401


@pytest.mark.parametrize(("needed", "status"), [(False, 200), (True, 401)])
async def test_prometheus_needs_a_token_only_where_told(needed: bool, status: int) -> None:
    async with served(Access(lambda: TOKEN, metrics=needed)) as ask:
        assert await ask("/metrics") == status
        assert await ask("/metrics", f"bearer {TOKEN}") == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({}, 200, id="from this machine"),
        pytest.param({"Host": "localhost:9464"}, 200, id="by a forwarded port"),
        pytest.param({"Host": "elasticd.elasticd.svc"}, 403, id="by another name"),
        pytest.param({"X-Forwarded-For": "10.0.0.9"}, 403, id="by a proxy here"),
    ],
)
async def test_without_a_token_only_this_machine_reads(headers: dict[str, str], status: int) -> None:
    async with served(UNASKED) as ask:
        assert await ask("/status", **headers) == status
        assert await ask("/metrics", **headers) == 200


@pytest.mark.parametrize("header", ["Forwarded", "X-Forwarded-For", "X-Real-IP", "Via"])
async def test_a_proxy_needs_a_token_also_on_loopback(header: str) -> None:
    async with served(UNASKED, "127.0.0.1") as ask:
        assert await ask("/status", **{header: "for=10.0.0.9"}) == 403
        assert await ask("/status") == 200


async def test_a_token_that_cannot_be_read_lets_nobody_in(caplog: pytest.LogCaptureFixture) -> None:
    def unreadable() -> str:
        raise ConfigError("", "/token", "must be readable, is not")

    async with served(Access(unreadable)) as ask:
        assert [await ask("/status", f"Bearer {word}") for word in (TOKEN, "x")] == [401, 401]
    (line,) = [record.getMessage() for record in caplog.records if record.name == "elasticd"]
    assert line == "http.token_file: /token: must be readable, is not: it lets nobody through"


async def test_a_token_whose_mount_does_not_answer_lets_nobody_in(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pages that need no token are served meanwhile, and the others once it answers."""
    answers = threading.Event()

    def slow() -> str:
        assert answers.wait(30), "the test lets it go on"
        return TOKEN

    monkeypatch.setattr(access_module, "PATIENCE", 0.05)
    async with served(Access(slow)) as ask:
        assert [await ask("/status", f"Bearer {TOKEN}"), await ask("/healthz")] == [401, 200]
        answers.set()
        async with asyncio.timeout(10):
            while await ask("/status", f"Bearer {TOKEN}") != 200:
                continue
    (line,) = [record.getMessage() for record in caplog.records if record.name == "elasticd"]
    assert line == "http.token_file: must be readable, is not: its mount does not answer: it lets nobody through"


def test_a_silent_mount_at_the_start_is_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """So systemd starts the daemon again."""
    answers = threading.Event()
    monkeypatch.setattr(settled, "PATIENCE", 0.05)
    monkeypatch.setattr(HttpSettings, "token", lambda _: answers.wait(30))
    try:
        (error,) = examine(replace(settings_of(()), http=HttpSettings(token_file="/token")), "elasticd.toml")
    finally:
        answers.set()
    assert error.exit_code == EXIT_UNAVAILABLE
    place = "elasticd.toml: http.token_file"
    assert str(error) == f"{place}: the files that it names must be readable, are not: their mount does not answer"


@pytest.mark.parametrize(
    ("text", "mode", "code"),
    [
        pytest.param(None, 0o600, EXIT_UNAVAILABLE, id="not there yet"),
        pytest.param("", 0o600, EXIT_UNAVAILABLE, id="empty yet"),
        pytest.param("0123456789abcdef", 0o644, EXIT_CONFIG, id="for everybody"),
        pytest.param("short", 0o600, EXIT_CONFIG, id="too short"),
    ],
)
def test_only_what_comes_by_itself_is_no_mistake(tmp_path: Path, text: str | None, mode: int, code: int) -> None:
    file = tmp_path / "token"
    if text is not None:
        file.write_text(text)
        file.chmod(mode)
    (error,) = examine(replace(settings_of(()), http=HttpSettings(token_file=str(file))), "elasticd.toml")
    assert error.exit_code == code


async def test_the_api_server_is_asked_once_for_a_token() -> None:
    reviews = Reviews()
    async with served(Access(reviewer=reviews)) as ask:
        assert [await ask("/status", "Bearer of-a-person") for _ in range(3)] == [200, 200, 200]
        assert await ask("/status", "Bearer of-nobody") == 401
        assert await ask("/status") == 401
    assert reviews.asked == [("of-a-person", "/status"), ("of-nobody", "/status")]


async def test_the_own_token_is_not_shown_to_the_api_server() -> None:
    reviews = Reviews()
    async with served(Access(lambda: TOKEN, reviews)) as ask:
        assert await ask("/status", f"Bearer {TOKEN}") == 200
    assert reviews.asked == []


@pytest.mark.parametrize(
    ("access", "host", "noted"),
    [
        pytest.param(UNASKED, "127.0.0.1", False, id="loopback"),
        pytest.param(UNASKED, "localhost", False, id="loopback by name"),
        pytest.param(UNASKED, "0.0.0.0", True, id="everywhere"),
        pytest.param(Access(lambda: TOKEN), "0.0.0.0", False, id="everywhere, with a token"),
    ],
)
def test_a_daemon_that_serves_this_machine_alone_says_so(access: Access, host: str, noted: bool) -> None:
    assert access.note(host).startswith("http: the status page and its JSON are for this machine alone") == noted


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("0123456789abcdef\n", "", id="fine"),
        pytest.param("short\n", "at least 16 characters of ASCII and no space, has 5", id="short"),
        pytest.param("0123456789 abcdef", "at least 16 characters of ASCII and no space, has 17", id="with a space"),
        pytest.param("", "must hold a token, is empty", id="empty"),
    ],
)
def test_a_token_is_long_enough_not_to_be_guessed(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    file.chmod(0o600)
    settings = HttpSettings(token_file=str(file))
    if not problem:
        assert settings.token() == text.strip()
        return
    with pytest.raises(ConfigError, match=problem):
        settings.examine()
