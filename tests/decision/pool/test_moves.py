"""Which pods are moved, of those that somebody wants moved."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from elasticd.api import (
    Column,
    DisruptionBudget,
    Mask,
    Move,
    Nodes,
    Places,
    PoolPast,
    Refusal,
    Scores,
    Strategy,
    hookimpl,
)
from elasticd.decision.pool.asking import PoolCase
from elasticd.decision.pool.moves import plan_moves
from elasticd.kit.evictability import AUTOSCALER, KARPENTER
from elasticd.kit.node_table import NodeTable, NodeTableBuilder
from elasticd.model.moves import Comebacks, Failing, MoveDecision, whose
from elasticd.model.placement import PoolObservation
from elasticd.model.pod_spec import Disk, PodClaim, Taint, Toleration
from elasticd.model.policy import MovesTable, PoolPolicy, PoolSelect
from elasticd.model.volumes import Storage
from elasticd.model.workload import Pod
from elasticd.registry import Hooks
from tests.kit.pools import NOW, columns, node, pod
from tests.kit.volumes import claim, storage, volume

OWNED = ("ReplicaSet", "web", "rs-1")
JOB, FOO = ("Job", "j", "rs-1"), ("example.com/v1/Foo", "x", "rs-1")


class Fits(Strategy, tag="fits", frozen=True):
    """Refuses nodes with too little cpu left."""

    @hookimpl
    def filter_nodes(self, pod: Pod, nodes: Nodes) -> Sequence[Refusal]:
        need = round(pod.counted["cpu"] * 1000)
        return [Refusal("Insufficient cpu", nodes.requested("cpu") + need > nodes.allocatable("cpu"), curable=True)]


class Leave(Strategy, tag="leave", frozen=True):
    """Wants all pods off a node."""

    node: str
    how: str = "reschedule"
    benefit: float = 0.0
    disruption: float = 0.0

    @hookimpl
    def rebind_pods(self, nodes: Nodes, past: PoolPast) -> Sequence[Move]:
        index = nodes.names.index(self.node)
        how: Any = self.how
        return [
            Move(one, "Leaves", how=how, benefit=self.benefit, disruption=self.disruption) for one in nodes.pods(index)
        ]


class Hot(Strategy, tag="hot", frozen=True):
    """Wants the first pod off a node."""

    node: str

    @hookimpl
    def rebalance_nodes(self, nodes: Nodes) -> Sequence[Move]:
        return [Move(one, "Hot") for one in nodes.pods(nodes.names.index(self.node))[:1]]


def running(name: str, on: str = "a", **more: Any) -> Pod:
    return pod(name, on=on, **{"owner": OWNED, "started": NOW - 600, "ready": True, **more})


def moves(
    view: NodeTable,
    *strategies: Strategy,
    budgets: tuple[DisruptionBudget, ...] = (),
    confirmed: float = NOW,
    pool: PoolSelect | None = None,
    past: PoolPast | None = None,
    **table: Any,
) -> tuple[MoveDecision, ...]:
    select = pool or PoolSelect()
    policy = PoolPolicy(name="pool", pool=select, strategies=strategies, mode="act", moves=MovesTable(**table))
    observation = PoolObservation(NOW, budgets=budgets, confirmed=confirmed)
    return plan_moves(PoolCase(policy, observation, view, Hooks(strategies), past=past or PoolPast())).decisions


def told(decisions: Sequence[MoveDecision]) -> list[tuple[str, str]]:
    return [(one.pod.name, one.target or one.refusal) for one in decisions]


def test_hook_rebind_pods_is_followed_while_there_is_room() -> None:
    view = columns([node("a"), node("b", cpu=1)], [running(f"p{i}", cpu=0.4) for i in range(3)])
    assert told(moves(view, Fits(), Leave(node="a"))) == [("p0", "b"), ("p1", "b"), ("p2", "Enough")]


def test_hook_rebalance_nodes_comes_after_and_moves_no_pod_twice() -> None:
    view = columns([node("a"), node("b")], [running(f"p{i}", cpu=0.4) for i in range(3)])
    first, second, third = moves(view, Fits(), Leave(node="a"), Hot(node="a"), single=True)
    assert [(one.pod.name, one.strategy) for one in (first, second, third)] == [
        ("p0", "leave"),
        ("p1", "leave"),
        ("p2", "leave"),
    ]
    assert told(moves(view, Fits(), Hot(node="a"))) == []


@pytest.mark.parametrize(
    ("rejecting", "target"),
    [pytest.param({"b"}, "c", id="one"), pytest.param({"b", "c"}, "b", id="all"), pytest.param({"x"}, "b", id="none")],
)
def test_pods_move_to_nodes_that_rejected_others_only_at_last(rejecting: set[str], target: str) -> None:
    view = columns([node("a"), node("b", cpu=9), node("c", cpu=1)], [running("p0"), running("p1")])
    decisions = moves(view, Fits(), Leave(node="a"), past=PoolPast(rejecting=frozenset(rejecting)))
    assert told(decisions)[0] == ("p0", target)


def test_where_it_fits_nowhere_else_it_stays() -> None:
    view = columns([node("a"), node("b", cpu=0.1)], [running("p0", cpu=0.4), running("p1", cpu=0.4)])
    (first, _) = moves(view, Fits(), Leave(node="a"))
    assert (first.verdict, first.refusal) == ("refuse", "NoOtherNode")
    assert "Insufficient cpu" in first.message


@pytest.mark.parametrize(
    ("more", "refusal"),
    [
        pytest.param({"static": True}, "Static", id="static"),
        pytest.param({"owner": ("Node", "a", "u")}, "Static", id="mirror"),
        pytest.param({"owner": ("DaemonSet", "d", "u")}, "DaemonSet", id="daemon set"),
        pytest.param({"priority": 2_000_000_000}, "Critical", id="critical"),
        pytest.param({"annotations": {"elasticd.io/do-not-disrupt": "true"}}, "DoNotDisrupt", id="annotation"),
        pytest.param({"annotations": {AUTOSCALER: "false"}}, "DoNotDisrupt", id="Cluster Autoscaler may not evict it"),
        pytest.param({"annotations": {KARPENTER: "true"}}, "DoNotDisrupt", id="Karpenter may not disrupt it"),
        pytest.param({"labels": {"app.kubernetes.io/name": "elasticd"}}, "Own", id="elasticd's own"),
        pytest.param({"owner": ("", "", ""), "owns": True}, "OwnsPods", id="owner of other pods"),
        pytest.param({"disks": (Disk("GCE disk", "d"),)}, "Disks", id="disk"),
        pytest.param({"owner": ("", "", ""), "restart": "Never"}, "RunsOnce", id="runs once"),
        pytest.param({"owner": JOB, "restart": "Never"}, "RunsOnce", id="of a Job"),
        pytest.param({"owner": JOB, "restart": "OnFailure"}, "RunsOnce", id="of a Job that restarts it"),
        pytest.param({"owner": JOB, "deleted": True}, "Leaving", id="of a Job, being deleted"),
        pytest.param({"owner": FOO}, "UnknownController", id="of a controller that nobody knows"),
        pytest.param({"owner": ("x.io/v1/ReplicaSet", "x", "rs-1")}, "UnknownController", id="of no real ReplicaSet"),
        pytest.param({"deleted": True}, "Leaving", id="being deleted"),
        pytest.param({"namespace": "kube-system"}, "Spared", id="kube-system"),
        pytest.param({"local": True}, "LocalStorage", id="local storage"),
        pytest.param({"claims": True}, "Claims", id="claims"),
        pytest.param({"owner": ("ReplicaSet", "x", "alone")}, "Single", id="single"),
        pytest.param({"started": NOW - 10}, "Young", id="young"),
        pytest.param({"started": None}, "Young", id="age unknown"),
        pytest.param({"started": NOW + 600, "created": NOW - 10}, "Young", id="young, and started in the future"),
        pytest.param({"started": NOW + 2, "created": NOW - 3600}, "Young", id="by a clock that is a little ahead"),
        pytest.param({"started": NOW + 600, "created": 0.0}, "Young", id="started in the future, and no more is known"),
        pytest.param({"unsupported": ("pod anti-affinity",)}, "NoOtherNode", id="unsupported"),
    ],
)
def test_who_must_stay_is_left_and_it_is_said_why(more: dict[str, Any], refusal: str) -> None:
    view = columns([node("a"), node("b")], [running("p0", **more), running("x", on="b"), running("y", on="b")])
    (decision,) = moves(view, Fits(), Leave(node="a"))
    assert (decision.refusal, decision.action) == (refusal, None)


ALONE = ("", "", "")
STAYS: Mapping[str, Mapping[str, Any]] = {
    "static": {"static": True},
    "mirror": {"owner": ("Node", "a", "u")},
    "daemon set": {"owner": ("DaemonSet", "d", "u")},
    "critical": {"priority": 2_000_000_000},
    "annotation": {"annotations": {"elasticd.io/do-not-disrupt": "true"}},
    "Cluster Autoscaler": {"annotations": {AUTOSCALER: "false"}},
    "Karpenter": {"annotations": {KARPENTER: "true"}},
    "own": {"labels": {"app.kubernetes.io/name": "elasticd"}},
    "owner": {"owner": ALONE, "owns": True},
    "disk": {"disks": (Disk("GCE disk", "d"),)},
    "runs once": {"owner": ALONE, "restart": "Never"},
    "Job": {"owner": JOB, "restart": "OnFailure"},
    "unknown controller": {"owner": FOO},
    "kube-system": {"namespace": "kube-system"},
    "local storage": {"local": True},
    "claims": {"claims": True},
    "leaving": {"deleted": True},
    "young": {"started": NOW - 10},
}
"""What keeps a pod where it is, whatever else is true of it; of two that say the same, the last counts."""


@given(
    some.lists(some.lists(some.sampled_from(sorted(STAYS)), max_size=3), max_size=12),
    some.sampled_from([(Leave("a"),), (Hot("a"),), (Hot("a"), Leave("a")), (Leave("a", "kill"),)]),
)
def test_no_plan_moves_a_pod_that_must_stay(drawn: list[list[str]], strategies: tuple[Strategy, ...]) -> None:
    pods = []
    for index, names in enumerate(drawn):
        more = {key: what for name in names for key, what in STAYS[name].items()}
        pods.append(running(f"p{index}", **more))
    beside = [running(name, on="b") for name in "xy"]
    found = moves(columns([node("a"), node("b")], [*pods, *beside]), Fits(), *strategies, single=True)
    stay = {f"p{index}" for index, names in enumerate(drawn) if names}
    moved = {one.pod.name for one in found if one.action is not None}
    assert not moved & stay
    assert all(one.refusal for one in found if one.pod.name in stay)
    if Leave("a") in strategies and len(stay) < len(drawn):
        assert moved, "the others go"


@pytest.mark.parametrize(
    ("table", "more"),
    [
        pytest.param({"local_storage": True}, {"local": True}, id="local storage"),
        pytest.param({"claims": True}, {"claims": True}, id="claims"),
        pytest.param({"claims": True}, {"disks": (Disk("GCE disk", "d"),)}, id="disk"),
        pytest.param({"rerun": True}, {"owner": ("", "", ""), "restart": "Never"}, id="runs once"),
        pytest.param({"rerun": True}, {"owner": JOB, "restart": "Never"}, id="of a Job"),
        pytest.param({"controllers": ("example.com/v1/Foo",)}, {"owner": FOO}, id="of a controller that it names"),
        pytest.param({}, {"owner": ("apps.kruise.io/v1alpha1/CloneSet", "x", "rs-1")}, id="of a CloneSet"),
        pytest.param({}, {"annotations": {AUTOSCALER: "true", KARPENTER: "false"}}, id="may be evicted, it says"),
        pytest.param({"single": True}, {"owner": ("ReplicaSet", "x", "alone")}, id="single"),
        pytest.param({}, {"owns": True}, id="owner of other pods, and replaced"),
        pytest.param({"spared": ()}, {"namespace": "kube-system"}, id="kube-system"),
        pytest.param({"min_age": 0.0}, {"started": NOW}, id="young"),
        pytest.param({"min_age": 0.0}, {"started": NOW + 600}, id="started by a clock that was ahead"),
    ],
)
def test_what_a_policy_allows_is_moved(table: dict[str, Any], more: dict[str, Any]) -> None:
    view = columns([node("a"), node("b")], [running("p0", **more), running("x", on="b"), running("y", on="b")])
    assert told(moves(view, Fits(), Leave(node="a"), **table)) == [("p0", "b")]


DATA: dict[str, Any] = {"claims": True, "volume_claims": (PodClaim("data"),)}


def bound(*modes: str) -> Storage:
    """A bound claim with these access modes."""
    return storage(claim("data", volume="pv", modes=modes), volume("pv", modes=modes))


RWO, RWX = bound("ReadWriteOnce"), bound("ReadWriteMany")


@pytest.mark.parametrize(
    ("known", "other", "expected"),
    [
        pytest.param(RWO, {}, "SharedVolume", id="ReadWriteOnce"),
        pytest.param(bound("ReadWriteOncePod"), {}, "SharedVolume", id="ReadWriteOncePod"),
        pytest.param(RWX, {}, "b", id="ReadWriteMany"),
        pytest.param(bound("ReadOnlyMany"), {}, "b", id="ReadOnlyMany"),
        pytest.param(bound("ReadWriteOnce", "ReadWriteMany"), {}, "b", id="both"),
        pytest.param(RWO, {"on": "b"}, "b", id="the other is on another node"),
        pytest.param(RWO, {"on": ""}, "b", id="the other waits"),
        pytest.param(RWO, {"phase": "Pending", "ready": None}, "SharedVolume", id="the other starts"),
        pytest.param(RWO, {"phase": "Succeeded"}, "b", id="the other has completed"),
        pytest.param(RWO, {"phase": "Failed"}, "b", id="the other has failed"),
        pytest.param(RWO, {"deleted": True}, "b", id="the other is being deleted"),
        pytest.param(RWO, {"volume_claims": (PodClaim("logs"),)}, "b", id="the other has another claim"),
        pytest.param(RWO, {"namespace": "mall"}, "b", id="the claim of another namespace"),
        pytest.param(RWO, {"volume_claims": (PodClaim("logs"), PodClaim("data"))}, "SharedVolume", id="one of two"),
        pytest.param(storage(), {}, "SharedVolume", id="the claim is not known"),
        pytest.param(storage(unknown=("persistentvolumeclaims",)), {}, "SharedVolume", id="claims cannot be read"),
        pytest.param(None, {}, "SharedVolume", id="volumes were not read"),
        pytest.param(storage(), {"volume_claims": ()}, "b", id="an unknown claim of its own"),
    ],
)
@pytest.mark.parametrize("how", ["reschedule", "release"])
def test_a_pod_stays_while_another_needs_its_volume_here(
    known: Storage | None, other: dict[str, Any], expected: str, how: str
) -> None:
    two = (PodClaim("own"), PodClaim("data"))
    pods = [running("p0", claims=True, volume_claims=two), running("p1", **{**DATA, **other})]
    pods += [running("x", on="b"), running("y", on="b")]
    view = columns([node("a"), node("b")], pods, storage=known)
    decision = moves(view, Fits(), Leave(node="a", how=how), claims=True)[0]
    assert (decision.refusal or "b", decision.action is None) == (expected, expected != "b")


@pytest.mark.parametrize(
    ("known", "why"),
    [(RWO, "(ReadWriteOnce) allow no second node"), (storage(), "are not known")],
    ids=["known", "not known"],
)
def test_of_pods_that_share_a_volume_all_stay(known: Storage, why: str) -> None:
    view = columns([node("a"), node("b")], [running(name, **DATA) for name in ("p0", "p1")], storage=known)
    said = "its claim data is used by pod {} of this node too, and its access modes " + why
    for strategy in (Leave(node="a"), Hot(node="a")):
        decisions = moves(view, Fits(), strategy, claims=True, single=True)
        assert decisions
        for decision, other in zip(decisions, ("p1", "p0"), strict=False):
            assert (decision.refusal, decision.message) == ("SharedVolume", said.format(other))


@pytest.mark.parametrize(
    ("local", "more", "expected"),
    [
        pytest.param(True, {}, "LocalStorage", id="a folder of its node"),
        pytest.param(True, {"local_storage": True}, "b", id="which may be lost"),
        pytest.param(False, {}, "b", id="another volume"),
    ],
)
@pytest.mark.parametrize("how", ["reschedule", "release"])
def test_a_claim_bound_to_a_hostpath_volume_stays(local: bool, more: dict[str, Any], expected: str, how: str) -> None:
    known = storage(claim("data", volume="pv", bound=True), volume("pv", local=local))
    pods = [running("p0", **DATA), running("x", on="b"), running("y", on="b")]
    view = columns([node("a"), node("b")], pods, storage=known)
    decision = moves(view, Fits(), Leave(node="a", how=how), claims=True, **more)[0]
    assert (decision.refusal or "b", decision.action is None) == (expected, expected != "b")
    assert not decision.refusal or decision.message == "its claim data is bound to pv, a folder of its node (hostPath)"


@pytest.mark.parametrize(
    ("created", "comebacks", "refusal"),
    [
        pytest.param(NOW - 400, Comebacks(NOW - 300, NOW - 10), "", id="it was there before the first was moved"),
        pytest.param(NOW - 200, Comebacks(NOW - 200 + 0.4, NOW - 10), "", id="it came in the second of the first move"),
        pytest.param(NOW - 200, Comebacks(NOW - 300, NOW - 59), "Returned", id="it came instead of the first"),
        pytest.param(NOW - 200, Comebacks(NOW - 300, NOW - 60), "", id="and has rested for a minute"),
        pytest.param(NOW - 200, Comebacks(NOW - 900, NOW - 239, 2), "Returned", id="the third, after four minutes"),
        pytest.param(NOW - 200, Comebacks(NOW - 900, NOW - 240, 2), "", id="the third, later"),
        pytest.param(NOW - 7900, Comebacks(NOW - 9000, NOW - 8000, 4), "KeepsReturning", id="after the fourth"),
        pytest.param(NOW - 200, Comebacks(NOW - 9000, NOW - 8000, 4), "", id="it came long after the last was moved"),
    ],
)
def test_what_comes_back_rests_ever_longer(created: float, comebacks: Comebacks, refusal: str) -> None:
    view = columns([node("a"), node("b")], [running("p0", created=created), running("x", on="b")])
    past = PoolPast(comebacks={(whose(running("p0")), "a"): comebacks})
    (decision,) = moves(view, Fits(), Leave(node="a"), past=past)
    assert (decision.refusal, decision.verdict) == (refusal, "refuse" if refusal else "move")


@pytest.mark.parametrize(
    ("until", "refusal"), [(NOW + 0.1, "Failing"), (NOW, ""), (NOW - 1, "")], ids=["not yet", "from now on", "before"]
)
def test_a_pod_whose_evictions_fail_rests(until: float, refusal: str) -> None:
    view = columns([node("a"), node("b")], [running("p0"), running("x", on="b")])
    past = PoolPast(failing={running("p0").uid: Failing(until, "too busy")})
    (decision,) = moves(view, Fits(), Leave(node="a"), past=past)
    assert decision.refusal == refusal
    assert decision.message.endswith(": too busy") == bool(refusal)


def alone(**more: Any) -> NodeTable:
    return columns([node("a"), node("b")], [running("p0", owner=("", "", ""), **more)])


def test_bare_pod_is_recreated_unless_the_move_kills_it() -> None:
    (moved,) = moves(alone(restart="OnFailure"), Fits(), Leave(node="a"))
    assert moved.action is not None
    assert (moved.action.restore, moved.action.first) == (True, True)
    (killed,) = moves(alone(), Fits(), Leave(node="a", how="kill"))
    assert killed.action is not None
    assert (killed.action.restore, killed.target) == (False, "")
    assert told(moves(alone(), Leave(node="a"), bare=False)) == [("p0", "Bare")]


def test_a_refusal_names_the_controller_and_what_would_be_lost() -> None:
    named: dict[str, Any] = {"controllers": ("example.com/v1/Foo",)}
    for owner, table, said in (
        (JOB, {}, "Job j would count its eviction as a failure, and it would do all again"),
        (FOO, {}, "it is not known whether its controller, example.com/v1/Foo x, would recreate it"),
        (FOO, named, "of restartPolicy Never, it would do all again"),
    ):
        view = columns([node("a"), node("b")], [running("p0", owner=owner, restart="Never"), running("x", on="b")])
        (decision,) = moves(view, Fits(), Leave(node="a"), single=True, **table)
        assert decision.message == said


@pytest.mark.parametrize(("benefit", "expected"), [(2.9, "NotWorth"), (3.0, "b")], ids=["too little", "enough"])
def test_a_move_must_be_worth_it(benefit: float, expected: str) -> None:
    view = columns([node("a"), node("b")], [running("p0"), running("x", on="b")])
    leave = Leave(node="a", benefit=benefit, disruption=2.0)
    assert told(moves(view, Fits(), leave, worth=1.5)) == [("p0", expected)]


@pytest.mark.parametrize(
    ("others", "must", "expected"),
    [
        pytest.param(False, True, "Foreign", id="it stays"),
        pytest.param(True, True, "b", id="where the policy says so it goes"),
        pytest.param(True, False, "Foreign", id="not where it need not"),
    ],
)
def test_a_pod_that_another_scheduler_places(others: bool, must: bool, expected: str) -> None:
    view = columns([node("a"), node("b")], [running("p0", scheduler="default-scheduler"), running("x", on="b")])
    leave = Leave(node="a") if must else Leave(node="a", benefit=9.0, disruption=1.0)
    assert told(moves(view, Fits(), leave, others=others)) == [("p0", expected)]
    assert moves(view, Fits(), Wanting(names=("p0",), asks=True), others=others) == ()


@pytest.mark.parametrize(
    "select",
    [
        pytest.param(PoolSelect(namespaces=("tools",)), id="of another namespace"),
        pytest.param(PoolSelect(labels={"app": "web"}), id="without the labels"),
    ],
)
@pytest.mark.parametrize("others", [False, True])
def test_pods_outside_the_policy_get_no_moves(select: PoolSelect, others: bool) -> None:
    view = columns([node("a"), node("b")], [running("p0"), running("x", on="b")])
    assert moves(view, Fits(), Leave(node="a"), pool=select, others=others) == ()


def test_disruption_budgets_hold_within_one_plan() -> None:
    view = columns([node("a"), node("b")], [running(f"p{i}") for i in range(3)])
    budget = DisruptionBudget("shop", "web", frozenset({"uid-p0", "uid-p1", "uid-p2"}), 1)
    found = told(moves(view, Fits(), Leave(node="a"), budgets=(budget,)))
    assert found == [("p0", "b"), ("p1", "Budget"), ("p2", "Budget")]


def test_a_refused_eviction_is_told_apart_from_a_disruption_budget() -> None:
    view = columns([node("a"), node("b")], [running("p0"), running("p1"), running("p2")])
    refused = DisruptionBudget("shop", "p0", frozenset({"uid-p0"}), 0, "not let go when last tried (NotRestorable)")
    spent = DisruptionBudget("shop", "web", frozenset({"uid-p1"}), 0)
    found = moves(view, Fits(), Leave(node="a"), budgets=(refused, spent))
    assert [(one.refusal, one.message) for one in found[:2]] == [
        ("Refused", "it was not let go when last tried (NotRestorable)"),
        ("Budget", "a PodDisruptionBudget forbids it"),
    ]


@pytest.mark.parametrize(
    ("ready", "others", "expected"),
    [
        pytest.param(True, {}, "Single", id="no other"),
        pytest.param(False, {}, "Single", id="not ready, and no other"),
        pytest.param(False, {"x": True}, "b", id="not ready, and another is"),
        pytest.param(None, {"x": True}, "b", id="not known to be ready, and another is"),
        pytest.param(True, {"x": False}, "Single", id="another that is not ready"),
        pytest.param(True, {"x": True}, "b", id="another that is ready"),
        pytest.param(False, {"x": False}, "Single", id="neither is ready"),
    ],
)
@pytest.mark.parametrize("where", ["b", "outside the pool"])
def test_a_pod_is_single_if_no_other_would_be_ready(
    ready: bool | None, others: Mapping[str, bool], expected: str, where: str
) -> None:
    siblings = [running(name, on=where, ready=is_ready) for name, is_ready in others.items()]
    view = columns([node("a"), node("b")], [running("p0", ready=ready), *siblings])
    view.outside = columns([node("outside the pool")], siblings)
    assert told(moves(view, Fits(), Leave(node="a"))) == [("p0", expected)]


def test_pods_that_are_not_ready_leave_no_other_single() -> None:
    pods = [running("p0", ready=False), running("p1"), running("p2")]
    view = columns([node("a"), node("b")], pods)
    assert told(moves(view, Fits(), Leave(node="a"))) == [("p0", "b"), ("p1", "b"), ("p2", "Enough")]


@pytest.mark.parametrize(
    ("how", "owner", "second"),
    [
        pytest.param("reschedule", OWNED, "Enough", id="of a ReplicaSet"),
        pytest.param("reschedule", ("StatefulSet", "db", "rs-1"), "b", id="of another controller"),
        pytest.param("kill", OWNED, "", id="none is made first"),
    ],
)
def test_one_pod_of_a_controller_is_replaced_at_a_time(how: str, owner: tuple[str, str, str], second: str) -> None:
    pods = [running(name, owner=owner) for name in ("p0", "p1")] + [running("p2", on="b", owner=owner)]
    other = running("q", owner=("ReplicaSet", "api", "rs-2"))
    view = columns([node("a"), node("b")], [*pods, other])
    decisions = moves(view, Fits(), Leave(node="a", how=how), surge=True)
    assert dict(told(decisions)) == {
        "p0": "" if how == "kill" else "b",
        "p1": second,
        "q": "Single" if how == "kill" else "b",
    }


def test_nothing_is_moved_while_disruption_budgets_are_not_known() -> None:
    view, strategies = columns([node("a"), node("b")], [running("p0"), running("p1")]), (Fits(), Leave(node="a"))
    policy = PoolPolicy(name="pool", pool=PoolSelect(), strategies=strategies, mode="act")
    unknown = PoolObservation(NOW, budgets_known=False, confirmed=NOW)
    found = plan_moves(PoolCase(policy, unknown, view, Hooks(strategies))).decisions
    assert told(found) == [("p0", "BudgetsUnknown"), ("p1", "BudgetsUnknown")]


@pytest.mark.parametrize(
    ("refused", "gone"),
    [
        pytest.param({}, ["p0", "p1"], id="in their order"),
        pytest.param({"uid-p0": 9.0, "uid-p1": 9.0}, ["p2", "p3"], id="others first"),
        pytest.param({f"uid-p{i}": 9.0 for i in range(4)}, ["p0", "p1"], id="again where all were refused"),
        pytest.param(
            {"uid-p0": 9.0, "uid-p1": 9.0, "uid-p2": 7.0, "uid-p3": 5.0}, ["p3", "p2"], id="long ago before just now"
        ),
    ],
)
def test_pods_refused_last_time_let_other_pods_go_first(refused: dict[str, float], gone: list[str]) -> None:
    view = columns([node("a"), node("b")], [running(f"p{i}") for i in range(4)])
    past = PoolPast(refused=refused)
    found = moves(view, Leave(node="a"), past=past, per_look=2, single=True)
    assert [one.pod.name for one in found if one.verdict == "move"] == gone


class Later(Strategy, tag="later", frozen=True):
    """Wants these pods off their nodes, but not yet."""

    names: tuple[str, ...]

    @hookimpl
    def rebind_pods(self, nodes: Nodes) -> Sequence[Move]:
        return [Move(one, "Later", waits="it is early") for one in nodes.pods(0) if one.name in self.names]


def test_pod_not_moved_yet_takes_no_turn_from_another_strategy() -> None:
    view = columns([node("a"), node("b")], [running(f"p{i}") for i in range(3)])
    found = moves(view, Later(names=("p0", "p1")), Hot(node="a"), per_look=1, single=True)
    assert told(found) == [("p0", "b"), ("p1", "NotYet")]
    assert [(one.strategy, one.message) for one in found] == [("hot", ""), ("later", "it is early")]


def test_so_many_are_moved_at_a_time() -> None:
    view = columns([node("a"), node("b")], [running(f"p{i}") for i in range(4)])
    assert [one for _, one in told(moves(view, Fits(), Leave(node="a"), per_look=2))] == ["b", "b", "Enough", "Enough"]


class Wanting(Strategy, tag="wanting", frozen=True):
    """Wants all pods moved that are called so, off whichever nodes; the rest of it goes into each move."""

    names: tuple[str, ...]
    use: float = 0.0
    most: float | None = None
    not_to: tuple[str, ...] = ()
    relief: tuple[float, ...] = ()
    raises: bool = False
    asks: bool = False

    @hookimpl
    def rebalance_nodes(self, nodes: Nodes, movable: Callable[[Pod], bool]) -> Sequence[Move]:
        pods = {one.name: one for place in range(len(nodes.names)) for one in nodes.pods(place)}
        more: dict[str, Any] = {} if self.most is None and not self.raises else {"fits": self._fits}
        return [
            Move(pods[name], "Wanted", use={"cpu": self.use}, not_to=frozenset(self.not_to), relief=self.relief, **more)
            for name in self.names
            if not self.asks or movable(pods[name])
        ]

    def _fits(self, used: Mapping[str, Column], places: Places) -> Mask:
        assert not self.raises, "for a reason"
        return used["cpu"] <= (self.most or 0.0)


def four(**use: float) -> NodeTable:
    """Four pods on a, and nodes that use so many cores."""
    return columns([node("a"), node("b"), node("c")], [running(f"p{i}") for i in range(4)], {"cpu": use})


PODS = ("p0", "p1", "p2", "p3")


def test_move_goes_only_where_its_use_fits_beside_earlier_moves() -> None:
    view = four(a=3.0, b=1.0, c=1.4)
    found = told(moves(view, Fits(), Wanting(names=PODS, use=0.3, most=1.7)))
    assert found == [("p0", "b"), ("p1", "c"), ("p2", "b"), ("p3", "Enough")]
    found = told(moves(four(a=3.0, b=1.5, c=1.4), Fits(), Wanting(names=PODS, use=0.3, most=1.7)))
    assert found == [("p0", "c"), *[(name, "NoOtherNode") for name in PODS[1:]]]


class Prefers(Strategy, tag="prefers", frozen=True):
    """Scores nodes by their place in the alphabet, the last best."""

    @hookimpl
    def score_nodes(self, nodes: Nodes) -> Scores:
        return Scores(np.arange(len(nodes.names), dtype=np.float64))


@pytest.mark.parametrize(
    ("uses", "expected"),
    [
        pytest.param((0.6, 0.3), ["c", "c", "b"], id="the best, as long as it fits there; then the next best"),
        pytest.param((1.6, 0.3), ["b", "b", "b"], id="never the best: the next best each time"),
        pytest.param((1.6, 1.6), ["NoOtherNode"] * 3, id="neither"),
        pytest.param((1.6, 1.2), ["b", "NoOtherNode", "NoOtherNode"], id="for one, and no more"),
    ],
)
def test_a_move_goes_to_the_best_node_that_fits(uses: tuple[float, float], expected: list[str]) -> None:
    view = four(a=3.0, b=uses[1], c=uses[0])
    found = told(moves(view, Fits(), Prefers(), Wanting(names=PODS, use=0.4, most=1.7), single=True, per_look=3))
    assert [target for _, target in found[:3]] == expected


def test_after_one_that_fits_nowhere_others_find_their_places() -> None:
    large, small = Wanting(names=PODS[:2], use=1.4, most=1.7), Wanting(names=PODS[2:], use=0.3, most=1.7)
    found = told(moves(four(a=3.0, b=1.0, c=1.0), Fits(), Prefers(), large, small, single=True))
    assert found == [("p0", "NoOtherNode"), ("p1", "NoOtherNode"), ("p2", "c"), ("p3", "c")]


def test_a_move_fits_nowhere_where_use_is_not_known() -> None:
    found = moves(four(a=3.0), Fits(), Wanting(names=PODS[:1], use=0.3, most=1.7))
    assert told(found) == [("p0", "NoOtherNode")]
    assert found[0].message == "no other node is free enough for what it uses: what 2 nodes use is not known"


def test_nodes_that_the_controllers_pods_left_have_room() -> None:
    (one,) = moves(four(a=3.0, b=1.0, c=1.8), Fits(), Wanting(names=PODS[:1], use=0.3, most=1.7, not_to=("b", "c")))
    left = "pods of its controller left 1 node that could take it too short a time ago"
    assert (one.refusal, one.message) == ("LeftRecently", left)


def test_a_rule_that_fails_moves_nobody_and_is_reported() -> None:
    (one,) = moves(four(a=3.0, b=1.0), Fits(), Wanting(names=PODS[:1], use=0.3, raises=True))
    assert one.refusal == "NoOtherNode"
    assert one.message.startswith("its strategy cannot say where it fits: AssertionError: for a reason")


@pytest.mark.parametrize(
    ("seconds", "target"),
    [pytest.param(15.0, "c", id="only for a time"), pytest.param(None, "b", id="for ever")],
)
def test_no_move_goes_where_kubernetes_would_end_it(seconds: float | None, target: str) -> None:
    taint, toleration = Taint("maint", "NoExecute"), Toleration("maint", "Exists", seconds=seconds)
    view = columns([node("a"), node("b", taints=(taint,)), node("c")], [running("p", tolerations=(toleration,))])
    assert told(moves(view, Leave("a"), single=True)) == [("p", target)]


def test_a_move_goes_to_no_node_that_it_names() -> None:
    assert told(moves(four(), Fits(), Wanting(names=PODS[:1], not_to=("b", "gone")))) == [("p0", "c")]
    assert told(moves(four(), Fits(), Wanting(names=PODS[:1], not_to=("b", "c")))) == [("p0", "NoOtherNode")]


@pytest.mark.parametrize(
    ("relief", "expected"),
    [
        pytest.param((), ["p0", "p1", "p2", "p3"], id="nothing said: all"),
        pytest.param((0.5, 0.9), ["p0", "p1"], id="until all is enough"),
        pytest.param((0.5, 0.3), ["p0", "p1", "p2", "p3"], id="and not before"),
        pytest.param((0.1,) * 1, ["p0", "p1", "p2", "p3"], id="too little"),
        pytest.param((1 / 3,), ["p0", "p1", "p2"], id="thirds make a whole"),
    ],
)
def test_remaining_moves_are_dropped_once_a_node_is_relieved(relief: tuple[float, ...], expected: list[str]) -> None:
    found = moves(four(), Fits(), Wanting(names=PODS, relief=relief), single=True)
    assert [one.pod.name for one in found] == expected


def test_one_that_stays_relieves_nothing() -> None:
    budget = DisruptionBudget("shop", "web", frozenset({"uid-p0"}), 0)
    found = moves(four(), Fits(), Wanting(names=PODS, relief=(1.0,)), budgets=(budget,))
    assert told(found) == [("p0", "Budget"), ("p1", "b")]
    found = moves(four(), Fits(), Wanting(names=PODS, relief=(0.5,)), per_look=1)
    assert told(found) == [("p0", "b"), ("p1", "Enough")]


def test_a_strategy_may_ask_who_can_be_moved_at_all() -> None:
    pods = [running("p0"), running("p1", annotations={"elasticd.io/do-not-disrupt": "true"}), running("p2", local=True)]
    budget = DisruptionBudget("shop", "web", frozenset({"uid-p3"}), 0)
    view = columns([node("a"), node("b")], [*pods, running("p3")])
    found = moves(view, Fits(), Wanting(names=PODS, asks=True), budgets=(budget,))
    assert told(found) == [("p0", "b")]


def test_the_search_for_room_ends_after_too_many_failures() -> None:
    names = tuple(f"p{i:03}" for i in range(300))
    pods = [running(name, cpu=0.01) for name in names]
    view = columns([node("a"), node("b", cpu=0.0)], pods)
    found = moves(view, Fits(), Wanting(names=names), per_look=1)
    assert {one.refusal for one in found} == {"NoOtherNode"}
    assert sum("Insufficient cpu" in one.message for one in found) == 104
    assert sum(one.message == "none was found for too many others" for one in found) == 196


class Broken(Strategy, tag="broken", frozen=True):
    """A filter that fails."""

    @hookimpl
    def filter_nodes(self) -> Sequence[Refusal]:
        raise RuntimeError("no filter")


def test_while_a_filter_fails_nobody_is_moved() -> None:
    (one,) = moves(four(), Broken(), Wanting(names=PODS[:1]))
    assert (one.refusal, "no filter" in one.message) == ("NoOtherNode", True)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        pytest.param({"use": float("nan")}, "must be finite", id="use"),
        pytest.param({"relief": (float("inf"),)}, "must be finite", id="relief"),
    ],
)
def test_nonsense_in_a_move_is_a_failure(more: dict[str, Any], says: str) -> None:
    leave, wanting = Leave(node="a"), Wanting(names=PODS[:1], **more)
    found = moves(four(), Fits(), leave, wanting, per_look=1)
    assert [one.plugin for one in found[0].failures] == ["wanting"]
    assert says in found[0].failures[0].message


def test_ready_pods_of_a_controller_are_counted_incrementally() -> None:
    ledger = NodeTableBuilder()
    nodes = (node("a"), node("b"))
    on: dict[str, tuple[Pod, ...]] = {
        "a": (running("p0"), running("p1", deleted=True)),
        "b": (running("p2", "b"), running("p3", "b", ready=False)),
    }
    assert ledger.columns(nodes, on).siblings("rs-1") == 2
    on["b"] = (running("p2", "b"), running("p3", "b"), running("p4", "b", owner=("", "", "")))
    view = ledger.columns(nodes, on)
    assert (view.siblings("rs-1"), view.siblings("none"), view.siblings("")) == (3, 0, 0)
    on["a"] = on["b"] = ()
    assert ledger.columns(nodes, on).siblings("rs-1") == 0
    assert view.siblings("rs-1") == 3


def test_nobody_is_moved_on_what_is_known_too_late() -> None:
    def view() -> NodeTable:
        return columns([node("a"), node("b")], [running("p0"), running("x", on="b")])

    assert told(moves(view(), Fits(), Leave(node="a"), confirmed=NOW - 120)) == [("p0", "b")]
    assert told(moves(view(), Fits(), Leave(node="a"), confirmed=NOW - 121)) == [("p0", "StaleView")]


@pytest.mark.parametrize(
    ("owner", "how", "verdict"),
    [
        pytest.param(OWNED, "reschedule", "b", id="of a ReplicaSet"),
        pytest.param(OWNED, "kill", "Single", id="that is to end"),
        pytest.param(("StatefulSet", "db", "ss-1"), "reschedule", "Single", id="of a StatefulSet"),
    ],
)
def test_only_pod_of_a_controller_moves_if_surge_is_possible(
    owner: tuple[str, str, str], how: str, verdict: str
) -> None:
    for surge, answer in ((True, verdict), (False, "Single")):
        view = columns([node("a"), node("b")], [running("p", cpu=0.4, owner=owner)])
        assert told(moves(view, Leave(node="a", how=how), surge=surge)) == [("p", answer)]
