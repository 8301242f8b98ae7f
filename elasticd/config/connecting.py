"""The command `check --connect`: tries the cluster, the rights in it (needed and needless), and each source.

Knows what is tried and how the findings read; changes nothing anywhere, and disturbs no daemon that runs beside it.
"""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from itertools import chain
from typing import Literal, NamedTuple

from msgspec import Struct

from elasticd.base.clock import Clock, WallClock
from elasticd.base.errors import ElasticdError, near
from elasticd.base.text import counted, one_line, raised
from elasticd.cluster.kubernetes import Kubernetes, own_namespace
from elasticd.cluster.kubernetes.access import Access, Asked
from elasticd.cluster.kubernetes.session import ApiError
from elasticd.config.settings import Settings
from elasticd.model import rights
from elasticd.model.controllers import ROLLING
from elasticd.model.jobs import JOB_KIND
from elasticd.model.policy import Policy, PoolPolicy
from elasticd.model.rights import FEATURES, Feature, Right
from elasticd.model.workload import Readings, Ref
from elasticd.ports.cluster import Cluster, Kind, Snapshot, scales_of
from elasticd.ports.metrics_api import MetricsReader
from elasticd.ports.source import Site, Source
from elasticd.registry import hooks_of, implemented
from elasticd.sources.resource_metrics import ResourceMetrics

PATIENCE = 10.0
"""Seconds that a source may take to be opened and read."""

_AGAIN = 0.2

_Resources = Mapping[Kind, tuple[str, str]]
"""The API group and the plural resource name of each kind."""

_OF_SOURCES = {
    "kubelet": rights.KUBELETS, "node-rates": rights.KUBELETS, "pull-rate": rights.PULLS,
    "custom-metrics": rights.CUSTOM, "external-metrics": rights.EXTERNAL,
}  # fmt: skip
_OF_NODES = (rights.NODES, rights.NODE_USAGE, rights.KUBELETS)
"""Features about nodes alone, which are in no namespace."""


class Finding(Struct, frozen=True):
    """The result of one trial, with what to do about it."""

    about: str
    result: Literal["ok", "failed", "missing", "needless", "absent", "skipped"]
    text: str

    @property
    def line(self) -> str:
        result = "" if self.result == "ok" else f"{self.result}: "
        return one_line(f"{self.about}: {result}{self.text}")

    @property
    def bad(self) -> bool:
        """Whether something will not work."""
        return self.result in ("failed", "missing")


class _Need(NamedTuple):
    """A feature that is on, in a namespace (empty: in all), and the policy, source or file that turns it on."""

    feature: Feature
    namespace: str
    by: str


async def connect(settings: Settings, policies: Sequence[Policy | PoolPolicy]) -> list[Finding]:
    """Try the cluster, the rights in it and each source once."""
    findings: list[Finding] = []
    if isinstance(settings.cluster, Kubernetes):
        try:
            async with settings.cluster.asked() as access:
                findings += await _rights(settings, settings.cluster, policies, access)
        except ElasticdError as error:
            findings.append(Finding("cluster", "failed", str(error).removeprefix("cluster: ")))
        except ApiError as error:
            findings.append(Finding("rights", "failed", f"cannot be asked for: {error}"))
    else:
        findings.append(Finding("cluster", "ok", "is simulated, so there is nothing to connect to"))
    if any(finding.about == "cluster" and finding.bad for finding in findings):
        why = "the cluster must answer first"
        return findings + [Finding(f"source {source.label}", "skipped", why) for source in settings.sources]
    return findings + await _look(settings, policies)


async def _rights(
    settings: Settings, cluster: Kubernetes, policies: Sequence[Policy | PoolPolicy], access: Access
) -> list[Finding]:
    findings = [Finding("cluster", "ok", f"{access.host} answers, version {access.version}")]
    resources: dict[Kind, tuple[str, str]] = {}
    for kind in sorted(_kinds(policies) - {JOB_KIND}):  # Jobs are created, not scaled
        resource = await access.resource(kind)
        if isinstance(resource, str):
            findings.append(Finding(_about(kind), "failed", resource))
        else:
            resources[kind] = resource
    needs = _needed(settings, cluster, policies, resources)
    required = [Asked(right, need.namespace) for need in needs for right in need.feature.rights]
    unneeded = _not_needed([*needs, *_possible(settings, policies, resources)], cluster)
    may = await access.allowed([Asked(rights.ANYTHING, ""), *required, *unneeded])
    problems = [*_missing(needs, may), *_needless(needs, unneeded, may)]
    fine = Finding("rights", "ok", f"all {len(set(required))} that are needed, and no others")
    return findings + (problems or [fine])


