"""A KubeSchedulerConfiguration becomes policies that place pods by the same filters and scores."""

from pathlib import Path
from typing import Any

import pytest
import tomli
import yaml

from elasticd.base.errors import ConfigError
from elasticd.migration.kube_scheduler import scheduler_policies
from elasticd.migration.policy import Imported
from tests.kit.daemons import called
from tests.migration.manifests import Manifest

GROUP = "kubescheduler.config.k8s.io"
ARGS = "profiles[0].pluginConfig[0].args"
ENABLED = "profiles[0].plugins.{}.enabled[0].name"


def config(*profiles: Manifest, version: str = "v1", **more: Any) -> Manifest:
    return {"apiVersion": f"{GROUP}/{version}", "kind": "KubeSchedulerConfiguration", "profiles": [*profiles], **more}


def imported(profile: Manifest | None = None, version: str = "v1", **more: Any) -> Imported:
    (policy,) = scheduler_policies(config(*([] if profile is None else [profile]), version=version, **more), "")
    return policy


def strategies(policy: Imported) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tomli.loads(policy.text)["strategy"]
    return found


def weights(policy: Imported) -> dict[str, float]:
    """The weights of the scores."""
    return {strategy["type"]: strategy["weight"] for strategy in strategies(policy) if "weight" in strategy}


def only(policy: Imported, kind: str) -> dict[str, Any]:
    """The one strategy of a type, without its type and weight."""
    (strategy,) = [strategy for strategy in strategies(policy) if strategy["type"] == kind]
    return {key: value for key, value in strategy.items() if key not in ("type", "weight")}


def arguments(name: str, **args: Any) -> Manifest:
    return {"pluginConfig": [{"name": name, "args": args}]}


NEW = {"taint-toleration": 3.0, "node-affinity": 2.0, "topology-spread": 2.0, "pod-affinity": 2.0}
ONES = dict.fromkeys(NEW, 1.0)
REST = {"least-requested": 1.0, "image-locality": 1.0}


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        pytest.param("v1", {**NEW, **REST, "balanced-allocation": 0.5}, id="v1"),
        pytest.param("v1beta3", {**NEW, **REST, "balanced-allocation": 0.5}, id="v1beta3"),
        pytest.param("v1beta2", {**ONES, **REST, "topology-spread": 2.0, "balanced-allocation": 0.5}, id="v1beta2"),
        pytest.param("v1beta1", {**ONES, **REST, "topology-spread": 2.0, "balanced-allocation": 1.0}, id="v1beta1"),
    ],
)
def test_default_weights_are_those_of_the_version(version: str, expected: dict[str, float]) -> None:
    policy = imported(version=version)
    assert weights(policy) == expected
    assert only(policy, "filters") == {"default_spread": "system"}
    assert only(policy, "topology-spread") == {"default_spread": "system"}
    assert only(policy, "preemption")["restart_classes"] is False
    assert ("NodePreferAvoidPods" in "".join(policy.notes)) == (version == "v1beta1")


SCORES = {**NEW, **REST, "balanced-allocation": 0.5}


def without(*names: str) -> dict[str, float]:
    return {name: weight for name, weight in SCORES.items() if name not in names}


