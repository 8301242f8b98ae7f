"""Decoding tables into types, with errors a person can act on: `file: key: what must hold, what is`.

Knows how msgspec words its errors and how types are nested; knows nothing of what they mean.
"""

import math
import re
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Struct, inspect

from elasticd.base.errors import ConfigError, Mistakes, nearest
from elasticd.base.text import one_line, raised, shown, unprintable

T = TypeVar("T")
_LONE = "must be an array, is one table"
_NAMES: dict[type, str] = {list: "array", dict: "object"}
_WORDS = {"int": "a whole number", "float": "a number", "str": "a string", "bool": "true or false",
          "array": "an array", "object": "a table"}  # fmt: skip


def convert(table: Any, kind: type[T], file: str, key: str = "") -> T:
    """Decode a table as a record of this type. Raises ConfigError for all that is wrong with it: a line for each
    mistake, with the key's full path."""
    try:
        decoded: T = _convert_first(table, kind, file, key)
        return decoded
    except ConfigError as error:
        mistakes = Mistakes()
        mistakes.add(_mistakes(table, kind, file, key) or [error])
        mistakes.raised()
        raise


def _convert_first(table: Any, kind: Any, file: str, key: str) -> Any:
    """Convert a table; raises ConfigError for the first thing that is wrong."""
    try:
        for where, problem in _find_unfit(table, []):
            raise ConfigError(file, one_line(_join(key, where)), problem)
        return msgspec.convert(table, kind, strict=True)
    except ConfigError:
        raise
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$")
        steps = re.findall(r"\[(\d+|\.\.\.)\]|\.([^.\[\]`]+)", path)
        where, problem = _reword(text, [index or name for index, name in steps], table, kind)
        if problem == _LONE:
            problem += f": write [[{_join(key, where).rpartition('.')[2]}]]"
        raise ConfigError(file, one_line(_join(key, where)), one_line(problem)) from None
    except Exception as error:  # a record's own check; only ValueError and TypeError are its way to refuse
        raise ConfigError(file, key, f"must be something its type can check, raised {raised(error)}") from None


class _Part(NamedTuple):
    """An entry of a table or an array, and the type that is declared for it."""

    step: str
    value: Any
    kind: Any


def _mistakes(value: Any, kind: Any, file: str, key: str) -> list[ConfigError]:
    """All mistakes of the entries, and of which keys there are; those of the whole only where there are no others."""
    errors = [
        error
        for part in _parts(value, kind)
        for error in _mistakes(part.value, part.kind, file, _join(key, [part.step]))
    ]
    struct = _struct_of(value, kind)
    if struct is not None:
        errors += [ConfigError(file, one_line(_join(key, [name])), why) for name, why in _wrong_keys(value, struct)]
    if not errors:
        try:
            _convert_first(value, kind, file, key)
        except ConfigError as error:
            return [error]
    return errors


def _parts(value: Any, kind: Any) -> Iterator[_Part]:
    """The entries of a table or an array."""
    struct = _struct_of(value, kind)
    if struct is not None:
        fields = {field.encode_name: field.type for field in msgspec.structs.fields(struct)}
        yield from (_Part(name, entry, fields[name]) for name, entry in value.items() if name in fields)
        return
    for member in _members(kind):
        arguments = get_args(member)
        if isinstance(value, list) and get_origin(member) in (list, tuple):
            yield from (_Part(str(index), entry, arguments[0]) for index, entry in enumerate(value))
        if isinstance(value, dict) and get_origin(member) is dict:
            yield from (_Part(name, entry, arguments[1]) for name, entry in value.items())


def _members(kind: Any) -> Iterator[Any]:
    """The types that a value may have, without their annotations."""
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


def _find_unfit(value: Any, where: list[str]) -> Iterator[tuple[list[str], str]]:
    """Values that are refused everywhere, each with the way there: numbers that are not finite, and control
    characters."""
    if isinstance(value, float) and not math.isfinite(value):
        yield where, f"must be finite, is {value}"
    elif isinstance(value, str) and (character := unprintable(value)):
        yield where, f"must have no control characters, has {character}"
    elif isinstance(value, dict):
        for name, entry in value.items():
            if character := unprintable(name):
                yield [*where, name], f"must have no control characters in its name, has {character}"
            yield from _find_unfit(entry, [*where, name])
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            yield from _find_unfit(entry, [*where, str(index)])


