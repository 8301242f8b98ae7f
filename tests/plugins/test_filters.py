"""Filters: which nodes are refused, in which words, and where fewer pods would mend it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elasticd.api import (
    Disk,
    Expression,
    Needs,
    Node,
    Pod,
    Port,
    Refusal,
    Repel,
    Taint,
    Term,
    Toleration,
    TopologySpread,
)
from elasticd.model.workload import Container
from elasticd.testing import check_strategy
from elasticd_plugins import filters as filters_module
from elasticd_plugins.filters import Filters
from elasticd_plugins.filters.node_conditions import NAMED
from tests.kit.plugins.builders import decode
from tests.kit.pools import GIB, columns, mends, node, planned, pod, refused

EXISTS = (Toleration(operator="Exists"),)
BATCH = Taint("dedicated", "NoSchedule", "batch")
FAILED = Taint("node.kubernetes.io/not-ready", "NoSchedule")
CORDONED = Taint("node.kubernetes.io/unschedulable", "NoSchedule")
AFFINITY = "node(s) didn't match Pod's node affinity/selector"
PORTS = "node(s) didn't have free ports for the requested pod ports"
DISKS = "node(s) had no available disk"
REPELLED = "node(s) didn't satisfy existing pods anti-affinity rules"
ZONE, WEB = "zone", (Expression("app", "In", ("web",)),)


def ask(
    asked: Pod, nodes: Sequence[Node], on: Sequence[Pod] = (), filters: Filters | None = None
) -> dict[str, list[str]]:
    """The nodes that are refused, by reason."""
    view, found = columns(nodes, on), dict[str, list[str]]()
    for one in (filters or Filters()).filter_nodes(asked, view):
        found.setdefault(one.reason, []).extend(view.names[index] for index in np.flatnonzero(one.nodes))
    return found


def tolerating(key: str) -> tuple[Toleration, ...]:
    return (Toleration(key, "Exists"),)


def term(key: str, operator: Any, *values: str) -> Term:
    return Term((Expression(key, operator, values),))


def called(*names: str) -> tuple[Term, ...]:
    return tuple(Term(fields=(Expression("metadata.name", "In", (name,)),)) for name in names)


ALONE = [
    pytest.param({}, {}, None, id="nothing in the way"),
    pytest.param({"unschedulable": True}, {}, "node(s) were unschedulable", id="cordoned"),
    pytest.param({"unschedulable": True}, {"tolerations": EXISTS}, None, id="cordoned, tolerated"),
    pytest.param(
        {"unschedulable": True, "taints": (CORDONED,)}, {}, "node(s) were unschedulable", id="cordoned and tainted"
    ),
    pytest.param({"taints": (BATCH,)}, {}, "node(s) had untolerated taint {dedicated: batch}", id="taint"),
    pytest.param({"taints": (BATCH,)}, {"tolerations": tolerating("dedicated")}, None, id="taint, tolerated"),
    pytest.param(
        {"taints": (Taint("a", "NoExecute"), BATCH)}, {}, "node(s) had untolerated taint {a: }", id="two taints"
    ),
    pytest.param(
        {"taints": (Taint("a", "NoExecute"), BATCH)},
        {"tolerations": tolerating("a")},
        "node(s) had untolerated taint {dedicated: batch}",
        id="two taints, the first tolerated",
    ),
    pytest.param({"taints": (Taint("a", "PreferNoSchedule"),)}, {}, None, id="only preferred to be left alone"),
    pytest.param({}, {"selector": {"zone": "b"}}, AFFINITY, id="selector"),
    pytest.param({"labels": {"zone": "b"}}, {"selector": {"zone": "b"}}, None, id="selector that holds"),
    pytest.param(
        {"labels": {"zone": "b"}}, {"selector": {"zone": "b", "disk": "ssd"}}, AFFINITY, id="selector, half of it"
    ),
    pytest.param({}, {"selector": {"kubernetes.io/hostname": "other"}}, AFFINITY, id="host name of another"),
    pytest.param({}, {"selector": {"kubernetes.io/hostname": "n"}}, None, id="host name"),
    pytest.param({}, {"affinity": called("m")}, AFFINITY, id="name of another"),
    pytest.param({}, {"affinity": called("m", "n")}, None, id="one of two names"),
    pytest.param({}, {"affinity": ()}, AFFINITY, id="affinity without terms"),
    pytest.param({}, {"affinity": (Term(),)}, AFFINITY, id="affinity with an empty term"),
    pytest.param({"labels": {"zone": "b"}}, {"affinity": (term("zone", "In", "a", "b"),)}, None, id="affinity"),
    pytest.param({}, {"affinity": (term("zone", "Exists"), term("zone", "DoesNotExist"))}, None, id="either term"),
    pytest.param(
        {"labels": {"zone": "b"}},
        {"selector": {"zone": "b"}, "affinity": (term("zone", "NotIn", "b"),)},
        AFFINITY,
        id="selector and affinity at odds",
    ),
    pytest.param({"labels": {"cores": "8"}}, {"affinity": (term("cores", "Gt", "7"),)}, None, id="greater"),
    pytest.param({"labels": {"cores": "8"}}, {"affinity": (term("cores", "Lt", "8"),)}, AFFINITY, id="less"),
    pytest.param({"cpu": 1}, {"cpu": 1.001}, "Insufficient cpu", id="cpu"),
    pytest.param({"cpu": 1}, {"cpu": 1}, None, id="cpu, exactly"),
    pytest.param({"memory": GIB}, {"memory": GIB + 1}, "Insufficient memory", id="memory, by a byte"),
    pytest.param(
        {}, {"resources": {"example.com/gpu": 1.0}}, "Insufficient example.com/gpu", id="what the node does not have"
    ),
    pytest.param({}, {"resources": {"example.com/gpu": 0.0}}, None, id="none of what the node does not have"),
    pytest.param({"cpu": 0.0}, {"cpu": 0.0}, None, id="no cpu asked of none"),
    pytest.param({"pods": 0}, {}, "Too many pods", id="a node for no pods"),
]


@pytest.mark.parametrize(("has", "asks", "reason"), ALONE)
def test_an_empty_node_is_refused_for_one_reason(has: dict[str, Any], asks: dict[str, Any], reason: str | None) -> None:
    assert ask(pod("p", **asks), [node("n", **has)]) == ({} if reason is None else {reason: ["n"]})


def failed(*taints: Taint) -> Node:
    return Node("n", "uid-n", False, allocatable={"cpu": 4, "memory": GIB, "pods": 9}, taints=taints)


@pytest.mark.parametrize(
    ("taints", "tolerations", "reason"),
    [
        pytest.param((), (), "node(s) were not ready", id="before its taint has come"),
        pytest.param((), EXISTS, None, id="before its taint has come, tolerated"),
        pytest.param((FAILED,), (), "node(s) had untolerated taint {node.kubernetes.io/not-ready: }", id="tainted"),
        pytest.param((FAILED,), tolerating("node.kubernetes.io/not-ready"), None, id="tainted, tolerated"),
        pytest.param(
            (Taint("node.kubernetes.io/unreachable", "NoSchedule"),),
            tolerating("node.kubernetes.io/unreachable"),
            None,
            id="unreachable, tolerated",
        ),
        pytest.param(
            (Taint("node.kubernetes.io/not-ready", "NoExecute"),),
            (Toleration("node.kubernetes.io/not-ready", "Exists", "", "NoExecute"),),
            "node(s) were not ready",
            id="tainted for those that run only, as every pod tolerates for five minutes",
        ),
    ],
)
def test_an_unready_node_is_refused_as_if_it_were_tainted(
    taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...], reason: str | None
) -> None:
    asked = pod("p", tolerations=tolerations)
    assert ask(asked, [failed(*taints)]) == ({} if reason is None else {reason: ["n"]})


@pytest.mark.parametrize(
    ("on", "asks", "reason"),
    [
        pytest.param({"cpu": 3.5}, {"cpu": 0.5}, None, id="exactly what is left"),
        pytest.param({"cpu": 3.5}, {"cpu": 0.501}, "Insufficient cpu", id="more than is left"),
        pytest.param({"cpu": 3.9, "deleted": True}, {"cpu": 0.2}, "Insufficient cpu", id="one that is being deleted"),
        pytest.param({"cpu": 9.0}, {"cpu": 0.0}, None, id="no cpu where too much is promised"),
        pytest.param({"ports": (Port(80),)}, {"ports": (Port(80),)}, PORTS, id="a port"),
        pytest.param({"ports": (Port(80),)}, {"ports": (Port(81), Port(80))}, PORTS, id="one of two ports"),
        pytest.param({"ports": (Port(80),)}, {"ports": (Port(81),)}, None, id="another port"),
        pytest.param({"ports": (Port(80),)}, {"ports": (Port(80, "UDP"),)}, None, id="another protocol"),
        pytest.param(
            {"ports": (Port(80, "TCP", "10.0.0.1"),)},
            {"ports": (Port(80, "TCP", "10.0.0.2"),)},
            None,
            id="another address",
        ),
        pytest.param({"ports": (Port(80, "TCP", "10.0.0.1"),)}, {"ports": (Port(80),)}, PORTS, id="every address"),
        pytest.param({"ports": (Port(80),), "deleted": True}, {"ports": (Port(80),)}, PORTS, id="a port still held"),
        pytest.param({"disks": (Disk("ebs", "d"),)}, {"disks": (Disk("ebs", "d"),)}, DISKS, id="a disk"),
        pytest.param({"disks": (Disk("ebs", "d"),)}, {"disks": (Disk("gce", "d"),)}, None, id="another kind of disk"),
        pytest.param(
            {"disks": (Disk("gce", "d", read_only=True, shareable=True),)},
            {"disks": (Disk("gce", "d", read_only=True, shareable=True),)},
            None,
            id="a disk that both read",
        ),
    ],
)
def test_a_node_is_refused_for_what_its_pods_take(on: dict[str, Any], asks: dict[str, Any], reason: str | None) -> None:
    assert ask(pod("p", **asks), [node("n")], [pod("q", on="n", **on)]) == ({} if reason is None else {reason: ["n"]})


def test_the_first_refusing_filter_and_each_lacking_resource_are_named() -> None:
    nodes = [
        node("cordoned", unschedulable=True, taints=(BATCH,)),
        node("elsewhere", labels={"zone": "b"}),
        node("fits", labels={"zone": "a"}),
        node("full", cpu=1, memory=GIB, pods=1, labels={"zone": "a"}),
        node("port", cpu=1, labels={"zone": "a"}),
        node("tainted", taints=(BATCH,)),
    ]
    on = [
        pod("q", cpu=1, memory=GIB, on="full", disks=(Disk("ebs", "d"),)),
        pod("r", cpu=1, on="port", ports=(Port(80),), disks=(Disk("ebs", "d"),)),
    ]
    asked = pod("p", selector={"zone": "a"}, ports=(Port(80),), disks=(Disk("ebs", "d"),))
    assert ask(asked, nodes, on) == {
        "node(s) were unschedulable": ["cordoned"],
        "node(s) had untolerated taint {dedicated: batch}": ["tainted"],
        AFFINITY: ["elsewhere"],
        PORTS: ["port"],
        "Insufficient cpu": ["full"],
        "Insufficient memory": ["full"],
        "Too many pods": ["full"],
    }


ZONES = [node("a1", labels={"zone": "a"}), node("a2", labels={"zone": "a"}), node("b", labels={"zone": "b"}), node("n")]


@pytest.mark.parametrize(
    ("on", "repel", "asks", "expected"),
    [
        pytest.param("b", Repel(ZONE, WEB), {"labels": {"app": "web"}}, "..c.", id="the only node of its zone"),
        pytest.param("a1", Repel(ZONE, WEB), {"labels": {"app": "web"}}, "cx..", id="a zone of two"),
        pytest.param("n", Repel(ZONE, WEB), {"labels": {"app": "web"}}, "....", id="a node of no zone"),
        pytest.param("a1", Repel(ZONE, WEB), {"labels": {"app": "api"}}, "....", id="another app"),
        pytest.param("a1", Repel(ZONE, WEB, ("x",)), {"labels": {"app": "web"}}, "....", id="another namespace"),
        pytest.param("a1", Repel("kubernetes.io/hostname", WEB), {"labels": {"app": "web"}}, "c...", id="its own node"),
        pytest.param("b", Repel(ZONE, ()), {"cpu": 9.0}, "xxxx", id="what fits nowhere anyhow"),
        pytest.param("b", Repel(ZONE, WEB), {"labels": {"app": "web"}, "selector": {"zone": "b"}}, "xxcx", id="bound"),
    ],
)
def test_pods_that_are_there_keep_others_off_nodes_like_theirs(
    on: str, repel: Repel, asks: dict[str, Any], expected: str
) -> None:
    assert marks(pod("p", **asks), ZONES, [pod("q", on=on, repels=(repel,))]) == expected


def test_a_node_that_several_keep_off_is_counted_once() -> None:
    on = [pod(f"q{i}", on="b", repels=(Repel(ZONE, WEB), Repel("kubernetes.io/hostname", ()))) for i in range(2)]
    assert ask(pod("p", labels={"app": "web"}), ZONES, on) == {REPELLED: ["b"]}


def test_a_pod_repels_others_once_it_is_placed() -> None:
    view, web = columns(ZONES), pod("p", labels={"app": "web"})
    assert Filters().filter_nodes(web, view) == []
    view.take(2, pod("q", repels=(Repel(ZONE, WEB),)))
    (refusal,) = Filters().filter_nodes(web, view)
    assert refusal.nodes.tolist() == [False, False, True, False]
    view.release(2, pod("q", repels=(Repel(ZONE, WEB),)))
    assert Filters().filter_nodes(web, view) == []


def test_the_message_is_kube_schedulers() -> None:
    nodes = [node("a", cpu=1), node("b", cpu=1), node("c", taints=(BATCH,)), node("d", unschedulable=True)]
    (decision,) = planned([Filters()], columns(nodes), [pod("p", cpu=2)])
    assert decision.message == (
        "0/4 nodes are available: 1 node(s) had untolerated taint {dedicated: batch}, "
        "1 node(s) were unschedulable, 2 Insufficient cpu"
    )


def test_many_taints_share_a_reason_after_the_first_few() -> None:
    nodes = [node(f"n{i:02}", taints=(Taint("owner", "NoSchedule", f"{i:02}"),)) for i in range(NAMED + 5)]
    nodes += [node("x", taints=nodes[-1].taints)]
    found = ask(pod("p"), nodes)
    assert found["node(s) had untolerated taint {owner: 24}"] == ["n24", "x"]
    assert found["node(s) had untolerated taint(s)"] == ["n19", "n20", "n21", "n22", "n23"]
    assert len(found) == NAMED + 1


def marks(asked: Pod, nodes: Sequence[Node], on: Sequence[Pod] = ()) -> str:
    """Of each node: "." it fits, "c" others could make room, "x" nobody can."""
    view = columns(nodes, on)
    refusals: Sequence[Refusal] = Filters().filter_nodes(asked, view)
    bad = [{one.curable for one in refusals if one.nodes[index]} for index in range(len(nodes))]
    return "".join("." if not found else "c" if found == {True} else "x" for found in bad)


@pytest.mark.parametrize(
    ("has", "on", "asks", "expected"),
    [
        pytest.param({}, {}, {}, ".", id="fits"),
        pytest.param({}, {"cpu": 4.0}, {"cpu": 1.0}, "c", id="cpu that others have"),
        pytest.param({}, {"cpu": 4.0}, {"cpu": 5.0}, "x", id="cpu that there is not"),
        pytest.param({}, {"cpu": 4.0}, {"memory": 9 * GIB}, "x", id="memory that there is not"),
        pytest.param({}, {"cpu": 4.0}, {"memory": 9 * GIB, "cpu": 1.0}, "x", id="memory that there is not, and cpu"),
        pytest.param({"pods": 1}, {}, {}, "c", id="pods"),
        pytest.param({}, {"ports": (Port(80),)}, {"ports": (Port(80),)}, "c", id="a port"),
        pytest.param({}, {"ports": (Port(80),)}, {"ports": (Port(80),), "cpu": 5.0}, "x", id="a port, and no cpu"),
        pytest.param({}, {"disks": (Disk("ebs", "d"),)}, {"disks": (Disk("ebs", "d"),)}, "c", id="a disk"),
        pytest.param({"taints": (BATCH,)}, {"cpu": 4.0}, {"cpu": 1.0}, "x", id="a taint, and cpu"),
        pytest.param({"unschedulable": True}, {}, {}, "x", id="cordoned"),
        pytest.param({}, {}, {"selector": {"zone": "a"}}, "x", id="selector"),
        pytest.param({}, {}, {"resources": {"example.com/gpu": 1.0}}, "x", id="a resource that it does not have"),
    ],
)
def test_only_what_fewer_pods_would_mend_is_curable(
    has: dict[str, Any], on: dict[str, Any], asks: dict[str, Any], expected: str
) -> None:
    assert marks(pod("p", **asks), [node("n", **has)], [pod("q", on="n", **on)]) == expected


@pytest.mark.parametrize(
    ("asks", "fits"),
    [
        pytest.param({"cpu": 0.5, "memory": 7 * GIB}, True, id="what is not kept"),
        pytest.param({"cpu": 0.501}, False, id="cpu that is kept"),
        pytest.param({"memory": 7 * GIB + 1}, False, id="memory that is kept"),
        pytest.param({"cpu": 0.0, "memory": 0.0}, True, id="nothing"),
    ],
)
def test_what_is_kept_free_is_no_room(asks: dict[str, Any], fits: bool) -> None:
    filters = decode(Filters, keep_free={"cpu": "500m", "memory": "1Gi"})
    found = ask(pod("p", **asks), [node("n", cpu=2)], [pod("q", cpu=1, memory=0, on="n")], filters)
    assert (not found) is fits


def test_pods_may_be_kept_free_too() -> None:
    filters = decode(Filters, keep_free={"pods": "10"})
    nodes, on = [node("n", pods=12)], [pod("q", on="n")]
    assert ask(pod("p"), nodes, on, filters) == {}
    assert ask(pod("p"), nodes, [*on, pod("r", on="n")], filters) == {"Too many pods (keep_free keeps 10)": ["n"]}


def test_what_could_never_be_free_is_not_curable() -> None:
    (one,) = decode(Filters, keep_free={"cpu": "3500m"}).filter_nodes(pod("p", cpu=1), columns([node("n")]))
    assert (one.reason, one.curable) == ("Insufficient cpu (keep_free keeps 3500m)", False)


def test_only_nodes_short_by_keep_free_alone_mention_it() -> None:
    nodes = [node("full", cpu=2), node("half", cpu=2), node("idle", cpu=2)]
    on = [pod("q", cpu=2, on="full"), pod("r", cpu=1, on="half")]
    found = decode(Filters, keep_free={"cpu": "500m"}).filter_nodes(pod("p", cpu=1), columns(nodes, on))
    assert [(one.reason, one.nodes.tolist(), one.curable) for one in found] == [
        ("Insufficient cpu", [True, False, False], True),
        ("Insufficient cpu (keep_free keeps 500m)", [False, True, False], True),
    ]
    less = ["it requests at most 500m cpu", "keep_free.cpu of strategy filters is at most 0"]
    assert [mends(found[0], 0), mends(found[1], 1)] == [[], less]


OFF = [
    pytest.param("unschedulable", {"unschedulable": True}, {}, {}, id="unschedulable"),
    pytest.param("taints", {"taints": (BATCH,)}, {}, {}, id="taints"),
    pytest.param("affinity", {}, {}, {"selector": {"zone": "a"}}, id="affinity"),
    pytest.param("ports", {}, {"ports": (Port(80),)}, {"ports": (Port(80),)}, id="ports"),
    pytest.param("resources", {}, {}, {"cpu": 5.0}, id="resources"),
    pytest.param("pods", {"pods": 1}, {}, {}, id="pods"),
    pytest.param("anti-affinity", {}, {"repels": (Repel("kubernetes.io/hostname", ()),)}, {}, id="anti-affinity"),
    pytest.param("spread", {}, {}, {"spread": (TopologySpread("rack", 1, ()),)}, id="spread"),
    pytest.param("pod-affinity", {}, {}, {"attracts": (Repel("rack", ()),)}, id="pod affinity"),
    pytest.param("disks", {}, {"disks": (Disk("ebs", "d"),)}, {"disks": (Disk("ebs", "d"),)}, id="disks"),
]


@pytest.mark.parametrize(("part", "has", "on", "asks"), OFF)
def test_a_filter_that_is_skipped_refuses_nothing(
    part: str, has: dict[str, Any], on: dict[str, Any], asks: dict[str, Any]
) -> None:
    nodes, there = [node("n", **has)], [pod("q", on="n", **on)]
    assert ask(pod("p", **asks), nodes, there)
    assert ask(pod("p", **asks), nodes, there, decode(Filters, skip=[part])) == {}


def test_that_a_node_is_not_ready_can_be_skipped() -> None:
    assert ask(pod("p"), [failed()], filters=decode(Filters, skip=["not-ready"])) == {}


def test_a_pod_that_requests_nothing_counts_as_a_pod_alone() -> None:
    best_effort = Pod("shop", "p", "uid-p", "Pending", containers=(Container("main"),), needs=Needs())
    taken = pod("q", cpu=9, memory=99 * GIB, on="n")
    assert ask(best_effort, [node("n")], [taken]) == {}
    assert ask(best_effort, [node("n", pods=1)], [taken]) == {"Too many pods": ["n"]}


def test_a_node_without_known_capacity_takes_no_pod() -> None:
    bare = Node("n", "uid-n", True)
    assert set(ask(pod("p"), [bare])) == {"Insufficient cpu", "Insufficient memory", "Too many pods"}


def test_a_pool_without_nodes_or_without_pods_needs_no_answer() -> None:
    assert ask(pod("p"), []) == {}
    assert planned([Filters()], columns([node("n")]), []) == ()
    (decision,) = planned([Filters()], columns([]), [pod("p")])
    assert (decision.verdict, decision.message) == ("wait", "0/0 nodes are available")


def test_those_placed_before_take_ports_disks_and_places() -> None:
    waiting = [pod(f"p{i}", ports=(Port(80),), disks=(Disk("ebs", f"d{i // 2}"),)) for i in range(3)]
    decisions = planned([Filters()], columns([node("a"), node("b")]), waiting)
    assert [one.node for one in decisions] == ["a", "b", ""]
    assert decisions[-1].message == f"0/2 nodes are available: 2 {PORTS}"


def test_equal_names_on_other_nodes_are_found_where_they_are() -> None:
    nodes = [node(name) for name in ("a", "ab", "b", "c")]
    asked = pod("p", affinity=(Term(fields=(Expression("metadata.name", "NotIn", ("ab",)),)), *called("zz")))
    assert ask(asked, nodes) == {AFFINITY: ["ab"]}
    assert ask(pod("p", affinity=called("ab", "c", "zz")), nodes) == {AFFINITY: ["a", "b"]}


def test_nodes_that_changed_are_looked_at_anew() -> None:
    filters = Filters()
    assert ask(pod("p"), [node("n", taints=(BATCH,))], filters=filters)
    assert ask(pod("p"), [node("n")], filters=filters) == {}


@pytest.mark.parametrize(
    ("table", "said"),
    [
        pytest.param(
            'skip = ["disk"]',
            "skip[0]: must be one of affinity, anti-affinity, disks, not-ready, pod-affinity, pods, ",
            id="no such filter",
        ),
        pytest.param(
            'keep_free = { cpu = "some" }',
            "keep_free.cpu: must be a quantity such as 250m, 2 or 1.5Gi, is 'some'",
            id="no quantity",
        ),
        pytest.param('keep_free = { cpu = "-1" }', "keep_free.cpu: must be >= 0, is '-1'", id="below nothing"),
        pytest.param('keep_free = { memory = "-0.5" }', "keep_free.memory: must be >= 0, is '-0.5'", id="a bit below"),
        pytest.param('keep_free = { memory = "8Ei" }', "keep_free.memory: must be < 1P, is '8Ei'", id="exbibytes"),
        pytest.param('keep_free = { memory = "1P" }', "keep_free.memory: must be < 1P, is '1P'", id="a petabyte"),
        pytest.param('keep_free = { cpu = "1T" }', "keep_free.cpu: must be < 1T, is '1T'", id="too many cores"),
        pytest.param('keep_free = { x = "1e300" }', "keep_free.x: must be < 1P, is '1e300'", id="a huge number"),
        pytest.param("keep_free = { cpu = 1 }", "keep_free.cpu: must be a string, is 1", id="a number"),
    ],
)
def test_nonsense_is_refused(table: str, said: str, tmp_path: Path) -> None:
    line = refused(tmp_path, filters_module, f'type = "filters"\n{table}')
    assert line.startswith(f"strategy[0].{said}")


@pytest.mark.parametrize(
    "table",
    [
        pytest.param({}, id="defaults"),
        pytest.param({"keep_free": {"cpu": "1", "pods": "3"}}, id="keeps some free"),
        pytest.param({"keep_free": {"cpu": "999G", "memory": "999T"}}, id="keeps as much free as may be"),
        pytest.param({"skip": ["resources", "taints"]}, id="skips some"),
    ],
)
def test_it_does_nothing_that_no_strategy_may(table: dict[str, Any]) -> None:
    assert check_strategy(decode(Filters, **table)) == []


@pytest.mark.parametrize("memory", [2.0**62, 7.9 * 2**60, 2.0**63, 1e300], ids=["4Ei", "7.9Ei", "8Ei", "1e300"])
def test_a_pod_requesting_more_than_can_be_counted_waits(memory: float) -> None:
    there = [pod(f"p{number}", memory=memory, on="a") for number in range(3)]
    view = columns([node("a"), node("b")], there)
    (decision,) = planned([Filters()], view, [pod("huge", memory=memory)])
    assert (decision.verdict, decision.failures) == ("wait", ())
    assert "Insufficient memory" in decision.message


@pytest.mark.parametrize("value", ["--5", "٣", "9" * 5000, "", "3.5", "+4"])
def test_a_numeric_rule_of_any_value_refuses_only_the_node(value: str) -> None:
    rule = Expression("gen", "Gt", (value,))
    found = Filters().filter_nodes(pod("p", affinity=(Term((rule,)),)), columns([node("n")]))
    assert [one.reason for one in found] == ["node(s) didn't match Pod's node affinity/selector"]
