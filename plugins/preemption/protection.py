"""Groups the pods of a node by what keeps them there. Finds what keeps lesser ones, options and PodDisruptionBudgets,
and what would have to change for enough of them to be evicted."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from elasticd.api import DisruptionBudget, Pod, Struct
from elasticd.kit import Memo, rooted

from .shortage import Shortage, helps

CLASSES: Mapping[str, int] = {"Always": 2, "OnFailure": 1, "Never": 0}
"""How important a pod is by its restartPolicy (thesis, 4.3)."""

Rank = tuple[int, int]
_HIGHEST: Rank = (2**31, 3)
"""Above the rank of any pod."""

_FIXED = {
    "Static": "belong to their node",
    "DaemonSet": "belong to their node",
    "Critical": "are of system-critical priority",
    "Own": "are elasticd's own",
    "OwnsPods": "have no controller and own other pods",
}
"""Text for pods that are never evicted, by why they are node-bound."""


class Group(Struct, frozen=True, gc=False):
    """Pods of a node that are equally evictable, and the lowest rank among them."""

    pods: tuple[Pod, ...]
    lowest: Rank
    lowest_class: int


class NodePods(Struct, frozen=True, gc=False):
    """A node's pods: those that may be evicted, those that an annotation asks to leave alone, those that never are and
    why, and those that are being deleted."""

    movable: Group
    asking: Group
    fixed: tuple[tuple[str, Group], ...]
    leaving: tuple[Pod, ...]


def _group(pods: Iterable[Pod]) -> Group:
    pods = tuple(pods)
    ranks = [(pod.needs.priority, CLASSES[pod.needs.restart]) for pod in pods]
    return Group(pods, min(ranks, default=_HIGHEST), min((kind for _, kind in ranks), default=_HIGHEST[1]))


def _group_pods(name: str, pods: Sequence[Pod]) -> NodePods:
    by_cause: dict[str, list[Pod]] = {}
    for pod in pods:
        if not pod.deleted and pod.node == name:
            by_cause.setdefault((rooted(pod) or ("",))[0], []).append(pod)
    fixed: dict[str, list[Pod]] = {}
    for kind, why in _FIXED.items():
        fixed.setdefault(why, []).extend(by_cause.get(kind, ()))
    never = tuple((why, _group(group)) for why, group in fixed.items() if group)
    leaving = tuple(pod for pod in pods if pod.deleted)
    return NodePods(_group(by_cause.get("", ())), _group(by_cause.get("DoNotDisrupt", ())), never, leaving)


node_pods: Memo[str, Sequence[Pod], NodePods] = Memo(_group_pods)
"""By the name and the pods of a node; memoized until one of these changes."""


class Cause(Struct, frozen=True, gc=False):
    """What protects pods, as a clause that follows "lesser pods", and the remedy; empty if there is none."""

    why: str
    mend: str = ""


Causes = tuple[Cause, ...]
"""The causes of these options and of budgets; the first one is reported."""

Lifted = frozenset[Cause]
"""Causes that are assumed to keep no pod any more."""

PodBudgets = tuple[tuple[DisruptionBudget, Cause], ...]
"""The budgets that cover a pod, each with the cause it gives for pods that it keeps."""

TRIED = 6
"""How many causes are tried, the most frequent first; where more than these act together, no remedy is given."""


def budgets_of(pod: Pod, budgets: tuple[DisruptionBudget, ...]) -> PodBudgets:
    """The budgets that cover a pod."""
    if not budgets:
        return ()
    return tuple([entry for entry in _by_namespace("", budgets).get(pod.namespace, ()) if pod.uid in entry[0].pods])


def within(order: Iterable[tuple[Pod, PodBudgets]], lifted: Set[Cause] = frozenset()) -> list[Pod]:
    """The pods, from the first on, that their budgets let go; budgets whose cause is `lifted` let all go."""
    allowed, spent = list[Pod](), Counter[int]()
    for pod, budgets in order:
        if all(spent[id(budget)] < budget.allowed or cause in lifted for budget, cause in budgets):
            allowed.append(pod)
            for budget, _ in budgets:
                spent[id(budget)] += 1
    return allowed


class Lesser(Struct, frozen=True, gc=False):
    """The pods of a node with a lower rank than the waiting one, the least first, each with what keeps it and its
    budgets."""

    pods: Sequence[tuple[Pod, Causes, PodBudgets]]

    def going(self, lifted: Lifted = frozenset()) -> list[Pod]:
        return within([(pod, budgets) for pod, causes, budgets in self.pods if lifted.issuperset(causes)], lifted)

    def kept(self, short: Shortage, going: Sequence[Pod]) -> list[Causes]:
        """What keeps each pod that stays while `going` are evicted, and that has some of what is short."""
        uids = {pod.uid for pod in going}
        staying = [entry for entry in self.pods if entry[0].uid not in uids and helps(entry[0], short)]
        return [causes + _least_budget(budgets, going, spent=bool(causes)) for _, causes, budgets in staying]

    def lifts(self, short: Shortage) -> Lifted:
        """All causes that keep any of the helpful pods, or would keep it next, and that have a remedy."""
        helping = [(causes, budgets) for pod, causes, budgets in self.pods if helps(pod, short)]
        every = (cause for causes, budgets in helping for cause in (*causes, *(cause for _, cause in budgets)))
        return frozenset(cause for cause in every if cause.mend)


def mends_of(kept: Iterable[Causes], every: Lifted, needed: Callable[[Lifted], set[str] | None]) -> tuple[str, ...]:
    """The remedies. Either each set of causes of one pod that suffices when lifted alone; or else a minimal set of all
    causes that suffices together. Empty where none suffices, or too many would have to be tried.

    `needed` gives the remedies with which enough pods could be evicted if a set of causes kept none; None: they would
    not suffice.
    """
    causes = Counter(frozenset(group) for group in kept if all(cause.mend for cause in group))
    tried = [needed(group) for group, _ in causes.most_common(TRIED)]
    if alone := {_join(mends) for mends in tried if mends is not None}:
        return tuple(sorted(alone))
    if len(every) > TRIED or needed(every) is None:
        return ()
    for cause in sorted(every, key=lambda cause: cause.mend):
        if needed(every - {cause}) is not None:
            every -= {cause}
    return (_join(needed(every) or ()),)


def _join(mends: Iterable[str]) -> str:
    return " and ".join(sorted(mends))


def _least_budget(budgets: PodBudgets, going: Sequence[Pod], *, spent: bool) -> Causes:
    """The cause given by the budget that keeps a pod while others are `going`: the one of the pod's budgets that then
    allows least. `spent`: only a budget that allows no more, as something else keeps the pod already."""
    remaining = [
        (budget.allowed - sum(pod.uid in budget.pods for pod in going), budget.name, cause) for budget, cause in budgets
    ]
    concerned = [entry for entry in remaining if not (spent and entry[0] > 0)]
    return (min(concerned, key=lambda entry: entry[:2])[2],) if concerned else ()


def _cause_of(budget: DisruptionBudget) -> Cause:
    if budget.why:
        return Cause(f"were {budget.why}", budget.mend)
    name = f"PodDisruptionBudget {budget.namespace}/{budget.name}"
    return Cause(f"are kept by {name}", f"{name} lets more of its pods go")


def _index(_: str, budgets: tuple[DisruptionBudget, ...]) -> dict[str, list[tuple[DisruptionBudget, Cause]]]:
    by_namespace: dict[str, list[tuple[DisruptionBudget, Cause]]] = {}
    for budget in budgets:
        by_namespace.setdefault(budget.namespace, []).append((budget, _cause_of(budget)))
    return by_namespace


_by_namespace = Memo(_index)
