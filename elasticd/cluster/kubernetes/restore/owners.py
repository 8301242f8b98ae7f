"""Reads whether the owners of a pod without a controller are still there.

Kubernetes deletes a pod whose owners are all gone: a copy that names them is deleted as often as it is created. Knows
how an owner is read, and that it may not be readable; knows nothing of records.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from elasticd.cluster.kubernetes.session import ApiError, Session, decoded
from elasticd.cluster.kubernetes.watch.discovery import Discovery, UnknownKindError
from elasticd.cluster.kubernetes.wire.objects import ObjectMeta

_OWNER = msgspec.json.Decoder(ObjectMeta)


class Owners:
    """The owners that manifests name, each read when it is asked for."""

    def __init__(self, session: Session, discovery: Discovery) -> None:
        self._session, self._discovery = session, discovery

    async def missing(self, manifest: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """The references of a pod's manifest to owners that are gone. One that cannot be read is not missing."""
        meta = manifest["metadata"]
        references = meta.get("ownerReferences") or ()
        return [each for each in references if await self._is_gone(meta["namespace"], each)]

    async def _is_gone(self, namespace: str, reference: Mapping[str, Any]) -> bool:
        try:
            resource = await self._discovery.resource((reference["apiVersion"], reference["kind"]))
            body = await self._session.send(resource.request("get", namespace, reference["name"]))
            return decoded(body, _OWNER, "owner").metadata.uid != str(reference["uid"])
        except UnknownKindError:  # Kubernetes deletes nothing for such an owner either
            return False
        except ApiError as error:
            return error.code == 404
