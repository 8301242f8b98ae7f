"""When each workload is due: one heap of times for all policies.

Knows times and keys; knows no clock. An overdue key is due once, however many of its times have passed.
"""

import heapq
import zlib
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


def spread(key: object, turn: int = 0) -> float:
    """A number in [0, 1) that is the same for the same key and turn, and even over many keys."""
    return zlib.crc32(f"{key}/{turn}".encode()) / 2**32


class Schedule(Generic[K]):
    """Keys by due time. Setting a key again moves it; heap entries that no longer count are skipped."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, K]] = []
        self._due: dict[K, tuple[float, int, K]] = {}
        """The heap entry of each key that counts."""
        self._count = 0

    def __contains__(self, key: K) -> bool:
        return key in self._due

    def __iter__(self) -> Iterator[K]:
        """All keys that are scheduled; they may be moved and dropped meanwhile."""
        return iter(list(self._due))

    def set(self, key: K, when: float) -> None:
        """Make the key due at this time, whatever was set before."""
        self._count += 1
        entry = self._due[key] = (when, self._count, key)
        heapq.heappush(self._heap, entry)
        if len(self._heap) > 2 * len(self._due) + 64:  # moved often, and long before it was due
            self._heap = list(self._due.values())
            heapq.heapify(self._heap)

    def advance(self, key: K, when: float) -> None:
        """Make a scheduled key due at this time if it would be later; a key that is not scheduled stays so."""
        if key in self._due and when < self._due[key][0]:
            self.set(key, when)

    def between(self, after: float, before: float) -> list[K]:
        """The keys that are due later than the one time and sooner than the other."""
        return [key for key, (when, _, _) in self._due.items() if after < when < before]

    def drop(self, key: K) -> None:
        self._due.pop(key, None)

    def next(self) -> float | None:
        """The earliest due time; None when nothing is scheduled."""
        while self._heap and self._due.get(self._heap[0][2]) is not self._heap[0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def due(self, now: float) -> list[K]:
        """Remove every key whose time has come, earliest first."""
        keys: list[K] = []
        while self._heap and self._heap[0][0] <= now:
            entry = heapq.heappop(self._heap)
            key = entry[2]
            if self._due.get(key) is entry:
                del self._due[key]
                keys.append(key)
        return keys
