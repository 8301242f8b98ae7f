"""Preemption: who goes, who is protected, and which node is chosen."""

from collections.abc import Iterable
from math import nan
from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.api import (
    Disk,
    DisruptionBudget,
    Pod,
    PoolObservation,
    Port,
    Victims,
)
from elasticd.kit.evictability import AUTOSCALER, KARPENTER
from elasticd.model.placement import PodDecision
from elasticd_plugins.filters import Filters
from tests.kit.pools import GIB, NOW, columns, node, planned, pod
from tests.kit.preemption import OLD, PAPER, chosen, decode, names, running


def verdicts(decisions: Iterable[PodDecision]) -> list[tuple[str, str]]:
    return [(one.verdict, one.node) for one in decisions]


@pytest.mark.parametrize(
    ("there", "waiting", "expected"),
    [
        pytest.param(
            [running("low", cpu=0.6), running("high", cpu=0.4, priority=5)],
            pod("p", 0.5, priority=9),
            ["low"],
            id="the lower priority first",
        ),
        pytest.param(
            [running("low", cpu=0.3), running("mid", cpu=0.3, priority=5)],
            pod("p", 0.9, priority=9),
            ["low", "mid"],
            id="the more important only where the less do not suffice",
        ),
        pytest.param(
            [running("equal", "Always", cpu=1, priority=9)],
            pod("p", 0.5, priority=9, restart="Always"),
            None,
            id="nobody of equal priority and class",
        ),
        pytest.param(
            [running("higher", cpu=1, priority=10)], pod("p", 0.5, priority=9), None, id="nobody of higher priority"
        ),
        pytest.param(
            [running("lower", "Always", cpu=1, priority=1)],
            pod("p", 0.5, priority=9, restart="Never"),
            ["lower"],
            id="priority goes before the class",
        ),
        pytest.param(
            [running("never", "Never", cpu=0.5), running("failure", "OnFailure", cpu=0.5)],
            pod("p", 0.4, restart="Always"),
            ["never"],
            id="of equal priority Never before OnFailure",
        ),
        pytest.param(
            [running("small", cpu=0.5, memory=1 * GIB), running("large", cpu=0.5, memory=2 * GIB)],
            pod("p", 0.4, restart="Always"),
            ["large"],
            id="the larger memory request",
        ),
        pytest.param(
            [running("b", cpu=0.5), running("a", cpu=0.5)], pod("p", 0.4, restart="Always"), ["a"], id="then by name"
        ),
        pytest.param(
            [running("tiny", cpu=0.1, memory=2 * GIB), running("big", cpu=0.9, memory=1 * GIB)],
            pod("p", 0.8, restart="Always"),
            ["big"],
            id="who is not needed stays",
        ),
        pytest.param(
            [running("one", cpu=0.5), running("two", "Always", cpu=0.5)],
            pod("p", 0.8, restart="OnFailure"),
            None,
            id="nobody where all who may go would not suffice",
        ),
        pytest.param([running("one", cpu=1)], pod("p", 2, restart="Always"), None, id="what no node of this size has"),
        pytest.param([], pod("p", 2), None, id="an empty node"),
        pytest.param([running("one", cpu=0.1)], pod("p", 0.1), None, id="a pod that lacks nothing"),
    ],
)
def test_the_least_important_go_and_no_more_than_must(
    there: list[Pod], waiting: Pod, expected: list[str] | None
) -> None:
    assert names(chosen(decode(), waiting, there)) == expected


URGENT = pod("p", 0.5, 1 * GIB, priority=100)


