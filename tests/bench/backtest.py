"""What trying policies costs: two weeks of one workload with three policies, an hour and two of 1,000 workloads whose
load is an hourly wave, and a day of 1,000 whose load is a daily one.

Run it as `PYTHONPATH=. python tests/bench/backtest.py`. With `--fleet` it instead plays a day of 10,000 workloads, in
20 parts, by the clock. With `--prometheus` it instead reads a week of 500 workloads
from a genuine Prometheus, which it fills first, and says how much memory that takes. Each is the installed command, in
processes of its own; nothing here passes or fails. Knows nothing of what the command prints.
"""

import asyncio
import ctypes
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.kit.measuring import machine
from tests.kube.fetch import find_program
from tests.kube.prometheus_server import PrometheusServer

DAY = 86400
DAYS, WORKLOADS, FLEET, SERIES = 14, 1000, 10_000, 500
_BECOME_PARENT = 36
"""Of prctl (PR_SET_CHILD_SUBREAPER): the processes that a child leaves behind become ours, and their CPU is counted."""

SHOP = Path(__file__).parents[2] / "config/scenarios/shop/policies"
POLICIES = [SHOP / f"{name}.toml" for name in ("hpa", "step-tolerance", "double-threshold")]
"""All evaluate every 15 s, which is also how often they are measured."""

HOURLY, DAILY = "1 + 0.5 * sin(t / 600)", "1 + 0.5 * sin(t * 6.283 / 86400)"

MANY = """
policies = "policies"
state = "state"

[[source]]
type = "resource-metrics"

[cluster]
type = "simulated"
nodes = [{ name = "node", count = 100, cpu = "1000", memory = "1000Gi", pods = 1000 }]
metrics = { resolution = 15, noise = 0.05 }

[scenario]
parts = %(parts)d

[[cluster.workloads]]
namespace = "shop"
name = "web"
count = %(count)d
replicas = 3
cpu = "500m"
demand = { formula = "%(wave)s" }
"""


def cores(at: int, shift: float = 0.0) -> float:
    """The load of a workload over a day, in cores."""
    return 3 - 1.8 * math.sin(2 * math.pi * at / DAY + shift)


def recording() -> Iterator[str]:
    """The load of one workload, each minute of two weeks."""
    yield "time,series,subject,key,value,window\n"
    for at in range(0, DAYS * DAY + 1, 60):
        for pod in range(6):
            yield f"{1772000000 + at},cpu,pod,shop/web-7d4-{pod},{cores(at) / 6:.4f},60\n"


def openmetrics(begun: int) -> Iterator[str]:
    """The load of all workloads, each minute of a week."""
    yield "# TYPE load gauge\n"
    for number in range(SERIES):
        name = "web" if number == 0 else f"web-{number}"
        for at in range(0, 7 * DAY, 60):
            yield f'load{{namespace="shop",deployment="{name}"}} {cores(at, number):.4f} {begun + at}\n'
    yield "# EOF\n"


def run(what: str, folder: Path, *words: object) -> tuple[float, float]:
    """Run a command, and print what it took. Returns the seconds by the clock, and of CPU."""
    command = [str(Path(sys.executable).with_name("elasticd")), *map(str, words)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    begun = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, process_group=0)
    _, status, usage = os.wait4(process.pid, 0)
    lasted, usages = time.perf_counter() - begun, [usage]
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{what}: exit code {process.returncode}")
    with suppress(ChildProcessError):
        while True:  # what it began and has left behind, and what that has waited for: the processes that play
            usages.append(os.wait4(-process.pid, 0)[2])
    cpu, most = sum(each.ru_utime + each.ru_stime for each in usages), max(each.ru_maxrss for each in usages)
    print(f"{what}: {lasted:.1f} s, {cpu:.1f} s of CPU, {most / 1024:.0f} MiB", flush=True)
    return lasted, cpu


