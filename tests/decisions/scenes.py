"""Simulated clusters, with everything that is bundled at work, and every record of what was decided on them.

Knows settings, policies and virtual time; knows nothing of what is right. What was recorded is beside it, one
`NAME.jsonl.xz` a scene; `compare.py` says what is different now.
"""

import asyncio
import lzma
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from math import isfinite, sin
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import fields, replace

from elasticd.api import Forecast, Strategy
from elasticd.base.clock import VirtualClock
from elasticd.cluster.simulated import Simulated
from elasticd.config import load_settings, read_policies
from elasticd.journal import Journal
from elasticd.journal.lines import Record
from elasticd.lab.simulate import play
from elasticd.model.listener import Notice
from elasticd.model.policy import Policy, PoolPolicy
from elasticd.model.workload import Readings
from elasticd.ports.source import Reader, Site, Source
from elasticd.registry import Registry, discover
from tests.kit import faults
from tests.kit.demos import DEMO
from tests.kit.demos import START as DEMO_START

HERE = Path(__file__).parent
START = 1_699_941_600.0
"""A Tuesday, seven o'clock in Berlin: a shop opens, and its newsletter is sent."""
HOURS = 3.5
DIGITS = 6
"""Significant digits that are compared: the sum of a vector may end in others on another processor."""


class Foretold(Source, frozen=True, kw_only=True, tag="foretold"):
    """What one workload will be asked for, as a source of type forecast would say it."""

    complete = False
    series: str
    workload: str
    load: Callable[[float], float]

    def open(self, site: Site) -> AbstractAsyncContextManager[Reader]:
        return nullcontext(_Foretold(self))


class _Foretold:
    def __init__(self, source: Foretold) -> None:
        self._source = source

    async def read(self, now: float) -> Readings:
        first = now // 300 * 300
        values = tuple(self._source.load(first + 60 * step - START) for step in range(60))
        doubt = "it has been wrong of late" if now % 7200 > 6000 else ""
        forecast = Forecast(
            "given", first, first + 1800, first, 60, values, values, tuple(1.1 * one for one in values), doubt=doubt
        )
        return Readings(self._source.label, now, forecasts={self._source.series: {self._source.workload: forecast}})


@dataclass
class Heard:
    """A listener that keeps the journal's records, in order."""

    records: list[Any] = field(default_factory=list)

    def on(self, record: Notice) -> None:
        if isinstance(record, Record):
            self.records.append(record)


Scene = Callable[..., Heard]
"""Takes the plugins, and the folder of a journal where it is to be kept."""


def played(
    registry: Registry,
    settings: Path,
    seconds: float,
    start: float,
    only: Callable[[Policy | PoolPolicy], bool] = lambda policy: True,
    change: Callable[[Policy | PoolPolicy], Any] = lambda policy: policy,
    sources: Iterable[Source] | None = None,
    state: Path | None = None,
) -> Heard:
    """What is decided in so many seconds by the policies that are beside these settings."""
    loaded, heard = load_settings(settings, registry), Heard()
    policies, errors = read_policies(loaded.policies, registry)
    assert errors == []
    assert isinstance(loaded.cluster, Simulated)
    whole = [change(policy) for policy in policies if only(policy)]
    given = [one for one in (loaded.sources if sources is None else sources) if not one.pushes]
    world, journal = loaded.cluster.build(VirtualClock(start)), Journal(state)
    asyncio.run(play(world, whole, start + seconds, journal, sources=given, listeners=[heard]))
    journal.close()
    return heard


EXAMPLES = HERE / "examples" / "elasticd.toml"
FORETOLD = Foretold(
    series="requests_forecast", workload="shop/Deployment/front", load=lambda t: 500 + 400 * sin(t / 1146)
)


def examples(registry: Registry, **more: Any) -> Heard:
    """Every worked example of a policy, as it is shipped."""
    sources = [*load_settings(EXAMPLES, registry).sources, FORETOLD]
    return played(registry, EXAMPLES, HOURS * 3600, START, **{"sources": sources, **more})


