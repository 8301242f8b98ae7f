"""Evictions that the network may deliver late: before another pod of the controller goes, they are made void."""

import asyncio
import math
from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.base.clock import VirtualClock
from elasticd.base.tasks import cancel
from elasticd.cluster.kubernetes.session import Session
from elasticd.cluster.kubernetes.watch.store import PodStore
from elasticd.cluster.kubernetes.write.answers import NOT_LEADING
from elasticd.cluster.kubernetes.write.budget import Budget
from elasticd.cluster.kubernetes.write.late_evictions import LATE
from elasticd.cluster.kubernetes.write.pods import PodWriter
from elasticd.model.actions import OUTDATED, Answer, Evict
from elasticd.model.workload import Pod, Ref
from tests.cluster.kubernetes.fake import FakeApi, HurriedClock, Say, hang, page, status, until
from tests.cluster.kubernetes.writing import late_evictions, pod_writer

PODS, SETS = "/api/v1/namespaces/shop/pods", "/apis/apps/v1/namespaces/shop/replicasets"
OWNER = ("ReplicaSet", "web", "r")
DONE = {"kind": "Status", "status": "Success"}
LOST = status(504, "Timeout", "slow")
EVICT = Evict(Ref("shop", "Pod", "a", "v1"), "a", "n1", "moves: Drain", owner="r")


def pods(*names: str, **changes: Any) -> list[Pod]:
    """Pods of the ReplicaSet, whose UIDs are their names."""
    pod = Pod("shop", "", "", "Running", node="n1", labels={"app": "web"}, owner=OWNER, ready=True)
    return [replace(pod, name=name, uid=name, **changes) for name in names]


def writer(
    api: FakeApi,
    session: Session,
    clock: HurriedClock,
    *known: Pod,
    store: PodStore | None = None,
    abandoned: float = -math.inf,
    budget: Budget | None = None,
    judged: float = 1000.0,  # hurried seconds
) -> PodWriter:
    """One that finds pods a and b of a ReplicaSet that stays."""
    store = PodStore() if store is None else store
    for pod in known:
        store.put(pod, listed=True)
    resource = {"name": "pods/eviction", "kind": "Eviction", "group": "policy", "version": "v1"}
    api.on("GET", "/api/v1", {"resources": [{"name": "pods", "kind": "Pod"}, resource]})
    spec = {"selector": {"matchLabels": {"app": "web"}}}
    api.on("GET", SETS, page({"metadata": {"name": "web", "uid": "r"}, "spec": spec}))
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r", "controller": True}
    for name in "ab":
        meta = {"name": name, "uid": name, "resourceVersion": "7", "labels": {"app": "web"}}
        found = {"metadata": {**meta, "ownerReferences": [reference]}, "spec": {"nodeName": "n1"}}
        api.on("GET", f"{PODS}/{name}", found)
        api.on("POST", f"{PODS}/{name}/eviction", DONE)
    for name in "abcd":
        api.on("PATCH", f"{PODS}/{name}/status", {"metadata": {"name": name, "uid": name}})
    late = late_evictions(session, clock, store, abandoned, budget)
    return pod_writer(session, clock, budget, judged, late)


def granted() -> None:
    """It may be written."""


def changed(api: FakeApi) -> list[str]:
    """The pods that were changed, in order."""
    return [name for seen in api.seen if seen.method == "PATCH" for name in [seen.path.split("/")[-2]]]