@pytest.mark.parametrize(
    ("lacking", "there", "expected"),
    [
        pytest.param({"memory": 6 * GIB}, [running("m", memory=5 * GIB), running("c", cpu=0.2)], ["m"], id="memory"),
        pytest.param(
            {"resources": {"example.com/gpu": 1.0}},
            [running("plain"), running("gpu", resources={"example.com/gpu": 1.0})],
            ["gpu"],
            id="an extended resource",
        ),
        pytest.param({"resources": {"example.com/none": 1.0}}, [running("plain")], None, id="one that no node has"),
        pytest.param(
            {"ports": (Port(80),)}, [running("other", ports=(Port(81),)), running("port", ports=(Port(80),))], ["port"],
            id="a port",
        ),
        pytest.param(
            {"disks": (Disk("gce", "d"),)}, [running("plain"), running("disk", disks=(Disk("gce", "d"),))], ["disk"],
            id="a disk",
        ),
        pytest.param(
            {"ports": (Port(80),)},
            [running("port", "Always", priority=100, ports=(Port(80),))],
            None,
            id="a port of an equal",
        ),
    ],
)  # fmt: skip
def test_it_counts_every_resource_port_and_disk(
    lacking: dict[str, Any], there: list[Pod], expected: list[str] | None
) -> None:
    has = node("a", cpu=1, resources={"example.com/gpu": 1.0})
    waiting = pod("p", **{"priority": 100, **lacking})
    assert names(chosen(decode(), waiting, there, has)) == expected


def test_in_the_thesis_victims_go_in_order_until_room_suffices() -> None:
    has = node("a", cpu=1, resources={"example.com/gpu": 1.0})
    there = [
        running("large", memory=GIB),
        running("gpu", resources={"example.com/gpu": 1.0}),
        running("small", cpu=0.0),
    ]
    waiting = pod("p", resources={"example.com/gpu": 1.0})
    assert names(chosen(PAPER, waiting, there, has)) == ["large", "gpu"]


def replace_needs(one: Pod, **needs: Any) -> Pod:
    return replace(one, needs=replace(one.needs, **needs))


def test_places_for_pods_are_a_resource_like_another() -> None:
    there = [running("a1"), running("a2", memory=1 * GIB)]
    assert names(chosen(decode(), URGENT, there, node("a", pods=2))) == ["a2"]


PROTECTED = [
    pytest.param({"static": True}, {}, id="static"),
    pytest.param({"owner": ("DaemonSet", "agents", "u1")}, {}, id="of a DaemonSet"),
    pytest.param({"owner": ("Node", "a", "u1")}, {}, id="a mirror"),
    pytest.param({"annotations": {"elasticd.io/do-not-disrupt": "true"}}, {}, id="asked not to be disrupted"),
    pytest.param({"annotations": {"elasticd.io/do-not-disrupt": ""}}, {}, id="asked so without a word"),
    pytest.param({"annotations": {AUTOSCALER: "false"}}, {}, id="asked Cluster Autoscaler so"),
    pytest.param({"annotations": {KARPENTER: "true"}}, {}, id="asked Karpenter so"),
    pytest.param({"labels": {"app.kubernetes.io/name": "elasticd"}}, {"spare_labels": {}}, id="elasticd's own"),
    pytest.param({"owner": ("", "", ""), "owns": True}, {}, id="owner of other pods"),
    pytest.param({"namespace": "kube-system"}, {}, id="kube-system"),
    pytest.param({"namespace": "vault"}, {"spare_namespaces": ["vault"]}, id="a namespace that is spared"),
    pytest.param({"labels": {"app.kubernetes.io/name": "elasticd"}}, {}, id="the daemon"),
    pytest.param({"labels": {"keep": "yes", "app": "db"}}, {"spare_labels": {"keep": "yes"}}, id="a label"),
    pytest.param({"priority": 2_000_000_000}, {}, id="critical"),
    pytest.param({"priority": 50}, {"spare_priority": 50}, id="a priority that is spared"),
    pytest.param({"local": True}, {}, id="local storage"),
    pytest.param({"scheduler": "default-scheduler"}, {}, id="another scheduler's"),
    pytest.param({"on": "", "phase": "Pending"}, {}, id="promised and not there yet"),
]


