"""The live stream of the status page: everything once, then what changes, the same bytes for all."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.model.listener import Governed, PodsWaiting, PoolsApplied
from elasticd.model.records import Decision
from elasticd.model.workload import Ref
from elasticd.telemetry.events import ALIVE, BEHIND, Events, Stream, TooManyStreamsError
from tests.kit.records import decision, outcome

SOON = 0.01
WEB = "shop/Deployment/web"
OTHER = Ref("shop", "Deployment", "other")


def other(at: float, **changes: Any) -> Decision:
    return decision(at, workload=OTHER, **changes)


@asynccontextmanager
async def running(known: Sequence[Decision] = (), most: int = 8) -> AsyncIterator[Events]:
    """Events about these decisions."""
    events = Events(lambda: {"leading": True}, lambda: known, SOON, most)
    task = asyncio.create_task(events.run())
    try:
        async with asyncio.timeout(20):
            yield events
    finally:
        task.cancel()


class Reader:
    """Who reads a stream."""

    def __init__(self, stream: Stream) -> None:
        self._messages = aiter(stream.messages())

    async def raw(self) -> bytes:
        return await anext(self._messages)

    async def ended(self) -> None:
        """Read to the end."""
        async for _ in self._messages:
            pass

    async def next(self, event: str = "changes") -> Any:
        """The next message of a kind that says something of a workload, or of points."""
        while True:
            kind, _, data = (await self.raw()).decode().strip().partition("\ndata: ")
            content = json.loads(data)
            eventless = event == "changes" and not (content["rows"] or content["times"] or content["gone"])
            if kind == f"event: {event}" and not eventless:
                return content


async def test_who_comes_gets_every_workload_with_its_age() -> None:
    async with running([decision(100.0), other(101.0)]) as events, events.opened() as stream:
        everything = await Reader(stream).next("all")
    assert [row["workload"] for row in everything["rows"]] == ["shop/Deployment/web", "shop/Deployment/other"]
    assert everything["times"] == [1, 100.0, 0.0, 2, 101.0, 0.0]
    assert everything["state"] == {"daemon": {"leading": True}, "waiting": {}}


async def test_only_workloads_that_changed_are_sent_again() -> None:
    async with running([decision(100.0), other(100.0)]) as events, events.opened() as stream:
        reader = Reader(stream)
        await reader.next("all")
        events.on(decision(130.0))
        events.on(other(130.0, wish=5))
        change = await reader.next()
    assert change["rows"] == [{"id": 2, "wish": 5, "replicas": 5}]
    assert change["times"] == [1, 130.0, 0.0, 2, 130.0, 0.0]


async def test_all_readers_get_the_same_bytes() -> None:
    async with running([decision(100.0)]) as events, events.opened() as first, events.opened() as second:
        readers = [Reader(first), Reader(second)]
        assert (await readers[0].raw()) is (await readers[1].raw())
        assert (await readers[0].raw()) is (await readers[1].raw())


async def test_a_workload_governed_no_longer_goes() -> None:
    async with running([decision(100.0), other(100.0)]) as events, events.opened() as stream:
        reader = Reader(stream)
        await reader.next("all")
        events.on(Governed({("shop", OTHER)}))
        assert (await reader.next())["gone"] == [1]


async def test_an_action_that_was_not_done_shows_at_once() -> None:
    async with running([decision(100.0)]) as events, events.opened() as stream:
        reader = Reader(stream)
        await reader.next("all")
        events.on(replace(outcome(101.0), result="failed", reason="FailedUpdateScale", message="403"))
        assert (await reader.next())["rows"][0]["refused"] == "failed: FailedUpdateScale: 403"
        events.on(outcome(102.0))
        assert (await reader.next())["rows"] == [{"id": 1, "refused": ""}]


async def test_points_go_to_those_who_look_at_that_chart() -> None:
    async with running([decision(100.0)]) as events, events.opened() as stream, events.opened(WEB) as chart:
        everybody, watcher = Reader(stream), Reader(chart)
        await everybody.next("all")
        assert await watcher.raw() == ALIVE
        events.on(decision(130.0))
        (point,) = await watcher.next("points")
        assert point["point"] == {"at": 130.0, "current": 2, "replicas": 3, "wish": 3, "demand": {"cpu": 0.5}}
        assert b"points" not in await everybody.raw()


async def test_pods_that_wait_are_told_also_to_who_comes_later() -> None:
    async with running() as events:
        for policy in ("film", "gone"):
            events.on(PodsWaiting(policy, {"NoRoom": 2}))
        events.on(PoolsApplied({"film"}))
        async with events.opened() as stream:
            assert (await Reader(stream).next("all"))["state"]["waiting"] == {"film": {"NoRoom": 2}}


async def test_nothing_is_done_while_nobody_listens() -> None:
    asked = []
    events = Events(lambda: asked.append("summary"), list, SOON)
    task = asyncio.create_task(events.run())
    events.on(decision(100.0))
    await asyncio.sleep(5 * SOON)
    task.cancel()
    assert not asked


async def test_who_comes_after_a_pause_sees_the_present() -> None:
    known = [decision(100.0)]
    async with running(known) as events:
        async with events.opened() as stream:
            await Reader(stream).next("all")
        known[:] = [other(200.0)]
        async with events.opened() as stream:
            everything = await Reader(stream).next("all")
    assert [row["workload"] for row in everything["rows"]] == ["shop/Deployment/other"]


async def test_a_reader_who_is_too_slow_is_dropped() -> None:
    stream = Stream("")
    for _ in range(BEHIND + 5):
        stream.send(b"more")
    assert [message async for message in stream.messages()] == []


async def test_a_stream_ends_with_the_daemon() -> None:
    async with running() as events, events.opened() as stream:
        reader = Reader(stream)
        await reader.next("all")
        events.close()
        await reader.ended()


async def test_a_summary_that_fails_is_logged_once_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    works = asyncio.Event()

    def summary() -> object:
        if not works.is_set():
            raise RuntimeError("no")
        return {}

    events = Events(summary, list, SOON)
    task = asyncio.create_task(events.run())
    async with asyncio.timeout(20), events.opened() as stream:
        await asyncio.sleep(5 * SOON)
        works.set()
        await Reader(stream).raw()
    task.cancel()
    assert [record.getMessage() for record in caplog.records] == ["the status page cannot be rendered"]


async def test_text_that_cannot_be_encoded_is_escaped() -> None:
    async with running() as events, events.opened() as stream, events.opened(WEB) as chart:
        await Reader(stream).next("all")
        events.on(decision(100.0, reason="a\ud800b", message="c\ud800d"))
        assert (await Reader(stream).next())["rows"][0]["reason"] == "a\\ud800b"
        assert (await Reader(chart).next("points"))[0]["message"] == "c\\ud800d"


async def test_there_are_only_so_many_streams() -> None:
    async with running(most=2) as events, events.opened(), events.opened():
        with pytest.raises(TooManyStreamsError):
            async with events.opened():
                pass
