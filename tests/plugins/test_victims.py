"""Which pods go first: by their own load, their node's, their age and their pool."""

from collections.abc import Mapping, Sequence
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from elasticd.api import Node, Observation, Pod, Quality, Room, Series
from elasticd.base.errors import ConfigError
from elasticd.config import load_policy
from elasticd.testing import check_strategy, registry
from elasticd_plugins import hpa, spread, victims
from elasticd_plugins.victims import Victims
from tests.kit.plugins.builders import NOW, Wants, decode, judge, pod, refusal, seen, series, use

ALL = {"load": 1, "node": 1, "age": 1, "pool": 1, "labels": {"pool": "spot"}}


def only(term: str, **options: Any) -> Victims:
    """One that looks at nothing else."""
    return decode(Victims, **{"load": 0, "node": 0, term: 1, **options})


def room(name: str, cpu: float = 1.0, memory: float = 10.0, **labels: str) -> Room:
    """A node of 2 cores and 10 bytes, of which so much is left."""
    return Room(Node(name, name, True, labels=labels, allocatable={"cpu": 2.0, "memory": 10.0}), _free(cpu, memory))


def _free(cpu: float, memory: float) -> dict[str, float]:
    return {"cpu": cpu, "memory": memory, "pods": 9.0}


def shown(pods: Sequence[Pod], *rooms: Room, told: Sequence[Series] = ()) -> Observation:
    return replace(seen(len(pods), pods, *told), rooms=rooms)


def ranks(strategy: Victims, observation: Observation) -> dict[str, float]:
    return {name: round(rank.value, 9) for name, rank in strategy.rank_pods(observation).items()}


def cpu(*values: float | None, **more: Any) -> list[Series]:
    return [series(use(*values), **more)]


THREE = [pod("p0"), pod("p1"), pod("p2")]
PLACED = [pod("p0", node="full"), pod("p1", node="half"), pod("p2", node="empty")]
ROOMS = (room("full", 0.0), room("half", 1.0, pool="spot"), room("empty", 2.0))
AGED = [pod("p0", started=NOW - 400), pod("p1", started=NOW - 100), pod("p2", started=NOW)]


