"""Reads the scale subresource of custom resources, of which only that and the metadata are known.

Reads a scale when, and only when, its object changed, a few at a time; knows nothing of lists or watches.
"""

import asyncio
import logging
from collections.abc import Callable, Collection

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from elasticd.base.clock import Clock
from elasticd.base.errors import UNREADABLE
from elasticd.cluster.kubernetes.session import ApiError, Session
from elasticd.cluster.kubernetes.watch.discovery import Resource
from elasticd.cluster.kubernetes.watch.store import Key, KindStore
from elasticd.cluster.kubernetes.watch.watch import Retries
from elasticd.cluster.kubernetes.wire.convert import annotations_of, labels_of, owner_of, scaled_workload
from elasticd.cluster.kubernetes.wire.objects import Metadata, WireScale
from elasticd.ports.cluster import Kind

logger = logging.getLogger(__name__)

_READERS = 8
_LOOK_AGAIN = 30.0
_PASSING = (0, 429, 502, 503, 504)
"""Codes of errors after which a retry soon may help."""
_SCALE = msgspec.json.Decoder(WireScale)

Proved = Callable[[str], float]
"""When the server last proved current what it shows of a namespace."""


class _Unread(Struct, frozen=True):
    """An object whose scale is not known as of its newest metadata, when it last was, and why it cannot be read."""

    meta: Metadata
    current_to: float
    fault: str = ""


class ScaleSink:
    """Takes the metadata of objects of one kind, and puts workloads into the store once their scale was read.

    A scale that the server will not show leaves the workload as it was last seen, if ever.
    """

    def __init__(
        self, session: Session, clock: Clock, kind: Kind, resource: Resource, store: KindStore, proved: Proved
    ) -> None:
        self._session, self._clock = session, clock
        self._kind, self._resource, self._store, self._proved = kind, resource, store, proved
        self._read: dict[Key, str] = {}
        self._waiting: dict[Key, _Unread] = {}
        self._refused: dict[Key, _Unread] = {}
        self._queue: asyncio.Queue[Key] = asyncio.Queue()
        self.idle = asyncio.Event()
        """Set while every scale is known, or known to be refused."""
        self.idle.set()

    @property
    def fault(self) -> str:
        """Why a scale cannot be read, in one line; empty when none is refused."""
        return next(filter(None, (unread.fault for unread in self._refused.values())), "")

    def current_to(self, namespace: str, name: str) -> float | None:
        """When what is known of an object was last proved, while its scale is unread; None when it was read."""
        key = (namespace, name)
        unread = self._waiting.get(key) or self._refused.get(key)
        return unread.current_to if unread else None

    def put(self, item: Metadata, *, listed: bool, restored: bool = False) -> Key:
        key = (item.namespace, item.name)
        # A version may come again with another scale.
        if restored or self._read.get(key) != item.resource_version:
            self._ask(key, item)
        elif (workload := self._store.get(key)) is not None:
            # The scale was read before its event came, and stored with the labels of the event before.
            owner = owner_of(*self._kind, item)
            described = replace(workload, labels=labels_of(item), annotations=annotations_of(item), owner=owner)
            if described != workload:
                self._store.put(described, listed=True)
        return key

    def _ask(self, key: Key, meta: Metadata) -> None:
        if key not in self._waiting:
            self._queue.put_nowait(key)
        # It changed at some time after the last proof before the first change that has not been read.
        before = self.current_to(*key)
        self._waiting[key] = _Unread(meta, self._proved(key[0]) if before is None else before)
        self.idle.clear()

    def remove(self, item: Metadata) -> None:
        self._forget((item.namespace, item.name))

    def _forget(self, key: Key) -> None:
        self._settle(key)
        self._read.pop(key, None)
        self._refused.pop(key, None)
        self._store.drop(key)

    def _settle(self, key: Key) -> None:
        self._waiting.pop(key, None)
        if not self._waiting:
            self.idle.set()

    def retain(self, namespace: str, keep: Collection[Key]) -> None:
        # In the store there may be some from before the kind was served anew.
        self._store.retain(namespace, keep)
        for key in {*self._read, *self._waiting, *self._refused}:
            if namespace in ("", key[0]) and key not in keep:
                self._forget(key)

    async def run(self) -> None:
        """Read what waits, for ever."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(_READERS):
                tasks.create_task(self._reader())
            tasks.create_task(self._ask_again())

    async def _ask_again(self) -> None:
        """Queue the refused scales again from time to time: they may be allowed by now."""
        while True:
            await self._clock.sleep_until(self._clock.now() + _LOOK_AGAIN)
            for key, unread in self._refused.items():
                self._ask(key, unread.meta)

    async def _reader(self) -> None:
        retries = Retries(self._clock)
        while True:
            key = await self._queue.get()
            if key not in self._waiting:
                continue
            meta = self._waiting[key].meta
            try:
                await self._read_one(key, meta)
                retries.reset()
            except (ApiError, *UNREADABLE) as error:
                if isinstance(error, ApiError) and error.code in _PASSING:
                    await retries.wait(error.retry_after)
                else:
                    self._refuse(key, error)
            if key in self._waiting:
                self._queue.put_nowait(key)

    async def _read_one(self, key: Key, meta: Metadata) -> None:
        scale = _SCALE.decode(await self._session.send(self._resource.request("get", *key, "scale")))
        waiting = self._waiting.get(key)
        if waiting is None:
            return  # gone while it was read
        self._store.put(scaled_workload(*self._kind, waiting.meta, scale), listed=True)
        self._read[key] = scale.metadata.resource_version
        self._refused.pop(key, None)
        # A change that came meanwhile is read again, unless this answer already had it.
        if waiting.meta is meta or waiting.meta.resource_version == scale.metadata.resource_version:
            self._settle(key)

    def _refuse(self, key: Key, error: Exception) -> None:
        """Set aside an object whose scale the server refuses to show."""
        unread = self._waiting.get(key)
        if unread is None:
            return  # gone while it was asked for
        # Not found: its event is on the way, or it was in between two lives of its kind. Only the watch removes.
        missing = isinstance(error, ApiError) and error.code == 404
        fault = "" if missing else f"the scale of {'/'.join(key)} cannot be read: {error}"
        if fault and not self.fault:
            logger.warning("%s: %s", self._kind[1], fault)
        self._refused[key] = _Unread(unread.meta, unread.current_to, fault)
        self._read.pop(key, None)
        self._settle(key)
