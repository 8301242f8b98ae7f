"""The query of one series, and how the labels of its answers name subjects.

Knows labels, and that a plain selector's samples have a time of their own; knows nothing of HTTP or of samples.
"""

import re
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from elasticd.ports.source import Subject
from elasticd.sources.prometheus.tables import SeriesTable

_STRING = r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`[^`]*`"
_MATCHER = rf"\s*[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*(?:{_STRING})\s*"
_MATCHERS = rf"\{{(?:{_MATCHER}(?:,{_MATCHER})*,?)?\s*\}}"
_PLAIN = re.compile(rf"\s*(?!(?i:inf|nan)\s*$)[a-zA-Z_:][a-zA-Z0-9_:]*\s*(?:{_MATCHERS})?\s*")

# As kube-prometheus' recording rules write them (workload_type="deployment").
_KINDS = {
    kind.lower(): kind
    for kind in ("Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "ReplicationController", "Job", "CronJob")
}


class QueryPlan(Struct, frozen=True, kw_only=True):
    """One query whose answers are samples of one series."""

    name: str
    subject: Subject
    query: str
    measured: str
    window: float
    accept_warnings: bool
    labels: type[Any]
    """What is decoded of an answer's labels: namespace, name, kind, container."""
    key: Callable[[Any], str]
    """The subject's key, empty when the labels do not name one."""
    fixed: bool
    """Whether there is only one subject, so that an answer needs no labels."""
    containers: bool
    """Whether a label names the container."""
    missing: str
    """The labels that an answer needs to name a subject, for messages."""


def plan_of(table: SeriesTable) -> QueryPlan:
    """The plan of a [[source.series]] table."""
    roles = table.roles()
    fixed = {"namespace": table.namespace, "name": table.workload, "kind": "" if table.labels.kind else table.kind}
    needed = [label for role, label in roles.items() if role != "container"]
    return QueryPlan(
        name=table.name,
        subject=table.subject,
        query=table.query,
        measured=table.measured or times_of(table.query),
        window=table.window,
        accept_warnings=table.accept_warnings,
        labels=_labels(roles, fixed),
        key=_KEYS[table.subject],
        fixed=not needed,
        containers="container" in roles,
        missing=" and ".join(needed),
    )


def times_of(query: str) -> str:
    """The query for the times at which the samples of a query were measured, which Prometheus knows of a plain
    selector. Empty for anything else: of that it only knows when it computed the answer."""
    return f"timestamp({query.strip()})" if _PLAIN.fullmatch(query) else ""


def _labels(roles: dict[str, str], fixed: dict[str, str]) -> type[Any]:
    """A record type with just those labels; others are skipped undecoded. A fixed value is a default whose field has a
    name that no label can have."""
    fields = [(role, str, fixed.get(role, "")) for role in ("namespace", "name", "kind", "container")]
    names = {role: roles.get(role, f"={role}") for role, _, _ in fields}
    return msgspec.defstruct("SubjectLabels", fields, rename=names, frozen=True, gc=False)


def _pod(labels: Any) -> str:
    namespace, name = labels.namespace, labels.name
    return f"{namespace}/{name}" if namespace and name and "/" not in namespace and "/" not in name else ""


def _workload(labels: Any) -> str:
    kind = _KINDS.get(labels.kind, labels.kind)
    key = f"{labels.namespace}/{kind}/{labels.name}"
    return key if labels.namespace and kind and labels.name and key.count("/") == 2 else ""


def _node(labels: Any) -> str:
    name: str = labels.name
    return name if "/" not in name else ""


_KEYS: dict[Subject, Callable[[Any], str]] = {"pod": _pod, "workload": _workload, "node": _node}
