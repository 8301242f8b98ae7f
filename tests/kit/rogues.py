"""A plugin whose sources and strategies do what none may, each in its own way, as a third party's would.

Knows every way; `tables` and `install` put them into a daemon's folder. Knows nothing of what then holds.
"""

import asyncio
import atexit
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from elasticd.api import Measure, Recommendation, Strategy, hookimpl
from elasticd.model.workload import Readings, Sample
from elasticd.ports.source import Reader, Site, Source

WEB = "shop/Deployment/web"
FOR_EVER = 100_000.0
HUGE = 10_000_000
LONG = "x" * HUGE


def fail(error: BaseException) -> Any:
    raise error


async def hang() -> None:
    await asyncio.Event().wait()


async def later(act: Callable[[], object]) -> None:
    """Something that happens in a task of its own, while the reader waits."""
    asyncio.get_running_loop().call_soon(act)
    await asyncio.sleep(0.1)


class Infinite(dict[str, Any]):
    """A table without an end."""

    def items(self) -> Any:
        return ((f"series-{number}", {}) for number in iter(int, 1))


class Hostile(dict[str, Any]):
    def items(self) -> Any:
        sys.exit("looked at")


def samples(*given: Any) -> Any:
    return {"rogue": {WEB: given}}


OPEN: Mapping[str, Callable[[], Any]] = {
    "open-raises": lambda: fail(ValueError("no\nway")),
    "open-raises-at-length": lambda: fail(ValueError(LONG)),
    "open-exits": lambda: sys.exit(3),
    "open-interrupts": lambda: fail(KeyboardInterrupt()),
    "open-cancels": lambda: fail(asyncio.CancelledError()),
    "open-generator-exit": lambda: fail(GeneratorExit()),
    "open-blocks": lambda: time.sleep(FOR_EVER),
    "open-hangs": hang,
}
READ: Mapping[str, Callable[[], Any]] = {
    "read-raises": lambda: fail(ConnectionError("refused")),
    "read-raises-at-length": lambda: fail(ValueError(LONG)),
    "read-exits": lambda: sys.exit(3),
    "read-interrupts": lambda: fail(KeyboardInterrupt()),
    "read-cancels": lambda: fail(asyncio.CancelledError()),
    "read-generator-exit": lambda: fail(GeneratorExit()),
    "read-blocks": lambda: time.sleep(FOR_EVER),
    "read-hangs": hang,
    "read-hangs-in-a-thread": lambda: asyncio.to_thread(time.sleep, FOR_EVER),
    "task-exits": lambda: later(lambda: sys.exit(3)),
    "loop-stops": lambda: later(asyncio.get_running_loop().stop),
}
SAYS: Mapping[str, Callable[[float], Any]] = {
    "nothing": lambda now: None,
    "text": lambda now: LONG,
    "a-list": lambda now: [0] * HUGE,
    "no-table": lambda now: Readings("x", now, workloads=[1]),  # type: ignore[arg-type]
    "no-name": lambda now: Readings("x", now, workloads={7: {}}),  # type: ignore[dict-item]
    "a-name-at-length": lambda now: Readings("x", now, workloads={LONG: {}}),
    "half-a-character": lambda now: Readings("x", now, workloads={"\ud800": {}}),
    "no-samples": lambda now: Readings("x", now, workloads=samples(7)),
    "text-for-a-number": lambda now: Readings("x", now, workloads=samples(Sample("many", now, now))),  # type: ignore[arg-type]
    "more-than-a-double": lambda now: Readings("x", now, workloads=samples(Sample(10**400, now, now))),
    "millions": lambda now: Readings("x", now, pods={"rogue": {WEB: (Sample(1.0, now, now),) * HUGE}}),
    "millions-of-pods": lambda now: Readings("x", now, pods={"rogue": {f"shop/{n}": () for n in range(100_000)}}),
    "without-end": lambda now: Readings("x", now, pods=Infinite()),
    "hostile": lambda now: Readings("x", now, pods=Hostile()),
    "an-error-at-length": lambda now: Readings("x", now, error=LONG),
    "no-error": lambda now: Readings("x", now, error=7),  # type: ignore[arg-type]
    "a-fault-at-length": lambda now: Readings("x", now, faults={"rogue": LONG}),
    "no-time": lambda now: Readings("x", "now"),  # type: ignore[arg-type]
    "no-newest": lambda now: Readings("x", now, newest="now"),  # type: ignore[arg-type]
    "no-forecast": lambda now: Readings("x", now, forecasts={"rogue": {WEB: 7}}),  # type: ignore[dict-item]
}
TELLS: Mapping[str, Callable[[], Any]] = {
    "describe-exits": lambda: sys.exit(3),
    "describe-at-length": lambda: {"x": LONG},
    "describe-no-json": lambda: {"x": object()},
}
WAKES: Mapping[str, Iterable[tuple[Any, Any]]] = {
    "wakes-nobody": [("workload", {})],
    "wakes-at-length": [("workload", LONG)],
    "wakes-without-end": [("workload", f"shop/Deployment/{number % 30_000}") for number in range(100_000)],
}
ASKED_AGAIN = "asked-again"
WELL = "well"
NAMES = (*OPEN, *READ, *SAYS, *TELLS, *WAKES, ASKED_AGAIN, WELL)


