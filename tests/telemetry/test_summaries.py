"""A row of the status page, and a point of a chart."""

from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.model.records import Decision
from elasticd.model.workload import Failure, Quality, Sample, Series
from elasticd.telemetry.summaries import LONGEST, data_age, point_of, refusal_of, row_of
from tests.kit.records import decision, outcome

STALE = Series("queue", "sensor", Quality.STALE, (Sample(7.0, 10.0, 10.0),), measured=10.0)
CPU = Series("cpu", "meter", Quality.FRESH, (Sample(0.5, 90.0, 95.0), Sample(0.25, 90.0, 95.0)), measured=90.0)


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        pytest.param({}, "limited", "", id="nothing limits it"),
        pytest.param({"replicas": 2}, "limited", "rate: ", id="a limit stops it"),
        pytest.param({"series": (CPU, STALE)}, "missing", "queue stale", id="a series is stale"),
        pytest.param({"failures": (Failure("hpa", "limit", "a\nb"),)}, "failures", (("hpa", "a b"),), id="it fails"),
        pytest.param({"failures": (Failure("p", "h", "m"),) * 20}, "failures", (("p", "m"),) * 8, id="it fails often"),
        pytest.param({"message": "x\u202ey"}, "message", "x\\u202ey", id="a direction of writing"),
        pytest.param({"message": "x" * 999}, "message", "x" * (LONGEST - 3) + "...", id="a long message"),
    ],
)
def test_a_row_says_what_matters_of_a_decision(changes: dict[str, Any], field: str, value: object) -> None:
    assert getattr(row_of(1, decision(100.0, **changes)), field) == value


def test_a_row_does_not_change_with_time_alone() -> None:
    assert row_of(1, decision(100.0)) == row_of(1, replace(decision(130.0), id="another", uid="another"))


@pytest.mark.parametrize(
    ("series", "age"),
    [
        pytest.param((CPU,), 10.0, id="of the oldest sample"),
        pytest.param((CPU, STALE), 10.0, id="of what is trusted"),
        pytest.param((), None, id="of nothing"),
    ],
)
def test_the_age_is_that_of_the_data_decided_upon(series: tuple[Series, ...], age: float | None) -> None:
    assert data_age(decision(100.0, series=series)) == age


def test_a_point_has_the_total_of_each_series() -> None:
    nonsense = Series("nonsense", "meter", Quality.INVALID, (Sample(float("nan"), 1.0, 1.0),))
    made: Decision = decision(100.0, series=(CPU, STALE, nonsense, Series("none", "", Quality.EMPTY)))
    assert point_of(made).demand == {"cpu": 0.75, "queue": 7.0}


@pytest.mark.parametrize(
    ("result", "text"),
    [("done", ""), ("observed", ""), ("refused", "refused: Budget: no"), ("conflict", "conflict: Budget: no")],
)
def test_only_an_action_that_was_not_done_is_told(result: Any, text: str) -> None:
    assert refusal_of(replace(outcome(1.0), result=result, reason="Budget", message="no")) == text