def try_policies(folder: Path) -> None:
    """Measure a backtest and a simulation."""
    (folder / "load.csv").write_text("".join(recording()))
    words = ("--recording", "load.csv", "--cpu", "500m")
    _, cpu = run(f"{DAYS} days, {len(POLICIES)} policies", folder, "backtest", *POLICIES, *words)
    print(f"  {cpu / DAYS / len(POLICIES):.2f} s of CPU for a policy and day")
    asked = simulating(folder, WORKLOADS, 2, HOURLY)
    _, first = run(f"{WORKLOADS} workloads for an hour, 2 parts", folder, *asked, 1)
    later = run(f"{WORKLOADS} workloads for two hours, 2 parts", folder, *asked, 2)[1] - first
    each, day = 1e6 * 15 / 3600 / WORKLOADS, (first + 23 * later) * FLEET / WORKLOADS
    print(
        f"  {first * each:.0f} us of CPU for a workload and 15 s in the first hour, {later * each:.0f} us in the second"
    )
    print(f"  at that rate {FLEET:,} for a day: {day / 60:.0f} min of CPU")
    asked = simulating(folder, WORKLOADS, 2, DAILY)
    lasted, _ = run(f"{WORKLOADS} workloads for a day of a daily wave, 2 parts", folder, *asked, 24)
    print(f"  at that rate {FLEET:,} in {2 * FLEET // WORKLOADS} parts: {lasted * FLEET / WORKLOADS / 60:.1f} min")


def try_fleet(folder: Path) -> None:
    """Measure a day of a fleet, in parts of 500 workloads."""
    parts = 2 * FLEET // WORKLOADS
    asked = simulating(folder, FLEET, parts, DAILY)
    lasted, _ = run(f"{FLEET} workloads for a day of a daily wave, {parts} parts", folder, *asked, 24)
    print(f"goal: 10 min: {'met' if lasted < 600 else 'missed'}, {lasted / 60:.1f} min")


def simulating(folder: Path, count: int, parts: int, wave: str) -> tuple[str, ...]:
    """Write so many workloads with a load of this formula. Returns the command that plays them, but for its hours."""
    (folder / "elasticd.toml").write_text(MANY % {"count": count, "parts": parts, "wave": wave})
    (folder / "policies").mkdir(exist_ok=True)
    single, every = 'workload = { namespace = "shop", name = "web" }', 'select = { namespaces = ["shop"] }'
    (folder / "policies/all.toml").write_text(POLICIES[0].read_text().replace(single, every))
    return "simulate", "elasticd.toml", "--hours"


async def read_prometheus(folder: Path) -> None:
    """Fill a Prometheus, and measure a backtest of one of its workloads."""
    promtool = find_program("promtool")
    if promtool is None:
        raise SystemExit("no promtool here: it comes with Debian's prometheus")
    with (folder / "past.txt").open("w") as file:
        file.writelines(openmetrics(int(time.time()) // 60 * 60 - 7 * DAY))
    fill = [promtool, "tsdb", "create-blocks-from", "openmetrics", "--max-block-duration=48h", "past.txt", "data"]
    await asyncio.to_thread(subprocess.run, fill, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    async with PrometheusServer(folder) as server:
        load = ("--prometheus", server.url, "--query", "sum by (namespace, deployment) (load)", "--since", "7d")
        words = ("backtest", POLICIES[0], *load, "--cpu", "500m", "--jobs", 1)
        await asyncio.to_thread(run, f"a week of {SERIES} workloads from Prometheus, 1 policy", folder, *words)


def main() -> None:
    """Print the machine and the figures."""
    ctypes.CDLL(None, use_errno=True).prctl(_BECOME_PARENT, 1)
    print(machine(), flush=True)
    with TemporaryDirectory() as folder:
        if sys.argv[1:] == ["--prometheus"]:
            asyncio.run(read_prometheus(Path(folder)))
        elif sys.argv[1:] == ["--fleet"]:
            try_fleet(Path(folder))
        else:
            try_policies(Path(folder))


if __name__ == "__main__":
    main()
