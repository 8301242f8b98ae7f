"""Whose token counts, by the API server's TokenReview, and whether who has it may read a path, by SubjectAccessReview.

Knows how to ask, as kube-rbac-proxy does; knows nothing of what is read.
"""

from typing import Any

import msgspec
from msgspec import Struct

from elasticd.base.errors import UNREADABLE
from elasticd.base.text import one_line
from elasticd.cluster.kubernetes.session import ApiError, Request, Session, encode

_TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
_SUBJECTS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class _User(Struct, frozen=True):
    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class _TokenStatus(Struct, frozen=True):
    authenticated: bool = False
    user: _User = _User()


class _TokenReview(Struct, frozen=True):
    status: _TokenStatus = _TokenStatus()


class _AccessStatus(Struct, frozen=True):
    allowed: bool = False


class _AccessReview(Struct, frozen=True):
    status: _AccessStatus = _AccessStatus()


async def may_read(session: Session, token: str, path: str) -> str:
    """Why a token does not allow its holder to `get` a path outside of resources; empty: it does. Never raises for what
    the server does."""
    try:
        review = await _post(session, _TOKENS, "TokenReview", {"token": token})
        status = msgspec.json.decode(review, type=_TokenReview).status
        user = status.user
        if not (status.authenticated and user.username):
            return "the API server does not know this token"
        spec = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
            "nonResourceAttributes": {"verb": "get", "path": path},
        }
        answer = await _post(session, _SUBJECTS, "SubjectAccessReview", spec)
        allowed = msgspec.json.decode(answer, type=_AccessReview).status.allowed
    except (ApiError, *UNREADABLE) as error:
        return f"the API server cannot be asked: {one_line(str(error))}"
    return "" if allowed else f"{one_line(user.username)} may not get {one_line(path)}"


async def _post(session: Session, path: str, kind: str, spec: dict[str, Any]) -> bytes:
    group, resource = path.split("/")[2], path.rpartition("/")[2]
    body = encode({"apiVersion": f"{group}/v1", "kind": kind, "spec": spec})
    return await session.send(Request(verb="create", path=path, resource=resource, body=body))