def _missing(needs: Sequence[_Need], may: Collection[Asked]) -> Iterator[Finding]:
    """A finding for each feature that lacks rights, with the file that grants them."""
    lacking: dict[tuple[Feature, tuple[Right, ...]], tuple[list[str], list[str]]] = {}
    for need in needs:
        if lack := tuple(right for right in need.feature.rights if Asked(right, need.namespace) not in may):
            spaces, users = lacking.setdefault((need.feature, lack), ([], []))
            spaces.append(need.namespace)
            users.append(need.by)
    for (feature, lack), (spaces, users) in lacking.items():
        names, by = ", ".join(dict.fromkeys(map(rights.where, spaces))), ", ".join(dict.fromkeys(users))
        text = f"{rights.listed(lack)} {names}, to {feature.purpose} (for {by})"
        yield Finding("rights", "missing", f"{text}: see config/kubernetes/{feature.file}")


def _not_needed(needs: Sequence[_Need], cluster: Kubernetes) -> dict[Asked, str]:
    """The rights that are not needed, each with the file that grants it; empty where no file does."""
    required = {right for need in needs for right in need.feature.rights}
    unneeded: dict[Asked, str] = {}
    for feature in FEATURES:
        where = _home(cluster) if feature.place == "home" else ""
        for right in feature.rights:
            if right not in required and right.resource != "leases":
                unneeded.setdefault(Asked(right, where), feature.file)
    unneeded |= {Asked(right, ""): "" for right in rights.NEVER}
    narrow = [need for need in needs if need.feature.place == "each"]
    wide = {right for need in narrow if not need.namespace for right in need.feature.rights}
    for need in narrow:
        unneeded |= {Asked(right, ""): need.feature.file for right in need.feature.rights if right not in wide}
    return unneeded


def _needless(needs: Sequence[_Need], unneeded: dict[Asked, str], may: Collection[Asked]) -> Iterator[Finding]:
    """A finding for each file whose rights are granted and not needed, at all or in that namespace."""
    if Asked(rights.ANYTHING, "") in may:
        text = "it may do anything: give elasticd an account of its own, with the rights of config/kubernetes/rbac.yaml"
        yield Finding("rights", "needless", text)
        return
    granted: dict[tuple[str, str], list[Right]] = {}
    for question, file in unneeded.items():
        if question in may:
            granted.setdefault((file, question.namespace), []).append(question.right)
    narrow = {right: need.namespace for need in needs if need.feature.place == "each" for right in need.feature.rights}
    for (file, namespace), extra in granted.items():
        only = ", ".join(dict.fromkeys(narrow[right] for right in extra if right in narrow))
        nobody = "nothing that is on needs it" if file else "elasticd never needs it"
        why = f"needed in {only} alone" if only else nobody
        of = f" (config/kubernetes/{file})" if file else ""
        yield Finding("rights", "needless", f"{rights.listed(tuple(extra))} {rights.where(namespace)}: {why}{of}")


def _home(cluster: Kubernetes) -> str:
    return cluster.lease.namespace or own_namespace()


def _kinds(policies: Iterable[Policy | PoolPolicy]) -> frozenset[Kind]:
    """The kinds of the workloads that policies are about, and of those whose pods they may move."""
    about = [policy.workload or policy.select for policy in policies if isinstance(policy, Policy)]
    kinds = {(target.api_version, target.kind) for target in about if target is not None}
    moves = any(isinstance(policy, PoolPolicy) and _moves(policy) for policy in policies)
    return frozenset(kinds | ROLLING if moves else kinds)


