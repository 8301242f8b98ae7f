"""The strategy rebalance: when a node must give up pods, how much, and which."""

from itertools import pairwise
from math import exp, inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import elasticd_plugins.rebalance as plugin
from elasticd.api import DisruptionBudget, Pod, PoolPast
from elasticd.kit import COST
from elasticd.testing import check_strategy
from elasticd_plugins.filters import Filters
from elasticd_plugins.load_balance import LoadBalance
from elasticd_plugins.rebalance import Rebalance
from elasticd_plugins.rebalance.levels import excess, fits, levels
from elasticd_plugins.rebalance.options import Marks
from elasticd_plugins.rebalance.victims import disruption
from tests.kit.plugins.levelling import CPU, MEMORY, Pool, Using, app, looks, names, needed, planned, pool, wanted
from tests.kit.pools import GIB, columns, node, pod, refused

HOT = {"hot": (0.9, 0.9), "b": (0.4, 0.4), "c": (0.4, 0.4), "d": (0.4, 0.4)}
"""The mean is 0.525."""


def apps(*cpu: float, on: str = "hot", memory: float = 0.9 * MEMORY) -> list[Using]:
    """Pods a, b, ... that use so many cores, and the same part each of so much memory."""
    return [(app(chr(ord("a") + i), on), one, memory * one / sum(cpu)) for i, one in enumerate(cpu)]


def marks(high: float = 0.8, calm: float = 0.7, low: float = 0.5) -> tuple[Marks, ...]:
    return Marks("cpu", high, calm, low), Marks("memory", high, calm, low)


VARIANTS = [
    pytest.param(Rebalance(), id="score"),
    pytest.param(Rebalance(mode="paper"), id="paper"),
    pytest.param(Rebalance(by="use", marks=marks()), id="use"),
    pytest.param(Rebalance(by="deviation", marks=marks(0.2, 0.1, 0.0)), id="deviation"),
    pytest.param(Rebalance(amount="mean"), id="mean"),
    pytest.param(Rebalance(cpu=0.25, memory=0.25, image=0.25, data=0.25), id="four factors"),
]


@pytest.mark.parametrize("strategy", VARIANTS)
def test_it_does_what_every_strategy_must(strategy: Rebalance) -> None:
    assert check_strategy(strategy) == []


@pytest.mark.parametrize("strategy", VARIANTS)
def test_a_level_pool_makes_no_moves(strategy: Rebalance) -> None:
    level = dict.fromkeys("abc", (0.7, 0.6)) | {"d": (0.68, 0.62)}
    assert wanted(strategy, pool(level, [one for name in level for one in apps(1, 1, on=name)])) == []


@pytest.mark.parametrize(
    ("options", "hot"),
    [
        pytest.param({}, ["hot"], id="score"),
        pytest.param({"lower": -6, "calm": -6}, [], id="lower score"),
        pytest.param({"lower": -5, "calm": -5}, ["hot"], id="just not"),
        pytest.param({"least": 0.91}, [], id="uses less than the least part"),
        pytest.param({"by": "use", "marks": marks(0.85)}, ["hot"], id="above the mark"),
        pytest.param({"by": "use", "marks": marks(0.9)}, [], id="at the mark"),
        pytest.param({"by": "use", "marks": marks(0.85), "least": 0.95}, ["hot"], id="marks have no least"),
        pytest.param({"by": "deviation", "marks": marks(0.37, 0.3, 0.0)}, ["hot"], id="above the mean's mark"),
        pytest.param({"by": "deviation", "marks": marks(0.38, 0.3, 0.0)}, [], id="below the mean's mark"),
    ],
)
def test_who_is_too_loaded(options: dict[str, Any], hot: list[str]) -> None:
    moves = wanted(Rebalance(**options), pool(HOT, apps(*[0.2] * 18)))
    assert list(dict.fromkeys(move.pod.node for move in moves)) == hot


