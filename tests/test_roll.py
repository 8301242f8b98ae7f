"""The roll: who governs what, whose pods are whose, and whose plugins have failed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elasticd.api import Pod, Recommendation, Ref, Strategy, hookimpl
from elasticd.decision.decide import held
from elasticd.model.policy import Select, Target
from elasticd.model.records import Decision
from elasticd.model.workload import Failure
from elasticd.runtime.governed import STRIKES, Roll
from tests.test_loop import DB, WEB, Cluster, Snapshot, Want, policy


def cluster(**labels: str) -> Cluster:
    made = Cluster()
    made.put(WEB, 3, **labels)
    made.put(DB, 3)
    return made


def members(roll: Roll) -> list[str]:
    return sorted(f"{name} {ref.name}" for name, ref in roll.members)


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
    roll = Roll([policy(select=select, workload=None)])
    roll.enrol(Snapshot(cluster(tier="front"), 0.0))
    assert members(roll) == expected


def test_a_named_workload_is_governed_before_it_is_there() -> None:
    roll = Roll([policy(workload=Target("shop", "none"))])
    roll.enrol(Snapshot(cluster(), 0.0))
    assert members(roll) == ["p none"]


def test_it_is_called_again_only_when_workloads_came_went_or_changed_their_labels() -> None:
    roll, world = Roll([policy(select=Select(("shop",)), workload=None)]), cluster()
    assert [roll.enrol(Snapshot(world, 0.0)), roll.enrol(Snapshot(world, 1.0))] == [True, False]
    world.remove(DB)
    assert roll.enrol(Snapshot(world, 2.0))
    assert members(roll) == ["p web"]


def test_only_those_who_act_are_rivals() -> None:
    roll = Roll([policy("a"), policy("b", mode="observe"), policy("c", select=Select(("shop",)), workload=None)])
    roll.enrol(Snapshot(cluster(), 0.0))
    assert [roll.rivals((name, WEB)) for name in "abc"] == [("a", "c"), (), ("a", "c")]
    assert roll.rivals(("c", DB)) == ()


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
    roll = Roll([])
    assert roll.hooks(policy("a", Want())) is roll.hooks(policy("b", Want()))
    assert roll.hooks(policy("a", Want())) is roll.hooks(policy("a", Want()))


@pytest.mark.parametrize("other", [One(count=2), Two()], ids=["other options", "another type"])
def test_policies_that_only_look_alike_do_not(other: Strategy) -> None:
    roll = Roll([])
    assert repr(other) == repr(One())
    assert roll.hooks(policy("a", One())) is not roll.hooks(policy("b", other))


def pods(*uids: int) -> tuple[Pod, ...]:
    return tuple(Pod("shop", f"pod-{uid}", f"uid-{uid}", "Running") for uid in uids)


def test_both_workloads_are_told_at_the_first_look_whose_pods_are_claimed_twice() -> None:
    world = cluster()
    world.its_pods = {WEB: pods(1, 2), DB: pods(2, 3)}
    roll = Roll([policy("a"), policy("b", workload=Target("shop", "db"))])
    roll.enrol(Snapshot(world, 0.0))
    assert str(DB) in roll.ambiguity(WEB, world.its_pods[WEB])
    assert str(WEB) in roll.ambiguity(DB, world.its_pods[DB])


def test_a_workload_that_went_claims_nothing_any_more() -> None:
    world = cluster()
    world.its_pods = {WEB: pods(1), DB: pods(1)}
    roll = Roll([policy("a"), policy("b", workload=Target("shop", "db"))])
    roll.enrol(Snapshot(world, 0.0))
    world.remove(DB)
    roll.enrol(Snapshot(world, 1.0))
    assert roll.ambiguity(WEB, world.its_pods[WEB]) == ""


def test_two_policies_on_one_workload_make_it_no_rival_of_itself() -> None:
    world = cluster()
    world.its_pods = {WEB: pods(1)}
    roll = Roll([policy("a"), policy("b", mode="observe")])
    roll.enrol(Snapshot(world, 0.0))
    assert roll.ambiguity(WEB, pods(1)) == roll.ambiguity(WEB, pods(1)) == ""


REFS = [Ref("shop", "Deployment", name) for name in "abc"]


@given(st.lists(st.tuples(st.integers(0, 2), st.sets(st.integers(0, 4))), max_size=30))
def test_ambiguity_is_that_of_the_pods_as_they_are_now(looks: list[tuple[int, set[int]]]) -> None:
    roll, model = Roll([]), dict[Ref, set[int]]()
    for index, uids in looks:
        ref = REFS[index]
        model[ref] = uids
        shared = [other for other in model if other != ref and model[other] & uids]
        said = roll.ambiguity(ref, pods(*sorted(uids)))
        assert bool(said) == bool(shared)
        assert not shared or str(min(shared)) in said
    assert len(roll._claims._claimants) == len(set().union(*model.values())) if model else True


def failing(*plugins: str, name: str = "p", ref: Ref = WEB) -> Decision:
    made = held(policy(name), ref, 0.0, "PluginFailed", "")
    return replace(made, failures=tuple(Failure(plugin, "limit", "raised") for plugin in plugins))


def test_an_implementation_is_off_after_so_many_failures_in_a_row() -> None:
    roll = Roll([])
    for _ in range(STRIKES - 1):
        roll.strike(failing("bad"))
    assert roll.off("p") == frozenset()
    roll.strike(failing("bad"))
    assert (set(roll.off("p")), set(roll.off("q"))) == ({"bad"}, set())


@pytest.mark.parametrize(
    ("between", "off"),
    [(failing(), set()), (failing("worse"), set()), (failing(name="q"), {"bad"}), (failing(ref=DB), {"bad"})],
    ids=["a success", "another's failure", "another policy", "another workload's success"],
)
def test_a_success_wipes_an_implementation_s_failures(between: Decision, off: Any) -> None:
    roll = Roll([])
    for number in range(STRIKES):
        if number == 2:
            roll.strike(between)
        roll.strike(failing("bad"))
    assert roll.off("p") == off


def test_failures_are_counted_for_each_workload_alone() -> None:
    """A policy may have a thousand workloads: one bad moment of a source is no five failures in a row."""
    roll = Roll([])
    many = [Ref("shop", "Deployment", f"w{number}") for number in range(STRIKES)]
    for ref in many:
        roll.strike(failing("bad", ref=ref))
    assert roll.off("p") == frozenset()
    for _ in range(STRIKES - 2):
        roll.strike(failing("bad", ref=many[0]))
        roll.strike(failing(ref=many[1]))
    assert roll.off("p") == frozenset()
    roll.strike(failing("bad", ref=many[0]))
    assert roll.off("p") == {"bad"}


def test_what_is_off_stays_off_for_every_workload() -> None:
    roll = Roll([])
    for _ in range(STRIKES):
        roll.strike(failing("bad"))
    roll.strike(failing())
    roll.strike(failing(ref=DB))
    assert roll.off("p") == {"bad"}


def test_a_policy_that_blocked_is_stuck_and_no_other() -> None:
    roll = Roll([])
    roll.block("p", "stuck in x.py:3 f")
    assert roll.stuck("p") == "stuck in x.py:3 f; it is not called again until reload"
    assert roll.stuck("q") == ""
