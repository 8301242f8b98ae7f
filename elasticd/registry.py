"""Finds plugins, checks them, and calls each implementation alone, so that one that fails is named and counted.

Knows pluggy and entry points; knows nothing of policies' files or of what the answers mean.
"""

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from inspect import Parameter, iscoroutinefunction, isfunction, isgeneratorfunction, signature
from operator import itemgetter
from types import ModuleType
from typing import Any, cast

import msgspec
import pluggy
from msgspec import Struct

from elasticd import hookspecs
from elasticd.api import API_VERSION
from elasticd.base.errors import is_interrupt, nearest
from elasticd.base.text import one_line, raised, shown
from elasticd.model.policy import Strategy
from elasticd.model.workload import Answers, Failure

GROUP = "elasticd"
_VERSION = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)
HOOKS = tuple(name for name, value in vars(hookspecs).items() if hasattr(value, "elasticd_spec"))


_OWN = frozenset({"elasticd", "elasticd_plugins"})


def third_party(kind: type[Any]) -> str:
    """The package of the third party whose type this is; empty for what elasticd brings."""
    package = kind.__module__.partition(".")[0]
    return "" if package in _OWN else package


def _marked(plugin: Any, name: str) -> dict[str, Any] | None:
    """The options of @hookimpl on a module's or a type's attribute, None where it stands on none."""
    owner = plugin if isinstance(plugin, ModuleType | type) else type(plugin)
    return getattr(getattr(owner, name, None), "elasticd_impl", None)


class _Manager(pluggy.PluginManager):
    """pluggy's manager, looking only at what is marked as a hook."""

    def parse_hookimpl_opts(self, plugin: Any, name: str) -> Any:
        return super().parse_hookimpl_opts(plugin, name) if _marked(plugin, name) else None


class Installed(Struct, frozen=True):
    """A strategy or source type, and who brought it."""

    type: type[Any]
    plugin: str
    distribution: str

    @property
    def name(self) -> str:
        return str(self.type.__struct_config__.tag)


class _PluginRefusedError(Exception):
    """What is wrong with a plugin, in our words."""


class Registry:
    """Everything that is installed. `problems` has one line for each plugin, or type, that could not be used."""

    def __init__(self) -> None:
        self.strategies: dict[str, Installed] = {}
        self.sources: dict[str, Installed] = {}
        self.problems: list[str] = []
        self.modules = _Manager(GROUP)
        self.modules.add_hookspecs(hookspecs)

    def add(self, name: str, plugin: object, distribution: str = "") -> None:
        """Take in one plugin; whatever is wrong with it becomes a line in `problems`."""
        with self.blaming(name):
            if self.modules.has_plugin(name):
                raise _PluginRefusedError("another plugin has this name already")
            _check_version(plugin)
            _check(plugin)
            self.modules.register(plugin, name)
            for hook, table in (("register_strategies", self.strategies), ("register_sources", self.sources)):
                for found in self._brought(plugin, hook):
                    with self.blaming(name):
                        _check_type(hook, found)
                        new = Installed(found, name, distribution)
                        if new.name in table:
                            owner = table[new.name].plugin
                            raise _PluginRefusedError(f'"{new.name}" is already registered by plugin {owner}')
                        table[new.name] = new

    @contextmanager
    def blaming(self, name: str) -> Iterator[None]:
        """Make what the block raises a line in `problems`."""
        try:
            yield
        except _PluginRefusedError as error:
            self.problems.append(one_line(f"plugin {name}: {error}"))
        except BaseException as error:  # sys.exit in a plugin must not end the daemon
            if is_interrupt(error):
                raise
            self.problems.append(f"plugin {name}: {raised(error)}")

    def _brought(self, plugin: object, hook: str) -> list[Any]:
        """The types that a plugin's implementations of a register hook give."""
        implementations = getattr(self.modules.hook, hook).get_hookimpls()
        functions = [implementation.function for implementation in implementations if implementation.plugin is plugin]
        try:
            return [kind for function in functions for kind in function()]
        except BaseException as error:
            if is_interrupt(error):
                raise
            raise _PluginRefusedError(f"{hook}: must return types, raised {raised(error)}") from None


