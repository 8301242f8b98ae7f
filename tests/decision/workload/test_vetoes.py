"""Freezes and foreign owners: what holds a workload whatever its policy's limits say."""

from functools import partial
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from elasticd.api import Change, Limit, Observation, Past, Strategy, hookimpl
from elasticd.decision.decide import Case, announcements, decide
from elasticd.decision.workload.vetoes import FREEZE, strikes, vetoes
from elasticd.journal import Journal
from elasticd.kit import Rate
from elasticd.kit.handover import FENCE, HALF_STOPPED, UNREAD
from elasticd.kit.history import begin, carry, remember, settle
from elasticd.kit.surge import LEAST, SURGE, Note, Phase
from elasticd.limits.behavior import RateLimit, Rollout, Stabilization
from elasticd.model.actions import Scale
from elasticd.model.history import Run
from elasticd.model.policy import Bounds, Foreign, Policy
from elasticd.model.records import Decision, Outcome
from elasticd.model.workload import COST, Pod, Ref
from elasticd.registry import Hooks
from tests.kit.plugins.builders import EMPTY, NOW, OLD, Wants, conditions, pod, seen

Ways = Literal["none", "up", "down", "both"]


class Back(Strategy, tag="back", frozen=True):
    """Takes a change back, to this count."""

    count: int

    @hookimpl
    def limit(self) -> Limit:
        return Limit("RolledBack", "", self.count, self.count, takes_back=True)


def decided(
    wish: int,
    current: int = 5,
    past: Past = EMPTY,
    limits: tuple[Strategy, ...] = (),
    annotations: dict[str, str] | None = None,
    autoscaler: str = "",
    bounds: tuple[int, int] = (1, 100),
    writer: str = "",
    writer_since: float = NOW,
    age: float = 0.0,
    rollout: str = "",
    pods: tuple[Pod, ...] = (),
    **policy: Any,
) -> Decision:
    """The decision of a policy that acts, about a workload of so many replicas."""
    shown = seen(current, pods)
    workload = replace(shown.workload, annotations=annotations or {}, rollout=rollout)
    workload = replace(workload, writer=writer, writer_since=writer_since)
    shown = replace(shown, workload=workload, autoscaler=autoscaler, confirmed=NOW - age)
    voices: tuple[Strategy, ...] = (Wants(replicas=wish),)
    table = {"name": "p", "replicas": Bounds(bounds[1], bounds[0]), "strategies": voices, "limits": limits}
    rules = Policy(**{**table, "mode": "act", **policy})
    return decide(Case(rules, shown, past, Hooks((*voices, *limits))))


WAYS = [
    pytest.param("none", 9, 9, id="not frozen: up"),
    pytest.param("none", 2, 2, id="not frozen: down"),
    pytest.param("up", 9, 5, id="up: no growth"),
    pytest.param("up", 2, 2, id="up: it may shrink"),
    pytest.param("down", 9, 9, id="down: it may grow"),
    pytest.param("down", 2, 5, id="down: no shrinking"),
    pytest.param("both", 9, 5, id="both: no growth"),
    pytest.param("both", 2, 5, id="both: no shrinking"),
]


