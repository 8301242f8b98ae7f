"""Whether a daemon grows while everything goes wrong around it: `python -m tests.faults.soak [--hours H] [--seed N]`.

The faults of one seed after the other hit the same two daemons, of which the first is never killed. After each seed
everything must be whole again, and what the first daemon holds is printed. Ends with 1 at a violation, or if the first
daemon holds more in the last third of the time than in the one before (of its journal: more than it may).
"""

import argparse
import asyncio
import secrets
import sys
import tempfile
import time
from itertools import count
from pathlib import Path

from tests.faults.__main__ import cluster, line
from tests.faults.episode import Episode, episode
from tests.faults.plan import Blow, Trouble, drawn
from tests.kit.growth import Held, grown, held
from tests.kit.measuring import machine
from tests.kube.running import Running

MORE = "[journal]\nmegabytes = 1\nsegments = 4\n"
LIMITS = {"journal": 5 << 10}
"""KiB: that many segments, and one that is being written. Filling them is no growth."""


def spares_first(trouble: Trouble) -> bool:
    """Whether it leaves the first daemon's process alone: what is started again holds nothing."""
    return not (isinstance(trouble, Blow) and trouble.kind == "kill" and trouble.target == 0)


async def measured(daemon: Running) -> Held:
    """What a daemon holds."""
    _, metrics = await daemon.page("/metrics")
    return await asyncio.to_thread(held, daemon.program.pid, daemon.folder / "state", metrics.count("\n"))


async def soak(created: Episode, seconds: float, seed: int) -> list[str]:
    """What was violated, or has grown, after so many seconds of faults."""
    end, holds = time.monotonic() + seconds, list[Held]()
    for number in count(seed):
        troubles = [trouble for trouble in drawn(number, among=created.features) if spares_first(trouble)]
        report = await created.run(troubles)
        holds.append(await measured(created.daemons[0]))
        print(line(number, troubles, report), holds[-1], sep="\n  ", flush=True)
        if report.violations:
            return [*report.violations, *map(str, troubles)]
        if time.monotonic() > end:
            return grown(holds, LIMITS)
    raise AssertionError("counting never ends")


async def run(hours: float, seed: int, folder: Path) -> int:
    """Exits with 1 where something was violated or has grown."""
    async with cluster(folder / "kube") as kube, episode(kube, folder, seed, MORE) as created:
        print(f"{machine()}; Kubernetes {kube.plane.version[0]}.{kube.plane.version[1]}", flush=True)
        found = await soak(created, hours * 3600, seed)
    print("\n".join(found) or "nothing was violated, and nothing has grown")
    return int(bool(found))


def main() -> int:
    """See above."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak", description="Run faults against one daemon.")
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument("--folder", type=Path, help="keep everything there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        return asyncio.run(run(options.hours, options.seed, options.folder or Path(name)))


if __name__ == "__main__":
    sys.exit(main())
