"""A dry run of moving: pods are seen where they would have gone, and stay where they are; what is planned once is not
planned again, and no room is given away twice."""

from collections import Counter
from typing import Any

import pytest

from elasticd.cluster.dry_run import DryRunSnapshot, Pretence
from elasticd.model.actions import Evict
from elasticd.model.placement import DisruptionBudget
from elasticd_plugins.drain import Drain
from elasticd_plugins.filters import Filters
from tests.cluster.simulated.test_kit import START
from tests.cluster.simulated.test_placing import bare
from tests.kit.clusters import Shown
from tests.kit.pool_scenes import apps, scene, table
from tests.kit.pools import node, pod

NAMES = [f"web-{number:06d}" for number in range(1, 9)]


async def test_moved_pods_are_seen_on_the_new_node_but_stay() -> None:
    stand = dict.fromkeys(NAMES[:6], "a")
    async with scene(apps(6, 0.5), bound=stand, nodes=[table(name) for name in "abc"]) as it:
        seen = await it.on(90)
        assert {name: len(pods) for name, pods in seen.items()} == {"a": 2, "b": 2, "c": 2}
        assert await it.real.on(90) == {"a": NAMES[:6]}


async def test_moved_pod_is_not_planned_again_and_level_pools_rest() -> None:
    """What nodes are measured to use does not change in a dry run; what is planned is deducted from it all the same."""
    stand = dict.fromkeys(NAMES, "a")
    async with scene(apps(8, 0.4), bound=stand, nodes=[table(name) for name in "abcd"]) as it:
        await it.until(300)
        done = it.heard.done()
        assert max(Counter(name for name, _, _ in done).values()) == 1
        assert 5 <= len(done) <= 6
        assert max(at - START for at in (one.at for one in it.heard.decisions if one.verdict == "move")) < 120
        found = await it.report()
        assert {one.node: round(one.used["cpu"], 1) for one in found.nodes} == {"a": 0.8, "b": 0.8, "c": 0.8, "d": 0.8}
        assert found.moving is not None
        assert found.moving.summary.startswith(
            "nothing moves, the nodes are level: most loaded is a: cpu 20%, the pool"
        )
        assert await it.mover.underway() == [], "nothing was sent, so nothing is in flight"


def one_after_the_other(*pods: dict[str, Any], **more: Any) -> Any:
    """Two nodes are cordoned, ten seconds apart, each with one pod; the third has room for one."""
    nodes = [
        table("a", changes=[{"at": 22, "unschedulable": True}]),
        table("b", cpu="500m"),
        table("c", cpu="500m", changes=[{"at": 32, "unschedulable": True}]),
    ]
    return scene(*pods, nodes=nodes, strategies=(Filters(), Drain()), **more)


TWO = {NAMES[0]: "a", NAMES[1]: "c"}
JOBS = {"job-1": "a", "job-2": "c"}


@pytest.mark.parametrize("dry", [pytest.param(True, id="dry run"), pytest.param(False, id="for real")])
@pytest.mark.parametrize(
    ("pods", "bound"),
    [
        pytest.param(apps(2, 0.1), TWO, id="of a controller"),
        pytest.param(bare("job", replicas=2, start_seconds=0), JOBS, id="bare"),
        pytest.param(bare("job", replicas=2, start_seconds=0, stop_seconds=60), JOBS, id="slow to end"),
    ],
)
async def test_two_looks_never_send_two_pods_to_one_room(
    pods: dict[str, Any], bound: dict[str, str], dry: bool
) -> None:
    async with one_after_the_other(pods, bound=bound, dry=dry) as it:
        await it.until(85 if dry or "stop_seconds" in pods else 45)
        first, second = bound
        assert it.heard.done() == [(first, "a", "b")]
        assert [(one.pod.name, one.refusal) for one in it.heard.decisions if one.verdict == "refuse"] == [
            (second, "NoOtherNode")
        ]


async def test_room_is_kept_as_long_as_the_replacement_waits() -> None:
    """Nobody places the controller's new pod here."""
    async with one_after_the_other(apps(2, 0.1), bound=TWO, dry=False) as it:
        await it.until(180)
        assert it.heard.done() == [(NAMES[0], "a", "b")]


async def test_promised_room_is_not_a_pod_that_can_be_moved() -> None:
    """The node where the first was thought to go is cordoned before anything came there."""
    nodes = [
        table("a", changes=[{"at": 22, "unschedulable": True}]),
        table("b", changes=[{"at": 32, "unschedulable": True}]),
        table("c", cpu="100m"),
    ]
    async with scene(
        apps(1, 0.1), bound={NAMES[0]: "a"}, nodes=nodes, strategies=(Filters(), Drain()), dry=False
    ) as it:
        await it.until(55)
        assert [(one.pod.name, one.target) for one in it.heard.decisions] == [(NAMES[0], "b")]


async def test_what_has_come_is_not_counted_twice() -> None:
    """The room is of two: one is taken by what came in place of the first, and one is left for the second."""
    nodes = [
        table("a", changes=[{"at": 22, "unschedulable": True}]),
        table("b", cpu="900m"),
        table("c", cpu="500m", changes=[{"at": 36, "unschedulable": True}]),
    ]
    async with scene(apps(2, 0.1), bound=TWO, nodes=nodes, strategies=(Filters(), Drain()), dry=False) as it:
        await it.until(35)
        assert (await it.real.bind(35, "web-000003", "b")).result == "done"
        await it.until(45)
        assert it.heard.done() == [(NAMES[0], "a", "b"), (NAMES[1], "c", "b")]


