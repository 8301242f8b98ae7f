"""What a run notes of a simulated cluster, and what it comes to, by examples that can be worked out by hand."""

import asyncio
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from elasticd.api import Observation, Recommendation, Strategy, hookimpl
from elasticd.cluster.simulated import Simulated
from elasticd.config import ScenarioSettings
from elasticd.lab.figures import Figures, figures, flaps, spreads
from elasticd.lab.runs import Change, JobTrack, NodeTrack, Run, WorkloadTrack
from elasticd.lab.simulate import PART, run
from elasticd.model.policy import Bounds, Policy, Select, Target
from elasticd.model.workload import Ref
from elasticd.sources.resource_metrics import ResourceMetrics

WEB = Ref("shop", "Deployment", "web")
START = datetime(2026, 3, 2, 8, tzinfo=UTC)


class Planned(Strategy, frozen=True, tag="planned"):
    """Wants a count from each of these seconds after the start on."""

    counts: tuple[tuple[float, int], ...]

    def reads(self) -> tuple[str, ...]:
        return ()

    @hookimpl
    def recommend_replicas(self, observation: Observation) -> Recommendation:
        passed = observation.at - START.timestamp()
        return Recommendation([count for since, count in self.counts if since <= passed][-1], "Planned")


NODES = [{"name": "node", "count": 2, "cpu": "4", "memory": "16Gi"}]


def played(
    demand: dict[str, Any],
    counts: Sequence[tuple[float, int]] = ((0, 2),),
    nodes: Any = NODES,
    others: Sequence[dict[str, Any]] = (),
    **workload: Any,
) -> Run:
    """A Deployment of two pods of half a core, ready 10 s after they are created, whose count goes as planned. The
    others differ from it in these options, and keep theirs."""
    table = {
        "name": "web", "namespace": "shop", "replicas": 2, "cpu": "500m", "start_seconds": 10, "demand": demand,
        **workload,
    }  # fmt: skip
    tables = [table, *({**table, **other} for other in others)]
    cluster = msgspec.convert({"type": "simulated", "nodes": nodes, "workloads": tables}, Simulated)
    policy = Policy(
        name="p",
        replicas=Bounds(20),
        strategies=(Planned(counts=tuple(counts)),),
        workload=Target("shop", "web"),
        interval=10.0,
        jitter=0.0,
    )
    scenario = ScenarioSettings(hours=1 / 6, start=START, step=60)
    return asyncio.run(run(cluster, [policy], scenario, sources=[ResourceMetrics()]))


def test_what_pods_use_is_told_apart_by_workload() -> None:
    others: list[dict[str, Any]] = [
        {"name": "less", "demand": {"formula": "0.2"}},
        {"name": "limited", "cpu_limit": "300m"},
    ]
    nodes = played({"formula": "0.8"}, others=others).nodes
    assert sum(track.used[-1] for track in nodes.values()) == pytest.approx(0.8 + 0.2 + 0.6)


def test_workloads_share_the_series_in_which_they_are_equal() -> None:
    tracks = played({"formula": "1.6"}, count=2, nodes=[{"name": "node", "cpu": "1", "memory": "16Gi"}]).workloads
    first, second = tracks.values()
    assert first.demand is second.demand
    assert first.ready != second.ready


@pytest.mark.parametrize(
    ("demand", "table", "unserved"),
    [
        pytest.param(0.9, {}, 0.0, id="what is requested serves it"),
        pytest.param(1.6, {}, 0.6, id="what is beyond the requests is not served"),
        pytest.param(1.6, {"cpu_limit": "700m"}, 0.2, id="a limit above the requests serves more"),
        pytest.param(0.9, {"cpu_limit": "400m"}, 0.1, id="a limit below the requests serves less"),
        pytest.param(-1.0, {}, 0.0, id="a negative demand is none"),
    ],
)
def test_demand_beyond_the_capacity_of_ready_pods_is_unserved(
    demand: float, table: dict[str, Any], unserved: float
) -> None:
    result = played({"formula": str(demand)}, **table)
    track = result.workloads[WEB]
    assert track.unserved[1:] == pytest.approx([unserved] * 9)
    assert track.demand[1:] == pytest.approx([max(0.0, demand)] * 9)
    assert (track.replicas, track.ready) == ([2] * 10, [2] * 10)


def test_nothing_is_served_before_pods_are_ready() -> None:
    track = played({"formula": "0.9"}).workloads[WEB]
    assert track.unserved[0] == pytest.approx(0.9 * 10 / 60)
    assert (track.short[0], track.lag) == (10.0, 10.0)
    assert track.short[1:] == [0.0] * 9


