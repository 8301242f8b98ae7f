"""Lists the rights that settings and policies need: the features that are on, where, and for whom.

Knows settings and policies as they are decoded, and the table of rights; does not ask the cluster.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from elasticd.cluster.kubernetes import Kubernetes, own_namespace
from elasticd.config.settings import Settings
from elasticd.model import rights
from elasticd.model.jobs import JOB_KIND
from elasticd.model.policy import Policy, PoolPolicy
from elasticd.model.rights import Feature
from elasticd.ports.cluster import Kind
from elasticd.registry import hooks_of, implemented
from elasticd.sources.resource_metrics import ResourceMetrics

Resources = Mapping[Kind, tuple[str, str]]
"""The API group and the plural resource name of each kind."""

_MOVING = {"select_victims", "rebind_pods", "rebalance_nodes"}
_OF_SOURCES = {
    "kubelet": rights.KUBELETS, "node-rates": rights.KUBELETS, "pull-rate": rights.PULLS,
    "custom-metrics": rights.CUSTOM, "external-metrics": rights.EXTERNAL,
}  # fmt: skip


class Need(NamedTuple):
    """A feature that is on, in a namespace (empty: in all), and the policy, source or file that turns it on."""

    feature: Feature
    namespace: str
    by: str


def home(cluster: Kubernetes) -> str:
    """The daemon's own namespace."""
    return cluster.lease.namespace or own_namespace()


def kinds(policies: Iterable[Policy | PoolPolicy]) -> frozenset[Kind]:
    """The kinds of workloads that policies are about."""
    about = [policy.workload or policy.select for policy in policies if isinstance(policy, Policy)]
    return frozenset((target.api_version, target.kind) for target in about if target is not None)


def needed(
    settings: Settings, cluster: Kubernetes, policies: Sequence[Policy | PoolPolicy], resources: Resources
) -> list[Need]:
    """The features that settings and policies turn on."""
    spaces = cluster.namespaces or ("",)
    features = [*_reading(settings, policies, resources)]
    acting = [] if settings.dry_run else [policy for policy in policies if policy.mode == "act"]
    needs = [Need(feature, space, by) for feature, by in features for space in _namespaces_of(feature, spaces)]
    if cluster.lease.enabled and not settings.dry_run:
        needs.append(Need(rights.leading(cluster.lease.name), home(cluster), "elasticd.toml"))
    for policy in acting:
        writing = _pool(policy) if isinstance(policy, PoolPolicy) else _workload(policy, resources)
        for feature in writing:
            about = [home(cluster)] if feature.place == "home" else _spaces(policy, spaces)
            needs += [Need(feature, space, policy.name) for space in about]
    moving = [policy.name for policy in acting if isinstance(policy, PoolPolicy) and _moves(policy)]
    needs += [Need(rights.BUDGETS, space, name) for name in moving for space in spaces]
    return list(dict.fromkeys(needs))


def _namespaces_of(feature: Feature, spaces: Sequence[str]) -> Sequence[str]:
    """The namespaces to ask about a feature. Nodes are in none, so a feature about them alone is cluster-wide."""
    return ("",) if feature in (rights.NODES, rights.NODE_USAGE, rights.KUBELETS) else spaces


def _reading(
    settings: Settings, policies: Sequence[Policy | PoolPolicy], resources: Resources
) -> Iterator[tuple[Feature, str]]:
    """The features that only read, with who turns them on."""
    yield from ((feature, "elasticd") for feature in (rights.PODS, rights.NODES, rights.AUTOSCALERS))
    for policy in (policy for policy in policies if isinstance(policy, Policy)):
        for kind in kinds([policy]):
            if kind == JOB_KIND:
                yield rights.SEEING_JOBS, policy.name
            elif kind in resources:
                yield rights.seeing(*resources[kind]), policy.name
    for source in settings.sources:
        if isinstance(source, ResourceMetrics):
            yield rights.USAGE, source.label
            if source.nodes:
                yield rights.NODE_USAGE, source.label
        elif (tag := str(source.__struct_config__.tag)) in _OF_SOURCES:
            yield _OF_SOURCES[tag], source.label


def _workload(policy: Policy, resources: Resources) -> Iterator[Feature]:
    """The features by which a policy about workloads writes."""
    hooks = hooks_of(policy.strategies)
    if policy.job is not None:
        yield rights.JOBS
    yield rights.EVENTS
    for kind in kinds([policy]) & resources.keys():
        if "recommend_replicas" in hooks:
            yield rights.scaling(*resources[kind])
            if policy.replicas.min == 0:
                yield rights.sleeping(*resources[kind])
    if "rank_pods" in hooks:
        yield rights.VICTIMS
    sizing = [strategy for strategy in policy.strategies if "recommend_resources" in implemented(type(strategy))]
    if any(getattr(strategy, "mode", "apply") == "apply" for strategy in sizing):
        yield rights.VERTICAL


def _pool(policy: PoolPolicy) -> Iterator[Feature]:
    """The features by which a policy about pods writes."""
    yield rights.BINDING
    yield rights.RECORDS
    if not _moves(policy):
        return
    yield rights.EVICTING
    if policy.moves.bare:
        yield rights.RESTORING
    if policy.moves.surge:
        yield rights.VICTIMS
        yield rights.scaling("apps", "deployments")
        yield rights.sleeping("apps", "deployments")


def _moves(policy: PoolPolicy) -> bool:
    """Whether a policy may evict running pods."""
    return bool(hooks_of(policy.strategies) & _MOVING)


def _spaces(policy: Policy | PoolPolicy, spaces: Sequence[str]) -> Sequence[str]:
    """The namespaces that a policy writes to."""
    if isinstance(policy, PoolPolicy):
        namespaces: Sequence[str] = policy.pool.namespaces
    elif policy.workload is not None:
        namespaces = (policy.workload.namespace,)
    else:
        namespaces = policy.select.namespaces if policy.select is not None else ()
    return spaces if "*" in namespaces else namespaces
