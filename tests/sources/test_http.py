"""One way to ask an HTTP server: credentials stay secret, TLS is always checked, and an answer has its limits."""

import asyncio
import gzip
import os
import ssl
import threading
import time
import zlib
from collections.abc import AsyncIterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from aiohttp import web

from elasticd.base.errors import ConfigError
from elasticd.sources import http
from elasticd.sources.http import HttpClient, HttpFault, HttpSource, unpacked
from tests.kit.sources.scripted import Say, Scripted, drop
from tests.kube import pki

CANARY = "canary-4711"
FINE = {"fine": True}


class Asking(HttpSource, frozen=True, tag="asking"):
    """A source of which only the HTTP options matter."""


@pytest.fixture
async def server() -> AsyncIterator[Scripted]:
    async with Scripted() as scripted:
        scripted.on("/x", FINE)
        yield scripted


def options(url: str, **more: Any) -> Asking:
    return msgspec.convert({"type": "asking", "url": url, **more}, Asking)


def secret(folder: Path, name: str = "token", text: str = CANARY, mode: int = 0o600) -> str:
    path = folder / name
    path.write_text(text + "\n")
    path.chmod(mode)
    return str(path)


async def ask(url: str, **more: Any) -> bytes:
    async with HttpClient(options(url, **more)) as http:
        return await http.ask("/x")


async def fault(url: str, **more: Any) -> str:
    with pytest.raises(HttpFault) as caught:
        await ask(url, **more)
    assert "\n" not in str(caught.value)
    return str(caught.value)


async def test_a_form_is_posted_and_nothing_is_got_without_one(server: Scripted) -> None:
    async with HttpClient(options(server.url + "/", at_once=1)) as http:
        assert msgspec.json.decode(await http.ask("/x")) == FINE
        await http.ask("/x", {"query": "a{b='c'}"})
    assert [(one.method, one.form) for one in server.seen] == [("GET", {}), ("POST", {"query": "a{b='c'}"})]
    assert "Authorization" not in server.seen[0].headers


async def test_a_path_in_the_url_stays(server: Scripted) -> None:
    server.on("/select/prometheus/x", FINE)
    await ask(f"{server.url}/select/prometheus")


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://user:canary-4711@host", "must have no user or password"),
        ("http://canary-4711@host", "must have no user or password"),
        ("ftp://host", "must be http:// or https:// and a host"),
        ("host:9090", "must be http:// or https:// and a host"),
        ("http://", "must be http:// or https:// and a host"),
        ("", "must be http:// or https:// and a host"),
        ("http://host:99999", "must be http:// or https:// and a host"),
        ("http://[::1", "must be http:// or https:// and a host"),
        ("http://host/a b", "must be http:// or https:// and a host"),
        ("http://host/?a=b", "must end with its path"),
        ("http://host/#a", "must end with its path"),
    ],
)
def test_an_invalid_url_is_refused_without_showing_a_secret(url: str, problem: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=f"url: {problem}") as caught:
        options(url)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"ca_file": "/ca"}, "url: must be https:// where there is a ca_file"),
        ({"key_file": "/k"}, "key_file: must be with the cert_file"),
        ({"username": "u"}, "password_file: must be given with username"),
        ({"password_file": "/p"}, "password_file: must be given with username"),
        ({"username": "u", "password_file": "/p", "bearer_file": "/b"}, "bearer_file: must be the only way"),
        ({"username": "a:b", "password_file": "/p"}, "username: must be printable ASCII without a colon"),
        ({"header": [{"name": "Authorization", "value": CANARY}]}, r"value: must be in a file \(value_file\)"),
        ({"header": [{"name": "X-Api-Key", "value": CANARY}]}, r"value: must be in a file \(value_file\)"),
        ({"header": [{"name": "Cookie", "value": CANARY}]}, r"value: must be in a file \(value_file\)"),
        ({"header": [{"name": "X-Scope"}]}, "value: must be given, or else value_file, neither is"),
        ({"header": [{"name": "X-Scope", "value": "a", "value_file": "/b"}]}, "both are"),
        ({"header": [{"name": "X-Scope", "value": "a\r\nHost: b"}]}, "value: must be printable ASCII"),
        ({"header": [{"name": "X Scope", "value": "a"}]}, "name: must be the name of a header"),
        ({"header": [{"name": "Host", "value": "a"}]}, "name: must be the name of a header"),
        ({"header": [{"name": "X-A", "value": "a"}, {"name": "x-a", "value": "b"}]}, "x-a is given twice"),
        ({"header": [{"name": "Authorization", "value_file": "/a"}], "bearer_file": "/b"}, "authorization is given"),
        ({"verify": False}, "unknown field `verify`"),
        ({"timeout": 0}, ">= 0.1"),
    ],
)
def test_options_that_contradict_themselves_are_refused(table: dict[str, Any], problem: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=problem) as caught:
        options("http://host", **table)
    assert CANARY not in str(caught.value)


