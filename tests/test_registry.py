"""Plugins: whatever is wrong with one is a line that names it, and the others go on."""

import asyncio
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from elasticd.api import (
    API_VERSION,
    Limit,
    LimitStrategy,
    Policy,
    PoolStrategy,
    Recommendation,
    Strategy,
    field,
    hookimpl,
)
from elasticd.model.history import Past
from elasticd.model.policy import Bounds
from elasticd.model.workload import Failure
from elasticd.ports.source import Source
from elasticd.registry import HOOKS, Hooks, Registry, discover, implemented
from elasticd.testing import observation

SEEN = observation([0.5])


class Fixed(Strategy, tag="fixed", frozen=True):
    """Wants the same count always."""

    replicas: int = 1

    @hookimpl
    def recommend_replicas(self) -> Recommendation:
        return Recommendation(self.replicas, "Fixed")


class Held(Source, tag="held", frozen=True):
    """A source."""


def module(name: str = "mine", **attributes: Any) -> ModuleType:
    made = ModuleType(name)
    vars(made).update(attributes)
    return made


def bringing(*types: Any, hook: str = "register_strategies") -> ModuleType:
    made = module()
    vars(made)[hook] = hookimpl(lambda: list(types))
    return made


def strategy(name: str = "Odd", tag: Any = "odd", **namespace: Any) -> Any:
    config: dict[str, Any] = {} if tag is None else {"tag": tag}
    made: Any = type(Strategy)
    return made(name, (Strategy,), {"__module__": __name__, **namespace}, frozen=True, **config)


def giving(value: Any) -> ModuleType:
    return module(register_strategies=hookimpl(lambda: value))


def leaving() -> Any:
    sys.exit("bye")


def cancelled() -> Any:
    raise asyncio.CancelledError


def two_lines() -> Any:
    raise ValueError("one\ntwo")


async def asynchronous(wish: int) -> None: ...


def generator(wish: int) -> Any:
    yield None


def wrapper(wish: int) -> Any:
    return (yield)


class Thawed(Strategy, tag="thawed", frozen=False):  # type: ignore[misc]
    """A strategy that could remember."""


class Nowhere(Strategy, tag="nowhere", frozen=True):
    """Its option has a type that does not exist."""

    option: "Missing"  # type: ignore[name-defined]  # noqa: F821


