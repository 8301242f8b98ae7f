"""What a line of the journal costs: `make bench`.

CPU of all threads of the process, so that compressing counts too. With `--growth` it says instead by how much
the journals of the simulations of tests/decisions are larger for what decisions are made from. Nothing here passes or
fails.
"""

import asyncio
import gzip
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from elasticd.journal import Journal, read, read_back
from elasticd.journal.segments import compress, next_segment, segments
from elasticd.model.listener import Notice
from elasticd.model.records import Decision
from elasticd.registry import discover
from elasticd.sources.resource_metrics import ResourceMetrics
from elasticd.testing import simulate
from tests.bench.steady import PODS, WORKLOADS, cluster, policy
from tests.decisions.scenes import SCENES
from tests.kit.measuring import alone, machine

SECONDS, BATCH, BEST = 30, 100, 5
SEGMENT = 8 << 20
"""Bytes of a segment: several are filled, and compressed."""


class Keep:
    """A listener that keeps decisions."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []

    def on(self, record: Notice) -> None:
        """Keep a decision."""
        if isinstance(record, Decision):
            self.decisions.append(record)


def decisions(utilization: int, *, noise: bool) -> list[Decision]:
    """What is decided in some seconds; with noise, each sample has another number of many digits."""
    heard, chance = Keep(), random.Random(1)
    run = simulate(
        cluster(), [policy(1.0, utilization)], float(SECONDS), sources=[ResourceMetrics()], listeners=[heard]
    )
    asyncio.run(run)
    return [_with_noise(one, chance) for one in heard.decisions] if noise else heard.decisions


def _with_noise(decision: Decision, chance: random.Random) -> Decision:
    series = [
        replace(one, samples=tuple([replace(sample, value=chance.random()) for sample in one.samples]))
        for one in decision.series
    ]
    return replace(decision, series=tuple(series))


def write(folder: Path, made: Sequence[Decision]) -> float:
    """Append them in batches, as ticks do; the microseconds of CPU each."""
    began = time.process_time()
    journal = Journal(folder, SEGMENT, 64)
    for index, decision in enumerate(made, 1):
        journal.append(decision)
        if index % BATCH == 0:
            journal.flush()
    journal.close()
    return (time.process_time() - began) / len(made) * 1e6


def measured(work: Callable[[], object], count: int) -> float:
    """The microseconds of CPU for each of so many."""
    began = time.process_time()
    work()
    return (time.process_time() - began) / count * 1e6


def report(made: Sequence[Decision]) -> None:
    """Write and read them several times, and print the least of each cost."""
    appending, reading, searching = list[float](), list[float](), list[float]()
    sizes: dict[str, int] = {".gz": 0, ".jsonl": 0}
    for _ in range(BEST):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            appending.append(write(folder, made))
            reading.append(measured(lambda: sum(1 for _ in read(folder)), len(made)))  # noqa: B023
            searching.append(measured(lambda: list(read_back(folder, b'"nobody"')), len(made)))  # noqa: B023
            sizes = {end: sum(path.stat().st_size for path in folder.glob(f"*{end}")) for end in sizes}
    print(f"  {min(appending):.1f} us to append one, and to compress its segment")
    print(f"  {min(reading):.1f} us to read one, {min(searching):.1f} us to pass one over")
    print(f"  {sizes['.gz'] / 1e6:.2f} MB of compressed segments, {sizes['.jsonl'] / 1e6:.2f} MB of plain ones")


def lines_of(path: Path) -> list[bytes]:
    """The lines of a segment, compressed or not."""
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).splitlines(keepends=True)


def size_of(lines: Sequence[bytes]) -> int:
    """The bytes of a compressed segment of these lines."""
    with tempfile.TemporaryDirectory() as name:
        segment = next_segment(Path(name))
        segment.write_bytes(b"".join(lines))
        compress(segment)
        return sum(path.stat().st_size for path in Path(name).iterdir())


def growth() -> None:
    """Print how much larger each simulation's journal is for its lines of type basis."""
    for scene, play in SCENES.items():
        with tempfile.TemporaryDirectory() as name:
            play(discover(), state=Path(name))
            lines = [line for path in segments(Path(name)) for line in lines_of(path)]
        others = [line for line in lines if not line.startswith(b'{"type":"basis"')]
        plain = sum(map(len, lines)) / sum(map(len, others)) - 1
        compressed = size_of(lines) / size_of(others) - 1
        print(f"{scene}: {len(lines)} lines, {plain:.1%} longer, compressed {compressed:.1%}", flush=True)


def main() -> None:
    """Print all figures."""
    print(machine())
    if sys.argv[1:] == ["--growth"]:
        growth()
        return
    alone()
    for label, utilization, noise in (("right as they are", 50, False), ("held by a window", 80, False),
                                      ("right as they are, loads with noise", 50, True)):  # fmt: skip
        made = decisions(utilization, noise=noise)
        print(f"{WORKLOADS} workloads of {PODS} pods, {label}: {len(made)} decisions, the best of {BEST} runs")
        report(made)


if __name__ == "__main__":
    main()
