"""What a pool's strategies say at length, as it is kept."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from elasticd.base.text import LONGEST
from elasticd.decision.pool.asking import PoolCase
from elasticd.model.moves import Move, NodeLevel
from elasticd.model.placement import EvictionOrder, Mend, PoolObservation, Refusal, Selection, Spared, Turn, Victims
from elasticd.model.policy import PoolPolicy, PoolSelect
from tests.kit.pools import columns, node, pod

WEB = pod("web-1", 1, on="n")
ALL = np.array([True])

ANSWERS: dict[str, tuple[str, Callable[[str], Any], Callable[[Any], list[str]]]] = {
    "refusals": (
        "filter_nodes",
        lambda text: [Refusal(text, ALL, mends=(Mend(text),))],
        lambda told: [told[0].reason, told[0].mends[0].text],
    ),
    "selection": (
        "select_nodes",
        lambda text: Selection(ALL, text, fault=text, match=text),
        lambda told: [told.why, told.fault, told.match],
    ),
    "victims": ("select_victims", lambda text: Victims((WEB,), why=text), lambda told: [told.why]),
    "spared": ("select_victims", lambda text: Spared(text, (text,)), lambda told: [told.why, *told.mends]),
    "line": (
        "explain_victims",
        lambda text: EvictionOrder((Turn(WEB, text, text),), text),
        lambda told: [told.rule, told.turns[0].stays, told.turns[0].why],
    ),
    "moves": (
        "rebind_pods",
        lambda text: [Move(WEB, text, text, waits=text)],
        lambda told: [told[0].reason, told[0].message, told[0].waits],
    ),
    "levels": ("explain_nodes", lambda text: [NodeLevel("n", "level", (), text)], lambda told: [told[0].message]),
}
"""The hook that is asked, what is answered with a text, and the texts of an answer."""


class Answering:
    """Stands for the hooks of a pool whose one strategy gives this answer."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def ask(self, hook: str, arguments: Any, off: Any, read: Callable[[Any, str], Any]) -> Any:
        """The answer as it is read."""
        return read(self._answer, "told")


def ask(hook: str, answer: Any) -> Any:
    """The answer as a plan has it."""
    view, hooks = columns([node("n")], [WEB]), cast("Any", Answering(answer))
    return PoolCase(PoolPolicy(name="pool", pool=PoolSelect(), strategies=()), PoolObservation(0.0), view, hooks).ask(
        hook
    )


@pytest.mark.parametrize("name", ANSWERS)
def test_a_text_of_many_lines_is_cut_to_one(name: str) -> None:
    hook, answer, texts = ANSWERS[name]
    for text in texts(ask(hook, answer("why not\n" * 100_000))):
        assert len(text) == LONGEST
        assert "\n" not in text


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_with_short_texts_stays_the_same_object(name: str) -> None:
    hook, answer, _ = ANSWERS[name]
    told = answer("it is full")
    assert ask(hook, told) is told
