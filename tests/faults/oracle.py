"""What must hold whatever went wrong, told from outside: the API server's own log, the pods, and what was sent to it.

Knows the invariants; knows nothing of elasticd's code.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from math import isclose
from statistics import median
from typing import NamedTuple

from tests.kit.lateness import Late
from tests.kube.client import JSON

SLACK = 3.0
"""Seconds by which a daemon may act on what it saw before."""


class Eviction(NamedTuple):
    """A pod that was evicted, by the API server's log."""

    pod: str
    at: float


def evictions(audit: Iterable[JSON], user: str, namespace: str) -> list[Eviction]:
    """The evictions that were carried out for a user, in order."""
    done = [
        Eviction(entry["objectRef"]["name"], datetime.fromisoformat(entry["requestReceivedTimestamp"]).timestamp())
        for entry in audit
        if entry["user"]["username"] == user
        and entry.get("objectRef", {}).get("namespace") == namespace
        and entry["objectRef"].get("subresource") == "eviction"
        and entry["responseStatus"]["code"] < 300
        and "dryRun" not in entry["requestURI"]
    ]
    return sorted(done, key=lambda one: one.at)


def over_budget(done: Sequence[Eviction], within: float, most: int) -> list[str]:
    """I3: no more evictions than allowed in any time of this length."""
    pairs = zip(done, done[most:], strict=False)
    spans = [(first, last, last.at - first.at) for first, last in pairs if last.at - first.at < within - 0.5]
    return [f"{most + 1} evictions in {took:.1f} s, from {first.pod} to {last.pod}" for first, last, took in spans]


class Stay(NamedTuple):
    """From when on a pod of this name was seen on a node."""

    at: float
    node: str


Cordons = Mapping[str, Sequence[tuple[float, float]]]
"""When each node was cordoned: begin and end."""


def uncalled_for(
    done: Sequence[Eviction], stays: Mapping[str, Sequence[Stay]], cordons: Cordons, blind: float = 0.0
) -> list[str]:
    """I11: only pods on a cordoned node are moved. `blind`: seconds for which watches told a daemon nothing, or late,
    and it could not know."""
    found = []
    for eviction in done:
        seen = stays.get(eviction.pod, ())
        node = seen[position - 1].node if (position := bisect_right(seen, (eviction.at,))) else ""
        spans = cordons.get(node, ())
        if not any(begin - 0.1 <= eviction.at <= end + SLACK + blind for begin, end in spans):
            found.append(f"{eviction.pod} was evicted from {node or 'a node where it was not seen'}, not cordoned then")
    return found


def unconditional(written: Iterable[tuple[str, str, JSON]]) -> list[str]:
    """I4: each eviction names the pod's uid, and each count the version that it is for."""
    found = []
    for method, path, body in written:
        if path.endswith("/eviction") and not ((body.get("deleteOptions") or {}).get("preconditions") or {}).get("uid"):
            found.append(f"{method} {path} names no uid")
        if path.endswith("/scale") and not body.get("metadata", {}).get("resourceVersion"):
            found.append(f"{method} {path} names no version")
    return found


def evicted_uids(written: Iterable[tuple[str, str, JSON]]) -> Iterator[tuple[str, str]]:
    """The name and the uid of each pod whose eviction was sent, as often as it was."""
    for _, path, body in written:
        if path.endswith("/eviction"):
            preconditions = (body.get("deleteOptions") or {}).get("preconditions") or {}
            yield path.split("/")[-2], preconditions.get("uid", "")


def repeated(done: Iterable[Eviction], uids: Mapping[str, Collection[str]]) -> list[str]:
    """I5: no eviction is carried out twice, whatever became of the answer to the first; `uids`: of the pods of each
    name, those for which one was sent."""
    counts = Counter(one.pod for one in done)
    return [
        f"{name} was evicted {count} times, and was {len(uids.get(name, ()))} pods"
        for name, count in counts.items()
        if count > len(uids.get(name, ()))
    ]


def out_of_bounds(written: Iterable[tuple[str, str, JSON]], least: int, most: int) -> list[str]:
    """I3: no count is written that is outside of the policy's bounds."""
    counts = [(path, body["spec"]["replicas"]) for _, path, body in written if path.endswith("/scale")]
    return [f"{path} is set to {count}" for path, count in counts if not least <= count <= most]


def shrunk(counts: Sequence[tuple[float, int]], unknown: Iterable[tuple[float, float]]) -> list[str]:
    """I2: while the load is not known, no count falls, but by the one pod that a surge had added."""
    found = []
    for begin, end in unknown:
        during = [count for at, count in counts if begin <= at <= end]
        if during and min(during) < during[0] - 1:
            found.append(f"while its load was not known, a count went from {during[0]} to {min(during)}")
    return found


def too_old(decisions: Iterable[JSON], limits: Mapping[str, float], proven: float) -> list[str]:
    """I6, as the journal tells it: no decision has a sample that is older than its policy allows (`limits`: seconds by
    the policy's name), and none changes anything by what the cluster last proved longer ago than `proven` seconds."""
    found = []
    for decision in decisions:
        at, policy, name = decision["at"], decision["policy"], decision["workload"]["name"]
        for series in decision.get("series", ()):
            samples = [*series.get("samples", ()), *series.get("apart", ())]
            age = max((at - measured for _, measured, *_ in samples), default=0.0)
            if age > limits[policy]:
                found.append(
                    f"{name} was decided by {series['name']} of {age:.1f} s before; {limits[policy]:g} are allowed"
                )
        acts, confirmed = decision.get("action") or decision.get("marks"), decision.get("confirmed")
        if acts and confirmed is not None and at - confirmed > proven:
            found.append(f"{name} was changed by what the cluster proved {at - confirmed:.1f} s before")
    return found


