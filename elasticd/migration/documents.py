"""The objects in files: YAML or JSON, several documents, or a List of objects.

Knows the text and the kinds; knows nothing of what becomes of them.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import yaml

from elasticd.base.errors import UNREADABLE, ConfigError
from elasticd.base.text import one_line, shown

LARGEST = 100_000
"""Values in a file, at most: a few lines of YAML can repeat each other endlessly."""


class Kind(NamedTuple):
    """A kind of object that can be imported: its API group, its versions from the best on, and its name."""

    group: str
    versions: tuple[str, ...]
    name: str

    @property
    def served(self) -> tuple[tuple[str, str], ...]:
        """The apiVersions, each with the kind."""
        return tuple((f"{self.group}/{version}", self.name) for version in self.versions)


KINDS = {
    "hpa": Kind("autoscaling", ("v2", "v2beta2", "v1", "v2beta1"), "HorizontalPodAutoscaler"),
    "scaledobject": Kind("keda.sh", ("v1alpha1",), "ScaledObject"),
    "scaledjob": Kind("keda.sh", ("v1alpha1",), "ScaledJob"),
    "cronhpa": Kind("autoscaling.alibabacloud.com", ("v1beta1",), "CronHorizontalPodAutoscaler"),
    "vpa": Kind("autoscaling.k8s.io", ("v1", "v1beta2"), "VerticalPodAutoscaler"),
    "kubescheduler": Kind(
        "kubescheduler.config.k8s.io", ("v1", "v1beta3", "v1beta2", "v1beta1"), "KubeSchedulerConfiguration"
    ),
}
"""What the command line calls them."""


class Document(NamedTuple):
    """An object, and the file that it is from, with its name where there are several."""

    file: str
    table: dict[str, Any]


def read_documents(text: str, file: str) -> list[Document]:
    """The objects of a file. Raises ConfigError where it is no YAML, or has something else."""
    try:
        documents = list(yaml.safe_load_all(text))
    except (yaml.YAMLError, *UNREADABLE) as error:
        raise ConfigError(file, "", f"must be YAML or JSON: {one_line(str(error))}") from None
    _check_size(documents, file)
    objects = list(_objects(documents, file))
    return objects if len(objects) == 1 else [Document(f"{file}, {_named(table)}", table) for _, table in objects]


def _named(table: dict[str, Any]) -> str:
    meta = table.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    name = "/".join(str(meta[key]) for key in ("namespace", "name") if meta.get(key))
    return one_line(f"{table.get('kind', 'object')} {name}".rstrip())


def _objects(documents: Sequence[Any], file: str) -> Iterator[Document]:
    for document in documents:
        if document is None:  # between two lines of dashes
            continue
        if not isinstance(document, dict):
            raise ConfigError(file, "", f"must have objects of Kubernetes, has {shown(document)}")
        if str(document.get("kind", "")).endswith("List") and isinstance(document.get("items"), list):
            kind, version = str(document["kind"]).removesuffix("List"), document.get("apiVersion")
            defaults = {"kind": kind, "apiVersion": version} if kind else {}
            items = [{**defaults, **item} if isinstance(item, dict) else item for item in document["items"]]
            yield from _objects(items, file)
        else:
            yield Document(file, document)


def _check_size(documents: Sequence[Any], file: str) -> None:
    pending: list[Any] = list(documents)
    for _ in range(LARGEST):
        if not pending:
            return
        value = pending.pop()
        if isinstance(value, dict):
            if odd := next((key for key in value if not isinstance(key, str)), None):
                raise ConfigError(file, "", f"must have texts for keys, has {shown(odd)}")
            pending += value.values()
        elif isinstance(value, list):
            pending += value
    raise ConfigError(file, "", f"must have at most {LARGEST} values, has more")


def is_of(document: Document, kind: Kind) -> bool:
    """Whether an object is of this kind, in any version that is known. Raises ConfigError for another version."""
    group, _, version = str(document.table.get("apiVersion", "")).partition("/")
    if document.table.get("kind") != kind.name or group != kind.group:
        return False
    if version not in kind.versions:
        expected = " or ".join(api_version for api_version, _ in kind.served)
        raise ConfigError(document.file, "apiVersion", f"must be {expected}, is {shown(f'{group}/{version}')}")
    return True
