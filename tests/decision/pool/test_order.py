"""The order in which pending pods are asked about."""

from collections.abc import Mapping
from math import inf, nan
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from elasticd.decision.pool.order import RESUMED, in_order
from elasticd.model.policy import Order
from elasticd.model.workload import Pod
from tests.kit.pools import NOW, pod


def at(name: str, age: float = 0.0, **more: Any) -> Pod:
    """A pod that was created so many seconds ago."""
    return pod(name, created=NOW - age, **more)


def resumed(name: str, restart: str, evicted: float, **more: Any) -> Pod:
    """One that was evicted so many seconds ago, and recreated at once."""
    return at(name, evicted, restart=restart, annotations={RESUMED: str(NOW - evicted)}, **more)


def order(pods: list[Pod], by: Order = "priority", returned: Mapping[str, float] | None = None, **moved: float) -> str:
    return " ".join(one.name for one in in_order(pods, by, moved, returned or {}))


@pytest.mark.parametrize(
    ("pods", "by", "expected"),
    [
        pytest.param([at("new", 1), at("old", 9)], "priority", "old new", id="the oldest first"),
        pytest.param([at("b"), at("a")], "priority", "a b", id="of equal age by name"),
        pytest.param(
            [at("z", namespace="a"), at("a", namespace="b")], "priority", "z a", id="by namespace before the name"
        ),
        pytest.param([at("low", 9), at("high", 1, priority=5)], "priority", "high low", id="priority before age"),
        pytest.param([at("low", 9), at("high", 1, priority=5)], "fifo", "low high", id="age alone"),
        pytest.param(
            [at("old", 9), at("noted", 1, nominated="a")],
            "priority",
            "noted old",
            id="others were preempted for it already",
        ),
        pytest.param(
            [at("high", 1, priority=5), at("noted", 9, nominated="a")],
            "priority",
            "high noted",
            id="that goes behind priority",
        ),
        pytest.param(
            [at("old", 99), resumed("head", "OnFailure", 5)], "priority", "head old", id="OnFailure to the head"
        ),
        pytest.param(
            [resumed("first", "OnFailure", 9), resumed("last", "OnFailure", 5), resumed("mid", "OnFailure", 7)],
            "priority",
            "last mid first",
            id="each to the head, so that the last is the first",
        ),
        pytest.param(
            [at("mid", 7), at("old", 9), resumed("tail", "Never", 5)], "fifo", "old mid tail", id="Never to tail"
        ),
        pytest.param(
            [resumed("tail", "Never", 5), at("newer", 1)], "fifo", "tail newer", id="the tail of those who were there"
        ),
        pytest.param([resumed("it", "Always", 5), at("old", 9)], "fifo", "old it", id="Always is new again"),
        pytest.param(
            [at("high", 1, priority=5), resumed("head", "OnFailure", 5)], "priority", "high head", id="behind priority"
        ),
        pytest.param(
            [resumed("head", "OnFailure", 5), at("noted", 1, nominated="a")], "fifo", "noted head", id="but not first"
        ),
    ],
)
def test_pods_are_asked_about_in_this_order(pods: list[Pod], by: Order, expected: str) -> None:
    assert order(pods, by) == expected
    assert order(pods[::-1], by) == expected


@pytest.mark.parametrize(
    "noted", ["soon", "", "nan", "inf", "-5", str(NOW + 1e6), "1e999"], ids=lambda text: text or "empty"
)
def test_a_note_that_makes_no_sense_gains_nothing(noted: str) -> None:
    cheat = at("cheat", 1, restart="OnFailure", annotations={RESUMED: noted})
    assert order([cheat, at("old", 9)]) == "old cheat"


def test_replacement_of_an_evicted_pod_takes_its_place_in_order() -> None:
    pods = [at("old", 99), at("failure", 5, restart="OnFailure"), at("never", 5, restart="Never"), at("newer", 3)]
    assert order(pods, "fifo", None, **{"uid-failure": NOW - 6, "uid-never": NOW - 4}) == "failure old never newer"


@pytest.mark.parametrize(
    ("pods", "returned", "expected"),
    [
        pytest.param([at("high", 1, priority=5), at("old", 9)], {}, "old high", id="priorities do not count"),
        pytest.param([at("b", 9), at("a", 5), at("new", 1)], {"b": 2}, "a b new", id="behind those who were there"),
        pytest.param([at("b", 9), at("a", 5)], {"b": 2, "a": 2}, "b a", id="those who failed together as they were"),
        pytest.param([resumed("never", "Never", 5), at("old", 9)], {"old": 7}, "old never", id="Never to the tail"),
        pytest.param([resumed("head", "OnFailure", 5), at("old", 9)], {}, "head old", id="OnFailure to the head"),
        pytest.param([resumed("head", "OnFailure", 5), at("old", 9)], {"head": 2}, "old head", id="but only once"),
    ],
)
def test_paper_order_puts_pods_that_found_no_place_last(
    pods: list[Pod], returned: dict[str, float], expected: str
) -> None:
    failed = {f"uid-{name}": NOW - ago for name, ago in returned.items()}
    assert order(pods, "paper", failed) == order(pods[::-1], "paper", failed) == expected
    assert order(pods, "fifo", failed) == order(pods, "fifo")


@given(
    some.lists(
        some.tuples(
            some.integers(0, 3),
            some.sampled_from([NOW, NOW - 1, NOW - 2]),
            some.sampled_from(["Always", "OnFailure", "Never"]),
            some.sampled_from([None, str(NOW - 5), "nan", "x", str(inf), str(nan)]),
            some.booleans(),
        ),
        max_size=6,
    ),
    some.randoms(use_true_random=False),
    some.sampled_from(["priority", "fifo", "paper"]),
)
def test_the_order_does_not_depend_on_how_pods_are_listed(
    drawn: list[tuple[int, float, str, str | None, bool]], chance: Random, by: Order
) -> None:
    pods = [
        pod(
            f"p{index}",
            priority=priority,
            created=created,
            restart=restart,
            annotations={} if noted is None else {RESUMED: noted},
            nominated="a" if nominated else "",
        )
        for index, (priority, created, restart, noted, nominated) in enumerate(drawn)
    ]
    mixed = list(pods)
    chance.shuffle(mixed)
    assert order(mixed, by) == order(pods, by)
