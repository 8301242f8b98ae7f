"""The reflector: lists, watches, and every way in which they break."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

import msgspec
import pytest
from aiohttp import web

from elasticd.base.clock import ServerTime, VirtualClock
from elasticd.cluster.kubernetes.session import FLOW_CONTROL, ApiError, Session
from elasticd.cluster.kubernetes.watch import discovery, watch
from elasticd.cluster.kubernetes.watch.store import PodStore
from elasticd.cluster.kubernetes.watch.versions import Rollbacks
from elasticd.cluster.kubernetes.watch.watch import Dependencies, Lines, Reflector, Retries
from elasticd.cluster.kubernetes.wire.convert import to_pod
from elasticd.cluster.kubernetes.wire.objects import Codec, WirePod
from tests.cluster.kubernetes.fake import (
    NO_LIST,
    PODS,
    FakeApi,
    Feed,
    Handler,
    HurriedClock,
    Say,
    drop,
    page,
    pod,
    status,
    until,
)


class Mirrored:
    """A reflector at work, and the store it fills."""

    def __init__(self, session: Session, clock: HurriedClock, silence: float, rollbacks: Rollbacks) -> None:
        self.store, self.clock, self.began = PodStore(), clock, clock.now()
        self.rollbacks = rollbacks
        found = discovery.Discovery(session)
        deps = Dependencies(session, clock, ServerTime(clock), found, (), 500, silence, rollbacks)
        self.reflector = Reflector(deps, discovery.PODS, "", watch.Feed(Codec(WirePod, to_pod), self.store))

    def names(self) -> list[str]:
        """Of the pods labelled app=web."""
        return [one.name for one in self.store.select("shop", "app=web")]


Start = Callable[..., Mirrored]


@pytest.fixture
async def start(session: Session, clock: HurriedClock) -> AsyncIterator[Start]:
    """Starts reflectors, and ends them after the test."""
    tasks: list[asyncio.Task[None]] = []
    rollbacks = Rollbacks(clock)

    def begin(silence: float = 5.0) -> Mirrored:
        mirrored = Mirrored(session, clock, silence, rollbacks)
        tasks.append(asyncio.create_task(mirrored.reflector.run()))
        return mirrored

    yield begin
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def confirming(mirrored: Mirrored) -> Iterator[float]:
    """The time of the last proof before what follows."""
    yield mirrored.reflector.confirmed


async def test_list_is_read_by_pages_and_watched_from_its_end(api: FakeApi, start: Start) -> None:
    api.on("GET", PODS, page(pod("a"), pod("b"), version=3, more="token"), page(pod("c"), version=4))
    feed = api.feed(PODS)
    mirrored = start()
    await until(lambda: feed.opened)
    assert mirrored.names() == ["a", "b", "c"]
    first, second = [seen.query for seen in api.asked("GET", PODS)]
    assert (first, second) == ({"limit": "500"}, {"limit": "500", "continue": "token"})
    (watch,) = api.asked("WATCH", PODS)
    assert (watch.query["resourceVersion"], watch.query["allowWatchBookmarks"]) == ("4", "true")
    assert 3 <= int(watch.query["timeoutSeconds"]) < 5


async def test_events_change_the_copy(api: FakeApi, start: Start) -> None:
    api.on("GET", PODS, page(pod("a"), version=3))
    feed = api.feed(PODS)
    mirrored = start()
    feed.push("ADDED", pod("b", 4))
    feed.push("MODIFIED", pod("a", 5, app="api"))
    await until(lambda: mirrored.names() == ["b"])
    feed.push("DELETED", pod("b", 6))
    await until(lambda: mirrored.names() == [])


async def test_ended_watch_resumes_from_the_last_event_without_a_list(api: FakeApi, start: Start) -> None:
    api.on("GET", PODS, page(version=3))
    feed = api.feed(PODS)
    start()
    feed.push("ADDED", pod("a", 8))
    feed.close()
    await until(lambda: feed.opened == 2)
    assert [seen.query["resourceVersion"] for seen in api.asked("WATCH", PODS)] == ["3", "8"]
    assert len(api.asked("GET", PODS)) == 1


async def test_list_is_reread_periodically_in_case_an_event_was_lost(
    api: FakeApi, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.on("GET", PODS, page(pod("a"), pod("b"), version=3), page(pod("b"), version=9))
    feed = api.feed(PODS)
    monkeypatch.setattr(watch, "RELIST", 0.0)
    mirrored = start()
    await until(lambda: feed.opened)
    feed.close()
    await until(lambda: feed.opened == 2)
    assert mirrored.names() == ["b"]


async def test_failing_watch_is_not_relisted_in_a_hot_loop(api: FakeApi, start: Start) -> None:
    api.on("GET", PODS, page(version=3))
    api.on("WATCH", PODS, b'{"type":"ERROR","object":{"code":500}}\n')
    mirrored = start()
    await until(lambda: len(api.asked("GET", PODS)) == 4)
    # 0.5 s, 1 s and 2 s, each halved at most.
    assert mirrored.clock.now() - mirrored.began >= 1.75


async def test_watch_after_trouble_is_short_to_prove_the_copy_soon(api: FakeApi, start: Start) -> None:
    api.on("GET", PODS, page(pod("a"), version=3))
    proving, normal = Feed(), Feed()
    api.on("WATCH", PODS, status(500, "InternalError"), proving, normal)
    mirrored = start(silence=70.0)
    await until(lambda: proving.opened)
    with confirming(mirrored) as before:
        await mirrored.clock.sleep_until(mirrored.clock.now() + 3.0)
        proving.close()
        await until(lambda: normal.opened)
        assert mirrored.reflector.confirmed > before
    short, long = [int(seen.query["timeoutSeconds"]) for seen in api.asked("WATCH", PODS)][1:]
    assert short == 3
    assert long >= 42
    assert len(api.asked("GET", PODS)) == 1


async def test_bookmark_moves_the_version_and_confirms_but_changes_nothing(api: FakeApi, start: Start) -> None:
    api.on("GET", PODS, page(pod("a"), version=3))
    feed = api.feed(PODS)
    mirrored = start()
    await until(lambda: feed.opened)
    with confirming(mirrored) as before:
        feed.push("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "99"}})
        await until(lambda: mirrored.reflector.confirmed > before)
    feed.close()
    await until(lambda: feed.opened == 2)
    assert api.asked("WATCH", PODS)[-1].query["resourceVersion"] == "99"
    assert mirrored.names() == ["a"]
    assert mirrored.reflector.skipped == 0


@pytest.mark.parametrize(
    "expired",
    [
        pytest.param(status(410, "Expired", "too old resource version"), id="as an HTTP status"),
        pytest.param(b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n', id="as an event"),
        pytest.param(b'{"type":"ERROR","object":{"kind":"Status","code":500}}\n', id="an event of another error"),
        pytest.param(b'{"type":"ERROR","object":[]}\n', id="an error that cannot be read"),
    ],
)
async def test_expired_watch_lists_anew_and_what_vanished_meanwhile_is_gone(
    api: FakeApi, start: Start, expired: Say | bytes
) -> None:
    api.on("GET", PODS, page(pod("a"), pod("b"), version=3), page(pod("b"), version=20))
    feed = Feed()
    api.on("WATCH", PODS, expired, feed)
    mirrored = start()
    await until(lambda: feed.opened)
    assert mirrored.names() == ["b"]
    assert [seen.query["resourceVersion"] for seen in api.asked("WATCH", PODS)] == ["3", "20"]


async def test_list_that_keeps_expiring_is_finally_read_without_pages(api: FakeApi, start: Start) -> None:
    expired = status(410, "Expired", "the provided continue parameter is too old")
    first = page(pod("a"), version=3, more="token")
    api.on("GET", PODS, first, expired, first, expired, page(pod("b"), version=9))
    feed = api.feed(PODS)
    mirrored = start()
    await until(lambda: feed.opened)
    assert mirrored.names() == ["b"]
    asked = [seen.query for seen in api.asked("GET", PODS)]
    assert [("limit" in one, "continue" in one) for one in asked] == [
        (True, False),
        (True, True),
        (True, False),
        (True, True),
        (False, False),
    ]


async def test_silent_watch_is_closed_and_listed_anew(api: FakeApi, start: Start) -> None:
    api.on("GET", PODS, page(pod("a"), version=3), page(pod("b"), version=20))
    feed = api.feed(PODS)
    mirrored = start(silence=0.2)
    await until(lambda: len(api.asked("GET", PODS)) > 1 and feed.opened > 1)
    assert mirrored.names() == ["b"]
    assert api.asked("WATCH", PODS)[-1].query["resourceVersion"] == "20"


async def test_a_watch_from_which_newlines_drip_is_closed(api: FakeApi, start: Start) -> None:
    api.on("GET", PODS, page(pod("a"), version=3), page(pod("b"), version=20))
    feeds: list[web.StreamResponse] = []

    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        feeds.append(response)
        while True:
            await response.write(b"\n")
            await asyncio.sleep(0.01)

    api.on("WATCH", PODS, drip)
    mirrored = start(silence=0.2)
    await until(lambda: mirrored.names() == ["b"] and len(feeds) > 1)
    assert api.asked("WATCH", PODS)[-1].query["resourceVersion"] == "20"


async def test_events_may_come_in_any_pieces(api: FakeApi, start: Start) -> None:
    api.on("GET", PODS, page(version=3))
    feed = api.feed(PODS)
    mirrored = start()
    lines = b"".join(msgspec.json.encode({"type": "ADDED", "object": pod(name, 4)}) + b"\n" for name in ("a", "b", "c"))
    for at in range(0, len(lines), 37):
        feed.write(lines[at : at + 37])
    await until(lambda: mirrored.names() == ["a", "b", "c"])


async def test_event_may_be_larger_than_any_buffer(api: FakeApi, start: Start) -> None:
    api.on("GET", PODS, page(version=3))
    feed = api.feed(PODS)
    mirrored = start()
    big = pod("a", 4)
    big["metadata"]["annotations"] = {"note": "x" * 3_000_000}
    feed.push("ADDED", big)
    feed.push("ADDED", pod("b", 5))
    await until(lambda: mirrored.names() == ["a", "b"])


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(b"not json at all\n", id="no JSON"),
        pytest.param(b'{"type":"ADDED"}\n', id="no object"),
        pytest.param(b'{"type":"ADDED","object":{"metadata":{"name":"x"},"spec":7}}\n', id="a wrong type"),
        pytest.param(b'{"type":"ADDED","object":"x"}\n', id="a string"),
        pytest.param(b'\xff\xfe{"type"\n', id="no UTF-8"),
        pytest.param(b'{"type":"ADDED","object":' + b"[" * 10_000 + b"\n", id="nested too deeply"),
    ],
)
async def test_unreadable_object_is_counted_and_only_that_object_is_lost(
    api: FakeApi, start: Start, garbage: bytes
) -> None:
    api.on("GET", PODS, page(version=3))
    feed = api.feed(PODS)
    mirrored = start()
    feed.write(garbage)
    feed.push("ADDED", pod("a", 5))
    await until(lambda: mirrored.names() == ["a"])
    assert mirrored.reflector.skipped == 1
    assert feed.opened == 1


async def test_an_object_that_becomes_unreadable_keeps_its_last_form(api: FakeApi, start: Start) -> None:
    bad = {"metadata": {"name": "a", "namespace": "shop"}, "spec": 7}
    api.on("GET", PODS, page(pod("a"), version=3), page(bad, pod("b"), version=9))
    feed = Feed()
    api.on("WATCH", PODS, status(410), feed)
    mirrored = start()
    await until(lambda: feed.opened)
    assert mirrored.names() == ["a", "b"]


async def test_unknown_type_of_event_is_passed_over(api: FakeApi, start: Start) -> None:
    api.on("GET", PODS, page(version=3))
    feed = api.feed(PODS)
    mirrored = start()
    feed.push("SURPRISE", {"metadata": {"name": "x"}})
    feed.push("ADDED", pod("a", 5))
    await until(lambda: mirrored.names() == ["a"])
    assert mirrored.reflector.skipped == 0


async def test_lost_connection_goes_on_from_where_it_was(api: FakeApi, start: Start) -> None:
    api.on("GET", PODS, page(pod("a"), version=3))
    feed = Feed()
    api.on("WATCH", PODS, drop, feed)
    mirrored = start()
    await until(lambda: feed.opened)
    assert len(api.asked("GET", PODS)) == 1
    assert mirrored.reflector.fault == ""


async def test_failing_server_leaves_the_copy_kept_but_no_longer_confirmed(api: FakeApi, start: Start) -> None:
    api.on("GET", PODS, page(pod("a"), version=3), status(500, "InternalError", "boom"))
    api.on("WATCH", PODS, status(500, "InternalError", "boom"))
    mirrored = start()
    await until(lambda: mirrored.reflector.confirmed)
    with confirming(mirrored) as before:
        await until(lambda: len(api.asked("GET", PODS)) >= 3)
        assert mirrored.reflector.confirmed == before
    assert mirrored.names() == ["a"]
    assert mirrored.reflector.fault == "500 InternalError: boom"
    api.on("GET", PODS, page(pod("b"), version=9))
    feed = api.feed(PODS)
    await until(lambda: feed.opened)
    assert (mirrored.names(), mirrored.reflector.fault) == (["b"], "")


@pytest.mark.parametrize(
    ("version", "lists"),
    [
        pytest.param("19", 2, id="older"),
        pytest.param("20", 1, id="the same"),
        pytest.param("100", 1, id="newer"),
        pytest.param("", 2, id="none"),
        pytest.param("x9", 2, id="no number"),
    ],
)
async def test_after_trouble_it_resumes_only_at_a_version_reached(
    api: FakeApi, start: Start, version: str, lists: int
) -> None:
    api.on("GET", PODS, page(pod("a"), version=20), page(pod("b"), version=19))
    api.on("ASK", PODS, status(503), {**page(), "metadata": {"resourceVersion": version}})
    feed = Feed()
    api.on("WATCH", PODS, status(500), feed)
    mirrored = start()
    await until(lambda: feed.opened)
    assert (len(api.asked("ASK", PODS)), len(api.asked("GET", PODS))) == (2, lists)
    assert mirrored.names() == ["a" if lists == 1 else "b"]


@pytest.mark.parametrize(("seconds", "asks"), [pytest.param(0.1, 1, id="early"), pytest.param(4.0, 0, id="in time")])
async def test_a_watch_that_ends_early_asks_how_far_it_is(
    api: FakeApi, start: Start, seconds: float, asks: int
) -> None:
    api.on("GET", PODS, page(pod("a"), version=3))
    first, second = Feed(), Feed()
    api.on("WATCH", PODS, first, second)
    mirrored = start()
    await until(lambda: first.opened)
    await mirrored.clock.sleep_until(mirrored.clock.now() + seconds)
    first.close()
    await until(lambda: second.opened)
    assert (len(api.asked("ASK", PODS)), len(api.asked("GET", PODS))) == (asks, 1)


async def test_a_restored_server_is_believed_and_told_once(
    api: FakeApi, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """Else a pod never leaves its node."""
    bound = pod("a")
    bound["spec"]["nodeName"] = "node-0"
    before, restored = page(bound, pod("new", 20), version=20), page(pod("a"), pod("old"), version=9)
    api.on("GET", PODS, before, before, restored)
    api.on("ASK", PODS, page(version=9))
    feed = Feed()
    api.on("WATCH", PODS, status(500), status(500), feed)
    mirrored, again = start(), start()
    await until(lambda: feed.opened == 2)
    assert mirrored.names() == again.names() == ["a", "old"]
    assert [one.node for one in mirrored.store.select("shop", "app=web")] == ["", ""]
    text = "the API server's resourceVersions went back (of pods, from 20 to 9)"
    assert [record.message[: len(text)] for record in caplog.records if "went back" in record.message] == [text]
    assert mirrored.rollbacks.problem.startswith(text)


async def test_a_bookmark_from_before_lists_anew(api: FakeApi, start: Start) -> None:
    api.on("GET", PODS, page(pod("a"), version=20), page(pod("b"), version=9))
    feed = api.feed(PODS)
    mirrored = start()
    await until(lambda: feed.opened)
    feed.push("BOOKMARK", {"metadata": {"resourceVersion": "9"}})
    await until(lambda: feed.opened == 2)
    assert mirrored.names() == ["b"]


async def test_that_versions_went_back_is_a_problem_for_minutes() -> None:
    clock = VirtualClock(1000.0)
    rollbacks = Rollbacks(clock)
    assert not rollbacks.problem
    rollbacks.note("pods", "20", "9")
    rollbacks.note("nodes", "19", "9")
    await clock.sleep_until(1599.0)
    assert "(of pods, from 20 to 9)" in rollbacks.problem
    await clock.sleep_until(1600.0)
    assert rollbacks.problem == ""
    rollbacks.note("nodes", "30", "9")
    assert "(of nodes, from 30 to 9)" in rollbacks.problem


async def test_retry_after_of_a_list_is_honoured(api: FakeApi, start: Start, clock: HurriedClock) -> None:
    api.on("GET", PODS, Say(429, {"reason": "TooManyRequests"}, {"Retry-After": "10"}), page(version=3))
    feed = api.feed(PODS)
    began = clock.now()
    start()
    await until(lambda: feed.opened)
    assert clock.now() - began >= 10


def test_a_read_waits_no_longer_than_an_overload_lasts(clock: HurriedClock) -> None:
    """A longer Retry-After is a proxy's: the cluster would not be seen for minutes."""
    assert Retries(clock).pause(300.0) == FLOW_CONTROL