def _check_version(plugin: object) -> None:
    """Refuse a plugin written for a newer version of the plugin API; one that states none is taken for an old one."""
    stated = getattr(plugin, "ELASTICD_API", API_VERSION)
    if not isinstance(stated, str) or not _VERSION.fullmatch(stated):
        raise _PluginRefusedError(f'ELASTICD_API: must be a version such as "{API_VERSION}", is {shown(stated)}')
    if _numbers(stated) > _numbers(API_VERSION):
        raise _PluginRefusedError(f"needs version {stated} of the plugin API, here is {API_VERSION}")


def _numbers(stated: str) -> list[int]:
    return [int(number) for number in stated.split(".")]


def _check_type(hook: str, found: Any) -> None:
    """Refuse what cannot be decoded from a table that names its type."""
    strategy = hook == "register_strategies"
    wanted = Strategy if strategy else Struct
    if not isinstance(found, type) or not issubclass(found, wanted):
        kind = "elasticd.api.Strategy" if strategy else "elasticd.api.Source"
        raise _PluginRefusedError(f"{hook}: must return types derived from {kind}, returned {shown(found)}")
    config = found.__struct_config__
    # msgspec makes a tag that is left out from the class's name.
    own = isinstance(config.tag, str) and (config.tag != found.__name__ or config.tag.islower())
    if not own or config.tag_field != "type":
        example = f'class {found.__name__}({wanted.__name__}, tag="name-in-toml")'
        raise _PluginRefusedError(f"{found.__name__}: must have a tag, as in {example}, has none")
    if not config.frozen:
        raise _PluginRefusedError(f"{found.__name__}: must be frozen, is not")
    if strategy:
        _check(found)
    try:
        msgspec.json.Decoder(found)
    except Exception as error:
        raise _PluginRefusedError(f"{found.__name__}: its options cannot be decoded: {raised(error)}") from None


def _check(plugin: object) -> None:
    """Refuse implementations of no hook, of a shape that cannot be called, and forgotten marks."""
    for name in dir(plugin):
        marked = _marked(plugin, name)
        if marked is not None:
            _check_implementation(plugin, name, marked)
            continue
        meant = name in HOOKS and (isinstance(plugin, type) or name.startswith("register_"))
        if meant and isfunction(getattr(plugin, name, None)):
            raise _PluginRefusedError(f"{name}: must be marked with @hookimpl, is not")


def _check_implementation(plugin: object, name: str, marked: Mapping[str, Any]) -> None:
    hook, function = marked.get("specname") or name, getattr(plugin, name)
    if hook not in HOOKS:
        raise _PluginRefusedError(f"{hook}: no such hook{nearest(hook, HOOKS)}")
    if marked.get("wrapper") or marked.get("hookwrapper"):
        raise _PluginRefusedError(f"{name}: must not be a wrapper, is")
    if iscoroutinefunction(function) or isgeneratorfunction(function):
        kind = "async" if iscoroutinefunction(function) else "a generator"
        raise _PluginRefusedError(f"{name}: must be a plain function, is {kind}")
    known = signature(getattr(hookspecs, hook)).parameters
    for argument, parameter in signature(function).parameters.items():
        if argument not in known and argument != "self":
            raise _PluginRefusedError(f'{name}: argument "{argument}" is not one of {", ".join(known) or "none"}')
        if parameter.kind is not Parameter.POSITIONAL_OR_KEYWORD or parameter.default is not Parameter.empty:
            raise _PluginRefusedError(f'{name}: argument "{argument}" must be a plain one without a default, is not')


@cache
def _implementations(record: Hashable) -> tuple[tuple[str, str], ...]:
    """The hooks that a type implements, each with the name of the method that does. Cached, as every policy that is
    read asks it of every installed type."""
    marks = ((name, _marked(record, name)) for name in dir(record))
    return tuple((str(marked.get("specname") or name), name) for name, marked in marks if marked is not None)


