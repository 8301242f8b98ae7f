"""What the loop that moves pods tells: what was not done once for as long as it stays so, and plugins that fail."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.decision.pool.asking import PoolCase
from elasticd.journal import Journal, read
from elasticd.model.actions import Action, Answer, Evict
from elasticd.model.moves import MoveDecision
from elasticd.model.placement import PodOutcome
from tests.kit.pools import NOW, node
from tests.runtime.pools.test_mover import LEAVE, Broken, bench, running

NODES = [node("a", labels=LEAVE), node("b")]
PODS = [running("p", "a"), running("q", "b")]


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        pytest.param([("refused", "Budget")] * 3, ["Budget"], id="the same"),
        pytest.param([("refused", "Budget"), ("refused", "Breaker")], ["Budget", "Breaker"], id="another reason"),
        pytest.param([("refused", "Busy"), ("conflict", "Busy")], ["Busy", "Busy"], id="another result"),
        pytest.param([("refused", "Budget"), ("done", "")], ["Budget", ""], id="done at last"),
        pytest.param([("failed", "Timeout")] * 2, ["Timeout"], id="a failure"),
    ],
)
async def test_a_refused_move_is_reported_once_until_the_answer_changes(
    answers: list[tuple[Any, str]], told: list[str]
) -> None:
    async with bench(NODES, PODS, every=1.0) as it:
        left = iter(answers)

        def answer(_: Action) -> Answer:
            result, reason = next(left)
            return Answer(result, reason=reason)

        it.board.refuse = answer
        async with asyncio.timeout(10):
            while len(it.board.tried(Evict)) < len(answers):
                await it.until(it.clock.now() - NOW + 1)
        assert [one.reason for one in it.heard.outcomes] == told


async def test_a_delayed_move_is_reported_with_its_final_target(tmp_path: Path) -> None:
    async with bench(NODES, PODS, every=10.0, journal=Journal(tmp_path)) as it:
        it.board.refuse = lambda _: Answer("refused", 0, "night", "Blackout")
        await it.until(15)
        it.board.refuse = lambda _: None
        it.board.add(node("c", cpu=64))
        await it.until(35)
        it.journal.close()
    first, last = it.heard.decisions[:2]
    assert [(one.verdict, one.target) for one in (first, last)] == [("move", "b"), ("move", "c")]
    assert first.at < last.at
    assert [(one.reason, one.decision) for one in it.heard.outcomes] == [("Blackout", first.id), ("", last.id)]
    records = [one for one in read(tmp_path) if isinstance(one, MoveDecision | PodOutcome) and one.pod.name == "p"][:4]
    assert [type(one) for one in records] == [MoveDecision, PodOutcome] * 2, "the decision before what came of it"
    assert records[2] == last


async def test_a_move_let_through_at_once_is_reported_once() -> None:
    async with bench(NODES, PODS) as it:
        await it.until(5)
    assert [one.verdict for one in it.heard.decisions] == ["move"]


async def test_a_refusal_is_reported_again_when_the_move_is_renewed() -> None:
    async with bench(NODES, PODS) as it:
        it.board.refuse = lambda _: Answer("refused", 429, "a budget", "Budget")
        await it.until(5)
        for labels in ({}, LEAVE):
            it.board.add(replace(it.board.nodes["a"], labels=labels))
            await it.until(it.clock.now() - NOW + 5)
        assert [one.reason for one in it.heard.outcomes] == ["Budget", "Budget"]


async def test_a_failing_plugin_and_its_switching_off_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with bench([node("a")], [running("p", "a")], every=1.0) as it:
        placer = it.placer
        placer.apply([replace(placer.pools[0].policy, strategies=(Broken(),))])
        await it.until(20)
        assert placer.pools[0].failures.off == {"broken"}
    assert caplog.messages == [
        "policy pool: plugin broken: rebalance_nodes raised RuntimeError: no load",
        "policy pool: plugin broken is switched off until reload",
    ]


async def test_a_plugin_that_does_not_come_back_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def lost(cases: Sequence[PoolCase]) -> list[Any]:
        return ["stuck in slow.py:7 rebind_pods"]

    async with bench([node("a")], [running("p", "a")], planner=lost, every=1.0) as it:
        await it.until(10)
    assert caplog.messages == ["policy pool: stuck in slow.py:7 rebind_pods; it is not called again until reload"]
