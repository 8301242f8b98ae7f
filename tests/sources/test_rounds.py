"""Asking many at once: who answers, who is late, who is dead."""

import asyncio
from contextlib import aclosing

import pytest

from elasticd.base.clock import VirtualClock
from elasticd.sources.rounds import LATE, Fault, Rounds, describe_silent
from tests.cluster.kubernetes.fake import until


class Crowd:
    """Those who are asked: by name each answers at once, unless it is held or has a fault."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.held: dict[str, asyncio.Event] = {}
        self.faults: dict[str, str] = {}
        self.under_way = self.most = self.cancelled = 0

    async def __call__(self, key: str) -> int:
        self.asked.append(key)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            if key in self.held:
                await self.held[key].wait()
            if self.faults.get(key) == "raise":
                raise ValueError("a mistake of ours")
            if key in self.faults:
                raise Fault(self.faults[key])
            return len(self.asked)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.under_way -= 1


@pytest.fixture
def crowd() -> Crowd:
    return Crowd()


QUICK = (8, 0.02, 5.0)
"""How many are asked at once, and for how many seconds a round waits and an answer may be used."""


async def test_all_are_asked_in_each_round(crowd: Crowd) -> None:
    async with aclosing(Rounds(crowd, VirtualClock(), *QUICK)) as asked:
        assert await asked.round(["a", "b"], 0.0) == ({"a": 1, "b": 2}, {})
        assert await asked.round(["a", "b"], 0.0) == ({"a": 3, "b": 4}, {})
        assert await asked.round([], 0.0) == ({}, {})


@pytest.mark.parametrize(
    ("fault", "why"), [("down", "down"), ("raise", "ValueError: a mistake of ours")], ids=["told", "raised"]
)
async def test_who_fails_harms_no_other_and_is_named(crowd: Crowd, fault: str, why: str) -> None:
    crowd.faults["b"] = fault
    async with aclosing(Rounds(crowd, VirtualClock(), *QUICK)) as asked:
        assert await asked.round(["a", "b"], 0.0) == ({"a": 1}, {"b": why})
        assert asked.describe() == {"asked": 2, "silent": 1, "for_example": {"b": why}}
        del crowd.faults["b"]
        answers, faults = await asked.round(["a", "b"], 0.0)
        assert (list(answers), faults) == (["a", "b"], {})


async def test_late_answer_serves_the_next_round(crowd: Crowd) -> None:
    crowd.held["slow"] = asyncio.Event()
    async with aclosing(Rounds(crowd, VirtualClock(), *QUICK)) as asked:
        assert await asked.round(["a", "slow"], 0.0) == ({"a": 1}, {"slow": "no answer yet"})
        assert "slow" not in (await asked.round(["a", "slow"], 0.0))[0]
        assert crowd.asked == ["a", "slow", "a"]
        crowd.held["slow"].set()
        await until(lambda: crowd.under_way == 0)
        assert "slow" in (await asked.round(["a", "slow"], 0.0))[0]


async def test_a_slow_target_is_awaited_once_until_quick_again(crowd: Crowd) -> None:
    async def seconds(asked: Rounds[int]) -> float:
        begun = asyncio.get_running_loop().time()
        await asked.round(["a", "slow"], 0.0)
        return asyncio.get_running_loop().time() - begun

    crowd.held["slow"] = asyncio.Event()
    async with aclosing(Rounds(crowd, VirtualClock(), 8, 0.3, 5.0)) as asked:
        assert await seconds(asked) >= 0.29
        assert [await seconds(asked) < 0.1 for _ in range(3)] == [True] * 3
        crowd.held["slow"].set()
        await until(lambda: crowd.under_way == 0)
        await seconds(asked)  # it is quick again, which is only known afterwards
        await until(lambda: crowd.under_way == 0)
        crowd.held["slow"] = asyncio.Event()
        assert await seconds(asked) >= 0.29


async def test_answer_serves_while_the_next_is_late_and_no_longer(crowd: Crowd) -> None:
    async with aclosing(Rounds(crowd, VirtualClock(100.0), *QUICK)) as asked:
        await asked.round(["a"], 100.0)
        crowd.held = {"a": asyncio.Event()}
        assert await asked.round(["a"], 105.0) == ({"a": 1}, {})
        assert await asked.round(["a"], 105.1) == ({}, {"a": LATE})


async def test_answer_serves_no_longer_once_the_next_question_failed(crowd: Crowd) -> None:
    async with aclosing(Rounds(crowd, VirtualClock(100.0), *QUICK)) as asked:
        await asked.round(["a"], 100.0)
        crowd.faults["a"] = "down"
        assert await asked.round(["a"], 101.0) == ({}, {"a": "down"})


async def test_only_so_many_are_asked_at_once(crowd: Crowd) -> None:
    names = [str(number) for number in range(50)]
    async with aclosing(Rounds(crowd, VirtualClock(), 8, 5.0, 5.0)) as asked:
        gate = asyncio.Event()
        crowd.held = dict.fromkeys(names, gate)
        task = asyncio.create_task(asked.round(names, 0.0))
        await until(lambda: crowd.under_way == 8)
        gate.set()
        assert len((await task)[0]) == 50
    assert crowd.most == 8


async def test_dead_ones_however_many_do_not_keep_the_living_waiting(crowd: Crowd) -> None:
    dead = [f"dead-{number}" for number in range(40)]
    crowd.faults = dict.fromkeys(dead, "down")
    async with aclosing(Rounds(crowd, VirtualClock(), *QUICK)) as asked:
        await asked.round([*dead, "a"], 0.0)
        crowd.held = {name: asyncio.Event() for name in dead}
        answers, faults = await asked.round([*dead, "a"], 0.0)
        assert (list(answers), len(faults)) == (["a"], 40)
        assert crowd.under_way == 2


async def test_a_target_no_longer_wanted_is_forgotten_and_not_awaited(crowd: Crowd) -> None:
    crowd.held["a"] = asyncio.Event()
    async with aclosing(Rounds(crowd, VirtualClock(), *QUICK)) as asked:
        await asked.round(["a", "b"], 0.0)
        assert await asked.round(["b"], 0.0) == ({"b": 3}, {})
        assert crowd.cancelled == 1
        del crowd.held["a"]
        assert list((await asked.round(["a"], 0.0))[0]) == ["a"]


async def test_a_target_dropped_while_queued_can_be_asked_again(crowd: Crowd) -> None:
    crowd.held["a"] = asyncio.Event()
    async with aclosing(Rounds(crowd, VirtualClock(), 1, 0.02, 5.0)) as asked:
        await asked.round(["a", "b"], 0.0)
        await asked.round(["a"], 0.0)
        assert crowd.asked == ["a"]
        crowd.held["a"].set()
        await until(lambda: crowd.under_way == 0)
        await asked.round(["a", "b"], 0.0)
        await until(lambda: crowd.asked[-2:] in (["a", "b"], ["b", "a"]) and crowd.under_way == 0)
        assert list((await asked.round(["a", "b"], 0.0))[0]) == ["a", "b"]


async def test_nothing_is_left_running_at_the_end(crowd: Crowd) -> None:
    crowd.held["a"] = asyncio.Event()
    async with aclosing(Rounds(crowd, VirtualClock(), *QUICK)) as asked:
        await asked.round(["a"], 0.0)
        assert crowd.under_way == 1
    assert crowd.under_way == 0


def test_who_did_not_answer_is_reported_in_a_line() -> None:
    assert describe_silent({}, 5, "nodes") == ""
    assert (
        describe_silent({"n1": "down\nand out", "n2": "late"}, 5, "nodes")
        == "2 of 5 nodes did not answer: n1: down and out"
    )
