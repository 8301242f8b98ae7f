"""The actions that a loop has under way, and what each comes to.

Knows tasks, a clock and a cluster's answers; knows nothing of why something is done, or of what is next.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Coroutine, Hashable, Iterable, KeysView
from typing import Generic, NamedTuple, TypeVar

from elasticd.base.clock import Clock
from elasticd.base.tasks import cancel
from elasticd.base.text import raised
from elasticd.journal import Journal
from elasticd.model.actions import Announce, Answer
from elasticd.model.listener import Listener, tell
from elasticd.model.placement import PodOutcome
from elasticd.model.records import Outcome
from elasticd.ports.cluster import Cluster

K = TypeVar("K", bound=Hashable)

STOPPED = "Stopped"
"""The reason of an answer that did not come before the daemon was stopped."""


class Actions(Generic[K]):
    """What a loop has begun, each in a task of its own: at most one action a key, and announcements. Not an
    asyncio.TaskGroup, in which one task that raises cancels all others (docs/decisions/008)."""

    def __init__(self) -> None:
        self._tasks: dict[K, asyncio.Task[None]] = {}
        self._announcing: set[asyncio.Task[None]] = set()

    def __contains__(self, key: object) -> bool:
        return key in self._tasks

    def __len__(self) -> int:
        return len(self._tasks) + len(self._announcing)

    def keys(self) -> KeysView[K]:
        return self._tasks.keys()

    def begin(self, key: K, name: str, action: Coroutine[object, object, None]) -> None:
        """Run an action in a task of this name. It must call `end`, however it goes."""
        self._tasks[key] = asyncio.create_task(action, name=name)

    def end(self, key: K) -> None:
        """Free the key. The action does so itself: a callback of its task would come after those that it wakes."""
        del self._tasks[key]

    def announce(self, cluster: Cluster, announcement: Announce, name: str) -> None:
        """Write an event. A failure is ignored: the journal has it too, and nothing waits for it."""
        task = asyncio.create_task(_announce(cluster, announcement), name=f"announce {name}")
        self._announcing.add(task)
        task.add_done_callback(self._announcing.discard)

    async def drain(self, patience: float | None = None) -> None:
        """Wait for all that is under way, at most `patience` seconds; what has no answer then is cancelled."""
        if self._tasks or self._announcing:
            tasks = [*self._tasks.values(), *self._announcing]
            await asyncio.wait(tasks, timeout=patience)
            await cancel(*tasks)


def record(outcome: Outcome | PodOutcome, journal: Journal, listeners: Iterable[Listener]) -> None:
    """Write an outcome into the journal and to disk, and tell the listeners."""
    journal.append(outcome)
    journal.flush()
    tell(listeners, outcome)


async def _announce(cluster: Cluster, announcement: Announce) -> None:
    with contextlib.suppress(Exception):
        await cluster.act(announcement)


class Attempt(NamedTuple):
    """A cluster's answer to an action, when it came, and after how many seconds."""

    answer: Answer
    at: float
    seconds: float


async def attempt(clock: Clock, action: Awaitable[Answer]) -> Attempt:
    """Wait for an answer. What raises has failed, and harms no other action; so has what is cancelled, because it may
    have been done."""
    started = clock.now()
    try:
        answer = await action
    except asyncio.CancelledError:
        answer = Answer("failed", message="elasticd stopped before the answer came", reason=STOPPED)
    except Exception as error:
        answer = Answer("failed", message=raised(error), reason=type(error).__name__)
    now = clock.now()
    return Attempt(answer, now, now - started)
