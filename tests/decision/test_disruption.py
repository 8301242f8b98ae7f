"""What elasticd's own disruption budgets say of evictions; how they are counted is in tests/cluster."""

import math
from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.decision.disruption import refusal, unknown
from elasticd.kit.surge import SURGE
from elasticd.model.actions import Evict, Scale
from elasticd.model.disruption import Disruption, DisruptionMemory, DisruptionState, Refused
from elasticd.model.workload import Ref

GONE = Disruption(0.0, "a", "rs", "shop", "uid-gone")


def evict(name: str = "p", reason: str = "why") -> Evict:
    return Evict(Ref("shop", "Pod", name, "v1"), f"uid-{name}", "a", reason, owner="rs")


def state(**changes: Any) -> DisruptionState:
    return DisruptionState(**{"within": 60.0, "most": {"per_node": 2}, "recent": (GONE,), **changes})


def scale(removes: Evict | None = None) -> Scale:
    return Scale(Ref("shop", "Deployment", "web"), "uid-web", "1", 3, 2, f"{SURGE} down", removes)


ENDS = evict(reason=f"{SURGE} out")
LOWERS = scale(evict(reason=f"{SURGE} down"))
OWN, BEGAN = replace(GONE, uid="uid-p"), replace(GONE, uid="uid-q", begins=True)
FULL = "2 pods of node a went within 60 s, and 2 may"
LOST = "Breaker", "lost"
BUSY = "RollingOut", "it is being rolled out"
SPENT = "Disturbed", "1 pod of node a went within 60 s, 2 would have to go at once, and 2 may"


@pytest.mark.parametrize(
    ("given", "evictions", "expected"),
    [
        pytest.param(DisruptionState(), [evict()], None, id="nothing is restricted by default"),
        pytest.param(state(), [evict()], None, id="one more may go"),
        pytest.param(state(), [evict(), evict("q")], SPENT, id="not two at once"),
        pytest.param(state(busy={"uid-p": BUSY}), [evict("q")], None, id="another pod is busy"),
        pytest.param(state(busy={"uid-p": BUSY}), [evict()], BUSY, id="a busy workload"),
        pytest.param(state(busy={"uid-p": BUSY}), [evict(), evict("q")], SPENT, id="budgets before workloads"),
        pytest.param(
            state(blackout="nightly"), [evict()], ("Blackout", "no pod is moved: nightly"), id="a blackout is first"
        ),
        pytest.param(state(breaker="lost", blackout="nightly"), [evict()], LOST, id="the breaker is earlier"),
        pytest.param(state(), [ENDS], None, id="a surge ends"),
        pytest.param(
            state(blackout="nightly"), [ENDS], ("Blackout", "no pod is moved: nightly"), id="not in a blackout"
        ),
        pytest.param(state(breaker="lost"), [ENDS], LOST, id="the breaker stops it"),
        pytest.param(state(unknown="who led?"), [ENDS], ("Disturbed", "who led?"), id="not while that is unknown"),
        pytest.param(state(recent=(GONE, GONE)), [ENDS], ("Disturbed", FULL), id="two others went"),
        pytest.param(state(recent=(GONE, OWN)), [ENDS], None, id="its own entry does not count"),
        pytest.param(state(recent=(GONE, BEGAN)), [ENDS], None, id="nor a surge that began"),
        pytest.param(state(recent=(GONE, BEGAN)), [evict()], ("Disturbed", FULL), id="for an eviction that does"),
        pytest.param(state(recent=(GONE, GONE)), [LOWERS], ("Disturbed", FULL), id="a lowered count is an eviction"),
        pytest.param(state(blackout="nightly"), [scale()], None, id="a count that names no pod is none"),
    ],
)
def test_evictions_are_refused_for_the_first_reason_in_order(
    given: DisruptionState, evictions: list[Evict], expected: Refused | None
) -> None:
    assert refusal(given, evictions) == expected


