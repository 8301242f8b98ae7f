"""Whether anything grows in a day: `python tests/bench/soak.py [HOURS]` plays the demo's cluster and policies for so
many hours of virtual time (24 unless given), with a journal on disk and the daemon's metrics.

It prints what there is after each part of the time, and ends with 1 if anything has grown from the second third to the
last.
"""

import asyncio
import gc
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from elasticd.journal import Journal
from elasticd.model.listener import Notice
from elasticd.model.records import Decision, Outcome
from elasticd.telemetry.metrics import DaemonMetrics
from elasticd.testing import simulate
from tests.kit.demos import START, demo
from tests.kit.growth import Held, grown, held
from tests.kit.measuring import machine

PARTS = 12


class HeldInside(Held, frozen=True):
    """What a process holds, and of what it sees of itself."""

    objects: int


class Soak:
    """A listener that keeps a journal on disk and the metrics, and measures at times."""

    def __init__(self, folder: Path, every: float) -> None:
        self._folder, self._every, self._next = folder, every, START + every
        self._journal, self._metrics = Journal(folder, segment_bytes=1 << 20), DaemonMetrics()
        self.held: list[HeldInside] = []

    def on(self, record: Notice) -> None:
        self._metrics.on(record)
        if isinstance(record, Decision | Outcome):
            self._journal.append(record)
            self._journal.flush()
            if record.at >= self._next:
                self._next += self._every
                self._measure()

    def _measure(self) -> None:
        gc.collect()
        series = self._metrics.render(leading=True, journal_failures=0).count(b"\n")
        self.held.append(
            HeldInside(
                objects=len(gc.get_objects()),
                **asdict(held(os.getpid(), self._folder, series)),
            )
        )
        print(self.held[-1], flush=True)

    def close(self) -> None:
        self._journal.close()


def main(hours: float) -> int:
    print(machine())
    settings, policies = demo()
    cluster: Any = settings.cluster
    sources = [source for source in settings.sources if not source.pushes]
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(Path(folder), hours * 3600 / PARTS)
        asyncio.run(simulate(cluster, policies, hours * 3600, sources=sources, listeners=[soak], start=START))
        soak.close()
    growth = grown(soak.held)
    print("\n".join(growth) or "nothing has grown")
    return int(bool(growth))


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 24.0))
