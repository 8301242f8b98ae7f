"""The digest by which daemons notice that they have other policies: what changes it, and what does not."""

import os
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.config.digest import summarized
from elasticd.config.reading import read_policies
from elasticd.model.policy import Bounds, Policy, PoolPolicy, PoolSelect, Strategy, Target
from elasticd.registry import discover

ROOT = Path(__file__).resolve().parents[2]
WEB = Policy(name="web", replicas=Bounds(9), strategies=(), workload=Target("shop", "web"), mode="act")
POOL = PoolPolicy(name="pool", pool=PoolSelect(), strategies=())


class Odd(Strategy, tag="odd", frozen=True):
    """A strategy with a value that JSON cannot express."""

    value: Any = None


def digest(*policies: Policy | PoolPolicy) -> str:
    return summarized(policies).split(" ")[0]


@pytest.mark.parametrize(
    ("policies", "counts"),
    [
        pytest.param([], "0 0", id="none"),
        pytest.param([WEB, POOL], "1 2", id="one of two acts"),
        pytest.param([replace(WEB, mode="observe")], "0 1", id="none of one"),
    ],
)
def test_it_says_how_many_policies_act(policies: list[Policy | PoolPolicy], counts: str) -> None:
    assert summarized(policies).split(" ", 1)[1] == counts


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(replace(WEB, mode="observe"), id="the mode"),
        pytest.param(replace(WEB, replicas=Bounds(10)), id="a bound"),
        pytest.param(replace(WEB, workload=Target("shop", "api")), id="the workload"),
        pytest.param(replace(WEB, name="other"), id="the name"),
        pytest.param(replace(WEB, strategies=(Odd(),)), id="a strategy"),
        pytest.param(replace(WEB, limits=(Odd(),)), id="a limit"),
    ],
)
def test_another_policy_has_another_digest(changed: Policy) -> None:
    assert digest(changed, POOL) != digest(WEB, POOL)


def test_what_json_cannot_express_counts_by_its_type() -> None:
    first, second = (replace(WEB, strategies=(Odd(value=object()),)) for _ in range(2))
    assert digest(first) == digest(second) != digest(replace(WEB, strategies=(Odd(value=Odd),)))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(date(2026, 12, 24), date(2026, 12, 25), id="dates"),
        pytest.param(1, 2, id="numbers"),
    ],
)
def test_keys_that_are_no_strings_count(first: Any, second: Any) -> None:
    one, two = (digest(replace(WEB, strategies=(Odd(value={key: 1.0}),))) for key in (first, second))
    assert one != two != ""


def test_keys_that_json_cannot_have_leave_the_digest_unknown() -> None:
    assert summarized([replace(WEB, strategies=(Odd(value={(1, 2): 1.0}),))]) == ""


SCRIPT = """
import pathlib
from elasticd.config.digest import summarized
from elasticd.config.reading import read_policies
from elasticd.registry import discover
policies, _ = read_policies(pathlib.Path("config/policies"), discover(), None)
print(summarized(policies[::-1]))
"""


@pytest.mark.slow
def test_policies_in_any_order_and_process_have_one_digest() -> None:
    policies, _ = read_policies(ROOT / "config" / "policies", discover(), None)
    assert len(policies) > 10
    for seed in "12":
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        found = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, cwd=ROOT, capture_output=True, check=True
        )
        assert found.stdout.decode().strip() == summarized(policies)
