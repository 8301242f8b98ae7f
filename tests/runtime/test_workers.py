"""Judgement in a thread: one that blocks is named, held, and keeps nobody waiting for long."""

import asyncio
import re
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from inspect import getsourcelines
from typing import Any, cast

import pytest

from elasticd.api import Observation, Recommendation, Strategy, hookimpl
from elasticd.decision.decide import Case, Evaluated, evaluate
from elasticd.kit.history import begin
from elasticd.registry import Hooks
from elasticd.runtime import workers
from elasticd.runtime.workers import DecisionWorker, SeparateWorker, ThreadWorker, at_once
from elasticd.testing import observation
from tests.kit.loops import WEB, Play, Want, policy

GATE = threading.Event()
"""What the blocking strategies wait for; every test opens it in the end."""

BLOCKED: dict[threading.Thread, float] = {}
"""The threads that have come to the gate, and the seconds that they wait there."""


Judge = ThreadWorker[Case, Evaluated]


@pytest.fixture(autouse=True)
def _gate() -> Iterator[None]:
    GATE.clear()
    BLOCKED.clear()
    yield
    GATE.set()


def newest_thread() -> threading.Thread:
    """The thread of the judge that started one last."""
    return [thread for thread in threading.enumerate() if thread.name == "judge"][-1]


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Judge:
    """One whose patience ends when its thread waits at the gate and only then, however busy the machine is."""
    made, real = DecisionWorker(), asyncio.timeout

    async def watch(limit: asyncio.Timeout) -> None:
        while GATE.is_set() or newest_thread() not in BLOCKED:  # noqa: ASYNC110  # a thread of which nobody tells the loop
            await asyncio.sleep(0.001)
        limit.reschedule(0)

    @asynccontextmanager
    async def timeout(_: float) -> AsyncIterator[None]:
        async with real(None) as limit:
            watching = asyncio.create_task(watch(limit))
            try:
                yield
            finally:
                watching.cancel()

    monkeypatch.setattr(asyncio, "timeout", timeout)
    return made


class Blocks(Strategy, tag="blocks", frozen=True):
    """Waits for the gate, wherever its option says."""

    how: str = "here"

    @hookimpl
    def recommend_replicas(self, observation: Observation) -> Recommendation:
        if self.how == "here":
            GATE.wait(BLOCKED.setdefault(threading.current_thread(), 3600))  # here
        elif self.how == "deeper":
            self.deeper()
        else:
            pause = BLOCKED.setdefault(threading.current_thread(), 0.001)  # once: the next test begins with none
            while not GATE.wait(pause):  # loops
                continue
        return Recommendation(1, "Late")

    def deeper(self) -> None:
        GATE.wait(BLOCKED.setdefault(threading.current_thread(), 3600))  # deeper


class Fixed(Strategy, tag="fixed", frozen=True):
    @hookimpl
    def recommend_replicas(self) -> Recommendation:
        return Recommendation(3, "Fixed")


def case(name: str, *strategies: Strategy, hooks: Any = None) -> Case:
    seen = observation([0.5, 0.5])
    return Case(policy(name, *strategies), seen, begin(seen.at, 2), hooks or Hooks(strategies))


def line(comment: str) -> int:
    lines, first = getsourcelines(Blocks)
    return first + next(i for i, text in enumerate(lines) if text.endswith(f"# {comment}\n"))


def short(found: Sequence[Evaluated | str]) -> list[str]:
    return [one if isinstance(one, str) else one.decision.reason for one in found]


async def test_it_decides_as_one_would_at_once() -> None:
    cases = [case(f"p{number}", Fixed()) for number in range(20)]
    assert await DecisionWorker()(cases) == await at_once(evaluate)(cases)


async def test_nothing_to_decide_is_decided() -> None:
    assert await DecisionWorker()([]) == []


@pytest.mark.parametrize(
    ("how", "function"), [("here", "recommend_replicas"), ("deeper", "deeper"), ("loops", "recommend_replicas")]
)
async def test_a_blocking_plugin_is_named_with_file_and_line(judge: Judge, how: str, function: str) -> None:
    found = await judge([case("a", Blocks(how=how))])
    assert found == [f"stuck in test_workers.py:{line(how)} {function}"]


class Undated(Strategy, tag="undated", frozen=True):
    def next_change(self, at: float) -> float:
        GATE.wait(BLOCKED.setdefault(threading.current_thread(), 3600))
        return at


async def test_one_that_blocks_in_next_change_is_named(judge: Judge) -> None:
    (found,) = await judge([case("a", Undated())])
    assert isinstance(found, str)
    assert re.fullmatch(r"stuck in test_workers\.py:\d+ next_change", found)


class Slow(float):
    """A number of seconds that does not come back from being looked at."""

    def __ge__(self, other: float) -> bool:
        return GATE.wait(BLOCKED.setdefault(threading.current_thread(), 3600))  # looked at


