"""Finds what keeps lesser pods on a node, and what would have to change for enough of them to be evicted.

Knows pods and the causes that keep each; knows no option, and not how many may be evicted.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from elasticd.api import Pod, Struct

from .budgets import Held, budget_of, within
from .short import Short, helps
from .there import Cause

Options = tuple[str, ...]
"""What keeps a pod, a word each: names of options, and that it has the annotation do-not-disrupt."""

Causes = tuple[Cause, ...]
"""The causes of these options and of budgets; the first one is reported."""

Lifted = frozenset[Cause]
"""Causes that are assumed to keep no pod any more."""

TRIED = 6
"""How many causes are tried, the most frequent first; where more than these act together, no remedy is given."""


class Lesser(Struct, frozen=True, gc=False):
    """The pods of a node with a lower rank than the waiting one, the least first, each with what keeps it and its
    budgets."""

    pods: Sequence[tuple[Pod, Causes, Held]]

    def going(self, lifted: Lifted = frozenset()) -> list[Pod]:
        """The pods that could be evicted without the `lifted` causes."""
        return within([(pod, budgets) for pod, causes, budgets in self.pods if lifted.issuperset(causes)], lifted)

    def kept(self, short: Short, going: Sequence[Pod]) -> list[Causes]:
        """What keeps each pod that stays while `going` are evicted, and that has some of what is short."""
        uids = {pod.uid for pod in going}
        staying = [entry for entry in self.pods if entry[0].uid not in uids and helps(entry[0], short)]
        return [causes + budget_of(budgets, going, spent=bool(causes)) for _, causes, budgets in staying]

    def lifts(self, short: Short) -> Lifted:
        """All causes that keep any of the helpful pods, or would keep it next, and that have a remedy."""
        helping = [(causes, budgets) for pod, causes, budgets in self.pods if helps(pod, short)]
        every = {cause for causes, _ in helping for cause in causes} | {
            cause for _, budgets in helping for _, cause in budgets
        }
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