@pytest.mark.parametrize(("more", "options"), PROTECTED)
@pytest.mark.parametrize("mode", ["product", "paper"])
def test_who_is_protected_never_goes(more: dict[str, Any], options: dict[str, Any], mode: str) -> None:
    there = [{"on": "a", **more}]
    view = columns([node("a", cpu=1)])
    for kind in there:
        view.take(0, running("kept", cpu=1, **kind))
    waiting = pod("p", 0.5, priority=2_000_001_000, restart="Always")
    seen = PoolObservation(NOW, (waiting,), confirmed=NOW)
    assert not isinstance(decode(mode=mode, **options).select_victims(waiting, 0, view, seen, True, {}), Victims)


@pytest.mark.parametrize(
    ("more", "options"),
    [
        pytest.param({"annotations": {"elasticd.io/do-not-disrupt": "false"}}, {}, id="may be disrupted, it says"),
        pytest.param({"namespace": "kube-system"}, {"spare_namespaces": []}, id="no namespace is spared"),
        pytest.param({"local": True}, {"local_storage": True}, id="local storage is allowed"),
        pytest.param({"scheduler": "default-scheduler"}, {"others": True}, id="other schedulers' are allowed"),
        pytest.param({"priority": 49}, {"spare_priority": 50}, id="below the priority that is spared"),
        pytest.param({"labels": {"tier": "db"}}, {"spare_labels": {"tier": "web"}}, id="another value of a label"),
        pytest.param({"owner": ("ReplicaSet", "web-1", "u1")}, {}, id="of a ReplicaSet"),
    ],
)
def test_options_say_who_else_may_go(more: dict[str, Any], options: dict[str, Any]) -> None:
    assert names(chosen(decode(**options), URGENT, [running("it", cpu=1, **more)])) == ["it"]


@pytest.mark.parametrize(
    ("started", "created", "expected"),
    [
        pytest.param(NOW + 600, NOW - 60, ["it"], id="ahead, and long enough"),
        pytest.param(NOW + 600, NOW - 59, None, id="ahead, and not long enough"),
    ],
)
def test_a_clock_that_is_ahead_makes_no_pod_younger(started: float, created: float, expected: list[str] | None) -> None:
    """It is as old as the API server says."""
    there = [running("it", cpu=1, started=started, created=created)]
    assert names(chosen(decode(), pod("p", 0.5, priority=9, restart="Always"), there)) == expected


@pytest.mark.parametrize(
    ("started", "options", "expected"),
    [
        pytest.param(NOW - 60, {}, ["it"], id="long enough"),
        pytest.param(NOW - 59, {}, None, id="not long enough"),
        pytest.param(None, {}, None, id="not known since when"),
        pytest.param(NOW - 59, {"min_run": 10}, ["it"], id="long enough by option"),
        pytest.param(None, {"min_run": 0}, ["it"], id="no minimum"),
        pytest.param(NOW - 1, {"mode": "paper"}, ["it"], id="the thesis knows no minimum"),
    ],
)
def test_a_pod_runs_for_a_minimum_before_it_gives_way(
    started: float | None, options: dict[str, Any], expected: list[str] | None
) -> None:
    waiting = pod("p", 0.5, priority=9, restart="Always")
    assert names(chosen(decode(**options), waiting, [running("it", cpu=1, started=started)])) == expected


def budget(allowed: int, *pods: str, name: str = "b", namespace: str = "shop") -> DisruptionBudget:
    return DisruptionBudget(namespace, name, frozenset(f"uid-{one}" for one in pods), allowed)


TWO = [running("x", cpu=0.5, memory=2 * GIB), running("y", cpu=0.5, memory=1 * GIB)]