@pytest.mark.parametrize(
    ("options", "use", "takes"),
    [
        pytest.param({}, (0.4, 0.4), True, id="score above upper"),
        pytest.param({"upper": 6.0}, (0.4, 0.4), False, id="score below upper"),
        pytest.param({}, (0.55, 0.2), False, id="unbalanced"),
        pytest.param({"balance": 0.0}, (0.55, 0.2), True, id="balance does not matter"),
        pytest.param({"by": "use", "marks": marks()}, (0.49, 0.49), True, id="below the mark"),
        pytest.param({"by": "use", "marks": marks()}, (0.51, 0.1), False, id="one above the mark"),
        pytest.param({"by": "use", "marks": marks()}, (0.1, 0.71), False, id="one not calm"),
        pytest.param({"by": "deviation", "marks": marks(0.3, 0.2, 0.0)}, (0.4, 0.4), True, id="below the mean"),
        pytest.param({"by": "deviation", "marks": marks(0.3, 0.2, -0.3)}, (0.4, 0.4), False, id="not far enough"),
        pytest.param({"by": "use", "marks": marks()}, (nan, 0.1), False, id="unknown"),
    ],
)
def test_who_takes_pods(options: dict[str, Any], use: tuple[float, float], takes: bool) -> None:
    strategy, found = Rebalance(**options), pool({"hot": (0.9, 0.9), "b": use, "c": (0.7, 0.7)})
    now = levels(strategy, found.view, strategy.seen(found.view))
    rule, used = fits(strategy, now, ["cpu", "memory"]), {name: found.view.use(name) for name in ("cpu", "memory")}
    assert rule(used, slice(None)).tolist() == [takes, False, False]
    for place, expected in enumerate((takes, False, False)):  # of one node the same as of all
        places = np.array([place])
        assert rule({name: column[places] for name, column in used.items()}, places).tolist() == [expected]


def test_a_target_must_be_low_only_in_the_overloaded_resource() -> None:
    """Memory is level."""
    strategy = Rebalance(by="deviation", marks=marks(0.15, 0.05, 0.0))
    found = pool({"hot": (0.9, 0.5), "b": (0.5, 0.5), "c": (0.5, 0.5)}, apps(*[0.2] * 9, memory=GIB))
    decisions = planned((Filters(), strategy), found, looks(found, *[found.measured] * 3), single=True)
    assert {one.target for one in decisions if one.verdict == "move"} == {"b", "c"}


def test_where_nobody_can_take_more_nobody_goes() -> None:
    strategy = Rebalance(by="use", marks=marks())
    assert wanted(strategy, pool({"hot": (0.9, 0.9), "b": (0.6, 0.6)}, apps(*[0.2] * 18))) == []


@pytest.mark.parametrize(
    ("options", "amounts"),
    [
        pytest.param({"by": "use", "marks": marks()}, (0.2, 0.1), id="down to calm"),
        pytest.param({"by": "use", "marks": marks(), "amount": "mean"}, (0.375, 0.325), id="down to the mean"),
        pytest.param({"by": "deviation", "marks": marks(0.2, 0.1, 0.0)}, (0.275, 0.225), id="to the mean's mark"),
        pytest.param({"amount": "mean"}, (0.375, 0.325), id="score, down to the mean"),
    ],
)
def test_how_much_is_released(options: dict[str, Any], amounts: tuple[float, float]) -> None:
    strategy, found = Rebalance(**options), pool({"hot": (0.9, 0.8), "b": (0.15, 0.15)})
    now = levels(strategy, found.view, strategy.seen(found.view))
    place = found.view.names.index("hot")
    expected = {"cpu": amounts[0] * CPU, "memory": amounts[1] * MEMORY}
    assert {name: one[place] for name, one in excess(strategy, now).items()} == pytest.approx(expected)


