"""What `explain pod` says of a pod in all: the newest first, and what is past as past."""

from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console

from elasticd.model.reports import Held, PodFound, PodReport, PodStatus, PoolAbout
from elasticd.ui import pods as show_pods
from tests.kit.pools import NOW
from tests.ui.test_journaled import FIRST, GAVE_WAY, PLACED, came, move, over, placed, stays

POOL = PoolAbout("pool", "act", "elasticd", looked=NOW + 148)
HERE = PodFound("uid-web", "elasticd", node="a", phase="Running", policy="pool", policies=("pool",))
ON_A = PodStatus(NOW + 150, NOW + 149, leading=True, pools=(POOL,), found=HERE, inhabited=True)
WAITS = replace(ON_A, found=replace(HERE, node="", latest=placed(145)))
ANEW = replace(ON_A, found=replace(HERE, uid="anew", node="b"))
GONE = replace(ON_A, found=None)
ELSEWHERE = replace(POOL, namespaces=("bank",))


def unclaimed(seen: PodStatus) -> PodStatus:
    """The same when no policy is about the pod any more."""
    assert seen.found is not None
    return replace(seen, pools=(ELSEWHERE,), found=replace(seen.found, policy="", policies=()))


WAITING = placed(
    0, verdict="wait", reason="Unschedulable", message="0/1 nodes are available", node="", mend="a shrinks"
)
BLACKOUT = came(1, PLACED, "refused", "Blackout", message="no pod is moved: until 06:00")
DISTURBED = came(61, FIRST, "refused", "Disturbed", message="1 pod of its controller went")


def told(story: PodReport, seen: PodStatus | str = ON_A) -> list[str]:
    """The lines, 150 s after the pod was placed."""
    console = Console(width=200, color_system=None)
    with console.capture() as capture:
        known = {"unseen": seen} if isinstance(seen, str) else {"seen": seen}
        console.print(show_pods.explain("shop/web", replace(story, **known), NOW + 150))
    return [line.rstrip() for line in capture.get().splitlines()]


@pytest.mark.parametrize(
    ("story", "seen", "first"),
    [
        pytest.param(
            PodReport(PLACED, (came(1, PLACED),)),
            ON_A,
            ["shop/web  policy pool (act), 2 min ago", "bind to a: Placed", "now: it is on a"],
            id="placed",
        ),
        pytest.param(
            PodReport(WAITING),
            WAITS,
            [
                "shop/web  policy pool (act), 2 min ago, last looked at 5.0 s ago",
                "wait: Unschedulable, 0/1 nodes are available",
                "now: it waits for a node",
            ],
            id="waiting",
        ),
        pytest.param(
            PodReport(PLACED, (BLACKOUT,)),
            WAITS,
            [
                "shop/web  policy pool (act), 2 min ago, last looked at 5.0 s ago",
                "bind to a: Placed; refused: Blackout, no pod is moved: until 06:00",
                "now: it waits for a node",
            ],
            id="refused by the broker",
        ),
        pytest.param(
            PodReport(PLACED),
            WAITS,
            [
                "shop/web  policy pool (act), 2 min ago, last looked at 5.0 s ago",
                "bind to a: Placed; no answer is recorded",
                "now: it waits for a node",
            ],
            id="not answered yet",
        ),
        pytest.param(
            PodReport(replace(PLACED, mode="observe")),
            WAITS,
            [
                "shop/web  policy pool (observe), 2 min ago, last looked at 5.0 s ago",
                "(observe) bind to a: Placed",
                "now: it waits for a node",
            ],
            id="only observed",
        ),
        pytest.param(
            PodReport(PLACED, (came(1, PLACED, message="dry run: not sent"),)),
            ON_A,
            ["shop/web  policy pool (act), 2 min ago", "bind to a: Placed; dry run: not sent", "now: it is on a"],
            id="in a dry run",
        ),
        pytest.param(
            PodReport(PLACED, (), FIRST, (DISTURBED,)),
            ON_A,
            [
                "shop/web  policy pool (act), 90 s ago, last looked at 2.0 s ago",
                "should leave a for b: Drain; refused: Disturbed, 1 pod of its controller went",
                "now: it is on a",
            ],
            id="a move that is held back",
        ),
        pytest.param(
            PodReport(PLACED, (), FIRST, (came(61, FIRST),), gone=NOW + 65),
            GONE,
            [
                "shop/web  policy pool (act), 90 s ago",
                "left a for b: Drain",
                "now: it is gone: no pod of this name waits or runs",
            ],
            id="moved",
        ),
        pytest.param(
            PodReport(PLACED, (), stays(60), gone=NOW + 90),
            GONE,
            [
                "shop/web  policy pool (act), 90 s ago",
                "should leave a: Drain; stays: NoOtherNode, no room; it has left a since, 60 s ago",
                "now: it is gone: no pod of this name waits or runs",
            ],
            id="it went by itself",
        ),
        pytest.param(
            PodReport(moving=over(60, "NotWanted", message="it need not go any more")),
            ON_A,
            [
                "shop/web  policy pool (act), 90 s ago",
                "no longer to leave a: NotWanted, it need not go any more",
                "now: it is on a",
            ],
            id="it need not go any more",
        ),
        pytest.param(
            PodReport(PLACED, (came(1, PLACED),), gave_way=GAVE_WAY),
            GONE,
            [
                "shop/web  policy pool",
                "was preempted for shop/urgent on a 60 s ago",
                "now: it is gone: no pod of this name waits or runs",
            ],
            id="it was preempted",
        ),
        pytest.param(
            PodReport(moving=stays(60), gave_way=GAVE_WAY),
            GONE,
            [
                "shop/web  policy pool",
                "was preempted for shop/urgent on a 60 s ago",
                "now: it is gone: no pod of this name waits or runs",
                "",
                "shop/web  policy pool (act), 90 s ago",
                "should leave a: Drain; stays: NoOtherNode, no room",
            ],
            id="it was preempted, though it was to be moved",
        ),
        pytest.param(
            PodReport(replace(PLACED, at=NOW + 100), gave_way=GAVE_WAY),
            ANEW,
            [
                "shop/web  policy pool (act), 50 s ago",
                "bind to a: Placed; no answer is recorded",
                "now: another pod of this name is on b",
            ],
            id="it was recreated",
        ),
        pytest.param(
            PodReport(PLACED, (came(1, PLACED),)),
            "no daemon answers",
            [
                "shop/web  policy pool (act), 2 min ago",
                "bind to a: Placed",
                "told from the journal alone: no daemon answers",
            ],
            id="by the journal alone",
        ),
    ],
)
def test_the_first_lines_show_the_newest_event_and_node(
    story: PodReport, seen: PodStatus | str, first: list[str]
) -> None:
    assert told(story, seen)[: len(first)] == first


