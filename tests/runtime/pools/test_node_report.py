"""The nodes of a pool as a person looks at them, and the heaps of their pods."""

from collections.abc import Mapping, Sequence
from math import nan
from typing import Any

import pytest

from elasticd.kit.bindings import BINDING
from elasticd.model.moves import NodeLevel
from elasticd.model.placement import Turn
from elasticd.model.pod_spec import Expression, NodePreference, Repel, Taint, Term, TopologySpread
from elasticd.model.reports import HeapPod
from elasticd.model.workload import Pod
from elasticd.runtime.pools.node_report import asked_labels, heaps, report
from tests.kit.pools import GIB, MIB, NOW, columns, node, pod


def test_nodes_report_requests_and_use_and_omit_unknown_values() -> None:
    nodes = [node("a", cpu=4, memory=8 * GIB), node("b", unschedulable=True, taints=(Taint("x", "NoSchedule"),))]
    view = columns(nodes, [pod("p", cpu=1, memory=2 * GIB, on="a")], {"cpu": {"a": 3.0}, "memory": {"b": GIB}})
    a, b = report("pool", view)
    assert (a.node, a.state, a.pods, a.most_pods) == ("a", "ready", 1, 110)
    assert (a.requested, a.used) == ({"cpu": 1.0, "memory": 2 * GIB}, {"cpu": 3.0})
    assert (b.state, b.used, b.score) == ("cordoned, 1 taint", {"memory": GIB}, None)


def test_nodes_are_scored_by_their_load_beside_the_others() -> None:
    use = {"cpu": {"a": 3.0, "b": 1.0}, "memory": {"a": 6 * GIB, "b": 2 * GIB}}
    busy, idle = report("pool", columns([node("a"), node("b")], use=use))
    assert [busy.score, idle.score] == pytest.approx([-4.0547, 6.9315], abs=1e-4)


def test_the_most_loaded_is_first_or_whoever_levels_say_is() -> None:
    view = columns([node(name) for name in "abcd"], use={"cpu": {"a": 1.0, "b": 3.0, "c": 2.0, "d": 2.5}, "memory": {}})
    assert [one.node for one in report("pool", view)] == ["b", "d", "c", "a"]
    levels = [NodeLevel("c", "gives", ("cpu",), "why"), NodeLevel("a", "takes"), NodeLevel("gone", "level")]
    found = report("pool", view, levels)
    assert [one.node for one in found] == ["c", "a", "b", "d"]
    assert [one.level and one.level.state for one in found] == ["gives", "takes", None, None]


def heaped(
    *pods: Pod,
    use: dict[str, float] | None = None,
    stays: dict[str, str] | None = None,
    line: Sequence[Turn] | None = None,
) -> Mapping[str, Sequence[HeapPod]]:
    known = {"cpu": {f"shop/{name}": value for name, value in (use or {}).items()}}
    held = stays or {}
    moved = {f"uid-{name}": (word, "a sentence") for name, word in held.items()}
    leaving = {one.uid: ("Leaving", "it is being deleted") for one in pods if one.deleted}
    return heaps(pods, known, leaving, moved, line)


def never(name: str, memory: float = MIB, cpu: float = 0.1, **more: Any) -> Pod:
    return pod(name, cpu, memory, "a", **{"restart": "Never", "started": NOW, **more})


@pytest.mark.parametrize(
    ("pods", "use", "order"),
    [
        pytest.param(
            [never("s", MIB), never("l", GIB), never("m", 9 * MIB)], {}, "lms", id="the largest request first"
        ),
        pytest.param([never("a"), never("b"), never("c")], {"a": 0.1, "b": 0.3, "c": 0.2}, "bca", id="then cpu use"),
        pytest.param([never("a"), never("b", cpu=0.5)], {"a": 0.2}, "ba", id="a request where use is not known"),
        pytest.param([never("a"), never("b", cpu=0.5)], {"a": 0.2, "b": nan}, "ba", id="NaN is not known"),
        pytest.param([never("b"), never("a")], {}, "ab", id="then by name"),
        pytest.param([never("h", GIB, priority=5), never("l")], {}, "lh", id="lower priority before all"),
    ],
)
def test_a_heap_has_the_first_to_give_way_first(pods: list[Pod], use: dict[str, float], order: str) -> None:
    for given in (pods, pods[::-1]):
        assert "".join(one.name for one in heaped(*given, use=use)["Never"]) == order


