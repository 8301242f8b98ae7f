"""Judgement: policy, observation and past in, a decision out.

Pure: `now` is `observation.at`, nothing is read, written or awaited, so that a decision can be made again from
its record. Knows when a wish may be followed and when to hold; knows no strategy.
"""

from collections.abc import Collection, Sequence
from math import inf
from typing import NamedTuple

from msgspec import UNSET, Struct
from msgspec.structs import replace

from elasticd.base.text import last_heard
from elasticd.decision.workload.asking import Case
from elasticd.decision.workload.combine import bounds_limit, choose, preference, restrained, unknown, within
from elasticd.decision.workload.falls import WAITS, fall_limit, wait
from elasticd.decision.workload.jobs import failing, failing_limit, grow, tidy
from elasticd.decision.workload.ramp import ramp_limit
from elasticd.decision.workload.resizing import NO_SIZING, size
from elasticd.decision.workload.vetoes import vetoes
from elasticd.decision.workload.victims import choice, chosen, going, leftover
from elasticd.decision.workload.zero import markings, own_zero, paused
from elasticd.kit.surge import gives_way, own_count, without_move
from elasticd.model.actions import Announce, Answer, Create, Mark, Scale
from elasticd.model.policy import JobSet, Policy
from elasticd.model.records import FOREIGN_OWNER, Decision, Verdict
from elasticd.model.workload import Condition, ConditionType, Failure, Limit, Recommendation, Ref, Series, Workload

__all__ = ["Case", "Evaluated", "announcements", "decide", "evaluate", "held"]

VIEW_AGE = 120.0
"""Seconds without news from the cluster after which its last state is too old to act on: two of the minutes that pass
between the bookmarks of a quiet watch."""


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


class Evaluated(NamedTuple):
    """A decision, and the next time after it at which it may come out otherwise by the clock alone."""

    decision: Decision
    until: float = inf


def evaluate(case: Case) -> Evaluated:
    """Decide, and ask the strategies when they may change their minds; hold where one cannot say."""
    job, at = case.policy.job, case.observation.at
    failures = failing(job, case.observation.workload) if job else None
    changes = [failures.until] if failures else []
    if case.hooks.implements("next_change"):
        answers = case.ask("next_change")
        if answers.failures:
            message = "; ".join(f"{failure.plugin}: {failure.hook} {failure.message}" for failure in answers.failures)
            return hold_failed(case, message, answers.failures)
        changes += [time for _, time in answers.values]
    decision = decide(case)
    if (falls := _falls_at(case, decision)) is not None:
        changes.append(falls)
    return Evaluated(decision, min((time for time in changes if time > at), default=inf))


def _falls_at(case: Case, decision: Decision) -> float | None:
    """When a count falls that nothing but the wait for lost series holds; None: none is held so. To look sooner than
    other windows let it fall would only shorten these, as they go by what was recommended at each look."""
    wish, current = decision.wish, case.observation.workload.replicas
    waiting = None if wish is None or decision.asked is None else wait(case, decision.asked)
    if wish is None or waiting is None:
        return None
    others = tuple([limit for limit in decision.limits if limit.name != WAITS])
    combined = restrained(wish, others, case.policy.replicas, current)
    falls = not isinstance(combined, str) and combined.replicas < decision.replicas
    return waiting.until if falls else None


def hold_failed(case: Case, message: str, failures: tuple[Failure, ...]) -> Evaluated:
    """Hold, because a plugin, or elasticd itself, failed to decide."""
    workload, at = case.observation.workload, case.observation.at
    decision = held(case.policy, workload.ref, at, "PluginFailed", message, workload)
    return Evaluated(replace(decision, failures=failures))


