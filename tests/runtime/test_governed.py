"""The roll: who governs what, whose pods are whose, and whose plugins have failed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elasticd.api import Pod, Recommendation, Ref, Strategy, hookimpl
from elasticd.decision.decide import held
from elasticd.model.disruption import PolicyCaps
from elasticd.model.policy import Select, Target
from elasticd.model.records import Decision
from elasticd.model.workload import Failure
from elasticd.registry import STRIKES
from elasticd.runtime.governed import PolicyIndex
from tests.kit.loops import DB, WEB, Cluster, Snapshot, Want, policy

GROUPS = (("example.test", ""), ("example.test", "beta1"), ("other.test", ""))


def cluster(**labels: str) -> Cluster:
    made = Cluster()
    made.put(WEB, 3, **labels)
    made.put(DB, 3)
    return made


def members(policy_index: PolicyIndex) -> list[str]:
    return sorted(f"{name} {ref.name}" for name, ref in policy_index.members)


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        (Select(("shop",)), ["p db", "p web"]),
        (Select(("*",)), ["p db", "p web"]),
        (Select(("shop",), {"tier": "front"}), ["p web"]),
        (Select(("shop",), {"tier": "back"}), []),
        (Select(("other",)), []),
        (Select(("shop",), kind="StatefulSet"), []),
        (Select(("shop",), api_version="apps/v2"), []),
    ],
    ids=["namespace", "any namespace", "labels", "other labels", "other namespace", "other kind", "other version"],
)
def test_a_selection_governs_what_it_matches(select: Select, expected: list[str]) -> None:
    policy_index = PolicyIndex([policy(select=select, workload=None)])
    policy_index.refresh(Snapshot(cluster(tier="front"), 0.0))
    assert members(policy_index) == expected


def test_a_named_workload_is_governed_before_it_is_there() -> None:
    policy_index = PolicyIndex([policy(workload=Target("shop", "none"))])
    policy_index.refresh(Snapshot(cluster(), 0.0))
    assert members(policy_index) == ["p none"]


def test_the_index_changes_only_with_workloads_or_their_labels() -> None:
    policy_index, world = PolicyIndex([policy(select=Select(("shop",)), workload=None)]), cluster()
    assert [policy_index.refresh(Snapshot(world, 0.0)), policy_index.refresh(Snapshot(world, 1.0))] == [True, False]
    world.remove(DB)
    assert policy_index.refresh(Snapshot(world, 2.0))
    assert members(policy_index) == ["p web"]


def test_an_object_in_two_versions_of_its_group_has_rivals() -> None:
    targets = [Target("shop", "fleet", "Fleet", f"{group}/v1{beta}") for group, beta in GROUPS]
    policy_index = PolicyIndex([policy(name, workload=target) for name, target in zip("abc", targets, strict=True)])
    policy_index.refresh(Snapshot(cluster(), 0.0))
    rivals = [policy_index.rivals((name, target.ref)) for name, target in zip("abc", targets, strict=True)]
    assert rivals == [("a", "b"), ("a", "b"), ()]


def test_only_those_who_act_are_rivals() -> None:
    policy_index = PolicyIndex(
        [policy("a"), policy("b", mode="observe"), policy("c", select=Select(("shop",)), workload=None)]
    )
    policy_index.refresh(Snapshot(cluster(), 0.0))
    assert [policy_index.rivals((name, WEB)) for name in "abc"] == [("a", "c"), (), ("a", "c")]
    assert policy_index.rivals(("c", DB)) == ()


def test_what_no_policy_acts_on_is_known_after_a_look() -> None:
    policy_index = PolicyIndex([policy("a"), policy("b", mode="observe", workload=Target("shop", "db"))])
    names = ["shop/Deployment/web", "shop/Deployment/other", "shop/Deployment/db"]
    assert policy_index.not_acted_on(names) == []
    policy_index.refresh(Snapshot(cluster(), 0.0))
    assert policy_index.not_acted_on(names) == ["shop/Deployment/db", "shop/Deployment/other"]


class Same(Strategy, tag="one", frozen=True):
    """A strategy that prints itself as another does."""

    count: int = 1

    def __repr__(self) -> str:
        return "Same()"

    @hookimpl
    def recommend_replicas(self) -> Recommendation:
        return Recommendation(self.count, "One")


One = Same


class Two(Strategy, tag="two", frozen=True):
    count: int = 1

    def __repr__(self) -> str:
        return "Same()"


def test_policies_with_equal_tables_share_their_plugins() -> None:
    policy_index = PolicyIndex([])
    assert policy_index.hooks(policy("a", Want())) is policy_index.hooks(policy("b", Want()))
    assert policy_index.hooks(policy("a", Want())) is policy_index.hooks(policy("a", Want()))


@pytest.mark.parametrize("other", [One(count=2), Two()], ids=["other options", "another type"])
def test_policies_that_only_look_alike_do_not(other: Strategy) -> None:
    policy_index = PolicyIndex([])
    assert repr(other) == repr(One())
    assert policy_index.hooks(policy("a", One())) is not policy_index.hooks(policy("b", other))


def pods(*uids: int) -> tuple[Pod, ...]:
    return tuple(Pod("shop", f"pod-{uid}", f"uid-{uid}", "Running") for uid in uids)


def test_both_workloads_with_shared_pods_are_ambiguous_at_first_look() -> None:
    world = cluster()
    world.its_pods = {WEB: pods(1, 2), DB: pods(2, 3)}
    policy_index = PolicyIndex([policy("a"), policy("b", workload=Target("shop", "db"))])
    policy_index.refresh(Snapshot(world, 0.0))
    assert str(DB) in policy_index.ambiguity(WEB, world.its_pods[WEB])
    assert str(WEB) in policy_index.ambiguity(DB, world.its_pods[DB])


def test_a_workload_that_went_claims_nothing_any_more() -> None:
    world = cluster()
    world.its_pods = {WEB: pods(1), DB: pods(1)}
    policy_index = PolicyIndex([policy("a"), policy("b", workload=Target("shop", "db"))])
    policy_index.refresh(Snapshot(world, 0.0))
    world.remove(DB)
    policy_index.refresh(Snapshot(world, 1.0))
    assert policy_index.ambiguity(WEB, world.its_pods[WEB]) == ""


def test_two_policies_on_one_workload_cause_no_ambiguity() -> None:
    world = cluster()
    world.its_pods = {WEB: pods(1)}
    policy_index = PolicyIndex([policy("a"), policy("b", mode="observe")])
    policy_index.refresh(Snapshot(world, 0.0))
    assert policy_index.ambiguity(WEB, pods(1)) == policy_index.ambiguity(WEB, pods(1)) == ""


REFS = [Ref("shop", "Deployment", name) for name in "abc"]


@given(st.lists(st.tuples(st.integers(0, 2), st.sets(st.integers(0, 4))), max_size=30))
def test_ambiguity_is_that_of_the_pods_as_they_are_now(looks: list[tuple[int, set[int]]]) -> None:
    policy_index, model = PolicyIndex([]), dict[Ref, set[int]]()
    for index, uids in looks:
        ref = REFS[index]
        model[ref] = uids
        shared = [other for other in model if other != ref and model[other] & uids]
        said = policy_index.ambiguity(ref, pods(*sorted(uids)))
        assert bool(said) == bool(shared)
        assert not shared or str(min(shared)) in said
    assert len(policy_index._claims._claimants) == len(set().union(*model.values())) if model else True


def failing(*plugins: str, name: str = "p", ref: Ref = WEB) -> Decision:
    made = held(policy(name), ref, 0.0, "PluginFailed", "")
    return replace(made, failures=tuple(Failure(plugin, "limit", "raised") for plugin in plugins))


def test_a_plugin_is_off_after_enough_consecutive_failures() -> None:
    policy_index = PolicyIndex([])
    for _ in range(STRIKES - 1):
        policy_index.count_failure(failing("bad"))
    assert policy_index.off("p") == frozenset()
    policy_index.count_failure(failing("bad"))
    assert (set(policy_index.off("p")), set(policy_index.off("q"))) == ({"bad"}, set())


@pytest.mark.parametrize(
    ("between", "off"),
    [(failing(), set()), (failing("worse"), set()), (failing(name="q"), {"bad"}), (failing(ref=DB), {"bad"})],
    ids=["a success", "another's failure", "another policy", "another workload's success"],
)
def test_a_success_wipes_an_implementation_s_failures(between: Decision, off: Any) -> None:
    policy_index = PolicyIndex([])
    for number in range(STRIKES):
        if number == 2:
            policy_index.count_failure(between)
        policy_index.count_failure(failing("bad"))
    assert policy_index.off("p") == off


def test_failures_are_counted_for_each_workload_alone() -> None:
    """A policy may have a thousand workloads: one bad moment of a source is no five failures in a row."""
    policy_index = PolicyIndex([])
    many = [Ref("shop", "Deployment", f"w{number}") for number in range(STRIKES)]
    for ref in many:
        policy_index.count_failure(failing("bad", ref=ref))
    assert policy_index.off("p") == frozenset()
    for _ in range(STRIKES - 2):
        policy_index.count_failure(failing("bad", ref=many[0]))
        policy_index.count_failure(failing(ref=many[1]))
    assert policy_index.off("p") == frozenset()
    policy_index.count_failure(failing("bad", ref=many[0]))
    assert policy_index.off("p") == {"bad"}


def test_what_is_off_stays_off_for_every_workload() -> None:
    policy_index = PolicyIndex([])
    for _ in range(STRIKES):
        policy_index.count_failure(failing("bad"))
    policy_index.count_failure(failing())
    policy_index.count_failure(failing(ref=DB))
    assert policy_index.off("p") == {"bad"}


def test_a_policy_that_blocked_is_stuck_and_no_other() -> None:
    policy_index = PolicyIndex([])
    policy_index.block("p", "stuck in x.py:3 f")
    assert policy_index.stuck("p") == "stuck in x.py:3 f; it is not called again until reload"
    assert policy_index.stuck("q") == ""


def grown(count: int, confirmed: int = 0, mode: str = "act", before: frozenset[Ref] | None = frozenset({WEB})) -> int:
    """How many workloads wait, where a selector matches so many and two may come at a reload."""
    world = Cluster()
    refs = [WEB, *(replace(WEB, name=f"web-{index}") for index in range(count))]
    for ref in refs:
        world.put(ref, 3)
    wide = policy(select=Select(("shop",), confirmed=confirmed), workload=None, mode=mode)
    policy_index = PolicyIndex([wide], before, PolicyCaps(newly_governed=2))
    policy_index.refresh(Snapshot(world, 0.0))
    waiting = {ref for ref in refs if policy_index.unconfirmed(("p", ref))}
    assert policy_index.confirmed_refs() == set(refs) - waiting
    world.put(replace(WEB, name="made-later"), 3)
    policy_index.refresh(Snapshot(world, 1.0))
    assert not policy_index.unconfirmed(("p", replace(WEB, name="made-later")))
    return len(waiting)


@pytest.mark.parametrize(
    ("count", "changes", "expected"),
    [
        pytest.param(2, {}, 0, id="as many as may"),
        pytest.param(3, {}, 3, id="one too many: all that are new"),
        pytest.param(3, {"confirmed": 3}, 0, id="confirmed"),
        pytest.param(3, {"confirmed": 2}, 3, id="fewer confirmed"),
        pytest.param(3, {"mode": "observe"}, 0, id="it only observes"),
        pytest.param(3, {"before": None}, 0, id="at the start"),
    ],
)
def test_a_selector_that_suddenly_matches_many_waits(count: int, changes: dict[str, Any], expected: int) -> None:
    assert grown(count, **changes) == expected
