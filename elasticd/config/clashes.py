"""Policies that contradict each other.

Knows policies as they are decoded; knows nothing of files but their names.
"""

from pathlib import Path

from elasticd.base.errors import ConfigError
from elasticd.model.policy import Policy
from elasticd.model.workload import Ref


def clashes(folder: Path, policies: list[Policy]) -> list[ConfigError]:
    """Two policies that would both act on one workload, as far as the files alone can tell."""
    errors = []
    named: dict[Ref, Policy] = {}
    selecting: list[Policy] = []
    for policy in policies:
        if policy.mode != "act":
            continue
        rivals = selecting if policy.workload else [*named.values(), *selecting]
        other = next((other for other in rivals if _overlap(policy, other)), None)
        if policy.workload:
            first = named.setdefault(policy.workload.ref, policy)
            other = other if first is policy else first
        else:
            selecting.append(policy)
        if other:
            problem = f"must not be one that {other.name}.toml acts on too"
            key = "job" if policy.job else "workload" if policy.workload else "select"
            errors.append(ConfigError(str(folder / f"{policy.name}.toml"), key, problem))
    return errors


def _overlap(one: Policy, other: Policy) -> bool:
    """Whether they surely share a workload. Labels are known only to the cluster, where overlaps are found again."""
    if one.workload and other.workload:
        return one.workload.ref == other.workload.ref
    named, select = (one.workload, other.select) if one.workload else (other.workload, one.select)
    if named and select:
        same = (named.kind, named.api_version) == (select.kind, select.api_version)
        return same and not select.labels and bool({named.namespace, "*"} & {*select.namespaces})
    return one.select == other.select