ODD = 'class Odd(Strategy, tag="name-in-toml")'
PROBLEMS = [
    pytest.param(
        bringing(strategy(recommend_replica=hookimpl(lambda self: None))),
        'recommend_replica: no such hook, did you mean "recommend_replicas"?',
        id="misspelt-hook",
    ),
    pytest.param(
        bringing(strategy(go=hookimpl(specname="limits")(lambda self: None))),
        'limits: no such hook, did you mean "limit"?',
        id="misspelt-specname",
    ),
    pytest.param(
        module(register_strategy=hookimpl(lambda: [Fixed])),
        'register_strategy: no such hook, did you mean "register_strategies"?',
        id="misspelt-hook-of-a-module",
    ),
    pytest.param(
        bringing(strategy(limit=hookimpl(lambda self, wishes: None))),
        'limit: argument "wishes" is not one of policy, wish, observation, past',
        id="unknown-argument",
    ),
    pytest.param(
        module(register_sources=hookimpl(lambda cluster: [])),
        'register_sources: argument "cluster" is not one of none',
        id="an-argument-where-none-is-known",
    ),
    pytest.param(
        bringing(strategy(limit=hookimpl(lambda self, wish=0: None))),
        'limit: argument "wish" must be a plain one without a default, is not',
        id="a-default-that-would-always-be-taken",
    ),
    pytest.param(
        bringing(strategy(limit=hookimpl(lambda self, *, wish: None))),
        'limit: argument "wish" must be a plain one without a default, is not',
        id="keyword-only",
    ),
    pytest.param(
        bringing(strategy(limit=hookimpl(wrapper=True)(wrapper))), "limit: must not be a wrapper, is", id="wrapper"
    ),
    pytest.param(
        bringing(strategy(limit=hookimpl(asynchronous))), "limit: must be a plain function, is async", id="async"
    ),
    pytest.param(
        bringing(strategy(limit=hookimpl(generator))), "limit: must be a plain function, is a generator", id="generator"
    ),
    pytest.param(
        bringing(strategy(limit=lambda self, wish: None)), "limit: must be marked with @hookimpl, is not", id="unmarked"
    ),
    pytest.param(
        module(register_strategies=lambda: [Fixed]),
        "register_strategies: must be marked with @hookimpl, is not",
        id="unmarked-in-a-module",
    ),
    pytest.param(bringing(strategy(tag=None)), f"Odd: must have a tag, as in {ODD}, has none", id="no-tag"),
    pytest.param(bringing(strategy(tag=5)), f"Odd: must have a tag, as in {ODD}, has none", id="a-number-for-a-tag"),
    pytest.param(bringing(Thawed), "Thawed: must be frozen, is not", id="not-frozen"),
    pytest.param(
        bringing(Nowhere),
        "Nowhere: its options cannot be decoded: NameError: name 'Missing' is not defined",
        id="an-option-of-no-type",
    ),
    pytest.param(
        bringing(int),
        "register_strategies: must return types derived from elasticd.api.Strategy, returned <class 'int'>",
        id="not-a-strategy",
    ),
    pytest.param(
        bringing(Fixed()),
        "register_strategies: must return types derived from elasticd.api.Strategy, "
        "returned Fixed(replicas=1, priority=0)",
        id="a-record-instead-of-its-type",
    ),
    pytest.param(
        bringing(int, hook="register_sources"),
        "register_sources: must return types derived from elasticd.api.Source, returned <class 'int'>",
        id="not-a-source",
    ),
    pytest.param(
        giving(None),
        "register_strategies: must return types, raised TypeError: 'NoneType' object is not iterable",
        id="nothing",
    ),
    pytest.param(
        giving(7),
        "register_strategies: must return types, raised TypeError: 'int' object is not iterable",
        id="a-number",
    ),
    pytest.param(
        module(register_strategies=hookimpl(leaving)),
        "register_strategies: must return types, raised SystemExit: bye",
        id="exits",
    ),
    pytest.param(
        module(register_strategies=hookimpl(cancelled)),
        "register_strategies: must return types, raised CancelledError",
        id="is-cancelled",
    ),
    pytest.param(
        module(register_strategies=hookimpl(two_lines)),
        "register_strategies: must return types, raised ValueError: one two",
        id="two-lines-become-one",
    ),
]


@pytest.mark.parametrize(("plugin", "problem"), PROBLEMS)
def test_a_faulty_plugin_is_one_line_that_names_it(plugin: ModuleType, problem: str) -> None:
    registry = Registry()
    registry.add("odd", plugin)
    registry.add("good", bringing(Fixed))
    assert registry.problems == [f"plugin odd: {problem}"]
    assert list(registry.strategies) == ["fixed"]


@pytest.mark.parametrize("stated", ["1", "1.0", "0.9", "0"])
def test_a_plugin_for_this_or_an_older_version_is_accepted(stated: str) -> None:
    registry = Registry()
    registry.add("mine", module(ELASTICD_API=stated, register_strategies=hookimpl(lambda: [Fixed])))
    assert registry.problems == []
    assert list(registry.strategies) == ["fixed"]


@pytest.mark.parametrize("stated", ["2", "2.0", "1.1", "10.0"])
def test_a_plugin_for_a_newer_api_version_is_refused(stated: str) -> None:
    registry = Registry()
    newer = module(ELASTICD_API=stated, register_strategies=hookimpl(lambda: [Fixed]), limits=hookimpl(lambda: None))
    registry.add("mine", newer)
    assert registry.problems == [f"plugin mine: needs version {stated} of the plugin API, here is {API_VERSION}"]
    assert registry.strategies == {}
    assert not registry.modules.has_plugin("mine")


@pytest.mark.parametrize("stated", [1, 1.0, None, "", "v1", "1.0.0", "1.", "one", "-1", "\u0661"])
def test_a_version_that_is_none_is_refused(stated: object) -> None:
    registry = Registry()
    registry.add("mine", module(ELASTICD_API=stated))
    (problem,) = registry.problems
    assert problem.startswith('plugin mine: ELASTICD_API: must be a version such as "1.0", is ')


