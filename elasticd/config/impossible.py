"""Finds what can never work in one policy: impossible names, counts out of bounds, strategies that are missing.

Knows policies as they are decoded; knows nothing of sources, nor of what is running.
"""

from collections.abc import Iterator, Mapping, Sequence

from elasticd.base.errors import ConfigError
from elasticd.base.text import raised, shown
from elasticd.model.jobs import JOB_KIND
from elasticd.model.kinds import wrong_kind
from elasticd.model.pod_spec import possible, possible_key, possible_name, possible_namespace
from elasticd.model.policy import Bounds, Policy, PoolPolicy, Select, Strategy, Target, Trust
from elasticd.registry import Registry, hooks_of, implemented

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
