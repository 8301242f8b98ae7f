"""The HTTP client of all sources: TLS, credentials, limits, and faults in one line.

Knows how to ask and how a server says no; knows nothing of what it is asked for. No message holds a secret: options
hold only the paths of files, and the contents of those are redacted from whatever a server says.
"""

import asyncio
import re
import ssl
import time
import zlib
from base64 import b64encode
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Annotated, Self
from urllib.parse import urlsplit

import aiohttp
import msgspec
from msgspec import Meta, Struct

from elasticd.base.errors import UNREADABLE, ConfigError, NotYetError
from elasticd.base.files import linked
from elasticd.base.secrets import check_secret, read_secret, secret_path, unreadable
from elasticd.base.text import one_line, shown
from elasticd.ports.source import Source

JSON = "application/json"
_ERROR_BYTES = 1 << 16
_WORDS = 200
_LONGEST_WAIT = 300.0
_SECRET_NAME = re.compile(r"auth|token|secret|passw|key|cookie|credential|session", re.IGNORECASE)
_HEADER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_RESERVED = ("host", "content-type", "content-length", "transfer-encoding", "connection", "accept", "accept-encoding")


class Header(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A header sent with every request: its value, or the file that holds it."""

    name: Annotated[str, Meta(description="such as X-Scope-OrgID")]
    value: Annotated[str, Meta(description="what it says, unless it is a secret")] = ""
    value_file: Annotated[str, Meta(description="path of a file that says it, or credential:NAME")] = ""

    def __post_init__(self) -> None:
        if not _HEADER_NAME.fullmatch(self.name) or self.name.lower() in _RESERVED:
            raise ValueError(f"name: must be the name of a header that is not set otherwise, is {shown(self.name)}")
        if self.value and _SECRET_NAME.search(self.name):
            raise ValueError(f"value: must be in a file (value_file) for {self.name}, which may be a secret")
        if bool(self.value) == bool(self.value_file):
            which = "both are" if self.value else "neither is"
            raise ValueError(f"value: must be given, or else value_file, {which}")
        if not _sendable(self.value):
            raise ValueError(f"value: must be printable ASCII, is {shown(self.value)}")


class HttpSource(Source, frozen=True):
    """A source that asks one HTTP server: where it is, how to be let in, and how long and how much to listen."""

    url: Annotated[str, Meta(description="http:// or https://, host, port, and a path if there is one")]
    ca_file: Annotated[str, Meta(description="authorities that sign the server's certificate; empty: the system's")] = (
        ""
    )
    cert_file: Annotated[str, Meta(description="certificate to show the server; empty: none")] = ""
    key_file: Annotated[str, Meta(description="its private key; empty: in cert_file")] = ""
    bearer_file: Annotated[str, Meta(description="file of a bearer token, or credential:NAME; empty: none")] = ""
    username: Annotated[str, Meta(description="for basic authentication; empty: none")] = ""
    password_file: Annotated[str, Meta(description="file of its password, or credential:NAME")] = ""
    header: Annotated[tuple[Header, ...], Meta(description="further headers, such as a tenant's")] = ()
    timeout: Annotated[float, Meta(ge=0.1, le=600, description="seconds for one answer, from first byte to last")] = 10
    max_bytes: Annotated[int, Meta(ge=1024, le=1 << 30, description="bytes of one answer, unpacked, at most")] = 1 << 24
    at_once: Annotated[int, Meta(ge=1, le=64, description="requests under way at one time, at most")] = 4

    def __post_init__(self) -> None:
        secure = _is_https(self.url)
        if not secure and (self.ca_file or self.cert_file):
            raise ValueError(f"url: must be https:// where there is a ca_file or cert_file, is {shown(self.url)}")
        if self.key_file and not self.cert_file:
            raise ValueError("key_file: must be with the cert_file it belongs to, which is missing")
        if bool(self.username) != bool(self.password_file):
            raise ValueError("password_file: must be given with username, and only with it")
        if self.bearer_file and self.username:
            raise ValueError("bearer_file: must be the only way to be let in, username is another")
        if ":" in self.username or not _sendable(self.username):
            raise ValueError("username: must be printable ASCII without a colon")
        names = [header.name.lower() for header in self.header]
        names += ["authorization"] if self.bearer_file or self.username else []
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"header: must each be given once, {twice[0]} is given twice")

    def examine(self) -> None:
        _Secrets(self)
        if _is_https(self.url):
            _tls(self)


def _is_https(url: str) -> bool:
    """Whether a URL is https. Raises ValueError for what is no server's URL, without showing a password in it."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good, parts = False, urlsplit("")
    if "@" in url:
        raise ValueError("url: must have no user or password in it (username, password_file)")
    if not good or not url.isprintable() or " " in url or "\\" in url:
        raise ValueError(f"url: must be http:// or https:// and a host, is {shown(url)}")
    if parts.query or parts.fragment or "?" in url or "#" in url:
        raise ValueError("url: must end with its path, has more (which is not told: it may hold a secret)")
    return parts.scheme == "https"


def _sendable(text: str) -> bool:
    return text.isascii() and text.isprintable()


class HttpFault(Exception):  # noqa: N818
    """Why there is no answer to use, in one line without a secret. `status` is the server's, 0 when there was no
    answer; `too_much`: that it was more than we take, or took longer than we wait, so that less may be answered."""

    def __init__(self, message: str, status: int = 0, *, too_much: bool = False) -> None:
        super().__init__(message)
        self.status, self.too_much = status, too_much


async def read_body(response: aiohttp.ClientResponse, most: int) -> bytes | None:
    """The body; None for one of more than `most` bytes, whatever length was announced."""
    if (response.content_length or 0) > most:
        return None
    chunks, length = list[bytes](), 0
    async for chunk in response.content.iter_any():
        length += len(chunk)
        if length > most:
            return None
        chunks.append(chunk)
    return b"".join(chunks)


_WINDOWS = {"gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}
"""How zlib is told of each encoding."""


def unpacked(body: bytes, encoding: str, most: int) -> bytes | None:
    """The body as it was before it was packed; None for one of more than `most` bytes. Takes a second for some hundred
    MB: call it outside the loop. Raises ValueError for what is not packed so, or in a way that nobody asked for."""
    if (window := _WINDOWS.get(encoding)) is None:
        raise ValueError(f"must be packed as gzip, deflate or not at all, is as {shown(encoding)}")
    unpacker = zlib.decompressobj(window)
    try:
        plain = unpacker.decompress(body, most + 1)
    except zlib.error as error:
        raise ValueError(f"is no {encoding}: {error}") from None
    if len(plain) > most:
        return None
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError(f"is no {encoding}: it {'has more after its end' if unpacker.eof else 'is cut off'}")
    return plain


class _Refusal(Struct):
    """The JSON body that many servers send with an error status."""

    error: str | None = None
    message: str | None = None


class _Secrets:
    """The headers that authenticate us, and the secrets that no message may show."""

    def __init__(self, options: HttpSource) -> None:
        self._secret: list[str] = []
        self.headers = {
            header.name: header.value or self._read(header.value_file, "header") for header in options.header
        }
        if options.bearer_file:
            self.headers["Authorization"] = f"Bearer {self._read(options.bearer_file, 'bearer_file')}"
        if options.username:
            password = self._read(options.password_file, "password_file", ascii_only=False)
            basic = b64encode(f"{options.username}:{password}".encode()).decode()
            self._secret.append(basic)
            self.headers["Authorization"] = f"Basic {basic}"

    def _read(self, place: str, key: str, *, ascii_only: bool = True) -> str:
        text = read_secret(place)
        if not text or (ascii_only and not _sendable(text)):
            kind = ConfigError if text else NotYetError
            raise kind("", key, f"{secret_path(place)}: must be one line of printable ASCII, is not")
        self._secret.append(text)
        return text

    def redacted(self, text: str) -> str:
        """The text without any secret that the server may have echoed."""
        for secret in sorted(self._secret, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text


class HttpClient:
    """Connections to one server. `async with HttpClient(options)` opens and closes them. A file that is missing or not
    usable raises ConfigError then; later, when it may just be being replaced, it is a fault of the request."""

    def __init__(self, options: HttpSource) -> None:
        self._options = options
        self._base = options.url.rstrip("/")
        self._slots, self._renewing = asyncio.Semaphore(options.at_once), asyncio.Lock()
        self._session: aiohttp.ClientSession | None = None
        self._retired: aiohttp.ClientSession | None = None
        self._stamp: tuple[object, ...] = ()
        self._quiet_until = float("-inf")

    async def __aenter__(self) -> Self:
        self._secrets = _Secrets(self._options)
        await self._connect(self._files())
        return self

    async def __aexit__(self, *_: object) -> None:
        for session in (self._session, self._retired):
            if session is not None:
                await session.close()

    async def ask(self, path: str, form: Mapping[str, str] | None = None, accept: str = JSON) -> bytes:
        """The body of the answer: to a POST where there is a form, else to a GET. Raises HttpFault for any other than
        a 2xx of the type `accept`. A server that sends Retry-After is left alone for as long (at most 5 minutes)."""
        async with self._slots:
            remaining = self._quiet_until - asyncio.get_running_loop().time()
            if remaining > 0:
                raise HttpFault(f"the server asked to be left alone for {remaining:.0f} s more", 503)
            try:
                return await self._request(path, form, accept)
            except ConfigError as error:
                raise HttpFault(one_line(str(error))) from None
            except TimeoutError:
                raise HttpFault(f"no answer within {self._options.timeout:g} s", too_much=True) from None
            except (aiohttp.ClientError, OSError, ValueError) as error:
                raise HttpFault(self._redact(f"no answer: {str(error) or type(error).__name__}")) from None

    async def _request(self, path: str, form: Mapping[str, str] | None, accept: str) -> bytes:
        await self._renew()
        sent = self._secrets.headers
        try:
            return await self._exchange(path, form, accept)
        except HttpFault as fault:
            # The token may have been rotated: a gateway before the server says so by 403, or by a page for a login. An
            # unchanged one would only be refused again.
            if fault.too_much or fault.status in (429, 503):
                raise
            try:
                self._secrets = _Secrets(self._options)
            except ConfigError as error:
                raise HttpFault(f"{fault}; {one_line(str(error))}", fault.status) from None
            if self._secrets.headers == sent:
                raise
        return await self._exchange(path, form, accept)

    async def _exchange(self, path: str, form: Mapping[str, str] | None, accept: str) -> bytes:
        assert self._session is not None, "it is open"  # noqa: S101
        # Redirects are not followed: they would take the credentials elsewhere, or to plain HTTP.
        async with self._session.request(
            "GET" if form is None else "POST",
            self._base + path,
            data=form,
            headers={**self._secrets.headers, "Accept": accept},
            allow_redirects=False,
        ) as response:
            if not 200 <= response.status < 300:
                raise await self._refusal(response)
            if response.content_type != accept:
                raise HttpFault(self._redact(f"answered with {response.content_type}, not {accept}"), response.status)
            most = self._options.max_bytes
            if (body := await self._body(response, most)) is None:
                raise HttpFault(f"answered with more than {most} bytes (max_bytes)", response.status, too_much=True)
            return body

    async def _body(self, response: aiohttp.ClientResponse, most: int) -> bytes | None:
        """The body, unpacked in a thread where the server has packed it unasked; None: it is too long."""
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        body = await read_body(response, most)
        if encoding == "identity" or not body:
            return body
        try:
            return await asyncio.to_thread(unpacked, body, encoding, most)
        except ValueError as error:
            raise HttpFault(self._redact(f"the answer {error}"), response.status) from None

    async def _refusal(self, response: aiohttp.ClientResponse) -> HttpFault:
        if response.status in (429, 503) and (header := response.headers.get("Retry-After", "")):
            self._quiet_until = asyncio.get_running_loop().time() + _seconds(header)
        try:
            refusal = msgspec.json.decode(await self._body(response, _ERROR_BYTES) or b"", type=_Refusal)
            detail = refusal.error or refusal.message or ""
        except (*UNREADABLE, HttpFault):
            detail = ""
        text = " ".join(filter(None, (str(response.status), response.reason)))
        return HttpFault(self._redact(f"{text}: {detail}" if detail else text), response.status)

    def _redact(self, text: str) -> str:
        return one_line(self._secrets.redacted(text[:_ERROR_BYTES]), _WORDS)

    def _files(self) -> tuple[object, ...]:
        """A fingerprint of the files of certificates, which changes when one is renewed."""
        return tuple(
            _stamp(place) for place in (self._options.ca_file, self._options.cert_file, self._options.key_file)
        )

    async def _renew(self) -> None:
        """Reconnect if a certificate's file has changed, once for all concurrent requests."""
        if self._files() == self._stamp:
            return
        async with self._renewing:
            if (stamp := self._files()) != self._stamp:
                await self._connect(stamp)

    async def _connect(self, stamp: tuple[object, ...]) -> None:
        options = self._options
        secure = await asyncio.to_thread(_tls, options) if _is_https(options.url) else True
        fresh = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=secure, limit=options.at_once),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=options.timeout),
            # Unpacking takes longer than decoding what was packed.
            headers={"Accept-Encoding": "identity", "User-Agent": "elasticd"},
            read_bufsize=1 << 18,
            auto_decompress=False,  # it would be done on the loop, which a small body could hold for seconds
        )
        # Requests may be under way on the old connections, so they are closed one renewal later.
        closing, self._retired, self._session, self._stamp = self._retired, self._session, fresh, stamp
        if closing is not None:
            await closing.close()


