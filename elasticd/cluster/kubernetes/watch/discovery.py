"""What the API server serves, by discovery: plural names, scope, scale subresources, preferred versions.

Knows how to find a resource by its kind; knows nothing of what is done with it.
"""

import re
from collections.abc import Callable, Set
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

from elasticd.base.errors import nearest
from elasticd.cluster.kubernetes.session import ApiError, Request, Session, Verb, decoded
from elasticd.cluster.kubernetes.wire.objects import ApiGroup, FoundGroup, FoundGroups, FoundResources
from elasticd.ports.cluster import Kind

_GROUP, _GROUPS = msgspec.json.Decoder(FoundGroup), msgspec.json.Decoder(FoundGroups)
_RESOURCES = msgspec.json.Decoder(FoundResources)


class UnknownKindError(Exception):
    """The server does not serve the kind, or it cannot be scaled: one line that says so."""


class Resource(Struct, frozen=True):
    """Where objects of a kind are found. `group` is the path of its group and version, such as /apis/apps/v1."""

    group: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of all objects, those of a namespace, one object, or a subresource of it."""
        parts = [self.group]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/".join(parts)

    def request(
        self, verb: Verb, namespace: str, name: str = "", subresource: str = "", body: bytes | None = None
    ) -> Request:
        """A request about them, counted under their plural and the subresource."""
        counted = f"{self.plural}/{subresource}" if subresource else self.plural
        return Request(verb=verb, path=self.path(namespace, name, subresource), resource=counted, body=body)


def honours_deletion_costs(version: str) -> bool:
    """Whether the controllers of this server version (such as v1.22.3) use pod deletion costs: since 1.22. False for a
    version that cannot be read."""
    parsed = re.match(r"v?(\d+)\.(\d+)", version)
    return parsed is not None and (int(parsed[1]), int(parsed[2])) >= (1, 22)


PODS = Resource("/api/v1", "pods")
NODES = Resource("/api/v1", "nodes", namespaced=False)
NAMESPACES = Resource("/api/v1", "namespaces", namespaced=False)
EVENTS = Resource("/api/v1", "events")
JOBS = Resource("/apis/batch/v1", "jobs")
CONFIG_MAPS = Resource("/api/v1", "configmaps")
SECRETS = Resource("/api/v1", "secrets")
CLAIMS = Resource("/api/v1", "persistentvolumeclaims")
VOLUMES = Resource("/api/v1", "persistentvolumes", namespaced=False)
STORAGE_CLASSES = Resource("/apis/storage.k8s.io/v1", "storageclasses", namespaced=False)
CSI_DRIVERS = Resource("/apis/storage.k8s.io/v1", "csidrivers", namespaced=False)
CSI_NODES = Resource("/apis/storage.k8s.io/v1", "csinodes", namespaced=False)
LEASES = Resource("/apis/coordination.k8s.io/v1", "leases")


_OLDER = {"autoscaling": ("v2", "v2beta2", "v1"), "policy": ("v1", "v1beta1")}
"""Versions of groups, by what Kubernetes 1.20 to today serve of them, also where they are not listed."""


class _Served(Struct, frozen=True):
    """What one group and version serve: resources by kind, the kinds that can be scaled, and subresources with the
    apiVersion of their bodies."""

    resources: dict[str, Resource]
    scalable: frozenset[str]
    subresources: dict[str, str]


class Discovery:
    """Looks up resources by kind. Results are cached; a kind that was not found is looked up again each time."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._served: dict[str, _Served] = {}
        self._preferred: dict[str, str] = {}

    async def scalable(self, kind: Kind) -> Resource:
        """Where workloads of the kind are. Raises UnknownKindError, or ApiError when the server does not answer."""
        return await self._of_kind(kind, lambda served: served.scalable)

    async def resource(self, kind: Kind) -> Resource:
        """Where objects of the kind are, whether or not they can be scaled. Raises as `scalable` does."""
        return await self._of_kind(kind, lambda served: served.resources.keys())

    async def _of_kind(self, kind: Kind, kinds: Callable[[_Served], Set[str]]) -> Resource:
        api_version, name = kind
        served = await self._serving(api_version, lambda served: name in kinds(served))
        if name not in served.resources:
            raise UnknownKindError(f'{api_version} has no kind "{name}"{nearest(name, kinds(served))}')
        if name not in kinds(served):
            raise UnknownKindError(f"{api_version} {name} has no scale subresource")
        return served.resources[name]

    async def body_of(self, api_version: str, subresource: str) -> str | None:
        """The apiVersion in which a subresource, such as pods/eviction, takes its body; None: there is none. Raises
        ApiError when the server does not say."""
        served = await self._serving(api_version, lambda served: subresource in served.subresources)
        return served.subresources.get(subresource)

    def forget(self, kind: Kind) -> None:
        """Drop the cached group version of a kind, so that the next lookup asks the server."""
        self._served.pop(kind[0], None)

    async def _serving(self, api_version: str, known: Callable[[_Served], bool]) -> _Served:
        """The resources of a group version, cached; read again if the one looked up is not `known`."""
        served = self._served.get(api_version)
        return served if served is not None and known(served) else await self._read(api_version)

    async def _read(self, api_version: str) -> _Served:
        path = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        try:
            body = await self._session.send(Request(verb="get", path=path, resource="discovery"))
        except ApiError as error:
            if error.code != 404:
                raise
            raise UnknownKindError(await self._not_served(api_version)) from error
        resources = decoded(body, _RESOURCES, "APIResourceList").resources or []
        plurals = {resource.name: resource for resource in resources if "/" not in resource.name}
        scaled = {resource.name.removesuffix("/scale") for resource in resources if resource.name.endswith("/scale")}
        self._served[api_version] = _Served(
            {resource.kind: Resource(path, resource.name, resource.namespaced) for resource in plurals.values()},
            frozenset(resource.kind for resource in plurals.values() if resource.name in scaled),
            {resource.name: resource.body or api_version for resource in resources if "/" in resource.name},
        )
        return self._served[api_version]

    async def _not_served(self, api_version: str) -> str:
        groups = await self._groups()
        api_versions = ["v1", *[version.group_version for group in groups for version in group.versions or ()]]
        return f'the server does not serve apiVersion "{api_version}"{nearest(api_version, api_versions)}'

    async def kinds_of(self, word: str) -> list[Kind]:
        """The kinds of this name or plural, in any case, that can be scaled, each in the version that its group
        prefers. Groups that do not answer are left out. Raises ApiError when the server does not say which it has."""
        kinds: list[Kind] = []
        for group in await self._groups():
            if group.preferred_version is None:
                continue
            api_version = group.preferred_version.group_version
            with suppress(UnknownKindError, ApiError):  # of an API server behind this one, which may be down
                served = await self._serving(api_version, lambda _: True)
                names = {name: (name.lower(), served.resources[name].plural) for name in served.scalable}
                kinds += [(api_version, name) for name in sorted(names) if word.lower() in names[name]]
        return kinds

    async def _groups(self) -> list[ApiGroup]:
        body = await self._session.send(Request(verb="get", path="/apis", resource="discovery"))
        return decoded(body, _GROUPS, "APIGroupList").groups or []

    async def serves(self, group: str, kind: str) -> bool:
        """Whether the server serves a kind in any version of its group, asked anew. Raises as `located` does."""
        try:
            await self.located(group, kind)
        except UnknownKindError:
            return False
        return True

    async def located(self, group: str, kind: str) -> Resource:
        """Where a kind is, in the version that the server prefers of its group, or else in another that it serves,
        asked anew: while API servers are upgraded one by one, what lists versions may be another than what serves them,
        and for good after an upgrade that was undone. Raises UnknownKindError, and ApiError also where it does not
        serve what it lists, so that it is not known whether there is such a kind."""
        listed = await self._versions(group)
        if not listed:
            raise UnknownKindError(f"the server does not serve {group}")
        not_served = []
        for api_version in dict.fromkeys([*listed, *[f"{group}/{version}" for version in _OLDER.get(group, ())]]):
            try:
                served = await self._read(api_version)
            except UnknownKindError:
                not_served.append(api_version)
                continue
            if kind in served.resources:
                return served.resources[kind]
        if lacking := [api_version for api_version in listed if api_version in not_served]:
            raise ApiError(0, "NotServed", f"the API server lists {', '.join(lacking)}, and does not serve it")
        raise UnknownKindError(f"no version of {group} has a kind {kind}")

    async def _versions(self, group: str) -> list[str]:
        """The apiVersions of a group that the server lists, the one that it prefers first."""
        try:
            body = await self._session.send(Request(verb="get", path=f"/apis/{group}", resource="discovery"))
        except ApiError as error:
            if error.code == 404:
                return []
            raise
        found = decoded(body, _GROUP, "APIGroup")
        versions = [*filter(None, [found.preferred_version]), *(found.versions or ())]
        return list(dict.fromkeys(version.group_version for version in versions))

    async def list_of(self, group: str, path: str, **options: Any) -> bytes:
        """A list in the version that the server prefers of a group. Raises ApiError, also where it serves none."""
        version = await self.version_of(group)
        try:
            return await self._session.send(Request(verb="list", path=version + path, **options))
        except ApiError as error:
            if error.code == 404:
                self._preferred.pop(group, None)  # another version may be served by now
            raise

    async def version_of(self, group: str) -> str:
        """The path of the version that the server prefers of a group, asked for once. Raises ApiError."""
        version = self._preferred.get(group) or await self.preferred(group)
        if version is None:
            raise ApiError(404, "NotServed", f"the server does not serve {group}")
        self._preferred[group] = version
        return version

    async def preferred(self, group: str) -> str | None:
        """The path of the version the server prefers of a group, None when it does not serve the group."""
        versions = await self._versions(group)
        return f"/apis/{versions[0]}" if versions else None