def test_strategies_are_classified_by_hooks_not_by_base_class() -> None:
    for base in (Strategy, LimitStrategy, PoolStrategy):
        made: Any = type(Strategy)
        bounded = made("Odd", (base,), {"limit": hookimpl(lambda self: None)}, tag="odd", frozen=True)
        registry = Registry()
        registry.add("mine", bringing(bounded))
        assert registry.problems == []
        assert implemented(registry.strategies["odd"].type) == {"limit"}
        assert msgspec.convert({"type": "odd", "priority": 3}, bounded).priority == 3


def test_a_duplicate_strategy_name_is_refused_naming_both_plugins() -> None:
    registry = Registry()
    registry.add("one", bringing(Fixed), "one 1.0")
    registry.add("two", bringing(strategy(tag="fixed"), strategy("Other", "other")))
    assert registry.problems == ['plugin two: "fixed" is already registered by plugin one']
    assert registry.strategies["fixed"].type is Fixed
    assert registry.strategies["fixed"].distribution == "one 1.0"
    assert registry.strategies["other"].plugin == "two"


def test_a_second_plugin_of_the_same_name_is_refused() -> None:
    registry = Registry()
    registry.add("one", bringing(Fixed))
    registry.add("one", bringing(strategy()))
    assert registry.problems == ["plugin one: another plugin has this name already"]


def test_hook_register_strategies_may_have_another_name_by_specname() -> None:
    registry = Registry()
    registry.add("one", module(types=hookimpl(specname="register_strategies")(lambda: (Fixed,))))
    assert registry.problems == []
    assert list(registry.strategies) == ["fixed"]


def test_hook_register_sources_brings_sources() -> None:
    registry = Registry()
    registry.add("one", bringing(Held, hook="register_sources"))
    assert registry.problems == []
    assert registry.sources["held"].type is Held


SITE = {
    "good_one": "from elasticd.api import Strategy, hookimpl\n"
    "class Good(Strategy, tag='good', frozen=True): pass\n"
    "@hookimpl\ndef register_strategies(): return [Good]\n",
    "exits_one": "import sys\nsys.exit(3)\n",
    "raises_one": "raise RuntimeError('no\\nlicence')\n",
    "wrong_one": "def (\n",
}


def test_an_import_error_names_the_plugin_and_others_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in SITE.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    names = {
        "a": "exits_one",
        "b": "good_one",
        "c": "missing_one",
        "d": "raises_one",
        "e": "wrong_one",
        "f": "good_one:no",
    }
    registry = discover(EntryPoint(name, value, "elasticd") for name, value in names.items())
    assert list(registry.strategies) == ["good"]
    exits, missing, raises, wrong, lacks = registry.problems
    assert exits == "plugin a (exits_one): SystemExit: 3"
    assert missing == "plugin c (missing_one): ModuleNotFoundError: No module named 'missing_one'"
    assert raises == "plugin d (raises_one): RuntimeError: no licence"
    assert wrong.startswith("plugin e (wrong_one): SyntaxError: ")
    assert lacks == "plugin f (good_one:no): AttributeError: module 'good_one' has no attribute 'no'"


def test_everything_bundled_can_be_used() -> None:
    registry = discover()
    assert registry.problems == []
    assert {"hpa", "cadence", "stabilization", "rate", "cooldown"} <= set(registry.strategies)
    assert "resource-metrics" in registry.sources


def arguments() -> dict[str, Any]:
    policy = Policy(name="p", replicas=Bounds(10), strategies=())
    return {"policy": policy, "workload": SEEN.workload, "observation": SEEN, "past": Past(0.0), "wish": 4}


class Curious(Strategy, tag="curious", frozen=True):
    """Takes what it needs, in its own order."""

    @hookimpl
    def limit(self, past: Past, wish: int) -> Limit:
        return Limit(f"{past.since:g}", lowest=wish)

    @hookimpl(specname="limit")
    def another(self) -> None:
        return None


