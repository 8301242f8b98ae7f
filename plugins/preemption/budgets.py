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
    return tuple([found for found in _by_namespace("", budgets).get(pod.namespace, ()) if pod.uid in found[0].pods])


def within(order: Iterable[tuple[Pod, Held]], lifted: Set[Cause] = frozenset()) -> list[Pod]:
    """Those of them, from the first on, that budgets let go; those that say what is `lifted` let all go."""
    found, spent = list[Pod](), dict[int, int]()
    for pod, budgets in order:
        if all(spent.get(id(one), 0) < one.allowed or cause in lifted for one, cause in budgets):
            found.append(pod)
            for one, _ in budgets:
                spent[id(one)] = spent.get(id(one), 0) + 1
    return found


def budget_of(budgets: Held, going: Sequence[Pod], *, spent: bool) -> tuple[Cause, ...]:
    """What the budget says that keeps a pod while others are `going`: the one of its own that then allows least; only
    one that is `spent`, where something else keeps it."""
    left = [(one.allowed - sum(other.uid in one.pods for other in going), one.name, cause) for one, cause in budgets]
    concerned = [found for found in left if not (spent and found[0] > 0)]
    return (min(concerned, key=lambda found: found[:2])[2],) if concerned else ()


def _said(budget: DisruptionBudget) -> Cause:
    if budget.why:
        return Cause(budget.why, budget.mend)
    name = f"PodDisruptionBudget {budget.namespace}/{budget.name}"
    return Cause(f"are kept by {name}", f"{name} lets more of its pods go")


def _sorted(_: str, budgets: tuple[DisruptionBudget, ...]) -> dict[str, list[tuple[DisruptionBudget, Cause]]]:
    found: dict[str, list[tuple[DisruptionBudget, Cause]]] = {}
    for one in budgets:
        found.setdefault(one.namespace, []).append((one, _said(one)))
    return found


_by_namespace: Derived[str, tuple[DisruptionBudget, ...], dict[str, list[tuple[DisruptionBudget, Cause]]]] = Derived(
    _sorted
)
