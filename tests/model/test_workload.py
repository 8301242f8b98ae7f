"""What a pod is."""

import pytest

from elasticd.model.workload import Pod


@pytest.mark.parametrize(
    ("phase", "deleted", "active", "ended"),
    [
        pytest.param("Pending", False, True, False, id="waits for a node or its images"),
        pytest.param("Running", False, True, False, id="runs"),
        pytest.param("Unknown", False, True, False, id="its kubelet does not report, and may run it"),
        pytest.param("Running", True, False, False, id="terminates, and still runs"),
        pytest.param("Failed", False, False, True, id="rejected or evicted by its kubelet, and still shown"),
        pytest.param("Succeeded", False, False, True, id="done"),
        pytest.param("Failed", True, False, True, id="ended and deleted"),
    ],
)
def test_a_pod_counts_until_it_ends_or_terminates(phase: str, deleted: bool, active: bool, ended: bool) -> None:
    pod = Pod("default", "web-0", "uid", phase, deleted=deleted)

    assert (pod.is_active, pod.has_ended) == (active, ended)
