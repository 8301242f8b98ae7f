"""The JSON of pages, and of commands with --json: docs/json.md.

Times are RFC 3339 in UTC, records have named fields. Pure. Knows records as msgspec does; knows none by name but their
fields that are times.
"""

import enum
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from functools import cache

import msgspec
from msgspec import Struct

RECORDS = "application/vnd.elasticd.records+json"
"""The media type under which a client gets records as the journal has them: elasticd's own commands, which decode
them."""

TIMES = frozenset(
    {"at", "confirmed", "due", "expires", "first", "fitted", "looked", "measured", "received", "since", "until"}
)
"""The fields that are times, in seconds since the epoch, where they are floats. 0 is no time: it is told as null."""

_LATEST = 253402300799.0
"""The last second of the year 9999, which has no successor in RFC 3339."""


def encode(value: object) -> bytes:
    """Encode a value as JSON, as `shaped` has it."""
    return msgspec.json.encode(shaped(value))


def shaped(value: object) -> object:
    """Convert a value to what JSON has: records, and collections of them."""
    if isinstance(value, Struct):
        return _shape_record(value)
    if isinstance(value, Mapping):
        # A source may describe itself in a table of its own, whose times have the same names.
        return {str(key): _shape_field(str(key), entry) for key, entry in value.items()}
    if isinstance(value, Collection) and not isinstance(value, str | bytes):
        return [shaped(entry) for entry in value]
    return value.value if isinstance(value, enum.Enum) else value


def moment(at: float) -> str | None:
    """A time in seconds since the epoch: RFC 3339, in UTC, to the millisecond; None for 0, and what is no time."""
    if not 0.0 < at <= _LATEST:
        return None
    return f"{datetime.fromtimestamp(at, UTC).isoformat(timespec='milliseconds').removesuffix('+00:00')}Z"


def _shape_record(record: Struct) -> dict[str, object]:
    config, kind = record.__struct_config__, type(record)
    members: dict[str, object] = {} if config.tag is None else {config.tag_field or "type": config.tag}
    usual = _defaults_of(kind) if config.omit_defaults else {}
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if value is not msgspec.UNSET and (name not in usual or usual[name] != value):
            members[name] = _shape_field(name, value)
    return members


def _shape_field(name: str, value: object) -> object:
    return moment(value) if name in TIMES and isinstance(value, float) else shaped(value)


@cache
def _defaults_of(kind: type[Struct]) -> dict[str, object]:
    return {
        field.name: field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
        for field in msgspec.structs.fields(kind)
        if not field.required
    }
