"""`elasticd record --journal`: the samples by which was decided become a recording, each once."""

import csv
from pathlib import Path
from typing import Any

import pytest

from elasticd.journal import Journal
from elasticd.model.workload import Quality, Sample, Series
from tests.kit.daemons import called
from tests.kit.records import decision, outcome


def series(name: str, *samples: Sample) -> Series:
    return Series(name, "test", Quality.FRESH, samples, "", max(sample.measured for sample in samples))


def cpu(at: float, *pods: str) -> Series:
    """The pods' use, which is the second at which it was measured."""
    return series("cpu", *(Sample(at / 100, at, at, 15.0, pod, "main") for pod in pods))


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Four decisions, of which the first two were made of the same samples."""
    folder = tmp_path / "state"
    journal = Journal(folder)
    journal.append(decision(60.0, series=(cpu(55.0, "web-a", "web-b"),)))
    journal.append(outcome(61.0))
    journal.append(decision(62.0, series=(cpu(55.0, "web-a", "web-b"),), policy="other"))
    journal.append(decision(70.0, series=(cpu(65.0, "web-a"), series("orders", Sample(7.0, 66.0, 66.0)))))
    journal.append(decision(80.0, series=(cpu(75.0, "web-a"), series("orders", Sample(7.0, 66.0, 80.0)))))
    journal.close()
    return folder


def rows(path: Path) -> list[list[Any]]:
    """The rows of a recording, without its head."""
    return list(csv.reader(path.read_text().splitlines()))[1:]


def test_each_sample_is_written_once(capsys: pytest.CaptureFixture[str], state: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.csv"
    words = ["record", "--journal", "--state", state, "--series", "cpu,orders,none", "--from", "1", "--out", out]
    assert called(capsys, *words) == (
        0,
        f"{out}: 4 samples of cpu\n{out}: 1 samples of orders\n{out}: 0 samples of none\n",
        "none: the journal has no sample of it\n",
    )
    assert rows(out) == [
        ["55.0", "cpu", "pod", "shop/web-a", "0.55", "15.0", "main"],
        ["55.0", "cpu", "pod", "shop/web-b", "0.55", "15.0", "main"],
        ["65.0", "cpu", "pod", "shop/web-a", "0.65", "15.0", "main"],
        ["66.0", "orders", "workload", "shop/Deployment/web", "7.0", "0.0", ""],
        ["75.0", "cpu", "pod", "shop/web-a", "0.75", "15.0", "main"],
    ]


def test_only_samples_of_the_time_are_written(capsys: pytest.CaptureFixture[str], state: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.csv"
    words = ["--state", state, "--series", "cpu", "--from", "60", "--to", "70", "--out", out]
    assert called(capsys, "record", "--journal", *words)[0] == 0
    assert [row[0] for row in rows(out)] == ["65.0"]


WRONG = [
    pytest.param({"--series": "memory"}, 69, "the journal has no sample of memory in that time", id="no such series"),
    pytest.param({"--from": "90"}, 69, "the journal has no sample of cpu in that time", id="no such time"),
    pytest.param({"--out": "r.xml"}, 78, '--out: must end in .jsonl or .csv, is "r.xml"', id="ending"),
    pytest.param({"--state": "nowhere"}, 69, "nowhere: must be the daemon's state folder, is not there", id="folder"),
]


@pytest.mark.parametrize(("words", "code", "problem"), WRONG)
def test_what_cannot_be_recorded_is_one_line(
    capsys: pytest.CaptureFixture[str], state: Path, tmp_path: Path, words: dict[str, str], code: int, problem: str
) -> None:
    out = tmp_path / "r.csv"
    given = {"--state": state, "--series": "cpu", "--from": "1", "--out": out, **words}
    found, printed, err = called(capsys, "record", "--journal", *[word for pair in given.items() for word in pair])
    assert (found, printed, err.count("\n")) == (code, "", 1)
    assert problem in err
    assert not out.exists()


def test_a_source_and_the_journal_are_not_recorded_together(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        called(capsys, "record", "--journal", "--source", "shop", "--series", "cpu", "--from", "1", "--out", "r.csv")
    assert caught.value.code == 2
    assert "not allowed with argument" in capsys.readouterr().err