def test_every_pod_is_in_its_restart_policys_heap_or_none() -> None:
    pods = [
        never("n"),
        pod("o", on="a", restart="OnFailure"),
        pod("a", on="a"),
        never("going", deleted=True),
        pod("set", on="a", owner=("DaemonSet", "d", "u")),
        never("critical", priority=2_000_000_000),
    ]
    found = heaped(*pods, use={"n": 0.25}, stays={"a": "Budget"})
    assert [[one.name for one in found[kind]] for kind in ("Never", "OnFailure", "Always")] == [["n"], ["o"], ["a"]]
    assert {one.name: one.stays for one in found["rooted"]} == {"set": "DaemonSet", "critical": "Critical"}
    assert [(one.name, one.stays, one.why) for one in found["leaving"]] == [("going", "Leaving", "it is being deleted")]
    (first,), (last,) = found["Never"], found["Always"]
    assert (first.requested, first.used, first.stays) == ({"cpu": 0.1, "memory": MIB}, {"cpu": 0.25}, "")
    assert (last.stays, last.why, last.used) == ("Budget", "a sentence", {})


def test_who_is_kept_comes_behind_those_who_are_not() -> None:
    found = heaped(never("a", GIB), never("b"), never("c"), stays={"a": "Budget"})["Never"]
    assert [(one.name, one.stays) for one in found] == [("b", ""), ("c", ""), ("a", "Budget")]


def test_heaps_follow_the_order_of_preemption_and_number_the_turns() -> None:
    pods = [never("n"), never("kept", GIB), pod("a", on="a"), pod("b", on="a", priority=9), never("unsaid")]
    of = {one.name: one for one in pods}
    line = [Turn(of["a"]), Turn(of["kept"], "Young", "it is young"), Turn(of["n"]), Turn(of["b"])]
    found = heaped(*pods, stays={"n": "Single"}, line=line)
    assert [(one.name, one.turn, one.spared, one.spared_why, one.stays) for one in found["Never"]] == [
        ("n", 2, "", "", "Single"),
        ("kept", 0, "Young", "it is young", ""),
        ("unsaid", 0, "", "", ""),
    ]
    assert [(one.name, one.turn) for one in found["Always"]] == [("a", 1), ("b", 3)]


def term(key: str) -> Term:
    return Term((Expression(key, "Exists"),))


@pytest.mark.parametrize(
    ("pool", "pods", "found"),
    [
        pytest.param({}, [], {"topology.kubernetes.io/zone"}, id="where it stands"),
        pytest.param({"tier": "front"}, [], {"topology.kubernetes.io/zone", "tier"}, id="its pool"),
        pytest.param({}, [pod("p", selector={"disk": "x"})], {"topology.kubernetes.io/zone", "disk"}, id="a selector"),
        pytest.param({}, [pod("p", affinity=(term("tier"),))], {"topology.kubernetes.io/zone", "tier"}, id="affinity"),
        pytest.param(
            {},
            [pod("p", repels=(Repel("rack", ()),))],
            {"topology.kubernetes.io/zone", "rack"},
            id="anti-affinity",
        ),
        pytest.param(
            {},
            [pod("p", spread=(TopologySpread("rack", 1, ()),), prefers_nodes=(NodePreference(term("disk"), 1),))],
            {"topology.kubernetes.io/zone", "rack", "disk"},
            id="a spread constraint and a preference",
        ),
        pytest.param(
            {},
            [pod("p", annotations={BINDING: '{"expressions": [{"key": "tier", "operator": "exists"}]}'})],
            {"topology.kubernetes.io/zone", "tier"},
            id="a binding",
        ),
        pytest.param(
            {}, [pod("p", annotations={BINDING: "{"})], {"topology.kubernetes.io/zone"}, id="one that cannot be read"
        ),
    ],
)
def test_of_labels_those_are_shown_that_somebody_asks_for(
    pool: dict[str, str], pods: list[Pod], found: set[str]
) -> None:
    labels = {"tier": "front", "disk": "ssd", "rack": "9", "topology.kubernetes.io/zone": "a"}
    assert set(asked_labels(node("a", labels=labels), pool, pods)) == found