def test_a_peak_is_short_until_more_pods_are_ready() -> None:
    """The load doubles at 120 s, the count at 150 s, and new pods are ready 10 s after that."""
    result = played({"table": [[0, 1.0], [120, 2.0]]}, [(0, 2), (150, 4)])
    track = result.workloads[WEB]
    assert track.short[1:] == [0.0, pytest.approx(40.0, abs=PART), *[0.0] * 7]
    assert track.unserved[2] == pytest.approx(track.short[2] / 60)
    assert track.lag == track.short[2]
    assert track.replicas == [2, 2, *[4] * 8]
    assert [(change.before, change.after) for change in result.changes[WEB]] == [(2, 4)]
    assert result.changes[WEB][0].at == pytest.approx(START.timestamp() + 150, abs=1)


def test_a_change_keeps_why_it_was_made() -> None:
    changes = played({"formula": "1"}, [(0, 2), (60, 25)]).changes[WEB]
    assert [(change.before, change.after, change.why) for change in changes] == [
        (2, 20, "Planned; bounds: TooManyReplicas: the policy allows 1 to 20")
    ]


def test_unknown_demand_is_neither_served_nor_unserved() -> None:
    track = played({"formula": "1.6 / min(1, floor(abs(t - 90) / 30))"}).workloads[WEB]
    assert math.isnan(track.demand[1])
    assert math.isnan(track.unserved[1])
    assert track.short[1:] == [0.0, *[60.0] * 8]
    assert track.unserved[2:] == pytest.approx([0.6] * 8)


def test_nodes_show_pods_and_cores_requested_and_used() -> None:
    nodes = played({"formula": "0.8"}).nodes
    assert sorted(nodes) == ["node-1", "node-2"]
    for track in nodes.values():
        assert (track.pods, track.requested) == ([1] * 10, [0.5] * 10)
        assert track.used == pytest.approx([0.4] * 10)


def test_pods_that_no_node_takes_are_counted_as_waiting() -> None:
    result = played({"formula": "0.8"}, [(0, 3)], cpu="3")
    assert (result.waiting, result.evictions) == ([1] * 10, [0] * 10)
    assert figures(result).without_node == 600


def test_a_node_holds_the_pods_of_each_step() -> None:
    """Two pods, four from 250 s on, three from 430 s on."""
    nodes = [{"name": "a", "cpu": "4", "memory": "16Gi"}]
    track = played({"formula": "1.6"}, [(0, 2), (250, 4), (430, 3)], nodes=nodes, memory="1Gi").nodes["a"]
    assert track.pods == [2] * 4 + [4] * 3 + [3] * 3
    assert track.requested == [1.0] * 4 + [2.0] * 3 + [1.5] * 3
    assert track.memory == [pods * 2.0**30 for pods in track.pods]
    assert track.used == pytest.approx([1.6] * 10)


def test_a_node_that_is_gone_has_nothing_known() -> None:
    """The second node comes after two minutes, and is gone from the fifth on."""
    changes = [{"at": 0, "gone": True}, {"at": 130, "gone": False}, {"at": 290, "gone": True}]
    nodes = [
        {"name": "a", "cpu": "4", "memory": "16Gi"},
        {"name": "b", "cpu": "2", "memory": "8Gi", "changes": changes},
    ]
    track = played({"formula": "0.8"}, nodes=nodes).nodes["b"]
    assert [math.isnan(cores) for cores in track.requested] == [True] * 2 + [False] * 2 + [True] * 6
    assert (track.cores, track.bytes) == (2, 8 * 2**30)


def test_figures_of_nodes_and_jobs_by_hand() -> None:
    result = Run(0.0, 60.0, waiting=[0, 3], evictions=[0, 0])
    result.nodes = {
        "a": NodeTrack([1, 2], [1.0, 1.0], [0.5, 1.0], [0.0, 0.0], cores=2.0),
        "b": NodeTrack([0, 0], [math.nan, 0.0], [math.nan, 0.0], [math.nan, 0.0], cores=4.0),
    }
    result.jobs = {
        Ref("media", "Job", "a"): JobTrack([4, 2], [1, 3]),
        Ref("media", "Job", "b"): JobTrack([0, 4], [0, 0]),
    }
    total = figures(result)
    assert (total.without_node, total.fullest, total.occupied) == (180, 0.5, 1)
    assert total.apart == pytest.approx((0 + 0.25) / 2)
    assert total.job_hours == pytest.approx(4 / 60)
    assert (total.most_jobs, total.queue, total.most_queued) == (3, 5, 6)


def test_requested_cores_follow_what_pods_request() -> None:
    track = WorkloadTrack([0.0] * 4, unserved=[0.0] * 4, replicas=[2, 2, 3, 3], pod_requests=[(0, 1.0), (3, 0.5)])
    assert figures(Run(0.0, 3600.0, {WEB: track})).requested == pytest.approx(2 + 2 + 3 + 1.5)


@pytest.mark.parametrize("cores", [0.5, 0.1])  # 0.1 three times, by three, is not 0.1
def test_what_pods_request_is_noted_once(cores: float) -> None:
    run = played({"formula": "0.8"}, [(0, 2), (60, 3), (120, 7)], cpu=f"{cores * 1000:.0f}m")
    assert run.workloads[WEB].pod_requests == [(0, cores)]


