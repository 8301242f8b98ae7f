"""The simulated world: pods are created, bound, started, ready, deleted and gone, in order of time.

Knows what happens when, from a queue of transitions; it advances only on request, up to a given time. So virtual and
real time use the same code, and the state at a time does not depend on earlier requests. Knows nothing of metrics,
clocks or what judgement sees.
"""

import heapq
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import inf
from typing import Any

from msgspec.structs import replace

from elasticd.cluster.simulated.jobs import SimulatedJobSet
from elasticd.cluster.simulated.nodes import Claim, NodePool, claim_of
from elasticd.cluster.simulated.options import OWN, NodeChange
from elasticd.cluster.simulated.pods import Bare, SimulatedPod, SimulatedWorkload, make_uid
from elasticd.decision.pool.order import RESUMED
from elasticd.model.actions import Create, Remove
from elasticd.model.workload import Container, Node, total_requests

ORPHANED = 40.0
"""Seconds that pods of a node that is gone are left in the API, as its garbage collector does (PodGC's quarantine)."""

Transition = Callable[[SimulatedPod], None]


class World:
    """Workloads, their pods, and what will happen to them next.

    `changed` holds the workloads that changed since somebody last emptied it. `placement_changed` is whether something
    happened since somebody last said no that may matter to a pod that waits for another scheduler. `keep` is for how
    many seconds it is remembered which pods served.
    """

    def __init__(
        self,
        start: float,
        nodes: Sequence[Node],
        workloads: Iterable[SimulatedWorkload],
        keep: float,
        changes: Mapping[str, Sequence[NodeChange]] | None = None,
    ) -> None:
        self.now = self._start = start
        self.workloads = {workload.ref: workload for workload in workloads}
        self.changed: dict[SimulatedWorkload, None] = {}
        self.placement_changed = False
        self.nodes = NodePool(nodes)
        self._keep = keep
        self._due: list[tuple[float, int, partial[None]]] = []
        self._sequence = itertools.count()
        self._pods: dict[tuple[str, str], SimulatedPod] = {}
        self._on: dict[str, dict[SimulatedPod, None]] = {}
        self._postponed: dict[str, list[tuple[Transition, SimulatedPod]]] = {}
        """What nodes that do not answer will do when they do again."""
        self._unbound: dict[SimulatedPod, None] = {}
        self._too_big: set[Claim] = set()
        self._unsettled: dict[SimulatedWorkload, None] = {}
        self._waiting_for_names: dict[SimulatedWorkload, None] = {}
        """StatefulSets that may have waited for a name."""
        for workload in self.workloads.values():
            self._control(workload)
            if isinstance(workload, Bare):
                for index in range(workload.replicas):
                    self._later(workload.table.at + workload.table.every * index, self._create, workload, index + 1)
        for name, planned in (changes or {}).items():
            for change in planned:
                self._later(change.at, self._change_node, name, change)
        self.advance(start)
        self._settle()
        self.advance(start)

    @property
    def next(self) -> float:
        return self._due[0][0] if self._due else inf

    def advance(self, now: float) -> None:
        while self._due and self._due[0][0] <= now:
            self.now = self._due[0][0]
            while self._due and self._due[0][0] == self.now:
                _, _, happen = heapq.heappop(self._due)
                happen()
            self._settle()
        self.now = max(self.now, now)

    def pod(self, namespace: str, name: str) -> SimulatedPod | None:
        return self._pods.get((namespace, name))

    def scale(self, workload: SimulatedWorkload, replicas: int) -> None:
        if replicas == workload.replicas:
            return
        workload.replicas = replicas
        workload.generation += 1
        self._control(workload)
        self._settle()

    def resize(self, pod: SimulatedPod, containers: tuple[Container, ...]) -> None:
        """Let a bound pod request something else. Where its node has no room for that, it only asks for it."""
        claim = claim_of(replace(pod.owner.claim.needs, requests=total_requests(containers)), containers)
        pod.sizes, pod.resize = containers, "Infeasible"
        if pod.held and self.nodes.resize(pod.node, pod.claim, claim):
            pod.given, pod.resize = claim, ""
            self._freed()
        self._touch(pod)
        self._settle()

    def create(self, jobs: SimulatedJobSet, action: Create) -> None:
        for pod in jobs.create(action, self.now):
            self._add(pod)
        self._unsettled[jobs] = None
        self._settle()

    def remove(self, jobs: SimulatedJobSet, action: Remove) -> None:
        for name, uid in action.jobs:
            pod = jobs.drop(name, uid, self.now)
            if pod is not None:
                pod.deleted = True
                self._drop(pod)
        self._unsettled[jobs] = None
        self._settle()

    def bind(self, pod: SimulatedPod, node: str) -> None:
        """Put a pod on a node, now, whether it fits there or not, and whether there is such a node or not."""
        self._unbound.pop(pod, None)
        self._place(pod, node)
        self._admit(pod)
        self._settle()

    def evict(self, pod: SimulatedPod, *, restore: bool) -> None:
        """Delete a pod now; its controller makes another. One to `restore` comes back by itself."""
        if pod.deleted:
            return
        if restore:
            pod.evicted = self.now
        self._delete(pod)
        self._touch(pod)
        self._control(pod.owner)
        self._settle()

    def nominate(self, pod: SimulatedPod, node: str) -> None:
        pod.nominated = node
        self._touch(pod)
        self._settle()

    def _touch(self, pod: SimulatedPod) -> None:
        """Note that a pod changed, so that its record is built again."""
        pod.seen = None
        self._unsettled[pod.owner] = None

    def _control(self, workload: SimulatedWorkload) -> None:
        """Act as the workload's controller: delete surplus pods and create missing ones."""
        self._unsettled[workload] = None
        if not workload.counted:
            return
        for pod in workload.surplus():
            self._delete(pod)
        for serial in workload.missing():
            self._create(workload, serial)

    def _create(self, workload: SimulatedWorkload, serial: int) -> None:
        workload.serial += 1
        name = workload.pod_name(serial)
        # An ordinal comes back under the same name, so the UID counts creations instead.
        self._add(SimulatedPod(workload, name, serial, make_uid(workload.uid, workload.serial)))

    def _add(self, pod: SimulatedPod, annotations: Mapping[str, str] | None = None) -> None:
        """Add a created pod; it waits for the simulation's own scheduler, or for another one."""
        owner, pod.created = pod.owner, self.now
        pod.annotations = dict(owner.table.annotations if annotations is None else annotations)
        owner.pods[pod.name] = self._pods[owner.ref.namespace, pod.name] = pod
        self._unsettled[owner] = None
        if owner.claim.needs.scheduler == OWN:
            self._unbound[pod] = None
        else:
            self.placement_changed = True

    def _delete(self, pod: SimulatedPod) -> None:
        pod.deleted, pod.seen = True, None
        if pod.node and not pod.rejected:
            self._later(pod.owner.table.stop_seconds, self._vanish, pod)
        else:
            self._vanish(pod)

    def _drop(self, pod: SimulatedPod) -> None:
        self._unbound.pop(pod, None)
        del pod.owner.pods[pod.name], self._pods[pod.owner.ref.namespace, pod.name]
        if pod.node:
            del self._on[pod.node][pod]
        if pod.held:
            pod.held = False
            self.nodes.give(pod.node, pod.claim)
            self._freed()
        self._unsettled[pod.owner] = None

    def _freed(self) -> None:
        """Note that room was freed, so that pods that did not fit are tried again."""
        self._too_big.clear()
        self.placement_changed = True

    def _later(self, seconds: float, happen: Callable[..., None], *subjects: Any) -> None:
        heapq.heappush(self._due, (self.now + seconds, next(self._sequence), partial(happen, *subjects)))

    def _settle(self) -> None:
        """Bind the pods that fit now and note what changed, once for everything that happened at this time."""
        for workload in self._waiting_for_names:
            self._control(workload)
        self._waiting_for_names.clear()
        for pod in sorted(self._unbound, key=lambda pod: -pod.owner.claim.needs.priority):
            # What did not fit will not fit before something is given back.
            if pod.owner.claim not in self._too_big:
                self._choose(pod)
            if not pod.node and pod.waits is None:
                pod.waits = self.now
                self._touch(pod)
        for workload in self._unsettled:
            workload.changes += 1
            workload.serve(self.now, self._keep)
        self.changed.update(self._unsettled)
        self._unsettled.clear()

    def _choose(self, pod: SimulatedPod) -> None:
        """Act as the simulation's own scheduler: put the pod on a node if it fits on one."""
        node = self.nodes.take(pod.owner.claim)
        if not node:
            self._too_big.add(pod.owner.claim)
            return
        del self._unbound[pod]
        self._place(pod, node)
        pod.held = True
        self._admit(pod)

    def _place(self, pod: SimulatedPod, node: str) -> None:
        pod.node, pod.waits, pod.nominated = node, None, ""
        self._on.setdefault(node, {})[pod] = None
        self._touch(pod)
        if node not in self.nodes:
            self._later(ORPHANED, self._collect_orphans, node)

    def _postpone(self, pod: SimulatedPod, happen: Transition) -> bool:
        """Whether the pod's node is silent: then the transition is kept until it answers again."""
        if not pod.node or self.nodes.answers(pod.node):
            return False
        self._postponed.setdefault(pod.node, []).append((happen, pod))
        return True

    def _admit(self, pod: SimulatedPod) -> None:
        """The kubelet hears of a pod, and takes it or rejects it."""
        if self._postpone(pod, self._admit) or pod.deleted:
            return
        if not pod.held:
            pod.rejected = self.nodes.put(pod.node, pod.claim)
            pod.held = not pod.rejected
        self._touch(pod)
        if pod.rejected:
            self._replace(pod)
            return
        # The kubelet writes the start time and the first conditions as soon as the pod is its own.
        pod.started, pod.ready, pod.ready_changed = self.now, False, self.now
        self._later(self._delay(pod, pod.owner.table.start_seconds), self._run, pod)

    def _delay(self, pod: SimulatedPod, seconds: float) -> float:
        """How long a step of its start takes: none at the start of the world, where it has been running for long."""
        return 0.0 if pod.owner.table.started and self.now == self._start else seconds

    def _replace(self, pod: SimulatedPod) -> None:
        """What the controller of a rejected pod does: another, which may need its name."""
        owner = pod.owner
        if owner.numbered or owner.comes_back(pod):
            self._vanish(pod, lost=True)
        else:
            self._control(owner)

    def _run(self, pod: SimulatedPod) -> None:
        if self._postpone(pod, self._run) or pod.deleted:
            return
        pod.running = True
        self._touch(pod)
        self._later(self._delay(pod, pod.owner.table.ready_seconds), self._become_ready, pod)
        seconds = pod.owner.begin(pod, self.now)
        if seconds is not None:
            self._later(seconds, self._end, pod)

    def _become_ready(self, pod: SimulatedPod) -> None:
        if not self._postpone(pod, self._become_ready) and not pod.deleted:
            pod.healthy = pod.ready = True
            pod.ready_changed = self.now
            self._touch(pod)

    def _end(self, pod: SimulatedPod) -> None:
        if not self._postpone(pod, self._end) and not pod.deleted:
            pod.owner.end(pod, self.now)
            pod.deleted = True
            self._drop(pod)

    def _vanish(self, pod: SimulatedPod, *, lost: bool | None = None) -> None:
        """A pod that was deleted is gone, unless it went before. Some come again under their names."""
        owner = pod.owner
        if owner.pods.get(pod.name) is not pod or (lost is None and self._postpone(pod, self._vanish)):
            return
        again = owner.comes_back(pod) if lost is None else lost
        self._drop(pod)
        if owner.numbered:
            self._waiting_for_names[owner] = None
        elif again:
            annotations = None if pod.evicted is None else {**pod.annotations, RESUMED: str(pod.evicted)}
            owner.serial += 1
            self._add(SimulatedPod(owner, pod.name, pod.serial, make_uid(pod.uid, owner.serial)), annotations)

    def _change_node(self, name: str, change: NodeChange) -> None:
        answered = self.nodes.answers(name)
        self.nodes.change(name, change)
        self._freed()
        if name not in self.nodes:
            self._later(ORPHANED, self._collect_orphans, name)
        hears = self.nodes.answers(name)
        if answered != hears:  # the node controller sets the readiness of its pods
            for pod in [pod for pod in self._on.get(name, ()) if pod.healthy]:
                pod.ready, pod.ready_changed = hears, self.now
                self._touch(pod)
        if hears:
            for happen, pod in self._postponed.pop(name, ()):
                happen(pod)

    def _collect_orphans(self, name: str) -> None:
        """The garbage collector removes pods of a node that is no more."""
        if name in self.nodes:
            return
        self._postponed.pop(name, None)
        for pod in list(self._on.get(name, ())):
            pod.deleted = True
            self._vanish(pod, lost=pod.owner.comes_back(pod))
            self._control(pod.owner)