@pytest.mark.parametrize(
    ("story", "seen", "first"),
    [
        pytest.param(
            PodReport(PLACED, (), stays(60)),
            unclaimed(ON_A),
            [
                "shop/web  policy pool (act), 90 s ago",
                "before: should leave a: Drain; stays: NoOtherNode, no room",
                "now: it is on a; no policy is about namespace shop (pool: bank)",
            ],
            id="it should have left",
        ),
        pytest.param(
            PodReport(PLACED, (), over(60, "NotWanted", message="it need not go any more")),
            replace(unclaimed(ON_A), pools=()),
            [
                "shop/web  policy pool (act), 90 s ago",
                "no longer to leave a: NotWanted, it need not go any more",
                "now: it is on a; no policy in force has a table [pool]",
            ],
            id="that is over already",
        ),
        pytest.param(
            PodReport(WAITING),
            unclaimed(WAITS),
            [
                "shop/web  policy pool (act), 2 min ago",
                "before: wait: Unschedulable, 0/1 nodes are available",
                "now: it waits for a node; no policy is about namespace shop (pool: bank)",
            ],
            id="it waits still",
        ),
        pytest.param(
            PodReport(PLACED, (came(1, PLACED),)),
            unclaimed(ON_A),
            [
                "shop/web  policy pool (act), 2 min ago",
                "bind to a: Placed",
                "now: it is on a; no policy is about namespace shop (pool: bank)",
            ],
            id="it was placed",
        ),
        pytest.param(
            PodReport(moving=stays(60)),
            replace(ON_A, found=replace(HERE, policy="other", policies=("other",))),
            [
                "shop/web  policy pool (act), 90 s ago",
                "before: should leave a: Drain; stays: NoOtherNode, no room",
                "now: it is on a",
            ],
            id="another policy is about it",
        ),
        pytest.param(
            PodReport(moving=stays(60)),
            replace(ON_A, found=replace(HERE, scheduler="default-scheduler", policy="")),
            [
                "shop/web  policy pool (act), 90 s ago, last looked at 2.0 s ago",
                "should leave a: Drain; stays: NoOtherNode, no room",
                "now: it is on a",
            ],
            id="another scheduler places it, and the policy moves it",
        ),
    ],
)
def test_a_former_policys_decision_is_shown_as_past(story: PodReport, seen: PodStatus, first: list[str]) -> None:
    lines = told(story, seen)
    assert lines[: len(first)] == first
    assert ("What would have to change" in lines) is False


DRY = "dry run: not sent"


@pytest.mark.parametrize(
    ("story", "seen", "lines"),
    [
        pytest.param(
            PodReport(PLACED, (came(1, PLACED),), gave_way=replace(GAVE_WAY, message=DRY)),
            replace(ON_A, found=replace(HERE, pretended="evicted")),
            [
                "was preempted for shop/urgent on a 60 s ago; dry run: not sent",
                "now: in the dry run it was evicted; in the cluster it still runs on a",
            ],
            id="it would have been preempted",
        ),
        pytest.param(
            PodReport(moving=FIRST, moved=(came(61, FIRST, message=DRY),)),
            replace(ON_A, found=replace(HERE, pretended="moved", seen="b")),
            [
                "left a for b: Drain; dry run: not sent",
                "now: in the dry run it was moved to b; in the cluster it still runs on a",
            ],
            id="it would have been moved",
        ),
        pytest.param(
            PodReport(PLACED, (came(1, PLACED, message=DRY),)),
            replace(ON_A, found=replace(HERE, node="", pretended="bound", seen="a", latest=placed(1))),
            [
                "bind to a: Placed; dry run: not sent",
                "now: in the dry run it was bound to a; in the cluster it still waits for a node",
            ],
            id="it would have been placed",
        ),
    ],
)
def test_a_dry_run_shows_where_the_pod_really_is(story: PodReport, seen: PodStatus, lines: list[str]) -> None:
    head, *found = told(story, seen)
    assert found[:2] == lines
    assert ("looked at" in head) == (story.moving is not None)


