"""Decodes tables that name their type into records of it, or into one line for each mistake.

Knows where a strategy, a limit or a source may stand; knows nothing of the files they stand in.
"""

from collections.abc import Collection, Mapping
from functools import partial
from inspect import signature
from operator import methodcaller
from typing import Annotated, Any

from msgspec import Meta

from elasticd import hookspecs
from elasticd.base.decode import convert
from elasticd.base.errors import ConfigError, Mistakes, nearest
from elasticd.base.text import is_name, shown
from elasticd.model.policy import Strategy
from elasticd.registry import HOOKS, Installed, Registry, implemented, third_party
from elasticd.sources.settled import answered

PLACING = frozenset(hook for hook in HOOKS if "nodes" in signature(getattr(hookspecs, hook)).parameters)
"""The hooks that are about the pods of a pool: they are given its nodes."""

_NAMES = Annotated[tuple[str, ...], Meta(max_length=10_000)]

_CONSTANTS: Mapping[str, tuple[Any, str]] = {
    "reads_of_nodes": (_NAMES, "up to 10000 names of series"),
    "labels_of_nodes": (_NAMES, "up to 10000 keys of labels"),
    "recalls": (Annotated[float, Meta(ge=0)], "seconds >= 0"),
    "own_pace": (bool, "True or False"),
    "lasts": (bool, "True or False"),
    "looks_back": (Annotated[int, Meta(ge=0)], "a number of evaluations >= 0"),
}
"""What a strategy's options alone decide, beside `reads`: the type of each answer, and that in words."""


def records(
    tables: list[dict[str, Any]], registry: Registry, file: str, key: str, role: str = ""
) -> tuple[Strategy, ...]:
    """The records of tables that name their type. `role` is what the tables are for (strategy, limit or pool), `key` if
    empty. Raises ConfigError for all that is wrong with them."""
    decoded, mistakes, role = list[Strategy](), Mistakes(), role or key
    known = registry.strategies.items()
    fit = [name for name, installed in known if not _misplaced(implemented(installed.type), role)]
    for index, table in enumerate(tables):
        where = f"{key}[{index}]"
        with mistakes.collected():
            record = typed(table, registry.strategies, registry, file, where, fit)
            if problem := _misplaced(implemented(type(record)), role):
                raise ConfigError(file, f"{where}.type", f'{problem} "{record.__struct_config__.tag}"')
            if role == "limit" and record.priority:
                raise ConfigError(file, f"{where}.priority", f"must be left out of a limit, is {record.priority}")
            if record in decoded:
                raise ConfigError(file, where, f"must differ from {key}[{decoded.index(record)}], is the same")
            _settle(record, file, where)
            decoded.append(record)
    mistakes.raised()
    return tuple(decoded)


def _misplaced(hooks: frozenset[str], role: str) -> str:
    """Why a type with these hooks may not stand under [[strategy]] or [[limit]]; empty if it may."""
    places = bool(hooks & PLACING)
    if role == "pool":
        return "" if places else "must be one that places pods, is the strategy"
    if places:
        return "must be one for workloads, is the strategy for pods of a [pool]"
    if role == "limit" and ("limit" not in hooks or hooks & {"recommend_replicas", "recommend_resources"}):
        return "must be a limit, is the strategy"
    if role == "strategy" and not hooks & {"recommend_replicas", "recommend_resources", "poll_interval", "rank_pods"}:
        return "must be a strategy, is the limit"
    return ""


def _settle(record: Strategy, file: str, key: str) -> None:
    """Ask a strategy for its constants. A third party's is never asked again: what it answered stands in its instance,
    before its methods, so that none of them runs on the event loop."""
    reads = _reads_of(record, file, key)
    if not third_party(type(record)):
        return
    for name, (kind, words) in _CONSTANTS.items():
        ask, problem = partial(methodcaller(name), record), f"{name}() must give {words}"
        vars(record)[name] = partial(_same, answered(ask, kind, file, key, problem))
    vars(record)["reads"] = partial(_same, reads)


def _same(answer: Any) -> Any:
    return answer


def _reads_of(record: Strategy, file: str, key: str) -> tuple[str, ...] | None:
    """The series it reads. Reject a strategy whose `reads` fails: its series could not be fetched."""
    problem = "reads() must give names of series, or None"
    names = answered(partial(methodcaller("reads"), record), Any, file, key, problem)
    if names is not None and not (isinstance(names, tuple | list) and all(isinstance(name, str) for name in names)):
        raise ConfigError(file, key, f"{problem}, gave {shown(names)}")
    for name in names or ():
        if not is_name(name):
            raise ConfigError(file, key, f"must read series that have a name on one line, reads {shown(name)}")
    return None if names is None else tuple(names)


def typed(
    table: dict[str, Any],
    types: Mapping[str, Installed],
    registry: Registry,
    file: str,
    key: str,
    fit: Collection[str] | None = None,
) -> Any:
    """A record of the type its table names. `fit`: the types to propose in a message, of those known; None: all."""
    proposed = types if fit is None else fit
    if "type" not in table:
        raise ConfigError(file, f"{key}.type", f"must be given (one of {', '.join(sorted(proposed))}), is missing")
    kind = table["type"]
    if not isinstance(kind, str) or kind not in types:
        broken = "".join(f"; {line}" for line in registry.problems)
        raise ConfigError(file, f"{key}.type", no_such(kind, proposed) + broken)
    return convert(table, types[kind].type, file, key)


def no_such(name: object, choices: Collection[str]) -> str:
    """The problem of a name that is none of these."""
    near = nearest(name[:60], choices) if isinstance(name, str) else ""
    return f"must be one of {', '.join(sorted(choices))}, is {shown(name)}{near}"
