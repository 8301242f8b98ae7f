"""The samples of a workload's pods, taken from a table of a reading at once.

Knows how tables are looked up; knows nothing of what is in them.
"""

from collections.abc import Mapping
from itertools import chain, repeat

from elasticd.model.workload import Sample

Samples = tuple[Sample, ...]


class BulkLookup:
    """A table that finds the samples of a workload's pods at once, without looking each of them up."""

    def together(self, keys: tuple[str, ...]) -> Samples:
        """The same as one_by_one."""
        raise NotImplementedError


def one_by_one(table: Mapping[str, Samples], keys: tuple[str, ...]) -> Samples:
    """The samples of these subjects, in this order. A subject without any is skipped."""
    return tuple(chain.from_iterable(map(table.get, keys, repeat(()))))


def samples_of(table: Mapping[str, Samples], keys: tuple[str, ...]) -> Samples:
    """The samples of these subjects, in the way that is shortest for the table."""
    return table.together(keys) if isinstance(table, BulkLookup) else one_by_one(table, keys)
