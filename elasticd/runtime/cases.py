"""Builds the case to decide about a workload: its observation, its history and its policy's hooks.

Knows the governed workloads, the cluster as it is and what was last evaluated; knows neither when nor what is decided.
"""

from collections.abc import Mapping, MutableMapping, Sequence
from math import inf
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from elasticd.decision.decide import Case, held
from elasticd.decision.observe import fingerprint, observe, on_nodes
from elasticd.journal import Journal, Key
from elasticd.kit.surge import own_count
from elasticd.model.policy import Policy
from elasticd.model.records import Decision
from elasticd.model.workload import Observation, Readings, Workload
from elasticd.ports.cluster import Kind, Snapshot, scales_of
from elasticd.runtime.governed import PolicyIndex
from elasticd.sources.poller import SLACK


def soonest(policy: Policy) -> float:
    """Seconds from one evaluation to the next, at least, where nothing has changed: the interval at its shortest."""
    return policy.interval * (1 - policy.jitter) - 2 * SLACK


class LastEvaluation(Struct, frozen=True):
    """An observation that was evaluated, and until when the clock alone changes nothing about it."""

    last: Observation
    until: float = inf

    def stands(self, new: Observation, policy: Policy) -> bool:
        """Whether no sample has moved since, and neither the policy's interval has passed (at its shortest, by jitter
        and a shared tick), nor the time at which a strategy may change its mind by the clock alone."""
        due = new.at >= min(self.last.at + soonest(policy), self.until)
        return not due and fingerprint(self.last) == fingerprint(new)


class Scene(NamedTuple):
    """The governed workloads, their last evaluations, and the cluster at a time."""

    policy_index: PolicyIndex
    evaluations: MutableMapping[Key, LastEvaluation]
    snapshot: Snapshot
    at: float


def case_of(
    scene: Scene, key: Key, readings: Sequence[Readings], journal: Journal, problems: Mapping[Kind, str]
) -> Case | Decision | None:
    """Build the case of a workload; a decision to hold where it cannot be judged; None where nothing has changed since
    the last evaluation. `problems` are the kinds that cannot be watched, and why."""
    (name, ref), (policy_index, evaluations, snapshot, now) = key, scene
    policy, workload = policy_index.members[key], snapshot.workload(ref)
    if workload is None:
        kind = ref.api_version, ref.kind
        problem = problems.get(kind) or problems.get(scales_of(kind), "it is not in the cluster")
        return held(policy, ref, now, "FailedGetScale", problem)
    if why := _why_held(policy_index, key, workload):
        return held(policy, ref, now, *why, workload)
    hooks = policy_index.hooks(policy)
    observation = observe(policy, workload, snapshot, readings, hooks.reads, now)
    if hooks.looks_at_nodes:
        nodes = on_nodes(hooks.reads_of_nodes, observation.pods, readings, now, policy.max_age)
        observation = replace(observation, rooms=snapshot.rooms(), nodes=nodes)
    if overlap := policy_index.ambiguity(ref, observation.pods):
        observation = replace(observation, fault=("AmbiguousSelector", overlap))
    previous = evaluations.get(key)
    if previous is not None and previous.stands(observation, policy):
        return None
    evaluations[key] = LastEvaluation(observation)
    # A daemon that begins to lead finds no wish in the replica of a surge.
    past = journal.past(name, ref, now, own_count(workload), workload.uid, acts=policy.mode == "act")
    return Case(policy, observation, past, hooks, policy_index.off(name), policy_index.caps)


def _why_held(policy_index: PolicyIndex, key: Key, workload: Workload) -> tuple[str, str] | None:
    """Why no strategy is asked about a workload, as a reason and a message; None: they are."""
    if workload.owner:
        return "OwnerSetsCount", f"{workload.owner} sets its count; name that in the policy"
    if rivals := policy_index.rivals(key):
        return "Contested", f"policies {', '.join(rivals)} would all act on it, so none does"
    if stuck := policy_index.stuck(key[0]):
        return "PluginBlocked", stuck
    if unconfirmed := policy_index.unconfirmed(key):
        return "Unconfirmed", unconfirmed
    return None
