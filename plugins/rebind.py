"""Rebind: moves or ends pods whose nodes no longer have the labels that they were bound by.

Knows labels of nodes, and what pods and an operator require of them; knows nothing of free resources, nor of what else
keeps a pod on its node.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from itertools import compress
from math import inf
from typing import Annotated, Literal, NamedTuple

import numpy as np

from elasticd.api import (
    Expression,
    Mask,
    Meta,
    Move,
    Node,
    Nodes,
    Pod,
    PoolObservation,
    PoolPast,
    PoolPolicy,
    PoolStrategy,
    Term,
    hookimpl,
)
from elasticd.kit import BINDING, Backoff, BindingRule, bindings_of, stationary, whose

How = Literal["reschedule", "kill"]
MoveHow = Literal["reschedule", "release", "kill"]

SLACK = 1.0
"""Seconds by which a pod may seem to have come too early: an API server gives whole seconds."""

MOST_COOLDOWNS = 2**12
"""To so many times itself `cooldown` doubles at most; moves are remembered for an hour."""


class RebindRule(BindingRule, frozen=True, kw_only=True):
    """A binding by the operator whose pods do not stay where labels no longer match."""

    node_label_change: Annotated[
        How, Meta(description="when its node's labels no longer match: it goes back to the queue, or is deleted")
    ]


class Rebind(PoolStrategy, tag="rebind", frozen=True):
    """Moves or ends a pod when its node no longer matches what it is bound by, as its nodeLabelChange says.

    A pod is bound by its annotation elasticd.io/binding, by every rule here that selects it, and by its own
    nodeSelector and required node affinity. Each says for itself what happens to the pod; where several no longer
    match, kill goes before reschedule. `still`, the default of an annotation, leaves the pod. reschedule: the pod
    leaves when another matching node has a place for it, and stays until then, also where the binding is weak. kill:
    the pod is evicted for good, as far as budgets let it go, and waits for no replacements of others; its controller,
    if it has one, may create another. An annotation that cannot be read is ignored and loosens no rule.

    A pod is killed only if this daemon, while it led, saw it on its node while that matched: not where it was placed
    despite the labels, as by a weak binding (default) or because `binding` does not have the rule, nor where the labels
    changed before the daemon began. An edit of the policy forgets nothing of this, a restart all of it.

    In mode "paper" reschedule is back to the queue, as in the thesis: the pod leaves whether another node matches or
    not, and waits for one; where its binding is weak it may come back.

    The node's labels must have been unchanged for `dwell` seconds: any change of any label starts this anew, and so
    does a start of the daemon. A pod that was moved and came back while the node's labels were the same (whatever
    places it may not know the rule) waits `cooldown` seconds, and twice as long each time after that within an hour. A
    waiting pod is reported (NotYet).

    Nodes that lose the labels by which the policy selects its nodes are no longer in the pool, and their pods are not
    seen. Pods of higher priority go first.

    Source: thesis, 4.2 (multiNodeSelectors, nodeLabelChange) and 4.3.4, step 5. Kubernetes never checks node affinity
    again once a pod is bound (requiredDuringSchedulingIgnoredDuringExecution).
    """

    mode: Annotated[
        Literal["product", "paper"],
        Meta(description="paper: reschedule is back to the queue, also where there is no other place"),
    ] = "product"
    rules: Annotated[tuple[RebindRule, ...], Meta(description="bindings of pods by the operator")] = ()
    annotations: Annotated[
        bool, Meta(description="whether what pods bring themselves counts, as annotation elasticd.io/binding")
    ] = True
    selectors: Annotated[
        Literal["still", "reschedule"],
        Meta(description="when a node no longer matches a pod's own nodeSelector or required node affinity"),
    ] = "reschedule"
    dwell: Annotated[
        float, Meta(ge=0, le=86400, description="seconds for which a node's labels must have been as they are")
    ] = 60.0
    cooldown: Annotated[
        float, Meta(ge=0, le=3600, description="seconds before a pod that came back is moved off again; then doubled")
    ] = 300.0

    def __post_init__(self) -> None:
        if not self.rules and not self.annotations and self.selectors == "still":
            raise ValueError('selectors: must be reschedule where there are no rules or annotations, is "still"')

    def reads(self) -> tuple[str, ...]:
        return ()

    def labels_of_nodes(self) -> tuple[str, ...]:
        return tuple(expression.key for rule in self.rules for expression in rule.expressions)

    def brings_nothing(self, policy: PoolPolicy, hooks: frozenset[str]) -> tuple[str, ...]:
        """Warnings: parts of the rules that match no node or pod of the pool."""
        rules = enumerate(self.rules)
        return tuple(
            f"rules[{index}].{line}" for index, rule in rules for line in rule.brings_nothing(policy.pool.namespaces)
        )

    @hookimpl
    def rebind_pods(self, nodes: Nodes, observation: PoolObservation, past: PoolPast) -> Sequence[Move]:
        """The moves, those of pods with higher priority first."""
        returned = _Returned(past, self.cooldown, observation.at)
        mismatches: dict[int, frozenset[str]] = {}
        moves: list[Move] = []
        for pod, claims, broken, settled in self._unbound(nodes, observation.at, past):
            if stationary(pod):
                continue
            not_to = mismatches.get(id(claims))
            if not_to is None:
                good = reduce(np.logical_and, (claim.nodes(nodes) for claim in claims))
                # Where one of the claims does not hold it would have to leave again.
                not_to = mismatches[id(claims)] = frozenset(compress(nodes.names, (~good).tolist()))
            waits = "" if settled else f"its labels have not been as they are for dwell = {self.dwell:g} s"
            if settled and returned.rests(pod):
                waits = "the pod was moved and came back, so it rests for cooldown or a multiple of that"
            message = f"{pod.node} no longer matches {'; '.join(claim.text for claim in broken)}"
            if len(not_to) == len(nodes.names):
                message += ", and no other node does"
            how = self._how(broken)
            moves.append(Move(pod, "NodeLabelChange", message, how, not_to=not_to, waits=waits))
        return sorted(moves, key=lambda move: -move.pod.needs.priority)

    def _unbound(self, nodes: Nodes, at: float, past: PoolPast) -> Iterator[tuple[Pod, "Claims", "Claims", bool]]:
        """The pods whose nodes do not match: (pod, all its claims, the broken ones, whether the node's labels are
        settled). Claims are computed once for equal pods, and checked once for each node and set of equal claims."""
        alike: dict[tuple[object, ...], Claims] = {}
        equal: dict[Claims, Claims] = {}
        for index, node in enumerate(nodes.nodes):
            settled = self._settled(node, at, past)
            broken_here: dict[int, Claims] = {}
            for pod in nodes.pods(index):
                # The cluster interns needs and labels: equal ones are the same object.
                labels = id(pod.labels) if self.rules else 0
                key = (id(pod.needs), labels, pod.namespace, pod.annotations.get(BINDING))
                claims = alike.get(key)
                if claims is None:
                    claims = self._claims(pod)
                    claims = alike[key] = equal.setdefault(claims, claims)
                if not claims:
                    continue
                broken = broken_here.get(id(claims))
                if broken is None:
                    broken = broken_here[id(claims)] = tuple(claim for claim in claims if not claim.holds(node))
                if broken and not pod.deleted and (actionable := _actionable(broken, pod, past)):
                    yield pod, claims, actionable, settled

    def _how(self, broken: "Claims") -> MoveHow:
        if any(claim.how == "kill" for claim in broken):
            return "kill"
        return "release" if self.mode == "paper" else "reschedule"

    def _settled(self, node: Node, at: float, past: PoolPast) -> bool:
        """Whether the node's labels have been unchanged for `dwell` seconds; False where that is not known."""
        since = past.labelled.get(node.name)
        return not self.dwell or (since is not None and since <= at - self.dwell)

    def _claims(self, pod: Pod) -> "Claims":
        try:
            bound = bindings_of(pod, self.rules, annotations=self.annotations)
        except ValueError:
            bound = bindings_of(pod, self.rules, annotations=False)
        claims = [
            _Claim(
                binding.node_label_change,
                f"{binding} ({origin})",
                tuple(rule.expression for rule in binding.expressions),
            )
            for origin, binding in bound
            if binding.node_label_change != "still"
        ]
        needs = pod.needs
        if self.selectors == "reschedule" and (needs.selector or needs.affinity is not None):
            selector = tuple(Expression(key, "In", (value,)) for key, value in sorted(needs.selector.items()))
            claims.append(_Claim("reschedule", "its own nodeSelector or node affinity", selector, needs.affinity))
        return tuple(claims)


