"""Rules that find series and make queries for them, in the manner of prometheus-adapter's configuration.

Knows that project's terms (its docs/config.md: discovery, association, naming, querying) and how they become series;
knows nothing of HTTP. What differs: a query answers for all namespaces at once, so <<.GroupBy>> holds the namespace
too, and <<.LabelMatchers>> asks only that the labels are there.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from elasticd.base.text import shown
from elasticd.ports.source import Subject
from elasticd.sources.prometheus.tables import LABEL, Labels, PrometheusTable, SeriesTable

Pattern = Annotated[str, Meta(max_length=1024, description="a regular expression")]

_SERIES = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_HOLE = re.compile(r"<<-?(.*?)-?>>", re.DOTALL)
_GROUP = re.compile(r"\$(?:\{(\w+)\}|(\w+)|\$)")
# By every name that kubectl accepts; the group is that of the label template.
_RESOURCES: dict[str, tuple[str, str, str]] = {
    name: (singular, kind, group)
    for names, singular, kind, group in (
        ("namespace namespaces ns", "namespace", "", ""),
        ("pod pods po", "pod", "", ""),
        ("node nodes no", "node", "", ""),
        ("deployment deployments deploy", "deployment", "Deployment", "apps"),
        ("statefulset statefulsets sts", "statefulset", "StatefulSet", "apps"),
        ("replicaset replicasets rs", "replicaset", "ReplicaSet", "apps"),
        ("replicationcontroller replicationcontrollers rc", "replicationcontroller", "ReplicationController", ""),
    )
    for name in names.split()
}


def _compile(key: str, pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{key}: must be a regular expression, is not: {error}") from None


def _fill(template: str, key: str, words: dict[str, str]) -> str:
    """A template with its <<.Words>> filled in. Raises ValueError for an unknown word."""

    def word(hole: re.Match[str]) -> str:
        name = hole[1].strip().removeprefix(".")
        if name not in words or not hole[1].strip().startswith("."):
            allowed = ", ".join(f"<<.{option}>>" for option in words)
            raise ValueError(f"{key}: must have no other words than {allowed}, has {shown(hole[0])}")
        return words[name]

    return _HOLE.sub(word, template)


class NameFilter(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"is_": "is"}):
    """Which of the series found are meant, by name: those that match, or those that do not."""

    is_: Pattern = ""
    is_not: Pattern = ""

    def __post_init__(self) -> None:
        if bool(self.is_) == bool(self.is_not):
            raise ValueError(f"is: must be given, or else is_not, {'both are' if self.is_ else 'neither is'}")
        _compile("is" if self.is_ else "is_not", self.is_ or self.is_not)

    def lets(self, series: str) -> bool:
        """Whether a series of this name is meant."""
        return bool(re.search(self.is_, series)) if self.is_ else not re.search(self.is_not, series)


class Naming(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"as_": "as"}):
    """What policies call a series that was found; one that does not match is not meant."""

    matches: Pattern = ".*"
    as_: Annotated[str, Meta(description="with ${1} for groups; empty: the one group, or all that matched")] = ""

    def __post_init__(self) -> None:
        pattern = _compile("matches", self.matches)
        if pattern.groups > 1 and not self.as_:
            raise ValueError("as: must be given where matches has several groups, is missing")
        for reference in _GROUP.finditer(self.as_):
            group = reference[1] or reference[2] or "0"
            if group not in pattern.groupindex and not (group.isdecimal() and int(group) <= pattern.groups):
                raise ValueError(f"as: must name groups that matches has (as ${{1}}), is {shown(self.as_)}")

    def named(self, series: str) -> str:
        """What policies call a series; empty if the series is not meant."""
        match = re.search(self.matches, series)
        if not match:
            return ""
        template = self.as_ or ("$1" if match.re.groups else "$0")
        return _GROUP.sub(lambda hole: _group(match, hole), template)


def _group(match: re.Match[str], hole: re.Match[str]) -> str:
    group = hole[1] or hole[2]
    if not group:
        return "$"
    return match[int(group) if group.isdecimal() else group] or ""


class Override(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a label's values are names of."""

    resource: Annotated[str, Meta(min_length=1, description="such as pod, namespace, node or deployment")]
    group: Annotated[str, Meta(description="its API group; not needed to find it")] = ""
    kind: Annotated[str, Meta(description="for workloads of a kind that is not Kubernetes' own")] = ""


