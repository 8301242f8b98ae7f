"""`elasticd reproduce`: what is printed of a paper that was measured again, and what is refused."""

import json
from collections.abc import Sequence

import pytest

from elasticd.lab import commands
from elasticd.lab.papers import Axis, Chart, Claim, Line, Progress, Reproduction
from elasticd.lab.papers.printed import markdown
from tests.kit.daemons import called


def paper(seeds: Sequence[int] = range(5), progress: Progress = lambda done, total: None) -> Reproduction:
    progress(1, 1)
    claims = (
        Claim("speed | cost", "time", "24 %", tuple(20.0 + seed for seed in seeds), "confirmed", "%", ".1f", "a | b"),
        Claim("speed | cost", "pods", "", (3,), "no claim"),
        Claim("size", "nodes", "31", (30, 30, 30, 30, 30), "not confirmed", "nodes", ".0f"),
    )
    lines = (Line("ours", (0.0, 1.0), (2.0, 3.0)),)
    chart = Chart("load", "Load over time", "lines", Axis("time", "s"), Axis("load", "%"), lines)
    return Reproduction(
        "toy", "A toy", "Nobody 2026", ("It runs.",), claims, ("It works.",), ("Its seeds.",), (chart,), "elasticd x"
    )


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "PAPERS", {"toy": paper})


def test_each_claim_is_a_row_of_its_parts_table(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = called(capsys, "reproduce", "toy")
    assert (code, err) == (0, "")
    rows = [" ".join(line.split()) for line in out.splitlines()]
    assert rows[:3] == ["toy: A toy", "Nobody 2026; 5 seeds", "It runs."]
    assert "speed | cost the paper measured spread verdict why" in rows
    assert "time 24 % 22.0 % 20.0 to 24.0 % confirmed a | b" in rows
    assert "pods - 3 nothing is random no claim" in rows
    assert "nodes 31 30 nodes none not confirmed" in rows
    assert rows[-1] == "play and change it: elasticd x"


def test_all_papers_are_measured_where_none_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert called(capsys, "reproduce") == called(capsys, "reproduce", "toy", "toy")


def test_markdown_has_the_same_as_tables(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(capsys, "reproduce", "--markdown", "--seeds", "6")
    assert (code, out) == (0, markdown(paper(range(6)), 6))
    assert "## `toy`: A toy\n\nNobody 2026; 6 seeds.\n\nIt runs.\n\n| speed \\| cost | the paper |" in out
    assert "\n| time | 24 % | 22.5 % | 20.0 to 25.0 % | confirmed | a \\| b |\n" in out
    assert out.endswith("What cannot be known from the paper:\n\n- Its seeds.\n\nPlay and change it: `elasticd x`\n")


def test_json_has_every_seed_and_the_charts(capsys: pytest.CaptureFixture[str]) -> None:
    (record,) = json.loads(called(capsys, "reproduce", "--json")[1])
    assert record["claims"][0]["measured"] == [20, 21, 22, 23, 24]
    assert record["charts"][0]["lines"][0]["y"] == [2, 3]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        pytest.param(("tyo",), 'tyo: must be one of toy, is not, did you mean "toy"?\n', id="an unknown name"),
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
    def interrupted(seeds: Sequence[int], progress: Progress) -> Reproduction:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "PAPERS", {"toy": interrupted})
    assert called(capsys, "reproduce") == (130, "", "")
