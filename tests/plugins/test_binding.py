"""Binding: which nodes a pod is bound to, and what becomes of it where they cannot take it."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from elasticd.api import Node, Pod, PoolPolicy, Selection
from elasticd.kit import BINDING, Binding, LabelRule, binding_of
from elasticd.model.placement import PodDecision
from elasticd.testing import check_strategy, registry
from elasticd_plugins import binding, filters, preemption
from elasticd_plugins.binding import BindingRules
from elasticd_plugins.filters import Filters
from elasticd_plugins.preemption import Preemption
from tests.kit.policies import load_pool
from tests.kit.pools import NOW, columns, node, planned, pod, refused
from tests.kit.thesis import FRONT, POD1, POD2, POD3, POD4, POD5, bound, thesis


def rule(*expressions: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"expressions": list(expressions), **more}


def rules(*tables: dict[str, Any], **more: Any) -> BindingRules:
    return msgspec.convert({"type": "binding", "rules": list(tables), **more}, BindingRules)


def selected(strategy: BindingRules, waiting: Pod, *nodes: Node) -> Selection | None:
    return strategy.select_nodes(waiting, columns(nodes))


def names(selection: Selection | None, *nodes: Node) -> list[str]:
    assert selection is not None
    assert not selection.fault
    return [one.name for one, chosen in zip(nodes, selection.nodes, strict=True) if chosen]


def test_the_labels_that_its_rules_name_are_reported() -> None:
    disk, tier = ({"key": key, "operator": "exists"} for key in ("disk", "tier"))
    assert rules(rule(disk), rule(tier, pods={"app": "x"})).labels_of_nodes() == ("disk", "tier")
    assert BindingRules().labels_of_nodes() == ()


def test_t5_pods_go_where_the_thesis_puts_them() -> None:
    view = columns(thesis(node1="frontend", node2="backend", node3="frontend"))
    decisions = planned([Filters(), BindingRules()], view, [POD1, POD2, POD3, POD4, POD5])
    assert {one.pod.name: one.node for one in decisions} == {
        "pod1": "node1",
        "pod2": "node3",  # the largest, as all are empty
        "pod3": "node1",
        "pod4": "node3",
        "pod5": "",
    }


def test_t5_pods_placed_after_a_label_change_follow_new_labels() -> None:
    view = columns(thesis(node1="backend", node2="frontend", node3="backend"))
    pod1, pod2, pod3 = planned([Filters(), BindingRules()], view, [POD1, POD2, POD3])
    assert (pod1.node, pod2.node, pod3.node) == ("node1", "node2", "node2")


def test_t5_a_strongly_bound_pod_is_told_what_it_lacks() -> None:
    (decision,) = planned([Filters(), BindingRules()], columns(thesis(node1="a", node2="b", node3="c")), [POD5])
    assert (decision.verdict, decision.reason) == ("wait", "NoNodeMatches")
    assert decision.message == (
        "0/3 nodes are available: 3 node(s) didn't match its binding; "
        "it is bound to hostname in [node4] (its annotation)"
    )
    assert decision.mend == "a node would have to match hostname in [node4] (its annotation)"


LABELLED = [
    node("a", labels={"tier": "frontend", "cores": "8"}),
    node("b", labels={"tier": "backend", "cores": "16"}),
    node("c", labels={"cores": "many"}),
    node("d"),
]


@pytest.mark.parametrize(
    ("expressions", "expected"),
    [
        pytest.param([FRONT], "a", id="in"),
        pytest.param([{"key": "tier", "operator": "in", "values": ["x", "backend", "frontend"]}], "ab", id="in any"),
        pytest.param([{"key": "tier", "operator": "notIn", "values": ["frontend"]}], "bcd", id="notIn, also without"),
        pytest.param([{"key": "tier", "operator": "exists"}], "ab", id="exists"),
        pytest.param([{"key": "tier", "operator": "doesNotExist"}], "cd", id="doesNotExist"),
        pytest.param([{"key": "cores", "operator": "gt", "values": ["8"]}], "b", id="gt, never of what is no number"),
        pytest.param([{"key": "cores", "operator": "lt", "values": ["16"]}], "a", id="lt"),
        pytest.param([{"key": "cores", "operator": "exists"}, FRONT], "a", id="all of several"),
        pytest.param([FRONT, {"key": "tier", "operator": "doesNotExist"}], "", id="what excludes itself"),
    ],
)
@pytest.mark.parametrize("whence", ["annotation", "rule"])
def test_a_pod_is_bound_to_nodes_matching_all_expressions(
    expressions: list[dict[str, Any]], expected: str, whence: str
) -> None:
    if whence == "annotation":
        said = selected(BindingRules(), bound("p", *expressions), *LABELLED)
    else:
        said = selected(rules(rule(*expressions)), pod("p"), *LABELLED)
    assert names(said, *LABELLED) == list(expected)


@pytest.mark.parametrize(
    "waiting",
    [
        pytest.param(pod("p"), id="without an annotation"),
        pytest.param(bound("p"), id="with an empty list"),
        pytest.param(pod("p", annotations={BINDING: "{}"}), id="with an empty object"),
    ],
)
def test_who_is_bound_to_nothing_goes_anywhere(waiting: Pod) -> None:
    assert selected(BindingRules(), waiting, *LABELLED) is None


WEAK: dict[str, Any] = {"collectionIsEmpty": "default", "resourceNotFit": "default"}
STRONG: dict[str, Any] = {"collectionIsEmpty": "reschedule", "resourceNotFit": "reschedule"}
FORCED: dict[str, Any] = {"collectionIsEmpty": "reschedule", "resourceNotFit": "force"}


@pytest.mark.parametrize(
    ("tier", "how", "expected"),
    [
        pytest.param("small", WEAK, ("bind", "small"), id="weak, with room"),
        pytest.param("none", WEAK, ("bind", "large"), id="weak, none matches"),
        pytest.param("full", WEAK, ("bind", "large"), id="weak, no room"),
        pytest.param("small", STRONG, ("bind", "small"), id="strong, with room"),
        pytest.param("none", STRONG, ("wait", ""), id="strong, none matches"),
        pytest.param("full", STRONG, ("wait", ""), id="strong, no room"),
        pytest.param("none", {}, ("wait", ""), id="strong is what is not said, none matches"),
        pytest.param("full", {}, ("wait", ""), id="strong is what is not said, no room"),
        pytest.param("none", FORCED, ("wait", ""), id="by force, none matches"),
        pytest.param("full", FORCED, ("preempt", "full"), id="by force, no room"),
    ],
)
def test_binding_strengths_differ_without_a_matching_node_or_room(
    tier: str, how: dict[str, str], expected: tuple[str, str]
) -> None:
    nodes = [
        node("small", cpu=1, labels={"tier": "small"}),
        node("full", cpu=1, labels={"tier": "full"}),
        node("large", cpu=8),
    ]
    view = columns(nodes, [pod("old", cpu=1, on="full", restart="Never", started=NOW - 100)])
    waiting = bound("p", {"key": "tier", "operator": "in", "values": [tier]}, needs={"cpu": 0.5}, **how)
    (decision,) = planned([Filters(), BindingRules(), Preemption()], view, [waiting])
    assert (decision.verdict, decision.node) == expected


def decide(strategy: BindingRules, waiting: Pod) -> PodDecision:
    (decision,) = planned([Filters(), strategy], columns(LABELLED), [waiting])
    return decision


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("tables", "waiting", "expected"),
    [
        pytest.param([rule(FRONT, pods={"app": "web"})], pod("p", labels={"app": "web"}), "a", id="its labels match"),
        pytest.param([rule(FRONT, pods={"app": "web"})], pod("p", labels={"app": "db"}), None, id="its labels do not"),
        pytest.param([rule(FRONT, namespaces=["shop"])], pod("p"), "a", id="its namespace is named"),
        pytest.param([rule(FRONT, namespaces=["blog"])], pod("p"), None, id="another namespace is named"),
        pytest.param([rule(FRONT, namespaces=["blog", "*"])], pod("p"), "a", id="any namespace"),
        pytest.param(
            [rule(expression("tier", "exists")), rule(expression("cores", "gt", "8"))], pod("p"), "b", id="two rules"
        ),
        pytest.param(
            [rule(expression("tier", "exists"))], bound("p", expression("cores", "lt", "9")), "a", id="and its own"
        ),
        pytest.param([rule(FRONT)], bound("p", expression("tier", "in", "backend")), "", id="its own loosens nothing"),
        pytest.param(
            [
                rule(expression("tier", "in", "none"), collection_is_empty="default"),
                rule(expression("cores", "gt", "8")),
            ],
            pod("p"),
            "b",
            id="a weak rule that nobody matches does not count beside a strong one",
        ),
    ],
)
def test_all_operator_rules_that_select_a_pod_apply(
    tables: list[dict[str, Any]], waiting: Pod, expected: str | None
) -> None:
    said = selected(rules(*tables), waiting, *LABELLED)
    assert (None if said is None else names(said, *LABELLED)) == (None if expected is None else list(expected))


@pytest.mark.parametrize(
    ("first", "second", "full"),
    [
        ("default", "default", "any"),
        ("default", "force", "preempt"),
        ("force", "force", "preempt"),
        ("force", "reschedule", "wait"),
        ("default", "reschedule", "wait"),
    ],
)
def test_the_strictest_of_several_rules_decides_without_room(first: str, second: str, full: str) -> None:
    said = selected(
        rules(rule(FRONT, resource_not_fit=first), rule(FRONT, resource_not_fit=second)), pod("p"), *LABELLED
    )
    assert said is not None
    assert said.full == full


def weakly(*expressions: dict[str, Any], **more: Any) -> dict[str, Any]:
    return rule(*expressions, collection_is_empty="default", resource_not_fit="default", **more)


def disk(*values: str) -> dict[str, Any]:
    return expression("d", "in", *values)


DISKS = [
    node("a", labels={"d": "hdd"}),
    node("b", labels={"d": "ssd"}),
    node("c", labels={"d": "ssd", "zone": "z"}),
    node("e", labels={"zone": "y"}),
]
LEFT_OUT = "left out as no node matches"


@pytest.mark.parametrize(
    ("tables", "own", "expected", "why"),
    [
        pytest.param(
            [weakly(disk("ssd"))],
            (disk("none"), WEAK),
            "bc",
            f"d in [none] (its annotation, {LEFT_OUT}); d in [ssd] (rules[0])",
            id="an annotation that no node matches loosens no rule",
        ),
        pytest.param(
            [weakly(disk("ssd"))],
            (disk("hdd"), WEAK),
            "bc",
            f"d in [hdd] (its annotation, {LEFT_OUT}); d in [ssd] (rules[0])",
            id="nor one that nodes match, but not with the rule",
        ),
        pytest.param(
            [weakly(disk("ssd"))],
            (expression("zone", "in", "z"), WEAK),
            "c",
            "zone in [z] (its annotation); d in [ssd] (rules[0])",
            id="it narrows what the rule leaves",
        ),
        pytest.param(
            [weakly(disk("none"))],
            (disk("hdd"), WEAK),
            "a",
            f"d in [hdd] (its annotation); d in [none] (rules[0], {LEFT_OUT})",
            id="a rule that no node matches keeps no annotation from counting",
        ),
        pytest.param(
            [weakly(disk("none")), weakly(disk("ssd")), weakly(expression("zone", "in", "y"))],
            None,
            "bc",
            f"d in [none] (rules[0], {LEFT_OUT}); d in [ssd] (rules[1]); zone in [y] (rules[2], {LEFT_OUT})",
            id="of rules that no node matches together the earlier counts",
        ),
        pytest.param(
            [weakly(expression("zone", "in", "y")), weakly(disk("ssd"))],
            None,
            "e",
            f"zone in [y] (rules[0]); d in [ssd] (rules[1], {LEFT_OUT})",
            id="whichever that is",
        ),
        pytest.param(
            [weakly(disk("none"))],
            (disk("none"), WEAK),
            "",
            "d in [none] (its annotation); d in [none] (rules[0])",
            id="none counts",
        ),
        pytest.param(
            [weakly(disk("ssd")), rule(expression("zone", "exists"))],
            None,
            "c",
            "d in [ssd] (rules[0]); zone exists (rules[1])",
            id="a strong one, and a weak one with it",
        ),
        pytest.param(
            [weakly(disk("hdd")), rule(expression("zone", "exists")), weakly(disk("ssd"))],
            None,
            "c",
            f"d in [hdd] (rules[0], {LEFT_OUT}); zone exists (rules[1]); d in [ssd] (rules[2])",
            id="a strong one goes before an earlier weak one, which lets a later one count",
        ),
        pytest.param(
            [weakly(disk("ssd"))],
            (disk("hdd"), STRONG),
            "a",
            f"d in [hdd] (its annotation); d in [ssd] (rules[0], {LEFT_OUT})",
            id="a strong annotation goes before a weak rule",
        ),
        pytest.param(
            [rule(disk("ssd"))],
            (disk("hdd"), STRONG),
            "",
            "d in [hdd] (its annotation); d in [ssd] (rules[0])",
            id="two strong ones that no node matches together",
        ),
        pytest.param(
            [rule(disk("ssd"))],
            (disk("hdd"), WEAK),
            "bc",
            f"d in [hdd] (its annotation, {LEFT_OUT}); d in [ssd] (rules[0])",
            id="a weak annotation loosens no strong rule",
        ),
        pytest.param(
            [rule(disk("none")), weakly(disk("ssd"))],
            (disk("hdd"), WEAK),
            "",
            "d in [none] (rules[0])",
            id="where no node matches a strong one, it alone is told",
        ),
    ],
)
def test_a_weak_binding_counts_if_nodes_match_all_so_far(
    tables: list[dict[str, Any]], own: tuple[dict[str, Any], dict[str, Any]] | None, expected: str, why: str
) -> None:
    waiting = pod("p") if own is None else bound("p", own[0], **own[1])
    said = selected(rules(*tables), waiting, *DISKS)
    assert said is not None
    assert (names(said, *DISKS), said.why) == (list(expected), why)


def test_nodes_are_not_asked_to_match_what_does_not_count() -> None:
    full = {**weakly(disk("ssd")), "resource_not_fit": "reschedule"}
    strategy = rules(full, weakly(disk("none")), weakly(expression("kubernetes.io/hostname", "exists")))
    said = selected(strategy, pod("p"), *DISKS)
    assert said is not None
    counting = "d in [ssd] (rules[0]); kubernetes.io/hostname exists (rules[2])"
    assert said.match == counting
    nodes = [node("n1", labels={"d": "ssd"}, unschedulable=True), node("n2")]
    (decision,) = planned([Filters(), strategy], columns(nodes), [pod("p")])
    assert decision.mend == f"nodes are uncordoned (1 node); or nodes match {counting} (1 node)"


def test_an_ignored_rule_says_nothing_about_missing_room() -> None:
    forced = {**weakly(disk("none")), "resource_not_fit": "force"}
    said = selected(rules(forced, weakly(disk("ssd"))), pod("p"), *DISKS)
    assert said is not None
    assert said.full == "any"


@given(some.lists(some.tuples(some.booleans(), some.sampled_from("abcd"), some.booleans()), min_size=1, max_size=5))
def test_no_rule_is_loosened_by_what_an_annotation_says(said: list[tuple[bool, str, bool]]) -> None:
    """With an annotation a pod goes to some of the nodes that it would go to without, unless that is strong."""
    nodes = [node("n1", labels={"a": "", "b": ""}), node("n2", labels={"b": "", "c": ""}), node("n3", labels={"c": ""})]
    tables = [
        rule(
            expression(key, "exists" if there else "doesNotExist"),
            collection_is_empty="reschedule" if strong else "default",
        )
        for strong, key, there in said[1:]
    ]
    _, key, there = said[0]
    own = bound("p", expression(key, "exists" if there else "doesNotExist"), **WEAK)
    strategy = rules(*tables)
    without, found = selected(strategy, pod("p"), *nodes), selected(strategy, own, *nodes)
    assert found is not None
    if without is not None and without.nodes.any():
        assert found.nodes.any()
        assert not (found.nodes & ~without.nodes).any()
    elif without is not None and without.unmatched == "wait":
        assert not found.nodes.any()
        assert found.unmatched == "wait"


def test_weak_rules_that_nobody_matches_leave_the_pod_unbound() -> None:
    weak = rule(expression("tier", "in", "none"), collection_is_empty="default")
    assert decide(rules(weak, rule(FRONT, collection_is_empty="default")), pod("p")).verdict == "bind"


def test_an_operator_may_forbid_pods_their_own() -> None:
    strategy = rules(rule(FRONT), annotations=False)
    assert decide(strategy, pod("p", annotations={BINDING: "{"})).node == "a"


def test_it_says_whence_a_binding_comes() -> None:
    strategy = rules(rule(expression("cores", "lt", "9"), pods={"app": "web"}), rule(expression("tier", "exists")))
    assert decide(strategy, bound("p", FRONT)).binding == "tier in [frontend] (its annotation); tier exists (rules[1])"


KEY = "must be what a label's key can be (NAME or DOMAIN/NAME, NAME at most 63 of A-Z a-z 0-9 - _ .)"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param("{", 'must be JSON, is "{": Input data was truncated', id="no JSON"),
        pytest.param("", 'must be JSON, is "": Input data was truncated', id="nothing"),
        pytest.param('["a"]', "must be a JSON object, is ['a']", id="a list"),
        pytest.param("null", "must be a JSON object, is null", id="null"),
        pytest.param('{"expressions": null}', "expressions: must be an array, is null", id="no list but null"),
        pytest.param(
            '{"expressions": [{"key": null, "operator": "exists"}]}',
            "expressions[0].key: must be a string, is null",
            id="null as key",
        ),
        pytest.param(
            '{"expressions": [{"key": "a b!", "operator": "exists"}]}',
            f'expressions[0].key: {KEY}, is "a b!"',
            id="what no key can be",
        ),
        pytest.param(
            '{"expressions": [{"key": "Example_com/a", "operator": "exists"}]}',
            f'expressions[0].key: {KEY}, is "Example_com/a"',
            id="what no key's domain can be",
        ),
        pytest.param('{"expresions": []}', 'expresions: no such key, did you mean "expressions"?', id="unknown key"),
        pytest.param(
            '{"node_label_change": "kill"}',
            'node_label_change: no such key, did you mean "nodeLabelChange"?',
            id="case",
        ),
        pytest.param('{"expressions": 7}', "expressions: must be an array, is 7", id="no list"),
        pytest.param(
            '{"expressions": {"key": "a"}}', "expressions: must be an array, is an object", id="one expression"
        ),
        pytest.param('{"expressions": [7]}', "expressions[0]: must be an object, is 7", id="no expression"),
        pytest.param(
            '{"expressions": [{"operator": "exists"}]}', "expressions[0].key: must be given, is missing", id="no key"
        ),
        pytest.param(
            '{"expressions": [{"key": "", "operator": "exists"}]}',
            'expressions[0].key: must not be empty, is ""',
            id="key",
        ),
        pytest.param(
            '{"expressions": [{"key": "a", "operator": "notin"}]}',
            'expressions[0].operator: must be one of doesNotExist, exists, gt, in, lt, notIn, is "notin", did you mean '
            '"notIn"?',
            id="operator",
        ),
        pytest.param(
            '{"expressions": [{"key": "a", "operator": "in"}]}',
            "expressions[0].values: must not be empty for in, is []",
            id="in without values",
        ),
        pytest.param(
            '{"expressions": [{"key": "a", "operator": "exists", "values": ["b"]}]}',
            'expressions[0].values: must be left out for exists, is "b"',
            id="exists with values",
        ),
        pytest.param(
            '{"expressions": [{"key": "a", "operator": "gt", "values": ["b"]}]}',
            'expressions[0].values: must be one whole number for gt, is ["b"]',
            id="gt of no number",
        ),
        pytest.param(
            json.dumps({"expressions": [{"key": "a", "operator": "gt", "values": ["1" * 32]}]}),
            f'expressions[0].values: must be one whole number less than 2^63 for gt, is ["{"1" * 32}"]',
            id="gt of 32 digits",
        ),
        pytest.param(
            '{"expressions": [{"key": "a", "operator": "lt", "values": ["1", "2"]}]}',
            'expressions[0].values: must be one whole number for lt, is ["1", "2"]',
            id="lt of two",
        ),
        pytest.param(
            '{"expressions": [{"key": "a", "operator": "notIn", "values": ["b c"]}]}',
            'expressions[0].values: must be what a label can be (at most 63 of A-Z a-z 0-9 - _ .), is "b c"',
            id="what no label can be",
        ),
        pytest.param(
            '{"expressions": [{"key": "a", "operator": "in", "values": [1]}]}',
            "expressions[0].values[0]: must be a string, is 1",
            id="a number as value",
        ),
        pytest.param(
            '{"nodeLabelChange": "stay"}',
            'nodeLabelChange: must be one of kill, reschedule, still, is "stay"',
            id="nodeLabelChange",
        ),
        pytest.param(
            '{"collectionIsEmpty": "reshedule"}',
            'collectionIsEmpty: must be one of default, reschedule, is "reshedule", did you mean "reschedule"?',
            id="collectionIsEmpty, as the thesis misspells it",
        ),
        pytest.param(
            '{"resourceNotFit": "kill"}',
            'resourceNotFit: must be one of default, force, reschedule, is "kill"',
            id="resourceNotFit",
        ),
    ],
)
def test_an_unreadable_annotation_keeps_the_pod_pending_with_one_line(text: str, fault: str) -> None:
    decision = decide(BindingRules(), pod("p", annotations={BINDING: text}))
    assert (decision.verdict, decision.reason) == ("wait", "InvalidBinding")
    assert decision.message == f"elasticd.io/binding: {fault}"
    assert decision.mend == f"elasticd.io/binding would have to be mended, or taken away: {fault}"
    assert decision.binding == ""


@pytest.mark.slow
@given(some.text(max_size=40) | some.recursive(some.none() | some.booleans() | some.text(), some.lists).map(json.dumps))
def test_any_annotation_is_read_or_refused_in_one_line(text: str) -> None:
    try:
        found = binding_of(pod("p", annotations={BINDING: text}))
    except ValueError as error:
        assert str(error).startswith("elasticd.io/binding: ")  # noqa: PT017
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert found is None


def test_brackets_without_end_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^elasticd\.io/binding: must be JSON"):
        binding_of(pod("p", annotations={BINDING: "[" * 100_000}))


def test_the_label_change_policy_of_an_annotation_is_kept() -> None:
    assert binding_of(bound("p", FRONT, nodeLabelChange="kill")) == Binding(
        msgspec.convert([FRONT], tuple[LabelRule, ...]), node_label_change="kill"
    )


def one_rule(more: str) -> str:
    return f'rules = [{{ expressions = [{{ key = "a", operator = "exists" }}], {more} }}]'


@pytest.mark.parametrize(
    ("table", "said"),
    [
        pytest.param("annotations = false", "rules: must be given where annotations is false, is empty", id="nothing"),
        pytest.param("annotations = 1", "annotations: must be true or false, is 1", id="annotations"),
        pytest.param("rules = [{}]", "rules[0].expressions: must not be empty, is []", id="a rule without expressions"),
        pytest.param(
            "rules = [{ expresions = [] }]",
            'rules[0].expresions: no such key, did you mean "expressions"?',
            id="an unknown key",
        ),
        pytest.param(one_rule("namespaces = []"), "rules[0].namespaces: must not be empty, is []", id="no namespaces"),
        pytest.param(one_rule("pods = 7"), "rules[0].pods: must be a table, is 7", id="pods"),
        pytest.param(
            one_rule('node_label_change = "go"'),
            'rules[0].node_label_change: must be one of kill, reschedule, still, is "go"',
            id="node_label_change",
        ),
        pytest.param(
            one_rule('collection_is_empty = "force"'),
            'rules[0].collection_is_empty: must be one of default, reschedule, is "force"',
            id="collection_is_empty",
        ),
        pytest.param(
            one_rule('resource_not_fit = "kill"'),
            'rules[0].resource_not_fit: must be one of default, force, reschedule, is "kill"',
            id="resource_not_fit",
        ),
        pytest.param(
            'rules = [{ expressions = [{ key = "a", operator = "in" }] }]',
            "rules[0].expressions[0].values: must not be empty for in, is []",
            id="in without values",
        ),
    ],
)
def test_nonsense_is_refused(table: str, said: str, tmp_path: Path) -> None:
    assert refused(tmp_path, binding, f'type = "binding"\n{table}') == f"strategy[0].{said}"


def example(name: str) -> PoolPolicy:
    modules = (binding, filters, preemption)
    return load_pool(Path(__file__).parents[2] / "config" / "policies" / f"{name}.toml", registry(*modules))


def run_example(name: str, waiting: Pod, nodes: Sequence[Node], there: Sequence[Pod] = ()) -> tuple[str, str]:
    policy = example(name)
    assert policy.pool.has(waiting)
    (decision,) = planned(policy.strategies, columns(nodes, there), [waiting], pool=policy.pool)
    return decision.verdict, decision.node


FAST = node("fast", cpu=1, labels={"example.com/disk": "ssd"})
RETIRING = node("retiring", labels={"example.com/disk": "ssd", "example.com/retiring": ""})
PLAIN = node("plain", cpu=8)


@pytest.mark.parametrize(
    ("nodes", "there", "expected"),
    [
        pytest.param([FAST, RETIRING, PLAIN], [], "fast", id="a node matches"),
        pytest.param([RETIRING, PLAIN], [], "plain", id="none matches"),
        pytest.param([FAST, PLAIN], [pod("old", 1, on="fast")], "plain", id="none of them has room"),
    ],
)
def test_the_example_of_weak_binding_goes_elsewhere_rather_than_wait(
    nodes: list[Node], there: list[Pod], expected: str
) -> None:
    waiting = pod("redis", namespace="cache", labels={"app": "redis"})
    assert run_example("binding-weak", waiting, nodes, there) == ("bind", expected)


CERTIFIED = node("certified", cpu=1, labels={"example.com/certified": "pci", "example.com/generation": "4"})
AGED = node("aged", labels={"example.com/certified": "pci", "example.com/generation": "3"})


@pytest.mark.parametrize(
    ("nodes", "there", "expected"),
    [
        pytest.param([CERTIFIED, AGED, PLAIN], [], ("bind", "certified"), id="a node matches"),
        pytest.param([AGED, PLAIN], [], ("wait", ""), id="none matches"),
        pytest.param(
            [CERTIFIED, PLAIN],
            [pod("old", 1, on="certified", restart="Never", started=NOW - 100)],
            ("preempt", "certified"),
            id="none of them has room, and a lesser pod is there",
        ),
        pytest.param(
            [CERTIFIED, PLAIN], [pod("old", 1, on="certified")], ("wait", ""), id="none has room, and nobody is lesser"
        ),
    ],
)
def test_the_example_of_strong_binding_goes_nowhere_else(
    nodes: list[Node], there: list[Pod], expected: tuple[str, str]
) -> None:
    waiting = pod("pay", namespace="payments", labels={"example.com/data": "cards"})
    assert run_example("binding-strong", waiting, nodes, there) == expected


def test_the_annotation_that_the_example_shows_can_be_read() -> None:
    text = (Path(__file__).parents[2] / "config" / "policies" / "binding-strong.toml").read_text()
    (shown,) = re.findall(r"elasticd.io/binding: '(.*?)'", text, re.DOTALL)
    found = binding_of(pod("p", annotations={BINDING: shown.replace("\n#", "\n")}))
    assert str(found) == "example.com/zone notIn [c]"


@pytest.mark.parametrize(
    "strategy", [pytest.param(BindingRules(), id="annotations"), pytest.param(rules(rule(FRONT)), id="rules")]
)
def test_it_does_nothing_that_no_strategy_may(strategy: BindingRules) -> None:
    assert check_strategy(strategy) == []


def test_a_pool_without_nodes_matches_nothing() -> None:
    assert names(selected(rules(rule(FRONT)), pod("p"))) == []
