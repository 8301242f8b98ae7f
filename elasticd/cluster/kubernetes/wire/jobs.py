"""Jobs on the wire: the manifest that a set's Jobs are created from, checked and stamped; and Jobs read into the model.

Knows what the API asks of a Job, as far as a mistake would only show at the first one, and when a Job has ended; knows
nothing of HTTP or of policies.
"""

import sys
from hashlib import sha256
from types import NoneType
from typing import Any

import msgspec
import yaml
from msgspec import Struct

from elasticd.base.errors import UNREADABLE
from elasticd.base.text import one_line, shown
from elasticd.cluster.kubernetes.wire.objects import ObjectMeta, Time, Wire, WireCondition
from elasticd.model.jobs import JOB_KIND, Job
from elasticd.model.workload import Ref

SET = "elasticd.io/job-set"
"""The label of a set's Jobs and their pods: the set's name."""

TEMPLATE = "elasticd.io/job-template"
"""The label of a Job: the hash of the template that it was created from."""

DECISION = "elasticd.io/decision"
"""The annotation of a Job: the decision that it was created by, as in the journal."""

_OURS = "elasticd.io/"
_LARGEST = 10_000
_KINDS = {list: "a list", str: "text", bool: "a boolean", int: "a number", float: "a number", NoneType: "nothing"}


class TemplateError(Exception):
    """What is wrong with a template: the key, and a sentence."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"{key}: {problem}" if key else problem)
        self.key, self.problem = key, problem


def parse(text: str) -> Any:
    """YAML or JSON as plain data. Raises TemplateError."""
    try:
        documents = list(yaml.safe_load_all(text))
    except (yaml.YAMLError, *UNREADABLE) as error:
        raise TemplateError("", f"must be YAML: {_without_content(error)}") from None
    if len(documents) != 1:
        raise TemplateError("", f"must be one manifest, is {len(documents)}")
    return documents[0]


def check(manifest: Any, namespace: str) -> str:
    """The manifest as JSON that is the same for equal manifests. Raises TemplateError for the first mistake."""
    _check_plain(manifest)
    if not isinstance(manifest, dict):
        raise TemplateError("", f"must be a table, is {_KINDS[type(manifest)]}")
    job: dict[str, Any] = manifest
    for key, expected in (("apiVersion", "batch/v1"), ("kind", "Job")):
        if job.get(key) != expected:
            raise TemplateError(key, f"must be {expected}, is {_shown_value(job, key)}")
    _check_metadata(_table(job.get("metadata", {}), "metadata"), namespace)
    spec = _table(job.get("spec"), "spec")
    for key in ("selector", "manualSelector"):
        if key in spec:
            raise TemplateError(f"spec.{key}", "must be left out: Kubernetes makes one for each Job")
    pod = _table(spec.get("template"), "spec.template")
    _check_labels(_table(pod.get("metadata", {}), "spec.template.metadata"), "spec.template.metadata")
    inner = _table(pod.get("spec"), "spec.template.spec")
    if not isinstance(inner.get("containers"), list) or not inner["containers"]:
        raise TemplateError("spec.template.spec.containers", "must have a container, has none")
    if inner.get("restartPolicy") not in ("Never", "OnFailure"):
        problem = f"must be Never or OnFailure, is {_shown_value(inner, 'restartPolicy')}"
        raise TemplateError("spec.template.spec.restartPolicy", problem)
    return msgspec.json.encode(job, order="sorted").decode()


def hash_of(manifest: str) -> str:
    """Eight characters that tell one template from another."""
    return sha256(manifest.encode()).hexdigest()[:8]


def stamped(manifest: str, name: str, set_name: str, template: str, decision: str) -> dict[str, Any]:
    """The Job of this name, with the labels by which it and its pods are found again."""
    job: dict[str, Any] = msgspec.json.decode(manifest)
    meta = job.setdefault("metadata", {})
    meta["name"] = name
    meta["labels"] = {**(meta.get("labels") or {}), SET: set_name, TEMPLATE: template}
    meta["annotations"] = {**(meta.get("annotations") or {}), DECISION: decision}
    pod = job["spec"]["template"].setdefault("metadata", {})
    pod["labels"] = {**(pod.get("labels") or {}), SET: set_name}
    return job


def _without_content(error: Exception) -> str:
    """What YAML says of a mistake, without the line that it quotes: whoever writes a policy may name any file."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return one_line(str(error))
    problem, _, _ = (getattr(error, "problem", "") or "it cannot be read").partition(" '")
    return one_line(f"{problem}, line {mark.line + 1}, column {mark.column + 1}")


