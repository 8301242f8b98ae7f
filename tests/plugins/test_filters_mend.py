"""What filters say would have to be otherwise is true: done, and done alone, the node takes the pod."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from msgspec.structs import replace

from elasticd.api import Expression, Node, Pod, Port, Taint, Term, Toleration
from elasticd.kit import parse_quantity
from elasticd_plugins.filters import Filters
from elasticd_plugins.filters.node_conditions import CORDONED, FAILED
from tests.kit.pools import GIB, columns, mends, node, pod

TAINTS = [Taint("a", "NoSchedule"), Taint("a", "NoExecute", "x"), Taint("b", "NoSchedule", "y")]


NODES: dict[str, dict[str, Any]] = {
    "nodes are uncordoned": {"unschedulable": False},
    "nodes get ready": {"ready": True},
}


LEAVE = " and pods there leave"


def refused(asked: Pod, nodes: list[Node], on: list[Pod], strategy: Filters) -> dict[str, list[str]]:
    """What would do for each node that is refused."""
    found = strategy.filter_nodes(asked, columns(nodes, on))
    return {nodes[i].name: mends(one, i) for one in found for i in range(len(nodes)) if one.nodes[i]}


def mended(mend: str, asked: Pod, nodes: list[Node], strategy: Filters) -> tuple[Pod, list[Node], Filters]:
    """The world in which that has been done, and nothing else."""
    if mend in NODES:
        return asked, [replace(one, **NODES[mend]) for one in nodes], strategy
    if mend.startswith("nodes get the labels "):
        labels = dict(one.split("=") for one in mend.removeprefix("nodes get the labels ").split(", "))
        return asked, [replace(one, labels={**one.labels, **labels}) for one in nodes], strategy
    if mend.startswith("nodes have the labels of its "):
        assert ("nodeSelector and " in mend) == bool(asked.needs.selector)
        return asked, [replace(one, labels=_asked_of(one, asked)) for one in nodes], strategy
    if mend.startswith("it tolerates {"):
        key, value = mend.removeprefix("it tolerates {").removesuffix("}").split(": ")
        needs = replace(asked.needs, tolerations=(Toleration(key=key, operator="Equal", value=value),))
        return replace(asked, needs=needs), nodes, strategy
    what, amount = mend.split(" at most ")
    if what == "it requests":
        amount, resource = amount.split()
        requests = {**asked.needs.requests, resource: parse_quantity(amount)}
        return pod("p", cpu=requests["cpu"], memory=requests["memory"], **_kept(asked)), nodes, strategy
    resource = what.split()[0].removeprefix("keep_free.")
    return asked, nodes, replace(strategy, keep_free={**strategy.keep_free, resource: amount})


def _asked_of(has: Node, asked: Pod) -> dict[str, str]:
    """The labels that its selector and its node affinity ask for, by trying; what says a node's name stays."""
    keys, values = ("zone", "disk", "gpu", "generation"), ("a", "c", "ssd", "3", "4", None)
    for tried in product(values, repeat=len(keys)):
        labels = {key: value for key, value in zip(keys, tried, strict=True) if value is not None}
        if asked.needs.wants(has.name, {**labels, HOST: has.name}):
            return {**labels, HOST: has.name}
    return {**has.labels}


def _kept(asked: Pod) -> dict[str, Any]:
    return {"selector": asked.needs.selector, "ports": asked.needs.ports, "affinity": asked.needs.affinity}


HOST = "kubernetes.io/hostname"
RULES = [
    Expression("zone", "NotIn", ("a", "b")),
    Expression("disk", "In", ("ssd", "nvme")),
    Expression("disk", "Exists"),
    Expression("gpu", "DoesNotExist"),
    Expression("generation", "Gt", ("3",)),
    Expression("generation", "Lt", ("4",)),
    Expression("zone", "In", ("a", "c")),
    Expression(HOST, "In", ("n0", "n1")),
]


@some.composite
def worlds(draw: some.DrawFn) -> tuple[Pod, list[Node], list[Pod], Filters]:
    labels = some.fixed_dictionaries(
        {}, optional={"disk": some.just("hdd"), "gpu": some.just("a"), "generation": some.sampled_from("25")}
    )

    def one(index: int) -> Node:
        return node(
            f"n{index}",
            cpu=draw(some.sampled_from([1.0, 2.0, 4.0])),
            memory=draw(some.sampled_from([1, 4])) * GIB,
            pods=draw(some.sampled_from([1, 9])),
            ready=draw(some.booleans()),
            unschedulable=draw(some.booleans()),
            labels={**draw(labels), "zone": draw(some.sampled_from("ab"))},
            taints=tuple(draw(some.lists(some.sampled_from(TAINTS), max_size=2, unique=True))),
        )

    nodes = [one(index) for index in range(draw(some.integers(1, 4)))]
    cpu = some.sampled_from([0.1, 0.75, 1.5, 3.0])
    on = [
        pod(f"q{index}", draw(cpu), GIB / 3, on=draw(some.sampled_from(nodes)).name, ports=(Port(80),))
        for index in range(draw(some.integers(0, 4)))
    ]
    ports = draw(some.sampled_from([(), (Port(80),)]))
    selector = draw(some.sampled_from([{}, {}, {"zone": "a"}, {"kubernetes.io/hostname": "n0", "zone": "a"}]))
    rules = draw(some.lists(some.sampled_from(RULES), min_size=1, max_size=3, unique=True))
    affinity = draw(some.sampled_from([None, None, (Term(tuple(rules)),)]))
    memory = draw(some.sampled_from([0.3, 2.0])) * GIB
    asked = pod("p", draw(cpu), memory, ports=ports, selector=selector, affinity=affinity)
    kept = draw(some.sampled_from([{}, {"cpu": "700m"}, {"cpu": "50m", "memory": "1500Mi", "pods": "1"}]))
    return asked, nodes, on, Filters(keep_free=kept)


