"""Several policies that select the same pods: one is asked after the other, and a pod without a place is told why."""

import asyncio

import pytest

from elasticd.api import Expression, PodTerm
from elasticd.model.actions import Action, Answer
from elasticd.model.policy import PoolPolicy, PoolSelect
from elasticd_plugins.filters import Filters
from tests.kit.placers import Fits
from tests.kit.pools import NOW, node, pod
from tests.runtime.pools.test_placer import Bench, bench

NODES = [node("a", cpu=1, labels={"pool": "a"}), node("b", cpu=2, labels={"pool": "b"})]


def policies(it: Bench, *rows: tuple[str, str, str]) -> None:
    """Policies by name, with the pool of their nodes and their mode."""
    it.heard.policies = {name for name, *_ in rows}
    it.placer.apply(
        [
            PoolPolicy(name=name, pool=PoolSelect(nodes={"pool": on}), strategies=(Fits(),), mode=mode)  # type: ignore[arg-type]
            for name, on, mode in rows
        ]
    )


BOTH = (("first", "a", "act"), ("second", "b", "act"))


@pytest.mark.parametrize(
    ("cpu", "on"),
    [
        pytest.param(0.5, "a", id="the first has room"),
        pytest.param(1.5, "b", id="the second has room"),
        pytest.param(3.0, "", id="none has room"),
    ],
)
async def test_a_pod_goes_to_its_first_pool_with_room(cpu: float, on: str) -> None:
    async with bench(NODES, [pod("p", cpu=cpu)]) as it:
        policies(it, *BOTH)
        await it.placer.tick(NOW)
        await it.settle()
        assert it.board.pods["p"].node == on
        assert len(it.heard.decisions) == 1


async def test_a_pod_without_a_place_is_told_for_each_pool() -> None:
    async with bench(NODES, [pod("p", cpu=3.0)]) as it:
        policies(it, *BOTH)
        await it.placer.tick(NOW)
        (decision,) = it.heard.decisions
        assert (decision.policy, decision.verdict) == ("second", "wait")
        reason = "0/1 nodes are available: 1 Insufficient cpu"
        assert decision.message == f"by policy first: {reason}; by policy second: {reason}"
        assert it.heard.waiting == {"second": {"Unschedulable": 1}}


async def test_pods_of_one_tick_count_in_the_next_pool() -> None:
    async with bench(NODES, [pod(f"p{index}", cpu=1.0) for index in range(4)]) as it:
        policies(it, ("first", "a", "act"), ("second", "b", "act"))
        await it.placer.tick(NOW)
        await it.settle()
        assert sorted(each.node for each in it.board.pods.values()) == ["", "a", "b", "b"]


async def test_observing_policies_are_not_asked_after_acting_ones() -> None:
    async with bench(NODES, [pod("p", cpu=1.5)]) as it:
        policies(it, ("first", "a", "act"), ("second", "b", "observe"))
        await it.placer.tick(NOW)
        assert [decision.policy for decision in it.heard.decisions] == ["first"]


async def test_pods_of_another_pool_count_before_they_are_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [node("a", labels={"pool": "a", "zone": "z"}), node("b", labels={"pool": "b", "zone": "z"})]
    apart = PodTerm("zone", (Expression("app", "In", ("web",)),))
    async with bench(nodes, [pod(f"p{index}", labels={"app": "web"}, repels=(apart,)) for index in range(2)]) as it:
        gate = asyncio.Event()

        async def slowly(action: Action) -> Answer:
            await gate.wait()
            return Answer("done")

        monkeypatch.setattr(it.board, "act", slowly)
        selects = [PoolSelect(nodes={"pool": name}) for name in "ab"]
        it.heard.policies = {"a", "b"}
        it.placer.apply(
            [
                PoolPolicy(name=name, pool=select, strategies=(Filters(),), mode="act")
                for name, select in zip("ab", selects, strict=True)
            ]
        )
        await it.placer.tick(NOW)
        assert [(each.verdict, each.node) for each in it.heard.decisions] == [("bind", "a"), ("wait", "")]
        gate.set()
