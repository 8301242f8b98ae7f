"""Queries many endpoints at once, such as kubelets or pods: one that is slow or dead delays no other.

Knows which endpoints were queried and when they answered; knows nothing of the queries.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from itertools import islice
from math import inf
from typing import Generic, TypeVar

from elasticd.base.clock import Clock
from elasticd.base.text import one_line, raised

T = TypeVar("T")

PATIENCE = 1.0
"""Seconds that a round waits for answers; the poller allows up to two."""

LATE = "no answer yet"
_SHOWN = 10


class Fault(Exception):  # noqa: N818
    """Why there is no answer, in one line."""


class Rounds(Generic[T]):
    """Rounds of questions to many, until `aclose`. `ask` gives an answer, or raises Fault.

    `at_once`: how many are asked at a time. `patience`: seconds that a round waits; an answer that comes later serves
    the next one. `keep`: seconds for which an answer may be used. One that was too slow is not waited for in later
    rounds, until it answers in time again. Those that failed last share a quarter of the slots, so that dead ones,
    however many, do not delay the others.
    """

    def __init__(
        self, ask: Callable[[str], Awaitable[T]], clock: Clock, at_once: int, patience: float, keep: float = inf
    ) -> None:
        self._ask, self._clock, self._patience, self._keep = ask, clock, patience, keep
        self._places, self._few_places = asyncio.Semaphore(at_once), asyncio.Semaphore(max(1, at_once // 4))
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._answers: dict[str, tuple[T, float]] = {}
        self._faults: dict[str, str] = {}
        self._slow: set[str] = set()
        self._last: tuple[int, dict[str, str]] = 0, {}

    async def round(self, keys: Collection[str], now: float) -> tuple[dict[str, T], dict[str, str]]:
        """Ask these, unless a request is under way. Returns the answers, and why each of the others is silent."""
        current = set(keys)
        self._forget(current)
        for key in keys:
            if key not in self._tasks:
                task = self._tasks[key] = asyncio.create_task(self._ask_one(key), name=f"ask {key}")
                task.add_done_callback(partial(self._discard, key))
        if prompt := [self._tasks[key] for key in current - self._slow]:
            await asyncio.wait(prompt, timeout=self._patience)
        self._slow.update(current & self._tasks.keys())
        answers = {key: self._answers[key][0] for key in keys if self._serves(key, now)}
        silent = {key: self._faults.get(key, LATE) for key in keys if key not in answers}
        self._last = len(current), silent
        return answers, silent

    def describe(self) -> dict[str, object]:
        """For the status page: how many were asked in the last round, how many did not answer, and some of those."""
        count, silent = self._last
        return {"asked": count, "silent": len(silent), "for_example": dict(islice(silent.items(), _SHOWN))}

    def _forget(self, current: set[str]) -> None:
        for key in self._tasks.keys() - current:
            self._cancel(key)
        for by_key in (self._answers, self._faults):
            for key in by_key.keys() - current:
                del by_key[key]
        self._slow &= current

    def _serves(self, key: str, now: float) -> bool:
        """Whether the last answer may be used: it may while the next one is late, not after a failure."""
        return key not in self._faults and key in self._answers and now - self._answers[key][1] <= self._keep

    async def _ask_one(self, key: str) -> None:
        time = asyncio.get_running_loop().time
        async with self._few_places if key in self._faults else self._places:
            begun = time()
            try:
                self._answers[key] = (await self._ask(key), self._clock.now())
                self._faults.pop(key, None)
            except Fault as fault:
                self._faults[key] = str(fault)
            except Exception as error:  # an error of ours spoils this question alone
                self._faults[key] = raised(error)
        if time() - begun <= self._patience:
            self._slow.discard(key)

    def _cancel(self, key: str) -> None:
        task = self._tasks.pop(key)
        self._ending.add(task)
        task.cancel()

    def _discard(self, key: str, task: "asyncio.Task[None]") -> None:
        self._ending.discard(task)
        if self._tasks.get(key) is task:
            del self._tasks[key]

    async def aclose(self) -> None:
        """Cancel all requests that are under way."""
        for key in list(self._tasks):
            self._cancel(key)
        await asyncio.gather(*self._ending, return_exceptions=True)


def describe_silent(faults: dict[str, str], count: int, noun: str) -> str:
    """Who did not answer, in one line that names the first; empty when all did."""
    if not faults:
        return ""
    key, why = next(iter(faults.items()))
    return one_line(f"{len(faults)} of {count} {noun} did not answer: {key}: {why}")