def _needed(
    settings: Settings, cluster: Kubernetes, policies: Sequence[Policy | PoolPolicy], resources: _Resources
) -> list[_Need]:
    spaces = cluster.namespaces or ("",)
    acting = [] if settings.dry_run else [policy for policy in policies if policy.mode == "act"]
    needs = [
        _Need(feature, space, by)
        for feature, by in _reading(settings, policies, resources)
        for space in (("",) if feature in _OF_NODES else spaces)
    ]
    if cluster.lease.enabled and not settings.dry_run:
        needs.append(_Need(rights.leading(cluster.lease.name), _home(cluster), "elasticd.toml"))
    for policy in acting:
        for feature in _pool(policy) if isinstance(policy, PoolPolicy) else _workloads(policy, resources):
            about = [_home(cluster)] if feature.place == "home" else _spaces(policy, spaces)
            needs += [_Need(feature, space, policy.name) for space in about]
    moving = [policy.name for policy in acting if isinstance(policy, PoolPolicy) and _moves(policy)]
    needs += [_Need(rights.BUDGETS, space, name) for name in moving for space in spaces]
    # Any pod that comes may select others by labels of their namespaces.
    needs += [_Need(rights.NAMESPACES, "", policy.name) for policy in acting if isinstance(policy, PoolPolicy)]
    return list(dict.fromkeys(needs))


def _possible(settings: Settings, policies: Sequence[Policy | PoolPolicy], resources: _Resources) -> list[_Need]:
    """What pods that may come would need, and others would not, or a scale-in that has had no answer: it is neither
    missing nor needless."""
    needs = list[_Need]()
    for policy in policies:
        if policy.mode != "act" or settings.dry_run:
            continue
        if isinstance(policy, PoolPolicy):
            features = [rights.VOLUMES, rights.CLAIMS]
        else:
            features = [rights.sleeping(*resources[kind]) for kind in _kinds([policy]) & resources.keys()]
        needs += [_Need(feature, "", policy.name) for feature in features]
    return needs


def _reading(
    settings: Settings, policies: Sequence[Policy | PoolPolicy], resources: _Resources
) -> Iterator[tuple[Feature, str]]:
    """The features that only read, with who turns them on."""
    yield from ((feature, "elasticd") for feature in (rights.PODS, rights.NODES, rights.AUTOSCALERS))
    if settings.http.token_review:
        yield rights.READERS, "elasticd"
    for policy in policies:
        for kind in sorted(_kinds([policy])):
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


def _workloads(policy: Policy, resources: _Resources) -> Iterator[Feature]:
    """The features by which a policy about workloads writes."""
    hooks = hooks_of(policy.strategies)
    if policy.job is not None:
        yield rights.JOBS
    yield rights.EVENTS
    for kind in _kinds([policy]) & resources.keys():
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
    yield rights.EVENTS
    yield rights.RECORDS
    yield rights.SEALING
    if not _moves(policy):
        return
    yield rights.EVICTING
    yield rights.CONTROLLERS
    if policy.moves.bare:
        yield rights.RESTORING
    if policy.moves.surge:
        yield rights.VICTIMS
        yield rights.scaling("apps", "deployments")
        yield rights.sleeping("apps", "deployments")


def _moves(policy: PoolPolicy) -> bool:
    """Whether a policy may evict running pods."""
    return bool(hooks_of(policy.strategies) & {"select_victims", "rebind_pods", "rebalance_nodes"})


def _spaces(policy: Policy | PoolPolicy, spaces: Sequence[str]) -> Sequence[str]:
    if isinstance(policy, PoolPolicy):
        namespaces: Sequence[str] = policy.pool.namespaces
    elif policy.workload is not None:
        namespaces = (policy.workload.namespace,)
    else:
        namespaces = policy.select.namespaces if policy.select is not None else ()
    return spaces if "*" in namespaces else namespaces


async def _look(settings: Settings, policies: Sequence[Policy | PoolPolicy]) -> list[Finding]:
    clock, findings = WallClock(), list[Finding]()
    try:
        async with settings.cluster.open(clock, elect=False) as cluster:
            snapshot = await cluster.observe(clock.now(), _kinds(policies))
            problems = cluster.problems()
            findings += _unwatched(problems)
            findings += _absent(snapshot, [policy for policy in policies if not _unread([policy], problems)])
            site = _site(settings, cluster, clock, snapshot, policies)
            tried = [_try(source, site) for source in settings.sources]
            findings += await asyncio.gather(*tried)
    except ElasticdError as error:
        findings.append(Finding("cluster", "failed", str(error).removeprefix("cluster: ")))
    return findings


