"""The measurements of a paper, one after the other: how many are done, and those that were made before.

Knows keys and results; knows nothing of what is measured. A file of results goes on where it was: each is a line with
what it depends on, and one of other code counts for nothing.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec import Struct

from elasticd.base.errors import ConfigError
from elasticd.lab.kept_lines import KeptLines

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

Progress = Callable[[int, int], None]
"""Hears how many of how many measurements are done."""


@cache
def code() -> str:
    """What results depend on beside their keys: a digest of elasticd's code, its plugins' and numpy's version."""
    digest = sha256(np.__version__.encode())
    specs = filter(None, map(find_spec, ("elasticd", "elasticd_plugins")))
    for folder in (Path(place) for spec in specs for place in spec.submodule_search_locations or ()):
        for file in sorted(folder.rglob("*.py")):
            digest.update(file.relative_to(folder).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


class Line(Struct, frozen=True):
    """A result as it stands in the file: of this code, paper and kind of measurement, and with this key."""

    code: str
    paper: str
    kind: str
    key: msgspec.Raw
    result: bytes


class Kept:
    """Results of measurements in a file, or in none."""

    def __init__(self, path: Path | None) -> None:
        """Raises ConfigError for a line that is no result, UnavailableError for a file that cannot be read."""
        self._lines = KeptLines(path)
        self._results: dict[tuple[str, str, bytes], bytes] = {}
        for number, text in enumerate(self._lines.lines, 1):
            try:
                line = msgspec.json.decode(text, type=Line)
            except msgspec.DecodeError as error:
                raise ConfigError(str(path), f"line {number}", f"must be a measurement, is not: {error}") from None
            if line.code == code():
                self._results[line.paper, line.kind, bytes(line.key)] = line.result

    def find(self, paper: str, kind: type[T], key: Hashable) -> T | None:
        """The result with this key; None: there is none of this code."""
        result = self._results.get((paper, kind.__name__, msgspec.json.encode(key)))
        return None if result is None else msgspec.msgpack.decode(result, type=kind, dec_hook=_array)

    def add(self, paper: str, key: Hashable, result: object) -> None:
        """Write a result down."""
        raw = msgspec.Raw(msgspec.json.encode(key))
        body = msgspec.msgpack.encode(result, enc_hook=_plain)
        self._lines.add([msgspec.json.encode(Line(code(), paper, type(result).__name__, raw, body))])


def _plain(value: Any) -> Any:
    return value.tolist()


def _array(_type: Any, value: Any) -> Any:
    return np.array(value)


class Work:
    """The measurements of one paper. `times`: also measure how long things take, which differs from run to run."""

    def __init__(
        self,
        heard: Progress = lambda done, total: None,
        paper: str = "",
        kept: Kept | None = None,
        *,
        times: bool = False,
    ) -> None:
        self._heard, self._paper, self._kept, self._done = heard, paper, kept or Kept(None), 0
        self.times = times

    def each(
        self, keys: Iterable[K], measure: Callable[[K], T], kind: type[T] | None = None, then: int = 0
    ) -> dict[K, T]:
        """The results by key. With a `kind`, those that are in the file are not measured again, and the others are
        written there. `then`: how many more follow later."""
        todo: Sequence[K] = list(keys)
        total, results = self._done + len(todo) + then, dict[K, T]()
        for key in todo:
            found = None if kind is None else self._kept.find(self._paper, kind, key)
            if found is None:
                found = measure(key)
                if kind is not None:
                    self._kept.add(self._paper, key, found)
            results[key] = found
            self._done += 1
            self._heard(self._done, total)
        return results
