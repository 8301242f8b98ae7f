"""The hooks, in the order they are called: the table of contents for plugin authors.

All are synchronous, none is firstresult, none a wrapper: the order of plugins never changes a decision.
An implementation takes the arguments it needs, by name; `now` is `observation.at`.
"""

# mypy: disable-error-code=empty-body

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pluggy

from elasticd.model.history import Past
from elasticd.model.moves import Move, NodeLevel, PoolPast
from elasticd.model.placement import (
    Candidate,
    EvictionOrder,
    Mask,
    Nodes,
    Placement,
    PoolObservation,
    Refusal,
    Scores,
    Selection,
    Spared,
    Victims,
)
from elasticd.model.policy import Policy, PoolPolicy, Strategy
from elasticd.model.records import Decision, Outcome
from elasticd.model.workload import Band, Limit, Observation, Pod, Rank, Recommendation, Resources, Workload

hookspec = pluggy.HookspecMarker("elasticd")
hookimpl = pluggy.HookimplMarker("elasticd")


@hookspec
def register_strategies() -> Sequence[type[Strategy]]:
    """Return the plugin's strategy and limit classes. Called once at start; duplicate names are rejected."""


@hookspec
def register_sources() -> Sequence[type[Any]]:
    """Return the plugin's source classes. Called once at start; duplicate names are rejected."""


@hookspec
def recommend_replicas(workload: Workload, observation: Observation, past: Past) -> Recommendation | None:
    """Recommend a replica count; the highest wins. None: abstain, as a Recommendation that `abstains` and says why."""


@hookspec
def limit(policy: Policy, wish: int, observation: Observation, past: Past) -> Limit | None:
    """Limit the recommended count (`wish`): an interval and a reason. None: no limit.

    Limits of one stage intersect, so the order of plugins never matters. The stages are: limits that cut the
    recommendation itself (`of_wish`), that delay (condition AbleToScale), that shorten (ScalingLimited), that roll back
    a change (`takes_back`), and the policy's bounds.
    """


@hookspec
def rank_pods(
    workload: Workload, observation: Observation, past: Past, replicas: int
) -> Mapping[str, float | Rank] | None:
    """Rank the pods to remove when the count falls to `replicas`: a number by pod name, the lowest goes first, 0 if
    omitted; a Rank also has a reason, for `explain`.

    Called only for a scale-in. The rank of the strategy with the highest priority decides; on a tie, the next. None:
    no opinion.
    """


@hookspec
def recommend_resources(workload: Workload, observation: Observation, past: Past) -> Sequence[Resources] | None:
    """Recommend requests of containers: for all pods (`pod` empty), and for pods to be resized now.

    The largest recommendation wins, by pod, container and resource. `unfit` says which pods may not be resized. None:
    no opinion.
    """


@hookspec
def filter_nodes(pod: Pod, nodes: Nodes, observation: PoolObservation) -> Sequence[Refusal] | None:
    """Return the nodes of a pool that cannot take a pending pod, by reason. A node that any plugin rejects is out."""


@hookspec
def select_nodes(pod: Pod, nodes: Nodes, observation: PoolObservation) -> Selection | None:
    """Return the nodes to which a pod is bound, and what happens if they cannot take it. Several selections intersect.
    None: no binding."""


@hookspec
def score_nodes(pod: Pod, nodes: Nodes, observation: PoolObservation, fits: Mask) -> Scores | None:
    """Score each node for a pod. `fits`: the nodes that it may go to, or where pods could be preempted for it, by which
    scores may be compared. The weighted sum of all scores decides; on a tie, the node with the most free room,
    then the first by name."""


@hookspec
def place_pods(pods: Sequence[Candidate], nodes: Nodes, observation: PoolObservation) -> Sequence[Placement] | None:
    """Place several pending pods together. Each placement is checked again, counting those before it; a pod that does
    not fit, or is omitted, waits for the next plan. If a strategy implements this, scores only break ties."""


@hookspec
def select_victims(
    pod: Pod, node: int, nodes: Nodes, observation: PoolObservation, forced: bool, missing: Mapping[str, int]
) -> Victims | Spared | None:
    """Choose the pods of a node to evict, in order, for a pod that fits nowhere; none: enough are terminating already.
    Spared: no pod can be evicted, and why; None: the same without a reason. Before an eviction, filters run again
    without the victims, and budgets are checked. `forced`: the pod's binding asks for preemption. `missing`: how much
    of a resource the node lacks for the pod, if a filter says so (Refusal)."""


@hookspec
def explain_victims(node: int, nodes: Nodes, observation: PoolObservation, policy: PoolPolicy) -> EvictionOrder | None:
    """Return the pods of a node in the order in which they would be evicted, and what protects each now, for `elasticd
    nodes NODE`. Called only for that command; decisions do not use it. The daemon adds what budgets and `[disruption]`
    protect. None: this strategy evicts no pods."""


@hookspec
def explain_nodes(nodes: Nodes, observation: PoolObservation, past: PoolPast) -> Sequence[NodeLevel] | None:
    """Return the state of the nodes, the most loaded first, for people: which give up pods, which receive them, and how
    far the others are from that. Called in each evaluation, before the moves; decisions do not use it, and its failure
    stops nothing. Of several states of a node the most urgent is shown."""


@hookspec
def rebind_pods(nodes: Nodes, observation: PoolObservation, past: PoolPast) -> Sequence[Move] | None:
    """Return the pods whose nodes no longer match their bindings, and how they leave. Called when node labels have
    changed, and each period."""


@hookspec
def rebalance_nodes(
    nodes: Nodes, observation: PoolObservation, past: PoolPast, movable: Callable[[Pod], bool]
) -> Sequence[Move] | None:
    """Return the pods that should leave overloaded nodes, or nodes to be emptied, in that order. Called each period,
    and when a node is added, removed or fails, or a pod fails. `movable`: whether a pod of this policy may be moved now
    if there is a place for it and the move is worth its cost."""


@hookspec
def poll_interval(policy: Policy, observation: Observation, past: Past) -> float | None:
    """Return the seconds until the next evaluation of the workload; the shortest wins. None: no opinion."""


@hookspec
def steady_bands(workload: Workload, observation: Observation, past: Past) -> Mapping[str, Band] | None:
    """Return, by series, the band of sums of its samples in which this strategy's answer stays the same, as long as the
    same pods have samples and nothing else changes. NEVER: any new sample may change the answer. Called between the
    evaluation and the next update of a source, not with every decision.

    When a source is updated, a workload with a series outside its band is evaluated at once; others wait for their
    interval. For an omitted series that is read, or None, the band is a tenth up and down. Whether a series exists
    and can be trusted is checked elsewhere.
    """


@hookspec
def decided(decision: Decision) -> None:
    """Called when a decision has been written to the journal. Must not block."""


@hookspec
def acted(outcome: Outcome) -> None:
    """Called when an outcome has been written to the journal. Must not block."""
