"""What the strategy rebalance says of each node: where it stands, by how much, and what is waited for."""

from math import nan
from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.api import Moved, NodeLevel, PoolPast
from elasticd_plugins.rebalance import Rebalance
from elasticd_plugins.rebalance.options import Marks
from tests.kit.plugins.levelling import Pool, app, looks, observed, pool
from tests.kit.pools import GIB, NOW, node

MARKS = (Marks("cpu", 0.15, 0.05, 0.0), Marks("memory", 0.15, 0.05, 0.0))
DEVIATION: dict[str, Any] = {"by": "deviation", "marks": MARKS}
USE: dict[str, Any] = {"by": "use", "marks": (Marks("cpu", 0.8, 0.7, 0.5), Marks("memory", 0.8, 0.7, 0.5))}

UNEVEN = {"a": (0.8, 0.4), "b": (0.52, 0.52), "c": (0.32, 0.4), "d": (0.36, 0.28), "e": (nan, 0.4)}
"""The mean is 0.5 of cpu, and 0.4 of memory."""


def said(found: Pool, past: PoolPast | None = None, **options: Any) -> dict[str, NodeLevel]:
    """What is said of each node, in order; after as many looks like this one as it takes."""
    strategy = Rebalance(**options)
    known = looks(found, *[found.measured] * strategy.observations) if past is None else past
    levels = strategy.explain_nodes(found.view, observed(found), known)
    assert len({one.node for one in levels}) == len(levels) == len(found.nodes)
    return {one.node: one for one in levels}


@pytest.mark.parametrize("closed", [{"unschedulable": True}, {"ready": False}], ids=["cordoned", "not ready"])
def test_a_node_that_is_closed_takes_no_pods(closed: dict[str, Any]) -> None:
    parts = {"a": (0.8, 0.8), "b": (0.3, 0.3), "c": (0.3, 0.3)}
    records = [replace(node(name, 4, 8 * GIB), **(closed if name == "b" else {})) for name in parts]
    found = said(pool(parts, records=records), **DEVIATION)
    assert (found["b"].state, found["c"].state) == ("level", "takes")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param(
            DEVIATION,
            {
                "a": ("gives", ("cpu",), "cpu 80%, the pool 50%: calm again at cpu 55%"),
                "b": ("level", (), "memory 52%, the pool 40%, too loaded above 55%"),
                "d": ("takes", ("cpu", "memory"), "memory 28%, the pool 40%, too loaded above 55%"),
                "c": ("takes", ("cpu",), "memory 40%, the pool 40%, too loaded above 55%"),
                "e": ("unknown", (), "what it uses of cpu is not known"),
            },
            id="deviation",
        ),
        pytest.param(
            USE,
            {
                "a": ("level", (), "cpu 80%, the pool 50%, too loaded above 80%"),
                "b": ("level", (), "cpu 52%, the pool 50%, too loaded above 80%"),
                "c": ("takes", ("cpu", "memory"), "memory 40%, the pool 40%, too loaded above 80%"),
                "d": ("takes", ("cpu", "memory"), "cpu 36%, the pool 50%, too loaded above 80%"),
                "e": ("unknown", (), "what it uses of cpu is not known"),
            },
            id="use",
        ),
        pytest.param(
            {},
            {
                "a": ("gives", ("cpu",), "score -2.35 (cpu 80%, memory 40%): calm again at -0.50"),
                "b": ("gives", ("cpu", "memory"), "score -1.51 (cpu 52%, memory 52%): calm again at -0.50"),
                "c": ("takes", (), "score +2.23 (cpu 32%, memory 40%), too loaded from -1.00 down"),
                "d": ("takes", (), "score +3.43 (cpu 36%, memory 28%), too loaded from -1.00 down"),
                "e": ("unknown", (), "what it uses of cpu is not known"),
            },
            id="score",
        ),
        pytest.param(
            {"mode": "paper"},
            {
                "a": ("gives", ("cpu", "memory"), "score -2.35 (cpu 80%, memory 40%)"),
                "b": ("gives", ("cpu", "memory"), "score -1.51 (cpu 52%, memory 52%)"),
                "c": ("takes", (), "score +2.23 (cpu 32%, memory 40%), too loaded from -1.00 down"),
                "d": ("takes", (), "score +3.43 (cpu 36%, memory 28%), too loaded from -1.00 down"),
                "e": ("unknown", (), "what it uses of cpu is not known"),
            },
            id="paper",
        ),
    ],
)
def test_every_node_is_listed_with_its_state_most_loaded_first(
    options: dict[str, Any], expected: dict[str, tuple[str, tuple[str, ...], str]]
) -> None:
    found = said(pool(UNEVEN), **options)
    told = {name: (one.state, one.resources, one.message) for name, one in found.items()}
    assert told == expected
    states = [one.state for one in found.values()]
    assert states == sorted(states, key=("gives", "high", "level", "takes", "unknown").index)


