"""Kinds of workloads as people write them: kubectl's short names, any case, and what is near a misspelt one.

Knows names alone; knows nothing of what a cluster serves.
"""

import re

from elasticd.base.errors import nearest

BUILT_IN = {
    ("apps/v1", "Deployment"): ("deploy", "deployments"),
    ("apps/v1", "StatefulSet"): ("sts", "statefulsets"),
    ("apps/v1", "ReplicaSet"): ("rs", "replicasets"),
    ("v1", "ReplicationController"): ("rc", "replicationcontrollers"),
}
"""What Kubernetes itself can scale, with kubectl's other names for it."""

_UNSCALABLE = {"job": "Job", "jobs": "Job", "po": "Pod", "pod": "Pod", "pods": "Pod"}
_CUSTOM = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+/v[0-9][a-z0-9]*")


def kind_of(word: str) -> str:
    """The kind that a word such as deploy, deployments.apps or DEPLOYMENT means; any other word is returned as it
    is."""
    name = word.lower().partition(".")[0]
    for (_, kind), aliases in BUILT_IN.items():
        if name in (kind.lower(), *aliases):
            return kind
    return _UNSCALABLE.get(name, word)


def wrong_kind(api_version: str, kind: str) -> tuple[str, str] | None:
    """Why a policy cannot set the count of this kind, as a key and a problem, as far as it can be told without a
    cluster; None: it can."""
    versions = sorted({version for version, _ in BUILT_IN})
    if api_version not in versions:
        if _CUSTOM.fullmatch(api_version):
            return None if kind.strip() else ("kind", f'must be the name of a kind, is "{kind}"')
        meant = nearest(api_version, versions) if len(api_version) < 60 else ""
        return "api_version", f'must be apps/v1, v1, or DOMAIN/VERSION of a custom resource, is "{api_version}"{meant}'
    kinds = sorted(scalable for version, scalable in BUILT_IN if version == api_version)
    if kind in kinds:
        return None
    meant = kind_of(kind)
    home = next((version for version, scalable in BUILT_IN if scalable == meant), None)
    if home is not None and home != api_version:
        return "api_version", f'must be {home} for {meant}, is "{api_version}"'
    guess = f', did you mean "{meant}"?' if home else nearest(kind[:60], kinds)
    hint = ", of which there is one pod on each node" if kind.lower() in ("daemonset", "ds") else guess
    return "kind", f'must be one that can be scaled ({", ".join(kinds)}), is "{kind}"{hint}'
