"""A journal in which anything may stand: it opens, each reader reads, and what is whole is read as it was written."""

import asyncio
import errno
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from elasticd.journal import Journal, Record, read, read_back
from elasticd.journal import lines as journal_lines
from elasticd.journal import segments as segments_of
from elasticd.journal.lines import Damaged, decode, holds
from elasticd.ports.source import TimeRange
from elasticd.sources.forecast.journal import REPLICAS, JournalMemory
from elasticd.ui import decisions as show
from elasticd.ui.journaled import held, latest, latest_of_all, pod_report, pods
from elasticd.ui.reports import remembered
from elasticd.ui.terminal import Terminal
from tests.kit.demos import START, play
from tests.kit.records import KEY, decision, encode, outcome
from tests.ui.test_journaled import move, over

pytestmark = pytest.mark.slow

END = START + 30.0
SEGMENT = "journal-00000001.jsonl"


class Written:
    """The newest segment of a simulated run's journal, and its records by line."""

    def __init__(self, folder: Path) -> None:
        heard = play(seconds=30.0, told_by_others=False)
        told: list[Record] = [*heard.made, *heard.outcomes, *heard.placings, *heard.placeds]
        moves: list[Record] = [replace(move(0), at=START + 5), replace(over(1, "Gone"), at=START + 9)]
        self.records: list[Record] = sorted(told + moves, key=lambda record: record.at)
        journal = Journal(folder)
        for record in self.records:
            journal.append(record)
        journal.close()
        self.whole = (folder / SEGMENT).read_bytes()
        self.lines = self.whole.split(b"\n")[:-1]

    def readable(self, damaged: set[int]) -> list[Record]:
        """What must still be read where these lines, by index, are damaged."""
        return [record for index, record in enumerate(self.records) if index not in damaged]

    def at(self, position: int) -> int:
        """The line, by index, that a byte stands in."""
        return self.whole.count(b"\n", 0, position)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return Written(tmp_path_factory.mktemp("written"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damaged")


def put(folder: Path, content: bytes, name: str = SEGMENT) -> None:
    """This is all that stands in the folder."""
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / name).write_bytes(content)


def start_reading(folder: Path) -> Journal:
    """As the daemon does."""
    journal = Journal(folder, now=END)
    for one in journal.decisions():
        journal.past(one.policy, one.workload, END, one.current).wishes(START)
    journal.known_series.counts(END)
    return journal


def print_all(folder: Path) -> None:
    """What the commands print."""
    screen = Terminal()
    known = latest_of_all(folder)
    for part in show.status(remembered(folder), END):
        screen.print(part)
    for one in known[:3]:
        ref = one.workload
        newest, came = latest(folder, [ref.namespace, ref.kind, ref.name], one.policy)
        assert newest is not None
        screen.print(show.explain(newest, came, END))
    for name in pods(folder):
        pod_report(folder, name)
    held(folder)
    pod_report(folder, "shop/web")


def forecast(folder: Path) -> None:
    span = TimeRange(START, END, 15.0)
    asyncio.run(JournalMemory(folder).past(REPLICAS, ["shop/Deployment/search"], span))


def everything(folder: Path) -> list[Record]:
    """What is read by every reader, none of which raises; and a daemon that goes on writing is read too."""
    found = list(read(folder))
    assert list(read_back(folder)) == found[::-1]
    print_all(folder)
    forecast(folder)
    journal = start_reading(folder)
    journal.append(replace(outcome(END), decision="the next"))
    journal.close()
    assert list(read(folder)) == [*found, replace(outcome(END), decision="the next")]
    return found


def subsequence(some: list[Record], whole: list[Record]) -> bool:
    rest = iter(whole)
    return all(any(one == other for other in rest) for one in some)


@given(data=st.data())
def test_a_flipped_bit_costs_its_line_and_invents_no_record(
    written: Written, folder: Path, data: st.DataObject
) -> None:
    position, bit = data.draw(st.integers(0, len(written.whole) - 1)), data.draw(st.integers(0, 7))
    changed = bytearray(written.whole)
    changed[position] ^= 1 << bit
    put(folder, bytes(changed))
    line = written.at(position)
    beside = {line, line + 1} if written.whole[position : position + 1] == b"\n" else {line}
    found = everything(folder)
    assert subsequence(written.readable(beside & set(range(len(written.lines)))), found)
    assert subsequence(found, written.records)


GARBAGE = {
    "nothing": b"",
    "not UTF-8": b"\xff\xfe\xfd",
    "NULs": b"\x00" * 4096,
    "deep arrays": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000,
    "a deep record": b'{"type":"outcome","x":' + b"[" * 100_000,
    "a huge line": b"x" * 3_000_000,
    "a huge number": b'{"type":"outcome","before":' + b"9" * 10_000 + b"}",
    "a large number": b'{"type":"outcome","decision":"x","at":1,"policy":"p","workload":'
    b'{"namespace":"n","kind":"k","name":"x"},"result":"done","before":' + b"9" * 400 + b',"after":1}',
    "half a character": b'{"type":"outcome","decision":"\\udc00"}',
    "a torn record": b'{"type":"decision","id":"x","at":17',
    "an end of a record": b'":1}]}',
    "many lines": b"\r\n\x0b\x85 \n" * 200,
    "a newer record": b'{"type":"verdict","at":1}',
    "a newer value": msgspec.json.encode(outcome(1.0)).replace(b'"done"', b'"deferred"'),
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
@pytest.mark.parametrize("place", ["before", "middle", "within", "over", "after", "alone"])
def test_whatever_stands_in_any_place_the_rest_is_read(
    written: Written, folder: Path, garbage: bytes, place: str
) -> None:
    middle = len(written.lines) // 2
    start = sum(len(line) + 1 for line in written.lines[:middle])
    contents: dict[str, tuple[bytes, set[int]]] = {
        "before": (garbage + b"\n" + written.whole, set()),
        "middle": (written.whole[:start] + garbage + b"\n" + written.whole[start:], set()),
        "within": (written.whole[: start + 40] + garbage + written.whole[start + 40 :], {middle} if garbage else set()),
        "over": (
            written.whole[:start] + garbage + written.whole[start + len(garbage) :],
            _covered(written, start, garbage),
        ),
        "after": (written.whole + garbage, set()),
        "alone": (garbage, set(range(len(written.lines)))),
    }
    content, damaged = contents[place]
    put(folder, content)
    found = everything(folder)
    assert subsequence(written.readable(damaged), found)
    assert subsequence(found, written.records)


def _covered(written: Written, start: int, garbage: bytes) -> set[int]:
    """The lines that are written over, and the one that the end of the last joins."""
    last = min(start + len(garbage), len(written.whole) - 1)
    return set(range(written.at(start), min(written.at(last) + 1, len(written.lines)))) if garbage else set()


@given(data=st.data())
def test_a_cut_journal_is_read_to_its_cut_and_extended(written: Written, folder: Path, data: st.DataObject) -> None:
    end = data.draw(st.integers(0, len(written.whole)))
    put(folder, written.whole[:end])
    whole = [index for index in range(len(written.lines)) if index < written.at(end)]
    found = everything(folder)
    assert found[: len(whole)] == written.records[: len(whole)]
    assert len(found) <= len(whole) + 1


@given(st.binary(max_size=300), st.data())
def test_any_bytes_anywhere_raise_nothing(written: Written, folder: Path, garbage: bytes, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(written.whole)))
    put(folder, written.whole[:position] + garbage + written.whole[position + len(garbage) :])
    everything(folder)


@given(data=st.data())
def test_a_flip_without_checksums_neither_raises_nor_yields_future_records(
    written: Written, folder: Path, data: st.DataObject
) -> None:
    """As earlier versions wrote them: what a flip makes of them may be a record."""
    lines = [line[: line.rindex(b',"crc32"')] + b"}" for line in written.lines]
    whole = bytearray(b"\n".join(lines) + b"\n")
    position = data.draw(st.integers(0, len(whole) - 1))
    whole[position] ^= 1 << data.draw(st.integers(0, 7))
    put(folder, bytes(whole))
    everything(folder)
    journal = start_reading(folder)
    assert all(one.at <= END + journal_lines.AHEAD for one in journal.decisions())
    journal.close()


def earlier(record: Struct) -> bytes:
    """Its line as earlier versions wrote it."""
    return msgspec.json.encode(record)


@pytest.mark.parametrize(
    ("record", "told"),
    [
        pytest.param(decision(-1.0), "at: must be in [0, 32503680000), is -1", id="before the epoch"),
        pytest.param(decision(1e308), "at: must be in [0, 32503680000), is 1e+308", id="never"),
        pytest.param(decision(1.0, -3, replicas=2), "wish: must be in [0, 2147483647], is -3", id="a negative wish"),
        pytest.param(decision(1.0, current=-1), "current: must be in [0, 2147483647], is -1", id="a negative count"),
        pytest.param(decision(1.0, replicas=10**300), None, id="a count beyond floats"),
        pytest.param(outcome(1.0, after=2**31), "after: must be in [0, 2147483647], is 2147483648", id="too many"),
        pytest.param(
            decision(1.0, interval=-30.0),
            "interval and recall: must be in [0, 32503680000), are -30 and 0",
            id="a negative interval",
        ),
    ],
)
def test_a_record_without_checksum_that_no_daemon_writes_is_refused(record: Record, told: str | None) -> None:
    found = decode(earlier(record))
    assert isinstance(found, Damaged)
    assert told is None or found == Damaged(told)


def test_a_record_without_a_checksum_is_read_as_before(tmp_path: Path) -> None:
    records = [decision(1.0), outcome(2.0), replace(move(0), at=3.0)]
    (tmp_path / SEGMENT).write_bytes(b"".join(earlier(record) + b"\n" for record in records))
    assert list(read(tmp_path)) == records


def test_the_checksum_is_the_last_key_of_a_json_line() -> None:
    line = encode(decision(1.0))
    assert holds(line) is True
    assert list(msgspec.json.decode(line))[-1] == "crc32"
    assert holds(earlier(decision(1.0))) is None


@pytest.mark.parametrize("reader", [read, read_back], ids=["read", "read back"])
def test_what_is_passed_over_is_reported_with_its_place(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, reader: Callable[[Path], Iterator[Record]]
) -> None:
    good = [encode(decision(float(at), id=f"{at}")) for at in range(4)]
    flipped = good[1].replace(b'"current":2', b'"current":3')
    newer = b'{"type":"verdict","at":1}'
    sealed = b'%b,"crc32":"%08x"}' % (newer[:-1], zlib.crc32(newer[:-1]))
    lines = [good[0], flipped, b"[" * 5000, sealed, good[3]]
    path = tmp_path / SEGMENT
    path.write_bytes(b"\n".join(lines) + b"\n")
    assert {record.at for record in reader(tmp_path)} == {0.0, 3.0}
    first, second = [one.getMessage() for one in caplog.records]
    assert first == (
        f"{path}: 2 lines are damaged and passed over: the first is line 2, at byte {len(good[0]) + 1}: "
        "its checksum is wrong"
    )
    assert second.startswith(f"{path}: 1 line is not of this version of elasticd and passed over: line 4, at byte ")
    assert second.endswith("Invalid value 'verdict' - at `$.type`")


def test_damage_is_reported_also_to_who_looks_for_other_lines(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Else the newest but one would be taken for the newest without a word."""
    good = [encode(decision(1.0)), encode(decision(2.0)).replace(b'"web"', b'"wes"')]
    (tmp_path / SEGMENT).write_bytes(b"\n".join(good) + b"\n")
    newest, _ = latest(tmp_path, ["shop", "Deployment", "web"], None)
    assert newest == decision(1.0)
    assert ["its checksum is wrong" in one.getMessage() for one in caplog.records] == [True]


def test_a_line_that_is_being_written_is_no_damage(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / SEGMENT).write_bytes(encode(decision(1.0)) + b"\n" + encode(decision(2.0))[:200])
    assert list(read_back(tmp_path)) == [decision(1.0)]
    assert caplog.records == []


def test_records_ahead_of_the_clock_are_reported_and_not_remembered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A clock that was wrong for a while: else its wishes and changes would count as recent until that time comes."""
    journal = Journal(tmp_path)
    for record in (decision(1000.0, 4), decision(90_000.0, 9), outcome(90_001.0)):
        journal.append(record)
    journal.close()
    again = Journal(tmp_path, now=1010.0)
    assert again.past(*KEY, 1010.0, 2).wishes(0.0) == [4, 2]
    assert again.past(*KEY, 1010.0, 2).changes == ()
    assert again.latest(*KEY) == decision(1000.0, 4)
    again.close()
    told = f"{tmp_path}: 2 records ahead of the clock, by up to 88991 s: not remembered"
    assert [one.getMessage() for one in caplog.records] == [told]


def test_a_garbage_line_takes_no_more_memory_than_a_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elasticd.journal.reading.LONGEST", 5000)
    whole = b"x" * 99_999 + b"\n" + encode(decision(1.0)) + b"\n"
    (tmp_path / SEGMENT).write_bytes(whole)
    assert list(read(tmp_path)) == list(read_back(tmp_path)) == [decision(1.0)]


@pytest.mark.parametrize("number", [1, 2], ids=["oldest", "middle"])
def test_a_segment_that_cannot_be_read_costs_that_segment(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    unreadable, real = tmp_path / f"journal-{number:08d}.jsonl", open

    def on_a_bad_disk(path: Path, *arguments: Any, **more: Any) -> Any:
        if path == unreadable:
            raise OSError(errno.EIO, "Input/output error")
        return real(path, *arguments, **more)

    monkeypatch.setattr(segments_of, "open", on_a_bad_disk, raising=False)
    for index in (1, 2, 3):
        line = encode(decision(float(index), id=f"{index}")) + b"\n"
        (tmp_path / f"journal-{index:08d}.jsonl").write_bytes(line)
    journal = Journal(tmp_path)
    journal.append(outcome(9.0))
    journal.close()
    lost = f"{unreadable}: cannot be read from byte 0 on, which is passed over: Input/output error"
    assert lost in [record.getMessage() for record in caplog.records]
    found = [record.at for record in read(tmp_path)]
    assert found == [*[float(index) for index in (1, 2, 3) if index != number], 9.0]
    assert [record.at for record in read_back(tmp_path)] == found[::-1]
