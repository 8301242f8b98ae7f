"""The demo in virtual time: the shipped settings and policies, through the daemon's own loop."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from elasticd.cluster.simulated import Simulated
from elasticd.config import Settings, load_settings, read_policies
from elasticd.model.policy import Policy, PoolPolicy
from elasticd.model.records import Decision, Outcome
from elasticd.registry import discover
from elasticd.testing import simulate
from elasticd.ui import decisions as show
from tests.kit.placers import Heard

DEMO = Path(__file__).resolve().parents[2] / "config" / "demo" / "elasticd.toml"
DAY = 120
"""Seconds of a day of the catalog, which begins with each even minute of the clock."""
START = 1_700_000_040.0
assert START % DAY == 0


def demo() -> tuple[Settings, Sequence[Policy | PoolPolicy]]:
    """The shipped settings and policies."""
    registry = discover()
    settings = load_settings(DEMO, registry)
    policies, errors = read_policies(settings.policies, registry)
    assert errors == []
    return settings, policies


def play(start: float = START, only: str = "", seconds: float = 120.0, *, told_by_others: bool = True) -> Heard:
    """What the demo decides and does in its first two minutes, or so many seconds, in all or by one policy; also
    by what a broker outside tells, whose time is not virtual."""
    told = Heard()
    settings, policies = demo()
    assert isinstance(settings.cluster, Simulated)
    chosen = [policy for policy in policies if only in ("", policy.name)]
    sources = [source for source in settings.sources if told_by_others or not source.pushes]
    asyncio.run(simulate(settings.cluster, chosen, seconds, sources=sources, listeners=[told], start=start))
    return told


def at_48(records: list[Decision | Outcome]) -> str:
    """What explain prints of the catalog in the second 48 of its day, at 100 columns."""
    made = [one for one in records if isinstance(one, Decision) and one.at <= START + 48]
    console = Console(width=100, color_system=None, markup=False, emoji=False, highlight=False)
    with console.capture() as captured:
        console.print(show.explain(made[-1], None, made[-1].at + 1))
    return "\n".join(line.rstrip() for line in captured.get().rstrip().splitlines())


if __name__ == "__main__":
    run = play(only="catalog")
    print(at_48(sorted([*run.made, *run.outcomes], key=lambda one: one.at)))
