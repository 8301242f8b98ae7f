"""Reads a recording from a file into memory: samples by subject, to be looked up by time.

Knows which subjects have which rows; knows nothing of how files are written, of clocks, or of who asks.
"""

import math
import sys
from array import array
from bisect import bisect_right
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from elasticd.base.errors import ConfigError
from elasticd.sources.recorded.files import FORMATS, Where, check_place, wrong

MOST = 5_000_000
"""Samples of one file that are held, at 16 bytes each, 24 with windows."""

Tracks = Mapping[str, Mapping[str, tuple["Track", ...]]]
"""By series, then by key; one for each container of a pod, or one."""

Place = tuple[str, str, str, str]
"""Series, subject, key and container."""


class Track:
    """The samples of one subject, by time, in arrays: a million rows take 16 MB, not 200."""

    def __init__(self, name: str = "", container: str = "") -> None:
        self.name, self.container = name, container
        self.times, self.values = array("d"), array("d")
        self.windows = array("d")  # empty as long as all are 0
        self._sorted = True

    def add(self, time: float, value: float, window: float) -> None:
        """Add a row; rows may come in any order."""
        if self.times and time < self.times[-1]:
            self._sorted = False
        if window and not self.windows:
            self.windows = array("d", bytes(8 * len(self.times)))
        self.times.append(time)
        self.values.append(value)
        if window or self.windows:
            self.windows.append(window)

    def sort(self) -> None:
        """Sort the rows by time. Of rows of the same time the last in the file comes last, and `latest` finds it."""
        if not self._sorted:
            order = sorted(range(len(self.times)), key=self.times.__getitem__)
            for name in ("times", "values", "windows"):
                column = getattr(self, name)
                setattr(self, name, array("d", [column[index] for index in order] if column else []))
            self._sorted = True

    def latest(self, time: float) -> int:
        """The index of the newest row at or before a time; -1 if there is none."""
        return bisect_right(self.times, time) - 1

    def window(self, index: int) -> float:
        """The seconds that a row was averaged over."""
        return self.windows[index] if self.windows else 0.0


class Recording(NamedTuple):
    """All tracks of a file, or those of some series. `first` and `last` are the times of its oldest and its newest row,
    of whatever series: what is taken from one file keeps its time."""

    pods: Tracks
    workloads: Tracks
    nodes: Tracks
    first: float
    last: float


def load(
    path: Path, *, series: Collection[str] = (), most: int = MOST, rename: Mapping[str, str] | None = None
) -> Recording:
    """The rows of a file, or those of some series. Raises ConfigError naming the line and what is wrong with it.
    `rename` gives keys, or the namespaces of pods and workloads, other names."""
    tracks, original_keys = dict[Place, Track | None](), dict[Place, str]()
    first, last, kept = math.inf, -math.inf, 0
    for line, time, name, subject, key, value, window, container in FORMATS[path.suffix.lower()](path):
        first, last = min(first, time), max(last, time)
        place = name, subject, key, container
        if place not in tracks:
            tracks[place] = _new_track((path, line), place, series, rename or {}, original_keys)
        if (track := tracks[place]) is not None:
            track.add(time, value, window)
            kept += 1
            if kept > most:
                raise ConfigError(str(path), "", f"must have at most {most} samples (max_samples), has more")
    by_subject = _by_subject(tracks)
    if not any(by_subject.values()):
        of = f" of the series {', '.join(sorted(set(series)))}" if series else ""
        raise ConfigError(str(path), "", f"must have a sample{of}, has none")
    return Recording(by_subject["pod"], by_subject["workload"], by_subject["node"], first, last)


def _new_track(
    where: Where, place: Place, wanted: Collection[str], rename: Mapping[str, str], original_keys: dict[Place, str]
) -> Track | None:
    """A track for a new subject; None if its series is not wanted."""
    series, subject, key, container = map(sys.intern, place)
    check_place(where, series, subject, key)
    if wanted and series not in wanted:
        return None
    name = rename.get(key, key)
    if key not in rename and subject != "node":
        namespace, _, own = key.partition("/")
        name = f"{rename.get(namespace, namespace)}/{own}"
    first = original_keys.setdefault((series, subject, name, container), key)
    if first != key:
        raise wrong(where, f'key: must not become "{name}" by rename, as "{first}" does, is "{key}"')
    return Track(name, container)


def _by_subject(tracks: Mapping[Place, Track | None]) -> dict[str, dict[str, dict[str, tuple[Track, ...]]]]:
    """The tracks, each sorted by time, by subject, series and name."""
    by_subject: dict[str, dict[str, dict[str, tuple[Track, ...]]]] = {"pod": {}, "workload": {}, "node": {}}
    for (series, subject, _, _), track in tracks.items():
        if track is not None:
            track.sort()
            names = by_subject[subject].setdefault(series, {})
            names[track.name] = (*names.get(track.name, ()), track)
    return by_subject
