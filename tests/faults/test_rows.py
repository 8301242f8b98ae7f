"""The table of docs/fault-runs.md counts what ran, and says by what means."""

from pathlib import Path

import pytest

from tests.faults.means import DRAWN, means
from tests.faults.rows import cases, named, table

REPORT = """<testsuites><testsuite>
<testcase classname="tests.kube.test_a" name="test_one[first]" time="2.5" />
<testcase classname="tests.test_b" name="test_one" time="0.5"><failure message="no">...</failure></testcase>
<testcase classname="tests.test_b" name="test_two" time="0.1"><skipped message="no server" /></testcase>
<testcase classname="tests.test_b" name="test_three" time="9" />
</testsuite></testsuites>"""
ROWS = """\
| F1 | hangs | holds | `test_one`, `test_two` |
| F2 | lies | holds | `test_two` |
| F3 | never | not tried | none |
"""


def test_a_row_counts_runs_on_real_servers_and_failures(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    assert table(named(ROWS), cases(report))[2:] == [
        "| F1 | plain calls | 2 | 2 | 1 | 2.5 s | 1 |",
        "| F2 | plain calls | 1 | 0 | 0 | 0.0 s | 0 |",
        "| F3 | not tried | 0 | 0 | 0 | 0.0 s | 0 |",
    ]


MEANS = [
    ("test_a_lost_request_or_answer_is_made_good", ["API server", "proxy", "process"]),
    ("test_a_server_that_cannot_prove_itself_changes_nothing", ["Prometheus", "Mosquitto", "process"]),
    ("test_after_a_kill_and_a_restart_it_is_done_once", ["API server", "proxy", "SIGKILL or SIGSTOP", "process"]),
    ("test_a_refused_list_leaves_the_copy_kept_but_unconfirmed", ["scripted server"]),
    ("test_hostile_labels_are_escaped", [DRAWN]),
    ("test_only_what_shows_the_violation_is_left", ["plain calls"]),
]


@pytest.mark.parametrize(("test", "by"), MEANS)
def test_means_are_read_from_what_a_test_uses(test: str, by: list[str]) -> None:
    assert means([test]) == by
