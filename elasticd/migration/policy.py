"""What is made of an object: a policy, the sources that it needs, and what could not be had.

Knows the text of policies; knows nothing of the objects they are made from.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import tomli_w
from msgspec import Struct

from elasticd.base.text import one_line, shown
from elasticd.migration.fields import Fields
from elasticd.model.kinds import BUILT_IN
from elasticd.model.policy import MOST
from elasticd.model.workload import Ref

Table = dict[str, Any]


class Imported(Struct, frozen=True):
    """A policy (`table`; None: none can be made), the source tables that it needs, and a line for each field that has
    no equivalent: the field, and what that means."""

    kind: str
    namespace: str
    name: str
    table: Table | None
    sources: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def policy(self) -> str:
        """The name of the policy, which no object of another namespace can have: no namespace has a dot."""
        return f"{self.namespace}.{self.name}" if self.namespace else self.name

    @property
    def about(self) -> str:
        """The object, in a few words."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    @property
    def text(self) -> str:
        """The policy's file."""
        head = [f"Made from {self.about} by `elasticd import`. It only observes."]
        head += [f"Differs: {note}" for note in self.notes]
        if self.sources:
            head.append("Its series need these sources in elasticd.toml:")
            head += sources_text(self.sources).splitlines()
        comments = "".join(f"# {one_line(line, 1000)}".rstrip() + "\n" for line in head)
        return comments + tomli_w.dumps(self.table or {})


def sources_text(sources: Iterable[Table]) -> str:
    """The tables for elasticd.toml: one of each type and name, with the series and topics of all."""
    merged: dict[tuple[str, str], Table] = {}
    for source in sources:
        table = merged.setdefault((source["type"], source.get("name", "")), {})
        for key, value in source.items():
            if isinstance(value, list):
                entries = table.setdefault(key, [])
                entries += [entry for entry in value if entry not in entries]
            else:
                table[key] = value
    return tomli_w.dumps({"source": list(merged.values())}) if merged else ""


class Subject(Struct, frozen=True):
    """The metadata of an object."""

    kind: str
    namespace: str
    name: str
    annotations: Mapping[str, str]


def subject_of(manifest: Fields, namespace: str) -> Subject:
    """The object's name, and its namespace, which is the given one where it says none."""
    meta = manifest.table("metadata")
    name, space = meta.text("name"), meta.text("namespace", namespace)
    annotations = meta.any("annotations") or {}
    if not isinstance(annotations, dict) or not all(isinstance(value, str) for value in annotations.values()):
        raise meta.wrong("annotations", f"must be texts by name, is {shown(annotations)}")
    meta.ignore(*meta.given())
    manifest.ignore("apiVersion", "kind", "status")
    return Subject(manifest.text("kind", ""), space, name, annotations)


def target_of(reference: Fields, namespace: str, notes: list[str], kind: str = "") -> Table:
    """The table [workload] of a scaleTargetRef or targetRef."""
    name, kind = reference.text("name"), reference.text("kind", kind or None)
    version = reference.text("apiVersion", "")
    home = next((group for group, known in BUILT_IN if known == kind), "")
    if home and version != home and (version.partition("/")[0] in ("", "apps", "extensions")):
        if version:
            notes.append(f"{reference.where('apiVersion')}: {version} is {home} now")
        version = home
    if not version:
        raise reference.wrong("apiVersion", f"must be given for {kind}, is missing")
    return {"namespace": namespace, "name": name, "kind": kind, "api_version": version}


def workload_name(target: Table) -> str:
    """NAMESPACE/KIND/NAME of a table [workload]."""
    return str(Ref(target["namespace"], target["kind"], target["name"]))


def bounds_of(least: int, most: int, where: Fields, key: str) -> Table:
    """The table [replicas]."""
    if not 1 <= most <= MOST:
        raise where.wrong(key, f"must be from 1 to {MOST}, is {most}")
    if not 0 <= least <= most:
        raise where.wrong(key, f"must be >= the minimum = {least}, is {most}")
    return {"min": least, "max": most}


def selector_of(selector: Fields) -> str:
    """A label selector as text."""
    labels = selector.any("matchLabels") or {}
    if not isinstance(labels, dict):
        raise selector.wrong("matchLabels", f"must be labels, is {shown(labels)}")
    parts = [f"{key}={value}" for key, value in sorted(labels.items())]
    for rule in selector.tables("matchExpressions"):
        key, operator, values = rule.text("key"), rule.text("operator"), ",".join(map(str, rule.any("values") or ()))
        forms = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        if operator not in forms:
            raise rule.wrong("operator", f"must be one of {', '.join(forms)}, is {shown(operator)}")
        parts.append(forms[operator])
    return ",".join(parts)


def unknown_fields(manifest: Fields) -> list[str]:
    """A note for each field that nothing was made of."""
    return [f"{path}: has no equivalent, and was left out" for path in manifest.rest()]
