"""Damage to JSON: what stands somewhere in an item of a list is replaced by something else, or left out."""

import copy
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import Struct

HOLE = "the hole"

NO_JSON = (b"[" * 100_000, b'{"a":' * 100_000, b'"\\ud800"')
"""What no decoder can pass over: nested too deeply, or half a character."""

JUNK: dict[bytes, float | None] = {
    b"null": None,
    b"true": None,
    b"[]": None,
    b"{}": None,
    **dict.fromkeys(NO_JSON),
    b"-1": -1.0,
    b"7": 7.0,
    b"0.5": 0.5,
    b"9" * 400: None,
    b"1e400": None,
    b'""': None,
    b'"7"': 7.0,
    b'" 7"': None,
    b'"7\\n"': None,
    b'"1_000"': None,
    b'"0x10"': None,
    b'"\\u0667"': None,
    b'"1e999"': None,
    b'"NaN"': None,
    b'"infinity"': None,
    b'"\\u0000"': None,
    b'"0001-01-01T00:00:00"': None,
    b'"0001-01-01T00:00:00Z"': None,
    b'"9999-12-31T23:59:59-23:59"': None,
}
"""What replaces a part, and the number that it may rightly be taken for; None: none."""


class Damage(Struct, frozen=True):
    """A damaged document: the index of the item, the path in it, and what stands there now (None: nothing)."""

    body: bytes
    item: int
    path: tuple[str | int, ...]
    junk: bytes | None


def _paths(value: Any) -> list[tuple[str | int, ...]]:
    """The paths to all parts of a value, but for the whole."""
    keyed = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path for key, part in keyed for path in ((key,), *((key, *below) for below in _paths(part)))]


def put(document: Any, path: tuple[str | int, ...], junk: bytes) -> bytes:
    """The document with something else at a path."""
    document = part = copy.deepcopy(document)
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = HOLE
    return msgspec.json.encode(document).replace(f'"{HOLE}"'.encode(), junk)


@st.composite
def damaged(draw: st.DrawFn, document: Any, *where: str) -> Damage:
    """The document, of which `where` leads to its items, with one part of one item replaced or left out."""
    items = document = copy.deepcopy(document)
    for key in where:
        items = items[key]
    item = draw(st.integers(0, len(items) - 1))
    path = draw(st.sampled_from(_paths(items[item])))
    junk = draw(st.none() | st.sampled_from([*JUNK]))
    if junk is not None:
        return Damage(put(document, (*where, item, *path), junk), item, path, junk)
    parent = items[item]
    *parents, last = path
    for part in parents:
        parent = parent[part]
    del parent[last]
    return Damage(msgspec.json.encode(document), item, path, None)


def torn(body: bytes) -> st.SearchStrategy[bytes]:
    """The same bytes, cut anywhere, or with some of them replaced."""
    cuts = st.integers(0, len(body)).map(lambda end: body[:end])
    places = st.lists(st.tuples(st.integers(0, len(body) - 1), st.integers(0, 255)), min_size=1, max_size=4)
    return cuts | places.map(lambda changes: _replaced(body, changes))


def _replaced(body: bytes, changes: list[tuple[int, int]]) -> bytes:
    changed = bytearray(body)
    for place, byte in changes:
        changed[place] = byte
    return bytes(changed)
