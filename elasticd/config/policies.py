"""Decodes one policy file into a policy about workloads or pods, or into one line for each mistake.

Knows the tables of a policy, and what of them can never work; knows nothing of other policies, nor of elasticd.toml.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from elasticd.base.decode import convert, shared_fields
from elasticd.base.errors import ConfigError, Mistakes, nearest
from elasticd.base.text import one_line, raised, shown
from elasticd.cluster.kubernetes.wire.jobs import TemplateError, check, hash_of, parse
from elasticd.config.files import read_text, read_toml, tables_of
from elasticd.config.tables import records
from elasticd.model.jobs import JOB_KIND
from elasticd.model.kinds import wrong_kind
from elasticd.model.pod_spec import possible, possible_key, possible_name, possible_namespace
from elasticd.model.policy import (
    Bounds,
    JobKeys,
    JobSet,
    Policy,
    PolicyKeys,
    PoolKeys,
    PoolPolicy,
    Select,
    Strategy,
    Target,
    Trust,
)
from elasticd.registry import Registry, hooks_of, implemented


class _JobTable(JobKeys, frozen=True, kw_only=True, forbid_unknown_fields=True):
    template: dict[str, Any] | None = None
    template_file: str | None = None

    def __post_init__(self) -> None:
        if (self.template is None) == (self.template_file is None):
            which = "neither is" if self.template is None else "both are"
            raise ValueError(f"template: must be given, or else template_file, {which}")


class _PolicyFile(PolicyKeys, frozen=True, kw_only=True, forbid_unknown_fields=True):
    strategy: Annotated[list[dict[str, Any]], Meta(min_length=1)]
    limit: tuple[dict[str, Any], ...] = ()
    job: _JobTable | None = None

    def __post_init__(self) -> None:
        tables = {"[workload]": self.workload, "[select]": self.select, "[job]": self.job}
        present = [name for name, table in tables.items() if table is not None]
        if len(present) > 1:  # that none is given is told of the file
            raise ValueError(f"workload: must be given, or else [select], [job] or [pool], {' and '.join(present)} are")
        for key, table in (("workload", self.workload), ("select", self.select)):
            if table is not None and (table.api_version, table.kind) == JOB_KIND:
                raise ValueError(f"{key}.kind: must have a scale subresource, is Job: [job] is for sets of Jobs")


class _PoolFile(PoolKeys, frozen=True, kw_only=True, forbid_unknown_fields=True):
    strategy: Annotated[list[dict[str, Any]], Meta(min_length=1)]


_KEYS = _PolicyFile.__struct_fields__
"""The keys of a policy about workloads."""

_ABOUT = {"workload", "select", "job"}
_SUBJECTS = ("pool", *_ABOUT)
_KNOWN = (*_KEYS, "pool")


def load_policy(path: Path, registry: Registry) -> Policy | PoolPolicy:
    """One policy file. Raises ConfigError for all that is wrong with it, a line each."""
    return decode_policy(path, read_toml(path), registry)


def decode_policy(path: Path, file: dict[str, Any], registry: Registry) -> Policy | PoolPolicy:
    """The policy of a file whose tables have been read. Raises ConfigError for all that is wrong, a line each."""
    return (_decode_pool if "pool" in file else _decode_workloads)(path, file, registry)


def restored_policy(text: bytes, registry: Registry) -> Policy:
    """The policy about workloads that was written as JSON, by this or an earlier version. Raises ConfigError for what
    can no longer be read, as where a plugin is not installed."""
    table = _without_nulls(msgspec.json.decode(text))
    name, job = table["name"], table.get("job")
    strategies = records(table.pop("strategies"), registry, name, "strategy")
    limits = records(table.pop("limits"), registry, name, "limit")
    keys = convert({key: value for key, value in table.items() if key not in ("name", "job")}, PolicyKeys, name)
    restored_job = None if job is None else convert(job, JobSet, name)
    return Policy(name=name, strategies=strategies, limits=limits, job=restored_job, **shared_fields(keys, PolicyKeys))


def _without_nulls(value: Any) -> Any:
    """Without what JSON writes for infinity and None: both are defaults, which no TOML can say."""
    if isinstance(value, dict):
        return {key: _without_nulls(entry) for key, entry in value.items() if entry is not None}
    return [_without_nulls(entry) for entry in value] if isinstance(value, list) else value


def _decode_pool(path: Path, file: dict[str, Any], registry: Registry) -> PoolPolicy:
    name, mistakes = str(path), Mistakes()
    beside = [key for key in file if key in _KEYS and key not in _PoolFile.__struct_fields__]
    mistakes.add(ConfigError(name, key, "must not stand beside [pool], does") for key in beside)
    with mistakes.collected():
        raw = convert({key: value for key, value in file.items() if key not in beside}, _PoolFile, name)
    with mistakes.collected():
        strategies = records(tables_of(file, "strategy"), registry, name, "strategy", "pool")
    mistakes.raised()
    policy = PoolPolicy(name=path.stem, strategies=strategies, **shared_fields(raw, PoolKeys))
    mistakes.add(impossible_pool(policy, registry, name))
    mistakes.raised()
    return policy


def _decode_workloads(path: Path, file: dict[str, Any], registry: Registry) -> Policy:
    name, mistakes, strategies = str(path), Mistakes(), None
    mistakes.add(_wrong_keys(file, name))
    if not file or any(_meant_key(key) == "pool" for key in file):
        mistakes.raised()
    meant = {key: _meant_key(key) for key in file}
    file = {meant[key] or key: value for key, value in file.items() if not meant[key] or meant[key] not in file}
    if "job" in file and isinstance(file.get("replicas"), dict):
        file["replicas"] = {"min": 0, **file["replicas"]}  # without work there are no Jobs
    with mistakes.collected():
        raw = convert({key: value for key, value in file.items() if key in _KEYS}, _PolicyFile, name)
    with mistakes.collected():
        strategies = records(tables_of(file, "strategy"), registry, name, "strategy")
    with mistakes.collected():
        limits = records(tables_of(file, "limit"), registry, name, "limit")
    if mistakes.found or strategies is None:
        mistakes.add(impossible(name, strategies=strategies, **_decodable(file)))
        mistakes.raised()
    job = None if raw.job is None else _job_set(raw.job, path)
    keys = shared_fields(raw, PolicyKeys) | ({} if job is None else {"workload": job.target})
    policy = Policy(name=path.stem, strategies=strategies, limits=limits, job=job, **keys)
    for key, decoded in (("strategy", strategies), ("limit", limits)):
        for index, record in enumerate(decoded):
            mistakes.add(_check_under(policy, record, name, f"{key}[{index}]"))
    mistakes.add(sleeping(policy, name))
    mistakes.add(impossible(name, policy.workload, policy.select, policy.replicas, policy.trust, strategies))
    mistakes.raised()
    return policy


def _decodable(file: Mapping[str, Any]) -> dict[str, Any]:
    tables = {}
    for key, kind in (("workload", Target), ("select", Select), ("replicas", Bounds), ("trust", Trust)):
        with suppress(ConfigError):
            if key in file:
                tables[key] = convert(file[key], kind, "")
    return tables


def _wrong_keys(file: Mapping[str, Any], name: str) -> Iterator[ConfigError]:
    """Unknown keys, and a file that does not say which workloads it is about."""
    for key in file:
        if key not in _KEYS:
            problem = f"no such key{nearest(key[:60], _KNOWN)}"
            yield ConfigError(name, one_line(key), "must stand beside [pool], does not" if key == "moves" else problem)
    if not _ABOUT & file.keys() and not any(_meant_key(key) in _SUBJECTS for key in file):
        is_ = "none of them is" if file else "the file is empty"
        yield ConfigError(name, "workload", f"must be given, or else [select], [job] or [pool], {is_}")


def _meant_key(key: str) -> str:
    """The table without which there is no policy that a misspelt key stands for; empty if it stands for none."""
    guess = "" if key in _KNOWN else nearest(key[:60], _KNOWN)
    return next((table for table in (*_SUBJECTS, "replicas", "strategy") if f'"{table}"' in guess), "")


def _check_under(policy: Policy, record: Strategy, file: str, key: str) -> list[ConfigError]:
    try:
        answer = record.check(policy)
        problems = [answer] if isinstance(answer, str) else [*(answer or ())]
        parts = [problem.partition(": ") for problem in problems]
    except BaseException as error:  # sys.exit, too
        return [ConfigError(file, key, f"must be something its type can check, raised {raised(error)}")]
    return [
        ConfigError(file, f"{key}.{option}" if text else key, one_line(text or option)) for option, _, text in parts
    ]


def _job_set(table: _JobTable, path: Path) -> JobSet:
    """A job set with its template, which may be a file beside the policy's."""
    file, key, manifest = str(path), "job.template", table.template
    try:
        if table.template_file is not None:
            beside = path.parent / Path(table.template_file).expanduser()
            text = read_text(beside)
            file, key = str(beside), ""
            manifest = parse(text)
        checked = check(manifest, table.namespace)
    except TemplateError as error:
        raise ConfigError(file, ".".join(filter(None, (key, error.key))), error.problem) from None
    return JobSet(manifest=checked, template=hash_of(checked), **shared_fields(table, JobKeys))