@pytest.mark.parametrize(("freeze", "wish", "replicas"), WAYS)
def test_a_policy_freezes(freeze: Ways, wish: int, replicas: int) -> None:
    found = decided(wish, freeze=freeze)
    assert (found.replicas, found.wish) == (replicas, wish)
    if replicas == 5:
        assert (found.verdict, found.reason, found.action) == ("hold", "Frozen", None)
        assert found.message == f'the policy has freeze = "{freeze}"'
        assert [limit.name for limit in found.limits if limit.bound] == ["freeze"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("both; by anna@ops; the sale", "Frozen", id="without an end"),
        pytest.param("both; until 2100-01-01T00:00:00Z; by anna@ops", "Frozen", id="for now"),
        pytest.param("both; until 1970-01-01T00:00:01Z; by anna@ops", "Wanted", id="over"),
        pytest.param("both; until tomorrow", "FreezeUnreadable", id="unreadable time"),
        pytest.param("both; by anna@ops; until the sale is over", "Frozen", id="a reason that begins with until"),
        pytest.param("both; by anna@ops; until 1970-01-01T00:00:01Z", "Frozen", id="a reason that is a time"),
        pytest.param(
            "both; until 1970-01-01T00:00:01Z; by anna@ops; until then", "Wanted", id="over, with such a reason"
        ),
        pytest.param("both; by friday noon; until 1970-01-01T00:00:01Z", "Wanted", id="over, by hand"),
        pytest.param("both; by anna; until 1970-01-01T00:00:01Z", "Wanted", id="over, by a person without a host"),
        pytest.param("both; by friday noon; until then", "FreezeUnreadable", id="unreadable time, by hand"),
        pytest.param("often; until 1970-01-01T00:00:01Z", "FreezeUnreadable", id="unreadable way"),
    ],
)
def test_a_pause_ends_at_its_time(text: str, reason: str) -> None:
    found = decided(8, annotations={FREEZE: text})
    assert found.reason == reason
    assert reason != "Frozen" or text in found.message


def test_a_fence_holds_the_count_both_ways() -> None:
    for wish in (2, 8):
        found = decided(wish, annotations={FENCE: "takeover by anna"})
        assert (found.replicas, found.reason) == (5, "Fenced")
        assert found.message == "the workload is annotated elasticd.io/fenced: takeover by anna"


@pytest.mark.parametrize(("freeze", "wish", "replicas"), WAYS[2:])
def test_an_annotation_freezes_one_workload(freeze: str, wish: int, replicas: int) -> None:
    found = decided(wish, annotations={FREEZE: freeze, "note": "x"})
    assert found.replicas == replicas
    if replicas == 5:
        assert found.message == f"the workload is annotated elasticd.io/freeze: {freeze}"
        assert announcements(found, None) == (), "who has annotated it knows"


@pytest.mark.parametrize("way", ["", "no", "UP", "true", "up,down", "none", "\n"])
@pytest.mark.parametrize("wish", [2, 5, 9])
def test_unreadable_freeze_annotation_freezes_both_directions_with_a_warning(way: str, wish: int) -> None:
    found = decided(wish, annotations={FREEZE: way})
    assert (found.verdict, found.replicas, found.reason) == ("hold", 5, "FreezeUnreadable")
    assert "must be up, down or both, is " in found.message
    assert "\n" not in found.message
    (told,) = announcements(found, None)
    assert told.warning


def test_policy_and_annotation_freeze_together() -> None:
    frozen = partial(decided, annotations={FREEZE: "down"}, freeze="up")
    assert [frozen(wish).replicas for wish in (2, 5, 9)] == [5, 5, 5]


@pytest.mark.parametrize(
    ("freeze", "current", "bounds", "replicas"),
    [
        pytest.param("up", 1, (3, 9), 1, id="below min"),
        pytest.param("down", 1, (3, 9), 3, id="below min, frozen the other way"),
        pytest.param("down", 12, (3, 9), 12, id="above max"),
        pytest.param("up", 12, (3, 9), 9, id="above max, frozen the other way"),
    ],
)
def test_a_freeze_goes_before_the_policys_bounds(
    freeze: Ways, current: int, bounds: tuple[int, int], replicas: int
) -> None:
    assert decided(5, current, bounds=bounds, freeze=freeze).replicas == replicas


@pytest.mark.parametrize(("freeze", "replicas"), [("up", 5), ("down", 8), ("both", 5), ("none", 8)])
def test_a_freeze_goes_before_a_rollback(freeze: Ways, replicas: int) -> None:
    assert decided(2, limits=(Back(count=8),), freeze=freeze).replicas == replicas


