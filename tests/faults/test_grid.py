"""The grid of faults and features says what is tried, and why what is not."""

from pathlib import Path

import pytest

from tests.faults import grid
from tests.faults.grid import FEATURES, MOVE, SCALE, Cell

PAGE = Path(__file__).resolve().parents[2] / "docs" / "fault-grid.md"


def test_the_page_is_what_the_tests_and_the_campaign_say() -> None:
    assert PAGE.read_text() == grid.page(), "python -m tests.faults.grid > docs/fault-grid.md"


def test_a_test_counts_for_the_features_of_its_file() -> None:
    found = grid.tested({"F28": ["test_a_restart_after_any_kill_leaves_exactly_one_pod"], "F1": ["test_no_such"]})
    assert found == {("F28", MOVE): {True}}


def test_a_cell_without_tests_or_a_reason_is_refused() -> None:
    with pytest.raises(ValueError, match="F999 is not tried with scale"):
        grid.cells({"F999": []})


def test_a_file_of_which_nothing_is_known_is_refused() -> None:
    with pytest.raises(ValueError, match=r"elsewhere/x\.py"):
        grid.about("elsewhere/x.py")


def test_episodes_count_for_the_features_that_are_on() -> None:
    kinds = {fault: {feature for seed in grid.SEEDS for found, feature in grid.met(seed) if found == fault} for fault in
             ("F11", "F28", "F29")}  # fmt: skip
    assert kinds["F11"] == {SCALE}
    assert kinds["F28"] == {*FEATURES}
    assert MOVE in kinds["F29"]


def test_a_cell_is_of_tests_of_episodes_or_of_neither() -> None:
    faults = {"F1": ["test_a_server_that_is_not_there_is_told"]}
    found = grid.cells(faults)
    real, others, episodes, _ = found["F1", SCALE]
    assert (real, others, episodes > 0) == (False, True, True)
    assert found["F1", MOVE] == Cell(reason=grid.NO_SAMPLES)


def test_every_step_is_interrupted_in_every_way_but_reads() -> None:
    lacking = {step: {*grid.COLUMNS} - runs for (_, step), runs in grid.steps().items()}
    assert {step for step, missing in lacking.items() if missing} == {"see it gone", "see it run"}
    assert len(lacking) > 20
