"""Keeps a copy of a list current: a paged LIST, then a WATCH from where it ended, for ever.

Knows the protocol (bookmarks, 410, continue tokens, silence) and when the copy was last proved; knows nothing of
what the objects are. Errors never leave this module: while they last, `confirmed` stands still.
"""

import asyncio
import logging
import random
from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from elasticd.base.backoff import Backoff
from elasticd.base.clock import Clock, ServerTime
from elasticd.base.errors import UNREADABLE
from elasticd.cluster.kubernetes.session import (
    FLOW_CONTROL,
    JSON,
    PARTIAL_LIST,
    ApiError,
    Request,
    Session,
    decoded,
    unreadable,
)
from elasticd.cluster.kubernetes.watch.discovery import Discovery, Resource
from elasticd.cluster.kubernetes.watch.store import Key, Sink
from elasticd.cluster.kubernetes.watch.versions import Rollbacks, is_older
from elasticd.cluster.kubernetes.wire.objects import (
    RAW_LIST,
    Codec,
    Fault,
    ListMetadata,
    Metadata,
    Status,
    WatchEvent,
    meta_of,
)

logger = logging.getLogger(__name__)

_LONGEST_LINE = 64 << 20
_BACKOFF = Backoff(0.5, 30.0, (0.5, 1.5))
_PAGED_ATTEMPTS = 2
_PATIENCE = 3
_SHORTEST_WATCH = 1.0
_EARLY = 1.0
"""Seconds before its time from which on the end of a watch is early."""
RELIST = 1800.0
"""Seconds of watching after which a list is read again, in case an event was never sent."""
_PROVING = 3
_EVENT = msgspec.json.Decoder(WatchEvent)
_STATUS = msgspec.json.Decoder(Status)


class Lines:
    """Joins chunks of bytes into lines. A line may be longer than any buffer of the HTTP client."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that this chunk completes. Raises ApiError for one that never ends."""
        head, *tail = chunk.split(b"\n")
        self._parts.append(head)
        self._size += len(head)
        if self._size > _LONGEST_LINE:
            raise ApiError(0, "TooLong", f"a watch event is longer than {_LONGEST_LINE} bytes")
        if not tail:
            return
        lines = [b"".join(self._parts), *tail[:-1]]
        self._parts, self._size = [tail[-1]], len(tail[-1])
        yield from (line for line in lines if line)


class Retries:
    """Counts failures in a row, for the pause after each."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._failures = clock, 0

    async def wait(self, at_least: float | None = None) -> None:
        await self._clock.sleep_until(self._clock.now() + self.pause(at_least))

    def pause(self, at_least: float | None = None) -> float:
        """Seconds to wait after one more failure, for which the server may have asked."""
        self._failures += 1
        return max(_BACKOFF.delay(self._failures, random.random()), min(at_least or 0.0, FLOW_CONTROL))  # noqa: S311

    def reset(self) -> None:
        """Start again from the shortest pause: something worked."""
        self._failures = 0


class Feed(Struct, frozen=True):
    """How the objects of a resource are read, which of them (`params`, such as a fieldSelector), as what (`accept`: of
    lists and of watches), and where they go."""

    codec: Codec[Any, Any]
    sink: Sink
    accept: tuple[str, str] = (JSON, JSON)
    params: dict[str, str] = {}


class Dependencies(Struct, frozen=True):
    """What an informer needs: a session, clocks, discovery, which namespaces, how patiently (in seconds of silence) and
    in which portions lists are read, and who is told when the server's versions went back."""

    session: Session
    clock: Clock
    times: ServerTime
    discovery: Discovery
    namespaces: tuple[str, ...]
    page: int
    silence: float
    rollbacks: Rollbacks


