"""Decodes the envelope of Prometheus' answers; their samples stay undecoded.

Knows the wire format of the query API, and refuses what is too large; knows nothing of what is asked, trusts nothing.
"""

import asyncio
from collections.abc import Sequence
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from elasticd.base.errors import UNREADABLE
from elasticd.base.text import one_line

_NAMED = 3
_WORDS = 200


class QueryFault(Exception):  # noqa: N818
    """Why an answer cannot be used, in one line."""


class SamplePair(Struct, array_like=True, gc=False):
    """A time and a number, as [1700000000.123, "1.5"]."""

    at: float
    value: str


class _Data(Struct):
    resultType: str  # noqa: N815
    result: Raw


class _Timed(Struct):
    value: SamplePair


class _Envelope(Struct):
    status: str = ""
    error: str | None = None
    errorType: str | None = None  # noqa: N815
    warnings: list[str] | None = None
    infos: list[str] | None = None
    isPartial: bool | None = None  # noqa: N815


class _Result(_Envelope):
    data: _Data | None = None


class _Names(_Envelope):
    data: list[str] | None = None


_RESULT = msgspec.json.Decoder(_Result)
_NAMES = msgspec.json.Decoder(_Names)
_TIMED = msgspec.json.Decoder(_Timed)
_ITEMS = msgspec.json.Decoder(list[Raw])


class QueryAnswer(Struct):
    """A query's result, its items undecoded. `warning` says why it is partial; empty if it is not."""

    kind: str
    items: Sequence[Raw]
    warning: str = ""
    note: str = ""

    @property
    def at(self) -> float | None:
        """When the server computed it, by its own clock; None where the answer does not show it."""
        try:
            return _TIMED.decode(self.items[0]).value.at if self.items else None
        except ValueError:
            return None


T = TypeVar("T", bound=_Envelope)


def _decode(body: bytes | Raw, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        answer = decoder.decode(body)
    except UNREADABLE as error:
        raise _garbled_fault(error) from None
    if answer.status != "success":
        raise QueryFault(
            one_line(f"{answer.errorType or 'error'}: {answer.error or 'the server does not say why'}", _WORDS)
        )
    return answer


def _garbled_fault(error: Exception) -> QueryFault:
    return QueryFault(one_line(f"the answer is not of the query API: {error}", _WORDS))


def names_of(body: bytes) -> list[str]:
    """The values of a label in an answer. Raises QueryFault. A partial list is accepted: the rest comes later."""
    names = _decode(body, _NAMES).data
    if names is None:
        raise QueryFault("the answer is not of the query API: it has no data")
    return names


async def answer_of(body: bytes, most: int) -> QueryAnswer:
    """The answer to a query. Raises QueryFault for one with more than `most` samples, before they are decoded. Each
    step takes some milliseconds for 20 MB, so other tasks get their turn after each."""
    if body.count(b'"metric":') > most:
        raise QueryFault(f"the answer has more than {most} samples (max_samples)")
    await asyncio.sleep(0)
    answer = _decode(body, _RESULT)
    if answer.data is None:
        raise QueryFault("the answer is not of the query API: it has no data")
    await asyncio.sleep(0)
    kind, items = answer.data.resultType, _items(answer.data)
    if len(items) > most:
        raise QueryFault(f"the answer has more than {most} samples (max_samples)")
    await asyncio.sleep(0)
    warnings = answer.warnings or (["the server calls it partial"] if answer.isPartial else [])
    return QueryAnswer(kind, items, _join(warnings), _join(answer.infos or []))


def _items(data: _Data) -> list[Raw]:
    if data.resultType == "scalar":  # in the form of a vector without labels
        return [Raw(b'{"metric":{},"value":' + bytes(data.result) + b"}")]
    if data.resultType not in ("vector", "matrix"):
        raise QueryFault(one_line(f"the answer must be a vector, matrix or scalar, is a {data.resultType}", _WORDS))
    try:
        return _ITEMS.decode(data.result)
    except UNREADABLE as error:
        raise _garbled_fault(error) from None


def _join(lines: Sequence[str]) -> str:
    return one_line("; ".join(lines[:_NAMED]), _WORDS)
