"""The plan for pods whose claims wait for their first consumer."""

from collections.abc import Sequence

import pytest

from elasticd.api import Pod, Storage, StorageClass
from elasticd.kit.volume_view import VolumeView
from elasticd.model.actions import Bind, BindClaim, Nominate
from elasticd.model.placement import PodDecision
from elasticd.model.workload import Ref
from elasticd_plugins.filters import Filters
from elasticd_plugins.least_requested import LeastRequested
from tests.decision.pool.test_moves import OWNED, Leave
from tests.decision.pool.test_plan import Fits
from tests.kit.pools import NOW, columns, moving, node, planned, pod
from tests.kit.volumes import ZONE, bound_to, claim, claiming, storage, volume, with_claim, within

NODES = [node("a", labels={ZONE: "a"}), node("b", cpu=8, labels={ZONE: "b"})]
MADE = StorageClass("fast", "p", waits=True)
LOCAL = StorageClass("fast", "kubernetes.io/no-provisioner", waits=True)
DATA = Ref("shop", "PersistentVolumeClaim", "data", "v1")


def plan(known: Storage | None, *pods: Pod, on: Sequence[Pod] = ()) -> list[PodDecision]:
    """The plan by filters and one score."""
    return list(planned([Filters(), LeastRequested()], columns(NODES, on, storage=known), pods))


def claims_of(decision: PodDecision) -> list[tuple[str, str, str]]:
    """The claims that are to be bound: name, node and volume."""
    steps = [action for action in decision.actions if isinstance(action, BindClaim)]
    return [(step.workload.name, step.node, step.volume) for step in steps]


def test_a_node_is_selected_for_a_claim_and_kept() -> None:
    web = claiming("web", "data")
    (decision,) = plan(storage(claim("data"), MADE), web)
    assert (decision.verdict, decision.reason, decision.node) == ("wait", "VolumesNotBound", "b")
    assert decision.message == "waits until its claims are bound for b: data"
    assert decision.actions == (Nominate(web.ref, web.uid, "b"), BindClaim(DATA, "uid-data", "1", "b"))


def test_the_smallest_volume_is_kept_for_a_claim() -> None:
    known = storage(claim("data", 2), volume("large", 9, version="8"), volume("small", 3, version="7"), LOCAL)
    (decision,) = plan(known, claiming("web", "data"))
    assert decision.actions[1:] == (BindClaim(DATA, "uid-data", "7", "b", "small", "uid-small"),)


def test_a_volume_that_a_user_chose_stays_theirs() -> None:
    known = storage(claim("data"), volume("pv", claim=("shop", "data", "")), LOCAL)
    (decision,) = plan(known, claiming("web", "data"))
    assert decision.actions[1:] == (BindClaim(DATA, "uid-data", "1", "b", "pv", "uid-pv", by_user=True),)


def test_one_claim_is_provisioned_where_another_has_a_volume() -> None:
    known = storage(claim("data", 1), claim("logs", 9), volume("pv", terms=within(ZONE, "a")), MADE)
    taken = pod("full", cpu=7.9, on="b")
    (decision,) = plan(known, claiming("web", "data", "logs", cpu=1), on=[taken])
    assert claims_of(decision) == [("data", "a", "pv"), ("logs", "a", "")]


def test_nothing_is_written_twice_while_a_pod_waits() -> None:
    known = storage(claim("data"), claim("logs", node="a"), volume("pv", terms=within(ZONE, "a")), MADE)
    web = claiming("web", "data", "logs", nominated="a")
    (first,) = plan(known, web)
    assert claims_of(first) == [("data", "a", "pv")]
    (action,) = first.actions
    assert isinstance(action, BindClaim)
    (second,) = plan(with_claim(known, action), web)
    assert (second.reason, second.node, second.actions) == ("VolumesNotBound", "a", ())


def test_a_pod_is_bound_once_its_claims_are() -> None:
    known = bound_to(storage(claim("data", node="a"), MADE), "data", volume("pv", terms=within(ZONE, "a")))
    web = claiming("web", "data", nominated="a")
    (decision,) = plan(known, web)
    assert decision.actions == (Bind(web.ref, web.uid, "a", ""),)