def test_by_score_a_node_is_calm_after_releasing_its_excess() -> None:
    strategy, found = Rebalance(), pool(HOT)
    now = levels(strategy, found.view, strategy.seen(found.view))
    released = {
        "cpu": float(excess(strategy, now)["cpu"][3]) / CPU,
        "memory": float(excess(strategy, now)["memory"][3]) / MEMORY,
    }
    share = {"cpu": released["cpu"] / 3, "memory": released["memory"] / 3}
    use = dict.fromkeys("bcd", (0.4 + share["cpu"], 0.4 + share["memory"]))
    use["hot"] = (0.9 - released["cpu"], 0.9 - released["memory"])
    assert float(strategy.load(pool(use).view)[3]) == pytest.approx(-0.5)


def test_only_what_exceeds_the_mean_is_released() -> None:
    strategy, found = Rebalance(), pool({"hot": (0.9, 0.5), "b": (0.5, 0.55), "c": (0.5, 0.6)})
    now = levels(strategy, found.view, strategy.seen(found.view))
    assert excess(strategy, now)["memory"][2] == 0
    assert 0 < excess(strategy, now)["cpu"][2] <= (0.9 - now.means["cpu"]) * CPU


@pytest.mark.parametrize(
    ("pods", "gone"),
    [
        pytest.param(apps(0.1, 0.7, 0.3, 0.799), ["d"], id="the largest that does not release too much"),
        pytest.param(apps(0.1, 0.7, 0.3, 0.9), ["b", "a"], id="what is too large is passed over, then the rest"),
        pytest.param(apps(1.0, 1.2, 1.1), ["a"], id="all too large: the smallest"),
        pytest.param(apps(0.3, 0.3, 0.3, 0.3), ["a", "b", "c"], id="as many as it takes, by name"),
    ],
)
def test_victims_match_what_is_to_be_released(pods: list[Using], gone: list[str]) -> None:
    """0.8 of 4 cores are."""
    strategy = Rebalance(by="use", marks=(Marks("cpu", 0.8, 0.7, 0.5),))
    assert needed(wanted(strategy, pool(HOT, pods))) == gone


def test_victims_match_the_resource_with_the_largest_excess() -> None:
    big = (app("big", "hot"), 0.1, 3 * GIB)
    busy = (app("busy", "hot"), 2.0, GIB / 4)
    nodes = {"hot": (0.6, 0.95), "b": (0.3, 0.3), "c": (0.3, 0.3)}
    strategy = Rebalance(by="use", marks=(Marks("cpu", 0.8, 0.7, 0.5), Marks("memory", 0.8, 0.5, 0.4)))
    assert needed(wanted(strategy, pool(nodes, [busy, big]))) == ["big", "busy"]
    assert names(wanted(strategy, pool({**nodes, "hot": (0.95, 0.3)}, [busy, big])))[0] == "big"
    assert needed(wanted(strategy, pool({**nodes, "hot": (1.0, 0.3)}, [(busy[0], 1.0, GIB), big])))[0] == "busy"


def cheap(one: Pod) -> Pod:
    return replace(one, annotations={COST: str(-(2**26))})


def test_what_costs_less_goes_first() -> None:
    important = replace(app("a", "hot"), needs=replace(app("a", "hot").needs, priority=2**26))
    pods = [(important, 0.6, GIB), (app("b", "hot"), 0.5, GIB), (cheap(app("c", "hot")), 0.3, GIB)]
    strategy = Rebalance(by="use", marks=(Marks("cpu", 0.8, 0.7, 0.5),))
    assert names(wanted(strategy, pool(HOT, pods))) == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("annotations", "priority", "cost"),
    [
        pytest.param({}, 0, 0.25, id="ordinary"),
        pytest.param({COST: str(2**27)}, 0, 0.5, id="deletion cost"),
        pytest.param({COST: str(-(2**31))}, 0, 0.0, id="none below 0"),
        pytest.param({COST: "some"}, 0, 0.25, id="no number"),
        pytest.param({}, 2**25, 0.5, id="priority"),
        pytest.param({}, 10**9, 2.5, id="none above 10 quarters"),
    ],
)
def test_disruption_is_a_quarter_of_karpenters(annotations: dict[str, str], priority: int, cost: float) -> None:
    one = pod("a", annotations=annotations, priority=priority)
    assert disruption(one) == pytest.approx(cost)


