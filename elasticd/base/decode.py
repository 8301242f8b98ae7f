"""Decoding tables into types, with errors a person can act on: `file: key: what must hold, what is`.

Knows how msgspec words its errors and how types are nested; knows nothing of what they mean.
"""

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Struct, inspect

from elasticd.base.errors import ConfigError, Mistakes, nearest
from elasticd.base.text import one_line, raised, shown, unprintable

T = TypeVar("T")
_WORDS = {"int": "a whole number", "float": "a number", "str": "a string", "bool": "true or false",
          "array": "an array", "object": "a table"}  # fmt: skip


def convert(table: Any, kind: type[T], file: str, key: str = "") -> T:
    """Decode a table as a record of this type. Raises ConfigError for all that is wrong with it: a line for each
    mistake, with the key's full path."""
    with suppress(Exception):
        if not any(_find_unfit(table, key)):
            return msgspec.convert(table, kind, strict=True)
    mistakes = Mistakes()
    mistakes.add(_mistakes(table, kind, file, key))
    mistakes.raised()
    return _decode(table, kind, file, key)  # what refuses the same table at one time only


def shared_fields(record: Struct, kind: type[Struct]) -> dict[str, Any]:
    """The fields of a record that this type declares, all of which it has."""
    return {name: getattr(record, name) for name in kind.__struct_fields__}


def _decode(value: Any, kind: type[T], file: str, key: str) -> T:
    """Decode a value all entries of which are right. Raises ConfigError for what is wrong with the whole."""
    for where, problem in _find_unfit(value, key):
        raise ConfigError(file, one_line(where), problem)
    try:
        return msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError as error:
        where, problem = _reword(str(error), value, kind, key)
        raise ConfigError(file, one_line(where), one_line(problem)) from None
    except Exception as error:  # a record's own check; only ValueError and TypeError are its way to refuse
        raise ConfigError(file, key, f"must be something its type can check, raised {raised(error)}") from None


def _mistakes(value: Any, kind: Any, file: str, key: str) -> list[ConfigError]:
    """All mistakes of the entries, and of which keys there are; those of the whole only where there are no others."""
    errors = [
        error
        for step, entry, declared in _parts(value, kind)
        for error in _mistakes(entry, declared, file, _below(key, step))
    ]
    struct = _struct_of(value, kind)
    if struct is not None:
        errors += [ConfigError(file, one_line(_below(key, name)), why) for name, why in _wrong_keys(value, struct)]
    if not errors:
        try:
            _decode(value, kind, file, key)
        except ConfigError as error:
            return [error]
    return errors


def _parts(value: Any, kind: Any) -> Iterator[tuple[str, Any, Any]]:
    """The entries of a table or an array: name or index, value, and the type that is declared for it."""
    struct = _struct_of(value, kind)
    if struct is not None:
        fields = {field.encode_name: field.type for field in msgspec.structs.fields(struct)}
        yield from ((name, entry, fields[name]) for name, entry in value.items() if name in fields)
        return
    for member in _members(kind):
        arguments = get_args(member)
        if isinstance(value, list) and get_origin(member) in (list, tuple):
            yield from ((str(index), entry, arguments[0]) for index, entry in enumerate(value))
        if isinstance(value, dict) and get_origin(member) is dict:
            yield from ((name, entry, arguments[1]) for name, entry in value.items())


def _members(kind: Any) -> Iterator[Any]:
    if get_origin(kind) is Annotated:
        yield from _members(get_args(kind)[0])
    elif get_origin(kind) in (Union, UnionType):
        for member in get_args(kind):
            yield from _members(member)
    else:
        yield kind


def _struct_of(value: Any, kind: Any) -> type[Struct] | None:
    """The record that a table is written for: of several the one that its tag names."""
    if not isinstance(value, dict):
        return None
    structs = [struct for struct in _members(kind) if isinstance(struct, type) and issubclass(struct, Struct)]
    for struct in structs:
        config = struct.__struct_config__
        if config.tag_field is None or value.get(config.tag_field) == config.tag:
            return struct
    return None


