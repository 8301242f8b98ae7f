"""Which workloads are to be looked at now, since something that was read of them changes what is said of them.

Pure. Knows what was last evaluated and what is read now; knows nothing of who reads or decides.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from elasticd.decision.observe import series_of
from elasticd.decision.workload.bands import Bands
from elasticd.model.policy import Policy
from elasticd.model.workload import Band, Observation, Pod, Readings, Ref, Series

Key = tuple[str, Ref]
"""A workload under a policy."""

_ANY = Band()
"""Of a series that nobody reads who says anything of the count."""


class Watched(Struct, frozen=True, gc=False):
    """A workload as it was last evaluated, the bands of its series since, its pods as they are now, and what its
    sources, in their order, have read. `reads`: the names of the series that count."""

    key: Key
    policy: Policy
    last: Observation
    bands: Bands
    pods: tuple[Pod, ...]
    readings: Sequence[Readings]
    reads: frozenset[str] | None


def stirred(watched: Iterable[Watched], at: float) -> Iterator[Key]:
    """The keys of those that are worth a look: new samples of theirs leave a band, or are of other pods than before, or
    what there is of a series is worth more or less than it was."""
    return (entry.key for entry in watched if _has_stirred(entry, at))


def _has_stirred(entry: Watched, at: float) -> bool:
    last = entry.last.series
    series = series_of(entry.policy, entry.last.workload.ref, entry.pods, entry.readings, entry.reads, at)
    return any(
        name not in last or _leaves_band(last[name], now, entry.bands.get(name, _ANY)) for name, now in series.items()
    )


def stand(bands: Bands, before: Observation, last: Observation) -> bool:
    """Whether bands that were told of an observation are those of a later one as well: nothing has left them, and
    nothing else has changed."""
    same = last.pods is before.pods and last.workload == before.workload and last.series.keys() == before.series.keys()
    return same and not any(
        _leaves_band(before.series[name], now, bands.get(name, _ANY)) for name, now in last.series.items()
    )


def _leaves_band(last: Series, now: Series, band: Band) -> bool:
    """Whether what there is of a series now may change what was said. What is not a number is in no band."""
    if now.quality is not last.quality or now.source != last.source or now.trusted != last.trusted:
        return True
    if now.forecast is not last.forecast:
        return True
    new, old = now.samples, last.samples
    if [sample.measured for sample in new] == [sample.measured for sample in old]:  # nothing was measured since
        return False
    same = [sample.pod for sample in new] == [sample.pod for sample in old]
    return not (same and band.lowest <= sum([sample.value for sample in new]) <= band.highest)