class ResourceLabels(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which labels name pods, namespaces, nodes and workloads."""

    template: Annotated[str, Meta(description="all such labels, such as kube_<<.Group>>_<<.Resource>>")] = ""
    overrides: Annotated[dict[str, Override], Meta(description="single labels: {pod_name = {resource = 'pod'}}")] = {}

    def __post_init__(self) -> None:
        for label in self.overrides:
            if not LABEL.fullmatch(label):
                raise ValueError(f"overrides: must be names of labels, {shown(label)} is none")
        if self.template:
            _fill(self.template, "template", {"Resource": "", "Group": ""})
        if not list(self.subjects()):
            raise ValueError("overrides: must name labels of namespaces and pods (or workloads), or of nodes")

    def subjects(self) -> Iterator[tuple[Subject, str, dict[str, str]]]:
        """What series may be about: the subject, the kind if it is a workload, and the labels that name its parts."""
        labels = {**self._by_template(), **self._by_override()}
        namespace = labels.get(("namespace", ""), "")
        for (resource, kind), label in labels.items():
            if resource == "node":
                yield "node", "", {"node": label}
            elif resource == "pod" and namespace:
                yield "pod", "", {"namespace": namespace, "pod": label}
            elif kind and namespace:
                yield "workload", kind, {"namespace": namespace, "workload": label}

    def _by_template(self) -> dict[tuple[str, str], str]:
        labels = {}
        for singular, kind, group in dict.fromkeys(_RESOURCES.values()) if self.template else ():
            label = _fill(self.template, "template", {"Resource": singular, "Group": group})
            labels[singular, kind] = re.sub(r"[^a-zA-Z0-9_]", "_", label)
        return labels

    def _by_override(self) -> dict[tuple[str, str], str]:
        labels = {}
        for label, override in self.overrides.items():
            singular, kind, _ = _RESOURCES.get(override.resource.lower(), (override.resource, "", ""))
            labels[singular, override.kind or kind] = label
        return labels


class RuleTable(PrometheusTable, frozen=True):
    """Series found by a selector, each asked for by one query made from a template."""

    series: Annotated[str, Meta(min_length=1, max_length=8192, description="selector of series, as {a!='',b!=''}")]
    resources: ResourceLabels
    filters: tuple[NameFilter, ...] = ()
    name: Naming = Naming()

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\s*(?:[a-zA-Z_:][\w:]*\s*(?:\{.*\})?|\{.*\})\s*", self.series, re.DOTALL):
            raise ValueError(f"series: must be a selector, as name or {{label!=''}}, is {shown(self.series)}")
        for key, text in (("query", self.query), ("measured", self.measured)):
            _fill(text, key, {"Series": "", "LabelMatchers": "", "GroupBy": ""})
        for search in self.searches():
            search.table("series", "name")  # so that impossible labels are refused now

    def searches(self) -> list["Search"]:
        """The searches of this rule, one for each kind of subject."""
        return [Search(self, *about) for about in self.resources.subjects()]


class Search(Struct, frozen=True):
    """A rule's series that are about one kind of subject."""

    rule: RuleTable
    subject: Subject
    kind: str
    labels: dict[str, str]

    @property
    def selector(self) -> str:
        """The rule's selector, limited to series that have the labels."""
        name, brace, tail = self.rule.series.strip().partition("{")
        inside = tail.rpartition("}")[0].strip().rstrip(",") if brace else ""
        return f"{name.strip()}{{{', '.join(filter(None, (inside, self._matchers)))}}}"

    @property
    def _matchers(self) -> str:
        return ",".join(f'{label}!=""' for label in self.labels.values())

    def tables(self, names: Sequence[str]) -> Iterator[SeriesTable]:
        """The table of each of these series that the rule means."""
        rule = self.rule
        for series in sorted(set(names)):
            # Only a plain name is put into a query: any other could change its meaning.
            meant = _SERIES.fullmatch(series) and all(name_filter.lets(series) for name_filter in rule.filters)
            if meant and (name := rule.name.named(series)):
                yield self.table(series, name)

    def table(self, series: str, name: str) -> SeriesTable:
        """The table of one series that was found."""
        rule, groups = self.rule, ",".join(self.labels.values())
        words = {"Series": series, "LabelMatchers": self._matchers, "GroupBy": groups}
        return SeriesTable(
            name=name[:253],
            query=_fill(rule.query, "query", words),
            measured=_fill(rule.measured, "measured", words),
            window=rule.window,
            accept_warnings=rule.accept_warnings,
            subject=self.subject,
            labels=Labels(**self.labels),
            kind=self.kind or "Deployment",
        )