def test_benefit_is_the_percentage_of_excess_freed_on_the_node() -> None:
    strategy = Rebalance(by="use", marks=(Marks("cpu", 0.8, 0.7, 0.5),))
    moves = wanted(strategy, pool(HOT, apps(0.6, 0.4, 1.0)))
    assert names(moves) == ["a", "b", "c"]
    # Of 4 cores 0.4 are 10 %, and 5 % are left to release; 1.0 are 25 %, of 20 % that are too much in all.
    assert [one.benefit for one in moves] == pytest.approx([15.0, 5.0, 20.0])


@pytest.mark.parametrize(
    ("worth", "verdict"), [(1.0, "move"), (60.5, "refuse")], ids=["15 % against a quarter", "not 60 quarters"]
)
def test_a_move_must_be_worth_it(worth: float, verdict: str) -> None:
    strategy, found = Rebalance(by="use", marks=(Marks("cpu", 0.8, 0.7, 0.5),)), pool(HOT, apps(0.6))
    (one,) = planned((Filters(), strategy), found, looks(found, *[found.measured] * 3), single=True, worth=worth)
    assert one.verdict == verdict


def test_less_than_a_grain_is_left() -> None:
    strategy = Rebalance(by="use", marks=(Marks("cpu", 0.8, 0.7, 0.5),))
    assert needed(wanted(strategy, pool(HOT, apps(0.795, 0.1)))) == ["a"]
    assert needed(wanted(strategy, pool(HOT, apps(0.780, 0.1)))) == ["a", "b"]


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(nan, id="NaN"),
        pytest.param(inf, id="infinite"),
        pytest.param(-1.0, id="negative"),
        pytest.param(None, id="missing"),
    ],
)
def test_a_pod_whose_use_is_not_known_stays(use: float | None) -> None:
    found = pool(HOT, apps(0.5, 0.5))
    for name, by_pod in found.use.items():
        if use is None:
            del by_pod["shop/a"]
        elif name == "memory":
            by_pod["shop/a"] = use
    assert names(wanted(Rebalance(), found)) == ["b"]


@pytest.mark.parametrize(
    ("nodes", "moved"),
    [
        pytest.param({**HOT, "hot": (nan, 0.9)}, [], id="the loaded node's"),
        pytest.param({**HOT, "b": (nan, 0.4), "c": (0.4, nan)}, ["hot"], id="others'"),
        pytest.param(dict.fromkeys(HOT, (nan, nan)), [], id="all"),
        pytest.param({name: (use[0], nan) for name, use in HOT.items()}, [], id="a whole series"),
        pytest.param({"hot": (0.9, 0.9)}, [], id="one node"),
    ],
)
@pytest.mark.parametrize(
    "strategy", [Rebalance(), Rebalance(by="use", marks=marks()), Rebalance(by="deviation", marks=marks(0.2, 0.1, 0))]
)
def test_what_is_not_known_is_neither_too_loaded_nor_free(
    nodes: dict[str, tuple[float, float]], moved: list[str], strategy: Rebalance
) -> None:
    found = pool(nodes, apps(*[0.2] * 18))
    assert list(dict.fromkeys(move.pod.node for move in wanted(strategy, found))) == moved
    decisions = planned((Filters(), strategy), found, looks(found, *[found.measured] * 3), single=True)
    assert {one.target for one in decisions if one.verdict == "move"} <= {"b", "c", "d"} - {
        name for name, use in nodes.items() if np.isnan(use).any()
    }