Problems = Iterator[tuple[str, str]]
"""Keys, each with what is wrong with it."""

_COUNTING = {"recommend_replicas", "recommend_resources"}


def impossible(
    file: str,
    workload: Target | None = None,
    select: Select | None = None,
    replicas: Bounds | None = None,
    trust: Trust | None = None,
    strategies: Sequence[Strategy] | None = None,
) -> list[ConfigError]:
    """A ConfigError for each option of a policy about workloads that no cluster and no source could make work. What
    is not given, or could not be decoded, is None."""
    problems = [
        *(_of_target(workload) if workload else ()),
        *(_of_select(select) if select else ()),
        *(_no_recommendation(strategies) if strategies else ()),
        *(_out_of_bounds(trust, replicas) if trust and replicas else ()),
    ]
    return [ConfigError(file, key, problem) for key, problem in problems]


def impossible_pool(policy: PoolPolicy, registry: Registry, file: str) -> list[ConfigError]:
    """A ConfigError for each option of a policy about pods that no cluster could make work."""
    pool = policy.pool
    problems = [
        *_no_filter(policy.strategies, registry),
        *_duplicates(policy.strategies),
        *_namespaces("pool", pool.namespaces),
        *_labels("pool.labels", pool.labels),
        *_labels("pool.nodes", pool.nodes),
    ]
    return [ConfigError(file, key, problem) for key, problem in problems]


