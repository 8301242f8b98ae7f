"""Loads policy files as what they are about, and settings for what is read beside them."""

from collections.abc import Iterable
from pathlib import Path

from elasticd.cluster.kubernetes import Kubernetes
from elasticd.cluster.simulated import Simulated
from elasticd.config import Settings, load_policy, read_policies
from elasticd.model.policy import Policy, PoolPolicy
from elasticd.ports.source import Source
from elasticd.registry import Registry


def load_workloads(path: Path, registry: Registry) -> Policy:
    """A policy about workloads."""
    policy = load_policy(path, registry)
    assert isinstance(policy, Policy)
    return policy


def load_pool(path: Path, registry: Registry) -> PoolPolicy:
    """A policy about pods."""
    policy = load_policy(path, registry)
    assert isinstance(policy, PoolPolicy)
    return policy


def read_right(folder: Path, registry: Registry) -> tuple[list[Policy], list[PoolPolicy]]:
    """The policies of a folder without mistakes: about workloads, and about pods."""
    policies, errors = read_policies(folder, registry)
    assert errors == []
    return (
        [policy for policy in policies if isinstance(policy, Policy)],
        [policy for policy in policies if isinstance(policy, PoolPolicy)],
    )


def settings_of(sources: Iterable[Source], *, simulated: bool = False) -> Settings:
    """Settings with these sources."""
    cluster = Simulated(nodes=()) if simulated else Kubernetes()
    return Settings(cluster=cluster, sources=tuple(sources), policies=Path(), state=Path())
