"""Preemption says why no pod is preempted, and what would help."""

from typing import Any

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from elasticd.api import (
    DisruptionBudget,
    Expression,
    Pod,
    PoolObservation,
    Port,
    Repel,
    Spared,
    Victims,
)
from elasticd.kit.node_table import NodeTable
from elasticd.model.actions import Evict
from elasticd_plugins.filters import Filters
from tests.kit.pools import GIB, NOW, columns, node, planned, pod
from tests.kit.preemption import ASKS, OTHERS, asked, chosen, decode, names, pools, running

LESSER: dict[str, Any] = {"cpu": 1, "priority": -1}
REFUSED = DisruptionBudget(
    "shop",
    "x",
    frozenset({"uid-x"}),
    0,
    "not let go when last tried (Disturbed)",
    "[disruption] lets more pods go",
)


@pytest.mark.parametrize(
    ("options", "there", "more", "why", "mend"),
    [
        pytest.param({}, [running("x", cpu=1, priority=9)], {}, "no pod there matters less", "", id="nobody is lesser"),
        pytest.param({}, [running("x", "Always", cpu=1)], {}, "no pod there matters less", "", id="nor by class"),
        pytest.param(
            {},
            [running("x", **LESSER, started=NOW - 10)],
            {},
            "lesser pods have run for less than min_run = 60 s",
            "lesser pods have run for 60 s",
            id="too young",
        ),
        pytest.param(
            {},
            [running("x", **LESSER, local=True)],
            {},
            "lesser pods have local storage",
            "local_storage of strategy preemption is true",
            id="local storage",
        ),
        pytest.param(
            {"spare_priority": -5},
            [running("x", **LESSER)],
            {},
            "lesser pods have spare_priority = -5 or more",
            "spare_priority of strategy preemption is more than -1",
            id="a priority that is spared",
        ),
        pytest.param(
            {"spare_labels": {"keep": "yes"}},
            [running("x", **LESSER, labels={"keep": "yes"})],
            {},
            "lesser pods have one of spare_labels",
            "spare_labels of strategy preemption has none of theirs",
            id="a label that is spared",
        ),
        pytest.param(
            {},
            [running("x", **LESSER, namespace="kube-system")],
            {},
            "lesser pods are in spare_namespaces",
            "spare_namespaces of strategy preemption does not have kube-system",
            id="a namespace that is spared",
        ),
        pytest.param(
            {},
            [running("x", **LESSER)],
            {"budgets": (DisruptionBudget("shop", "b", frozenset({"uid-x"}), 0),)},
            "lesser pods are kept by PodDisruptionBudget shop/b",
            "PodDisruptionBudget shop/b lets more of its pods go",
            id="a budget",
        ),
        pytest.param(
            {},
            [running("x", cpu=0.3, priority=-1), running("y", cpu=0.7, priority=-1, started=NOW)],
            {},
            "others have run for less than min_run = 60 s",
            "lesser pods have run for 60 s",
            id="not enough of them may go",
        ),
        pytest.param(
            {},
            [running("x", cpu=0.3, priority=-1), running("y", cpu=0.7, priority=9)],
            {},
            "all lesser pods together would not do",
            "",
            id="they are not enough",
        ),
        pytest.param(
            {},
            [
                running("x", cpu=0.5, priority=-1, local=True),
                running("y", cpu=0.4, priority=-1),
                running("z", cpu=0.1, priority=-1),
            ],
            {
                "budgets": (
                    DisruptionBudget("shop", "lax", frozenset({"uid-y", "uid-z"}), 9),
                    DisruptionBudget("shop", "strict", frozenset({"uid-y"}), 0),
                )
            },
            "others are kept by PodDisruptionBudget shop/strict or have local storage",
            "PodDisruptionBudget shop/strict lets more of its pods go and local_storage of strategy preemption is true",
            id="an option and a budget",
        ),
        pytest.param(
            {},
            [running("x", cpu=0.3, priority=-1, started=NOW), running("y", cpu=0.7, priority=9)],
            {},
            "lesser pods have run for less than min_run = 60 s",
            "",
            id="nor would those that are kept do",
        ),
        pytest.param(
            {"most_victims": 1},
            [running("x", cpu=0.5, priority=-1), running("y", cpu=0.5, priority=-1)],
            {},
            "more would have to go than most_victims = 1",
            "most_victims of strategy preemption is 2 or more",
            id="too many",
        ),
        pytest.param(
            {"only_forced": True},
            [running("x", **LESSER)],
            {},
            "nobody does for pods whose binding does not say resourceNotFit force",
            "only_forced of strategy preemption is false",
            id="only where it is forced",
        ),
        pytest.param(
            {"only_forced": True},
            [running("x", cpu=0.5, priority=-1), running("y", cpu=0.5, priority=9)],
            {},
            "nobody does for pods whose binding does not say resourceNotFit force",
            "",
            id="nor would anybody by force",
        ),
        pytest.param(
            {},
            [running("x", **LESSER, **OTHERS)],
            {},
            "lesser pods are placed by another scheduler",
            "others of strategy preemption is true",
            id="another scheduler's",
        ),
        pytest.param(
            {},
            [running("x", **LESSER, **OTHERS, local=True)],
            {"budgets": (DisruptionBudget("shop", "b", frozenset({"uid-x"}), 0),)},
            "lesser pods are placed by another scheduler",
            "PodDisruptionBudget shop/b lets more of its pods go and local_storage of strategy preemption is true and "
            "others of strategy preemption is true",
            id="another scheduler's, with local storage and a budget: all of that keeps it",
        ),
        pytest.param(
            {},
            [running("x", **LESSER, **OTHERS)],
            {"budgets": (DisruptionBudget("shop", "b", frozenset({"uid-x"}), 1),)},
            "lesser pods are placed by another scheduler",
            "others of strategy preemption is true",
            id="another scheduler's, whom its budget would let go",
        ),
        pytest.param(
            {},
            [running("x", cpu=0.5, priority=-1, local=True), running("y", cpu=0.5, priority=-1, **ASKS)],
            {},
            "lesser pods have annotation elasticd.io/do-not-disrupt or have local storage",
            "lesser pods have no annotation elasticd.io/do-not-disrupt and "
            "local_storage of strategy preemption is true",
            id="only both would do",
        ),
        pytest.param(
            {},
            [running("x", **LESSER, **ASKS)],
            {},
            "lesser pods have annotation elasticd.io/do-not-disrupt",
            "lesser pods have no annotation elasticd.io/do-not-disrupt",
            id="asks not to be disrupted",
        ),
        pytest.param(
            {},
            [running("x", cpu=0.4, priority=-1, **ASKS), running("y", cpu=0.6, priority=9)],
            {},
            "lesser pods have annotation elasticd.io/do-not-disrupt",
            "",
            id="asks not to be disrupted, and would not do",
        ),
        pytest.param(
            {},
            [running("x", cpu=1, priority=9, **ASKS)],
            {},
            "no pod there matters less",
            "",
            id="one that asks so and is not lesser",
        ),
        pytest.param(
            {},
            [running("x", **LESSER, owner=("DaemonSet", "agents", "u"))],
            {},
            "lesser pods belong to their node",
            "",
            id="a DaemonSet's",
        ),
        pytest.param(
            {}, [running("x", **LESSER, static=True)], {}, "lesser pods belong to their node", "", id="static"
        ),
        pytest.param(
            {},
            [running("x", cpu=0.5, priority=-1), running("y", cpu=0.5, priority=-1, static=True)],
            {},
            "others belong to their node",
            "",
            id="static beside one that may go and does not suffice",
        ),
        pytest.param(
            {},
            [running("x", cpu=0.5, priority=-1), running("y", cpu=0.1, static=True), running("z", cpu=0.4, priority=9)],
            {},
            "all lesser pods together would not do",
            "",
            id="nor with the static one",
        ),
        pytest.param(
            {},
            [running("x", cpu=0.5, priority=-1), running("y", cpu=0.0, **ASKS), running("z", cpu=0.5, priority=9)],
            {},
            "all lesser pods together would not do",
            "",
            id="one that asks to be left alone has nothing of what is lacking",
        ),
        pytest.param(
            {},
            [running("x", **LESSER)],
            {"budgets": (REFUSED,)},
            "lesser pods were not let go when last tried (Disturbed)",
            "[disruption] lets more pods go",
            id="refused a moment ago",
        ),
        pytest.param(
            {},
            [running("x", **LESSER)],
            {"budgets": (replace(REFUSED, why="not let go when last tried (Blackout)", mend=""),)},
            "lesser pods were not let go when last tried (Blackout)",
            "",
            id="refused a moment ago, and nobody can do anything",
        ),
        pytest.param(
            {},
            [running("x", cpu=0.5, priority=-1), running("y", cpu=0.5, priority=-1, local=True)],
            {"budgets": (replace(REFUSED, mend=""),)},
            "lesser pods have local storage or were not let go when last tried (Disturbed)",
            "",
            id="nor does what helps one do without the other",
        ),
        pytest.param(
            {"most_victims": 2},
            [running("x", cpu=0.5, priority=-1), running("y", cpu=0.5, priority=-1)],
            {"gave_way": {"uid-p": 1}},
            "more would have to go than most_victims = 2, as 1 has been preempted for it already",
            "",
            id="too many, as one was preempted in vain",
        ),
        pytest.param(
            {"most_victims": 1},
            [running("x", cpu=0.5, priority=-1), running("y", cpu=0.5, priority=-1)],
            {"gave_way": {"uid-p": 2}},
            "more would have to go than most_victims = 1, as 2 have been preempted for it already",
            "most_victims of strategy preemption is 4 or more",
            id="too many, and would be without those",
        ),
    ],
)
def test_it_says_why_nobody_gives_way(
    options: dict[str, Any], there: list[Pod], more: dict[str, Any], why: str, mend: str
) -> None:
    said = asked(decode(**options), pod("p", 1, restart="Always"), there, **more)
    assert said == Spared(why, (mend,) if mend else ())


