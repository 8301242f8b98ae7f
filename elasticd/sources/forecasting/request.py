"""The questions to the fitting process, and its replies.

Knows records and how they go through a pipe; imports no numpy, so that the daemon need not.
"""

import struct
from array import array
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from elasticd.model.forecast import Forecast

Method = Literal["auto", "robust-stl", "fft", "holt", "naive", "crane", "crane-max"]

DAY, WEEK = 86_400.0, 604_800.0
LARGEST = 1 << 30
"""Bytes of a frame: two weeks of minutes are a third of a megabyte for each series."""

_HEAD = struct.Struct(">I")
HEAD_BYTES = _HEAD.size


class Wish(Struct, frozen=True, kw_only=True, gc=False):
    """How to forecast. Times in seconds. It reaches `horizon` beyond `valid`, the time for which it counts."""

    step: float = 60.0
    horizon: float = 3600.0
    valid: float = 1800.0
    quantile: float = 0.95
    method: Method = "auto"
    periods: tuple[float, ...] = (DAY, WEEK)
    longest_gap: float = 3600.0
    max_error: float = 0.3


class PackedSamples(Struct, frozen=True, array_like=True, gc=False):
    """Samples of one series, as doubles of this machine: times in seconds since the epoch, and values."""

    times: bytes = b""
    values: bytes = b""

    @classmethod
    def of(cls, times: "array[float]", values: "array[float]") -> "PackedSamples":
        """From arrays of type d."""
        return cls(times.tobytes(), values.tobytes())


class Question(Struct, frozen=True, gc=False):
    """The past of one workload's load; and of what it used and how many pods it had, where that is to be learnt."""

    wish: Wish
    load: PackedSamples
    used: PackedSamples | None = None
    replicas: PackedSamples | None = None


class Reply(Struct, frozen=True, gc=False):
    """A forecast, perhaps with a doubt; or why there is none."""

    forecast: Forecast | None = None
    problem: str = ""


Quantile = Annotated[float, Meta(ge=0.5, lt=1, description="part of what happened that was not above the upper bound")]


def frame(record: Question | Reply) -> bytes:
    """A record with its length before it."""
    body = msgspec.msgpack.encode(record)
    return _HEAD.pack(len(body)) + body


def length(head: bytes) -> int:
    """How many bytes follow these. Raises ValueError for more than anyone sends."""
    (size,) = _HEAD.unpack(head)
    if size > LARGEST:
        raise ValueError(f"a frame must have at most {LARGEST} bytes, has {size}")
    return int(size)


question = msgspec.msgpack.Decoder(Question).decode
reply = msgspec.msgpack.Decoder(Reply).decode
