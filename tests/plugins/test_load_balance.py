"""The strategy load-balance: the score of ImprovedLoadBalancePriority for pods of a pool."""

from collections import Counter
from collections.abc import Callable, Sequence
from math import log, nan
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elasticd.api import Nodes, Pod, Selection, Strategy, hookimpl
from elasticd.kit import idleness, load_score, std_score
from elasticd.kit.node_table import NodeTable, estimated
from elasticd.lab.papers.imbalance import used_parts
from elasticd_plugins.balanced_allocation import BalancedAllocation
from elasticd_plugins.least_requested import LeastRequested
from elasticd_plugins.load_balance import LoadBalance
from elasticd_plugins.static import Static
from tests.kit.pools import GIB, MIB, columns, node, planned, pod

By = dict[str, dict[str, float]]

THESIS = [node("node1", 1, 2 * GIB), node("node2", 2, 4 * GIB), node("node3", 4, 8 * GIB)]
"""The nodes of table 6-1."""


def scores(view: NodeTable, new: Pod | None = None, **options: Any) -> list[float]:
    """In mode paper, unless another is named."""
    said = LoadBalance(**{"mode": "paper", **options}).score_nodes(new or pod("p"), view)
    return [float(one) for one in np.round(said.values, 6)]


def used(*parts: tuple[float, float], **rates: Sequence[float]) -> NodeTable:
    """Nodes a, b, ... of 4 cores and 8 GiB of which such parts of cpu and memory are used, with series of rates."""
    names = [chr(ord("a") + index) for index in range(len(parts))]
    use: By = {
        "cpu": {name: 4 * cpu for name, (cpu, _) in zip(names, parts, strict=True)},
        "memory": {name: 8 * GIB * memory for name, (_, memory) in zip(names, parts, strict=True)},
        **{series: dict(zip(names, values, strict=True)) for series, values in rates.items()},
    }
    return columns([node(name) for name in names], (), use)


def test_the_score_sums_weighted_logarithms_of_mean_over_use() -> None:
    view = used((0.2, 0.3), (0.4, 0.3), (0.6, 0.6))
    expected = [5 * log(0.4 / cpu) + 5 * log(0.4 / memory) for cpu, memory in ((0.2, 0.3), (0.4, 0.3), (0.6, 0.6))]
    assert scores(view) == pytest.approx(expected, abs=1e-6)
    assert scores(view, cpu=1.0, memory=0.0) == pytest.approx([10 * log(2), 0.0, 10 * log(2 / 3)], abs=1e-6)


def test_a_large_node_counts_for_more_in_the_mean() -> None:
    use: By = {"cpu": {"node1": 0.8, "node2": 0.4, "node3": 0.8}}
    mean = (0.8 + 0.4 + 0.8) / 7
    expected = [10 * log(mean / part) for part in (0.8, 0.2, 0.2)]
    assert scores(columns(THESIS, (), use), cpu=1.0, memory=0.0) == pytest.approx(expected, abs=1e-6)


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.sampled_from([0.1, 0.25, 0.7])), max_size=8))
def test_scores_follow_the_formula_as_pods_come_and_go(
    steps: list[tuple[int, bool, float]],
) -> None:
    view, new, whole = used((0.2, 0.3), (0.4, 0.3), (0.6, 30.0)), pod("new", 0.3, GIB), {"cpu": 4.0, "memory": 8 * GIB}
    there = list[tuple[int, Pod]]()
    for index, (place, comes, cpu) in enumerate(steps):
        if comes or not there:
            there.append((place, pod(f"p{index}", cpu, cpu * GIB)))
            view.take(*there[-1])
        else:
            view.release(*there.pop())
        parts = {name: view.use(name) / size for name, size in whole.items()}
        more = {name: parts[name] + estimated(new, name) / size for name, size in whole.items()}
        for pods, own in ((new, more), (None, parts)):
            ratios = [(0.5, idleness(parts[name], np.full(3, size), own[name])) for name, size in whole.items()]
            assert LoadBalance().load(view, pods).tolist() == load_score(ratios).tolist()


def labelled(*values: str) -> NodeTable:
    nodes = [replace(one, labels={"size": value} if value else {}) for one, value in zip(THESIS, values, strict=True)]
    parts = {"node1": 0.3 / 0.94, "node2": 0.3 / 1.12, "node3": 0.3 / 1.06}
    use = {"cpu": {one.name: parts[one.name] * one.allocatable["cpu"] for one in nodes}}
    return columns(nodes, (), use)


