"""Opens the sources of a daemon, each where it cannot affect the others.

Knows which sources share the daemon's event loop and which have a thread; knows nothing of what they say.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

from elasticd.base.text import raised
from elasticd.model.workload import Readings
from elasticd.ports.source import Describes, Reader, Site, Source
from elasticd.sources.bounds import checked
from elasticd.sources.threads import ThreadReader, closed, is_strange

PATIENCE = 2.0
"""Seconds that the daemon waits at its start for sources to be open."""


class Opened(NamedTuple):
    """A source, its reader, and why it cannot be read yet; empty where it can."""

    source: Source
    reader: Reader
    trouble: str = ""


@asynccontextmanager
async def readers(sources: Sequence[Source], site: Site, most: int, *, threads: bool) -> AsyncIterator[list[Opened]]:
    """A reader of each source, for as long as the block runs.

    `most`: samples that an answer may have. `threads`: whether third-party sources run in threads of their own; not in
    virtual time, which stands still meanwhile. elasticd's own sources share the daemon's loop, and with it its
    connections to the cluster: they are tested never to block.
    """
    async with AsyncExitStack() as stack:
        strange = {source.label for source in sources if is_strange(source, site.beside)}
        in_threads = {
            source.label: ThreadReader(source, site, most) for source in sources if threads and source.label in strange
        }
        stack.push_async_callback(closed, list(in_threads.values()))
        troubles = await asyncio.gather(*[reader.begun(PATIENCE) for reader in in_threads.values()])
        by_label = dict(zip(in_threads, troubles, strict=True))
        openings = []
        for source in sources:
            if source.label in in_threads:
                openings.append(Opened(source, in_threads[source.label], by_label[source.label]))
                continue
            reader = await stack.enter_async_context(source.open(site))
            openings.append(
                Opened(source, CheckedReader(reader, source.label, most) if source.label in strange else reader)
            )
        yield openings


class CheckedReader:
    """A third-party reader on the daemon's own event loop, as in virtual time."""

    def __init__(self, reader: Reader, source: str, most: int) -> None:
        self._reader, self._source, self._most = reader, source, most

    async def read(self, now: float) -> Readings:
        """What it answers, or what is wrong with it."""
        try:
            answer: object = await self._reader.read(now)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # sys.exit in a source is only that source's failure
            answer = Readings(self._source, now, error=raised(error))
        return checked(answer, self._source, now, self._most)

    def describe(self) -> object:
        return self._reader.describe() if isinstance(self._reader, Describes) else None
