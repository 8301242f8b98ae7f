"""Decodes Prometheus' answers: their envelope at once, their samples a few thousand at a time, so that they never block
the event loop for long.

Knows the wire format of the query API, how labels become keys and what is wrong with a sample; refuses what is too
large, and knows nothing of what is asked. Nothing is guessed: what is no number is NaN, which the decision refuses, and
of two samples of one subject neither counts, nor their sum.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from elasticd.base.errors import UNREADABLE
from elasticd.base.text import one_line
from elasticd.model.workload import Sample
from elasticd.ports.source import Subject
from elasticd.sources.prometheus.tables import SeriesTable

_NAMED = 3
_WORDS = 200
_AT_ONCE = 2000
_NAN = float("nan")

# As kube-prometheus' recording rules write them (workload_type="deployment").
_KINDS = {
    kind.lower(): kind
    for kind in ("Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "ReplicationController", "Job", "CronJob")
}

Times = Mapping[tuple[str, str], float]
"""When each subject (key, container) was measured, in unix time."""


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

    @property
    def number(self) -> float:
        """The one number it consists of; NaN for anything else."""
        try:
            return number(_TIMED.decode(self.items[0]).value.value) if len(self.items) == 1 else _NAN
        except ValueError:
            return _NAN


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


class Tally:
    """Counts what is wrong with parts of an answer, and sums it up in words."""

    def __init__(self, table: SeriesTable) -> None:
        self._table = table
        self.garbled = self.unnamed = self.timeless = self.empty = 0
        self.doubled: set[str] = set()

    def summary(self, total: int) -> str:
        """What is wrong, in one line; empty if nothing is."""
        doubled = ", ".join(sorted(self.doubled)[:_NAMED])
        counts = {
            f"subjects have more than one sample and are left out ({doubled})": len(self.doubled),
            f"of {total} samples have no fit labels {self._table.needed}": self.unnamed,
            f"of {total} samples have no measured time": self.timeless,
            f"of {total} samples have no number (histograms?)": self.empty,
            f"of {total} samples are no samples": self.garbled,
        }
        return one_line("; ".join(f"{count} {words}" for words, count in counts.items() if count))


@lru_cache(maxsize=1024)
def _decoder(table: SeriesTable) -> msgspec.json.Decoder[Any]:
    """Decodes a part of an answer with just the labels that name its subject; others are skipped undecoded. A fixed
    value is a default whose field has a name that no label can have."""
    roles = table.roles()
    fixed = {"namespace": table.namespace, "name": table.workload, "kind": "" if table.labels.kind else table.kind}
    labels = [(role, str, fixed.get(role, "")) for role in ("namespace", "name", "kind", "container")]
    names = {role: roles.get(role, f"={role}") for role, _, _ in labels}
    fields: list[Any] = [
        ("metric", msgspec.defstruct("SubjectLabels", labels, rename=names, frozen=True, gc=False)),
        ("value", SamplePair | None, None),
        ("values", list[SamplePair] | None, None),
    ]
    return msgspec.json.Decoder(msgspec.defstruct("Part", fields, gc=False))


def parts(raws: Sequence[Raw], table: SeriesTable, tally: Tally) -> Iterator[tuple[str, str, Sequence[SamplePair]]]:
    """Key, container and points, oldest first, of each part of an answer that can be used."""
    decode, key_of = _decoder(table).decode, _KEYS[table.subject]
    for raw in raws:
        try:
            part = decode(raw)
        except UNREADABLE:
            tally.garbled += 1
            continue
        key = key_of(part.metric)
        points = (part.value,) if part.value is not None else part.values
        if not points:
            tally.empty += 1
        elif not key:
            tally.unnamed += 1
        else:
            yield key, part.metric.container, points


def _pod(labels: Any) -> str:
    namespace, name = labels.namespace, labels.name
    return f"{namespace}/{name}" if namespace and name and "/" not in namespace and "/" not in name else ""


def _workload(labels: Any) -> str:
    kind = _KINDS.get(labels.kind, labels.kind)
    key = f"{labels.namespace}/{kind}/{labels.name}"
    return key if labels.namespace and kind and labels.name and key.count("/") == 2 else ""


def _node(labels: Any) -> str:
    name: str = labels.name
    return name if "/" not in name else ""


_KEYS: dict[Subject, Callable[[Any], str]] = {"pod": _pod, "workload": _workload, "node": _node}
"""The subject's key, empty when the labels do not name one."""


def number(text: str) -> float:
    """A number as Prometheus writes it, with NaN, +Inf and -Inf; NaN for anything else."""
    if "_" in text or not text.isascii() or text != text.strip():  # float() takes these
        return _NAN
    try:
        return float(text)
    except ValueError:
        return _NAN


def chunks(answer: QueryAnswer, table: SeriesTable) -> Iterator[Sequence[Raw]]:
    """Chunks of some milliseconds each. QueryFault: a scalar, where labels must name the subject."""
    if answer.kind == "scalar" and table.needed:
        raise QueryFault(f"the answer must be a vector with the labels {table.needed}, is a scalar")
    for start in range(0, len(answer.items), _AT_ONCE):
        yield answer.items[start : start + _AT_ONCE]


async def times_in(answer: QueryAnswer, table: SeriesTable) -> Times:
    """The times in the answer to a series' `times`. Of two times for one subject the older counts."""
    times: dict[tuple[str, str], float] = {}
    tally = Tally(table)
    for raws in chunks(answer, table):
        for key, container, points in parts(raws, table, tally):
            at = number(points[-1].value)
            times[key, container] = min(at, times.get((key, container), at))
        await asyncio.sleep(0)
    return times


async def samples_in(
    answer: QueryAnswer, table: SeriesTable, times: Times | None, received: float, offset: float
) -> tuple[dict[str, tuple[Sample, ...]], str]:
    """The samples by subject, and what was wrong with some. `offset`: seconds from the server's time to the clock's."""
    by_subject: dict[str, tuple[Sample, ...]] = {}
    tally, window, is_pod = Tally(table), table.window, table.subject == "pod"
    for raws in chunks(answer, table):
        for key, container, points in parts(raws, table, tally):
            point = points[-1]
            at = point.at if times is None else times.get((key, container))
            if at is None:
                tally.timeless += 1
                continue
            pod = key.partition("/")[2] if is_pod else ""
            sample = Sample(number(point.value), at + offset, received, window, pod, container)
            if key not in by_subject:
                by_subject[key] = (sample,)
            elif container in [earlier.container for earlier in by_subject[key]]:
                tally.doubled.add(key)
            else:
                by_subject[key] += (sample,)
        await asyncio.sleep(0)
    for key in tally.doubled:
        del by_subject[key]
    return by_subject, tally.summary(len(answer.items))
