"""`elasticd reproduce`: what is printed of a paper that was measured again, and what is refused."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from elasticd.lab import commands
from elasticd.lab.papers import Axis, Chart, Claim, Line, Reproduction, Work, summed_up
from elasticd.lab.papers.printed import markdown
from elasticd.lab.papers.work import code
from tests.kit.daemons import called


class Cost(NamedTuple):
    """What the toy measures."""

    seconds: float


MEASURED: list[int] = []
"""The seeds that were measured, so far."""


def cost(seed: int) -> Cost:
    MEASURED.append(seed)
    return Cost(20.0 + seed)


MAIN = {"it is fast": ("speed | cost", "time"), "it is small": ("size", ""), "all of it": ("s", "")}


def paper(seeds: Sequence[int] = range(5), work: Work | None = None) -> Reproduction:
    costs = (work or Work()).each(seeds, cost, Cost)
    claims = (
        Claim(
            "speed | cost",
            "time",
            "24 %",
            tuple(each.seconds for each in costs.values()),
            "confirmed",
            "%",
            ".1f",
            "a | b",
        ),
        Claim("speed | cost", "pods", "", (3,), "no claim"),
        Claim("size", "nodes", "31", (30, 30, 30, 30, 30), "not confirmed", "nodes", ".0f"),
    )
    lines = (Line("ours", (0.0, 1.0), (2.0, 3.0)),)
    chart = Chart("load", "Load over time", "lines", Axis("time", "s"), Axis("load", "%"), lines, picture="toy-load")
    told = ("It works.",), ("Its seeds.",), (chart, replace(chart, name="again", picture="")), "elasticd x"
    return Reproduction("toy", "A toy", "Nobody 2026", ("It runs.",), claims, *told, summed_up(claims, MAIN))


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    MEASURED.clear()
    monkeypatch.setattr(commands, "PAPERS", {"toy": paper})


def test_each_claim_is_a_row_of_its_parts_table(capsys: pytest.CaptureFixture[str]) -> None:
    exit_code, out, err = called(capsys, "reproduce", "toy")
    assert (exit_code, err) == (0, "")
    rows = [" ".join(line.split()) for line in out.splitlines()]
    assert rows[:3] == ["toy: A toy", "Nobody 2026; 5 seeds", "It runs."]
    assert "speed | cost the paper measured spread verdict why" in rows
    assert "time 24 % 22.0 % 20.0 to 24.0 % confirmed a | b" in rows
    assert "pods - 3 nothing is random no claim" in rows
    assert "nodes 31 30 nodes none not confirmed" in rows
    assert "play and change it: elasticd x" in rows


def test_one_table_has_the_main_claims_of_all_papers(capsys: pytest.CaptureFixture[str]) -> None:
    out = called(capsys, "reproduce")[1]
    assert [" ".join(line.split()) for line in out.splitlines()][-4:] == [
        "paper claim the paper measured verdict",
        "toy it is fast 24 % 22.0 % (20.0 to 24.0 %) confirmed",
        "toy it is small 31 30 nodes not confirmed",
        "toy all of it 2 rows 1 of 2 confirmed in part",
    ]


def test_all_papers_are_measured_where_none_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert called(capsys, "reproduce") == called(capsys, "reproduce", "toy", "toy")


def test_markdown_has_the_same_as_tables(capsys: pytest.CaptureFixture[str]) -> None:
    exit_code, out, _ = called(capsys, "reproduce", "--markdown", "--seeds", "6")
    table, _, section = out.partition("\n\n")
    assert (exit_code, section) == (0, markdown(paper(range(6)), 6))
    assert table.splitlines()[2] == "| `toy` | it is fast | 24 % | 22.5 % (20.0 to 25.0 %) | confirmed |"
    assert "## `toy`: A toy\n\nNobody 2026; 6 seeds.\n\nIt runs.\n\n| speed \\| cost | the paper |" in out
    assert "\n| time | 24 % | 22.5 % | 20.0 to 25.0 % | confirmed | a \\| b |\n" in out
    picture = "![Load over time](pictures/papers/toy-load.svg)\n\n"
    assert out.endswith(f"from the paper:\n\n- Its seeds.\n\n{picture}Play and change it: `elasticd x`\n")


def test_pictures_are_drawn_into_a_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert called(capsys, "reproduce", "--plot", str(tmp_path))[0] == 0
    assert called(capsys, "reproduce", "--plot", str(tmp_path), "--png")[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["toy-load.png", "toy-load.svg"]
    exit_code, _, line = called(capsys, "reproduce", "--plot", str(tmp_path))
    assert (exit_code, line) == (78, f"--plot: must be a new file, {tmp_path}/toy-load.svg is there (--force)\n")
    assert called(capsys, "reproduce", "--plot", str(tmp_path), "--force")[0] == 0


def test_a_study_measures_only_what_it_lacks(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder, study = tmp_path / "build" / "study", tmp_path / "build" / "study" / "papers.jsonl"
    whole = called(capsys, "reproduce", "--seeds", "7")
    assert called(capsys, "reproduce", "--study", str(folder))[0] == 0
    MEASURED.clear()
    assert called(capsys, "reproduce", "--seeds", "7", "--study", str(folder)) == whole
    assert MEASURED == [5, 6]
    study.write_bytes(study.read_bytes()[:-5])  # as if it had been interrupted while it wrote
    MEASURED.clear()
    assert called(capsys, "reproduce", "--seeds", "7", "--study", str(folder)) == whole
    assert MEASURED == [6]


def test_measurements_of_other_code_count_for_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    study = tmp_path / "papers.jsonl"
    assert called(capsys, "reproduce", "--study", str(tmp_path))[0] == 0
    study.write_text(study.read_text().replace(code(), "0" * 16))
    MEASURED.clear()
    assert called(capsys, "reproduce", "--study", str(tmp_path))[0] == 0
    assert MEASURED == [0, 1, 2, 3, 4]


def test_a_file_of_something_else_is_no_study(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "papers.jsonl").write_text("mode = 1\n")
    exit_code, _, line = called(capsys, "reproduce", "--study", str(tmp_path))
    assert (exit_code, line.count("\n")) == (78, 1)
    assert line.startswith(f"{tmp_path}/papers.jsonl: line 1: must be a measurement, is not: ")
    assert (tmp_path / "papers.jsonl").read_text() == "mode = 1\n"
    assert called(capsys, "reproduce", "--study", str(tmp_path / "papers.jsonl"))[0] == 78


def test_json_has_every_seed_and_the_charts(capsys: pytest.CaptureFixture[str]) -> None:
    (record,) = json.loads(called(capsys, "reproduce", "--json")[1])
    assert record["claims"][0]["measured"] == [20, 21, 22, 23, 24]
    assert record["charts"][0]["lines"][0]["y"] == [2, 3]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        pytest.param(("tyo",), 'tyo: must be one of toy, is not, did you mean "toy"?\n', id="an unknown name"),
        pytest.param(("--plot", "no"), '--plot: must be a folder that is there, is "no"\n', id="no folder"),
        pytest.param(("--seeds", "4"), "--seeds: must be from 5 to 1000, is 4\n", id="too few seeds"),
    ],
)
def test_a_wrong_argument_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], line: str
) -> None:
    assert called(capsys, "reproduce", *arguments) == (78, "", line)


def test_ctrl_c_ends_it_without_a_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(seeds: Sequence[int], work: Work) -> Reproduction:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "PAPERS", {"toy": interrupted})
    assert called(capsys, "reproduce") == (130, "", "")
