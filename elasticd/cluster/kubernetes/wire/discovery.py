"""The wire format of discovery, as far as it is used: what a server serves, and its version.

Knows JSON shapes; knows nothing of HTTP or of what is looked for.
"""

from elasticd.cluster.kubernetes.wire.pod_template import Wire


class ApiResource(Wire, frozen=True):
    """One line of discovery. `group` and `version` are those of its body, where they are others than the list's."""

    name: str
    kind: str
    namespaced: bool = False
    group: str = ""
    version: str = ""


class ApiResources(Wire, frozen=True):
    """All that a group and version serve."""

    resources: list[ApiResource] | None = None


class GroupVersion(Wire, frozen=True):
    """A group's name for one of its versions."""

    group_version: str


class ApiGroup(Wire, frozen=True):
    """A group and its versions."""

    name: str = ""
    versions: list[GroupVersion] | None = None
    preferred_version: GroupVersion | None = None


class ApiGroups(Wire, frozen=True):
    """All groups."""

    groups: list[ApiGroup] | None = None


class Version(Wire, frozen=True):
    """What /version says."""

    git_version: str = "unknown"
