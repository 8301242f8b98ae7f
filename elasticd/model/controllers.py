"""Which controllers recreate a pod that was evicted. Pure; knows kinds, not what a cluster runs."""

import re
import sys

JOB = "Job"
"""The kind of a controller whose pods run to their end."""

_HOMES = {"ReplicaSet": "apps", "StatefulSet": "apps", "ReplicationController": "", JOB: "batch"}
"""The API group of each kind of Kubernetes itself that has rules of its own. DaemonSets and Nodes keep their pods
whatever their group."""

BUILT_IN = frozenset(("ReplicaSet", "StatefulSet", "ReplicationController"))
"""Those that recreate every pod of theirs; its restartPolicy is always Always."""

_KRUISE = frozenset((("apps.kruise.io", "CloneSet"), ("apps.kruise.io", "StatefulSet")))


def controller_kind(api_version: str, kind: str) -> str:
    """The kind of a pod's controller as `Pod.owner` has it: the kind alone where it is of Kubernetes itself, else
    GROUP/VERSION/KIND, so that a ReplicaSet of another group is no ReplicaSet."""
    known = kind in ("DaemonSet", "Node") or (kind in _HOMES and _group(api_version) == _HOMES[kind])
    return sys.intern(kind if known else f"{api_version}/{kind}")


def recreates(kind: str, allowed: tuple[str, ...] = ()) -> bool:
    """Whether a controller of this kind (see `controller_kind`) recreates an evicted pod: it is of Kubernetes or
    OpenKruise, or one of those `allowed` (GROUP/VERSION/KIND, of which the version does not count)."""
    if kind in BUILT_IN:
        return True
    named = _named(kind)
    return named in _KRUISE or (bool(allowed) and named in map(_named, allowed))


def sets_count(api_version: str, kind: str) -> bool:
    """Whether the controller of such a workload, if it has one, sets its count: it makes one for each template and
    moves pods between them, as a Deployment does with ReplicaSets (so do Rollouts of Argo, and DeploymentConfigs with
    ReplicationControllers). Of all others, such as Deployments that an operator makes, HPAs often set the count."""
    return kind in ("ReplicaSet", "ReplicationController") and _group(api_version) == _HOMES[kind]


def names_controller(text: str) -> bool:
    """Whether a text has the form GROUP/VERSION/KIND."""
    return text.count("/") == 2 and all(text.split("/")) and not re.search(r"\s", text)


def _group(api_version: str) -> str | None:
    return api_version.rpartition("/")[0] if api_version else None


def _named(kind: str) -> tuple[str, str]:
    """The group and the name of a kind that is written GROUP/VERSION/KIND."""
    *rest, name = kind.split("/")
    return "/".join(rest[:-1]), name


OWNERS = {("apps/v1", "Deployment"): "ReplicaSet", ("apps/v1", "StatefulSet"): "StatefulSet"}
"""The kinds that are watched wherever pods are moved, and the kind of the controller of their pods."""

ROLLING = frozenset(OWNERS)
"""The kinds that replace pods of an old template by themselves: they may be in a rollout."""


SHARE = 10
"""Of so many pods of a controller one may lack while another is moved; of fewer, none."""


def lacks_more_than_may(wanted: int, present: int) -> bool:
    """Whether so many of the pods that a controller should have are missing that none may be moved."""
    return wanted - present >= max(1, wanted // SHARE)
