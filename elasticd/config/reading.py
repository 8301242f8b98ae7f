"""Reads policies, of a folder or alone, with every mistake in them and between them.

Knows that a plugin may do anything while its options are decoded; knows nothing of what is running.
"""

from collections.abc import Sequence
from pathlib import Path

from elasticd.base.errors import ConfigError, is_interrupt
from elasticd.base.text import raised
from elasticd.config.clashes import clashes, pool_clashes
from elasticd.config.files import policy_files, read_toml
from elasticd.config.policies import decode_policy
from elasticd.config.settings import Settings
from elasticd.config.sourced import check_sources
from elasticd.model.policy import Policy, PoolPolicy
from elasticd.registry import Registry

Read = tuple[list[Policy | PoolPolicy], list[ConfigError]]


def read_policies(
    folder: Path, registry: Registry, settings: Settings | None = None, files: Sequence[Path] | None = None
) -> Read:
    """The policies of a folder, those about workloads first, and every mistake in them; of `files` alone, if given.

    Whatever a plugin raises while its options are decoded is a mistake; with `settings`, so is a series or source that
    a policy needs and no source provides.
    """
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
            policy = decode_policy(path, tables, registry)
        except ConfigError as error:
            about += error.each
            continue
        if isinstance(policy, PoolPolicy):
            pools.append(policy)
        else:
            policies.append(policy)
    errors += [*clashes(folder, policies), *pool_errors, *pool_clashes(folder, pools)]
    return [*policies, *pools], errors
