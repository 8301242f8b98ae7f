"""The wire formats of the resource, custom and external metrics APIs, v1beta1.

Knows which path answers what.  It must not know how the answers travel, nor who reads them.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from time import time

from aiohttp import web

from tests.kube.client import JSON
from tests.kube.load import Load, Loads, SeenPod, Usage, at_time, matches
from tests.kube.reports import timestamp

RESOURCE, CUSTOM, EXTERNAL = "metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"
ANY = "*"

Routes = dict[str, Callable[[web.Request], Awaitable[JSON]]]


@dataclass
class Measurements:
    """When is measured: every `resolution` seconds (0: at each request), over a window of seconds."""

    resolution: float = 0.0
    window: float = 30.0

    def time(self) -> float:
        """The time of the last one, in seconds since 1970."""
        now = time()
        return now - now % self.resolution if self.resolution else now

    def stamp(self) -> JSON:
        """How the last one is told in resource metrics."""
        return {"timestamp": timestamp(self.time()), "window": f"{self.window:g}s"}

    def value(self, load: Load) -> JSON:
        """A value as told in custom and external metrics."""
        milli = f"{round(at_time(load, self.time()) * 1000)}m"
        return {"timestamp": timestamp(self.time()), "windowSeconds": round(self.window), "value": milli}


@dataclass
class ResourceMetrics:
    """CPU and memory of pods and nodes; the nodes are names by uid."""

    loads: Loads
    nodes: Mapping[str, str]
    measured: Measurements

    def routes(self) -> Routes:
        """What answers which path below the version."""
        return {
            "": self.discover,
            "/pods": self.list_pods,
            "/namespaces/{namespace}/pods": self.list_pods,
            "/namespaces/{namespace}/pods/{name}": self.get_pod,
            "/nodes": self.list_nodes,
            "/nodes/{name}": self.get_node,
        }

    async def discover(self, request: web.Request) -> JSON:
        """What there is."""
        return _discovery(RESOURCE, {"nodes": "NodeMetrics", "pods": "PodMetrics"}, cluster_wide={"nodes"})

    async def list_pods(self, request: web.Request) -> JSON:
        """The pods of a namespace or of all, by label selector."""
        namespace, selector = request.match_info.get("namespace"), request.query.get("labelSelector", "")
        return _list(
            RESOURCE,
            "PodMetricsList",
            [
                self._pod(pod, usage)
                for pod, usage in self.loads.usage(self.measured.time())
                if namespace in (None, pod.namespace) and matches(selector, pod.labels)
            ],
        )

    async def get_pod(self, request: web.Request) -> JSON:
        """One pod."""
        wanted = request.match_info["namespace"], request.match_info["name"]
        for pod, usage in self.loads.usage(self.measured.time()):
            if (pod.namespace, pod.name) == wanted:
                return self._pod(pod, usage)
        raise web.HTTPNotFound

    async def list_nodes(self, request: web.Request) -> JSON:
        """All nodes."""
        used = self.loads.usage(self.measured.time())
        return _list(RESOURCE, "NodeMetricsList", [self._node(name, used) for name in sorted(self.nodes.values())])

    async def get_node(self, request: web.Request) -> JSON:
        """One node."""
        if request.match_info["name"] not in self.nodes.values():
            raise web.HTTPNotFound
        return self._node(request.match_info["name"], self.loads.usage(self.measured.time()))

    def _pod(self, pod: SeenPod, usage: Usage) -> JSON:
        each = usage.of_each(len(pod.containers))
        return {
            **_head(RESOURCE, "PodMetrics"),
            "metadata": {"name": pod.name, "namespace": pod.namespace, "labels": dict(pod.labels)},
            **self.measured.stamp(),
            "containers": [{"name": name, "usage": each} for name in pod.containers],
        }

    def _node(self, name: str, used: list[tuple[SeenPod, Usage]]) -> JSON:
        total = sum((usage for pod, usage in used if pod.node == name), Usage(0.0, 0.0))
        head = {**_head(RESOURCE, "NodeMetrics"), "metadata": {"name": name}}
        return {**head, **self.measured.stamp(), "usage": total.of_each(1)}


@dataclass
class CustomMetrics:
    """Values of objects, by (namespace, resource, object or ANY, metric)."""

    values: Mapping[tuple[str, str, str, str], Load]
    loads: Loads
    measured: Measurements

    def routes(self) -> Routes:
        """What answers which path below the version."""
        return {"": self.discover, "/namespaces/{namespace}/{resource}/{name}/{metric}": self.list_values}

    async def discover(self, request: web.Request) -> JSON:
        """Which metrics there are, of which resources."""
        names = sorted({f"{resource}/{metric}" for _, resource, _, metric in self.values})
        return _discovery(CUSTOM, dict.fromkeys(names, "MetricValueList"))

    async def list_values(self, request: web.Request) -> JSON:
        """The values of one object, or of the pods that a label selector selects."""
        namespace, resource, metric = (request.match_info[key] for key in ("namespace", "resource", "metric"))
        items = []
        for name in self._asked(request):
            everyone = self.values.get((namespace, resource, ANY, metric))
            value = self.values.get((namespace, resource, name, metric), everyone)
            if value is not None:
                of = {"kind": resource.capitalize().removesuffix("s"), "namespace": namespace, "name": name}
                described = {"describedObject": {**of, "apiVersion": "/v1"}, "metricName": metric}
                items.append({**described, **self.measured.value(value)})
        if not items:
            raise web.HTTPNotFound
        return _list(CUSTOM, "MetricValueList", items)

    def _asked(self, request: web.Request) -> list[str]:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        if name != ANY:
            return [name]
        selector = request.query.get("labelSelector", "")
        pods = [pod for pod in self.loads.pods.values() if pod.namespace == namespace and pod.running]
        return sorted(pod.name for pod in pods if matches(selector, pod.labels))


@dataclass
class ExternalMetrics:
    """Values that belong to no object, by (namespace or ANY, metric)."""

    values: Mapping[tuple[str, str], Load]
    measured: Measurements

    def routes(self) -> Routes:
        """What answers which path below the version."""
        return {"": self.discover, "/namespaces/{namespace}/{metric}": self.list_values}

    async def discover(self, request: web.Request) -> JSON:
        """Which metrics there are."""
        names = sorted({metric for _, metric in self.values})
        return _discovery(EXTERNAL, dict.fromkeys(names, "ExternalMetricValueList"))

    async def list_values(self, request: web.Request) -> JSON:
        """The value of a metric."""
        namespace, metric = request.match_info["namespace"], request.match_info["metric"]
        value = self.values.get((namespace, metric), self.values.get((ANY, metric)))
        if value is None:
            raise web.HTTPNotFound
        item = {"metricName": metric, "metricLabels": {}, **self.measured.value(value)}
        return _list(EXTERNAL, "ExternalMetricValueList", [item])


def _head(group: str, kind: str) -> JSON:
    return {"kind": kind, "apiVersion": f"{group}/v1beta1"}


def _list(group: str, kind: str, items: list[JSON]) -> JSON:
    return {**_head(group, kind), "metadata": {}, "items": items}


def _discovery(group: str, kinds: Mapping[str, str], cluster_wide: set[str] | frozenset[str] = frozenset()) -> JSON:
    resources = [
        {
            "name": name,
            "singularName": "",
            "namespaced": name not in cluster_wide,
            "kind": kind,
            "verbs": ["get", "list"],
        }
        for name, kind in kinds.items()
    ]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/v1beta1",
        "resources": resources,
    }
