"""What a journal remembers: of its files, of workloads, and after a time without judgement."""

from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from elasticd.base.errors import UnavailableError
from elasticd.journal import Journal, read, read_back
from elasticd.journal import segments as segments_of
from elasticd.kit.history import begin
from elasticd.model.history import Change, Past
from tests.kit.records import KEY, WEB, decision, fill, outcome, segments


def test_reading_back_reads_no_more_segments_than_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path, segment_bytes=5000, segments=16)
    fill(journal, 40)
    journal.close()
    opened: list[str] = []
    real = open

    def note(path: Path, *arguments: Any, **more: Any) -> Any:
        opened.append(path.name)
        return real(path, *arguments, **more)

    monkeypatch.setattr(segments_of, "open", note, raising=False)
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
    assert journal.past(*KEY, 9.0, 7) == begin(9.0, 7)
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
    journal.reopen(35.0)
    past = journal.past(*KEY, 40.0, 9)
    assert past.wishes(39.0) == [9]
    assert len(past.changes) == 2


@pytest.mark.parametrize(
    ("after", "mode", "changes"),
    [
        pytest.param(3, "act", [Change(0.0, 2, 3, "Wanted")], id="the count shows it"),
        pytest.param(2, "act", [], id="the count does not"),
        pytest.param(3, "observe", [], id="it was not to be done"),
    ],
)
def test_a_change_without_outcome_counts_where_it_shows(
    tmp_path: Path, after: int, mode: Literal["act", "observe"], changes: list[Change]
) -> None:
    """The daemon was killed between its write and the record of the outcome."""
    killed = Journal(tmp_path)
    killed.append(decision(0.0, mode=mode))
    killed.close()
    again = Journal(tmp_path)
    for at in (5.0, 5000.0):
        assert list(again.past(*KEY, at, after, acts=True).changes) == changes
    again.append(decision(6.0, wish=after, current=after, action=None))
    again.append(decision(7.0, wish=after, current=after, action=None))
    assert list(again.past(*KEY, 8.0, after, acts=True).changes) == changes
    again.close()


@pytest.mark.parametrize("restarts", [False, True], ids=["the daemon runs on", "it starts again"])
@pytest.mark.parametrize("acts", [True, False], ids=["acting", "observing"])
def test_changes_of_an_earlier_object_are_none_of_the_next(tmp_path: Path, restarts: bool, acts: bool) -> None:
    journal, mode = Journal(tmp_path), "act" if acts else "observe"
    for number in range(3):
        at, uid = number * 10.0, f"uid-{number}"
        journal.append(decision(at, uid=uid, mode=mode))
        journal.append(outcome(at + 1))
        journal.append(decision(at + 2, uid=uid, current=3, action=None, mode=mode))
    if restarts:
        journal.close()
        journal = Journal(tmp_path)
    past = journal.past(*KEY, 30.0, 2, "uid-3", acts=acts)
    assert (past.changes, past.foreign, past.count, past.asked, past.wishes(0.0)) == ((), (), None, None, [3])
    present = journal.past(*KEY, 30.0, 3, "uid-2", acts=acts)
    assert ([change.at for change in present.changes], present.foreign, present.count) == ([21.0], (), 3)
    journal.close()


@pytest.mark.parametrize("restarts", [False, True], ids=["the daemon runs on", "it starts again"])
def test_changes_stay_when_another_policy_governs_the_workload(tmp_path: Path, restarts: bool) -> None:
    journal, renamed = Journal(tmp_path), ("renamed", WEB)
    fill(journal, 2)
    before = journal.past(*KEY, 32.0, 3, acts=True)
    if restarts:
        journal.close()
        journal = Journal(tmp_path)
        journal.reopen(32.0)
    journal.forget({renamed}, before=100.0)
    past = journal.past(*renamed, 32.0, 3, acts=True)
    assert past.changes == before.changes != ()
    assert past.wishes(0.0) == [3]  # windows of recommendations are each policy's own
    assert journal.past(*renamed, 32.0, 3).changes == ()  # one that observes makes none
    journal.append(decision(32.0, policy="renamed"))
    journal.forget({renamed}, before=100.0)
    assert journal.past(*renamed, 33.0, 2, acts=True).changes == before.changes
    assert journal.past(*KEY, 33.0, 2) == begin(33.0, 2)
    journal.close()


def test_a_folder_is_one_daemon_s_alone(tmp_path: Path) -> None:
    first = Journal(tmp_path)
    with pytest.raises(UnavailableError, match="must be one daemon's alone, another elasticd writes here"):
        Journal(tmp_path)
    first.close()
    Journal(tmp_path).close()
