"""What holds of rebalance whatever the pool: nobody protected goes, budgets hold, a level pool is left as it is."""

from collections import Counter
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elasticd.api import DisruptionBudget, Pod
from elasticd.decision.pool import moves as moving
from elasticd.kit.evictability import rooted
from elasticd_plugins.filters import Filters
from elasticd_plugins.load_balance import LoadBalance
from elasticd_plugins.rebalance import Rebalance
from elasticd_plugins.rebalance.levels import levels
from elasticd_plugins.rebalance.options import Marks
from tests.kit.plugins.levelling import CPU, MEMORY, Pool, Using, looks, planned, pool
from tests.kit.pools import GIB, NOW, pod
from tests.kit.uneven import ByStrategies, Load, Uneven

pytestmark = pytest.mark.slow

MARKS = (Marks("cpu", 0.15, 0.1, 0.0), Marks("memory", 0.15, 0.1, 0.0))
STRATEGIES = [
    pytest.param(Rebalance(), id="score"),
    pytest.param(Rebalance(by="deviation", marks=MARKS), id="deviation"),
    pytest.param(
        Rebalance(by="use", marks=(Marks("cpu", 0.7, 0.6, 0.5), Marks("memory", 0.7, 0.6, 0.5)), amount="mean"),
        id="use",
    ),
]

KINDS: list[dict[str, Any]] = [
    {},
    {"owner": ("DaemonSet", "d", "ds")},
    {"static": True},
    {"priority": 2_000_000_000},
    {"annotations": {"elasticd.io/do-not-disrupt": "true"}},
    {"namespace": "kube-system"},
    {"local": True},
    {"claims": True},
    {"deleted": True},
    {"started": NOW - 1},
    {"started": None},
    {"scheduler": "default-scheduler"},
    {"unsupported": ("pod affinity",)},
    {"owner": ("", "", "")},
    {"restart": "OnFailure", "owner": ("Job", "j", "job")},
    {"owner": ("example.com/v1/Foo", "f", "foo")},
]


def protected(one: Pod) -> bool:
    needs = one.needs
    young = one.started is None or NOW - one.started < 60
    lost = one.owner[0] in ("Job", "example.com/v1/Foo")
    spared = lost or one.namespace == "kube-system" or needs.local or needs.claims or one.deleted or young
    return bool(rooted(one)) or spared or needs.scheduler != "elasticd" or bool(needs.unsupported)


@st.composite
def pools(draw: st.DrawFn) -> Pool:
    """A few nodes with pods of all kinds; what nodes use is what their pods do, and something of their own, or not
    known."""
    names = [f"n{i}" for i in range(draw(st.integers(2, 5)))]
    pods: list[Using] = []
    uses = {name: [0.0, 0.0] for name in names}
    for index in range(draw(st.integers(0, 24))):
        kind, on = draw(st.sampled_from(KINDS)), draw(st.sampled_from(names))
        cpu, memory = draw(st.floats(0, 1.5)), draw(st.floats(0, 2 * GIB))
        owner = ("ReplicaSet", "web", f"rs-{draw(st.integers(0, 4))}")
        more = {"owner": owner, "started": NOW - 3600, "ready": True, **kind}
        pods.append((pod(f"p{index}", 0.1, GIB / 10, on, **more), cpu, memory))
        uses[on][0] += cpu / CPU
        uses[on][1] += memory / MEMORY
    known = {
        name: (use[0], use[1]) if draw(st.integers(0, 9)) else (float("nan"), use[1]) for name, use in uses.items()
    }
    return pool(known, pods)


budgets = st.lists(
    st.builds(
        lambda name, uids, allowed: DisruptionBudget("shop", name, frozenset(f"uid-p{i}" for i in uids), allowed),
        st.uuids().map(str),
        st.sets(st.integers(0, 24)),
        st.integers(-1, 3),
    ),
    max_size=3,
)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(found=pools(), limits=budgets, per_look=st.integers(1, 8))
@settings(max_examples=60, deadline=None)
def test_no_plan_has_a_protected_pod_or_overdraws_a_budget(
    strategy: Rebalance, found: Pool, limits: list[DisruptionBudget], per_look: int
) -> None:
    past = looks(found, *[found.measured] * 3)
    decisions = planned((Filters(), LoadBalance(), strategy), found, past, limits, per_look=per_look, rerun=False)
    pods = {one.uid: one for place in range(len(found.view.names)) for one in found.view.pods(place)}
    gone = [one for one in decisions if one.verdict == "move"]
    moved = {one.uid for one in gone}
    assert len(moved) == len(gone) <= per_look
    assert [one for one in gone if one.uid in pods and protected(pods[one.uid])] == []
    assert all(len(one.pods & moved) <= max(0, one.allowed) for one in limits)
    assert all(one.target != one.node and one.action is not None for one in gone)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(found=pools())
@settings(max_examples=40, deadline=None)
def test_at_least_one_ready_pod_of_each_controller_stays(strategy: Rebalance, found: Pool) -> None:
    pods = [one for place in range(len(found.view.names)) for one in found.view.pods(place)]
    ready = Counter(one.owner[2] for one in pods if one.ready and not one.deleted and one.owner[2])
    past = looks(found, *[found.measured] * 3)
    decisions = planned((Filters(), strategy), found, past, per_look=100)
    owners = {one.uid: one.owner[2] for one in pods}
    left = Counter(ready)
    left.subtract(owner for one in decisions if one.verdict == "move" and (owner := owners[one.uid]))
    assert all(left[owner] >= 1 for owner in ready if left[owner] < ready[owner])


