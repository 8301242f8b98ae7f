"""The Jobs of all job sets, in memory, and each set as a workload.

Knows which Jobs are in flight, which pods are theirs, and which were there a while ago; knows nothing of how they came
or of templates.
"""

from collections.abc import Callable, Collection

from elasticd.cluster.kubernetes.watch.places import Key
from elasticd.cluster.kubernetes.wire.jobs import SET, PlacedJob
from elasticd.model.jobs import Gone, Job
from elasticd.model.workload import Pod, Ref, Workload


class JobStore:
    """All Jobs with a set's label, by set, and for a while those that were deleted."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._sets: dict[Ref, dict[str, Job]] = {}
        self._gone: dict[Ref, Gone] = {}
        self._places: dict[Key, Ref] = {}
        self._workloads: dict[Ref, Workload] = {}
        self._pods: dict[Ref, tuple[Workload, tuple[Pod, ...], tuple[Pod, ...]]] = {}

    def put(self, item: PlacedJob, *, listed: bool) -> Key:
        """Store a Job. One that has ended does not begin again, so an older event that says otherwise is ignored."""
        key = (item.set.namespace, item.job.name)
        before = self._places.get(key)
        if before is not None and before != item.set:
            self._drop(key)
            self._gone[before].back(item.job.uid)
        jobs = self._sets.setdefault(item.set, {})
        old = jobs.get(item.job.name)
        stale = old is not None and not listed and old.uid == item.job.uid and old.result and not item.job.result
        if old != item.job and not stale:
            if old is not None and old.uid != item.job.uid:
                self._drop(key)
            if item.set in self._gone:
                self._gone[item.set].back(item.job.uid)
            jobs[item.job.name] = item.job
            self._places[key] = item.set
            self._workloads.pop(item.set, None)
        return key

    def remove(self, item: PlacedJob) -> None:
        """The Job is gone, unless another of its name has come."""
        self.forget(item.set, item.job.name, item.job.uid)

    def forget(self, ref: Ref, name: str, uid: str) -> None:
        """The Job of this UID is gone."""
        job = self._sets.get(ref, {}).get(name)
        if job is not None and job.uid == uid:
            self._drop((ref.namespace, name))

    def _drop(self, key: Key) -> None:
        ref = self._places.pop(key, None)
        if ref is not None:
            self._gone.setdefault(ref, Gone()).add(self._sets[ref].pop(key[1]), self._now())
            self._workloads.pop(ref, None)

    def retain(self, namespace: str, keep: Collection[Key]) -> None:
        """Forget all Jobs of the namespace (all namespaces, if empty) but these."""
        for key in [key for key in self._places if namespace in ("", key[0]) and key not in keep]:
            self._drop(key)

    def clear(self) -> None:
        """Forget everything: nobody looks at Jobs any more."""
        self.retain("", ())
        self._gone.clear()

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
