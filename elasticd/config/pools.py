"""TOML to pool policies, or one line that says what to mend.

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
    name, file, found = str(path), read_toml(path), Mistakes()
    beside = [key for key in file if key in POLICY_KEYS and key not in _PoolFile.__struct_fields__]
    found.add(ConfigError(name, key, "must not stand beside [pool], does") for key in beside)
    with found.collected():
        raw = convert({key: value for key, value in file.items() if key not in beside}, _PoolFile, name)
    with found.collected():
        strategies = records(tables_of(file, "strategy"), registry, name, "strategy", "pool")
    found.raised()
    found.add([*_none_kept_off(strategies, registry, name), *_twice(strategies, name)])
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
    found.add(futile(policy, name))
    found.raised()
    return policy


def _none_kept_off(strategies: Sequence[Strategy], registry: Registry, file: str) -> Iterator[ConfigError]:
    """A pool where a pod could go anywhere: onto full nodes, and onto those that are not ready."""
    if not any(one.keeps_off for one in strategies):
        known = sorted(name for name, one in registry.strategies.items() if one.type.keeps_off)
        which = f" ({', '.join(known)})" if known else ""
        problem = f"must have one that keeps pods off nodes that cannot take them{which}, has none"
        yield ConfigError(file, "strategy", problem)


def _twice(strategies: Sequence[Strategy], file: str) -> Iterator[ConfigError]:
    """A second strategy of a type of which there can be one only."""
    first: dict[type[Strategy], int] = {}
    for index, one in enumerate(strategies):
        if one.alone and type(one) in first:
            kind = type(one).__struct_config__.tag
            problem = f'must be the only "{kind}" of a policy, is the second after strategy[{first[type(one)]}]'
            yield ConfigError(file, f"strategy[{index}].type", problem)
        first.setdefault(type(one), index)


def load_pools(folder: Path, registry: Registry) -> tuple[list[PoolPolicy], list[ConfigError]]:
    """Every policy of a folder that is about pods, and a ConfigError for every file that is wrong or clashes with
    another. What is no TOML at all is told with the policies about workloads."""
    pools: list[PoolPolicy] = []
    errors: list[ConfigError] = []
    for path in policy_files(folder):
        try:
            if "pool" in read_toml(path):
                pools.append(load_pool(path, registry))
        except ConfigError as error:
            errors += [one for one in error.each if one.key]
    return pools, errors + _clashes(folder, pools)


def _clashes(folder: Path, pools: list[PoolPolicy]) -> list[ConfigError]:
    """Two policies that would both place one pod, as far as the files tell: pods' labels may still differ."""
    errors = []
    acting = [policy for policy in pools if policy.mode == "act"]
    for index, policy in enumerate(acting):
        other = next((one for one in acting[:index] if _overlap(one.pool, policy.pool)), None)
        if other is not None:
            problem = f"must not be about pods that {other.name}.toml places too"
            errors.append(ConfigError(str(folder / f"{policy.name}.toml"), "pool", problem))
    return errors


def _overlap(one: PoolSelect, other: PoolSelect) -> bool:
    if one.scheduler != other.scheduler:
        return False
    if not {*one.namespaces} & {*other.namespaces} and "*" not in (*one.namespaces, *other.namespaces):
        return False
    return all(other.labels.get(key, value) == value for key, value in one.labels.items())
