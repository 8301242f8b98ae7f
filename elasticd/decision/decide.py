"""Judgement: policy, observation and past in, a decision out.

Pure: `now` is `observation.at`, nothing is read, written or awaited, so that a decision can be made again from
its record. Knows when a wish may be followed and when to hold; knows no strategy.
"""

from collections.abc import Collection, Sequence

from msgspec import Struct
from msgspec.structs import replace

from elasticd.base.text import last_heard
from elasticd.decision.workload.asking import Case
from elasticd.decision.workload.choose import choose, preference, unknown
from elasticd.decision.workload.combine import bounds_limit, restrained, within
from elasticd.decision.workload.jobs import grow, keep_running, tidy
from elasticd.decision.workload.resizing import NO_SIZING, size
from elasticd.decision.workload.vetoes import vetoes
from elasticd.decision.workload.victims import choice, chosen, going, leftover
from elasticd.decision.workload.zero import markings, paused
from elasticd.model.actions import Announce, Answer, Create, Mark, Scale
from elasticd.model.policy import Policy
from elasticd.model.records import Decision, Verdict
from elasticd.model.workload import Condition, ConditionType, Failure, Limit, Recommendation, Ref, Series

__all__ = ["Case", "decide", "held", "announcements"]

VIEW_AGE = 120.0
"""Seconds without a word from the cluster after which nothing is decided on what it said before: two of the minutes
that pass between the bookmarks of a quiet watch."""


class _Judgement(Struct, frozen=True, gc=False):
    verdict: Verdict
    replicas: int
    reason: str
    message: str
    wish: int | None = None
    recommendations: tuple[Recommendation, ...] = ()
    limits: tuple[Limit, ...] = ()
    conditions: tuple[Condition, ...] = ()
    failures: tuple[Failure, ...] = ()
    blind: bool = False


def decide(case: Case) -> Decision:
    """The decision about one workload at one time, and when to look again."""
    policy, observation = case.policy, case.observation
    workload = observation.workload
    job, name = policy.job, _named(policy, workload.ref, observation.at)
    age = observation.at - observation.confirmed  # seconds since the cluster last proved what is shown of it
    found = _vetoed(case, _bounds_first(case, age) or _by_strategies(case))
    if job is not None:
        found = _run_on(found, workload.replicas)
    found, marks = _with_victims(case, found)
    old = age > VIEW_AGE
    blurred = old or bool(observation.fault[0])
    if blurred:  # what it shows may be gone, or somebody else's
        marks = ()
    if job is None and not old:
        marks = markings(policy.name, workload, found.replicas) + marks
    interval, by, failures = _interval(case)
    sizing, unsized = NO_SIZING
    if job is None and not blurred:  # nothing is changed while the count is
        sizing, unsized = size(case, busy=found.verdict == "scale" or bool(marks))
    action: Scale | Create | None = None
    if found.verdict == "scale":
        why = f"{found.reason}: {found.message}" if found.message else found.reason
        if job is not None:
            action = grow(job, workload, found.replicas, why, name)
        else:
            action = Scale(workload.ref, workload.uid, workload.version, workload.replicas, found.replicas, why)
    # In the order of its fields: by name, a record of so many takes a microsecond.
    return Decision(
        name,
        observation.at,
        policy.name,
        workload.ref,
        policy.mode,
        workload.replicas,
        found.replicas,
        found.verdict,
        found.reason,
        found.message,
        workload.uid,
        found.wish,
        found.recommendations,
        found.limits,
        found.conditions,
        found.failures + failures + unsized,
        _recorded(observation.series.values()),
        len(observation.pods),
        interval,
        by,
        action,
        found.blind,
        marks,
        case.hooks.recalls,
        removals=() if job is None or old else tidy(job, workload, still=_stands_still(case, found)),
        sizing=sizing,
    )


def _stands_still(case: Case, found: _Judgement) -> bool:
    """Whether a person, or the calendar, lets nothing be ended now."""
    held = [veto.limit for veto in vetoes(case.policy, case.observation, case.past)]
    held += [one for one in found.limits if one.name.partition("#")[0] == "blackout"]
    return any(one.lowest is not None for one in held)


def _named(policy: Policy, ref: Ref, at: float) -> str:
    return f"{policy.name}:{ref!s}@{at:.3f}"


def _recorded(series: Collection[Series]) -> tuple[Series, ...]:
    """As they are kept: one that is forecast without its values, which would fill the journal. What was made of them
    stands in the recommendation."""
    for one in series:
        if one.forecast is not None:
            return tuple([replace(one, forecast=one.forecast and one.forecast.summary()) for one in series])
    return tuple(series)


def held(policy: Policy, ref: Ref, at: float, reason: str, message: str, current: int = 0) -> Decision:
    """A decision to do nothing about a workload that cannot be judged at all."""
    return Decision(
        id=_named(policy, ref, at),
        at=at,
        policy=policy.name,
        workload=ref,
        mode=policy.mode,
        current=current,
        replicas=current,
        verdict="hold",
        reason=reason,
        message=message,
        conditions=(Condition("AbleToScale", False, reason, message),),
        interval=policy.interval,
    )