OFFERED: Counter[str] = Counter()
"""How often each source was asked what it offers; of nodes, too."""


class Rogue(Source, frozen=True, kw_only=True, tag="rogue"):
    """A source that does as its name says."""

    every: float = 0.0

    def offers(self) -> tuple[str, ...]:
        OFFERED[self.label] += 1
        if self.label == ASKED_AGAIN and OFFERED[self.label] > 2:
            time.sleep(FOR_EVER)
        return (f"of-{self.label}",)

    @asynccontextmanager
    async def open(self, site: Site) -> AsyncIterator[Reader]:
        if (act := OPEN.get(self.label)) and (waits := act()) is not None:
            await waits
        yield _Rogue(self.label, site)


class _Rogue:
    def __init__(self, name: str, site: Site) -> None:
        self._name, self._site = name, site

    async def read(self, now: float) -> Readings:
        if (act := READ.get(self._name)) and (waits := act()) is not None:
            await waits
        for subject, key in WAKES.get(self._name, ()):
            self._site.wake(subject, key)
        if says := SAYS.get(self._name):
            return says(now)  # type: ignore[no-any-return]
        sample = Sample(1.0, now, now)
        return Readings(self._name, now, workloads={f"of-{self._name}": {WEB: (sample,)}})

    def describe(self) -> object:
        return tells() if (tells := TELLS.get(self._name)) else {"reads": "well"}


def recommends(replicas: int, text: str = "Wanted", measures: int = 1) -> Callable[[], Recommendation]:
    return lambda: Recommendation(replicas, text, text, (Measure(text, text, text, replicas, text, text),) * measures)


WISHES: Mapping[str, Callable[[], Any]] = {
    "wish-at-length": recommends(3, LONG),
    "wish-without-end": recommends(3, "Wanted", 100_000),
    "wish-raises-at-length": lambda: fail(ValueError(LONG)),
    "wish-exits": lambda: sys.exit(3),
    "wish-interrupts": lambda: fail(KeyboardInterrupt()),
    "wish-cancels": lambda: fail(asyncio.CancelledError()),
    "wish-generator-exit": lambda: fail(GeneratorExit()),
    "wish-is-text": lambda: LONG,
    "wish-is-a-list": lambda: [0] * HUGE,
    "wish-blocks": lambda: time.sleep(FOR_EVER),
}


def leave_child() -> None:
    """A process that has all that the daemon has opened, and outlives it."""
    if (child := os.fork()) == 0:
        time.sleep(60)
        os.kill(os.getpid(), signal.SIGKILL)
    Path("child").write_text(str(child))


LEAVES: Mapping[str, Callable[[], Any]] = {
    "leaves-a-thread": lambda: threading.Thread(target=time.sleep, args=(FOR_EVER,), daemon=False).start(),
    "leaves-a-hook": lambda: atexit.register(time.sleep, FOR_EVER),
    "leaves-a-child": leave_child,
}
"""What may outlast the daemon, left at the first call."""
_LEFT = set[str]()


def leave(how: str) -> Recommendation:
    if how not in _LEFT:
        _LEFT.add(how)
        LEAVES[how]()
    return Recommendation(3, "Wanted", "left")


OPTIONS_BLOCK = "options-block"
"""A strategy that blocks while its options are decoded, after it has made a file of this name."""


class Rogues(Strategy, tag="rogues", frozen=True):
    """A strategy that does as its option says."""

    how: str

    def __post_init__(self) -> None:
        if self.how == OPTIONS_BLOCK:
            Path(OPTIONS_BLOCK).touch()
            time.sleep(FOR_EVER)

    def reads(self) -> tuple[str, ...]:
        return ()

    @hookimpl
    def recommend_replicas(self) -> Any:
        return leave(self.how) if self.how in LEAVES else WISHES[self.how]()


@hookimpl
def register_strategies() -> list[type[Strategy]]:
    """What elasticd finds too."""
    return [Rogues]


@hookimpl
def register_sources() -> list[type[Source]]:
    """What elasticd finds."""
    return [Rogue]


def tables(names: Iterable[str] = NAMES) -> str:
    """These sources beside the cluster's own, for elasticd.toml."""
    return '\n[[source]]\ntype = "resource-metrics"\n' + "".join(
        f'[[source]]\ntype = "rogue"\nname = "{name}"\n' for name in names
    )


def observing(how: str) -> str:
    """A policy with the strategy that does so."""
    return f"""
interval = 0.2
jitter = 0
workload = {{ namespace = "shop", name = "web" }}
replicas = {{ min = 1, max = 8 }}
strategy = [{{ type = "rogues", how = "{how}" }}]
"""


def install(folder: Path) -> Path:
    """Where a process that has it on its path finds this plugin, as it finds any that is installed."""
    info = folder / "site" / "rogues-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rogues\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[elasticd]\nrogues = tests.kit.rogues\n")
    return info.parent
