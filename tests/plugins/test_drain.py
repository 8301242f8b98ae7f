"""Drain: which nodes are emptied, who leaves them, in which order, and that nobody comes back."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from elasticd.api import DisruptionBudget, Node, Pod, Taint, Toleration
from elasticd.model.moves import MoveDecision
from elasticd.testing import check_strategy, registry
from elasticd_plugins import drain, filters, least_requested
from elasticd_plugins.drain import Drain
from elasticd_plugins.filters import Filters
from tests.kit.policies import load_pool
from tests.kit.pools import GIB, NOW, PROTECTED, columns, moving, node, planned, pod, refused

SET = ("ReplicaSet", "web", "rs-1")
MARK = "elasticd.io/drain"
DELETED = Taint("ToBeDeletedByClusterAutoscaler", "NoSchedule", "1700000000")
MARKED: dict[str, Any] = {"labels": {MARK: "true"}}
CORDONED: dict[str, Any] = {"unschedulable": True}


def running(name: str, on: str = "a", **more: Any) -> Pod:
    return pod(name, on=on, **{"owner": SET, "started": NOW - 600, "ready": True, **more})


def strategy(**more: Any) -> Drain:
    return msgspec.convert({"type": "drain", **more}, Drain)


def told(decisions: tuple[MoveDecision, ...]) -> list[tuple[str, str]]:
    """Each pod, and where it goes, or why it stays."""
    return [(one.pod.name, one.target or one.refusal) for one in decisions]


def emptied(asked: Drain, leaving: dict[str, Any], **pod_more: Any) -> list[tuple[str, str]]:
    """What becomes of one pod on a node that may be leaving, beside one that is not."""
    view = columns([node("a", **leaving), node("b")], [running("p", **pod_more)])
    return told(moving([Filters(), asked], view, single=True))


@pytest.mark.parametrize("marks", [(MARK,), ("elasticd.io/away", "gone"), ()])
def test_the_labels_that_mark_a_node_are_reported(marks: tuple[str, ...]) -> None:
    assert strategy(marks=marks).labels_of_nodes() == marks


GOES = [("p", "b")]


@pytest.mark.parametrize(
    ("leaving", "options", "expected"),
    [
        pytest.param({}, {}, [], id="an ordinary node"),
        pytest.param(CORDONED, {}, GOES, id="cordoned"),
        pytest.param(CORDONED, {"cordoned": False}, [], id="cordoned, which does not count"),
        pytest.param({"taints": (DELETED,)}, {}, GOES, id="tainted by the autoscaler"),
        pytest.param({"taints": (Taint("karpenter.sh/disrupted", "NoSchedule"),)}, {}, GOES, id="by Karpenter"),
        pytest.param({"taints": (Taint(MARK, "NoExecute"),)}, {}, GOES, id="by a person"),
        pytest.param(
            {"taints": (Taint("node.cloudprovider.kubernetes.io/shutdown", "NoSchedule"),)}, {}, GOES, id="shut down"
        ),
        pytest.param({"taints": (Taint(MARK, "PreferNoSchedule"),)}, {}, [], id="by a taint that only prefers"),
        pytest.param({"taints": (Taint("dedicated", "NoSchedule"),)}, {}, [], id="by another taint"),
        pytest.param({"taints": (Taint("old", "NoSchedule"),)}, {"taints": ["old"]}, GOES, id="by one that is named"),
        pytest.param({"taints": (DELETED,)}, {"taints": []}, [], id="tainted, which does not count"),
        pytest.param({"taints": (Taint("node.kubernetes.io/not-ready", "NoExecute"),)}, {}, [], id="not ready"),
        pytest.param(MARKED, {}, GOES, id="marked by a label"),
        pytest.param({"annotations": {MARK: "true"}}, {}, GOES, id="marked by an annotation"),
        pytest.param({"labels": {MARK: "false"}}, {}, [], id="marked not to be"),
        pytest.param({"labels": {MARK: ""}}, {}, [], id="marked without a word"),
        pytest.param(MARKED, {"marks": []}, [], id="marked, which does not count"),
        pytest.param({"labels": {"leaving": "true"}}, {"marks": ["leaving"]}, GOES, id="by a mark that is named"),
    ],
)
def test_a_node_is_emptied_if_cordoned_tainted_or_marked(
    leaving: dict[str, Any], options: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    assert emptied(strategy(**options), leaving) == expected


ANY = Toleration(operator="Exists")
EXECUTED, FOR_12_S = Taint(MARK, "NoExecute"), Toleration(MARK, "Exists", "", "NoExecute", 12.0)


@pytest.mark.parametrize(
    ("leaving", "tolerations", "expected"),
    [
        pytest.param(CORDONED, (ANY,), [], id="cordoned"),
        pytest.param(
            CORDONED, (Toleration("node.kubernetes.io/unschedulable", "Exists"),), [], id="cordoned, by its name"
        ),
        pytest.param(CORDONED, (Toleration(DELETED.key, "Exists"),), GOES, id="cordoned, which it does not tolerate"),
        pytest.param({"taints": (DELETED,)}, (Toleration(DELETED.key, "Exists"),), [], id="tainted"),
        pytest.param({"taints": (DELETED,)}, (Toleration(DELETED.key, "Equal", "1"),), GOES, id="another value"),
        pytest.param(
            {"taints": (DELETED,), **CORDONED}, (Toleration(DELETED.key, "Exists"),), GOES, id="tainted and cordoned"
        ),
        pytest.param(MARKED, (ANY,), GOES, id="marked, which nobody tolerates"),
        pytest.param({"taints": (EXECUTED,)}, (Toleration(MARK, "Exists"),), [], id="to be executed"),
        pytest.param({"taints": (EXECUTED,)}, (FOR_12_S,), GOES, id="to be executed in a while"),
        pytest.param({"taints": (Taint("old", "NoExecute"),)}, (replace(FOR_12_S, key="old"),), [], id="for another"),
        pytest.param({**MARKED, **CORDONED}, (ANY,), GOES, id="marked and cordoned"),
    ],
)
def test_a_pod_that_tolerates_why_its_node_is_emptied_stays(
    leaving: dict[str, Any], tolerations: tuple[Toleration, ...], expected: list[tuple[str, str]]
) -> None:
    assert emptied(strategy(), leaving, tolerations=tolerations) == expected


@pytest.mark.parametrize(
    ("leaving", "said"),
    [
        pytest.param(CORDONED, "a is cordoned", id="cordoned"),
        pytest.param({"taints": (DELETED,)}, "a is tainted ToBeDeletedByClusterAutoscaler", id="tainted"),
        pytest.param(MARKED, "a is marked elasticd.io/drain", id="marked"),
        pytest.param(
            {"taints": (EXECUTED,)}, "a is tainted elasticd.io/drain, which it tolerates for 12 s", id="for a time"
        ),
        pytest.param({**MARKED, **CORDONED}, "a is cordoned", id="two of them"),
    ],
)
def test_it_says_by_what_a_node_is_emptied(leaving: dict[str, Any], said: str) -> None:
    view = columns([node("a", **leaving), node("b")], [running("p", tolerations=(FOR_12_S,))])
    (move,) = moving([Filters(), strategy()], view, single=True)
    assert (move.reason, move.message, move.how, move.strategy) == ("Drain", said, "reschedule", "drain")


def test_nobody_goes_to_another_node_that_is_emptied() -> None:
    leaving = [node("a", **CORDONED), node("b", **MARKED), node("c", taints=(DELETED,))]
    there = [running("p", tolerations=(ANY,)), running("q", "b", tolerations=(ANY,))]
    found = told(moving([strategy()], columns(leaving, there)))
    assert found == [("q", "NoOtherNode")]
    assert told(moving([strategy()], columns([*leaving, node("d")], there))) == [("q", "d")]


def test_a_node_with_a_prefer_no_schedule_taint_takes_pods() -> None:
    view = columns([node("a", **CORDONED), node("b", taints=(Taint(MARK, "PreferNoSchedule"),))], [running("p")])
    assert told(moving([strategy()], view, single=True)) == GOES


@pytest.mark.parametrize(
    ("leaving", "expected"),
    [
        pytest.param(MARKED, ("wait", ""), id="marked"),
        pytest.param({"annotations": {MARK: "true"}}, ("wait", ""), id="marked by an annotation"),
        pytest.param({}, ("bind", "a"), id="not marked"),
        pytest.param({"taints": (DELETED,)}, ("bind", "a"), id="tainted, which it tolerates"),
    ],
)
def test_nobody_is_placed_on_a_marked_node(leaving: dict[str, Any], expected: tuple[str, str]) -> None:
    waiting = pod("new", tolerations=(ANY,))
    (decision,) = planned([Filters(), strategy()], columns([node("a", **leaving)]), [waiting])
    assert (decision.verdict, decision.node) == expected
    if expected[0] == "wait":
        assert decision.message == "0/1 nodes are available: 1 node(s) were marked to be emptied"


def test_pods_leave_by_priority_then_node_then_size() -> None:
    there = [
        running("late", "b", priority=10),
        running("small", memory=GIB, cpu=0.1),
        running("large", memory=2 * GIB, cpu=0.1),
        running("wide", memory=GIB, cpu=0.2),
        running("last", priority=-1),
        running("other", "b", memory=3 * GIB),
    ]
    view = columns([node("a", **CORDONED), node("b", **CORDONED), node("c", memory=64 * GIB)], there)
    found = [one.pod.name for one in moving([Filters(), strategy()], view, single=True)]
    assert found == ["late", "large", "wide", "small", "other", "last"]


def test_scarce_places_go_to_pods_of_highest_priority() -> None:
    there = [running("low", cpu=1.0), running("high", cpu=1.0, priority=10)]
    view = columns([node("a", **CORDONED), node("b", cpu=1.5)], there)
    assert told(moving([Filters(), strategy()], view, single=True)) == [("high", "b"), ("low", "NoOtherNode")]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param({"static": True}, [], id="run from a file"),
        pytest.param({"owner": ("Node", "a", "u")}, [], id="a picture of one run from a file"),
        pytest.param({"owner": ("DaemonSet", "d", "u")}, [], id="of a DaemonSet"),
        pytest.param({"deleted": True}, [], id="leaving"),
        pytest.param({"priority": 2_000_000_000}, [("p", "Critical")], id="critical"),
        pytest.param({"local": True}, [("p", "LocalStorage")], id="with local storage"),
        pytest.param({"annotations": {"elasticd.io/do-not-disrupt": "true"}}, [("p", "DoNotDisrupt")], id="spared"),
        pytest.param({"namespace": "kube-system"}, [("p", "Spared")], id="of the system"),
        pytest.param({"unsupported": ("pod affinity",)}, [("p", "NoOtherNode")], id="with wishes nobody knows"),
        pytest.param({"owner": ("", "", "")}, GOES, id="without a controller"),
        pytest.param({"owner": ("Job", "j", "u")}, [("p", "RunsOnce")], id="of a Job"),
        pytest.param({"owner": ("example.com/v1/Foo", "f", "u")}, [("p", "UnknownController")], id="of who knows whom"),
    ],
)
def test_blocking_pods_are_reported_and_node_bound_pods_are_not(
    more: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    assert emptied(strategy(), CORDONED, **more) == expected


def test_disruption_budgets_let_them_leave_one_by_one() -> None:
    view = columns([node("a", **CORDONED), node("b")], [running(f"p{index}") for index in range(3)])
    budget = DisruptionBudget("shop", "web", frozenset(f"uid-p{index}" for index in range(3)), 1)
    found = told(moving([Filters(), strategy()], view, budgets=(budget,)))
    assert found == [("p0", "b"), ("p1", "Budget"), ("p2", "Budget")]


# Properties.

_STATES: dict[str, dict[str, Any]] = {
    "stays": {},
    "cordoned": CORDONED,
    "tainted": {"taints": (DELETED,)},
    "marked": MARKED,
}
_nodes = some.lists(some.sampled_from(sorted(_STATES)), min_size=1, max_size=5).map(
    lambda states: [node(f"n{index}", **_STATES[state]) for index, state in enumerate(states)]
)


@some.composite
def _pools(draw: some.DrawFn) -> tuple[list[Node], list[Pod]]:
    nodes = draw(_nodes)
    pods = []
    for index in range(draw(some.integers(0, 8))):
        kind = draw(some.sampled_from([*PROTECTED, "", "", "", ""]))
        own: dict[str, Any] = {"owner": ("ReplicaSet", "web", f"rs-{index % 2}"), **PROTECTED.get(kind, {})}
        own.setdefault("priority", draw(some.integers(-1, 1)))
        if draw(some.booleans()):
            own["tolerations"] = (ANY,)
        on = draw(some.sampled_from(nodes)).name
        cpu = draw(some.sampled_from((0.1, 1.0, 3.0)))
        pods.append(running(f"p{index}", on, cpu=cpu, labels={"kind": kind}, **own))
    return nodes, pods


@given(_pools())
def test_no_protected_pod_is_moved_and_equal_pools_plan_equally(pool: tuple[list[Node], list[Pod]]) -> None:
    nodes, pods = pool
    kinds = {one.name: one.labels["kind"] for one in pods}
    first = moving([Filters(), strategy()], columns(nodes, pods))
    assert all(not kinds[one.pod.name] for one in first if one.verdict == "move")
    again = moving([Filters(), strategy()], columns(reversed(nodes), pods))
    assert msgspec.json.encode(first) == msgspec.json.encode(again)


@given(_pools())
def test_where_no_node_is_to_be_emptied_nobody_is_moved(pool: tuple[list[Node], list[Pod]]) -> None:
    nodes, pods = pool
    plain = [node(one.name) for one in nodes]
    assert moving([Filters(), strategy()], columns(plain, pods)) == ()


@given(_pools())
def test_moves_come_to_an_end_and_nobody_goes_twice(pool: tuple[list[Node], list[Pod]]) -> None:
    nodes, pods = pool
    there, gone = {one.uid: one for one in pods}, set[str]()
    leaving = {one.name for one in nodes if one.unschedulable or one.taints or MARK in one.labels}
    for _ in range(len(pods) + 1):
        done = [one for one in moving([Filters(), strategy()], columns(nodes, there.values())) if one.action]
        if not done:
            break
        for one in done:
            assert one.uid not in gone
            assert one.target not in leaving
            gone.add(one.uid)
            there[one.uid] = replace(there[one.uid], node=one.target)
    else:
        raise AssertionError("moves do not come to an end")


# Options.


@pytest.mark.parametrize(
    ("table", "said"),
    [
        pytest.param(
            "cordoned = false\ntaints = []\nmarks = []",
            "cordoned: must be true where taints and marks are empty, is false",
            id="nothing",
        ),
        pytest.param("cordoned = 1", "cordoned: must be true or false, is 1", id="cordoned"),
        pytest.param('taints = "old"', 'taints: must be an array, is "old"', id="taints"),
        pytest.param('taints = [""]', 'taints[0]: must not be empty, is ""', id="a taint without a key"),
        pytest.param("marks = 7", "marks: must be an array, is 7", id="marks"),
        pytest.param('marks = [""]', 'marks[0]: must not be empty, is ""', id="a mark without a name"),
    ],
)
def test_nonsense_is_refused(table: str, said: str, tmp_path: Path) -> None:
    assert refused(tmp_path, drain, f'type = "drain"\n{table}') == f"strategy[0].{said}"


@pytest.mark.parametrize(
    "one",
    [
        pytest.param(Drain(), id="as it is"),
        pytest.param(strategy(taints=["dedicated", "old"], cordoned=False), id="by other taints"),
        pytest.param(strategy(marks=["zone"]), id="by a label that is there"),
    ],
)
def test_it_does_nothing_that_no_strategy_may(one: Drain) -> None:
    assert check_strategy(one) == []


@pytest.mark.parametrize(
    ("nodes", "pods"),
    [
        pytest.param([], [], id="no nodes"),
        pytest.param([node("a", **CORDONED)], [], id="no pods"),
        pytest.param([node("a", **CORDONED)], [running("p", deleted=True)], id="the last one leaves"),
    ],
)
def test_where_there_is_nothing_to_do_nothing_is_done(nodes: list[Node], pods: list[Pod]) -> None:
    assert moving([Filters(), strategy()], columns(nodes, pods)) == ()


def test_the_example_empties_a_node_that_is_cordoned() -> None:
    path = Path(__file__).parents[2] / "config" / "policies" / "drain.toml"
    policy = load_pool(path, registry(drain, filters, least_requested))
    there = [running(f"p{index}", namespace="tools") for index in range(3)]
    view = columns([node("a", **CORDONED), node("b"), node("c")], there)
    settings = msgspec.to_builtins(policy.moves)
    found = moving(policy.strategies, view, **settings)
    assert [one.target for one in found] == ["b", "c", "b"]
