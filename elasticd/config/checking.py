"""The command `check`: finds mistakes in settings and policies, a line each, and options without effect.

Knows where settings and policies are looked for; knows nothing of what is running.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from elasticd.base.errors import ConfigError, nearest
from elasticd.base.secrets import CredentialError
from elasticd.base.text import counted
from elasticd.cluster.kubernetes import Kubernetes
from elasticd.config.reading import Read, read_policies
from elasticd.config.settings import Settings, examine, load_settings, named_policies
from elasticd.model.policy import Foreign, MovesTable, Policy, PoolPolicy, Strategy, Trust
from elasticd.ports.source import Source
from elasticd.registry import Registry, discover, hooks_of, implemented

SETTINGS = "elasticd.toml"

OTHERS = "default-scheduler"
"""The name of kube-scheduler itself."""

_CHOSEN_BY_PRIORITY = {"recommend_replicas": "how many replicas", "rank_pods": "which pods go first"}
"""The hooks of which one strategy's answer may be chosen by its priority, and what is answered."""


class Checked(Struct, frozen=True):
    """The mistakes and the advice about settings and policies, and what was decoded of them."""

    wrong: list[ConfigError]
    advice: list[str]
    policies: list[Policy | PoolPolicy]
    settings: Settings | None

    @property
    def fine(self) -> str:
        return f"{counted(len(self.policies), 'policy')} {'is' if len(self.policies) == 1 else 'are'} fine"

    def record(self) -> dict[str, object]:
        errors = [{"file": error.file, "key": error.key, "problem": error.problem} for error in self.wrong]
        return {"policies": len(self.policies), "errors": errors, "advice": self.advice}


def checked(at: Path | None, config: Path | None, default: Path) -> Checked:
    """Check the same files, and return the result as a record."""
    registry, (file, where) = discover(), _places(at, config, default)
    errors, unfit, settings = list[ConfigError](), list[ConfigError](), None
    if file is not None:
        try:
            settings = load_settings(file, registry)
            unfit = examine(settings, str(file))
        except ConfigError as error:
            errors += error.each
    errors += [error for error in unfit if not isinstance(error, CredentialError)]
    policies, mistakes = _read(where, file or default, registry, settings)
    wrong = [*[ConfigError("", "", problem) for problem in registry.problems], *errors, *mistakes]
    if not policies and not errors and not mistakes:
        folder = where or (settings.policies if settings else "")
        wrong.append(ConfigError(str(folder), "", "must hold policies (NAME.toml), has none"))
    advice = [] if wrong else [*map(str, unfit), *advise(policies, settings)]
    return Checked(wrong, advice, policies, settings)


def _places(at: Path | None, config: Path | None, default: Path) -> tuple[Path | None, Path | None]:
    """The file of settings, if there is any, and where policies are: a folder or a file; None: where settings say."""
    if at is None or (at.name == SETTINGS and config is None):
        return at or config or default, None
    if config is None and os.access(at / SETTINGS, os.F_OK):
        return at / SETTINGS, None
    return config, at


def _read(where: Path | None, file: Path, registry: Registry, settings: Settings | None) -> Read:
    """The policies of a folder or a file that a person names, or else of the folder that the settings in `file` name,
    also where these have mistakes."""
    if where is not None:
        alone = where.is_file() or (where.suffix == ".toml" and not where.is_dir())
        return read_policies(where.parent if alone else where, registry, settings, [where] if alone else None)
    folder = settings.policies if settings else named_policies(file)
    if folder is None:  # whether they stand at the usual place is not known
        usual = file.parent / "policies"
        return read_policies(usual, registry) if usual.is_dir() else ([], [])
    return read_policies(folder, registry, settings, named_in=str(file))


def advise(policies: Sequence[Policy | PoolPolicy], settings: Settings | None) -> Iterator[str]:
    """A line for each option that is allowed but has no effect, as far as files alone tell."""
    pools = [policy for policy in policies if isinstance(policy, PoolPolicy)]
    for policy in policies:
        lines = _without_effect(policy) if isinstance(policy, PoolPolicy) else _without_effect_on_counts(policy)
        yield from (f"{policy.name}.toml: {line}" for line in lines)
    if settings is None:
        return
    yield from settings.renamed
    simulated = not isinstance(settings.cluster, Kubernetes)
    for pool in pools:
        yield from _nobody_measures(pool, settings.sources, simulated=simulated)
    for policy in policies:
        if isinstance(policy, Policy) and not simulated:
            yield from _too_often(policy, settings.sources)


