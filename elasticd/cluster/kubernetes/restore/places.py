"""The place that was found for the copy of an evicted pod, as it stands in its record.

So whoever takes over keeps it too. Knows how a place is written and read; knows nothing of how it is kept.
"""

from typing import Any

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


class Place(Struct, frozen=True):
    """The node for the copy, the one that the pod leaves, and its priority, which the manifest does not have."""

    node: str
    left: str
    priority: int = 0


def place_for(action: Evict, pod: dict[str, Any]) -> str:
    """What is recorded of the place for a pod, by its JSON; empty: none was found."""
    if not action.target:
        return ""
    return encode(Place(action.target, action.node, pod["spec"].get("priority") or 0)).decode()


def promise_of(restoration: Restoration) -> Promise | None:
    """The place that a record names, for the pod as it was on its node; None: it names none that can be read."""
    try:
        place = msgspec.json.decode(restoration.place, type=Place)
        wire = msgspec.json.decode(restoration.manifest, type=WirePod)
        spec = replace(wire.spec, priority=place.priority, node_name=place.left)
        pod = to_pod(replace(wire, metadata=replace(wire.metadata, uid=restoration.uid), spec=spec))
    except UNREADABLE:
        return None
    return Promise(pod, place.node, restoration.uid, place.left)
