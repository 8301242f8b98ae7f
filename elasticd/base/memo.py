"""Memoizes functions of an immutable record by the record's identity.

A snapshot gives the same tuple of pods until one of them changes, which is rare beside polls. Knows identities; knows
nothing of what is computed.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
S = TypeVar("S")
T = TypeVar("T")

MOST = 10_000
"""Keys that are cached at most. When there are more all are dropped, as what is gone leaves its keys behind."""


class Memo(Generic[K, S, T]):
    """Memoizes a pure function of a key and a source: computed once for a key until its source is another object. The
    source must be immutable. It is held, so that its identity cannot pass to another object."""

    def __init__(self, function: Callable[[K, S], T], most: int = MOST) -> None:
        self._function, self._most = function, most
        self._cached: dict[K, tuple[S, T]] = {}

    def __call__(self, key: K, source: S) -> T:
        """The function's value; an exception is not cached."""
        cached = self._cached.get(key)
        if cached is not None and cached[0] is source:
            return cached[1]
        value = self._function(key, source)
        if key not in self._cached and len(self._cached) >= self._most:
            self._cached.clear()
        self._cached[key] = (source, value)
        return value
