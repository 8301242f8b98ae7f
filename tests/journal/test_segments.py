"""Compressed segments: nothing is lost when one is made, and a damaged one costs no more than a block."""

import gzip
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticd.journal import Journal, Record, lines_after, read, read_back
from elasticd.journal import journal as journal_of
from elasticd.journal import segments as segments_of
from elasticd.journal.segments import compress
from tests.kit.records import decision, encode, outcome, refuse, said, segments, size

RECORDS: list[Record] = [record for at in range(40) for record in (decision(30.0 * at), outcome(30.0 * at + 1))]
LINES = [encode(record) + b"\n" for record in RECORDS]
PLAIN, COMPRESSED = "journal-00000001.jsonl", "journal-00000001.jsonl.gz"


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    """Several blocks in a short segment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments_of, "BLOCK", 5000)
        yield


def compressed(folder: Path) -> Path:
    """All records in one compressed segment."""
    (folder / PLAIN).write_bytes(b"".join(LINES))
    compress(folder / PLAIN)
    return folder / COMPRESSED


def test_gzip_reads_a_compressed_segment(tmp_path: Path) -> None:
    path = compressed(tmp_path)
    assert gzip.decompress(path.read_bytes()) == b"".join(LINES)
    assert segments(tmp_path) == [COMPRESSED]
    assert size(tmp_path) < len(b"".join(LINES)) / 4


def test_each_line_of_a_compressed_segment_has_its_place(tmp_path: Path) -> None:
    (tmp_path / PLAIN).write_bytes(b"".join(LINES))
    before = list(lines_after(tmp_path))
    compress(tmp_path / PLAIN)
    assert list(lines_after(tmp_path)) == before
    assert list(lines_after(tmp_path, before[30][0])) == before[31:]


def is_run_of(found: list[Record], lost: list[Record]) -> bool:
    """Whether the lost records are a part of all, without a gap."""
    return [record for record in RECORDS if record not in lost] == found and (
        not lost or RECORDS[RECORDS.index(lost[0]) :][: len(lost)] == lost
    )


@given(data=st.data())
def test_one_flipped_bit_costs_one_block(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("flipped")
    path = compressed(folder)
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    found = list(read(folder))
    lost = [record for record in RECORDS if record not in found]
    assert is_run_of(found, lost)
    assert sum(len(encode(record)) for record in lost) < 5000 + 2500
    assert list(read_back(folder)) == found[::-1]


@given(data=st.data())
def test_a_cut_or_overwritten_file_costs_what_it_lacks(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    path = compressed(folder)
    content = path.read_bytes()
    begin = data.draw(st.integers(0, len(content)))
    path.write_bytes(content[:begin] + data.draw(st.binary(max_size=300)))
    found = list(read(folder))
    assert found == RECORDS[: len(found)]
    path.write_bytes(content[begin:])
    found = list(read(folder))
    assert found == RECORDS[len(RECORDS) - len(found) :]


@pytest.mark.parametrize("reader", [read, read_back], ids=["read", "read back"])
def test_a_damaged_block_is_reported_with_its_place(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, reader: Callable[[Path], Iterator[Record]]
) -> None:
    path = compressed(tmp_path)
    content = bytearray(path.read_bytes())
    begin = content.index(b"\x1f\x8b\x08", 1)
    content[begin + 100] ^= 1
    content[begin] ^= 1
    path.write_bytes(content)
    assert 0 < len(list(reader(tmp_path))) < len(RECORDS)
    told = f"{path}: 1 compressed block is damaged and passed over: at byte {begin}: incorrect header"
    assert [one.getMessage() for one in caplog.records] == [told]


@pytest.mark.parametrize(
    "left",
    [
        pytest.param([PLAIN], id="before it began"),
        pytest.param([PLAIN, COMPRESSED + ".tmp"], id="while it was written"),
        pytest.param([PLAIN, COMPRESSED], id="before the plain one was removed"),
    ],
)
def test_a_kill_while_compressing_loses_and_leaves_nothing(tmp_path: Path, left: list[str]) -> None:
    whole = compressed(tmp_path).read_bytes()
    contents = {PLAIN: b"".join(LINES), COMPRESSED: whole, COMPRESSED + ".tmp": whole[: len(whole) // 2]}
    for name in segments(tmp_path):
        (tmp_path / name).unlink()
    for name in left:
        (tmp_path / name).write_bytes(contents[name])
    (tmp_path / "journal-00000002.jsonl").write_bytes(encode(outcome(5000.0)) + b"\n")
    assert list(read(tmp_path)) == [*RECORDS, outcome(5000.0)]
    assert list(read_back(tmp_path)) == [*RECORDS, outcome(5000.0)][::-1]
    Journal(tmp_path).close()
    assert segments(tmp_path) == [COMPRESSED, "journal-00000002.jsonl"]
    assert list(read(tmp_path)) == [*RECORDS, outcome(5000.0)]


def test_a_full_disk_leaves_the_plain_segment_and_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        for number in range(2):
            rotate(tmp_path, number)
    assert segments(tmp_path) == [PLAIN, "journal-00000002.jsonl", "journal-00000003.jsonl"]
    path = tmp_path / "journal-00000001.jsonl"
    told = f"a segment of the journal cannot be compressed, and stays as it is: {path}: No space left on device"
    assert said(caplog)[0] == f"WARNING {told}"
    rotate(tmp_path, 2)
    assert [Path(name).suffix for name in segments(tmp_path)] == [".gz", ".gz", ".gz", ".jsonl"]
    assert list(read(tmp_path)) == [decision(0.0), decision(1.0), decision(2.0)]


def rotate(folder: Path, number: int, policy: str = "shop") -> None:
    """Write a segment, and begin the next."""
    journal = Journal(folder, segment_bytes=1000, segments=99)
    journal.append(decision(float(number), policy=policy))
    journal.close()


def test_compressing_does_not_hold_up_the_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers see a record once, before, while and after its segment is compressed."""
    began, go_on = threading.Event(), threading.Event()
    real = os.fsync

    def wait(file: int) -> None:
        began.set()
        assert go_on.wait(10)
        real(file)

    monkeypatch.setattr(os, "fsync", wait)
    journal = Journal(tmp_path, segment_bytes=1000, segments=99)
    for at in range(3):
        journal.append(decision(float(at)))
        journal.flush()
    assert began.wait(10)
    assert [record.at for record in read(tmp_path)] == [0, 1, 2]
    reading = read_back(tmp_path)
    assert next(reading).at == 2
    go_on.set()
    journal.close()
    assert segments(tmp_path)[:2] == [COMPRESSED, "journal-00000002.jsonl.gz"]
    assert [record.at for record in reading] == [1, 0]


def test_a_daemon_remembers_the_newest_segments_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compressed ones reach far back: reading them all would hold up its start."""
    monkeypatch.setattr(journal_of, "REMEMBERED", 3000)
    for number in range(9):
        rotate(tmp_path, number, policy=f"p{number}")
    journal = Journal(tmp_path, segment_bytes=1000, segments=99)
    assert [one.policy for one in journal.decisions()] == ["p7", "p8"]
    journal.close()
    assert len(list(read(tmp_path))) == 9
