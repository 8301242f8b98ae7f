"""Which pods can be made to request something else."""

from typing import Any

import pytest

from elasticd.kit.requests import quality_of, resized, unfit
from elasticd.model.workload import Container, Pod

CPU, BOTH = {"cpu": 1.0}, {"cpu": 1.0, "memory": 2e9}
RESTARTING = Container("main", BOTH, limits={"cpu": 2.0}, restarting=("memory",))
MAIN = Container("main", BOTH, limits={"cpu": 2.0})


def pod(*containers: Container, **changes: Any) -> Pod:
    return Pod("shop", "web-0", "u", changes.pop("phase", "Running"), containers=containers or (MAIN,), **changes)


@pytest.mark.parametrize(
    ("containers", "quality"),
    [
        pytest.param([], "BestEffort", id="no containers"),
        pytest.param([Container("a")], "BestEffort", id="nothing asked for"),
        pytest.param([Container("a", CPU)], "Burstable", id="a request"),
        pytest.param([Container("a", BOTH, limits=BOTH)], "Guaranteed", id="requests are limits"),
        pytest.param([Container("a", {}, limits=BOTH)], "Guaranteed", id="limits alone are requests too"),
        pytest.param([Container("a", CPU, limits=CPU)], "Burstable", id="of one resource only"),
        pytest.param([Container("a", BOTH, limits=BOTH), Container("b")], "Burstable", id="of one container only"),
        pytest.param([Container("a", CPU, limits=BOTH)], "Guaranteed", id="one request is left to its limit"),
    ],
)
def test_quality_of_service_is_as_kubernetes_gives_it(containers: list[Container], quality: str) -> None:
    assert quality_of(containers) == quality


@pytest.mark.parametrize(
    ("given", "sizes", "why"),
    [
        pytest.param(pod(), {"main": {"cpu": 1.5}}, "", id="more"),
        pytest.param(pod(), {"main": {"cpu": 2.0, "memory": 1e9}}, "", id="up to its limit"),
        pytest.param(pod(), {"main": {"cpu": 2.1}}, "main: cpu is limited to 2", id="above its limit"),
        pytest.param(pod(), {"gpu": {"cpu": 1.0}}, "has no container gpu", id="an unknown container"),
        pytest.param(pod(), {"main": {"disk": 1.0}}, "cannot change its disk", id="another resource"),
        pytest.param(pod(phase="Pending"), {"main": CPU}, "is not running", id="pending"),
        pytest.param(pod(phase="Succeeded"), {"main": CPU}, "is not running", id="ended"),
        pytest.param(pod(deleted=True), {"main": CPU}, "is being deleted", id="going"),
        pytest.param(pod(requests=BOTH), {"main": CPU}, "has requests as a whole pod", id="pod-level requests"),
        pytest.param(
            pod(Container("main", BOTH, limits=BOTH)), {"main": {"cpu": 0.5}}, "would no longer be Guaranteed",
            id="guaranteed",
        ),
        pytest.param(pod(Container("main")), {"main": CPU}, "would no longer be BestEffort", id="nothing asked"),
        pytest.param(
            pod(Container("main", CPU, limits=BOTH | {"cpu": 2.0})), {"main": {"cpu": 2.0}},
            "would no longer be Burstable", id="requests that reach all limits",
        ),
        pytest.param(
            pod(RESTARTING), {"main": {"memory": 1e9}},
            "main would be restarted by a change of its memory (resizePolicy)", id="a restart",
        ),
        pytest.param(pod(RESTARTING), {"main": {"cpu": 1.5, "memory": 2e9}}, "", id="nothing that restarts it changes"),
        pytest.param(pod(resize="Infeasible"), {"main": CPU}, "does not fit on its node", id="infeasible again"),
        pytest.param(pod(resize="Infeasible"), {"main": {"cpu": 0.9}}, "", id="less than what was infeasible"),
        pytest.param(
            pod(resize="Infeasible"), {"main": {"cpu": 0.9, "memory": 2e9}}, "does not fit on its node",
            id="infeasible, and not all of it is less",
        ),
        pytest.param(pod(resize="Deferred"), {"main": {"cpu": 1.5}}, "waits for room on its node", id="deferred"),
        pytest.param(pod(resize="Deferred"), {"main": {"cpu": 0.9}}, "", id="less than what was deferred"),
    ],
)  # fmt: skip
def test_what_cannot_be_given_to_a_pod_is_reported(given: Pod, sizes: dict[str, dict[str, float]], why: str) -> None:
    assert unfit(given, sizes) == why


def test_only_what_is_named_changes() -> None:
    side = Container("side", CPU)
    assert resized((MAIN, side), {"main": {"cpu": 0.1}}) == (
        Container("main", {"cpu": 0.1, "memory": 2e9}, limits={"cpu": 2.0}),
        side,
    )
