"""Who is wanted moved no longer."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from elasticd.decision.pool.finished_moves import dropped, over
from elasticd.journal import Journal
from elasticd.model.moves import MoveDecision
from elasticd.model.workload import Failure, Pod, Ref
from tests.kit.pools import NOW, columns, node, pod

SAID = MoveDecision(
    "pool:p@1",
    NOW,
    "pool",
    Ref("shop", "Pod", "p", "v1"),
    "act",
    "refuse",
    "drain",
    "Drain",
    uid="uid-p",
    node="a",
    refusal="NoOtherNode",
)
FAILED = replace(SAID, pod=Ref("", "Pod", "", "v1"), failures=(Failure("drain", "rebind_pods", "raised"),))
OTHER = replace(SAID, pod=Ref("shop", "Pod", "q", "v1"))


@pytest.mark.parametrize(
    ("there", "now", "told"),
    [
        pytest.param([pod("p", on="a")], [SAID], [], id="still wanted"),
        pytest.param([pod("p", on="a")], [OTHER], ["NotWanted"], id="another is"),
        pytest.param([pod("p", on="a")], [], ["NotWanted"], id="nobody is"),
        pytest.param([], [], ["Gone"], id="it has left"),
        pytest.param([pod("p", on="a", deleted=True)], [], ["Gone"], id="it is leaving"),
        pytest.param([pod("p", on="a", uid="anew")], [], ["Gone"], id="another of its name is there"),
        pytest.param([pod("p", on="a", uid="anew")], [SAID], [], id="and is wanted moved too"),
        pytest.param([pod("p", on="a")], [FAILED], [], id="a strategy cannot tell"),
    ],
)
def test_move_is_over_when_it_is_no_longer_wanted(there: list[Pod], now: list[MoveDecision], told: list[str]) -> None:
    found = over([SAID], now, columns([node("a")], there), {"a": there}, (), NOW + 5)
    assert [(one.verdict, one.reason, one.refusal, one.action) for one in found] == [
        ("over", reason, "", None) for reason in told
    ]


def test_pod_missing_after_its_node_left_the_pool_has_left() -> None:
    (found,) = over([SAID], [], columns([node("b")]), {}, (), NOW + 5)
    assert (found.reason, found.message) == ("Gone", "it has left a")


def test_move_from_a_node_that_left_the_pool_ends() -> None:
    there, nodes = {"a": [pod("p", on="a")]}, columns([node("b")])
    (found,) = over([SAID], [], nodes, there, (), NOW + 5)
    assert (found.reason, found.message) == ("NotWanted", "a is not in the pool any more")
    assert over([SAID], [], nodes, there, {"uid-p"}, NOW + 5) == [], "another is made first"


def test_pod_in_a_surge_move_is_not_reported_as_gone() -> None:
    """It counts as leaving, and is there until the other is ready."""
    leaving, there = pod("p", on="a", deleted=True), pod("p", on="a")
    assert over([SAID], [], columns([node("a")], [leaving]), {"a": [there]}, (), NOW + 5) == []
    (found,) = over([SAID], [], columns([node("a")], [leaving]), {"a": [leaving]}, (), NOW + 6)
    assert found.reason == "Gone"


def test_all_moves_are_over_when_a_policy_stops_moving_pods() -> None:
    assert [(one.verdict, one.reason, one.refusal) for one in dropped([SAID, OTHER], NOW + 5)] == [
        ("over", "NotWanted", "")
    ] * 2


def test_a_reopened_journal_knows_the_moves_that_still_stand(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    journal = Journal(folder)
    for one in (SAID, OTHER, *over([OTHER], [], columns([node("a")]), {}, (), NOW + 5)):
        journal.append(one)
    assert journal.moves("pool") == [SAID]
    journal.close()
    again = Journal(folder)
    assert (again.moves("pool"), again.moves("other")) == ([SAID], [])
    again.close()
