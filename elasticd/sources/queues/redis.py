"""The source redis: lengths of lists and streams of a Redis server, or one that speaks as it does.

Knows the commands and their answers; knows nothing of who reads them. The client comes with elasticd[redis], and is
imported when a source is opened.
"""

import importlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Annotated, Any, Literal

from msgspec import Meta

from elasticd.api import hookimpl
from elasticd.base.errors import ConfigError
from elasticd.base.secrets import read_secret, secret_path
from elasticd.base.text import one_line, shown
from elasticd.ports.source import Every, Reader, Site, Source
from elasticd.sources.queues.lengths import AT_ONCE, Lengths, Queue, QueueSource, check_library, check_queues
from elasticd.sources.rounds import Fault
from elasticd.sources.tls import Tls, check_files


class RedisQueue(Queue, frozen=True):
    """A list, or a stream and one of its groups of consumers."""

    key: Annotated[str, Meta(min_length=1, description="of the list or stream")]
    group: Annotated[str, Meta(description="of consumers, for pending and lag")] = ""
    count: Annotated[
        Literal["list", "stream", "pending", "lag"],
        Meta(
            description="length of a list or stream; of a group: delivered and not acknowledged, or not delivered yet"
        ),
    ] = "list"

    def __post_init__(self) -> None:
        of_group = self.count in ("pending", "lag")
        if of_group != bool(self.group):
            is_now = shown(self.group) if self.group else "missing"
            raise ValueError(f'group: must be given with count = "pending" or "lag", and only then, is {is_now}')


class Redis(QueueSource, frozen=True, kw_only=True, tag="redis"):
    """Lengths of lists and streams of one Redis server."""

    host: Annotated[str, Meta(min_length=1, max_length=255, description="name or address of the server, no URL")]
    port: Annotated[int, Meta(ge=1, le=65535, description="TCP port")] = 6379
    db: Annotated[int, Meta(ge=0, description="number of the database")] = 0
    username: Annotated[str, Meta(description="empty: the default user")] = ""
    password_file: Annotated[str, Meta(description="file of the password, or credential:NAME; empty: none")] = ""
    tls: Tls | None = None
    timeout: Annotated[float, Meta(ge=0.1, le=60, description="seconds to connect, and for one answer")] = 5.0
    series: Annotated[tuple[RedisQueue, ...], Meta(min_length=1, description="queues, each the series of a workload")]
    every: Every = 1.0

    def __post_init__(self) -> None:
        check_library("redis", "redis")
        check_queues(self.series)
        if "/" in self.host or "@" in self.host:
            # The message leaves it out: whoever writes a URL may have written a password into it.
            raise ValueError("host: must be a name or an address, without scheme, user and port, is something else")
        if self.username and not self.password_file:
            raise ValueError("password_file: must be given with username, is missing")

    def examine(self) -> None:
        check_files(self.password_file, self.tls)

    @asynccontextmanager
    async def open(self, site: Site) -> AsyncIterator[Reader]:
        """Connections to the server, which need not be up."""
        library = importlib.import_module("redis.asyncio")
        async with aclosing(library.Redis(**_arguments(self))) as client:
            if self.tls:
                client.connection_pool.connection_class = _reading_certificates()
            asking = _Asking(client, library.RedisError)
            async with aclosing(Lengths(self.label, self.series, asking.length, site.clock)) as lengths:
                yield lengths


def _arguments(options: Redis) -> dict[str, Any]:
    """The arguments of the client. It tries a command again at once, since servers close idle connections, and then no
    more: the next read is soon enough."""
    no_pause = importlib.import_module("redis.backoff").NoBackoff()
    arguments: dict[str, Any] = {
        "host": options.host,
        "port": options.port,
        "db": options.db,
        "socket_timeout": options.timeout,
        "socket_connect_timeout": options.timeout,
        "max_connections": AT_ONCE,
        "retry": importlib.import_module("redis.asyncio.retry").Retry(no_pause, 1),
    }
    if options.password_file:
        arguments["credential_provider"] = _credentials(options)
    if options.tls:
        tls = options.tls
        arguments |= {"ssl": True, "ssl_ca_certs": str(secret_path(tls.ca_file)) if tls.ca_file else None}
        if tls.cert_file:
            arguments |= {
                "ssl_certfile": str(secret_path(tls.cert_file)),
                "ssl_keyfile": str(secret_path(tls.key_file)),
            }
    return arguments


def _reading_certificates() -> type:
    """A connection that reads the files of certificates each time, so that they may be rotated: the library's own keeps
    what it has read of them."""
    library = importlib.import_module("redis.asyncio.connection")

    async def connect(self: Any) -> None:
        self.ssl_context.context = None
        await library.SSLConnection.connect(self)

    return type("CertificateConnection", (library.SSLConnection,), {"connect": connect})


def _credentials(options: Redis) -> Any:
    """Reads the password at each connection, so that it may be rotated."""
    provider = importlib.import_module("redis").CredentialProvider

    def get_credentials(_: object) -> tuple[str, ...]:
        password = read_secret(options.password_file)
        return (options.username, password) if options.username else (password,)

    async def get_credentials_async(provider: object) -> tuple[str, ...]:
        return get_credentials(provider)

    methods = {"get_credentials": get_credentials, "get_credentials_async": get_credentials_async}
    return type("FileCredentials", (provider,), methods)()


class _Asking:
    """Commands that change nothing."""

    def __init__(self, client: Any, error: type[Exception]) -> None:
        self._client, self._error = client, error
        self._of: Mapping[str, Callable[[RedisQueue], Any]] = {
            "list": lambda queue: client.llen(queue.key),
            "stream": self._of_stream,
            "pending": self._of_group,
            "lag": self._of_group,
        }

    async def length(self, queue: RedisQueue) -> float:
        """The length now. Raises Fault where the server refuses, or knows none."""
        try:
            value = await self._of[queue.count](queue)
        except (self._error, OSError, ConfigError) as error:
            raise Fault(one_line(f"{queue.key}: {error}")) from None
        if value is None:
            raise Fault(f"{queue.key}: the server does not know how many entries group {queue.group} has not had yet")
        if type(value) is not int:  # a false or a text that no Redis answers with must not count as 0
            raise Fault(one_line(f"{queue.key}: must be a whole number, is {shown(value)}"))
        return float(value)

    async def _of_stream(self, queue: RedisQueue) -> float:
        """Its length. XLEN answers 0 for a stream that is not there too, but Redis removes none that is empty."""
        entries: float = await self._client.xlen(queue.key)
        if not entries and not await self._client.exists(queue.key):
            raise Fault(f"{queue.key}: the server has no such stream")
        return entries

    async def _of_group(self, queue: RedisQueue) -> int | None:
        groups = await self._client.xinfo_groups(queue.key)
        for group in groups:
            if group["name"] in (queue.group, queue.group.encode()):
                count: int | None = group.get(queue.count)
                return count
        raise Fault(f"{queue.key}: has no group {shown(queue.group)}")


@hookimpl
def register_sources() -> Sequence[type[Source]]:
    return [Redis]
