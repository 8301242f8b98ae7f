"""Options of preemption: what is refused, and how they order and keep potential victims."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.api import (
    DisruptionBudget,
    Pod,
    PoolObservation,
    PoolPolicy,
    PoolSelect,
    Spared,
    Victims,
)
from elasticd.model.actions import Evict
from elasticd.testing import check_strategy, registry
from elasticd_plugins import filters, preemption
from elasticd_plugins.preemption import Preemption
from tests.kit.policies import load_pool
from tests.kit.pools import GIB, NOW, columns, node, planned, pod, refused
from tests.kit.preemption import OTHERS, asked, decode, running


@pytest.mark.parametrize(
    ("table", "said"),
    [
        pytest.param('mode = "thesis"', 'mode: must be one of paper, product, is "thesis"', id="mode"),
        pytest.param("only_forced = 1", "only_forced: must be true or false, is 1", id="only_forced"),
        pytest.param("restart_classes = 1", "restart_classes: must be true or false, is 1", id="restart_classes"),
        pytest.param("min_run = -1", "min_run: must be >= 0, is -1", id="min_run"),
        pytest.param("most_victims = 0", "most_victims: must be >= 1, is 0", id="most_victims"),
        pytest.param('spare_namespaces = "a"', 'spare_namespaces: must be an array, is "a"', id="spare_namespaces"),
        pytest.param("spare_labels = []", "spare_labels: must be a table, is []", id="spare_labels"),
        pytest.param(
            "spare_priority = 2000000001", "spare_priority: must be <= 2000000000, is 2000000001", id="spare_priority"
        ),
        *[
            pytest.param(
                f'spare_namespaces = ["vault", "{name}"]',
                f'spare_namespaces[1]: must be the name of a namespace, is "{name}"{more}',
                id=f"spare_namespaces, {name}",
            )
            for name, more in (
                ("*", "; a policy without this strategy spares all"),
                ("Kube_System", ""),
                ("a.b", ""),
                ("", ""),
            )
        ],
        pytest.param("others = 1", "others: must be true or false, is 1", id="others"),
        pytest.param('local_storage = "no"', 'local_storage: must be true or false, is "no"', id="local_storage"),
    ],
)
def test_nonsense_is_refused(table: str, said: str, tmp_path: Path) -> None:
    assert refused(tmp_path, preemption, f'type = "preemption"\n{table}') == f"strategy[0].{said}"


def test_the_example_lets_batch_work_give_way_to_services() -> None:
    path = Path(__file__).parents[2] / "config" / "policies" / "preemption.toml"
    policy = load_pool(path, registry(filters, preemption))
    there = [running("batch", "OnFailure", 1, namespace="research"), running("service", "Always", 1, on="b")]
    waiting = pod("new", 1, restart="Always", namespace="research")
    assert policy.pool.has(waiting)
    view = columns([node("a", cpu=1), node("b", cpu=1)], there)
    (decision,) = planned(policy.strategies, view, [waiting], pool=policy.pool)
    assert [(one.workload.name, one.restore, one.first) for one in decision.actions if isinstance(one, Evict)] == [
        ("batch", True, True)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"mode": "paper"}, {"only_forced": True, "min_run": 0, "most_victims": 1}])
def test_it_does_nothing_that_no_strategy_may(options: dict[str, Any]) -> None:
    assert check_strategy(decode(**options)) == []


POOL = PoolPolicy(name="pool", pool=PoolSelect(), strategies=())


def line(strategy: Preemption, *there: Pod, **use: float) -> list[tuple[str, str, str]]:
    """Who would be preempted, the first first, and what keeps each."""
    cpu = {f"shop/{name}": amount for name, amount in use.items()}
    seen = PoolObservation(NOW, use={"cpu": cpu})
    found = strategy.explain_victims(0, columns([node("a")], there), seen, POOL)
    return [(turn.pod.name, turn.stays, turn.why) for turn in found.turns]


@pytest.mark.parametrize(
    ("options", "pods", "order"),
    [
        pytest.param(
            {},
            [running("a", "Always"), running("n", "Never"), running("o", "OnFailure"), running("low", priority=-1)],
            ["low", "n", "o", "a"],
            id="by priority, and then by restartPolicy",
        ),
        pytest.param(
            {},
            [running("n", "Never", priority=5), running("a", "Always")],
            ["a", "n"],
            id="of lower priority before Never",
        ),
        pytest.param(
            {"restart_classes": False},
            [running("n", "Never"), running("a", "Always", memory=GIB)],
            ["a", "n"],
            id="without classes the larger first",
        ),
        pytest.param(
            {"mode": "paper"},
            [running("o", "OnFailure"), running("n", "Never", priority=5)],
            ["n", "o"],
            id="paper: by restartPolicy alone",
        ),
        pytest.param(
            {},
            [running("set", owner=("DaemonSet", "d", "u")), running("going", deleted=True), running("x")],
            ["x"],
            id="those who never do are in no line",
        ),
    ],
)
def test_potential_victims_are_listed_in_their_order_of_eviction(
    options: dict[str, Any], pods: list[Pod], order: list[str]
) -> None:
    for there in (pods, pods[::-1]):
        assert [name for name, _, _ in line(decode(**options), *there)] == order


def test_of_equals_the_one_that_uses_more_goes_first() -> None:
    assert [name for name, _, _ in line(decode(), running("p"), running("q"), p=0.1, q=0.9)] == ["q", "p"]


@pytest.mark.parametrize(
    ("options", "one", "kept"),
    [
        pytest.param({}, running("p"), ("", ""), id="nothing"),
        pytest.param(
            {"min_run": 90},
            running("p", started=NOW - 80),
            ("Young", "it has run for less than min_run = 90 s"),
            id="min_run",
        ),
        pytest.param(
            {}, running("p", started=None), ("Young", "it has run for less than min_run = 60 s"), id="not started"
        ),
        pytest.param({"min_run": 0}, running("p", started=NOW), ("", ""), id="no min_run"),
        pytest.param(
            {"spare_namespaces": ["shop"]},
            running("p"),
            ("Spared", "its namespace is in spare_namespaces"),
            id="spare_namespaces",
        ),
        pytest.param(
            {"spare_priority": 5},
            running("p", priority=5),
            ("Spared", "its priority is spare_priority = 5 or more"),
            id="spare_priority",
        ),
        pytest.param(
            {"spare_labels": {"app": "x"}},
            running("p", labels={"app": "x"}),
            ("Spared", "it has one of spare_labels"),
            id="spare_labels",
        ),
        pytest.param(
            {}, running("p", local=True), ("LocalStorage", "what it has stored on its node would be lost"), id="storage"
        ),
        pytest.param({"local_storage": True}, running("p", local=True), ("", ""), id="storage that may be lost"),
        pytest.param(
            {}, running("p", **OTHERS), ("OtherScheduler", "another scheduler places it"), id="another scheduler's"
        ),
        pytest.param({"others": True}, running("p", **OTHERS), ("", ""), id="other schedulers' are allowed"),
        pytest.param({"mode": "paper"}, running("p", started=NOW), ("", ""), id="paper: no min_run"),
        pytest.param(
            {"mode": "paper"},
            running("p", "Always"),
            ("Highest", "no restartPolicy is above Always"),
            id="paper: Always is preempted for nobody",
        ),
    ],
)
def test_each_says_which_option_keeps_it(options: dict[str, Any], one: Pod, kept: tuple[str, str]) -> None:
    assert line(decode(**options), one) == [("p", *kept)]
    there = columns([node("a", cpu=1)], [replace(one, containers=one.containers)])
    wants = pod("w", cpu=0.95, priority=9, restart="Always")
    seen = PoolObservation(NOW, (wants,), confirmed=NOW)
    gives = isinstance(decode(**options).select_victims(wants, 0, there, seen, False, {}), Victims)
    assert gives == (kept == ("", "")), "what is said of it is what is done with it"


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        pytest.param(
            {},
            "for those of higher priority, and of equal priority for those of a higher restartPolicy "
            "(Never, OnFailure, Always); at most 10 for one pod",
            id="default",
        ),
        pytest.param(
            {"restart_classes": False, "most_victims": 3},
            "for those of higher priority; at most 3 for one pod",
            id="no classes",
        ),
        pytest.param(
            {"restart_classes": False, "only_forced": True},
            "for those of higher priority; at most 10 for one pod; "
            "only for those whose binding says resourceNotFit force",
            id="only forced",
        ),
        pytest.param(
            {"mode": "paper"},
            "for those of a higher restartPolicy (Never, OnFailure, Always), whatever their priority",
            id="paper",
        ),
    ],
)
def test_to_whom_pods_give_way_is_said(options: dict[str, Any], rule: str) -> None:
    assert decode(**options).explain_victims(0, columns([node("a")]), PoolObservation(NOW), POOL).rule == rule


def test_of_several_budgets_the_spent_one_is_named() -> None:
    there = [running(name, cpu=0.3, priority=-1) for name in ("p", "q1", "q2")]
    there[0] = replace(there[0], needs=replace(there[0].needs, priority=0))
    budgets = (
        DisruptionBudget("shop", "a-of-p", frozenset({"uid-p"}), 1),
        DisruptionBudget("shop", "b-of-all", frozenset({"uid-p", "uid-q1", "uid-q2"}), 2),
    )
    found = asked(decode(), pod("new", 0.9, restart="Always", priority=5), there, node("a", cpu=0.9), budgets=budgets)
    assert isinstance(found, Spared)
    assert found.why == "others are kept by PodDisruptionBudget shop/b-of-all"
    assert found.mends == ("PodDisruptionBudget shop/b-of-all lets more of its pods go",)
