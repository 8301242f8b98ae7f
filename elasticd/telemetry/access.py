"""Who may read the pages: this machine; from elsewhere only who has the token, or one that the API server knows.

Probes and the files of the status page, which say nothing of the cluster, are for everybody. Knows requests and tokens;
knows nothing of what the pages show.
"""

import asyncio
import hashlib
import hmac
import logging
from collections.abc import Awaitable, Callable
from ipaddress import ip_address

from aiohttp import web
from aiohttp.typedefs import Handler
from msgspec import Struct

from elasticd.base.blocking import BlockingCall
from elasticd.base.errors import ConfigError
from elasticd.base.news import LastReported
from elasticd.telemetry.connections import PROBES

REMEMBERED, REFUSED = 60.0, 5.0
"""Seconds for which it counts that the API server let a token through, or did not."""

MOST = 1024
"""Tokens that are remembered, at most."""

_PROXIED = ("Forwarded", "X-Forwarded-For", "X-Real-IP", "Via")

log = logging.getLogger("elasticd")

Reviewer = Callable[[str, str], Awaitable[str]]
"""Why the API server does not let a token read a path; empty: it does."""


class Access(Struct, frozen=True):
    """What is asked of a reader. `token` reads the token, each time anew, and raises ConfigError where it cannot;
    `reviewer` asks the API server. Without either only this machine reads the pages. `metrics`: also /metrics needs a
    token."""

    token: Callable[[], str] | None = None
    reviewer: Reviewer | None = None
    metrics: bool = False

    @property
    def asks(self) -> bool:
        """Whether a reader needs a token."""
        return self.token is not None or self.reviewer is not None

    def note(self, host: str) -> str:
        """What to say of it at the start, in a line; empty: it is as by default."""
        if self.asks or is_local(host):
            return ""
        return (
            "http: the status page and its JSON are for this machine alone, because neither [http] token_file nor "
            "token_review is given; /metrics and probes are for everybody"
        )


UNASKED = Access()
"""No token is asked for: only this machine reads the pages."""


def is_local(host: str) -> bool:
    """Whether an address to listen on is of this machine alone."""
    return host == "localhost" or is_address(host, loopback=True)


def is_address(host: str, *, loopback: bool = False) -> bool:
    """Whether this is an IP address, and if asked for one of loopback."""
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or not loopback


PATIENCE = 2.0
"""Seconds that reading the token's file may take."""


class Guard:
    """Lets through who may read. `host` is the address on which the pages are served."""

    def __init__(self, access: Access, host: str) -> None:
        self._access, self._local = access, is_local(host)
        self._token = BlockingCall(access.token, PATIENCE, "http.token_file") if access.token else None
        self._reviews: dict[bytes, asyncio.Task[str]] = {}
        self._unreadable = LastReported()

    @web.middleware
    async def attend(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer who may read; tell others what is lacking."""
        if self._local and not _by_own_name(request):
            return web.Response(status=421, text="the Host header must be localhost or an address\n")
        if not self._is_open(request.path) and (refusal := await self._refusal(request)):
            return refusal
        return await handler(request)

    def _is_open(self, path: str) -> bool:
        if path == "/metrics":
            return not self._access.metrics
        return path in PROBES or path == "/" or path.startswith("/page/")

    async def _refusal(self, request: web.Request) -> web.Response | None:
        if not self._access.asks:
            if _from_this_machine(request):
                return None
            text = "only this machine reads this, and through no proxy: [http] token_file is not given\n"
            return web.Response(status=403, text=text)
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            return _unauthorized("a token is needed")
        if await self._is_ours(token):
            return None
        why = await self._review(token, request.path)
        return _unauthorized(why) if why else None

    async def _is_ours(self, token: str) -> bool:
        """Whether it is the token of the file. A file that cannot be read lets nobody through, and is logged."""
        if self._token is None:
            return False
        try:
            own = await self._token.result()
        except (ConfigError, TimeoutError) as error:
            why = (
                str(error) if isinstance(error, ConfigError) else "must be readable, is not: its mount does not answer"
            )
            if self._unreadable.changed(why):
                log.error("http.token_file: %s: it lets nobody through", why)
            return False
        self._unreadable.changed(None)
        return bool(own) and hmac.compare_digest(own.encode(), token.encode(errors="replace"))

    async def _review(self, token: str, path: str) -> str:
        """Why a token does not count. The API server is asked once for all who come with it at a time."""
        if self._access.reviewer is None:
            return "this token does not count"
        key = hashlib.sha256(f"{path} {token}".encode(errors="replace")).digest()
        task = self._reviews.get(key)
        if task is None:
            if len(self._reviews) >= MOST:
                return "too many tokens at a time"
            task = self._reviews[key] = asyncio.ensure_future(self._access.reviewer(token, path))
            task.add_done_callback(lambda done: self._forget_later(key, done))
        return await asyncio.shield(task)

    def _forget_later(self, key: bytes, done: "asyncio.Task[str]") -> None:
        lets_through = not done.cancelled() and done.exception() is None and not done.result()
        loop = asyncio.get_running_loop()
        loop.call_later(REMEMBERED if lets_through else REFUSED, self._reviews.pop, key, None)


def _unauthorized(why: str) -> web.Response:
    return web.Response(status=401, text=f"{why}\n", headers={"WWW-Authenticate": "Bearer"})


def _by_own_name(request: web.Request) -> bool:
    """Whether a browser was led here by this machine's own name or an address, not by another's name for it."""
    name = request.url.host or ""
    return name == "localhost" or is_address(name)


def _from_this_machine(request: web.Request) -> bool:
    """Whether somebody on this machine asks, as `kubectl exec` and `kubectl port-forward` do: not a proxy here for
    somebody elsewhere."""
    proxied = any(header in request.headers for header in _PROXIED)
    return request.remote in ("127.0.0.1", "::1", "::ffff:127.0.0.1") and _by_own_name(request) and not proxied