def parts_of(found: Pool) -> tuple[dict[str, tuple[float, float]], list[Using]]:
    """What such a pool is made of."""
    known = [
        (one, found.use["cpu"][f"{one.namespace}/{one.name}"], found.use["memory"][f"{one.namespace}/{one.name}"])
        for place in range(len(found.view.names))
        for one in found.view.pods(place)
    ]
    parts = {
        name: (found.measured["cpu"][name] / CPU, found.measured["memory"][name] / MEMORY) for name in found.view.names
    }
    return parts, known


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_every_plan_is_equal_for_equal_input(strategy: Rebalance, data: st.DataObject) -> None:
    parts, known = parts_of(data.draw(pools()))
    plans = set()
    for pods in (known, known[::-1], data.draw(st.permutations(known))):
        again = pool(parts, pods)
        decisions = planned((Filters(), LoadBalance(), strategy), again, looks(again, *[again.measured] * 3))
        plans.add(msgspec.json.encode(decisions))
    assert len(plans) == 1


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(found=pools())
@settings(max_examples=60, deadline=None)
def test_plans_do_not_change_when_all_nodes_are_examined(strategy: Rebalance, found: Pool) -> None:
    """Else the others are not, where what a pod uses fits on the best node of all."""
    strategies, past = chosen(strategy), looks(found, *[found.measured] * 3)
    again = pool(*parts_of(found))
    never = property(lambda _: False, lambda *_: None)
    with patch.object(moving._Draft, "_hopeful", never, create=True):
        expected = planned(strategies, again, past, worth=0.0)
    assert planned(strategies, found, past, worth=0.0) == expected


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(found=pools())
@settings(max_examples=60, deadline=None)
def test_placed_pods_avoid_overloaded_nodes(strategy: Rebalance, found: Pool) -> None:
    above = levels(strategy, found.view, strategy.seen(found.view)).above
    scores = strategy.score_nodes(found.view)
    assert scores is not None
    assert scores.values.tolist() == [-strategy.avoid if one else 0.0 for one in above]


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(found=pools(), parts=st.lists(st.floats(0, 0.5), min_size=5, max_size=5))
@settings(max_examples=60, deadline=None)
def test_no_pod_goes_to_a_node_that_it_would_overload(strategy: Rebalance, found: Pool, parts: list[float]) -> None:
    """Beside what was measured, whatever young pods are thought to add anywhere."""
    measured, pods = parts_of(found)
    again = pool(measured, pods, young=dict(zip(found.view.names, parts, strict=False)))
    used = {name: np.array(again.view.use(name)) for name in ("cpu", "memory")}
    past = looks(again, *[again.measured] * 3)
    moves = [one for one in planned((Filters(), strategy), again, past, per_look=100) if one.verdict == "move"]
    places = [again.view.names.index(one.target) for one in moves]
    for one, place in zip(moves, places, strict=True):
        for name, column in used.items():
            column[place] += again.use[name][f"{one.pod.namespace}/{one.pod.name}"]
    assert not levels(strategy, again.view, used.__getitem__, again.view.measured).above[places].any()


def chosen(strategy: Rebalance) -> tuple[Any, ...]:
    return Filters(), LoadBalance(), strategy


@pytest.mark.parametrize("strategy", STRATEGIES[:2])
@pytest.mark.parametrize("seed", range(3))
def test_a_constant_load_is_levelled_once_and_left_alone(strategy: Rebalance, seed: int) -> None:
    found, mover = Uneven(chosen(strategy), seed=seed), ByStrategies(chosen(strategy))
    before, worst = found.spread(), found.worst()
    moves = [found.step(mover) for _ in range(300)]
    assert found.spread() < 0.5 * before
    assert found.worst() < 0.75 * worst
    assert sum(moves[150:]) == 0
    assert not any(one.verdict == "move" for one in mover.decisions)


@pytest.mark.parametrize("strategy", STRATEGIES[:2])
def test_over_a_thousand_cycles_controllers_move_a_few_times_hourly(strategy: Rebalance) -> None:
    """Swings of 40 % with periods of ten minutes to two hours. A pod moved at once whenever a node is too loaded would
    follow each of them."""
    found, mover = Uneven(chosen(strategy), load=Load(swing=0.4)), ByStrategies(chosen(strategy))
    before = found.spread()
    moves, spread = list[int](), list[float]()
    for _ in range(1000):
        moves.append(found.step(mover))
        spread.append(found.spread())
    assert sum(spread[100:]) / 900 < 0.5 * before
    assert found.moves_of_controllers(3600.0) <= 5
    hours, pods = 1000 * 30 / 3600, len(found.replicas)
    assert sum(moves) / pods / hours < 0.1
    assert max(one.generation for one in found.replicas) <= hours


def test_spikes_are_not_followed() -> None:
    """Load that swings by a half within one to twelve minutes. What observations in a row, the calm mark, settling and
    cooldowns are for: one who has none of these moves pods for ever."""
    rash, moves = Rebalance(observations=1, calm=-1.0, settle=0, cooldown=0), {}
    for name, strategy in (("calm", Rebalance()), ("rash", rash)):
        found = Uneven(chosen(strategy), load=Load(busy=1.0, idle=1.0, swing=0.5, period=60.0))
        mover = ByStrategies(chosen(strategy), min_age=0.0, per_look=20)
        moves[name] = sum(found.step(mover) for _ in range(300))
    assert moves["rash"] > 10 * moves["calm"]