@pytest.mark.slow
@given(worlds())
@settings(max_examples=300)
def test_a_node_takes_the_pod_after_the_suggested_mend(world: tuple[Pod, list[Node], list[Pod], Filters]) -> None:
    asked, nodes, on, strategy = world
    for name, found in refused(asked, nodes, on, strategy).items():
        for told in found:
            mend, pods_leave, _ = told.partition(LEAVE)
            then, there, filters = mended(mend, asked, nodes, strategy)
            stay = [one for one in on if one.node != name] if pods_leave else on
            assert name not in refused(then, there, stay, filters)


CLOSED, DOWN = {"unschedulable": True}, {"ready": False}
FULL = pod("q", cpu=1.5, on="n")


@pytest.mark.parametrize(
    ("has", "on", "asks", "options", "mend"),
    [
        pytest.param({"unschedulable": True}, [], {}, {}, "nodes are uncordoned", id="a cordon"),
        pytest.param(
            {"unschedulable": True}, [FULL], {"cpu": 1}, {}, f"nodes are uncordoned{LEAVE}", id="a cordon, and no room"
        ),
        pytest.param({"ready": False}, [], {}, {}, "nodes get ready", id="not ready"),
        pytest.param({"taints": TAINTS[:1]}, [], {}, {}, "it tolerates {a: }", id="a taint"),
        pytest.param({"taints": TAINTS[1:]}, [], {}, {}, "", id="two taints"),
        pytest.param(
            {"taints": [Taint("a", "NoSchedule", "x"), Taint("a", "NoExecute", "x")]},
            [],
            {},
            {},
            "it tolerates {a: x}",
            id="two taints that one toleration is for",
        ),
        *[
            pytest.param({**state, "taints": taints}, [], {}, {}, said, id=name)
            for name, state, taints, said in (
                ("cordoned, with its taint", CLOSED, [CORDONED], "nodes are uncordoned"),
                ("cordoned, with another taint", CLOSED, [CORDONED, TAINTS[0]], ""),
                ("not ready, with its taint", DOWN, [FAILED], "nodes get ready"),
                ("not ready, with both taints", DOWN, [FAILED, Taint(FAILED.key, "NoExecute")], "nodes get ready"),
                ("not ready, with the second alone", DOWN, [Taint(FAILED.key, "NoExecute")], "nodes get ready"),
                ("out of reach", DOWN, [Taint("node.kubernetes.io/unreachable", "NoSchedule")], "nodes get ready"),
                ("not ready, with another taint", DOWN, [FAILED, TAINTS[0]], ""),
                ("cordoned and not ready", {**CLOSED, **DOWN}, [CORDONED, FAILED], ""),
            )
        ],
        pytest.param({}, [], {"selector": {"d": "ssd"}}, {}, "nodes get the labels d=ssd", id="a label"),
        pytest.param({}, [], {"selector": {"kubernetes.io/hostname": "m"}}, {}, "", id="a host's name"),
        pytest.param(
            {},
            [],
            {"affinity": (Term((Expression("d", "In", ("ssd",)),)),)},
            {},
            "nodes have the labels of its node affinity",
            id="an affinity",
        ),
        pytest.param(
            {},
            [],
            {"selector": {"d": "ssd"}, "affinity": (Term((Expression("e", "DoesNotExist"),)),)},
            {},
            "nodes have the labels of its nodeSelector and node affinity",
            id="an affinity and a selector",
        ),
        pytest.param(
            {}, [], {"affinity": (Term((), (Expression("metadata.name", "In", ("m",)),)),)}, {}, "", id="a node's name"
        ),
        pytest.param({}, [FULL], {"cpu": 1}, {}, "it requests at most 500m cpu", id="a little less"),
        pytest.param({}, [FULL], {"cpu": 9}, {}, "it requests at most 500m cpu", id="much less"),
        pytest.param({}, [FULL], {"cpu": 1, "memory": 99 * GIB}, {}, "", id="less of two things"),
        pytest.param({}, [pod("q", cpu=2, on="n")], {}, {}, "", id="nothing is left"),
        pytest.param({"pods": 1}, [FULL], {}, {}, "", id="too many pods"),
        pytest.param(
            {},
            [FULL],
            {"cpu": 0.2},
            {"cpu": "400m"},
            "it requests at most 100m cpu; keep_free.cpu of strategy filters is at most 300m",
            id="what is kept free",
        ),
        pytest.param(
            {},
            [FULL],
            {"cpu": 1},
            {"cpu": "400m"},
            "it requests at most 100m cpu",
            id="what is kept free, and others have",
        ),
    ],
)
def test_what_would_do_alone_is_named(
    has: dict[str, Any], on: list[Pod], asks: dict[str, Any], options: dict[str, str], mend: str
) -> None:
    has = {**has, "taints": tuple(has.get("taints", ()))}
    strategy = Filters(keep_free=options)
    found = refused(pod("p", **asks), [node("n", cpu=2, **has)], on, strategy)
    assert {name: "; ".join(told) for name, told in found.items()} == {"n": mend}
