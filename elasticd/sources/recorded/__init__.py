"""Reads a recording from a file into memory: samples by subject, to be looked up by time.

Knows which subjects have which rows; knows nothing of how files are written, of clocks, or of who asks.
"""

import math
import sys
from array import array
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from elasticd.base.errors import ConfigError
from elasticd.sources.recorded.files import read_csv, read_json_lines
from elasticd.sources.recorded.parquet import read_parquet
from elasticd.sources.recorded.rows import PARQUET, Row, check_place, wrong

FORMATS: Mapping[str, Callable[[Path], Iterator[Row]]] = {
    ".csv": read_csv,
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
    PARQUET: read_parquet,
}
"""How a file is read, by its ending."""

MOST = 5_000_000
"""Samples of one file that are held, at 16 bytes each, 24 with windows."""

Tracks = Mapping[str, Mapping[str, tuple["Track", ...]]]
"""By series, then by key; one for each container of a pod, or one."""


class Track:
    """The samples of one subject, by time, in arrays: a million rows take 16 MB, not 200."""

    def __init__(self, name: str = "", container: str = "") -> None:
        self.name, self.container = name, container
        self.times, self.values = array("d"), array("d")
        self._windows = array("d")  # empty as long as all are 0
        self._sorted = True

    def add(self, time: float, value: float, window: float) -> None:
        """Add a row; rows may come in any order."""
        if self.times and time < self.times[-1]:
            self._sorted = False
        if window and not self._windows:
            self._windows = array("d", bytes(8 * len(self.times)))
        self.times.append(time)
        self.values.append(value)
        if window or self._windows:
            self._windows.append(window)

    def sort(self) -> None:
        """Sort the rows by time. Of rows of the same time the last in the file comes last, and `latest` finds it."""
        if not self._sorted:
            order = sorted(range(len(self.times)), key=self.times.__getitem__)
            for name in ("times", "values", "_windows"):
                column = getattr(self, name)
                setattr(self, name, array("d", [column[index] for index in order] if column else []))
            self._sorted = True

    def latest(self, time: float) -> int:
        """The index of the newest row at or before a time; -1 if there is none."""
        return bisect_right(self.times, time) - 1

    def window(self, index: int) -> float:
        """The seconds that a row was averaged over."""
        return self._windows[index] if self._windows else 0.0


class Recording:
    """All tracks of a file, or those of some series. `first` and `last` are the times of its oldest and its newest row,
    of whatever series: what is taken from one file keeps its time."""

    def __init__(self, pods: Tracks, workloads: Tracks, nodes: Tracks, first: float, last: float) -> None:
        self.pods, self.workloads, self.nodes = pods, workloads, nodes
        self.first, self.last = first, last


def load(
    path: Path, *, series: Collection[str] = (), most: int = MOST, rename: Mapping[str, str] | None = None
) -> Recording:
    """The rows of a file, or those of some series. Raises ConfigError naming the line and what is wrong with it.

    `rename` gives keys, or the namespaces of pods and workloads, other names.
    """
    reel = _Reel(path, frozenset(series), rename or {})
    remaining = most
    for row in FORMATS[path.suffix.lower()](path):
        remaining -= reel.put(row)
        if remaining < 0:
            raise ConfigError(str(path), "", f"must have at most {most} samples (max_samples), has more")
    return reel.recording()


class _Reel:
    """Builds the tracks of a recording, row by row."""

    def __init__(self, path: Path, series: frozenset[str], rename: Mapping[str, str]) -> None:
        self._path, self._series, self._rename = path, series, rename
        self._tracks: dict[tuple[str, str, str, str], Track | None] = {}
        self._original_keys: dict[tuple[str, str, str, str], str] = {}
        self._first, self._last = math.inf, -math.inf

    def put(self, row: Row) -> int:
        """Add a row. Returns the number of rows that were kept: 0 or 1."""
        line, time, series, subject, key, value, window, container = row
        self._first = min(self._first, time)
        self._last = max(self._last, time)
        place = series, subject, key, container
        try:
            track = self._tracks[place]
        except KeyError:
            track = self._tracks[place] = self._new_track(line, place)
        if track is None:
            return 0
        track.add(time, value, window)
        return 1

    def _new_track(self, line: int, place: tuple[str, str, str, str]) -> Track | None:
        """A track for a new subject; None if its series was not asked for."""
        series, subject, key, container = map(sys.intern, place)
        where = self._path, line
        check_place(where, series, subject, key)
        if self._series and series not in self._series:
            return None
        name = self._new_key(subject, key)
        first = self._original_keys.setdefault((series, subject, name, container), key)
        if first != key:
            raise wrong(where, f'key: must not become "{name}" by rename, as "{first}" does, is "{key}"')
        return Track(name, container)

    def _new_key(self, subject: str, key: str) -> str:
        if key in self._rename or subject == "node":
            return self._rename.get(key, key)
        namespace, _, name = key.partition("/")
        return f"{self._rename.get(namespace, namespace)}/{name}"

    def recording(self) -> Recording:
        """The whole recording, sorted by time. Raises ConfigError if it is empty."""
        tracks: dict[str, dict[str, dict[str, tuple[Track, ...]]]] = {"pod": {}, "workload": {}, "node": {}}
        for (series, subject, _, _), track in self._tracks.items():
            if track is not None:
                track.sort()
                keys = tracks[subject].setdefault(series, {})
                keys[track.name] = (*keys.get(track.name, ()), track)
        if not any(tracks.values()):
            of = f" of the series {', '.join(sorted(self._series))}" if self._series else ""
            raise ConfigError(str(self._path), "", f"must have a sample{of}, has none")
        return Recording(tracks["pod"], tracks["workload"], tracks["node"], self._first, self._last)
