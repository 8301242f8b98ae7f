"""Advice about options of pool policies that are allowed but have no effect, a line each.

Knows policies and sources as they are written; knows nothing of what is running. See advice for workloads.
"""

from collections.abc import Iterable, Iterator, Sequence

from elasticd.base.errors import nearest
from elasticd.model.policy import MovesTable, PoolPolicy
from elasticd.ports.source import Source
from elasticd.registry import implemented

OTHERS = "default-scheduler"
"""The name of kube-scheduler itself."""

_MOVING = {"rebind_pods", "rebalance_nodes"}


def advise_pools(pools: Sequence[PoolPolicy], sources: Sequence[Source], *, simulated: bool) -> list[str]:
    """A line for each series of nodes that a pool's strategy reads and no source has. A simulated cluster's own metrics
    may have further series."""
    return [line for pool in pools for line in _nobody_measures(pool, sources, simulated=simulated)]


def advise_alone(pools: Iterable[PoolPolicy]) -> list[str]:
    """Advice from the policies alone: pods that kube-scheduler places too, moves that no strategy makes."""
    return [f"{policy.name}.toml: {line}" for policy in pools for line in _of_pool(policy)]


def _of_pool(policy: PoolPolicy) -> Iterator[str]:
    pool = policy.pool
    if policy.mode == "act" and pool.scheduler == OTHERS:
        yield f'pool.scheduler: kube-scheduler places the pods of "{OTHERS}" too, and both would act'
    if policy.moves != MovesTable() and not any(
        implemented(type(strategy)) & _MOVING for strategy in policy.strategies
    ):
        yield "moves: brings nothing: no strategy here moves pods"
    hooks = frozenset[str]().union(*[implemented(type(strategy)) for strategy in policy.strategies])
    for index, strategy in enumerate(policy.strategies):
        yield from (f"strategy[{index}].{line}" for line in strategy.brings_nothing(policy, hooks))


def _nobody_measures(policy: PoolPolicy, sources: Sequence[Source], *, simulated: bool) -> Iterator[str]:
    """The series of nodes that a policy's strategies read and none of its sources offers, as far as sources can say."""
    trusted = policy.trust.sources
    candidates = [source for source in sources if not trusted or source.label in trusted]
    offers = [
        None if simulated and offered else offered for offered in (source.offers_of_nodes() for source in candidates)
    ]
    if None in offers:
        return
    measured = sorted({name for series in offers for name in series or ()})
    nobody = f"nobody of {', '.join(source.label for source in candidates)}" if candidates else "no source"
    for strategy in policy.strategies:
        for name in sorted(set(strategy.reads_of_nodes()) - set(measured)):
            how = "; resource-metrics has it with nodes = true" if name in ("cpu", "memory") else ""
            kind = strategy.__struct_config__.tag
            yield f'{policy.name}.toml: {kind}: {nobody} has a series "{name}" of nodes{nearest(name, measured)}{how}'
