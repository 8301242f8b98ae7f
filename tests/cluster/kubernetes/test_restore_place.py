"""The place that was found for an evicted pod is in its record, so that the next daemon keeps it too."""

import math
from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.cluster.kubernetes.session import Session
from tests.cluster.kubernetes.fake import FakeApi, HurriedClock, status, until
from tests.cluster.kubernetes.restoring import ACTION, RECORDS, Server, daemon, data, granted, record, running

MOVE = replace(ACTION, target="n2")


@pytest.mark.parametrize("priority", [pytest.param({}, id="none"), pytest.param({"priority": 7}, id="of a class")])
async def test_the_next_daemon_knows_the_place_at_once(
    server: Server, session: Session, clock: HurriedClock, priority: dict[str, Any]
) -> None:
    server.pod = running()
    server.pod["spec"] |= priority
    server.priority = priority.get("priority", 0)
    async with daemon(session, clock) as one:
        await one.evict(MOVE, granted)
    async with daemon(session, clock) as two:
        (promise,) = await two.promises(-math.inf)
    assert (promise.node, promise.left, promise.leaving) == ("n2", "n1", "u")
    pod = promise.pod
    assert (pod.namespace, pod.name, pod.uid, pod.node, pod.labels) == ("shop", "batch", "u", "n1", {"app": "batch"})
    assert pod.needs.priority == priority.get("priority", 0)


async def test_records_are_read_once_for_each_term_of_leading(
    api: FakeApi, server: Server, session: Session, clock: HurriedClock
) -> None:
    async with daemon(session, clock) as one:
        for led_since in (-math.inf, 0.0, clock.now() + 1.0, clock.now() + 1.0):
            assert await one.promises(led_since) == []
            await clock.sleep_until(clock.now() + 2.0)
    assert server.steps == ["GET configmaps"] * 2


@pytest.mark.parametrize("place", ["", "{", '{"node": 1}'])
async def test_a_record_without_a_place_counts_as_before(
    server: Server, session: Session, clock: HurriedClock, place: str
) -> None:
    """As an earlier version wrote it."""
    server.pod = None
    server.record(record(data(**({"place": place} if place else {}))))
    async with daemon(session, clock, resumes=True) as one:
        assert await one.promises(-math.inf) == []
        await until(lambda: server.created)


async def test_without_a_target_no_place_is_recorded(server: Server, session: Session, clock: HurriedClock) -> None:
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        assert "place" not in server.records["elasticd-restore-u"]["data"]


async def test_where_records_cannot_be_read_nothing_waits_for_them(
    api: FakeApi, session: Session, server: Server, clock: HurriedClock
) -> None:
    api.on("GET", RECORDS, status(403, "Forbidden", "may not"))
    async with daemon(session, clock) as one:
        assert await one.promises(-math.inf) == []
        assert "403 Forbidden: may not" in one.unread
