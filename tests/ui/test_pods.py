"""What is said of where a pod goes, and what `moves` prints."""

import pytest
from msgspec.structs import replace
from rich.console import Console

from elasticd.model.moves import Underway
from elasticd.model.placement import NodeScore, PodDecision, PodOutcome
from elasticd.model.reports import PodReport, PodStatus
from elasticd.model.workload import Ref
from elasticd.ui import pods as show_pods
from tests.kit.pools import NOW

POD = Ref("shop", "Pod", "web", "v1")
WAITS = PodDecision(
    "pool:w@1",
    NOW,
    "pool",
    POD,
    "act",
    "wait",
    "Unschedulable",
    "0/5 nodes are available: 2 Insufficient cpu, 3 node(s) were unschedulable",
    nodes=5,
    refusals={"Insufficient cpu": 2, "node(s) were unschedulable": 3},
    binding="tier in [front]",
    mend="a is nearest: pods there would have to request 500m cpu less",
)
BINDS = PodDecision(
    "pool:w@2",
    NOW + 5,
    "pool",
    POD,
    "act",
    "bind",
    "Placed",
    node="a",
    nodes=5,
    scores=(NodeScore("a", 12.5, {"least-requested": 7.5, "balanced": 5.0}), NodeScore("b", None, {"balanced": None})),
)
DONE = PodOutcome("pool:w@2", NOW + 6, "pool", POD, POD, "bind", "a", "done", 201, seconds=0.03)


def printed(thing: object) -> str:
    console = Console(width=200, color_system=None)
    with console.capture() as capture:
        console.print(thing)
    return capture.get()


def explained(decision: PodDecision, *outcomes: PodOutcome, seen: PodStatus | None = None) -> str:
    return printed(show_pods.explain("shop/web", PodReport(decision, outcomes, seen=seen), NOW + 10))


def test_a_waiting_pod_shows_each_refusal_and_its_remedy() -> None:
    text = explained(WAITS)
    assert "Nodes: 5 in the pool, 0 not refused" in text
    assert "2        Insufficient cpu" in text
    assert "  tier in [front]" in text
    assert "  a is nearest: pods there would have to request 500m cpu less" in text
    assert text.index("were unschedulable", text.index("refused")) < text.index("2        Insufficient")


def test_remedies_are_not_shown_for_past_decisions() -> None:
    assert "would have to" not in explained(WAITS, seen=PodStatus(NOW, NOW, leading=True))


def test_a_placed_pod_shows_its_scores_and_the_outcome() -> None:
    text = explained(BINDS, DONE)
    assert [line.split() for line in text.splitlines() if line.startswith(("a ", "b "))] == [
        ["a", "12.500", "5.000", "7.500"],
        ["b", "unknown", "unknown", "unknown"],
    ]
    assert "bind to  shop/web  a     done    201     0.0 s" in text


def test_a_note_that_is_taken_away_is_reported_as_that() -> None:
    noted = replace(DONE, action="nominate", code=200)
    text = explained(BINDS, noted, replace(noted, node=""))
    rows = [line.split("  ")[0] for line in text.splitlines() if " shop/web " in line]
    assert rows == ["note node", "take the note of a node away"]
    lost = replace(noted, node="", result="failed", reason="Lost")
    assert [show_pods.outcome_line(replace(noted, node="")), show_pods.outcome_line(lost)] == [
        "take the note of a node away",
        "could not take the note of a node away: failed: Lost",
    ]


def test_a_surge_that_is_delayed_names_the_reason() -> None:
    delayed = replace(DONE, action="surge", result="refused", reason="Blackout", message="no pod is moved: nightly")
    assert show_pods.outcome_line(delayed) == "does not leave a now: Blackout, no pod is moved: nightly"


REFUSED = replace(DONE, result="failed", code=422, reason="Invalid", message="refused by policy x")


@pytest.mark.parametrize(
    ("decision", "failed", "line"),
    [
        pytest.param(WAITS, None, f"Unschedulable, {WAITS.message}", id="no node takes it"),
        pytest.param(BINDS, None, "is being bound to a", id="no answer yet"),
        pytest.param(BINDS, REFUSED, "could not bind to a: failed: Invalid, refused by policy x", id="not bound"),
        pytest.param(replace(BINDS, mode="observe"), None, "(observe) bind to a: Placed", id="observe"),
    ],
)
def test_why_a_pod_has_no_node_is_one_line(decision: PodDecision, failed: PodOutcome | None, line: str) -> None:
    assert show_pods.waiting_line(decision, failed) == line


def test_moves_in_flight_show_their_step_and_any_fault() -> None:
    made = Underway(Ref("shop", "Pod", "batch", "v1"), "u", "anew", "gone", 100.0, fault="403 Forbidden: quota")
    surge = Underway(Ref("shop", "Pod", "web-1", "v1"), "w", "surge", "wait: 1 of 2 are ready", 40.0, node="a")
    slow = Underway(Ref("shop", "Pod", "web-2", "v1"), "x", "evicted", "leaving", 80.0, node="b", why="Drained")
    waits = Underway(Ref("shop", "Pod", "web-3", "v1"), "y", "anew", "waiting for a node", 80.0, waits="3 full")
    lines = printed(show_pods.moves([waits, slow, surge, made], 105.0)).splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [
        ["shop/batch", "recreated", "gone"],
        ["shop/web-1", "a", "another"],
        ["shop/web-2", "b", "evicted:"],
        ["shop/web-3", "recreated", "waiting"],
    ]
    assert "3 full" in lines[4]
    assert "evicted: Drained" in lines[3]
    assert "5.0 s" in lines[1]
    assert "403 Forbidden: quota" in lines[1]
    assert "wait: 1 of 2 are ready" in lines[2]