def decide(case: Case) -> Decision:
    """Decide about one workload at one time, and when to look again."""
    policy, observation = case.policy, case.observation
    workload = observation.workload
    job, name = policy.job, _decision_id(policy, workload.ref, observation.at)
    age = observation.at - observation.confirmed  # seconds since the cluster last proved what is shown of it
    judgement = _judge_before_move(case, age) or _judge(case, age)
    if job is not None:
        judgement = _restrain_jobs(case, job, judgement)
    judgement, marks = _choose_victims(case, judgement)
    old = age > VIEW_AGE
    blurred = old or bool(observation.fault[0])
    if blurred:  # the pods it shows may be gone or replaced
        marks = ()
    if job is None and not old:
        marks = markings(policy.name, workload, judgement.replicas, case.past) + marks
    interval, by, failures = _ask_interval(case)
    zero = own_zero(workload, case.past) if job is None and workload.replicas == 0 else None
    sizing, unsized = NO_SIZING
    if job is None and not blurred:  # nothing is changed while the count is
        sizing, unsized = size(case, busy=judgement.verdict == "scale" or bool(marks))
    action: Scale | Create | None = None
    if judgement.verdict == "scale":
        reason = f"{judgement.reason}: {judgement.message}" if judgement.message else judgement.reason
        if job is not None:
            action = grow(job, workload, judgement.replicas, reason, name)
        else:
            counted = workload.status_replicas if judgement.replicas < workload.replicas else None
            action = Scale(
                workload.ref, workload.uid, workload.version, workload.replicas, judgement.replicas, reason,
                counted=counted,
            )  # fmt: skip
    # In the order of its fields: by name, a record of so many takes a microsecond.
    return Decision(
        name, observation.at, policy.name, workload.ref, policy.mode, workload.replicas, judgement.replicas,
        judgement.verdict, judgement.reason, judgement.message, workload.uid, judgement.wish,
        judgement.recommendations, judgement.limits, judgement.conditions, judgement.failures + failures + unsized,
        _without_forecast_values(observation.series.values()), len(observation.pods), interval, by, action,
        judgement.blind, marks, case.hooks.recalls,
        removals=() if job is None or old else tidy(job, workload, still=_must_stand_still(case, judgement)),
        sizing=sizing, confirmed=observation.confirmed, surged=(workload.replicas - own_count(workload)) or UNSET,
        zero=zero or UNSET,
    )  # fmt: skip


def _judge(case: Case, age: float) -> _Judgement:
    return _apply_vetoes(case, _judge_bounds(case, age) or _judge_by_strategies(case))


def _judge_before_move(case: Case, age: float) -> _Judgement | None:
    """Judge a workload as if no pod of it were being moved, where the move waits for a rollout that may wait for room.
    None: none waits so, or no fewer replicas are asked for than before it."""
    observation = case.observation
    workload = observation.workload
    if not gives_way(workload, observation.pods):
        return None
    own = without_move(workload)
    judgement = _judge(replace(case, observation=replace(observation, workload=own)), age)
    return judgement if judgement.replicas < own.replicas else None


def _must_stand_still(case: Case, judgement: _Judgement) -> bool:
    """Whether a veto (a person's freeze, for one) or a blackout window forbids ending Jobs now."""
    limits = [veto.limit for veto in vetoes(case.policy, case.observation, case.past)]
    limits += [limit for limit in judgement.limits if limit.name.partition("#")[0] == "blackout"]
    return any(limit.lowest is not None for limit in limits)


def _decision_id(policy: Policy, ref: Ref, at: float) -> str:
    return f"{policy.name}:{ref!s}@{at:.3f}"


def _without_forecast_values(observed: Collection[Series]) -> tuple[Series, ...]:
    """The series as the journal records them: without the values of forecasts, which would fill it. What was made of
    those stands in the recommendation."""
    for series in observed:
        if series.forecast is not None:
            return tuple([replace(each, forecast=each.forecast and each.forecast.summary()) for each in observed])
    return tuple(observed)


def held(policy: Policy, ref: Ref, at: float, reason: str, message: str, workload: Workload | None = None) -> Decision:
    """A decision to do nothing about a workload that cannot be judged at all; None: it is not in the cluster."""
    current = workload.replicas if workload else 0
    return Decision(
        id=_decision_id(policy, ref, at),
        at=at,
        policy=policy.name,
        workload=ref,
        mode=policy.mode,
        current=current,
        replicas=current,
        verdict="hold",
        reason=reason,
        message=message,
        uid=workload.uid if workload else "",
        conditions=(Condition("AbleToScale", False, reason, message),),
        interval=policy.interval,
    )


