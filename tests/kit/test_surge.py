"""What comes next when a pod of a Deployment is moved by making another first: at every state that can be found."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from elasticd.decision.disruption import eviction_of
from elasticd.kit.surge import (
    HASH,
    LEAST,
    STILL,
    SURGE,
    Earlier,
    Note,
    Origin,
    Step,
    begin,
    next_step,
    noted,
    own_count,
    owns,
    stays,
    surged,
)
from elasticd.model.actions import Evict, Mark, Ready, Scale
from elasticd.model.pod_spec import Disk
from elasticd.model.workload import COST, UNSEEN, Pod, Workload
from tests.kit.pools import NOW
from tests.kit.surges import FREE, NEW, OLD, REF, SIBLING, WEB, Kept, World, one

NOTE = Note("old", "old", "a", 2, "up", NOW, NOW + 300, None, "pool:shop/Pod/old@1")

MARKED, CHEAP = (replace(OLD, annotations={COST: cost}) for cost in (LEAST, "-5"))
ALIKE = replace(SIBLING, annotations={COST: LEAST})


def web(phase: str, count: int, **note: Any) -> Workload:
    """The Deployment with a note, and so many replicas asked for."""
    text = msgspec.json.encode(replace(NOTE, phase=phase, **note)).decode()
    return replace(WEB, replicas=count, status_replicas=count, annotations={SURGE: text})


def told(step: Step) -> str:
    """What a step does, in a few words."""
    action = step.action
    if isinstance(action, Scale):
        return f"scale {action.before} {action.after}"
    if isinstance(action, Evict):
        return f"evict {action.uid}"
    if action is None:
        return "wait"
    if action.pod:
        return f"cost {action.annotations[COST]}"
    note = noted(action.annotations)
    return f"note {note.phase}" if note else "clear"


NEXT = one("next", labels={"app": "web", HASH: "2"}, owner=("ReplicaSet", "web-2", "r2"))


@pytest.mark.parametrize("in_time", [True, False], ids=["in progress", "stuck, and given up by its Deployment"])
@pytest.mark.parametrize(
    ("phase", "pods", "now", "step"),
    [
        pytest.param("wait", [OLD, SIBLING, NEXT], NOW, "RollingOut: wait", id="before it is marked"),
        pytest.param("wait", [SIBLING, NEXT], NOW, "WentByItself: note back", id="the rollout took it"),
        pytest.param("down", [MARKED, SIBLING, NEXT], NOW, "RollingOut: wait", id="before it goes"),
        pytest.param("down", [MARKED, SIBLING, NEXT], NOW + 301, "TooLate: note back", id="not in time"),
        pytest.param("down", [SIBLING, NEXT], NOW, "RollingOut: wait", id="it has gone"),
        pytest.param("out", [MARKED, SIBLING, NEXT], NOW, "RollingOut: wait", id="before its eviction"),
        pytest.param("out", [SIBLING, NEXT], NOW, "RollingOut: wait", id="it was evicted"),
        pytest.param("back", [MARKED, SIBLING, NEXT], NOW, "Unmark: cost None", id="its mark goes"),
        pytest.param("back", [OLD, SIBLING, NEXT], NOW, "RollingOut: wait", id="the replica stays"),
    ],
)
def test_a_rollout_keeps_the_additional_replica(
    phase: str, pods: list[Pod], now: float, step: str, *, in_time: bool
) -> None:
    """Proportional scaling would take a ready pod of the larger ReplicaSet."""
    assert owns(WEB, NEXT)
    workload = replace(web(phase, 3), rollout="1 of 3 pods are of the newest template" if in_time else "")
    said = next_step(workload, pods, now, FREE, honours_costs=True)
    assert f"{said.word}: {told(said)}" == step


THIRD = replace(NEW, ready=False)
AWAY = replace(THIRD, deleted=True)


@pytest.mark.parametrize(
    ("phase", "pods", "still", "step"),
    [
        pytest.param("back", [OLD, SIBLING], STILL, "TakeBack: scale 3 2", id="no more pods than before"),
        pytest.param("back", [OLD, SIBLING, AWAY], STILL, "TakeBack: scale 3 2", id="one more is ending"),
        pytest.param("back", [OLD], STILL, "TakeBack: scale 3 2", id="fewer than before"),
        pytest.param("back", [OLD, SIBLING], STILL - 1, "RollingOut: wait", id="it may see a rollout at any time"),
        pytest.param("back", [OLD, SIBLING, THIRD], STILL, "RollingOut: wait", id="one more pod is there"),
        pytest.param("back", [OLD, NEXT], STILL, "RollingOut: wait", id="pods of two templates"),
        pytest.param("down", [SIBLING, THIRD], STILL, "Lower: scale 3 2", id="the old one went by itself"),
        pytest.param("wait", [OLD, SIBLING], STILL, "Waiting: wait", id="it may yet be let"),
    ],
)
def test_a_replica_that_admission_refuses_is_taken_back(phase: str, pods: list[Pod], still: float, step: str) -> None:
    """Its controller sees no spec that it cannot carry out, and would wait for ever."""
    workload = replace(web(phase, 3), status_replicas=2, rollout=UNSEEN)
    said = next_step(workload, pods, NOW, FREE, honours_costs=True, earlier=Earlier(still=still))
    assert f"{said.word}: {told(said)}" == step


LATE = NOW + 301
UNOWNED: dict[str, Any] = {"labels": {"app": "web"}, "owner": ("", "", "")}
FREED, FREED_MARKED = replace(OLD, **UNOWNED), replace(MARKED, **UNOWNED)
CANARY = one("canary", labels={"app": "web", HASH: "9"}, owner=("ReplicaSet", "web-canary-9", "c"))
OTHERS = [one("bare", **UNOWNED), CANARY]
STRANGER, FAILED = one("stranger"), one("failed", phase="Failed", ready=False)
UNREADY, BESIDE = replace(NEW, ready=False), replace(NEW, node="a")
STEPS = [
    pytest.param("up", 2, [OLD, SIBLING], NOW, "Raise", "scale 2 3", id="one more is asked for"),
    pytest.param("up", 3, [OLD, SIBLING], NOW, "Raised", "note wait", id="it was asked for"),
    pytest.param("up", 2, [SIBLING, NEW], NOW, "WentByItself", "clear", id="it went before anything was done"),
    pytest.param("up", 2, [replace(OLD, deleted=True)], NOW, "WentByItself", "clear", id="it is going"),
    pytest.param("wait", 3, [OLD, SIBLING], NOW, "Waiting", "wait", id="the new one is not there yet"),
    pytest.param("wait", 3, [OLD, one("sibling", "a")], NOW, "Waiting", "wait", id="a sibling beside it is not new"),
    pytest.param("wait", 3, [OLD, SIBLING, UNREADY], NOW, "Waiting", "wait", id="the new one is not ready"),
    pytest.param("wait", 3, [OLD, SIBLING, NEW], NOW, "Mark", f"cost {LEAST}", id="it is ready: the old one is marked"),
    pytest.param("wait", 3, [MARKED, SIBLING, NEW], NOW, "Ready", "note down", id="it is marked"),
    pytest.param("wait", 3, [MARKED, SIBLING, NEW], LATE, "Ready", "note down", id="late, but ready"),
    pytest.param("wait", 3, [OLD, SIBLING, NEW], LATE, "Mark", f"cost {LEAST}", id="late, but ready, and marked yet"),
    pytest.param("wait", 3, [OLD, SIBLING, NEW], NOW + 360, "TooLate", "note back", id="it cannot be marked"),
    pytest.param("wait", 3, [OLD, SIBLING, UNREADY], LATE, "TooLate", "note back", id="not ready in time"),
    pytest.param("wait", 3, [OLD, SIBLING, BESIDE], NOW, "PutBack", "note back", id="the new one is on the same node"),
    pytest.param("wait", 3, [SIBLING, NEW], NOW, "WentByItself", "note back", id="it went by itself"),
    pytest.param("wait", 2, [OLD, SIBLING], NOW, "Overtaken", "clear", id="somebody took the new one away"),
    pytest.param("wait", 2, [MARKED, SIBLING], NOW, "Overtaken", "cost None", id="and it was marked"),
    pytest.param("wait", 5, [OLD, SIBLING], NOW, "Overtaken", "clear", id="somebody set another count"),
    pytest.param("down", 3, [MARKED, SIBLING, NEW], NOW, "Lower", "scale 3 2", id="one fewer is asked for"),
    pytest.param("down", 3, [MARKED, SIBLING, UNREADY], NOW, "Waiting", "wait", id="another would go: it is not ready"),
    pytest.param("down", 3, [MARKED, SIBLING, UNREADY], LATE, "TooLate", "note back", id="and does not become ready"),
    pytest.param("down", 3, [OLD, SIBLING, NEW], NOW, "Mark", f"cost {LEAST}", id="somebody removed the mark"),
    pytest.param("down", 3, [CHEAP, SIBLING, NEW], NOW, "Mark", f"cost {LEAST}", id="somebody changed the mark"),
    pytest.param("down", 3, [OLD, SIBLING, UNREADY], NOW, "Waiting", "wait", id="no mark, and another is not ready"),
    pytest.param("down", 3, [OLD, SIBLING, NEW], NOW + 360, "TooLate", "note back", id="it cannot be marked again"),
    pytest.param("down", 3, [SIBLING, NEW], NOW, "Lower", "scale 3 2", id="it went before"),
    pytest.param("down", 2, [MARKED, SIBLING, NEW], NOW, "Leaving", "wait", id="its controller has yet to act"),
    pytest.param("down", 2, [SIBLING, NEW], NOW, "Moved", "clear", id="it has gone"),
    pytest.param("down", 2, [MARKED, NEW], NOW, "AnotherWent", "cost None", id="another went: the mark is taken back"),
    pytest.param("down", 2, [OLD, NEW], NOW, "AnotherWent", "clear", id="and the note"),
    pytest.param("down like all", 2, [MARKED, ALIKE], NOW, "AnotherWent", "clear", id="another went, all are alike"),
    pytest.param("down", 3, [MARKED, ALIKE, NEW], NOW, "NotTheOnly", "note out", id="another has the mark too"),
    pytest.param("wait", 3, [OLD, ALIKE, NEW], NOW, "Mark", f"cost {LEAST}", id="a mark does not tell it from others"),
    pytest.param("wait", 3, [MARKED, ALIKE, NEW], NOW, "Ready", "note out", id="marked as another is"),
    pytest.param("back like all", 3, [MARKED, UNREADY], NOW, "TakeBack", "scale 3 2", id="back: as all are"),
    pytest.param("wait unheeded", 3, [OLD, SIBLING, NEW], NOW, "Mark", f"cost {LEAST}", id="nobody heeds the mark"),
    pytest.param("wait unheeded", 3, [MARKED, SIBLING, NEW], NOW, "Ready", "note out", id="marked, and evicted next"),
    pytest.param("down", 2, [MARKED, SIBLING, NEW], NOW + 419, "Leaving", "wait", id="its controller may yet act"),
    pytest.param("down", 2, [MARKED, SIBLING, NEW], NOW + 420, "TooLate", "cost None", id="its controller never acts"),
    pytest.param("down", 2, [OLD, SIBLING, NEW], NOW + 420, "TooLate", "clear", id="it never acted: the note"),
    pytest.param("up", 2, [OLD, SIBLING], NOW + 300, "TooLate", "clear", id="one more could not be asked for"),
    pytest.param("up", 2, [FREED, SIBLING], NOW, "Released", "clear", id="it was released before anything was done"),
    pytest.param("wait", 3, [FREED, SIBLING], NOW, "Released", "note back", id="it was released while another starts"),
    pytest.param("down", 3, [FREED_MARKED, SIBLING, NEW], NOW, "Lower", "scale 3 2", id="it was released, marked"),
    pytest.param("down", 2, [FREED_MARKED, SIBLING, NEW], NOW, "Released", "cost None", id="released: the mark"),
    pytest.param("down", 2, [FREED, SIBLING, NEW], NOW, "Released", "clear", id="released: the note"),
    pytest.param("out", 2, [FREED, SIBLING, NEW], NOW, "Released", "clear", id="released before its eviction"),
    pytest.param("back", 3, [FREED_MARKED, SIBLING], NOW, "Unmark", "cost None", id="back: it was released, marked"),
    pytest.param("wait", 3, [OLD, SIBLING, *OTHERS], NOW, "Waiting", "wait", id="pods of others are ready"),
    pytest.param("down", 3, [MARKED, SIBLING, UNREADY, *OTHERS], NOW, "Waiting", "wait", id="others beside unready"),
    pytest.param("down", 2, [MARKED, SIBLING, *OTHERS], NOW, "AnotherWent", "cost None", id="others hide none"),
    pytest.param("out", 3, [MARKED, SIBLING, NEW], NOW, "Evict", "evict old", id="it is evicted"),
    pytest.param("out", 3, [OLD, SIBLING, NEW], NOW, "Mark", f"cost {LEAST}", id="not without the mark"),
    pytest.param("out", 2, [MARKED, SIBLING], NOW, "Overtaken", "cost None", id="an eviction may be under way"),
    pytest.param("out", 3, [OLD, SIBLING, UNREADY], NOW, "Waiting", "wait", id="not while others are not ready"),
    pytest.param("out", 3, [OLD, SIBLING, NEW], LATE, "TooLate", "note back", id="a budget did not let it go in time"),
    pytest.param("out", 3, [SIBLING, NEW], NOW, "Lower", "scale 3 2", id="it has gone: one fewer"),
    pytest.param("out", 2, [SIBLING, NEW], NOW, "Moved", "clear", id="it has gone, and none is too many"),
    pytest.param("out", 2, [OLD, SIBLING], NOW, "Overtaken", "clear", id="somebody took the new one away first"),
    pytest.param("back", 3, [MARKED, SIBLING, UNREADY], NOW, "Unmark", "cost None", id="back: the mark first"),
    pytest.param("back", 3, [OLD, SIBLING, UNREADY], NOW, "TakeBack", "scale 3 2", id="back: one fewer"),
    pytest.param("back", 2, [OLD, SIBLING], NOW, "TakenBack", "clear", id="back: done"),
    pytest.param(
        "back", 3, [SIBLING, NEW], NOW, "TakeBack", "scale 3 2", id="back: it is gone, and so is one too many"
    ),
    pytest.param("wait", 3, [OLD, SIBLING, NEW, STRANGER], NOW, "Strangers", "wait", id="more than it has"),
    pytest.param("wait", 3, [OLD, SIBLING, NEW, STRANGER], LATE, "TooLate", "note back", id="more than it has, late"),
    pytest.param("down", 3, [MARKED, SIBLING, NEW, STRANGER], NOW, "Strangers", "wait", id="down: more than it has"),
    pytest.param("out", 3, [OLD, SIBLING, NEW, STRANGER], NOW, "Strangers", "wait", id="out: more than it has"),
    pytest.param("down", 3, [MARKED, SIBLING, NEW, FAILED], NOW, "Lower", "scale 3 2", id="a failed one is left"),
    pytest.param("down", 2, [MARKED, SIBLING, FAILED], NOW, "AnotherWent", "cost None", id="a failed one hides none"),
    pytest.param("wait", 3, [replace(OLD, phase="Failed"), SIBLING, NEW], NOW, "WentByItself", "note back", id="ended"),
    pytest.param("down", 3, [MARKED, SIBLING, NEW], NOW + 360, "TooLate", "note back", id="marked, and long too late"),
]


@pytest.mark.parametrize(("phase", "count", "pods", "now", "word", "does"), STEPS)
def test_what_is_found_says_what_comes_next(
    phase: str, count: int, pods: list[Pod], now: float, word: str, does: str
) -> None:
    phase, _, how = phase.partition(" ")
    workload = web(phase, count, cost=LEAST if how == "like all" else None)
    step = next_step(workload, pods, now, FREE, honours_costs=how != "unheeded")
    assert (step.word, told(step)) == (word, does)
    assert step.last == (does == "clear")
    assert step.done == (word == "Moved")


SHORT = replace(NEW, ready_changed=NOW - 39)
LONG, OTHER = (replace(pod, ready_changed=NOW - 40) for pod in (NEW, SIBLING))
AVAILABLE = [
    pytest.param("wait", [OLD, OTHER, SHORT], NOW, "Waiting", id="it was ready too short a time"),
    pytest.param("wait", [OLD, OTHER, LONG], NOW, "Mark", id="it was ready long enough"),
    pytest.param("wait", [OLD, OTHER, replace(LONG, ready_changed=0.0)], NOW, "Waiting", id="since when is not known"),
    pytest.param("wait", [OLD, OTHER, replace(LONG, ready=False)], NOW, "Waiting", id="it is not ready"),
    pytest.param("wait", [OLD, OTHER, replace(LONG, ready_changed=LATE)], LATE, "TooLate", id="not in time"),
    pytest.param("down", [MARKED, OTHER, SHORT], NOW, "Waiting", id="the count is not lowered before"),
    pytest.param("down", [MARKED, OTHER, LONG], NOW, "Lower", id="it is lowered then"),
    pytest.param("out", [OLD, OTHER, SHORT], NOW, "Waiting", id="it is not evicted before"),
    pytest.param("out", [MARKED, OTHER, LONG], NOW, "Evict", id="it is evicted then"),
]


@pytest.mark.parametrize(("phase", "pods", "now", "word"), AVAILABLE)
def test_a_replacement_counts_once_ready_for_min_ready_seconds(
    phase: str, pods: list[Pod], now: float, word: str
) -> None:
    workload = replace(web(phase, 3), min_ready=40.0)
    step = next_step(workload, pods, now, FREE, honours_costs=phase != "out")
    assert step.word == word
    if step.word == "Waiting" and phase != "down":
        assert step.message == "1 of 2 are ready without old, for 40 s (minReadySeconds)"


def test_a_replacement_may_take_min_ready_seconds_longer() -> None:
    mark = begin(replace(WEB, min_ready=40.0), OLD, "", NOW, 300, Origin("d"))
    assert isinstance(mark, Mark)
    note = noted(mark.annotations)
    assert note is not None
    assert note.until == NOW + 340


PROTECTED, BLACKOUT = ("DoNotDisrupt", "an annotation asks for it"), ("Blackout", "nightly")
STAYS, WAITS = Kept(protection=PROTECTED), Kept(delay=BLACKOUT)
READY_PODS, MARKED_PODS = [OLD, SIBLING, NEW], [MARKED, SIBLING, NEW]
KEPT = [
    pytest.param("up", 2, [OLD, SIBLING], NOW, STAYS, "DoNotDisrupt", "note back", id="protected before anything"),
    pytest.param(
        "wait", 3, [OLD, SIBLING, UNREADY], NOW, STAYS, "DoNotDisrupt", "note back", id="while another starts"
    ),
    pytest.param("wait", 3, READY_PODS, NOW, STAYS, "DoNotDisrupt", "note back", id="protected, the other ready"),
    pytest.param("down", 3, MARKED_PODS, NOW, STAYS, "DoNotDisrupt", "note back", id="protected, and marked"),
    pytest.param("out", 3, READY_PODS, NOW, STAYS, "DoNotDisrupt", "note back", id="protected, before its eviction"),
    pytest.param("down", 2, MARKED_PODS, NOW, STAYS, "Leaving", "wait", id="too late: it was let go"),
    pytest.param("back", 3, MARKED_PODS, NOW, STAYS, "Unmark", "cost None", id="it is taken back already"),
    pytest.param("wait", 3, [SIBLING, NEW], NOW, STAYS, "WentByItself", "note back", id="it went by itself"),
    pytest.param("wait", 3, [OLD, SIBLING, UNREADY], NOW, WAITS, "Waiting", "wait", id="a delay, the other not ready"),
    pytest.param("wait", 3, READY_PODS, NOW, WAITS, "Blackout", "wait", id="a delay: it is not marked"),
    pytest.param("wait", 3, MARKED_PODS, NOW, WAITS, "Blackout", "wait", id="a delay: the count stays"),
    pytest.param("wait unheeded", 3, READY_PODS, NOW, WAITS, "Blackout", "wait", id="a delay, costs unheeded"),
    pytest.param("down", 3, MARKED_PODS, NOW, WAITS, "Blackout", "wait", id="a delay: it is not lowered"),
    pytest.param("down", 3, READY_PODS, NOW, WAITS, "Blackout", "wait", id="a delay: it is not marked again"),
    pytest.param("out", 3, READY_PODS, NOW, WAITS, "Blackout", "wait", id="a delay: it is not evicted"),
    pytest.param("wait", 3, READY_PODS, LATE, WAITS, "TooLate", "note back", id="a delay beyond its time"),
    pytest.param("down", 3, MARKED_PODS, LATE, WAITS, "TooLate", "note back", id="a delay beyond it, marked"),
    pytest.param("down", 3, [SIBLING, NEW], NOW, WAITS, "Lower", "scale 3 2", id="it went before: nothing is delayed"),
    pytest.param("out", 3, [SIBLING, NEW], NOW, WAITS, "Lower", "scale 3 2", id="it was evicted before"),
    pytest.param("down", 2, MARKED_PODS, NOW, WAITS, "Leaving", "wait", id="it was let go before the delay"),
]


@pytest.mark.parametrize(("phase", "count", "pods", "now", "kept", "word", "does"), KEPT)
def test_what_keeps_a_pod_is_asked_before_it_goes(
    phase: str, count: int, pods: list[Pod], now: float, kept: Kept, word: str, does: str
) -> None:
    workload = web(phase.removesuffix(" unheeded"), count)
    step = next_step(workload, pods, now, kept, honours_costs=phase not in ("out", "wait unheeded"))
    assert (step.word, told(step)) == (word, does)
    assert step.restrained == (word in ("DoNotDisrupt", "Blackout") or (word == "TooLate" and kept is WAITS))
    assert step.message.endswith(dict([PROTECTED, BLACKOUT, ("TooLate", "nightly")]).get(word, ""))


@pytest.mark.parametrize(("phase", "honours_costs"), [("wait", True), ("wait", False), ("down", True), ("out", False)])
def test_the_step_names_the_eviction_that_it_comes_to(phase: str, *, honours_costs: bool) -> None:
    kept = Kept()
    step = next_step(web(phase, 3), MARKED_PODS, NOW, kept, honours_costs=honours_costs)
    evict = Evict(OLD.ref, "old", "a", f"elasticd.io/surge {phase}", owner="w")
    assert kept.asked == [evict]
    others = Ready(WEB.selector, frozenset({SIBLING.uid, NEW.uid}), 2)
    expected = {"down": evict, "out": replace(evict, others=others)}
    assert eviction_of(step.action) == expected.get(phase)


LONG_NAME = "w" * 250


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        pytest.param("web", {}, True, id="of its ReplicaSet"),
        pytest.param("web", {"labels": {HASH: "2"}}, False, id="another hash than its ReplicaSet"),
        pytest.param("web", {"labels": {"app": "web"}}, False, id="without a hash"),
        pytest.param("web", {"owner": ("", "", "")}, False, id="without a controller"),
        pytest.param("web", {"owner": ("Job", "web-1", "j")}, False, id="of another kind"),
        pytest.param("web", {"namespace": "other"}, False, id="of another namespace"),
        pytest.param("web", {"owner": CANARY.owner, "labels": CANARY.labels}, False, id="of one whose name is longer"),
        pytest.param("we", {}, False, id="of one whose name is shorter"),
        pytest.param(LONG_NAME, {"owner": ("ReplicaSet", f"{LONG_NAME}-1", "r")}, True, id="of a long name"),
        pytest.param(
            LONG_NAME,
            {"owner": ("ReplicaSet", f"{LONG_NAME[:242]}-123456789z", "r"), "labels": {HASH: "123456789z"}},
            True,
            id="of a name that is cut",
        ),
    ],
)
def test_a_deployment_owns_the_pods_of_its_replica_sets(name: str, changes: dict[str, Any], expected: bool) -> None:
    assert owns(replace(WEB, ref=replace(REF, name=name)), replace(OLD, **changes)) is expected


def test_every_write_names_what_it_was_judged_on() -> None:
    scale = next_step(web("up", 2), [OLD, SIBLING], NOW, FREE, honours_costs=True).action
    assert scale == Scale(REF, "w", "7", 2, 3, "elasticd.io/surge up")
    mark = next_step(web("wait", 3), [OLD, SIBLING, NEW], NOW, FREE, honours_costs=True).action
    assert mark == Mark(REF, "old", {COST: LEAST}, "old", SURGE)
    note = next_step(web("up", 3), [OLD, SIBLING], NOW, FREE, honours_costs=True).action
    assert isinstance(note, Mark)
    assert (note.uid, note.version, note.reason) == ("w", "7", SURGE)


def test_the_cost_that_a_pod_had_is_given_back() -> None:
    step = next_step(web("back", 3, cost="5"), [MARKED, SIBLING, UNREADY], NOW, FREE, honours_costs=True)
    assert step.action == Mark(REF, "old", {COST: "5"}, "old", SURGE)


@pytest.mark.parametrize("text", ["", "{", '{"pod":"x"}', "null"])
def test_a_note_that_cannot_be_read_is_taken_away(text: str) -> None:
    step = next_step(replace(WEB, annotations={SURGE: text}), [OLD], NOW, FREE, honours_costs=True)
    assert (step.word, told(step), step.last) == ("Unreadable", "clear", True)


@pytest.mark.parametrize(
    ("phase", "count", "word"),
    [
        pytest.param("down", 2, "Leftover", id="the count before"),
        pytest.param("down", 3, "NotOurs", id="one more, which another may want"),
        pytest.param("up", 2, "Leftover", id="no replica is added by it"),
        pytest.param("back", 3, "NotOurs", id="nothing is taken back by it"),
        pytest.param("wait", 7, "Leftover", id="another count"),
    ],
)
def test_a_note_that_somebody_else_wrote_is_only_removed(phase: str, count: int, word: str) -> None:
    workload = replace(web(phase, count), surge_writer="kubectl-rollout")
    for pods in ([OLD, SIBLING, NEW], [SIBLING, NEW]):
        step = next_step(workload, pods, LATE, FREE, honours_costs=True)
        assert (step.word, told(step), step.last, step.done) == (word, "clear", True, False)
    assert (surged(workload), own_count(workload), stays(workload, [OLD])) == (None, count, False)


def with_needs(**more: Any) -> Pod:
    return replace(OLD, needs=replace(OLD.needs, **more))


@pytest.mark.parametrize(
    ("workload", "moved", "autoscaler", "reason"),
    [
        pytest.param(WEB, replace(OLD, deleted=True), "", "Leaving", id="it is being deleted"),
        pytest.param(web("up", 2), OLD, "", "UnderWay", id="another pod of it is being moved"),
        pytest.param(WEB, with_needs(claims=True), "", "Volumes", id="it has claims"),
        pytest.param(WEB, with_needs(disks=(Disk("gce", "d"),)), "", "Volumes", id="it has a disk"),
        pytest.param(replace(WEB, recreate=True), OLD, "", "Recreate", id="strategy Recreate"),
        pytest.param(replace(WEB, rollout="1 of 2"), OLD, "", "RollingOut", id="a rollout"),
        pytest.param(WEB, OLD, "HorizontalPodAutoscaler web", "ForeignOwner", id="another scales it"),
        pytest.param(replace(WEB, status_replicas=1), OLD, "", "Scaling", id="it is being scaled"),
        pytest.param(replace(WEB, replicas=0, status_replicas=0), OLD, "", "Scaling", id="it goes to zero"),
    ],
)
def test_it_does_not_begin_where_it_could_not_end_well(
    workload: Workload, moved: Pod, autoscaler: str, reason: str
) -> None:
    found = begin(workload, moved, autoscaler, NOW, 300, Origin("d"))
    assert isinstance(found, tuple)
    assert found[0] == reason


def test_a_surge_begins_with_a_note_sufficient_for_another_daemon() -> None:
    found = begin(WEB, replace(OLD, annotations={COST: "3"}), "", NOW, 60, Origin("pool:x", "ops/elasticd"))
    assert isinstance(found, Mark)
    assert found.version == "7"
    assert noted(found.annotations) == Note("old", "old", "a", 2, "up", NOW, NOW + 60, "3", "pool:x", "ops/elasticd")


GOING = replace(OLD, deleted=True)


@pytest.mark.parametrize(
    ("phase", "count", "pods", "expected"),
    [
        pytest.param("up", 2, [OLD, SIBLING], False, id="one more is to be asked for"),
        pytest.param("up", 3, [OLD, SIBLING], False, id="one more is asked for"),
        pytest.param("up", 5, [OLD, SIBLING], True, id="somebody set the count at once"),
        pytest.param("wait", 3, [OLD, SIBLING, UNREADY], False, id="another is waited for"),
        pytest.param("wait", 2, [OLD, SIBLING, UNREADY], True, id="somebody took that away"),
        pytest.param("wait", 7, [OLD, SIBLING, UNREADY], True, id="somebody set the count"),
        pytest.param("down", 3, [MARKED, SIBLING, NEW], False, id="one fewer is to be asked for"),
        pytest.param("down", 2, [MARKED, SIBLING, NEW], False, id="it has yet to go"),
        pytest.param("down", 2, [MARKED, SIBLING], True, id="another went in its place"),
        pytest.param("out", 3, [OLD, SIBLING, NEW], False, id="it is to be evicted"),
        pytest.param("out", 2, [OLD, SIBLING, NEW], True, id="somebody took the other away before"),
        pytest.param("out", 2, [GOING, SIBLING, NEW], False, id="it was evicted"),
        pytest.param("wait", 3, [FREED, SIBLING], True, id="it was released"),
        pytest.param("down", 2, [MARKED, SIBLING, *OTHERS], True, id="another went, pods of others are there"),
        pytest.param("back", 3, [MARKED, SIBLING, NEW], True, id="it is taken back"),
        pytest.param("back", 2, [OLD, SIBLING], True, id="it was taken back"),
        pytest.param("back", 3, [GOING, SIBLING, NEW], False, id="it goes by itself meanwhile"),
        pytest.param("back", 3, [SIBLING, NEW], False, id="it went by itself"),
    ],
)
def test_whether_the_pod_leaves_is_known_at_every_step(phase: str, count: int, pods: list[Pod], expected: bool) -> None:
    assert stays(web(phase, count), pods) is expected
    assert not stays(replace(WEB, replicas=count), pods), "of no move it is not asked"


@pytest.mark.parametrize(
    ("phase", "whose", "told"),
    [
        pytest.param("wait", OLD, "another pod of shop/Deployment/web is being moved", id="another is waited for"),
        pytest.param("back", SIBLING, "the move of old is being taken back", id="that of another is taken back"),
        pytest.param("back", OLD, "its own move is being taken back", id="it is taken back"),
    ],
)
def test_until_it_is_taken_back_no_other_is_moved(phase: str, whose: Pod, told: str) -> None:
    assert begin(web(phase, 3), whose, "", NOW, 60, Origin("d")) == ("UnderWay", told)


@given(
    honours_costs=some.booleans(),
    count=some.integers(1, 5),
    lag=some.integers(0, 3),
    ready=some.booleans(),
    beside=some.booleans(),
    repeats=some.lists(some.integers(1, 3), max_size=30),
    unmarked=some.sets(some.integers(0, 15), max_size=3),
    cost=some.sampled_from([None, LEAST, "-5"]),
)
def test_a_surge_ends_moved_or_restored_never_with_fewer_ready(
    honours_costs: bool,
    count: int,
    lag: int,
    ready: bool,
    beside: bool,
    repeats: list[int],
    unmarked: set[int],
    cost: str | None,
) -> None:
    """However late the controllers are, however often a step is done, whatever deletion cost the template gives each
    pod, and though somebody removes the mark in some turns before the count is lowered."""
    world = World(count, ready=ready, beside=beside, heeds=honours_costs, cost=cost)
    mark = begin(world.workload, world.pods[0], "", NOW, 120, Origin("d"))
    assert isinstance(mark, Mark)
    world.do(mark)
    for turn in range(200):
        if SURGE not in world.workload.annotations:
            break
        if turn in unmarked and world.workload.replicas > count:
            world.do(Mark(REF, OLD.uid, {COST: None}, OLD.name, SURGE))
        step = next_step(world.workload, world.pods, world.now, FREE, honours_costs=honours_costs)
        assert not (stays(world.workload, world.pods) and ready and not beside), "who stays is not moved after all"
        for _ in range(repeats[turn] if turn < len(repeats) else 1):
            world.do(step.action)
        if turn % (lag + 1) == lag:
            world.turn()
    world.turn()
    assert SURGE not in world.workload.annotations
    assert world.workload.replicas == len(world.pods) == count
    assert world.least == count
    moved = OLD.uid not in {pod.uid for pod in world.pods}
    assert moved == (ready and not beside)
    assert all(pod.annotations == world.given or (pod.uid == OLD.uid and unmarked) for pod in world.pods)
    assert not any(pod.annotations.get(COST) == LEAST != cost for pod in world.pods)


@given(
    count=some.integers(1, 3),
    delay=some.integers(0, 6),
    protected_at=some.integers(0, 8),
    cost=some.sampled_from([None, "-5"]),
)
def test_an_eviction_that_arrives_late_takes_no_pod_that_stays(
    count: int, delay: int, protected_at: int, cost: str | None
) -> None:
    world = World(count, ready=True, beside=False, heeds=False, cost=cost)
    world.delay = delay
    mark = begin(world.workload, world.pods[0], "", NOW, 600, Origin("d"))
    assert isinstance(mark, Mark)
    world.do(mark)
    for turn in range(40):
        if SURGE in world.workload.annotations:
            kept = STAYS if turn >= protected_at else FREE
            for _ in range(
                8
            ):  # the last step of a move that is taken back comes before the next turn of its controllers
                world.do(next_step(world.workload, world.pods, world.now, kept, honours_costs=False).action)
        world.turn()
    assert SURGE not in world.workload.annotations
    assert (world.least, len(world.pods)) == (count, count)
