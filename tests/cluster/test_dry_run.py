"""A dry run: what would be done is seen as done, and nothing is."""

import math
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from elasticd.cluster.dry_run import DryRun
from elasticd.model.actions import Announce, Mark, Scale
from elasticd.model.workload import Ref, Workload
from elasticd.ports.cluster import Cluster
from tests.cluster.simulated.test_kit import KINDS, START, WEB, Play, scale_to, web


class Dry:
    """A dry run over a simulated cluster."""

    def __init__(self, replicas: int = 4) -> None:
        self.real = Play(web(replicas=replicas, demand={"formula": "1.2"}), {"name": "other"})
        self.cluster = DryRun(self.real.cluster)

    async def look(self, t: float) -> Workload:
        await self.real.clock.sleep_until(START + t)
        workload = (await self.cluster.observe(START + t, KINDS)).workload(WEB)
        assert workload is not None
        return workload

    async def scale(self, t: float, after: int) -> str:
        return (await self.cluster.act(scale_to(await self.look(t), after))).result


async def test_a_dry_run_shows_the_count_but_sends_nothing() -> None:
    dry = Dry()
    answer = await dry.cluster.act(scale_to(await dry.look(10), 9))
    assert (answer.result, answer.message) == ("done", "dry run: not sent")
    assert ((await dry.look(20)).replicas, (await dry.real.workload(20)).replicas) == (9, 4)
    assert (await dry.look(20)).status_replicas == 4


async def test_a_dry_run_builds_on_its_earlier_pretended_actions() -> None:
    dry = Dry()
    assert [await dry.scale(10, 9), await dry.scale(20, 3), await dry.scale(30, 4)] == ["done"] * 3
    assert (await dry.look(40)).replicas == 4


@pytest.mark.parametrize("after", [1, 9])
async def test_pods_and_metrics_stay_those_that_exist(after: int) -> None:
    dry = Dry()
    await dry.scale(10, after)
    snapshot = await dry.cluster.observe(START + 20, KINDS)
    real = await dry.real.cluster.observe(START + 20, KINDS)
    workload = await dry.look(20)
    assert snapshot.pods(workload) == real.pods(workload)
    assert len((await dry.cluster.usage(START + 20)).pods["cpu"]) == 5
    assert (await dry.cluster.node_usage(START + 20)) == await dry.real.cluster.node_usage(START + 20)
    assert "serves no custom" in (await dry.cluster.metrics([], START + 20)).error
    assert "has no kubelets" in (await dry.cluster.summary("big", START + 20, "all", 1.0)).error
    async with dry.cluster.pulls(lambda pull: None) as followed:
        assert "pulls no images" in followed.problem
    assert (snapshot.rooms(), snapshot.autoscaler(WEB)) == (real.rooms(), "")
    assert (snapshot.nodes(), snapshot.version, snapshot.confirmed) == (real.nodes(), 1, START + 20)
    assert snapshot.confirmed_for(WEB) == real.confirmed_for(WEB) == START + 20
    assert snapshot.selector_fault(workload) == ""


@pytest.mark.parametrize("target", [0.6, 0.3, 0.05])
async def test_the_hpa_s_rule_asks_for_the_same_count_again(target: float) -> None:
    dry, wishes = Dry(), []
    for t in (10, 40, 70):
        workload = await dry.look(t)
        readings = await dry.cluster.usage(START + t)
        pods = (await dry.cluster.observe(START + t, KINDS)).pods(workload)
        usage = [readings.pods["cpu"][f"default/{pod.name}"][0].value for pod in pods]
        wishes.append(math.ceil(round(len(usage) * (sum(usage) / len(usage)) / target, 9)))
        await dry.scale(t, wishes[-1])
    assert wishes == [math.ceil(round(1.2 / target, 9))] * 3


async def test_a_count_that_somebody_really_changed_is_pretended_no_longer() -> None:
    dry = Dry()
    await dry.scale(10, 9)
    await dry.real.scale(20, 6)
    assert [(await dry.look(t)).replicas for t in (20, 30)] == [6, 6]
    assert await dry.scale(30, 7) == "done"


async def test_a_version_that_moves_alone_keeps_what_is_pretended() -> None:
    dry = Dry()
    await dry.scale(10, 9)
    await dry.real.scale(20, 5)
    await dry.real.scale(20, 4)
    workload = await dry.look(20)
    assert (workload.version, workload.replicas) == ("3", 9)


