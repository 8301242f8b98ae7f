"""The strategy rebalance in mode paper: the tables of the thesis, 5.4 and 5.5.4."""

from math import exp, log
from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.api import PoolPast, Strategy
from elasticd_plugins.filters import Filters
from elasticd_plugins.rebalance import Rebalance
from elasticd_plugins.rebalance.levels import Levels, excess, levels
from elasticd_plugins.static import Static
from tests.kit.plugins.levelling import CPU, MEMORY, Pool, Using, app, job, names, planned, pool, wanted
from tests.kit.pools import GIB, MIB, columns, node, pod

N1, N2, N3 = (job(name, "node1", memory=memory * MIB) for name, memory in (("n1", 512), ("n2", 512), ("n3", 256)))
F1 = job("f1", "node1", "OnFailure", memory=512 * MIB)
A1 = job("a1", "node1", "Always", memory=1024 * MIB)

T_6 = [
    (N3, 0.25, 256 * MIB),
    (A1, 0.9, 1024 * MIB),
    (F1, 0.4, 512 * MIB),
    (N2, 0.2, 512 * MIB),
    (N1, 0.3, 512 * MIB),
]
T_6_NODES = {"node1": (0.80, 0.70), "node2": (0.50, 0.475), "node3": (0.50, 0.475)}
"""The pool's means are 0.60 and 0.55."""


def paper(**options: Any) -> Rebalance:
    return Rebalance(mode="paper", **options)


def now(strategy: Rebalance, found: Pool) -> Levels:
    return levels(strategy, found.view, strategy.seen(found.view))


def after(cpu: float, memory: float, strategy: Rebalance) -> float:
    """The score of node1 when so much of it is released."""
    nodes = dict(T_6_NODES)
    before = nodes["node1"]
    released = (cpu / CPU, memory / MEMORY)
    nodes["node1"] = (before[0] - released[0], before[1] - released[1])
    nodes["node2"] = (nodes["node2"][0] + released[0], nodes["node2"][1] + released[1])
    return float(strategy.load(pool(nodes).view)[0])


@pytest.mark.parametrize(
    ("amount", "cpu", "memory", "gone", "score"),
    [
        pytest.param("threshold", 0.485, 869 * MIB, ["n1", "n2"], -0.811, id="T: until the score is the threshold's"),
        pytest.param("mean", 0.800, 1228.8 * MIB, ["n1", "n2", "n3", "f1"], 1.456, id="M: down to the means"),
    ],
)
def test_t_6_amount_to_release_and_who_goes(
    amount: Any, cpu: float, memory: float, gone: list[str], score: float
) -> None:
    strategy, found = paper(amount=amount), pool(T_6_NODES, T_6)
    before = now(strategy, found)
    assert -before.worst[0] == pytest.approx(-2.644, abs=5e-4)
    assert before.means == pytest.approx({"cpu": 0.60, "memory": 0.55})
    assert excess(strategy, before)["cpu"][0] == pytest.approx(cpu, abs=5e-4)
    assert excess(strategy, before)["memory"][0] == pytest.approx(memory, abs=0.6 * MIB)
    assert names(wanted(strategy, found)) == gone
    released = [(one.counted["memory"], used) for one, used, _ in T_6 if one.name in gone]
    left = after(sum(used for _, used in released), sum(requested for requested, _ in released), strategy)
    assert left == pytest.approx(score, abs=5e-4)


def test_t_6_factor() -> None:
    strategy, found = paper(), pool(T_6_NODES, T_6)
    score = float(strategy.load(found.view)[0])
    assert exp((score + 1) / 10) == pytest.approx(0.8484, abs=5e-5)
    assert score == pytest.approx(5 * log(0.6 / 0.8) + 5 * log(0.55 / 0.7))


def told(*strategies: Strategy, pods: list[Using] = T_6) -> list[tuple[str, str, str]]:
    """Each pod, what is decided about it, and where it is thought to go, or why it stays."""
    decisions = planned(strategies, pool(T_6_NODES, pods), PoolPast())
    return [(one.pod.name, one.verdict, one.target or one.refusal) for one in decisions]


@pytest.mark.parametrize("room", [True, False])
def test_pods_are_released_before_it_is_known_where_they_go(room: bool) -> None:
    there = [(pod(f"full-{name}", CPU, on=name), 0.1, 0.0) for name in ("node2", "node3") if not room]
    strategies = (Filters(), Static(mode="paper"), paper())
    assert told(*strategies, pods=[*T_6, *there]) == [("n1", "move", ""), ("n2", "move", "")]
    decisions = planned(strategies, pool(T_6_NODES, T_6), PoolPast())
    assert [one.action and (one.action.restore, one.action.target) for one in decisions] == [(True, "")] * 2


