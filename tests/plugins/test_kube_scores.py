"""The scores of kube-scheduler that are about other pods, preferences, taints and images, by its rules."""

from math import log
from typing import Any

import numpy as np
import pytest

from elasticd.api import (
    Expression,
    Image,
    Mask,
    Node,
    NodePreference,
    Pod,
    PodPreference,
    PodTerm,
    PoolStrategy,
    Taint,
    Term,
    Toleration,
    TopologySpread,
)
from elasticd.kit import HOSTNAME, SpreadDefault
from elasticd.testing import check_strategy
from elasticd_plugins.filters import Filters
from elasticd_plugins.image_locality import ImageLocality
from elasticd_plugins.node_affinity import NodeAffinity, PreferredTerm, TaintScore
from elasticd_plugins.pod_affinity import PodAffinity
from elasticd_plugins.topology_spread import SpreadScore
from tests.kit.pools import columns, node, planned, pod

WEB, IS_WEB = {"app": "web"}, (Expression("app", "In", ("web",)),)
ZONES = [node(name, labels={"zone": name[0]}) for name in ("a1", "a2", "b1")]
SOFT = TopologySpread("zone", 1, IS_WEB, hard=False)
NEAR_WEB = PodTerm("zone", IS_WEB)


def scores(
    strategy: Any, asked: Pod, nodes: list[Node], there: list[Pod] | None = None, fits: list[bool] | None = None
) -> list[float] | None:
    view = columns(nodes, there or [])
    mask: Mask = np.array(fits or [True] * len(nodes), dtype=np.bool_)
    arguments = {"fits": mask} if not isinstance(strategy, ImageLocality) else {}
    said = strategy.score_nodes(asked, view, **arguments)
    return None if said is None else [round(float(each), 3) for each in said.values]


def on(**counts: int) -> list[Pod]:
    return [pod(f"{name}-{index}", on=name, labels=WEB) for name, count in counts.items() for index in range(count)]


SPREAD_ROWS = [
    pytest.param((SOFT,), on(a1=2), [0.0, 0.0, 10.0], id="an empty zone is best"),
    pytest.param((SOFT,), on(a1=1, b1=1), [10.0, 10.0, 10.0], id="as many everywhere"),
    pytest.param((TopologySpread(HOSTNAME, 1, IS_WEB, hard=False),), on(a1=2, b1=1), [0.0, 10.0, 3.333], id="by host"),
    pytest.param((), on(a1=2), None, id="no constraint"),
    pytest.param((TopologySpread("zone", 1, IS_WEB),), on(a1=2), None, id="a hard one"),
]


@pytest.mark.parametrize(("spread", "there", "expected"), SPREAD_ROWS)
def test_fewer_pods_in_the_zone_are_better(
    spread: tuple[TopologySpread, ...], there: list[Pod], expected: list[float] | None
) -> None:
    assert scores(SpreadScore(), pod("p", labels=WEB, spread=spread), ZONES, there) == expected


def test_nodes_without_the_label_come_last() -> None:
    found = scores(SpreadScore(), pod("p", labels=WEB, spread=(SOFT,)), [*ZONES, node("none")], on(a1=2))
    assert found == [0.0, 0.0, 10.0, 0.0]


def test_several_constraints_weigh_by_the_logarithm_of_their_values() -> None:
    host = TopologySpread(HOSTNAME, 1, IS_WEB, hard=False)
    found = scores(SpreadScore(), pod("p", labels=WEB, spread=(SOFT, host)), ZONES, on(a1=2, b1=1))
    a1, a2, b1 = (round(zone * log(4) + own * log(5)) for zone, own in ((2, 2), (2, 0), (1, 1)))
    fewest, most = min(a1, a2, b1), max(a1, a2, b1)
    assert found == [round(10 * (most + fewest - each) / most, 3) for each in (a1, a2, b1)]


OWNED: dict[str, Any] = {"owner": ("ReplicaSet", "web", "rs")}


@pytest.mark.parametrize(
    ("defaults", "asks", "expected"),
    [
        pytest.param("system", OWNED, [4.0, 4.0, 10.0], id="kube-scheduler's own"),
        pytest.param((SpreadDefault("zone", 1),), OWNED, [0.0, 0.0, 10.0], id="a list"),
        pytest.param((SpreadDefault("zone", 1, True),), OWNED, None, id="a hard one is for the filters"),
        pytest.param((), OWNED, None, id="none"),
        pytest.param("system", {}, None, id="a pod without a controller"),
    ],
)
def test_pods_without_constraints_get_the_default_ones(defaults: Any, asks: Any, expected: list[float] | None) -> None:
    zone = "topology.kubernetes.io/zone"
    nodes = [node(each.name, labels={**each.labels, zone: each.labels["zone"]}) for each in ZONES]
    there = [pod(f"x{index}", on=name, **OWNED) for index, name in enumerate(("a1", "a2", "a1", "a2"))]
    assert scores(SpreadScore(default_spread=defaults), pod("p", **asks), nodes, there) == expected


