"""The journal: what is written is read again, whatever stands beside it."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elasticd.journal import Journal, Record, read, read_back
from elasticd.model.records import BY_HAND, DISABLED, Decision
from elasticd.model.workload import Condition, Limit, Quality, Recommendation, Ref, Series
from tests.kit.daemons import until
from tests.kit.records import KEY, WEB, decision, encode, fill, outcome, pasts, segments, size


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


KNOWN, LOST = Series("q", "s", Quality.FRESH), Series("q", "s", Quality.FRESH, presumed=True)
STALE, UNSEEN = Series("q", "s", Quality.STALE), Series("q", "s", Quality.INVALID, unseen=True)


def count(journal: Journal, at: float) -> tuple[int, int, int]:
    """How many series are known, how many are lost, and all."""
    counts = journal.known_series.counts(at)
    return counts.known, counts.lost, counts.total


UNASKED = {"interval_by": ""}
"""Of a decision that no strategy was asked for."""


@pytest.mark.parametrize(
    ("before", "then", "counted"),
    [
        pytest.param([], (KNOWN,), (1, 0, 1), id="it has samples"),
        pytest.param([], (LOST,), (0, 0, 1), id="it had none ever"),
        pytest.param([(KNOWN, {})], (LOST,), (0, 1, 1), id="it has none any more, which counts as 0"),
        pytest.param([(KNOWN, {})], (STALE,), (0, 1, 1), id="it is too old"),
        pytest.param([(KNOWN, {})], (UNSEEN,), (1, 0, 1), id="of some pods only, as a controller may be late"),
        pytest.param([(KNOWN, {}), (LOST, {})], (STALE,), (0, 1, 1), id="it is still lost"),
        pytest.param([(KNOWN, {}), (LOST, {})], (KNOWN,), (1, 0, 1), id="it is there again"),
        pytest.param([(KNOWN, {"at": -600.0}), (LOST, {"at": -591.5})], (LOST,), (0, 0, 1), id="ten minutes ago"),
        pytest.param([(KNOWN, {}), (KNOWN, {"current": 0})], (LOST,), (0, 0, 1), id="it was at zero before"),
    ],
)
def test_series_are_lost_that_had_good_samples(
    tmp_path: Path, before: list[tuple[Series, dict[str, Any]]], then: tuple[Series, ...], counted: tuple[int, int, int]
) -> None:
    """The decisions `before` and the one `then`, at 9; known, lost and all are told at 10."""
    journal = Journal(tmp_path)
    for series, more in before:
        journal.append(decision(**{"at": 1.0, "series": (series,), **more}))
    journal.append(decision(9.0, series=then))
    assert count(journal, 10.0) == counted
    journal.close()


def test_series_that_end_with_their_pods_are_not_lost(tmp_path: Path) -> None:
    """Somebody scales a workload to zero: that is no loss of what is measured."""
    journal = Journal(tmp_path)
    for number in range(4):
        journal.append(decision(1.0, workload=Ref("shop", "Deployment", str(number)), series=(KNOWN,)))
    for number in range(2):
        journal.append(decision(2.0, current=0, workload=Ref("shop", "Deployment", str(number)), series=(STALE,)))
    journal.append(decision(3.0, workload=Ref("shop", "Deployment", "2"), series=(STALE,)))
    assert count(journal, 4.0) == (1, 1, 2)
    journal.close()


@pytest.mark.parametrize("reason", [BY_HAND, DISABLED])
@pytest.mark.parametrize("told", ["", "ForeignOwner"])
def test_what_a_person_scales_to_zero_lost_no_series(reason: str, told: str) -> None:
    """Although they were away before, and whatever else is told."""
    journal = Journal()
    for at, current, series in ((1.0, 4, KNOWN), (2.0, 4, LOST)):
        journal.append(decision(at, current=current, series=(series,)))
    active = (Condition("ScalingActive", False, reason),)
    journal.append(decision(3.0, current=0, reason=told or reason, conditions=active, series=(LOST,)))
    assert count(journal, 4.0) == (0, 0, 0)


def test_a_loss_that_brings_a_workload_to_zero_still_counts(tmp_path: Path) -> None:
    """As elasticd takes it for an empty queue: until the series is there again, or ten minutes have passed."""
    journal = Journal(tmp_path)
    for at, current, series in ((1.0, 4, KNOWN), (2.0, 4, LOST), (4.0, 0, LOST), (60.0, 0, STALE)):
        journal.append(decision(at, current=current, series=(series,)))
    assert count(journal, 602.0) == (0, 1, 1)
    assert count(journal, 602.1) == (0, 0, 1)
    journal.append(decision(70.0, current=0, series=(KNOWN,)))
    assert count(journal, 71.0) == (0, 0, 0)
    journal.close()


@pytest.mark.parametrize(
    ("more", "counted"),
    [
        pytest.param({**UNASKED, "series": ()}, (1, 0, 1), id="nothing was read"),
        pytest.param({"series": ()}, (0, 0, 0), id="no strategy reads any"),
        pytest.param({"policy": "new", "series": ()}, (1, 0, 1), id="of another policy"),
    ],
)
def test_a_decision_without_series_loses_none(more: dict[str, Any], counted: tuple[int, int, int]) -> None:
    journal = Journal()
    journal.append(decision(1.0, series=(KNOWN,)))
    journal.append(decision(2.0, **more))
    assert count(journal, 3.0) == counted


def test_policies_that_were_removed_or_renamed_lose_no_series() -> None:
    """Neither what they read nor what they lacked counts from then on."""
    journal = Journal()
    for policy, series in (("old", KNOWN), ("older", KNOWN), ("older", LOST), ("shop", KNOWN)):
        journal.append(decision(1.0, policy=policy, series=(series,)))
    assert count(journal, 2.0) == (2, 1, 3)
    journal.forget({KEY}, 0.0)
    assert count(journal, 2.0) == (1, 0, 1)


@pytest.mark.parametrize(
    ("policy", "name", "lost"),
    [
        pytest.param("renamed", "q", 1, id="it is still lost"),
        pytest.param("renamed", "other", 0, id="another series was never known"),
    ],
)
def test_a_renamed_policy_knows_what_was_lost_before(policy: str, name: str, lost: int) -> None:
    """As people rename and regroup policies while the breaker holds."""
    journal = Journal()
    for at, series in ((1.0, KNOWN), (2.0, LOST)):
        journal.append(decision(at, series=(series,)))
    journal.forget({(policy, WEB)}, 0.0)
    assert count(journal, 3.0) == (0, 1, 1), "until the new one has decided"
    journal.append(decision(3.0, policy=policy, series=(replace(LOST, name=name),)))
    assert count(journal, 601.0) == (0, lost, 1)


def test_of_several_former_policies_the_latest_counts() -> None:
    journal = Journal()
    for at, policy, series in ((1.0, "a", KNOWN), (2.0, "b", KNOWN), (3.0, "a", KNOWN), (4.0, "a", LOST)):
        journal.forget({(policy, WEB)}, 0.0)
        journal.append(decision(at, policy=policy, series=(series,)))
    journal.forget({("c", WEB)}, 0.0)
    assert count(journal, 5.0) == (0, 1, 1)


def test_a_renamed_policy_knows_it_after_a_restart_too(tmp_path: Path) -> None:
    """Who renames policies by an upgrade restarts the daemon with it."""
    journal = Journal(tmp_path)
    for at, policy, series in ((1.0, KEY[0], KNOWN), (2.0, KEY[0], LOST), (3.0, "renamed", LOST)):
        journal.append(decision(at, policy=policy, series=(series,)))
    journal.close()
    again = Journal(tmp_path, now=5.0)
    again.forget({("renamed", WEB)}, 0.0)
    assert count(again, 5.0) == (0, 1, 1)
    again.close()


@pytest.mark.parametrize(("after", "known"), [(600.0, 1), (601.0, 0)])
def test_a_former_policy_s_series_count_for_ten_minutes(after: float, known: int) -> None:
    """The present one may never decide, as where two would act on the workload."""
    journal = Journal()
    journal.append(decision(1.0, series=(KNOWN,)))
    journal.forget({("renamed", WEB)}, 0.0)
    assert count(journal, 1.0 + after) == (known, 0, known)


@pytest.mark.parametrize(("away", "lost"), [(599.0, 1), (601.0, 0)])
def test_a_workload_not_seen_for_a_while_is_known(away: float, lost: int) -> None:
    """The first list may come after the first look, as where the API server has just been started too."""
    journal = Journal()
    journal.append(decision(1.0, series=(KNOWN,)))
    journal.forget(set(), 0.0)
    assert count(journal, 1.0) == (0, 0, 0)
    journal.append(decision(1.0 + away, workload=Ref("shop", "Deployment", "other"), series=(KNOWN,)))
    journal.forget(set(), 0.0)
    journal.forget({KEY}, 0.0)
    journal.append(decision(2.0 + away, series=(LOST,)))
    assert count(journal, 3.0 + away) == (0, lost, 1)


@pytest.mark.parametrize(
    ("away", "counts"),
    [
        pytest.param(5.0, (0, 1, 1), id="a restart"),
        pytest.param(602.0, (0, 0, 0), id="after a night: what has ended since is not lost"),
    ],
)
def test_lost_series_are_known_after_a_restart(tmp_path: Path, away: float, counts: tuple[int, int, int]) -> None:
    journal = Journal(tmp_path)
    for at, series in ((1.0, KNOWN), (2.0, LOST), (3.0, LOST)):
        journal.append(decision(at, series=(series,)))
    journal.close()
    again = Journal(tmp_path, now=3.0 + away)
    assert count(again, 4.0) == counts
    again.append(decision(3.0 + away, series=(LOST,)))
    assert again.known_series.counts(602.1).lost == 0, "it was lost at 2"
    again.close()


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
    assert (again.decisions(), pasts(again, WEB)) == (journal.decisions(), pasts(journal, WEB))
    again.close()


API = Ref("shop", "Deployment", "api")
_STEPS = st.lists(
    st.tuples(
        st.sampled_from([WEB, API]),
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
    past = pasts(journal, WEB, API)
    journal.close()
    assert list(read(folder)) == records
    assert list(read_back(folder)) == records[::-1]
    again = Journal(folder, segment_bytes, 10**6)
    assert pasts(again, WEB, API) == past
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
    for number in range(40):
        fill(journal, 1, number)
        # A segment that is still plain when the next one begins counts in full, and more of the old ones go.
        until(lambda: len(list(tmp_path.glob("*.jsonl"))) == 1)
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
