"""Which pods count, and what they ask for."""

from typing import Any

import pytest

from elasticd.api import Container, Pod
from elasticd.kit import request_of, serving
from tests.kit.plugins.builders import pod


@pytest.mark.parametrize(
    ("changes", "sampled", "group"),
    [
        pytest.param({}, True, "heard", id="ready with a sample"),
        pytest.param({}, False, "missing", id="ready without one"),
        pytest.param({"ready": False}, True, "starting", id="not ready"),
        pytest.param({"ready": None}, True, "starting", id="never looked at"),
        pytest.param({"phase": "Pending"}, True, "starting", id="pending, whatever it says"),
        pytest.param({"deleted": True}, True, "", id="being deleted"),
        pytest.param({"phase": "Failed"}, True, "", id="failed"),
        pytest.param({"phase": "Succeeded"}, True, "", id="done"),
    ],
)
def test_each_pod_is_in_one_group_or_takes_no_part(changes: dict[str, Any], sampled: bool, group: str) -> None:
    one = pod("p0", **changes)
    found = serving([one], {"p0"} if sampled else {})
    assert {name: getattr(found, name) for name in ("heard", "missing", "starting")} == {
        name: (one,) if name == group else () for name in ("heard", "missing", "starting")
    }
    assert found.ready == ((one,) if group in ("heard", "missing") else ())


WEB, LOG = Container("web", {"cpu": 0.25}), Container("log", {"cpu": 0.05})


@pytest.mark.parametrize(
    ("asked", "request_cpu"),
    [
        pytest.param(pod("p0", containers=(WEB, LOG)), 0.3, id="the sum"),
        pytest.param(pod("p0", containers=(WEB, Container("bare"))), 0.0, id="one does not say"),
        pytest.param(pod("p0", containers=(WEB,), requests={"cpu": 2.0}), 2.0, id="the pod's own wins"),
        pytest.param(pod("p0", containers=(WEB,), requests={"memory": 2.0}), 0.25, id="of another resource"),
        pytest.param(pod("p0", containers=()), 0.0, id="no containers"),
    ],
)
def test_what_a_pod_asks_for(asked: Pod, request_cpu: float) -> None:
    assert request_of(asked, "cpu") == pytest.approx(request_cpu)
