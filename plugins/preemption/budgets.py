"""Applies PodDisruptionBudgets: which pods they let go, and which budget keeps a pod.

Knows budgets; knows nothing of why a pod should be evicted.
"""

from collections.abc import Iterable, Sequence, Set

from elasticd.api import DisruptionBudget, Pod
from elasticd.kit import Memo

from .there import Cause

Held = tuple[tuple[DisruptionBudget, Cause], ...]
"""The budgets that cover a pod, each with the cause it gives for pods that it keeps."""


def held(pod: Pod, budgets: tuple[DisruptionBudget, ...]) -> Held:
    """The budgets that cover a pod."""
    if not budgets:
        return ()
    return tuple([entry for entry in _by_namespace("", budgets).get(pod.namespace, ()) if pod.uid in entry[0].pods])


def within(order: Iterable[tuple[Pod, Held]], lifted: Set[Cause] = frozenset()) -> list[Pod]:
    """The pods, from the first on, that their budgets let go; budgets whose cause is `lifted` let all go."""
    allowed, spent = list[Pod](), dict[int, int]()
    for pod, budgets in order:
        if all(spent.get(id(budget), 0) < budget.allowed or cause in lifted for budget, cause in budgets):
            allowed.append(pod)
            for budget, _ in budgets:
                spent[id(budget)] = spent.get(id(budget), 0) + 1
    return allowed


def budget_of(budgets: Held, going: Sequence[Pod], *, spent: bool) -> tuple[Cause, ...]:
    """The cause given by the budget that keeps a pod while others are `going`: the one of the pod's budgets that then
    allows least. `spent`: only a budget that allows no more, as something else keeps the pod already."""
    remaining = [
        (budget.allowed - sum(pod.uid in budget.pods for pod in going), budget.name, cause) for budget, cause in budgets
    ]
    concerned = [entry for entry in remaining if not (spent and entry[0] > 0)]
    return (min(concerned, key=lambda entry: entry[:2])[2],) if concerned else ()


def _cause_of(budget: DisruptionBudget) -> Cause:
    if budget.why:
        return Cause(budget.why, budget.mend)
    name = f"PodDisruptionBudget {budget.namespace}/{budget.name}"
    return Cause(f"are kept by {name}", f"{name} lets more of its pods go")


def _index(_: str, budgets: tuple[DisruptionBudget, ...]) -> dict[str, list[tuple[DisruptionBudget, Cause]]]:
    by_namespace: dict[str, list[tuple[DisruptionBudget, Cause]]] = {}
    for budget in budgets:
        by_namespace.setdefault(budget.namespace, []).append((budget, _cause_of(budget)))
    return by_namespace


_by_namespace: Memo[str, tuple[DisruptionBudget, ...], dict[str, list[tuple[DisruptionBudget, Cause]]]] = Memo(_index)
