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
    """The table as a record of that type. Raises ConfigError for all that is wrong with it: a line for each mistake,
    with the key's full path."""
    try:
        decoded: T = _converted(table, kind, file, key)
        return decoded
    except ConfigError as error:
        found = Mistakes()
        found.add(_mistakes(table, kind, file, key) or [error])
        found.raised()
        raise


def _converted(table: Any, kind: Any, file: str, key: str) -> Any:
    """The same; raises ConfigError for the first thing that is wrong."""
    try:
        for where, problem in _unfit(table, []):
            raise ConfigError(file, one_line(_join(key, where)), problem)
        return msgspec.convert(table, kind, strict=True)
    except ConfigError:
        raise
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$")
        steps = re.findall(r"\[(\d+|\.\.\.)\]|\.([^.\[\]`]+)", path)
        where, problem = _worded(text, [index or name for index, name in steps], table, kind)
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
    """What is wrong with each entry, with the keys that there are and are not, and only where all of them are right
    with the whole."""
    found = [
        error
        for part in _parts(value, kind)
        for error in _mistakes(part.value, part.kind, file, _join(key, [part.step]))
    ]
    struct = _struct_of(value, kind)
    if struct is not None:
        found += [ConfigError(file, one_line(_join(key, [name])), why) for name, why in _wrong_keys(value, struct)]
    if not found:
        try:
            _converted(value, kind, file, key)
        except ConfigError as error:
            return [error]
    return found


def _parts(value: Any, kind: Any) -> Iterator[_Part]:
    """The entries of a table or an array."""
    struct = _struct_of(value, kind)
    if struct is not None:
        fields = {field.encode_name: field.type for field in msgspec.structs.fields(struct)}
        yield from (_Part(name, entry, fields[name]) for name, entry in value.items() if name in fields)
        return
    for member in _members(kind):
        given = get_args(member)
        if isinstance(value, list) and get_origin(member) in (list, tuple):
            yield from (_Part(str(index), entry, given[0]) for index, entry in enumerate(value))
        if isinstance(value, dict) and get_origin(member) is dict:
            yield from (_Part(name, entry, given[1]) for name, entry in value.items())


def _members(kind: Any) -> Iterator[Any]:
    """The types that a value may have, without what is said of them."""
    if get_origin(kind) is Annotated:
        yield from _members(get_args(kind)[0])
    elif get_origin(kind) in (Union, UnionType):
        for one in get_args(kind):
            yield from _members(one)
    else:
        yield kind


def _struct_of(value: Any, kind: Any) -> type[Struct] | None:
    """The record that a table is written for: of several the one that its tag names."""
    if not isinstance(value, dict):
        return None
    structs = [one for one in _members(kind) if isinstance(one, type) and issubclass(one, Struct)]
    for one in structs:
        config = one.__struct_config__
        if config.tag_field is None or value.get(config.tag_field) == config.tag:
            return one
    return None


def _wrong_keys(table: Mapping[str, Any], struct: type[Struct]) -> Iterator[tuple[str, str]]:
    """The keys that a record has not, and those that must be given and are not; why. One that is misspelt is not
    missing as well."""
    fields, config = msgspec.structs.fields(struct), struct.__struct_config__
    known, meant = [one.encode_name for one in fields], ""
    for name in table:
        if config.forbid_unknown_fields and name not in known and name != config.tag_field:
            guess = nearest(name[:60], known)
            meant += guess
            yield name, f"no such key{guess}"
    for one in fields:
        if one.required and one.encode_name not in table and f'"{one.encode_name}"' not in meant:
            yield one.encode_name, "must be given, is missing"


def _unfit(value: Any, where: list[str]) -> Iterator[tuple[list[str], str]]:
    """What no value may be, wherever in nested tables it stands, and the way there."""
    if isinstance(value, float) and not math.isfinite(value):
        yield where, f"must be finite, is {value}"
    elif isinstance(value, str) and (found := unprintable(value)):
        yield where, f"must have no control characters, has {found}"
    elif isinstance(value, dict):
        for name, entry in value.items():
            if found := unprintable(name):
                yield [*where, name], f"must have no control characters in its name, has {found}"
            yield from _unfit(entry, [*where, name])
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            yield from _unfit(entry, [*where, str(index)])


