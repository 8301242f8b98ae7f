"""The simulated world: pods are created, bound, started, ready, deleted and gone, in order of time.

Knows what happens when, from a queue of transitions; it moves only when it is asked to, up to the time it is
asked for. So virtual and real time are the same code, and what is true at a time does not depend on who
looked before. Knows nothing of metrics, clocks or what judgement sees.
"""

import heapq
import itertools
from collections.abc import Callable, Iterable, Sequence

from elasticd.actions import Create, Remove
from elasticd.cluster.simulated.jobs import SimulatedJobSet
from elasticd.cluster.simulated.nodes import Need, Room
from elasticd.cluster.simulated.pods import SimulatedPod, SimulatedWorkload, make_uid, need_of
from elasticd.model import Container, Node

Transition = Callable[[SimulatedPod, float], None]


class World:
    """Workloads, their pods, and what will happen to them next.

    `changed` holds the workloads that changed since somebody last emptied it. `keep` is for how many seconds
    it is remembered which pods served.
    """

    def __init__(
        self, start: float, nodes: Sequence[Node], workloads: Iterable[SimulatedWorkload], keep: float
    ) -> None:
        self.now = start
        self.workloads = {workload.ref: workload for workload in workloads}
        self.changed: dict[SimulatedWorkload, None] = {}
        self._keep = keep
        self._room = Room(nodes)
        self._due: list[tuple[float, int, Transition, SimulatedPod]] = []
        self._sequence = itertools.count()
        self._unbound: dict[SimulatedPod, None] = {}
        self._too_big: set[Need] = set()
        self._unsettled: dict[SimulatedWorkload, None] = {}
        self._bereft: dict[SimulatedWorkload, None] = {}
        """StatefulSets that may have waited for a name."""
        for workload in self.workloads.values():
            self._control(workload)
        self._settle()

    def advance(self, now: float) -> None:
        """Let everything happen that is due by then."""
        while self._due and self._due[0][0] <= now:
            self.now = self._due[0][0]
            while self._due and self._due[0][0] == self.now:
                at, _, happen, pod = heapq.heappop(self._due)
                happen(pod, at)
            self._settle()
        self.now = max(self.now, now)

    def scale(self, workload: SimulatedWorkload, replicas: int) -> None:
        """Change what is asked for, now."""
        if replicas == workload.replicas:
            return
        workload.replicas = replicas
        workload.generation += 1
        self._control(workload)
        self._settle()

    def resize(self, pod: SimulatedPod, containers: tuple[Container, ...]) -> None:
        """Let a bound pod request something else. Where its node has no room for that, it only asks for it."""
        need = need_of(containers)
        pod.sizes, pod.resize = containers, "Infeasible"
        if self._room.change(pod.node, pod.need, need):
            pod.taken, pod.resize = need, ""
            self._too_big.clear()
        self._touch(pod)
        self._settle()

    def create(self, jobs: SimulatedJobSet, action: Create) -> None:
        """Create Jobs, now."""
        for pod in jobs.create(action, self.now):
            self._unbound[pod] = None
        self._unsettled[jobs] = None
        self._settle()

    def remove(self, jobs: SimulatedJobSet, action: Remove) -> None:
        """Delete Jobs, now, and the pods of those in flight."""
        for name, uid in action.jobs:
            pod = jobs.drop(name, uid)
            if pod is not None:
                self._let_go(pod)
        self._unsettled[jobs] = None
        self._settle()

    def _let_go(self, pod: SimulatedPod) -> None:
        """A Job's pod is gone: deleted, or at its end."""
        pod.deleted = True
        self._unbound.pop(pod, None)
        if pod.node:
            self._room.give(pod.node, pod.need)
            self._too_big.clear()
        del pod.owner.pods[pod.name]
        self._unsettled[pod.owner] = None

    def _control(self, workload: SimulatedWorkload) -> None:
        """What the workload's controller does: as many pods as are asked for, no more and no less."""
        self._unsettled[workload] = None
        for pod in workload.surplus():
            self._delete(pod)
        for serial in workload.missing():
            self._create(workload, serial)

    def _create(self, workload: SimulatedWorkload, serial: int) -> None:
        workload.serial += 1
        name = workload.pod_name(serial)
        # An ordinal comes back under the same name, so the UID counts creations instead.
        pod = SimulatedPod(workload, name, serial, make_uid(workload.uid, workload.serial))
        workload.pods[name] = pod
        self._unbound[pod] = None

    def _delete(self, pod: SimulatedPod) -> None:
        pod.deleted, pod.seen = True, None
        if pod.node:
            self._later(pod.owner.table.stop_seconds, self._vanish, pod)
        else:
            del self._unbound[pod]
            del pod.owner.pods[pod.name]

    def _later(self, seconds: float, happen: Transition, pod: SimulatedPod) -> None:
        heapq.heappush(self._due, (self.now + seconds, next(self._sequence), happen, pod))

    def _settle(self) -> None:
        """Bind what has room now, and note what changed, once for all that happened at this time."""
        for workload in self._bereft:
            self._control(workload)
        self._bereft.clear()
        for pod in list(self._unbound):
            # What did not fit will not fit before something is given back.
            if pod.owner.need not in self._too_big:
                self._bind(pod)
            if not pod.node and pod.waits is None:
                pod.waits = self.now
                self._touch(pod)
        for workload in self._unsettled:
            workload.serve(self.now, self._keep)
        self.changed.update(self._unsettled)
        self._unsettled.clear()

    def _bind(self, pod: SimulatedPod) -> None:
        node = self._room.take(pod.owner.need)
        if not node:
            self._too_big.add(pod.owner.need)
            return
        del self._unbound[pod]
        # The kubelet writes the start time and the first conditions as soon as the pod is its own.
        pod.node, pod.started, pod.waits = node, self.now, None
        pod.ready, pod.ready_changed = False, self.now
        self._touch(pod)
        self._later(pod.owner.table.start_seconds, self._run, pod)

    def _run(self, pod: SimulatedPod, _at: float) -> None:
        if not pod.deleted:
            pod.running = True
            self._touch(pod)
            self._later(pod.owner.table.ready_seconds, self._become_ready, pod)
            if isinstance(pod.owner, SimulatedJobSet):
                self._later(pod.owner.begin(pod, self.now), self._end, pod)

    def _become_ready(self, pod: SimulatedPod, at: float) -> None:
        if not pod.deleted:
            pod.ready, pod.ready_changed = True, at
            self._touch(pod)

    def _end(self, pod: SimulatedPod, at: float) -> None:
        if not pod.deleted and isinstance(pod.owner, SimulatedJobSet):
            pod.owner.end(pod, at)
            self._let_go(pod)

    def _vanish(self, pod: SimulatedPod, _at: float) -> None:
        del pod.owner.pods[pod.name]
        self._room.give(pod.node, pod.need)
        self._too_big.clear()
        self._unsettled[pod.owner] = None
        if pod.owner.numbered:
            self._bereft[pod.owner] = None

    def _touch(self, pod: SimulatedPod) -> None:
        pod.seen = None
        self._unsettled[pod.owner] = None
