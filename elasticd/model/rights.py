"""What elasticd may have to do with the API server, by what it is for: the one table of its rights.

The roles in config/kubernetes give these and no others, which a test holds; `elasticd check --connect` asks for them.
Knows nothing of policies, nor of who turns a feature on.
"""

from typing import Literal, NamedTuple

Place = Literal["all", "home", "each"]
"""Where rights are given: in all namespaces, in the daemon's own, or in those that are named one by one."""


class Right(NamedTuple):
    """To do something with a resource, such as pods/eviction of the group ""; `name`: with one object of it alone."""

    verb: str
    group: str
    resource: str
    name: str = ""

    def __str__(self) -> str:
        of = f".{self.group}" if self.group else ""
        plural, slash, sub = self.resource.partition("/")
        return f"{self.verb} {plural}{of}{slash}{sub}{f' {self.name}' if self.name else ''}"


class Feature(NamedTuple):
    """What rights are for, the file of config/kubernetes that gives them, and where."""

    purpose: str
    file: str
    rights: tuple[Right, ...]
    place: Place = "all"


def _component(name: str) -> str:
    """The file of the component that gives rights."""
    return f"components/{name}/rbac.yaml"


def _rights(verbs: str, group: str, *resources: str, name: str = "") -> tuple[Right, ...]:
    return tuple(Right(verb, group, resource, name) for resource in resources for verb in verbs.split())


BASE, PLACING, SOURCES = "rbac.yaml", _component("placing"), _component("sources")
RESTORE_KEY = "elasticd-restore-key"
"""The Secret with the key that seals the records of evicted pods."""
APPS = {"Deployment": "deployments", "StatefulSet": "statefulsets", "ReplicaSet": "replicasets"}
"""The kinds of apps/v1, as the API calls them."""

PODS = Feature("see pods", BASE, _rights("list watch", "", "pods"))
NODES = Feature("see nodes", BASE, _rights("list watch", "", "nodes"))
AUTOSCALERS = Feature(
    "leave to HPAs what is theirs", BASE, _rights("list watch", "autoscaling", "horizontalpodautoscalers")
)
EVENTS = Feature("tell in Events what was scaled or moved", BASE, _rights("create patch", "", "events"))
USAGE = Feature("read what pods use", BASE, _rights("list", "metrics.k8s.io", "pods"))
NODE_USAGE = Feature("read what nodes use", BASE, _rights("list", "metrics.k8s.io", "nodes"))
BINDING = Feature("put pods on nodes", PLACING, (*_rights("create", "", "pods/binding"), *_rights("get", "", "pods")))
EVICTING = Feature(
    "preempt or move pods",
    PLACING,
    (*_rights("create", "", "pods/eviction"), *_rights("patch", "", "pods/status")),
)
CONTROLLERS = Feature(
    "know whether a pod that is moved would be recreated",
    PLACING,
    (
        *_rights("list", "apps", "replicasets", "statefulsets"),
        *_rights("list", "", "replicationcontrollers"),
        *_rights("list", "batch", "jobs"),
    ),
)
BUDGETS = Feature("know whom budgets keep", PLACING, _rights("list watch", "policy", "poddisruptionbudgets"))
NAMESPACES = Feature("know the labels and UIDs of namespaces", PLACING, _rights("list watch", "", "namespaces"))
VOLUMES = Feature(
    "know the volumes of pods with claims",
    _component("volumes"),
    (
        *_rights("list watch", "", "persistentvolumeclaims", "persistentvolumes"),
        *_rights("list watch", "storage.k8s.io", "storageclasses", "csinodes", "csidrivers", "csistoragecapacities"),
    ),
)
CLAIMS = Feature(
    "bind claims that wait for their first consumer",
    _component("volumes"),
    _rights("patch", "", "persistentvolumeclaims", "persistentvolumes"),
)
RECORDS = Feature(
    "remember pods that are recreated", PLACING, _rights("get list create patch delete", "", "configmaps"), "home"
)
SEALING = Feature(
    "seal the records of pods that are recreated",
    PLACING,
    (*_rights("get", "", "secrets", name=RESTORE_KEY), *_rights("create", "", "secrets")),
    "home",
)
RESTORING = Feature(
    "recreate pods that have no controller", _component("restore"), _rights("create", "", "pods"), "each"
)
VERTICAL = Feature(
    "resize pods that run", _component("vertical"), (*_rights("get", "", "pods"), *_rights("patch", "", "pods/resize"))
)
VICTIMS = Feature("choose which pods go first", _component("victims"), _rights("patch", "", "pods"))
SEEING_JOBS = Feature("see Jobs", _component("jobs"), _rights("list watch", "batch", "jobs"))
JOBS = Feature(
    "create Jobs and tidy them up", _component("jobs"), _rights("get create delete", "batch", "jobs"), "each"
)
KUBELETS = Feature("ask kubelets", _component("kubelet"), _rights("get", "", "nodes/proxy"))
CUSTOM = Feature("read custom metrics", SOURCES, _rights("get", "custom.metrics.k8s.io", "*"))
EXTERNAL = Feature("read external metrics", SOURCES, _rights("list", "external.metrics.k8s.io", "*"))
PULLS = Feature("see which images nodes pull", SOURCES, _rights("list watch", "", "events"))
READERS = Feature(
    "know who may read the pages",
    _component("readers"),
    (
        *_rights("create", "authentication.k8s.io", "tokenreviews"),
        *_rights("create", "authorization.k8s.io", "subjectaccessreviews"),
    ),
)


