"""Calls the hooks of a policy's plugins, and checks their answers.

Pure. Knows which answers make sense and that their record must be readable again; knows nothing of what they mean.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from math import isfinite
from typing import Any, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from elasticd.base.text import LONGEST, one_line
from elasticd.model.disruption import PolicyCaps
from elasticd.model.history import Past
from elasticd.model.policy import MOST, Policy
from elasticd.model.workload import Answers, Band, LeftOut, Limit, Measure, Observation, Rank, Recommendation, Resources

SHORTEST_INTERVAL, LONGEST_INTERVAL = 0.1, 3600.0
"""Seconds; a plugin that asks for less, or more, is talking nonsense."""


class Asks(Protocol):
    """The hooks of a policy, and what its strategies ask for."""

    @property
    def priorities(self) -> Mapping[str, int]:
        """The priority of each strategy, by the name under which it answers."""

    @property
    def screened(self) -> Mapping[str, tuple[str, ...] | None]:
        """The series that each strategy of the count, or of the interval, reads, by its name; None: all there are."""

    @property
    def recalls(self) -> float:
        """The longest time for which any strategy wants series remembered, in seconds."""

    @property
    def lasting(self) -> bool:
        """Whether the answers of all last, as Strategy.lasts has it."""

    @property
    def third_parties(self) -> frozenset[str]:
        """The packages of the strategies and limits that elasticd does not bring."""

    def implements(self, hook: str) -> bool:
        """Whether any of them implements a hook."""

    def ask(
        self, hook: str, arguments: dict[str, Any], off: frozenset[str], read: Callable[[Any, str], Any]
    ) -> Answers:
        """Call all implementations that are not switched off; what `read` refuses of their answers is a failure."""


class Case(Struct, frozen=True, gc=False):
    """All that a decision depends on. `off` names implementations that have failed too often; `caps`: how far
    bounds change the count; None: as far as they say."""

    policy: Policy
    observation: Observation
    past: Past
    hooks: Asks
    off: frozenset[str] = frozenset()
    caps: PolicyCaps | None = None

    def ask(self, hook: str, *, wish: int | None = None, replicas: int | None = None) -> Answers:
        """Call a hook; an answer that makes no sense counts as a failure."""
        observation = self.observation
        arguments = {
            "policy": self.policy, "workload": observation.workload, "observation": observation, "past": self.past,
            "wish": wish, "replicas": replicas, "at": observation.at,
        }  # fmt: skip
        return self.hooks.ask(hook, arguments, self.off, _READ[hook])


CACHED = 4096
"""Answers that are cached."""

LARGEST = 1 << 14
"""Bytes of one answer; of a larger one the texts are cut, as it stands in the journal and on pages."""

_MEASURES = 50
"""Measures of a recommendation; of a larger one the others are left out."""

_REASONS = 5
"""Reasons to leave pods out, of a measure; likewise."""

_encode = msgspec.json.Encoder().encode
_decode_recommendation = msgspec.json.Decoder(Recommendation).decode
_decode_limit = msgspec.json.Decoder(Limit).decode
_decode_ranks = msgspec.json.Decoder(dict[str, Rank]).decode
_decode_resources = msgspec.json.Decoder(list[Resources]).decode


def _read_recommendation(value: Any, name: str) -> Recommendation:
    """Read a recommendation as the journal will give it back: what cannot be written and read again is no answer."""
    if not isinstance(value, Recommendation):
        raise TypeError("must be a Recommendation")
    _check_finite(value.replicas, "replicas")
    written = _encode(value)
    if len(written) > LARGEST:
        read = _decode_recommendation(written)
        measures = tuple([_cut_measure(measure) for measure in read.measures[:_MEASURES]])
        written = _check_size(_encode(replace(read, measures=measures, **_cut_texts(read, _TEXTS))))
    return _signed_recommendation(written, name)


_TEXTS = ("reason", "message")
_TEXTS_OF_MEASURES = ("metric", "current", "target", *_TEXTS)


def _cut_texts(record: Struct, names: Sequence[str]) -> dict[str, str]:
    return {name: one_line(getattr(record, name)) for name in names}


def _cut_measure(measure: Measure) -> Measure:
    """A measure with its texts cut, and without the names of pods."""
    left_out = tuple([LeftOut(one_line(group.why), group.count) for group in measure.left_out[:_REASONS]])
    return replace(measure, left_out=left_out, **_cut_texts(measure, _TEXTS_OF_MEASURES))


def _check_size(written: bytes) -> bytes:
    if len(written) > LARGEST:
        raise ValueError(f"must be at most {LARGEST} bytes of JSON, is {len(written)}")
    return written


@lru_cache(maxsize=CACHED)
def _signed_recommendation(written: bytes, name: str) -> Recommendation:
    """Cached, as limits are, by the JSON: by equality 3.0 and True would pass for whole numbers."""
    read = _decode_recommendation(written)
    if read.replicas is not None:
        _check_count(read.replicas, "replicas")
        if read.abstains:
            raise ValueError(f"replicas must be None where it abstains, is {read.replicas}")
    return replace(read, strategy=name, priority=0)


_read_before: dict[int, tuple[Limit | None, str, Limit]] = {}
"""Limits that were read before, by identity: the limit, who gave it, and what was read of it. A limit that depends on
little is cached by who gives it. The limit is held, so that its identity cannot pass to another object."""

_NOT_READ: tuple[None, str, Limit] = (None, "", Limit(""))


def _read_limit(value: Any, name: str) -> Limit:
    before, by, read = _read_before.get(id(value), _NOT_READ)
    if before is value and by == name:
        return read
    if not isinstance(value, Limit):
        raise TypeError("must be a Limit")
    _check_finite(value.lowest, "lowest")
    _check_finite(value.highest, "highest")
    if len(_read_before) >= CACHED:
        _read_before.clear()
    written = _encode(value)
    if len(written) > LARGEST:
        cut = _decode_limit(written)
        written = _check_size(_encode(replace(cut, **_cut_texts(cut, ("name", *_TEXTS)))))
    read = _signed_limit(written, name)
    _read_before[id(value)] = (value, name, read)
    return read


@lru_cache(maxsize=CACHED)
def _signed_limit(written: bytes, name: str) -> Limit:
    """Cached, as limits are mostly those of the look before, and are then the same objects to compare."""
    read = _decode_limit(written)
    if read.lowest is not None:
        _check_count(read.lowest, "lowest")
    if read.highest is not None:
        _check_count(read.highest, "highest")
    if read.lowest is not None and read.highest is not None and read.lowest > read.highest:
        raise ValueError(f"lowest must be <= highest = {read.highest}, is {read.lowest}")
    if read.condition == "ScalingActive":
        raise ValueError("condition must be AbleToScale or ScalingLimited, is ScalingActive")
    return replace(read, name=read.name or name, bound=False)


def _check_finite(count: Any, key: str) -> None:
    """JSON has no NaN, and no infinity: what is written of them reads as None."""
    if type(count) is float and not isfinite(count):
        raise ValueError(f"{key} must be from 0 to {MOST}, is {count}")


def _check_count(count: int, key: str) -> None:
    if not 0 <= count <= MOST:
        raise ValueError(f"{key} must be from 0 to {MOST}, is {count}")


def _read_interval(value: Any, _: str) -> float:
    if type(value) is not float and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise TypeError("must be a number of seconds")
    if not SHORTEST_INTERVAL <= value <= LONGEST_INTERVAL:
        raise ValueError(f"must be from {SHORTEST_INTERVAL} to {LONGEST_INTERVAL:g} s")
    return float(value)


def _read_bands(value: Any, _: str) -> dict[str, Band]:
    if not isinstance(value, Mapping) or not all(isinstance(band, Band) for band in value.values()):
        raise TypeError("must be a mapping of the names of series to Bands")
    # What is no number bounds nothing.
    return {name: Band(float(band.lowest), float(band.highest)) for name, band in value.items()}


def _read_ranks(value: Any, _: str) -> dict[str, Rank]:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise TypeError("must be a mapping of pods' names to numbers")
    return _decode_ranks(_encode({name: _read_rank(rank) for name, rank in value.items()}))


def _read_rank(rank: Any) -> Rank:
    value: Any
    value, why = (rank.value, rank.why) if isinstance(rank, Rank) else (rank, "")
    if not _is_finite(value):
        raise TypeError("must be a mapping of pods' names to finite numbers, or Ranks of such")
    return Rank(float(value), one_line(why) if len(why) > LONGEST else why)


def _read_resources(value: Any, name: str) -> list[Resources]:
    if not isinstance(value, Sequence) or not all(isinstance(resources, Resources) for resources in value):
        raise TypeError("must be a sequence of Resources")
    amounts = [(*resources.requests.values(), *resources.present.values()) for resources in value]
    if not all(_is_finite(amount) and amount >= 0 for amount in chain(*amounts)):
        raise TypeError("must request finite amounts >= 0")
    return [
        replace(resources, strategy=name, **_cut_texts(resources, _TEXTS))
        for resources in _decode_resources(_encode(list(value)))
    ]


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _read_time(value: Any, _: str) -> float:
    if type(value) is not float and type(value) is not int:
        raise TypeError("must be a time in seconds since the epoch")
    return float(value)


_READ: Mapping[str, Callable[[Any, str], Any]] = {
    "recommend_replicas": _read_recommendation,
    "limit": _read_limit,
    "poll_interval": _read_interval,
    "rank_pods": _read_ranks,
    "steady_bands": _read_bands,
    "recommend_resources": _read_resources,
    "next_change": _read_time,
}