async def test_a_refused_list_leaves_the_copy_kept_but_unconfirmed(api: FakeApi, start: Start) -> None:
    api.on("GET", PODS, page(pod("a"), version=3), status(403, "Forbidden", "pods is forbidden"))
    api.on("WATCH", PODS, status(403, "Forbidden", "pods is forbidden"))
    mirrored = start()
    await until(lambda: mirrored.reflector.confirmed)
    with confirming(mirrored) as before:
        await until(lambda: len(api.asked("GET", PODS)) >= 3)
        assert mirrored.reflector.confirmed == before
    assert (mirrored.names(), mirrored.reflector.fault) == (["a"], "pods is forbidden")
    api.on("GET", PODS, page(pod("b"), version=9))
    feed = api.feed(PODS)
    await until(lambda: feed.opened)
    assert (mirrored.names(), mirrored.reflector.fault) == (["b"], "")


async def test_list_that_was_always_refused_was_never_confirmed(api: FakeApi, start: Start) -> None:
    api.on("GET", PODS, status(403, "Forbidden", "pods is forbidden"))
    mirrored = start()
    await mirrored.reflector.settled.wait()
    assert (mirrored.names(), mirrored.reflector.confirmed) == ([], 0.0)


async def test_watch_that_opens_again_proves_nothing_until_something_comes(api: FakeApi, start: Start) -> None:
    api.on("GET", PODS, page(pod("a"), version=3))
    feed = Feed()
    api.on("WATCH", PODS, drop, feed)
    mirrored = start(silence=60.0)
    await until(lambda: mirrored.reflector.confirmed)
    with confirming(mirrored) as before:
        await until(lambda: feed.opened and not mirrored.reflector.fault)
        opened = mirrored.clock.now()
        await until(lambda: mirrored.clock.now() > opened + 2)
        assert mirrored.reflector.confirmed == before
    feed.push("BOOKMARK", {"metadata": {"resourceVersion": "9"}})
    await until(lambda: mirrored.reflector.confirmed > opened)
    assert len(api.asked("GET", PODS)) == 1


