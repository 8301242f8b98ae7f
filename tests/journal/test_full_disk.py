"""A journal whose disk is full, or whose files were removed or refused."""

import errno
import io
import itertools
import shutil
import threading
import time
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

import pytest

from elasticd.base.errors import UnavailableError
from elasticd.journal import Journal, read, read_back
from elasticd.journal import journal as journal_module
from elasticd.journal import segments as segments_of
from elasticd.kit.history import begin
from tests.kit.records import KEY, Disk, decision, fill, refuse, said, segments, size


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.mark.parametrize("room", [0, 1, 100, 2000])
def test_a_full_disk_costs_only_the_lines_it_refuses(tmp_path: Path, disk: Disk, room: int) -> None:
    journal = Journal(tmp_path)
    fill(journal, 1)
    disk.room = room
    fill(journal, 4, start=1)
    lost = journal.failures
    assert (lost > 0, journal.writable) == (True, False)
    assert journal.latest(*KEY) == decision(120.0, wish=6)
    disk.room = inf
    fill(journal, 2, start=5)
    assert (journal.failures, journal.writable) == (lost, True)
    journal.close()
    times = [record.at for record in read(tmp_path)]
    assert times[:2] == [0, 1]
    assert times[-4:] == [150, 151, 180, 181]
    assert len(times) + lost == 14
    assert times == sorted(times)


def test_a_failing_journal_and_its_recovery_are_each_logged_once(
    tmp_path: Path, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    journal = Journal(tmp_path)
    fill(journal, 1)
    disk.room = 0
    fill(journal, 3, start=1)
    assert [one.levelname for one in caplog.records] == ["ERROR"]
    disk.room = inf
    fill(journal, 2, start=4)
    journal.close()
    assert [f"{one.levelname} {one.getMessage()}" for one in caplog.records] == [
        (
            "ERROR the journal cannot be written: No space left on device: what is decided is remembered, "
            "and gone at the next restart"
        ),
        "INFO the journal can be written again",
    ]


@pytest.mark.parametrize("room", [0, 1, 100])
def test_each_flush_retries_a_failed_write_and_loses_no_line(
    tmp_path: Path, disk: Disk, caplog: pytest.LogCaptureFixture, room: int
) -> None:
    caplog.set_level("INFO")
    journal = Journal(tmp_path)
    fill(journal, 1)
    disk.room = room
    fill(journal, 1, start=1)
    lost = journal.failures
    for _ in range(3):
        journal.flush()
        assert (journal.writable, journal.failures, journal.lacks) == (False, lost, 30.0)
    disk.room = inf
    journal.flush()
    assert (journal.writable, journal.fault, journal.failures) == (True, "", lost)
    assert said(caplog)[-1] == "INFO the journal can be written again"
    size = (tmp_path / segments(tmp_path)[0]).stat().st_size
    journal.flush()
    assert (tmp_path / segments(tmp_path)[0]).stat().st_size == size
    fill(journal, 1, start=2)
    journal.close()
    assert [one.at for one in read(tmp_path)] == [0.0, 1.0, 60.0, 61.0]
    assert [one.at for one in read_back(tmp_path)] == [61.0, 60.0, 1.0, 0.0]


def test_a_journal_at_its_limit_recovers_without_new_decisions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path, segment_bytes=2000, segments=4)
    with monkeypatch.context() as patch:
        patch.setattr(io, "FileIO", refuse)
        fill(journal, 40)
        lost = journal.failures
        journal.flush()
        assert not journal.writable
    journal.flush()
    journal.flush()
    assert (journal.writable, journal.swells, journal.failures) == (True, "", lost)
    journal.close()


def test_the_journal_knows_since_when_and_why_records_are_missing(tmp_path: Path, disk: Disk) -> None:
    journal = Journal(tmp_path)
    fill(journal, 1)
    assert (journal.writable, journal.fault) == (True, "")
    disk.room = 0
    for _ in range(2):
        fill(journal, 3, start=1)
        assert (journal.writable, journal.fault, journal.lacks) == (False, "No space left on device", 30.0)
    disk.room = inf
    fill(journal, 1, start=7)
    assert (journal.writable, journal.fault) == (True, "")
    disk.room = 0
    fill(journal, 1, start=9)
    assert (journal.fault, journal.lacks) == ("No space left on device", 270.0)
    disk.room = inf
    journal.close()


SWELLS = "no new segment can be begun: No space left on device"
OUTGROWS = f"WARNING the journal exceeds its size: {SWELLS}: all records are written, in larger or more segments"
AGAIN = "INFO the journal keeps to its size again"


