"""The stores: finding without scanning, and the same tuple while nothing changed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elasticd.cluster.kubernetes.watch.store import NodeStore, PodStore, WorkloadStore, selector_fault
from elasticd.cluster.kubernetes.wire.selector import SelectorError, parse_selector
from elasticd.model.workload import Node, Pod, Ref, Workload


def pod(name: str, namespace: str = "shop", phase: str = "Running", **labels: str) -> Pod:
    """A pod."""
    return Pod(namespace, name, f"uid-{name}", phase, labels=labels)


def filled(*pods: Pod) -> PodStore:
    """A store with pods."""
    store = PodStore()
    for one in pods:
        store.put(one, listed=True)
    return store


def names(pods: tuple[Pod, ...]) -> list[str]:
    """Their names, in order."""
    return [one.name for one in pods]


def test_pods_are_selected_by_labels_and_ordered_by_name() -> None:
    store = filled(pod("b", app="web"), pod("a", app="web"), pod("c", app="api"), pod("d", "other", app="web"))
    assert names(store.select("shop", "app=web")) == ["a", "b"]
    assert names(store.select("shop", "app in (api,web)")) == ["a", "b", "c"]
    assert names(store.select("nowhere", "app=web")) == []


def test_same_tuple_is_given_while_no_pod_that_matters_changes() -> None:
    store = filled(pod("a", app="web"), pod("z", app="api"))
    first = store.select("shop", "app=web")
    store.put(pod("a", app="web"), listed=False)
    store.put(pod("z", phase="Failed", app="api"), listed=False)
    store.put(pod("y", app="api"), listed=False)
    assert store.select("shop", "app=web") is first


@pytest.mark.parametrize(
    ("change", "left"),
    [
        pytest.param(pod("a", phase="Failed", app="web"), ["a"], id="a field"),
        pytest.param(pod("a", app="api"), [], id="its label leaves"),
        pytest.param(pod("b", app="web"), ["a", "b"], id="another one"),
        pytest.param(pod("z", app="web"), ["a", "z"], id="a label comes"),
    ],
)
def test_change_that_matters_gives_another_tuple(change: Pod, left: list[str]) -> None:
    store = filled(pod("a", app="web"), pod("z", app="api"))
    first = store.select("shop", "app=web")
    store.put(change, listed=False)
    assert store.select("shop", "app=web") is not first
    assert names(store.select("shop", "app=web")) == left


def test_selection_that_was_empty_sees_the_first_pod() -> None:
    store = filled(pod("z", app="api"))
    assert store.select("shop", "app=web") == ()
    store.put(pod("a", app="web"), listed=False)
    assert names(store.select("shop", "app=web")) == ["a"]
    store.remove(pod("a", app="web"))
    assert store.select("shop", "app=web") == ()
    store.put(pod("a", app="web"), listed=False)
    assert names(store.select("shop", "app=web")) == ["a"]


def test_retain_forgets_unnamed_objects_only_in_its_namespace() -> None:
    store = filled(pod("a", app="web"), pod("b", app="web"), pod("c", "other", app="web"))
    store.retain("shop", {("shop", "b")})
    assert len(store) == 2
    assert names(store.select("shop", "app=web")) == ["b"]
    store.retain("", {("shop", "b")})
    assert len(store) == 1


@pytest.mark.parametrize("selector", ["", "app in ("])
def test_bad_selector_raises_and_has_a_line_of_explanation(selector: str) -> None:
    with pytest.raises(SelectorError):
        filled(pod("a")).select("shop", selector)
    assert "must" in selector_fault(selector)
    assert selector_fault("app=web") == ""


LABELS = st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"))
STEPS = st.lists(st.tuples(st.sampled_from(["p", "q", "r"]), st.none() | LABELS), max_size=20)
SELECTORS = ["a=x", "a=x,b=y", "a in (x,y)", "!a", "b", "a!=x"]


@given(STEPS)
def test_index_always_agrees_with_a_scan(steps: list[tuple[str, dict[str, str] | None]]) -> None:
    store, truth = PodStore(), dict[str, Pod]()
    for name, labels in steps:
        if labels is None:
            store.remove(pod(name))
            truth.pop(name, None)
        else:
            truth[name] = pod(name, **labels)
            store.put(truth[name], listed=False)
        for selector in SELECTORS:
            parsed = parse_selector(selector)
            expected = [truth[one] for one in sorted(truth) if parsed.matches(truth[one].labels)]
            assert list(store.select("shop", selector)) == expected


@pytest.mark.parametrize(
    ("event", "now", "unseen"),
    [
        pytest.param(None, 110.0, False, id="the watch has time"),
        pytest.param(None, 110.1, True, id="the watch shows nothing"),
        pytest.param({"labels": {"a": "x"}}, 110.1, True, id="the watch shows what was before"),
        pytest.param({"deleted": True}, 110.1, False, id="the watch shows it"),
        pytest.param({"uid": "another"}, 110.1, False, id="another has its name"),
    ],
)
def test_evictions_that_nothing_shows_are_asked_for(event: dict[str, Any] | None, now: float, unseen: bool) -> None:
    store = PodStore()
    store.put(pod("a"), listed=True)
    store.assume_deleted(pod("a").ref, pod("a").uid, 100.0)
    if event is not None:
        store.put(replace(pod("a"), **event), listed=False)
    assert [one.name for one in store.unseen_deletions(now)] == ["a"] * unseen


def test_no_deletion_is_assumed_that_the_watch_has_shown() -> None:
    store = PodStore()
    store.put(pod("a"), listed=True)
    store.put(replace(pod("a"), deleted=True), listed=False)
    store.assume_deleted(pod("a").ref, pod("a").uid, 100.0)
    assert store.unseen_deletions(1000.0) == []
    assert not store.settle_deletion(pod("a").ref, pod("a").uid, stays=True)


@pytest.mark.parametrize("stays", [False, True])
def test_a_deletion_is_settled_once_as_the_server_says(stays: bool) -> None:
    store = PodStore()
    store.put(pod("a"), listed=True)
    store.assume_deleted(pod("a").ref, pod("a").uid, 100.0)
    assert not store.settle_deletion(pod("a").ref, "another", stays=True)
    assert store.settle_deletion(pod("a").ref, pod("a").uid, stays=stays) is stays
    assert (found := store.get("shop", "a")) is not None
    assert found.deleted is not stays
    assert (store.unseen_deletions(1000.0), store.settle_deletion(found.ref, found.uid, stays=True)) == ([], False)


def test_a_deletion_that_the_watch_shows_meanwhile_stays() -> None:
    store = PodStore()
    store.put(pod("a"), listed=True)
    store.assume_deleted(pod("a").ref, pod("a").uid, 100.0)
    assert [one.name for one in store.unseen_deletions(111.0)] == ["a"]
    store.put(replace(pod("a"), deleted=True), listed=False)
    assert not store.settle_deletion(pod("a").ref, pod("a").uid, stays=True)
    assert (found := store.get("shop", "a")) is not None
    assert found.deleted


def test_a_change_of_what_a_pod_owns_shows_no_deletion() -> None:
    store = PodStore()
    store.put(pod("driver"), listed=True)
    worker = replace(pod("worker"), owner_pods=(("driver", pod("driver").uid),))
    store.put(worker, listed=True)
    store.assume_deleted(pod("driver").ref, pod("driver").uid, 100.0)
    store.remove(worker)
    assert [one.name for one in store.unseen_deletions(111.0)] == ["driver"]


def test_nodes_are_sorted_and_the_same_tuple_while_unchanged() -> None:
    store = NodeStore()
    for name in ("n2", "n1"):
        store.put(Node(name, "u", ready=True), listed=True)
    first = store.all()
    assert [node.name for node in first] == ["n1", "n2"]
    store.put(Node("n1", "u", ready=True), listed=False)
    assert store.all() is first
    store.retain("", {("", "n2")})
    assert [node.name for node in store.all()] == ["n2"]


WEB = Workload(Ref("shop", "Deployment", "web"), "u", "10", 3, labels={"a": "b"})


def test_version_grows_with_appearance_labels_owner_and_removal_alone() -> None:
    store = WorkloadStore()
    store.put(WEB, listed=True)
    appeared = store.version
    store.put(replace(WEB, version="11", replicas=4), listed=False)
    assert store.version == appeared
    store.put(replace(WEB, version="12", labels={}), listed=False)
    labelled = store.version
    store.put(replace(WEB, version="13", labels={}, owner="Deployment/web"), listed=False)
    owned = store.version
    store.of(("apps/v1", "Deployment")).remove(WEB)
    assert appeared < labelled < owned < store.version
    assert store.all() == ()


@pytest.mark.parametrize(
    ("version", "uid", "listed", "replicas"),
    [
        pytest.param("9", "u", False, 3, id="an older event is not taken"),
        pytest.param("10", "u", False, 5, id="the same version is taken"),
        pytest.param("11", "u", False, 5, id="a newer event is taken"),
        pytest.param("9", "v", False, 5, id="another uid is taken"),
        pytest.param("9", "u", True, 5, id="a list is always taken"),
        pytest.param("x", "u", False, 5, id="a version that is no number is taken"),
    ],
)
def test_time_never_goes_back_by_an_event(version: str, uid: str, listed: bool, replicas: int) -> None:
    store = WorkloadStore()
    store.put(WEB, listed=True)
    store.put(replace(WEB, version=version, uid=uid, replicas=5), listed=listed)
    found = store.get(WEB.ref)
    assert found is not None
    assert found.replicas == replicas


def test_store_of_a_kind_forgets_only_its_own() -> None:
    store = WorkloadStore()
    deployments = store.of(("apps/v1", "Deployment"))
    store.put(replace(WEB, ref=Ref("shop", "StatefulSet", "db")), listed=True)
    assert deployments.put(WEB, listed=True) == ("shop", "web")
    deployments.retain("", ())
    assert [one.ref.kind for one in store.all()] == ["StatefulSet"]


def child(name: str, *owners: Pod, phase: str = "Running") -> Pod:
    """A pod that others own."""
    return replace(pod(name, phase=phase), owner_pods=tuple((owner.name, owner.uid) for owner in owners))


DRIVER = pod("driver")


@pytest.mark.parametrize(
    ("pods", "owns"),
    [
        pytest.param([DRIVER, child("a", DRIVER)], True, id="it comes first"),
        pytest.param([child("a", DRIVER), DRIVER], True, id="its dependent comes first"),
        pytest.param([DRIVER, pod("a")], False, id="of nobody"),
        pytest.param([DRIVER, child("a", replace(DRIVER, uid="old"))], False, id="of an earlier one of its name"),
        pytest.param([DRIVER, replace(child("a", DRIVER), namespace="other")], False, id="of another namespace"),
        pytest.param([DRIVER, child("a", DRIVER, phase="Succeeded")], False, id="of one that has ended"),
        pytest.param([DRIVER, child("a", DRIVER), child("a", DRIVER, phase="Failed")], False, id="of one that ends"),
        pytest.param([DRIVER, child("a", DRIVER), child("b", DRIVER), pod("a")], True, id="one is left"),
        pytest.param([DRIVER, child("a", DRIVER), pod("a")], False, id="it owns none any more"),
        pytest.param([DRIVER, child("a", DRIVER), DRIVER], True, id="it is read again"),
    ],
)
def test_a_pod_owns_those_that_name_it(pods: list[Pod], owns: bool) -> None:
    store = filled(*pods)
    driver = store.get("shop", "driver")
    assert driver is not None
    assert driver.owns is owns
    assert driver in store.all_of("shop")


def test_a_pod_owns_none_once_they_are_gone() -> None:
    store = filled(DRIVER, child("a", DRIVER), child("b", DRIVER))
    store.remove(child("a", DRIVER))
    assert store.get("shop", "driver") == replace(DRIVER, owns=True)
    store.retain("shop", {("shop", "driver")})
    assert store.get("shop", "driver") == DRIVER
