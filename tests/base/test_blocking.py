"""Calls that may block for ever, beside the event loop."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from elasticd.base.blocking import BlockingCall


class Gate:
    """A call that returns how often it was called, once it may."""

    def __init__(self) -> None:
        self.open, self.calls = threading.Event(), 0

    def __call__(self) -> int:
        self.calls += 1
        assert self.open.wait(30), "the test lets it go on"
        return self.calls


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A call that is let go on at the end."""
    made = Gate()
    yield made
    made.open.set()


async def until_answered(call: BlockingCall[int]) -> int:
    """What it returns, asked again and again."""
    while True:
        try:
            return await call.result()
        except TimeoutError:
            await asyncio.sleep(0.01)


async def test_a_call_returns_and_is_made_anew_each_time(gate: Gate) -> None:
    gate.open.set()
    call = BlockingCall(gate, 30, "test")
    assert [await call.result(), await call.result()] == [1, 2]


async def test_those_who_ask_meanwhile_share_one_answer(gate: Gate) -> None:
    call = BlockingCall(gate, 30, "test")
    asking = [asyncio.create_task(call.result()) for _ in range(3)]
    await asyncio.sleep(0)
    gate.open.set()
    assert await asyncio.gather(*asking) == [1, 1, 1]


async def test_one_who_stops_waiting_takes_nothing_from_others(gate: Gate) -> None:
    call = BlockingCall(gate, 30, "test")
    first, second = (asyncio.create_task(call.result()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    gate.open.set()
    assert await second == 1


async def test_a_call_that_blocks_is_given_up_and_begun_once(gate: Gate) -> None:
    call = BlockingCall(gate, 0.02, "test")
    for _ in range(3):
        with pytest.raises(TimeoutError, match="no answer for 0 s"):
            await call.result()
    assert gate.calls == 1
    gate.open.set()
    assert await until_answered(call) == 2


async def test_what_a_call_raises_reaches_who_asks() -> None:
    def fail() -> None:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        await BlockingCall(fail, 30, "test").result()


BLOCKED = """
import asyncio, threading
from elasticd.base.blocking import BlockingCall

async def main():
    try:
        await BlockingCall(threading.Event().wait, 0.02, "test").result()
    except TimeoutError:
        print("given up")

asyncio.run(main())
"""


def test_a_process_ends_though_a_call_blocks() -> None:
    ended = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == "given up\n"