def test_an_unplaceable_pod_is_not_released() -> None:
    strange = replace(N1, needs=replace(N1.needs, unsupported=("pod affinity",)))
    pods = [(strange if one is N1 else one, cpu, memory) for one, cpu, memory in T_6]
    assert told(Filters(), paper(), pods=pods) == [("n1", "refuse", "Unsupported"), ("n2", "move", "")]


def test_released_onfailure_pods_queue_first_and_others_last() -> None:
    decisions = planned((Filters(), paper(amount="mean")), pool(T_6_NODES, T_6), PoolPast())
    assert [(one.pod.name, one.action is not None and one.action.first) for one in decisions] == [
        ("n1", False),
        ("n2", False),
        ("n3", False),
        ("f1", True),
    ]


@pytest.mark.parametrize(
    ("pods", "order"),
    [
        pytest.param(
            [(job("a", "node1", memory=GIB), 0.1, 0), (job("b", "node1", memory=2 * GIB), 0.1, 0)],
            ["b", "a"],
            id="by memory request",
        ),
        pytest.param(
            [(job("a", "node1", memory=GIB), 0.1, 0), (job("b", "node1", memory=GIB), 0.2, 0)],
            ["b", "a"],
            id="then by cpu use",
        ),
        pytest.param(
            [(job("b", "node1", memory=GIB), 0.1, 0), (job("a", "node1", memory=GIB), 0.1, 0)],
            ["a", "b"],
            id="then by name",
        ),
        pytest.param(
            [(job("f", "node1", "OnFailure", memory=9 * GIB), 1, 0), (job("n", "node1", memory=MIB), 0.1, 0)],
            ["n", "f"],
            id="Never before OnFailure",
        ),
        pytest.param([(job("a", "node1", "Always"), 1, 0)], [], id="Always never"),
        pytest.param([(app("a", "node1"), 1, 0)], [], id="nor a controller's"),
    ],
)
def test_queues_of_pods(pods: list[Using], order: list[str]) -> None:
    assert names(wanted(paper(), pool(T_6_NODES, pods))) == order


TABLE_6_12 = {"node1": (0.94, 1.01), "node2": (1.12, 1.07), "node3": (1.06, 0.84)}
"""cpuScore and memScore of each node."""


def table_6_12() -> Pool:
    """The nodes of the thesis with the use that makes those scores, with means of 0.3, by the sizes it used."""
    sizes = {"node1": (1, 2, "4"), "node2": (2, 4, "2"), "node3": (4, 8, "1")}
    records = [node(name, cpu, memory * GIB, labels={"size": part}) for name, (cpu, memory, part) in sizes.items()]
    parts = {name: (0.3 / cpu, 0.3 / memory) for name, (cpu, memory) in TABLE_6_12.items()}
    return pool(parts, records=records)


@pytest.mark.parametrize(
    ("options", "high", "low"),
    [
        pytest.param({}, [], ["node2"], id="defaults: -0.58 moves nobody"),
        pytest.param({"lower": -0.5}, ["node3"], ["node2"], id="lower threshold -0.5"),
        pytest.param({"lower": -0.2, "calm": -0.1}, ["node1", "node3"], ["node2"], id="lower threshold -0.2"),
        pytest.param({"upper": 0.95}, [], [], id="upper threshold above all"),
        pytest.param({"balance": 9.8}, [], ["node2"], id="balance score that it has"),
        pytest.param({"balance": 9.9}, [], [], id="balance score that it has not"),
    ],
)
def test_t_1_thresholds_preselect_the_queues(options: dict[str, Any], high: list[str], low: list[str]) -> None:
    found = table_6_12()
    one = now(paper(cpu_label="size", memory_label="size", **options), found)
    assert -one.worst == pytest.approx([-0.26, 0.90, -0.58], abs=0.02)
    assert [name for name, above in zip(found.view.names, one.above, strict=True) if above] == high
    assert [name for name, below in zip(found.view.names, one.low, strict=True) if below] == low


def test_queue_of_high_load_is_worked_off_worst_first() -> None:
    nodes = {"a": (0.3, 0.3), "b": (0.6, 0.6), "c": (0.9, 0.9), "d": (0.9, 0.9)}
    pods = [(job(f"{name}-{i}", name), 0.5, GIB) for name in "dbca" for i in range(2)]
    moves = wanted(paper(), pool(nodes, pods))
    assert list(dict.fromkeys(move.pod.node for move in moves)) == ["c", "d"]


def test_paper_mode_acts_at_once_on_the_latest_measurements() -> None:
    strategy = paper()
    assert strategy.looks_back() == 0
    found = pool(T_6_NODES, T_6)
    use = {"cpu": dict.fromkeys(T_6_NODES, 0.1), "memory": dict.fromkeys(T_6_NODES, GIB)}
    estimated = replace(found, view=columns(found.nodes, [one for one, _, _ in T_6], use, measured=found.measured))
    assert names(wanted(strategy, estimated, PoolPast())) == ["n1", "n2"]
    assert strategy.score_nodes(found.view) is None