@given(
    freeze=some.sampled_from(["none", "up", "down", "both"]),
    annotation=some.sampled_from([None, "up", "down", "both", "?"]),
    wish=some.integers(0, 30),
    current=some.integers(1, 30),
    bounds=some.tuples(some.integers(0, 10), some.integers(10, 30)),
    back=some.one_of(some.none(), some.integers(0, 30)),
)
def test_a_frozen_direction_never_moves(
    freeze: Ways, annotation: str | None, wish: int, current: int, bounds: tuple[int, int], back: int | None
) -> None:
    limits = () if back is None else (Back(count=back),)
    notes = {} if annotation is None else {FREEZE: annotation}
    found = decided(wish, current, limits=limits, annotations=notes, bounds=bounds, freeze=freeze)
    ways = {freeze, annotation}
    if ways & {"up", "both", "?"}:
        assert found.replicas <= current
    if ways & {"down", "both", "?"}:
        assert found.replicas >= current
    assert (found.action is None) == (found.replicas == current)


@pytest.mark.parametrize("wish", [2, 5, 9])
def test_it_yields_to_an_autoscaler(wish: int) -> None:
    found = decided(wish, autoscaler="HorizontalPodAutoscaler theirs")
    assert (found.verdict, found.replicas, found.reason, found.wish) == ("hold", 5, "ForeignOwner", wish)
    assert found.message.startswith("HorizontalPodAutoscaler theirs scales it too; ")
    assert conditions(found)["AbleToScale"] == "ForeignOwner"
    assert not next(one for one in found.conditions if one.type == "AbleToScale").status
    (told,) = announcements(found, None)
    assert (told.reason, told.warning) == ("ForeignOwner", True)
    assert announcements(found, found) == (), "once"


def test_a_half_stopped_autoscaler_is_told_with_what_mends_it() -> None:
    found = decided(9, autoscaler=f"HorizontalPodAutoscaler theirs{HALF_STOPPED}")
    assert (found.verdict, found.replicas, found.reason, found.wish) == ("hold", 5, "HalfStopped", 9)
    said = (
        "HorizontalPodAutoscaler theirs (half stopped) only moves the count into its bounds, and nothing else scales it"
    )
    assert found.message.startswith(said)
    assert found.message.endswith(f"; run `elasticd takeover {found.workload}` again, or with --back")
    (told,) = announcements(found, None)
    assert (told.reason, told.warning) == ("HalfStopped", True)


@pytest.mark.parametrize(
    ("policy", "replicas"),
    [
        pytest.param({"mode": "observe"}, 9, id="who only observes disturbs nobody"),
        pytest.param({"foreign": Foreign(autoscalers="ignore")}, 9, id="who was told to go on"),
        pytest.param({"bounds": (7, 9)}, 5, id="not even to the policy's min"),
        pytest.param({"freeze": "down"}, 5, id="a freeze the other way changes nothing"),
    ],
)
def test_it_yields_unless(policy: dict[str, Any], replicas: int) -> None:
    assert decided(9, autoscaler="HorizontalPodAutoscaler theirs", **policy).replicas == replicas


@pytest.mark.parametrize(
    ("wish", "policy", "replicas", "reason"),
    [
        pytest.param(9, {}, 5, "AutoscalersUnread", id="it waits"),
        pytest.param(5, {}, 5, "Wanted", id="nothing to do"),
        pytest.param(9, {"foreign": Foreign(autoscalers="ignore")}, 9, "Wanted", id="who was told to go on"),
        pytest.param(9, {"mode": "observe"}, 9, "Wanted", id="who only observes"),
    ],
)
def test_it_waits_until_autoscalers_were_read(wish: int, policy: dict[str, Any], replicas: int, reason: str) -> None:
    found = decided(wish, autoscaler=UNREAD, **policy)
    assert (found.replicas, found.reason) == (replicas, reason)
    assert conditions(found)["AbleToScale"] != "ForeignOwner"


def test_an_old_view_is_the_first_trouble() -> None:
    assert decided(9, autoscaler="HorizontalPodAutoscaler theirs", age=600).reason == "StaleCluster"


def fought(*times: tuple[float, float]) -> Past:
    """Changes of ours and of somebody else's after each, by age, oldest first."""
    ours = tuple(Change(NOW - age, 5, 9, "Wanted") for age, _ in times)
    return Past(OLD, changes=ours, foreign=tuple(Change(NOW - age, 9, 5) for _, age in times))


FIGHT = ((300.0, 290.0), (200.0, 190.0), (100.0, 90.0))


