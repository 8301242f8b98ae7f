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
    numbers = [int(fault[1:]) for fault, _ in rows]
    assert numbers == sorted(set(numbers))
    assert numbers[:58] == list(range(1, 59)), "those of the campaign"
    named = {name: fault for fault, shown in rows for name in re.findall(r"`(test_\w+)`", shown)}
    untried = re.findall(r"^\| (F\d+) \|[^|]+\| not tried, as [^|]+\| none \|$", PAGE.read_text(), re.MULTILINE)
    assert set(named.values()) == {fault for fault, _ in rows} - {*untried}
    every = set(re.findall(r"`(test_\w+)`", PAGE.read_text()))
    assert [name for name in sorted(every) if not re.search(rf"def {name}\b", source)] == []
