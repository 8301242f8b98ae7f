"""PodDisruptionBudgets: which pods each is about, and how many may go."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from elasticd.cluster.kubernetes.watch.disruption_budgets import BudgetStore, Empty, WireBudget, to_budget
from elasticd.cluster.kubernetes.watch.store import PodStore
from elasticd.model.placement import DisruptionBudget
from tests.kit.pools import pod

WEB = {"matchLabels": {"app": "web"}}


def wire(
    selector: dict[str, Any] | None, name: str = "pdb", generation: int = 1, policy: str = "", **status: Any
) -> WireBudget:
    """A budget as the API shows it, counted by its controller."""
    counted = {"disruptionsAllowed": 1, "observedGeneration": 1, **status}
    meta = {"name": name, "namespace": "shop", "generation": generation}
    spec: dict[str, Any] = {} if selector is None else {"selector": selector}
    spec |= {"unhealthyPodEvictionPolicy": policy} if policy else {}
    text = msgspec.json.encode({"metadata": meta, "spec": spec, "status": counted})
    return msgspec.json.decode(text, type=WireBudget)


def pods() -> PodStore:
    store = PodStore()
    for name, app in (("a", "web"), ("b", "web"), ("c", "api")):
        store.put(pod(name, on="n", labels={"app": app}), listed=True)
    store.put(pod("d", on="n", namespace="other", labels={"app": "web"}), listed=True)
    return store


@pytest.mark.parametrize(
    ("found", "empty", "names", "allowed"),
    [
        pytest.param(wire(WEB), "all", "ab", 1, id="by labels"),
        pytest.param(wire({}), "all", "abc", 1, id="an empty selector of v1 selects all"),
        pytest.param(wire({}), "none", "", 1, id="one of v1beta1 selects none"),
        pytest.param(wire(None), "all", "", 1, id="no selector selects none"),
        pytest.param(
            wire({"matchExpressions": [{"key": "app", "operator": "Near"}]}), "all", "abc", 0,
            id="one that cannot be read may be about any",
        ),
        pytest.param(wire(WEB, disruptedPods={"a": "2026-01-01T00:00:00Z"}), "all", "b", 1, id="one is leaving"),
        pytest.param(wire(WEB, generation=2), "all", "ab", 0, id="its newest form was not counted yet"),
        pytest.param(wire(WEB, disruptionsAllowed=0), "all", "ab", 0, id="none may go"),
    ],
)  # fmt: skip
def test_which_pods_a_budget_is_about(found: WireBudget, empty: Empty, names: str, allowed: int) -> None:
    store = BudgetStore(pods())
    store.put(to_budget(found, empty), listed=True)
    assert store.all() == (DisruptionBudget("shop", "pdb", frozenset(f"uid-{name}" for name in names), allowed),)


@pytest.mark.parametrize(
    ("policy", "current", "desired", "kept"),
    [
        pytest.param("", 1, 1, "ready", id="as many are ready as must be"),
        pytest.param("", 2, 1, "ready", id="more are"),
        pytest.param("", 1, 2, "ready sick unknown", id="too few are"),
        pytest.param("", 0, 0, "ready sick unknown", id="none must be"),
        pytest.param("IfHealthyBudget", 1, 1, "ready", id="by name, enough"),
        pytest.param("IfHealthyBudget", 1, 2, "ready sick unknown", id="by name, too few"),
        pytest.param("AlwaysAllow", 0, 2, "ready", id="always"),
        pytest.param("SomethingNew", 1, 2, "ready sick unknown", id="a policy that is not known"),
    ],
)
@pytest.mark.parametrize("generation", [1, 2], ids=["counted", "not counted yet"])
def test_budget_protects_unready_pods_as_the_eviction_api_does(
    policy: str, current: int, desired: int, kept: str, generation: int
) -> None:
    known = PodStore()
    for name, ready in (("ready", True), ("sick", False), ("unknown", None)):
        known.put(pod(name, on="n", ready=ready), listed=True)
    for phase in ("Pending", "Succeeded", "Failed"):
        known.put(pod(phase.lower(), on="n", phase=phase), listed=True)
    store = BudgetStore(known)
    found = wire({}, generation=generation, policy=policy, currentHealthy=current, desiredHealthy=desired)
    store.put(to_budget(found, "all"), listed=True)
    (budget,) = store.all()
    assert budget.pods == {f"uid-{name}" for name in kept.split()}
    known.put(pod("ready", on="n", ready=False), listed=False)
    assert ("uid-ready" in store.all()[0].pods) == ("sick" in kept)


def test_budget_follows_its_pods_and_its_record_is_reused_meanwhile() -> None:
    known = pods()
    store = BudgetStore(known)
    for name in ("z", "a"):
        store.put(to_budget(wire(WEB, name), "all"), listed=True)
    before = store.all()
    assert [one.name for one in before] == ["a", "z"]
    store.put(to_budget(wire(WEB), "all"), listed=True)
    known.put(pod("x", on="n", labels={"app": "api"}), listed=False)
    assert store.all()[0] is before[0]
    known.put(replace(pod("a", on="n", labels={"app": "web"}), deleted=True), listed=False)
    assert store.all()[0].pods == {"uid-b"}


def test_budgets_that_are_gone_are_forgotten() -> None:
    store = BudgetStore(pods())
    for name in "abc":
        store.put(to_budget(wire(WEB, name), "all"), listed=True)
    store.all()
    store.remove(to_budget(wire(WEB, "a"), "all"))
    store.retain("shop", {("shop", "b")})
    assert [one.name for one in store.all()] == ["b"]
    store.retain("other", ())
    assert len(store.all()) == 1
    store.retain("", ())
    assert store.all() == ()
