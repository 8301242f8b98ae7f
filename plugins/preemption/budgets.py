"""Which of the pods that may have to go PodDisruptionBudgets let go, and which one keeps a pod.

Knows budgets; knows nothing of why a pod should go.
"""

from collections.abc import Sequence, Set

from elasticd.api import Derived, DisruptionBudget, Pod

from .there import Cause


def within(order: list[Pod], budgets: tuple[DisruptionBudget, ...], lifted: Set[Cause] = frozenset()) -> list[Pod]:
    """Those of them, from the first on, that budgets let go; those that say what is `lifted` let all go."""
    if not budgets:
        return order
    known, found, spent = _by_namespace("", budgets), list[Pod](), dict[str, int]()
    for pod in order:
        concerned = [one for one in known.get(pod.namespace, ()) if pod.uid in one.pods]
        if lifted:
            concerned = [one for one in concerned if _said(one) not in lifted]
        keys = [f"{one.namespace}/{one.name}" for one in concerned]
        if all(spent.get(key, 0) < one.allowed for key, one in zip(keys, concerned, strict=True)):
            found.append(pod)
            spent.update({key: spent.get(key, 0) + 1 for key in keys})
    return found


def budget_of(
    pod: Pod, budgets: tuple[DisruptionBudget, ...], going: Sequence[Pod], *, spent: bool
) -> tuple[Cause, ...]:
    """The PodDisruptionBudget that keeps it while others are `going`: the one of its own that then allows least; only
    one that is `spent`, where something else keeps it."""
    known = _by_namespace("", budgets).get(pod.namespace, ())
    left = [(one.allowed - sum(other.uid in one.pods for other in going), one) for one in known if pod.uid in one.pods]
    concerned = [(allowed, one) for allowed, one in left if not (spent and allowed > 0)]
    if not concerned:
        return ()
    _, one = min(concerned, key=lambda found: (found[0], found[1].name))
    return (_said(one),)


def said_of(pod: Pod, budgets: tuple[DisruptionBudget, ...]) -> tuple[Cause, ...]:
    """All budgets that it is in, whether they let it go or not."""
    return tuple([_said(one) for one in _by_namespace("", budgets).get(pod.namespace, ()) if pod.uid in one.pods])


def _said(budget: DisruptionBudget) -> Cause:
    """What a budget says of pods that it keeps."""
    if budget.why:
        return Cause(budget.why, budget.mend)
    name = f"PodDisruptionBudget {budget.namespace}/{budget.name}"
    return Cause(f"are kept by {name}", f"{name} lets more of its pods go")


def _sorted(_: str, budgets: tuple[DisruptionBudget, ...]) -> dict[str, list[DisruptionBudget]]:
    found: dict[str, list[DisruptionBudget]] = {}
    for one in budgets:
        found.setdefault(one.namespace, []).append(one)
    return found


_by_namespace: Derived[str, tuple[DisruptionBudget, ...], dict[str, list[DisruptionBudget]]] = Derived(_sorted)
