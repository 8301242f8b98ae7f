"""Preemption: who gives way, and how few."""

from collections.abc import Iterable, Sequence
from math import nan
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from msgspec.structs import replace

from elasticd.api import (
    Disk,
    DisruptionBudget,
    Expression,
    Node,
    Pod,
    PoolObservation,
    PoolPolicy,
    PoolSelect,
    Port,
    Repel,
    Spared,
    Victims,
)
from elasticd.kit.evictability import AUTOSCALER, KARPENTER
from elasticd.kit.node_table import NodeTable
from elasticd.model.actions import Bind, Evict, Nominate
from elasticd.model.placement import PodDecision
from elasticd.testing import check_strategy, registry
from elasticd_plugins import filters, preemption
from elasticd_plugins.filters import Filters
from elasticd_plugins.preemption import Preemption
from elasticd_plugins.preemption.groups import CLASSES
from tests.kit.policies import load_pool
from tests.kit.pools import GIB, MIB, NOW, columns, node, planned, pod, refused

OLD = NOW - 1000


def decode(**options: Any) -> Preemption:
    return msgspec.convert({"type": "preemption", **options}, Preemption)


PAPER = decode(mode="paper")


def running(name: str, restart: str = "Never", cpu: float = 0.1, memory: float = 64 * MIB, **more: Any) -> Pod:
    """One that has run on node a for long."""
    return pod(name, cpu, memory, **{"on": "a", "restart": restart, "started": OLD, **more})


def chosen(
    strategy: Preemption, waiting: Pod, there: Iterable[Pod], has: Node | None = None, forced: bool = False, **more: Any
) -> Victims | None:
    """The victims on a node of one core with 8 GiB; None: nobody gives way."""
    found = asked(strategy, waiting, there, has, forced, **more)
    return found if isinstance(found, Victims) else None


def asked(
    strategy: Preemption, waiting: Pod, there: Iterable[Pod], has: Node | None = None, forced: bool = False, **more: Any
) -> Victims | Spared | None:
    """The answer about the same."""
    seen = PoolObservation(NOW, (waiting,), confirmed=NOW, **more)
    return strategy.select_victims(waiting, 0, columns([has or node("a", cpu=1)], there), seen, forced, {})


def names(victims: Victims | None) -> list[str] | None:
    return None if victims is None else [one.name for one in victims.pods]


def verdicts(decisions: Iterable[PodDecision]) -> list[tuple[str, str]]:
    return [(one.verdict, one.node) for one in decisions]


# Thesis, table 6-11 (algorithms T-3).
NODE2 = node("a", cpu=1.7, memory=3500 * MIB)  # 2 cores and 4 GB, of which the system has some
SIX = [
    running("pod1", "Never", 0.4, 800 * MIB),
    running("pod2", "OnFailure", 0.4, 800 * MIB),
    running("pod3", "Always", 0.4, 800 * MIB),
    running("pod4", "Never", 0.1, 200 * MIB),
    running("pod5", "OnFailure", 0.1, 200 * MIB),
    running("pod6", "Always", 0.1, 200 * MIB),
]


@pytest.mark.parametrize(
    ("restart", "cpu", "memory", "expected", "free"),
    [
        pytest.param("Never", 0.3, 1000, None, (200, 500), id="neverPod1"),
        pytest.param("Never", 0.5, 2000, None, (200, 500), id="neverPod2"),
        pytest.param("OnFailure", 0.3, 1000, ["pod1"], (600, 1300), id="onfailurePod1"),
        pytest.param("OnFailure", 0.5, 2000, None, (200, 500), id="onfailurePod2"),
        pytest.param("Always", 0.3, 1000, ["pod1"], (600, 1300), id="alwaysPod1"),
        pytest.param("Always", 0.5, 2000, ["pod1", "pod4", "pod2"], (1100, 2300), id="alwaysPod2"),
    ],
)
def test_t3_table_6_11_of_the_thesis(
    restart: str, cpu: float, memory: float, expected: list[str] | None, free: tuple[int, int]
) -> None:
    view = columns([NODE2], SIX)
    (decision,) = planned([Filters(), PAPER], view, [pod("new", cpu, memory * MIB, restart=restart)])
    gone = [action.workload.name for action in decision.actions if isinstance(action, Evict)]
    assert gone == (expected or [])
    assert decision.verdict == ("preempt" if expected else "wait")
    left = columns([NODE2], [one for one in SIX if one.name not in gone])
    assert free == (
        1700 - int(left.requested("cpu")[0]),
        3500 - int(left.requested("memory")[0] / MIB),
    )


