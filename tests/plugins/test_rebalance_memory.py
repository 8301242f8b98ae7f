"""What rebalance takes from the past: nodes too loaded for long enough, and controllers that are left alone."""

from typing import Any

import pytest

from elasticd.api import Moved, PoolPast
from elasticd_plugins.filters import Filters
from elasticd_plugins.rebalance import Rebalance
from elasticd_plugins.rebalance.levels import levels
from elasticd_plugins.rebalance.memory import heat
from elasticd_plugins.rebalance.options import Marks
from tests.kit.plugins.levelling import By, Pool, Using, app, job, look, looks, names, needed, planned, pool, wanted
from tests.kit.pools import GIB, NOW, columns, node

MARKS = (Marks("cpu", 0.8, 0.7, 0.5),)
OTHERS = {"b": (0.4, 0.4), "c": (0.4, 0.4)}


def by_use(**options: Any) -> Rebalance:
    return Rebalance(by="use", marks=MARKS, **options)


def at(part: float) -> Pool:
    return pool({"hot": (part, 0.5), **OTHERS}, [(app(name, "hot"), 0.2, GIB) for name in "pqrs"])


def found_hot(strategy: Rebalance, *parts: float, moved: tuple[Moved, ...] = ()) -> bool:
    """Whether the node is too loaded when it was measured to use these parts, one look after the other."""
    pools = [at(part) for part in parts]
    past = looks(pools[-1], *[one.measured for one in pools], moved=moved)
    now = levels(strategy, pools[-1].view, strategy.seen(pools[-1].view))
    return bool(heat(strategy, pools[-1].view, NOW, past, now).hot[2])


NAN = float("nan")


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        pytest.param([0.9], False, id="once"),
        pytest.param([0.9, 0.9], False, id="twice"),
        pytest.param([0.9, 0.9, 0.9], True, id="three times"),
        pytest.param([0.9, 0.79, 0.9, 0.9], False, id="not in a row"),
        pytest.param([0.9, 0.9, 0.9, 0.75], True, id="not calm yet"),
        pytest.param([0.9, 0.9, 0.9, 0.75, 0.79, 0.71], True, id="still not calm"),
        pytest.param([0.9, 0.9, 0.9, 0.7], False, id="calm"),
        pytest.param([0.9, 0.9, 0.9, 0.65, 0.75], False, id="was calm, and is not too loaded again"),
        pytest.param([0.9, 0.9, 0.9, 0.65, 0.9, 0.9], False, id="was calm, and all starts over"),
        pytest.param([0.9, NAN, 0.9, 0.9], False, id="a look that failed starts over"),
        pytest.param([0.9, 0.9, 0.9, NAN], False, id="not known now"),
        pytest.param([0.9, 0.9, 0.9, NAN, 0.9], False, id="not known a look ago"),
        pytest.param([0.75] * 20, False, id="never too loaded"),
        pytest.param([0.9] * 3 + [0.75] * 17, True, id="as far back as it is remembered"),
    ],
)
def test_a_node_is_overloaded_from_three_looks_until_calm(parts: list[float], expected: bool) -> None:
    assert found_hot(by_use(), *parts) is expected


@pytest.mark.parametrize(("observations", "looked"), [(1, 1), (2, 2), (5, 5), (20, 20)])
def test_so_many_looks_in_a_row_as_asked_for(observations: int, looked: int) -> None:
    assert found_hot(by_use(observations=observations), *[0.9] * looked)
    assert looked == 1 or not found_hot(by_use(observations=observations), *[0.9] * (looked - 1))


def test_a_look_between_two_does_not_count_as_one() -> None:
    """Nodes changed just now: what was remembered last is 10 s old."""
    found = at(0.9)
    for count, expected in ((2, []), (3, ["p", "q"])):
        past = PoolPast(
            tuple(look(found.view, NOW - 10 - 30 * back, found.measured) for back in reversed(range(count)))
        )
        assert needed(wanted(by_use(), found, past))[:2] == expected
    calm = at(0.6)
    past = PoolPast(tuple(look(calm.view, NOW - 10 - 30 * back, at(0.9).measured) for back in reversed(range(3))))
    assert wanted(by_use(), calm, past) == []


def test_looks_at_other_nodes_are_put_in_order() -> None:
    """A node came and one went."""
    found = at(0.9)
    other: By = {series: {**by_node, "away": 3.9} for series, by_node in found.measured.items()}
    del other["cpu"]["b"], other["memory"]["b"]
    before = columns([node(name) for name in ("away", "c", "hot")])
    past = PoolPast(
        (look(before, NOW - 60, other), look(before, NOW - 30, other), look(found.view, NOW, found.measured))
    )
    assert {move.pod.node for move in wanted(by_use(), found, past)} == {"hot"}
    new = pool({"b": (0.9, 0.5), "c": (0.4, 0.4), "hot": (0.9, 0.5)}, [(app("p", "b"), 0.2, GIB)])
    assert wanted(by_use(), new, past) == []


