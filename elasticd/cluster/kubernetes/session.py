"""HTTP to one API server: credentials, time limits, errors, counting.

Knows how to ask and how the server says no; knows nothing of pods or scales. Bodies are handed on as bytes.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Literal, Self, TypeVar
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakKeyDictionary

import aiohttp
import msgspec
from msgspec import Struct

from elasticd.base.errors import UNREADABLE
from elasticd.base.tasks import cancel
from elasticd.base.text import one_line
from elasticd.cluster.kubernetes.wire.objects import Status
from elasticd.sources.http import read_body

if TYPE_CHECKING:
    from elasticd.cluster.kubernetes.credentials import Credentials

JSON = "application/json"
PARTIAL, PARTIAL_LIST = (f"{JSON};as=PartialObjectMetadata{what};g=meta.k8s.io;v=v1,{JSON}" for what in ("", "List"))
"""What to accept where the metadata of an object, or of those of a list, is enough."""

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"

T = TypeVar("T")

Verb = Literal["get", "list", "watch", "create", "update", "patch", "delete"]
Calls = Callable[[str, str, int, float], None]
"""Is told the verb, resource, HTTP status (0: no answer) and seconds of every request."""

_METHODS: dict[str, str] = {"create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}
RELOAD_EVERY = 10.0
"""Seconds from one look at the credentials that were refused to the next."""
A_MOMENT = 3.0
"""Seconds that an answer waits for other credentials to be read."""

LOOK_EVERY = 60.0
"""The same where they may have been accepted, as another user's, or what is before the API server wants others."""
_NO_ANSWER = -1
_BODY_FACTOR = 6
_QUIET = 1.0
FLOW_CONTROL = 32.0
"""The longest Retry-After, in seconds, by which an API server sheds load (priority and fairness). A longer one is about
one object, and comes from a webhook or a proxy."""
_NOT_FOUND = 404
_NOT_SERVED = b"404 page not found"
_NO_RESOURCE = "the server could not find the requested resource"
_UNEXPECTED = "UnexpectedServerResponse"
"""The cause that a client of an API server gives to an answer that was no Status."""
_ALWAYS_SERVED = re.compile(
    "/api/v1/namespaces/[^/]+(/[^/]+/[^/]+(/(binding|eviction|status))?)?|/api/v1/(nodes|persistentvolumes)/[^/]+"
)
_METRICS = re.compile(r"/apis/([a-z]+\.)?metrics\.k8s\.io/")
_LONGEST = 300.0
"""Seconds that Retry-After may ask for at most."""


class ApiError(Exception):
    """The server said no (`code` is its HTTP status), or nothing (0).

    `sent` is false only when the request surely did not reach the server. `retry_after` are the seconds
    it asked to be left alone for, at most 300, `causes` the words by which it says more than `reason` does.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        retry_after: float | None = None,
        *,
        sent: bool = True,
        causes: tuple[str, ...] = (),
    ) -> None:
        super().__init__(f"{code} {reason}: {message}" if code else message)
        self.code, self.reason, self.message, self.retry_after, self.sent = code, reason, message, retry_after, sent
        self.causes = causes

    @property
    def lost(self) -> bool:
        """Whether the request may have been carried out anyway."""
        return self.code >= 500 or (self.code == 0 and self.sent)

    @property
    def quiet(self) -> float:
        """For how many seconds the server asks not to be written to; 0: it does not ask, or for one object alone."""
        if not self.sent or not (self.code == 429 or (self.code == 503 and self.retry_after is not None)):
            return 0.0
        seconds = self.retry_after or _QUIET
        return seconds if seconds <= FLOW_CONTROL else 0.0


class Request(Struct, frozen=True, kw_only=True):
    """One request. `resource` is the name it is counted under, such as deployments/scale; `timeout` is in seconds. An
    answer of more than `largest` bytes is an error."""

    verb: Verb
    path: str
    resource: str
    params: dict[str, str] = {}
    body: bytes | None = None
    content_type: str = ""
    """Empty: a merge patch, or else JSON."""
    accept: str = JSON
    timeout: float | None = None
    largest: int | None = None
    bare: bool = False
    """Whether the answer is no object of the API, as a kubelet's."""


class _Object(Struct):
    kind: str


_OBJECT = msgspec.json.Decoder(_Object)


