"""A plugin whose strategy and source misbehave as long as a file is there, as that says: a neighbour from whom others
must not suffer.

Knows the ways; knows nothing of what then holds.
"""

import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from elasticd.api import Recommendation, Strategy, hookimpl
from elasticd.model.workload import Readings, Sample
from elasticd.ports.source import Reader, Site, Source

LASTS = 0.4
"""Seconds that one call takes that is slow or computes."""


def _raise(_: Path) -> None:
    raise ValueError("x" * 100_000)


def _compute(_: Path) -> None:
    end = time.monotonic() + LASTS
    while time.monotonic() < end:
        pass


def _block(until_gone: Path) -> None:
    while until_gone.exists():
        time.sleep(0.01)


WAYS: Mapping[str, Callable[[Path], None]] = {
    "raises": _raise,
    "computes": _compute,
    "is slow": lambda _: time.sleep(LASTS),
    "blocks": _block,
}


def disturb(path: Path) -> None:
    """Misbehave, if there is a file that says how."""
    if path.exists() and (way := WAYS.get(path.read_text())):
        way(path)


class Disturbing(Strategy, tag="disturbing", frozen=True):
    """A strategy that misbehaves as the file `strategy` in a folder says."""

    folder: str

    def reads(self) -> tuple[str, ...]:
        return ("disturbing",)

    @hookimpl
    def recommend_replicas(self) -> Recommendation:
        disturb(Path(self.folder, "strategy"))
        return Recommendation(2, "Wanted")


class Disturber(Source, frozen=True, kw_only=True, tag="disturber"):
    """A source that misbehaves as the file `source` in a folder says."""

    folder: str
    every: float = 0.0

    def offers(self) -> tuple[str, ...]:
        return ("disturbing",)

    @asynccontextmanager
    async def open(self, _: Site) -> AsyncIterator[Reader]:
        yield _Disturbing(Path(self.folder, "source"))


class _Disturbing:
    def __init__(self, path: Path) -> None:
        self._path = path

    async def read(self, now: float) -> Readings:
        disturb(self._path)
        return Readings("disturber", now, workloads={"disturbing": {"shop/Deployment/web": (Sample(1.0, now, now),)}})


@hookimpl
def register_strategies() -> list[type[Strategy]]:
    """What elasticd finds."""
    return [Disturbing]


@hookimpl
def register_sources() -> list[type[Source]]:
    """The same."""
    return [Disturber]