def test_figures_of_a_run_can_be_worked_out_by_hand() -> None:
    """From 300 s to 420 s there is one pod too few, and the one that is then created takes 10 s."""
    result = played({"table": [[0, 1.0], [120, 2.0]]}, [(0, 2), (150, 4), (300, 3), (420, 4)])
    total = figures(result)
    assert total.replica_hours == pytest.approx((150 * 2 + 150 * 4 + 120 * 3 + 180 * 4) / 3600, rel=0.01)
    assert total.demand == pytest.approx((120 * 1.0 + 480 * 2.0) / 3600)
    unserved = 10 * 1.0 + 40 * 1.0 + 130 * 0.5  # at the start, at the peak, while there are three
    assert total.unserved * total.demand * 3600 == pytest.approx(unserved, abs=3 * PART)
    assert total.short == pytest.approx(180, abs=3 * PART)
    assert total.lag == pytest.approx(130, abs=2 * PART)
    assert (total.most, total.changes, total.flaps, total.evictions) == (4, 3, 2, 0)
    alone = figures(result, WEB)
    assert alone.replica_hours == total.replica_hours
    assert (alone.unserved, alone.short, alone.lag, alone.changes) == (total.unserved, total.short, total.lag, 3)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        pytest.param([(0, 2), (60, 4), (120, 2)], 1, id="back within ten minutes"),
        pytest.param([(0, 2), (60, 4), (661, 2)], 0, id="back later"),
        pytest.param([(0, 2), (60, 4), (120, 6)], 0, id="on in the same direction"),
        pytest.param([(0, 4), (60, 3), (90, 2), (120, 3), (150, 2)], 2, id="up and down"),
        pytest.param([(0, 4)], 0, id="no change"),
    ],
)
def test_a_flap_takes_back_the_change_before_it(counts: list[tuple[float, int]], expected: int) -> None:
    changes = [Change(at, before, after) for (_, before), (at, after) in pairwise(counts)]
    assert flaps(changes) == expected


def test_figures_spread_over_seeds() -> None:
    runs = [Figures(hours, 2, 1.0, 0.1, 0.0, 0.0, 3, 0, 0) for hours in (1.0, 2.0, 6.0)]
    spread = spreads(runs)["replica_hours"]
    assert (spread.mean, spread.least, spread.most) == (3.0, 1.0, 6.0)


def test_a_policy_that_observes_acts_in_a_scenario() -> None:
    assert played({"formula": "1"}, [(0, 2), (60, 5)]).workloads[WEB].replicas[-1] == 5


def test_an_evicted_pod_counts_for_its_workload() -> None:
    result = played({"formula": "1"})
    result.evicted += [Ref("shop", "Pod", "web-000001", "v1"), Ref("shop", "Pod", "other-000001", "v1")]
    assert (figures(result).evictions, figures(result, WEB).evictions) == (2, 1)


SERVICE: dict[str, Any] = {"service": {"seconds": 0.02, "workers": 4, "queue": 100, "timeout": 5}}


def test_requests_of_a_service_are_counted_and_wait() -> None:
    """Of 50 requests a second in 10 minutes, those of the first 10 s find no pod; two pods of 25 a second are enough
    for none of them to fail, but not to be served at once."""
    total = figures(played({"formula": "0.9"}, **SERVICE))
    assert total.requests == pytest.approx(45 * 600)
    assert total.failed == pytest.approx(10 / 600, abs=PART / 600)
    assert 0.01 < total.wait_median < total.wait_p99 < 2.5


def test_requests_beyond_the_queue_fail() -> None:
    """60 a second come, 50 are served, and the queue of 200 is full after 20 s."""
    result = played({"formula": "1.2"}, **SERVICE)
    track = result.workloads[WEB]
    assert track.failed[3:] == pytest.approx([600.0] * 7, rel=0.01)
    assert figures(result).wait_p99 == pytest.approx(4.0, rel=0.06)


def test_without_a_service_nothing_is_said_of_requests() -> None:
    result = played({"formula": "0.9"})
    assert result.workloads[WEB].requests == []
    assert math.isnan(figures(result).failed)


NOBODY = Policy(name="p", replicas=Bounds(2), strategies=(), select=Select(namespaces=("none",)))


@pytest.mark.parametrize("policies", [[], [NOBODY]], ids=["no policy", "one that selects nothing"])
def test_a_run_without_a_governed_workload_ends(policies: list[Policy]) -> None:
    cluster = msgspec.convert(
        {"type": "simulated", "nodes": [{"name": "node", "cpu": "1", "memory": "1Gi"}]}, Simulated
    )
    scenario = ScenarioSettings(hours=1 / 6, start=START, step=60)
    result = asyncio.run(run(cluster, policies, scenario, sources=[ResourceMetrics()]))
    assert [len(track.pods) for track in result.nodes.values()] == [10]
