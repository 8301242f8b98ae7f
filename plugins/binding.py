"""Binding: restricts pods to nodes with certain labels, by an annotation of the pod or by an operator's rules.

Knows labels of nodes and pods; knows nothing of free resources, nor of which pods are evicted.
"""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Literal

import numpy as np

from elasticd.api import Mask, Meta, Node, Nodes, Pod, PoolPolicy, PoolStrategy, Selection, hookimpl
from elasticd.kit import BINDING, OWN_BINDING, Binding, BindingRule, bindings_of

Full = Literal["any", "wait", "preempt", "preempt_or_any"]


class BindingRules(PoolStrategy, tag="binding", frozen=True):
    """Binds a pod to the nodes that match all expressions of its annotation elasticd.io/binding and of every rule that
    selects it. An annotation never loosens a rule of the same strength.

    Strong bindings (collectionIsEmpty reschedule) all apply; where no node matches all of them, the pod waits. Weak
    bindings (default) are tried in order, the rules first and then the annotation: each applies if some node matches it
    together with those that apply already. So a weak binding that no node matches is ignored, and of two that no node
    matches together the earlier applies. Where none applies, the pod is placed as if it had no binding.

    Where nodes match and none has room, the strictest resourceNotFit of the applying bindings decides: reschedule (the
    pod waits) before force (other pods are evicted) before default (any node). In mode "paper" a pod for which no pods
    can be evicted goes to any node, as in the thesis (4.3.3). A pod whose annotation cannot be read stays pending.
    `notIn` and `doesNotExist` match a node without the label, as in Kubernetes. `nodeLabelChange` has no effect here:
    it is about running pods (strategy rebind).

    Source: thesis, 4.2 (multiNodeSelectors) and 4.3.4, whose step 2 must read "is empty".
    """

    mode: Annotated[
        Literal["product", "paper"],
        Meta(description="paper: where force finds no pod to preempt the pod goes to any node; else it waits"),
    ] = "product"
    rules: Annotated[tuple[BindingRule, ...], Meta(description="bindings of pods by the operator")] = ()
    annotations: Annotated[
        bool, Meta(description="whether pods may bring their own, as annotation elasticd.io/binding")
    ] = True

    def __post_init__(self) -> None:
        if not self.rules and not self.annotations:
            raise ValueError("rules: must be given where annotations is false, is empty")

    def reads(self) -> tuple[str, ...]:
        return ()

    @hookimpl
    def select_nodes(self, pod: Pod, nodes: Nodes) -> Selection | None:
        """The nodes that the pod is bound to, and how strictly; None: it has no binding."""
        try:
            bound = bindings_of(pod, self.rules, annotations=self.annotations)
        except ValueError as error:
            return Selection(np.zeros(len(nodes.names), dtype=np.bool_), BINDING, fault=str(error))
        if not bound:
            return None
        strong = any(map(_is_strong, bound))
        mask, counting = _matching(bound, nodes)
        mentioned = [binding for binding in bound if _is_strong(binding) or not strong or mask.any()]
        why = "; ".join(_describe(binding, counting) for binding in mentioned)
        match = "; ".join(_describe(binding, counting) for binding in mentioned if binding in counting)
        full = self._strictest([binding for _, binding in counting or bound])
        return Selection(mask, why, "wait" if strong else "any", full, match=match)

    def _strictest(self, bindings: Sequence[Binding]) -> Full:
        answers = {binding.resource_not_fit for binding in bindings}
        if "reschedule" in answers:
            return "wait"
        force: Full = "preempt_or_any" if self.mode == "paper" else "preempt"
        return force if "force" in answers else "any"

    def labels_of_nodes(self) -> tuple[str, ...]:
        return tuple(expression.key for rule in self.rules for expression in rule.expressions)

    def brings_nothing(self, policy: PoolPolicy, hooks: frozenset[str]) -> tuple[str, ...]:
        """Parts of the rules that match nothing in the pool, or need a strategy that the policy lacks."""
        lines: list[str] = []
        for index, rule in enumerate(self.rules):
            warnings = [*rule.brings_nothing(policy.pool.namespaces)]
            if rule.resource_not_fit == "force" and "select_victims" not in hooks:
                warnings.append("resource_not_fit: force brings nothing: no strategy here preempts others (preemption)")
            if rule.node_label_change != "still" and "rebind_pods" not in hooks:
                change = rule.node_label_change
                warnings.append(f"node_label_change: {change} brings nothing: no strategy here does that (rebind)")
            lines += [f"rules[{index}].{line}" for line in warnings]
        return tuple(lines)


Bound = tuple[str, Binding]
"""Where a binding comes from (a rule or the annotation), and the binding."""


def _is_strong(bound: Bound) -> bool:
    return bound[1].collection_is_empty == "reschedule"


def _matching(bound: Sequence[Bound], nodes: Nodes) -> tuple[Mask, list[Bound]]:
    """The mask of nodes that match all applying bindings, and these: all strong ones, and each weak one, annotations
    last, that some node matches together with those before it."""
    order = sorted(bound, key=lambda binding: (not _is_strong(binding), binding[0] == OWN_BINDING))
    mask, counting = np.ones(len(nodes.names), dtype=np.bool_), list[Bound]()
    for binding in order:
        both = mask & nodes.matching(("binding", binding[1].expressions), partial(_obeys, binding[1]))
        if _is_strong(binding) or both.any():
            mask = both
            counting.append(binding)
    return (mask if counting else np.zeros_like(mask)), counting


def _describe(bound: Bound, counting: Sequence[Bound]) -> str:
    origin, binding = bound
    return f"{binding} ({origin}{', left out as no node matches' if counting and bound not in counting else ''})"


def _obeys(binding: Binding, node: Node) -> bool:
    return binding.matches(node.labels)


@hookimpl
def register_strategies() -> list[type[PoolStrategy]]:
    return [BindingRules]
