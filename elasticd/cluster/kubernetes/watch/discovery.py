"""What the API server serves, by discovery: plural names, scope, scale subresources, preferred versions.

Knows how to find a resource by its kind; knows nothing of what is done with it.
"""

import re

import msgspec
from msgspec import Struct

from elasticd.base.errors import nearest
from elasticd.cluster.kubernetes.session import ApiError, Request, Session
from elasticd.cluster.kubernetes.wire.discovery import ApiGroup, ApiGroups, ApiResource, ApiResources
from elasticd.ports.cluster import Kind


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


def honours_deletion_costs(version: str) -> bool:
    """Whether controllers of a server of this version (as v1.22.3) look at the deletion costs of pods: since 1.22. Of
    one that does not say it, they are taken not to."""
    found = re.match(r"v?(\d+)\.(\d+)", version)
    return found is not None and (int(found[1]), int(found[2])) >= (1, 22)


PODS = Resource("/api/v1", "pods")
NODES = Resource("/api/v1", "nodes", namespaced=False)
EVENTS = Resource("/api/v1", "events")
JOBS = Resource("/apis/batch/v1", "jobs")
CONFIG_MAPS = Resource("/api/v1", "configmaps")
LEASES = Resource("/apis/coordination.k8s.io/v1", "leases")


class _Served(Struct, frozen=True):
    """What one group and version serve: resources by kind, the kinds that can be scaled, and subresources with the
    apiVersion of their bodies."""

    resources: dict[str, Resource]
    scalable: frozenset[str]
    subresources: dict[str, str]


class Discovery:
    """Asked by kind. What was found is kept; what was not found is asked for anew each time."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._served: dict[str, _Served] = {}

    async def scalable(self, kind: Kind) -> Resource:
        """Where workloads of the kind are. Raises UnknownKindError, or ApiError when the server does not say."""
        api_version, name = kind
        served = self._served.get(api_version)
        if served is None or name not in served.scalable:
            served = await self._read(api_version)
        if name not in served.resources:
            guess = nearest(name, served.scalable)
            raise UnknownKindError(f'{api_version} has no kind "{name}"{guess}')
        if name not in served.scalable:
            raise UnknownKindError(f"{api_version} {name} has no scale subresource")
        return served.resources[name]

    async def resource(self, kind: Kind) -> Resource:
        """Where objects of the kind are, whether or not they can be scaled. Raises as `scalable` does."""
        api_version, name = kind
        served = self._served.get(api_version)
        if served is None or name not in served.resources:
            served = await self._read(api_version)
        if name not in served.resources:
            raise UnknownKindError(f'{api_version} has no kind "{name}"{nearest(name, served.resources)}')
        return served.resources[name]

    async def has(self, api_version: str, subresource: str) -> bool:
        """Whether there is a subresource, such as pods/resize. Raises ApiError when the server does not say."""
        return await self.body_of(api_version, subresource) is not None

    async def body_of(self, api_version: str, subresource: str) -> str | None:
        """The apiVersion in which a subresource, such as pods/eviction, takes its body; None: there is none. Raises
        ApiError when the server does not say."""
        served = self._served.get(api_version)
        if served is None or subresource not in served.subresources:
            served = await self._read(api_version)
        return served.subresources.get(subresource)

    def forget(self, kind: Kind) -> None:
        """It was not there after all: ask again next time."""
        self._served.pop(kind[0], None)

    async def _read(self, api_version: str) -> _Served:
        path = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        try:
            body = await self._session.send(Request(verb="get", path=path, resource="discovery"))
        except ApiError as error:
            if error.code != 404:
                raise
            raise UnknownKindError(await self._not_served(api_version)) from error
        found = msgspec.json.decode(body, type=ApiResources).resources or []
        plurals = {one.name: one for one in found if "/" not in one.name}
        scaled = {one.name.removesuffix("/scale") for one in found if one.name.endswith("/scale")}
        self._served[api_version] = _Served(
            {one.kind: Resource(path, one.name, one.namespaced) for one in plurals.values()},
            frozenset(one.kind for one in plurals.values() if one.name in scaled),
            {one.name: _body(one, api_version) for one in found if "/" in one.name},
        )
        return self._served[api_version]

    async def _not_served(self, api_version: str) -> str:
        body = await self._session.send(Request(verb="get", path="/apis", resource="discovery"))
        groups = msgspec.json.decode(body, type=ApiGroups).groups or []
        known = ["v1", *[one.group_version for group in groups for one in group.versions or ()]]
        return f'the server does not serve apiVersion "{api_version}"{nearest(api_version, known)}'

    async def preferred(self, group: str) -> str | None:
        """The path of the version the server prefers of a group, None when it does not serve the group."""
        try:
            body = await self._session.send(Request(verb="get", path=f"/apis/{group}", resource="discovery"))
        except ApiError as error:
            if error.code == 404:
                return None
            raise
        found = msgspec.json.decode(body, type=ApiGroup)
        version = found.preferred_version or next(iter(found.versions or ()), None)
        return f"/apis/{version.group_version}" if version else None


def _body(one: ApiResource, listed: str) -> str:
    return f"{one.group}/{one.version}" if one.group and one.version else one.version or listed
