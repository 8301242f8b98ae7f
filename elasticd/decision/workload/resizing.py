"""What containers should request, and which pods are changed for it now.

Pure. Knows what goes before a change of requests, and that a workload at a standstill is left alone; knows nothing of
where a recommendation comes from.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from elasticd.decision.workload.asking import Case
from elasticd.decision.workload.vetoes import vetoes
from elasticd.kit.history import NO_RESIZE
from elasticd.kit.sizes import unfit
from elasticd.model.actions import Resize
from elasticd.model.records import Sizing
from elasticd.model.resources import Resizing, Resources, Sizes
from elasticd.model.workload import Failure, Pod, Ref

AGAIN = 3600.0
"""Seconds after which a cluster that cannot change requests in place is asked again: it may have been renewed."""


NO_SIZING: tuple[Sizing, tuple[Failure, ...]] = (Sizing(), ())
"""Nothing is asked for, and nobody failed."""


def size(case: Case, *, busy: bool) -> tuple[Sizing, tuple[Failure, ...]]:
    """Ask what should be requested, and change it where nothing is in the way: not while the count or marks change."""
    if not case.hooks.implements("recommend_resources"):
        return NO_SIZING
    said = case.ask("recommend_resources")
    wanted = largest([one for value in said.given for one in value])
    general = tuple(one for one in wanted if not one.pod)
    resizing = tuple(Resizing(pod.name, pod.resize, pod.resize_message) for pod in case.observation.pods if pod.resize)
    if said.failures:
        return Sizing(general, unresized="a plugin failed", resizing=resizing), said.failures
    resizes, told = actions(case.observation.workload.ref, case.observation.pods, wanted)
    if resizes and (why := _in_the_way(case, busy=busy)):
        return Sizing(general, unresized=why, resizing=resizing), ()
    return Sizing(general, resizes, "; ".join(told), resizing), ()


def largest(wanted: Sequence[Resources]) -> list[Resources]:
    """One opinion for each pod and container: of each resource the largest, with the words of the first by strategy."""
    found: dict[tuple[str, str], Resources] = {}
    for one in sorted(wanted, key=lambda each: (each.pod, each.container, each.strategy)):
        known = found.setdefault((one.pod, one.container), one)
        if known is not one:
            requests = {
                name: max(known.requests.get(name, 0.0), one.requests.get(name, 0.0))
                for name in known.requests | one.requests
            }
            found[one.pod, one.container] = replace(known, requests=requests, present={**one.present, **known.present})
    return list(found.values())


def actions(ref: Ref, pods: Sequence[Pod], wanted: Sequence[Resources]) -> tuple[tuple[Resize, ...], list[str]]:
    """A change for each pod that is named and requests something else, and a line for each that cannot be changed."""
    by_name = {pod.name: pod for pod in pods}
    sizes: dict[str, Sizes] = {}
    reasons: dict[str, str] = {}
    for one in wanted:
        if one.pod in by_name:
            sizes.setdefault(one.pod, {})[one.container] = dict(one.requests)
            reasons.setdefault(one.pod, f"{one.reason}: {one.message}" if one.message else one.reason)
    found, told = [], []
    for name, after in sizes.items():
        pod = by_name[name]
        if why := unfit(pod, after):
            told.append(f"{name} {why}")
            continue
        before = _present(pod, after)
        if before != after:
            found.append(Resize(ref, pod.uid, name, before, after, reasons[name]))
    return tuple(found), told


def _present(pod: Pod, after: Sizes) -> Sizes:
    """What the pod requests of the same; what it does not request is left out."""
    return {
        one.name: {name: one.requests[name] for name in after[one.name] if name in one.requests}
        for one in pod.containers
        if one.name in after
    }


def _in_the_way(case: Case, *, busy: bool) -> str:
    """Why nothing is changed now, or an empty string."""
    seen = case.observation
    if busy:
        return "the count is changed first"
    since = case.past.recommends_since
    if since is not None and seen.at - since < AGAIN:
        return f"{NO_RESIZE}: recommended only, the cluster cannot change what a running pod requests"
    said = case.ask("limit", wish=seen.workload.replicas)
    if said.failures:
        return f"{said.failures[0].plugin}: {said.failures[0].hook} {said.failures[0].message}"
    limits = [*(veto.limit for veto in vetoes(case.policy, seen, case.past)), *said.given]
    still = sorted((one.reason, one.message) for one in limits if one.standstill)
    return f"{still[0][0]}: {still[0][1]}" if still else ""
