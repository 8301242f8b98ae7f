"""HTTP with the API server: errors, credentials, counting."""

import asyncio
import os
import threading
from contextlib import nullcontext, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from kubernetes_asyncio.config import incluster_config

from elasticd.base.errors import ConfigError, UnavailableError
from elasticd.base.files import content_of
from elasticd.cluster.kubernetes import Kubernetes, own_namespace
from elasticd.cluster.kubernetes import credentials as credentials_module
from elasticd.cluster.kubernetes import session as session_module
from elasticd.cluster.kubernetes.credentials import Credentials, find_kubeconfig
from elasticd.cluster.kubernetes.exec_plugin import printed
from elasticd.cluster.kubernetes.session import ApiError, Request, Session, Verb, encode, proxy_of
from tests.cluster.kubernetes.fake import FakeApi, Feed, Handler, Say, connect, drop, status, until, write_kubeconfig

GET = Request(verb="get", path="/thing", resource="things")


async def refusal(session: Session, request: Request = GET) -> ApiError:
    """What the request is refused with."""
    with pytest.raises(ApiError) as caught:
        await session.send(request)
    return caught.value


async def test_only_a_write_with_a_long_retry_after_is_deferred(api: FakeApi, session: Session) -> None:
    busy = Say(429, {"reason": "TooManyRequests"}, {"Retry-After": "60"})
    verbs: tuple[tuple[Verb, str, str, int], ...] = (
        ("get", "GET", "things", 2),
        ("create", "POST", "things", 2),  # it is about any object that may be created there
        ("update", "PUT", "leases", 2),
        ("patch", "PATCH", "things", 1),
    )
    for verb, method, resource, times in verbs:
        api.on(method, f"/{verb}", busy)
        request = Request(verb=verb, path=f"/{verb}", resource=resource, body=None if verb == "get" else b"{}")
        for _ in range(2):
            await refusal(session, request)
        assert len(api.asked(method, f"/{verb}")) == times
    (text,) = session.deferred()
    assert text.startswith("patch /patch for ")


@pytest.mark.parametrize(
    ("verb", "method"),
    [("get", "GET"), ("list", "GET"), ("create", "POST"), ("update", "PUT"), ("patch", "PATCH")],
)
async def test_each_verb_has_its_method(api: FakeApi, session: Session, verb: Verb, method: str) -> None:
    api.on(method, "/thing", {"ok": True})
    body = encode({"a": 1}) if method in ("POST", "PUT", "PATCH") else None
    await session.send(Request(verb=verb, path="/thing", resource="things", body=body, content_type="x/y"))
    (seen,) = api.asked(method, "/thing")
    assert seen.headers["Authorization"] == "Bearer secret"
    assert seen.headers["Accept-Encoding"] == "identity"
    assert (seen.body, seen.headers.get("Content-Type")) == (({"a": 1}, "x/y") if body else (None, None))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(status(409, "Conflict", "modified"), (409, "Conflict", "modified", None), id="a Status"),
        pytest.param(
            status(429, "TooManyRequests", "slow", retryAfterSeconds=3),
            (429, "TooManyRequests", "slow", 3),
            id="details",
        ),
        pytest.param(
            Say(429, {"reason": "R", "message": "m"}, {"Retry-After": "5"}), (429, "R", "m", 5), id="Retry-After"
        ),
        pytest.param(
            Say(429, {"reason": "R", "message": "m"}, {"Retry-After": "86400"}), (429, "R", "m", 300), id="for a day"
        ),
        pytest.param(Say(502, b"<html>\nbad"), (502, "Bad Gateway", "<html> bad", None), id="a proxy's page"),
        pytest.param(Say(503, b""), (503, "Service Unavailable", "Service Unavailable", None), id="nothing"),
        pytest.param(Say(302, b"", {"Location": "http://evil"}), (302, "Found", "Found", None), id="a redirect"),
        pytest.param(Say(400, b"\xff\xfe"), (400, "Bad Request", "\ufffd\ufffd", None), id="no UTF-8"),
    ],
)
async def test_refusals_are_one_type_of_error(
    api: FakeApi, session: Session, answer: Say, expected: tuple[Any, ...]
) -> None:
    api.on("GET", "/thing", answer)
    error = await refusal(session)
    assert (error.code, error.reason, error.message, error.retry_after) == expected
    assert error.sent


PAGE = b"404 page not found\n"
POD, KUBELET = "/api/v1/namespaces/shop/pods/web", "/api/v1/nodes/n/proxy/x"
PODS = POD.rpartition("/")[0]
SCALE = "/apis/apps/v1/namespaces/shop/deployments/web/scale"
METRIC = "/apis/custom.metrics.k8s.io/v1beta1/namespaces/shop/pods/*/requests"
UNKNOWN = Say(404, {"kind": "Status", "reason": "NotFound", "message": 'cluster "prod" not found', "details": None})
NO_RESOURCE = "the server could not find the requested resource"
UNSERVED = Say(404, {"kind": "Status", "message": NO_RESOURCE, "details": {}})
PAGED = {"reason": "UnexpectedServerResponse", "message": "404 page not found"}
PAGE_SEEN = Say(404, {"kind": "Status", "message": NO_RESOURCE, "details": {"causes": [PAGED]}})