@pytest.mark.parametrize(
    ("budgets", "cpu", "expected"),
    [
        pytest.param((budget(1, "x", "y"),), 0.5, ["x"], id="one may go, and one is needed"),
        pytest.param((budget(1, "x", "y"),), 1.0, None, id="one may go, and two are needed"),
        pytest.param((budget(0, "x"),), 0.5, ["y"], id="the first may not, so the second goes"),
        pytest.param((budget(0, "x"), budget(0, "y", name="c")), 0.5, None, id="neither may"),
        pytest.param((budget(2, "x", "y"), budget(0, "y", name="c")), 0.5, ["x"], id="the stricter of two holds"),
        pytest.param((budget(-1, "x", "y"),), 0.5, None, id="overdrawn already"),
        pytest.param((), 1.0, ["x", "y"], id="no budgets"),
    ],
)
def test_budgets_are_a_hard_limit(
    budgets: tuple[DisruptionBudget, ...], cpu: float, expected: list[str] | None
) -> None:
    waiting = pod("p", cpu, priority=9, restart="Always")
    assert names(chosen(decode(), waiting, TWO, budgets=budgets)) == expected


@pytest.mark.parametrize(
    ("gave_way", "most", "expected"),
    [
        pytest.param(0, 2, ["x", "y"], id="as many as may"),
        pytest.param(0, 1, None, id="more than may"),
        pytest.param(1, 2, None, id="more than may with those before"),
        pytest.param(1, 3, ["x", "y"], id="as many as may with those before"),
    ],
)
def test_the_victims_of_one_pod_are_bounded_in_all(gave_way: int, most: int, expected: list[str] | None) -> None:
    waiting = pod("p", 1.0, priority=9)
    assert names(chosen(decode(most_victims=most), waiting, TWO, gave_way={"uid-p": gave_way})) == expected


@pytest.mark.parametrize(
    ("leaving", "cpu", "expected"),
    [
        pytest.param(["x"], 0.5, [], id="enough is leaving"),
        pytest.param(["x"], 0.8, ["y"], id="more is needed than is leaving"),
        pytest.param(["x", "y"], 1.0, [], id="all are leaving"),
        pytest.param(["x", "y"], 1.5, None, id="all that leave would not suffice"),
    ],
)
@pytest.mark.parametrize("mode", ["product", "paper"])
def test_who_is_leaving_already_counts_as_gone(
    leaving: list[str], cpu: float, expected: list[str] | None, mode: str
) -> None:
    there = [replace(one, deleted=one.name in leaving) for one in TWO]
    waiting = pod("p", cpu, priority=9, restart="Always")
    assert names(chosen(decode(mode=mode), waiting, there)) == expected


def test_a_port_whose_owner_is_leaving_takes_no_other_victim() -> None:
    there = [running("x", ports=(Port(80),), deleted=True), running("y", ports=(Port(81),))]
    assert names(chosen(decode(), pod("p", priority=9, ports=(Port(80),)), there)) == []


@pytest.mark.parametrize(
    ("use", "expected", "said"),
    [
        pytest.param({"shop/x": 0.1, "shop/y": 0.4}, "y", "restartPolicy Always goes before Never", id="who uses more"),
        pytest.param(
            {"shop/x": 0.1}, "y", "restartPolicy Always goes before Never; of 1 the use of CPU is not known, so the "
            "request counts", id="the request of whom nothing is known",
        ),
        pytest.param(
            {"shop/x": 0.6, "shop/y": nan}, "x", "restartPolicy Always goes before Never", id="NaN is not known"
        ),
        pytest.param(
            {}, "x", "restartPolicy Always goes before Never; of 1 the use of CPU is not known, so the request counts",
            id="nothing is known",
        ),
    ],
)  # fmt: skip
def test_of_equal_memory_the_one_that_uses_more_cpu_goes(use: dict[str, float], expected: str, said: str) -> None:
    there = [running("x", cpu=0.5), running("y", cpu=0.5)]
    waiting = pod("p", 0.4, restart="Always")
    for strategy in (decode(), PAPER):
        victims = chosen(strategy, waiting, there, use={"cpu": use})
        assert victims is not None
        assert (names(victims), victims.why) == ([expected], said)


def test_it_says_how_many_have_gone_for_it_before() -> None:
    use = {"cpu": {"shop/x": 0.1}}
    more: dict[str, Any] = {"use": use, "gave_way": {"uid-p": 2}}
    victims = chosen(decode(), pod("p", 1, priority=9), [running("x", cpu=1)], **more)
    assert victims is not None
    assert victims.why == "1 of lower priority; 2 have been preempted for it already"