def _bounds_first(case: Case, age: float) -> _Judgement | None:
    """What needs no metrics: a view too old to act on, a person's pause, a count outside the policy's bounds.

    HPA: one pass, step 3, branches a to c.
    """
    observation, bounds = case.observation, case.policy.replicas
    current = observation.workload.replicas
    if age > VIEW_AGE:
        most = f", at most {VIEW_AGE:g} s" if observation.confirmed else ""
        message = f"{last_heard(observation.at, observation.confirmed)}{most}"
        return _hold(current, "AbleToScale", "StaleCluster", message)
    jobs = case.policy.job is not None
    if jobs and current >= bounds.min:  # Jobs beyond max end by themselves
        return None
    if not jobs and (why := paused(observation.workload, bounds)):
        return _hold(current, "ScalingActive", *why)
    final = within(current, bounds)
    if final == current:
        return None
    side = "above max" if current > bounds.max else "below min"
    limit = bounds_limit(bounds, current)
    message = f"{current} replicas are {side} = {final}"
    return _Judgement("scale", final, limit.reason, message, limits=(limit,))


def _run_on(found: _Judgement, current: int) -> _Judgement:
    """What is left of an answer about a job set: Jobs are created, and never ended to become fewer."""
    floor = keep_running(found.replicas, current)
    if floor is None:
        return found
    return replace(
        found,
        verdict="hold",
        replicas=current,
        reason=floor.reason,
        message=floor.message,
        limits=(*found.limits, floor),
    )


def _by_strategies(case: Case) -> _Judgement:
    """HPA: one pass, steps 4 to 6: the highest proposal, then everything that restrains it."""
    current = case.observation.workload.replicas
    reason, message = case.observation.fault
    if reason:
        return _hold(current, "ScalingActive", reason, message)
    said = case.ask("recommend_replicas")
    how, at, priorities = case.policy.combine, case.observation.at, case.hooks.priorities
    opinions = said.given
    if priorities:
        opinions = tuple([replace(one, priority=priorities.get(one.strategy, 0)) for one in opinions])
    if said.failures and any(failure.plugin not in case.off for failure in said.failures):
        found = _failed(case, "ScalingActive", said.failures)
        return replace(found, recommendations=opinions)
    best = choose(how, opinions, at)
    doubt = _doubt(case, unknown(how, opinions, best, at), said.failures)
    if best is None or best.replicas is None or (doubt and best.replicas < current):
        found = _without_knowledge(case, doubt)
    else:
        found = _limited(case, best, best.replicas, doubt)
    return replace(found, recommendations=opinions, failures=said.failures + found.failures)


def _vetoed(case: Case, found: _Judgement) -> _Judgement:
    """The same, held where somebody has frozen the workload or scales it too. What the strategies wished for stays, so
    that it is seen and their windows know it."""
    standing = vetoes(case.policy, case.observation, case.past)
    if not standing or found.reason == "StaleCluster":
        return found
    current = case.observation.workload.replicas
    told = [replace(one.limit, bound=one.limit.clamp(found.replicas) != found.replicas) for one in standing]
    trouble = next((one.limit for one in standing if one.trouble), None)
    why = trouble or next((one for one in told if one.bound), None)
    if why is None:
        return replace(found, limits=(*found.limits, *told))
    able = Condition("AbleToScale", trouble is None, why.reason, why.message)
    return replace(
        found,
        verdict="hold",
        replicas=current,
        reason=why.reason,
        message=why.message,
        limits=(*(replace(one, bound=False) for one in found.limits), *told),
        conditions=(able, *(one for one in found.conditions if one.type != "AbleToScale")),
    )


def _doubt(case: Case, silent: Recommendation | None, failures: Sequence[Failure]) -> Recommendation | None:
    """Why the count may not fall: a strategy that cannot know, or one that is switched off."""
    found = [] if silent is None else [silent]
    for one in case.observation.series.values():
        if not one.may_raise or one.trusted:
            continue
        found.append(Recommendation(None, "NotTrusted", f"{one.name} is {one.quality.value}: {one.message}"))
    if failures and not found:
        found = [Recommendation(None, "SwitchedOff", f"{failure.plugin} {failure.message}") for failure in failures]
    return min(found, key=preference) if found else None


def _with_victims(case: Case, found: _Judgement) -> tuple[_Judgement, tuple[Mark, ...]]:
    """Which pods go first where the count falls; where it does not, and none is to spare, none need."""
    seen = case.observation
    spare = seen.workload.replicas - found.replicas
    if found.verdict != "scale" or spare <= 0:
        return found, leftover(seen.workload, seen.pods)
    said = case.ask("rank_pods", replicas=found.replicas)
    if said.failures:  # the count would fall by the wrong pods
        return replace(_failed(case, "AbleToScale", said.failures), wish=found.wish), ()
    priorities = case.hooks.priorities
    ranks = dict(sorted(said.values, key=lambda one: (-priorities.get(one[0], 0), one[0])))
    first = chosen(seen.workload, seen.pods, ranks, spare + going(seen.workload, seen.pods))
    return found, choice(seen.workload.ref, case.policy.name, first, seen.pods, ranks)