@pytest.mark.parametrize(
    ("path", "answer", "code"),
    [
        pytest.param(POD, status(404, "NotFound", "none", name="web", kind="pods"), 404, id="a Status"),
        pytest.param(f"{POD}/binding", status(404, "NotFound", "none", name="web"), 404, id="of a pod to bind"),
        pytest.param(
            "/api/v1/nodes/a%3Ab", status(404, "NotFound", "none", name="a:b"), 404, id="a name that is quoted"
        ),
        pytest.param(PODS, status(404, "NotFound", "none", name="shop", kind="namespaces"), 404, id="a namespace"),
        pytest.param(POD, UNKNOWN, 0, id="a proxy's Status"),
        pytest.param(PODS, UNKNOWN, 0, id="a proxy's Status, for a list"),
        pytest.param("/apis/policy", UNKNOWN, 0, id="a proxy's Status, for a group"),
        pytest.param(SCALE, UNKNOWN, 0, id="a proxy's Status, for a scale"),
        pytest.param(POD, status(404, "NotFound", "none", name="prod"), 0, id="a Status that names another"),
        pytest.param(
            POD, status(404, "NotFound", "none", name="web", causes=[PAGED]), 0, id="a client's that saw a page"
        ),
        pytest.param(f"{POD}/resize", UNSERVED, 404, id="a subresource that it does not serve"),
        pytest.param("/apis/apps/v1/foos", UNSERVED, 404, id="a resource that it does not serve"),
        pytest.param(POD, UNSERVED, 0, id="a pod that it would not serve"),
        pytest.param(f"{POD}/eviction", UNSERVED, 0, id="evictions that it would not serve"),
        pytest.param(f"{POD}/binding", UNSERVED, 0, id="bindings that it would not serve"),
        pytest.param(f"{POD}/resize", PAGE_SEEN, 0, id="a client's that saw a page, of a subresource"),
        pytest.param("/api/v1/namespaces/shop", UNSERVED, 0, id="a namespace that it would not serve"),
        pytest.param("/api/v1/nodes/n", UNSERVED, 0, id="a node that it would not serve"),
        pytest.param(METRIC, UNKNOWN, 404, id="a metric that an adapter does not have"),
        pytest.param(POD, Say(404, b"<html>no such backend</html>"), 0, id="a page"),
        pytest.param(POD, Say(404, PAGE), 0, id="that of a Go program"),
        pytest.param(POD, Say(404, {"message": "no Route matched"}), 0, id="JSON"),
        pytest.param(POD, Say(409, b"conflict"), 0, id="409"),
        pytest.param(POD, Say(410, b"gone"), 0, id="410"),
        pytest.param(POD, Say(403, b"a firewall"), 403, id="403, which tells of no object"),
        pytest.param(POD, Say(429, b"Too many requests"), 429, id="429, as priority and fairness answer"),
        pytest.param(SCALE, Say(404, PAGE, {"Cache-Control": "no-cache, private"}), 404, id="a group not served"),
        pytest.param(SCALE, Say(404, PAGE), 0, id="that of a Go program, for a group"),
        pytest.param("/apis/policy/v1", Say(404, PAGE), 404, id="which groups there are"),
        pytest.param(SCALE, Say(404, b"default backend - 404"), 0, id="a page for a group"),
        pytest.param(KUBELET, Say(404, PAGE), 404, id="a kubelet"),
        pytest.param(POD.replace("shop", "proxy"), Say(404, PAGE), 0, id="a namespace of the name proxy"),
    ],
)
async def test_only_an_api_server_says_what_is_gone(
    api: FakeApi, session: Session, path: str, answer: Say, code: int
) -> None:
    """A proxy that knows no way to it answers 404 too: that is no answer, as what was asked may be there, or done."""
    api.on("GET", path, answer)
    error = await refusal(session, Request(verb="get", path=path, resource="things"))
    assert (error.code, error.lost) == (code, code == 0)


@pytest.mark.parametrize("verb", ["get", "create", "update", "patch", "delete"])
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"<html>sign in</html>", id="a page"),
        pytest.param(b"", id="nothing"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b'{"status": "ok"}', id="JSON without a kind"),
        pytest.param(b'{"kind": ""}', id="an empty kind"),
    ],
)
async def test_a_success_that_is_no_object_is_none(api: FakeApi, session: Session, verb: Verb, body: bytes) -> None:
    """As of a gateway: nobody knows whether a write was done."""
    api.on({"get": "GET", "create": "POST", "update": "PUT"}.get(verb, verb.upper()), "/thing", Say(200, body))
    error = await refusal(session, Request(verb=verb, path="/thing", resource="things", body=b"{}"))
    assert (error.code, error.lost) == (0, True)
    assert error.message == f"200 of something before the API server: {body.decode()}"


async def test_a_kubelets_answer_needs_no_kind(api: FakeApi, session: Session) -> None:
    api.on("GET", KUBELET, Say(200, b'{"node": {}}'))
    assert await session.send(Request(verb="get", path=KUBELET, resource="nodes/proxy", bare=True)) == b'{"node": {}}'


@pytest.mark.parametrize(
    ("path", "headers", "code"),
    [
        pytest.param(POD, {"Cache-Control": "no-cache, private"}, 0, id="a pod"),
        pytest.param("/apis/policy/v1", {}, 404, id="which groups there are"),
    ],
)
async def test_a_prefix_before_the_paths_is_no_part_of_them(
    api: FakeApi, tmp_path: Path, path: str, headers: dict[str, str], code: int
) -> None:
    """Rancher's address of a cluster has one."""
    api.on("GET", f"/k8s/clusters/c-1{path}", Say(404, PAGE, headers))
    async with Session(Credentials(write_kubeconfig(tmp_path, f"{api.url}/k8s/clusters/c-1")), 2.0) as session:
        assert (await refusal(session, Request(verb="get", path=path, resource="things"))).code == code


async def test_dropped_connection_may_have_been_heard(api: FakeApi, session: Session) -> None:
    api.on("PATCH", "/thing", drop)
    error = await refusal(session, Request(verb="patch", path="/thing", resource="things", body=b"{}"))
    assert (error.code, error.reason, error.sent) == (0, "NoAnswer", True)
    assert len(api.asked("PATCH", "/thing")) == 1


async def test_request_that_never_left_is_known_as_such(tmp_path: Path) -> None:
    async with FakeApi() as api:
        session = connect(api, tmp_path)
    async with session:
        error = await refusal(session)
        assert (error.code, error.sent) == (0, False)


