"""What a third-party source says of itself: it is asked once, and what goes wrong then is one line."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from elasticd.base.errors import ConfigError
from elasticd.ports.source import Source
from elasticd.sources.resource_metrics import ResourceMetrics
from elasticd.sources.settled import guarded, settled
from tests.kit.blocking import block, waiting_until_blocked

FILE, KEY = "elasticd.toml", "source[0]"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with waiting_until_blocked(monkeypatch):
        yield


class Talker(Source, frozen=True, kw_only=True, tag="talker"):
    """A third party's source that answers one question as its function does."""

    question: str = ""
    answers: Any = None
    option: str = "as written"

    def __post_init__(self) -> None:
        self._says("options", None)

    def _says(self, question: str, usual: Any) -> Any:
        return self.answers() if question == self.question else usual

    @property
    def label(self) -> str:
        return str(self._says("label", "talker"))

    @property
    def complete(self) -> Any:  # type: ignore[override]
        return self._says("complete", True)

    def offers(self) -> Any:
        return self._says("offers", ["queue"])

    def offers_of_nodes(self) -> Any:
        return self._says("offers_of_nodes", None)

    def draws(self) -> Any:
        return self._says("draws", None)

    def derives(self) -> Any:
        return self._says("derives", None)


def fail(error: BaseException) -> Any:
    raise error


def problem(question: str, answers: Callable[[], Any]) -> str:
    """The line that a source gives which answers this question so."""
    with pytest.raises(ConfigError) as refused:
        settled(partial(Talker, question=question, answers=answers), FILE, KEY)
    return str(refused.value)


RAISED: list[BaseException] = [
    ValueError("no\nway"),
    SystemExit(3),
    KeyboardInterrupt(),
    GeneratorExit(),
    asyncio.CancelledError(),
]
QUESTIONS = ("label", "complete", "offers", "offers_of_nodes", "draws", "derives")


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_that_raises_is_a_mistake_in_one_line(question: str, error: BaseException) -> None:
    line = problem(question, lambda: fail(error))
    assert line.startswith(f"{FILE}: {KEY}: its plugin's {question} must be ")
    assert f", raised {type(error).__name__}" in line
    assert "\n" not in line


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("question", ["options", *QUESTIONS])
def test_a_question_that_blocks_names_its_line(question: str) -> None:
    line = problem(question, block)
    assert line.startswith(f"{FILE}: {KEY}: its plugin must answer within 10 s, is stuck in test_settled.py:")


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_options_whose_decoding_raises_are_a_mistake(error: BaseException) -> None:
    assert problem("options", lambda: fail(error)).startswith(f"{FILE}: {KEY}: its plugin must answer, raised ")


@pytest.mark.parametrize(
    ("question", "answer", "shown"),
    [
        pytest.param("complete", 1, "True or False, is 1", id="a number for a flag"),
        pytest.param("offers", 7, "up to 10000 names of series, or None, is 7", id="a number for names"),
        pytest.param("offers", (7,), "up to 10000 names of series, or None, is (7,)", id="numbers for names"),
        pytest.param("offers", iter(int, 1), "up to 10000 names of series, or None, is <", id="without an end"),
        pytest.param("offers_of_nodes", ("x",) * 10_001, "or None, is ('x', 'x', ", id="too many"),
        pytest.param("draws", b"mqtt", "the label of a source, or None, is b'mqtt'", id="bytes for a label"),
        pytest.param("derives", {}, "the label of a source, or None, is {}", id="a table for a label"),
    ],
)
def test_an_answer_of_another_type_is_a_mistake(question: str, answer: Any, shown: str) -> None:
    assert shown in problem(question, lambda: answer)


def test_a_settled_source_is_never_asked_again() -> None:
    answers = iter([("queue",), ("lag",)])
    source = settled(partial(Talker, question="offers", answers=answers.__next__), FILE, KEY)
    assert [source.offers(), source.offers(), next(answers)] == [("queue",), ("queue",), ("lag",)]


def test_a_settled_source_is_otherwise_as_it_was() -> None:
    source = settled(lambda: Talker(name="x", every=3.0, option="other"), FILE, KEY)
    assert isinstance(source, Talker)
    assert (source.label, source.every, source.option, source.complete) == ("talker", 3.0, "other", True)
    assert source == settled(lambda: Talker(name="x", every=3.0, option="other"), FILE, KEY)
    assert source != settled(lambda: Talker(name="x", every=4.0, option="other"), FILE, KEY)
    assert type(source).__struct_config__.tag == "talker"


def test_a_source_of_elasticds_own_is_taken_as_it_is() -> None:
    own = ResourceMetrics()
    assert settled(lambda: own, FILE, KEY) is own


def test_a_mistake_that_a_plugin_reports_itself_stays() -> None:
    with pytest.raises(ConfigError, match=r"^a\.toml: key: must be 1$"):
        guarded(lambda: fail(ConfigError("a.toml", "key", "must be 1")), FILE, KEY)


def test_a_plugin_that_ends_its_thread_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match="its plugin must answer, raised SystemExit"):
        guarded(sys.exit, FILE, KEY)
