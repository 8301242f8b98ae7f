"""What was disturbed before a daemon began counts in its budgets, and what it cannot know counts as spent."""

import asyncio
import math
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from elasticd.base.clock import VirtualClock
from elasticd.cluster.disruption import DisruptionGuard, DisruptionSettings
from elasticd.cluster.replacements import REPLACING
from elasticd.journal import Journal, read
from elasticd.kit.surge import SURGE
from elasticd.model.actions import Answer, Scale
from elasticd.model.disruption import Disruption
from elasticd.model.listener import MoveTakenBack
from elasticd.model.workload import Pod, Quality, Ref, Series, Workload
from tests.cluster.test_disruption import Behind, evict, moved, surge
from tests.kit.pools import NOW, node, pod
from tests.kit.records import decision

SETTINGS = DisruptionSettings(within=600.0, total=2)
OLD = Disruption(NOW - 100_000, "a", "rs", "shop", "uid-old")
SPENT = "2 pods of the cluster went within 600 s, and 2 may"


class Daemon:
    """One life of a daemon's budgets."""

    def __init__(
        self,
        journal: Journal,
        at: float,
        taken_over: float | None,
        last_disruption: float,
        settings: DisruptionSettings,
    ) -> None:
        self.clock, self.behind = VirtualClock(at), Behind([node(name) for name in "abcd"])
        self.behind.taken_over, self.behind.last_disruption = taken_over, last_disruption
        self.measured: dict[str, Callable[[], tuple[int, int]]] = {}
        self.journal = journal
        self.guard = DisruptionGuard(self.behind, settings, self.clock, self.measured, journal)

    async def refusal(self, name: str) -> str:
        """Why a pod is not evicted; empty: it is."""
        return (await self.guard.act(evict(name))).message


