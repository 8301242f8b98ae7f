"""Reads policies, of a folder or alone, with every mistake in them and between them.

Knows that a plugin may do anything while its options are decoded; knows nothing of what is running.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from elasticd.base.errors import ConfigError, is_interrupt
from elasticd.base.text import raised
from elasticd.config.files import policy_files, read_toml
from elasticd.config.policies import decode_policy
from elasticd.config.settings import Settings
from elasticd.config.sourced import check_sources
from elasticd.model.policy import Policy, PoolPolicy, PoolSelect
from elasticd.registry import Registry
from elasticd.sources.settled import guarded

Read = tuple[list[Policy | PoolPolicy], list[ConfigError]]


def read_policies(
    folder: Path, registry: Registry, settings: Settings | None = None, files: Sequence[Path] | None = None
) -> Read:
    """The policies of a folder, those about workloads first, and every mistake in them; of `files` alone, if given.
    Whatever a plugin raises while its options are decoded is a mistake; with `settings`, so is a series or source that
    a policy needs and no source provides."""
    try:
        policies, errors = _read(policy_files(folder) if files is None else files, folder, registry)
        if settings is not None:
            errors += check_sources(folder, policies, settings, registry)
        return policies, errors
    except ConfigError as error:
        return [], [*error.each]
    except BaseException as error:  # sys.exit in a plugin must not end the daemon
        if is_interrupt(error):
            raise
        return [], [ConfigError(str(folder), "", f"a plugin must decode its options, raised {raised(error)}")]


def _read(files: Sequence[Path], folder: Path, registry: Registry) -> Read:
    policies, pools = list[Policy](), list[PoolPolicy]()
    errors, pool_errors = list[ConfigError](), list[ConfigError]()
    for path in files:
        about = errors
        try:
            tables = read_toml(path)
            about = pool_errors if "pool" in tables else errors
            policy = guarded(partial(decode_policy, path, tables, registry), str(path), "")
        except ConfigError as error:
            about += error.each
            continue
        if isinstance(policy, PoolPolicy):
            pools.append(policy)
        else:
            policies.append(policy)
    errors += [*_clashes(folder, policies), *pool_errors, *_pool_clashes(folder, pools)]
    return [*policies, *pools], errors


def _clashes(folder: Path, policies: list[Policy]) -> list[ConfigError]:
    """A mistake for each policy that acts on a workload of an earlier one, as far as the files alone can tell. Only the
    cluster knows labels; overlaps are checked there again."""
    errors, takers = [], dict[tuple[object, ...], Policy]()
    for policy in policies:
        if policy.mode != "act":
            continue
        taken, rivals = _scopes(policy)
        if rival := next((takers[scope] for scope in rivals if scope in takers), None):
            problem = f"must not be one that {rival.name}.toml acts on too"
            key = "job" if policy.job else "workload" if policy.workload else "select"
            errors.append(ConfigError(str(folder / f"{policy.name}.toml"), key, problem))
        for scope in taken:
            takers.setdefault(scope, policy)
    return errors


def _scopes(policy: Policy) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    """What a policy is about, and what others are about that certainly share a workload with it."""
    target, select = policy.workload, policy.select
    if target is not None:
        kind, own = (target.api_version, target.kind), ("workload", target.ref)
        named = [("named", kind, namespace) for namespace in (target.namespace, "*")]
        return [own, *named], [own, *(("all", kind, namespace) for namespace in (target.namespace, "*"))]
    assert select is not None, "a policy is about one workload or many"  # noqa: S101
    kind, equal = (select.api_version, select.kind), ("select", msgspec.json.encode(select))
    if select.labels:
        return [equal], [equal]
    everything = [("all", kind, namespace) for namespace in select.namespaces]
    return [equal, *everything], [*(("named", kind, namespace) for namespace in select.namespaces), equal]


def _pool_clashes(folder: Path, pools: list[PoolPolicy]) -> list[ConfigError]:
    """A mistake for each policy whose pods another one places, as far as the files alone can tell."""
    errors = []
    acting = [policy for policy in pools if policy.mode == "act"]
    for index, policy in enumerate(acting):
        rival = next((earlier for earlier in acting[:index] if _share_pods(earlier.pool, policy.pool)), None)
        if rival is not None:
            problem = f"must not be about pods that {rival.name}.toml places too"
            errors.append(ConfigError(str(folder / f"{policy.name}.toml"), "pool", problem))
    return errors


def _share_pods(first: PoolSelect, second: PoolSelect) -> bool:
    if first.scheduler != second.scheduler:
        return False
    if not {*first.namespaces} & {*second.namespaces} and "*" not in (*first.namespaces, *second.namespaces):
        return False
    return all(second.labels.get(key, value) == value for key, value in first.labels.items())
