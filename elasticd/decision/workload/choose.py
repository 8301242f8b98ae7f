"""Which of several recommendations counts.

Pure. Knows how a policy combines what its strategies want; knows nothing of limits or of what was seen.
"""

from collections.abc import Sequence
from math import ceil

from elasticd.model.policy import Combine
from elasticd.model.workload import Recommendation


def choose(how: Combine, opinions: Sequence[Recommendation], at: float) -> Recommendation | None:
    """The recommendation to follow; None where no strategy has an opinion of a count. Expired ones are none."""
    best: Recommendation | None = None
    known = 0
    for one in opinions:
        if one.replicas is None or _expired(one, at):
            continue
        known += 1
        if best is None or _before(how, one, best):
            best = one
    if how == "mean" and known > 1:
        return _mean([one for one in opinions if one.replicas is not None and not _expired(one, at)])
    return best


def unknown(
    how: Combine, opinions: Sequence[Recommendation], chosen: Recommendation | None, at: float
) -> Recommendation | None:
    """A strategy that cannot know, so that the count may not fall. Where priorities decide, one that would not have
    been heard anyway says nothing."""
    silent: Recommendation | None = None
    for one in opinions:
        if one.replicas is not None or one.abstains or _expired(one, at):  # one that abstains need not know
            continue
        if how == "priority" and chosen is not None and one.priority < chosen.priority:
            continue
        if silent is None or preference(one) < preference(silent):
            silent = one
    return silent


def _expired(opinion: Recommendation, at: float) -> bool:
    return opinion.expires is not None and opinion.expires <= at


def _before(how: Combine, one: Recommendation, other: Recommendation) -> bool:
    """Whether it is followed rather than the other."""
    if how == "priority" and one.priority != other.priority:
        return one.priority > other.priority
    if one.replicas != other.replicas:
        return (one.replicas or 0) > (other.replicas or 0)
    return preference(one) < preference(other)


def preference(opinion: Recommendation) -> tuple[int, str, str]:
    """The largest first; among equals by content, because names depend on the order of a policy's tables."""
    return -(opinion.replicas or 0), opinion.reason, opinion.message


def _mean(known: Sequence[Recommendation]) -> Recommendation:
    """Rounded up: half a pod of doubt is a pod."""
    counts = sorted((one.replicas or 0 for one in known), reverse=True)
    told = " and ".join(map(str, counts))
    return Recommendation(ceil(sum(counts) / len(counts)), "MeanOfStrategies", f"the mean of {told}")