def test_the_old_segment_continues_when_a_new_one_cannot_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    journal = Journal(tmp_path, segment_bytes=1000, segments=16)
    with monkeypatch.context() as patch:
        patch.setattr(io, "FileIO", refuse)
        for number in range(3):
            fill(journal, 1, start=number)
            assert (journal.writable, journal.fault, journal.lacks) == (True, "", 0.0)
        assert journal.swells == SWELLS
    fill(journal, 2, start=3)
    assert (journal.writable, journal.swells) == (True, "")
    journal.close()
    assert len(segments(tmp_path)) > 1
    assert len(list(read(tmp_path))) == 10
    assert journal.failures == 0
    assert said(caplog) == [OUTGROWS, AGAIN]


def test_one_segment_grows_to_the_total_limit_before_losing_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    journal = Journal(tmp_path, segment_bytes=2000, segments=4)
    with monkeypatch.context() as patch:
        patch.setattr(io, "FileIO", refuse)
        fill(journal, 40)
        assert 8000 <= (tmp_path / segments(tmp_path)[0]).stat().st_size < 8000 + 2500
        full = f"{SWELLS}, and the journal is as large as it may be"
        assert (journal.writable, journal.fault, journal.swells) == (False, full, SWELLS)
        kept = list(read(tmp_path))
        assert journal.failures == 80 - len(kept) > 0
        assert journal.lacks == kept[-1].at + 29.0
    fill(journal, 1, start=40)
    lost = journal.failures
    fill(journal, 2, start=41)
    assert (journal.writable, journal.swells, journal.failures) == (True, "", lost)
    journal.close()
    assert [one.at for one in read(tmp_path)][-4:] == [1230, 1231, 1260, 1261]
    assert [line.partition(":")[0] for line in said(caplog)] == [
        "WARNING the journal exceeds its size",
        "ERROR the journal cannot be written",
        AGAIN,
        "INFO the journal can be written again",
    ]


def test_undeletable_segments_are_reported_and_at_most_double_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    journal = Journal(tmp_path, segment_bytes=10_000, segments=3)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        numbers = itertools.count()
        while not journal.swells:
            fill(journal, 1, start=next(numbers))
        told = "no old segment can be dropped: No space left on device"
        assert (journal.writable, journal.swells) == (True, told)
        fill(journal, 100, start=1000)
        assert 30_000 < size(tmp_path) < 60_000 + 10_000
    fill(journal, 24, start=2000)
    assert journal.swells == ""
    journal.close()
    assert size(tmp_path) < 30_000


def test_all_segments_together_are_twice_the_limit_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, opens = Journal(tmp_path, segment_bytes=2000, segments=3), itertools.count()
    real = io.FileIO

    def seldom(*asked: Any) -> io.FileIO:
        if next(opens) % 20:
            refuse()
        return real(*asked)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        patch.setattr(io, "FileIO", seldom)
        fill(journal, 200)
        assert (size(tmp_path) < 12_000 + 2 * 2500, journal.writable) == (True, False)
    fill(journal, 4, start=300)
    assert journal.writable
    journal.close()
    assert size(tmp_path) < 6000 + 2500


def test_a_removed_journal_that_cannot_restart_counts_its_lost_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path, segment_bytes=2000)
    fill(journal, 1)
    (tmp_path / segments(tmp_path)[0]).unlink()
    with monkeypatch.context() as patch:
        patch.setattr(io, "FileIO", refuse)
        fill(journal, 40, start=1)
        assert (journal.writable, journal.failures, segments(tmp_path)) == (False, 80, [])
    fill(journal, 2, start=50)
    assert (journal.writable, journal.failures) == (True, 80)
    journal.close()
    assert [one.at for one in read(tmp_path)] == [1500.0, 1501.0, 1530.0, 1531.0]