def untrue(
    decisions: Iterable[JSON], series: str, told: Sequence[tuple[float, float]], limit: float, slack: float = 1.0
) -> list[str]:
    """I6, as it was: each value by which was decided is one that the server was told no longer ago than the limit,
    whatever age it was given. `told`: what it was told, and when. A daemon that had no processor between the time of a
    decision and its sources has what came meanwhile, so a sample may be newer than its decision."""
    found, times = [], [at for at, _ in told]
    for decision in decisions:
        at = decision["at"]
        by = [one for one in decision.get("series", ()) if one["name"] == series]
        for value, measured, *_ in (sample for one in by for sample in one.get("samples", ())):
            first, last = bisect_right(times, at - limit - slack), bisect_right(times, max(at, measured) + slack)
            if not any(isclose(value, known) for _, known in told[first:last]):
                name = decision["workload"]["name"]
                found.append(f"{name} was decided by {series} = {value:g}, which was not so for {limit:g} s")
    return found


class Window(NamedTuple):
    """A time in which others misbehaved, or did not."""

    begin: float
    end: float
    disturbed: bool


def delayed(late: Sequence[Late], windows: Sequence[Window], most: float = 0.1) -> list[str]:
    """I8: decisions that others disturb come no more than so many seconds later than those that nobody does.

    What a busy machine does to a decision now and then it does in any window, so the worst decisions of many windows
    of both kinds are compared, by their medians; and `late` leaves out for how long the daemon had no processor."""
    worst: dict[bool, list[float]] = {True: [], False: []}
    for window in windows:
        within = [one.seconds for one in late if window.begin <= one.due < window.end]
        worst[window.disturbed] += [max(within)] if within else []
    if not all(worst.values()):
        return ["nothing was decided"]
    disturbed, others = median(worst[True]), median(worst[False])
    if disturbed - others <= most:
        return []
    return [f"decisions that others disturb come {disturbed:.3f} s late, without {others:.3f} s"]


class Turn(NamedTuple):
    """From when on there was one pod for which others may be preempted, and the daemons that led until the next: each
    begins to count its victims anew."""

    begin: float
    leaders: Collection[str]


def preempted(done: Iterable[Eviction], turns: Sequence[Turn], most: int) -> list[str]:
    """Preemption: pods `low-` go, of those of higher or equal priority (`high-`, `peer`) none, and no more than allowed
    for each pod."""
    found, victims = list[str](), Counter[int]()
    for eviction in done:
        if eviction.pod.partition("-")[0] in ("high", "peer"):
            found.append(f"{eviction.pod} was preempted for a pod of its own priority")
        if eviction.pod.startswith("low-"):
            victims[bisect_right([turn.begin for turn in turns], eviction.at)] += 1
    for number, count in victims.items():
        leaders = len(turns[number - 1].leaders) if number else 0
        if count > most * max(1, leaders):
            found.append(f"{count} pods were preempted for one, by {leaders} leaders; {most} are allowed")
    return found


def cores(quantity: str) -> float:
    """A quantity of CPU."""
    return float(quantity[:-1]) / 1000 if quantity.endswith("m") else float(quantity)


def resized_beyond(written: Iterable[tuple[str, str, JSON]], least: float, most: float) -> list[str]:
    """Resizes: each names the pod's uid and version, and requests cores within the policy's bounds."""
    found = []
    for _, path, body in written:
        if path.endswith("/resize"):
            if not {"uid", "resourceVersion"} <= body["metadata"].keys():
                found.append(f"{path} names no uid or no version")
            requests = [one["resources"]["requests"]["cpu"] for one in body["spec"]["containers"]]
            found += [f"{path} requests {one}" for one in requests if not least <= cores(one) <= most]
    return found


def lost(names: Iterable[str], pods: Iterable[str], records: Iterable[str]) -> list[str]:
    """I1: of each pod there is the pod, or a record to make it again from."""
    there = {*pods, *records}
    return [f"neither {name} nor a record of it is there" for name in names if name not in there]


def changed(before: JSON, after: JSON, ours: Iterable[str]) -> list[str]:
    """I1: a copy is as the pod was, but for its node and the annotations that are elasticd's."""
    name = before["metadata"]["name"]
    found = []
    for key in ("labels", "annotations"):
        was, now = (one["metadata"].get(key, {}) for one in (before, after))
        if was != {label: value for label, value in now.items() if label not in ours}:
            found.append(f"{name} has other {key}: {now}")
    specs = [{key: value for key, value in one["spec"].items() if key != "nodeName"} for one in (before, after)]
    return found + ([f"{name} has another spec"] if specs[0] != specs[1] else [])


def leaked(secret: str, texts: Mapping[str, str]) -> list[str]:
    """I10: no credentials in what is written down."""
    return [f"{name} has the daemon's token" for name, text in texts.items() if secret in text]
