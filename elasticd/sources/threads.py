"""Opens the sources of a daemon, those of third parties, and those that read files, each on an event loop in a thread
of its own, so that one that blocks, or raises whatever it likes, harms itself alone.

Knows threads and event loops; knows nothing of what is read. A thread that is stuck cannot be ended, only left behind.
What such a source asks of the daemon is forwarded to the daemon's event loop: the source waits for the loop, never the
loop for it. It gets what it may read, and nothing that can act.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence, ValuesView
from concurrent.futures import Future
from contextlib import AsyncExitStack, asynccontextmanager
from math import inf
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast, get_args

import msgspec
from msgspec.structs import replace

from elasticd.base.blocking import DaemonThreads
from elasticd.base.errors import ElasticdError
from elasticd.base.news import LastReported
from elasticd.base.stacks import frames_of, package_of, place
from elasticd.base.tasks import cancel
from elasticd.base.text import one_line, raised
from elasticd.model.workload import Readings
from elasticd.ports.cluster import Snapshot
from elasticd.ports.metrics_api import Followed, MetricQuery, MetricsApi, Pull
from elasticd.ports.source import Counts, Describes, Reader, Site, Source, Subject
from elasticd.sources.bounds import LONGEST_NAME, checked, plain

logger = logging.getLogger(__name__)

T = TypeVar("T")
P = ParamSpec("P")


def settle(future: "Future[T]", call: Callable[[], T]) -> None:
    """Give a future the result of a call, or what it raises: sys.exit in a plugin ends nothing but this."""
    try:
        future.set_result(call())
    except BaseException as error:
        future.set_exception(error)


PATIENCE = 2.0
"""Seconds that the daemon waits at its start for sources to be open."""

STUCK = 4.0
"""Seconds without a turn of its event loop after which a source is considered stuck."""

LONGEST = 30.0
"""Seconds that opening a source, or a read of it, may take, if it is a third party's: elasticd's own have their own
time limits. A read that takes longer is cancelled."""

CLOSING = 3.0
"""Seconds that sources have to close when the daemon ends, all together."""

LEFT_BEHIND = 3
"""Threads of one source that may be stuck at one time."""

MOST_NEWS = 10_000
"""Subjects that a source may wake the daemon for in one turn of its loop. Others wait for their own interval."""

_SUBJECTS = get_args(Subject)


def is_strange(source: Source, beside: Mapping[str, Source]) -> bool:
    """Whether a source is third-party, or made of one that is."""
    if type(source).__module__.partition(".")[0] != __name__.partition(".")[0]:
        return True
    origins = [beside[label] for label in (source.draws(), source.derives()) if label is not None and label in beside]
    return any(is_strange(origin, beside) for origin in origins if origin is not source)


def may_block(source: Source, beside: Mapping[str, Source]) -> bool:
    """Whether a source gets a thread of its own: strange ones, and those that read a file again and again, as of a
    token, since its mount may not answer."""
    origins = [beside[label] for label in (source.draws(), source.derives()) if label is not None and label in beside]
    is_own = is_strange(source, beside) or _names_file(msgspec.to_builtins(source))
    return is_own or any(may_block(origin, beside) for origin in origins if origin is not source)


def _names_file(options: object) -> bool:
    if isinstance(options, dict):
        return any((key.endswith("_file") and entry) or _names_file(entry) for key, entry in options.items())
    return isinstance(options, list | tuple) and any(map(_names_file, options))


class Opening:
    """One thread, in which a source is opened and read until it ends.

    Futures of the daemon's loop hold what comes of it: `opened`, `ended`, and `answer` of the last read, None where
    there was none. `trouble` says why it ended."""

    def __init__(self, source: Source, site: Site, most: int) -> None:
        self._source, self._most = source, most
        self._daemon = asyncio.get_running_loop()
        self._site = remote(site, self._daemon)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reader: Reader | None = None
        self._life: asyncio.Task[Any] | None = None
        self._reading: asyncio.Task[Any] | None = None
        self._leave = asyncio.Event()
        self._reported = LastReported("")
        self._given_up = False
        self.opened: asyncio.Future[None] = self._daemon.create_future()
        self.ended: asyncio.Future[None] = self._daemon.create_future()
        self.answer: asyncio.Future[Readings] | None = None
        self.turns = 0
        self.details: object = None
        self.trouble = ""
        self.mistake: ElasticdError | None = None
        self.thread = threading.Thread(target=self._run, name=f"source {source.label}", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        """The thread's own work. Whatever the source raises ends nothing but this thread."""
        try:
            with asyncio.Runner() as runner:
                runner.run(self._run_source())
        except BaseException as error:
            self.mistake = error if isinstance(error, ElasticdError) else None
            self.trouble = f"{'has ended' if self.opened.done() else 'cannot be opened'}: {raised(error)}"
        else:
            self.trouble = "has ended"
        self._tell(self.ended, None)

    async def _run_source(self) -> None:
        loop, self._life = asyncio.get_running_loop(), asyncio.current_task()
        loop.set_default_executor(DaemonThreads())
        loop.set_exception_handler(self._complain)
        self._loop = loop
        async with self._source.open(self._site) as reader:
            self._reader = reader
            self._tell(self.opened, None)
            await self._leave.wait()

    def _complain(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log that a task or callback of the source's own has failed, once for each kind of error."""
        error = context.get("exception")
        problem = raised(error) if isinstance(error, BaseException) else one_line(str(context.get("message", "")))
        if self._reported.changed(problem.partition(":")[0]):
            logger.warning("source %s: a task of its own failed: %s", self._source.label, problem)

    def _tell(self, future: "asyncio.Future[T]", result: T) -> None:
        def tell() -> None:
            if not future.done():
                future.set_result(result)

        with contextlib.suppress(RuntimeError):  # the daemon has ended meanwhile
            self._daemon.call_soon_threadsafe(tell)

    def _call_soon(self, callback: Callable[..., object], *arguments: object) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended meanwhile
                self._loop.call_soon_threadsafe(callback, *arguments)

    def read(self, now: float) -> "asyncio.Future[Readings]":
        """Begin a read, once it is open and the one before has ended."""
        answer: asyncio.Future[Readings] = self._daemon.create_future()
        self.answer, self._given_up = answer, False

        def begin() -> None:
            self._reading = asyncio.ensure_future(self._read(now, answer))

        self._call_soon(begin)
        return answer

    async def _read(self, now: float, answer: "asyncio.Future[Readings]") -> None:
        label, reader = self._source.label, self._reader
        readings: Any
        try:
            readings = await reader.read(now)  # type: ignore[union-attr]  # a reader that is None is reported as such
        except BaseException as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task and task.cancelling() and not self._given_up:
                raise  # its loop ends, which is reported instead
            readings = Readings(label, now, error=raised(error))
        self.details = _details_of(reader)
        self._tell(answer, checked(readings, label, now, self._most))

    def give_up(self) -> None:
        """Cancel the read that is under way."""
        self._given_up = True
        if self._reading is not None:
            self._call_soon(self._reading.cancel)

    def turn(self) -> None:
        """Ask the source's loop for a turn: `turns` grows unless it is blocked."""
        self._call_soon(self._count_turn)

    def _count_turn(self) -> None:
        self.turns += 1

    def leave(self) -> None:
        """Ask the thread to close the source."""
        if self.opened.done():
            self._call_soon(self._leave.set)
        elif self._life is not None:
            self._call_soon(self._life.cancel)

    def where(self) -> str:
        """The innermost line that the thread is at in the source's own package; empty where it is elsewhere."""
        package = type(self._source).__module__.partition(".")[0]
        frames = [frame for frame in frames_of(self.thread) if frame.f_globals.get("__name__") != __name__]
        return next((place(frame) for frame in frames if package_of(frame) == package), "")


def _details_of(reader: object) -> object:
    try:
        details = reader.describe() if isinstance(reader, Describes) else None
        return plain(details, details.counts() if isinstance(details, Counts) else None)
    except BaseException as error:
        return {"describe": raised(error)}


class ThreadReader:
    """The reader of a source that may block: reads go to its thread, and return within `longest` seconds, or as soon as
    the thread is known to be stuck.

    A stuck source is not asked again until it recovers or `reopen` is called. One whose thread has ended is opened
    again by the read after the one that reported it."""

    def __init__(self, source: Source, site: Site, most: int, longest: float = LONGEST) -> None:
        self._source, self._site, self._most, self._longest = source, site, most, longest
        self._stuck: list[Opening] = []
        self._opening = Opening(source, site, most)
        self._trouble = ""

    async def begun(self, patience: float) -> str:
        """Wait until it is open. Returns why it is not, if so. ElasticdError: what only a person can correct."""
        self._trouble = await _await_open(self._opening, patience)
        if self._opening.mistake is not None:
            raise self._opening.mistake
        return self._trouble

    async def read(self, now: float) -> Readings:
        """What it answers, or what is wrong with it."""
        if self._opening.ended.done() and self._trouble == self._opening.trouble:
            self._opening = Opening(self._source, self._site, self._most)
        opening = self._opening
        trouble = await _await_open(opening, self._longest) or await _await_answer(opening, now, self._longest)
        if opening is not self._opening:  # it was reopened meanwhile
            return await self.read(now)
        self._trouble = trouble
        if self._trouble or opening.answer is None:
            return Readings(self._source.label, now, error=self._trouble)
        answer, opening.answer = opening.answer, None
        return answer.result()

    def describe(self) -> object:
        """What it said of itself at its last read."""
        return self._opening.details

    def reopen(self) -> bool:
        """Start again in a fresh thread if the source is stuck or not open yet. Returns whether it did."""
        if not self._trouble or self._opening.ended.done():
            return False
        self._stuck = [opening for opening in self._stuck if opening.thread.is_alive()]
        if len(self._stuck) >= LEFT_BEHIND:
            message = "%d threads of it are stuck, so that only a restart opens it again"
            logger.warning("source %s: " + message, self._source.label, len(self._stuck) + 1)  # noqa: G003
            return False
        self._opening.leave()
        self._stuck.append(self._opening)
        self._opening, self._trouble = Opening(self._source, self._site, self._most), ""
        return True

    def leave(self) -> "asyncio.Future[None] | None":
        """Ask the source to close. Returns a future that is done when it has, None for a stuck one."""
        self._opening.leave()
        return None if self._trouble else self._opening.ended


async def closed(readers: Sequence[ThreadReader]) -> None:
    """Close all of them, waiting at most CLOSING seconds; stuck ones are left behind."""
    if ends := [ended for reader in readers if (ended := reader.leave()) is not None]:
        await asyncio.wait(ends, timeout=CLOSING)


async def _await_open(opening: Opening, longest: float) -> str:
    """Wait until the source is open. Returns why it is not, empty if it is."""
    if opening.ended.done():
        return opening.trouble
    trouble = await _wait_for(opening, opening.opened, longest)
    return trouble if not trouble or opening.ended.done() else f"is not open: {trouble}"


async def _await_answer(opening: Opening, now: float, longest: float) -> str:
    """Wait for the answer to a read, or to an earlier one. Returns why there is none, empty if there is one."""
    if (late := opening.answer) is not None:
        trouble = await _wait_for(opening, late, longest)
        if trouble or not late.result().error:
            return trouble
    trouble = await _wait_for(opening, opening.read(now), longest)
    if trouble:
        opening.give_up()
    return trouble


async def _wait_for(opening: Opening, awaited: "asyncio.Future[Any]", longest: float) -> str:
    """Wait for a future that the source's thread sets, for as long as its loop turns. Returns why it is not set, empty
    if it is. A loop counts as stuck after two waits without a turn: where the whole process had been stopped, the first
    one ends at once."""
    clock = asyncio.get_running_loop().time
    begun, quiet = clock(), 0
    while True:
        before = opening.turns
        opening.turn()
        wait = min(STUCK / 2, max(0.0, begun + longest - clock()))
        await asyncio.wait({awaited, opening.ended}, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
        if awaited.done():
            return ""
        if opening.ended.done():
            return opening.trouble
        quiet = quiet + 1 if opening.turns == before else 0
        at = opening.where()
        if quiet >= 2 and at:
            return f"stuck in {at}"
        if quiet >= 2:
            return f"its event loop has not turned for {STUCK:g} s"
        if clock() >= begun + longest:
            return f"no answer within {longest:g} s{f', at {at}' if at else ''}"


class Opened(NamedTuple):
    """A source, its reader, and why it cannot be read yet; empty where it can."""

    source: Source
    reader: Reader
    trouble: str = ""


@asynccontextmanager
async def readers(
    sources: Sequence[Source], site_of: Callable[[Source], Site], most: int, *, threads: bool
) -> AsyncIterator[list[Opened]]:
    """A reader of each source, opened at its site, for as long as the block runs.

    `most`: samples that an answer may have. `threads`: whether those that may block run in threads of their own; not in
    virtual time, which stands still meanwhile. Others of elasticd's own share the daemon's loop, and with it its
    connections to the cluster: they are tested never to block.
    """
    async with AsyncExitStack() as stack:
        beside = {source.label: source for source in sources}
        strange = {source.label for source in sources if is_strange(source, beside)}
        in_threads = {
            source.label: ThreadReader(source, site_of(source), most, LONGEST if source.label in strange else inf)
            for source in sources
            if threads and may_block(source, beside)
        }
        stack.push_async_callback(closed, list(in_threads.values()))
        troubles = await asyncio.gather(*[reader.begun(PATIENCE) for reader in in_threads.values()])
        by_label = dict(zip(in_threads, troubles, strict=True))
        openings = []
        for source in sources:
            if source.label in in_threads:
                openings.append(Opened(source, in_threads[source.label], by_label[source.label]))
                continue
            reader = await stack.enter_async_context(source.open(site_of(source)))
            openings.append(
                Opened(source, CheckedReader(reader, source.label, most) if source.label in strange else reader)
            )
        yield openings


class CheckedReader:
    """A third-party reader on the daemon's own event loop, as in virtual time."""

    def __init__(self, reader: Reader, source: str, most: int) -> None:
        self._reader, self._source, self._most = reader, source, most

    async def read(self, now: float) -> Readings:
        """What it answers, or what is wrong with it."""
        try:
            answer: object = await self._reader.read(now)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # sys.exit in a source is only that source's failure
            answer = Readings(self._source, now, error=raised(error))
        return checked(answer, self._source, now, self._most)

    def describe(self) -> object:
        return self._reader.describe() if isinstance(self._reader, Describes) else None


def remote(site: Site, loop: asyncio.AbstractEventLoop) -> Site:
    """The site, for use in another thread than that of the loop."""
    questions = _Questions(loop)
    return replace(
        site,
        metrics=_Metrics(site.metrics, questions),
        wake=_WakeQueue(site.wake, loop),
        governed=lambda: questions.ask(site.governed),
        snapshot=lambda: questions.snapshot(site),
        since=lambda: questions.ask(site.since),
    )


class _Questions:
    """Puts questions to an event loop from another thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def ask(self, question: Callable[[], T]) -> T:
        """The answer; this thread waits for it."""
        answer: Future[T] = Future()
        self._loop.call_soon_threadsafe(settle, answer, question)
        return answer.result()

    def snapshot(self, site: Site) -> Snapshot | None:
        """The daemon's snapshot, to be read on its loop."""
        snapshot = self.ask(site.snapshot)
        return None if snapshot is None else cast(Snapshot, _RemoteSnapshot(snapshot, self))

    def awaited(self, call: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
        """The same call for another thread: it is awaited on that loop."""

        async def begin(*args: P.args, **kwargs: P.kwargs) -> T:
            return await call(*args, **kwargs)

        async def forward(*args: P.args, **kwargs: P.kwargs) -> T:
            future = asyncio.run_coroutine_threadsafe(begin(*args, **kwargs), self._loop)
            return await asyncio.wrap_future(future)

        return forward


class _Metrics:
    """The cluster's metrics APIs."""

    def __init__(self, cluster: MetricsApi, questions: _Questions) -> None:
        self._cluster, self._questions, awaited = cluster, questions, questions.awaited
        self.usage, self.node_usage = awaited(cluster.usage), awaited(cluster.node_usage)
        self.summary = awaited(cluster.summary)

    async def metrics(self, queries: Sequence[MetricQuery], now: float) -> Readings:
        # Copied on this thread, which owns them.
        return await self._questions.awaited(self._cluster.metrics)(tuple(queries), now)

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

        following = asyncio.ensure_future(self._questions.awaited(follow)())
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
