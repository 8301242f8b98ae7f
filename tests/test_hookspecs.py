"""The hooks: each is documented, tested, and called with the arguments it names."""

import re
from functools import cache
from inspect import getdoc, signature
from pathlib import Path

import pytest

from elasticd import hookspecs
from elasticd.decision.workload.asking import Case
from elasticd.model.history import Past
from elasticd.model.policy import Bounds, Policy
from elasticd.model.workload import Answers
from elasticd.registry import HOOKS, Hooks
from elasticd.testing import observation

TESTS = Path(__file__).parent


@cache
def names_of_tests() -> set[str]:
    texts = [path.read_text() for path in TESTS.rglob("test_*.py")]
    return {name for text in texts for name in re.findall(r"^ *(?:async )?def (test_hook_\w+)", text, re.MULTILINE)}


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_says_what_it_gives(hook: str) -> None:
    doc = getdoc(getattr(hookspecs, hook))
    assert doc
    assert doc.endswith(".")


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_has_a_test(hook: str) -> None:
    assert [name for name in names_of_tests() if name.startswith(f"test_hook_{hook}_")]


@pytest.mark.parametrize("hook", HOOKS)
def test_no_hook_is_firstresult_or_historic(hook: str) -> None:
    marked = getattr(hookspecs, hook).elasticd_spec
    assert not marked["firstresult"]
    assert not marked["historic"]


def test_the_hooks_match_the_design_in_call_order() -> None:
    assert HOOKS[:4] == ("register_strategies", "register_sources", "recommend_replicas", "limit")
    assert HOOKS[4:6] == ("rank_pods", "recommend_resources")
    assert HOOKS[6:9] == ("filter_nodes", "select_nodes", "score_nodes")
    assert HOOKS[9:11] == ("place_pods", "select_victims")
    assert HOOKS[11] == "explain_victims"
    assert HOOKS[12:16] == ("explain_nodes", "rebind_pods", "rebalance_nodes", "poll_interval")
    assert HOOKS[-2:] == ("decided", "acted")


class Recorder(Hooks):
    """Remembers the arguments that judgement offers."""

    def __init__(self) -> None:
        super().__init__(())
        self.offered: set[str] = set()

    def ask(self, hook: str, arguments: object, off: object = frozenset(), read: object = None) -> Answers:
        assert isinstance(arguments, dict)
        self.offered = set(arguments)
        return Answers(())


@pytest.mark.parametrize(
    ("hook", "more"), [("recommend_replicas", {}), ("limit", {"wish": 3}), ("poll_interval", {})], ids=str
)
def test_judgement_offers_every_argument_that_a_hook_names(hook: str, more: dict[str, int]) -> None:
    recorder = Recorder()
    policy = Policy(name="p", replicas=Bounds(9), strategies=())
    Case(policy, observation([0.5]), Past(0.0), recorder).ask(hook, **more)
    assert recorder.offered >= set(signature(getattr(hookspecs, hook)).parameters)


@pytest.mark.parametrize("hook", ["decided", "acted"])
def test_what_listens_has_one_argument(hook: str) -> None:
    assert len(signature(getattr(hookspecs, hook)).parameters) == 1
