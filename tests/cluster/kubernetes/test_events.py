"""Kubernetes Events: written, folded, dropped when they cannot be afforded."""

import asyncio

import pytest
from aiohttp import web
from msgspec.structs import replace

from elasticd.base.clock import VirtualClock
from elasticd.cluster.kubernetes.session import Session
from elasticd.cluster.kubernetes.write.budget import Budget
from elasticd.cluster.kubernetes.write.events import Events
from elasticd.model.actions import Announce, Answer, Scale
from elasticd.model.workload import Ref
from tests.cluster.kubernetes.fake import FakeApi, Say, status, until

PATH = "/api/v1/namespaces/shop/events"
REF = Ref("shop", "Deployment", "web")
HELLO = Announce(REF, "u", "Hello", "there")
ACTION = Scale(REF, "u", "5", 3, 6, reason="cpu above target")


class Bench:
    """Events on a virtual clock, and the first Event's path."""

    def __init__(self, api: FakeApi, session: Session, burst: int = 1000) -> None:
        self.api, self.clock = api, VirtualClock(1_000_000.0)
        self.budget = Budget(self.clock, 50, burst)
        self.events = Events(session, self.budget, self.clock, "daemon-1")
        self.first = f"{PATH}/web.38d7ea4c68000"
        api.on("POST", PATH, {})
        api.on("PATCH", self.first, {})


@pytest.fixture
def bench(api: FakeApi, session: Session) -> Bench:
    """Events on the fake server."""
    return Bench(api, session)


async def test_event_is_about_the_workload(bench: Bench) -> None:
    assert await bench.events.announce(HELLO) == Answer("done", 200)
    (seen,) = bench.api.asked("POST", PATH)
    assert seen.body == {
        "metadata": {"name": "web.38d7ea4c68000", "namespace": "shop"},
        "involvedObject": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "namespace": "shop",
            "name": "web",
            "uid": "u",
        },
        "reason": "Hello",
        "message": "there",
        "type": "Normal",
        "source": {"component": "elasticd"},
        "reportingComponent": "elasticd",
        "reportingInstance": "daemon-1",
        "firstTimestamp": "1970-01-12T13:46:40Z",
        "lastTimestamp": "1970-01-12T13:46:40Z",
        "count": 1,
    }


async def test_same_event_within_ten_minutes_is_counted(bench: Bench) -> None:
    for _ in range(3):
        await bench.events.announce(HELLO)
        await bench.clock.sleep_until(bench.clock.now() + 599)
    assert len(bench.api.asked("POST", PATH)) == 1
    assert [seen.body for seen in bench.api.asked("PATCH", bench.first)] == [
        {"count": 2, "lastTimestamp": "1970-01-12T13:56:39Z"},
        {"count": 3, "lastTimestamp": "1970-01-12T14:06:38Z"},
    ]


async def test_same_event_after_ten_minutes_is_a_new_one(bench: Bench) -> None:
    await bench.events.announce(HELLO)
    await bench.clock.sleep_until(bench.clock.now() + 600)
    await bench.events.announce(HELLO)
    assert len(bench.api.asked("POST", PATH)) == 2


async def test_other_event_is_not_folded(bench: Bench) -> None:
    await bench.events.announce(HELLO)
    await bench.events.announce(Announce(REF, "u", "Hello", "there", warning=True))
    assert [seen.body["type"] for seen in bench.api.asked("POST", PATH)] == ["Normal", "Warning"]


async def test_event_that_expired_meanwhile_is_written_anew(bench: Bench) -> None:
    await bench.events.announce(HELLO)
    bench.api.on("PATCH", bench.first, status(404))
    assert (await bench.events.announce(HELLO)).result == "done"
    assert len(bench.api.asked("POST", PATH)) == 2


async def test_event_that_is_refused_is_reported_and_not_counted_on(bench: Bench) -> None:
    bench.api.on("POST", PATH, status(403, "Forbidden", "events is forbidden"), {})
    assert await bench.events.announce(HELLO) == Answer(
        "failed", 403, "403 Forbidden: events is forbidden", "Forbidden"
    )
    assert (await bench.events.announce(HELLO)).result == "done"
    assert len(bench.api.asked("POST", PATH)) == 2


