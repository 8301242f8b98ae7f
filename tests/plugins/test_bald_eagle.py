"""Strategies bald-eagle and bald-eagle-plain: what their plans keep to, and how even they are."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from msgspec.structs import replace

from elasticd.api import Candidate, Nodes, Placement, Pod, Port, Refusal, Strategy, hookimpl
from elasticd.kit import needed
from elasticd.kit.node_table import NodeTable
from elasticd.lab.papers.bald_eagle.pool import (
    BANDWIDTH,
    DISK,
    Floats,
    balanced_allocation,
    least_requested,
    one_by_one,
    paper_pool,
    used_parts,
)
from elasticd.lab.papers.imbalance import imbalance
from elasticd.registry import discover
from elasticd_plugins.bald_eagle import BaldEagle, BaldEaglePlain, Weights
from elasticd_plugins.bald_eagle.batches import generator
from tests.kit.policies import load_pool
from tests.kit.pools import GIB, columns, node, planned, pod

BOTH = [pytest.param(BaldEagle, id="bald-eagle"), pytest.param(BaldEaglePlain, id="bald-eagle-plain")]
EXAMPLES = Path(__file__).resolve().parents[2] / "config" / "policies"
Eagles = type[BaldEagle] | type[BaldEaglePlain]


def offered(pods: Sequence[Pod], view: NodeTable, allowed: Sequence[Sequence[bool]] | None = None) -> list[Candidate]:
    size = len(view.names)
    masks = [np.array([True] * size if allowed is None else allowed[i], dtype=np.bool_) for i in range(len(pods))]
    return [Candidate(one, mask) for one, mask in zip(pods, masks, strict=True)]


def places(strategy: Any, view: NodeTable, pods: Sequence[Pod], allowed: Any = None) -> dict[str, str]:
    """The node's name by the pod's."""
    found: list[Placement] = strategy.place_pods(pods=offered(pods, view, allowed), nodes=view)
    return {pods[one.pod].name: view.names[one.node] for one in found}


def quick(kind: Eagles = BaldEagle, **options: Any) -> Any:
    return kind(**{"eagles": 8, "iterations": 8, **options})


# Options


QUARTERS = {"cpu": 0.25, "memory": 0.25, "bandwidth": 0.25, "disk": 0.25}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        *[
            pytest.param({name: {**QUARTERS, "disk": 0.26}}, f"{name}: must come to 1, is 1.01", id=name)
            for name in ("load", "compressible", "incompressible", "balanced")
        ],
        pytest.param({"load": {**QUARTERS, "cpu": 0.250002}}, "load: must come to 1, is 1", id="load a little off"),
        pytest.param({"bandwidth": "cpu"}, "bandwidth: must be a resource of its own, is 'cpu'", id="bandwidth"),
        pytest.param({"disk": "memory"}, "disk: must be a resource of its own, is 'memory'", id="disk"),
        pytest.param({"bandwidth": "x", "disk": "x"}, "disk: must be a resource of its own, is 'x'", id="disk again"),
    ],
)
def test_options_that_contradict_themselves_are_refused(options: dict[str, Any], problem: str) -> None:
    for kind in (BaldEagle, BaldEaglePlain):
        with pytest.raises(msgspec.ValidationError, match=problem.replace(".", r"\.")):
            msgspec.convert({"type": kind.__struct_config__.tag, **options}, kind)


def test_weights_may_be_off_by_what_doubles_are_off() -> None:
    assert BaldEagle(load=Weights(0.1, 0.2, 0.3, 0.4 + 5e-7)).scale().load.sum() == pytest.approx(1, abs=1e-6)


def test_it_reads_the_series_of_nodes_that_are_named() -> None:
    assert BaldEagle().reads() == ()
    assert BaldEagle().reads_of_nodes() == ("cpu", "memory")
    named: BaldEagle = msgspec.convert({"type": "bald-eagle", "peak": {"cpu": "", "disk": "filled"}}, BaldEagle)
    assert named.reads_of_nodes() == ("memory", "filled")


# What a plan keeps to


class Fits(Strategy, tag="fits", frozen=True):
    """Refuses nodes that have too little left of anything."""

    @hookimpl
    def filter_nodes(self, pod: Pod, nodes: Nodes) -> Sequence[Refusal]:
        return [
            Refusal(f"Insufficient {resource}", nodes.requested(resource) + amount > nodes.allocatable(resource))
            for resource, amount in needed(pod).items()
        ]


@pytest.mark.parametrize("kind", BOTH)
def test_hook_place_pods_binds_pods_where_the_plan_finds_room(kind: Eagles) -> None:
    view = columns([node(name) for name in "abc"], [pod("old", cpu=3.5, on="a")])
    pods = [pod(f"p{index}", cpu=2) for index in range(5)]
    decisions = planned([Fits(), quick(kind)], view, pods)
    assert sorted((one.verdict, one.node) for one in decisions) == [("bind", "b")] * 2 + [("bind", "c")] * 2 + [
        ("wait", "")
    ]


pool = some.fixed_dictionaries(
    {
        "nodes": some.lists(some.tuples(some.integers(0, 8), some.integers(0, 8), some.integers(0, 3)), max_size=6),
        "pods": some.lists(
            some.tuples(some.integers(0, 4), some.integers(0, 4), some.integers(0, 2), some.integers(0, 3)), max_size=14
        ),
        "closed": some.sets(some.tuples(some.integers(0, 13), some.integers(0, 5)), max_size=20),
        "batch": some.integers(1, 6),
        "seed": some.integers(0, 5),
    }
)


@pytest.mark.slow
@given(case=pool, kind=some.sampled_from([BaldEagle, BaldEaglePlain]), greedy=some.booleans())
@settings(max_examples=150, deadline=None)
def test_no_plan_exceeds_node_capacity_or_breaks_placement_rules(
    case: dict[str, Any], kind: Eagles, greedy: bool
) -> None:
    nodes = [
        node(f"n{index}", cpu=cpu, memory=memory * GIB, pods=3, resources={"example.com/gpu": gpu, BANDWIDTH: memory})
        for index, (cpu, memory, gpu) in enumerate(case["nodes"])
    ]
    pods = [
        pod(f"p{index}", cpu=cpu, memory=memory * GIB, resources={"example.com/gpu": gpu, BANDWIDTH: bandwidth})
        for index, (cpu, memory, gpu, bandwidth) in enumerate(case["pods"])
    ]
    view = columns(nodes, [pod("old", cpu=2, on="n0")] if nodes else [])
    allowed = [[(one, other) not in case["closed"] for other in range(len(nodes))] for one in range(len(pods))]
    options = {"greedy": greedy} if kind is BaldEagle else {}
    strategy = quick(kind, batch=case["batch"], seed=case["seed"], **options)
    candidates = offered(pods, view, allowed)
    found: list[Placement] = strategy.place_pods(pods=candidates, nodes=view)
    assert [one.pod for one in found] == sorted({one.pod for one in found})
    assert all(allowed[one.pod][one.node] for one in found)
    for one in found:
        view.take(one.node, pods[one.pod])
    for resource in ("cpu", "memory", "pods", "example.com/gpu", BANDWIDTH):
        over = view.requested(resource) > view.allocatable(resource)
        asked = {one.node for one in found if needed(pods[one.pod]).get(resource)}
        assert not any(over[index] for index in asked), resource
    for index in set(range(len(pods))) - {one.pod for one in found}:  # what was left out has no place in what is left
        fits = candidates[index].nodes.copy()
        for resource, amount in needed(pods[index]).items():
            fits &= (view.requested(resource) + amount <= view.allocatable(resource)) | (amount == 0)
        assert not fits.any()
    assert all(np.isfinite(one.score) for one in found)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(
    ("nodes", "pods", "expected"),
    [
        pytest.param(0, 1, 0, id="no node"),
        pytest.param(3, 0, 0, id="no pod"),
        pytest.param(3, 1, 1, id="one pod"),
        pytest.param(1, 3, 3, id="one node"),
    ],
)
def test_small_pools(kind: Eagles, nodes: int, pods: int, expected: int) -> None:
    view = columns([node(f"n{index}") for index in range(nodes)])
    assert len(places(quick(kind), view, [pod(f"p{index}") for index in range(pods)])) == expected


def test_pods_that_request_nothing_are_placed_and_counted_as_pods() -> None:
    view = columns([node("a", pods=2), node("b", pods=1)])
    found = places(quick(), view, [pod(f"p{index}", cpu=0, memory=0) for index in range(4)])
    assert sorted(found.values()) == ["a", "a", "b"]


def test_a_burst_of_pods_without_requests_spreads_over_nodes() -> None:
    pods = [pod(f"p{index}", cpu=0, memory=0) for index in range(12)]
    view = columns([node("a"), node("b", cpu=2), node("c")])
    found = [places(strategy, view, pods) for strategy in (BaldEagle(), BaldEagle(batch=1), BaldEagle(batch=5))]
    for one in found:
        assert 2 <= list(one.values()).count("b") <= 4
        assert max(list(one.values()).count(name) for name in "abc") <= 6


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        pytest.param({BANDWIDTH: 5.0}, "b", id="bandwidth that one node has"),
        pytest.param({DISK: 5.0}, "c", id="disk that one node has"),
        pytest.param({"example.com/gpu": 1.0}, "d", id="what is not weighed"),
        pytest.param({"example.com/tpu": 1.0}, None, id="what no node has"),
    ],
)
def test_all_resources_that_a_pod_asks_for_must_be_there(resources: dict[str, float], expected: str | None) -> None:
    nodes = [
        node("a", cpu=64), node("b", resources={BANDWIDTH: 9.0}), node("c", resources={DISK: 9.0}),
        node("d", resources={"example.com/gpu": 1.0}),
    ]  # fmt: skip
    assert places(quick(), columns(nodes), [pod("p", resources=resources)]).get("p") == expected


def test_a_port_conflict_within_a_batch_waits_for_another_look() -> None:
    class Ports(Strategy, tag="ports", frozen=True):
        @hookimpl
        def filter_nodes(self, pod: Pod, nodes: Nodes) -> Sequence[Refusal]:
            return [Refusal("ports", nodes.holding("p", lambda one: bool(one.needs.ports and pod.needs.ports)))]

    pods = [pod(f"p{index}", ports=(Port(80),)) for index in range(3)]
    decisions = planned([Fits(), Ports(), quick()], columns([node("a")]), pods)
    assert [one.verdict for one in decisions] == ["bind", "wait", "wait"]


def test_the_next_batch_sees_those_before_it() -> None:
    view = columns([node("a", cpu=2), node("b", cpu=2)])
    found = places(quick(batch=2), view, [pod(f"p{index}", cpu=1) for index in range(5)])
    assert sorted(found.values()) == ["a", "a", "b", "b"]


@pytest.mark.parametrize("greedy", [True, False])
def test_a_batch_places_all_pods_where_single_placement_cannot(greedy: bool) -> None:
    view = columns([node("a", cpu=10), node("b", cpu=10)])
    pods = [pod(f"p{index}", cpu=cpu) for index, cpu in enumerate((3, 3, 4, 10))]
    assert len(places(BaldEagle(greedy=greedy), view, pods)) == 4
    assert places(BaldEagle(greedy=greedy, batch=1), view, pods).keys() == {"p0", "p1", "p2"}


# The same again


@pytest.mark.parametrize("kind", BOTH)
def test_equal_input_gives_an_equal_plan_and_another_seed_another(kind: Eagles) -> None:
    nodes, pods = paper_pool(60, 12)
    options: dict[str, Any] = {"greedy": False} if kind is BaldEagle else {}
    plans = [places(kind(seed=seed, iterations=10, **options), columns(nodes), pods) for seed in (1, 1, 2)]
    assert plans[0] == plans[1] != plans[2]


def test_random_numbers_depend_only_on_the_seed_and_pods() -> None:
    assert generator(7, ["a", "b"]).integers(0, 10**6, 3).tolist() == [67004, 680916, 168796]
    first = [
        float(generator(seed, uids).random()) for seed, uids in ((7, ["a"]), (7, ["b"]), (8, ["a"]), (7, ["a", ""]))
    ]
    assert len(set(first)) == 4


def test_printed_and_greedy_and_plain_go_other_ways() -> None:
    nodes, pods = paper_pool(25, 12)
    ways: list[Any] = [
        BaldEagle(greedy=False, iterations=10),
        BaldEagle(greedy=False, iterations=10, printed=True),
        BaldEaglePlain(iterations=10),
        BaldEagle(iterations=10),
    ]
    plans = [tuple(places(way, columns(nodes), pods).items()) for way in ways]
    assert len(set(plans)) == 4


@pytest.mark.slow
def test_a_greedy_start_is_never_worse_than_single_placement() -> None:
    nodes, pods = paper_pool(25, 12)
    view = columns(nodes)
    alone = BaldEagle(batch=1).place_pods(pods=offered(pods, view), nodes=view)
    together = BaldEagle().place_pods(pods=offered(pods, view), nodes=view)
    assert np.mean([one.score for one in together]) >= np.mean([one.score for one in alone])


# What is used


@pytest.mark.parametrize(
    ("peaks", "expected"),
    [
        pytest.param({}, "b", id="requests where nothing is known"),
        pytest.param({"cpu": {"a": 0.5, "b": 3.5}}, "a", id="the peak of what was used"),
        pytest.param({"cpu": {"a": 3.9}}, "b", id="of one node only"),
        pytest.param({"cpu": {"a": float("nan"), "b": float("nan")}}, "b", id="NaN"),
        pytest.param({"memory": {"a": 0.1 * GIB, "b": 7.9 * GIB}}, "a", id="of memory, in bytes"),
    ],
)
def test_the_load_is_the_peak_use_where_it_is_known(peaks: dict[str, dict[str, float]], expected: str) -> None:
    view = columns([node("a"), node("b")], [pod("old", cpu=1.2, on="a"), pod("other", cpu=1, on="b")], peaks=peaks)
    assert places(quick(), view, [pod("p", cpu=0.5)]) == {"p": expected}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bald-eagle", "topsis"])
def test_the_example_places_a_hundred_pods_within_node_capacity(name: str) -> None:
    policy = load_pool(EXAMPLES / f"{name}.toml", discover())
    nodes, pods = paper_pool(100, 3)
    labelled = [replace(one, labels={**one.labels, **policy.pool.nodes}) for one in nodes]
    small = node("small", cpu=0.1, resources={BANDWIDTH: 0.0, DISK: 0.0})
    view = columns([*labelled, small], use={"disk_writes": {one.name: 1e6 for one in labelled}})
    decisions = planned(policy.strategies, view, pods, pool=policy.pool)
    assert [one.verdict for one in decisions] == ["bind"] * 100
    assert {one.node for one in decisions} == {"n00", "n01", "n02"}
    for resource in ("cpu", "memory", BANDWIDTH, DISK):
        assert (view.requested(resource) <= view.allocatable(resource)).all()


def spread(strategy: BaldEagle, count: int) -> tuple[Floats, Floats, Floats]:
    """The parts of nodes that so many pods of the paper use: by this strategy, by LRA and by BRA."""
    nodes, pods = paper_pool(count)
    view = columns(nodes)
    found = strategy.place_pods(pods=offered(pods, view), nodes=view)
    assert len(found) == count
    ours = used_parts({one.pod: one.node for one in found}, nodes, pods)
    scores = (least_requested, balanced_allocation)
    lra, bra = (used_parts(one_by_one(score, nodes, pods), nodes, pods) for score in scores)
    return ours, lra, bra


@pytest.mark.slow
def test_the_papers_pods_exceed_no_resource_unlike_by_default_scores() -> None:
    ours, lra, bra = spread(BaldEagle(), 1800)
    assert ours.max() <= 1
    assert lra[:, 2].max() > 1  # neither looks at bandwidth
    assert bra[:, 2:].max(axis=0).min() > 1  # nor at disk
    for other in (lra, bra):
        assert (np.ptp(ours, axis=0)[2:] < np.ptp(other, axis=0)[2:]).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "greedy", "beside"),
    [
        pytest.param(600, False, (0.76, 1.03), id="600 pods"),
        pytest.param(1200, False, (0.73, 1.00), id="1,200 pods"),
        pytest.param(600, True, (0.93, 1.26), id="600 pods, greedy"),
        pytest.param(1800, True, (0.67, 0.91), id="1,800 pods, greedy"),
    ],
)
def test_imbalance_is_below_lra_but_not_always_below_bra(count: int, greedy: bool, beside: tuple[float, float]) -> None:
    """The paper has 24 % and 21 % less; see docs/papers.md."""
    ours, lra, bra = map(imbalance, spread(BaldEagle(greedy=greedy), count))
    assert (ours / lra, ours / bra) == pytest.approx(beside, abs=0.03)