def test_a_hard_default_constraint_refuses_nodes() -> None:
    filters = Filters(default_spread=(SpreadDefault("zone", 1, True),))
    decisions = planned([filters], columns(ZONES), [pod(f"p{index}", **OWNED) for index in range(4)])
    assert sorted(decision.node[0] for decision in decisions) == ["a", "a", "b", "b"]


PREFERENCES = [
    pytest.param({"prefers": (PodPreference(NEAR_WEB, 5),)}, on(a1=1), [10.0, 10.0, 0.0], id="near"),
    pytest.param({"prefers": (PodPreference(NEAR_WEB, -5),)}, on(a1=1), [0.0, 0.0, 10.0], id="away"),
    pytest.param({"prefers": (PodPreference(NEAR_WEB, 5),)}, on(a1=1, b1=3), [0.0, 0.0, 10.0], id="by how many"),
    pytest.param(
        {"labels": WEB},
        [pod("x", on="b1", prefers=(PodPreference(NEAR_WEB, -1),))],
        [10.0, 10.0, 0.0],
        id="a pod there would rather be alone",
    ),
    pytest.param({"labels": WEB}, [pod("x", on="b1", attracts=(NEAR_WEB,))], [0.0, 0.0, 10.0], id="a pod needs it"),
    pytest.param({}, [pod("x", on="b1", attracts=(NEAR_WEB,))], None, id="a pod there needs others"),
]


@pytest.mark.parametrize(("asks", "there", "expected"), PREFERENCES)
def test_pods_are_drawn_to_some_pods_and_away_from_others(
    asks: dict[str, Any], there: list[Pod], expected: list[float] | None
) -> None:
    assert scores(PodAffinity(), pod("p", **asks), ZONES, there) == expected


def test_required_affinity_of_weight_zero_does_not_count() -> None:
    there = [pod("x", on="b1", attracts=(NEAR_WEB,))]
    assert scores(PodAffinity(required_weight=0), pod("p", labels=WEB), ZONES, there) is None


IN_A, IN_B = (Term((Expression("zone", "In", (zone,)),)) for zone in "ab")


@pytest.mark.parametrize(
    ("preferences", "fits", "expected"),
    [
        pytest.param(((IN_A, 2), (IN_B, 8)), [True] * 3, [2.5, 2.5, 10.0], id="by weight"),
        pytest.param(((IN_A, 2), (IN_B, 8)), [True, True, False], [10.0, 10.0, 10.0], id="beside nodes that fit"),
        pytest.param(((Term(), 5),), [True] * 3, None, id="an empty term prefers nothing"),
        pytest.param((), [True] * 3, None, id="no preference"),
    ],
)
def test_preferred_node_affinity_adds_up(
    preferences: tuple[tuple[Term, int], ...], fits: list[bool], expected: list[float] | None
) -> None:
    terms = tuple(NodePreference(term, weight) for term, weight in preferences)
    assert scores(NodeAffinity(), pod("p", prefers_nodes=terms), ZONES, fits=fits) == expected


def test_added_node_affinity_is_of_all_pods() -> None:
    assert scores(NodeAffinity(added=(PreferredTerm(1, IN_B),)), pod("p"), ZONES) == [0.0, 0.0, 10.0]


SOFTLY = [Taint(key, "PreferNoSchedule") for key in ("old", "slow")]


def test_fewer_soft_taints_are_better() -> None:
    nodes = [node("a"), node("b", taints=(SOFTLY[0],)), node("c", taints=tuple(SOFTLY))]
    assert scores(TaintScore(), pod("p"), nodes) == [10.0, 5.0, 0.0]
    tolerant = pod("p", tolerations=(Toleration("slow", "Exists"),))
    assert scores(TaintScore(), tolerant, nodes) == [10.0, 0.0, 0.0]
    assert scores(TaintScore(), pod("p", tolerations=(Toleration(operator="Exists"),)), nodes) is None


MIB = 2**20


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        pytest.param("big:1", [4.8, 0.0], id="half of the nodes have it"),
        pytest.param("big", [0.0, 0.0], id="latest is another"),
        pytest.param("none", None, id="no node has it"),
    ],
)
def test_images_that_are_there_count_by_their_size(image: str, expected: list[float] | None) -> None:
    has = (Image(("big:1", "big@sha256:1"), 1000 * MIB), Image(("big:latest",), 20 * MIB))
    nodes = [node("a", images=has), node("b")]
    assert scores(ImageLocality(), pod("p", images=(image,)), nodes) == expected


@pytest.mark.parametrize(
    "strategy",
    [SpreadScore(default_spread="system"), PodAffinity(), NodeAffinity(), TaintScore(), ImageLocality()],
    ids=lambda strategy: type(strategy).__name__,
)
def test_incomplete_pools_are_no_trouble(strategy: PoolStrategy) -> None:
    check_strategy(strategy)
