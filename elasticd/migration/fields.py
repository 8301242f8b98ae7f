"""Reads the fields of a manifest, each once, so that those of which nothing was made can be named.

Knows types as the API has them; knows nothing of what a field means.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from elasticd.base.errors import ConfigError
from elasticd.base.text import shown


class Fields:
    """A table of a manifest. Whatever is not taken from it, or from the tables in it, is in `rest`. Raises ConfigError
    for a value of another type than the API allows."""

    def __init__(self, table: Any, file: str, path: str = "") -> None:
        self.file, self.path = file, path
        if not isinstance(table, dict):
            raise self.wrong("", f"must be a table, is {shown(table)}")
        self._table: Mapping[str, Any] = table
        self._taken: set[str] = set()
        self._below: list[Fields] = []

    def wrong(self, key: str, problem: str) -> ConfigError:
        """The error for a key of this table."""
        return ConfigError(self.file, self.where(key), problem)

    def where(self, key: str) -> str:
        """The path of a key from the head of the manifest."""
        return ".".join(part for part in (self.path, key) if part)

    def has(self, key: str) -> bool:
        """Whether the key is given, and not null."""
        return self._table.get(key) is not None

    def any(self, key: str) -> Any:
        """A value of any type; None: not given."""
        self._taken.add(key)
        return self._table.get(key)

    def text(self, key: str, default: str | None = None) -> str:
        """A string. Without a default it must be given."""
        value = self.any(key)
        if value is None:
            if default is None:
                raise self.wrong(key, "must be given, is missing")
            return default
        if not isinstance(value, str):
            raise self.wrong(key, f"must be text, is {shown(value)}")
        return value

    def scalar(self, key: str, default: str = "") -> str:
        """Text, also of a number or a flag, which YAML makes of text without quotes."""
        value = self.any(key)
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, str | int | float):
            return str(value)
        if value is not None:
            raise self.wrong(key, f"must be text, is {shown(value)}")
        return default

    def whole(self, key: str, default: int) -> int:
        """A whole number."""
        value = self.any(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong(key, f"must be a whole number, is {shown(value)}")
        return value

    def flag(self, key: str, *, default: bool) -> bool:
        """True or false."""
        value = self.any(key)
        if value is not None and not isinstance(value, bool):
            raise self.wrong(key, f"must be true or false, is {shown(value)}")
        return default if value is None else value

    def table(self, key: str) -> "Fields":
        """A table; an empty one where it is not given."""
        below = Fields(self.any(key) or {}, self.file, self.where(key))
        self._below.append(below)
        return below

    def tables(self, key: str) -> list["Fields"]:
        """A list of tables."""
        entries = self.any(key) or []
        if not isinstance(entries, list):
            raise self.wrong(key, f"must be a list, is {shown(entries)}")
        below = [Fields(entry, self.file, f"{self.where(key)}[{index}]") for index, entry in enumerate(entries)]
        self._below += below
        return below

    def ignore(self, *keys: str) -> None:
        """Take keys that mean nothing to a decision."""
        self._taken.update(keys)

    def given(self) -> Iterator[str]:
        """The keys that are given."""
        return (key for key in self._table if self.has(key))

    def rest(self) -> Iterator[str]:
        """The paths of all values that nobody took."""
        yield from (self.where(key) for key in self.given() if key not in self._taken)
        for below in self._below:
            yield from below.rest()