VIOLATES = status(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.")
OTHER = replace(EVICT, workload=Ref("shop", "Pod", "b", "v1"), uid="b")


@pytest.mark.parametrize(
    ("answer", "sent"),
    [
        pytest.param(status(503, "Down", "down"), 0, id="it fails"),
        pytest.param(status(429, "TooManyRequests", "later"), 0, id="it is to come later"),
        pytest.param(status(401, "Unauthorized", "expired"), 0, id="the token has expired"),
        pytest.param(status(403, "Forbidden", "may not"), 1, id="no right: nothing could settle it"),
        pytest.param(status(403, "Forbidden", 'admission webhook "w" denied it'), 1, id="nor where a webhook forbids"),
        pytest.param(status(400, "BadRequest", 'admission webhook "w" denied it'), 1, id="or refuses"),
        pytest.param(status(422, "Invalid", "metadata.annotations: Too long"), 1, id="annotations that are full"),
    ],
)
async def test_no_other_goes_before_a_refused_pod_is_changed(
    api: FakeApi, session: Session, clock: HurriedClock, answer: Say, sent: int
) -> None:
    evictor = writer(api, session, clock, *pods("a", "b"))
    api.on("POST", f"{PODS}/a/eviction", VIOLATES)
    api.on("PATCH", f"{PODS}/a/status", answer)
    refused = await evictor.evict(EVICT, granted)
    # What failed may have been done, and counts in all budgets.
    assert refused.result == ("refused" if sent else "failed")
    assert (refused.reason == "Budget") == bool(sent)
    assert ("and it may go later: " in refused.message) == (not sent)
    await evictor.evict(OTHER, granted)
    assert len(api.asked("POST", f"{PODS}/b/eviction")) == sent


async def test_no_other_goes_after_an_end_before_that_change(
    api: FakeApi, session: Session, clock: HurriedClock
) -> None:
    evictor = writer(api, session, clock, *pods("a", "b"))
    api.on("POST", f"{PODS}/a/eviction", VIOLATES)
    api.on("PATCH", f"{PODS}/a/status", hang, {"metadata": {"name": "a", "uid": "a"}})
    evicting = asyncio.create_task(evictor.evict(EVICT, granted))
    await until(lambda: changed(api) == ["a"])
    await cancel(evicting)
    assert (await evictor.evict(OTHER, granted)).reason == OUTDATED
    assert (changed(api), api.asked("POST", f"{PODS}/b/eviction")) == (["a", "a"], [])


async def test_a_successor_first_changes_the_others_of_a_controller(
    api: FakeApi, session: Session, clock: HurriedClock
) -> None:
    strangers = [*pods("d", owner=("ReplicaSet", "other", "o")), *pods("e", deleted=True)]
    evictor = writer(api, session, clock, *pods("a", "b", "c"), *strangers, abandoned=clock.now())
    answer = await evictor.evict(EVICT, granted)
    assert (answer.result, answer.reason) == ("refused", "Outdated")
    assert (changed(api), api.asked("POST", f"{PODS}/a/eviction")) == (["b", "c"], [])
    assert (await evictor.evict(EVICT, granted)).result == "done"
    assert changed(api) == ["b", "c"]


async def test_a_trial_changes_the_others_too(api: FakeApi, session: Session, clock: HurriedClock) -> None:
    """Or a first victim would be preempted, and only then be found that the second must wait."""
    evictor = writer(api, session, clock, *pods("a", "b", "c"), abandoned=clock.now())
    assert (await evictor.evict(EVICT, granted, dry_run=True)).reason == "Outdated"
    assert (await evictor.evict(EVICT, granted, dry_run=True)).result == "done"
    assert changed(api) == ["b", "c"]


async def test_pods_that_are_newer_or_gone_are_not_changed(api: FakeApi, session: Session, clock: HurriedClock) -> None:
    store = PodStore()
    evictor = writer(api, session, clock, *pods("a", "b", "c"), store=store, abandoned=clock.now())
    assert (await evictor.evict(EVICT, granted)).reason == "Outdated"
    assert (await evictor.evict(EVICT, granted)).result == "done"
    store.assume(EVICT.workload, "a", deleted=True)
    for pod in pods("d"):
        store.put(pod, listed=True)
    other = replace(EVICT, workload=Ref("shop", "Pod", "b", "v1"), uid="b")
    assert (await evictor.evict(other, granted)).result == "done"
    assert changed(api) == ["b", "c"]


@pytest.mark.parametrize("ago", [LATE + 1, math.inf], ids=["long ago", "never"])
async def test_without_such_a_predecessor_nothing_is_changed(
    api: FakeApi, session: Session, clock: HurriedClock, ago: float
) -> None:
    evictor = writer(api, session, clock, *pods("a", "b"), abandoned=clock.now() - ago)
    assert (await evictor.evict(EVICT, granted)).result == "done"
    assert changed(api) == []


@pytest.mark.parametrize(
    ("first", "then", "goes"),
    [
        pytest.param(status(404, "NotFound", "gone"), None, True, id="it is gone"),
        pytest.param(status(409, "Conflict", "another"), None, True, id="another has its name"),
        pytest.param(status(403, "Forbidden", "no"), status(403, "Forbidden", "no"), False, id="it cannot be changed"),
        pytest.param(status(403, "Forbidden", "no"), {"metadata": {"name": "a", "uid": "a"}}, False, id="only later"),
    ],
)
async def test_no_other_goes_while_an_unanswered_eviction_may_come(
    api: FakeApi, session: Session, clock: HurriedClock, first: Any, then: Any, goes: bool
) -> None:
    evictor = writer(api, session, clock, *pods("a", "b"))
    api.on("POST", f"{PODS}/a/eviction", LOST)
    api.on("PATCH", f"{PODS}/a/status", first, *([then] if then else []))
    answer = await evictor.evict(EVICT, granted)
    assert ("it may go later" in answer.message) is not goes
    other = replace(EVICT, workload=Ref("shop", "Pod", "b", "v1"), uid="b")
    answer = await evictor.evict(other, granted)
    assert (answer.result == "done") is goes
    assert (api.asked("POST", f"{PODS}/b/eviction") == []) is not goes
    if answer.reason == "Outdated":
        assert (await evictor.evict(other, granted)).result == "done"


async def test_an_eviction_of_its_time_as_leader_is_settled_later(
    api: FakeApi, session: Session, clock: HurriedClock
) -> None:
    """While another leads it may not change the pod."""
    evictor = writer(api, session, clock, *pods("a", "b"))
    api.on("POST", f"{PODS}/a/eviction", LOST)

    def leads_no_more() -> Answer | None:
        return NOT_LEADING if api.asked("POST", f"{PODS}/a/eviction") else None

    assert (await evictor.evict(EVICT, leads_no_more)).result == "failed"
    assert changed(api) == []
    other = replace(EVICT, workload=Ref("shop", "Pod", "b", "v1"), uid="b")
    assert (await evictor.evict(other, granted)).reason == "Outdated"
    assert changed(api) == ["a"]


async def test_an_eviction_is_expected_while_linux_may_send_it(session: Session) -> None:
    clock, store = VirtualClock(0.0), PodStore()
    for pod in pods("a", "b"):
        store.put(pod, listed=True)
    late = late_evictions(session, clock, store)
    assert not late.expects_any()
    late.note(replace(EVICT, restore=True), "")
    assert not late.expects_any(), "its record tells of it"
    late.note(EVICT, "r")
    await clock.sleep_until(LATE - 1)
    assert late.expects_any()
    store.assume(EVICT.workload, "a", deleted=True)
    assert not late.expects_any(), "it is gone"
    late.note(replace(EVICT, workload=Ref("shop", "Pod", "b", "v1"), uid="b"), "r")
    assert late.expects_any()
    await clock.sleep_until(2 * LATE)
    assert not late.expects_any()


@pytest.mark.parametrize(("ago", "expected"), [(LATE - 1, True), (LATE + 1, False), (math.inf, False)])
async def test_what_a_predecessor_may_have_sent_is_expected_too(session: Session, ago: float, expected: bool) -> None:
    assert late_evictions(session, VirtualClock(0.0), abandoned=-ago).expects_any() is expected


async def test_pods_that_have_ended_need_no_change(api: FakeApi, session: Session, clock: HurriedClock) -> None:
    """As of a Job with many completions: to end has changed them."""
    ended = [*pods("b", phase="Succeeded"), *pods("c", phase="Failed")]
    evictor = writer(api, session, clock, *pods("a", "d"), *ended, abandoned=clock.now())
    assert (await evictor.evict(EVICT, granted)).reason == "Outdated"
    assert changed(api) == ["d"]


async def test_others_are_changed_for_seconds_at_a_time(api: FakeApi, session: Session, clock: HurriedClock) -> None:
    """So that another action has its turn."""
    names, budget = [f"p{number}" for number in range(20)], Budget(clock, 1, 1)
    evictor = writer(api, session, clock, *pods("a", *names), abandoned=clock.now(), budget=budget)
    for name in names:
        api.on("PATCH", f"{PODS}/{name}/status", {"metadata": {"name": name, "uid": name}})
    assert (await evictor.evict(EVICT, granted)).reason == "Outdated"
    assert 2 <= len(changed(api)) <= 8, "one a second"


async def test_slow_writes_let_moves_go_on(api: FakeApi, session: Session, clock: HurriedClock) -> None:
    """Of several that leave, one changes the others, each of them once, and what is changed stays so."""
    names, budget = "abcdefgh", Budget(clock, 1, 1)
    evictor = writer(api, session, clock, *pods(*names), abandoned=clock.now(), budget=budget, judged=2.0)
    for name in names:
        api.on("PATCH", f"{PODS}/{name}/status", {"metadata": {"name": name, "uid": name}})
    leaving = [replace(EVICT, workload=Ref("shop", "Pod", name, "v1"), uid=name) for name in "ab"]
    done, looks = list[Answer](), 0
    while not done:
        answers = await asyncio.gather(*(evictor.evict(each, granted) for each in leaving))
        done, looks = [answer for answer in answers if answer.result == "done"], looks + 1
        assert looks < 2 * len(names), answers
    assert max(Counter(changed(api)).values()) == 1
