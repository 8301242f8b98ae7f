"""The journal: what is written is read again, whatever happened to the file in between."""

import errno
import io
import itertools
import re
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elasticd.base.errors import UnavailableError
from elasticd.journal import Journal, Record, read, read_back
from elasticd.journal.lines import write_line
from elasticd.model.actions import Scale
from elasticd.model.history import Past
from elasticd.model.records import Decision, Outcome
from elasticd.model.workload import Condition, Failure, Limit, Measure, Quality, Recommendation, Ref, Sample, Series

WEB = Ref("shop", "Deployment", "web")
KEY = ("shop", WEB)


def decision(at: float, wish: int | None = 3, current: int = 2, **changes: Any) -> Decision:
    """A judged one, with something of everything."""
    made = Decision(
        id=f"shop@{at}",
        at=at,
        policy="shop",
        workload=WEB,
        mode="act",
        current=current,
        replicas=current if wish is None else wish,
        verdict="scale",
        reason="Wanted",
        message="more",
        uid="uid",
        wish=wish,
        recommendations=(Recommendation(wish, "Wanted", "", (Measure("cpu", "70%", "50%", 3),), "hpa"),),
        limits=(Limit("ScaleUpLimit", "", 1, None, name="rate", bound=True),),
        conditions=(Condition("AbleToScale", True, "ReadyForNewScale"),),
        failures=(Failure("bad", "limit", "raised"),),
        series=(Series("cpu", "meter", Quality.FRESH, (Sample(0.5, at, at, 15.0, "web-0", "web"),), "", at),),
        interval=30.0,
        interval_by="policy",
        action=Scale(WEB, "uid", "7", 2, 3, "more"),
    )
    return replace(made, **changes)


def outcome(at: float, before: int = 2, after: int = 3) -> Outcome:
    return Outcome("shop@0", at, "shop", WEB, "done", before, after, 200, seconds=0.1)


def encode(record: Record) -> bytes:
    """Its line, without the end."""
    lines = bytearray()
    write_line(record, lines)
    return bytes(lines[:-1])


def fill(journal: Journal, count: int, start: int = 0) -> None:
    for number in range(start, start + count):
        journal.append(decision(number * 30.0, wish=2 + number % 5))
        journal.append(outcome(number * 30.0 + 1))
        journal.flush()


def segments(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    records: list[Record] = [
        decision(1.0),
        outcome(2.0),
        decision(3.0, None, reason='"quoted"\n', message="ünï"),
        outcome(4.0),
    ]
    journal = Journal(tmp_path)
    for record in records:
        journal.append(record)
    journal.close()
    assert list(read(tmp_path)) == records
    assert list(read_back(tmp_path)) == records[::-1]


_AS_USUAL = {
    "limits": b'{"reason":"R","message":"","lowest":null,"highest":null,"condition":"ScalingLimited","name":"",'
    b'"of_wish":false,"bound":false,"standstill":false,"takes_back":false,"gives_way":false}',
    "recommendations": b'{"replicas":3,"reason":"R","message":"","measures":[],"strategy":"","expires":null,'
    b'"priority":0,"abstains":false}',
    "series": b'{"name":"cpu","source":"meter","quality":"empty","samples":[],"message":"","measured":0.0,'
    b'"covered":true,"may_raise":false,"forecast":null}',
}
"""As earlier versions wrote them."""


@pytest.mark.parametrize(
    ("table", "record", "written"),
    [
        pytest.param("limits", Limit("R"), b'{"reason":"R"}', id="limit"),
        pytest.param("recommendations", Recommendation(3, "R"), b'{"replicas":3,"reason":"R"}', id="recommendation"),
        pytest.param(
            "series",
            Series("cpu", "meter", Quality.EMPTY),
            b'{"name":"cpu","source":"meter","quality":"empty"}',
            id="series",
        ),
    ],
)
def test_default_values_are_omitted_when_written_and_restored_when_read(
    tmp_path: Path, table: str, record: Any, written: bytes
) -> None:
    changes: dict[str, Any] = {table: (record,)}
    made = decision(1.0, **changes)
    journal = Journal(tmp_path)
    journal.append(made)
    journal.close()
    path = next(tmp_path.glob("*.jsonl"))
    line = path.read_bytes()
    assert written in line
    earlier = re.sub(rb',"crc32":"[0-9a-f]{8}"', b"", line)
    path.write_bytes(line + earlier.replace(written, _AS_USUAL[table]))
    assert list(read(tmp_path)) == [made, made]


@pytest.mark.parametrize("key", ["failures", "marks", "removals", "recommendations", "limits", "series", "conditions"])
def test_empty_tables_of_a_decision_are_encoded_as_empty_lists(key: str) -> None:
    empty = Decision("id", 1.0, "shop", WEB, "act", 2, 2, "keep", "R", "")
    assert msgspec.json.decode(msgspec.json.encode(empty))[key] == []


def test_the_last_decision_is_at_hand(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    fill(journal, 3)
    other = decision(9.0, policy="another")
    journal.append(other)
    assert journal.latest(*KEY) == decision(60.0, wish=4)
    assert journal.decisions() == [other, decision(60.0, wish=4)]
    assert journal.latest("shop", Ref("shop", "Deployment", "none")) is None
    journal.close()


@given(st.lists(st.tuples(st.integers(0, 400), st.one_of(st.none(), st.integers(0, 9)), st.booleans()), max_size=30))
def test_the_past_after_a_restart_is_the_past_before(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int | None, bool]]
) -> None:
    folder, at = tmp_path_factory.mktemp("journal"), 0.0
    journal = Journal(folder)
    for wait, wish, done in steps:
        at += wait
        journal.append(decision(at, wish))
        if done:
            journal.append(outcome(at + 1))
    journal.close()
    again = Journal(folder)
    assert again.past(*KEY, at + 30, 2) == journal.past(*KEY, at + 30, 2)
    assert (again.decisions(), again._pasts) == (journal.decisions(), journal._pasts)
    again.close()