@pytest.mark.parametrize(
    ("strategy", "observation", "expected"),
    [
        pytest.param(
            only("load"), shown(THREE, told=cpu(0.0, 0.4, 1.0)), {"p0": -1, "p1": -0.6, "p2": 0}, id="idle first"
        ),
        pytest.param(
            only("load"), shown(THREE, told=cpu(3.0, 1.5, 0.5)), {"p0": 0, "p1": 0, "p2": -0.5}, id="above requests"
        ),
        pytest.param(
            only("load"),
            shown([pod("p0", cpu=4.0), pod("p1")], told=cpu(1.0, 0.5)),
            {"p0": -0.75, "p1": -0.5},
            id="relative to what each requests",
        ),
        pytest.param(
            only("load"),
            shown([pod("p0", cpu=None), pod("p1")], told=cpu(4.0, 1.0)),
            {"p0": 0, "p1": -0.75},
            id="not all request it: relative to the busiest",
        ),
        pytest.param(
            only("load", series="queue"),
            shown(THREE, told=cpu(8, 2, 0, name="queue")),
            {"p0": 0, "p1": -0.75, "p2": -1},
            id="a series that nobody requests",
        ),
        pytest.param(
            only("load", series="queue"),
            shown(THREE, told=cpu(0, 0, 0, name="queue")),
            {"p0": -1, "p1": -1, "p2": -1},
            id="all idle",
        ),
        pytest.param(
            only("load"),
            shown(THREE, told=cpu(0.5, None, 0.9)),
            {"p0": -0.5, "p1": 0, "p2": -0.1},
            id="one without a sample counts as busy",
        ),
        pytest.param(only("load"), shown(THREE), {"p0": 0, "p1": 0, "p2": 0}, id="no series"),
        pytest.param(
            only("load"), shown(THREE, told=cpu(0.0, 0.5, 1.0, quality=Quality.STALE)), {"p0": 0, "p1": 0, "p2": 0},
            id="a stale series",
        ),
        pytest.param(only("node"), shown(PLACED, *ROOMS), {"p0": -1, "p1": -0.5, "p2": 0}, id="the fullest node first"),
        pytest.param(
            only("node", nodes="emptiest"), shown(PLACED, *ROOMS), {"p0": 0, "p1": -0.5, "p2": -1},
            id="the emptiest node first",
        ),
        pytest.param(
            only("node"),
            shown(PLACED, room("full", 2.0, memory=1.0), room("half", -1.0)),
            {"p0": -0.9, "p1": -1, "p2": 0},
            id="the scarcest resource counts, an overcommitted node is full, an unknown one stays",
        ),
        pytest.param(
            only("node", nodes="emptiest"), shown(PLACED), {"p0": 0, "p1": 0, "p2": 0}, id="no nodes"
        ),
        pytest.param(
            only("node"),
            shown(PLACED[:1], Room(Node("full", "u", True), {"cpu": 1.0})),
            {"p0": 0},
            id="a node that does not say what it has",
        ),
        pytest.param(
            only("node", node_series=["cpu", "memory"]),
            replace(shown(PLACED, *ROOMS), nodes={"cpu": {"full": 0.5, "half": 1.5}, "memory": {"half": 2.0}}),
            {"p0": -0.25, "p1": -0.75, "p2": 0},
            id="what nodes use: of an unknown one nobody goes",
        ),
        pytest.param(
            only("node", node_series=["cpu"], nodes="emptiest"),
            replace(shown(PLACED, *ROOMS), nodes={"cpu": {"full": 0.5, "half": 9.0}}),
            {"p0": -0.75, "p1": 0, "p2": 0},
            id="what nodes use, emptiest first",
        ),
        pytest.param(only("age"), shown(AGED), {"p0": 0, "p1": -0.75, "p2": -1}, id="the youngest first"),
        pytest.param(only("age", ages="oldest"), shown(AGED), {"p0": -1, "p1": -0.25, "p2": 0}, id="the oldest first"),
        pytest.param(
            only("age"), shown([*AGED[:2], pod("p2", started=None)]), {"p0": 0, "p1": -0.75, "p2": 0}, id="not begun"
        ),
        pytest.param(
            only("age"), shown([pod("p0", started=NOW + 5)]), {"p0": -1}, id="one that begins in the future is young"
        ),
        pytest.param(
            only("pool", labels={"pool": "spot"}), shown(PLACED, *ROOMS), {"p0": 0, "p1": -1, "p2": 0}, id="a pool"
        ),
        pytest.param(
            decode(Victims, load=3, node=1), shown(PLACED, *ROOMS, told=cpu(0.5, 0.0, 1.0)),
            {"p0": -0.625, "p1": -0.875, "p2": 0}, id="the weighted mean: (3 x 0.5 + 1) / 4",
        ),
        pytest.param(only("load"), shown([pod("p0")], told=cpu(0.2)), {"p0": -0.8}, id="one pod"),
        pytest.param(decode(Victims, **ALL), shown([]), {}, id="no pods"),
        pytest.param(
            only("load"),
            shown([pod("p0", deleted=True), pod("p1", phase="Failed"), pod("p2")], told=cpu(0, 0, 0)),
            {"p2": -1},
            id="those that go or are over are no victims",
        ),
    ],
)  # fmt: skip
def test_the_ranks(strategy: Victims, observation: Observation, expected: Mapping[str, float]) -> None:
    assert ranks(strategy, observation) == expected


def test_every_mark_shows_the_terms() -> None:
    observation = shown([*PLACED[:2], pod("p2", node="gone", started=None)], *ROOMS, told=cpu(0.25, 0.5))
    decision = judge(Wants(replicas=1), decode(Victims, **ALL), seen=observation)
    assert [mark.reason for mark in decision.marks] == [
        "goes as number 1: victims -0.5 (load 0.50, node 0.50, age 0.00, pool 1.00)",
        "goes as number 2: victims -0.4375 (load 0.75, node 1.00, age 0.00, pool 0.00)",
    ]
    (last,) = [rank for name, rank in decode(Victims, **ALL).rank_pods(observation).items() if name == "p2"]
    assert last.why == "load unknown, node unknown, age unknown, pool unknown"


def test_an_unknown_series_does_not_hold_a_known_scale_in() -> None:
    decision = judge(Wants(replicas=2), decode(Victims), seen=shown(PLACED, *ROOMS))
    assert (decision.replicas, [mark.pod for mark in decision.marks]) == (2, ["p0"])


LOADS = some.lists(some.one_of(some.none(), some.floats(0, 5)), min_size=1, max_size=6)


