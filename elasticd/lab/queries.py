"""The load of a workload as a Prometheus remembers it: exported into a recording as `elasticd record` does, and read.

Knows what the answers to a query may be about; knows nothing of HTTP, and nothing of what is played.
"""

import asyncio
import time
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct

from elasticd.base.decode import convert
from elasticd.base.errors import ConfigError, UnavailableError
from elasticd.lab.ideal import Counts
from elasticd.model.workload import Ref
from elasticd.ports.source import TimeRange
from elasticd.sources.prometheus import Prometheus
from elasticd.sources.recorded import MOST, Recording, load
from elasticd.sources.recorded.export import NoSampleError, Selection, moment, seconds, write_recording

ANSWER_BYTES = 1 << 24
"""Bytes of one answer, at most: about 600,000 samples. What would be more is asked for in parts."""

LONGEST = 3650 * 86400.0
REPLICAS = "replicas"


class Queries(Struct, frozen=True):
    """What a Prometheus is asked, from `since` seconds ago until now, in steps of `step` seconds."""

    url: str
    query: str
    replicas_query: str
    since: float
    step: float


def queries_of(url: str, query: str, replicas_query: str, since: str, step: str) -> Queries:
    """What the options of a command line ask for. Raises ConfigError naming the option."""
    if not query:
        raise ConfigError("", "--query", "must be given with --prometheus, is not")
    try:
        between = seconds(step)
    except ValueError as error:
        raise ConfigError("", "--step", str(error)) from None
    try:
        age = -moment(f"-{since}", 0.0)
    except ValueError:
        age = 0.0
    if not between <= age <= LONGEST:
        raise ConfigError("", "--since", f'must be as 7d or 12h, from a --step to 3650d, is "{since}"')
    return Queries(url, query, replicas_query, age, between)


class Answers(NamedTuple):
    """The samples of the answers, the pattern of the keys that are the workload's, and what was wrong with some."""

    rows: Recording
    key: str
    faults: tuple[str, ...]


def ask_load(queries: Queries, ref: Ref, series: str, folder: Path) -> Answers:
    """The samples of the load, as a series of that name. The answer to the query is about pods, about workloads, or
    one series of this workload, by its labels. Raises ConfigError and UnavailableError, naming the option."""
    pods = _About(f"{ref.namespace}/{ref.name}-*", {"subject": "pod"})
    return _ask(queries, "--query", series, [pods, *_workloads(ref)], folder)


def ask_replicas(queries: Queries, ref: Ref, folder: Path) -> Counts:
    """The counts that the workload had, of those steps in which they are known. Raises as `ask_load` does."""
    answers = _ask(queries, "--replicas-query", REPLICAS, _workloads(ref), folder)
    (track,) = answers.rows.workloads[REPLICAS][str(ref)]
    points = zip(track.times, track.values, strict=True)
    return [(at, round(value)) for at, value in points if isfinite(value) and value >= 0]


class _About(NamedTuple):
    """What an answer may be about: the keys of the wanted samples, and how labels name them."""

    key: str
    table: dict[str, Any]


def _workloads(ref: Ref) -> list[_About]:
    by_label = {"subject": "workload", "kind": ref.kind}
    return [
        _About(str(ref), by_label),
        _About(str(ref), {**by_label, "namespace": ref.namespace, "workload": ref.name}),
    ]


def _ask(queries: Queries, option: str, series: str, abouts: Sequence[_About], folder: Path) -> Answers:
    """The samples of the first of these that the answer is about."""
    now, file, reasons = time.time(), folder / f"{option}.csv", []
    steps = TimeRange(now - queries.since, now, queries.step)
    for about in abouts:
        source = _source(queries, option, series, about)
        try:
            recorded = asyncio.run(write_recording(source, Selection([series], steps, about.key), file, now))
        except NoSampleError as error:
            if error.others:
                raise
            reasons += [reason for reason in error.faults.values() if reason not in reasons]
            continue
        if recorded.rows[series] > MOST:
            raise ConfigError("", option, f"must give at most {MOST} samples: a longer --step gives fewer")
        return Answers(load(file), about.key, tuple(f"{option}: {fault}" for fault in recorded.faults.values()))
    if not reasons:
        raise UnavailableError(f"{option}: there is no sample in that time")
    labels = [" and ".join(_source(queries, option, series, about).series[0].roles().values()) for about in abouts]
    named = ", or ".join(f"the labels {each}" for each in labels if each)
    raise UnavailableError(f"{option}: must give one series, or {named}: {'; '.join(reasons)}")


def _source(queries: Queries, option: str, series: str, about: _About) -> Prometheus:
    query = queries.query if option == "--query" else queries.replicas_query
    table = {"name": series, "query": query, **about.table}
    options = {"name": option, "url": queries.url, "series": [table], "max_bytes": ANSWER_BYTES}
    try:
        return convert({"type": "prometheus", **options}, Prometheus, "")
    except ConfigError as error:
        mistake = error.each[0]
        named = "--prometheus" if mistake.key == "url" else option
        raise ConfigError("", named, mistake.problem) from None
