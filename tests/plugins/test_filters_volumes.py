"""Filters: where a pod may be by its volumes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from elasticd.api import Node, Pod, PodClaim, Storage, StorageClass
from elasticd.model.volumes import ONE_POD, StorageCapacity
from elasticd_plugins.filters import Filters
from elasticd_plugins.preemption import Preemption
from tests.kit.pools import GIB, columns, mends, node, planned, pod
from tests.kit.volumes import DRIVER, ZONE, claim, claiming, storage, volume, within

OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
AFFINITY = "node(s) had volume node affinity conflict"
ZONES = "node(s) had no available volume zone"
LIMITS = "node(s) exceed max volume count"
NODES = [
    node("a1", labels={ZONE: "a", REGION: "r"}),
    node("a2", labels={ZONE: "a", REGION: "r"}),
    node("b1", labels={ZONE: "b", REGION: "r"}),
    node("nowhere"),
]


def refused(
    asked: Pod, known: Storage | None, on: Sequence[Pod] = (), nodes: Sequence[Node] = NODES
) -> dict[str, list[str]]:
    """The nodes that are refused, by reason."""
    view, found = columns(nodes, on, storage=known), dict[str, list[str]]()
    for refusal in Filters().filter_nodes(asked, view):
        found.setdefault(refusal.reason, []).extend(view.names[index] for index in np.flatnonzero(refusal.nodes))
    return found


def bound(**more: Any) -> Storage:
    """A claim `data` that is bound to a volume like this."""
    return storage(claim("data", volume="pv"), volume("pv", **more))


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        pytest.param(bound(), {}, id="anywhere"),
        pytest.param(bound(terms=within(ZONE, "a")), {AFFINITY: ["b1", "nowhere"]}, id="in one zone"),
        pytest.param(bound(terms=within(ZONE, "a", "b")), {AFFINITY: ["nowhere"]}, id="in either of two"),
        pytest.param(
            bound(terms=within(ZONE, "b") + within(REGION, "q")), {AFFINITY: ["a1", "a2", "nowhere"]}, id="terms"
        ),
        pytest.param(bound(terms=()), {AFFINITY: ["a1", "a2", "b1", "nowhere"]}, id="no term: nowhere"),
        pytest.param(bound(labels={ZONE: "a"}), {ZONES: ["b1"]}, id="labelled with a zone"),
        pytest.param(bound(labels={OLD_ZONE: "a"}), {ZONES: ["b1"]}, id="by the label's former name"),
        pytest.param(bound(labels={ZONE: "a__b"}), {}, id="labelled with two zones"),
        pytest.param(bound(labels={ZONE: "a", REGION: "q"}), {ZONES: ["a1", "a2", "b1"]}, id="of another region"),
        pytest.param(bound(labels={ZONE: "a__"}), {}, id="a label that cannot be read is none"),
    ],
)
def test_a_bound_volume_keeps_its_pod_where_it_is(known: Storage, expected: dict[str, list[str]]) -> None:
    assert refused(claiming("web", "data"), known) == expected


def test_a_pod_goes_where_all_its_volumes_are() -> None:
    known = storage(
        claim("data", volume="one"), volume("one", terms=within(ZONE, "a")),
        claim("logs", volume="two"), volume("two", labels={ZONE: "b"}),
    )  # fmt: skip
    assert refused(claiming("web", "data", "logs"), known) == {AFFINITY: ["b1", "nowhere"], ZONES: ["a1", "a2"]}


@pytest.mark.parametrize(
    ("known", "why", "mend"),
    [
        pytest.param(storage(), "its claim data does not exist", "claim data is created", id="missing"),
        pytest.param(
            storage(claim("data", lost=True, volume="pv")),
            "its claim data has lost its volume pv", "claim data is created again", id="lost",
        ),
        pytest.param(
            storage(claim("data", deleted=True, volume="pv"), volume("pv")),
            "its claim data is being deleted", "claim data is created again", id="deleted",
        ),
        pytest.param(
            storage(claim("data", volume="pv")),
            "the volume pv of its claim data does not exist", "claim data is bound to an existing volume", id="no PV",
        ),
        pytest.param(
            storage(claim("data"), StorageClass("fast", "p")), "its claim data is not bound", "claim data is bound",
            id="of an immediate class",
        ),
        pytest.param(
            storage(claim("data", class_name="")), "its claim data is not bound", "claim data is bound",
            id="of no class",
        ),
        pytest.param(
            storage(claim("data")), "its claim data is not bound, and its storage class fast does not exist",
            "storage class fast is created, or claim data is bound", id="class missing",
        ),
        pytest.param(
            storage(claim("data", volume="pv", bound=False), volume("pv"), StorageClass("fast", "p", waits=True)),
            "its claim data is not bound", "claim data is bound", id="to be bound to a volume that it names",
        ),
        pytest.param(
            bound(unsupported="cinder"), "elasticd does not know cinder, the type of volume pv",
            "its schedulerName is that of kube-scheduler", id="of a type with limits of its own",
        ),
        pytest.param(
            storage(unknown=("persistentvolumes", "csinodes")),
            "its volumes are not known, as persistentvolumes, csinodes could not be read so far",
            "persistentvolumes, csinodes can be read (right to list and watch them)", id="not read",
        ),
    ],
)  # fmt: skip
def test_a_pod_waits_and_it_is_said_for_what(known: Storage, why: str, mend: str) -> None:
    reason = f"node(s) cannot be used: {why}"
    assert refused(claiming("web", "data"), known) == {reason: ["a1", "a2", "b1", "nowhere"]}
    (refusal,) = Filters().filter_nodes(claiming("web", "data"), columns(NODES, storage=known))
    assert (mends(refusal, 0), refusal.curable) == ([mend], False)


def test_without_any_knowledge_of_volumes_a_pod_with_claims_waits() -> None:
    assert list(refused(claiming("web", "data"), None)) == ["node(s) cannot be used: its volumes are not known"]
    assert refused(pod("web"), None) == {}


@pytest.mark.parametrize(
    ("owner", "why"),
    [
        pytest.param("uid-web", "", id="made for it"),
        pytest.param("uid-other", "its claim web-tmp was not made for it", id="made for another"),
        pytest.param(None, "its claim web-tmp does not exist", id="not made yet"),
    ],
)
def test_the_claim_of_an_ephemeral_volume_is_the_pods_own(owner: str | None, why: str) -> None:
    made = [] if owner is None else [claim("web-tmp", volume="pv", owner=owner)]
    found = refused(claiming("web", PodClaim("web-tmp", own=True)), storage(*made, volume("pv")))
    assert [reason.removeprefix("node(s) cannot be used: ") for reason in found] == ([why] if why else [])


UNMATCHED = "node(s) didn't find available persistent volumes to bind"
ALL = ["a1", "a2", "b1", "nowhere"]
LOCAL = StorageClass("fast", "kubernetes.io/no-provisioner", waits=True)
MADE = StorageClass("fast", "p", waits=True)
MADE_IN_B = StorageClass("fast", "p", waits=True, topologies=within(ZONE, "b"))


@pytest.mark.parametrize(
    ("known", "refuses"),
    [
        pytest.param(storage(claim("data"), MADE), [], id="provisioned anywhere"),
        pytest.param(storage(claim("data"), MADE_IN_B), ["a1", "a2", "nowhere"], id="provisioned in a zone"),
        pytest.param(storage(claim("data"), LOCAL), ALL, id="nothing there, and nothing is provisioned"),
        pytest.param(storage(claim("data"), StorageClass("fast", waits=True)), ALL, id="no provisioner"),
        pytest.param(storage(claim("data", node="a2"), MADE), ["a1", "b1", "nowhere"], id="begun for a node"),
        pytest.param(
            storage(claim("data"), volume("pv", terms=within(ZONE, "a")), LOCAL), ["b1", "nowhere"], id="a volume there"
        ),
        pytest.param(
            storage(claim("data"), volume("pv", terms=within(ZONE, "a")), MADE_IN_B), ["nowhere"], id="there, or made"
        ),
        pytest.param(storage(claim("data", 2), volume("pv", 1), LOCAL), ALL, id="too small"),
        pytest.param(storage(claim("data"), volume("pv", 9), LOCAL), [], id="larger"),
        pytest.param(storage(claim("data"), volume("pv", available=False), LOCAL), ALL, id="not available"),
        pytest.param(storage(claim("data"), volume("pv", deleted=True), LOCAL), ALL, id="being deleted"),
        pytest.param(storage(claim("data"), volume("pv", class_name=""), LOCAL), ALL, id="of another class"),
        pytest.param(storage(claim("data"), volume("pv", kind="Block"), LOCAL), ALL, id="of another mode"),
        pytest.param(storage(claim("data", attributes="gold"), volume("pv"), LOCAL), ALL, id="other attributes"),
        pytest.param(storage(claim("data", modes=("ReadWriteMany",)), volume("pv"), LOCAL), ALL, id="access mode"),
        pytest.param(storage(claim("data", selector=()), volume("pv"), LOCAL), [], id="a selector of all"),
        pytest.param(
            storage(claim("data", selector=within(ZONE, "a")[0].labels), volume("pv", labels={"zone": "a"}), LOCAL),
            ALL, id="a selector that it does not obey",
        ),
        pytest.param(storage(claim("data"), volume("pv", claim=("shop", "other", "")), LOCAL), ALL, id="another's"),
        pytest.param(storage(claim("data"), volume("pv", claim=("shop", "data", "")), LOCAL), [], id="kept for it"),
        pytest.param(
            storage(claim("data"), volume("pv", claim=("shop", "data", "uid-data"), available=False), LOCAL), [],
            id="kept for it in this form",
        ),
        pytest.param(
            storage(claim("data"), volume("pv", claim=("shop", "data", "uid-former")), LOCAL), ALL,
            id="kept for one of its name before it",
        ),
        pytest.param(
            storage(
                claim("data"), volume("other"), volume("pv", claim=("shop", "data", ""), terms=within(ZONE, "b")), LOCAL
            ),
            ["a1", "a2", "nowhere"], id="one is kept for it, so it gets no other",
        ),
    ],
)  # fmt: skip
def test_a_claim_that_waits_needs_a_volume_for_its_node(known: Storage, refuses: list[str]) -> None:
    assert refused(claiming("web", "data"), known) == ({UNMATCHED: refuses} if refuses else {})


@pytest.mark.parametrize(
    ("capacities", "refuses"),
    [
        pytest.param([], ALL, id="nothing is said"),
        pytest.param([("fast", 5, ())], [], id="enough for all nodes"),
        pytest.param([("fast", 1, ())], ALL, id="too little"),
        pytest.param([("slow", 5, ())], ALL, id="of another class"),
        pytest.param([("fast", 5, None)], ALL, id="for no node"),
        pytest.param([("fast", 5, within(ZONE, "a")[0].labels)], ["b1", "nowhere"], id="in a zone"),
        pytest.param(
            [("fast", 5, within(ZONE, "a")[0].labels), ("fast", 9, within(ZONE, "b")[0].labels)],
            ["nowhere"],
            id="zones",
        ),
    ],
)
def test_a_driver_that_tracks_its_storage_has_enough_left(capacities: list[Any], refuses: list[str]) -> None:
    left = tuple(StorageCapacity("csi", name, name, size * GIB, nodes) for name, size, nodes in capacities)
    known = storage(claim("data", 2), MADE, tracked=frozenset({"p"}), capacities=left)
    assert refused(claiming("web", "data"), known) == ({UNMATCHED: refuses} if refuses else {})
    assert refused(claiming("web", "data"), storage(claim("data", 2), MADE, capacities=left)) == {}


def test_a_claim_whose_selected_node_is_gone_is_named() -> None:
    known = storage(claim("data", node="gone"), claim("logs"), MADE)
    annotation = "annotation volume.kubernetes.io/selected-node of its claim data"
    why = f"node(s) cannot be used: the {annotation} names gone, which is not a node of the pool"
    assert refused(claiming("web", "data", "logs"), known) == {why: ALL}
    (refusal,) = Filters().filter_nodes(claiming("web", "data", "logs"), columns(NODES, storage=known))
    assert mends(refusal, 0) == [f"the {annotation} is removed, or names another node"]


def test_two_claims_of_a_pod_need_two_volumes() -> None:
    volumes = [volume("small", 1, terms=within(ZONE, "a", "b")), volume("large", 5, terms=within(ZONE, "a"))]
    known = storage(claim("data", 1), claim("logs", 1), *volumes, LOCAL)
    assert refused(claiming("web", "data", "logs"), known) == {UNMATCHED: ["b1", "nowhere"]}


def test_the_provisioner_of_a_migrated_type_is_not_known() -> None:
    known = storage(claim("data"), StorageClass("fast", "kubernetes.io/gce-pd", waits=True))
    why = "elasticd does not know kubernetes.io/gce-pd, the provisioner of its claim data"
    assert refused(claiming("web", "data"), known) == {f"node(s) cannot be used: {why}": ALL}


def test_a_volume_that_is_yet_to_be_made_counts() -> None:
    known = csi("a", a1=1)
    claims = {**known.claims, ("shop", "new"): claim("new"), ("shop", "next"): claim("next")}
    known = Storage(claims, known.volumes, {"fast": StorageClass("fast", DRIVER, waits=True)}, known.limits)
    assert refused(claiming("web", "new"), known, [claiming("on", "a", on="a1")]) == {LIMITS: ["a1"]}
    assert refused(claiming("web", "new"), known, [claiming("on", "new", on="a1")]) == {}
    assert refused(claiming("web", "new", "next"), known) == {LIMITS: ["a1"]}


def csi(*names: str, **limits: int) -> Storage:
    """Bound claims with these names, each with a volume of the driver, on nodes with these limits."""
    things = [
        thing
        for name in names
        for thing in (claim(name, volume=f"pv-{name}"), volume(f"pv-{name}", driver=DRIVER, handle=name))
    ]
    return storage(*things, limits={name: {DRIVER: limit} for name, limit in limits.items()})


@pytest.mark.parametrize(
    ("there", "asks", "refuses"),
    [
        pytest.param([], ["x"], [], id="room"),
        pytest.param(["a", "b"], ["x"], ["a1"], id="full"),
        pytest.param(["a", "b"], ["a"], [], id="full, but it is there already"),
        pytest.param(["a"], ["x", "y"], ["a1"], id="room for one of two"),
        pytest.param(["a"], ["a", "x"], [], id="one of two is there"),
        pytest.param(["a", "gone"], ["x"], [], id="a claim that is gone does not count"),
    ],
)
def test_a_node_takes_as_many_volumes_as_its_driver_says(there: list[str], asks: list[str], refuses: list[str]) -> None:
    known = csi("a", "b", "x", "y", a1=2)
    on = [claiming(f"on-{name}", name, on="a1") for name in there]
    assert refused(claiming("web", *asks), known, on) == ({LIMITS: refuses} if refuses else {})


def test_volumes_of_drivers_without_a_limit_do_not_count() -> None:
    known = csi("a", "x", a1=1)
    elsewhere = storage(claim("x", volume="pv-x"), volume("pv-x", driver="other", handle="x"), limits=known.limits)
    assert refused(claiming("web", "x"), elsewhere, [claiming("on", "x", on="a1")]) == {}
    assert refused(claiming("web", "x"), known, [claiming("on", "a", on="a2")]) == {}


def test_the_limit_of_volumes_can_be_skipped() -> None:
    view = columns(NODES, [claiming("on", "a", on="a1")], storage=csi("a", "x", a1=1))
    assert Filters(skip=("volume-limits",)).filter_nodes(claiming("web", "x"), view) == []


def test_pods_of_one_plan_count_each_others_volumes() -> None:
    view = columns([node("a1"), node("a2")], storage=csi("x", "y", "z", a1=1, a2=1))
    decisions = planned([Filters()], view, [claiming(name, name) for name in "xyz"])
    assert [decision.node for decision in decisions] == ["a1", "a2", ""]


ALONE = storage(claim("data", volume="pv", modes=(ONE_POD,)), volume("pv"))


def test_a_claim_of_one_pod_is_for_one_pod_alone() -> None:
    (reason,) = refused(claiming("web", "data"), ALONE, [claiming("other", "data", on="a2")])
    assert reason == "node(s) cannot be used: another pod uses a claim of access mode ReadWriteOncePod"
    assert refused(claiming("web", "data"), ALONE, [claiming("other", "more", on="a2")]) == {}
    elsewhere = claiming("other", "data", on="a2", namespace="ops")
    assert refused(claiming("web", "data"), ALONE, [elsewhere]) == {}


def test_pods_of_one_plan_share_no_exclusive_claim() -> None:
    view = columns(NODES, storage=ALONE)
    decisions = planned([Filters()], view, [claiming("one", "data"), claiming("two", "data")])
    assert [bool(decision.node) for decision in decisions] == [True, False]


def preempted(asked: Pod, on: Sequence[Pod], known: Storage) -> list[str]:
    """The pods that are evicted for a pod, and its node."""
    view = columns(NODES, on, storage=known)
    (decision,) = planned([Filters(), Preemption(min_run=0)], view, [asked])
    return [*sorted(action.workload.name for action in decision.actions[1:]), decision.node]


def test_pods_are_preempted_where_their_volumes_are_in_the_way() -> None:
    on = [claiming(f"on-{name}", name, on="a1") for name in "ab"]
    known = csi("a", "b", "x", a1=2, a2=0, b1=0, nowhere=0)
    assert preempted(claiming("web", "x", priority=5), on, known) == ["on-a", "a1"]
    user = claiming("other", "data", on="a2")
    assert preempted(claiming("web", "data", priority=5), [user], ALONE) == ["other", "a2"]


def test_nobody_is_preempted_where_the_volume_cannot_be() -> None:
    known = bound(terms=within(ZONE, "b"))
    on = [pod(f"on-{each.name}", on=each.name, cpu=each.allocatable["cpu"]) for each in NODES]
    assert preempted(claiming("web", "data", priority=5), on, known) == ["on-b1", "b1"]
    assert preempted(claiming("web", "data", priority=5), on, storage()) == [""]
