"""How recommendations become one wish, and how limits and bounds restrain it, and which of them says so.

Pure. A wish is restrained by arithmetic of intervals: first the limits of the wish itself intersect, then those that
delay, then those that shorten, then those that take a change back, and the policy's bounds come last; so the order of
plugins never matters. Knows the HPA's conditions; knows nothing of metrics, nor of time but that an opinion expires.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from elasticd.model.policy import Bounds, Combine
from elasticd.model.workload import Condition, Limit, Recommendation


def choose(how: Combine, opinions: Sequence[Recommendation], at: float) -> Recommendation | None:
    """The recommendation to follow; None where no strategy has an opinion of a count. Expired ones are none."""
    # A loop: lists and a sort key take 3.1 us for three opinions, and this 0.7 (tests/bench/decide.py).
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


class Combined(Struct, frozen=True, gc=False):
    """The limited count. `limits` are marked if they bind, the policy's bounds last; `binding` is the one that explains
    the result, None when no limit changed the recommendation."""

    replicas: int
    limits: tuple[Limit, ...]
    conditions: tuple[Condition, ...]
    binding: Limit | None = None


_UNRESTRAINED = (
    Condition("AbleToScale", True, "ReadyForNewScale"),
    Condition("ScalingActive", True, "ValidMetricFound"),
    Condition("ScalingLimited", False, "DesiredWithinRange"),
)


def within(count: int, bounds: Bounds) -> int:
    """The count inside the bounds that is nearest to this one."""
    if bounds.min <= count <= bounds.max:
        return count
    return min(max(count, bounds.min), bounds.max)


@lru_cache(maxsize=4096)
def restrained(wish: int, limits: tuple[Limit, ...], bounds: Bounds, current: int) -> Combined | str:
    """What the limits and the bounds leave of a wish; or why no count satisfies them all. Cached, as the same limits
    hold the same wish from look to look, and in many workloads at once."""
    return contradiction(limits, current) or combine(wish, limits, bounds, current)


def contradiction(limits: Sequence[Limit], current: int) -> str:
    """Why no count satisfies all limits that must agree, or an empty string.

    Those of one stage must; those of the wish come before all others, and contradict none of them. What shortens has
    the last word over what delays as long as it lets the count be what it is, as the HPA's rates do; where it asks for
    another count it must agree with what delays too. What takes a change back must agree with all but what delays or
    gives way, and goes past these also where they contradict each other.
    """
    if _agree(limits):
        return ""
    cuts, delays, paces, undoing = _stages(limits)
    if undoing:
        stages = [[*cuts, *undoing, *(pace for pace in paces if not pace.gives_way)]]
    else:
        stages = [cuts, [*delays, *(pace for pace in paces if pace.clamp(current) != current)], paces]
    for stage in stages:
        lowest = [(limit.lowest, limit) for limit in stage if limit.lowest is not None]
        highest = [(limit.highest, limit) for limit in stage if limit.highest is not None]
        if not lowest or not highest or max(low for low, _ in lowest) <= min(high for high, _ in highest):
            continue
        for ends in (lowest, highest):
            ends.sort(key=lambda pair: _order_by_content(pair[1]))
        least, low = max(lowest, key=lambda pair: pair[0])
        most, high = min(highest, key=lambda pair: pair[0])
        return f"{low.name} asks for at least {least}, {high.name} for at most {most}"
    return ""


def _agree(limits: Sequence[Limit]) -> bool:
    """Whether one count satisfies them all, as it nearly always does: then those of every stage agree as well."""
    lowest = [limit.lowest for limit in limits if limit.lowest is not None]
    highest = [limit.highest for limit in limits if limit.highest is not None]
    return not lowest or not highest or max(lowest) <= min(highest)


_Stages = tuple[list[Limit], list[Limit], list[Limit], list[Limit]]


def _stages(limits: Sequence[Limit]) -> _Stages:
    """Sort limits into stages that each intersect: what cuts the wish, delays, shortens, and takes back."""
    stages: _Stages = ([], [], [], [])
    for limit in limits:
        stages[3 if limit.takes_back else 0 if limit.of_wish else 1 if limit.condition == "AbleToScale" else 2].append(
            limit
        )
    return stages


def combine(wish: int, limits: Sequence[Limit], bounds: Bounds, current: int) -> Combined:
    """The count that limits which do not contradict each other, then the bounds, leave of a wish. The limits come
    unmarked. HPA: Normalization: what delays goes before what shortens, and that before the bounds."""
    moving = [limit for limit in limits if limit.clamp(wish) != wish]
    if not moving and within(wish, bounds) == wish:
        return Combined(wish, (*limits, bounds_limit(bounds, wish)), _UNRESTRAINED)
    cuts, delays, paces, undoing = _stages(limits)
    cut = _clamp(wish, cuts)
    delayed = _clamp(cut, delays) if _agree(delays) else current
    paced = _clamp(delayed, paces) if _agree(paces) else current
    undone = _clamp(paced, undoing)
    final = within(undone, bounds)
    # Where what shortens ends at the very bound, the HPA names the bound.
    edge = bounds_limit(bounds, delayed if final == undone == paced and within(delayed, bounds) == final else undone)
    marked = []
    for limit in limits:
        before, after = (cut, delayed) if limit.condition == "AbleToScale" else (delayed, paced)
        if limit.takes_back:
            before, after = paced, undone
        elif limit.of_wish:
            before, after = wish, cut
        moved = final == after != before and limit.clamp(before) == after
        marked.append(replace(limit, bound=True) if moved and not edge.bound else limit)
    first = min([limit for limit in marked if limit.bound], key=_order_by_content, default=None)
    binding = edge if edge.bound else first
    return Combined(final, (*marked, edge), _conditions(cut, delayed, final, delays, binding), binding)


@lru_cache(maxsize=4096)
def bounds_limit(bounds: Bounds, count: int) -> Limit:
    """The policy's min and max as a limit, with the HPA's reasons for what they do to a count."""
    final = within(count, bounds)
    reason = "TooManyReplicas" if final < count else "TooFewReplicas" if final > count else "DesiredWithinRange"
    message = f"the policy allows {bounds.min} to {bounds.max}"
    return Limit(reason, message, bounds.min, bounds.max, name="bounds", bound=final != count)


def _clamp(wish: int, limits: Iterable[Limit]) -> int:
    for limit in limits:
        wish = limit.clamp(wish)
    return wish


def _order_by_content(limit: Limit) -> tuple[str, str, str]:
    """Sort key: among equals the choice is by content, because names depend on the order of a policy's tables."""
    return limit.reason, limit.message, limit.name


def _conditions(
    cut: int, delayed: int, final: int, delays: Sequence[Limit], binding: Limit | None
) -> tuple[Condition, ...]:
    """The HPA's conditions. ScalingLimited: something shortened what the delays left, or cut the wish to it."""
    able, active, limited = _UNRESTRAINED
    delaying = [limit for limit in delays if limit.clamp(cut) == delayed != cut]
    if delaying:
        delay = min(delaying, key=_order_by_content)
        able = Condition("AbleToScale", True, delay.reason, delay.message)
    if binding and (final != delayed or binding.of_wish):
        limited = Condition("ScalingLimited", True, binding.reason, binding.message)
    return (able, active, limited)
