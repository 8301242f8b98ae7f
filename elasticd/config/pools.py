"""Decodes TOML files into pool policies, or into one line for each mistake.

Knows the tables of a policy about pods and nodes; see config for all else that is written in TOML.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from elasticd.base.decode import convert
from elasticd.base.errors import ConfigError, Mistakes
from elasticd.config import POLICY_KEYS, policy_files, read_toml, tables_of
from elasticd.config.futile import futile
from elasticd.config.tables import records
from elasticd.model.policy import MovesTable, PoolPolicy, PoolSelect, PoolTrust, Strategy
from elasticd.registry import Registry


class _PoolFile(Struct, frozen=True, forbid_unknown_fields=True):
    pool: PoolSelect
    strategy: Annotated[list[dict[str, Any]], Meta(min_length=1)]
    mode: Literal["act", "observe"] = "observe"
    interval: Annotated[float, Meta(ge=0.1, le=3600)] = 1.0
    max_age: Annotated[float, Meta(gt=0)] = 120.0
    trust: PoolTrust = field(default_factory=PoolTrust)
    moves: MovesTable = field(default_factory=MovesTable)


def load_pool(path: Path, registry: Registry) -> PoolPolicy:
    """One policy file with a table [pool]. Raises ConfigError for all that is wrong with it, a line each."""
    name, file, mistakes = str(path), read_toml(path), Mistakes()
    beside = [key for key in file if key in POLICY_KEYS and key not in _PoolFile.__struct_fields__]
    mistakes.add(ConfigError(name, key, "must not stand beside [pool], does") for key in beside)
    with mistakes.collected():
        raw = convert({key: value for key, value in file.items() if key not in beside}, _PoolFile, name)
    with mistakes.collected():
        strategies = records(tables_of(file, "strategy"), registry, name, "strategy", "pool")
    mistakes.raised()
    mistakes.add([*_no_filter(strategies, registry, name), *_duplicates(strategies, name)])
    policy = PoolPolicy(
        name=path.stem,
        pool=raw.pool,
        strategies=strategies,
        mode=raw.mode,
        interval=raw.interval,
        max_age=raw.max_age,
        trust=raw.trust,
        moves=raw.moves,
    )
    mistakes.add(futile(policy, name))
    mistakes.raised()
    return policy


def _no_filter(strategies: Sequence[Strategy], registry: Registry, file: str) -> Iterator[ConfigError]:
    """A pool without a strategy that filters nodes: pods could go onto full nodes, or onto ones that are not ready."""
    if not any(strategy.keeps_off for strategy in strategies):
        capable = sorted(name for name, installed in registry.strategies.items() if installed.type.keeps_off)
        which = f" ({', '.join(capable)})" if capable else ""
        problem = f"must have one that keeps pods off nodes that cannot take them{which}, has none"
        yield ConfigError(file, "strategy", problem)


def _duplicates(strategies: Sequence[Strategy], file: str) -> Iterator[ConfigError]:
    """A second strategy of a type that a policy may have only once."""
    first: dict[type[Strategy], int] = {}
    for index, strategy in enumerate(strategies):
        if strategy.alone and type(strategy) in first:
            kind = type(strategy).__struct_config__.tag
            problem = f'must be the only "{kind}" of a policy, is the second after strategy[{first[type(strategy)]}]'
            yield ConfigError(file, f"strategy[{index}].type", problem)
        first.setdefault(type(strategy), index)


def load_pools(folder: Path, registry: Registry) -> tuple[list[PoolPolicy], list[ConfigError]]:
    """Every policy of a folder that is about pods, and a ConfigError for every file that is wrong or clashes with
    another. What is no TOML at all is reported with the policies about workloads."""
    pools: list[PoolPolicy] = []
    errors: list[ConfigError] = []
    for path in policy_files(folder):
        try:
            if "pool" in read_toml(path):
                pools.append(load_pool(path, registry))
        except ConfigError as error:
            errors += [mistake for mistake in error.each if mistake.key]
    return pools, errors + _clashes(folder, pools)


def _clashes(folder: Path, pools: list[PoolPolicy]) -> list[ConfigError]:
    """A mistake for each policy whose pods another one places, as far as the files tell: pods' labels may differ."""
    errors = []
    acting = [policy for policy in pools if policy.mode == "act"]
    for index, policy in enumerate(acting):
        rival = next((earlier for earlier in acting[:index] if _overlap(earlier.pool, policy.pool)), None)
        if rival is not None:
            problem = f"must not be about pods that {rival.name}.toml places too"
            errors.append(ConfigError(str(folder / f"{policy.name}.toml"), "pool", problem))
    return errors


def _overlap(first: PoolSelect, second: PoolSelect) -> bool:
    if first.scheduler != second.scheduler:
        return False
    if not {*first.namespaces} & {*second.namespaces} and "*" not in (*first.namespaces, *second.namespaces):
        return False
    return all(second.labels.get(key, value) == value for key, value in first.labels.items())