def test_hook_limit_gets_all_the_arguments_it_names() -> None:
    said = Hooks([Curious()]).ask("limit", arguments())
    assert said.values == (("curious", Limit("0", lowest=4)),)
    assert said.failures == ()


def test_two_tables_of_one_type_have_two_names() -> None:
    said = Hooks([Fixed(replicas=3), Fixed(replicas=5)]).ask("recommend_replicas", arguments())
    assert said.values == (("fixed", Recommendation(3, "Fixed")), ("fixed#2", Recommendation(5, "Fixed")))


def test_two_equal_tables_speak_once() -> None:
    said = Hooks([Fixed(replicas=3), Fixed(replicas=3)]).ask("recommend_replicas", arguments())
    assert [name for name, _ in said.values] == ["fixed"]


def test_implementations_are_asked_by_name_whatever_their_order() -> None:
    one, other = Fixed(replicas=3), strategy(recommend_replicas=hookimpl(lambda self: Recommendation(4, "Odd")))()
    assert Hooks([one, other]).ask("recommend_replicas", arguments()) == Hooks([other, one]).ask(
        "recommend_replicas", arguments()
    )


class UnspeakableError(Exception):
    """Its text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError


def raising(error: BaseException) -> Callable[[Any], Any]:
    def recommend_replicas(self: Any) -> Any:
        raise error

    return recommend_replicas


@pytest.mark.parametrize(
    ("error", "message"),
    [
        pytest.param(ValueError("no"), "raised ValueError: no", id="exception"),
        pytest.param(ValueError(), "raised ValueError", id="without-text"),
        pytest.param(ValueError("a\n  b"), "raised ValueError: a b", id="two-lines"),
        pytest.param(ValueError("\ud800\x1b[1m"), "raised ValueError: \\ud800\\x1b[1m", id="unprintable"),
        pytest.param(SystemExit(2), "raised SystemExit: 2", id="exit"),
        pytest.param(asyncio.CancelledError(), "raised CancelledError", id="cancellation"),
        pytest.param(GeneratorExit(), "raised GeneratorExit", id="generator-exit"),
        pytest.param(RecursionError("deep"), "raised RecursionError: deep", id="recursion"),
        pytest.param(UnspeakableError(), "raised UnspeakableError", id="unspeakable"),
    ],
)
def test_one_that_raises_is_named_and_the_others_are_heard(error: BaseException, message: str) -> None:
    bad = strategy(recommend_replicas=hookimpl(raising(error)))()
    said = Hooks([bad, Fixed()]).ask("recommend_replicas", arguments())
    assert said.failures == (Failure("odd", "recommend_replicas", message),)
    assert [name for name, _ in said.values] == ["fixed"]


def test_a_persons_interrupt_is_not_swallowed() -> None:
    bad = strategy(recommend_replicas=hookimpl(raising(KeyboardInterrupt())))()
    with pytest.raises(KeyboardInterrupt):
        Hooks([bad]).ask("recommend_replicas", arguments())


def interrupting() -> Any:
    raise KeyboardInterrupt


@pytest.fixture
def attended() -> Iterator[None]:
    """Somebody looks after SIGINT, as the daemon does: Python then raises no KeyboardInterrupt of its own."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("attended")
def test_where_no_person_can_have_interrupted_it_was_the_plugin() -> None:
    bad = strategy(recommend_replicas=hookimpl(raising(KeyboardInterrupt("mine"))))()
    said = Hooks([bad, Fixed()]).ask("recommend_replicas", arguments())
    assert said.failures == (Failure("odd", "recommend_replicas", "raised KeyboardInterrupt: mine"),)
    assert [name for name, _ in said.values] == ["fixed"]
    registry = Registry()
    registry.add("bad", module(register_strategies=hookimpl(interrupting)))
    assert registry.problems == ["plugin bad: register_strategies: must return types, raised KeyboardInterrupt"]


def test_a_system_exit_while_reading_an_answer_is_a_failure() -> None:
    def look(*_: object) -> object:
        raise SystemExit(3)

    said = Hooks([Fixed()]).ask("recommend_replicas", arguments(), read=look)
    (failure,) = said.failures
    assert failure.message.endswith(": SystemExit: 3")


