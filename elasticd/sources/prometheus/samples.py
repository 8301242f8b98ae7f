"""Decodes answers into samples, a few thousand at a time so that the event loop is never blocked for long.

Knows how labels become keys and what is wrong with a sample; knows nothing of HTTP. Nothing is guessed: what is no
number is NaN, which the decision refuses, and of two samples of one subject neither counts, nor their sum.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from elasticd.base.text import one_line
from elasticd.model.workload import Sample
from elasticd.sources.prometheus.answers import QueryAnswer, QueryFault, SamplePair
from elasticd.sources.prometheus.plans import QueryPlan

_AT_ONCE = 2000
_NAMED = 3
_NAN = float("nan")

Times = Mapping[tuple[str, str], float]
"""When each subject (key, container) was measured, in unix time."""


class Tally:
    """Counts what is wrong with parts of an answer, and sums it up in words."""

    def __init__(self, plan: QueryPlan) -> None:
        self._plan = plan
        self.garbled = self.unnamed = self.timeless = self.empty = 0
        self.doubled: set[str] = set()

    def summary(self, total: int) -> str:
        """What is wrong, in one line; empty if nothing is."""
        doubled = ", ".join(sorted(self.doubled)[:_NAMED])
        counts = {
            f"subjects have more than one sample and are left out ({doubled})": len(self.doubled),
            f"of {total} samples have no fit labels {self._plan.missing}": self.unnamed,
            f"of {total} samples have no measured time": self.timeless,
            f"of {total} samples have no number (histograms?)": self.empty,
            f"of {total} samples are no samples": self.garbled,
        }
        return one_line("; ".join(f"{count} {words}" for words, count in counts.items() if count))


class AnswerParts:
    """The parts of an answer to one plan, decoded with only the labels that the plan needs."""

    def __init__(self, plan: QueryPlan, tally: Tally) -> None:
        fields: list[Any] = [
            ("metric", plan.labels),
            ("value", SamplePair | None, None),
            ("values", list[SamplePair] | None, None),
        ]
        kind: Any = msgspec.defstruct("Part", fields, gc=False)
        self._decode = msgspec.json.Decoder(kind).decode
        self._key, self._tally = plan.key, tally

    def of(self, raws: Sequence[Raw]) -> Iterator[tuple[str, str, Sequence[SamplePair]]]:
        """Key, container and points, oldest first, of each that can be used."""
        decode, key_of, tally = self._decode, self._key, self._tally
        for raw in raws:
            try:
                part = decode(raw)
            except (ValueError, RecursionError):
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


def number(text: str) -> float:
    """A number as Prometheus writes it, with NaN, +Inf and -Inf; NaN for anything else."""
    try:
        return float(text)
    except ValueError:
        return _NAN


def chunks(answer: QueryAnswer, plan: QueryPlan) -> Iterator[Sequence[Raw]]:
    """Chunks of some milliseconds each. QueryFault: a scalar, where labels must name the subject."""
    if answer.kind == "scalar" and not plan.fixed:
        raise QueryFault(f"the answer must be a vector with the labels {plan.missing}, is a scalar")
    for start in range(0, len(answer.items), _AT_ONCE):
        yield answer.items[start : start + _AT_ONCE]


async def times_in(answer: QueryAnswer, plan: QueryPlan) -> Times:
    """The times in the answer to a plan's `measured`. Of two times for one subject the older counts."""
    times: dict[tuple[str, str], float] = {}
    parts = AnswerParts(plan, Tally(plan))
    for raws in chunks(answer, plan):
        for key, container, points in parts.of(raws):
            at = number(points[-1].value)
            times[key, container] = min(at, times.get((key, container), at))
        await asyncio.sleep(0)
    return times


async def samples_in(
    answer: QueryAnswer, plan: QueryPlan, times: Times | None, received: float, offset: float
) -> tuple[dict[str, tuple[Sample, ...]], str]:
    """The samples by subject, and what was wrong with some. `offset`: seconds from the server's time to the clock's."""
    by_subject: dict[str, tuple[Sample, ...]] = {}
    tally, window, is_pod = Tally(plan), plan.window, plan.subject == "pod"
    parts = AnswerParts(plan, tally)
    for raws in chunks(answer, plan):
        for key, container, points in parts.of(raws):
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
