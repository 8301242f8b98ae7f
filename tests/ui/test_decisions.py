"""Decisions in words, whatever is in them."""

from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console, Group, RenderableType
from rich.text import Text

from elasticd.decision.workload.jobs import grow, tidy
from elasticd.model.actions import Resize
from elasticd.model.forecast import Forecast, PerPod
from elasticd.model.records import Decision, Outcome, Sizing
from elasticd.model.reports import PolicyInForce, StatusReport
from elasticd.model.workload import (
    Condition,
    LeftOut,
    Limit,
    Measure,
    Quality,
    Recommendation,
    Ref,
    Resizing,
    Resources,
    Series,
)
from elasticd.ui import decisions as show
from elasticd.ui.terminal import seconds
from tests.kit.batches import SET, ended, workload
from tests.kit.records import decision, outcome

CREATE = grow(SET, workload([ended(7)]), 2, "", "")
FIRST = CREATE.names()[0]
(REMOVE,) = tidy(replace(SET, successful_history=0), workload([ended(7)]))


def text(renderable: RenderableType, width: int = 200) -> str:
    console = Console(width=width, color_system=None, markup=False, emoji=False, highlight=False)
    with console.capture() as captured:
        console.print(renderable)
    return captured.get()


def lines(renderable: RenderableType) -> list[list[str]]:
    """Each line's words."""
    return [line.split() for line in text(renderable).splitlines() if line.strip()]


def explained(outcome: Outcome | None = None, **changes: Any) -> list[str]:
    return [" ".join(line) for line in lines(show.explain(decision(60.0, **changes), outcome, 72.0))]


def test_explain_shows_all_parts_of_a_decision_in_order() -> None:
    assert explained(outcome(61.0)) == [
        "shop/Deployment/web policy shop (act), 12 s ago",
        "2 -> 3 replicas: Wanted, more",
        "Samples",
        "series source quality samples total age window",
        "cpu meter fresh 1 0.5 0.0 s 15 s",
        "Wanted: 3 replicas",
        "strategy replicas why",
        "> hpa 3 Wanted",
        "3 cpu 70%, target 50%",
        "Limits",
        "limit allows binds why",
        "rate 1 to any yes ScaleUpLimit",
        "Conditions",
        "condition status why",
        "AbleToScale True ReadyForNewScale",
        "Plugin failures",
        "plugin hook",
        "bad limit raised",
        "Action scale 2 -> 3: done (HTTP 200) in 0.100 s",
        "Next looks again after 30 s (policy)",
    ]


@pytest.mark.parametrize(
    ("limit", "row"),
    [
        (Limit("Rate", "", 1, 5, name="rate", bound=True), "rate 1 to 5 yes Rate"),
        (Limit("Rate", "per min", None, 5, name="rate"), "rate 0 to 5 no Rate: per min"),
        (Limit("Rate", "", 2, None, name="rate"), "rate 2 to any no Rate"),
    ],
    ids=["binds", "no least", "no most"],
)
def test_a_limit_shows_its_interval_reason_and_effect(limit: Limit, row: str) -> None:
    assert row in explained(limits=(limit,))


def wants(strategy: str, replicas: int | None, **changes: Any) -> Recommendation:
    return Recommendation(replicas, "Why", strategy=strategy, **changes)


@pytest.mark.parametrize(
    ("wish", "opinions", "rows"),
    [
        pytest.param(6, (wants("a", 2), wants("b", 6)), ["a 2 Why", "> b 6 Why"], id="what the wish is has a mark"),
        pytest.param(
            6, (wants("a", 6, priority=1), wants("b", 6)), ["> a 6 Why", "b 6 Why"], id="one of equals, by priority"
        ),
        pytest.param(4, (wants("a", 2), wants("b", 5)), ["a 2 Why", "b 5 Why"], id="of a mean nobody has"),
        pytest.param(None, (wants("a", None),), ["a unknown Why"], id="nor what is not known"),
        pytest.param(
            2,
            (wants("a", None, abstains=True, message="it is late"), wants("b", 2)),
            ["a - Why: it is late", "> b 2 Why"],
            id="who has no opinion says why",
        ),
        pytest.param(
            2,
            (wants("a", 2, expires=55.0), wants("b", 2)),
            ["a 2 expired 5.0 s ago: Why", "> b 2 Why"],
            id="what has expired says so and has no mark",
        ),
    ],
)
def test_the_wish_that_was_followed_is_seen_at_a_glance(
    wish: int | None, opinions: tuple[Recommendation, ...], rows: list[str]
) -> None:
    found = explained(wish=wish, recommendations=opinions)
    assert found[found.index("strategy replicas why") + 1 : found.index("Limits")] == rows


