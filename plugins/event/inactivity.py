"""How long no trigger has been active, counted back over past readings.

Knows remembered readings and when a trigger or formula is active; of the present reading it knows only the time.
"""

from collections.abc import Mapping, Sequence

from elasticd.api import Point, Struct

from .triggers import Formula, Trigger

Tracks = Mapping[str, Sequence[Point]]
"""The past points of each trigger's series, oldest first."""


class Span(Struct, frozen=True):
    """From when readings count (`known`), and how far back the answer matters (`enough`), in seconds since the
    epoch."""

    known: float
    enough: float


def since(trigger: Trigger, track: Sequence[Point], newest: float, span: Span) -> float:
    """Since when a trigger has not been active, given that it is not active now and was last read at `newest`."""
    earliest = newest
    for point in reversed(track):
        if earliest <= span.enough or point.at < span.known or point.total > trigger.activation:
            break
        earliest = min(earliest, point.at)
    return earliest


def since_by(over: Formula, tracks: Tracks, newest: float, span: Span) -> float:
    """Since when a formula has not been active. A reading counts until the next one; where nothing can be read now
    (`newest` is then long ago), the last remembered reading counts."""
    earliest = max([newest, *(track[-1].at for track in tracks.values() if track)])
    ends = {label: len(track) for label, track in tracks.items()}
    times = {point.at for track in tracks.values() for point in track if span.known <= point.at < earliest}
    for at in sorted(times, reverse=True):
        if earliest <= span.enough or _active(over, tracks, ends, at) is not False:
            break
        earliest = at
    return earliest


def _active(over: Formula, tracks: Tracks, ends: dict[str, int], at: float) -> bool | None:
    """Whether the formula was active at a time; None: not known. Moves `ends` back to that time."""
    values: dict[str, float | None] = {}
    for label, track in tracks.items():
        while ends[label] and track[ends[label] - 1].at > at:
            ends[label] -= 1
        values[label] = track[ends[label] - 1].total if ends[label] else None
    value = over.of(values)
    return None if value is None else value > over.activation
