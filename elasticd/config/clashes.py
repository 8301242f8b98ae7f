"""Finds policies that act on the same workloads, or place the same pods.

Knows policies as they are decoded; knows nothing of files but their names.
"""

from pathlib import Path

from elasticd.base.errors import ConfigError
from elasticd.model.policy import Policy, PoolPolicy, PoolSelect
from elasticd.model.workload import Ref


def clashes(folder: Path, policies: list[Policy]) -> list[ConfigError]:
    """A mistake for each policy that acts on a workload of another one, as far as the files alone can tell."""
    errors = []
    by_workload: dict[Ref, Policy] = {}
    selecting: list[Policy] = []
    for policy in policies:
        if policy.mode != "act":
            continue
        rivals = selecting if policy.workload else [*by_workload.values(), *selecting]
        rival = next((rival for rival in rivals if _share_workload(policy, rival)), None)
        if policy.workload:
            first = by_workload.setdefault(policy.workload.ref, policy)
            rival = rival if first is policy else first
        else:
            selecting.append(policy)
        if rival:
            problem = f"must not be one that {rival.name}.toml acts on too"
            key = "job" if policy.job else "workload" if policy.workload else "select"
            errors.append(ConfigError(str(folder / f"{policy.name}.toml"), key, problem))
    return errors


def _share_workload(policy: Policy, rival: Policy) -> bool:
    """Whether they certainly share a workload. Only the cluster knows labels; overlaps are checked there again."""
    if policy.workload and rival.workload:
        return policy.workload.ref == rival.workload.ref
    target, select = (policy.workload, rival.select) if policy.workload else (rival.workload, policy.select)
    if target and select:
        same = (target.kind, target.api_version) == (select.kind, select.api_version)
        return same and not select.labels and bool({target.namespace, "*"} & {*select.namespaces})
    return policy.select == rival.select


def pool_clashes(folder: Path, pools: list[PoolPolicy]) -> list[ConfigError]:
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
