"""Decoding tables into types, with errors a person can act on: `file: key: what must hold, what is`.

Knows how msgspec words its errors and how types are nested; knows nothing of what they mean.
"""

import math
import re
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from elasticd.errors import ConfigError, nearest
from elasticd.words import one_line, raised, shown

T = TypeVar("T")
_NAMES: dict[type, str] = {list: "array", dict: "object"}
_WORDS = {"int": "a whole number", "float": "a number", "str": "a string", "bool": "true or false",
          "array": "an array", "object": "a table"}  # fmt: skip


def convert(table: Any, kind: type[T], file: str, key: str = "") -> T:
    """The table as a record of that type. Raises ConfigError with the key's full path, in one line."""
    try:
        for where, number in _numbers(table, []):
            if not math.isfinite(number):
                raise ConfigError(file, one_line(_join(key, where)), f"must be finite, is {number}")
        return msgspec.convert(table, kind, strict=True)
    except ConfigError:
        raise
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$")
        steps = re.findall(r"\[(\d+|\.\.\.)\]|\.([^.\[\]`]+)", path)
        where, problem = _worded(text, [index or name for index, name in steps], table, kind)
        raise ConfigError(file, one_line(_join(key, where)), one_line(problem)) from None
    except Exception as error:  # a record's own check; only ValueError and TypeError are its way to refuse
        raise ConfigError(file, key, f"must be something its type can check, raised {raised(error)}") from None


def _numbers(value: Any, where: list[str]) -> Iterator[tuple[list[str], float]]:
    """Every floating point number in nested tables, and the way there."""
    if isinstance(value, float):
        yield where, value
    elif isinstance(value, dict):
        for name, entry in value.items():
            yield from _numbers(entry, [*where, name])
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            yield from _numbers(entry, [*where, str(index)])


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
        if found[1] == "`array`" and isinstance(value, dict) and where:
            return where, f"must be an array, is one table: write [[{where[-1]}]]"
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