def thought(found: Pool, node_: str, by: float) -> Pool:
    """The same, and what was bound there of late is thought to add so many cores to what was measured."""
    use = found.measured | {"cpu": found.measured["cpu"] | {node_: found.measured["cpu"][node_] + by}}
    pods = [one for index, _ in enumerate(found.nodes) for one in found.view.pods(index)]
    return replace(found, view=columns(found.nodes, pods, use, measured=found.measured))


CALM = {"a": (0.3, 0.3), "b": (0.3, 0.3), "c": (0.3, 0.3)}


@pytest.mark.parametrize("strategy", [one for one in VARIANTS if one.id != "paper"])
def test_nobody_leaves_for_what_is_only_thought_to_be_used(strategy: Rebalance) -> None:
    found = thought(pool(CALM, apps(0.6, 0.6, on="a")), "a", 2.6)
    assert found.view.use("cpu")[0] == pytest.approx(3.8)
    assert wanted(strategy, found) == []


def test_but_nobody_comes_either() -> None:
    strategies = [Rebalance(by="use", marks=marks()), Filters()]
    found = pool({"hot": (0.9, 0.9), "b": (0.4, 0.4)}, apps(0.4, 0.4, 0.4))
    past = looks(found, *[found.measured] * 3)
    assert "b" in {one.target for one in planned(strategies, found, past, min_age=0, single=True)}
    found = thought(found, "b", 1.6)
    refused = planned(strategies, found, past, min_age=0, single=True)
    assert {one.refusal for one in refused} == {"NoOtherNode"}
    told = "no other node is free enough for what it uses: what came to 1 node of late is not measured yet, and"
    assert all(told in one.message for one in refused)


def test_an_empty_pool_is_level() -> None:
    assert wanted(Rebalance(), pool({})) == []
    assert wanted(Rebalance(), Pool(columns([node("a")]), (), {}, {"cpu": {}, "memory": {}})) == []


def test_nobody_goes_where_the_pool_may_move_nobody() -> None:
    assert wanted(Rebalance(), pool(HOT, apps(0.5, 0.5)), movable=lambda _: False) == []
    assert names(wanted(Rebalance(), pool(HOT, apps(0.5, 0.5)), movable=lambda one: one.name == "b")) == ["b"]


def test_a_node_takes_no_pod_that_exceeds_its_calm_mark() -> None:
    """Each of b, c and d may take 0.3 of itself, which is 1.2 cores: two pods of 0.5, and no third."""
    strategy = Rebalance(by="use", marks=(Marks("cpu", 0.75, 0.7, 0.5),))
    nodes = {"hot": (1.0, 0.5), "hotter": (1.0, 0.5), "b": (0.4, 0.5), "c": (0.4, 0.5), "d": (0.4, 0.5)}
    pods = [(app(f"{on}-{i}", on, of=f"{on}-{i}"), 0.5, GIB) for on in ("hot", "hotter") for i in range(4)]
    found = pool(nodes, pods)
    decisions = planned((Filters(), strategy), found, looks(found, *[found.measured] * 3), single=True, per_look=100)
    gone = [one.target for one in decisions if one.verdict == "move"]
    assert len(gone) == 6
    assert all(gone.count(name) == 2 for name in "bcd")


def test_where_one_finds_no_place_another_goes_instead() -> None:
    strategy = Rebalance(by="use", marks=(Marks("cpu", 0.8, 0.7, 0.5),))
    bound = app("a", "hot", selector={"kubernetes.io/hostname": "hot"})
    pods = [(bound, 0.8, GIB), (app("b", "hot"), 0.7, GIB), (app("c", "hot"), 0.2, GIB), (app("d", "hot"), 0.1, GIB)]
    found = pool(HOT, pods)
    decisions = planned((Filters(), strategy), found, looks(found, *[found.measured] * 3), single=True)
    assert [(one.pod.name, one.refusal) for one in decisions] == [("a", "NoOtherNode"), ("b", ""), ("c", "")]