@contextmanager
def daemon(
    folder: Path,
    at: float = NOW,
    taken_over: float | None = -math.inf,
    last_disruption: float = -math.inf,
    settings: DisruptionSettings = SETTINGS,
) -> Iterator[Daemon]:
    with closing(Journal(folder, now=at)) as journal:
        yield Daemon(journal, at, taken_over, last_disruption, settings)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A journal that was begun long ago."""
    with closing(Journal(tmp_path)) as journal:
        journal.append(OLD)
    return tmp_path


async def look(one: Daemon, nodes: str) -> str:
    """What the breaker says once these nodes are there."""
    one.behind.nodes = tuple(node(name) for name in nodes)
    await one.guard.observe(one.clock.now(), frozenset())
    return one.guard.disruption(one.clock.now()).breaker


def decide(journal: Journal, at: float, known: int) -> None:
    """Decide about ten workloads one after the other, of which so many have their series."""
    for number in range(10):
        series = Series("q", "s", Quality.FRESH, presumed=number >= known)
        ref = Ref("shop", "Deployment", f"w{number}")
        journal.append(decision(at, workload=ref, series=(series,)))


@pytest.mark.parametrize(
    ("lost_for", "reason"),
    [pytest.param(20.0, "Breaker", id="a moment ago"), pytest.param(700.0, "", id="long ago: nothing is needed")],
)
async def test_series_that_were_lost_are_known_after_a_restart(folder: Path, lost_for: float, reason: str) -> None:
    with closing(Journal(folder)) as journal:
        decide(journal, NOW - lost_for - 1, known=10)
        decide(journal, NOW - lost_for, known=2)
    with daemon(folder) as one:
        decide(one.journal, NOW, known=2)
        fewer = Scale(Ref("shop", "Deployment", "w9"), "uid", "1", 4, 1, "why")
        answer = await one.guard.act(fewer)
        assert answer.reason == reason
        said = "8 of 10 series were lost within 10 minutes"
        assert answer.message == (said if reason else "")


async def test_nodes_that_disappeared_are_known_after_a_restart(folder: Path) -> None:
    lost = "4 of 11 nodes are ready; 7 disappeared within 10 minutes"
    with daemon(folder) as one:
        assert await look(one, "abcdefghijk") == ""
        await one.clock.sleep_until(NOW + 890)
        assert await look(one, "abcdefghijk") == ""
        await one.clock.sleep_until(NOW + 900)
        assert await look(one, "abcd") == lost
    with daemon(folder, NOW + 1000) as one:
        assert await look(one, "abcd") == lost
        await one.clock.sleep_until(NOW + 1501)
        assert await look(one, "abcd") == ""


async def test_nodes_that_disappear_without_a_daemon_are_missed(folder: Path) -> None:
    with daemon(folder) as one:
        assert await look(one, "abcd") == ""
        assert await one.refusal("p0") == ""
    with daemon(folder, NOW + 60) as one:
        assert await look(one, "a") == "1 of 4 nodes are ready; 3 disappeared within 10 minutes"


async def test_a_slow_eviction_counts_from_its_end_after_a_restart(folder: Path) -> None:
    with daemon(folder) as one:
        one.behind.lasts = lambda: one.clock.sleep_until(NOW + 100)
        assert [await one.refusal("p0"), await one.refusal("p1")] == ["", ""]
    with daemon(folder, NOW + 650) as one:
        assert await one.refusal("p2") == SPENT
    with daemon(folder, NOW + 701) as one:
        assert await one.refusal("p2") == ""


async def test_an_eviction_that_was_cut_off_counts_from_then(folder: Path) -> None:
    with daemon(folder) as one:

        async def cut_off() -> None:
            await one.clock.sleep_until(NOW + 90)
            raise asyncio.CancelledError

        one.behind.lasts = cut_off
        with pytest.raises(asyncio.CancelledError):
            await one.refusal("p0")
    with daemon(folder, NOW + 650, last_disruption=NOW + 90) as one:
        assert [await one.refusal(name) for name in "xy"] == ["", SPENT]


async def test_evictions_before_a_restart_count(folder: Path) -> None:
    refusals = []
    for second in range(4):
        with daemon(folder, NOW + second) as one:
            refusals.append(await one.refusal(f"p{second}"))
    assert refusals == ["", "", SPENT, SPENT]
    with daemon(folder, NOW + 600.5) as one:
        assert [await one.refusal(name) for name in ("x", "y")] == ["", SPENT]


@pytest.mark.parametrize("back", [30.0, 1000.0, 90_000.0], ids=["30 s", "more than within", "more than a day"])
async def test_evictions_count_after_the_clock_was_set_back(folder: Path, back: float) -> None:
    """They count from the restart on, or from what was written next: when they were is not known any more."""
    with daemon(folder) as one:
        assert [await one.refusal(name) for name in "pq"] == ["", ""]
    for later in (0, 500):
        with daemon(folder, NOW - back + later) as one:
            assert await one.refusal("x") == SPENT
    with daemon(folder, NOW - back + 500) as one:
        await one.clock.sleep_until(NOW - back + 1101)
        assert [await one.refusal(name) for name in "xyz"] == ["", "", SPENT]
    with daemon(folder, NOW - back + 1702) as one:
        assert [await one.refusal(name) for name in "vw"] == ["", ""]


async def test_what_was_taken_back_counts_no_more_then(folder: Path) -> None:
    with daemon(folder) as one:
        await one.refusal("p")
        one.guard.on(MoveTakenBack("uid-p"))
    with daemon(folder, NOW - 1000) as one:
        assert [await one.refusal(name) for name in "xyz"] == ["", "", SPENT]


async def test_after_a_restart_a_surge_counts_from_its_eviction_on(folder: Path) -> None:
    with daemon(folder) as one:
        await one.guard.act(surge())
    with daemon(folder, NOW + 500) as one:
        out = replace(evict(), reason=f"{SURGE} out")
        assert (await one.guard.act(out)).result == "done"
    with daemon(folder, NOW + 700) as one:
        assert [await one.refusal(name) for name in ("x", "y")] == ["", SPENT]


async def test_a_successor_ends_no_surge_while_budgets_are_unknown(folder: Path) -> None:
    with daemon(folder, taken_over=NOW) as one:
        answer = await one.guard.act(replace(evict(), reason=f"{SURGE} out"))
    assert answer.reason == "Disturbed"
    assert "another daemon led" in answer.message


STATEFUL = Workload(Ref("shop", "StatefulSet", "web"), "uid-web", "1", 4, 4)
CUSTOM = replace(STATEFUL, ref=Ref("shop", "Rollout", "web", "argoproj.io/v1alpha1"))
DEPLOYMENT = replace(STATEFUL, ref=Ref("shop", "Deployment", "web"))


def pods(*unready: int, of: int = 4, first: int = 0) -> tuple[Pod, ...]:
    """The pods of web, ready but for these."""
    owner = ("StatefulSet", "web", "uid-set")
    ordinals = range(first, first + of)
    return tuple(pod(f"web-{index}", on="a", ready=index not in unready, owner=owner) for index in ordinals)


async def scaled_in(one: Daemon, workload: Workload, pods: tuple[Pod, ...], after: int, reason: str = "why") -> str:
    """Why a workload with these pods is not scaled in; empty: it is."""
    one.behind.workload, one.behind.pods = workload, pods
    await one.guard.observe(one.clock.now(), frozenset())
    return (await one.guard.act(Scale(workload.ref, workload.uid, "1", workload.replicas, after, reason))).reason


@pytest.mark.parametrize(
    ("taken_over", "noted", "seconds", "reason"),
    [
        pytest.param(NOW, NOW, REPLACING - 1, "NotReplaced", id="one may have been moved before"),
        pytest.param(NOW, NOW, REPLACING, "", id="long ago, if at all"),
        pytest.param(NOW, NOW - REPLACING + 1, 0.5, "NotReplaced", id="who led before tells of one"),
        pytest.param(NOW, NOW - REPLACING, 0.5, "", id="who led before tells of none of late"),
        pytest.param(NOW, -math.inf, 1, "", id="who led before moved none"),
        pytest.param(NOW + 600, NOW + 600, REPLACING + 1, "NotReplaced", id="it stood by for long, and leads"),
        pytest.param(-math.inf, -math.inf, 1, "", id="it was restarted, and its journal tells of none of late"),
        pytest.param(-math.inf, NOW - 1, 1, "NotReplaced", id="it was restarted, and its journal is an older copy"),
        pytest.param(None, -math.inf, 1, "", id="nobody else can have moved one"),
    ],
)
async def test_a_successor_scales_no_stateful_set_in_at_once(
    folder: Path, taken_over: float | None, noted: float, seconds: float, reason: str
) -> None:
    with daemon(folder, NOW, taken_over, noted) as one:
        await one.clock.sleep_until(NOW + seconds)
        assert await scaled_in(one, STATEFUL, pods(0), 3) == reason


@pytest.mark.parametrize(
    ("workload", "controller", "at", "reason"),
    [
        pytest.param(STATEFUL, "uid-web", NOW - 1, "NotReplaced", id="one of its own"),
        pytest.param(STATEFUL, "uid-web", NOW - REPLACING, "", id="one of its own, long ago"),
        pytest.param(STATEFUL, "uid-other", NOW - 1, "", id="another's"),
        pytest.param(CUSTOM, "uid-set", NOW - 1, "NotReplaced", id="one of its set"),
        pytest.param(DEPLOYMENT, "uid-set", NOW - 1, "", id="of a Deployment, which loses the unready one"),
    ],
)
async def test_a_restarted_daemon_knows_whose_pods_it_moved(
    folder: Path, workload: Workload, controller: str, at: float, reason: str
) -> None:
    with closing(Journal(folder)) as journal:
        journal.append(Disruption(at, "a", controller, "shop", "uid-moved"))
    with daemon(folder, last_disruption=at) as one:
        assert await scaled_in(one, workload, pods(0), 3) == reason


async def test_a_move_of_ones_own_hides_none_of_others(folder: Path) -> None:
    with daemon(folder, NOW, NOW - 99, NOW - 99, replace(SETTINGS, within=60.0)) as one:
        assert await one.refusal("p0") == ""
        one.behind.last_disruption = NOW
        assert await scaled_in(one, STATEFUL, pods(0), 3) == "NotReplaced"


async def test_a_move_of_ones_own_is_none_of_others(folder: Path) -> None:
    with daemon(folder, NOW, NOW - 700, NOW - 700) as one:
        assert await one.refusal("p0") == ""
        one.behind.last_disruption = NOW
        assert await scaled_in(one, STATEFUL, pods(0), 3) == ""


@pytest.mark.parametrize(
    ("workload", "unready", "after", "held"),
    [
        pytest.param(STATEFUL, (0,), 3, True, id="a ready one goes, and the unready one stays"),
        pytest.param(STATEFUL, (3,), 3, False, id="the unready one goes"),
        pytest.param(STATEFUL, (0, 3), 3, False, id="the unready one goes, and another stays"),
        pytest.param(replace(STATEFUL, min_ready=9.0), (), 3, True, id="none that stays is available yet"),
        pytest.param(STATEFUL, (2, 3), 1, False, id="all that stay are ready"),
        pytest.param(STATEFUL, (0, 1, 2, 3), 2, False, id="none is ready"),
        pytest.param(STATEFUL, (0,), 0, False, id="none is to stay"),
        pytest.param(replace(STATEFUL, first_ordinal=2), (5,), 3, False, id="the unready one goes, of higher ordinals"),
        pytest.param(replace(STATEFUL, first_ordinal=2), (2,), 3, True, id="a ready one goes, of higher ordinals"),
        pytest.param(CUSTOM, (3,), 3, True, id="nobody knows which goes"),
        pytest.param(CUSTOM, (), 3, False, id="all are ready"),
        pytest.param(CUSTOM, (0, 1, 2, 3), 3, False, id="none is ready of it either"),
        pytest.param(CUSTOM, (0,), 0, False, id="none of it is to stay"),
    ],
)
async def test_only_what_may_cost_a_ready_pod_is_held(
    folder: Path, workload: Workload, unready: tuple[int, ...], after: int, held: bool
) -> None:
    shown = pods(*unready, first=workload.first_ordinal)
    with daemon(folder, NOW, NOW, NOW) as one:
        assert await scaled_in(one, workload, shown, after) == ("NotReplaced" if held else "")


async def test_what_delays_a_scale_in_delays_no_rollback(folder: Path) -> None:
    with daemon(folder, NOW, NOW, NOW) as one:
        assert await scaled_in(one, CUSTOM, pods(0), 3, "RolledBack: it went bad") == ""
        assert await scaled_in(one, CUSTOM, (), 3) == ""


@pytest.mark.parametrize(
    ("moved_at", "ready", "reason"),
    [
        pytest.param(NOW - 10, 3, "NotReplaced", id="one may have been moved"),
        pytest.param(NOW - REPLACING, 3, "", id="long ago, if at all"),
        pytest.param(NOW - 10, 4, "", id="all are ready"),
        pytest.param(-math.inf, 3, "", id="none ever was"),
    ],
)
@pytest.mark.parametrize("by", ["us", "another"])
@pytest.mark.parametrize("watched", [True, False], ids=["watched", "unwatched"])
async def test_a_successor_moves_no_second_pod_at_once(
    folder: Path, moved_at: float, ready: int, reason: str, by: str, *, watched: bool
) -> None:
    """Pods that are not ready may go."""
    if by == "us" and moved_at > -math.inf:
        with closing(Journal(folder)) as journal:
            journal.append(Disruption(moved_at, "a", "rs", "shop", "uid-gone"))
    noted = moved_at if by == "another" else -math.inf
    owner = ("ReplicaSet", "rs", "rs")
    pods = tuple(pod(f"p{index}", on="a", ready=index < ready, owner=owner) for index in range(4))
    with daemon(folder, taken_over=noted, last_disruption=noted, settings=DisruptionSettings(within=1.0)) as one:
        one.behind.pods, one.behind.loose = (pods, ()) if watched else ((), pods)
        one.behind.workload = replace(one.behind.workload, replicas=4, status_replicas=4)
        await one.guard.observe(NOW, frozenset())
        assert (await one.guard.act(moved("p0"))).reason == reason
        if ready < 4:
            assert (await one.guard.act(moved("p3"))).reason == ""


async def test_an_eviction_is_on_the_disk_before_it_is_done(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with daemon(folder) as one:
        found: list[object] = []

        async def act(_: object) -> Answer:
            found.extend(read(folder))
            return Answer("done")

        monkeypatch.setattr(one.behind, "act", act)
        await one.refusal("p")
    assert found == [OLD, Disruption(NOW, "a", "rs", "shop", "uid-p")]


async def test_what_was_not_done_counts_no_more_after_a_restart(folder: Path) -> None:
    with daemon(folder) as one:
        await one.refusal("taken-back")
        one.guard.on(MoveTakenBack("uid-taken-back"))
        one.behind.answer = Answer("conflict", message="it is gone")
        await one.refusal("gone")
    with daemon(folder, NOW + 1) as one:
        assert [await one.refusal(name) for name in "xyz"] == ["", "", SPENT]


async def test_what_may_have_been_done_counts_after_a_restart(folder: Path) -> None:
    with daemon(folder) as one:
        one.behind.answer = Answer("failed", message="no answer")
        await one.refusal("p")
    with daemon(folder, NOW + 1) as one:
        assert [await one.refusal(name) for name in "xy"] == ["", SPENT]


async def test_without_a_journal_to_write_to_nothing_is_evicted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(journal: Journal) -> None:
        journal.fault = "No space left"

    with daemon(folder) as one:
        with monkeypatch.context() as disk:
            disk.setattr(Journal, "flush", full)
            why = "the journal cannot be written, so a restart would forget it: No space left"
            assert await one.refusal("p") == why
            assert one.behind.done == []
        assert await one.refusal("x") == ""
    with daemon(folder, NOW + 1) as one:
        assert [await one.refusal(name) for name in "yz"] == ["", SPENT]


async def test_budgets_of_a_new_journal_count_as_spent(tmp_path: Path) -> None:
    with daemon(tmp_path) as one:
        await one.clock.sleep_until(NOW + 100)
        assert await one.refusal("p") == (
            "it is not known which pods went before, because this journal had not begun: "
            "the budgets of [disruption] count as spent for another 500 s"
        )
        await one.clock.sleep_until(NOW + 600)
        assert await one.refusal("p") == ""


async def test_budgets_count_as_spent_after_a_takeover(folder: Path) -> None:
    with daemon(folder) as one:
        await one.clock.sleep_until(NOW + 1000)
        assert await one.refusal("p") == ""
        one.behind.taken_over = NOW + 999
        assert "because another daemon led, or this one by another identity: " in await one.refusal("q")
        await one.clock.sleep_until(NOW + 1599)
        assert await one.refusal("q") == ""


async def test_budgets_count_as_spent_with_an_older_copy(folder: Path, tmp_path: Path) -> None:
    """As a state folder is that a backup was restored to: the Lease knows when the last pod went."""
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    with daemon(folder) as one:
        assert [await one.refusal(name) for name in "pqx"] == ["", "", SPENT]
    with daemon(copy, NOW + 20, last_disruption=NOW) as one:
        assert await one.refusal("x") == (
            "it is not known which pods went before, because the Lease tells of a later one than this journal, "
            "which is an older copy: the budgets of [disruption] count as spent for another 580 s"
        )
        await one.clock.sleep_until(NOW + 600)
        assert [await one.refusal(name) for name in "xyz"] == ["", "", SPENT]
    with daemon(folder, NOW + 601, last_disruption=NOW) as one:
        assert await one.refusal("x") == ""


async def test_a_surge_that_was_taken_back_is_not_missed(folder: Path) -> None:
    with daemon(folder) as one:
        await one.refusal("p")
        one.guard.on(MoveTakenBack("uid-p"))
    with daemon(folder, NOW + 20, last_disruption=NOW) as one:
        assert await one.refusal("x") == ""


async def test_where_nobody_acted_before_nothing_is_written(tmp_path: Path) -> None:
    with daemon(tmp_path, taken_over=None) as one:
        assert await one.refusal("p") == ""
    assert list(read(tmp_path)) == []