def _of_target(target: Target) -> Problems:
    if not possible_namespace(target.namespace):
        yield "workload.namespace", f"must be the name of a namespace, is {shown(target.namespace)}"
    if not possible_name(target.name):
        yield "workload.name", f"must be the name of an object, is {shown(target.name)}"
    yield from _kind("workload", target.api_version, target.kind)


def _of_select(select: Select) -> Problems:
    yield from _namespaces("select", select.namespaces)
    yield from _labels("select.labels", select.labels)
    yield from _kind("select", select.api_version, select.kind)


def _kind(key: str, api_version: str, kind: str) -> Problems:
    if (api_version, kind) == JOB_KIND:
        return  # reported by the table itself: Jobs have a table of their own
    if problem := wrong_kind(api_version, kind):
        yield f"{key}.{problem[0]}", problem[1]


def _namespaces(key: str, names: Sequence[str]) -> Problems:
    for index, name in enumerate(names):
        if name != "*" and not possible_namespace(name):
            yield f"{key}.namespaces[{index}]", f"must be the name of a namespace, is {shown(name)}"


def _labels(key: str, labels: Mapping[str, str]) -> Problems:
    for name, value in labels.items():
        if not possible_key(name):
            yield key, f"must have names that labels can have, has {shown(name)}"
        elif not possible((value,)):
            yield f"{key}.{name}", f"must be what a label can be, is {shown(value)}"


def _no_recommendation(strategies: Sequence[Strategy]) -> Problems:
    """Only strategies that say how often to run, or which pods go first, and none that recommends a count."""
    if not hooks_of(strategies) & _COUNTING:
        names = ", ".join(dict.fromkeys(str(strategy.__struct_config__.tag) for strategy in strategies))
        yield "strategy", f"must have one that says how many replicas are wanted, such as hpa, has only {names}"


def _out_of_bounds(trust: Trust, bounds: Bounds) -> Problems:
    """A fallback count outside of the policy's bounds, which are applied last and would change it."""
    count = trust.replicas
    if count is not None and not bounds.min <= count <= bounds.max:
        reason = f'for unknown = "{trust.unknown}"'
        yield "trust.replicas", f"must be from replicas.min = {bounds.min} to max = {bounds.max} {reason}, is {count}"


def _no_filter(strategies: Sequence[Strategy], registry: Registry) -> Problems:
    """A pool without a strategy that filters nodes: pods could go onto full nodes, or onto ones that are not ready."""
    if not any(strategy.keeps_off for strategy in strategies):
        capable = sorted(name for name, installed in registry.strategies.items() if installed.type.keeps_off)
        which = f" ({', '.join(capable)})" if capable else ""
        yield "strategy", f"must have one that keeps pods off nodes that cannot take them{which}, has none"


def _duplicates(strategies: Sequence[Strategy]) -> Problems:
    first: dict[type[Strategy], int] = {}
    for index, strategy in enumerate(strategies):
        if strategy.alone and type(strategy) in first:
            kind = type(strategy).__struct_config__.tag
            problem = f'must be the only "{kind}" of a policy, is the second after strategy[{first[type(strategy)]}]'
            yield f"strategy[{index}].type", problem
        first.setdefault(type(strategy), index)


def sleeping(policy: Policy, file: str) -> list[ConfigError]:
    """Refuse a minimum of 0 if no strategy could wake the workload, as the API server refuses it for an HPA without an
    Object or External metric."""
    if policy.replicas.min > 0 or policy.job:
        return []
    recommending = [strategy for strategy in policy.strategies if "recommend_replicas" in implemented(type(strategy))]
    reasons = []
    for strategy in recommending:
        name = strategy.__struct_config__.tag
        try:
            reasons.append((name, strategy.sleeps()))
        except Exception as error:
            problem = f"must have strategies that can say whether they sleep; {name} raised {raised(error)}"
            return [ConfigError(file, "replicas.min", problem)]
    if not reasons or not all(why for _, why in reasons):
        return []
    text = "; ".join(dict.fromkeys(f"{name} {why}" for name, why in reasons))
    return [ConfigError(file, "replicas.min", f"must be >= 1, as nothing could wake it from 0: {text}; is 0")]