def test_a_node_is_chosen_again_when_the_provisioner_gives_up() -> None:
    begun = storage(claim("data", node="a"), MADE)
    assert plan(begun, claiming("web", "data"))[0].node == "a"
    full = pod("full", cpu=3.9, on="a")
    (stuck,) = plan(begun, claiming("web", "data", cpu=1, nominated="a"), on=[full])
    assert (stuck.reason, stuck.actions) == ("Unschedulable", (Nominate(stuck.pod, stuck.uid, ""),))
    (again,) = plan(storage(claim("data"), MADE), claiming("web", "data", cpu=1), on=[full])
    assert claims_of(again) == [("data", "b", "")]


def test_pods_of_one_plan_get_different_volumes() -> None:
    known = storage(claim("data"), claim("logs"), volume("one"), volume("two", terms=within(ZONE, "a")), LOCAL)
    decisions = plan(known, claiming("api", "data"), claiming("web", "logs"), claiming("third", "more"))
    assert [claims_of(each) for each in decisions] == [[("data", "b", "one")], [], [("logs", "a", "two")]]


def test_pods_that_share_a_claim_go_to_its_node() -> None:
    known = storage(claim("data"), MADE)
    on = [pod("full", cpu=7.5, on="b")]
    decisions = plan(known, claiming("one", "data", cpu=0.2), claiming("two", "data", cpu=0.2), on=on)
    assert [(each.node, len(claims_of(each))) for each in decisions] == [("a", 1), ("a", 0)]


def test_room_is_kept_while_a_pod_waits_for_claims() -> None:
    known = storage(claim("data", node="b"), MADE)
    big = claiming("big", "data", cpu=6, priority=1, nominated="b")
    decisions = plan(known, big, pod("other", cpu=6))
    assert [each.node for each in decisions] == ["b", ""]


@pytest.mark.parametrize(
    ("known", "message"),
    [
        pytest.param(storage(), "its claim data does not exist", id="no claim"),
        pytest.param(storage(claim("data"), LOCAL), "its claims cannot be bound for b", id="no volume"),
        pytest.param(None, "its volumes are not known", id="not known"),
    ],
)
def test_a_pod_waits_for_volumes_without_any_filter(known: Storage | None, message: str) -> None:
    view = columns(NODES, storage=known)
    (decision,) = planned([Fits(), LeastRequested()], view, [claiming("web", "data")])
    assert (decision.verdict, decision.reason) == ("wait", "VolumesNotBound")
    assert decision.message.endswith(f"; {message}")


def test_what_a_plan_decides_of_volumes_ends_with_it() -> None:
    known = storage(claim("data"), volume("pv"), MADE)
    view = VolumeView(known)
    view.keep(known.volumes["pv"], known.claims["shop", "data"])
    view.select(known.claims["shop", "data"], "a")
    kept = view.kept(known.claims["shop", "data"])
    assert (view.free("fast"), kept and kept.name) == ([], "pv")
    assert VolumeView(known).free("fast") == [known.volumes["pv"]]
    assert known.claims["shop", "data"].node == ""


@pytest.mark.parametrize(
    ("zones", "target"),
    [
        pytest.param(("a", "b"), "b", id="a volume of both zones"),
        pytest.param(("a",), "", id="a volume of its zone alone"),
    ],
)
def test_a_moved_pod_stays_where_its_volume_is(zones: tuple[str, ...], target: str) -> None:
    known = storage(claim("data", volume="pv"), volume("pv", terms=within(ZONE, *zones)))
    runs = claiming("web", "data", on="a", owner=OWNED, started=NOW - 600, ready=True)
    others = [pod(name, on="b", owner=OWNED, started=NOW - 600, ready=True) for name in ("x", "y")]
    view = columns(NODES, [runs, *others], storage=known)
    (decision,) = moving([Filters(), LeastRequested(), Leave(node="a")], view, claims=True)
    assert (decision.target, decision.refusal) == (target, "" if target else "NoOtherNode")
