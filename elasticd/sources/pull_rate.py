"""The source pull-rate: how fast nodes pull images, from their kubelets' Events.

Knows how pulls become a rate; knows nothing of how the cluster reports them.
"""

from collections import OrderedDict, defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, ClassVar

from msgspec import Meta

from elasticd.api import hookimpl
from elasticd.base.clock import Clock
from elasticd.model.workload import Readings, Sample
from elasticd.ports.metrics_api import Followed, Pull
from elasticd.ports.source import Every, Reader, Site, Source

RATE, SECONDS = "image_pull_rate", "image_pull_seconds"
MOST = 20_000
_FUTURE = 60.0


class PullRate(Source, frozen=True, kw_only=True, tag="pull-rate"):
    """How fast each node pulls images, and how long that takes, from what its kubelet tells in Events.

    Series of nodes: image_pull_rate (bytes/s, all that was pulled by the time that took) and image_pull_seconds (mean
    seconds of a pull, without waiting for others)."""

    pushes: ClassVar[bool] = True

    window: Annotated[float, Meta(ge=1, le=3600, description="seconds: pulls of the last so many count")] = 600.0
    every: Every = 5.0

    def offers(self) -> tuple[str, ...]:
        return (RATE, SECONDS)

    @asynccontextmanager
    async def open(self, site: Site) -> AsyncIterator[Reader]:
        """Follow the kubelets' events, for as long as the daemon runs."""
        pulls = _Pulls(site.clock, self.window, self.label)
        async with site.metrics.pulls(pulls.take) as followed:
            pulls.followed = followed
            yield pulls


class _Pulls:
    """The pulls of the window, those reported first in front; at most MOST, however many events are written."""

    followed: Followed

    def __init__(self, clock: Clock, window: float, label: str) -> None:
        self._clock, self._window, self._label = clock, window, label
        self._pulls_by_key: OrderedDict[str, Pull] = OrderedDict()

    def take(self, pull: Pull) -> None:
        """Remember a pull, which may have been reported before."""
        now = self._clock.now()
        if now - self._window <= pull.at <= now + _FUTURE:
            self._pulls_by_key[pull.key] = pull
            if len(self._pulls_by_key) > MOST:
                self._pulls_by_key.popitem(last=False)

    async def read(self, now: float) -> Readings:
        """The rates now. While events cannot be followed, the rates of earlier pulls, with a fault that says why."""
        for key in [key for key, pull in self._pulls_by_key.items() if pull.at < now - self._window]:
            del self._pulls_by_key[key]
        by_node = defaultdict[str, list[Pull]](list)
        for pull in self._pulls_by_key.values():
            by_node[pull.node].append(pull)
        fault = self.followed.problem
        if fault and not by_node:
            return Readings(self._label, now, error=fault)
        nodes = {RATE: dict[str, tuple[Sample, ...]](), SECONDS: dict[str, tuple[Sample, ...]]()}
        for node, pulls in by_node.items():
            if (rate := mean_rate(pulls)) is not None:
                nodes[RATE][node] = (self._sample(rate, [pull for pull in pulls if pull.size is not None], now),)
            mean = sum(pull.seconds for pull in pulls) / len(pulls)
            nodes[SECONDS][node] = (self._sample(mean, pulls, now),)
        return Readings(self._label, now, nodes=nodes, faults=dict.fromkeys(nodes, fault) if fault else {})

    def _sample(self, value: float, pulls: Sequence[Pull], now: float) -> Sample:
        return Sample(value, max(pull.at for pull in pulls), now, self._window)


def mean_rate(pulls: Iterable[Pull]) -> float | None:
    """Bytes a second over these pulls: a large image counts for more than a small one. None where no size is known:
    older kubelets report none, and a rate without one is unknown, not zero."""
    sized = [(pull.size, pull.seconds) for pull in pulls if pull.size is not None]
    seconds = sum(took for _, took in sized)
    return sum(size for size, _ in sized) / seconds if seconds > 0 else None


@hookimpl
def register_sources() -> Sequence[type[Source]]:
    return [PullRate]
