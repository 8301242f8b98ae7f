"""Carrying out: marks first, then the count, and one outcome whatever happens."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.base.clock import VirtualClock
from elasticd.decision.decide import held
from elasticd.decision.workload.zero import ZERO, markings
from elasticd.kit.history import begin
from elasticd.model.actions import Action, Answer, Mark, Resize, Scale
from elasticd.model.policy import Bounds, Policy
from elasticd.model.records import Decision, Outcome, Sizing
from elasticd.model.workload import Ref, Workload
from elasticd.runtime.execute import carry_out
from tests.kit.clusters import Scripted

REF = Ref("shop", "Deployment", "web")
SCALE = Scale(REF, "u", "1", 3, 2, "calm")
FIRST, SECOND = (Mark(REF, f"u{index}", {"a": "1"}, f"web-{index}") for index in (1, 2))
DONE = Answer("done", 200)
FORBIDDEN = Answer("failed", 403, "may not patch pods", "Forbidden")
TIDY, ASLEEP = Mark(REF, "u", {"a": None}, version="1"), Mark(REF, "u", {"a": "1"}, reason="goes to 0 by decision")
GONE = Answer("conflict", 404, "it is gone", "NotFound")


def decision(action: Scale | None, *marks: Mark, mode: Any = "act") -> Decision:
    policy = Policy(name="p", replicas=Bounds(9), strategies=(), mode=mode)
    return replace(held(policy, REF, 10.0, "R", ""), current=3, action=action, marks=marks)


class Cluster(Scripted):
    """Answers as it is told, and remembers what it was asked to do."""

    def __init__(self, answer: Callable[[Action], Answer]) -> None:
        super().__init__()
        self.done: list[Action] = []
        self._answer = answer

    async def act(self, action: Action) -> Answer:
        self.done.append(action)
        return self._answer(action)


async def carried(given: Decision, *answers: Answer) -> tuple[list[Action], Outcome]:
    """With these answers to the first actions; all others are done."""
    said = iter(answers)
    cluster = Cluster(lambda _: next(said, DONE))
    (outcome,) = [one async for one in carry_out(cluster, VirtualClock(10.0), given)]
    return cluster.done, outcome


@pytest.mark.parametrize(
    ("given", "answers", "asked", "result", "message"),
    [
        pytest.param(decision(SCALE), [], [SCALE], "done", "", id="a scale alone"),
        pytest.param(decision(SCALE, FIRST, SECOND), [], [FIRST, SECOND, SCALE], "done", "", id="marks first"),
        pytest.param(decision(None, FIRST), [], [FIRST], "done", "", id="marks alone"),
        pytest.param(
            decision(SCALE, FIRST, SECOND), [GONE], [FIRST, SECOND, SCALE], "done", "", id="a pod that is gone"
        ),
        pytest.param(
            decision(SCALE, FIRST, SECOND),
            [FORBIDDEN],
            [FIRST],
            "failed",
            "web-1 could not be marked: may not patch pods",
            id="without its mark the wrong pod would go",
        ),
        pytest.param(
            decision(SCALE, ASLEEP),
            [FORBIDDEN],
            [ASLEEP],
            "failed",
            "shop/Deployment/web could not be marked (goes to 0 by decision): may not patch pods",
            id="without its mark nobody would wake it",
        ),
        pytest.param(decision(SCALE, TIDY), [FORBIDDEN], [TIDY, SCALE], "done", "", id="no scaling waits for tidying"),
        pytest.param(
            decision(None, TIDY),
            [FORBIDDEN],
            [TIDY],
            "failed",
            "shop/Deployment/web could not be marked: may not patch pods",
            id="tidying alone tells what came of it",
        ),
        pytest.param(decision(SCALE, FIRST, mode="observe"), [], [], "observed", "mode = observe", id="only observed"),
    ],
)
async def test_what_is_done_in_which_order(
    given: Decision, answers: list[Answer], asked: list[Action], result: str, message: str
) -> None:
    done, outcome = await carried(given, *answers)
    assert done == asked
    assert (outcome.result, outcome.message) == (result, message)


@pytest.mark.parametrize(
    ("version", "result", "scaled"),
    [pytest.param("1", "done", True, id="as judged"), pytest.param("2", "conflict", False, id="changed meanwhile")],
)
async def test_two_marks_of_one_version_are_both_written(version: str, result: str, scaled: bool) -> None:
    """As those of a zero whose mark a rollback brought back: the first changes the version."""
    present = [version]

    def answer(action: Action) -> Answer:
        if isinstance(action, Mark) and action.version not in ("", present[-1]):
            return Answer("conflict", 409, "it changed", "Conflict")
        present.append(f"{present[-1]}+")
        return DONE

    workload = Workload(REF, "u", "1", 3, rolled_back=(ZERO,))
    cluster = Cluster(answer)
    given = decision(SCALE, *markings("p", workload, 0, begin(0.0, 2)))
    (outcome,) = [one async for one in carry_out(cluster, VirtualClock(10.0), given)]
    assert (outcome.result, SCALE in cluster.done) == (result, scaled)


async def test_an_outcome_of_marks_alone_reports_no_scaling() -> None:
    _, outcome = await carried(decision(None, FIRST))
    assert (outcome.before, outcome.after, outcome.condition) == (3, 3, None)


async def test_outcome_of_a_scale_says_what_the_hpa_would() -> None:
    _, outcome = await carried(decision(SCALE, FIRST))
    assert (outcome.before, outcome.after) == (3, 2)
    assert outcome.condition is not None
    assert outcome.condition.reason == "SucceededRescale"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        pytest.param(RuntimeError("oh"), "RuntimeError", id="a cluster that raises"),
        pytest.param(asyncio.CancelledError(), "Stopped", id="the daemon stops"),
    ],
)
async def test_whatever_happens_there_is_an_outcome(error: BaseException, reason: str) -> None:
    def fail(_: Action) -> Answer:
        raise error

    (outcome,) = [one async for one in carry_out(Cluster(fail), VirtualClock(10.0), decision(SCALE))]
    assert (outcome.result, outcome.reason) == ("failed", reason)


RESIZES = tuple(Resize(REF, f"u{index}", f"web-{index}", {}, {"main": {"cpu": 1.0}}) for index in (1, 2))
FULL = Answer("refused", 0, "n has 0 cpu left", "NoRoom")
ONLY = Answer("refused", 0, "recommended only", "NoInPlaceResize")


@pytest.mark.parametrize(
    ("mode", "answers", "asked", "outcomes"),
    [
        pytest.param("act", [], 2, [("done", "u1"), ("done", "u2")], id="one after the other"),
        pytest.param("act", [GONE], 2, [("conflict", "u1"), ("done", "u2")], id="one that is gone harms no other"),
        pytest.param("act", [FORBIDDEN], 2, [("failed", "u1"), ("done", "u2")], id="nor does one that fails"),
        pytest.param("act", [FULL], 2, [("refused", "u1"), ("done", "u2")], id="one without room rests all the same"),
        pytest.param("act", [ONLY], 1, [("refused", "")], id="a server that cannot is asked once"),
        pytest.param("observe", [], 0, [], id="only observed"),
    ],
)
async def test_each_resize_has_an_outcome_saying_whether_it_was_sent(
    mode: str, answers: list[Answer], asked: int, outcomes: list[tuple[str, str]]
) -> None:
    said = iter(answers)
    cluster = Cluster(lambda _: next(said, DONE))
    given = replace(decision(None, mode=mode), sizing=Sizing(resizes=RESIZES))
    found = [one async for one in carry_out(cluster, VirtualClock(10.0), given)]
    assert cluster.done == list(RESIZES[:asked])
    assert [(one.result, one.resized) for one in found] == outcomes
    assert {(one.before, one.after, one.condition) for one in found} <= {(3, 3, None)}
    assert all(one.message.startswith("web-") for one in found if one.result != "done")
