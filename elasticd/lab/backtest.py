"""What `elasticd backtest` plays: the demand that a recording or a Prometheus shows, on a simulated cluster with room
for everything.

Knows recordings and policy files; knows nothing of what happens in a run.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from itertools import groupby
from math import isnan
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct
from msgspec.structs import replace

from elasticd.base.decode import convert
from elasticd.base.errors import ConfigError
from elasticd.cluster.simulated import Simulated
from elasticd.cluster.simulated.demand import Demand, total
from elasticd.cluster.simulated.options import Delay, Quantity, amount, check_amounts
from elasticd.config import LONGEST, ScenarioSettings, Settings
from elasticd.lab.ideal import Counts
from elasticd.lab.queries import Queries, ask_load, ask_replicas
from elasticd.lab.scenario import Candidate, Scenario, candidates
from elasticd.model.workload import Ref
from elasticd.ports.source import Source
from elasticd.registry import Registry
from elasticd.sources.recorded import Recording
from elasticd.sources.recorded import load as read
from elasticd.sources.recorded.files import FORMATS
from elasticd.sources.recording import RecordingSource
from elasticd.sources.resource_metrics import ResourceMetrics

Positive = Annotated[float, Meta(gt=0, le=86400)]

NOISE = 0.05
"""Of what a pod is measured to use, so that seeds differ: real pods are not loaded equally."""

_ROOM = [{"name": "node", "cpu": "1000000", "memory": "10000000Gi", "pods": 100000}]


class Options(Struct, frozen=True, kw_only=True):
    """What a recording does not tell: what a pod requests, what it can use, and how long it takes to be ready."""

    cpu: Quantity
    cpu_limit: Quantity | None = None
    start_seconds: Delay = 30.0
    resolution: Positive = 15.0
    series: Annotated[str, Meta(min_length=1)] = "cpu"
    max_age: Positive = 120.0
    step: Positive = 60.0
    seeds: Annotated[int, Meta(ge=1, le=1000)] = 1

    def __post_init__(self) -> None:
        check_amounts(self, "cpu", "cpu_limit")
        for name in ("cpu", "cpu_limit"):
            if (quantity := getattr(self, name)) is not None and amount(name, quantity) == 0:
                raise ValueError(f"{name}: must be > 0, is {quantity}")


def options_of(given: Mapping[str, Any]) -> Options:
    """The options of a command line, by name. Raises ConfigError."""
    try:
        return convert(dict(given), Options, "")
    except ConfigError as error:
        mistake = error.each[0]
        raise ConfigError("", f"--{mistake.key.replace('_', '-')}", mistake.problem) from None


class Load(NamedTuple):
    """What a recording says of one workload: the keys in it whose sum is the demand, and how many pods there were;
    nothing of them where it has no pods. `name` is what messages call it."""

    name: str
    rows: Recording
    key: str
    counts: Counts


class Backtest(Struct, frozen=True):
    """A scenario about one workload, and the counts that the recording shows; none where it has no pods."""

    scenario: Scenario
    workload: Ref
    counts: Counts


def load_backtest(
    recording: Path | Queries, policies: Sequence[Path], registry: Registry, options: Options
) -> Backtest:
    """The scenario of a recording, or of what a Prometheus remembers. Raises ConfigError for all that is wrong, a line
    each, and UnavailableError where the Prometheus gives no answer.

    The demand is what the workload's pods used together, or what the workload did where the series is of workloads. It
    is what was *served*: where pods were at their limit, more may have been asked for, and that cannot be known.
    """
    if isinstance(recording, Queries):
        return _of_queries(recording, policies, registry, options)
    return _of_file(recording, policies, registry, options)


def _of_file(recording: Path, policies: Sequence[Path], registry: Registry, options: Options) -> Backtest:
    if recording.suffix.lower() not in FORMATS:
        raise ConfigError("", "--recording", f"must end in one of {', '.join(FORMATS)}, is {recording}")
    rows = read(recording)
    sources = (ResourceMetrics(resolution=options.resolution), *_other_series(recording, rows, options.series))
    tried = _candidates(policies, registry, sources)
    ref = _one_workload(policies, tried)
    rows = _without_others(rows, ref, options.series)
    key = _key(recording, rows, ref, options.series)
    load = Load(str(recording), rows, key, _counts(rows, options, key))
    scenario = Scenario(_cluster(ref, load, options), _table(load, options), sources, tried)
    return Backtest(scenario, ref, load.counts)


def _of_queries(queries: Queries, policies: Sequence[Path], registry: Registry, options: Options) -> Backtest:
    sources = (ResourceMetrics(resolution=options.resolution),)
    tried = _candidates(policies, registry, sources)
    ref = _one_workload(policies, tried)
    options = replace(options, max_age=max(options.max_age, 2 * queries.step))
    with TemporaryDirectory(prefix="elasticd-") as folder:
        rows, key, faults = ask_load(queries, ref, options.series, Path(folder))
        counts = ask_replicas(queries, ref, Path(folder)) if queries.replicas_query else _counts(rows, options, key)
    load = Load("--query", rows, key, counts)
    scenario = Scenario(_cluster(ref, load, options), _table(load, options), sources, tried, faults)
    return Backtest(scenario, ref, counts)


def _candidates(policies: Sequence[Path], registry: Registry, sources: tuple[Source, ...]) -> tuple[Candidate, ...]:
    cluster = convert({"type": "simulated", "nodes": _ROOM}, Simulated, "")
    settings = Settings(cluster=cluster, sources=sources, policies=Path(), state=Path())
    return tuple(candidates(policies, registry, settings))


def _cluster(ref: Ref, load: Load, options: Options) -> Simulated:
    """A cluster with room for everything, on which the workload has the recorded demand. The demand is in it, and not
    only its file, so that a run needs no file."""
    table = {
        "namespace": ref.namespace,
        "kind": ref.kind,
        "api_version": ref.api_version,
        "name": ref.name,
        "replicas": load.counts[0][1] if load.counts else 1,
        "cpu": options.cpu,
        "start_seconds": options.start_seconds,
        "started": True,
        **({"cpu_limit": options.cpu_limit} if options.cpu_limit else {}),
    }
    cluster = convert(
        {
            "type": "simulated",
            "nodes": _ROOM,
            "workloads": [table],
            "metrics": {"resolution": options.resolution, "noise": NOISE},
        },
        Simulated,
        "",
    )
    rows = total(load.rows, Path(load.name), options.series, load.key, options.max_age)
    if all(isnan(value) for _, value in rows):
        raise ConfigError(
            load.name, "", f"must have a usable value of series {options.series}, finite and >= 0, has none"
        )
    demand = Demand(table=tuple((time - load.rows.first, value) for time, value in rows))
    return replace(cluster, workloads=(replace(cluster.workloads[0], demand=demand),))


def _table(load: Load, options: Options) -> ScenarioSettings:
    """When and for how long it is played."""
    first, last = load.rows.first, load.rows.last
    if last - first < options.step:
        raise ConfigError(load.name, "", f"must cover a step of {options.step:g} s, covers {last - first:g} s")
    if last - first > LONGEST * 3600:
        dates = f"from {first:.10g} to {last:.10g} s since the epoch"
        raise ConfigError(
            load.name, "", f"must cover at most {LONGEST // 24} days, covers {(last - first) / 86400:.6g}, {dates}"
        )
    return ScenarioSettings(
        hours=(last - first) / 3600,
        start=datetime.fromtimestamp(first, UTC),
        step=options.step,
        seeds=options.seeds,
    )


def _one_workload(places: Sequence[Path], tried: Sequence[Candidate]) -> Ref:
    """The workload that all these policies are about."""
    refs: dict[Ref, str] = {}
    for place, candidate in zip(places, tried, strict=True):
        for policy in candidate.policies:
            target = getattr(policy, "workload", None)
            if target is None:
                raise ConfigError(str(place), "workload", "must be given for a backtest, is not")
            refs.setdefault(target.ref, str(place))
    first, *others = refs.items()
    if others:
        ref, other = others[0]
        raise ConfigError(other, "workload", f"must be {first[0]}, as in {first[1]}, is {ref}")
    return first[0]


_CHANCE = "[2456789bcdfghjklmnpqrstvwxz]"
"""A letter of what Kubernetes makes names of pods unique by."""

_SHAPES = {
    "Deployment": f"-{_CHANCE}{{6,10}}-{_CHANCE}{{5}}",
    "ReplicaSet": f"-{_CHANCE}{{5}}",
    "ReplicationController": f"-{_CHANCE}{{5}}",
    "StatefulSet": "-[0-9]+",
}
"""What the names of pods add to that of their workload, by its kind."""


def _without_others(rows: Recording, ref: Ref, series: str) -> Recording:
    """The recording without pods of others whose names begin like the workload's, as those of web-admin beside web. All
    stay where none is named as Kubernetes does it."""
    shape = re.compile(re.escape(f"{ref.namespace}/{ref.name}") + _SHAPES.get(ref.kind, ".*"))
    own = {key: tracks for key, tracks in rows.pods.get(series, {}).items() if shape.fullmatch(key)}
    return rows._replace(pods={**rows.pods, series: own}) if own else rows


def _key(file: Path, rows: Recording, ref: Ref, series: str) -> str:
    """The pattern of the keys whose sum is the demand: the workload's own, or else those of its pods."""
    if str(ref) in rows.workloads.get(series, {}):
        return str(ref)
    pattern = f"{ref.namespace}/{ref.name}-*"
    if any(fnmatchcase(key, pattern) for key in rows.pods.get(series, {})):
        return pattern
    names = sorted({*rows.pods, *rows.workloads})
    found = f"has series {', '.join(names)}" if series not in names else "has none"
    raise ConfigError(str(file), "", f"must have samples of series {series} of {ref} or its pods, {found}")


def _other_series(file: Path, rows: Recording, demand: str) -> Iterator[RecordingSource]:
    """The recording as a source of what else it says of workloads."""
    if series := tuple(sorted(name for name in rows.workloads if name != demand)):
        yield RecordingSource(file=str(file), start="recorded", series=series)


def _counts(rows: Recording, options: Options, key: str) -> Counts:
    """How many pods there were, from a time on: those that had a sample in the last `max_age` seconds."""
    pods = [tracks[0] for name, tracks in rows.pods.get(options.series, {}).items() if fnmatchcase(name, key)]
    changes: list[tuple[float, int]] = []
    for track in pods:
        for index, time in enumerate(track.times):
            following = track.times[index + 1] if index + 1 < len(track.times) else float("inf")
            if index == 0 or time - track.times[index - 1] > options.max_age:
                changes.append((time, 1))
            if following - time > options.max_age and time + options.max_age <= rows.last:
                changes.append((time + options.max_age, -1))
    counts: list[tuple[float, int]] = []
    for time, group in groupby(sorted(changes), key=itemgetter(0)):
        counts.append((time, (counts[-1][1] if counts else 0) + sum(change for _, change in group)))
    return counts