# To be let in.


@pytest.mark.parametrize(
    ("table", "sent"),
    [
        ({"bearer_file": "{}"}, {"Authorization": f"Bearer {CANARY}"}),
        ({"username": "me", "password_file": "{}"}, {"Authorization": "Basic bWU6Y2FuYXJ5LTQ3MTE="}),
        ({"header": [{"name": "X-Api-Key", "value_file": "{}"}]}, {"X-Api-Key": CANARY}),
        ({"header": [{"name": "X-Scope-OrgID", "value": "shop"}]}, {"X-Scope-OrgID": "shop"}),
    ],
    ids=["bearer", "basic", "header-file", "header"],
)
async def test_what_lets_us_in_is_sent(
    server: Scripted, tmp_path: Path, table: dict[str, Any], sent: dict[str, str]
) -> None:
    await ask(server.url, **placed(table, secret(tmp_path)))
    assert sent.items() <= server.seen[0].headers.items()


def placed(value: Any, path: str) -> Any:
    """The same tables with the path of the secret in them."""
    if isinstance(value, dict):
        return {key: placed(one, path) for key, one in value.items()}
    if isinstance(value, list):
        return [placed(one, path) for one in value]
    return path if value == "{}" else value


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        pytest.param(Say(401, {"error": "expired"}), "401 Unauthorized: expired", id="401"),
        pytest.param(Say(403), "403 Forbidden", id="a gateway's 403"),
        pytest.param(Say(302, b"", {"Location": "/login"}), "302 Found", id="to a page for a login"),
        pytest.param(Say(200, b"<html>", content_type="text/html"), "answered with text/html", id="that page"),
        pytest.param(Say(500), "500 Internal Server Error", id="500"),
    ],
)
async def test_a_renewed_token_is_read_after_a_refusal(
    server: Scripted, tmp_path: Path, refusal: Say, told: str
) -> None:
    server.on("/x", refusal, refusal, FINE)
    async with HttpClient(options(server.url, bearer_file=secret(tmp_path, text="first"))) as http:
        with pytest.raises(HttpFault, match=told):
            await http.ask("/x")
        assert len(server.seen) == 1  # what is the same is not tried again
        secret(tmp_path, text="second")
        await http.ask("/x")
        await http.ask("/x")
    sent = [one.headers["Authorization"] for one in server.seen]
    assert sent == ["Bearer first", "Bearer first", "Bearer second", "Bearer second"]


@pytest.mark.parametrize("status", [429, 503])
async def test_a_server_that_asks_for_quiet_is_asked_once(server: Scripted, tmp_path: Path, status: int) -> None:
    server.on("/x", Say(status))
    async with HttpClient(options(server.url, bearer_file=secret(tmp_path, text="first"))) as http:
        secret(tmp_path, text="second")
        with pytest.raises(HttpFault, match=str(status)):
            await http.ask("/x")
    assert len(server.seen) == 1


