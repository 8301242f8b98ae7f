"""Asks a third-party source about itself once, when elasticd.toml is read, in a thread and with a time limit: nobody
asks it again, so that none of its answers can block the event loop or change.

Knows the questions that a source answers without being opened; knows nothing of what it reads.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import cache
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta
from msgspec.structs import asdict

from elasticd.base.errors import ConfigError, NotYetError
from elasticd.base.stacks import blocking, frames_of, place
from elasticd.base.text import raised, shown
from elasticd.ports.source import Source
from elasticd.sources.threads import is_strange, settle

T = TypeVar("T")

PATIENCE = 10.0
"""Seconds that a plugin may take to decode a source's options, or to answer about it."""

_TEXT, _NUMBER, _FLAG = (str, "text"), (float | None, "a number or None"), (bool, "True or False")
_NAMES = (Annotated[tuple[str, ...], Meta(max_length=10_000)] | None, "up to 10000 names of series, or None")
_LABEL = (str | None, "the label of a source, or None")

_ANSWERS: dict[str, tuple[Any, str]] = {
    "label": _TEXT,
    "every": (float, "a number"),
    "resolution": _NUMBER,
    "pushes": _FLAG,
    "complete": _FLAG,
    "forecasts": _FLAG,
    "remembers": _FLAG,
    "usual": _NUMBER,
    "usual_series": _NAMES,
    "offers": _NAMES,
    "offers_of_nodes": _NAMES,
    "draws": _LABEL,
    "derives": _LABEL,
}
"""What a source says of itself, as attributes and methods: the type of each, and that in words."""


class StuckError(NotYetError):
    """A plugin does not answer, or the mount of a file."""


def settled(decode: Callable[[], Source], file: str, key: str) -> Source:
    """The source that `decode` gives; of a third party's, a copy that gives the same answers for ever. Raises
    ConfigError, also for whatever the plugin raises, and where it is stuck."""
    return guarded(lambda: _settle(decode(), file, key), file, key)


def guarded(call: Callable[[], T], file: str, key: str) -> T:
    """What a call into a plugin returns. Raises ConfigError for what it raises otherwise, and where it is stuck: its
    thread is then left behind."""
    result: Future[T] = Future()
    thread = threading.Thread(target=settle, args=(result, call), name="source options", daemon=True)
    thread.start()
    for _ in range(2):  # the first wait is over at once where the whole process had been stopped meanwhile
        thread.join(PATIENCE / 2)
    frames = frames_of(thread)
    if not result.done():
        at = place(blocking(frames)[0])
        raise StuckError(file, key, f"its plugin must answer within {PATIENCE:g} s, is stuck in {at}")
    error = result.exception()
    if error is None or isinstance(error, ConfigError):
        return result.result()
    raise ConfigError(file, key, f"its plugin must answer, raised {raised(error)}")


def _settle(source: Source, file: str, key: str) -> Source:
    if not is_strange(source, {}):
        return source
    answers = {name: _answer(source, name, file, key) for name in _ANSWERS}
    return _type_with(type(source), tuple(answers.values()))(**asdict(source))


def _answer(source: Source, name: str, file: str, key: str) -> Any:
    def ask() -> object:
        attribute: object = getattr(source, name)
        return attribute() if callable(attribute) else attribute

    kind, words = _ANSWERS[name]
    return answered(ask, kind, file, key, f"its plugin's {name} must be {words}", "is")


def answered(ask: Callable[[], object], kind: Any, file: str, key: str, problem: str, verb: str = "gave") -> Any:
    """What a plugin answers, as this type. Raises ConfigError with what it raised, or what it `gave` instead."""
    try:
        answer = ask()
    except BaseException as error:  # sys.exit, too
        raise ConfigError(file, key, f"{problem}, raised {raised(error)}") from None
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError:
        raise ConfigError(file, key, f"{problem}, {verb} {shown(answer)}") from None


@cache
def _type_with(kind: type[Source], answers: tuple[Any, ...]) -> type[Source]:
    """The type with these answers to `_ANSWERS` instead of its own. Cached, so that equal sources have equal types."""
    members: dict[str, Any] = {"__module__": kind.__module__, "__post_init__": lambda _: None}
    for name, answer in zip(_ANSWERS, answers, strict=True):
        asked = callable(getattr(Source, name))
        members[name] = (lambda _, answer=answer: answer) if asked else answer
    meta: Any = type(kind)
    settled_type: type[Source] = meta(kind.__name__, (kind,), members, frozen=True, tag=kind.__struct_config__.tag)
    return settled_type