@pytest.mark.parametrize(
    ("sizes", "label", "ratios"),
    [
        pytest.param(("4", "2", "1"), "size", (0.94, 1.12, 1.06), id="reversed: table 6-12 as printed"),
        pytest.param(("1", "2", "4"), "size", (0.889, 1.060, 1.003), id="right"),
        pytest.param(("", "", ""), "", (0.889, 1.060, 1.003), id="no label: what they can allocate"),
        pytest.param(("1", "1", "none"), "size", (0.920, 1.096, 1.037), id="no number: not in the mean"),
        pytest.param(("1", "1", "-4"), "size", (0.920, 1.096, 1.037), id="no size: not in the mean"),
        pytest.param(("1", "1", "inf"), "size", (0.920, 1.096, 1.037), id="no finite number: not in the mean"),
    ],
)
def test_t_2_labels_may_say_how_large_nodes_are(sizes: tuple[str, ...], label: str, ratios: tuple[float, ...]) -> None:
    found = scores(labelled(*sizes), cpu=1.0, memory=0.0, cpu_label=label)
    assert found == pytest.approx([10 * log(one) for one in ratios], abs=0.03)


def test_labels_of_memory_are_labels_of_memory() -> None:
    use = {"memory": {"node1": GIB, "node2": GIB, "node3": GIB}}
    nodes = [replace(one, labels={"size": "1"}) for one in THESIS]
    expected = [10 * log((0.5 + 0.25 + 0.125) / 3 / part) for part in (0.5, 0.25, 0.125)]
    found = scores(columns(nodes, (), use), cpu=0.0, memory=1.0, memory_label="size")
    assert found == pytest.approx(expected, abs=1e-6)


def test_labels_nobody_has_leave_nothing_known() -> None:
    assert np.isnan(scores(labelled("", "", ""), cpu=1.0, memory=0.0, cpu_label="size")).all()


FOUR: dict[str, Any] = {"cpu": 0.25, "memory": 0.25, "image": 0.25, "data": 0.25}


def test_speeds_count_the_other_way_round() -> None:
    view = used((0.3, 0.3), (0.3, 0.3), image_pull_rate=[30e6, 10e6], data_rate=[5e8, 15e8])
    expected = [2.5 * (log(1.5) + log(0.5)), 2.5 * (log(0.5) + log(1.5))]
    assert scores(view, **FOUR) == pytest.approx(expected, abs=1e-6)
    only_images = scores(view, cpu=0.5, memory=0.25, image=0.25)
    assert only_images == pytest.approx([2.5 * log(1.5), 2.5 * log(0.5)], abs=1e-6)


def test_series_of_speeds_may_have_any_name() -> None:
    view = used((0.3, 0.3), (0.3, 0.3), pulls=[3.0, 1.0], disks=[1.0, 3.0])
    strategy = LoadBalance(cpu=0, memory=0, image=0.75, data=0.25, image_series="pulls", data_series="disks")
    assert strategy.reads_of_nodes() == ("pulls", "disks")
    assert strategy.score_nodes(pod("p"), view).values == pytest.approx(
        [7.5 * log(1.5) + 2.5 * log(0.5), 7.5 * log(0.5) + 2.5 * log(1.5)]
    )


def test_only_series_of_factors_that_count_are_read() -> None:
    assert LoadBalance().reads_of_nodes() == ("cpu", "memory")
    assert LoadBalance(**FOUR).reads_of_nodes() == ("cpu", "memory", "image_pull_rate", "data_rate")
    assert LoadBalance(cpu=1.0, memory=0.0).reads_of_nodes() == ("cpu",)
    assert LoadBalance().reads() == ()


@pytest.mark.parametrize(
    ("view", "options", "expected"),
    [
        pytest.param(used((nan, 0.3), (0.3, 0.3)), {}, [nan, 0.0], id="a load of one node"),
        pytest.param(used((nan, 0.2), (nan, 0.4)), {}, [10 * log(1.5), 10 * log(0.75)], id="a load of no node"),
        pytest.param(used((nan, nan), (nan, nan)), {}, [nan, nan], id="nothing"),
        pytest.param(columns([node("a")]), {}, [nan], id="no series at all"),
        pytest.param(columns([]), {}, [], id="no nodes"),
        pytest.param(used((0.0, 0.0), (0.0, 0.0)), {}, [0.0, 0.0], id="idle pool"),
        pytest.param(used((0.5, 0.5)), {}, [0.0], id="one node"),
        pytest.param(
            used((0.3, 0.3), (0.3, 0.3), (0.3, 0.3), image_pull_rate=[nan, 10.0, 30.0]),
            FOUR,
            [0.0, 10 / 3 * log(0.5), 10 / 3 * log(1.5)],
            id="a speed of one node: the mean; of no node: the others share its part",
        ),
    ],
)
def test_what_is_not_known_is_told_apart_from_idle(
    view: NodeTable, options: dict[str, Any], expected: list[float]
) -> None:
    assert scores(view, **options) == pytest.approx(expected, abs=1e-6, nan_ok=True)