@pytest.mark.parametrize(
    ("times", "state", "ending"),
    [
        pytest.param(1, "high", "too loaded above 65%: in 1 of 3 looks", id="once"),
        pytest.param(2, "high", "too loaded above 65%: in 2 of 3 looks", id="twice"),
        pytest.param(3, "gives", "calm again at cpu 55%", id="often enough"),
    ],
)
def test_an_overloaded_node_says_for_how_many_looks(times: int, state: str, ending: str) -> None:
    found = pool(UNEVEN)
    calm = pool({**UNEVEN, "a": (0.5, 0.4)})
    one = said(found, looks(found, *[calm.measured] * 3, *[found.measured] * times), **DEVIATION)["a"]
    assert (one.state, one.resources) == (state, ("cpu",))
    assert one.message.endswith(ending)


def test_a_node_that_recently_released_pods_says_that_it_rests() -> None:
    found = pool(UNEVEN)
    past = looks(found, *[found.measured] * 3, moved=[Moved(NOW - 10, "x", "a")])
    one = said(found, past, settle=40, **DEVIATION)["a"]
    told = "cpu 80%, the pool 50%: calm again at cpu 55%; it gave up pods less than 40 s ago"
    assert (one.state, one.resources, one.message) == ("high", ("cpu",), told)


@pytest.mark.parametrize(
    ("use", "options", "told"),
    [
        pytest.param(
            0.58,
            DEVIATION,
            ("high", ("cpu",), "cpu 58%, the pool 45%: calm again at cpu 50%; it gave up pods less than 40 s ago"),
            id="deviation",
        ),
        pytest.param(
            0.50,
            {"lower": -2.0, "calm": -0.5},
            (
                "high",
                ("cpu",),
                "score -0.81 (cpu 50%, memory 40%): calm again at -0.50; it gave up pods less than 40 s ago",
            ),
            id="score",
        ),
    ],
)
def test_a_resting_node_that_is_not_calm_is_not_level(
    use: float, options: dict[str, Any], told: tuple[str, tuple[str, ...], str]
) -> None:
    was, now = pool(UNEVEN), pool({**UNEVEN, "a": (use, 0.4)})
    past = looks(now, *[was.measured] * 3, now.measured, moved=[Moved(NOW - 10, "x", "a")])
    one = said(now, past, settle=40, **options)["a"]
    assert (one.state, one.resources, one.message) == told
    rested = said(now, replace(past, moved=()), settle=40, **options)["a"]
    assert rested.state == "gives", "when it has rested it goes on"


def test_a_resting_node_overloaded_again_says_for_how_many_looks() -> None:
    calm, now = pool({**UNEVEN, "a": (0.5, 0.4)}), pool(UNEVEN)
    past = looks(now, *[calm.measured] * 3, now.measured, moved=[Moved(NOW - 10, "x", "a")])
    one = said(now, past, settle=40, **DEVIATION)["a"]
    ending = "too loaded above 65%: in 1 of 3 looks; it gave up pods less than 40 s ago"
    assert (one.state, one.message.rpartition(", ")[2]) == ("high", ending)