class Answers(Strategy, tag="answers", frozen=True):
    @hookimpl
    def poll_interval(self) -> float:
        return Slow(5.0)


async def test_an_answer_that_blocks_in_a_comparison_is_located_there(judge: Judge) -> None:
    found = await judge([case("a", Answers())])
    at = Slow.__ge__.__code__.co_firstlineno + 1
    assert found == [f"stuck in test_workers.py:{at} __ge__"]


async def test_the_others_are_decided_before_and_behind_it(judge: Judge) -> None:
    cases = [case("a", Fixed()), case("b", Blocks()), case("c", Fixed()), case("d", Blocks()), case("e", Fixed())]
    found = short(await judge(cases))
    assert [found[index] for index in (0, 2, 4)] == ["Fixed"] * 3
    assert all(found[index].startswith("stuck in test_workers.py") for index in (1, 3))


@pytest.mark.slow
async def test_a_policy_with_a_thousand_workloads_is_waited_for_once(judge: Judge) -> None:
    cases = [case("a", Blocks()), *[case(name, Blocks() if name == "a" else Fixed()) for name in "abac" * 250]]
    found = short(await judge(cases))
    assert len(BLOCKED) == 1  # one thread, not five hundred
    assert [reason == "Fixed" for reason in found] == [one.policy.name != "a" for one in cases]


async def test_many_quick_cases_may_take_longer_together_than_one_may() -> None:
    class Slow(Strategy, tag="slow", frozen=True):
        @hookimpl
        def recommend_replicas(self) -> Recommendation:
            time.sleep(0.05)
            return Recommendation(3, "Slow")

    cases = [case(f"p{number}", Slow()) for number in range(25)]
    assert short(await DecisionWorker(patience=1.0)(cases)) == ["Slow"] * 25


@pytest.mark.parametrize("error", [RecursionError, MemoryError, SystemExit, KeyboardInterrupt, GeneratorExit])
async def test_whatever_is_raised_in_judgement_itself_ends_no_thread(error: type[BaseException]) -> None:
    class Broken:
        def implements(self, _: str) -> bool:
            raise error("deep")

    judge = DecisionWorker(patience=5.0)
    thread = newest_thread()
    found = await judge([case("a", hooks=Broken()), case("b", Fixed())])
    first = cast(Evaluated, found[0]).decision
    assert (first.verdict, first.reason, first.message) == ("hold", "PluginFailed", f"{error.__name__}: deep")
    assert (first.current, first.replicas) == (2, 2)
    assert short(found)[1] == "Fixed"
    assert newest_thread() is thread
    assert thread.is_alive()


async def test_an_abandoned_thread_ends_when_its_call_returns(judge: Judge) -> None:
    await judge([case("a", Blocks())])
    (thread,) = BLOCKED
    assert thread.is_alive()
    GATE.set()
    await asyncio.to_thread(thread.join, 30)
    assert not thread.is_alive()
    assert short(await judge([case("a", Blocks())])) == ["Late"]


async def test_a_stop_of_the_process_is_not_blamed_on_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """After SIGCONT the wait is over at once, though the thread had no time at all."""
    frozen = iter([0.0])
    real = asyncio.timeout
    monkeypatch.setattr(asyncio, "timeout", lambda seconds: real(next(frozen, seconds)))

    class Short(Strategy, tag="short", frozen=True):
        @hookimpl
        def recommend_replicas(self) -> Recommendation:
            time.sleep(0.01)
            return Recommendation(3, "Short")

    assert short(await DecisionWorker(patience=2.0)([case("a", Short())])) == ["Short"]


async def test_a_blocked_policy_is_held_until_reload_while_others_continue(judge: Judge) -> None:
    bad, good = policy("bad", Blocks(), interval=10.0), policy("good", Want(), mode="observe", interval=10.0)
    play = Play(bad, good, worker=judge, web=9)
    await play.to(35)
    first, *more = [one for one in play.made if one.policy == "bad"]
    stuck = f"stuck in test_workers.py:{line('here')} recommend_replicas"
    assert first.message == f"{stuck}; it is not called again until reload"
    assert (first.verdict, first.reason, first.current, first.replicas) == ("hold", "PluginBlocked", 3, 3)
    assert first.failures[0].plugin == stuck
    assert {(one.reason, one.current) for one in more} == {("PluginBlocked", 3)}
    assert len(more) == 3
    assert [one.reason for one in play.made if one.policy == "good"] == ["Wanted"] * 4
    GATE.set()
    play.loop.apply([bad, good])
    await play.to(55)
    assert play.last("bad").reason == "Late"
    assert play.cluster.has[WEB].replicas == 1


class Own(Fixed, tag="own", frozen=True):
    """One that elasticd brings."""