@pytest.mark.parametrize(
    ("wish", "replicas", "bound", "title"),
    [
        pytest.param(6, 4, True, "Limits: 6 become 4", id="cut"),
        pytest.param(0, 2, True, "Limits: 0 become 2", id="raised"),
        pytest.param(3, 3, False, "Limits", id="as wished"),
        pytest.param(1, 3, False, "Limits", id="held by something else"),
        pytest.param(None, 3, True, "Limits", id="without a wish"),
    ],
)
def test_what_limits_made_of_the_wish_stands_above_them(
    wish: int | None, replicas: int, bound: bool, title: str
) -> None:
    limit = Limit("Rate", "", 1, 4, name="rate", bound=bound)
    assert title in explained(wish=wish, replicas=replicas, limits=(limit,))


@pytest.mark.parametrize(
    ("series", "line"),
    [
        pytest.param(
            Series("load", "ahead", Quality.FRESH, message="fft", forecast=Forecast("fft", 0.0, 90.0)),
            "load: fft, expires in 30 s",
            id="a forecast that counts",
        ),
        pytest.param(
            Series(
                "load",
                "ahead",
                Quality.STALE,
                message="the forecast expired 30 s ago",
                forecast=Forecast("fft", 0.0, 30.0),
            ),
            "load: the forecast expired 30 s ago",
            id="one that has expired",
        ),
        pytest.param(Series("cpu", "", Quality.EMPTY, message="no sample"), "cpu: no sample", id="what is missing"),
    ],
)
def test_each_remark_about_a_series_has_its_own_line(series: Series, line: str) -> None:
    assert line in explained(series=(series,))


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"action": None}, "Action none"),
        ({"action": CREATE}, "Action create 2 Jobs from transcode-0123abcd-8 on: no answer is recorded"),
        ({"action": None, "removals": (REMOVE,)}, "Action delete 1 Job (HistoryLimit): no answer is recorded"),
        (
            {"action": CREATE, "removals": (REMOVE,)},
            f"Action create 2 Jobs from {FIRST} on, delete 1 Job (HistoryLimit): no answer is recorded",
        ),
        ({}, "Action scale 2 -> 3: no answer is recorded"),
        ({"limits": ()}, "none"),
        ({"recommendations": ()}, "no strategy was asked"),
        ({"series": (), "pods": 4}, "4 pods"),
        ({"verdict": "hold", "wish": 9}, "hold 2 replicas (wanted 9): Wanted, more"),
        ({"verdict": "keep", "wish": 2, "message": ""}, "keep 2 replicas: Wanted"),
        ({"conditions": (Condition("ScalingActive", False, "Why", "so"),)}, "ScalingActive False Why: so"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_what_there_is_none_of_is_said(changes: dict[str, Any], line: str) -> None:
    assert line in explained(**changes)


@pytest.mark.parametrize(
    "hostile", ["[red]x[/red]", "[/nonsense]", ":smile:", "a[cpu]b", "\x1b[31mred\x1b[0m", "a\r\nb\x07"]
)
def test_hostile_text_is_shown_without_controlling_the_terminal(hostile: str) -> None:
    seen = text(show.explain(decision(60.0, reason=hostile, message=hostile, failures=()), None, 60.0))
    seen += text(status(60.0, decision(60.0, reason=hostile)))
    assert "\x1b" not in seen
    assert "\r" not in seen
    if hostile.isprintable():
        assert seen.count(hostile) == 3


DONE = Condition("AbleToScale", True, "SucceededRescale")
MOVED = Condition("AbleToScale", False, "FailedUpdateScale", "version was 1, is 2")
REFUSED = Condition("AbleToScale", False, "FailedUpdateScale", "the lease is lost")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"condition": DONE}, ["done (HTTP 200) in 0.100 s", "AbleToScale True, SucceededRescale"]),
        (
            {"result": "conflict", "code": 409, "reason": "Conflict", "message": MOVED.message, "condition": MOVED},
            ["conflict (Conflict, HTTP 409) in 0.100 s, version was 1, is 2", "AbleToScale False, FailedUpdateScale"],
        ),
        (
            {"result": "refused", "code": 0, "reason": "LeaseLost", "message": REFUSED.message, "condition": REFUSED},
            ["refused (LeaseLost) in 0.100 s, the lease is lost", "AbleToScale False, FailedUpdateScale"],
        ),
        ({"result": "observed", "code": 0}, ["observed in 0.100 s"]),
    ],
    ids=["done", "moved", "not asked", "only observed"],
)
def test_an_outcome_shows_its_reason_and_the_hpa_condition(changes: dict[str, Any], said: list[str]) -> None:
    first, *more = explained(replace(outcome(61.0), **changes))[-len(said) - 1 : -1]
    assert [first.removeprefix("Action scale 2 -> 3: "), *more] == said


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.0, "0.0 s"), (9.94, "9.9 s"), (10, "10 s"), (119, "119 s"), (120, "2 min"), (7199, "120 min"), (7200, "2 h")],
)
def test_a_duration_is_said_as_a_person_says_it(value: float, said: str) -> None:
    assert seconds(value) == said