async def test_pod_that_is_slow_to_end_counts_as_in_flight() -> None:
    async with one_after_the_other(apps(2, 0.1, stop_seconds=60), bound=TWO, dry=False) as it:
        await it.until(40)
        (found,) = await it.mover.underway()
        assert (found.pod.name, found.how, found.step, found.node) == (NAMES[0], "evicted", "leaving", "a")
        assert 22 <= found.since - START < 33
        await it.clock.sleep_until(START + 95)
        assert await it.mover.underway() == []


async def test_dry_run_evicts_in_pretence_instead_of_a_surge_move() -> None:
    async with one_after_the_other(apps(2, 0.1), bound=TWO, moves={"surge": True}) as it:
        await it.until(60)
        assert it.heard.done() == [(NAMES[0], "a", "b")]
        assert {one.action for one in it.heard.outcomes} == {"evict"}
        assert await it.mover.underway() == []
        snapshot = await it.placer.look(it.clock.now())
        assert [one.annotations for one in snapshot.workloads()] in ([], [{}])


async def test_the_report_shows_the_moves_of_a_dry_run() -> None:
    stand = dict.fromkeys(NAMES[:6], "a")
    async with scene(apps(6, 0.5), bound=stand, nodes=[table(name) for name in "abc"]) as it:
        await it.until(25)
        found = await it.report()
        assert found.moving is not None
        assert found.moving.summary == "1 pod moves"
        assert {one.outcome.message for one in found.moving.moves if one.outcome} == {"dry run: not sent"}


def pretended(*actions: Evict, pods: dict[str, str], allowed: int | None = None) -> DryRunSnapshot:
    """A pool of nodes a, b and c with these pods, by name and node, after these evictions."""

    class Real(Shown):
        def on_nodes(self) -> dict[str, list[Any]]:
            found: dict[str, list[Any]] = {}
            for name, on in pods.items():
                found.setdefault(on, []).append(pod(name, on=on))
            return found

        def budgets(self) -> tuple[DisruptionBudget, ...]:
            names = frozenset(f"uid-{name}" for name in pods)
            return () if allowed is None else (DisruptionBudget("shop", "all", names, allowed),)

    real = Real(nodes=tuple(node(name) for name in "abc"))
    real.confirmed = START
    seen = DryRunSnapshot(real, {}, Pretence(), {})
    for action in actions:
        found = seen.after(action)
        assert isinstance(found, DryRunSnapshot), found
        seen = found
    return seen


def goes(name: str, on: str, target: str = "") -> Evict:
    one = pod(name, on=on)
    return Evict(one.ref, one.uid, on, target=target)


@pytest.mark.parametrize(
    ("actions", "seen", "strays"),
    [
        pytest.param([goes("p", "a", "b")], {"b": ["p", "q"]}, [("p", "a", "b")], id="to a node"),
        pytest.param([goes("p", "a")], {"b": ["q"]}, [("p", "a", "")], id="it is not known where to"),
        pytest.param(
            [goes("p", "a", "b"), goes("p", "b", "c")], {"b": ["q"], "c": ["p"]}, [("p", "a", "c")], id="twice"
        ),
        pytest.param([goes("p", "a", "b"), goes("p", "a", "c")], {"b": ["p", "q"]}, [("p", "a", "b")], id="the same"),
        pytest.param([goes("p", "a", "b"), goes("p", "b")], {"b": ["q"]}, [("p", "a", "")], id="and then away"),
    ],
)
def test_pod_moved_in_pretence_is_on_its_expected_node(
    actions: list[Evict], seen: dict[str, list[str]], strays: list[tuple[str, str, str]]
) -> None:
    found = pretended(*actions, pods={"p": "a", "q": "b"})
    assert {name: [one.name for one in pods] for name, pods in found.on_nodes().items() if pods} == seen
    assert [(one.pod.name, one.really, one.seen) for one in found.strays()] == strays
    there = [one for pods in found.on_nodes().values() for one in pods if one.name == "p"]
    assert [one.started for one in there] == [START] * len(there), "as if it had just begun to run there"


def test_a_pod_moved_in_pretence_still_spends_its_budget() -> None:
    found = pretended(goes("p", "a", "b"), pods={"p": "a", "q": "b"}, allowed=1)
    (left,) = found.budgets() or ()
    assert (left.pods, left.allowed) == (frozenset({"uid-p", "uid-q"}), 0)
    away = pretended(goes("p", "a"), pods={"p": "a", "q": "b"}, allowed=1)
    (left,) = away.budgets() or ()
    assert (left.pods, left.allowed) == (frozenset({"uid-q"}), 0)


@pytest.mark.parametrize(
    ("pods", "nodes", "kept"),
    [
        pytest.param({"p": "a"}, "abc", True, id="as it was"),
        pytest.param({}, "abc", False, id="it really went"),
        pytest.param({"p": "a"}, "ac", False, id="the node is gone"),
    ],
)
def test_a_pretended_move_holds_while_it_could(pods: dict[str, str], nodes: str, kept: bool) -> None:
    told = pretended(goes("p", "a", "b"), pods={"p": "a"}).pretence

    class Later(Shown):
        def on_nodes(self) -> dict[str, list[Any]]:
            return {on: [pod(name, on=on)] for name, on in pods.items()}

    assert bool(told.true_to(Later(nodes=tuple(node(name) for name in nodes))).moved) is kept
