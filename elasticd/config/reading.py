"""Reads policies, of a folder or alone, with every mistake in them, between them, and between them and elasticd.toml.

Knows that a plugin may do anything while its options are decoded; knows nothing of what is running, nor of what a
source answers.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from elasticd.base.errors import ConfigError, is_interrupt, near
from elasticd.base.text import raised, shown
from elasticd.cluster.kubernetes import Kubernetes
from elasticd.config.files import policy_files, read_toml
from elasticd.config.policies import decode_policy
from elasticd.config.settings import Settings
from elasticd.config.tables import no_such
from elasticd.model.policy import Policy, PoolPolicy, PoolSelect, Strategy
from elasticd.model.workload import group_of
from elasticd.ports.source import Source
from elasticd.registry import Registry
from elasticd.sources.settled import guarded, settled

_MANY = 12
"""Up to so many series are listed by name; of more, only the number is given."""

Read = tuple[list[Policy | PoolPolicy], list[ConfigError]]


def read_policies(
    folder: Path,
    registry: Registry,
    settings: Settings | None = None,
    files: Sequence[Path] | None = None,
    named_in: str = "",
) -> Read:
    """The policies of a folder, those about workloads first, and every mistake in them; of `files` alone, if given.
    `named_in`: the elasticd.toml that names the folder, so that a folder that is not there is a mistake in that file.
    Whatever a plugin raises while its options are decoded is a mistake; with `settings`, so is a series or source that
    a policy needs and no source provides."""
    try:
        policies, errors = _read(policy_files(folder, named_in) if files is None else files, folder, registry)
        if settings is not None:
            errors += [
                ConfigError(str(folder / f"{policy.name}.toml"), key, problem)
                for policy in policies
                for key, problem in (*_missing_sources(policy, settings, registry), *_missing_pods(policy, settings))
            ]
        return policies, errors
    except ConfigError as error:
        return [], [*error.each]
    except BaseException as error:  # sys.exit in a plugin must not end the daemon
        if is_interrupt(error):
            raise
        return [], [ConfigError(str(folder), "", f"a plugin must decode its options, raised {raised(error)}")]


def _read(files: Sequence[Path], folder: Path, registry: Registry) -> Read:
    policies, pools = list[Policy](), list[PoolPolicy]()
    errors, pool_errors = list[ConfigError](), list[ConfigError]()
    for path in files:
        about = errors
        try:
            tables = read_toml(path)
            about = pool_errors if "pool" in tables else errors
            policy = guarded(partial(decode_policy, path, tables, registry), str(path), "")
        except ConfigError as error:
            about += error.each
            continue
        if isinstance(policy, PoolPolicy):
            pools.append(policy)
        else:
            policies.append(policy)
    errors += [*_clashes(folder, policies), *pool_errors, *_pool_clashes(folder, pools)]
    return [*policies, *pools], errors


def _clashes(folder: Path, policies: list[Policy]) -> list[ConfigError]:
    """A mistake for each policy that acts on a workload of an earlier one, as far as the files alone can tell. Only the
    cluster knows labels; overlaps are checked there again."""
    errors, takers = [], dict[tuple[object, ...], Policy]()
    for policy in policies:
        if policy.mode != "act":
            continue
        taken, rivals = _scopes(policy)
        if rival := next((takers[scope] for scope in rivals if scope in takers), None):
            problem = f"must not be one that {rival.name}.toml acts on too"
            key = "job" if policy.job else "workload" if policy.workload else "select"
            errors.append(ConfigError(str(folder / f"{policy.name}.toml"), key, problem))
        for scope in taken:
            takers.setdefault(scope, policy)
    return errors


def _scopes(policy: Policy) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    """What a policy is about, and what others are about that certainly share a workload with it."""
    target, select = policy.workload, policy.select
    if target is not None:
        kind, own = (group_of(target.api_version), target.kind), ("workload", target.ref.unversioned)
        named = [("named", kind, namespace) for namespace in (target.namespace, "*")]
        return [own, *named], [own, *(("all", kind, namespace) for namespace in (target.namespace, "*"))]
    assert select is not None, "a policy is about one workload or many"  # noqa: S101
    kind, equal = (group_of(select.api_version), select.kind), ("select", msgspec.json.encode(select))
    if select.labels:
        return [equal], [equal]
    everything = [("all", kind, namespace) for namespace in select.namespaces]
    return [equal, *everything], [*(("named", kind, namespace) for namespace in select.namespaces), equal]


def _pool_clashes(folder: Path, pools: list[PoolPolicy]) -> list[ConfigError]:
    """A mistake for each policy whose pods another one places, as far as the files alone can tell."""
    errors = []
    acting = [policy for policy in pools if policy.mode == "act"]
    for index, policy in enumerate(acting):
        rival = next((earlier for earlier in acting[:index] if _share_pods(earlier.pool, policy.pool)), None)
        if rival is not None:
            problem = f"must not be about pods that {rival.name}.toml places on the same nodes"
            errors.append(ConfigError(str(folder / f"{policy.name}.toml"), "pool", problem))
    return errors


def _share_pods(first: PoolSelect, second: PoolSelect) -> bool:
    """Whether all pods of one policy that are in a namespace of both are pods of the other too, on nodes of the other:
    then no label tells which is to place them."""
    if first.scheduler != second.scheduler:
        return False
    if not {*first.namespaces} & {*second.namespaces} and "*" not in (*first.namespaces, *second.namespaces):
        return False
    return _contains(first.labels, second.labels) and _contains(first.nodes, second.nodes)


def _contains(first: Mapping[str, str], second: Mapping[str, str]) -> bool:
    """Whether all that has the labels of one has those of the other."""
    return first.items() <= second.items() or second.items() <= first.items()


def _missing_sources(policy: Policy | PoolPolicy, settings: Settings, registry: Registry) -> Iterator[tuple[str, str]]:
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


def _missing_pods(policy: Policy | PoolPolicy, settings: Settings) -> Iterator[tuple[str, str]]:
    """What needs the pods of all namespaces: who knows some of a node's pods thinks that the others' room is free."""
    cluster = settings.cluster
    if not isinstance(cluster, Kubernetes) or not cluster.namespaces:
        return
    names = ", ".join(cluster.namespaces)
    problem = f"needs all pods on its nodes: cluster.namespaces in elasticd.toml must be empty, names {names}"
    if isinstance(policy, PoolPolicy):
        yield "pool", problem
        return
    yield from ((f"limit[{index}]", problem) for index, limit in enumerate(policy.limits) if limit.looks_at_nodes)


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
    types, present = [], {source.__struct_config__.tag for source in sources}
    for kind in sorted(registry.sources.keys() - present):
        with suppress(ConfigError):  # it has required options, or cannot say
            source = settled(registry.sources[kind].type, "", kind)
            if name in (source.offers() or source.usual_series or ()):
                types.append(kind)
    return f"; a source of type {' or '.join(types)} has it" if types else ""


def _option(value: Any, name: str, where: str = "") -> str:
    """The path of the first option, however deep, whose value is this name; empty if there is none."""
    if isinstance(value, dict):
        entries = [(f"{where}.{key}" if where else str(key), entry) for key, entry in value.items() if key != "type"]
    elif isinstance(value, list | tuple):
        entries = [(f"{where}[{index}]", entry) for index, entry in enumerate(value)]
    else:
        return where if value == name else ""
    return next(filter(None, (_option(entry, name, way) for way, entry in entries)), "")