def test_t3_in_product_mode_who_is_not_needed_stays() -> None:
    waiting = pod("alwaysPod2", 0.5, 2000 * MIB, restart="Always")
    (decision,) = planned([Filters(), decode()], columns([NODE2], SIX), [waiting])
    # pod4's 200Mi are not needed where pod1 and pod2 go.
    assert [one.workload.name for one in decision.actions if isinstance(one, Evict)] == ["pod1", "pod2"]


# Thesis, figure 6-4 (algorithms T-4).
class Figure:
    """One node with room for so many pods, to which batches are given until nothing moves any more."""

    def __init__(self, strategy: Preemption, room: int) -> None:
        self.strategy, self.node = strategy, node("node3", cpu=4, memory=room * 50.0 * MIB, pods=1000)
        self.on: list[Pod] = []
        self.waiting: list[Pod] = []
        self.made = 0

    def offer(self, batch: Sequence[str]) -> None:
        for kind in batch:
            self.come(pod(f"p{self.made:04}", 0.01, 50 * MIB, restart=kind))
        while self._step():
            pass

    def come(self, one: Pod) -> None:
        """It waits, newer than all others."""
        self.made += 1
        self.waiting.append(replace(one, uid=f"uid-{self.made}", created=NOW + self.made, phase="Pending", node=""))

    def _step(self) -> bool:
        """Plan once, and do it all: those who are evicted wait anew."""
        view = columns([self.node], self.on)
        decisions = planned([Filters(), self.strategy], view, self.waiting, pool=PoolSelect(order="fifo"))
        actions = [action for one in decisions for action in one.actions]
        bound = {action.uid for action in actions if isinstance(action, Bind)}
        gone = {action.uid for action in actions if isinstance(action, Evict)}
        noted = {action.uid: action.node for action in actions if isinstance(action, Nominate)}
        came = [replace(one, node="node3", phase="Running", started=OLD) for one in self.waiting if one.uid in bound]
        left = [one for one in self.on if one.uid in gone]
        self.waiting = [replace(one, nominated=noted.get(one.uid, one.nominated)) for one in self.waiting]
        self.waiting = [one for one in self.waiting if one.uid not in bound]
        self.on = [one for one in self.on if one.uid not in gone] + came
        for one in left:
            self.come(one)
        return bool(actions)

    @property
    def counts(self) -> tuple[int, ...]:
        kinds = [one.needs.restart for one in self.on]
        return tuple(kinds.count(kind) for kind in ("Always", "OnFailure", "Never"))


ORDERS = {
    "important first": ["Always", "OnFailure", "Never"] * 10,
    "important last": ["Never", "OnFailure", "Always"] * 10,
    "by class": ["Never"] * 10 + ["Always"] * 10 + ["OnFailure"] * 10,
}
FIGURE = {
    150: (50, 50, 50),
    180: (60, 60, 30),
    210: (70, 70, 10),
    240: (80, 70, 0),
    300: (100, 50, 0),
    390: (130, 20, 0),
    450: (150, 0, 0),
    480: (150, 0, 0),
}


@pytest.mark.parametrize(
    ("mode", "order"), [("paper", "important last"), ("paper", "by class"), ("product", "important first")]
)
def test_t4_figure_6_4_holds_for_any_batch_order(mode: str, order: str) -> None:
    figure, found = Figure(decode(mode=mode), 150), {}
    for requested in range(30, 481, 30):
        figure.offer(ORDERS[order])
        found[requested] = figure.counts
    assert {requested: found[requested] for requested in FIGURE} == FIGURE


@given(some.data(), some.integers(2, 12), some.sampled_from(["paper", "product"]))
@settings(max_examples=25)
def test_t4_counts_do_not_depend_on_the_batch_order(data: some.DataObject, room: int, mode: str) -> None:
    figure = Figure(decode(mode=mode), room)
    for batch in range(1, 5):
        figure.offer(data.draw(some.permutations(["Always", "OnFailure", "Never"] * 2)))
        each = 2 * batch
        always = min(each, room)
        failure = min(each, room - always)
        assert figure.counts == (always, failure, min(each, room - always - failure))


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
    assert victims.why == "1 of lower priority; 2 have given way for it already"


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
    assert decision.message.endswith("; nobody gives way for it, as its preemptionPolicy is Never")


def test_the_thesis_knows_no_priorities() -> None:
    there = [running("it", "Never", cpu=1, priority=1000)]
    assert names(chosen(PAPER, pod("p", restart="OnFailure"), there)) == ["it"]
    assert chosen(PAPER, pod("p", restart="Never", priority=2000), there) is None