async def test_slow_answer_is_given_up(api: FakeApi, tmp_path: Path) -> None:
    api.feed("/thing")

    async def hang(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await until(lambda: False)
        return response

    api.on("GET", "/thing", hang)
    async with connect(api, tmp_path, timeout=0.1) as session:
        error = await refusal(session)
        assert (error.code, error.reason, error.message) == (0, "Timeout", "no answer in time")


async def test_expired_token_is_read_anew_once_and_the_request_repeated(api: FakeApi, tmp_path: Path) -> None:
    def guard(answer: dict[str, Any]) -> Any:
        async def handle(request: web.Request) -> web.StreamResponse:
            if request.headers["Authorization"] != "Bearer fresh":
                return web.json_response({"reason": "Unauthorized"}, status=401)
            return web.json_response(answer)

        return handle

    api.on("GET", "/thing", guard({"kind": "Thing", "ok": 1}))
    api.on("PATCH", "/thing", guard({"kind": "Thing", "ok": 2}))
    counted: list[tuple[str, int]] = []

    def calls(verb: str, resource: str, code: int, seconds: float) -> None:
        counted.append((verb, code))

    async with connect(api, tmp_path, calls=calls) as session:
        write_kubeconfig(tmp_path, api.url, token="fresh")
        assert msgspec.json.decode(await session.send(GET)) == {"kind": "Thing", "ok": 1}
        await session.send(Request(verb="patch", path="/thing", resource="things", body=b"{}"))
    assert counted == [("get", 200), ("patch", 200)]
    assert len(api.asked("GET", "/thing")) == 2


async def test_credentials_that_stay_refused_are_not_read_again_and_again(api: FakeApi, tmp_path: Path) -> None:
    api.on("GET", "/thing", status(401, "Unauthorized", "no"))
    async with connect(api, tmp_path) as session:
        for _ in range(3):
            assert (await refusal(session)).code == 401
    # The first was repeated with what was read anew.
    assert len(api.asked("GET", "/thing")) == 4


async def test_kubeconfig_that_vanished_meanwhile_is_told_with_the_refusal(api: FakeApi, tmp_path: Path) -> None:
    api.on("GET", "/thing", status(401, "Unauthorized", "no"))
    async with connect(api, tmp_path) as session:
        (path := tmp_path / "kubeconfig").unlink()
        error = await refusal(session)
    missing = f'cluster.kubeconfig: must be a file, "{path}" is not there'
    assert (error.code, error.message) == (401, f"no (and credentials cannot be read again: {missing})")


async def test_a_kubeconfig_of_another_cluster_is_not_taken(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "RELOAD_EVERY", 0.0)
    api.on("GET", "/thing", status(401, "Unauthorized", "no"))
    async with FakeApi() as other, connect(api, tmp_path) as session:
        other.on("GET", "/thing", {"kind": "Thing", "ok": 2})
        write_kubeconfig(tmp_path, other.url, token="fresh")
        error = await refusal(session)
        wrong = f"server: must be {api.url} until elasticd is started again, is {other.url}"
        assert error.code == 401
        assert error.message == f"no (and credentials cannot be read again: {tmp_path}/kubeconfig: {wrong})"
        assert other.asked("GET", "/thing") == []
        write_kubeconfig(tmp_path, api.url, token="fresh")
        api.on("GET", "/thing", status(401, "Unauthorized", "no"), {"kind": "Thing", "ok": 1})
        assert msgspec.json.decode(await session.send(GET)) == {"kind": "Thing", "ok": 1}


LEASE = Request(verb="update", path="/lease", resource="leases")
LIST = Request(verb="list", path="/pods", resource="pods")


def only(token: str, code: int = 403) -> Handler:
    """Grants this token alone what it asks for."""

    async def handle(request: web.Request) -> web.StreamResponse:
        is_known = request.headers["Authorization"] == f"Bearer {token}"
        return web.json_response({} if is_known else {"kind": "Status"}, status=200 if is_known else code)

    return handle


@pytest.mark.parametrize("request_", [LEASE, LIST], ids=["the Lease", "a list"])
async def test_a_token_of_another_user_is_not_kept(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request_: Request
) -> None:
    """As of a kubeconfig whose context was another one when the token expired."""
    monkeypatch.setattr(session_module, "LOOK_EVERY", 0.0)
    monkeypatch.setattr(session_module, "RELOAD_EVERY", 0.0)
    method = "PUT" if request_ is LEASE else "GET"
    async with connect(api, tmp_path) as session:
        api.on(method, request_.path, only("secret"), only("right", 401), only("right"), only("right"))
        await session.send(request_)
        write_kubeconfig(tmp_path, api.url, token="of-another")
        assert (await refusal(session, request_)).code == 403
        write_kubeconfig(tmp_path, api.url, token="right")
        await session.send(request_)


WRITE = Request(verb="patch", path="/thing", resource="things")


@pytest.mark.parametrize("request_", [LEASE, LIST, WRITE], ids=["the Lease", "a list", "a write"])
async def test_another_users_token_from_the_start_is_not_kept(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request_: Request
) -> None:
    """Who may have been granted all but this, as a user who may only read."""
    monkeypatch.setattr(session_module, "LOOK_EVERY", 0.0)
    method = {"update": "PUT", "patch": "PATCH"}.get(request_.verb, "GET")
    async with connect(api, tmp_path) as session:
        api.on(method, request_.path, status(403, "Forbidden", "no"), only("right"))
        write_kubeconfig(tmp_path, api.url, token="right")
        await session.send(request_)


def answer_page(code: int) -> Handler:
    """As a gateway before the API server that wants a login."""

    async def handle(_: web.Request) -> web.StreamResponse:
        return web.Response(status=code, text="<html>log in</html>", content_type="text/html")

    return handle


LOGINS = [
    pytest.param(Say(302, None, {"Location": "/login"}), id="the way to a login"),
    pytest.param(answer_page(200), id="a login"),
    pytest.param(Say(407), id="407"),
    pytest.param(answer_page(400), id="a page that tells of a certificate"),
]


@pytest.mark.parametrize("login", LOGINS)
async def test_credentials_that_a_gateway_refuses_are_read_again(
    api: FakeApi, tmp_path: Path, login: Say | Handler
) -> None:
    api.on("GET", "/thing", login, {"kind": "Thing", "ok": 1})
    async with connect(api, tmp_path) as session:
        write_kubeconfig(tmp_path, api.url, token="fresh")
        assert msgspec.json.decode(await session.send(GET)) == {"kind": "Thing", "ok": 1}
    assert [seen.headers["Authorization"] for seen in api.asked("GET", "/thing")] == ["Bearer secret", "Bearer fresh"]


@pytest.mark.parametrize("login", LOGINS)
async def test_a_write_is_not_repeated_after_a_login(api: FakeApi, tmp_path: Path, login: Say | Handler) -> None:
    """What is before the API server may answer so although it was carried out."""
    api.on("PATCH", "/thing", login, {"kind": "Thing", "ok": 1})
    async with connect(api, tmp_path) as session:
        write_kubeconfig(tmp_path, api.url, token="fresh")
        with suppress(ApiError):
            await session.send(WRITE)
        assert len(api.asked("PATCH", "/thing")) == 1
        assert msgspec.json.decode(await session.send(WRITE)) == {"kind": "Thing", "ok": 1}
    assert api.asked("PATCH", "/thing")[1].headers["Authorization"] == "Bearer fresh"


async def test_credentials_are_looked_at_when_connections_end(api: FakeApi, tmp_path: Path) -> None:
    """As a load balancer ends those of a client certificate that has ended. Nothing is sent twice for it."""
    api.on("PATCH", "/thing", drop, {"kind": "Thing", "ok": 1})
    credentials = Credentials(write_kubeconfig(tmp_path, api.url))
    async with Session(credentials, 2.0) as session:
        write_kubeconfig(tmp_path, api.url, token="fresh")
        assert (await refusal(session, WRITE)).code == 0
        await until(lambda: credentials.identity.header == "Bearer fresh")
        assert msgspec.json.decode(await session.send(WRITE)) == {"kind": "Thing", "ok": 1}
    assert [seen.headers["Authorization"] for seen in api.asked("PATCH", "/thing")] == ["Bearer secret", "Bearer fresh"]


async def test_a_page_of_an_outage_has_no_credentials_read(api: FakeApi, tmp_path: Path) -> None:
    api.on("GET", "/thing", answer_page(502), {"kind": "Thing", "ok": 1})
    async with connect(api, tmp_path) as session:
        write_kubeconfig(tmp_path, api.url, token="fresh")
        await refusal(session)
        await session.send(GET)
    assert {seen.headers["Authorization"] for seen in api.asked("GET", "/thing")} == {"Bearer secret"}


async def test_what_is_forbidden_has_credentials_read_once_a_minute(api: FakeApi, tmp_path: Path) -> None:
    """A right that is missing for good is no reason to ask a plugin for a token at each request."""
    api.on("PATCH", "/thing", status(403, "Forbidden", "no"))
    async with connect(api, tmp_path) as session:
        for token in ("second", "third"):
            write_kubeconfig(tmp_path, api.url, token=token)
            assert (await refusal(session, WRITE)).code == 403
    tokens = [seen.headers["Authorization"] for seen in api.asked("PATCH", "/thing")]
    assert tokens == ["Bearer secret", "Bearer second", "Bearer second"]


async def test_credentials_that_can_be_read_again_are_told_no_more(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "LOOK_EVERY", 0.0)
    api.on("PATCH", "/thing", status(403, "Forbidden", "no"))
    async with connect(api, tmp_path) as session:
        (tmp_path / "kubeconfig").unlink()
        assert "and credentials cannot be read again" in (await refusal(session, WRITE)).message
        write_kubeconfig(tmp_path, api.url)
        assert (await refusal(session, WRITE)).message == "no"


def write_certificate_user(folder: Path, certificate: Path) -> str:
    """A kubeconfig whose user shows a certificate; its path."""
    path = Path(write_kubeconfig(folder, "https://127.0.0.1:1"))
    config = msgspec.json.decode(path.read_bytes())
    config["users"][0]["user"] = {"client-certificate": str(certificate), "client-key": str(certificate)}
    path.write_bytes(msgspec.json.encode(config))
    return str(path)


async def test_a_certificate_replaced_in_place_is_of_another_user(tmp_path: Path) -> None:
    certificate = tmp_path / "user.crt"
    credentials, identities = Credentials(write_certificate_user(tmp_path, certificate)), list[tuple[str, str]]()
    for text in ("anna", "ben", "ben", "anna"):
        certificate.write_text(text)
        await credentials.load()
        identities.append(credentials.identity)
    assert identities[0] == identities[3] != identities[1] == identities[2]
    certificate.unlink()
    with pytest.raises(UnavailableError):
        await credentials.load()
    assert credentials.identity == identities[3]


async def test_another_token_after_a_403_ends_no_watch(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plugin may print another each time, and a right may be missing for good."""
    monkeypatch.setattr(session_module, "LOOK_EVERY", 0.0)
    api.on("PATCH", "/thing", status(403, "Forbidden", "no"))
    feed = Feed()
    api.on("GET", "/pods", feed)
    async with connect(api, tmp_path) as session, session.stream(LIST, silence=5.0) as lines:
        for token in ("second", "third", "fourth"):
            write_kubeconfig(tmp_path, api.url, token=token)
            await refusal(session, WRITE)
        feed.write(b"still here\n")
        assert await lines.readline() == b"still here\n"
    assert api.asked("PATCH", "/thing")[-1].headers["Authorization"] == "Bearer fourth"


@pytest.mark.parametrize("waits", [True, False], ids=["who waits", "who reads later"])
async def test_a_watch_on_closed_connections_is_lost_at_once(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    """As of credentials that are refused twice, whose connections are closed at the second time."""
    monkeypatch.setattr(session_module, "RELOAD_EVERY", 0.0)
    api.on("GET", "/thing", status(401, "Unauthorized", "no"))
    feed = Feed()
    api.on("GET", "/pods", feed)
    feed.write(b"first\n")

    async def watch(session: Session) -> None:
        async with session.stream(LIST, silence=5.0) as lines:
            assert await lines.readline() == b"first\n"
            reading = asyncio.create_task(lines.readline()) if waits else None
            for _ in range(2):
                await refusal(session)
            async with asyncio.timeout(2.0):
                await (reading or lines.readline())

    async with connect(api, tmp_path) as session:
        with pytest.raises(ApiError) as caught:
            await watch(session)
        assert (caught.value.code, caught.value.reason, caught.value.sent) == (0, "NoAnswer", True)


async def test_the_same_credentials_are_not_tried_again_after_a_403(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a right was taken away, what is read again is the same, and connections stay."""
    monkeypatch.setattr(session_module, "LOOK_EVERY", 0.0)
    api.on("PUT", "/lease", {}, status(403, "Forbidden", "no"))
    async with connect(api, tmp_path) as session:
        await session.send(LEASE)
        for _ in range(3):
            assert (await refusal(session, LEASE)).code == 403
    assert len(api.asked("PUT", "/lease")) == 4


async def test_a_token_that_no_header_can_hold_is_not_taken(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "RELOAD_EVERY", 0.0)
    api.on("GET", "/thing", status(401, "Unauthorized", "no"))
    async with connect(api, tmp_path) as session:
        write_kubeconfig(tmp_path, api.url, token="no login\nfor you")
        error = await refusal(session)
        assert error.message.endswith("token: must be what an HTTP header can hold, is not: it has other characters)")
        write_kubeconfig(tmp_path, api.url, token="fresh")
        api.on("GET", "/thing", status(401, "Unauthorized", "no"), {"kind": "Thing", "ok": 1})
        assert msgspec.json.decode(await session.send(GET)) == {"kind": "Thing", "ok": 1}
    assert api.asked("GET", "/thing")[-1].headers["Authorization"] == "Bearer fresh"


def write_user(kubeconfig: Path, user: dict[str, Any]) -> None:
    """Let the kubeconfig's user be this one."""
    config = msgspec.json.decode(kubeconfig.read_bytes())
    config["users"][0]["user"] = user
    kubeconfig.write_bytes(msgspec.json.encode(config))


def write_token_file(folder: Path, kubeconfig: str, token: str) -> None:
    """Let the kubeconfig name a file that holds the token."""
    (folder / "token").write_text(token)
    config = msgspec.json.decode(Path(kubeconfig).read_bytes())
    config["users"][0]["user"] = {"tokenFile": str(folder / "token")}
    Path(kubeconfig).write_bytes(msgspec.json.encode(config))


async def test_blanks_around_the_token_of_a_file_do_not_count(api: FakeApi, tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, api.url)
    write_token_file(tmp_path, path, "of-a-file\n")
    credentials = Credentials(path)
    await credentials.load()
    assert await credentials.header() == "Bearer of-a-file"


@pytest.mark.parametrize("empty", ["", "\n"], ids=["empty", "blank"])
async def test_an_empty_token_is_not_taken_for_anonymous(api: FakeApi, tmp_path: Path, empty: str) -> None:
    """Whoever writes a token in place empties its file first."""
    path = write_kubeconfig(tmp_path, api.url)
    write_token_file(tmp_path, path, empty)
    credentials = Credentials(path)
    with pytest.raises(UnavailableError, match="is empty"):
        await credentials.load()
    write_token_file(tmp_path, write_kubeconfig(tmp_path, api.url), "first")
    await credentials.load()
    write_token_file(tmp_path, write_kubeconfig(tmp_path, api.url), empty)
    with pytest.raises(UnavailableError, match="is empty"):
        await credentials.load()
    assert await credentials.header() == "Bearer first"


@pytest.mark.parametrize(
    ("user", "problem"),
    [
        pytest.param({"token": ""}, "token: must hold something, is empty", id="empty"),
        pytest.param({"token": " "}, "token: must hold something, is empty", id="blank"),
        pytest.param({"token": "", "username": "anna", "password": "x"}, "", id="beside a password"),
        pytest.param({}, "", id="none, as for a server that asks for none"),
    ],
)
async def test_an_empty_token_at_the_start_is_a_mistake(
    api: FakeApi, tmp_path: Path, user: dict[str, str | None], problem: str
) -> None:
    path = tmp_path / "kubeconfig"
    write_kubeconfig(tmp_path, api.url)
    config = msgspec.json.decode(path.read_bytes())
    config["users"][0]["user"] = user
    path.write_bytes(msgspec.json.encode(config))
    with pytest.raises(UnavailableError, match=problem) if problem else nullcontext():
        await Credentials(str(path)).load()


async def test_a_token_that_is_gone_from_a_kubeconfig_is_kept(api: FakeApi, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    credentials = Credentials(write_kubeconfig(tmp_path, api.url))
    await credentials.load()
    config = msgspec.json.decode(path.read_bytes())
    for user, problem in (({}, "must be given, as before"), ({"token": ""}, "must hold something, is empty")):
        config["users"][0]["user"] = user
        path.write_bytes(msgspec.json.encode(config))
        with pytest.raises(UnavailableError, match=problem):
            await credentials.load()
        assert await credentials.header() == "Bearer secret"


async def test_a_token_file_that_is_none_is_not_waited_for(api: FakeApi, tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, api.url)
    write_token_file(tmp_path, path, "")
    (tmp_path / "token").unlink()
    os.mkfifo(tmp_path / "token")
    with pytest.raises(UnavailableError, match="it is a FIFO"):
        await Credentials(path).load()


async def test_every_request_is_counted_with_its_code_and_time(api: FakeApi, tmp_path: Path) -> None:
    api.on("GET", "/thing", {"kind": "Thing", "ok": 1}, status(404), drop)
    counted: list[tuple[str, str, int]] = []
    seconds: list[float] = []

    def calls(verb: str, resource: str, code: int, took: float) -> None:
        counted.append((verb, resource, code))
        seconds.append(took)

    async with connect(api, tmp_path, calls=calls) as session:
        await session.send(GET)
        await refusal(session)
        api.on("PATCH", "/thing", drop)
        await refusal(session, Request(verb="patch", path="/thing", resource="things", body=b"{}"))
    assert counted == [("get", "things", 200), ("get", "things", 404), ("patch", "things", 0)]
    assert all(0 < took < 5 for took in seconds)


async def load(path: str, context: str = "") -> str:
    """The one line that a person reads about these credentials."""
    with pytest.raises(ConfigError) as caught:
        await Credentials(path, context).load()
    return str(caught.value)


async def test_missing_kubeconfig_is_one_line(tmp_path: Path) -> None:
    path = str(tmp_path / "none")
    assert await load(path) == f'cluster.kubeconfig: must be a file, "{path}" is not there'


@pytest.mark.parametrize(
    "text", ["", "a: [", "clusters: 7", "current-context: x\nclusters: []\ncontexts: []\nusers: []"]
)
async def test_unreadable_kubeconfig_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    line = await load(str(path))
    assert line.startswith(f"{path}: must be a readable kubeconfig: ")
    assert "\n" not in line


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(status(403, "Forbidden", "no: Authorization: Bearer secret"), id="a Status"),
        pytest.param(Say(502, b"x" * 190 + b" Bearer secret"), id="a page that is cut within it"),
    ],
)
async def test_a_token_that_a_proxy_echoes_is_not_revealed(api: FakeApi, session: Session, answer: Any) -> None:
    api.on("GET", "/thing", answer)
    error = await refusal(session)
    assert "sec" not in f"{error} {error.message}"
    assert "Bearer" in error.message


async def test_a_misplaced_token_of_a_kubeconfig_is_not_revealed(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, "http://127.0.0.1:1", token="canary")
    move_token(Path(path))
    assert "canary" not in await load(path)


def move_token(path: Path) -> None:
    """Forget the level `user` of the kubeconfig's user."""
    config = msgspec.json.decode(path.read_bytes())
    config["users"] = [{"name": "fake", "token": "canary"}]
    path.write_bytes(msgspec.json.encode(config))


async def test_unknown_context_names_the_nearest(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, "http://127.0.0.1:1")
    line = await load(path, "fakr")
    assert line == f'cluster.context: must be a context of {path}, is "fakr", did you mean "fake"?'


async def test_kubeconfig_is_found_in_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", "/from/environment")
    assert find_kubeconfig("/named") == "/named"
    assert find_kubeconfig("") == "/from/environment"
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_kubeconfig("") == str(tmp_path / ".kube" / "config")


def write_plugin(folder: Path, kubeconfig: str) -> Path:
    """Let the kubeconfig ask a plugin, whose tokens are numbered; the file in which it counts its calls."""
    plugin, asked, path = folder / "plugin", folder / "asked", Path(kubeconfig)
    said = '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"}}'
    plugin.write_text(f"#!/bin/sh\necho x >> {asked}\necho '{said}' | sed \"s/%s/token-$(grep -c x {asked})/\"\n")
    plugin.chmod(0o755)
    config = msgspec.json.decode(path.read_bytes())
    config["users"][0]["user"] = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}}
    path.write_bytes(msgspec.json.encode(config))
    return asked


