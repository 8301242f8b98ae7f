"""Pods whose evictions the API server does not carry out: ever longer pauses, while others have their turn."""

from itertools import pairwise

from elasticd.model.actions import Action, Answer, Evict
from tests.kit.pools import NOW, node
from tests.runtime.pools.test_mover import LEAVE, Bench, bench, running

BUSY = Answer("failed", 503, "the server is busy", "ServiceUnavailable")


def refuse(it: Bench, *names: str) -> None:
    """Evictions of these pods are answered 503."""

    def answer(action: Action) -> Answer | None:
        return BUSY if isinstance(action, Evict) and action.workload.name in names else None

    it.board.refuse = answer


def tried(it: Bench, name: str) -> list[float]:
    """When this pod was told to go."""
    return [at - NOW for at, pod in it.board.tried(Evict) if pod == name]


async def test_an_eviction_that_fails_is_tried_ever_later() -> None:
    async with bench([node("a", labels=LEAVE), node("b")], [running("p", "a"), running("q", "b")]) as it:
        refuse(it, "p")
        await it.until(1800)
        times = tried(it, "p")
        rests = [later - before for before, later in pairwise(times)]
        assert [round(rest) for rest in rests] == [30, 30, 60, 120, 240, 300, 300, 300, 300]
        assert {decision.refusal for decision in it.heard.decisions} == {"", "Failing"}
        refuse(it)
        await it.until(2200)
        assert len(tried(it, "p")) == len(times) + 1


async def test_pods_beside_a_failing_one_have_their_turn() -> None:
    pods = [running("p", "a"), running("q", "a"), running("r", "b")]
    async with bench([node("a", labels=LEAVE), node("b")], pods, per_look=1) as it:
        refuse(it, "p")
        await it.until(300)
        assert len(tried(it, "q")) == 1
