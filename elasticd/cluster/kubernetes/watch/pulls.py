"""Reads image pulls from the kubelets' Events of reason Pulled.

Knows the wording of these Events, newer and older; knows nothing of rates. Stores nothing: the callback does.
"""

import re
from collections.abc import Callable, Collection

from elasticd.base.units import go_seconds
from elasticd.cluster.kubernetes.watch.store import Key
from elasticd.cluster.kubernetes.wire.objects import WireEvent
from elasticd.ports.metrics_api import Pull

PULLED = "involvedObject.kind=Pod,reason=Pulled"

# Not at the start: what is told often gets "(combined from similar events): " before it.
_WORDS = re.compile(
    r'Successfully pulled image "[^"]*" in (?P<took>(?:[0-9.]+[a-zµμ]+)+)'
    r"(?: \([^()]* including waiting\))?(?:\. Image size: (?P<size>[0-9]{1,18}) bytes)?"
)


PullEvent = tuple[Key, Pull | None]
"""An Event, and the image pull that it reports, if any."""


class PullSink:
    """Passes each pull that an Event reports to the callback."""

    def __init__(self, take: Callable[[Pull], None]) -> None:
        self._take = take

    def put(self, item: PullEvent, *, listed: bool, restored: bool = False) -> Key:
        key, pull = item
        if pull is not None:
            self._take(pull)
        return key

    def remove(self, item: PullEvent) -> None:
        """Ignore a deleted Event: what it reported stays true."""

    def retain(self, namespace: str, keep: Collection[Key]) -> None:
        """There is nothing to forget."""


def to_pull_event(event: WireEvent, offset: float = 0.0) -> PullEvent:
    """The pull that an Event reports, its time moved by `offset` seconds. The pull is None if the Event is not a
    kubelet's, not about a pull ("already present on machine"), or has no duration (before Kubernetes 1.18)."""
    key, source = (event.metadata.namespace, event.metadata.name), event.source or {}
    by_kubelet = "kubelet" in (source.get("component"), event.reporting_component)
    node = source.get("host") or event.reporting_instance
    matched, at = _WORDS.search(event.message), _time(event)
    if not by_kubelet or not node or matched is None or at is None:
        return key, None
    took, size = matched["took"], int(matched["size"] or 0)
    seconds = go_seconds(took)
    if seconds == 0.0 and took != "0s":
        return key, None
    count = event.count or (event.series.count if event.series else None) or 1
    # A kubelet that could not find out the size tells 0.
    return key, Pull(f"{event.metadata.uid}/{count}", node, at + offset, seconds, size or None)


def _time(event: WireEvent) -> float | None:
    repeated = event.series.last_observed_time if event.series else None
    time = event.last_timestamp or repeated or event.event_time or event.first_timestamp
    return time.timestamp() if time else None