@pytest.mark.parametrize(
    ("past", "foreign", "replicas"),
    [
        pytest.param(fought(*FIGHT), {}, 5, id="three times: it yields"),
        pytest.param(fought(*FIGHT[:2]), {}, 9, id="twice: not yet"),
        pytest.param(fought(*FIGHT), {"strikes": 4}, 9, id="as often as is set"),
        pytest.param(fought(*FIGHT), {"strikes": 0}, 9, id="never"),
        pytest.param(fought(*FIGHT), {"within": 200}, 9, id="not all within the window"),
        pytest.param(fought(*FIGHT), {"within": 200.1}, 5, id="just within the window"),
        pytest.param(fought(*FIGHT), {"pause": 91}, 5, id="still paused"),
        pytest.param(fought(*FIGHT), {"pause": 90}, 9, id="the pause is over"),
        pytest.param(fought(*FIGHT), {"strikes": 1, "pause": 91}, 5, id="each time anew"),
    ],
)
def test_it_yields_to_who_overwrites_its_counts(past: Past, foreign: dict[str, Any], replicas: int) -> None:
    found = decided(9, past=past, foreign=Foreign(**foreign))
    assert found.replicas == replicas
    assert (found.reason == "ForeignOwner") == (replicas == 5)


@pytest.mark.parametrize(
    ("writer", "since", "who"),
    [
        pytest.param("argocd", NOW - 90, "argocd", id="known"),
        pytest.param("argocd", NOW - 160, "argocd", id="known, by a clock that is behind"),
        pytest.param("kubectl", NOW - 161, "somebody else", id="only who wrote before elasticd did"),
        pytest.param("kubectl", 0.0, "somebody else", id="nobody knows when"),
        pytest.param("", 0.0, "somebody else", id="nobody knows who"),
        pytest.param("elasticd", NOW, "somebody else", id="elasticd itself"),
    ],
)
def test_it_names_who_that_is(writer: str, since: float, who: str) -> None:
    message = decided(9, past=fought(*FIGHT), writer=writer, writer_since=since).message
    assert message == f"{who} set another count after elasticd 3 times within 600 s; it is left alone for 1710 s more"


@pytest.mark.parametrize(
    ("ours", "theirs", "found"),
    [
        pytest.param([], [30, 20, 10], [], id="a person alone fights nobody"),
        pytest.param([40], [30, 20, 10], [30], id="three counts over one of ours are one strike"),
        pytest.param([40, 25], [30, 20, 10], [30, 20], id="each answer of ours is one more"),
        pytest.param([5], [30, 20], [], id="what was there before ours"),
        pytest.param([30], [30], [30], id="at the same time"),
        pytest.param([40], [], [], id="nobody"),
    ],
)
def test_strikes(ours: list[float], theirs: list[float], found: list[float]) -> None:
    past = Past(
        OLD,
        changes=tuple(Change(NOW - age, 1, 2) for age in ours),
        foreign=tuple(Change(NOW - age, 2, 1) for age in theirs),
    )
    assert strikes(past.changes, past.foreign) == [NOW - age for age in found]


def test_the_newest_strike_counts_before_it_is_recorded() -> None:
    twice = replace(fought(*FIGHT[:2]), changes=fought(*FIGHT).changes, count=9)
    assert decided(9, 5, twice).reason == "ForeignOwner"
    assert decided(12, 9, twice).replicas == 12, "nobody has changed it since"


@given(ages=some.lists(some.integers(0, 3000), max_size=8, unique=True), strikes=some.integers(0, 4))
def test_somebody_who_is_never_answered_is_never_yielded_to(ages: list[int], strikes: int) -> None:
    past = Past(OLD, foreign=tuple(Change(NOW - age, 2, 1) for age in sorted(ages, reverse=True)))
    assert decided(9, past=past, foreign=Foreign(strikes=strikes)).replicas == 9


def test_nothing_is_recorded_where_nothing_holds() -> None:
    shown: Observation = seen(5)
    assert shown.autoscaler == ""
    assert [limit.name for limit in decided(9).limits] == ["bounds"]