def point(name: str, enabled: list[Manifest] | None = None, disabled: tuple[str, ...] = ()) -> Manifest:
    return {"plugins": {name: {"enabled": enabled or [], "disabled": [{"name": each} for each in disabled]}}}


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        pytest.param(
            point("score", [{"name": "NodeAffinity", "weight": 9}]), {**SCORES, "node-affinity": 9.0}, id="weight"
        ),
        pytest.param(point("score", disabled=("ImageLocality",)), without("image-locality"), id="one disabled"),
        pytest.param(
            point("score", [{"name": "TaintToleration", "weight": 4}], ("*",)),
            {"taint-toleration": 4.0},
            id="one alone",
        ),
        pytest.param(point("score", disabled=("*",)), {}, id="none"),
        pytest.param(point("score", [{"name": "NodeAffinity"}]), {**SCORES, "node-affinity": 1.0}, id="no weight: 1"),
        pytest.param(
            point("multiPoint", [{"name": "ImageLocality", "weight": 3}]),
            {**SCORES, "image-locality": 3.0},
            id="weight at all points",
        ),
        pytest.param(
            point("multiPoint", disabled=("InterPodAffinity",)), without("pod-affinity"), id="off at all points"
        ),
        pytest.param(
            point("multiPoint", [{"name": "NodeAffinity"}], ("*",)), {"node-affinity": 1.0}, id="alone at all"
        ),
        pytest.param(
            point("score", [{"name": "NodeAffinity", "weight": 5000}], ("ImageLocality",)),
            {name: weight / 5 for name, weight in {**without("image-locality"), "node-affinity": 5000}.items()},
            id="weights beyond ours",
        ),
    ],
)
def test_a_profile_changes_scores(profile: Manifest, expected: dict[str, float]) -> None:
    assert weights(imported(profile)) == pytest.approx(expected)


@pytest.mark.parametrize("weight", [1839, 5000, 99999])
def test_no_weight_is_above_the_highest(weight: int) -> None:
    assert max(weights(imported(point("score", [{"name": "TaintToleration", "weight": weight}]))).values()) == 1000


@pytest.mark.parametrize(
    ("profile", "skip"),
    [
        pytest.param(point("filter", disabled=("NodePorts",)), ["ports"], id="one"),
        pytest.param(point("multiPoint", disabled=("NodeResourcesFit",)), ["resources", "pods"], id="at all points"),
        pytest.param(point("filter", disabled=("TaintToleration",)), ["taints", "not-ready"], id="taints"),
        pytest.param(point("filter", disabled=("NodeName", "EBSLimits")), None, id="none of ours"),
        pytest.param(
            point(
                "filter", [{"name": name} for name in ("NodePorts", "InterPodAffinity", "NodeUnschedulable")], ("*",)
            ),
            ["taints", "not-ready", "affinity", "resources", "pods", "disks", "volume-limits", "spread"],
            id="some alone",
        ),
    ],
)
def test_filters_that_are_off_are_skipped(profile: Manifest, skip: list[str] | None) -> None:
    assert only(imported(profile), "filters").get("skip") == skip


@pytest.mark.parametrize("name", ["postFilter", "multiPoint"])
def test_without_its_plugin_nothing_is_preempted(name: str) -> None:
    policy = imported(point(name, disabled=("DefaultPreemption",)))
    assert "preemption" not in [strategy["type"] for strategy in strategies(policy)]


ZONE = "topology.kubernetes.io/zone"
RULE = {"key": "pool", "operator": "In", "values": ["batch"]}
NAME = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
ADDED = {
    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [RULE]}]},
    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "preference": {"matchFields": [NAME]}}],
}