_STEPS = st.lists(
    st.tuples(
        st.sampled_from([WEB, Ref("shop", "Deployment", "api")]),
        st.sampled_from(["Wanted", "Other"]),
        st.sampled_from([None, 3, 4]),
        st.sampled_from(["", "restart", "outcome", "torn"]),
    ),
    max_size=30,
)


@given(_STEPS, st.sampled_from([1, 2000, 1 << 20]))
def test_records_survive_segments_restarts_and_torn_lines(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Any], segment_bytes: int
) -> None:
    folder = tmp_path_factory.mktemp("journal")
    journal, records = Journal(folder, segment_bytes, 10**6), list[Record]()
    for number, (workload, reason, wish, then) in enumerate(steps):
        made = decision(float(number), wish, workload=workload, reason=reason)
        records += [made] if then != "outcome" else [made, outcome(number + 0.5)]
        for record in records[-1:] if then != "outcome" else records[-2:]:
            journal.append(record)
        if then in ("restart", "torn"):
            journal.close()
            if then == "torn":
                newest = max(folder.glob("*.jsonl"))
                newest.write_bytes(newest.read_bytes() + b'{"type":"decision","id":"sh')
            journal = Journal(folder, segment_bytes, 10**6)
        else:
            journal.flush()
    past = journal._pasts
    journal.close()
    assert list(read(folder)) == records
    assert list(read_back(folder)) == records[::-1]
    again = Journal(folder, segment_bytes, 10**6)
    assert again._pasts == past
    again.close()


def test_the_past_is_the_same_over_any_number_of_restarts(tmp_path: Path) -> None:
    steady, restarted = Journal(), Journal(tmp_path)
    for number in range(9):
        fill(steady, 1, number)
        fill(restarted, 1, number)
        restarted.close()
        restarted = Journal(tmp_path)
    assert restarted.past(*KEY, 300.0, 2) == steady.past(*KEY, 300.0, 2)
    restarted.close()


def test_restarts_alone_leave_no_files_behind(tmp_path: Path) -> None:
    for number in range(40):
        journal = Journal(tmp_path, segments=2)
        fill(journal, 1, number)
        journal.close()
    assert segments(tmp_path) == ["journal-00000001.jsonl"]
    assert sum(1 for _ in read(tmp_path)) == 80


@pytest.mark.parametrize(
    "torn",
    [b'{"type":"deci', b'{"type":"decision","id":"x"', b"\x00" * 50, b"{", b'{"type":"decision"}\n{"ty'],
    ids=str,
)
def test_a_torn_last_line_costs_that_line_only(tmp_path: Path, torn: bytes) -> None:
    journal = Journal(tmp_path)
    fill(journal, 2)
    journal.close()
    with (tmp_path / "journal-00000001.jsonl").open("ab") as file:
        file.write(torn)
    again = Journal(tmp_path)
    fill(again, 2, start=2)
    again.close()
    assert [record.at for record in read(tmp_path)] == [0, 1, 30, 31, 60, 61, 90, 91]


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\xff\xfe\x00",
        b"null",
        b"[]",
        b'{"type":"decision"}',
        b'{"type":"later"}',
        b"{" * 2000,
        b"1e999",
        b'"' * 99,
    ],
    ids=["empty", "not UTF-8", "null", "an array", "fields missing", "a newer type", "deep", "a number", "quotes"],
)
def test_lines_that_are_no_records_are_passed_over(tmp_path: Path, garbage: bytes) -> None:
    good = msgspec.json.encode(decision(1.0))
    (tmp_path / "journal-00000003.jsonl").write_bytes(garbage + b"\n" + good + b"\n" + garbage)
    assert list(read(tmp_path)) == list(read_back(tmp_path)) == [decision(1.0)]


