"""Binding: pods go to nodes with certain labels, weakly or strongly, by their own annotation or by an operator's rules.

Knows labels of nodes and pods; knows nothing of room, nor of who gives way.
"""

from functools import partial
from typing import Annotated, Literal

import numpy as np

from elasticd.api import (
    BINDING,
    Binding,
    BindingRule,
    Mask,
    Meta,
    Node,
    Nodes,
    Pod,
    Selection,
    Strategy,
    bindings_of,
    hookimpl,
)

Full = Literal["any", "wait", "preempt"]


class BindingRules(Strategy, tag="binding", frozen=True):
    """Binds a pod to the nodes that match all expressions of its annotation elasticd.io/binding and of every rule that
    selects it. An annotation never loosens a rule.

    Where no node matches them all, those that are weak (collectionIsEmpty default) no longer count; if all are, the pod
    is placed as if it were bound to none, and else it waits. Where nodes match and none has room, the strictest counts:
    reschedule (it waits) before force (others give way) before default (any node). An annotation that cannot be read
    keeps its pod pending. Without a label `notIn` and `doesNotExist` hold, as in Kubernetes. `nodeLabelChange` says
    nothing here: it is about pods that run.
    Source: thesis, 4.2 (multiNodeSelectors) and 4.3.4, whose step 2 must read "is empty".
    """

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
        why = "; ".join(f"{binding} ({whence})" for whence, binding in bound)
        bindings = [binding for _, binding in bound]
        mask = _matching(bindings, nodes)
        strong = [one for one in bindings if one.collection_is_empty == "reschedule"]
        if not mask.any() and strong:
            bindings, mask = strong, _matching(strong, nodes)
        return Selection(mask, why, "wait" if strong else "any", _strictest(bindings))


def _matching(bindings: list[Binding], nodes: Nodes) -> Mask:
    """The nodes that match all of these."""
    masks = [nodes.matching(("binding", one.expressions), partial(_obeys, one)) for one in bindings]
    return masks[0] if len(masks) == 1 else np.logical_and.reduce(masks)


def _obeys(binding: Binding, node: Node) -> bool:
    return binding.matches(node.labels)


def _strictest(bindings: list[Binding]) -> Full:
    said = {one.resource_not_fit for one in bindings}
    if "reschedule" in said:
        return "wait"
    return "preempt" if "force" in said else "any"


@hookimpl
def register_strategies() -> list[type[Strategy]]:
    """Binding."""
    return [BindingRules]