@pytest.mark.parametrize(
    ("profile", "kind", "options"),
    [
        pytest.param(
            arguments(
                "PodTopologySpread",
                defaultingType="List",
                defaultConstraints=[
                    {"maxSkew": 2, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"},
                    {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"},
                ],
            ),
            "filters",
            {
                "default_spread": [
                    {"topology": ZONE, "max_skew": 2, "hard": True},
                    {"topology": "rack", "max_skew": 1, "hard": False},
                ]
            },
            id="default constraints",
        ),
        pytest.param(
            arguments("PodTopologySpread", defaultingType="List"),
            "topology-spread",
            {"default_spread": []},
            id="no default constraints",
        ),
        pytest.param(
            arguments("PodTopologySpread", defaultingType="System"),
            "filters",
            {"default_spread": "system"},
            id="the system's constraints",
        ),
        pytest.param(
            arguments("InterPodAffinity", hardPodAffinityWeight=40),
            "pod-affinity",
            {"required_weight": 40},
            id="hardPodAffinityWeight",
        ),
        pytest.param(
            arguments("NodeAffinity", addedAffinity=ADDED),
            "filters",
            {"default_spread": "system", "added_affinity": [{"labels": [RULE]}]},
            id="added affinity",
        ),
        pytest.param(
            arguments("NodeAffinity", addedAffinity=ADDED),
            "node-affinity",
            {"added": [{"weight": 7, "term": {"fields": [NAME]}}]},
            id="added preference",
        ),
        pytest.param(
            arguments(
                "NodeResourcesBalancedAllocation",
                resources=[{"name": "cpu", "weight": 1}, {"name": "ephemeral-storage", "weight": 1}],
            ),
            "balanced-allocation",
            {"resources": ["cpu", "ephemeral-storage"]},
            id="balanced resources",
        ),
        pytest.param(
            arguments(
                "NodeResourcesFit",
                scoringStrategy={"type": "LeastAllocated", "resources": [{"name": "memory", "weight": 2}]},
            ),
            "least-requested",
            {"resources": ["memory"]},
            id="resources",
        ),
    ],
)
def test_arguments_become_options(profile: Manifest, kind: str, options: dict[str, Any]) -> None:
    policy = imported(profile)
    found = only(policy, kind)
    assert {key: found.get(key, []) for key in options} == options
    assert not [note for note in policy.notes if "no equivalent" in note]


def test_resources_that_weigh_differently_are_scored_apart() -> None:
    rows = [{"name": "cpu", "weight": 3}, {"name": "memory", "weight": 1}]
    profile = arguments("NodeResourcesFit", scoringStrategy={"resources": rows})
    profile |= point("score", [{"name": "NodeResourcesFit", "weight": 8}])
    found = [each for each in strategies(imported(profile)) if each["type"] == "least-requested"]
    assert [(each["resources"], each["weight"]) for each in found] == [(["cpu"], 6.0), (["memory"], 2.0)]


def test_the_oldest_version_has_a_plugin_for_least_allocated() -> None:
    profile = arguments("NodeResourcesLeastAllocated", resources=[{"name": "cpu", "weight": 1}])
    assert only(imported(profile, "v1beta1"), "least-requested") == {"resources": ["cpu"]}


@pytest.mark.parametrize(
    ("profile", "note"),
    [
        pytest.param(
            arguments("NodeResourcesFit", scoringStrategy={"type": "MostAllocated"}),
            f"{ARGS}.scoringStrategy.type: MostAllocated: no strategy fills the fullest nodes "
            "first: this score is left out",
            id="most allocated",
        ),
        pytest.param(
            arguments(
                "NodeResourcesFit",
                scoringStrategy={
                    "type": "RequestedToCapacityRatio",
                    "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 10}]},
                },
            ),
            f"{ARGS}.scoringStrategy.type: RequestedToCapacityRatio: no strategy scores by a "
            "shape: this score is left out",
            id="shape",
        ),
        pytest.param(
            arguments("NodeResourcesFit", ignoredResources=["example.com/x"]),
            f"{ARGS}.ignoredResources: no resource is ignored: a pod that requests it goes where it is",
            id="ignored",
        ),
        pytest.param(
            arguments("InterPodAffinity", ignorePreferredTermsOfExistingPods=True),
            f"{ARGS}.ignorePreferredTermsOfExistingPods: what pods that are there prefer counts here",
            id="preferences of others",
        ),
        pytest.param(
            point("permit", [{"name": "Coscheduling"}]),
            f"{ENABLED.format('permit')}: Coscheduling: elasticd has no such plugin",
            id="unknown",
        ),
        pytest.param(
            point("preEnqueue", disabled=("SchedulingGates",)),
            "profiles[0].plugins.preEnqueue.disabled[0].name: SchedulingGates: cannot be switched off here",
            id="gates",
        ),
        pytest.param(
            arguments("VolumeBinding", bindTimeoutSeconds=5),
            f"{ARGS}.bindTimeoutSeconds: has no equivalent, and was left out",
            id="volumes",
        ),
        pytest.param(
            arguments("DefaultPreemption", minCandidateNodesAbsolute=5),
            f"{ARGS}.minCandidateNodesAbsolute: all nodes are candidates",
            id="preemption",
        ),
        pytest.param(
            {"percentageOfNodesToScore": 10},
            "profiles[0].percentageOfNodesToScore: all nodes are scored, as with 100",
            id="percentage",
        ),
    ],
)
def test_what_has_no_equivalent_is_said(profile: Manifest, note: str) -> None:
    assert note in imported(profile).notes


@pytest.mark.parametrize(
    ("key", "value", "note"),
    [
        pytest.param("extenders", [{"urlPrefix": "http://x"}], "extenders: elasticd asks none", id="extenders"),
        pytest.param("podMaxBackoffSeconds", 60, "podMaxBackoffSeconds: a pod that found no node", id="backoff"),
        pytest.param("podMaxBackoffSeconds", 10, "", id="default backoff"),
        pytest.param("percentageOfNodesToScore", 100, "", id="all nodes"),
        pytest.param("leaderElection", {"leaderElect": True}, "", id="no places"),
        pytest.param("odd", 1, "odd: has no equivalent", id="unknown"),
    ],
)
def test_what_is_about_all_profiles_is_said(key: str, value: Any, note: str) -> None:
    notes = [each for each in imported(**{key: value}).notes if each.startswith(key)]
    assert [each.startswith(note) for each in notes] == ([True] if note else [])


@pytest.mark.parametrize(
    ("profile", "problem"),
    [
        pytest.param(
            arguments("PodTopologySpread", defaultingType="System", defaultConstraints=[{"topologyKey": ZONE}]),
            f'{ARGS}.defaultingType: must be List, is "System"',
            id="two defaults",
        ),
        pytest.param(
            arguments("NodeResourcesFit", scoringStrategy={"type": "Odd"}),
            f"{ARGS}.scoringStrategy.type: must be one of LeastAllocated, MostAllocated, "
            'RequestedToCapacityRatio, is "Odd"',
            id="an unknown scoring strategy",
        ),
        pytest.param({"plugins": 3}, "profiles[0].plugins: must be a table, is 3", id="no table"),
        pytest.param(
            point("score", [{"weight": 1}]), f"{ENABLED.format('score')}: must be given, is missing", id="no name"
        ),
    ],
)
def test_what_kube_scheduler_refuses_is_refused(profile: Manifest, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        imported(profile)
    assert problem in str(caught.value)


def test_each_profile_becomes_a_policy_that_loads(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file, out = tmp_path / "scheduler.yaml", tmp_path / "policies"
    gpu = {"schedulerName": "gpu", **arguments("NodeAffinity", addedAffinity=ADDED)}
    file.write_text(yaml.safe_dump(config({"schedulerName": "default-scheduler"}, gpu)))
    code, text, err = called(capsys, "import", "kubescheduler", file, "--out", out)
    assert (code, text) == (0, f"{out}: 2 policies\n")
    assert "KubeSchedulerConfiguration gpu: resource claims, and some kinds of volumes: pods" in err
    pools = {path.name: tomli.loads(path.read_text())["pool"]["scheduler"] for path in out.iterdir()}
    assert pools == {"default-scheduler.toml": "elasticd", "gpu.toml": "gpu"}
    assert called(capsys, "check", out)[:2] == (0, "2 policies are fine\n")


@pytest.mark.parametrize("words", [("-n", "kube-system"), ("--all-namespaces",)])
def test_a_configuration_is_no_object_of_a_cluster(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    problem = "must not be given for kubescheduler, whose configuration is a file, is"
    assert called(capsys, "import", "kubescheduler", *words) == (78, "", f"{words[0]}: {problem}\n")


def test_two_profiles_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"profiles\[1\].schedulerName: must be that of one profile, a is "):
        scheduler_policies(config({"schedulerName": "a"}, {"schedulerName": "a"}), "")
