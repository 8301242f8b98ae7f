"""When a workload that was evaluated is worth evaluating again."""

from math import inf

import pytest

from elasticd.policy import Bounds, Policy
from elasticd.seen import Seen

POLICY = Policy(name="p", replicas=Bounds(9), strategies=(), interval=30.0, jitter=0.1)


@pytest.mark.parametrize(
    ("until", "mark", "now", "stands"),
    [
        pytest.param(inf, ("same",), 101.0, True, id="nothing moved"),
        pytest.param(inf, ("other",), 101.0, False, id="something moved"),
        pytest.param(inf, ("same",), 126.5, True, id="the interval has not passed"),
        pytest.param(inf, ("same",), 127.0, False, id="as far as jitter lets anyone tell it has"),
        pytest.param(110.0, ("same",), 109.9, True, id="before the clock changes it"),
        pytest.param(110.0, ("same",), 110.0, False, id="the clock has changed it"),
        pytest.param(200.0, ("same",), 127.0, False, id="the interval is shorter"),
    ],
)
def test_what_was_seen_stands(until: float, mark: tuple[object, ...], now: float, stands: bool) -> None:
    assert Seen(("same",), 100.0, until).stands(mark, POLICY, now) is stands
