"""Advice about options that are allowed but have no effect, a line each, beside the mistakes that `check` finds.

Knows policies and sources as they are written, and the files that they name; knows nothing of what is running.
"""

from collections.abc import Iterable, Iterator, Sequence

from elasticd.base.errors import ConfigError, nearest
from elasticd.config.settings import Settings
from elasticd.model.policy import MovesTable, Policy, PoolPolicy
from elasticd.ports.source import Source
from elasticd.registry import hooks_of

OTHERS = "default-scheduler"
"""The name of kube-scheduler itself."""


def advise(policies: Sequence[Policy], sources: Sequence[Source]) -> list[str]:
    """A line for each policy that runs more often than any of its sources is updated."""
    return [line for policy in policies if (line := _too_often(policy, sources))]


def examine(settings: Settings, file: str) -> list[ConfigError]:
    """Mistakes in the settings that only this machine shows: files that sources and publisher need and cannot use."""
    checks = [(f"source[{index}]", source.examine) for index, source in enumerate(settings.sources)]
    if settings.outlet is not None:
        checks.append(("outlet", settings.outlet.examine))
    errors = []
    for key, ask in checks:
        try:
            ask()
        except ConfigError as error:
            errors.append(type(error)(file, key, str(error)))
    return errors


def _too_often(policy: Policy, sources: Sequence[Source]) -> str:
    intervals = [(fast, strategy) for strategy in policy.strategies if (fast := strategy.fastest()) is not None]
    interval, by = policy.interval, "interval"
    if intervals:
        interval, strategy = min(intervals, key=lambda pair: pair[0])
        by = f"strategy {strategy.__struct_config__.tag}"
    paces = [
        (source.usual if source.resolution is None else source.resolution, source.label)
        for source in _sources_of(policy, sources)
    ]
    known = [(pace, label) for pace, label in paces if pace is not None]
    if not known or len(known) < len(paces) or min(known)[0] <= interval:
        return ""
    pace, label = min(known)
    why = f"{label} usually has something new every {pace:g} s (if not, say so by its option resolution)"
    return f"{policy.name}.toml: {by}: to look every {interval:g} s brings nothing: {why}"


def _sources_of(policy: Policy, sources: Sequence[Source]) -> list[Source]:
    """The sources that may have what the policy reads."""
    trusted = policy.trust.sources
    reads = [strategy.reads() for strategy in policy.strategies]
    names = None if None in reads else {name for series in reads for name in series or ()}
    return [source for source in sources if (not trusted or source.label in trusted) and _may_have(source, names)]


def _may_have(source: Source, names: set[str] | None) -> bool:
    offers = source.offers() or source.usual_series
    return offers is None or names is None or bool(names & set(offers))


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
    hooks = hooks_of(policy.strategies)
    if policy.moves != MovesTable() and not hooks & {"rebind_pods", "rebalance_nodes"}:
        yield "moves: brings nothing: no strategy here moves pods"
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
