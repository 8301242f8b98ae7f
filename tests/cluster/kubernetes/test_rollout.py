"""When a workload says that it is replacing pods of an old template."""

from typing import Any

import msgspec
import pytest

from elasticd.cluster.kubernetes.wire.convert import rollout, to_workload
from elasticd.cluster.kubernetes.wire.objects import WireWorkload
from elasticd.model.workload import UNSEEN


def told(kind: str, spec: dict[str, Any], status: dict[str, Any], generation: int = 3) -> str:
    meta = {"name": "web", "generation": generation}
    wire = {"metadata": meta, "spec": spec, "status": {"observedGeneration": 3, **status}}
    return rollout(kind, msgspec.json.decode(msgspec.json.encode(wire), type=WireWorkload))


@pytest.mark.parametrize(
    ("status", "generation", "text"),
    [
        pytest.param({"replicas": 4, "updatedReplicas": 4}, 3, "", id="all of the newest template"),
        pytest.param({"replicas": 4, "updatedReplicas": 1}, 3, "1 of 4 pods are of the newest template", id="one is"),
        pytest.param({"replicas": 4}, 3, "0 of 4 pods are of the newest template", id="none is, or it is paused"),
        pytest.param({"replicas": 4, "updatedReplicas": 4}, 4, UNSEEN, id="changed just now"),
        pytest.param({"replicas": 4, "updatedReplicas": 1}, 4, "1 of 4 pods are of the newest template",
                     id="changed just now, while others are replaced"),
        pytest.param({}, 3, "", id="scaled to zero"),
        pytest.param({"replicas": 6, "updatedReplicas": 6, "readyReplicas": 2, "unavailableReplicas": 4}, 3, "",
                     id="a scale-out whose pods are not available yet is none"),
        pytest.param({"replicas": 4, "updatedReplicas": 1,
                      "conditions": [{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
                                     {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]},
                     3, "", id="one that has missed its deadline is over"),
        pytest.param({"replicas": 4, "updatedReplicas": 1,
                      "conditions": [{"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated"}]},
                     3, "1 of 4 pods are of the newest template", id="one that goes on"),
    ],
)  # fmt: skip
def test_a_deployment(status: dict[str, Any], generation: int, text: str) -> None:
    assert told("Deployment", {"replicas": 4}, status, generation) == text


OLD, NEW = {"currentRevision": "a", "updateRevision": "a"}, {"currentRevision": "a", "updateRevision": "b"}
ON_DELETE = {"updateStrategy": {"type": "OnDelete"}}
PARTITION = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 3}}}


@pytest.mark.parametrize(
    ("spec", "status", "generation", "text"),
    [
        pytest.param({}, {**OLD, "updatedReplicas": 4}, 3, "", id="one revision"),
        pytest.param({}, {**OLD}, 3, "", id="one revision, told by an old server"),
        pytest.param({}, {**NEW, "updatedReplicas": 1}, 3, "1 of 4 pods are of the newest template", id="two"),
        pytest.param({}, {**NEW, "updatedReplicas": 4}, 3, "", id="all updated"),
        pytest.param({}, {**OLD}, 4, UNSEEN, id="changed just now"),
        pytest.param(PARTITION, {**NEW}, 3, "0 of 1 pods are of the newest template", id="above the partition"),
        pytest.param(PARTITION, {**NEW, "updatedReplicas": 1}, 3, "", id="the rest stays old on purpose"),
        pytest.param({"updateStrategy": {"type": "OnDelete"}}, {**NEW}, 3, "", id="a person deletes them"),
        pytest.param({"replicas": None}, {**NEW}, 3, "0 of 1 pods are of the newest template", id="no count is one"),
    ],
)
def test_a_stateful_set(spec: dict[str, Any], status: dict[str, Any], generation: int, text: str) -> None:
    assert told("StatefulSet", {"replicas": 4, **spec}, {"replicas": 4, **status}, generation) == text


@pytest.mark.parametrize(
    ("kind", "reason", "unfinished"),
    [
        pytest.param("Deployment", "ReplicaSetUpdated", True, id="its last pods are not available"),
        pytest.param("Deployment", "NewReplicaSetCreated", True, id="it has just begun"),
        pytest.param("Deployment", "NewReplicaSetAvailable", False, id="it is over, also while it is scaled out"),
        pytest.param("Deployment", "ProgressDeadlineExceeded", False, id="it missed its deadline"),
        pytest.param("Deployment", "DeploymentPaused", False, id="it is paused"),
        pytest.param("Deployment", "DeploymentResumed", True, id="it goes on"),
        pytest.param("StatefulSet", "ReplicaSetUpdated", False, id="another kind"),
    ],
)
def test_a_deployment_says_that_its_rollout_is_not_over(kind: str, reason: str, unfinished: bool) -> None:
    conditions = [
        {"type": "Available", "reason": "MinimumReplicasAvailable"},
        {"type": "Progressing", "reason": reason},
    ]
    wire = {"metadata": {"name": "web"}, "status": {"replicas": 4, "updatedReplicas": 4, "conditions": conditions}}
    read = msgspec.json.decode(msgspec.json.encode(wire), type=WireWorkload)
    assert to_workload("apps/v1", kind, read).unfinished is unfinished


@pytest.mark.parametrize(
    ("kind", "spec", "status", "revision"),
    [
        pytest.param("StatefulSet", PARTITION, {**NEW, "updatedReplicas": 1}, "b", id="it ends at its partition"),
        pytest.param("StatefulSet", {}, {**NEW, "updatedReplicas": 4}, "b", id="its last pod is not ready"),
        pytest.param("StatefulSet", ON_DELETE, {**NEW, "updatedReplicas": 1}, "b", id="a person deleted one"),
        pytest.param("StatefulSet", ON_DELETE, {**NEW, "updatedReplicas": 4}, "b", id="all: its status never says so"),
        pytest.param("StatefulSet", {}, {**OLD, "updatedReplicas": 4}, "", id="one revision"),
        pytest.param("StatefulSet", {}, {**OLD, "updatedReplicas": 3}, "a", id="it is taken back, or a pod ends"),
        pytest.param("StatefulSet", {}, {"replicas": 0}, "", id="just created"),
        pytest.param("Deployment", {}, NEW, "", id="another kind"),
    ],
)
def test_a_stateful_set_in_rollout_names_its_new_revision(
    kind: str, spec: dict[str, Any], status: dict[str, Any], revision: str
) -> None:
    wire = {"metadata": {"name": "web"}, "spec": spec, "status": {"replicas": 4, **status}}
    read = msgspec.json.decode(msgspec.json.encode(wire), type=WireWorkload)
    assert to_workload("apps/v1", kind, read).new_revision == revision


def test_a_replica_set_rolls_nothing_out() -> None:
    assert told("ReplicaSet", {"replicas": 4}, {"replicas": 4}, 9) == ""