def test_jobs_that_end_are_nobodys_doing() -> None:
    jobs = replace(seen(5), workload=replace(seen(5).workload, ref=Ref("shop", "Job", "mail", "batch/v1")))
    rules = Policy(name="p", replicas=Bounds(9), strategies=(), mode="act")
    assert vetoes(rules, jobs, fought(*FIGHT)) == ()
    assert vetoes(rules, seen(5), fought(*FIGHT)) != ()


NOTED = {SURGE: '{"pod":"web-1"}'}


@pytest.mark.parametrize(
    ("wish", "verdict", "replicas"),
    [
        pytest.param(1, "hold", 5, id="fewer"),
        pytest.param(5, "keep", 5, id="as many"),
        pytest.param(9, "scale", 9, id="more come before the move"),
    ],
)
def test_workload_with_a_moving_pod_loses_none_with_reason(wish: int, verdict: str, replicas: int) -> None:
    found = decided(wish, annotations=NOTED)
    assert (found.verdict, found.replicas) == (verdict, replicas)
    assert (found.action is None) == (verdict != "scale")
    assert "BeingMoved" in {limit.reason for limit in found.limits}
    assert "another being made first" in "".join(limit.message for limit in found.limits)


@pytest.mark.parametrize(
    ("phase", "rollout", "wish", "replicas"),
    [
        pytest.param("back", "1 of 6 pods", 2, 2, id="fewer than before the move, in a rollout"),
        pytest.param("back", "1 of 6 pods", 4, 4, id="one fewer than before"),
        pytest.param("back", "1 of 6 pods", 5, 6, id="as many as before: its replica is taken back after the rollout"),
        pytest.param("back", "", 2, 6, id="no rollout: it is taken back at once"),
        pytest.param("wait", "1 of 6 pods", 2, 6, id="it is not taken back yet"),
        pytest.param("back", "1 of 6 pods", 9, 9, id="more, as always"),
    ],
)
def test_a_move_that_waits_for_a_rollout_gives_way(phase: Phase, rollout: str, wish: int, replicas: int) -> None:
    """The rollout may wait for the room of the pods that are to go."""
    found = decided(wish, 6, annotations=note(5, phase), rollout=rollout)
    assert found.replicas == replicas


WAITS: dict[str, Any] = {"current": 6, "rollout": "1 of 6 pods"}
"""A move that began at five replicas, and is taken back once a rollout is over."""


@pytest.mark.parametrize(
    ("more", "verdict", "replicas", "reason"),
    [
        pytest.param({"bounds": (5, 100)}, "hold", 6, "BeingMoved", id="its min is what there was before the move"),
        pytest.param({"bounds": (1, 5)}, "scale", 2, "Wanted", id="its max is what there was before the move"),
        pytest.param({"bounds": (1, 4)}, "scale", 4, "TooManyReplicas", id="its max was lowered"),
        pytest.param(
            {"limits": (Stabilization(),), "past": replace(EMPTY, runs=(Run(NOW - 600, NOW - 1, 5),), until=NOW - 1)},
            "hold", 6, "BeingMoved", id="five were wished for a second ago",
        ),
        pytest.param(
            {"limits": (RateLimit(down=(Rate("Pods", 1, 60),)),)}, "scale", 4, "Wanted", id="one a minute"
        ),
        pytest.param({"autoscaler": "HorizontalPodAutoscaler web"}, "hold", 6, "ForeignOwner", id="beside an HPA"),
        pytest.param({"autoscaler": UNREAD}, "hold", 6, "BeingMoved", id="there may be an HPA"),
        pytest.param({"freeze": "down"}, "hold", 6, "Frozen", id="frozen"),
        pytest.param({"age": 1000.0}, "hold", 6, "StaleCluster", id="the cluster is not known"),
    ],
)  # fmt: skip
def test_a_move_gives_way_to_what_goes_without_it(
    more: dict[str, Any], verdict: str, replicas: int, reason: str
) -> None:
    """The policy is judged as if no pod were being moved, and comes first only if it asks for fewer then."""
    found = decided(2, annotations=note(5, "back"), **WAITS, **more)
    assert (found.verdict, found.replicas, found.reason) == (verdict, replicas, reason)
    assert (found.current, found.own_count) == (6, 5)
    assert found.action is None or isinstance(found.action, Scale)
    assert found.action is None or (found.action.before, found.action.after) == (6, replicas)


