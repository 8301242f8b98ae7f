"""The source node-rates: network traffic of each node, from its kubelet's counters.

Knows which counters become which series; knows nothing of how kubelets are reached, nor of how a rate is reckoned.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, ClassVar

from msgspec import Meta, field

from elasticd.api import hookimpl
from elasticd.model.workload import Readings
from elasticd.ports.source import Every, Reader, SampleTable, Site, Source
from elasticd.sources.kubelet import AtOnce, Timeout, asking
from elasticd.sources.rates import CounterRates
from elasticd.sources.rounds import Rounds, describe_silent

SERIES = {"network_receive": "network_receive_bytes", "network_transmit": "network_transmit_bytes"}


class NodeRates(Source, frozen=True, kw_only=True, tag="node-rates"):
    """Bytes a second that each node receives and sends, as its kubelet counts them.

    Series network_receive and network_transmit of nodes."""

    usual: ClassVar[float | None] = 10.0  # a kubelet looks at its counters about so often
    labels: Annotated[dict[str, str], Meta(description="only nodes with these labels; none: all nodes")] = field(
        default_factory=dict
    )
    longest: Annotated[float, Meta(gt=0, le=3600, description="seconds between two looks that make a rate")] = 120.0
    timeout: Timeout = 5.0
    at_once: AtOnce = 32
    every: Every = 10.0

    def offers(self) -> tuple[str, ...]:
        return tuple(SERIES)

    @asynccontextmanager
    async def open(self, site: Site) -> AsyncIterator[Reader]:
        async with asking(site, "node", self.timeout, self.at_once) as node_rounds:
            yield _Rates(site, node_rounds, self)


class _Rates:
    def __init__(self, site: Site, node_rounds: Rounds[Readings], options: NodeRates) -> None:
        self._site, self._rounds, self._options = site, node_rounds, options
        self._rates, self.describe = CounterRates(longest=options.longest), node_rounds.describe

    async def read(self, now: float) -> Readings:
        """The rates between the last two looks at each node."""
        snapshot, label, selector = self._site.snapshot(), self._options.label, self._options.labels.items()
        nodes = [node.name for node in (snapshot.nodes() if snapshot else ()) if selector <= node.labels.items()]
        answers, silent = await self._rounds.round(nodes, now)
        fault = describe_silent(silent, len(nodes), "nodes")
        if nodes and not answers:
            return Readings(label, now, error=fault)
        self._rates.retain([f"{node}/{counter}" for node in nodes for counter in SERIES.values()])
        rates: SampleTable = {name: {} for name in SERIES}
        for node, readings in answers.items():
            for name, counter in SERIES.items():
                for look in readings.nodes.get(counter, {}).get(node, ()):
                    rate = self._rates.rate(f"{node}/{counter}", look)
                    if rate is not None:
                        rates[name][node] = (rate,)
        return Readings(label, now, nodes=rates, faults=dict.fromkeys(SERIES, fault) if fault else {})


@hookimpl
def register_sources() -> Sequence[type[Source]]:
    return [NodeRates]
