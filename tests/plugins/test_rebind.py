"""Rebind: what becomes of pods when the labels of their nodes change."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from elasticd.api import Moved, Node, Pod, PoolObservation, PoolPast, Strategy, Term
from elasticd.decision.pool.finished_moves import over
from elasticd.kit import BINDING, whose
from elasticd.model.moves import MoveDecision
from elasticd.model.pod_spec import Expression
from elasticd.testing import check_strategy, registry
from elasticd_plugins import binding, filters, rebind
from elasticd_plugins.binding import BindingRules
from elasticd_plugins.filters import Filters
from elasticd_plugins.load_balance import LoadBalance
from elasticd_plugins.rebind import Rebind
from tests.kit.policies import load_pool
from tests.kit.pools import NOW, PROTECTED, columns, moving, node, planned, pod, refused
from tests.kit.thesis import POD1, POD2, POD3, POD4, POD5, thesis

SET = ("ReplicaSet", "web", "rs-1")
LONG_AGO = NOW - 3600.0


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


FRONT = expression("tier", "in", "front")
BACK = expression("tier", "in", "back")


def strategy(*rules: dict[str, Any], **more: Any) -> Rebind:
    return msgspec.convert({"type": "rebind", "rules": list(rules), "dwell": 0, **more}, Rebind)


def rule(*expressions: dict[str, Any], change: str = "reschedule", **more: Any) -> dict[str, Any]:
    return {"expressions": list(expressions), "node_label_change": change, **more}


def running(name: str, on: str, **more: Any) -> Pod:
    return pod(name, on=on, **{"owner": SET, "created": LONG_AGO, "started": LONG_AGO, "ready": True, **more})


def bound(*expressions: dict[str, Any], change: str = "reschedule", **more: Any) -> dict[str, str]:
    return {BINDING: json.dumps({"expressions": expressions, "nodeLabelChange": change, **more})}


def tier(name: str, of: str, **more: Any) -> Node:
    return node(name, labels={"tier": of}, **more)


def told(decisions: tuple[MoveDecision, ...]) -> list[tuple[str, str]]:
    """Each pod, and where it goes, `ends`, or why it stays."""
    return [(one.pod.name, one.target or one.refusal or "ends") for one in decisions]


def long_ago(*nodes: Node) -> PoolPast:
    return PoolPast(labelled={one.name: LONG_AGO for one in nodes})


def matched(pod: Pod, **more: Any) -> PoolPast:
    """The node of a pod was seen to be in tier front while the pod was there."""
    return PoolPast(earlier_labels={pod.uid: ({"tier": "front"},)}, **more)


def test_the_labels_that_its_rules_name_are_reported() -> None:
    assert strategy(rule(FRONT, expression("disk", "exists"))).labels_of_nodes() == ("tier", "disk")
    assert strategy().labels_of_nodes() == ()


T5 = (POD1, POD2, POD3, POD4, POD5)


def test_t5_pods_follow_the_thesis_before_and_after_label_changes() -> None:
    strategies: list[Strategy] = [Filters(), BindingRules(), LoadBalance(), Rebind()]
    before = thesis(node1="frontend", node2="backend", node3="frontend")
    use = {name: {one.name: 0.0 for one in before} for name in ("cpu", "memory")}
    placed = {one.pod.name: one.node for one in planned(strategies, columns(before, (), use), T5)}
    assert placed == {"pod1": "node1", "pod2": "node3", "pod3": "node1", "pod4": "node3", "pod5": ""}

    after = thesis(node1="backend", node2="frontend", node3="backend")
    ran = {"phase": "Running", "created": LONG_AGO, "started": LONG_AGO}
    there = [replace(one, node=placed[one.name], **ran) for one in T5 if placed[one.name]]
    (move,) = moving(strategies, columns(after, there, use), long_ago(*after))
    assert (move.pod.name, move.node, move.target, move.verdict) == ("pod3", "node1", "node2", "move")
    assert move.action is not None
    assert move.action.restore

    left = [one for one in there if one.name != "pod3"]
    (again,) = planned(strategies, columns(after, left, use), [POD3])
    now = {one.name: one.node for one in left} | {"pod3": again.node}
    assert now == {"pod1": "node1", "pod2": "node3", "pod3": "node2", "pod4": "node3"}


@pytest.mark.parametrize(
    ("mode", "change", "other", "expected"),
    [
        pytest.param("product", "reschedule", "back", ("refuse", "reschedule", "NoOtherNode"), id="product: it stays"),
        pytest.param("paper", "reschedule", "back", ("move", "release", ""), id="paper: back to the queue"),
        pytest.param("paper", "reschedule", "front", ("move", "release", ""), id="paper: wherever there is a place"),
        pytest.param("paper", "kill", "back", ("move", "kill", ""), id="paper: to be ended"),
    ],
)
def test_in_mode_paper_reschedule_always_returns_pods_to_the_queue(
    mode: str, change: str, other: str, expected: tuple[str, str, str]
) -> None:
    there = running("p", "a", annotations=bound(FRONT, change=change), owner=("", "", ""))
    view = columns([tier("a", "back"), tier("b", other)], [there])
    (decision,) = moving([Filters(), strategy(mode=mode)], view, matched(there))
    assert (decision.verdict, decision.how, decision.target or decision.refusal) == expected
    assert decision.action is None or decision.action.restore == (change == "reschedule")


@pytest.mark.parametrize(
    ("of", "earlier", "expected"),
    [
        pytest.param("p", [], [], id="none are known"),
        pytest.param("p", ["front"], [("p", "ends")], id="they matched"),
        pytest.param("p", ["middle"], [], id="they never matched"),
        pytest.param("p", ["front", "middle"], [("p", "ends")], id="they matched at first"),
        pytest.param("q", ["front"], [], id="they matched when another was there"),
    ],
)
@pytest.mark.parametrize("owner", [SET, ("", "", "")], ids=["controlled", "bare"])
@pytest.mark.parametrize(
    ("annotations", "rules"),
    [
        pytest.param(bound(FRONT, change="kill", collectionIsEmpty="default"), [], id="placed where no node matches"),
        pytest.param(bound(FRONT, change="kill", resourceNotFit="default"), [], id="placed where they are full"),
        pytest.param(bound(FRONT, change="kill"), [], id="strong"),
        pytest.param({}, [rule(FRONT, change="kill")], id="a rule that does not place it"),
    ],
)
def test_only_labels_that_changed_since_it_came_kill_a_pod(
    annotations: dict[str, str],
    rules: list[dict[str, Any]],
    owner: tuple[str, str, str],
    of: str,
    earlier: list[str],
    expected: list[tuple[str, str]],
) -> None:
    there = running("p", "a", annotations=annotations, owner=owner)
    view = columns([tier("a", "back"), tier("b", "back")], [there])
    past = PoolPast(earlier_labels={pod(of).uid: tuple({"tier": value} for value in earlier)})
    assert told(moving([Filters(), BindingRules(), strategy(*rules)], view, past, single=True)) == expected


def test_a_pod_that_may_not_be_killed_still_moves() -> None:
    there = running("p", "a", annotations=bound(FRONT, change="kill"), selector={"tier": "front"})
    view = columns([tier("a", "back"), tier("b", "front")], [there])
    assert told(moving([Filters(), strategy()], view, single=True)) == [("p", "b")]


# What changes, what is said of it, and how long ago it was.


@pytest.mark.parametrize("whence", ["annotation", "rule"])
@pytest.mark.parametrize(
    ("labels", "change", "ago", "dwell", "expected"),
    [
        pytest.param({"tier": "front"}, "reschedule", 100, 60, [], id="as it was"),
        pytest.param({"tier": "front", "new": ""}, "reschedule", 100, 60, [], id="another label came"),
        pytest.param({"tier": "back"}, "reschedule", 100, 60, [("p", "b")], id="another value: it goes"),
        pytest.param({}, "reschedule", 100, 60, [("p", "b")], id="the label is gone: it goes"),
        pytest.param({"tier": "back"}, "reschedule", 60, 60, [("p", "b")], id="for just so long"),
        pytest.param({"tier": "back"}, "reschedule", 59, 60, [("p", "NotYet")], id="not for so long yet"),
        pytest.param({"tier": "back"}, "reschedule", 0, 0, [("p", "b")], id="just now, and nobody waits"),
        pytest.param({"tier": "front"}, "kill", 100, 60, [], id="as it was, it would be ended"),
        pytest.param({"tier": "back"}, "kill", 100, 60, [("p", "ends")], id="another value: it ends"),
        pytest.param({}, "kill", 100, 60, [("p", "ends")], id="the label is gone: it ends"),
        pytest.param({"tier": "back"}, "kill", 59, 60, [("p", "NotYet")], id="not for so long yet, it would be ended"),
    ],
)
def test_a_pod_leaves_or_ends_once_changed_labels_have_lasted(
    labels: dict[str, str], change: str, ago: float, dwell: float, expected: list[tuple[str, str]], whence: str
) -> None:
    nodes = [node("a", labels=labels), tier("b", "front")]
    by_rule = whence == "rule"
    there = running("p", "a", annotations={} if by_rule else bound(FRONT, change=change))
    asked = strategy(*([rule(FRONT, change=change)] if by_rule else []), dwell=dwell)
    past = matched(there, labelled={"a": NOW - ago, "b": NOW - ago})
    assert told(moving([Filters(), asked], columns(nodes, [there]), past, single=True)) == expected


@pytest.mark.parametrize("change", ["still", None])
@pytest.mark.parametrize("labels", [{}, {"tier": "back"}])
def test_what_says_still_or_nothing_stays(change: str | None, labels: dict[str, str]) -> None:
    text = json.dumps({"expressions": [FRONT], **({} if change is None else {"nodeLabelChange": change})})
    there = running("p", "a", annotations={BINDING: text})
    view = columns([node("a", labels=labels), tier("b", "front")], [there])
    assert moving([Filters(), strategy()], view, single=True) == ()


def test_no_pod_moves_while_the_age_of_labels_is_unknown() -> None:
    view = columns([tier("a", "back"), tier("b", "front")], [running("p", "a", annotations=bound(FRONT))])
    (decision,) = moving([Filters(), strategy(dwell=60)], view, PoolPast(), single=True)
    assert (decision.verdict, decision.refusal) == ("refuse", "NotYet")
    assert decision.message.endswith(": its labels have not been as they are for dwell = 60 s")


def test_a_mismatched_pods_move_stays_wanted_during_a_new_dwell() -> None:
    there = running("p", "a", annotations=bound(FRONT))
    nodes = [tier("a", "back"), tier("b", "back")]
    before = moving([Filters(), strategy(dwell=60)], columns(nodes, [there]), long_ago(*nodes), single=True)
    assert told(before) == [("p", "NoOtherNode")]
    view, past = columns([replace(nodes[0], labels={"tier": "none"}), nodes[1]], [there]), PoolPast(labelled={"a": NOW})
    now = moving([Filters(), strategy(dwell=60)], view, past, single=True)
    assert told(now) == [("p", "NotYet")]
    assert over(before, now, view, {"a": [there]}, (), NOW) == []


def test_a_returned_pods_move_stays_wanted_while_it_rests() -> None:
    there = running("p", "a", annotations=bound(FRONT))
    past = PoolPast(moved=(Moved(NOW - 9, whose(there), "a"),), labelled={"a": LONG_AGO})
    back = replace(there, created=NOW - 5, started=NOW - 5)
    (decision,) = moving([strategy()], columns(WRONG, [back]), past, single=True, min_age=0)
    assert decision.refusal == "NotYet"
    assert decision.message.endswith("the pod was moved and came back, so it rests for cooldown or a multiple of that")


def wants(*values: str) -> tuple[Term, ...]:
    return (Term((Expression("tier", "In", values),)),)


NAMED = (Term(fields=(Expression("metadata.name", "In", ("a",)),)),)


@pytest.mark.parametrize(
    ("needs", "expected"),
    [
        pytest.param({"selector": {"tier": "front"}}, [("p", "b")], id="a selector that no longer holds"),
        pytest.param({"selector": {"tier": "back"}}, [], id="a selector that holds"),
        pytest.param({"affinity": wants("front")}, [("p", "b")], id="affinity that no longer holds"),
        pytest.param({"affinity": wants("front", "back")}, [], id="affinity that holds"),
        pytest.param({"affinity": wants("front") + wants("back")}, [], id="one term of several holds"),
        pytest.param({"selector": {"tier": "back"}, "affinity": wants("front")}, [("p", "NoOtherNode")], id="both"),
        pytest.param({"affinity": NAMED}, [], id="by its name, which does not change"),
        pytest.param({"affinity": ()}, [("p", "NoOtherNode")], id="terms of which there are none"),
        pytest.param({}, [], id="nothing is asked for"),
    ],
)
def test_node_selector_and_required_affinity_are_looked_at_again(
    needs: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    view = columns([tier("a", "back"), tier("b", "front")], [running("p", "a", **needs)])
    assert told(moving([Filters(), strategy()], view, single=True)) == expected
    assert moving([Filters(), strategy(selectors="still")], view, single=True) == ()


@pytest.mark.parametrize(
    ("annotation", "rules", "needs", "expected"),
    [
        pytest.param(bound(FRONT, change="kill"), [rule(FRONT)], {}, "ends", id="kill by the pod"),
        pytest.param(bound(FRONT), [rule(FRONT, change="kill")], {}, "ends", id="kill by a rule"),
        pytest.param(bound(FRONT, change="still"), [rule(FRONT)], {}, "b", id="a pod's still loosens no rule"),
        pytest.param({BINDING: "{"}, [rule(FRONT)], {}, "b", id="what cannot be read loosens no rule"),
        pytest.param(bound(BACK, change="kill"), [rule(FRONT)], {}, "NoOtherNode", id="what holds does not end it"),
        pytest.param(bound(FRONT, change="kill"), [], {"selector": {"tier": "front"}}, "ends", id="and a selector"),
        pytest.param({}, [rule(FRONT, pods={"app": "db"})], {}, None, id="a rule about others"),
        pytest.param({}, [rule(FRONT, namespaces=["blog"])], {}, None, id="a rule about another namespace"),
        pytest.param({BINDING: "{"}, [], {}, None, id="what cannot be read, alone"),
        pytest.param({BINDING: "{}"}, [], {}, None, id="a binding to nothing"),
    ],
)
def test_each_broken_binding_decides_what_becomes_of_its_pod(
    annotation: dict[str, str], rules: list[dict[str, Any]], needs: dict[str, Any], expected: str | None
) -> None:
    there = running("p", "a", annotations=annotation, labels={"app": "web"}, **needs)
    view = columns([tier("a", "back"), tier("b", "front")], [there])
    found = told(moving([strategy(*rules)], view, matched(there), single=True))
    assert found == ([] if expected is None else [("p", expected)])


def test_an_operator_may_take_no_notice_of_what_pods_bring() -> None:
    view = columns([tier("a", "back"), tier("b", "front")], [running("p", "a", annotations=bound(FRONT))])
    assert moving([strategy(annotations=False)], view, single=True) == ()


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        pytest.param([tier("b", "back")], "NoOtherNode", id="no node matches"),
        pytest.param([tier("b", "front", cpu=0.01)], "NoOtherNode", id="none that matches has room"),
        pytest.param([tier("b", "front", unschedulable=True)], "NoOtherNode", id="the one that matches is cordoned"),
        pytest.param([tier("b", "front", cpu=0.01), tier("c", "front")], "c", id="one of two has room"),
        pytest.param([], "NoOtherNode", id="there is no other"),
    ],
)
@pytest.mark.parametrize("how", [{}, {"collectionIsEmpty": "default", "resourceNotFit": "default"}], ids=str)
def test_a_weakly_bound_pod_stays_until_matching_nodes_have_room(
    others: list[Node], how: dict[str, str], expected: str
) -> None:
    there = running("p", "a", annotations=bound(FRONT, **how))
    view = columns([tier("a", "back"), *others], [there])
    assert told(moving([Filters(), BindingRules(), strategy()], view, single=True)) == [("p", expected)]


def test_it_says_which_labels_and_where_they_are_asked_for() -> None:
    there = running("p", "a", annotations=bound(FRONT), selector={"tier": "front"})
    nodes = [tier("a", "back"), tier("b", "back")]
    (stays,) = moving([Filters(), strategy(rule(FRONT))], columns(nodes, [there]), single=True)
    asks = "tier in [front] (its annotation); tier in [front] (rules[0]); its own nodeSelector or node affinity"
    assert stays.message.startswith(f"a no longer matches {asks}, and no other node does: ")
    (goes,) = moving([strategy()], columns([*nodes, tier("c", "front")], [there]), single=True)
    assert (goes.reason, goes.strategy, goes.target) == ("NodeLabelChange", "rebind", "c")


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"static": True}, id="run from a file"),
        pytest.param({"owner": ("Node", "a", "u")}, id="a picture of one run from a file"),
        pytest.param({"owner": ("DaemonSet", "d", "u")}, id="of a DaemonSet"),
        pytest.param({"deleted": True}, id="leaving"),
    ],
)
def test_node_bound_and_leaving_pods_are_not_mentioned(more: dict[str, Any]) -> None:
    view = columns([tier("a", "back"), tier("b", "front")], [running("p", "a", annotations=bound(FRONT), **more)])
    assert moving([strategy()], view) == ()


def test_pods_move_by_priority_and_then_by_node() -> None:
    there = [
        running(name, on, annotations=bound(FRONT), priority=priority)
        for name, on, priority in (("p", "b", 0), ("q", "a", 0), ("r", "b", 10), ("s", "a", -1))
    ]
    view = columns([tier("a", "back"), tier("b", "back"), tier("c", "front")], there)
    assert [one.pod.name for one in moving([strategy()], view, single=True)] == ["r", "q", "p", "s"]


# Pods that come back.

WRONG = [tier("a", "back"), tier("b", "front")]


def returned(moved: list[float], at: float, came: float, labelled: float = LONG_AGO, cooldown: float = 300.0) -> bool:
    """Whether a pod that came back to node a is moved again."""
    there = running("p", "a", annotations=bound(FRONT), created=NOW + came, started=NOW + came)
    past = PoolPast(
        moved=tuple(Moved(NOW + one, whose(there), "a") for one in moved),
        labelled={"a": labelled, "b": LONG_AGO},
    )
    asked = strategy(cooldown=cooldown)
    (move,) = asked.rebind_pods(columns(WRONG, [there]), PoolObservation(NOW + at), past)
    return not move.waits


@pytest.mark.parametrize(
    ("moved", "at", "came", "expected"),
    [
        pytest.param([], 100, 10, True, id="never moved"),
        pytest.param([0], 299, 10, False, id="came back, within the cooldown"),
        pytest.param([0], 300, 10, True, id="came back, after the cooldown"),
        pytest.param([0], 299, -2, True, id="was there before another of its controller went"),
        pytest.param([0], 299, -1, False, id="came in the second before, for whole seconds are all that is told"),
        pytest.param([0, 1, 2], 301, 10, False, id="three went together: counted from the last"),
        pytest.param([0, 1, 2], 302, 10, True, id="three went together: one cooldown"),
        pytest.param([0, 300], 899, 310, False, id="a second time: twice as long"),
        pytest.param([0, 300], 900, 310, True, id="a second time, after twice as long"),
        pytest.param([300, 0], 900, 310, True, id="in whichever order they were remembered"),
        pytest.param([0, 300, 900], 2099, 910, False, id="a third time: four times as long"),
        pytest.param([0, 300, 900], 2100, 910, True, id="a third time, after four times as long"),
    ],
)
def test_a_pod_that_returns_is_moved_later_each_time(
    moved: list[float], at: float, came: float, expected: bool
) -> None:
    assert returned(moved, at, came) is expected


def test_moves_before_the_labels_last_changed_do_not_count() -> None:
    assert not returned([0], at=100, came=10)
    assert returned([0], at=100, came=10, labelled=NOW + 20)


def test_without_a_cooldown_a_returned_pod_moves_every_time() -> None:
    assert returned([0, 1], at=2, came=1, cooldown=0)


def test_a_tiny_cooldown_doubles_only_so_often() -> None:
    assert returned([float(one) for one in range(2000)], at=2100, came=2000, cooldown=0.001)


# Properties.

TIERS = ("front", "back", "none")
_expressions = some.lists(
    some.builds(
        lambda key, operator, values: expression(key, operator, *values),
        some.just("tier"),
        some.sampled_from(("in", "notIn")),
        some.lists(some.sampled_from(TIERS), min_size=1, max_size=2, unique=True),
    ),
    min_size=1,
    max_size=2,
)
_nodes = some.lists(some.sampled_from(TIERS), min_size=1, max_size=5).map(
    lambda tiers: [tier(f"n{index}", of) for index, of in enumerate(tiers)]
)


@some.composite
def _pods(draw: some.DrawFn, nodes: list[Node]) -> list[Pod]:
    """Pods that bring a binding or a selector, of all kinds, on any node."""
    found = []
    for index in range(draw(some.integers(0, 8))):
        kind = draw(some.sampled_from([*PROTECTED, "", "", "", ""]))
        own = dict(PROTECTED.get(kind, {}))
        annotations = own.pop("annotations", {})
        if draw(some.booleans()):
            change = draw(some.sampled_from(("still", "reschedule", "kill")))
            annotations = {**annotations, **bound(*draw(_expressions), change=change)}
        if draw(some.booleans()):
            own["selector"] = {"tier": draw(some.sampled_from(TIERS))}
        owner = own.pop("owner", ("ReplicaSet", "web", f"rs-{index % 2}"))
        on = draw(some.sampled_from(nodes)).name
        found.append(running(f"p{index}", on, annotations=annotations, owner=owner, labels={"kind": kind}, **own))
    return found


_pools = _nodes.flatmap(lambda nodes: some.tuples(some.just(nodes), _pods(nodes)))
_strategies = some.sampled_from(
    [strategy(), strategy(rule(FRONT)), strategy(rule(expression("tier", "notIn", "none"), change="kill"))]
)
_Pool = tuple[list[Node], list[Pod]]


@given(_pools, _strategies)
def test_no_protected_pod_is_moved_and_equal_pools_plan_equally(pool: _Pool, asked: Rebind) -> None:
    nodes, pods = pool
    kinds = {one.name: one.labels["kind"] for one in pods}
    first = moving([Filters(), asked], columns(nodes, pods))
    assert all(not kinds[one.pod.name] for one in first if one.verdict == "move")
    again = moving([Filters(), asked], columns(reversed(nodes), pods))
    assert msgspec.json.encode(first) == msgspec.json.encode(again)


def matches(one: Pod, on: Node, asked: Rebind) -> bool:
    """Whether all that may move a pod holds on a node, reckoned for one pod and one node."""
    own = json.loads(one.annotations.get(BINDING, '{"expressions": []}'))
    bindings = [] if own.get("nodeLabelChange", "still") == "still" else [own["expressions"]]
    bindings += [[msgspec.to_builtins(part) for part in rule.expressions] for rule in asked.rules]
    value = on.labels["tier"]
    obeyed = all((value in part["values"]) == (part["operator"] == "in") for parts in bindings for part in parts)
    return obeyed and one.needs.selector.get("tier", value) == value


@given(_pools, _strategies)
def test_where_all_nodes_match_nobody_is_moved(pool: _Pool, asked: Rebind) -> None:
    nodes, pods = pool
    by = {one.name: one for one in nodes}
    content = [one for one in pods if matches(one, by[one.node], asked)]
    assert moving([Filters(), asked], columns(nodes, content)) == ()


@given(_pools, _strategies)
def test_moves_end_and_move_each_pod_once_to_matching_nodes(pool: _Pool, asked: Rebind) -> None:
    nodes, pods = pool
    by = {one.name: one for one in nodes}
    there, at, gone = {one.uid: one for one in pods}, NOW, set[str]()
    past = PoolPast()
    for _ in range(len(pods) + 1):
        done = [one for one in moving([Filters(), asked], columns(nodes, there.values()), past, at=at) if one.action]
        if not done:
            break
        for one in done:
            assert one.uid not in gone
            gone.add(one.uid)
            left = there.pop(one.uid)
            if one.how == "reschedule":
                assert matches(left, by[one.target], asked)
                there[one.uid] = replace(left, node=one.target, started=at)
        past = PoolPast(moved=(*past.moved, *(Moved(at, one.action.owner, one.node) for one in done if one.action)))
        at += 30.0
    else:
        raise AssertionError("moves do not come to an end")


# Options.


@pytest.mark.parametrize(
    ("table", "said"),
    [
        pytest.param(
            'annotations = false\nselectors = "still"',
            'selectors: must be reschedule where there are no rules or annotations, is "still"',
            id="nothing",
        ),
        pytest.param("annotations = 1", "annotations: must be true or false, is 1", id="annotations"),
        pytest.param('selectors = "move"', 'selectors: must be one of reschedule, still, is "move"', id="selectors"),
        pytest.param("dwell = -1", "dwell: must be >= 0, is -1", id="dwell"),
        pytest.param("dwell = 86401", "dwell: must be <= 86400, is 86401", id="dwell too long"),
        pytest.param("cooldown = -1", "cooldown: must be >= 0, is -1", id="cooldown"),
        pytest.param("cooldown = 3601", "cooldown: must be <= 3600, is 3601", id="cooldown too long"),
        pytest.param(
            'rules = [{ node_label_change = "kill" }]',
            "rules[0].expressions: must not be empty, is []",
            id="a rule without expressions",
        ),
        pytest.param(
            'rules = [{ expressions = [{ key = "a", operator = "exists" }] }]',
            "rules[0].node_label_change: must be given, is missing",
            id="a rule that moves nobody",
        ),
        pytest.param(
            'rules = [{ expressions = [{ key = "a", operator = "exists" }], node_label_change = "still" }]',
            'rules[0].node_label_change: must be one of kill, reschedule, is "still"',
            id="a rule that says still",
        ),
        pytest.param(
            'rules = [{ expressions = [{ key = "a", operator = "exists" }], node_label_change = "move" }]',
            'rules[0].node_label_change: must be one of kill, reschedule, is "move"',
            id="node_label_change",
        ),
    ],
)
def test_nonsense_is_refused(table: str, said: str, tmp_path: Path) -> None:
    assert refused(tmp_path, rebind, f'type = "rebind"\n{table}') == f"strategy[0].{said}"


@pytest.mark.parametrize(
    "one",
    [
        pytest.param(Rebind(), id="as it is"),
        pytest.param(strategy(rule(expression("zone", "in", "b"))), id="with a rule"),
        pytest.param(strategy(rule(expression("zone", "in", "b"), change="kill")), id="with a rule that ends pods"),
    ],
)
def test_it_does_nothing_that_no_strategy_may(one: Rebind) -> None:
    assert check_strategy(one) == []


@pytest.mark.parametrize(
    ("pods", "nodes"),
    [
        pytest.param([], [], id="no nodes"),
        pytest.param([], WRONG, id="no pods"),
        pytest.param([running("p", "a")], WRONG, id="one pod that asks for nothing"),
    ],
)
def test_where_there_is_nothing_to_do_nothing_is_done(pods: list[Pod], nodes: list[Node]) -> None:
    assert moving([strategy(rule(FRONT, pods={"app": "none"}))], columns(nodes, pods)) == ()


CERTIFIED, LAPSED = node("certified", labels={"example.com/certified": "pci"}), node("lapsed")


@pytest.mark.parametrize(
    ("labels", "since", "expected"),
    [
        pytest.param({"example.com/data": "cards"}, 600, [("p", "certified")], id="cards leave a node that has lapsed"),
        pytest.param({"example.com/data": "cards"}, 10, [("p", "NotYet")], id="but not yet"),
        pytest.param({}, 600, [], id="others stay"),
    ],
)
def test_the_example_moves_card_data_off_uncertified_nodes(
    labels: dict[str, str], since: float, expected: list[tuple[str, str]]
) -> None:
    path = Path(__file__).parents[2] / "config" / "policies" / "rebind.toml"
    policy = load_pool(path, registry(binding, filters, rebind))
    there = [running("p", "lapsed", labels=labels, namespace="billing"), running("q", "certified")]
    past = PoolPast(labelled={"certified": LONG_AGO, "lapsed": NOW - since})
    assert told(moving(policy.strategies, columns([CERTIFIED, LAPSED], there), past)) == expected
