"""Runs decisions where a plugin that blocks cannot stop the daemon.

Knows threads; knows nothing of what is decided. A thread stuck in a plugin cannot be ended, only left behind: its
policy is named and held, and a fresh thread goes on with the rest.
"""

import asyncio
import contextlib
import logging
import queue
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from msgspec.structs import replace

from elasticd.base.text import raised
from elasticd.decision.decide import Case, decide, held
from elasticd.decision.pool import asking as pool_asking
from elasticd.decision.pool.asking import PoolCase
from elasticd.decision.pool.eviction_order import LineCase, Queue, gives_way
from elasticd.decision.pool.moves import plan_moves
from elasticd.decision.pool.plan import plan, stuck
from elasticd.decision.workload import asking
from elasticd.decision.workload.bands import Bands, bands_of
from elasticd.model.moves import MovesPlan
from elasticd.model.placement import PodDecision
from elasticd.model.records import Decision
from elasticd.model.workload import NEVER, Failure
from elasticd.registry import Hooks

logger = logging.getLogger(__name__)

Plan = tuple[PodDecision, ...]


class _Named(Protocol):
    @property
    def name(self) -> str: ...


class _Governed(Protocol):
    @property
    def policy(self) -> _Named: ...


C = TypeVar("C", bound=_Governed)
R = TypeVar("R")

Judge = Callable[[Sequence[Case]], Awaitable[list["Decision | str"]]]
"""Decisions in the order of the cases; a string instead says where the case got stuck."""


async def at_once(cases: Sequence[Case]) -> list[Decision | str]:
    """Decide here and now: for virtual time, where nothing else waits."""
    return [decide(case) for case in cases]


def _decided(case: Case) -> Decision:
    try:
        return decide(case)
    except BaseException as error:  # our own mistake: it must not end the thread that others wait for
        message = raised(error)
        workload = case.observation.workload
        decision = held(case.policy, workload.ref, case.observation.at, "PluginFailed", message, workload.replicas)
        return replace(decision, uid=workload.uid, failures=(Failure("elasticd", "", message),))


def _planned(case: PoolCase) -> Plan:
    try:
        return plan(case)
    except BaseException as error:
        return stuck(case, "PluginFailed", raised(error))


def _moves_planned(case: PoolCase) -> MovesPlan:
    try:
        return plan_moves(case)
    except BaseException as error:
        logger.exception("policy %s: moves cannot be planned: %s", case.policy.name, raised(error))
        return MovesPlan(failures=(Failure("elasticd", "", raised(error)),))


class _Batch(Generic[C, R]):
    """Cases on their way through a thread, and how far it has come."""

    def __init__(self, work: Callable[[C], R], cases: Sequence[C], loop: asyncio.AbstractEventLoop) -> None:
        self._work, self._cases, self._loop = work, cases, loop
        self.decisions: list[R] = []
        self.done = asyncio.Event()
        self.abandoned = False

    def run(self) -> None:
        for case in self._cases:
            decision = self._work(case)
            if self.abandoned:
                return
            self.decisions.append(decision)
        with contextlib.suppress(RuntimeError):  # the daemon has stopped meanwhile
            self._loop.call_soon_threadsafe(self.done.set)