@pytest.mark.parametrize("code", [429, 503])
async def test_an_event_answered_with_retry_after_pauses_all_writes(bench: Bench, code: int) -> None:
    bench.api.on("POST", PATH, Say(code, {"message": "slow down"}, {"Retry-After": "20"}))
    assert (await bench.events.announce(HELLO)).code == code
    began = bench.clock.now()
    assert not await bench.budget.take(19)
    assert (await bench.events.announce(HELLO)).reason == "BudgetSpent"
    assert await bench.budget.take(20)
    assert bench.clock.now() == began + 20


async def test_long_message_is_cut(bench: Bench) -> None:
    await bench.events.announce(Announce(REF, "u", "Hello", "x" * 5000))
    assert len(bench.api.asked("POST", PATH)[0].body["message"]) == 1024


async def test_short_budget_drops_events_and_keeps_the_rest_for_scales(api: FakeApi, session: Session) -> None:
    bench = Bench(api, session, burst=4)
    answers = [(await bench.events.announce(HELLO)).result for _ in range(4)]
    assert answers == ["done", "done", "refused", "refused"]
    assert bench.events.dropped == 2
    began = bench.clock.now()
    assert await bench.budget.take(0)
    assert await bench.budget.take(0)
    assert bench.clock.now() == began


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        pytest.param(
            Answer("done", 200), ("Normal", "SuccessfulRescale", "New size: 6; reason: cpu above target"), id="done"
        ),
        pytest.param(
            Answer("failed", 403, "no right"),
            ("Warning", "FailedRescale", "New size: 6; reason: cpu above target; error: no right"),
            id="failed",
        ),
        pytest.param(Answer("conflict", 409, "it moved"), None, id="a conflict is decided again"),
        pytest.param(Answer("refused", message="not the leader"), None, id="a refusal is ours"),
    ],
)
async def test_scaling_is_reported_as_the_hpa_tells_it(
    bench: Bench, answer: Answer, told: tuple[str, str, str] | None
) -> None:
    bench.events.after_scale(ACTION, answer)
    await bench.events.close()
    seen = [(one.body["type"], one.body["reason"], one.body["message"]) for one in bench.api.asked("POST", PATH)]
    assert seen == ([told] if told else [])


async def test_events_under_way_are_bounded(bench: Bench) -> None:
    for number in range(100):
        bench.events.after_scale(Scale(REF, "u", "5", 3, number, ""), Answer("done", 200))
    await until(lambda: len(bench.api.asked("POST", PATH)) == 64)
    await bench.events.close()
    assert bench.events.dropped == 36


async def test_few_events_are_written_at_a_time(api: FakeApi, bench: Bench) -> None:
    """A thousand pods that find no room have one each: as many connections took 250 MB."""
    answers = asyncio.Event()

    async def late(_: web.Request) -> web.StreamResponse:
        await answers.wait()
        return web.json_response({})

    api.on("POST", PATH, late)
    telling = [asyncio.create_task(bench.events.announce(replace(HELLO, message=str(one)))) for one in range(100)]
    await until(lambda: len(api.asked("POST", PATH)) == 8)
    await asyncio.sleep(0.05)  # others would be there by now
    assert len(api.asked("POST", PATH)) == 8
    answers.set()
    assert {answer.result for answer in await asyncio.gather(*telling)} == {"done"}


async def test_events_let_scales_that_are_being_written_go_first(bench: Bench) -> None:
    with bench.budget.urgent():
        telling = asyncio.create_task(bench.events.announce(HELLO))
        with bench.budget.urgent():
            await asyncio.sleep(0)
        for _ in range(5):
            await asyncio.sleep(0)
        assert bench.api.asked("POST", PATH) == []
    assert await telling == Answer("done", 200)
    assert len(bench.api.asked("POST", PATH)) == 1