def leading(lease: str) -> Feature:
    """The rights to hold a Lease of this name."""
    create = _rights("create", "coordination.k8s.io", "leases")
    hold = _rights("get update", "coordination.k8s.io", "leases", name=lease)
    return Feature("agree on who acts", BASE, (*create, *hold), "home")


def seeing(group: str, plural: str) -> Feature:
    """The rights to follow workloads of a kind."""
    return Feature(f"see {plural}", BASE, _rights("list watch", group, plural))


def scaling(group: str, plural: str) -> Feature:
    """The rights to set their counts."""
    return Feature(f"scale {plural}", BASE, _rights("get patch", group, f"{plural}/scale"))


def sleeping(group: str, plural: str) -> Feature:
    """The rights to mark that a count of 0 was decided."""
    return Feature(f"scale {plural} to 0", _component("scale-to-zero"), _rights("patch", group, plural))


FEATURES = (
    PODS, NODES, *(make("apps", plural) for make in (seeing, scaling, sleeping) for plural in APPS.values()),
    AUTOSCALERS, EVENTS, USAGE, NODE_USAGE, leading("elasticd"), BINDING, EVICTING, CONTROLLERS, BUDGETS, NAMESPACES,
    VOLUMES, CLAIMS, RECORDS, SEALING, RESTORING, VERTICAL, VICTIMS, SEEING_JOBS, JOBS, KUBELETS, CUSTOM, EXTERNAL,
    PULLS,
    READERS,
)  # fmt: skip
"""All that the shipped roles are for."""

NEVER = (
    *_rights("delete", "", "pods", "nodes", "namespaces"),
    *_rights("create", "", "pods/exec", "serviceaccounts/token"),
    *_rights("get list", "", "secrets"),
    *_rights("patch", "", "nodes"),
    *_rights("update delete", "apps", *APPS.values()),
    *_rights("patch", "apps", "daemonsets"),
    *_rights("bind escalate", "rbac.authorization.k8s.io", "clusterroles"),
    *_rights("impersonate", "", "users"),
    *_rights("patch", "autoscaling", "horizontalpodautoscalers"),
    *_rights("patch", "keda.sh", "scaledobjects"),
)
"""What is dangerous in others' hands, and needed by nothing here."""

ANYTHING = Right("*", "*", "*")


def listed(rights: tuple[Right, ...]) -> str:
    """Rights in a few words, with the verbs of one resource together."""
    by_resource: dict[str, list[str]] = {}
    for right in rights:
        by_resource.setdefault(str(right._replace(verb="")).strip(), []).append(right.verb)
    return ", ".join(f"{', '.join(verbs)} {resource}" for resource, verbs in by_resource.items())


def where(namespace: str) -> str:
    """A namespace in words; empty: all of them."""
    return f"in namespace {namespace}" if namespace else "in all namespaces"
