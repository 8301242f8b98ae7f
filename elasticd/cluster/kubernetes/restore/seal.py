"""The seal of a record: an HMAC of all that it holds, with a key that the daemons of a namespace share in a Secret.

Without it, whoever may create ConfigMaps beside the records could have the daemon create any pod. Knows the key and the
seal; knows nothing of what a record says.
"""

import base64
import hmac
import secrets
from collections.abc import Mapping

import msgspec

from elasticd.base.errors import UNREADABLE
from elasticd.cluster.kubernetes.session import ApiError, Session, encode
from elasticd.cluster.kubernetes.watch.discovery import SECRETS
from elasticd.cluster.kubernetes.wire.objects import Wire
from elasticd.model.rights import RESTORE_KEY

SEAL = "seal"
"""The key of the seal in a record's data."""

_BYTES = 32


class _WireSecret(Wire, frozen=True):
    data: dict[str, str] | None = None


def seal_of(key: bytes, namespace: str, name: str, data: Mapping[str, str]) -> str:
    """The seal of a ConfigMap with these data (a seal among them is left out), in hexadecimal."""
    text = encode([namespace, name, sorted(item for item in data.items() if item[0] != SEAL)])
    return hmac.new(key, text, "sha256").hexdigest()


class SealKey:
    """The key in the Secret of a namespace, and in memory once it was read."""

    def __init__(self, session: Session, namespace: str) -> None:
        self._session, self._namespace, self._key = session, namespace, b""

    def seal(self, name: str, data: Mapping[str, str]) -> str:
        return seal_of(self._key, self._namespace, name, data)

    def fits(self, name: str, data: Mapping[str, str]) -> bool:
        """Whether the data have the seal of the key in memory."""
        return bool(self._key) and hmac.compare_digest(data.get(SEAL, "").encode(), self.seal(name, data).encode())

    async def read(self) -> bool:
        """Read the key from its Secret; False: there is no Secret. Raises ApiError."""
        try:
            self._key = _key_in(await self._session.send(SECRETS.request("get", self._namespace, RESTORE_KEY)))
        except ApiError as error:
            if error.code == 404:
                return False
            raise
        except UNREADABLE as error:
            where = f"Secret {self._namespace}/{RESTORE_KEY}: key"
            raise ApiError(0, "Unreadable", f"{where}: must be {_BYTES} bytes in base64: {error}") from error
        return True

    async def keep(self, *, create: bool) -> None:
        """Read the key. If there is none, write the one in memory, or with `create` a new one. Raises ApiError."""
        if await self.read() or not (create or self._key):
            return
        key = base64.b64encode(self._key or secrets.token_bytes(_BYTES)).decode()
        meta = {"name": RESTORE_KEY, "namespace": self._namespace}
        body = encode({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": {"key": key}})
        try:
            await self._session.send(SECRETS.request("create", self._namespace, body=body))
        except ApiError as error:
            if error.reason != "AlreadyExists":  # another daemon was first
                raise
        if not await self.read():
            raise ApiError(0, "NotFound", f"Secret {self._namespace}/{RESTORE_KEY} is deleted as soon as it is written")


def _key_in(body: bytes) -> bytes:
    """The key that a Secret holds. Raises ValueError if it is none."""
    text = (msgspec.json.decode(body, type=_WireSecret).data or {}).get("key", "")
    key = base64.b64decode(text, validate=True)
    if len(key) != _BYTES:
        raise ValueError(f"has {len(key)} bytes")
    return key