def test_a_node_that_can_allocate_nothing_has_no_score() -> None:
    view = columns([node("a"), node("b", cpu=0, memory=0)], (), {"cpu": {"a": 1, "b": 1}, "memory": {"a": 1, "b": 1}})
    assert scores(view) == pytest.approx([0.0, nan], nan_ok=True)


def test_a_node_of_unknown_load_is_the_last_choice() -> None:
    view = used((nan, 0.1), (0.9, 0.9))
    assert [one.node for one in planned([LoadBalance()], view, [pod("p")])] == ["b"]
    assert planned([LoadBalance()], used((nan, nan)), [pod("p")])[0].node == "a"


class Tiers(Strategy, tag="tiers", frozen=True):
    """Binds pods by their label `tier` away from nodes with another one, and those with a label `host` to it."""

    @hookimpl
    def select_nodes(self, pod: Pod, nodes: Nodes) -> Selection | None:
        hosts, tier = pod.labels.get("host", "").split(), pod.labels.get("tier", "")
        key = (*hosts, tier)
        return Selection(
            nodes.matching(key, lambda one: (not hosts or one.name in hosts) and one.labels["tier"] != tier), "by test"
        )


@pytest.mark.parametrize("mode", ["product", "paper"])
@pytest.mark.parametrize("kind", [LoadBalance, Static])
def test_t_5_an_idle_pool_prefers_the_largest_allowed_node(kind: type[LoadBalance | Static], mode: Any) -> None:
    tiers = {"node1": "frontend", "node2": "backend", "node3": "frontend"}
    nodes = [replace(one, labels={"tier": tiers[one.name]}) for one in THESIS]
    idle: By = {series: dict.fromkeys(tiers, 0.0) for series in ("cpu", "memory")}
    pods = [
        pod("pod1", 0.01, 64 * MIB, labels={"host": "node1"}),
        pod("pod2", 0.01, 64 * MIB, labels={"tier": "backend"}),
        pod("pod3", 0.01, 64 * MIB, labels={"host": "node1 node2", "tier": "backend"}),
    ]
    found = {one.pod.name: one.node for one in planned([kind(mode=mode), Tiers()], columns(nodes, (), idle), pods)}
    assert found == {"pod1": "node1", "pod2": "node3", "pod3": "node1"}


def burst(count: int = 28, **options: Any) -> Counter[str]:
    """Where pods go that come at once to the thesis's nodes, of which each uses a tenth."""
    use = {kind: {one.name: 0.1 * one.allocatable[kind] for one in THESIS} for kind in ("cpu", "memory")}
    use["cpu"]["node2"] *= 0.9  # the least loaded
    pods = [pod(f"p{index}", 0.1, 200 * MIB) for index in range(count)]
    return Counter(one.node for one in planned([LoadBalance(**options)], columns(THESIS, (), use), pods))


def test_a_burst_spreads_by_what_the_nodes_can_bear() -> None:
    assert burst() == {"node1": 4, "node2": 8, "node3": 16}


def test_in_mode_paper_a_burst_goes_to_one_node() -> None:
    assert burst(mode="paper") == {"node2": 28}


def test_pods_that_request_nothing_spread_too() -> None:
    pods = [pod(f"p{index}", 0, 0) for index in range(28)]
    idle = {kind: {one.name: 0.0 for one in THESIS} for kind in ("cpu", "memory")}
    found = Counter(one.node for one in planned([LoadBalance()], columns(THESIS, (), idle), pods))
    assert found == {"node1": 4, "node2": 8, "node3": 16}


def test_a_large_pod_goes_where_it_weighs_least() -> None:
    use: By = {"cpu": {"node1": 0.0, "node3": 1.0}, "memory": {"node1": 0.0, "node3": 2 * GIB}}
    view, large = columns([THESIS[0], THESIS[2]], (), use), pod("large", 0.9, 1.8 * GIB)
    assert planned([LoadBalance()], view, [large])[0].node == "node3"
    assert planned([LoadBalance(mode="paper")], view, [large])[0].node == "node1"


def heavy(random: Random) -> tuple[float, float]:
    """Few pods use 20 times what most do."""
    return (0.2, 200 * MIB) if random.random() < 0.15 else (0.01, 10 * MIB)


def spread(random: Random) -> tuple[float, float]:
    """Long tails, of cpu and of memory apart."""
    return min(0.01 * random.paretovariate(1), 0.4), min(10 * MIB * random.paretovariate(1), 400 * MIB)


