"""What is allowed in policies about pods but brings nothing, or what nobody can have meant: a line for each.

Knows policies and sources as they are written; knows nothing of what is running. See advice for workloads.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from elasticd.errors import nearest
from elasticd.needs import possible, possible_key, possible_namespace
from elasticd.plugins import implemented
from elasticd.policy import MovesTable, Policy, PoolPolicy
from elasticd.sources import Source
from elasticd.words import shown

OTHERS = "default-scheduler"
"""The name of kube-scheduler itself."""

_MOVING = {"rebind_pods", "rebalance_nodes"}


def advise_pools(pools: Sequence[PoolPolicy], sources: Sequence[Source], *, simulated: bool) -> list[str]:
    """Pools for which nobody measures nodes though a strategy asks for that. A simulated cluster's own metrics may have
    further series."""
    return [line for pool in pools for line in _nobody_measures(pool, sources, simulated=simulated)]


def advise_alone(policies: Iterable[Policy | PoolPolicy]) -> list[str]:
    """What policies say themselves: names that nobody can have, pods that kube-scheduler places, moves that nobody
    wants."""
    lines: list[str] = []
    for policy in policies:
        told = _of_pool(policy) if isinstance(policy, PoolPolicy) else _of_select(policy)
        lines += [f"{policy.name}.toml: {line}" for line in told]
    return lines


def _of_pool(policy: PoolPolicy) -> Iterator[str]:
    pool = policy.pool
    if policy.mode == "act" and pool.scheduler == OTHERS:
        yield f'pool.scheduler: kube-scheduler places the pods of "{OTHERS}" too, and both would act'
    yield from _namespaces("pool", pool.namespaces)
    yield from _labels("pool.labels", pool.labels)
    yield from _labels("pool.nodes", pool.nodes)
    if policy.moves != MovesTable() and not any(implemented(type(one)) & _MOVING for one in policy.strategies):
        yield "moves: brings nothing: no strategy here moves pods"
    hooks = frozenset[str]().union(*[implemented(type(one)) for one in policy.strategies])
    for index, one in enumerate(policy.strategies):
        yield from (f"strategy[{index}].{line}" for line in one.brings_nothing(policy, hooks))


def _of_select(policy: Policy) -> Iterator[str]:
    if policy.select is not None:
        yield from _namespaces("select", policy.select.namespaces)
        yield from _labels("select.labels", policy.select.labels)


def _namespaces(key: str, names: Sequence[str]) -> Iterator[str]:
    for index, name in enumerate(names):
        if name != "*" and not possible_namespace(name):
            yield f"{key}.namespaces[{index}]: no namespace can be called {shown(name)}"


def _labels(key: str, labels: Mapping[str, str]) -> Iterator[str]:
    for name, value in labels.items():
        if not possible_key(name):
            yield f"{key}: no label can be called {shown(name)}"
        elif not possible((value,)):
            yield f"{key}.{name}: no label can be {shown(value)}"


def _nobody_measures(policy: PoolPolicy, sources: Sequence[Source], *, simulated: bool) -> Iterator[str]:
    """The series of nodes that a policy's strategies want and no source of its can have, as far as they can say."""
    named = policy.trust.sources
    asked = [source for source in sources if not named or source.label in named]
    offers = [None if simulated and found else found for found in (source.offers_of_nodes() for source in asked)]
    if None in offers:
        return
    known = sorted({name for one in offers for name in one or ()})
    who = f"nobody of {', '.join(source.label for source in asked)}" if asked else "no source"
    for one in policy.strategies:
        for name in sorted(set(one.reads_of_nodes()) - set(known)):
            how = "; resource-metrics has it with nodes = true" if name in ("cpu", "memory") else ""
            kind = one.__struct_config__.tag
            yield f'{policy.name}.toml: {kind}: {who} has a series "{name}" of nodes{nearest(name, known)}{how}'
