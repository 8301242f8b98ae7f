"""Finds what policies need and no source in elasticd.toml provides: sources by name, series, forecasts.

Knows policies and settings as they are decoded; knows nothing of what a source answers.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from elasticd.base.errors import ConfigError, near
from elasticd.base.text import shown
from elasticd.cluster.kubernetes import Kubernetes
from elasticd.config.settings import Settings
from elasticd.config.tables import no_such
from elasticd.model.policy import Policy, PoolPolicy, Strategy
from elasticd.ports.source import Source
from elasticd.registry import Registry
from elasticd.sources.settled import settled

_MANY = 12
"""Up to so many series are listed by name; of more, only the number is given."""


def check_sources(
    folder: Path, policies: Sequence[Policy | PoolPolicy], settings: Settings, registry: Registry
) -> list[ConfigError]:
    """A ConfigError for every source and every series that a policy names and no source has, as far as sources can say
    what they have."""
    return [
        ConfigError(str(folder / f"{policy.name}.toml"), key, problem)
        for policy in policies
        for key, problem in _mistakes_of(policy, settings, registry)
    ]


def _mistakes_of(policy: Policy | PoolPolicy, settings: Settings, registry: Registry) -> Iterator[tuple[str, str]]:
    labels, trusted = [source.label for source in settings.sources], policy.trust.sources
    unknown = [(index, label) for index, label in enumerate(trusted) if label not in labels]
    yield from ((f"trust.sources[{index}]", no_such(label, labels)) for index, label in unknown)
    if unknown or not isinstance(policy, Policy):
        return
    sources = [source for source in settings.sources if not trusted or source.label in trusted]
    simulated = not isinstance(settings.cluster, Kubernetes)
    offers = {source.label: offered(source, simulated=simulated) for source in sources}
    for key, records in (("strategy", policy.strategies), ("limit", policy.limits)):
        for index, record in enumerate(records):
            for option, problem in _missing_series(record, sources, offers, registry):
                yield ".".join(filter(None, (f"{key}[{index}]", option))), problem


def offered(source: Source, *, simulated: bool) -> tuple[str, ...] | None:
    """The series that a source has; None if it cannot say. A simulated cluster's own metrics may have any."""
    offers = source.offers()
    return source.usual_series if offers is None and not simulated else offers


def _missing_series(
    record: Strategy, sources: Sequence[Source], offers: Mapping[str, tuple[str, ...] | None], registry: Registry
) -> Iterator[tuple[str, str]]:
    """The options of a strategy that name a series which none of the sources has, and what is wrong with each."""
    names = record.reads() or ()
    if record.wants_forecasts:
        sources = [source for source in sources if source.forecasts]
    series = sorted({name for source in sources for name in offers[source.label] or ()})
    if any(offers[source.label] is None for source in sources):
        return
    for name in dict.fromkeys(name for name in names if name not in series):
        option = _option(msgspec.to_builtins(record), name)
        problem = f"is {shown(name)}" if option else f"reads {shown(name)}"
        choice = _choice(sources, series, "a forecast" if record.wants_forecasts else "a series")
        yield option, f"must be {choice}, {problem}{near(name, series)}{_hint(name, sources, registry)}"


def _choice(sources: Sequence[Source], series: Sequence[str], noun: str) -> str:
    if not sources:
        return f"{noun}, of which elasticd.toml has no source"
    which = f" ({', '.join(series)})" if 0 < len(series) <= _MANY else f" ({len(series)} series)"
    return f"{noun} of {', '.join(source.label for source in sources)}{which}"


def _hint(name: str, sources: Iterable[Source], registry: Registry) -> str:
    """Names the types of source that would have the series, among those that need no options."""
    types = []
    for kind, installed in registry.sources.items():
        try:
            source = settled(installed.type, "", kind)
        except ConfigError:  # it has required options, or cannot say
            continue
        if name in (source.offers() or source.usual_series or ()) and kind not in {
            existing.__struct_config__.tag for existing in sources
        }:
            types.append(kind)
    return f"; a source of type {' or '.join(sorted(types))} has it" if types else ""


def _option(value: Any, name: str, where: str = "") -> str:
    """The path of the first option, however deep, whose value is this name; empty if there is none."""
    if isinstance(value, dict):
        entries = [(f"{where}.{key}" if where else str(key), entry) for key, entry in value.items() if key != "type"]
    elif isinstance(value, list | tuple):
        entries = [(f"{where}[{index}]", entry) for index, entry in enumerate(value)]
    else:
        return where if value == name else ""
    return next(filter(None, (_option(entry, name, way) for way, entry in entries)), "")
