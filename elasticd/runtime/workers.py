"""Runs decisions in worker threads, so that a plugin that blocks cannot stop the daemon.

Knows threads; knows nothing of what is decided. A thread stuck in a plugin cannot be ended, only abandoned: its
policy is named and held, and a fresh thread continues with the other cases.
"""

import asyncio
import contextlib
import inspect
import logging
import queue
import threading
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

from elasticd.base.stacks import frames_of, place
from elasticd.base.text import raised
from elasticd.decision.decide import Case, Evaluated, evaluate, hold_failed
from elasticd.decision.pool.asking import PoolCase
from elasticd.decision.pool.moves import plan_moves
from elasticd.decision.pool.plan import plan, stuck
from elasticd.decision.pool.preemption import NodeOrder, eviction_order
from elasticd.decision.screen import Bands, bands_of
from elasticd.model.moves import MovesPlan
from elasticd.model.placement import PodDecision
from elasticd.model.workload import NEVER, Failure
from elasticd.registry import Hooks

logger = logging.getLogger(__name__)


C = TypeVar("C", bound=Case | PoolCase)
R = TypeVar("R")

Worker = Callable[[Sequence[C]], Awaitable[list[R | str]]]
"""Works on cases, and returns the results in their order; a string instead of a result says where the case got
stuck."""

Decided = Evaluated | str | asyncio.Future[Evaluated | str]
"""What came of a case, or will."""

Decider = Callable[[Sequence[Case]], Awaitable[Sequence[Decided]]]
"""The same for decisions about workloads; of what takes long it returns a future."""

HURRY = 0.05
"""Seconds for which decisions wait for strategies of third parties that other decisions are made by."""


def at_once(work: Callable[[C], R]) -> Worker[C, R]:
    """Work here and now: for virtual time, where nothing else waits."""

    async def work_on(cases: Sequence[C]) -> list[R | str]:
        return [work(case) for case in cases]

    return work_on


class _Batch(Generic[C, R]):
    """Cases for a thread, and the results that it has so far."""

    def __init__(self, work: Callable[[C], R], cases: Sequence[C]) -> None:
        self._work, self._cases, self._loop = work, cases, asyncio.get_running_loop()
        self.results: list[R] = []
        self.done = asyncio.Event()
        self.abandoned = False

    def run(self) -> None:
        for case in self._cases:
            result = self._work(case)
            if self.abandoned:
                return
            self.results.append(result)
        with contextlib.suppress(RuntimeError):  # the daemon has stopped meanwhile
            self._loop.call_soon_threadsafe(self.done.set)


class ThreadWorker(Generic[C, R]):
    """One worker thread at a time; `patience` is the seconds that one case may take.

    `failed` turns the error of a case into its result: the error is a mistake in elasticd itself, and must not end the
    thread that other cases wait for."""

    def __init__(self, work: Callable[[C], R], failed: Callable[[C, str], R], patience: float) -> None:
        def work_safely(case: C) -> R:
            try:
                return work(case)
            except BaseException as error:
                return failed(case, raised(error))

        self._work, self._patience = work_safely, patience
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
        """Work on all cases; for one that blocks, and the others of its policy, return the line at which it does."""
        results: dict[int, R | str] = {}
        waiting = list(range(len(cases)))
        while waiting:
            batch = _Batch(self._work, [cases[index] for index in waiting])
            self._inbox.put(batch)
            position = await self._wait_for_progress(batch)
            stuck_at = self._abandon(batch) if position < len(waiting) else ""
            finished = list(batch.results)
            results.update(zip(waiting, finished, strict=False))
            waiting = waiting[len(finished) :]
            if stuck_at and len(finished) == position:  # else it came back at the last moment
                policy = cases[waiting[0]].policy.name
                results.update({index: stuck_at for index in waiting if cases[index].policy.name == policy})
                waiting = [index for index in waiting if index not in results]
        return [results[index] for index in range(len(cases))]

    async def _wait_for_progress(self, batch: _Batch[C, R]) -> int:
        """Wait while it makes progress; returns how many results it has. It is stuck after two waits in a row
        without progress, since one wait is over at once after the whole process had been stopped."""
        quiet = last_count = 0
        while quiet < 2:
            try:
                async with asyncio.timeout(self._patience / 2):
                    await batch.done.wait()
                    return len(batch.results)
            except TimeoutError:
                count = len(batch.results)
                quiet, last_count = quiet + 1 if count == last_count else 0, count
        return last_count

    def _abandon(self, batch: _Batch[C, R]) -> str:
        """Start a fresh thread; the old one ends as soon as it comes back. Returns where that is stuck."""
        batch.abandoned = True
        stuck_at = _stuck_line(self._thread)
        self._inbox.put(None)
        self._inbox, self._thread = self._start_thread()
        return stuck_at


