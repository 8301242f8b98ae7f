"""A simulated cluster seen as a Cluster: snapshots, actions and their conflicts."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from elasticd.model.actions import Announce, Mark, Scale
from elasticd.model.workload import COST, Ref
from elasticd.ports.cluster import Cluster
from tests.cluster.simulated.test_kit import KINDS, START, WEB, Play, scale_to, web


async def test_a_snapshot_shows_the_workloads_of_the_requested_kinds() -> None:
    play = Play(web(), {"name": "db", "kind": "StatefulSet"})
    cluster: Cluster = play.cluster
    snapshot = await cluster.observe(START, frozenset({("apps/v1", "Deployment")}))
    assert [str(workload.ref) for workload in snapshot.workloads()] == ["default/Deployment/web"]
    assert snapshot.workload(Ref("default", "StatefulSet", "db")) is None
    assert snapshot.workload(Ref("default", "Deployment", "none")) is None
    found = snapshot.workload(WEB)
    assert found is not None
    assert (found.replicas, found.version, snapshot.selector_fault(found)) == (1, "1", "")


async def test_pods_are_ordered_by_name() -> None:
    pods = list(await Play(web(kind="StatefulSet", replicas=11)).pods(9))
    assert (pods, pods[2]) == (sorted(pods), "web-10")


async def test_an_older_snapshot_stays_as_it_was() -> None:
    play = Play(web(replicas=2))
    old = await play.look(0)
    before = old.workload(WEB)
    assert before is not None
    pods = old.pods(before)
    await play.scale(10, 5)
    await play.look(20)
    assert (old.workload(WEB), old.pods(before), old.confirmed) == (before, pods, START)


async def test_unchanged_objects_are_identical_in_the_next_snapshot() -> None:
    play = Play(web(replicas=2), {"name": "other", "replicas": 2})
    old, _ = await play.look(10), await play.scale(11, 3)
    new = await play.look(30)
    first, second = old.workload(WEB), new.workload(WEB)
    other = new.workload(Ref("default", "Deployment", "other"))
    assert first and second and other  # noqa: PT018
    assert old.pods(first)[0] is new.pods(second)[0]
    assert old.pods(other) is new.pods(other)


async def test_a_snapshot_knows_which_workloads_have_changed_since_another() -> None:
    play = Play(web(count=30, start_seconds=0))
    looks = [await play.look(0)]
    for number in range(1, 15):  # more than are kept apart from the others
        await play.scale(number, 5, f"web-{number}")
        looks.append(await play.look(number))
    for first, earlier in enumerate(looks):
        for last, later in enumerate(looks[first:], first):
            changed = later.changes_since(earlier)
            assert {ref.name for ref in changed or ()} == {f"web-{number}" for number in range(first + 1, last + 1)}


async def test_a_scale_that_fits_is_done_and_moves_the_version() -> None:
    play = Play(web(replicas=2))
    assert (await play.scale(10, 4)).result == "done"
    workload = await play.workload(10)
    assert (workload.replicas, workload.status_replicas, workload.version) == (4, 4, "2")
    assert (await play.workload(99)).version == "2"


async def test_a_scale_to_the_present_count_changes_nothing() -> None:
    play = Play(web(replicas=2))
    before = await play.workload(10)
    assert (await play.scale(10, 2)).result == "done"
    assert await play.workload(10) == before


@pytest.mark.parametrize(
    ("change", "result", "code", "message"),
    [
        pytest.param(
            lambda s: replace(s, uid="x"),
            "conflict",
            409,
            "uid was x, is ",
            id="another workload of that name",
        ),
        pytest.param(lambda s: replace(s, version="0"), "conflict", 409, "version was 0, is 1", id="older version"),
        pytest.param(lambda s: replace(s, before=7), "conflict", 409, "replicas was 7, is 2", id="other count"),
        pytest.param(
            lambda s: replace(s, workload=Ref("default", "Deployment", "gone")),
            "conflict",
            404,
            "there is no default/Deployment/gone",
            id="no such workload",
        ),
        pytest.param(lambda s: replace(s, after=-1), "failed", 422, "replicas must be >= 0, is -1", id="negative"),
    ],
)
async def test_a_scale_that_does_not_fit_changes_nothing(
    change: Callable[[Scale], Scale], result: str, code: int, message: str
) -> None:
    play = Play(web(replicas=2))
    workload = await play.workload(10)
    answer = await play.cluster.act(change(scale_to(workload, 5)))
    assert (answer.result, answer.code) == (result, code)
    assert answer.message.startswith(message)
    assert await play.workload(10) == workload


async def test_second_of_two_actions_on_the_same_view_conflicts() -> None:
    play = Play(web(replicas=2))
    action = scale_to(await play.workload(10), 3)
    assert [(await play.cluster.act(action)).result for _ in range(2)] == ["done", "conflict"]


async def test_an_action_happens_at_the_clock_s_time() -> None:
    play = Play(web(replicas=1))
    action = scale_to(await play.workload(10), 2)
    await play.clock.sleep_until(START + 12.5)
    await play.cluster.act(action)
    assert (await play.pods(20))["web-000002"].started == START + 12.5


async def test_announcements_are_kept_in_order_up_to_a_bound() -> None:
    play = Play(web())
    for number in range(1003):
        answer = await play.cluster.act(Announce(WEB, "uid", "Scaled", str(number)))
        assert answer.result == "done"
    kept = [announcement.message for announcement in play.cluster.announcements]
    assert (len(kept), kept[0], kept[-1]) == (1000, "3", "1002")


async def test_time_does_not_go_back_for_a_late_question() -> None:
    play = Play(web())
    await play.cluster.observe(START + 50, KINDS)
    late = await play.cluster.observe(START, KINDS)
    assert late.confirmed == late.confirmed_for(WEB) == START + 50
    assert [pod.ready for workload in late.workloads() for pod in late.pods(workload)] == [True]


async def test_rooms_are_the_free_capacity_and_cached_while_unchanged() -> None:
    play = Play(web(replicas=2))
    first = await play.look(10)
    (node,), (room,) = first.nodes(), first.rooms()
    assert room.node is node
    assert room.free["pods"] == node.allocatable["pods"] - 2
    assert room.free["cpu"] < node.allocatable["cpu"]
    assert (await play.look(11)).rooms() is first.rooms()
    await play.scale(12, 3)
    assert (await play.look(30)).rooms()[0].free["pods"] == room.free["pods"] - 1
    assert first.rooms()[0].free == room.free, "an older snapshot stays as it was"
    assert first.autoscaler(WEB) == ""


async def test_mark_is_seen_and_the_cheapest_pod_goes_first() -> None:
    play = Play(web(replicas=3))
    first, *_ = (await play.pods(30)).values()
    marked = Mark(WEB, first.uid, {COST: "-1", "elasticd.io/victim-of": "p"}, first.name)
    assert (await play.cluster.act(marked)).result == "done"
    assert (await play.pods(31))[first.name].annotations == {COST: "-1", "elasticd.io/victim-of": "p"}
    await play.scale(32, 2)
    assert first.name not in [name for name, pod in (await play.pods(40)).items() if not pod.deleted]


async def test_removing_a_mark_leaves_older_snapshots_unchanged() -> None:
    play = Play(web(replicas=1))
    (pod,) = (await play.pods(30)).values()
    await play.cluster.act(Mark(WEB, pod.uid, {"a": "1", "b": "2"}, pod.name))
    (marked,) = (await play.pods(31)).values()
    await play.cluster.act(Mark(WEB, pod.uid, {"a": None}, pod.name))
    (after,) = (await play.pods(32)).values()
    assert (pod.annotations, marked.annotations, after.annotations) == ({}, {"a": "1", "b": "2"}, {"b": "2"})


async def test_a_mark_on_the_workload_leaves_its_version() -> None:
    play = Play(web())
    before = await play.workload(1)
    assert (await play.cluster.act(Mark(WEB, before.uid, {"a": "1"}))).result == "done"
    assert await play.workload(2) == replace(before, annotations={"a": "1"})


@pytest.mark.parametrize(
    "mark",
    [
        pytest.param(Mark(WEB, "other", {"a": "1"}), id="another workload of that name"),
        pytest.param(Mark(WEB, "other", {"a": "1"}, "web-000001"), id="another pod of that name"),
        pytest.param(Mark(WEB, "other", {"a": "1"}, "none"), id="no such pod"),
    ],
)
async def test_a_mark_on_what_is_gone_is_a_conflict(mark: Mark) -> None:
    play = Play(web(replicas=1))
    await play.look(30)
    answer = await play.cluster.act(mark)
    assert (answer.result, answer.reason) == ("conflict", "NotFound")