@pytest.mark.parametrize(
    ("lasts", "proves"), [pytest.param(2.0, True, id="long"), pytest.param(0.0, False, id="empty")]
)
async def test_watch_that_ends_normally_confirms_the_copy_if_it_lasted(
    api: FakeApi, start: Start, lasts: float, proves: bool
) -> None:
    api.on("GET", PODS, page(version=3))
    feed, last = Feed(), Feed()
    api.on("WATCH", PODS, feed, last)
    mirrored = start()
    if not lasts:
        feed.close()
    await until(lambda: feed.opened)
    opened = mirrored.clock.now()
    with confirming(mirrored) as before:
        await until(lambda: mirrored.clock.now() >= opened + lasts)
        if lasts:
            feed.close()
        await until(lambda: last.opened)
        assert (mirrored.reflector.confirmed > before) is proves


async def test_watch_broken_long_after_the_last_proof_is_relisted(api: FakeApi, start: Start) -> None:
    api.on("GET", PODS, page(pod("a"), version=3))
    api.on("WATCH", PODS, _cut_after(0.1))
    mirrored = start(silence=0.5)  # of the server; 0.1 s are 2 s of the hurried clock
    await until(lambda: len(api.asked("GET", PODS)) >= 2)
    assert [seen.method for seen in api.seen[:3]] == ["GET", "WATCH", "GET"]
    assert mirrored.names() == ["a"]


