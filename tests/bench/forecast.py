"""What a forecast costs: the fit of two weeks of minutes in its process, and what the strategy takes to read it.

Run it as `PYTHONPATH=. python tests/bench/forecast.py`. It prints what it measured, and exits 1 where a fit takes two
seconds or more. Knows nothing of the daemon.
"""

import asyncio
import sys
import time
import timeit
from contextlib import aclosing
from functools import partial
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from elasticd.api import Quality, Series
from elasticd.decision.decide import Case, decide
from elasticd.kit.history import begin
from elasticd.model.forecast import Forecast
from elasticd.model.policy import Bounds, Policy, Target
from elasticd.registry import Hooks
from elasticd.sources.forecast.fitter import Apart
from elasticd.sources.forecasting.arrays import Floats
from elasticd.sources.forecasting.request import Method, Question, Wish
from elasticd.testing import NOW, observation
from elasticd_plugins.forecast import Ahead
from tests.kit.measuring import machine
from tests.kit.waves import DAY, noise, track, wave

GOAL = 2.0
"""Seconds for one fit, the start of its process not counted."""

ROUNDS = 5
TIMES = np.arange(14 * DAY)
METHODS: tuple[Method, ...] = ("robust-stl", "fft", "crane", "crane-max", "holt")
MODELS = (
    Ahead(series="load", target=10, lead=3600),
    Ahead(series="load", model="mmc", mu=10, wait=0.2, lead=3600),
)
LOADS: dict[str, Floats] = {
    "a daily wave with noise": wave(14),
    "the same, and weekends": np.maximum(wave(14, 2) * np.where(TIMES // DAY % 7 < 5, 1.0, 0.3), 0),
    "the same, a drift and a level shift": wave(14) + TIMES / 500 + np.where(TIMES > 12_000, 40, 0),
    "white noise": 50 + noise(14 * DAY, 5),
    "a random walk": np.abs(np.cumsum(noise(14 * DAY, 1))),
}


async def timed(fitter: Apart, question: Question) -> tuple[float, str]:
    """The best of several, since others use the machine too; and what came of it."""
    taken, told = [], ""
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        found = (await fitter.fit(question)).forecast
        taken.append(time.perf_counter() - begun)
        told = "none" if found is None else f"{found.method}, skill {found.skill}"
    return min(taken), told


async def fits() -> float:
    """Print a line for each load and method; gives the longest."""
    longest = 0.0
    async with aclosing(Apart(60.0)) as fitter:
        begun = time.perf_counter()
        await fitter.fit(Question(Wish(), track(wave(0.5))))
        print(f"the process that fits, from its start to its first reply: {time.perf_counter() - begun:.2f} s")
        print("a fit of 14 days of minutes, 20,160 values, in its process:")
        for name, load in LOADS.items():
            taken, told = await timed(fitter, Question(Wish(), track(load)))
            print(f"  {taken:5.2f} s  {name} ({told})")
            longest = max(longest, taken)
        for method in METHODS:
            taken, _ = await timed(fitter, Question(Wish(method=method), track(wave(14))))
            print(f"  {taken:5.2f} s  the daily wave by {method} alone")
            longest = max(longest, taken)
        print(f"  memory of the process, most: {_most(fitter):.0f} MiB")
    return longest


def _most(fitter: Apart) -> float:
    """MiB that the process has held at most."""
    assert fitter._process is not None
    lines = Path(f"/proc/{fitter._process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def decisions() -> None:
    """Print what a decision by the strategy alone costs."""
    path = tuple(float(value) for value in wave(0.1))
    found = Forecast("fft", NOW - 60, NOW + 1800, NOW - 60, values=path, lower=path, upper=path, skill=0.2)
    seen = replace(observation([0.5] * 10), series={"load": Series("load", "ahead", Quality.FRESH, forecast=found)})
    for model in MODELS:
        target = Target("default", "web")
        policy = Policy(name="bench", replicas=Bounds(100), strategies=(model,), workload=target, mode="act")
        case = Case(policy, seen, begin(seen.at, 10), Hooks((model,)))
        taken = min(timeit.repeat(partial(decide, case), number=1000, repeat=5)) / 1000
        print(f"one forecast decision, model {model.model}, an hour ahead by the minute: {taken * 1e6:.0f} us")


def main() -> int:
    """Measure, print, and say whether the goal is met."""
    print(machine())
    longest = asyncio.run(fits())
    decisions()
    print(f"goal: a fit in less than {GOAL:g} s: {'met' if longest < GOAL else 'MISSED'}")
    return 0 if longest < GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
