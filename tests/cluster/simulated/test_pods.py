"""What becomes of simulated pods."""

from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.kit.surge import HASH
from elasticd.model.workload import Pod
from tests.cluster.simulated.test_kit import START, Play, web

SLOW = {"start_seconds": 5, "ready_seconds": 3, "stop_seconds": 4}


def _state(pod: Pod) -> tuple[Any, ...]:
    return (pod.phase, pod.ready, pod.ready_changed - START if pod.ready_changed else None)


@pytest.mark.parametrize(
    ("t", "state"),
    [
        pytest.param(0, ("Pending", False, 0), id="bound"),
        pytest.param(4.9, ("Pending", False, 0), id="starting"),
        pytest.param(5, ("Running", False, 0), id="running"),
        pytest.param(7.9, ("Running", False, 0), id="not yet ready"),
        pytest.param(8, ("Running", True, 8), id="ready"),
        pytest.param(99, ("Running", True, 8), id="ready later"),
    ],
)
async def test_a_pod_starts_runs_and_becomes_ready_after_its_delays(t: float, state: tuple[Any, ...]) -> None:
    (pod,) = (await Play(web(**SLOW)).pods(t)).values()
    assert _state(pod) == state
    assert (pod.node, pod.started, pod.deleted) == ("big", START, False)


async def test_pod_that_fits_nowhere_stays_pending_without_node_or_start() -> None:
    pods = await Play(web(cpu="9"), nodes=[{"name": "a", "cpu": "4", "memory": "1Gi"}]).pods(999)
    (pod,) = pods.values()
    assert (pod.phase, pod.node, pod.started, pod.ready) == ("Pending", "", None, None)


async def test_a_pending_pod_starts_when_room_is_given_back() -> None:
    node = {"name": "a", "cpu": "2", "memory": "8Gi"}
    play = Play(web(cpu="1", replicas=2, **SLOW), {"name": "late", "cpu": "1", **SLOW}, nodes=[node])
    assert [(pod.node, pod.waits) for pod in (await play.pods(10, "late")).values()] == [("", START)]
    await play.scale(10, 1)
    assert [pod.started for pod in (await play.pods(13.9, "late")).values()] == [None]
    assert [(pod.started, pod.waits) for pod in (await play.pods(30, "late")).values()] == [(START + 14, None)]
    assert [pod.ready_changed for pod in (await play.pods(30, "late")).values()] == [START + 22]


async def test_scaling_in_marks_pods_deleted_and_removes_them_once_stopped() -> None:
    play = Play(web(replicas=3, **SLOW))
    await play.scale(20, 1)
    pods = await play.pods(20)
    assert {name: pod.deleted for name, pod in pods.items()} == {
        "web-000001": False, "web-000002": True, "web-000003": True,
    }  # fmt: skip
    assert (await play.workload(20)).status_replicas == 1
    assert list(await play.pods(23.9)) == list(pods)
    assert list(await play.pods(24)) == ["web-000001"]


async def test_scaling_in_spares_ready_pods_before_new_ones() -> None:
    play = Play(web(replicas=2, **SLOW))
    await play.scale(10, 4)
    await play.scale(12, 3)
    assert [name for name, pod in (await play.pods(12)).items() if pod.deleted] == ["web-000004"]
    await play.scale(12, 2)
    assert list(await play.pods(30)) == ["web-000001", "web-000002"]


async def test_scaling_in_spares_a_ready_pod_whose_condition_changed_last() -> None:
    play = Play(web(replicas=1, **SLOW))
    await play.scale(2, 2)
    await play.scale(9, 1)
    assert list(await play.pods(30)) == ["web-000001"]


async def test_scaling_in_spares_the_pods_that_have_been_ready_longest() -> None:
    play = Play(web(replicas=2, **SLOW))
    await play.scale(10, 4)
    await play.scale(40, 2)
    assert list(await play.pods(60)) == ["web-000001", "web-000002"]


async def test_a_pod_that_was_never_bound_vanishes_at_once() -> None:
    play = Play(web(cpu="1", replicas=2, **SLOW), nodes=[{"name": "a", "cpu": "1", "memory": "8Gi"}])
    await play.scale(10, 1)
    assert list(await play.pods(10)) == ["web-000001"]


@pytest.mark.parametrize(
    ("t", "phase"), [pytest.param(2, "Pending", id="starting"), pytest.param(6, "Running", id="not yet ready")]
)
async def test_a_pod_deleted_before_it_is_ready_never_becomes_so(t: float, phase: str) -> None:
    play = Play(web(replicas=2, **{**SLOW, "stop_seconds": 60}))
    await play.scale(t, 1)
    pod = (await play.pods(50))["web-000002"]
    assert (pod.phase, pod.ready, pod.deleted) == (phase, False, True)


async def test_new_pods_never_reuse_the_name_of_an_old_one() -> None:
    play = Play(web(replicas=2))
    await play.scale(10, 1)
    await play.scale(20, 2)
    assert list(await play.pods(30)) == ["web-000001", "web-000003"]


async def test_a_stateful_set_removes_its_highest_ordinals() -> None:
    play = Play(web(kind="StatefulSet", replicas=12))
    await play.scale(10, 2)
    assert list(await play.pods(10)) == ["web-0", "web-1"]


async def test_ordinal_returns_with_a_new_uid_after_its_predecessor_left() -> None:
    play = Play(web(kind="StatefulSet", replicas=2, **SLOW))
    old = (await play.pods(10))["web-1"]
    await play.scale(10, 1)
    await play.scale(11, 2)
    assert (await play.pods(13.9))["web-1"] == replace(old, deleted=True)
    assert (await play.workload(13.9)).status_replicas == 1
    new = (await play.pods(14))["web-1"]
    assert (new.started, new.deleted, new.uid == old.uid) == (START + 14, False, False)
    assert (await play.workload(14)).status_replicas == 2


async def test_pods_carry_the_labels_containers_and_requests_of_their_workload() -> None:
    containers = [{"name": "app", "cpu": "1500m"}, {"name": "log", "memory": "1Ki"}]
    play = Play(web(labels={"tier": "front"}, cpu="100m", memory="64Ki", containers=containers))
    (pod,) = (await play.pods(0)).values()
    assert pod.labels == {"tier": "front", "app": "web", HASH: pod.owner[1].removeprefix("web-")}
    assert {c.name: c.requests for c in pod.containers} == {
        "app": {"cpu": 1.5, "memory": 65536.0},
        "log": {"cpu": 0.1, "memory": 1024.0},
    }
    assert (await play.workload(0)).selector == "app=web"


async def test_pod_without_delays_is_ready_when_it_is_created() -> None:
    play = Play(web(start_seconds=0))
    assert [_state(pod) for pod in (await play.pods(0)).values()] == [("Running", True, 0)]
    await play.scale(7, 2)
    assert [pod.ready for pod in (await play.pods(7)).values()] == [True, True]