async def test_a_token_that_went_missing_is_a_fault_that_passes(server: Scripted, tmp_path: Path) -> None:
    path = secret(tmp_path)
    server.on("/x", Say(401), Say(401), FINE)
    async with HttpClient(options(server.url, bearer_file=path)) as http:
        os.unlink(path)  # noqa: PTH108
        with pytest.raises(HttpFault, match="token: must be readable, is not: No such file"):
            await http.ask("/x")
        secret(tmp_path, text="new")
        assert await http.ask("/x")


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"bearer_file": "/nowhere/token"}, "/nowhere/token: must be readable, is not: No such file"),
        ({"cert_file": "/nowhere/cert"}, "/nowhere/cert: must be readable, is not: No such file"),
        ({"ca_file": "/nowhere/ca"}, "/nowhere/ca: must be readable, is not: No such file"),
    ],
    ids=["bearer", "certificate", "authority"],
)
async def test_a_missing_file_is_a_config_error_before_any_request(table: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        await ask("https://127.0.0.1:1", **table)


@pytest.mark.parametrize(
    ("text", "mode", "problem"),
    [
        (CANARY, 0o644, "must not be readable by everyone"),
        (f"{CANARY}\nX-Other: 1", 0o600, "must be one line of printable ASCII"),
        ("", 0o600, "must be one line of printable ASCII"),
        (f"{CANARY}ä", 0o600, "must be one line of printable ASCII"),
    ],
    ids=["open", "two-lines", "empty", "no-ascii"],
)
async def test_an_unfit_token_is_refused_without_showing_it(
    server: Scripted, tmp_path: Path, text: str, mode: int, problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        await ask(server.url, bearer_file=secret(tmp_path, text=text, mode=mode))
    assert CANARY not in str(caught.value)
    assert server.seen == []


@pytest.mark.parametrize(
    "table", [{"bearer_file": "{}"}, {"username": "me", "password_file": "{}"}], ids=["bearer", "basic"]
)
async def test_no_message_shows_a_secret_even_if_the_server_does(
    server: Scripted, tmp_path: Path, caplog: pytest.LogCaptureFixture, table: dict[str, Any]
) -> None:
    caplog.set_level("DEBUG")

    async def parrot(request: web.Request) -> web.StreamResponse:
        said = f"not for {request.headers['Authorization']}, that is {CANARY}, " + "x" * 170 + CANARY
        return web.json_response({"error": said}, status=403)

    server.on("/x", parrot)
    asking = options(server.url, **placed(table, secret(tmp_path)))
    async with HttpClient(asking) as http:
        with pytest.raises(HttpFault) as caught:
            await http.ask("/x")
    for text in (str(caught.value), repr(caught.value), repr(asking), repr(http), caplog.text):
        assert "canary" not in text
        assert "bWU6Y2FuYXJ5" not in text
    assert str(caught.value).startswith("403 Forbidden: not for B")


# What a server may say.


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Say(500, {"error": "a\nb\x1b[31m"}), "500 Internal Server Error: a b\\x1b[31m"),
        (Say(500, {"message": "many words " * 100}), "500 Internal Server Error: many words many"),
        (Say(502, b"<html>no</html>", content_type="text/html"), "502 Bad Gateway"),
        (Say(500, {"error": 7}), "500 Internal Server Error"),
        (Say(500, b"[" * 60_000), "500 Internal Server Error"),
        (Say(301, b"", {"Location": "http://127.0.0.1:1/"}), "301 Moved Permanently"),
        (Say(200, b"ok", content_type="text/plain"), "answered with text/plain, not application/json"),
        (Say(200, b"no gzip", {"Content-Encoding": "gzip"}), "the answer is no gzip: Error -3"),
        (Say(200, b"?", {"Content-Encoding": "br"}), "the answer must be packed as gzip, deflate or not at all, is as"),
        (drop, "no answer: Server disconnected"),
    ],
    ids=["error", "long", "html", "no-text", "deep", "redirect", "type", "garbled-gzip", "brotli", "reset"],
)
async def test_a_refusal_is_reported_in_one_short_line(server: Scripted, answer: Any, told: str) -> None:
    server.on("/x", answer)
    said = await fault(server.url)
    assert said.startswith(told)
    assert len(said) <= 200


async def test_a_redirect_takes_no_credentials_elsewhere(server: Scripted, tmp_path: Path) -> None:
    async with Scripted() as other:
        server.on("/x", Say(307, b"", {"Location": f"{other.url}/x"}))
        assert await fault(server.url, bearer_file=secret(tmp_path)) == "307 Temporary Redirect"
        assert other.seen == []


@pytest.mark.slow
@pytest.mark.parametrize("packed", [True, False], ids=["gzip-bomb", "endless"])
async def test_an_answer_is_not_listened_to_beyond_its_limit(server: Scripted, packed: bool) -> None:
    bomb = gzip.compress(b" " * (64 << 20))

    async def endless(request: web.Request) -> web.StreamResponse:
        headers = {"Content-Type": "application/json", **({"Content-Encoding": "gzip"} if packed else {})}
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        try:
            while True:
                await response.write(bomb if packed else b" " * 65536)
        except (ConnectionError, asyncio.CancelledError):
            return response

    server.on("/x", endless)
    assert await fault(server.url, max_bytes=1 << 20) == "answered with more than 1048576 bytes (max_bytes)"


