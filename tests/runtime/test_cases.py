"""When a workload that was evaluated is worth evaluating again."""

from math import inf

import pytest
from msgspec.structs import replace

from elasticd.model.policy import Bounds, Policy
from elasticd.runtime.cases import LastEvaluation
from elasticd.testing import observation

POLICY = Policy(name="p", replicas=Bounds(9), strategies=(), interval=30.0, jitter=0.1)
LAST = replace(observation([0.5]), at=100.0)


@pytest.mark.parametrize(
    ("until", "moved", "now", "stands"),
    [
        pytest.param(inf, False, 101.0, True, id="nothing moved"),
        pytest.param(inf, True, 101.0, False, id="something moved"),
        pytest.param(inf, False, 126.5, True, id="the interval has not passed"),
        pytest.param(inf, False, 127.0, False, id="as far as jitter lets anyone tell it has"),
        pytest.param(110.0, False, 109.9, True, id="before the clock changes it"),
        pytest.param(110.0, False, 110.0, False, id="the clock has changed it"),
        pytest.param(200.0, False, 127.0, False, id="the interval is shorter"),
    ],
)
def test_what_was_seen_stands(until: float, moved: bool, now: float, stands: bool) -> None:
    new = replace(LAST, at=now, fault=("AmbiguousSelector", "of late") if moved else LAST.fault)
    assert LastEvaluation(LAST, until).stands(new, POLICY) is stands
