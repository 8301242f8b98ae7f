"""However surges begin, become ready and end, no more pods go within any window than the budgets let go."""

import asyncio

from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from elasticd.decision.disruption import eviction_of
from elasticd.model.actions import Action
from tests.cluster.test_disruption import DOWN, OUT, Door, evict, scale, surge
from tests.kit.pools import NOW

WITHIN = 60.0


def ends(name: str, *, lowers: bool) -> Action:
    """The last step of the surge of a pod."""
    out = replace(OUT, workload=replace(OUT.workload, name=name), uid=f"uid-{name}")
    return replace(DOWN, removes=out) if lowers else out


Play = list[tuple[float, str, int]]
"""Seconds to wait; then to begin a surge, to end one of those that wait, or to evict another pod; and which of those
that wait."""


async def times_of_departure(steps: Play, most: int, *, lowers: bool) -> list[float]:
    """When pods went. `lowers`: surges end by a lowered count."""
    door = Door(within=WITHIN, total=most)
    waiting, times = list[str](), list[float]()
    for number, (seconds, kind, index) in enumerate(steps):
        await door.wait(seconds)
        if kind == "begin" and (await door.disruption.act(surge(name=f"p{number}"))).result == "done":
            waiting.append(f"p{number}")
        elif kind == "evict" and (await door.disruption.act(evict(f"x{number}", owner=f"o{number}"))).result == "done":
            times.append(door.clock.now())
        elif kind == "end" and waiting:
            name = waiting[index % len(waiting)]
            if (await door.disruption.act(ends(name, lowers=lowers))).result == "done":
                waiting.remove(name)
                times.append(door.clock.now())
    return times


STEP = some.tuples(
    some.sampled_from([0.0, 0.2, 10.0, 60.0]),
    some.sampled_from(["begin", "begin", "end", "end", "evict"]),
    some.integers(0, 7),
)


@given(steps=some.lists(STEP, min_size=20, max_size=60), most=some.integers(1, 2), lowers=some.booleans())
def test_no_more_pods_go_within_any_window_than_may(steps: Play, most: int, *, lowers: bool) -> None:
    times = asyncio.run(times_of_departure(steps, most, lowers=lowers))
    assert all(sum(first <= time < first + WITHIN for time in times) <= most for first in times)


async def test_surges_that_begin_keep_no_other_from_its_end() -> None:
    door = Door(within=WITHIN, total=2)
    for name in ("p0", "p1"):
        await door.disruption.act(surge(name=name))
    await door.wait(61)
    for name in ("p2", "p3"):
        assert (await door.disruption.act(surge(name=name))).result == "done"
    answers = [await door.disruption.act(ends(name, lowers=True)) for name in ("p0", "p1", "p2")]
    assert [answer.reason for answer in answers] == ["", "", "Disturbed"]


async def test_a_count_lowered_for_no_certain_pod_is_no_disruption() -> None:
    door = Door(total=1)
    for _ in range(3):
        assert (await door.disruption.act(scale(4, 3))).result == "done"
    assert eviction_of(scale(4, 3)) is None
    assert door.clock.now() == NOW
    assert (await door.disruption.act(evict())).result == "done"
