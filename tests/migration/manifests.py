"""Manifests of other autoscalers, valid by their APIs' own rules, for tests."""

import copy
from typing import Any

Manifest = dict[str, Any]


def manifest(api_version: str, kind: str, spec: Manifest, name: str = "web", **meta: Any) -> Manifest:
    """An object in namespace shop."""
    metadata = {"name": name, "namespace": "shop", **meta}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": copy.deepcopy(spec)}


TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


def hpa(metrics: list[Manifest] | None = None, version: str = "v2", **spec: Any) -> Manifest:
    """An HPA of one to ten replicas."""
    annotations = spec.pop("annotations", {})
    body = {"scaleTargetRef": TARGET, "maxReplicas": 10, **({} if metrics is None else {"metrics": metrics}), **spec}
    return manifest(f"autoscaling/{version}", "HorizontalPodAutoscaler", body, annotations=annotations)


def scaled_object(*triggers: Manifest, annotations: dict[str, str] | None = None, **spec: Any) -> Manifest:
    """A ScaledObject of a Deployment web."""
    body = {"scaleTargetRef": {"name": "web"}, "triggers": list(triggers), **spec}
    return manifest("keda.sh/v1alpha1", "ScaledObject", body, annotations=annotations or {})


def scaled_job(*triggers: Manifest, **spec: Any) -> Manifest:
    """A ScaledJob of one container."""
    pod = {"containers": [{"name": "main", "image": "example.test/main:1"}], "restartPolicy": "Never"}
    template = {"metadata": {"creationTimestamp": None, "labels": {"app": "web"}}, "spec": pod}
    body = {"jobTargetRef": {"backoffLimit": 4, "template": template}, "triggers": list(triggers), **spec}
    return manifest("keda.sh/v1alpha1", "ScaledJob", body)


def cron_hpa(*jobs: Manifest, **spec: Any) -> Manifest:
    """A CronHorizontalPodAutoscaler of a Deployment web."""
    body = {"scaleTargetRef": TARGET, "jobs": list(jobs), **spec}
    return manifest("autoscaling.alibabacloud.com/v1beta1", "CronHorizontalPodAutoscaler", body)


def vpa(**spec: Any) -> Manifest:
    """A VerticalPodAutoscaler of a Deployment web."""
    return manifest("autoscaling.k8s.io/v1", "VerticalPodAutoscaler", {"targetRef": TARGET, **spec})


def prometheus(threshold: str = "10", name: str = "", **metadata: str) -> Manifest:
    """A trigger that asks Prometheus."""
    of = {"serverAddress": "http://prom:9090", "query": "sum(q)", "threshold": threshold, **metadata}
    return {"type": "prometheus", "metadata": of, **({"name": name} if name else {})}
