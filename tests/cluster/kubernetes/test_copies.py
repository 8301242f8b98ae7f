"""A pod is compared with the copy that the server would create: what would keep that from running where the pod may."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from elasticd.cluster.kubernetes.restore.copies import Copies, Difference, read_compared
from elasticd.cluster.kubernetes.session import ApiError, Session
from elasticd.cluster.kubernetes.watch.store import NodeStore, PodStore
from elasticd.model.pod_spec import Expression, PodTerm, Taint
from elasticd.model.workload import Pod
from tests.cluster.kubernetes.fake import FakeApi, HurriedClock
from tests.cluster.kubernetes.restoring import ACTION, PODS, Server, daemon, granted, running
from tests.kit.pools import node, pod

META: dict[str, Any] = {"name": "batch", "namespace": "shop", "uid": "u", "labels": {"app": "batch"}}
NODES = (
    node("n1", cpu=4),
    node("n2", cpu=4, labels={"disk": "ssd"}, taints=(Taint("own", "NoSchedule"),)),
)
TOLERATION = {"key": "own", "operator": "Exists"}
ZONE = {"topology.kubernetes.io/zone": "a"}


def main(cpu: object = None, **more: Any) -> dict[str, Any]:
    return {"name": "main", "resources": {"requests": {} if cpu is None else {"cpu": str(cpu)}}, **more}


SPEC = {"schedulerName": "elasticd", "tolerations": [TOLERATION], "containers": [main()]}
TOKEN = {"name": "kube-api-access-x7k2p", "projected": {"sources": []}}
CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "other"}}
NEAR = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "batch"}}}
SCRATCH = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}


def affinity(value: str) -> dict[str, Any]:
    rule = {"key": "disk", "operator": "In", "values": [value]}
    return {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}
            }
        }
    }


def difference(
    admitted: dict[str, Any],
    *,
    labels: dict[str, str] | None = None,
    of_pod: dict[str, Any] | None = None,
    others: tuple[Pod, ...] = (),
    coming: tuple[Pod, ...] = (),
    to: str = "n2",
    given: str | None = None,
) -> Difference:
    """What keeps the copy of a pod on n1 from running where that may; admission adds this to its spec and labels.
    `given`: the CPU that n1 gives it, which can never be what it requests; None: what it requests."""
    pods, nodes = PodStore(), NodeStore()
    bound = {**SPEC, "nodeName": "n1", **(of_pod or {})}
    before = {"metadata": {**META, "labels": {**META["labels"], **ZONE}}, "spec": bound, "status": status(given)}
    meta = {**META, "name": "batch-x7k2p", "uid": "x", "labels": {**META["labels"], **(labels or {})}}
    after = {"metadata": meta, "spec": {**SPEC, **(of_pod or {}), "nodeName": "", **admitted}}
    known, copy = [read_compared(msgspec.json.encode(each), "batch", "u") for each in (before, after)]
    for each in (known.pod, *others):
        pods.put(each, listed=True)
    for one in NODES:
        nodes.put(one, listed=True)
    return Copies(pods, nodes, lambda name: coming if name == "n2" else ()).difference(known, copy, to)


def status(given: str | None) -> dict[str, Any]:
    """What the kubelet says of a pod; with `given`, that it has this CPU and can never have what it was resized to."""
    if given is None:
        return {}
    pending = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    main = {"name": "main", "resources": {"requests": {"cpu": given}}, "allocatedResources": {"cpu": given}}
    return {"conditions": [pending], "containerStatuses": [main]}


@pytest.mark.parametrize(
    ("admitted", "more"),
    [
        pytest.param({}, {}, id="nothing"),
        pytest.param({"volumes": [TOKEN]}, {}, id="a token"),
        pytest.param({"containers": [main(), {"name": "proxy"}]}, {}, id="a sidecar"),
        pytest.param({"containers": [main(), main(2, name="proxy")]}, {}, id="a sidecar that fits"),
        pytest.param({"containers": [main(4)]}, {}, id="all of the node"),
        pytest.param({"containers": [main(4)]}, {"to": "n1"}, id="all of its own node"),
        pytest.param({"volumes": [{"name": "envoy", "emptyDir": {}}]}, {}, id="an empty folder"),
        pytest.param({"nodeSelector": {"disk": "ssd"}}, {}, id="a selector that its place obeys"),
        pytest.param(affinity("ssd"), {}, id="an affinity that its place obeys"),
        pytest.param({"tolerations": [TOLERATION, {"operator": "Exists"}]}, {}, id="a toleration more"),
        pytest.param({"tolerations": []}, {"to": "n1"}, id="a toleration less that nothing needs"),
        pytest.param({}, {"labels": {"version": "v1"}}, id="a label"),
        pytest.param({}, {"of_pod": {"volumes": [SCRATCH]}}, id="a claim that has its name"),
        pytest.param({}, {"to": "n9"}, id="nothing, and its place is gone"),
        pytest.param({"containers": [main(1)]}, {"of_pod": {"containers": [main(2)]}, "to": "n9"}, id="a request less"),
    ],
)
def test_a_copy_that_may_run_there_does_not_differ(admitted: dict[str, Any], more: dict[str, Any]) -> None:
    assert difference(admitted, **more) == Difference()


CPU = "its request of cpu, for which n2 has too little left"
RULES = "its nodeSelector or node affinity, which n2 does not obey"
KEPT, HELD = pod("kept", cpu=3), pod("held", cpu=3, on="n2")
PICKY = pod("picky", on="n1")
PICKY = replace(
    PICKY, needs=replace(PICKY.needs, repels=(PodTerm("hostname", (Expression("version", "Exists", ()),)),))
)


@pytest.mark.parametrize(
    ("admitted", "more", "told"),
    [
        pytest.param({"containers": [main(5)]}, {}, CPU, id="a request larger than the node"),
        pytest.param({"overhead": {"cpu": "5"}}, {}, CPU, id="an overhead"),
        pytest.param(
            {"containers": [main(2)]}, {"others": (replace(KEPT, node="n2"),)}, CPU, id="a request, beside a pod"
        ),
        pytest.param({"containers": [main(2)]}, {"coming": (KEPT,)}, CPU, id="a request, beside a copy that comes"),
        pytest.param(
            {"containers": [main(None, resources={"requests": {"gpu": "1"}})]},
            {},
            "its request of gpu, for which n2 has too little left",
            id="a resource that the node has not",
        ),
        pytest.param({"nodeSelector": {"tier": "gold"}}, {}, RULES, id="nodeSelector"),
        pytest.param(affinity("hdd"), {}, RULES, id="node affinity"),
        pytest.param(
            {"nodeSelector": {"tier": "gold"}},
            {"to": "n9"},
            "its nodeSelector or node affinity, and n9 is gone",
            id="no place",
        ),
        pytest.param(
            {"tolerations": []}, {}, "its tolerations, which lack the taint own:  of n2", id="a toleration less"
        ),
        pytest.param({"schedulerName": "other"}, {}, "its schedulerName", id="schedulerName"),
        pytest.param({"nodeName": "n1"}, {}, "its nodeName", id="nodeName"),
        pytest.param({"schedulingGates": [{"name": "queue"}]}, {}, "its scheduling gates", id="a gate"),
        pytest.param({"priority": 7}, {}, "its priority", id="priority"),
        pytest.param({"containers": [main(ports=[{"hostPort": 80}])]}, {}, "its host ports", id="a host port"),
        pytest.param({"volumes": [CLAIM]}, {}, "its volumes", id="a claim"),
        pytest.param(
            {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [NEAR]}}},
            {},
            "its required pod affinity",
            id="pod affinity",
        ),
        pytest.param(
            {"topologySpreadConstraints": [{**SPREAD, "whenUnsatisfiable": "DoNotSchedule"}]},
            {},
            "its topology spread constraints",
            id="a hard spread",
        ),
        pytest.param({"resourceClaims": [{"name": "gpu"}]}, {}, "what elasticd does not know", id="a resource claim"),
        pytest.param({"runtimeClassName": "gvisor"}, {}, "its runtimeClassName", id="runtime class"),
        pytest.param(
            {},
            {"labels": {"version": "v1"}, "others": (PICKY,)},
            "its labels, which the anti-affinity of shop/picky selects",
            id="a label that another pod keeps away",
        ),
        pytest.param(
            {"schedulerName": "other", "containers": [main(5)]}, {}, f"its schedulerName, {CPU}", id="two things"
        ),
    ],
)
def test_what_decides_where_a_copy_may_run_is_named(admitted: dict[str, Any], more: dict[str, Any], told: str) -> None:
    assert difference(admitted, **more) == Difference(told)


NEVER = "it might not run again: its node never gave it what it was resized to: "
ADMITTED = "admission would now create it with other values of "


@pytest.mark.parametrize(
    ("requests", "admitted", "to", "reason", "message"),
    [
        pytest.param(5, {}, "n2", "ResizeInfeasible", NEVER + CPU, id="too much for its place"),
        pytest.param(5, {}, "n9", "ResizeInfeasible", f"{NEVER}its request of cpu, and n9 is gone", id="no place"),
        pytest.param(
            5,
            {"containers": [main(6)]},
            "n2",
            "CopyDiffers",
            f"it might not run again: {ADMITTED}{CPU}",
            id="admission asks for even more",
        ),
        pytest.param(
            5,
            {"priority": 7},
            "n2",
            "CopyDiffers",
            f"it might not run again: {ADMITTED}its priority, and {NEVER.partition(': ')[2]}{CPU}",
            id="admission changes something else",
        ),
        pytest.param(3, {}, "n2", "", "", id="its place has it"),
    ],
)
def test_a_resize_that_is_infeasible_is_not_told_as_admissions(
    requests: int, admitted: dict[str, Any], to: str, reason: str, message: str
) -> None:
    told = difference(admitted, of_pod={"containers": [main(requests)]}, to=to, given="1")
    assert (told.reason, told.message if told.reason else "") == (reason, message)


def test_a_soft_spread_decides_nothing() -> None:
    soft = {"topologySpreadConstraints": [{**SPREAD, "whenUnsatisfiable": "ScheduleAnyway"}]}
    assert difference(soft) == Difference()


def test_what_is_no_pod_is_an_error() -> None:
    with pytest.raises(ApiError, match="the server's answer is no Pod"):
        read_compared(b"[]", "batch", "u")


async def test_a_pod_stays_whose_copy_would_be_another(server: Server, session: Session, clock: HurriedClock) -> None:
    server.admit = lambda spec: {**spec, "nodeSelector": {"tier": "gold"}}
    async with daemon(session, clock, stores=watched()) as one:
        answer = await one.evict(replace(ACTION, target="n2"), granted)
    assert (answer.result, answer.reason) == ("refused", "CopyDiffers")
    assert answer.message == f"it might not run again: admission would now create it with other values of {RULES}"
    assert (server.evictions, server.untouched()) == (0, True)
    assert "POST configmaps" not in server.steps


async def test_the_place_is_kept_for_the_larger_copy(
    api: FakeApi, server: Server, session: Session, clock: HurriedClock
) -> None:
    """And no second one that would not fit beside it leaves for there."""
    server.admit, server.waits = lambda spec: {**spec, "containers": [main(3)]}, 10_000
    api.on("GET", f"{PODS}/second", running("v", name="second"))
    async with daemon(session, clock, stores=watched()) as one:
        assert (await one.evict(replace(ACTION, target="n2"), granted)).result == "done"
        (promise,) = await one.promises(0.0)
        assert (promise.node, promise.pod.needs.requests) == ("n2", {"cpu": 3.0})
        second = replace(ACTION, workload=replace(ACTION.workload, name="second"), uid="v", target="n2")
        assert (await one.evict(second, granted)).reason == "CopyDiffers"


def watched() -> tuple[PodStore, NodeStore]:
    """The nodes, and the pod on one of them."""
    pods, nodes = PodStore(), NodeStore()
    pods.put(read_compared(msgspec.json.encode(running()), "batch", "u").pod, listed=True)
    for one in NODES:
        nodes.put(one, listed=True)
    return pods, nodes