def test_only_pods_that_would_suffice_are_refused_as_enough() -> None:
    strategy = Rebalance(by="use", marks=(Marks("cpu", 0.8, 0.7, 0.5),))
    found = pool(HOT, apps(*[0.3] * 10))
    decisions = planned((Filters(), strategy), found, looks(found, *[found.measured] * 3), single=True, per_look=2)
    assert [(one.pod.name, one.refusal) for one in decisions] == [("a", ""), ("b", ""), ("c", "Enough")]


def test_a_message_says_what_node_and_pool_use() -> None:
    (one, *_) = wanted(Rebalance(), pool(HOT, apps(0.5)))
    assert (one.reason, one.message) == ("Overloaded", "hot uses cpu 90%, the pool 52%; memory 90%, the pool 52%")


def test_pods_to_be_placed_avoid_nodes_that_are_too_loaded() -> None:
    said = Rebalance(avoid=50).score_nodes(pool(HOT).view)
    assert said is not None
    assert list(said.values) == [0.0, 0.0, 0.0, -50.0]
    assert Rebalance(avoid=0).score_nodes(pool(HOT).view) is None
    unknown = Rebalance().score_nodes(pool(dict.fromkeys("ab", (nan, nan))).view)
    assert unknown is not None
    assert list(unknown.values) == [0.0, 0.0]


def test_it_reads_what_counts() -> None:
    assert (Rebalance().reads(), Rebalance().reads_of_nodes()) == (("cpu", "memory"), ("cpu", "memory"))
    rates = Rebalance(cpu=0.5, memory=0.0, image=0.5)
    assert (rates.reads(), rates.reads_of_nodes()) == (("cpu",), ("cpu", "image_pull_rate"))
    net = Rebalance(by="use", marks=(Marks("network_receive", 0.8, 0.7, 0.5),))
    assert (net.reads(), net.reads_of_nodes()) == (("network_receive",), ("network_receive",))
    assert Rebalance().looks_back() == 20


def test_memory_alone_may_count() -> None:
    found = pool({"hot": (0.1, 0.9), "b": (0.1, 0.4), "c": (0.9, 0.4)}, apps(*[0.1] * 9))
    moves = wanted(Rebalance(cpu=0.0, memory=1.0), found)
    assert {move.pod.node for move in moves} == {"hot"}
    assert moves[0].use.keys() == {"memory"}


def test_protected_pods_are_in_no_plan() -> None:
    budget = DisruptionBudget("shop", "web", frozenset({"uid-a", "uid-b"}), 1)
    pods = [
        *apps(0.3, 0.3, 0.3, memory=GIB),
        (app("daemon", "hot", owner=("DaemonSet", "d", "d")), 0.6, GIB),
        (app("spared", "hot", annotations={"elasticd.io/do-not-disrupt": "true"}), 0.6, GIB),
        (app("foreign", "hot", scheduler="default-scheduler"), 0.6, GIB),
    ]
    found = pool(HOT, pods)
    past = looks(found, *[found.measured] * 3)
    decisions = planned((Filters(), LoadBalance(), Rebalance()), found, past, [budget], single=True)
    assert sorted(one.pod.name for one in decisions if one.verdict == "move") == ["a", "c"]


