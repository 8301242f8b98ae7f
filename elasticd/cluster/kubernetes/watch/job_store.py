"""The Jobs of all job sets, in memory, and each set as a workload.

Knows which Jobs are in flight, which pods are theirs, and which were there a while ago; knows nothing of how they came
or of templates.
"""

from collections.abc import Callable

from elasticd.cluster.kubernetes.watch.store import Store
from elasticd.cluster.kubernetes.wire.jobs import SET, PlacedJob
from elasticd.model.jobs import Gone, Job
from elasticd.model.workload import Pod, Ref, Workload


class JobStore(Store[PlacedJob]):
    """All Jobs with a set's label, by set, and for a while those that were deleted."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__(lambda placed: (placed.set.namespace, placed.job.name))
        self._now = now
        self._sets: dict[Ref, dict[str, Job]] = {}
        self._gone: dict[Ref, Gone] = {}
        self._taken: dict[Ref, int] = {}
        self._workloads: dict[Ref, Workload] = {}
        self._pods: dict[Ref, tuple[Workload, tuple[Pod, ...], tuple[Pod, ...]]] = {}

    def _goes_back(self, old: PlacedJob, new: PlacedJob, *, listed: bool) -> bool:
        """A Job that has ended does not begin again."""
        same = (old.set, old.job.uid) == (new.set, new.job.uid)
        return same and not listed and bool(old.job.result) and not new.job.result

    def remove(self, item: PlacedJob) -> None:
        """The Job is gone, unless another of its name has come."""
        self.forget(item.set, item.job.name, item.job.uid)

    def forget(self, ref: Ref, name: str, uid: str) -> None:
        """The Job of this UID is gone."""
        key = (ref.namespace, name)
        placed = self._items.get(key)
        if placed is not None and (placed.set, placed.job.uid) == (ref, uid):
            self.drop(key)

    def _changed(self, old: PlacedJob | None, new: PlacedJob | None) -> None:
        if old is not None:
            del self._sets[old.set][old.job.name]
            self._workloads.pop(old.set, None)
            if new is None or (old.set, old.job.uid) != (new.set, new.job.uid):
                self._gone.setdefault(old.set, Gone()).add(old.job, self._now())
        if new is not None:
            self._sets.setdefault(new.set, {})[new.job.name] = new.job
            self._workloads.pop(new.set, None)
            for ref in {new.set, old.set if old else new.set} & self._gone.keys():
                self._gone[ref].back(new.job.uid)

    def skip(self, ref: Ref, number: int) -> None:
        """Name no Job of this set by this number or a lower one: a Job that is not of the set has its name."""
        self._taken[ref] = max(number, self._taken.get(ref, 0))
        self._workloads.pop(ref, None)

    def clear(self) -> None:
        """Forget everything: no policy uses Jobs any more."""
        self.retain("", ())
        self._gone.clear()
        self._taken.clear()

    def get(self, ref: Ref) -> Workload:
        """The set as a workload, also while it has no Jobs; the same record while nothing changed."""
        workload = self._workloads.get(ref)
        if workload is None:
            jobs = self._sets.get(ref, {})
            flying = sum(1 for job in jobs.values() if not job.result)
            workload = self._workloads[ref] = Workload(
                ref=ref,
                uid=str(ref),
                version="",
                replicas=flying,
                status_replicas=flying,
                selector=f"{SET}={ref.name}",
                jobs=tuple(sorted(jobs.values(), key=lambda job: job.name)),
                gone=self._gone[ref].all() if ref in self._gone else (),
                taken=self._taken.get(ref, 0),
            )
        return workload

    def pods_in_flight(self, workload: Workload, pods: tuple[Pod, ...]) -> tuple[Pod, ...]:
        """Those of a set's pods whose Jobs have not ended; the same tuple while nothing changed."""
        cached = self._pods.get(workload.ref)
        if cached is not None and cached[0] is workload and cached[1] is pods:
            return cached[2]
        flying = {job.uid for job in workload.jobs if not job.result}
        in_flight = tuple(pod for pod in pods if pod.job in flying)
        if cached is not None and cached[2] == in_flight:
            in_flight = cached[2]
        self._pods[workload.ref] = (workload, pods, in_flight)
        return in_flight
