"""Whether a pod has run is read off what its kubelet wrote, and off who ended it."""

from typing import Any

import msgspec
import pytest

from elasticd.cluster.kubernetes.restore.steps import Life, life_of

AT = "2026-01-01T00:00:00Z"
WAITS = {"state": {"waiting": {"reason": "ContainerCreating"}}, "lastState": {}}
RUNS = {"state": {"running": {"startedAt": AT}}, "lastState": {}}
ENDED = {"state": {"terminated": {"exitCode": 137, "reason": "Error", "startedAt": AT, "finishedAt": AT}}}
CRASHED = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ENDED["state"]}
# What a kubelet writes of a container that it never started, when the pod ends.
NOT_FOUND = {"state": {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown", "startedAt": None}}}
TARGET = [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}]


def failed(*containers: Any, **more: Any) -> dict[str, Any]:
    """The status of a pod that failed."""
    return {"phase": "Failed", "containerStatuses": list(containers), **more}


@pytest.mark.parametrize(
    ("status", "ran"),
    [
        pytest.param({}, False, id="nothing is known"),
        pytest.param({"phase": "Pending"}, False, id="on no node"),
        pytest.param({"phase": "Pending", "containerStatuses": [WAITS]}, False, id="being created"),
        pytest.param({"phase": "Pending", "containerStatuses": [RUNS, WAITS]}, False, id="one of two was started"),
        pytest.param({"phase": "Pending", "initContainerStatuses": [RUNS]}, False, id="being initialized"),
        pytest.param({"phase": "Running", "containerStatuses": [RUNS]}, True, id="running"),
        pytest.param({"phase": "Succeeded", "containerStatuses": [ENDED]}, True, id="succeeded"),
        pytest.param(failed(), False, id="failed, without a word of why"),
        pytest.param({"phase": "Failed", "reason": "OutOfcpu"}, False, id="refused by its kubelet"),
        pytest.param(failed(WAITS, reason="NodeAffinity"), False, id="refused, its containers waiting"),
        pytest.param(failed(WAITS, conditions=TARGET), False, id="its node is gone"),
        pytest.param(failed(RUNS, conditions=TARGET), True, id="its node is gone, and it ran"),
        pytest.param(failed(NOT_FOUND, reason="Evicted"), False, id="evicted before it was started"),
        pytest.param(failed(ENDED, reason="Evicted"), True, id="evicted while it ran"),
        pytest.param(failed(ENDED, NOT_FOUND, reason="Evicted"), False, id="evicted when one of two was started"),
        pytest.param(failed(ENDED), True, id="failed by itself"),
        pytest.param(failed(CRASHED), True, id="crashed"),
        pytest.param(failed(WAITS, initContainerStatuses=[ENDED]), True, id="could not be initialized"),
        pytest.param(failed(WAITS, initContainerStatuses=[ENDED], conditions=TARGET), False,
                     id="its node went while it was initialized"),
        pytest.param(failed(ENDED, conditions=[{**TARGET[0], "status": "False"}]), True, id="it was not ended"),
    ],
)  # fmt: skip
def test_pod_has_run_if_its_containers_started_or_it_failed(status: dict[str, Any], ran: bool) -> None:
    assert life_of(msgspec.json.encode({"metadata": {"name": "batch"}, "status": status})).ran == ran


@pytest.mark.parametrize(
    ("containers", "waits"),
    [
        pytest.param([], "", id="none"),
        pytest.param([RUNS, WAITS], "ContainerCreating", id="the second of two"),
        pytest.param([{"state": {"waiting": {}}}], "", id="no reason"),
    ],
)
def test_what_a_pod_waits_for_is_its_kubelets_word(containers: list[Any], waits: str) -> None:
    pod = {"metadata": {}, "status": {"phase": "Pending", "containerStatuses": containers}}
    assert life_of(msgspec.json.encode(pod)) == Life(False, waits)


@pytest.mark.parametrize(("scheduled", "waits"), [("False", "Unschedulable: 0/5 nodes"), ("True", "")])
def test_another_scheduler_says_why_a_pod_waits(scheduled: str, waits: str) -> None:
    unschedulable = {"type": "PodScheduled", "status": scheduled, "reason": "Unschedulable", "message": "0/5 nodes"}
    pod = {"metadata": {}, "status": {"phase": "Pending", "conditions": [TARGET[0], unschedulable]}}
    assert life_of(msgspec.json.encode(pod)).waits == waits