def _wrong_keys(table: Mapping[str, Any], struct: type[Struct]) -> Iterator[tuple[str, str]]:
    """Keys that the record does not have, and required ones that are missing; each with its problem. One that is
    misspelt is not missing as well."""
    fields, config = msgspec.structs.fields(struct), struct.__struct_config__
    names, meant = [field.encode_name for field in fields], ""
    for name in table:
        if config.forbid_unknown_fields and name not in names and name != config.tag_field:
            guess = nearest(name[:60], names)
            meant += guess
            yield name, f"no such key{guess}"
    for field in fields:
        if field.required and field.encode_name not in table and f'"{field.encode_name}"' not in meant:
            yield field.encode_name, "must be given, is missing"


def _find_unfit(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """The keys of values that are refused everywhere: numbers that are not finite, and control characters."""
    if isinstance(value, float) and not math.isfinite(value):
        yield key, f"must be finite, is {value}"
    elif isinstance(value, str) and (character := unprintable(value)):
        yield key, f"must have no control characters, has {character}"
    elif isinstance(value, dict):
        for name, entry in value.items():
            if character := unprintable(name):
                yield _below(key, name), f"must have no control characters in its name, has {character}"
            yield from _find_unfit(entry, _below(key, name))
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            yield from _find_unfit(entry, _below(key, str(index)))


def _reword(text: str, value: Any, kind: Any, key: str) -> tuple[str, str]:
    """Translate a message of msgspec: the key of the value, or of one below it, and the problem in our words."""
    text, _, path = text.partition(" - at `$")
    if match := re.match(r"Object missing required field `(.+)`", text):  # the tag, of several records
        return _below(key, match[1]), "must be given, is missing"
    if match := re.match(r"([\w.\[\]]+): (.+)", text, re.DOTALL):
        return _below(key, match[1]), match[2]
    with suppress(LookupError, ValueError):  # of a set or the like msgspec does not say which entry is wrong
        for step in re.findall(r"[^.\[\]`]+", path):
            value = value[int(step) if isinstance(value, list) else step]
            key = _below(key, step)
    return key, _reword_value(text, value, kind, key)


def _reword_value(text: str, value: Any, kind: Any, key: str) -> str:
    """Translate a message about a value, and not about which keys there are."""
    if re.match(r"Invalid (?:enum )?value ", text):
        choices = _choices(inspect.type_info(kind))
        word = str(value)[:60]
        alike = [choice for choice in choices if choice[:1].lower() == word[:1].lower()]  # "still" is not "kill"
        return f"must be one of {', '.join(choices)}, is {shown(value)}{nearest(word, alike)}"
    if match := re.match(r"Expected (.+?)(?:, got `.+`)?$", text):
        if match[1] == "`array`" and isinstance(value, dict):
            return f"must be an array, is one table: write [[{key.rpartition('.')[2]}]]"
        return f"must {_reword_type(match[1])}, is {shown(value)}"
    return f"must be a number that fits its type, is {shown(value)}" if text.endswith("out of range") else text


def _reword_type(text: str) -> str:
    """Translate what msgspec calls a type or a bound."""
    if match := re.match(r"`(?:int|float)` ([<>]=? .+)", text):
        return f"be {match[1].removesuffix('.0')}"
    if re.match(r"`(str|array|object)` of length >= 1", text):
        return "not be empty"
    if match := re.match(r"`array` of length >= (\d+)", text):
        return f"have at least {match[1]} entries"
    return "be " + re.sub(r"`([a-z| ]+)`", lambda match: _list_types(match[1]), text)


def _list_types(names: str) -> str:
    return " or ".join(_WORDS.get(name.strip(), name.strip()) for name in names.split("|") if name.strip() != "null")


def _below(key: str, step: str) -> str:
    if step.isdigit():
        return f"{key}[{step}]"
    return f"{key}.{step}" if key else step


def _choices(declared: inspect.Type) -> list[str]:
    if isinstance(declared, inspect.Metadata):
        return _choices(declared.type)
    if isinstance(declared, inspect.LiteralType):
        return [str(value) for value in declared.values]
    if isinstance(declared, inspect.EnumType):
        return [str(value.value) for value in declared.cls]
    if isinstance(declared, inspect.UnionType):
        return [choice for member in declared.types for choice in _choices(member)]
    return [str(declared.tag)] if isinstance(declared, inspect.StructType) and declared.tag is not None else []
