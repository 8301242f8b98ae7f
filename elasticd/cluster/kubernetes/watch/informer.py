"""Watches all objects of one kind, in all configured namespaces, from its discovery on.

Knows that a kind may be unknown, become known or vanish again, and that kinds other than those of apps/v1 are
known only by their metadata and their scale; knows nothing of policies.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from functools import partial
from operator import attrgetter
from typing import Any

from elasticd.base.errors import UNREADABLE
from elasticd.base.tasks import cancel
from elasticd.cluster.kubernetes.session import PARTIAL, PARTIAL_LIST, ApiError
from elasticd.cluster.kubernetes.watch.discovery import (
    CLAIMS,
    CSI_DRIVERS,
    CSI_NODES,
    EVENTS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    STORAGE_CLASSES,
    VOLUMES,
    Resource,
    UnknownKindError,
)
from elasticd.cluster.kubernetes.watch.disruption_budgets import BudgetStore, Empty, WireBudget, to_budget
from elasticd.cluster.kubernetes.watch.job_store import JobStore
from elasticd.cluster.kubernetes.watch.pulls import PULLED, PullSink, to_pull_event
from elasticd.cluster.kubernetes.watch.scales import Proved, ScaleSink
from elasticd.cluster.kubernetes.watch.storage import (
    StorageStores,
    WireCapacity,
    WireClaim,
    WireCsiDriver,
    WireCsiNode,
    WirePersistentVolume,
    WireStorageClass,
    to_attachable,
    to_capacity,
    to_claim,
    to_csi_driver,
    to_storage_class,
    to_volume,
)
from elasticd.cluster.kubernetes.watch.store import (
    AutoscalerStore,
    NamespaceStore,
    NodeStore,
    PodStore,
    Sink,
    WorkloadStore,
    to_autoscaler,
    to_namespace,
)
from elasticd.cluster.kubernetes.watch.watch import Dependencies, Feed, Reflector, Retries
from elasticd.cluster.kubernetes.wire import objects as wire
from elasticd.cluster.kubernetes.wire.convert import to_node, to_pod, to_workload
from elasticd.cluster.kubernetes.wire.jobs import SET, WireJob, to_job
from elasticd.ports.cluster import Kind

logger = logging.getLogger(__name__)

_TYPED = frozenset(("apps/v1", kind) for kind in ("Deployment", "StatefulSet", "ReplicaSet"))
_LOOK_AGAIN = 30.0


class Informer:
    """Watches one kind. While the server does not show it, the last copy stays, and its `confirmed` time stands still.

    A kind that is not served is a problem, unless it is `optional`.
    """

    def __init__(
        self,
        deps: Dependencies,
        find: Callable[[], Awaitable[Resource]],
        feed: Callable[[Resource, Proved], Feed],
        *,
        optional: bool = False,
    ) -> None:
        self._deps, self._find, self._feed, self._optional = deps, find, feed, optional
        self._resolved = asyncio.Event()
        self._reflectors: list[Reflector] = []
        self._scales: ScaleSink | None = None
        self._fault = ""
        self._asked = deps.clock.now()
        """Since when the present reflectors, or those to come, ask for what they have not read yet."""
        self.awaited = False
        """Whether somebody has once waited for it to settle."""

    @property
    def is_rolled_back(self) -> bool:
        """Whether its copy is from before etcd was put back to an older state, as far as somebody has seen that."""
        return any(reflector.is_rolled_back for reflector in self._reflectors)

    def confirmed(self, namespace: str = "") -> float:
        """When the server last proved its list current, in a namespace or (empty) in all; 0: never."""
        times = [
            reflector.confirmed
            for reflector in self._reflectors
            if not namespace or reflector.namespace in ("", namespace)
        ]
        return min(times, default=0.0)

    def current(self) -> float | None:
        """When its list was last proved current, or since when it is asked for; None: there is nothing to be known, as
        the kind is not served and need not be, or as the right to read it was missing from the start."""
        if self.absent:
            return None
        reflectors = [one for one in self._reflectors if one.confirmed or not one.refused]
        if self._reflectors and not reflectors:
            return None
        return min([one.confirmed or self._asked for one in reflectors], default=self._asked)

    def confirmed_for(self, namespace: str, name: str) -> float:
        """When the server last proved current what is known of one object, its scale included."""
        listed = self.confirmed(namespace)
        read = self._scales.current_to(namespace, name) if self._scales else None
        return listed if read is None else min(listed, read)

    @property
    def unanswered(self) -> bool:
        """Whether the server did not answer when it was asked last for one of the lists."""
        return any(reflector.unanswered for reflector in self._reflectors)

    @property
    def absent(self) -> bool:
        """Whether the server does not serve the kind, so that there is nothing to know."""
        return self._optional and self._resolved.is_set() and not self._reflectors and not self._fault

    @property
    def problem(self) -> str:
        """Why the kind cannot be watched, in one line; empty when it can."""
        return next(filter(None, [self._fault, *[reflector.fault for reflector in self._reflectors]]), "")

    @property
    def scale_problem(self) -> str:
        """Why the scale of one of its objects cannot be read, in one line; empty when all can."""
        return self._scales.fault if self._scales else ""

    @property
    def skipped(self) -> int:
        return sum(reflector.skipped for reflector in self._reflectors)

    @property
    def is_settled(self) -> bool:
        """Whether the kind was read, or is known to be unreadable."""
        return self._resolved.is_set() and all(reflector.settled.is_set() for reflector in self._reflectors)

    async def settled(self) -> None:
        """Return once the kind was read, or is known to be unreadable."""
        await self._resolved.wait()
        for reflector in self._reflectors:
            await reflector.settled.wait()
        if self._scales is not None:
            await self._scales.idle.wait()

    async def run(self) -> None:
        """Watch for ever; while the kind is not served, look for it from time to time."""
        clock = self._deps.clock
        retries = Retries(clock)
        while True:
            try:
                resource = await self._find()
            except UnknownKindError as error:
                self._miss(str(error))
                await clock.sleep_until(clock.now() + _LOOK_AGAIN * random.uniform(0.8, 1.2))  # noqa: S311
            except ApiError as error:
                self._fault = str(error)
                await retries.wait(error.retry_after)
            except UNREADABLE as error:
                self._fault = f"the server's list of kinds cannot be read: {error}"
                await retries.wait()
            else:
                await self._mirror(resource)
                if self.confirmed():  # or it is found and not served, as something before the API server may say
                    retries.reset()
                await retries.wait()

    def _miss(self, fault: str) -> None:
        if not self._optional:
            if fault != self._fault:
                logger.warning("%s", fault)
            self._fault = fault
        self._resolved.set()

    async def _mirror(self, resource: Resource) -> None:
        """Mirror the resource until it is no longer served."""
        deps, feed = self._deps, self._feed(resource, self.confirmed)
        self._asked = max(self._asked, self.confirmed())
        spaces = deps.namespaces if resource.namespaced and deps.namespaces else ("",)
        faults = {reflector.namespace: reflector.fault for reflector in self._reflectors}
        self._reflectors = [Reflector(deps, resource, space, feed, faults.get(space, "")) for space in spaces]
        self._scales, self._fault = feed.sink if isinstance(feed.sink, ScaleSink) else None, ""
        self._resolved.set()
        parts = [*self._reflectors, *([self._scales] if self._scales else ())]
        tasks = [asyncio.create_task(part.run()) for part in parts]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in await cancel(*tasks):
                if isinstance(end, Exception):
                    logger.error("%s: cannot be followed", resource.plural, exc_info=end)


def _follow(deps: Dependencies, resource: Resource, feed: Feed) -> Informer:
    async def find() -> Resource:
        return resource

    return Informer(deps, find, lambda *_: feed)


def follow_pods(deps: Dependencies, store: PodStore) -> Informer:
    """All pods."""
    return _follow(deps, PODS, Feed(wire.Codec(wire.WirePod, to_pod, deps.times.offset), store))


def follow_nodes(deps: Dependencies, store: NodeStore) -> Informer:
    """All nodes; a daemon that is confined to namespaces may not be allowed to see them."""
    return _follow(deps, NODES, Feed(wire.Codec(wire.WireNode, to_node), store))


def follow_namespaces(deps: Dependencies, store: NamespaceStore) -> Informer:
    """The names and labels of all namespaces."""
    codec = wire.Codec(wire.ObjectMeta, to_namespace)
    return _follow(deps, NAMESPACES, Feed(codec, store, (PARTIAL_LIST, PARTIAL)))


def follow_storage(deps: Dependencies, stores: StorageStores) -> dict[Kind, tuple[str, Informer]]:
    """All that is known of volumes: by kind, as the API calls it, and what watches it."""
    feeds: dict[Kind, tuple[Resource, wire.Codec[Any, Any], Sink]] = {
        ("v1", "PersistentVolumeClaim"): (CLAIMS, wire.Codec(WireClaim, to_claim), stores.claims),
        ("v1", "PersistentVolume"): (VOLUMES, wire.Codec(WirePersistentVolume, to_volume), stores.volumes),
        (_STORAGE, "StorageClass"): (STORAGE_CLASSES, wire.Codec(WireStorageClass, to_storage_class), stores.classes),
        (_STORAGE, "CSINode"): (CSI_NODES, wire.Codec(WireCsiNode, to_attachable), stores.nodes),
        (_STORAGE, "CSIDriver"): (CSI_DRIVERS, wire.Codec(WireCsiDriver, to_csi_driver), stores.drivers),
    }
    capacity, feed = (_STORAGE, "CSIStorageCapacity"), Feed(wire.Codec(WireCapacity, to_capacity), stores.capacities)
    found = Informer(deps, partial(deps.discovery.resource, capacity), lambda *_: feed, optional=True)
    followed = {
        kind: (resource.plural, _follow(deps, resource, Feed(codec, store)))
        for kind, (resource, codec, store) in feeds.items()
    }
    return {**followed, capacity: ("csistoragecapacities", found)}  # not served before Kubernetes 1.24


_STORAGE = "storage.k8s.io/v1"


def follow_pulls(deps: Dependencies, sink: PullSink) -> Informer:
    """The Events of images that were pulled; the server leaves out all others."""
    codec = wire.Codec(wire.WireEvent, to_pull_event, deps.times.offset)
    return _follow(deps, EVENTS, Feed(codec, sink, params={"fieldSelector": PULLED}))


def follow_autoscalers(deps: Dependencies, store: AutoscalerStore) -> Informer:
    """All HorizontalPodAutoscalers, where the server has such, in the version that it prefers."""

    feed = Feed(wire.Codec(wire.WireAutoscaler, to_autoscaler), store)
    find = partial(deps.discovery.located, "autoscaling", "HorizontalPodAutoscaler")
    return Informer(deps, find, lambda *_: feed, optional=True)


def follow_budgets(deps: Dependencies, store: BudgetStore) -> Informer:
    """All PodDisruptionBudgets, in the version that the server prefers. Of v1beta1 an empty selector selects none."""

    def feed(resource: Resource, _: Proved) -> Feed:
        empty: Empty = "none" if resource.group.endswith("v1beta1") else "all"
        return Feed(wire.Codec(WireBudget, lambda budget: to_budget(budget, empty)), store)

    return Informer(deps, partial(deps.discovery.located, "policy", "PodDisruptionBudget"), feed)


def follow_jobs(deps: Dependencies, store: JobStore) -> Informer:
    """The Jobs of all job sets; the server leaves out all others."""
    codec = wire.Codec(WireJob, to_job, deps.times.offset)
    return _follow(deps, JOBS, Feed(codec, store, params={"labelSelector": SET}))


def follow_kind(deps: Dependencies, kind: Kind, store: WorkloadStore) -> Informer:
    """All workloads of a kind."""

    async def find() -> Resource:
        deps.discovery.forget(kind)  # it is asked only when the kind is new, or was no longer served
        return await deps.discovery.scalable(kind)

    def feed(resource: Resource, proved: Proved) -> Feed:
        if kind in _TYPED:
            return Feed(wire.Codec(wire.WireWorkload, partial(to_workload, *kind)), store.of(kind))
        scales = ScaleSink(deps.session, deps.clock, kind, resource, store.of(kind), proved)
        codec = wire.Codec(wire.ObjectMeta, attrgetter("metadata"))
        return Feed(codec, scales, (PARTIAL_LIST, PARTIAL))

    return Informer(deps, find, feed)
