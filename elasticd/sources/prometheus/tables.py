"""The tables of a Prometheus source's TOML: its series, and rules that find series.

Knows options, their defaults and bounds, and what of them contradicts itself; knows nothing of HTTP or answers.
"""

import re
from typing import Annotated

from msgspec import Meta, Struct

from elasticd.base.text import shown
from elasticd.ports.source import Subject

LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_STRING = r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`[^`]*`"
_MATCHER = rf"\s*[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*(?:{_STRING})\s*"
_MATCHERS = rf"\{{(?:{_MATCHER}(?:,{_MATCHER})*,?)?\s*\}}"
_PLAIN = re.compile(rf"\s*(?!(?i:inf|nan)\s*$)[a-zA-Z_:][a-zA-Z0-9_:]*\s*(?:{_MATCHERS})?\s*")
_NAME = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.:]*")

Label = Annotated[str, Meta(description="a label of the answer; empty: none")]
Query = Annotated[str, Meta(min_length=1, max_length=65536, description="PromQL")]
LONGEST_WINDOW = 86400
Window = Annotated[float, Meta(ge=0, le=LONGEST_WINDOW, description="seconds the query averages over; 0: an instant")]


class PrometheusTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What series and rules have in common: how a number's age is known, and what is done about partial answers."""

    query: Query
    measured: Annotated[
        str,
        Meta(description="PromQL that gives, with the same labels, when it was measured (unix time)"),
    ] = ""
    window: Window = 0.0
    accept_warnings: Annotated[bool, Meta(description="use an answer that the server calls partial")] = False


class Labels(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which labels of the answer name the subject."""

    namespace: Label = "namespace"
    pod: Label = "pod"
    container: Annotated[str, Meta(description="a label that tells a pod's containers apart; empty: none")] = ""
    node: Label = "node"
    workload: Annotated[str, Meta(description="label of the workload's name; empty: its kind in lower case")] = ""
    kind: Annotated[str, Meta(description="label of the workload's kind; empty: it is fixed")] = ""

    def __post_init__(self) -> None:
        for key in self.__struct_fields__:
            label = getattr(self, key)
            if label and not LABEL.fullmatch(label):
                raise ValueError(f"{key}: must be the name of a label, is {shown(label)}")


class SeriesTable(PrometheusTable, frozen=True):
    """One series: a query that answers for all subjects at once."""

    name: Annotated[str, Meta(min_length=1, max_length=253, description="what policies call it")]
    subject: Annotated[Subject, Meta(description="what each number is about")] = "workload"
    labels: Labels = Labels()
    namespace: Annotated[str, Meta(description="the namespace of all; empty: a label says it")] = ""
    kind: Annotated[str, Meta(description="the kind of all workloads, unless labels.kind says it")] = "Deployment"
    workload: Annotated[str, Meta(description="the one workload the number is about; empty: a label says it")] = ""

    def __post_init__(self) -> None:
        if self.namespace and self.subject == "node":
            raise ValueError("namespace: must not be given for a node, which is in none")
        if self.workload and self.subject != "workload":
            raise ValueError(f'workload: must be given only with subject = "workload", it is {shown(self.subject)}')
        for key in ("namespace", "kind", "workload"):
            value = getattr(self, key)
            if value and not _NAME.fullmatch(value):
                raise ValueError(f"{key}: must be a name in Kubernetes, is {shown(value)}")
        if not self.kind and not self.labels.kind:
            raise ValueError("kind: must be given, or else labels.kind, neither is")
        roles = self.roles()
        if twice := next((label for label in roles.values() if [*roles.values()].count(label) > 1), ""):
            raise ValueError(f"labels: must differ from one another, {shown(twice)} is used twice")

    @property
    def times(self) -> str:
        """The query for the times at which the samples were measured: of a plain selector, Prometheus knows them. Of
        anything else it only knows when it computed the answer: then empty, unless `measured` is given."""
        return self.measured or (f"timestamp({self.query.strip()})" if _PLAIN.fullmatch(self.query) else "")

    @property
    def needed(self) -> str:
        """The labels that an answer needs to name a subject, for messages; empty: there is only one subject."""
        return " and ".join(label for role, label in self.roles().items() if role != "container")

    def roles(self) -> dict[str, str]:
        """What must be read of each answer: the part of the subject, and the label that says it."""
        labels = self.labels
        if self.subject == "node":
            return _nonempty(name=labels.node or "node")
        namespace = "" if self.namespace else labels.namespace or "namespace"
        if self.subject == "pod":
            return _nonempty(namespace=namespace, name=labels.pod or "pod", container=labels.container)
        default = "workload" if labels.kind else self.kind.lower()
        return _nonempty(
            namespace=namespace, name="" if self.workload else labels.workload or default, kind=labels.kind
        )


def _nonempty(**roles: str) -> dict[str, str]:
    return {role: label for role, label in roles.items() if label}