def _stamp(place: str) -> object:
    if not place:
        return None
    try:
        status = secret_path(place).stat()
    except (OSError, ConfigError):
        return "missing"
    return (status.st_ino, status.st_mtime_ns, status.st_size)


def _tls(options: HttpSource) -> ssl.SSLContext:
    """The authorities to trust and the certificate to present. The server's name and certificate are always checked."""
    authorities, certificate = _readable(options.ca_file), _readable(options.cert_file)
    key = check_secret(options.key_file or options.cert_file) if options.cert_file else None
    place = options.ca_file
    try:
        context = ssl.create_default_context(cafile=authorities)
        # As Kubernetes does: many private authorities lack what the strictest reading of the standard wants.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        place = options.cert_file
        if certificate:
            # With an empty password: otherwise OpenSSL would prompt for one on the terminal.
            context.load_cert_chain(certificate, key, password=lambda: b"")
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or type(error).__name__
        # It may be half written.
        raise NotYetError("", place, f"must be a PEM certificate, with its key, is not: {reason}") from None
    return context


def _readable(place: str) -> str | None:
    if not place:
        return None
    path = secret_path(place)
    try:
        open(path, "rb", opener=linked).close()
    except OSError as error:
        raise unreadable(path, error) from None
    return str(path)


def _seconds(retry_after: str) -> float:
    """The seconds that a Retry-After header asks for, as a number or as a time of day."""
    if retry_after.isdecimal() and retry_after.isascii():
        return min(float(retry_after[:6]), _LONGEST_WAIT)
    try:
        until = parsedate_to_datetime(retry_after).timestamp()
    except (ValueError, OverflowError):
        return 0.0
    return min(max(until - time.time(), 0.0), _LONGEST_WAIT)
