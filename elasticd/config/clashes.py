"""Finds policies that act on the same workloads.

Knows policies as they are decoded; knows nothing of files but their names.
"""

from pathlib import Path

from elasticd.base.errors import ConfigError
from elasticd.model.policy import Policy
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
        rival = next((rival for rival in rivals if _overlap(policy, rival)), None)
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


def _overlap(policy: Policy, rival: Policy) -> bool:
    """Whether they certainly share a workload. Only the cluster knows labels; overlaps are checked there again."""
    if policy.workload and rival.workload:
        return policy.workload.ref == rival.workload.ref
    target, select = (policy.workload, rival.select) if policy.workload else (rival.workload, policy.select)
    if target and select:
        same = (target.kind, target.api_version) == (select.kind, select.api_version)
        return same and not select.labels and bool({target.namespace, "*"} & {*select.namespaces})
    return policy.select == rival.select
