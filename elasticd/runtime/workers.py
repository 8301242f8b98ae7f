"""Runs decisions in worker threads, so that a plugin that blocks cannot stop the daemon.

Knows threads; knows nothing of what is decided. A thread stuck in a plugin cannot be ended, only abandoned: its
policy is named and held, and a fresh thread continues with the other cases.
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
"""Decides, in the order of the cases; a string instead of a decision says where the case got stuck."""


async def at_once(cases: Sequence[Case]) -> list[Decision | str]:
    """Decide here and now: for virtual time, where nothing else waits."""
    return [decide(case) for case in cases]


def _decide_safely(case: Case) -> Decision:
    try:
        return decide(case)
    except BaseException as error:  # a mistake in elasticd itself: it must not end the thread that other cases wait for
        message = raised(error)
        workload = case.observation.workload
        decision = held(case.policy, workload.ref, case.observation.at, "PluginFailed", message, workload.replicas)
        return replace(decision, uid=workload.uid, failures=(Failure("elasticd", "", message),))


def _plan_safely(case: PoolCase) -> Plan:
    try:
        return plan(case)
    except BaseException as error:
        return stuck(case, "PluginFailed", raised(error))


def _plan_moves_safely(case: PoolCase) -> MovesPlan:
    try:
        return plan_moves(case)
    except BaseException as error:
        logger.exception("policy %s: moves cannot be planned: %s", case.policy.name, raised(error))
        return MovesPlan(failures=(Failure("elasticd", "", raised(error)),))


class _Batch(Generic[C, R]):
    """Cases for a thread, and the decisions that it has made so far."""

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
        self._inbox, self._thread = self._start_thread()

    @staticmethod
    def _start_thread() -> tuple["queue.SimpleQueue[_Batch[C, R] | None]", threading.Thread]:
        inbox: queue.SimpleQueue[_Batch[C, R] | None] = queue.SimpleQueue()

        def work() -> None:
            while (batch := inbox.get()) is not None:
                batch.run()

        thread = threading.Thread(target=work, name="judge", daemon=True)
        thread.start()
        return inbox, thread

    async def __call__(self, cases: Sequence[C]) -> list[R | str]:
        """Decide all cases; one that does not come back, and the others of its policy, give where it is stuck."""
        results: dict[int, R | str] = {}
        waiting = list(range(len(cases)))
        while waiting:
            batch = _Batch(self._work, [cases[index] for index in waiting], asyncio.get_running_loop())
            self._inbox.put(batch)
            position = await self._wait_for_progress(batch)
            stuck_at = self._abandon(batch) if position < len(waiting) else ""
            finished = list(batch.decisions)
            results.update(zip(waiting, finished, strict=False))
            waiting = waiting[len(finished) :]
            if stuck_at and len(finished) == position:  # else it came back at the last moment
                policy = cases[waiting[0]].policy.name
                results.update({index: stuck_at for index in waiting if cases[index].policy.name == policy})
                waiting = [index for index in waiting if index not in results]
        return [results[index] for index in range(len(cases))]

    async def _wait_for_progress(self, batch: _Batch[C, R]) -> int:
        """Wait while it makes progress; returns how many cases it has decided. It is stuck after two waits in a row
        without progress, since one wait is over at once after the whole process had been stopped."""
        quiet = last_count = 0
        while quiet < 2:
            try:
                async with asyncio.timeout(self._patience / 2):
                    await batch.done.wait()
                    return len(batch.decisions)
            except TimeoutError:
                count = len(batch.decisions)
                quiet, last_count = quiet + 1 if count == last_count else 0, count
        return last_count

    def _abandon(self, batch: _Batch[C, R]) -> str:
        """Start a fresh thread; the old one ends as soon as it comes back. Returns where that is stuck."""
        batch.abandoned = True
        stuck_at = _stuck_line(self._thread)
        self._inbox.put(None)
        self._inbox, self._thread = self._start_thread()
        return stuck_at


class DecisionWorker(ThreadWorker[Case, Decision]):
    """Decides about workloads."""

    def __init__(self, patience: float = 2.0) -> None:
        super().__init__(_decide_safely, patience)


def _find_bands_safely(case: Case) -> Bands:
    try:
        return bands_of(case)
    except BaseException as error:
        logger.warning("policy %s: its bands cannot be told: %s", case.policy.name, raised(error))
        return dict.fromkeys(case.observation.series, NEVER)


class BandWorker(ThreadWorker[Case, Bands]):
    """Asks strategies for the bands of samples within which their recommendation stands."""

    def __init__(self, patience: float = 2.0) -> None:
        super().__init__(_find_bands_safely, patience)


class PlanWorker(ThreadWorker[PoolCase, Plan]):
    """Plans for pools. A search may take long."""

    def __init__(self, patience: float = 30.0) -> None:
        super().__init__(_plan_safely, patience)


class MovesWorker(ThreadWorker[PoolCase, MovesPlan]):
    """Plans moves for pools."""

    def __init__(self, patience: float = 30.0) -> None:
        super().__init__(_plan_moves_safely, patience)


def _order_safely(case: LineCase) -> Queue:
    try:
        return gives_way(case)
    except BaseException as error:
        return Queue(failures=(Failure("elasticd", "explain_victims", raised(error)),))


class EvictionOrderWorker(ThreadWorker[LineCase, Queue]):
    """Finds the eviction order of a node. A person waits for it."""

    def __init__(self, patience: float = 2.0) -> None:
        super().__init__(_order_safely, patience)


_ANSWER_READERS = frozenset({asking.__file__, pool_asking.__file__})
"""Files that read a plugin's lazy answer: a thread stuck there is stuck in the answer, not in the file."""


def _stuck_line(thread: threading.Thread) -> str:
    """The line at which a thread is, in the file of the plugin that it is stuck in."""
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001  # documented; there is no other way
    if frame is None:
        return "a plugin has ended its thread"
    frames = [frame]  # innermost first
    while frames[-1].f_back is not None:
        frames.append(frames[-1].f_back)
    ask_code = Hooks.ask.__code__
    called = next((index for index, frame in enumerate(frames) if frame.f_back and frame.f_back.f_code is ask_code), 0)
    # Where an answer is looked at, it is the answer that is stuck.
    inner = [frame for frame in frames[: called + 1] if frame.f_code.co_filename not in _ANSWER_READERS] or frames[:1]
    file = inner[-1].f_code.co_filename
    place = next(frame for frame in frames if frame.f_code.co_filename == file)
    return f"stuck in {Path(place.f_code.co_filename).name}:{place.f_lineno} {place.f_code.co_name}"