async def test_exec_plugin_is_asked_again_when_its_token_is_refused(api: FakeApi, tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, api.url)
    asked = write_plugin(tmp_path, path)

    async def guarded(request: web.Request) -> web.StreamResponse:
        second = request.headers["Authorization"] == "Bearer token-2"
        return web.json_response({"kind": "Thing", "ok": second}, status=200 if second else 401)

    api.on("GET", "/thing", guarded)
    async with Session(Credentials(path), 5.0) as session:
        assert msgspec.json.decode(await session.send(GET)) == {"kind": "Thing", "ok": True}
    assert asked.read_text() == "x\nx\n"


@pytest.mark.parametrize(
    ("script", "told"),
    [
        pytest.param("yes", "exec: plugin must print at most 1048576 bytes, prints more", id="without end"),
        pytest.param("yes >&2", "exec: plugin must print at most 1048576 bytes, prints more", id="errors without end"),
        pytest.param("echo no login >&2; exit 3", "exec: plugin must succeed, ends with 3: no login", id="fails"),
        pytest.param("", "exec: must print an ExecCredential, does not: ", id="nothing"),
        pytest.param("echo log in first", "exec: must print an ExecCredential, does not: ", id="a text"),
    ],
)
async def test_a_plugin_that_gives_no_credential_is_told(
    script: str, told: str, api: FakeApi, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_kubeconfig(tmp_path, api.url)
    write_plugin(tmp_path, path)
    (tmp_path / "plugin").write_text(f"#!/bin/sh\n{script}\n")
    with pytest.raises(UnavailableError) as error:
        await Credentials(path).load()
    assert str(error.value).startswith(f"{path}: {told}")
    assert ("\n" in str(error.value), caplog.messages) == (False, [])


async def test_a_plugin_that_cannot_be_started_is_told(api: FakeApi, tmp_path: Path) -> None:
    """What it is installed on may not be mounted yet."""
    path = write_kubeconfig(tmp_path, api.url)
    write_plugin(tmp_path, path)
    (tmp_path / "plugin").unlink()
    with pytest.raises(UnavailableError) as error:
        await Credentials(path).load()
    assert str(error.value) == f"{path}: exec: {tmp_path}/plugin must start, does not: No such file or directory"


@pytest.mark.parametrize(
    ("exec_", "told"),
    [
        pytest.param({"command": "/bin/true"}, "exec: malformed request. missing key 'apiVersion'", id="no version"),
        pytest.param({"apiVersion": "v1"}, "exec: malformed request. missing key 'command'", id="no command"),
        pytest.param(
            {"apiVersion": "v1", "command": "/bin/echo", "args": ['{"apiVersion":"v9","kind":"x","status":{}}']},
            "exec: must print an ExecCredential of v1, prints one of v9",
            id="another version",
        ),
    ],
)
async def test_a_mistake_about_a_plugin_is_for_a_person(
    api: FakeApi, tmp_path: Path, exec_: dict[str, Any], told: str
) -> None:
    path = Path(write_kubeconfig(tmp_path, api.url))
    write_user(path, {"exec": exec_})
    assert await load(str(path)) == f"{path}: must be a readable kubeconfig: {told}"


ISSUER = {"client-id": "elasticd", "client-secret": "x", "idp-issuer-url": "http://127.0.0.1:1", "refresh-token": "r"}


@pytest.mark.parametrize(
    ("user", "told"),
    [
        pytest.param({"tokenFile": "gone"}, "/gone: must be readable, is not: No such file", id="a token"),
        pytest.param({"client-certificate": "gone"}, "/gone: must be a file, is none", id="a certificate"),
        pytest.param(
            {"client-certificate": "kubeconfig", "client-key": "gone"}, "/gone: must be a file, is none", id="a key"
        ),
        pytest.param({"tokenFile": "binary"}, "/binary: must be readable, is not: 'utf-8' codec", id="half a token"),
        pytest.param({"token": "no\nlogin"}, ": token: must be what an HTTP header can hold", id="a text for a token"),
        pytest.param({"auth-provider": {"name": "oidc", "config": ISSUER}}, ": oidc: Cannot connect", id="an issuer"),
        pytest.param({"auth-provider": {"name": "oidc", "config": {}}}, ": oidc: No valid id-token", id="an old token"),
    ],
)
async def test_what_may_come_by_itself_is_no_mistake(tmp_path: Path, user: dict[str, Any], told: str) -> None:
    """An agent or a sidecar writes files that a kubeconfig names, and may be started later."""
    path = Path(write_kubeconfig(tmp_path, "https://127.0.0.1:1"))
    write_user(path, user)
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(UnavailableError) as caught:
        await Credentials(str(path)).load()
    assert f"{path}: " in str(caught.value)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("function", ["content_of", "_is_there"], ids=["the token", "the kubeconfig"])
async def test_a_mount_that_does_not_answer_holds_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, function: str
) -> None:
    """The credentials are there as before, and are read again once it answers."""
    path, token, answers = Path(write_kubeconfig(tmp_path, "http://127.0.0.1:1")), tmp_path / "token", threading.Event()
    write_user(path, {"tokenFile": str(token)})
    token.write_text("first")
    credentials = Credentials(str(path), patience=0.05)
    await credentials.load()
    token.write_text("second")

    def wait(*arguments: Any) -> Any:
        assert answers.wait(30), "the test lets it go on"
        return real(*arguments)

    real = getattr(credentials_module, function)
    monkeypatch.setattr(credentials_module, function, wait)
    for _ in range(2):
        with pytest.raises(UnavailableError, match=f"^{path}: it and its files must be readable, are not: no answer"):
            await credentials.load()
    assert await credentials.header() == "Bearer first"
    answers.set()
    while await credentials.header() == "Bearer first":
        with suppress(UnavailableError):
            await credentials.load()
    assert await credentials.header() == "Bearer second"


