"""Decodes answers into samples, a few thousand at a time so that the event loop is never blocked for long.

Knows how labels become keys and what is wrong with a sample; knows nothing of HTTP. Nothing is guessed: what is no
number is NaN, which the decision refuses, and of two samples of one subject neither counts, nor their sum.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Raw

from elasticd.base.errors import UNREADABLE
from elasticd.base.text import one_line
from elasticd.model.workload import Sample
from elasticd.ports.source import Subject
from elasticd.sources.prometheus.answers import QueryAnswer, QueryFault, SamplePair
from elasticd.sources.prometheus.tables import SeriesTable

_AT_ONCE = 2000
_NAMED = 3
_NAN = float("nan")

# As kube-prometheus' recording rules write them (workload_type="deployment").
_KINDS = {
    kind.lower(): kind
    for kind in ("Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "ReplicationController", "Job", "CronJob")
}

Times = Mapping[tuple[str, str], float]
"""When each subject (key, container) was measured, in unix time."""


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
