"""`elasticd pause` and `resume`: what they write, and what they refuse."""

import pytest

from elasticd.base.errors import UnavailableError
from elasticd.model.reports import StatusReport
from elasticd.ui import pauses
from tests.kit.daemons import called
from tests.kit.records import WEB, decision


@pytest.mark.parametrize(
    ("until", "why", "parts"),
    [
        pytest.param(None, "", ["down", "by"], id="who alone"),
        pytest.param(1e9, "a sale; big", ["down", "until 2001-09-09T01:46:40.000Z", "by", "a sale, big"], id="all"),
    ],
)  # fmt: skip
def test_a_pause_notes_until_when_who_and_why(until: float | None, why: str, parts: list[str]) -> None:
    noted = pauses.note("down", until, why).split("; ")
    assert ["by" if part.startswith("by ") else part for part in noted] == parts


def test_a_policy_means_the_workloads_it_decided_about() -> None:
    status = StatusReport(True, True, False, (decision(60.0, id="1"),))
    assert pauses.governed(status, decision(60.0, id="1").policy) == [WEB]
    with pytest.raises(UnavailableError, match="policy other: must have decided about a workload, has not"):
        pauses.governed(status, "other")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        pytest.param([], "WORKLOAD: must be given, or else --policy, neither is", id="nothing"),
        pytest.param(["a/b/c", "--policy", "web"], "WORKLOAD: must be given, or else --policy, both are", id="both"),
        pytest.param(
            ["--policy", "web", "--for", "soon"], '--for: must be a duration such as 30m or 2h, is "soon"', id="time"
        ),
        pytest.param(
            ["--policy", "web", "--for", "99999999999h"],
            '--for: must be a duration such as 30m or 2h, is "99999999999h"',
            id="an end that no calendar has",
        ),
    ],
)
def test_wrong_arguments_of_a_pause_are_told(
    capsys: pytest.CaptureFixture[str], words: list[str], problem: str
) -> None:
    assert called(capsys, "pause", *words) == (78, "", f"{problem}\n")