@pytest.mark.parametrize(
    ("there", "more", "mend"),
    [
        pytest.param(
            [running(f"x{i:02}", cpu=0.05, started=NOW) for i in range(20)],
            {},
            "lesser pods have run for 60 s and most_victims of strategy preemption is 20 or more",
            id="most_victims, once they have run",
        ),
        pytest.param(
            [running(f"x{i}", cpu=0.5, started=NOW) for i in range(2)],
            {"budgets": (DisruptionBudget("shop", "b", frozenset({"uid-x0", "uid-x1"}), 1),)},
            "PodDisruptionBudget shop/b lets more of its pods go and lesser pods have run for 60 s",
            id="a budget, once they have run",
        ),
        pytest.param(
            [running(f"x{i}", cpu=0.5, started=NOW, priority=i) for i in range(2)],
            {"budgets": (DisruptionBudget("shop", "b", frozenset({"uid-x0"}), 1),)},
            "lesser pods have run for 60 s",
            id="not a budget that will not keep them",
        ),
        pytest.param(
            [running(f"x{i:02}", cpu=0.05, started=NOW) for i in range(20)],
            {"gave_way": {"uid-p": 1}},
            "lesser pods have run for 60 s and most_victims of strategy preemption is 21 or more",
            id="most_victims, with one that was preempted before",
        ),
        pytest.param(
            [running("x0", cpu=0.5, started=NOW), running("x1", cpu=0.5)],
            {"gave_way": {"uid-p": 9}},
            "",
            id="nothing where it would be too many again, as others were preempted in vain",
        ),
    ],
)
def test_what_would_keep_them_next_is_foreseen(there: list[Pod], more: dict[str, Any], mend: str) -> None:
    said = asked(decode(), pod("p", 1, restart="Always", priority=9), there, **more)
    assert isinstance(said, Spared)
    assert said.why.endswith(" have run for less than min_run = 60 s")
    assert said.mends == ((mend,) if mend else ())


