"""What the daemon counts of pods and their places."""

from collections.abc import Sequence

from msgspec.structs import replace

from elasticd.model.listener import MovesPlanned, PodsPlanned, PodsWaiting, PoolsApplied
from elasticd.model.moves import MoveDecision, Underway
from elasticd.model.placement import PodDecision, PodOutcome
from elasticd.model.workload import Ref
from elasticd.telemetry.metrics import DaemonMetrics

POD = Ref("shop", "Pod", "web", "v1")


def told() -> DaemonMetrics:
    metrics = DaemonMetrics()
    metrics.on(PodDecision("id", 1.0, "pool", POD, "act", "bind", "Placed"))
    metrics.on(PodOutcome("id", 2.0, "pool", POD, POD, "bind", "a", "conflict", 409, reason="Conflict"))
    metrics.on(PodsPlanned("pool", 0.02))
    metrics.on(PodsWaiting("pool", {"Unschedulable": 3}))
    return metrics


def text(metrics: DaemonMetrics, moves: Sequence[Underway] = ()) -> str:
    return metrics.render(leading=True, journal_failures=0, moves=moves).decode()


def test_decisions_actions_plans_and_who_waits_are_counted() -> None:
    shown = text(told())
    assert 'elasticd_pod_decisions_total{policy="pool",reason="Placed",verdict="bind"} 1.0' in shown
    assert 'elasticd_pod_actions_total{action="bind",policy="pool",reason="Conflict",result="conflict"} 1.0' in shown
    assert 'elasticd_pod_plan_duration_seconds_bucket{le="0.05",policy="pool"} 1.0' in shown
    assert 'elasticd_waiting_pods{policy="pool",reason="Unschedulable"} 3.0' in shown


def test_the_series_of_a_policy_go_with_it() -> None:
    metrics = told()
    metrics.on(PoolsApplied({"other"}))
    assert 'policy="pool"' not in text(metrics)


def test_moves_are_counted_by_decision_and_in_flight_by_kind() -> None:
    metrics = told()
    move = MoveDecision("id", 1.0, "pool", POD, "act", "move", "drain", "Cordoned")
    metrics.on(move)
    metrics.on(replace(move, verdict="refuse", refusal="Budget"))
    stuck = Underway(POD, "u", "anew", "gone", 1.0, fault="exceeded quota")
    metrics.on(MovesPlanned("pool", 0.02, 3))
    over = replace(stuck, fault="", over=True)
    shown = text(metrics, [stuck, replace(stuck, fault=""), replace(stuck, how="surge", fault=""), over])
    assert 'elasticd_move_decisions_total{policy="pool",reason="Cordoned",verdict="move"} 1.0' in shown
    assert 'elasticd_move_decisions_total{policy="pool",reason="Budget",verdict="refuse"} 1.0' in shown
    assert 'elasticd_move_plan_duration_seconds_count{policy="pool"} 1.0' in shown
    assert 'elasticd_moves_failing{policy="pool"} 3.0' in shown
    assert 'elasticd_moves_in_flight{how="anew"} 2.0' in shown
    assert 'elasticd_moves_in_flight{how="surge"} 1.0' in shown
    assert 'elasticd_moves_in_trouble{how="anew"} 1.0' in shown
    assert 'elasticd_moves_in_trouble{how="surge"}' not in shown
