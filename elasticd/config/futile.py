"""Finds options that can never work: impossible names, no strategy that counts replicas, counts outside of bounds.

Knows policies as they are decoded; knows nothing of sources, nor of what is running.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from elasticd.base.errors import ConfigError
from elasticd.base.text import shown
from elasticd.model.jobs import JOB_KIND
from elasticd.model.kinds import wrong_kind
from elasticd.model.pod_spec import possible, possible_key, possible_name, possible_namespace
from elasticd.model.policy import Bounds, Policy, PoolPolicy, Select, Strategy, Target, Trust
from elasticd.registry import implemented

_COUNTING = {"recommend_replicas", "recommend_resources"}


class PolicyParts(Struct, frozen=True):
    """A policy about workloads as far as it can be decoded; None where it cannot."""

    workload: Target | None = None
    select: Select | None = None
    strategies: tuple[Strategy, ...] | None = None
    replicas: Bounds | None = None
    trust: Trust | None = None


def parts_of(policy: Policy) -> PolicyParts:
    """The parts of a decoded policy; the names of a job set are checked elsewhere."""
    workload = None if policy.job else policy.workload
    return PolicyParts(workload, policy.select, policy.strategies, policy.replicas, policy.trust)


def futile(policy: PolicyParts | PoolPolicy, file: str) -> list[ConfigError]:
    """A ConfigError for each option that no cluster and no source could make work."""
    problems = _of_pool(policy) if isinstance(policy, PoolPolicy) else _of_workloads(policy)
    return [ConfigError(file, key, problem) for key, problem in problems]


def _of_pool(policy: PoolPolicy) -> Iterator[tuple[str, str]]:
    yield from _namespaces("pool", policy.pool.namespaces)
    yield from _labels("pool.labels", policy.pool.labels)
    yield from _labels("pool.nodes", policy.pool.nodes)


def _of_workloads(policy: PolicyParts) -> Iterator[tuple[str, str]]:
    if policy.workload is not None:
        target = policy.workload
        if not possible_namespace(target.namespace):
            yield "workload.namespace", f"must be the name of a namespace, is {shown(target.namespace)}"
        if not possible_name(target.name):
            yield "workload.name", f"must be the name of an object, is {shown(target.name)}"
        yield from _kind("workload", target.api_version, target.kind)
    if policy.select is not None:
        yield from _namespaces("select", policy.select.namespaces)
        yield from _labels("select.labels", policy.select.labels)
        yield from _kind("select", policy.select.api_version, policy.select.kind)
    if policy.strategies:
        yield from _no_recommendation(policy.strategies)
    if policy.trust and policy.replicas:
        yield from _out_of_bounds(policy.trust, policy.replicas)


def _kind(key: str, api_version: str, kind: str) -> Iterator[tuple[str, str]]:
    if (api_version, kind) == JOB_KIND:
        return  # reported by the table itself: Jobs have a table of their own
    if problem := wrong_kind(api_version, kind):
        yield f"{key}.{problem[0]}", problem[1]


def _namespaces(key: str, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    for index, name in enumerate(names):
        if name != "*" and not possible_namespace(name):
            yield f"{key}.namespaces[{index}]", f"must be the name of a namespace, is {shown(name)}"


def _labels(key: str, labels: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in labels.items():
        if not possible_key(name):
            yield key, f"must have names that labels can have, has {shown(name)}"
        elif not possible((value,)):
            yield f"{key}.{name}", f"must be what a label can be, is {shown(value)}"


def _no_recommendation(strategies: Sequence[Strategy]) -> Iterator[tuple[str, str]]:
    """Only strategies that say how often to run, or which pods go first, and none that recommends a count."""
    if not any(implemented(type(strategy)) & _COUNTING for strategy in strategies):
        names = ", ".join(dict.fromkeys(str(strategy.__struct_config__.tag) for strategy in strategies))
        yield "strategy", f"must have one that says how many replicas are wanted, such as hpa, has only {names}"


def _out_of_bounds(trust: Trust, bounds: Bounds) -> Iterator[tuple[str, str]]:
    """A fallback count outside of the policy's bounds, which are applied last and would change it."""
    count = trust.replicas
    if count is not None and not bounds.min <= count <= bounds.max:
        reason = f'for unknown = "{trust.unknown}"'
        yield "trust.replicas", f"must be from replicas.min = {bounds.min} to max = {bounds.max} {reason}, is {count}"