def status(at: float, *decisions: Decision, **changes: Any) -> Group:
    """What is printed of these by a daemon that leads."""
    return Group(*show.status(replace(StatusReport(True, True, False, decisions), **changes), at))


def test_the_status_says_why_policies_were_kept() -> None:
    kept = "kept the old policies: web.toml: must be TOML"
    assert kept.split() in lines(status(72.0, kept=kept))


def test_the_status_has_a_row_for_each_workload() -> None:
    policies = tuple(PolicyInForce(name, "act") for name in ("shop", "q"))
    shown = status(72.0, decision(60.0), decision(61.0, None, policy="q"), policies=policies)
    assert [" ".join(line) for line in lines(shown)] == [
        "this elasticd leads, 2 policies in force",
        "policy mode workload replicas wanted verdict why poll judged",
        "shop act shop/Deployment/web 2 -> 3 3 scale Wanted 30 s 12 s ago",
        "q act shop/Deployment/web 2 - scale Wanted 30 s 11 s ago",
    ]


def test_the_status_says_that_somebody_else_resizes_pods() -> None:
    sizing = Sizing(unresized="ForeignOwner: updater resized web-0; requests are left alone for 9 s more")
    last = decision(60.0, verdict="keep", replicas=2, sizing=sizing)
    line = "shop act shop/Deployment/web 2 3 keep Wanted; requests: ForeignOwner 30 s 12 s ago"
    assert " ".join(lines(status(72.0, last))[-1]) == line


@pytest.mark.parametrize(
    ("verdict", "result", "reason", "shown"),
    [
        pytest.param("scale", "failed", "Forbidden", "2 -> 3 3 failing Forbidden", id="it fails"),
        pytest.param("scale", "refused", "Breaker", "2 -> 3 3 refused Breaker", id="it is refused again and again"),
        pytest.param("keep", "failed", "Forbidden", "2 3 keep Wanted", id="it is over"),
    ],
)
def test_the_status_says_that_actions_fail(verdict: Any, result: Any, reason: str, shown: str) -> None:
    last = decision(60.0, verdict=verdict, **({} if verdict == "scale" else {"replicas": 2}))
    undone = (Outcome("d", 59.0, "shop", last.workload, result, 2, 3, 403, "cannot patch", reason),)
    shown = f"shop act shop/Deployment/web {shown} 30 s 12 s ago"
    assert " ".join(lines(status(72.0, last, undone=undone))[-1]) == shown


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        pytest.param({}, "this elasticd leads, 0 policies in force", id="it leads"),
        pytest.param(
            {"leading": False, "leader": "b"},
            "this elasticd does not lead, b leads: below is what this one decided before; 0 policies in force",
            id="another leads",
        ),
        pytest.param(
            {"leading": False},
            "this elasticd does not lead, nobody is known to lead: below is what this one decided before; "
            "0 policies in force",
            id="nobody leads",
        ),
        pytest.param(
            {"dry_run": True},
            "this elasticd leads, 0 policies in force; dry run: nothing is sent to the cluster",
            id="a dry run",
        ),
        pytest.param(
            {"running": False, "leading": None, "note": "no elasticd runs"}, "no elasticd runs", id="none runs"
        ),
    ],
)
def test_the_status_says_first_how_the_daemon_stands(changes: dict[str, Any], line: str) -> None:
    assert " ".join(lines(status(72.0, **changes))[0]) == line