def test_it_says_why_they_go() -> None:
    there = [running("a1", "Always", cpu=0.5), running("a2", "Never", cpu=0.5, priority=9)]
    use = {"cpu": {"shop/a1": 0.1, "shop/a2": 0.1}}
    victims = chosen(decode(), pod("p", 1, priority=9, restart="OnFailure"), there, use=use)
    assert victims is not None
    assert victims.why == "1 of lower priority; restartPolicy OnFailure goes before Never"


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        pytest.param([{"priority": 5}], [{"priority": 4}], "b", id="the lower of the highest priorities"),
        pytest.param([{"priority": 5}], [{"priority": 4}] * 4, "b", id="whatever their number"),
        pytest.param([{"restart": "OnFailure"}], [{"restart": "Never"}], "b", id="of equal priority the lower class"),
        pytest.param([{"priority": 5}, {"priority": 4}], [{"priority": 5}, {"priority": 1}], "b", id="the lower sum"),
        pytest.param([{}, {}], [{}], "b", id="the fewer"),
        pytest.param([{"started": OLD}], [{"started": OLD + 9}], "b", id="who started last"),
        pytest.param([{"started": OLD}], [{"started": OLD}], "a", id="of equal ones the first"),
    ],
)
def test_of_several_nodes_the_least_harm_is_done(
    a: list[dict[str, Any]], b: list[dict[str, Any]], expected: str
) -> None:
    there = [
        running(f"{on}{index}", cpu=1 / len(pods), **{"on": on, **more})
        for on, pods in (("a", a), ("b", b))
        for index, more in enumerate(pods)
    ]
    view = columns([node("a", cpu=1), node("b", cpu=1)], there)
    assert verdicts(planned([Filters(), decode()], view, [pod("p", 1, priority=9, restart="Always")])) == [
        ("preempt", expected)
    ]


def test_in_the_thesis_the_first_node_with_enough_victims_wins() -> None:
    there = [running("a1", "OnFailure", cpu=1), running("b1", "Never", cpu=1, on="b")]
    view = columns([node("a", cpu=1), node("b", cpu=1)], there)
    assert verdicts(planned([Filters(), PAPER], view, [pod("p", 1)])) == [("preempt", "a")]


@pytest.mark.parametrize(
    ("options", "forced", "expected"),
    [
        pytest.param({}, False, ["it"], id="for all"),
        pytest.param({"only_forced": True}, True, ["it"], id="only by force, and it is"),
        pytest.param({"only_forced": True}, False, None, id="only by force, and it is not"),
    ],
)
def test_it_may_be_for_forced_bindings_alone(options: dict[str, Any], forced: bool, expected: list[str] | None) -> None:
    assert names(chosen(decode(**options), URGENT, [running("it", cpu=1)], forced=forced)) == expected


def test_without_restart_classes_equal_priorities_are_equal() -> None:
    there = [running("it", "Never", cpu=1)]
    assert chosen(decode(restart_classes=False), pod("p", restart="Always"), there) is None
    assert names(chosen(decode(restart_classes=False), URGENT, there)) == ["it"]


def test_a_pod_whose_policy_is_never_to_preempt_waits() -> None:
    view = columns([node("a", cpu=1)], [running("it", cpu=1)])
    (decision,) = planned([Filters(), decode()], view, [replace_needs(URGENT, preempts=False)])
    assert decision.verdict == "wait"
    assert decision.message.endswith("; no pod is preempted for it, as its preemptionPolicy is Never")


def test_the_thesis_knows_no_priorities() -> None:
    there = [running("it", "Never", cpu=1, priority=1000)]
    assert names(chosen(PAPER, pod("p", restart="OnFailure"), there)) == ["it"]
    assert chosen(PAPER, pod("p", restart="Never", priority=2000), there) is None