def _check_metadata(meta: dict[str, Any], namespace: str) -> None:
    for key in ("name", "generateName"):
        if key in meta:
            raise TemplateError(f"metadata.{key}", "must be left out: each Job gets a name of its own")
    if meta.get("namespace", namespace) != namespace:
        raise TemplateError("metadata.namespace", f"must be {namespace}, is {_shown_value(meta, 'namespace')}")
    _check_labels(meta, "metadata")


def _check_labels(meta: dict[str, Any], where: str) -> None:
    for kind in ("labels", "annotations"):
        for key, value in _table(meta.get(kind) or {}, f"{where}.{kind}").items():
            if key.startswith(_OURS):
                raise TemplateError(f"{where}.{kind}", f"must have no key of {_OURS}, has {shown(key)}")
            if not isinstance(value, str):
                raise TemplateError(f"{where}.{kind}.{key}", f"must be a string, is {shown(value)}")


def _check_plain(manifest: Any) -> None:
    """YAML has dates, sets, keys of any kind, and aliases that make a few lines endless; the API has not."""
    pending: list[tuple[str, Any]] = [("", manifest)]
    for _ in range(_LARGEST):
        if not pending:
            return
        where, value = pending.pop()
        if isinstance(value, dict):
            if odd := next((key for key in value if not isinstance(key, str)), None):
                raise TemplateError(where, f"must have strings for keys, has {_KINDS.get(type(odd), 'others')}")
            pending += [(f"{where}.{key}" if where else key, entry) for key, entry in value.items()]
        elif isinstance(value, list):
            pending += [(f"{where}[{index}]", entry) for index, entry in enumerate(value)]
        elif not isinstance(value, str | int | float | None):
            raise TemplateError(where, f"must be text in quotes, a number, true or false, is {shown(value)}")
    raise TemplateError("", f"must have at most {_LARGEST} values, has more")


def _table(value: Any, key: str) -> dict[str, Any]:
    if value is None:
        raise TemplateError(key, "must be given, is missing")
    if not isinstance(value, dict):
        raise TemplateError(key, f"must be a table, is {shown(value)}")
    return value


def _shown_value(table: dict[str, Any], key: str) -> str:
    return shown(table[key]) if key in table else "missing"


class _JobStatus(Wire, frozen=True):
    completion_time: Time | None = None
    conditions: list[WireCondition] | None = None


class _JobSpec(Wire, frozen=True):
    suspend: bool | None = None


class WireJob(ObjectMeta, frozen=True):
    """A Job."""

    spec: _JobSpec = _JobSpec()
    status: _JobStatus = _JobStatus()


class PlacedJob(Struct, frozen=True, gc=False):
    """A Job and the set that it belongs to; the set has an empty name if there is none."""

    set: Ref
    job: Job


def to_job(wire: WireJob, offset: float = 0.0) -> PlacedJob:
    """A Job of the model, its times moved by `offset` seconds. It has ended with its condition Complete or Failed, and
    not before: while others announce them (SuccessCriteriaMet, FailureTarget) its pods may still run."""
    meta, status = wire.metadata, wire.status
    labels = meta.labels or {}
    ends = [each for each in status.conditions or () if each.type in ("Complete", "Failed") and each.status == "True"]
    final = next(iter(ends), None)
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
        suspended=final is None and wire.spec.suspend is True,
    )
    api_version, kind = JOB_KIND
    return PlacedJob(Ref(sys.intern(meta.namespace), kind, labels.get(SET, ""), api_version), job)