@pytest.mark.parametrize(
    ("cost", "marked", "replicas"),
    [
        pytest.param(None, LEAST, 6, id="still marked: it would go first"),
        pytest.param(None, None, 2, id="no longer marked"),
        pytest.param("7", "3", 2, id="somebody gave it another cost"),
        pytest.param(LEAST, LEAST, 2, id="it had this cost before"),
    ],
)
def test_a_marked_pod_is_unmarked_before_its_move_gives_way(
    cost: str | None, marked: str | None, replicas: int
) -> None:
    moved = pod("p0", annotations={} if marked is None else {COST: marked})
    begun = Note("p0", moved.uid, "a", 5, "back", NOW, NOW + 300, cost)
    annotations = {SURGE: msgspec.json.encode(begun).decode()}
    assert decided(2, annotations=annotations, pods=(moved, pod("p1")), **WAITS).replicas == replicas


@pytest.mark.parametrize(
    ("autoscaler", "reason"),
    [
        pytest.param("HorizontalPodAutoscaler web", "ForeignOwner", id="an HPA"),
        pytest.param(UNREAD, "AutoscalersUnread", id="there may be one"),
    ],
)
def test_no_count_is_raised_beside_an_hpa_during_a_move(autoscaler: str, reason: str) -> None:
    found = decided(9, 6, annotations=note(5), autoscaler=autoscaler)
    assert (found.verdict, found.replicas, found.reason) == ("hold", 6, reason)


def test_a_count_that_a_move_has_changed_is_nobody_elses() -> None:
    past = remember(begin(NOW - 60, 5), decided(5, 5))
    during = decided(5, 6, past=past, annotations=NOTED)
    past = remember(past, during)
    after = remember(past, decided(5, 5, past=past))
    assert (past.foreign, past.count, after.foreign) == ((), 5, ())


def note(count: int, phase: Phase = "wait") -> dict[str, str]:
    """The annotation of a move that began at this count."""
    return {SURGE: msgspec.json.encode(Note("web-1", "uid-1", "a", count, phase, NOW, NOW + 300)).decode()}


@pytest.mark.parametrize(
    ("current", "wish", "annotations", "wishes"),
    [
        pytest.param(5, 5, note(4), [4], id="no change, while one more is there"),
        pytest.param(5, 3, note(4), [3, 4], id="fewer"),
        pytest.param(5, 7, note(4), [7, 4], id="more"),
        pytest.param(4, 4, note(4, "up"), [4], id="no change, before one more is there"),
        pytest.param(5, 5, NOTED, [5, 4], id="a note that cannot be read"),
        pytest.param(5, 5, {}, [5, 4], id="no move"),
    ],
)
def test_a_replica_that_a_move_adds_is_no_wish(
    current: int, wish: int, annotations: dict[str, str], wishes: list[int]
) -> None:
    past = remember(begin(NOW - 60, 4), decided(4, 4))
    during = decided(wish, current, past=past, annotations=annotations)
    assert during.replicas == max(current, wish)
    assert remember(past, during).wishes(NOW - 300) == wishes


PODS_RATE = RateLimit(up=(Rate("Pods", 2, 30),))


@pytest.mark.parametrize(
    ("current", "limit", "replicas"),
    [
        pytest.param(10, PODS_RATE, 12, id="a rate, in a surge"),
        pytest.param(9, PODS_RATE, 11, id="a rate, before it adds one"),
        pytest.param(10, RateLimit(up=(Rate("Pods", 1, 30),)), 11, id="a rate of one"),
        pytest.param(10, Rollout(forbids="both"), 10, id="no change may be made"),
    ],
)
def test_a_surge_takes_no_room_to_grow(current: int, limit: Strategy, replicas: int) -> None:
    """It would starve a workload of which pod after pod is moved."""
    rollout = "going on" if isinstance(limit, Rollout) else ""
    found = decided(19, current, limits=(limit,), annotations=note(9), rollout=rollout)
    assert (found.replicas, found.verdict) == (replicas, "hold" if replicas == current else "scale")