@given(LOADS, some.lists(some.sampled_from(["full", "half", "empty", "gone", ""]), min_size=6, max_size=6))
def test_ranks_lie_in_minus_one_to_zero_despite_unknown_load(loads: list[float | None], nodes: list[str]) -> None:
    pods = [pod(f"p{index}", node=nodes[index]) for index in range(len(loads))]
    strategy = decode(Victims, **ALL)
    found = ranks(strategy, shown(pods, *ROOMS, told=cpu(*loads)))
    assert all(-1 <= value <= 0 for value in found.values())
    unheard = ranks(strategy, shown(pods, *ROOMS))
    assert all(found[name] <= unheard[name] for name in found)
    assert all(found[f"p{index}"] == unheard[f"p{index}"] for index, load in enumerate(loads) if load is None)


@given(some.permutations(range(3)))
def test_the_order_in_which_pods_are_seen_changes_nothing(order: list[int]) -> None:
    strategy, told = decode(Victims, **ALL), cpu(0.1, 0.2, 0.3)
    mixed = shown([PLACED[index] for index in order], *ROOMS, told=told)
    assert ranks(strategy, mixed) == ranks(strategy, shown(PLACED, *ROOMS, told=told))


HEAD = 'type = "victims"\n'


@pytest.mark.parametrize(
    ("table", "line"),
    [
        *[
            pytest.param(f"{term} = {value}", f".{term}: must be {bound}, is {value}", id=f"{term} = {value}")
            for term in ("load", "node", "age", "pool")
            for value, bound in ((-1, ">= 0"), (1001, "<= 1000"))
        ],
        pytest.param("load = 0\nnode = 0", ".load: must be > 0 unless node, age or pool is, is 0", id="ranks nothing"),
        pytest.param("pool = 1", ".labels: must be given where pool > 0, is empty", id="which pool"),
        pytest.param(
            'labels = { a = "b" }', ".pool: must be > 0 where labels are given, is 0", id="labels for nothing"
        ),
        pytest.param(
            'node = 0\nnode_series = ["cpu"]',
            ".node: must be > 0 where node_series are given, is 0",
            id="series for nothing",
        ),
        pytest.param(
            'node_series = ["disk"]', '.node_series[0]: must be one of cpu, memory, is "disk"', id="node_series"
        ),
        pytest.param('series = ""', '.series: must not be empty, is ""', id="no series"),
        pytest.param('nodes = "x"', '.nodes: must be one of emptiest, fullest, is "x"', id="nodes"),
        pytest.param('ages = "x"', '.ages: must be one of oldest, youngest, is "x"', id="ages"),
    ],
)
def test_every_option_is_refused_in_one_line(tmp_path: Path, table: str, line: str) -> None:
    assert refusal(tmp_path, victims, HEAD + table) == f"strategy[0]{line}"


@pytest.mark.parametrize("value", [nan, inf])
def test_a_weight_is_a_number(tmp_path: Path, value: float) -> None:
    assert "load" in refusal(tmp_path, victims, f"{HEAD}load = {value}")


SPREAD = 'type = "spread"\nsubsets = [{ name = "a", labels = { pool = "a" }, max = 2 }, { name = "b" }]'


@pytest.mark.parametrize(("plugin", "table"), [(victims, HEAD), (spread, SPREAD)], ids=["victims", "spread"])
@pytest.mark.parametrize(
    "whom",
    [
        pytest.param('workload = { namespace = "shop", name = "db", kind = "StatefulSet" }', id="by name"),
        pytest.param('select = { namespaces = ["*"], kind = "StatefulSet" }', id="selected"),
    ],
)
def test_kinds_that_honour_no_cost_are_refused_in_one_line(tmp_path: Path, plugin: Any, table: str, whom: str) -> None:
    path = tmp_path / "db.toml"
    path.write_text(f'{whom}\nreplicas = {{ max = 9 }}\n[[strategy]]\ntype = "hpa"\n[[strategy]]\n{table}\n')
    with pytest.raises(ConfigError) as caught:
        load_policy(path, registry(plugin, hpa))
    assert str(caught.value) == (
        f"{path}: strategy[1].type: must be for one of CloneSet, Deployment, ReplicaSet, "
        "is for StatefulSet, whose controller heeds no deletion cost"
    )


@pytest.mark.parametrize("strategy", [decode(Victims), decode(Victims, **ALL)], ids=["as it is", "all terms"])
def test_the_strategy_does_what_strategies_may(strategy: Victims) -> None:
    assert check_strategy(strategy) == []
