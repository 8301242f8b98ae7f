"""docs/strategies.md: its figures are what the scenarios come to, and each strategy has a picture, or a reason."""

import json
import re
from pathlib import Path

import pytest

from tests.kit.daemons import called

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "strategies.md").read_text(encoding="utf-8")
PICTURES = {path.stem: path for path in (ROOT / "docs" / "pictures" / "strategies").glob("*.png")}
SCENARIOS = {name: ROOT / "config" / "scenarios" / name for name in ("strategies", "pools", "jobs", "vertical")}

SHOWN_BESIDE = {"cadence": "hpa-cadence"}
"""Strategies that are in the picture of a policy with another name."""

WITHOUT = {
    "filters": "part of every policy",
    "topology-spread": "what pods ask for",
    "pod-affinity": "what pods ask for",
    "node-affinity": "what pods ask for",
    "taint-toleration": "what pods ask for",
    "image-locality": "nodes have no images here",
    "bald-eagle-plain": "bald-eagle with another search",
}
"""Strategies that have no picture, and why; the page says it too."""

MOST_BYTES = 60_000


def test_each_policy_of_the_scenarios_has_its_picture() -> None:
    shown = re.findall(r"!\[[^\]]{20,}\]\(pictures/strategies/([\w-]+)\.png\)", PAGE)
    policies = [path.stem for folder in SCENARIOS.values() for path in (folder / "policies").glob("*.toml")]
    assert sorted(shown) == sorted(PICTURES) == sorted(policies)


def test_each_strategy_has_a_picture_or_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = called(capsys, "plugins", "--json")
    names = {each["name"] for each in json.loads(out) if each["kind"] in ("strategy", "pool strategy")}
    drawn = {name for name in names if SHOWN_BESIDE.get(name, name) in PICTURES}
    assert names - drawn == set(WITHOUT)
    last = PAGE.partition("### Without a picture")[2]
    assert [name for name in WITHOUT if f"`{name}`" not in last] == []


def test_each_picture_says_when_to_take_its_strategy() -> None:
    sections = re.findall(r"\n### ([\w -]+)\n(.*?)(?=\n##|\Z)", PAGE, re.DOTALL)
    texts = {title: text for title, text in sections if "](pictures/strategies/" in text}
    assert len(texts) == len(PICTURES)
    assert [title for title, text in texts.items() if "Take " not in text or not re.search(r"\b(Not|Nor) ", text)] == []


def test_pictures_are_small() -> None:
    assert {name for name, path in PICTURES.items() if path.stat().st_size > MOST_BYTES} == set()


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_figures_are_what_the_scenario_comes_to(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(capsys, "simulate", SCENARIOS[name] / "elasticd.toml", "--no-sketch", "--jobs", "1")
    assert code == 0
    blocks = {text.splitlines()[0]: text for text in re.findall(r"```text\n(.*?)\n```", PAGE, re.DOTALL)}
    # The last digits of a fit may be others on another machine.
    block = blocks[out.splitlines()[0]]
    printed, written = ([line for line in text.splitlines() if "forecast" not in line] for text in (out, block))
    assert [line.rstrip() for line in printed] == [line.rstrip() for line in written]
