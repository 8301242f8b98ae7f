"""What a full run of the tests showed of each fault: `python -m tests.faults.rows REPORT...` reads pytest's reports in
JUnit's XML and prints the table of docs/fault-runs.md.

Knows docs/faults.md and such reports.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from tests.faults.means import means

PAGE = Path(__file__).resolve().parents[2] / "docs" / "faults.md"
REAL = "tests.kube."
"""Where tests run against a real control plane, Prometheus or broker."""


class Case(NamedTuple):
    """A test with one row of its table, as it ran once."""

    real: bool
    seconds: float
    passed: bool


def cases(report: Path) -> Iterator[tuple[str, Case]]:
    """The cases of a report by the names of their tests."""
    for case in ElementTree.parse(report).iter("testcase"):  # pytest wrote it
        if case.find("skipped") is None:
            passed = case.find("failure") is None and case.find("error") is None
            real = case.get("classname", "").startswith(REAL)
            yield case.get("name", "").partition("[")[0], Case(real, float(case.get("time", 0)), passed)


def named(page: str) -> dict[str, list[str]]:
    """The tests that the page names for each fault."""
    rows = re.findall(r"^\| (F\d+) \|.*\| ([^|]+) \|$", page, re.MULTILINE)
    return {fault: re.findall(r"`(test_\w+)`", shown) for fault, shown in rows}


def table(faults: Mapping[str, Sequence[str]], ran: Iterable[tuple[str, Case]]) -> list[str]:
    """A row for each fault: by what means, tests, runs, those against real servers, how long the slowest of all took
    until everything was whole again, and how many failed."""
    by_name = defaultdict[str, list[Case]](list)
    for name, case in ran:
        by_name[name].append(case)
    lines = [
        "| fault | by | tests | runs | on real servers | whole again within | violations |",
        "|---|---|---|---|---|---|---|",
    ]
    for fault, tests in faults.items():
        runs = [case for name in tests for case in by_name[name]]
        slowest = max((case.seconds for case in runs), default=0.0)
        real, failed = sum(case.real for case in runs), sum(not case.passed for case in runs)
        by = ", ".join(means(tests)) if tests else "not tried"
        lines.append(f"| {fault} | {by} | {len(tests)} | {len(runs)} | {real} | {slowest:.1f} s | {failed} |")
    return lines


if __name__ == "__main__":
    print(*table(named(PAGE.read_text()), (case for name in sys.argv[1:] for case in cases(Path(name)))), sep="\n")
