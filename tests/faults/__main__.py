"""Run the fault campaign: `python -m tests.faults [--seconds S] [--seed N]`; `make faults` for a quarter of an hour.

Each episode has the next seed. The first that shows a violation ends the campaign, with the fewest of its faults that
still show one.
"""

import argparse
import asyncio
import secrets
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

from tests.faults.episode import Report, episode
from tests.faults.plan import Blow, Trouble, drawn, shortest
from tests.kube import pki
from tests.kube.conftest import QUICK, Kube
from tests.kube.control_plane import ControlPlane
from tests.kube.hollow import HollowNodes
from tests.kube.metrics_api import MetricsApi
from tests.kube.reports import named_nodes


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[Kube]:
    """The control plane of all episodes."""
    async with (
        # elasticd places all pods; kube-scheduler may end where the API server restarts (its cache of bindings).
        ControlPlane(folder, scheduler=False, hpa=QUICK) as plane,
        plane.client() as client,
        HollowNodes(client, named_nodes(3)) as nodes,
        MetricsApi(client, pki.make_server_certificate(plane.folder, "metrics", plane.authority)) as metrics,
    ):
        yield Kube(plane, client, nodes, metrics)


def line(seed: int, troubles: Sequence[Trouble], report: Report) -> str:
    """What came of the faults of a seed."""
    blows = ", ".join(trouble.kind for trouble in troubles if isinstance(trouble, Blow)) or "none"
    did = ", ".join((f"{report.evictions} evictions", *report.features))
    return f"seed {seed}: {did}; {report.injected.total()} faults, blows: {blows}; whole after {report.seconds:.1f} s"


class Campaign:
    """Episodes on one control plane, one after the other."""

    def __init__(self, kube: Kube, folder: Path, beside: Path | None) -> None:
        self._kube, self._folder, self._beside, self._count = kube, folder, beside, count(1)

    async def play(self, seed: int, troubles: Sequence[Trouble]) -> Report:
        """One episode, in a folder of its own."""
        folder = self._folder / f"episode-{next(self._count)}"
        await asyncio.to_thread(folder.mkdir, parents=True)
        async with episode(self._kube, folder, seed, beside=self._beside) as created:
            return await created.run(troubles)

    async def run(self, seed: int) -> bool:
        """The episode of a seed, told in a line; False with what it violates, and the fewest faults that show it."""
        troubles = drawn(seed)
        report = await self.play(seed, troubles)
        print(line(seed, troubles, report), flush=True)
        if not report.violations:
            return True
        print("\n".join(report.violations), *troubles, sep="\n  ", flush=True)

        async def shows(fewer: Sequence[Trouble]) -> bool:
            return bool((await self.play(seed, fewer)).violations)

        print("these show a violation:", *await shortest(troubles, shows), sep="\n  ", flush=True)
        return False


async def run(seconds: float, seed: int, folder: Path, beside: Path | None) -> bool:
    """Episodes for so many seconds, from this seed on; False: one showed a violation."""
    end = time.monotonic() + seconds
    async with cluster(folder / "kube") as kube:
        print(f"Kubernetes {kube.plane.version[0]}.{kube.plane.version[1]}, from seed {seed} on", flush=True)
        campaign = Campaign(kube, folder, beside)
        for number in count(seed):
            if not await campaign.run(number):
                return False
            if time.monotonic() > end:
                return True
    raise AssertionError("counting never ends")


def main() -> int:
    """Exits with 1 where an invariant was violated."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="Run the fault campaign.")
    parser.add_argument("--seconds", type=float, default=900.0)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument("--folder", type=Path, help="keep everything there")
    parser.add_argument("--beside", type=Path, help="run the version in this checkout beside, and in turns")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        whole = asyncio.run(run(options.seconds, options.seed, options.folder or Path(name), options.beside))
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