def _judge_bounds(case: Case, age: float) -> _Judgement | None:
    """Judge what needs no metrics: a view too old to act on, a person's pause, a count outside the policy's bounds.
    None: none of these holds. HPA: one pass, step 3, branches a to c."""
    observation, bounds = case.observation, case.policy.replicas
    current = observation.workload.replicas
    if age > VIEW_AGE:
        most = f", at most {VIEW_AGE:g} s" if observation.confirmed else ""
        message = f"{last_heard(observation.at, observation.confirmed)}{most}"
        return _hold(current, "AbleToScale", "StaleCluster", message)
    jobs = case.policy.job is not None
    if jobs and current >= bounds.min:  # Jobs beyond max end by themselves
        return None
    if not jobs and (why := paused(observation.workload, bounds, case.past)):
        return _hold(current, "ScalingActive", *why)
    final = within(current, bounds)
    if final == current:
        return None
    return _approach_bound(case, final)


def _approach_bound(case: Case, final: int) -> _Judgement:
    """Go to the nearest of the policy's bounds, or on the way to it as far as the count may go now."""
    current, bounds = case.observation.workload.replicas, case.policy.replicas
    side = "above max" if current > bounds.max else "below min"
    limit, ramp = bounds_limit(bounds, current), ramp_limit(case, final)
    message = f"{current} replicas are {side} = {final}"
    if ramp is None:
        return _Judgement("scale", final, limit.reason, message, limits=(limit,))
    message, reached = f"{message}; {ramp.message}", ramp.clamp(final)
    if reached != current:
        return _Judgement("scale", reached, limit.reason, message, limits=(ramp, limit))
    return replace(_hold(current, "AbleToScale", ramp.reason, message), limits=(ramp, limit))


def _restrain_jobs(case: Case, job_set: JobSet, judgement: _Judgement) -> _Judgement:
    """Hold where fewer Jobs are wanted: Jobs are created, and never ended to become fewer, as with KEDA. Hold for a
    while where more are wanted and the last ones failed."""
    workload, at = case.observation.workload, case.observation.at
    current, failures = workload.replicas, failing(job_set, workload)
    if judgement.replicas < current:
        message = f"{current} Jobs are in flight, and run to their end"
        floor = Limit("JobsRunOn", message, lowest=current, name="jobs", bound=True)
        return _hold_by(floor, judgement, current, (*judgement.limits, floor))
    limit = failing_limit(failures, current, at) if failures and judgement.replicas > current else None
    if limit is None:
        return judgement
    able = Condition("AbleToScale", False, limit.reason, limit.message)
    others = tuple(condition for condition in judgement.conditions if condition.type != "AbleToScale")
    return replace(_hold_by(limit, judgement, current, (*judgement.limits, limit)), conditions=(able, *others))


def _judge_by_strategies(case: Case) -> _Judgement:
    """Follow the recommendation that counts, within everything that restrains it. HPA: one pass, steps 4 to 6."""
    current = case.observation.workload.replicas
    reason, message = case.observation.fault
    if reason:
        return _hold(current, "ScalingActive", reason, message)
    answers = case.ask("recommend_replicas")
    how, at, priorities = case.policy.combine, case.observation.at, case.hooks.priorities
    opinions = answers.given
    if priorities:
        opinions = tuple([replace(opinion, priority=priorities.get(opinion.strategy, 0)) for opinion in opinions])
    if answers.failures and any(failure.plugin not in case.off for failure in answers.failures):
        judgement = _hold_for_failures(case, "ScalingActive", answers.failures)
        return replace(judgement, recommendations=opinions)
    best = choose(how, opinions, at)
    doubt = _find_doubt(case, unknown(how, opinions, best, at), answers.failures)
    if best is None or best.replicas is None or (doubt and best.replicas < current):
        judgement = _judge_without_knowledge(case, doubt)
    else:
        judgement = _apply_limits(case, best, best.replicas, doubt)
    return replace(judgement, recommendations=opinions, failures=answers.failures + judgement.failures)