@pytest.mark.parametrize("code", [403, 401])
async def test_only_a_401_waits_for_other_credentials(
    monkeypatch: pytest.MonkeyPatch, api: FakeApi, tmp_path: Path, code: int
) -> None:
    """Of any other refusal the answer is there, and a mount may be silent for long."""
    path, token, answers = Path(write_kubeconfig(tmp_path, api.url)), tmp_path / "token", threading.Event()
    write_user(path, {"tokenFile": str(token)})
    token.write_text("first")
    real = content_of

    def wait(*arguments: Any) -> Any:
        assert answers.wait(30), "the test lets it go on"
        return real(*arguments)

    api.on("GET", "/thing", status(code, "Forbidden", "not for you"))
    async with Session(Credentials(str(path)), 2.0, None) as session:
        monkeypatch.setattr(credentials_module, "content_of", wait)
        monkeypatch.setattr(session_module, "A_MOMENT", 0.05)
        monkeypatch.setattr(session_module, "RELOAD_EVERY", 0.0)
        monkeypatch.setattr(session_module, "LOOK_EVERY", 0.0)
        asked = asyncio.create_task(refusal(session))
        await asyncio.wait([asked], timeout=1.0)
        assert asked.done() == (code == 403)
        answers.set()
        assert (await asked).code == code