def test_answers_fit_the_shipped_memory_limit() -> None:
    """One takes up to five times its size while it is decoded; a daemon without any takes some 100 MiB."""
    deployment = yaml.safe_load(Path("config/kubernetes/deployment.yaml").read_text())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    limit = int(container["resources"]["limits"]["memory"].removesuffix("Mi"))
    source = options("http://prometheus")
    assert 100 + 5 * source.at_once * source.max_bytes / (1 << 20) <= limit


async def test_an_answer_that_announces_too_much_is_not_waited_for(server: Scripted) -> None:
    server.on("/x", Say(200, b" " * 5000))
    assert await fault(server.url, max_bytes=4096) == "answered with more than 4096 bytes (max_bytes)"


async def test_a_packed_answer_is_unpacked(server: Scripted) -> None:
    server.on("/x", Say(200, gzip.compress(b'{"fine":true}'), {"Content-Encoding": "gzip"}))
    assert await ask(server.url) == b'{"fine":true}'
    assert server.seen[0].headers["Accept-Encoding"] == "identity"


async def test_unpacking_takes_no_time_of_the_loop(server: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []

    def unpacking(*arguments: Any) -> Any:
        threads.append(threading.get_ident())
        return unpacked(*arguments)

    monkeypatch.setattr(http, "unpacked", unpacking)
    server.on("/x", Say(200, gzip.compress(b"fine"), {"Content-Encoding": "gzip"}))
    assert await ask(server.url) == b"fine"
    assert len(threads) == 1
    assert threads != [threading.get_ident()]


TEN = b"0123456789"


@pytest.mark.parametrize(
    ("packed", "encoding", "most", "body"),
    [
        pytest.param(gzip.compress(TEN), "gzip", 10, TEN, id="as much as may be"),
        pytest.param(gzip.compress(TEN), "gzip", 9, None, id="a byte more"),
        pytest.param(zlib.compress(TEN), "deflate", 10, TEN, id="deflate"),
        pytest.param(gzip.compress(b""), "gzip", 9, b"", id="nothing"),
    ],
)
def test_what_is_unpacked_has_its_limit(packed: bytes, encoding: str, most: int, body: bytes | None) -> None:
    assert unpacked(packed, encoding, most) == body


@pytest.mark.parametrize("packed", [gzip.compress(TEN)[:-1], gzip.compress(TEN) * 2, TEN], ids=["cut", "more", "text"])
def test_what_is_not_packed_is_told(packed: bytes) -> None:
    with pytest.raises(ValueError, match="is no gzip"):
        unpacked(packed, "gzip", 99)


@pytest.mark.parametrize("begun", [False, True], ids=["mute", "dripping"])
async def test_a_slow_answer_ends_with_its_time(server: Scripted, begun: bool) -> None:
    async def slow(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        if begun:
            await response.prepare(request)
        while True:
            await asyncio.sleep(0.02)
            if begun:
                await response.write(b" ")

    server.on("/x", slow)
    assert await fault(server.url, timeout=0.2) == "no answer within 0.2 s"


@pytest.mark.parametrize(
    ("status", "header", "seconds"),
    [(503, "30", 30), (429, "7", 7), (503, "99999999999", 300), (503, "DATE", 60), (429, "soon", 0), (500, "30", 0)],
)
async def test_a_server_that_asks_to_be_left_alone_is(
    server: Scripted, status: int, header: str, seconds: float
) -> None:
    when = formatdate(time.time() + 60, usegmt=True) if header == "DATE" else header
    server.on("/x", Say(status, b"{}", {"Retry-After": when}), FINE)
    async with HttpClient(options(server.url)) as http:
        with pytest.raises(HttpFault, match=str(status)):
            await http.ask("/x")
        if not seconds:
            await http.ask("/x")
            return
        with pytest.raises(HttpFault, match=r"the server asked to be left alone for \d+ s more") as caught:
            await http.ask("/x")
        assert int(str(caught.value).split()[-3]) == pytest.approx(seconds, abs=2)
    assert len(server.seen) == 1


async def test_no_more_requests_are_under_way_than_are_wanted(server: Scripted) -> None:
    under_way, most = 0, 0

    async def counted(request: web.Request) -> web.StreamResponse:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.01)
        under_way -= 1
        return web.json_response(FINE)

    server.on("/x", counted)
    async with HttpClient(options(server.url, at_once=2)) as http:
        await asyncio.gather(*[http.ask("/x") for _ in range(10)])
    assert most == 2


# TLS.


class Authority:
    """An authority with certificates for loopback servers, some of which must be refused."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.own = pki.make_authority(folder)

    def context(self, made: pki.Certificate, *, ask_client: bool = False) -> ssl.SSLContext:
        """A server's side."""
        found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        found.load_cert_chain(made.certificate, made.key)
        if ask_client:
            found.verify_mode = ssl.CERT_REQUIRED
            found.load_verify_locations(self.own.certificate)
        return found

    def certificate(self, name: str, **flaws: Any) -> pki.Certificate:
        """One that the authority has signed."""
        return pki.make_flawed_certificate(self.folder, name, self.own, **flaws)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki"))


async def test_a_server_with_a_good_certificate_is_asked(authority: Authority) -> None:
    async with Scripted(authority.context(authority.certificate("good"))) as server:
        server.on("/x", FINE)
        assert await ask(server.url, ca_file=str(authority.own.certificate))


@pytest.mark.parametrize(
    ("made", "trusted", "told"),
    [
        ({"name": "alien"}, False, "self-signed certificate in certificate chain|unable to get local issuer"),
        ({"name": "ended", "ended": True}, True, "certificate has expired"),
        ({"name": "other", "names": "DNS:elsewhere.invalid,IP:127.0.0.2"}, True, "IP address mismatch"),
    ],
    ids=["wrong-authority", "expired", "wrong-name"],
)
async def test_a_server_that_cannot_prove_itself_is_told_nothing(
    authority: Authority, tmp_path: Path, made: dict[str, Any], trusted: bool, told: str
) -> None:
    async with Scripted(authority.context(authority.certificate(**made))) as server:
        server.on("/x", FINE)
        trust = {"ca_file": str(authority.own.certificate)} if trusted else {}
        said = await fault(server.url, bearer_file=secret(tmp_path), **trust)
        assert server.seen == []
    assert said.startswith("no answer: Cannot connect to host 127.0.0.1")
    assert any(words in said for words in told.split("|"))


async def test_https_never_falls_back_to_http(server: Scripted, tmp_path: Path) -> None:
    said = await fault(server.url.replace("http:", "https:"), bearer_file=secret(tmp_path))
    assert said.startswith("no answer: Cannot connect to host 127.0.0.1")
    assert server.seen == []


@pytest.mark.slow
async def test_a_client_certificate_is_presented_and_reloaded_when_renewed(
    authority: Authority, tmp_path: Path
) -> None:
    shown: list[str] = []

    async def look(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        shown.append(request.transport.get_extra_info("peercert")["serialNumber"])
        return web.json_response(FINE)

    guarded = authority.context(authority.certificate("guarded"), ask_client=True)
    async with Scripted(guarded) as server:
        server.on("/x", look)
        certificate, key = tmp_path / "c", tmp_path / "k"
        table = {"ca_file": str(authority.own.certificate), "cert_file": str(certificate), "key_file": str(key)}
        renew(authority.certificate("first"), certificate, key)
        async with HttpClient(options(server.url, **table)) as http:
            await asyncio.gather(http.ask("/x"), http.ask("/x"))
            renew(authority.certificate("second"), certificate, key)
            await asyncio.gather(http.ask("/x"), http.ask("/x"))
            certificate.write_text("half")
            with pytest.raises(HttpFault, match="must be a PEM certificate"):
                await http.ask("/x")
            renew(authority.certificate("third"), certificate, key)
            await http.ask("/x")
    assert len(set(shown)) == 3
    assert shown[0] == shown[1] != shown[2] == shown[3] != shown[4]


def renew(made: pki.Certificate, certificate: Path, key: Path) -> None:
    for source, place in ((made.certificate, certificate), (made.key, key)):
        fresh = place.with_suffix(".new")
        fresh.write_bytes(source.read_bytes())
        fresh.chmod(0o600)
        fresh.replace(place)


async def test_a_key_that_everyone_may_read_is_refused(authority: Authority, tmp_path: Path) -> None:
    made = authority.certificate("open")
    made.key.chmod(0o644)
    with pytest.raises(ConfigError, match="must not be readable by everyone"):
        await ask("https://127.0.0.1:1", cert_file=str(made.certificate), key_file=str(made.key))


async def test_what_is_no_certificate_is_reported_by_its_name(tmp_path: Path) -> None:
    path = secret(tmp_path, text="none")
    with pytest.raises(ConfigError, match=f"{path}: must be a PEM certificate"):
        await ask("https://127.0.0.1:1", ca_file=path)
