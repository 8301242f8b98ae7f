"""Which of the pods that may have to go PodDisruptionBudgets let go, and which one keeps a pod.

Knows budgets; knows nothing of why a pod should go.
"""

from collections.abc import Iterable, Sequence, Set

from elasticd.api import DisruptionBudget, Pod
from elasticd.kit import Derived

from .there import Cause

Held = tuple[tuple[DisruptionBudget, Cause], ...]
"""The budgets that a pod is in, each with what it says of pods that it keeps."""


def held(pod: Pod, budgets: tuple[DisruptionBudget, ...]) -> Held:
    """Those of these."""
    if not budgets:
        return ()
    return tuple([entry for entry in _by_namespace("", budgets).get(pod.namespace, ()) if pod.uid in entry[0].pods])


def within(order: Iterable[tuple[Pod, Held]], lifted: Set[Cause] = frozenset()) -> list[Pod]:
    """Those of them, from the first on, that budgets let go; those that say what is `lifted` let all go."""
    allowed, spent = list[Pod](), dict[int, int]()
    for pod, budgets in order:
        if all(spent.get(id(budget), 0) < budget.allowed or cause in lifted for budget, cause in budgets):
            allowed.append(pod)
            for budget, _ in budgets:
                spent[id(budget)] = spent.get(id(budget), 0) + 1
    return allowed


def budget_of(budgets: Held, going: Sequence[Pod], *, spent: bool) -> tuple[Cause, ...]:
    """What the budget says that keeps a pod while others are `going`: the one of its own that then allows least; only
    one that is `spent`, where something else keeps it."""
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


_by_namespace: Derived[str, tuple[DisruptionBudget, ...], dict[str, list[tuple[DisruptionBudget, Cause]]]] = Derived(
    _index
)