def _reword(text: str, where: list[str], table: Any, kind: Any) -> tuple[list[str], str]:
    """Translate a message of msgspec: the path and the problem in our words."""
    if match := re.match(r"Object contains unknown field `(.+)`", text, re.DOTALL):
        names = _fields(_type_at(kind, where, table))
        return [*where, match[1]], f"no such key{nearest(match[1], names)}"
    if match := re.match(r"Object missing required field `(.+)`", text):
        return [*where, match[1]], "must be given, is missing"
    if match := re.match(r"([\w.\[\]]+): (.+)", text, re.DOTALL):
        return [*where, match[1]], match[2]
    return _reword_value(text, where, table, kind)


def _reword_value(text: str, where: list[str], table: Any, kind: Any) -> tuple[list[str], str]:
    """Translate a message about a value, and not about which keys there are."""
    value = _value_at(table, where)
    if re.match(r"Invalid (?:enum )?value ", text):
        choices = _choices(_type_at(kind, where, table))
        listed = ", ".join(choices) or "a known one"
        return where, f"must be one of {listed}, is {shown(value)}{nearest(str(value)[:60], choices)}"
    if match := re.match(r"Expected (.+?)(?:, got `(.+)`)?$", text):
        where, value = next(_culprits(table, where, match[2]), (where, value))
        if match[1] == "`array`" and isinstance(value, dict):
            return where, _LONE
        return where, f"must {_reword_type(match[1])}, is {shown(value)}"
    return where, f"must be a number that fits its type, is {shown(value)}" if text.endswith("out of range") else text


def _culprits(value: Any, where: list[str], got: str | None) -> Iterator[tuple[list[str], Any]]:
    """The values of that type to which a path may lead, and their own paths: msgspec does not say which entry of a
    table is wrong, and writes `...` for it."""
    if not where:
        if _NAMES.get(type(value), type(value).__name__) == got:
            yield [], value
        return
    step, *remaining = where
    if isinstance(value, list) and step.isdigit() and int(step) < len(value):
        entries = [(step, value[int(step)])]
    elif isinstance(value, dict):
        entries = [(name, entry) for name, entry in value.items() if step in ("...", name)]
    else:
        entries = []
    for name, entry in entries:
        yield from (([name, *way], culprit) for way, culprit in _culprits(entry, remaining, got))


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


def _join(key: str, where: list[str]) -> str:
    path = key
    for step in where:
        if step.isdigit():
            path += f"[{step}]"
        elif step != "...":
            path += f".{step}" if path else step
    return path


def _value_at(table: Any, where: list[str]) -> Any:
    for step in where:
        if isinstance(table, list) and step.isdigit():
            table = table[int(step)]
        elif isinstance(table, dict) and step in table:
            table = table[step]
        else:
            break
    return table


def _type_at(kind: Any, where: list[str], table: Any) -> inspect.Type:
    """The declared type that a path leads to."""
    declared: inspect.Type = inspect.type_info(kind)
    for step in where:
        declared = _choose_struct(_bare(declared), table)
        if isinstance(declared, inspect.StructType):
            declared = next((f.type for f in declared.fields if f.encode_name == step), declared)
            table = table.get(step) if isinstance(table, dict) else None
        elif isinstance(declared, inspect.ListType | inspect.VarTupleType | inspect.CollectionType):
            declared = declared.item_type
            table = table[int(step)] if isinstance(table, list) and step.isdigit() else None
    return _choose_struct(_bare(declared), table)


def _bare(declared: inspect.Type) -> inspect.Type:
    return declared.type if isinstance(declared, inspect.Metadata) else declared


def _choose_struct(declared: inspect.Type, table: Any) -> inspect.Type:
    """Of a union, the tagged record that the table's tag names."""
    if isinstance(declared, inspect.UnionType) and isinstance(table, dict):
        structs = [_bare(struct) for struct in declared.types if isinstance(_bare(struct), inspect.StructType)]
        for struct in structs:
            if isinstance(struct, inspect.StructType) and table.get(struct.tag_field or "") == struct.tag:
                return struct
        if len(structs) == 1:
            return structs[0]
    return declared


def _fields(declared: inspect.Type) -> list[str]:
    return [f.encode_name for f in declared.fields] if isinstance(declared, inspect.StructType) else []


def _choices(declared: inspect.Type) -> list[str]:
    if isinstance(declared, inspect.LiteralType):
        return [str(value) for value in declared.values]
    if isinstance(declared, inspect.EnumType):
        return [str(value.value) for value in declared.cls]
    if isinstance(declared, inspect.UnionType):
        return [choice for member in declared.types for choice in _choices(_bare(member))]
    if isinstance(declared, inspect.StructType) and declared.tag is not None:
        return [str(declared.tag)]
    return []