def implemented(record: type[Any]) -> frozenset[str]:
    """The hooks that a type implements, under whatever names."""
    return frozenset([hook for hook, _ in _implementations(cast(Hashable, record))])


def hooks_of(strategies: Iterable[Strategy]) -> frozenset[str]:
    """The hooks that any of these implements."""
    return frozenset(hook for strategy in strategies for hook in implemented(type(strategy)))


def _in_order(found: Iterable[EntryPoint]) -> list[tuple[EntryPoint, str]]:
    """Each with the name and version of who brought it, which are read once of each; bundled plugins before others, so
    that a name that is taken twice stays theirs."""
    points = list(found)
    brought = {id(point.dist): point.dist for point in points}
    names = {key: f"{dist.name} {dist.version}" if dist else "" for key, dist in brought.items()}
    named = [(point, names[id(point.dist)]) for point in points]
    return sorted(named, key=lambda one: (not one[1].startswith("elasticd "), one[0].name, one[0].value))


def discover(points: Iterable[EntryPoint] | None = None) -> Registry:
    """All plugins in entry point group `elasticd`. One that cannot be imported is named, and the rest go on."""
    registry = Registry()
    found = entry_points(group=GROUP) if points is None else points
    for point, distribution in _in_order(found):
        with registry.blaming(f"{point.name} ({point.value})"):
            registry.add(point.name, point.load(), distribution)
    return registry


MOST_ITEMS = 1_000_000
"""Items of one answer: moves of pods, ranks, scores. As many as a read of a source may have samples."""

_COLLECTIONS = (list, tuple, dict)

Read = Callable[[Any, str], Any]
"""Converts an answer and the name of its strategy. Raises if the answer is invalid."""


_Pick = Callable[[Mapping[str, Any]], tuple[Any, ...]]
"""Of all arguments, by name, those that an implementation takes."""


