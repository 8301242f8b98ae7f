"""Actions under way, and what each comes to."""

import asyncio

import pytest

from elasticd.base.clock import VirtualClock
from elasticd.model.actions import Action, Announce, Answer
from elasticd.model.workload import Ref
from elasticd.runtime.actions import Actions, attempt
from tests.kit.board import Board

REF = Ref("shop", "Pod", "web-1", "v1")


async def test_a_key_is_taken_until_its_action_has_ended() -> None:
    actions, gate = Actions[str](), asyncio.Event()

    async def wait() -> None:
        await gate.wait()
        actions.end("a")

    actions.begin("a", "wait", wait())
    await asyncio.sleep(0)
    assert ("a" in actions, "b" in actions, list(actions.keys())) == (True, False, ["a"])
    gate.set()
    await actions.drain()
    assert len(actions) == 0


async def test_an_action_that_raises_harms_no_other() -> None:
    actions, done = Actions[str](), list[str]()

    async def act(name: str) -> None:
        await asyncio.sleep(0)
        actions.end(name)
        if name == "bad":
            raise RuntimeError(name)
        done.append(name)

    for name in ("bad", "good"):
        actions.begin(name, name, act(name))
    await actions.drain()
    assert (done, len(actions)) == (["good"], 0)


@pytest.mark.parametrize(
    ("patience", "result"),
    [pytest.param(None, "done", id="as long as it takes"), pytest.param(0.0, "failed", id="not at all")],
)
async def test_drain_waits_so_long_and_then_cancels(patience: float | None, result: str) -> None:
    actions, clock, results = Actions[str](), VirtualClock(10.0), list[str]()

    async def answer() -> Answer:
        for _ in range(5):
            await asyncio.sleep(0)
        return Answer("done")

    async def act() -> None:
        results.append((await attempt(clock, answer())).answer.result)

    actions.begin("a", "act", act())
    await asyncio.sleep(0)
    await actions.drain(patience)
    assert results == [result]


class Broken(Board):
    """Cannot be asked for anything."""

    async def act(self, action: Action) -> Answer:
        raise RuntimeError("no route to host")


async def test_an_event_that_cannot_be_written_is_passed_over() -> None:
    actions, board = Actions[str](), Broken(VirtualClock(0.0), [], [])
    actions.announce(board, Announce(REF, "uid", "NoSample", "", warning=True), "decision")
    assert len(actions) == 1
    await actions.drain()
    assert len(actions) == 0


@pytest.mark.parametrize(
    ("error", "told"),
    [
        pytest.param(OSError("gone"), ("failed", "OSError"), id="it raises"),
        pytest.param(asyncio.CancelledError(), ("failed", "Stopped"), id="the daemon stops"),
        pytest.param(None, ("done", ""), id="it answers"),
    ],
)
async def test_an_attempt_always_has_an_answer_and_a_time(error: BaseException | None, told: tuple[str, str]) -> None:
    clock = VirtualClock(10.0)

    async def act() -> Answer:
        await clock.sleep_until(12.0)
        if error is not None:
            raise error
        return Answer("done")

    came = await attempt(clock, act())
    assert ((came.answer.result, came.answer.reason), came.at, came.seconds) == (told, 12.0, 2.0)
