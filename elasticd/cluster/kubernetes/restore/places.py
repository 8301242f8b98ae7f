"""The place that was found for the copy of an evicted pod, as it stands in its record.

So whoever takes over keeps it too. Knows how a place is written and read; knows nothing of how it is kept.
"""

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from elasticd.base.errors import UNREADABLE
from elasticd.cluster.kubernetes.restore.records import Restoration
from elasticd.cluster.kubernetes.session import encode
from elasticd.cluster.kubernetes.wire.convert import to_pod
from elasticd.cluster.kubernetes.wire.objects import WirePod
from elasticd.model.actions import Evict
from elasticd.model.moves import Promise
from elasticd.model.workload import Pod


class Place(Struct, frozen=True):
    """The node for the copy, the one that the pod leaves, its priority, which the manifest does not have, and what the
    copy requests, as admission makes it; None: it is not known."""

    node: str
    left: str
    priority: int = 0
    requests: dict[str, float] | None = None


def place_for(action: Evict, copy: Pod) -> str:
    """What is recorded of the place for a copy; empty: none was found."""
    if not action.target:
        return ""
    return encode(Place(action.target, action.node, copy.needs.priority, copy.needs.requests)).decode()


def promise_of(restoration: Restoration) -> Promise | None:
    """The place that a record names, for the pod as it was on its node; None: it names none that can be read."""
    try:
        place = msgspec.json.decode(restoration.place, type=Place)
        wire = msgspec.json.decode(restoration.manifest, type=WirePod)
        spec = replace(wire.spec, priority=place.priority, node_name=place.left)
        pod = to_pod(replace(wire, metadata=replace(wire.metadata, uid=restoration.uid), spec=spec))
    except UNREADABLE:
        return None
    if place.requests is not None:
        pod = replace(pod, needs=replace(pod.needs, requests=place.requests))
    return Promise(pod, place.node, restoration.uid, place.left)