def _apply_vetoes(case: Case, judgement: _Judgement) -> _Judgement:
    """Hold where somebody has frozen the workload or scales it too. The wish of the strategies is kept, so that it is
    shown and stabilization windows remember it."""
    standing = vetoes(case.policy, case.observation, case.past, judgement.replicas)
    if not standing or judgement.reason == "StaleCluster":
        return judgement
    current = case.observation.workload.replicas
    if judgement.wish == current:  # no change is wished for, which is no wish for what a move has added
        judgement = replace(judgement, wish=own_count(case.observation.workload))
    limits = [
        replace(veto.limit, bound=veto.limit.clamp(judgement.replicas) != judgement.replicas) for veto in standing
    ]
    trouble = next((veto.limit for veto in standing if veto.trouble), None)
    cause = trouble or next((limit for limit in limits if limit.bound), None)
    if cause is None:
        return replace(judgement, limits=(*judgement.limits, *limits))
    able = Condition("AbleToScale", trouble is None, cause.reason, cause.message)
    others = tuple(condition for condition in judgement.conditions if condition.type != "AbleToScale")
    unbound = (replace(limit, bound=False) for limit in judgement.limits)
    return replace(_hold_by(cause, judgement, current, (*unbound, *limits)), conditions=(able, *others))


def _hold_by(cause: Limit, judgement: _Judgement, current: int, limits: tuple[Limit, ...]) -> _Judgement:
    reason, message = cause.reason, cause.message
    return replace(judgement, verdict="hold", replicas=current, reason=reason, message=message, limits=limits)


def _find_doubt(case: Case, silent: Recommendation | None, failures: Sequence[Failure]) -> Recommendation | None:
    """Why the count may not fall: a strategy or series is not known, or a strategy is off. None: it may."""
    doubts = [] if silent is None else [silent]
    for series in case.observation.series.values():
        if not series.may_raise or series.trusted:
            continue
        doubts.append(Recommendation(None, "NotTrusted", f"{series.name} is {series.quality.value}: {series.message}"))
    if failures and not doubts:
        doubts = [Recommendation(None, "SwitchedOff", f"{failure.plugin} {failure.message}") for failure in failures]
    return min(doubts, key=preference) if doubts else None


def _choose_victims(case: Case, judgement: _Judgement) -> tuple[_Judgement, tuple[Mark, ...]]:
    """Mark the pods that go first where the count falls; remove old marks once no pod is to spare."""
    observation = case.observation
    spare = observation.workload.replicas - judgement.replicas
    if judgement.verdict != "scale" or spare <= 0:
        return judgement, leftover(observation.workload, observation.pods)
    answers = case.ask("rank_pods", replicas=judgement.replicas)
    if answers.failures:  # the count would fall by the wrong pods
        return replace(_hold_for_failures(case, "AbleToScale", answers.failures), wish=judgement.wish), ()
    priorities = case.hooks.priorities
    ranks = dict(sorted(answers.values, key=lambda pair: (-priorities.get(pair[0], 0), pair[0])))
    workload, pods = observation.workload, observation.pods
    victims = chosen(workload, pods, ranks, spare + going(workload, pods))
    return judgement, choice(workload.ref, case.policy.name, victims, pods, ranks)


def _judge_without_knowledge(case: Case, doubt: Recommendation | None) -> _Judgement:
    """Judge while it is not known what is needed: hold, or go to the count that the policy names for that, within all
    limits as any wish. Only a ceiling lowers the count, or a fallback that is set to."""
    current, trust = case.observation.workload.replicas, case.policy.trust
    if doubt is None:
        if case.hooks.implements("recommend_resources") and not case.hooks.implements("recommend_replicas"):
            return _Judgement("keep", current, "CountLeftAlone", "no strategy of the policy is about the count")
        return _hold(current, "ScalingActive", "NoRecommendation", "no strategy has an opinion")
    holding = replace(_hold(current, "ScalingActive", doubt.reason, doubt.message), blind=True)
    since = case.past.blind_since
    blind = 0.0 if since is None else case.observation.at - since
    if trust.replicas is None or blind < trust.after:
        return holding
    wish = trust.instead(current)
    if wish == current:
        return holding
    why = Recommendation(wish, trust.unknown.capitalize(), f"{doubt.reason}: {doubt.message}")
    judgement = _apply_limits(case, why, wish, None)
    if judgement.replicas < current and not trust.lowers:  # the HPA's windows of 1.20 can go below the current count
        return holding
    # It is still not known, and whoever reads the conditions must see it.
    conditions = tuple(
        holding.conditions[0] if condition.type == "ScalingActive" else condition for condition in judgement.conditions
    )
    return replace(judgement, conditions=conditions, blind=True)