class ThreadWorker(Generic[C, R]):
    """One worker thread at a time; `patience` is the seconds that one case may take. `work` must not raise."""

    def __init__(self, work: Callable[[C], R], patience: float) -> None:
        self._work, self._patience = work, patience
        self._inbox, self._thread = self._hire()

    @staticmethod
    def _hire() -> tuple["queue.SimpleQueue[_Batch[C, R] | None]", threading.Thread]:
        inbox: queue.SimpleQueue[_Batch[C, R] | None] = queue.SimpleQueue()

        def work() -> None:
            while (batch := inbox.get()) is not None:
                batch.run()

        thread = threading.Thread(target=work, name="judge", daemon=True)
        thread.start()
        return inbox, thread

    async def __call__(self, cases: Sequence[C]) -> list[R | str]:
        """Decide all cases; for one that does not come back, and what else its policy has, where it is stuck."""
        found: dict[int, R | str] = {}
        waiting = list(range(len(cases)))
        while waiting:
            batch = _Batch(self._work, [cases[index] for index in waiting], asyncio.get_running_loop())
            self._inbox.put(batch)
            at = await self._came_to(batch)
            where = self._leave(batch) if at < len(waiting) else ""
            done = list(batch.decisions)
            found.update(zip(waiting, done, strict=False))
            waiting = waiting[len(done) :]
            if where and len(done) == at:  # else it came on at the last moment
                policy = cases[waiting[0]].policy.name
                found.update({index: where for index in waiting if cases[index].policy.name == policy})
                waiting = [index for index in waiting if index not in found]
        return [found[index] for index in range(len(cases))]

    async def _came_to(self, batch: _Batch[C, R]) -> int:
        """Wait as long as it comes on; how many cases it has decided. Two waits in a row must pass without any, since
        the first is over at once where the whole process had been stopped."""
        quiet = before = 0
        while quiet < 2:
            try:
                async with asyncio.timeout(self._patience / 2):
                    await batch.done.wait()
                    return len(batch.decisions)
            except TimeoutError:
                now = len(batch.decisions)
                quiet, before = quiet + 1 if now == before else 0, now
        return before

    def _leave(self, batch: _Batch[C, R]) -> str:
        """Go on with a fresh thread; the old one ends as soon as it comes back. Gives where it is stuck."""
        batch.abandoned = True
        where = _where(self._thread)
        self._inbox.put(None)
        self._inbox, self._thread = self._hire()
        return where


class DecisionWorker(ThreadWorker[Case, Decision]):
    """Decides about workloads."""

    def __init__(self, patience: float = 2.0) -> None:
        super().__init__(_decided, patience)


def _banded(case: Case) -> Bands:
    try:
        return bands_of(case)
    except BaseException as error:
        logger.warning("policy %s: its bands cannot be told: %s", case.policy.name, raised(error))
        return dict.fromkeys(case.observation.series, NEVER)


class BandWorker(ThreadWorker[Case, Bands]):
    """Asks strategies within which bounds what they said stands."""

    def __init__(self, patience: float = 2.0) -> None:
        super().__init__(_banded, patience)


class PlanWorker(ThreadWorker[PoolCase, Plan]):
    """Plans for pools. A search may take its time."""

    def __init__(self, patience: float = 30.0) -> None:
        super().__init__(_planned, patience)


class MovesWorker(ThreadWorker[PoolCase, MovesPlan]):
    """Plans moves for pools."""

    def __init__(self, patience: float = 30.0) -> None:
        super().__init__(_moves_planned, patience)


def _lined_up(asked: LineCase) -> Queue:
    try:
        return gives_way(asked)
    except BaseException as error:
        return Queue(failures=(Failure("elasticd", "explain_victims", raised(error)),))


class EvictionOrderWorker(ThreadWorker[LineCase, Queue]):
    """Asks who would have to give way on a node. A person waits for it."""

    def __init__(self, patience: float = 2.0) -> None:
        super().__init__(_lined_up, patience)


_READERS = frozenset({asking.__file__, pool_asking.__file__})
"""Where answers are looked at."""


def _where(thread: threading.Thread) -> str:
    """The innermost line that a thread is at in the plugin's own file."""
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001  # documented; there is no other way
    if frame is None:
        return "a plugin has ended its thread"
    frames = [frame]  # innermost first
    while frames[-1].f_back is not None:
        frames.append(frames[-1].f_back)
    ask = Hooks.ask.__code__
    called = next((index for index, frame in enumerate(frames) if frame.f_back and frame.f_back.f_code is ask), 0)
    # Where an answer is looked at, it is the answer that is stuck.
    inner = [frame for frame in frames[: called + 1] if frame.f_code.co_filename not in _READERS] or frames[:1]
    file = inner[-1].f_code.co_filename
    at = next(frame for frame in frames if frame.f_code.co_filename == file)
    return f"stuck in {Path(at.f_code.co_filename).name}:{at.f_lineno} {at.f_code.co_name}"
