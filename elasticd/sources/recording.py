"""The source recording: replays a file of samples in place of any other source.

Knows how recorded time becomes time now; knows nothing of how files are written or who wrote them.
"""

import asyncio
import math
from array import array
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct, field

from elasticd.api import hookimpl
from elasticd.base.errors import ConfigError, UnavailableError
from elasticd.base.files import linked
from elasticd.base.text import shown
from elasticd.model.workload import Readings, Sample
from elasticd.ports.source import History, Points, Site, Source, TimeRange
from elasticd.sources.recorded import MOST, Recording, Track, load
from elasticd.sources.recorded.files import FORMATS

Samples = tuple[Sample, ...]


class RecordingSource(Source, frozen=True, tag="recording"):
    """A file of samples, played again: at each time it says what was newest by then.

    A gap in it stays one, and after its end its last samples grow old."""

    complete: ClassVar[bool] = False
    """It holds what was recorded."""

    remembers: ClassVar[bool] = True

    file: Annotated[str, Meta(description="CSV, JSON lines or Parquet, by its ending: .csv, .jsonl, .ndjson, .parquet")]
    start: Annotated[
        Literal["now", "recorded"],
        Meta(description="when the first row plays: as the daemon starts, or at its own time, as in a backtest"),
    ] = "now"
    repeat: Annotated[
        float, Meta(ge=0, description="seconds of the recording after which it begins again; 0: it does not")
    ] = 0.0
    speed: Annotated[float, Meta(gt=0, le=1e6, description="recorded seconds in a second")] = 1.0
    series: Annotated[tuple[str, ...], Meta(description="those that are played; empty: all")] = ()
    rename: Annotated[
        dict[str, str], Meta(description="other names for namespaces, pods, workloads (NAMESPACE/KIND/NAME) and nodes")
    ] = field(default_factory=dict)
    max_samples: Annotated[int, Meta(ge=1, le=1_000_000_000, description="rows, of the series that are played")] = MOST

    def __post_init__(self) -> None:
        if Path(self.file).suffix.lower() not in FORMATS:
            raise ValueError(f"file: must end in one of {', '.join(FORMATS)}, is {shown(self.file)}")
        if self.start == "recorded" and self.speed != 1:
            raise ValueError(f'speed: must be 1 with start = "recorded", is {self.speed:g}')
        for old, new in self.rename.items():
            if old.count("/") != new.count("/") or not all(new.split("/")):
                raise ValueError(f"rename: must give {shown(old)} a name of as many parts, is {shown(new)}")

    def offers(self) -> tuple[str, ...] | None:
        """The series that are played; only the file knows them when all are."""
        return self.series or None

    def examine(self) -> None:
        """Raise ConfigError if the file cannot be opened; its contents are read later, by `open`."""
        try:
            open(self.file, "rb", opener=linked).close()
        except OSError as error:
            raise ConfigError("", "file", f"must be readable, is not: {error.strerror} ({self.file})") from None

    def memory(self, site: Site) -> AbstractAsyncContextManager[History]:
        """What has been played, of workloads."""
        return self.open(site)

    @asynccontextmanager
    async def open(self, site: Site) -> AsyncIterator["_Player"]:
        """Read the file, in a thread, so that others go on meanwhile."""
        began = site.clock.now()
        recording = await asyncio.to_thread(
            load, Path(self.file), series=self.series, most=self.max_samples, rename=self.rename
        )
        length = recording.last - recording.first
        if 0 < self.repeat < length:
            problem = f"must be 0 or >= {length:g}, the seconds from its first row to its last, is {self.repeat:g}"
            raise ConfigError(self.file, "repeat", problem)
        origin = recording.first if self.start == "recorded" else began
        yield _Player(self.label, recording, Tape(recording.first, origin, self.speed, self.repeat))


class Tape(Struct, frozen=True):
    """Maps recorded time to present time: the `first` row plays at `origin`, and again after `repeat` recorded seconds.

    Written so that at speed 1 nothing is rounded.
    """

    first: float
    origin: float
    speed: float = 1.0
    repeat: float = 0.0

    def at(self, now: float) -> tuple[float, int]:
        """The recorded time that plays now, and how many rounds came before."""
        gone = now - self.origin
        time = now - (self.origin - self.first) + gone * (self.speed - 1)
        rounds = max(0, math.floor(gone * self.speed / self.repeat)) if self.repeat else 0
        return time - rounds * self.repeat, rounds

    def when(self, time: float, rounds: int) -> float:
        """When a recorded time plays in a round."""
        gone = time - self.first + rounds * self.repeat
        return time + rounds * self.repeat + (self.origin - self.first) + gone * (1 / self.speed - 1)


class _Player:
    """The reader: samples are looked up when they are asked for, so a read costs nothing."""

    def __init__(self, label: str, recorded: Recording, tape: Tape) -> None:
        self._label, self._recorded, self._tape = label, recorded, tape

    async def read(self, now: float) -> Readings:
        """The newest sample of each subject."""
        pods, workloads, nodes = (
            {series: _Now(keys, self._tape, now) for series, keys in of.items()}
            for of in (self._recorded.pods, self._recorded.workloads, self._recorded.nodes)
        )
        return Readings(self._label, now, pods, workloads, nodes)

    async def past(self, series: str, workloads: Collection[str], span: TimeRange) -> Mapping[str, Points]:
        """What was played between the two times; of a repeated recording, in all its rounds."""
        tracks_by_key = self._recorded.workloads.get(series)
        if tracks_by_key is None:
            raise UnavailableError(f'{self._label}: has no series "{series}" of workloads')
        return {key: _rows_played(tracks_by_key[key], self._tape, span) for key in workloads if key in tracks_by_key}


def _rows_played(tracks: Sequence[Track], tape: Tape, span: TimeRange) -> Points:
    """The rows of a workload at the times they were played. A workload has one track."""
    points = Points(array("d"), array("d"))
    track = tracks[0]
    first, last = tape.at(span.first)[1], tape.at(span.last)[1]
    for round_ in range(first, last + 1):
        for time, value in zip(track.times, track.values, strict=True):
            when = tape.when(time, round_)
            if span.first <= when <= span.last:
                points.times.append(when)
                points.values.append(value)
    return points


class _Now(Mapping[str, Samples]):
    """A series at one time: samples by key, for the keys that have one by then."""

    def __init__(self, keys: Mapping[str, Sequence[Track]], tape: Tape, now: float) -> None:
        self._keys, self._tape, self._now = keys, tape, now
        self._time, self._rounds = tape.at(now)

    def __getitem__(self, key: str) -> Samples:
        pod = key.rpartition("/")[2] if key.count("/") == 1 else ""
        samples = tuple([sample for track in self._keys[key] if (sample := self._newest(track, pod)) is not None])
        if not samples:
            raise KeyError(key)
        return samples

    def _newest(self, track: Track, pod: str) -> Sample | None:
        index, rounds = track.latest(self._time), self._rounds
        if index < 0:  # not yet played in this round: the last row of the round before
            if not rounds:
                return None
            index, rounds = len(track.times) - 1, rounds - 1
        measured = self._tape.when(track.times[index], rounds)
        window = track.window(index) / self._tape.speed
        return Sample(track.values[index], measured, self._now, window, pod, track.container)

    def __iter__(self) -> Iterator[str]:
        return (key for key in self._keys if key in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@hookimpl
def register_sources() -> Sequence[type[Source]]:
    return [RecordingSource]
