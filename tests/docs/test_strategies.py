"""docs/strategies.md: its figures are what the scenario comes to, and each of its policies has a picture."""

import re
from pathlib import Path

import pytest

from tests.kit.daemons import called

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "strategies.md").read_text(encoding="utf-8")
SCENARIO = ROOT / "config" / "scenarios" / "strategies"
POLICIES = sorted(path.stem for path in (SCENARIO / "policies").glob("*.toml"))


def test_each_policy_of_the_scenario_has_its_picture() -> None:
    shown = re.findall(r"!\[[^\]]{20,}\]\(pictures/strategies/([\w-]+)\.png\)", PAGE)
    drawn = [path.stem for path in (ROOT / "docs" / "pictures" / "strategies").glob("*.png")]
    assert sorted(shown) == sorted(drawn) == POLICIES


@pytest.mark.slow
def test_the_figures_are_what_the_scenario_comes_to(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(capsys, "simulate", SCENARIO / "elasticd.toml", "--no-sketch", "--jobs", "1")
    assert code == 0
    (block,) = re.findall(r"```text\n(0\.667 h.*?)\n```", PAGE, re.DOTALL)
    # The last digits of a fit may be others on another machine.
    printed, written = ([line for line in text.splitlines() if "forecast" not in line] for text in (out, block))
    assert [line.rstrip() for line in printed] == [line.rstrip() for line in written]
