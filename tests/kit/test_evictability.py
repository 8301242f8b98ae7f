"""Which pods have failed between two looks."""

import pytest
from msgspec.structs import replace

from elasticd.kit.evictability import fails, one_failed
from elasticd.model.workload import Pod
from tests.kit.pools import pod

READY = pod("p", on="a", ready=True, restart="Always")


@pytest.mark.parametrize(
    ("before", "now", "failed"),
    [
        pytest.param(READY, READY, False, id="it is as it was"),
        pytest.param(READY, replace(READY, ready=False), True, id="it is ready no more"),
        pytest.param(READY, replace(READY, ready=None), True, id="it does not say that it is any more"),
        pytest.param(READY, replace(READY, ready=False, deleted=True), False, id="it is being deleted"),
        pytest.param(READY, None, True, id="it is gone without having been deleted"),
        pytest.param(READY, replace(READY, uid="other"), True, id="another stands in its place"),
        pytest.param(replace(READY, deleted=True), None, False, id="it was being deleted, and is gone"),
        pytest.param(pod("p", on="a", ready=True, restart="Never"), None, False, id="it has ended, as it does"),
        pytest.param(replace(READY, ready=False), replace(READY, ready=False), False, id="it never was ready"),
        pytest.param(replace(READY, ready=False), None, False, id="it never was ready, and is gone"),
        pytest.param(None, READY, False, id="it has come"),
    ],
)
def test_a_pod_fails(before: Pod | None, now: Pod | None, failed: bool) -> None:
    assert fails(before, now) is failed


def test_one_of_several_is_enough() -> None:
    others = [pod(f"q{index}", on="a", ready=True) for index in range(3)]
    assert one_failed([*others, READY], [replace(READY, ready=False), *others])
    assert not one_failed([*others, READY], [READY, *others[::-1], pod("new", on="a")])