LINES = [
    ("lower = 0.0", "strategy[0].lower: must be <= -0.1, is 0.0"),
    ("lower = -1\ncalm = -2", "strategy[0].calm: must be >= lower = -1, is -2"),
    ("upper = -0.5", "strategy[0].upper: must be >= 0, is -0.5"),
    ("balance = 11", "strategy[0].balance: must be <= 10, is 11"),
    ("least = 2", "strategy[0].least: must be <= 1, is 2"),
    ("cpu = 0.7", "strategy[0].cpu: must add up to 1 with memory, image and data, is 0.7 of 1.2"),
    ("cpu = 0\nmemory = 0\nimage = 1", "strategy[0].cpu: must be > 0, or memory, is 0 as memory is"),
    ('by = "use"', 'strategy[0].marks: must be given for by = "use", is missing'),
    (
        'marks = [{ resource = "cpu", high = 0.8, calm = 0.7, low = 0.5 }]',
        'strategy[0].marks: must be left out for by = "score" (the default), is given',
    ),
    (
        'by = "use"\nmarks = [{ resource = "cpu", high = 0.7, calm = 0.8, low = 0.5 }]',
        "strategy[0].marks[0]: must be low <= calm <= high, is 0.5, 0.8, 0.7",
    ),
    (
        'by = "use"\nmarks = [{ resource = "cpu", high = 0.8, calm = 0.7, low = 0 }]',
        'strategy[0].marks[0].low: must be > 0 for by = "use", is 0',
    ),
    (
        'by = "deviation"\nmode = "paper"\nmarks = [{ resource = "cpu", high = 0.8, calm = 0.7, low = 0 }]',
        'strategy[0].by: must be "score" for mode = "paper", is "deviation"',
    ),
    (
        'by = "use"\nmarks = [' + 2 * '{ resource = "cpu", high = 0.8, calm = 0.7, low = 0.1 }, ' + "]",
        "strategy[0].marks: must name each resource once, is cpu, cpu",
    ),
    ("observations = 21", "strategy[0].observations: must be <= 20, is 21"),
    ("settle = -1", "strategy[0].settle: must be >= 0, is -1"),
    ("cooldown = 4000", "strategy[0].cooldown: must be <= 3600, is 4000"),
    ("avoid = -1", "strategy[0].avoid: must be >= 0, is -1"),
    ("weight = 2", "strategy[0].weight: no such key"),
]


@pytest.mark.parametrize(("table", "line"), LINES, ids=[line for _, line in LINES])
def test_a_wrong_option_is_named_in_one_line(table: str, line: str, tmp_path: Path) -> None:
    assert refused(tmp_path, plugin, f'type = "rebalance"\n{table}') == line


def test_the_same_is_wanted_of_equal_pools() -> None:
    found = [wanted(Rebalance(), pool(HOT, apps(*[0.2] * 12))) for _ in range(3)]
    plain = [[(move.pod, move.benefit, move.relief, move.use) for move in moves] for moves in found]
    assert all(one == other for one, other in pairwise(plain))
    assert plain[0]


def test_without_any_past_the_first_look_is_now() -> None:
    found = pool(HOT, apps(*[0.2] * 12))
    assert wanted(Rebalance(), found, PoolPast()) == []
    assert wanted(Rebalance(observations=1), found, PoolPast()) != []


YOUNG = {"c": 0.5, "d": 0.5}
"""By estimate the mean is 0.775, though 0.525 is measured."""


@pytest.mark.parametrize(
    ("strategy", "most"),
    [
        pytest.param(Rebalance(), 0.525 * exp(0.05), id="score"),
        pytest.param(Rebalance(by="deviation", marks=marks(0.2, 0.1, 0.0)), 0.625, id="deviation"),
    ],
)
def test_targets_stay_calm_by_the_marks_that_select_sources(strategy: Rebalance, most: float) -> None:
    """What young pods are thought to use counts for their own nodes, and lets no other take more."""
    found = pool(HOT, apps(*[0.3] * 12), young=YOUNG)
    decisions = planned((Filters(), strategy), found, looks(found, *[found.measured] * 3), per_look=100, single=True)
    targets = [one.target for one in decisions if one.verdict == "move"]
    assert set(targets) == {"b"}
    assert 0.4 + len(targets) * 0.3 / CPU <= most


def test_new_pods_avoid_overloaded_nodes_despite_young_pods_estimates() -> None:
    strategy = Rebalance(by="deviation", marks=marks(0.3, 0.1, 0.0))
    scores = strategy.score_nodes(pool(HOT, young=YOUNG).view)
    assert scores is not None
    assert scores.values.tolist() == [0.0, -100.0, -100.0, -100.0]
