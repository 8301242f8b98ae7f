"""Subsets: new pods of a controller fill pools of nodes in order, each up to its share."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticd.api import Pod
from elasticd.kit.node_table import NodeTable
from elasticd.testing import check_strategy
from elasticd_plugins import spread
from elasticd_plugins.filters import Filters
from elasticd_plugins.least_requested import LeastRequested
from elasticd_plugins.spread import Spread, Subsets
from tests.kit.plugins.builders import decode
from tests.kit.pools import columns, node, planned, pod, refused

WEB = ("ReplicaSet", "web", "uid-web")
BASE, ELASTIC = {"pool": "base"}, {"pool": "elastic"}


def subsets(most: int | str, **options: Any) -> Subsets:
    """A base of so many, and the rest."""
    table = [{"name": "base", "labels": BASE, "max": most}, {"name": "elastic", "labels": ELASTIC}]
    return decode(Subsets, subsets=table, **options)


def web(number: int, on: str = "", **more: Any) -> Pod:
    return pod(f"web-{number:02d}", on=on, **{"owner": WEB, "cpu": 1.0, **more})


def pool(*there: Pod, base: int = 2, elastic: int = 4, cpu: float = 4.0) -> NodeTable:
    """Nodes of both pools; those of the elastic one come first by name, and one belongs to none."""
    nodes = [node(f"a-elastic-{index}", cpu, labels=ELASTIC) for index in range(elastic)]
    nodes += [node(f"z-base-{index}", cpu, labels=BASE) for index in range(base)]
    return columns([*nodes, node("other", cpu)], there)


def placed(strategy: Subsets, view: NodeTable, pending: list[Pod]) -> Counter[str]:
    """How many pods went where, by kind of node; "": they wait."""
    made = planned((Filters(), LeastRequested(), strategy), view, pending)
    return Counter("base" if "base" in one.node else "elastic" if "elastic" in one.node else one.node for one in made)


@pytest.mark.parametrize(
    ("most", "there", "more", "expected"),
    [
        pytest.param(4, [], 3, {"base": 3}, id="the base is filled first"),
        pytest.param(4, [], 10, {"base": 4, "elastic": 6}, id="and takes no more than its share"),
        pytest.param(4, ["z-base-0"] * 3, 2, {"base": 1, "elastic": 1}, id="of which those there are a part"),
        pytest.param(4, ["z-base-0"] * 4, 2, {"elastic": 2}, id="it is full"),
        pytest.param(1, ["z-base-0"] * 3, 1, {"elastic": 1}, id="it has too many"),
        pytest.param(4, ["a-elastic-0"] * 3, 2, {"base": 2}, id="it is short"),
        pytest.param("50%", [], 6, {"base": 3, "elastic": 3}, id="half of all that wait"),
        pytest.param("50%", ["z-base-0"] * 2, 2, {"elastic": 2}, id="half of those there and those that wait"),
        pytest.param("50%", [], 5, {"base": 3, "elastic": 2}, id="rounded up"),
        pytest.param(20, [], 12, {"base": 8, "elastic": 4}, id="what finds no room in it goes to the rest"),
    ],
)
def test_new_pods_fill_subsets_in_order_up_to_their_shares(
    most: int | str, there: list[str], more: int, expected: dict[str, int]
) -> None:
    view = pool(*[web(index, name) for index, name in enumerate(there)])
    pending = [web(20 + index) for index in range(more)]
    assert placed(subsets(most), view, pending) == expected


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"owner": ("ReplicaSet", "api", "uid-api")}, id="of another controller"),
        pytest.param({"owner": ("", "", "")}, id="of none"),
        pytest.param({"deleted": True}, id="that is being deleted"),
        pytest.param({"phase": "Succeeded"}, id="that is done"),
    ],
)
def test_a_pod_outside_the_share_leaves_its_place_to_others(other: dict[str, Any]) -> None:
    view = pool(web(1, "z-base-0", **other), web(2, "z-base-0"))
    assert placed(subsets(2), view, [web(20), web(21)]) == {"base": 1, "elastic": 1}


def test_pods_without_a_controller_go_where_they_like() -> None:
    view = pool(web(1, "z-base-0"))
    assert placed(subsets(1), view, [pod("alone", cpu=1.0), pod("too", cpu=1.0)]) == {"base": 2}


def test_a_pod_waits_where_only_the_full_subset_has_room() -> None:
    view = pool(web(1, "z-base-0"), elastic=0)
    (said,) = planned((Filters(), subsets(1)), columns(view.nodes[1:], view.pods(1)), [web(20)])
    assert said.verdict == "wait"
    assert said.refusals == {"node(s) were of subset base, which has its share": 2}


def test_nodes_of_no_subset_are_the_last_choice() -> None:
    nodes = [node("other"), node("z-base", labels=BASE)]
    view = columns(nodes, ())
    assert [float(value) for value in subsets(1).score_nodes(view).values] == [0.0, 10.0]
    assert placed(subsets(1), view, [web(20), web(21)]) == {"base": 1, "other": 1}


@given(
    most=st.integers(1, 8) | st.sampled_from(["25%", "50%", "100%"]),
    there=st.lists(st.sampled_from(["z-base-0", "z-base-1", "a-elastic-0", "other"]), max_size=8),
    more=st.integers(1, 10),
)
def test_growth_takes_no_subset_newly_beyond_its_share(most: int | str, there: list[str], more: int) -> None:
    old = [web(index, name) for index, name in enumerate(there)]
    made = placed(subsets(most), pool(*old, cpu=32.0), [web(20 + index) for index in range(more)])
    before = sum(1 for name in there if "base" in name)
    share = min(len(there) + more, most) if isinstance(most, int) else -(-(len(there) + more) * int(most[:-1]) // 100)
    assert sum(made.values()) == more
    assert before + made["base"] == max(before, min(share, before + more))


REFUSED = [
    ("", "subsets: must be given, is missing"),
    ('subsets = [{ name = "a", max = 1 }, { name = "b", max = 2 }]', "subsets[1].labels: must not be part of"),
    ('subsets = [{ name = "a", max = 1 }, { name = "a" }]', "subsets[1].name: must be given once, is 'a' again"),
    (
        'subsets = [{ name = "a", labels = { p = "a" } }, { name = "b" }]',
        "subsets[0].max: must be given, is missing",
    ),
    ('subsets = [{ name = "a", labels = { p = "a" }, max = 1 }, { name = "b" }]\nweight = -1', "weight: must be >= 0"),
]


@pytest.mark.parametrize(("table", "line"), REFUSED, ids=[line for _, line in REFUSED])
def test_every_nonsensical_option_is_one_line(tmp_path: Any, table: str, line: str) -> None:
    told = refused(tmp_path, spread, f'type = "subsets"\n{table}')
    assert line.split(" of", maxsplit=1)[0] in told
    assert "\n" not in told


def test_it_is_registered_and_does_nothing_that_no_strategy_may() -> None:
    assert spread.register_strategies() == [Spread, Subsets]
    assert subsets(1).labels_of_nodes() == ("pool",)
    assert check_strategy(subsets("50%")) == []
