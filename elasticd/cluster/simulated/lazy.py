"""A series of a simulated source: samples that are computed when they are looked up, a whole workload's at a time.

Knows which workload a key belongs to; knows nothing of what its samples are.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar, overload

from elasticd.model.bulk_lookup import BulkLookup, Samples, one_by_one

_T = TypeVar("_T")


class Block(NamedTuple):
    """The samples of one workload's pods, or of the workload: the same number for each key, in the keys' order."""

    keys: tuple[str, ...] = ()
    samples: Samples = ()

    def by_key(self) -> Iterator[tuple[str, Samples]]:
        each = len(self.samples) // len(self.keys) if self.keys else 0
        for number, key in enumerate(self.keys):
            yield key, self.samples[number * each : (number + 1) * each]


class LazySamples(BulkLookup, Mapping[str, Samples]):
    """A series: samples by key. Counting or iterating computes all of them.

    `owner` says which workload a key belongs to, `make` makes a workload's block; `everyone` has a key of each.
    """

    def __init__(self, owner: Callable[[str], str], make: Callable[[str], Block], everyone: Iterable[str]) -> None:
        self.blocks: dict[str, Block] = {}
        """Those that were looked at, by workload."""
        self._by_key: dict[str, Samples] = {}
        self._spread: set[str] = set()
        self._owner, self._make = owner, make
        self._everyone = everyone

    def together(self, keys: tuple[str, ...]) -> Samples:
        """The samples of these keys. Nearly always they are all those of one workload, in its own order."""
        block = self._block(self._owner(keys[0])) if keys else Block()
        return block.samples if block.keys == keys else one_by_one(self, keys)

    def __getitem__(self, key: str) -> Samples:
        if key not in self._by_key:
            self._look_up(key)
        return self._by_key[key]

    @overload
    def get(self, key: str, default: None = None, /) -> Samples | None: ...
    @overload
    def get(self, key: str, default: Samples | _T, /) -> Samples | _T: ...
    def get(self, key: str, default: Samples | _T | None = None, /) -> Samples | _T | None:
        """The samples of a key, or the default. Mapping's own goes through an exception; pods are many."""
        if key not in self._by_key:
            self._look_up(key)
        return self._by_key.get(key, default)

    def __iter__(self) -> Iterator[str]:
        self._complete()
        return iter(self._by_key)

    def __len__(self) -> int:
        self._complete()
        return len(self._by_key)

    def _complete(self) -> None:
        for key in self._everyone:
            self._look_up(key)

    def _look_up(self, key: str) -> None:
        """Compute the samples of all pods of the workload that owns this key, unless they are there already."""
        owner = self._owner(key)
        if owner not in self._spread:
            self._spread.add(owner)
            self._by_key.update(self._block(owner).by_key())

    def _block(self, owner: str) -> Block:
        block = self.blocks.get(owner)
        if block is None:
            block = self.blocks[owner] = self._make(owner)
        return block