KEEPS_OFF = (Repel("kubernetes.io/hostname", (Expression("app", "In", ("web",)),)),)


def test_who_keeps_a_pod_off_gives_way_for_it() -> None:
    web: dict[str, Any] = {"labels": {"app": "web"}, "restart": "Always"}
    there = [running("x", repels=KEEPS_OFF), running("y")]
    (decision,) = planned([Filters(), decode()], columns([node("a", cpu=1)], there), [pod("p", 0.5, **web)])
    assert [one.workload.name for one in decision.actions if isinstance(one, Evict)] == ["x"]
    other: dict[str, Any] = {**web, "labels": {"app": "other"}}
    assert asked(decode(), pod("p", 0.5, **other), there) is None
    kept = [running("x", repels=KEEPS_OFF, local=True)]
    said = Spared("lesser pods have local storage", ("local_storage of strategy preemption is true",))
    assert asked(decode(), pod("p", 0.5, **web), kept) == said


def test_repelling_needs_the_topology_label_on_the_node() -> None:
    rep = running("rep", repels=(replace(KEEPS_OFF[0], topology="zone"),), priority=9)
    waiting = pod("p", 0.5, labels={"app": "web"}, priority=5)
    (decision,) = planned([Filters(), decode()], columns([node("a", cpu=1)], [rep, running("big", cpu=0.9)]), [waiting])
    assert [one.workload.name for one in decision.actions if isinstance(one, Evict)] == ["big"]


def test_where_too_much_keeps_pods_nothing_is_reported() -> None:
    there = [running(f"x{index}", cpu=0.1, namespace=f"ns{index}") for index in range(10)]
    uids = [frozenset({one.uid}) for one in there]
    budgets = tuple(DisruptionBudget(f"ns{index}", "b", uid, 0) for index, uid in enumerate(uids))
    said = asked(decode(), pod("p", 1, priority=5), there, budgets=budgets)
    assert isinstance(said, Spared)
    assert said.mends == ()


