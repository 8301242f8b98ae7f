"""What containers should request, and which pods are changed for it now.

Pure. Knows what goes before a change of requests, and that a workload at a standstill, or whose pods somebody else
resizes, is left alone; knows nothing of where a recommendation comes from.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from elasticd.base.text import one_line
from elasticd.decision.workload.asking import Case
from elasticd.decision.workload.vetoes import vetoes
from elasticd.kit.history import NO_RESIZE
from elasticd.kit.requests import VPA_UPDATES, serving, unfit
from elasticd.model.actions import Resize
from elasticd.model.pod_spec import greatest
from elasticd.model.policy import Foreign
from elasticd.model.records import FOREIGN_OWNER, Sizing
from elasticd.model.workload import Failure, Observation, Pod, Ref, Resizing, Resources, Sizes

AGAIN = 3600.0
"""Seconds after which a cluster that cannot change requests in place is tried again: it may have been upgraded."""

NO_SIZING: tuple[Sizing, tuple[Failure, ...]] = (Sizing(), ())
"""No resizes, and no failures."""


def size(case: Case, *, busy: bool) -> tuple[Sizing, tuple[Failure, ...]]:
    """Ask what should be requested, and change it where nothing is in the way: not while the count or marks change."""
    if not case.hooks.implements("recommend_resources"):
        return NO_SIZING
    answers = case.ask("recommend_resources")
    recommended = largest([resources for value in answers.given for resources in value])
    general = tuple(resources for resources in recommended if not resources.pod)
    resizing = tuple(Resizing(pod.name, pod.resize, pod.resize_message) for pod in case.observation.pods if pod.resize)
    if answers.failures:
        return Sizing(general, unresized="a plugin failed", resizing=resizing), answers.failures
    resizes, problems = actions(case.observation.workload.ref, case.observation.pods, recommended)
    if resizes and (why := _why_not_now(case, busy=busy)):
        return Sizing(general, unresized=why, resizing=resizing), ()
    return Sizing(general, resizes, "; ".join(problems), resizing), ()


def largest(recommended: Sequence[Resources]) -> list[Resources]:
    """Merge by pod and container: the largest of each resource, with the reason of the first strategy."""
    by_container: dict[tuple[str, str], Resources] = {}
    for resources in sorted(recommended, key=lambda each: (each.pod, each.container, each.strategy)):
        first = by_container.setdefault((resources.pod, resources.container), resources)
        if first is not resources:
            requests, present = greatest((first.requests, resources.requests)), {**resources.present, **first.present}
            by_container[resources.pod, resources.container] = replace(first, requests=requests, present=present)
    return list(by_container.values())


def actions(ref: Ref, pods: Sequence[Pod], recommended: Sequence[Resources]) -> tuple[tuple[Resize, ...], list[str]]:
    """A resize for each named pod that requests something else, and a line for each that cannot be changed."""
    by_name = {pod.name: pod for pod in pods}
    sizes: dict[str, Sizes] = {}
    reasons: dict[str, str] = {}
    for resources in recommended:
        if resources.pod in by_name:
            sizes.setdefault(resources.pod, {})[resources.container] = dict(resources.requests)
            why = f"{resources.reason}: {resources.message}" if resources.message else resources.reason
            reasons.setdefault(resources.pod, why)
    resizes, problems = [], []
    for name, after in sizes.items():
        pod = by_name[name]
        if why := unfit(pod, after):
            problems.append(f"{name} {why}")
            continue
        before = _present_requests(pod, after)
        if before != after:
            resizes.append(Resize(ref, pod.uid, name, before, after, reasons[name]))
    return tuple(resizes), problems


def _present_requests(pod: Pod, after: Sizes) -> Sizes:
    """What the pod requests of the same resources; those that it does not request are left out."""
    return {
        container.name: {name: container.requests[name] for name in after[container.name] if name in container.requests}
        for container in pod.containers
        if container.name in after
    }


def _why_not_now(case: Case, *, busy: bool) -> str:
    observation = case.observation
    # First, as it is told once, also where the count changes again and again.
    if case.policy.mode == "act" and (other := find_other(case.policy.foreign, observation)):
        return f"{FOREIGN_OWNER}: {other}"
    if busy:
        return "the count is changed first"
    since = case.past.recommends_since
    if since is not None and observation.at - since < AGAIN:
        return f"{NO_RESIZE}: recommended only, the cluster cannot change what a running pod requests"
    answers = case.ask("limit", wish=observation.workload.replicas)
    if answers.failures:
        return f"{answers.failures[0].plugin}: {answers.failures[0].hook} {answers.failures[0].message}"
    limits = [*(veto.limit for veto in vetoes(case.policy, observation, case.past)), *answers.given]
    still = sorted((limit.reason, limit.message) for limit in limits if limit.standstill)
    return f"{still[0][0]}: {still[0][1]}" if still else ""


def find_other(foreign: Foreign, observation: Observation) -> str:
    """Who else says what the pods request, in a sentence; empty: nobody. A VerticalPodAutoscaler may evict a pod that
    requests something else, so elasticd yields to it for as long as there is a pod that it made requests for."""
    if foreign.autoscalers == "yield":
        alive = serving(observation.pods)
        for pod in (*alive.ready, *alive.starting):
            if VPA_UPDATES in pod.annotations:
                note = one_line(pod.annotations[VPA_UPDATES], 200)
                cure = "take that VerticalPodAutoscaler away and replace the pods, or let this policy only recommend"
                return f"{pod.name} is annotated {VPA_UPDATES}: {note}; {cure}"
    times = [(pod.resized.at, pod.name, pod.resized.by) for pod in observation.pods if pod.resized]
    at, name, by = max(times, default=(float("-inf"), "", ""))
    if not foreign.strikes or observation.at - at >= foreign.pause:
        return ""
    left = foreign.pause - (observation.at - at)
    return f"{by or 'somebody else'} resized {name}; requests are left alone for {left:.0f} s more"
