"""A pod as the API server has it now, as far as a write about it depends on that.

Knows how a pod is read, and read back after a reply that was lost; knows nothing of what is written.
"""

import msgspec
from msgspec import Struct

from elasticd.base.clock import Clock
from elasticd.cluster.kubernetes.session import ApiError, Request, Session
from elasticd.cluster.kubernetes.watch.discovery import PODS
from elasticd.cluster.kubernetes.wire.objects import WirePod
from elasticd.model.workload import Ref

READ_BACK_AFTER = (0.0, 0.5, 2.0)
"""Seconds before each look at what became of a write whose reply was lost."""

_POD = msgspec.json.Decoder(WirePod)


class PodState(Struct, frozen=True):
    """The fields of a pod that a write depends on, and its JSON (`body`)."""

    uid: str
    version: str
    node: str
    deleted: bool
    phase: str
    annotations: dict[str, str]
    body: bytes


async def read_pod(session: Session, ref: Ref) -> PodState | None:
    """The pod of this name; None: there is none. Raises ApiError when the server does not say."""
    try:
        body = await session.send(Request(verb="get", path=PODS.path(ref.namespace, ref.name), resource="pods"))
        pod = _POD.decode(body)
    except ApiError as error:
        if error.code == 404:
            return None
        raise
    except (msgspec.DecodeError, ValueError) as error:
        raise ApiError(500, "Unreadable", f"the server's answer is no Pod: {error}") from error
    meta = pod.metadata
    deleted = meta.deletion_timestamp is not None
    annotations = meta.annotations or {}
    return PodState(meta.uid, meta.resource_version, pod.spec.node_name, deleted, pod.status.phase, annotations, body)


async def read_back(session: Session, clock: Clock, ref: Ref) -> PodState | None:
    """The same, asked a few times: an answer is worth waiting for when a write has had none. Raises ApiError."""
    trouble: ApiError | None = None
    for seconds in READ_BACK_AFTER:
        await clock.sleep_until(clock.now() + seconds)
        try:
            return await read_pod(session, ref)
        except ApiError as error:
            trouble = error
    assert trouble is not None, "it is asked at least once"  # noqa: S101
    raise trouble
