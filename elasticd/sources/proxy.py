"""What a source in another thread may ask of the daemon: each call is forwarded to the daemon's event loop.

Knows threads and event loops; knows nothing of what is asked. The source waits for the loop, never the loop for it. It
gets what it may read, and nothing that can act.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence, ValuesView
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast, get_args

from msgspec.structs import replace

from elasticd.base.tasks import cancel
from elasticd.model.workload import Readings
from elasticd.ports.cluster import Snapshot
from elasticd.ports.metrics_api import Followed, MetricQuery, MetricsApi, Part, Pull
from elasticd.ports.source import Site, Subject
from elasticd.sources.bounds import LONGEST_NAME

T = TypeVar("T")

_SUBJECTS = get_args(Subject)

MOST_NEWS = 10_000
"""Subjects that a source may wake the daemon for in one turn of its loop. Others wait for their own interval."""


def remote(site: Site, loop: asyncio.AbstractEventLoop) -> Site:
    """The site, for use in another thread than that of the loop."""
    questions = _Questions(loop)
    return replace(
        site,
        metrics=_Metrics(site.metrics, questions),
        wake=_WakeQueue(site.wake, loop),
        governed=lambda: questions.ask(site.governed),
        snapshot=lambda: questions.snapshot(site),
    )


class _Questions:
    """Puts questions to an event loop from another thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def ask(self, question: Callable[[], T]) -> T:
        """The answer; this thread waits for it."""
        answer: Future[T] = Future()

        def put() -> None:
            try:
                answer.set_result(question())
            except BaseException as error:
                answer.set_exception(error)

        self._loop.call_soon_threadsafe(put)
        return answer.result()

    def snapshot(self, site: Site) -> Snapshot | None:
        """The daemon's snapshot, to be read on its loop."""
        snapshot = self.ask(site.snapshot)
        return None if snapshot is None else cast(Snapshot, _RemoteSnapshot(snapshot, self))

    async def call(self, begin: Callable[[], Awaitable[T]]) -> T:
        """The result of something that must be awaited on that loop."""

        async def answer() -> T:
            return await begin()

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(answer(), self._loop))


class _Metrics:
    """The cluster's metrics APIs."""

    def __init__(self, cluster: MetricsApi, questions: _Questions) -> None:
        self._cluster, self._questions = cluster, questions

    async def usage(self, now: float) -> Readings:
        return await self._questions.call(lambda: self._cluster.usage(now))

    async def node_usage(self, now: float) -> Readings:
        return await self._questions.call(lambda: self._cluster.node_usage(now))

    async def metrics(self, queries: Sequence[MetricQuery], now: float) -> Readings:
        copied = tuple(queries)  # copied on this thread, which owns them
        return await self._questions.call(lambda: self._cluster.metrics(copied, now))

    async def summary(self, node: str, now: float, part: Part, within: float) -> Readings:
        return await self._questions.call(lambda: self._cluster.summary(node, now, part, within))

    @asynccontextmanager
    async def pulls(self, take: Callable[[Pull], None]) -> AsyncIterator[Followed]:
        """Follow pulls in a task of the daemon's loop, until the context ends; `take` is called on this loop."""
        own_loop, begun = asyncio.get_running_loop(), asyncio.Event()
        started: list[Followed] = []

        async def follow() -> None:
            async with self._cluster.pulls(lambda pull: _tell(own_loop, take, pull)) as followed:
                started.append(followed)
                _tell(own_loop, begun.set)
                await asyncio.Event().wait()

        following = asyncio.ensure_future(self._questions.call(follow))
        waiting = asyncio.create_task(begun.wait())
        try:
            await asyncio.wait([following, waiting], return_when=asyncio.FIRST_COMPLETED)
            if not started:
                await following  # raises what kept it from beginning
            yield started[0]
        finally:
            await cancel(following, waiting)


def _tell(loop: asyncio.AbstractEventLoop, callback: Callable[..., object], *arguments: object) -> None:
    """Call something on a source's loop, unless that is closed."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(callback, *arguments)


class _WakeQueue:
    """Collects the subjects to wake the daemon for, so that a million wakes a second cost one turn of its loop."""

    def __init__(self, wake: Callable[[Subject, str], None], loop: asyncio.AbstractEventLoop) -> None:
        self._wake, self._loop = wake, loop
        self._lock = threading.Lock()
        self._news: dict[tuple[Subject, str], None] = {}

    def __call__(self, subject: Subject, key: str) -> None:
        if not _is_news(subject, key):
            raise ValueError(f"must wake a {' or '.join(_SUBJECTS)} by its key, which is text")
        with self._lock:
            begun = bool(self._news)
            if len(self._news) < MOST_NEWS:
                self._news[subject, key] = None
        if not begun:
            self._loop.call_soon_threadsafe(self._flush)

    def _flush(self) -> None:
        with self._lock:
            news, self._news = self._news, {}
        for subject, key in news:
            self._wake(subject, key)


def _is_news(subject: object, key: object) -> bool:
    return subject in _SUBJECTS and isinstance(key, str) and len(key) <= LONGEST_NAME


class _RemoteSnapshot:
    """A snapshot that is only read on the loop it belongs to; results are handed out as copies."""

    def __init__(self, snapshot: Snapshot, questions: _Questions) -> None:
        self._snapshot, self._questions = snapshot, questions

    def __getattr__(self, name: str) -> Any:
        attribute = self._questions.ask(lambda: getattr(self._snapshot, name))
        return (
            (lambda *arguments: self._questions.ask(lambda: _copy(attribute(*arguments))))
            if callable(attribute)
            else attribute
        )


def _copy(value: Any) -> Any:
    """A copy of a snapshot's table, which may change with the cluster; any other value as it is."""
    if isinstance(value, Mapping):
        return dict(value)
    return tuple(value) if isinstance(value, ValuesView) else value
