"""Which of several recommendations counts.

Pure. Knows how a policy combines what its strategies want; knows nothing of limits or of what was seen.
"""

from collections.abc import Sequence
from math import ceil

from elasticd.model import Recommendation
from elasticd.policy import Combine


def choose(how: Combine, opinions: Sequence[Recommendation], at: float) -> Recommendation | None:
    """The recommendation to follow; None where no strategy has an opinion of a count. Expired ones are none."""
    known = [one for one in opinions if one.replicas is not None and (one.expires is None or one.expires > at)]
    if len(known) < 2:
        return known[0] if known else None
    if how == "mean":
        return _mean(known)
    if how == "priority":
        highest = max(one.priority for one in known)
        known = [one for one in known if one.priority == highest]
    return min(known, key=preference)


def unknown(
    how: Combine, opinions: Sequence[Recommendation], chosen: Recommendation | None, at: float
) -> Recommendation | None:
    """A strategy that cannot know, so that the count may not fall. Where priorities decide, one that would not have
    been heard anyway says nothing."""
    # A strategy that abstains need not know.
    silent = [
        one
        for one in opinions
        if one.replicas is None and not one.abstains and (one.expires is None or one.expires > at)
    ]
    if how == "priority" and chosen is not None:
        silent = [one for one in silent if one.priority >= chosen.priority]
    return min(silent, key=preference) if silent else None


def preference(opinion: Recommendation) -> tuple[int, str, str]:
    """The largest first; among equals by content, because names depend on the order of a policy's tables."""
    return -(opinion.replicas or 0), opinion.reason, opinion.message


def _mean(known: Sequence[Recommendation]) -> Recommendation:
    """Rounded up: half a pod of doubt is a pod."""
    counts = sorted((one.replicas or 0 for one in known), reverse=True)
    told = " and ".join(map(str, counts))
    return Recommendation(ceil(sum(counts) / len(counts)), "MeanOfStrategies", f"the mean of {told}")
