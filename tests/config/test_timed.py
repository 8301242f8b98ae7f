"""Reads that never end: they are told, and the next one does not wait for them."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from elasticd.base.errors import LIMITS_OF_THREADS, ConfigError
from elasticd.config import timed
from elasticd.config.timed import LEFT_BEHIND, TimedReads

PLACE = Path("policies")
STUCK = "policies: must be read within 0.05 s, is not: a file or a plugin blocks"


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """What a read waits for until the test has ended."""
    monkeypatch.setattr(timed, "LONGEST", 0.05)
    event = threading.Event()
    yield event
    event.set()


async def test_the_next_read_waits_for_none_before(never: threading.Event) -> None:
    reads = TimedReads()
    for _ in range(LEFT_BEHIND - 1):
        with pytest.raises(ConfigError) as caught:
            await reads(PLACE, never.wait)
        assert str(caught.value).startswith(STUCK)
    timed.LONGEST = 60.0  # however slow the machine is
    assert await reads(PLACE, int, "3") == 3


async def test_no_more_threads_are_stuck_than_allowed(never: threading.Event) -> None:
    reads, before = TimedReads(), threading.active_count()
    for _ in range(LEFT_BEHIND + 3):
        with pytest.raises(ConfigError):
            await reads(PLACE, never.wait)
    assert threading.active_count() <= before + LEFT_BEHIND
    never.set()
    timed.LONGEST = 60.0
    assert await reads(PLACE, int, "3") == 3


async def test_what_a_read_raises_is_raised() -> None:
    with pytest.raises(ValueError, match="three"):
        await TimedReads()(PLACE, int, "three")


async def test_a_read_without_a_thread_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    reads = TimedReads()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with pytest.raises(ConfigError) as raised:
            await reads(PLACE, int, "3")
    assert str(raised.value) == f"{PLACE}: must be readable in a thread, is not: {LIMITS_OF_THREADS}"
    assert await reads(PLACE, int, "3") == 3
