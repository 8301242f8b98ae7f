"""A state folder in which links, FIFOs and folders are named as the journal's files are."""

import os
from pathlib import Path

import pytest

from elasticd.journal import Journal, read, read_back
from elasticd.runtime.control_file import ANSWER
from tests.base.test_files import STRANGERS
from tests.kit import daemons
from tests.kit.records import decision

PLACES = ["journal-00000001.jsonl.gz", "journal-00000002.jsonl", "journal-00000009.jsonl", "journal-00000009.jsonl.gz"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", STRANGERS)
def test_what_is_no_file_is_passed_over(
    kind: str, place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = tmp_path / "other"
    other.write_text("mine")
    make, what = STRANGERS[kind]
    make(tmp_path / place)
    for at in range(40):
        journal = Journal(tmp_path, segment_bytes=1500, segments=100)
        journal.append(decision(float(at)))
        journal.close()
        assert (journal.writable, journal.swells) == (True, "")
    assert [record.at for record in read(tmp_path)] == list(range(40))
    assert [record.at for record in read_back(tmp_path)] == list(range(40))[::-1]
    passed_over = f"{tmp_path / place}: must be a file of the journal, is {what.removeprefix('it is ')}: passed over"
    assert caplog.messages[0] == passed_over
    assert other.read_text() == "mine"


@pytest.mark.slow
def test_a_daemon_runs_and_answers_beside_strangers(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    for number, (make, _) in enumerate(STRANGERS.values(), 1):
        make(state / f"journal-{number:08d}.jsonl")
    with daemons.daemon(tmp_path) as running:
        running.replicas(4)
        running.logged(r"journal-0000000\d.jsonl: must be a file of the journal, is a .*: passed over", len(STRANGERS))
        os.mkfifo(state / ANSWER)
        for command in (["status"], ["explain", "shop/Deployment/web"]):
            shown = daemons.run(*command, "--config", tmp_path / "elasticd.toml")
            assert (shown.returncode, "web" in shown.stdout) == (0, True), shown.stderr
        assert running.stop() == 0