# Random pools.
KINDS = some.sampled_from(["Always", "OnFailure", "Never"])


@some.composite
def pods_on(draw: some.DrawFn, name: str, on: str) -> Pod:
    own: dict[str, Any] = draw(
        some.sampled_from(
            [
                *({}, {}, {}, {"static": True}, {"owner": ("DaemonSet", "d", "u")}, {"namespace": "kube-system"}),
                *({"annotations": {"elasticd.io/do-not-disrupt": "true"}}, {"deleted": True}, {"local": True}),
            ]
        )
    )
    return pod(
        name,
        draw(some.sampled_from([0.0, 0.1, 0.5, 1.0])),
        draw(some.sampled_from([0.0, 0.5, 1.0, 2.0])) * GIB,
        on=on,
        restart=draw(KINDS),
        priority=draw(some.sampled_from([-5, 0, 0, 7, 2_000_000_000])),
        scheduler=draw(some.sampled_from(["elasticd", "elasticd", "elasticd", "default-scheduler"])),
        started=draw(some.sampled_from([None, NOW - 10, NOW - 100, NOW - 1000])),
        ports=draw(some.sampled_from([(), (), (Port(80),), (Port(81),)])),
        **own,
    )


@some.composite
def pools(draw: some.DrawFn) -> tuple[NodeTable, list[Pod], list[Pod], tuple[DisruptionBudget, ...]]:
    """Up to three nodes with pods and budgets, and pods that wait."""
    nodes = [node(name, cpu=draw(some.sampled_from([1.0, 2.0])), memory=4 * GIB, pods=6) for name in "abc"]
    there = [
        draw(pods_on(f"{one.name}{index}", one.name))
        for one in nodes[: draw(some.integers(1, 3))]
        for index in range(draw(some.integers(0, 6)))
    ]
    waiting = [
        pod(
            f"w{index}",
            draw(some.sampled_from([0.1, 0.5, 1.0, 2.0])),
            draw(some.sampled_from([0.5, 2.0, 4.0])) * GIB,
            restart=draw(KINDS),
            priority=draw(some.sampled_from([-5, 0, 7, 100])),
            ports=draw(some.sampled_from([(), (Port(80),)])),
        )
        for index in range(draw(some.integers(1, 4)))
    ]
    uids = some.sampled_from([one.uid for one in there if one.namespace == "shop"] or ["none"])
    groups = draw(some.lists(some.tuples(some.frozensets(uids), some.integers(-1, 2)), max_size=2))
    budgets = tuple(DisruptionBudget("shop", f"b{index}", *group) for index, group in enumerate(groups))
    return columns(nodes, there), there, waiting, budgets


@given(pools(), some.sampled_from(["product", "paper"]))
@settings(max_examples=150)
def test_victims_are_lesser_and_unprotected_within_budgets_and_they_suffice(
    pool: tuple[NodeTable, list[Pod], list[Pod], tuple[DisruptionBudget, ...]], mode: str
) -> None:
    view, there, waiting, budgets = pool
    known, strategy = {one.uid: one for one in there}, decode(mode=mode)
    decisions = planned([Filters(), strategy], view, waiting, budgets)
    by_uid, gone = {one.uid: one for one in waiting}, list[Pod]()
    for decision in decisions:
        preemptor = by_uid[decision.uid]
        for action in decision.actions:
            if isinstance(action, Evict):
                victim = known[action.uid]
                gone.append(victim)
                assert victim.node == decision.node
                assert _rank(victim, mode) < _rank(preemptor, mode)
                assert not any((victim.static, victim.deleted, victim.needs.local, victim.annotations))
                assert victim.owner[0] != "DaemonSet"
                assert victim.namespace != "kube-system"
                assert victim.needs.priority < 2_000_000_000
                assert victim.needs.scheduler == preemptor.needs.scheduler
                assert mode == "paper" or (victim.started is not None and victim.started <= NOW - 60)
    assert len({one.uid for one in gone}) == len(gone)
    for one in budgets:
        assert len([victim for victim in gone if victim.uid in one.pods]) <= max(0, one.allowed)
    _suffices(view, decisions, [*there, *waiting], gone)


def _rank(one: Pod, mode: str) -> tuple[int, int]:
    return (0 if mode == "paper" else one.needs.priority), CLASSES[one.needs.restart]