@pytest.mark.parametrize(
    ("count", "rest"),
    [
        pytest.param(1, [], id="one"),
        pytest.param(10, [], id="as many as are shown"),
        pytest.param(11, ["and 1 more fault of evicted pods (elasticd moves)"], id="one too many"),
        pytest.param(13, ["and 3 more faults of evicted pods (elasticd moves)"], id="several too many"),
    ],
)
def test_the_status_begins_with_pods_that_are_missing(count: int, rest: list[str]) -> None:
    faults = tuple(f"shop/Pod/v{number} has yet to be\nrecreated" for number in range(count))
    head, *rows = lines(status(72.0, faults=faults, memory="memory is near its limit"))
    assert " ".join(head) == "this elasticd leads, 0 policies in force"
    assert [" ".join(row) for row in rows[:-1]] == [
        *[f"shop/Pod/v{number} has yet to be recreated" for number in range(min(count, 10))],
        *rest,
        "memory is near its limit",
    ]


def test_what_is_missing_is_yellow_in_the_status() -> None:
    _, fault, _ = show.status(StatusReport(True, True, False, (), faults=("gone",)), 0.0)
    assert isinstance(fault, Text)
    assert (fault.plain, fault.style) == ("gone", "yellow")


def test_a_dry_run_is_the_mode_of_who_would_act() -> None:
    rows = lines(status(60.0, decision(60.0), decision(60.0, policy="q", mode="observe"), dry_run=True))
    assert [" ".join(row).split(" shop/")[0] for row in rows[2:]] == ["shop dry run", "q observe"]


def test_policies_without_a_row_are_named() -> None:
    policies = (PolicyInForce("shop", "act"), PolicyInForce("new", "act"), PolicyInForce("batch", "act", pool=True))
    rows = lines(status(60.0, decision(60.0), policies=policies))
    assert [" ".join(row) for row in rows[-2:]] == [
        "nothing is decided yet by: new",
        "policies of pools (elasticd nodes): batch",
    ]


@pytest.mark.parametrize("width", [80, 40, 20])
def test_on_a_narrow_terminal_cells_fold_and_nothing_is_cut(width: int) -> None:
    seen = text(status(60.0, decision(60.0, reason="FailedGetResourceMetric")), width)
    assert max(map(len, seen.splitlines())) <= width
    assert "…" not in seen


ASKED = Resources("main", {"cpu": 0.46, "memory": 575 * 2.0**20}, {"cpu": 1.0}, reason="UsageHistogram", message="p95")
UNKNOWN = Resources("mesh", reason="NotKnown", message="too early")
RESIZE = Resize(Ref("shop", "Deployment", "web"), "u", "web-0", {"main": {"cpu": 1.0}}, {"main": {"cpu": 0.46}})
QUIET: dict[str, Any] = {"action": None, "verdict": "keep"}


def test_requests_are_shown_as_they_are_and_should_be() -> None:
    said = explained(**QUIET, sizing=Sizing((ASKED, UNKNOWN), unresized="Frozen: by a person"))
    start = said.index("Resources")
    assert said[start + 1 : start + 6] == [
        "container resource requests should why",
        "main cpu 1 460m UsageHistogram: p95",
        "main memory - 575Mi UsageHistogram: p95",
        "mesh - - - NotKnown: too early",
        "pods are left as they are: Frozen: by a person",
    ]


def test_pods_being_resized_are_listed_with_the_reason() -> None:
    resizing = [Resizing("web-0", "Deferred", "no room: cpu"), Resizing("web-1", "Infeasible")]
    resizing += [Resizing(f"web-{number}", "InProgress") for number in range(2, 12)]
    said = explained(**QUIET, sizing=Sizing(resizing=tuple(resizing)))
    start = said.index("Resources")
    assert said[start + 2 : start + 5] == [
        "web-0: Deferred: no room: cpu",
        "web-1: Infeasible: its node can never give it what it requests",
        "web-2: InProgress: its kubelet is about to give it what it requests",
    ]
    assert said[start + 12] == "and 2 more pods that are being resized"