def _apply_limits(case: Case, best: Recommendation, wish: int, doubt: Recommendation | None) -> _Judgement:
    """Restrain a wish by all limits and bounds. Hold where a limit fails, even one switched off, as it might have
    forbidden any change; where limits contradict each other; and where the count would fall in doubt."""
    current = case.observation.workload.replicas
    answers = case.ask("limit", wish=wish)
    limits = answers.given
    if answers.failures:
        return replace(_hold_for_failures(case, "AbleToScale", answers.failures), wish=wish)
    asked = wish
    for limit in limits:
        asked = limit.clamp(asked) if limit.of_wish else asked
    if (falls := fall_limit(case, asked)) is not None:
        limits = (*limits, falls)
    combined = restrained(wish, limits, case.policy.replicas, current)
    if isinstance(combined, str):
        return replace(_hold(current, "AbleToScale", "LimitsContradict", combined), wish=wish, limits=limits)
    if doubt and combined.replicas < current:
        holding = _hold(current, "ScalingActive", doubt.reason, doubt.message)
        return replace(holding, wish=wish, limits=combined.limits)
    why: Recommendation | Limit = best
    binding, way = combined.binding, (combined.replicas - current) * (wish - current)
    if binding and (binding.takes_back or way <= 0):  # not because of the recommendation, or in the other direction
        why = binding
    verdict: Verdict = "scale" if combined.replicas != current else "keep" if wish == current else "hold"
    return _Judgement(
        verdict,
        combined.replicas,
        why.reason,
        why.message,
        wish,
        limits=combined.limits,
        conditions=combined.conditions,
    )


def _hold(current: int, condition: ConditionType, reason: str, message: str) -> _Judgement:
    """Unknown is never zero: hold, and say what is missing. HPA: one pass, step 5."""
    return _Judgement("hold", current, reason, message, conditions=(Condition(condition, False, reason, message),))


def _hold_for_failures(case: Case, condition: ConditionType, failures: tuple[Failure, ...]) -> _Judgement:
    first = min(failures, key=lambda failure: (failure.plugin in case.off, failure.plugin, failure.message))
    message = f"{first.plugin}: {first.hook} {first.message}"
    holding = _hold(case.observation.workload.replicas, condition, "PluginFailed", message)
    return replace(holding, failures=failures)


def _ask_interval(case: Case) -> tuple[float, str, tuple[Failure, ...]]:
    """The shortest interval in seconds, and who asked for it. A failure here is recorded, and holds nothing."""
    answers = case.ask("poll_interval")
    if not answers.given:
        return case.policy.interval, "policy", answers.failures
    if len(answers.given) == 1:
        return answers.given[0], answers.names[0], answers.failures
    return (*min(zip(answers.given, answers.names, strict=True)), answers.failures)


def condition_after(answer: Answer) -> Condition | None:
    """What the HPA would report after this answer to a scale; None: nothing was tried. HPA: one pass, step 7."""
    if answer.result == "observed":
        return None
    succeeded = answer.result == "done"
    return Condition("AbleToScale", succeeded, "SucceededRescale" if succeeded else "FailedUpdateScale", answer.message)


def announcements(decision: Decision, previous: Decision | None) -> tuple[Announce, ...]:
    """What to announce at the workload, once for each reason: that it began to be held for lack of knowledge, and that
    its pods are left to somebody else who resizes them."""
    if not decision.uid:
        return ()
    told = []
    if _begins_to_hold(decision, previous):
        told.append((decision.reason, decision.message))
    if decision.sizing.foreign and not (previous and previous.sizing.foreign):
        told.append((FOREIGN_OWNER, decision.sizing.foreign))
    return tuple([Announce(decision.workload, decision.uid, *each, warning=True) for each in told])


def _begins_to_hold(decision: Decision, previous: Decision | None) -> bool:
    if decision.verdict != "hold":
        return False
    trouble = any(not condition.status for condition in decision.conditions if condition.type != "ScalingLimited")
    same = previous is not None and (previous.verdict, previous.reason) == (decision.verdict, decision.reason)
    return trouble and not same