@pytest.mark.parametrize(
    ("story", "heads"),
    [
        pytest.param(
            PodReport(PLACED, (), FIRST, gave_way=GAVE_WAY), ["was preempted", "should leave", "bind to"], id="all"
        ),
        pytest.param(
            PodReport(PLACED, (), move(120), gave_way=GAVE_WAY),
            ["should leave", "was preempted", "bind to"],
            id="by time",
        ),
        pytest.param(PodReport(placed(100), gave_way=GAVE_WAY), ["bind to", "was preempted"], id="it waited again"),
    ],
)
def test_what_was_decided_stands_with_the_newest_first(story: PodReport, heads: list[str]) -> None:
    lines = told(story)
    found = [lines[index + 1] for index, line in enumerate(lines) if line.startswith("shop/web  policy")]
    assert [line.startswith(head) for line, head in zip(found, heads, strict=True)] == [True] * len(heads)


@pytest.mark.parametrize(
    ("story", "seen", "mends"),
    [
        pytest.param(PodReport(WAITING), WAITS, True, id="it waits"),
        pytest.param(PodReport(WAITING), "no daemon answers", True, id="as far as is known"),
        pytest.param(PodReport(WAITING), GONE, False, id="it is gone"),
        pytest.param(PodReport(WAITING), ON_A, False, id="it has a node"),
        pytest.param(PodReport(WAITING, gave_way=GAVE_WAY), WAITS, False, id="something has happened since"),
        pytest.param(
            PodReport(replace(WAITING, at=NOW + 100), gave_way=GAVE_WAY), WAITS, True, id="it was preempted before"
        ),
    ],
)
def test_what_would_have_to_change_is_reported_while_it_would(
    story: PodReport, seen: PodStatus | str, mends: bool
) -> None:
    assert ("What would have to change" in told(story, seen)) is mends


@pytest.mark.parametrize(
    ("latest", "message"),
    [
        pytest.param({}, "0/2 nodes are available", id="as it was last found"),
        pytest.param({"reason": "NoNodeMatches"}, "0/1 nodes are available", id="though not for another reason"),
        pytest.param({"policy": "other"}, "0/1 nodes are available", id="nor by another policy"),
        pytest.param({"verdict": "bind", "node": "a"}, "0/1 nodes are available", id="nor another end"),
    ],
)
def test_a_waiting_pod_shows_the_daemons_latest_reason(latest: dict[str, Any], message: str) -> None:
    last = replace(WAITING, at=NOW + 148, message="0/2 nodes are available", mend="b shrinks", **latest)
    seen = replace(WAITS, found=replace(HERE, node="", latest=last))
    lines = told(PodReport(WAITING), seen)
    assert lines[0] == "shop/web  policy pool (act), 2 min ago, last looked at 2.0 s ago"
    assert lines[1] == f"wait: Unschedulable, {message}"
    assert ("  b shrinks" in lines) is (message == last.message)


def test_a_delayed_move_shows_its_departure_and_earlier_attempts() -> None:
    later = move(120, target="c")
    lines = told(PodReport(moving=later, moved=(DISTURBED, came(121, later)), since=NOW + 60), GONE)
    assert lines[:2] == ["shop/web  policy pool (act), 30 s ago", "left a for c: Drain"]
    assert lines[3] == "wanted by strategy drain, first 90 s ago"
    assert [line.split()[4] for line in lines if line.startswith("evict from")] == ["refused", "done"]


def test_what_is_tried_again_and_again_is_one_row() -> None:
    tries = tuple(came(60 + at, FIRST, "refused", "Disturbed", seconds=0.0) for at in range(9))
    lines = told(PodReport(moving=FIRST, moved=(*tries, came(70, FIRST))))
    rows = [line.split()[2:5] for line in lines if line.startswith("evict from")]
    assert rows == [["shop/web", "a", "refused"], ["shop/web", "a", "done"]]
    assert "and the same 8 times before" in lines


def test_those_held_back_are_counted_by_reason() -> None:
    console = Console(width=200, color_system=None)
    found: list[Any] = [
        Held(stays(0), "NoOtherNode", "no room", NOW),
        Held(FIRST, "Disturbed", "1 pod went", NOW + 140),
    ]
    with console.capture() as capture:
        for part in show_pods.held([found[0], *found], NOW + 150):
            console.print(part)
    lines = capture.get().splitlines()
    assert lines[0] == "held back: 3 pods (2 NoOtherNode, 1 Disturbed)"
    assert lines[-1].split("  ")[-1].strip() == "10 s ago"
