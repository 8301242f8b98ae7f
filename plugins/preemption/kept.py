"""What keeps lesser pods of a node, and what would have to be otherwise for enough of them to go.

Knows pods and what keeps each; knows no option, and not how many may go.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from elasticd.api import Pod, Struct

from .budgets import Held, budget_of, within
from .short import Short, helps
from .there import Cause

Options = tuple[str, ...]
"""What keeps a pod, a word each: options, and that it asks to be left alone."""

Causes = tuple[Cause, ...]
"""What these say of it, and budgets; that first which is told."""

Lifted = frozenset[Cause]
"""What keeps nobody any more."""

TRIED = 6
"""Of what keeps pods of a node, how much is tried, the most frequent; where more than that keeps them together, nothing
is told."""


class Lesser(Struct, frozen=True, gc=False):
    """Pods of a node that matter less than the one that waits, the least first, each with what keeps it, and its
    budgets."""

    pods: Sequence[tuple[Pod, Causes, Held]]

    def going(self, lifted: Lifted = frozenset()) -> list[Pod]:
        """Who may go if this kept nobody."""
        return within([(pod, budgets) for pod, causes, budgets in self.pods if lifted.issuperset(causes)], lifted)

    def kept(self, short: Short, going: Sequence[Pod]) -> list[Causes]:
        """What keeps each that stays while these go, and has some of what is lacking."""
        uids = {pod.uid for pod in going}
        staying = [entry for entry in self.pods if entry[0].uid not in uids and helps(entry[0], short)]
        return [causes + budget_of(budgets, going, spent=bool(causes)) for _, causes, budgets in staying]

    def lifts(self, short: Short) -> Lifted:
        """All that keeps any of them, or would keep it next, and can be otherwise."""
        helping = [(causes, budgets) for pod, causes, budgets in self.pods if helps(pod, short)]
        every = {cause for causes, _ in helping for cause in causes} | {
            cause for _, budgets in helping for _, cause in budgets
        }
        return frozenset(cause for cause in every if cause.mend)


def mends_of(kept: Iterable[Causes], every: Lifted, needed: Callable[[Lifted], set[str] | None]) -> tuple[str, ...]:
    """What would have to be otherwise: all that keeps one of them, whichever that would do for; or else as few of all
    as would do together; nothing where nothing would, or too much would have to be tried.

    `needed`: what would have to be, for enough to go when this keeps nobody; None: they would not be enough.
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
