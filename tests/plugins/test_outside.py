"""Pods on nodes outside the pool: they count for constraints and affinity as those on the pool's nodes."""

from collections.abc import Sequence
from typing import Any

import pytest

from elasticd.api import Expression, Pod, PodPreference, PodTerm, TopologySpread
from elasticd.kit.node_table import NodeTable
from elasticd.model.volumes import ONE_POD
from elasticd_plugins.filters import Filters
from elasticd_plugins.filters.neighbours import APART, ATTRACTED, REPELLED, SPREAD
from elasticd_plugins.filters.storage import IN_USE
from elasticd_plugins.pod_affinity import PodAffinity
from elasticd_plugins.topology_spread import SpreadScore
from tests.kit.pools import columns, node, pod
from tests.kit.volumes import claim, claiming, storage, volume

WEB = {"app": "web"}
IS_WEB = (Expression("app", "In", ("web",)),)
POOL = [node(name, labels={"zone": name[0]}) for name in ("a1", "b1")]
OTHERS = [node(name, labels={"zone": name[0]}) for name in ("a2", "c2")]
EVEN, NEAR = TopologySpread("zone", 1, IS_WEB), PodTerm("zone", IS_WEB)
WIDE = TopologySpread("zone", 1, IS_WEB, honours_affinity=False)


def among(there: Sequence[Pod], **more: Any) -> NodeTable:
    """A pool of a node in each of the zones a and b; others are in the zones a and c."""
    view = columns(POOL, there, **more)
    view.outside = columns(OTHERS, there)
    return view


def on(**counts: int) -> list[Pod]:
    return [pod(f"{name}-{index}", on=name, labels=WEB) for name, count in counts.items() for index in range(count)]


@pytest.mark.parametrize(
    ("asks", "there", "refused"),
    [
        pytest.param({"spread": (EVEN,)}, on(a2=1), {SPREAD: "a1"}, id="a zone has more pods, outside the pool"),
        pytest.param({"spread": (EVEN,)}, on(a1=1, b1=1), {}, id="a zone without a node of the pool is none"),
        pytest.param({"spread": (WIDE,)}, on(a1=1, b1=1), {SPREAD: "a1 b1"}, id="by its policy, it is one"),
        pytest.param({"spread": (WIDE,)}, on(a1=1, b1=1, c2=1), {}, id="it is one, with a pod"),
        pytest.param(
            {"spread": (EVEN,), "selector": {"zone": "a"}}, on(a2=5), {}, id="the pod may be in this zone alone"
        ),
        pytest.param({"repels": (NEAR,)}, on(a2=1), {APART: "a1"}, id="it keeps away from a pod outside"),
        pytest.param({}, [pod("x", on="a2", repels=(NEAR,))], {REPELLED: "a1"}, id="a pod outside keeps it away"),
        pytest.param({"attracts": (NEAR,)}, on(a2=1), {ATTRACTED: "b1"}, id="it is to be near a pod outside"),
        pytest.param({"attracts": (NEAR,)}, on(c2=1), {ATTRACTED: "a1 b1"}, id="that is where it cannot be"),
        pytest.param({"attracts": (NEAR,)}, [], {}, id="there is no such pod"),
    ],
)
def test_pods_outside_the_pool_count(asks: dict[str, Any], there: list[Pod], refused: dict[str, str]) -> None:
    selected = asks.get("selector", {}).get("zone", "")
    view, found = among(there), dict[str, str]()
    for each in Filters().filter_nodes(pod("p", labels=WEB, **asks), view):
        names = [name for name, no in zip(view.names, each.nodes, strict=True) if no and name.startswith(selected)]
        if names:
            found[each.reason] = " ".join(names)
    assert found == refused


def test_scores_count_pods_outside_the_pool() -> None:
    soft = TopologySpread("zone", 1, IS_WEB, hard=False)
    liking = pod("x", on="a2", prefers=(PodPreference(NEAR, 5),))
    asked = pod("p", labels=WEB, spread=(soft,), prefers=(PodPreference(NEAR, -3),))
    fits = among([]).matching("all", lambda _: True)
    for there, spread_best, affinity_best in ((on(a2=2), 1, 1), ([liking], None, 0), (on(c2=2), None, None)):
        view = among(there)
        for strategy, best in ((SpreadScore(), spread_best), (PodAffinity(), affinity_best)):
            said = strategy.score_nodes(asked, view, fits)
            assert said is not None
            least, most = min(said.values), max(said.values)
            assert (None if least == most else int(said.values.argmax())) == best


def test_a_claim_of_one_pod_may_be_used_outside() -> None:
    alone = storage(claim("data", volume="pv", modes=(ONE_POD,)), volume("pv"))
    for name, refuses in (("data", True), ("more", False)):
        view = among([claiming("other", name, on="c2")], storage=alone)
        refusals = Filters().filter_nodes(claiming("web", "data"), view)
        assert [(each.reason, each.curable) for each in refusals] == ([(IN_USE, False)] if refuses else [])


def test_a_node_is_found_in_the_pool_or_outside() -> None:
    view = among([])
    assert view.with_node("b1") == (view, 1)
    assert view.with_node("c2") == (view.outside, 1)
    assert view.with_node("gone") is None
    assert columns(POOL).with_node("c2") is None