def test_a_series_not_read_in_a_past_look_was_unknown() -> None:
    found = at(0.9)
    empty = look(found.view, NOW - 60, {})
    past = looks(found, found.measured, found.measured)
    assert wanted(by_use(), found, PoolPast((empty, *past.looks))) == []


@pytest.mark.parametrize(("ago", "expected"), [(89.0, False), (90.0, True)], ids=["settling", "settled"])
def test_a_node_that_released_pods_rests_until_it_is_measured(ago: float, expected: bool) -> None:
    assert found_hot(by_use(), 0.9, 0.9, 0.9, moved=(Moved(NOW - ago, "rs-x", "hot"),)) is expected
    assert found_hot(by_use(settle=0), 0.9, 0.9, 0.9, moved=(Moved(NOW - 1, "rs-x", "hot"),))
    assert found_hot(by_use(), 0.9, 0.9, 0.9, moved=(Moved(NOW - 1, "rs-x", "gone"),))


def of_one(count: int, elsewhere: int = 0) -> list[Using]:
    """So many pods of one controller on the node, and on another."""
    return [(app(f"p{i:02d}", "hot", of="web"), 0.1, GIB / 10) for i in range(count)] + [
        (app(f"q{i:02d}", "b", of="web"), 0.1, GIB / 10) for i in range(elsewhere)
    ]


def gone(ago: list[float], pods: list[Using], whose: str = "rs-web", node_: str = "x") -> list[str]:
    """Who is to leave when pods of a controller were moved so many seconds ago."""
    found = pool({"hot": (1.0, 0.5), **OTHERS}, pods)
    moved = [Moved(NOW - seconds, whose, node_) for seconds in ago]
    return names(wanted(by_use(), found, looks(found, *[found.measured] * 3, moved=moved)))


@pytest.mark.parametrize(
    ("ago", "goes"),
    [
        pytest.param([], True, id="never moved"),
        pytest.param([299], False, id="resting"),
        pytest.param([300], True, id="rested"),
        pytest.param([599, 1000], False, id="twice as long after the second"),
        pytest.param([600, 1000], True, id="and then again"),
        pytest.param([1199, 2000, 3000], False, id="four times as long after the third"),
        pytest.param([1200, 2000, 3000], True, id="in any order"),
    ],
)
def test_a_controller_rests_longer_each_time(ago: list[float], goes: bool) -> None:
    assert bool(gone(ago, of_one(5))) is goes
    assert bool(gone(ago, of_one(5), whose="rs-other"))


@pytest.mark.parametrize(
    ("count", "elsewhere", "ago", "expected"),
    [
        pytest.param(5, 0, [], 1, id="at least one"),
        pytest.param(10, 20, [], 3, id="a tenth of thirty"),
        pytest.param(10, 20, [10.0], 2, id="less those that went"),
        pytest.param(10, 20, [10.0, 20.0, 30.0], 0, id="until a tenth has"),
        pytest.param(10, 20, [10.0, 320.0, 330.0, 340.0], 2, id="the next tenth after a rest"),
    ],
)
def test_one_in_ten_goes_before_a_controller_rests(count: int, elsewhere: int, ago: list[float], expected: int) -> None:
    assert len(gone(ago, of_one(count, elsewhere))) == expected


def test_pods_without_a_controller_rest_by_their_name() -> None:
    pods = [(job("solo", "hot"), 0.5, GIB)]
    assert gone([10.0], pods, whose="shop/solo") == []
    assert gone([10.0], pods, whose="shop/other") == ["solo"]


def test_no_pod_goes_to_a_node_its_controller_left() -> None:
    found = pool({"hot": (0.9, 0.5), **OTHERS}, of_one(10, 20))
    past = looks(found, *[found.measured] * 3, moved=[Moved(NOW - 200, "rs-web", "b"), Moved(NOW - 200, "rs-web", "z")])
    (move, *_) = wanted(by_use(), found, past)
    assert move.not_to == {"b", "z"}
    decisions = planned((Filters(), by_use()), found, past, per_look=1)
    assert [one.target for one in decisions if one.verdict == "move"] == ["c"]
    later = looks(found, *[found.measured] * 3, moved=[Moved(NOW - 300, "rs-web", "b")])
    assert wanted(by_use(), found, later)[0].not_to == frozenset()


def test_without_a_cooldown_nobody_rests() -> None:
    found: Pool = pool({"hot": (1.0, 0.5), **OTHERS}, of_one(5))
    past = looks(found, *[found.measured] * 3, moved=[Moved(NOW - 1, "rs-web", "b")])
    assert wanted(by_use(cooldown=0), found, past)[0].not_to == frozenset()


def test_a_controllers_rest_does_not_overflow_after_many_moves() -> None:
    """It had thousands of pods, and has few."""
    found = pool({"hot": (1.0, 0.5), **OTHERS}, of_one(5))
    past = looks(found, *[found.measured] * 3, moved=[Moved(NOW - 3000 + one, "rs-web", "b") for one in range(1100)])
    assert wanted(by_use(), found, past) == []