def _cut_after(seconds: float) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.sleep(seconds)
        return await drop(request)

    return handle


async def test_ten_minutes_without_a_server_cause_no_stampede(
    api: FakeApi, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    """Ten reflectors ask ever more seldom and not all at once, and tell of the outage once."""
    caplog.set_level("INFO", logger=watch.logger.name)
    clock, down = HurriedClock(200.0), asyncio.Event()
    asked: list[float] = []

    async def read(_: web.Request) -> web.StreamResponse:
        asked.append(clock.now())
        body = status(503, "ServiceUnavailable") if down.is_set() else Say(200, page(pod("a"), version=3))
        return web.json_response(body.body, status=body.code)

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await down.wait()
        return await drop(request)

    for method, handler in (("GET", read), ("ASK", read), ("WATCH", stream)):
        api.on(method, PODS, handler)
    mirrored = [Mirrored(session, clock, 70.0, Rollbacks(clock)) for _ in range(10)]
    tasks = [asyncio.create_task(one.reflector.run()) for one in mirrored]
    await until(lambda: all(one.reflector.confirmed for one in mirrored))
    asked.clear()
    down.set()
    began = clock.now()
    await clock.sleep_until(began + 600)
    assert all(one.reflector.confirmed < began for one in mirrored)
    assert [one.names() for one in mirrored] == [["a"]] * 10
    ended, during = clock.now(), len(asked)
    assert during <= 10 * (5 + 600 / 15), "after five short pauses, one of 15 s or more follows each"
    down.clear()
    await until(lambda: all(one.reflector.confirmed > began for one in mirrored))
    assert asked[-1] - asked[during] > 5, "they come back in turn"
    assert asked[-1] - ended < 60, "the longest pause, and what a busy machine adds"
    told = [(record.levelname, "current again" in record.message) for record in caplog.records]
    assert sorted(told) == [("INFO", True)] * 10 + [("WARNING", False)] * 10
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("body", NO_LIST.values(), ids=NO_LIST)
async def test_json_that_is_no_list_empties_no_copy(api: FakeApi, start: Start, body: bytes) -> None:
    api.on("GET", PODS, page(pod("a"), version=5), Say(200, body))
    api.on("WATCH", PODS, status(410, "Expired", "too old"))
    mirrored = start()
    await until(lambda: "is no list" in mirrored.reflector.fault)
    confirmed = mirrored.reflector.confirmed
    await asyncio.sleep(0.2)  # 4 s of the hurried clock
    assert "a" in mirrored.names()
    assert mirrored.reflector.confirmed == confirmed
    assert len(api.asked("GET", PODS)) < 12


async def test_a_list_without_a_version_is_reread_with_pauses(api: FakeApi, start: Start) -> None:
    api.on("GET", PODS, {"kind": "PodList", "items": [pod("a")]})
    mirrored = start()
    await until(mirrored.names)
    await asyncio.sleep(0.2)  # 4 s of the hurried clock
    assert len(api.asked("GET", PODS)) < 12


async def test_answer_that_is_no_list_does_not_end_the_reflector(api: FakeApi, start: Start) -> None:
    api.on("GET", PODS, b"<html>a proxy", page(pod("a"), version=3))
    feed = api.feed(PODS)
    mirrored = start()
    await until(lambda: feed.opened)
    assert mirrored.names() == ["a"]


async def test_resource_that_is_not_served_ends_the_reflector(session: Session, clock: HurriedClock) -> None:
    mirrored = Mirrored(session, clock, 5.0, Rollbacks(clock))
    await asyncio.wait_for(mirrored.reflector.run(), 5)
    assert mirrored.reflector.settled.is_set()
    assert mirrored.reflector.fault


async def test_a_list_is_as_old_as_its_request(api: FakeApi, start: Start, clock: HurriedClock) -> None:
    api.on("GET", PODS, page(version=3))
    api.on("WATCH", PODS, status(500))
    began = clock.now()
    mirrored = start()
    await mirrored.reflector.settled.wait()
    assert began <= mirrored.reflector.confirmed < clock.now()


def test_lines_are_put_together_from_any_chunks() -> None:
    lines = Lines()
    chunks = [b"a", b"b\n", b"\n", b"c\nd\ne", b"", b"f\n"]
    assert [line for chunk in chunks for line in lines.feed(chunk)] == [b"ab", b"c", b"d", b"ef"]


def test_line_that_never_ends_is_given_up() -> None:
    lines, chunk = Lines(), b"x" * (16 << 20)
    for _ in range(4):
        assert list(lines.feed(chunk)) == []
    with pytest.raises(ApiError, match="longer than"):
        list(lines.feed(chunk))


def test_backoff_doubles_with_jitter_to_its_limit_and_starts_anew() -> None:
    retries = Retries(VirtualClock())
    pauses = [retries.pause() for _ in range(12)]
    for number, pause in enumerate(pauses):
        assert 0.5 * min(0.5 * 2**number, 30) <= pause <= 1.5 * min(0.5 * 2**number, 30)
    assert FLOW_CONTROL <= retries.pause(at_least=100) <= 45
    retries.reset()
    assert retries.pause() <= 0.75
