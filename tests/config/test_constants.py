"""What a third party's strategy says of itself: it is asked once, when its policy is read, and never on the loop."""

from collections.abc import Callable, Iterator
from math import nan
from pathlib import Path
from typing import Any

import pytest

from elasticd.api import Recommendation, Strategy, hookimpl
from elasticd.base.errors import ConfigError
from elasticd.config.reading import Read, read_policies
from elasticd.registry import Hooks, Registry, discover
from tests.kit.blocking import block, waiting_until_blocked

ANSWERS: dict[str, Callable[[], Any]] = {}
"""By question, how the strategy answers it; a test fills it."""
USUAL: dict[str, Any] = {
    "reads": ("queue",), "reads_of_nodes": ("disk",), "labels_of_nodes": ("zone",), "recalls": 60.0,
    "own_pace": True, "lasts": True, "looks_back": 3, "check": None, "sleeps": "",
}  # fmt: skip
CONSTANTS = ("reads", "reads_of_nodes", "labels_of_nodes", "recalls", "own_pace", "lasts", "looks_back")


def answer(question: str) -> Any:
    return ANSWERS[question]() if question in ANSWERS else USUAL[question]


class Talker(Strategy, tag="talker", frozen=True):
    """Answers each question as its test says."""

    def reads(self) -> Any:
        return answer("reads")

    def reads_of_nodes(self) -> Any:
        return answer("reads_of_nodes")

    def labels_of_nodes(self) -> Any:
        return answer("labels_of_nodes")

    def recalls(self) -> Any:
        return answer("recalls")

    def own_pace(self) -> Any:
        return answer("own_pace")

    def lasts(self) -> Any:
        return answer("lasts")

    def looks_back(self) -> Any:
        return answer("looks_back")

    def check(self, policy: Any) -> Any:
        return answer("check")

    @hookimpl
    def recommend_replicas(self) -> Recommendation | None:
        return None


class Talkers:
    """The plugin that brings it."""

    @staticmethod
    @hookimpl
    def register_strategies() -> list[type[Strategy]]:
        return [Talker]


@pytest.fixture
def registry() -> Registry:
    known = discover()
    known.add("talkers", Talkers, "")
    return known


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    ANSWERS.clear()
    yield
    ANSWERS.clear()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with waiting_until_blocked(monkeypatch):
        yield


def fail(error: BaseException) -> Any:
    raise error


def mistakes(folder: Path, registry: Registry) -> list[ConfigError]:
    """Those in the policy of a strategy that answers so."""
    return read(folder, registry)[1]


def read(folder: Path, registry: Registry) -> Read:
    (folder / "web.toml").write_text(
        'workload = { namespace = "shop", name = "web" }\nreplicas = { min = 1, max = 8 }\n'
        'strategy = [{ type = "talker" }]\n'
    )
    return read_policies(folder, registry)


@pytest.mark.parametrize(
    "error", [ValueError("no"), SystemExit(3), KeyboardInterrupt()], ids=lambda e: type(e).__name__
)
@pytest.mark.parametrize("question", [*CONSTANTS, "check"])
def test_a_constant_that_raises_is_one_line(
    question: str, error: BaseException, tmp_path: Path, registry: Registry
) -> None:
    ANSWERS[question] = lambda: fail(error)
    (mistake,) = mistakes(tmp_path, registry)
    assert (mistake.file, mistake.key) == (str(tmp_path / "web.toml"), "strategy[0]")
    assert f"raised {type(error).__name__}" in mistake.problem


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("question", [*CONSTANTS, "check"])
def test_a_constant_that_blocks_names_policy_and_line(question: str, tmp_path: Path, registry: Registry) -> None:
    ANSWERS[question] = block
    (mistake,) = mistakes(tmp_path, registry)
    assert mistake.file == str(tmp_path / "web.toml")
    assert mistake.problem.startswith("its plugin must answer within 10 s, is stuck in test_constants.py:")


@pytest.mark.parametrize(
    ("question", "given", "problem"),
    [
        pytest.param("reads", 7, "reads() must give names of series, or None, gave 7", id="a number for series"),
        pytest.param("reads_of_nodes", "cpu", "must give up to 10000 names of series, gave", id="text for series"),
        pytest.param("labels_of_nodes", (7,), "must give up to 10000 keys of labels, gave (7,)", id="numbers for keys"),
        pytest.param("recalls", -1.0, "recalls() must give seconds >= 0, gave -1.0", id="a time before now"),
        pytest.param("recalls", nan, "recalls() must give seconds >= 0, gave nan", id="not a number"),
        pytest.param("own_pace", 1, "own_pace() must give True or False, gave 1", id="a number for a flag"),
        pytest.param("looks_back", None, "must give a number of evaluations >= 0, gave null", id="nothing"),
    ],
)
def test_a_constant_of_another_type_is_a_mistake(
    question: str, given: Any, problem: str, tmp_path: Path, registry: Registry
) -> None:
    ANSWERS[question] = lambda: given
    (mistake,) = mistakes(tmp_path, registry)
    assert problem in mistake.problem


def test_a_strategy_is_not_asked_again_for_constants(tmp_path: Path, registry: Registry) -> None:
    (policy,), errors = read(tmp_path, registry)
    ANSWERS.update({question: lambda: fail(AssertionError("asked again")) for question in CONSTANTS})
    hooks = Hooks(policy.strategies)
    assert not errors
    assert hooks.reads == frozenset({"queue"})
    assert (hooks.reads_of_nodes, hooks.labels_of_nodes) == (frozenset({"disk"}), frozenset({"zone"}))
    assert (hooks.recalls, hooks.own_pace, hooks.lasting, hooks.looks_back) == (60.0, True, True, 3)
