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
from elasticd.model.resources import Resources
from elasticd.model.workload import Band, Limit, Observation, Pod, Rank, Recommendation, Workload

hookspec = pluggy.HookspecMarker("elasticd")
hookimpl = pluggy.HookimplMarker("elasticd")


@hookspec
def register_strategies() -> Sequence[type[Strategy]]:
    """The strategy and limit types of a plugin, once at start. A name given twice is refused."""


@hookspec
def register_sources() -> Sequence[type[Any]]:
    """The source types of a plugin, once at start. A name given twice is refused."""


@hookspec
def recommend_replicas(workload: Workload, observation: Observation, past: Past) -> Recommendation | None:
    """How many replicas are wanted. None, or a Recommendation that `abstains` and says why: no opinion. The largest
    opinion wins."""


@hookspec
def limit(policy: Policy, wish: int, observation: Observation, past: Past) -> Limit | None:
    """What restrains a wish: an interval and a reason. None: nothing.

    All that cut the wish itself (`of_wish`) intersect and go first, then all that delay (condition AbleToScale), then
    all that shorten (ScalingLimited), then all that take a change back (`takes_back`), then the policy's bounds; so
    their order never matters.
    """


@hookspec
def rank_pods(
    workload: Workload, observation: Observation, past: Past, replicas: int
) -> Mapping[str, float | Rank] | None:
    """Which pods go first when the count falls to `replicas`: a number for each pod's name, the lowest first, 0 for one
    left out; as a Rank it says why, for `explain`.

    Asked only when it falls. Of several ranks the one of the strategy with the highest priority goes first, and where
    that tells two pods not apart, the next. None: no opinion.
    """


@hookspec
def recommend_resources(workload: Workload, observation: Observation, past: Past) -> Sequence[Resources] | None:
    """What containers should request: in general (`pod` empty), and in the pods that shall be changed now.

    Of several opinions the largest counts, by pod, container and resource. No pod is changed that may not be: see
    `unfit`. None: no opinion.
    """


@hookspec
def filter_nodes(pod: Pod, nodes: Nodes, observation: PoolObservation) -> Sequence[Refusal] | None:
    """Which nodes of a pool cannot take a pending pod, by reason. What any of them refuses is refused."""


@hookspec
def select_nodes(pod: Pod, nodes: Nodes, observation: PoolObservation) -> Selection | None:
    """The nodes that a pod is bound to, and what is done where they cannot take it. Of several, only nodes in all;
    None: it is bound to none."""


@hookspec
def score_nodes(pod: Pod, nodes: Nodes, observation: PoolObservation) -> Scores | None:
    """How good each node is for a pod. All scores are added by their weights; the highest sum wins, of equal ones the
    node with the most room left, and then the first by name."""


@hookspec
def place_pods(pods: Sequence[Candidate], nodes: Nodes, observation: PoolObservation) -> Sequence[Placement] | None:
    """Where pending pods should go, looked at together. Each is checked again with those before it in place, and one
    that does not fit, or is left out, waits for the next look. Where this is implemented, scores only break ties."""


@hookspec
def select_victims(
    pod: Pod, node: int, nodes: Nodes, observation: PoolObservation, forced: bool, missing: Mapping[str, int]
) -> Victims | Spared | None:
    """Which pods of a node give way so that one that fits nowhere has room there, in order; none of them: enough are
    leaving already. Spared: nobody does, and why; None: the same without a word. Before anybody goes, filters are asked
    again without them, and no budget is overdrawn. `forced`: the pod's own binding asks for it. `missing`: how much of
    a resource the node lacks for the pod where a filter says so (Refusal), as it keeps some of it."""


@hookspec
def explain_victims(node: int, nodes: Nodes, observation: PoolObservation, policy: PoolPolicy) -> EvictionOrder | None:
    """The pods of a node in the order in which they would have to give way, whoever needs the room, and what keeps each
    from it now, in words for people: `elasticd nodes NODE` shows it. Asked when somebody looks; nothing is decided by
    it. What budgets and `[disruption]` keep is added. None: this strategy lets nobody give way."""


@hookspec
def explain_nodes(nodes: Nodes, observation: PoolObservation, past: PoolPast) -> Sequence[NodeLevel] | None:
    """Where nodes stand for this strategy, the most loaded first, in words for people: who gives pods, who takes them,
    and how far the others are from that. Asked in each look, before anything is moved; nothing is decided by it, and
    where it fails nothing else does. Of several the most urgent word about a node is shown."""


@hookspec
def rebind_pods(nodes: Nodes, observation: PoolObservation, past: PoolPast) -> Sequence[Move] | None:
    """Pods whose nodes no longer are as they ask, and what becomes of them. Asked when a node's labels have changed,
    and each period."""


@hookspec
def rebalance_nodes(
    nodes: Nodes, observation: PoolObservation, past: PoolPast, movable: Callable[[Pod], bool]
) -> Sequence[Move] | None:
    """Pods that should leave nodes that are too loaded, or are to be emptied; those that should go first first. Asked
    each period, and when a node comes, goes or fails, or a pod fails. `movable`: whether a pod that need not go may be
    moved, as things stand, if there is a place for it and it is worth it; only of those that the policy places."""


@hookspec
def poll_interval(policy: Policy, observation: Observation, past: Past) -> float | None:
    """Seconds until the workload should be looked at again. None: no opinion. The shortest wins."""


@hookspec
def steady_bands(workload: Workload, observation: Observation, past: Past) -> Mapping[str, Band] | None:
    """Within which bounds each series leaves what this strategy says of the workload as it is at this observation, by
    the series' name: of the sum of its samples, as long as the same pods have some and nothing else changes. NEVER: any
    new sample may change it. Asked after a workload was evaluated and before that is needed, not with every decision.

    When a source has something new, a workload whose series has left its band is looked at at once; one that has not
    waits for its turn. A series that is left out, of one that is read, and None: it has left its band when it has moved
    by more than a tenth. Whether a series is there, and can be trusted, need not be thought of.
    """


@hookspec
def decided(decision: Decision) -> None:
    """A decision has been written to the journal. Must not block."""


@hookspec
def acted(outcome: Outcome) -> None:
    """An outcome has been written to the journal. Must not block."""
