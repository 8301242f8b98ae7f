"""Binding: pods go to nodes with certain labels, weakly or strongly, by their own annotation or by an operator's rules.

Knows labels of nodes and pods; knows nothing of room, nor of who gives way.
"""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Literal

import numpy as np

from elasticd.api import Mask, Meta, Node, Nodes, Pod, PoolPolicy, Selection, Strategy, hookimpl
from elasticd.kit import BINDING, OWN_BINDING, Binding, BindingRule, bindings_of

Full = Literal["any", "wait", "preempt", "preempt_or_any"]


class BindingRules(Strategy, tag="binding", frozen=True):
    """Binds a pod to the nodes that match all expressions of its annotation elasticd.io/binding and of every rule that
    selects it. An annotation never loosens a rule that is as strong.

    All that are strong (collectionIsEmpty reschedule) count; where no node matches them together, the pod waits. Those
    that are weak (default) count one after the other, the rules in their order and then the annotation, each if a node
    matches it together with those that count already: so one that no node matches leaves the others as they are, and of
    two that no node matches together the earlier counts. Where none counts, the pod is placed as if it were bound to
    none. Where nodes match and none has room, the strictest of those that count says what is done: reschedule (it
    waits) before force (others give way) before default (any node). In mode "paper" a pod for which nobody gives way
    goes on by other means, to any node, as the thesis has it (4.3.3). An annotation that cannot be read keeps its pod
    pending. Without a label `notIn` and `doesNotExist` hold, as in Kubernetes. `nodeLabelChange` says
    nothing here: it is about pods that run.
    Source: thesis, 4.2 (multiNodeSelectors) and 4.3.4, whose step 2 must read "is empty".
    """

    mode: Annotated[
        Literal["product", "paper"],
        Meta(description="paper: where force finds nobody who gives way the pod goes to any node; else it waits"),
    ] = "product"
    rules: Annotated[tuple[BindingRule, ...], Meta(description="bindings of pods by the operator")] = ()
    annotations: Annotated[
        bool, Meta(description="whether pods may bring their own, as annotation elasticd.io/binding")
    ] = True

    def __post_init__(self) -> None:
        """Refuse what binds nobody."""
        if not self.rules and not self.annotations:
            raise ValueError("rules: must be given where annotations is false, is empty")

    def reads(self) -> tuple[str, ...]:
        """Labels alone."""
        return ()

    @hookimpl
    def select_nodes(self, pod: Pod, nodes: Nodes) -> Selection | None:
        """The nodes, and in which way the pod is bound to them; None: to none."""
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
        """Those of its rules."""
        return tuple(expression.key for rule in self.rules for expression in rule.expressions)

    def brings_nothing(self, policy: PoolPolicy, hooks: frozenset[str]) -> tuple[str, ...]:
        """What of the rules no node or pod obeys, and what no strategy does."""
        lines: list[str] = []
        for index, rule in enumerate(self.rules):
            warnings = [*rule.brings_nothing(policy.pool.namespaces)]
            if rule.resource_not_fit == "force" and "select_victims" not in hooks:
                warnings.append(
                    "resource_not_fit: force brings nothing: no strategy here lets others give way (preemption)"
                )
            if rule.node_label_change != "still" and "rebind_pods" not in hooks:
                change = rule.node_label_change
                warnings.append(f"node_label_change: {change} brings nothing: no strategy here does that (rebind)")
            lines += [f"rules[{index}].{line}" for line in warnings]
        return tuple(lines)


Bound = tuple[str, Binding]
"""Whence a pod has a binding, and the binding."""


def _is_strong(bound: Bound) -> bool:
    return bound[1].collection_is_empty == "reschedule"


def _matching(bound: Sequence[Bound], nodes: Nodes) -> tuple[Mask, list[Bound]]:
    """The nodes that match all that count, and which these are: the strong ones, and of the weak ones, an annotation
    last, each that some node matches together with those before it."""
    order = sorted(bound, key=lambda binding: (not _is_strong(binding), binding[0] == OWN_BINDING))
    mask, counting = np.ones(len(nodes.names), dtype=np.bool_), list[Bound]()
    for binding in order:
        both = mask & nodes.matching(("binding", binding[1].expressions), partial(_obeys, binding[1]))
        if _is_strong(binding) or both.any():
            mask = both
            counting.append(binding)
    return (mask if counting else np.zeros_like(mask)), counting


def _describe(bound: Bound, counting: Sequence[Bound]) -> str:
    """A binding, and that it is left out where others count."""
    whence, binding = bound
    return f"{binding} ({whence}{', left out as no node matches' if counting and bound not in counting else ''})"


def _obeys(binding: Binding, node: Node) -> bool:
    return binding.matches(node.labels)


@hookimpl
def register_strategies() -> list[type[Strategy]]:
    """Binding."""
    return [BindingRules]
