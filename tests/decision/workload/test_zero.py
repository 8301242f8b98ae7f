"""Zero by decision and zero by a person, and that each is what it was after any restart."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elasticd.api import Observation, Recommendation, Strategy, hookimpl
from elasticd.base.clock import VirtualClock
from elasticd.cluster.dry_run import DryRun
from elasticd.cluster.simulated import Simulated
from elasticd.cluster.simulated.options import NodeTable, WorkloadTable
from elasticd.decision.decide import decide
from elasticd.decision.workload.asking import Case
from elasticd.decision.workload.zero import REVISION, ZERO, markings, paused
from elasticd.journal import Journal
from elasticd.kit.history import begin, remember
from elasticd.model.actions import Action, Answer, Mark, Scale
from elasticd.model.history import Past
from elasticd.model.policy import Bounds, Policy, Target, Trust
from elasticd.model.records import Decision, Outcome
from elasticd.model.workload import Ref, Workload
from elasticd.ports.cluster import Cluster
from elasticd.registry import Hooks
from elasticd.runtime.loop import Loop
from elasticd.testing import observation
from tests.kit import faults

REF = Ref("default", "Deployment", "web")
TO_ZERO = Mark(REF, "uid", {ZERO: "p"}, reason="goes to 0 by decision", version="1")
RUNS = Mark(REF, "uid", {ZERO: None}, reason="runs again", version="1")


AGAIN = Mark(REF, "uid", {ZERO: "p"}, reason="is at 0 by decision", version="1")
CAME_BACK = Mark(REF, "uid", {ZERO: None}, reason="came with a rollback", version="1")
OTHERS = begin(0.0, 2)
"""Nothing is known of a zero by decision."""
OURS = replace(OTHERS, zero="3")
"""The workload was last at 0 by decision, with the third revision."""


def web(replicas: int, marked: bool = False, revision: str = "", **more: Any) -> Workload:
    annotations = {ZERO: "p"} if marked else {"other": "x"}
    return Workload(
        REF, "uid", "1", replicas, annotations=annotations | ({REVISION: revision} if revision else {}), **more
    )


@pytest.mark.parametrize(
    ("workload", "past", "reason"),
    [
        pytest.param(web(0, revision="4", undone=True), OURS, None, id="a rollback took the mark away"),
        pytest.param(web(0, revision="3", undone=True, rollout="0 of 0"), OURS, None, id="it just does"),
        pytest.param(web(0, revision="3", undone=True), OURS, "ScaledToZeroByHand", id="a person took it away"),
        pytest.param(
            web(0, revision="4"), OURS, "ScaledToZeroByHand", id="a person replaced it all, with another image"
        ),
        pytest.param(web(0, revision="3", rollout="0 of 0"), OURS, "ScaledToZeroByHand", id="a person just did"),
        pytest.param(web(0, revision="4", undone=True), OTHERS, "ScaledToZeroByHand", id="a rollback of a person's"),
    ],
)
def test_a_rollback_takes_no_zero_away(workload: Workload, past: Past, reason: str | None) -> None:
    found = paused(workload, Bounds(5, 0), past)
    assert (found and found[0]) == reason


def test_a_zero_is_woken_though_a_rollback_took_its_mark() -> None:
    past, voices, counts = begin(0.0, 2), (Wants(replicas=3),), []
    for at, seen in (
        (10.0, web(0, marked=True, revision="3")),
        (20.0, web(0, revision="3", undone=True, rollout="0 of 0")),
        (30.0, web(0, revision="4", undone=True)),
        (40.0, web(0, marked=True, revision="4")),
        (50.0, web(0, revision="4")),
    ):
        shown = replace(observation([], replicas=0), workload=seen, at=at, confirmed=at)
        decision = decide(Case(policy(*voices), shown, past, Hooks(voices)))
        past = remember(past, decision)
        counts.append((decision.replicas, [mark.reason for mark in decision.marks]))
    again = ["is at 0 by decision"]
    assert counts == [(3, []), (3, again), (3, again), (3, []), (0, [])]


class Story:
    """What is decided about web, of which a journal remembers what was."""

    def __init__(self) -> None:
        self.journal = Journal()

    def look(self, at: float, seen: Workload, name: str = "p") -> tuple[int, str | None]:
        """The count that a policy decides on, and what it remembers of a zero by decision."""
        voices = (Wants(replicas=3),)
        shown = replace(observation([], replicas=seen.replicas), workload=seen, at=at, confirmed=at)
        past = self.journal.past(name, REF, at, seen.replicas, seen.uid, acts=True)
        decision = decide(Case(replace(policy(*voices), name=name), shown, past, Hooks(voices)))
        self.journal.append(decision)
        return decision.replicas, self.journal.past(name, REF, at, seen.replicas, seen.uid, acts=True).zero


UNDONE = web(0, revision="9", undone=True)


@pytest.mark.parametrize(
    ("seconds", "name", "uid", "woken"),
    [
        pytest.param(10.0, "p", "uid", True, id="a rollback"),
        pytest.param(10.0, "other", "uid", True, id="a rollback, under another policy"),
        pytest.param(10.0, "p", "new", False, id="a rollback of a later Deployment of its name"),
        pytest.param(7 * 86400.0, "p", "uid", False, id="a week after this daemon last looked"),
    ],
)
def test_what_is_remembered_of_a_zero_holds_only_here(seconds: float, name: str, uid: str, woken: bool) -> None:
    story = Story()
    assert story.look(0.0, web(0, marked=True, revision="3")) == (3, "3")
    assert story.look(seconds, replace(UNDONE, uid=uid), name) == ((3, "3") if woken else (0, None))


def test_a_persons_zero_is_woken_by_no_later_rollback() -> None:
    story = Story()
    assert story.look(0.0, web(0, marked=True, revision="3")) == (3, "3")
    assert story.look(10.0, web(0, revision="3")) == (0, None), "a person removed the mark"
    assert story.look(20.0, UNDONE) == (0, None)


def test_a_zero_that_was_woken_is_forgotten() -> None:
    story = Story()
    assert story.look(0.0, web(0, marked=True, revision="3")) == (3, "3")
    assert story.look(10.0, web(3, revision="3")) == (3, None)
    assert story.look(20.0, UNDONE) == (0, None)


@pytest.mark.parametrize(
    ("workload", "least", "reason"),
    [
        pytest.param(web(3), 0, None, id="it runs"),
        pytest.param(web(3), 1, None, id="it runs, and must"),
        pytest.param(web(0), 1, "ScalingDisabled", id="a person's pause, as the HPA has it"),
        pytest.param(web(0), 0, "ScaledToZeroByHand", id="a person's zero"),
        pytest.param(web(0, marked=True), 0, None, id="zero by decision"),
        pytest.param(web(0, marked=True), 2, None, id="zero by decision, before min was raised"),
    ],
)
def test_who_is_left_alone_at_zero(workload: Workload, least: int, reason: str | None) -> None:
    found = paused(workload, Bounds(5, least), OTHERS)
    assert (found and found[0]) == reason


@pytest.mark.parametrize(
    ("workload", "after", "past", "marks"),
    [
        pytest.param(web(3), 0, OTHERS, (TO_ZERO,), id="before it goes to zero"),
        pytest.param(web(3, marked=True), 0, OTHERS, (), id="which is not written twice"),
        pytest.param(web(0, marked=True), 0, OTHERS, (), id="at zero"),
        pytest.param(web(0, marked=True), 2, OTHERS, (), id="not while it is woken, which may fail"),
        pytest.param(web(2, marked=True), 2, OTHERS, (RUNS,), id="once it runs"),
        pytest.param(web(2, marked=True), 5, OTHERS, (RUNS,), id="and is to grow"),
        pytest.param(web(2), 5, OTHERS, (), id="never marked"),
        pytest.param(web(0), 2, OTHERS, (), id="nor at a person's zero"),
        pytest.param(web(0, revision="4", undone=True), 0, OURS, (AGAIN,), id="again, where a rollback took it away"),
        pytest.param(
            web(0, revision="4", undone=True, rolled_back=(ZERO,)), 0, OURS, (CAME_BACK,), id="one at a time, at zero"
        ),
        pytest.param(web(0, rolled_back=(ZERO,)), 0, OTHERS, (CAME_BACK,), id="none, where one brought it back"),
        pytest.param(web(2, rolled_back=(ZERO,)), 2, OTHERS, (CAME_BACK,), id="nor above zero"),
        pytest.param(web(2, rolled_back=(ZERO,)), 0, OTHERS, (CAME_BACK, TO_ZERO), id="which is made its own first"),
    ],
)
def test_what_is_written_before_a_change(workload: Workload, after: int, past: Past, marks: tuple[Mark, ...]) -> None:
    assert markings("p", workload, after, past) == marks


class Wants(Strategy, tag="wants", frozen=True):
    """Wants a count. None: it cannot know."""

    replicas: int | None = 0

    @hookimpl
    def recommend_replicas(self) -> Recommendation:
        return Recommendation(self.replicas, "Wanted")


HOLD = Trust()


def policy(*voices: Strategy, least: int = 0, mode: Any = "act", trust: Trust = HOLD) -> Policy:
    target = Target("default", "web")
    bounds = Bounds(9, least)
    return Policy(name="p", replicas=bounds, strategies=voices, workload=target, mode=mode, interval=10.0, trust=trust)


def judged(wish: int | None, seen: Observation, **options: Any) -> Decision:
    voices = (Wants(replicas=wish),)
    return decide(Case(policy(*voices, **options), seen, begin(seen.at - 900, 2), Hooks(voices)))


def test_a_decision_for_zero_is_marked_and_others_are_not() -> None:
    seen = observation([0.5] * 2)
    assert [mark.annotations for mark in judged(0, seen).marks] == [{ZERO: "p"}]
    assert judged(1, seen).marks == ()
    assert judged(0, seen, least=1).marks == ()


def test_a_fallback_to_zero_is_a_decision_too() -> None:
    trust = Trust(unknown="fallback", replicas=0, after=0, may_lower=True)
    decision = judged(None, observation([0.5] * 2), trust=trust)
    assert (decision.replicas, [mark.annotations for mark in decision.marks]) == (0, [{ZERO: "p"}])


@given(st.integers(0, 5), st.booleans(), st.none() | st.integers(0, 9), st.integers(0, 2))
def test_zero_set_by_a_person_stays_and_others_are_marked(
    current: int, marked: bool, wish: int | None, least: int
) -> None:
    shown = observation([0.5] * min(current, 3), replicas=current)
    decision = judged(wish, replace(shown, workload=replace(web(current, marked), ref=REF)), least=least)
    if current == 0 and not marked:
        assert (decision.verdict, decision.replicas, decision.marks) == ("hold", 0, ())
    if decision.action and decision.action.after == 0:
        assert marked or any(mark.annotations == {ZERO: "p"} for mark in decision.marks)
    if current == 0:
        assert decision.marks == ()


class Told(faults.Told):
    """Remembers what came of each action, also of those that were not done."""

    def __init__(self) -> None:
        super().__init__(least=0)
        self.outcomes: list[Outcome] = []

    def acted(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)


class Town:
    """A simulated workload of which a person may change the count, and daemons that come and go."""

    def __init__(self, dry: bool = False, forbids: bool = False) -> None:
        self.clock = VirtualClock(0.0)
        nodes = (NodeTable(name="node", cpu="8", memory="16Gi"),)
        simulated = Simulated(nodes=nodes, workloads=(WorkloadTable(name="web", replicas=2),))
        self.real: Cluster = simulated.build(self.clock)
        self.cluster: Cluster = DryRun(self.real) if dry else Guarded(self.real) if forbids else self.real
        self.loop = self.daemon()

    def daemon(self) -> Loop:
        """A daemon that knows nothing of those before it."""
        self.journal, self.told = Journal(), Told()
        self.loop = Loop(self.cluster, self.journal, self.clock, [self.told], idle=float("inf"))
        return self.loop

    async def wanted(self, replicas: int | None, mode: Any = "act", looks: int = 3) -> Decision:
        """The last decision of some looks, while so many are wanted."""
        self.loop.apply([policy(Wants(replicas=replicas), mode=mode)])
        await self.loop.tick(self.clock.now())
        for _ in range(looks):
            await self.loop.step()
            await self.loop.actions.drain()
        found = self.journal.latest("p", REF)
        assert found is not None
        return found

    async def now(self, cluster: Cluster | None = None) -> Workload:
        """The workload as it is."""
        snapshot = await (cluster or self.cluster).observe(self.clock.now(), frozenset({("apps/v1", "Deployment")}))
        found = snapshot.workload(REF)
        assert found is not None
        return found

    async def by_hand(self, replicas: int) -> None:
        """A person changes the count."""
        seen = await self.now(self.real)
        action = Scale(REF, seen.uid, seen.version, seen.replicas, replicas, "kubectl scale")
        assert (await self.real.act(action)).result == "done"


class Guarded:
    """A cluster that lets nobody annotate."""

    def __init__(self, inner: Cluster) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def act(self, action: Action) -> Answer:
        """Everything but marks."""
        if isinstance(action, Mark):
            return Answer("failed", 403, "may not patch deployments", "Forbidden")
        return await self._inner.act(action)


async def test_zero_by_decision_is_woken_by_whoever_comes_next() -> None:
    town = Town()
    assert (await town.wanted(0)).current == 0
    assert (await town.now()).annotations == {ZERO: "p"}
    town.daemon()
    assert (await town.wanted(3)).current == 3
    assert (await town.now()).annotations == {}


async def test_zero_by_hand_stays_until_a_person_ends_it() -> None:
    town = Town()
    await town.wanted(0)
    await town.wanted(2)
    await town.by_hand(0)
    for _ in range(2):
        decision = await town.wanted(5)
        assert (decision.verdict, decision.reason, decision.current) == ("hold", "ScaledToZeroByHand", 0)
        town.daemon()
    await town.by_hand(1)
    assert (await town.wanted(5)).current == 5
    assert (await town.wanted(0)).current == 0
    assert (await town.wanted(4)).current == 4


async def test_a_second_zero_by_a_person_counts_as_by_hand() -> None:
    town = Town()
    await town.wanted(0)
    await town.by_hand(2)
    await town.wanted(2)
    await town.by_hand(0)
    assert (await town.wanted(5)).reason == "ScaledToZeroByHand"


async def test_without_the_annotate_right_only_scaling_to_zero_is_refused() -> None:
    town = Town(forbids=True)
    assert (await town.wanted(0)).current == 2
    (line,) = {(one.result, one.reason, one.message) for one in town.told.outcomes}
    told = "default/Deployment/web could not be marked (goes to 0 by decision): may not patch deployments"
    assert line == ("failed", "Forbidden", told)
    assert (await town.wanted(5)).current == 5
    assert (await town.wanted(0)).current == 5


async def test_while_it_only_observes_nothing_is_written() -> None:
    town = Town()
    await town.wanted(0, mode="observe")
    assert ((await town.now()).replicas, (await town.now()).annotations) == (2, {})


async def test_a_dry_run_reaches_zero_and_returns_but_writes_nothing() -> None:
    town = Town(dry=True)
    assert (await town.wanted(0)).current == 0
    assert (await town.wanted(3)).current == 3
    assert (await town.now()).annotations == {}
    real = await town.now(town.real)
    assert (real.replicas, real.annotations) == (2, {})


async def test_a_stale_write_does_not_clear_the_zero_mark() -> None:
    """As when the reply to a scale was lost, and what was seen is older than that."""
    town = Town()
    await town.wanted(0)
    await town.by_hand(2)
    (stale,) = markings("p", await town.now(), 2, OTHERS)
    await town.by_hand(0)
    answer = await town.cluster.act(stale)
    assert (answer.result, answer.reason) == ("conflict", "Conflict")
    assert (await town.now()).annotations == {ZERO: "p"}