def test_unknown_fields_of_a_newer_record_are_ignored(tmp_path: Path) -> None:
    newer = msgspec.json.decode(msgspec.json.encode(decision(1.0))) | {"mood": "good"}
    (tmp_path / "journal-00000001.jsonl").write_bytes(msgspec.json.encode(newer) + b"\n")
    assert list(read(tmp_path)) == [decision(1.0)]


def test_other_files_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    for name in ("journal-x.jsonl", "journal-.jsonl", "journal-1.txt", "notes"):
        (tmp_path / name).write_text("mine")
    journal = Journal(tmp_path, segment_bytes=1, segments=2)
    fill(journal, 9)
    journal.close()
    assert [name for name in segments(tmp_path) if not name.startswith("journal-0")] == [
        "journal-.jsonl",
        "journal-1.txt",
        "journal-x.jsonl",
        "notes",
    ]


def test_a_full_segment_is_compressed_and_the_oldest_go(tmp_path: Path) -> None:
    journal = Journal(tmp_path, segment_bytes=3000, segments=3)
    fill(journal, 40)
    journal.close()
    *old, newest = segments(tmp_path)
    assert old[0] > "journal-00000001.jsonl"
    assert {Path(name).suffix for name in old} == {".gz"}
    assert newest.endswith(".jsonl")
    assert 3000 < size(tmp_path) <= 9000
    records = list(read(tmp_path))
    assert len(records) * len(encode(outcome(1.0))) > 3000
    assert records[-1] == outcome(39 * 30.0 + 1)
    assert list(read_back(tmp_path)) == records[::-1]


class Full:
    """A file on a disk that takes only so many bytes more."""

    def __init__(self, file: Any, room: int) -> None:
        self.file, self.room = file, room

    def write(self, data: Any) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = int(self.file.write(bytes(data[: self.room])))
        self.room -= taken
        return taken

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


@pytest.mark.parametrize("room", [0, 1, 100, 2000])
def test_a_full_disk_costs_only_the_lines_it_refuses(tmp_path: Path, room: int) -> None:
    journal = Journal(tmp_path)
    fill(journal, 1)
    good, journal._file = journal._file, Full(journal._file, room)  # type: ignore[assignment]
    fill(journal, 4, start=1)
    lost = journal.failures
    assert (lost > 0, journal.writable) == (True, False)
    assert journal.latest(*KEY) == decision(120.0, wish=6)
    journal._file = good
    fill(journal, 2, start=5)
    assert (journal.failures, journal.writable) == (lost, True)
    journal.close()
    times = [record.at for record in read(tmp_path)]
    assert times[:2] == [0, 1]
    assert times[-4:] == [150, 151, 180, 181]
    assert len(times) + lost == 14
    assert times == sorted(times)


def test_a_failing_journal_and_its_recovery_are_each_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    journal = Journal(tmp_path)
    fill(journal, 1)
    good, journal._file = journal._file, Full(journal._file, 0)  # type: ignore[assignment]
    fill(journal, 3, start=1)
    assert [one.levelname for one in caplog.records] == ["ERROR"]
    journal._file = good
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
    tmp_path: Path, caplog: pytest.LogCaptureFixture, room: int
) -> None:
    caplog.set_level("INFO")
    journal = Journal(tmp_path)
    fill(journal, 1)
    good, journal._file = journal._file, Full(journal._file, room)  # type: ignore[assignment]
    fill(journal, 1, start=1)
    lost = journal.failures
    for _ in range(3):
        journal.flush()
        assert (journal.writable, journal.failures, journal.lacks) == (False, lost, 30.0)
    journal._file = good
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


