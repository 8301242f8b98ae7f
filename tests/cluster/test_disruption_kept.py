"""What was disturbed before a daemon began counts in its budgets, and what it cannot know counts as spent."""

import math
import shutil
from collections.abc import Iterator
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
from elasticd.model.workload import Ref, Workload
from tests.cluster.test_disruption import Behind, evict, surge
from tests.kit.pools import NOW, node, pod

SETTINGS = DisruptionSettings(within=600.0, total=2)
OLD = Disruption(NOW - 100_000, "a", "rs", "shop", "uid-old")
SPENT = "2 pods of the cluster went within 600 s, and 2 may"


class Daemon:
    """One life of a daemon's budgets."""

    def __init__(self, journal: Journal, at: float, taken_over: float | None, last_disruption: float) -> None:
        self.clock, self.behind = VirtualClock(at), Behind([node(name) for name in "abcd"])
        self.behind.taken_over, self.behind.last_disruption = taken_over, last_disruption
        self.guard = DisruptionGuard(self.behind, SETTINGS, self.clock, journal=journal)

    async def refusal(self, name: str) -> str:
        """Why a pod is not evicted; empty: it is."""
        return (await self.guard.act(evict(name))).message


@contextmanager
def daemon(
    folder: Path, at: float = NOW, taken_over: float | None = -math.inf, last_disruption: float = -math.inf
) -> Iterator[Daemon]:
    with closing(Journal(folder, now=at)) as journal:
        yield Daemon(journal, at, taken_over, last_disruption)


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


@pytest.mark.parametrize(
    ("taken_over", "seconds", "ready", "reason"),
    [
        pytest.param(NOW, REPLACING - 1, 3, "NotReplaced", id="one may have been moved before"),
        pytest.param(NOW, REPLACING, 3, "", id="long ago, if at all"),
        pytest.param(NOW, 1, 4, "", id="all are ready"),
        pytest.param(NOW + REPLACING, REPLACING + 1, 3, "NotReplaced", id="it stood by for long, and leads"),
        pytest.param(-math.inf, REPLACING - 1, 3, "NotReplaced", id="it was restarted"),
        pytest.param(None, 1, 3, "", id="nobody else can have moved one"),
    ],
)
async def test_a_successor_scales_no_stateful_set_in_at_once(
    folder: Path, taken_over: float | None, seconds: float, ready: int, reason: str
) -> None:
    with daemon(folder, taken_over=taken_over) as one:
        stateful = Workload(Ref("shop", "StatefulSet", "web"), "uid-web", "1", 4, 4)
        one.behind.workload = stateful
        one.behind.pods = tuple(pod(f"web-{index}", on="a", ready=index < ready) for index in range(4))
        await one.clock.sleep_until(NOW + seconds)
        await one.guard.observe(one.clock.now(), frozenset())
        answer = await one.guard.act(Scale(stateful.ref, stateful.uid, "1", 4, 3, "why"))
    assert answer.reason == reason


async def test_where_no_pod_ever_moved_none_may_have_been(tmp_path: Path) -> None:
    with daemon(tmp_path, taken_over=NOW) as one:
        one.behind.workload = Workload(Ref("shop", "StatefulSet", "web"), "uid-web", "1", 4, 4)
        await one.guard.observe(NOW, frozenset())
        answer = await one.guard.act(Scale(one.behind.workload.ref, "uid-web", "1", 4, 3, "why"))
    assert answer.reason == ""


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
