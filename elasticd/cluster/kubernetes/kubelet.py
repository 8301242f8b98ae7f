"""A kubelet's own figures, asked for through the API server's node proxy: /stats/summary.

Knows the wire format of the summary and that what it says comes from outside; knows nothing of how many nodes there
are, nor of how use is judged.
"""

import math
from datetime import datetime
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Raw

from elasticd.base.clock import ServerTime
from elasticd.base.errors import UNREADABLE
from elasticd.base.units import amount
from elasticd.cluster.kubernetes.session import ApiError, Request, Session
from elasticd.cluster.kubernetes.wire.objects import ObjectReference, Time, Wire
from elasticd.model.workload import Readings, Sample
from elasticd.ports.metrics_api import Part

SOURCE = "kubelet"
CPU, MEMORY = "cpu", "memory"
RECEIVED, TRANSMITTED = "network_receive_bytes", "network_transmit_bytes"
FS_USED, FS_AVAILABLE, FS_CAPACITY = "filesystem_used_bytes", "filesystem_available_bytes", "filesystem_capacity_bytes"

LARGEST = 16 << 20
# The kubelet does not say over how long it averaged CPU use. It is as long as it takes between two looks of its own.
_WINDOW = 10.0

Samples = tuple[Sample, ...]


_FIELDS = {
    CPU: ("cpu", "usage_nano_cores", 1e9),
    MEMORY: ("memory", "working_set_bytes", 1),
    RECEIVED: ("network", "rx_bytes", 1),
    TRANSMITTED: ("network", "tx_bytes", 1),
    FS_USED: ("fs", "used_bytes", 1),
    FS_AVAILABLE: ("fs", "available_bytes", 1),
    FS_CAPACITY: ("fs", "capacity_bytes", 1),
}
"""Where each series stands in the summary, and what its figure is divided by."""


class _Figures(Wire, frozen=True):
    """Those of a container's or node's cpu, memory, network (of the interface that has the default route) or disk."""

    time: Time
    usage_nano_cores: Any = None
    working_set_bytes: Any = None
    rx_bytes: Any = None
    tx_bytes: Any = None
    used_bytes: Any = None
    available_bytes: Any = None
    capacity_bytes: Any = None


class _Container(Wire, frozen=True):
    name: str = ""
    cpu: _Figures | None = None
    memory: _Figures | None = None


class _Pod(Wire, frozen=True):
    pod_ref: ObjectReference
    containers: list[_Container] | None = None


class _Node(Wire, frozen=True):
    node_name: str = ""
    cpu: _Figures | None = None
    memory: _Figures | None = None
    network: _Figures | None = None
    fs: _Figures | None = None


class _Summary(Wire, frozen=True):
    """Pods are decoded one by one, so that an unreadable pod costs only itself."""

    node: _Node
    pods: list[Raw] | None = None


_OfPods = dict[str, dict[str, Samples]]

_SUMMARY = msgspec.json.Decoder(_Summary)
_POD = msgspec.json.Decoder(_Pod)


class Kubelets:
    """Asks the kubelets, each on its own."""

    def __init__(self, session: Session, times: ServerTime) -> None:
        self._session, self._times = session, times
        self.skipped = 0

    async def summary(self, node: str, now: float, part: Part, within: float) -> Readings:
        """What one kubelet says. Never raises."""
        params = {"only_cpu_and_memory": "true"} if part == "usage" else {}
        path = f"/api/v1/nodes/{quote(node, safe='')}/proxy/stats/summary"
        request = Request(
            verb="get",
            path=path,
            resource="nodes/proxy",
            params=params,
            timeout=within,
            largest=LARGEST,
            bare=True,
        )
        try:
            summary = _SUMMARY.decode(await self._session.send(request))
        except ApiError as error:
            return Readings(SOURCE, now, error=f"the kubelet: {error}")
        except UNREADABLE as error:
            return Readings(SOURCE, now, error=f"the kubelet: its answer is no summary: {error}")
        if summary.node.node_name != node:
            return Readings(SOURCE, now, error=f'the kubelet: it answers for node "{summary.node.node_name[:63]}"')
        offset = self._times.offset()
        pods, parts = ({}, {}) if part == "node" else self._pods(summary.pods or (), now, offset)
        of_node = {
            series: {node: (Sample(figure[0], figure[1].timestamp() + offset, now),)}
            for series in _FIELDS
            if (figure := _figure(summary.node, series)) is not None
        }
        return Readings(SOURCE, now, pods, nodes=of_node, parts=parts)

    def _pods(self, items: list[Raw] | tuple[()], now: float, offset: float) -> tuple[_OfPods, _OfPods]:
        """(complete pods, incomplete pods): in the second a container lacks a sample, and a partial sum is no sum."""
        usage: tuple[_OfPods, _OfPods] = ({CPU: {}, MEMORY: {}}, {CPU: {}, MEMORY: {}})
        for raw in items:
            try:
                pod = _POD.decode(raw)
            except UNREADABLE:
                self.skipped += 1
                continue
            key = f"{pod.pod_ref.namespace}/{pod.pod_ref.name}"
            for name in (CPU, MEMORY):
                if samples := _of_pod(pod, name, now, offset):
                    usage[len(samples) < len(pod.containers or ())][name][key] = samples
        return usage


def _of_pod(pod: _Pod, name: str, now: float, offset: float) -> Samples:
    window = _WINDOW if name == CPU else 0.0
    return tuple(
        Sample(figure[0], figure[1].timestamp() + offset, now, window, pod.pod_ref.name, container.name)
        for container in pod.containers or ()
        if (figure := _figure(container, name)) is not None
    )


def _figure(owner: _Node | _Container, series: str) -> tuple[float, datetime] | None:
    """A figure and its time; None: it has none. A container that was only seen once has no cpu yet."""
    part, name, divisor = _FIELDS[series]
    figures: _Figures | None = getattr(owner, part)
    value = getattr(figures, name, None)
    return None if figures is None or value is None else (_number(value) / divisor, figures.time)


def _number(value: Any) -> float:
    """A number of the summary, which are all plain; NaN when it is none."""
    return amount(value) if isinstance(value, int | float) else math.nan
