"""What preemption says would have to be otherwise is true: done, and nothing else, others are preempted."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from msgspec.structs import replace

from elasticd.api import DisruptionBudget, Pod, Port, Spared, Victims
from elasticd_plugins.preemption import Preemption
from tests.kit.pools import GIB, NOW, node, pod
from tests.kit.preemption import ASKS, KINDS, asked, decode, running

pytestmark = pytest.mark.slow

World = tuple[Preemption, list[Pod], tuple[DisruptionBudget, ...]]

OF = " of strategy preemption "
BUDGET, MORE = "PodDisruptionBudget shop/", " lets more of its pods go"


def mended(mend: str, world: World) -> World:
    """The world in which that is so, and nothing else is different."""
    strategy, there, budgets = world
    if OF in mend:
        option, said = mend.split(OF)
        strategy = replace(strategy, **_option(option, said, strategy.spare_namespaces))
    elif mend.startswith(BUDGET):
        name = mend.removeprefix(BUDGET).removesuffix(MORE)
        budgets = tuple(replace(one, allowed=99) if one.name == name else one for one in budgets)
    elif mend == "lesser pods have run for 60 s":
        there = [replace(one, started=NOW - 60) for one in there]
    else:
        assert mend == "lesser pods have no annotation elasticd.io/do-not-disrupt"
        there = [replace(one, annotations={}) for one in there]
    return strategy, there, budgets


def _option(name: str, said: str, spare_namespaces: tuple[str, ...]) -> dict[str, Any]:
    """An option as it would have to be."""
    last = said.rsplit(maxsplit=1)[-1]
    values: dict[str, Any] = {
        "is true": True,
        f"does not have {last}": tuple({*spare_namespaces} - {last}),
        "has none of theirs": {},
    }
    if said in values:
        return {name: values[said]}
    if name == "spare_priority":
        return {name: int(said.removeprefix("is more than ")) + 1}
    assert name == "most_victims"
    return {name: int(said.removeprefix("is ").removesuffix(" or more"))}


@some.composite
def crowds(draw: some.DrawFn) -> tuple[Pod, World]:
    """A node full of pods that this and that keeps, and one that wants their room."""
    kept: list[dict[str, Any]] = [
        *({}, {}, {"started": NOW - 10}, {"started": NOW - 10}, {"local": True}, {"scheduler": "another"}),
        *({"namespace": "kube-system"}, {"labels": {"keep": "yes"}}, ASKS, {"static": True}),
    ]
    there = [
        running(
            f"x{index}",
            draw(KINDS),
            draw(some.sampled_from([0.0, 0.1, 0.25, 0.5])),
            draw(some.sampled_from([0.0, 0.5, 1.0])) * GIB,
            priority=draw(some.sampled_from([-5, 0, 3])),
            ports=draw(some.sampled_from([(), (), (), (Port(80),)])),
            **{**draw(some.sampled_from(kept)), **draw(some.sampled_from([{}, {}, *kept]))},
        )
        for index in range(draw(some.integers(1, 7)))
    ]
    uids = some.sampled_from([one.uid for one in there])
    groups = draw(some.lists(some.tuples(some.frozensets(uids, min_size=1), some.integers(-1, 2)), max_size=2))
    budgets = tuple(DisruptionBudget("shop", f"b{index}", *group) for index, group in enumerate(groups))
    strategy = decode(
        mode=draw(some.sampled_from(["product", "product", "paper"])),
        spare_labels=draw(some.sampled_from([{}, {"keep": "yes"}])),
        spare_priority=draw(some.sampled_from([-5, 0, 2_000_000_000])),
        most_victims=draw(some.sampled_from([1, 2, 10])),
    )
    waiting = pod(
        "p",
        draw(some.sampled_from([0.1, 0.5, 1.0])),
        draw(some.sampled_from([0.5, 2.0])) * GIB,
        restart="Always",
        priority=draw(some.sampled_from([0, 7])),
        ports=draw(some.sampled_from([(), (Port(80),)])),
    )
    return waiting, (strategy, there, budgets)


@given(crowds(), some.sampled_from([{}, {"uid-p": 1}]))
@settings(max_examples=500)
def test_the_suggested_mend_alone_makes_others_give_way(crowd: tuple[Pod, World], gave_way: dict[str, int]) -> None:
    waiting, world = crowd

    def heard(world: World) -> Victims | Spared | None:
        strategy, there, budgets = world
        has = node("a", cpu=1, memory=2 * GIB)
        return asked(strategy, waiting, there, has, budgets=budgets, gave_way=gave_way)

    said = heard(world)
    for alternative in said.mends if isinstance(said, Spared) else ():
        then = world
        for mend in alternative.split(" and "):
            then = mended(mend, then)
        found = heard(then)
        assert isinstance(found, Victims), (said, found)
        assert found.pods