@pytest.mark.parametrize(
    ("current", "phase", "wish", "later", "replicas"),
    [
        pytest.param(9, "up", 10, 0.0, 9, id="it is about to add one"),
        pytest.param(9, "up", 10, 31.0, 10, id="it does not come to that"),
        pytest.param(9, "up", 11, 0.0, 11, id="two more cannot be taken for its own"),
        pytest.param(10, "wait", 11, 0.0, 11, id="its own is there"),
        pytest.param(9, "down", 10, 0.0, 9, id="it has just taken it away"),
        pytest.param(9, "out", 10, 0.0, 9, id="it has just taken it away, after an eviction"),
        pytest.param(9, "back", 10, 400.0, 9, id="it has just taken it back"),
        pytest.param(9, "down", 10, 421.0, 10, id="its note is not removed"),
        pytest.param(9, "down", 8, 0.0, 9, id="fewer, as always"),
    ],
)
def test_one_more_waits_while_a_surge_changes_the_count(
    current: int, phase: Phase, wish: int, later: float, replicas: int
) -> None:
    begun = Note("web-1", "uid-1", "a", 9, phase, NOW - later, NOW - later + 300)
    found = decided(wish, current, annotations={SURGE: msgspec.json.encode(begun).decode()})
    assert found.replicas == replicas


@pytest.mark.parametrize("answer", ["done", ""], ids=["it was made", "the daemon was killed before the answer"])
def test_a_change_during_a_surge_begins_without_its_replica(answer: str) -> None:
    past = remember(begin(NOW - 60, 9), decided(9, 9))
    scaled = decided(20, 10, past=past, limits=(PODS_RATE,), annotations=note(9))
    past = remember(past, scaled)
    past = carry(past, Outcome(scaled.id, NOW, "p", scaled.workload, "done", 10, 12)) if answer else settle(past, 12)
    assert [(change.before, change.after) for change in past.changes] == [(9, 12)]
    assert decided(20, 12, past=past, limits=(PODS_RATE,)).replicas == 12


@pytest.mark.parametrize(("count", "wishes"), [(9, [9]), (8, [10])], ids=["in a surge", "somebody set another count"])
def test_a_new_leader_takes_no_surge_for_wanted(count: int, wishes: list[int]) -> None:
    """Its journal begins, and a restart after that reads it again."""
    shown = decided(10, 10, annotations=note(count))
    for record in (shown, msgspec.json.decode(msgspec.json.encode(shown), type=Decision)):
        journal = Journal()
        journal.append(replace(record, interval_by="policy"))
        past = journal.past("p", shown.workload, NOW + 1, count, acts=True)
        assert past.wishes(NOW - 300) == wishes


THEIRS = "HorizontalPodAutoscaler theirs"


@pytest.mark.parametrize(
    ("during", "strike"),
    [
        pytest.param({"autoscaler": THEIRS}, False, id="it yields to an autoscaler"),
        pytest.param({"annotations": {FENCE: "back"}}, False, id="the workload changes hands"),
        pytest.param({"annotations": {FENCE: "back"}, "autoscaler": THEIRS}, False, id="both"),
        pytest.param({"autoscaler": UNREAD}, False, id="autoscalers are unread"),
        pytest.param({"annotations": {FREEZE: "both"}}, True, id="a freeze"),
        pytest.param({}, True, id="nothing"),
    ],
)
def test_what_an_autoscaler_sets_is_no_strike(during: dict[str, Any], strike: bool) -> None:
    past = replace(begin(NOW - 60, 9), changes=(Change(NOW - 60, 5, 9, "Wanted"),), count=9)
    after = remember(past, decided(9, 5, past=past, **during))
    assert after.count == 5
    assert bool(strikes(after.changes, after.foreign)) == strike
    assert decided(9, 5, past=after, foreign=Foreign(strikes=1)).replicas == (5 if strike else 9)
