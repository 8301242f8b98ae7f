"""Reads policies of either kind, about workloads and about pods, with every mistake in them.

Knows which file is of which kind, and that a plugin may do anything while its options are decoded.
"""

from collections.abc import Callable
from pathlib import Path

from elasticd.base.errors import ConfigError, is_interrupt
from elasticd.base.text import raised
from elasticd.config import Settings, load_policies, load_policy, read_toml
from elasticd.config.pools import load_pool, load_pools
from elasticd.config.sourced import check_sources
from elasticd.model.policy import Policy, PoolPolicy
from elasticd.registry import Registry

Read = tuple[list[Policy | PoolPolicy], list[ConfigError]]


def read_policies(folder: Path, registry: Registry, settings: Settings | None = None) -> Read:
    """The policies of a folder, and every mistake in them. Whatever a plugin raises while its options are decoded is a
    mistake; with `settings`, so is a series or source that a policy needs and no source provides."""

    def load() -> Read:
        policies, errors = load_policies(folder, registry)
        pools, pool_errors = load_pools(folder, registry)
        return [*policies, *pools], errors + pool_errors

    return _load_guarded(folder, load, registry, settings)


def read_policy(file: Path, registry: Registry, settings: Settings | None = None) -> Read:
    """The policy of one file, as if it were alone in its folder."""

    def load() -> Read:
        return [(load_pool if "pool" in read_toml(file) else load_policy)(file, registry)], []

    return _load_guarded(file.parent, load, registry, settings)


def _load_guarded(folder: Path, load: Callable[[], Read], registry: Registry, settings: Settings | None) -> Read:
    try:
        policies, errors = load()
        if settings is not None:
            errors += check_sources(folder, policies, settings, registry)
        return policies, errors
    except ConfigError as error:
        return [], [*error.each]
    except BaseException as error:  # sys.exit in a plugin must not end the daemon
        if is_interrupt(error):
            raise
        return [], [ConfigError(str(folder), "", f"a plugin must decode its options, raised {raised(error)}")]