def bare(name: str, target: str = "b", namespace: str = "shop") -> Evict:
    """The move of a pod without a controller; without a target, a preemption."""
    return Evict(Ref(namespace, "Pod", name, "v1"), f"uid-{name}", "a", target=target)


AWAY = DisruptionState(most={"per_controller": 2}, away={"shop": {"uid-p": "p", "uid-q": "q"}})
_FIRST = "of namespace shop, moved without a controller, must run again first"
_WAITS = f"{_FIRST}; 2 may be away (per_controller of [disruption])"
TWO_AWAY, ONE_AWAY = ("NotReplaced", f"p and 1 more {_WAITS}"), ("NotReplaced", f"p {_WAITS}")


@pytest.mark.parametrize(
    ("given", "evictions", "expected"),
    [
        pytest.param(AWAY, [bare("r")], TWO_AWAY, id="as many are away as may"),
        pytest.param(AWAY, [bare("r", target="")], None, id="preempted pods wait for room, however long"),
        pytest.param(AWAY, [bare("r", namespace="far")], None, id="another namespace"),
        pytest.param(AWAY, [evict("r")], None, id="it has a controller"),
        pytest.param(AWAY, [bare("p")], None, id="it is one of them: asked again"),
        pytest.param(replace(AWAY, away={"shop": {"uid-p": "p"}}), [bare("r")], None, id="fewer are away"),
        pytest.param(
            replace(AWAY, away={"shop": {"uid-p": "p"}}),
            [bare("r"), bare("s")],
            ONE_AWAY,
            id="two at once would be too many",
        ),
        pytest.param(replace(AWAY, away={}), [bare("r"), bare("s"), bare("t")], None, id="none is away: any at once"),
        pytest.param(replace(AWAY, most={}), [bare("r")], None, id="nothing is restricted by default"),
    ],
)
def test_few_pods_without_a_controller_are_away_at_a_time(
    given: DisruptionState, evictions: list[Evict], expected: Refused | None
) -> None:
    assert refusal(given, evictions) == expected


NEVER = -math.inf
SPENT_FOR = "the budgets of [disruption] count as spent for another"
LED, BEGUN, COPY = "another daemon led", "this journal had not begun", "is an older copy"


@pytest.mark.parametrize(
    ("begun", "latest", "taken_over", "noted", "expected"),
    [
        pytest.param(NEVER, NEVER, NEVER, NEVER, ("", 0), id="nothing ever went"),
        pytest.param(0, 900, 0, 900.9, ("", 0), id="it is in the journal, which was written before the note"),
        pytest.param(0, 900, 0, 400, ("", 0), id="the note is older than the journal"),
        pytest.param(0, 900, 0, 939.9, ("", 0), id="the note is older than the budgets look back"),
        pytest.param(0, 900, 0, 990, (COPY, 50), id="the journal is an older copy"),
        pytest.param(0, NEVER, NEVER, 990, (COPY, 50), id="a copy in which no pod went"),
        pytest.param(980, NEVER, NEVER, 990, (COPY, 50), id="a journal that began before that pod went"),
        pytest.param(995, NEVER, NEVER, 990, (BEGUN, 55), id="a journal that began after that pod went"),
        pytest.param(0, 900, 970, 960, (LED, 30), id="a takeover"),
        pytest.param(970, 900, 970, NEVER, (LED, 30), id="a takeover with a new journal"),
        pytest.param(0, 900, 940, NEVER, ("", 0), id="a takeover that long ago"),
    ],
)
def test_what_is_not_known_counts_as_spent(
    begun: float, latest: float, taken_over: float, noted: float, expected: tuple[str, int]
) -> None:
    why, seconds = expected
    text = unknown(DisruptionMemory(begun, latest, taken_over, noted), 60.0, 1000.0)
    assert (why in text, text.endswith(f"{SPENT_FOR} {seconds} s")) == (True, True) if why else text == ""