async def test_half_a_certificate_is_no_mistake(tmp_path: Path) -> None:
    (tmp_path / "user.crt").write_text("-----BEGIN CERT")
    credentials = Credentials(write_certificate_user(tmp_path, tmp_path / "user.crt"))
    await credentials.load()
    with pytest.raises(UnavailableError, match=r"^cluster: a certificate is unusable"):
        credentials.tls()


PROOF = "exec: must print a token, or a certificate with its key, prints neither"


@pytest.mark.parametrize(
    ("shown", "told"),
    [
        pytest.param({"token": ""}, PROOF, id="an empty token"),
        pytest.param({"token": None}, PROOF, id="null for a token"),
        pytest.param({}, PROOF, id="nothing"),
        pytest.param(None, "exec: must print an ExecCredential, does not: ", id="null"),
        pytest.param({"clientCertificateData": "x"}, PROOF, id="no key"),
        pytest.param({"clientCertificateData": "", "clientKeyData": "x"}, PROOF, id="an empty certificate"),
        pytest.param({"clientCertificateData": "x", "clientKeyData": "y"}, "", id="a certificate"),
        pytest.param({"clientCertificateData": "x", "clientKeyData": "y", "token": None}, "", id="null beside one"),
        pytest.param({"token": "x", "expirationTimestamp": None}, "", id="a token"),
    ],
)
async def test_a_plugin_must_give_what_proves_somebody(
    api: FakeApi, tmp_path: Path, shown: dict[str, str | None] | None, told: str
) -> None:
    """Without a token and a certificate elasticd would be anonymous from then on."""
    path = write_kubeconfig(tmp_path, api.url)
    write_plugin(tmp_path, path)
    said = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": shown}
    (tmp_path / "plugin").write_text(f"#!/bin/sh\necho '{msgspec.json.encode(said).decode()}'\n")
    credentials = Credentials(path)
    with pytest.raises(UnavailableError, match=told) if told else nullcontext():
        await credentials.load()
    assert any(credentials.identity) == (not told)


