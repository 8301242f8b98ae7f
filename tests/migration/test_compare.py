"""`elasticd compare`: replica-hours and unserved demand of what was and of what would have been."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from elasticd.api import Pod, Quality, Sample, Series
from elasticd.decision.basis import change, parts_of
from elasticd.decision.decide import decide
from elasticd.journal import Journal, Record
from elasticd.migration.compare import Comparison, compared
from elasticd.model.workload import Container
from tests.kit.daemons import called
from tests.kit.deciding import Wants, case

BEGAN = 1_000_000.0


def pod(name: str) -> Pod:
    return Pod("default", name, name, "Running", containers=(Container("main", {"cpu": 1.0}),))


def moment(
    minute: int, current: int, wish: int, used: float, autoscaler: str = "", mode: str = "observe"
) -> Iterator[Record]:
    """What the journal has of one decision: so many pods of a core each, which use so many cores together."""
    at = BEGAN + 60 * minute
    samples = tuple(Sample(used / current, at, at, 30, f"p{index}") for index in range(current))
    series = {"cpu": Series("cpu", "test", Quality.FRESH, samples, measured=at)}
    pods = tuple(pod(f"p{index}") for index in range(current))
    made = case([Wants(answer=wish)], [], current, at=at, confirmed=at, series=series, pods=pods, autoscaler=autoscaler)
    made = replace(made, policy=replace(made.policy, mode=mode))
    decision = decide(made)
    basis = change(at, (made.policy.name, decision.workload), None, parts_of(made))
    assert basis is not None
    yield basis
    yield decision


def journaled(*rows: tuple[int, int, float], autoscaler: str = "", mode: str = "observe") -> list[Record]:
    """A decision a minute: the count, the wish, and the cores that were used."""
    return [record for minute, row in enumerate(rows) for record in moment(minute, *row, autoscaler, mode)]


def only(records: list[Record]) -> Comparison:
    (comparison,) = compared(records)
    return comparison


def test_replica_hours_and_unserved_demand_are_summed() -> None:
    comparison = only(journaled((2, 4, 3.0), (2, 4, 3.0), (4, 4, 3.0)))
    assert comparison.seconds == 120
    assert comparison.theirs == pytest.approx(2 * 120 / 3600)
    assert comparison.ours == pytest.approx(4 * 120 / 3600)
    assert comparison.demand == pytest.approx(3 * 120 / 3600)
    assert comparison.their_unserved == pytest.approx(1 * 120 / 3600)
    assert comparison.our_unserved == 0
    assert (comparison.their_changes, comparison.our_changes) == (1, 0)


def test_a_policy_that_yields_is_in_shadow_too() -> None:
    comparison = only(journaled((2, 4, 1.0), (2, 4, 1.0), autoscaler="HorizontalPodAutoscaler web", mode="act"))
    assert comparison.beside == "HorizontalPodAutoscaler web"
    assert comparison.ours == pytest.approx(2 * comparison.theirs)


def test_a_policy_that_acts_is_not_compared() -> None:
    assert compared(journaled((2, 4, 1.0), (4, 4, 1.0), mode="act")) == []


def test_the_policys_bounds_hold_for_what_would_be() -> None:
    comparison = only(journaled((2, 99, 1.0), (2, 99, 1.0)))
    assert comparison.ours == pytest.approx(10 * 60 / 3600)


def test_a_gap_counts_for_five_minutes_at_most() -> None:
    records = [*moment(0, 2, 2, 1.0), *moment(600, 2, 2, 1.0)]
    assert only(records).seconds == 300


def test_the_command_prints_a_row_for_each(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for record in journaled((2, 4, 3.0), (2, 4, 3.0), autoscaler="HorizontalPodAutoscaler web"):
        journal.append(record)
    journal.close()
    code, text, _ = called(capsys, "compare", "--state", tmp_path)
    assert code == 0
    assert " ".join(text.split()).startswith(
        "workload policy beside over replica-hours unserved changes default/Deployment/web p "
    )
    code, text, _ = called(capsys, "compare", "--state", tmp_path, "--json")
    (record,) = json.loads(text)
    assert (code, record["workload"]["name"], record["policy"]) == (0, "web", "p")
    assert (record["since"], record["until"]) == ("1970-01-12T13:46:40.000Z", "1970-01-12T13:47:40.000Z")
    assert (record["seconds"], record["demand_seconds"]) == (60, 60)


def test_an_empty_journal_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, err = called(capsys, "compare", "--state", tmp_path)
    problem = "the journal must have decisions of a policy in shadow, has none"
    assert (code, err) == (69, f"{tmp_path}: {problem}\n")