def _without_effect(policy: PoolPolicy) -> Iterator[str]:
    """Pods that kube-scheduler places too, moves that no strategy makes, and what strategies say of themselves."""
    pool = policy.pool
    if policy.mode == "act" and pool.scheduler == OTHERS:
        yield f'pool.scheduler: kube-scheduler places the pods of "{OTHERS}" too, and both would act'
    hooks = hooks_of(policy.strategies)
    if policy.moves != MovesTable() and not hooks & {"rebind_pods", "rebalance_nodes"}:
        yield "moves: brings nothing: no strategy here moves pods"
    if not policy.moves.surge and policy.moves.surge_within != MovesTable().surge_within:
        yield "moves.surge_within: brings nothing: surge is false"
    for index, strategy in enumerate(policy.strategies):
        if strategy.priority:
            yield f"strategy[{index}].priority: brings nothing: no strategy of a [pool] goes before another"
        yield from (f"strategy[{index}].{line}" for line in strategy.brings_nothing(policy, hooks))


def _without_effect_on_counts(policy: Policy) -> Iterator[str]:
    """Options of a policy about workloads that others of it leave without effect."""
    trust, foreign = policy.trust, policy.foreign
    recommending = [each for each in policy.strategies if "recommend_replicas" in implemented(type(each))]
    if policy.combine != "max" and len(recommending) == 1:
        yield "combine: brings nothing: one strategy alone says how many replicas"
    elif policy.combine == "priority" and len({each.priority for each in recommending}) == 1:
        yield 'combine: "priority" brings nothing: all strategies have the same, so the largest count wins'
    for index, strategy in enumerate(policy.strategies):
        if strategy.priority and (why := _why_no_priority(policy, strategy)):
            yield f"strategy[{index}].priority: brings nothing: {why}"
    if trust.replicas is None and trust.after != Trust().after:
        yield f'trust.after: brings nothing: unknown is "{trust.unknown}"'
    for key in ("within", "pause"):
        if not foreign.strikes and getattr(foreign, key) != getattr(Foreign(), key):
            yield f"foreign.{key}: brings nothing: strikes is 0"


def _why_no_priority(policy: Policy, strategy: Strategy) -> str:
    """Why a strategy's priority decides nothing; empty: it decides which count or which pods are chosen."""
    own = implemented(type(strategy)) & _CHOSEN_BY_PRIORITY.keys()
    rivals = {hook for other in policy.strategies if other is not strategy for hook in own & implemented(type(other))}
    if "rank_pods" in rivals or ("recommend_replicas" in rivals and policy.combine == "priority"):
        return ""
    if rivals:
        return f'combine is "{policy.combine}"'
    if own:
        return f"no other strategy says {' or '.join(_CHOSEN_BY_PRIORITY[hook] for hook in sorted(own))}"
    return f"it says neither {' nor '.join(_CHOSEN_BY_PRIORITY.values())}"


def _nobody_measures(policy: PoolPolicy, sources: Sequence[Source], *, simulated: bool) -> Iterator[str]:
    """The series of nodes that a policy's strategies read and none of its sources offers, as far as sources can say: a
    simulated cluster's own metrics may have further ones."""
    trusted = policy.trust.sources
    candidates = [source for source in sources if not trusted or source.label in trusted]
    offers = [source.offers_of_nodes() for source in candidates]
    if None in offers or (simulated and any(offers)):
        return
    measured = sorted({name for series in offers for name in series or ()})
    nobody = f"nobody of {', '.join(source.label for source in candidates)}" if candidates else "no source"
    for strategy in policy.strategies:
        for name in sorted(set(strategy.reads_of_nodes()) - set(measured)):
            how = "; resource-metrics has it with nodes = true" if name in ("cpu", "memory") else ""
            kind = strategy.__struct_config__.tag
            yield f'{policy.name}.toml: {kind}: {nobody} has a series "{name}" of nodes{nearest(name, measured)}{how}'


def _too_often(policy: Policy, sources: Sequence[Source]) -> Iterator[str]:
    """A policy that runs more often than any of its sources is updated."""
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
        return
    pace, label = min(known)
    why = f"{label} usually has something new every {pace:g} s (if not, say so by its option resolution)"
    yield f"{policy.name}.toml: {by}: to look every {interval:g} s brings nothing: {why}"


def _sources_of(policy: Policy, sources: Sequence[Source]) -> list[Source]:
    trusted = policy.trust.sources
    reads = [strategy.reads() for strategy in policy.strategies]
    names = None if None in reads else {name for series in reads for name in series or ()}
    offers = [(source, source.offers() or source.usual_series) for source in sources]
    return [
        source
        for source, offered in offers
        if (not trusted or source.label in trusted) and (offered is None or names is None or names & set(offered))
    ]