@pytest.mark.parametrize("script", ["exec sleep 600", "exec >&- 2>&-; exec sleep 600"], ids=["silent", "closed"])
def test_a_plugin_that_never_ends_is_ended(script: str) -> None:
    with pytest.raises(UnavailableError, match=r"exec: sh must end within 0\.3 s, does not"):
        printed(["/bin/sh", "-c", script], os.environ, within=0.3)


def mount(monkeypatch: pytest.MonkeyPatch, folder: Path, api: FakeApi) -> None:
    """Let it look as if a service account were mounted there."""
    (folder / "token").write_text("mounted")
    (folder / "ca.crt").write_text("some")
    (folder / "namespace").write_text("home\n")
    where = "elasticd.cluster.kubernetes.credentials"
    monkeypatch.setattr(f"{where}.SERVICE_TOKEN_FILENAME", str(folder / "token"))
    monkeypatch.setattr(f"{where}.SERVICE_CERT_FILENAME", str(folder / "ca.crt"))
    monkeypatch.setattr("elasticd.cluster.kubernetes.SERVICE_ACCOUNT", folder)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setitem(os.environ, "KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setitem(os.environ, "KUBERNETES_SERVICE_PORT", str(api.port))


async def test_service_account_is_used_in_a_pod(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, api: FakeApi) -> None:
    mount(monkeypatch, tmp_path, api)
    credentials = Credentials()
    await credentials.load()
    assert credentials.host == f"https://127.0.0.1:{api.port}"
    assert await credentials.header() == "Bearer mounted"
    assert own_namespace() == "home"
    with pytest.raises(UnavailableError, match="cluster: a certificate is unusable"):
        credentials.tls()


async def test_the_last_token_is_sent_while_its_file_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, api: FakeApi
) -> None:
    mount(monkeypatch, tmp_path, api)
    monkeypatch.setattr(incluster_config, "TOKEN_REFRESH_PERIOD", timedelta(0))
    credentials, token, headers = Credentials(), tmp_path / "token", list[str]()
    await credentials.load()
    for written in ("half\nwritten", "", None, "next\n"):
        token.unlink(missing_ok=True)
        if written is not None:
            token.write_text(written)
        headers.append(await credentials.header())
    assert headers == [*["Bearer mounted"] * 3, "Bearer next"]


