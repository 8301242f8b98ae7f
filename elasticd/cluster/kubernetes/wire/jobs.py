"""Jobs in the wire format, and from there to the model.

Knows which fields of a Job count, and when it has ended; knows nothing of HTTP or of what is watched.
"""

import sys
from datetime import datetime

from msgspec import Struct

from elasticd.cluster.kubernetes.wire.job_template import SET, TEMPLATE
from elasticd.cluster.kubernetes.wire.objects import Metadata, ObjectMeta, WireCondition
from elasticd.cluster.kubernetes.wire.pod_template import Wire
from elasticd.model.jobs import JOB_KIND, Job
from elasticd.model.workload import Ref


class JobMetadata(Metadata, frozen=True):
    """Of a Job: with the time of its creation."""

    creation_timestamp: datetime | None = None


class JobStatus(Wire, frozen=True):
    """What became of a Job."""

    completion_time: datetime | None = None
    conditions: list[WireCondition] | None = None


class WireJob(ObjectMeta, frozen=True):
    """A Job."""

    metadata: JobMetadata
    status: JobStatus = JobStatus()


class PlacedJob(Struct, frozen=True, gc=False):
    """A Job and the set that it belongs to; the set has an empty name if there is none."""

    set: Ref
    job: Job


def to_job(wire: WireJob, offset: float = 0.0) -> PlacedJob:
    """A Job of the model, its times moved by `offset` seconds.

    It has ended with its condition Complete or Failed, and not before: while others announce them (SuccessCriteriaMet,
    FailureTarget) its pods may still run.
    """
    meta, status = wire.metadata, wire.status
    labels = meta.labels or {}
    final = next((condition for condition in status.conditions or () if _ends(condition)), None)
    ended = status.completion_time or (final.last_transition_time if final else None) or meta.creation_timestamp
    number = meta.name.rpartition("-")[2]
    job = Job(
        name=meta.name,
        uid=meta.uid,
        template=sys.intern(labels.get(TEMPLATE, "")),
        number=int(number) if number.isascii() and number.isdecimal() and len(number) <= 10 else 0,
        created=meta.creation_timestamp.timestamp() + offset if meta.creation_timestamp else 0.0,
        ended=ended.timestamp() + offset if final and ended else 0.0,
        result="" if final is None else "Complete" if final.type == "Complete" else "Failed",
        deleted=meta.deletion_timestamp is not None,
    )
    api_version, kind = JOB_KIND
    return PlacedJob(Ref(sys.intern(meta.namespace), kind, labels.get(SET, ""), api_version), job)


def _ends(condition: WireCondition) -> bool:
    return condition.type in ("Complete", "Failed") and condition.status == "True"
