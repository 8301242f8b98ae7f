"""Decisions that are written shorter: what is read is what was decided, whatever happened to the file in between."""

import errno
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elasticd.journal import Journal, Record, read, read_back
from elasticd.journal.shortened import ROW, Expander, ShortenedDecision, Shortener
from elasticd.model.actions import Mark
from elasticd.model.records import Decision
from elasticd.model.workload import Condition, Failure, Limit, Quality, Recommendation, Ref, Sample, Series
from elasticd.ui.journaled import latest, latest_of_all
from tests.journal.test_journal import WEB, Full, decision, outcome

API = Ref("shop", "Deployment", "api")


def kept(at: float, *values: float, **changes: Any) -> Decision:
    """One of many alike, that differ in their time and samples."""
    samples = tuple(Sample(value, at, at + 0.1, 15.0, f"web-{index}", "web") for index, value in enumerate(values))
    seen = (Series("cpu", "meter", Quality.FRESH, samples, "", at),)
    return replace(decision(at), **{"verdict": "keep", "action": None, "series": seen, **changes})


def write(folder: Path, *records: Record, segment_bytes: int = 1 << 20) -> list[bytes]:
    """The lines that they come to."""
    journal = Journal(folder, segment_bytes=segment_bytes)
    for record in records:
        journal.append(record)
        journal.flush()
    journal.close()
    return [line for path in sorted(folder.glob("*.jsonl")) for line in path.read_bytes().splitlines()]


def types(lines: list[bytes]) -> list[str]:
    return [msgspec.json.decode(line)["type"] for line in lines]


def test_a_decision_that_saw_something_else_and_said_the_same_is_told_by_what_it_saw(tmp_path: Path) -> None:
    records = [kept(1.0, 0.5, 0.25), kept(2.0, 0.5, 0.75), kept(3.0, 1 / 3, 0.1)]
    lines = write(tmp_path, *records)
    assert types(lines) == ["decision", "decision-again", "decision-again"]
    assert len(lines[1]) < 0.6 * len(lines[0])
    last = msgspec.json.decode(lines[2])
    del last["crc32"]
    assert last == {
        "type": "decision-again",
        "id": "shop@3.0",
        "at": 3.0,
        "policy": "shop",
        "workload": msgspec.to_builtins(WEB),
        "of": "shop@1.0",
        "current": 2,
        "series": msgspec.json.decode(msgspec.json.encode(records[2].series)),
    }
    assert list(read(tmp_path)) == records
    assert list(read_back(tmp_path)) == records[::-1]


def test_a_row_of_decisions_alike_is_told_in_full_now_and_then(tmp_path: Path) -> None:
    records = [kept(float(at), at / 7) for at in range(2 * ROW + 3)]
    lines = write(tmp_path, *records)
    full = [index for index, kind in enumerate(types(lines)) if kind == "decision"]
    assert full == [0, ROW + 1, 2 * ROW + 2]
    path = tmp_path / "journal-00000001.jsonl"
    path.write_bytes(path.read_bytes().replace(b"shop@0.0", b"shop@9.0", 1))
    assert list(read(tmp_path)) == list(read_back(tmp_path))[::-1] == records[ROW + 1 :]