def papers(registry: Registry, **more: Any) -> Heard:
    """The same, as papers have them where a strategy knows a mode of that name."""
    return examples(
        registry, only=lambda policy: _as_papers_have_it(policy) != policy, change=_as_papers_have_it, **more
    )


def _as_papers_have_it(policy: Any) -> Any:
    kinds = [name for name in ("strategies", "limits") if hasattr(policy, name)]
    return replace(policy, **{name: tuple(map(_paper, getattr(policy, name))) for name in kinds})


def _paper(strategy: Strategy) -> Strategy:
    """A table of the same options with this mode, so that whatever is refused of it is refused here."""
    if not any(one.name == "mode" and "paper" in str(one.type) for one in fields(strategy)):
        return strategy
    more = {"by": "score", "marks": ()} if hasattr(strategy, "marks") else {}
    return msgspec.convert({**msgspec.to_builtins(strategy), **more, "mode": "paper"}, type(strategy))


def surges(registry: Registry, **more: Any) -> Heard:
    """Policies of pools that move pods, which first bring another copy and then evict."""
    return examples(registry, only=lambda policy: hasattr(policy, "moves"), change=_surging, **more)


def _surging(policy: Any) -> Any:
    return replace(policy, moves=replace(policy.moves, surge=True))


FAULTS = {
    **faults.UNKNOWN,
    **faults.NONSENSE,
    **faults.PARTLY,
    **faults.MOSTLY,
    **faults.ABSURD,
    **faults.MEAGRE,
}
EVERY, LASTS = 600.0, 300.0
"""Seconds from one fault to the next, and how long each lasts."""


def _fault(now: float) -> faults.Fault | None:
    turn, since = divmod(now - START, EVERY)
    return [*FAULTS.values()][int(turn) % len(FAULTS)] if since < LASTS else None


def broken(registry: Registry, **more: Any) -> Heard:
    """Every worked example about workloads, with one fault of the source after another."""
    names = ("cpu", "memory", "concurrency", "order_queue", "mail_queue", "requests", "queue_length", "errors")
    source = faults.Faulty(fault=_fault, series=names)
    only: Callable[[Policy | PoolPolicy], bool] = lambda policy: isinstance(policy, Policy)  # noqa: E731
    return played(registry, EXAMPLES, EVERY * len(FAULTS), START, only, sources=[source], **more)


def demo(registry: Registry, **more: Any) -> Heard:
    """What `make demo` shows in its first five minutes, without what is fitted to the past."""
    sources = [one for one in load_settings(DEMO, registry).sources if not one.forecasts]
    return played(registry, DEMO, 300, DEMO_START, sources=sources, **more)


SCENES: dict[str, Scene] = {one.__name__: one for one in (examples, papers, surges, broken, demo)}


def lines(scene: str) -> Iterator[str]:
    """The records of a scene as JSON, one a line, in order."""
    for record in SCENES[scene](discover()).records:
        table = msgspec.to_builtins(record)
        table.pop("confirmed", None)  # says when, and nothing of what was decided
        yield msgspec.json.encode(rounded(table)).decode()


def rounded(value: Any) -> Any:
    """The same with `DIGITS` of each number, and what JSON has no number for as text."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if isfinite(value) and abs(value) < 1e9 else f"{value:.13g}"
    if isinstance(value, dict):
        return {str(key): rounded(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(one) for one in value]
    return value


def recorded(scene: str) -> list[str]:
    """What was recorded of it."""
    return lzma.decompress((HERE / f"{scene}.jsonl.xz").read_bytes()).decode().splitlines()


def record(scene: str, found: Iterable[str]) -> None:
    """Let this be what is right from now on."""
    (HERE / f"{scene}.jsonl.xz").write_bytes(lzma.compress("".join(f"{one}\n" for one in found).encode(), preset=9))