def test_keep_free_room_is_made_even_behind_a_port_conflict() -> None:
    there = [running("x", ports=(Port(80),)), running("y", cpu=0.5)]
    strategies = [Filters(keep_free={"cpu": "700m"}), decode()]
    waiting = pod("p", 0.1, restart="Always", ports=(Port(80),))
    (decision,) = planned(strategies, columns([node("a", cpu=1)], there), [waiting])
    assert sorted(one.workload.name for one in decision.actions if isinstance(one, Evict)) == ["x", "y"]


def test_room_that_filters_keep_free_is_made_too() -> None:
    there = [running(f"x{i}", cpu=0.25) for i in range(4)]
    strategies = [Filters(keep_free={"cpu": "250m"}), decode()]
    (decision,) = planned(strategies, columns([node("a", cpu=1)], there), [pod("p", 0.25, restart="Always")])
    assert [one.workload.name for one in decision.actions if isinstance(one, Evict)] == ["x0", "x1"]
    # Where all pods fit but for what is kept, too.
    (decision,) = planned(strategies, columns([node("a", cpu=1)], there[:3]), [pod("p", 0.25, restart="Always")])
    assert [one.workload.name for one in decision.actions if isinstance(one, Evict)] == ["x0"]


def test_pods_that_bring_nothing_spend_no_budget() -> None:
    there = [running("a-none", cpu=0.0, memory=GIB), running("b-all", cpu=1)]
    budgets = (DisruptionBudget("shop", "b", frozenset({"uid-a-none", "uid-b-all"}), 1),)
    assert names(chosen(decode(), pod("p", 1, restart="Always"), there, budgets=budgets)) == ["b-all"]


def test_the_only_forced_option_still_waits_for_leaving_pods() -> None:
    there = [running("x", cpu=1, deleted=True)]
    found = asked(decode(only_forced=True), pod("p", 1, restart="Always"), there)
    assert found == Victims((), why="others are leaving")


def test_either_of_two_sufficient_options_is_reported() -> None:
    there = [running("x", cpu=0.5, **OTHERS), running("y", cpu=0.5, local=True)]
    assert asked(decode(), pod("p", 0.5, priority=9), there) == Spared(
        "lesser pods are placed by another scheduler or have local storage",
        ("local_storage of strategy preemption is true", "others of strategy preemption is true"),
    )


AGENT: dict[str, Any] = {"owner": ("DaemonSet", "agents", "u")}


def test_only_what_keeps_the_port_owner_is_reported() -> None:
    port: dict[str, Any] = {"ports": (Port(80),)}
    waiting = pod("p", priority=9, **port)
    young = running("young", started=NOW, **port)
    bystanders = [running("local", local=True), running("asking", **ASKS), running("agent", **AGENT)]
    assert asked(decode(), waiting, [young, *bystanders]) == Spared(
        "lesser pods have run for less than min_run = 60 s", ("lesser pods have run for 60 s",)
    )
    kept = running("kept", **port)
    budgets = (DisruptionBudget("shop", "b", frozenset({"uid-kept"}), 0),)
    assert asked(decode(), waiting, [kept, running("small")], budgets=budgets) == Spared(
        "lesser pods are kept by PodDisruptionBudget shop/b", ("PodDisruptionBudget shop/b lets more of its pods go",)
    )
    agent = running("agent", **AGENT, **port)
    assert asked(decode(), waiting, [agent]) == Spared("lesser pods belong to their node")
    assert asked(decode(), waiting, [agent, running("small")]) == Spared("lesser pods belong to their node")


def test_a_more_than_critical_pod_is_told_others_are_critical() -> None:
    there = [running("x", cpu=1, priority=2_000_000_000)]
    said = asked(decode(), pod("p", 1, priority=2_000_001_000), there)
    assert said == Spared("lesser pods are of system-critical priority")


@pytest.mark.slow
@given(pools())
@settings(max_examples=60)
def test_nobody_could_have_been_kept(
    pool: tuple[NodeTable, list[Pod], list[Pod], tuple[DisruptionBudget, ...]],
) -> None:
    view, there, waiting, budgets = pool
    seen = PoolObservation(NOW, (waiting[0],), budgets=budgets, confirmed=NOW)
    victims = decode().select_victims(waiting[0], 0, view, seen, False, {})
    gone = victims.pods if isinstance(victims, Victims) else ()
    for one in gone:
        rest = [other for other in there if other not in gone]
        kept = columns(view.nodes, [other for other in [*rest, one] if not other.deleted])
        refusals = Filters().filter_nodes(waiting[0], kept)
        assert any(refusal.nodes[0] for refusal in refusals or ())
