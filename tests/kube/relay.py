"""A TCP proxy on loopback before servers that are alike, as a load balancer is before API servers.

Knows connections; knows nothing of what is said in them.
"""

import asyncio
from collections.abc import Sequence
from itertools import count
from types import TracebackType
from typing import NamedTuple, Self


class Way(NamedTuple):
    """A connection from a client to the server on this port; while it is not `open`, nothing passes in either
    direction, and neither side is told."""

    port: int
    open: asyncio.Event
    ends: tuple[asyncio.StreamWriter, asyncio.StreamWriter]


class Relay:
    """The proxy, for as long as its `async with` lasts. Each connection goes to the next of the servers in turn that
    accepts it."""

    def __init__(self, *ports: int) -> None:
        self._ports: Sequence[int] = ports
        self._turns = count()
        self._ways: set[Way] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._listener.sockets[0].getsockname()[1]
        self.url = f"https://127.0.0.1:{self.port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self, port: int) -> int:
        """End the connections to a server, also in the middle of an answer; gives how many there were."""
        ways = [way for way in self._ways if way.port == port]
        for way in ways:
            for end in way.ends:
                end.transport.abort()
        return len(ways)

    def freeze(self) -> int:
        """Pass nothing more in the connections that there are, as a network does that forgot them; gives how many. New
        ones are as ever."""
        for way in self._ways:
            way.open.clear()
        return len(self._ways)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        turn = next(self._turns)
        for step in range(len(self._ports)):
            port = self._ports[(turn + step) % len(self._ports)]
            try:
                back, forth = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                continue
            return await self._connect(Way(port, asyncio.Event(), (writer, forth)), reader, back)
        return writer.transport.abort()

    async def _connect(self, way: Way, reader: asyncio.StreamReader, back: asyncio.StreamReader) -> None:
        way.open.set()
        self._ways.add(way)
        client, server = way.ends
        try:
            async with asyncio.TaskGroup() as tasks:
                for source, target in ((reader, server), (back, client)):
                    tasks.create_task(_pass_on(way, source, target))
        except* OSError:
            pass
        finally:
            self._ways.discard(way)
            for end in way.ends:
                end.transport.abort()


async def _pass_on(way: Way, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Pass bytes on until one side ends the connection, which ends both."""
    while chunk := await source.read(1 << 16):
        await way.open.wait()
        target.write(chunk)
        await target.drain()
    raise ConnectionResetError("one side has ended it")
