"""Which of several recommendations counts.

Pure. Knows how a policy combines what its strategies want; knows nothing of limits or of what was seen.
"""

from collections.abc import Sequence
from math import ceil

from elasticd.model.policy import Combine
from elasticd.model.workload import Recommendation


def choose(how: Combine, opinions: Sequence[Recommendation], at: float) -> Recommendation | None:
    """The recommendation to follow; None where no strategy has an opinion of a count. Expired ones are none."""
    counted = [opinion for opinion in opinions if opinion.replicas is not None and not _has_expired(opinion, at)]
    if len(counted) < 2:
        return counted[0] if counted else None
    if how == "mean":
        return _mean(counted)
    if how == "priority":
        highest = max(opinion.priority for opinion in counted)
        counted = [opinion for opinion in counted if opinion.priority == highest]
    return min(counted, key=preference)


def unknown(
    how: Combine, opinions: Sequence[Recommendation], chosen: Recommendation | None, at: float
) -> Recommendation | None:
    """The opinion of a strategy that cannot know, so that the count may not fall; None: there is none. Where priorities
    decide, a strategy below the chosen one is ignored."""
    silent = [
        opinion
        for opinion in opinions
        if opinion.replicas is None and not opinion.abstains and not _has_expired(opinion, at)
    ]
    if how == "priority" and chosen is not None:
        silent = [opinion for opinion in silent if opinion.priority >= chosen.priority]
    return min(silent, key=preference, default=None)


def _has_expired(opinion: Recommendation, at: float) -> bool:
    return opinion.expires is not None and opinion.expires <= at


def preference(opinion: Recommendation) -> tuple[int, str, str]:
    """Sort key: the largest first; among equals by content, because names depend on the order of a policy's tables."""
    return -(opinion.replicas or 0), opinion.reason, opinion.message


def _mean(opinions: Sequence[Recommendation]) -> Recommendation:
    """The mean of several opinions, rounded up: half a pod of doubt is a pod."""
    counts = sorted((opinion.replicas or 0 for opinion in opinions), reverse=True)
    text = " and ".join(map(str, counts))
    return Recommendation(ceil(sum(counts) / len(counts)), "MeanOfStrategies", f"the mean of {text}")