async def test_an_older_snapshot_stays_as_it_was() -> None:
    dry = Dry()
    await dry.look(10)
    snapshot = await dry.cluster.observe(START + 10, KINDS)
    untouched = snapshot.workload(WEB)
    assert untouched is not None
    old = {workload.ref.name: workload.replicas for workload in snapshot.workloads()}
    await dry.cluster.act(scale_to(await dry.look(10), 8))
    latest = await dry.cluster.observe(START + 10, KINDS)
    seen = latest.workload(WEB)
    assert seen is not None
    await dry.cluster.act(scale_to(seen, 9))
    assert {workload.ref.name: workload.replicas for workload in snapshot.workloads()} == old
    assert (snapshot.workload(WEB), latest.workload(WEB)) == (untouched, replace(untouched, replicas=8))
    new = await dry.cluster.observe(START + 11, KINDS)
    assert {workload.ref.name: workload.replicas for workload in new.workloads()} == {**old, "web": 9}
    assert len(new.workloads()) == 2


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda s: replace(s, uid="x"), id="another uid"),
        pytest.param(lambda s: replace(s, version="0"), id="an older version"),
        pytest.param(lambda s: replace(s, before=9), id="another count"),
        pytest.param(lambda s: replace(s, workload=Ref("default", "Deployment", "gone")), id="no such workload"),
    ],
)
async def test_an_action_that_does_not_fit_what_is_seen_conflicts(change: Callable[[Scale], Scale]) -> None:
    dry = Dry()
    answer = await dry.cluster.act(change(scale_to(await dry.look(10), 7)))
    assert (answer.result, answer.message[:9]) == ("conflict", "dry run: ")
    assert answer.reason in ("Conflict", "NotFound")
    assert (await dry.look(20)).replicas == 4


async def test_second_of_two_actions_on_the_same_view_conflicts() -> None:
    dry = Dry()
    action = scale_to(await dry.look(10), 7)
    assert [(await dry.cluster.act(action)).result for _ in range(2)] == ["done", "conflict"]


async def test_an_action_before_the_first_look_conflicts() -> None:
    dry = Dry()
    action = scale_to(await dry.real.workload(10), 7)
    assert (await dry.cluster.act(action)).result == "conflict"


async def test_announcements_are_not_sent() -> None:
    dry = Dry()
    answer = await dry.cluster.act(Announce(WEB, "uid", "Scaled", "from 4 to 9"))
    assert (answer.result, answer.message) == ("done", "dry run: not sent")
    assert not dry.real.cluster.announcements


async def test_a_dry_run_leads_when_the_cluster_under_it_does() -> None:
    dry = Dry()
    cluster: Cluster = dry.cluster
    assert cluster.leading
    dry.real.cluster.leading = False
    assert not cluster.leading


async def test_marks_in_a_dry_run_are_seen_but_not_sent() -> None:
    dry = Dry()
    uid = (await dry.look(10)).uid
    assert (await dry.cluster.act(Mark(WEB, uid, {"a": "1", "b": "2"}))).message == "dry run: not sent"
    assert await dry.scale(20, 0) == "done"
    await dry.cluster.act(Mark(WEB, uid, {"b": None}))
    seen = await dry.look(30)
    assert (seen.replicas, seen.annotations) == (0, {"a": "1"})
    assert (await dry.real.workload(30)).annotations == {}
    assert (await dry.cluster.act(Mark(WEB, "uid", {"a": "1"}, "web-1"))).result == "done"
    gone = Mark(Ref("default", "Deployment", "gone"), "u", {"a": "1"})
    assert (await dry.cluster.act(gone)).reason == "NotFound"


async def test_pretended_mark_ends_when_somebody_really_changes_the_count() -> None:
    dry = Dry()
    await dry.cluster.act(Mark(WEB, (await dry.look(10)).uid, {"a": "1"}))
    await dry.real.scale(20, 0)
    assert (await dry.look(20)).annotations == {}


async def test_a_mark_on_what_was_made_anew_is_not_pretended() -> None:
    dry = Dry()
    await dry.look(10)
    answer = await dry.cluster.act(Mark(WEB, "another", {"a": "1"}))
    assert (answer.result, answer.reason) == ("conflict", "NotFound")