def test_the_journal_knows_since_when_and_why_records_are_missing(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    fill(journal, 1)
    assert (journal.writable, journal.fault) == (True, "")
    good, journal._file = journal._file, Full(journal._file, 0)  # type: ignore[assignment]
    for _ in range(2):
        fill(journal, 3, start=1)
        assert (journal.writable, journal.fault, journal.lacks) == (False, "No space left on device", 30.0)
    journal._file = good
    fill(journal, 1, start=7)
    assert (journal.writable, journal.fault) == (True, "")
    journal._file = Full(good, 0)  # type: ignore[assignment]
    fill(journal, 1, start=9)
    assert (journal.fault, journal.lacks) == ("No space left on device", 270.0)
    journal._file = good
    journal.close()


def refuse(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [f"{one.levelname} {one.getMessage()}" for one in caplog.records]


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
    shutil.rmtree(tmp_path / "state")
    fill(journal, 1, start=1)
    assert (journal.writable, journal.fault, journal.lacks) == (False, "No such file or directory", 30.0)
    journal.close()


@pytest.mark.parametrize(
    "changes",
    [{"reason": object()}, {"reason": "\ud800"}],
    ids=["an object", "half a character"],
)
def test_what_cannot_be_written_is_refused_and_not_remembered(tmp_path: Path, changes: dict[str, Any]) -> None:
    journal = Journal(tmp_path)
    with pytest.raises((TypeError, ValueError)):
        journal.append(decision(1.0, **changes))
    assert (journal.decisions(), journal._pasts) == ([], {})
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

    def refuse(_: Path, mode: str) -> Any:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UnavailableError, match="the journal must be readable: Permission denied"):
        list(read_back(tmp_path))


def test_reading_back_reads_no_more_segments_than_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path, segment_bytes=5000, segments=16)
    fill(journal, 40)
    journal.close()
    opened: list[str] = []
    real = Path.open

    def note(path: Path, mode: str) -> Any:
        opened.append(path.name)
        return real(path, mode)

    monkeypatch.setattr(Path, "open", note)
    assert next(read_back(tmp_path, b'"web"')) == outcome(39 * 30.0 + 1)
    assert (len(segments(tmp_path)) > 5, len(opened) <= 2) == (True, True)


def test_a_segment_dropped_while_being_read_is_skipped(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        (tmp_path / f"journal-{number:08d}.jsonl").write_bytes(msgspec.json.encode(decision(float(number))) + b"\n")
    reading = read_back(tmp_path)
    assert next(reading).at == 3
    (tmp_path / "journal-00000002.jsonl").unlink()
    assert [record.at for record in reading] == [1]


def test_without_a_folder_it_is_kept_in_memory() -> None:
    journal = Journal()
    fill(journal, 3)
    journal.close()
    assert journal.past(*KEY, 61.0, 2).interval == 30.0


def test_ungoverned_workloads_are_forgotten_but_stay_on_disk(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    fill(journal, 1)
    journal.append(outcome(5.0))
    last = journal.past(*KEY, 5.0, 2)
    journal.forget(set(), before=last.until)
    assert (journal.decisions(), journal.past(*KEY, 5.0, 2)) == ([], last)
    journal.forget(set(), before=last.until + 1)
    assert journal._pasts == {}
    assert journal.past(*KEY, 9.0, 7).wishes(0.0) == [7]
    journal.close()
    assert len(list(read(tmp_path))) == 3


def test_a_workload_that_could_not_be_judged_leaves_no_wish() -> None:
    """It is not there, so it has not 0 replicas; else it would shrink as soon as it comes."""
    journal = Journal()
    journal.append(decision(0.0, None, current=0, verdict="hold", reason="FailedGetScale", interval_by=""))
    assert journal.latest(*KEY) is not None
    assert journal.past(*KEY, 5.0, 7) == Past(since=5.0, runs=journal.past(*KEY, 5.0, 7).runs, until=5.0)
    assert journal.past(*KEY, 5.0, 7).wishes(0.0) == [7]


def test_a_long_time_without_judgement_opens_the_windows_afresh() -> None:
    journal = Journal()
    journal.append(decision(0.0, wish=2))
    for number in range(1, 30):
        journal.append(decision(number * 30.0, None, current=0, interval_by=""))
    assert journal.past(*KEY, 900.0, 8).wishes(800.0) == [8]


def test_windows_reopen_after_others_may_have_acted_but_changes_stay() -> None:
    journal = Journal()
    fill(journal, 2)
    journal.reopen()
    past = journal.past(*KEY, 40.0, 9)
    assert past.wishes(39.0) == [9]
    assert len(past.changes) == 2


def test_a_folder_is_one_daemon_s_alone(tmp_path: Path) -> None:
    first = Journal(tmp_path)
    with pytest.raises(UnavailableError, match="must be one daemon's alone, another elasticd writes here"):
        Journal(tmp_path)
    first.close()
    Journal(tmp_path).close()
