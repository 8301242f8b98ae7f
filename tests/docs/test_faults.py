"""That docs/faults.md names tests that are there."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "docs" / "faults.md"


@pytest.mark.slow
def test_every_fault_is_shown_by_tests_that_exist() -> None:
    source = "\n".join(path.read_text() for path in TESTS.rglob("test_*.py"))
    rows = re.findall(r"^\| (F\d+) \|.*\| ([^|]+) \|$", PAGE.read_text(), re.MULTILINE)
    others = (21, 22, *range(28, 37), 40, 42, 43, 46, 47, 50, 51, 52, 54, 57)
    assert [fault for fault, _ in rows] == [f"F{number}" for number in (*range(1, 16), *others)]
    named = {name: fault for fault, shown in rows for name in re.findall(r"`(test_\w+)`", shown)}
    assert set(named.values()) == {fault for fault, _ in rows}
    assert [name for name in named if not re.search(rf"def {name}\b", source)] == []