def test_a_journal_that_was_removed_is_begun_again_at_once(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    fill(journal, 1)
    (tmp_path / segments(tmp_path)[0]).unlink()
    fill(journal, 2, start=1)
    journal.close()
    assert ([one.at for one in read(tmp_path)], journal.failures) == ([30.0, 31.0, 60.0, 61.0], 0)


def test_records_written_to_a_removed_file_count_as_missing(tmp_path: Path) -> None:
    """A folder that somebody deletes: the new segment cannot be begun, and the old one is nowhere."""
    journal = Journal(tmp_path / "state", segment_bytes=10)
    fill(journal, 1)
    gone = (tmp_path / "state").rename(tmp_path / "gone")  # the first segment may be on its way to being compressed
    shutil.rmtree(gone)
    fill(journal, 1, start=1)
    assert (journal.writable, journal.fault, journal.lacks) == (False, "No such file or directory", 30.0)
    journal.close()


@pytest.mark.parametrize("replaced", ["folder", "file"])
def test_records_go_on_where_readers_look_for_them(tmp_path: Path, replaced: str) -> None:
    """A folder that is moved away or mounted over, or a file that is moved away: readers would find nothing new."""
    folder = tmp_path / "state"
    journal = Journal(folder)
    fill(journal, 1)
    if replaced == "folder":
        folder.rename(tmp_path / "gone")
        folder.mkdir()
    else:
        (folder / "journal-00000001.jsonl").rename(tmp_path / "gone")
    fill(journal, 1, start=1)
    journal.close()
    assert ([one.at for one in read(folder)], journal.failures) == ([30.0, 31.0], 0)


@pytest.mark.parametrize(
    "changes",
    [{"reason": object()}, {"reason": "\ud800"}],
    ids=["an object", "half a character"],
)
def test_what_cannot_be_written_is_refused_and_not_remembered(tmp_path: Path, changes: dict[str, Any]) -> None:
    journal = Journal(tmp_path)
    with pytest.raises((TypeError, ValueError)):
        journal.append(decision(1.0, **changes))
    assert (journal.decisions(), journal.past(*KEY, 1.0, 7)) == ([], begin(1.0, 7))
    journal.close()
    assert list(read(tmp_path)) == []


@pytest.mark.parametrize("where", ["a file", "below a file"])
def test_an_unwritable_folder_is_reported_in_one_line(tmp_path: Path, where: str) -> None:
    file = tmp_path / "state"
    file.write_text("")
    folder = file if where == "a file" else file / "journal"
    with pytest.raises(UnavailableError, match=r"^/.*: the journal's folder must be writable: [\w ]+$") as caught:
        Journal(folder)
    assert caught.value.exit_code == 69


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_so_is_one_that_may_not_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr(io, "FileIO", refuse)
    with pytest.raises(UnavailableError, match="must be writable: no"):
        Journal(tmp_path)


def test_an_unreadable_journal_is_reported_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "journal-00000001.jsonl").write_text("")

    def refuse(*_: object, **__: object) -> Any:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(segments_of, "open", refuse, raising=False)
    with pytest.raises(UnavailableError, match="the journal must be readable: Permission denied"):
        list(read_back(tmp_path))


class StuckDisk:
    """The disk of files that are opened from now on: it answers no write while it is stuck."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers = threading.Event()
        self.answers.set()
        disk = self

        class File(io.FileIO):
            def write(self, data: Any, /) -> int:
                disk.answers.wait()
                return super().write(data)

        monkeypatch.setattr(io, "FileIO", File)
        monkeypatch.setattr(journal_module, "ANSWERS", 0.05)


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[StuckDisk]:
    disk = StuckDisk(monkeypatch)
    yield disk
    disk.answers.set()


def recovered(journal: Journal) -> None:
    """Flush until the disk has answered."""
    while not journal.writable:
        journal.flush()
        time.sleep(0.001)


def test_a_disk_that_does_not_answer_holds_up_nothing(
    tmp_path: Path, stuck: StuckDisk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    journal = Journal(tmp_path)
    fill(journal, 1)
    stuck.answers.clear()
    fill(journal, 3, start=1)
    assert (journal.writable, journal.fault, journal.lacks) == (False, "its disk does not answer", 30.0)
    assert journal.latest(*KEY) == decision(90.0, wish=5)
    stuck.answers.set()
    recovered(journal)
    assert (journal.fault, journal.failures) == ("", 0)
    journal.close()
    assert [record.at for record in read(tmp_path)] == [0, 1, 30, 31, 60, 61, 90, 91]
    assert [line.partition(":")[0] for line in said(caplog)] == [
        "ERROR the journal cannot be written",
        "INFO the journal can be written again",
    ]


def test_for_a_stuck_disk_only_so_many_lines_are_held(
    tmp_path: Path, stuck: StuckDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "HELD", 5000)
    journal = Journal(tmp_path)
    stuck.answers.clear()
    fill(journal, 40)
    assert 0 < journal.failures < 80
    stuck.answers.set()
    recovered(journal)
    fill(journal, 1, start=40)
    lost = journal.failures
    journal.close()
    times = [record.at for record in read(tmp_path)]
    assert len(times) + lost == 82
    assert times == sorted(times)
    assert times[-2:] == [1200, 1201]


def test_a_journal_closes_without_waiting_for_its_disk(tmp_path: Path, stuck: StuckDisk) -> None:
    journal = Journal(tmp_path)
    stuck.answers.clear()
    fill(journal, 1)
    journal.close()
    again = Journal(tmp_path)  # its lock is free
    again.close()


def test_a_folder_that_opens_slowly_is_reported_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(journal_module, "OPENS", 0.0)
    real = Path.mkdir

    def slowly(path: Path, *arguments: Any, **more: Any) -> None:
        while not caplog.records:
            time.sleep(0.001)
        real(path, *arguments, **more)

    monkeypatch.setattr(Path, "mkdir", slowly)
    Journal(tmp_path / "state").close()
    why = "is not open after 0 s: its disk may not answer; the daemon waits for it"
    assert said(caplog) == [f"WARNING {tmp_path / 'state'}: {why}"]