def _without_knowledge(case: Case, doubt: Recommendation | None) -> _Judgement:
    """What the policy wants done while it cannot be known what is needed: hold, or go to a count of its own, within all
    limits as any wish. Only a ceiling lowers, and a fallback that is told to."""
    current, trust = case.observation.workload.replicas, case.policy.trust
    if (
        doubt is None
        and case.hooks.implements("recommend_resources")
        and not case.hooks.implements("recommend_replicas")
    ):
        return _Judgement("keep", current, "CountLeftAlone", "no strategy of the policy is about the count")
    if doubt is None:
        return _hold(current, "ScalingActive", "NoRecommendation", "no strategy has an opinion")
    held = replace(_hold(current, "ScalingActive", doubt.reason, doubt.message), blind=True)
    since = case.past.blind_since
    blind = 0.0 if since is None else case.observation.at - since
    if trust.replicas is None or blind < trust.after:
        return held
    wish = trust.instead(current)
    if wish == current:
        return held
    why = Recommendation(wish, trust.unknown.capitalize(), f"{doubt.reason}: {doubt.message}")
    found = _limited(case, why, wish, None)
    if found.replicas < current and not trust.lowers:  # the HPA's windows of 1.20 can go below what is there
        return held
    # It is still not known, and whoever reads the conditions must see it.
    told = tuple(held.conditions[0] if one.type == "ScalingActive" else one for one in found.conditions)
    return replace(found, conditions=told, blind=True)


def _limited(case: Case, best: Recommendation, wish: int, doubt: Recommendation | None) -> _Judgement:
    """The wish after everything that restrains it. A limit that fails, even one switched off, might have forbidden
    any change, so it holds; so do limits that contradict each other, and what would shrink in doubt."""
    current = case.observation.workload.replicas
    said = case.ask("limit", wish=wish)
    limits = said.given
    if said.failures:
        return replace(_failed(case, "AbleToScale", said.failures), wish=wish)
    found = restrained(wish, limits, case.policy.replicas, current)
    if isinstance(found, str):
        return replace(_hold(current, "AbleToScale", "LimitsContradict", found), wish=wish, limits=limits)
    if doubt and found.replicas < current:
        held = _hold(current, "ScalingActive", doubt.reason, doubt.message)
        return replace(held, wish=wish, limits=found.limits)
    why: Recommendation | Limit = best
    binding, way = found.binding, (found.replicas - current) * (wish - current)
    if binding and (binding.takes_back or way <= 0):  # not because of the wish, or not the way it goes
        why = binding
    verdict: Verdict = "scale" if found.replicas != current else "keep" if wish == current else "hold"
    return _Judgement(
        verdict, found.replicas, why.reason, why.message, wish, limits=found.limits, conditions=found.conditions
    )


def _hold(current: int, condition: ConditionType, reason: str, message: str) -> _Judgement:
    """Unknown is never zero: hold, and say what is missing. HPA: one pass, step 5."""
    return _Judgement("hold", current, reason, message, conditions=(Condition(condition, False, reason, message),))


def _failed(case: Case, condition: ConditionType, failures: tuple[Failure, ...]) -> _Judgement:
    """A plugin that failed holds its policy for this tick."""
    first = min(failures, key=lambda one: (one.plugin in case.off, one.plugin, one.message))
    message = f"{first.plugin}: {first.hook} {first.message}"
    held = _hold(case.observation.workload.replicas, condition, "PluginFailed", message)
    return replace(held, failures=failures)


def _interval(case: Case) -> tuple[float, str, tuple[Failure, ...]]:
    """Seconds until the next look and who asked for it. A failure here is told, but holds nothing."""
    said = case.ask("poll_interval")
    if not said.given:
        return case.policy.interval, "policy", said.failures
    if len(said.given) == 1:
        return said.given[0], said.names[0], said.failures
    return (*min(zip(said.given, said.names, strict=True)), said.failures)


def condition_after(answer: Answer) -> Condition | None:
    """What the HPA would report of this answer to a scale; None where nothing was tried. HPA: one pass, step 7."""
    if answer.result == "observed":
        return None
    done = answer.result == "done"
    return Condition("AbleToScale", done, "SucceededRescale" if done else "FailedUpdateScale", answer.message)


def announcements(decision: Decision, previous: Decision | None) -> tuple[Announce, ...]:
    """What to tell at the workload: that it began to be held for lack of knowledge, once for each reason."""
    if decision.verdict != "hold" or not decision.uid:
        return ()
    trouble = any(not one.status for one in decision.conditions if one.type != "ScalingLimited")
    same = previous is not None and (previous.verdict, previous.reason) == (decision.verdict, decision.reason)
    if not trouble or same:
        return ()
    return (Announce(decision.workload, decision.uid, decision.reason, decision.message, warning=True),)
