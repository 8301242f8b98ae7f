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
    count = 0
    for opinion in opinions:
        if opinion.replicas is None or _has_expired(opinion, at):
            continue
        count += 1
        if best is None or _goes_before(how, opinion, best):
            best = opinion
    if how == "mean" and count > 1:
        return _mean(
            [opinion for opinion in opinions if opinion.replicas is not None and not _has_expired(opinion, at)]
        )
    return best


def unknown(
    how: Combine, opinions: Sequence[Recommendation], chosen: Recommendation | None, at: float
) -> Recommendation | None:
    """The opinion of a strategy that cannot know, so that the count may not fall; None: there is none. Where priorities
    decide, a strategy below the chosen one is ignored."""
    silent: Recommendation | None = None
    for opinion in opinions:
        if opinion.replicas is not None or opinion.abstains or _has_expired(opinion, at):
            continue  # one that abstains need not know
        if how == "priority" and chosen is not None and opinion.priority < chosen.priority:
            continue
        if silent is None or preference(opinion) < preference(silent):
            silent = opinion
    return silent


def _has_expired(opinion: Recommendation, at: float) -> bool:
    return opinion.expires is not None and opinion.expires <= at


def _goes_before(how: Combine, opinion: Recommendation, rival: Recommendation) -> bool:
    if how == "priority" and opinion.priority != rival.priority:
        return opinion.priority > rival.priority
    if opinion.replicas != rival.replicas:
        return (opinion.replicas or 0) > (rival.replicas or 0)
    return preference(opinion) < preference(rival)


def preference(opinion: Recommendation) -> tuple[int, str, str]:
    """Sort key: the largest first; among equals by content, because names depend on the order of a policy's tables."""
    return -(opinion.replicas or 0), opinion.reason, opinion.message


def _mean(opinions: Sequence[Recommendation]) -> Recommendation:
    """The mean of several opinions, rounded up: half a pod of doubt is a pod."""
    counts = sorted((opinion.replicas or 0 for opinion in opinions), reverse=True)
    text = " and ".join(map(str, counts))
    return Recommendation(ceil(sum(counts) / len(counts)), "MeanOfStrategies", f"the mean of {text}")