def test_a_node_that_rests_and_is_calm_is_level() -> None:
    was, now = pool(UNEVEN), pool({**UNEVEN, "a": (0.45, 0.4)})
    past = looks(now, *[was.measured] * 3, now.measured, moved=[Moved(NOW - 10, "x", "a")])
    assert said(now, past, settle=40, **DEVIATION)["a"].state == "level"


def test_a_node_between_the_marks_still_gives_after_overload() -> None:
    was, now = pool(UNEVEN), pool({**UNEVEN, "a": (0.66, 0.4), "b": (0.62, 0.52)})
    one = said(now, looks(now, *[was.measured] * 3, now.measured), **DEVIATION)["a"]
    assert (one.state, one.message) == ("gives", "cpu 66%, the pool 49%: calm again at cpu 54%")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param({"least": 0.3}, "score -5.11 (cpu 20%, memory 20%), too loaded from -1.00 down", id="by score"),
        pytest.param(
            {"by": "deviation", "marks": (Marks("cpu", 0.05, 0.05, 0.0), Marks("memory", 0.9, 0.9, 0.0)), "least": 0.3},
            "cpu 20%, the pool 12%, too loaded above 17%",
            id="by deviation",
        ),
    ],
)
def test_a_small_level_load_beyond_its_mark_says_why(options: dict[str, Any], words: str) -> None:
    one = said(pool({"a": (0.2, 0.2), "b": (0.08, 0.08), "c": (0.08, 0.08)}), **options)["a"]
    assert (one.state, one.message) == ("level", f"{words}, but it uses less than 30% of each")


def test_a_node_above_calm_takes_no_pods_despite_free_memory() -> None:
    found = said(pool({"a": (0.6, 0.1), "b": (0.45, 0.2), "c": (0.45, 0.2)}), **DEVIATION)
    assert {name: one.state for name, one in found.items()} == {"a": "level", "b": "takes", "c": "takes"}


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param({}, id="no nodes"),
        pytest.param({"a": (0.5, 0.5)}, id="one node"),
        pytest.param({"a": (0.0, 0.0), "b": (0.0, 0.0)}, id="idle"),
        pytest.param({"a": (nan, nan), "b": (nan, nan)}, id="nothing is known"),
    ],
)
@pytest.mark.parametrize(
    "options", [pytest.param({}, id="score"), pytest.param(DEVIATION, id="deviation"), pytest.param(USE, id="use")]
)
def test_a_pool_of_any_kind_can_be_told_of(nodes: dict[str, tuple[float, float]], options: dict[str, Any]) -> None:
    states = {one.state for one in said(pool(nodes), **options).values()}
    assert states <= {"level", "takes", "unknown"}


def test_a_node_without_a_resource_is_unknown() -> None:
    records = [node("a"), node("none", cpu=0.0)]
    found = said(pool({"a": (0.5, 0.5), "none": (0.0, 0.5)}, records=records), **DEVIATION)
    assert found["none"].state == "unknown"


def test_the_states_told_match_the_nodes_that_lose_pods() -> None:
    """Whoever is said to give has pods that should move, and nobody else."""
    pods = [(app(f"{name}{index}", name), 0.1, GIB / 8) for name in "abcd" for index in range(10)]
    for options in ({}, DEVIATION, USE):
        found = pool(UNEVEN, pods)
        strategy = Rebalance(**options)
        past = looks(found, *[found.measured] * strategy.observations)
        moved = {one.pod.node for one in strategy.rebalance_nodes(found.view, observed(found), past, lambda _: True)}
        assert moved == {name for name, one in said(found, past, **options).items() if one.state == "gives"}
