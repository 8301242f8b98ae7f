"""Objects of any kind as plain data: listed, read and patched, for what is done with other autoscalers.

Knows paths and pages; knows nothing of what the objects mean.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from elasticd.base.errors import UNREADABLE, UnavailableError
from elasticd.cluster.kubernetes.session import ApiError, Request, Session, decoded, encode
from elasticd.cluster.kubernetes.watch.discovery import Discovery, Resource, UnknownKindError
from elasticd.cluster.kubernetes.wire.objects import WireList
from elasticd.ports.cluster import Kind

Object = dict[str, Any]

_PAGE = "500"


class _Named(Struct):
    """The least that an object has."""

    metadata: dict[str, Any]


_NAMED, _LIST = msgspec.json.Decoder(_Named), msgspec.json.Decoder(WireList[Object])


class Objects:
    """The objects of one API server."""

    def __init__(self, session: Session, version: str) -> None:
        self._session, self._discovery = session, Discovery(session)
        self.host, self.version = session.host, version

    async def resource(self, kinds: Sequence[Kind]) -> Resource:
        """Where the first of these kinds that is served is kept. Raises UnavailableError where none is."""
        for kind in kinds:
            try:
                return await self._discovery.resource(kind)
            except UnknownKindError:
                continue
            except (ApiError, *UNREADABLE) as error:
                raise UnavailableError(f"{self.host}: {error}") from None
        raise UnavailableError(f"{self.host}: does not serve {' or '.join('/'.join(kind) for kind in kinds)}")

    async def kinds_of(self, word: str) -> Sequence[Kind]:
        """The kinds of this name or plural, in any case, that can be scaled, each in the version that its group
        prefers. Raises UnavailableError where the server does not say."""
        try:
            return await self._discovery.kinds_of(word)
        except (ApiError, *UNREADABLE) as error:
            raise UnavailableError(f"{self.host}: {error}") from None

    async def list(self, resource: Resource, namespace: str = "") -> list[Object]:
        """All objects, or those of a namespace. Raises ApiError."""
        objects: list[Object] = []
        params = {"limit": _PAGE}
        while True:
            request = Request(verb="list", path=resource.path(namespace), resource=resource.plural, params=params)
            page = decoded(await self._session.send(request), _LIST, "list")
            objects += page.items or []
            if not page.metadata.continue_:
                return objects
            params = {"limit": _PAGE, "continue": page.metadata.continue_}

    async def get(self, resource: Resource, namespace: str, name: str) -> Object:
        """One object. Raises ApiError."""
        return _object(await self._session.send(resource.request("get", namespace, name)))

    async def patch(self, resource: Resource, namespace: str, name: str, body: Object, subresource: str = "") -> Object:
        """The object after a merge patch of it, or of a subresource. Raises ApiError."""
        request = resource.request("patch", namespace, name, subresource, encode(body))
        return _object(await self._session.send(request))


def _object(body: bytes) -> Object:
    decoded(body, _NAMED, "object")
    return msgspec.json.decode(body, type=Object)
