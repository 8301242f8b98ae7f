"""Kubernetes Events about workloads, folded and never in the way.

Knows how an Event is written and which are the same; knows nothing of why. An Event that cannot be afforded is
dropped, and counted: the journal is the record, Events are a courtesy.
"""

import asyncio
import contextlib
from datetime import UTC, datetime

from msgspec import Struct

from elasticd.base.clock import Clock
from elasticd.base.tasks import cancel
from elasticd.cluster.kubernetes.session import ApiError, Session, encode
from elasticd.cluster.kubernetes.watch.discovery import EVENTS
from elasticd.cluster.kubernetes.write.answers import refused_by, spent
from elasticd.cluster.kubernetes.write.budget import Budget
from elasticd.model.actions import Announce, Answer, Create, Scale

COMPONENT = "elasticd"
_FOLD_SECONDS = 600.0
_REMEMBERED = 4096
_UNDER_WAY = 64
_AT_ONCE = 8
"""Events that are written at a time: a connection takes a quarter of a megabyte, and a thousand pods that find no room
have an Event each."""
_GIVES_WAY = 5.0
"""Seconds at most for which an Event lets scales go first."""

_LONGEST_MESSAGE = 1024


class _Sent(Struct):
    """An Event that was written, so that the next like it is only counted."""

    name: str
    last: float
    count: int


class Events:
    """Writes Events."""

    def __init__(self, session: Session, budget: Budget, clock: Clock, identity: str) -> None:
        self._session, self._budget, self._clock, self._identity = session, budget, clock, identity
        self._sent: dict[Announce, _Sent] = {}
        self._tasks: set[asyncio.Task[Answer]] = set()
        self._places = asyncio.Semaphore(_AT_ONCE)
        self.dropped = 0

    def after_scale(self, action: Scale | Create, answer: Answer) -> None:
        """Tell of a scaling that was carried out or failed, in the background."""
        size = f"New size: {action.after}; reason: {action.reason}"
        if answer.result == "done":
            self.begin(Announce(action.workload, action.uid, "SuccessfulRescale", size))
        elif answer.result == "failed":
            text = f"{size}; error: {answer.message}"
            self.begin(Announce(action.workload, action.uid, "FailedRescale", text, warning=True))

    def begin(self, announce: Announce) -> None:
        """Write an Event in the background; drop it while too many are being written."""
        if len(self._tasks) >= _UNDER_WAY:
            self.dropped += 1
            return
        task = asyncio.create_task(self.announce(announce))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=1.0)
            await cancel(*late)

    async def announce(self, announce: Announce) -> Answer:
        """Write an Event, or count one more of an Event of the last ten minutes."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GIVES_WAY):
                await self._budget.calm.wait()
        if not self._budget.spare():
            self.dropped += 1
            return spent("dropped: the write budget is short")
        async with self._places:
            return await self._write(announce)

    async def _write(self, announce: Announce) -> Answer:
        now = self._clock.now()
        sent = self._sent.get(announce)
        try:
            if sent is not None and now - sent.last < _FOLD_SECONDS:
                await self._count(announce, sent, now)
            else:
                await self._create(announce, now)
        except ApiError as error:
            self._sent.pop(announce, None)
            self._budget.pause(error.quiet)
            return refused_by(error)
        return Answer("done", 200)

    async def _create(self, announce: Announce, now: float) -> None:
        ref = announce.workload
        # The name is that of client-go: the object's, and the time.
        name = f"{ref.name[:200]}.{int(now * 1e9):x}"
        self._remember(announce, _Sent(name, now, 1))
        body = encode(self._manifest(announce, name, _stamp(now)))
        await self._session.send(EVENTS.request("create", _namespace(announce), body=body))

    async def _count(self, announce: Announce, sent: _Sent, now: float) -> None:
        sent.count, sent.last = sent.count + 1, now
        body = encode({"count": sent.count, "lastTimestamp": _stamp(now)})
        try:
            await self._session.send(EVENTS.request("patch", _namespace(announce), sent.name, body=body))
        except ApiError as error:
            if error.code != 404:
                raise
            await self._create(announce, now)  # Events expire

    def _remember(self, announce: Announce, sent: _Sent) -> None:
        self._sent.pop(announce, None)
        if len(self._sent) >= _REMEMBERED:
            del self._sent[next(iter(self._sent))]
        self._sent[announce] = sent

    def _manifest(self, announce: Announce, name: str, stamp: str) -> dict[str, object]:
        ref = announce.workload
        return {
            "metadata": {"name": name, "namespace": _namespace(announce)},
            "involvedObject": {
                "apiVersion": ref.api_version,
                "kind": ref.kind,
                "namespace": ref.namespace,
                "name": ref.name,
                "uid": announce.uid,
            },
            "reason": announce.reason,
            "message": announce.message[:_LONGEST_MESSAGE],
            "type": "Warning" if announce.warning else "Normal",
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": self._identity[:128],
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
        }


def _namespace(announce: Announce) -> str:
    return announce.workload.namespace or "default"


def _stamp(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
