"""What measurements have in common: the machine, and one core of it."""

import os
import platform
from pathlib import Path


def machine() -> str:
    """What was measured on, for the first line of what is printed."""
    return f"{platform.python_implementation()} {platform.python_version()}, {os.cpu_count()} x {platform.machine()}"


def alone() -> frozenset[int]:
    """Keep this process on one core, which it names: it is measured as if it had no other, and does not pay for being
    moved from one to another. The last one, as the first serves the devices."""
    core = frozenset({max(os.sched_getaffinity(0))})
    os.sched_setaffinity(0, core)
    return core


def resident(*, peak: bool = False) -> float:
    """MiB of this process, now or at most since it began or since its peak was last forgotten."""
    word = "VmHWM:" if peak else "VmRSS:"
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(word)) / 1024