def alike(random: Random) -> tuple[float, float]:
    """Cpu and memory go together."""
    size = random.choice([1, 1, 1, 20])
    return 0.01 * size, 8 * MIB * size


Model = Callable[[Random], tuple[float, float]]
DEFAULT: list[Strategy] = [LeastRequested(), BalancedAllocation()]


def after_60_pods(strategies: Sequence[Strategy], model: Model, seed: int) -> tuple[float, float]:
    """stdScore, and how far nodes are apart in what they use, once four batches of 15 pods run, each placed by what was
    measured of those before it. All pods request the same; what each uses is drawn by the model."""
    random = Random(seed)
    uses = {f"pod{index}": model(random) for index in range(60)}
    on: list[Pod] = []
    for batch in range(4):
        new = [pod(f"pod{index}", 0.05, 64 * MIB) for index in range(15 * batch, 15 * batch + 15)]
        placed = planned(strategies, columns(THESIS, on, measured(on, uses)), new)
        on += [replace(one, node=decision.node) for one, decision in zip(new, placed, strict=True)]
    parts = used_parts(columns(THESIS), measured(on, uses))
    ratios = [idleness(row, np.array([1.0, 2.0, 4.0])) for row in parts.T]
    return std_score(load_score([(0.5, ratio) for ratio in ratios])), float(parts.std(axis=0).mean())


def measured(on: Sequence[Pod], uses: dict[str, tuple[float, float]]) -> By:
    return {
        resource: {
            one.name: sum(uses[running.name][index] for running in on if running.node == one.name) for one in THESIS
        }
        for index, resource in enumerate(("cpu", "memory"))
    }


@pytest.mark.slow
@pytest.mark.parametrize("model", [heavy, spread, alike])
def test_measured_load_spreads_60_pods_better_than_requests(
    model: Model,
) -> None:
    """Thesis, figures 6-6 to 6-8: stdScore is clearly smaller once the load is measured. The pods are the same."""
    seeds = range(20)
    ours = np.array([after_60_pods([LoadBalance()], model, seed) for seed in seeds])
    default = np.array([after_60_pods(DEFAULT, model, seed) for seed in seeds])
    deviation, uneven = ours.mean(axis=0) / default.mean(axis=0)
    assert deviation < 0.75
    assert uneven < 1
    assert np.count_nonzero(ours[:, 0] < default[:, 0]) > 12


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        pytest.param(
            {"cpu": 0.6}, "cpu: must add up to 1 with memory, image and data, is 0.6 of 1.1", id="more than 1"
        ),
        pytest.param({"memory": 0.0}, "cpu: must add up to 1 .* is 0.5 of 0.5", id="less than 1"),
        pytest.param({"cpu": -0.5}, ">= 0", id="cpu"),
        pytest.param({"memory": 1.5}, "<= 1", id="memory"),
        pytest.param({"image": 2}, "<= 1", id="image"),
        pytest.param({"data": 2}, "<= 1", id="data"),
        pytest.param({"image_series": ""}, "length >= 1", id="image_series"),
        pytest.param({"data_series": ""}, "length >= 1", id="data_series"),
        pytest.param({"cpu_label": 1}, "Expected `str`", id="cpu_label"),
        pytest.param({"memory_label": 1}, "Expected `str`", id="memory_label"),
        pytest.param({"mode": "thesis"}, "Invalid enum value 'thesis'", id="mode"),
        pytest.param({"weight": 0}, "> 0", id="weight"),
    ],
)
def test_nonsense_is_refused(table: dict[str, Any], problem: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=problem):
        msgspec.convert({"type": "load-balance", **table}, LoadBalance)


def test_thirds_add_up() -> None:
    assert LoadBalance(cpu=0.333333, memory=0.333333, image=0.333334).image == 0.333334


def test_weight_is_what_it_counts() -> None:
    view = used((0.2, 0.2), (0.4, 0.4))
    (decision,) = planned([LoadBalance(weight=3.0, mode="paper")], view, [pod("p")])
    assert decision.scores[0].parts["load-balance"] == pytest.approx(30 * log(1.5))


@given(
    st.lists(st.tuples(st.floats(0, 2), st.floats(0, 2)), min_size=1, max_size=12), st.randoms(use_true_random=False)
)
def test_node_order_and_cluster_size_do_not_change_scores(parts: list[tuple[float, float]], random: Random) -> None:
    order = list(range(len(parts)))
    random.shuffle(order)
    first, shuffled, twice = (scores(used(*some)) for some in (parts, [parts[i] for i in order], [*parts, *parts]))
    assert shuffled == pytest.approx([first[i] for i in order], abs=1e-5)
    assert twice == pytest.approx([*first, *first], abs=1e-5)