class SeparateWorker:
    """A worker for what elasticd brings, and one for each set of third parties whose strategies a policy has. Nobody
    waits longer than HURRY for a third party but its own policies."""

    def __init__(self, make: Callable[[], Worker[Case, Evaluated]]) -> None:
        self._make, self._own = make, make()
        self._others: dict[frozenset[str], tuple[asyncio.Lock, Worker[Case, Evaluated]]] = {}

    async def __call__(self, cases: Sequence[Case]) -> Sequence[Decided]:
        """Work on all cases."""
        groups: dict[frozenset[str], list[int]] = {}
        for index, case in enumerate(cases):
            groups.setdefault(case.hooks.third_parties, []).append(index)
        own = groups.pop(frozenset(), [])
        begun = {
            by: asyncio.create_task(self._work(by, [cases[index] for index in group])) for by, group in groups.items()
        }
        decided: dict[int, Decided] = {}
        if own:
            decided.update(zip(own, await self._own([cases[index] for index in own]), strict=True))
        if begun:
            await asyncio.wait(begun.values(), timeout=HURRY)
        for by, group in groups.items():
            decided.update((index, _nth(begun[by], place)) for place, index in enumerate(group))
        return [decided[index] for index in range(len(cases))]

    async def _work(self, by: frozenset[str], cases: Sequence[Case]) -> list[Evaluated | str]:
        """One batch of these third parties after the other: a batch that waits behind another is not stuck."""
        lock, worker = self._others.get(by) or self._others.setdefault(by, (asyncio.Lock(), self._make()))
        async with lock:
            return await worker(cases)


def _nth(batch: "asyncio.Task[list[Evaluated | str]]", place: int) -> Decided:
    """A result of a batch, or a future of it, which may be cancelled without the others."""

    async def wait() -> Evaluated | str:
        return (await asyncio.shield(batch))[place]

    return batch.result()[place] if batch.done() else asyncio.ensure_future(wait())


def _hold(case: Case, message: str) -> Evaluated:
    return hold_failed(case, message, (Failure("elasticd", "", message),))


def _no_bands(case: Case, message: str) -> Bands:
    logger.warning("policy %s: its steady bands cannot be computed: %s", case.policy.name, message)
    return dict.fromkeys(case.observation.series, NEVER)


def _no_plan(case: PoolCase, message: str) -> tuple[PodDecision, ...]:
    return stuck(case, "PluginFailed", message)


def _no_moves(case: PoolCase, message: str) -> MovesPlan:
    logger.exception("policy %s: moves cannot be planned: %s", case.policy.name, message)  # noqa: LOG004
    return MovesPlan(failures=(Failure("elasticd", "", message),))


def _no_order(_: PoolCase, message: str) -> NodeOrder:
    return NodeOrder(failures=(Failure("elasticd", "explain_victims", message),))


DecisionWorker = partial(ThreadWorker[Case, Evaluated], evaluate, _hold, patience=2.0)
BandWorker = partial(ThreadWorker[Case, Bands], bands_of, _no_bands, patience=2.0)
"""Asks strategies for the bands of samples within which their recommendation stands."""
PlanWorker = partial(ThreadWorker[PoolCase, tuple[PodDecision, ...]], plan, _no_plan, patience=30.0)
"""Plans for pools. A search may take long."""
MovesWorker = partial(ThreadWorker[PoolCase, MovesPlan], plan_moves, _no_moves, patience=30.0)
EvictionOrderWorker = partial(ThreadWorker[PoolCase, NodeOrder], eviction_order, _no_order, patience=2.0)
"""Finds the eviction order of a node. A person waits for it."""

_ANSWER_READERS = frozenset(map(inspect.getfile, (Case, PoolCase)))
"""Files that read a plugin's lazy answer: a thread stuck there is stuck in the answer, not in the file."""


def _stuck_line(thread: threading.Thread) -> str:
    """The line at which a thread is, in the file of the plugin that it is stuck in."""
    frames = frames_of(thread)
    if not frames:
        return "a plugin has ended its thread"
    ask_code = Hooks.ask.__code__
    called = next((index for index, frame in enumerate(frames) if frame.f_back and frame.f_back.f_code is ask_code), 0)
    # While an answer is checked, it is the answer that blocks.
    inner = [frame for frame in frames[: called + 1] if frame.f_code.co_filename not in _ANSWER_READERS] or frames[:1]
    file = inner[-1].f_code.co_filename
    return f"stuck in {place(next(frame for frame in frames if frame.f_code.co_filename == file))}"