def _suffices(view: NodeTable, decisions: Sequence[PodDecision], pods: Sequence[Pod], gone: Sequence[Pod]) -> None:
    """Once all who go have gone, everybody who is on a node of somebody who gave way, or came there, has room."""
    left = [one for one in pods if one.node and one not in gone and not one.deleted]
    comes = {decision.uid: decision.node for decision in decisions if decision.node}
    came = [replace(one, node=comes[one.uid]) for one in pods if one.uid in comes]
    after = columns(view.nodes, left + came)
    for decision in decisions:
        if decision.verdict == "preempt":
            place = after.names.index(decision.node)
            for resource in ("cpu", "memory", "pods"):
                had = sum(one.counted.get(resource, 0) for one in pods if one.node == decision.node)
                overfull = had > view.nodes[place].allocatable[resource]
                assert overfull or after.requested(resource)[place] <= after.allocatable(resource)[place]


@given(pools())
@settings(max_examples=40)
def test_equal_pools_have_equal_plans(
    pool: tuple[NodeTable, list[Pod], list[Pod], tuple[DisruptionBudget, ...]],
) -> None:
    view, there, waiting, budgets = pool
    again = columns(view.nodes, there[::-1])
    strategies = [Filters(), decode()]
    first = planned(strategies, view, waiting, budgets)
    assert first == planned(strategies[::-1], again, waiting[::-1], budgets[::-1])


LESSER: dict[str, Any] = {"cpu": 1, "priority": -1}
OTHERS: dict[str, Any] = {"scheduler": "default-scheduler"}
ASKS: dict[str, Any] = {"annotations": {"elasticd.io/do-not-disrupt": "true"}}
REFUSED = DisruptionBudget(
    "shop", "x", frozenset({"uid-x"}), 0, "were not let go a moment ago (Disturbed)", "[disruption] lets more pods go"
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
            "lesser pods were not let go a moment ago (Disturbed)",
            "[disruption] lets more pods go",
            id="refused a moment ago",
        ),
        pytest.param(
            {},
            [running("x", **LESSER)],
            {"budgets": (replace(REFUSED, why="were not let go a moment ago (Blackout)", mend=""),)},
            "lesser pods were not let go a moment ago (Blackout)",
            "",
            id="refused a moment ago, and nobody can do anything",
        ),
        pytest.param(
            {},
            [running("x", cpu=0.5, priority=-1), running("y", cpu=0.5, priority=-1, local=True)],
            {"budgets": (replace(REFUSED, mend=""),)},
            "lesser pods have local storage or were not let go a moment ago (Disturbed)",
            "",
            id="nor does what helps one do without the other",
        ),
        pytest.param(
            {"most_victims": 2},
            [running("x", cpu=0.5, priority=-1), running("y", cpu=0.5, priority=-1)],
            {"gave_way": {"uid-p": 1}},
            "more would have to go than most_victims = 2, as 1 has given way for it already",
            "",
            id="too many, as one gave way in vain",
        ),
        pytest.param(
            {"most_victims": 1},
            [running("x", cpu=0.5, priority=-1), running("y", cpu=0.5, priority=-1)],
            {"gave_way": {"uid-p": 2}},
            "more would have to go than most_victims = 1, as 2 have given way for it already",
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
            id="most_victims, with one that gave way before",
        ),
        pytest.param(
            [running("x0", cpu=0.5, started=NOW), running("x1", cpu=0.5)],
            {"gave_way": {"uid-p": 9}},
            "",
            id="nothing where it would be too many again, as others gave way in vain",
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


def test_where_too_much_keeps_pods_nothing_is_told() -> None:
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


@pytest.mark.parametrize("options", [{}, {"mode": "paper"}, {"only_forced": True, "min_run": 0, "most_victims": 1}])
def test_it_does_nothing_that_no_strategy_may(options: dict[str, Any]) -> None:
    assert check_strategy(decode(**options)) == []


POOL = PoolPolicy(name="pool", pool=PoolSelect(), strategies=())


def line(strategy: Preemption, *there: Pod, **use: float) -> list[tuple[str, str, str]]:
    """Who would have to give way, the first first, and what keeps each."""
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
            id="paper: Always gives way to nobody",
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
            "to those of higher priority, and of equal priority to those of a higher restartPolicy "
            "(Never, OnFailure, Always); at most 10 for one pod",
            id="default",
        ),
        pytest.param(
            {"restart_classes": False, "most_victims": 3},
            "to those of higher priority; at most 3 for one pod",
            id="no classes",
        ),
        pytest.param(
            {"restart_classes": False, "only_forced": True},
            "to those of higher priority; at most 10 for one pod; "
            "only to those whose binding says resourceNotFit force",
            id="only forced",
        ),
        pytest.param(
            {"mode": "paper"},
            "to those of a higher restartPolicy (Never, OnFailure, Always), whatever their priority",
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
