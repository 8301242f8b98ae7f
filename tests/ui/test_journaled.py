"""What the journal says of a pod, and who is held back."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.journal import Journal, Record
from elasticd.model.actions import Evict
from elasticd.model.moves import MoveDecision
from elasticd.model.placement import PodDecision, PodOutcome
from elasticd.model.reports import PodReport
from elasticd.model.workload import Ref
from elasticd.ui.journaled import held, pod_report
from tests.kit.pools import NOW

WEB, URGENT, OTHER = (
    Ref("shop", "Pod", "web", "v1"),
    Ref("shop", "Pod", "urgent", "v1"),
    Ref("bank", "Pod", "web", "v1"),
)


def placed(at: float, **more: Any) -> PodDecision:
    """It was bound, to node a."""
    made = PodDecision(f"pool:web@{at:g}", NOW + at, "pool", WEB, "act", "bind", "Placed", uid="uid-web", node="a")
    return replace(made, **more)


def move(at: float, **more: Any) -> MoveDecision:
    """It should leave node a."""
    evict = Evict(WEB, "uid-web", "a")
    made = MoveDecision(
        f"pool:web@{at:g}",
        NOW + at,
        "pool",
        WEB,
        "act",
        "move",
        "drain",
        "Drain",
        "",
        "uid-web",
        "a",
        "b",
        action=evict,
    )
    return replace(made, **more)


def stays(at: float, refusal: str = "NoOtherNode", **more: Any) -> MoveDecision:
    """And does not."""
    return move(at, verdict="refuse", refusal=refusal, message="no room", action=None, **more)


def over(at: float, reason: str, **more: Any) -> MoveDecision:
    """And need not."""
    return move(at, verdict="over", reason=reason, action=None, **more)


def came(at: float, of: PodDecision | MoveDecision, result: Any = "done", reason: str = "", **more: Any) -> PodOutcome:
    """What came of it."""
    action: Any = "bind" if isinstance(of, PodDecision) else "evict"
    return replace(PodOutcome(of.id, NOW + at, of.policy, of.pod, of.pod, action, "a", result, reason=reason), **more)


def journal(folder: Path, *records: Record) -> Path:
    """A journal that holds these."""
    made = Journal(folder / "state")
    for record in records:
        made.append(record)
    made.close()
    return folder / "state"


PLACED, FIRST, LATER = placed(0), move(60), move(120)
GAVE_WAY = PodOutcome("pool:urgent@90", NOW + 90, "pool", URGENT, WEB, "evict", "a", "done")
NOTED = replace(GAVE_WAY, about=URGENT, action="nominate")


@pytest.mark.parametrize(
    ("records", "told"),
    [
        pytest.param([], PodReport(), id="nothing"),
        pytest.param([PLACED], PodReport(PLACED), id="a placing"),
        pytest.param(
            [PLACED, came(1, PLACED), came(2, PLACED, decision="pool:web@-9")],
            PodReport(PLACED, (came(1, PLACED),)),
            id="with what came of it, and of no other",
        ),
        pytest.param([FIRST], PodReport(moving=FIRST), id="only a move"),
        pytest.param([PLACED, stays(60)], PodReport(PLACED, moving=stays(60)), id="a refusal since"),
        pytest.param([stays(-60), PLACED], PodReport(PLACED), id="one of an earlier pod of its name"),
        pytest.param(
            [PLACED, FIRST, came(61, FIRST, "refused"), came(66, FIRST, decision="pool:web@66")],
            PodReport(PLACED, (), FIRST, (came(61, FIRST, "refused"), came(66, FIRST, decision="pool:web@66"))),
            id="a move that was carried out at a later look",
        ),
        pytest.param(
            [PLACED, FIRST, came(61, FIRST), stays(62, "Leaving"), over(65, "Gone")],
            PodReport(PLACED, (), FIRST, (came(61, FIRST),), gone=NOW + 65),
            id="it has left, and why is what matters",
        ),
        pytest.param(
            [FIRST, came(61, FIRST, "refused"), LATER, came(121, LATER)],
            PodReport(moving=LATER, moved=(came(61, FIRST, "refused"), came(121, LATER)), since=NOW + 60),
            id="one that was held back at first, by the decision by which it left",
        ),
        pytest.param(
            [FIRST, came(61, FIRST, "refused"), over(70, "NotWanted"), LATER, came(121, LATER)],
            PodReport(moving=LATER, moved=(came(121, LATER),), since=NOW + 120),
            id="what came of one that was over is another's",
        ),
        pytest.param(
            [FIRST, came(61, FIRST), over(65, "Gone"), replace(LATER, uid="anew")],
            PodReport(moving=replace(LATER, uid="anew"), since=NOW + 120),
            id="and of an earlier pod of its name",
        ),
        pytest.param([stays(60), over(65, "Gone")], PodReport(moving=stays(60), gone=NOW + 65), id="it left by itself"),
        pytest.param(
            [stays(60), GAVE_WAY, stays(91, "Leaving"), over(95, "Gone")],
            PodReport(moving=stays(60), gave_way=GAVE_WAY),
            id="it left by being preempted, not by the move that was held back",
        ),
        pytest.param(
            [GAVE_WAY, stays(91), over(95, "Gone")],
            PodReport(moving=stays(91), gone=NOW + 95, gave_way=GAVE_WAY),
            id="it was preempted before, and went by itself",
        ),
        pytest.param(
            [FIRST, came(61, FIRST), over(65, "Gone"), GAVE_WAY],
            PodReport(moving=FIRST, moved=(came(61, FIRST),), gone=NOW + 65, gave_way=GAVE_WAY),
            id="it was moved, and was preempted where it went",
        ),
        pytest.param([stays(60), over(65, "NotWanted")], PodReport(moving=over(65, "NotWanted")), id="it need not go"),
        pytest.param([PLACED, over(65, "Gone")], PodReport(PLACED), id="it has left, and more is not kept"),
        pytest.param([PLACED, NOTED, GAVE_WAY], PodReport(PLACED, gave_way=GAVE_WAY), id="it was preempted"),
        pytest.param([GAVE_WAY], PodReport(gave_way=GAVE_WAY), id="and somebody else had placed it"),
        pytest.param([GAVE_WAY, placed(95)], PodReport(placed(95), gave_way=GAVE_WAY), id="and waits again"),
        pytest.param([GAVE_WAY, placed(9999)], PodReport(placed(9999)), id="long ago"),
        pytest.param([PLACED, replace(GAVE_WAY, result="refused")], PodReport(PLACED), id="it was not let go"),
        pytest.param(
            [replace(GAVE_WAY, about=OTHER, pod=WEB), replace(PLACED, pod=OTHER)], PodReport(), id="another namespace's"
        ),
    ],
)
def test_the_newest_decisions_about_a_pod_are_reported(tmp_path: Path, records: list[Record], told: PodReport) -> None:
    found = pod_report(journal(tmp_path, *records), "shop/web")
    since = told.since if told.since is not None or told.moving is None else told.moving.at
    assert found == replace(told, since=since)
    assert found.empty == told.empty


def test_of_one_policy_alone_the_others_are_named(tmp_path: Path) -> None:
    folder = journal(tmp_path, PLACED, stays(60, policy="drain"))
    assert pod_report(folder, "shop/web", "pool") == PodReport(PLACED, others=frozenset({"drain"}))
    assert pod_report(folder, "shop/web", "none") == PodReport(others=frozenset({"drain", "pool"}))


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        pytest.param([stays(0)], [("NoOtherNode", "no room")], id="refused by the plan"),
        pytest.param([stays(0, "Budget")], [("Budget", "no room")], id="a PodDisruptionBudget"),
        pytest.param([stays(0), over(9, "NotWanted")], [], id="wanted no longer"),
        pytest.param([FIRST, came(61, FIRST), over(65, "Gone")], [], id="it has left"),
        pytest.param([FIRST], [], id="it is under way"),
        pytest.param([FIRST, came(61, FIRST)], [], id="it was let go"),
        pytest.param(
            [FIRST, came(61, FIRST, "refused", "Disturbed", message="1 pod went")],
            [("Disturbed", "1 pod went")],
            id="by the broker",
        ),
        pytest.param(
            [FIRST, came(61, FIRST, "refused", "Disturbed"), came(66, FIRST, "refused", "Blackout")],
            [("Blackout", "")],
            id="by the last that came of it",
        ),
        pytest.param([FIRST, came(61, FIRST, "refused", "Disturbed"), came(66, FIRST)], [], id="and was let go then"),
        pytest.param(
            [came(1, FIRST, "refused", "Disturbed"), FIRST], [], id="what came of an earlier one is of no matter"
        ),
        pytest.param([FIRST, came(61, FIRST, "refused", "NoDeployment")], [("NoDeployment", "")], id="no Deployment"),
        pytest.param(
            [replace(FIRST, mode="observe")], [("Observe", 'mode is "observe": nothing is moved')], id="observed"
        ),
        pytest.param([stays(0, "Leaving")], [], id="it is leaving"),
        pytest.param(
            [stays(0), stays(0, "Young", policy="other")],
            [("Young", "no room"), ("NoOtherNode", "no room")],
            id="by two policies",
        ),
        pytest.param([PLACED], [], id="nobody wants it moved"),
    ],
)
def test_who_is_held_back_is_reported_with_the_reason(
    tmp_path: Path, records: list[Record], expected: list[tuple[str, str]]
) -> None:
    assert [(one.reason, one.why) for one in held(journal(tmp_path, *records))] == expected


def test_those_of_one_policy_stand_together(tmp_path: Path) -> None:
    pods = [Ref("shop", "Pod", name, "v1") for name in "cab"]
    records = [stays(0, "Single" if one.name == "a" else "Budget", pod=one) for one in pods]
    assert [one.decision.pod.name for one in held(journal(tmp_path, *records))] == ["b", "c", "a"]
