"""Reads the UIDs of namespaces: one that is deleted and created again has another, and may be somebody else's.

They are read by a list of one, for which the right is there already. A role of the namespace itself could give `get`
instead, but would be gone with it. Knows how a UID is read, and that it may be forbidden; knows nothing of records.
"""

import logging

import msgspec
from msgspec.structs import replace

from elasticd.cluster.kubernetes.session import ApiError, Session, decoded
from elasticd.cluster.kubernetes.watch.discovery import NAMESPACES
from elasticd.cluster.kubernetes.wire.objects import ObjectMeta, WireList
from elasticd.model.rights import NAMESPACES as RIGHT

logger = logging.getLogger(__name__)


class _WireNamespace(ObjectMeta, frozen=True):
    """Of a namespace: only its UID."""


_NAMESPACES = msgspec.json.Decoder(WireList[_WireNamespace])


class Namespaces:
    """The namespaces of a cluster, each read when it is asked for."""

    def __init__(self, session: Session, home: str) -> None:
        """`home`: the daemon's own."""
        self._session, self._home, self._forbidden = session, home, False

    async def uid(self, name: str) -> str | None:
        """The UID of a namespace; empty: it may not be read; None: there is none. Raises ApiError."""
        try:
            found = await self._list(fieldSelector=f"metadata.name={name}")
        except ApiError as error:
            if error.code != 403:
                raise
            self._tell(error)
            return ""
        self._forbidden = False
        if name not in found and self._home not in (found := await self._list()):  # an empty list may be a fault
            raise ApiError(500, "Unreadable", f"namespace {name} and its own are not in the list of namespaces")
        return found.get(name)

    async def _list(self, **params: str) -> dict[str, str]:
        """The UIDs of namespaces, by name."""
        body = await self._session.send(replace(NAMESPACES.request("list", ""), params=params))
        items = decoded(body, _NAMESPACES, "list of Namespaces").items or []
        return {item.metadata.name: item.metadata.uid for item in items if item.metadata.uid}

    def _tell(self, error: ApiError) -> None:
        """Log, once, what follows from it."""
        if not self._forbidden:
            logger.warning(
                "namespaces may not be read (%s): a pod without a controller that is evicted is created again also if "
                "its namespace was deleted, and created by somebody, meanwhile; see config/kubernetes/%s",
                error,
                RIGHT.file,
            )
        self._forbidden = True
