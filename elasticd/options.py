"""What can be set, in words: the options of a record type with their kinds, bounds, defaults and units.

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
    `array[].key`."""
    found = inspect.type_info(record)
    return _of(found) if isinstance(found, inspect.StructType) else []


def _of(struct: inspect.StructType, prefix: str = "") -> list[Option]:
    found = []
    for field in struct.fields:
        kind, name = field.type, prefix + field.encode_name
        found.append(Option(name, _kind(kind), _default(field), _described(kind)))
        item = _item(kind)
        nested = _struct_in(kind if item is None else item)
        if nested is not None:
            found += _of(nested, f"{name}." if item is None else f"{name}[].")
    return found


def _item(kind: inspect.Type) -> inspect.Type | None:
    """What an array holds; None for what is no array."""
    kind = _bare(kind)
    return kind.item_type if isinstance(kind, inspect.CollectionType | inspect.VarTupleType) else None


def _bare(kind: inspect.Type) -> inspect.Type:
    return kind.type if isinstance(kind, inspect.Metadata) else kind


def _struct_in(kind: inspect.Type) -> inspect.StructType | None:
    """The one table a field may hold, alone or as `table | None`."""
    kind = _bare(kind)
    members = [_bare(one) for one in kind.types] if isinstance(kind, inspect.UnionType) else [kind]
    structs = [one for one in members if isinstance(one, inspect.StructType)]
    return structs[0] if len(structs) == 1 else None


def _described(kind: inspect.Type) -> str:
    """The description, the field's own or that of what it may be, as in `Seconds | None`."""
    extra = kind.extra_json_schema if isinstance(kind, inspect.Metadata) else None
    members = kind.types if isinstance(kind, inspect.UnionType) else ()
    return str((extra or {}).get("description", "")) or next(filter(None, map(_described, members)), "")


def _kind(kind: inspect.Type) -> str:
    kind = _bare(kind)
    if isinstance(kind, inspect.LiteralType):
        return " | ".join(msgspec.json.encode(value).decode() for value in kind.values)
    if isinstance(kind, inspect.UnionType):
        return " | ".join(_kind(one) for one in kind.types if not isinstance(_bare(one), inspect.NoneType))
    if isinstance(kind, inspect.StructType):
        return f'table of type "{kind.tag}"' if kind.tag else "table"
    if isinstance(kind, inspect.CollectionType | inspect.VarTupleType):
        return f"array of {_kind(kind.item_type)}"
    return _KINDS.get(type(kind), "") + _bounds(kind)


def _bounds(kind: inspect.Type) -> str:
    words = (("gt", ">"), ("ge", ">="), ("lt", "<"), ("le", "<="))
    found = [f"{sign} {getattr(kind, key):g}" for key, sign in words if getattr(kind, key, None) is not None]
    return f" {', '.join(found)}" if found else ""


def _default(field: inspect.Field) -> str:
    if field.required:
        return "required"
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    if value is None:
        return "unset"
    return msgspec.json.encode(msgspec.to_builtins(value)).decode()
