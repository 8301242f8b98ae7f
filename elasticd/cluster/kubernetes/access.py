"""What the API server lets us do, by SelfSubjectAccessReviews, and where it keeps kinds.

Knows how to ask; knows nothing of what the rights are for.
"""

import asyncio
from collections.abc import Collection
from typing import NamedTuple

import msgspec
from msgspec import Struct

from elasticd.base.errors import UNREADABLE
from elasticd.cluster.kubernetes.session import ApiError, Request, Session, decoded, encode
from elasticd.cluster.kubernetes.watch.discovery import Discovery, UnknownKindError
from elasticd.model.rights import Right
from elasticd.ports.cluster import Kind

_PATH = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_AT_ONCE = 8


class _Status(Struct):
    allowed: bool = False


class _Review(Struct):
    status: _Status


_REVIEW = msgspec.json.Decoder(_Review)


class Asked(NamedTuple):
    """A right and the namespace it is asked for; empty: all namespaces, or a resource without one."""

    right: Right
    namespace: str


class Access:
    """What one identity may do at one API server."""

    def __init__(self, session: Session, version: str) -> None:
        self._session, self._discovery = session, Discovery(session)
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self.host, self.version = session.host, version

    async def allowed(self, asked: Collection[Asked]) -> frozenset[Asked]:
        """The rights that are granted. Raises ApiError when the server does not answer."""
        questions = list(dict.fromkeys(asked))
        answers = await asyncio.gather(*[self._may(question) for question in questions])
        return frozenset(question for question, may in zip(questions, answers, strict=True) if may)

    async def _may(self, question: Asked) -> bool:
        right = question.right
        resource, _, subresource = right.resource.partition("/")
        attributes = {
            "verb": right.verb,
            "group": right.group,
            "resource": resource,
            "subresource": subresource,
            "namespace": question.namespace,
            "name": right.name,
        }
        body = encode(
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": attributes},
            }
        )
        async with self._turns:
            answer = await self._session.send(
                Request(verb="create", path=_PATH, resource="selfsubjectaccessreviews", body=body)
            )
        return decoded(answer, _REVIEW, "SelfSubjectAccessReview").status.allowed

    async def resource(self, kind: Kind) -> tuple[str, str] | str:
        """The API group and plural of a kind that can be scaled; or one line that says why it cannot be."""
        try:
            resource = await self._discovery.scalable(kind)
        except (UnknownKindError, ApiError, *UNREADABLE) as error:
            return str(error)
        return kind[0].rpartition("/")[0], resource.plural
