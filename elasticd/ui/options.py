"""Describes the options of a record type: their kinds, bounds, defaults and units.

Knows how msgspec describes types; knows nothing of what an option does.
"""

from typing import Any

import msgspec
from msgspec import Struct, inspect

_KINDS = {
    inspect.IntType: "integer", inspect.FloatType: "number", inspect.StrType: "string", inspect.BoolType: "boolean",
    inspect.DictType: "table", inspect.AnyType: "anything",
}  # fmt: skip


class Option(Struct, frozen=True):
    """One key of a table in TOML."""

    name: str
    kind: str
    default: str
    description: str = ""


def options(record: type[Any]) -> list[Option]:
    """The keys a record type takes, in order; those of nested tables as `table.key`, of tables in arrays as
    `array[].key`, and of a table of one of several types as `array[TYPE].key`."""
    info = inspect.type_info(record)
    return _options_of(info) if isinstance(info, inspect.StructType) else []


def _options_of(struct: inspect.StructType, prefix: str = "") -> list[Option]:
    keys = []
    for field in struct.fields:
        kind, name = field.type, prefix + field.encode_name
        keys.append(Option(name, _kind(kind), _default(field), _description(kind)))
        item = _item(kind)
        nested = _structs_in(kind if item is None else item)
        for inner in nested:
            which = str(inner.tag) if len(nested) > 1 else ""
            keys += _options_of(inner, f"{name}." if item is None and not which else f"{name}[{which}].")
    return keys


def summary(record: type[Any]) -> str:
    """The first sentence of what a record type says of itself."""
    paragraph = " ".join((record.__doc__ or "").strip().partition("\n\n")[0].split())
    sentence, dot, _ = paragraph.partition(". ")
    return sentence + dot.strip()


def _item(kind: inspect.Type) -> inspect.Type | None:
    kind = _bare(kind)
    return kind.item_type if isinstance(kind, inspect.CollectionType | inspect.VarTupleType) else None


def _bare(kind: inspect.Type) -> inspect.Type:
    return kind.type if isinstance(kind, inspect.Metadata) else kind


def _structs_in(kind: inspect.Type) -> list[inspect.StructType]:
    """The tables a field may hold, alone, as `table | None` or as one of several types."""
    kind = _bare(kind)
    members = [_bare(member) for member in kind.types] if isinstance(kind, inspect.UnionType) else [kind]
    return [member for member in members if isinstance(member, inspect.StructType)]


def _description(kind: inspect.Type) -> str:
    """The description: the field's own, that of what it may be, as in `Seconds | None`, or a table's first sentence."""
    extra = kind.extra_json_schema if isinstance(kind, inspect.Metadata) else None
    bare = _bare(kind)
    members = bare.types if isinstance(bare, inspect.UnionType) else ()
    structs = _structs_in(_item(kind) or kind)
    own = str((extra or {}).get("description", "")) or next(
        filter(None, (_description(member) for member in members if _bare(member) not in structs)), ""
    )
    return own or (summary(structs[0].cls).removesuffix(".") if len(structs) == 1 else "")


def _kind(kind: inspect.Type) -> str:
    kind = _bare(kind)
    if isinstance(kind, inspect.LiteralType):
        return " | ".join(msgspec.json.encode(value).decode() for value in kind.values)
    if isinstance(kind, inspect.UnionType):
        tags = [f'"{struct.tag}"' for struct in _structs_in(kind) if struct.tag]
        if len(tags) > 1:
            return f"table of type {' | '.join(tags)}"
        kinds = [_kind(member) for member in kind.types if not isinstance(_bare(member), inspect.NoneType)]
        return " | ".join(text for text in kinds if text != "integer" or "number" not in kinds)  # which is one
    if isinstance(kind, inspect.StructType):
        return f'table of type "{kind.tag}"' if kind.tag else "table"
    if isinstance(kind, inspect.CollectionType | inspect.VarTupleType):
        return f"array of {_kind(kind.item_type)}"
    return _KINDS.get(type(kind), "") + _bounds(kind)


def _bounds(kind: inspect.Type) -> str:
    words = (("gt", ">"), ("ge", ">="), ("lt", "<"), ("le", "<="))
    bounds = [(sign, getattr(kind, key, None)) for key, sign in words]
    texts = [
        f"{sign} {bound:g}" if abs(bound) < 1e6 else f"{sign} {bound:.0f}"
        for sign, bound in bounds
        if bound is not None
    ]
    return f" {', '.join(texts)}" if texts else ""


def _default(field: inspect.Field) -> str:
    if field.required:
        return "required"
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    if value is None:
        return "unset"
    return msgspec.json.encode(_without_nulls(msgspec.to_builtins(value))).decode()


def _without_nulls(value: Any) -> Any:
    """The value without its None entries: TOML has no null."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list | tuple) else value