class Session:
    """A pool of connections to one API server. `async with Session(...)` opens and closes it."""

    def __init__(self, credentials: "Credentials", timeout: float, calls: Calls | None = None) -> None:
        self._credentials = credentials
        self._timeout = timeout
        self._calls = calls
        self._http: aiohttp.ClientSession | None = None
        self._retired: aiohttp.ClientSession | None = None
        self._answers = WeakKeyDictionary[aiohttp.ClientResponse, aiohttp.ClientSession]()
        """By whose connections each came."""
        self._reloading = asyncio.Lock()
        self._reloaded = -LOOK_EVERY
        self._generation = 0
        self._looking: asyncio.Task[bool] | None = None
        self._unread = ""
        """Why the credentials could not be read again, after they were refused; empty: they could."""
        self._deferred: dict[tuple[str, str], float] = {}
        """Until when each write (its verb and path) is not to be tried, on the monotonic clock."""

    async def __aenter__(self) -> Self:
        await self._credentials.load()
        self._http = self._connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._looking is not None:
            await cancel(self._looking)
        for session in (self._http, self._retired):
            if session is not None:
                await self._close(session)

    _proxy: str | None = None

    @property
    def host(self) -> str:
        return self._credentials.host

    def _connect(self) -> aiohttp.ClientSession:
        # No compression: inflating a list takes longer than decoding it. No limit: each watch holds a connection, and
        # writes have a budget. Proxies are taken from the environment, as kubectl does, but once: with trust_env
        # aiohttp looks for them, and for a ~/.netrc, in threads of its own for every request.
        self._proxy = self._credentials.proxy or proxy_of(self.host)
        connector = aiohttp.TCPConnector(ssl=self._credentials.tls(), limit=0)
        return aiohttp.ClientSession(
            connector=connector, headers={"Accept-Encoding": "identity", "User-Agent": "elasticd"}
        )

    async def send(self, request: Request) -> bytes:
        """The body of the answer. Raises ApiError for any but a 2xx, for one that is no object (a list's reader says
        so), and for a write that is not to be repeated yet."""
        timeout = self._limits(request)
        self._refuse_deferred(request)
        try:
            async with self._answer(request, timeout) as response:
                limit = request.largest
                body = await (response.read() if limit is None else read_body(response, limit))
                if body is None:
                    raise ApiError(0, "TooLarge", f"the answer is larger than {limit} bytes")
                if request.verb not in ("list", "watch") and not request.bare and not _is_object(body):
                    raise _stranger(response, body[:200].decode("utf-8", "replace"))
                return body
        except ApiError as error:
            seconds = error.retry_after or 0.0
            # Not a create, whose path names no object; and not the lease, which would be lost.
            one = request.verb in ("update", "patch", "delete") and request.resource != "leases"
            if one and seconds > FLOW_CONTROL:
                self._deferred[request.verb, request.path] = time.monotonic() + seconds
            raise

    def _refuse_deferred(self, request: Request) -> None:
        seconds = self._deferred.get((request.verb, request.path), 0.0) - time.monotonic()
        if seconds > 0:
            message = f"the server asked not to repeat it for another {seconds:.0f} s"
            raise ApiError(429, "TooManyRequests", message, sent=False)

    def deferred(self) -> list[str]:
        """The writes that the server asked not to repeat yet, and for how long."""
        now = time.monotonic()
        self._deferred = {write: until for write, until in self._deferred.items() if until > now}
        return [f"{verb} {path} for {until - now:.0f} s" for (verb, path), until in self._deferred.items()]

    @asynccontextmanager
    async def stream(self, request: Request, silence: float) -> AsyncIterator[aiohttp.StreamReader]:
        """A watch's lines as they come; raises ApiError when nothing came for `silence` seconds, or when it lasts for
        longer than the request's timeout."""
        timeout = aiohttp.ClientTimeout(total=request.timeout, connect=self._timeout, sock_read=silence)
        async with self._answer(request, timeout) as response:
            yield response.content

    def _limits(self, request: Request) -> aiohttp.ClientTimeout:
        total = request.timeout or self._timeout
        if request.verb == "list":  # may be long in coming, but must keep coming
            return aiohttp.ClientTimeout(total=total * _BODY_FACTOR, connect=total, sock_read=total)
        return aiohttp.ClientTimeout(total=total)

    @asynccontextmanager
    async def _answer(self, request: Request, limits: aiohttp.ClientTimeout) -> AsyncIterator[aiohttp.ClientResponse]:
        started, code = time.monotonic(), 0
        try:
            response = await self._exchange(request, limits)
            code = response.status
            if request.verb == "watch":
                self._count(request, code, started)
            async with response:
                if code >= 300:
                    unread = self._unread if code in (401, 403) else ""
                    raise _refusal(request.path, response, await response.read(), unread)
                yield response
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            code = 0
            if not isinstance(error, TimeoutError):
                self._look()
            raise _silence(error) from error
        finally:
            if request.verb != "watch" or code == 0:
                self._count(request, code, started)

    async def _exchange(self, request: Request, limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        generation = self._generation
        try:
            response = await self._ask(request, limits)
        except aiohttp.ClientSSLError:
            # The server's CA may have been rotated; nothing has been sent yet.
            if not await self._reload(generation):
                raise
            return await self._ask(request, limits)
        doubtful = _may_be_for_credentials(response)
        if not doubtful or not await self._reload_soon(generation, response.status):
            return response
        if response.status not in (401, 403) and request.verb not in ("get", "list", "watch"):
            return response  # only an API server's refusal says that nothing was done
        response.release()
        return await self._ask(request, limits)

    async def _ask(self, request: Request, limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        assert self._http is not None, "the session is open"  # noqa: S101
        headers = {"Accept": request.accept}
        if authorization := await self._credentials.header():
            headers["Authorization"] = authorization
        if request.body is not None:
            usual = MERGE_PATCH if request.verb == "patch" else JSON
            headers["Content-Type"] = request.content_type or usual
        http = self._http
        response = await http.request(
            _METHODS.get(request.verb, "GET"),
            self.host + request.path,
            params=request.params,
            data=request.body,
            headers=headers,
            timeout=limits,
            proxy=self._proxy,
            server_hostname=self._credentials.server_name,
            allow_redirects=False,
        )
        self._answers[response] = http
        return response

    def _look(self) -> None:
        """Read the credentials again, once a minute, without waiting for it: what is before the API server may end
        connections because a client certificate has ended, and the renewed one may be there."""
        is_looking = self._looking is not None and not self._looking.done()
        if not is_looking and time.monotonic() - self._reloaded >= LOOK_EVERY:
            self._looking = asyncio.create_task(self._reload(self._generation, _NO_ANSWER))

    async def _reload_soon(self, generation: int, code: int) -> bool:
        """Read the credentials again; after any answer but 401, which says that these are worth nothing, wait only
        a moment for it, as the answer is there."""
        if code == 401:
            return await self._reload(generation, code)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._reload(generation, code))
        looking = self._looking
        await asyncio.wait([looking], timeout=A_MOMENT)
        return (looking.done() and not looking.cancelled() and looking.result()) or self._generation != generation

    async def _reload(self, generation: int, code: int = 0) -> bool:
        """Read the credentials again, unless another request just did or it was tried a moment ago. After any other
        answer (`code`) than 401 that is in vain where they are the same, as where a right is missing."""
        async with self._reloading:
            if self._generation != generation:
                return True
            is_refused = code in (0, 401)
            if time.monotonic() - self._reloaded < (RELOAD_EVERY if is_refused else LOOK_EVERY):
                return False
            self._reloaded, last = time.monotonic(), self._credentials.identity
            try:
                await self._credentials.load()
                self._unread = ""
                if not is_refused and self._credentials.identity == last:
                    return False
                if is_refused or self._credentials.identity.certificate != last.certificate:
                    await self._replace_connections()
            except Exception as error:
                self._unread = one_line(str(error))  # is told with the 401; a TLS error says enough
                return False
            self._generation += 1
            return True

    async def _replace_connections(self) -> None:
        """Writes may be under way on the old connections, so they are closed one reload later. Another token needs no
        new ones: a plugin may print another each time, and watches must not end for that."""
        fresh = self._connect()
        closing, self._retired, self._http = self._retired, self._http, fresh
        if closing is not None:
            await self._close(closing)

    async def _close(self, http: aiohttp.ClientSession) -> None:
        """Close its connections, and the answers that still come by them: aiohttp tells who waits for more of one
        nothing, and raises RuntimeError for who does so later; now both have a ClientConnectionError."""
        for response, session in list(self._answers.items()):
            if session is http and not response.content.is_eof():
                response.close()
        await http.close()

    def _count(self, request: Request, code: int, started: float) -> None:
        if self._calls is not None:
            self._calls(request.verb, request.resource, code, time.monotonic() - started)


def _may_be_for_credentials(response: aiohttp.ClientResponse) -> bool:
    """Whether other credentials may be answered otherwise: these count no longer (401), may be another user's (403), as
    nobody knows what another may do, or a gateway before the API server shows a login, or the way to one."""
    is_page = response.content_type == "text/html" and response.status < 500
    return response.status in (401, 403, 407) or 300 <= response.status < 400 or is_page


def _refusal(path: str, response: aiohttp.ClientResponse, body: bytes, unread: str) -> ApiError:
    """The server's answer to a request of this path as an error, without the credentials, which a proxy may echo.
    `unread`: why there are no others."""
    credentials = response.request_info.headers.get("Authorization", "").rpartition(" ")[2]
    if credentials:
        body = body.replace(credentials.encode(), b"***")
    try:
        status = msgspec.json.decode(body, type=Status)
    except UNREADABLE:
        status = Status(message=body[:200].decode("utf-8", "replace").strip().replace("\n", " "))
    header = response.headers.get("Retry-After", "")
    seconds = float(header) if header.isdecimal() else None
    if seconds is None and status.details is not None:
        seconds = status.details.retry_after_seconds
    reason = status.reason or response.reason or ""
    if _must_be_a_status(path, response, body) and not _is_by_the_server(path, response.status, status):
        return _stranger(response, status.message or reason)
    causes = tuple(cause.reason for cause in (status.details and status.details.causes) or ())
    seconds = None if seconds is None else min(max(seconds, 0.0), _LONGEST)
    message = status.message or reason
    message = f"{message} (and credentials cannot be read again: {unread})" if unread else message
    return ApiError(response.status, reason, message, seconds, causes=causes)


def _is_by_the_server(path: str, code: int, status: Status) -> bool:
    """Whether an API server may have answered so to a request of this path. With 404 it names what is not there, or
    says that it does not serve the resource; pods and their like it always does. What is before it may answer by a
    Status of its own: Teleport, where it does not know the cluster, or a client of an API server that saw a page. An
    adapter says so of a metric that it does not have."""
    if status.kind != "Status" or code != _NOT_FOUND or _METRICS.match(path):
        return status.kind == "Status"
    name = status.details.name if status.details else ""
    causes = (status.details and status.details.causes) or ()
    if any(cause.reason == _UNEXPECTED for cause in causes):
        return False
    if name:
        return name in unquote(path).split("/")
    return status.message == _NO_RESOURCE and _ALWAYS_SERVED.fullmatch(path) is None


def _must_be_a_status(path: str, response: aiohttp.ClientResponse, body: bytes) -> bool:
    """Whether an API server would say so by a Status: that an object is gone, or another by now. A proxy that knows no
    way to it answers 404 too, with a page of its own. For a group that it does not serve an API server has a page as
    well, which nobody may keep; and a kubelet behind it has others."""
    if response.status not in (404, 409, 410) or (path.startswith("/api/v1/nodes/") and "/proxy/" in path):
        return False
    is_about_objects = path.count("/") > "/apis/GROUP/VERSION".count("/")
    not_served = body.strip() == _NOT_SERVED and (
        not is_about_objects or "no-cache" in response.headers.get("Cache-Control", "")
    )
    return path.startswith("/api/v1/") or not not_served


def _is_object(body: bytes) -> bool:
    """Whether it is one of the API: they all say of what kind they are. What is before an API server may answer 200
    with a page, or with JSON of its own, and then nobody knows what became of a write."""
    try:
        return bool(_OBJECT.decode(body).kind)
    except UNREADABLE:
        return False


def _stranger(response: aiohttp.ClientResponse, said: str) -> ApiError:
    return ApiError(0, "NoAnswer", f"{response.status} of something before the API server: {one_line(said)}")


def _silence(error: Exception) -> ApiError:
    sent = not isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
    if isinstance(error, TimeoutError):
        return ApiError(0, "Timeout", "no answer in time", sent=sent)
    return ApiError(0, "NoAnswer", str(error).split("\n")[0] or type(error).__name__, sent=sent)


encode = msgspec.json.encode
"""Makes a request's body."""


def decoded(body: bytes, decoder: msgspec.json.Decoder[T], kind: str) -> T:
    """The object in an answer. Raises ApiError when it is none."""
    try:
        return decoder.decode(body)
    except UNREADABLE as error:
        raise unreadable(kind, error) from error


def unreadable(kind: str, error: Exception) -> ApiError:
    """What an answer is that was to be of this kind, and is not."""
    return ApiError(500, "Unreadable", f"the server's answer is no {kind}: {error}")


def proxy_of(address: str) -> str | None:
    """The proxy by which the environment wants an address to be reached (HTTPS_PROXY, NO_PROXY and their like)."""
    url = urlsplit(address)
    if proxy_bypass(url.netloc):
        return None
    return getproxies().get(url.scheme)
