"""The sum of several tracks over time: of the pods that shared a load, the load.

Knows which rows count at a time; knows nothing of what is done with the sum.
"""

import math
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from itertools import groupby
from operator import itemgetter

from elasticd.sources.recorded import Recording, Track

Delta = tuple[float, int, int, float]
"""A time, and how many tracks then begin to count (or, negative, cease to), how many of them with no usable value, and
by how much the sum grows."""


def tracks_of(recording: Recording, series: str, key: str) -> list[Track]:
    """The tracks of all subjects whose key matches a pattern, in which `*` stands for any part of a name. A key
    has as many slashes as the pattern, which is thus about nodes, pods or workloads."""
    of = (recording.nodes, recording.pods, recording.workloads)[min(key.count("/"), 2)]
    return [track for name, tracks in of.get(series, {}).items() if fnmatchcase(name, key) for track in tracks]


def total(tracks: Iterable[Track], max_age: float, last: float) -> list[tuple[float, float]]:
    """The sum at every time at which it changes. A row counts until the next one of its track, at most `max_age`
    seconds; what counts at the `last` time counts for ever. NaN where no row counts, or one that is NaN, infinite or
    negative: the sum is then unknown."""
    deltas = sorted((delta for track in tracks for delta in _deltas(track, max_age, last)), key=itemgetter(0))
    rows: list[tuple[float, float]] = []
    counted, unknown, value = 0, 0, 0.0
    for time, at_once in groupby(deltas, key=itemgetter(0)):
        for _, counting, without, growth in at_once:
            counted, unknown, value = counted + counting, unknown + without, value + growth
        value = max(value, 0.0) if counted > unknown else 0.0  # what rounding has left
        rows.append((time, math.nan if unknown or not counted else value))
    return rows


def _deltas(track: Track, max_age: float, last: float) -> Iterator[Delta]:
    times, values = track.times, track.values
    for index, time in enumerate(times):
        end = time + max_age
        if index + 1 < len(times):
            end = min(end, times[index + 1])
        good = 0.0 <= values[index] < math.inf
        yield time, 1, 0 if good else 1, values[index] if good else 0.0
        if end <= last:
            yield end, -1, 0 if good else -1, -values[index] if good else 0.0