Own.__module__ = "elasticd_plugins.own"


@pytest.mark.parametrize("order", ["ab", "ba"])
async def test_others_wait_only_briefly_for_a_third_party(order: str) -> None:
    cases = {"a": case("a", Blocks()), "b": case("b", Own())}
    found = dict(zip(order, await SeparateWorker(DecisionWorker)([cases[name] for name in order]), strict=True))
    assert short([cast(Evaluated, found["b"])]) == ["Fixed"]
    late = found["a"]
    assert isinstance(late, asyncio.Future)
    GATE.set()
    assert short([await late]) == ["Late"]


async def test_a_third_party_that_is_quick_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "HURRY", 60.0)
    cases = [case("a", Fixed()), case("b", Own()), case("c", Fixed())]
    assert await SeparateWorker(DecisionWorker)(cases) == await at_once(evaluate)(cases)


async def test_a_batch_behind_another_is_not_called_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "HURRY", 0.0)
    worker = SeparateWorker(lambda: DecisionWorker(patience=0.2))
    (first,), (second,) = [await worker([case(name, strategy)]) for name, strategy in (("a", Blocks()), ("b", Fixed()))]
    assert isinstance(first, asyncio.Future)
    assert isinstance(second, asyncio.Future)
    stuck, behind = await first, await second
    assert stuck == f"stuck in test_workers.py:{line('here')} recommend_replicas"
    assert short([behind]) == ["Fixed"]


class Gated:
    """Decides at once, but for the policy `slow`, of which it gives futures; `answers` are those of its cases."""

    def __init__(self) -> None:
        self.answers: list[tuple[Case, asyncio.Future[Evaluated | str]]] = []
        self.asked = asyncio.Event()

    async def __call__(self, cases: Sequence[Case]) -> list[Evaluated | str | asyncio.Future[Evaluated | str]]:
        return [self._later(one) if one.policy.name == "slow" else evaluate(one) for one in cases]

    def _later(self, one: Case) -> "asyncio.Future[Evaluated | str]":
        answer: asyncio.Future[Evaluated | str] = asyncio.get_running_loop().create_future()
        self.answers.append((one, answer))
        self.asked.set()
        return answer

    def answer(self) -> None:
        """Answer the first that has none."""
        one, answer = self.answers.pop(0)
        answer.set_result(evaluate(one))


SLOW, QUICK = policy("slow", Own(), interval=10.0), policy("quick", Want(), mode="observe", interval=10.0)


async def played(worker: Gated, seconds: float) -> Play:
    """Both policies for so many seconds, in which `slow` is asked and has no answer yet."""
    play = Play(SLOW, QUICK, worker=worker)
    while play.clock.now() < seconds:
        await play.loop.step()
    return play


async def test_a_late_decision_is_carried_out_and_delays_no_other() -> None:
    worker = Gated()
    play = await played(worker, 35.0)
    assert len(play.times("quick")) == 4
    assert play.times("slow") == []
    assert len(worker.answers) == 1  # it is not asked again meanwhile
    worker.answer()
    await play.loop.actions.drain()
    assert play.last("slow").reason == "Fixed"
    while not worker.answers:
        await play.loop.step()
    assert play.clock.now() < 60.0  # it is asked again at its next time


async def test_a_late_decision_of_a_policy_replaced_meanwhile_is_none() -> None:
    worker = Gated()
    play = await played(worker, 5.0)
    play.loop.apply([policy("slow", Own(), interval=20.0), QUICK])
    await play.loop.step()
    worker.answer()
    await play.loop.actions.drain()
    assert play.times("slow") == []
    while not worker.answers:  # it is asked again, by the policy in force
        await play.loop.step()
    assert worker.answers[0][0].policy.interval == 20.0


async def test_a_late_decision_after_the_end_is_none() -> None:
    worker = Gated()
    play = Play(SLOW, worker=worker)
    running = asyncio.create_task(play.loop.run())
    await worker.asked.wait()
    running.cancel()
    await asyncio.wait([running])
    worker.answer()
    await play.loop.actions.drain()
    assert play.made == []
    assert play.cluster.acts == []


async def test_a_policy_found_stuck_later_is_held() -> None:
    worker = Gated()
    play = await played(worker, 5.0)
    worker.answers.pop(0)[1].set_result("stuck in x.py:1 f")
    await play.loop.actions.drain()
    assert (play.last("slow").reason, play.last("slow").verdict) == ("PluginBlocked", "hold")


@pytest.mark.slow
def test_a_process_with_a_hanging_plugin_can_exit() -> None:
    code = """
import asyncio, tests.runtime.test_workers as t
print(asyncio.run(t.DecisionWorker(patience=1.0)([t.case("a", t.Blocks())])))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "stuck in test_workers.py" in done.stdout