class _Claim(NamedTuple):
    """A requirement that binds a pod: all `expressions` and one of `terms` (None: no terms) must match its node; `how`:
    what happens to the pod where they do not."""

    how: How
    text: str
    expressions: tuple[Expression, ...]
    terms: tuple[Term, ...] | None = None

    def holds(self, node: Node) -> bool:
        return self.fits(node.name, node.labels)

    def fits(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a node of this name would match with these labels."""
        if not all(expression.matches(labels) for expression in self.expressions):
            return False
        return self.terms is None or any(term.matches(name, labels) for term in self.terms)

    def nodes(self, nodes: Nodes) -> Mask:
        return nodes.matching(("rebind", self.expressions, self.terms), self.holds)


Claims = tuple[_Claim, ...]


def _actionable(broken: Claims, pod: Pod, past: PoolPast) -> Claims:
    """The broken claims for which something is done about a pod: it is killed only for labels that changed while it was
    there, not for those despite which it was placed. Where that is not known it stays, as nothing may create it again.
    """
    earlier = past.earlier_labels.get(pod.uid, ())
    return tuple(
        claim for claim in broken if claim.how != "kill" or any(claim.fits(pod.node, labels) for labels in earlier)
    )


class _Returned:
    """Pods that came back to a node that they were moved off."""

    def __init__(self, past: PoolPast, cooldown: float, at: float) -> None:
        self._cooldown, self._at = cooldown, at
        self._times: dict[tuple[str, str], list[float]] = {}
        for move in past.moved:
            if move.at >= past.labelled.get(move.node, -inf):
                self._times.setdefault((move.whose, move.node), []).append(move.at)

    def rests(self, pod: Pod) -> bool:
        """Whether a pod is left alone for now. Moves within one `cooldown` count as one."""
        came = max(pod.created, pod.started or 0.0) + SLACK
        times = sorted(at for at in self._times.get((whose(pod), pod.node), ()) if at <= came)
        rounds, begun = 0, -inf
        for at in times:
            if at >= begun + self._cooldown:
                rounds, begun = rounds + 1, at
        backoff = Backoff(self._cooldown, MOST_COOLDOWNS * self._cooldown)
        return bool(times) and self._at < times[-1] + backoff.delay(rounds)


@hookimpl
def register_strategies() -> list[type[PoolStrategy]]:
    return [Rebind]