def test_what_was_recommended_is_told_where_it_is_new(tmp_path: Path) -> None:
    other = kept(2.0, 0.5, recommendations=(Recommendation(3, "Wanted", "now for another reason"),))
    records = [kept(1.0, 0.5), other, kept(3.0, 0.5, recommendations=()), kept(4.0, 0.5)]
    lines = write(tmp_path, *records)
    assert types(lines)[1:] == ["decision-again"] * 3
    assert ["recommendations" in msgspec.json.decode(line) for line in lines] == [True, True, True, False]
    assert list(read(tmp_path)) == records


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"current": 3}, id="the count"),
        pytest.param({"replicas": 4}, id="what was decided"),
        pytest.param({"verdict": "hold"}, id="the verdict"),
        pytest.param({"reason": "Other"}, id="the reason"),
        pytest.param({"message": "less"}, id="the message"),
        pytest.param({"mode": "observe"}, id="the mode"),
        pytest.param({"uid": "made anew"}, id="the workload's uid"),
        pytest.param({"wish": None}, id="the wish"),
        pytest.param({"limits": (Limit("ScaleUpLimit", "", 1, None, name="rate"),)}, id="whether a limit bound"),
        pytest.param({"conditions": (Condition("AbleToScale", False, "FailedGetScale"),)}, id="a condition"),
        pytest.param({"failures": ()}, id="a failure that is gone"),
        pytest.param({"failures": (Failure("worse", "limit", "raised"),)}, id="another failure"),
        pytest.param({"pods": 7}, id="the pods"),
        pytest.param({"interval": 10.0}, id="the interval"),
        pytest.param({"interval_by": "cadence"}, id="who asked for it"),
        pytest.param({"action": decision(1.0).action}, id="an action"),
        pytest.param({"blind": True}, id="what is not known"),
        pytest.param({"marks": (Mark(WEB, "uid", {"a": "b"}, "web-0"),)}, id="marks"),
        pytest.param({"recall": 60.0}, id="how long it is remembered"),
    ],
)
def test_one_that_differs_in_anything_else_is_told_in_full_and_so_is_the_way_back(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    records = [kept(1.0, 0.5), kept(2.0, 0.6, **changes), kept(3.0, 0.7, **changes), kept(4.0, 0.5)]
    assert types(write(tmp_path, *records)) == ["decision", "decision", "decision-again", "decision"]
    assert list(read(tmp_path)) == records
    assert list(read_back(tmp_path)) == records[::-1]


def test_each_workload_under_each_policy_is_told_by_itself(tmp_path: Path) -> None:
    records = [
        one
        for at in (1.0, 2.0)
        for one in (kept(at, at), kept(at, 2 * at, workload=API, id=f"a{at}"), kept(at, policy="b", id=f"b{at}"))
    ]
    assert types(write(tmp_path, *records)) == ["decision"] * 3 + ["decision-again"] * 3
    assert list(read(tmp_path)) == records
    assert latest(tmp_path, ["shop", "Deployment", "api"], None) == (records[4], None)
    assert latest(tmp_path, ["shop", "Deployment", "web"], "shop") == (records[3], None)
    assert latest_of_all(tmp_path) == [records[5], records[4], records[3]]


_steps = st.lists(
    st.tuples(
        st.sampled_from([WEB, API]),
        st.lists(st.floats(0, 1e9), max_size=3),
        st.sampled_from(["Wanted", "Other"]),
        st.sampled_from([None, 3, 4]),
        st.sampled_from(["", "restart", "outcome", "torn"]),
    ),
    max_size=30,
)


@given(_steps, st.sampled_from([1, 2000, 1 << 20]))
def test_what_is_read_is_what_was_written_over_segments_restarts_and_torn_lines(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Any], segment_bytes: int
) -> None:
    folder = tmp_path_factory.mktemp("journal")
    journal, records = Journal(folder, segment_bytes, 99), list[Record]()
    for number, (workload, values, reason, wish, then) in enumerate(steps):
        said = (Recommendation(wish, reason),)
        made = kept(float(number), *values, workload=workload, reason=reason, recommendations=said)
        records += [made] if then != "outcome" else [made, outcome(number + 0.5)]
        for record in records[-1:] if then != "outcome" else records[-2:]:
            journal.append(record)
        if then in ("restart", "torn"):
            journal.close()
            if then == "torn":
                newest = max(folder.glob("*.jsonl"))
                newest.write_bytes(newest.read_bytes() + b'{"type":"decision-again","id":"sh')
            journal = Journal(folder, segment_bytes, 99)
        else:
            journal.flush()
    past = journal._pasts
    journal.close()
    assert list(read(folder)) == records
    assert list(read_back(folder)) == records[::-1]
    again = Journal(folder)
    assert again._pasts == past
    again.close()


def test_every_segment_is_read_without_the_others(tmp_path: Path) -> None:
    records = [kept(float(at), at / 7) for at in range(60)]
    write(tmp_path, *records, segment_bytes=4000)
    paths = sorted(tmp_path.glob("*.jsonl"))
    assert len(paths) > 5
    for path in paths[:-3]:
        path.unlink()
    left = list(read(tmp_path))
    assert left == records[-len(left) :]
    assert list(read_back(tmp_path)) == left[::-1]
    assert len(left) == sum(len(path.read_bytes().splitlines()) for path in paths[-3:])


