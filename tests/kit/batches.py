"""Job sets for tests: their Jobs, pods, queues and what is seen of them.

Knows the model; knows nothing of what is tested.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from elasticd.decision.quality import grade
from elasticd.model.jobs import JOB_KIND, Job
from elasticd.model.policy import JobSet
from elasticd.model.workload import Observation, Pod, Ref, Sample, Series, Workload
from elasticd.testing import NOW

TRANSCODE = Ref("media", JOB_KIND[1], "transcode", JOB_KIND[0])
OLD = NOW - 600
HASH = "0123abcd"
MANIFEST = (
    '{"apiVersion":"batch/v1","kind":"Job","spec":{"template":{"spec":{"containers":[{"name":"main","image":"x"}],'
    '"restartPolicy":"Never"}}}}'
)
SET = JobSet(namespace="media", name="transcode", manifest=MANIFEST, template=HASH)


def template(**pod: Any) -> dict[str, Any]:
    """The manifest of a Job, with this in its pods' spec."""
    spec = {"containers": [{"name": "main", "image": "x"}], "restartPolicy": "Never", **pod}
    return {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": spec}}}


def job(number: int, **more: Any) -> Job:
    """A Job of the set, in flight since ten minutes ago."""
    return Job(**{
        "name": f"transcode-{more.get('template', HASH)}-{number}", "uid": f"u{number}", "template": HASH,
        "number": number, "created": OLD, **more,
    })  # fmt: skip


def ended(number: int, at: float = OLD, result: str = "Complete", **more: Any) -> Job:
    """A Job that has ended."""
    return job(number, ended=at, result=result, **more)


def pod_of(one: Job, phase: str = "Running", **more: Any) -> Pod:
    """The pod of a Job."""
    labels = {"controller-uid": one.uid}
    ready = {"ready": phase == "Running", "node": "" if phase == "Pending" else "n1"}
    return Pod(
        **{
            "namespace": "media",
            "name": one.name,
            "uid": f"p-{one.uid}",
            "phase": phase,
            "labels": labels,
            **ready,
            **more,
        }
    )


def workload(jobs: Sequence[Job], replicas: int | None = None, gone: Sequence[Job] = ()) -> Workload:
    """The set as it is seen."""
    flying = sum(1 for one in jobs if not one.result) if replicas is None else replicas
    return Workload(TRANSCODE, str(TRANSCODE), "", flying, flying, jobs=tuple(jobs), gone=tuple(gone))


def queue(length: float, at: float = NOW, name: str = "queue_length") -> Series:
    """A queue of this length, measured at a time."""
    return grade(name, "test", [Sample(length, at, at)], NOW, 1e9)


def seen(
    jobs: Sequence[Job] = (),
    queues: Mapping[str, Series | float] | float = 0.0,
    pods: Sequence[Pod] | None = None,
    gone: Sequence[Job] = (),
    **more: Any,
) -> Observation:
    """What is known of the set; each Job in flight has a pod that runs, unless pods are given."""
    named = queues if isinstance(queues, Mapping) else {"queue_length": queues}
    series = {name: one if isinstance(one, Series) else queue(one, name=name) for name, one in named.items()}
    if pods is None:
        pods = [pod_of(one) for one in jobs if not one.result]
    found = workload(jobs, gone=gone)
    return Observation(**{
        "at": NOW, "workload": found, "pods": tuple(pods), "series": series, "confirmed": NOW, **more,
    })  # fmt: skip
