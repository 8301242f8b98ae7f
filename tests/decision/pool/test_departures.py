"""What keeps the old pods of surges from going, asked just before they go."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from elasticd.decision.pool.departures import Departures
from elasticd.decision.workload.vetoes import FREEZE
from elasticd.kit.evictability import CRITICAL, KARPENTER, OWN, SPARE
from elasticd.kit.handover import FENCE
from elasticd.kit.surge import SURGE
from elasticd.model.actions import Evict
from elasticd.model.disruption import Disruption, DisruptionState
from elasticd.model.placement import DisruptionBudget
from elasticd.model.workload import Pod, Workload
from tests.kit.pools import NOW
from tests.kit.surges import OLD, WEB


def evict(pod: Pod) -> Evict:
    return Evict(pod.ref, pod.uid, pod.node, f"{SURGE} out", owner="w")


def annotated(**annotations: str) -> Workload:
    return replace(WEB, replicas=3, annotations={key: text for key, text in annotations.items() if text})


PAST, AHEAD = "1970-01-01T00:00:01Z", "2099-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("pod", "workload", "word", "said"),
    [
        pytest.param(OLD, WEB, "", "", id="nothing"),
        pytest.param(replace(OLD, annotations={SPARE: "true"}), WEB, "DoNotDisrupt", SPARE, id="do not disrupt"),
        pytest.param(replace(OLD, annotations={KARPENTER: "true"}), WEB, "DoNotDisrupt", KARPENTER, id="by Karpenter"),
        pytest.param(replace(OLD, labels=dict([OWN])), WEB, "Own", "elasticd's own", id="our own"),
        pytest.param(
            replace(OLD, needs=replace(OLD.needs, priority=CRITICAL)), WEB, "Critical", "priority", id="critical"
        ),
        pytest.param(OLD, annotated(**{FREEZE: "both"}), "Frozen", FREEZE, id="frozen both ways"),
        pytest.param(OLD, annotated(**{FREEZE: f"down; until {AHEAD}; by anna"}), "Frozen", "anna", id="paused"),
        pytest.param(OLD, annotated(**{FREEZE: "what"}), "Frozen", FREEZE, id="a freeze that cannot be read"),
        pytest.param(OLD, annotated(**{FREEZE: f"down; until {PAST}"}), "", "", id="a pause that is over"),
        pytest.param(OLD, annotated(**{FREEZE: "up"}), "", "", id="frozen the other way"),
        pytest.param(OLD, annotated(**{FENCE: "takeover"}), "Frozen", FENCE, id="it changes hands"),
    ],
)
def test_a_protected_pod_is_to_stay(pod: Pod, workload: Workload, word: str, said: str) -> None:
    why = Departures(NOW, DisruptionState, ()).protection(workload, pod)
    assert (why[0] if why else "") == word
    assert said in (why[1] if why else "")


def state(**changes: Any) -> DisruptionState:
    gone = Disruption(NOW, "a", "rs", "shop", "uid-gone")
    return DisruptionState(**{"within": 60.0, "most": {"total": 2}, "recent": (gone,), **changes})


def budget(allowed: int, *pods: str) -> DisruptionBudget:
    return DisruptionBudget("shop", "web", frozenset(pods), allowed)


@pytest.mark.parametrize(
    ("disruption", "budgets", "word"),
    [
        pytest.param(state(), (), "", id="nothing"),
        pytest.param(state(), (budget(1, "old"),), "", id="a budget that allows it"),
        pytest.param(state(), (budget(0, "other"),), "", id="a budget of others"),
        pytest.param(state(), (budget(0, "old"),), "Budget", id="a spent budget"),
        pytest.param(state(), None, "BudgetsUnknown", id="budgets that are not known"),
        pytest.param(state(breaker="lost"), (), "Breaker", id="the breaker"),
        pytest.param(state(blackout="nightly"), (), "Blackout", id="a blackout"),
        pytest.param(state(unknown="who led?"), (), "Disturbed", id="not known who went"),
        pytest.param(state(most={"total": 1}), (), "Disturbed", id="a spent budget of our own"),
        pytest.param(state(blackout="nightly"), (budget(0, "old"),), "Blackout", id="ours are named first"),
    ],
)
def test_a_pod_waits_for_what_is_temporary(
    disruption: DisruptionState, budgets: Sequence[DisruptionBudget] | None, word: str
) -> None:
    why = Departures(NOW, lambda: disruption, budgets).delay(OLD, evict(OLD))
    assert (why[0] if why else "") == word


OTHER = replace(OLD, name="other", uid="other")


@pytest.mark.parametrize(
    ("most", "budgets", "word"),
    [
        pytest.param(9, (), "", id="nothing"),
        pytest.param(2, (), "Disturbed", id="our own budget is spent by it"),
        pytest.param(9, (budget(1, "old", "other"),), "Budget", id="a PodDisruptionBudget is"),
        pytest.param(9, (budget(2, "old", "other"),), "", id="one that allows both"),
    ],
)
def test_a_pod_let_go_counts_for_the_next(most: int, budgets: Sequence[DisruptionBudget], word: str) -> None:
    departures = Departures(NOW, lambda: state(most={"total": most}), budgets)
    assert departures.delay(OTHER, evict(OTHER)) is None
    departures.let_go(OLD, evict(OLD))
    why = departures.delay(OTHER, evict(OTHER))
    assert (why[0] if why else "") == word


def test_disruption_is_asked_once_and_only_when_needed() -> None:
    asked: list[float] = []

    def disruption() -> DisruptionState:
        asked.append(NOW)
        return state()

    departures = Departures(NOW, disruption, ())
    departures.protection(WEB, OLD)
    assert asked == []
    for _ in range(3):
        departures.delay(OLD, evict(OLD))
    assert asked == [NOW]


@given(
    most=some.integers(1, 4),
    gone=some.integers(0, 5),
    began=some.integers(0, 5),
    allowed=some.integers(0, 5),
    tries=some.integers(1, 8),
)
def test_no_more_go_than_every_budget_has_left(most: int, gone: int, began: int, allowed: int, tries: int) -> None:
    recent = [Disruption(NOW, "z", "z", "z", f"gone-{index}", begins=index >= gone) for index in range(gone + began)]
    pods = [replace(OLD, name=f"p{index}", uid=f"p{index}") for index in range(tries)]
    shared = budget(allowed, *[pod.uid for pod in pods])
    departures = Departures(NOW, lambda: state(most={"total": most}, recent=tuple(recent)), (shared,))
    went = 0
    for pod in pods:
        if departures.delay(pod, evict(pod)) is None:
            departures.let_go(pod, evict(pod))
            went += 1
    assert went == min(tries, allowed, max(0, most - gone))