def test_what_is_like_a_line_that_was_lost_is_passed_over_and_nothing_is_made_up(tmp_path: Path) -> None:
    records = [kept(1.0, 0.5), kept(2.0, 0.6), kept(3.0, 0.7, reason="Other"), kept(4.0, 0.8, reason="Other")]
    lines = write(tmp_path, *records)
    lines[2] = b'{"type":"decision","id":"shop@3.0",' + b"\x00" * 9
    (tmp_path / "journal-00000001.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    assert list(read(tmp_path)) == records[:2]
    assert list(read_back(tmp_path)) == records[1::-1]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"policy": "b"}, id="another policy's"),
        pytest.param({"workload": API}, id="about another workload"),
        pytest.param({"current": 3}, id="of another count"),
    ],
)
def test_nobodys_decision_is_taken_for_anothers_that_has_its_id(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, changes: dict[str, Any]
) -> None:
    """Its own was lost: what it was is not known, and that is said."""
    records = [kept(1.0, 0.5), kept(2.0, 0.6), kept(3.0, 0.7)]
    lines = write(tmp_path, *records)
    other = replace(kept(1.0, 0.9), **changes)
    path = tmp_path / "journal-00000001.jsonl"
    path.write_bytes(b"\n".join([msgspec.json.encode(other), *lines[1:]]) + b"\n")
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


def test_of_two_decisions_of_one_id_each_is_told_by_its_own(tmp_path: Path) -> None:
    records = [one for at in (1.0, 2.0) for one in (kept(at, at), kept(at, 2 * at, workload=API))]
    assert types(write(tmp_path, *records)) == ["decision"] * 2 + ["decision-again"] * 2
    assert list(read(tmp_path)) == records
    assert list(read_back(tmp_path)) == records[::-1]


@pytest.mark.parametrize("room", [0, 1, 300, 1500])
def test_after_a_full_disk_everyone_is_told_in_full(tmp_path: Path, room: int) -> None:
    journal = Journal(tmp_path)
    good, journal._file = journal._file, Full(journal._file, room)  # type: ignore[assignment]
    records = [kept(float(at), at / 7) for at in range(8)]
    for record in records[:5]:
        journal.append(record)
    journal.flush()
    lost, journal._file = journal.failures, good
    for record in records[5:]:
        journal.append(record)
        journal.flush()
    journal.close()
    assert lost > 0
    assert list(read(tmp_path)) == [*records[: 5 - lost], *records[5:]]


def test_a_new_segment_that_cannot_be_opened_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    journal = Journal(tmp_path, segment_bytes=1000)
    records = [kept(float(at), at / 7) for at in range(8)]
    monkeypatch.setattr("elasticd.journal.io.FileIO", refuse)
    for record in records[:4]:
        journal.append(record)
        journal.flush()
    monkeypatch.undo()
    for record in records[4:]:
        journal.append(record)
        journal.flush()
    journal.close()
    assert list(read(tmp_path)) == records


def test_nothing_is_like_what_could_not_be_written(tmp_path: Path) -> None:
    bad: Any = (Series("cpu", "meter", Quality.FRESH, (), message="\ud800"),)
    journal = Journal(tmp_path)
    with pytest.raises((TypeError, ValueError)):
        journal.append(kept(1.0, series=bad))
    journal.append(kept(2.0, 0.5))
    with pytest.raises((TypeError, ValueError)):
        journal.append(kept(3.0, series=bad))
    journal.append(kept(4.0, 0.6))
    journal.close()
    assert list(read(tmp_path)) == [kept(2.0, 0.5), kept(4.0, 0.6)]


def test_a_restorer_gives_nothing_for_what_it_did_not_see() -> None:
    shortener, restorer = Shortener(), Expander()
    shortener.shorten(kept(1.0, 0.5))
    again = shortener.shorten(kept(2.0, 0.5))
    assert isinstance(again, ShortenedDecision)
    assert restorer.restore(again) is None
    restorer.saw(kept(1.5, 0.5))
    assert restorer.restore(again) is None
    restorer.saw(kept(1.0, 0.5))
    assert restorer.restore(again) == kept(2.0, 0.5)