async def test_service_account_without_a_token_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, api: FakeApi
) -> None:
    mount(monkeypatch, tmp_path, api)
    (tmp_path / "token").write_text("")
    with pytest.raises(UnavailableError) as caught:
        await Credentials().load()
    assert str(caught.value) == "cluster: the pod's service account is unusable: Token file exists but empty."


def test_namespace_outside_of_a_pod_is_elasticd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert own_namespace() == "elasticd"


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ({"lease": {"renew": 15}}, "renew: must be < duration = 15, is 15"),
        ({"lease": {"retry": 10}}, "retry: must be < renew = 10, is 10"),
        ({"burst": 1}, "Expected `int` >= 2"),
        ({"page": 0}, "Expected `int` >= 1"),
        ({"burts": 1}, "unknown field `burts`"),
    ],
)
def test_options_out_of_bounds_are_refused(table: dict[str, Any], line: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=line):
        msgspec.convert({"type": "kubernetes", **table}, Kubernetes)


def test_options_have_defaults() -> None:
    found = msgspec.convert({"type": "kubernetes"}, Kubernetes)
    assert found == Kubernetes()
    assert (found.writes_per_second, found.burst, found.lease.duration, found.lease.enabled) == (200, 1000, 15, True)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"HTTPS_PROXY": "http://proxy:3128"}, "http://proxy:3128", id="one"),
        pytest.param({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "api.example"}, None, id="but not for this host"),
        pytest.param({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "other"}, "http://proxy:3128", id="for another"),
        pytest.param({"HTTP_PROXY": "http://proxy:3128"}, None, id="for plain HTTP alone"),
    ],
)
def test_a_proxy_of_the_environment_is_taken_as_kubectl_does(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], expected: str | None
) -> None:
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert proxy_of("https://api.example:6443") == expected


@pytest.mark.parametrize(
    ("server", "more", "told"),
    [
        pytest.param("http://127.0.0.1:1", {}, "the token is sent unencrypted, by http", id="a token by http"),
        pytest.param(
            "https://127.0.0.1:1",
            {"insecure-skip-tls-verify": True},
            "the server's certificate is not verified (insecure-skip-tls-verify)",
            id="any certificate will do",
        ),
        pytest.param("https://127.0.0.1:1", {}, "", id="as it should be"),
    ],
)
async def test_an_exposed_token_is_warned_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, server: str, more: dict[str, Any], told: str
) -> None:
    path = write_kubeconfig(tmp_path, server, **more)
    credentials = Credentials(path)
    for _ in range(2):
        await credentials.load()
    assert caplog.messages == ([f"{path}: {server}: {told}"] if told else [])