class Hooks:
    """The implementations of one policy's strategies and limits, ready to be called. Immutable: policies whose
    tables are equal share one."""

    def __init__(self, strategies: Iterable[Strategy]) -> None:
        distinct: list[Strategy] = []
        for strategy in strategies:
            if strategy not in distinct:  # a second voice that says the same changes nothing
                distinct.append(strategy)
        reads = [strategy.reads() for strategy in distinct]
        self.reads = None if None in reads else frozenset(name for names in reads for name in names or ())
        """The series that any of them reads; None: one wants all."""
        self.reads_of_nodes = frozenset(name for strategy in distinct for name in strategy.reads_of_nodes())
        self.labels_of_nodes = frozenset(key for strategy in distinct for key in strategy.labels_of_nodes())
        self.recalls = max((strategy.recalls() for strategy in distinct), default=0.0)
        self.looks_at_nodes = any(strategy.looks_at_nodes for strategy in distinct)
        self.lasting = self.reads is not None and all(strategy.lasts() for strategy in distinct)
        """Whether the answers of all last, as Strategy.lasts has it."""
        self.own_pace = any(strategy.own_pace() for strategy in distinct)
        self.third_parties = frozenset(filter(None, (third_party(type(strategy)) for strategy in distinct)))
        """The packages of those that elasticd does not bring."""
        self.looks_back = max((strategy.looks_back() for strategy in distinct), default=0)
        self.screened: dict[str, tuple[str, ...] | None] = {}
        """The series that strategies of the count or the poll interval read, by strategy."""
        self.priorities: dict[str, int] = {}  # of those that have one other than 0
        names: dict[str, int] = {}
        self._implementations: dict[str, list[tuple[str, Callable[..., Any], _Pick]]] = {
            hook: [] for hook in (*HOOKS, "next_change")
        }
        for strategy in distinct:
            tag = str(strategy.__struct_config__.tag)
            names[tag] = names.get(tag, 0) + 1
            name = tag if names[tag] == 1 else f"{tag}#{names[tag]}"
            # Only where it has one of its own: most answers change with what is observed.
            if type(strategy).next_change is not Strategy.next_change:
                self._implementations["next_change"].append((name, strategy.next_change, _pick(["at"])))
            for hook, method in _implementations(type(strategy)):
                function = getattr(strategy, method)
                self._implementations[hook].append((name, function, _pick(list(signature(function).parameters))))
            if strategy.priority:
                self.priorities[name] = strategy.priority
            if not _SAYING.isdisjoint(implemented(type(strategy))):
                self.screened[name] = strategy.reads()
        for found in self._implementations.values():
            found.sort(key=itemgetter(0))  # so that the order of a policy's tables does not show

    @property
    def fetched(self) -> frozenset[str] | None:
        """The series that sources are asked for, of pods, workloads or nodes; None: all there are."""
        return None if self.reads is None else self.reads | self.reads_of_nodes

    def implements(self, hook: str) -> bool:
        return bool(self._implementations[hook])

    def ask(
        self, hook: str, arguments: Mapping[str, Any], off: frozenset[str] = frozenset(), read: Read | None = None
    ) -> Answers:
        """Call every implementation of a hook but those switched off. Each answer is what `read` makes of the value
        and the name, if given; what that refuses is the implementation's failure. Answers of None are left out."""
        implementations = self._implementations[hook]
        if not implementations:
            return _NO_ANSWERS
        names: list[str] = []
        given: list[Any] = []
        failures: list[Failure] = []
        for name, function, pick in implementations:
            if off and name in off:
                failures.append(Failure(name, hook, "is switched off until reload"))
                continue
            try:
                value = function(*pick(arguments))
            except BaseException as error:  # sys.exit or a cancellation from a plugin is that plugin's failure
                if is_interrupt(error):
                    raise
                failures.append(Failure(name, hook, f"raised {raised(error)}"))
                continue
            if value is None:
                continue
            try:
                if isinstance(value, _COLLECTIONS) and len(value) > MOST_ITEMS:
                    raise ValueError(f"must have at most {MOST_ITEMS} items, has {len(value)}")
                given.append(value if read is None else read(value, name))
            except BaseException as error:  # whatever a stranger's object does when it is looked at
                if is_interrupt(error):
                    raise
                problem = one_line(str(error)) if isinstance(error, Exception) else raised(error)
                failures.append(Failure(name, hook, f"returned {shown(value)}: {problem}"))
                continue
            names.append(name)
        return Answers(tuple(names), tuple(given), tuple(failures)) if names or failures else _NO_ANSWERS


_NO_ANSWERS = Answers()


_SAYING = frozenset({"recommend_replicas", "limit", "recommend_resources", "poll_interval"})
"""The bands of a workload's series, as its strategies answer."""


def _pick(names: list[str]) -> _Pick:
    """Worked out once, as every decision picks for every implementation."""
    if not names:
        return lambda _: ()
    if len(names) > 1:
        return itemgetter(*names)
    only = names[0]
    return lambda arguments: (arguments[only],)


STRIKES = 5
"""Failures in a row after which a plugin is switched off."""


class FailureCounter:
    """Failures in a row, for each subject apart: a plugin that fails for one may answer for another."""

    def __init__(self) -> None:
        self.off: frozenset[str] = frozenset()
        """The plugins that have failed too often for any subject. They stay switched off."""
        self._counts: dict[Hashable, dict[str, int]] = {}

    def count(self, subject: Hashable, failed: Collection[str]) -> frozenset[str]:
        """Count the plugins that have failed now; the counts of others restart at 0. Returns those that this switches
        off."""
        counts = self._counts.pop(subject, {})
        if failed:
            counts = self._counts[subject] = {name: counts.get(name, 0) + 1 for name in failed}
        switched_off = frozenset(name for name in failed if counts[name] >= STRIKES) - self.off
        self.off |= switched_off
        return switched_off