def _worded(text: str, where: list[str], table: Any, kind: Any) -> tuple[list[str], str]:
    """The path and the problem in our words."""
    if found := re.match(r"Object contains unknown field `(.+)`", text, re.DOTALL):
        known = _fields(_type_at(kind, where, table))
        return [*where, found[1]], f"no such key{nearest(found[1], known)}"
    if found := re.match(r"Object missing required field `(.+)`", text):
        return [*where, found[1]], "must be given, is missing"
    if found := re.match(r"([\w.\[\]]+): (.+)", text, re.DOTALL):
        return [*where, found[1]], found[2]
    return _of_value(text, where, table, kind)


def _of_value(text: str, where: list[str], table: Any, kind: Any) -> tuple[list[str], str]:
    """The path and the problem where a value is wrong, and not which keys there are."""
    value = _value_at(table, where)
    if re.match(r"Invalid (?:enum )?value ", text):
        choices = _choices(_type_at(kind, where, table))
        listed = ", ".join(choices) or "a known one"
        return where, f"must be one of {listed}, is {shown(value)}{nearest(str(value)[:60], choices)}"
    if found := re.match(r"Expected (.+?)(?:, got `(.+)`)?$", text):
        where, value = next(_culprits(table, where, found[2]), (where, value))
        if found[1] == "`array`" and isinstance(value, dict):
            return where, _LONE
        return where, f"must {_expected(found[1])}, is {shown(value)}"
    return where, f"must be a number that fits its type, is {shown(value)}" if text.endswith("out of range") else text


def _culprits(value: Any, where: list[str], got: str | None) -> Iterator[tuple[list[str], Any]]:
    """The values of that type to which a path may lead, and their own paths: msgspec does not say which entry of a
    table is wrong, and writes `...` for it."""
    if not where:
        if _NAMES.get(type(value), type(value).__name__) == got:
            yield [], value
        return
    step, *rest = where
    if isinstance(value, list) and step.isdigit() and int(step) < len(value):
        entries = [(step, value[int(step)])]
    elif isinstance(value, dict):
        entries = [(name, entry) for name, entry in value.items() if step in ("...", name)]
    else:
        entries = []
    for name, entry in entries:
        yield from (([name, *way], found) for way, found in _culprits(entry, rest, got))


def _expected(text: str) -> str:
    """msgspec's words for a type or a bound, in ours."""
    if found := re.match(r"`(?:int|float)` ([<>]=? .+)", text):
        return f"be {found[1].removesuffix('.0')}"
    if re.match(r"`(str|array|object)` of length >= 1", text):
        return "not be empty"
    if found := re.match(r"`array` of length >= (\d+)", text):
        return f"have at least {found[1]} entries"
    return "be " + re.sub(r"`([a-z| ]+)`", lambda found: _listed(found[1]), text)


def _listed(names: str) -> str:
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
    found: inspect.Type = inspect.type_info(kind)
    for step in where:
        found = _chosen(_bare(found), table)
        if isinstance(found, inspect.StructType):
            found = next((f.type for f in found.fields if f.encode_name == step), found)
            table = table.get(step) if isinstance(table, dict) else None
        elif isinstance(found, inspect.ListType | inspect.VarTupleType | inspect.CollectionType):
            found = found.item_type
            table = table[int(step)] if isinstance(table, list) and step.isdigit() else None
    return _chosen(_bare(found), table)


def _bare(found: inspect.Type) -> inspect.Type:
    return found.type if isinstance(found, inspect.Metadata) else found


def _chosen(found: inspect.Type, table: Any) -> inspect.Type:
    """Of a union, the tagged record that the table's tag names."""
    if isinstance(found, inspect.UnionType) and isinstance(table, dict):
        structs = [_bare(one) for one in found.types if isinstance(_bare(one), inspect.StructType)]
        for one in structs:
            if isinstance(one, inspect.StructType) and table.get(one.tag_field or "") == one.tag:
                return one
        if len(structs) == 1:
            return structs[0]
    return found


def _fields(found: inspect.Type) -> list[str]:
    return [f.encode_name for f in found.fields] if isinstance(found, inspect.StructType) else []


def _choices(found: inspect.Type) -> list[str]:
    if isinstance(found, inspect.LiteralType):
        return [str(value) for value in found.values]
    if isinstance(found, inspect.EnumType):
        return [str(value.value) for value in found.cls]
    if isinstance(found, inspect.UnionType):
        return [choice for one in found.types for choice in _choices(_bare(one))]
    if isinstance(found, inspect.StructType) and found.tag is not None:
        return [str(found.tag)]
    return []
