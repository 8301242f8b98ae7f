"""What a process holds, measured again and again, and whether it grows.

Knows processes and files; knows nothing of what the process does.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct

GROWTH = 1.05
"""The most that there may be in the last third, to the most in the one before."""
SLACK = 2
"""So many more are none: a connection is open for a moment, a thread not ended yet."""


class Held(Struct, frozen=True):
    """What a process holds."""

    resident: int
    """KiB"""
    descriptors: int
    threads: int
    journal: int
    """KiB"""
    series: int


def held(pid: int, journal: Path, series: int) -> Held:
    """What this process holds now; `series` are those of its metrics."""
    process = Path("/proc") / str(pid)
    return Held(
        resident=int((process / "statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") >> 10,
        descriptors=len(list((process / "fd").iterdir())),
        threads=len(list((process / "task").iterdir())),
        journal=sum(path.stat().st_size for path in journal.iterdir()) >> 10,
        series=series,
    )


def grown(measured: Sequence[Struct], limits: Mapping[str, int] = MappingProxyType({})) -> list[str]:
    """What there is more of in the last third than in the one before, or more than its limit where it has one."""
    third = len(measured) // 3
    before, after = measured[third : 2 * third], measured[2 * third :]
    if not before:
        return []
    return [
        f"{name}: at most {was}, then {now}"
        for name in measured[0].__struct_fields__
        for was, now in [[max(getattr(each, name) for each in part) for part in (before, after)]]
        if now > limits.get(name, max(GROWTH * was, was + SLACK))
    ]
