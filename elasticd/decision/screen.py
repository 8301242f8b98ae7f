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
    return (one.key for one in watched if _stirs(one, at))


def _stirs(one: Watched, at: float) -> bool:
    last = one.last.series
    series = series_of(one.policy, one.last.workload.ref, one.pods, one.readings, one.reads, at)
    return any(name not in last or _leaves(last[name], now, one.bands.get(name, _ANY)) for name, now in series.items())


def stand(bands: Bands, before: Observation, last: Observation) -> bool:
    """Whether bands that were told of an observation are those of a later one as well: nothing has left them, and
    nothing else has changed."""
    same = last.pods is before.pods and last.workload == before.workload and last.series.keys() == before.series.keys()
    return same and not any(
        _leaves(before.series[name], now, bands.get(name, _ANY)) for name, now in last.series.items()
    )


def _leaves(last: Series, now: Series, band: Band) -> bool:
    """Whether what there is of a series now may change what was said. What is not a number is in no band."""
    if now.quality is not last.quality or now.source != last.source or now.trusted != last.trusted:
        return True
    if now.forecast is not last.forecast:
        return True
    new, old = now.samples, last.samples
    if [one.measured for one in new] == [one.measured for one in old]:  # nothing was measured since
        return False
    same = [one.pod for one in new] == [one.pod for one in old]
    return not (same and band.lowest <= sum([one.value for one in new]) <= band.highest)
