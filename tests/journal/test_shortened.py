"""Shortened decisions, as earlier versions wrote them: they are read as they were decided, whatever the file lost."""

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from elasticd.journal import Journal, Record, read, read_back
from elasticd.journal.lines import ShortenedDecision, decode
from elasticd.journal.segments import compress
from elasticd.model.records import Decision
from elasticd.model.workload import Quality, Recommendation, Ref, Sample, Series
from elasticd.ui.journaled import latest, latest_of_all
from tests.kit.records import decision, outcome

API = Ref("shop", "Deployment", "api")

WRITTEN = Path(__file__).parent / "shortened" / "journal-00000001.jsonl"
"""What an earlier version wrote of `RECORDS`."""


def kept(at: float, *values: float, **changes: Any) -> Decision:
    """One of many alike, that differ in their time and samples."""
    samples = tuple(Sample(value, at, at + 0.1, 15.0, f"web-{index}", "web") for index, value in enumerate(values))
    seen = (Series("cpu", "meter", Quality.FRESH, samples, "", at),)
    return replace(decision(at), **{"verdict": "keep", "action": None, "series": seen, **changes})


RECORDS: list[Record] = [
    kept(1.0, 0.5, 0.25),
    kept(1.5, 0.75, workload=API, id="api@1.5"),
    kept(2.0, 0.5, 0.75),
    outcome(2.5),
    kept(3.0, 1 / 3, 0.1, recommendations=(Recommendation(3, "Wanted", "now for another reason"),)),
    kept(3.5, 0.8, workload=API, id="api@3.5"),
    kept(4.0, 0.5, reason="Other"),
    kept(5.0, 0.25, reason="Other"),
]
LINES = WRITTEN.read_bytes().splitlines()


def put(folder: Path, *lines: bytes) -> Path:
    """A segment of these lines."""
    path = folder / WRITTEN.name
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def test_shortened_decisions_are_read_as_they_were_decided() -> None:
    types = [msgspec.json.decode(line)["type"] for line in LINES]
    assert (types.count("decision"), types.count("decision-again")) == (3, 4)
    assert list(read(WRITTEN.parent)) == RECORDS
    assert list(read_back(WRITTEN.parent)) == RECORDS[::-1]


def test_the_newest_of_each_workload_is_found() -> None:
    folder = WRITTEN.parent
    assert latest(folder, ["shop", "Deployment", "api"], None) == (RECORDS[5], None)
    assert latest(folder, ["shop", "Deployment", "web"], "shop") == (RECORDS[7], None)
    assert latest_of_all(folder) == [RECORDS[5], RECORDS[7]]


def test_a_daemon_remembers_them_and_goes_on_in_full(tmp_path: Path) -> None:
    shutil.copy(WRITTEN, tmp_path)
    journal, fresh = Journal(tmp_path, segment_bytes=5000), Journal()
    for record in RECORDS:
        fresh.append(record)
    assert journal.decisions() == fresh.decisions()
    more = [kept(at, 0.25, reason="Other") for at in (6.0, 7.0)]
    for record in more:
        journal.append(record)
        journal.flush()
    journal.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["journal-00000001.jsonl.gz", "journal-00000002.jsonl"]
    assert list(read(tmp_path)) == [*RECORDS, *more]
    assert list(read_back(tmp_path)) == [*RECORDS, *more][::-1]


def test_a_compressed_segment_of_them_is_read_alike(tmp_path: Path) -> None:
    compress(put(tmp_path, *LINES))
    assert list(read(tmp_path)) == RECORDS
    assert list(read_back(tmp_path)) == RECORDS[::-1]


def test_what_is_like_a_lost_line_is_passed_over(tmp_path: Path) -> None:
    put(tmp_path, *LINES[:6], b'{"type":"decision","id":"shop@4.0",' + b"\x00" * 9, LINES[7])
    assert list(read(tmp_path)) == RECORDS[:6]
    assert list(read_back(tmp_path)) == RECORDS[5::-1]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"policy": "b"}, id="another policy's"),
        pytest.param({"workload": API}, id="about another workload"),
        pytest.param({"current": 3}, id="of another count"),
    ],
)
def test_no_decision_is_restored_from_anothers_of_its_id(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, changes: dict[str, Any]
) -> None:
    """Its own was lost: what it was is not known, and that is said."""
    other = replace(kept(1.0, 0.9), **changes)
    path = put(tmp_path, msgspec.json.encode(other), LINES[2], LINES[4])
    told = (
        f"{path}: 2 decisions cannot be read back: a line that is named there is missing; the newest is "
        "policy shop's about shop/Deployment/web at 3.000"
    )
    for reader in (read, read_back):
        caplog.clear()
        assert list(reader(tmp_path)) == [other]
        assert [one.getMessage() for one in caplog.records] == [told]
    caplog.clear()
    assert next(read_back(tmp_path)) == other
    assert [one.getMessage() for one in caplog.records] == [told], "also to who wants no more than the newest"


def test_decisions_sharing_an_id_are_each_restored_by_their_own(tmp_path: Path) -> None:
    first = kept(1.0, 0.5, workload=API, id="shop@1.0")
    again = b'{"type":"decision-again","id":"x","at":2.0,"policy":"shop","workload":%b,'
    again += b'"of":"shop@1.0","current":2,"series":[]}'
    put(tmp_path, LINES[0], msgspec.json.encode(first), LINES[2], again % msgspec.json.encode(API))
    records = [RECORDS[0], first, RECORDS[2], replace(first, id="x", at=2.0, series=())]
    assert list(read(tmp_path)) == records
    assert list(read_back(tmp_path)) == records[::-1]


def test_nothing_is_restored_from_a_decision_it_does_not_name() -> None:
    again = decode(LINES[2])
    assert isinstance(again, ShortenedDecision)
    assert again.restored(None) is None
    assert again.restored(kept(1.5, 0.5)) is None
    assert again.restored(kept(1.0, 0.5)) == kept(2.0, 0.5, 0.75)