@pytest.mark.parametrize("collection", [list, tuple, dict.fromkeys], ids=["list", "tuple", "dict"])
def test_an_answer_with_too_many_items_is_a_failure(collection: Callable[[range], object]) -> None:
    endless = strategy(recommend_replicas=hookimpl(lambda self: collection(range(1_000_001))))()
    answers = Hooks([endless, Fixed()]).ask("recommend_replicas", arguments())
    (failure,) = answers.failures
    assert failure.message.endswith(": must have at most 1000000 items, has 1000001")
    assert [name for name, _ in answers.values] == ["fixed"]


def test_one_that_is_switched_off_is_not_called_but_told() -> None:
    bad = strategy(recommend_replicas=hookimpl(raising(AssertionError())))()
    said = Hooks([bad, Fixed()]).ask("recommend_replicas", arguments(), frozenset({"odd"}))
    assert said.failures == (Failure("odd", "recommend_replicas", "is switched off until reload"),)
    assert len(said.values) == 1


@pytest.mark.parametrize(
    ("names", "union"),
    [
        pytest.param([], frozenset(), id="nobody"),
        pytest.param([("cpu",), ("cpu", "qps")], {"cpu", "qps"}, id="together"),
        pytest.param([("cpu",), ()], {"cpu"}, id="one-reads-nothing"),
        pytest.param([("cpu",), None], None, id="one-wants-all"),
    ],
)
def test_what_is_read_is_what_any_of_them_reads(names: list[tuple[str, ...] | None], union: set[str] | None) -> None:
    records = [
        strategy(f"S{index}", f"s{index}", reads=lambda self, said=said: said)() for index, said in enumerate(names)
    ]
    assert Hooks(records).reads == union


class Rich(Strategy, tag="rich", frozen=True):
    """Has options that cannot be hashed."""

    weights: dict[str, float] = {}  # noqa: RUF012 - msgspec copies it
    steps: list[int] = field(default_factory=list)

    @hookimpl
    def recommend_replicas(self) -> Recommendation:
        return Recommendation(sum(self.steps), "Rich")


def test_options_may_be_tables_and_arrays() -> None:
    registry = Registry()
    registry.add("one", bringing(Rich))
    assert registry.problems == []
    table = {"type": "rich", "weights": {"a": 1.0}, "steps": [1, 2]}
    rich = msgspec.convert(table, registry.strategies["rich"].type)
    assert Hooks([rich, Rich()]).ask("recommend_replicas", arguments()).values[0][1].replicas == 3


def test_what_a_type_implements_is_known_by_hook() -> None:
    assert implemented(Curious) == {"limit"}
    assert implemented(Fixed) == {"recommend_replicas"}
    assert implemented(Strategy) == frozenset()
    assert set(HOOKS) >= {"limit", "recommend_replicas", "poll_interval"}


def test_hook_decided_and_the_one_after_it_reach_every_module() -> None:
    told: list[object] = []
    registry = Registry()
    registry.add("one", module(decided=hookimpl(lambda decision: told.append(decision))))  # noqa: PLW0108
    registry.add("two", module(acted=hookimpl(lambda outcome: told.append(outcome))))  # noqa: PLW0108
    registry.modules.hook.decided(decision="a decision")
    registry.modules.hook.acted(outcome="an outcome")
    assert registry.problems == []
    assert told == ["a decision", "an outcome"]


def test_hook_acted_is_checked_like_any_other() -> None:
    registry = Registry()
    registry.add("one", module(acted=hookimpl(lambda result: None)))
    assert registry.problems == ['plugin one: acted: argument "result" is not one of outcome']


def test_a_type_is_searched_for_hooks_only_once() -> None:
    searches = []

    class Counted(type):
        def __dir__(cls) -> Iterable[str]:
            searches.append(cls)
            return super().__dir__()

    class Plugin(metaclass=Counted):
        @hookimpl
        def recommend_replicas(self) -> None:
            """Recommend nothing."""

    for _ in range(3):
        assert implemented(Plugin) == {"recommend_replicas"}
    assert len(searches) == 1
