"""Pods that are being resized: what they ask for, what their kubelet says, and what kube-scheduler counts of them.

Knows the wire format of a pod. It must not know who counts.
"""

from typing import Any

import pytest


def container(name: str = "main", **requests: str) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": requests}}


def held(name: str = "main", has: str = "1", set_aside: str = "1") -> dict[str, Any]:
    """A container's status, as the kubelet of a pod that can be resized writes it."""
    return {"name": name, "resources": {"requests": {"cpu": has}}, "allocatedResources": {"cpu": set_aside}}


INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
DEFERRED = {**INFEASIBLE, "reason": "Deferred"}
SIDECAR = {**container("side", cpu="1"), "restartPolicy": "Always"}


RESIZED = [
    pytest.param({}, {"containerStatuses": [held()]}, 1, id="as asked for"),
    pytest.param({}, {"containerStatuses": [held(has="3", set_aside="1")]}, 3, id="has more than it asks for"),
    pytest.param({}, {"containerStatuses": [held(set_aside="2")]}, 2, id="more is set aside"),
    pytest.param({}, {"containerStatuses": [held(has="250m", set_aside="500m")]}, 1, id="asks for more"),
    pytest.param(
        {}, {"containerStatuses": [held(has="250m", set_aside="500m")], "conditions": [DEFERRED]}, 1, id="deferred"
    ),
    pytest.param(
        {},
        {"containerStatuses": [held(has="250m", set_aside="500m")], "conditions": [INFEASIBLE]},
        0.5,
        id="infeasible",
    ),
    pytest.param({}, {"conditions": [INFEASIBLE]}, 1, id="infeasible, and no word of what it has"),
    pytest.param(
        {},
        {"containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "3"}}]},
        1,
        id="no word of what it has",
    ),
    pytest.param({}, {"containerStatuses": [{"name": "main", "resources": {}}]}, 1, id="has nothing"),
    pytest.param({}, {"containerStatuses": [held("other", has="3")]}, 1, id="of a container that it has not"),
    pytest.param(
        {"containers": [container(cpu="1"), container("b", cpu="2")]},
        {"containerStatuses": [held(has="3"), held("b", has="1")]},
        5,
        id="one shrinks and one grows",
    ),
    pytest.param(
        {"initContainers": [SIDECAR]},
        {"containerStatuses": [held()], "initContainerStatuses": [held("side", has="2")]},
        3,
        id="a sidecar",
    ),
    pytest.param(
        {"initContainers": [container("once", cpu="1")]},
        {"containerStatuses": [held()], "initContainerStatuses": [held("once", has="5")]},
        1,
        id="an init container that has ended",
    ),
    pytest.param(
        {"initContainers": [container("once", cpu="4")], "overhead": {"cpu": "100m"}},
        {"containerStatuses": [held(has="2")]},
        4.1,
        id="an init container asks for more, and overhead",
    ),
    pytest.param(
        {"resources": {"requests": {"cpu": "2"}}},
        {"resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "4"}},
        4,
        id="the pod as a whole",
    ),
    pytest.param(
        {"resources": {"requests": {"cpu": "5"}}},
        {
            "resources": {"requests": {"cpu": "3"}},
            "allocatedResources": {"cpu": "2"},
            "conditions": [INFEASIBLE],
        },
        3,
        id="the pod as a whole, infeasible",
    ),
    pytest.param(
        {"resources": {"requests": {"cpu": "2"}}},
        {"containerStatuses": [held(has="8")]},
        2,
        id="the pod as a whole, of which the kubelet says nothing",
    ),
]
"""Spec, status, and the cores that a scheduler counts."""