def _about(kind: Kind) -> str:
    return f"kind {'/'.join(kind)}" if kind[0] else kind[1]


def _unread(policies: Sequence[Policy | PoolPolicy], problems: Mapping[Kind, str]) -> bool:
    """Whether some of their workloads may be there, and cannot be read."""
    return any(problems.keys() & {kind, scales_of(kind)} for kind in _kinds(policies))


def _unwatched(problems: Mapping[Kind, str]) -> Iterator[Finding]:
    """Kinds that cannot be watched, except for missing rights or kinds, which are reported already."""
    for kind, why in problems.items():
        if "is forbidden" not in why and "has no " not in why and "does not serve" not in why:
            yield Finding(_about(kind), "failed", why)


def _absent(snapshot: Snapshot, policies: Iterable[Policy | PoolPolicy]) -> Iterator[Finding]:
    names = {str(workload.ref) for workload in snapshot.workloads()}
    for policy in policies:
        if not isinstance(policy, Policy) or policy.job is not None:
            continue
        about = f"policy {policy.name}"
        matched = [workload for workload in snapshot.workloads() if policy.covers(workload.ref, workload.labels)]
        owned = [f"{workload.ref} (of {workload.owner})" for workload in matched if workload.owner]
        if policy.workload is not None and not matched:
            name = str(policy.workload.ref)
            yield Finding(about, "absent", f"there is no {name}{near(name, names)}")
        elif policy.select is not None and len(matched) == len(owned):
            which = "that it may scale" if owned else "that there is"
            yield Finding(about, "absent", f"it selects no {policy.select.kind} {which}")
        if owned:
            text = f"{counted(len(owned), 'workload')} whose count an owner sets: {', '.join(sorted(owned)[:3])}"
            yield Finding(about, "failed" if policy.workload else "skipped", text)


def _site(
    settings: Settings, cluster: Cluster, clock: Clock, snapshot: Snapshot, policies: Sequence[Policy | PoolPolicy]
) -> Site:
    workload_policies = [policy for policy in policies if isinstance(policy, Policy)]
    selected = (
        workload.ref
        for workload in snapshot.workloads()
        if any(policy.governs(workload) for policy in workload_policies)
    )
    named = (policy.workload.ref for policy in workload_policies if policy.workload)
    governed = frozenset[Ref](chain(selected, named))
    beside = {source.label: source for source in settings.sources}
    return Site(MetricsReader(cluster), clock, lambda subject, key: None, lambda: governed, lambda: snapshot, beside)


async def _try(source: Source, site: Site) -> Finding:
    """Open a source and read it once; one that pushes, until nothing is wrong with it."""
    about = f"source {source.label}"
    if (of := source.draws() or source.derives()) is not None:
        return Finding(about, "skipped", f"it is made of {of}, and learns while the daemon runs")
    begun, last = site.clock.now(), Readings(source.label, 0.0)
    try:
        async with asyncio.timeout(PATIENCE), AsyncExitStack() as stack:
            reader = await stack.enter_async_context(source.apart().open(site))
            last = await reader.read(site.clock.now())
            while source.pushes and _trouble(last):
                await site.clock.sleep_until(site.clock.now() + _AGAIN)
                last = await reader.read(site.clock.now())
    except TimeoutError:
        return Finding(about, "failed", _trouble(last) or f"no answer within {PATIENCE:g} s")
    except ElasticdError as error:
        return Finding(about, "failed", str(error))
    except Exception as error:  # a third-party source may raise anything
        return Finding(about, "failed", raised(error))
    return _result_of(about, last, site.clock.now() - begun)


def _trouble(readings: Readings) -> str:
    """What is wrong with a source, or with some of its series; empty: nothing is."""
    return readings.error or "; ".join(f"{name}: {fault}" for name, fault in sorted(readings.faults.items()))


def _result_of(about: str, readings: Readings, took: float) -> Finding:
    if trouble := _trouble(readings):
        return Finding(about, "failed", trouble)
    tables = (readings.pods, readings.workloads, readings.nodes)
    samples = sum(len(subjects) for table in tables for subjects in table.values())
    series = sorted({name for table in tables for name, subjects in table.items() if subjects})
    names = f" of {', '.join(series)}" if series else ""
    return Finding(about, "ok", f"answers in {took * 1000:.0f} ms: {counted(samples, 'sample')}{names}")
