"""Lists of objects with damage in one of them: it is skipped or read in part, and costs no other."""

import copy
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticd.base.errors import UNREADABLE
from elasticd.cluster.kubernetes.watch.disruption_budgets import WireBudget, to_budget
from elasticd.cluster.kubernetes.watch.pulls import to_pull_event
from elasticd.cluster.kubernetes.watch.store import to_autoscaler
from elasticd.cluster.kubernetes.wire.convert import to_node, to_pod, to_workload
from elasticd.cluster.kubernetes.wire.jobs import WireJob, to_job
from elasticd.cluster.kubernetes.wire.objects import (
    Codec,
    WireAutoscaler,
    WireEvent,
    WireNode,
    WirePod,
    WireWorkload,
)
from tests.cluster.kubernetes.test_jobs import wire as job
from tests.cluster.kubernetes.test_pulls import event
from tests.kit.damage import NO_JSON, Damage, damaged, torn

pytestmark = pytest.mark.slow

TERM = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}
NEAR = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}
POD: dict[str, Any] = {
    "metadata": {
        "labels": {"app": "web"},
        "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r", "controller": True}
        ],
    },
    "spec": {
        "nodeName": "n1",
        "priority": 7,
        "schedulerName": "elasticd",
        "restartPolicy": "Always",
        "containers": [
            {
                "name": "main",
                "image": "i",
                "ports": [{"hostPort": 80, "protocol": "TCP"}],
                "resources": {"requests": {"cpu": "250m", "memory": "1Gi"}, "limits": {"cpu": "1"}},
            }
        ],
        "initContainers": [{"name": "mesh", "restartPolicy": "Always", "resources": {"requests": {"cpu": "50m"}}}],
        "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "nodeSelector": {"zone": "a"},
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]}},
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [NEAR]},
        },
        "topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule", "topologyKey": "zone", "maxSkew": 1}],
        "volumes": [{"name": "v", "emptyDir": {}}, {"name": "c", "persistentVolumeClaim": {"claimName": "c"}}],
        "overhead": {"cpu": "10m"},
    },
    "status": {
        "phase": "Running",
        "startTime": "2026-01-01T00:00:01Z",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:02Z"}],
        "containerStatuses": [{"name": "main", "lastState": {"terminated": {"reason": "OOMKilled"}}}],
    },
}
NODE: dict[str, Any] = {
    "metadata": {"labels": {"zone": "a"}, "annotations": {"elasticd.io/a": "b"}},
    "spec": {"unschedulable": True, "taints": [{"key": "gpu", "value": "a", "effect": "NoSchedule"}]},
    "status": {
        "allocatable": {"cpu": "3920m", "memory": "16Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
WORKLOAD: dict[str, Any] = {
    "metadata": {"labels": {"app": "web"}, "annotations": {"note": "x"}, "generation": 2},
    "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "strategy": {"type": "RollingUpdate"}},
    "status": {"replicas": 2, "observedGeneration": 2, "updatedReplicas": 2},
}
BUDGET: dict[str, Any] = {
    "metadata": {"generation": 1},
    "spec": {"selector": {"matchLabels": {"app": "web"}}, "unhealthyPodEvictionPolicy": "AlwaysAllow"},
    "status": {"disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2, "observedGeneration": 1},
}
AUTOSCALER: dict[str, Any] = {
    "metadata": {},
    "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
}

KINDS: dict[str, tuple[Codec[Any, Any], dict[str, Any]]] = {
    "pods": (Codec(WirePod, to_pod, lambda: 5.0), POD),
    "nodes": (Codec(WireNode, to_node), NODE),
    "deployments": (Codec(WireWorkload, partial(to_workload, "apps/v1", "Deployment")), WORKLOAD),
    "budgets": (Codec(WireBudget, lambda budget: to_budget(budget, "all")), BUDGET),
    "jobs": (Codec(WireJob, to_job, lambda: 5.0), job()),
    "events": (Codec(WireEvent, to_pull_event, lambda: 5.0), event()),
    "autoscalers": (Codec(WireAutoscaler, to_autoscaler), AUTOSCALER),
}


def listed(kind: str) -> dict[str, Any]:
    """A list of three objects that differ in name and UID alone, as those of one template do."""
    items = [copy.deepcopy(KINDS[kind][1]) for _ in range(3)]
    for number, item in enumerate(items):
        own = {"name": f"web-{number}", "namespace": "shop", "uid": f"u{number}", "resourceVersion": str(number)}
        item["metadata"] |= own
    return {"kind": "List", "metadata": {"resourceVersion": "9"}, "items": items}


@pytest.mark.parametrize("kind", KINDS)
@given(st.data())
def test_a_damaged_object_costs_no_other(kind: str, data: st.DataObject) -> None:
    codec, document = KINDS[kind][0], listed(kind)
    _, whole, faults = codec.page(msgspec.json.encode(document))
    assert (len(whole), faults) == (3, [])
    damage: Damage = data.draw(damaged(document, "items"))
    try:
        metadata, found, faults = codec.page(damage.body)
    except UNREADABLE:
        assert damage.junk in NO_JSON
        return
    assert (metadata.resource_version, len(found) + len(faults)) == ("9", 3)
    others = [item for index, item in enumerate(whole) if index != damage.item]
    assert [item for item in found if item in others] == others
    document = listed(kind)
    assert codec.page(msgspec.json.encode(document))[1] == whole, "damage is not remembered"


@pytest.mark.parametrize("kind", KINDS)
@given(st.data())
def test_a_torn_list_or_event_is_unreadable_or_read(kind: str, data: st.DataObject) -> None:
    codec, document = KINDS[kind][0], listed(kind)
    with suppress(*UNREADABLE):
        codec.page(data.draw(torn(msgspec.json.encode(document))))
    with suppress(*UNREADABLE):
        codec.one(data.draw(torn(msgspec.json.encode(document["items"][0]))))