@pytest.mark.parametrize(
    ("mode", "given", "line"),
    [
        pytest.param("act", None, "Action resize web-0 (cpu 1 -> 460m): no answer is recorded", id="on its way"),
        pytest.param("observe", None, "Action would resize web-0 (cpu 1 -> 460m)", id="only observed"),
        pytest.param(
            "act", outcome(61.0), "Action resize web-0 (cpu 1 -> 460m): done (HTTP 200) in 0.100 s", id="done"
        ),
    ],
)
def test_a_resize_is_an_action_of_its_own(mode: str, given: Outcome | None, line: str) -> None:
    assert line in explained(given, **QUIET, mode=mode, sizing=Sizing((ASKED,), (RESIZE,)))


@pytest.mark.parametrize(
    ("resource", "value", "told"),
    [("cpu", 0.25, "250m"), ("cpu", 2.0, "2"), ("memory", 2.0**30, "1024Mi"), ("disk", 5.0, "5"), ("cpu", None, "-")],
)
def test_amounts_are_as_a_person_writes_them(resource: str, value: float | None, told: str) -> None:
    assert show.amount(resource, value) == told


WAVE = Forecast(
    "fft",
    fitted=-30.0,
    expires=600.0,
    first=-30.0,
    step=60.0,
    values=(1.0, 2.0, 3.0, 9.0, 4.0),
    lower=(1.0, 1.0, 2.0, 8.0, 3.0),
    upper=(1.0, 3.0, 4.0, 10.0, 5.0),
    period=86400.0,
    skill=0.25,
    error=1.5,
    per_pod=PerPod(0.4, 5.0, 0.95),
)


@pytest.mark.parametrize(
    ("forecast", "expected"),
    [
        pytest.param(
            WAVE,
            [
                "fft, period 24 h, skill 0.25, error 1.5 on what was held out",
                "its last sample is 30 s old, expires in 10 min",
                "in 0.0 s: 1 (1 to 1)",
                "in 30 s: 2 (1 to 3)",
                "in 90 s: 3 (2 to 4)",
                "in 2 min: 9 (8 to 10)",
                "most in 2 min: 9",
                "a pod uses 0.4 x its load + 5 (correlation 0.95)",
            ],
            id="all of it",
        ),
        pytest.param(
            Forecast("holt", -900.0, -60.0, -900.0, values=(1.0,), untaught="no use is known"),
            [
                "holt, no period, skill -, error 0 on what was held out",
                "its last sample is 15 min old, expired 60 s ago",
                "not learnt what a pod uses: no use is known",
            ],
            id="expired",
        ),
        pytest.param(Forecast("", 0.0, 600.0, doubt="no past"), [], id="none"),
    ],
)
def test_a_forecast_is_shown_in_a_few_lines(forecast: Forecast, expected: list[str]) -> None:
    found = text(show.query("shop", Series("load", "ahead", Quality.FRESH, message="why", forecast=forecast), 0.0))
    lines = [line.strip() for line in found.splitlines()]
    assert lines == ["load for policy shop: fresh from ahead", *expected]


@pytest.mark.parametrize(
    ("measure", "line"),
    [
        pytest.param(Measure("orders", "8"), "- orders 8", id="read, and counted by a formula alone"),
        pytest.param(Measure("orders", reason="Unknown", message="x"), "unknown orders -: Unknown: x", id="unknown"),
        pytest.param(Measure("orders", "8", "4", 2), "2 orders 8, target 4", id="with a count of its own"),
    ],
)
def test_a_metric_without_count_and_reason_is_not_unknown(measure: Measure, line: str) -> None:
    assert line in explained(recommendations=(Recommendation(7, "Wanted", "", (measure,), "event"),))


@pytest.mark.parametrize(
    ("left_out", "line"),
    [
        pytest.param(LeftOut("no sample", 1, ("a",)), "without 1 pod (a): no sample", id="one"),
        pytest.param(LeftOut("pending", 2, ("a", "b")), "without 2 pods (a, b): pending", id="all by name"),
        pytest.param(LeftOut("pending", 5, ("a", "b")), "without 5 pods (a, b, 3 more): pending", id="some by name"),
        pytest.param(LeftOut("pending", 5), "without 5 pods: pending", id="none by name"),
    ],
)
def test_pods_left_out_by_a_metric_are_listed_by_reason(left_out: LeftOut, line: str) -> None:
    measure = Measure("cpu", "70%", "50%", 3, left_out=(left_out,))
    said = Recommendation(3, "Wanted", "", (measure,), "hpa")
    told = explained(recommendations=(said,))
    assert told[told.index("3 cpu 70%, target 50%") + 1] == line