class Reflector:
    """One list, mirrored into a sink for as long as `run` runs.

    `confirmed` is when the server last proved the copy current, `fault` what is wrong now, `skipped` counts unreadable
    objects. Being refused or not served removes nothing from the copy, for it says nothing of what there is: only a
    list that was read to its end, or an event, removes.
    """

    def __init__(self, deps: Dependencies, resource: Resource, namespace: str, feed: Feed, fault: str = "") -> None:
        """`namespace` is empty for all of them; `fault` was told already."""
        self._deps, self._session, self._clock = deps, deps.session, deps.clock
        self._resource, self.namespace, self._feed = resource, namespace, feed
        self._retries = Retries(deps.clock)
        self._version = ""
        """The newest that was seen, from which a watch goes on."""
        self._must_list = True
        self._doubted = False
        """Whether the server may have been restored to an older version since it was last heard."""
        self._listed = 0.0
        self._rollbacks = deps.rollbacks.count
        self._failures = 0
        self.confirmed = 0.0
        self.fault = fault
        self.unanswered = False
        """Whether the server did not answer when it was asked last; a refusal is an answer."""
        self.refused = False
        """Whether the right to read it was missing when it was asked for last."""
        self.skipped = 0
        self.settled = asyncio.Event()
        """Set once the list was read, or it is known that it cannot be."""

    async def run(self) -> None:
        """Mirror, until the server no longer serves the resource (404); only then it returns."""
        while True:
            try:
                await (self._watch() if await self._resumes() else self._list())
                self._failures = 0
            except ApiError as error:
                if error.code == 404:
                    return self._refuse(error)
                await self._recover(error)
            except Exception:
                # A fault of ours must not end the daemon: hold, and start afresh.
                logger.exception("%s: cannot be mirrored", self._where())
                self.fault, self._must_list = "internal error, see the log", True
                await self._retries.wait()

    async def _resumes(self) -> bool:
        """Whether to watch on from where the last watch ended. After trouble the server is asked for its version first:
        one whose etcd was restored has not reached that, and would be silent until it has. The answer costs one object,
        and is read from etcd, or from a cache that has caught up with it. What cannot be compared is listed anew."""
        if self._must_list or self.is_rolled_back:
            return False
        if not self._doubted:
            return True
        request = Request(
            verb="list",
            path=self._resource.path(self.namespace),
            resource=self._resource.plural,
            params={"limit": "1"},
            accept=PARTIAL_LIST,
        )
        version = decoded(await self._session.send(request), RAW_LIST, "list").metadata.resource_version
        if version != self._version and not is_older(self._version, than=version):
            return False
        self._doubted = False
        return True

    @property
    def is_rolled_back(self) -> bool:
        """Whether somebody has seen since the last list that etcd was put back. The versions of this resource need not
        show it: they may have been raised, or passed the old ones by now."""
        return self._rollbacks != self._deps.rollbacks.count

    async def _recover(self, error: ApiError) -> None:
        """Decide between going on from where the watch was and a new list, and wait before either."""
        self._failures += 1
        self._doubted, self.unanswered = True, error.code == 0
        self.refused = refused = error.code in (403, 405)
        if refused:
            self._refuse(error)
        elif error.code != 410:
            self._note(str(error))
        unproved = self._clock.now() - self.confirmed > self._deps.silence
        if error.code == 410 or error.reason == "Timeout" or refused or unproved or self._failures >= _PATIENCE:
            self._must_list = True
        # Everybody's watch may have broken at once: the jitter keeps all from coming back at once.
        await self._retries.wait(error.retry_after)

    def _refuse(self, error: ApiError) -> None:
        self._note(error.message)
        self.settled.set()

    def _note(self, fault: str) -> None:
        if fault and not self.fault:
            logger.warning("%s: %s", self._where(), fault)
        elif self.fault and not fault:
            logger.info("%s: current again", self._where())
        self.fault = fault

    def _where(self) -> str:
        return f"{self.namespace or 'all namespaces'}/{self._resource.plural}"

    def _confirm(self, when: float) -> None:
        self.confirmed, self.unanswered = max(self.confirmed, when), False
        self._note("")

    def _request(self, verb: Literal["list", "watch"], params: dict[str, str]) -> Request:
        resource, feed = self._resource, self._feed
        return Request(
            verb=verb,
            path=resource.path(self.namespace),
            resource=resource.plural,
            params={**feed.params, **params},
            accept=feed.accept[verb == "watch"],
        )

    async def _list(self) -> None:
        """Read the whole list. A list that expires while it is read is begun again, at last in one piece."""
        for _ in range(_PAGED_ATTEMPTS):
            try:
                return await self._list_pages(self._deps.page)
            except ApiError as error:
                if error.code != 410:
                    raise
                logger.info("%s: the list expired while it was read", self._where())
        return await self._list_pages(0)

    async def _list_pages(self, limit: int) -> None:
        """Store each page as it comes; objects that vanished are removed after the last page."""
        started, keys, rollbacks = self._clock.now(), set[Key](), self._deps.rollbacks
        params, count, is_rolled_back = {"limit": str(limit)} if limit else {}, rollbacks.count, self.is_rolled_back
        while True:
            metadata, items, faults = self._page(await self._session.send(self._request("list", params)))
            went_back = is_older(metadata.resource_version, than=self._version)
            if went_back and not is_rolled_back:  # before the first of it counts
                rollbacks.note(self._resource.plural, self._version, metadata.resource_version)
                count, is_rolled_back = rollbacks.count, True
            keys.update(self._feed.sink.put(item, listed=True, restored=is_rolled_back) for item in items)
            # An object that cannot be read keeps its last readable form.
            keys.update((meta.namespace, meta.name) for meta, _ in faults)
            self._skip(faults)
            if not metadata.continue_:
                break
            params = {**params, "continue": metadata.continue_}
        self._feed.sink.retain(self.namespace, keys)
        self._rollbacks = count
        self._version, self._listed = metadata.resource_version, started
        self._must_list, self._doubted = not self._version, False
        self._confirm(started)  # a list is as old as the moment it was asked for
        self.settled.set()
        if self._must_list:  # one without a version can only be read again
            await self._retries.wait()

    def _page(self, body: bytes) -> tuple[ListMetadata, list[Any], list[Fault]]:
        try:
            return self._feed.codec.page(body)
        except UNREADABLE as error:
            raise unreadable("list", error) from error

    def _skip(self, faults: list[Fault]) -> None:
        for meta, fault in faults:
            self.skipped += 1
            name = f"{meta.namespace}/{meta.name}"
            logger.warning("%s: skipped %s, which cannot be read: %s", self._where(), name, fault)

    async def _watch(self) -> None:
        started, lines = self._clock.now(), Lines()
        # The server ends the watch well before its silence would mean that it is dead. After trouble it ends it soon,
        # for the end in order is what proves that nothing was missed.
        lasts = _PROVING if self._failures else max(1, int(self._deps.silence * random.uniform(0.6, 0.85)))  # noqa: S311
        params = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(lasts),
        }
        # One that the server does not end in time is dead, though something drips from it, as a proxy's newlines do.
        request = replace(self._request("watch", params), timeout=lasts + self._deps.silence)
        async with self._session.stream(request, self._deps.silence) as stream:
            self._note("")  # it answers; but what was missed since the last proof is still to come
            async for chunk in stream.iter_any():
                for line in lines.feed(chunk):
                    self._take(line)
                if self.is_rolled_back:
                    raise ApiError(410, "Expired", "etcd was restored from a backup")
        ended = self._clock.now()
        if ended - started < _SHORTEST_WATCH:
            await self._retries.wait()
        else:
            self._confirm(ended)  # a server that ends a watch in order has sent all of it
            self._retries.reset()
        self._doubted = ended - started < lasts - _EARLY  # as a server does that ends
        if ended - self._listed > RELIST * random.uniform(0.8, 1.2):  # noqa: S311
            self._must_list = True

    def _take(self, line: bytes) -> None:
        try:
            event = _EVENT.decode(line)
        except UNREADABLE as error:
            return self._skip([(Metadata(), str(error))])
        match event.type:
            case "ERROR":
                raise _error(event.object)
            case "ADDED" | "MODIFIED" | "DELETED":
                self._change(event)
            case "BOOKMARK":
                version = meta_of(event.object).resource_version or self._version
                if is_older(version, than=self._version):
                    raise ApiError(410, "Expired", f"a bookmark of {version} came after {self._version}")
                self._version = version
            case _:  # none that is known; the next ones may be
                pass
        self._retries.reset()
        return self._confirm(self._clock.now())

    def _change(self, event: WatchEvent) -> None:
        try:
            version, item = self._feed.codec.one(event.object)
        except UNREADABLE as error:
            meta = meta_of(event.object)
            version = meta.resource_version
            self._skip([(meta, str(error))])
        else:
            if event.type == "DELETED":
                self._feed.sink.remove(item)
            else:
                self._feed.sink.put(item, listed=False)
        self._version = version or self._version


def _error(raw: Raw) -> ApiError:
    """The Status of an ERROR event. Whatever it says, this watch is of no more use, so it counts as expired."""
    try:
        status = _STATUS.decode(raw)
    except UNREADABLE:
        status = Status(reason="Unreadable", message="an ERROR event that cannot be read")
    return ApiError(410, status.reason, status.message)
