"""A status page about what a test says, served from a thread of its own. Knows the records; knows no browser."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from elasticd.base.clock import WallClock
from elasticd.journal import Journal
from elasticd.model.listener import Governed, Notice
from elasticd.model.moves import Underway
from elasticd.model.records import Decision
from elasticd.model.reports import PolicyInForce, PoolReport
from elasticd.model.workload import Ref
from elasticd.sources.poller import SourceReport
from elasticd.telemetry.access import UNASKED, Access
from elasticd.telemetry.events import Events
from elasticd.telemetry.summaries import DaemonSummary
from elasticd.telemetry.web import Pages, serve
from elasticd.ui.past import Past
from tests.kit.records import decision

METER = SourceReport("meter", "resource-metrics", "ok", 15.0, 3.0, 40, 0, 0.01, 120, ("cpu", "memory"))


def steady(name: str, at: float, namespace: str = "shop", **changes: Any) -> Decision:
    """A workload with three replicas, as it should have; nothing is wrong with it."""
    usual = {
        "id": f"{name}@{at}",
        "policy": name,
        "workload": Ref(namespace, "Deployment", name),
        "verdict": "keep",
        "reason": "DesiredWithinRange",
        "message": "",
        "current": 3,
        "replicas": 3,
        "wish": 3,
        "failures": (),
        "limits": (),
        "action": None,
    }
    return decision(at, **{**usual, **changes})


@dataclass
class Site:
    """What the page is about. `address` is where it is served."""

    folder: Path
    decisions: list[Decision] = field(default_factory=list)
    pools: Sequence[PoolReport] = ()
    nodes: Sequence[object] = ()
    changes: dict[str, Any] = field(default_factory=dict)
    """Fields of the daemon's summary that differ from those of one with which nothing is wrong."""
    address: str = ""

    def __post_init__(self) -> None:
        self.clock = WallClock()
        self.journal = Journal(self.folder)
        self.events = Events(self.summary, lambda: self.decisions, every=0.1)
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()

    def summary(self) -> DaemonSummary:
        policies = tuple([PolicyInForce(made.policy, "act") for made in self.decisions])
        usual = DaemonSummary(
            self.clock.now(), True, "", False, "", self.clock.now(), (), (), "", "", policies, (METER,), ()
        )
        return replace(usual, **self.changes)

    def journaled(self, *records: Any) -> None:
        """Write records into the journal."""
        for record in records:
            self.journal.append(record)
        self.journal.flush()

    def tell(self, *records: Notice) -> None:
        """Let listeners hear of records."""
        for record in records:
            self._loop.call_soon_threadsafe(self.events.on, record)

    def govern(self, decisions: Sequence[Decision]) -> None:
        """From now on there are these workloads and no others."""
        self.decisions = list(decisions)
        keys = {(made.policy, made.workload) for made in decisions}
        self.tell(Governed(keys), *decisions)

    def pages(self) -> Pages:
        past = Past(self.folder, self.clock)

        async def nodes(node: str) -> object:
            return self.nodes if node else self.pools

        async def nothing(*_: str) -> Mapping[str, object]:
            return {}

        return Pages(
            metrics=lambda: lambda: b"",
            health=str,
            readiness=str,
            status=dict,
            sources=list,
            query=nothing,
            nodes=nodes,
            moves=nothing,
            pod=nothing,
            history=past.history,
            explain=past.explain,
            plugins=lambda: [{"name": "hpa", "kind": "strategy", "distribution": "elasticd", "summary": "the HPA"}],
            events=self.events,
        )

    def run(self, access: Access, ready: Callable[[], object]) -> None:
        """Serve until `stop`; in a thread of its own."""

        async def serving() -> None:
            async with serve(self.pages(), "127.0.0.1", 0, access) as self.address:
                ready()
                sending = asyncio.create_task(self.events.run())
                await self._stop.wait()
                sending.cancel()

        self._loop.run_until_complete(serving())
        self._loop.close()

    def stop(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)


@contextmanager
def site(folder: Path, access: Access = UNASKED, **about: Any) -> Iterator[Site]:
    """A page about these decisions, pools and nodes, for as long as the block runs."""
    shown, ready = Site(folder, **about), threading.Event()
    thread = threading.Thread(target=shown.run, args=(access, ready.set))
    thread.start()
    try:
        assert ready.wait(20)
        yield shown
    finally:
        shown.stop()
        thread.join(20)
        shown.journal.close()


def moving(name: str, how: Any, step: str, **changes: Any) -> Underway:
    """A move in flight, at this step for a minute."""
    move = Underway(Ref("shop", "Pod", name, "v1"), f"uid-{name}", how, step, time.time() - 60, node="node-1")
    return replace(move, **changes)
