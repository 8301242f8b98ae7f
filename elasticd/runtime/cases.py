"""What is to be judged of a workload: an observation with its past and its policy's hooks, or why there is none.

Knows who is governed, the cluster as it is and what was last evaluated; knows neither when nor what is decided.
"""

from collections.abc import Mapping, MutableMapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from elasticd.decision.decide import Case, held
from elasticd.decision.observe import observe, on_nodes
from elasticd.journal import Journal, Key
from elasticd.model.policy import Policy
from elasticd.model.records import Decision
from elasticd.model.workload import Readings, Ref
from elasticd.ports.cluster import Kind, Snapshot
from elasticd.runtime.governed import PolicyIndex
from elasticd.runtime.unchanged import LastEvaluation


class Scene(NamedTuple):
    """Who is governed, what was last evaluated of them, and the cluster at a time."""

    policy_index: PolicyIndex
    seen: MutableMapping[Key, LastEvaluation]
    snapshot: Snapshot
    at: float


def case_of(
    scene: Scene, key: Key, readings: Sequence[Readings], journal: Journal, problems: Mapping[Kind, str]
) -> Case | Decision | None:
    """What is known of a workload, ready to be judged; a decision where nothing is to be judged; or None where it was
    judged before and no sample has moved since. `problems`: of kinds that cannot be followed."""
    (name, ref), (policy_index, seen, snapshot, now) = key, scene
    policy, workload = policy_index.members[key], snapshot.workload(ref)
    if workload is None:
        problem = problems.get((ref.api_version, ref.kind), "it is not in the cluster")
        return held_as_it_is(snapshot, policy, ref, now, "FailedGetScale", problem)
    if rivals := policy_index.rivals(key):
        message = f"policies {', '.join(rivals)} would all act on it, so none does"
        return held_as_it_is(snapshot, policy, ref, now, "Contested", message)
    if stuck := policy_index.stuck(name):
        return held_as_it_is(snapshot, policy, ref, now, "PluginBlocked", stuck)
    hooks = policy_index.hooks(policy)
    observation = observe(policy, workload, snapshot, readings, hooks.reads, now)
    if hooks.looks_at_nodes:
        nodes = on_nodes(hooks.reads_of_nodes, observation.pods, readings, now, policy.max_age)
        observation = replace(observation, rooms=snapshot.rooms(), nodes=nodes)
    if overlap := policy_index.ambiguity(ref, observation.pods):
        observation = replace(observation, fault=("AmbiguousSelector", overlap))
    before = seen.get(key)
    if before is not None and before.stands(observation, policy):
        return None
    seen[key] = LastEvaluation(observation, hooks.next_change(now))
    past = journal.past(name, ref, now, workload.replicas)
    return Case(policy, observation, past, hooks, policy_index.off(name))


def held_as_it_is(
    snapshot: Snapshot | None, policy: Policy, ref: Ref, now: float, reason: str, message: str
) -> Decision:
    """Nothing is done, and what the workload has is shown."""
    workload = snapshot.workload(ref) if snapshot else None
    if workload is None:
        return held(policy, ref, now, reason, message)
    return replace(held(policy, ref, now, reason, message, workload.replicas), uid=workload.uid)
