"""A KubeSchedulerConfiguration becomes a policy with [pool] for each of its profiles.

Knows plugins, extension points and defaults of each version, and which strategy does what a plugin does; knows nothing
of nodes. Sources: kube-scheduler's v1beta1 and v1 (default plugins, how a profile is merged with them, arguments).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from elasticd.base.text import shown
from elasticd.migration.fields import Fields
from elasticd.migration.policy import Imported, Table, unknown_fields

DEFAULT = "default-scheduler"
"""The schedulerName of pods that name none."""

_FILTERS = {
    "NodeUnschedulable": ["unschedulable"],
    "TaintToleration": ["taints", "not-ready"],
    "NodeAffinity": ["affinity"],
    "NodePorts": ["ports"],
    "NodeResourcesFit": ["resources", "pods"],
    "VolumeRestrictions": ["disks"],
    "NodeVolumeLimits": ["volume-limits"],
    "PodTopologySpread": ["spread"],
    "InterPodAffinity": ["pod-affinity", "anti-affinity"],
}
"""By plugin, the parts of the strategy `filters` that do the same."""

_BY_USER = {"TaintToleration": 3, "NodeAffinity": 2, "PodTopologySpread": 2, "InterPodAffinity": 2}
_BY_SYSTEM = {"NodeResourcesFit": 1, "NodeResourcesBalancedAllocation": 1, "ImageLocality": 1}
_WEIGHTS = {**_BY_USER, **_BY_SYSTEM}
"""Scores, with their weights in v1beta3 and v1."""

_OLDER = {**dict.fromkeys(_WEIGHTS, 1), "PodTopologySpread": 2}
"""The same in v1beta2."""

_OLDEST = {name: weight for name, weight in _OLDER.items() if name != "NodeResourcesFit"}
_OLDEST |= {"NodeResourcesLeastAllocated": 1, "NodePreferAvoidPods": 10000}
"""The same in v1beta1."""

_FITS = ("NodeResourcesFit", "NodeResourcesLeastAllocated")
_KINDS = {
    "MostAllocated": "no strategy fills the fullest nodes first: this score is left out",
    "RequestedToCapacityRatio": "no strategy scores by a shape: this score is left out",
}
"""Types of a scoringStrategy that no strategy has, and what that means."""

_ELSEWHERE = {
    "NodeResourcesMostAllocated": _KINDS["MostAllocated"],
    "RequestedToCapacityRatio": _KINDS["RequestedToCapacityRatio"],
    "NodePreferAvoidPods": "the annotation preferAvoidPods of nodes has no effect",
    "SelectorSpread": 'left out: the default spread constraints of "system" do the like',
    "NodeLabel": 'left out: "binding" and the added terms of "node-affinity" prefer nodes by labels',
    "ServiceAffinity": "left out: no strategy knows Services",
}
"""Scores that no strategy has, and what that means."""

_SILENT = {
    "SchedulingGates", "PrioritySort", "NodeName", "EBSLimits", "GCEPDLimits", "AzureDiskLimits",
    "CinderLimits", "VolumeBinding", "VolumeZone", "DynamicResources", "DefaultPreemption", "DefaultBinder",
}  # fmt: skip
"""Plugins of the default profile that neither refuse nor score a node by what elasticd looks at."""

_ALWAYS_ON = ("SchedulingGates", "VolumeBinding", "VolumeZone")
_CLAIMS = "resource claims, and some kinds of volumes: pods that have one are left to kube-scheduler"
_EQUALS = "scores are not cut to whole numbers; of equal nodes the one with most room is taken, not any"

_POINTS = (
    "preEnqueue", "queueSort", "preFilter", "filter", "postFilter", "preScore", "score", "reserve", "permit",
    "preBind", "bind", "postBind", "multiPoint",
)  # fmt: skip
_MOST = 1000.0
"""The highest weight of a strategy."""


class _Profile(Struct):
    """A profile as it is read: the plugins that refuse and that score, with weights, and the arguments by plugin."""

    version: str
    plugins: Fields
    arguments: Mapping[str, Fields]
    notes: list[str]

    def enabled(self, point: str, defaults: Mapping[str, int]) -> dict[str, int]:
        """The plugins at an extension point, with their weights."""
        present = dict(defaults)
        if self.version not in ("v1beta1", "v1beta2"):
            multi = _merge(present, self.plugins.table("multiPoint"))
            present = {name: weight for name, weight in multi.items() if name in present}
        return _merge(present, self.plugins.table(point))

    def argument(self, plugin: str) -> Fields:
        """The arguments of a plugin; none where nothing is said."""
        return self.arguments.get(plugin) or Fields({}, self.plugins.file, "")


def _merge(present: Mapping[str, int], config: Fields) -> dict[str, int]:
    disabled = {each.text("name") for each in config.tables("disabled")}
    merged = {} if "*" in disabled else {name: weight for name, weight in present.items() if name not in disabled}
    for each in config.tables("enabled"):
        merged[each.text("name")] = each.whole("weight", 0) or 1
    return merged


def scheduler_policies(table: Any, file: str) -> list[Imported]:
    """A policy for each profile. Raises ConfigError for what kube-scheduler would refuse."""
    manifest = Fields(table, file)
    version = manifest.text("apiVersion").rpartition("/")[2]
    manifest.ignore("kind", *_NO_PLACES)
    common = _common_notes(manifest)
    profiles = manifest.tables("profiles") or [Fields({}, file, "")]
    policies = [_policy(profile, version) for profile in profiles]
    _check_names(profiles, policies)
    common += [note for note in unknown_fields(manifest) if not note.startswith("profiles[")]
    return [
        Imported(each.kind, "", each.name, each.table, notes=(*common, *each.notes, _CLAIMS, _EQUALS))
        for each in policies
    ]


def _check_names(profiles: Sequence[Fields], policies: Sequence[Imported]) -> None:
    for index, policy in enumerate(policies):
        if policy.name in [before.name for before in policies[:index]]:
            raise profiles[index].wrong("schedulerName", f"must be that of one profile, {policy.name} is that of two")


_NO_PLACES = (
    "parallelism", "leaderElection", "clientConnection", "healthzBindAddress", "metricsBindAddress", "enableProfiling",
    "enableContentionProfiling", "delayCacheUntilActive",
)  # fmt: skip
"""Fields that change no place."""


def _common_notes(manifest: Fields) -> list[str]:
    notes = list[str]()
    for key, default in (("podInitialBackoffSeconds", 1), ("podMaxBackoffSeconds", 10)):
        if manifest.whole(key, default) != default:
            notes.append(f"{key}: a pod that found no node is tried again after 1, 2, 4, 8, then every 10 s")
    if manifest.any("extenders"):
        notes.append("extenders: elasticd asks none: what they refuse or prefer has no effect")
    _note_percentage(manifest, notes)
    return notes


def _note_percentage(of: Fields, notes: list[str]) -> None:
    if of.whole("percentageOfNodesToScore", 100) != 100:
        notes.append(f"{of.where('percentageOfNodesToScore')}: all nodes are scored, as with 100")


def _policy(profile: Fields, version: str) -> Imported:
    name, notes = profile.text("schedulerName", DEFAULT), list[str]()
    if name == DEFAULT:
        notes.append(f"schedulerName: not {DEFAULT}: a pod is elasticd's by schedulerName: elasticd")
    _note_percentage(profile, notes)
    read = _Profile(version, profile.table("plugins"), _arguments(profile), notes)
    spread = _default_spread(read.argument("PodTopologySpread"))
    added, preferred = _added_affinity(read.argument("NodeAffinity"))
    if spread:
        notes.append(
            "PodTopologySpread: default constraints count the pods of the same controller, not of the same Services"
        )
    strategies = [
        _filters(read, spread, added),
        *_scaled(_scores(read, spread, preferred)),
        *_preemption(read),
    ]
    _note_others(read)
    notes += unknown_fields(profile)
    pool = {"scheduler": "elasticd" if name == DEFAULT else name, "namespaces": ["*"], "order": "priority"}
    policy = {"mode": "observe", "pool": pool, "strategy": strategies}
    return Imported("KubeSchedulerConfiguration", "", name, policy, notes=tuple(notes))


def _arguments(profile: Fields) -> dict[str, Fields]:
    found = dict[str, Fields]()
    for entry in profile.tables("pluginConfig"):
        arguments = entry.table("args")
        arguments.ignore("apiVersion", "kind")
        found[entry.text("name")] = arguments
    return found


def _filters(read: _Profile, spread: Any, added: list[Table]) -> Table:
    enabled = read.enabled("filter", dict.fromkeys(_FILTERS, 1))
    skip = [part for name, parts in _FILTERS.items() if name not in enabled for part in parts]
    fit = read.argument("NodeResourcesFit")
    for key in ("ignoredResources", "ignoredResourceGroups"):
        if fit.any(key):
            read.notes.append(f"{fit.where(key)}: no resource is ignored: a pod that requests it goes where it is")
    table: Table = {"type": "filters", "skip": skip, "default_spread": spread, "added_affinity": added}
    return {key: value for key, value in table.items() if value}


def _default_spread(of: Fields) -> Any:
    """The option default_spread; "system" where nothing is said."""
    rows = of.tables("defaultConstraints")
    kind = of.text("defaultingType", "List" if rows else "System")
    if kind not in ("List", "System") or (kind == "System" and rows):
        raise of.wrong("defaultingType", f"must be List{'' if rows else ' or System'}, is {shown(kind)}")
    if kind == "System":
        return "system"
    return [
        {
            "topology": row.text("topologyKey"),
            "max_skew": row.whole("maxSkew", 1),
            "hard": row.text("whenUnsatisfiable") == "DoNotSchedule",
        }
        for row in rows
    ]


def _added_affinity(of: Fields) -> tuple[list[Table], list[Table]]:
    """The options added_affinity of `filters` and added of `node-affinity`."""
    affinity = of.table("addedAffinity")
    required = affinity.table("requiredDuringSchedulingIgnoredDuringExecution").tables("nodeSelectorTerms")
    preferred = affinity.tables("preferredDuringSchedulingIgnoredDuringExecution")
    return [_term(each) for each in required], [
        {"weight": each.whole("weight", 0), "term": _term(each.table("preference"))} for each in preferred
    ]


def _term(of: Fields) -> Table:
    rules = {"labels": of.tables("matchExpressions"), "fields": of.tables("matchFields")}
    return {key: [_expression(rule) for rule in given] for key, given in rules.items() if given}


def _expression(rule: Fields) -> Table:
    values = rule.any("values") or []
    table: Table = {"key": rule.text("key"), "operator": rule.text("operator")}
    return {**table, "values": [str(value) for value in values]} if values else table


def _scores(read: _Profile, spread: Any, preferred: list[Table]) -> list[Table]:
    defaults = {"v1beta1": _OLDEST, "v1beta2": _OLDER}.get(read.version, _WEIGHTS)
    affinity = read.argument("InterPodAffinity")
    required = affinity.whole("hardPodAffinityWeight", 1)
    if affinity.flag("ignorePreferredTermsOfExistingPods", default=False):
        key = affinity.where("ignorePreferredTermsOfExistingPods")
        read.notes.append(f"{key}: what pods that are there prefer counts here")
    options: dict[str, Table] = {
        "PodTopologySpread": {"type": "topology-spread", "default_spread": spread},
        "InterPodAffinity": {"type": "pod-affinity", "required_weight": required},
        "NodeAffinity": {"type": "node-affinity", "added": preferred},
        "TaintToleration": {"type": "taint-toleration"},
        "ImageLocality": {"type": "image-locality"},
    }
    scores = list[Table]()
    for name, weight in read.enabled("score", defaults).items():
        if name in options:
            scores.append({**{key: value for key, value in options[name].items() if value != []}, "weight": weight})
        elif name in _FITS:
            scores += _fit(read, name, weight)
        elif name == "NodeResourcesBalancedAllocation":
            scores.append(_balanced(read, weight))
        elif name in _ELSEWHERE:
            read.notes.append(f"{name}: {_ELSEWHERE[name]}")
    return scores


def _fit(read: _Profile, name: str, weight: int) -> list[Table]:
    """The score of NodeResourcesFit: one strategy, or one for each resource where these weigh differently."""
    of = read.argument(name)
    strategy = of.table("scoringStrategy") if name == "NodeResourcesFit" else of
    kind = strategy.text("type", "LeastAllocated")
    resources = {each.text("name"): each.whole("weight", 0) or 1 for each in strategy.tables("resources")}
    resources = resources or {"cpu": 1, "memory": 1}
    if kind in _KINDS:
        strategy.ignore("requestedToCapacityRatio")
        read.notes.append(f"{strategy.where('type')}: {kind}: {_KINDS[kind]}")
        return []
    if kind != "LeastAllocated":
        raise strategy.wrong("type", f"must be one of LeastAllocated, {', '.join(_KINDS)}, is {shown(kind)}")
    _note_extended(read, strategy.where("resources"), resources)
    if len({*resources.values()}) == 1:
        return [{"type": "least-requested", "resources": [*resources], "weight": weight}]
    total = sum(resources.values())
    return [
        {"type": "least-requested", "resources": [resource], "weight": weight * part / total}
        for resource, part in resources.items()
    ]


def _note_extended(read: _Profile, key: str, resources: Iterable[str]) -> None:
    for resource in resources:
        if resource not in ("cpu", "memory", "ephemeral-storage"):
            what = f"{resource} counts also for pods that request none, and a node without it as full"
            read.notes.append(f"{key}: {what}")


def _balanced(read: _Profile, weight: int) -> Table:
    """Since v1beta2 it is a standard deviation, which of two parts is half of their difference."""
    of = read.argument("NodeResourcesBalancedAllocation")
    rows = of.tables("resources")
    for row in rows:
        row.ignore("weight")  # it must be 1
    resources = [row.text("name") for row in rows] or ["cpu", "memory"]
    deviates = read.version != "v1beta1"
    if len(resources) > 2 and deviates:
        read.notes.append(f"{of.where('resources')}: of more than two the largest difference counts, no deviation")
    _note_extended(read, of.where("resources"), resources)
    return {"type": "balanced-allocation", "resources": resources, "weight": weight / 2 if deviates else weight}


def _scaled(scores: list[Table]) -> list[Table]:
    """Weights beside each other, none above the highest there is."""
    most = max([score["weight"] for score in scores], default=0.0)
    # Rounded as it is, the highest may come out a little above.
    return [{**score, "weight": min(_MOST, score["weight"] * min(1.0, _MOST / most))} for score in scores]


def _preemption(read: _Profile) -> list[Table]:
    of = read.argument("DefaultPreemption")
    if "DefaultPreemption" not in read.enabled("postFilter", {"DefaultPreemption": 1}):
        return []
    for key in ("minCandidateNodesPercentage", "minCandidateNodesAbsolute"):
        if of.any(key) is not None:
            read.notes.append(f"{of.where(key)}: all nodes are candidates")
    read.notes.append(
        "DefaultPreemption: disruption budgets are always kept, and pods of other schedulers stay, as do elasticd's "
        "own, and those of a priority of 2000000000 or more"
    )
    options = {"restart_classes": False, "min_run": 0, "most_victims": 1000, "spare_namespaces": []}
    return [{"type": "preemption", **options, "local_storage": True}]


def _note_others(read: _Profile) -> None:
    """A note for each plugin that is no part of kube-scheduler, and for each that cannot be switched off here."""
    known = {*_FILTERS, *_WEIGHTS, *_OLDEST, *_ELSEWHERE, *_SILENT}
    for point in _POINTS:
        of = read.plugins.table(point)
        for each in of.tables("enabled"):
            each.whole("weight", 0)
            if (name := each.text("name")) not in known:
                read.notes.append(f"{each.where('name')}: {name}: elasticd has no such plugin")
        for each in of.tables("disabled"):
            if (name := each.text("name")) in _ALWAYS_ON:
                read.notes.append(f"{each.where('name')}: {name}: cannot be switched off here")
