"""The table of docs/fault-runs.md counts what ran."""

from pathlib import Path

from tests.faults.rows import cases, named, table

REPORT = """<testsuites><testsuite>
<testcase classname="tests.kube.test_a" name="test_one[first]" time="2.5" />
<testcase classname="tests.test_b" name="test_one" time="0.5"><failure message="no">...</failure></testcase>
<testcase classname="tests.test_b" name="test_two" time="0.1"><skipped message="no server" /></testcase>
<testcase classname="tests.test_b" name="test_three" time="9" />
</testsuite></testsuites>"""
PAGE = "| F1 | hangs | holds | `test_one`, `test_two` |\n| F2 | lies | holds | `test_two` |\n"


def test_a_row_counts_runs_on_real_servers_and_failures(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    assert table(named(PAGE), cases(report))[2:] == ["| F1 | 2 | 2 | 1 | 2.5 s | 1 |", "| F2 | 1 | 0 | 0 | 0.0 s | 0 |"]
