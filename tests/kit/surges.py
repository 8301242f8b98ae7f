"""A Deployment of which a pod is moved by making another first, and what its controllers do.

Knows what becomes of a Deployment's pods; knows nothing of who decides what comes next.
"""

from typing import Any

from msgspec.structs import replace

from elasticd.kit.surge import HASH
from elasticd.model.actions import Action, Evict, Mark, Scale
from elasticd.model.disruption import Refused
from elasticd.model.workload import COST, Pod, Ref, Workload
from tests.kit.pools import NOW, pod

REF = Ref("shop", "Deployment", "web")
OWNED, LABELS = ("ReplicaSet", "web-1", "rs"), {"app": "web", HASH: "1"}
WEB = Workload(REF, "w", "7", 2, 2)


def one(name: str, on: str = "b", *, ready: bool = True, **more: Any) -> Pod:
    """A pod of the Deployment."""
    return replace(
        pod(name, on=on, owner=OWNED, ready=ready), **{"uid": name, "created": NOW - 100, "labels": LABELS, **more}
    )


OLD, SIBLING, NEW = one("old", "a"), one("sibling"), one("zz", created=NOW + 1)


class Kept:
    """What keeps the old pod of a surge, as a test says; by default nothing does."""

    def __init__(self, protection: Refused | None = None, delay: Refused | None = None) -> None:
        self.protects, self.delays = protection, delay
        self.asked: list[Evict] = []

    def protection(self, workload: Workload, pod: Pod) -> Refused | None:
        return self.protects

    def delay(self, pod: Pod, evict: Evict) -> Refused | None:
        self.asked.append(evict)
        return self.delays


FREE = Kept()


class World:
    """A Deployment as its controllers keep it: what is done to it is done at once, or after a while."""

    def __init__(self, count: int, *, ready: bool, beside: bool, heeds: bool, cost: str | None = None) -> None:
        """`cost`: the deletion cost that the template gives each pod."""
        self.given = {} if cost is None else {COST: cost}
        pods = [OLD, *[one(f"s{number}") for number in range(count - 1)]]
        self.pods = [replace(pod, annotations=self.given) for pod in pods]
        self.workload = replace(WEB, replicas=count, status_replicas=count)
        self.released: list[Pod] = []
        """Pods that are not its own."""
        self.stuck = False
        """Its controllers do nothing."""
        self.delay = 0
        """The turns for which the network keeps an eviction."""
        self._sent: list[tuple[float, Pod]] = []
        """When evictions arrive, and of which pods, as they were when these were sent."""
        self.made, self.now, self.least = 0, NOW, count
        self.ready, self.beside, self.heeds = ready, beside, heeds
        self.scales: list[int] = []

    @property
    def selected(self) -> tuple[Pod, ...]:
        """The pods that its selector matches."""
        return (*self.pods, *(pod for pod in self.released if pod.labels.get("app") == "web"))

    def release(self, isolated: Pod) -> None:
        """A pod has other labels, and belongs to it no longer."""
        self.pods = [pod for pod in self.pods if pod.uid != isolated.uid]
        self.released.append(isolated)

    def do(self, action: Action | None) -> None:
        """What the API server makes of it."""
        match action:
            case Scale(after=after):
                self.scales.append(after)
                self.workload = replace(self.workload, replicas=after)
            case Evict(uid=uid):
                self._sent += [(self.now + 10 * self.delay, pod) for pod in self.pods if pod.uid == uid]
                self._deliver()
            case Mark(pod="") as mark:
                annotations = mark.on(self.workload.annotations)
                self.workload = replace(self.workload, annotations=annotations, surge_writer="")
            case Mark() as mark:
                for pods in (self.pods, self.released):
                    pods[:] = [
                        replace(pod, annotations=mark.on(pod.annotations)) if pod.uid == mark.uid else pod
                        for pod in pods
                    ]
            case _:
                pass

    def turn(self) -> None:
        """What the controllers do in a while."""
        self.now += 10
        self._deliver()
        if self.stuck:
            return
        count = self.workload.replicas
        self.pods = [replace(pod, ready=self.ready) if pod.name.startswith("z") else pod for pod in self.pods]
        while len(self.pods) < count:
            self.made += 1
            node = "a" if self.beside else "c"
            made = one(f"z{self.made}", node, ready=False, created=self.now, annotations=self.given)
            self.pods.append(made)
        while len(self.pods) > count:  # not ready first, then the lowest cost, then the youngest
            goes = min(self.pods, key=lambda pod: (pod.ready, self._cost(pod), -pod.created))
            self.pods.remove(goes)
        self.workload = replace(self.workload, status_replicas=len(self.pods))
        self.least = min(self.least, sum(bool(pod.ready) for pod in self.pods))

    def _deliver(self) -> None:
        """Evictions arrive. Of a pod that has changed since they were sent they are refused."""
        arrive = [(pod.uid, pod.annotations) for at, pod in self._sent if at <= self.now]
        self._sent = [(at, pod) for at, pod in self._sent if at > self.now]
        self.pods = [pod for pod in self.pods if (pod.uid, pod.annotations) not in arrive]

    def _cost(self, pod: Pod) -> int:
        return int(pod.annotations.get(COST, "0")) if self.heeds else 0
